"""What of a source is taken: frames, columns, precision. Nothing is read here, trajectories become views.

What says what a particle is stays, whatever columns are asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from molrec_convert.errors import UsageError
from molrec_convert.model.collection.collection import Collection, CollectionView, Selection, record_of
from molrec_convert.model.collection.index import derived_value, first_frames
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.model.dtypes import check_precision, quantum
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Column, Frame
from molrec_convert.model.names import IDENTITY_COLUMNS
from molrec_convert.model.record import Record
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.model.trajectory import (
    Frames,
    PickedTrajectory,
    Trajectory,
    TrajectoryView,
    frame_count,
    ordinals_of,
)
from molrec_convert.report import Report

__all__ = [
    "ShapedCollection",
    "as_standalone_record",
    "choose_records",
    "positions",
    "refuse_unknown",
    "shape",
    "take_configurations",
]

#: What of a collection's document a record states itself.
_STATED = ("units", "molrec_version")


def choose_records(
    source: Record | Collection, record: int | slice | None, select: Selection | None, report: Report
) -> Record | Collection:
    """Return the record, or the records, of a collection that are asked for; the source itself when nothing is.

    A number is one record, which stands alone; closing it closes the collection. Raises `UsageError` where there is no
    such record, or nothing to choose from.
    """
    if record is None and select is None:
        return source
    if isinstance(source, Record):
        where = "the source" if source.path is None else source.path
        raise UsageError(f"{where} is one record: there is nothing to choose from")
    taken, count = positions(source, record, select), len(source)
    if isinstance(record, int):
        if count > 1:
            report.converted("records", f"record {taken[0]} of {count} taken as asked")
        return as_standalone_record(source, taken[0], report)
    report.converted("records", f"{len(taken)} of {count} taken as asked")
    return source.select(taken)


def positions(source: Collection, record: int | slice | None, select: Selection | None) -> list[int]:
    """Return the records of a collection asked for by number, or by condition; `UsageError` where there are none."""
    where = "the collection" if source.path is None else source.path
    if record is not None and select is not None:
        raise UsageError("records are chosen by number or by condition, not by both")
    count = len(source)
    if isinstance(record, int):
        if not -count <= record < count:
            there = f"it has {count:,}, counted from 0" if count else "it has none"
            raise UsageError(f"{where} has no record {record}: {there}")
        return [record % count]
    which = record if record is not None else select if select is not None else slice(None)
    some = source.select(which)
    assert isinstance(some, CollectionView)
    if count and not len(some):
        what = f"the condition {select!r}" if isinstance(select, str) else "what is asked for"
        raise UsageError(f"no record of {where} fits {what}: it has {count:,}")
    taken: list[int] = some.positions.tolist()
    return taken


def as_standalone_record(collection: Collection, index: int, report: Report) -> Record:
    """Return a record of a collection with what the collection says of it; closing it closes the collection."""
    record = record_of(collection, index, report)
    _report_left(collection, record, index, report)
    return dataclasses.replace(record, path=collection.path, _close=collection.close)


def _report_left(collection: Collection, record: Record, index: int, report: Report) -> None:
    """Report what a collection says and no record has a place for."""
    for part in collection.unknown_parts(index):
        report.dropped(part, "this version has no meaning for it")
    for unknown, _ in collection.unknown_values():
        report.dropped(f"key {unknown.decode('utf-8', 'backslashreplace')}", "a record has no place for it")
    for key in [*collection.extra, *(f"collection.{key}" for key in collection.document if key not in _STATED)]:
        report.dropped(key, "it is said of the whole collection")
    for name in collection.index_columns:
        column = collection.index.columns[name]
        if column.validity is not None and not column.validity[index]:
            continue
        value = column.values[index]
        plain = value.item() if hasattr(value, "item") else value
        if column.trailing or derived_value(record, name) != plain:
            report.dropped(f"index/{name}", "a record has no index, and its own meta does not say the same")


class ShapedCollection(Collection):
    """A collection with some frames of each record, some columns, columns rounded; nothing is read before it is used.

    Columns that say what a particle is are kept. A record may be left without frames: the report says how many are.
    """

    def __init__(
        self,
        source: Collection,
        *,
        frames: Frames | None,
        columns: list[str] | None,
        precision: float | Mapping[str, float] | None,
        report: Report,
    ) -> None:
        self.source, self._frames, self._report = source, frames, report
        self.document, self.path, self.extra = source.document, source.path, source.extra
        declared = source.declaration
        there = {
            name for block, entry in declared.blocks.items() for c in entry.columns for name in (c, f"{block}/{c}")
        }
        self._columns: list[str] | None = None
        if columns is not None:
            refuse_unknown(columns, there)
            identity = [
                f"{name}/{key}"
                for name, block in declared.blocks.items()
                for key in block.columns
                if name == "atoms" and key in IDENTITY_COLUMNS
            ]
            self._columns = list(dict.fromkeys([*columns, *identity]))
            report.converted("trajectory", f"columns kept as asked: {', '.join(columns)}")
            declared = declared.select(self._columns)
        self._precision: dict[str, float] = {}
        if precision is not None:
            lenient = not isinstance(precision, Mapping)
            asked = dict.fromkeys("xyz", precision) if not isinstance(precision, Mapping) else dict(precision)
            left = {n for b, entry in declared.blocks.items() for c in entry.columns for n in (c, f"{b}/{c}")}
            refuse_unknown((name for name in asked if not (lenient and left & set("xyz"))), left)
            self._precision = {name: value for name, value in asked.items() if name in left}
            declared = declared.with_precision(self._precision)
            for name, value in self._precision.items():
                report.converted(f"trajectory/{name}", f"rounded to precision {value!r}")
        self.declaration: Declaration = declared
        if frames is not None:
            most = int(source.index["n_frames"].max()) if source.path is not None and len(source) else 0
            # what is wrong with the frames asked for is so in any record
            if not len(ordinals_of(frames, most, lenient=True)) and most:
                raise UsageError(f"the records have {most} frames at most, none has those asked for")
            report.converted("trajectory", "of each record the frames asked for")
        self._index: Block | None = None

    @property
    def index(self) -> Block:
        """The source's, frames counted anew."""
        if self._frames is None:
            return self.source.index
        if self._index is None:
            columns = dict(self.source.index.columns)
            counts = columns["n_frames"].values.copy()
            for position, count in enumerate(counts.tolist()):
                counts[position] = len(ordinals_of(self._frames, count, lenient=True))
            columns["n_frames"], columns["first_frame"] = Column(counts), Column(first_frames(counts))
            self._index = Block(columns, count=len(self))
        return self._index

    @property
    def index_columns(self) -> dict[str, ColumnDeclaration]:
        """See `Collection.index_columns`."""
        return self.source.index_columns

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return int(self.index["n_frames"].sum())

    @property
    def forcefield(self) -> ForceField | None:
        """See `Collection.forcefield`."""
        return self.source.forcefield

    def __len__(self) -> int:
        return len(self.source)

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return self._shaped(self.source.record(index))

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`."""
        emptied = 0
        for position, (record, row) in enumerate(self.source.members()):
            shaped = self._shaped(record)
            for part in self.source.unknown_parts(position):
                self._report.dropped(part, "this version has no meaning for it")
            if record.trajectory is not None and record.trajectory.n_frames:
                emptied += shaped.trajectory is not None and shaped.trajectory.n_frames == 0
            yield shaped, row
        if emptied:
            self._report.warn(f"none of the frames asked for is in {emptied:,} of {len(self):,} records")

    def unknown_values(self) -> Iterator[tuple[bytes, bytes]]:
        """See `Collection.unknown_values`."""
        return self.source.unknown_values()

    def close(self) -> None:
        """Close the source's file."""
        self.source.close()

    def _shaped(self, record: Record) -> Record:
        trajectory = record.trajectory
        if trajectory is None:
            return record
        if self._frames is not None:
            trajectory = _taken(trajectory, self._frames)
        if self._columns is not None:
            there = {f"{b}/{c}" for b, entry in trajectory.declaration.blocks.items() for c in entry.columns}
            there |= {name.partition("/")[2] for name in there}
            trajectory = TrajectoryView(trajectory, columns=[name for name in self._columns if name in there])
        if self._precision:
            there = {f"{b}/{c}" for b, entry in trajectory.declaration.blocks.items() for c in entry.columns}
            there |= {name.partition("/")[2] for name in there}
            trajectory = TrajectoryView(
                trajectory, precision={name: value for name, value in self._precision.items() if name in there}
            )
        return dataclasses.replace(record, trajectory=trajectory, _close=None)


def _taken(trajectory: Trajectory, frames: Frames) -> Trajectory:
    """Return the frames asked for that a trajectory has."""
    if not isinstance(frames, slice):
        return PickedTrajectory(trajectory, ordinals_of(frames, frame_count(trajectory), lenient=True))
    if trajectory.n_frames is not None:
        return TrajectoryView(trajectory, *frames.indices(trajectory.n_frames))
    bounds = frames.start or 0, frames.stop, frames.step or 1
    if min(bounds[0], bounds[1] or 0) < 0:
        raise UsageError("only reading to the end tells how many frames a record has: count from its start")
    return TrajectoryView(trajectory, *bounds)


def refuse_unknown(asked: Iterable[str], known: set[str]) -> None:
    """Refuse a column the frames do not have, and name those they have."""
    for name in asked:
        if name not in known:
            listing = ", ".join(sorted(n for n in known if "/" not in n))
            raise UsageError(f"the frames have no column {name!r}; they have {listing or 'none'}")


_POSITIONS = ("x", "y", "z")
_ATOMS = "atoms"


def shape(
    record: Record | Collection,
    frames: Frames | None,
    columns: list[str] | None,
    precision: float | Mapping[str, float] | None,
    report: Report,
) -> Record | Collection:
    """Return the record, or each of a collection, with the frames, columns and precision asked for."""
    if frames is None and columns is None and precision is None:
        return record
    if not isinstance(record, Record):
        return ShapedCollection(record, frames=frames, columns=columns, precision=precision, report=report)
    trajectory, frame, observables = record.trajectory, record.frame, record.observables
    if frames is not None:
        if trajectory is None:
            raise UsageError("the source has no trajectory to take frames from")
        count = trajectory.n_frames
        trajectory = _slice(trajectory, frames, report) if isinstance(frames, slice) else _pick(trajectory, frames)
        if observables is not None:
            observables = _slice_observables(observables, count, trajectory, report)
    if columns is not None:
        trajectory, frame = _select(trajectory, frame, record.system, columns, report)
    if precision is not None:
        trajectory, frame = _round(trajectory, frame, precision, report)
    return dataclasses.replace(record, trajectory=trajectory, frame=frame, observables=observables, _close=None)


def take_configurations(source: Collection, frames: Frames, report: Report) -> Collection:
    """Return those records that are the chosen frames of a file, where each frame of it became a record."""
    count = len(source)
    ordinals = ordinals_of(frames, count, "configuration")
    if count and not len(ordinals):
        raise UsageError(f"the source has {count:,} configurations, none of them is asked for")
    report.converted("records", f"{len(ordinals):,} of {count:,} configurations taken as asked")
    return source.select(ordinals.tolist())


def _pick(trajectory: Trajectory, frames: Sequence[int | slice]) -> PickedTrajectory:
    """Return the frames of a list of numbers and slices."""
    return PickedTrajectory(trajectory, ordinals_of(frames, frame_count(trajectory)))


def _slice_observables(
    observables: Observables, count: int | None, view: TrajectoryView | PickedTrajectory, report: Report
) -> Observables:
    """Return the observables, of those over the trajectory's frames only the rows of the frames in a view."""
    rows = view.ordinals if isinstance(view, PickedTrajectory) else slice(view.start, view.stop, view.step)
    kept = dict(observables)
    for name, entry in observables.items():
        if not entry.time_dependent or not entry.shape:
            continue
        if entry.shape[0] == count:
            taken = entry.values[rows]
            kept[name] = Observable(taken, entry.metadata, entry.attributes)
            report.converted(f"observables/{name}", "has the rows of the frames that were taken")
        else:
            report.warn(
                f"observables/{name} is kept whole: it has {entry.shape[0]} rows, which are not the trajectory's frames"
            )
    return Observables(kept, observables.attributes)


def _slice(trajectory: Trajectory, frames: slice, report: Report) -> TrajectoryView:
    start, stop, step = frames.start, frames.stop, frames.step
    count = trajectory.n_frames
    if step is not None and step < 1:
        raise UsageError(f"frames are taken forward only, not with a step of {step}")
    if any(bound is not None and bound < 0 for bound in (start, stop)):
        if count is None:
            raise UsageError(
                "only reading to the end tells how many frames the source has: count the frames to take from its start"
            )
        if stop is None and start < -count:
            raise UsageError(_out_of_range(count, start))
        start, stop, step = frames.indices(count)
    view = TrajectoryView(trajectory, start or 0, stop, step or 1)
    if count and not view.n_frames:
        if view.start >= count:
            raise UsageError(_out_of_range(count, view.start))
        report.warn(f"none of the {count} frames is asked for, so the trajectory is empty")
    return view


def _out_of_range(count: int, frame: int) -> str:
    only = f"the frames 0 to {count - 1}" if count > 1 else "the frame 0 only"
    return f"the source has {only}, there is no frame {frame}"


def _select(
    trajectory: Trajectory | None, frame: Frame | None, system: Frame | None, columns: list[str], report: Report
) -> tuple[Trajectory | None, Frame | None]:
    """Return only these columns, and those that say what a particle is, in the system or where atoms come and go."""
    here = set() if frame is None else {*_column_names(frame)}
    settled = set() if system is None or _ATOMS not in system.blocks else {*system[_ATOMS].columns}
    if trajectory is not None:
        declared = trajectory.declaration
        there = {p for n, b in declared.blocks.items() for c in b.columns for p in (c, f"{n}/{c}")}
        identity = [
            f"{name}/{key}"
            for name, block in declared.blocks.items()
            if block.settles is not None or (name == _ATOMS and not settled)
            for key in block.columns
            if key in IDENTITY_COLUMNS
        ]
        refuse_unknown((name for name in columns if name not in settled), here | there)
        kept = list(dict.fromkeys([*(c for c in columns if c in there), *identity]))
        report.converted("trajectory", f"columns kept as asked: {', '.join(columns)}")
        trajectory = TrajectoryView(trajectory, columns=kept)
    else:
        refuse_unknown((name for name in columns if name not in settled), here)
    if frame is not None:
        blocks = {}
        for name, block in frame.blocks.items():
            kept_columns = {k: c for k, c in block.columns.items() if k in columns or f"{name}/{k}" in columns}
            if kept_columns:
                targets = {k: t for k, t in block.targets.items() if k in kept_columns}
                blocks[name] = Block(
                    kept_columns,
                    count=block.count,
                    structural_shape=block.structural_shape,
                    targets=targets,
                    attributes=block.attributes,
                )
        report.converted("frame", f"columns kept as asked: {', '.join(columns)}")
        frame = dataclasses.replace(frame, blocks=blocks)
    return trajectory, frame


def _round(
    trajectory: Trajectory | None, frame: Frame | None, precision: float | Mapping[str, float], report: Report
) -> tuple[Trajectory | None, Frame | None]:
    asked = dict.fromkeys(_POSITIONS, precision) if isinstance(precision, (int, float)) else dict(precision)
    known: set[str] = set() if frame is None else {*_column_names(frame)}
    if trajectory is not None:
        declared = trajectory.declaration
        there = {p for n, b in declared.blocks.items() for c in b.columns for p in (c, f"{n}/{c}")}
        known |= there
        mine = {name: value for name, value in asked.items() if name in there}
        for name in mine:
            _check_roundable(name, declared)
        if mine:
            trajectory = TrajectoryView(trajectory, precision=mine)
            _report_precision("trajectory", trajectory.declaration, report)
    # what is asked for the positions is for those of x y z that there are
    lenient = asked.keys() >= set(_POSITIONS) and not known.isdisjoint(_POSITIONS)
    refuse_unknown((name for name in asked if not (lenient and name in _POSITIONS)), known)
    if frame is not None:
        blocks = dict(frame.blocks)
        for name, block in blocks.items():
            rounded = dict(block.columns)
            for key, column in block.columns.items():
                value = asked.get(f"{name}/{key}", asked.get(key))
                if value is not None:
                    _check_real(key, column.dtype)
                    value = check_precision(value, column.dtype, f"frame/{name}/{key}")
                    rounded[key] = Column(column.values, column.validity, value, column.attributes)
                    report.converted(f"frame/{name}/{key}", _precision_words(value))
            blocks[name] = Block(
                rounded,
                count=block.count,
                structural_shape=block.structural_shape,
                targets=block.targets,
                attributes=block.attributes,
            )
        frame = dataclasses.replace(frame, blocks=blocks)
    return trajectory, frame


def _check_roundable(name: str, declared: Declaration) -> None:
    for block, entry in declared.blocks.items():
        for key, column in entry.columns.items():
            if name in (key, f"{block}/{key}"):
                _check_real(name, column.dtype)


def _check_real(name: str, dtype: str) -> None:
    if dtype != "f64":
        raise UsageError(f"the column {name!r} is {dtype}, and only f64 is rounded to a precision")


def _column_names(frame: Frame) -> Iterable[str]:
    return (p for name, block in frame.blocks.items() for key in block.columns for p in (key, f"{name}/{key}"))


def _report_precision(section: str, declaration: Declaration, report: Report) -> None:
    for name, block in declaration.blocks.items():
        for key, column in block.columns.items():
            if column.precision is not None:
                report.converted(f"{section}/{name}/{key}", _precision_words(column.precision))


def _precision_words(precision: float) -> str:
    return f"rounded to precision {precision!r}, quantum {quantum(precision)!r}"
