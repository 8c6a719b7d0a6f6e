"""The rules that hold between blocks and between sections, each in one place, as generators of faults.

Writers and readers raise the first fault, validation lists all. Trajectory rules speak of resolved blocks: at frame i,
a block's last update at or before i. They can only begin to fail at a frame where one of the two blocks is updated, so
those frames alone are looked at. `system/<b>` and `trajectory/<b>` (or `frame/<b>`) describe the same rows in the same
order: every update has the system block's row count, a column lives on one side only, and `id`, if on both, is equal.
Source: Record, "Root and sections"; Trajectory, "Aligned"; Containers, "Row references".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block, Frame, missing_target, out_of_range, references

__all__ = [
    "Alignment",
    "FrameRules",
    "Highest",
    "RowCounts",
    "absolute_counts",
    "aligned_faults",
    "column_faults",
    "highest",
    "raise_first",
    "reference_faults",
    "related",
    "row_count_faults",
    "shape_faults",
    "step_faults",
]

Ordinals = NDArray[np.int64]
Faults = Iterator[ContractError]
#: The one column that may be in `system` and beside it.
_BOTH = frozenset({"id"})


def raise_first(faults: Iterable[ContractError]) -> None:
    """Raise the first of some faults, if there is one."""
    for fault in faults:
        raise fault


@dataclass
class RowCounts:
    """The rows of one block: from frame `frames[k]` on there are `counts[k]`, before the first the block is absent."""

    frames: Ordinals
    counts: Ordinals

    def at(self, frames: Ordinals) -> Ordinals:
        """Return the update each frame resolves to, -1 where the block is absent."""
        return np.searchsorted(self.frames, frames, side="right") - 1

    def counts_at(self, frames: Ordinals) -> Ordinals:
        """Return the row count at each frame, -1 where the block is absent."""
        updates = self.at(frames)
        return np.where(updates < 0, -1, self.counts[updates] if len(self.counts) else -1)


@dataclass
class Highest:
    """The largest row each update of a column refers to; where `any` is false it refers to none."""

    row: NDArray[np.uint64]
    any: NDArray[np.bool_]


def highest(offset: Ordinals, values: NDArray[Any], mask: NDArray[np.bool_] | None) -> Highest:
    """Return the largest references in rows `offset[j]:offset[j+1]`, null rows left out."""
    counts = np.diff(offset)
    found = counts > 0
    filled = np.flatnonzero(found)
    row = np.zeros(len(counts), dtype=np.uint64)
    if not math.prod(values.shape[1:]) or not len(filled):
        return Highest(row, np.zeros(len(counts), dtype=np.bool_))
    starts, end = offset[:-1][filled], int(offset[-1])
    values = values[:end].reshape(end, -1)
    if mask is not None:
        values = np.where(mask[:end, None], values, np.uint64(0))
        found[filled] = np.logical_or.reduceat(mask[:end], starts)
    row[filled] = np.maximum.reduceat(values.max(axis=1), starts)
    return Highest(row, found)


def related(declaration: Declaration) -> list[tuple[str, str, str]]:
    """Return every reference of the declaration: block, column, target."""
    return [
        (name, column, target)
        for name, block in declaration.blocks.items()
        for column, target in references(block.columns, block.targets).items()
    ]


def absolute_counts(sections: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return what absolute references are held against, of the row counts of the blocks of some sections."""
    found = {f"/{section}": 0 for section in sections}
    return found | {f"/{section}/{name}": rows for section, blocks in sections.items() for name, rows in blocks.items()}


# What holds at every frame of a trajectory.


def step_faults(steps: Ordinals, before: int | None, first: int, node: str) -> Faults:
    """Yield a fault where steps, of frames from `first` on, do not go up from the one before."""
    if (before is None or steps[0] > before) and (len(steps) == 1 or bool((steps[1:] > steps[:-1]).all())):
        return
    ascending = steps if before is None else np.concatenate([[before], steps])
    wrong = np.flatnonzero(ascending[1:] <= ascending[:-1])
    if len(wrong):
        at = int(wrong[0])
        frame = first + at + (before is None)
        yield ContractError(
            f"{node}/step", f"steps strictly increase: {ascending[at + 1]} follows {ascending[at]} at frame {frame}"
        )


