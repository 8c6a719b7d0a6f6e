"""A stored trajectory, read: single frames at once, scans in batches of whole chunks.

Nothing but metadata is read before a frame is asked for. A frame costs a binary search and a read for each column; a
batch reads each column's rows in one piece and decodes them side by side. Rules between blocks (aligned, references)
are held against what is decoded. Source: Trajectory; Layout by example, "How a reader resolves frame i".
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.files.json_text import read_json
from molrec_convert.model.batch import BlockUpdates, BoxUpdates, FrameBatch
from molrec_convert.model.declaration import BlockDeclaration, Declaration
from molrec_convert.model.frame import Block, Box, Frame
from molrec_convert.model.rules import (
    Highest,
    RowCounts,
    absolute_counts,
    aligned_faults,
    highest,
    raise_first,
    reference_faults,
    related,
)
from molrec_convert.model.tags import TAGS, Meta
from molrec_convert.model.trajectory import BATCH_BYTES, Trajectory
from molrec_convert.stores.zarr.sections.frames import StoredColumn
from molrec_convert.stores.zarr.trajectory.batch import mask_key
from molrec_convert.stores.zarr.trajectory.layout import TRAJECTORY, Layout, read_layout
from molrec_convert.stores.zarr.trajectory.stored import StoredBlock
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader, read_together
from molrec_convert.stores.zarr.v3.metadata import row_bytes
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["BatchScan", "StoredTrajectory", "json_value"]

#: Rows of blocks that are kept for a while after their last use.
_FEW_ROWS = 2**16
#: Frames that are looked at first when a batch is measured, and how many more each time they all fit.
_LOOK, _MORE = 256, 8
#: Updates whose rows are this much thinner than all rows between the first and the last are read one by one.
_SPARSE = 4

_Ordinals = NDArray[np.int64]
_Request = tuple[ArrayReader, int, int]


@dataclass
class _Picked:
    """The updates of a block that a batch presents: their ordinals, frame positions in the batch, row offsets."""

    updates: _Ordinals
    frames: _Ordinals
    offset: _Ordinals
    #: Where each one's rows begin in the stored columns.
    starts: _Ordinals

    @property
    def together(self) -> bool:
        """True if their rows are one piece of the stored columns."""
        return int(self.updates[-1] - self.updates[0]) == len(self.updates) - 1

    @property
    def stop(self) -> int:
        """Where the last one's rows end in the stored columns."""
        return int(self.starts[-1] + self.offset[-1] - self.offset[-2])


