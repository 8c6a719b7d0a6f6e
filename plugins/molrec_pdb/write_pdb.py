"""Records as PDB files: the writer of the format, and what it predicts.

Prediction makes every row as the writer does and writes none, so that both report the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.files.target_file import open_target
from molrec_convert.formats import WriteContext
from molrec_convert.model import Block, Box, Record
from molrec_convert.model.collection.collection import Collection
from molrec_convert.report import Report
from molrec_pdb.header import OutCell, frame_times, out_cell
from molrec_pdb.lines import PLACEHOLDER_REMARKS, FrameLines
from molrec_pdb.plugin import PdbTarget
from molrec_pdb.write_atoms import OutFrame, check_lengths, frames_of, report_left
from molrec_pdb.write_rows import WRITTEN, Rows, RowWriter

__all__ = ["conect_records", "predict", "write_pdb"]

_WIDTH = 81


def conect_records(bonds: Block, rows: Rows, lines: Sequence[str], report: Report) -> bytes:
    """Return the records of a block of bonds; those SSBOND and LINK lines state by themselves are left to these."""
    first, second = bonds.stored("atomi").astype(np.int64), bonds.stored("atomj").astype(np.int64)
    chosen = _chosen(bonds, lines, report)
    orders = _orders(bonds, chosen, report)
    numbers = rows.serial_numbers
    nameless = ~rows.known
    several = np.unique(numbers[rows.known], return_counts=True)
    nameless |= np.isin(numbers, several[0][several[1] > 1])
    unfit = chosen & (nameless[first] | nameless[second])
    if unfit.any():
        report.dropped("bonds", f"{int(unfit.sum())} bonds of atoms without a serial of their own")
        chosen &= ~unfit
    one = np.concatenate([first[chosen], second[chosen]])
    other = np.concatenate([second[chosen], first[chosen]])
    times = np.concatenate([orders[chosen]] * 2)
    one, other = np.repeat(one, times), np.repeat(other, times)
    order = np.lexsort((other, one))
    one, other = one[order], other[order]
    if not len(one):
        return b""
    begins = np.flatnonzero(np.concatenate([[True], one[1:] != one[:-1]]))
    within = np.arange(len(one)) - np.repeat(begins, np.diff(np.append(begins, len(one))))
    starts = within % 4 == 0
    record = np.cumsum(starts) - 1
    records: NDArray[np.uint8] = np.full((int(record[-1]) + 1, _WIDTH), 32, np.uint8)
    records[:, 80] = 10
    records[:, :6] = np.frombuffer(b"CONECT", np.uint8)
    records[:, 6:11] = rows.serials[one[starts]]
    for place in range(4):
        here = within % 4 == place
        records[record[here], 11 + 5 * place : 16 + 5 * place] = rows.serials[other[here]]
    return records.tobytes()


def _chosen(bonds: Block, lines: Sequence[str], report: Report) -> NDArray[Any]:
    """Return the bonds that need a record: all, or those of CONECT where lines state the others."""
    if "kind" not in bonds.columns:
        return np.ones(bonds.count, np.bool_)
    kinds: NDArray[Any] = bonds.stored("kind")
    stated: NDArray[np.bool_] = np.strings.find(kinds, "conect") >= 0
    if stated.all():
        return stated
    if any(line.upper().startswith(("SSBOND", "LINK")) for line in lines):
        return stated
    report.converted("bonds/kind", "bonds of other records become CONECT records: no lines state them")
    return np.ones(bonds.count, np.bool_)


def _orders(bonds: Block, chosen: NDArray[np.bool_], report: Report) -> NDArray[np.int64]:
    """Return how often each partner stands in its record."""
    if "bond_type" not in bonds.columns:
        return np.ones(bonds.count, np.int64)
    orders = bonds.stored("bond_type").astype(np.int64)
    own = orders[chosen]
    if (own > 3).any():
        report.dropped("bonds/bond_type", "aromatic bonds: partners of double and triple bonds only are repeated")
    repeated = bool(((own == 2) | (own == 3)).any())
    if (own == 1).any() and not repeated:
        report.dropped("bonds/bond_type", "single bonds: records of a file without others leave the order open")
    if (own == 0).any() and repeated:
        report.dropped("bonds/bond_type", "unknown orders: beside double bonds they are taken as single")
    return np.where((orders == 2) | (orders == 3), orders, 1)


#: Records the writer makes itself.
_OWN = frozenset({"ATOM", "HETATM", "ANISOU", "TER", "MODEL", "ENDMDL", "CONECT", "CRYST1", "END"})
#: Records that speak of the frame the coordinates are in.
_FRAMED = ("ORIGX", "SCALE", "MTRIX")
_STATE = frozenset({"x", "y", "z", "occupancy", "b_factor", "anisou"})
#: Keys of `system` meta the writer knows.
_KEYS = frozenset({"pdb", "units"})
#: What the document `pdb` holds: what is written, and what its lines say.
_DOCUMENT = frozenset({"lines", "inside", "frames", "trailing", "space_group", "z"})
_SAID = frozenset({"id", "title", "method", "classification", "keywords", "date", "resolution"})


def write_pdb(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write all frames as models, compressed as the name says; UnsupportedError names what has no columns."""
    name = path.name if context.target is None else context.target.name
    context.progress.start("write", None)
    with open_target(path, name) as file:
        _write(source, context, file.write)


