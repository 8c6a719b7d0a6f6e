"""YAML dumps that contradict themselves: rotated coordinates in a cell that is not.

With `dump_modify triclinic/general yes` a YAML dump has the coordinates of the general cell and the box of the
restricted one. No line says so; it shows where wrapped coordinates lie far out of the cell. Source: dumps of the
22 Jul 2025 release.
"""

from __future__ import annotations

import numpy as np

from molrec_convert.errors import UnsupportedError
from molrec_lammps.dump.batch import RowReader
from molrec_lammps.dump.values import Rows

__all__ = ["refuse_rotated"]

#: How far out, in lattice vectors, no atom drifts before LAMMPS folds it back.
_FAR = 0.5
#: More than this part of the atoms out by more than `_LITTLE` is no drift either, where there are `_SOME` at least.
_PART = 0.2
_LITTLE = 0.01
_SOME = 16


def refuse_rotated(reader: RowReader, rows: Rows) -> None:
    """Refuse a YAML dump whose first frame has its wrapped coordinates out of its tilted cell. `rows` begin with it."""
    table = reader.table
    source = table.sources[table.source[0]]
    names = table.layouts[int(table.layout[0])]
    if source.translate is None or not {"x", "y", "z"} <= set(names) & set(rows.values):
        return
    box = int(table.box[0])
    vectors, boundary = table.vectors[box], table.boundary[box]
    if not (vectors[0, 1] or vectors[0, 2] or vectors[1, 2]) or not boundary.any():
        return
    own = slice(0, int(rows.offset[1]))
    places = np.stack([rows.values[axis][own] for axis in ("x", "y", "z")], axis=1) - table.origin[box]
    fractions = np.linalg.solve(vectors, places.T).T[:, boundary]
    out = np.maximum(-fractions, fractions - 1.0).max(axis=1, initial=0.0)
    if (out > _FAR).any() or (len(out) >= _SOME and (out > _LITTLE).mean() > _PART):
        raise UnsupportedError(
            f"{source.path} contradicts itself: at step {table.step[0]} {int((out > _LITTLE).sum())} of {len(out)} "
            "atoms lie out of the periodic cell, as in a YAML dump with dump_modify triclinic/general, whose "
            "coordinates are rotated and whose box is not; dump custom writes both"
        )
