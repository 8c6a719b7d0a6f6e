"""Read, write, convert: the whole package in three functions.

`convert(src, dst)` is `write(read(src), dst)` with the frames, columns and precision asked for, one fidelity report,
and safe staging: the target appears complete or not at all, an interrupted run can go on.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molrec_convert.conversion.reading import PathLike, check_input, choose, open_source, uses_of
from molrec_convert.conversion.shaping import as_standalone_record, shape, take_configurations
from molrec_convert.conversion.writing import (
    ReadingProgress,
    WritingProgress,
    check_lossless,
    fingerprint,
    predict,
    staged,
    write_apart,
    write_staged,
)
from molrec_convert.errors import LayoutChanged, UsageError
from molrec_convert.files.staging import Staging, check_apart
from molrec_convert.formats import (
    Arrangement,
    Format,
    NoProgress,
    Progress,
    ReadContext,
    WriteContext,
    make_options,
)
from molrec_convert.meaning.targets import TargetUnits, for_target, keeps_units, settles_elements
from molrec_convert.model.collection.collection import Collection, Selection
from molrec_convert.model.record import Record
from molrec_convert.model.trajectory import Frames
from molrec_convert.plugins import detect, detect_target, format_named, naming_faults, plugin_fault
from molrec_convert.report import Report

if TYPE_CHECKING:
    from molrec_convert.model.chained.trajectory import Overlap

__all__ = ["ManyRecordsError", "convert", "join", "write", "write_selection"]


def write(
    record: Record | Collection,
    path: PathLike,
    *,
    format: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    strict: bool = False,
    target_units: TargetUnits = None,
    dimensions: Mapping[str, str] | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Write a record or a collection under a free name, or with `overwrite` a taken one; it appears when it is whole.

    A collection of one may be written where a record is wanted; of another one name the record to write.
    `target_units` and `dimensions` are those of `convert`.

    With `strict` a loss is a `LossError` and the target is left as it was. `resume` goes on from an interrupted
    attempt where there is one.
    """
    target = Path(path)
    chosen = format_named(format) if format is not None else detect_target(target)
    report = Report() if report is None else report
    context = WriteContext(
        make_options(chosen.write_options, options, f"the format {chosen.name}"),
        report,
        NoProgress() if progress is None else progress,
        target,
        creator=False,
        units_kept=keeps_units(target_units),
    )
    record = _with_symbols(_fitting(record, chosen, report), chosen, report)
    record = for_target(record, chosen, target_units, dimensions, report)
    context.progress = WritingProgress(context.progress, record, None)
    staging = Staging(target, overwrite=overwrite, is_own_output=chosen.output_check())
    with staging, naming_faults((chosen, f"writing {target}", ())):
        predict(record, chosen, context, ahead=strict)
        note = fingerprint(record, chosen, context)
        write_staged(record, chosen, staging, context, note, resume=resume, strict=strict)
    return report


