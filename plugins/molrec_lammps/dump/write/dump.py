"""A record as a LAMMPS text dump: the writer of the format `lammps-dump`.

Frames stream from the trajectory, in batches; a record without one is a dump of one frame. Items stand in LAMMPS'
order: UNITS before the first frame, then TIME, TIMESTEP, NUMBER OF ATOMS, BOX BOUNDS and ATOMS of every frame. UNITS
and TIME are written where they are asked for, as LAMMPS does (`dump_modify units yes time yes`): many readers take a
frame to begin at TIMESTEP. Source: the manual, "dump", checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.files.target_file import open_target
from molrec_convert.formats import WriteContext
from molrec_convert.model import Block, Column, Frame, MemoryTrajectory, Record, Trajectory
from molrec_convert.quantities.dimensions import units_object, units_words
from molrec_convert.quantities.elements import UNKNOWN
from molrec_convert.report import Report
from molrec_lammps.dump.rows import kind_of
from molrec_lammps.dump.write.columns import TYPE_COLUMNS, DumpColumn, SourceColumn, TypeNumbers, choose_columns
from molrec_lammps.dump.write.frames import AtomFrames, DumpBoxes, atom_columns, frames_of, places
from molrec_lammps.write.box import Turned, turn, turned_of, unturned, warning_of
from molrec_lammps.write.types import ATOMS, report_meta
from molrec_lammps.write.units import as_text, number_text, row_pieces, style_written, tiled

__all__ = ["write_dump"]

_NEWLINE = ord("\n")


def write_dump(record: Record, path: Path, context: WriteContext) -> None:
    """Write all frames of a record as one dump, compressed as its name says.

    UnsupportedError names what LAMMPS cannot hold, UsageError a column that is not there.
    """
    writer = _writer(record, context)
    name = path.name if context.target is None else context.target.name
    context.progress.start("write", writer.trajectory.n_frames)
    with open_target(path, name) as file:
        for frames in writer.frames():
            writer.write(file, frames)
            context.progress.advance(frames.n_frames)
    writer.report_left()


def predict_dump(record: Record, context: WriteContext) -> None:
    """Report what the file will not hold: every frame is made as for the file, and let go."""
    writer = _writer(record, context)
    with open(os.devnull, "wb") as nothing:
        for frames in writer.frames():
            writer.write(nothing, frames)
    writer.report_left()


def _writer(record: Record, context: WriteContext) -> _DumpWriter:
    return _DumpWriter(record, context.options, context.report, context.units_kept)


@dataclass
class _Fixed:
    """A column that is the same in every frame: its text, made once, and its mask."""

    values: NDArray[Any]
    mask: NDArray[np.bool_] | None
    text: Any = None


@dataclass
class _DumpWriter:
    record: Record
    options: Any
    report: Report
    kept: bool
    first: bool = True

    def __post_init__(self) -> None:
        self.trajectory = _trajectory(self.record)
        self.types = TypeNumbers(self.options.type_order, self.report)
        system = Frame() if self.record.system is None else self.record.system
        atoms = system.blocks.get(ATOMS, Block({}))
        self.rows = atoms.count if ATOMS in system.blocks else None
        moving = atom_columns(self.trajectory)
        self.fixed = {name: _Fixed(c.values, c.validity) for name, c in atoms.columns.items() if name not in moving}
        there = {name: source for name, (_, source) in moving.items()}
        there |= {
            name: SourceColumn(column.dtype, column.trailing, column.validity is not None)
            for name, column in atoms.columns.items()
            if name not in there
        }
        self.there = there
        self.unwrapped = system.meta.get("coordinates") == "unwrapped"
        mark = len(self.report.items)
        self.columns = choose_columns(
            there,
            self.options.dump_columns,
            unwrapped=self.unwrapped,
            plain_types=self._plain_types(atoms.columns),
            report=self.report,
        )
        if self.options.type_order:
            self._order_types(atoms.columns)
        self.said = {item.name.removeprefix("atoms/") for item in self.report.items[mark:]}
        if not self.columns:
            raise UnsupportedError("the record's atoms have no columns, and a dump is made of them")
        needed = {column.source for column in self.columns if column.source}
        if any(column.how in ("xs", "xsu", "xu", "x") for column in self.columns) or self.options.rotate:
            needed |= {name for name in ("x", "y", "z", "ix", "iy", "iz") if name in there}
        self.widths = {name: source.trailing for name, source in there.items()}
        if self.options.rotate:
            groups = [turned_of(name, self.widths) for name in needed]
            needed |= {name for group in groups if group is not None for name in group.columns}
        if self.options.box:
            needed |= {name for name in ("x", "y", "z") if name in there}
        self.wanted = {name: moving[name][0] for name in sorted(needed) if name in moving}
        self.box = system.box or (None if self.record.frame is None else self.record.frame.box)
        self.boxes = DumpBoxes(self.options.box, self.options.rotate, self.report)
        self.units, self.timed, self.rotated = self._units(), False, False

    def _units(self) -> str | None:
        """Return the units style the numbers are in, None where nothing tells. UnsupportedError: they are of none."""
        others = ["length", *(["time"] if self.options.dump_time else [])]
        columns = [column.source for column in self.columns]
        units = style_written(self.record, columns, others, self.report, kept=self.kept)
        if units is None and self.options.dump_units:
            raise UsageError(
                "--dump-units: the record does not state the units style of LAMMPS it is in; --units names that of a "
                "LAMMPS source, --target-units converts others"
            )
        return units

    def frames(self) -> Iterator[AtomFrames]:
        """Yield the frames, in batches."""
        box = self.box if self.box is not None and self.box.defined else None
        return frames_of(self.trajectory, self.wanted, self.rows, box)

    def write(self, file: BinaryIO, frames: AtomFrames) -> None:
        """Write some frames: those with the same columns together."""
        if frames.n_frames == 0:
            return
        absent = self._absent(frames)
        kinds = np.array([hash(row.tobytes()) for row in absent.T]) if len(absent) else np.zeros(frames.n_frames)
        cuts = np.flatnonzero(kinds[1:] != kinds[:-1]) + 1
        bounds = [0, *cuts.tolist(), frames.n_frames]
        for start, stop in pairwise(bounds):
            missing = {name for name, flags in zip(self.nullable, absent, strict=True) if flags[start]}
            self._write_run(file, frames.take(start, stop) if len(bounds) > 2 else frames, missing)

    def report_left(self) -> None:
        """Report what of the record a dump has no place for."""
        if not self.options.dump_columns:
            written = {column.source for column in self.columns}
            plain = {"type"} if "type_id" in written else set()
            for name in self.there.keys() - written - plain - self.said:
                self.report.dropped(f"atoms/{name}", "not a column of this dump")
        else:
            left = [name for name in self.there if name not in {column.source for column in self.columns}]
            if left:
                self.report.converted("atoms", f"columns as asked for; left out are {', '.join(left)}")
        blocks = [] if self.record.system is None else [n for n in self.record.system.blocks if n != ATOMS]
        others = set(self.trajectory.declaration.blocks) - {
            block for block, _ in atom_columns(self.trajectory).values()
        }
        for name in [*blocks, *sorted(others - {ATOMS})]:
            self.report.dropped(name, "a dump of atoms has no place for it")
        left = unturned({c.source for c in self.columns if c.source and not c.how}, self.widths) if self.rotated else []
        if left:
            self.report.warn(warning_of(sorted(left)))
        if self.units is not None and not self.options.dump_units:
            self.report.dropped("units", f"{self.units}: stated with --dump-units only")
        elif self.units is None and self.record.units is not None:
            told = units_words(units_object(self.record.units))
            self.report.dropped("units", f"{told}: a dump states none but a units style of LAMMPS")
        if self.timed and not self.options.dump_time:
            self.report.dropped("trajectory/time", "times of frames are stated with --dump-time only")
        if self.options.dump_time and not self.timed:
            raise UsageError("--dump-time: the record states no times")
        report_meta(self.record, ("units", "coordinates"), self.report, "a dump")

    @property
    def nullable(self) -> list[str]:
        """The columns that may be null in a frame."""
        sources = dict.fromkeys(column.source for column in self.columns if column.source)
        return [name for name in sources if self.there[name].nullable]

    def _absent(self, frames: AtomFrames) -> NDArray[np.bool_]:
        """For each nullable column and frame: whether no row of the frame holds a value."""
        ends = np.concatenate([[0], np.cumsum(frames.counts)])
        flags = np.zeros((len(self.nullable), frames.n_frames), dtype=np.bool_)
        for number, name in enumerate(self.nullable):
            if name in self.fixed:
                mask = self.fixed[name].mask
                flags[number] = mask is not None and not mask.any()
                continue
            mask = frames.masks.get(name)
            if mask is not None:
                known = np.concatenate([[0], np.cumsum(mask)])
                flags[number] = (known[ends[1:]] == known[ends[:-1]]) & (frames.counts > 0)
        return flags

    def _write_run(self, file: BinaryIO, frames: AtomFrames, missing: set[str]) -> None:
        """Frames with the same columns: rows formatted together, headers put between them."""
        columns = [column for column in self.columns if column.source not in missing]
        boxes = self.boxes.of(frames, self._positions(frames))
        self.rotated |= boxes.rotation is not None
        arrays = [self._array(column, frames, boxes.rotation) for column in columns]
        names = " ".join(column.name for column in columns)
        headers = self._headers(frames, boxes.lines, names)
        if int(frames.counts.sum()) == 0:
            file.write("".join(headers).encode())
            return
        if frames.n_frames == 1:
            file.write(headers[0].encode())
            for piece in row_pieces(arrays, digits=self.options.digits):
                file.write(piece)
            return
        pieces: list[Any] = list(row_pieces(arrays, digits=self.options.digits))
        text = b"".join(pieces)
        ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == _NEWLINE) + 1
        stops = np.concatenate([[0], ends])[np.cumsum(frames.counts)].tolist()
        view, start = memoryview(text), 0
        parts: list[Any] = []
        for header, stop in zip(headers, stops, strict=True):
            parts += [header.encode(), view[start:stop]]
            start = stop
        file.write(b"".join(parts))

    def _headers(self, frames: AtomFrames, boxes: list[str], names: str) -> list[str]:
        opening = f"ITEM: UNITS\n{self.units}\n" if self.first and self.options.dump_units else ""
        self.first = False
        self.timed |= frames.time is not None
        times = [""] * frames.n_frames
        if frames.time is not None and self.options.dump_time:
            times = [f"ITEM: TIME\n{number_text(time)}\n" for time in frames.time.tolist()]
        steps, counts = frames.step.tolist(), frames.counts.tolist()
        found = [
            f"{time}ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{count}\n{box}ITEM: ATOMS {names}\n"
            for time, step, count, box in zip(times, steps, counts, boxes, strict=True)
        ]
        found[0] = opening + found[0]
        return found

    def _positions(self, frames: AtomFrames) -> Any:
        """Return positions f64[rows, 3], a function that makes them where they are needed."""
        return lambda: np.stack([self._values(name, frames) for name in ("x", "y", "z")], axis=-1)

    def _values(self, name: str, frames: AtomFrames) -> NDArray[Any]:
        if name in self.fixed:
            values = self.fixed[name].values
            return np.tile(values, (frames.n_frames, *([1] * (values.ndim - 1))))
        return frames.columns[name]

    def _array(self, column: DumpColumn, frames: AtomFrames, rotation: NDArray[np.float64] | None) -> Any:
        if column.how == "number":
            ends = np.repeat(np.cumsum(frames.counts) - frames.counts, frames.counts)
            return np.arange(1, int(frames.counts.sum()) + 1) - ends
        if column.how == "types":
            return self.types.of(self._values(column.source, frames))
        if column.how:
            made = places(column, lambda name: self._values(name, frames), frames, rotation, self.there, self.unwrapped)
            known = self._known(("x", "y", "z"), frames)
            return made if known is None else np.where(known, made, np.nan)
        group = None if rotation is None else turned_of(column.source, self.widths)
        if rotation is not None and group is not None:
            return self._turned(column, group, frames, rotation)
        if column.source in self.fixed:
            return self._fixed_text(column, frames)
        values, mask = frames.columns[column.source], frames.masks.get(column.source)
        return self._checked(column, values if column.part is None else values[:, column.part], mask)

    def _turned(
        self, column: DumpColumn, group: Turned, frames: AtomFrames, rotation: NDArray[np.float64]
    ) -> NDArray[Any]:
        """Return one number a row of what turns with the cell."""
        spread = np.repeat(np.arange(frames.n_frames), frames.counts)
        values = [self._values(name, frames) for name in group.columns]
        origin = None if frames.origin is None else frames.origin[spread]
        whole = values[0] if len(values) == 1 else np.stack(values, axis=-1)
        made = turn(whole.astype(np.float64), group.kind, rotation[spread], origin)
        part = group.columns.index(column.source) if column.part is None else column.part
        return np.asarray(
            self._checked(column, np.ascontiguousarray(made[:, part]), self._known(group.columns, frames))
        )

    def _known(self, names: Iterable[str], frames: AtomFrames) -> NDArray[np.bool_] | None:
        """Return the rows in which all of these columns hold a value, None for all rows."""
        found: NDArray[np.bool_] | None = None
        for name in names:
            fixed = self.fixed.get(name)
            mask = frames.masks.get(name) if fixed is None else fixed.mask
            if mask is not None:
                mask = mask if fixed is None else np.tile(mask, frames.n_frames)
                found = mask if found is None else found & mask
        return found

    def _fixed_text(self, column: DumpColumn, frames: AtomFrames) -> Any:
        fixed = self.fixed[column.source]
        if fixed.text is None or column.part is not None:
            values = fixed.values if column.part is None else fixed.values[:, column.part]
            fixed.text = as_text(self._checked(column, values, fixed.mask), self.options.digits)
        return tiled(fixed.text, frames.n_frames)

    def _checked(self, column: DumpColumn, values: NDArray[Any], mask: NDArray[np.bool_] | None) -> Any:
        """Return the values to write; numbers that are missing as nan, elements as X."""
        node = f"atoms/{column.source}"
        if values.dtype.kind in "cV":
            raise UnsupportedError(f"{node}: {values.dtype} is nothing a dump can hold")
        if values.dtype.kind in "TU":
            return self._words(column, values, mask)
        if mask is not None and not mask.all():
            if kind_of(column.name) == "integer":
                row = int((~mask).argmax())
                raise UnsupportedError(
                    f"{node}: row {row} has no value, and a dump has no integer that says so; choose the other columns "
                    "with --dump-columns"
                )
            values = np.where(mask, values.astype(np.float64), np.nan)
            self.report.converted(node, "rows without a value are written as nan")
        return values

    def _words(self, column: DumpColumn, values: NDArray[Any], mask: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Return texts of one word each: atoms without an element are of X. UnsupportedError: a label of type that is
        none.
        """
        empty = values == ""
        if mask is not None:
            empty |= ~mask
        words = np.where(empty, np.array(UNKNOWN, dtype=values.dtype), values)
        blank = next((word for word in dict.fromkeys(words.tolist()) if len(word.split()) != 1), None)
        if blank is not None or (column.source == "type" and empty.any()):
            raise UnsupportedError(
                f"atoms/{column.source}: {blank or ''!r} is no word, and a dump has one in each place; choose "
                "the other columns with --dump-columns"
            )
        if empty.any():
            self.report.converted(f"atoms/{column.source}", f"{UNKNOWN} for atoms without an element")
        return words

    def _order_types(self, columns: Mapping[str, Column]) -> None:
        """Let the column `type` hold numbers as `--type-order` says."""
        if not any(column.name == "type" for column in self.columns):
            raise UsageError("--type-order: the dump has no column type")
        source = self.types.source(self._first_columns(columns))
        self.columns = [DumpColumn("type", source, "types") if c.name == "type" else c for c in self.columns]

    def _first_columns(self, columns: Mapping[str, Column]) -> Mapping[str, Column]:
        """Return the columns of types and elements as the system or the first frame has them."""
        if all(name in columns for name in TYPE_COLUMNS if name in self.there):
            return columns
        frame = next(iter(self.trajectory), None)
        blocks = {} if frame is None else frame.blocks
        return {name: c for block in blocks.values() for name, c in block.columns.items()} | dict(columns)

    def _plain_types(self, columns: Mapping[str, Column]) -> bool:
        """True if the names of types are their numbers, where they can be told without reading the frames."""
        if "type" not in self.there or "type_id" not in self.there:
            return False
        columns = self._first_columns(columns)
        if "type" not in columns or "type_id" not in columns or len(columns["type"]) != len(columns["type_id"]):
            return False
        return bool(columns["type"].values.tolist() == list(map(str, columns["type_id"].values.tolist())))


def _trajectory(record: Record) -> Trajectory:
    """Return the trajectory, or the one state there is as a trajectory of one frame."""
    if record.trajectory is not None:
        return record.trajectory
    frame = record.frame
    if frame is None and record.system is not None and "x" in record.system.blocks.get(ATOMS, {}):
        frame = Frame({}, box=record.system.box)
    if frame is None:
        raise UnsupportedError("the record has no frames, and a dump is made of them")
    blocks = {ATOMS: frame.blocks[ATOMS]} if ATOMS in frame.blocks else {}
    return MemoryTrajectory([Frame(blocks, box=frame.box, step=frame.step, time=frame.time)])
