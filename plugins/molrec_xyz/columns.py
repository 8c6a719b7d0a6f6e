"""The columns of a file: what `Properties` says of them, and what the rows of a plain file show.

Source: github.com/libAtoms/extxyz, README, "Properties".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from molrec_convert.errors import FormatError
from molrec_convert.model.names import escape_name, name_fault, unescape_name
from molrec_convert.quantities.standard import looks_like
from molrec_convert.report import Report

__all__ = [
    "BLANK_WHERE_EMPTY",
    "EMPTY",
    "PLAIN",
    "POSITIONS",
    "SINGLE",
    "VECTORS",
    "FileColumn",
    "RowLayout",
    "apart",
    "file_name",
    "is_number",
    "parse_properties",
    "plain_layout",
    "record_name",
    "width_of",
    "words_for",
]

#: Three columns of a record ← the names a vector of three has in files, the usual one first.
POSITIONS = ("pos", "positions", "coords")
VECTORS: dict[tuple[str, str, str], str] = {
    ("x", "y", "z"): "pos",
    ("fx", "fy", "fz"): "forces",
    ("vx", "vy", "vz"): "velo",
}
#: Column of a record → (name in files, letter), the names read first.
SINGLE: dict[str, tuple[tuple[str, ...], str]] = {
    "mass": (("masses", "mass"), "R"),
    "charge": (("initial_charges",), "R"),
    "charges": (("charges", "charge"), "R"),
    "atomic_number": (("Z",), "I"),
    "type_id": (("type",), "I"),
    "free": (("move_mask",), "L"),
}
#: What stands for an empty text, as mmCIF has it; and the columns in which it is read as one.
EMPTY = "."
BLANK_WHERE_EMPTY = frozenset({"altloc", "chain", "icode", "segid"})
#: How a quantity is to be taken that keeps its own name.
_WORDS = {
    "energy": "an energy",
    "forces": "forces",
    "stress": "a stress, numbers in the order and with the sign of the file",
    "virial": "a virial, numbers in the order and with the sign of the file",
    "velocity": "in units the file does not state; momenta of ASE are in sqrt(u eV)",
    "charge": "charges",
    "moment": "a moment",
}


def words_for(name: str) -> str:
    """Return how a column or key is to be taken that looks like a quantity, "" for any other."""
    quantity = looks_like(name)
    return "" if quantity is None else f"{_WORDS[quantity]}, under its own name"


def record_name(name: str, taken: Collection[str] = ()) -> str:
    """Return the name of a column or key of a file in a record, where one of that name is not `taken`."""
    if name_fault(name) is not None or unescape_name(name) != name:
        return escape_name(name)
    return apart(name) if name in taken else name


def apart(name: str) -> str:
    """Return a name like no other, which the writer takes back: its first byte is escaped."""
    first = "".join(f"%{byte:02X}" for byte in name[0].encode())
    return first + escape_name("x" + name[1:])[1:]


def file_name(name: str) -> str:
    """Return the name a column or key of a record had in the file it is from."""
    return unescape_name(name)


_LETTERS = "RISL"
#: More fields than any row has.
_WIDEST = 2**16
_WIDTH = re.compile("[0-9]{1,9}")
#: A number as rows of plain files have it.
_NUMBER = re.compile(rb"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:(?:[eEdD]|\*\^)[-+]?[0-9]+)?")


@dataclass(frozen=True)
class FileColumn:
    """A column of the file: its name, the letter of its type (R I S L), how many fields of a row it has."""

    name: str
    letter: str
    width: int

    def __str__(self) -> str:
        return f"{self.name}:{self.letter}:{self.width}"


@dataclass(frozen=True)
class RowLayout:
    """The columns of a row. `surplus` fields behind them, or with `open` any number, are not read.

    `plain`: nothing names them, they are what the first row shows.
    """

    columns: tuple[FileColumn, ...]
    surplus: int = 0
    open: bool = False
    plain: bool = False

    @property
    def letters(self) -> str:
        """The type of every field that is read."""
        return "".join(column.letter * column.width for column in self.columns)

    def field_of(self, name: str) -> int:
        """Return the first field of a column."""
        at = 0
        for column in self.columns:
            if column.name == name:
                return at
            at += column.width
        raise KeyError(name)


PLAIN = (FileColumn("species", "S", 1), FileColumn("pos", "R", 3))


def parse_properties(text: str, path: Path, line: int, report: Report) -> RowLayout:
    """Return the columns a `Properties` value names.

    Where it goes wrong behind the positions, the columns before are read and the rest is reported as dropped;
    else it is a FormatError.
    """
    parts = text.split(":")
    place, expected = f"line {line}", "Properties of name:type:number with the types R, I, S, L"
    columns: list[FileColumn] = []
    there = 0
    for first in range(0, len(parts), 3):
        name, letter, width = [*parts[first : first + 3], "", ""][:3]
        fields = width_of(width)
        there += fields or 0
        if letter not in tuple(_LETTERS) or not fields or there > _WIDEST or not name:
            found = repr(":".join(parts[first : first + 3]))
            if not any(column.name in POSITIONS for column in columns):
                raise FormatError(path, place, found=found, expected=expected)
            report.dropped(f"columns from {found} on", f"{path}, {place}: {expected} are expected")
            return RowLayout(tuple(columns), open=True)
        if any(column.name == name for column in columns):
            raise FormatError(path, place, found=f"two columns {name!r}", expected="columns of different names")
        columns.append(FileColumn(name, letter, fields))
    return RowLayout(tuple(columns))


def width_of(text: str) -> int | None:
    """Return how many fields of a row a column has; None where a text is no such number."""
    return int(text) if _WIDTH.fullmatch(text) and int(text) <= _WIDEST else None


def is_number(field: bytes) -> bool:
    """True if a field of a plain file reads as a number."""
    return _NUMBER.fullmatch(field) is not None


def plain_layout(row: bytes, names: Sequence[str], *, four: bool) -> RowLayout:
    """Return the columns of a plain file, from one row: a label, three numbers, and further numbers unless `four`.

    `names` are those of the further columns as far as they are known, `column5` and so on beyond.
    """
    fields = row.split()
    numbers = 0
    for field in fields[4:]:
        if four or not _NUMBER.fullmatch(field):
            break
        numbers += 1
    more = [FileColumn(names[n] if n < len(names) else f"column{n + 5}", "R", 1) for n in range(numbers)]
    surplus = max(len(fields) - 4 - numbers, 0)
    return RowLayout((*PLAIN, *more), surplus, open=four or surplus > 0, plain=True)
