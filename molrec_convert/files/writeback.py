"""Having the system begin to write what a file got, so that the sync at the end finds most of it on the disk."""

from __future__ import annotations

import ctypes
import io
import os
from functools import lru_cache
from typing import Any

__all__ = ["FileAhead", "start_writeback"]

#: Flag of sync_file_range(2): begin to write, wait for nothing.
_WRITE = 2
#: So many new bytes are on their way to the disk before anyone asks for them.
_AHEAD = 4 * 2**20


def start_writeback(descriptor: int, offset: int, length: int) -> None:
    """Have the system begin to write a part of a file.

    A hint: it waits for nothing, promises nothing, and does nothing where the system has no such call.
    """
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, length, _WRITE)


class FileAhead(io.FileIO):
    """A file that is written from its beginning to its end, its bytes on their way to the disk as they come."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "wb")
        self._written = self._started = 0

    def write(self, data: Any, /) -> int:
        """Write some bytes; returns how many it took."""
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
