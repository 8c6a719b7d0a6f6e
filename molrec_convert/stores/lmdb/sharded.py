"""A set of collections in several files, read and written as one.

A manifest names the parts; a record or frame is found by counting alone. Opening reads the manifest and the first
part's key `meta`; a part is opened when something of it is asked for, in each process for itself. The index is put
together on first use, its texts column by column. A set takes its name when all of it is there.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, FormatError, UsageError
from molrec_convert.files.staging import Staging, check_apart, replacing
from molrec_convert.model.collection.collection import Collection, CollectionView
from molrec_convert.model.collection.index import (
    INDEX_COLUMNS,
    IndexColumns,
    declared_columns,
    first_frames,
    join_columns,
    joined_declarations,
)
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Frame
from molrec_convert.model.record import Record
from molrec_convert.model.tags import canonical_json
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.manifest import (
    Manifest,
    Part,
    file_checksum,
    files_of,
    is_set,
    manifest_text,
    part_name,
    read_manifest,
    save_manifest,
)
from molrec_convert.stores.lmdb.reader import StoredCollection
from molrec_convert.stores.lmdb.reader import open_collection as open_file
from molrec_convert.stores.lmdb.values.layout import BlockLayout, ColumnLayout
from molrec_convert.stores.lmdb.values.stored_frame import StoredBlock, StoredRecord
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = [
    "ShardedCollection",
    "ShardedCollectionWriter",
    "is_stored",
    "open_collection",
    "part_of",
    "places",
    "save_set",
]

#: So many parts stay open at once.
_MOST_OPEN = 128


def open_collection(path: str | os.PathLike[str], *, verify: bool = False) -> StoredCollection | ShardedCollection:
    """Return the collection in an LMDB file, or in a set of them (its directory, or its manifest).

    `verify` walks every page of every file first: for files of unknown origin. Raises `MissingInputError` where there
    is no file, `FormatError` where it is no sound LMDB file, `ContractError` where it is no collection,
    `UnsupportedError` where its layout is newer.
    """
    if not is_set(path):
        return open_file(path, verify=verify)
    collection = ShardedCollection(os.path.abspath(path), read_manifest(path))
    try:
        for number in range(collection.n_parts if verify else 0):
            collection.open_part(number, verify=True)
    except BaseException:
        collection.close()
        raise
    return collection


class ShardedCollection(Collection):
    """A collection in several files; made by `open_collection`."""

    random_access = True
    has_rows = True

    def __init__(self, path: str, manifest: Manifest) -> None:
        self.path: str = path
        self.manifest = manifest
        self._parts: list[StoredCollection | None] = [None] * len(manifest.parts)
        self._opened: list[int] = []
        #: The first record, and the first frame, behind each part.
        self._records = list(itertools.accumulate(part.n_records for part in manifest.parts))
        self._frames = list(itertools.accumulate(part.n_frames for part in manifest.parts))
        self._index: Block | None = None
        self._said = ""
        first = self.open_part(0)
        self.declaration, self.document, self.extra = first.declaration, first.document, first.extra
        self._said = _said(first)

    @property
    def n_parts(self) -> int:
        """Number of files."""
        return len(self._parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return self.manifest.nbytes

    def __len__(self) -> int:
        return self._records[-1]

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return self._frames[-1]

    @property
    def index(self) -> Block:
        """See `Collection.index`. Numbers are read on first use, texts when their column is looked at."""
        if self._index is None:
            self._index = _JoinedIndex(self).block()
        return self._index

    @property
    def forcefield(self) -> ForceField | None:
        """See `Collection.forcefield`."""
        return self.open_part(0).forcefield

    def open_part(self, number: int, *, verify: bool = False) -> StoredCollection:
        """Return one of the files, opened now if it is not, and held against the manifest and the first one."""
        part = self._parts[number]
        if part is not None and not verify:
            return part
        entry = self.manifest.parts[number]
        part = self._open(entry, verify)
        if self._said and _said(part) != self._said:
            part.close()
            raise ContractError(entry.path, "the part declares something else than the first one of the set")
        if self._parts[number] is None:
            self._opened.append(number)
        self._parts[number] = part
        while len(self._opened) > _MOST_OPEN:
            # whoever still uses it holds it open
            self._parts[self._opened.pop(0)] = None
        return part

    def _open(self, entry: Part, verify: bool) -> StoredCollection:
        where = self.manifest.where(entry)
        try:
            size = where.stat().st_size
        except FileNotFoundError:
            raise FormatError(self.manifest.folder, found=f"no file {where}", expected="all parts of the set") from None
        if size != entry.bytes:
            raise FormatError(where, found=f"{size} bytes", expected=f"{entry.bytes}, by the manifest of its set")
        part = open_file(where, verify=verify)
        counts = len(part), part.n_frames
        if counts != (entry.n_records, entry.n_frames):
            part.close()
            found, expected = (f"{r} records, {f} frames" for r, f in (counts, (entry.n_records, entry.n_frames)))
            raise ContractError(entry.path, "the manifest counts otherwise", found=found, expected=expected)
        return part

    def each_part(self) -> Iterator[StoredCollection]:
        """Return all files, in order."""
        return (self.open_part(number) for number in range(self.n_parts))

    def place(self, index: int) -> tuple[StoredCollection, int]:
        """Return the file a record is in, and its number there."""
        number = bisect.bisect_right(self._records, index)
        return self.open_part(number), index - (self._records[number - 1] if number else 0)

    def frame_place(self, frame: int) -> tuple[int, int]:
        """Return the number of the file a frame is in, and the frame's ordinal there."""
        number = bisect.bisect_right(self._frames, frame)
        return number, frame - (self._frames[number - 1] if number else 0)

    def record(self, index: int) -> StoredRecord:
        """See `Collection.record`."""
        part, number = self.place(index)
        return part.record(number)

    @contextmanager
    def view(self, index: int) -> Iterator[StoredRecord]:
        """See `StoredCollection.view`."""
        part, number = self.place(_position(index, len(self), "record"))
        with part.view(number) as record:
            yield record

    def locate(self, frame: int) -> tuple[int, int]:
        """See `Collection.locate`."""
        number, ordinal = self.frame_place(_position(frame, self.n_frames, "frame"))
        record, position = self.open_part(number).locate(ordinal)
        return record + (self._records[number - 1] if number else 0), position

    def frame(self, index: int) -> Frame:
        """See `Collection.frame`."""
        number, ordinal = self.frame_place(_position(index, self.n_frames, "frame"))
        return self.open_part(number).frame(ordinal)

    def sample(self, frame: int) -> dict[str, Any]:
        """See `Collection.sample`."""
        number, ordinal = self.frame_place(_position(frame, self.n_frames, "frame"))
        return self.open_part(number).sample(ordinal)

    def record_sample(self, index: int) -> dict[str, Any]:
        """See `Collection.record_sample`."""
        part, number = self.place(_position(index, len(self), "record"))
        return part.record_sample(number)

    def same_values(self, index: int, other: Collection, position: int) -> bool:
        """See `Collection.same_values`."""
        if isinstance(other, ShardedCollection):
            other, position = other.place(position)
        part, number = self.place(index)
        return part.same_values(number, other, position)

    def unknown_parts(self, index: int) -> list[str]:
        """See `Collection.unknown_parts`."""
        part, number = self.place(index)
        return part.unknown_parts(number)

    def unknown_values(self) -> Iterator[tuple[bytes, bytes]]:
        """See `Collection.unknown_values`; of a key that several files have, the first one's."""
        seen: set[bytes] = set()
        for part in self.each_part():
            for key, value in part.unknown_values():
                if key not in seen:
                    seen.add(key)
                    yield key, value

    def close(self) -> None:
        """Let go of the files. Records that have been read stay usable."""
        for part in self._parts:
            if part is not None:
                part.close()

    def __reduce__(self) -> Any:
        return ShardedCollection, (self.path, self.manifest)