def convert(
    sources: PathLike | Sequence[PathLike],
    target: PathLike,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    frames: int | Frames | None = None,
    columns: Iterable[str] | None = None,
    precision: float | Mapping[str, float] | None = None,
    record: int | slice | None = None,
    select: Selection | None = None,
    each: bool = False,
    as_: Arrangement | None = None,
    target_units: TargetUnits = None,
    dimensions: Mapping[str, str] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    strict: bool = False,
    dry_run: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Convert one source to one target and say what became of every item.

    Several sources that do not belong together become the records of one collection; so does, with `each`, every one
    of those that would. Of a collection `record` (a number, or a slice) and `select` choose as `read` does.
    `frames` chooses frames: a number, a slice, or several of them in their order. Of a file whose configurations become
    records it chooses configurations, of any other collection frames of each record. `columns` ("x", "atoms/x") keeps
    only those of the frames (what says what a particle is stays), `precision` is one tolerance for `x y z` or one per
    column. `dry_run` reads what it must to predict the losses and writes nothing. `options` are those of the two
    formats.

    Where the source states its units, numbers are converted to those the target's format has by convention (ASE's
    files: angstrom, eV). `target_units` chooses others, for records and collections too: a preset ("metal"),
    quantities ("length=nm,energy=kJ/mol", or a mapping), or "none" for the numbers as they are. `dimensions` says of
    what dimension columns and keys are that have none by their names: {"gap": "energy", "weight": "none"}.

    `elements` ("C,H,O", or "1=C,2=H") names the element of each atom type, `guess_elements` proposes them from labels
    and masses, of any source: see `molrec_convert.meaning.species`.

    `as_` says what the configurations in a file become: one "trajectory", a "collection" of one record each, or
    "records": where TARGET is one record, each under a name of its own, numbered before the suffix (`run-07.mrec`).
    Records that stand before one that fails are complete and stay.
    """
    frames = [frames] if isinstance(frames, int) else frames
    target_format = format_named(to_format) if to_format is not None else detect_target(Path(target))
    groups = _groups(_paths(sources), from_format, target_format, each, Path(target))

    def opened(groups: Groups, options: Mapping[str, Any], context: ReadContext) -> Record | Collection:
        return _source(groups, options, context, frames)

    def take(source: Record | Collection, reading: ReadContext) -> Record | Collection:
        left = None if len(groups) > 1 or _is_file_of(source, groups[0][0]) else frames
        taken = choose(source, record, select, reading)
        if not (as_ == "records" and target_format.kind == "record" and isinstance(taken, Collection)):
            ways = groups[0][0].arrangements if as_ is None and len(groups) == 1 else ()
            taken = _fitting(taken, target_format, reading.report, ways)
        return shape(taken, left, None if columns is None else list(columns), precision, reading.report)

    return _convert(
        groups,
        Path(target),
        target_format,
        opened,
        take,
        as_=as_,
        target_units=target_units,
        dimensions=dimensions,
        overwrite=overwrite,
        resume=resume,
        strict=strict,
        dry_run=dry_run,
        report=Report() if report is None else report,
        progress=NoProgress() if progress is None else progress,
        options=options,
    )


def join(
    sources: Sequence[PathLike],
    target: PathLike,
    *,
    overlap: Overlap = "refuse",
    shift_time: bool = False,
    from_format: str | None = None,
    to_format: str | None = None,
    target_units: TargetUnits = None,
    dimensions: Mapping[str, str] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    strict: bool = False,
    dry_run: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Write the records of several sources that follow one another in time as one, and say what became of every item.

    Each source is one that `convert` reads as a record with a trajectory: a store, a file, a run directory.
    `overlap` and `shift_time` are as in `join_records`, which says what is joined; the rest is as in `convert`.
    """
    paths = _paths(sources)
    if len(paths) < 2:
        raise UsageError("at least two sources are joined")
    named = None if from_format is None else format_named(from_format)

    def source(groups: Groups, options: Mapping[str, Any], context: ReadContext) -> Record | Collection:
        return _joined(groups, options, context, overlap=overlap, shift_time=shift_time)

    return _convert(
        [(named or detect([path]), [path]) for path in paths],
        Path(target),
        format_named(to_format) if to_format is not None else detect_target(Path(target)),
        source,
        lambda record, reading: record,
        joining={"overlap": overlap, "shift_time": shift_time},
        target_units=target_units,
        dimensions=dimensions,
        overwrite=overwrite,
        resume=resume,
        strict=strict,
        dry_run=dry_run,
        report=Report() if report is None else report,
        progress=NoProgress() if progress is None else progress,
        options=options,
    )


#: Sources of a conversion, each a format and its paths.
Groups = list[tuple[Format, list[Path]]]


