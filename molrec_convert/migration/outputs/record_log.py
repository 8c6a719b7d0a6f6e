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

import google_crc32c

__all__ = ["LogRows", "RecordLog", "frames_sum", "log_entry"]

#: Lengths of meta, system (-1: none), index values and digest; frames; atoms; whether there is a trajectory; the
#: checksum of the frames.
_HEAD = struct.Struct("<IqIIQQ?I")
_BUFFER = 2**20
#: The fields of a head, as they are unpacked.
_Head = tuple[int, int, int, int, int, int, bool, int]


def frames_sum(values: Iterable[bytes], before: int = 0) -> int:
    """Return the checksum (CRC-32C) of the values of frames, behind those that have the checksum `before`."""
    extend = google_crc32c.extend
    for value in values:
        before = extend(before, value)
    return before


class LogRows(NamedTuple):
    """What the index says of some consecutive records, a value each.

    `texts` are documents `{"columns": {...}, "elements": {...} or None}`.
    """

    texts: list[bytes]
    n_frames: list[int]
    n_atoms: list[int]
    has_trajectory: list[bool]


def log_entry(
    meta: bytes,
    system: bytes | None,
    row: bytes,
    n_frames: int,
    n_atoms: int,
    has_trajectory: bool,
    digest: bytes,
    checksum: int,
) -> bytes:
    """An entry as it stands in the file; `checksum` is that of the frames."""
    size = -1 if system is None else len(system)
    head = _HEAD.pack(len(meta), size, len(row), len(digest), n_frames, n_atoms, has_trajectory, checksum)
    return b"".join((head, meta, system or b"", row, digest))


class RecordLog:
    """The file at `path`, as it is found until it is `cut`. `append` entries, then `sync`.

    What the entries hold is read from the file, of some consecutive records at a time. Whoever commits what was
    appended keeps its checksum (`up_to`, `mark`), by which it is known again (`is_as_written`).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "r+b" if path.exists() else "w+b", buffering=_BUFFER)  # noqa: SIM115
        self.size = self._file.seek(0, os.SEEK_END)
        #: Where what was committed ends, each time; and the checksum of what was appended since.
        self._marks: list[int] = []
        self._sum = 0

    def append(self, entries: Iterable[bytes]) -> None:
        """Entries at the end."""
        extend, whole = google_crc32c.extend, self._sum
        for entry in entries:
            self._file.write(entry)
            self.size += len(entry)
            whole = extend(whole, entry)
        self._sum = whole

    def cut(self, size: int, marks: Iterable[int] | None = None) -> None:
        """Forget what was appended behind `size`; `marks` are those of an earlier attempt."""
        self._file.flush()
        self._file.truncate(size)
        self._file.seek(size)
        self.size = size
        self._marks = [mark for mark in (self._marks if marks is None else sorted(marks)) if mark <= size]
        self._sum = self._sum_of(self._since, size)

    def sync(self) -> None:
        """Everything that was appended is on disk when this returns."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def up_to(self, size: int) -> tuple[int, int]:
        """Return the last mark up to `size`, and the checksum of the bytes from there."""
        if size == self.size:
            return self._since, self._sum
        self._file.flush()
        since = max((mark for mark in self._marks if mark <= size), default=0)
        return since, self._sum_of(since, size)

    def mark(self) -> None:
        """What was appended is committed."""
        if self.size > self._since:
            self._marks.append(self.size)
            self._sum = 0

    def is_as_written(self, start: int, end: int, checksum: int) -> bool:
        """Return whether the bytes from `start` to `end` are those that had the checksum."""
        return end <= self.size and self._sum_of(start, end) == checksum

    @property
    def _since(self) -> int:
        return self._marks[-1] if self._marks else 0

    def _sum_of(self, start: int, end: int) -> int:
        value, left = 0, end - start
        with open(self.path, "rb", buffering=0) as file:
            file.seek(start)
            while left and (piece := file.read(min(left, _BUFFER))):
                value, left = google_crc32c.extend(value, piece), left - len(piece)
        return value

    def frames(self, frames: Iterable[bytes]) -> Iterator[bool]:
        """Yield of each record whether its frames, which come one after another, are those that were written."""
        extend, following = google_crc32c.extend, iter(frames)
        for _, _, _, heads in self._parts(0, self.size):
            for head in heads:
                count = checksum = 0
                for value in itertools.islice(following, head[4]):
                    count, checksum = count + 1, extend(checksum, value)
                yield (count, checksum) == (head[4], head[7])

    def rows(self) -> Iterator[LogRows]:
        """What the index says of each record."""
        body = _HEAD.size
        for _, data, starts, heads in self._parts(0, self.size):
            texts = []
            for start, (meta, system, row, *_) in zip(starts, heads, strict=True):
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
            for own, at, (meta, system, *_) in zip(itertools.count(number), starts, heads):
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
                    meta, system, row, digest, *_ = head
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
