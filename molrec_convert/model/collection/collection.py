"""Collections: many records under one declaration, in memory or lazily read, and views that select some of them.

`len(c)`, `c[i]` (a `Record`), iteration, `c.index["n_atoms"]` (a numpy array with one value per record),
`c.select(...)`. Source: Collection and its LMDB file.
"""

from __future__ import annotations

import dataclasses
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.collection.declaration import (
    check_member_declaration,
    collection_document,
    derive_declaration,
    part_document,
)
from molrec_convert.model.collection.index import (
    INDEX_COLUMNS,
    IndexBuilder,
    IndexColumns,
    first_frames,
    index_rows,
    single_frame_columns,
)
from molrec_convert.model.collection.member import as_member, first_update_rows, member_rows, with_units
from molrec_convert.model.collection.query import parse_query
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Column, Frame
from molrec_convert.model.record import Record, RecordBatch, frame_sample, record_sample
from molrec_convert.model.trajectory import Trajectory
from molrec_convert.report import Report
from molrec_convert.wiring import resolve

__all__ = ["Collection", "CollectionView", "JoinedCollection", "MemoryCollection", "Selection", "record_of"]

#: What selects records: an expression over index columns, one bool per record, ordinals, or a slice.
Selection = str | Sequence[int] | NDArray[Any] | slice


