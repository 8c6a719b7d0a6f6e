"""Rows of a section as columns of numbers, and what is wrong with the first row that does not fit.

Numbers are digits with at most a sign, a point and an `e` exponent, as LAMMPS reads them. `#` begins a comment at the
start of a line or after a blank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.rows import Field, RowFault, Words, read_rows
from molrec_convert.text.texts import Texts
from molrec_lammps.common.atom_styles import Column, Kind
from molrec_lammps.common.text import FLOAT, INTEGER, brief, decode, split_comment

__all__ = ["DTYPES", "BadRow", "read_columns", "read_words"]

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
_FIELDS: dict[Kind, Field] = {
    "int": Field("int"),
    "type": Field("int"),
    "image": Field("int"),
    "float": Field("finite"),
    "skip": Field("skip"),
}
_STRING = np.dtypes.StringDType()


class BadRow(Exception):
    """Rows that are not what the section requires. `row` counts from 0 within the text that was read."""

    def __init__(self, row: int, found: str, expected: str) -> None:
        super().__init__(f"row {row}: found {found}, expected {expected}")
        self.row, self.found, self.expected = row, found, expected


def read_columns(
    text: Texts, spans: NDArray[np.int64], columns: Sequence[Column], labels: Labels | None = None
) -> tuple[Arrays, NDArray[Any] | None]:
    """Read the rows in some spans of a text (begin, end, number of rows of each) as columns.

    The second value has the comment of each row (StringDType, `""` for none), None where no row has one. `labels` are
    those of types, where the file has some. `BadRow` describes the first row of a single span that does not fit.
    """
    fields = [Field("word") if labels and column.kind == "type" else _FIELDS[column.kind] for column in columns]
    try:
        table = read_rows(text, spans, fields, comment=b"#")
    except RowFault as fault:
        if fault.row:
            start = int(spans[fault.span, 0])
            line = text.data.rfind(b"\n", start, fault.start) + 1
            read_columns(text, np.array([[start, line, fault.row]]), columns, labels)
        raise _bad_row(fault, columns, labels) from None
    arrays: Arrays = {}
    for column, values in zip(columns, table.columns, strict=True):
        if isinstance(values, Words):
            arrays[column.name] = _type_numbers(values, column, labels or {})
        elif column.kind == "image":
            arrays[column.name] = _images(values, column)
        elif column.kind != "skip":
            arrays[column.name] = values
    assert table.comments is not None
    return arrays, _comment_texts(text, table.comments)


def read_words(words: Sequence[bytes], kind: Kind) -> NDArray[Any]:
    """Return the numbers that some words are. `BadRow` has the number of the first that is none."""
    text = b"\n".join(words)
    return read_columns(Texts(text), np.array([[0, len(text), len(words)]]), [Column("value", kind)])[0]["value"]


def _type_numbers(values: Words, column: Column, labels: Labels) -> NDArray[np.int64]:
    """Return the number of each type, written as a label or a number."""
    wrong = [_expected(word, "type", labels) for word in values.words]
    if any(wrong):
        row = int(np.argmax(np.array([text is not None for text in wrong])[values.codes]))
        code = int(values.codes[row])
        raise BadRow(row, brief(values.words[code]), f"{wrong[code]} as {column.name!r}")
    numbers = [labels[word] if word in labels else int(word) for word in values.words]
    return np.array(numbers, dtype=np.int64)[values.codes]


def _images(values: NDArray[np.int64], column: Column) -> NDArray[np.int32]:
    narrow = values.astype(np.int32)
    if not np.array_equal(narrow, values):
        row = int(np.argmax(narrow != values))
        raise BadRow(row, repr(str(values[row])), f"an integer of 32 bits as {column.name!r}")
    return narrow


def _comment_texts(text: Texts, places: NDArray[np.int64]) -> NDArray[Any] | None:
    """Return the comments that begin and end at some places (-1 for none); None where there are none."""
    if not len(places) or int(places.max()) < 0:
        return None
    raw = [text.data[start:stop] if start >= 0 else b"" for start, stop in places.tolist()]
    try:
        texts = b"\n".join(raw).decode().split("\n")
    except UnicodeDecodeError:
        texts = [decode(one) for one in raw]
    return np.strings.strip(np.array(texts, dtype=_STRING))


def _bad_row(fault: RowFault, columns: Sequence[Column], labels: Labels | None) -> BadRow:
    shape = f"{len(columns)} columns ({' '.join(column.name for column in columns)})"
    if fault.reason == "few rows":
        return BadRow(fault.row, "the end of the file", f"a row of {shape}")
    if fault.reason in ("few fields", "many fields"):
        body, comment = split_comment(fault.found)
        if words := body.split():
            return BadRow(fault.row, f"{len(words)} columns: {brief(fault.found)}", shape)
        return BadRow(fault.row, "a blank line" if comment is None else "a comment line", f"a row of {shape}")
    column = columns[fault.field or 0]
    return BadRow(fault.row, brief(fault.found), f"{_expected(fault.found, column.kind, labels)} as {column.name!r}")


def _expected(word: bytes, kind: Kind, labels: Labels | None) -> str | None:
    """Return what should stand in place of `word`, or None when it is right."""
    if kind == "type" and labels and word in labels:
        return None
    if kind == "float":
        return None if FLOAT.fullmatch(word) and np.isfinite(float(word)) else "a finite number"
    if INTEGER.fullmatch(word):
        limits = np.iinfo(DTYPES[kind])
        return None if limits.min <= int(word) <= limits.max else f"an integer of {limits.bits} bits"
    if kind != "type":
        return "an integer"
    return "an integer or one of the file's type labels" if labels else "an integer (the file has no type labels)"
