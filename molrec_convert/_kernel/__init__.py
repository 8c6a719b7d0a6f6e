"""The native kernel: C99 source, and the library built from it, called by ctypes, which releases Python's lock.

What it does is in `molrec_convert.text`, which does the same in plain Python where there is no library.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["address", "library", "status"]

_SUFFIXES = {"darwin": "dylib", "win32": "dll"}
#: Goes up with every change of what a function of the library takes or means; as in planes.c.
_ABI = 2
_I, _P = ctypes.c_int64, ctypes.c_void_p
_FUNCTIONS = {
    "molrec_read_rows": (ctypes.c_int, (_P, _I, _P, _I, _P, _I, ctypes.c_int, ctypes.c_int, _P, _P)),
    "molrec_count_lines": (None, (_P, _P, _I)),
    "molrec_line_ends": (_I, (_P, _I, _I, _P, _I)),
    "molrec_write_rows": (_I, (_P, _I, _I, _I, _P, _I, _P, _I, _P, _P, _P)),
    "molrec_split_planes": (None, (_P, _I, _I, _I, _P, _I, _I, _I)),
    "molrec_merge_planes": (None, (_P, _I, _I, _I, _I, _P, _I, _I)),
}


@cache
def library() -> ctypes.CDLL | None:
    """Return the library with its functions declared, None where there is none that fits."""
    return _load()[0]


def address(array: Any) -> int:
    """Return where an array is in memory."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError, BufferError):  # read only, or strided, or empty: what takes six times as long
        found: int = array.__array_interface__["data"][0]
        return found


def status() -> str:
    """Return which code reads and writes rows of text, and why, as a phrase."""
    return _load()[1]


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    path = Path(__file__).with_name(f"kernel.{_SUFFIXES.get(sys.platform, 'so')}")
    if not path.is_file():
        return None, "plain Python (the native kernel was not built; it takes a C compiler or the PyPI package ziglang)"
    try:
        found = ctypes.CDLL(str(path))
        if found.molrec_abi() != _ABI:
            return None, f"plain Python ({path} was built from other sources: python -m molrec_convert._kernel.build)"
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        return None, f"plain Python (the native kernel cannot be loaded: {error})"
    return found, "the native kernel"
