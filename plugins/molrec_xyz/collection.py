"""The frames of a file as a collection: one record each, all under one declaration.

What says what an atom is goes to the system of each record, the rest to its trajectory of one frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.contents import Contents
from molrec_convert.model import (
    BATCH_BYTES,
    Block,
    BlockUpdates,
    BoxUpdates,
    Column,
    Declaration,
    ForceField,
    Frame,
    FrameBatch,
    Record,
    Trajectory,
)
from molrec_convert.model.collection import Collection
from molrec_convert.model.collection_declaration import collection_document
from molrec_convert.model.collection_record import collection_units
from molrec_convert.model.trajectory import select_columns
from molrec_xyz.places import Place, is_state
from molrec_xyz.reader import Batch
from molrec_xyz.trajectory import ATOMS, Source, column_values, declare_blocks

__all__ = ["XyzCollection", "one_record"]


class XyzCollection(Collection):
    """One record for each frame of a file."""

    def __init__(self, source: Source, declaration: Declaration, system: Frame, contents: Contents) -> None:
        self._source, self._system, self._contents = source, system, contents
        self.path = str(contents.path)
        self.declaration = _declared(source, declaration)
        self.document = collection_document({"units": collection_units(system.meta.get("units"))})
        counts = source.reader.table.count
        frames = len(counts)
        self._index = Block(
            {
                "first_frame": Column(np.arange(frames, dtype=np.uint64)),
                "n_frames": Column(np.ones(frames, np.uint64)),
                "n_atoms": Column(counts.astype(np.uint64)),
                "has_trajectory": Column(np.ones(frames, np.bool_)),
            },
            count=frames,
        )

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

    def close(self) -> None:
        """Let go of the file."""
        self._contents.close()


def one_record(source: Source, declaration: Declaration, system: Frame) -> Record:
    """The record of a file of one frame."""
    return next(_records(source, _declared(source, declaration), system, np.zeros(1, np.int64)))


def _declared(source: Source, declaration: Declaration) -> Declaration:
    state = [place for place in source.places if is_state(place)]
    blocks = declare_blocks(state, int(source.reader.table.count.max()), settling=False)
    declared = replace(declaration, blocks={name: entry for name, (entry, _) in blocks.items()} if state else {})
    declared.check()
    return declared


class _OneFrame(Trajectory):
    """A trajectory of one frame, in memory."""

    def __init__(self, declaration: Declaration, batch: FrameBatch) -> None:
        super().__init__()
        self.declaration, self._batch = declaration, batch

    @property
    def n_frames(self) -> int:
        """One."""
        return 1

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        if start == 0 and (stop is None or stop > 0):
            whole = columns is None
            yield self._batch if whole else select_columns(self._batch, self.declaration.select(columns))


def _records(source: Source, declaration: Declaration, system: Frame, frames: NDArray[np.int64]) -> Iterator[Record]:
    """The records of some frames, read in batches."""
    every = source.places
    wanted = frozenset(name for place in every for name in (place.source, place.divided_by) if name is not None)
    if not wanted:
        wanted = frozenset({column.name for layout in source.reader.layouts for column in layout.columns[:1]})
    for batch in source.reader.read(frames, wanted, BATCH_BYTES):
        values = {place.name: column_values(source, batch, place, slice(None)) for place in every}
        for position in range(len(batch.frames)):
            yield _record(source, declaration, system, batch, values, position)


def _record(
    source: Source,
    declaration: Declaration,
    system: Frame,
    batch: Batch,
    values: dict[str, NDArray[Any]],
    position: int,
) -> Record:
    rows = slice(int(batch.offset[position]), int(batch.offset[position + 1]))
    count, frame = rows.stop - rows.start, int(batch.frames[position])
    there = {place.name: _is_there(batch, place, position) for place in source.places}
    identity = {
        place.name: Column(values[place.name][rows])
        for place in source.places
        if not is_state(place) and there[place.name]
    }
    state = [place for place in source.places if is_state(place)]
    per_frame = source.per_frame
    blocks = {}
    if state:
        blocks[ATOMS] = BlockUpdates(
            np.zeros(1, np.int64),
            np.array([0, count], np.int64),
            {place.name: values[place.name][rows] for place in state},
            {place.name: np.full(count, there[place.name]) for place in state if place.nullable},
        )
    cell = int(per_frame.cell_of[frame])
    box = None
    if cell >= 0:
        one = slice(cell, cell + 1)
        box = BoxUpdates(np.zeros(1, np.int64), per_frame.vectors[one], per_frame.origin[one], per_frame.boundary[one])
    own = slice(frame, frame + 1)
    batch_ = FrameBatch(
        per_frame.steps[own] if per_frame.numbered else np.zeros(1, np.int64),
        None if per_frame.times is None else per_frame.times[own],
        blocks,
        {key: entry[own] for key, (_, entry) in per_frame.meta.items()},
        box,
    )
    what = Frame({ATOMS: Block(identity, count=count)} if identity else {}, system.meta)
    return Record(system=what if what.blocks or what.meta else None, trajectory=_OneFrame(declaration, batch_))


def _is_there(batch: Batch, place: Place, position: int) -> bool:
    present = batch.present.get(place.source)
    return present is None or bool(present[position])
