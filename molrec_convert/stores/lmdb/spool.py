"""Values kept in order until they are wanted again: in memory while they are few, in an unnamed file beyond that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["Spool"]

_IN_MEMORY = 8 * 2**20


class Spool:
    """A queue of byte strings. The file it may need lies in `folder`, has no name, and goes with the process."""

    def __init__(self, folder: Path, in_memory: int = _IN_MEMORY) -> None:
        self._folder, self._limit = folder, in_memory
        self._values: list[bytes] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._spilled = 0

    def __len__(self) -> int:
        return self._spilled + len(self._values)

    def append(self, value: bytes) -> None:
        """Keep a value."""
        self._values.append(value)
        self._size += len(value)
        if self._size > self._limit:
            self._spill()

    def __iter__(self) -> Iterator[bytes]:
        """The values in order."""
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._spilled):
                size = int.from_bytes(self._file.read(8), "little")
                yield self._file.read(size)
        yield from self._values

    def close(self) -> None:
        """Forget everything."""
        self._values, self._spilled = [], 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by `close`
        self._file.seek(0, 2)
        for value in self._values:
            self._file.write(len(value).to_bytes(8, "little"))
            self._file.write(value)
        # a full disk shows now, and not when the values are wanted
        self._file.flush()
        self._spilled += len(self._values)
        self._values, self._size = [], 0
