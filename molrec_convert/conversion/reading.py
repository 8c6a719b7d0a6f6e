"""Open a source: a store, a foreign file, a run directory, or several files that belong together."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from molrec_convert.conversion.shaping import choose_records
from molrec_convert.errors import MissingInputError, UsageError
from molrec_convert.files.regular_files import kind_of
from molrec_convert.formats import ARRANGEMENTS, Arrangement, Format, NoProgress, Progress, ReadContext, make_options
from molrec_convert.model.collection.collection import Collection, Selection
from molrec_convert.model.record import Record
from molrec_convert.plugins import Use, detect, format_named, naming_faults, plugin_manager
from molrec_convert.report import Report

__all__ = ["PathLike", "append", "check_input", "choose", "open", "open_source", "read", "uses_of"]

PathLike = str | os.PathLike[str]


@overload
def read(
    *paths: PathLike,
    format: str | None = None,
    record: int,
    select: Selection | None = None,
    as_: Arrangement | None = None,
    verify: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Record: ...


@overload
def read(
    *paths: PathLike,
    format: str | None = None,
    record: slice | None = None,
    select: Selection | None = None,
    as_: Arrangement | None = None,
    verify: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Record | Collection: ...


def read(
    *paths: PathLike,
    format: str | None = None,
    record: int | slice | None = None,
    select: Selection | None = None,
    as_: Arrangement | None = None,
    verify: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Record | Collection:
    """Read the record in one source: a store, a foreign file, a run directory, or several files that belong together.

    A source of many records gives a `Collection`, also when it holds one: of it `record` takes one out, by its number,
    as a `Record` (a slice: a smaller collection), `select` those that fit, as `Collection.select` takes them.
    `as_` says whether the configurations in a file are a "trajectory", or a "collection" of one record each.
    `verify` walks every page of an LMDB file before it is mapped: for one of unknown origin.

    `format` names the format (else content and name tell); `options` are those of the format's reader. A trajectory
    stays lazy. Raises `UsageError`, `FormatError`, `ContractError`, `UnsupportedError`.
    """
    where = [Path(path) for path in paths]
    for path in where:
        check_input(path)
    chosen = format_named(format) if format is not None else detect(where)
    context = ReadContext(
        make_options(chosen.read_options, options, f"the format {chosen.name}"),
        Report() if report is None else report,
        NoProgress() if progress is None else progress,
        arrangement=as_,
        verify=verify,
    )
    return choose(open_source(chosen, where, context), record, select, context)


@overload
def open(path: PathLike, *, record: int, **options: Any) -> Record: ...


@overload
def open(path: PathLike, **options: Any) -> Record | Collection: ...


def open(path: PathLike, **options: Any) -> Record | Collection:
    """Open a record or a collection lazily, like `read` of one path. Use it as a context manager."""
    opened: Record | Collection = read(path, **options)
    return opened


def append(path: PathLike) -> Any:
    """Reopen what is stored to append to it; a context manager, one writer at a time.

    Frames to a record's trajectory (a `TrajectoryWriter`), records to a collection (a `CollectionWriter`).
    """
    where = Path(path)
    check_input(where)
    if where.is_file() and detect([where]).kind == "collection":
        from molrec_convert.stores.lmdb.writer import CollectionWriter

        return CollectionWriter.open(where)
    from molrec_convert.stores.zarr.record import append_record

    return append_record(where)


def uses_of(groups: Sequence[tuple[Format, Sequence[Path]]]) -> list[Use]:
    """Return what is read, for those who name faults."""
    return [(chosen, f"reading {' '.join(map(str, paths))}", paths) for chosen, paths in groups]


def choose(
    source: Record | Collection, record: int | slice | None, select: Selection | None, context: ReadContext
) -> Record | Collection:
    """Return the record or records asked for; a record that is taken out is passed to the hook that amends records."""
    if record is None and select is None:
        return source
    try:
        taken = choose_records(source, record, select, context.report)
    except BaseException:
        source.close()
        raise
    if isinstance(taken, Record):
        plugin_manager().hook.molrec_record_read(record=taken, context=context)
    return taken


def check_input(path: Path) -> None:
    """Refuse an input that is not there, or is neither a file nor a directory."""
    if not path.exists():
        raise MissingInputError(path)
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise UsageError(f"{path} is {kind_of(status)}, and a source is read more than once: save it to a file first")


def open_source(chosen: Format, paths: list[Path], context: ReadContext) -> Record | Collection:
    """Open a source as its format is read; faults in the reader name plugin, format and file."""
    if len(paths) > 1 and not (chosen.many_inputs or chosen.combines):
        together = f"the format {chosen.name} reads one input at a time, {len(paths)} are named"
        raise UsageError(f"{together}; several records become a collection, a target whose name ends in .mrec.lmdb")
    if context.arrangement is not None and context.arrangement not in chosen.arrangements:
        known = ARRANGEMENTS if context.arrangement not in ARRANGEMENTS else chosen.arrangements
        raise UsageError(
            f"{paths[0]}, of the format {chosen.name}, cannot be taken as {context.arrangement!r}; "
            f"{'there are ' + ', '.join(known) if known else 'it says itself what it holds'}"
        )
    with naming_faults(*uses_of([(chosen, paths)])):
        record = chosen.reader()(paths, context)
        if isinstance(record, Record):
            plugin_manager().hook.molrec_record_read(record=record, context=context)
    return record
