"""A record as a whole: opened section by section, written, appended to.

Source: Record; Zarr V3 binding.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from molrec_convert.errors import ContractError, FormatError, UnsupportedError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model.alignment import Alignment
from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.collection.record import with_units
from molrec_convert.model.frame import Frame
from molrec_convert.model.record import Record, check_document
from molrec_convert.model.trajectory import BATCH_BYTES
from molrec_convert.quantities.dimensions import parse_units, same_units, units_object, units_words
from molrec_convert.report import Report
from molrec_convert.stores.zarr.record_writer import RecordWriter, write_packed, write_record
from molrec_convert.stores.zarr.sections.frames import read_frame
from molrec_convert.stores.zarr.sections.unknown import KnownNodes, StoredUnknown
from molrec_convert.stores.zarr.stored_record import LateSections, StoredRecord, frame_nodes
from molrec_convert.stores.zarr.trajectory.reader import StoredTrajectory
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
from molrec_convert.stores.zarr.v3.storage import Storage, read_document
from molrec_convert.stores.zarr.v3.zip_storage import open_storage

__all__ = ["append_record", "open_record", "read_store", "write_packed", "write_record"]

_FRAMES = ("system", "frame")
_DOCUMENTS = ("meta", "method", "status")
_TRAJECTORY = "trajectory"


def open_record(path: str | os.PathLike[str]) -> Record:
    """The record at a path, a directory or a packed file, read lazily: metadata now, values when they are asked for.

    Raises `FormatError` for what is no record, `ContractError` with the node's path for one that breaks a rule that
    shows in metadata; what shows in values only is refused when they are handed out.
    """
    storage = open_storage(path)
    try:
        return _open(storage)
    except BaseException:
        storage.close()
        raise


def read_store(paths: Sequence[Path], context: ReadContext) -> Record:
    """The reader of both stores as formats: `open_record`, everything carried, with the units named if it has none."""
    record = open_record(paths[0])
    units = getattr(context.options, "units", None)  # a hook may call the reader without options
    if units is not None:
        record = _with_named_units(record, paths[0], units, context.report)
    for section in record.sections:
        context.report.carried(section)
    return record


def _with_named_units(record: Record, path: Path, asked: str, report: Report) -> Record:
    """Return the record with the units of the option, where it states none; a warning where it states others."""
    named = parse_units(asked)
    if record.units is None:
        report.derived("units", f"those of --units {asked}: {path} states none")
        return replace(record, system=with_units(record.system, named))
    if not same_units(units_object(record.units), named):
        report.warn(
            f"{path} states its units ({units_words(units_object(record.units))}): --units {asked} is "
            "not taken; --target-units converts"
        )
    return record


def append_record(path: str | os.PathLike[str]) -> TrajectoryWriter:
    """Reopen the trajectory of the record at `path` to append frames after its last committed one.

    What an interrupted writer left is cleared, consolidated metadata anywhere in the store removed. Use it as a
    context manager. Raises `UsageError` for a record without a trajectory or while another writer is at work,
    `UnsupportedError` for a packed record.
    """
    root = Path(path)
    if root.is_file():
        raise UnsupportedError(f"{root} is packed: unpack it to append frames")
    with open_record(root) as record:
        if record.trajectory is None:
            raise UsageError(f"{root} has no trajectory to append frames to")
        alignment = Alignment(record.system)
        alignment.check_declaration(record.trajectory.declaration)
        alignment.load()
        rows = {name: getattr(record, name).rows for name in _FRAMES if getattr(record, name) is not None}
    writer = RecordWriter.open(root, **rows)
    writer.alignment = alignment
    return writer


def _open(storage: Storage) -> Record:
    root = read_document(storage, "")
    if root is None:
        raise FormatError(storage.path, found="no zarr.json at its root", expected="a record")
    if root["node_type"] != "group":
        raise FormatError(storage.path, found="an array", expected="a record, whose root is a group")
    documents = {name: _read_document(storage, name) for name in _DOCUMENTS}
    meta = documents["meta"] or {}
    frames = {name: read_frame(storage, name) for name in _FRAMES if read_document(storage, name) is not None}
    known = KnownNodes(groups={"", *(name for name, document in documents.items() if document is not None)})
    for name, frame in frames.items():
        known.add(frame_nodes(frame, name))
    trajectory = None
    if read_document(storage, _TRAJECTORY) is not None:
        rows = {name: frame.rows for name, frame in frames.items()}
        trajectory = _RecordTrajectory(storage, rows, Alignment(frames.get("system")))
        known.groups |= {f"{_TRAJECTORY}/{path}" if path else _TRAJECTORY for path in trajectory.groups}
        known.arrays |= {f"{_TRAJECTORY}/{path}" for path in trajectory.arrays}
    late = LateSections(storage, meta.get("molrec_version"))

    def nodes() -> KnownNodes:
        known.add(late.nodes())
        return known

    record = StoredRecord(
        meta=meta,
        system=frames.get("system"),
        frame=frames.get("frame"),
        trajectory=trajectory,
        method=documents["method"],
        status=documents["status"],
        attributes=root["attributes"],
        unknown=StoredUnknown(storage, nodes),
        path=os.fspath(storage.path),
        _close=storage.close,
    )
    record.read_later(late.readers())
    return record


def _read_document(storage: Storage, section: str) -> dict[str, Any] | None:
    document = read_document(storage, section)
    if document is None:
        return None
    if document["node_type"] != "group":
        raise ContractError(section, "the section is not a Zarr group")
    attributes: dict[str, Any] = document["attributes"]
    check_document(attributes, section)
    return attributes


class _RecordTrajectory(StoredTrajectory):
    """A stored trajectory whose frames are held against the record's `system` as they are handed out."""

    def __init__(self, storage: Storage, sections: dict[str, dict[str, int]], alignment: Alignment) -> None:
        super().__init__(storage, sections=sections)
        self._alignment = alignment

    def frame(self, index: int) -> Frame:
        """See `Trajectory.frame`."""
        frame = super().frame(index)
        self._alignment.check_frame(frame, _TRAJECTORY, f" at frame {index}")
        return frame

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        self._alignment.check_declaration(self.declaration)
        first = start
        for batch in super().batches(start, stop, step, columns, batch_bytes):
            self._alignment.check_batch(batch, first, step)
            first += batch.n_frames * step
            yield batch
