"""A frame batch held against the declaration before any of it is kept: what is outside it is refused.

Source: Trajectory, "sequence_schema", "Nullable", "meta".
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BlockUpdates, BoxUpdates, FrameBatch
from molrec_convert.model.declaration import NO_FILL, BlockDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.dtypes import DTYPES, as_values, same_bits, stored
from molrec_convert.model.frame import Frame, references
from molrec_convert.model.tags import TAGS, check_json, coerce

__all__ = ["MASKS", "FrameBuffer", "Presentation", "Presented", "changed", "mask_key", "meta_array", "presented_blocks"]

#: Folder of a block's masks.
MASKS = "_validity"


def mask_key(column: str) -> str:
    """Return the key below its block of the mask of a column."""
    return f"{MASKS}/{column}"


@dataclass
class Presented:
    """The presentations of one block in a batch: positions of their frames, row offsets from 0, rows.

    `arrays` holds every declared column, and under `mask_key(column)` the mask of every nullable one.
    """

    frames: NDArray[np.int64]
    offset: NDArray[np.int64]
    arrays: dict[str, NDArray[Any]]

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows of each presentation."""
        return np.diff(self.offset)

    @property
    def updates(self) -> BlockUpdates:
        """The same, columns and masks apart."""
        columns = {key: array for key, array in self.arrays.items() if not key.startswith(f"{MASKS}/")}
        masks = {key: self.arrays[mask_key(key)] for key in columns if mask_key(key) in self.arrays}
        return BlockUpdates(self.frames, self.offset, columns, masks)

    def take(self, kept: NDArray[np.bool_]) -> Presented:
        """Return the presentations that `kept` marks."""
        if kept.all():
            return self
        counts = self.counts
        offset = np.concatenate([[0], np.cumsum(counts[kept])]).astype(np.int64)
        rows: Any = np.repeat(kept, counts) if kept.any() else slice(0, 0)
        return Presented(self.frames[kept], offset, {key: array[rows] for key, array in self.arrays.items()})

    def shifted(self, frames: int) -> Presented:
        """Return the same, `frames` further on."""
        return Presented(self.frames + frames, self.offset, self.arrays)

    def split(self, position: int) -> tuple[Presented, Presented]:
        """Return the presentations of frames before `position`, and the others."""
        at = int(np.searchsorted(self.frames, position))
        row = int(self.offset[at])
        before = {key: array[:row] for key, array in self.arrays.items()}
        after = {key: array[row:] for key, array in self.arrays.items()}
        return (
            Presented(self.frames[:at], self.offset[: at + 1], before),
            Presented(self.frames[at:], self.offset[at:] - row, after),
        )


def presented_blocks(batch: FrameBatch, declaration: Declaration) -> dict[str, Presented]:
    """Return the blocks of a batch in their declared order; a block or column outside the declaration is refused."""
    for name in batch.blocks:
        if name not in declaration.blocks:
            raise ContractError(f"trajectory/{name}", "the block is not declared")
    return {
        name: _presented(batch.blocks[name], declared, f"trajectory/{name}", batch.n_frames)
        for name, declared in declaration.blocks.items()
        if name in batch.blocks and len(batch.blocks[name].frames)
    }


def _presented(updates: BlockUpdates, declared: BlockDeclaration, node: str, n_frames: int) -> Presented:
    frames = np.asarray(updates.frames, dtype=np.int64)
    offset = np.asarray(updates.offset, dtype=np.int64)
    if len(offset) != len(frames) + 1 or bool((np.diff(offset) < 0).any()) or offset[0] < 0:
        raise ContractError(node, "the row offsets of a batch do not fit its presentations")
    if bool((np.diff(frames) <= 0).any()) or frames[0] < 0 or frames[-1] >= n_frames:
        raise ContractError(node, "the frames of a batch's presentations are not ascending positions in it")
    for key in updates.columns:
        if key not in declared.columns:
            raise ContractError(f"{node}/{key}", "the column is not declared")
    for key in updates.validity:
        if key not in declared.columns or not declared.columns[key].nullable:
            raise ContractError(f"{node}/{key}", "a column that is not declared nullable has a mask")
    return Presented(frames, offset - offset[0], _arrays(updates, declared, node, int(offset[0]), int(offset[-1])))


