"""The file an export writes: compressed when its name says so, and nothing but bytes in order.

The suffixes are `.gz .bz2 .xz .zst`. The same content gives the same file: no times or
names are put into it.
"""

from __future__ import annotations

import bz2
import contextlib
import ctypes
import gzip
import io
import lzma
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

__all__ = ["EagerWritebackFile", "open_target", "start_writeback"]

#: Flag of sync_file_range(2): begin to write, wait for nothing.
_WRITE = 2
#: After how many new bytes they are sent to the disk.
_AHEAD = 4 * 2**20


def start_writeback(descriptor: int, offset: int, length: int) -> None:
    """Ask the system to begin writing a part of a file to the disk.

    It waits for nothing, promises nothing, and does nothing on a system without such a call.
    """
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, length, _WRITE)


class EagerWritebackFile(io.FileIO):
    """A file written from beginning to end whose bytes are sent to the disk as they come.

    The sync at the end then finds most of it there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "wb")
        self._written = self._started = 0

    def write(self, data: Any, /) -> int:
        """Write some bytes, and return how many were taken."""
        taken = super().write(data)
        self._written += taken
        if self._written - self._started >= _AHEAD:
            start_writeback(self.fileno(), self._started, self._written - self._started)
            self._started = self._written
        return taken


@lru_cache(maxsize=1)
def _sync_file_range() -> Any:
    call = getattr(ctypes.CDLL(None), "sync_file_range", None) if os.name == "posix" else None
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


_BUFFER = 2**20


@contextlib.contextmanager
def open_target(path: Path, name: str) -> Iterator[BinaryIO]:
    """Yield a file to write at `path`, compressed as its final `name` asks; it is synced when it is closed."""
    with io.BufferedWriter(EagerWritebackFile(path), _BUFFER) as raw:
        with _compressed(raw, Path(name).suffix.lower()) as file:
            yield file
        raw.flush()
        os.fsync(raw.fileno())


def _compressed(raw: BinaryIO, suffix: str) -> Any:
    if suffix == ".gz":
        return gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0)
    if suffix == ".bz2":
        return bz2.open(raw, "wb")
    if suffix == ".xz":
        return lzma.open(raw, "wb")
    if suffix == ".zst":
        import zstandard

        return cast(Any, zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False))
    return contextlib.nullcontext(raw)
