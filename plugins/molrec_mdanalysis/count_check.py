"""Whether files of text have room for what they say they hold: MDAnalysis makes arrays of counts it has read.

Sources: Amber's "PARM parameter/topology file specification" and "Amber coordinate file"; GROMACS manual, "gro file
format"; Tinker's guide, "xyz"; LAMMPS manual, "dump"; CHARMM's PSF as VMD's plugins read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from MDAnalysis.lib.util import openany

from molrec_convert.errors import FormatError

__all__ = ["check_counts"]

_AMBER = ("TOP", "PRMTOP", "PARM7")
#: Format → what the line has that counts are searched from, lines from there to them, their lines, words of each.
_PLACES: dict[str, tuple[str, int, int, int | None]] = {
    **dict.fromkeys(_AMBER, ("%FLAG POINTERS", 2, 4, None)),
    **dict.fromkeys(("INPCRD", "RESTRT", "GRO"), ("", 1, 1, 1)),
    **dict.fromkeys(("XYZ", "TXYZ", "ARC"), ("", 0, 1, 1)),
    "LAMMPSDUMP": ("ITEM: NUMBER OF ATOMS", 1, 1, 1),
    "PSF": ("!NATOM", 0, 1, 1),
}
#: Bytes read at a time.
_BLOCK = 2**20


def check_counts(path: Path, kind: str) -> None:
    """Raise `FormatError` for a file of the format `kind` that counts more of something than it has bytes."""
    if kind not in _PLACES:
        return
    with openany(os.fspath(path), "rb") as file:
        counts = list(_counts(file, *_PLACES[kind]))
        if kind in _AMBER:
            file.seek(0)
            counts += _repetitions(file)
        counts = [(line, count) for line, count in counts if count > path.stat().st_size]
        if not counts:
            return
        # a compressed file has more bytes than are stored
        line, most = max(counts, key=lambda found: found[1])
        file.seek(0)
        size = 0
        while size < most and (block := file.read(_BLOCK)):
            size += len(block)
    if size < most:
        raise FormatError(
            path, f"line {line}", found=f"a count of {most}", expected=f"no more than the file's {size} bytes can hold"
        )


def _counts(file: Any, mark: str, skipped: int, lines: int, words: int | None) -> Iterator[tuple[int, int]]:
    """Yield the counts at a place of a file, each with the number of its line."""
    numbered = enumerate(file, 1)
    first = next((found for found in numbered if mark.encode() in found[1]), None)
    if first is None:
        return
    for number, line in islice((item for part in ([first], numbered) for item in part), skipped, skipped + lines):
        for word in line.decode("utf-8", "replace").split()[:words]:
            try:
                yield number, int(word)
            except ValueError:  # no count: the library says so
                return


def _repetitions(file: Any) -> Iterator[tuple[int, int]]:
    """Yield the numbers in the formats of Fortran of a file, each with the number of its line."""
    for number, line in enumerate(file, 1):
        if line.startswith(b"%FORMAT"):
            yield from ((number, int(digits)) for digits in re.findall(rb"\d{1,4000}", line))
