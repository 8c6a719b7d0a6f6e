"""A potential into a force field: the document, and the tables of all categories, pairs among them.

Source: Force field, "LAMMPS mapping".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.model import ForceField
from molrec_convert.model.forcefield.document import table_from_rows
from molrec_convert.report import Report
from molrec_lammps.potential.potential import (
    CATEGORIES,
    Coefficient,
    Potential,
    PotentialStyle,
    mapped_pairs,
    mixed_row,
    type_count,
    type_names,
)
from molrec_lammps.potential.rows import (
    COULOMB,
    FileFacts,
    PairSettings,
    RowReading,
    misfit,
    pair_settings,
    special_bonds,
)
from molrec_lammps.potential.style_maps import (
    PAIR_PARTS,
    PairParts,
    StyleMap,
    charge_expression,
    own_map,
    pair_map,
    style_map,
)
from molrec_lammps.potential.style_table import PARTS, StyleRow, Value, bare_style, find_style, is_number

__all__ = ["UNKNOWN", "PairWriting", "Writing"]

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
        """Return the styles of a category: those stated, then those that only rows name."""
        found = list(self.potential.styles.get(category, []))
        for other, name, index in self.rows:
            if other == category and not any((style.name, style.index) == (name, index) for style in found):
                where = self.rows[(category, name, index)][0].where
                found.append(PotentialStyle(name, (), index, where, stated=False))
        return found

    def arguments(self, category: str, style: PotentialStyle) -> dict[str, float | str]:
        """Return the arguments of a style as parameters: under the names of the table, else numbered."""
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
        """Return what is remembered of a style, for the way back."""
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
        """Return what the document keeps of LAMMPS' own words: what no other key says, and how it was said."""
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


Row = dict[str, float | str]
_MIXING = ("geometric", "arithmetic", "sixthpower")


@dataclass(frozen=True)
class _Plan:
    """Where one pair style goes: its map, and what the contract makes of it (None: it keeps its own names)."""

    style: PotentialStyle
    map: StyleMap
    parts: PairParts | None
    scale: str | None = None


