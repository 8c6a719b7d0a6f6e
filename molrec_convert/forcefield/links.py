"""What the rows of one block of a system take from the tables of a force field.

Source: Force field, "Linking".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.forcefield.styles import StyleDefinition
from molrec_convert.model.forcefield_document import Style
from molrec_convert.model.forcefield_tables import parameter_columns
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.standard import STANDARD_DTYPES

__all__ = ["BlockLinks", "Link", "Term"]


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
        """The contribution to one row."""
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
        """All contributions to one row: several tables that hold its name add."""
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
