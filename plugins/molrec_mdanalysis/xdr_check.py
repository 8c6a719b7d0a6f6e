"""Whether XTC and TRR files are whole enough for the C library that reads them, which ends the process at others.

Frames follow one another: a header that says how many bytes follow. Looked at are the headers only, as the library
does to find where frames begin. Source: GROMACS manual, "File formats"; xdrfile_xtc.c, xdrfile_trr.c.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

from molrec_convert.errors import FormatError

__all__ = ["check_xdr"]

#: XTC: magic number, atoms, step, time, cell, atoms again; precision, limits of the integers, width, bytes.
_XTC, _PACKED, _LARGE = struct.Struct(">3if9fi"), struct.Struct(">f3i3i2i"), struct.Struct(">f3i3iiq")
#: TRR: magic number, length of the text and the text, sizes of the parts in bytes, atoms, step, entries.
_TRR = struct.Struct(">3i12s13i")
_XTC_MAGIC, _LARGE_MAGIC, _TRR_MAGIC = 1995, 2023, 1993
#: Frames of so few atoms are stored as they are.
_FEW = 9
#: The library counts bytes of all coordinates in 32 bits.
_MOST_ATOMS = 2**31 // 24
#: Widths of small integers there are.
_FIRST, _LAST = 9, 72


def check_xdr(path: Path, kind: str) -> None:
    """Raise `FormatError` for an XTC or TRR file (`kind`) with a frame whose header cannot be.

    A file that breaks off behind a whole frame passes: who reads it says so.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        step = _xtc_frame if kind == "XTC" else _trr_frame
        place = frame = atoms = 0
        while place < len(data):
            try:
                end, count = step(data, place)
            except struct.error:
                end, count = len(data) + 1, atoms
            except ValueError as error:
                raise FormatError(
                    path, f"frame {frame}", found=str(error), expected=f"a frame of a {kind} file"
                ) from None
            if end > len(data):
                if not frame:
                    raise FormatError(path, found="a file that breaks off in its first frame", expected="whole frames")
                return
            if frame and count != atoms:
                raise FormatError(path, f"frame {frame}", found=f"{count} atoms", expected=f"{atoms}, as before")
            place, frame, atoms = end, frame + 1, count


def _xtc_frame(data: Any, place: int) -> tuple[int, int]:
    """Return where the frame ends, and its atoms; ValueError says what is wrong with it."""
    magic, atoms, *_, again = _XTC.unpack_from(data, place)
    if magic not in (_XTC_MAGIC, _LARGE_MAGIC):
        raise ValueError(f"the magic number {magic}")
    if not 0 < atoms < _MOST_ATOMS or again != atoms:
        raise ValueError(f"{atoms} atoms, and {again} with coordinates")
    place += _XTC.size
    if atoms <= _FEW:
        return place + 12 * atoms, atoms
    packed = _LARGE if magic == _LARGE_MAGIC else _PACKED
    _, *limits, width, size = packed.unpack_from(data, place)
    if any(low > high or high - low >= 2**32 - 1 for low, high in zip(limits[:3], limits[3:], strict=True)):
        raise ValueError(f"coordinates between {limits[:3]} and {limits[3:]}")
    if not _FIRST <= width <= _LAST:
        raise ValueError(f"integers of width {width}")
    if size < 0:
        raise ValueError(f"{size} bytes of coordinates")
    return place + packed.size + size + -size % 4, atoms


def _trr_frame(data: Any, place: int) -> tuple[int, int]:
    """Return as `_xtc_frame` does."""
    magic, room, length, text, *sizes, atoms, _, _ = _TRR.unpack_from(data, place)
    if magic != _TRR_MAGIC or (room, length, text) != (13, 12, b"GMX_trn_file"):
        raise ValueError(f"the magic number {magic} and {text!r}")
    if not 0 < atoms < _MOST_ATOMS:
        raise ValueError(f"{atoms} atoms")
    matrices, others, vectors = (sizes[2], sizes[3], sizes[4]), (*sizes[:2], *sizes[5:7]), sizes[7:10]
    widths = {size / 9 for size in matrices if size} | {size / (3 * atoms) for size in vectors if size}
    if any(others) or len(widths) != 1 or not widths <= {4, 8}:
        raise ValueError(f"parts of {sizes} bytes for {atoms} atoms")
    return place + _TRR.size + 2 * int(widths.pop()) + sum(matrices) + sum(vectors), atoms
