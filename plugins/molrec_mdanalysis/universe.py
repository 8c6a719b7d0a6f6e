"""A universe of a record in memory or on disk, what `Record.to_universe` gives, and a record of a universe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysis.coordinates.base import FrameIteratorBase

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.meaning.units import in_units
from molrec_convert.model import Record
from molrec_convert.quantities.dimensions import UnitConversion, parse_units, units_object, units_words, written_out
from molrec_convert.report import Report
from molrec_mdanalysis.building import first_frame, topology_of
from molrec_mdanalysis.frames import STEPS, Now, ShownReader
from molrec_mdanalysis.names import UNITS, in_own_units
from molrec_mdanalysis.reader import MrecReader
from molrec_mdanalysis.record import record_of
from molrec_mdanalysis_format.options import UNITS_PRESETS, MdaOptions

__all__ = ["from_universe", "to_universe", "universe_of"]


def universe_of(record: Record) -> Any:
    """Return the universe of a record, its numbers as they are, nothing guessed; it reads as long as the record is
    open.
    """
    universe = MDAnalysis.Universe(topology_of(record), to_guess=())
    if first_frame(record) is not None:
        universe.trajectory = MrecReader(record, convert_units=False)
    return universe


def to_universe(record: Record, **keywords: Any) -> Any:
    """Return a record as `MDAnalysis.Universe`; `keywords` are those of its reader (`convert_units`, `dt`).

    Types and masses a record does not state are guessed as `MDAnalysis.Universe` does it.
    """
    universe = MDAnalysis.Universe(topology_of(in_own_units(record) if keywords.get("convert_units", True) else record))
    if first_frame(record) is not None:
        universe.trajectory = MrecReader(record, **keywords)
    return universe


def from_universe(
    atoms: Any,
    frames: Any = None,
    *,
    units: str | None = None,
    target_units: str | None = None,
    hints: Collection[str] = (),
    report: Report | None = None,
) -> Record:
    """Return a record of a `Universe` or an `AtomGroup`; see `molrec_convert.from_universe`."""
    if units is not None and units not in UNITS_PRESETS:
        raise UsageError(f"units={units!r}: there are the presets {', '.join(UNITS_PRESETS)}")
    wanted = None if target_units is None else parse_units(target_units, "target_units")
    report = Report() if report is None else report
    record = _record(atoms, frames, units, hints, report)
    if wanted is None:
        return record
    conversion = UnitConversion(units_object(record.units), wanted)
    for quantity in UNITS:
        if record.units and quantity in written_out(wanted) and conversion.factor(quantity) is None:
            raise UnsupportedError(
                f"numbers cannot be converted to units {units_words(wanted)}: the source states "
                f"{units_words(conversion.source)}, and no {quantity}"
            )
    made = in_units(record, wanted, report=report, strict=False)
    assert isinstance(made, Record)
    return made


def _record(atoms: Any, frames: Any, units: str | None, hints: Collection[str], report: Report) -> Record:
    """Return the record in the units MDAnalysis hands the numbers out in."""
    try:
        group = atoms.atoms
        universe = group.universe
        rows = np.asarray(group.ix, dtype=np.int64)
    except AttributeError:
        raise UsageError(f"an AtomGroup or a Universe is taken, not {type(atoms).__name__}") from None
    if not len(rows):
        raise UsageError("a group without atoms makes no record")
    if len(np.unique(rows)) != len(rows):
        raise UsageError("the group has atoms more than once; group.unique has each once")
    context = ReadContext(MdaOptions(units=units), report=report, hints=frozenset(hints))
    some = None if np.array_equal(rows, np.arange(len(universe.atoms))) else rows
    if universe._trajectory is None:
        if frames is not None:
            raise UsageError("the universe has no frames to choose from")
        return record_of(universe, Path("a universe in memory"), context, {}, None, some)
    reader = universe.trajectory
    file = getattr(reader, "filename", None)
    path = Path(file) if isinstance(file, str) else Path("a universe in memory")
    if isinstance(frames, str) and frames == "current":
        shown = ShownReader(Now(reader), rows=some)
    else:
        # transformations hold on to the atoms of this universe, so that they do nothing right in a copy of its reader
        shared = bool(reader.transformations)
        numbers = _numbers(frames, reader)
        if numbers is not None and not len(numbers):
            raise UsageError(f"there are no frames among those asked for of a trajectory of {reader.n_frames}")
        if numbers is not None and any(a >= b for a, b in pairwise(numbers)):
            context.hints |= {STEPS}
        shown = ShownReader(reader if shared else reader.copy(), numbers, some, shared=shared)
    try:
        return record_of(universe, path, context, {}, shown, some)
    finally:
        shown.back()


def _numbers(frames: Any, reader: Any) -> Sequence[int] | None:
    """Return the numbers of the frames that are asked for: all, a slice, numbers, flags, or `trajectory[...]`
    itself.
    """
    count = int(reader.n_frames)
    if frames is None or (isinstance(frames, str) and frames == "all"):
        return None
    if isinstance(frames, FrameIteratorBase):
        if frames.trajectory is not reader:
            raise UsageError("the frames are those of another trajectory")
        if hasattr(frames, "start"):
            return range(frames.start, frames.stop, frames.step)
        return [int(number) for number in getattr(frames, "frames", range(count))]
    if isinstance(frames, slice):
        return range(count)[frames]
    try:
        found = np.asarray(frames)
        if found.dtype == np.bool_ and found.shape == (count,):
            found = np.flatnonzero(found)
        if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
            raise TypeError
    except (TypeError, ValueError):
        raise UsageError(
            f"frames={frames!r}: a slice, numbers of frames, one flag for each, 'all' or 'current' are taken"
        ) from None
    for number in found.tolist():
        if not -count <= number < count:
            raise UsageError(f"there is no frame {number} in a trajectory of {count}")
    return [number % count for number in found.tolist()]
