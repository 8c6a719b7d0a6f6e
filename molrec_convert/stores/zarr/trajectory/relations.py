"""Rules that hold between blocks at every frame: aligned blocks, row references, blocks that share a system's name.

All of them speak of resolved blocks: at frame i, a block's last update at or before i. They can only begin to fail at
a frame where one of the two blocks is updated, so those frames alone are looked at.
Source: Trajectory, "Aligned"; Containers, "Row references"; Record, "Root and sections".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import BlockDeclaration, Declaration
from molrec_convert.model.frame import references

__all__ = ["Highest", "Resolved", "check_aligned", "check_reference", "check_system_rows", "highest", "related"]

_Ordinals = NDArray[np.int64]


@dataclass
class Resolved:
    """The updates of one block: ascending frame ordinals and row counts."""

    frames: _Ordinals
    counts: _Ordinals

    def at(self, frames: _Ordinals) -> _Ordinals:
        """The update each frame resolves to, -1 where the block is absent."""
        return np.searchsorted(self.frames, frames, side="right") - 1

    def counts_at(self, frames: _Ordinals) -> _Ordinals:
        """The resolved row count at each frame, -1 where the block is absent."""
        updates = self.at(frames)
        return np.where(updates < 0, -1, self.counts[updates] if len(self.counts) else -1)


@dataclass
class Highest:
    """The largest row each update of a column refers to; where `any` is false it refers to none."""

    row: NDArray[np.uint64]
    any: NDArray[np.bool_]


def highest(offset: _Ordinals, values: NDArray[Any], mask: NDArray[np.bool_] | None) -> Highest:
    """The largest reference in rows `offset[j]:offset[j+1]`, null rows left out."""
    counts = np.diff(offset)
    row = np.zeros(len(counts), dtype=np.uint64)
    found = counts > 0
    if mask is not None:
        per_row = mask.reshape(len(mask), *(1,) * (values.ndim - 1))
        values = np.where(per_row, values, np.uint64(0))
        filled = np.flatnonzero(found)
        if len(filled):
            found[filled] = np.logical_or.reduceat(mask, offset[:-1][filled])
    flat = values.reshape(len(values), math.prod(values.shape[1:]))
    if flat.shape[1] == 0:
        return Highest(row, np.zeros(len(counts), dtype=np.bool_))
    largest = flat[:, 0] if flat.shape[1] == 1 else flat.max(axis=1)
    filled = np.flatnonzero(counts > 0)
    if len(filled):
        row[filled] = np.maximum.reduceat(largest, offset[:-1][filled])
    return Highest(row, found)


def related(declaration: Declaration) -> list[tuple[str, str, str]]:
    """Every reference of the declaration: block, column, target."""
    return [
        (name, column, target)
        for name, block in declaration.blocks.items()
        for column, target in references(block.columns, block.targets).items()
    ]


def check_aligned(name: str, block: Resolved, target_name: str, target: Resolved) -> None:
    """Refuse a frame where an aligned block is there and its target is not, or has another row count."""
    same = np.array_equal(block.frames, target.frames)
    frames = block.frames if same else np.union1d(block.frames, target.frames)
    counts, wanted = block.counts_at(frames), target.counts_at(frames)
    wrong = np.flatnonzero((counts >= 0) & (counts != wanted))
    if len(wrong):
        at = int(wrong[0])
        if wanted[at] < 0:
            raise ContractError(
                f"trajectory/{name}", f"frame {_ordinal(frames[at])} has the aligned block but not {target_name!r}"
            )
        raise ContractError(
            f"trajectory/{name}",
            f"at frame {_ordinal(frames[at])} the block has another row count than {target_name!r}, with which it is "
            "aligned",
            found=str(int(counts[at])),
            expected=str(int(wanted[at])),
        )


def check_reference(
    name: str, column: str, block: Resolved, rows: Highest, target_name: str, target: Resolved | int
) -> None:
    """Refuse a frame where a reference names a row its target does not have, or the target is not there.

    `target` is a block of the trajectory, or the fixed row count of one elsewhere.
    """
    if isinstance(target, int):
        frames, counts = block.frames, np.full(len(block.frames), target, dtype=np.int64)
    else:
        frames = np.union1d(block.frames, target.frames)
        counts = target.counts_at(frames)
    updates = block.at(frames)
    there = updates >= 0
    updates = np.where(there, updates, 0)
    if not len(block.frames):
        return
    missing = there & (block.counts[updates] > 0) & (counts < 0)
    beyond = there & rows.any[updates] & (counts >= 0) & (rows.row[updates] >= np.maximum(counts, 0).astype(np.uint64))
    wrong = np.flatnonzero(missing | beyond)
    if len(wrong):
        at = int(wrong[0])
        here, frame = f"trajectory/{name}/{column}", _ordinal(frames[at])
        if missing[at]:
            raise ContractError(here, f"references rows of {target_name!r}, which frame {frame} does not have")
        raise ContractError(
            here,
            f"at frame {frame} a reference into {target_name!r} is out of range",
            found=str(int(rows.row[updates[at]])),
            expected=f"less than {int(counts[at])}",
        )


def check_system_rows(name: str, declared: BlockDeclaration, block: Resolved, rows: int) -> None:
    """Refuse updates with another row count than the system's block of the same name."""
    if declared.aligned_with is not None:
        raise ContractError(f"trajectory/{name}", "an aligned block must not have the name of a block of system")
    wrong = np.flatnonzero(block.counts != rows)
    if len(wrong):
        raise ContractError(
            f"trajectory/{name}",
            f"the block has another row count than in system at frame {_ordinal(block.frames[wrong[0]])}",
            found=str(int(block.counts[wrong[0]])),
            expected=str(rows),
        )


def _ordinal(frame: Any) -> int:
    return max(0, int(frame))
