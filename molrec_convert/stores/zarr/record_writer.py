"""Writing a record: sections in an order that leaves nothing half done, columns that never change into `system`.

Source: Record; Zarr V3 binding.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from molrec_convert._version import __version__
from molrec_convert.errors import ContractError, FormatError, UsageError
from molrec_convert.files.disk import remove, sync_tree
from molrec_convert.files.locking import PathLock
from molrec_convert.files.regular_files import open_regular
from molrec_convert.files.staging import check_apart, check_target, replacing, workroom
from molrec_convert.formats import WriteContext
from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block, Column, Frame
from molrec_convert.model.record import Record, check_record
from molrec_convert.model.results.observables import Observables
from molrec_convert.model.rules import Alignment
from molrec_convert.model.tags import canonical_json
from molrec_convert.model.trajectory import Trajectory
from molrec_convert.stores.options import MrecOptions
from molrec_convert.stores.zarr.sections.frames import write_forcefield, write_frame
from molrec_convert.stores.zarr.sections.metrics import write_metrics
from molrec_convert.stores.zarr.sections.observables import write_observables
from molrec_convert.stores.zarr.sections.unknown import write_unknown
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
from molrec_convert.stores.zarr.v3.codecs import Stage
from molrec_convert.stores.zarr.v3.commit import Unsynced, clean_record
from molrec_convert.stores.zarr.v3.metadata import MOST_CHUNKS, group_document
from molrec_convert.stores.zarr.v3.shards import index_size
from molrec_convert.stores.zarr.v3.storage import METADATA, DirectoryStorage, read_document, write_document
from molrec_convert.stores.zarr.v3.zip_storage import (
    UNIX,
    check_claims,
    check_entries,
    lost_files,
    packed_comment,
    packed_fault,
    read_entries,
    read_entry,
)

__all__ = ["RecordWriter", "pack", "unpack", "write_packed", "write_record", "write_zip"]

_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = (stat.S_IFREG | 0o644) << 16
_PIECE = 4 * 2**20


def pack(source: str | os.PathLike[str], target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Pack the record directory `source` into the zip file `target`; the directory stays.

    Raises `UsageError` when `source` is no record directory, a writer has it open, or `target` exists;
    `OSError` when the file cannot be written.
    """
    where, goal = Path(source), Path(target)
    if not where.is_dir():
        raise UsageError(f"{where} is not a record's directory: there is nothing to pack")
    root = read_document(DirectoryStorage(where), "")
    if root is None or root["node_type"] != "group":
        raise UsageError(f"{where} is not a record's directory: it has no zarr.json of a group")
    check_target(goal, overwrite=overwrite)
    check_apart(goal, [where])
    if where.resolve() in goal.resolve().parents:
        raise UsageError(f"{goal} lies inside the record that is to be packed")
    with PathLock(where, reading=True), replacing(goal, overwrite=overwrite) as made:
        write_zip(where, made)


def write_zip(source: Path, path: Path) -> None:
    """Write the files of a record's directory, which nobody alters meanwhile, as the new zip file `path`.

    Raises `ContractError` where one of them is gone.
    """
    storage = DirectoryStorage(source)
    keys = list(storage.keys())
    for key in lost_files(storage):
        raise ContractError(key, "the file is gone, and its values would be zeros: 'mrec validate' tells all that is")
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED, allowZip64=True) as packed:
        for key in keys:
            _add(packed, source, key)
        packed.comment = packed_comment(keys)


