"""Momenta as ASE has them, (dalton eV)**0.5, whatever units a record states, and velocities in the record's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from molrec_convert.quantities.dimensions import unit_of_dimension
from molrec_convert.quantities.units import conversion_factor

__all__ = ["momenta_of", "velocity_factor"]


def velocity_factor(units: Mapping[str, Any]) -> float | None:
    """Return what momentum/mass in ASE's units and daltons is multiplied by to be a velocity in a record's units.

    98.2269… for `metal` (angstrom/ps). None where the record states no unit of length or time.
    """
    text = unit_of_dimension("velocity", units)
    return None if text is None else conversion_factor("(eV/dalton)**0.5", text)


def momenta_of(velocities: NDArray[Any], masses: NDArray[Any], per_velocity: float) -> NDArray[Any]:
    """Return momenta f64[n, 3] in ASE's units, of velocities f64[n, 3] and masses f64[n] in daltons.

    `per_velocity` is the `velocity_factor` of the units of the velocities.
    """
    found: NDArray[Any] = velocities * (masses[:, None] / per_velocity)
    return found
