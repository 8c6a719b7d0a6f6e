"""The force field of a record as LAMMPS is told it: the potential, in the units that are written, and its files.

A style whose coefficients lie in a file names the file and its sha256; the file itself is copied where it is at hand
with that sum, and nothing else will do.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.formats import WriteContext
from molrec_convert.model import ForceField, Record
from molrec_convert.quantities.dimensions import units_words
from molrec_convert.report import Report
from molrec_lammps.potential.potential import Coefficient, Potential, PotentialStyle
from molrec_lammps.potential.record import potential_of
from molrec_lammps.potential.rows import cmap_text
from molrec_lammps.potential.style_table import (
    ANGSTROM_UNITS,
    UNKNOWN_UNIT,
    StyleRow,
    bare_style,
    find_style,
    is_number,
)
from molrec_lammps.write.units import Conversion, number_text

__all__ = ["FileFolder", "PotentialFiles", "potential_of_record", "with_pair_style"]

_SUM = "_sha256"
#: Solvers of long-range sums whose accuracy is a fraction, the same in all units.
_SOLVERS = frozenset(
    {
        *("ewald", "ewald/dipole", "ewald/disp", "ewald/disp/dipole", "msm", "msm/cg", "zero"),
        *("pppm", "pppm/cg", "pppm/dipole", "pppm/disp", "pppm/disp/tip4p", "pppm/stagger", "pppm/tip4p"),
    }
)
#: Keys of `pair_modify` and `kspace_modify` whose number has a unit.
_UNITS_OF_KEYS = {
    **dict.fromkeys(("tabinner", "tabinner/disp"), "L"),
    **dict.fromkeys(("gewald", "gewald/disp"), "1/L"),
    **dict.fromkeys(("force", "force/disp/real", "force/disp/kspace"), "F"),
}


def potential_of_record(
    record: Record, names: Mapping[str, Sequence[str]], context: WriteContext, units: str | None
) -> Potential | None:
    """Return what LAMMPS is told of the force field, in the units style that is written; None where the record has
    none.

    `names` are those of the types by kind, in the order of their numbers. UnsupportedError names a style LAMMPS has
    nothing for, or a coefficient that cannot be converted to other units.
    """
    force_field = record.forcefield
    if force_field is None:
        return None
    potential = potential_of(force_field, types=names, report=context.report)
    numbers, words = (
        Conversion.between(force_field.units, units),
        Conversion.between(_units_of_words(force_field), units),
    )
    if (numbers or words) and context.units_kept:
        told = units_words((numbers or words).source)
        raise UnsupportedError(f"the force field is in units {told}, the record in units {units}, and a file has one")
    if numbers or words:
        potential = _converted(potential, numbers, words)
        context.report.converted(
            "force field",
            f"coefficients converted to units {units}; LAMMPS' Coulomb constants of two units styles agree to six "
            "digits only, and it chooses the mesh of k-space anew",
        )
    return potential


def _units_of_words(force_field: ForceField) -> Mapping[str, Any]:
    """Return the units of the words the document keeps of LAMMPS' commands: those it states, else those of the
    numbers.
    """
    words = force_field.document.get("lammps")
    stated = words.get("units") if isinstance(words, Mapping) else None
    return stated if isinstance(stated, Mapping) else force_field.units


def with_pair_style(potential: Potential, asked: str | None, types: int) -> Potential:
    """Return the potential with its pair style as asked for (`--pair-style`), for a number of atom types.

    UsageError: the coefficients of the record are those of another style, or there are none and the style needs some.
    """
    if asked is None:
        return potential
    name, *args = asked.split() or [""]
    styles = potential.styles.get("pair", [])
    if "pair" in potential.hybrid or len(styles) > 1 or any(style.name != name for style in styles):
        known = " ".join(style.name for style in styles)
        raise UsageError(f"--pair-style {asked!r}: the coefficients of the record are those of {known}")
    changed = {**potential.styles, "pair": [PotentialStyle(name, tuple(args))]}
    if any(row.category == "pair" for row in potential.coefficients):
        return replace(potential, styles=changed)
    row = find_style("pair", name)
    if row is None or row.coefficients.required:
        raise UsageError(
            f"--pair-style {asked!r}: the record has no pair coefficients, which the style needs; it takes one that "
            "needs none, like 'zero 10.0' or 'coul/cut 10.0'"
        )
    pairs = [(i, j) for i in range(1, types + 1) for j in range(i, types + 1)]
    rows = [*potential.coefficients, *(Coefficient("pair", pair, ()) for pair in pairs)]
    return replace(potential, styles=changed, coefficients=rows)


def _converted(potential: Potential, numbers: Conversion, words: Conversion) -> Potential:
    """Return the potential in other units: coefficients and arguments of styles, and the words kept as they stood."""
    target = numbers.target or words.target
    numbers = numbers or Conversion(target, {"preset": target})
    styles = {
        category: [replace(style, args=_arguments(category, style, numbers)) for style in members]
        for category, members in potential.styles.items()
    }
    rows = [replace(row, words=_words(potential, row, numbers)) for row in potential.coefficients]
    if potential.cmap and target not in ANGSTROM_UNITS:
        # It takes atoms for collinear by a distance that is the same number in all units
        raise UnsupportedError(
            f"fix cmap {potential.cmap[0]}: LAMMPS has no terms of it in units {target}, where lengths are small "
            f"numbers; it has them in {', '.join(ANGSTROM_UNITS)}"
        )
    modify = [_settings(line, "pair_modify", words) for line in potential.pair_modify]
    for key in ("tabinner", "tabinner/disp") if potential.kspace is not None else ():
        if words and not any(key in line for line in modify):
            # LAMMPS' default is the same number in all units
            modify.append((key, number_text(math.sqrt(2.0) * words.factor("L", f"pair_modify {key}"))))
    kspace = [_settings(line, "kspace_modify", words) for line in potential.kspace_modify]
    if potential.kspace is not None and words:
        _check_solver(bare_style(potential.kspace[0]), words)
    return replace(
        potential,
        units=target,
        styles=styles,
        coefficients=rows,
        pair_modify=modify,
        kspace_modify=kspace,
    )


def _check_solver(name: str, conversion: Conversion) -> None:
    """Refuse solvers of long-range sums that are not the same in other units: UnsupportedError names them."""
    what = f"kspace_style {name}"
    reason = "" if name in _SOLVERS else "its energies in two units styles were not compared"
    if name.endswith("/cg") and conversion.factor("Q", what) != 1.0:
        reason = "it leaves out small charges, by a number that is the same in all units"
    if reason:
        raise UnsupportedError(f"{what}: {reason}, so it is not converted to units {conversion.target}")


def _settings(words: tuple[str, ...], command: str, conversion: Conversion) -> tuple[str, ...]:
    """Return the words of a setting, the numbers behind keys that have a unit converted."""
    found = list(words)
    for place, word in enumerate(words[:-1]):
        if word in _UNITS_OF_KEYS and is_number(words[place + 1]):
            factor = conversion.factor(_UNITS_OF_KEYS[word], f"{command} {word}")
            found[place + 1] = number_text(float(words[place + 1]) * factor)
    return tuple(found)


def _arguments(category: str, style: PotentialStyle, conversion: Conversion) -> tuple[str, ...]:
    what = f"{category}_style {style.name}"
    row = _convertible(category, style.name, "", what, conversion)
    return _scaled(style.args, row.argument_units(style.args), what, conversion)


def _words(potential: Potential, row: Coefficient, conversion: Conversion) -> tuple[str, ...]:
    style = potential.style_of(row)
    name = row.style or (style.name if style is not None else "")
    what = f"{row.category}_coeff {' '.join(map(str, row.types))} {name} {row.part}".rstrip()
    if name == "none" or row.words in (("none",), ("skip",)):
        return row.words
    known = _convertible(row.category, name, row.part, what, conversion)
    return _scaled(row.words, known.units(row.words), what, conversion)


def _convertible(category: str, name: str, part: str, what: str, conversion: Conversion) -> StyleRow:
    """Return the style. UnsupportedError: nothing is known of it, or its numbers cannot be converted to other units."""
    row = find_style(category, name, part)
    reason = "no style of this name is known" if row is None else row.unconvertible(conversion.target)
    if row is None or reason:
        raise UnsupportedError(
            f"{what}: {reason}, so it is not converted to units {conversion.target}; write without --target-units"
        )
    return row


def _scaled(words: tuple[str, ...], units: Sequence[str] | None, what: str, conversion: Conversion) -> tuple[str, ...]:
    if units is None or UNKNOWN_UNIT in units:
        raise UnsupportedError(
            f"{what} {' '.join(words)}: the units of these numbers are not known, so they cannot be converted to units "
            f"{conversion.target}"
        )
    found = []
    for word, unit in zip(words, units, strict=True):
        factor = conversion.factor(unit, what) if unit else 1.0
        found.append(word if factor == 1.0 else number_text(float(word) * factor))
    return tuple(found)


@dataclass(frozen=True)
class FileFolder:
    """A folder where files are looked for: one that was `chosen` by the user, the record's `own`, or any other."""

    path: Path
    chosen: bool = False
    own: bool = False

    def holds(self, path: Path) -> bool:
        """True if a file lies in the folder, or below it: of one that is neither chosen nor own right in it.

        Links are followed in one that was chosen, and lead out of no other.
        """
        where = (os.path.abspath if self.chosen else os.path.realpath)(self.path)
        file = (os.path.abspath if self.chosen else os.path.realpath)(path)
        if not self.chosen and not self.own:
            return os.path.dirname(file) == where
        return os.path.commonpath([where, file]) == where


