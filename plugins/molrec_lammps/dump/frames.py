"""The frames that the index pass finds in the files of a dump, and those that make up a trajectory.

A run that goes on from a restart begins with frames that are there already. Those that say the same as before, row for
row, are taken once. Where others have a step a second time, or steps go back, nothing tells which of the runs counts:
`--steps` does. Files follow one another by their first step.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.report import Report
from molrec_convert.text.rows import Field, read_rows
from molrec_lammps.common.triclinic import restricted_cell, undo_bounds
from molrec_lammps.dump.header import Header, layout_of_box
from molrec_lammps.dump.source import Source
from molrec_lammps.log.tables import Thermo

__all__ = [
    "FileIndex",
    "FoundFrames",
    "FrameTable",
    "cells_of",
    "finish",
    "frames_at",
    "join_tables",
    "number_by_order",
    "numeric_order",
    "resolve_steps",
    "series_of",
    "truncation",
]

#: Lines of cells that are read at once.
_PENDING_BYTES = 2**16

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FrameTable:
    """Frames of one or several files, in order.

    Offsets: `start` of the header, `rows` of the first row, `stop` behind the last row. `line` is the number of the
    first row's line. `layout` counts in `layouts` (the column names of a frame), `box` in the cells `vectors` [m,3,3]
    (columns), `origin` [m,3], `boundary` [m,3]; `source` in `sources`. `time` is NaN where a frame has no TIME item.
    """

    start: Integers
    rows: Integers
    stop: Integers
    line: Integers
    step: Integers
    count: Integers
    layout: Integers
    box: Integers
    source: Integers
    time: NDArray[np.float64]
    layouts: tuple[tuple[str, ...], ...]
    vectors: NDArray[np.float64]
    origin: NDArray[np.float64]
    boundary: NDArray[np.bool_]
    sources: tuple[Source, ...]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, frames: Any) -> FrameTable:
        """Return the table of some frames."""
        return replace(self, **{name: getattr(self, name)[frames] for name in _PER_FRAME})

    def pruned(self) -> FrameTable:
        """Return the table without the layouts that no frame has."""
        used, layout = np.unique(self.layout, return_inverse=True)
        if len(used) == len(self.layouts):
            return self
        layouts = tuple(self.layouts[number] for number in used.tolist())
        return replace(self, layout=layout.astype(np.int64), layouts=layouts)

    def place(self, frame: int) -> str:
        """Return where the rows of a frame begin, in words."""
        return f"line {self.line[frame]}"

    def where(self, frame: int) -> str:
        """Return a frame by its file and the line of its step number, in words."""
        path, line = self.sources[self.source[frame]].place(int(self.line[frame]))
        return f"{path}, line {max(1, line - 8)}"


_PER_FRAME = ("start", "rows", "stop", "line", "step", "count", "layout", "box", "source", "time")


@dataclass
class FileIndex:
    """What the index pass finds in one file.

    `units` are the UNITS items (word, line); `truncated` says where the file breaks off, `warnings` what else a user
    should know, `thermo` is the thermo output that stands in the dump itself (YAML).
    """

    table: FrameTable
    units: list[tuple[str, int]] = field(default_factory=list)
    truncated: str | None = None
    warnings: list[str] = field(default_factory=list)
    thermo: Thermo | None = None


class FoundFrames:
    """The frames that an index pass has found in a file, a few numbers for each."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.units: list[tuple[str, int]] = []
        self._numbers = array("q")
        self._times = array("d")
        self._layouts: dict[tuple[str, ...], int] = {}
        #: Words of the BOX items of cells that follow one another, and the numbers of each cell.
        self._boxes: list[tuple[tuple[str, ...], NDArray[np.float64]]] = []
        self._count = 0
        self._last: tuple[tuple[str, ...], tuple[float, ...] | bytes] = ((), b"")
        #: Lines of cells that have yet to be read.
        self._pending = bytearray()

    def __len__(self) -> int:
        return len(self._times)

    def add(self, header: Header, stop: int) -> None:
        """Take a frame by its header, and where its rows end."""
        box = self.box(header.box_words, header.bounds)
        line = header.line + header.lines
        layout = self.layout(header.columns)
        self.put(header.start, header.rows, stop, line, header.step, header.count, layout, box, header.time)
        if header.units is not None:
            self.units.append((header.units, header.line))

    def put(
        self, start: int, rows: int, stop: int, line: int, step: int, count: int, layout: int, box: int,
        time: float | None,
    ) -> None:  # fmt: skip
        """Take a frame; `line` is that of its first row, `layout` and `box` are the numbers of its columns and cell."""
        self._numbers.extend((start, rows, stop, line, step, count, layout, box))
        self._times.append(math.nan if time is None else time)

    def put_run(self, run: Integers, line: int, lines: int, count: int, layout: int, box: int) -> None:
        """Take frames with the same header, by start, first row and step of each; the last one only ends them.

        `line` is that of the first row of the first frame, `lines` the number of lines of a frame.
        """
        start, rows, step = run[:, :-1]
        table = np.empty((len(start), 8), dtype=np.int64)
        table[:] = 0, 0, 0, 0, 0, count, layout, box
        table[:, :5] = np.stack([start, rows, run[0, 1:], line + lines * np.arange(len(start)), step], axis=1)
        self._numbers.frombytes(table.tobytes())
        self._times.frombytes(np.full(len(start), np.nan).tobytes())

    def layout(self, columns: tuple[str, ...]) -> int:
        """Return the number of the columns of a frame."""
        return self._layouts.setdefault(columns, len(self._layouts))

    def box(self, words: tuple[str, ...], bounds: tuple[float, ...] | bytes) -> int:
        """Return the number of a cell, that of the last one where it is equal; its three lines as numbers or text."""
        if self._last == (words, bounds):
            return self._count - 1
        if self._last[0] != words or not isinstance(bounds, bytes) or len(self._pending) > _PENDING_BYTES:
            self._read_pending()
        self._last = words, bounds
        if isinstance(bounds, bytes):
            self._pending += bounds
        else:
            self._boxes.append((words, np.array(bounds).reshape(1, 3, -1)))
        self._count += 1
        return self._count - 1

    def _read_pending(self) -> None:
        """Read the lines of cells. `RowFault`: they are not of so many finite numbers each."""
        if self._pending:
            words = self._last[0]
            width = {"plain": 2, "tilted": 3, "general": 4}[layout_of_box(words)[0]]
            columns = read_rows(bytes(self._pending), None, [Field("finite")] * width).columns
            self._boxes.append((words, np.stack(columns, axis=1).reshape(-1, 3, width)))
            self._pending.clear()

    def table(self) -> FrameTable:
        """Return the table of the frames."""
        self._read_pending()
        numbers = np.array(self._numbers, dtype=np.int64).reshape(-1, 8).T.copy()
        start, rows, stop, line, step, count, layout, box = numbers
        parts = [cells_of(words, values) for words, values in self._boxes]
        vectors, origin, boundary = (np.concatenate(values) for values in zip(*parts, strict=True))
        source, times = np.zeros(len(start), dtype=np.int64), np.array(self._times)
        return FrameTable(
            start, rows, stop, line, step, count, layout, box, source, times, tuple(self._layouts), vectors, origin,
            boundary, (self.source,),
        )  # fmt: skip

    def _of_boxes(self, values: Iterable[bool]) -> NDArray[np.bool_]:
        """Return for each cell what is true of the words of its BOX item."""
        return np.repeat(np.fromiter(values, np.bool_), [len(bounds) for _, bounds in self._boxes])

    def has_inverted_cells(self, table: FrameTable) -> bool:
        """True if a cell that is not general has an upper bound below its lower one."""
        restricted = self._of_boxes(layout_of_box(words)[0] != "general" for words, _ in self._boxes)
        return bool((table.vectors[restricted].diagonal(axis1=1, axis2=2) < 0).any())

    def warn_of_boundaries(self, table: FrameTable) -> list[str]:
        """Return the warning about frames whose box line has no boundary letters, if there are any."""
        unstated = self._of_boxes(layout_of_box(words)[1] is None for words, _ in self._boxes)[table.box]
        if not unstated.any():
            return []
        frames, step = int(unstated.sum()), int(table.step[unstated.argmax()])
        return [
            f"{self.source.path}: {frames} frame{'s' * (frames > 1)} (first: step {step}) without boundary letters "
            "after BOX BOUNDS: every axis is taken as periodic, the default of a record"
        ]


