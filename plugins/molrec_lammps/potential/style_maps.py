"""Where the coefficients of a style stand in a record: the table's style, the column of each, and how numbers change.

Styles the contract registers take its names and definitions; all others keep LAMMPS' own, numbers as they are written.
Source: Force field, "LAMMPS mapping", "Registry" and "Version 2 definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from molrec_convert.model.forcefield.categories import to_degrees, to_radians
from molrec_convert.model.forcefield.registry import STANDARD
from molrec_convert.model.forcefield.styles import StyleDefinition
from molrec_convert.quantities.dimensions import check_dimension
from molrec_lammps.potential.style_table import PARTS, UNKNOWN_UNIT, Slot, Value, bare_style, find_style, gathered

__all__ = [
    "PAIR_PARTS",
    "RETURNED",
    "PairParts",
    "StyleMap",
    "charge_expression",
    "dimension_of_parameter",
    "own_map",
    "pair_map",
    "style_map",
]

#: Category and LAMMPS' style → the contract's style, and slot → parameter where they are called otherwise. A slot that
#: is numbered in LAMMPS has a numbered parameter; `""` leaves a slot out that says how many there are.
_REGISTERED: dict[tuple[str, str], tuple[str, dict[str, str]]] = {
    ("bond", "harmonic"): ("harmonic", {"K": "k"}),
    ("bond", "morse"): ("morse", {}),
    ("bond", "class2"): ("class2", {"K2": "k2", "K3": "k3", "K4": "k4"}),
    ("angle", "harmonic"): ("harmonic", {"K": "k"}),
    ("angle", "charmm"): ("charmm", {"K": "k", "Kub": "k_ub", "rub": "r_ub"}),
    ("angle", "class2"): ("class2", {"K2": "k2", "K3": "k3", "K4": "k4"}),
    ("dihedral", "fourier"): ("periodic", {"m": "", "K": "k", "n": "periodicity", "d": "phase"}),
    ("dihedral", "opls"): ("opls", {f"K{n}": f"k{n}" for n in range(1, 5)}),
    ("dihedral", "charmm"): ("charmm", {"K": "k", "n": "periodicity", "d": "phase"}),
    ("dihedral", "harmonic"): ("harmonic", {"K": "k", "d": "sign", "n": "periodicity"}),
    ("dihedral", "multi/harmonic"): ("multi/harmonic", {f"A{n}": f"a{n}" for n in range(1, 6)}),
    ("dihedral", "nharmonic"): ("nharmonic", {"n": "", "A": "a"}),
    ("dihedral", "class2"): ("class2", {f"K{n}": f"k{n}" for n in range(1, 4)}),
    ("improper", "harmonic"): ("harmonic", {"K": "k"}),
    ("improper", "cvff"): ("cvff", {"K": "k", "d": "sign", "n": "periodicity"}),
}


@dataclass(frozen=True)
class PairParts:
    """What the contract makes of a pair style: the table of its pairs, and that of its charges.

    `params` and `charge_params` say which argument a parameter of either is; where that is not given, the one after it.
    """

    table: str = ""
    charges: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cutoff": ("cutoff",)})
    charge_params: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cutoff": ("cutoff_coul", "cutoff")})


_CHARMM = {"eps14": "epsilon14"}
_SWITCHED = {"inner": ("inner",), "cutoff": ("outer",)}
_BUCK = {"A": "a", "C": "c"}

#: LAMMPS' pair style → what the contract makes of it, where it is the only pair style.
PAIR_PARTS: dict[str, PairParts] = {
    "lj/cut": PairParts("lj/cut"),
    "lj/cut/coul/cut": PairParts("lj/cut", "coul/cut"),
    "lj/cut/coul/long": PairParts("lj/cut", "coul/long/pme"),
    "lj/class2": PairParts("lj/class2"),
    "lj/class2/coul/cut": PairParts("lj/class2", "coul/cut"),
    "lj/class2/coul/long": PairParts("lj/class2", "coul/long/pme"),
    "lj/charmm/coul/charmm": PairParts(
        "lj/charmm",
        "coul/charmm",
        _CHARMM,
        _SWITCHED,
        {"inner": ("inner_c", "inner"), "cutoff": ("outer_c", "outer")},
    ),
    "lj/charmm/coul/long": PairParts(
        "lj/charmm", "coul/long/pme", _CHARMM, _SWITCHED, {"cutoff": ("cutoff_coul", "outer")}
    ),
    "buck": PairParts("buck", "", _BUCK),
    "buck/coul/cut": PairParts("buck", "coul/cut", _BUCK),
    "buck/coul/long": PairParts("buck", "coul/long/pme", _BUCK),
    "morse": PairParts("morse", "", {"D0": "d0"}),
    "coul/cut": PairParts("", "coul/cut", {}, {}, {"cutoff": ("cutoff",)}),
    "coul/long": PairParts("", "coul/long/pme", {}, {}, {"cutoff": ("cutoff",)}),
}

#: Category and the contract's style → LAMMPS' style, the way back.
RETURNED: dict[tuple[str, str], str] = {
    (category, contract): style for (category, style), (contract, _) in _REGISTERED.items()
}
#: Columns that are no word of a row → dimension: a rest angle beside a cross term, the grid of `fix cmap`.
_FURTHER_COLUMNS = {("angle", "theta0"): "", ("cmap", "grid"): "energy"}
_TAIL = re.compile(r"(.*?)([1-9]\d*)?$", re.DOTALL)


@dataclass(frozen=True)
class StyleMap:
    """How rows of one LAMMPS style, or of one cross term of it, stand in a table.

    `table` is the style the table has in the record. `registered` is the contract's definition of it, None for a style
    under LAMMPS' own name, whose numbers are as they are written; `definitions` are those the numbers follow.
    """

    category: str
    style: str
    part: str
    table: str
    names: Mapping[str, str] = field(repr=False)
    registered: StyleDefinition | None = field(repr=False)
    definitions: int
    _known: dict[tuple[str, str], str | None] = field(default_factory=dict, repr=False, compare=False)

    def row(self, values: Mapping[str, Value]) -> dict[str, float | str]:
        """Return column → value of a row for the values of its words; of a slot of many words one numbered column
        each.
        """
        row: dict[str, float | str] = {}
        for name, value in values.items():
            column = self.column(name)
            if isinstance(value, tuple):
                row.update({f"{column}{n}": word for n, word in enumerate(value, 1)})
            elif column:
                row[column] = value if isinstance(value, str) else self._changed(column, float(value), back=False)
        return row

    def values(self, row: Mapping[str, float | str]) -> dict[str, Value]:
        """Return the values of a row's words; columns that are no slot of the style are left out."""
        values: dict[str, Value] = {}
        for column, value in row.items():
            name = self.slot(column)
            if name is not None:
                values[name] = value if isinstance(value, str) else self._changed(column, value, back=True)
        counter = next((slot for slot, column in self.names.items() if column == ""), None)
        if counter is not None:
            values[counter] = self._terms(values)
        known = find_style(self.category, self.style, self.part)
        many = [slot for slot in known.coefficients.slots if slot.kind in ("some", "each")] if known is not None else []
        return {**values, **{slot.name: gathered(row, [slot])[slot.name] for slot in many}}

    def column(self, slot: str) -> str:
        """Return the column of a slot, its number kept; "" for one that is not stored."""
        key = ("column", slot)
        if key not in self._known:
            self._known[key] = self._column(slot)
        return self._known[key] or ""

    def slot(self, column: str) -> str | None:
        """Return the slot a column holds, None for a column of another meaning."""
        key = ("slot", column)
        if key not in self._known:
            self._known[key] = self._slot(column)
        return self._known[key]

    def _column(self, slot: str) -> str:
        if slot in self.names:
            column = self.names[slot]
        else:
            stem, number = _split(slot)
            column = self.names.get(stem, stem) + number if number else slot
        definition = self.registered
        parameter = None if definition is None else definition.parameter(column, 1)
        if parameter is not None and parameter.later is not None and self.definitions == 2:
            return column.replace(parameter.name, parameter.later, 1)
        return column

    def _slot(self, column: str) -> str | None:
        row = find_style(self.category, self.style, self.part)
        if row is None:
            return column
        for slot in row.coefficients.slots:
            known = self.column(slot.name)
            if known == column and not (known == "" or self._numbered(slot.name)):
                return slot.name
            stem, number = _split(column)
            if number and self._numbered(slot.name) and known == stem:
                return slot.name + number
        return None

    def expression(self, columns: Iterable[str]) -> str | None:
        """Return the energy of a style that is not registered in these definitions, in its own numbers; None where
        unknown.

        A style of the other definitions has the name of that and LAMMPS' numbers, which are those of definitions 2.
        """
        if self.registered is not None:
            return None
        other = STANDARD.find(self.category, self.table, 2)
        if other is not None and (self.names or self.table != self.style):
            return other.formula(2, columns, "degree")
        row = find_style(self.category, self.style, self.part)
        return None if row is None else row.expression

    @property
    def required(self) -> tuple[Slot, ...]:
        """The slots every row fills."""
        row = find_style(self.category, self.style, self.part)
        items = () if row is None else next(iter(row.coefficients.alternatives), ())
        return tuple(item for item in items if isinstance(item, Slot))

    def _numbered(self, slot: str) -> bool:
        row = find_style(self.category, self.style, self.part)
        return row is not None and row.coefficients.slot(f"{slot}1") is not None

    def _terms(self, values: Mapping[str, Value]) -> int:
        """Return how many terms a row has: the numbers of its slots go from 1 without a gap."""
        numbers = {int(number) for name in values for number in (_split(name)[1],) if number}
        return max(numbers, default=0)

    def _changed(self, column: str, value: float, *, back: bool) -> float:
        """Return a number in the definitions of the record, or `back` in LAMMPS'."""
        key = ("change", column)
        if key not in self._known:
            self._known[key] = self._change(column)
        change = self._known[key]
        if change == "half":
            return value * (0.5 if back else 2.0)
        if change == "angle":
            return to_degrees(value) if back else to_radians(value)
        return value

    def _change(self, column: str) -> str:
        parameter = None if self.registered is None else self.registered.parameter(column, self.definitions)
        if parameter is None or self.definitions == 2:
            return ""
        return "half" if parameter.halved else "angle" if parameter.is_angle else ""


