"""Rows of numbers to arrays: a piece of a section at once, by compiled code, by pyarrow, or by numpy.

All give the same bits. The compiled code takes rows without comments and labels. pyarrow's parser takes rows of single
blanks only, so a piece it refuses is tidied first (comments off, blanks squeezed), and one it refuses still goes to
numpy, which alone decides what is a number: digits with at most a sign, a point and an `e` exponent, as LAMMPS reads
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.number_rows import read_number_rows
from molrec_lammps.common.atom_styles import Column, Kind
from molrec_lammps.common.text import FLOAT, INTEGER, brief, decode, split_comment

__all__ = ["DTYPES", "RowFault", "arrow_csv", "converted", "find_fault", "native_rows", "parse_rows"]

Arrays = dict[str, NDArray[Any]]
#: Number of a type by its label.
Labels = Mapping[bytes, int]

#: dtype of each kind of column.
DTYPES: dict[Kind, np.dtype[Any]] = {
    "int": np.dtype(np.int64),
    "type": np.dtype(np.int64),
    "image": np.dtype(np.int32),
    "float": np.dtype(np.float64),
}
_STRING = np.dtypes.StringDType()
_TO_BLANKS = bytes.maketrans(b"\t\r", b"  ")


def _allowed(characters: bytes) -> NDArray[np.bool_]:
    table = np.zeros(256, dtype=np.bool_)
    table[list(characters)] = True
    table[0] = True  # what numpy fills words of fixed width with
    return table


_INTEGER_BYTES = _allowed(b"0123456789+-")
_FLOAT_BYTES = _allowed(b"0123456789+-.eE")


class RowFault(Exception):
    """Rows that are not what the section requires. `row` counts from 0 within the piece."""

    def __init__(self, row: int, found: str, expected: str) -> None:
        super().__init__(f"row {row}: found {found}, expected {expected}")
        self.row, self.found, self.expected = row, found, expected


@cache
def arrow_csv() -> ModuleType | None:
    """The CSV reader of pyarrow, or None where pyarrow is not installed."""
    try:
        import pyarrow.csv
    except ImportError:
        return None
    return pyarrow.csv  # type: ignore[no-any-return]


def parse_rows(
    text: bytes, columns: Sequence[Column], rows: int, labels: Labels | None = None
) -> tuple[Arrays, NDArray[Any] | None]:
    """The columns of a piece of `rows` lines, and the comment of each row (StringDType, `""` for none) or None.

    `labels` are the labels of types, where the file has some. RowFault names the first row that does not fit.
    """
    native = native_rows(text, columns, rows)
    if native is not None:
        return native, None
    reader = arrow_csv()
    if reader is not None and b"#" not in text:
        arrays = _arrow(reader, text, columns, rows, labels)
        if arrays is not None:
            return arrays, None
    tidy, comments = _strip_comments(text) if b"#" in text else (text, None)
    tidy = _squeeze(tidy)
    if reader is not None:
        arrays = _arrow(reader, tidy, columns, rows, labels)
        if arrays is not None:
            return arrays, comments
    arrays = _numpy(tidy, columns, rows, labels)
    if arrays is None:
        raise find_fault(text, columns, rows, labels) or RowFault(0, "text", "rows of numbers")
    return arrays, comments


def find_fault(text: bytes, columns: Sequence[Column], rows: int, labels: Labels | None = None) -> RowFault | None:
    """The first line that is no row of these columns, looked for line by line; None when all are."""
    shape = f"{len(columns)} columns ({' '.join(column.name for column in columns)})"
    lines = text.removesuffix(b"\n").split(b"\n")[:rows]
    for row, line in enumerate(lines):
        if b"\0" in line:
            return RowFault(row, "a NUL character", f"a row of {shape}")
        body, comment = split_comment(line)
        words = [word for word in body.translate(_TO_BLANKS).split(b" ") if word]
        if not words:
            return RowFault(row, "a blank line" if comment is None else "a comment line", f"a row of {shape}")
        if len(words) != len(columns):
            return RowFault(row, f"{len(words)} columns: {brief(line)}", shape)
        for word, column in zip(words, columns, strict=True):
            expected = _expected(word, column.kind, labels)
            if expected is not None:
                return RowFault(row, brief(word), f"{expected} as {column.name!r}")
    return None if len(lines) == rows else RowFault(len(lines), "the end of the file", f"a row of {shape}")


def _expected(word: bytes, kind: Kind, labels: Labels | None) -> str | None:
    """What should stand in place of `word`, or None when it is right."""
    if kind == "skip" or (kind == "type" and labels and word in labels):
        return None
    if kind == "float":
        return None if FLOAT.fullmatch(word) and np.isfinite(float(word)) else "a finite number"
    if INTEGER.fullmatch(word):
        limits = np.iinfo(DTYPES[kind])
        return None if limits.min <= int(word) <= limits.max else f"an integer of {limits.bits} bits"
    if kind != "type":
        return "an integer"
    return "an integer or one of the file's type labels" if labels else "an integer (the file has no type labels)"


_LETTERS: dict[Kind, str] = {"int": "I", "type": "I", "image": "I", "float": "R", "skip": "-"}


def native_rows(text: bytes, columns: Sequence[Column], rows: int) -> Arrays | None:
    """The columns by compiled code, or None where it has to leave the text to others."""
    if b"\v" in text or b"\f" in text:
        return None  # blanks elsewhere, not in a data file
    found = read_number_rows(text, rows, "".join(_LETTERS[column.kind] for column in columns))
    if found is None:
        return None
    arrays: Arrays = {}
    for column, values in zip(columns, found, strict=True):
        if column.kind == "skip":
            continue
        dtype = DTYPES[column.kind]
        if column.kind == "image":
            limits = np.iinfo(dtype)
            if values.min() < limits.min or values.max() > limits.max:
                return None
        arrays[column.name] = values.astype(dtype, copy=False)
    return arrays


# --- pyarrow ---------------------------------------------------------------------------------------------------------


def _arrow(csv: ModuleType, text: bytes, columns: Sequence[Column], rows: int, labels: Labels | None) -> Arrays | None:
    """The columns, or None where pyarrow refuses the text or would read it otherwise than LAMMPS does."""
    import pyarrow as pa

    if text.startswith(b"\xef\xbb\xbf") or b"\0" in text or b"x" in text or b"X" in text:
        return None  # it skips a byte order mark and takes 0x10 for 16
    if columns[0].kind == "skip" and (text.startswith(b" ") or b"\n " in text):
        return None  # it takes what stands before a leading blank for a column
    types = {"float": pa.float64(), "image": pa.int32(), "int": pa.int64(), "type": pa.int64()}
    wanted = [column for column in columns if column.kind != "skip"]
    table = None
    for labelled in (False, True) if labels else (False,):
        if labelled:
            types["type"] = pa.string()
        try:
            table = csv.read_csv(
                pa.BufferReader(pa.py_buffer(text)),
                read_options=csv.ReadOptions(
                    column_names=[column.name for column in columns], use_threads=False, block_size=len(text) + 1
                ),
                parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
                convert_options=csv.ConvertOptions(
                    column_types={column.name: types[column.kind] for column in wanted},
                    include_columns=[column.name for column in wanted],
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
            break
        except pa.ArrowInvalid:
            continue
    if table is None or table.num_rows != rows:
        return None
    arrays: Arrays = {}
    for column in wanted:
        values = table.column(column.name)
        if pa.types.is_string(values.type):
            numbers = _numbered(values, labels or {})
            if numbers is None:
                return None
            arrays[column.name] = numbers
            continue
        arrays[column.name] = values.to_numpy()
        if column.kind == "float" and not np.isfinite(arrays[column.name]).all():
            return None
    return arrays


def _numbered(values: Any, labels: Labels) -> NDArray[np.int64] | None:
    """Numbers of types written as labels or numbers; None where one is neither."""
    encoded = values.combine_chunks().dictionary_encode()
    numbers = [_number(word.encode(), labels) for word in encoded.dictionary.to_pylist()]
    if any(number is None for number in numbers):
        return None
    picked: NDArray[np.int64] = np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]
    return picked


def _number(word: bytes, labels: Labels) -> int | None:
    if word in labels:
        return labels[word]
    if INTEGER.fullmatch(word) and -(2**63) <= int(word) < 2**63:
        return int(word)
    return None


# --- numpy -----------------------------------------------------------------------------------------------------------


def _numpy(text: bytes, columns: Sequence[Column], rows: int, labels: Labels | None) -> Arrays | None:
    """The columns of tidy rows, or None where a row does not fit."""
    words = text.removesuffix(b"\n").replace(b"\n", b" ").split(b" ")
    if b"\0" in text or len(words) != rows * len(columns) or not _uniform(text, len(columns)):
        return None
    grid = np.array(words).reshape(rows, len(columns))
    arrays: Arrays = {}
    for number, column in enumerate(columns):
        if column.kind == "skip":
            continue
        values = converted(np.ascontiguousarray(grid[:, number]), column.kind, labels)
        if values is None:
            return None
        arrays[column.name] = values
    return arrays


def _uniform(text: bytes, width: int) -> bool:
    """Whether each line of tidy rows has `width` words."""
    data = np.frombuffer(text.removesuffix(b"\n"), dtype=np.uint8)
    ends = np.append(np.flatnonzero(data == 10), len(data))
    blanks = np.diff(np.searchsorted(np.flatnonzero(data == 32), ends), prepend=0)
    return bool((blanks == width - 1).all())


def converted(words: NDArray[np.bytes_], kind: Kind, labels: Labels | None = None) -> NDArray[Any] | None:
    """The numbers that words are, None where one is none or does not fit."""
    if kind == "type" and labels:
        unique, indices = np.unique(words, return_inverse=True)
        numbers = [_number(word, labels) for word in unique.tolist()]
        return None if any(n is None for n in numbers) else np.array(numbers, dtype=np.int64)[indices]
    allowed = _FLOAT_BYTES if kind == "float" else _INTEGER_BYTES
    if words.size and not allowed[words.view(np.uint8)].all():
        return None
    try:
        if kind == "float":
            values = words.astype(np.float64)
            return values if np.isfinite(values).all() else None
        integers = words.astype(np.int64)
    except (ValueError, OverflowError):
        return None
    limits = np.iinfo(DTYPES[kind])
    if integers.size and not limits.min <= integers.min() <= integers.max() <= limits.max:
        return None
    return integers.astype(DTYPES[kind])


# --- text ------------------------------------------------------------------------------------------------------------


def _strip_comments(text: bytes) -> tuple[bytes, NDArray[Any] | None]:
    """The rows without comments, and the comment of each line (StringDType); None where there is none."""
    data = np.frombuffer(text, dtype=np.uint8)
    marks = np.flatnonzero(data == 35)
    before = data[marks - 1]
    marks = marks[(marks == 0) | (before == 32) | (before == 9) | (before == 10) | (before == 13)]
    if not len(marks):
        return text, None
    ends = np.flatnonzero(data == 10)
    line = np.searchsorted(ends, marks)
    first = np.concatenate([[True], line[1:] != line[:-1]])
    marks, line = marks[first], line[first]
    stops = np.concatenate([ends, [len(data)]])[line]
    inside = np.zeros(len(data) + 1, dtype=np.int8)
    inside[marks] += 1
    inside[stops] -= 1
    comment = np.cumsum(inside, dtype=np.int8)[:-1].astype(np.bool_)
    kept = comment | (data == 10)
    kept[marks] = False
    lines = decode(data[kept].tobytes()).split("\n")
    if text.endswith(b"\n"):
        lines.pop()
    return data[~comment].tobytes(), np.strings.strip(np.array(lines, dtype=_STRING))


def _squeeze(text: bytes) -> bytes:
    """The rows with one blank between words and none at their ends."""
    data = np.frombuffer(text.translate(_TO_BLANKS), dtype=np.uint8)
    blank, newline = data == 32, data == 10
    keep = ~blank
    keep[:-1] |= blank[:-1] & ~blank[1:] & ~newline[1:]
    starts = np.concatenate([[0], np.flatnonzero(newline) + 1])
    solid = np.append(np.flatnonzero(~blank), len(data))
    first = solid[np.searchsorted(solid, starts)]
    keep[first[first > starts] - 1] = False
    tidy: bytes = data[keep].tobytes()
    return tidy
