"""Row references of a fixed column: every value that is not null below the target's row count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from molrec_convert.inspect.validation.arrays import CheckedArray
from molrec_convert.inspect.validation.findings import Findings

__all__ = ["check_range", "references_beyond"]

#: Faults are collected up to this many rows.
_MOST = 10**6


def check_range(
    array: CheckedArray, mask: CheckedArray | None, target: str, limit: int, findings: Findings, stop: int
) -> None:
    """One error when a reference in the first `stop` rows is out of range, naming the first of them."""
    rows, values = references_beyond(array, mask, limit, stop)
    if len(rows):
        findings.error(
            array.node, f"row {rows[0]} references row {values[0]} of the block {target!r}, which has {limit} rows"
        )


def references_beyond(
    array: CheckedArray, mask: CheckedArray | None, limit: int, stop: int
) -> tuple[NDArray[np.int64], list[int]]:
    """Rows below `stop` whose reference is at least `limit`, the first million of them, and their largest values."""
    found: list[NDArray[np.int64]] = []
    largest: list[int] = []
    for start, values in array.pieces(stop):
        rows = values.reshape(len(values), -1)
        beyond = np.asarray((rows >= np.uint64(limit)).any(axis=1))
        if beyond.any() and mask is not None:
            valid = mask.rows_between(start, start + len(values))
            if valid is not None and len(valid) == len(beyond):
                beyond &= valid
        positions = np.flatnonzero(beyond)
        if len(positions) and len(largest) < _MOST:
            found.append(positions + start)
            largest.extend(rows[positions].max(axis=1).tolist())
    if limit == 0:
        # What no chunk backs are zeros, and there is no row 0.
        for low, high in array.gaps(stop):
            zeros = np.arange(low, min(high, low + _MOST), dtype=np.int64)
            valid = None if mask is None else mask.rows_between(low, low + len(zeros))
            zeros = zeros if valid is None or len(valid) != len(zeros) else zeros[valid]
            found.append(zeros)
            largest.extend([0] * len(zeros))
    return np.concatenate([np.zeros(0, dtype=np.int64), *found]), largest
