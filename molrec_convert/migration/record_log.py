"""What is known of records that are in the file with their frames only: meta, system, counts and index values.

LMDB wants keys in order, and those of frames come first; so everything else waits here, in a file that grows by whole
entries and is cut back to the last commit when a migration is resumed.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LogEntry", "RecordLog", "log_entry", "parsed_rows"]

#: Lengths of meta, system (-1: none), index values and digest; frames; atoms; whether there is a trajectory.
_HEAD = struct.Struct("<IqIIQQ?")
_BUFFER = 2**20
#: Entries whose index values are parsed together.
_TOGETHER = 1024


@dataclass(slots=True)
class LogEntry:
    """One record's entry."""

    meta: bytes
    system: bytes | None
    row: bytes
    digest: bytes
    n_frames: int
    n_atoms: int
    has_trajectory: bool

    def values(self) -> dict[str, Any]:
        """The index values: `{"columns": {...}, "elements": {...} or None}`."""
        document: dict[str, Any] = json.loads(self.row)
        return document


def log_entry(
    meta: bytes, system: bytes | None, row: bytes, n_frames: int, n_atoms: int, has_trajectory: bool, digest: bytes
) -> bytes:
    """An entry as it stands in the file."""
    size = -1 if system is None else len(system)
    head = _HEAD.pack(len(meta), size, len(row), len(digest), n_frames, n_atoms, has_trajectory)
    return b"".join((head, meta, system or b"", row, digest))


class RecordLog:
    """The file at `path`, cut back to `size` bytes. `append` entries, then `sync`."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._file = open(path, "r+b" if path.exists() else "w+b", buffering=_BUFFER)  # noqa: SIM115
        self._file.truncate(size)
        self._file.seek(size)
        self.size = size

    def append(self, entries: Iterable[bytes]) -> None:
        """Entries at the end."""
        for entry in entries:
            self._file.write(entry)
            self.size += len(entry)

    def cut(self, size: int) -> None:
        """Forget what was appended behind `size`."""
        self._file.flush()
        self._file.truncate(size)
        self._file.seek(size)
        self.size = size

    def sync(self) -> None:
        """Everything that was appended is on disk when this returns."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def __iter__(self) -> Iterator[LogEntry]:
        """All entries, read from the file."""
        self._file.flush()
        left, data, at = self.size, b"", 0
        with open(self.path, "rb", buffering=0) as file:
            while left or at < len(data):
                while len(data) - at < _HEAD.size or len(data) - at < _entry_size(data, at):
                    block = file.read(min(left, _BUFFER))
                    if not block:
                        raise EOFError(f"{self.path} ends in the middle of an entry")
                    data, at, left = data[at:] + block, 0, left - len(block)
                meta, system, row, digest, frames, atoms, has = _HEAD.unpack_from(data, at)
                a = at + _HEAD.size
                b = a + meta
                c = b + max(system, 0)
                d = c + row
                at = d + digest
                yield LogEntry(data[a:b], None if system < 0 else data[b:c], data[c:d], data[d:at], frames, atoms, has)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _entry_size(data: bytes, at: int) -> int:
    meta, system, row, digest, *_ = _HEAD.unpack_from(data, at)
    size: int = _HEAD.size + meta + max(system, 0) + row + digest
    return size


def parsed_rows(
    entries: Iterable[LogEntry], count: int = 1024
) -> Iterator[tuple[list[LogEntry], list[dict[str, Any]]]]:
    """Entries and their index values (see `LogEntry.values`), so many at a time: the texts are parsed together."""
    following = iter(entries)
    while some := list(itertools.islice(following, count)):
        yield some, json.loads(b"[" + b",".join([entry.row for entry in some]) + b"]")
