"""Pair styles into tables: pairs and charges apart where the contract has them apart, hybrids one table a sub-style.

Under a hybrid a style of charges acts on the pairs it is given to only; unless these are all, it cannot stand under the
contract's name, which means all. Source: Force field, "LAMMPS mapping"; the manual, "pair_hybrid".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from molrec_convert.model import ForceField
from molrec_convert.model.forcefield.document import table_from_rows
from molrec_lammps.potential.hybrid import mapped_pairs
from molrec_lammps.potential.mixing import mixed_row
from molrec_lammps.potential.potential import Coefficient, PotentialStyle
from molrec_lammps.potential.rows import RowReading, misfit
from molrec_lammps.potential.settings import COULOMB, PairSettings, pair_settings
from molrec_lammps.potential.style_maps import (
    PAIR_PARTS,
    PairParts,
    StyleMap,
    charge_expression,
    own_map,
    pair_map,
)
from molrec_lammps.potential.style_patterns import Value, is_number
from molrec_lammps.potential.style_table import StyleRow, bare_style, find_style
from molrec_lammps.potential.writing import Writing

__all__ = ["PairWriting"]

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
        """Whether one row of a style that takes one says it all: no types are left out but those it maps to NULL."""
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
        """The rule LAMMPS mixes with, None where it does not, or nothing says."""
        if known is None or known.mixing is None:
            return None
        if self.hybrid and self._given_elsewhere(plan.style, rows):
            return None
        return self._rule(plan, known, settings)

    def _rule(self, plan: _Plan, known: StyleRow, settings: PairSettings) -> str | None:
        """The rule for pairs without a row, where there are any."""
        if known.mixing_fixed:
            return known.mixing
        if settings.mix in _MIXING:
            return settings.mix
        return known.mixing if plan.style.stated else None

    def _given_elsewhere(self, style: PotentialStyle, rows: Sequence[Coefficient]) -> bool:
        """Whether two types that both have rows of this sub-style are a pair of another one only."""
        own = {row.types for row in rows}
        alone = {a for a, b in own if a == b}
        return any(
            a != b and a in alone and b in alone and (a, b) not in own
            for (category, name, index), others in self.writing.rows.items()
            if category == "pair" and (name, index) != (style.name, style.index)
            for a, b in (row.types for row in others)
        )

    def _says_nothing(self, plan: _Plan, coefficients: Sequence[Coefficient]) -> bool:
        """Whether the rows of a style are for every pair and state nothing: the style alone says as much."""
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
        """The pairs a sub-style mixes, where it does not mix all: they are written out, since no rule says which."""
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
        """The parameters of a part of a style: each the first of its arguments that is given."""
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
        """The Coulomb constant of the units, and the dielectric constant where a command states it."""
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
        """The solver, its accuracy and its settings."""
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
    """Whether one cutoff in a row is that of the charges as well."""
    known = find_style("pair", plan.style.name)
    return known is not None and known.coefficients.slot("cutoff_coul") is not None