def _convert(
    groups: Groups,
    target: Path,
    target_format: Format,
    opened: Callable[[Groups, Mapping[str, Any], ReadContext], Record | Collection],
    take: Callable[[Record | Collection, ReadContext], Record | Collection],
    *,
    as_: Arrangement | None = None,
    joining: Mapping[str, Any] | None = None,
    target_units: TargetUnits,
    dimensions: Mapping[str, str] | None,
    overwrite: bool,
    resume: bool,
    strict: bool,
    dry_run: bool,
    report: Report,
    progress: Progress,
    options: Mapping[str, Any],
) -> Report:
    """Write what `take` makes of the source that `opened` opens; see `convert`; `joining`: options of a join."""
    target_format.writer()  # what it lacks is told before anything is read
    options = dict(options)
    species: dict[str, Any] = {}
    if not settles_elements(*(chosen.read_options for chosen, _ in groups), target_format.write_options):
        species = {name: options.pop(name) for name in ("elements", "guess_elements") if name in options}
    read_options, write_options = _divide(options, [chosen for chosen, _ in groups], target_format)
    paths = [path for _, group in groups for path in group]
    # a record may be rewritten in its own place
    others = [p for chosen, group in groups for p in group if chosen != target_format or not _same(p, target)]
    with staged(target, overwrite=overwrite, is_own_output=target_format.output_check(), dry_run=dry_run) as staging:
        check_apart(target, paths if len(groups) > 1 else others)
        # what an interrupted attempt found out about the source holds for the one that goes on
        earlier = staging.read_note() if resume and staging is not None and staging.started else {}
        hints = frozenset(earlier.get("hints", ()))
        kind = target_format.kind if joining is None else "record"
        watched = ReadingProgress(progress)
        reading = ReadContext(None, report, watched, hints, as_, kind)
        writing = WriteContext(write_options, report, progress, target, units_kept=keeps_units(target_units))
        mark = report.mark()
        while True:
            source = opened(groups, read_options, reading)
            try:
                shaped = take(source, reading)
                shaped = _with_species(shaped, species, report)
                shaped = _with_symbols(shaped, target_format, report)
                shaped = for_target(shaped, target_format, target_units, dimensions, report)
                writing.progress = WritingProgress(progress, shaped, watched)
                if as_ == "records" and target_format.kind == "record" and isinstance(shaped, Collection):
                    if resume:
                        raise UsageError("records written one by one cannot be resumed: run it again without --resume")
                    write_apart(shaped, target_format, writing, overwrite=overwrite, strict=strict, dry_run=dry_run)
                    return report
                predict(shaped, target_format, writing, ahead=strict or dry_run)
                if strict:
                    check_lossless(report)
                if staging is not None:
                    note = fingerprint(shaped, target_format, writing, paths, reading, read_options)
                    note.update({} if joining is None else joining)
                    note["units"] = [str(target_units), dict(dimensions or {})]
                    note["species"] = repr(species)
                    write_staged(shaped, target_format, staging, writing, note, resume=resume, strict=strict)
                    _count(shaped, target_format, report)
                return report
            except LayoutChanged as changed:
                if changed.hint in reading.hints:
                    raise
                report.rewind(mark)
                report.warn(f"{changed.reason}: started over with the layout for that")
                mark = report.mark()
                reading = dataclasses.replace(reading, hints=reading.hints | {changed.hint})
            except Exception as error:  # a plugin is foreign code
                told = plugin_fault(error, [*uses_of(groups), (target_format, f"writing {target}", ())])
                if told is None:
                    raise
                raise told from error
            finally:
                source.close()


def _count(written: Record | Collection, target: Format, report: Report) -> None:
    """Report how many records and frames a collection that was written has."""
    if isinstance(written, Collection) and target.kind == "collection":
        report.records, report.frames = len(written), written.n_frames
    elif target.kind == "collection":
        report.records = 1


def _with_species(source: Record | Collection, species: Mapping[str, Any], report: Report) -> Record | Collection:
    """Return the source with the elements asked for; loaded only where some are."""
    if not species:
        return source
    from molrec_convert.meaning.species import with_elements

    elements, guess = species.get("elements", ()), species.get("guess_elements", False)
    return with_elements(source, elements, guess=guess, report=report)


def _with_symbols(source: Record | Collection, target: Format, report: Report) -> Record | Collection:
    """Return the source with symbols in place of atomic numbers, loaded only for targets whose atoms have elements."""
    if target.elements is None:
        return source
    from molrec_convert.meaning.species import elements_for_target

    return elements_for_target(source, target, report)


def _paths(sources: PathLike | Sequence[PathLike]) -> list[Path]:
    paths = [Path(p) for p in ([sources] if isinstance(sources, (str, os.PathLike)) else sources)]
    for path in paths:
        check_input(path)
    return paths


def _joined(
    groups: Groups, options: Mapping[str, Any], context: ReadContext, *, overlap: Overlap, shift_time: bool
) -> Record:
    """Return the records of all sources as one, in time."""
    from molrec_convert.conversion.continuing import join_records

    records: list[tuple[str, Record]] = []
    try:
        for chosen, paths in groups:
            source = open_source(chosen, paths, dataclasses.replace(context, options=options[chosen.name]))
            record = source if isinstance(source, Record) else _only(source, paths[0], context.report)
            records.append((str(paths[0]), record))
        return join_records(records, overlap=overlap, shift_time=shift_time, report=context.report)
    except BaseException:
        for _, record in records:
            record.close()
        raise


def _only(source: Collection, path: Path, report: Report) -> Record:
    """Return the record of a collection of one; `UsageError` for another one."""
    if len(source) == 1:
        return as_standalone_record(source, 0, report)
    count = len(source)
    source.close()
    raise UsageError(f"{path} is a collection of {count:,} records, and what is joined in time is one record each")


