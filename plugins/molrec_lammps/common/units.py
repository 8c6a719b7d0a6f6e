"""The units styles of LAMMPS: what a record says of each, and each one's default timestep.

Units are never guessed: a style comes from the input script, the first line of a data file, `ITEM: UNITS` of a dump or
`--units`. Source: the manual, "units"; timesteps as the 22 Jul 2025 release reports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from molrec_convert.errors import UsageError
from molrec_convert.quantities.units import conversion_factor, unit_of_quantity

__all__ = ["UNITS", "UnitsStyle", "check_units"]


@dataclass(frozen=True)
class UnitsStyle:
    """One units style: its word, the default timestep in its own time unit, its unit of mass in amu (None for `lj`)."""

    name: str
    timestep: float
    mass: float | None

    @property
    def record(self) -> dict[str, Any]:
        """The value of the meta key `units` (tag `json`)."""
        return {"preset": self.name}


def _amu(style: str) -> float | None:
    unit = unit_of_quantity({"preset": style}, "mass")
    return None if unit is None else conversion_factor(unit, "dalton")


#: All units styles by their words.
UNITS: dict[str, UnitsStyle] = {
    style.name: style
    for style in (
        UnitsStyle(name, timestep, _amu(name))
        for name, timestep in {
            "lj": 0.005,
            "real": 1.0,
            "metal": 0.001,
            "si": 1e-8,
            "cgs": 1e-8,
            "electron": 0.001,
            "micro": 2.0,
            "nano": 0.00045,
        }.items()
    )
}


def check_units(word: str, source: str = "--units") -> UnitsStyle:
    """Return the units style of that word; any other word is a UsageError. `source` is where the word stands."""
    style = UNITS.get(word)
    if style is None:
        raise UsageError(f"{source}: {word!r} is no units style of LAMMPS; there are {', '.join(UNITS)}")
    return style
