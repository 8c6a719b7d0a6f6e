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
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.number_rows import coded

__all__ = ["PAD", "FixedLayout", "find_layout", "read_fixed"]

#: Bytes that stand before the first row of a text: what is read of a short first field reaches back so far.
PAD = 16
_POINT, _BLANK, _NEWLINE, _RETURN = 0x2E, 0x20, 0x0A, 0x0D
_FIELD = re.compile(rb"[^ ]+")
_DECIMAL = re.compile(rb"[-+]?[0-9]+\.([0-9]{1,15})")
_WHOLE = re.compile(rb"[-+]?[0-9]+")
_SAMPLE = 64

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


_held = threading.local()


def _rooms(rows: int) -> NDArray[np.uint64]:
    rooms: NDArray[np.uint64] | None = getattr(_held, "rooms", None)
    if rooms is None or rooms.shape[1] < rows:
        _held.rooms = rooms = np.empty((8, max(rows, 2**13)), np.uint64)
    return rooms


class _Bytes:
    """Rows of one width, seen as one byte, or eight, of each row."""

    def __init__(self, text: Any, rows: int, width: int) -> None:
        self.text, self.rows, self.width = text, rows, width
        #: Arrays to work in, one number a row, the same ones for every piece a thread reads.
        self.room: list[Words] = [room[:rows] for room in _rooms(rows)]

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
    mantissa, negative, bad, part, other = rows.room[:5]
    _signed(rows, start, point)
    np.greater(mantissa, _U(2**53 // scale), out=part, casting="unsafe")
    bad |= part
    mantissa *= _U(scale)
    for last in range(end, point + 1, -8):
        words, mask = rows.lane(last, point + 1)
        np.bitwise_xor(words, _ZEROS, out=part)
        if mask != _U(_ALL):
            part &= mask
        np.add(part, _OVER, out=other)
        other |= part
        other &= _TOP
        bad |= other
        _eight(part)
        if last != end:
            part *= _U(10 ** (end - last))
        mantissa += part
    np.right_shift(mantissa, _U(53), out=part)
    bad |= part
    if bad.max() or rows.differ(point, _POINT):
        return False
    if out is not None:
        np.divide(mantissa.view(np.int64), float(scale), out=out)
        # the sign as a bit, so that a negative zero is one
        negative <<= _U(63)
        signs = out.view(np.uint64)
        signs ^= negative
    return True


def _integer(rows: _Bytes, start: int, end: int, out: NDArray[np.int64] | None) -> bool:
    values, negative, bad = rows.room[:3]
    _signed(rows, start, end)
    if bad.max():
        return False
    if out is not None:
        out[:] = values
        np.negative(out, where=negative != 0, out=out)
    return True


def _signed(rows: _Bytes, start: int, end: int) -> None:
    """Blanks, a minus or none, and one to eight digits before `end`, into the first three rooms.

    The number; 1 where there is a minus, else 0; what is not zero where a row has anything else.
    """
    values, negative, bad, digit, full, rest, below, other = rows.room
    words, mask = rows.lane(end, start)
    np.bitwise_xor(words, _BLANKS, out=values)
    if mask != _U(_ALL):
        values &= mask
    np.bitwise_and(values, _HIGH3, out=bad)
    # a one in each byte that is a digit; all of them stand together at the end
    np.right_shift(values, _U(4), out=digit)
    digit &= _ONES
    np.left_shift(digit, _U(8), out=full)
    np.invert(digit, out=other)
    np.bitwise_and(full, other, out=below)
    bad |= below
    full -= digit
    # what is left beside the digits: nothing, or a minus in the byte before them
    np.right_shift(digit, _U(8), out=below)
    below &= other
    below *= _MINUS
    np.invert(full, out=other)
    np.bitwise_and(values, other, out=rest)
    np.minimum(rest, _U(1), out=negative)
    np.subtract(_U(0), negative, out=other)
    below ^= rest
    below &= other
    bad |= below
    values &= full
    values &= _NIBBLES
    np.add(values, _SIX, out=other)
    other &= _TEN
    bad |= other
    np.right_shift(digit, _U(56), out=other)
    other ^= _U(1)
    bad |= other
    place = start - (end - 8)
    if start and place >= 0:
        # the blank that parts the field from the one before
        rest |= digit
        rest &= _U(0xFF << (8 * min(place, 7)))
        bad |= rest
    for last in range(end - 8, start, -8):
        words, mask = rows.lane(last, start)
        np.bitwise_xor(words, _BLANKS, out=other)
        other &= mask
        bad |= other
    _eight(values)


def _eight(values: Words) -> None:
    """Eight decimal digits, one a byte, the first in the lowest, as one number; in place."""
    values *= _TIMES[0]
    values >>= _U(8)
    values &= _PAIRS
    values *= _TIMES[1]
    values >>= _U(16)
    values &= _QUADS
    values *= _TIMES[2]
    values >>= _U(32)


def _words(rows: _Bytes, start: int, end: int) -> tuple[NDArray[np.int32], list[bytes]] | None:
    """The words of a column of eight bytes at most: a code for each row, and what the codes stand for."""
    if end - start <= 2:
        return _short_words(rows, start, end)
    words, mask = rows.lane(end, start)
    codes, found = coded(words & mask)
    outside = min(max(start - (end - 8), 0), 8)
    texts = [value.to_bytes(8, "little")[outside:] for value in found]
    if start and any(text[:1] != b" " for text in texts):
        return None
    parts = [text.split() for text in texts]
    if any(len(part) != 1 for part in parts):
        return None
    return codes, [part[0] for part in parts]


def _short_words(rows: _Bytes, start: int, end: int) -> tuple[NDArray[np.int32], list[bytes]] | None:
    """`_words` of one or two bytes, by way of a table of all there can be."""
    kind = np.uint8 if end - start == 1 else np.uint16
    values = np.ndarray((rows.rows,), kind, rows.text, PAD + start, (rows.width,)).copy()
    there = np.zeros(2 ** (8 * (end - start)), np.bool_)
    there[values] = True
    found = np.flatnonzero(there)
    texts = [int(value).to_bytes(end - start, "little") for value in found]
    parts = [text.split() for text in texts]
    if any(len(part) != 1 for part in parts) or (start and any(text[:1] != b" " for text in texts)):
        return None
    codes = np.zeros(len(there), np.int32)
    codes[found] = np.arange(len(found), dtype=np.int32)
    return codes[values], [part[0] for part in parts]
