"""Hybrid-36: numbers beyond a fixed-width decimal field, in upper-case and then lower-case base 36.

A field of width w holds decimals to 10^w - 1, then A0... to Z..., then a0... to z.... Source: Grosse-Kunstleve,
"Hybrid-36", cctbx.
"""

from __future__ import annotations

__all__ = ["decode", "encode", "largest"]

_UPPER = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER = _UPPER.lower()


def largest(width: int) -> int:
    """The largest number a field can hold."""
    return int(10**width + 2 * 26 * 36 ** (width - 1) - 1)


def encode(number: int, width: int) -> str:
    """The text of a number, right-justified; ValueError where the field cannot hold it."""
    if number < 10**width:
        if number <= -(10 ** (width - 1)):
            raise ValueError(f"{number} does not fit {width} columns")
        return f"{number:{width}d}"
    rest = number - 10**width
    for digits in (_UPPER, _LOWER):
        if rest < 26 * 36 ** (width - 1):
            rest += 10 * 36 ** (width - 1)
            text = ""
            while rest:
                rest, digit = divmod(rest, 36)
                text = digits[digit] + text
            return text
        rest -= 26 * 36 ** (width - 1)
    raise ValueError(f"{number} does not fit {width} columns, hybrid-36 ends at {largest(width)}")


def decode(text: str, width: int) -> int:
    """The number in a field, blanks around it left off; ValueError where it holds none."""
    field = text.strip()
    digits = _LOWER if field[:1].islower() else _UPPER
    if len(field) == width and field[:1].isalpha() and all(letter in digits for letter in field):
        shift = 10**width - 10 * 36 ** (width - 1)
        if digits is _LOWER:
            shift += 26 * 36 ** (width - 1)
        return int(field, 36) + int(shift)
    if not field.isascii() or not field.lstrip("+-").isdigit() or len(field) - len(field.lstrip("+-")) > 1:
        raise ValueError(f"{text!r} is no number")
    return int(field)
