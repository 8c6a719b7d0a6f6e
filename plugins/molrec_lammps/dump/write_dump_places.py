"""Coordinates that are worked out: fractions of the cell, wrapped from unwrapped and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_lammps.dump.write_dump_columns import DumpColumn, SourceColumn
from molrec_lammps.dump.write_dump_frames import AtomFrames
from molrec_lammps.write.turning import turn

__all__ = ["places"]

Floats = NDArray[np.float64]
_AXES = ("x", "y", "z")


def places(
    column: DumpColumn,
    values: Callable[[str], NDArray[Any]],
    frames: AtomFrames,
    rotation: Floats | None,
    there: Mapping[str, SourceColumn],
    unwrapped: bool,
) -> Floats:
    """One column, f64[rows]. `values` gives the rows of a column of the record.

    UnsupportedError: the record lacks what it is made of.
    """
    if frames.vectors is None or frames.origin is None:
        raise UnsupportedError(f"{column.name}: the record has no cell to work it out from")
    spread = np.repeat(np.arange(frames.n_frames), frames.counts)
    points = np.stack([values(axis) for axis in _AXES], axis=-1)
    if not unwrapped and column.how in ("xu", "xsu"):
        images = ("ix", "iy", "iz")
        if not all(name in there for name in images):
            raise UnsupportedError(f"{column.name}: the record has wrapped positions and no images to unwrap them by")
        shift = np.stack([values(name) for name in images], axis=-1).astype(np.float64)
        points = points + np.einsum("nij,nj->ni", frames.vectors[spread], shift)
    if column.how == "xu":
        made = points
    else:
        inverse = np.linalg.inv(frames.vectors)
        fractions = np.einsum("nij,nj->ni", inverse[spread], points - frames.origin[spread])
        if column.how in ("x", "xs") and unwrapped:
            periodic = np.ones((frames.n_frames, 3), dtype=np.bool_) if frames.boundary is None else frames.boundary
            fractions = np.where(periodic[spread], fractions - np.floor(fractions), fractions)
        if column.how in ("xs", "xsu"):
            return np.ascontiguousarray(fractions[:, column.axis])
        made = np.einsum("nij,nj->ni", frames.vectors[spread], fractions) + frames.origin[spread]
    if rotation is not None:
        made = turn(made, "point", rotation[spread], frames.origin[spread])
    return np.ascontiguousarray(made[:, column.axis])