@dataclass
class PotentialFiles:
    """The files a force field names, by the words that name them: their sums where they are known.

    `naming` are those of them that name further files, which lie beside them. `texts` are files that are made from the
    record itself, by the name they get.
    """

    sums: dict[str, str | None] = field(default_factory=dict)
    naming: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, force_field: ForceField | None, potential: Potential, units: str | None) -> PotentialFiles:
        """Return what the styles of `potential` name as files."""
        found = cls()
        if force_field is None:
            return found
        sums = dict(_sums(force_field))
        for file in potential.cmap:
            table = force_field.tables.get("cmap.charmm")
            if table is not None and "grid" in table.columns:
                factor = Conversion.between(force_field.units, units).factor("E", f"fix cmap {file}")
                found.texts[Path(file).name] = cmap_text(table.stored("grid") * factor)
        for word, row in _file_words(potential, sums):
            found.sums[word] = sums.get(word)
            flags = frozenset() if row is None else row.flags
            found.sums.update((flag[5:], None) for flag in sorted(flags) if flag.startswith("with:"))
            if "nested" in flags:
                found.naming.add(word)
        return found

    def copy(self, directory: Path, folders: Sequence[FileFolder], report: Report) -> dict[str, str]:
        """Put every file into `directory`; word → the name it has there.

        UsageError: a file is not in any of `folders`, or has another sum than the force field says.
        """
        names: dict[str, str] = {}
        for word, wanted in self.sums.items():
            name = Path(word).name
            if name in self.texts or name in names.values():
                raise UsageError(f"two files of coefficients are called {name}, which one directory cannot hold")
            path, folder = _found(word, wanted, folders, report)
            (directory / name).write_bytes(path.read_bytes())
            names[word] = name
            report.carried(f"file {name}", "copied beside the script")
            for other in _named_beside(path, folder) if word in self.naming else ():
                (directory / other.name).write_bytes(other.read_bytes())
                names[other.name] = other.name
                report.carried(f"file {other.name}", f"copied beside the script, for {name} names it")
        for name, content in self.texts.items():
            (directory / name).write_text(content, encoding="utf-8")
        return names


