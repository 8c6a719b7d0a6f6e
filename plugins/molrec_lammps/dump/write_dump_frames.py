"""Frames of a trajectory as rows of atoms, resolved: what a frame does not present is that of the frame before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import BlockUpdates, Box, FrameBatch, Trajectory
from molrec_lammps.dump.write_dump_columns import SourceColumn
from molrec_lammps.write.state import ATOMS

__all__ = ["AtomFrames", "atom_columns", "frames_of"]

#: Numbers of one batch; their text is two to three times as long.
_BATCH_BYTES = 2**23


@dataclass
class AtomFrames:
    """Some frames: rows of all of them end to end, `counts` int64[n] how many each has.

    `columns` and `masks` (True where a row holds a value) are those that may change; `box` has a cell for each frame,
    `vectors` f64[n,3,3], `origin` f64[n,3], `boundary` bool[n,3], None where there is none.
    """

    step: NDArray[np.int64]
    time: NDArray[np.float64] | None
    counts: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    masks: dict[str, NDArray[np.bool_]]
    vectors: NDArray[np.float64] | None
    origin: NDArray[np.float64] | None
    boundary: NDArray[np.bool_] | None

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self.step)

    def take(self, start: int, stop: int) -> AtomFrames:
        """The frames from `start` to `stop`."""
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        rows = slice(int(ends[start]), int(ends[stop]))
        frames = slice(start, stop)
        return AtomFrames(
            self.step[frames],
            None if self.time is None else self.time[frames],
            self.counts[frames],
            {name: values[rows] for name, values in self.columns.items()},
            {name: mask[rows] for name, mask in self.masks.items()},
            None if self.vectors is None else self.vectors[frames],
            None if self.origin is None else self.origin[frames],
            None if self.boundary is None else self.boundary[frames],
        )


def atom_columns(trajectory: Trajectory) -> dict[str, tuple[str, SourceColumn]]:
    """The columns of atoms that the frames hold: name → block, and what the column is."""
    found: dict[str, tuple[str, SourceColumn]] = {}
    for name, block in trajectory.declaration.blocks.items():
        if name == ATOMS or block.aligned_with in (ATOMS, f"/system/{ATOMS}"):
            for key, column in block.columns.items():
                found.setdefault(key, (name, SourceColumn(column.dtype, column.trailing, column.nullable)))
    return found


def frames_of(
    trajectory: Trajectory, wanted: Mapping[str, str], rows: int | None, box: Box | None
) -> Iterator[AtomFrames]:
    """The frames, in batches. `wanted` is column → block; `rows` is how many atoms `system` has (None: unknown).

    `box` is the cell of frames before the first that has one.
    """
    resolver = _Resolver(trajectory, wanted, rows, box)
    names = list(dict.fromkeys(f"{block}/{column}" for column, block in wanted.items()))
    counted = any(block == ATOMS for block in wanted.values()) or ATOMS not in trajectory.declaration.blocks
    columns = names if counted and names else None
    for batch in trajectory.batches(columns=columns, batch_bytes=_BATCH_BYTES):
        yield resolver.resolve(batch)


class _Resolver:
    """What the frame before was, block by block."""

    def __init__(self, trajectory: Trajectory, wanted: Mapping[str, str], rows: int | None, box: Box | None) -> None:
        self.rows = rows
        self.box = box if trajectory.cell_defined else None
        self.defined = trajectory.cell_defined
        self.columns: dict[str, list[str]] = {}
        if ATOMS in trajectory.declaration.blocks:
            self.columns[ATOMS] = []
        for column, block in wanted.items():
            self.columns.setdefault(block, []).append(column)
        self.before: dict[str, BlockUpdates] = {}

    def resolve(self, batch: FrameBatch) -> AtomFrames:
        """The frames of a batch."""
        columns: dict[str, NDArray[Any]] = {}
        masks: dict[str, NDArray[np.bool_]] = {}
        counts: NDArray[np.int64] | None = None
        for block, names in self.columns.items():
            updates = self._joined(block, batch.blocks.get(block))
            if updates is None:
                if self.rows is None:
                    raise UnsupportedError(f"trajectory/{block}: the frames do not say how many atoms they have")
                continue
            picked = np.searchsorted(updates.frames, np.arange(batch.n_frames), side="right") - 1
            if picked.min(initial=0) < 0:
                raise UnsupportedError(f"trajectory/{block}: the first frame does not present it")
            rows, own = _rows(updates, picked)
            if block == ATOMS or counts is None:
                counts = own
            for name in names:
                columns[name] = updates.columns[name][rows]
                if name in updates.validity:
                    masks[name] = updates.validity[name][rows]
        if counts is None:
            if self.rows is None:
                raise UnsupportedError("the trajectory has no atoms, and a dump is made of them")
            counts = np.full(batch.n_frames, self.rows, dtype=np.int64)
        vectors, origin, boundary = self._cells(batch)
        return AtomFrames(batch.step, batch.time, counts, columns, masks, vectors, origin, boundary)

    def _joined(self, block: str, updates: BlockUpdates | None) -> BlockUpdates | None:
        """The updates of a batch with the last one before it in front, at position -1 where the first is later."""
        before = self.before.get(block)
        if updates is None or not len(updates.frames):
            return before
        if before is not None and updates.frames[0] != 0:
            columns = {name: np.concatenate([before.columns[name], updates.columns[name]]) for name in before.columns}
            validity = {
                name: np.concatenate([before.validity[name], updates.validity[name]])
                for name in before.validity
                if name in updates.validity
            }
            offset = np.concatenate([[0], updates.offset + before.offset[-1]])
            updates = BlockUpdates(np.concatenate([[-1], updates.frames]), offset, columns, validity)
        last = updates.rows_of(len(updates.frames) - 1)
        kept = {name: updates.columns[name][last].copy() for name in self.columns[block]}
        masks = {name: updates.validity[name][last].copy() for name in kept if name in updates.validity}
        self.before[block] = BlockUpdates(np.array([-1]), np.array([0, last.stop - last.start]), kept, masks)
        return updates

    def _cells(self, batch: FrameBatch) -> tuple[Any, Any, Any]:
        if not self.defined:
            return None, None, None
        updates = batch.box
        parts = [] if self.box is None else [self.box]
        if updates is None or not len(updates.frames):
            if self.box is None:
                return None, None, None
            whole = (batch.n_frames, 1, 1)
            return (
                np.tile(self.box.vectors, whole),
                np.tile(self.box.origin, whole[:2]),
                np.tile(self.box.boundary, whole[:2]),
            )
        if not parts and updates.frames[0] != 0:
            raise UnsupportedError("trajectory/box: the first frame has no cell")
        picked = np.searchsorted(updates.frames, np.arange(batch.n_frames), side="right") - 1
        cells = []
        for name in ("vectors", "origin", "boundary"):
            values = getattr(updates, name)
            if self.box is not None:
                values = np.concatenate([values, getattr(self.box, name)[None]])
            cells.append(values[picked])
        self.box = updates.box(len(updates.frames) - 1)
        return cells[0], cells[1], cells[2]


def _rows(updates: BlockUpdates, picked: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
    """The rows of the updates that frames resolve to, and how many each frame has."""
    sizes = np.diff(updates.offset)[picked]
    start = updates.offset[picked]
    if len(picked) and bool((start[1:] == start[:-1] + sizes[:-1]).all()):
        return slice(int(start[0]), int(start[-1] + sizes[-1])), sizes
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return np.repeat(start - ends[:-1], sizes) + np.arange(ends[-1]), sizes
