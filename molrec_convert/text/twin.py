"""The plain twin of the native kernel: the same rows by Python's own `float` and `int`, one field after another.

It is the oracle of the kernel in the tests, and what runs where the kernel was not built.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.texts import Texts

__all__ = ["OUTSIDE", "fill"]

#: What is wrong with spans that are none.
OUTSIDE = "spans of rows ascend, and lie in the text"

#: Kinds and reasons, as in rows.c and rows.py.
_REAL, _FORTRAN, _FINITE, _INTEGER, _WORD, _LOGICAL, _SKIP = range(7)
_GOOD, _BLANK, _VALUE, _RANGE, _FEW, _MANY, _FEW_ROWS, _MANY_ROWS = range(8)
_BLANKS = b" \t\r\x0b\x0c"
_FIELD = re.compile(rb"[^ \t\r\x0b\x0c]+")
_FORTRAN_MARK = re.compile(rb"(?<=[0-9.])(?:[dD]|\*\^)(?=[-+]?[0-9]+$)")
_SPECIAL = frozenset({b"nan", b"inf", b"infinity"})
_WHOLE = re.compile(rb"[-+]?[0-9]+")
_TRUE, _FALSE = frozenset({b"T", b"True", b"true", b"TRUE"}), frozenset({b"F", b"False", b"false", b"FALSE"})

Fault = tuple[int, ...]


def _real(word: bytes) -> tuple[int, float]:
    try:
        value = float(word)
    except ValueError:
        return _VALUE, math.nan
    if b"_" in word:
        return _VALUE, math.nan
    if not math.isinf(value) or word.lstrip(b"+-").lower() in _SPECIAL:
        return _GOOD, value
    return _RANGE, value


def _fortran(word: bytes) -> tuple[int, float]:
    return _real(_FORTRAN_MARK.sub(b"e", word))


def _finite(word: bytes) -> tuple[int, float]:
    reason, value = _real(word)
    return (reason, value) if reason or math.isfinite(value) else (_VALUE, math.nan)


def _integer(word: bytes) -> tuple[int, int]:
    if not _WHOLE.fullmatch(word):
        return _VALUE, 0
    # Python refuses to read thousands of digits
    sign, digits = word[:1] == b"-", word.lstrip(b"+-").lstrip(b"0")[:20] or b"0"
    value = -int(digits) if sign else int(digits)
    return (_GOOD, value) if -(2**63) <= value < 2**63 else (_RANGE, 0)


def _logical(word: bytes) -> tuple[int, bool]:
    return (_GOOD if word in _TRUE or word in _FALSE else _VALUE), word in _TRUE


_READ: dict[int, Callable[[bytes], tuple[int, Any]]] = {
    _REAL: _real,
    _FORTRAN: _fortran,
    _FINITE: _finite,
    _INTEGER: _integer,
    _LOGICAL: _logical,
}


def fill(
    source: Texts,
    spans: NDArray[np.int64],
    table: NDArray[np.int64],
    kinds: list[int],
    comment: bytes,
    extra: bool,
    columns: list[Any],
    flaws: list[Any],
    comments: NDArray[np.int64] | None,
) -> tuple[dict[int, list[bytes]], Fault | None]:
    """Fill `columns`, `flaws` and `comments` with the rows of all spans; return the words of fields, and a fault.

    A fault is span, row, field, reason, begin and end of what is at fault, as the kernel gives it.
    """
    words: dict[int, dict[bytes, int]] = {field: {} for field, kind in enumerate(kinds) if kind == _WORD}
    readers = [_coder(words[field]) if kind == _WORD else _READ.get(kind) for field, kind in enumerate(kinds)]
    if len(spans) and (spans.min() < 0 or (spans[:, 0] > spans[:, 1]).any() or spans[:, 1].max() > source.size):
        raise ValueError(OUTSIDE)
    fixed = bool(len(table) and table[0, 1] >= 0)
    row = 0
    for number, (start, stop, rows) in enumerate(spans.tolist()):
        lines = _lines(source, start, stop)
        taken: list[list[Any]] = [[] for _ in kinds]
        for own in range(rows):
            at, line = next(lines, (-1, b""))
            if at < 0:
                return {}, (number, own, -1, _FEW_ROWS, stop, stop)
            if fixed:
                found = _fixed_fields(line, table, kinds)
            else:
                found, count, rest = _free_fields(line, comment, len(kinds))
                if count < len(kinds) or (count > len(kinds) and not extra):
                    few = count < len(kinds)
                    end = at + len(line)
                    return {}, (number, own, count if few else len(kinds), _FEW if few else _MANY, at, end)
                if comments is not None:
                    comments[row + own] = (-1, -1) if rest < 0 else (at + rest, at + len(line))
            for field, ((begin, word), read) in enumerate(zip(found, readers, strict=True)):
                if read is None:
                    continue
                reason, value = read(word)
                taken[field].append(value)
                if fixed and not word and kinds[field] != _WORD:
                    reason = _BLANK
                if flaws[field] is not None:
                    flaws[field][row + own] = reason
                elif reason:
                    return {}, (number, own, field, reason, at + begin, at + begin + len(word))
        at, line = next(lines, (-1, b""))
        if at >= 0:
            return {}, (number, rows, -1, _MANY_ROWS, at, at + len(line))
        for column, values in zip(columns, taken, strict=True):
            if column is not None:
                column[row : row + rows] = values
        row += rows
    return {field: list(found) for field, found in words.items()}, None


def _coder(known: dict[bytes, int]) -> Callable[[bytes], tuple[int, int]]:
    """Return a reader of words as numbers, counted in the order they are met."""
    return lambda word: (_GOOD, known.setdefault(word, len(known)))


def _lines(source: Texts, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    text = source.piece(start, stop)
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        yield start + at, text[at:end]
        at = end + 1


def _free_fields(line: bytes, comment: bytes, most: int) -> tuple[list[tuple[int, bytes]], int, int]:
    """Return the first `most` fields with their places, how many there are, and where a comment begins (or -1)."""
    found: list[tuple[int, bytes]] = []
    count = 0
    for match in _FIELD.finditer(line):
        if comment and match[0].startswith(comment):
            return found, count, match.start() + 1
        if count < most:
            found.append((match.start(), match[0]))
        count += 1
    return found, count, -1


def _fixed_fields(line: bytes, table: NDArray[np.int64], kinds: list[int]) -> list[tuple[int, bytes]]:
    """Return what stands in the columns of each field, and where: without blanks around it, of words behind it."""
    found = []
    for (start, stop), kind in zip(table[:, 1:3].tolist(), kinds, strict=True):
        start = min(start, len(line))
        word = line[start:stop].rstrip(_BLANKS + b"\0")
        inner = word if kind == _WORD else word.lstrip(_BLANKS + b"\0")
        found.append((start + len(word) - len(inner), inner))
    return found
