"""Zstandard, one chunk at a time.

`zstandard` keeps its working memory between calls and is twice as fast on chunks of a few KiB; where it is not
installed `numcodecs` does the same work. Source: RFC 8878.
"""

from __future__ import annotations

import struct
import threading
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import zstandard
except ImportError:  # an optional dependency
    zstandard = None  # type: ignore[assignment, unused-ignore]

__all__ = ["content_size", "zstd_compress", "zstd_decompress"]

_MAGIC = b"\x28\xb5\x2f\xfd"
_kept = threading.local()
_ZstdError: type[Exception] = RuntimeError if zstandard is None else zstandard.ZstdError
#: Above this the working memory of a call no longer shows, and numcodecs writes in place.
_SMALL = 64 * 2**10


def zstd_compress(data: Any, level: int, checksum: bool = False) -> bytes:
    """One frame that states its content size."""
    if zstandard is None:
        return bytes(_plain().compress(data, level, checksum))
    compressors: dict[tuple[int, bool], Any] = _kept.__dict__.setdefault("compressors", {})
    key = (level, checksum)
    if key not in compressors:
        compressors[key] = zstandard.ZstdCompressor(level=level, write_checksum=checksum, write_content_size=True)
    return bytes(compressors[key].compress(data))


def zstd_decompress(data: Any, size: int | None, out: NDArray[np.uint8] | None = None) -> bytes | NDArray[np.uint8]:
    """The content of one or more frames; `ValueError` when they are broken or do not hold `size` bytes.

    No more memory is taken than `size`, or than the frames' headers say. With `out`, of `size` bytes, it is there.
    """
    stated = content_size(data)
    if size is not None and stated is not None and stated > size:
        raise ValueError(f"it holds {stated} bytes, not {size}")
    try:
        if size is not None and stated == size:
            return _decompress_frame(data, size, out)
        content: bytes = _plain().decompress(_as_bytes(data))
    except (RuntimeError, MemoryError, _ZstdError) as error:
        raise ValueError(str(error)) from None
    if size is not None and len(content) != size:
        raise ValueError(f"it holds {len(content)} bytes, not {size}")
    if out is None:
        return content
    out[:] = np.frombuffer(content, dtype=np.uint8)
    return out


def _decompress_frame(data: Any, size: int, out: NDArray[np.uint8] | None) -> bytes | NDArray[np.uint8]:
    """One frame that says it holds `size` bytes."""
    if zstandard is None or size > _SMALL:
        target = np.empty(size, dtype=np.uint8) if out is None else out
        _plain().decompress(_as_bytes(data), target)
        return target
    decompressor = _kept.__dict__.get("decompressor")
    if decompressor is None:
        decompressor = _kept.decompressor = zstandard.ZstdDecompressor()
    content: bytes = decompressor.decompress(data, allow_extra_data=False)
    if out is None:
        return content
    out[:] = np.frombuffer(content, dtype=np.uint8)
    return out


def content_size(data: Any) -> int | None:
    """What the header of the first frame says its content takes, None when it does not say."""
    if zstandard is not None:
        try:
            size = int(zstandard.frame_content_size(data))
        except zstandard.ZstdError:
            return None
        return size if size >= 0 else None
    head = bytes(memoryview(data)[:18])
    if len(head) < 6 or head[:4] != _MAGIC:
        return None
    descriptor = head[4]
    single = bool(descriptor & 0x20)
    kind = descriptor >> 6
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    if kind == 0:
        return head[start] if single and len(head) > start else None
    width = 2**kind
    if len(head) < start + width:
        return None
    (value,) = struct.unpack_from(("<H", "<I", "<Q")[kind - 1], head, start)
    return int(value) + 256 if kind == 1 else int(value)


@lru_cache(maxsize=1)
def _plain() -> Any:
    """The codec of numcodecs, which is slow to import."""
    from numcodecs import zstd

    return zstd


def _as_bytes(data: Any) -> Any:
    return data if isinstance(data, (bytes, np.ndarray)) else bytes(data)
