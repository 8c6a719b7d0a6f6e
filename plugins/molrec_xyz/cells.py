"""Cells and periodicity from the second lines of frames.

`Lattice` has nine numbers, the three cell vectors one after another (as rows also in the form `[[...],[...],[...]]`).
Without `pbc` a cell is periodic along all three and a frame without one along none. Source: github.com/libAtoms/extxyz.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.report import Report
from molrec_xyz.headers import CELL, PERIODIC, Headers, Part, ValueFault, typed
from molrec_xyz.scan import FrameTable, shown

__all__ = ["Cells", "read_cells"]

ORIGIN = "Origin"
#: Numbers as most programs write them, which need no closer look.
_DECIMALS = re.compile(rb"(?:-?[0-9]+\.[0-9]+ +)*-?[0-9]+\.[0-9]+")
_NOWHERE = (0.0, 0.0, 0.0)
_LETTERS = {"t": True, "f": False, "1": True, "0": False, "true": True, "false": False}


class Cells:
    """The different cells of a file: `number_of` int64[frames] (-1: none), `vectors` (columns), `origin`, `boundary`.

    `periodic` is what frames without a cell state of their periodicity, by ordinal, where they state any.
    """

    def __init__(self, frames: int) -> None:
        self.number_of = np.full(frames, -1, np.int64)
        self.vectors: NDArray[np.float64] = np.zeros((0, 3, 3))
        self.origin: NDArray[np.float64] = np.zeros((0, 3))
        self.boundary: NDArray[np.bool_] = np.zeros((0, 3), np.bool_)
        self.periodic: dict[int, tuple[bool, ...]] = {}


def read_cells(path: Path, headers: Headers, table: FrameTable, report: Report) -> Cells:
    """Return the cells of all frames; the keys they come from are taken out of `headers`."""
    lattice = _by_frame(headers.keys.pop(CELL, []), len(table))
    periodic = _by_frame(headers.keys.pop(PERIODIC, []), len(table))
    origins = headers.keys.get(ORIGIN, [])
    has_origin = all(lattice[f] is not None for part in origins for f in part.frames.tolist())
    origin = _by_frame(headers.keys.pop(ORIGIN), len(table)) if origins and has_origin else [None] * len(table)
    cells = Cells(len(table))
    known: dict[Any, int] = {}
    made: list[tuple[Any, Any, Any]] = []
    flags: dict[Any, tuple[bool, ...]] = {}
    # nearly all frames of a file say the same of their axes
    said: dict[Any, tuple[bool, ...]] = {}
    for frame, (cell, pbc, corner) in enumerate(zip(lattice, periodic, origin, strict=True)):
        if cell is None and pbc is None:
            continue
        key = (cell, pbc, corner)
        number = known.get(key)
        if number is None:
            place = f"line {int(table.line[frame]) + 1}"
            axes = None if pbc is None else said.get(pbc)
            if pbc is not None and axes is None:
                axes = said[pbc] = _periodic(pbc, path, place, report)
            vectors = None if cell is None else _vectors(cell, path, place)
            if vectors is None or not vectors.any():
                if vectors is not None:
                    report.warn(f"{path}, {place}: a Lattice of zeros is no cell")
                flags[key] = axes or (False,) * 3
                number = -1
            else:
                corner_ = _NOWHERE if corner is None else _numbers(corner, 3, path, place, ORIGIN)
                made.append((vectors.T, corner_, axes or (True,) * 3))
                number = len(made) - 1
            known[key] = number
        if number >= 0:
            cells.number_of[frame] = number
        elif any(flags[key]):
            cells.periodic[frame] = flags[key]
    if made:
        cells.vectors = np.array([vectors for vectors, _, _ in made])
        cells.origin = np.array([corner for _, corner, _ in made])
        cells.boundary = np.array([axes for _, _, axes in made], dtype=np.bool_)
        report.carried(CELL, "the cell of each frame")
    if cells.periodic:
        report.warn(f"{len(cells.periodic)} frames are said to be periodic and have no Lattice: kept as the key pbc")
    return cells


def _by_frame(parts: list[Part], frames: int) -> list[tuple[str, bytes] | None]:
    found: list[tuple[str, bytes] | None] = [None] * frames
    for part in parts:
        # one pair for each text, as there are few
        pairs = {raw: (part.form, raw) for raw in set(part.raws)}
        for frame, raw in zip(part.frames.tolist(), part.raws, strict=True):
            found[frame] = pairs[raw]
    return found


def _vectors(entry: tuple[str, bytes], path: Path, place: str) -> NDArray[np.float64]:
    """Return the cell vectors as rows."""
    return _numbers(entry, 9, path, place, CELL).reshape(3, 3)


def _numbers(entry: tuple[str, bytes], count: int, path: Path, place: str, key: str) -> NDArray[np.float64]:
    if entry[0] == "double" and _DECIMALS.fullmatch(entry[1]) and len(words := entry[1].split()) == count:
        return np.array([float(word) for word in words])
    try:
        value = typed(entry[0], entry[1].decode("latin-1").replace("*^", "e"))
        if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
            value = [item for row in value for item in row]
        numbers = value if isinstance(value, list) else [value]
        if len(numbers) == count and all(type(item) in (int, float) for item in numbers):
            return np.array([float(item) for item in numbers])
    except ValueFault as fault:
        raise FormatError(path, place, found=f"{key} with {fault.found}", expected=fault.expected) from None
    except OverflowError:
        raise FormatError(path, place, found=f"{key}={shown(entry[1])}", expected="doubles, below 1.8e308") from None
    raise FormatError(path, place, found=f"{key}={shown(entry[1])}", expected=f"{count} numbers")


def _periodic(entry: tuple[str, bytes], path: Path, place: str, report: Report) -> tuple[bool, ...]:
    raw = entry[1].decode("latin-1")
    words = raw.strip("[]").replace(",", " ").replace('"', " ").split()
    if len(words) == 1 and len(words[0]) == 3 and words[0].lower() not in _LETTERS:
        words = list(words[0])
        report.warn(f"{path}, {place}: pbc={raw} is taken as {' '.join(words)}")
    axes = [_LETTERS.get(word.lower()) for word in words]
    if len(axes) == 1:
        axes *= 3
    if len(axes) != 3 or any(axis is None for axis in axes):
        raise FormatError(path, place, found=f"pbc={shown(entry[1])}", expected="three of T and F")
    return tuple(bool(axis) for axis in axes)
