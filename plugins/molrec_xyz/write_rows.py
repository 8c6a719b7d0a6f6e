"""Rows of many frames as text at once.

pyarrow turns whole columns into text, the shortest that reads back to the same double, and joins them to rows. Without
it Python does the same, slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.quantities.elements import SYMBOLS, UNKNOWN
from molrec_xyz.names import EMPTY

__all__ = ["as_word", "rows_text"]


def rows_text(
    columns: list[tuple[str, str, NDArray[Any]]], rows: int, digits: int | None
) -> tuple[Any, NDArray[np.int64]]:
    """The rows as one text, and where each begins in it (and the last ends). Columns are (name, letter, values)."""
    if not columns or not rows:
        return b"\n" * rows, np.arange(rows + 1, dtype=np.int64)
    fields: list[tuple[str, str, NDArray[Any]]] = []
    for name, letter, values in columns:
        flat = values.reshape(rows, -1) if values.ndim > 1 else values[:, None]
        fields += [(name, letter, flat[:, part]) for part in range(flat.shape[1])]
    try:
        import pyarrow as pa
    except ImportError:
        return _python_text(fields, digits)
    return _arrow_text(pa, fields, digits)


def _arrow_text(pa: Any, fields: list[tuple[str, str, NDArray[Any]]], digits: int | None) -> tuple[Any, Any]:
    import pyarrow.compute as pc

    parts = []
    for name, letter, values in fields:
        if (letter == "R" and digits is None) or letter == "I":
            part = pc.cast(pa.array(np.ascontiguousarray(values)), pa.large_string())
        else:
            part = pa.array(_words(name, letter, values, digits), pa.large_string())
        parts.append(part)
    # the end of each row is the end of its last field
    parts[-1] = pc.binary_join_element_wise(
        parts[-1], pa.scalar("\n", pa.large_string()), pa.scalar("", pa.large_string())
    )
    joined = pc.binary_join_element_wise(*parts, pa.scalar(" ", pa.large_string())) if len(parts) > 1 else parts[0]
    offsets = np.frombuffer(joined.buffers()[1], np.int64)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(joined.buffers()[2]), offsets


def _python_text(fields: list[tuple[str, str, NDArray[Any]]], digits: int | None) -> tuple[bytes, NDArray[np.int64]]:
    words = [_words(name, letter, values, digits) for name, letter, values in fields]
    lines = [(" ".join(row) + "\n").encode() for row in zip(*words, strict=True)]
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in lines])]).astype(np.int64)
    return b"".join(lines), offsets


def _words(name: str, letter: str, values: NDArray[Any], digits: int | None) -> list[str]:
    items: list[Any] = values.tolist()
    if letter == "R":
        if digits is None:
            return list(map(repr, items))
        return [f"%.{digits}f" % item for item in items]
    if letter == "I":
        return list(map(str, items))
    if letter == "L":
        return ["T" if item else "F" for item in items]
    if letter == "Z":
        return [SYMBOLS[item] if 0 < item < len(SYMBOLS) else UNKNOWN for item in items]
    changed = {text: as_word(name, text) for text in set(items) if as_word(name, text) != text}
    return [changed.get(text, text) for text in items] if changed else items


def as_word(name: str, text: str) -> str:
    """Return what stands for a text in the column `name` of a row: one word, of nothing X or a point."""
    return "_".join(text.split()) or (UNKNOWN if name == "species" else EMPTY)
