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
from molrec_pdb.lines import Scan, line_number, numbers, padded_rows, word

__all__ = ["PLACEHOLDERS", "AtomRows", "Source", "State", "all_have_anisou", "read_anisou", "read_rows", "read_state"]

#: What stands in columns that want a number where none is known.
PLACEHOLDERS = {"occupancy": 1.0, "b_factor": 0.0}
_BLANK = 32
_ROWS = 2**16


@dataclass
class Source:
    """A file and what was found of it."""

    path: Path
    data: Any
    scan: Scan

    def fault(self, row: int, found: str, expected: str, hint: str | None = None) -> FormatError:
        """Return an error at the line of an atom."""
        line = line_number(self.data, int(self.scan.starts[row]))
        return FormatError(self.path, f"line {line}", found=found, expected=expected, hint=hint)


@dataclass
class AtomRows:
    """Some atoms as rows of characters; `first` is the number of the first of them."""

    source: Source
    rows: NDArray[np.uint8]
    first: int

    def text(self, row: int, start: int, stop: int) -> str:
        """Return columns `start` to `stop` (from 1, inclusive) of a row."""
        return bytes(self.rows[row, start - 1 : stop]).decode("latin-1")

    def fault(self, row: int, found: str, expected: str, hint: str | None = None) -> FormatError:
        """Return an error at a row."""
        return self.source.fault(self.first + row, found, expected, hint)

    def word(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Return columns `start` to `stop` as words."""
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
    """Return the atoms from `start` to `stop`."""
    scan = source.scan
    return AtomRows(source, padded_rows(source.data, scan.starts[start:stop], scan.ends[start:stop]), start)


#: Name, first column (from 1), width and decimals of the numbers of an atom.
_FIELDS = (("x", 31, 8, 3), ("y", 39, 8, 3), ("z", 47, 8, 3), ("occupancy", 55, 6, 2), ("B factor", 61, 6, 2))


def read_state(atoms: AtomRows) -> State:
    """Read the numbers of some atoms."""
    places = [(start - 1, start - 1 + width) for _, start, width, _ in _FIELDS]
    found = numbers(atoms.rows, "real", *places)
    for field, (values, flaws) in zip(_FIELDS, found, strict=True):
        _check(atoms, *field, flaws)
        values[flaws == 1] = 0.0
    column30 = atoms.rows[:, 29]
    wide = np.flatnonzero(((column30 >= 43) & (column30 <= 57)) & (column30 != 47))
    if len(wide):
        row = int(wide[0])
        raise atoms.fault(row, f"{atoms.text(row, 30, 38)!r} in columns 30-38", "x in the 8 columns 31-38")
    (x, _), (y, _), (z, _), (occupancy, no_occupancy), (b_factor, no_b_factor) = found
    return State(x, y, z, occupancy, no_occupancy == 0, b_factor, no_b_factor == 0)


def _check(atoms: AtomRows, name: str, start: int, width: int, decimals: int, flaws: NDArray[np.uint8]) -> None:
    """Refuse fields that hold no number, or one that goes on behind its columns and would be cut into another."""
    stop = start + width - 1
    expected = f"{name} in columns {start}-{stop}"
    wrong = flaws > int(width < 8)  # only coordinates have to be there
    last, after = atoms.rows[:, stop - 1], atoms.rows[:, stop]
    in_form = atoms.rows[:, stop - 1 - decimals] == ord(".")
    over = ~in_form & (last > _BLANK) & (((after >= 48) & (after <= 57)) | (after == ord(".")))
    for row in np.flatnonzero(wrong | over)[:1].tolist():
        field = atoms.text(row, start, stop)
        if flaws[row] == 1:
            raise atoms.fault(row, f"blanks in columns {start}-{stop}", expected)
        if over[row]:
            following = atoms.text(row, stop + 1, stop + 1)
            raise atoms.fault(
                row, f"{field!r} followed by {following!r}", f"{expected}, and no number that runs over their end"
            )
        raise atoms.fault(row, f"{field!r} in columns {start}-{stop}", f"a number, {name}")


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
    read = numbers(rows, "int", *[(28 + 7 * part, 35 + 7 * part) for part in range(6)])
    form = np.logical_and.reduce([flaws == 0 for _, flaws in read])
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
    """True if every atom has an ANISOU record that can be used."""
    total = len(source.scan.starts)
    if len(np.unique(source.scan.anisou_row)) < total:
        return False
    parts = range(0, total, _ROWS)
    return all(read_anisou(source, at, min(at + _ROWS, total), lambda _: None)[1].all() for at in parts)
