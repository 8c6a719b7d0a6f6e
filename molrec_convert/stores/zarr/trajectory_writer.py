"""Writing a trajectory into a store: create, append batches of frames, flush, close; reopen and go on.

A batch is held against the whole contract before any of it is kept, so a refused one leaves the writer as it was.
Rows go to the shards as whole chunks fill; `nstep` in the section's `zarr.json`, replaced atomically and last, commits.
After a crash the store opens at the last commit. Source: Trajectory; Zarr V3 binding, "Commit protocol".
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.batch import BoxUpdates, FrameBatch, batch_from_frames
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Column, Frame, references
from molrec_convert.stores.zarr.array_reader import ArrayReader
from molrec_convert.stores.zarr.codecs import Stage
from molrec_convert.stores.zarr.metadata import NumberedDocument, group_document
from molrec_convert.stores.zarr.shard_appender import ShardAppender
from molrec_convert.stores.zarr.storage import DirectoryStorage, replace_file, write_document
from molrec_convert.stores.zarr.trajectory_batch import Presented, mask_key, meta_array, presented_blocks
from molrec_convert.stores.zarr.trajectory_block import BlockWriter
from molrec_convert.stores.zarr.trajectory_buffer import FrameBuffer
from molrec_convert.stores.zarr.trajectory_commit import (
    ASIDE,
    RecordLock,
    clean_record,
    remove_group,
    restore_settled,
    set_aside,
)
from molrec_convert.stores.zarr.trajectory_layout import TRAJECTORY, Series, read_layout
from molrec_convert.stores.zarr.trajectory_rules import FrameRules, check_frame_relations
from molrec_convert.stores.zarr.trajectory_series import BoxSeries, StepSeries, TimeSeries, meta_series
from molrec_convert.stores.zarr.unsynced import Unsynced, make_folder

__all__ = ["FLUSH_BYTES", "TrajectoryWriter"]

#: Frames are committed, not durably, about every this many bytes of a representative frame.
FLUSH_BYTES = 4 * 2**20
_MOST_FRAMES = 4096


class TrajectoryWriter:
    """Appends frames to the trajectory of one record; a context manager.

    Made by `create` or `open`. Leaving the context closes the writer; leaving it with an exception releases it and
    commits nothing further: the store then holds what was committed before.
    """

    def __init__(
        self,
        root: Path,
        declaration: Declaration,
        lock: RecordLock | None,
        *,
        cell_defined: bool,
        attributes: dict[str, dict[str, Any]],
        compression: Stage | None,
        system: Mapping[str, int] | None,
        frame: Mapping[str, int] | None,
        flush_bytes: int,
    ) -> None:
        self.declaration = declaration
        self._stored_frames = 0
        self._buffer: FrameBuffer | None = None
        self._root, self._lock = root, lock
        self._attributes = copy.deepcopy(attributes)
        self._flush_bytes = flush_bytes
        self._unsynced = Unsynced()
        self._steps = StepSeries(root, self._unsynced, self._attributes.get("step"))
        self._times = TimeSeries(root, self._unsynced, self._attributes.get("time"))
        self._box = BoxSeries(root, self._unsynced, cell_defined=cell_defined, attributes=self._attributes)
        self._meta: dict[str, ShardAppender] = {}
        self._blocks = {
            name: BlockWriter(
                root, name, declared, self._unsynced, attributes=self._attributes, compression=compression
            )
            for name, declared in declaration.blocks.items()
        }
        sections = {"system": system, "frame": frame}
        self._rules = FrameRules(declaration, {name: rows for name, rows in sections.items() if rows is not None})
        self._known_cadence: tuple[tuple[int | None, ...], int] | None = None
        self._committed: dict[str, Any] | None = None
        self._text = NumberedDocument()
        self._failed = False
        self._last_step: int | None = None
        self._system_rows = dict(system or {})

    @classmethod
    def create(
        cls,
        root: str | os.PathLike[str],
        declaration: Declaration,
        *,
        cell_defined: bool = True,
        attributes: dict[str, dict[str, Any]] | None = None,
        compression: Stage | None = None,
        system: Mapping[str, int] | None = None,
        frame: Mapping[str, int] | None = None,
        flush_bytes: int = FLUSH_BYTES,
    ) -> Self:
        """Start the trajectory of the record at `root`, which must not have one.

        `attributes`: unknown ones to keep, node path below the section → attributes. `compression` acts on columns of
        floating-point numbers. `system` and `frame`: row counts of the blocks of those sections, which the frames are
        held against.
        Raises `ContractError` for a declaration that breaks the contract, `UsageError` when there is a trajectory or
        another writer.
        """
        declaration.check()
        where = Path(root)
        unsynced = Unsynced()
        make_folder(os.fspath(where), unsynced)
        lock = RecordLock(where)
        try:
            if (where / TRAJECTORY / "zarr.json").exists():
                raise UsageError(f"{where} has a trajectory already; open it to append to it")
            writer = cls(
                where,
                declaration,
                lock,
                cell_defined=cell_defined,
                attributes=attributes or {},
                compression=compression,
                system=system,
                frame=frame,
                flush_bytes=flush_bytes,
            )
            writer._unsynced.folders.update(unsynced.folders)
            make_folder(os.fspath(where / TRAJECTORY), writer._unsynced)
            writer._commit()
        except BaseException:
            lock.release()
            raise
        return writer

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        *,
        system: Mapping[str, int] | None = None,
        frame: Mapping[str, int] | None = None,
        settling: Mapping[str, str] | None = None,
        compression: Stage | None = None,
        flush_bytes: int = FLUSH_BYTES,
    ) -> Self:
        """Reopen the record at `root` to append after its last committed frame.

        Leftovers of an interrupted writer go: temporary files, uncommitted tails, torn shard indexes. Consolidated
        metadata goes too. `settling` says again which blocks settle in which block of `system`, for that is not
        stored; the other options are those of `create`. Raises `UsageError` while another writer is at work.
        """
        where = Path(root)
        lock = RecordLock(where)
        try:
            writer = cls._resume(where, lock, system, frame, compression, flush_bytes)
            writer._declare_settling(settling or {})
        except BaseException:
            lock.release()
            raise
        return writer

    @classmethod
    def _resume(
        cls,
        root: Path,
        lock: RecordLock,
        system: Mapping[str, int] | None,
        frame: Mapping[str, int] | None,
        compression: Stage | None,
        flush_bytes: int,
    ) -> Self:
        cleaned = Unsynced()
        clean_record(root, cleaned)
        storage = DirectoryStorage(root)
        if (root / TRAJECTORY / ASIDE).is_dir():
            restore_settled(root / TRAJECTORY, set(read_layout(storage).declaration.blocks), cleaned)
        layout = read_layout(storage)
        writer = cls(
            root,
            layout.declaration,
            lock,
            cell_defined=layout.box.defined,
            attributes=layout.attributes,
            compression=compression,
            system=system,
            frame=frame,
            flush_bytes=flush_bytes,
        )
        writer._unsynced.files.update(cleaned.files)
        writer._unsynced.folders.update(cleaned.folders)
        writer._stored_frames = layout.n_frames
        for path in layout.stray:
            remove_group(root / TRAJECTORY / path, writer._unsynced)
        step, time = layout.step, layout.time or Series()
        writer._steps.resume(step.start, step.stride, step.array, layout.n_frames)
        writer._times.resume(time.start, time.stride, time.array, layout.n_frames)
        writer._box.resume(layout.box)
        for key, reader in layout.meta.items():
            writer._meta[key] = ShardAppender.reopen(reader, layout.n_frames, writer._unsynced)
        for name, block in layout.blocks.items():
            if block.index is not None and not block.n_updates:
                for half in ("step_index", "offset"):
                    remove_group(root / TRAJECTORY / name / half, writer._unsynced)
            writer._blocks[name].resume(block)
        writer._last_step = writer._steps.last
        writer._rules.resume(writer._blocks)
        writer._committed = layout.document
        storage.close()
        return writer

    @property
    def n_frames(self) -> int:
        """Frames so far, committed or not."""
        return self._stored_frames + (self._buffer.count if self._buffer is not None else 0)

    # Appending.

    def append(self, batch: FrameBatch) -> None:
        """Add the frames of a batch. Refused as a whole, with nothing kept, where it breaks the contract.

        Raises `ContractError` (the node, what was found and expected), `UsageError` on a closed writer.
        """
        self._check_open()
        self._empty_buffer()
        self._buffer = None
        self._append(batch)

    def _append(self, batch: FrameBatch) -> None:
        steps = np.ascontiguousarray(batch.step, dtype=np.int64)
        if len(steps) != batch.n_frames or steps.ndim != 1:
            raise ContractError("trajectory/step", "there is one step number per frame")
        self._steps.check(steps)
        self._times.check(batch.time, len(steps))
        for key in batch.meta:
            if key not in self.declaration.meta:
                raise ContractError(f"trajectory/meta/{key}", "the key is not declared")
        meta = {key: meta_array(key, batch, declared) for key, declared in self.declaration.meta.items()}
        presented = presented_blocks(batch, self.declaration)
        rules = self._rules.check(presented, self._stored_frames)
        cells = self._box.changes(batch.box, len(steps))
        updates = {name: self._blocks[name].updates(block) for name, block in presented.items()}
        with self._guard():
            self._rules = rules
            if len(steps):
                self._last_step = int(steps[-1])
            self._store(steps, batch.time, meta, updates, cells)

    def append_frame(self, frame: Frame) -> None:
        """Add one frame; without a step number it takes the next one. Refused like a batch."""
        self._check_open()
        last = self._last_step
        if frame.step is None:
            frame = replace(frame, step=0 if last is None else last + 1)
        buffer = self._buffer
        if buffer is not None and last is not None and buffer.takes(frame, last):
            buffer.add(frame)
            self._last_step = frame.step
            if buffer.full or self.n_frames % self._cadence() == 0:
                self._empty_buffer()
            return
        check_frame_relations(frame, self.declaration, cell_defined=self._box.cell_defined)
        self.append(batch_from_frames([frame], self.declaration, copy=False))
        buffer = FrameBuffer(frame, self.declaration)
        self._buffer = buffer if buffer.usable else None

    def _empty_buffer(self) -> None:
        """Have gathered frames stored. They passed their checks as they came."""
        if self._buffer is not None and self._buffer.count:
            with self._guard():
                self._append(self._buffer.take())

    def _store(
        self,
        steps: NDArray[np.int64],
        times: NDArray[np.float64] | None,
        meta: dict[str, NDArray[Any]],
        updates: dict[str, Presented],
        cells: BoxUpdates | None,
    ) -> None:
        """Keep what passed all checks; at the last multiple of the cadence that is passed, commit."""
        total = self._stored_frames + len(steps)
        cadence = self._cadence()
        boundary = total // cadence * cadence - self._stored_frames
        if not 0 < boundary < len(steps):
            self._keep(steps, times, meta, updates, cells)
            if boundary == len(steps) and len(steps):
                self._flush(durable=False)
            return
        split = {name: block.split(boundary) for name, block in updates.items()}
        before, after = _split_box(cells, boundary)
        self._keep(
            steps[:boundary],
            None if times is None else times[:boundary],
            {key: values[:boundary] for key, values in meta.items()},
            {name: parts[0] for name, parts in split.items()},
            before,
        )
        self._flush(durable=False)
        self._keep(
            steps[boundary:],
            None if times is None else times[boundary:],
            {key: values[boundary:] for key, values in meta.items()},
            {name: parts[1].shifted(-boundary) for name, parts in split.items()},
            after,
        )

    def _keep(
        self,
        steps: NDArray[np.int64],
        times: NDArray[np.float64] | None,
        meta: dict[str, NDArray[Any]],
        updates: dict[str, Presented],
        cells: BoxUpdates | None,
    ) -> None:
        for name, block in updates.items():
            self._blocks[name].append(block, self._stored_frames)
        self._steps.append(steps)
        self._times.append(times, len(steps))
        for key, values in meta.items():
            if key not in self._meta:
                extra = self._attributes.get(f"meta/{key}", {})
                self._meta[key] = meta_series(self._root, key, self.declaration.meta[key], self._unsynced, extra)
            self._meta[key].append(values)
        self._box.append(cells, self._stored_frames)
        self._stored_frames += len(steps)
        for writer in self._blocks.values():
            writer.drain()
        for array in [*self._meta.values(), *self._dense()]:
            array.drain()

    def _dense(self) -> list[ShardAppender]:
        return [array for array in (self._steps.array, self._times.array) if array is not None]

    def _cadence(self) -> int:
        """Frames between automatic commits: whole chunks of the largest block wherever that fits."""
        blocks = list(self._blocks.values())
        known = tuple(block.frame_rows for block in blocks)
        if self._known_cadence is None or self._known_cadence[0] != known:
            self._known_cadence = known, self._work_out_cadence(blocks)
        return self._known_cadence[1]

    def _work_out_cadence(self, blocks: list[BlockWriter]) -> int:
        frame_bytes = sum(block.frame_bytes for block in blocks)
        frames = min(_MOST_FRAMES, max(1, -(-self._flush_bytes // max(1, frame_bytes))))
        each = max(blocks, key=lambda block: block.frame_bytes).frames_per_chunk if blocks else 1
        if each > _MOST_FRAMES:
            return _MOST_FRAMES
        rounded = -(-frames // each) * each
        return rounded if rounded <= _MOST_FRAMES else _MOST_FRAMES // each * each

    # Committing.

    def flush(self) -> None:
        """Commit every frame so far, on the disk when this returns."""
        self._check_open()
        self._empty_buffer()
        with self._guard():
            self._flush(durable=True)

    def close(self) -> None:
        """Flush and let others write. Safe to call twice; after a failed write it only lets go."""
        if self._lock is None:
            return
        try:
            if not self._failed:
                self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go without committing anything further."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def _flush(self, *, durable: bool) -> None:
        for block in self._blocks.values():
            block.flush()
        for array in [*self._meta.values(), *self._dense()]:
            array.flush()
        self._box.flush()
        if self._meta and not (self._root / TRAJECTORY / "meta" / "zarr.json").exists():
            folder = self._root / TRAJECTORY / "meta"
            write_document(folder, group_document(self._attributes.get("meta", {})))
            self._unsynced.file(os.fspath(folder / "zarr.json"))
        if durable:
            self._unsynced.sync()
        self._commit(durable=durable)

    def _commit(self, *, durable: bool = False) -> None:
        """Replace the section's `zarr.json`: from here on the frames are there."""
        attributes: dict[str, Any] = {"sequence_schema": self.declaration.to_json()}
        for series in (self._steps, self._times):
            if series.progression is not None:
                attributes[series.attribute] = series.progression
        attributes["nstep"] = self._stored_frames
        document = group_document({**attributes, **self._attributes.get("", {})})
        if document == self._committed:
            return
        path = os.path.join(self._root, TRAJECTORY, "zarr.json")
        replace_file(path, self._text.dump(document, ("attributes", "nstep"), self._stored_frames), durable=durable)
        if not durable:
            self._unsynced.file(path)
        self._committed = document

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """What fails half-way leaves the writer unusable: memory and files no longer agree on the frames."""
        try:
            yield
        except BaseException:
            self._failed = True
            raise

    def _check_open(self) -> None:
        if self._lock is None:
            raise UsageError("the trajectory writer is closed")
        if self._failed:
            raise UsageError("an earlier write failed; reopen the trajectory to go on from its last committed frame")

    # Settling.

    def settle(
        self, store: Callable[[dict[str, dict[str, Column]]], None] | None = None
    ) -> dict[str, dict[str, Column]]:
        """At completion: take out every block that `settles` and turned out to have one update, at frame 0.

        Returns their columns by block of `system`. `store` is called with the same before anything is removed: what it
        writes to `system` must be on the disk when it returns, so that no interruption loses a column; a run that is
        interrupted in between settles again. A block that others align with or refer to stays, as does one whose rows
        are not the system block's.
        """
        self._check_open()
        self._empty_buffer()
        settling = [name for name, block in self._blocks.items() if self._settles(name, block)]
        if not settling:
            return {}
        self.flush()
        found: dict[str, dict[str, Column]] = {}
        storage = DirectoryStorage(self._root)
        for name in settling:
            target = self.declaration.blocks[name].settles or ""
            found.setdefault(target, {}).update(_columns(storage, self._blocks[name]))
        storage.close()
        if store is not None:
            store(found)
        with self._guard():
            self._remove_blocks(settling)
        return found

    def _declare_settling(self, settling: Mapping[str, str]) -> None:
        blocks = {
            name: replace(block, settles=settling.get(name, block.settles))
            for name, block in self.declaration.blocks.items()
        }
        self.declaration = replace(self.declaration, blocks=blocks)

    def _settles(self, name: str, block: BlockWriter) -> bool:
        declared = self.declaration.blocks[name]
        if declared.settles is None or block.n_updates != 1 or block.last_frame != 0 or not declared.columns:
            return False
        others = {other: b for other, b in self.declaration.blocks.items() if other != name}
        needed = any(
            name == b.aligned_with or name in references(b.columns, b.targets).values() for b in others.values()
        )
        rows = self._system_rows.get(declared.settles, block.rows)
        return not needed and rows == block.rows

    def _remove_blocks(self, names: list[str]) -> None:
        section = self._root / TRAJECTORY
        for name in names:
            aside = set_aside(section, name, self._unsynced)
            del self._blocks[name]
        blocks = {name: block for name, block in self.declaration.blocks.items() if name not in names}
        self.declaration = replace(self.declaration, blocks=blocks)
        self._buffer = None
        self._rules = self._rules.without(self.declaration)
        self._unsynced.sync()
        self._commit(durable=True)
        remove_group(aside, self._unsynced)


def _columns(storage: DirectoryStorage, block: BlockWriter) -> dict[str, Column]:
    """The columns of a block's only update."""
    columns = {}
    for key, declared in block.declared.columns.items():
        values = ArrayReader(storage, f"{block.node}/{key}").read(0, block.rows)
        mask = None
        if declared.nullable:
            mask = ArrayReader(storage, f"{block.node}/{mask_key(key)}").read(0, block.rows)
        columns[key] = Column(values, mask, declared.precision)
    return columns


def _split_box(cells: BoxUpdates | None, position: int) -> tuple[BoxUpdates | None, BoxUpdates | None]:
    if cells is None:
        return None, None
    at = int(np.searchsorted(cells.frames, position))
    before = BoxUpdates(cells.frames[:at], cells.vectors[:at], cells.origin[:at], cells.boundary[:at])
    after = BoxUpdates(cells.frames[at:] - position, cells.vectors[at:], cells.origin[at:], cells.boundary[at:])
    return before, after
