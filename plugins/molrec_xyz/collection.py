"""The frames of a file as a collection: one record each, all under one declaration.

What says what an atom is goes to the system of each record, the rest to its trajectory of one frame.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import (
    BATCH_BYTES,
    Block,
    BlockUpdates,
    BoxUpdates,
    Coded,
    Column,
    Declaration,
    ForceField,
    Frame,
    FrameBatch,
    MemoryTrajectory,
    Record,
    RecordBatch,
    RecordColumns,
)
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.declaration import collection_document
from molrec_convert.model.collection.index import single_frame_columns
from molrec_convert.model.collection.member import collection_units
from molrec_convert.text.contents import Contents
from molrec_xyz.reader import Batch
from molrec_xyz.trajectory import ATOMS, Place, Source, check_labels, column_values, declare_blocks, is_state

__all__ = ["XyzCollection", "one_record"]

#: The ordinal of the only frame; nobody writes to it.
_FIRST = np.zeros(1, np.int64)
_FIRST.setflags(write=False)


class XyzCollection(Collection):
    """One record for each frame of a file."""

    random_access = True

    def __init__(self, source: Source, declaration: Declaration, system: Frame, contents: Contents) -> None:
        self._source, self._system, self._contents = source, system, contents
        self.path = str(contents.path)
        self.declaration = _declared(source, declaration)
        self.document = collection_document({"units": collection_units(system.meta.get("units"))})
        counts = source.reader.table.count
        self._index = Block(single_frame_columns(counts), count=len(counts))

    @property
    def index(self) -> Block:
        """See `Collection.index`."""
        return self._index

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return len(self)

    @property
    def forcefield(self) -> ForceField | None:
        """Files of this kind have none."""
        return None

    def __len__(self) -> int:
        return len(self._source.reader.table)

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return next(_records(self._source, self.declaration, self._system, np.array([index], np.int64)))

    def __iter__(self) -> Iterator[Record]:
        return _records(self._source, self.declaration, self._system, np.arange(len(self), dtype=np.int64))

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`."""
        return ((record, {}) for record in self)

    def span(self, start: int, stop: int | None = None) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.span`; read in batches."""
        numbers = np.arange(len(self), dtype=np.int64)[start:stop]
        return ((record, {}) for record in _records(self._source, self.declaration, self._system, numbers))

    def record_batches(self, start: int = 0, stop: int | None = None) -> Iterator[RecordBatch]:
        """See `Collection.record_batches`; those of a batch of frames each."""
        numbers = np.arange(len(self), dtype=np.int64)[start:stop]
        for frames, columns in _record_columns(self._source, self.declaration, self._system, numbers):
            yield RecordBatch(len(frames), functools.partial(self._members, frames), columns)

    def _members(self, frames: NDArray[np.int64], start: int) -> Iterator[tuple[Record, dict[str, Any]]]:
        return ((record, {}) for record in _records(self._source, self.declaration, self._system, frames[start:]))

    def close(self) -> None:
        """Let go of the file."""
        self._contents.close()


def one_record(source: Source, declaration: Declaration, system: Frame) -> Record:
    """Return the record of a file of one frame."""
    return next(_records(source, _declared(source, declaration), system, np.zeros(1, np.int64)))


def _declared(source: Source, declaration: Declaration) -> Declaration:
    state = [place for place in source.places if is_state(place)]
    blocks = declare_blocks(state, int(source.reader.table.count.max()), settling=False)
    declared = replace(declaration, blocks={name: entry for name, (entry, _) in blocks.items()} if state else {})
    declared.check()
    return declared


class _Plan:
    """What is the same for all records of a file: which places are of the system, and which of the trajectory."""

    def __init__(self, source: Source) -> None:
        self.identity = [place for place in source.places if not is_state(place)]
        self.state = [place for place in source.places if is_state(place)]
        self.nullable = [place for place in self.state if place.nullable]


def _wanted(source: Source) -> frozenset[str]:
    """Return the columns that are read."""
    wanted = {name for place in source.places for name in (place.source, place.divided_by) if name is not None}
    return frozenset(wanted or {column.name for layout in source.reader.layouts for column in layout.columns[:1]})


def _records(source: Source, declaration: Declaration, system: Frame, frames: NDArray[np.int64]) -> Iterator[Record]:
    """Yield the records of some frames, read in batches."""
    every, plan = source.places, _Plan(source)
    for batch in source.reader.read(frames, _wanted(source), BATCH_BYTES):
        values = {place.name: column_values(source, batch, place, slice(None)) for place in every}
        ends = batch.offset.tolist()
        for position, frame in enumerate(batch.frames.tolist()):
            rows = slice(ends[position], ends[position + 1])
            trajectory = MemoryTrajectory.of_batch(
                _state(source, plan, batch, values, position, rows, frame), declaration
            )
            columns = {
                place.name: Column(values[place.name][rows])
                for place in plan.identity
                if _is_there(batch, place, position)
            }
            blocks = {ATOMS: Block(columns, count=rows.stop - rows.start)} if columns else {}
            what = Frame(blocks, system.meta) if blocks or system.meta else None
            yield Record(system=what, trajectory=trajectory)


def _record_columns(
    source: Source, declaration: Declaration, system: Frame, frames: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], RecordColumns | None]]:
    """Yield the records of some frames, a batch at a time; None of one whose records are not alike."""
    plan = _Plan(source)
    for batch in source.reader.read(frames, _wanted(source), BATCH_BYTES):
        there = [batch.present.get(place.source) for place in plan.identity]
        if any(present is not None and not present.all() for present in there):
            yield batch.frames, None
            continue
        size = len(batch.frames)
        blocks = {}
        if plan.state:
            columns = {place.name: column_values(source, batch, place, slice(None)) for place in plan.state}
            counts = np.diff(batch.offset)
            validity = {
                place.name: np.repeat(batch.present.get(place.source, np.ones(size, np.bool_)), counts)
                for place in plan.nullable
            }
            blocks[ATOMS] = BlockUpdates(np.arange(size, dtype=np.int64), batch.offset, columns, validity)
        identity = {place.name: _identity(source, batch, place) for place in plan.identity}
        said = {key: ([system.meta[key]] * size, [system.meta.tag(key)] * size) for key in system.meta}
        state = _frames(source, batch.frames, blocks)
        yield batch.frames, RecordColumns(declaration, np.diff(batch.offset), state, identity, said)


def _identity(source: Source, batch: Batch, place: Place) -> NDArray[Any] | Coded:
    """Return a column of the system: labels of elements as codes."""
    if place.name == "element" and place.source == "species" and not place.trailing and place.divided_by is None:
        check_labels(source, batch, place)
        return Coded(batch.fields[place.source, place.part], tuple(source.reader.words))
    return column_values(source, batch, place, slice(None))


def _frames(source: Source, frames: NDArray[np.int64], blocks: dict[str, BlockUpdates]) -> FrameBatch:
    """Return the frames of as many records."""
    per_frame = source.per_frame
    cells = per_frame.cell_of[frames]
    where = np.flatnonzero(cells >= 0)
    box = None
    if len(where):
        some = cells[where]
        box = BoxUpdates(where, per_frame.vectors[some], per_frame.origin[some], per_frame.boundary[some])
    picked = frames.tolist()
    return FrameBatch(
        per_frame.steps[frames] if per_frame.numbered else np.zeros(len(frames), np.int64),
        None if per_frame.times is None else per_frame.times[frames],
        blocks,
        {
            key: entry[frames] if isinstance(entry, np.ndarray) else [entry[frame] for frame in picked]
            for key, (_, entry) in per_frame.meta.items()
        },
        box,
    )


def _state(
    source: Source,
    plan: _Plan,
    batch: Batch,
    values: dict[str, NDArray[Any]],
    position: int,
    rows: slice,
    frame: int,
) -> FrameBatch:
    """Return the one frame of a record."""
    per_frame = source.per_frame
    blocks = {}
    if plan.state:
        count = rows.stop - rows.start
        blocks[ATOMS] = BlockUpdates(
            _FIRST,
            np.array((0, count), np.int64),
            {place.name: values[place.name][rows] for place in plan.state},
            {place.name: np.full(count, _is_there(batch, place, position)) for place in plan.nullable},
        )
    cell = per_frame.cell_of.item(frame)
    box = None
    if cell >= 0:
        one = slice(cell, cell + 1)
        box = BoxUpdates(_FIRST, per_frame.vectors[one], per_frame.origin[one], per_frame.boundary[one])
    own = slice(frame, frame + 1)
    return FrameBatch(
        per_frame.steps[own] if per_frame.numbered else _FIRST,
        None if per_frame.times is None else per_frame.times[own],
        blocks,
        {key: entry[own] for key, (_, entry) in per_frame.meta.items()},
        box,
    )


def _is_there(batch: Batch, place: Place, position: int) -> bool:
    present = batch.present.get(place.source)
    return present is None or bool(present[position])