def _groups(paths: list[Path], from_format: str | None, target: Format, each: bool, where: Path) -> Groups:
    """Return the sources among the paths: one that all of them form, or one each where they become a collection."""
    named = None if from_format is None else format_named(from_format)
    if each and target.kind != "collection":
        raise UsageError(
            f"a target of the format {target.name} is one record: several become a collection (.mrec.lmdb)"
        )
    if len(paths) > 1 and target.kind == "collection":
        apart = each or (named is not None and not (named.many_inputs or named.combines))
        if not apart and named is None:
            try:
                found = detect(paths)
                apart = not (found.many_inputs or found.combines)
            except UsageError:
                apart = True
        if apart:
            return [(named or detect([path]), [path]) for path in paths]
    found = named or detect(paths)
    if len(paths) > 1 and target.kind == "record" and not (found.many_inputs or found.combines):
        told = " ".join(shlex.quote(str(path)) for path in [*paths, "-o", where])
        raise UsageError(
            f"the format {found.name} reads one input at a time, {len(paths)} are named; runs that follow one another "
            f"in time become one record: mrec join {told}"
        )
    return [(found, paths)]


def _source(
    groups: Groups, options: Mapping[str, Any], context: ReadContext, frames: Frames | None
) -> Record | Collection:
    """Return the one source, or a collection of all of them, with only the chosen `frames` where that applies."""

    def opener(chosen: Format, paths: list[Path]) -> Record | Collection:
        source = open_source(chosen, paths, dataclasses.replace(context, options=options[chosen.name]))
        try:
            if frames is not None and isinstance(source, Collection) and _is_file_of(source, chosen):
                return take_configurations(source, frames, context.report)
            if frames is None or len(groups) == 1:
                return source
            shaped = shape(source, frames, None, None, context.report)
            return dataclasses.replace(shaped, _close=source.close) if isinstance(shaped, Record) else shaped
        except BaseException:
            source.close()
            raise

    if len(groups) == 1:
        return opener(*groups[0])
    from molrec_convert.conversion.collections import JoinedCollection

    return JoinedCollection([(str(g[0]), functools.partial(opener, f, g)) for f, g in groups], context.report)


def _is_file_of(source: Record | Collection, chosen: Format) -> bool:
    """True if the records of a source are the configurations of a file, which could have been a trajectory."""
    return isinstance(source, Collection) and "trajectory" in chosen.arrangements


#: What the ways to take configurations come to, as the one who has to choose is told.
_WAYS = {"trajectory": "one run of all: --as trajectory", "records": "a file of each: --as records"}


class ManyRecordsError(UsageError):
    """One record is wanted, and the source has another number of them."""


def _fitting(
    source: Record | Collection, target: Format, report: Report, ways: Sequence[str] = ()
) -> Record | Collection:
    """Return the source as the target takes it: the record of a collection of one where a record is wanted.

    `ways`: what else its configurations could become, which an error tells.
    """
    if isinstance(source, Record) or target.kind == "collection" or target.takes_collections:
        return source
    if len(source) != 1:
        where = "the source" if source.path is None else source.path
        many = f"is a collection of {len(source):,} records: choose one by its number (--record N)"
        many += "".join(f"; {said}" for way, said in _WAYS.items() if way in ways)
        raise ManyRecordsError(f"{where} {many if len(source) else 'is a collection without a record'}")
    return as_standalone_record(source, 0, report)


def _divide(options: Mapping[str, Any], sources: Sequence[Format], target: Format) -> tuple[dict[str, Any], Any]:
    """Return the options of each reader, by format, and of the writer. One that several have goes to all of them."""
    reads = {entry.name: {field.name for field in dataclasses.fields(entry.read_options)} for entry in sources}
    writes = {entry.name for entry in dataclasses.fields(target.write_options)}
    every = writes.union(*reads.values())
    for name in options:
        if name not in every:
            known = ", ".join(sorted(every)) or "none"
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"converting {', '.join(reads)} to {target.name} takes no {flag} ({name} in Python); it takes {known}"
            )
    return (
        {
            entry.name: make_options(
                entry.read_options, {k: v for k, v in options.items() if k in reads[entry.name]}, entry.name
            )
            for entry in sources
        },
        make_options(target.write_options, {k: v for k, v in options.items() if k in writes}, target.name),
    )


def _same(path: Path, target: PathLike) -> bool:
    return os.path.realpath(path) == os.path.realpath(target)


def write_selection(
    chosen: Collection,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the records of a view; the target appears when it is complete. Raises `UsageError` for another target."""
    try:
        found = detect_target(Path(target))
    except UsageError:
        raise UsageError(f"{target} must end in .mrec.lmdb: a collection is written") from None
    if found.kind != "collection":
        raise UsageError(f"{target} must end in .mrec.lmdb: a collection is written, not {found.title}")
    if found.name == "mrec-lmdb":
        from molrec_convert.stores.lmdb.merging import take_records
        from molrec_convert.stores.lmdb.sharded import is_stored

        if is_stored(chosen):
            take_records(chosen, target, overwrite=overwrite, report=report, progress=progress)
            return
    write(chosen, target, overwrite=overwrite, report=report, progress=progress)
