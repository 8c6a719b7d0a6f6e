"""Frames over frame bytes: columns, blocks and snapshots that decode what is asked for, when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.frame import Block, Box, Column, Frame, check_references
from molrec_convert.model.tags import Meta
from molrec_convert.stores.lmdb.frame_bytes import FrameBytes

__all__ = ["StoredBlock", "StoredFrame", "ValueColumn", "stored_block"]


class _Values(Protocol):
    def values(self, block: str, column: str, /) -> NDArray[Any]: ...
    def mask(self, block: str, column: str, /) -> NDArray[np.bool_] | None: ...


class ValueColumn(Column):
    """A column of a stored value: dtype, row shape and length are known, values and mask decoded on first use."""

    def __init__(
        self,
        source: _Values,
        block: str,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        precision: float | None = None,
        masked: bool = False,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self._source, self._block, self._name = source, block, name
        self._dtype, self._shape, self._masked = dtype, shape, masked
        self._values: NDArray[Any] | None = None
        self._mask: NDArray[np.bool_] | None = None
        self.precision = precision
        self.attributes = attributes or {}

    @property
    def values(self) -> NDArray[Any]:  # type: ignore[override]
        """The rows, decoded now if they are not yet."""
        if self._values is None:
            self._values = self._source.values(self._block, self._name)
        return self._values

    @property
    def validity(self) -> NDArray[np.bool_] | None:  # type: ignore[override]
        """The mask, decoded now if it is not yet; None when every row holds a value."""
        if self._masked:
            self._mask, self._masked = self._source.mask(self._block, self._name), False
        return self._mask

    @property
    def dtype(self) -> str:
        """See `Column.dtype`."""
        return self._dtype

    @property
    def trailing(self) -> tuple[int, ...]:
        """See `Column.trailing`."""
        return self._shape[1:]

    def __len__(self) -> int:
        return self._shape[0]

    def __reduce__(self) -> Any:
        return Column, (self.values, self.validity, self.precision, self.attributes)


class StoredBlock(Block):
    """A block of a stored value, made without looking at its columns: its layout has been checked."""

    def __init__(
        self,
        columns: dict[str, Column],
        count: int,
        structural_shape: tuple[int, ...] | None = None,
        targets: Mapping[str, str] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(None, count=count, structural_shape=structural_shape, targets=targets, attributes=attributes)
        self.columns = columns

    def __reduce__(self) -> Any:
        return _plain_block, (dict(self.columns), self.count, self.structural_shape, self.targets, self.attributes)


def _plain_block(columns: Any, count: int, shape: Any, targets: Any, attributes: Any) -> Block:
    return Block(columns, count=count, structural_shape=shape, targets=targets, attributes=attributes)


def stored_block(frame: FrameBytes, name: str, precisions: Mapping[str, float | None] | None = None) -> StoredBlock:
    """A block of a decoded value. `precisions` are those declared elsewhere, for values that state none themselves."""
    layout = frame.blocks[name]
    columns: dict[str, Column] = {
        key: ValueColumn(
            frame,
            name,
            key,
            entry.dtype,
            entry.shape,
            entry.precision if precisions is None else precisions.get(key),
            entry.validity is not None,
            entry.extra,
        )
        for key, entry in layout.columns.items()
    }
    return StoredBlock(columns, layout.count, layout.structural_shape, layout.targets, layout.attributes)


class StoredFrame(Frame):
    """A snapshot of stored values. Taking a block checks its references, `check` those of all blocks."""

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
        node: str = "frame",
        absolute: Mapping[str, int] | None = None,
        referring: frozenset[str] = frozenset(),
    ) -> None:
        self.blocks = {} if blocks is None else blocks
        self._meta, self._source, self._tags = meta, source, tags
        self.box, self.step, self.time = box, step, time
        self.attributes = attributes or {}
        self._node, self.absolute = node, absolute
        #: Blocks whose references have not been checked yet.
        self._referring = set(referring)

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
        block = super().__getitem__(name)
        if name in self._referring:
            check_references(self._node, {name: block}, self.rows, self.absolute)
            self._referring.discard(name)
        return block

    def check(self, node: str | None = None, absolute: Mapping[str, int] | None = None) -> None:
        """See `Frame.check`; absolute references are held against the sections of the same record."""
        super().check(self._node if node is None else node, self.absolute if absolute is None else absolute)

    def __reduce__(self) -> Any:
        return Frame, (dict(self.blocks), self.meta, self.box, self.step, self.time, self.attributes)
