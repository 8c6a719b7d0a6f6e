"""Numbers in fixed columns, whole columns of rows at a time.

A field of up to eight characters is one 64-bit word; digits, blanks and signs are told apart and joined by arithmetic
on such words. What is not written in the format's own way (`%8.3f` right-justified) is left to `float`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WIDTH", "decimals", "integers", "parse_float", "shown", "texts", "whole", "word"]

#: Bytes of a padded row: 80 columns, and what lets the last field be read as a word.
WIDTH = 96
#: Rows that are worked on at a time: what is between their words and their numbers stays in the processor's cache.
_PIECE = 2**13
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
Words = NDArray[np.uint64]
Rows = NDArray[np.uint8]
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|nan|infinity)", re.IGNORECASE)


def _u(value: int) -> np.uint64:
    return np.uint64(value)


def _each(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte]) * 8, "little"))


def _low(width: int) -> int:
    return (1 << (8 * width)) - 1


def word(rows: Rows, column: int, width: int) -> Words:
    """The `width` characters from `column` (0-based) on as words, the first in the lowest byte."""
    if not len(rows):
        return np.zeros(0, np.uint64)
    view: NDArray[Any] = np.ndarray((len(rows),), dtype="<u8", buffer=rows, offset=column, strides=(rows.strides[0],))
    words: Words = view.astype(np.uint64)
    words &= _u(_low(width))
    return words


def _joined(digits: Words, width: int) -> Words:
    """The number whose `width` digits stand in the lowest bytes, the first one lowest."""
    digits = digits << _u(8 * (8 - width))
    digits = (digits * _u(10) + (digits >> _u(8))) & _u(0x00FF00FF00FF00FF)
    digits = (digits * _u(100) + (digits >> _u(16))) & _u(0x0000FFFF0000FFFF)
    return (digits * _u(10000) + (digits >> _u(32))) & _u(0xFFFFFFFF)


def _others(characters: Words) -> Words:
    """0x80 in every byte that is no digit; `characters` are exclusive-ored with '0'."""
    return (((characters & _each(0x7F)) + _each(0x76)) | characters) & _each(0x80)


def _whole(characters: Words, lead: int) -> tuple[Words, NDArray[np.bool_], NDArray[np.bool_]]:
    """Blanks, perhaps a minus, digits: the number, where it is negative, and where the field is of that form."""
    head = characters & _u(_low(lead))
    before = (_others(head) >> _u(7)) * _u(255) & _u(_low(lead))
    differ = (head ^ _each(0x10)) & before
    last = before ^ (before >> _u(8))
    negative = (differ == (last & _each(0x0D))) & (before != 0)
    form = ((before & (before + _u(1))) == 0) & ((differ == 0) | negative) & (before != _u(_low(lead)))
    return _joined(head & ~before, lead), negative, form


def integers(rows: Rows, column: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Right-justified integers, and where a field holds one."""
    values, form = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
    for at in range(0, len(rows), _PIECE):
        part = slice(at, at + _PIECE)
        characters = word(rows[part], column, width) ^ _u(_low(width) & int(_each(0x30)))
        number, negative, form[part] = _whole(characters, width)
        values[part] = number
        if negative.any():
            np.negative(values[part], out=values[part], where=negative)
    return values, form


def decimals(
    rows: Rows, column: int, width: int, places: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Numbers with a fixed number of decimal places: values, where a field is of that form, where it is blank."""
    values = np.empty(len(rows))
    form, blank = np.empty(len(rows), np.bool_), np.empty(len(rows), np.bool_)
    lead = width - places - 1
    for at in range(0, len(rows), _PIECE):
        part = slice(at, at + _PIECE)
        raw = word(rows[part], column, width)
        blank[part] = raw == _u(_low(width) & int(_each(0x20)))
        characters = raw ^ _u(_low(width) & int(_each(0x30)))
        number, negative, whole = _whole(characters, lead)
        fraction = characters >> _u(8 * (lead + 1))
        point = ((characters >> _u(8 * lead)) & _u(0xFF)) == _u(0x1E)
        form[part] = whole & point & (_others(fraction) == 0)
        # both are exact below 2^53, so the quotient is the double nearest to the text
        own = values[part]
        own[:] = number * _u(10**places) + _joined(fraction, places)
        own /= 10.0**places
        if negative.any():
            np.negative(own, out=own, where=negative)
    return values, form, blank


def parse_float(text: str) -> float:
    """The number in a field, blanks around it left off; ValueError where it holds none."""
    if _NUMBER.fullmatch(text.strip()) is None:
        raise ValueError(text)
    return float(text)


def whole(text: str) -> int:
    """Return the integer of 64 bits a text is; ValueError where it is none."""
    if _INTEGER.fullmatch(text) is None or not -(2**63) <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)


def shown(text: str) -> str:
    """Return a text as an error shows it."""
    return repr(text if len(text) <= 60 else text[:59] + "…")


def texts(words: Words, width: int) -> tuple[list[bytes], NDArray[np.intp]]:
    """The different fields among words, and which each row has."""
    if width <= 2:
        there = np.bincount(words.astype(np.intp), minlength=2**16)
        different = np.flatnonzero(there).astype(np.uint64)
        places = np.zeros(2**16, np.intp)
        places[different.astype(np.intp)] = np.arange(len(different))
        codes = places[words.astype(np.intp)]
    else:
        different = np.unique(words)
        codes = np.searchsorted(different, words)
    return [int(value).to_bytes(8, "little")[:width] for value in different], codes
