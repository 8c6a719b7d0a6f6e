"""The frames of a run as records of their own: many together where each frame says all there is of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from molrec_convert.model import Block, BoxUpdates, Declaration, Frame, FrameBatch, MemoryTrajectory, Record, Trajectory
from molrec_convert.model.trajectory import TrajectoryView, take_frames

__all__ = ["FrameRun", "frame_runs", "frames_of", "split_declaration"]


@dataclass(frozen=True)
class FrameRun:
    """Consecutive frames that stand alone: each presents all blocks there are, and its cell where it has one.

    `base` is what the records of all of them say beside their frame.
    """

    base: Record
    batch: FrameBatch
    declaration: Declaration
    cell_defined: bool

    def __len__(self) -> int:
        return self.batch.n_frames

    def record(self, index: int) -> Record:
        """The record of one of them."""
        one = take_frames(self.batch, np.array([index]))
        made = MemoryTrajectory.of_batch(one, self.declaration, cell_defined=self.cell_defined)
        return dataclasses.replace(self.base, trajectory=made, _close=None)


def frame_runs(record: Record, start: int = 0) -> Iterator[FrameRun | Record]:
    """A record for each frame of a run from one on; runs of them where frames stand alone.

    A block that settles goes to the system, as its only update is that frame's.
    """
    trajectory = record.trajectory
    assert trajectory is not None
    settling = {n: b.settles for n, b in trajectory.declaration.blocks.items() if b.settles is not None}
    declaration = split_declaration(trajectory.declaration)
    system, position = record.system, start
    box: BoxUpdates | None = None
    seen: set[str] = set()
    for batch in trajectory.batches(start):
        presented = {name for name, updates in batch.blocks.items() if len(updates.frames)}
        if not _stands_alone(batch, seen | presented, settling):
            yield from _one_by_one(record, position)
            return
        settled = [name for name in settling if name in presented]
        if settled:
            first = batch.frame(0, trajectory.declaration, defined=trajectory.cell_defined)
            for name in settled:
                system = _settled(system, settling[name] or name, first.blocks[name])
        seen |= presented - settling.keys()
        cells = _every_box(batch, box)
        if cells is not None and len(cells.frames):
            # the batch's memory goes back to whoever made it
            box = BoxUpdates(
                cells.frames[-1:], cells.vectors[-1:].copy(), cells.origin[-1:].copy(), cells.boundary[-1:].copy()
            )
        blocks = {name: updates for name, updates in batch.blocks.items() if name in seen}
        base = dataclasses.replace(record, system=system, frame=None, trajectory=None, _close=None)
        alone = dataclasses.replace(batch, blocks=blocks, box=cells)
        yield FrameRun(base, alone, declaration, trajectory.cell_defined)
        position += batch.n_frames


def frames_of(record: Record, start: int = 0) -> Iterator[Record]:
    """A record for each frame of a run from one on."""
    for found in frame_runs(record, start):
        if isinstance(found, Record):
            yield found
        else:
            yield from map(found.record, range(len(found)))


def split_declaration(declaration: Declaration) -> Declaration:
    """What single frames of a trajectory declare."""
    blocks = {name: block for name, block in declaration.blocks.items() if block.settles is None}
    blocks = {
        name: block if block.aligned_with in (None, *blocks) else dataclasses.replace(block, aligned_with=None)
        for name, block in blocks.items()
    }
    return dataclasses.replace(declaration, blocks=blocks)


def _stands_alone(batch: FrameBatch, names: set[str], settling: Mapping[str, str | None]) -> bool:
    """Whether every frame presents all blocks of these names; those that settle at the first frame only, or not."""
    for name in names:
        updates = batch.blocks.get(name)
        frames = [] if updates is None else updates.frames.tolist()
        if name in settling:
            if frames not in ([], [0]):
                return False
        elif len(frames) != batch.n_frames:
            return False
    return True


def _every_box(batch: FrameBatch, before: BoxUpdates | None) -> BoxUpdates | None:
    """The cell of each frame, carried forward, from the one `before` the batch on."""
    given = batch.box
    if given is None or not len(given.frames):
        last = before
    elif before is None:
        last = given
    else:
        last = BoxUpdates(
            np.concatenate([[-1], given.frames]),
            np.concatenate([before.vectors, given.vectors]),
            np.concatenate([before.origin, given.origin]),
            np.concatenate([before.boundary, given.boundary]),
        )
    if last is None:
        return None
    if last is before:
        which = np.zeros(batch.n_frames, np.int64)
    else:
        which = np.searchsorted(last.frames, np.arange(batch.n_frames), side="right") - 1
    there = np.flatnonzero(which >= 0)
    which = which[there]
    return BoxUpdates(there, last.vectors[which], last.origin[which], last.boundary[which])


def _one_by_one(record: Record, start: int) -> Iterator[Record]:
    """The records of frames of which some are only told by those before."""
    whole = record.trajectory
    assert whole is not None
    settling = {n: b.settles for n, b in whole.declaration.blocks.items() if b.settles is not None}
    declaration = split_declaration(whole.declaration)
    rest: Trajectory = TrajectoryView(whole, start) if start else whole
    for frame in rest:
        system = record.system
        for name, target in settling.items():
            if name in frame.blocks:
                system = _settled(system, target or name, frame.blocks[name])
        blocks = {name: block for name, block in frame.blocks.items() if name not in settling}
        alone = dataclasses.replace(frame, blocks=blocks)
        one = MemoryTrajectory([alone], declaration, cell_defined=whole.cell_defined)
        yield dataclasses.replace(record, system=system, frame=None, trajectory=one, _close=None)


def _settled(system: Frame | None, name: str, block: Block) -> Frame:
    system = Frame() if system is None else system
    known = system.blocks.get(name)
    columns = {**({} if known is None else known.columns), **block.columns}
    targets = {**({} if known is None else known.targets), **block.targets}
    joined = Block(columns, count=block.count, targets=targets)
    return dataclasses.replace(system, blocks={**system.blocks, name: joined})
