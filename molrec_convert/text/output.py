"""Columns of numbers and words to rows of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert._kernel import address, library

__all__ = ["Column", "WideFault", "real_text", "word_column", "write_rows"]

#: How values are written: `shortest` is the shortest text that reads back to the same double, as `repr` has it;
#: `general` has `digits` significant digits, as C's `%.ng`, `decimals` so many decimals, as `%.nf`; `bool` is T or F.
Form = Literal["shortest", "general", "decimals", "int", "word", "bool"]

_FORMS: tuple[Form, ...] = ("shortest", "general", "decimals", "int", "word", "bool")
_DTYPES: dict[Form, Any] = {"int": np.int64, "word": np.int32, "bool": np.uint8}
#: Rows of one piece, and bytes that a value is taken to need at first.
_PIECE = 2**15
_GUESS = {"shortest": 20, "general": 12, "decimals": 14, "int": 8, "word": 4, "bool": 1}


class Column(NamedTuple):
    """A column of rows that are written: its values, their form, and what stands before each.

    `values` are float64, int64, bool, or int32 codes that count in `words`. `whole_point`: a whole number that is
    written in the shortest form keeps its `.0`. `width` justifies to the right, where it is negative to the left.
    """

    form: Form
    values: NDArray[Any]
    before: bytes = b" "
    digits: int = 0
    width: int = 0
    words: Sequence[bytes] = ()
    whole_point: bool = True


class WideFault(ValueError):
    """A value that is wider than its column: its row, and the number of its column."""

    def __init__(self, row: int, field: int) -> None:
        super().__init__(f"row {row}: the value of column {field} is too wide")
        self.row, self.field = row, field


def word_column(
    words: Sequence[str], before: bytes = b" ", width: int = 0, spelled: Callable[[str], str] = str
) -> Column:
    """Return a column of texts; `spelled` gives how each different one is written."""
    known = {word: number for number, word in enumerate(dict.fromkeys(words))}
    codes = np.fromiter(map(known.__getitem__, words), np.int32, len(words))
    return Column("word", codes, before, 0, width, [spelled(word).encode() for word in known])


def write_rows(columns: Sequence[Column], rows: int, end: bytes = b"\n") -> tuple[bytes, NDArray[np.int64]]:
    """Return the rows as one text, and where each ends. `WideFault` names the first value that is too wide."""
    pieces, ends, before = [], [], 0
    for text, own in write_pieces(columns, rows, end):
        pieces.append(text)
        ends.append(own + before)
        before += len(text)
    return b"".join(pieces), np.concatenate(ends) if ends else np.zeros(0, np.int64)


def write_pieces(
    columns: Sequence[Column], rows: int, end: bytes = b"\n", piece: int = _PIECE
) -> Iterator[tuple[bytes, NDArray[np.int64]]]:
    """Write rows, some thousands at a time: each text, and where the rows in it end."""
    columns = [_prepared(column) for column in columns]
    for start in range(0, rows, piece):
        stop = min(rows, start + piece)
        part = [column._replace(values=column.values[start:stop]) for column in columns]
        try:
            yield (_plain if library() is None else _native)(part, stop - start, end)
        except WideFault as fault:
            raise WideFault(start + fault.row, fault.field) from None


def real_text(value: float, digits: int | None = None, *, whole_point: bool = False) -> str:
    """Return a real as text: the shortest that reads back to it, or with `digits` significant digits."""
    if digits is not None:
        return f"{value:.{digits}g}"
    text = repr(float(value))
    return text if whole_point else text.removesuffix(".0")


def _prepared(column: Column) -> Column:
    values = np.asarray(column.values)
    dtype = _DTYPES.get(column.form, np.float64)
    if values.dtype == np.bool_ and dtype == np.uint8:
        values = values.view(np.uint8)
    return column._replace(values=values.astype(dtype, copy=False))


def _native(columns: list[Column], rows: int, end: bytes) -> tuple[bytes, NDArray[np.int64]]:
    kernel = library()
    assert kernel is not None
    table = np.zeros((len(columns), 9), np.int64)
    kept: list[Any] = []
    guess = len(end)
    for row, column in zip(table, columns, strict=True):
        before = np.frombuffer(column.before, np.uint8) if column.before else np.zeros(0, np.uint8)
        trim = int(not column.whole_point) if column.form == "shortest" else column.digits
        row[:5] = _FORMS.index(column.form), trim, address(column.values), column.values.strides[0], column.width
        row[7:] = address(before), len(before)
        kept.append(before)
        longest = abs(column.width) or _GUESS[column.form] + column.digits
        if column.form == "word":
            bounds = np.zeros(len(column.words) + 1, np.int64)
            np.cumsum([len(word) for word in column.words], out=bounds[1:])
            texts = np.frombuffer(b"".join(column.words) + b"\0", np.uint8)
            row[5:7] = address(texts), address(bounds)
            kept += [bounds, texts]
            longest = max(longest, int(np.diff(bounds).max(initial=0)))
        guess += len(before) + longest
    fault, used = np.full(2, -1, np.int64), np.zeros(1, np.int64)
    pieces, ends, done, size, total = [], np.zeros(rows, np.int64), 0, rows * guess + 512 * len(columns) + 64, 0
    while done < rows:
        room = np.empty(size, np.uint8)
        last = kernel.molrec_write_rows(
            address(table), len(columns), done, rows, end, len(end), address(room), size, address(used),
            address(ends), address(fault),
        )  # fmt: skip
        if fault[0] >= 0:
            raise WideFault(int(fault[0]), int(fault[1]))
        ends[done:last] += total
        total += int(used[0])
        pieces.append(room[: int(used[0])].tobytes())
        size, done = 2 * size, last
    return b"".join(pieces), ends


def _plain(columns: list[Column], rows: int, end: bytes) -> tuple[bytes, NDArray[np.int64]]:
    """Write rows as the kernel does, by Python's own formats."""
    texts = [_texts(column) for column in columns]
    for field, (column, words) in enumerate(zip(columns, texts, strict=True)):
        width = abs(column.width)
        if width:
            wide = [row for row, word in enumerate(words) if len(word) > width]
            if wide:
                raise WideFault(wide[0], field)
            texts[field] = [word.rjust(width) if column.width > 0 else word.ljust(width) for word in words]
        if column.before:
            texts[field] = [column.before + word for word in texts[field]]
    lines = [b"".join(row) + end for row in zip(*texts, strict=True)] if texts else [end] * rows
    return b"".join(lines), np.cumsum([len(line) for line in lines], dtype=np.int64)


def _texts(column: Column) -> list[bytes]:
    values: list[Any] = column.values.tolist()
    if column.form == "word":
        return [column.words[code] for code in values]
    if column.form == "bool":
        return [b"T" if value else b"F" for value in values]
    if column.form == "shortest":
        texts = map(repr, values) if column.whole_point else (repr(value).removesuffix(".0") for value in values)
    elif column.form == "int":
        texts = map(str, values)
    else:
        form = f"%.{max(column.digits, 0)}{'g' if column.form == 'general' else 'f'}"
        texts = (form % value for value in values)
    return [text.encode() for text in texts]
