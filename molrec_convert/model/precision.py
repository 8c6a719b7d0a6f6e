"""Declared precision: the quantum of a tolerance and the value a writer stores.

Source: Containers, "Declared precision".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError

__all__ = ["check_precision", "off_grid", "precision_fault", "quantum", "stored"]

_SMALLEST, _LARGEST = 2.0**-1000, 2.0**1000


def check_precision(precision: Any, dtype: str, node: str) -> float:
    """`precision` as a float, refused unless finite, within [2^-1000, 2^1000], and on an `f64` column."""
    fault = precision_fault(precision, dtype)
    if fault is not None:
        raise ContractError(node, fault)
    return float(precision)


def precision_fault(precision: Any, dtype: str) -> str | None:
    """Why a column of `dtype` cannot declare `precision`, or None when it can."""
    if dtype != "f64":
        return f"only an f64 column may declare a precision: found {dtype}"
    if isinstance(precision, (bool, np.bool_)) or not isinstance(precision, (int, float, np.integer, np.floating)):
        return f"a precision is a number: found {precision!r}"
    if not _SMALLEST <= precision <= _LARGEST:
        return f"the precision is outside the allowed range: found {precision!r}, expected 2^-1000 to 2^1000"
    return None


def quantum(precision: float) -> float:
    """The largest power of two not above `precision`."""
    return math.ldexp(1.0, math.frexp(precision)[1] - 1)


def stored(
    values: NDArray[np.float64], precision: float, out: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """What a writer stores for `values`: the nearest multiple of the quantum, ties to even.

    NaN, infinities and values of at least 2^52 quanta are untouched. Division and multiplication by a power of two
    are exact, so any writer stores the same bits. With `out`, which must be other memory, the result is there.
    """
    q = quantum(precision)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result: NDArray[np.float64] = np.multiply(values, 1.0 / q, out=out)
        np.rint(result, out=result)
        # One look at the extremes tells whether anything is to be left alone; a NaN shows there too.
        rounded = not result.size or bool(result.min() > -(2.0**52) and result.max() < 2.0**52)
        result *= q
        untouched = None if rounded else ~(np.abs(values) < 2.0**52 * q)
    if untouched is not None:
        result[untouched] = values[untouched]
    return result


def off_grid(values: NDArray[np.float64], precision: float) -> NDArray[np.bool_]:
    """Which values `stored` would change: a writer's defect that a validator reports."""
    rounded = stored(values, precision)
    return np.asarray(rounded.view(np.uint64) != np.ascontiguousarray(values).view(np.uint64))
