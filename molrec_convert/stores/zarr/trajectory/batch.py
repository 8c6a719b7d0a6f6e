"""A frame batch held against the declaration before any of it is kept: what is outside it is refused.

Source: Trajectory, "sequence_schema", "Nullable", "meta".
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.declaration import NO_FILL, BlockDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.dtypes import DTYPES, as_values
from molrec_convert.model.precision import stored
from molrec_convert.model.tags import TAGS, check_json, coerce

__all__ = ["MASKS", "Presented", "mask_key", "meta_array", "presented_blocks"]

#: Folder of a block's masks.
MASKS = "_validity"


def mask_key(column: str) -> str:
    """The key below its block of the mask of a column."""
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

    def take(self, kept: NDArray[np.bool_]) -> Presented:
        """The presentations that `kept` marks."""
        if kept.all():
            return self
        counts = self.counts
        offset = np.concatenate([[0], np.cumsum(counts[kept])]).astype(np.int64)
        rows: Any = np.repeat(kept, counts) if kept.any() else slice(0, 0)
        return Presented(self.frames[kept], offset, {key: array[rows] for key, array in self.arrays.items()})

    def shifted(self, frames: int) -> Presented:
        """The same, `frames` further on."""
        return Presented(self.frames + frames, self.offset, self.arrays)

    def split(self, position: int) -> tuple[Presented, Presented]:
        """The presentations of frames before `position`, and the others."""
        at = int(np.searchsorted(self.frames, position))
        row = int(self.offset[at])
        before = {key: array[:row] for key, array in self.arrays.items()}
        after = {key: array[row:] for key, array in self.arrays.items()}
        return (
            Presented(self.frames[:at], self.offset[: at + 1], before),
            Presented(self.frames[at:], self.offset[at:] - row, after),
        )


def presented_blocks(batch: FrameBatch, declaration: Declaration) -> dict[str, Presented]:
    """The blocks of a batch in their declared order; a block or column outside the declaration is refused."""
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
    if declared.structural_shape is not None:
        wrong = np.flatnonzero(np.diff(offset) != math.prod(declared.structural_shape))
        if len(wrong):
            raise ContractError(
                node,
                "the structural shape fixes the row count",
                found=str(int(np.diff(offset)[wrong[0]])),
                expected=str(math.prod(declared.structural_shape)),
            )
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
    """The values `[n, …]` of a per-step key as they are stored; a key that is omitted takes its declared fill."""
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