def is_stored(source: Collection) -> bool:
    """True if the records of a collection are as they stand in a file, or in the files of a set."""
    while isinstance(source, CollectionView):
        source = source.source
    return isinstance(source, (StoredCollection, ShardedCollection))


def places(source: Collection) -> Iterator[tuple[StoredCollection, int]]:
    """Return the files the records are in, and their numbers there; only for a collection that `is_stored`."""
    numbers: Sequence[int] = range(len(source))
    while isinstance(source, CollectionView):
        numbers = source.positions[np.asarray(numbers, np.int64)].tolist()
        source = source.source
    if isinstance(source, ShardedCollection):
        return map(source.place, numbers)
    assert isinstance(source, StoredCollection)
    stored = source
    return ((stored, number) for number in numbers)


class _JoinedIndex:
    """The columns of all parts' indexes, put together when they are asked for."""

    def __init__(self, collection: ShardedCollection) -> None:
        self._collection = collection
        self._counts = [part.n_records for part in collection.manifest.parts]
        indexes = [(part.path, part.index) for part in collection.each_part()]
        self._declared = joined_declarations([(where, declared_columns(index)) for where, index in indexes])
        self._own = {
            name: np.concatenate([index[name] for _, index in indexes])
            for name in INDEX_COLUMNS
            if name != "first_frame"
        }
        self._own["first_frame"] = first_frames(self._own["n_frames"])

    def block(self) -> Block:
        """Return the index as a block."""
        count = sum(self._counts)
        columns = {name: ColumnLayout(dtype, (count,)) for name, dtype in INDEX_COLUMNS.items()}
        columns.update(
            # whether there is a null is found out when the column is looked at
            (name, ColumnLayout(entry.dtype, (count, *entry.trailing), validity=0, precision=entry.precision))
            for name, entry in self._declared.items()
        )
        columns = {name: c._replace(numpy=DTYPES[c.dtype].numpy) for name, c in columns.items()}
        return StoredBlock(self, "records", BlockLayout(count, columns))

    def values(self, _: str, name: str) -> NDArray[Any]:
        """Return a column of all parts."""
        if name in self._own:
            return self._own[name]
        parts = [(index.columns.get(name), index.count) for index in self._indexes()]
        return join_columns(parts, self._declared[name]).values

    def mask(self, _: str, name: str) -> NDArray[np.bool_] | None:
        """Return its mask, None when every record has a value."""
        masks = []
        for index in self._indexes():
            column = index.columns.get(name)
            mask = np.zeros(index.count, np.bool_) if column is None else column.validity
            masks.append(np.ones(index.count, np.bool_) if mask is None else mask)
        mask = np.concatenate(masks)
        return None if mask.all() else mask

    def arrays(self, _: str) -> dict[str, NDArray[Any]]:
        """Return nothing is made before it is asked for."""
        return {}

    def _indexes(self) -> Iterator[Block]:
        return (part.index for part in self._collection.each_part())


