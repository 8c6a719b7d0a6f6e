"""Rows whose fields stand at the same places in every row, read with whole-array integer arithmetic.

A field `-12.34567890` is taken as eight bytes before the point and eight (or twice eight) behind it, each a 64-bit
integer; a few shifts and multiplications make numbers of eight digits at once. Every byte is checked on the way:
blanks, one sign, digits. With the digits as an integer below 2^53 and at most 22 of them behind the point, one
division gives the double nearest to the text (both numbers are exact, and division rounds once).
Where anything is otherwise, the rows are left to a parser that knows every form.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PAD", "FixedLayout", "find_layout", "read_fixed"]

#: Bytes that stand before the first row of a text: what is read of a short first field reaches back so far.
PAD = 16
_POINT, _BLANK, _NEWLINE, _RETURN = 0x2E, 0x20, 0x0A, 0x0D
_FIELD = re.compile(rb"[^ ]+")
_DECIMAL = re.compile(rb"[-+]?[0-9]+\.([0-9]{1,15})")
_WHOLE = re.compile(rb"[-+]?[0-9]+")
_SAMPLE = 64
#: Different words in a column that are looked for one by one.
_FEW = 24

_U = np.uint64
_BLANKS, _ZEROS, _MINUS = _U(0x2020202020202020), _U(0x3030303030303030), _U(0x0D)
_ONES, _NIBBLES, _HIGH3 = _U(0x0101010101010101), _U(0x0F0F0F0F0F0F0F0F), _U(0xE0E0E0E0E0E0E0E0)
_SIX, _TEN, _OVER, _TOP = _U(0x0606060606060606), _U(0x1010101010101010), _U(0x7676767676767676), _U(0x8080808080808080)
_PAIRS, _QUADS = _U(0x00FF00FF00FF00FF), _U(0x0000FFFF0000FFFF)
_TIMES = (_U(2561), _U(6553601), _U(42949672960001))
_ALL = 2**64 - 1

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class FixedLayout:
    """Where fields are: bytes a row, and of each field its region `[start, end)` and the place of its point (or -1)."""

    width: int
    body: int
    letters: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    points: tuple[int, ...]


def find_layout(text: NDArray[np.uint8], rows: int, letters: str) -> FixedLayout | None:
    """The layout some of the rows have; None where they have none. `text` has no bytes before the first row."""
    if sys.byteorder != "little" or not rows or len(text) % rows:
        return None
    width = len(text) // rows
    grid = text.reshape(rows, width)
    if width < 2 or (grid[:, -1] != _NEWLINE).any():
        return None
    body = width - 2 if grid[0, -2] == _RETURN else width - 1
    sample = grid[:: max(1, rows // _SAMPLE), :body]
    gutter = (sample == _BLANK).all(axis=0)
    first = bytes(grid[0, :body])
    fields = list(_FIELD.finditer(first))
    if len(fields) != len(letters):
        return None
    starts, ends, points = [], [], []
    at = 0
    for letter, match in zip(letters, fields, strict=True):
        end, point = match.end(), -1
        if letter == "R":
            decimal = _DECIMAL.fullmatch(match[0])
            if decimal is None:
                return None
            point = end - len(decimal[1]) - 1
        elif letter == "I":
            if not _WHOLE.fullmatch(match[0]):
                return None
        else:
            free = np.flatnonzero(gutter[end:])
            end = end + int(free[0]) if len(free) else body
            if letter == "S" and end - match.start() == 1 and end + 1 < body and gutter[end : end + 2].all():
                # a symbol of two letters may come
                end += 1
            if end - at > 8:
                return None
        starts.append(at)
        ends.append(end)
        points.append(point)
        at = end
    if at < body and not gutter[at:].all():
        return None
    return FixedLayout(width, body, letters, tuple(starts), tuple(ends), tuple(points))


def read_fixed(text: Any, rows: int, layout: FixedLayout, out: list[NDArray[Any] | None]) -> list[Any] | None:
    """The fields of `rows` rows into `out`, as far as it has arrays; of text columns the words instead.

    `text` has `PAD` bytes before the first row. Floats go to float64, integers to int64 arrays; columns S and L give
    `(codes, words)` in the list that is returned. None where some row has another layout: `out` is then worthless.
    """
    if len(text) - PAD != rows * layout.width:
        return None
    bytes_ = _Bytes(text, rows, layout.width)
    if bytes_.differ(layout.width - 1, _NEWLINE) or (
        layout.body < layout.width - 1 and bytes_.differ(layout.width - 2, _RETURN)
    ):
        return None
    found: list[Any] = []
    for number, letter in enumerate(layout.letters):
        start, end, point = layout.starts[number], layout.ends[number], layout.points[number]
        target = out[number]
        if letter in "SL":
            words = _words(bytes_, start, end)
            if words is None:
                return None
            found.append(words)
            continue
        found.append(None)
        good = _real(bytes_, start, end, point, target) if letter == "R" else _integer(bytes_, start, end, target)
        if not good:
            return None
    if any(bytes_.differ(place, _BLANK) for place in range(layout.ends[-1], layout.body)):
        return None
    return found


class _Bytes:
    """Rows of one width, seen as one byte, or eight, of each row."""

    def __init__(self, text: Any, rows: int, width: int) -> None:
        self.text, self.rows, self.width = text, rows, width

    def differ(self, place: int, byte: int) -> bool:
        """Whether some row has another byte there."""
        column = np.ndarray((self.rows,), np.uint8, self.text, PAD + place, (self.width,))
        return bool((column != byte).any())

    def lane(self, end: int, start: int) -> tuple[Words, np.uint64]:
        """The eight bytes before `end` of each row, and a mask of those that lie at or behind `start`."""
        words: Words = np.ndarray((self.rows,), np.uint64, self.text, PAD + end - 8, (self.width,))
        outside = min(max(start - (end - 8), 0), 8)
        return words, _U((_ALL << (8 * outside)) & _ALL)


def _real(rows: _Bytes, start: int, end: int, point: int, out: NDArray[np.float64] | None) -> bool:
    digits = end - point - 1
    scale = 10**digits
    whole, negative, bad = _signed(rows, start, point)
    bad |= whole > _U(2**53 // scale)
    mantissa = whole
    mantissa *= _U(scale)
    for last in range(end, point + 1, -8):
        words, mask = rows.lane(last, point + 1)
        values = words ^ _ZEROS
        values &= mask
        wrong = values + _OVER
        wrong |= values
        wrong &= _TOP
        bad |= wrong
        part = _eight(values)
        if last != end:
            part *= _U(10 ** (end - last))
        mantissa += part
    bad |= mantissa >> _U(53)
    if bad.any() or rows.differ(point, _POINT):
        return False
    if out is not None:
        np.divide(mantissa.view(np.int64), float(scale), out=out)
        np.negative(out, where=negative, out=out)
    return True


def _integer(rows: _Bytes, start: int, end: int, out: NDArray[np.int64] | None) -> bool:
    values, negative, bad = _signed(rows, start, end)
    if bad.any():
        return False
    if out is not None:
        out[:] = values
        np.negative(out, where=negative, out=out)
    return True


def _signed(rows: _Bytes, start: int, end: int) -> tuple[Words, NDArray[np.bool_], Words]:
    """Blanks, a minus or none, and one to eight digits before `end`; the last is not zero where it is otherwise."""
    words, mask = rows.lane(end, start)
    values = words ^ _BLANKS
    values &= mask
    bad = values & _HIGH3
    digit = values >> _U(4)
    digit &= _ONES
    full = digit << _U(8)
    bad |= full & ~digit
    full -= digit
    rest = values & ~full
    values &= full
    values &= _NIBBLES
    bad |= (values + _SIX) & _TEN
    below = digit >> _U(8)
    below &= ~digit
    below *= _MINUS
    negative = rest != 0
    below ^= rest
    bad |= np.where(negative, below, _U(0))
    bad |= (digit >> _U(56)) ^ _U(1)
    if start:
        place = start - (end - 8)
        if place >= 0:
            # the blank that parts the field from the one before
            if place < 8:
                bad |= rest & _U(0xFF << (8 * place))
                bad |= digit & _U(1 << (8 * place))
            else:
                bad |= _U(1)
    for last in range(end - 8, start, -8):
        words, mask = rows.lane(last, start)
        bad |= (words ^ _BLANKS) & mask
    return _eight(values), negative, bad


def _eight(values: Words) -> Words:
    """Eight decimal digits, one a byte, the first in the lowest, as one number."""
    values = values * _TIMES[0]
    values >>= _U(8)
    values &= _PAIRS
    values *= _TIMES[1]
    values >>= _U(16)
    values &= _QUADS
    values *= _TIMES[2]
    values >>= _U(32)
    return values


def _words(rows: _Bytes, start: int, end: int) -> tuple[NDArray[np.int32], list[bytes]] | None:
    """The words of a column of eight bytes at most: a code for each row, and what the codes stand for."""
    words, mask = rows.lane(end, start)
    values = words & mask
    codes = np.empty(len(values), np.int32)
    left = np.ones(len(values), np.bool_)
    found: list[int] = []
    while left.any():
        if len(found) == _FEW:
            unique, inverse = np.unique(values, return_inverse=True)
            found, codes = unique.tolist(), inverse.astype(np.int32)
            break
        value = values[int(np.argmax(left))]
        same = values == value
        codes[same] = len(found)
        left &= ~same
        found.append(int(value))
    outside = min(max(start - (end - 8), 0), 8)
    texts = [value.to_bytes(8, "little")[outside:] for value in found]
    if start and any(text[:1] != b" " for text in texts):
        return None
    parts = [text.split() for text in texts]
    if any(len(part) != 1 for part in parts):
        return None
    return codes, [part[0] for part in parts]
