"""Rows of numbers as text: whole columns at a time, the shortest text that reads back to the same number.

Integers are written as they are, floating-point numbers with as few digits as tell them from their neighbours (never
more than 17), or with `digits` significant ones as C's `%.ng` does. Where there is much, two threads write pieces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.output import Column, real_text, word_column, write_rows

__all__ = ["as_text", "number_text", "number_texts", "row_pieces", "tiled"]

#: Rows of one piece: some megabytes of text.
_PIECE = 2**15


def number_text(value: float, digits: int | None = None) -> str:
    """Return one number as text: the shortest that reads back to it, or `digits` significant digits."""
    return real_text(value, digits)


def number_texts(values: Sequence[float], digits: int | None = None) -> str:
    """Return several numbers as text, a blank between them."""
    return " ".join(real_text(value, digits) for value in values)


def as_text(column: NDArray[Any], digits: int | None = None) -> Column:
    """Return a column as `row_pieces` writes it, to be given to it again and again."""
    kind = column.dtype.kind
    if kind in "TU":
        return word_column(column.tolist())
    if kind == "f":
        return Column("shortest" if digits is None else "general", column, digits=digits or 0, whole_point=False)
    return Column("int", column.astype(np.int64, copy=False))


def tiled(column: Column, times: int) -> Column:
    """Return a column several times over."""
    return column if times == 1 else column._replace(values=np.tile(column.values, times))


def row_pieces(
    columns: Sequence[NDArray[Any] | Column], *, comments: NDArray[Any] | None = None, digits: int | None = None
) -> Iterator[bytes]:
    """Write rows of some columns (1-D, of one length; integers, f64, text, or what `as_text` made) as pieces of bytes.

    `comments` (text, `""` for none) stand behind the numbers after ` # `. Pieces come in order; not more than a few
    are in memory.
    """
    parts = [column if isinstance(column, Column) else as_text(column, digits) for column in columns]
    rows = len(parts[0].values) if parts else 0
    if parts:
        parts[0] = parts[0]._replace(before=b"")
    if comments is not None:
        parts.append(word_column([f" # {text}" if text else "" for text in comments.tolist()], b""))

    def piece(start: int) -> bytes:
        own = [column._replace(values=column.values[start : start + _PIECE]) for column in parts]
        return write_rows(own, min(_PIECE, rows - start))[0]

    starts = range(0, rows, _PIECE)
    if len(starts) < 2:
        yield from map(piece, starts)
        return
    with ThreadPoolExecutor(2) as pool:
        waiting: deque[Future[bytes]] = deque()
        for start in starts:
            waiting.append(pool.submit(piece, start))
            if len(waiting) > 3:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
