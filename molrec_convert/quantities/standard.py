"""The standard quantities: what they are called in a record, of which dimension they are, and how they turn.

| quantity | in a record | convention |
| --- | --- | --- |
| position, velocity, force | columns `x y z`, `vx vy vz`, `fx fy fz` | Cartesian |
| charge | column `charge` | *initial*: what a model starts from (LAMMPS' `q`, a topology's charges) |
| computed charge | column `charges` | a *result* (ASE's calculator charges) |
| magnetic moment | columns `initial_magmoms`, `magmoms`, key `magmom` | initial; a result; the total: Bohr magnetons |
| energy, free energy, kinetic, total | keys `pe`, `free_energy`, `ke`, `etotal` | |
| stress | key `stress`, f64x9 (3×3, rows) or f64x6 (xx yy zz yz xz xy) | energy by volume, positive under tension |
| virial | key `virial`, f64x9 or f64x6 | energy: −volume × stress |
| pressure | key `press` | the unit of pressure, positive under compression |
| pressure tensor | key `pressure_tensor`, f64x6 xx yy zz yz xz xy | the same |
| momentum | column `momenta`, three numbers a row | always (dalton eV)**0.5, as ASE has them |

Sources: Record, "Standard names"; ASE, `ase.calculators.calculator.all_properties`; LAMMPS' manual, "compute
property/atom", "thermo_style", "units".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["COLUMNS", "KEYS", "QUANTITIES", "VECTORS", "Quantity", "Turning", "dimension_of", "quantity_named"]

#: How numbers turn with the frame: three in a row, nine or six (Voigt) of a tensor, four of a quaternion.
Turning = Literal["", "point", "vector", "tensor", "quaternion"]


@dataclass(frozen=True)
class Quantity:
    """One quantity: its name, what holds it in a record, its dimension, and how it turns with the frame.

    `columns` are one column of the atoms, or three (four) that belong together; `key` is the per-step key. `turning`:
    a "point" turns and moves with the cell, a "vector" turns only.
    """

    name: str
    columns: tuple[str, ...] = ()
    key: str | None = None
    dimension: str = ""
    turning: Turning = ""


def _three(stem: str) -> tuple[str, ...]:
    return tuple(f"{stem}{axis}" for axis in "xyz")


#: Quantities that can be asked for by name.
QUANTITIES: dict[str, Quantity] = {
    entry.name: entry
    for entry in (
        Quantity("element", ("element",)),
        Quantity("atomic_number", ("atomic_number",)),
        Quantity("type", ("type",)),
        Quantity("type_id", ("type_id",)),
        Quantity("id", ("id",)),
        Quantity("mass", ("mass",), dimension="mass"),
        Quantity("charge", ("charge",), dimension="charge"),
        Quantity("computed_charge", ("charges",), dimension="charge"),
        Quantity("initial_magnetic_moment", ("initial_magmoms",)),
        Quantity("magnetic_moment", ("magmoms",)),
        Quantity("total_magnetic_moment", key="magmom"),
        Quantity("position", ("x", "y", "z"), dimension="length", turning="point"),
        Quantity("image", ("ix", "iy", "iz")),
        Quantity("velocity", ("vx", "vy", "vz"), dimension="velocity", turning="vector"),
        Quantity("force", ("fx", "fy", "fz"), dimension="force", turning="vector"),
        Quantity("momentum", ("momenta",), turning="vector"),
        Quantity("dipole", ("mux", "muy", "muz"), dimension="dipole", turning="vector"),
        Quantity("spin", ("spx", "spy", "spz"), turning="vector"),
        Quantity("angular_velocity", _three("omega"), dimension="1/time", turning="vector"),
        Quantity("angular_momentum", _three("angmom"), dimension="mass*length*velocity", turning="vector"),
        Quantity("torque", _three("tq"), dimension="force*length", turning="vector"),
        Quantity("orientation", ("quatw", "quati", "quatj", "quatk"), turning="quaternion"),
        Quantity("axis", ("axis_x", "axis_y", "axis_z"), turning="vector"),
        Quantity("energy", key="pe", dimension="energy"),
        Quantity("free_energy", key="free_energy", dimension="energy"),
        Quantity("kinetic_energy", key="ke", dimension="energy"),
        Quantity("total_energy", key="etotal", dimension="energy"),
        Quantity("atomic_energy", ("energies",), dimension="energy"),
        Quantity("stress", key="stress", dimension="energy/length**3", turning="tensor"),
        Quantity("atomic_stress", ("stresses",), dimension="energy/length**3", turning="tensor"),
        Quantity("virial", key="virial", dimension="energy", turning="tensor"),
        Quantity("pressure", key="press", dimension="pressure"),
        Quantity("pressure_tensor", key="pressure_tensor", dimension="pressure", turning="tensor"),
        Quantity("total_dipole", key="dipole", dimension="charge*length", turning="vector"),
        Quantity("polarization", key="polarization", dimension="charge/length**2", turning="vector"),
        Quantity("dielectric_tensor", key="dielectric_tensor", turning="tensor"),
        Quantity("born_effective_charge", ("born_effective_charges",), dimension="charge", turning="tensor"),
        Quantity("temperature", key="temp"),
        Quantity("volume", key="volume", dimension="length**3"),
        Quantity("occupancy", ("occupancy",)),
        Quantity("b_factor", ("b_factor",)),
    )
}

#: Dimension → LAMMPS' per-atom values that turn with nothing, and those of other programs.
_FURTHER = {
    "": "xs ys zs xsu ysu zsu tags gbscreens",
    "length": "diameter radius eradius shapex shapey shapez solventradii rmins rmin14s",
    "velocity": "ervel",
    "energy": "pe ke energy epsilons epsilon14s",
    "dipole": "mu",
    "density": "density",
    "temperature": "theta",
}
#: The same of points, vectors and tensors.
_FURTHER_TURNING: dict[tuple[str, Turning], str] = {
    ("length", "point"): "xu yu zu end1x end1y end1z end2x end2y end2z corner1x corner1y corner1z corner2x corner2y "
    "corner2z corner3x corner3y corner3z positions pos coords",
    ("velocity", "vector"): "velo vel velocities velocity",
    ("force", "vector"): "forces force",
    ("charge*length", "vector"): "dip dipoles dipole_moment",
    ("energy", "tensor"): "virials",
}
#: Dimension → names of LAMMPS' thermodynamic output, and keys other programs write.
_FURTHER_KEYS = {
    "energy": "energy PotEng KinEng TotEng E_pair E_bond E_angle E_dihed E_impro E_mol E_vdwl E_coul E_long E_tail "
    "Enthalpy evdwl ecoul epair ebond eangle edihed eimp emol elong etail enthalpy econserve Econserve ecouple "
    "kinetic_energy total_energy potential_energy",
    "pressure": "Press pressure pxx pyy pzz pxy pxz pyz Pxx Pyy Pzz Pxy Pxz Pyz",
    "length**3": "vol Volume",
    "length": "lx ly lz Lx Ly Lz xlo xhi ylo yhi zlo zhi Xlo Xhi Ylo Yhi Zlo Zhi xy xz yz Xy Xz Yz cella cellb cellc "
    "Cella Cellb Cellc",
    "density": "density Density",
    "time": "time Time dt Dt time_offset",
    "charge": "total_charge charge",
    "": "Temp temperature step Step Atoms natoms atoms spin ctime mtime lambda cellalpha cellbeta cellgamma",
}


def _columns() -> dict[str, tuple[str, Turning]]:
    found: dict[str, tuple[str, Turning]] = {}
    for dimension, names in _FURTHER.items():
        found |= dict.fromkeys(names.split(), (dimension, ""))
    for entry, names in _FURTHER_TURNING.items():
        found |= dict.fromkeys(names.split(), entry)
    for quantity in QUANTITIES.values():
        found |= dict.fromkeys(quantity.columns, (quantity.dimension, quantity.turning))
    return found


def _keys() -> dict[str, tuple[str, Turning]]:
    found: dict[str, tuple[str, Turning]] = {}
    for dimension, names in _FURTHER_KEYS.items():
        found |= dict.fromkeys(names.split(), (dimension, ""))
    found |= {entry.key: (entry.dimension, entry.turning) for entry in QUANTITIES.values() if entry.key is not None}
    return found


#: Column of atoms → dimension and turning.
COLUMNS = _columns()
#: Per-step key, or key of metrics → dimension and turning.
KEYS = _keys()
#: Columns that are the three parts of one vector or point.
VECTORS: tuple[tuple[str, ...], ...] = (
    *(q.columns for q in QUANTITIES.values() if q.turning in ("vector", "point") and len(q.columns) == 3),
    ("xu", "yu", "zu"),
    *(_three(stem) for stem in ("end1", "end2", "corner1", "corner2", "corner3")),
)


def dimension_of(name: str, *, key: bool) -> str | None:
    """Return the dimension of a column (or, with `key`, of a per-step key); None where it is not known."""
    found = (KEYS if key else COLUMNS).get(name)
    return None if found is None else found[0]


def quantity_named(name: str) -> Quantity | None:
    """Return the quantity of that name, of that column or key; None where there is none."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    return next((q for q in QUANTITIES.values() if name == q.key or q.columns == (name,)), None)
