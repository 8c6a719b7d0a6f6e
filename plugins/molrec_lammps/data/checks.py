"""What rows of a data file must obey beyond their form: ids, types, and atoms that relations name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError

__all__ = [
    "AtomIndex",
    "check_each_once",
    "check_endpoints",
    "check_masses",
    "check_positive",
    "check_types",
    "index_atoms",
]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AtomIndex:
    """Rows of atoms by id, in ascending order of ids.

    `ids` int64[n] ascend; `order` int64[n] are the rows of the file in that order, None where the file is in order.
    """

    ids: Integers
    order: Integers | None

    @property
    def dense(self) -> bool:
        """Whether the ids are 1, 2, … n."""
        return not len(self.ids) or int(self.ids[-1]) == len(self.ids)

    def sorted(self, values: NDArray[Any]) -> NDArray[Any]:
        """One value per row of the file, in order of ids."""
        return values if self.order is None else values[self.order]

    def rows(self, ids: Integers) -> tuple[Integers, NDArray[np.bool_] | None]:
        """Row of each id in order of ids, and where there is no such atom (None when all are there)."""
        if self.dense:
            absent = (ids < 1) | (ids > len(self.ids))
            return ids - 1, absent if absent.any() else None
        found = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        absent = self.ids[found] != ids
        return found, absent if absent.any() else None


def index_atoms(path: str, ids: Integers, line: int) -> AtomIndex:
    """Order the rows of Atoms by id. `line` is the line of the first row. Refused: an id below 1, an id twice."""
    if len(ids) and int(ids.min()) < 1:
        row = int(np.argmax(ids < 1))
        raise FormatError(path, f"line {line + row}", found=f"the atom id {ids[row]}", expected="an id from 1 on")
    if not len(ids) or bool((ids[1:] > ids[:-1]).all()):
        return AtomIndex(ids, None)
    order = _dense_order(ids)
    if order is None:
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(same):
            second = int(order[same + 1].min())
            first = int(np.argmax(ids == ids[second]))
            raise FormatError(
                path,
                f"line {line + second}",
                found=f"a second atom with the id {ids[second]}",
                expected=f"one, which line {line + first} has",
            )
        return AtomIndex(ordered, order)
    return AtomIndex(np.arange(1, len(ids) + 1), order)


def _dense_order(ids: Integers) -> Integers | None:
    """The order of ids that are 1 … n in some order, without sorting; None for others."""
    if int(ids.max()) != len(ids):
        return None
    order = np.full(len(ids), -1, dtype=np.int64)
    order[ids - 1] = np.arange(len(ids))
    return order if int(order.min()) >= 0 else None


def check_types(
    path: str, section: str, types: Integers, line: int, kind: str, count: int, counted: int | None
) -> None:
    """Refuse types outside 1 … count. `counted` is the line of the header that gives the count, if any."""
    if not len(types) or (int(types.min()) >= 1 and int(types.max()) <= count):
        return
    row = int(np.argmax((types < 1) | (types > count)))
    where = "" if counted is None else f", the count of line {counted}"
    raise FormatError(
        path,
        f"line {line + row}",
        found=f"{kind} type {types[row]} in {section}",
        expected=f"a type from 1 to {count}{where}" if count else f"no {section}: the file has no {kind} types",
    )


def check_each_once(path: str, section: str, ids: Integers, line: int, index: AtomIndex) -> Integers | None:
    """The order that brings rows, one of each atom, to ascending ids; None when they are. Refused: unknown, twice."""
    if np.array_equal(ids, index.ids):
        return None
    rows, absent = index.rows(ids)
    if absent is not None:
        row = int(np.argmax(absent))
        raise FormatError(
            path, f"line {line + row}", found=f"the id {ids[row]} in {section}", expected="the id of an atom"
        )
    first = np.full(len(index.ids), -1, dtype=np.int64)
    first[rows[::-1]] = np.arange(len(rows))[::-1]
    again = first[rows] != np.arange(len(rows))
    if again.any():
        row = int(np.argmax(again))
        raise FormatError(
            path,
            f"line {line + row}",
            found=f"a second row of {section} for the atom {ids[row]}",
            expected=f"one, which line {line + int(first[rows[row]])} has",
        )
    return first


def check_endpoints(
    path: str, section: str, names: list[str], columns: dict[str, NDArray[Any]], line: int, index: AtomIndex
) -> dict[str, NDArray[np.uint64]]:
    """0-based rows u64 of the atoms a relation names. Refused: an atom that is not there, one twice in a row."""
    ends: dict[str, Integers] = {}
    for name in names:
        rows, absent = index.rows(columns[name])
        if absent is not None:
            row = int(np.argmax(absent))
            raise FormatError(
                path,
                f"line {line + row}",
                found=f"the atom {columns[name][row]} in {section}",
                expected="the id of an atom in Atoms",
            )
        ends[name] = rows
    for number, name in enumerate(names):
        for other in names[:number]:
            same = ends[name] == ends[other]
            if same.any():
                row = int(np.argmax(same))
                raise FormatError(
                    path,
                    f"line {line + row}",
                    found=f"the atom {columns[name][row]} twice in a row of {section}",
                    expected="different atoms",
                )
    return {name: rows.view(np.uint64) for name, rows in ends.items()}


def check_positive(path: str, name: str, values: NDArray[np.float64], line: int) -> None:
    """Refuse values of a column of Atoms that are not above zero."""
    wrong = ~(values > 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FormatError(
            path, f"line {line + row}", found=f"the {name} {float(values[row])!r}", expected="one above zero"
        )


def check_masses(path: str, types: Integers, masses: NDArray[np.float64], line: int) -> None:
    """Refuse a mass that is not above zero, and a second mass of a type."""
    seen: dict[int, int] = {}
    for row, (number, value) in enumerate(zip(types.tolist(), masses.tolist(), strict=True)):
        if not value > 0:
            raise FormatError(path, f"line {line + row}", found=f"the mass {value!r}", expected="one above zero")
        if number in seen:
            raise FormatError(
                path,
                f"line {line + row}",
                found=f"a second mass of atom type {number}",
                expected=f"one, which line {line + seen[number]} has",
            )
        seen[number] = row
