"""Force fields of LAMMPS into a record's and back: the door to both ways.

`force_field` gives a `Potential` a place in a record, `potential_of` takes it out again; numbers of up to 15 digits are
the same decimals after both. Source: Force field, "LAMMPS mapping".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from molrec_convert.model import ForceField
from molrec_convert.report import Report
from molrec_lammps.potential.from_lammps import PairWriting, Writing
from molrec_lammps.potential.potential import Potential, relation_styles, type_names
from molrec_lammps.potential.to_lammps import Reading
from molrec_lammps.potential.to_lammps_pairs import PairReading

__all__ = ["force_field", "potential_of", "relation_styles", "type_names"]


def force_field(
    potential: Potential,
    report: Report,
    *,
    definitions: int = 1,
    directory: Path | None = None,
    name: str = "lammps",
    source: Mapping[str, Any] | None = None,
) -> ForceField:
    """Return the force field of a record for what LAMMPS' files state.

    `definitions` 1 or 2 are those its numbers follow. `directory` is where files that styles name are looked for
    (their sha256 goes beside their name). `source` is the document's `source`. `FormatError` for a row that is not of
    its style, `UnsupportedError` for what has no place.
    """
    writing = Writing(potential, report, definitions, directory)
    found, used = writing.begin(name, source)
    PairWriting(writing).add(found, used)
    writing.finish(found, used)
    return found


def potential_of(
    force_field: ForceField,
    *,
    types: Mapping[str, Sequence[str]] | None = None,
    report: Report | None = None,
) -> Potential:
    """Return what LAMMPS has to be told for a force field, of a record of any origin.

    `types` are the names of the types by kind (`atom bond angle dihedral improper`) in the order of their numbers,
    where the caller knows them (`type` beside `type_id` of a system). Without it they are those the force field came
    with, names that are decimals are their own numbers, and others are numbered as they come. `UnsupportedError` names
    what LAMMPS cannot hold.
    """
    reading = Reading(force_field, types or {}, report or Report())
    found = reading.begin()
    PairReading(reading).add(found)
    reading.finish(found)
    return found
