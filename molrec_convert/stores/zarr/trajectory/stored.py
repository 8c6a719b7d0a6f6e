"""One block, or the cell, of a stored trajectory: which of its updates are committed and which a frame resolves to.

Index arrays are read when the first frame is asked for and kept; from then on a frame costs a binary search over the
block's changes. Source: Trajectory, "Blocks", "box"; Zarr V3 binding, "Reopen"; Layout by example, "How a reader
resolves frame i".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BoxUpdates
from molrec_convert.model.declaration import BlockDeclaration
from molrec_convert.model.frame import Box
from molrec_convert.model.rules import RowCounts, raise_first, shape_faults
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader, read_together

__all__ = ["StoredBlock", "StoredBox", "committed_prefix"]


@dataclass
class StoredBlock:
    """The updates of one block among `n_frames` committed frames.

    `arrays` has a reader for every declared column and, under "_validity/<column>", for every mask there is.
    `regular` is the row count of a block without an index; `index` are the readers of `step_index` and `offset`.
    """

    name: str
    declared: BlockDeclaration
    n_frames: int
    arrays: dict[str, ArrayReader] = field(default_factory=dict)
    regular: int | None = None
    index: tuple[ArrayReader, ArrayReader | None] | None = None

    @property
    def node(self) -> str:
        """Path of the block's group."""
        return f"trajectory/{self.name}"

    @cached_property
    def n_updates(self) -> int:
        """Number of committed updates."""
        if self.regular is not None:
            shortest = min(len(self.arrays[key]) for key in self.declared.columns)
            updates = min(shortest // self.regular, self.n_frames)
            self._check_lengths(updates * self.regular)
            first = np.zeros(min(1, updates), dtype=np.int64)
            self._check_shape(first, first + self.regular)
            return updates
        return len(self._indexed[0])

    @cached_property
    def _indexed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Frame ordinals and row offsets of the committed updates, checked."""
        if self.index is None:
            return np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        step_index, offsets = self.index
        frames = committed_prefix(step_index, self.n_frames)
        if not len(frames):
            return frames, np.zeros(1, dtype=np.int64)
        if offsets is None or len(offsets) < len(frames) + 1:
            raise ContractError(
                f"{self.node}/offset",
                "the row offsets are fewer than the updates need",
                found=str(0 if offsets is None else len(offsets)),
                expected=str(len(frames) + 1),
            )
        raw = offsets.read(0, len(frames) + 1)
        if raw[0] != 0 or bool((raw[1:] < raw[:-1]).any()) or int(raw[-1]) >= 2**63:
            raise ContractError(f"{self.node}/offset", "row offsets start at 0 and never fall")
        offset = raw.astype(np.int64)
        self._check_lengths(int(offset[-1]))
        self._check_shape(frames, np.diff(offset))
        return frames, offset

    def _check_lengths(self, rows: int) -> None:
        """Refuse a column or mask that is shorter than the committed rows."""
        for key in self.declared.columns if rows else ():
            if key not in self.arrays:
                raise ContractError(f"{self.node}/{key}", "a declared column is missing from a block that has rows")
        for key, reader in self.arrays.items():
            if len(reader) < rows:
                raise ContractError(
                    f"{self.node}/{key}",
                    "the array is shorter than the committed updates need",
                    found=str(len(reader)),
                    expected=str(rows),
                )

    def _check_shape(self, frames: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        raise_first(shape_faults(self.node, RowCounts(frames, counts), self.declared.structural_shape))

    def resolve(self, frame: int) -> tuple[int, int, int] | None:
        """Return the update frame `frame` resolves to and its rows, as `(update, start, stop)`; None: the block is
        absent.
        """
        if self.regular is not None:
            update = min(frame, self.n_updates - 1)
            return None if update < 0 else (update, update * self.regular, (update + 1) * self.regular)
        frames, offset = self._indexed
        update = int(np.searchsorted(frames, frame, side="right")) - 1
        return None if update < 0 else (update, int(offset[update]), int(offset[update + 1]))

    def frames(self, first: int = 0, last: int | None = None) -> NDArray[np.int64]:
        """Return frame ordinals of updates `first:last`."""
        if self.regular is not None:
            return np.arange(first, self.n_updates if last is None else last, dtype=np.int64)
        return self._indexed[0][first:last]

    def offset(self, first: int, last: int) -> NDArray[np.int64]:
        """Return row offsets of updates `first:last`: one more than there are updates."""
        if self.regular is not None:
            return np.arange(first, last + 1, dtype=np.int64) * self.regular
        return self._indexed[1][first : last + 1]

    def starts(self, updates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the rows of updates begin."""
        return updates * self.regular if self.regular is not None else self._indexed[1][updates]

    def counts(self, updates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return row counts of updates."""
        if self.regular is not None:
            return np.full(len(updates), self.regular, dtype=np.int64)
        offset = self._indexed[1]
        return offset[updates + 1] - offset[updates]

    @cached_property
    def resolved(self) -> RowCounts:
        """All committed updates: frames and row counts."""
        if self.regular is not None:
            return RowCounts(self.frames(), np.full(self.n_updates, self.regular, dtype=np.int64))
        return RowCounts(self._indexed[0], np.diff(self._indexed[1]))


@dataclass
class StoredBox:
    """The cell among `n_frames` committed frames: one that holds from frame 0 on, or arrays with a row per change."""

    n_frames: int
    defined: bool = True
    fixed: Box | None = None
    arrays: dict[str, ArrayReader] = field(default_factory=dict)

    @cached_property
    def frames(self) -> NDArray[np.int64]:
        """Frame ordinals of the committed changes."""
        if self.fixed is not None:
            return np.zeros(min(1, self.n_frames), dtype=np.int64)
        if not self.arrays:
            return np.zeros(0, dtype=np.int64)
        index = self.arrays.get("step_index")
        if index is None:
            frames = np.zeros(min(1, self.n_frames), dtype=np.int64)
        else:
            frames = committed_prefix(index, self.n_frames)
        for name, reader in self.arrays.items():
            if len(reader) < len(frames):
                raise ContractError(
                    f"trajectory/box/{name}",
                    "the array is shorter than the committed changes of the cell",
                    found=str(len(reader)),
                    expected=str(len(frames)),
                )
        return frames

    def resolve(self, frame: int) -> int | None:
        """Return the change of the cell that frame `frame` resolves to, None before the first."""
        update = int(np.searchsorted(self.frames, frame, side="right")) - 1
        return None if update < 0 else update

    def updates(self, first: int, last: int) -> BoxUpdates:
        """Return changes `first:last`, their frames as ordinals of the trajectory."""
        frames = self.frames[first:last]
        count = len(frames)
        if self.fixed is not None:
            box = self.box(0)
            return BoxUpdates(frames, box.vectors[None][:count], box.origin[None][:count], box.boundary[None][:count])
        names = [name for name in ("vectors", "origin", "boundary") if name in self.arrays]
        values = dict(zip(names, read_together([(self.arrays[n], first, last) for n in names]), strict=True))
        vectors = values.get("vectors")
        boundary = values.get("boundary")
        if not self.defined:
            if boundary is not None and boundary.any():
                raise ContractError("trajectory/box/boundary", "a cell that is not defined is periodic on no axis")
            vectors, boundary = np.broadcast_to(np.eye(3), (count, 3, 3)).copy(), np.zeros((count, 3), dtype=np.bool_)
        return BoxUpdates(
            frames,
            np.zeros((count, 3, 3)) if vectors is None else vectors,
            values.get("origin", np.zeros((count, 3))),
            np.ones((count, 3), dtype=np.bool_) if boundary is None else boundary,
        )

    def box(self, update: int) -> Box:
        """Return one change of the cell."""
        if self.fixed is not None:
            return Box(self.fixed.vectors, self.fixed.origin, self.fixed.boundary, self.fixed.defined)
        return self.updates(update, update + 1).box(0, defined=self.defined)


def committed_prefix(step_index: ArrayReader, n_frames: int) -> NDArray[np.int64]:
    """Return the frame ordinals below `n_frames` at the front of a `step_index`; refused unless they ascend."""
    raw: NDArray[Any] = step_index.read()
    beyond = np.flatnonzero(raw >= np.uint64(n_frames))
    committed = raw[: int(beyond[0])] if len(beyond) else raw
    if bool((committed[1:] <= committed[:-1]).any()):
        raise ContractError(step_index.key, "the frames of updates are not strictly ascending")
    return committed.astype(np.int64)
