"""The atoms of a frame as rows of 80 columns. Source: Contents Guide 3.3, "ATOM", "HETATM", "ANISOU", "TER"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Column
from molrec_convert.report import Report
from molrec_pdb.atoms import PLACEHOLDERS
from molrec_pdb.numbering import largest_hybrid36
from molrec_pdb.plugin import PdbTarget
from molrec_pdb.write_atoms import (
    RESIDUE_NUMBERS,
    Called,
    Coded,
    OutFrame,
    call_atoms,
    coded,
    combined,
    known_or,
    mask_of,
    placed_name,
)

__all__ = ["WRITTEN", "RowWriter", "Rows", "decimal_field", "integer_field", "text_field"]

Characters = NDArray[np.uint8]
_DIGITS = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8)


def _digits(numbers: NDArray[np.int64], width: int, least: int) -> tuple[Characters, NDArray[np.int64]]:
    """Return decimal digits of numbers that are not negative, right-justified, `least` at least; where the first
    stands.
    """
    field = np.full((len(numbers), width), 32, np.uint8)
    first = np.full(len(numbers), width, np.int64)
    rest = numbers.copy()
    for place in range(width - 1, -1, -1):
        there = (rest > 0) if width - place > least else np.ones(len(rest), np.bool_)
        field[:, place] = np.where(there, 48 + rest % 10, 32)
        first -= there
        rest //= 10
    return field, first


def integer_field(
    values: NDArray[Any], known: NDArray[np.bool_], width: int, *, hybrid: bool
) -> tuple[Characters, NDArray[np.bool_]]:
    """Return integers right-justified, stars where there is none; and which do not fit (with `hybrid`: not even so)."""
    numbers = values.astype(np.int64)
    largest = largest_hybrid36(width) if hybrid else 10**width - 1
    wide = known & ((numbers > largest) | (numbers <= -(10 ** (width - 1))))
    safe = np.where(wide | ~known, 0, numbers)
    field, first = _digits(np.abs(np.minimum(safe, 10**width - 1)), width, 1)
    negative = np.flatnonzero(safe < 0)
    field[negative, first[negative] - 1] = ord("-")
    beyond = np.flatnonzero(safe >= 10**width)
    if len(beyond):
        field[beyond] = _hybrid(safe[beyond], width)
    field[~known] = ord("*")
    return field, wide


def _hybrid(numbers: NDArray[np.int64], width: int) -> Characters:
    half = 26 * 36 ** (width - 1)
    rest = numbers - 10**width
    lower = rest >= half
    rest = np.where(lower, rest - half, rest) + 10 * 36 ** (width - 1)
    field = np.empty((len(numbers), width), np.uint8)
    for place in range(width - 1, -1, -1):
        field[:, place] = _DIGITS[rest % 36]
        rest //= 36
    return np.where(lower[:, None] & (field >= 65), field + 32, field)


def decimal_field(
    values: NDArray[np.float64], width: int, places: int
) -> tuple[Characters, NDArray[np.bool_], NDArray[np.float64]]:
    """Return numbers with fixed places; which do not fit (none that is not finite does); what a reader has of them."""
    scale = 10.0**places
    there = np.isfinite(values)
    scaled = np.minimum(np.abs(np.where(there, values, 0.0)), 2.0**60) * scale
    big = scaled >= 2.0**52
    whole = np.rint(np.where(big, 0.0, scaled))
    # a product this near to a half may have been rounded across it
    for row in np.flatnonzero(np.abs(np.abs(scaled - np.floor(scaled)) - 0.5) < 1e-6).tolist():
        if not big[row]:
            whole[row] = float(f"{abs(float(values[row])):.{places}f}".replace(".", ""))
    number = whole.astype(np.int64)
    lead = width - places - 1
    head, first = _digits(number // 10**places, lead, 1)
    tail, _ = _digits(number % 10**places, places, places)
    negative = np.signbit(values) & there
    wide = ~there | big | (number >= 10 ** (lead + places)) | (negative & (first < 1))
    field = np.full((len(values), width), 32, np.uint8)
    field[:, :lead], field[:, lead], field[:, lead + 1 :] = head, ord("."), tail
    signed = np.flatnonzero(negative & ~wide)
    field[signed, first[signed] - 1] = ord("-")
    read = number / scale
    return field, wide, np.where(negative, -read, read)


def text_field(different: Sequence[str], width: int, *, right: bool = False) -> tuple[Characters, NDArray[np.bool_]]:
    """Return texts in `width` columns; and which are wider, or no plain characters."""
    table = np.full((len(different), width), 32, np.uint8)
    wrong = np.zeros(len(different), np.bool_)
    for number, text in enumerate(different):
        wrong[number] = len(text) > width or not (text.isascii() and text.isprintable())
        if not wrong[number]:
            placed = text.rjust(width) if right else text.ljust(width)
            table[number] = np.frombuffer(placed.encode(), np.uint8)
    return table, wrong


#: Columns of atoms that have a place in a row.
_PLACES = (
    "id name altloc res_name chain res_id res_seq icode x y z occupancy b_factor segid element element_text "
    "formal_charge anisou hetatm ter"
)
WRITTEN = frozenset(_PLACES.split())
_WIDTH = 81
#: Columns of an atom's name.
_NAME = 4
_STARTS = {"occupancy": 54, "b_factor": 60}


@dataclass
class Rows:
    """All lines of the atoms of a frame, and the serials of the atoms, five characters each."""

    lines: NDArray[np.uint8]
    serials: NDArray[np.uint8]
    serial_numbers: NDArray[np.int64]
    known: NDArray[np.bool_]


class RowWriter:
    """Writes frames; what stays the same from frame to frame is made once."""

    def __init__(self, options: PdbTarget, report: Report) -> None:
        self._options, self._report = options, report
        self._cache: tuple[int, Rows, NDArray[np.uint8]] | None = None
        self._lost: dict[str, float] = {}

    def rows(self, frame: OutFrame, rotation: NDArray[np.float64] | None, *, fixed: bool) -> Rows:
        """Return the lines of one frame. `fixed`: what its atoms are comes from the system, as in the frames before."""
        key = frame.count
        if self._cache is None or not fixed or self._cache[0] != key:
            identity, rows = self._identity(frame)
            self._cache = (key, rows, identity)
        _, known, identity = self._cache
        lines = identity.copy()
        self._numbers(frame, lines, rotation)
        extra, order = self._beside(frame, lines, known, rotation)
        if extra is not None:
            lines = np.concatenate([lines, extra])[order]
        return Rows(lines, known.serials, known.serial_numbers, known.known)

    def report_losses(self) -> None:
        """Report the digits that three and two decimals do not hold."""
        for name, most in self._lost.items():
            self._report.dropped(f"atoms/{name}", f"digits behind the last column, {most:.2g} at most")
        self._lost.clear()

    def _identity(self, frame: OutFrame) -> tuple[NDArray[np.uint8], Rows]:
        count, columns = frame.count, frame.columns
        lines = np.full((count, _WIDTH), 32, np.uint8)
        lines[:, 80] = 10
        called = call_atoms(frame, _NAME, self._report)
        names, residues, symbols = self._texts(frame, called)
        lines[:, :6] = np.where(
            called.hetero[:, None], np.frombuffer(b"HETATM", np.uint8), np.frombuffer(b"ATOM  ", np.uint8)
        )
        rows = self._serials(frame)
        lines[:, 6:11] = rows.serials
        self._text(lines, 12, 4, "name", names)
        self._text(lines, 17, 4, "res_name", residues)
        for column, place in (("altloc", 16), ("chain", 21), ("icode", 26)):
            if column in columns:
                self._text(lines, place, 1, column, coded(columns[column]))
        lines[:, 22:26] = self._residue_numbers(frame, called)
        if "segid" in columns:
            self._text(lines, 72, 4, "segid", coded(columns["segid"]))
        self._text(lines, 76, 2, "element", symbols, right=True)
        if "formal_charge" in columns:
            self._text(lines, 78, 2, "formal_charge", self._charges(columns["formal_charge"]))
        return lines, rows

    def _texts(self, frame: OutFrame, called: Called) -> tuple[Coded, Coded, Coded]:
        """Return names as they stand in columns 13-16, residues in 18-21, symbols in 77-78."""
        names = combined(called.names, called.symbols, placed_name)
        symbols = called.symbols.mapped(str.upper)
        if "element_text" in frame.columns:
            symbols = combined(symbols, coded(frame.columns["element_text"]), lambda symbol, text: symbol or text)
        # so that no reader guesses what is not known
        symbols = symbols.mapped(lambda symbol: symbol or "X")
        return names, called.residues.mapped(lambda text: text.rjust(3) if text else ""), symbols

    def _serials(self, frame: OutFrame) -> Rows:
        count, report = frame.count, self._report
        column = frame.columns.get("id")
        numbers, known = np.arange(1, count + 1, dtype=np.int64), np.ones(count, np.bool_)
        if column is None:
            report.derived("id", "the record has no ids: atoms are numbered in their order")
        elif column.values.size and int(column.values.max()) >= 2**62:
            raise UnsupportedError(
                f"atoms/id: {int(column.values.max())} does not fit the 5 columns of a serial; --renumber"
            )
        elif self._options.renumber:
            if column.validity is not None or not np.array_equal(column.values.astype(np.int64), numbers):
                report.dropped("atoms/id", "atoms are numbered in their order, as asked for")
        else:
            numbers, known = self._all_known(column)
        field, wide = integer_field(numbers, known, 5, hybrid=self._options.hybrid_36)
        if wide.any():
            row = int(wide.argmax())
            hint = "--renumber" if self._options.hybrid_36 else "--hybrid-36, or --renumber"
            raise UnsupportedError(
                f"atoms/id: {numbers[row]} in row {row} does not fit the 5 columns of a serial; {hint}"
            )
        return Rows(field[:0], field, numbers, known)

    def _all_known(self, column: Column) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the ids, those that are unknown counted on behind the largest where such serials fit, and which are
        known.
        """
        numbers, known = column.values.astype(np.int64), mask_of(column)
        largest = largest_hybrid36(5) if self._options.hybrid_36 else 99999
        counted = int(numbers[known].max(initial=0)) + np.cumsum(~known)
        if known.all() or int(counted[-1]) > largest:
            return numbers, known
        self._report.derived("id", "of atoms that have none: counted on")
        return np.where(known, numbers, counted), np.ones(len(known), np.bool_)

    def _residue_numbers(self, frame: OutFrame, called: Called) -> NDArray[np.uint8]:
        numbers = called.numbers
        field, wide = integer_field(numbers, np.ones(frame.count, np.bool_), 4, hybrid=self._options.hybrid_36)
        if wide.any():
            row = int(wide.argmax())
            hint = "choose mmCIF (--to mmcif)" if self._options.hybrid_36 else "--hybrid-36 writes such numbers"
            name = next((key for key in RESIDUE_NUMBERS if key in frame.columns), "res_id")
            raise UnsupportedError(
                f"atoms/{name}: {numbers[row]} in row {row} does not fit the 4 columns of a residue number; {hint}"
            )
        return field

    def _charges(self, column: Column) -> Coded:
        values, known = column.values, mask_of(column)
        different = np.unique(values[known])
        if len(different) and max(abs(int(different[0])), abs(int(different[-1]))) > 9:
            raise UnsupportedError(f"atoms/formal_charge: {different[-1]} does not fit the 2 columns of a charge")
        texts = [f"{abs(value)}{'-' if value < 0 else '+'}" for value in different.tolist()]
        return Coded([*texts, ""], np.where(known, np.searchsorted(different, values), len(texts)).astype(np.intp))

    def _text(
        self, lines: NDArray[np.uint8], start: int, width: int, name: str, texts: Coded, *, right: bool = False
    ) -> None:
        field, wrong = text_field(texts.different, width, right=right)
        if wrong.any():
            row = int(wrong[texts.codes].argmax()) if len(texts.codes) else -1
            if row >= 0 and wrong[texts.codes[row]]:
                found = texts.different[texts.codes[row]].strip()
                raise UnsupportedError(
                    f"atoms/{name}: {found!r} in row {row} does not fit columns {start + 1}-{start + width}; "
                    "mmCIF has room for it (--to mmcif)"
                )
        lines[:, start : start + width] = field[texts.codes]

    def _numbers(self, frame: OutFrame, lines: NDArray[np.uint8], rotation: NDArray[np.float64] | None) -> None:
        columns = frame.columns
        missing = [axis for axis in "xyz" if axis not in columns]
        if missing:
            raise UnsupportedError(
                f"atoms/{missing[0]}: the atoms have no positions, and rows of the format are made of them"
            )
        xyz = [columns[axis].values for axis in "xyz"]
        if rotation is not None:
            xyz = list(rotation @ np.stack(xyz))
        for axis, values, start in zip("xyz", xyz, (30, 38, 46), strict=True):
            mask = mask_of(columns[axis])
            bad = ~mask | ~np.isfinite(values)
            if bad.any():
                row = int(bad.argmax())
                raise UnsupportedError(
                    f"atoms/{axis}: row {row} has no position ({values[row]}), and the format needs one"
                )
            self._decimal(lines, axis, values, start, 8, 3)
        for name, start in _STARTS.items():
            # readers want a number
            values = known_or(columns.get(name), PLACEHOLDERS[name], frame.count, name, self._report)
            self._decimal(lines, name, values, start, 6, 2)

    def _decimal(
        self, lines: NDArray[np.uint8], name: str, values: NDArray[np.float64], start: int, width: int, places: int
    ) -> None:
        field, wide, read = decimal_field(values, width, places)
        if wide.any():
            row = int(wide.argmax())
            raise UnsupportedError(
                f"atoms/{name}: {values[row]:.{places}f} in row {row} does not fit the {width} columns "
                f"{start + 1}-{start + width}"
            )
        lines[:, start : start + width] = field
        differ = read != values
        if differ.any():
            most = float(np.abs(read - values)[differ].max())
            self._lost[name] = max(self._lost.get(name, 0.0), most)

    def _beside(
        self, frame: OutFrame, lines: NDArray[np.uint8], rows: Rows, rotation: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.uint8] | None, NDArray[np.intp]]:
        """ANISOU and TER records, and the order of all lines."""
        parts, places = [], []
        if "anisou" in frame.columns and frame.columns["anisou"].trailing == (6,):
            made = self._anisou(frame.columns["anisou"], lines, rotation)
            if made is not None:
                parts.append(made[0])
                places.append(4 * made[1] + 1)
        ends = self._ends(frame, lines)
        if len(ends):
            parts.append(self._ter(ends, lines, rows))
            places.append(4 * ends + 2)
        if not parts:
            return None, np.zeros(0, np.intp)
        order = np.argsort(np.concatenate([4 * np.arange(frame.count), *places]), kind="stable")
        return np.concatenate(parts), order

    def _anisou(
        self, column: Column, lines: NDArray[np.uint8], rotation: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.uint8], NDArray[np.intp]] | None:
        if rotation is not None:
            self._report.dropped("atoms/anisou", "the atoms are turned, and these would have to be, too")
            return None
        rows = np.flatnonzero(mask_of(column))
        values = column.values[rows]
        numbers = np.rint(values * 1e4)
        if not np.isfinite(values).all() or (len(numbers) and float(np.abs(numbers).max()) > 999999):
            raise UnsupportedError("atoms/anisou: a value does not fit the 7 columns of ANISOU")
        made = lines[rows]
        made[:, :6] = np.frombuffer(b"ANISOU", np.uint8)
        for part in range(6):
            field, _ = integer_field(numbers[:, part], np.ones(len(rows), np.bool_), 7, hybrid=False)
            made[:, 28 + 7 * part : 35 + 7 * part] = field
        made[:, 27] = 32
        made[:, 70:72] = 32
        differ = np.abs(numbers / 10000.0 - values)
        if len(differ) and float(differ.max()) > 0:
            self._lost["anisou"] = max(self._lost.get("anisou", 0.0), float(differ.max()))
        return made, rows

    def _ends(self, frame: OutFrame, lines: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Return the atoms a TER stands behind: as the record says, else the last of each chain of standard
        residues.
        """
        columns = frame.columns
        if "ter" in columns:
            return np.flatnonzero(columns["ter"].values)
        if "hetatm" in columns or "chain" not in columns or not frame.count:
            return np.zeros(0, np.intp)
        polymer = lines[:, 0] == ord("A")
        chain = lines[:, 21]
        ends = polymer.copy()
        ends[:-1] &= (chain[1:] != chain[:-1]) | ~polymer[1:]
        if ends.any():
            self._report.derived("TER", "behind the last atom of each chain of standard residues")
        return np.flatnonzero(ends)

    def _ter(self, ends: NDArray[np.intp], lines: NDArray[np.uint8], rows: Rows) -> NDArray[np.uint8]:
        """TER records: with a number of their own where the serials leave one free, else the bare word."""
        made = np.full((len(ends), _WIDTH), 32, np.uint8)
        made[:, 80] = 10
        made[:, :6] = np.frombuffer(b"TER   ", np.uint8)
        after = rows.serial_numbers[ends] + 1
        following = np.minimum(ends + 1, len(lines) - 1)
        free = rows.known[ends] & ((ends + 1 == len(lines)) | (rows.serial_numbers[following] != after))
        field, wide = integer_field(after, free, 5, hybrid=self._options.hybrid_36)
        numbered = np.flatnonzero(free & ~wide)
        made[numbered, 6:11] = field[numbered]
        made[numbered, 17:27] = lines[ends[numbered], 17:27]
        return made
