"""The dumps of a trajectory: one or several files each, and the columns of further dumps joined to the first.

A dump whose name has `%` writes one file per processor, each with a part of the atoms of every frame. The pieces of one
step are joined as if their rows stood one after the other in one file. Which files are pieces is told by their ids:
those of one step have no atom in common, where a restart repeats them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, MolrecError, UnsupportedError
from molrec_convert.report import Report
from molrec_lammps.dump.batch import DumpPart, RowReader
from molrec_lammps.dump.frames import (
    FileIndex,
    FrameTable,
    frames_at,
    join_tables,
    number_by_order,
    numeric_order,
    resolve_steps,
)
from molrec_lammps.dump.header import CutHeader
from molrec_lammps.dump.index import first_header, index_source
from molrec_lammps.dump.rows import FLAVOURS, kind_of
from molrec_lammps.dump.source import Source, open_source

__all__ = [
    "Dump",
    "JoinedSource",
    "check_ids_named",
    "in_pieces",
    "join_dumps",
    "leave_out",
    "open_dump",
    "open_named",
]

#: Steps at which the ids of files are compared.
_STEPS_COMPARED = 3


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


def _join_pieces(indexes: Sequence[FileIndex], ids_of: Callable[[FrameTable, int], Integers]) -> list[FileIndex]:
    """Return the files as they are, or, where they hold pieces of frames, one index of the frames they make up.

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
    """Return pairs of files with a step in common: whether no atom is in both; pairs that tell nothing are left out."""
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
    """True if at most one frame of each step has atoms, and all files name ids: joining them takes nothing."""
    named = all("id" in names for index in indexes for names in index.table.layouts)
    return named and all(sum(indexes[n].table.count[f] > 0 for n, f in places) < 2 for places in steps)


def _joined(indexes: Sequence[FileIndex], by_step: dict[int, list[tuple[int, int]]]) -> FileIndex:
    """Return one index of the frames that pieces make up, in step order."""
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


#: More files than this are opened one at a time.
_HELD_OPEN = 64
Integers = NDArray[np.int64]


@dataclass
class Dump:
    """One dump, in one or several files: what the index pass found, and its frames in the order that counts."""

    paths: list[Path]
    indexes: list[FileIndex]
    table: FrameTable


def open_dump(paths: Sequence[Path], steps: str, report: Report) -> Dump:
    """Index the files of one dump and put their frames into order; `steps` is `--steps`."""
    files = numeric_order([Path(path) for path in paths])
    indexes = [index_source(open_source(path, hold=len(files) <= _HELD_OPEN)) for path in files]
    for index in indexes:
        for text in index.warnings:
            report.warn(text)
        if index.truncated is not None:
            report.truncated(index.truncated)
    pieces = len(indexes)
    indexes = _join_pieces(indexes, _ids_of)
    if len(indexes) < pieces:
        report.converted("rows", f"those of {pieces} files of single processors are joined by step")
    if steps == "index":
        table = number_by_order(indexes)
        report.converted("TIMESTEP", "frames are numbered by their order; the file's own numbers are source_step")
    else:
        table = resolve_steps(indexes, report, steps)
        report.carried("TIMESTEP", f"{len(table)} frames")
    return Dump(files, indexes, table)


def open_named(paths: Sequence[Path], steps: str, report: Report) -> list[Dump]:
    """Return the dumps of files a user named together, whatever their order: one, or several to be joined.

    Files with the same columns are one dump. Those with others are another dump where steps are in both, the first
    being the one with the most frames, of these one with positions; without a step in common they go on in time.
    """
    groups = _by_columns(paths) if steps == "step" else [list(paths)]
    dumps = [open_dump(files, steps, report) for files in groups]
    if len(dumps) == 1:
        return dumps
    found = np.concatenate([np.unique(dump.table.step) for dump in dumps])
    if len(np.unique(found)) == len(found):
        indexes = [index for dump in dumps for index in dump.indexes]
        files = [path for dump in dumps for path in dump.paths]
        return [Dump(files, indexes, resolve_steps(indexes, report, steps))]
    return sorted(dumps, key=_precedence)


def _by_columns(paths: Sequence[Path]) -> list[list[Path]]:
    """Return files by the columns of their first frames; all together where one cannot be read, as its reader says."""
    groups: dict[frozenset[str], list[Path]] = {}
    for path in paths:
        try:
            source = open_source(path)
            columns = first_header(source).columns
            source.close()
        except (MolrecError, CutHeader, OSError):
            return [list(paths)]
        groups.setdefault(frozenset(columns), []).append(path)
    return list(groups.values())


def _precedence(dump: Dump) -> tuple[int, bool, int, str]:
    """Return what makes one of several dumps the one that others are joined to: the least counts."""
    names = {name for layout in dump.table.layouts for name in layout}
    placed = any(names.issuperset(flavour) for flavour in FLAVOURS.values())
    return -len(dump.table), not placed, -len(names), str(dump.paths[0])


def in_pieces(paths: Sequence[Path]) -> bool:
    """True if files hold pieces of frames, not frames."""
    try:
        dump = open_dump(paths, "last", Report())
    except (MolrecError, OSError):
        return False
    for source in dump.table.sources:
        source.close()
    return len(dump.indexes) < len(paths)


