"""Which names of a file are the energy, the forces, the stress and the virial: options that readers and writers share.

What the user chooses becomes the standard quantity of the record; whatever else has that name keeps one of its own. A
writer gives the standard quantities the names chosen, and what is in their way is called `other_<name>`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from molrec_convert.formats import option
from molrec_convert.quantities.aliases import OPTIONS, aliases_of
from molrec_convert.report import Report

__all__ = ["LabelOptions", "free_name", "propose"]


@dataclass(frozen=True)
class LabelOptions:
    """The names of labels in a file, those of ASE by default."""

    energy_key: str | None = option(None, "name of the energy in the file, energy by default", metavar="KEY")
    forces_key: str | None = option(None, "name of the forces in the file, forces by default", metavar="KEY")
    stress_key: str | None = option(None, "name of the stress in the file, stress by default", metavar="KEY")
    virial_key: str | None = option(None, "name of the virial in the file, virial by default", metavar="KEY")

    def name_of(self, quantity: str) -> str:
        """Return the name a quantity has in the file: "energy", "forces", "stress" or "virial" unless chosen."""
        chosen: str | None = getattr(self, f"{quantity}_key")
        return quantity if chosen is None else chosen

    def chosen(self) -> dict[str, str]:
        """Return the names that were chosen: quantity → name."""
        found = {quantity: getattr(self, f"{quantity}_key") for quantity in OPTIONS}
        return {quantity: name for quantity, name in found.items() if name is not None}


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name for what is in the way of a chosen one: `other_<name>`, once more in front where that is taken."""
    free = name
    while free in taken:
        free = f"other_{free}"
    return free


def propose(quantity: str, names: Collection[str], report: Report) -> None:
    """Warn that a quantity has no name of its own, and which of some names look like it."""
    found = aliases_of(quantity, names)
    if found:
        verb = "looks" if len(found) == 1 else "look"
        kind = "an energy" if quantity == "energy" else "forces" if quantity == "forces" else f"a {quantity}"
        kept = "is kept under its own name" if len(found) == 1 else "are kept under their own names"
        report.warn(
            f"no {quantity}: {', '.join(found)} {verb} like {kind} and {kept}; "
            f"{OPTIONS[quantity]} {found[0]} makes it the {quantity}"
        )
