"""Values kept in order until they are wanted again: in memory while they are few, in an unnamed file beyond that."""

from __future__ import annotations

import struct
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["Spool"]

_IN_MEMORY = 8 * 2**20


_ENTRY = struct.Struct("<QQ")


class Spool:
    """A queue of numbered byte strings; `spill` is to be called now and then.

    The file it may need lies in `folder`, unnamed, and goes with the process.
    """

    def __init__(self, folder: Path, in_memory: int = _IN_MEMORY) -> None:
        self._folder, self._limit = folder, in_memory
        # no tuple for each value: objects the garbage collector looks at would make it look ever more often
        self._numbers: array[int] = array("Q")
        self._values: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._spilled = self._size = 0

    def __len__(self) -> int:
        return self._spilled + len(self._values)

    def append(self, number: int, value: bytes) -> None:
        """Keep a value and its number."""
        self._numbers.append(number)
        self._values.append(value)
        self._size += len(value)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Numbers and values in the order they came."""
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._spilled):
                number, size = _ENTRY.unpack(self._file.read(_ENTRY.size))
                yield number, self._file.read(size)
        yield from zip(self._numbers, self._values, strict=True)

    def spill(self) -> None:
        """Move what is kept to the file, when it is more than may be in memory."""
        if self._size <= self._limit:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by `close`
        self._file.seek(0, 2)
        for number, value in zip(self._numbers, self._values, strict=True):
            self._file.write(_ENTRY.pack(number, len(value)))
            self._file.write(value)
        # a full disk shows now, and not when the values are wanted
        self._file.flush()
        self._spilled += len(self._values)
        self._clear()

    def close(self) -> None:
        """Forget everything."""
        self._clear()
        self._spilled = 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _clear(self) -> None:
        self._numbers, self._values, self._size = array("Q"), [], 0
