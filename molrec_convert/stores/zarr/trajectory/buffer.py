"""Small frames that come one by one, gathered into batches.

A frame that has the same blocks, row counts, dtypes, keys and parts as the one before it, which passed all checks,
passes them too as long as it refers to no rows. Such frames are copied side by side and go on as one batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.batch import BlockUpdates, BoxUpdates, FrameBatch
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Frame, references
from molrec_convert.model.tags import TAGS

__all__ = ["FrameBuffer"]

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
        """Whether the frames should go on."""
        return self.count >= self._size

    def takes(self, frame: Frame, last_step: int) -> bool:
        """Whether a frame is sure to be accepted."""
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
        """The frames so far as a batch; the buffer is empty again."""
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
    """What two frames share that pass the same checks."""
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
    """The values of a per-step key as a batch has them."""
    return np.array(values) if TAGS[tag].dtype == "f64" else values
