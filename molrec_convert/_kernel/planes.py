"""Byte planes: byte b of every value of a chunk together, as the shuffle of numcodecs and Blosc stores them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from molrec_convert._kernel import address, library

__all__ = ["merge_planes", "split_planes"]

Bytes = NDArray[np.uint8]


def split_planes(values: Bytes, out: Bytes | None = None) -> Bytes:
    """Return the planes uint8[chunk, byte, value] of values uint8[chunk, value, byte], in `out` when given."""
    chunks, count, size = values.shape
    out = np.empty((chunks, size, count), np.uint8) if out is None else out
    kernel = library()
    if kernel is None or out.strides[2:] != (1,) or values.strides[1:] != (size, 1):
        # byte by byte is the fastest way numpy has
        for byte in range(size):
            out[:, byte] = values[:, :, byte]
        return out
    (away, _, _), (apart, step, _) = values.strides, out.strides
    kernel.molrec_split_planes(address(values), away, count, size, address(out), apart, step, chunks)
    return out


def merge_planes(planes: Bytes, out: Bytes | None = None) -> Bytes:
    """Return the values uint8[chunk, value, byte] of planes uint8[chunk, byte, value], in `out` when given."""
    chunks, size, count = planes.shape
    out = np.empty((chunks, count, size), np.uint8) if out is None else out
    kernel = library()
    if kernel is None or planes.strides[2:] != (1,) or out.strides[1:] != (size, 1):
        for byte in range(size):
            out[:, :, byte] = planes[:, byte]
        return out
    (away, _, _), (apart, step, _) = out.strides, planes.strides
    kernel.molrec_merge_planes(address(planes), apart, step, count, size, address(out), away, chunks)
    return out