def _arrays(
    updates: BlockUpdates, declared: BlockDeclaration, node: str, first: int, last: int
) -> dict[str, NDArray[Any]]:
    arrays = {}
    for key, column in declared.columns.items():
        here = f"{node}/{key}"
        if key not in updates.columns:
            raise ContractError(here, "a presented block carries every declared column; this one is missing")
        values = as_values(updates.columns[key], column.dtype, here)
        if len(values) < last or values.shape[1:] != column.trailing:
            raise ContractError(
                here,
                "the column has another shape than declared",
                found=str(list(values.shape)),
                expected=str([last, *column.trailing]),
            )
        arrays[key] = values[first:last]
    for key, column in declared.columns.items():
        if not column.nullable:
            continue
        mask = np.ones(last, dtype=np.bool_) if key not in updates.validity else np.asarray(updates.validity[key])
        if mask.dtype != np.bool_ or mask.ndim != 1 or len(mask) < last:
            raise ContractError(
                f"{node}/{mask_key(key)}", "a mask holds one bool per row", found=f"{mask.dtype}{list(mask.shape)}"
            )
        arrays[mask_key(key)] = mask = np.ascontiguousarray(mask[first:last])
        if column.precision is not None:
            # What stands under a null row is kept as it is, so these are rounded here and not while encoding.
            rounded = stored(arrays[key], column.precision)
            rounded[~mask] = arrays[key][~mask]
            arrays[key] = rounded
    return arrays


def meta_array(key: str, batch: FrameBatch, declared: MetaDeclaration) -> NDArray[Any]:
    """Return the values `[n, …]` of a per-step key as they are stored; a key that is omitted takes its declared
    fill.
    """
    here = f"trajectory/meta/{key}"
    tag, count = TAGS[declared.dtype], batch.n_frames
    dtype = DTYPES[tag.storage].numpy
    if key not in batch.meta:
        if declared.fill is NO_FILL:
            raise ContractError(here, "a frame omits the key, which has no declared fill")
        values: Any = [coerce(declared.fill, declared.dtype, here)] * count
    else:
        values = batch.meta[key]
    if len(values) != count:
        raise ContractError(here, "there is one value per frame", found=str(len(values)), expected=str(count))
    if tag.dtype is None:
        return np.array([_json(value, here) for value in values], dtype=dtype).reshape(count)
    if isinstance(values, np.ndarray) and values.dtype == dtype and values.shape == (count, *tag.trailing):
        return np.ascontiguousarray(values)
    exact = [coerce(value, declared.dtype, here) for value in values]
    return np.array(exact, dtype=dtype).reshape(count, *tag.trailing)


def _json(value: Any, node: str) -> str:
    check_json(value, node)
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


#: Rows of every presentation that are compared before all of them are.
_SAMPLE = 3
_Array = NDArray[Any]


@dataclass
class Presentation:
    """The rows a block had at its last update: `columns` (rounded where a precision is declared) and `masks`."""

    count: int
    arrays: dict[str, _Array] = field(default_factory=dict)


def changed(
    offset: NDArray[np.int64],
    arrays: dict[str, _Array],
    precision: dict[str, float],
    before: Presentation | None,
) -> NDArray[np.bool_]:
    """For presentations with rows `offset[j]:offset[j+1]` of `arrays`: whether each differs from the one before it.

    `before` is the update that precedes the first. `precision` names the arrays that are yet to be rounded.
    """
    counts = np.diff(offset)
    result = np.ones(len(counts), dtype=np.bool_)
    if not len(counts):
        return result
    same = np.flatnonzero(counts[1:] == counts[:-1]) + 1
    for name in _quickest_first(arrays, precision):
        if not len(same):
            break
        same = _sampled(arrays[name], offset, same, precision.get(name))
    for name in arrays:
        if not len(same):
            break
        same = _compared(arrays[name], offset, same, precision.get(name))
    result[same] = False
    if before is not None and before.count == counts[0]:
        result[0] = not _equals(before, {name: array[: offset[1]] for name, array in arrays.items()}, precision)
    return result


