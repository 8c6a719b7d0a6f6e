"""Atomic numbers of atoms: from their elements, their numbers, or the elements the record has for their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.model import Column, distinct
from molrec_convert.quantities.elements import NUMBERS, UNKNOWN

__all__ = ["atomic_numbers"]

_KNOWN = {UNKNOWN: 0, **NUMBERS}
_HOW = (
    "name the element of each type: --elements C,H,O, or elements=('C', 'H', 'O'); --guess-elements proposes them from "
    "labels and masses"
)


def atomic_numbers(
    columns: Mapping[str, Column], of_types: Callable[[], Mapping[str, str]], where: str
) -> NDArray[np.int64]:
    """Return the atomic number of each atom; 0, ASE's X, for one whose element is null.

    `of_types` gives the element of each label of types. UsageError: nothing says what the atoms are, or a label is no
    element.
    """
    what = where or "the record"
    numbers = None
    if "element" in columns:
        numbers = _of_labels(columns["element"], _KNOWN, what)
    for name in ("atomic_number", "Z"):
        column = columns.get(name)
        if column is None or column.trailing or column.values.dtype.kind not in "iu":
            continue
        found = np.where(_there(column), column.values.astype(np.int64), 0)
        numbers = found if numbers is None else np.where(numbers == 0, found, numbers)
    if numbers is not None:
        return numbers
    if "type" in columns:
        table = of_types()
        if table:
            return _of_labels(
                columns["type"], {**_KNOWN, **{label: NUMBERS[symbol] for label, symbol in table.items()}}, what
            )
        if all(label in _KNOWN for label in set(columns["type"].values.tolist())):
            raise UsageError(f"{what} has types but no elements; if the types are elements, say so: {_HOW}")
    raise UsageError(f"{what} has atoms without an element, which ASE cannot do without; {_HOW}")


def _there(column: Column) -> NDArray[np.bool_]:
    return np.ones(len(column), np.bool_) if column.validity is None else column.validity


def _of_labels(column: Column, known: Mapping[str, int], what: str) -> NDArray[np.int64]:
    labels, positions, _ = distinct(column.values)
    there = _there(column)
    for number, label in enumerate(labels.tolist()):
        if label in known:
            continue
        rows = np.flatnonzero((positions == number) & there)
        if len(rows):
            raise UsageError(f"{what} has atom {int(rows[0])} with the label {label!r}, which is no element; {_HOW}")
    told = np.array([known.get(label, 0) for label in labels.tolist()] or [0], np.int64)
    found: NDArray[np.int64] = np.where(there, told[positions], 0)
    return found
