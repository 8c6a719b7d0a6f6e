"""A trajectory with the blocks of local and grid dumps: presented at the frames whose steps these dumps have.

The frames are those of the dump of atoms, or, without one, those of the dumps themselves. A block is carried forward
over frames of which its dump has nothing, as in any trajectory. References to atoms are restated where the atoms
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import (
    BATCH_BYTES,
    BlockUpdates,
    BoxUpdates,
    Declaration,
    FrameBatch,
    Trajectory,
)
from molrec_convert.report import Report
from molrec_lammps.dump.grid import GridBlock
from molrec_lammps.dump.local import LocalBlock
from molrec_lammps.dump.side import SideDump

__all__ = ["BareTrajectory", "SidedTrajectory"]

_BATCH_BYTES = 2**23
_ATOMS, _ID = "atoms", "id"

Integers = NDArray[np.int64]
Side = LocalBlock | GridBlock


class BareTrajectory(Trajectory):
    """The frames of dumps without atoms: steps, times and cells, no block."""

    def __init__(self, dumps: Sequence[SideDump]) -> None:
        super().__init__()
        by_step = {frame.step: frame for dump in reversed(dumps) for frame in dump.frames}
        self._frames = [by_step[step] for step in sorted(by_step)]
        size = dict.fromkeys(by_step, 0)
        for frame in (frame for dump in dumps for frame in dump.frames):
            size[frame.step] += frame.count * len(frame.columns) * 8
        self._bytes = np.array([size[frame.step] for frame in self._frames], dtype=np.int64)
        self.declaration = Declaration()

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self._frames)

    @property
    def steps(self) -> Integers:
        """Step numbers of all frames."""
        return np.array([frame.step for frame in self._frames], dtype=np.int64)

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None where some frame states none."""
        times = [frame.time for frame in self._frames]
        return None if any(time is None for time in times) else np.array(times, dtype=np.float64)

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        self.declaration.select(columns)
        ordinals = np.arange(self.n_frames, dtype=np.int64)[start:stop:step]
        size = self._bytes[ordinals]
        group = (np.cumsum(size) - size) // max(1, min(batch_bytes, _BATCH_BYTES))
        times = self.times
        before = None
        for own in np.split(ordinals, np.flatnonzero(np.diff(group)) + 1) if len(ordinals) else []:
            boxes = []
            for position, ordinal in enumerate(own.tolist()):
                box = self._frames[ordinal].box
                if before is None or (box is not before and box != before):
                    boxes.append((position, box))
                before = box
            updates = None
            if boxes:
                updates = BoxUpdates(
                    np.array([position for position, _ in boxes], dtype=np.int64),
                    np.stack([box.vectors for _, box in boxes]),
                    np.stack([box.origin for _, box in boxes]),
                    np.stack([box.boundary for _, box in boxes]),
                )
            yield FrameBatch(self.steps[own], None if times is None else times[own], {}, {}, updates)


