"""Reading a collection: any record or frame at once, decoded as far as it is used.

Opening reads the key `meta` alone; the index is read and checked on first use. What a record gives out is copied from
the file, so it outlives the collection, except inside `with collection.view(i)`, where arrays show the file in place.
A collection may be pickled, and used after a fork or in a spawned process: every process opens the file for itself.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, FormatError, MissingInputError, UnsupportedError
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.declaration import check_collection_document
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Frame
from molrec_convert.model.record import absolute_rows, check_document, frame_sample
from molrec_convert.model.tags import check_json
from molrec_convert.model.trajectory import Trajectory
from molrec_convert.stores.lmdb.file.environment import Handle
from molrec_convert.stores.lmdb.file.footer import Checksums, checksum, read_checksums, refuse_damaged
from molrec_convert.stores.lmdb.file.keys import (
    CHECKSUMS,
    FORCEFIELD,
    FRAME,
    INDEX,
    KEY_BYTES,
    LAYOUT,
    LAYOUT_VERSION,
    META,
    META_KEYS,
    RECORD,
    SYSTEM,
    numbered,
    numbered_keys,
)
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.manifest import MANIFEST
from molrec_convert.stores.lmdb.values.decode import Buffer, FrameBytes, decode
from molrec_convert.stores.lmdb.values.index import read_index
from molrec_convert.stores.lmdb.values.layout import from_utf8, mapping
from molrec_convert.stores.lmdb.values.sample import Sampler
from molrec_convert.stores.lmdb.values.stored_frame import Once, StoredFrame, StoredRecord, stored_block
from molrec_convert.stores.lmdb.values.stored_trajectory import SharedDeclaration, StoredTrajectory, unknown_header_keys

__all__ = ["StoredCollection", "open_collection"]


def open_collection(path: str | os.PathLike[str], *, verify: bool = False) -> StoredCollection:
    """Return the collection in an LMDB file. `verify` walks every page of the file first: for a file of unknown origin.

    Raises `MissingInputError` where there is no file, `FormatError` where it is no sound LMDB file, `ContractError`
    where it is no collection, `UnsupportedError` where its layout is newer.
    """
    where = os.path.abspath(path)
    if not os.path.exists(where):
        raise MissingInputError(path)
    if not os.path.isfile(where):
        what = f"a directory without {MANIFEST}" if os.path.isdir(where) else "no regular file"
        raise FormatError(path, found=what, expected="a collection: a file, or a set of files with its manifest")
    with PageFile(where) as pages:
        if verify:
            pages.check()
        meta = pages.find(META)
    if meta is None:
        raise ContractError(META.decode(), "the file has no key 'meta': it is no collection, or one never completed")
    return StoredCollection(where, from_utf8(meta, META.decode()))


class StoredCollection(Collection):
    """A collection in one LMDB file; made by `open_collection`."""

    random_access = True
    has_rows = True

    def __init__(self, path: str, meta: Any) -> None:
        node = META.decode()
        document = mapping(meta, node)
        if document.get("layout") != LAYOUT:
            raise ContractError(node, "the layout is not a collection's", found=repr(document.get("layout"))[:60])
        version = document.get("layout_version")
        if type(version) is not int or version < 1:
            raise ContractError(node, "the layout has no version", found=repr(version)[:60])
        if version > LAYOUT_VERSION:
            raise UnsupportedError(f"{path} has layout version {version}: this version reads up to {LAYOUT_VERSION}")
        check_json(document, node)
        self.document = mapping(document.get("collection"), f"{node}.collection")
        check_collection_document(self.document, f"{node}.collection")
        self.declaration = Declaration.from_json(document.get("sequence_schema"))
        self.extra = {key: value for key, value in document.items() if key not in META_KEYS}
        self._n_records = _count(document, "n_records", node)
        self._n_frames = _count(document, "n_frames", node)
        self.path: str = path
        self._meta = meta
        self._shared = SharedDeclaration(self.declaration)
        self._sampler = Sampler(self._shared)
        self._index: Block | None = None
        self._first: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._frames: NDArray[np.uint64] = self._first
        self._all_single = False
        self._file = Handle(path)

    def __len__(self) -> int:
        return self._n_records

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return self._n_frames

    @property
    def index(self) -> Block:
        """One row per record. Numbers are read and checked on first use, texts when their column is looked at."""
        if self._index is None:
            entries = self._file.open().entries
            if self._n_records + self._n_frames > entries:
                found = f"{self._n_records} records and {self._n_frames} frames"
                raise ContractError(META.decode(), "counts more than the file has keys", found=found)
            index = read_index(functools.partial(self._file.view, INDEX), self._n_records, self._n_frames)
            self._first, self._frames = index["first_frame"], index["n_frames"]
            self._all_single = bool((self._frames == 1).all())
            self._index = index
        return self._index

    @property
    def forcefield(self) -> ForceField | None:
        """The force field all records share, None when there is none."""
        value = self._find(FORCEFIELD)
        if value is None:
            return None
        frame = decode(value, "ff")
        tables = {name: stored_block(frame, name) for name in frame.blocks}
        version = self.document.get("molrec_version")
        forcefield = ForceField.from_parts(frame.document, tables, molrec_version=version)
        forcefield.check(frame.node)
        return forcefield

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and 0 <= index < self._n_records:
            return self._record(index, in_place=False)
        return super().__getitem__(index)

    def record(self, index: int) -> StoredRecord:
        """See `Collection.record`. Nothing of it is read before it is used."""
        return self._record(index, in_place=False)

    @contextmanager
    def view(self, index: int) -> Iterator[StoredRecord]:
        """Yield a record whose arrays show the file in place, read-only and without a copy.

        They are for use inside the `with`. The file stays mapped as long as one of them is kept, but no longer than
        the process lives.
        """
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"record {index} of a collection of {len(self)}")
        yield self._record(position, in_place=True)

    def frame(self, index: int) -> Frame:
        """See `Collection.frame`."""
        if self._all_single and 0 <= index < self._n_frames:
            # most collections have one frame a record, which needs no other to be resolved
            last = decode(self._frame_value(index), ("f", index))
            self._shared.check(last)
            return self._shared.frame(last, None, lambda: self._system(index, False))
        record, position = self.locate(index)
        return self._trajectory(record, Once(lambda: self._system(record, False)), False).frame(position)

    def sample(self, frame: int) -> dict[str, Any]:
        """See `Collection.sample`."""
        if self._all_single and 0 <= frame < self._n_frames:
            # the short way alone, for both values; where it ends the other begins anew
            find = self._file.open().finder()
            value = find(numbered(FRAME, frame))
            if value is not None:
                sample = self._sampler.short(find(numbered(SYSTEM, frame)), value)
                if sample is not None:
                    return sample
        system, state = self._samples(frame)
        system.update(state)
        return system

    def record_sample(self, index: int) -> dict[str, Any]:
        """See `Collection.record_sample`."""
        if self._index is None:
            _ = self.index
        if self._all_single and 0 <= index < self._n_records:
            system, state = self._samples(index)
            return {"system": system, "frames": [state]}
        return super().record_sample(index)

    def _samples(self, frame: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a frame's system and the frame itself as samples."""
        record, position = self.locate(frame)
        frame %= self._n_frames
        environment = self._file.open()
        value = environment.get(numbered(SYSTEM, record))
        system = {} if value is None else self._sampler.system(bytearray(value), record)
        if system is None:
            snapshot = self._system(record, False)
            system = {} if snapshot is None else frame_sample(snapshot)
        value = environment.get(numbered(FRAME, frame)) if position == 0 else None
        state = None if value is None else self._sampler.first_frame(bytearray(value), frame)
        if state is None:
            trajectory = self._trajectory(record, Once(lambda: self._system(record, False)), False)
            state = frame_sample(trajectory.frame(position), self.declaration)
        return system, state

    def locate(self, frame: int) -> tuple[int, int]:
        """See `Collection.locate`."""
        if self._index is None:
            _ = self.index
        if self._all_single and 0 <= frame < self._n_frames:
            return frame, 0
        return super().locate(frame)

    def stored_runs(self, prefix: bytes, first: int = 0) -> Iterator[tuple[Sequence[int], list[bytes]]]:
        """Yield the values of one letter as they are stored, many at a time, and their numbers counted from `first`.

        Those the collection does not count are left out. Raises `ContractError` where one is missing, or does not match
        its checksum.
        """
        count = self._n_frames if prefix == FRAME else self._n_records
        expected, sums = 0, self.checksums
        for batch in self._file.open().batches(numbered(prefix, 0), numbered(prefix, count)):
            keys, values = (list(each) for each in zip(*batch, strict=True))
            numbers: Sequence[int] = range(expected, expected + len(keys))
            if keys != list(numbered_keys(prefix, numbers)):
                batch = [item for item in batch if len(item[0]) == KEY_BYTES]
                numbers, values = [int.from_bytes(key[1:], "big") for key, _ in batch], [value for _, value in batch]
                missing = next((n for n, there in enumerate(numbers, expected) if n != there), None)
                if missing is not None and prefix != SYSTEM:
                    expected = missing
                    break
            expected += len(numbers)
            if sums is not None:
                sums.check(prefix, np.asarray(numbers, np.int64), values)
            yield [number + first for number in numbers] if first else numbers, values
        if expected != count and prefix != SYSTEM:
            raise ContractError(f"{prefix.decode()}[{expected}]", "the key is not there")

    def stored_items(self) -> Iterator[tuple[bytes, memoryview]]:
        """Yield every key of the file and a view of its value, good until the next one is asked for."""
        yield from self._file.open().views()

    @property
    def shared(self) -> SharedDeclaration:
        """The declaration as values are held against it."""
        return self._shared

    def stored_forcefield(self) -> bytes | None:
        """Return the value of the force field as it is stored, None without one."""
        value = self._find(FORCEFIELD)
        if value is not None and self.checksums is not None and checksum(value) != self.checksums.named.get("ff"):
            refuse_damaged(FORCEFIELD)
        return None if value is None else bytes(value)

    @functools.cached_property
    def checksums(self) -> Checksums | None:
        """The checksums of all values, None where the file has none."""
        value = self._find(CHECKSUMS)
        return None if value is None else read_checksums(value, self._n_records, self._n_frames)

    def same_values(self, index: int, other: Collection, position: int) -> bool:
        """See `Collection.same_values`."""
        if not isinstance(other, StoredCollection):
            return False
        mine, theirs = self.stored_record(index), other.stored_record(position)
        return mine == theirs

    def stored_record(self, index: int) -> tuple[bytes, bytes | None, list[bytes]]:
        """Return the values of a record as they are stored: its meta, its system (None without), its frames.

        Raises `ContractError` for a value that is missing, or does not match its checksum.
        """
        (meta,), (system,) = self.stored_values(index, RECORD), self.stored_values(index, SYSTEM)
        frames = self.stored_values(index, FRAME)
        return cast(bytes, meta), system, cast("list[bytes]", frames)

    def stored_values(self, index: int, prefix: bytes) -> list[bytes | None]:
        """Return the values of one letter of a record as they are stored, None for a system that is not there."""
        _ = self.index
        first, count = (int(self._first[index]), int(self._frames[index])) if prefix == FRAME else (index, 1)
        find, values = self._file.open().finder(), []
        for number in range(first, first + count):
            value = find(numbered(prefix, number))
            if value is None and prefix != SYSTEM:
                what = "the frame is not there" if prefix == FRAME else "the record has no meta document"
                raise ContractError(f"{prefix.decode()}[{number}]", what)
            values.append(None if value is None else bytes(value))
        if self.checksums is not None:
            self.checksums.check(prefix, slice(first, first + count), values)
        return values

    def unknown_parts(self, index: int) -> list[str]:
        """See `Collection.unknown_parts`: keys of headers; those of a system's columns are attributes of these."""
        _, system, frames = self.stored_record(index)
        values = [("trajectory", value) for value in frames] + ([] if system is None else [("system", system)])
        found: dict[str, None] = {}
        for section, value in values:
            size = int.from_bytes(value[4:8], "little")
            for place, key in unknown_header_keys(from_utf8(value[8 : 8 + size], section)):
                if section != "system" or "/" not in place:
                    found[f"{section}/{place}.{key}" if place else f"{section}.{key}"] = None
        return list(found)

    def unknown_values(self) -> Iterator[tuple[bytes, bytes]]:
        """See `Collection.unknown_values`."""
        environment = self._file.open()
        for key in self._unknown_keys():
            value = environment.get(key)
            if value is not None:
                yield key, bytes(value)

    def unknown_keys(self) -> list[str]:
        """Return keys of the file that this version has no meaning for, as text."""
        return [key.decode("utf-8", "backslashreplace") for key in self._unknown_keys()]

    def _unknown_keys(self) -> list[bytes]:
        counts = {FRAME: self._n_frames, RECORD: self._n_records, SYSTEM: self._n_records}
        found: list[bytes] = []
        keys = self._file.open().keys()
        key = next(keys, None)
        while key is not None:
            end = numbered(key[:1], counts.get(key[:1], 0))
            jump = None
            if len(key) == 9 and key < end:
                # past all numbers of the letter at once
                jump = end
            elif key not in (META, INDEX, FORCEFIELD, CHECKSUMS):
                found.append(key)
            try:
                key = keys.send(jump)
            except StopIteration:
                key = None
        return found

    def close(self) -> None:
        """Let go of the file. Records that have been read stay usable."""
        self._file.close()

    def __reduce__(self) -> Any:
        return StoredCollection, (self.path, self._meta)

    # Parts of a record

    def _record(self, index: int, *, in_place: bool) -> StoredRecord:
        if self._index is None:
            _ = self.index
        system = Once(lambda: self._system(index, in_place))
        return StoredRecord.reading(
            Once(lambda: self._record_meta(index)),
            system,
            Once(lambda: self._record_trajectory(index, system, in_place)),
            self.path,
        )

    def _record_meta(self, index: int) -> dict[str, Any]:
        value = self._file.open().get(numbered(RECORD, index))
        if value is None:
            raise ContractError(f"r[{index}]", "the record has no meta document")
        document = mapping(from_utf8(bytes(value), ("r", index)), f"r[{index}]")
        check_document(document, "meta")
        return document

    def _system(self, index: int, in_place: bool) -> Frame | None:
        key = numbered(SYSTEM, index)
        value: Buffer | None = self._file.open().view(key) if in_place else self._find(key)
        if value is None:
            return None
        frame = decode(value, ("s", index))
        blocks: dict[str, Block] = {name: stored_block(frame, name) for name in frame.blocks}
        system = StoredFrame.of(frame, blocks, FrameBytes.meta, is_step=False, referring=frame.layout.referring)
        if frame.layout.referring and any(layout.targets for layout in frame.blocks.values()):
            system.absolute = absolute_rows(system, None)
        return system

    def _record_trajectory(self, index: int, system: Once[Frame | None], in_place: bool) -> Trajectory | None:
        if self._index is None:
            _ = self.index
        # where all records have a frame, all have a trajectory
        if not self._all_single and not self.index["has_trajectory"][index]:
            return None
        return self._trajectory(index, system, in_place)

    def _trajectory(self, index: int, system: Once[Frame | None], in_place: bool) -> StoredTrajectory:
        if self._index is None:
            _ = self.index
        first, count = (index, 1) if self._all_single else (int(self._first[index]), int(self._frames[index]))

        def fetch(position: int, peek: bool = False) -> Buffer:
            return self._frame_value(first + position, peek=peek, in_place=in_place)

        return StoredTrajectory(self._shared, count, fetch, system, first)

    # Values

    def _frame_value(self, ordinal: int, *, peek: bool = False, in_place: bool = False) -> Buffer:
        """Return the value of a frame: a copy, or to look at for a moment (`peek`), or in place."""
        key = numbered(FRAME, ordinal)
        environment = self._file.open()
        value: Buffer | None = environment.view(key) if in_place else environment.get(key)
        if value is None:
            raise ContractError(f"f[{ordinal}]", "the frame is not there")
        return value if peek or in_place else bytearray(value)

    def _find(self, key: bytes) -> bytearray | None:
        """Return a copy of a value, None when there is none."""
        value = self._file.open().get(key)
        return None if value is None else bytearray(value)


def _count(document: dict[str, Any], key: str, node: str) -> int:
    count = document.get(key)
    if type(count) is not int or not 0 <= count < 2**62:
        raise ContractError(f"{node}.{key}", "is not a count", found=repr(count)[:60])
    return count
