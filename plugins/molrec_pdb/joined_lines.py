"""The lines of many small PDB files that stand one after another in one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.formats import Apart
from molrec_pdb.lines import _PLENTY, _SIGMAS, Scan, _codes, _starts_and_ends, _Walk, atom_lines, text_of

__all__ = ["FileLines", "scan_files", "set_apart", "set_rows_apart"]

Int = NDArray[np.int64]
_NOTHING = np.zeros(0, np.int64)


@dataclass
class FileLines:
    """All lines as those of one file; the atoms before each file, and their number; of each file its own lines.

    Of `scans` the rows count from the first atom of the file, and only `frames`, `ter`, `trailing` are filled in.
    `conect_file` is the file each CONECT record of `scan` is in.
    """

    scan: Scan
    first: Int
    scans: list[Scan]
    conect_file: Int


def set_apart(odd: NDArray[np.bool_]) -> None:
    """Refuse files that take more than reading them with others."""
    if odd.any():
        raise Apart(np.flatnonzero(odd).tolist())


def set_rows_apart(odd: NDArray[np.bool_], first: Int) -> None:
    """Refuse the files of rows; `first` is the first row of each file, and the end."""
    if odd.any():
        set_apart(np.logical_or.reduceat(odd, first[:-1]))


def scan_files(paths: Sequence[Path], data: bytes, sizes: Sequence[int]) -> FileLines:
    """Find the atoms of every file; `Apart` where some have another number of frames than one, or what is rare."""
    starts, ends = _starts_and_ends(data)
    codes = _codes(data, starts, ends)
    begins = np.searchsorted(starts, np.cumsum([0, *sizes]))
    is_atom = atom_lines(codes)
    is_conect = codes == np.uint64(_PLENTY["CONECT"])
    rare = np.array([_PLENTY["ANISOU"], *_SIGMAS.values()], np.uint64)
    set_rows_apart(np.isin(codes, rare), begins)
    atoms, conect = np.flatnonzero(is_atom), np.flatnonzero(is_conect)
    first = np.searchsorted(atoms, begins)
    set_apart(first[1:] == first[:-1])
    rest = np.flatnonzero(~is_atom & ~is_conect)
    spans = list(zip(rest.tolist(), starts[rest].tolist(), ends[rest].tolist(), np.searchsorted(atoms, rest).tolist(),
                     strict=True))  # fmt: skip
    bounds = np.searchsorted(rest, begins).tolist()
    lines, before = begins.tolist(), first.tolist()
    scans = []
    odd = np.zeros(len(paths), np.bool_)
    for number, path in enumerate(paths):
        walk = _Walk(path, data)
        line_before, atoms_before = lines[number], before[number]
        for line, start, end, rank in spans[bounds[number] : bounds[number + 1]]:
            walk.take(line - line_before, text_of(data, start, end).rstrip("\r\n \0"), rank - atoms_before)
        walk.finish(before[number + 1] - atoms_before)
        odd[number] = len(walk.frames) != 1 or walk.has_models
        ter = np.unique(np.array(walk.ter, np.int64)) if walk.ter else _NOTHING
        scans.append(_scan(walk, ter))
    set_apart(odd)
    whole = Scan(
        starts[atoms], ends[atoms], [], (_NOTHING, _NOTHING), _NOTHING, (starts[conect], ends[conect]), _NOTHING,
        _NOTHING, [], 0, False, False,
    )  # fmt: skip
    return FileLines(whole, first, scans, np.searchsorted(begins, conect, side="right") - 1)


def _scan(walk: _Walk, ter: Int) -> Scan:
    none = (_NOTHING, _NOTHING)
    return Scan(
        _NOTHING, _NOTHING, walk.frames, none, _NOTHING, none, _NOTHING, ter, walk.trailing, 0, False, False,
        frozenset(walk.placeholders),
    )  # fmt: skip