def _ids_of(table: FrameTable, frame: int) -> Integers:
    part = DumpPart(table, np.array([frame], dtype=np.int64), frozenset())
    reader = RowReader([part])
    rows = next(reader.read(np.zeros(1, dtype=np.int64), ()), None) if reader.has_ids else None
    return np.zeros(0, dtype=np.int64) if rows is None or rows.ids is None else rows.ids


def leave_out(dump: Dump, why: str, named: bool, report: Report, what: str = "") -> None:
    """Report a dump that is not joined, or frames of it (`what`). UnsupportedError where a user named it."""
    text = f"{why}; {_by_itself(dump.paths)}"
    if named:
        raise UnsupportedError(f"{what or dump.paths[0]}: {text}")
    report.dropped(what or str(dump.paths[0]), text)


def _by_itself(paths: Sequence[Path]) -> str:
    """Return how the files of one dump are converted on their own, in words."""
    shown = " ".join(str(path) for path in paths[:3]) + (" …" if len(paths) > 3 else "")
    return f"mrec convert {shown} {paths[0].stem}.mrec converts it by itself"


def join_dumps(dumps: Sequence[Dump], by_order: bool, report: Report, *, named: bool = False) -> list[DumpPart]:
    """Return the parts of the trajectory: the first dump, and of the others the columns and steps it shares with it.

    A dump whose frames are not those of the first seen otherwise is left out, which is reported; so is every number
    that both state, for they may be written to other digits. UnsupportedError: one that a user `named` is left out.
    """
    first, table = dumps[0], dumps[0].table
    taken = {name for layout in table.layouts for name in layout}
    parts = [DumpPart(table, np.arange(len(table), dtype=np.int64), frozenset(taken - {"id"}))]
    for dump in dumps[1:]:
        path = dump.paths[0]
        stated = {name for layout in dump.table.layouts for name in layout}
        columns = stated - taken
        frames = frames_at(dump.table, table.step)
        there = np.flatnonzero(frames >= 0)
        why = f"it has none of the steps of {first.paths[0]}"
        if len(there):
            why = "" if columns else f"it has no column that {first.paths[0]} lacks"
            why = why or _unlike(first, dump, there, frames[there], by_order)
        if why:
            leave_out(dump, f"{why}, so it is not joined", named, report)
            continue
        alone, absent = len(dump.table) - len(there), len(table) - len(there)
        if alone:
            leave_out(dump, f"{first.paths[0]} has no frame of their steps", named, report, f"{alone} frames of {path}")
        if absent:
            report.warn(f"{path} lacks {absent} of the steps: its columns are null there")
        report.converted(f"columns of {path}", f"{' '.join(sorted(columns))}: joined by step and id")
        twice = sorted(name for name in stated & taken if kind_of(name) == "real")
        if twice:
            what = f"{' '.join(twice)}: those of {first.paths[0]} are taken; {_by_itself(dump.paths)}"
            report.dropped(f"columns of {path}", what)
        taken |= columns
        parts.append(DumpPart(dump.table, frames, frozenset(columns)))
    return parts


def _unlike(first: Dump, dump: Dump, mine: Integers, theirs: Integers, by_order: bool) -> str:
    """Return why frames of the same steps cannot be joined, `mine` of the first dump, `theirs` of the other; "": they
    can.
    """
    table, other = first.table, dump.table
    for entry, its in ((first, table), (dump, other)):
        if not all("id" in names for names in its.layouts):
            return f"{entry.paths[0]} has no column id"
    if by_order:
        own = [np.concatenate([index.table.step for index in entry.indexes]) for entry in (first, dump)]
        if (own[0][mine] != own[1][theirs]).any():
            return f"its frames are of other steps than those of {first.paths[0]}"
    differ = np.flatnonzero(other.count[theirs] != table.count[mine])
    if len(differ):
        at = differ[0]
        return (
            f"it has {other.count[theirs[at]]} atoms at step {other.step[theirs[at]]} "
            f"and {first.paths[0]} has {table.count[mine[at]]}"
        )
    boxes, back = np.unique(np.stack([table.box[mine], other.box[theirs]]), axis=1, return_inverse=True)
    same = np.isclose(table.vectors[boxes[0]], other.vectors[boxes[1]], 1e-6, 1e-9).all(axis=(1, 2))
    same &= np.isclose(table.origin[boxes[0]], other.origin[boxes[1]], 1e-6, 1e-9).all(axis=1)
    if not same.all():
        at = np.flatnonzero(~same[back.reshape(-1)])[0]
        return f"its cell is not that of {first.paths[0]} at step {other.step[theirs[at]]}"
    return ""


def check_ids_named(reader: RowReader) -> None:
    """Refuse frames without ids among frames with ids."""
    table = reader.table
    having = np.array(["id" in names for names in table.layouts])
    if having.any() and not having.all():
        frame = int(np.flatnonzero(~having[table.layout])[0])
        raise FormatError(
            table.sources[table.source[frame]].path,
            f"line {table.line[frame] - 1}",
            found=f"no column id in the frame of step {table.step[frame]}",
            expected="id, as other frames have it",
        )
