"""What the atoms of many small files are: the columns of all of them at once, and those of one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Column
from molrec_convert.report import Report
from molrec_pdb.atoms import AtomRows
from molrec_pdb.elements import begins_left, infer, symbol_of
from molrec_pdb.identity import Identity, _different, _letters, _spread, _text, charge_of
from molrec_pdb.joined_lines import set_rows_apart
from molrec_pdb.numbering import ResidueNumbers, Serials, begins_early
from molrec_pdb.numbers import integers, texts, word

__all__ = ["FileIdentities", "read_identities"]

#: The last numbers of their fields, behind which programs begin anew.
_LAST_SERIAL, _LAST_RESIDUE = 99999, 9999
_STRANGE = np.uint64(0x202020202020)
_BLANK4 = np.uint64(0x20202020)
Int = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass
class FileIdentities:
    """Columns of all atoms with their masks; which files have each (None: all); serials and residues of all atoms."""

    first: list[int]
    columns: dict[str, tuple[NDArray[Any], Mask | None, list[bool] | None]]
    serials: Serials
    residues: ResidueNumbers

    def of(self, number: int) -> Identity:
        """The columns of one file."""
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
    """What the atoms of all files are; `Apart` where numbers or fields are to be looked at file by file.

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
    """Serials that are plain decimals."""
    values, form = integers(rows, 6, 5)
    column12 = rows[:, 11]
    wide = (column12 >= 48) & (column12 <= 57) | begins_early(rows)
    set_rows_apart(wide | ~form | (values < 0) | (values >= _LAST_SERIAL), first)
    return Serials(values, form, values.astype(np.uint64), form)


def _residues(rows: NDArray[np.uint8], first: Int) -> ResidueNumbers:
    """Residue numbers that are plain decimals."""
    values, form = integers(rows, 22, 4)
    icode = rows[:, 26].copy()
    digit = (icode >= 48) & (icode <= 57)
    set_rows_apart(digit | ~form | (values < 0) | (values >= _LAST_RESIDUE), first)
    return ResidueNumbers(values, form, values.astype(np.uint64), icode)


def _elements(
    atoms: AtomRows, first: Int, names: tuple[list[bytes], NDArray[np.intp]],
    residues: tuple[list[bytes], NDArray[np.intp]], reports: Sequence[Report], *, infer_elements: bool,
) -> tuple[NDArray[Any], Mask]:  # fmt: skip
    """Elements of all atoms and which are known; `Apart` where columns 77-78 hold what is none."""
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
    """Formal charges of all atoms and which are stated; `Apart` where columns 79-80 hold something else."""
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
