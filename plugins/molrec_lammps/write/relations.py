"""The rows of Bonds, Angles, Dihedrals, Impropers and those of fixes (CMAP …): relations by ids instead of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Block
from molrec_convert.report import Report
from molrec_lammps.common.atom_styles import AtomStyle
from molrec_lammps.data.sections import RELATIONS
from molrec_lammps.write.state import State
from molrec_lammps.write.types import Types, relation_types

__all__ = ["RelationRows", "relation_rows"]

_ENDS = ("atomi", "atomj", "atomk", "atoml", "atomm", "atomn")
#: Sections an atom style has, or has not; the others are of fixes.
_OF_STYLE = ("Bonds", "Angles", "Dihedrals", "Impropers")
#: Columns that say what a row's type or style already does.
_TOLD = frozenset({"type", "type_id", "style", "comment", *_ENDS})


@dataclass
class RelationRows:
    """Rows of one section: its name, the block they are of, the keyword of their count, their types and columns."""

    name: str
    block: str
    keyword: str
    kind: str
    count: int
    types: Types
    columns: list[NDArray[Any]]
    comments: NDArray[Any] | None


def relation_rows(
    state: State, style: AtomStyle, document: Mapping[str, Any], ids: NDArray[np.int64], report: Report
) -> list[RelationRows]:
    """The sections of relations a record has rows for. UnsupportedError: the atom style has no such section."""
    found = []
    for name, relation in RELATIONS.items():
        block = state.blocks.get(relation.block)
        if block is None or not block.count:
            continue
        if name in _OF_STYLE and name not in style.topology:
            raise UnsupportedError(
                f"{relation.block}: atom style {style.name} has none; name another with --target-atom-style"
            )
        ends = [_ends(block, end, ids, relation.block) for end in _ENDS[: relation.atoms]]
        types = relation_types(block, relation.kind, document, report, relation.block)
        numbers = np.arange(1, block.count + 1, dtype=np.int64)
        columns = [numbers, types.numbers, *ends]
        comments = None
        if "comment" in block.columns and block.columns["comment"].dtype == "string":
            comments = np.where(
                block.validity("comment"), block.stored("comment"), np.array("", dtype=block.stored("comment").dtype)
            )
        for other in block.columns:
            if other not in _TOLD:
                report.dropped(f"{relation.block}/{other}", f"rows of {name} have no place for it")
        found.append(
            RelationRows(name, relation.block, relation.count, relation.kind, block.count, types, columns, comments)
        )
    return found


def _ends(block: Block, name: str, ids: NDArray[np.int64], node: str) -> NDArray[np.int64]:
    if name not in block.columns:
        raise UnsupportedError(f"{node}: the rows have no {name}, and LAMMPS needs it")
    valid = block.validity(name)
    if not valid.all():
        raise UnsupportedError(f"{node}/{name}: row {int((~valid).argmax())} names no atom, and LAMMPS needs one")
    rows: NDArray[np.int64] = ids[block.stored(name).astype(np.int64)]
    return rows
