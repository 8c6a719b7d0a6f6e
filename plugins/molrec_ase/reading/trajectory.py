"""Configurations as the frames of one trajectory, read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import Chunk
from molrec_ase.names import IDENTITY
from molrec_ase.reading.source import Source
from molrec_ase.reading.survey import ATOMS, Plan, stored
from molrec_ase.values import tag_of
from molrec_convert.model import (
    BATCH_BYTES,
    TAGS,
    BlockUpdates,
    BoxUpdates,
    Coded,
    Declaration,
    FrameBatch,
    RecordColumns,
    Trajectory,
)
from molrec_convert.model.dtypes import DTYPES, empty
from molrec_convert.model.trajectory import select_columns
from molrec_convert.quantities.elements import SYMBOLS

__all__ = ["AseTrajectory", "batch_of", "frame_steps", "frame_times", "record_columns"]


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
    """Return the batch of a chunk, without its cells."""
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
    """Return times of frames where all state one."""
    known = [time for time in stated if time is not None]
    return np.array(known, np.float64) if stated and len(known) == len(stated) else None


#: Types of values whose tag is that of all values of the type.
_TAGS = {str: "string", float: "f64", bool: "bool", dict: "json", list: "json"}


def record_columns(chunk: Chunk, declaration: Declaration, kinds: Mapping[str, str]) -> RecordColumns | None:
    """Return the records of a chunk; None where they are not alike. `kinds`: the dtypes of the columns of the index."""
    size = len(chunk)
    if not size or any(chunk.metas):
        return None
    if any(time is None for time in chunk.times) != (chunk.times[0] is None):
        return None
    names = [name for name in IDENTITY if name in chunk.columns]
    if any(name in chunk.present for name in names):
        return None
    times = None if chunk.times[0] is None else np.array(chunk.times, np.float64)
    steps = np.array([0 if step is None else step for step in chunk.steps], np.int64)
    frames = batch_of(chunk, declaration, steps, times, np.arange(size))
    cells = chunk.boundary.any(1) | chunk.vectors.view(np.uint64).any((1, 2)) | chunk.origin.any(1)
    if cells.any():
        where = np.flatnonzero(cells)
        frames.box = BoxUpdates(where, chunk.vectors[where], chunk.origin[where], chunk.boundary[where])
    identity: dict[str, NDArray[Any] | Coded] = {}
    if chunk.numbers is not None:
        identity["element"] = Coded(chunk.numbers, SYMBOLS)
    identity |= {name: chunk.columns[name] for name in names}
    said = {
        key: (chunk.values[key], _tags(chunk.values[key]))
        for key in sorted(chunk.values.keys() - declaration.meta.keys())
    }
    own = {name: _own(said.get(name), dtype, size) for name, dtype in kinds.items()}
    return RecordColumns(declaration, chunk.counts, frames, identity, said, own)


def _tags(values: list[Any]) -> list[str]:
    types = set(map(type, values))
    if len(types) == 1:
        (kind,) = types
        if kind is int:
            tag = "i64" if min(values) >= -(2**63) and max(values) < 2**63 else None
        else:
            tag = _TAGS.get(kind)
        if tag is not None:
            return [tag] * len(values)
    return ["" if value is None else tag_of(value) for value in values]


def _own(said: tuple[list[Any], list[str]] | None, dtype: str, size: int) -> list[Any]:
    """Return the values of an index column."""
    if said is None:
        return [None] * size
    return [float(value) if dtype == "f64" and type(value) is int else value for value in said[0]]
