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

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from molrec_convert.quantities.dimensions import UnitConversion, unit_of_dimension
from molrec_convert.quantities.units import conversion_factor

__all__ = [
    "ALIASES",
    "COLUMNS",
    "FORMS",
    "KEYS",
    "OPTIONS",
    "QUANTITIES",
    "VECTORS",
    "NamedFactors",
    "Quantity",
    "Turning",
    "aliases_of",
    "dimension_of",
    "full_tensor",
    "is_symmetric",
    "looks_like",
    "momenta_of",
    "quantity_named",
    "tensor_as",
    "turn_tensors",
    "turn_vectors",
    "velocity_factor",
]

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


def velocity_factor(units: Mapping[str, Any]) -> float | None:
    """Return what momentum/mass in ASE's units and daltons is multiplied by to be a velocity in a record's units.

    98.2269… for `metal` (angstrom/ps). None where the record states no unit of length or time.
    """
    text = unit_of_dimension("velocity", units)
    return None if text is None else conversion_factor("(eV/dalton)**0.5", text)


def momenta_of(velocities: NDArray[Any], masses: NDArray[Any], per_velocity: float) -> NDArray[Any]:
    """Return momenta f64[n, 3] in ASE's units, of velocities f64[n, 3] and masses f64[n] in daltons.

    `per_velocity` is the `velocity_factor` of the units of the velocities.
    """
    found: NDArray[Any] = velocities * (masses[:, None] / per_velocity)
    return found


#: Form → the places (row, column) of its numbers in the 3×3 tensor.
FORMS: dict[str, tuple[tuple[int, int], ...]] = {
    "voigt": ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)),
    "lammps": ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)),
}

Reals = NDArray[np.float64]


def full_tensor(values: Any, form: str | None = None) -> Reals:
    """Return tensors as f64[..., 3, 3] of f64[..., 3, 3], [..., 9] (rows) or [..., 6] (`form`, "voigt" by default).

    ValueError for any other shape. No number is changed.
    """
    array = np.asarray(values, np.float64)
    if array.shape[-2:] == (3, 3):
        return array
    if array.shape[-1:] == (9,):
        return array.reshape(*array.shape[:-1], 3, 3)
    if array.shape[-1:] != (6,):
        raise ValueError(f"a tensor has 9 or 6 numbers, found the shape {list(array.shape)}")
    full = np.empty((*array.shape[:-1], 3, 3))
    for number, (row, column) in enumerate(FORMS[form or "voigt"]):
        full[..., row, column] = full[..., column, row] = array[..., number]
    return full


def tensor_as(full: Reals, form: str = "full") -> Reals:
    """Return f64[..., 3, 3] tensors in a form: [..., 3, 3] for "full", else [..., 6].

    Of a tensor that is not symmetric, which six numbers cannot say, both halves are averaged.
    """
    if form == "full":
        return full
    made = np.empty((*full.shape[:-2], 6))
    for number, (row, column) in enumerate(FORMS[form]):
        upper, lower = full[..., row, column], full[..., column, row]
        made[..., number] = np.where(upper == lower, upper, 0.5 * (upper + lower))
    return made


def is_symmetric(full: Reals) -> bool:
    """True if every tensor is symmetric to the bit; not a number equals itself."""
    return bool(np.array_equal(full, np.swapaxes(full, -1, -2), equal_nan=True))


def turn_vectors(vectors: Reals, rotation: Reals) -> Reals:
    """Return vectors f64[n, 3] in a turned frame; `rotation` f64[3, 3] acts on columns."""
    turned: Reals = vectors @ rotation.T
    return turned


def turn_tensors(values: Reals, rotation: Reals) -> Reals:
    """Return tensors f64[n, 6] (Voigt) or f64[n, 9] in a turned frame, in the form they came in."""
    turned = np.einsum("ab,...bc,dc->...ad", rotation, full_tensor(values), rotation)
    if values.shape[-1] == 6:
        return tensor_as(turned, "voigt")
    whole: Reals = turned.reshape(values.shape)
    return whole


class NamedFactors(UnitConversion):
    """A conversion of units that knows what columns and keys are quantities of.

    `dimensions` gives those of names that have none by themselves: "gap" or "atoms/gap" → "energy".
    """

    def __init__(
        self, source: Mapping[str, Any], target: Mapping[str, Any], dimensions: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(source, target)
        self.dimensions = dict(dimensions or {})
        #: Names given in `dimensions` that nothing has had so far.
        self.idle = set(self.dimensions)

    def dimension(self, name: str, *, block: str | None = None) -> str | None:
        """Return the dimension of a column of a block, or of a per-step key (no block); None where nobody knows."""
        whole = name if block is None else f"{block}/{name}"
        given = whole if whole in self.dimensions else name
        if given not in self.dimensions:
            return dimension_of(name, key=block is None)
        self.idle.discard(given)
        return self.dimensions[given]

    def of_name(self, name: str, *, block: str | None = None) -> float | None:
        """Return what the values of a name are multiplied by, None where nobody can tell."""
        dimension = self.dimension(name, block=block)
        return None if dimension is None else self.factor(dimension)
