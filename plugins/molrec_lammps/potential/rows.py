"""Coefficients, settings and files of a style as values: read by its pattern, or kept as `c1`, `c2`, …"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.model import Block
from molrec_convert.model.frame import Column
from molrec_convert.quantities.units import PRESETS, same_unit
from molrec_convert.report import Report
from molrec_lammps.potential.potential import Coefficient
from molrec_lammps.potential.style_maps import StyleMap
from molrec_lammps.potential.style_table import Value, find_style, is_number, number_words

__all__ = [
    "CMAP_SIZE",
    "COULOMB",
    "FileFacts",
    "PairSettings",
    "RowReading",
    "SpecialBonds",
    "cmap_text",
    "pair_settings",
    "read_cmap",
    "special_bonds",
    "special_words",
    "units_style",
]

#: Rows and columns of a map.
CMAP_SIZE = 24


class FileFacts:
    """What is to be known of the files a potential names, found below `directory`."""

    def __init__(self, directory: Path | None, report: Report) -> None:
        self.directory, self.report = directory, report

    def sums(self, name: str, file: str) -> dict[str, float | str]:
        """Return `<name>_sha256` of a file; nothing for one that is not there. The word NULL names none."""
        path = self._path(file)
        if file == "NULL":
            return {}
        if path is None:
            self.report.warn(f"the file {file!r} that a style names was not found; the record names it without its sum")
            return {}
        return {f"{name}_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def sums_of_words(self, words: Mapping[str, float | str]) -> dict[str, float | str]:
        """Return `<name>_sha256` of the words of a style nothing is known of that are names of files beside the
        script.
        """
        found: dict[str, float | str] = {}
        for name, word in words.items() if self.directory is not None else ():
            path = None if self.directory is None or not isinstance(word, str) else self.directory / word
            if path is not None and path.is_file():
                found[f"{name}_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def params(self, name: str, file: str) -> dict[str, float | str]:
        """Return a file and its sum, as parameters."""
        return {name: file, **self.sums(name, file)}

    def cmap(self, file: str) -> NDArray[np.float64] | None:
        """Return the maps of a file, None (and said so) when it is not there."""
        path = self._path(file)
        if path is None:
            self.report.dropped(f"fix cmap {file}", "the file was not found")
            return None
        return read_cmap(path)

    def cmap_table(self, names: Sequence[str], grids: NDArray[np.float64]) -> Block:
        """Return the table of some maps: their endpoints are any."""
        text = np.array(list(names), dtype=np.dtypes.StringDType())
        blank = np.array([""] * len(names), dtype=np.dtypes.StringDType())
        ends = {f"{letter}tom": Column(blank) for letter in "ijklm"}
        return Block({"name": Column(text), **ends, "grid": Column(grids)})

    def _path(self, file: str) -> Path | None:
        for directory in (self.directory, None):
            path = Path(file) if directory is None else directory / file
            if path.is_file():
                return path
        return None


def read_cmap(path: Path) -> NDArray[np.float64]:
    """Return the maps of a file, f64[maps, 24, 24] in the file's units. `FormatError` for a text that is none."""
    words: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="surrogateescape").splitlines(), 1):
        found = line.partition("#")[0].split()
        wrong = next((word for word in found if not is_number(word)), None)
        if wrong is not None:
            raise FormatError(path, f"line {number}", found=repr(wrong), expected="a number")
        words += found
    size = CMAP_SIZE * CMAP_SIZE
    if not words or len(words) % size:
        raise FormatError(path, found=f"{len(words)} numbers", expected=f"a multiple of {size}")
    return np.array(words, dtype=np.float64).reshape(-1, CMAP_SIZE, CMAP_SIZE)


def cmap_text(grids: NDArray[np.float64]) -> str:
    """Return a file of `fix cmap` with some maps, every number exact. `FormatError` for maps of another size."""
    if grids.ndim != 3 or grids.shape[1:] != (CMAP_SIZE, CMAP_SIZE):
        raise FormatError("cmap", found=f"maps of {grids.shape[1:]}", expected=f"{CMAP_SIZE} by {CMAP_SIZE}")
    lines = []
    for number, grid in enumerate(grids.tolist(), 1):
        lines += [f"# map {number}", ""]
        for at, row in enumerate(grid):
            lines.append(f"# {-180 + 15 * at}")
            lines += [" ".join(map(repr, row[n : n + 5])) for n in range(0, CMAP_SIZE, 5)]
            lines.append("")
    return "\n".join(lines) + "\n"


class RowReading:
    """Reads the rows of one style. `generic`: they were not what the table says and are kept without names."""

    def __init__(self, style: StyleMap, files: FileFacts, atom_types: int) -> None:
        self.style, self.files, self.atom_types = style, files, atom_types
        self.known = find_style(style.category, style.style, style.part)
        self.generic = False

    def values(self, row: Coefficient) -> dict[str, Value] | None:
        """Return slot → value of a row, None when its words do not fit."""
        values = None if self.known is None else self.known.read(row.words, self.atom_types)
        return None if self.known is None or values is None else {**self.known.defaults, **values}

    def rows(self, coefficients: Sequence[Coefficient]) -> list[dict[str, float | str]]:
        """Return column → value of each row. `FormatError` for a row that is not of a style whose form is certain."""
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
        """Return the sums of the files a row names."""
        found: dict[str, float | str] = {}
        for name, value in values.items() if self.known is not None and "file" in self.known.flags else ():
            slot = None if self.known is None else self.known.coefficients.slot(name)
            if slot is not None and slot.kind == "file" and isinstance(value, str):
                found.update(self.files.sums(name, value))
        return found


