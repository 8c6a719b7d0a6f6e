"""What the atoms are: names, residues, chains, charges, elements (stated, or told from names)."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Column
from molrec_convert.model.frame import TextColumn
from molrec_convert.quantities.elements import NUMBERS
from molrec_convert.report import Report
from molrec_pdb.atoms import AtomRows
from molrec_pdb.lines import texts
from molrec_pdb.numbering import ResidueNumbers, Serials, read_residue_numbers, read_serials

__all__ = [
    "STANDARD_RESIDUES",
    "SYMBOLS",
    "Identity",
    "begins_left",
    "charge_of",
    "infer",
    "read_identity",
    "symbol_of",
]

#: Deuterium and tritium have symbols of their own in PDB files.
SYMBOLS = frozenset((*NUMBERS, "D", "T"))
_AMINO = (
    "ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL ASX GLX MSE SEC PYL ACE NME NMA "
    "NH2 FOR HID HIE HIP HSD HSE HSP CYX CYM ASH GLH LYN LYP ARN TYM"
)
_NUCLEIC = "A C G U I T N DA DC DG DT DU DI ADE CYT GUA THY URA DA5 DA3 DC5 DC3 DG5 DG3 DT5 DT3 RA RC RG RU"
_WATER = "HOH WAT H2O DOD TIP TIP3 TIP4 TP3 TP4 T3P T4P SOL SPC SPCE"
#: Residues of which every atom but selenium begins with its element's one letter.
STANDARD_RESIDUES = frozenset(f"{_AMINO} {_NUCLEIC} {_WATER}".split())
_LETTERS = frozenset("HCNOSPD")


def symbol_of(text: str) -> str | None:
    """Return the element symbol a text is, whatever its case; None where it is none."""
    symbol = text.strip().capitalize()
    return symbol if symbol in SYMBOLS else None


def begins_left(name: str, residue: str) -> bool:
    """True if a name of four columns shows that its file begins all names in column 13."""
    text = name.strip()
    return (
        residue in STANDARD_RESIDUES
        and len(text) < 4
        and name[:1] == text[:1]
        and text[:1] in _LETTERS
        and text[:2] != "SE"
    )


def infer(name: str, residue: str, *, left: bool) -> str | None:
    """Return the element of an atom by its name in four columns and its residue; None where that is not certain."""
    text = name.strip()
    letters = text.lstrip("0123456789")
    if not letters:
        return None
    if residue in STANDARD_RESIDUES:
        if residue == "MSE" and text.startswith("SE"):
            return "Se"
        return letters[0] if letters[0] in _LETTERS else None
    ion = text.rstrip("+-0123456789")
    if ion and ion.upper() == residue.rstrip("+-0123456789").upper() and symbol_of(ion):
        return symbol_of(ion)
    if len(letters) > 1 and letters[0].isupper() and letters[1].islower():
        return symbol_of(letters[:2])
    if left:
        return None
    if name[:1] in " 0123456789":
        follows = name[1:2]
        return follows if follows in SYMBOLS else None
    pair = text[:2]
    if len(text) < 4:
        return symbol_of(pair) if len(pair) == 2 and pair.isalpha() else None
    return None if symbol_of(pair) and pair.isalpha() else (text[0] if text[0] in SYMBOLS else None)


_STRING = np.dtypes.StringDType()
_BLANK = 0x2020202020202020
#: Different texts that are spread one by one.
_FEW = 4


@dataclass
class Identity:
    """The columns of the atoms of a frame, beside the numbers they are found by."""

    columns: dict[str, Column]
    serials: Serials
    residues: ResidueNumbers


def charge_of(text: str) -> int | None:
    """Return the formal charge in two columns, the sign behind or before the digit; ValueError where it is none."""
    field = text.strip()
    if not field:
        return None
    sign = -1 if "-" in field else 1
    digit = field.strip("+-") if len(field) - len(field.strip("+-")) <= 1 else ""
    if field in ("+", "-"):
        return sign
    if len(digit) == 1 and digit.isdigit() and digit.isascii():
        return sign * int(digit)
    raise ValueError(text)


def read_identity(atoms: AtomRows, report: Report, *, infer_elements: bool) -> Identity:
    """Return all columns that say what the atoms of a frame are."""
    rows = atoms.rows
    names, residue_names = atoms.word(13, 16), atoms.word(18, 21)
    serials = read_serials(atoms, report)
    residues = read_residue_numbers(atoms, names, residue_names, report)
    name_texts, name_codes = texts(names, 4)
    residue_texts, residue_codes = texts(residue_names, 4)
    columns: dict[str, Column] = {}
    columns["id"] = Column(serials.ids, serials.has_id)
    columns["name"] = _strings([_text(raw) for raw in name_texts], name_codes)
    columns["res_name"] = _strings([_text(raw) for raw in residue_texts], residue_codes)
    columns["res_id"] = Column(residues.res_id, residues.known)
    if bool((residues.raw != residues.res_id.astype(np.int64))[residues.known].any()):
        columns["res_seq"] = Column(np.where(residues.known, residues.raw, 0), residues.known)
    for key, letters in (("chain", rows[:, 21]), ("icode", residues.icode), ("altloc", rows[:, 16])):
        if bool((letters != 32).any()):
            columns[key] = _letters(letters)
    columns["hetatm"] = Column((rows[:, 0] | 0x20) == ord("h"))
    labelled = _labels(atoms, report)
    if not labelled:
        segments, codes = texts(atoms.word(73, 76), 4)
        if any(raw.strip() for raw in segments):
            columns["segid"] = _strings([_text(raw) for raw in segments], codes)
    columns |= _elements(
        atoms, [raw.decode("latin-1") for raw in name_texts], name_codes,
        [_text(raw) for raw in residue_texts], residue_codes, report, labelled=labelled, infer_elements=infer_elements,
    )  # fmt: skip
    if not labelled:
        columns |= _charges(atoms, report)
    if bool((atoms.word(67, 72) != np.uint64(_BLANK & 0xFFFFFFFFFFFF)).any()):
        report.dropped("columns 67-72 of atoms", "the format has nothing there")
    return Identity(columns, serials, residues)


def _text(raw: bytes) -> str:
    return raw.strip().decode("latin-1")


def _strings(different: list[str], codes: NDArray[np.integer[Any]]) -> Column:
    return TextColumn(functools.partial(_spread, different, codes), rows=len(codes))


def _spread(different: list[str], codes: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return each row's text; few different ones are spread by masks, many as fixed-width text: both faster than
    indexing.
    """
    if len(different) > _FEW:
        fixed: NDArray[Any] = np.array(different)[codes].astype(_STRING)
        return fixed
    result = np.empty(len(codes), _STRING)
    result[:] = different[0] if different else ""
    for code, text in enumerate(different[1:], 1):
        np.copyto(result, text, where=codes == code)
    return result


