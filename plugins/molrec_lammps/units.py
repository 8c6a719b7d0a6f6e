"""The units styles of LAMMPS: what a record says of each, and each one's default timestep.

Units are never guessed: a style comes from the input script, the first line of a data file, `ITEM: UNITS` of a dump or
`--units`. Source: the manual, "units"; timesteps as the 22 Jul 2025 release reports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from molrec_convert.errors import UsageError

__all__ = ["UNITS", "UnitsStyle", "check_units"]

#: Unified atomic mass units in a gram and in a kilogram.
_AMU_PER_GRAM = 6.02214076e23
_AMU_PER_KILOGRAM = 6.02214076e26


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


#: All units styles by their words.
UNITS: dict[str, UnitsStyle] = {
    style.name: style
    for style in (
        UnitsStyle("lj", 0.005, None),
        UnitsStyle("real", 1.0, 1.0),
        UnitsStyle("metal", 0.001, 1.0),
        UnitsStyle("si", 1e-8, _AMU_PER_KILOGRAM),
        UnitsStyle("cgs", 1e-8, _AMU_PER_GRAM),
        UnitsStyle("electron", 0.001, 1.0),
        UnitsStyle("micro", 2.0, _AMU_PER_KILOGRAM * 1e-15),
        UnitsStyle("nano", 0.00045, _AMU_PER_KILOGRAM * 1e-21),
    )
}


def check_units(word: str, source: str = "--units") -> UnitsStyle:
    """The units style of that word; any other word is a UsageError. `source` is where the word stands."""
    style = UNITS.get(word)
    if style is None:
        raise UsageError(f"{source}: {word!r} is no units style of LAMMPS; there are {', '.join(UNITS)}")
    return style