def _said(part: StoredCollection) -> str:
    """Return what all parts of a set must say alike: declaration and document."""
    return canonical_json([part.declaration.to_json(), part.document])


def _position(index: int, count: int, what: str) -> int:
    position = index + count if index < 0 else index
    if not 0 <= position < count:
        raise IndexError(f"{what} {index} of a collection of {count}")
    return position


class ShardedCollectionWriter:
    """Appends records to a new set of collections, as `CollectionWriter` does to one; made by `create`.

    Every `shard_records` records a part is complete and the next one begins. After an error nothing is left.
    """

    def __init__(self, folder: Path, staging: Staging | None, shard_records: int, stated: dict[str, Any]) -> None:
        self._folder, self._staging, self._most, self._stated = folder, staging, shard_records, stated
        self._parts: list[Part] = []
        self._writer: CollectionWriter | None = None
        self._declared: list[tuple[str, dict[str, ColumnDeclaration]]] = []
        self._open = True
        #: What the file says of itself in keys this version has no meaning for.
        self.extra: dict[str, Any] = {}
        columns = stated["index_columns"]
        self._columns: dict[str, Any] = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
        self._unknown: list[tuple[bytes, bytes]] = []
        self._writer = self._begin()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        shard_records: int,
        declaration: Declaration,
        document: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
        index_columns: IndexColumns = (),
        forcefield: ForceField | None = None,
        overwrite: bool = False,
        in_place: bool = False,
        report: Report | None = None,
    ) -> ShardedCollectionWriter:
        """Begin a set in the directory `path`, whose name appears when it is complete (`in_place`: at once).

        The other arguments are those of `CollectionWriter.create`, and so are the errors.
        """
        if shard_records < 1:
            raise UsageError(f"a part of a set has at least one record, not {shard_records}")
        if isinstance(index_columns, str):
            raise UsageError(f"index columns are a list of names or a mapping, not the text {index_columns!r}")
        columns = index_columns if isinstance(index_columns, Mapping) else tuple(index_columns)
        staging = None if in_place else Staging(Path(path), overwrite=overwrite)
        if staging is not None:
            staging.begin()
        folder = Path(path) if staging is None else staging.path
        stated: dict[str, Any] = {
            "declaration": declaration,
            "document": document,
            "units": units,
            "index_columns": columns,
            "forcefield": forcefield,
            "report": Report() if report is None else report,
        }
        try:
            folder.mkdir()
            return cls(folder, staging, shard_records, stated)
        except BaseException:
            if staging is not None:
                staging.discard()
                staging.release()
            raise

    def __len__(self) -> int:
        return sum(part.n_records for part in self._parts) + (0 if self._writer is None else len(self._writer))

    @property
    def n_frames(self) -> int:
        """Frames appended so far."""
        return sum(part.n_frames for part in self._parts) + (0 if self._writer is None else self._writer.n_frames)

    def append(self, record: Record, index: Mapping[str, Any] | None = None) -> int:
        """See `CollectionWriter.append`."""
        writer, before = self._due(), len(self)
        writer.append(record, index)
        return before

    def copy(self, source: StoredCollection, number: int, row: Mapping[str, Any]) -> int:
        """See `CollectionWriter.copy`."""
        writer, before = self._due(), len(self)
        writer.copy(source, number, row)
        return before

    def extend(self, records: Iterable[Record]) -> None:
        """Append records."""
        for record in records:
            self.append(record)

    def carry(self, key: bytes, value: bytes) -> None:
        """Keep a key this version has no meaning for; the last part has it."""
        self._unknown.append((key, value))

    def close(self) -> None:
        """Complete the set: the last part, then the manifest. Safe to call twice."""
        if not self._open:
            return
        try:
            writer = self._due(at_end=True)
            for key, value in self._unknown:
                writer.carry(key, value)
            self._end_part()
            save_manifest(self._folder, self._parts)
            if self._staging is not None:
                self._staging.commit()
        except BaseException:
            self.discard()
            raise
        self._open = False

    def discard(self) -> None:
        """Give up: nothing is left of the set."""
        if not self._open:
            return
        self._open = False
        if self._writer is not None:
            self._writer.discard()
        if self._staging is not None:
            self._staging.discard()
            self._staging.release()

    def __enter__(self) -> ShardedCollectionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _begin(self) -> CollectionWriter:
        path = self._folder / part_name(len(self._parts))
        writer = CollectionWriter.create(path, **{**self._stated, "index_columns": self._columns}, in_place=True)
        writer.extra = self.extra
        return writer

    def _due(self, *, at_end: bool = False) -> CollectionWriter:
        """Return the part that takes the next record."""
        if not self._open:
            raise UsageError("the collection is complete: nothing can be appended any more")
        if self._writer is not None and len(self._writer) >= self._most and not at_end:
            self._end_part()
        if self._writer is None:
            self._writer = self._begin()
        return self._writer

    def _end_part(self) -> None:
        """Complete a part; what its values told of a column's dtype holds for those that follow."""
        assert self._writer is not None
        self._writer.extra = self.extra
        self._writer.close()
        self._writer = None
        where = self._folder / part_name(len(self._parts))
        self._parts.append(part_of(where, self._folder))
        with open_file(where) as part:
            found = declared_columns(part.index)
        self._declared.append((where.name, found))
        joined_declarations(self._declared)
        for name, column in found.items():
            if self._columns.get(name) is None and not column.extra:
                self._columns[name] = ColumnDeclaration(column.dtype, (), precision=column.precision)


