"""Factors from the units a record states to ASE's, by their names, with ASE's own constants.

ASE's are angstrom, eV, dalton and elementary charges; its time is angstrom sqrt(dalton/eV), 10.18 fs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.quantities.units import PRESETS, same_unit, unit_of_quantity

__all__ = ["Factors", "factors_of"]


@dataclass(frozen=True)
class Factors:
    """What numbers of a record are multiplied with; `time` is None where the record does not state a unit of time."""

    length: float = 1.0
    energy: float = 1.0
    mass: float = 1.0
    charge: float = 1.0
    time: float | None = None
    stated: bool = False

    @property
    def plain(self) -> bool:
        """Whether all but times are in ASE's units already."""
        return self.length == self.energy == self.mass == self.charge == 1.0


def factors_of(units: Any) -> Factors:
    """The factors of a record's `units`; without any its numbers are taken as ASE's.

    `UsageError` for reduced units, `UnsupportedError` for one whose size is not known.
    """
    if isinstance(units, str):
        units = {"preset": units}
    if not isinstance(units, Mapping) or not units:
        return Factors()
    if units.get("preset") == "lj":
        raise UsageError(
            "the record is in reduced units (lj), which have no size: ASE's numbers are in angstrom and eV"
        )
    found: dict[str, Any] = {}
    for quantity, table in _tables().items():
        text = unit_of_quantity(units, quantity)
        if text is not None:
            found[quantity] = _factor(quantity, text, table)
    return Factors(**found, stated=True)


def _factor(quantity: str, text: str, table: Mapping[str, float]) -> float:
    if text in table:
        return table[text]
    for name, factor in table.items():
        if same_unit(text, name):
            return factor
    raise UnsupportedError(f"the record's unit of {quantity}, {text!r}, is none whose size is known here")


def _tables() -> dict[str, dict[str, float]]:
    from ase import units

    gram = units.kg / 1000.0
    micro = 1e-15 * units.kg * (1e-6 * units.m / (1e-6 * units.s)) ** 2
    nano = 1e-21 * units.kg * (1e-9 * units.m / (1e-9 * units.s)) ** 2
    return {
        "length": {
            "angstrom": 1.0, "nm": units.nm, "bohr": units.Bohr, "m": units.m, "cm": 1e-2 * units.m,
            "micrometer": 1e-6 * units.m, "pm": 1e-12 * units.m,
        },
        "energy": {
            "eV": 1.0, "kcal/mol": units.kcal / units.mol, "kJ/mol": units.kJ / units.mol, "hartree": units.Hartree,
            "rydberg": units.Rydberg, "J": units.J, "erg": 1e-7 * units.J, "meV": 1e-3, "kJ": units.kJ,
            PRESETS["micro"]["energy"]: micro, PRESETS["nano"]["energy"]: nano,
        },
        "mass": {
            "dalton": 1.0, "g/mol": 1.0, "amu": 1.0, "kg": units.kg, "g": gram, "picogram": 1e-12 * gram,
            "attogram": 1e-18 * gram,
        },
        "charge": {
            "e": 1.0, "C": units.C, "picocoulomb": 1e-12 * units.C, "statcoulomb": 3.3356409519815204e-10 * units.C,
        },
        "time": {
            "ps": 1000.0 * units.fs, "fs": units.fs, "ns": 1e6 * units.fs, "microsecond": 1e9 * units.fs,
            "s": units.s,
        },
    }  # fmt: skip
