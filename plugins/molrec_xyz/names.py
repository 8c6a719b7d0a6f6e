"""Which names of a file are which of a record's: columns and keys, both ways.

Only one column is positions and one key the energy; whatever else holds the same quantity is kept under its own name.
A name that a record uses otherwise, or that is no name there, has its first byte (or all that is needed) as `%XX`;
the writer undoes that.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from molrec_convert.model.names import escape_name, name_fault, unescape_name

__all__ = [
    "ALIASES",
    "FORCES",
    "POSITIONS",
    "SINGLE",
    "VECTORS",
    "aliases_of",
    "apart",
    "file_name",
    "record_name",
]

#: Three columns of a record ← the names a vector of three has in files, the usual one first.
POSITIONS = ("pos", "positions", "coords")
FORCES = ("forces",)
VECTORS: dict[tuple[str, str, str], str] = {
    ("x", "y", "z"): "pos",
    ("fx", "fy", "fz"): "forces",
    ("vx", "vy", "vz"): "velo",
}
#: Column of a record → (name in files, letter), the names read first.
SINGLE: dict[str, tuple[tuple[str, ...], str]] = {
    "mass": (("masses", "mass"), "R"),
    "atomic_number": (("Z",), "I"),
    "type_id": (("type",), "I"),
    "free": (("move_mask",), "L"),
}
#: Quantity → what its names look like, with how each is to be taken.
ALIASES: dict[str, tuple[re.Pattern[str], str]] = {
    "energy": (
        re.compile(r"(.*[_-])?(free_?|tot_?|total_?|potential_?|dft_?|ref_?)?(energy|energies)|E|pe", re.IGNORECASE),
        "an energy",
    ),
    "forces": (re.compile(r"(.*[_-])?(force|forces)|f", re.IGNORECASE), "forces"),
    "stress": (
        re.compile(r"(.*[_-])?(stress|stresses)", re.IGNORECASE),
        "a stress, numbers in the order and with the sign of the file; ASE's is positive under tension, six numbers "
        "are xx yy zz yz xz xy there, LAMMPS' Stress is a pressure",
    ),
    "virial": (
        re.compile(r"(.*[_-])?(virial|virials)", re.IGNORECASE),
        "a virial, numbers in the order and with the sign of the file; positive under compression if it is -V stress",
    ),
    "velocity": (
        re.compile(r"velo|vel|velocity|velocities|momenta", re.IGNORECASE),
        "in units the file does not state; momenta of ASE are in sqrt(u eV)",
    ),
    "charge": (re.compile(r"charges|initial_charges|q", re.IGNORECASE), "charges"),
    "moment": (re.compile(r"(initial_)?magmoms?|dipole(_moment)?|mu", re.IGNORECASE), "a moment"),
}


def aliases_of(quantity: str, names: Collection[str]) -> list[str]:
    """Those of the names that look like a quantity, in order."""
    return [name for name in names if ALIASES[quantity][0].fullmatch(name)]


def record_name(name: str, taken: Collection[str] = ()) -> str:
    """The name of a column or key of a file in a record, where one of that name is not `taken`."""
    if name_fault(name) is not None or unescape_name(name) != name:
        return escape_name(name)
    return apart(name) if name in taken else name


def apart(name: str) -> str:
    """A name like no other, which the writer takes back: its first byte is escaped."""
    first = "".join(f"%{byte:02X}" for byte in name[0].encode())
    return first + escape_name("x" + name[1:])[1:]


def file_name(name: str) -> str:
    """The name a column or key of a record had in the file it is from."""
    return unescape_name(name)