def unpack(source: str | os.PathLike[str], target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Unpack the packed record `source` into the directory `target`.

    All names are checked before a file is made: one that is absolute, leads out of the directory or is no plain
    path, a name that comes twice, a link or a folder entry is a `ContractError`. Raises `FormatError` for what is no
    readable zip, `UsageError` when `target` exists.
    """
    where, goal = Path(source), Path(target)
    if not where.is_file():
        raise UsageError(f"{where} is not a file: there is nothing to unpack")
    check_target(goal, overwrite=overwrite)
    check_apart(goal, [where])
    descriptor = open_regular(where)
    try:
        entries, comment = read_entries(descriptor, where)
        check_entries(entries)
        check_claims(entries, descriptor, whole=True)
        names = [entry.filename for entry in entries]
        if METADATA not in names:
            raise FormatError(where, found="a zip without a zarr.json at its root", expected="a packed record")
        fault = packed_fault(comment, names)
        if fault is not None:
            raise ContractError("", f"{where}: {fault}")
        with replacing(goal, overwrite=overwrite) as made:
            made.mkdir()
            for entry in entries:
                _extract(descriptor, entry, made)
    finally:
        os.close(descriptor)


def _add(packed: zipfile.ZipFile, where: Path, key: str) -> None:
    entry = zipfile.ZipInfo(key, _DATE)
    entry.compress_type = zipfile.ZIP_STORED
    entry.create_system = UNIX
    entry.external_attr = _MODE
    with open(open_regular(where / key), "rb") as file:
        # The size decides whether the entry needs ZIP64 before its first byte is written.
        entry.file_size = os.fstat(file.fileno()).st_size
        with packed.open(entry, "w") as sink:
            shutil.copyfileobj(file, sink, _PIECE)


def _extract(descriptor: int, entry: zipfile.ZipInfo, root: Path) -> None:
    path = root / entry.filename
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "xb") as sink:
        for piece in read_entry(descriptor, entry):
            sink.write(piece)


_FRAMES = ("system", "frame")
_TRAJECTORY = "trajectory"
#: Indexes that take less are not worth a word.
_ROOM = 2**26


class RecordWriter(TrajectoryWriter):
    """A trajectory writer that holds every batch against the record's `system` as well."""

    alignment = Alignment(None)

    def append(self, batch: FrameBatch) -> None:
        """See `TrajectoryWriter.append`."""
        self.alignment.check_batch(batch, self.n_frames)
        super().append(batch)

    def looks_alike(self, frame: Frame) -> bool:
        """See `TrajectoryWriter.looks_alike`: ids are held against the system's, frame by frame."""
        return not any(self.alignment.has_ids(name) and "id" in block for name, block in frame.blocks.items())


def write_record(record: Record, path: Path, context: WriteContext) -> None:
    """Write a record into the directory `path`, a staging place that becomes the record when this returns.

    With `context.resume` the directory holds an interrupted attempt of the same conversion, which goes on at its last
    committed frame. Sections come in the order root, meta, frame, forcefield, observables, method, status, metrics,
    trajectory, system, unknown content: a column that turns out never to change moves from the trajectory into
    `system`.
    Raises `ContractError` for a record that breaks a rule, `UsageError` when the directory holds something else,
    `OSError` when it cannot be written.
    """
    check_record(record)
    if not context.resume and path.is_dir() and any(path.iterdir()):
        raise UsageError(f"{path} holds something already")
    if context.resume:
        clean_record(path, Unsynced())
    try:
        _write_sections(record, path, context)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG or error.filename is None:
            raise
        node = os.path.relpath(os.fsdecode(error.filename), path)
        raise ContractError(
            node, "a name in it takes more than the 255 bytes the name of a file may have, and cannot be that of a node"
        ) from None


def _write_sections(record: Record, path: Path, context: WriteContext) -> None:
    compression = _compression(context)
    meta = _stamped(record, context)
    write_document(path, group_document(record.attributes))
    _write_document(path, "meta", meta)
    if record.frame is not None:
        _write_frame(path, "frame", record.frame, compression)
        _report_step(record.frame, context)
    if record.forcefield is not None:
        remove(path / "forcefield")
        write_forcefield(path, record.forcefield, compression=compression)
    if record.observables is not None:
        remove(path / "observables")
        write_observables(path, record.observables, compression)
        _report_observables(record.observables, record.trajectory, context)
    for name in ("method", "status"):
        document = getattr(record, name)
        if document is not None:
            _write_document(path, name, document)
    if record.metrics is not None:
        remove(path / "metrics")
        write_metrics(path, record.metrics, compression)
    system_written = False
    if record.trajectory is not None:
        system_written = _write_trajectory(record, record.trajectory, path, context, compression)
        _warn_of_room(record.trajectory, path / _TRAJECTORY, context)
    if record.system is not None and not system_written:
        _write_frame(path, "system", record.system, compression)
    if record.unknown is not None:
        write_unknown(record.unknown, path, context.report, replace=context.resume)


def write_packed(record: Record, path: Path, context: WriteContext) -> None:
    """Write a record as the packed file `path`, by way of a directory beside it."""
    directory = workroom(path)
    try:
        write_record(record, directory, context)
        write_zip(directory, path)
    finally:
        remove(directory)


def _compression(context: WriteContext) -> Stage | None:
    options = context.options if isinstance(context.options, MrecOptions) else MrecOptions()
    chosen = options.parse_compression()
    return None if chosen is None else Stage(*chosen)


def _stamped(record: Record, context: WriteContext) -> dict[str, Any]:
    """Return the meta document with the version every writer states and, of a conversion, who made it.

    The version is at least what the numbers of the force field need so that nobody misreads them.
    """
    meta, version = record.meta, record.meta.get("molrec_version", 1)
    if record.forcefield is not None:
        version = max(version, record.forcefield.minimum_version)
        record.forcefield.check_version(version)
    stamped: dict[str, Any] = {"molrec_version": version}
    if context.creator:
        stamped["creator"] = {"name": "molrec-convert", "version": __version__}
        earlier = meta.get("creator", stamped["creator"])
        if earlier != stamped["creator"]:
            context.report.converted("meta/creator", f"names this package; it was {earlier!r}")
    return stamped | {key: value for key, value in meta.items() if key not in stamped}


def _report_step(frame: Frame, context: WriteContext) -> None:
    for name in ("step", "time"):
        value = getattr(frame, name)
        if value is not None:
            context.report.dropped(f"frame/{name}", f"a single frame has none; it was {value!r}")


def _report_observables(observables: Observables, trajectory: Trajectory | None, context: WriteContext) -> None:
    count = None if trajectory is None else trajectory.n_frames
    for name, entry in observables.items():
        if count is not None and entry.time_dependent and entry.shape[0] != count:
            context.report.warn(
                f"observables/{name} is time-dependent and has {entry.shape[0]} rows, the trajectory {count} frames"
            )


def _write_document(root: Path, section: str, document: dict[str, Any]) -> None:
    remove(root / section)
    write_document(root / section, group_document(document))


def _write_frame(root: Path, section: str, frame: Frame, compression: Stage | None) -> None:
    remove(root / section)
    write_frame(root, section, frame, compression=compression)


def _write_trajectory(
    record: Record, trajectory: Trajectory, root: Path, context: WriteContext, compression: Stage | None
) -> bool:
    """Write the frames, and `system` when columns settle into it; returns whether it is written."""
    declaration = trajectory.declaration
    _check_settling(declaration)
    rows = {name: getattr(record, name).rows for name in _FRAMES if getattr(record, name) is not None}
    resumed = context.resume and (root / _TRAJECTORY / "zarr.json").is_file()
    if resumed:
        writer = RecordWriter.open(root, **rows, compression=compression)
    else:
        remove(root / _TRAJECTORY)
        writer = RecordWriter.create(
            root,
            declaration,
            cell_defined=trajectory.cell_defined,
            attributes=trajectory.attributes,
            compression=compression,
            **rows,
        )
    with writer:
        writer.alignment = Alignment(record.system)
        settled = resumed and _continues(writer, declaration, root)
        context.progress.start("frames", trajectory.n_frames)
        context.progress.advance(writer.n_frames)
        for batch in trajectory.batches(start=writer.n_frames):
            writer.append(batch)
            context.progress.advance(batch.n_frames, batch.nbytes)
        if settled:
            return True

        def store(columns: dict[str, dict[str, Column]]) -> None:
            _write_frame(root, "system", _with_columns(record.system, columns, declaration), compression)
            sync_tree(root / "system")

        return bool(writer.settle(store))


def _warn_of_room(trajectory: Trajectory, folder: Path, context: WriteContext) -> None:
    """Warn where most of what a trajectory takes is the indexes of its columns, whose size is fixed."""
    columns = sum(len(block.columns) for block in trajectory.declaration.blocks.values())
    indexes = columns * index_size(MOST_CHUNKS)
    if indexes < _ROOM:
        return
    used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if indexes > used // 2:
        context.report.warn(
            f"the trajectory takes {used / 1e6:.0f} MB, most of it for the indexes of its {columns} columns, which "
            "have room for many frames: of few frames a collection (.mrec.lmdb) takes less"
        )


def _check_settling(declaration: Declaration) -> None:
    """Refuse blocks that would bring columns of one name to the same rows."""
    seen: set[tuple[str, str]] = set()
    for name, block in declaration.blocks.items():
        for key in block.columns if block.settles is not None else ():
            if (block.settles or "", key) in seen:
                raise ContractError(
                    f"trajectory/{name}/{key}", f"two columns of this name settle into {block.settles!r}"
                )
            seen.add((block.settles or "", key))


def _continues(writer: TrajectoryWriter, declaration: Declaration, root: Path) -> bool:
    """Make a reopened writer go on with `declaration`; returns whether its columns have settled already."""
    pinned = writer.declaration.to_json()
    wanted = declaration.to_json()
    gone = {name for name in declaration.blocks if name not in writer.declaration.blocks}
    settled = bool(gone) and all(declaration.blocks[name].settles for name in gone)
    if settled and (root / "system" / "zarr.json").is_file():
        wanted["blocks"] = {name: block for name, block in wanted["blocks"].items() if name not in gone}
    if canonical_json(pinned) != canonical_json(wanted):
        raise UsageError("the interrupted attempt has another declaration: start over instead of resuming it")
    if not gone:
        # Equal but for what is never stored: where blocks settle.
        writer.declaration = declaration
    return bool(gone)


def _with_columns(system: Frame | None, settled: dict[str, dict[str, Column]], declaration: Declaration) -> Frame:
    """Return `system` with the columns that settled into its blocks."""
    base = Frame() if system is None else system
    blocks = dict(base.blocks)
    for name, columns in settled.items():
        block = blocks.get(name, Block(count=len(next(iter(columns.values())))))
        for key in columns:
            if key in block.columns:
                raise ContractError(f"system/{name}/{key}", "the column settles into a block that has one of that name")
        targets = {
            key: target
            for declared in declaration.blocks.values()
            if declared.settles == name
            for key, target in declared.targets.items()
            if key in columns
        }
        blocks[name] = Block(
            {**block.columns, **columns},
            count=block.count,
            structural_shape=block.structural_shape,
            targets={**block.targets, **targets},
            attributes=block.attributes,
        )
    return replace(base, blocks=blocks)
