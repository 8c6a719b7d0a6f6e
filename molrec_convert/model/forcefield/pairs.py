"""What a pair style gives to two atoms: the row of their types, else the mix of the two own rows.

The arithmetic is LAMMPS's, operation by operation. Source: Force field, "Linking"; LAMMPS manual, `pair_modify mix`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.forcefield.links import Labels, Term, unordered_rows
from molrec_convert.model.forcefield.styles import Parameter, StyleDefinition
from molrec_convert.model.forcefield.tables import Style, parameter_columns
from molrec_convert.model.frame import Block, Column

__all__ = ["PairLinks", "mixed_distance", "mixed_energy"]

Numbers = NDArray[np.float64]

#: How the parameters of a style that is not registered mix: those that are called so mean so.
_CUSTOMARY = {
    "epsilon": Parameter("epsilon", "E", mixing="energy"),
    "sigma": Parameter("sigma", "L", mixing="distance"),
    "cutoff": Parameter("cutoff", "L", mixing="distance"),
}


def mixed_distance(rule: str, a: Numbers, b: Numbers) -> Numbers:
    """Return a distance between two unlike types from those of the types."""
    if rule == "geometric":
        return np.asarray(np.sqrt(a * b))
    if rule == "arithmetic":
        return np.asarray(0.5 * (a + b))
    return np.asarray(np.power(0.5 * (np.power(a, 6.0) + np.power(b, 6.0)), 1.0 / 6.0))


def mixed_energy(rule: str, a: Numbers, b: Numbers, sigma_a: Numbers, sigma_b: Numbers) -> Numbers:
    """Return an energy between two unlike types; the distances count with `sixthpower` only (two of zero give zero)."""
    if rule != "sixthpower":
        return np.asarray(np.sqrt(a * b))
    sixth = np.power(sigma_a, 6.0) + np.power(sigma_b, 6.0)
    product = 2.0 * np.sqrt(a * b) * np.power(sigma_a, 3.0) * np.power(sigma_b, 3.0)
    return np.asarray(np.divide(product, sixth, out=np.zeros_like(product), where=sixth != 0))


@dataclass
class PairLinks:
    """What one pair style gives, for pairs of `types`: rows, parameters, term by term. Types go by name."""

    style: Style
    types: list[str]
    _table: Block = field(repr=False)
    _labels: Labels = field(repr=False)
    _registered: StyleDefinition | None = field(repr=False)
    _definitions: int = field(repr=False)

    def __post_init__(self) -> None:
        self._position = {name: code for code, name in enumerate(self.types)}

    @property
    def table(self) -> str:
        """The block that is the table."""
        return self.style.block

    @property
    def mixing(self) -> str | None:
        """The rule for pairs no row names; None when the style has none."""
        stated = self.style.params.get("mixing")
        if isinstance(stated, str):
            return stated
        return None if self._registered is None else self._registered.mixing

    @property
    def special(self) -> str:
        """The set of 1-2, 1-3, 1-4 weights the style takes: `lj` or `coul`."""
        if self._registered is not None and self._registered.special is not None:
            return self._registered.special
        return "coul" if self.style.params.get("special") == "coul" else "lj"

    def rows(self, a: Sequence[str], b: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of the table for each pair of types, in either order; -1 where none names it."""
        return self.rows_of_codes(self._codes(a), self._codes(b))

    def parameters(self, a: Sequence[str], b: Sequence[str]) -> dict[str, Column]:
        """Return parameter → one value for each pair of types, null where there is none."""
        return self.parameters_of_codes(self._codes(a), self._codes(b))[0]

    def pair(self, a: str, b: str) -> Term:
        """Return what two types get; the term's `row` is None where no row names the pair."""
        columns, mixed = self.parameters_of_codes(self._codes([a]), self._codes([b]))
        row = int(self.rows([a], [b])[0])
        values = {
            name: column.values[0] if column.dtype == "string" else column.values[0].tolist()
            for name, column in columns.items()
            if column.validity is None or column.validity[0]
        }
        return Term(self.table, row if row >= 0 else None, values, tuple(name for name in mixed if mixed[name][0]))

    def rows_of_codes(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `rows` for positions in `types`."""
        return unordered_rows(self._table, self.style, self._labels, a, b)

    def parameters_of_codes(
        self, a: NDArray[np.int64], b: NDArray[np.int64]
    ) -> tuple[dict[str, Column], dict[str, NDArray[np.bool_]]]:
        """Return `parameters` for positions in `types`, and for each parameter which values are mixed."""
        row, own_a, own_b = (self.rows_of_codes(x, y) for x, y in ((a, b), (a, a), (b, b)))
        columns: dict[str, Column] = {}
        mixed: dict[str, NDArray[np.bool_]] = {}
        for name in parameter_columns(self._table):
            values, valid = self._given(name, row)
            mixed[name] = np.zeros(len(row), dtype=np.bool_)
            rule = self._rule(name)
            if self.mixing is not None and rule is not None:
                result, known = self._mixed(name, rule, own_a, own_b)
                mixed[name] = (a != b) & ~valid & known
                values = np.where(mixed[name], result, values)
                valid = valid | mixed[name]
            columns[name] = Column(values, valid)
        return columns, mixed

    def complete(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each pair of types has all a row must have."""
        columns, _ = self.parameters_of_codes(a, b)
        if self._registered is None:
            found = self.rows_of_codes(a, b) >= 0
            for column in columns.values():
                found |= True if column.validity is None else column.validity
            return found
        found = np.ones(len(a), dtype=np.bool_)
        for entry in self._registered.parameters:
            if entry.required:
                given = columns.get(entry.named(self._definitions))
                found &= given is not None and (True if given.validity is None else given.validity)
        return found

    def _codes(self, names: Sequence[str]) -> NDArray[np.int64]:
        for name in names:
            if name not in self._position:
                raise KeyError(f"the system has no atom type {name!r}; it has {', '.join(self.types) or 'none'}")
        return np.array([self._position[name] for name in names], dtype=np.int64)

    def _rule(self, name: str) -> Parameter | None:
        column = self._table.columns[name]
        if column.dtype != "f64" or column.trailing:
            return None
        registered = self._registered
        found = _CUSTOMARY.get(name) if registered is None else registered.parameter(name, self._definitions)
        return found if found is not None and found.mixing is not None else None

    def _given(self, name: str, row: NDArray[np.int64]) -> tuple[Any, NDArray[np.bool_]]:
        """Return the values some rows state, and which of them there are."""
        column = self._table.columns[name]
        if not len(column):
            return np.zeros((len(row), *column.trailing), dtype=column.values.dtype), np.zeros(len(row), np.bool_)
        at = np.where(row >= 0, row, 0)
        valid = row >= 0
        return column.values[at], valid if column.validity is None else valid & column.validity[at]

    def _own(self, name: str, row: NDArray[np.int64]) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return the values of types by themselves: a null takes the parameter it falls back on, a cutoff the
        style's.
        """
        if name not in self._table.columns or self._rule(name) is None:
            return np.zeros(len(row)), np.zeros(len(row), dtype=np.bool_)
        values, valid = self._given(name, row)
        rule = self._rule(name)
        if rule is not None and rule.fallback is not None:
            other, there = self._own(rule.fallback, row)
            values, valid = np.where(valid, values, other), valid | there
        stated = self.style.params.get(name)
        if isinstance(stated, (int, float)):
            there = (row >= 0) & ~valid
            values, valid = np.where(there, float(stated), values), valid | there
        return values, valid

    def _mixed(
        self, name: str, rule: Parameter, own_a: NDArray[np.int64], own_b: NDArray[np.int64]
    ) -> tuple[Numbers, NDArray[np.bool_]]:
        mixing = str(self.mixing)
        (a, there_a), (b, there_b) = self._own(name, own_a), self._own(name, own_b)
        known = there_a & there_b
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            if rule.mixing == "distance":
                return mixed_distance(mixing, a, b), known
            size = "sigma14" if name == "epsilon14" else "sigma"
            (size_a, sized_a), (size_b, sized_b) = self._own(size, own_a), self._own(size, own_b)
            if mixing == "sixthpower":
                known = known & sized_a & sized_b
            return mixed_energy(mixing, a, b, size_a, size_b), known
