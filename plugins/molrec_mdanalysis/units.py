"""A record in the units MDAnalysis counts in: Å, ps, kJ/mol, u, e."""

from __future__ import annotations

from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.meaning.units import in_units
from molrec_convert.model import Record
from molrec_convert.quantities.dimensions import UnitConversion, units_object
from molrec_convert.report import Report
from molrec_mdanalysis.names import UNITS

__all__ = ["in_own_units", "stated"]


def in_own_units(record: Record) -> Record:
    """Return a record in MDAnalysis' units; itself where it is, and where it states none, or reduced ones.

    UnsupportedError: it states a unit that has no way to MDAnalysis'.
    """
    own = units_object(record.units)
    if not own or own.get("preset") == "lj" or not UnitConversion(own, UNITS).changes:
        return record
    try:
        made = in_units(record, UNITS, report=Report(), strict=False, leave=("forcefield", "metrics", "observables"))
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; convert_units=False takes the numbers as they are") from error
    assert isinstance(made, Record)
    return made


def stated(record: Record) -> dict[str, Any] | None:
    """Return the units a record states, None where it states none."""
    return units_object(record.units) or None
