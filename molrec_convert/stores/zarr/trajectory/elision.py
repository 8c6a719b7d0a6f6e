"""Which presentations of a block are updates: those that differ, bit for bit, from the one before.

Presentations are compared after rounding to the declared precision; a NaN equals the same NaN, -0.0 differs from 0.0.
A few rows are compared first: of a block that moves, nothing more has to be looked at.
Source: Trajectory, "Three states".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.dtypes import same_bits
from molrec_convert.model.precision import stored

__all__ = ["Presentation", "changed"]

#: Rows of every presentation that are compared before all of them are.
_SAMPLE = 3
_Array = NDArray[Any]


@dataclass
class Presentation:
    """The rows a block had at its last update: `columns` (rounded where a precision is declared) and `masks`."""

    count: int
    arrays: dict[str, _Array] = field(default_factory=dict)


def changed(
    offset: NDArray[np.int64],
    arrays: dict[str, _Array],
    precision: dict[str, float],
    before: Presentation | None,
) -> NDArray[np.bool_]:
    """For presentations with rows `offset[j]:offset[j+1]` of `arrays`: whether each differs from the one before it.

    `before` is the update that precedes the first. `precision` names the arrays that are yet to be rounded.
    """
    counts = np.diff(offset)
    result = np.ones(len(counts), dtype=np.bool_)
    if not len(counts):
        return result
    same = np.flatnonzero(counts[1:] == counts[:-1]) + 1
    for name in _quickest_first(arrays, precision):
        if not len(same):
            break
        same = _sampled(arrays[name], offset, same, precision.get(name))
    for name in arrays:
        if not len(same):
            break
        same = _compared(arrays[name], offset, same, precision.get(name))
    result[same] = False
    if before is not None and before.count == counts[0]:
        result[0] = not _equals(before, {name: array[: offset[1]] for name, array in arrays.items()}, precision)
    return result


def _quickest_first(arrays: dict[str, _Array], precision: dict[str, float]) -> list[str]:
    """Numbers before texts, floats first: they tell two presentations apart soonest."""
    rank = {"f": 0, "c": 0, "T": 2}
    return sorted(arrays, key=lambda name: rank.get(arrays[name].dtype.kind, 1))


def _sampled(
    array: _Array, offset: NDArray[np.int64], same: NDArray[np.int64], precision: float | None
) -> NDArray[np.int64]:
    """Of presentations `same`, each as long as the one before it, those that agree with it in a few rows."""
    counts = offset[same + 1] - offset[same]
    filled = np.flatnonzero(counts)
    agree = np.ones(len(same), dtype=np.bool_)
    for part in range(_SAMPLE):
        if not len(filled):
            break
        places = (counts[filled] - 1) * part // max(1, _SAMPLE - 1)
        now = array[offset[same[filled]] + places]
        then = array[offset[same[filled] - 1] + places]
        equal = _rows_equal(now, then, precision)
        agree[filled[~equal]] = False
        filled = filled[equal]
    return same[agree]


def _compared(
    array: _Array, offset: NDArray[np.int64], same: NDArray[np.int64], precision: float | None
) -> NDArray[np.int64]:
    """Of presentations `same`, each as long as the one before it, those that agree with it in every row."""
    counts = offset[same + 1] - offset[same]
    if len(same) == same[-1] - same[0] + 1:
        # One run of presentations of one length: compared against itself shifted, nothing is gathered.
        now, then = array[offset[same[0]] : offset[same[-1] + 1]], array[offset[same[0] - 1] : offset[same[-1]]]
        if counts[0]:
            same = same[_rows_equal(now, then, precision).reshape(len(same), -1).all(axis=1)]
        return same
    bounds = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)
    now = array[np.repeat(offset[same], counts) + within]
    then = array[np.repeat(offset[same - 1], counts) + within]
    filled = np.flatnonzero(counts)
    agree = np.ones(len(same), dtype=np.bool_)
    if len(filled):
        agree[filled] = np.logical_and.reduceat(_rows_equal(now, then, precision), bounds[:-1][filled])
    return same[agree]


def _rows_equal(a: _Array, b: _Array, precision: float | None) -> NDArray[np.bool_]:
    """Row by row: whether all bits agree."""
    width = math.prod(a.shape[1:])
    if not a.size:
        return np.ones(len(a), dtype=np.bool_)
    if precision is not None:
        a, b = stored(a, precision), stored(b, precision)
    if a.dtype.kind != "T":
        unit = np.dtype("u8" if a.dtype.itemsize % 8 == 0 else f"u{a.dtype.itemsize}")
        width *= a.dtype.itemsize // unit.itemsize
        a, b = np.ascontiguousarray(a).reshape(-1).view(unit), np.ascontiguousarray(b).reshape(-1).view(unit)
    equal: NDArray[np.bool_] = (a == b).reshape(-1)
    return equal if width == 1 else np.logical_and.reduce(equal.reshape(-1, width), axis=1)


def _equals(before: Presentation, arrays: dict[str, _Array], precision: dict[str, float]) -> bool:
    for name in _quickest_first(arrays, precision):
        now, then = arrays[name], before.arrays[name]
        for rows in (slice(0, _SAMPLE), slice(None)):
            rounded = stored(now[rows], precision[name]) if name in precision else now[rows]
            if not same_bits(rounded, then[rows]):
                return False
    return True