def style_map(category: str, style: str, part: str, definitions: int) -> StyleMap:
    """Return the map of a style of bonds, angles, dihedrals or impropers, or of its cross term `part`, known or not."""
    bare = bare_style(style)
    if part:
        return own_map(category, f"{bare}/{part}", bare, part, definitions)
    if (category, bare) not in _REGISTERED:
        return own_map(category, bare, bare, "", definitions)
    table, names = _REGISTERED[(category, bare)]
    return StyleMap(category, bare, "", table, names, STANDARD.find(category, table, definitions), definitions)


def pair_map(style: str, definitions: int) -> StyleMap:
    """Return the map of the pairs of a pair style that stands alone."""
    bare = bare_style(style)
    parts = PAIR_PARTS.get(bare)
    if parts is None:
        return own_map("pair", bare, bare, "", definitions)
    table = parts.table or parts.charges
    return StyleMap("pair", bare, "", table, parts.names, STANDARD.find("pair", table, definitions), definitions)


def charge_expression(charges: str, definitions: int) -> str | None:
    """Return the energy of a table of charges that is registered in the other definitions only."""
    other = STANDARD.find("pair", charges, 2)
    return other.formula(2) if other is not None and STANDARD.find("pair", charges, definitions) is None else None


def own_map(category: str, table: str, style: str, part: str, definitions: int) -> StyleMap:
    """Return the map of a style that keeps its slots and numbers, under the name `table`."""
    return StyleMap(category, bare_style(style), part, table, {}, None, definitions)