class Collection(ABC):
    """Many records with one declaration, one document, at most one force field, and an index.

    `c[i]` is a record, `c[2:8]`, `c[mask]`, `c[[4, 1]]` smaller collections, `c.frame(j)` a frame, `len(c)` the number
    of records; a context manager, which closes the file there may be behind it.

    `document` carries `units` (quantity → unit) and `molrec_version`. `index` has one row per record: `first_frame`,
    `n_frames`, `n_atoms`, `has_trajectory`, and the columns the collection was made with; its `columns` have masks.
    Frames are numbered through: record `r` has the frames from `first_frame[r]` on.
    """

    declaration: Declaration
    document: dict[str, Any]
    path: str | None = None
    #: Whether `span` costs what it gives, and not what stands before it, too.
    random_access: bool = False
    #: Whether records are rows of a database: one that cannot be read says nothing of the others.
    has_rows: bool = False
    #: Of files that were read in one go what reading each alone says, as soon as its record was asked for, but for what
    #: is merely carried; None where the report of the reading has it.
    reports: Sequence[Report] | None = None
    #: What the collection says of itself beside that, in keys this version has no meaning for.
    extra: Mapping[str, Any] = MappingProxyType({})

    @property
    @abstractmethod
    def index(self) -> Block:
        """One row per record."""

    @property
    @abstractmethod
    def n_frames(self) -> int:
        """Number of frames of all records."""

    @property
    @abstractmethod
    def forcefield(self) -> ForceField | None:
        """The force field all records share."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def record(self, index: int) -> Record:
        """Return the record at a non-negative ordinal."""

    @property
    def units(self) -> dict[str, str]:
        """The units of every number: quantity → unit."""
        units: dict[str, str] = self.document["units"]
        return units

    @property
    def index_columns(self) -> dict[str, ColumnDeclaration]:
        """The columns of the index beside those every collection has by itself."""
        return {
            name: ColumnDeclaration(column.dtype, column.trailing, column.validity is not None, column.precision)
            for name, column in self.index.columns.items()
            if name not in INDEX_COLUMNS
        }

    @property
    def atom_rows(self) -> int:
        """Atoms of all frames, counted once in each: frames times `n_atoms` of every record."""
        index = self.index
        return int((index["n_frames"] * index["n_atoms"]).sum())

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """Yield every record with its values of `index_columns`, None for a null."""
        yield from zip(self, index_rows(self.index), strict=True)

    def span(self, start: int, stop: int | None = None) -> Iterator[tuple[Record, dict[str, Any]]]:
        """Yield what `members` gives of the records from `start` to `stop`, without reading those before."""
        numbers = range(*slice(start, stop).indices(len(self)))
        yield from zip(map(self.record, numbers), index_rows(self.index, start, stop), strict=True)

    def record_batches(self, start: int = 0, stop: int | None = None) -> Iterator[RecordBatch] | None:
        """Return the records from `start` to `stop`, many at once; None where there is no such way to read them."""
        return None

    def outline(self, *, index: bool = True) -> dict[str, Any] | None:
        """Return what was found out by looking at all of it, as a JSON document; None where that costs nothing.

        Whoever opens the same input again hands it to the reader, see `ReadContext.outline`. Without `index` nothing is
        found out for the columns of the index, and the collection that is opened with it has none of its own.
        """
        return None

    def same_values(self, index: int, other: Collection, position: int) -> bool:
        """True if a record is known to be stored as the one of another collection is, to the byte."""
        return False

    def unknown_parts(self, index: int) -> list[str]:
        """Return what is stored of a record that it does not say, as this version has no meaning for it; by name."""
        return []

    def unknown_values(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys of the file this version has no meaning for, and their values."""
        return iter(())

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Record: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | Sequence[bool] | NDArray[Any]) -> Collection: ...
    def __getitem__(self, index: Any) -> Record | Collection:
        if isinstance(index, (slice, list, tuple)) or (isinstance(index, np.ndarray) and index.ndim):
            return self.select(index)
        if isinstance(index, str):
            raise TypeError(f"records are counted; select({index!r}) takes a condition, index[{index!r}] is a column")
        return self.record(_position(operator.index(index), len(self), "record"))

    def __iter__(self) -> Iterator[Record]:
        return (self.record(index) for index in range(len(self)))

    def locate(self, frame: int) -> tuple[int, int]:
        """Record and frame within it of a global frame ordinal."""
        position = _position(frame, self.n_frames, "frame")
        first = self.index["first_frame"]
        # the last record that begins at or before: those of no frames before it begin there too
        record = int(first.searchsorted(np.uint64(position), side="right")) - 1
        return record, position - int(first[record])

    def frame(self, index: int) -> Frame:
        """Return the resolved frame at a global ordinal."""
        record, position = self.locate(index)
        trajectory = self.record(record).trajectory
        assert trajectory is not None
        return trajectory.frame(position)

    def sample(self, frame: int) -> dict[str, Any]:
        """Return the frame at a global ordinal and its record's system as one flat dict of arrays and plain values.

        `"atoms/x"` is an array of the caller's own, `"pe"` a value: see `frame_sample`. What both say is the frame's.
        """
        record, position = self.locate(frame)
        member = self.record(record)
        assert member.trajectory is not None
        system = {} if member.system is None else frame_sample(member.system)
        return {**system, **frame_sample(member.trajectory.frame(position), self.declaration)}

    def record_sample(self, index: int) -> dict[str, Any]:
        """Return the record at an ordinal as `{"system": {...}, "frames": [{...}, ...]}`, each as `sample` has it."""
        return record_sample(self[index])

    def select(self, which: Selection) -> Collection:
        """Return a view of some records, in the order named; nothing is read but the index.

        `which` is an expression (`"n_atoms <= 20 and smiles == 'OO'"`), a bool per record, ordinals, or a slice.
        """
        return CollectionView(self, _positions(which, self))

    def _repr_html_(self) -> str:
        text: str = resolve("collection_html")(self)
        return text

    def close(self) -> None:  # noqa: B027 - most collections hold no file
        """Let go of the file behind the collection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        blocks = ", ".join(self.declaration.blocks) or "no blocks"
        return f"<{type(self).__name__}: {len(self)} records, {self.n_frames} frames; {blocks}>"


class MemoryCollection(Collection):
    """Records in memory. A record's `frame` becomes a trajectory of one frame, reported as converted.

    Units come from `units` or `document["units"]`. The declaration is derived from the records where it is not given;
    a record outside it is refused, and one with a force field of its own.
    """

    def __init__(
        self,
        records: Iterable[Record],
        *,
        units: Mapping[str, str] | None = None,
        document: Mapping[str, Any] | None = None,
        declaration: Declaration | None = None,
        index_columns: IndexColumns = (),
        forcefield: ForceField | None = None,
        report: Report | None = None,
    ) -> None:
        stated = dict(document or {})
        if units is not None:
            stated["units"] = dict(units)
        self.document = collection_document(stated)
        self._records = [as_member(record, report) for record in records]
        declared = [r.trajectory.declaration for r in self._records if r.trajectory is not None]
        self.declaration = derive_declaration(declared) if declaration is None else declaration
        self.declaration.check()
        self._forcefield = forcefield
        if forcefield is not None:
            check_forcefield(forcefield, self.document)
        builder = IndexBuilder(index_columns)
        for number, record in enumerate(self._records):
            node = f"record {number}"
            check_member(record, node)
            frames = 0
            if record.trajectory is not None:
                check_member_declaration(record.trajectory.declaration, self.declaration, f"{node}/trajectory")
                frames = _count_frames(record.trajectory)
            builder.add(
                builder.row(record),
                frames,
                member_rows(record, first_update_rows(record)),
                record.trajectory is not None,
            )
        self._index = builder.block()

    @property
    def index(self) -> Block:
        """See `Collection.index`."""
        return self._index

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return int(self._index["n_frames"].sum())

    @property
    def forcefield(self) -> ForceField | None:
        """See `Collection.forcefield`."""
        return self._forcefield

    def __len__(self) -> int:
        return len(self._records)

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return self._records[index]


class CollectionView(Collection):
    """Some records of another collection, in an order of their own."""

    def __init__(self, source: Collection, positions: NDArray[np.int64]) -> None:
        self.source, self.positions = source, positions
        self.declaration, self.path, self.extra = source.declaration, source.path, source.extra
        self.document = source.document if len(positions) == len(source) else part_document(source.document)
        self._index: Block | None = None

    @property
    def index(self) -> Block:
        """The source's rows, `first_frame` counted anew."""
        if self._index is None:
            columns = {}
            for name, column in self.source.index.columns.items():
                mask = None if column.validity is None else column.validity[self.positions]
                columns[name] = Column(column.values[self.positions], mask, column.precision)
            columns["first_frame"] = Column(first_frames(columns["n_frames"].values))
            self._index = Block(columns, count=len(self.positions))
        return self._index

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return int(self.index["n_frames"].sum())

    @property
    def forcefield(self) -> ForceField | None:
        """See `Collection.forcefield`."""
        return self.source.forcefield

    def __len__(self) -> int:
        return len(self.positions)

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return self.source.record(int(self.positions[index]))

    def unknown_parts(self, index: int) -> list[str]:
        """See `Collection.unknown_parts`."""
        return self.source.unknown_parts(int(self.positions[index]))

    def same_values(self, index: int, other: Collection, position: int) -> bool:
        """See `Collection.same_values`."""
        if isinstance(other, CollectionView):
            position, other = int(other.positions[position]), other.source
        return self.source.same_values(int(self.positions[index]), other, position)

    def sample(self, frame: int) -> dict[str, Any]:
        """See `Collection.sample`."""
        record, position = self.locate(frame)
        return self.source.sample(int(self.source.index["first_frame"][self.positions[record]]) + position)

    def record_sample(self, index: int) -> dict[str, Any]:
        """See `Collection.record_sample`."""
        return self.source.record_sample(int(self.positions[_position(index, len(self), "record")]))

    def close(self) -> None:
        """Let go of the source's file."""
        self.source.close()


