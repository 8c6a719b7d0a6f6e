"""The files a migration writes: frames in one LMDB file or the files of a set, everything else of a record in a log.

LMDB wants keys in order, and those of frames come first; so meta, system, counts and index values wait in the log,
which grows by whole entries and is cut back to the last commit when a migration is resumed.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c

from molrec_convert.errors import FormatError
from molrec_convert.files import disk
from molrec_convert.migration.state import Commit, Journal, Point, State
from molrec_convert.model.collection.index import first_frames
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block, Column
from molrec_convert.stores.lmdb.file.footer import GrowingSums, collection_meta, last_values
from molrec_convert.stores.lmdb.file.keys import FRAME, RECORD, SYSTEM, numbered
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.file.store import Runs, StoreFile, append_runs
from molrec_convert.stores.lmdb.manifest import Part, file_checksum, part_name, save_manifest
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = ["FrameFiles", "LogRows", "OneFile", "RecordLog", "SeveralFiles", "files_to_go_on", "frames_sum", "log_entry"]

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


def record_hash(system: bytes | None) -> hashlib.blake2b:
    """Return the hash of a record's content so far: its system, which that of its frames follows."""
    return hashlib.blake2b(system or b"", digest_size=16)


def record_digest(system: bytes | None, frames: Iterable[bytes]) -> bytes:
    """Return the digest of a record's content: its system and its frames as they are stored."""
    digest = record_hash(system)
    for value in frames:
        digest.update(value)
    return digest.digest()


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
    """Return an entry as it stands in the file; `checksum` is that of the frames."""
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
        """Yield what the index says of each record."""
        body = _HEAD.size
        for _, data, starts, heads in self._parts(0, self.size):
            texts = []
            for start, (meta, system, row, *_) in zip(starts, heads, strict=True):
                at = start + body + meta + (system if system > 0 else 0)
                texts.append(data[at : at + row])
            yield LogRows(texts, [head[4] for head in heads], [head[5] for head in heads], [head[6] for head in heads])

    def metas(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Sequence[int], list[bytes]]]:
        """Yield the metas of the entries from byte `start` up to `stop`, and the numbers of their records from
        there.
        """
        body = _HEAD.size
        number = 0
        for _, data, starts, heads in self._parts(start, self.size if stop is None else stop):
            ends = zip(starts, heads, strict=True)
            yield range(number, number + len(heads)), [data[at + body : at + body + head[0]] for at, head in ends]
            number += len(heads)

    def systems(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Sequence[int], list[bytes]]]:
        """Yield the systems there are of those entries, and the numbers of their records from there."""
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
        """Yield the digest of each record."""
        for _, data, starts, heads in self._parts(0, self.size):
            ends = [start + _size(head) for start, head in zip(starts, heads, strict=True)]
            yield [data[end - head[3] : end] for end, head in zip(ends, heads, strict=True)]

    def starts(self, every: int) -> list[tuple[int, int]]:
        """Return where the entries of record 0, `every`, 2 `every`, ... begin: the byte, and the frames before it."""
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
        """Yield bytes of whole entries: where they stand in the file, where each of them begins there, and its head."""
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


class FrameFiles(ABC):
    """Frames by their ordinals in the whole; what was put is on disk when a call returns."""

    @abstractmethod
    def frames(self, at: Commit) -> Iterator[bytes]:
        """Return the frames an earlier attempt committed, as far as they are there."""

    @abstractmethod
    def append(self, first: int, values: list[bytes]) -> None:
        """The frames from an ordinal on, all of records of one file."""

    @abstractmethod
    def cut(self, records: int, frames: int) -> None:
        """Remove everything behind so many records and frames."""

    @abstractmethod
    def is_full(self, records: int) -> bool:
        """True if the record after so many begins another file."""

    @abstractmethod
    def begin_file(self, frames: int) -> None:
        """What comes next goes to another file."""

    @abstractmethod
    def complete(self, declaration: Declaration, document: dict[str, Any], index: Block, log: RecordLog) -> None:
        """Put what follows the frames, and give the collection its name."""

    @abstractmethod
    def suspend(self) -> None:
        """Let go of the files; they stay for an attempt that goes on."""


