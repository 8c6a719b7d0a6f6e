"""The standard column names, their dtypes, and the relations between blocks.

Whoever uses one of these names uses its dtype. Source: Record, "Standard names"; Containers, "Row references".
"""

from __future__ import annotations

from molrec_convert.errors import ContractError

__all__ = [
    "ENDPOINTS",
    "IDENTITY_COLUMNS",
    "PER_STEP_KEYS",
    "STANDARD_DTYPES",
    "STATE_COLUMNS",
    "check_standard_dtype",
]

STANDARD_DTYPES: dict[str, str] = {
    name: dtype
    for dtype, names in {
        "f64": "x y z vx vy vz fx fy fz charge mass quatw quati quatj quatk mux muy muz axis_x axis_y axis_z "
        "occupancy b_factor",
        "u64": "id atomic_number type_id mol_id res_id atom_map atomi atomj atomk atoml ibead bond_type bond_number",
        "i64": "formal_charge",
        "i32": "ix iy iz",
        "bool": "free is_14 exclude_14",
        "string": "element type name res_name bead_type chain icode altloc style",
    }.items()
    for name in names.split()
}

#: Columns that reference rows of the `atoms` block of the same container unless `targets` says otherwise.
ENDPOINTS = ("atomi", "atomj", "atomk", "atoml")
#: Columns that say what a particle is; the rest say what state it is in.
IDENTITY_COLUMNS = ("id", "type", "type_id", "element", "mass", "charge", "mol_id")
#: Columns that belong to the state of a frame whatever they do.
STATE_COLUMNS = ("x", "y", "z", "vx", "vy", "vz", "fx", "fy", "fz", "ix", "iy", "iz")
#: Conventional per-step keys, all `f64`.
PER_STEP_KEYS = ("pe", "ke", "etotal", "temp", "press", "volume")


def check_standard_dtype(name: str, dtype: str, node: str, trailing: tuple[int, ...] = ()) -> None:
    """Refuse a standard column name at another dtype than its own, or with more than one value a row."""
    expected = STANDARD_DTYPES.get(name)
    if expected is None:
        return
    if dtype != expected:
        raise ContractError(node, "a standard column has its own dtype", found=dtype, expected=expected)
    if trailing:
        raise ContractError(
            node, "a standard column has one value per row", found="".join(f"[{n}]" for n in trailing) + " per row"
        )