class PairWriting:
    """The pair styles of one potential on their way into a force field."""

    def __init__(self, writing: Writing) -> None:
        self.writing, self.potential = writing, writing.potential
        self.names = writing.names["atom"]
        self.hybrid = "pair" in self.potential.hybrid

    def add(self, found: ForceField, used: dict[str, Any]) -> None:
        """Add the tables of all pair styles, and what is remembered of them to `used`."""
        entries = []
        for number, style in enumerate(self.writing.styles("pair")):
            plan = self._plan(style, number)
            rows = self.writing.rows.get(("pair", style.name, style.index), [])
            known = find_style("pair", style.name)
            if known is not None and self._is_for_all(style, rows, known):
                self._add_file_style(found, plan, rows, known)
            else:
                self._add_style(found, plan, rows)
            table = plan.map.table
            charges = plan.parts.charges if plan.parts is not None and plan.parts.table else ""
            entries.append(self.writing.entry(style, table, **({"charges": charges} if charges else {})))
        self.writing.remember(used, "pair", entries)

    def _plan(self, style: PotentialStyle, number: int) -> _Plan:
        definitions, bare = self.writing.definitions, bare_style(style.name)
        parts = PAIR_PARTS.get(bare)
        if not self.hybrid:
            return _Plan(style, pair_map(bare, definitions), parts)
        scale = self.potential.scales[number] if number < len(self.potential.scales) else None
        single = parts is not None and not (parts.table and parts.charges)
        partial = parts is not None and not parts.table and not self._covers_all(style)
        if scale is None and single and style.index in (0, 1) and not partial:
            return _Plan(style, pair_map(bare, definitions), parts)
        table = f"{bare} {style.index}" if style.index > 1 else bare
        if parts is not None and single:
            table = f"{bare} {style.index or 1}"
        return _Plan(style, own_map("pair", table, bare, "", definitions), None, scale)

    def _covers_all(self, style: PotentialStyle) -> bool:
        rows = self.writing.rows.get(("pair", style.name, style.index), [])
        return len({row.types for row in rows}) == len(self.names) * (len(self.names) + 1) // 2

    def _is_for_all(self, style: PotentialStyle, rows: Sequence[Coefficient], known: StyleRow) -> bool:
        """True if one row of a style that takes one says it all: no types are left out but those it maps to NULL."""
        if not known.takes_all(style.args) or len({row.words for row in rows}) > 1:
            return False
        numbers = range(1, len(self.names) + 1)
        pairs = [(a, b) for a in numbers for b in numbers if a <= b]
        own = {row.types for row in rows}
        return not rows or own in (set(pairs), set(mapped_pairs(style.name, rows[0].words, pairs, len(self.names))))

    def _add_style(self, found: ForceField, plan: _Plan, coefficients: Sequence[Coefficient]) -> None:
        reading = RowReading(plan.map, self.writing.files, len(self.names))
        parts = plan.parts
        rows, charge_rows = [], []
        for row, values in zip(coefficients, reading.rows(coefficients), strict=True):
            ends = self._ends(row)
            if parts is not None and parts.charges and parts.table:
                own = values.pop("cutoff_coul", values.get("cutoff") if _both(plan) else None)
                if own is not None:
                    charge_rows.append({**ends, "cutoff": own})
            rows.append({**ends, **values})
        if self._says_nothing(plan, coefficients):
            rows = []
        settings = pair_settings(self.potential.pair_modify, plan.style.name, plan.style.index)
        params = self._params(plan, settings, coefficients)
        rows += self._mixed_rows(plan, settings, coefficients, rows, params)
        if "mixing" in params:
            self._state_unmixed(plan, params, rows, charge_rows)
            order = {row["name"]: number for number, row in enumerate(rows)}
            charge_rows.sort(key=lambda row: order[row["name"]])
        table = table_from_rows("pair", rows)
        expression = None if reading.generic else plan.map.expression(table.columns)
        if expression is not None and plan.scale is not None:
            formula, semicolon, rest = expression.partition(";")
            expression = f"scale*({formula}){semicolon}{rest}"
        found.add("pair", plan.map.table, table, params=params, expression=expression)
        self.writing.note(plan.map, expression)
        if parts is not None and parts.charges and parts.table:
            self._add_charges(found, plan, parts, charge_rows)

    def _add_charges(self, found: ForceField, plan: _Plan, parts: PairParts, rows: list[dict[str, Any]]) -> None:
        params = self._chosen(plan, parts.charge_params)
        found.add(
            "pair",
            parts.charges,
            table_from_rows("pair", rows),
            params={**params, **self._constants(parts.charges)},
            expression=charge_expression(parts.charges, self.writing.definitions),
        )

    def _params(self, plan: _Plan, settings: PairSettings, rows: Sequence[Coefficient]) -> Row:
        known = find_style("pair", plan.style.name)
        if plan.parts is None:
            params = self.writing.arguments("pair", plan.style)
            if plan.scale is not None:
                params["scale"] = float(plan.scale) if is_number(plan.scale) else plan.scale
            if known is not None and "coul" in known.flags:
                params["special"] = "coul"
            if known is not None and known.expression is not None and "coulomb" in known.expression:
                params.update(self._constants(""))
        elif plan.parts.table:
            params = self._chosen(plan, plan.parts.params)
        else:
            params = {**self._chosen(plan, plan.parts.charge_params), **self._constants(plan.parts.charges)}
        mixing = self._mixing(plan, known, settings, rows)
        if mixing is not None:
            params["mixing"] = mixing
        if settings.shift == "yes":
            params["shift"] = 1
        return params

    def _mixing(
        self, plan: _Plan, known: StyleRow | None, settings: PairSettings, rows: Sequence[Coefficient]
    ) -> str | None:
        """Return the rule LAMMPS mixes with, None where it does not, or nothing says."""
        if known is None or known.mixing is None:
            return None
        if self.hybrid and self._given_elsewhere(plan.style, rows):
            return None
        return self._rule(plan, known, settings)

    def _rule(self, plan: _Plan, known: StyleRow, settings: PairSettings) -> str | None:
        """Return the rule for pairs without a row, where there are any."""
        if known.mixing_fixed:
            return known.mixing
        if settings.mix in _MIXING:
            return settings.mix
        return known.mixing if plan.style.stated else None

    def _given_elsewhere(self, style: PotentialStyle, rows: Sequence[Coefficient]) -> bool:
        """True if two types that both have rows of this sub-style are a pair of another one only."""
        own = {row.types for row in rows}
        alone = {a for a, b in own if a == b}
        return any(
            a != b and a in alone and b in alone and (a, b) not in own
            for (category, name, index), others in self.writing.rows.items()
            if category == "pair" and (name, index) != (style.name, style.index)
            for a, b in (row.types for row in others)
        )

    def _says_nothing(self, plan: _Plan, coefficients: Sequence[Coefficient]) -> bool:
        """True if the rows of a style are for every pair and state nothing: the style alone says as much."""
        known = find_style("pair", plan.style.name)
        if (
            known is None
            or known.style == "none"
            or known.coefficients.required
            or any(row.words for row in coefficients)
        ):
            return False
        return not self.hybrid or self._covers_all(plan.style)

    def _mixed_rows(
        self,
        plan: _Plan,
        settings: PairSettings,
        coefficients: Sequence[Coefficient],
        rows: Sequence[dict[str, Any]],
        params: Row,
    ) -> list[dict[str, Any]]:
        """Return the pairs a sub-style mixes, where it does not mix all: they are written out, since no rule says
        which.
        """
        known = find_style("pair", plan.style.name)
        if not self.hybrid or known is None or not self._given_elsewhere(plan.style, coefficients):
            return []
        rule = self._rule(plan, known, settings) if known.mixing is not None else None
        given = {
            row.types for (category, _, _), all_ in self.writing.rows.items() if category == "pair" for row in all_
        }
        own = {row.types[0]: values for row, values in zip(coefficients, rows, strict=True) if len(set(row.types)) == 1}
        open_pairs = [(a, b) for a in sorted(own) for b in sorted(own) if a < b and (a, b) not in given]
        required = [slot.name for slot in plan.map.required]
        found = []
        for a, b in open_pairs if rule is not None else ():
            mixed = mixed_row(own[a], own[b], rule or "", params, required)
            if mixed is None:
                self.writing.report.warn(f"how pair_style {plan.style.name} mixes is not stated in the record")
                return []
            found.append({**self._ends(Coefficient("pair", (a, b), ())), **mixed})
        if found:
            names = ", ".join(str(row["name"]) for row in found[:6])
            names += f" and {len(found) - 6} more" if len(found) > 6 else ""
            self.writing.report.derived(f"pair.{plan.map.table} {names}", str(found[0]["desc"]))
        return found

    def _state_unmixed(
        self, plan: _Plan, params: Row, rows: Sequence[dict[str, Any]], charge_rows: list[dict[str, Any]]
    ) -> None:
        """State what a row of two unlike types leaves to LAMMPS: a null there would be the mix of the two own ones.

        LAMMPS takes the cutoffs of the style, and for the 1-4 neighbours of CHARMM the numbers of the row itself.
        """
        own = {row["itom"] for row in rows if row["itom"] == row["jtom"] and "cutoff" in row}
        charmm = any("epsilon14" in row for row in rows)
        cutoff = params.get("cutoff")
        for row in rows:
            if row["itom"] == row["jtom"]:
                continue
            if charmm:
                row.setdefault("epsilon14", row["epsilon"])
                row.setdefault("sigma14", row["sigma"])
            if isinstance(cutoff, (int, float)) and "cutoff" not in row and own & {row["itom"], row["jtom"]}:
                row["cutoff"] = float(cutoff)
                if _both(plan) and plan.parts is None:
                    row["cutoff_coul"] = float(params.get("cutoff_coul", cutoff))
                elif _both(plan) and plan.parts is not None:
                    ends = {key: row[key] for key in ("name", "itom", "jtom")}
                    charges = self._chosen(plan, plan.parts.charge_params)
                    charge_rows.append({**ends, "cutoff": float(charges["cutoff"])})

    def _chosen(self, plan: _Plan, wanted: Any) -> Row:
        """Return the parameters of a part of a style: each the first of its arguments that is given."""
        known = find_style("pair", plan.style.name)
        values: dict[str, Value] | None = None if known is None else known.read_arguments(plan.style.args)
        if values is None:
            return self.writing.arguments("pair", plan.style) if plan.style.args else {}
        params: Row = {}
        for name, arguments in wanted.items():
            given = next((values[argument] for argument in arguments if argument in values), None)
            if given is not None and not isinstance(given, tuple):
                params[name] = given
        return params

    def _constants(self, charges: str) -> Row:
        """Return the Coulomb constant of the units, and the dielectric constant where a command states it."""
        units, stated = self.potential.units, self.potential.dielectric
        constant = COULOMB.get(units or "")
        found: Row = {}
        dielectric = float(stated) if stated is not None and is_number(stated) else 1.0
        if charges == "coul/long/pme":
            if constant is not None:
                found["coulomb"] = constant / dielectric
            found.update(self._kspace())
            return found
        if constant is not None:
            found["coulomb"] = constant
        if stated is not None or not charges:
            found["dielectric"] = dielectric
        return found

    def _kspace(self) -> Row:
        """Return the solver, its accuracy and its settings."""
        words = self.potential.kspace or ()
        found: Row = {}
        if words:
            found["kspace"] = words[0]
        if len(words) > 1 and is_number(words[1]):
            found["accuracy"] = float(words[1])
        for command in self.potential.kspace_modify:
            rest = list(command)
            while rest:
                key = rest.pop(0)
                if key == "gewald" and rest and is_number(rest[0]) and float(rest[0]):
                    found["alpha"] = float(rest.pop(0))
                elif key == "order" and rest and is_number(rest[0]):
                    found["order"] = int(float(rest.pop(0)))
                elif key == "mesh" and len(rest) >= 3 and all(map(is_number, rest[:3])):
                    mesh = [int(float(rest.pop(0))) for _ in range(3)]
                    if any(mesh):
                        found.update({f"grid_{axis}": n for axis, n in zip("xyz", mesh, strict=True)})
        return found

    def _add_file_style(
        self, found: ForceField, plan: _Plan, coefficients: Sequence[Coefficient], known: StyleRow
    ) -> None:
        """A style whose numbers are in files: one row for all types, an element word for each."""
        params = self.writing.arguments("pair", plan.style)
        rows = []
        if coefficients:
            row = coefficients[-1]
            values = known.read(row.words, len(self.names))
            if values is None:
                raise misfit(row, known.coefficients.text)
            for name, value in values.items():
                slot = known.coefficients.slot(name)
                if slot is not None and slot.kind == "each" and isinstance(value, tuple):
                    rows = [
                        {"name": f"{atom}-{atom}", "itom": atom, "jtom": atom, "element": word}
                        for atom, word in zip(self.names, value, strict=True)
                    ]
                elif isinstance(value, tuple):
                    params.update({f"{name}{n + 1}": word for n, word in enumerate(value)})
                elif slot is not None and slot.kind == "file":
                    params.update(self.writing.files.params(name, str(value)))
                else:
                    params[name] = value
        if plan.scale is not None:
            params["scale"] = float(plan.scale) if is_number(plan.scale) else plan.scale
        found.add("pair", plan.map.table, table_from_rows("pair", rows), params=params)
        self.writing.note(plan.map, None)

    def _ends(self, row: Coefficient) -> dict[str, Any]:
        if len(row.types) != 2:
            raise misfit(row, "two atom types")
        a, b = (self.names[number - 1] for number in row.types)
        annotation = {"desc": row.comment} if row.comment else {}
        # A label may hold a hyphen itself; a blank it cannot hold.
        joint = " " if "-" in a + b else "-"
        return {"name": f"{a}{joint}{b}", "itom": a, "jtom": b, **annotation}


def _both(plan: _Plan) -> bool:
    """True if one cutoff in a row is that of the charges as well."""
    known = find_style("pair", plan.style.name)
    return known is not None and known.coefficients.slot("cutoff_coul") is not None
