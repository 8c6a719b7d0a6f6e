"""What a run knows beside its dump: the data file, thermo output, the clock, labels and masses of types, units."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.model import Block, Frame
from molrec_lammps.log.clock import Clock
from molrec_lammps.log.thermo import Thermo

__all__ = ["RunFacts"]


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run; every one is optional.

    `system` is the topology of a data file: `atoms` with ascending `id`, relations with 0-based endpoints into it.
    `clock` turns steps into times where the dump has no TIME items. `masses` are by type, for a dump without a data
    file; `units` is the word of a LAMMPS units style that is known from elsewhere.
    """

    system: Frame | None = None
    thermo: Thermo | None = None
    clock: Clock | None = None
    type_labels: dict[int, str] | None = None
    masses: dict[int, float] | None = None
    units: str | None = None
    types: int | None = None

    @property
    def atoms(self) -> Block | None:
        """The atoms of the data file, None where there is none or it has no ids."""
        atoms = None if self.system is None else self.system.blocks.get("atoms")
        return atoms if atoms is not None and "id" in atoms.columns else None

    def knows(self, column: str) -> bool:
        """Whether the data file states a column of the atoms."""
        return self.atoms is not None and column in self.atoms.columns
