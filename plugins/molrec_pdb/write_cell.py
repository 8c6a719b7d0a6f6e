"""A cell as a CRYST1 record, and the rotation that brings it into the standard frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Box
from molrec_convert.report import Report
from molrec_pdb.cells import cell_parameters, cell_vectors

__all__ = ["OutCell", "out_cell"]

_PLACEHOLDER = (1.0, 1.0, 1.0, 90.0, 90.0, 90.0)


@dataclass
class OutCell:
    """The record, and the matrix positions are turned with (None: they stay)."""

    line: str
    rotation: NDArray[np.float64] | None
    #: What a reader makes of the record.
    vectors: NDArray[np.float64]


def out_cell(box: Box, document: dict[str, Any], report: Report, *, foreign: bool) -> OutCell | None:
    """The CRYST1 record of a cell; None where the box is none, or one the format has no way to state."""
    if not box.defined:
        return None
    if not box.boundary.all():
        report.dropped("box/boundary", "a cell is periodic along all of its vectors, as readers take it")
    if box.origin.any():
        report.dropped("box/origin", "a cell has no origin of its own")
    vectors = box.vectors
    determinant = float(np.linalg.det(vectors))
    if not np.isfinite(vectors).all() or determinant <= 0.0:
        what = "its vectors are left-handed" if determinant < 0 else "its vectors span no volume"
        report.dropped("box", f"{what}, and six lengths and angles cannot say so")
        return None
    exact = cell_parameters(vectors)
    parameters = tuple(round(value, 3 if place < 3 else 2) for place, value in enumerate(exact))
    if parameters == _PLACEHOLDER:
        report.dropped("box", "a cell of 1 1 1 90 90 90 means that there is none")
        return None
    if max(parameters[:3]) > 99999.999 or min(parameters[:3]) < 0.001:
        raise UnsupportedError(
            f"box: lengths {parameters[0]:g} {parameters[1]:g} {parameters[2]:g} do not fit the 9 columns of CRYST1"
        )
    stated = cell_vectors(parameters)
    size = float(np.abs(vectors).max())
    below = np.abs(np.tril(vectors, -1)).max()
    rotation = None
    frame = vectors
    if below > 1e-9 * size or (np.diag(vectors) <= 0).any():
        frame = cell_vectors(exact)
        rotation = frame @ np.linalg.inv(vectors)
        report.converted("box", "positions and cell are turned into the standard frame: a along x, b in the xy plane")
    if float(np.abs(stated - frame).max()) > 1e-9 * size:
        report.dropped("box", "digits beyond three decimals of a length and two of an angle")
    if foreign and "space_group" not in document:
        report.derived("space group", "P 1 with Z 1")
    z = document.get("z", 1 if foreign else None)
    group = str(document.get("space_group", "P 1" if foreign else ""))[:11]
    number = f"{z:4d}" if isinstance(z, int) and 0 <= z <= 9999 else "    "
    line = "CRYST1" + "".join(f"{value:9.3f}" for value in parameters[:3])
    line += "".join(f"{value:7.2f}" for value in parameters[3:]) + f" {group:<11}{number}"
    return OutCell(f"{line:<80}", rotation, stated)
