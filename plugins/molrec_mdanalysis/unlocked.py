"""XTC and TRR frames decoded without the interpreter's lock, so that what was read is stored meanwhile.

MDAnalysis' readers hold the lock while its C library decodes a frame. The same functions of the same library are
called here through `ctypes`, which lets go of it; all else, errors too, stays with MDAnalysis.
Source: xdrfile.h, xdrfile_xtc.h, xdrfile_trr.h and libmdaxdr.pyx of MDAnalysis.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from MDAnalysis.coordinates.chain import ChainReader
from numpy.typing import NDArray

__all__ = ["unlock"]

_POSITIONS, _VELOCITIES, _FORCES = 1, 2, 4


def unlock(reader: Any) -> Callable[[], None]:
    """Have a reader of XTC or TRR files, which one thread uses, read without the lock; returns what ends it.

    Of several files read one after the other each is. Readers of other kinds, and those of a library without these
    functions, are left as they are.
    """
    kinds = _kinds()
    if kinds is not None and type(reader) is ChainReader:
        ends = [unlock(each) for each in reader.readers]

        def end_all() -> None:
            for end in ends:
                end()

        return end_all
    own = vars(reader).get("_xdr")
    if kinds is None or type(own) not in kinds or reader.n_frames < 2:
        return lambda: None
    made = kinds[type(own)](own, os.fspath(reader.filename))
    if not made.opened:
        return lambda: None
    reader._xdr = made

    def end() -> None:
        reader._xdr = own
        made.release()

    return end


class _Unlocked:
    """A file beside MDAnalysis' own, at the same frame; what is not done here is asked of that one."""

    def __init__(self, own: Any, path: str) -> None:
        self._own, self._library, self._path = own, _library(), os.fsencode(path)
        self._at = int(own.tell())
        self._handle = self._library.xdrfile_open(self._path, b"r")
        self.opened = bool(self._handle)
        if self.opened and self._at < len(own):
            self.seek(self._at)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def __len__(self) -> int:
        return len(self._own)

    def tell(self) -> int:
        """The frame that comes next."""
        return self._at

    def seek(self, frame: int) -> None:
        """Go to a frame, as MDAnalysis' file does."""
        self._own.seek(frame)
        self._at = frame
        self._library.xdr_seek(self._handle, int(self._own.offsets[frame]) if frame else 0, os.SEEK_SET)

    def open(self, path: Any, mode: str) -> None:
        """Open both files again, at their first frame."""
        self.release()
        self._own.open(path, mode)
        self._handle = self._library.xdrfile_open(self._path, b"r")
        self._at = 0
        if not self._handle:
            raise OSError(f"cannot open {os.fsdecode(self._path)}")

    def close(self) -> None:
        """Close both files."""
        self.release()
        self._own.close()

    def release(self) -> None:
        """Close this one."""
        if self._handle:
            self._library.xdrfile_close(self._handle)
        self._handle = None

    def _check_open(self) -> None:
        if not self._handle:
            raise OSError("No file opened")

    def _again(self, read: str, *arrays: NDArray[np.float32]) -> Any:
        """A frame that could not be read, read by MDAnalysis: it raises what it raises."""
        if self._at < len(self._own):
            self._own.seek(self._at)
            frame = getattr(self._own, read)(*arrays)
            self.seek(self._at + 1)
            return frame
        raise StopIteration


class _UnlockedXtc(_Unlocked):
    def read_direct_x(self, positions: NDArray[np.float32]) -> Any:
        """See `XTCFile.read_direct_x`."""
        self._check_open()
        step, time, precision = ctypes.c_int(), ctypes.c_float(), ctypes.c_float()
        box = np.zeros((3, 3), np.float32)
        code = self._library.read_xtc(
            self._handle, len(positions), step, time, _address(box), _address(positions), precision
        )
        if code:
            return self._again("read_direct_x", positions)
        self._at += 1
        return _frames().XTCFrame(positions, box, step.value, time.value, precision.value)

    def read(self) -> Any:
        """See `XTCFile.read`."""
        return self.read_direct_x(np.empty((self._own.n_atoms, 3), np.float32))


class _UnlockedTrr(_Unlocked):
    def read_direct_xvf(
        self, positions: NDArray[np.float32], velocities: NDArray[np.float32], forces: NDArray[np.float32]
    ) -> Any:
        """See `TRRFile.read_direct_xvf`."""
        self._check_open()
        step, has, time, coupling = ctypes.c_int(), ctypes.c_int(), ctypes.c_float(), ctypes.c_float()
        box = np.zeros((3, 3), np.float32)
        arrays = (positions, velocities, forces)
        code = self._library.read_trr(
            self._handle, len(positions), step, time, coupling, _address(box), *map(_address, arrays), has
        )
        if code:
            return self._again("read_direct_xvf", *arrays)
        self._at += 1
        there = (bool(has.value & flag) for flag in (_POSITIONS, _VELOCITIES, _FORCES))
        return _frames().TRRFrame(*arrays, box, step.value, time.value, coupling.value, *there)

    def read(self) -> Any:
        """See `TRRFile.read`."""
        return self.read_direct_xvf(*(np.empty((self._own.n_atoms, 3), np.float32) for _ in range(3)))


def _address(array: NDArray[np.float32]) -> ctypes.c_void_p:
    if array.dtype != np.float32 or not array.flags.c_contiguous or not array.flags.writeable:
        raise TypeError("coordinates are read into contiguous arrays of float32")
    return ctypes.c_void_p(array.ctypes.data)


def _frames() -> Any:
    from MDAnalysis.lib.formats import libmdaxdr

    return libmdaxdr


@lru_cache(maxsize=1)
def _kinds() -> dict[Any, type[_Unlocked]] | None:
    """Class of a file of MDAnalysis → what stands in for it; None where its library cannot be called."""
    try:
        _library()
    except (OSError, AttributeError):
        return None
    return {_frames().XTCFile: _UnlockedXtc, _frames().TRRFile: _UnlockedTrr}


@lru_cache(maxsize=1)
def _library() -> Any:
    """MDAnalysis' library of the two formats. OSError, AttributeError: it does not show its functions."""
    library = ctypes.CDLL(_frames().__file__)
    pointer, integer, number = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
    to_integer, to_number = ctypes.POINTER(integer), ctypes.POINTER(number)
    library.xdrfile_open.restype, library.xdrfile_open.argtypes = pointer, [ctypes.c_char_p, ctypes.c_char_p]
    library.xdrfile_close.argtypes = [pointer]
    library.xdr_seek.argtypes = [pointer, ctypes.c_int64, integer]
    library.read_xtc.argtypes = [pointer, integer, to_integer, to_number, pointer, pointer, to_number]
    library.read_trr.argtypes = [
        pointer, integer, to_integer, to_number, to_number, pointer, pointer, pointer, pointer, to_integer,
    ]  # fmt: skip
    return library
