"""Writing a collection: records are appended, `meta` comes last, the file takes its name when all of it is there.

Frames go to the file as they come, in batches of one transaction each; the other parts of the records follow them, so
that keys are appended in order and pages are full. Source: Collection and its LMDB file.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from molrec_convert.errors import MissingInputError, UsageError
from molrec_convert.model.collection.collection import check_forcefield, check_member
from molrec_convert.model.collection.declaration import collection_document
from molrec_convert.model.collection.index import IndexBuilder, IndexColumns
from molrec_convert.model.collection.member import (
    member_rows,
    report_forcefield_losses,
)
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block
from molrec_convert.model.record import Record, check_document
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.file.footer import collection_meta, last_values
from molrec_convert.stores.lmdb.file.keys import (
    FRAME,
    RECORD,
    SYSTEM,
    is_known,
    key_text,
    numbered,
    numbered_keys,
)
from molrec_convert.stores.lmdb.file.store import Runs, Spool, StoreFile, append_runs, in_runs
from molrec_convert.stores.lmdb.reader import StoredCollection, open_collection
from molrec_convert.stores.lmdb.values.encode import encode_tables
from molrec_convert.stores.lmdb.values.records import RecordEncoder
from molrec_convert.stores.lmdb.values.stored_trajectory import check_values

__all__ = ["CollectionWriter"]

#: A transaction is committed when it holds so many values, or so many bytes.
_BATCH_VALUES, _BATCH_BYTES = 500, 8 * 2**20


class CollectionWriter:
    """Appends records to a new collection; a context manager, which completes it, or removes it after an error.

    Made by `create`, or by `open` for more records of a collection that there is. `append` refuses a record that does
    not belong, and leaves the collection as it was.
    """

    def __init__(
        self,
        file: StoreFile,
        declaration: Declaration,
        document: dict[str, Any],
        index: IndexBuilder,
        forcefield: ForceField | None,
        report: Report,
    ) -> None:
        self.declaration, self.document, self.report = declaration, document, report
        self._file, self._index, self._forcefield = file, index, forcefield
        self._encoder = RecordEncoder(declaration, report)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._n_records, self._n_frames, self._flushed = len(index), 0, 0
        self._metas, self._systems = Spool(file.path.parent), Spool(file.path.parent)
        #: What the file says of itself in keys this version has no meaning for.
        self.extra: dict[str, Any] = {}
        self._unknown: list[tuple[bytes, bytes]] = []
        #: The collection whose records come first, and whose values go over as they are.
        self._before: StoredCollection | None = None
        #: Values of the other parts of the records that somebody else keeps.
        self._given: dict[bytes, Runs] = {}
        #: The rows of all records where they are known beforehand.
        self._whole: Block | None = None
        self._keep = False
        self._open = True

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        declaration: Declaration,
        document: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
        index_columns: IndexColumns = (),
        forcefield: ForceField | None = None,
        overwrite: bool = False,
        in_place: bool = False,
        whole: Block | None = None,
        report: Report | None = None,
    ) -> CollectionWriter:
        """Begin a collection at `path`, whose name appears when it is complete (`in_place`: at once).

        `whole` is the index of all records that will be appended, where it is known beforehand.

        `document` carries `units` (quantity → unit), or they are given alone. `index_columns` names further columns of
        the index: see `IndexBuilder`. Raises `ContractError` for a document or declaration that breaks a rule,
        `UsageError` where the name is taken or being written, `OSError` where the system refuses.
        """
        stated = dict(document or {})
        if units is not None:
            stated["units"] = dict(units)
        stored = collection_document(stated)
        declaration.check()
        index = IndexBuilder(index_columns)
        report = Report() if report is None else report
        if forcefield is not None:
            check_forcefield(forcefield, stored)
            report_forcefield_losses(forcefield, report)
        file = StoreFile(Path(path), overwrite=overwrite, in_place=in_place)
        writer = cls(file, declaration, stored, index, forcefield, report)
        writer._whole = whole
        return writer

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, index_columns: IndexColumns = (), report: Report | None = None
    ) -> CollectionWriter:
        """Go on with a collection that is complete: its records, then those appended, take its place when closed.

        What the file holds goes into a new one beside it, so readers are not disturbed and an error, a full disk or a
        kill leaves it as it is. That costs the time to copy it: append many records at once. Declaration, units, force
        field and index columns stay; `index_columns` may give functions for columns that there are. Raises as
        `open_collection` and `create` do.
        """
        where = Path(os.path.realpath(path))
        if not where.exists():
            raise MissingInputError(path)
        report = Report() if report is None else report
        file = StoreFile(where, overwrite=True)
        before = None
        try:
            before = open_collection(where, verify=True)
            index = IndexBuilder.continuing(before.index, index_columns)
            writer = cls(file, before.declaration, before.document, index, None, report)
            writer._continue(before)
        except BaseException:
            file.discard()
            if before is not None:
                before.close()
            raise
        return writer

    @classmethod
    def finishing(
        cls,
        file: StoreFile,
        *,
        declaration: Declaration,
        document: dict[str, Any],
        index: Block,
        n_frames: int,
        metas: Runs,
        systems: Runs,
        forcefield: ForceField | None = None,
        keep: bool = False,
    ) -> CollectionWriter:
        """Return a writer for a file that holds the values of all `n_frames` frames already; `close` puts what follows
        them.

        `index` is that of all records, `metas` and `systems` are their values by number, as `RecordEncoder` makes
        them; they are gone through once. With `keep` the file stays under its hidden name when `close` fails.
        """
        writer = cls(file, declaration, document, IndexBuilder(), forcefield, Report())
        writer._whole, writer._n_records = index, index.count
        writer._n_frames = writer._flushed = n_frames
        writer._given = {RECORD: metas, SYSTEM: systems}
        writer._keep = keep
        return writer

    def __len__(self) -> int:
        return self._n_records

    @property
    def n_frames(self) -> int:
        """Frames appended so far."""
        return self._n_frames

    def append(self, record: Record, index: Mapping[str, Any] | None = None) -> int:
        """Append a record and return its ordinal; `index` gives values of the index columns.

        A `frame` becomes a trajectory of one frame. What a collection has no place for is reported as dropped. Raises
        `ContractError` for a record outside the declaration, with a force field of its own, or broken in itself.
        """
        if not self._open:
            raise UsageError("the collection is complete: nothing can be appended any more")
        number = self._n_records
        node = f"record {number}"
        plain = self._encoder.plain(record, node)
        if plain is not None:
            meta, system, frame, atoms = plain
            row = self._index.row(record, index)
            self._pending.append(frame)
            self._pending_bytes += len(frame)
            self._add(number, row, meta, system, 1, atoms, True)
            return number
        member = self._encoder.begin(record, node)
        row = self._index.row(member.record, index)
        try:
            frames, atoms = self._encoder.frames(member.record, node, self._add_values)
        except BaseException:
            self._take_back()
            raise
        self._add(number, row, member.meta, member.system, frames, atoms, member.record.trajectory is not None)
        return number

    def copy(self, source: StoredCollection, number: int, row: Mapping[str, Any]) -> int:
        """Append a record of another collection with its values as they are stored, and return its ordinal.

        `row` has the values of the index columns. What headers say in keys this version has no meaning for stays.
        Raises `ContractError` for a value that breaks a rule, `UsageError` where the declarations differ.
        """
        if source.declaration != self.declaration:
            raise UsageError("values are copied between collections of one declaration only")
        ordinal = self._n_records
        meta, system, frames = source.stored_record(number)
        record = source.record(number)
        check_member(record, f"record {number}")
        check_document(record.meta, "meta")
        values = self._index.row(record, row)
        atoms = check_values(record, frames, source.shared, int(source.index["first_frame"][number]))
        self._add_values(frames)
        rows = member_rows(record, atoms)
        self._add(ordinal, values, meta, system, len(frames), rows, record.trajectory is not None)
        return ordinal

    def extend(self, records: Iterable[Record]) -> None:
        """Append records."""
        for record in records:
            self.append(record)

    def carry(self, key: bytes, value: bytes) -> None:
        """Keep a key this version has no meaning for, as a copy of a collection does."""
        if is_known(key):
            raise UsageError(f"the key {key_text(key)} of a collection has a meaning of its own")
        self._unknown.append((key, value))

    def close(self) -> None:
        """Complete the collection: force field, index, and last of all `meta`. Safe to call twice."""
        if not self._open:
            return
        try:
            self._flush()
            for prefix, own in ((RECORD, self._metas), (SYSTEM, self._systems)):
                before = () if self._before is None else self._before.stored_runs(prefix)
                runs = itertools.chain(before, self._given.get(prefix, ()), in_runs(own))
                append_runs(self._file, (prefix, runs))
            if self._unknown:
                self._file.put(self._unknown)
            self._file.put(self._last_values())
            self._file.complete()
        except BaseException:
            if self._keep:
                self._file.suspend()
                self._end()
            else:
                self.discard()
            raise
        self._end()

    def discard(self) -> None:
        """Give up: nothing is left of the collection."""
        if self._open:
            self._file.discard()
            self._end()

    def __enter__(self) -> CollectionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _continue(self, before: StoredCollection) -> None:
        """Take over what a collection has, its frames first: keys are written in order."""
        self._before, self.extra = before, dict(before.extra)
        for key, value in before.unknown_values():
            if is_known(key):
                self.report.dropped(f"key {key_text(key)}", "the collection does not count it")
            else:
                self._unknown.append((key, value))
        append_runs(self._file, (FRAME, before.stored_runs(FRAME)))
        self._n_frames = self._flushed = before.n_frames

    def _add_values(self, values: list[bytes]) -> None:
        self._pending += values
        self._pending_bytes += sum(map(len, values))
        if self._pending_bytes >= 2 * _BATCH_BYTES or len(self._pending) >= 2 * _BATCH_VALUES:
            self._flush()

    def _add(
        self,
        number: int,
        row: Mapping[str, Any],
        meta: bytes,
        system: bytes | None,
        frames: int,
        atoms: int,
        has_trajectory: bool,
    ) -> None:
        """Count a record whose frames wait already."""
        self._metas.append(number, meta)
        if system is not None:
            self._systems.append(number, system)
        self._index.add(row, frames, atoms, has_trajectory)
        self._n_records = number + 1
        self._n_frames += frames
        if (
            len(self._pending) >= _BATCH_VALUES
            or self._pending_bytes >= _BATCH_BYTES
            or not self._n_records % _BATCH_VALUES
        ):
            self._flush()

    def _take_back(self) -> None:
        """Forget the frames of a record that did not go in whole."""
        kept = self._n_frames - self._flushed
        if kept < 0:
            self._file.remove_from(numbered(FRAME, self._n_frames))
            self._flushed, kept = self._n_frames, 0
        del self._pending[kept:]
        self._pending_bytes = sum(map(len, self._pending))

    def _flush(self) -> None:
        """Put the frames that wait, in one transaction."""
        first, self._flushed = self._flushed, self._flushed + len(self._pending)
        self._file.append(list(zip(numbered_keys(FRAME, range(first, self._flushed)), self._pending, strict=True)))
        self._pending, self._pending_bytes = [], 0
        self._metas.spill()
        self._systems.spill()

    def _last_values(self) -> list[tuple[bytes, bytes]]:
        forcefield = None
        if self._before is not None:
            forcefield = self._before.stored_forcefield()
        elif self._forcefield is not None:
            forcefield = encode_tables(self._forcefield.document, self._forcefield.tables, "forcefield")
        rows = self._index.block() if self._whole is None else self._whole
        meta = collection_meta(self.document, self.declaration, rows, self.extra)
        return last_values(self._file.checksums(rows.count, self._n_frames), meta, rows, forcefield)

    def _end(self) -> None:
        self._open = False
        if self._before is not None:
            self._before.close()
        self._metas.close()
        self._systems.close()
