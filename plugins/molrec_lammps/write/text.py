"""Rows of numbers as text: whole columns at a time, the shortest text that reads back to the same number.

Integers are written as they are, floating-point numbers with as few digits as tell them from their neighbours (never
more than 17), or with `digits` significant ones as C's `%.ng` does. A piece of rows is formatted outside Python's
lock, on two threads where there is much.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
from numpy.typing import NDArray

__all__ = ["as_text", "number_text", "number_texts", "row_pieces", "tiled"]

#: Rows of one piece: some megabytes of text.
_PIECE = 2**15
_OPTIONS = csv.WriteOptions(include_header=False, batch_size=2**13, delimiter=" ", quoting_style="none")


def number_text(value: float, digits: int | None = None) -> str:
    """One number as text: the shortest that reads back to it, or `digits` significant digits."""
    if digits is not None:
        return f"{value:.{digits}g}"
    text = repr(float(value))
    return text.removesuffix(".0") if text.endswith(".0") else text


def number_texts(values: Sequence[float], digits: int | None = None) -> str:
    """Several numbers, a blank between them."""
    return " ".join(number_text(value, digits) for value in values)


def as_text(column: NDArray[Any], digits: int | None = None) -> Any:
    """A column as texts, for `row_pieces` to take again and again."""
    return _array(column, digits).cast(pa.string())


def tiled(texts: Any, times: int) -> Any:
    """What `as_text` made, several times over."""
    return texts if times == 1 else pa.chunked_array([texts] * times).combine_chunks()


def row_pieces(
    columns: Sequence[Any],
    *,
    comments: NDArray[Any] | None = None,
    digits: int | None = None,
) -> Iterator[Any]:
    """The rows of some columns (1-D, of one length; integers, f64, text, or what `as_text` made) as pieces of bytes.

    `comments` (text, `""` for none) stand behind the numbers after ` # `. Pieces come in order; not more than a few
    are in memory.
    """
    rows = len(columns[0]) if columns else 0
    starts = range(0, rows, _PIECE)

    def piece(start: int) -> Any:
        part = slice(start, min(rows, start + _PIECE))
        return _format([column[part] for column in columns], None if comments is None else comments[part], digits)

    threads = min(2, os.cpu_count() or 1)
    if len(starts) < 2 or threads < 2:
        yield from map(piece, starts)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Any]] = deque()
        for start in starts:
            waiting.append(pool.submit(piece, start))
            if len(waiting) > threads + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _format(columns: Sequence[Any], comments: NDArray[Any] | None, digits: int | None) -> Any:
    arrays = [_array(column, digits) for column in columns]
    if comments is None and not any(pa.types.is_string(array.type) and not _plain(array) for array in arrays):
        names = [str(number) for number in range(len(arrays))]
        sink = pa.BufferOutputStream()
        csv.write_csv(pa.table(arrays, names=names), sink, _OPTIONS)
        return sink.getvalue()
    parts: list[Any] = []
    for array in arrays:
        parts += [array.cast(pa.string()), " "]
    parts.pop()
    if comments is not None:
        texts = pa.array(comments.tolist(), pa.string())
        parts.append(pc.if_else(pc.equal(texts, ""), "", pc.binary_join_element_wise(" #", texts, " ")))
    parts.append("\n")
    joined = pc.binary_join_element_wise(*parts, "")
    text = joined.buffers()[2]
    return b"" if text is None else text.slice(0, len(text))


def _array(column: Any, digits: int | None) -> Any:
    if isinstance(column, pa.Array):
        return column
    if column.dtype.kind in "TU":
        return pa.array(column.tolist(), pa.string())
    if column.dtype.kind == "b":
        return pa.array(column.astype(np.int8))
    if column.dtype.kind == "f" and digits is not None:
        values = column.tolist()
        return pa.array(((f"%.{digits}g\n" * len(values)) % tuple(values)).split("\n")[:-1], pa.string())
    return pa.array(np.ascontiguousarray(column))


def _plain(array: Any) -> bool:
    """Whether the CSV writer takes the texts of an array as they are: none with a mark of its own."""
    return not pc.any(pc.match_substring_regex(array, '[", \r\n]')).as_py()
