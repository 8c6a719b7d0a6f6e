"""Records and collections as databases of ASE: the writer. SQLite; JSON and LMDB where the target is named so.

A row for each frame. What a row has no column for is kept in its `data` (see `beside`), and the reader puts it back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from molrec_ase.backends import kind_of
from molrec_ase.configuration import NULLS
from molrec_ase.configurations import configurations, units_of
from molrec_ase.options import AseTarget
from molrec_ase.other_write import OtherRowWriter
from molrec_ase.sqlite_write import RowWriter
from molrec_convert.formats import WriteContext
from molrec_convert.model import Record
from molrec_convert.model.collection import Collection
from molrec_convert.report import Report

__all__ = ["predict", "write_database"]

_METADATA = "ase.metadata"
_OTHER = ("forcefield", "observables", "method", "status", "metrics")


def write_database(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write the rows of a database. The target's name says which kind: `.json`, `.aselmdb`, else SQLite.

    `UsageError` where atoms have no element, or no positions; `UnsupportedError` where a back end is not installed.
    """
    target = path if context.target is None else context.target
    kind = kind_of(target)
    options = context.options if isinstance(context.options, AseTarget) else AseTarget()
    metadata = None
    if isinstance(source, Record):
        trajectory = source.trajectory
        total = 1 if trajectory is None else trajectory.n_frames
        counted = total is not None and total > 1
    else:
        metadata = source.document.get(_METADATA)
        total, counted = source.n_frames, False
    context.progress.start("rows", total)
    with _writer(path, kind, context.report, metadata if isinstance(metadata, dict) else None) as writer:
        for number, (made, meta) in enumerate(configurations(source, options.elements, context.report)):
            writer.write(made, meta, number if counted else 0)
            context.progress.advance(1)


def _writer(path: Path, kind: str, report: Report, metadata: dict[str, Any] | None) -> RowWriter | OtherRowWriter:
    return RowWriter(path, report, metadata) if kind == "db" else OtherRowWriter(path, kind, report, metadata)


def predict(record: Record | Collection, context: WriteContext) -> None:
    """Report what rows of a database have no place for, before any is written."""
    import ase.db.core  # noqa: F401  # without it no row is made, which a dry run tells, too

    if context.target is not None:
        kind_of(context.target)
    report = context.report
    # atoms without an element are refused here already
    next(iter(configurations(record, getattr(context.options, "elements", ()), Report())), None)
    if not isinstance(record, Record):
        _report_collection(record, report)
        return
    units_of(record.units, report)
    _report_blocks(record, report)
    _report_nulls(record, report)
    if record.frame is not None and record.trajectory is not None:
        report.dropped("frame", "the rows are those of the trajectory")


def _report_collection(source: Collection, report: Report) -> None:
    if source.forcefield is not None:
        report.dropped("forcefield", "ASE's databases have no place for it")
    for name in source.declaration.blocks:
        if name != "atoms":
            report.dropped(f"trajectory/{name}", "ASE's databases have atoms only")
    for record in source:
        _report_blocks(record, report)
        _report_nulls(record, report)


def _report_blocks(record: Record, report: Report) -> None:
    names = {"system": record.system, "frame": record.frame}
    for section, part in names.items():
        for name in () if part is None else part.blocks:
            if name != "atoms":
                report.dropped(f"{section}/{name}", "ASE's databases have atoms only")
    if record.trajectory is not None:
        for name in record.trajectory.declaration.blocks:
            if name != "atoms":
                report.dropped(f"trajectory/{name}", "ASE's databases have atoms only")


def _report_nulls(record: Record, report: Report) -> None:
    """Report columns that are null for some atoms of a frame."""
    for part in (record.system, record.frame):
        for name, column in () if part is None or "atoms" not in part.blocks else part["atoms"].columns.items():
            if column.validity is not None and column.validity.any():
                report.dropped(f"atoms/{name}", NULLS)
    trajectory = record.trajectory
    declared = None if trajectory is None else trajectory.declaration.blocks.get("atoms")
    nullable = [] if declared is None else [name for name, column in declared.columns.items() if column.nullable]
    if not nullable:
        return
    assert trajectory is not None
    for batch in trajectory.batches(columns=[f"atoms/{name}" for name in nullable]):
        updates = batch.blocks.get("atoms")
        if updates is None:
            continue
        offset = updates.offset
        for name, mask in updates.validity.items():
            there = np.diff(np.concatenate([[0], np.cumsum(mask)])[offset])
            if bool(((there > 0) & (there < np.diff(offset))).any()):
                report.dropped(f"atoms/{name}", NULLS)
