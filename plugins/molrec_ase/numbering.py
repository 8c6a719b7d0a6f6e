"""Atomic numbers of atoms: from their numbers, their elements, or their types and what they are told to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from molrec_ase.elements import NUMBERS
from molrec_convert.errors import UsageError
from molrec_convert.model import Column, distinct

__all__ = ["atomic_numbers"]

_HOW = "name the element of each type: --elements C,H,O, or elements=('C', 'H', 'O')"


def atomic_numbers(
    columns: Mapping[str, Column], elements: Sequence[str], where: str
) -> tuple[NDArray[np.int64], str | None]:
    """The numbers, and the column of types they were told for. `UsageError` where atoms have no element."""
    what = where or "the record"
    if "atomic_number" in columns:
        return columns["atomic_number"].values.astype(np.int64), None
    if "element" in columns:
        return _of_labels(columns["element"], NUMBERS, what), None
    if "type_id" in columns and elements and not any("=" in word for word in elements):
        kinds = columns["type_id"].values.astype(np.int64)
        told = np.array([_number(word) for word in elements], np.int64)
        if len(kinds) and (int(kinds.max()) > len(told) or int(kinds.min()) < 1):
            raise UsageError(f"{what} has atoms of type {int(kinds.max())}, and {len(told)} elements are named; {_HOW}")
        return told[kinds - 1], "type_id"
    if "type" in columns:
        if elements:
            return _of_labels(columns["type"], _by_type(columns["type"], elements), what), "type"
        if all(label in NUMBERS for label in set(columns["type"].values.tolist())):
            raise UsageError(f"{what} has types but no elements; if the types are elements, say so: {_HOW}")
    raise UsageError(f"{what} has atoms without an element, which ASE cannot do without; {_HOW}")


def _by_type(column: Column, elements: Sequence[str]) -> dict[str, int]:
    if any("=" in word for word in elements):
        pairs = [word.partition("=") for word in elements]
        return {label.strip(): _number(symbol) for label, _, symbol in pairs}
    labels = sorted(set(column.values.tolist()), key=lambda text: (not text.isdigit(), len(text), text))
    if all(label.isdigit() for label in labels):
        return {str(number): _number(symbol) for number, symbol in enumerate(elements, start=1)}
    if len(labels) != len(elements):
        raise UsageError(f"{len(elements)} elements are named for the types {', '.join(labels)}; name each: CT=C,HC=H")
    return {label: _number(symbol) for label, symbol in zip(labels, elements, strict=True)}


def _of_labels(column: Column, known: Mapping[str, int], what: str) -> NDArray[np.int64]:
    labels, positions, _ = distinct(column.values)
    for number, label in enumerate(labels.tolist()):
        if label not in known:
            row = int(np.flatnonzero(positions == number)[0])
            raise UsageError(f"{what} has atom {row} with the label {label!r}, which is no element; {_HOW}")
    told = np.array([known[label] for label in labels.tolist()] or [0], np.int64)
    found: NDArray[np.int64] = told[positions]
    return found


def _number(symbol: str) -> int:
    number = NUMBERS.get(symbol.strip())
    if number is None:
        raise UsageError(f"--elements names {symbol.strip()!r}, which is no element")
    return number
