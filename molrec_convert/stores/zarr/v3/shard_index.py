"""The index of a shard: where each inner chunk lies in the shard file.

n entries of two u64, offset and length in bytes (both 2^64-1: no chunk, all fill), closed by a CRC-32C of four bytes.
Source: Zarr V3 sharding codec; Zarr V3 binding, "Shard append".
"""

from __future__ import annotations

import time
from typing import Any, Literal

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["MISSING", "index_size", "is_missing", "pack_index", "read_index", "unpack_index"]

MISSING = 2**64 - 1
_TRIES = 5
_PAUSE = 0.002


def index_size(chunks: int) -> int:
    """Bytes of the index of a shard of `chunks` inner chunks."""
    return 16 * chunks + 4


def pack_index(entries: NDArray[np.uint64]) -> bytes:
    """The stored index of `entries` u64[n, 2]."""
    raw = np.ascontiguousarray(entries, dtype="<u8").tobytes()
    return raw + int(google_crc32c.value(raw)).to_bytes(4, "little")


def unpack_index(raw: bytes) -> tuple[NDArray[np.uint64], bool]:
    """The entries u64[n, 2] of a stored index, and whether its checksum is right."""
    entries = np.frombuffer(raw[:-4], dtype="<u8").reshape(-1, 2)
    return entries, int(google_crc32c.value(raw[:-4])) == int.from_bytes(raw[-4:], "little")


def is_missing(entries: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which entries say that there is no chunk."""
    return np.asarray((entries == np.uint64(MISSING)).all(axis=-1))


def read_index(
    storage: Storage, key: str, chunks: int, at: Literal["start", "end"]
) -> tuple[NDArray[np.uint64], bool] | None:
    """The entries of a shard file, and whether its checksum is right; None without a file.

    A writer may be at work, so a wrong checksum is looked at again up to five times, 2 ms apart. After that the
    entries are handed out as they are: one that a torn write left is the old one or the new one, and each chunk's own
    checksum tells whether it stands.
    """
    length = index_size(chunks)
    entries: Any = None
    for attempt in range(_TRIES + 1):
        if attempt:
            time.sleep(_PAUSE)
            storage.forget()
        size = storage.size(key)
        if size is None:
            return None
        if size >= length:
            raw = storage.read_range(key, 0 if at == "start" else size - length, length)
            if len(raw) == length:
                entries, sound = unpack_index(raw)
                if sound:
                    return entries, True
    if entries is None:
        raise ContractError(key, "the shard is shorter than its index", found=str(size), expected=str(length))
    return entries, False
