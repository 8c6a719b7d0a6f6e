"""The names of labels (energy, forces, stress, virial) in files, as options: imported with every plugin, so light."""

from __future__ import annotations

from dataclasses import dataclass, fields

from molrec_convert.formats import option

__all__ = ["LabelOptions"]


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
        found = {field.name.removesuffix("_key"): getattr(self, field.name) for field in fields(LabelOptions)}
        return {quantity: name for quantity, name in found.items() if name is not None}
