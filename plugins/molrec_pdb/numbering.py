"""Serial and residue numbers: decimal, hybrid-36, hexadecimal, wrapped, starred, run over into the next column.

A dialect is taken for what it is where the numbers before and behind leave no doubt; otherwise a serial is unknown and
a residue number an error. Residue numbers that a record cannot hold or that name two residues are given anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.report import Report
from molrec_pdb.atoms import AtomRows
from molrec_pdb.lines import integers

__all__ = [
    "ResidueNumbers",
    "Serials",
    "begins_early",
    "decode_hybrid36",
    "encode_hybrid36",
    "largest_hybrid36",
    "positive",
    "read_residue_numbers",
    "read_serials",
    "runs_of",
]

_UPPER = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER = _UPPER.lower()


def largest_hybrid36(width: int) -> int:
    """Return the largest number a field can hold."""
    return int(10**width + 2 * 26 * 36 ** (width - 1) - 1)


def encode_hybrid36(number: int, width: int) -> str:
    """Return the text of a number, right-justified; ValueError where the field cannot hold it."""
    if number < 10**width:
        if number <= -(10 ** (width - 1)):
            raise ValueError(f"{number} does not fit {width} columns")
        return f"{number:{width}d}"
    rest = number - 10**width
    for digits in (_UPPER, _LOWER):
        if rest < 26 * 36 ** (width - 1):
            rest += 10 * 36 ** (width - 1)
            text = ""
            while rest:
                rest, digit = divmod(rest, 36)
                text = digits[digit] + text
            return text
        rest -= 26 * 36 ** (width - 1)
    raise ValueError(f"{number} does not fit {width} columns, hybrid-36 ends at {largest_hybrid36(width)}")


def decode_hybrid36(text: str, width: int) -> int:
    """Return the number in a field, blanks around it left off; ValueError where it holds none."""
    field = text.strip()
    digits = _LOWER if field[:1].islower() else _UPPER
    if len(field) == width and field[:1].isalpha() and all(letter in digits for letter in field):
        shift = 10**width - 10 * 36 ** (width - 1)
        if digits is _LOWER:
            shift += 26 * 36 ** (width - 1)
        return int(field, 36) + int(shift)
    if not field.isascii() or not field.lstrip("+-").isdigit() or len(field) - len(field.lstrip("+-")) > 1:
        raise ValueError(f"{text!r} is no number")
    return int(field)


_HEX = re.compile(r"[0-9][0-9a-f]*[a-f][0-9a-f]*", re.IGNORECASE)
_STARS = re.compile(r"\**")

Int = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass
class Serials:
    """Serials as they stand in the file, where they are known, and the ids made of them: unwrapped, never negative."""

    raw: Int
    known: Mask
    ids: NDArray[np.uint64]
    has_id: Mask


@dataclass
class ResidueNumbers:
    """Numbers as the file means them (`raw`), where there are any, and as a record holds them (`res_id`)."""

    raw: Int
    known: Mask
    res_id: NDArray[np.uint64]
    icode: NDArray[np.uint8]


def runs_of(*keys: NDArray[np.generic]) -> NDArray[np.intp]:
    """Return where rows begin that differ from the row before in one of the keys, the first row included."""
    count = len(keys[0])
    if not count:
        return np.zeros(0, np.intp)
    change = np.zeros(count, np.bool_)
    change[0] = True
    for key in keys:
        change[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(change)


def begins_early(rows: NDArray[np.uint8]) -> Mask:
    """Return where a serial behind the word ATOM begins before column 7."""
    return (rows[:, 5] >= 48) & (rows[:, 5] <= 57)


def read_serials(atoms: AtomRows, report: Report) -> Serials:
    """Return the serials of the atoms of a frame."""
    count = len(atoms.rows)
    values, form = integers(atoms.rows, 6, 5)
    column12 = atoms.rows[:, 11]
    wide = (column12 >= 48) & (column12 <= 57)
    known = form.copy()
    if wide.any():
        known[wide] = False
        report.converted("serials", f"{int(wide.sum())} of six digits run over into column 12: read as such")
    early = begins_early(atoms.rows)
    if early.any():
        known[early] = False
        report.converted("serials", f"{int(early.sum())} that begin before column 7: read as such")
    other = np.flatnonzero(~known)
    hexes: set[int] = set()
    if len(other):
        fields = [atoms.text(row, 5 if early[row] else 7, 12 if wide[row] else 11) for row in other.tolist()]
        values, hexes = _unusual(atoms, fields, other, 5, values, known, "a serial", strict=False)
    if hexes:
        _hexadecimal(atoms, np.array([0, count]), hexes, (7, 11), values, known, 5)
        report.converted("serials", "hexadecimal from 100,000 on: read as such")
    ids = values.copy()
    wraps = np.zeros(count, np.int64)
    if count > 1:
        wraps[1:] = (values[:-1] == 99999) & known[:-1] & known[1:] & ((values[1:] == 0) | (values[1:] == 1))
    if wraps.any():
        first = np.where(wraps & (values == 0), 100000, 0) + np.where(wraps & (values == 1), 99999, 0)
        ids += np.cumsum(first)
        report.converted("serials", "they begin anew behind 99,999: counted on")
    has_id = known & (ids >= 0)
    unknown, negative = int((~known).sum()), int((known & ~has_id).sum())
    if unknown:
        report.warn(f"{unknown} atoms have no serial that can be read, such as *****: their id is null")
    if negative:
        report.dropped("negative serials", f"{negative} atoms: an id is not negative, theirs is null")
    return Serials(values, known, np.where(has_id, ids, 0).astype(np.uint64), has_id)


def _unusual(
    atoms: AtomRows, fields: list[str], rows: NDArray[np.intp], width: int, values: Int, known: Mask, what: str,
    *, strict: bool,
) -> tuple[Int, set[int]]:  # fmt: skip
    """Return numbers that are no right-justified decimals; also the rows that can only be hexadecimal."""
    hexes: set[int] = set()
    memory: dict[str, int | None] = {}
    for row, field in zip(rows.tolist(), fields, strict=True):
        text = field.strip()
        if text not in memory:
            memory[text] = None
            if _HEX.fullmatch(text):
                memory[text] = -(10**9)
            elif not _STARS.fullmatch(text):
                try:
                    memory[text] = decode_hybrid36(text, width)
                except ValueError:
                    if strict:
                        raise atoms.fault(row, repr(field), what) from None
        number = memory[text]
        if number == -(10**9):
            hexes.add(row)
        elif number is not None:
            values[row], known[row] = number, True
    return values, hexes


def _hexadecimal(
    atoms: AtomRows, bounds: NDArray[np.int64], hexes: set[int], columns: tuple[int, int], values: Int, known: Mask,
    width: int,
) -> list[int]:  # fmt: skip
    """Take numbers from the first beyond the decimals on as hexadecimal where they ascend; else rows of no number."""
    doubtful: list[int] = []
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        own = [row for row in hexes if low <= row < high]
        if not own:
            continue
        texts = [atoms.text(row, *columns).strip() for row in range(low, high)]
        limit = f"{10**width:x}"
        begins = next((place for place, text in enumerate(texts) if text.lower() == limit), min(own) - low)
        try:
            numbers = np.array([int(text, 16) for text in texts[begins:]], np.int64)
        except ValueError:
            numbers = np.array([1, 0])
        certain = bool((np.diff(numbers) >= 0).all()) and int(numbers[0]) >= 10**width
        if certain and begins and int(values[low + begins - 1]) != 10**width - 1:
            certain = bool(known[low + begins - 1]) and int(values[low + begins - 1]) < int(numbers[0])
        if certain:
            values[low + begins : high] = numbers
            known[low + begins : high] = True
        else:
            doubtful += own
    return doubtful


def read_residue_numbers(
    atoms: AtomRows, names: NDArray[np.uint64], residues: NDArray[np.uint64], report: Report
) -> ResidueNumbers:
    """Return the residue numbers of the atoms of a frame; `names`, `residues` are columns 13-16 and 18-21 as words."""
    rows = atoms.rows
    count = len(rows)
    values, known = integers(rows, 22, 4)
    chain, icode, altloc = rows[:, 21], rows[:, 26].copy(), rows[:, 16]
    other = np.flatnonzero(~known)
    if len(other):
        fields = [atoms.text(row, 23, 26) for row in other.tolist()]
        values, hexes = _unusual(
            atoms, fields, other, 4, values, known, "a residue number in columns 23-26", strict=True
        )
        if hexes:
            bounds = np.append(runs_of(chain), count).astype(np.int64)
            doubtful = _hexadecimal(atoms, bounds, hexes, (23, 26), values, known, 4)
            if doubtful:
                row = min(doubtful)
                raise atoms.fault(
                    row, repr(atoms.text(row, 23, 26)), "a residue number: hexadecimal ones begin at 2710"
                )
            report.converted("residue numbers", "hexadecimal from 10,000 on: read as such")
    digit = (icode >= 48) & (icode <= 57) & known & (rows[:, 22:26] != 32).all(axis=1)
    if digit.any():
        values[digit] = values[digit] * 10 + (icode[digit] - 48)
        icode[digit] = 32
        report.warn(f"residue numbers of five digits run over into column 27 in {int(digit.sum())} rows: read as such")
    res_id = _unwrapped(values, known, chain, icode, altloc, names, residues, report)
    res_id = positive(res_id, known, chain, report)
    if not known.all():
        report.warn(f"{int((~known).sum())} atoms have no residue number, blank or ****: theirs is null")
    return ResidueNumbers(values, known, np.where(known, res_id, 0).astype(np.uint64), icode)


def _unwrapped(
    values: Int, known: Mask, chain: NDArray[np.uint8], icode: NDArray[np.uint8], altloc: NDArray[np.uint8],
    names: NDArray[np.uint64], residues: NDArray[np.uint64], report: Report,
) -> Int:  # fmt: skip
    """Return numbers counted on where they begin anew behind 9999; two residues side by side of one number are told
    apart.
    """
    begins = runs_of(chain, values, icode, residues)
    before, behind = begins[1:] - 1, begins[1:]
    wrap = (values[before] == 9999) & ((values[behind] == 0) | (values[behind] == 1)) & (chain[before] == chain[behind])
    wrap &= known[before] & known[behind]
    if not wrap.any():
        return values
    stretches = runs_of(chain)
    stretch = np.searchsorted(stretches, np.arange(len(values)), side="right") - 1
    wrapped = np.zeros(len(stretches), np.bool_)
    wrapped[stretch[behind[wrap]]] = True
    shift = np.zeros(len(values), np.int64)
    shift[behind[wrap]] = np.where(values[behind[wrap]] == 0, 10000, 9999)
    # a name that stands in the same run again, without another location, begins another residue
    run = np.searchsorted(begins, np.arange(len(values)), side="right") - 1
    again = (names == names[begins[run]]) & (altloc == 32) & wrapped[stretch]
    again[begins] = False
    shift[again] += 1
    total = np.cumsum(shift)
    total -= np.where(stretches > 0, total[stretches - 1], 0)[stretch]
    report.converted("residue numbers", "they begin anew behind 9999: counted on, the file's own are res_seq")
    return values + np.where(wrapped[stretch], total, 0)


def positive(numbers: Int, known: Mask, chain: NDArray[Any], report: Report) -> Int:
    """Return negative numbers replaced by new ones behind the largest of their chain, in their order."""
    negative = known & (numbers < 0)
    if not negative.any():
        return numbers
    result = numbers.copy()
    for letter in np.unique(chain[negative]).tolist():
        own = (chain == letter) & known
        mine = own & negative
        largest = max(int(numbers[own].max()), 0)
        result[mine] = largest + 1 + np.searchsorted(np.unique(numbers[mine]), numbers[mine])
    report.converted(
        "negative residue numbers",
        f"{int(negative.sum())} atoms have numbers behind the largest of their chain; the file's own are res_seq",
    )
    return result
