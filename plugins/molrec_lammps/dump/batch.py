"""From frames to arrays: text is read, parsed and put into order by a small pool of threads.

A *job* is some megabytes of frames that become one batch, cut into *units* of about a megabyte of text: the rows of
many small frames joined, those of one frame, or a piece of a large one. Each unit is one call of the row reader, after
which its rows go to their places in the arrays of the job. The next jobs are parsed while a batch is being used, two at
most (one when a single frame is large): memory follows the size of a job.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, LayoutChanged
from molrec_convert.text.rows import Words, count_lines
from molrec_lammps.dump.frames import FrameTable
from molrec_lammps.dump.index import exact_index
from molrec_lammps.dump.rows import (
    BOUNDS,
    COORDINATES,
    Columns,
    IdSet,
    RepeatedId,
    RowFault,
    Rows,
    Vocabulary,
    ascending_order,
    check_bounds,
    kind_of,
    new_column,
    parse_rows,
    repeated_row,
    row_bytes,
    take_rows,
)
from molrec_lammps.dump.source import Source

__all__ = [
    "APART",
    "JOB_BYTES",
    "LARGE_FRAME",
    "RAGGED",
    "DumpPart",
    "RowReader",
    "Unit",
]

#: Text of one call of the parser, and the longest that is not cut into pieces.
_UNIT_BYTES = 2**20
_LONGEST_UNIT = 2**22
#: Text between the rows of two frames that is read along rather than skipped.
_GAP_BYTES = 2**15
_NEWLINE = ord("\n")


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


def _units_of(part: DumpPart, frames: Integers, sources: list[Source]) -> Iterator[Unit]:
    """Yield the units of the frames (ordinals of the trajectory) that are in the part, in order."""
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


def _load(unit: Unit, source: Source) -> bytes:
    """Return the text of a unit: rows only, every line with its end."""
    first, last = int(unit.start[0]), int(unit.stop[-1])
    if len(unit.start) == 1:
        text = source.read(first, last)
    elif _is_close(unit):
        view = memoryview(source.read(first, last))
        places = zip((unit.start - first).tolist(), (unit.stop - first).tolist(), strict=True)
        text = b"".join([view[start:stop] for start, stop in places])
    else:
        text = b"".join(list(map(source.read, unit.start.tolist(), unit.stop.tolist())))
    return text if text.endswith(b"\n") else text + b"\n"


def _spans_of(unit: Unit, text: bytes | None) -> Integers:
    """Return begin, end and number of rows of each frame (or piece of one) of a unit.

    With `text` (of `_load`) there is nothing between the frames; else it is all of the file from the first on.
    """
    rows = unit.part.table.count[unit.frames] if unit.piece is None else np.array([unit.rows])
    if text is None:
        first = int(unit.start[0])
        return np.stack([unit.start - first, unit.stop - first, rows], axis=1)
    lengths = unit.stop - unit.start
    lengths[-1] += len(text) - int(lengths.sum())
    stop = np.cumsum(lengths)
    return np.stack([stop - lengths, stop, rows], axis=1)


def _is_close(unit: Unit) -> bool:
    """True if what lies between the frames of a unit is little."""
    length = int(unit.stop[-1] - unit.start[0])
    return length <= int((unit.stop - unit.start).sum()) + _GAP_BYTES * len(unit.start)


def _pieces(unit: Unit, source: Source) -> Iterator[Unit]:
    """Yield a large frame in pieces of whole lines."""
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


#: The hint of a reading whose set of ids changes.
RAGGED = "ragged"
#: With the path of a dump behind it: the hint of a reading that dump is not joined to.
APART = "apart "
#: Bytes of the arrays of a job.
JOB_BYTES = 2**23
#: Jobs that are parsed ahead.
_AHEAD = 2
#: Of larger frames only one is parsed ahead.
LARGE_FRAME = 2**24
#: One job of fewer rows is parsed without threads.
_INLINE_ROWS = 4096
_WORKERS = max(2, min(4, os.cpu_count() or 1))

Integers = NDArray[np.int64]


@dataclass
class _Job:
    """The arrays that frames are parsed into. `ids` holds those of each part where they are not known beforehand."""

    rows: Rows
    wanted: frozenset[str]
    ids: list[Integers | None]
    pieces: dict[tuple[int, int], list[Unit]] = field(default_factory=dict)
    futures: list[Future[None]] = field(default_factory=list)


class RowReader:
    """Reads frames of a trajectory made of one dump, or of several whose columns are joined by step and id.

    With `idset` every frame has these ids, else each those it has; a dump without ids keeps the order of its rows.
    """

    def __init__(self, parts: Sequence[DumpPart], *, idset: IdSet | None = None) -> None:
        self.parts = list(parts)
        self.idset = idset
        self.vocabularies = {name: Vocabulary() for part in parts for name in part.columns if kind_of(name) == "text"}
        #: Least and greatest value of integer columns.
        self.bounds = dict(BOUNDS)
        self.has_ids = all("id" in names for names in self.table.layouts)

    @property
    def table(self) -> FrameTable:
        """The frames of the first dump, whose steps are those of the trajectory."""
        return self.parts[0].table

    def read(
        self,
        frames: Integers,
        wanted: Collection[str],
        job_bytes: int = JOB_BYTES,
        ready: Rows | None = None,
    ) -> Iterator[Rows]:
        """Yield the columns `wanted` of `frames` (ascending ordinals), some frames at a time; `ready` before them.

        FormatError: a row is not as it should be. LayoutChanged: a frame has other ids than `idset`.
        """
        jobs = deque(self.jobs(frames, wanted, job_bytes))
        sources = [[source.again() for source in part.table.sources] for part in self.parts]
        sequential = any(source.sequential for part in sources for source in part)
        counts = self.table.count[self.parts[0].frames[frames]]
        small = len(jobs) == 1 and counts.sum() < _INLINE_ROWS
        ahead = 1 if self.frame_bytes(wanted) > LARGE_FRAME else _AHEAD
        pool = _Inline() if small else ThreadPoolExecutor(_WORKERS, "dump")
        starter = ThreadPoolExecutor(1, "dump") if sequential else None
        waiting: deque[_Job | Future[_Job]] = deque()

        def start_more() -> None:
            while jobs and len(waiting) < ahead:
                args = (jobs.popleft(), frozenset(wanted), pool, sources)
                waiting.append(self._start(*args) if starter is None else starter.submit(self._start, *args))

        try:
            start_more()
            # nothing here may hold on to rows that have been handed over: a large frame counts
            rows = ready
            ready = None
            while rows is not None or waiting:
                if rows is None:
                    rows = self._finish(waiting.popleft())
                    start_more()
                yield rows
                rows = None
        finally:
            for executor in (starter, pool):
                if executor is not None:
                    executor.shutdown(wait=True, cancel_futures=True)
            if sequential:
                for source in (source for part in sources for source in part if source.sequential):
                    source.close()

    def jobs(self, frames: Integers, wanted: Collection[str], job_bytes: int = JOB_BYTES) -> list[Integers]:
        """Return how `read` divides frames."""
        if not len(frames):
            return []
        nbytes = self.table.count[self.parts[0].frames[frames]] * row_bytes(wanted)
        group = (np.cumsum(nbytes) - nbytes) // max(1, job_bytes)
        return np.split(frames, np.flatnonzero(np.diff(group)) + 1)

    def frame_bytes(self, wanted: Collection[str]) -> int:
        """Return bytes of the columns `wanted` of the largest frame."""
        return int(self.table.count.max(initial=0)) * row_bytes(wanted)

    def _start(self, frames: Integers, wanted: frozenset[str], pool: Executor, sources: list[list[Source]]) -> _Job:
        counts = self.table.count[self.parts[0].frames[frames]]
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        size = int(offset[-1])
        keep_ids = self.has_ids and self.idset is None
        job = _Job(
            Rows(frames, offset, {name: new_column(name, size) for name in sorted(wanted)}),
            wanted,
            [np.empty(size, dtype=np.int64) if keep_ids else None for _ in self.parts],
        )
        for number, part in enumerate(self.parts):
            self._note_absent(job, part)
            if number and not wanted & part.columns:
                continue
            for unit in _units_of(part, frames, sources[number]):
                source = sources[number][unit.source]
                text = _load(unit, source) if source.sequential else None
                if unit.piece is not None:
                    job.pieces.setdefault((number, int(unit.positions[0])), []).append(unit)
                    if self.has_ids and job.ids[number] is None:
                        job.ids[number] = np.empty(size, dtype=np.int64)
                job.futures.append(pool.submit(self._run, job, number, unit, source, text))
        return job

    def _note_absent(self, job: _Job, part: DumpPart) -> None:
        """Mark frames that lack a column of the part, and clear their rows."""
        own = part.frames[job.rows.frames]
        for name in sorted(part.columns & job.wanted):
            having = np.array([name in layout for layout in part.table.layouts], dtype=np.bool_)
            present = (own >= 0) & having[part.table.layout[np.maximum(own, 0)]]
            if not present.all():
                job.rows.present[name] = present
                job.rows.values[name][np.repeat(~present, job.rows.counts)] = 0

    def _run(self, job: _Job, number: int, unit: Unit, source: Source, text: bytes | None) -> None:
        """Parse a unit and put its rows in place."""
        part, names = unit.part, unit.layout
        wanted = [name for name in names if name in job.wanted & part.columns]
        if self.has_ids:
            if "id" not in names:
                path, line = source.place(_line(unit, 0))
                raise FormatError(path, f"line {line}", found="no column id", expected="id, to join by it")
            wanted.append("id")
        rows: Any = text
        if rows is None and source.translate is None and _is_close(unit):
            rows = np.empty(int(unit.stop[-1]) - int(unit.start[0]), np.uint8)
            if source.read_into(int(unit.start[0]), rows) != len(rows):
                _raise_count(source)
            spans = _spans_of(unit, None)
        else:
            rows = _load(unit, source) if rows is None else rows
            spans = _spans_of(unit, rows)
        try:
            if source.translate is not None:
                if (count_lines(rows, spans) != spans).any():
                    _raise_count(source)
                rows = source.translate(rows)
                spans = np.array([[0, len(rows), unit.rows]])
            self._take(job, number, unit, source, parse_rows(rows, spans, names, wanted, COORDINATES))
        except RowFault as fault:
            if fault.row is None:
                _raise_count(source)
            path, line = source.place(_line(unit, fault.row))
            raise FormatError(path, f"line {line}", found=fault.found, expected=fault.expected) from None

    def _take(self, job: _Job, number: int, unit: Unit, source: Source, columns: Columns) -> None:
        """Check the columns of a unit, and copy them to the job."""
        # ids that have to be those of a set are held against that
        held = self.idset is not None and unit.piece is None
        bounds = {name: bound for name, bound in self.bounds.items() if not held or name != "id"}
        check_bounds(columns, bounds)
        self._place(job, number, unit, source, columns)

    def _place(self, job: _Job, number: int, unit: Unit, source: Source, columns: Columns) -> None:
        """Copy the columns of a unit to the job, in order of ids (a piece: as they come)."""
        ids = columns.pop("id") if self.has_ids else None
        order = self._order(number, unit, source, ids) if ids is not None and unit.piece is None else None
        offset = job.rows.offset
        begin = int(offset[unit.positions[0]]) + (unit.piece or 0)
        place: Any = slice(begin, begin + unit.rows)
        if unit.piece is None and offset[unit.positions[-1] + 1] - begin != unit.rows:
            place = np.concatenate([np.arange(offset[p], offset[p + 1]) for p in unit.positions])
        kept = job.ids[number]
        if kept is not None and ids is not None:
            kept[place] = ids if order is None else ids[order]
        for name, column in columns.items():
            values = self.vocabularies[name].codes(column) if isinstance(column, Words) else column
            if isinstance(place, slice):
                take_rows(values, order, job.rows.values[name][place])
            else:
                job.rows.values[name][place] = values if order is None else values[order]

    def _order(self, number: int, unit: Unit, source: Source, ids: Integers) -> Integers | None:
        """Return the order that brings ids of whole frames into place; None: they are."""
        if self.idset is not None:
            if self.idset.in_order(ids):
                return None
            order = self.idset.order(ids)
            if order is not None:
                return order
            check_bounds({"id": ids}, self.bounds)
        else:
            try:
                return ascending_order(ids, unit.part.table.count[unit.frames])
            except RepeatedId:
                pass
        raise self._id_fault(number, unit, source, ids)

    def _finish(self, started: _Job | Future[_Job]) -> Rows:
        """Return the rows of a job when all its units are done."""
        job = started.result() if isinstance(started, Future) else started
        for future in job.futures:
            future.result()
        for (number, position), units in job.pieces.items():
            self._sort_pieces(job, number, position, units)
        first = job.ids[0]
        if first is not None and self.idset is None:
            self._compare_ids(job, first)
            job.rows.ids = first
        return job.rows

    def _sort_pieces(self, job: _Job, number: int, position: int, units: list[Unit]) -> None:
        """Bring the rows of a frame that was read in pieces into order."""
        part, frame = units[0].part, int(units[0].frames[0])
        source = part.table.sources[units[0].source]
        if sum(unit.rows for unit in units) != part.table.count[frame]:
            _raise_count(source)
        place = slice(int(job.rows.offset[position]), int(job.rows.offset[position + 1]))
        kept = job.ids[number]
        if kept is None:
            return
        whole = replace(units[0], rows=place.stop - place.start, piece=None)
        order = self._order(number, whole, source, kept[place])
        if order is not None:
            for name in sorted(job.wanted & part.columns):
                job.rows.values[name][place] = job.rows.values[name][place][order]
            kept[place] = kept[place][order]

    def _compare_ids(self, job: _Job, first: Integers) -> None:
        """Refuse joined dumps whose frames have other ids."""
        for number, part in enumerate(self.parts):
            ids, own = job.ids[number], part.frames[job.rows.frames]
            if not number or ids is None or not job.wanted & part.columns:
                continue
            there = np.repeat(own >= 0, job.rows.counts)
            other = np.flatnonzero((ids != first) & there)
            if len(other):
                position = int(np.searchsorted(job.rows.offset, other[0], side="right")) - 1
                raise self._other_ids(part, int(own[position]))

    def _id_fault(self, number: int, unit: Unit, source: Source, ids: Integers) -> Exception:
        """Return what is wrong with the ids of a unit of whole frames."""
        table = unit.part.table
        ends = np.cumsum(table.count[unit.frames])
        for frame, end in zip(unit.frames.tolist(), ends.tolist(), strict=True):
            own = ids[end - int(table.count[frame]) : end]
            row = repeated_row(own)
            if row is not None:
                path, line = source.place(int(table.line[frame]) + row)
                return FormatError(
                    path,
                    f"line {line}",
                    found=f"the id {own[row]} a second time",
                    expected=f"each id once in the frame of step {table.step[frame]}",
                )
            if self.idset is not None and not np.array_equal(np.sort(own), self.idset.ids):
                if number:
                    return self._other_ids(unit.part, frame)
                return LayoutChanged(
                    RAGGED, f"{table.where(frame)}: the frame of step {table.step[frame]} has other ids than the first"
                )
        return AssertionError("ids are as they should be")

    def _other_ids(self, part: DumpPart, frame: int) -> LayoutChanged:
        return LayoutChanged(
            f"{APART}{part.table.sources[0].path}",
            f"{part.table.where(frame)}: the frame of step {part.table.step[frame]} has other ids than "
            f"{self.table.sources[0].path}",
        )


def _line(unit: Unit, row: int) -> int:
    """Return the line of a row of a unit."""
    table = unit.part.table
    if unit.piece is not None:
        return int(table.line[unit.frames[0]]) + unit.piece + row
    starts = np.concatenate([[0], np.cumsum(table.count[unit.frames])])
    place = int(np.searchsorted(starts, row, side="right")) - 1
    return int(table.line[unit.frames[place]]) + row - int(starts[place])


def _raise_count(source: Source) -> NoReturn:
    """Raise the fault of the first frame of the file with another number of rows than its header says."""
    for own in source.parts() if source.translate is None else ():
        exact_index(own.again())
    raise FormatError(
        source.path, None, found="other text than when it was opened", expected="a file that nobody changes meanwhile"
    )


class _Inline(Executor):
    """Runs what is submitted at once: for work that is not worth a thread."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
