"""One record of a collection: its parts are read when they are asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from molrec_convert.model.frame import Frame
from molrec_convert.model.record import Record
from molrec_convert.model.trajectory import Trajectory

__all__ = ["Once", "StoredRecord"]

T = TypeVar("T")
_UNREAD: Any = object()


class Once(Generic[T]):
    """Something that is read when it is first asked for."""

    __slots__ = ("_read", "_value")

    def __init__(self, read: Callable[[], T], value: T = _UNREAD) -> None:
        self._read, self._value = read, value

    def __call__(self) -> T:
        """The value, read now if it is not yet."""
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
        """A record of parts that are read later."""
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