def cells_of(
    words: tuple[str, ...], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return vectors, origins and boundaries of cells given by the words and the three lines of their BOX items."""
    kind, periodic = layout_of_box(words)
    boundary = np.tile((True, True, True) if periodic is None else periodic, (len(values), 1))
    if kind == "general":
        return values[:, :, :3].transpose(0, 2, 1), values[:, :, 3], boundary
    low, high, tilts = values[:, :, 0], values[:, :, 1], None
    if kind == "tilted":
        tilts = values[:, :, 2]
        low, high = undo_bounds(low, high, tilts)
    return *restricted_cell(low, high, tilts), boundary


def finish(found: FoundFrames, breaks: Sequence[str], notes: Sequence[str]) -> FileIndex:
    """Return the index of all whole frames; without one there is nothing to read.

    `breaks` say where the text breaks off, `notes` what else a user should know.
    """
    truncated = truncation(found.source, breaks)
    if not len(found):
        where, _, what = breaks[0].partition(": ") if breaks else ("", "", found.source.cut or "an empty file")
        # of a frame that is left out nobody needs to be told where there is no other
        what = what.removesuffix("; that frame is left out").removesuffix(", which is left out")
        text = what.replace("the file ends", "the end of the file", 1)
        raise FormatError(found.source.path, where or None, found=text, expected="at least one whole frame")
    table = found.table()
    return FileIndex(table, found.units, truncated, [*notes, *found.warn_of_boundaries(table)])


def truncation(source: Source, breaks: Sequence[str]) -> str | None:
    """Return one sentence about where a file breaks off, None where it does not."""
    parts = [*breaks, *filter(None, [source.cut])]
    if not parts:
        return None
    return f"{source.path}{', ' if parts[0].startswith('line ') else ': '}{'; '.join(parts)}"


def join_tables(tables: Sequence[FrameTable]) -> FrameTable:
    """Return one table of the frames of several files, file after file."""
    if len(tables) == 1:
        return tables[0]
    layouts: dict[tuple[str, ...], int] = {}
    parts = []
    boxes = sources = 0
    for table in tables:
        numbers = np.array([layouts.setdefault(names, len(layouts)) for names in table.layouts], dtype=np.int64)
        parts.append(
            replace(
                table,
                layout=numbers[table.layout] if len(table) else table.layout,
                box=table.box + boxes,
                source=table.source + sources,
            )
        )
        boxes += len(table.vectors)
        sources += len(table.sources)
    joined = {
        entry.name: np.concatenate([getattr(part, entry.name) for part in parts])
        for entry in fields(FrameTable)
        if entry.name not in ("layouts", "sources")
    }
    return FrameTable(**joined, layouts=tuple(layouts), sources=tuple(s for t in tables for s in t.sources))


def numeric_order(paths: Sequence[Path]) -> list[Path]:
    """Return files whose names differ in numbers only, by these numbers; others as they are given."""
    parts = [re.split(r"(\d+)", path.name) for path in paths]
    if len({tuple(words[::2]) for words in parts}) != 1 or len({path.parent for path in paths}) != 1:
        return list(paths)
    return [path for _, path in sorted(zip([[int(n) for n in w[1::2]] for w in parts], paths, strict=True))]


def series_of(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Return files whose names differ in numbers only, together; others each by itself."""
    groups: dict[tuple[str, Path], list[Path]] = {}
    for path in paths:
        groups.setdefault((re.sub(r"\d+", "*", path.name), path.parent), []).append(path)
    return [tuple(numeric_order(files)) for files in groups.values()]


def number_by_order(indexes: Sequence[FileIndex]) -> FrameTable:
    """Return all frames, file after file as given, with their ordinals as steps."""
    table = join_tables([index.table for index in indexes])
    return replace(table, step=np.arange(len(table), dtype=np.int64))


def resolve_steps(indexes: Sequence[FileIndex], report: Report, which: str = "step") -> FrameTable:
    """Return the frames in step order, each step once; frames that give way are reported.

    `which` is `--steps`: where steps go back or come again, "first" keeps the earlier run as far as it goes, "last"
    takes the later one from where it begins, "step" keeps both where they say the same or have no step in common, and
    is a FormatError otherwise.
    """
    tables = sorted((index.table for index in indexes), key=lambda table: int(table.step[0]))
    table = join_tables(tables)
    steps = table.step
    if (np.diff(steps) > 0).all():
        return table
    kept = np.zeros(0, dtype=np.int64)
    again: list[Integers] = []
    for run in np.split(np.arange(len(steps)), np.flatnonzero(np.diff(steps) <= 0) + 1):
        if not len(kept) or steps[run[0]] > steps[kept[-1]]:
            kept = np.concatenate([kept, run])
        elif which == "first":
            again.append(run[steps[run] <= steps[kept[-1]]])
            kept = np.concatenate([kept, run[steps[run] > steps[kept[-1]]]])
        elif which == "last":
            again.append(kept[steps[kept] >= steps[run[0]]])
            kept = np.concatenate([kept[steps[kept] < steps[run[0]]], run])
        else:
            kept, same = _merged(table, kept, run)
            again.append(same)
    gone = np.concatenate([np.zeros(0, dtype=np.int64), *again])
    if len(gone) and which == "step":
        report.warn(f"{_places(table, gone)}: {_frames(steps[gone])} come again unchanged, and are taken once")
    elif len(gone):
        _report_gone(table, gone, kept, which, report)
    return table.take(kept).pruned()


def _merged(table: FrameTable, kept: Integers, run: Integers) -> tuple[Integers, Integers]:
    """Return the frames of two runs in step order, and those of the later one that the earlier one has already.

    FormatError: frames of one step that differ, or a run that goes back to steps between those of the same file.
    """
    steps = table.step
    places = np.minimum(np.searchsorted(steps[kept], steps[run]), len(kept) - 1)
    there = steps[kept][places] == steps[run]
    for frame, before in zip(run[there].tolist(), kept[places[there]].tolist(), strict=True):
        if not _same(table, before, frame):
            raise _step_fault(table, frame, f"step {steps[frame]} again, with other rows than at {table.where(before)}")
    new = run[~there]
    inside = new[steps[new] < steps[kept[-1]]]
    if len(inside) and (table.source[kept[-1]] == table.source[inside[0]] or there.any()):
        raise _step_fault(table, int(inside[0]), f"step {steps[inside[0]]} after step {steps[kept[-1]]}")
    joined = np.concatenate([kept, new])
    return joined[np.argsort(steps[joined], kind="stable")], run[there]


def _same(table: FrameTable, one: int, other: int) -> bool:
    """True if two frames say the same: cell, columns, time, and rows in any order."""
    if table.layout[one] != table.layout[other] or table.count[one] != table.count[other]:
        return False
    times = table.time[[one, other]]
    if times[0] != times[1] and not np.isnan(times).all():
        return False
    boxes = table.box[[one, other]]
    for cells in (table.vectors, table.origin, table.boundary):
        if not np.array_equal(cells[boxes[0]], cells[boxes[1]]):
            return False
    texts = [
        table.sources[int(table.source[n])].read(int(table.rows[n]), int(table.stop[n])).split(b"\n")
        for n in (one, other)
    ]
    first, second = (sorted(line.rstrip() for line in lines if line.strip()) for lines in texts)
    return first == second


def _step_fault(table: FrameTable, frame: int, found: str) -> FormatError:
    path, line = table.sources[int(table.source[frame])].place(int(table.line[frame]))
    return FormatError(
        path,
        f"line {max(1, line - 8)}",
        found=found,
        expected="steps that ascend, or the same frames again as a restart writes them",
        hint="--steps index keeps all frames, numbered by their order; --steps last, or first, takes one of two runs",
    )


def _places(table: FrameTable, frames: Integers) -> str:
    """Return the files of some frames, in words."""
    return ", ".join(dict.fromkeys(str(table.sources[number].path) for number in table.source[frames].tolist()))


def _report_gone(table: FrameTable, gone: Integers, kept: Integers, which: str, report: Report) -> None:
    """Report the frames of runs that give way, and the columns only they have."""
    there = {name for number in np.unique(table.layout[kept]).tolist() for name in table.layouts[number]}
    for number in np.unique(table.source[gone]).tolist():
        own = gone[table.source[gone] == number]
        names = dict.fromkeys(
            name for layout in np.unique(table.layout[own]).tolist() for name in table.layouts[layout]
        )
        lost = [name for name in names if name not in there]
        how = f", without {' '.join(lost)}" if lost else ""
        instead = "an earlier" if which == "first" else "a later"
        report.dropped(
            _frames(table.step[own]),
            f"{table.sources[number].path}: --steps {which} takes those of {instead} run{how}",
        )


def frames_at(table: FrameTable, steps: Integers) -> Integers:
    """Return the frame of each step in a table whose steps ascend, -1 where it has none."""
    places = np.minimum(np.searchsorted(table.step, steps), len(table) - 1)
    return np.where(table.step[places] == steps, places, -1).astype(np.int64)


def _frames(steps: Integers) -> str:
    if len(steps) == 1:
        return f"the frame of step {steps[0]}"
    return f"{len(steps)} frames of steps {steps.min()} to {steps.max()}"
