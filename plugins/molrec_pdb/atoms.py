"""Rows of atoms: every field by its columns, whole columns at a time.

Coordinates must be in their columns: a number that runs into the next field is an error, never another number.
Source: Contents Guide 3.3, "ATOM", "HETATM", "ANISOU".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_pdb.lines import Scan, decimals, integers, line_number, padded_rows, parse_float, word

__all__ = ["PLACEHOLDERS", "AtomRows", "Source", "State", "all_have_anisou", "read_anisou", "read_rows", "read_state"]

#: What stands in columns that want a number where none is known.
PLACEHOLDERS = {"occupancy": 1.0, "b_factor": 0.0}
_BLANK = 32
_ROWS = 2**16
_DIGITS = frozenset(b"0123456789.")


@dataclass
class Source:
    """A file and what was found of it."""

    path: Path
    data: Any
    scan: Scan

    def fault(self, row: int, found: str, expected: str, hint: str | None = None) -> FormatError:
        """An error at the line of an atom."""
        line = line_number(self.data, int(self.scan.starts[row]))
        return FormatError(self.path, f"line {line}", found=found, expected=expected, hint=hint)


@dataclass
class AtomRows:
    """Some atoms as rows of characters; `first` is the number of the first of them."""

    source: Source
    rows: NDArray[np.uint8]
    first: int

    def text(self, row: int, start: int, stop: int) -> str:
        """Columns `start` to `stop` (from 1, inclusive) of a row."""
        return bytes(self.rows[row, start - 1 : stop]).decode("latin-1")

    def fault(self, row: int, found: str, expected: str, hint: str | None = None) -> FormatError:
        """An error at a row."""
        return self.source.fault(self.first + row, found, expected, hint)

    def word(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Columns `start` to `stop` as words."""
        return word(self.rows, start - 1, stop - start + 1)


@dataclass
class State:
    """Positions f64[n], occupancy and B factor with masks of what is blank."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    z: NDArray[np.float64]
    occupancy: NDArray[np.float64]
    has_occupancy: NDArray[np.bool_]
    b_factor: NDArray[np.float64]
    has_b_factor: NDArray[np.bool_]

    def leave_out(self, names: Iterable[str], rows: slice) -> None:
        """Blank columns that a file says are placeholders, where all of some rows are."""
        for name in names:
            values, there = getattr(self, name)[rows], getattr(self, f"has_{name}")[rows]
            if bool(there.all()) and bool((values == PLACEHOLDERS[name]).all()):
                there[:] = False


def read_rows(source: Source, start: int, stop: int) -> AtomRows:
    """The atoms from `start` to `stop`."""
    scan = source.scan
    return AtomRows(source, padded_rows(source.data, scan.starts[start:stop], scan.ends[start:stop]), start)


def read_state(atoms: AtomRows) -> State:
    """The numbers of some atoms."""
    x, y, z = (_coordinate(atoms, name, start) for name, start in (("x", 31), ("y", 39), ("z", 47)))
    column30 = atoms.rows[:, 29]
    wide = np.flatnonzero(((column30 >= 43) & (column30 <= 57)) & (column30 != 47))
    if len(wide):
        row = int(wide[0])
        raise atoms.fault(row, f"{atoms.text(row, 30, 38)!r} in columns 30-38", "x in the 8 columns 31-38")
    occupancy, has_occupancy = _optional(atoms, "occupancy", 55)
    b_factor, has_b_factor = _optional(atoms, "B factor", 61)
    return State(x, y, z, occupancy, has_occupancy, b_factor, has_b_factor)


def _coordinate(atoms: AtomRows, name: str, start: int) -> NDArray[np.float64]:
    values, form, _ = decimals(atoms.rows, start - 1, 8, 3)
    if not form.all():
        _others(atoms, name, start, 8, np.flatnonzero(~form), values)
    return values


def _optional(atoms: AtomRows, name: str, start: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, form, blank = decimals(atoms.rows, start - 1, 6, 2)
    if not form.all():
        other = np.flatnonzero(~form & ~blank)
        if len(other):
            _others(atoms, name, start, 6, other, values)
        if blank.any():
            values[blank] = 0.0
    return values, ~blank


def _others(
    atoms: AtomRows, name: str, start: int, width: int, rows: NDArray[np.intp], values: NDArray[np.float64]
) -> None:
    """Numbers in another form than the format's: each different text once."""
    stop = start + width - 1
    fields = np.ascontiguousarray(atoms.rows[rows, start - 1 : stop + 1]).view(f"S{width + 1}").ravel()
    different, first, codes = np.unique(fields, return_index=True, return_inverse=True)
    found = np.empty(len(different))
    for number, (row, raw) in enumerate(zip(rows[first].tolist(), different.tolist(), strict=True)):
        text = raw.ljust(width + 1).decode("latin-1")
        field = text[:width]
        expected = f"{name} in columns {start}-{stop}"
        if not field.strip():
            raise atoms.fault(row, f"blanks in columns {start}-{stop}", expected)
        # what goes on behind its columns would be cut into another number
        if not field[-1].isspace() and ord(text[width]) in _DIGITS:
            raise atoms.fault(
                row, f"{field!r} followed by {text[width]!r}", f"{expected}, and no number that runs over their end"
            )
        try:
            found[number] = parse_float(field)
        except ValueError:
            raise atoms.fault(row, f"{field!r} in columns {start}-{stop}", f"a number, {name}") from None
    values[rows] = found[codes.ravel()]


def read_anisou(
    source: Source, first: int, stop: int, fault: Callable[[str], None]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """U11 U22 U33 U12 U13 U23 in square angstroms of the atoms from `first` to `stop`, f64[n,6], and which have them.

    `fault` is told what of a record cannot be used.
    """
    scan = source.scan
    low, high = np.searchsorted(scan.anisou_row, [first, stop])
    rows = padded_rows(source.data, scan.anisou[0][low:high], scan.anisou[1][low:high])
    owners = scan.anisou_row[low:high]
    atoms = padded_rows(source.data, scan.starts[owners], scan.ends[owners])
    # a record is of the atom before it: columns 7-27 are the same
    own = (rows[:, 6:27] == atoms[:, 6:27]).all(axis=1)
    values = np.zeros((stop - first, 6))
    there = np.zeros(stop - first, np.bool_)
    read = [integers(rows, 28 + 7 * part, 7) for part in range(6)]
    form = np.logical_and.reduce([ok for _, ok in read])
    if not own.all():
        fault(f"{int((~own).sum())} ANISOU records that follow another atom than their own")
    if not (form | ~own).all():
        fault(f"{int((~form & own).sum())} ANISOU records whose columns 29-70 are no integers")
    good = own & form
    places = owners[good] - first
    values[places] = np.stack([number[good] / 10000.0 for number, _ in read], axis=1).reshape(-1, 6)
    there[places] = True
    return values, there


def all_have_anisou(source: Source) -> bool:
    """Whether every atom has an ANISOU record that can be used."""
    total = len(source.scan.starts)
    if len(np.unique(source.scan.anisou_row)) < total:
        return False
    parts = range(0, total, _ROWS)
    return all(read_anisou(source, at, min(at + _ROWS, total), lambda _: None)[1].all() for at in parts)
