"""A set of collections read as one: a manifest names the parts, a record or frame is found by counting alone.

Opening reads the manifest and the first part's key `meta`; a part is opened when something of it is asked for, in each
process for itself. The index is put together on first use, its texts column by column.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, FormatError, MissingInputError
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.index import (
    INDEX_COLUMNS,
    declared_columns,
    first_frames,
    join_columns,
    joined_declarations,
)
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Frame
from molrec_convert.model.tags import canonical_json
from molrec_convert.stores.lmdb.manifest import Manifest, Part, is_set, read_manifest
from molrec_convert.stores.lmdb.reader import StoredCollection
from molrec_convert.stores.lmdb.reader import open_collection as open_file
from molrec_convert.stores.lmdb.stored.frame import StoredBlock
from molrec_convert.stores.lmdb.stored.record import StoredRecord
from molrec_convert.stores.lmdb.values.frame_layout import BlockLayout, ColumnLayout

__all__ = ["ShardedCollection", "open_collection"]

#: So many parts stay open at once.
_MOST_OPEN = 128


def open_collection(path: str | os.PathLike[str], *, verify: bool = False) -> StoredCollection | ShardedCollection:
    """The collection in an LMDB file, or in a set of them (its directory, or its manifest).

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
        """One of the files, opened now if it is not, and held against the manifest and the first one."""
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
            raise MissingInputError(where) from None
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
        """All files, in order."""
        return (self.open_part(number) for number in range(self.n_parts))

    def place(self, index: int) -> tuple[StoredCollection, int]:
        """The file a record is in, and its number there."""
        number = bisect.bisect_right(self._records, index)
        return self.open_part(number), index - (self._records[number - 1] if number else 0)

    def frame_place(self, frame: int) -> tuple[int, int]:
        """The number of the file a frame is in, and the frame's ordinal there."""
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
        """The index as a block."""
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
        """A column of all parts."""
        if name in self._own:
            return self._own[name]
        parts = [(index.columns.get(name), index.count) for index in self._indexes()]
        return join_columns(parts, self._declared[name]).values

    def mask(self, _: str, name: str) -> NDArray[np.bool_] | None:
        """Its mask, None when every record has a value."""
        masks = []
        for index in self._indexes():
            column = index.columns.get(name)
            mask = np.zeros(index.count, np.bool_) if column is None else column.validity
            masks.append(np.ones(index.count, np.bool_) if mask is None else mask)
        mask = np.concatenate(masks)
        return None if mask.all() else mask

    def arrays(self, _: str) -> dict[str, NDArray[Any]]:
        """Nothing is made before it is asked for."""
        return {}

    def _indexes(self) -> Iterator[Block]:
        return (part.index for part in self._collection.each_part())


def _said(part: StoredCollection) -> str:
    """What all parts of a set must say alike: declaration and document."""
    return canonical_json([part.declaration.to_json(), part.document])


def _position(index: int, count: int, what: str) -> int:
    position = index + count if index < 0 else index
    if not 0 <= position < count:
        raise IndexError(f"{what} {index} of a collection of {count}")
    return position
