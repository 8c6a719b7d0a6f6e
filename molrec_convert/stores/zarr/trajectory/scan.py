"""Reading batches of frames: which updates they resolve to, how many fit, and all their rows in one go.

Source: Trajectory; the shape of a batch: `molrec_convert.model.batch`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.files.json_text import read_json
from molrec_convert.model.batch import BlockUpdates, BoxUpdates, FrameBatch
from molrec_convert.model.declaration import BlockDeclaration, Declaration
from molrec_convert.model.tags import TAGS
from molrec_convert.stores.zarr.trajectory.batch import mask_key
from molrec_convert.stores.zarr.trajectory.layout import TRAJECTORY, Layout
from molrec_convert.stores.zarr.trajectory.relations import Resolved, check_reference, highest, related
from molrec_convert.stores.zarr.trajectory.stored import StoredBlock
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader, read_together
from molrec_convert.stores.zarr.v3.extents import row_bytes

__all__ = ["BatchScan", "json_value"]

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
        """Whether their rows are one piece of the stored columns."""
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
        limit: Callable[[str], Resolved | int | None],
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
        """The batch of as many of `frames` as fit, at least one."""
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
        """Where the resolved update is another one than at the frame before."""
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
        """What to read of each column and mask of a block."""
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
            if isinstance(limit, Resolved):
                # As the batch sees it: what the target resolves to at each of its frames.
                limit = Resolved(ordinals, limit.counts_at(ordinals))
            here = Resolved(ordinals[updates.frames], np.diff(updates.offset))
            found = highest(updates.offset, updates.columns[column], updates.validity.get(column))
            check_reference(name, column, here, found, target, limit)


def json_value(text: Any, key: str) -> Any:
    """The document of a `json` key."""
    try:
        return read_json(text)
    except ValueError as error:
        raise ContractError(f"{TRAJECTORY}/meta/{key}", f"a value is not valid JSON: {error}") from None


def _meta_values(key: str, values: NDArray[Any], declaration: Declaration) -> Any:
    if declaration.meta[key].dtype == "json":
        return [json_value(text, key) for text in values]
    return np.ascontiguousarray(values)


def _resolved(block: StoredBlock, ordinals: _Ordinals) -> _Ordinals:
    """The update each frame resolves to, -1 where the block is absent."""
    if block.regular is not None:
        return np.minimum(ordinals, block.n_updates - 1)
    return np.searchsorted(block.frames(), ordinals, side="right").astype(np.int64) - 1


def _sparse(picked: _Picked) -> bool:
    return picked.stop - int(picked.starts[0]) > _SPARSE * int(picked.offset[-1])


def _joined(parts: list[NDArray[Any]], picked: _Picked) -> NDArray[Any]:
    """The rows of the picked updates, one behind the other."""
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
