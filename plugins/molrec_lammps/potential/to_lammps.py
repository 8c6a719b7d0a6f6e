"""A force field into a potential: what LAMMPS has to be told, for records of any origin.

What the document remembers of LAMMPS' own words is taken where it still means what the tables say.
Source: Force field, "LAMMPS mapping".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import ForceField
from molrec_convert.model.forcefield.categories import ANNOTATIONS, ENDPOINT_COLUMNS
from molrec_convert.model.forcefield.definitions import to_definitions
from molrec_convert.model.forcefield.registry import STANDARD
from molrec_convert.model.forcefield.styles import StyleDefinition
from molrec_convert.model.forcefield.units import angle_unit
from molrec_convert.model.frame import Block
from molrec_convert.report import Report
from molrec_lammps.potential.potential import CATEGORIES, Coefficient, Potential, PotentialStyle
from molrec_lammps.potential.rows import special_words, units_style
from molrec_lammps.potential.style_maps import RETURNED, StyleMap, style_map
from molrec_lammps.potential.style_table import PARTS, find_style, gathered, number_word

__all__ = ["Reading", "foreign_style", "table_rows", "with_defaults"]

Row = dict[str, Any]


def foreign_style(category: str, table: str, rows: Sequence[Row], definitions: int) -> tuple[str, list[Row]]:
    """LAMMPS' style for a table nothing is remembered of, and its rows in the names of that style's table.

    `UnsupportedError` names a table LAMMPS has no style for.
    """
    special = _OTHERWISE.get((category, table))
    if special is not None:
        return special(rows, definitions)
    style = RETURNED.get((category, table))
    if style is None and find_style(category, table) is not None:
        style = table
    if style is None:
        raise UnsupportedError(f"LAMMPS has no {category} style that is {category}.{table} of the force field")
    return style, list(rows)


def with_defaults(category: str, table: str, rows: Sequence[Row], definitions: int) -> list[Row]:
    """Return rows with what the contract says a missing parameter is; the terms of a sum numbered from 1 without a
    gap.
    """
    definition = STANDARD.find(category, table, definitions)
    if definition is None:
        return list(rows)
    indexed = [entry for entry in definition.parameters if definitions in entry.indexed]
    return [
        _filled(_renumbered(row, definition, definitions) if indexed else row, definition, definitions) for row in rows
    ]


def _filled(row: Row, definition: StyleDefinition, definitions: int) -> Row:
    filled = dict(row)
    for entry in definition.parameters:
        name = entry.named(definitions)
        if isinstance(entry.default, (int, float)) and definitions not in entry.indexed:
            filled.setdefault(name, float(entry.default))
    return filled


def _renumbered(row: Row, definition: StyleDefinition, definitions: int) -> Row:
    """Return terms as `k1`, `periodicity1`, `phase1`, … in the order of their numbers; a single one may come without
    any.
    """
    names = {entry.named(definitions): entry for entry in definition.parameters if definitions in entry.indexed}
    pattern = re.compile(f"({'|'.join(map(re.escape, names))})([1-9][0-9]*)?")
    terms: dict[int, Row] = {}
    others: Row = {}
    for column, value in row.items():
        match = pattern.fullmatch(column)
        if match is None:
            others[column] = value
        else:
            terms.setdefault(int(match[2] or 0), {})[match[1]] = value
    if "periodicity" not in names:
        # A polynomial: the number is the power, and a gap is a zero.
        stem = next(iter(names))
        top = max(terms, default=0)
        return {**others, **{f"{stem}{n}": terms.get(n, {}).get(stem, 0.0) for n in range(1, top + 1)}}
    for at, number in enumerate(sorted(terms), 1):
        for name, entry in names.items():
            value = terms[number].get(name, entry.default)
            if value is not None:
                others[f"{name}{at}"] = value
    return others


def _polynomial(rows: Sequence[Row], definitions: int) -> tuple[str, list[Row]]:
    """Return `rb` is in powers of cos(phi-180 degrees): every odd one changes its sign in those of cos(phi)."""
    found = []
    for row in rows:
        others = {name: value for name, value in row.items() if not re.fullmatch("c[0-5]", name)}
        powers = [row.get(f"c{n}", 0.0) * (-1.0) ** n for n in range(6)]
        found.append({**others, **{f"a{n + 1}": value for n, value in enumerate(powers)}})
    return "nharmonic", found


def _improper_cosine(rows: Sequence[Row], definitions: int) -> tuple[str, list[Row]]:
    """Return a single cosine with a phase of 0 or 180 degrees is `cvff`."""
    half = 180.0 if definitions == 2 else math.pi
    found = []
    for row in with_defaults("improper", "periodic", rows, definitions):
        phase = row.get("phase1", 0.0)
        if "k2" in row or "k1" not in row or phase not in (0.0, half):
            raise UnsupportedError(
                f"the row {row.get('name')!r} of improper.periodic is no single cosine with a phase of 0 or 180 "
                "degrees, and LAMMPS has no style for it"
            )
        sign = 1.0 if phase == 0.0 else -1.0
        kept = {name: value for name, value in row.items() if name in ("name", "desc")}
        found.append({**kept, "k": row["k1"], "sign": sign, "periodicity": row["periodicity1"]})
    return "cvff", found


_OTHERWISE: Mapping[tuple[str, str], Callable[[Sequence[Row], int], tuple[str, list[Row]]]] = {
    ("dihedral", "rb"): _polynomial,
    ("improper", "periodic"): _improper_cosine,
}


UNKNOWN = "unknown"
_TEXTS = (*ENDPOINT_COLUMNS, "name")


class Reading:
    """One force field on its way to LAMMPS."""

    def __init__(self, force_field: ForceField, types: Mapping[str, Sequence[str]], report: Report) -> None:
        self.force_field, self.report = _in_usual_angles(force_field), report
        force_field = self.force_field
        self.definitions = force_field.definitions
        stated = force_field.document.get("lammps")
        self.stated: dict[str, Any] = stated if isinstance(stated, dict) else {}
        self.tables = {(style.category, style.style): force_field.tables[style.block] for style in force_field.styles}
        self.params = {(style.category, style.style): dict(style.params) for style in force_field.styles}
        self.numbers = {kind: self._numbers(kind, types.get(kind)) for kind in ("atom", *CATEGORIES[1:])}
        self.done: set[tuple[str, str]] = set()

    def begin(self) -> Potential:
        """Return the potential with all but its pairs and maps."""
        found = Potential(units=units_style(self.force_field.units))
        found.scales = [str(word) for word in self.stated.get("scales", [])]
        found.pair_modify = [tuple(words) for words in self.stated.get("pair_modify", [])]
        found.kspace_modify = [tuple(words) for words in self.stated.get("kspace_modify", [])]
        found.dielectric = self.stated.get("dielectric")
        found.cmap = list(self.stated.get("cmap", []))
        kspace = self.stated.get("kspace")
        found.kspace = tuple(kspace) if kspace else None
        self._add_types(found)
        weights = self.force_field.special_bonds
        stated = self.stated.get("special_bonds")
        if weights is not None:
            found.special_bonds = special_words(weights, stated)
        self._add_masses(found)
        for category in CATEGORIES[1:]:
            self._add_relation(found, category)
        return found

    def finish(self, found: Potential) -> None:
        """Add the maps, and refuse what has no place in LAMMPS."""
        self._add_maps(found)
        self._refuse_rest()

    def remembered(self, category: str) -> dict[str, Any]:
        """Return what the document remembers of the styles of a category."""
        found = self.stated.get("styles", {}).get(category, {})
        return found if isinstance(found, dict) else {}

    def arguments(self, style: str, category: str, params: Mapping[str, float | str]) -> tuple[str, ...]:
        """Return the words behind a style's name for its parameters. `UnsupportedError` where one is missing."""
        row = find_style(category, style)
        if row is not None:
            words = row.argument_words(gathered(params, row.arguments.slots))
            if words is not None and (words or not any(name.startswith("arg") for name in params)):
                return words
        words = tuple(_word(params[f"arg{n}"]) for n in range(1, len(params) + 1) if f"arg{n}" in params)
        if words or row is None or row.arguments.required == 0:
            return words
        raise UnsupportedError(
            f"{category}_style {style} of LAMMPS needs {row.arguments.text!r} and the force field does not state it"
        )

    def _numbers(self, kind: str, given: Sequence[str] | None) -> dict[str, int]:
        """Name → number of the types of a kind."""
        if given is not None:
            return {name: n + 1 for n, name in enumerate(given)}
        labels = self.stated.get("labels", {}).get(kind)
        if labels:
            return {(label or str(n + 1)): n + 1 for n, label in enumerate(labels)}
        names: dict[str, None] = {}
        for (category, _), table in self.tables.items():
            if category == kind and "name" in table.columns:
                names.update(dict.fromkeys(table.stored("name").tolist()))
            elif kind == "atom" and category == "pair":
                for end in ("itom", "jtom"):
                    if end in table.columns:
                        names.update(dict.fromkeys(name for name in table.stored(end).tolist() if name))
        if all(name.isascii() and name.isdigit() and name[0] != "0" for name in names):
            return {name: int(name) for name in names}
        return {name: n + 1 for n, name in enumerate(names)}

    def _add_types(self, found: Potential) -> None:
        for kind, numbers in self.numbers.items():
            count = max([*numbers.values(), int(self.stated.get("types", {}).get(kind, 0))], default=0)
            if count:
                found.type_counts[kind] = count
            names = {number: name for name, number in numbers.items()}
            if any(name != str(number) for number, name in names.items()):
                found.labels[kind] = [names.get(n + 1, "") for n in range(count)]

    def _add_masses(self, found: Potential) -> None:
        for (category, style), table in self.tables.items():
            if category != "atom":
                continue
            self.done.add((category, style))
            for row in table_rows(table):
                number = self.number("atom", str(row["name"])) if "mass" in row else None
                if number is not None:
                    found.masses[number] = number_word(row["mass"])

    def number(self, kind: str, name: str) -> int | None:
        """Return the number of a type; None, and said so, for one the caller's types are without."""
        number = self.numbers[kind].get(name)
        if number is None:
            self.report.dropped(f"forcefield {kind} type {name}", "nothing of the system has this type")
        return number

    def _add_relation(self, found: Potential, category: str) -> None:
        remembered = self.remembered(category)
        hybrid = remembered.get("hybrid")
        known = {entry["table"]: entry for entry in remembered.get("styles", [])}
        styles: list[PotentialStyle] = []
        parts = [f"/{part}" for part in PARTS.get(category, ())]
        tables = [name for (other, name) in self.tables if other == category]
        # A cross term has the table of its style before its own.
        crossed = {name for name in tables for part in parts if name.endswith(part) and name[: -len(part)] in tables}
        own = [name for name in tables if name not in crossed]
        multiple = len([name for name in own if name != "none"]) > 1 or hybrid is not None
        for name in own:
            entry = known.get(name)
            style = entry["style"] if entry else None
            used = self._add_rows(found, category, name, style, hybrid=multiple)
            if used != UNKNOWN and not (used == "none" and multiple):
                styles.append(self._style(category, name, used, entry))
            for part in PARTS.get(category, ()):
                if f"{name}/{part}" in crossed:
                    self._add_part(found, category, name, used, part, hybrid=multiple)
        if styles:
            order = [entry["table"] for entry in remembered.get("styles", [])]
            styles.sort(key=lambda style: order.index(style.where) if style.where in order else len(order))
            found.styles[category] = [PotentialStyle(s.name, s.args, s.index, "", s.stated) for s in styles]
        if multiple:
            found.hybrid[category] = hybrid or "hybrid"

    def _style(self, category: str, table: str, style: str, entry: Mapping[str, Any] | None) -> PotentialStyle:
        """Return a style; its table stands in for where it was said, for the order."""
        args: tuple[str, ...] = ()
        stated = entry is None or "args" in entry
        if stated:
            params = self.params[(category, table)]
            args = self.arguments(style, category, params)
            if entry is not None and self._same_arguments(category, style, entry["args"], args):
                args = tuple(entry["args"])
        return PotentialStyle(style, args, 0, table, stated)

    def _same_arguments(self, category: str, style: str, a: Sequence[str], b: Sequence[str]) -> bool:
        row = find_style(category, style)
        return row is not None and row.read_arguments(a) == row.read_arguments(b) is not None

    def _add_rows(self, found: Potential, category: str, table: str, style: str | None, *, hybrid: bool) -> str:
        """Add the rows of a table; the name of the style they are of."""
        self.done.add((category, table))
        block = self.tables[(category, table)]
        rows = table_rows(block)
        if style is None:
            style, rows = foreign_style(category, table, rows, self.definitions)
        used = style_map(category, style, "", self.definitions)
        for row in with_defaults(category, used.table, rows, self.definitions):
            number = self.number(category, str(row["name"]))
            if number is not None:
                words, name = row_words(used, row), style if hybrid else ""
                found.coefficients.append(Coefficient(category, (number,), words, name, comment=_comment(row)))
        return style

    def _add_part(self, found: Potential, category: str, table: str, style: str, part: str, *, hybrid: bool) -> None:
        key = (category, f"{table}/{part}")
        self.done.add(key)
        used = style_map(category, style, part, self.definitions)
        rows = table_rows(self.tables[key])
        if part == "ba":
            self._check_rest_angles(category, table, style, rows)
        for row in rows:
            number = self.number(category, str(row["name"]))
            if number is not None:
                words, name = row_words(used, row), style if hybrid else ""
                found.coefficients.append(Coefficient(category, (number,), words, name, 0, part, comment=_comment(row)))

    def _check_rest_angles(
        self, category: str, table: str, style: str, rows: Sequence[Mapping[str, float | str]]
    ) -> None:
        """The angle of a bond-angle term is that of the main row: LAMMPS has no other."""
        main = style_map(category, style, "", self.definitions)
        angles = {row["name"]: main.values(row).get("theta0") for row in table_rows(self.tables[(category, table)])}
        for row in rows:
            if "theta0" in row and row["name"] in angles and row["theta0"] != angles[row["name"]]:
                raise UnsupportedError(
                    f"the row {row['name']!r} of {category}.{table}/ba has another theta0 than that of "
                    f"{category}.{table}, and LAMMPS has one for both"
                )

    def _add_maps(self, found: Potential) -> None:
        key = ("cmap", "charmm")
        if key in self.tables:
            self.done.add(key)
            if not found.cmap:
                found.cmap = [str(self.params[key].get("file", "charmm.cmap"))]

    def _refuse_rest(self) -> None:
        for category, style in self.tables:
            if (category, style) not in self.done:
                raise UnsupportedError(f"LAMMPS has nothing that is {category}.{style} of the force field")


