"""Blank-separated numbers of a text to one array: by pyarrow, or by numpy where that is not installed; equal bits."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from molrec_lammps.data.rows import arrow_csv

__all__ = ["numbers"]

_PLAIN = b"0123456789+-.eE \t\r\n"
#: Below this many bytes numpy is done before pyarrow has begun.
_SMALL = 2048


def numbers(text: bytes) -> NDArray[np.float64] | None:
    """All numbers of `text` (f64[n], correctly rounded); None when anything else stands between them."""
    if not text.strip():
        return np.zeros(0)
    if len(text) > _SMALL and not text.translate(None, delete=_PLAIN):
        values = _by_arrow(text)
        if values is not None:
            return values
    return _by_numpy(text)


def _by_arrow(text: bytes) -> NDArray[np.float64] | None:
    reader = arrow_csv()
    if reader is None:
        return None
    import pyarrow as pa

    # One number a line: every blank that follows a number becomes a newline, all others go.
    codes = np.frombuffer(text, dtype=np.uint8)
    inked = codes > 32
    keep = inked.copy()
    keep[1:] |= inked[:-1]
    lines = codes[keep]
    lines[lines <= 32] = 10
    try:
        table = reader.read_csv(
            pa.BufferReader(pa.py_buffer(lines)),
            read_options=reader.ReadOptions(column_names=["v"], use_threads=False, block_size=len(lines) + 1),
            parse_options=reader.ParseOptions(quote_char=False, ignore_empty_lines=False),
            convert_options=reader.ConvertOptions(
                column_types={"v": pa.float64()}, null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    values: NDArray[np.float64] = table.column(0).to_numpy()
    return values


def _by_numpy(text: bytes) -> NDArray[np.float64] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, dtype=np.float64, sep=" ")
        except (DeprecationWarning, ValueError):
            return None
