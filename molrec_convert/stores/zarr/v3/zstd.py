"""Zstandard: one chunk, or a run of chunks of equal size in one call.

`zstandard` keeps its working memory between calls, and a run costs one visit to the interpreter instead of one each.
Source: RFC 8878.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

__all__ = ["content_size", "zstd_compress", "zstd_compress_run", "zstd_decompress", "zstd_decompress_run"]

_kept = threading.local()
#: Above this the working memory of a call no longer shows, and numcodecs writes in place.
_SMALL = 64 * 2**10
#: The backend in C takes runs; the one for other interpreters does not.
_RUNS = {"multi_compress_to_buffer", "multi_decompress_to_buffer"} <= zstandard.backend_features


def zstd_compress(data: Any, level: int, checksum: bool = False) -> bytes:
    """Return one frame that states its content size."""
    return _compressor(level, checksum).compress(data)


def zstd_compress_run(parts: NDArray[np.uint8], level: int, checksum: bool = False) -> list[Any]:
    """Return the frame of each row of `parts` uint8[n, size], as a buffer."""
    if not _RUNS or len(parts) < 2:
        return [zstd_compress(part, level, checksum) for part in parts]
    size = parts.shape[1]
    places = np.empty((len(parts), 2), dtype="<u8")
    places[:, 0] = np.arange(len(parts), dtype=np.uint64) * np.uint64(size)
    places[:, 1] = size
    run = zstandard.BufferWithSegments(_memory(parts), _memory(places))
    frames = _compressor(level, checksum).multi_compress_to_buffer(run)
    return [frames[number] for number in range(len(parts))]


def zstd_decompress(
    data: Any, size: int | None, out: NDArray[np.uint8] | None = None, most: int | None = None
) -> bytes | NDArray[np.uint8]:
    """Return the content of one or more frames; `ValueError` when they are broken or do not hold `size` bytes.

    No more memory is taken than `size`, or where that is not known than `most`. With `out`, of `size` bytes, it is
    there.
    """
    stated = content_size(data)
    if size is not None and stated is not None and stated > size:
        raise ValueError(f"it holds {stated} bytes, not {size}")
    most = size if size is not None else most
    try:
        if size is not None and stated == size:
            return _decompress_frame(data, size, out)
        with zstandard.ZstdDecompressor().stream_reader(_as_bytes(data), read_across_frames=True) as frames:
            content = frames.read(-1 if most is None else most + 1)
        if most is not None and len(content) > most:
            raise ValueError(f"it holds more than {most} bytes")
        if stated is not None and len(content) < stated:
            raise ValueError(f"it ends after {len(content)} of {stated} bytes")
    except (RuntimeError, MemoryError, zstandard.ZstdError) as error:
        raise ValueError(str(error)) from None
    if size is not None and len(content) != size:
        raise ValueError(f"it holds {len(content)} bytes, not {size}")
    if out is None:
        return content
    out[:] = np.frombuffer(content, dtype=np.uint8)
    return out


def zstd_decompress_run(
    data: NDArray[np.uint8], places: Sequence[tuple[int, int]], size: int
) -> list[NDArray[np.uint8]] | None:
    """Return the contents of the frames at `places` (offset, length) of `data`, each of `size` bytes: in order the rows
    of some arrays uint8[n, size].

    None when that does not work for some of them: `zstd_decompress` tells about each.
    """
    if not _RUNS or len(places) < 2 or not size:
        return None
    count = len(places)
    run = zstandard.BufferWithSegments(_memory(data), _memory(np.array(places, dtype="<u8")))
    sizes = _memory(np.full(count, size, dtype="<u8"))
    try:
        contents = _decompressor().multi_decompress_to_buffer(run, decompressed_sizes=sizes)
    except (zstandard.ZstdError, MemoryError):
        return None
    # They lie one behind the other in a few buffers, each of which counts from 0.
    segments: list[Any] = [contents[number] for number in range(count)]
    begins = [number for number, segment in enumerate(segments) if segment.offset == 0]
    arrays = []
    for first, stop in zip(begins, [*begins[1:], count], strict=True):
        address = np.frombuffer(segments[first], dtype=np.uint8).ctypes.data
        arrays.append(np.asarray(_Memory(contents, address, (stop - first, size))))
    return arrays


class _Memory:
    """Memory of an object as an array that keeps the object."""

    def __init__(self, owner: object, address: int, shape: tuple[int, ...]) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (address, True), "shape": shape, "typestr": "|u1", "version": 3}


def _decompress_frame(data: Any, size: int, out: NDArray[np.uint8] | None) -> bytes | NDArray[np.uint8]:
    """Return one frame that says it holds `size` bytes."""
    if size > _SMALL:
        target = np.empty(size, dtype=np.uint8) if out is None else out
        _plain().decompress(_as_bytes(data), target)
        return target
    content = _decompressor().decompress(data, allow_extra_data=False)
    if out is None:
        return content
    out[:] = np.frombuffer(content, dtype=np.uint8)
    return out


def content_size(data: Any) -> int | None:
    """Return what the header of the first frame says its content takes, None when it does not say."""
    try:
        size = int(zstandard.frame_content_size(data))
    except zstandard.ZstdError:
        return None
    return size if size >= 0 else None


def _memory(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _compressor(level: int, checksum: bool) -> zstandard.ZstdCompressor:
    """Return the one of this thread."""
    compressors: dict[tuple[int, bool], zstandard.ZstdCompressor] = _kept.__dict__.setdefault("compressors", {})
    key = (level, checksum)
    if key not in compressors:
        compressors[key] = zstandard.ZstdCompressor(level=level, write_checksum=checksum, write_content_size=True)
    return compressors[key]


def _decompressor() -> zstandard.ZstdDecompressor:
    """Return the one of this thread."""
    decompressor: zstandard.ZstdDecompressor | None = _kept.__dict__.get("decompressor")
    if decompressor is None:
        decompressor = _kept.decompressor = zstandard.ZstdDecompressor()
    return decompressor


@lru_cache(maxsize=1)
def _plain() -> Any:
    """Return the codec of numcodecs, which is slow to import."""
    from numcodecs import zstd

    return zstd


def _as_bytes(data: Any) -> Any:
    return data if isinstance(data, (bytes, np.ndarray)) else bytes(data)
