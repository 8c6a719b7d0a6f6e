"""Collections one after the other in one file, and some records of one: values go over as they are stored.

LMDB's own cursors copy them, only their keys are counted anew. Where not all collections have the same per-step keys
and columns the records are decoded, and written with what they lack missing.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.files.disk import name_in
from molrec_convert.files.staging import check_apart
from molrec_convert.formats import NoProgress, Progress
from molrec_convert.model.collection.collection import Collection, CollectionView
from molrec_convert.model.collection.declaration import (
    MIGRATION,
    collection_document,
    derive_declaration,
    joined_migrations,
)
from molrec_convert.model.collection.index import joined_index
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.declaration_joining import following, joined_sources
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.tags import canonical_json
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.file.footer import collection_meta, last_values
from molrec_convert.stores.lmdb.file.keys import FRAME, RECORD, SYSTEM, is_known, key_text
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.file.store import StoreFile, append_runs, in_runs
from molrec_convert.stores.lmdb.manifest import files_of
from molrec_convert.stores.lmdb.reader import StoredCollection
from molrec_convert.stores.lmdb.sharded import ShardedCollection, open_collection, places
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = ["merge_collections", "take_records"]


def merge_collections(
    sources: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    document: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    verify: bool = True,
    report: Report | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return the records of all sources, in their order, as one collection, which has its name when it is complete.

    Sources are collections or sets of them. Units and force field must be the same; blocks may differ from source to
    source. Where per-step keys and columns are the same no value is decoded; where they differ, what only some have is
    missing in the others, as in a migration, which is reported. `document` is that of the result (None: what all
    documents say). Raises `ContractError` that says which source differs in what, `UsageError` where the target is
    taken or one of the sources, and as `open_collection` does.
    """
    report = Report() if report is None else report
    progress = NoProgress() if progress is None else progress
    paths = [Path(source) for source in sources]
    if not paths:
        raise UsageError("there is nothing to merge: name the collections")
    check_apart(Path(target), [file for path in paths for file in files_of(path)])
    if overwrite and Path(target).is_dir():
        raise UsageError(f"{target} is a directory, and no file takes its place: name another target, or remove it")
    with ExitStack() as stack:
        parts: list[tuple[str, StoredCollection]] = []
        for path in paths:
            opened = open_collection(path)
            stack.callback(opened.close)
            if isinstance(opened, ShardedCollection):
                parts.extend((part.path, part) for part in opened.each_part())
            else:
                parts.append((os.fspath(path), opened))
        for file in sorted({part.path for _, part in parts}) if verify else ():
            with PageFile(file) as pages:
                pages.check()
        try:
            _merge(parts, Path(target), document, overwrite, report, progress)
        except OSError as error:
            name_in(error, target)
            raise
    return report


def _merge(
    parts: list[tuple[str, StoredCollection]],
    target: Path,
    stated: Mapping[str, Any] | None,
    overwrite: bool,
    report: Report,
    progress: Progress,
) -> None:
    """Put everything into a new file."""
    forcefield = common_forcefield(parts)
    declaration = common_declaration(parts)
    document = common_document(parts, report) if stated is None else collection_document(stated)
    extra, unknown = common_unknown(parts, report)
    index = joined_index([(name, part.index) for name, part in parts])
    made = None if stated is not None else joined_migrations([part.document for _, part in parts])
    if made is not None:
        document["migration"] = made[0]
        ways = [_ways(part, numbers) for (_, part), numbers in zip(parts, made[1], strict=True)]
        index = Block({**index.columns, MIGRATION: Column(np.concatenate(ways))}, count=index.count)
    if declaration is None:
        joined = _joined_declaration(parts, report)
        progress.start("records", index.count)
        with CollectionWriter.create(
            target,
            declaration=joined,
            document=document,
            forcefield=parts[0][1].forcefield,
            overwrite=overwrite,
            whole=index,
            report=report,
        ) as writer:
            _append_all(parts, writer, report, progress)
            writer.extra = extra
            for key, value in unknown:
                writer.carry(key, value)
        return
    size = sum(os.path.getsize(part.path) for _, part in parts)
    progress.start("records", index.count)
    # all of it fits the map at once, so no transaction is run twice
    file = StoreFile(target, overwrite=overwrite, map_size=2 * size + 2**26)
    try:
        for prefix in (FRAME, RECORD, SYSTEM):
            first = 0
            for _, part in parts:
                append_runs(file, (prefix, part.stored_runs(prefix, first)))
                first += part.n_frames if prefix == FRAME else len(part)
                progress.advance(len(part) if prefix == FRAME else 0)
        meta = collection_meta(document, declaration, index, extra)
        file.put([*unknown, *last_values(file.checksums(meta["n_records"], meta["n_frames"]), meta, index, forcefield)])
        file.complete()
    except BaseException:
        file.discard()
        raise


