"""Writing a trajectory into a store: create, append batches of frames, flush, close; reopen and go on.

A batch is held against the whole contract before any of it is kept, so a refused one leaves the writer as it was.
Rows go to the shards as whole chunks fill; `nstep` in the section's `zarr.json`, replaced atomically and last, commits.
After a crash, or a failure of the power, the store opens at the last commit.
Source: Trajectory; Zarr V3 binding, "Commit protocol".
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.files.disk import name_in
from molrec_convert.files.locking import PathLock
from molrec_convert.model.batch import FrameBatch, batch_from_frames
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Column, Frame, references
from molrec_convert.model.rules import FrameRules, absolute_counts
from molrec_convert.stores.zarr.trajectory.arrays import Accepted, Pace, TrajectoryArrays
from molrec_convert.stores.zarr.trajectory.batch import FrameBuffer, Presented, meta_array, presented_blocks
from molrec_convert.stores.zarr.trajectory.block import BlockWriter
from molrec_convert.stores.zarr.trajectory.layout import TRAJECTORY, read_layout, unknown_attributes
from molrec_convert.stores.zarr.v3.codecs import Stage
from molrec_convert.stores.zarr.v3.commit import ASIDE, Unsynced, clean_record, make_folder, restore_settled
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage

__all__ = ["FLUSH_BYTES", "TrajectoryWriter"]

#: Frames are committed at every so many bytes of a representative frame where that is due by `Pace`.
FLUSH_BYTES = 4 * 2**20


class WriterOptions(TypedDict, total=False):
    """Options of a `TrajectoryWriter`.

    `compression` acts on columns of floating-point numbers. `system` and `frame`: row counts of the blocks of those
    sections, which the frames are checked against. About every `flush_bytes` frames are committed, where `pace` has it.
    """

    compression: Stage | None
    system: Mapping[str, int] | None
    frame: Mapping[str, int] | None
    flush_bytes: int
    pace: Pace


class TrajectoryWriter:
    """Appends frames to the trajectory of one record; a context manager.

    Made by `create` or `open`. Leaving the context closes the writer; leaving it with an exception releases it and
    commits nothing further: the store then holds what was committed before.
    """

    def __init__(
        self,
        root: Path,
        declaration: Declaration,
        lock: PathLock | None,
        *,
        cell_defined: bool,
        attributes: dict[str, dict[str, Any]],
        compression: Stage | None = None,
        system: Mapping[str, int] | None = None,
        frame: Mapping[str, int] | None = None,
        flush_bytes: int = FLUSH_BYTES,
        pace: Pace | None = None,
    ) -> None:
        self._buffer: FrameBuffer | None = None
        self._root, self._lock = root, lock
        self._unsynced = Unsynced()
        self._arrays = TrajectoryArrays(
            root,
            declaration,
            self._unsynced,
            cell_defined=cell_defined,
            attributes=unknown_attributes(attributes, declaration),
            compression=compression,
            flush_bytes=flush_bytes,
            pace=Pace() if pace is None else pace,
        )
        sections = {"system": system, "frame": frame}
        self._rules = FrameRules(
            declaration, absolute_counts({name: rows for name, rows in sections.items() if rows is not None})
        )
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
        **options: Unpack[WriterOptions],
    ) -> Self:
        """Start the trajectory of the record at `root`, which must not have one.

        `attributes`: unknown ones to keep, node path below the section → attributes.
        Raises `ContractError` for a declaration that breaks the contract, `UsageError` when there is a trajectory or
        another writer.
        """
        declaration.check()
        where = Path(root)
        unsynced = Unsynced()
        make_folder(os.fspath(where), unsynced)
        lock = PathLock(where)
        try:
            if (where / TRAJECTORY / "zarr.json").exists():
                raise UsageError(f"{where} has a trajectory already; open it to append to it")
            clean_record(where / TRAJECTORY, unsynced)
            writer = cls(where, declaration, lock, cell_defined=cell_defined, attributes=attributes or {}, **options)
            writer._unsynced.folders.update(unsynced.folders)
            writer._arrays.start()
        except BaseException:
            lock.release()
            raise
        return writer

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        *,
        settling: Mapping[str, str] | None = None,
        **options: Unpack[WriterOptions],
    ) -> Self:
        """Reopen the record at `root` to append after its last committed frame.

        Leftovers of an interrupted writer go: temporary files, uncommitted tails, torn shard indexes. Consolidated
        metadata goes too. `settling` says again which blocks settle in which block of `system`, for that is not
        stored; the other options are those of `create`. Raises `UsageError` while another writer is at work.
        """
        where = Path(root)
        lock = PathLock(where)
        try:
            writer = cls._resume(where, lock, options)
            writer._declare_settling(settling or {})
        except BaseException:
            lock.release()
            raise
        return writer

    @classmethod
    def _resume(cls, root: Path, lock: PathLock, options: WriterOptions) -> Self:
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
            **options,
        )
        writer._unsynced.folders.update(cleaned.folders)
        writer._arrays.resume(layout)
        n = layout.n_frames
        writer._last_step = int(layout.step.steps(n - 1, n)[0]) if n else None
        writer._resume_rules()
        storage.close()
        return writer

    def _resume_rules(self) -> None:
        arrays = self._arrays
        updates = {
            name: Presented(np.zeros(1, np.int64), np.array([0, block.before.count]), block.before.arrays).updates
            for name, block in arrays.blocks.items()
            if block.before is not None
        }
        self._rules.resume(arrays.n_frames, self._last_step, arrays.times.stated, updates)

    @property
    def declaration(self) -> Declaration:
        """The pinned declaration."""
        return self._arrays.declaration

    @declaration.setter
    def declaration(self, declaration: Declaration) -> None:
        self._arrays.declaration = declaration

    @property
    def n_frames(self) -> int:
        """Frames so far, committed or not."""
        return self._arrays.n_frames + (self._buffer.count if self._buffer is not None else 0)

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
        arrays = self._arrays
        steps = _checked_steps(batch)
        if batch.time is not None and len(batch.time) != len(steps):
            raise ContractError("trajectory/time", "there is one time per frame", found=str(len(batch.time)))
        for key in batch.meta:
            if key not in self.declaration.meta:
                raise ContractError(f"trajectory/meta/{key}", "the key is not declared")
        meta = {key: meta_array(key, batch, declared) for key, declared in self.declaration.meta.items()}
        presented = presented_blocks(batch, self.declaration)
        blocks = {name: block.updates for name, block in presented.items()}
        rules = self._rules.after(FrameBatch(steps, batch.time, blocks))
        cells = arrays.box.changes(batch.box, len(steps))
        updates = {name: arrays.blocks[name].updates(block) for name, block in presented.items()}
        with self._guard():
            self._rules = rules
            if len(steps):
                self._last_step = int(steps[-1])
            arrays.append(Accepted(steps, batch.time, meta, updates, cells))

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
            if buffer.full or self.n_frames % self._arrays.cadence == 0:
                self._empty_buffer()
            return
        defined = self._arrays.box.cell_defined
        if frame.box is not None and frame.box.defined != defined:
            raise ContractError(
                "trajectory/box",
                "cell_defined holds for the whole run",
                found=str(frame.box.defined),
                expected=str(defined),
            )
        self.append(batch_from_frames([frame], self.declaration, copy=False))
        if self.looks_alike(frame):
            buffer = FrameBuffer(frame, self.declaration)
            self._buffer = buffer if buffer.usable else None

    def looks_alike(self, frame: Frame) -> bool:
        """True if frames of the same blocks, row counts and dtypes as an accepted one are sure to be accepted.

        A writer whose `append` holds values against something says no, and is asked about every frame.
        """
        return True

    def _empty_buffer(self) -> None:
        """Have gathered frames stored. They passed their checks as they came."""
        if self._buffer is not None and self._buffer.count:
            with self._guard():
                self._append(self._buffer.take())

    # Committing.

    def flush(self) -> None:
        """Commit every frame so far, on the disk when this returns."""
        self._check_open()
        self._empty_buffer()
        with self._guard():
            self._arrays.flush()

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

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Yield what fails half-way leaves the writer unusable: memory and files no longer agree on the frames."""
        try:
            yield
        except BaseException as error:
            self._failed = True
            name_in(error, self._root)
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
        settling = [name for name, block in self._arrays.blocks.items() if self._settles(name, block)]
        if not settling:
            return {}
        if not all(self._arrays.blocks[name].waits for name in settling):
            self.flush()
        found: dict[str, dict[str, Column]] = {}
        for name in settling:
            target = self.declaration.blocks[name].settles or ""
            found.setdefault(target, {}).update(self._arrays.blocks[name].columns())
        if store is not None:
            store(found)
        with self._guard():
            self._arrays.remove_blocks(settling)
        self._buffer = None
        self._rules = self._rules.without(self.declaration)
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


def _checked_steps(batch: FrameBatch) -> NDArray[np.int64]:
    steps = np.asarray(batch.step)
    whole = steps.dtype.kind in "iu" and not (steps.dtype.kind == "u" and bool((steps >= 2**63).any()))
    if steps.ndim != 1 or not (whole or steps.size == 0):
        raise ContractError("trajectory/step", "step numbers are i64, one per frame", found=str(steps.dtype))
    return np.ascontiguousarray(steps, dtype=np.int64)
