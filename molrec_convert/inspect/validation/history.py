"""How many rows a trajectory block has at which frame: a step function, and what must hold between two of them.

Source: Trajectory, "Blocks", "Three states", "Aligned".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowHistory"]


@dataclass
class RowHistory:
    """`frames` int64[k] ascending, `counts` int64[k]: from that frame on the block has so many rows.

    A regular block is `uniform` rows from frame 0 on, one update a frame, without a list of them.
    """

    frames: NDArray[np.int64]
    counts: NDArray[np.int64]
    uniform: int = 0
    updates: int = 0

    @classmethod
    def regular(cls, rows: int, updates: int) -> RowHistory:
        """Update j of `rows` rows at frame j."""
        there = 1 if updates else 0
        return cls(np.zeros(there, dtype=np.int64), np.full(there, rows, dtype=np.int64), rows, updates)

    @classmethod
    def indexed(cls, frames: NDArray[np.int64], offset: NDArray[np.int64]) -> RowHistory:
        """Update j at `frames[j]` owns rows `offset[j]:offset[j+1]`."""
        return cls(frames, np.diff(offset), 0, len(frames))

    @property
    def total(self) -> int:
        """Rows of all updates."""
        return self.uniform * self.updates if self.uniform else int(self.counts.sum())

    @property
    def first(self) -> int | None:
        """The frame of the first update, None without one."""
        return int(self.frames[0]) if len(self.frames) else None

    @property
    def first_with_rows(self) -> int | None:
        """The first frame at which the block has rows."""
        positions = np.flatnonzero(self.counts)
        return int(self.frames[positions[0]]) if len(positions) else None

    @property
    def fewest(self) -> int:
        """The smallest row count, 0 without updates."""
        return int(self.counts.min()) if len(self.counts) else 0

    def at(self, frame: int) -> int | None:
        """Rows at a frame, None while the block is absent."""
        position = int(np.searchsorted(self.frames, frame, side="right")) - 1
        return int(self.counts[position]) if position >= 0 else None

    def span_of_row(self, row: int, n_frames: int) -> tuple[int, int]:
        """The frames `first:stop` at which the update that owns a row is the current one."""
        if self.uniform:
            update = row // self.uniform
            return update, update + 1 if update + 1 < self.updates else n_frames
        offset = np.concatenate([[0], np.cumsum(self.counts)])
        update = int(np.searchsorted(offset, row, side="right")) - 1
        last = update + 1 == len(self.frames)
        return int(self.frames[update]), n_frames if last else int(self.frames[update + 1])

    def fewest_between(self, first: int, stop: int) -> tuple[int, int] | None:
        """The smallest row count at frames `first:stop`, and the first frame that has it; None while absent."""
        low = max(0, int(np.searchsorted(self.frames, first, side="right")) - 1)
        high = int(np.searchsorted(self.frames, max(stop, first + 1), side="left"))
        if low >= high:
            return None
        position = low + int(np.argmin(self.counts[low:high]))
        return int(self.counts[position]), max(first, int(self.frames[position]))

    def first_difference(self, other: RowHistory, n_frames: int) -> int | None:
        """The first frame at which this block is there and the other is absent or has another row count."""
        positions = np.union1d(self.frames, other.frames)
        positions = positions[positions < n_frames]
        if self.first is None:
            return None
        positions = positions[positions >= self.first]
        mine = self.counts[np.searchsorted(self.frames, positions, side="right") - 1]
        theirs = np.searchsorted(other.frames, positions, side="right") - 1
        counts = np.concatenate([other.counts, [-1]])[theirs]
        wrong = np.flatnonzero(mine != counts)
        return int(positions[wrong[0]]) if len(wrong) else None
