"""A record as a whole: opened section by section, written, appended to.

Source: Record; Zarr V3 binding.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from molrec_convert.errors import ContractError, FormatError, UnsupportedError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.collection.member import with_units
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Frame
from molrec_convert.model.record import Record, check_document
from molrec_convert.model.results.metrics import Metrics
from molrec_convert.model.results.observables import Observables
from molrec_convert.model.rules import Alignment
from molrec_convert.model.trajectory import BATCH_BYTES
from molrec_convert.quantities.dimensions import parse_units, same_units, units_object, units_words
from molrec_convert.report import Report
from molrec_convert.stores.zarr.record_writer import RecordWriter, write_packed, write_record
from molrec_convert.stores.zarr.sections.frames import StoredColumn, StoredFrame, read_frame, read_tables
from molrec_convert.stores.zarr.sections.metrics import has_metrics, read_metrics
from molrec_convert.stores.zarr.sections.observables import read_observables
from molrec_convert.stores.zarr.sections.unknown import KnownNodes, StoredUnknown
from molrec_convert.stores.zarr.trajectory.reader import StoredTrajectory
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
from molrec_convert.stores.zarr.v3.storage import Storage, read_document
from molrec_convert.stores.zarr.v3.zip_storage import open_storage

__all__ = [
    "LateSections",
    "StoredRecord",
    "append_record",
    "frame_nodes",
    "open_record",
    "read_store",
    "write_packed",
    "write_record",
]

T = TypeVar("T")


class LateSections:
    """The sections of a store that a record reads on demand, each once."""

    def __init__(self, storage: Storage, molrec_version: int | None) -> None:
        self._storage, self._version = storage, molrec_version
        self._readers: dict[str, Callable[[], tuple[Any, KnownNodes]]] = {}
        if read_document(storage, "forcefield") is not None:
            self._readers["forcefield"] = functools.cache(self._read_forcefield)
        if read_document(storage, "observables") is not None:
            self._readers["observables"] = functools.cache(lambda: read_observables(storage))
        if has_metrics(storage):
            self._readers["metrics"] = functools.cache(lambda: read_metrics(storage))

    def readers(self) -> dict[str, Callable[[], Any]]:
        """Return what reads each section that is there."""
        return {name: functools.partial(_first, reader) for name, reader in self._readers.items()}

    def nodes(self) -> KnownNodes:
        """Return the nodes these sections consist of."""
        known = KnownNodes()
        for reader in self._readers.values():
            known.add(reader()[1])
        return known

    def _read_forcefield(self) -> tuple[ForceField, KnownNodes]:
        document, frame = read_tables(self._storage)
        forcefield = ForceField.from_parts(
            document, frame.blocks, molrec_version=self._version, attributes=frame.attributes
        )
        return forcefield, frame_nodes(frame, "forcefield")


class _LateSection:
    """A section of a `StoredRecord`: it is read, and checked, when it is first asked for."""

    def __init__(self, check: Callable[[Any], None] | None = None) -> None:
        self._check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, record: StoredRecord, owner: type | None = None) -> Any:
        reader = record.later.get(self._name)
        if reader is not None:
            section = reader()
            if self._check is not None:
                self._check(section)
            self.__set__(record, section)
        return record.__dict__.get(self._name)

    def __set__(self, record: StoredRecord, section: Any) -> None:
        record.later.pop(self._name, None)
        record.__dict__[self._name] = section


class StoredRecord(Record):
    """A record whose force field, observables and metrics are read on first use; `later` has what reads them."""

    forcefield: ForceField | None = _LateSection(ForceField.check)  # type: ignore[assignment]
    observables: Observables | None = _LateSection()  # type: ignore[assignment]
    metrics: Metrics | None = _LateSection()  # type: ignore[assignment]

    @functools.cached_property
    def later(self) -> dict[str, Callable[[], Any]]:
        """What reads the sections that are there and have not been asked for."""
        return {}

    def _has(self, section: str) -> bool:
        return section in self.later or super()._has(section)


def frame_nodes(frame: Frame, section: str) -> KnownNodes:
    """Return the nodes of a frame-shaped section; everything else below it is unknown content."""
    known = KnownNodes(groups={section})
    for name, block in frame.blocks.items():
        known.groups |= {f"{section}/{name}", f"{section}/{name}/_validity"}
        for key, column in block.columns.items():
            known.arrays.add(f"{section}/{name}/{key}")
            if isinstance(column, StoredColumn) and column.nullable:
                known.arrays.add(f"{section}/{name}/_validity/{key}")
    if isinstance(frame, StoredFrame) and frame.cell is not None:
        known.groups.add(f"{section}/box")
        known.arrays |= {f"{section}/box/{part}" for part in ("vectors", "origin", "boundary")}
    return known


def _first(reader: Callable[[], tuple[T, KnownNodes]]) -> T:
    return reader()[0]


_FRAMES = ("system", "frame")
_DOCUMENTS = ("meta", "method", "status")
_TRAJECTORY = "trajectory"


def open_record(path: str | os.PathLike[str]) -> Record:
    """Return the record at a path, a directory or a packed file, read lazily: metadata now, values when they are asked
    for.

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
    """Return the reader of both stores as formats: `open_record`, everything carried, with the units named if it has
    none.
    """
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

    def close() -> None:
        if trajectory is not None:
            trajectory.decode_lent()
        storage.close()

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
        _close=close,
    )
    record.later.update(late.readers())
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