def predict(source: Record | Collection, context: WriteContext) -> None:
    """Report what the file will not hold."""
    _write(source, context, lambda data: None)


def _write(source: Record | Collection, context: WriteContext, put: Callable[[Any], Any]) -> None:
    options = context.options if isinstance(context.options, PdbTarget) else PdbTarget()
    if isinstance(source, Record):
        _RecordWriter(source, options, context, put).write()
        return
    number = 1
    for record in source:
        writer = _RecordWriter(record, options, context, put)
        writer.next_model, writer.one_of_many = number, True
        writer.write()
        number = writer.next_model


class _RecordWriter:
    """One record: its frames as models."""

    def __init__(self, record: Record, options: PdbTarget, context: WriteContext, put: Callable[[Any], Any]) -> None:
        self.record, self.context, self.report, self.put = record, context, context.report, put
        self.next_model, self.one_of_many = 1, False
        self.rows = RowWriter(options, context.report)
        system = record.system
        document = None if system is None else system.meta.get("pdb")
        self.document: dict[str, Any] = document if isinstance(document, dict) else {}
        self._box: Box | None = None
        self._cell: OutCell | None = None

    def write(self) -> None:
        """The whole record but END."""
        report_left(self.record, self.report, WRITTEN, _KEYS)
        self._check_document()
        check_lengths(self.record.units, self.report)
        trajectory = self.record.trajectory
        count = 1 if trajectory is None else trajectory.n_frames
        many = self.one_of_many or count is None or count > 1
        if many and (trajectory is None or "model" not in trajectory.declaration.meta):
            self.report.derived("MODEL", "models are numbered in the order of the frames")
        titles = self._titles()
        last: Rows | None = None
        written = 0
        for ordinal, frame in enumerate(frames_of(self.record)):
            last = self._frame(ordinal, frame, many, titles)
            written += 1
            self.context.progress.advance(1)
        if not written:
            raise UnsupportedError("the record has no frames, and a file of the format is made of them")
        self.rows.report_losses()
        assert last is not None
        if not self.one_of_many:
            self.put(self._bonds(last))
        if not many:
            self._lines("inside", self.document.get("inside"))
        self._lines("trailing", self.document.get("trailing"))
        if not many:
            # behind models it would be one more, an empty one, to some readers
            self.put(f"{'END':<80}\n".encode())

    def _frame(self, ordinal: int, frame: OutFrame, many: bool, titles: list[str] | None) -> Rows:
        cell = self._cell_of(frame, ordinal)
        rotation = None if cell is None else cell.rotation
        extra = self.document.get("frames")
        own = extra.get(str(ordinal), {}) if isinstance(extra, dict) and titles is None else {}
        if ordinal == 0:
            if titles is not None:
                self.put(titles[0].encode())
            lines = self.document.get("lines")
            lines = lines if isinstance(lines, list) else []
            # CRYST1 stands before the records of the frame of coordinates
            place = next((n for n, text in enumerate(lines) if str(text).upper().startswith(_FRAMED)), len(lines))
            self._lines("lines", lines[:place], titles=titles is None)
            if not self.one_of_many:
                for text, name in PLACEHOLDER_REMARKS.items():
                    if name not in frame.columns:
                        self.put(f"{text:<80}\n".encode())
            if cell is not None:
                self.put(f"{cell.line}\n".encode())
            self._lines("lines", lines[place:], rotated=rotation is not None, titles=titles is None)
        elif titles is not None:
            self.put(titles[ordinal].encode())
        else:
            self._lines("frames", own.get("lines") if isinstance(own, dict) else None)
        if many:
            self.put(f"{f'MODEL {self._number_of(frame, ordinal):8d}':<80}\n".encode())
            self.next_model += 1
            if cell is not None:
                # some readers look for it before the first model, some in each
                self.put(f"{cell.line}\n".encode())
        elif "model" in frame.frame.meta:
            self._leave_model(int(frame.frame.meta["model"]))
        rows = self.rows.rows(frame, rotation, fixed=frame.own <= _STATE)
        self.put(np.ascontiguousarray(rows.lines).data)
        if many:
            self._lines("inside", self.document.get("inside") if ordinal == 0 else own.get("inside"))
            if self.one_of_many:
                self.put(self._bonds(rows))
            self.put(f"{'ENDMDL':<80}\n".encode())
        return rows

    def _number_of(self, frame: OutFrame, ordinal: int) -> int:
        """Return the number of a model: its own, or, beside models of other records or of its number, the next one."""
        number = int(frame.frame.meta.get("model", self.next_model))
        if (ordinal and number < self.next_model) or (self.one_of_many and number != self.next_model):
            self.report.dropped(
                "trajectory/meta/model", "models whose numbers do not ascend are numbered in their order"
            )
        elif not self.one_of_many:
            self.next_model = number
        return self.next_model

    def _leave_model(self, number: int) -> None:
        """Say that a single state has no MODEL record: it would be two to some readers."""
        if number == 1:
            self.report.converted("trajectory/meta/model", "a single state stands without MODEL: the first one")
        else:
            self.report.dropped(
                "trajectory/meta/model", f"a single state stands without MODEL, and this one is {number}"
            )

    def _bonds(self, rows: Rows) -> bytes:
        system = self.record.system
        if system is None or "bonds" not in system.blocks or not system.blocks["bonds"].count:
            return b""
        lines = [line for key in ("lines", "inside") for line in self.document.get(key) or [] if isinstance(line, str)]
        return conect_records(system.blocks["bonds"], rows, lines, self.report)

    def _cell_of(self, frame: OutFrame, ordinal: int) -> OutCell | None:
        if ordinal and frame.box == self._box:
            return self._cell
        self._box = frame.box
        foreign = "hetatm" not in frame.columns
        self._cell = None if frame.box is None else out_cell(frame.box, self.document, self.report, foreign=foreign)
        return self._cell

    def _lines(self, key: str, lines: Any, *, rotated: bool = False, titles: bool = True) -> None:
        """Lines as they are, but those the writer makes itself or that are none of the format."""
        for line in lines if isinstance(lines, list) else []:
            word = line[:6].strip().upper() if isinstance(line, str) else ""
            if not isinstance(line, str) or "\n" in line or "\r" in line or not line.strip() or word in _OWN:
                self.report.dropped(f"system/meta/pdb/{key}", "lines that would be taken for other records")
            elif rotated and line.upper().startswith(_FRAMED):
                self.report.dropped(line[:6].strip(), "it speaks of the frame the atoms are turned out of")
            elif titles or not line.startswith("TITLE"):
                self.put(f"{line:<80}\n".encode())

    def _titles(self) -> list[str] | None:
        """Return a TITLE for each frame where the record has times that the lines do not state already."""
        trajectory = self.record.trajectory
        if trajectory is None:
            return None
        times, steps = trajectory.times, trajectory.steps
        plain = np.array_equal(steps, np.arange(len(steps)))
        lines = self._stated_lines(len(steps))
        stated, stated_steps = frame_times(lines)
        same_steps = np.array_equal(steps, stated_steps or np.arange(len(steps)))
        if times is not None and stated is not None and np.array_equal(times, stated) and same_steps:
            return None
        if times is None:
            if not plain:
                self.report.dropped("trajectory/step", "step numbers stand beside times only, and there are none")
            return None
        if self.document.get("frames"):
            self.report.dropped("system/meta/pdb/frames", "the lines of other frames than these")
        self.report.converted("time", "and steps: t= (in ps) and step= in a TITLE before each model")
        return [
            f"{f'TITLE     t= {time!r} step= {step}':<80}\n"
            for time, step in zip(times.tolist(), steps.tolist(), strict=True)
        ]

    def _stated_lines(self, count: int) -> list[FrameLines]:
        later = self.document.get("frames")
        frames = [FrameLines(0, 0, lines=list(self.document.get("lines") or []))]
        for ordinal in range(1, count):
            own = later.get(str(ordinal), {}) if isinstance(later, dict) else {}
            frames.append(FrameLines(0, 0, lines=list(own.get("lines") or [])))
        return frames

    def _check_document(self) -> None:
        """Report what of the document `pdb` is not written: keys of others, and what no line says."""
        for key in self.document:
            if key not in _DOCUMENT and not (key in _SAID and self.document.get("lines")):
                self.report.dropped(f"system/meta/pdb/{key}", "no record of the format is made of it")