def check_forcefield(forcefield: ForceField, document: Mapping[str, Any]) -> None:
    """Refuse a force field that breaks a rule, or that a collection of this version would have misread."""
    forcefield.check_version(document.get("molrec_version"))
    forcefield.check()


def check_member(record: Record, node: str) -> None:
    """Refuse a record with a force field of its own, or with neither system nor trajectory."""
    own = getattr(record, "forcefield", None) is not None
    if not own and record.unknown is not None:
        own = any(key.partition("/")[0] == "forcefield" for key in record.unknown.keys())  # noqa: SIM118
    if own:
        raise ContractError(f"{node}/forcefield", "a record of a collection has no force field of its own")
    if record.system is None and record.trajectory is None:
        raise ContractError(node, "a record of a collection has a system or a trajectory")


def _count_frames(trajectory: Trajectory) -> int:
    count = trajectory.n_frames
    return sum(batch.n_frames for batch in trajectory.batches(columns=())) if count is None else count


def _position(index: int, count: int, what: str) -> int:
    position = index + count if index < 0 else index
    if not 0 <= position < count:
        raise IndexError(f"{what} {index} of a collection of {count}")
    return position


def _positions(which: Selection, collection: Collection) -> NDArray[np.int64]:
    count = len(collection)
    if isinstance(which, slice):
        return np.arange(count, dtype=np.int64)[which]
    if isinstance(which, str):
        return np.flatnonzero(parse_query(which).mask(collection.index)).astype(np.int64)
    chosen = np.asarray(which)
    if chosen.dtype == np.bool_:
        if chosen.shape != (count,):
            raise UsageError(f"a selection has one bool for each of {count} records, not {list(chosen.shape)}")
        return np.flatnonzero(chosen).astype(np.int64)
    if chosen.size == 0:
        return np.zeros(0, np.int64)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise UsageError("records are selected by an expression, a bool for each, or their ordinals")
    wrong = chosen[(chosen < -count) | (chosen >= count)]
    if len(wrong):
        raise UsageError(f"there is no record {wrong[0]} in a collection of {count}")
    positions = chosen.astype(np.int64)
    return np.where(positions < 0, positions + count, positions)


class JoinedCollection(Collection):
    """The records of files that were read together; each is made by `make` when it is asked for.

    `counts` are the atoms of each; `reports` as in `Collection.reports`.
    """

    random_access = True

    def __init__(
        self,
        paths: Sequence[Path],
        counts: Sequence[int],
        declaration: Declaration,
        units: Mapping[str, str],
        make: Callable[[int], Record],
        reports: Sequence[Report],
    ) -> None:
        declaration.check()
        self.declaration, self.reports = declaration, reports
        self.document = collection_document({"units": dict(units)})
        self.path = str(paths[0])
        self._make = make
        self._index = Block(single_frame_columns(np.asarray(counts, np.int64)), count=len(paths))

    @property
    def index(self) -> Block:
        """See `Collection.index`."""
        return self._index

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return len(self)

    @property
    def forcefield(self) -> ForceField | None:
        """Files that are read together have none."""
        return None

    def __len__(self) -> int:
        return self._index.count

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return self._make(index)

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`."""
        return ((record, {}) for record in self)


def record_of(collection: Collection, index: int, report: Report | None = None) -> Record:
    """Return a record of a collection as it stands alone: with the collection's force field, version and units.

    Units go to the meta of its system, where that states none.
    """
    report = Report() if report is None else report
    record = collection[index]
    changes: dict[str, Any] = {}
    version = collection.document.get("molrec_version")
    if version is not None and "molrec_version" not in record.meta:
        changes["meta"] = {"molrec_version": version, **record.meta}
    if collection.units and record.units is None:
        report.converted("units", "the collection's, which the record's system states now")
        changes["system"] = with_units(record.system, collection.units)
    if collection.forcefield is not None:
        changes["forcefield"] = collection.forcefield
    return dataclasses.replace(record, **changes) if changes else record
