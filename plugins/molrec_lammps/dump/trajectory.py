"""The trajectory of a dump: frames read from the files when they are asked for, any slice of them, any columns.

With the same atoms in every frame, `x y z vx vy vz fx fy fz ix iy iz` are in `trajectory/atoms`. Every other column
starts as an aligned block of its own, `atom_<column>` (`type`, `type_id`, `element` together in `atom_types`), which
is presented where it changes and settles in `system/atoms` when it never does; one that changes in at least half of
the first frames is in `trajectory/atoms` as well. A single frame has its identity columns in `system/atoms`. Where
atoms come and go everything is in `trajectory/atoms`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import (
    BATCH_BYTES,
    BlockDeclaration,
    BlockUpdates,
    BoxUpdates,
    ColumnDeclaration,
    Declaration,
    FrameBatch,
    MetaDeclaration,
    Trajectory,
)
from molrec_convert.model.names import IDENTITY_COLUMNS, STATE_COLUMNS
from molrec_convert.report import Report
from molrec_lammps.dump.batch import JOB_BYTES, RowReader
from molrec_lammps.dump.columns import OutColumn
from molrec_lammps.dump.rows import Rows
from molrec_lammps.dump.system import Relations, RelationUpdates

__all__ = [
    "ATOMS",
    "DumpTrajectory",
    "PerFrame",
    "Placement",
    "place_aligned",
    "place_ragged",
    "place_single",
]

ATOMS = "atoms"
_TYPES = ("type", "type_id", "element")


@dataclass(frozen=True)
class Placement:
    """Blocks of the trajectory and their columns; `system` are columns that are settled from the start."""

    blocks: dict[str, list[OutColumn]]
    rows: int
    ragged: bool = False
    system: tuple[OutColumn, ...] = ()

    def declarations(self) -> dict[str, BlockDeclaration]:
        """Return how the blocks are declared: `atoms` first, the others aligned with it."""
        return {
            name: BlockDeclaration(
                {column.name: ColumnDeclaration(column.dtype, nullable=column.nullable) for column in columns},
                aligned_with=None if name == ATOMS else ATOMS,
                rows=self.rows,
                settles=None if name == ATOMS else ATOMS,
            )
            for name, columns in self.blocks.items()
        }


def place_single(columns: Sequence[OutColumn], rows: int) -> Placement:
    """Return the places of the columns of a single frame."""
    settled = tuple(column for column in columns if column.name in IDENTITY_COLUMNS)
    state = [column for column in columns if column.name not in IDENTITY_COLUMNS]
    return Placement({ATOMS: state} if state else {}, rows, system=settled)


def place_ragged(columns: Sequence[OutColumn], rows: int, *, with_ids: bool) -> Placement:
    """Return the places of the columns of frames with other atoms each; `rows` is the largest number."""
    identity = [OutColumn("id", "u64", (), _ids)] if with_ids else []
    return Placement({ATOMS: [*identity, *columns]}, rows, ragged=True)


def place_aligned(columns: Sequence[OutColumn], rows: int, first: Rows) -> Placement:
    """Return the places of the columns of frames with the same atoms; `first` are the first frames."""
    state = [column for column in columns if column.name in STATE_COLUMNS]
    groups: dict[str, list[OutColumn]] = {}
    for column in columns:
        if column.name not in STATE_COLUMNS:
            groups.setdefault(_block_name(column.name, groups), []).append(column)
    blocks: dict[str, list[OutColumn]] = {ATOMS: state}
    comparisons = len(first.frames) - 1
    for name, members in groups.items():
        changes = int(_changed_frames(first, _reads(members), None)[1:].sum())
        if comparisons and 2 * changes >= comparisons:
            state += members
        else:
            blocks[name] = members
    return Placement(blocks, rows)


def _changed_frames(rows: Rows, names: Collection[str], before: Rows | None) -> NDArray[np.bool_]:
    """Return which frames differ, bit for bit, in some of the columns `names` from the frame before them.

    `before` is the frame before the first; without one the first counts as different. All have the same atoms.
    """
    frames = len(rows.frames)
    changed = np.zeros(frames, dtype=np.bool_)
    changed[0] = before is None
    for name in names:
        grid = _bits(rows.values[name]).reshape(frames, -1)
        changed[1:] |= (grid[1:] != grid[:-1]).any(axis=1)
        present = rows.present.get(name)
        if present is not None:
            changed[1:] |= present[1:] != present[:-1]
        if before is not None:
            last = before.present.get(name)
            changed[0] |= bool((grid[0] != _bits(before.values[name])).any())
            changed[0] |= (last is None or bool(last[0])) != (present is None or bool(present[0]))
    return changed


def _reads(columns: Iterable[OutColumn]) -> list[str]:
    return list(dict.fromkeys(name for column in columns for name in column.reads))


def _bits(values: NDArray[np.generic]) -> NDArray[np.generic]:
    return values.view(np.int64) if values.dtype == np.float64 else values


def _block_name(column: str, groups: Collection[str]) -> str:
    if column in _TYPES:
        return "atom_types"
    name = f"atom_{column}"
    return f"atom_%{ord(column[0]):02X}{column[1:]}" if name == "atom_types" else name


def _ids(rows: Rows) -> tuple[NDArray[np.uint64], None]:
    assert rows.ids is not None
    return rows.ids.view(np.uint64), None


@dataclass(frozen=True)
class PerFrame:
    """What is known of every frame without reading a row: times or None, and per-step values by key."""

    times: NDArray[np.float64] | None
    meta: dict[str, tuple[MetaDeclaration, NDArray[Any]]]


class DumpTrajectory(Trajectory):
    """Frames of dumps, read on demand. `first` are the first frames' rows where they have been read already."""

    def __init__(
        self,
        reader: RowReader,
        placement: Placement,
        per_frame: PerFrame,
        report: Report,
        relations: Relations | None = None,
        first: Rows | None = None,
    ) -> None:
        super().__init__()
        self._reader = reader
        self._placement = placement
        self._per_frame = per_frame
        self._report = report
        self._relations = relations
        self._first = first
        declared = placement.declarations()
        if relations is not None:
            declared |= relations.declarations()
        self.declaration = Declaration(declared, {key: entry for key, (entry, _) in per_frame.meta.items()})
        self.declaration.check()

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self._reader.parts[0].frames)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers of all frames."""
        return self._reader.table.step.copy()

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None when nothing states them."""
        return None if self._per_frame.times is None else self._per_frame.times.copy()

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`. Batches are of some 8 MiB at most.

        FormatError: a row is not as it should be. LayoutChanged: a frame has other atoms than the first.
        """
        declaration = self.declaration.select(columns)
        frames = np.arange(self.n_frames, dtype=np.int64)[start:stop:step]
        blocks = {
            name: [column for column in members if column.name in declaration.blocks[name].columns]
            for name, members in self._placement.blocks.items()
            if name in declaration.blocks
        }
        relations = None
        if self._relations is not None:
            stated = [name for name in self._relations.blocks if name in declaration.blocks]
            relations = RelationUpdates(self._relations, stated) if stated else None
        pass_ = _Pass(self._reader, self._per_frame, self._placement.ragged, blocks, relations)
        if not blocks and relations is None:
            yield from pass_.without_rows(frames)
            return
        wanted = frozenset(name for members in blocks.values() for column in members for name in column.reads)
        yield from map(pass_.batch, self._rows(frames, wanted, min(batch_bytes, JOB_BYTES)))
        if relations is not None:
            relations.report(self._report)

    def _rows(self, frames: NDArray[np.int64], wanted: frozenset[str], job_bytes: int) -> Iterator[Rows]:
        first, ready = self._first, None
        if (
            first is not None
            and len(first.frames) <= len(frames)
            and np.array_equal(frames[: len(first.frames)], first.frames)
        ):
            ready, self._first = first, None
            frames = frames[len(first.frames) :]
        return self._reader.read(frames, wanted, job_bytes, ready)


class _Pass:
    """One pass over the frames: makes batches of rows, and remembers what the frame before was."""

    def __init__(
        self,
        reader: RowReader,
        per_frame: PerFrame,
        ragged: bool,
        blocks: dict[str, list[OutColumn]],
        relations: RelationUpdates | None,
    ) -> None:
        self._reader = reader
        self._per_frame = per_frame
        self._ragged = ragged
        self._blocks = blocks
        self._relations = relations
        self._before: Rows | None = None
        self._box = -1
        aligned = [column for name, members in blocks.items() if name != ATOMS for column in members]
        self._watched = sorted({name for column in aligned for name in column.reads})

    def batch(self, rows: Rows) -> FrameBatch:
        """Return the batch of some frames."""
        updates = {}
        for name, columns in self._blocks.items():
            block = self._every_frame(rows, columns) if name == ATOMS else self._where_changed(rows, columns)
            if block is not None:
                updates[name] = block
        if self._relations is not None and rows.ids is not None:
            updates |= self._relations.updates(rows.ids, rows.offset)
        last = rows.take(np.array([len(rows.frames) - 1])) if not self._ragged else rows
        self._before = Rows(
            last.frames,
            last.offset,
            {name: last.values[name].copy() for name in self._watched},
            {name: mask for name, mask in last.present.items() if name in self._watched},
        )
        return self._facts(rows.frames, updates)

    def without_rows(self, frames: NDArray[np.int64]) -> Iterator[FrameBatch]:
        """Yield batches of frames of which no column is asked for."""
        for start in range(0, len(frames), 2**16):
            yield self._facts(frames[start : start + 2**16], {})

    def _every_frame(self, rows: Rows, columns: list[OutColumn]) -> BlockUpdates | None:
        frames = len(rows.frames)
        if not columns:
            # a block of no columns says how many atoms there are; it is stated once
            if self._before is not None:
                return None
            return BlockUpdates(np.zeros(1, dtype=np.int64), rows.offset[:2].copy(), {})
        return _made(np.arange(frames, dtype=np.int64), rows, columns)

    def _where_changed(self, rows: Rows, columns: list[OutColumn]) -> BlockUpdates | None:
        reads = {name for column in columns for name in column.reads}
        positions = np.flatnonzero(_changed_frames(rows, reads, self._before))
        return _made(positions, rows.take(positions), columns) if len(positions) else None

    def _facts(self, frames: NDArray[np.int64], updates: dict[str, BlockUpdates]) -> FrameBatch:
        """Return a batch with steps, times, per-step values and cells."""
        table = self._reader.table
        own = self._reader.parts[0].frames[frames]
        times = self._per_frame.times
        return FrameBatch(
            table.step[own],
            None if times is None else times[frames],
            updates,
            {key: values[frames] for key, (_, values) in self._per_frame.meta.items()},
            self._boxes(table.box[own]),
        )

    def _boxes(self, numbers: NDArray[np.int64]) -> BoxUpdates | None:
        table = self._reader.table
        before = np.concatenate([[self._box], numbers[:-1]])
        positions = np.flatnonzero(numbers != before)
        self._box = int(numbers[-1])
        if not len(positions):
            return None
        own = numbers[positions]
        return BoxUpdates(positions, table.vectors[own], table.origin[own], table.boundary[own])


def _made(positions: NDArray[np.int64], rows: Rows, columns: list[OutColumn]) -> BlockUpdates:
    """Return the updates of a block at some frames, whose rows these are."""
    values, validity = {}, {}
    for column in columns:
        made, mask = column.make(rows)
        values[column.name] = made
        if column.nullable:
            validity[column.name] = np.ones(len(made), dtype=np.bool_) if mask is None else mask
    return BlockUpdates(positions, rows.offset, values, validity)
