"""Rows of text to columns: the only place where text becomes numbers.

A row is a line; its fields are parted by blanks, or stand in fixed columns. Reals are the nearest doubles. Any form is
read: `-1.5e-3`, `.5`, `+1`, `nan`, `inf`, any number of digits. The work is done by the native kernel, which lets other
threads run, or, where it was not built, by its plain twin.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert._kernel import address, library, status
from molrec_convert.text import twin
from molrec_convert.text.texts import Texts

__all__ = ["Field", "Kind", "RowFault", "RowTable", "Words", "count_lines", "line_ends", "read_rows"]

#: What a field is read as. `fortran` is a real whose exponent may be marked by `D` or `*^`, too; `finite` a real that
#: is neither `nan` nor `inf`; `bool` one of T, F, True, False, true, false, TRUE, FALSE; `skip` is not looked at.
Kind = Literal["real", "fortran", "finite", "int", "word", "bool", "skip"]
#: Why a row is at fault.
Reason = Literal["blank", "value", "range", "few fields", "many fields", "few rows", "many rows"]

_KINDS: tuple[Kind, ...] = ("real", "fortran", "finite", "int", "word", "bool", "skip")
_REASONS: tuple[Any, ...] = (None, "blank", "value", "range", "few fields", "many fields", "few rows", "many rows")
_DTYPES = (np.float64, np.float64, np.float64, np.int64, np.int32, np.bool_, None)
_WORD, _SKIP = _KINDS.index("word"), _KINDS.index("skip")
_WIDEST = 255
_EXTRA = 1
#: Bytes of text that take some seconds without the kernel; those read so in this process.
_MUCH = 2**24
_read_plainly = 0

Bytes = Any  # bytes, bytearray, memoryview, mmap, an array of uint8


class Field(NamedTuple):
    """A field of a row: its kind, and its columns (from, to before) where it has fixed ones.

    `lenient`: where a field holds no value of its kind, that is noted in `RowTable.flaws` and reading goes on.
    """

    kind: Kind
    at: tuple[int, int] | None = None
    lenient: bool = False


class Words(NamedTuple):
    """A column of words: `codes` int32[rows] count in `words`, which are in the order they were met."""

    codes: NDArray[np.int32]
    words: list[bytes]


class RowTable(NamedTuple):
    """Columns of rows: float64, int64, bool arrays or `Words`; None for a field that is skipped.

    `offsets` int64[spans + 1] bounds the rows of each span. `flaws` has for each lenient field uint8[rows] (0: as it
    should be, 1: blank, 2: no value of the kind, 3: out of range; the value is then nan, inf or 0), None where all are
    good. `comments` int64[rows, 2] says where the comment of each row begins and ends, -1 where it has none.
    """

    columns: list[Any]
    offsets: NDArray[np.int64]
    flaws: list[NDArray[np.uint8] | None]
    comments: NDArray[np.int64] | None


class RowFault(Exception):
    """A row that is not as it should be: number of its span, its number in it, and of the field that is at fault.

    `start` and `stop` bound the field (or the line, where there are too few or many fields) in the text, `found` is
    what stands there.
    """

    def __init__(
        self, span: int, row: int, field: int | None, reason: Reason, start: int, stop: int, found: bytes
    ) -> None:
        super().__init__(f"span {span}, row {row}: {reason}: {found[:80]!r}")
        self.span, self.row, self.field, self.reason = span, row, field, reason
        self.start, self.stop, self.found = start, stop, found


@lru_cache(maxsize=512)
def _plan(fields: tuple[Field, ...]) -> tuple[NDArray[np.int64], list[int], bool]:
    """Return the table of fields for the kernel (without addresses), their kinds, and whether one is lenient."""
    kinds = [_KINDS.index(field.kind) for field in fields]
    fixed = [field.at is not None for field in fields]
    if any(fixed) != all(fixed):
        raise ValueError("either all fields stand in fixed columns or none does")
    if any(field.at is not None and not 0 <= field.at[0] < field.at[1] <= field.at[0] + _WIDEST for field in fields):
        raise ValueError(f"fixed columns must ascend and be at most {_WIDEST} wide")
    table = np.zeros((len(fields), 8), np.int64)
    for number, (kind, field) in enumerate(zip(kinds, fields, strict=True)):
        table[number, :3] = kind, *(field.at or (-1, -1))
    return table, kinds, any(field.lenient for field in fields)


def read_rows(
    texts: Texts | Bytes,
    spans: NDArray[np.int64] | None,
    fields: Sequence[Field],
    *,
    comment: bytes = b"",
    extra: bool = False,
    out: Sequence[NDArray[Any] | None] | None = None,
) -> RowTable:
    """Read the rows in some spans of a text as columns. `RowFault` names the first row that is not as it should be.

    `spans` int64[n, 3] has begin, end and number of rows of each, int64[n, 2] begin and end (all lines are rows); None
    is the whole text. `comment` begins a comment where a field could begin; `extra`: further fields may follow the last
    one. `out` has arrays that take the values of some fields (not of words), of one value a row, strided as they like.
    """
    source = texts if isinstance(texts, Texts) else Texts(texts)
    if spans is None:
        spans = np.array([[0, source.size]], np.int64)
    if spans.shape[1] == 2:
        spans = count_lines(source, spans)
    elif not spans.flags.c_contiguous:
        spans = np.ascontiguousarray(spans)
    if len(spans) == 1:
        rows = int(spans[0, 2])
        offsets = np.array([0, rows], np.int64)
    else:
        offsets = np.zeros(len(spans) + 1, np.int64)
        np.cumsum(spans[:, 2], out=offsets[1:])
        rows = int(offsets[-1])
    table, kinds, lenient = _plan(tuple(fields))
    columns: list[Any] = [None if kind == _SKIP else np.empty(rows, _DTYPES[kind]) for kind in kinds]
    if out is not None:
        for number, given in enumerate(out):
            if given is not None:
                if given.shape != (rows,) or given.dtype != _DTYPES[kinds[number]] or kinds[number] == _WORD:
                    raise ValueError(
                        f"field {number}: an array of {given.dtype}{list(given.shape)} cannot take its values"
                    )
                columns[number] = given
    flaws: list[NDArray[np.uint8] | None] = [None] * len(kinds)
    if lenient:
        flaws = [np.zeros(rows, np.uint8) if field.lenient else None for field in fields]
    comments = np.empty((rows, 2), np.int64) if comment else None
    if library() is None:
        _warn_of_size(int((spans[:, 1] - spans[:, 0]).sum()))
    fill = _fill if library() is not None else twin.fill
    words, fault = fill(source, spans, table, kinds, comment, extra, columns, flaws, comments)
    if fault is not None:
        span, row, field, reason, start, stop = fault
        found = source.piece(start, stop)
        raise RowFault(span, row, None if field < 0 else field, _REASONS[reason], start, stop, found)
    for number, own in words.items():
        columns[number] = Words(columns[number], own)
    if lenient:
        flaws = [flaw if flaw is not None and flaw.any() else None for flaw in flaws]
    return RowTable(columns, offsets, flaws, comments)


def _warn_of_size(size: int) -> None:
    """Warn once of the pace of plain Python, when it has read so much text that this tells."""
    global _read_plainly
    before, _read_plainly = _read_plainly, _read_plainly + size
    if before < _MUCH <= _read_plainly:
        warnings.warn(
            f"rows of text are read by {status()}, about a hundred times as slowly", RuntimeWarning, stacklevel=3
        )


def _fill(
    source: Texts,
    spans: NDArray[np.int64],
    table: NDArray[np.int64],
    kinds: list[int],
    comment: bytes,
    extra: bool,
    columns: list[Any],
    flaws: list[Any],
    comments: NDArray[np.int64] | None,
) -> tuple[dict[int, list[bytes]], tuple[int, ...] | None]:
    """Fill `columns`, `flaws` and `comments` by the kernel; return the words of fields, and a fault."""
    table = table.copy()
    rooms: dict[int, NDArray[np.int64]] = {}
    for number, (column, flaw) in enumerate(zip(columns, flaws, strict=True)):
        if column is not None:
            table[number, 3:5] = address(column), column.strides[0]
            if kinds[number] == _WORD:
                rooms[number] = room = np.empty((len(column), 2), np.int64)
                table[number, 6] = address(room)
        if flaw is not None:
            table[number, 5] = address(flaw)
    fault = np.zeros(6, np.int64)
    kernel = library()
    assert kernel is not None
    done = kernel.molrec_read_rows(
        source.handle, source.size, address(spans), len(spans), address(table), len(kinds),
        comment[0] if comment else 0, _EXTRA if extra else 0, None if comments is None else address(comments),
        address(fault),
    )  # fmt: skip
    if done == -1:
        raise MemoryError("no memory for the words of a column")
    if done == -2:
        raise ValueError(twin.OUTSIDE)
    if not done:
        return {}, tuple(fault.tolist())
    words = {}
    for number, room in rooms.items():
        bounds = room[: int(table[number, 7])].tolist()
        words[number] = [source.piece(start, stop) for start, stop in bounds]
    return words, None


def count_lines(texts: Texts | Bytes, spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return spans int64[n, 3] with the number of lines of each; the last line of a span may lack its end."""
    source = texts if isinstance(texts, Texts) else Texts(texts)
    if len(spans) and not 0 <= int(spans[:, :2].min()) <= int(spans[:, :2].max()) <= source.size:
        raise ValueError(twin.OUTSIDE)
    counted = np.zeros((len(spans), 3), np.int64)
    counted[:, :2] = spans[:, :2]
    kernel = library()
    if kernel is not None:
        kernel.molrec_count_lines(source.handle, address(counted), len(counted))
    else:
        for span in counted:
            piece = source.view[span[0] : span[1]]
            span[2] = np.count_nonzero(piece == 10) + bool(len(piece) and piece[-1] != 10)
    return counted


def line_ends(texts: Texts | Bytes, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
    """Return the offset of each newline from `start` to before `stop`."""
    source = texts if isinstance(texts, Texts) else Texts(texts)
    stop = source.size if stop is None else min(stop, source.size)
    start = max(start, 0)
    kernel = library()
    if kernel is None:
        return np.flatnonzero(source.view[start:stop] == 10) + start
    lines = np.array([[start, stop, 0]], np.int64)
    kernel.molrec_count_lines(source.handle, address(lines), 1)
    ends = np.empty(int(lines[0, 2]), np.int64)
    found = kernel.molrec_line_ends(source.handle, start, stop, address(ends), len(ends))
    return ends[:found]