def shape_faults(node: str, block: RowCounts, shape: tuple[int, ...] | None) -> Faults:
    """Yield a fault where an update has another row count than the structural shape."""
    if shape is None:
        return
    wrong = np.flatnonzero(block.counts != math.prod(shape))
    if len(wrong):
        yield ContractError(
            node,
            f"the structural shape {list(shape)} fixes the row count at frame {block.frames[wrong[0]]} too",
            found=str(block.counts[wrong[0]]),
            expected=str(math.prod(shape)),
        )


def aligned_faults(node: str, block: RowCounts, target_name: str, target: RowCounts) -> Faults:
    """Yield a fault at the first frame where a block is there and its target is not, or has another row count."""
    same = np.array_equal(block.frames, target.frames)
    frames = block.frames if same else np.union1d(block.frames, target.frames)
    counts, wanted = block.counts_at(frames), target.counts_at(frames)
    wrong = np.flatnonzero((counts >= 0) & (counts != wanted))
    if len(wrong):
        frame, found, expected = (int(values[wrong[0]]) for values in (frames, counts, wanted))
        if expected < 0:
            yield ContractError(node, f"frame {max(0, frame)} has the aligned block but not {target_name!r}")
        else:
            yield ContractError(
                node,
                f"at frame {max(0, frame)} the block has another row count than {target_name!r}, with which it is "
                "aligned",
                found=str(found),
                expected=str(expected),
            )


def reference_faults(
    node: str, block: RowCounts, rows: Highest, target_name: str, target: RowCounts | int | None
) -> Faults:
    """Yield a fault at the first frame where a column refers to a row its target does not have, or it is not there.

    `target` is a block of the trajectory, or the fixed row count of one elsewhere, below 0 where that is not there;
    None where nothing can be said of it.
    """
    if target is None or not len(block.frames):
        return
    if isinstance(target, int):
        frames, counts = block.frames, np.full(len(block.frames), target, dtype=np.int64)
    else:
        frames = np.union1d(block.frames, target.frames)
        counts = target.counts_at(frames)
    updates = block.at(frames)
    there = updates >= 0
    updates = np.where(there, updates, 0)
    missing = there & (block.counts[updates] > 0) & (counts < 0)
    beyond = there & rows.any[updates] & (counts >= 0) & (rows.row[updates] >= np.maximum(counts, 0).astype(np.uint64))
    wrong = np.flatnonzero(missing | beyond)
    if len(wrong):
        at = int(wrong[0])
        where = f" at frame {max(0, int(frames[at]))}"
        if missing[at]:
            yield missing_target(node, target_name, where)
        else:
            yield out_of_range(node, target_name, int(rows.row[updates[at]]), int(counts[at]), where)


