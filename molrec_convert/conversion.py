"""Read, write, convert: the whole package in three functions.

`convert(src, dst)` is `write(read(src), dst)` with the frames, columns and precision asked for, one fidelity report,
and safe staging: the target appears complete or not at all, an interrupted run can go on.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molrec_convert.errors import LayoutChanged, LossError, MissingInputError, MolrecError, UsageError
from molrec_convert.formats import Format, NoProgress, Progress, ReadContext, WriteContext, make_options
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block, Column, Frame
from molrec_convert.model.observables import Observable, Observables
from molrec_convert.model.precision import check_precision, quantum
from molrec_convert.model.record import Record
from molrec_convert.model.standard import IDENTITY_COLUMNS
from molrec_convert.model.trajectory import Trajectory, TrajectoryView
from molrec_convert.plugins import detect, detect_target, format_named, plugin_manager
from molrec_convert.report import Report
from molrec_convert.staging import Staging, check_apart

if TYPE_CHECKING:
    from molrec_convert.stores.zarr.trajectory_writer import TrajectoryWriter

__all__ = ["append", "convert", "open", "read", "write"]

PathLike = str | os.PathLike[str]
_POSITIONS = ("x", "y", "z")
_ATOMS = "atoms"


def read(
    *paths: PathLike,
    format: str | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Record:
    """The record in one source: a store, a foreign file, a run directory, or several files that belong together.

    `format` names the format (else content and name tell); `options` are those of the format's reader. A trajectory
    stays lazy. Raises `UsageError`, `FormatError`, `ContractError`, `UnsupportedError`.
    """
    where = [Path(path) for path in paths]
    for path in where:
        _check_input(path)
    chosen = format_named(format) if format is not None else detect(where)
    context = ReadContext(
        make_options(chosen.read_options, options, f"the format {chosen.name}"),
        Report() if report is None else report,
        NoProgress() if progress is None else progress,
    )
    return _read(chosen, where, context)


def open(path: PathLike, **options: Any) -> Record:
    """A record opened lazily; the same as `read` of one path. Use it as a context manager."""
    return read(path, **options)


def append(path: PathLike) -> TrajectoryWriter:
    """Reopen a stored record's trajectory to append frames to it; a context manager, one writer at a time."""
    from molrec_convert.stores.zarr.record import append_record

    return append_record(Path(path))


