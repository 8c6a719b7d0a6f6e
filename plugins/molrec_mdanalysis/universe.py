"""A universe of a record in memory or on disk: what `Record.to_universe` gives."""

from __future__ import annotations

from typing import Any

import MDAnalysis

from molrec_convert.model import Record
from molrec_mdanalysis.building import first_frame, topology_of
from molrec_mdanalysis.reader import MrecReader

__all__ = ["to_universe", "universe_of"]


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
