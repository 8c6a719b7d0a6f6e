"""Rows of a dump as columns: whole batches of text through compiled code, else pyarrow, else numpy.

All ways give the same bits. The compiled code takes what LAMMPS writes in its own formats. pyarrow takes rows whose
values are parted by single blanks (a blank at the end of every row, as older releases write it, too); rows with other
white space are squeezed first. The plain way knows every form of white space and names what is wrong. Numbers are what
the C library prints: decimal, `nan`, `inf`; a number that is out of the range of binary64 is an error, and so is `nan`
or `inf` in a coordinate.

Columns keep their kind whatever the text looks like. Source: the manual, "dump", attributes of dump custom.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.number_rows import Fill, number_rows, read_number_rows

__all__ = ["Columns", "RowFault", "Texts", "kind_of", "native_rows", "parse_rows", "plain_rows"]

_INTEGERS = frozenset({"id", "mol", "proc", "procp1", "type", "ix", "iy", "iz"})
_TEXTS = frozenset({"element", "typelabel"})
_LETTERS = {"integer": "I", "text": "S", "real": "R"}

_SPACE = np.zeros(256, dtype=np.bool_)
_SPACE[[9, 10, 11, 12, 13, 32]] = True
_NEWLINE = ord("\n")
_TWO_BLANKS = 0x2020
#: Values looked at together, so that what is made of them stays in the cache.
_CACHED = 2**15
_HEXADECIMAL = re.compile(rb"(?:^|\s)[-+]?0[xX]")
_UNEVEN = re.compile(rb"^\s|\s\s|[^\S ]")


@dataclass(frozen=True)
class Texts:
    """A column of text: `codes` int32[rows] count in `words`."""

    codes: NDArray[np.int32]
    words: list[bytes]


Columns = dict[str, Any]


class RowFault(Exception):
    """A row that is not as it should be: its number in the text (None: there are too few or too many), and why."""

    def __init__(self, row: int | None, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.row, self.found, self.expected = row, found, expected


def kind_of(name: str) -> str:
    """`"integer"`, `"text"` or `"real"`: what a column of this name holds."""
    if name in _INTEGERS or name.startswith(("i_", "i2_")):
        return "integer"
    return "text" if name in _TEXTS else "real"


def parse_rows(
    text: bytes, rows: int, names: Sequence[str], wanted: Collection[str], finite: Collection[str] = ()
) -> Columns:
    """The `wanted` columns of `rows` lines of text with the columns `names`: int64, float64, or `Texts`.

    Columns in `finite` hold finite numbers only. `RowFault` names the first row that is not as it should be.
    """
    columns = _compiled_rows(text, rows, names, wanted)
    if columns is not None:
        return columns
    columns = _quick_rows(text, rows, names, wanted) if rows else None
    if columns is None:
        return plain_rows(text, rows, names, wanted, finite)
    return _check_range(columns, text, names, finite)


def plain_rows(
    text: bytes, rows: int, names: Sequence[str], wanted: Collection[str], finite: Collection[str] = ()
) -> Columns:
    """`parse_rows` by numpy alone."""
    if text and not text.endswith(b"\n"):
        text += b"\n"
    data = np.frombuffer(text, dtype=np.uint8)
    space = _SPACE[data]
    starts = ~space
    starts[1:] &= space[:-1]
    newlines = np.flatnonzero(data == _NEWLINE)
    if len(newlines) != rows:
        raise RowFault(None, f"{len(newlines)} rows", f"{rows}")
    values = np.diff(np.cumsum(starts, dtype=np.int64)[newlines], prepend=0)
    wrong = np.flatnonzero(values != len(names))
    if len(wrong):
        row = int(wrong[0])
        expected = f"{len(names)} values ({' '.join(names)})"
        raise RowFault(row, f"{int(values[row])} in {_shown(_line(text, row))}", expected)
    tokens = text.split()
    columns = {}
    for name in wanted:
        own = tokens[names.index(name) :: len(names)]
        columns[name] = _PLAIN[kind_of(name)](own, name)
    return _check_range(columns, text, names, finite)


def _plain_integers(tokens: list[bytes], name: str) -> NDArray[np.int64]:
    expected = f"an integer ({name})"
    try:
        values = [int(token) for token in tokens]
    except ValueError:
        values = []
    if len(values) != len(tokens) or any(b"_" in token for token in tokens):
        row = next(row for row, token in enumerate(tokens) if not _is(int, token))
        raise RowFault(row, _shown(tokens[row]), expected)
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        row = next(row for row, value in enumerate(values) if not -(2**63) <= value < 2**63)
        raise RowFault(row, _shown(tokens[row]), f"{expected} of at most 63 bits") from None


def _plain_reals(tokens: list[bytes], name: str) -> NDArray[np.float64]:
    try:
        values = np.array([float(token) for token in tokens], dtype=np.float64)
    except ValueError:
        values = np.zeros(0)
    if len(values) != len(tokens) or any(b"_" in token for token in tokens):
        row = next(row for row, token in enumerate(tokens) if not _is(float, token))
        raise RowFault(row, _shown(tokens[row]), f"a number ({name})")
    return values


def _plain_texts(tokens: list[bytes], name: str) -> Texts:
    words: dict[bytes, int] = {}
    codes = [words.setdefault(token, len(words)) for token in tokens]
    return Texts(np.array(codes, dtype=np.int32), list(words))


_PLAIN: dict[str, Callable[[list[bytes], str], Any]] = {
    "integer": _plain_integers,
    "real": _plain_reals,
    "text": _plain_texts,
}


def _is(kind: type, token: bytes) -> bool:
    try:
        kind(token)
    except ValueError:
        return False
    return b"_" not in token


@contextmanager
def native_rows(
    fill: Fill, size: int, pieces: NDArray[np.int64], names: Sequence[str], wanted: Collection[str]
) -> Iterator[Columns | None]:
    """The columns by way of compiled code, all numbers finite; None where it has to leave the text to others.

    They may be used in the block only. `fill`, `size` and `pieces` are as of `number_rows`.
    """
    with number_rows(fill, size, pieces, _letters(names, wanted)) as found:
        yield None if found is None else _named(found, names, wanted)


def _compiled_rows(text: bytes, rows: int, names: Sequence[str], wanted: Collection[str]) -> Columns | None:
    """`native_rows` of a whole text, to keep."""
    found = read_number_rows(text, rows, _letters(names, wanted))
    return None if found is None else _named(found, names, wanted)


def _letters(names: Sequence[str], wanted: Collection[str]) -> str:
    # of columns of one name the first is read
    chosen = {names.index(name) for name in wanted}
    return "".join(_LETTERS[kind_of(name)] if place in chosen else "-" for place, name in enumerate(names))


def _named(found: list[Any], names: Sequence[str], wanted: Collection[str]) -> Columns:
    values = {name: found[names.index(name)] for name in wanted}
    return {name: Texts(*value) if isinstance(value, tuple) else value for name, value in values.items()}


def _quick_rows(text: bytes, rows: int, names: Sequence[str], wanted: Collection[str]) -> Columns | None:
    """The columns by way of pyarrow; None where it is absent, refuses the text, or might take what we do not."""
    try:
        import pyarrow as pa
    except ImportError:
        return None
    first = text[: text.find(b"\n")] if b"\n" in text else text
    trailing = first.endswith(b" ")
    if _UNEVEN.search(first[:-1] if trailing else first):
        text, trailing = _squeeze(text), False
    for squeezed in (False, True):
        try:
            columns = _arrow_rows(text, rows, names, wanted, trailing)
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            columns = None
        if columns is not None or squeezed:
            break
        text, trailing = _squeeze(text), False
    if columns is not None and (b"x" in text or b"X" in text) and _HEXADECIMAL.search(text):
        return None
    return columns


def _arrow_rows(
    text: bytes, rows: int, names: Sequence[str], wanted: Collection[str], trailing: bool
) -> Columns | None:
    """The columns of rows parted by single blanks; None where there are more rows or values than there should be."""
    import pyarrow as pa
    from pyarrow import csv

    kinds = {"integer": pa.int64(), "real": pa.float64(), "text": pa.dictionary(pa.int32(), pa.binary())}
    types = {name: kinds[kind_of(name)] for name in wanted}
    columns, included = list(names), list(wanted)
    if trailing:
        columns.append("")
        included.append("")
        types[""] = pa.binary()
    table = csv.read_csv(
        pa.py_buffer(text),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=columns),
        parse_options=csv.ParseOptions(
            delimiter=" ", quote_char=False, escape_char=False, newlines_in_values=False, ignore_empty_lines=False
        ),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=included,
            null_values=[],
            strings_can_be_null=False,
            check_utf8=False,
        ),
    )
    if table.num_rows != rows:
        return None
    if trailing and any(_text_bytes(chunk) for chunk in table.column("").chunks):
        return None
    if len(included) < len(columns) and _has_empty_field(text):
        return None
    values = {name: _from_arrow(table.column(name)) for name in wanted}
    if any(word.split() != [word] for column in values.values() if isinstance(column, Texts) for word in column.words):
        return None
    return values


def _text_bytes(array: Any) -> int:
    """Length of all texts of a pyarrow array together."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return int(offsets[array.offset + len(array)] - offsets[array.offset])


