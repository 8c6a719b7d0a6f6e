"""PDB files as records: the reader of the format.

Frames whose atoms agree are one trajectory; others are records of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Block, Column, Frame, Record
from molrec_convert.model.collection.collection import Collection, MemoryCollection
from molrec_convert.report import Report
from molrec_convert.text.contents import Contents
from molrec_pdb.atoms import Source, State, all_have_anisou, read_rows, read_state
from molrec_pdb.bonds import bond_block, conect_pairs
from molrec_pdb.header import Header, frame_times, read_cell, read_header
from molrec_pdb.identity import Identity, read_identity
from molrec_pdb.lines import Scan, line_number, rows_beyond, scan_lines, word
from molrec_pdb.plugin import PdbOptions
from molrec_pdb.trajectory import ATOMS, Layout, PdbTrajectory, PerFrame

__all__ = ["Survey", "read_pdb", "survey"]

_ROWS = 2**16
_BLANK = np.uint64(0x202020202020)
#: Placeholders as they stand in the columns from 55 and from 61 on.
_PLACEHOLDERS = {55: np.uint64(int.from_bytes(b"  1.00", "little")), 61: np.uint64(int.from_bytes(b"  0.00", "little"))}


@dataclass
class Survey:
    """`difference` says how a frame differs from the first, None where all have the same atoms."""

    layout: Layout
    difference: str | None


def survey(source: Source) -> Survey:
    """Look at all frames: counts, the columns that say what the atoms are, blanks in those that say how they are."""
    scan = source.scan
    counts = np.array([frame.stop - frame.start for frame in scan.frames])
    count, frames = int(counts[0]), len(counts)
    difference = None
    if (counts != count).any():
        other = int(np.argmax(counts != count))
        difference = f"frame {other} has {counts[other]} atoms, the first {count}"
    first = read_rows(source, 0, count).rows if frames > 1 and difference is None else None
    blanks = {55: [0, 0], 61: [0, 0]}
    placeholders = {55: "occupancy" in scan.placeholders, 61: "b_factor" in scan.placeholders}
    serials = False
    per = max(1, _ROWS // max(count, 1)) * count if first is not None and count else _ROWS
    total = len(scan.starts)
    for at in range(0, total, per):
        rows = read_rows(source, at, min(at + per, total))
        for column, tally in blanks.items():
            words = word(rows.rows, column - 1, 6)
            empty = int((words == _BLANK).sum())
            placeholders[column] &= bool((words == _PLACEHOLDERS[column]).all())
            tally[0] += empty
            tally[1] += len(rows.rows) - empty
        if first is None or difference is not None:
            continue
        shaped = rows.rows.reshape(-1, count, rows.rows.shape[1])
        differ = _differs(shaped, first)
        if differ.any():
            frame, row = (int(place) for place in np.argwhere(differ)[0])
            here = rows.text(frame * count + row, 1, 27)
            there = bytes(first[row, :27]).decode("latin-1")
            difference = f"frame {at // count + frame} has {here!r} where the first has {there!r}"
        serials |= bool((shaped[:, :, 4:12] != first[None, :, 4:12]).any())
    owned = len(np.unique(scan.anisou_row))
    layout = Layout(
        occupancy=blanks[55][1] > 0 and not placeholders[55], occupancy_nullable=blanks[55][0] > 0,
        b_factor=blanks[61][1] > 0 and not placeholders[61], b_factor_nullable=blanks[61][0] > 0,
        anisou=owned > 0, anisou_nullable=not all_have_anisou(source),
        serials=serials and difference is None,
        serials_nullable=serials and _starred(source, total),
    )  # fmt: skip
    return Survey(layout, difference)


def _differs(rows: NDArray[np.uint8], first: NDArray[np.uint8]) -> NDArray[np.bool_]:
    differ = np.zeros(rows.shape[:2], np.bool_)
    for start, stop in ((0, 4), (12, 27), (66, 80)):
        differ |= (rows[:, :, start:stop] != first[None, :, start:stop]).any(axis=2)
    return differ


def _starred(source: Source, total: int) -> bool:
    """True if a serial may be unknown: whether one is anything but digits and blanks."""
    for at in range(0, total, _ROWS):
        field = read_rows(source, at, min(at + _ROWS, total)).rows[:, 6:11]
        if bool(((field != 32) & ((field < 48) | (field > 57))).any()):
            return True
    return False


#: Columns a row needs to have positions.
_ROW = 54
#: Where the charge begins, the one field many rows lack at the end.
_CHARGE = 78
_HEAD = 2**16
_ATOMS = (b"ATOM  ", b"HETATM")
#: So many rows are read without a thread, whose start would take longer.
_FEW_ROWS = 1000


def read_pdb(paths: Sequence[Path], context: ReadContext) -> Record | Collection:
    """Read one file: a record with a trajectory, or a collection of one record for each model.

    FormatError names the line of what is wrong.
    """
    contents = Contents(paths[0])
    try:
        return _read(paths[0], contents, context)
    except BaseException:
        contents.close()
        raise


def _read(path: Path, contents: Contents, context: ReadContext) -> Record | Collection:
    options = context.options if isinstance(context.options, PdbOptions) else PdbOptions()
    report = context.report
    data = _without_torn(path, contents, report)
    _check_line_ends(path, data)
    source = Source(path, data, scan_lines(path, data))
    scan = source.scan
    _drop_unfinished(path, scan, report)
    beyond = rows_beyond(data, scan.starts, scan.ends)
    if len(beyond):
        line = line_number(data, int(scan.starts[beyond[0]]))
        report.dropped("columns beyond 80", f"text in {len(beyond)} rows of atoms, the first in line {line}")
    if not len(scan.starts):
        report.warn(f"{path}: it has no atoms")
    if scan.sigmas:
        report.dropped("SIGATM, SIGUIJ", f"{scan.sigmas} records: standard deviations of an earlier version")
    single = len(scan.frames) == 1
    reader = _Reader(source, report, options, single=single)
    if single:
        context.progress.start("frames", 1)
        return _arranged(reader.record(range(1)), contents, context)
    looked = survey(source)
    reader.layout = looked.layout
    apart = _arrangement(path, looked.difference, context, len(scan.frames))
    context.progress.start("frames", len(scan.frames))
    if not apart:
        record = reader.record(range(len(scan.frames)))
        record._close = contents.close
        return record
    reader.layout = replace(looked.layout, serials=False)
    records = [reader.record(range(number, number + 1)) for number in range(len(scan.frames))]
    return _Models(records, contents, report)


def _without_torn(path: Path, contents: Contents, report: Report) -> Any:
    """Return the text without a last line that breaks off, where the file is cut or the line is an atom without
    positions,
    or a part of a cell."""
    data = contents.data
    last = data.rfind(b"\n") + 1
    line = bytes(data[last:])
    atom = line[:6].upper() in _ATOMS
    torn = (atom or line[:6].upper() == b"CRYST1") and len(line) < _ROW
    if contents.cut is not None:
        report.truncated(f"{path}: {contents.cut}; lines that are whole are kept")
    elif torn and last:
        report.truncated(f"{path}: the last line breaks off and is left out: {line.decode('latin-1').strip()}")
    elif atom and last:
        before = bytes(data[data.rfind(b"\n", 0, last - 1) + 1 : last]).rstrip()
        if before[:6].upper() in _ATOMS and len(line.rstrip()) < min(len(before), _CHARGE):
            report.warn(
                f"{path}: the last line has no end and is shorter than the one before: what it lacks may be cut off"
            )
    return data[:last] if line and last and (torn or contents.cut is not None) else data


def _check_line_ends(path: Path, data: Any) -> None:
    head = bytes(data[:_HEAD])
    if b"\r" in head and b"\n" not in head:
        raise FormatError(
            path, "line 1", found="carriage returns alone", expected="line feeds, or both, at the ends of lines"
        )


def _drop_unfinished(path: Path, scan: Scan, report: Report) -> None:
    """Leave out a last model that breaks off."""
    counts = [frame.stop - frame.start for frame in scan.frames]
    if scan.unfinished and len(counts) > 1 and counts[-1] < counts[0] and len(set(counts[:-1])) == 1:
        report.truncated(f"{path}: the last model breaks off after {counts[-1]} of {counts[0]} atoms and is left out")
        scan.frames.pop()
        stop = scan.frames[-1].stop
        scan.starts, scan.ends = scan.starts[:stop], scan.ends[:stop]
        kept = scan.anisou_row < stop
        scan.anisou, scan.anisou_row = (scan.anisou[0][kept], scan.anisou[1][kept]), scan.anisou_row[kept]


def _arranged(record: Record, contents: Contents, context: ReadContext) -> Record | Collection:
    if context.arrangement in ("collection", "records"):
        return _Models([record], contents, context.report)
    record._close = contents.close
    return record


def _arrangement(path: Path, difference: str | None, context: ReadContext, count: int) -> bool:
    """True if models become records of their own: as is asked for, else as their atoms agree."""
    asked = context.arrangement
    if asked == "trajectory" and difference is not None:
        raise FormatError(
            path, found=difference, expected="the same atoms in all frames of a trajectory",
            hint="--as collection, or --as records, makes a record of each model",
        )  # fmt: skip
    if asked is not None:
        return asked != "trajectory"
    if difference is not None:
        context.report.converted("models", f"a record each: {difference}")
        return True
    context.report.converted(
        "models", f"{count} as one trajectory: their atoms agree; --as collection makes a record of each"
    )
    return False


class _Models(MemoryCollection):
    """One record for each model; the file is open as long as the collection is."""

    def __init__(self, records: list[Record], contents: Contents, report: Report) -> None:
        super().__init__(records, units={"length": "angstrom"}, report=report)
        self._contents = contents
        self.path = str(contents.path)

    def close(self) -> None:
        """Let go of the file."""
        self._contents.close()


class _Reader:
    """Makes records of the frames of a file."""

    def __init__(self, source: Source, report: Report, options: PdbOptions, *, single: bool) -> None:
        self.source, self.report, self.options, self.single = source, report, options, single
        self.layout = Layout()

    def record(self, frames: range) -> Record:
        """Return the record of some frames: what their atoms are from the first of them."""
        source, scan, report = self.source, self.source.scan, self.report
        first = scan.frames[frames[0]]
        rows = read_rows(source, first.start, first.stop)
        state: State | None
        if self.single and len(rows.rows) > _FEW_ROWS:
            # numbers and names are read at the same time
            with ThreadPoolExecutor(1, thread_name_prefix="molrec-pdb") as pool:
                reading = pool.submit(read_state, rows)
                identity = read_identity(rows, report, infer_elements=self.options.infer_elements)
                state = reading.result()
        else:
            state = read_state(rows) if self.single else None
            identity = read_identity(rows, report, infer_elements=self.options.infer_elements)
        if state is not None:
            state.leave_out(scan.placeholders, slice(None))
            owners = len(np.unique(scan.anisou_row))
            self.layout = Layout(
                bool(state.has_occupancy.any()), not bool(state.has_occupancy.all()),
                bool(state.has_b_factor.any()), not bool(state.has_b_factor.all()),
                owners > 0, not all_have_anisou(source),
            )  # fmt: skip
        header = read_header(scan, first, [scan.frames[number] for number in frames], report)
        per_frame, times_known = self._per_frame(frames, header)
        system = Frame(self._blocks(frames, identity, header))
        units = {"length": "angstrom"} | ({"time": "ps"} if times_known else {})
        system.meta.put("units", units, "json")
        if header.document:
            system.meta.put("pdb", header.document, "json")
        self._report_state()
        trajectory = PdbTrajectory(source, frames, self.layout, per_frame, report, state)
        return Record(system=system, trajectory=trajectory)

    def _blocks(self, frames: range, identity: Identity, header: Header) -> dict[str, Block]:
        scan, report = self.source.scan, self.report
        first = scan.frames[frames[0]]
        columns = dict(identity.columns)
        if self.layout.serials:
            del columns["id"]
        ter = scan.ter[(scan.ter >= first.start) & (scan.ter < first.stop)] - first.start
        if len(ter):
            flags = np.zeros(first.stop - first.start, np.bool_)
            flags[ter] = True
            columns["ter"] = Column(flags)
        blocks = {ATOMS: Block(columns, count=first.stop - first.start)}
        own = (scan.conect_frame == frames[0]) | (scan.conect_frame == len(scan.frames))
        pairs, counts = np.zeros((0, 2), np.int64), np.zeros(0, np.int64)
        if own.any():
            pairs, counts = conect_pairs(self.source.data, scan.conect[0][own], scan.conect[1][own], identity, report)
        if len(frames) > 1 and bool(((scan.conect_frame > 0) & (scan.conect_frame < len(scan.frames))).any()):
            report.converted("CONECT", "bonds are those of the first model")
        bonds = bond_block(pairs, counts, header.links, identity, report)
        if bonds is not None:
            blocks["bonds"] = bonds
            report.carried("CONECT, SSBOND, LINK", f"{bonds.count} bonds")
        return blocks

    def _per_frame(self, frames: range, header: Header) -> tuple[PerFrame, bool]:
        scan, report = self.source.scan, self.report
        chosen = [scan.frames[number] for number in frames]
        cells: list[int] = []
        vectors = []
        shared = next((frame for frame in reversed(scan.frames[: frames[0]]) if frame.cell is not None), None)
        for number, frame in enumerate(chosen):
            stated = shared if number == 0 and frame.cell is None and shared is not None else frame
            if stated.cell is None:
                continue
            matrix = read_cell(self.source.path, stated.cell, stated.cell_line, report)
            if matrix is not None:
                cells.append(number)
                vectors.append(matrix)
            elif number == 0:
                header.leave_symmetry()
            elif cells:
                report.warn(f"frame {number} states no cell, and a run that had one keeps it")
        times, steps = frame_times(chosen)
        if times is not None:
            report.converted("TITLE", "times" + (" and steps" if steps is not None else "") + " from t= and step=")
        models = [frame.model for frame in chosen]
        numbers = None
        if scan.has_models and all(model is not None for model in models):
            numbers = np.array(models, np.int64)
        per_frame = PerFrame(
            np.arange(len(frames), dtype=np.int64) if steps is None else np.array(steps, np.int64),
            None if times is None else np.array(times),
            numbers,
            np.array(cells, np.int64),
            np.array(vectors, np.float64).reshape(-1, 3, 3),
        )
        return per_frame, times is not None

    def _report_state(self) -> None:
        for name, there, nullable in (
            ("occupancy", self.layout.occupancy, self.layout.occupancy_nullable),
            ("b_factor", self.layout.b_factor, self.layout.b_factor_nullable),
            ("anisou", self.layout.anisou, self.layout.anisou_nullable),
        ):
            if there:
                self.report.carried(name, "null where the field is blank" if nullable else "")