def _quickest_first(arrays: dict[str, _Array], precision: dict[str, float]) -> list[str]:
    """Return numbers before texts, floats first: they tell two presentations apart soonest."""
    rank = {"f": 0, "c": 0, "T": 2}
    return sorted(arrays, key=lambda name: rank.get(arrays[name].dtype.kind, 1))


def _sampled(
    array: _Array, offset: NDArray[np.int64], same: NDArray[np.int64], precision: float | None
) -> NDArray[np.int64]:
    """Of presentations `same`, each as long as the one before it, those that agree with it in a few rows."""
    counts = offset[same + 1] - offset[same]
    filled = np.flatnonzero(counts)
    agree = np.ones(len(same), dtype=np.bool_)
    for part in range(_SAMPLE):
        if not len(filled):
            break
        places = (counts[filled] - 1) * part // max(1, _SAMPLE - 1)
        now = array[offset[same[filled]] + places]
        then = array[offset[same[filled] - 1] + places]
        equal = _rows_equal(now, then, precision)
        agree[filled[~equal]] = False
        filled = filled[equal]
    return same[agree]


def _compared(
    array: _Array, offset: NDArray[np.int64], same: NDArray[np.int64], precision: float | None
) -> NDArray[np.int64]:
    """Of presentations `same`, each as long as the one before it, those that agree with it in every row."""
    counts = offset[same + 1] - offset[same]
    if len(same) == same[-1] - same[0] + 1:
        # One run of presentations of one length: compared against itself shifted, nothing is gathered.
        now, then = array[offset[same[0]] : offset[same[-1] + 1]], array[offset[same[0] - 1] : offset[same[-1]]]
        if counts[0]:
            same = same[_rows_equal(now, then, precision).reshape(len(same), -1).all(axis=1)]
        return same
    bounds = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)
    now = array[np.repeat(offset[same], counts) + within]
    then = array[np.repeat(offset[same - 1], counts) + within]
    filled = np.flatnonzero(counts)
    agree = np.ones(len(same), dtype=np.bool_)
    if len(filled):
        agree[filled] = np.logical_and.reduceat(_rows_equal(now, then, precision), bounds[:-1][filled])
    return same[agree]


def _rows_equal(a: _Array, b: _Array, precision: float | None) -> NDArray[np.bool_]:
    """Return row by row: whether all bits agree."""
    width = math.prod(a.shape[1:])
    if not a.size:
        return np.ones(len(a), dtype=np.bool_)
    if precision is not None:
        a, b = stored(a, precision), stored(b, precision)
    if a.dtype.kind != "T":
        unit = np.dtype("u8" if a.dtype.itemsize % 8 == 0 else f"u{a.dtype.itemsize}")
        width *= a.dtype.itemsize // unit.itemsize
        a, b = np.ascontiguousarray(a).reshape(-1).view(unit), np.ascontiguousarray(b).reshape(-1).view(unit)
    equal: NDArray[np.bool_] = (a == b).reshape(-1)
    return equal if width == 1 else np.logical_and.reduce(equal.reshape(-1, width), axis=1)


def _equals(before: Presentation, arrays: dict[str, _Array], precision: dict[str, float]) -> bool:
    for name in _quickest_first(arrays, precision):
        now, then = arrays[name], before.arrays[name]
        for rows in (slice(0, _SAMPLE), slice(None)):
            rounded = stored(now[rows], precision[name]) if name in precision else now[rows]
            if not same_bits(rounded, then[rows]):
                return False
    return True


#: Frames larger than this gain nothing from being gathered.
_SMALL = 64 * 2**10
_BATCH = 2**20
_MOST = 1024