class SidedTrajectory(Trajectory):
    """The frames of `main` with the blocks `sides`; `ids` are those of its atoms, None where they change."""

    def __init__(self, main: Trajectory, sides: Sequence[Side], ids: Integers | None, report: Report) -> None:
        super().__init__()
        self._main, self._sides, self._ids, self._report = main, list(sides), ids, report
        self.cell_defined = main.cell_defined
        blocks = {**main.declaration.blocks, **{side.name: side.declaration() for side in sides}}
        self.declaration = replace(main.declaration, blocks=blocks)
        self.declaration.check()
        steps = main.steps
        self._resolved = {side.name: _resolved(side.dump.steps, steps) for side in sides}

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self._main)

    @property
    def steps(self) -> Integers:
        """Step numbers of all frames."""
        return self._main.steps

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None when nothing states them."""
        return self._main.times

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        declaration = self.declaration.select(columns)
        sides = [side for side in self._sides if side.name in declaration.blocks]
        wanted = None
        borrowed = False
        if columns is not None:
            blocks = {n: b for n, b in declaration.blocks.items() if n in self._main.declaration.blocks}
            wanted = [f"{name}/{key}" for name, block in blocks.items() for key in block.columns]
            borrowed = self._ids is None and any(side.references for side in sides) and f"{_ATOMS}/{_ID}" not in wanted
            wanted += [f"{_ATOMS}/{_ID}"] * borrowed
        ordinals = np.arange(self.n_frames, dtype=np.int64)[start:stop:step]
        pass_ = _Pass(sides, self._resolved, declaration, self._ids)
        done = 0
        for batch in self._main.batches(start, stop, step, wanted, batch_bytes):
            yield pass_.batch(batch, ordinals[done : done + batch.n_frames], borrowed)
            done += batch.n_frames
        for side in sides:
            side.report(self._report)


class _Pass:
    """One pass over the frames: which state of each side was presented last, and the ids it was stated for."""

    def __init__(
        self, sides: Sequence[Side], resolved: dict[str, Integers], declaration: Declaration, ids: Integers | None
    ) -> None:
        self._sides, self._resolved, self._declaration, self._ids = sides, resolved, declaration, ids
        self._shown = {side.name: -1 for side in sides}
        self._atoms: Integers | None = None
        self._state = 0
        self._own = dict.fromkeys((side.name for side in sides), 0)

    def batch(self, batch: FrameBatch, ordinals: Integers, borrowed: bool) -> FrameBatch:
        """The batch with what the sides present in it."""
        ids, state = self._states(batch)
        blocks = dict(batch.blocks)
        for side in self._sides:
            updates = self._updates(side, ordinals, ids, state)
            if updates is not None:
                blocks[side.name] = updates
        if borrowed and _ATOMS in blocks:
            kept = self._declaration.blocks.get(_ATOMS)
            atoms = blocks.pop(_ATOMS)
            if kept is not None:
                blocks[_ATOMS] = replace(atoms, columns={k: v for k, v in atoms.columns.items() if k != _ID})
        return replace(batch, blocks=blocks)

    def _states(self, batch: FrameBatch) -> tuple[list[Integers | None], Integers]:
        """The ids of the atoms at each frame, and a number that tells their states apart."""
        if self._ids is not None or not any(side.references for side in self._sides):
            return [self._ids] * batch.n_frames, np.zeros(batch.n_frames, dtype=np.int64)
        updates = batch.blocks.get(_ATOMS)
        found: dict[int, Integers] = {}
        if updates is not None and _ID in updates.columns:
            for number, position in enumerate(updates.frames.tolist()):
                found[position] = updates.columns[_ID][updates.rows_of(number)].view(np.int64)
        states = np.zeros(batch.n_frames, dtype=np.int64)
        ids: list[Integers | None] = []
        for position in range(batch.n_frames):
            own = found.get(position)
            if own is not None and (self._atoms is None or not np.array_equal(own, self._atoms)):
                self._atoms = own.copy()
                self._state += 1
            states[position] = self._state
            ids.append(self._atoms)
        return ids, states

    def _updates(
        self, side: Side, ordinals: Integers, ids: Sequence[Integers | None], states: Integers
    ) -> BlockUpdates | None:
        own = self._resolved[side.name][ordinals]
        shown, state = self._shown[side.name], self._own[side.name]
        before = np.concatenate([[shown], own[:-1]])
        changed = own != before
        if side.references:
            changed |= np.diff(states, prepend=state) != 0
        positions = np.flatnonzero(changed & (own >= 0))
        if len(own):
            self._shown[side.name], self._own[side.name] = int(own[-1]), int(states[-1])
        if not len(positions):
            return None
        counts, columns = side.rows(own[positions].tolist(), [ids[p] for p in positions.tolist()])
        declared = self._declaration.blocks[side.name].columns
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        kept: dict[str, Any] = {name: columns[name] for name in declared}
        return BlockUpdates(positions, offset, kept)


def _resolved(own: Integers, steps: Integers) -> Integers:
    """For every step the frame of a dump at the last of its steps that is among `steps` up to there, -1: none yet."""
    places = np.minimum(np.searchsorted(own, steps), len(own) - 1)
    frames = np.where(own[places] == steps, places, -1)
    return np.maximum.accumulate(frames).astype(np.int64)
