"""Files that could end the process: counts held against bytes, headers, XTC decoded elsewhere first."""

from __future__ import annotations

import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from MDAnalysis.lib.util import openany

from molrec_convert.errors import FormatError

__all__ = ["check_counts", "check_decodes", "check_xdr"]

#: The first four bytes of a file → its kind, as the library's functions name it.
_MAGIC = {(1995).to_bytes(4, "big"): "xtc", (2023).to_bytes(4, "big"): "xtc"}
#: Atoms for each byte of a file: more are no file's.
_MOST_ATOMS_PER_BYTE = 64
#: What the process runs, without the site's packages: it prints the number of a frame before it decodes it.
_PROGRAM = """
import ctypes, os, sys
library, path, kind, most = ctypes.CDLL(sys.argv[1]), os.fsencode(sys.argv[2]), sys.argv[3], int(sys.argv[4])
library.xdrfile_open.restype = ctypes.c_void_p
atoms, frames, guess, offsets = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
if getattr(library, f"read_{kind}_natoms")(path, ctypes.byref(atoms)):
    sys.exit(0)
if not 0 <= atoms.value <= most:
    os.write(1, f"{atoms.value} atoms".encode())
    sys.exit(1)
number, real = ctypes.c_int(), ctypes.c_float()
box = (ctypes.c_float * 9)()
places = (ctypes.c_float * (3 * atoms.value))()
file = ctypes.c_void_p(library.xdrfile_open(path, b"r"))
step, time, other = ctypes.byref(number), ctypes.byref(real), ctypes.byref(ctypes.c_float())
done, code = 0, 0
while file and not code:
    os.pwrite(1, b"%20d" % done, 0)
    code = library.read_xtc(file, atoms, step, time, box, places, other)
    done += 1
getattr(library, f"read_{kind}_n_frames")(path, *map(ctypes.byref, (frames, guess, offsets)))
"""


def check_decodes(path: Path) -> None:
    """Raise FormatError for an XTC file whose decoding ends the process that does it; do nothing for others."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        kind = _MAGIC.get(file.read(4))
    if kind is None:
        return
    from MDAnalysis.lib.formats import libmdaxdr

    most = _MOST_ATOMS_PER_BYTE * path.stat().st_size
    with tempfile.TemporaryFile() as told:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, libmdaxdr.__file__, os.fspath(path), kind, str(most)],
            stdout=told,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        told.seek(0)
        said = told.read().decode().strip()
    if done.returncode == 1 and said.endswith(" atoms"):
        raise FormatError(path, found=f"{said} in {path.stat().st_size} bytes", expected=f"a whole {kind.upper()} file")
    if done.returncode < 0:
        raise FormatError(
            path,
            f"frame {said or 0}",
            found=f"damaged data, which end the library that decodes them ({signal.Signals(-done.returncode).name})",
            expected=f"a whole {kind.upper()} file",
        )


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
