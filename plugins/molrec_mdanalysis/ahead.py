"""XTC files decoded once by a process of their own, before this one does it: no header tells what their bits hold.

The library that decodes them trusts its input: of a damaged file it divides by zero, or reads beyond its memory, which
no program survives. A process that has nothing else to do goes first. Source: xdrfile_xtc.h.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from molrec_convert.errors import FormatError

__all__ = ["check_decodes"]

#: The first four bytes of a file → its kind, as the library's functions name it.
_MAGIC = {(1995).to_bytes(4, "big"): "xtc", (2023).to_bytes(4, "big"): "xtc"}
#: Atoms for each byte of a file: more are no file's.
_MOST_ATOMS = 64
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

    most = _MOST_ATOMS * path.stat().st_size
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
