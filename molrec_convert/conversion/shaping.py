"""What of a source is taken: frames, columns, precision. Nothing is read here, trajectories become views.

What says what a particle is stays, whatever columns are asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from molrec_convert.conversion.collecting import ShapedCollection, refuse_unknown
from molrec_convert.errors import UsageError
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block, Column, Frame
from molrec_convert.model.picked import Frames, PickedTrajectory, frame_count, ordinals_of
from molrec_convert.model.precision import check_precision, quantum
from molrec_convert.model.record import Record
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.model.standard import IDENTITY_COLUMNS
from molrec_convert.model.trajectory import Trajectory, TrajectoryView
from molrec_convert.report import Report

__all__ = ["shape", "take_configurations"]

_POSITIONS = ("x", "y", "z")
_ATOMS = "atoms"


def shape(
    record: Record | Collection,
    frames: Frames | None,
    columns: list[str] | None,
    precision: float | Mapping[str, float] | None,
    report: Report,
) -> Record | Collection:
    """The record, or each of a collection, with the frames, columns and precision asked for."""
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
    """The frames of a list of numbers and slices."""
    return PickedTrajectory(trajectory, ordinals_of(frames, frame_count(trajectory)))


def _slice_observables(
    observables: Observables, count: int | None, view: TrajectoryView | PickedTrajectory, report: Report
) -> Observables:
    """The observables over the frames of a view of `count`: those of the trajectory's frames lose the others' rows."""
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
    """Only these columns, and those that say what a particle is: they stay in `system`, or where atoms come and go."""
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
