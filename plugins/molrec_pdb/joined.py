"""Many small PDB files read in one go: the rows of all of them are read together, a record is made of each.

Only files of one frame whose rows are in the format's own columns, with decimal numbers that need no telling; whatever
takes more is read by itself. `read_joined` gives the same records and says the same of each file as `read_pdb`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.formats import ReadContext
from molrec_convert.model import (
    Block,
    BlockUpdates,
    BoxUpdates,
    Column,
    Declaration,
    Frame,
    FrameBatch,
    MemoryTrajectory,
    Record,
)
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.joined import JoinedCollection
from molrec_convert.report import Report
from molrec_convert.text.compression import compression_of
from molrec_pdb.atoms import AtomRows, Source, State, read_state
from molrec_pdb.bonds import bond_block
from molrec_pdb.cells import read_cell
from molrec_pdb.header import frame_times, read_header
from molrec_pdb.identity import Identity
from molrec_pdb.joined_bonds import FileBonds, read_bonds
from molrec_pdb.joined_identity import FileIdentities, read_identities
from molrec_pdb.joined_lines import FileLines, scan_files, set_apart, set_rows_apart
from molrec_pdb.lines import Scan, padded_rows, rows_beyond
from molrec_pdb.options import PdbOptions
from molrec_pdb.trajectory import ATOMS, Layout

__all__ = ["read_joined"]

#: Texts are in memory together.
_MOST_BYTES = 2**25
_UNITS = {"length": "angstrom"}
_FIRST = np.zeros(1, np.int64)
_FIRST.setflags(write=False)
_ORIGIN, _PERIODIC = np.zeros((1, 3)), np.ones((1, 3), np.bool_)


def read_joined(paths: Sequence[Path], context: ReadContext) -> tuple[Collection, list[int]] | None:
    """The records of all files, one of each; None where they are to be read one by one.

    Raises `Apart` for those that are, and `FormatError` for one that is at fault.
    """
    if context.arrangement != "collection":
        return None
    texts = [_text(path) for path in paths]
    if sum(map(len, texts)) > _MOST_BYTES:
        return None
    set_apart(~np.array(list(map(_is_plain, texts)), np.bool_))
    data = b"".join(texts)
    lines = scan_files(paths, data, [len(text) for text in texts])
    scan = lines.scan
    beyond = np.zeros(len(scan.starts), np.bool_)
    beyond[rows_beyond(data, scan.starts, scan.ends)] = True
    set_rows_apart(beyond, lines.first)
    source = Source(paths[0], data, scan)
    rows = AtomRows(source, padded_rows(data, scan.starts, scan.ends), 0)
    options = context.options if isinstance(context.options, PdbOptions) else PdbOptions()
    reports = [Report() for _ in paths]
    identities = read_identities(rows, lines.first, reports, infer_elements=options.infer_elements)
    bonds = read_bonds(data, lines, identities.serials.raw)
    state = read_state(rows)
    for number, scan in enumerate(lines.scans):
        if scan.placeholders:
            own = slice(lines.first.item(number), lines.first.item(number + 1))
            state.leave_out(scan.placeholders, own)
    layout = _layout(state, lines.first)
    counts: list[int] = np.diff(lines.first).tolist()
    declaration = Declaration({ATOMS: layout.declared(max(counts))})
    files = _Files(lines, identities, bonds, state, layout, declaration, reports, _cells(paths, lines, reports))
    return JoinedCollection(paths, counts, declaration, _UNITS, files.record, reports), [1] * len(paths)


def _text(path: Path) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _is_plain(text: bytes) -> bool:
    """Whether a text is in lines that all end, and in the letters everybody has."""
    return text[-1:] == b"\n" and text.isascii() and b"\r" not in text and compression_of(text) is None


def _layout(state: State, first: NDArray[np.int64]) -> Layout:
    """The columns of state that most files have; `Apart` names the others."""
    sizes = np.diff(first)
    flags = []
    for mask in (state.has_occupancy, state.has_b_factor):
        there = np.add.reduceat(mask, first[:-1], dtype=np.int64)
        flags += [there > 0, there < sizes]
    kinds = np.stack(flags, axis=1) @ np.array([1, 2, 4, 8])
    most = int(np.argmax(np.bincount(kinds)))
    set_apart(kinds != most)
    return Layout(*(bool(most >> bit & 1) for bit in range(4)))


def _cells(paths: Sequence[Path], lines: FileLines, reports: Sequence[Report]) -> list[NDArray[np.float64] | None]:
    cells = []
    for path, scan, report in zip(paths, lines.scans, reports, strict=True):
        frame = scan.frames[0]
        cells.append(None if frame.cell is None else read_cell(path, frame.cell, frame.cell_line, report))
    return cells


@dataclass
class _Files:
    """What was read of all files, and how the record of one is made of it."""

    lines: FileLines
    identities: FileIdentities
    bonds: FileBonds
    state: State
    layout: Layout
    declaration: Declaration
    reports: Sequence[Report]
    cells: Sequence[NDArray[np.float64] | None]

    def record(self, number: int) -> Record:
        """The record of one file."""
        scan, report, cell = self.lines.scans[number], self.reports[number], self.cells[number]
        frame = scan.frames[0]
        header = read_header(scan, frame, [frame], report)
        if cell is None:
            header.leave_symmetry()
        identity = self.identities.of(number)
        blocks = {ATOMS: Block(self._columns(identity, scan), count=frame.stop)}
        if header.links:
            bonds = bond_block(*self.bonds.of(number), header.links, identity, report)
        else:
            bonds = self.bonds.block(number, report)
        if bonds is not None:
            blocks["bonds"] = bonds
        times, steps = frame_times([frame])
        if times is not None:
            report.converted("TITLE", "times" + (" and steps" if steps is not None else "") + " from t= and step=")
        system = Frame(blocks)
        system.meta.put("units", _UNITS | ({} if times is None else {"time": "ps"}), "json")
        if header.document:
            system.meta.put("pdb", header.document, "json")
        batch = FrameBatch(
            _FIRST if steps is None else np.array(steps, np.int64),
            None if times is None else np.array(times),
            {ATOMS: self._updates(number)},
            {},
            _box(cell),
        )
        return Record(system=system, trajectory=MemoryTrajectory.of_batch(batch, self.declaration))

    def _columns(self, identity: Identity, scan: Scan) -> dict[str, Column]:
        if not len(scan.ter):
            return identity.columns
        flags = np.zeros(scan.frames[0].stop, np.bool_)
        flags[scan.ter] = True
        return {**identity.columns, "ter": Column(flags)}

    def _updates(self, number: int) -> BlockUpdates:
        start, stop = self.lines.first.item(number), self.lines.first.item(number + 1)
        state, layout, own = self.state, self.layout, slice(start, stop)
        values = {"x": state.x[own], "y": state.y[own], "z": state.z[own]}
        masks = {}
        if layout.occupancy:
            values["occupancy"] = state.occupancy[own]
            if layout.occupancy_nullable:
                masks["occupancy"] = state.has_occupancy[own]
        if layout.b_factor:
            values["b_factor"] = state.b_factor[own]
            if layout.b_factor_nullable:
                masks["b_factor"] = state.has_b_factor[own]
        return BlockUpdates(_FIRST, np.array((0, stop - start), np.int64), values, masks)


def _box(cell: NDArray[np.float64] | None) -> BoxUpdates | None:
    return None if cell is None else BoxUpdates(_FIRST, cell[None], _ORIGIN, _PERIODIC)
