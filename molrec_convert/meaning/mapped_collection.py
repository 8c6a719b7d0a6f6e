"""A collection whose records a function goes over as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block
from molrec_convert.model.record import Record

__all__ = ["MappedCollection"]


class MappedCollection(Collection):
    """The records of another collection, each changed by `change`; what they become is declared in `declaration`."""

    def __init__(self, source: Collection, change: Callable[[Record], Record], declaration: Declaration) -> None:
        self.source, self._change, self.declaration = source, change, declaration
        self.document, self.path, self.extra = dict(source.document), source.path, source.extra
        self.has_rows, self.random_access, self.reports = source.has_rows, source.random_access, source.reports

    @property
    def index(self) -> Block:
        """See `Collection.index`."""
        return self.source.index

    @property
    def index_columns(self) -> dict[str, ColumnDeclaration]:
        """See `Collection.index_columns`."""
        return self.source.index_columns

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return self.source.n_frames

    @property
    def forcefield(self) -> ForceField | None:
        """See `Collection.forcefield`."""
        return self.source.forcefield

    def __len__(self) -> int:
        return len(self.source)

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return self._change(self.source.record(index))

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`."""
        return ((self._change(record), row) for record, row in self.source.members())

    def span(self, start: int, stop: int | None = None) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.span`."""
        return ((self._change(record), row) for record, row in self.source.span(start, stop))

    @property
    def atom_rows(self) -> int:
        """See `Collection.atom_rows`."""
        return self.source.atom_rows

    def outline(self, *, index: bool = True) -> dict[str, Any] | None:
        """See `Collection.outline`."""
        return self.source.outline(index=index)

    def unknown_parts(self, index: int) -> list[str]:
        """See `Collection.unknown_parts`."""
        return self.source.unknown_parts(index)

    def unknown_values(self) -> Iterator[tuple[bytes, bytes]]:
        """See `Collection.unknown_values`."""
        return self.source.unknown_values()

    def close(self) -> None:
        """Close the source's file."""
        self.source.close()
