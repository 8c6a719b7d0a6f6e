"""Where frames are put while a collection is made: in one file, or in the files of a set, so many records each.

LMDB wants keys in order, and frames come first: what follows them in a file is put when all records are known.
"""

from __future__ import annotations

import itertools
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from molrec_convert.errors import FormatError
from molrec_convert.files import disk
from molrec_convert.migration.journal import Commit, Journal, Point
from molrec_convert.migration.outputs.record_log import RecordLog
from molrec_convert.migration.state import State
from molrec_convert.model.collection.index import first_frames
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block, Column
from molrec_convert.stores.lmdb.file.footer import GrowingSums, collection_meta, last_values
from molrec_convert.stores.lmdb.file.keys import FRAME, RECORD, SYSTEM, numbered
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.file.store import Runs, StoreFile, append_runs
from molrec_convert.stores.lmdb.manifest import Part, file_checksum, part_name, save_manifest
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = ["FrameFiles", "OneFile", "SeveralFiles", "files_to_go_on"]


class FrameFiles(ABC):
    """Frames by their ordinals in the whole; what was put is on disk when a call returns."""

    @abstractmethod
    def frames(self, at: Commit) -> Iterator[bytes]:
        """The frames an earlier attempt committed, as far as they are there."""

    @abstractmethod
    def append(self, first: int, values: list[bytes]) -> None:
        """The frames from an ordinal on, all of records of one file."""

    @abstractmethod
    def cut(self, records: int, frames: int) -> None:
        """Remove everything behind so many records and frames."""

    @abstractmethod
    def is_full(self, records: int) -> bool:
        """Whether the record after so many begins another file."""

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
    """The files of an attempt that goes on from the last commit of which everything is as it was written.

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
    """The last part of the log as of each commit; a commit may cut the log back, and begins within parts before it."""
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
    """The first frames of a file, as many as follow each other in it."""
    with closing(file.items()) as items:
        for number, (key, value) in zip(range(count), items, strict=False):
            if key != numbered(FRAME, number):
                return
            yield value


def frame_files(state: State, shard_records: int | None, at: Commit, log: RecordLog) -> FrameFiles:
    """The files of an attempt that goes on from a commit; without one they are new."""
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
    """Some rows of an index as one of their own."""
    span = slice(start, min(stop, index.count))
    columns: dict[str, Column] = {}
    for name, column in index.columns.items():
        mask = None if column.validity is None else column.validity[span]
        columns[name] = Column(column.values[span], None if mask is None or mask.all() else mask, column.precision)
    columns["first_frame"] = Column(first_frames(columns["n_frames"].values))
    return Block(columns, count=span.stop - span.start)
