"""ASE's databases and trajectories as records: the readers of both formats.

SQLite is read from its tables; databases in JSON, LMDB and whatever else ASE knows go through ASE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from molrec_ase.databases.rows import SqliteRows
from molrec_ase.plugin import AseOptions
from molrec_ase.reading.collection import AseCollection, record_of_part
from molrec_ase.reading.labels import LabelledSource, propose_labels, stated_units
from molrec_ase.reading.source import Source
from molrec_ase.reading.survey import Plan, collection_declaration, plan_trajectory
from molrec_ase.reading.trajectory import AseTrajectory
from molrec_convert.errors import FormatError
from molrec_convert.formats import Arrangement, ReadContext
from molrec_convert.model import Record
from molrec_convert.model.collection.collection import Collection
from molrec_convert.report import Report

__all__ = ["arranged", "read_database", "read_trajectory"]

_SQLITE = b"SQLite format 3\0"


def read_database(paths: Sequence[Path], context: ReadContext) -> Record | Collection:
    """Read one database: a collection with a record of each row, or a record with a trajectory of all.

    FormatError names the row that is at fault.
    """
    path, outline = paths[0], context.outline
    with path.open("rb") as file:
        head = file.read(len(_SQLITE))
    source: Source
    if head == _SQLITE:
        widths = None if outline is None else outline["source"]["widths"]
        source = SqliteRows(path, context.progress, widths)
    elif not head:
        raise FormatError(path, found="an empty file", expected="a database of ASE")
    else:
        from molrec_ase.databases.backends import open_rows

        source = open_rows(path, context.report)
    if context.arrangement is None and len(source):
        context.report.converted("rows", "one record each; --as trajectory makes one run of them")
    source = _labelled(source, context)
    return arranged(source, context.arrangement or "collection", path, context.report, outline)


def read_trajectory(paths: Sequence[Path], context: ReadContext) -> Record | Collection:
    """Read one trajectory: a record, or a collection with a record of each frame."""
    from molrec_ase.reading.ulm import open_frames

    source = _labelled(open_frames(paths[0], context.report), context)
    wanted = context.arrangement
    if wanted is None:
        wanted = "trajectory"
        try:
            apart = context.target == "collection" and not source.survey.uniform
        except BaseException:
            source.close()
            raise
        if apart:
            wanted = "collection"
            context.report.converted(
                "frames", "one record each: their numbers of atoms differ; --as trajectory makes one run of them"
            )
    return arranged(source, wanted, paths[0], context.report, context.outline)


def _labelled(source: Source, context: ReadContext) -> Source:
    """Return the source with the labels that are chosen, and in ASE's units where its metadata state others.

    An `outline` says that somebody looked at it before, who was told.
    """
    options = context.options if isinstance(context.options, AseOptions) else AseOptions()
    report = context.report if context.outline is None else Report()
    stated = stated_units(source.metadata, options, report)
    if options.chosen() or stated is not None:
        source = LabelledSource(source, options, stated)
    elif context.outline is None:
        propose_labels(source, report)
    return source


def arranged(
    source: Source,
    arrangement: Arrangement,
    path: Path | None = None,
    report: Report | None = None,
    outline: Mapping[str, Any] | None = None,
) -> Record | Collection:
    """Return the configurations of a source as a record with a trajectory, or as a collection (of an `outline` known
    before).

    FormatError where the source has other configurations than those of the outline.
    """
    try:
        if arrangement != "trajectory":
            if outline is not None and outline["records"] != len(source):
                counts = f"{len(source):,} configurations, {outline['records']:,} a moment ago"
                raise FormatError(path or "configurations", found=counts, expected="a file nobody writes to")
            return AseCollection(source, outline)
        if report is not None:
            for key in sorted(source.survey.other_meta):
                report.dropped(f"meta/{key}", "not every row's record says the same: one record says one thing")
        return _record(source, plan_trajectory(source.survey))
    except BaseException:
        source.close()
        raise


def _record(source: Source, plan: Plan) -> Record:
    if len(source) == 1:
        from molrec_ase.chunk import split_chunk

        part = split_chunk(next(source.chunks([0])))[0]
        record = record_of_part(part, collection_declaration(source.survey))
        record._close = source.close
        return record
    record = Record(dict(source.survey.meta), plan.system, trajectory=AseTrajectory(source, plan))
    record._close = source.close
    return record