def _letters(letters: NDArray[np.uint8]) -> Column:
    there = np.flatnonzero(np.bincount(letters, minlength=256))
    codes = np.zeros(256, np.int64)
    codes[there] = np.arange(len(there))
    return _strings(["" if code == 32 else chr(code) for code in there.tolist()], codes[letters])


def _labels(atoms: AtomRows, report: Report) -> bool:
    """True if columns 73-80 hold the name and number of the line, as files before 1996 do."""
    if not len(atoms.rows):
        return False
    head, tail = atoms.word(73, 76), atoms.word(77, 80)
    if bool((head != head[0]).any()) or head[0] == np.uint64(_BLANK & 0xFFFFFFFF):
        return False
    numbers = [raw.decode("latin-1") for raw in texts(tail, 4)[0]]
    if len(numbers) < len(atoms.rows) or not all(text.strip().isdigit() and text[-1] != " " for text in numbers):
        return False
    report.dropped("columns 73-80", "they hold the file's name and the number of the line")
    return True


def _elements(
    atoms: AtomRows, names: list[str], name_codes: NDArray[np.intp], residues: list[str],
    residue_codes: NDArray[np.intp], report: Report, *, labelled: bool, infer_elements: bool,
) -> dict[str, Column]:  # fmt: skip
    """Return elements as columns 77-78 state them, else by the columns of the name; null where neither tells."""
    fields, codes = texts(atoms.word(77, 78), 2)
    stated = ["" if labelled else _text(raw) for raw in fields]
    combined = (codes * len(names) + name_codes) * len(residues) + residue_codes
    different, which = _different(combined)
    quotient = different // len(residues)
    keys = [
        (stated[field], names[name], residues[residue])
        for field, name, residue in zip(
            (quotient // len(names)).tolist(), (quotient % len(names)).tolist(), (different % len(residues)).tolist(),
            strict=True,
        )
    ]  # fmt: skip
    counts = np.bincount(which, minlength=len(keys)).tolist()
    left = any(begins_left(name, residue) for text, name, residue in keys if not text)
    found: list[str | None] = []
    told: Counter[str] = Counter()
    strange: set[str] = set()
    for (text, name, residue), count in zip(keys, counts, strict=True):
        symbol = symbol_of(text) if text else None
        if text:
            found.append(symbol)
            # X is the format's own word for what is not known
            strange |= {text} if symbol is None and text.upper() != "X" else set()
            continue
        found.append(infer(name, residue, left=left) if infer_elements else None)
        told["inferred" if found[-1] is not None else "unknown"] += count
    if told["inferred"]:
        report.derived("element", f"of {told['inferred']} atoms, by the columns of their names: 77-78 are blank")
    if told["unknown"]:
        why = " and their names leave it open" if infer_elements else ""
        report.warn(f"{told['unknown']} atoms have no element: columns 77-78 are blank{why}")
    if left and told["inferred"]:
        report.warn("names begin in column 13 whatever the element: only residues of the standard have elements")
    columns = {}
    if any(symbol is not None for symbol in found):
        columns["element"] = _strings([symbol or "" for symbol in found], which)
        known = np.array([symbol is not None for symbol in found])
        if not known.all():
            columns["element"].validity = known[which]
    if strange:
        report.warn(f"columns 77-78 hold what is no element, such as {min(strange)}: kept as element_text")
        columns["element_text"] = _strings([text if text in strange else "" for text, _, _ in keys], which)
    return columns


def _different(combined: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    different = np.unique(combined)
    return different, np.searchsorted(different, combined)


def _charges(atoms: AtomRows, report: Report) -> dict[str, Column]:
    """Return formal charges; null where columns 79-80 are blank or hold something else."""
    fields, codes = texts(atoms.word(79, 80), 2)
    values: list[int | None] = []
    strange: list[int] = []
    for number, raw in enumerate(fields):
        try:
            values.append(charge_of(raw.decode("latin-1")))
        except ValueError:
            values.append(None)
            strange.append(number)
    if strange:
        rows = int(np.isin(codes, strange).sum())
        report.dropped("columns 79-80", f"{rows} atoms: {_text(fields[strange[0]])!r} is no charge")
    if all(value is None for value in values):
        return {}
    numbers = np.array([value or 0 for value in values], np.int64)[codes]
    return {"formal_charge": Column(numbers, np.array([value is not None for value in values])[codes])}
