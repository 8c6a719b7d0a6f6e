"""Rows of coefficients into rows of a table: their words read by the style's pattern, or kept as `c1`, `c2`, …"""

from __future__ import annotations

from collections.abc import Sequence

from molrec_convert.errors import FormatError
from molrec_lammps.potential.files import FileFacts
from molrec_lammps.potential.potential import Coefficient
from molrec_lammps.potential.style_maps import StyleMap
from molrec_lammps.potential.style_patterns import Value, is_number
from molrec_lammps.potential.style_table import find_style

__all__ = ["RowReading"]


class RowReading:
    """Reads the rows of one style. `generic`: they were not what the table says and are kept without names."""

    def __init__(self, style: StyleMap, files: FileFacts, atom_types: int) -> None:
        self.style, self.files, self.atom_types = style, files, atom_types
        self.known = find_style(style.category, style.style, style.part)
        self.generic = False

    def values(self, row: Coefficient) -> dict[str, Value] | None:
        """Slot → value of a row, None when its words do not fit."""
        values = None if self.known is None else self.known.read(row.words, self.atom_types)
        return None if self.known is None or values is None else {**self.known.defaults, **values}

    def rows(self, coefficients: Sequence[Coefficient]) -> list[dict[str, float | str]]:
        """Column → value of each row. `FormatError` for a row that is not of a style whose form is certain."""
        found = [self.values(row) for row in coefficients]
        fitting = [values for values in found if values is not None]
        if len(fitting) < len(found):
            wrong = next(row for row, values in zip(coefficients, found, strict=True) if values is None)
            if self.known is not None and (self.style.registered is not None or self.known.coefficients.ragged):
                raise misfit(wrong, self.known.coefficients.text)
            self.generic = True
            return [{**row, **self.files.sums_of_words(row)} for row in _unnamed(coefficients)]
        return [{**self.style.row(values), **self._files(values)} for values in fitting]

    def _files(self, values: dict[str, Value]) -> dict[str, float | str]:
        """The sums of the files a row names."""
        found: dict[str, float | str] = {}
        for name, value in values.items() if self.known is not None and "file" in self.known.flags else ():
            slot = None if self.known is None else self.known.coefficients.slot(name)
            if slot is not None and slot.kind == "file" and isinstance(value, str):
                found.update(self.files.sums(name, value))
        return found


def misfit(row: Coefficient, expected: str) -> FormatError:
    """The error of a row whose words are not those of its style."""
    types = " ".join(map(str, row.types))
    found = f"{row.category} coefficients {' '.join((types, row.style, row.part, *row.words)).strip()!r}"
    return FormatError(row.where or "the force field", found=found, expected=expected)


def _unnamed(coefficients: Sequence[Coefficient]) -> list[dict[str, float | str]]:
    """Words as `c1`, `c2`, …: numbers where a place holds nothing else, texts otherwise."""
    width = max(len(row.words) for row in coefficients)
    numbers = [all(is_number(row.words[n]) for row in coefficients if n < len(row.words)) for n in range(width)]
    return [
        {f"c{n + 1}": float(word) if numbers[n] else word for n, word in enumerate(row.words)} for row in coefficients
    ]
