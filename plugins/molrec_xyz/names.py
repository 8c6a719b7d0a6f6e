"""Which names of a file are which of a record's: columns and keys, both ways.

Only one column is positions and one key the energy; whatever else holds the same quantity is kept under its own name.
A name that a record uses otherwise, or that is no name there, has its first byte (or all that is needed) as `%XX`;
the writer undoes that.
"""

from __future__ import annotations

from collections.abc import Collection

from molrec_convert.model.names import escape_name, name_fault, unescape_name
from molrec_convert.quantities.standard import looks_like

__all__ = [
    "BLANK_WHERE_EMPTY",
    "EMPTY",
    "POSITIONS",
    "SINGLE",
    "VECTORS",
    "apart",
    "file_name",
    "record_name",
    "words_for",
]

#: Three columns of a record ← the names a vector of three has in files, the usual one first.
POSITIONS = ("pos", "positions", "coords")
VECTORS: dict[tuple[str, str, str], str] = {
    ("x", "y", "z"): "pos",
    ("fx", "fy", "fz"): "forces",
    ("vx", "vy", "vz"): "velo",
}
#: Column of a record → (name in files, letter), the names read first.
SINGLE: dict[str, tuple[tuple[str, ...], str]] = {
    "mass": (("masses", "mass"), "R"),
    "charge": (("initial_charges",), "R"),
    "charges": (("charges", "charge"), "R"),
    "atomic_number": (("Z",), "I"),
    "type_id": (("type",), "I"),
    "free": (("move_mask",), "L"),
}
#: What stands for an empty text, as mmCIF has it; and the columns in which it is read as one.
EMPTY = "."
BLANK_WHERE_EMPTY = frozenset({"altloc", "chain", "icode", "segid"})
#: How a quantity is to be taken that keeps its own name.
_WORDS = {
    "energy": "an energy",
    "forces": "forces",
    "stress": "a stress, numbers in the order and with the sign of the file",
    "virial": "a virial, numbers in the order and with the sign of the file",
    "velocity": "in units the file does not state; momenta of ASE are in sqrt(u eV)",
    "charge": "charges",
    "moment": "a moment",
}


def words_for(name: str) -> str:
    """Return how a column or key is to be taken that looks like a quantity, "" for any other."""
    quantity = looks_like(name)
    return "" if quantity is None else f"{_WORDS[quantity]}, under its own name"


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
