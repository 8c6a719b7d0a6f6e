"""How `system` and the state of the particles go together.

`system/<b>` and `trajectory/<b>` (or `frame/<b>`) describe the same rows in the same order: every update has the
system block's row count, a column lives on one side only, and `id`, if on both, is equal row for row.
Source: Record, "Root and sections"; Trajectory, "Aligned".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block, Frame

__all__ = ["Alignment"]

#: The one column that may be on both sides.
_BOTH = frozenset({"id"})


class Alignment:
    """What a `system` demands of the blocks that share its names; without a system, nothing."""

    def __init__(self, system: Frame | None) -> None:
        self._blocks: dict[str, Block] = {} if system is None else system.blocks

    def check_declaration(self, declaration: Declaration) -> None:
        """Refuse a declared column that the system has too, and an aligned block named like a system block."""
        for name, declared in declaration.blocks.items():
            block = self._blocks.get(name)
            if block is None:
                continue
            here = f"trajectory/{name}"
            if declared.aligned_with is not None:
                raise ContractError(here, "an aligned block has the name of a block of system")
            self._check_columns(set(declared.columns), block, here)

    def check_batch(self, batch: FrameBatch, first: int = 0, step: int = 1) -> None:
        """Refuse updates of another row count or other ids than the system's.

        `first` is the ordinal of the batch's first frame, `step` how far apart its frames are.
        """
        for name, updates in batch.blocks.items():
            block = self._blocks.get(name)
            if block is not None:
                self._check_updates(updates, block, f"trajectory/{name}", first + updates.frames * step)

    def has_ids(self, name: str) -> bool:
        """Whether the system has ids of the rows of this block."""
        return name in self._blocks and "id" in self._blocks[name].columns

    def load(self) -> None:
        """Read the system's ids now, while its files are open."""
        for block in self._blocks.values():
            if "id" in block.columns:
                block.validity("id")
                _ = block.stored("id")

    def check_frame(self, frame: Frame, node: str = "frame", where: str = "") -> None:
        """Refuse a snapshot whose blocks do not fit the system's; `where` says which it is."""
        for name, other in frame.blocks.items():
            block = self._blocks.get(name)
            if block is None:
                continue
            here = f"{node}/{name}"
            self._check_columns(set(other.columns), block, here)
            if other.count != block.count:
                raise _row_count(here, other.count, block.count, where)
            if "id" in other.columns and "id" in block.columns:
                _check_ids(other.stored("id")[None], other.validity("id")[None], block, here, lambda _: where)

    @staticmethod
    def _check_columns(columns: set[str], block: Block, here: str) -> None:
        shared = sorted((columns & set(block.columns)) - _BOTH)
        if shared:
            raise ContractError(f"{here}/{shared[0]}", "the column is in system too: it lives on one side only")

    @staticmethod
    def _check_updates(updates: BlockUpdates, block: Block, here: str, ordinals: NDArray[np.int64]) -> None:
        sizes = np.diff(updates.offset)
        wrong = np.flatnonzero(sizes != block.count)
        if len(wrong):
            position = int(wrong[0])
            raise _row_count(here, int(sizes[position]), block.count, f" at frame {ordinals[position]}")
        if "id" in updates.columns and "id" in block.columns and block.count:
            shape = (len(sizes), block.count)
            mask = updates.validity.get("id")
            valid = np.ones(shape, dtype=np.bool_) if mask is None else mask.reshape(shape)
            ids = updates.columns["id"].reshape(shape)
            _check_ids(ids, valid, block, here, lambda update: f" at frame {ordinals[update]}")


def _row_count(node: str, found: int, expected: int, where: str = "") -> ContractError:
    return ContractError(
        node, f"the block has another row count than in system{where}", found=str(found), expected=str(expected)
    )


def _check_ids(
    ids: NDArray[Any], valid: NDArray[np.bool_], block: Block, node: str, where: Callable[[int], str]
) -> None:
    """Refuse ids [updates, rows] that are not the system's in every update; `where` names the frame of one."""
    own = block.validity("id")
    differ = (valid != own) | ((ids != block.stored("id")) & valid & own)
    if not differ.any():
        return
    update, row = (int(n) for n in np.argwhere(differ)[0])
    raise ContractError(
        f"{node}/id",
        f"id differs from system's in row {row}{where(update)}",
        found=str(ids[update, row]) if valid[update, row] else "null",
        expected=str(block.stored("id")[row]) if own[row] else "null",
    )