def write(
    record: Record,
    path: PathLike,
    *,
    format: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    strict: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Write a record under a name that is free, or with `overwrite` taken; the name appears when all is written.

    With `strict` a loss is a `LossError` and the target is left as it was. `resume` goes on from an interrupted
    attempt where there is one.
    """
    target = Path(path)
    chosen = format_named(format) if format is not None else detect_target(target)
    report = Report() if report is None else report
    staging = Staging(target, overwrite=overwrite)
    context = WriteContext(
        make_options(chosen.write_options, options, f"the format {chosen.name}"),
        report,
        NoProgress() if progress is None else progress,
        target,
        creator=False,
    )
    _predict(record, chosen, report)
    _write(record, chosen, staging, context, _fingerprint(record, chosen, context), resume=resume, strict=strict)
    return report


def convert(
    sources: PathLike | Sequence[PathLike],
    target: PathLike,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    frames: slice | None = None,
    columns: Iterable[str] | None = None,
    precision: float | Mapping[str, float] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    strict: bool = False,
    dry_run: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Convert one source to one target and say what became of every item.

    `frames` slices the trajectory, `columns` ("x", "atoms/x") keeps only those of the frames (what says what a
    particle is stays), `precision` is one tolerance for `x y z` or one per column. `dry_run` reads what it must to
    predict the losses and writes nothing. `options` are those of the two formats.
    """
    paths = [Path(p) for p in ([sources] if isinstance(sources, (str, os.PathLike)) else sources)]
    for path in paths:
        _check_input(path)
    source_format = format_named(from_format) if from_format is not None else detect(paths)
    target_format = format_named(to_format) if to_format is not None else detect_target(Path(target))
    report = Report() if report is None else report
    progress = NoProgress() if progress is None else progress
    read_options, write_options = _divide(options, source_format, target_format)
    staging = Staging(Path(target), overwrite=overwrite or dry_run)
    # a record may be rewritten in its own place
    check_apart(Path(target), [path for path in paths if source_format != target_format or not _same(path, target)])
    # what an interrupted attempt found out about the source holds for the one that goes on
    hints = frozenset(staging.read_note().get("hints", ())) if resume and staging.started else frozenset()
    reading = ReadContext(read_options, report, progress, hints)
    writing = WriteContext(write_options, report, progress, Path(target))
    mark = report.mark()
    while True:
        record = _read(source_format, paths, reading)
        try:
            shaped = _shape(record, frames, None if columns is None else list(columns), precision, report)
            _predict(shaped, target_format, report)
            if strict and report.lossy:
                raise LossError(_loss_sentence(report))
            if not dry_run:
                note = _fingerprint(shaped, target_format, writing, paths, reading)
                _write(shaped, target_format, staging, writing, note, resume=resume, strict=strict)
            return report
        except LayoutChanged as changed:
            if changed.hint in reading.hints:
                raise
            report.rewind(mark)
            report.warn(f"{changed.reason}: started over with the layout for that")
            mark = report.mark()
            reading = dataclasses.replace(reading, hints=reading.hints | {changed.hint})
        finally:
            record.close()


def _check_input(path: Path) -> None:
    if not path.exists():
        raise MissingInputError(path)
    if path.is_fifo() or path.is_socket():
        raise UsageError(f"{path} is a pipe, and a source is read more than once: save it to a file first")


def _read(chosen: Format, paths: list[Path], context: ReadContext) -> Record:
    if len(paths) > 1 and not (chosen.many_inputs or chosen.combines):
        raise UsageError(f"the format {chosen.name} reads one input at a time, {len(paths)} are named")
    record = chosen.reader()(paths, context)
    plugin_manager().hook.molrec_record_read(record=record, context=context)
    return record


def _write(
    record: Record,
    chosen: Format,
    staging: Staging,
    context: WriteContext,
    note: dict[str, Any],
    *,
    resume: bool,
    strict: bool,
) -> None:
    if strict and context.report.lossy:
        raise LossError(_loss_sentence(context.report))
    writer = chosen.writer()
    staging.check_free()
    context.resume = _resumes(staging, note, chosen, resume)
    if not context.resume:
        staging.discard()
    if chosen.resumable:
        staging.write_note(note)
    try:
        writer(record, staging.path, context)
        if strict and context.report.lossy:
            raise LossError(_loss_sentence(context.report))
        staging.commit()
    except MolrecError:
        # The same input would fail the same way: there is nothing to resume.
        staging.discard()
        raise
    except BaseException:
        if not chosen.resumable:
            staging.discard()
        raise
    plugin_manager().hook.molrec_record_written(record=record, target=staging.target, report=context.report)


def _resumes(staging: Staging, note: dict[str, Any], chosen: Format, asked: bool) -> bool:
    if not asked or not staging.started:
        return False
    if not chosen.resumable:
        raise UsageError(f"a conversion to {chosen.name} cannot be resumed: run it again without --resume")
    earlier = staging.read_note()
    for key in sorted({*note, *earlier}):
        if note.get(key) != earlier.get(key):
            raise UsageError(
                f"{staging.path} was begun with other {key} than now: run again without --resume to start over"
            )
    return True


def _divide(options: Mapping[str, Any], source: Format, target: Format) -> tuple[Any, Any]:
    """The options of reader and writer; one both have goes to both, one neither has is an error."""
    reads = {entry.name for entry in dataclasses.fields(source.read_options)}
    writes = {entry.name for entry in dataclasses.fields(target.write_options)}
    for name in options:
        if name not in reads | writes:
            known = ", ".join(sorted(reads | writes)) or "none"
            raise UsageError(f"{source.name} to {target.name} has no option {name!r}; it has {known}")
    return (
        make_options(source.read_options, {k: v for k, v in options.items() if k in reads}, source.name),
        make_options(target.write_options, {k: v for k, v in options.items() if k in writes}, target.name),
    )


def _shape(
    record: Record,
    frames: slice | None,
    columns: list[str] | None,
    precision: float | Mapping[str, float] | None,
    report: Report,
) -> Record:
    """The record with the frames, columns and precision asked for."""
    if frames is None and columns is None and precision is None:
        return record
    trajectory, frame, observables = record.trajectory, record.frame, record.observables
    if frames is not None:
        if trajectory is None:
            raise UsageError("the source has no trajectory to take frames from")
        trajectory = _slice(trajectory, frames, report)
        if observables is not None:
            observables = _slice_observables(observables, trajectory, report)
    if columns is not None:
        trajectory, frame = _select(trajectory, frame, record.system, columns, report)
    if precision is not None:
        trajectory, frame = _round(trajectory, frame, precision, report)
    return dataclasses.replace(record, trajectory=trajectory, frame=frame, observables=observables, _close=None)


def _slice_observables(observables: Observables, view: TrajectoryView, report: Report) -> Observables:
    """The observables over the frames of a view: those of the trajectory's frames lose the others' rows."""
    count = view.source.n_frames
    kept = dict(observables)
    for name, entry in observables.items():
        if not entry.time_dependent or not entry.shape:
            continue
        if entry.shape[0] == count:
            taken = entry.values[view.start : view.stop : view.step]
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
        _refuse_unknown((name for name in columns if name not in settled), here | there)
        kept = list(dict.fromkeys([*(c for c in columns if c in there), *identity]))
        report.converted("trajectory", f"columns kept as asked: {', '.join(columns)}")
        trajectory = TrajectoryView(trajectory, columns=kept)
    else:
        _refuse_unknown((name for name in columns if name not in settled), here)
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
    _refuse_unknown((name for name in asked if not (lenient and name in _POSITIONS)), known)
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


def _refuse_unknown(asked: Iterable[str], known: set[str]) -> None:
    for name in asked:
        if name not in known:
            listing = ", ".join(sorted(n for n in known if "/" not in n))
            raise UsageError(f"the frames have no column {name!r}; they have {listing or 'none'}")


def _report_precision(section: str, declaration: Declaration, report: Report) -> None:
    for name, block in declaration.blocks.items():
        for key, column in block.columns.items():
            if column.precision is not None:
                report.converted(f"{section}/{name}/{key}", _precision_words(column.precision))


def _precision_words(precision: float) -> str:
    return f"rounded to precision {precision!r}, quantum {quantum(precision)!r}"


def _predict(record: Record, chosen: Format, report: Report) -> None:
    """Report what the target has no place for, before anything is written."""
    for section in record.sections:
        capability = chosen.carries.get(section)
        if capability is None or capability.write == "none":
            report.dropped(section, f"{chosen.title} has no place for it")
        elif capability.write != "exact":
            report.converted(section, capability.write)


def _fingerprint(
    record: Record,
    chosen: Format,
    writing: WriteContext,
    paths: Sequence[Path] = (),
    reading: ReadContext | None = None,
) -> dict[str, Any]:
    """What must be the same for an interrupted conversion to go on: sources, options, declaration."""
    files = sorted({file for path in paths for file in _source_files(path, writing.target)})
    note: dict[str, Any] = {
        "format": chosen.name,
        "options": [repr(writing.options), "" if reading is None else repr(reading.options)],
        "sources": [[os.path.abspath(f), f.stat().st_size, f.stat().st_mtime_ns] for f in files],
        "hints": [] if reading is None else sorted(reading.hints),
    }
    if record.trajectory is not None:
        trajectory: Any = record.trajectory
        declaration = trajectory.declaration
        note["declaration"] = declaration.to_json()
        note["settling"] = {name: block.settles for name, block in declaration.blocks.items() if block.settles}
        note["frames"] = _view_words(trajectory)
    return note


def _source_files(path: Path, target: Path | None) -> Iterable[Path]:
    """The files of a source; in a directory neither hidden ones nor the target that may lie there too."""
    if not path.is_dir():
        return [path]
    mine = None if target is None else target.absolute()
    return (
        file
        for file in path.rglob("*")
        if file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and (mine is None or mine not in (file.absolute(), *file.absolute().parents))
    )


def _same(path: Path, target: PathLike) -> bool:
    return os.path.realpath(path) == os.path.realpath(target)


def _view_words(trajectory: Trajectory) -> list[list[int | None]]:
    words: list[list[int | None]] = []
    while isinstance(trajectory, TrajectoryView):
        words.append([trajectory.start, trajectory.stop, trajectory.step])
        trajectory = trajectory.source
    return words


def _loss_sentence(report: Report) -> str:
    losses = report.losses()
    more = f" and {len(losses) - 1} more" if len(losses) > 1 else ""
    return f"refused, the conversion would lose something: {losses[0]}{more}"
