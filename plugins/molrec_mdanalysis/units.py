"""From a record's units to those MDAnalysis counts in, Å, ps, kJ/mol, u, e, and from those to others."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.quantities.units import conversion_factor, unit_of_quantity
from molrec_mdanalysis.names import UNITS

__all__ = ["Factors", "factors_between", "factors_of", "handed_out", "said"]

_AVOGADRO = 6.02214076e23
_EV = 1.602176634e-19 * _AVOGADRO / 1000.0
_HARTREE = 4.3597447222060e-18 * _AVOGADRO / 1000.0
#: Quantity → unit → how much of MDAnalysis' unit it is (CODATA 2018).
_KNOWN: dict[str, dict[str, float]] = {
    "length": {
        "angstrom": 1.0, "nm": 10.0, "bohr": 0.529177210903, "pm": 0.01, "m": 1e10, "cm": 1e8, "micrometer": 1e4,
    },
    "energy": {
        "kJ/mol": 1.0, "kcal/mol": 4.184, "eV": _EV, "hartree": _HARTREE,
        "J": _AVOGADRO / 1000.0, "erg": _AVOGADRO / 1e10,
    },
    "time": {"ps": 1.0, "fs": 0.001, "ns": 1000.0, "microsecond": 1e6, "s": 1e12},
    "mass": {"dalton": 1.0, "g/mol": 1.0, "kg": _AVOGADRO * 1000.0, "g": _AVOGADRO},
    "charge": {"e": 1.0, "C": 1.0 / 1.602176634e-19},
}  # fmt: skip

#: Source: Record, "Standard names".
_ENERGIES = ("pe", "ke", "etotal")


@dataclass(frozen=True)
class Factors:
    """What numbers of a record are multiplied by."""

    length: float = 1.0
    energy: float = 1.0
    time: float = 1.0
    mass: float = 1.0
    charge: float = 1.0

    def of_value(self, name: str) -> float | None:
        """Of a per-step value every record means the same by; None of any other."""
        if name in _ENERGIES:
            return self.energy
        return {"volume": self.length**3, "dt": self.time, "time_offset": self.time}.get(name)

    @property
    def velocity(self) -> float:
        """Å/ps."""
        return self.length / self.time

    @property
    def force(self) -> float:
        """kJ/(mol Å)."""
        return self.energy / self.length


def factors_of(units: Any) -> Factors:
    """The factors of units as a record states them; 1 where it states none, or none in units of the world (`lj`)."""
    stated = {"preset": units} if isinstance(units, str) else units
    if not isinstance(stated, Mapping):
        return Factors()
    found = {}
    for quantity, known in _KNOWN.items():
        text = unit_of_quantity(stated, quantity)
        if text is None:
            continue
        factor = known.get(text) or conversion_factor(text, UNITS[quantity])
        if factor is not None:
            found[quantity] = factor
        else:
            warnings.warn(f"the unit {text!r} of {quantity} is not converted to MDAnalysis' own", stacklevel=2)
    return Factors(**found)


def handed_out(units: Any, *, converted: bool) -> dict[str, Any] | None:
    """The units numbers of a record are in behind its reader; None where the record states none.

    `converted`: by `factors_of`, which leaves quantities alone that have no unit, or one it does not know.
    """
    stated = {"preset": units} if isinstance(units, str) else units
    if not isinstance(stated, Mapping) or not stated:
        return None
    texts = {quantity: unit_of_quantity(stated, quantity) for quantity in _KNOWN}
    there = {quantity: text for quantity, text in texts.items() if text is not None}
    if not converted or not there:
        return dict(stated)
    own = {
        quantity: UNITS[quantity] if text in _KNOWN[quantity] or conversion_factor(text, UNITS[quantity]) else text
        for quantity, text in there.items()
    }
    return dict(UNITS) if {**own, "angle": UNITS["angle"]} == UNITS else own


def factors_between(source: Mapping[str, Any], target: Mapping[str, Any]) -> Factors:
    """What numbers in some units are multiplied by to be in others. UnsupportedError: there is no way between them."""
    found = {}
    for quantity, known in _KNOWN.items():
        a, b = unit_of_quantity(source, quantity), unit_of_quantity(target, quantity)
        if a is None or b is None:
            lacking = source if a is None else target
            raise UnsupportedError(
                f"numbers cannot be converted between the units {said(source)} and {said(target)}: "
                f"{said(lacking)} says no {quantity}"
            )
        factor = known[a] / known[b] if a in known and b in known else conversion_factor(a, b)
        if factor is None:
            raise UnsupportedError(f"{quantity} in {a} cannot be converted to {b}")
        found[quantity] = 1.0 if a == b else factor
    return Factors(**found)


def said(units: Mapping[str, Any]) -> str:
    """Units as a sentence has them."""
    return str(units["preset"]) if "preset" in units else ", ".join(map(str, units.values()))
