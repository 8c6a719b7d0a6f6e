"""What the numbers of a record are quantities of, told by their standard names, and by what they are multiplied.

A quantity is written as powers of those a collection states the units of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from molrec_convert.quantities.units import conversion_factor

__all__ = ["BOX", "TIME", "Conversion"]

BOX, TIME = "length", "time"
#: Names → the quantity; `""` has no unit that a preset changes.
_QUANTITIES: dict[str, str] = {
    name: quantity
    for quantity, names in {
        "length": "x y z xu yu zu radius",
        "length/time": "vx vy vz",
        "force": "fx fy fz",
        "charge": "charge",
        "charge*length": "mux muy muz dipole",
        "mass": "mass",
        "energy": "pe ke etotal energy free_energy",
        "pressure": "press pressure",
        "length**3": "volume vol",
        "time": "time",
        "": "temp temperature quatw quati quatj quatk axis_x axis_y axis_z occupancy b_factor",
    }.items()
    for name in names.split()
}
_WORD = re.compile(r"[a-z_]+")


class Conversion:
    """From the units of one source to those of the collection.

    `factor(name)` is what the values of a name are multiplied by, None where nobody can tell.
    """

    def __init__(self, source: Mapping[str, str], target: Mapping[str, str]) -> None:
        self._source, self._target = source, target
        self._factors: dict[str, float | None] = {}

    @property
    def changes(self) -> bool:
        """Whether there is a unit to convert."""
        return any(self.quantity(name) != 1.0 for name in {**self._source, **self._target})

    def factor(self, name: str) -> float | None:
        """What values of a standard name are multiplied by."""
        quantity = _QUANTITIES.get(name)
        return None if quantity is None else self.quantity(quantity)

    def quantity(self, quantity: str) -> float | None:
        """What a quantity (a product of stated ones) is multiplied by."""
        if quantity not in self._factors:
            self._factors[quantity] = self._find(quantity)
        return self._factors[quantity]

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those names whose values nobody can convert."""
        return [name for name in names if self.factor(name) is None]

    def _find(self, quantity: str) -> float | None:
        if not quantity:
            return 1.0
        ours, theirs = (_spelled(quantity, units) for units in (self._source, self._target))
        return None if ours is None or theirs is None else conversion_factor(ours, theirs)


def _spelled(quantity: str, units: Mapping[str, str]) -> str | None:
    """The unit of a quantity; a force without one of its own is energy by length."""
    if quantity == "force" and "force" not in units:
        quantity = "energy/length"
    words = _WORD.findall(quantity)
    if not all(word in units for word in words):
        return None
    return _WORD.sub(lambda found: f"({units[found[0]]})", quantity)