class FrameBuffer:
    """Frames that are like `model`, a frame that was accepted, as they come in."""

    def __init__(self, model: Frame, declaration: Declaration) -> None:
        self.count = 0
        self._declaration = declaration
        self._signature = _signature(model)
        nbytes = sum(c.values.nbytes for b in model.blocks.values() for c in b.columns.values())
        refers = any(
            references(block.columns, declaration.blocks[name].targets) for name, block in model.blocks.items()
        )
        self.usable = nbytes <= _SMALL and not refers
        self._size = max(1, min(_MOST, _BATCH // max(1, nbytes)))
        self._model = model
        self._columns: dict[tuple[str, str], NDArray[Any]] = {}
        self._masks: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self._steps: list[int] = []
        self._times: list[float] = []
        self._meta: dict[str, list[Any]] = {key: [] for key in declaration.meta if key in model.meta}
        self._boxes: list[Any] = []

    @property
    def full(self) -> bool:
        """True if the frames should go on."""
        return self.count >= self._size

    def takes(self, frame: Frame, last_step: int) -> bool:
        """True if a frame is sure to be accepted."""
        step = frame.step
        return (
            self.usable
            and type(step) is int
            and last_step < step < 2**63
            and (frame.time is None or type(frame.time) is float)
            and _signature(frame) == self._signature
        )

    def add(self, frame: Frame) -> None:
        """Copy a frame that `takes` let through."""
        if not self._columns:
            self._allocate()
        for (name, key), rows in self._columns.items():
            rows[self.count] = frame.blocks[name].columns[key].values
        for (name, key), flags in self._masks.items():
            mask = frame.blocks[name].columns[key].validity
            flags[self.count] = True if mask is None else mask
        for key, values in self._meta.items():
            values.append(frame.meta[key])
        if frame.box is not None:
            self._boxes.append(frame.box)
        assert frame.step is not None, "only frames with a step are taken"
        self._steps.append(frame.step)
        if frame.time is not None:
            self._times.append(frame.time)
        self.count += 1

    def take(self) -> FrameBatch:
        """Return the frames so far as a batch; the buffer is empty again."""
        count = self.count
        blocks = {}
        for name, block in self._model.blocks.items():
            columns = {key: _rows(self._columns[name, key], count) for key in block.columns}
            masks = {key: _rows(self._masks[name, key], count) for key in block.columns if (name, key) in self._masks}
            blocks[name] = BlockUpdates.uniform(count, block.count, columns, masks)
        box = None
        if self._boxes:
            parts = [(b.vectors, b.origin, b.boundary) for b in self._boxes]
            vectors, origin, boundary = (np.stack(part) for part in zip(*parts, strict=True))
            box = BoxUpdates(np.arange(count, dtype=np.int64), vectors, origin, boundary)
        batch = FrameBatch(
            np.array(self._steps, dtype=np.int64),
            np.array(self._times, dtype=np.float64) if self._times else None,
            blocks,
            {key: _values(values, self._declaration.meta[key].dtype) for key, values in self._meta.items()},
            box,
        )
        self._steps, self._times, self._boxes, self.count = [], [], [], 0
        self._meta = {key: [] for key in self._meta}
        return batch

    def _allocate(self) -> None:
        for name, block in self._model.blocks.items():
            for key, column in block.columns.items():
                self._columns[name, key] = np.zeros((self._size, *column.values.shape), dtype=column.values.dtype)
                if self._declaration.blocks[name].columns[key].nullable:
                    self._masks[name, key] = np.zeros((self._size, block.count), dtype=np.bool_)


def _signature(frame: Frame) -> tuple[Any, ...]:
    """Return what two frames share that pass the same checks."""
    return (
        [
            (
                name,
                block.count,
                block.structural_shape,
                block.targets,
                [
                    (key, column.values.dtype, column.values.shape, column.precision, column.validity is None)
                    for key, column in block.columns.items()
                ],
            )
            for name, block in frame.blocks.items()
        ],
        frame.meta.tags,
        frame.time is None,
        None if frame.box is None else frame.box.defined,
    )


def _rows(gathered: NDArray[Any], count: int) -> NDArray[Any]:
    return gathered[:count].reshape(count * gathered.shape[1], *gathered.shape[2:])


def _values(values: list[Any], tag: str) -> Any:
    """Return the values of a per-step key as a batch has them."""
    return np.array(values) if TAGS[tag].dtype == "f64" else values