def files_to_go_on(state: State, shard_records: int | None, journal: Journal, log: RecordLog) -> FrameFiles:
    """Return the files of an attempt that goes on from the last commit of which everything is as it was written.

    Journal, log and files are cut back to that commit.
    """
    _go_back(journal, log)
    at = journal.last
    files = frame_files(state, shard_records, at, log)
    try:
        if at.records:
            standing = sum(1 for _ in itertools.takewhile(bool, log.frames(files.frames(at))))
            if standing < at.records:
                _go_back(journal, log, standing)
                files.suspend()
                files = frame_files(state, shard_records, journal.last, log)
        files.cut(journal.last.records, journal.last.frames)
    except BaseException:
        files.suspend()
        raise
    return files


class _Span(NamedTuple):
    """A part of the log that a commit added, and those before it."""

    start: int
    end: int
    sum: int
    before: _Span | None


def _go_back(journal: Journal, log: RecordLog, records: int | None = None) -> None:
    """Forget what follows the last commit whose part of the log stands, of no more records than `records`."""
    known: dict[tuple[int, int, int], bool] = {}
    spans = list(_spans(journal.points))
    for point, span in zip(reversed(journal.points), reversed(spans), strict=True):
        marks, stands = [], records is None or point.records <= records
        while stands and span is not None:
            key = span[:3]
            if key not in known:
                known[key] = log.is_as_written(*key)
            marks.append(span.end)
            stands, span = known[key], span.before
        if stands:
            journal.go_back(point)
            log.cut(point.log, marks)
            return
    journal.go_back(None)
    log.cut(0, ())


def _spans(points: list[Point]) -> Iterator[_Span | None]:
    """Yield the last part of the log as of each commit; a commit may cut the log back, and begins within parts before
    it.
    """
    span: _Span | None = None
    for point in points:
        while span is not None and span.end > point.since:
            span = span.before
        if point.log > point.since:
            span = _Span(point.since, point.log, point.sum, span)
        yield span


def is_sound(path: Path) -> bool:
    """Return whether a file is there and LMDB may go on with it."""
    try:
        with PageFile(path) as pages:
            pages.check_writable()
    except (FormatError, FileNotFoundError):
        return False
    return True


def _frames(file: StoreFile, count: int) -> Iterator[bytes]:
    """Yield the first frames of a file, as many as follow each other in it."""
    with closing(file.items()) as items:
        for number, (key, value) in zip(range(count), items, strict=False):
            if key != numbered(FRAME, number):
                return
            yield value


def frame_files(state: State, shard_records: int | None, at: Commit, log: RecordLog) -> FrameFiles:
    """Return the files of an attempt that goes on from a commit; without one they are new."""
    if shard_records is None:
        return OneFile(state, at)
    return SeveralFiles(state, shard_records, at, log)


class OneFile(FrameFiles):
    """All frames in one file."""

    def __init__(self, state: State, at: Commit) -> None:
        resume = at.records > 0 and is_sound(state.partial)
        self._file = StoreFile(state.target, overwrite=True, resume=resume, durable=True, locked=True)

    def frames(self, at: Commit) -> Iterator[bytes]:
        """See `FrameFiles.frames`."""
        return _frames(self._file, at.frames)

    def append(self, first: int, values: list[bytes]) -> None:
        """See `FrameFiles.append`."""
        self._file.append([(numbered(FRAME, number), value) for number, value in enumerate(values, first)])

    def cut(self, records: int, frames: int) -> None:
        """See `FrameFiles.cut`."""
        self._file.remove_from(numbered(FRAME, frames))

    def is_full(self, records: int) -> bool:
        """See `FrameFiles.is_full`."""
        return False

    def begin_file(self, frames: int) -> None:
        """See `FrameFiles.begin_file`."""
        raise RuntimeError("there is one file")

    def complete(self, declaration: Declaration, document: dict[str, Any], index: Block, log: RecordLog) -> None:
        """See `FrameFiles.complete`."""
        writer = CollectionWriter.finishing(
            self._file,
            declaration=declaration,
            document=document,
            index=index,
            n_frames=int(index["n_frames"].sum()),
            metas=log.metas(),
            systems=log.systems(),
            keep=True,
        )
        writer.close()

    def suspend(self) -> None:
        """See `FrameFiles.suspend`."""
        self._file.suspend()


