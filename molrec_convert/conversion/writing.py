"""A record or a collection to its target: what is lost is predicted, the writer called, the result given its name."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from molrec_convert.conversion.shaping import as_standalone_record
from molrec_convert.errors import LossError, MolrecError, UsageError
from molrec_convert.files.staging import Staging, check_target
from molrec_convert.formats import Format, NoProgress, Progress, ReadContext, WriteContext
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.record import Record
from molrec_convert.model.trajectory import PickedTrajectory, Trajectory, TrajectoryView
from molrec_convert.plugins import plugin_manager
from molrec_convert.report import Report

__all__ = [
    "ReadingProgress",
    "WritingProgress",
    "check_lossless",
    "fingerprint",
    "predict",
    "resumes",
    "staged",
    "write_apart",
    "write_staged",
]


def fingerprint(
    record: Record | Collection,
    chosen: Format,
    writing: WriteContext,
    paths: Sequence[Path] = (),
    reading: ReadContext | None = None,
    read_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what is noted beside an attempt: sources, options, declaration, as JSON."""
    files = sorted({file for path in paths for file in _source_files(path, writing.target)})
    note: dict[str, Any] = {
        "format": chosen.name,
        "options": [repr(writing.options), *map(repr, (read_options or {"": ""}).values())],
        "sources": [[os.path.abspath(f), f.stat().st_size, f.stat().st_mtime_ns] for f in files],
        "hints": [] if reading is None else sorted(reading.hints),
    }
    if isinstance(record, Record) and record.trajectory is not None:
        trajectory: Any = record.trajectory
        declaration = trajectory.declaration
        note["declaration"] = declaration.to_json()
        note["settling"] = {name: block.settles for name, block in declaration.blocks.items() if block.settles}
        note["frames"] = _view_words(trajectory)
    return note


def _source_files(path: Path, target: Path | None) -> Iterable[Path]:
    """Return the files of a source; in a directory neither hidden ones nor the target that may lie there too."""
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


def resumes(staging: Staging, note: dict[str, Any], chosen: Format, asked: bool) -> bool:
    """True if an earlier attempt of the same conversion goes on; `UsageError` where it was another one."""
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


def _view_words(trajectory: Trajectory) -> list[list[int | None]]:
    words: list[list[int | None]] = []
    while isinstance(trajectory, TrajectoryView | PickedTrajectory):
        if isinstance(trajectory, PickedTrajectory):
            words.append([*map(int, trajectory.ordinals)])
        else:
            words.append([trajectory.start, trajectory.stop, trajectory.step])
        trajectory = trajectory.source
    return words


#: Keys of `meta` that every writer stamps.
_STAMPS = {"molrec_version", "creator"}


@contextmanager
def staged(
    target: Path, *, overwrite: bool, is_own_output: Callable[[Path], bool] | None, dry_run: bool
) -> Iterator[Staging | None]:
    """Yield the place where a target is written; None where nothing is, and the target has only to be a right one."""
    if dry_run:
        check_target(target, overwrite=True, is_own_output=is_own_output)
        yield None
        return
    with Staging(target, overwrite=overwrite, is_own_output=is_own_output) as staging:
        yield staging


def predict(record: Record | Collection, chosen: Format, context: WriteContext, *, ahead: bool) -> None:
    """Report what the target has no place for, before anything is written; `ahead`: all of it has to be known now."""
    report = context.report
    for section in record.sections if isinstance(record, Record) else ():
        capability = chosen.carries.get(section)
        stamped = isinstance(record, Record) and not record.meta.keys() - _STAMPS
        if section == "meta" and capability is None and stamped:
            continue  # says nothing of what the record holds
        if capability is None or capability.write == "none":
            report.dropped(section, f"{chosen.title} has no place for it")
        elif capability.write != "exact":
            report.converted(section, capability.write)
    predictor = chosen.predictor() if ahead or not chosen.reports_losses_itself else None
    if predictor is not None and (
        isinstance(record, Record) or chosen.takes_collections or chosen.kind == "collection"
    ):
        predictor(record, context)


def check_lossless(report: Report) -> None:
    """Refuse to go on when something is lost. Raises `LossError`."""
    losses = report.losses()
    if report.lossy:
        more = f" and {len(losses) - 1} more" if len(losses) > 1 else ""
        raise LossError(f"refused, the conversion would lose something: {losses[0]}{more}")


