"""What programs write into the second line of plain files, as far as it is sure: steps and times.

Sources: LAMMPS manual, "dump xyz"; CP2K manual, "PRINT%TRAJECTORY"; i-PI manual, "properties and trajectories"; the
readme of QM9 (Ramakrishnan et al. 2014).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from molrec_convert.model import MetaDeclaration
from molrec_convert.quantities.units import conversion_factor
from molrec_xyz.headers import CELL, Headers, Part
from molrec_xyz.per_step import PerStep

__all__ = ["comment_facts", "extra_names", "is_lammps", "is_of_names", "states_facts", "take_units"]

_LAMMPS = re.compile(r"\s*Atoms(?:\. Timestep: (-?[0-9]+)(?:\s+Time: ([-+.0-9Ee]+))?)?\s*")
_CP2K = re.compile(r"\s*i\s*=\s*([0-9]+),\s*time\s*=\s*([-+.0-9Ee]+)(?:,\s*E\s*=\s*([-+.0-9Ee]+))?.*")
_IPI = re.compile(r"\s*#\s*CELL.*\bStep:\s*([0-9]+).*")
_IPI_CELL = re.compile(r"\s*#\s*CELL\(abcABC\):\s*((?:[-+.0-9Ee]+\s+){6}).*")
_IPI_UNIT = re.compile(r"\b(positions|cell)\{(\w+)\}")
#: i-PI's words for units of length. Source: ipi.utils.units.
_IPI_LENGTHS = {"atomic_unit": "bohr", "angstrom": "angstrom", "nanometer": "nm", "meter": "m", "micrometer": "um"}
#: What CP2K has in the second lines of a trajectory of positions. Source: its manual, "PRINT%TRAJECTORY".
_CP2K_UNITS = {"length": "angstrom", "energy": "hartree", "time": "fs", "mass": "dalton", "charge": "e"}
_QM9 = re.compile(r"gdb\s+[0-9]+\s")

Reading = tuple[re.Pattern[str], dict[str, tuple[int, Callable[[str], Any]]]]
_READINGS: tuple[Reading, ...] = (
    (_LAMMPS, {"step": (1, int), "time": (2, float)}),
    (_CP2K, {"step": (1, int), "time": (2, float), "energy": (3, float)}),
    (_IPI, {"step": (1, int)}),
)


def is_lammps(comment: str) -> bool:
    """Whether a frame is from a LAMMPS dump, whose numbers for species are types."""
    return _LAMMPS.fullmatch(comment) is not None


def is_of_names(comment: str) -> bool:
    """Whether a frame is from a program that writes names of atoms, not elements."""
    return "Written by MDAnalysis" in comment


def states_facts(comment: str) -> bool:
    """Whether a frame is from a program that writes its step or time, or other columns than it names."""
    return any(pattern.fullmatch(comment) for pattern, _ in _READINGS) or bool(extra_names(comment))


def extra_names(comment: str) -> Sequence[str]:
    """Names of the columns behind the fourth, where the program that wrote the file is known."""
    return ("charge",) if _QM9.match(comment) else ()


def comment_facts(comments: Mapping[int, str], frames: int) -> dict[str, PerStep]:
    """Steps and times that the second lines of all frames state in the words of one program."""
    if len(comments) != frames or not frames:
        return {}
    texts = [comments[frame] for frame in range(frames)]
    for pattern, names in _READINGS:
        if not pattern.fullmatch(texts[0]):
            continue
        matches = [pattern.fullmatch(text) for text in texts]
        facts = {}
        for name, (group, kind) in names.items():
            words = [None if match is None else match[group] for match in matches]
            try:
                values = [kind(word) for word in words if word is not None]
            except ValueError:
                continue
            if len(values) == frames and all(-(2**63) <= value < 2**63 for value in values):
                tag, dtype = ("i64", np.int64) if kind is int else ("f64", np.float64)
                facts[name] = PerStep(MetaDeclaration(tag), np.array(values, dtype=dtype))
            elif values and kind is float:
                known = [math.nan if word is None else kind(word) for word in words]
                facts[name] = PerStep(MetaDeclaration("f64", math.nan), np.array(known))
        return facts
    return {}


def take_units(headers: Headers, frames: int) -> dict[str, str]:
    """Return the units that the second lines of all frames state, or that the program has that wrote them.

    Cells of i-PI are put among the keys of `headers`, in the unit of the positions. {} where nothing is known.
    """
    comments = headers.comments
    if len(comments) != frames or not frames:
        return {}
    if all(_CP2K.fullmatch(text) for text in comments.values()):
        return dict(_CP2K_UNITS)
    if not all(_IPI.fullmatch(text) for text in comments.values()):
        return {}
    stated = {tuple(sorted(_IPI_UNIT.findall(text))) for text in comments.values()}
    units = {name: _IPI_LENGTHS.get(word) for name, word in stated.pop()} if len(stated) == 1 else {}
    positions = units.get("positions")
    if positions is None:
        return {}
    cells = {frame: _IPI_CELL.fullmatch(text) for frame, text in comments.items()}
    factor = conversion_factor(units.get("cell") or positions, positions)
    if factor is not None and all(cells.values()):
        texts = [_lattice(found[1], factor) for found in cells.values() if found is not None]
        headers.keys[CELL] = [Part(np.array(list(cells), np.int64), "double", texts)]
    return {"length": positions}


def _lattice(numbers: str, factor: float) -> bytes:
    """Return the nine numbers of `Lattice` for three lengths and three angles in degrees, as i-PI orients a cell."""
    a, b, c, alpha, beta, gamma = map(float, numbers.split())
    angles = [math.pi / 2 if angle == 90.0 else math.radians(angle) for angle in (alpha, beta, gamma)]
    cosines = [0.0 if angle == math.pi / 2 else math.cos(angle) for angle in angles]
    sine = 1.0 if cosines[2] == 0.0 else math.sin(angles[2])
    cx, cy = c * cosines[1], c * (cosines[0] - cosines[1] * cosines[2]) / sine
    cz = math.sqrt(c * c - cx * cx - cy * cy)
    vectors = (a, 0.0, 0.0, b * cosines[2], b * sine, 0.0, cx, cy, cz)
    return " ".join(repr(number * factor) for number in vectors).encode()
