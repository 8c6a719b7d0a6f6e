"""Where frames are put while a collection is made: in one file, or in the files of a set, so many records each.

LMDB wants keys in order, and frames come first: what follows them in a file is put when all records are known.
"""

from __future__ import annotations

import itertools
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molrec_convert.disk import sync_tree, take_place
from molrec_convert.migration.journal import Commit
from molrec_convert.migration.record_log import RecordLog
from molrec_convert.migration.state import State
from molrec_convert.model.collection_index import first_frames
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block, Column
from molrec_convert.stores.lmdb.checksums import GrowingSums
from molrec_convert.stores.lmdb.closing import collection_meta, last_values
from molrec_convert.stores.lmdb.keys import FRAME, RECORD, SYSTEM, numbered
from molrec_convert.stores.lmdb.manifest import Part, file_checksum, part_name, save_manifest
from molrec_convert.stores.lmdb.runs import Runs, append_runs
from molrec_convert.stores.lmdb.store import StoreFile
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = ["FrameFiles", "OneFile", "SeveralFiles", "frame_files"]


class FrameFiles(ABC):
    """Frames by their ordinals in the whole; what was put is on disk when a call returns."""

    @abstractmethod
    def holds(self, at: Commit) -> bool:
        """Whether what was committed is there."""

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


def frame_files(state: State, shard_records: int | None, at: Commit, log: RecordLog) -> FrameFiles:
    """The files of an attempt that goes on from a commit; without one they are new."""
    if shard_records is None:
        return OneFile(state, at)
    return SeveralFiles(state, shard_records, at, log)


class OneFile(FrameFiles):
    """All frames in one file."""

    def __init__(self, state: State, at: Commit) -> None:
        self._file = StoreFile(state.target, overwrite=True, resume=at.records > 0, durable=True)

    def holds(self, at: Commit) -> bool:
        """See `FrameFiles.holds`."""
        return not at.frames or self._file.has(numbered(FRAME, at.frames - 1))

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
        #: Frames before each file that is begun.
        self._starts = [frames for _, frames in log.starts(most)]
        if len(self._starts) * most <= at.records:
            self._starts.append(at.frames)
        self._file: StoreFile | None = None
        #: Of files that were closed here: the checksums of what they hold.
        self._sums: dict[int, GrowingSums] = {}

    def holds(self, at: Commit) -> bool:
        """See `FrameFiles.holds`."""
        ends = [*self._starts[1:], at.frames]
        for number, (start, end) in enumerate(zip(self._starts, ends, strict=True)):
            if end > start:
                if not self._path(number).exists():
                    return False
                file = self._opened(number)
                there = file.has(numbered(FRAME, end - start - 1))
                file.suspend()
                if not there:
                    return False
        return True

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
        sync_tree(self._folder)
        take_place(self._folder, self._target)

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
            file.put(last_values(file, meta, rows, None))
            file.complete()
        except BaseException:
            file.suspend()
            raise

    def _current(self) -> StoreFile:
        if self._file is None:
            self._file = self._opened(len(self._starts) - 1)
        return self._file

    def _opened(self, number: int) -> StoreFile:
        sums = self._sums.pop(number, None)
        return StoreFile(self._path(number), overwrite=True, in_place=True, resume=True, durable=True, sums=sums)

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
