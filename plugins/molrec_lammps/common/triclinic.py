"""Cells of LAMMPS: bounds, tilts and lattice vectors, for one cell or for many at once.

LAMMPS keeps a cell as bounds and three tilts: A = (lx, 0, 0), B = (xy, ly, 0), C = (xz, yz, lz) from the corner
(xlo, ylo, zlo). A dump gives the bounds of the box around that cell; a general cell has any right-handed vectors and
is rotated before a run. Vectors are the **columns** of a matrix here. Source: the manual, "Howto triclinic"; that the
rotation leaves the origin where it is was seen in the 22 Jul 2025 release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["bounding_box", "general_rotation", "overhang", "restricted_cell", "restricted_vectors", "undo_bounds"]

Floats = NDArray[np.float64]


def restricted_cell(lo: ArrayLike, hi: ArrayLike, tilt: ArrayLike | None = None) -> tuple[Floats, Floats]:
    """Return lattice vectors f64[..., 3, 3] (columns A, B, C) and origin f64[..., 3] of cells given by bounds and
    tilts.

    `lo` and `hi` are f64[..., 3], `tilt` is f64[..., 3] in LAMMPS' order xy xz yz, or None for orthogonal cells.
    """
    low, high = np.asarray(lo, dtype=np.float64), np.asarray(hi, dtype=np.float64)
    vectors = np.zeros((*low.shape, 3))
    for axis in range(3):
        vectors[..., axis, axis] = high[..., axis] - low[..., axis]
    if tilt is not None:
        tilts = np.asarray(tilt, dtype=np.float64)
        for number, (row, column) in enumerate(((0, 1), (0, 2), (1, 2))):
            vectors[..., row, column] = tilts[..., number]
    return vectors, low.copy()


def undo_bounds(lo: ArrayLike, hi: ArrayLike, tilt: ArrayLike) -> tuple[Floats, Floats]:
    """Return the bounds of tilted cells from those of the boxes around them, which is what a dump prints. Shapes [...,
    3].
    """
    low, high = _copies(lo, hi)
    below, above = overhang(tilt)
    low[..., :2] -= below
    high[..., :2] -= above
    return low, high


def bounding_box(lo: ArrayLike, hi: ArrayLike, tilt: ArrayLike) -> tuple[Floats, Floats]:
    """Return the bounds of the boxes around tilted cells: what `undo_bounds` undoes. Shapes [..., 3]."""
    low, high = _copies(lo, hi)
    below, above = overhang(tilt)
    low[..., :2] += below
    high[..., :2] += above
    return low, high


def general_rotation(vectors: ArrayLike) -> Floats:
    """Return the rotation f64[3, 3] by which LAMMPS brings general vectors (columns) into restricted form.

    A point x of a cell with origin o becomes R (x - o) + o: the origin stays. Velocities and forces rotate about zero.
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    along = matrix[:, 0] / np.linalg.norm(matrix[:, 0])
    normal = np.cross(matrix[:, 0], matrix[:, 1])
    normal /= np.linalg.norm(normal)
    return np.stack([along, np.cross(normal, along), normal])


def restricted_vectors(vectors: ArrayLike) -> Floats:
    """Return general vectors (columns) in restricted form: upper triangular f64[3, 3], exactly zero below the
    diagonal.
    """
    return np.triu(general_rotation(vectors) @ np.asarray(vectors, dtype=np.float64))


def _copies(lo: ArrayLike, hi: ArrayLike) -> tuple[Floats, Floats]:
    return np.array(lo, dtype=np.float64), np.array(hi, dtype=np.float64)


def overhang(tilt: ArrayLike) -> tuple[Any, Any]:
    """Return how far the box around a tilted cell reaches below its low and above its high bounds along x and y: [...,
    2].
    """
    tilts = np.asarray(tilt, dtype=np.float64)
    xy, xz, yz = tilts[..., 0], tilts[..., 1], tilts[..., 2]
    corners = np.stack([np.zeros_like(xy), xy, xz, xy + xz], axis=-1)
    second = np.stack([np.zeros_like(yz), yz], axis=-1)
    return (
        np.stack([corners.min(axis=-1), second.min(axis=-1)], axis=-1),
        np.stack([corners.max(axis=-1), second.max(axis=-1)], axis=-1),
    )
