"""Frames in pieces: a dump whose name has `%` writes one file per processor, each with a part of every frame's atoms.

The pieces of one step are joined as if their rows stood one after the other in one file. Which files are pieces is
told by their ids: those of one step have no atom in common, where a restart repeats them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_lammps.dump.frames import FileIndex, FrameTable, join_tables
from molrec_lammps.dump.source import Source

__all__ = ["JoinedSource", "join_pieces"]

#: Steps at which the ids of files are compared.
_STEPS_COMPARED = 3

Integers = NDArray[np.int64]


class JoinedSource(Source):
    """Stretches of several files as one text. `bounds` are where each begins, and the end; `lines` likewise."""

    def __init__(
        self,
        sources: Sequence[Source],
        which: Sequence[int],
        starts: Sequence[int],
        bounds: Sequence[int],
        lines: Sequence[int],
        own_lines: Sequence[int],
    ) -> None:
        super().__init__(sources[0].path)
        self._sources = list(sources)
        self._which, self._starts, self._bounds = which, starts, bounds
        self._lines, self._own_lines = lines, own_lines
        self.size = bounds[-1]
        self.translate = sources[0].translate
        self.sequential = any(source.sequential for source in sources)

    def read(self, start: int, stop: int) -> bytes:
        """See `Source.read`."""
        parts = []
        stop = min(stop, self._bounds[-1])
        number = bisect_right(self._bounds, start) - 1
        while start < stop:
            end = min(stop, self._bounds[number + 1])
            begin = self._starts[number] + start - self._bounds[number]
            text = self._sources[self._which[number]].read(begin, begin + end - start)
            # the last row of a file may lack its line end, for which there is room
            parts.append(text + b"\n" * (end - start - len(text)))
            start, number = end, number + 1
        return b"".join(parts)

    def again(self) -> Source:
        """See `Source.again`."""
        sources = [source.again() for source in self._sources]
        return JoinedSource(sources, self._which, self._starts, self._bounds, self._lines, self._own_lines)

    def parts(self) -> list[Source]:
        """See `Source.parts`."""
        return list(self._sources)

    def place(self, line: int) -> tuple[Path, int]:
        """See `Source.place`."""
        number = max(0, bisect_right(self._lines, line) - 1)
        return self._sources[self._which[number]].path, self._own_lines[number] + line - self._lines[number]

    def close(self) -> None:
        """See `Source.close`."""
        for source in self._sources:
            source.close()


def join_pieces(indexes: Sequence[FileIndex], ids_of: Callable[[FrameTable, int], Integers]) -> list[FileIndex]:
    """The files as they are, or, where they hold pieces of frames, one index of the frames they make up.

    `ids_of` reads the ids of a frame. UnsupportedError: some of the files are pieces and others are not.
    """
    if len(indexes) < 2:
        return list(indexes)
    by_step: dict[int, list[tuple[int, int]]] = {}
    for number, index in enumerate(indexes):
        own = dict(zip(index.table.step.tolist(), range(len(index.table)), strict=True))
        for step, frame in own.items():
            by_step.setdefault(step, []).append((number, frame))
    shared = [step for step, places in by_step.items() if len(places) > 1]
    if not shared:
        return list(indexes)
    steps = [by_step[step] for step in sorted(shared)]
    found = _compared(indexes, steps, ids_of)
    if not found and not _one_is_empty(indexes, steps):
        return list(indexes)
    if found and not any(found.values()):
        return list(indexes)
    if not all(found.values()):
        one, other = next(pair for pair, pieces in found.items() if not pieces)
        names = [indexes[number].table.sources[0].path for number in (one, other)]
        raise UnsupportedError(
            f"{names[0]} and {names[1]} hold the same atoms of one step, and other files parts of them (a dump name "
            "with %): name the files of one run"
        )
    return [_joined(indexes, by_step)]


def _compared(
    indexes: Sequence[FileIndex],
    steps: Sequence[Sequence[tuple[int, int]]],
    ids_of: Callable[[FrameTable, int], Integers],
) -> dict[tuple[int, int], bool]:
    """Pairs of files with a step in common: whether no atom is in both; pairs that tell nothing are left out."""
    found: dict[tuple[int, int], bool] = {}
    conclusive = 0
    for places in steps:
        ids = [(number, ids_of(indexes[number].table, frame)) for number, frame in places]
        filled = [(number, own) for number, own in ids if len(own)]
        for (one, mine), (other, theirs) in pairwise(filled):
            found.setdefault((one, other), not np.isin(mine, theirs).any())
        conclusive += len(filled) > 1
        if conclusive == _STEPS_COMPARED:
            break
    return found


def _one_is_empty(indexes: Sequence[FileIndex], steps: Sequence[Sequence[tuple[int, int]]]) -> bool:
    """Whether of the frames of every step at most one has atoms, and all files name ids: joining them takes nothing."""
    named = all("id" in names for index in indexes for names in index.table.layouts)
    return named and all(sum(indexes[n].table.count[f] > 0 for n, f in places) < 2 for places in steps)


def _joined(indexes: Sequence[FileIndex], by_step: dict[int, list[tuple[int, int]]]) -> FileIndex:
    """One index of the frames that pieces make up, in step order."""
    table = join_tables([index.table for index in indexes])
    first_of = np.concatenate([[0], np.cumsum([len(index.table) for index in indexes])])
    last_of_file = set((first_of[1:] - 1).tolist())
    frames: list[int] = []
    which: list[int] = []
    starts: list[int] = []
    bounds, lines, own_lines = [0], [1], []
    rows, stops, counts, begins = [], [], [], []
    for step in sorted(by_step):
        pieces = [int(first_of[number]) + frame for number, frame in by_step[step]]
        _check_alike(table, pieces)
        frames.append(pieces[0])
        rows.append(bounds[-1])
        begins.append(lines[-1])
        for piece in pieces:
            length = int(table.stop[piece] - table.rows[piece])
            source = table.sources[int(table.source[piece])]
            if (
                piece in last_of_file
                and length
                and source.read(int(table.stop[piece]) - 1, int(table.stop[piece])) != b"\n"
            ):
                length += 1
            which.append(int(table.source[piece]))
            starts.append(int(table.rows[piece]))
            own_lines.append(int(table.line[piece]))
            bounds.append(bounds[-1] + length)
            lines.append(lines[-1] + int(table.count[piece]))
        stops.append(bounds[-1])
        counts.append(int(table.count[pieces].sum()))
    source = JoinedSource(table.sources, which, starts, bounds, lines, own_lines)
    joined = table.take(np.array(frames, dtype=np.int64))
    joined = replace(
        joined,
        start=np.array(rows, dtype=np.int64),
        rows=np.array(rows, dtype=np.int64),
        stop=np.array(stops, dtype=np.int64),
        line=np.array(begins, dtype=np.int64),
        count=np.array(counts, dtype=np.int64),
        source=np.zeros(len(frames), dtype=np.int64),
        sources=(source,),
    )
    units = [entry for index in indexes for entry in index.units]
    return FileIndex(joined.pruned(), units)


def _check_alike(table: FrameTable, pieces: Sequence[int]) -> None:
    """Refuse pieces of a step with other columns or another cell than the first."""
    first = pieces[0]
    for piece in pieces[1:]:
        what = None
        if table.layout[piece] != table.layout[first]:
            what = "columns"
        elif not (
            np.array_equal(table.vectors[table.box[piece]], table.vectors[table.box[first]])
            and np.array_equal(table.origin[table.box[piece]], table.origin[table.box[first]])
        ):
            what = "cell"
        if what is not None:
            raise FormatError(
                table.sources[int(table.source[piece])].path,
                table.place(piece),
                found=f"other {what} at step {table.step[piece]}",
                expected=f"those of {table.sources[int(table.source[first])].path}, whose atoms these are beside",
            )
