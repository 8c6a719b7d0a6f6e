"""A stored trajectory, read: single frames at once, scans in batches of whole chunks.

Nothing but metadata is read before a frame is asked for. A frame costs a binary search and a read for each column; a
batch reads each column's rows in one piece and decodes them side by side. Rules between blocks (aligned, references)
are held against what is decoded. Source: Trajectory; Layout by example, "How a reader resolves frame i".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.frame import Block, Box, Column, Frame
from molrec_convert.model.tags import Meta
from molrec_convert.model.trajectory import BATCH_BYTES, Trajectory
from molrec_convert.stores.zarr.trajectory.batch import mask_key
from molrec_convert.stores.zarr.trajectory.layout import read_layout
from molrec_convert.stores.zarr.trajectory.relations import (
    Highest,
    Resolved,
    check_aligned,
    check_reference,
    highest,
    related,
)
from molrec_convert.stores.zarr.trajectory.scan import BatchScan, json_value
from molrec_convert.stores.zarr.trajectory.stored import StoredBlock
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader, read_together
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["StoredTrajectory"]

#: Rows of references looked at together.
_PIECE = 2**21


class StoredTrajectory(Trajectory):
    """The trajectory of a store. Raises `ContractError`, with the node's path, for what breaks the contract.

    `attributes` holds what this version does not know, by node below the section. `groups` and `arrays` are the paths
    it does know, the rest being unknown content; `warnings` is what a reader noticed and need not stop at.
    `sections`: row counts of blocks of other sections, for references into them (`{"system": {"atoms": 4}}`).
    """

    def __init__(self, storage: Storage, *, sections: dict[str, dict[str, int]] | None = None) -> None:
        super().__init__()
        self.warnings: list[str] = []
        self.layout = layout = read_layout(storage, self.warnings)
        self.declaration = layout.declaration
        self.cell_defined = layout.box.defined
        self.attributes = layout.attributes
        self.sections = sections or {}
        self._blocks = layout.blocks
        self._json = {key for key, entry in self.declaration.meta.items() if entry.dtype == "json"}
        self._references = related(self.declaration)
        self._plans: dict[str, list[tuple[str, ArrayReader, ArrayReader | None, float | None]]] = {}
        self._aligned_checked = False

    @property
    def n_frames(self) -> int:
        """Number of committed frames."""
        return self.layout.n_frames

    @property
    def groups(self) -> set[str]:
        """Paths below the section of every group this version knows ("" is the section itself)."""
        return self.layout.groups

    @property
    def arrays(self) -> set[str]:
        """Paths below the section of every array this version knows."""
        return self.layout.arrays

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers of all frames."""
        return self.layout.step.steps(0, self.n_frames)

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None when the run states none."""
        return None if self.layout.time is None else self.layout.time.times(0, self.n_frames)

    def resolve(self, block: str, index: int) -> tuple[int, int, int] | None:
        """Which update of a declared block frame `index` resolves to, and its rows: `(update, start, stop)`.

        None where the block is absent.
        """
        self._check_index(index)
        return self._blocks[block].resolve(index)

    def resolve_box(self, index: int) -> int | None:
        """Which change of the cell frame `index` resolves to, None before the first."""
        self._check_index(index)
        return self.layout.box.resolve(index)

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.n_frames:
            raise IndexError(f"frame {index} of a trajectory of {self.n_frames}")

    # One frame.

    def frame(self, index: int) -> Frame:
        """The resolved frame at a non-negative ordinal."""
        self._check_index(index)
        self._check_aligned()
        resolved = {name: block.resolve(index) for name, block in self._blocks.items()}
        blocks = {name: self._block(name, rows) for name, rows in resolved.items() if rows is not None}
        if self._references:
            self._check_frame_references(index, blocks)
        meta = Meta()
        for key, reader in self.layout.meta.items():
            value = reader.read(index, index + 1)[0]
            value = json_value(value, key) if key in self._json else value
            entry = self.declaration.meta[key]
            if not entry.is_missing(value):
                meta.put(key, value, entry.dtype)
        layout = self.layout
        return Frame(
            blocks,
            meta,
            self.box(index),
            layout.step.step_at(index),
            None if layout.time is None else layout.time.time_at(index),
        )

    def box(self, index: int) -> Box | None:
        """The cell at a frame, None where there is none yet."""
        update = self.layout.box.resolve(index)
        return None if update is None else self.layout.box.box(update)

    def _block(self, name: str, rows: tuple[int, int, int]) -> Block:
        _, start, stop = rows
        plan = self._plans.get(name)
        if plan is None:
            plan = self._plans[name] = self._plan(name)
        columns = {
            key: _column(reader.read(start, stop), None if mask is None else mask.read(start, stop), precision)
            for key, reader, mask, precision in plan
        }
        declared = self.declaration.blocks[name]
        return Block(columns, count=stop - start, structural_shape=declared.structural_shape, targets=declared.targets)

    def _plan(self, name: str) -> list[tuple[str, ArrayReader, ArrayReader | None, float | None]]:
        stored = self._blocks[name]
        return [
            (key, stored.arrays[key], stored.arrays.get(mask_key(key)), column.precision)
            for key, column in stored.declared.columns.items()
        ]

    # Rules between blocks.

    def check(self) -> None:
        """Refuse what reading single frames shows only in part: broken rules between blocks at any frame."""
        self._check_aligned()
        for name, column, target in self._references:
            stored = self._blocks[name]
            limit = self._limit(target)
            if stored.n_updates and limit is not None:
                check_reference(name, column, stored.resolved, self._highest(stored, column), target, limit)

    def _highest(self, stored: StoredBlock, column: str) -> Highest:
        """The largest reference of every update, read in pieces of whole updates so that memory follows the batch."""
        offset = stored.offset(0, stored.n_updates)
        arrays = [stored.arrays[key] for key in (column, mask_key(column)) if key in stored.arrays]
        parts = []
        first = 0
        while first < stored.n_updates:
            last = int(np.searchsorted(offset, offset[first] + _PIECE, side="right")) - 1
            last = min(max(last, first + 1), stored.n_updates)
            rows = read_together([(reader, int(offset[first]), int(offset[last])) for reader in arrays])
            bounds = offset[first : last + 1] - offset[first]
            parts.append(highest(bounds, rows[0], rows[1] if len(rows) > 1 else None))
            first = last
        return Highest(np.concatenate([p.row for p in parts]), np.concatenate([p.any for p in parts]))

    def _limit(self, target: str) -> Resolved | int | None:
        """What a reference is held against; None: its section is not there to tell."""
        if not target.startswith("/"):
            return self._blocks[target].resolved if target in self._blocks else -1
        _, section, block = target.split("/")
        return self.sections[section].get(block, -1) if section in self.sections else None

    def _check_aligned(self) -> None:
        """Once, over all updates: their frames and row counts are in memory with the first frame anyway."""
        if self._aligned_checked:
            return
        for name, declared in self.declaration.blocks.items():
            if declared.aligned_with is not None:
                target = self._blocks[declared.aligned_with]
                check_aligned(name, self._blocks[name].resolved, target.name, target.resolved)
        self._aligned_checked = True

    def _check_frame_references(self, index: int, blocks: dict[str, Block]) -> None:
        for name, column, target in self._references:
            if name not in blocks or not blocks[name].count:
                continue
            limit = self._limit(target) if target.startswith("/") else blocks[target].count if target in blocks else -1
            if limit is not None:
                values = blocks[name].columns[column]
                bounds = np.array([0, len(values)], dtype=np.int64)
                here = Resolved(np.array([index], dtype=np.int64), bounds[1:])
                check_reference(name, column, here, highest(bounds, values.values, values.validity), target, limit)

    # Batches.

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
        self._check_aligned()
        scan = BatchScan(self.layout, self.declaration.select(columns), self._limit, batch_bytes)
        first = start
        while first < stop:
            batch = scan.read(range(first, stop, step))
            yield batch
            first += batch.n_frames * step


def _column(values: NDArray[Any], mask: NDArray[np.bool_] | None, precision: float | None) -> Column:
    """A column of values that come from an array of the declared dtype: nothing is left to be checked."""
    column = Column.__new__(Column)
    column.values = values
    column.validity = None if mask is None or mask.all() else mask
    column.precision = precision
    column.attributes = {}
    return column