def misfit(row: Coefficient, expected: str) -> FormatError:
    """Return the error of a row whose words are not those of its style."""
    types = " ".join(map(str, row.types))
    found = f"{row.category} coefficients {' '.join((types, row.style, row.part, *row.words)).strip()!r}"
    return FormatError(row.where or "the force field", found=found, expected=expected)


def _unnamed(coefficients: Sequence[Coefficient]) -> list[dict[str, float | str]]:
    """Return words as `c1`, `c2`, …: numbers where a place holds nothing else, texts otherwise."""
    width = max(len(row.words) for row in coefficients)
    numbers = [all(is_number(row.words[n]) for row in coefficients if n < len(row.words)) for n in range(width)]
    return [
        {f"c{n + 1}": float(word) if numbers[n] else word for n, word in enumerate(row.words)} for row in coefficients
    ]


#: The energy of two unit charges at unit distance (`qqr2e`) by units style.
COULOMB = {
    "lj": 1.0,
    "real": 332.06371,
    "metal": 14.399645,
    "si": 8.9876e9,
    "cgs": 1.0,
    "electron": 1.0,
    "micro": 8987556.0,
    "nano": 230.7078669,
}
_PRESETS = {
    "amber": ((0.0, 0.0, 0.5), (0.0, 0.0, 5.0 / 6.0)),
    "charmm": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    "dreiding": ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
    "fene": ((0.0, 1.0, 1.0), (0.0, 1.0, 1.0)),
}
_SWITCHES = ("angle", "dihedral", "one/five")
#: How many words a `pair_modify` key takes, where it is not one.
_TAKES = {"special": 4, "nofdotr": 0}


@dataclass(frozen=True)
class SpecialBonds:
    """The weights of 1-2, 1-3 and 1-4 neighbours, and the words that are no weights (`angle yes`)."""

    lj: tuple[float, ...] = (0.0, 0.0, 0.0)
    coul: tuple[float, ...] = (0.0, 0.0, 0.0)
    switches: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, list[float]]:
        """The value of the document's key."""
        return {"lj": list(self.lj), "coul": list(self.coul)}


def special_bonds(words: Sequence[str]) -> SpecialBonds:
    """Return what the words of a `special_bonds` command set; what they leave out is 0. `FormatError` for other
    words.
    """
    lj: tuple[float, ...] = (0.0, 0.0, 0.0)
    coul = lj
    switches: list[str] = []
    rest = list(words)
    while rest:
        key = rest.pop(0)
        if key in _PRESETS:
            lj, coul = _PRESETS[key]
        elif key in ("lj", "coul", "lj/coul") and len(rest) >= 3 and all(map(is_number, rest[:3])):
            three = tuple(float(word) for word in rest[:3])
            del rest[:3]
            lj, coul = (lj if key == "coul" else three), (coul if key == "lj" else three)
        elif key in _SWITCHES and rest and rest[0] in ("yes", "no"):
            switches += [key, rest.pop(0)]
        else:
            raise FormatError("special_bonds", found=" ".join(words), expected="a preset, lj, coul and three weights")
    return SpecialBonds(lj, coul, tuple(switches))


def special_words(weights: Mapping[str, Sequence[float]], stated: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the words for some weights: those that were `stated` where they mean the same; None where none are
    needed.
    """
    wanted = (tuple(map(float, weights["lj"])), tuple(map(float, weights["coul"])))
    switches: tuple[str, ...] = ()
    if stated is not None:
        known = special_bonds(stated)
        if (known.lj, known.coul) == wanted:
            return tuple(stated)
        switches = known.switches
    if not any(wanted[0]) and not any(wanted[1]) and not switches:
        return None
    return ("lj", *number_words(wanted[0]), "coul", *number_words(wanted[1]), *switches)


@dataclass
class PairSettings:
    """What `pair_modify` sets of one pair style: the mixing rule, the shift; None: not stated."""

    mix: str | None = None
    shift: str | None = None
    others: dict[str, str] = field(default_factory=dict)


def pair_settings(commands: Sequence[Sequence[str]], name: str, index: int) -> PairSettings:
    """Return what the `pair_modify` commands set of the (sub-)style `name`; a later one counts."""
    found = PairSettings()
    for words in commands:
        rest = list(words)
        if rest[:1] == ["pair"] and len(rest) > 1:
            wanted = rest[1]
            numbered = len(rest) > 2 and rest[2].isdigit()
            number = int(rest[2]) if numbered else 0
            rest = rest[3:] if numbered else rest[2:]
            if wanted != name or (numbered and number != (index or 1)):
                continue
        while rest:
            key = rest.pop(0)
            taken = [rest.pop(0) for _ in range(_TAKES.get(key, 1)) if rest]
            if key == "mix":
                found.mix = " ".join(taken)
            elif key == "shift":
                found.shift = " ".join(taken)
            else:
                found.others[key] = " ".join(taken)
    return found


def units_style(units: Mapping[str, Any]) -> str | None:
    """LAMMPS' units style for the units of a force field; None where they are none of LAMMPS'."""
    preset = units.get("preset")
    if isinstance(preset, str):
        return preset if preset in COULOMB else None
    stated = {key: text for key, text in units.items() if key in PRESETS["real"] and key != "angle"}
    for name, texts in PRESETS.items():
        known = name != "lj" and {"length", "energy"} <= stated.keys()
        if known and all(isinstance(text, str) and same_unit(text, texts[key]) for key, text in stated.items()):
            return name
    return None