def _named_beside(path: Path, folder: FileFolder) -> list[Path]:
    """Return the other files of a file's folder whose names are words of it."""
    words = set(path.read_text(encoding="utf-8", errors="replace").split())
    return [
        other
        for other in sorted(path.parent.iterdir())
        if other.name in words and other.is_file() and folder.holds(other)
    ]


def _found(word: str, wanted: str | None, folders: Sequence[FileFolder], report: Report) -> tuple[Path, FileFolder]:
    others = []
    for folder in folders:
        for path in dict.fromkeys((folder.path / word, folder.path / Path(word).name)):
            if not path.is_file() or not folder.holds(path):
                continue
            if wanted is None and not (folder.chosen or folder.own):
                continue
            if wanted is None:
                report.warn(f"{path} is taken for {word}: the record does not say its sha256, so it may be another")
                return path, folder
            if hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
                return path, folder
            others.append(path)
    if others:
        raise UsageError(f"{others[0]} is not the file {word} of the force field: its sha256 is not {wanted}")
    places = ", ".join(str(folder.path) for folder in folders)
    raise UsageError(
        f"the force field has its coefficients in the file {word} (sha256 {wanted or 'unknown'}), which is not in "
        f"{places}; what a record only names is copied from nowhere else: --potential-files FOLDER says where it is"
    )


def _sums(force_field: ForceField) -> Iterator[tuple[str, str]]:
    """Yield file → sha256, from parameters of styles and from columns of tables."""
    for style in force_field.styles:
        for key, value in style.params.items():
            if key.endswith(_SUM) and key.removesuffix(_SUM) in style.params:
                yield str(style.params[key.removesuffix(_SUM)]), str(value)
        table = force_field.tables[style.block]
        for key in table.columns:
            name = key.removesuffix(_SUM)
            if key.endswith(_SUM) and name in table.columns:
                known = table.validity(key) & table.validity(name)
                yield from zip(table.stored(name)[known].tolist(), table.stored(key)[known].tolist(), strict=True)


def _file_words(potential: Potential, sums: Collection[str]) -> Iterator[tuple[str, StyleRow | None]]:
    """Yield the words that are files, of every style line and row, with their style; those with a sum where none is
    known.
    """
    for category, styles in potential.styles.items():
        for style in styles:
            row = find_style(category, style.name)
            slots: Any = None if row is None else row.arguments.slots_of(style.args)
            yield from ((word, row) for word in _files(style.args, slots, sums))
    for coefficient in potential.final():
        of = potential.style_of(coefficient)
        name = coefficient.style or ("" if of is None else of.name)
        row = find_style(coefficient.category, name, coefficient.part) if name else None
        slots = None
        if row is not None:
            slots = row.coefficients.slots_of(coefficient.words, potential.type_counts.get("atom"))
        yield from ((word, row) for word in _files(coefficient.words, slots, sums))


def _files(words: Sequence[str], slots: Sequence[Any] | None, sums: Collection[str]) -> list[str]:
    if slots is None or len(slots) != len(words):
        return [word for word in words if word in sums]
    return [word for word, slot in zip(words, slots, strict=True) if slot.kind == "file" and word != "NULL"]
