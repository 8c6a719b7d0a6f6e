"""Rows of many frames as text at once: the shortest text that reads back to the same double."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.quantities.elements import SYMBOLS, UNKNOWN
from molrec_convert.text.output import Column, word_column, write_rows
from molrec_xyz.names import EMPTY

__all__ = ["as_word", "rows_text"]

_SYMBOLS = [symbol.encode() for symbol in SYMBOLS]


def rows_text(
    columns: list[tuple[str, str, NDArray[Any]]], rows: int, digits: int | None
) -> tuple[bytes, NDArray[np.int64]]:
    """Return rows of columns (name, letter, values) as one text, and where each begins in it and the last ends."""
    fields: list[Column] = []
    for name, letter, values in columns:
        flat = values.reshape(rows, math.prod(values.shape[1:]))
        fields += [_column(name, letter, flat[:, part], digits) for part in range(flat.shape[1])]
    if fields:
        fields[0] = fields[0]._replace(before=b"")
    text, ends = write_rows(fields, rows)
    return text, np.concatenate([[0], ends])


def _column(name: str, letter: str, values: NDArray[Any], digits: int | None) -> Column:
    if letter == "R":
        return Column("shortest" if digits is None else "decimals", values, digits=digits or 0, whole_point=False)
    if letter == "I":
        return Column("int", values)
    if letter == "L":
        return Column("bool", values)
    if letter == "Z":
        inside = (values > 0) & (values < len(_SYMBOLS))
        return Column("word", np.where(inside, values, 0).astype(np.int32), words=_SYMBOLS)
    return word_column(values.tolist(), spelled=lambda text: as_word(name, text))


def as_word(name: str, text: str) -> str:
    """Return what stands for a text in the column `name` of a row: one word, of nothing X or a point."""
    return "_".join(text.split()) or (UNKNOWN if name == "species" else EMPTY)
