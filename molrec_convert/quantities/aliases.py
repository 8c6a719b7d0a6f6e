"""Names the field uses for the standard quantities: they propose `--energy-key REF_energy`, and rename nothing.

Sources: the extended XYZ conventions of ASE, QUIP/GAP (`dft_energy`, `virial`), MACE (`REF_energy`), NequIP
(`total_energy`), DeePMD (`force`, `virial`), SchNetPack (`energy_U0`), LAMMPS and CP2K.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["ALIASES", "OPTIONS", "aliases_of", "looks_like"]

#: Quantity → the pattern of its names.
ALIASES: dict[str, re.Pattern[str]] = {
    "energy": re.compile(
        r"(.*[_.-])?(free_?|tot_?|total_?|potential_?|dft_?|ref_?)?(energy|energies)(_pot|_[uh]0?)?|E|pe", re.IGNORECASE
    ),
    "forces": re.compile(r"(.*[_.-])?(force|forces)|f", re.IGNORECASE),
    "stress": re.compile(r"(.*[_.-])?(stress|stresses)", re.IGNORECASE),
    "virial": re.compile(r"(.*[_.-])?(virial|virials)", re.IGNORECASE),
    "velocity": re.compile(r"velo|vel|velocity|velocities|momenta", re.IGNORECASE),
    "charge": re.compile(r"charges?|initial_charges|tot_charge|total_charge|q", re.IGNORECASE),
    "moment": re.compile(r"(initial_)?magmoms?|dipole(_moment)?|mu", re.IGNORECASE),
}
#: Quantity → the option that makes a name the quantity.
OPTIONS = {"energy": "--energy-key", "forces": "--forces-key", "stress": "--stress-key", "virial": "--virial-key"}


def aliases_of(quantity: str, names: Iterable[str]) -> list[str]:
    """Return those of the names that look like a quantity, in order."""
    return [name for name in names if ALIASES[quantity].fullmatch(name)]


def looks_like(name: str) -> str | None:
    """Return the quantity a name looks like, None where it is like none."""
    return next((quantity for quantity, pattern in ALIASES.items() if pattern.fullmatch(name)), None)
