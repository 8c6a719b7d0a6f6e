"""Frames of plain DCD files in whole portions: read as they lie and widened by numpy, no frame handled alone.

MDAnalysis stays the judge: its own first and last frame have to come out, and a portion whose records are not what
the header says goes back to it. Files with fixed atoms or a fourth dimension are left to it altogether.
Layout: records closed by their length on both sides; per frame six doubles of the cell (where the header says so), the
x, y and z of all atoms as float32. Source: readdcd.h, DCD.py and libdcd.pyx of MDAnalysis.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from MDAnalysis.coordinates.DCD import DCDReader
from MDAnalysis.lib.formats.libdcd import DCDFrame
from numpy.typing import NDArray

from molrec_mdanalysis.portions import Portion

__all__ = ["PlainDcd"]

_HEADER = 92
#: Offsets in the file: whether a cell, and a fourth dimension, come with each frame; fixed atoms; CHARMM's version.
_CELL, _FOURTH, _FIXED, _CHARMM = 48, 52, 40, 84
#: What MDAnalysis takes for the cell of a frame that has none.
_NO_CELL = (0.0, 90.0, 0.0, 90.0, 90.0, 0.0)
#: Bytes read at once.
_READ = 4 * 2**20
#: With fewer frames there is nothing to gain.
_FEW = 4


class PlainDcd:
    """The file of a `DCDReader`; `of` makes one where it is plain, and `close` ends it."""

    def __init__(self, reader: Any, descriptor: int, start: int, order: str, *, cell: bool) -> None:
        self._reader, self._descriptor, self._start, self._order = reader, descriptor, start, order
        self._atoms = int(reader.n_atoms)
        record = 8 + 4 * self._atoms
        self._at = 56 if cell else 0
        self._size = self._at + 3 * record
        # Where the lengths stand, and what they are.
        lengths = [(0, 48), (52, 48)] if cell else []
        for axis in range(3):
            first = self._at + axis * record
            lengths += [(first, record - 8), (first + record - 4, record - 8)]
        self._marks = np.array([place for place, _ in lengths]) // 4
        self._lengths = np.array([length for _, length in lengths])
        self._memory = np.empty((0, self._size // 4), np.uint32)
        self._cells: tuple[bytes, NDArray[np.float32] | None] = b"", None

    @classmethod
    def of(cls, reader: Any) -> PlainDcd | None:
        """The file of a reader, or None where its frames are to be read by MDAnalysis."""
        if type(reader) is not DCDReader or reader.transformations or reader.n_frames < _FEW:
            return None
        if getattr(reader, "aux_list", None):
            return None
        descriptor = os.open(os.fspath(reader.filename), os.O_RDONLY | os.O_CLOEXEC)
        made = _opened(reader, descriptor)
        if made is None or not made._agrees():
            os.close(descriptor)
            return None
        return made

    def close(self) -> None:
        """Close the file; the reader stays open."""
        os.close(self._descriptor)

    def fill(self, read: Portion, frames: range, wanted: bool) -> bool:
        """Put frames of the file into an empty portion; False, and nothing in it, where they are not as expected.

        `wanted`: positions are; their array is `read.arrays["positions"]`.
        """
        step, each = frames.step, max(1, _READ // self._size)
        each = 1 if step * self._size > _READ else max(1, each // step)
        done = 0
        while done < len(frames):
            part = frames[done : done + each]
            raw = self._raw(part)
            if raw is None:
                return False
            if wanted:
                places = self._at // 4 + 1 + np.arange(3) * (self._atoms + 2)
                for axis, place in enumerate(places.tolist()):
                    read.arrays["positions"][axis, done : done + len(part)] = raw[:, place : place + self._atoms]
            self._fill_cells(read, done, raw)
            done += len(part)
        header, dt = self._reader._file.header, self._reader.ts.dt
        read.steps.extend(frame + 1 for frame in frames)
        # One by one, in numbers of the width MDAnalysis works with.
        read.times.extend(float((frame + header["istart"] / header["nsavc"]) * dt) for frame in frames)
        read.frames = len(frames)
        return True

    def _raw(self, frames: range) -> NDArray[Any] | None:
        """Frames as float32 [frames, words], their records looked at; None where they are others."""
        first, last = frames[0], frames[-1] + 1
        # The same memory again: new pages would cost as much as what is read into them.
        if len(self._memory) < last - first:
            self._memory = np.empty((last - first, self._size // 4), np.uint32)
        memory = self._memory[: last - first]
        got = os.preadv(self._descriptor, [memory.data], self._start + first * self._size)
        if got != memory.nbytes:
            return None
        chosen = memory[:: frames.step]
        if (chosen[:, self._marks].view(f"{self._order}i4") != self._lengths).any():
            return None
        return chosen.view(f"{self._order}f4")

    def _fill_cells(self, read: Portion, at: int, raw: NDArray[Any]) -> None:
        count = len(raw)
        if self._at:
            cells = np.ascontiguousarray(raw[:, 1:13]).view(f"{self._order}f8").astype(np.float64)
        else:
            cells = np.tile(np.array(_NO_CELL), (count, 1))
        new = np.ones(count, np.bool_)
        new[1:] = (cells[1:].view(np.uint64) != cells[:-1].view(np.uint64)).any(axis=1)
        places = np.flatnonzero(new).tolist()
        for place, after in zip(places, [*places[1:], count], strict=True):
            six = self._dimensions(cells[place])
            if six is not None:
                read.dimensions[at + place : at + after] = six
                read.celled[at + place : at + after] = True

    def _dimensions(self, cell: NDArray[np.float64]) -> NDArray[np.float32] | None:
        """What MDAnalysis makes of the six numbers of a frame."""
        key = cell.tobytes()
        if key != self._cells[0]:
            ts = self._reader._Timestep(1, dt=1.0)
            self._reader._frame_to_ts(DCDFrame(np.zeros((1, 3), np.float32), cell.copy()), ts)
            self._cells = key, None if ts.dimensions is None else ts.dimensions.copy()
        return self._cells[1]

    def _agrees(self) -> bool:
        """Whether the first and the last frame are those MDAnalysis reads."""
        reader = self._reader
        last = reader.n_frames - 1
        for frame in (0, last):
            read = Portion(
                frame,
                arrays={"positions": np.empty((3, 1, self._atoms))},
                dimensions=np.zeros((1, 6)),
                celled=np.zeros(1, np.bool_),
            )
            try:
                if not self.fill(read, range(frame, frame + 1), True):
                    return False
                ts = reader[frame]
            except (AttributeError, KeyError, TypeError, ValueError, OSError, StopIteration):
                return False
            own = np.ascontiguousarray(ts.positions.T, np.float64)
            six = np.zeros(6) if ts.dimensions is None else ts.dimensions.astype(np.float64)
            same = (
                own.tobytes() == read.arrays["positions"].tobytes()
                and bool(read.celled[0]) == (ts.dimensions is not None)
                and np.array_equal(six, read.dimensions[0], equal_nan=True)
                and read.steps == [int(ts.data["step"])]
                and read.times == [float(ts.time)]
            )
            if not same:
                return False
        return True


def _opened(reader: Any, descriptor: int) -> PlainDcd | None:
    """The file as its header describes it, None where it is of another kind or size."""
    head = os.pread(descriptor, _HEADER + 12, 0)
    if len(head) < _HEADER + 12:
        return None
    order = "<" if head[:4] == b"\x54\0\0\0" else ">"
    little = order == "<"

    def number(data: bytes, at: int) -> int:
        return int.from_bytes(data[at : at + 4], "little" if little else "big", signed=True)

    if number(head, 0) != 84 or head[4:8] != b"CORD" or number(head, 88) != 84 or number(head, _FIXED):
        return None
    charmm = number(head, _CHARMM) != 0
    # As many titles as are counted, whatever the record's length says: so MDAnalysis goes on.
    titles = number(head, _HEADER + 4)
    if titles < 0:
        return None
    start = _HEADER + 8 + 80 * titles + 4 + 12
    tail = os.pread(descriptor, 12, start - 12)
    if len(tail) < 12 or [number(tail, at) for at in (0, 4, 8)] != [4, reader.n_atoms, 4]:
        return None
    if charmm and number(head, _FOURTH) == 1:
        return None
    return PlainDcd(reader, descriptor, start, order, cell=charmm and number(head, _CELL) != 0)