class FrameRules:
    """What the frames of one trajectory must keep to, batch by batch, and what they resolve to so far.

    `absolute` has the rows absolute references are held against (`absolute_counts`): a section that is absent is not
    checked against.
    """

    def __init__(
        self, declaration: Declaration, absolute: Mapping[str, int] | None = None, node: str = "trajectory"
    ) -> None:
        self._absolute, self._node = absolute or {}, node
        self._counts: dict[str, int] = {}
        self._highest: dict[tuple[str, str], tuple[np.uint64, bool]] = {}
        self._frames = 0
        self._last_step: int | None = None
        self._timed: bool | None = None
        self._take(declaration)
        for name, _ in self._aligned:
            if name in self._system:
                raise _aligned_name(f"{node}/{name}")

    def _take(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._references = related(declaration)
        self._aligned = [(n, b.aligned_with) for n, b in declaration.blocks.items() if b.aligned_with is not None]
        self._system = {}
        if "/system" in self._absolute:
            found = {name: self._absolute.get(f"/system/{name}") for name in declaration.blocks}
            self._system = {name: rows for name, rows in found.items() if rows is not None}

    def without(self, declaration: Declaration) -> FrameRules:
        """Return the rules of a declaration with fewer blocks."""
        fewer = copy.copy(self)
        fewer._take(declaration)
        return fewer

    def resume(self, n_frames: int, last_step: int | None, timed: bool | None, blocks: Mapping[str, Any]) -> None:
        """Go on after `n_frames` frames; `blocks` has the last update of each block as `BlockUpdates`."""
        self._frames, self._last_step, self._timed = n_frames, last_step, timed
        for name, updates in blocks.items():
            self._remember(name, updates)

    def _remember(self, name: str, updates: BlockUpdates) -> None:
        if len(updates.frames):
            self._counts[name] = int(updates.offset[-1] - updates.offset[-2])
            for owner, column, _ in self._references:
                if owner == name:
                    found = highest(updates.offset[-2:], updates.columns[column], updates.validity.get(column))
                    self._highest[name, column] = (found.row[0], bool(found.any[0]))

    def after(self, batch: FrameBatch) -> FrameRules:
        """Return the rules after a batch; raise ContractError for the first rule it breaks, with nothing changed."""
        if not batch.n_frames:
            return self
        raise_first(self._faults(batch))
        after = object.__new__(FrameRules)
        after.__dict__.update(self.__dict__)
        if self._references or self._aligned:
            after._counts, after._highest = dict(self._counts), dict(self._highest)
            for name, updates in batch.blocks.items():
                after._remember(name, updates)
        after._frames += batch.n_frames
        after._last_step, after._timed = int(batch.step[-1]), batch.time is not None
        return after

    def _faults(self, batch: FrameBatch) -> Faults:
        node, first, timed = self._node, self._frames, batch.time is not None
        yield from step_faults(batch.step, self._last_step, first, node)
        if self._timed is not None and timed != self._timed:
            change = (
                "has no time, though earlier frames have" if self._timed else "has a time, earlier frames have none"
            )
            yield ContractError(f"{node}/time", f"time is stated for all frames or for none: frame {first} {change}")
        for name, updates in batch.blocks.items():
            declared = self._declaration.blocks.get(name)
            if declared is None:
                yield ContractError(f"{node}/{name}", "the block is not declared")
            elif declared.structural_shape is not None or name in self._system:
                counts = updates.offset[1:] - updates.offset[:-1]
                if declared.structural_shape is not None:
                    block = RowCounts(updates.frames + first, counts)
                    yield from shape_faults(f"{node}/{name}", block, declared.structural_shape)
                if name in self._system and (counts != self._system[name]).any():
                    block = RowCounts(updates.frames + first, counts)
                    yield from row_count_faults(f"{node}/{name}", block, self._system[name])
        for name, target in self._aligned:
            if name in batch.blocks or target in batch.blocks:
                yield from aligned_faults(
                    f"{node}/{name}", self._resolved(name, batch), target, self._resolved(target, batch)
                )
        for name, column, target in self._references:
            if name in batch.blocks or target in batch.blocks:
                here, rows = f"{node}/{name}/{column}", self._rows(name, column, batch)
                yield from reference_faults(here, self._resolved(name, batch), rows, target, self._limit(target, batch))

    def _resolved(self, name: str, batch: FrameBatch) -> RowCounts:
        """Return the update before the batch, at ordinal -1, and those of the batch."""
        known, updates = self._counts.get(name), batch.blocks.get(name)
        frames, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        if updates is not None:
            frames, counts = updates.frames + self._frames, np.diff(updates.offset)
        if known is not None:
            frames, counts = np.concatenate([[-1], frames]), np.concatenate([[known], counts])
        return RowCounts(frames.astype(np.int64), counts.astype(np.int64))

    def _rows(self, name: str, column: str, batch: FrameBatch) -> Highest:
        row, found = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_)
        if name in batch.blocks:
            updates = batch.blocks[name]
            new = highest(updates.offset, updates.columns[column], updates.validity.get(column))
            row, found = new.row, new.any
        if name not in self._counts:
            return Highest(row, found)
        before = self._highest[name, column]
        return Highest(
            np.concatenate([np.array([before[0]], dtype=np.uint64), row]), np.concatenate([[before[1]], found])
        )

    def _limit(self, target: str, batch: FrameBatch) -> RowCounts | int | None:
        if not target.startswith("/"):
            return self._resolved(target, batch)
        return self._absolute.get(target, -1) if target.rpartition("/")[0] in self._absolute else None


# `system` and the state of the particles.


