"""Rows of a section as columns of numbers, and what is wrong with the first row that does not fit.

Numbers are digits with at most a sign, a point and an `e` exponent, as LAMMPS reads them. `#` begins a comment at the
start of a line or after a blank.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.text.rows import Field, RowFault, Words, read_rows
from molrec_convert.text.texts import Texts
from molrec_lammps.common.atom_styles import Column, Kind
from molrec_lammps.common.text import FLOAT, INTEGER, brief, decode, split_comment

__all__ = [
    "DTYPES",
    "PROPERTY_COLUMNS",
    "AtomIndex",
    "BadRow",
    "check_each_once",
    "check_endpoints",
    "check_masses",
    "check_positive",
    "check_types",
    "index_atoms",
    "property_table",
    "read_columns",
    "read_words",
]

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


Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AtomIndex:
    """Rows of atoms by id, in ascending order of ids.

    `ids` int64[n] ascend; `order` int64[n] are the rows of the file in that order, None where the file is in order.
    """

    ids: Integers
    order: Integers | None

    @property
    def dense(self) -> bool:
        """Whether the ids are 1, 2, … n."""
        return not len(self.ids) or int(self.ids[-1]) == len(self.ids)

    def sorted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one value per row of the file, in order of ids."""
        return values if self.order is None else values[self.order]

    def rows(self, ids: Integers) -> tuple[Integers, NDArray[np.bool_] | None]:
        """Return row of each id in order of ids, and where there is no such atom (None when all are there)."""
        if self.dense:
            absent = (ids < 1) | (ids > len(self.ids))
            return ids - 1, absent if absent.any() else None
        found = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        absent = self.ids[found] != ids
        return found, absent if absent.any() else None


def index_atoms(path: str, ids: Integers, line: int) -> AtomIndex:
    """Order the rows of Atoms by id. `line` is the line of the first row. Refused: an id below 1, an id twice."""
    if len(ids) and int(ids.min()) < 1:
        row = int(np.argmax(ids < 1))
        raise FormatError(path, f"line {line + row}", found=f"the atom id {ids[row]}", expected="an id from 1 on")
    if not len(ids) or bool((ids[1:] > ids[:-1]).all()):
        return AtomIndex(ids, None)
    order = _dense_order(ids)
    if order is None:
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(same):
            second = int(order[same + 1].min())
            first = int(np.argmax(ids == ids[second]))
            raise FormatError(
                path,
                f"line {line + second}",
                found=f"a second atom with the id {ids[second]}",
                expected=f"one, which line {line + first} has",
            )
        return AtomIndex(ordered, order)
    return AtomIndex(np.arange(1, len(ids) + 1), order)


def _dense_order(ids: Integers) -> Integers | None:
    """Return the order of ids that are 1 … n in some order, without sorting; None for others."""
    if int(ids.max()) != len(ids):
        return None
    order = np.full(len(ids), -1, dtype=np.int64)
    order[ids - 1] = np.arange(len(ids))
    return order if int(order.min()) >= 0 else None


def check_types(
    path: str, section: str, types: Integers, line: int, kind: str, count: int, counted: int | None
) -> None:
    """Refuse types outside 1 … count. `counted` is the line of the header that gives the count, if any."""
    if not len(types) or (int(types.min()) >= 1 and int(types.max()) <= count):
        return
    row = int(np.argmax((types < 1) | (types > count)))
    where = "" if counted is None else f", the count of line {counted}"
    raise FormatError(
        path,
        f"line {line + row}",
        found=f"{kind} type {types[row]} in {section}",
        expected=f"a type from 1 to {count}{where}" if count else f"no {section}: the file has no {kind} types",
    )


