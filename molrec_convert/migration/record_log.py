"""What is known of records that are in the file with their frames only: meta, system, counts and index values.

LMDB wants keys in order, and those of frames come first; so everything else waits here, in a file that grows by whole
entries and is cut back to the last commit when a migration is resumed.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["LogRows", "RecordLog", "log_entry"]

#: Lengths of meta, system (-1: none), index values and digest; frames; atoms; whether there is a trajectory.
_HEAD = struct.Struct("<IqIIQQ?")
_BUFFER = 2**20
#: The fields of a head, as they are unpacked.
_Head = tuple[int, int, int, int, int, int, bool]


class LogRows(NamedTuple):
    """What the index says of some consecutive records, a value each.

    `texts` are documents `{"columns": {...}, "elements": {...} or None}`.
    """

    texts: list[bytes]
    n_frames: list[int]
    n_atoms: list[int]
    has_trajectory: list[bool]


def log_entry(
    meta: bytes, system: bytes | None, row: bytes, n_frames: int, n_atoms: int, has_trajectory: bool, digest: bytes
) -> bytes:
    """An entry as it stands in the file."""
    size = -1 if system is None else len(system)
    head = _HEAD.pack(len(meta), size, len(row), len(digest), n_frames, n_atoms, has_trajectory)
    return b"".join((head, meta, system or b"", row, digest))


class RecordLog:
    """The file at `path`, cut back to `size` bytes. `append` entries, then `sync`.

    What the entries hold is read from the file, of some consecutive records at a time.
    """

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

    def rows(self) -> Iterator[LogRows]:
        """What the index says of each record."""
        body = _HEAD.size
        for _, data, starts, heads in self._parts(0, self.size):
            texts = []
            for start, (meta, system, row, _, _, _, _) in zip(starts, heads, strict=True):
                at = start + body + meta + (system if system > 0 else 0)
                texts.append(data[at : at + row])
            yield LogRows(texts, [head[4] for head in heads], [head[5] for head in heads], [head[6] for head in heads])

    def metas(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Sequence[int], list[bytes]]]:
        """The metas of the entries from byte `start` up to `stop`, and the numbers of their records from there."""
        body = _HEAD.size
        number = 0
        for _, data, starts, heads in self._parts(start, self.size if stop is None else stop):
            ends = zip(starts, heads, strict=True)
            yield range(number, number + len(heads)), [data[at + body : at + body + head[0]] for at, head in ends]
            number += len(heads)

    def systems(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Sequence[int], list[bytes]]]:
        """The systems there are of those entries, and the numbers of their records from there."""
        body = _HEAD.size
        number = 0
        for _, data, starts, heads in self._parts(start, self.size if stop is None else stop):
            numbers, values = [], []
            for own, at, (meta, system, _, _, _, _, _) in zip(itertools.count(number), starts, heads):
                if system >= 0:
                    first = at + body + meta
                    numbers.append(own)
                    values.append(data[first : first + system])
            yield numbers, values
            number += len(heads)

    def digests(self) -> Iterator[list[bytes]]:
        """The digest of each record."""
        for _, data, starts, heads in self._parts(0, self.size):
            ends = [start + _size(head) for start, head in zip(starts, heads, strict=True)]
            yield [data[end - head[3] : end] for end, head in zip(ends, heads, strict=True)]

    def starts(self, every: int) -> list[tuple[int, int]]:
        """Where the entries of record 0, `every`, 2 `every`, ... begin: the byte, and the frames before it."""
        found = []
        number = frames = 0
        for base, _, starts, heads in self._parts(0, self.size):
            for at, head in zip(starts, heads, strict=True):
                if not number % every:
                    found.append((base + at, frames))
                number += 1
                frames += head[4]
        return found

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, bytes, list[int], list[_Head]]]:
        """Bytes of whole entries: where they stand in the file, where each of them begins there, and its head."""
        self._file.flush()
        unpack, body = _HEAD.unpack_from, _HEAD.size
        base, data, wanted = start, b"", _BUFFER
        with open(self.path, "rb", buffering=0) as file:
            file.seek(start)
            left = stop - start
            while left or data:
                block = file.read(min(left, wanted))
                if not block:
                    raise EOFError(f"{self.path} ends in the middle of an entry")
                data, left, wanted = data + block, left - len(block), _BUFFER
                at, end = 0, len(data)
                starts: list[int] = []
                heads: list[_Head] = []
                while at + body <= end:
                    head = unpack(data, at)
                    meta, system, row, digest, _, _, _ = head
                    after = at + body + meta + row + digest + (system if system > 0 else 0)
                    if after > end:
                        # at least the rest of this one
                        wanted = max(_BUFFER, after - end)
                        break
                    starts.append(at)
                    heads.append(head)
                    at = after
                if heads:
                    yield base, data, starts, heads
                data, base = data[at:], base + at

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _size(head: _Head) -> int:
    meta, system, row, digest, *_ = head
    return _HEAD.size + meta + max(system, 0) + row + digest
