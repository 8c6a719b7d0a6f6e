"""Records and collections as databases of ASE: the writer. SQLite; JSON and LMDB where the target is named so.

A row for each frame. What a row has no column for is kept in its `data` (see `beside`), and the reader puts it back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from molrec_ase.api import configurations
from molrec_ase.configuration import NULLS, SPECIES, UNKNOWN_ATOMS
from molrec_ase.databases.backends import OtherRowWriter, kind_of, telling_the_disk
from molrec_ase.databases.sqlite import RowWriter
from molrec_ase.plugin import AseTarget
from molrec_ase.reading.labels import put_labels
from molrec_convert.formats import WriteContext
from molrec_convert.meaning.quantities import atom_blocks
from molrec_convert.model import Record
from molrec_convert.model.collection.collection import Collection
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
    metadata = None
    if isinstance(source, Record):
        trajectory = source.trajectory
        total = 1 if trajectory is None else trajectory.n_frames
        counted = total is not None and total > 1
    else:
        metadata = source.document.get(_METADATA)
        total, counted = source.n_frames, False
    context.progress.start("rows", total)
    labels = context.options if isinstance(context.options, AseTarget) else AseTarget()
    described = metadata if isinstance(metadata, dict) else None
    with telling_the_disk(target), _writer(path, kind, context.report, described) as writer:
        for number, (made, meta) in enumerate(configurations(source, context.report)):
            put_labels(made, labels, context.report)
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
    next(iter(configurations(record, Report())), None)
    if not isinstance(record, Record):
        _report_collection(record, report)
        return
    _report_blocks(record, report)
    _report_nulls(record, report)
    if record.frame is not None and record.trajectory is not None:
        report.dropped("frame", "the rows are those of the trajectory")


def _report_collection(source: Collection, report: Report) -> None:
    if source.forcefield is not None:
        report.dropped("forcefield", "ASE's databases have no place for it")
    for name in source.declaration.blocks.keys() - set(atom_blocks(source.declaration)):
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
        declaration = record.trajectory.declaration
        for name in declaration.blocks.keys() - set(atom_blocks(declaration)):
            report.dropped(f"trajectory/{name}", "ASE's databases have atoms only")


def _report_nulls(record: Record, report: Report) -> None:
    """Report columns that are null for some atoms of a frame."""
    for part in (record.system, record.frame):
        for name, column in () if part is None or "atoms" not in part.blocks else part["atoms"].columns.items():
            if column.validity is not None and column.validity.any() and not column.validity.all():
                _report_null(name, report)
    trajectory = record.trajectory
    if trajectory is None:
        return
    declared = trajectory.declaration.blocks
    blocks = atom_blocks(trajectory.declaration)
    nullable = [f"{block}/{name}" for block in blocks for name, c in declared[block].columns.items() if c.nullable]
    for batch in trajectory.batches(columns=nullable) if nullable else ():
        for updates in (batch.blocks[block] for block in blocks if block in batch.blocks):
            offset = updates.offset
            for name, mask in updates.validity.items():
                there = np.diff(np.concatenate([[0], np.cumsum(mask)])[offset])
                if bool(((there > 0) & (there < np.diff(offset))).any()):
                    _report_null(name, report)


def _report_null(name: str, report: Report) -> None:
    if name in SPECIES:
        report.converted(f"atoms/{name}", UNKNOWN_ATOMS)
    else:
        report.dropped(f"atoms/{name}", NULLS)