class BatchScan:
    """Batches of the frames of one `Layout`, restricted to `declaration`.

    The first batch presents the whole state at its first frame; later ones go on from the one before.
    `limit` tells what references into a target are held against.
    """

    def __init__(
        self,
        layout: Layout,
        declaration: Declaration,
        limit: Callable[[str], RowCounts | int | None],
        batch_bytes: int,
    ) -> None:
        self._layout, self._declaration, self._limit, self._batch_bytes = layout, declaration, limit, batch_bytes
        self._blocks = {name: layout.blocks[name] for name in declaration.blocks}
        self._references = related(declaration)
        self._before: dict[str, int] = dict.fromkeys(self._blocks, -1)
        self._before_box = -1
        # Steps, times and per-step values of a frame.
        self._frame_bytes = 16 + sum(16 * max(1, TAGS[entry.dtype].width) for entry in declaration.meta.values())

    def read(self, frames: range) -> FrameBatch:
        """Return the batch of as many of `frames` as fit, at least one."""
        ordinals = np.asarray(frames[: self._that_fit(frames)], dtype=np.int64)
        layout = self._layout
        first, last, step = int(ordinals[0]), int(ordinals[-1]) + 1, frames.step
        picked = {name: self._pick(name, ordinals) for name in self._blocks}
        requests: list[_Request] = [(reader, first, last) for reader in layout.meta.values()]
        plans = {name: self._requests(name, part) for name, part in picked.items() if part is not None}
        for plan in plans.values():
            requests.extend(request for _, parts in plan for request in parts)
        results = iter(read_together(requests))
        meta = {key: _meta_values(key, next(results)[::step], self._declaration) for key in layout.meta}
        blocks = {}
        for name, plan in plans.items():
            part = picked[name]
            assert part is not None, "only blocks with updates are planned"
            arrays = {key: _joined([next(results) for _ in parts], part) for key, parts in plan}
            blocks[name] = self._updates(name, part, arrays)
        self._check_references(blocks, ordinals)
        return FrameBatch(
            layout.step.steps(first, last)[::step],
            None if layout.time is None else layout.time.times(first, last)[::step],
            blocks,
            meta,
            self._box(ordinals),
        )

    # How many frames fit.

    def _that_fit(self, frames: range) -> int:
        looked = min(_LOOK, len(frames))
        while True:
            ordinals = np.asarray(frames[:looked], dtype=np.int64)
            cost = np.full(looked, self._frame_bytes, dtype=np.int64)
            for name, block in self._blocks.items():
                updates = _resolved(block, ordinals)
                new = self._new(updates, self._before[name])
                cost[new] += block.counts(updates[new]) * _bytes_per_row(self._declaration.blocks[name])
            total = np.cumsum(cost)
            if looked == len(frames) or total[-1] > self._batch_bytes:
                return max(1, int(np.searchsorted(total, self._batch_bytes, side="right")))
            looked = min(len(frames), looked * _MORE)

    @staticmethod
    def _new(updates: _Ordinals, before: int) -> NDArray[np.bool_]:
        """Return where the resolved update is another one than at the frame before."""
        new = updates >= 0
        new[1:] &= updates[1:] != updates[:-1]
        new[0] &= updates[0] != before
        return new

    # What a batch presents.

    def _pick(self, name: str, ordinals: _Ordinals) -> _Picked | None:
        block = self._blocks[name]
        updates = _resolved(block, ordinals)
        new = self._new(updates, self._before[name])
        self._before[name] = int(updates[-1])
        chosen = updates[new]
        if not len(chosen):
            return None
        bounds = np.concatenate([[0], np.cumsum(block.counts(chosen))]).astype(np.int64)
        return _Picked(chosen, np.flatnonzero(new).astype(np.int64), bounds, block.starts(chosen))

    def _requests(self, name: str, picked: _Picked | None) -> list[tuple[str, list[_Request]]]:
        """Return what to read of each column and mask of a block."""
        if picked is None:
            return []
        block = self._blocks[name]
        keys = list(self._declaration.blocks[name].columns)
        keys += [mask_key(key) for key in keys if mask_key(key) in block.arrays]
        if picked.together or not _sparse(picked):
            spans = [(int(picked.starts[0]), picked.stop)]
        else:
            counts = np.diff(picked.offset)
            spans = [(int(a), int(a + n)) for a, n in zip(picked.starts, counts, strict=True)]
        return [(key, [(block.arrays[key], a, b) for a, b in spans]) for key in keys]

    def _updates(self, name: str, picked: _Picked, arrays: dict[str, NDArray[Any]]) -> BlockUpdates:
        declared = self._declaration.blocks[name]
        rows = int(picked.offset[-1])
        validity = {
            key: arrays.get(mask_key(key), np.ones(rows, dtype=np.bool_))
            for key, column in declared.columns.items()
            if column.nullable
        }
        return BlockUpdates(picked.frames, picked.offset, {key: arrays[key] for key in declared.columns}, validity)

    def _box(self, ordinals: _Ordinals) -> BoxUpdates | None:
        box = self._layout.box
        updates = np.searchsorted(box.frames, ordinals, side="right").astype(np.int64) - 1
        new = self._new(updates, self._before_box)
        self._before_box = int(updates[-1])
        chosen = updates[new]
        if not len(chosen):
            return None
        first = int(chosen[0])
        found = box.updates(first, int(chosen[-1]) + 1)
        rows = chosen - first
        return BoxUpdates(
            np.flatnonzero(new).astype(np.int64), found.vectors[rows], found.origin[rows], found.boundary[rows]
        )

    def _check_references(self, blocks: dict[str, BlockUpdates], ordinals: _Ordinals) -> None:
        for name, column, target in self._references:
            limit = self._limit(target)
            if name not in blocks or limit is None:
                continue
            updates = blocks[name]
            if isinstance(limit, RowCounts):
                # As the batch sees it: what the target resolves to at each of its frames.
                limit = RowCounts(ordinals, limit.counts_at(ordinals))
            here = RowCounts(ordinals[updates.frames], np.diff(updates.offset))
            found = highest(updates.offset, updates.columns[column], updates.validity.get(column))
            raise_first(reference_faults(f"{TRAJECTORY}/{name}/{column}", here, found, target, limit))


def json_value(text: Any, key: str) -> Any:
    """Return the document of a `json` key."""
    try:
        return read_json(text)
    except ValueError as error:
        raise ContractError(f"{TRAJECTORY}/meta/{key}", f"a value is not valid JSON: {error}") from None


def _meta_values(key: str, values: NDArray[Any], declaration: Declaration) -> Any:
    if declaration.meta[key].dtype == "json":
        return [json_value(text, key) for text in values]
    return np.ascontiguousarray(values)


def _resolved(block: StoredBlock, ordinals: _Ordinals) -> _Ordinals:
    """Return the update each frame resolves to, -1 where the block is absent."""
    if block.regular is not None:
        return np.minimum(ordinals, block.n_updates - 1)
    return np.searchsorted(block.frames(), ordinals, side="right").astype(np.int64) - 1


