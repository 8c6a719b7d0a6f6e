"""Atomic numbers of atoms: from their numbers, their elements, or their types and what they are told to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.model import Column, distinct
from molrec_convert.quantities.elements import NUMBERS, UNKNOWN, parse_elements

__all__ = ["atomic_numbers"]

_KNOWN = {UNKNOWN: 0, **NUMBERS}
_HOW = "name the element of each type: --elements C,H,O, or elements=('C', 'H', 'O')"


def atomic_numbers(
    columns: Mapping[str, Column], elements: Sequence[str], where: str
) -> tuple[NDArray[np.int64], str | None]:
    """The numbers, and the column of types they were told for. `UsageError` where atoms have no element."""
    what = where or "the record"
    if "atomic_number" in columns:
        return columns["atomic_number"].values.astype(np.int64), None
    if "element" in columns:
        return _of_labels(columns["element"], _KNOWN, what), None
    given = parse_elements(elements)
    if "type_id" in columns and given.ordered:
        kinds = columns["type_id"].values.astype(np.int64)
        told = np.array([_KNOWN[symbol or UNKNOWN] for symbol in given.ordered], np.int64)
        if len(kinds) and (int(kinds.max()) > len(told) or int(kinds.min()) < 1):
            raise UsageError(f"{what} has atoms of type {int(kinds.max())}, and {len(told)} elements are named; {_HOW}")
        return told[kinds - 1], "type_id"
    if "type" in columns:
        if given:
            named = given.of_labels(columns["type"].values.tolist())
            known = {label: _KNOWN[symbol or UNKNOWN] for label, symbol in named.items()}
            return _of_labels(columns["type"], known, what), "type"
        if all(label in _KNOWN for label in set(columns["type"].values.tolist())):
            raise UsageError(f"{what} has types but no elements; if the types are elements, say so: {_HOW}")
    raise UsageError(f"{what} has atoms without an element, which ASE cannot do without; {_HOW}")


def _of_labels(column: Column, known: Mapping[str, int], what: str) -> NDArray[np.int64]:
    labels, positions, _ = distinct(column.values)
    for number, label in enumerate(labels.tolist()):
        if label not in known:
            row = int(np.flatnonzero(positions == number)[0])
            raise UsageError(f"{what} has atom {row} with the label {label!r}, which is no element; {_HOW}")
    told = np.array([known[label] for label in labels.tolist()] or [0], np.int64)
    found: NDArray[np.int64] = told[positions]
    return found
