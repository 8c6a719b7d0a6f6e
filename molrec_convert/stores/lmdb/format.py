"""Collections as a format: read one, write one from a record or a collection, take one record out as it stands alone.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from molrec_convert.formats import ReadContext, WriteContext
from molrec_convert.model.collection.collection import Collection, CollectionView, record_of
from molrec_convert.model.collection.declaration import derive_declaration
from molrec_convert.model.collection.index import index_rows
from molrec_convert.model.collection.member import as_member, collection_units
from molrec_convert.model.record import Record
from molrec_convert.report import Fate, Report
from molrec_convert.stores.lmdb.file.environment import lmdb_library
from molrec_convert.stores.lmdb.file.keys import is_known, key_text
from molrec_convert.stores.lmdb.options import CollectionOptions
from molrec_convert.stores.lmdb.sharded import ShardedCollectionWriter, is_stored, open_collection, places
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = ["CollectionOptions", "collection_units", "predict", "read_collection", "record_of", "write_collection"]


def read_collection(paths: Sequence[Path], context: ReadContext) -> Collection:
    """Return the collection in a file, or a set of them, every page looked at where the context asks for it."""
    return open_collection(paths[0], verify=context.verify)


def write_collection(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write a collection: every record of one, or one record. `path` is where it is written, in place.

    A record's force field becomes the collection's. Its units, a preset written out, become the document's.
    """
    options = context.options if isinstance(context.options, CollectionOptions) else CollectionOptions()
    if isinstance(source, Record):
        _write_record(source, path, context, options)
        return
    columns: dict[str, Any] = {}
    for name, declared in source.index_columns.items():
        if declared.trailing:
            context.report.dropped(f"index/{name}", "index columns of several values per record are only read")
        else:
            columns[name] = declared
    dropped = source.index_columns.keys() - columns.keys()
    columns.update((name, None) for name in options.index if name not in columns and name not in dropped)
    document = {**source.document, "units": {**options.units(), **source.units}}
    context.progress.start("records", len(source))
    with _create(
        path,
        options,
        declaration=source.declaration,
        document=document,
        index_columns=columns,
        forcefield=source.forcefield,
        report=context.report,
    ) as writer:
        stored = is_stored(source)
        for place, row in zip(places(source), index_rows(source.index), strict=True) if stored else ():
            writer.copy(*place, {name: value for name, value in row.items() if name in columns})
            context.progress.advance(1)
        for record, row in () if stored else source.members():
            writer.append(record, {name: value for name, value in row.items() if name in columns})
            context.progress.advance(1)
        _carry_unknown(source, writer, context.report)


def predict(source: Record | Collection, context: WriteContext) -> None:
    """Raise `UnsupportedError` where the library is not installed; what is lost is said by those who write."""
    lmdb_library()


def _create(path: Path, options: CollectionOptions, **stated: Any) -> CollectionWriter | ShardedCollectionWriter:
    """Return the writer that is asked for: of one file, or of a directory of them."""
    if options.shard_records is None:
        return CollectionWriter.create(path, in_place=True, **stated)
    return ShardedCollectionWriter.create(path, shard_records=options.shard_records, in_place=True, **stated)


def _carry_unknown(source: Collection, writer: CollectionWriter | ShardedCollectionWriter, report: Report) -> None:
    """What this version has no meaning for goes with the whole of a collection; of some records nobody knows."""
    writer.extra = dict(source.extra)
    whole = source
    while isinstance(whole, CollectionView):
        whole = whole.source
    for key, value in whole.unknown_values():
        if is_known(key):
            report.dropped(f"key {key_text(key)}", "the collection does not count it")
        elif whole is source:
            writer.carry(key, value)
        else:
            report.dropped(f"key {key_text(key)}", "this version has no meaning for it; only some records are taken")


def _write_record(record: Record, path: Path, context: WriteContext, options: CollectionOptions) -> None:
    forcefield = getattr(record, "forcefield", None)
    if forcefield is not None:
        alone: dict[str, Any] = {"forcefield": None, "_close": None}
        record = dataclasses.replace(record, **alone)
    units = {**options.units(), **collection_units(record.units)}
    if not units and record.units is None:
        context.report.warn("the source states no units: the collection names none, unless --collection-units does")
    version = record.meta.get("molrec_version", 1)
    if forcefield is not None and isinstance(version, int):
        version = max(version, forcefield.minimum_version)
    mine = Report()
    member = as_member(record, mine)
    declared = [] if member.trajectory is None else [member.trajectory.declaration]
    frames = 0 if member.trajectory is None else member.trajectory.n_frames
    context.progress.start("frames", frames)
    with _create(
        path,
        options,
        declaration=derive_declaration(declared),
        document={"molrec_version": version, "units": units},
        index_columns=options.index,
        forcefield=forcefield,
        report=mine,
    ) as writer:
        writer.append(member)
        context.progress.advance(frames or 0)
    _add_to(context.report, mine)


def _add_to(report: Report, mine: Report) -> None:
    """Add what was found while writing; what the report says is dropped already is not said again."""
    known = {item.name for item in report.of(Fate.DROPPED)}
    for item in mine.items:
        if item.fate is not Fate.DROPPED or item.name not in known:
            report.add(item)
    for text in mine.warnings:
        report.warn(text)