def _sparse(picked: _Picked) -> bool:
    return picked.stop - int(picked.starts[0]) > _SPARSE * int(picked.offset[-1])


def _joined(parts: list[NDArray[Any]], picked: _Picked) -> NDArray[Any]:
    """Return the rows of the picked updates, one behind the other."""
    if len(parts) > 1:
        return np.concatenate(parts)
    if picked.together:
        return parts[0]
    if len(parts[0]) == int(picked.offset[-1]):
        return parts[0]
    counts = np.diff(picked.offset)
    rows = np.repeat(picked.starts - picked.starts[0] - picked.offset[:-1], counts) + np.arange(picked.offset[-1])
    return np.asarray(parts[0][rows])


def _bytes_per_row(declared: BlockDeclaration) -> int:
    return sum(row_bytes(column) + column.nullable for column in declared.columns.values())


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
        self._absolute = absolute_counts(sections or {})
        self._blocks = layout.blocks
        self._json = {key for key, entry in self.declaration.meta.items() if entry.dtype == "json"}
        self._references = related(self.declaration)
        self._plans: dict[str, list[tuple[str, ArrayReader, ArrayReader | None, float | None]]] = {}
        self._aligned_checked = False
        #: Blocks of single frames that somebody has.
        self._lent: WeakValueDictionary[int, Block] = WeakValueDictionary()
        self._number = itertools.count()
        #: The latest small ones: memory that is given back before the next frame is read has to be mapped again.
        self._recent: deque[Block] = deque(maxlen=2)

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
        """Return which update of a declared block frame `index` resolves to, and its rows: `(update, start, stop)`.

        None where the block is absent.
        """
        self._check_index(index)
        return self._blocks[block].resolve(index)

    def resolve_box(self, index: int) -> int | None:
        """Return which change of the cell frame `index` resolves to, None before the first."""
        self._check_index(index)
        return self.layout.box.resolve(index)

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.n_frames:
            raise IndexError(f"frame {index} of a trajectory of {self.n_frames}")

    # One frame.

    def frame(self, index: int) -> Frame:
        """Return the resolved frame at a non-negative ordinal."""
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
        """Return the cell at a frame, None where there is none yet."""
        update = self.layout.box.resolve(index)
        return None if update is None else self.layout.box.box(update)

    def _block(self, name: str, rows: tuple[int, int, int]) -> Block:
        _, start, stop = rows
        plan = self._plans.get(name)
        if plan is None:
            plan = self._plans[name] = self._plan(name)
        columns = {
            key: StoredColumn(reader, mask, precision, rows=(start, stop)) for key, reader, mask, precision in plan
        }
        declared = self.declaration.blocks[name]
        block = Block(columns, count=stop - start, structural_shape=declared.structural_shape, targets=declared.targets)
        if stop - start <= _FEW_ROWS:
            self._recent.append(block)
        self._lent[next(self._number)] = block
        return block

    def decode_lent(self) -> None:
        """Decode what blocks that are still in use have not decoded so far: the files behind them are to be closed."""
        self._recent.clear()
        for block in self._lent.values():
            for column in block.columns.values():
                with contextlib.suppress(ContractError, OSError):
                    _ = column.values, column.validity

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
                rows = self._highest(stored, column)
                raise_first(reference_faults(f"{TRAJECTORY}/{name}/{column}", stored.resolved, rows, target, limit))

    def _highest(self, stored: StoredBlock, column: str) -> Highest:
        """Return the largest reference of every update, read in pieces of whole updates so that memory follows the
        batch.
        """
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

    def _limit(self, target: str) -> RowCounts | int | None:
        """Return what a reference is held against; None: its section is not there to tell."""
        if not target.startswith("/"):
            return self._blocks[target].resolved if target in self._blocks else -1
        return self._absolute.get(target, -1) if target.rpartition("/")[0] in self._absolute else None

    def _check_aligned(self) -> None:
        """Once, over all updates: their frames and row counts are in memory with the first frame anyway."""
        if self._aligned_checked:
            return
        for name, declared in self.declaration.blocks.items():
            if declared.aligned_with is not None:
                target = self._blocks[declared.aligned_with]
                block = self._blocks[name]
                raise_first(aligned_faults(block.node, block.resolved, target.name, target.resolved))
        self._aligned_checked = True

    def _check_frame_references(self, index: int, blocks: dict[str, Block]) -> None:
        for name, column, target in self._references:
            if name not in blocks:
                continue
            limit = self._limit(target) if target.startswith("/") else blocks[target].count if target in blocks else -1
            values = blocks[name].columns[column]
            bounds = np.array([0, len(values)], dtype=np.int64)
            here = RowCounts(np.array([index], dtype=np.int64), bounds[1:])
            rows = highest(bounds, values.values, values.validity)
            raise_first(reference_faults(f"{TRAJECTORY}/{name}/{column}", here, rows, target, limit))

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
