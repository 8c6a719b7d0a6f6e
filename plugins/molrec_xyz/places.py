"""The columns of a record that are made from the columns of a file.

The first column says what the atoms are: `element` where it has symbols only, `name` where it has other labels,
`type` where it has numbers (`--species` settles it).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from molrec_convert.errors import FormatError
from molrec_convert.meaning.species import propose
from molrec_convert.model import ColumnDeclaration
from molrec_convert.model.names import STANDARD_DTYPES, STATE_COLUMNS
from molrec_convert.quantities.elements import NUMBERS
from molrec_convert.quantities.standard import velocity_factor
from molrec_convert.report import Report
from molrec_xyz.columns import FileColumn, RowLayout
from molrec_xyz.names import POSITIONS, SINGLE, apart, record_name, words_for
from molrec_xyz.options import XyzOptions

__all__ = ["LABELS", "WIDE", "Place", "is_state", "plan_places", "species_kind"]

#: Hints: labels that are no symbols come later; numbers that do not fit a standard column do.
LABELS, WIDE = "xyz: labels", "xyz: wide "
_DTYPES = {"R": "f64", "I": "i64", "S": "string", "L": "bool"}
_NUMBER = re.compile(r"[-+]?[0-9]+")
_KINDS = {"elements": "element", "names": "name", "types": "type", "numbers": "atomic_number"}
RESERVED = frozenset({"offset", "step_index", "_validity"})


@dataclass(frozen=True)
class Place:
    """A column of the record: its dtype and shape, and the column of the file and the field it is made from."""

    name: str
    dtype: str
    trailing: tuple[int, ...]
    source: str
    part: int
    nullable: bool
    #: The column the numbers are divided by, and what the quotients are multiplied with.
    divided_by: str | None = None
    factor: float = 1.0

    @property
    def declared(self) -> ColumnDeclaration:
        """Its declaration."""
        return ColumnDeclaration(self.dtype, self.trailing, self.nullable)


def is_state(place: Place) -> bool:
    """Whether a column says what state an atom is in: every real number but the mass."""
    return place.name in STATE_COLUMNS or (place.dtype == "f64" and place.name != "mass")


def species_kind(words: Sequence[str], hinted: bool, asked: str | None, lammps: bool, report: Report) -> str:
    """The column of the record that has the labels of a file whose first frames have these `words`."""
    if asked is not None:
        return _KINDS[asked]
    if words and all(_NUMBER.fullmatch(word) for word in words) and not hinted:
        if lammps:
            report.converted("species", "as type: numbers in a file of LAMMPS are types")
        else:
            report.warn(
                "the species are numbers, taken as types; with --species numbers they are taken as atomic numbers"
            )
        return "type"
    if hinted or any(word not in NUMBERS for word in words):
        strange = sorted({word for word in words if word not in NUMBERS})[:3]
        report.converted(
            "species", f"as name: labels such as {', '.join(strange)} are no elements" if strange else "as name"
        )
        return "name"
    report.converted("species", "as element")
    return "element"


def plan_places(
    layouts: Sequence[RowLayout], lines: Sequence[int], path: object, kind: str, options: XyzOptions,
    hints: frozenset[str], report: Report,
) -> list[Place]:  # fmt: skip
    """The columns of the record, in the order of the file's. `lines` says where each layout comes first."""
    columns = _union(layouts, lines, path)
    names = list(columns)
    everywhere = [name for name in names if all(any(c.name == name for c in lay.columns) for lay in layouts)]
    special = _special(columns, path, kind, options, report)
    taken = {target for targets in special.values() for target in targets}
    places: list[Place] = []
    for name, column in columns.items():
        nullable = name not in everywhere
        if nullable:
            report.warn(f"some frames have no column {name}: its values are null there")
        targets = special.get(name)
        if targets is not None:
            for part, target in enumerate(targets):
                dtype = STANDARD_DTYPES.get(target, "f64")
                if f"{WIDE}{target}" in hints:
                    target, dtype = apart(target), "i64"
                places.append(Place(target, dtype, (), name, part, nullable))
            continue
        own = record_name(name, {*taken, *RESERVED})
        dtype = _DTYPES[column.letter]
        trailing = (column.width,) if column.width > 1 else ()
        standard = STANDARD_DTYPES.get(own)
        if standard is not None and (trailing or not _fits(dtype, standard) or f"{WIDE}{own}" in hints):
            own, standard = apart(own), None
        places.append(Place(own, standard or dtype, trailing, name, 0, nullable))
        if own == name:
            report.carried(name, words_for(name))
        else:
            report.converted(name, f"named {own}: its own name is another column's, or none a record can have")
    places += _velocities(columns, places, options, report)
    if ("fx", "fy", "fz") not in special.values():
        propose("forces", names, report)
    return places