def _append_all(
    parts: Sequence[tuple[str, StoredCollection]], writer: CollectionWriter, report: Report, progress: Progress
) -> None:
    """All records, decoded and made to follow the declaration of all."""
    for _, part in parts:
        for number, record in enumerate(part):
            for unknown in part.unknown_parts(number):
                report.dropped(unknown, "this version has no meaning for it")
            if record.trajectory is not None:
                record = dataclasses.replace(record, trajectory=following(record.trajectory, writer.declaration))
            writer.append(record)
            progress.advance(1)


def _joined_declaration(parts: Sequence[tuple[str, StoredCollection]], report: Report) -> Declaration:
    """Return the declaration of all parts, whose keys and columns differ. Refused where a key cannot be missing."""
    joined = joined_sources([(name, part.declaration) for name, part in parts], report)
    for name, part in parts:
        for key in part.declaration.meta.keys() - joined.meta.keys():
            raise ContractError(
                f"trajectory/meta/{key}",
                f"not all collections have the per-step key, which is in {name}, and it is of a kind that cannot be "
                f"missing: 'mrec migrate' joins them with --fill {key}=VALUE or --drop {key}",
                found=part.declaration.meta[key].dtype,
            )
    return joined


def _ways(part: StoredCollection, numbers: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return for each record of a part the number of the migration that made it, among those of the result."""
    own = part.index.columns.get(MIGRATION)
    known = np.zeros(len(part), np.int64) if own is None else np.asarray(own.values, np.int64)
    return np.asarray(numbers, np.uint32)[known]


def common_declaration(parts: Sequence[tuple[str, StoredCollection]]) -> Declaration | None:
    """Return the union of all blocks, with which values are good as they are stored; None where they are not.

    They are not where per-step keys or the columns of a block differ.
    """
    first, known = parts[0][0], parts[0][1].declaration
    declared: Declaration | None = known
    for name, part in parts[1:]:
        other = part.declaration
        if other == known:
            continue
        if other.extra != known.extra:
            raise ContractError(
                "sequence_schema", f"{name} states other keys than {first}", found=str(other.extra)[:80]
            )
        if other.meta != known.meta:
            declared = None
        if declared is not None:
            try:
                declared = derive_declaration([declared, other])
            except ContractError:
                declared = None
    return declared


def common_document(parts: Sequence[tuple[str, StoredCollection]], report: Report) -> dict[str, Any]:
    """Return units, which must be the same, and what else all documents say; what only some say is reported as
    dropped.
    """
    first, known = parts[0][0], parts[0][1].document
    silent = [name for name, part in parts if not part.units]
    stated = [name for name, part in parts if part.units]
    if silent and stated:
        raise ContractError(
            "units",
            f"{silent[0]} states no units, and {stated[0]} does: 'mrec migrate' joins them with --units, in which the "
            f"numbers of those that state none are taken to be",
        )
    if silent:
        report.warn("no collection states its units: the numbers are merged as they are")
    for name, part in parts[1:]:
        for quantity in sorted({*known["units"], *part.units}):
            ours, theirs = part.units.get(quantity), known["units"].get(quantity)
            if ours != theirs:
                raise ContractError(
                    f"units.{quantity}",
                    f"the numbers of a collection are in one unit, and those of {first} and {name} differ: 'mrec "
                    f"migrate' joins them with --units, to which all are converted",
                    found=ours or "none stated",
                    expected=theirs or "none stated",
                )
    documents = [part.document for _, part in parts]
    version = max(document.get("molrec_version", 1) for document in documents)
    common = {key: value for key, value in known.items() if all(_says(d, key, value) for d in documents)}
    for key in sorted(
        {key for document in documents for key in document} - common.keys() - {"molrec_version", "migration"}
    ):
        report.dropped(f"collection.{key}", "not all collections state the same")
    return collection_document({**common, "molrec_version": version})


def _says(document: Mapping[str, Any], key: str, value: Any) -> bool:
    return key in document and canonical_json(document[key]) == canonical_json(value)


def common_forcefield(parts: Sequence[tuple[str, StoredCollection]]) -> bytes | None:
    """Return the value of the force field, which must be the same in all."""
    first, known = parts[0][0], parts[0][1].stored_forcefield()
    for name, part in parts[1:]:
        other = part.stored_forcefield()
        if other == known or (other is not None and known is not None and part.forcefield == parts[0][1].forcefield):
            continue
        found, expected = ("none" if value is None else "one" for value in (other, known))
        rule = f"a collection has one force field: {name} has another than {first}"
        if found != expected:
            raise ContractError("forcefield", rule, found=found, expected=expected)
        raise ContractError("forcefield", rule)
    return known


def common_unknown(
    parts: Sequence[tuple[str, StoredCollection]], report: Report
) -> tuple[dict[str, Any], list[tuple[bytes, bytes]]]:
    """Return what this version has no meaning for and all files have alike: keys of `meta`, and of the file."""
    extras = [dict(part.extra) for _, part in parts]
    extra = {key: value for key, value in extras[0].items() if all(_says(other, key, value) for other in extras)}
    for key in sorted({key for other in extras for key in other} - extra.keys()):
        report.dropped(f"key {key} of meta", "not all collections state the same")
    values = [dict(part.unknown_values()) for _, part in parts]
    known = {key: value for key, value in values[0].items() if all(other.get(key) == value for other in values)}
    for unknown in sorted({key for other in values for key in other}):
        if is_known(unknown):
            report.dropped(f"key {key_text(unknown)}", "the collection does not count it")
            known.pop(unknown, None)
        elif unknown not in known:
            report.dropped(f"key {key_text(unknown)}", "not all collections have the same")
    return extra, list(known.items())


def take_records(
    source: Collection,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the records of a view of a stored collection; the file has its name when it is complete.

    Nothing is decoded. What this version has no meaning for in the file itself is reported as dropped. Raises
    `UsageError` where the name is taken, `OSError` where the system refuses.
    """
    report = Report() if report is None else report
    progress = NoProgress() if progress is None else progress
    whole: Any = source
    while isinstance(whole, CollectionView):
        whole = whole.source
    for key, _ in whole.unknown_values():
        reason = "the collection does not count it" if is_known(key) else "only some records are taken"
        report.dropped(f"key {key_text(key)}", reason)
    first: StoredCollection = whole.open_part(0) if isinstance(whole, ShardedCollection) else whole
    progress.start("records", len(source))
    file = StoreFile(Path(target), overwrite=overwrite)
    try:
        append_runs(file, *((prefix, in_runs(_values(source, prefix, progress))) for prefix in (FRAME, RECORD, SYSTEM)))
        index = source.index
        meta = collection_meta(source.document, source.declaration, index, source.extra)
        file.put(
            last_values(file.checksums(meta["n_records"], meta["n_frames"]), meta, index, first.stored_forcefield())
        )
        file.complete()
    except BaseException:
        file.discard()
        raise


def _values(source: Collection, prefix: bytes, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Yield the values of one letter of all records, and their numbers in the new file."""
    frames = 0
    for number, (part, position) in enumerate(places(source)):
        for value in part.stored_values(position, prefix):
            if value is not None:
                yield (frames if prefix == FRAME else number), value
            frames += 1
        progress.advance(1 if prefix == FRAME else 0)
