"""The frames of records and collections one by one, in ASE's terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from molrec_ase.configuration import Configuration, Maker
from molrec_ase.plugin import ASE_DB
from molrec_convert.errors import UsageError
from molrec_convert.meaning.quantities import atom_blocks
from molrec_convert.meaning.species import with_elements
from molrec_convert.meaning.targets import for_target
from molrec_convert.model import NO_FILL, Record
from molrec_convert.model.collection.collection import Collection
from molrec_convert.quantities.dimensions import units_object
from molrec_convert.report import Report

__all__ = ["configurations", "of_record", "prepared", "tells_steps"]

Source = TypeVar("Source", Record, Collection, Record | Collection)
_STAMPS = frozenset({"molrec_version", "creator"})


def configurations(source: Record | Collection, report: Report) -> Iterator[tuple[Configuration, dict[str, Any]]]:
    """Each frame, with what the meta of its record says beside its version and creator."""
    if isinstance(source, Record):
        yield from of_record(source, report)
        return
    several = False
    for number, record in enumerate(source):
        for count, entry in enumerate(of_record(record, report, f"record {number}", units=source.units)):
            several = several or count > 0
            yield entry
    if several:
        report.converted("records", "a row for each frame: which frames belong to one record is not told")


def of_record(
    record: Record, report: Report, where: str = "", start: int = 0, stop: int | None = None, step: int = 1,
    units: Any = None,
) -> Iterator[tuple[Configuration, dict[str, Any]]]:  # fmt: skip
    """The frames of one record; without a trajectory its section `frame`, or its system.

    `units` are those of its collection, which hold where it states none.
    """
    trajectory = record.trajectory
    blocks = ["atoms"] if trajectory is None else atom_blocks(trajectory.declaration)
    maker = Maker(record, units_object(record.units or units), blocks, report)
    meta = {key: value for key, value in record.meta.items() if key not in _STAMPS}
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


def prepared(source: Source, elements: str | Sequence[str], report: Report) -> Source:
    """The record or collection in ASE's units, with the elements named for its types, as a conversion prepares it."""
    told = with_elements(source, elements, report=report)
    made: Source = for_target(told, ASE_DB, None, None, report)  # type: ignore[assignment]
    return made