def _velocities(
    columns: dict[str, FileColumn], places: Sequence[Place], options: XyzOptions, report: Report
) -> list[Place]:
    """Velocities from momenta of ASE, in the units that are asked for, where masses stand beside them."""
    momenta = columns.get("momenta")
    factor = None if options.units is None else velocity_factor({"preset": options.units})
    mass = next((place.source for place in places if place.name == "mass"), None)
    if momenta is None or momenta.width != 3 or factor is None or any(p.name in ("vx", "vy", "vz") for p in places):
        return []
    if mass is None:
        report.warn("momenta without a column of masses: no velocities are worked out")
        return []
    report.derived("vx vy vz", f"momenta over masses, in units of {options.units}: momenta of ASE are in sqrt(u eV)")
    nullable = any(place.nullable for place in places if place.source in ("momenta", mass))
    return [Place(f"v{axis}", "f64", (), "momenta", part, nullable, mass, factor) for part, axis in enumerate("xyz")]


def _union(layouts: Sequence[RowLayout], lines: Sequence[int], path: object) -> dict[str, FileColumn]:
    columns: dict[str, FileColumn] = {}
    for layout, line in zip(layouts, lines, strict=True):
        for column in layout.columns:
            known = columns.setdefault(column.name, column)
            if known == column:
                continue
            if known.width == column.width and {known.letter, column.letter} == {"R", "I"}:
                columns[column.name] = FileColumn(column.name, "R", column.width)
                continue
            raise FormatError(
                str(path), f"line {line}", found=str(column), expected=f"{known}, as in the frames before",
                hint="take the configurations apart into files of one kind each",
            )  # fmt: skip
    return columns


def _special(
    columns: dict[str, FileColumn], path: object, kind: str, options: XyzOptions, report: Report
) -> dict[str, tuple[str, ...]]:
    """Columns of the file that have columns of another name in the record."""
    found: dict[str, tuple[str, ...]] = {}
    species = columns.get("species")
    if species is not None and species.letter == "S" and species.width == 1:
        found["species"] = (kind,)
    if options.forces_key is not None and options.forces_key not in columns:
        raise FormatError(
            str(path),
            found=f"the columns {', '.join(columns)}",
            expected=f"{options.forces_key}, as --forces-key says",
        )
    candidates = {
        ("x", "y", "z"): POSITIONS,
        ("fx", "fy", "fz"): (options.name_of("forces"),),
    }
    for targets, names in candidates.items():
        name = next((n for n in names if n in columns and columns[n].width == 3 and columns[n].letter in "RI"), None)
        if name is not None and not any(target in columns for target in targets):
            found[name] = targets
            report.carried(name, f"as {' '.join(targets)}")
    if not any(targets == ("x", "y", "z") for targets in found.values()) and not {"x", "y", "z"} <= columns.keys():
        report.warn("no column pos of three numbers: the atoms have no positions")
    for target, (names, letter) in SINGLE.items():
        name = next(
            (n for n in names if n in columns and columns[n].width == 1 and columns[n].letter in _letters(letter)), None
        )
        if name is None or (target in columns and target != name) or (target,) in found.values():
            continue
        found[name] = (target,)
        if name == target:
            report.carried(name)
        else:
            report.converted(name, f"as {target}")
    return found


def _letters(letter: str) -> str:
    return "RI" if letter == "R" else letter


def _fits(dtype: str, standard: str) -> bool:
    """Whether numbers of a file's type may be those of a standard column."""
    return dtype == standard or (dtype == "i64" and standard in ("u64", "i32", "f64"))