def _from_arrow(column: Any) -> Any:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if hasattr(array, "indices"):
        return Texts(array.indices.to_numpy(zero_copy_only=False).astype(np.int32), array.dictionary.to_pylist())
    return array.to_numpy()


def _has_empty_field(text: bytes) -> bool:
    """Whether two blanks follow one another: an empty field, which only shows where the column is parsed."""
    for first in (0, 1):
        pairs = np.frombuffer(text, dtype="<u2", offset=first, count=(len(text) - first) // 2)
        for start in range(0, len(pairs), _CACHED):
            if (pairs[start : start + _CACHED] == _TWO_BLANKS).any():
                return True
    return False


def _squeeze(text: bytes) -> bytes:
    """The text with one blank wherever there is white space in a line, and none at its ends."""
    data = np.frombuffer(text, dtype=np.uint8)
    newline = data == _NEWLINE
    blank = _SPACE[data] & ~newline
    data = np.where(blank, np.uint8(32), data)
    follows = np.append(blank[1:] | newline[1:], True)
    data = data[~(blank & follows)]
    leads = (data == 32) & np.append(True, data[:-1] == _NEWLINE)
    return bytes(data[~leads].tobytes())


def _check_range(columns: Columns, text: bytes, names: Sequence[str], finite: Collection[str]) -> Columns:
    """Refuse a number out of range, and in `finite` columns `nan` and `inf`."""
    for name, values in columns.items():
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or np.isfinite(values).all():
            continue
        column = names.index(name)
        lines = text.split(b"\n")
        for row in np.flatnonzero(~np.isfinite(values)).tolist():
            token = lines[row].split()[column]
            if name in finite:
                raise RowFault(row, _shown(token), f"a finite number ({name})")
            if token.lstrip(b"+-").lower() not in (b"nan", b"inf", b"infinity"):
                raise RowFault(row, _shown(token), f"a number within the range of binary64 ({name})")
    return columns


def _line(text: bytes, row: int) -> bytes:
    return text.split(b"\n", row + 1)[row]


def _shown(token: bytes) -> str:
    text = token.decode("utf-8", "replace").strip()
    return repr(text if len(text) <= 60 else text[:59] + "…") if text else "an empty line"
