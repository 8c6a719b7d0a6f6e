"""Which attribute of MDAnalysis is which column or block of a record.

Any other attribute is a column of its own name. Source: Record, "Standard names"; MDAnalysis.core.topologyattrs.
"""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "COLUMNS", "RELATIONS", "STATE", "UNITS"]

#: Attribute of a topology → column of `system/atoms`.
ATTRIBUTES = {
    "names": "name",
    "types": "type",
    "elements": "element",
    "masses": "mass",
    "charges": "charge",
    "formalcharges": "formal_charge",
    "ids": "id",
    "resids": "res_id",
    "resnums": "resnum",
    "resnames": "res_name",
    "icodes": "icode",
    "segids": "segid",
    "chainIDs": "chain",
    "altLocs": "altloc",
    "occupancies": "occupancy",
    "tempfactors": "b_factor",
    "molnums": "mol_id",
    "moltypes": "moltype",
    "models": "model",
    "record_types": "record_type",
    "radii": "radius",
}
COLUMNS = {column: attribute for attribute, column in ATTRIBUTES.items()}
#: Relation of MDAnalysis → block, number of atoms.
RELATIONS = {
    "bonds": ("bonds", 2),
    "angles": ("angles", 3),
    "dihedrals": ("dihedrals", 4),
    "impropers": ("impropers", 4),
    "ureybradleys": ("urey_bradleys", 2),
    "cmaps": ("cmaps", 5),
}
#: Array of a time step → columns of `trajectory/atoms`.
STATE = {
    "positions": ("x", "y", "z"),
    "velocities": ("vx", "vy", "vz"),
    "forces": ("fx", "fy", "fz"),
}
#: The units of all numbers MDAnalysis hands out; velocities are Å/ps, forces kJ/(mol Å).
UNITS = {
    "length": "angstrom",
    "energy": "kJ/mol",
    "time": "ps",
    "mass": "dalton",
    "charge": "e",
    "angle": "degree",
}
