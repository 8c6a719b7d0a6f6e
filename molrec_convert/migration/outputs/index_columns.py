"""Index columns that are gathered some records at a time, typed as they come: they take the memory the index takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.migration.outputs.index_values import COUNT_PREFIX
from molrec_convert.model.dtypes import empty, plain_values
from molrec_convert.model.frame import Column

__all__ = ["ElementCounts", "TypedColumn", "as_texts"]

#: The dtype of the number of atoms of an element.
COUNT_DTYPE = "u32"


def as_texts(values: list[Any]) -> list[str | None]:
    """Values as a column of texts has them."""
    if set(map(type, values)) <= {str, NoneType}:
        return values
    return [None if value is None else str(value) for value in values]


class TypedColumn:
    """Values of one column whose dtype is known."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        #: Values of some records: typed, with a mask where there are nulls; as they came where they are not plain.
        self._pieces: list[tuple[NDArray[Any], NDArray[np.bool_] | None] | list[Any]] = []

    def add(self, values: list[Any]) -> None:
        """Values of some more records, None for a null."""
        if not values:
            return
        if self._dtype == "string":
            values = as_texts(values)
        typed = plain_values(values, self._dtype)
        mask = None
        if typed is None and None in values:
            mask = np.array([value is not None for value in values])
            known = [value for value in values if value is not None]
            found = plain_values(known, self._dtype)
            if found is not None or not known:
                typed = empty(self._dtype, (len(values),))
                typed[mask] = found if known else []
        self._pieces.append(values if typed is None else (typed, mask))

    def column(self) -> Column | list[Any]:
        """The column; its values where some of them are not plain, and are to be looked at together."""
        typed = [piece for piece in self._pieces if isinstance(piece, tuple)]
        if len(typed) < len(self._pieces):
            return list(itertools.chain.from_iterable(map(_values, self._pieces)))
        if not typed:
            return Column(empty(self._dtype, (0,)))
        return Column(np.concatenate([values for values, _ in typed]), _joined_masks(typed))


class ElementCounts:
    """The number of atoms of each element, of records which mostly have one of few tables of them."""

    def __init__(self) -> None:
        #: Elements in the order they turn up, and their places in the tables.
        self._places: dict[str, int] = {}
        #: Of some records: the tables (a row each, a column per element so far), which of them each has, and a mask
        #: where elements are not known.
        self._pieces: list[tuple[NDArray[Any], NDArray[np.uint32], NDArray[np.bool_] | None]] = []

    def add(self, tables: list[dict[str, Any] | None]) -> None:
        """Tables of some more records, None where elements are not known."""
        keys = [None if table is None else tuple(table.items()) for table in tables]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        of = np.fromiter(map(numbers.__getitem__, keys), np.uint32, len(keys))
        sizes = [0 if key is None else len(key) for key in numbers]
        names = [name for key in numbers if key is not None for name, _ in key]
        values = [value for key in numbers if key is not None for _, value in key]
        for name in dict.fromkeys(names):
            self._places.setdefault(name, len(self._places))
        places = np.fromiter(map(self._places.__getitem__, names), np.intp, len(names))
        counts = plain_values(values, COUNT_DTYPE)
        rows = np.zeros((len(numbers), len(self._places)), np.uint32 if counts is not None or not values else object)
        rows[np.repeat(np.arange(len(numbers)), sizes), places] = values if counts is None else counts
        self._pieces.append((rows, of, of != numbers[None] if None in numbers else None))

    def columns(self) -> Iterator[tuple[str, Column | list[Any]]]:
        """Names of columns, by element, and the columns; values where some of them are not plain."""
        for name in sorted(self._places):
            pieces = [(_counts_of(rows, self._places[name])[of], mask) for rows, of, mask in self._pieces]
            if any(values.dtype == np.object_ for values, _ in pieces):
                yield COUNT_PREFIX + name, list(itertools.chain.from_iterable(map(_values, pieces)))
            else:
                yield (
                    COUNT_PREFIX + name,
                    Column(np.concatenate([values for values, _ in pieces]), _joined_masks(pieces)),
                )


def _counts_of(rows: NDArray[Any], place: int) -> NDArray[Any]:
    """The counts of one element in the tables; none of those that turned up later."""
    return rows[:, place] if place < rows.shape[1] else np.zeros(len(rows), np.uint32)


def _values(piece: tuple[NDArray[Any], NDArray[np.bool_] | None] | list[Any]) -> list[Any]:
    if isinstance(piece, list):
        return piece
    values, mask = piece
    plain: list[Any] = values.tolist()
    return plain if mask is None else [v if there else None for v, there in zip(plain, mask.tolist(), strict=True)]


def _joined_masks(pieces: list[tuple[NDArray[Any], NDArray[np.bool_] | None]]) -> NDArray[np.bool_] | None:
    if all(mask is None for _, mask in pieces):
        return None
    return np.concatenate([np.ones(len(values), np.bool_) if mask is None else mask for values, mask in pieces])
