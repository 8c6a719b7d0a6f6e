"""Units of work: which text is parsed in one call, and getting it.

A unit is about a megabyte: the rows of many small frames joined, those of one frame, or a piece of a large one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from molrec_lammps.dump.frames import FrameTable
from molrec_lammps.dump.source import Source

__all__ = ["DumpPart", "Unit", "is_close", "load", "spans_of", "units_of"]

#: Text of one call of the parser, and the longest that is not cut into pieces.
_UNIT_BYTES = 2**20
_LONGEST_UNIT = 2**22
#: Text between the rows of two frames that is read along rather than skipped.
_GAP_BYTES = 2**15
_NEWLINE = ord("\n")

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class DumpPart:
    """One dump of those whose columns are joined: its frames, and the columns that are taken from it.

    `frames` int64[n] has for every frame of the trajectory the frame of `table` with its step, -1 where there is none.
    """

    table: FrameTable
    frames: Integers
    columns: frozenset[str]


@dataclass(frozen=True)
class Unit:
    """Frames of one part with the same columns, by their positions in the job and in the part's table.

    `start` and `stop` are the places of their rows. A `piece` is some rows of one frame: those from that row on.
    """

    part: DumpPart
    positions: Integers
    frames: Integers
    start: Integers
    stop: Integers
    rows: int
    piece: int | None = None

    @property
    def source(self) -> int:
        """Number of the file among the sources of the part."""
        return int(self.part.table.source[self.frames[0]])

    @property
    def layout(self) -> tuple[str, ...]:
        """Names of the columns in the file."""
        return self.part.table.layouts[int(self.part.table.layout[self.frames[0]])]


def units_of(part: DumpPart, frames: Integers, sources: list[Source]) -> Iterator[Unit]:
    """The units of the frames (ordinals of the trajectory) that are in the part, in order."""
    table = part.table
    own = part.frames[frames]
    positions = np.flatnonzero(own >= 0)
    own = own[positions]
    keep = table.count[own] > 0
    positions, own = positions[keep], own[keep]
    if not len(own):
        return
    start, stop, count = table.rows[own], table.stop[own], table.count[own]
    length = stop - start
    large = length > _LONGEST_UNIT
    kind = table.layout[own] * len(table.sources) + table.source[own]
    cut = (kind[1:] != kind[:-1]) | large[1:] | large[:-1]
    group = np.cumsum(length) // _UNIT_BYTES
    cut |= group[1:] != group[:-1]
    for run in np.split(np.arange(len(own)), np.flatnonzero(cut) + 1):
        unit = Unit(part, positions[run], own[run], start[run], stop[run], int(count[run].sum()))
        if large[run[0]]:
            yield from _pieces(unit, sources[unit.source])
        else:
            yield unit


def load(unit: Unit, source: Source) -> bytes:
    """The text of a unit: rows only, every line with its end."""
    first, last = int(unit.start[0]), int(unit.stop[-1])
    if len(unit.start) == 1:
        text = source.read(first, last)
    elif is_close(unit):
        view = memoryview(source.read(first, last))
        places = zip((unit.start - first).tolist(), (unit.stop - first).tolist(), strict=True)
        text = b"".join([view[start:stop] for start, stop in places])
    else:
        text = b"".join(list(map(source.read, unit.start.tolist(), unit.stop.tolist())))
    return text if text.endswith(b"\n") else text + b"\n"


def spans_of(unit: Unit, text: bytes | None) -> Integers:
    """Return begin, end and number of rows of each frame (or piece of one) of a unit.

    With `text` (of `load`) there is nothing between the frames; else it is all of the file from the first on.
    """
    rows = unit.part.table.count[unit.frames] if unit.piece is None else np.array([unit.rows])
    if text is None:
        first = int(unit.start[0])
        return np.stack([unit.start - first, unit.stop - first, rows], axis=1)
    lengths = unit.stop - unit.start
    lengths[-1] += len(text) - int(lengths.sum())
    stop = np.cumsum(lengths)
    return np.stack([stop - lengths, stop, rows], axis=1)


def is_close(unit: Unit) -> bool:
    """Whether what lies between the frames of a unit is little."""
    length = int(unit.stop[-1] - unit.start[0])
    return length <= int((unit.stop - unit.start).sum()) + _GAP_BYTES * len(unit.start)


def _pieces(unit: Unit, source: Source) -> Iterator[Unit]:
    """A large frame in pieces of whole lines."""
    start, stop = int(unit.start[0]), int(unit.stop[0])
    row = 0
    while start < stop:
        size = _UNIT_BYTES
        text = source.read(start, min(stop, start + size))
        while b"\n" not in text and start + size < stop:
            size *= 2
            text = source.read(start, min(stop, start + size))
        end = stop if start + size >= stop else start + text.rfind(b"\n") + 1
        lines = int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8)[: end - start] == _NEWLINE))
        if end == stop and not text.endswith(b"\n"):
            lines += 1
        yield replace(unit, start=np.array([start]), stop=np.array([end]), rows=lines, piece=row)
        row += lines
        start = end
