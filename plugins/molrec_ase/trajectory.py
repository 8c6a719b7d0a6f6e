"""Configurations as the frames of one trajectory, read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import Chunk
from molrec_ase.declaring import ATOMS, Plan, stored
from molrec_ase.source import Source
from molrec_convert.model import (
    BATCH_BYTES,
    TAGS,
    BlockUpdates,
    BoxUpdates,
    Declaration,
    FrameBatch,
    Trajectory,
)
from molrec_convert.model.dtypes import DTYPES, empty
from molrec_convert.model.trajectory import select_columns

__all__ = ["AseTrajectory", "batch_of", "frame_steps", "frame_times"]


class AseTrajectory(Trajectory):
    """The configurations of a source, in its order."""

    def __init__(self, source: Source, plan: Plan) -> None:
        super().__init__()
        self._source, self._plan = source, plan
        self.declaration = plan.declaration
        source.unwanted = frozenset(plan.system[ATOMS].columns if ATOMS in plan.system else ())
        self._steps = frame_steps(source.survey.steps)
        self._times = frame_times(source.survey.times)

    @property
    def n_frames(self) -> int:
        """Number of configurations."""
        return len(self._source)

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        stop = self.n_frames if stop is None else min(stop, self.n_frames)
        chosen = None if columns is None else self.declaration.select(columns)
        done = start
        for chunk in self._source.chunks(range(start, stop, step)):
            numbers = np.arange(done, done + step * len(chunk), step)
            done += step * len(chunk)
            batch = batch_of(chunk, self.declaration, self._steps[numbers], self._times, numbers)
            if self._source.survey.has_cell:
                batch.box = BoxUpdates(np.arange(len(chunk)), chunk.vectors, chunk.origin, chunk.boundary)
            yield batch if chosen is None else select_columns(batch, chosen)


def batch_of(
    chunk: Chunk,
    declaration: Declaration,
    steps: NDArray[np.int64],
    times: NDArray[np.float64] | None,
    numbers: NDArray[np.int64],
) -> FrameBatch:
    """The batch of a chunk, without its cells."""
    frames = len(chunk)
    blocks = {}
    declared = declaration.blocks.get(ATOMS)
    if declared is not None:
        rows = int(chunk.counts.sum())
        columns: dict[str, NDArray[Any]] = {}
        validity: dict[str, NDArray[np.bool_]] = {}
        for name, column in declared.columns.items():
            if name in chunk.columns:
                columns[name] = chunk.columns[name]
            else:
                columns[name] = empty(column.dtype, (rows, *column.trailing))
            if column.nullable:
                there = np.zeros(frames, np.bool_)
                if name in chunk.columns:
                    there = chunk.present.get(name, np.ones(frames, np.bool_))
                validity[name] = np.repeat(there, chunk.counts)
        blocks[ATOMS] = BlockUpdates(np.arange(frames, dtype=np.int64), chunk.offset, columns, validity)
    meta: dict[str, Any] = {}
    for key, entry in declaration.meta.items():
        tag = TAGS[entry.dtype]
        values = chunk.values.get(key, [None] * frames)
        filled = [stored(value, entry.dtype, entry.fill) for value in values]
        if tag.dtype is None:
            meta[key] = filled
        else:
            meta[key] = np.array(filled, DTYPES[tag.dtype].numpy).reshape(frames, *tag.trailing)
    return FrameBatch(steps, None if times is None else times[numbers], blocks, meta)


def frame_steps(stated: list[int | None]) -> NDArray[np.int64]:
    """Step numbers of frames: those stated where they ascend, and the frames are counted where none is."""
    steps = np.array([number if step is None else step for number, step in enumerate(stated)], np.int64)
    if bool((np.diff(steps) > 0).all()):
        return steps
    return np.arange(len(stated), dtype=np.int64)


def frame_times(stated: list[float | None]) -> NDArray[np.float64] | None:
    """Times of frames where all state one."""
    known = [time for time in stated if time is not None]
    return np.array(known, np.float64) if stated and len(known) == len(stated) else None