def _in_usual_angles(force_field: ForceField) -> ForceField:
    """Return the force field with its angles in what its definitions have them in, where a style has any."""
    stated = angle_unit(force_field.units, force_field.definitions)
    if stated is None or stated == {1: "radian", 2: "degree"}[force_field.definitions]:
        return force_field
    return to_definitions(force_field, 2 if force_field.definitions == 1 else 1)


def table_rows(table: Block) -> list[dict[str, Any]]:
    """Return the rows of a table, each without what is null; texts and numbers as Python has them."""
    rows: list[dict[str, Any]] = [{} for _ in range(table.count)]
    for name, column in table.columns.items():
        if column.trailing:
            continue
        values = column.values.tolist()
        valid = [True] * len(values) if column.validity is None else column.validity.tolist()
        for row, value, there in zip(rows, values, valid, strict=True):
            if there:
                row[name] = value
    return rows


def row_words(style: StyleMap, row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words of a row of a table. `UnsupportedError` names the style and what it lacks."""
    known = find_style(style.category, style.style, style.part)
    own = {name: value for name, value in row.items() if name not in _TEXTS and name not in ANNOTATIONS}
    if known is not None and known.coefficients.alternatives and not ("c1" in own and style.slot("c1") is None):
        values = style.values(own)
        words = known.words(values)
        if words is not None:
            return words
        raise UnsupportedError(
            f"the row {row.get('name')!r} of {style.category}.{style.table} has no form in LAMMPS, whose style "
            f"{style.style} takes {known.coefficients.text!r}"
        )
    return tuple(_word(own[f"c{n}"]) for n in range(1, len(own) + 1) if f"c{n}" in own)


def _word(value: float | str) -> str:
    return value if isinstance(value, str) else number_word(value)


def _comment(row: Mapping[str, Any]) -> str:
    return str(row.get("desc", ""))