def row_count_faults(node: str, block: RowCounts, rows: int, where: str | None = None) -> Faults:
    """Yield a fault where a block has another row count than the system's of its name."""
    wrong = np.flatnonzero(block.counts != rows)
    if len(wrong):
        where = f" at frame {block.frames[wrong[0]]}" if where is None else where
        rule = f"the block has another row count than in system{where}"
        yield ContractError(node, rule, found=str(block.counts[wrong[0]]), expected=str(rows))


def column_faults(node: str, columns: Iterable[str], system: Iterable[str]) -> Faults:
    """Yield a fault for each column that is in a block and in the system's of its name."""
    for name in sorted(({*columns} & {*system}) - _BOTH):
        yield ContractError(f"{node}/{name}", "the column is in system too: it lives on one side only")


def id_faults(
    node: str, ids: NDArray[Any], valid: NDArray[np.bool_], block: Block, where: Callable[[int], str]
) -> Faults:
    """Yield a fault where ids [updates, rows] are not the system's in every update; `where` names the frame of one."""
    own = block.validity("id")
    differ = (valid != own) | ((ids != block.stored("id")) & valid & own)
    if differ.any():
        update, row = (int(n) for n in np.argwhere(differ)[0])
        yield ContractError(
            f"{node}/id",
            f"id differs from system's in row {row}{where(update)}",
            found=str(ids[update, row]) if valid[update, row] else "null",
            expected=str(block.stored("id")[row]) if own[row] else "null",
        )


def _aligned_name(node: str) -> ContractError:
    return ContractError(node, "an aligned block must not have the name of a block of system")


class Alignment:
    """What a `system` demands of the blocks that share its names; without a system, nothing."""

    def __init__(self, system: Frame | None) -> None:
        self._blocks: dict[str, Block] = {} if system is None else system.blocks

    def check_declaration(self, declaration: Declaration) -> None:
        """Raise ContractError for a declared column the system has too, or an aligned block named like one of its."""
        for name, declared in declaration.blocks.items():
            if name not in self._blocks:
                continue
            here = f"trajectory/{name}"
            if declared.aligned_with is not None:
                raise _aligned_name(here)
            raise_first(column_faults(here, declared.columns, self._blocks[name].columns))

    def check_batch(self, batch: FrameBatch, first: int = 0, step: int = 1) -> None:
        """Raise ContractError for updates with another row count or other ids than the system's.

        `first` is the ordinal of the batch's first frame, `step` how far apart its frames are.
        """
        for name, updates in batch.blocks.items():
            if name in self._blocks:
                raise_first(self._update_faults(name, updates, first, step))

    def has_ids(self, name: str) -> bool:
        """True if the system has ids of the rows of this block."""
        return name in self._blocks and "id" in self._blocks[name].columns

    def load(self) -> None:
        """Read the system's ids now, while its files are open."""
        for block in self._blocks.values():
            if "id" in block.columns:
                block.validity("id")
                _ = block.stored("id")

    def check_frame(self, frame: Frame, node: str = "frame", where: str = "") -> None:
        """Raise ContractError for a snapshot whose blocks do not fit the system's; `where` says which it is."""
        for name, other in frame.blocks.items():
            if name not in self._blocks:
                continue
            block, here = self._blocks[name], f"{node}/{name}"
            raise_first(column_faults(here, other.columns, block.columns))
            if other.count != block.count:
                counts = RowCounts(np.zeros(1, np.int64), np.array([other.count]))
                raise_first(row_count_faults(here, counts, block.count, where))
            if "id" in other.columns and "id" in block.columns:
                raise_first(
                    id_faults(here, other.stored("id")[None], other.validity("id")[None], block, lambda _: where)
                )

    def _update_faults(self, name: str, updates: BlockUpdates, first: int, step: int) -> Faults:
        block, here = self._blocks[name], f"trajectory/{name}"
        ordinals = first + updates.frames * step
        yield from row_count_faults(here, RowCounts(ordinals, np.diff(updates.offset)), block.count)
        if "id" in updates.columns and "id" in block.columns and block.count:
            shape = (len(ordinals), block.count)
            mask = updates.validity.get("id")
            valid = np.ones(shape, dtype=np.bool_) if mask is None else mask.reshape(shape)
            ids = updates.columns["id"].reshape(shape)
            yield from id_faults(here, ids, valid, block, lambda update: f" at frame {ordinals[update]}")