def check_each_once(path: str, section: str, ids: Integers, line: int, index: AtomIndex) -> Integers | None:
    """Return the order that brings rows, one of each atom, to ascending ids; None when they are. Refused: unknown,
    twice.
    """
    if np.array_equal(ids, index.ids):
        return None
    rows, absent = index.rows(ids)
    if absent is not None:
        row = int(np.argmax(absent))
        raise FormatError(
            path, f"line {line + row}", found=f"the id {ids[row]} in {section}", expected="the id of an atom"
        )
    first = np.full(len(index.ids), -1, dtype=np.int64)
    first[rows[::-1]] = np.arange(len(rows))[::-1]
    again = first[rows] != np.arange(len(rows))
    if again.any():
        row = int(np.argmax(again))
        raise FormatError(
            path,
            f"line {line + row}",
            found=f"a second row of {section} for the atom {ids[row]}",
            expected=f"one, which line {line + int(first[rows[row]])} has",
        )
    return first


def check_endpoints(
    path: str, section: str, names: list[str], columns: dict[str, NDArray[Any]], line: int, index: AtomIndex
) -> dict[str, NDArray[np.uint64]]:
    """0-based rows u64 of the atoms a relation names. Refused: an atom that is not there, one twice in a row."""
    ends: dict[str, Integers] = {}
    for name in names:
        rows, absent = index.rows(columns[name])
        if absent is not None:
            row = int(np.argmax(absent))
            raise FormatError(
                path,
                f"line {line + row}",
                found=f"the atom {columns[name][row]} in {section}",
                expected="the id of an atom in Atoms",
            )
        ends[name] = rows
    for number, name in enumerate(names):
        for other in names[:number]:
            same = ends[name] == ends[other]
            if same.any():
                row = int(np.argmax(same))
                raise FormatError(
                    path,
                    f"line {line + row}",
                    found=f"the atom {columns[name][row]} twice in a row of {section}",
                    expected="different atoms",
                )
    return {name: rows.view(np.uint64) for name, rows in ends.items()}


def check_positive(path: str, name: str, values: NDArray[np.float64], line: int) -> None:
    """Refuse values of a column of Atoms that are not above zero."""
    wrong = ~(values > 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FormatError(
            path, f"line {line + row}", found=f"the {name} {float(values[row])!r}", expected="one above zero"
        )


def check_masses(path: str, types: Integers, masses: NDArray[np.float64], line: int) -> None:
    """Refuse a mass that is not above zero, and a second mass of a type."""
    seen: dict[int, int] = {}
    for row, (number, value) in enumerate(zip(types.tolist(), masses.tolist(), strict=True)):
        if not value > 0:
            raise FormatError(path, f"line {line + row}", found=f"the mass {value!r}", expected="one above zero")
        if number in seen:
            raise FormatError(
                path,
                f"line {line + row}",
                found=f"a second mass of atom type {number}",
                expected=f"one, which line {line + seen[number]} has",
            )
        seen[number] = row


#: Words of `fix property/atom` that are no `i_name` or `d_name`: what a column of theirs is called in a record.
PROPERTY_COLUMNS = {
    "mol": "mol_id",
    "q": "charge",
    "rmass": "rmass",
    "temperature": "temperature",
    "heatflow": "heatflow",
}


def property_table(
    text: bytes, hint: str | None, rows: int, index: AtomIndex, taken: Collection[str]
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]] | None:
    """Return the columns a section's comment names and the rows (in order of ids) of their atoms.

    None where the comment names none, where the rows are otherwise, or where a column would have a name in `taken`.
    """
    words = (hint or "").split()
    columns = [_column(word) for word in words]
    names = [column.name for column in columns if column is not None]
    if not names or len(set(names)) < len(words) or set(names) & set(taken) or b"#" in text:
        return None
    try:
        spans = np.array([[0, len(text), rows]])
        arrays, _ = read_columns(Texts(text), spans, [Column("id", "int"), *(c for c in columns if c is not None)])
    except BadRow:
        return None
    ids = arrays.pop("id")
    places, absent = index.rows(ids)
    if absent is not None or len(np.unique(places)) < len(places):
        return None
    return arrays, places


def _column(word: str) -> Column | None:
    if word.startswith(("i_", "d_")) and len(word) > 2:
        return Column(word, "int" if word[0] == "i" else "float")
    name = PROPERTY_COLUMNS.get(word)
    return None if name is None else Column(name, "int" if word == "mol" else "float")
