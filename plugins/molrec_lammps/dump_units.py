"""Units of work: which text is parsed in one call, and getting it.

A unit is about a megabyte: the rows of many small frames joined, those of one frame, or a piece of a large one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_lammps.dump_frames import FrameTable
from molrec_lammps.dump_source import Source

__all__ = ["DumpPart", "Unit", "load", "units_of", "wrong_count"]

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

    `ranges` are the places of their rows. A `piece` is some rows of one frame: those from that row on.
    """

    part: DumpPart
    positions: list[int]
    frames: list[int]
    ranges: list[tuple[int, int]]
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
        ranges = list(zip(start[run].tolist(), stop[run].tolist(), strict=True))
        if large[run[0]]:
            frame = int(own[run[0]])
            yield from _pieces(part, int(positions[run[0]]), frame, ranges[0], sources[int(table.source[frame])])
        else:
            yield Unit(part, positions[run].tolist(), own[run].tolist(), ranges, int(count[run].sum()))


def load(unit: Unit, source: Source) -> bytes:
    """The text of a unit: rows only, every line with its end."""
    first, last = unit.ranges[0][0], unit.ranges[-1][1]
    if len(unit.ranges) == 1:
        text = source.read(first, last)
    else:
        wanted = sum(stop - start for start, stop in unit.ranges)
        if last - first <= wanted + _GAP_BYTES * len(unit.ranges):
            view = memoryview(source.read(first, last))
            text = b"".join([view[start - first : stop - first] for start, stop in unit.ranges])
        else:
            text = b"".join([source.read(start, stop) for start, stop in unit.ranges])
    return text if text.endswith(b"\n") else text + b"\n"


def wrong_count(unit: Unit, text: bytes) -> bool:
    """Whether the lines of some frame of a unit are not as many as its header says."""
    newline = np.frombuffer(text, dtype=np.uint8) == _NEWLINE
    ends = np.cumsum([stop - start for start, stop in unit.ranges])
    ends[-1] = len(newline)
    starts = [0, *ends[:-1].tolist()]
    lines = [np.count_nonzero(newline[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)]
    return unit.piece is None and bool((np.array(lines) != unit.part.table.count[unit.frames]).any())


def _pieces(part: DumpPart, position: int, frame: int, place: tuple[int, int], source: Source) -> Iterator[Unit]:
    """A large frame in pieces of whole lines."""
    start, stop = place
    row = 0
    while start < stop:
        text = source.read(start, min(stop, start + _UNIT_BYTES))
        end = stop if start + len(text) >= stop else start + text.rfind(b"\n") + 1
        if end <= start:
            end = stop
        lines = np.count_nonzero(np.frombuffer(text, dtype=np.uint8)[: end - start] == _NEWLINE)
        if end == stop and not text.endswith(b"\n"):
            lines += 1
        yield Unit(part, [position], [frame], [(start, end)], int(lines), row)
        row += int(lines)
        start = end
