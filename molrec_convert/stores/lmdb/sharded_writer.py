"""Writing a collection as a set of files, so many records each; the set takes its name when all of it is there.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from molrec_convert.errors import UsageError
from molrec_convert.files.staging import Staging, check_apart, replacing
from molrec_convert.model.collection.index import IndexColumns, declared_columns, joined_declarations
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.record import Record
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
from molrec_convert.stores.lmdb.reader import StoredCollection, open_collection
from molrec_convert.stores.lmdb.sharded import ShardedCollection
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = ["ShardedCollectionWriter", "part_of", "save_set"]


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
        """The part that takes the next record."""
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
        with open_collection(where) as part:
            found = declared_columns(part.index)
        self._declared.append((where.name, found))
        joined_declarations(self._declared)
        for name, column in found.items():
            if self._columns.get(name) is None and not column.extra:
                self._columns[name] = ColumnDeclaration(column.dtype, (), precision=column.precision)


def part_of(path: Path, folder: Path) -> Part:
    """A complete collection as a part of a set whose manifest lies in `folder`: counted, and its checksum taken."""
    with open_collection(path) as part:
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
    """A collection, or the parts of a set."""
    if not is_set(path):
        return [path]
    manifest = read_manifest(path)
    return [manifest.where(part) for part in manifest.parts]
