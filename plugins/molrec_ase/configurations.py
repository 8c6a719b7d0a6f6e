"""The frames of records and collections one by one, in ASE's terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from molrec_ase.configuration import Configuration, Maker
from molrec_ase.units import Factors, factors_of
from molrec_convert.errors import UsageError
from molrec_convert.model import NO_FILL, Record
from molrec_convert.model.collection import Collection
from molrec_convert.report import Report

__all__ = ["configurations", "of_record", "tells_steps", "units_of"]

_STAMPS = frozenset({"molrec_version", "creator"})


def configurations(
    source: Record | Collection, elements: Sequence[str], report: Report
) -> Iterator[tuple[Configuration, dict[str, Any]]]:
    """Each frame, with what the meta of its record says beside its version and creator."""
    if isinstance(source, Record):
        yield from of_record(source, units_of(source.units, report), elements, report)
        return
    units = units_of(source.units or None, report)
    several = False
    for number, record in enumerate(source):
        own = units if record.units is None else units_of(record.units, report)
        where = f"record {number}"
        for count, entry in enumerate(of_record(record, own, elements, report, where)):
            several = several or count > 0
            yield entry
    if several:
        report.converted("records", "a row for each frame: which frames belong to one record is not told")


def of_record(
    record: Record, units: Factors, elements: Sequence[str], report: Report, where: str = "", start: int = 0,
    stop: int | None = None, step: int = 1,
) -> Iterator[tuple[Configuration, dict[str, Any]]]:  # fmt: skip
    """The frames of one record; without a trajectory its section `frame`, or its system."""
    maker = Maker(units, elements, report)
    meta = {key: value for key, value in record.meta.items() if key not in _STAMPS}
    trajectory = record.trajectory
    if trajectory is None:
        if record.frame is None and record.system is None:
            raise UsageError(f"{where or 'the record'} has no atoms")
        yield maker.make(record.system, record.frame, where=where), meta
        return
    fills = {key: None if entry.fill is NO_FILL else entry.fill for key, entry in trajectory.declaration.meta.items()}
    if (start, stop, step) != (0, None, 1):
        trajectory = trajectory[slice(start, stop, step)]
    for frame in trajectory:
        yield maker.make(record.system, frame, fills=fills, where=where), meta


def tells_steps(record: Record) -> bool:
    """Whether the frames of a record have other step numbers than their own."""
    if record.trajectory is None:
        return False
    steps = record.trajectory.steps
    return not bool((steps == np.arange(len(steps))).all())


def units_of(units: Any, report: Report) -> Factors:
    """The factors of a record's units, which are reported."""
    found = factors_of(units)
    if not found.stated:
        report.warn("the record does not state its units: its numbers are taken as ASE's, angstrom and eV")
    elif not found.plain:
        report.converted("units", "the numbers are in ASE's units now")
    return found
