"""Frames and records over frame bytes: what is asked for is decoded when it is asked for."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.frame import Block, Box, Column, Frame, check_references
from molrec_convert.model.record import Record
from molrec_convert.model.tags import Meta
from molrec_convert.model.trajectory import Trajectory
from molrec_convert.stores.lmdb.values.decode import FrameBytes
from molrec_convert.stores.lmdb.values.layout import BlockLayout, ColumnLayout

__all__ = ["Once", "StoredBlock", "StoredFrame", "StoredRecord", "ValueColumn", "stored_block"]


class Values(Protocol):
    """What gives the arrays and masks of columns."""

    def values(self, block: str, column: str, /) -> NDArray[Any]:
        """Return the array of a column."""

    def mask(self, block: str, column: str, /) -> NDArray[np.bool_] | None:
        """Return the mask of a column, None when it has none or all its rows hold a value."""

    def arrays(self, block: str, /) -> dict[str, NDArray[Any]]:
        """Return the arrays that are made more quickly together, by column."""


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
        self._arrays: dict[str, NDArray[Any]] | None = None
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
            arrays = self._decoded()
            self._columns = {
                key: ValueColumn(
                    self._source,
                    (self._name, key),
                    entry,
                    entry.precision if declared is None else declared.get(key),
                    arrays,
                )
                for key, entry in self._layout.columns.items()
            }
        return self._columns

    @columns.setter
    def columns(self, columns: dict[str, Column]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        if self._columns is None:
            entry = self._layout.columns.get(name)
            if entry is not None and entry.validity is None:
                return self.stored(name)
        return super().__getitem__(name)

    def stored(self, name: str) -> NDArray[Any]:
        """See `Block.stored`."""
        if self._columns is None:
            arrays = self._arrays
            if arrays is None:
                arrays = self._arrays = self._source.arrays(self._name)
            array = arrays.get(name)
            if array is None and name in self._layout.columns:
                array = arrays[name] = self._source.values(self._name, name)
            if array is not None:
                return array
        return super().stored(name)

    def _decoded(self) -> dict[str, NDArray[Any]]:
        """Return the arrays made so far; columns add to them."""
        if self._arrays is None:
            self._arrays = {}
        return self._arrays

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
    """Return a block of a decoded value."""
    return StoredBlock(frame, name, frame.layout.blocks[name], precisions)


_LATER: Any = object()


class StoredFrame(Frame):
    """A snapshot of stored values. Taking a block checks its references, `check` those of all blocks.

    What `source` says of meta, step, time and cell is decoded on first use; a cell it leaves out `earlier` finds.
    `tags` are those of the meta, where the value does not state them; `meta_of` decodes a meta that needs more than
    that. `referring` names the blocks whose references have to be checked, `absolute` is what absolute ones are held
    against.
    """

    def __init__(
        self,
        blocks: dict[str, Block] | None = None,
        meta: Meta | None = None,
        box: Box | None = None,
        step: int | None = None,
        time: float | None = None,
        attributes: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.blocks = {} if blocks is None else blocks
        self._meta, self._box, self._step, self._time = Meta() if meta is None else meta, box, step, time
        self.attributes = {} if attributes is None else attributes
        self._source: FrameBytes | None = None
        self._referring: tuple[str, ...] = ()
        self.absolute: Mapping[str, int] | None = None

    @classmethod
    def of(
        cls,
        source: FrameBytes,
        blocks: dict[str, Block],
        meta: Callable[[FrameBytes], Meta],
        *,
        is_step: bool,
        earlier: Callable[[str], FrameBytes | None] | None = None,
        absolute: Mapping[str, int] | None = None,
        referring: tuple[str, ...] = (),
    ) -> StoredFrame:
        """Return a snapshot of a value: a frame of a trajectory (`is_step`), or a system."""
        frame = cls.__new__(cls)
        frame.blocks, frame.attributes = blocks, {}
        frame._source, frame._read_meta, frame._earlier = source, meta, earlier
        frame._meta = frame._box = _LATER
        frame._step = frame._time = _LATER if is_step else None
        frame.absolute, frame._referring = absolute, referring
        return frame

    _read_meta: Callable[[FrameBytes], Meta]
    _earlier: Callable[[str], FrameBytes | None] | None

    @property
    def meta(self) -> Meta:
        """The typed meta document."""
        if self._meta is _LATER:
            assert self._source is not None
            self._meta = self._read_meta(self._source)
        return self._meta

    @meta.setter
    def meta(self, meta: Meta) -> None:
        self._meta = meta

    @property
    def box(self) -> Box | None:
        """The cell."""
        if self._box is _LATER:
            assert self._source is not None
            source: FrameBytes | None = self._source
            if not self._source.has_box and self._earlier is not None:
                source = self._earlier("box")
            self._box = None if source is None else source.box
        return self._box

    @box.setter
    def box(self, box: Box | None) -> None:
        self._box = box

    @property
    def step(self) -> int | None:
        """The step number."""
        if self._step is _LATER:
            assert self._source is not None
            self._step = self._source.step
        return self._step

    @step.setter
    def step(self, step: int | None) -> None:
        self._step = step

    @property
    def time(self) -> float | None:
        """The time."""
        if self._time is _LATER:
            assert self._source is not None
            self._time = self._source.time
        return self._time

    @time.setter
    def time(self, time: float | None) -> None:
        self._time = time

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
        _ = self.meta, self.box, self.step, self.time

    @property
    def _node(self) -> str:
        return "frame" if self._source is None else self._source.node

    def __reduce__(self) -> Any:
        return Frame, (dict(self.blocks), self.meta, self.box, self.step, self.time, self.attributes)


T = TypeVar("T")
_UNREAD: Any = object()


class Once(Generic[T]):
    """Something that is read when it is first asked for."""

    __slots__ = ("_read", "_value")

    def __init__(self, read: Callable[[], T], value: T = _UNREAD) -> None:
        self._read, self._value = read, value

    def __call__(self) -> T:
        """Return the value, read now if it is not yet."""
        if self._value is _UNREAD:
            self._value = self._read()
        return self._value


class StoredRecord(Record):
    """A record that reads `meta`, `system` and `trajectory` on first use; a pickled one has them with it."""

    @classmethod
    def reading(
        cls,
        meta: Once[dict[str, Any]],
        system: Once[Frame | None],
        trajectory: Once[Trajectory | None],
        path: str | None,
    ) -> StoredRecord:
        """Return a record of parts that are read later."""
        record = cls.__new__(cls)
        own = record.__dict__
        for name, factory in _FACTORIES:
            own[name] = factory()
        own["_meta"], own["_system"], own["_trajectory"], own["path"] = meta, system, trajectory, path
        return record

    @property
    def meta(self) -> dict[str, Any]:
        """The record's meta document."""
        document: dict[str, Any] = self.__dict__["_meta"]()
        return document

    @meta.setter
    def meta(self, document: dict[str, Any]) -> None:
        self.__dict__["_meta"] = Once(dict, document)

    @property
    def system(self) -> Frame | None:
        """What the particles are."""
        frame: Frame | None = self.__dict__["_system"]()
        return frame

    @system.setter
    def system(self, frame: Frame | None) -> None:
        self.__dict__["_system"] = Once(lambda: None, frame)

    @property
    def trajectory(self) -> Trajectory | None:
        """The record's frames."""
        frames: Trajectory | None = self.__dict__["_trajectory"]()
        return frames

    @trajectory.setter
    def trajectory(self, trajectory: Trajectory | None) -> None:
        self.__dict__["_trajectory"] = Once(lambda: None, trajectory)

    def __reduce__(self) -> Any:
        own = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(Record) if entry.name[0] != "_"}
        return _plain_record, (own,)


#: Fields that every record has one of its own of.
_FACTORIES = [
    (entry.name, entry.default_factory)
    for entry in dataclasses.fields(Record)
    if entry.default_factory is not dataclasses.MISSING and entry.name != "meta"
]


def _plain_record(fields: dict[str, Any]) -> Record:
    return Record(**fields)
