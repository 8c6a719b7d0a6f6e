"""Degrees and radians, each correctly rounded from the other, so that short decimals come back as they were.

A number of up to 15 significant digits goes to the other unit and back to the same binary64: both roundings together
are less than half a unit of its fifteenth digit, and a result that 15 digits tell exactly is taken as they tell it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["converted_angles", "to_degrees", "to_radians"]

#: pi to sixty digits, as a fraction: its error is far below what rounding to 53 bits can notice.
_PI = 314159265358979323846264338327950288419716939937510582097494
_ONE = 10**59


def to_radians(degrees: float) -> float:
    """An angle in radians."""
    return _shortest(degrees, _radians, _degrees)


def to_degrees(radians: float) -> float:
    """An angle in degrees."""
    return _shortest(radians, _degrees, _radians)


def converted_angles(values: NDArray[np.float64], unit: str) -> NDArray[np.float64]:
    """Angles of any shape in another `unit`, `"degree"` or `"radian"`, from the other one of the two."""
    convert = to_degrees if unit == "degree" else to_radians
    # Tables repeat their angles; every bit pattern is converted once. Zeros of either sign stay apart.
    bits, where = np.unique(np.ascontiguousarray(values).reshape(-1).view(np.uint64), return_inverse=True)
    distinct = np.array([convert(value) for value in bits.view(np.float64).tolist()], dtype=np.float64)
    return np.asarray(distinct[where].reshape(values.shape))


def _shortest(value: float, there: Callable[[float], float], back: Callable[[float], float]) -> float:
    if value == 0.0 or not math.isfinite(value):
        return value
    exact = there(value)
    short = float(f"{exact:.15g}")
    return short if math.isfinite(short) and back(short) == value else exact


def _radians(degrees: float) -> float:
    numerator, denominator = degrees.as_integer_ratio()
    return _quotient(numerator * _PI, denominator * _ONE * 180)


def _degrees(radians: float) -> float:
    numerator, denominator = radians.as_integer_ratio()
    return _quotient(numerator * _ONE * 180, denominator * _PI)


def _quotient(numerator: int, denominator: int) -> float:
    """The quotient of two integers, correctly rounded."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
