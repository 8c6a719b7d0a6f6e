"""Many small PDB files read in one go: the rows of all of them are read together, a record is made of each.

Only files of one frame whose rows are in the format's own columns, with decimal numbers that need no telling; whatever
takes more is read by itself. `read_joined` gives the same records and says the same of each file as `read_pdb`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.formats import NotBatchable, ReadContext
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
from molrec_convert.model.collection.collection import Collection, JoinedCollection
from molrec_convert.report import Report
from molrec_convert.text.compression import compression_of
from molrec_pdb.atoms import AtomRows, Source, State, read_state
from molrec_pdb.bonds import bond_block
from molrec_pdb.header import frame_times, read_cell, read_header
from molrec_pdb.identity import Identity, _different, _letters, _spread, _text, begins_left, charge_of, infer, symbol_of
from molrec_pdb.lines import (
    _PLENTY,
    _SIGMAS,
    Scan,
    _codes,
    _starts_and_ends,
    _Walk,
    atom_lines,
    integers,
    padded_rows,
    rows_beyond,
    text_of,
    texts,
    word,
)
from molrec_pdb.numbering import ResidueNumbers, Serials, begins_early
from molrec_pdb.plugin import PdbOptions
from molrec_pdb.trajectory import ATOMS, Layout

__all__ = [
    "FileBonds",
    "FileIdentities",
    "FileLines",
    "read_bonds",
    "read_identities",
    "read_joined",
    "scan_files",
    "set_apart",
    "set_rows_apart",
]

Int = NDArray[np.int64]
_NOTHING = np.zeros(0, np.int64)


@dataclass
class FileLines:
    """All lines as those of one file; the atoms before each file, and their number; of each file its own lines.

    Of `scans` the rows count from the first atom of the file, and only `frames`, `ter`, `trailing` are filled in.
    `conect_file` is the file each CONECT record of `scan` is in.
    """

    scan: Scan
    first: Int
    scans: list[Scan]
    conect_file: Int


def set_apart(odd: NDArray[np.bool_]) -> None:
    """Refuse files that take more than reading them with others."""
    if odd.any():
        raise NotBatchable(np.flatnonzero(odd).tolist())


def set_rows_apart(odd: NDArray[np.bool_], first: Int) -> None:
    """Refuse the files of rows; `first` is the first row of each file, and the end."""
    if odd.any():
        set_apart(np.logical_or.reduceat(odd, first[:-1]))


def scan_files(paths: Sequence[Path], data: bytes, sizes: Sequence[int]) -> FileLines:
    """Find the atoms of every file; raise `NotBatchable` if some have not one frame, or rare features."""
    starts, ends = _starts_and_ends(data)
    codes = _codes(data, starts, ends)
    begins = np.searchsorted(starts, np.cumsum([0, *sizes]))
    is_atom = atom_lines(codes)
    is_conect = codes == np.uint64(_PLENTY["CONECT"])
    rare = np.array([_PLENTY["ANISOU"], *_SIGMAS.values()], np.uint64)
    set_rows_apart(np.isin(codes, rare), begins)
    atoms, conect = np.flatnonzero(is_atom), np.flatnonzero(is_conect)
    first = np.searchsorted(atoms, begins)
    set_apart(first[1:] == first[:-1])
    rest = np.flatnonzero(~is_atom & ~is_conect)
    spans = list(zip(rest.tolist(), starts[rest].tolist(), ends[rest].tolist(), np.searchsorted(atoms, rest).tolist(),
                     strict=True))  # fmt: skip
    bounds = np.searchsorted(rest, begins).tolist()
    lines, before = begins.tolist(), first.tolist()
    scans = []
    odd = np.zeros(len(paths), np.bool_)
    for number, path in enumerate(paths):
        walk = _Walk(path, data)
        line_before, atoms_before = lines[number], before[number]
        for line, start, end, rank in spans[bounds[number] : bounds[number + 1]]:
            walk.take(line - line_before, text_of(data, start, end).rstrip("\r\n \0"), rank - atoms_before)
        walk.finish(before[number + 1] - atoms_before)
        odd[number] = len(walk.frames) != 1 or walk.has_models
        ter = np.unique(np.array(walk.ter, np.int64)) if walk.ter else _NOTHING
        scans.append(_scan(walk, ter))
    set_apart(odd)
    whole = Scan(
        starts[atoms], ends[atoms], [], (_NOTHING, _NOTHING), _NOTHING, (starts[conect], ends[conect]), _NOTHING,
        _NOTHING, [], 0, False, False,
    )  # fmt: skip
    return FileLines(whole, first, scans, np.searchsorted(begins, conect, side="right") - 1)


def _scan(walk: _Walk, ter: Int) -> Scan:
    none = (_NOTHING, _NOTHING)
    return Scan(
        _NOTHING, _NOTHING, walk.frames, none, _NOTHING, none, _NOTHING, ter, walk.trailing, 0, False, False,
        frozenset(walk.placeholders),
    )  # fmt: skip


_BLANK = np.uint64(0x2020202020)
_TEXT = np.dtypes.StringDType()


@dataclass
class FileBonds:
    """Bonds of all files as rows of their file [n,2], how often each is stated at most, and where each file's begin."""

    pairs: Int
    most: Int
    bounds: list[int]
    columns: dict[str, NDArray[Any]]

    def of(self, number: int) -> tuple[Int, Int]:
        """Return those of one file, as `conect_pairs` has them."""
        own = slice(self.bounds[number], self.bounds[number + 1])
        return self.pairs[own], self.most[own]

    def block(self, number: int, report: Report) -> Block | None:
        """Return the block `bonds` of a file whose bonds CONECT states alone, as `bond_block` has it."""
        own = slice(self.bounds[number], self.bounds[number + 1])
        if own.start == own.stop:
            return None
        columns = {name: Column(values[own]) for name, values in self.columns.items() if name != "bond_type"}
        highest = int(self.most[own].max())
        if highest > 1:
            columns["bond_type"] = Column(self.columns["bond_type"][own])
            report.converted("CONECT", "partners that stand several times have double and triple bonds")
            if highest > 3:
                report.dropped("CONECT", "partners that stand more than three times: the order of the bond is unknown")
        return Block(columns)


