"""Which attribute of MDAnalysis is which column or block of a record; its units and cells.

Any other attribute is a column of its own name. Source: Record, "Standard names"; MDAnalysis.core.topologyattrs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.meaning.units import in_units
from molrec_convert.model import Record
from molrec_convert.quantities.dimensions import UnitConversion, units_object
from molrec_convert.report import Report

__all__ = [
    "ATTRIBUTES",
    "COLUMNS",
    "RELATIONS",
    "STATE",
    "UNITS",
    "dimensions_of",
    "in_own_units",
    "is_oriented",
    "stated",
    "vectors_of",
]

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


def in_own_units(record: Record) -> Record:
    """Return a record in MDAnalysis' units; itself where it is, and where it states none, or reduced ones.

    UnsupportedError: it states a unit that has no way to MDAnalysis'.
    """
    own = units_object(record.units)
    if not own or own.get("preset") == "lj" or not UnitConversion(own, UNITS).changes:
        return record
    try:
        made = in_units(record, UNITS, report=Report(), strict=False, leave=("forcefield", "metrics", "observables"))
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; convert_units=False takes the numbers as they are") from error
    assert isinstance(made, Record)
    return made


def stated(record: Record) -> dict[str, Any] | None:
    """Return the units a record states, None where it states none."""
    return units_object(record.units) or None


def vectors_of(dimensions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return vectors [k, 3, 3] (as columns) of dimensions [k, 6], and which are cells (bool[k]); the rest are zeros."""
    six = np.asarray(dimensions, dtype=np.float64).reshape(-1, 6)
    a, b, c = six[:, 0], six[:, 1], six[:, 2]
    right = six[:, 3:] == 90.0
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        cosine = np.where(right, 0.0, np.cos(np.deg2rad(six[:, 3:])))
        sine = np.where(right, 1.0, np.sin(np.deg2rad(six[:, 3:])))
        cx = c * cosine[:, 1]
        cy = c * (cosine[:, 0] - cosine[:, 1] * cosine[:, 2]) / sine[:, 2]
        square = c * c - cx * cx - cy * cy
        good = np.isfinite(six).all(axis=1) & (six > 0).all(axis=1) & (six[:, 3:] < 180).all(axis=1) & (square > 0)
        cz = np.where(right[:, 0] & right[:, 1], c, np.sqrt(np.maximum(square, 0.0)))
        bx, by = b * cosine[:, 2], b * sine[:, 2]
    vectors = np.zeros((len(six), 3, 3))
    vectors[:, 0, 0] = a
    vectors[:, 0, 1], vectors[:, 1, 1] = bx, by
    vectors[:, 0, 2], vectors[:, 1, 2], vectors[:, 2, 2] = cx, cy, cz
    vectors[~good] = 0.0
    return vectors, good


def dimensions_of(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return dimensions float32 [k, 6] of vectors [k, 3, 3] (as columns)."""
    rows = np.swapaxes(np.asarray(vectors, dtype=np.float64).reshape(-1, 3, 3), 1, 2)
    lengths = np.sqrt((rows * rows).sum(axis=2))
    six = np.empty((len(rows), 6))
    six[:, :3] = lengths
    for column, (first, second) in enumerate(((1, 2), (0, 2), (0, 1))):
        dot = (rows[:, first] * rows[:, second]).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            cosine = np.clip(dot / (lengths[:, first] * lengths[:, second]), -1.0, 1.0)
        six[:, 3 + column] = np.where(dot == 0.0, 90.0, np.rad2deg(np.arccos(cosine)))
    return six.astype(np.float32)


def is_oriented(vectors: NDArray[Any]) -> bool:
    """True if every cell lies as MDAnalysis lays it: first vector on x, second in xy, right-handed."""
    cells = np.asarray(vectors).reshape(-1, 3, 3)
    below = (cells[:, 1, 0] == 0) & (cells[:, 2, 0] == 0) & (cells[:, 2, 1] == 0)
    return bool((below & (cells[:, [0, 1, 2], [0, 1, 2]] > 0).all(axis=1)).all())
