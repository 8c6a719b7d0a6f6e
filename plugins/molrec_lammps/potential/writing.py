"""A potential into a force field: the document, and the tables of all categories.

Source: Force field, "LAMMPS mapping".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.model import ForceField
from molrec_convert.model.forcefield.document import table_from_rows
from molrec_convert.report import Report
from molrec_lammps.potential.files import FileFacts
from molrec_lammps.potential.names import type_count, type_names
from molrec_lammps.potential.potential import CATEGORIES, Coefficient, Potential, PotentialStyle
from molrec_lammps.potential.rows import RowReading
from molrec_lammps.potential.settings import special_bonds
from molrec_lammps.potential.style_maps import StyleMap, style_map
from molrec_lammps.potential.style_table import PARTS, find_style

__all__ = ["UNKNOWN", "Writing"]

#: The style of coefficients whose style nothing names.
UNKNOWN = "unknown"


class Writing:
    """One potential on its way into a force field."""

    def __init__(self, potential: Potential, report: Report, definitions: int, directory: Path | None) -> None:
        self.potential, self.report, self.definitions = potential, report, definitions
        self.files = FileFacts(directory, report)
        self.names = {kind: type_names(potential, kind) for kind in ("atom", *CATEGORIES[1:])}
        self.rows: dict[tuple[str, str, int], list[Coefficient]] = {}
        for row in potential.final():
            if row.style != "skip" and row.words != ("skip",):
                self.rows.setdefault((row.category, *self._style_key(row)), []).append(row)

    def begin(self, name: str, source: Mapping[str, Any] | None) -> tuple[ForceField, dict[str, Any]]:
        """Return the force field with all but its pairs and maps, and what is remembered of LAMMPS' own words."""
        potential = self.potential
        units: dict[str, str] = {"angle": "degree" if self.definitions == 2 else "radian"}
        if potential.units is not None:
            units = {"preset": potential.units, **units}
        else:
            self.report.warn("nothing names the units of the force field: state them with --units")
        others: dict[str, Any] = {}
        if source is not None:
            others["source"] = dict(source)
        self._add_special_bonds(others)
        found = ForceField.new(name, units, **others)
        found.molrec_version = 2 if self.definitions == 2 else None
        self._add_atoms(found)
        used: dict[str, Any] = {}
        for category in CATEGORIES[1:]:
            self._add_relation(found, category, used)
        return found, used

    def finish(self, found: ForceField, used: dict[str, Any]) -> None:
        """Add the maps, and what is remembered."""
        self._add_maps(found)
        found.document["lammps"] = self._stated(used)

    def styles(self, category: str) -> list[PotentialStyle]:
        """The styles of a category: those stated, then those that only rows name."""
        found = list(self.potential.styles.get(category, []))
        for other, name, index in self.rows:
            if other == category and not any((style.name, style.index) == (name, index) for style in found):
                where = self.rows[(category, name, index)][0].where
                found.append(PotentialStyle(name, (), index, where, stated=False))
        return found

    def arguments(self, category: str, style: PotentialStyle) -> dict[str, float | str]:
        """The arguments of a style as parameters: under the names of the table, else numbered."""
        row = find_style(category, style.name)
        values = None if row is None else row.read_arguments(style.args)
        if row is None or values is None:
            unnamed: dict[str, float | str] = {f"arg{n + 1}": word for n, word in enumerate(style.args)}
            return {**unnamed, **self.files.sums_of_words(unnamed)}
        params: dict[str, float | str] = {}
        for name, value in values.items():
            if isinstance(value, tuple):
                params.update({f"{name}{n + 1}": word for n, word in enumerate(value)})
            else:
                params[name] = value
                slot = None if row is None else row.arguments.slot(name)
                if slot is not None and slot.kind == "file" and isinstance(value, str):
                    params.update(self.files.params(name, value))
        return params

    def note(self, style: StyleMap, expression: str | None) -> None:
        """Say how a style is carried that the contract does not register."""
        row = find_style(style.category, style.style)
        unnamed = not style.part and (row is None or not row.coefficients.alternatives)
        if style.registered is None and unnamed:
            self.report.converted(f"{style.category}_style {style.table}", "its coefficients as c1 c2 …, as they stand")
        if style.registered is None and unnamed and row is None:
            self.report.warn(
                f"{style.category}_style {style.style}: no style of this name is known: its coefficients stay as they "
                "stand, under c1 c2 …"
            )
        elif style.registered is None:
            known = "" if expression is not None else "; it carries no expression of its energy"
            names = "its parameters under LAMMPS' names and in LAMMPS' definitions"
            self.report.converted(f"{style.category}_style {style.table}", f"{names}{known}")
        else:
            self.report.converted(f"{style.category}_style {style.style}", f"{style.category}.{style.table}")

    def _style_key(self, row: Coefficient) -> tuple[str, int]:
        style = self.potential.style_of(row)
        if style is not None:
            return style.name, style.index
        if row.style:
            return row.style, row.index
        if row.part:
            for known in self.potential.styles.get(row.category, []):
                if find_style(row.category, known.name, row.part) is not None:
                    return known.name, known.index
        if len(self.potential.styles.get(row.category, [])) > 1:
            raise FormatError(row.where or row.category, found="a row without a sub-style", expected="its sub-style")
        self.report.warn(f"nothing names the style of the {row.category} coefficients: give the input script as well")
        return UNKNOWN, 0

    def _add_special_bonds(self, others: dict[str, Any]) -> None:
        potential = self.potential
        if potential.special_bonds is not None:
            others["special_bonds"] = special_bonds(potential.special_bonds).document
        elif any(style.stated for style in potential.styles.get("pair", [])):
            others["special_bonds"] = special_bonds(()).document
            self.report.derived("special_bonds", "no command sets them: LAMMPS takes 0 for 1-2, 1-3 and 1-4 neighbours")

    def _add_atoms(self, found: ForceField) -> None:
        masses = self.potential.masses
        rows = [
            {"name": name, "mass": float(masses[n + 1]) if n + 1 in masses else None}
            for n, name in enumerate(self.names["atom"])
        ]
        if rows:
            found.add("atom", "full", table_from_rows("atom", rows))

    def _add_relation(self, found: ForceField, category: str, used: dict[str, Any]) -> None:
        entries = []
        for style in self.styles(category):
            rows = self.rows.get((category, style.name, style.index), [])
            for part in ("", *PARTS.get(category, ())):
                of_part = [row for row in rows if row.part == part]
                if of_part or not part:
                    self._add_table(found, style_map(category, style.name, part, self.definitions), style, of_part)
            table = style_map(category, style.name, "", self.definitions).table
            entries.append(self.entry(style, table))
        self.remember(used, category, entries)

    def _add_table(
        self, found: ForceField, style: StyleMap, stated: PotentialStyle, coefficients: list[Coefficient]
    ) -> None:
        reading = RowReading(style, self.files, type_count(self.potential, "atom"))
        names = self.names[style.category]
        ends = {f"{letter}tom": "" for letter in "ijkl"[: {"bond": 2, "angle": 3}.get(style.category, 4)]}
        rows: list[dict[str, Any]] = []
        for row, values in zip(coefficients, reading.rows(coefficients), strict=True):
            annotation = {"desc": row.comment} if row.comment else {}
            rows.append({"name": names[row.types[0] - 1], **ends, **values, **annotation})
        if style.part in ("ba",):
            self._add_rest_angles(rows, style, coefficients)
        order = {name: number for number, name in enumerate(names)}
        rows.sort(key=lambda row: order[str(row["name"])])
        table = table_from_rows(style.category, rows)
        expression = style.expression(table.columns) if not reading.generic else None
        params = self.arguments(style.category, stated) if not style.part else {}
        found.add(style.category, style.table, table, params=params, expression=expression)
        self.note(style, expression)

    def _add_rest_angles(self, rows: list[dict[str, Any]], style: StyleMap, coefficients: list[Coefficient]) -> None:
        """The angle a bond-angle term is about stands in the main row; the table needs it to price a row."""
        main = RowReading(style_map("angle", style.style, "", 2), self.files, 0)
        known = {
            row.types: main.rows([row])[0].get("theta0")
            for row in self.rows.get(("angle", style.style, 0), [])
            if not row.part
        }
        for row, coefficient in zip(rows, coefficients, strict=True):
            row["theta0"] = known.get(coefficient.types)

    def entry(self, style: PotentialStyle, table: str, **others: Any) -> dict[str, Any]:
        """What is remembered of a style, for the way back."""
        entry: dict[str, Any] = {"style": style.name, "table": table, **others}
        if style.stated:
            entry["args"] = list(style.args)
        if style.index:
            entry["index"] = style.index
        return entry

    def remember(self, used: dict[str, Any], category: str, entries: list[dict[str, Any]]) -> None:
        """Keep what is remembered of the styles of a category."""
        if entries or category in self.potential.hybrid:
            hybrid = self.potential.hybrid.get(category)
            used[category] = {**({"hybrid": hybrid} if hybrid else {}), "styles": entries}

    def _add_maps(self, found: ForceField) -> None:
        """The grids of `fix cmap`."""
        files = list(dict.fromkeys(self.potential.cmap))
        if len(files) > 1:
            raise UnsupportedError(f"several files of fix cmap ({', '.join(files)}) have no place in one record")
        for file in files:
            grids = self.files.cmap(file)
            if grids is not None:
                names = [str(n + 1) for n in range(len(grids))]
                table, params = self.files.cmap_table(names, grids), self.files.params("file", file)
                found.add("cmap", "charmm", table, params=params)
                self.report.converted(f"fix cmap {file}", "cmap.charmm")

    def _stated(self, used: Mapping[str, Any]) -> dict[str, Any]:
        """What the document keeps of LAMMPS' own words: what no other key says, and how it was said."""
        potential = self.potential
        stated: dict[str, Any] = {
            "types": {kind: type_count(potential, kind) for kind in self.names if type_count(potential, kind)},
            "labels": {kind: list(labels) for kind, labels in potential.labels.items() if labels},
            "styles": dict(used),
            "scales": list(potential.scales),
            "pair_modify": [list(words) for words in potential.pair_modify],
            "special_bonds": list(potential.special_bonds or ()),
            "kspace": list(potential.kspace or ()),
            "kspace_modify": [list(words) for words in potential.kspace_modify],
            "dielectric": potential.dielectric,
            "cmap": list(potential.cmap),
        }
        return {key: value for key, value in stated.items() if value}
