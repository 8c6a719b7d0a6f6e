"""Rows of numbers by the native kernel for readers that have ways of their own beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert._kernel import library
from molrec_convert.text.rows import Field, Kind, RowFault, read_rows

__all__ = ["Fill", "coded", "number_rows", "read_number_rows"]

_KINDS: dict[str, Kind] = {"R": "finite", "I": "int", "S": "word", "-": "skip"}
#: Different words in a column that are looked for one by one.
_FEW = 24

Fill = Callable[[NDArray[np.uint8]], bool]


def read_number_rows(text: bytes, rows: int, kinds: str) -> list[Any] | None:
    """Return the columns of `rows` lines of text (the last may lack its end); None where another parser has to decide.

    `kinds` has a letter for every column: `R` gives float64[rows], the doubles nearest to the text, `I` int64[rows],
    `S` codes int32[rows] and the words (bytes) they count in, `-` None (that something is there is certain).
    """
    return _read(text, np.array([[0, len(text), rows]]), kinds) if rows else None


@contextmanager
def number_rows(fill: Fill, size: int, pieces: NDArray[np.int64], kinds: str) -> Iterator[list[Any] | None]:
    """Give the columns, as of `read_number_rows`, of rows in some pieces of a text.

    `fill` puts the `size` bytes of the text where it is told to, and says whether they were there. `pieces` int64[n,3]
    ascends: how many rows there are up to the end of each piece, where it begins in the text, and where it has to end.
    """
    text = np.empty(size, np.uint8)
    if not len(pieces) or library() is None or not fill(text):
        yield None
        return
    spans = np.stack([pieces[:, 1], pieces[:, 2], np.diff(pieces[:, 0], prepend=0)], axis=1)
    yield _read(text, spans, kinds)


def _read(text: Any, spans: NDArray[np.int64], kinds: str) -> list[Any] | None:
    if library() is None or not kinds:
        return None
    try:
        return read_rows(text, spans, [Field(_KINDS[kind]) for kind in kinds]).columns
    except RowFault:
        return None


def coded(values: NDArray[np.uint64]) -> tuple[NDArray[np.int32], list[int]]:
    """Return a code int32[n] for each of `values`, and the few values the codes count in."""
    codes = np.empty(len(values), np.int32)
    left = np.ones(len(values), np.bool_)
    found: list[int] = []
    while left.any():
        if len(found) == _FEW:
            unique, inverse = np.unique(values, return_inverse=True)
            return inverse.astype(np.int32), unique.tolist()
        value = values[int(np.argmax(left))]
        same = values == value
        codes[same] = len(found)
        left &= ~same
        found.append(int(value))
    return codes, found
