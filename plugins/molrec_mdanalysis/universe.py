"""A universe of a record in memory or on disk, what `Record.to_universe` gives, and a record of a universe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysis.coordinates.base import FrameIteratorBase

from molrec_convert.errors import UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Record
from molrec_convert.report import Report
from molrec_mdanalysis.building import first_frame, topology_of
from molrec_mdanalysis.layout import STEPS
from molrec_mdanalysis.reader import MrecReader
from molrec_mdanalysis.record import record_of
from molrec_mdanalysis.shown import Now, ShownReader
from molrec_mdanalysis_format.options import UNITS_PRESETS, MdaOptions

__all__ = ["from_universe", "to_universe", "universe_of"]


def universe_of(record: Record) -> Any:
    """The universe of a record, with nothing guessed; it reads from the record as long as that is open."""
    universe = MDAnalysis.Universe(topology_of(record), to_guess=())
    if first_frame(record) is not None:
        universe.trajectory = MrecReader(record)
    return universe


def to_universe(record: Record, **keywords: Any) -> Any:
    """A record as `MDAnalysis.Universe`; `keywords` are those of its reader (`convert_units`, `dt`).

    Types and masses a record does not state are guessed as `MDAnalysis.Universe` does it.
    """
    universe = MDAnalysis.Universe(topology_of(record))
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
    """A record of a `Universe` or an `AtomGroup`; see `molrec_convert.from_universe`."""
    for name, preset in (("units", units), ("target_units", target_units)):
        if preset is not None and preset not in UNITS_PRESETS:
            raise UsageError(f"{name}={preset!r}: there are the presets {', '.join(UNITS_PRESETS)}")
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
    context = ReadContext(
        MdaOptions(units=units, target_units=target_units),
        report=Report() if report is None else report,
        hints=frozenset(hints),
    )
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
        wanted = _numbers(frames, reader)
        if wanted is not None and not len(wanted):
            raise UsageError(f"there are no frames among those asked for of a trajectory of {reader.n_frames}")
        if wanted is not None and any(a >= b for a, b in pairwise(wanted)):
            context.hints |= {STEPS}
        shown = ShownReader(reader if shared else reader.copy(), wanted, some, shared=shared)
    try:
        return record_of(universe, path, context, {}, shown, some)
    finally:
        shown.back()


def _numbers(frames: Any, reader: Any) -> Sequence[int] | None:
    """The numbers of the frames that are asked for: all, a slice, numbers, flags, or `trajectory[...]` itself."""
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
