"""Records and collections as databases of ASE in SQLite: the writer.

A row for each frame. What a row has no column for is kept in its `data` (see `beside`), and the reader puts it back.
"""

from __future__ import annotations

from pathlib import Path

from molrec_ase.configurations import configurations, units_of
from molrec_ase.options import AseTarget
from molrec_ase.sqlite_write import RowWriter
from molrec_convert.errors import UnsupportedError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Record
from molrec_convert.model.collection import Collection
from molrec_convert.report import Report

__all__ = ["predict", "write_database"]

_METADATA = "ase.metadata"
_OTHER = ("forcefield", "observables", "method", "status", "metrics")


def write_database(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write the rows of a database. `UsageError` where atoms have no element, or no positions."""
    target = path if context.target is None else context.target
    if target.suffix.lower() == ".aselmdb":
        raise UnsupportedError(f"{target}: databases are written in SQLite, which has names in .db")
    options = context.options if isinstance(context.options, AseTarget) else AseTarget()
    metadata = None
    if isinstance(source, Record):
        trajectory = source.trajectory
        total = 1 if trajectory is None else trajectory.n_frames
        counted = total is not None and total > 1
    else:
        _report_collection(source, context.report)
        metadata = source.document.get(_METADATA)
        total, counted = source.n_frames, False
    context.progress.start("rows", total)
    with RowWriter(path, context.report, metadata if isinstance(metadata, dict) else None) as writer:
        for number, (made, meta) in enumerate(configurations(source, options.elements, context.report)):
            writer.write(made, meta, number if counted else 0)
            context.progress.advance(1)


def predict(record: Record, context: WriteContext) -> None:
    """Report what rows of a database have no place for, before any is written."""
    report = context.report
    units_of(record.units, report)
    _report_blocks(record, report)
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
