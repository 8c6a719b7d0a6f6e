"""What ASE's arrays, results and other facts are called in a record, and the other way round.

| in ASE | in a record |
| --- | --- |
| numbers | `element`, or `atomic_number` where one is no element's |
| positions, forces | `x y z`, `fx fy fz` |
| momenta | `momenta` as they are, and `vx vy vz` in the record's units |
| masses, initial_charges, tags | `mass`, `charge`, `tags` |
| energy | per-step key `pe` |
| stress | per-step key `stress`: nine numbers, 3×3 in rows, of ASE's six |
| other results | columns or per-step keys of their own name |
| constraints | `free`, and the key `ase.constraints` |
| key-value pairs, info | keys of their own name |
"""

from __future__ import annotations

from collections.abc import Collection as Names

from molrec_convert.model.names import PER_STEP_KEYS, STANDARD_DTYPES, escape_name, name_fault, unescape_name

__all__ = [
    "ARRAYS",
    "ATOM_RESULTS",
    "CALCULATOR",
    "CONSTRAINTS",
    "DATA",
    "DTYPES_KEPT",
    "IDENTITY",
    "INFO",
    "OWN_KEYS",
    "RESULTS",
    "ROW_KEYS",
    "VECTORS",
    "VIRIAL",
    "array_name",
    "foreign_name",
    "key_name",
]

#: Three columns of a record ↔ an array of three columns.
VECTORS: dict[str, tuple[str, str, str]] = {
    "positions": ("x", "y", "z"),
    "forces": ("fx", "fy", "fz"),
    "velocities": ("vx", "vy", "vz"),
}
#: Arrays of `Atoms` ↔ columns.
ARRAYS = {"masses": "mass", "initial_charges": "charge", "tags": "tags", "initial_magmoms": "initial_magmoms"}
#: Results that have one value per atom; forces are apart.
ATOM_RESULTS = ("charges", "magmoms", "energies", "stresses", "born_effective_charges")
#: Results of a configuration ↔ per-step keys, with the shapes they may have.
RESULTS: dict[str, str] = {
    "energy": "pe",
    "free_energy": "free_energy",
    "magmom": "magmom",
    "stress": "stress",
    "dipole": "dipole",
    "dielectric_tensor": "dielectric_tensor",
    "polarization": "polarization",
}
#: Key of the virial, which a result of ASE is none, and entry of `info`.
VIRIAL = "virial"
CONSTRAINTS, CALCULATOR, DATA, INFO = "ase.constraints", "ase.calculator", "ase.data", "ase.info"
#: Arrays that had a dtype a record has none for: name → dtype.
DTYPES_KEPT = "ase.dtypes"
OWN_KEYS = (CONSTRAINTS, CALCULATOR, DATA, INFO, DTYPES_KEPT)
#: What a database says of each row.
ROW_KEYS = ("id", "unique_id", "ctime", "mtime", "user")
#: Columns that say what an atom is and stay with a record's system.
IDENTITY = (
    *("element", "atomic_number", "mass", "charge", "tags", "free"),
    *("id", "name", "type", "type_id", "mol_id", "res_id", "res_name", "chain", "icode", "altloc", "formal_charge"),
    *("bead_type", "atom_map", "occupancy", "b_factor"),
)

_TAKEN = frozenset(PER_STEP_KEYS) | {"units", "coordinates", "time", "step", "box", "meta", VIRIAL} | set(OWN_KEYS)
_COLUMNS = frozenset(STANDARD_DTYPES) | {"momenta", "tags", "initial_magmoms", *ATOM_RESULTS}


def key_name(name: str) -> str:
    """Return the key of a record for a key-value pair or an entry of `info`."""
    return _apart(name, _TAKEN | set(RESULTS.values()) | set(ROW_KEYS))


def array_name(name: str) -> str:
    """Return the column of a record for an array that has no meaning to ASE."""
    return _apart(name, _COLUMNS | {"offset", "step_index", "_validity"})


def foreign_name(name: str) -> str:
    """Return the name something of a record has in ASE."""
    return unescape_name(name)


def _apart(name: str, taken: Names[str]) -> str:
    if not name:
        return "%"
    if name_fault(name) is not None or unescape_name(name) != name:
        return escape_name(name)
    if name not in taken:
        return name
    first = "".join(f"%{byte:02X}" for byte in name[0].encode())
    return first + escape_name("x" + name[1:])[1:]