def write_staged(
    record: Record | Collection,
    chosen: Format,
    staging: Staging,
    context: WriteContext,
    note: dict[str, Any],
    *,
    resume: bool,
    strict: bool,
) -> None:
    """Write at the staging place, or go on with what an attempt of the same `note` left there, and commit it."""
    if strict:
        check_lossless(context.report)
    writer = chosen.writer()
    context.resume = resumes(staging, note, chosen, resume)
    if not context.resume:
        staging.begin(note if chosen.resumable else None)
    try:
        writer(record, staging.path, context)
        if strict:
            check_lossless(context.report)
    except MolrecError:
        # The same input would fail the same way: there is nothing to resume.
        staging.discard()
        raise
    staging.commit()
    if isinstance(record, Record):
        plugin_manager().hook.molrec_record_written(record=record, target=staging.target, report=context.report)


def write_apart(
    source: Collection, chosen: Format, context: WriteContext, *, overwrite: bool, strict: bool, dry_run: bool
) -> None:
    """Write each record of a collection under a name of its own; all names are looked at before the first is written.

    The caller holds the right to write under the name that those are made of.
    """
    assert context.target is not None
    is_own_output = chosen.output_check()
    members = list(records_of(source, context.target, chosen, context.report))
    for path, _ in members:
        check_target(path, overwrite=overwrite or dry_run, is_own_output=is_own_output)
    context.progress.start("records", len(members))
    for path, opened in members:
        record = opened()
        predict(record, chosen, context, ahead=strict or dry_run)
        if strict:
            check_lossless(context.report)
        if not dry_run:
            own = dataclasses.replace(context, progress=NoProgress(), target=path)
            note = fingerprint(record, chosen, own)
            with Staging(path, overwrite=overwrite, is_own_output=is_own_output) as staging:
                write_staged(record, chosen, staging, own, note, resume=False, strict=strict)
        context.progress.advance(1)


class ReadingProgress:
    """Passes on what readers count, until something is written: from then on they count what is counted anyway."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.writing = False

    def start(self, label: str, total: int | None) -> None:
        """See `Progress.start`."""
        if not self.writing:
            self._progress.start(label, total)

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `Progress.advance`."""
        if not self.writing:
            self._progress.advance(frames, nbytes)


class WritingProgress:
    """Passes on what a writer counts of `source`, whose number of frames is the total where the writer names none."""

    def __init__(self, progress: Progress, source: Record | Collection, reading: ReadingProgress | None) -> None:
        self._progress, self._source, self._reading = progress, source, reading

    def start(self, label: str, total: int | None) -> None:
        """See `Progress.start`."""
        if self._reading is not None:
            self._reading.writing = True
        self._progress.start(label, _frames(self._source) if total is None else total)

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `Progress.advance`."""
        self._progress.advance(frames, nbytes)


def _frames(source: Record | Collection) -> int | None:
    """Return how many frames there are; None where only reading to the end tells."""
    if isinstance(source, Collection):
        return source.n_frames
    if source.trajectory is not None:
        return source.trajectory.n_frames
    return 1


_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def numbered(target: Path, number: int, count: int, chosen: Format) -> Path:
    """Return the name of one of `count` records: the number, with as many digits as the last has, before the suffix."""
    name, suffix = target.name, ""
    for ending in _COMPRESSED:
        if name.lower().endswith(ending):
            name, suffix = name[: -len(ending)], name[-len(ending) :]
    endings = [
        pattern[1:]
        for pattern in chosen.patterns
        if pattern.startswith("*.") and fnmatch.fnmatch(name.lower(), pattern.lower())
    ]
    length = max((len(ending) for ending in endings), default=len(Path(name).suffix))
    stem, ending = (name[:-length], name[-length:]) if length else (name, "")
    return target.with_name(f"{stem}-{number:0{len(str(max(count - 1, 0)))}d}{ending}{suffix}")


def records_of(
    collection: Collection, target: Path, chosen: Format, report: Report
) -> Iterator[tuple[Path, Callable[[], Record]]]:
    """Yield the name of each record, and what opens it as it stands alone; closing it leaves the collection open."""
    count = len(collection)
    for number in range(count):

        def opened(number: int = number) -> Record:
            return dataclasses.replace(as_standalone_record(collection, number, report), _close=None)

        yield numbered(target, number, count, chosen), opened
