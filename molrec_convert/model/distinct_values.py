"""The different values of a column, which row has which, and how many have it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Distinct", "distinct"]


class Distinct(NamedTuple):
    """`values`: each once, ascending. `codes`: for each row the place of its own among them. `counts`: rows of each."""

    values: NDArray[Any]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


def distinct(values: NDArray[Any]) -> Distinct:
    """The different values of a one-dimensional array of any dtype, texts included."""
    if values.dtype.kind != "T":
        found, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
        return Distinct(found, codes.reshape(-1).astype(np.int64), counts.astype(np.int64))
    # numpy's other sort ends the process with long texts of some orders: its heap sort, which it falls back to
    order = values.argsort(kind="stable")
    ordered = values[order]
    begins = np.ones(len(values), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    codes = np.empty(len(values), np.int64)
    codes[order] = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    return Distinct(ordered[firsts], codes, np.diff(firsts, append=len(values)))
