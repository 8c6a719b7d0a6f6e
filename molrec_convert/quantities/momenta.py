"""Momenta as ASE has them, (dalton eV)**0.5, whatever units a record states, and velocities in the record's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from molrec_convert.quantities.dimensions import unit_of_dimension
from molrec_convert.quantities.units import conversion_factor

__all__ = ["velocity_factor"]


def velocity_factor(units: Mapping[str, Any]) -> float | None:
    """Return what momentum/mass in ASE's units and daltons is multiplied by to be a velocity in a record's units.

    98.2269… for `metal` (angstrom/ps). None where the record states no unit of length or time.
    """
    text = unit_of_dimension("velocity", units)
    return None if text is None else conversion_factor("(eV/dalton)**0.5", text)
