"""`shim.c`, built and at work in this process."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
LIBRARY = "CRASHES_SHIM"

#: What is done at an operation.
OFF, COUNT, KILL, TEAR, FAIL, FAIL_FROM, SHORT, SHORT_FROM, LOG = range(9)
#: Which operations are counted: all, those that need room on the disk, writes alone.
ANY, ROOM, WRITES = range(3)


def compiler() -> str | None:
    """The C compiler there is."""
    return next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)


def build(folder: Path) -> Path:
    """Build the library in a folder."""
    name = compiler()
    assert name is not None, "there is no C compiler"
    library = folder / "shim.so"
    subprocess.run([name, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-lpthread"], check=True)
    return library


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ[LIBRARY])
    library.shim_arm.argtypes = [
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_char_p,
    ]
    library.shim_count.restype = ctypes.c_long
    library.shim_mark.argtypes = [ctypes.c_char_p]
    return library


def arm(mode: int, folder: Path, *, kind: int = ANY, at: int = 0, code: int = 0, log: Path | None = None) -> None:
    """From here on operations below `folder` are counted; at number `at` of a kind happens what `mode` says."""
    _library().shim_arm(mode, kind, at, code, os.fsencode(folder), b"" if log is None else os.fsencode(log))


def disarm() -> None:
    """Operations are done as they are asked for."""
    _library().shim_arm(OFF, ANY, 0, 0, b"", b"")


def count(kind: int) -> int:
    """Operations of a kind since `arm`."""
    return int(_library().shim_count(kind))


def mark(text: str) -> None:
    """Put a line into the log, where there is one."""
    _library().shim_mark(text.encode())