def read_bonds(data: Any, lines: FileLines, serials: Int) -> FileBonds:
    """Return the bonds of all files; raise `NotBatchable` if a record holds other than serials of atoms of its file.

    `serials` are those of all atoms.
    """
    starts, ends = lines.scan.conect
    rows = padded_rows(data, starts, ends)
    fields = np.zeros((len(rows), 5), np.int64)
    there = np.zeros((len(rows), 5), np.bool_)
    odd = (rows[:, 31:61] != 32).any(axis=1)
    for place in range(5):
        column = 6 + 5 * place
        fields[:, place], there[:, place] = integers(rows, column, 5)
        odd |= ~there[:, place] & (word(rows, column, 5) != _BLANK)
    odd |= (fields < 0).any(axis=1)
    own_files = lines.conect_file
    set_apart(_of_files(own_files[odd], lines))
    # a serial with the number of its file is a key of its own
    files = np.repeat(np.arange(len(lines.first) - 1, dtype=np.int64), np.diff(lines.first))
    keys = files * 10**6 + serials
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]
    stated = there[:, 1:] & there[:, :1]
    file_of = np.broadcast_to(own_files[:, None], stated.shape)[stated]
    shift = file_of * 10**6
    ends_ = []
    for wanted in (np.broadcast_to(fields[:, :1], stated.shape)[stated], fields[:, 1:][stated]):
        low = np.searchsorted(ascending, wanted + shift, "left")
        found = np.searchsorted(ascending, wanted + shift, "right") - low
        set_apart(_of_files(file_of[found != 1], lines))
        ends_.append(order[low])
    one, other = ends_
    set_apart(_of_files(file_of[one == other], lines))
    count = np.int64(max(len(serials), 1))
    directed, counts = np.unique(one * count + other, return_counts=True)
    low, high = np.minimum(directed // count, directed % count), np.maximum(directed // count, directed % count)
    pairs, codes = np.unique(low * count + high, return_inverse=True)
    most = np.zeros(len(pairs), np.int64)
    np.maximum.at(most, codes, counts)
    ends_ = [pairs // count, pairs % count]
    shift = lines.first[files[ends_[0]]] if len(pairs) else np.zeros(0, np.int64)
    bounds = np.searchsorted(ends_[0], lines.first).tolist()
    own = np.stack([ends_[0] - shift, ends_[1] - shift], axis=1)
    columns: dict[str, NDArray[Any]] = {
        "atomi": own[:, 0].astype(np.uint64),
        "atomj": own[:, 1].astype(np.uint64),
        "kind": np.full(len(own), "conect", _TEXT),
        "bond_type": np.where(most <= 3, most, 0).astype(np.uint64),
    }
    return FileBonds(own, most, bounds, columns)


def _of_files(numbers: Int, lines: FileLines) -> NDArray[np.bool_]:
    """Return which files are among some numbers."""
    found = np.zeros(len(lines.first) - 1, np.bool_)
    found[numbers] = True
    return found


#: The last numbers of their fields, behind which programs begin anew.
_LAST_SERIAL, _LAST_RESIDUE = 99999, 9999
_STRANGE = np.uint64(0x202020202020)
_BLANK4 = np.uint64(0x20202020)
Mask = NDArray[np.bool_]


@dataclass
class FileIdentities:
    """Columns of all atoms with their masks; which files have each (None: all); serials and residues of all atoms."""

    first: list[int]
    columns: dict[str, tuple[NDArray[Any], Mask | None, list[bool] | None]]
    serials: Serials
    residues: ResidueNumbers

    def of(self, number: int) -> Identity:
        """Return the columns of one file."""
        own = slice(self.first[number], self.first[number + 1])
        columns = {
            name: Column(values[own], None if mask is None else mask[own])
            for name, (values, mask, files) in self.columns.items()
            if files is None or files[number]
        }
        serials, residues = self.serials, self.residues
        return Identity(
            columns,
            Serials(serials.raw[own], serials.known[own], serials.ids[own], serials.has_id[own]),
            ResidueNumbers(residues.raw[own], residues.known[own], residues.res_id[own], residues.icode[own]),
        )


def read_identities(atoms: AtomRows, first: Int, reports: Sequence[Report], *, infer_elements: bool) -> FileIdentities:
    """Return what the atoms of all files are; `NotBatchable` where numbers or fields are to be looked at file by file.

    What each file would say by itself goes to its report. `first` is the first row of each file, and the end.
    """
    rows = atoms.rows
    serials, residues = _serials(rows, first), _residues(rows, first)
    set_rows_apart(word(rows, 66, 6) != _STRANGE, first)
    begins = first[:-1]

    def files(there: Mask) -> list[bool]:
        some: list[bool] = np.logical_or.reduceat(there, begins).tolist()
        return some

    columns: dict[str, tuple[NDArray[Any], Mask | None, list[bool] | None]] = {}
    names, residue_names = texts(atoms.word(13, 16), 4), texts(atoms.word(18, 21), 4)
    columns["id"] = serials.ids, None, None
    columns["name"] = _spread(list(map(_text, names[0])), names[1]), None, None
    columns["res_name"] = _spread(list(map(_text, residue_names[0])), residue_names[1]), None, None
    columns["res_id"] = residues.res_id, None, None
    for key, letters in (("chain", rows[:, 21]), ("icode", residues.icode), ("altloc", rows[:, 16])):
        if (letters != 32).any():
            columns[key] = _letters(letters).values, None, files(letters != 32)
    columns["hetatm"] = (rows[:, 0] | 0x20) == ord("h"), None, None
    segments = atoms.word(73, 76)
    if (segments != _BLANK4).any():
        # it may be the name of the file, with the numbers of lines behind it
        set_rows_apart((rows[:, 79] >= 48) & (rows[:, 79] <= 57) & (segments != _BLANK4), first)
        different, codes = texts(segments, 4)
        columns["segid"] = _spread(list(map(_text, different)), codes), None, files(segments != _BLANK4)
    elements = _elements(atoms, first, names, residue_names, reports, infer_elements=infer_elements)
    charges = _charges(atoms, first)
    if elements[1].any():
        columns["element"] = *elements, files(elements[1])
    if charges[1].any():
        columns["formal_charge"] = *charges, files(charges[1])
    return FileIdentities(first.tolist(), columns, serials, residues)


def _serials(rows: NDArray[np.uint8], first: Int) -> Serials:
    """Return serials that are plain decimals."""
    values, form = integers(rows, 6, 5)
    column12 = rows[:, 11]
    wide = (column12 >= 48) & (column12 <= 57) | begins_early(rows)
    set_rows_apart(wide | ~form | (values < 0) | (values >= _LAST_SERIAL), first)
    return Serials(values, form, values.astype(np.uint64), form)


def _residues(rows: NDArray[np.uint8], first: Int) -> ResidueNumbers:
    """Return residue numbers that are plain decimals."""
    values, form = integers(rows, 22, 4)
    icode = rows[:, 26].copy()
    digit = (icode >= 48) & (icode <= 57)
    set_rows_apart(digit | ~form | (values < 0) | (values >= _LAST_RESIDUE), first)
    return ResidueNumbers(values, form, values.astype(np.uint64), icode)


def _elements(
    atoms: AtomRows, first: Int, names: tuple[list[bytes], NDArray[np.intp]],
    residues: tuple[list[bytes], NDArray[np.intp]], reports: Sequence[Report], *, infer_elements: bool,
) -> tuple[NDArray[Any], Mask]:  # fmt: skip
    """Return elements of all atoms and which are known; `NotBatchable` where columns 77-78 hold what is none."""
    fields, codes = texts(atoms.word(77, 78), 2)
    stated, name_texts = list(map(_text, fields)), [raw.decode("latin-1") for raw in names[0]]
    residue_texts = list(map(_text, residues[0]))
    different, which = _different((codes * len(name_texts) + names[1]) * len(residue_texts) + residues[1])
    quotient = different // len(residue_texts)
    keys = [
        (stated[field], name_texts[name], residue_texts[residue])
        for field, name, residue in zip(
            (quotient // len(name_texts)).tolist(), (quotient % len(name_texts)).tolist(),
            (different % len(residue_texts)).tolist(), strict=True,
        )
    ]  # fmt: skip
    #: Of each key the symbol, and the one in a file whose names all begin in column 13.
    symbols: list[tuple[str | None, str | None]] = []
    strange = np.zeros(len(keys), np.bool_)
    for number, (text, name, residue) in enumerate(keys):
        if text:
            symbol = symbol_of(text)
            strange[number] = symbol is None and text.upper() != "X"
            symbols.append((symbol, symbol))
        elif infer_elements:
            symbols.append((infer(name, residue, left=False), infer(name, residue, left=True)))
        else:
            symbols.append((None, None))
    set_rows_apart(strange[which], first)
    begins, sizes = first[:-1], np.diff(first)
    blank = np.array([not text for text, _, _ in keys])
    is_left = np.array([not text and begins_left(name, residue) for text, name, residue in keys])
    left = np.logical_or.reduceat(is_left[which], begins)
    known = sorted({symbol for pair in symbols for symbol in pair if symbol is not None})
    numbers = {symbol: number for number, symbol in enumerate(known, 1)}
    table = np.array([[numbers.get(symbol or "", 0) for symbol in pair] for pair in symbols], np.int64)
    found = table[which, np.repeat(left, sizes).astype(np.int64)]
    if blank.any():
        _tell(blank[which], found > 0, left, begins, reports, infer_elements=infer_elements)
    return _spread(["", *known], found), found > 0


def _tell(blank: Mask, has: Mask, left: Mask, begins: Int, reports: Sequence[Report], *, infer_elements: bool) -> None:
    """Say of each file what elements were taken from names."""
    inferred = np.add.reduceat(blank & has, begins, dtype=np.int64).tolist()
    unknown = np.add.reduceat(blank & ~has, begins, dtype=np.int64).tolist()
    why = " and their names leave it open" if infer_elements else ""
    for report, some, none, is_left in zip(reports, inferred, unknown, left.tolist(), strict=True):
        if some:
            report.derived("element", f"of {some} atoms, by the columns of their names: 77-78 are blank")
        if none:
            report.warn(f"{none} atoms have no element: columns 77-78 are blank{why}")
        if is_left and some:
            report.warn("names begin in column 13 whatever the element: only residues of the standard have elements")


def _charges(atoms: AtomRows, first: Int) -> tuple[NDArray[np.int64], Mask]:
    """Return formal charges of all atoms and which are stated; `NotBatchable` where columns 79-80 hold something
    else.
    """
    fields, codes = texts(atoms.word(79, 80), 2)
    strange = np.zeros(len(fields), np.bool_)
    values: list[int | None] = []
    for number, raw in enumerate(fields):
        try:
            values.append(charge_of(raw.decode("latin-1")))
        except ValueError:
            values.append(None)
            strange[number] = True
    set_rows_apart(strange[codes], first)
    numbers = np.array([value or 0 for value in values], np.int64)[codes]
    return numbers, np.array([value is not None for value in values])[codes]


#: Texts are in memory together.
_MOST_BYTES = 2**25
_UNITS = {"length": "angstrom"}
_FIRST = np.zeros(1, np.int64)
_FIRST.setflags(write=False)
_ORIGIN, _PERIODIC = np.zeros((1, 3)), np.ones((1, 3), np.bool_)


def read_joined(paths: Sequence[Path], context: ReadContext) -> tuple[Collection, list[int]] | None:
    """Return the records of all files, one of each; None where they are to be read one by one.

    Raises `NotBatchable` for those that are, and `FormatError` for one that is at fault.
    """
    if context.arrangement != "collection":
        return None
    texts = [_read_bytes(path) for path in paths]
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


def _read_bytes(path: Path) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _is_plain(text: bytes) -> bool:
    """True if a text is in lines that all end, and in the letters everybody has."""
    return text[-1:] == b"\n" and text.isascii() and b"\r" not in text and compression_of(text) is None


def _layout(state: State, first: NDArray[np.int64]) -> Layout:
    """Return the columns of state that most files have; `NotBatchable` names the others."""
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
        """Return the record of one file."""
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
