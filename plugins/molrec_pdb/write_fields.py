"""Fields of rows as characters, whole columns at a time: numbers as C's printf writes them, text in its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_pdb import hybrid36

__all__ = ["decimal_field", "integer_field", "text_field"]

Characters = NDArray[np.uint8]
_DIGITS = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8)


def _digits(numbers: NDArray[np.int64], width: int, least: int) -> tuple[Characters, NDArray[np.int64]]:
    """Decimal digits of numbers that are not negative, right-justified, `least` at least; where the first stands."""
    field = np.full((len(numbers), width), 32, np.uint8)
    first = np.full(len(numbers), width, np.int64)
    rest = numbers.copy()
    for place in range(width - 1, -1, -1):
        there = (rest > 0) if width - place > least else np.ones(len(rest), np.bool_)
        field[:, place] = np.where(there, 48 + rest % 10, 32)
        first -= there
        rest //= 10
    return field, first


def integer_field(
    values: NDArray[Any], known: NDArray[np.bool_], width: int, *, hybrid: bool
) -> tuple[Characters, NDArray[np.bool_]]:
    """Integers right-justified, stars where there is none; and which do not fit (with `hybrid`: not even so)."""
    numbers = values.astype(np.int64)
    largest = hybrid36.largest(width) if hybrid else 10**width - 1
    wide = known & ((numbers > largest) | (numbers <= -(10 ** (width - 1))))
    safe = np.where(wide | ~known, 0, numbers)
    field, first = _digits(np.abs(np.minimum(safe, 10**width - 1)), width, 1)
    negative = np.flatnonzero(safe < 0)
    field[negative, first[negative] - 1] = ord("-")
    beyond = np.flatnonzero(safe >= 10**width)
    if len(beyond):
        field[beyond] = _hybrid(safe[beyond], width)
    field[~known] = ord("*")
    return field, wide


def _hybrid(numbers: NDArray[np.int64], width: int) -> Characters:
    half = 26 * 36 ** (width - 1)
    rest = numbers - 10**width
    lower = rest >= half
    rest = np.where(lower, rest - half, rest) + 10 * 36 ** (width - 1)
    field = np.empty((len(numbers), width), np.uint8)
    for place in range(width - 1, -1, -1):
        field[:, place] = _DIGITS[rest % 36]
        rest //= 36
    return np.where(lower[:, None] & (field >= 65), field + 32, field)


def decimal_field(
    values: NDArray[np.float64], width: int, places: int
) -> tuple[Characters, NDArray[np.bool_], NDArray[np.float64]]:
    """Numbers with fixed places; which do not fit (none that is not finite does); what a reader has of them."""
    scale = 10.0**places
    there = np.isfinite(values)
    scaled = np.minimum(np.abs(np.where(there, values, 0.0)), 2.0**60) * scale
    big = scaled >= 2.0**52
    whole = np.rint(np.where(big, 0.0, scaled))
    # a product this near to a half may have been rounded across it
    for row in np.flatnonzero(np.abs(np.abs(scaled - np.floor(scaled)) - 0.5) < 1e-6).tolist():
        if not big[row]:
            whole[row] = float(f"{abs(float(values[row])):.{places}f}".replace(".", ""))
    number = whole.astype(np.int64)
    lead = width - places - 1
    head, first = _digits(number // 10**places, lead, 1)
    tail, _ = _digits(number % 10**places, places, places)
    negative = np.signbit(values) & there
    wide = ~there | big | (number >= 10 ** (lead + places)) | (negative & (first < 1))
    field = np.full((len(values), width), 32, np.uint8)
    field[:, :lead], field[:, lead], field[:, lead + 1 :] = head, ord("."), tail
    signed = np.flatnonzero(negative & ~wide)
    field[signed, first[signed] - 1] = ord("-")
    read = number / scale
    return field, wide, np.where(negative, -read, read)


def text_field(different: Sequence[str], width: int, *, right: bool = False) -> tuple[Characters, NDArray[np.bool_]]:
    """Texts in `width` columns; and which are wider, or no plain characters."""
    table = np.full((len(different), width), 32, np.uint8)
    wrong = np.zeros(len(different), np.bool_)
    for number, text in enumerate(different):
        wrong[number] = len(text) > width or not (text.isascii() and text.isprintable())
        if not wrong[number]:
            placed = text.rjust(width) if right else text.ljust(width)
            table[number] = np.frombuffer(placed.encode(), np.uint8)
    return table, wrong
