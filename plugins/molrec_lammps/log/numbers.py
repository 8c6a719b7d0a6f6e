"""Blank-separated numbers of a text to one array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.rows import Field, RowFault, read_rows

__all__ = ["numbers"]


def numbers(text: bytes) -> NDArray[np.float64] | None:
    """Return all numbers of `text` as f64[n], correctly rounded; None when anything else stands between them."""
    try:
        values: NDArray[np.float64] = read_rows(b"\n".join(text.split()), None, [Field("real")]).columns[0]
    except RowFault:
        return None
    return values
