"""CRYST1 and cells: lengths and angles to vectors and back.

The standard frame has a along x and b in the xy plane. Cells of 1 1 1 90 90 90 and of zeros say that there is none.
Source: Contents Guide 3.3, "CRYST1"; International Tables B, 3.3.1.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.report import Report
from molrec_pdb.numbers import parse_float

__all__ = ["cell_parameters", "cell_vectors", "read_cell", "space_group"]

_COLUMNS = ((6, 15), (15, 24), (24, 33), (33, 40), (40, 47), (47, 54))
#: Cosines that are exact, so that right angles give zeros.
_EXACT = {90.0: 0.0, 60.0: 0.5, 120.0: -0.5}


def _cosine(angle: float) -> float:
    return _EXACT.get(angle, math.cos(math.radians(angle)))


def cell_vectors(parameters: tuple[float, ...]) -> NDArray[np.float64]:
    """The vectors of a cell in the standard frame, as columns, f64[3,3]; ValueError where there is no such cell."""
    a, b, c, alpha, beta, gamma = parameters
    if not all(math.isfinite(value) and value > 0 for value in parameters):
        raise ValueError("lengths and angles are greater than 0")
    cos_a, cos_b, cos_g = _cosine(alpha), _cosine(beta), _cosine(gamma)
    sin_g = 1.0 if gamma == 90.0 else math.sin(math.radians(gamma))
    across = (cos_a - cos_b * cos_g) / sin_g
    rest = 1.0 - cos_b * cos_b - across * across
    if rest <= 1e-12 or max(alpha, beta, gamma) >= 180.0:
        raise ValueError("the angles do not form a cell")
    return np.array([[a, b * cos_g, c * cos_b], [0.0, b * sin_g, c * across], [0.0, 0.0, c * math.sqrt(rest)]])


def cell_parameters(vectors: NDArray[np.float64]) -> tuple[float, ...]:
    """Lengths, and angles in degrees, of the vectors in the columns of a matrix."""
    a, b, c = (vectors[:, axis] for axis in range(3))
    lengths = [float(np.linalg.norm(vector)) for vector in (a, b, c)]

    def angle(one: int, other: int) -> float:
        dot = float(vectors[:, one] @ vectors[:, other])
        cross = float(np.linalg.norm(np.cross(vectors[:, one], vectors[:, other])))
        return math.degrees(math.atan2(cross, dot))

    return (*lengths, angle(1, 2), angle(0, 2), angle(0, 1))


def read_cell(path: Path, text: str, line: int, report: Report) -> NDArray[np.float64] | None:
    """The vectors a CRYST1 record states, None where it says that there is no cell."""
    fields = [text[start:stop] for start, stop in _COLUMNS]
    try:
        parameters = tuple(parse_float(field) for field in fields)
    except ValueError:
        try:
            parameters = tuple(parse_float(word) for word in text[6:].split()[:6])
        except ValueError:
            parameters = ()
        if len(parameters) != 6:
            raise FormatError(
                path, f"line {line}", found=text[6:54].strip() or "no number",
                expected="three lengths and three angles in columns 7-54 of CRYST1",
            ) from None  # fmt: skip
        report.warn("the cell in CRYST1 is not in its columns: read by its words")
    if parameters == (1.0, 1.0, 1.0, 90.0, 90.0, 90.0) or not any(parameters[:3]):
        report.converted("CRYST1", f"no cell: {' '.join(f'{value:g}' for value in parameters)} stands for none")
        return None
    try:
        return cell_vectors(parameters)
    except ValueError as error:
        raise FormatError(
            path, f"line {line}", found=" ".join(f"{value:g}" for value in parameters), expected=f"a cell: {error}"
        ) from None


def space_group(text: str) -> tuple[str, int | None]:
    """Space group and Z of a CRYST1 record, where it states them."""
    number = text[66:70].strip()
    return text[55:66].strip(), int(number) if number.isascii() and number.isdigit() else None