def dimension_of_parameter(category: str, table: str, name: str, definitions: int) -> str | None:
    """Return the dimension of a column of a table, or of an argument of its style, in words; None where unknown.

    None too where LAMMPS' energies in other units are not known to be the same.
    """
    if (category, name) in _FURTHER_COLUMNS:
        return _FURTHER_COLUMNS[category, name]
    style, slash, part = table.rpartition("/")
    if not (slash and part in PARTS.get(category, ()) and find_style(category, style, part) is not None):
        style, part = RETURNED.get((category, table), table), ""
        if category == "pair":
            style = next((known for known, parts in PAIR_PARTS.items() if parts.table == table), table)
    found = pair_map(style, definitions) if category == "pair" else style_map(category, style, part, definitions)
    row = find_style(category, style, part)
    if row is None or row.unconvertible():
        return None
    slot = row.coefficients.slot(found.slot(name) or "") or row.arguments.slot(name)
    known = slot is not None and slot.kind != "some" and slot.unit != UNKNOWN_UNIT
    return check_dimension(slot.unit) if slot is not None and known else None


def _split(name: str) -> tuple[str, str]:
    """Return `K12` is `K` and `12`; a name without a number has an empty one."""
    match = _TAIL.match(name)
    assert match is not None
    return match[1], match[2] or ""
