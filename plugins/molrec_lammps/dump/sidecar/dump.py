"""Dumps beside the atoms: the frames of `dump local` and `dump grid`, reading their rows, and grids as blocks.

A frame that comes again as it was (a restart) is taken once, within a file and between files; of others `--steps` says
which counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UnsupportedError, UsageError
from molrec_convert.model import BlockDeclaration, ColumnDeclaration
from molrec_convert.report import Report
from molrec_lammps.dump.frames import numeric_order
from molrec_lammps.dump.parts import JoinedSource
from molrec_lammps.dump.rows import RowFault, kind_of, own_names, parse_rows
from molrec_lammps.dump.sidecar.items import ItemFrame, index_items
from molrec_lammps.dump.source import Source, open_source

__all__ = ["GridBlock", "SideDump", "grid_block", "open_side"]

#: Text of one call of the parser.
_UNIT_BYTES = 2**22
#: More files than this are opened one at a time.
_HELD_OPEN = 64

Integers = NDArray[np.int64]


@dataclass
class SideDump:
    """A dump without atoms: its frames by ascending steps, each with the file it is in. All have the same columns."""

    paths: list[Path]
    frames: list[ItemFrame]
    sources: list[Source]

    @property
    def first(self) -> ItemFrame:
        """The first frame."""
        return self.frames[0]

    @property
    def steps(self) -> Integers:
        """The step of each frame."""
        return np.array([frame.step for frame in self.frames], dtype=np.int64)

    @property
    def counts(self) -> Integers:
        """The rows of each frame."""
        return np.array([frame.count for frame in self.frames], dtype=np.int64)

    @property
    def name(self) -> str:
        """The dump, for messages."""
        return str(self.paths[0]) + (" …" if len(self.paths) > 1 else "")

    def read(self, frames: Sequence[int]) -> Iterator[tuple[list[int], dict[str, NDArray[np.float64]], bytes]]:
        """Yield columns (f64, NaN where a number is `nan`) of some frames at a time, and their text.

        FormatError: a row is not as it should be.
        """
        batch: list[int] = []
        size = 0
        for number in frames:
            length = self.frames[number].stop - self.frames[number].rows
            if batch and size + length > _UNIT_BYTES:
                yield self._parse(batch)
                batch, size = [], 0
            batch.append(number)
            size += length
        if batch:
            yield self._parse(batch)

    def close(self) -> None:
        """Let go of the files."""
        for source in self.sources:
            source.close()

    def _parse(self, batch: list[int]) -> tuple[list[int], dict[str, NDArray[np.float64]], bytes]:
        parts = []
        for number in batch:
            frame = self.frames[number]
            part = self.sources[number].read(frame.rows, frame.stop)
            parts.append(part if part.endswith(b"\n") or not part else part + b"\n")
        text = b"".join(parts)
        rows = sum(self.frames[number].count for number in batch)
        names = self.first.columns
        plain = [f"column {place}" if kind_of(name) != "real" else name for place, name in enumerate(names)]
        try:
            columns = parse_rows(text, np.array([[0, len(text), rows]]), plain, plain)
        except RowFault as fault:
            raise self._fault(batch, fault) from None
        return batch, {name: columns[own] for name, own in zip(names, plain, strict=True)}, text

    def _fault(self, batch: list[int], fault: RowFault) -> FormatError:
        row = fault.row or 0
        for number in batch:
            frame = self.frames[number]
            if row < frame.count:
                path, line = self.sources[number].place(frame.line + row)
                return FormatError(path, f"line {line}", found=fault.found, expected=fault.expected)
            row -= frame.count
        return FormatError(self.sources[batch[0]].path, None, found=fault.found, expected=fault.expected)


def open_side(paths: Sequence[Path], report: Report, steps: str = "step", *, pieces: bool = False) -> SideDump:
    """Index the files of one dump. `pieces`: each file has a part of every frame (a dump name with `%`).

    `steps` is `--steps`: which of the frames of one step counts, "first" or "last". FormatError: frames with other
    columns, or another grid, than the first; frames of one step that differ. UsageError: all files have the same
    steps, and nothing says whether they are pieces.
    """
    files = numeric_order([Path(path) for path in paths])
    opened = [open_source(path, hold=len(files) <= _HELD_OPEN) for path in files]
    indexes = sorted(map(index_items, opened), key=lambda index: index.frames[0].step)
    for index in indexes:
        if index.truncated is not None:
            report.truncated(index.truncated)
        for text in index.warnings:
            report.warn(text)
    gone: list[tuple[ItemFrame, Source]] = []
    own = [_each_once([(frame, index.source) for frame in index.frames], steps, gone) for index in indexes]
    by_step: dict[int, list[tuple[ItemFrame, Source]]] = {}
    for places in own:
        for step, place in places.items():
            by_step.setdefault(step, []).append(place)
    if not pieces:
        if len(files) > 1 and all(set(places) == set(own[0]) for places in own):
            raise UsageError(
                f"{files[0]} and {files[1]} have the same steps: they are files of single processors (a dump name with "
                "%), which the input script tells, or dumps of two runs, to be converted one by one"
            )
        by_step = {step: list(_each_once(places, steps, gone).values()) for step, places in by_step.items()}
    dump = SideDump(files, [], [])
    if gone and steps == "step":
        report.warn(f"{dump.name}: {len(gone)} frames come again unchanged, and are taken once")
    elif gone:
        report.dropped(f"{len(gone)} frames of {dump.name}", f"--steps {steps} takes others of the same steps")
    for step in sorted(by_step):
        for frame, source in by_step[step]:
            first = dump.frames[0] if dump.frames else by_step[step][0][0]
            _check_alike(frame, first, source)
        frame, source = by_step[step][0] if len(by_step[step]) == 1 else _joined(by_step[step])
        dump.frames.append(frame)
        dump.sources.append(source)
    return dump


def _each_once(
    places: Sequence[tuple[ItemFrame, Source]], steps: str, gone: list[tuple[ItemFrame, Source]]
) -> dict[int, tuple[ItemFrame, Source]]:
    """Return the frame of each step, those that give way added to `gone`. FormatError: nothing says which of two."""
    found: dict[int, tuple[ItemFrame, Source]] = {}
    for place in places:
        frame, source = place
        before = found.setdefault(frame.step, place)
        if before is place:
            continue
        if steps == "step" and _rows_of(before) != _rows_of(place):
            path, line = source.place(frame.line)
            raise FormatError(
                path,
                f"line {line}",
                found=f"other rows of step {frame.step} than before",
                expected="each step once, or the same frame again as a restart writes it",
                hint="--steps last, or first, says which counts",
            )
        gone.append(place if steps == "first" else before)
        if steps != "first":
            found[frame.step] = place
    return found


def _rows_of(place: tuple[ItemFrame, Source]) -> list[bytes]:
    """Return the rows of a frame, sorted."""
    frame, source = place
    return sorted(line.rstrip() for line in source.read(frame.rows, frame.stop).split(b"\n") if line.strip())


def _check_alike(frame: ItemFrame, first: ItemFrame, source: Source) -> None:
    """Refuse a frame with other columns, or another grid, than the first."""
    if (frame.columns, frame.label, frame.shape) != (first.columns, first.label, first.shape):
        raise FormatError(
            source.path,
            f"line {frame.line - 1}",
            found=f"{_what(frame)} in the frame of step {frame.step}",
            expected=f"{_what(first)}, as in the frame of step {first.step}",
        )


def _joined(places: Sequence[tuple[ItemFrame, Source]]) -> tuple[ItemFrame, Source]:
    """Return the pieces of a frame as one frame, its rows those of all."""
    first = places[0][0]
    if first.shape is not None:
        raise UnsupportedError(
            f"{places[0][1].path}: a grid dump in files of single processors does not say which cells each has"
        )
    bounds, lines = [0], [1]
    for frame, source in places:
        length = frame.stop - frame.rows
        unended = bool(length) and source.read(frame.stop - 1, frame.stop) != b"\n"
        bounds.append(bounds[-1] + length + unended)
        lines.append(lines[-1] + frame.count)
    joined = JoinedSource(
        [source for _, source in places],
        range(len(places)),
        [frame.rows for frame, _ in places],
        bounds,
        lines,
        [frame.line for frame, _ in places],
    )
    return replace(first, count=lines[-1] - 1, rows=0, stop=bounds[-1], line=1), joined


def _what(frame: ItemFrame) -> str:
    size = "" if frame.shape is None else f" of a grid {' x '.join(map(str, frame.shape))}"
    return f"columns {' '.join(frame.columns)}{size}"


@dataclass
class GridBlock:
    """A grid dump as a block of a trajectory."""

    dump: SideDump
    name: str
    others: dict[str, str]

    #: No row refers to an atom.
    references = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along x, y and z."""
        assert self.dump.first.shape is not None
        return self.dump.first.shape

    def declaration(self) -> BlockDeclaration:
        """Return how the block is declared."""
        return BlockDeclaration(
            {own: ColumnDeclaration("f64") for own in self.others.values()},
            structural_shape=self.shape,
            rows=self.dump.first.count,
        )

    def rows(self, frames: Sequence[int], ids: Sequence[Integers | None]) -> tuple[Integers, dict[str, NDArray[Any]]]:
        """Return row counts and columns of some frames."""
        parts: dict[str, list[NDArray[np.float64]]] = {own: [] for own in self.others.values()}
        for batch, columns, _ in self.dump.read(frames):
            for name, own in self.others.items():
                grid = columns[name].reshape(len(batch), *self.shape[::-1])
                parts[own].append(np.ascontiguousarray(grid.transpose(0, 3, 2, 1)).reshape(-1))
        counts = np.full(len(frames), self.dump.first.count, dtype=np.int64)
        return counts, {own: np.concatenate(values) for own, values in parts.items()}

    def report(self, report: Report) -> None:
        """Nothing is left out."""


def grid_block(dump: SideDump, report: Report, *, id: str | None = None) -> GridBlock:
    """Return the block of a grid dump."""
    wanted = "grid" if id is None else f"grid_{id}"
    name = own_names([wanted], ())[wanted]
    size = " x ".join(map(str, dump.first.shape or ()))
    report.converted(
        dump.name, f"{len(dump.frames)} frames of a grid {size} in trajectory/{name}, its rows with z fastest"
    )
    return GridBlock(dump, name, own_names(dump.first.columns, ()))