def part_of(path: Path, folder: Path) -> Part:
    """Return a complete collection as a part of a set whose manifest lies in `folder`: counted, and its checksum
    taken.
    """
    with open_file(path) as part:
        counts = len(part), part.n_frames
    return Part(Path(os.path.relpath(path, folder)).as_posix(), *counts, path.stat().st_size, file_checksum(path))


def save_set(
    paths: Sequence[str | os.PathLike[str]], manifest: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write the manifest of collections that are complete, in their order, where they lie; returns its path.

    Of a set among them all parts are taken. Raises `ContractError` where they do not declare the same, `UsageError`
    without any, where the name is taken or being written, or the manifest is one of them.
    """
    where = Path(os.path.abspath(manifest))
    if not paths:
        raise UsageError("a set has at least one part")
    check_apart(where, [file for path in paths for file in files_of(Path(path))])
    with replacing(manifest, overwrite=overwrite) as made:
        parts = [part_of(file, where.parent) for path in paths for file in _single(Path(os.path.abspath(path)))]
        # what a reader refuses is refused now
        with ShardedCollection(os.fspath(where), Manifest(where.parent, tuple(parts))) as collection:
            _ = collection.index
        made.write_bytes(manifest_text(where.parent, parts))
    return where


def _single(path: Path) -> list[Path]:
    """Return a collection, or the parts of a set."""
    if not is_set(path):
        return [path]
    manifest = read_manifest(path)
    return [manifest.where(part) for part in manifest.parts]
