"""From what there is in a source to what a record declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_ase.names import IDENTITY
from molrec_ase.plain import to_plain
from molrec_ase.survey import STEP_KEYS, Survey
from molrec_convert.model import (
    NO_FILL,
    TAGS,
    Block,
    BlockDeclaration,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    Meta,
    MetaDeclaration,
)

__all__ = ["ATOMS", "UNITS", "Plan", "collection_declaration", "plan_trajectory"]

ATOMS = "atoms"
UNITS = {"preset": "metal"}


@dataclass
class Plan:
    """What is declared; `system` holds the columns and keys that never change (of a trajectory)."""

    declaration: Declaration
    system: Frame


def plan_trajectory(survey: Survey) -> Plan:
    """One run of all configurations: what is the same in every one goes to the system."""
    count = len(survey)
    rows = int(survey.counts.max()) if count else 0
    fixed = {}
    columns = {}
    for name, facts in survey.columns.items():
        whole = facts.owners == count
        if name in IDENTITY and whole and facts.constant and survey.uniform and facts.first is not None:
            fixed[name] = Column(facts.first)
        else:
            columns[name] = ColumnDeclaration(facts.dtype, facts.trailing, not whole)
    meta = Meta({"units": UNITS})
    keys = {}
    for name, values in survey.values.items():
        tag = values.tag(count)
        constant = values.constant and values.owners == count
        if constant and name not in STEP_KEYS and name not in survey.per_step:
            meta.put(name, values.first, tag)
        else:
            keys[name] = _key(tag, values.owners == count)
    blocks = {ATOMS: BlockDeclaration(columns, rows=rows)} if columns else {}
    declaration = Declaration(blocks, keys)
    declaration.check()
    system = Frame({ATOMS: Block(fixed, count=int(survey.counts[0]))} if fixed else {}, meta)
    return Plan(declaration, system)


def collection_declaration(survey: Survey) -> Declaration:
    """A record of each configuration: results change from frame to frame, everything else is of the system."""
    count = len(survey)
    rows = int(survey.counts.max()) if count else 0
    columns = {
        name: ColumnDeclaration(facts.dtype, facts.trailing, facts.owners < count)
        for name, facts in survey.columns.items()
        if name not in IDENTITY
    }
    keys = {
        name: _key(facts.tag(count), facts.owners == count)
        for name, facts in survey.values.items()
        if name in STEP_KEYS or name in survey.per_step
    }
    declaration = Declaration({ATOMS: BlockDeclaration(columns, rows=rows)} if columns else {}, keys)
    declaration.check()
    return declaration


def _key(tag: str, whole: bool) -> MetaDeclaration:
    if whole:
        return MetaDeclaration(tag, NO_FILL)
    if tag == "json":
        return MetaDeclaration(tag, None)
    width = TAGS[tag].width
    return MetaDeclaration(tag, np.full(width, np.nan) if width else float("nan"))


def stored(value: Any, tag: str, fill: Any) -> Any:
    """A value as the key declares it; the fill for none.

    Where a key is a JSON document because its values are of several kinds, numbers and vectors among them become
    documents too.
    """
    if value is None:
        return None if fill is NO_FILL else fill
    return to_plain(value) if tag == "json" and isinstance(value, (float, np.ndarray)) else value
