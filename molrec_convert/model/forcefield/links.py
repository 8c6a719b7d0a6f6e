"""What the rows of one block of a system take from the tables of a force field.

Source: Force field, "Linking".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.forcefield.categories import category
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.styles import StyleDefinition
from molrec_convert.model.forcefield.tables import Style, endpoint_columns, parameter_columns, text_codes
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.names import STANDARD_DTYPES

__all__ = ["BlockLinks", "Labels", "Link", "Term", "endpoint_rows", "unordered_rows"]


@dataclass(frozen=True)
class Term:
    """One contribution to one row of a system, or to one pair of atoms.

    The table, the row of it (None: none, the numbers are the system's or mixed), the parameters by name without those
    that are null, and the names of those that are mixed.
    """

    table: str
    row: int | None
    parameters: dict[str, Any]
    mixed: tuple[str, ...] = ()


@dataclass(eq=False)
class Link:
    """What one table gives to the rows of one block.

    `row` int64[n] is the row of the table each row takes, -1 where it takes none; `applies` bool[n] says where the
    style acts (also without a row: when the system has all the parameters); `by_endpoints` bool[n] where the row was
    found by the atom types, since nothing names it.
    """

    style: Style
    row: NDArray[np.int64]
    applies: NDArray[np.bool_]
    by_endpoints: NDArray[np.bool_]
    _table: Block = field(repr=False)
    _relation: Block = field(repr=False)
    _registered: StyleDefinition | None = field(repr=False)
    _definitions: int = field(repr=False)

    @property
    def table(self) -> str:
        """The block that is the table."""
        return self.style.block

    @cached_property
    def overrides(self) -> tuple[str, ...]:
        """The columns of the system's block that give its rows parameters of their own."""
        known = set(parameter_columns(self._table))
        free = not self._table.count and self._registered is None
        return tuple(
            name
            for name, column in self._relation.columns.items()
            if name in known
            or (self._registered is not None and self._registered.parameter(name, self._definitions) is not None)
            or (free and name not in STANDARD_DTYPES and column.dtype in ("f64", "string"))
        )

    @cached_property
    def parameters(self) -> dict[str, Column]:
        """Parameter → column of n values, null where a row has none; what the system states overrides the table."""
        names = dict.fromkeys([*parameter_columns(self._table), *self.overrides])
        return {name: self._parameter(name) for name in names}

    @property
    def ignored(self) -> tuple[str, ...]:
        """Overrides that cannot be: another dtype or shape than the table's column has."""
        given = self._table.columns
        return tuple(
            name for name in self.overrides if name in given and not _alike(self._relation.columns[name], given[name])
        )

    def terms(self, index: int) -> Term:
        """Return the contribution to one row."""
        values = {
            name: column.values[index] if column.dtype == "string" else column.values[index].tolist()
            for name, column in self.parameters.items()
            if column.validity is None or column.validity[index]
        }
        row = int(self.row[index])
        return Term(self.table, row if row >= 0 else None, values)

    def _parameter(self, name: str) -> Column:
        own = self._relation.columns[name] if name in self.overrides else None
        given = self._table.columns.get(name)
        if given is None or not len(given):
            return self._nothing(given) if own is None else self._own(own)
        valid = self.row >= 0
        rows = np.where(valid, self.row, 0)
        values = given.values[rows]
        if given.validity is not None:
            valid = valid & given.validity[rows]
        if own is not None and _alike(own, given):
            stated = self.applies if own.validity is None else self.applies & own.validity
            values[stated] = own.values[stated]
            valid = valid | stated
        return Column(values, valid)

    def _own(self, own: Column) -> Column:
        return Column(own.values, self.applies if own.validity is None else self.applies & own.validity)

    def _nothing(self, given: Column | None) -> Column:
        dtype = np.float64 if given is None else given.values.dtype
        shape = () if given is None else given.trailing
        return Column(np.zeros((len(self.row), *shape), dtype=dtype), np.zeros(len(self.row), dtype=np.bool_))


@dataclass(eq=False)
class BlockLinks(Mapping[str, Link]):
    """The links of one block of a system, by table: `resolution["bonds"]["bond.harmonic"].row`."""

    block: str
    count: int
    links: dict[str, Link] = field(default_factory=dict)

    def __getitem__(self, table: str) -> Link:
        return self.links[table]

    def __iter__(self) -> Any:
        return iter(self.links)

    def __len__(self) -> int:
        return len(self.links)

    def terms(self, index: int) -> list[Term]:
        """Return all contributions to one row: several tables that hold its name add."""
        return [link.terms(index) for link in self.links.values() if link.applies[index]]

    @property
    def resolved(self) -> NDArray[np.bool_]:
        """Whether at least one table gives something to a row."""
        found = np.zeros(self.count, dtype=np.bool_)
        for link in self.links.values():
            found |= link.applies
        return found


def _alike(own: Column, given: Column) -> bool:
    return own.dtype == given.dtype and own.trailing == given.trailing


class Labels:
    """What the endpoints of a style may name, for each of some atom types: the type itself, or its class."""

    def __init__(self, forcefield: ForceField, types: Sequence[str]) -> None:
        self.types = list(types)
        self._classes: list[str | None] | None = None
        self._forcefield = forcefield

    def of(self, style: Style) -> list[str | None]:
        """Return one label per type; None for a type without a class."""
        if style.endpoint_key != "class":
            return list(self.types)
        if self._classes is None:
            known: dict[str, str] = {}
            for atom in self._forcefield.of_category("atom"):
                table = self._forcefield.tables[atom.block]
                if "class" in table.columns and "name" in table.columns:
                    valid = table.validity("class").tolist()
                    for name, label, there in zip(
                        table.stored("name").tolist(), table.stored("class").tolist(), valid, strict=True
                    ):
                        if there:
                            known.setdefault(name, label)
            self._classes = [known.get(name) for name in self.types]
        return self._classes


def endpoint_rows(table: Block, style: Style, labels: Labels, types: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of a table for every tuple of atom types, -1 for none.

    `types` int64[n, arity] are positions in `labels.types`, negative for an atom without a type.
    """
    columns = endpoint_columns(table)
    found = np.full(len(types), -1, dtype=np.int64)
    if style.endpoint_key == "smirks" or not table.count or len(columns) != types.shape[1] or not len(columns):
        return found
    ends, given = _codes(table, columns, labels.of(style))
    tuples, where = np.unique(np.where(types < 0, -1, given[types]), axis=0, return_inverse=True)
    search = _Search(ends.tolist(), directed=category(style.category).directed)
    rows = np.array([search.row(tuple(ends)) for ends in tuples.tolist()], dtype=np.int64)
    return rows[where.reshape(-1)]


class _Search:
    """Endpoints of rows, to be found by the labels of atoms. Every set of places that are wild is looked up at once."""

    def __init__(self, ends: list[list[int]], *, directed: bool) -> None:
        self._rows: dict[tuple[int, ...], int] = {}
        for row, codes in enumerate(ends):
            self._rows.setdefault(tuple(codes), row)
        patterns = {tuple(code == 0 for code in codes) for codes in self._rows}
        self._patterns: dict[int, list[tuple[bool, ...]]] = {}
        for pattern in sorted(patterns, key=sum):
            self._patterns.setdefault(sum(pattern), []).append(pattern)
        self._directed = directed

    def row(self, labels: tuple[int, ...]) -> int:
        """Return the first of the fitting rows with the fewest wildcards; -1 for none."""
        orders = (labels,) if self._directed else (labels, labels[::-1])
        for patterns in self._patterns.values():
            found = [
                self._rows.get(tuple(0 if wild else label for label, wild in zip(order, pattern, strict=True)))
                for pattern in patterns
                for order in orders
            ]
            rows = [row for row in found if row is not None]
            if rows:
                return min(rows)
        return -1


def unordered_rows(
    table: Block, style: Style, labels: Labels, a: NDArray[np.int64], b: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the row of a pair table for the types `a` and `b` (positions in `labels.types`), in either order; -1 for
    none.
    """
    columns = endpoint_columns(table)
    if style.endpoint_key == "smirks" or not table.count or len(columns) != 2:
        return np.full(len(a), -1, dtype=np.int64)
    ends, given = _codes(table, columns, labels.of(style))
    unknown = int(ends.max()) + 1
    given = np.where(given < 0, unknown, given)

    def key(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(x, y) * (unknown + 1) + np.maximum(x, y)

    known, first = np.unique(key(ends[:, 0], ends[:, 1]), return_index=True)

    def row(keys: NDArray[np.int64]) -> NDArray[np.int64]:
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[at] == keys, first[at], -1)

    x, y, wild = given[a], given[b], np.zeros(len(a), dtype=np.int64)
    one, other = row(key(wild, x)), row(key(wild, y))
    half = np.where(one < 0, other, np.where(other < 0, one, np.minimum(one, other)))
    found = row(key(x, y))
    for next_best in (half, row(key(wild, wild))):
        found = np.where(found < 0, next_best, found)
    return found


def _codes(
    table: Block, columns: Sequence[str], labels: Sequence[str | None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return endpoints of the rows and labels of the types as numbers: 0 is the wildcard, -1 a label no row has."""
    texts, codes = text_codes(*(table.stored(name) for name in columns))
    position = {text: code + 1 for code, text in enumerate(texts)}
    position[""] = 0
    to_code = np.array([position[text] for text in texts], dtype=np.int64)
    ends = np.stack([to_code[code] for code in codes], axis=1)
    # A type called "" is a type like any other, not a wildcard.
    given = [-1 if label is None or label == "" else position.get(label, -1) for label in labels]
    return ends, np.array(given, dtype=np.int64)