class SeveralFiles(FrameFiles):
    """So many records' frames in each file of a directory."""

    def __init__(self, state: State, most: int, at: Commit, log: RecordLog) -> None:
        self._target, self._folder, self._most = state.target, state.partial, most
        if not at.records and self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir(exist_ok=True)
        for left in self._folder.glob(".*"):
            # of an attempt that was killed as it wrote the manifest
            disk.remove(left)
        #: Frames before each file that is begun.
        self._starts = [frames for _, frames in log.starts(most)]
        if len(self._starts) * most <= at.records:
            self._starts.append(at.frames)
        self._file: StoreFile | None = None
        #: Of files that were closed here: the checksums of what they hold.
        self._sums: dict[int, GrowingSums] = {}

    def frames(self, at: Commit) -> Iterator[bytes]:
        """See `FrameFiles.frames`."""
        for number, (start, end) in enumerate(zip(self._starts, [*self._starts[1:], at.frames], strict=True)):
            if not is_sound(self._path(number)):
                # nothing in it is trusted, and nobody opens it
                disk.remove(self._path(number))
                return
            file = self._opened(number)
            try:
                yield from _frames(file, end - start)
            finally:
                file.suspend()

    def append(self, first: int, values: list[bytes]) -> None:
        """See `FrameFiles.append`."""
        start = self._starts[-1]
        items = [(numbered(FRAME, number - start), value) for number, value in enumerate(values, first)]
        if items:
            self._current().append(items)

    def cut(self, records: int, frames: int) -> None:
        """See `FrameFiles.cut`."""
        last = records // self._most
        if last + 1 < len(self._starts):
            self.suspend()
            del self._starts[last + 1 :]
        self._sums = {number: sums for number, sums in self._sums.items() if number <= last}
        for path in self._folder.glob("part-*"):
            if path.name > part_name(last):
                path.unlink()
        if self._path(last).exists():
            self._current().remove_from(numbered(FRAME, frames - self._starts[last]))

    def is_full(self, records: int) -> bool:
        """See `FrameFiles.is_full`."""
        return not records % self._most

    def begin_file(self, frames: int) -> None:
        """See `FrameFiles.begin_file`."""
        self.suspend()
        self._starts.append(frames)

    def complete(self, declaration: Declaration, document: dict[str, Any], index: Block, log: RecordLog) -> None:
        """See `FrameFiles.complete`; may be done again after a kill."""
        self.suspend()
        spans = itertools.pairwise([*(at for at, _ in log.starts(self._most)), log.size])
        parts = []
        for number, (start, stop) in enumerate(spans):
            rows = _rows(index, number * self._most, (number + 1) * self._most)
            meta = collection_meta(document, declaration, rows, {})
            self._complete_part(number, log.metas(start, stop), log.systems(start, stop), rows, meta)
            path = self._path(number)
            counts = rows.count, int(rows["n_frames"].sum())
            parts.append(Part(path.name, *counts, path.stat().st_size, file_checksum(path)))
        for path in self._folder.glob("part-*"):
            if path.name > part_name(len(parts) - 1):
                path.unlink()
        save_manifest(self._folder, parts)
        disk.sync_tree(self._folder)
        disk.take_place(self._folder, self._target)

    def suspend(self) -> None:
        """See `FrameFiles.suspend`."""
        if self._file is not None:
            self._file.suspend()
            self._sums[len(self._starts) - 1] = self._file.sums
            self._file = None

    def _complete_part(self, number: int, metas: Runs, systems: Runs, rows: Block, meta: Mapping[str, Any]) -> None:
        file = self._opened(number)
        try:
            file.remove_from(numbered(FRAME, int(rows["n_frames"].sum())))
            append_runs(file, (RECORD, metas), (SYSTEM, systems))
            file.put(last_values(file.checksums(meta["n_records"], meta["n_frames"]), meta, rows, None))
            file.complete()
        except BaseException:
            file.suspend()
            raise

    def _current(self) -> StoreFile:
        if self._file is None:
            self._file = self._opened(len(self._starts) - 1)
        return self._file

    def _opened(self, number: int) -> StoreFile:
        new, sums = not self._path(number).exists(), self._sums.pop(number, None)
        file = StoreFile(self._path(number), overwrite=True, in_place=True, resume=True, durable=True, sums=sums)
        if new:
            disk.sync(self._folder)
        return file

    def _path(self, number: int) -> Path:
        return self._folder / part_name(number)


def _rows(index: Block, start: int, stop: int) -> Block:
    """Return some rows of an index as one of their own."""
    span = slice(start, min(stop, index.count))
    columns: dict[str, Column] = {}
    for name, column in index.columns.items():
        mask = None if column.validity is None else column.validity[span]
        columns[name] = Column(column.values[span], None if mask is None or mask.all() else mask, column.precision)
    columns["first_frame"] = Column(first_frames(columns["n_frames"].values))
    return Block(columns, count=span.stop - span.start)
