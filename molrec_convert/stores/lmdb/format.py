"""Collections as a format: read one, write one from a record or a collection, take one record out as it stands alone.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from molrec_convert.forcefield.units import PRESETS, QUANTITIES
from molrec_convert.formats import ReadContext, WriteContext
from molrec_convert.model.collection import Collection
from molrec_convert.model.collection_declaration import derive_declaration
from molrec_convert.model.collection_index import INDEX_COLUMNS
from molrec_convert.model.collection_member import as_member
from molrec_convert.model.frame import Frame
from molrec_convert.model.record import Record
from molrec_convert.model.tags import Meta
from molrec_convert.report import Fate, Report
from molrec_convert.stores.lmdb.options import CollectionOptions
from molrec_convert.stores.lmdb.reader import StoredCollection, open_collection
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = ["CollectionOptions", "collection_units", "read_collection", "record_of", "write_collection"]

#: What a collection states the units of, beside the force, which follows from energy and length.
_STATED = tuple(name for name in QUANTITIES if name != "angle")


def read_collection(paths: Sequence[Path], context: ReadContext) -> StoredCollection:
    """The collection in one file, every page of which has been looked at; keys it has no meaning for are reported."""
    collection = open_collection(paths[0], verify=True)
    for key in collection.unknown_keys():
        context.report.dropped(f"key {key}", "this version has no meaning for it")
    return collection


def write_collection(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write a collection: every record of one, or one record. `path` is where it is written, in place.

    A record's force field becomes the collection's. Its units, a preset written out, become the document's.
    """
    options = context.options if isinstance(context.options, CollectionOptions) else CollectionOptions()
    if isinstance(source, Record):
        _write_record(source, path, context, options)
        return
    carried = [name for name in source.index.columns if name not in INDEX_COLUMNS]
    columns: dict[str, Any] = {name: source.index.columns[name].dtype for name in carried}
    columns.update((name, None) for name in options.index if name not in columns)
    document = {**source.document, "units": {**options.units(), **source.units}}
    rows = _rows(source, carried)
    context.progress.start("records", len(source))
    with CollectionWriter.create(
        path,
        declaration=source.declaration,
        document=document,
        index_columns=columns,
        forcefield=source.forcefield,
        in_place=True,
        report=context.report,
    ) as writer:
        for record, row in zip(source, rows, strict=True):
            writer.append(record, row)
            context.progress.advance(1)


def collection_units(units: Any) -> dict[str, str]:
    """A collection's units from a record's: those it states, a preset written out. Reduced units (`lj`) are none."""
    if isinstance(units, str):
        units = {"preset": units}
    if not isinstance(units, Mapping):
        return {}
    preset = units.get("preset")
    known = PRESETS.get(preset, {}) if isinstance(preset, str) else {}
    found = {name: known[name] for name in _STATED if name in known}
    found.update({key: text for key, text in units.items() if key != "preset" and isinstance(text, str)})
    if preset is not None and "force" not in found and {"energy", "length"} <= found.keys():
        found["force"] = f"{found['energy']}/{found['length']}"
    return found


def record_of(collection: Collection, index: int, report: Report | None = None) -> Record:
    """A record of a collection as it stands alone: with the collection's force field, version and units.

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
        changes["system"] = _with_units(record.system, collection.units)
    names = {entry.name for entry in dataclasses.fields(Record)}
    if collection.forcefield is not None:
        if "forcefield" in names:
            changes["forcefield"] = collection.forcefield
        else:
            report.dropped("forcefield", "a record has no place for it")
    return dataclasses.replace(record, **changes) if changes else record


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
    with CollectionWriter.create(
        path,
        declaration=derive_declaration(declared),
        document={"molrec_version": version, "units": units},
        index_columns=options.index,
        forcefield=forcefield,
        in_place=True,
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


def _rows(source: Collection, names: list[str]) -> Iterable[dict[str, Any]]:
    """The values of index columns, a row per record; None for a null."""
    columns = [source.index.columns[name] for name in names]
    for position in range(len(source)):
        yield {
            name: None
            if column.validity is not None and not column.validity[position]
            else _plain(column.values[position])
            for name, column in zip(names, columns, strict=True)
        }


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _with_units(system: Frame | None, units: Mapping[str, str]) -> Frame:
    meta = Meta() if system is None else Meta(system.meta)
    meta.put("units", dict(units), "json")
    return Frame(meta=meta) if system is None else dataclasses.replace(system, meta=meta)
