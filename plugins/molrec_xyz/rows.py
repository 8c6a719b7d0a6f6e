"""Rows of a file as fields: whole pieces of text through compiled code or pyarrow, or, where both are unsure, singly.

All ways give the same bits. The plain way knows every form of number (`1.0D-03`, `1.0*^-3`) and says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.number_rows import read_number_rows
from molrec_xyz.columns import RowLayout
from molrec_xyz.keyvalues import number
from molrec_xyz.scan import shown

__all__ = ["RowFault", "logicals", "native_rows", "parse_rows", "plain_rows"]

_NEWLINE, _BLANK = 10, 32
_SPACE = np.zeros(256, dtype=np.bool_)
_SPACE[[9, 11, 12, 13, 32]] = True
_UNEVEN = re.compile(rb"^\s|\s\s|[^\S ]|\s$")
_HEXADECIMAL = re.compile(rb"(?:^|\s)[-+]?0[xX]")
_INTEGER = re.compile(rb"[-+]?[0-9]+")
_TRUE, _FALSE = frozenset({b"T", b"True", b"true", b"TRUE"}), frozenset({b"F", b"False", b"false", b"FALSE"})

#: For each field an array of float64, int64 or bool, or codes and words; None for a field nobody asked for.
Fields = list[Any]


class RowFault(Exception):
    """A row that is not as it should be: its number in the text, what it has and should have.

    `surplus`: it has more or fewer fields than the columns say.
    """

    def __init__(self, row: int, found: str, expected: str, *, surplus: bool = False) -> None:
        super().__init__(found, expected)
        self.row, self.found, self.expected, self.surplus = row, found, expected, surplus


def parse_rows(text: bytes, rows: int, layout: RowLayout, wanted: list[bool]) -> Fields:
    """The fields of `rows` lines that are `wanted`. `RowFault` names the first row that is not as it should be."""
    fields = _quick_rows(text, rows, layout, wanted) if rows else None
    return plain_rows(text, rows, layout, wanted) if fields is None else fields


def native_rows(text: bytes, rows: int, layout: RowLayout, wanted: list[bool]) -> Fields | None:
    """`parse_rows` by compiled code alone; None where it has to leave the text to others."""
    if layout.open:
        return None
    letters = layout.letters.replace("L", "S")
    kinds = "".join(letter if asked else "-" for letter, asked in zip(letters, wanted, strict=True))
    fields = read_number_rows(text, rows, kinds + "-" * layout.surplus)
    if fields is None:
        return None
    owners = [column.name for column in layout.columns for _ in range(column.width)]
    return [
        logicals(field[0], field[1], owner) if letter == "L" and field is not None else field
        for field, letter, owner in zip(fields, layout.letters, owners, strict=False)
    ]


def plain_rows(text: bytes, rows: int, layout: RowLayout, wanted: list[bool]) -> Fields:
    """`parse_rows` one by one."""
    letters = layout.letters
    lines = text.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) != rows:
        raise RowFault(len(lines), f"{len(lines)} rows", str(rows))
    table: list[list[bytes]] = []
    for row, line in enumerate(lines):
        fields = line.split()
        if len(fields) < len(letters) or (len(fields) != len(letters) + layout.surplus and not layout.open):
            expected = f"{len(letters)} ({' '.join(map(str, layout.columns))})"
            raise RowFault(row, f"{len(fields)} fields in {shown(line)}", expected, surplus=True)
        table.append(fields)
    columns = list(zip(*table, strict=False)) if table else [()] * len(letters)
    names = [column.name for column in layout.columns for _ in range(column.width)]
    return [
        _PLAIN[letter](columns[field], names[field]) if wanted[field] else None for field, letter in enumerate(letters)
    ]


def _plain_reals(tokens: tuple[bytes, ...], name: str) -> NDArray[np.float64]:
    values = np.empty(len(tokens), np.float64)
    for row, token in enumerate(tokens):
        try:
            values[row] = number(token.decode())
        except ValueError:
            raise RowFault(row, shown(token), f"a number ({name})") from None
    return values


def _plain_integers(tokens: tuple[bytes, ...], name: str) -> NDArray[np.int64]:
    values = np.empty(len(tokens), np.int64)
    for row, token in enumerate(tokens):
        if not _INTEGER.fullmatch(token):
            raise RowFault(row, shown(token), f"an integer ({name})")
        try:
            values[row] = int(token)
        except (OverflowError, ValueError):  # Python refuses to read thousands of digits
            raise RowFault(row, shown(token), f"an integer of at most 63 bits ({name})") from None
    return values


def _plain_words(tokens: tuple[bytes, ...], name: str) -> tuple[NDArray[np.int32], list[bytes]]:
    words: dict[bytes, int] = {}
    codes = [words.setdefault(token, len(words)) for token in tokens]
    return np.array(codes, dtype=np.int32), list(words)


def _plain_logicals(tokens: tuple[bytes, ...], name: str) -> NDArray[np.bool_]:
    return logicals(*_plain_words(tokens, name), name)


_PLAIN: dict[str, Callable[[tuple[bytes, ...], str], Any]] = {
    "R": _plain_reals,
    "I": _plain_integers,
    "S": _plain_words,
    "L": _plain_logicals,
}


def logicals(codes: NDArray[np.int32], words: list[bytes], name: str) -> NDArray[np.bool_]:
    """The truth values of a column of words. `RowFault` for the first row with another word."""
    wrong = [code for code, word in enumerate(words) if word not in _TRUE and word not in _FALSE]
    if wrong:
        row = int(np.flatnonzero(np.isin(codes, wrong))[0])
        raise RowFault(row, shown(words[codes[row]]), f"T or F ({name})")
    known = np.array([word in _TRUE for word in words] or [False], dtype=np.bool_)
    return known[codes]


def _quick_rows(text: bytes, rows: int, layout: RowLayout, wanted: list[bool]) -> Fields | None:
    """The fields by way of pyarrow; None where it is absent, refuses the text, or might take what we do not."""
    try:
        import pyarrow as pa
    except ImportError:
        return None
    first = text[: text.find(b"\n")] if b"\n" in text else text
    uneven = _UNEVEN.search(first) is not None
    if uneven:
        text = _squeezed(text)
    while True:
        try:
            fields = _arrow_rows(text, rows, layout, wanted)
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            fields = None
        if fields is not None or uneven:
            break
        text, uneven = _squeezed(text), True
    if fields is not None and (b"x" in text or b"X" in text) and _HEXADECIMAL.search(text):
        return None
    return fields


def _arrow_rows(text: bytes, rows: int, layout: RowLayout, wanted: list[bool]) -> Fields | None:
    import pyarrow as pa
    from pyarrow import csv

    letters = layout.letters
    kinds = {"R": pa.float64(), "I": pa.int64(), "S": pa.dictionary(pa.int32(), pa.binary())}
    kinds["L"] = kinds["S"]
    names = [str(number) for number in range(len(letters) + layout.surplus)]
    # all fields are parsed: an empty one shows only where it is
    types = {name: kinds[letter] for name, letter in zip(names, letters, strict=False)}
    types |= {name: pa.binary() for name in names[len(letters) :]}
    table = csv.read_csv(
        pa.py_buffer(text),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
        parse_options=csv.ParseOptions(
            delimiter=" ", quote_char=False, escape_char=False, newlines_in_values=False, ignore_empty_lines=False
        ),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=[], strings_can_be_null=False, check_utf8=False
        ),
    )
    if table.num_rows != rows:
        return None
    owners = [column.name for column in layout.columns for _ in range(column.width)]
    fields: Fields = []
    for number_, letter in enumerate(letters):
        array = table.column(number_)
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if letter in "RI":
            fields.append(array.to_numpy() if wanted[number_] else None)
            continue
        codes, words = array.indices.to_numpy(zero_copy_only=False), array.dictionary.to_pylist()
        if any(word.split() != [word] for word in words):
            return None
        value: Any = (codes.astype(np.int32, copy=False), words)
        if letter == "L":
            value = logicals(codes, words, owners[number_])
        fields.append(value if wanted[number_] else None)
    return fields


def _squeezed(text: bytes) -> bytes:
    """The text with one blank wherever there is white space in a line, and none at its ends."""
    data = np.frombuffer(text, dtype=np.uint8)
    blank = _SPACE[data]
    data = np.where(blank, np.uint8(_BLANK), data)
    ends = data == _NEWLINE
    follows = np.append(blank[1:] | ends[1:], True)
    data = data[~(blank & follows)]
    leads = (data == _BLANK) & np.append(True, data[:-1] == _NEWLINE)
    return bytes(data[~leads].tobytes())
