"""What there is in a whole source: which columns and keys its configurations have, which of them never change.

From it follow the declaration of a trajectory or a collection, and what goes to the system of a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import Part, has_bits
from molrec_ase.names import IDENTITY, RESULTS, VIRIAL
from molrec_ase.values import is_missing, tag_of, to_plain
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
from molrec_convert.model.dtypes import dtype_name, same_bits
from molrec_convert.model.tags import same_value

__all__ = [
    "ATOMS",
    "UNITS",
    "ColumnFacts",
    "Plan",
    "Survey",
    "ValueFacts",
    "collection_declaration",
    "plan_trajectory",
    "survey_parts",
]

STEP_KEYS = frozenset((*RESULTS.values(), VIRIAL))


@dataclass
class ColumnFacts:
    """A column: dtype, shape of a row, how many configurations have it, whether its values are the same in all."""

    dtype: str
    trailing: tuple[int, ...]
    owners: int = 0
    constant: bool = True
    first: NDArray[Any] | None = None


@dataclass
class ValueFacts:
    """A key: the tags of its values, how many there are, whether one is not a number, whether all are the same.

    `negative`: an integer is below 0.
    """

    tags: set[str] = field(default_factory=set)
    owners: int = 0
    missing: bool = False
    constant: bool = True
    first: Any = None
    negative: bool = False

    def tag(self, count: int) -> str:
        """Return the one tag all have: `json` where they differ, or where there is no value that stands for none."""
        if len(self.tags) != 1:
            return "json"
        (tag,) = self.tags
        if self.owners < count and (not tag.startswith("f64") or self.missing):
            return "json"
        return tag

    def add(self, value: Any) -> None:
        """One more value."""
        tag = tag_of(value)
        if not self.missing and tag.startswith("f64"):
            self.missing = is_missing(value, tag)
        self.negative = self.negative or (tag == "i64" and value < 0)
        if not self.owners:
            self.first = value
        elif self.constant and value is not self.first:
            self.constant = tag in self.tags and len(self.tags) == 1 and same_value(value, self.first, tag)
        self.tags.add(tag)
        self.owners += 1

    def extend(self, values: list[Any]) -> None:
        """More values, of several configurations."""
        types = set(map(type, values))
        first = values[0] if not self.owners else self.first
        if types <= {str} or types <= {bool}:
            tag = tag_of(values[0])
        elif types == {int} and min(values) >= -(2**63) and max(values) < 2**63:
            tag = "i64"
            self.negative = self.negative or min(values) < 0
        elif all(value is first for value in values) and self.constant:
            tag = tag_of(first)
            self.missing = self.missing or (tag.startswith("f64") and is_missing(first, tag))
            self.negative = self.negative or (tag == "i64" and first < 0)
        else:
            for value in values:
                self.add(value)
            return
        if not self.owners:
            self.first = first
            self.tags.add(tag)
        if self.constant and (self.tags != {tag} or values.count(first) != len(values)):
            self.constant = False
        self.tags.add(tag)
        self.owners += len(values)


@dataclass
class Survey:
    """Facts of a source of `len(counts)` configurations, in its order."""

    counts: NDArray[np.int64]
    columns: dict[str, ColumnFacts] = field(default_factory=dict)
    values: dict[str, ValueFacts] = field(default_factory=dict)
    has_cell: bool = False
    steps: list[int | None] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    #: Keys that are one value per frame whatever they hold.
    per_step: set[str] = field(default_factory=set)
    #: What the record of every configuration says of itself, and the keys only some say, or say otherwise.
    meta: dict[str, Any] = field(default_factory=dict)
    other_meta: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def uniform(self) -> bool:
        """Whether all have the same number of atoms."""
        return bool((self.counts == self.counts[:1]).all()) if len(self.counts) else True


def survey_parts(parts: Iterable[Part]) -> Survey:
    """Return the facts of configurations seen one by one. ValueError: a column that is of two kinds."""
    counts: list[int] = []
    survey = Survey(np.zeros(0, np.int64))
    for number, part in enumerate(parts):
        counts.append(part.count)
        for name, values in part.columns.items():
            add_column(survey, name, values, number)
        for name, value in part.values.items():
            survey.values.setdefault(name, ValueFacts()).add(value)
        survey.has_cell = survey.has_cell or is_cell(part)
        survey.steps.append(part.step)
        survey.times.append(part.time)
        survey.per_step |= part.per_step
        _add_meta(survey, part.meta, number)
    survey.counts = np.array(counts, np.int64)
    return survey


def _add_meta(survey: Survey, meta: dict[str, Any], number: int) -> None:
    if number == 0:
        survey.meta = dict(meta)
    elif meta != survey.meta:
        same = {key: value for key, value in survey.meta.items() if key in meta and meta[key] == value}
        survey.other_meta |= (survey.meta.keys() | meta.keys()) - same.keys()
        survey.meta = same


def add_column(survey: Survey, name: str, values: NDArray[Any], number: int) -> None:
    """One more owner of a column. ValueError: it is of another kind than before."""
    dtype, trailing = dtype_name(values.dtype, name), tuple(values.shape[1:])
    facts = survey.columns.get(name)
    if facts is None:
        survey.columns[name] = ColumnFacts(dtype, trailing, 1, number == 0, values)
        return
    if (dtype, trailing) != (facts.dtype, facts.trailing):
        raise ValueError(
            f"{name} is {dtype}{list(trailing)} in configuration {number} and {facts.dtype}{list(facts.trailing)} "
            "before; a column is of one kind"
        )
    facts.owners += 1
    if facts.constant:
        facts.constant = facts.first is not None and same_bits(facts.first, values)


def is_cell(part: Part) -> bool:
    """True if a configuration has a cell, or anything else a box says."""
    return bool(part.boundary.any()) or has_bits(part.vectors) or has_bits(part.origin)


ATOMS = "atoms"
UNITS = {"preset": "metal"}


@dataclass
class Plan:
    """What is declared; `system` holds the columns and keys that never change (of a trajectory)."""

    declaration: Declaration
    system: Frame


def plan_trajectory(survey: Survey) -> Plan:
    """Return one run of all configurations: what is the same in every one goes to the system."""
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
    """Return a record of each configuration: results change from frame to frame, everything else is of the system."""
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
    """Return a value as the key declares it; the fill for none.

    Where a key is a JSON document because its values are of several kinds, numbers and vectors among them become
    documents too.
    """
    if value is None:
        return None if fill is NO_FILL else fill
    return to_plain(value) if tag == "json" and isinstance(value, (float, np.ndarray)) else value
