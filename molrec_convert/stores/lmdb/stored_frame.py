"""Frames over frame bytes: columns, blocks and snapshots that decode what is asked for, when it is asked for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.frame import Block, Box, Column, Frame, check_references
from molrec_convert.model.tags import Meta
from molrec_convert.stores.lmdb.frame_bytes import FrameBytes
from molrec_convert.stores.lmdb.frame_layout import BlockLayout, ColumnLayout

__all__ = ["StoredBlock", "StoredFrame", "ValueColumn", "stored_block"]


class Values(Protocol):
    """What gives the arrays and masks of columns."""

    def values(self, block: str, column: str, /) -> NDArray[Any]:
        """The array of a column."""

    def mask(self, block: str, column: str, /) -> NDArray[np.bool_] | None:
        """The mask of a column, None when it has none or all its rows hold a value."""


class StoredBlock(Block):
    """A block of a stored value. Its layout has been checked; arrays are decoded on first use and kept.

    `precisions` are those declared elsewhere, for values that state none themselves.
    """

    def __init__(
        self,
        source: Values,
        name: str,
        layout: BlockLayout,
        precisions: Mapping[str, float | None] | None = None,
    ) -> None:
        # nothing of the base's: its columns are made when someone looks at them
        self._source, self._name, self._layout, self._precisions = source, name, layout, precisions
        self._arrays: dict[str, NDArray[Any]] = {}
        self._columns: dict[str, Column] | None = None
        self._count = layout.count
        self.structural_shape = layout.structural_shape
        # layouts are shared between values
        self.targets = dict(layout.targets)
        self.attributes = copy.deepcopy(layout.attributes) if layout.attributes else {}

    @property
    def columns(self) -> dict[str, Column]:
        """The columns, in order."""
        if self._columns is None:
            declared = self._precisions
            self._columns = {
                key: ValueColumn(
                    self._source,
                    (self._name, key),
                    entry,
                    entry.precision if declared is None else declared.get(key),
                    self._arrays,
                )
                for key, entry in self._layout.columns.items()
            }
        return self._columns

    @columns.setter
    def columns(self, columns: dict[str, Column]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        if self._columns is None:
            array = self._arrays.get(name)
            if array is not None:
                return array
            if name in self._layout.columns:
                array = self._arrays[name] = self._source.values(self._name, name)
                return array
        return super().__getitem__(name)

    def __reduce__(self) -> Any:
        return _plain_block, (dict(self.columns), self.count, self.structural_shape, self.targets, self.attributes)


class ValueColumn(Column):
    """A column of a stored block: dtype, row shape and length are known, values and mask decoded on first use."""

    def __init__(
        self,
        source: Values,
        path: tuple[str, str],
        entry: ColumnLayout,
        precision: float | None,
        arrays: dict[str, NDArray[Any]],
    ) -> None:
        # `arrays` is the block's; the block itself would be a cycle that keeps values alive
        self._source, self._path, self._entry, self._arrays = source, path, entry, arrays
        self._mask: NDArray[np.bool_] | None = None
        self._masked = entry.validity is not None
        self.precision = precision
        self.attributes = {} if entry.extra is None else copy.deepcopy(entry.extra)

    @property
    def values(self) -> NDArray[Any]:  # type: ignore[override]
        """The rows, decoded now if they are not yet; the same array each time."""
        array = self._arrays.get(self._path[1])
        if array is None:
            array = self._arrays[self._path[1]] = self._source.values(*self._path)
        return array

    @property
    def validity(self) -> NDArray[np.bool_] | None:  # type: ignore[override]
        """The mask, decoded now if it is not yet; None when every row holds a value."""
        if self._masked:
            self._mask, self._masked = self._source.mask(*self._path), False
        return self._mask

    @property
    def dtype(self) -> str:
        """See `Column.dtype`."""
        return self._entry.dtype

    @property
    def trailing(self) -> tuple[int, ...]:
        """See `Column.trailing`."""
        return self._entry.shape[1:]

    def __len__(self) -> int:
        return self._entry.shape[0]

    def __reduce__(self) -> Any:
        return Column, (self.values, self.validity, self.precision, self.attributes)


def _plain_block(columns: Any, count: int, shape: Any, targets: Any, attributes: Any) -> Block:
    return Block(columns, count=count, structural_shape=shape, targets=targets, attributes=attributes)


def stored_block(frame: FrameBytes, name: str, precisions: Mapping[str, float | None] | None = None) -> StoredBlock:
    """A block of a decoded value."""
    return StoredBlock(frame, name, frame.layout.blocks[name], precisions)


class StoredFrame(Frame):
    """A snapshot of stored values. Taking a block checks its references, `check` those of all blocks.

    `source` holds the meta document, with its own tags or with `tags`; `referring` names the blocks whose references
    have to be checked, `absolute` is what absolute ones are held against.
    """

    def __init__(
        self,
        blocks: dict[str, Block] | None = None,
        meta: Meta | None = None,
        box: Box | None = None,
        step: int | None = None,
        time: float | None = None,
        attributes: dict[str, dict[str, Any]] | None = None,
        *,
        source: FrameBytes | None = None,
        tags: Mapping[str, str] | None = None,
        absolute: Mapping[str, int] | None = None,
        referring: tuple[str, ...] = (),
    ) -> None:
        self.blocks = {} if blocks is None else blocks
        self._meta, self._source, self._tags = meta, source, tags
        self.box, self.step, self.time = box, step, time
        self.attributes = {} if attributes is None else attributes
        self.absolute, self._referring = absolute, referring

    @property
    def meta(self) -> Meta:
        """The typed meta document, decoded now if it is not yet."""
        if self._meta is None:
            self._meta = Meta() if self._source is None else self._source.meta(self._tags)
        return self._meta

    @meta.setter
    def meta(self, meta: Meta) -> None:
        self._meta = meta

    def __getitem__(self, name: str) -> Block:
        block = self.blocks.get(name)
        if block is None:
            return super().__getitem__(name)
        if self._referring and name in self._referring:
            check_references(self._node, {name: block}, self.rows, self.absolute)
            self._referring = tuple(other for other in self._referring if other != name)
        return block

    def check(self, node: str | None = None, absolute: Mapping[str, int] | None = None) -> None:
        """See `Frame.check`; absolute references are held against the sections of the same record."""
        super().check(self._node if node is None else node, self.absolute if absolute is None else absolute)

    @property
    def _node(self) -> str:
        return "frame" if self._source is None else self._source.node

    def __reduce__(self) -> Any:
        return Frame, (dict(self.blocks), self.meta, self.box, self.step, self.time, self.attributes)
