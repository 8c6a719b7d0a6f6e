"""Pair tables into pair styles: those of a source of LAMMPS as they were, those of other origin as LAMMPS has them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_lammps.potential.potential import Coefficient, Potential, PotentialStyle, is_mixed, mixed_values
from molrec_lammps.potential.rows import COULOMB, pair_settings
from molrec_lammps.potential.style_maps import PAIR_PARTS, PairParts, StyleMap, own_map, pair_map
from molrec_lammps.potential.style_table import (
    StyleRow,
    Value,
    bare_style,
    find_style,
    gathered,
    is_number,
    number_word,
)
from molrec_lammps.potential.to_lammps import Reading, row_words, table_rows

__all__ = ["PairReading", "pair_rows"]

Row = dict[str, Any]


def pair_rows(reading: Reading, table: str) -> dict[tuple[int, int], Row]:
    """Row by pair of types, the smaller number first. `UnsupportedError` for endpoints that are no types."""
    rows = table_rows(reading.tables[("pair", table)])
    style = reading.force_field.style("pair", table)
    if style.endpoint_key == "smirks":
        raise UnsupportedError(f"the rows of pair.{table} are keyed by patterns, which LAMMPS has no types for")
    if style.endpoint_key == "type" and all(row["itom"] and row["jtom"] for row in rows):
        found = {}
        for row in rows:
            a, b = (reading.number("atom", row[end]) for end in ("itom", "jtom"))
            if a is not None and b is not None:
                found[(min(a, b), max(a, b))] = row
    else:
        found = _expanded(reading, rows, keyed_by_class=style.endpoint_key == "class")
    _fill(reading, table, found)
    return found


def _expanded(reading: Reading, rows: list[Row], *, keyed_by_class: bool) -> dict[tuple[int, int], Row]:
    """Return every pair of types with the row that fits it best: the fewest wildcards first."""
    labels = _classes(reading) if keyed_by_class else {name: name for name in reading.numbers["atom"]}
    known: dict[tuple[str, str], Row] = {}
    for row in rows:
        ends = sorted((row["itom"], row["jtom"]))
        known.setdefault((ends[0], ends[1]), row)
    found = {}
    numbers = sorted(reading.numbers["atom"].items(), key=lambda item: item[1])
    for name_a, a in numbers:
        for name_b, b in numbers:
            if a > b:
                continue
            one, other = sorted((labels.get(name_a, name_a), labels.get(name_b, name_b)))
            for key in ((one, other), ("", one), ("", other), ("", "")):
                if key in known:
                    found[(a, b)] = known[key]
                    break
    return found


def _classes(reading: Reading) -> dict[str, str]:
    return {
        str(row["name"]): str(row["class"])
        for (category, _), table in reading.tables.items()
        if category == "atom"
        for row in table_rows(table)
        if "class" in row
    }


def _fill(reading: Reading, table: str, rows: dict[tuple[int, int], Row]) -> None:
    """A null cell of a row of two unlike types is the mix of the two own ones: LAMMPS wants it written."""
    params = reading.params[("pair", table)]
    rule = params.get("mixing")
    columns = reading.tables[("pair", table)].columns
    for (a, b), row in list(rows.items()):
        own_a, own_b = rows.get((a, a)), rows.get((b, b))
        if a == b or own_a is None or own_b is None:
            continue
        if is_mixed(row, own_a, own_b, params):
            del rows[(a, b)]
        elif isinstance(rule, str):
            missing = [name for name in columns if name not in row]
            filled = mixed_values(missing, own_a, own_b, rule, params) if missing else {}
            for name in filled:
                reading.report.derived(f"pair.{table} {row['name']} {name}", f"mixed by the {rule} rule")
            rows[(a, b)] = {**row, **filled}


_CHARGES = ("coul/cut", "coul/long/pme", "coul/charmm")
#: The accuracy of long-range sums where a record states none.
_ACCURACY = 1e-5


@dataclass(frozen=True)
class _Use:
    """One pair style to be stated: its name and index, its table and that of its charges, what is remembered of it."""

    style: str
    table: str
    charges: str
    parts: PairParts | None
    index: int = 0
    args: Sequence[str] | None = None
    stated: bool = True


class PairReading:
    """The pair tables of one force field on their way to LAMMPS."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.tables = [style for category, style in reading.tables if category == "pair"]
        self.names = {number: name for name, number in reading.numbers["atom"].items()}

    def add(self, found: Potential) -> None:
        """State the pair styles, their rows, and what goes with them."""
        remembered = self.reading.remembered("pair")
        uses = self._remembered(remembered)
        hybrid = remembered.get("hybrid") if uses is not None else None
        if uses is None:
            uses = self._foreign()
            hybrid = "hybrid/overlay" if len(uses) > 1 else None
        for use in uses:
            self.reading.done.update(("pair", name) for name in (use.table, use.charges) if name)
            if not (use.style == "none" and hybrid) and use.style != "unknown":
                found.styles.setdefault("pair", []).append(self._style(use))
            self._add_rows(found, use, hybrid=hybrid is not None)
            self._add_modifiers(found, use, hybrid=hybrid is not None)
        if hybrid is not None:
            found.hybrid["pair"] = hybrid
        self._add_constants(found)

    def _remembered(self, remembered: Mapping[str, Any]) -> list[_Use] | None:
        """Return what a source of LAMMPS had, None when the tables are not those any more."""
        uses = []
        hybrid = "hybrid" in remembered
        for entry in remembered.get("styles", []):
            style, table = entry["style"], entry["table"]
            bare = bare_style(style)
            parts = PAIR_PARTS.get(bare)
            if parts is not None and (hybrid and table not in (parts.table, parts.charges)):
                parts = None
            charges = entry.get("charges", "")
            args = entry.get("args")
            uses.append(_Use(style, table, charges, parts, entry.get("index", 0), args, args is not None))
        names = {name for use in uses for name in (use.table, use.charges) if name}
        return uses if names == set(self.tables) else None

    def _foreign(self) -> list[_Use]:
        """Return what LAMMPS calls tables nothing is remembered of: one style where it has one for all, else an
        overlay.
        """
        charges = [name for name in self.tables if name in _CHARGES]
        others = [name for name in self.tables if name not in _CHARGES]
        if len(charges) <= 1 and len(others) <= 1 and self.tables:
            wanted = ("".join(others), "".join(charges))
            for style, parts in PAIR_PARTS.items():
                if (parts.table, parts.charges) == wanted:
                    params = self.reading.params.get(("pair", parts.table), {})
                    if (params.get("n", 12), params.get("m", 6)) == (12, 6):
                        return [_Use(style, wanted[0] or wanted[1], wanted[1] if wanted[0] else "", parts)]
        return [self._single(name) for name in self.tables]

    def _single(self, table: str) -> _Use:
        params = self.reading.params[("pair", table)]
        if table == "lj/cut" and (params.get("n", 12), params.get("m", 6)) != (12, 6):
            return _Use("mie/cut", table, "", None)
        for style, parts in PAIR_PARTS.items():
            if table in (parts.table, parts.charges) and not (parts.table and parts.charges):
                return _Use(style, table, "", parts)
        if find_style("pair", table) is None:
            raise UnsupportedError(f"LAMMPS has no pair style that is pair.{table} of the force field")
        return _Use(table, table, "", None)

    def _map(self, use: _Use) -> StyleMap:
        if use.parts is not None:
            return pair_map(use.style, self.reading.definitions)
        return own_map("pair", use.table, use.style, "", self.reading.definitions)

    def _style(self, use: _Use) -> PotentialStyle:
        if not use.stated:
            return PotentialStyle(use.style, (), use.index, stated=False)
        args = self._arguments(use)
        row = find_style("pair", use.style)
        if use.args is not None and row is not None:
            before, now = row.read_arguments(use.args), row.read_arguments(args)
            if before is not None and now is not None and self._meaning(use, before) == self._meaning(use, now):
                args = tuple(use.args)
        return PotentialStyle(use.style, args, use.index)

    def _arguments(self, use: _Use) -> tuple[str, ...]:
        params = self.reading.params[("pair", use.table)]
        if use.parts is None:
            return self.reading.arguments(use.style, "pair", params)
        row = find_style("pair", use.style)
        if row is None or row.arguments.required == 0:
            return ()
        values: dict[str, Value] = {}
        for name, arguments in use.parts.params.items() if use.parts.table else ():
            if name in params:
                values[arguments[0]] = params[name]
        charges = self.reading.params[("pair", use.charges)] if use.charges else params
        wanted = use.parts.charge_params if use.parts.charges else {}
        own = {names: charges[name] for name, names in wanted.items() if name in charges}
        if any(len(names) == 1 or value != values.get(names[1]) for names, value in own.items()):
            values.update({names[0]: value for names, value in own.items()})
        words = row.argument_words(values)
        if words is None:
            raise UnsupportedError(
                f"pair_style {use.style} of LAMMPS needs {row.arguments.text!r} and pair.{use.table} states no such"
            )
        return words

    def _meaning(self, use: _Use, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return arguments with those filled in that stand for others where they are left out."""
        filled = dict(values)
        for names in use.parts.charge_params.values() if use.parts is not None else ():
            for name, other in itertools.pairwise(names):
                if other in filled:
                    filled.setdefault(name, filled[other])
        return filled

    def _add_rows(self, found: Potential, use: _Use, *, hybrid: bool) -> None:
        known = find_style("pair", use.style)
        name, index = (use.style, use.index) if hybrid else ("", 0)
        if known is not None and known.every and not self._row_by_row(use.table):
            words = self._file_words(use, known)
            if words is not None:
                rows = [(pair, words, "") for pair in self._all_pairs()]
            else:
                rows = []
        else:
            rows = self._rows(use, known)
        for pair, words, comment in rows:
            found.coefficients.append(Coefficient("pair", pair, words, name, index, comment=comment))

    def _row_by_row(self, table: str) -> bool:
        """True if a style that takes one row for all types has a row for each pair instead: it is not for all."""
        block = self.reading.tables[("pair", table)]
        return block.count > 0 and "element" not in block.columns

    def _rows(self, use: _Use, known: StyleRow | None) -> list[tuple[tuple[int, int], tuple[str, ...], str]]:
        map_ = self._map(use)
        rows = pair_rows(self.reading, use.table)
        charges = pair_rows(self.reading, use.charges) if use.charges else {}
        unstated = use.style != "none" and known is not None and not known.coefficients.required
        if unstated and not rows and not self.reading.tables[("pair", use.table)].count:
            rows = {pair: rows.get(pair, {}) for pair in self._all_pairs()}
        both = known is not None and known.coefficients.slot("cutoff_coul") is not None
        found = []
        for pair, row in rows.items():
            row = self._with_cutoffs(use, row, charges.get(pair, {})) if both and use.charges else row
            if use.style == "mie/cut" and use.table == "lj/cut":
                params = self.reading.params[("pair", use.table)]
                row = {**row, "gammaR": params.get("n", 12.0), "gammaA": params.get("m", 6.0)}
            found.append((pair, row_words(map_, row), str(row.get("desc", ""))))
        return found

    def _with_cutoffs(self, use: _Use, row: dict[str, Any], charge: Mapping[str, Any]) -> dict[str, Any]:
        """Return one cutoff in a row is that of the charges too, so that each is stated where it is not."""
        own, other = row.get("cutoff"), charge.get("cutoff")
        if own is None and other is None:
            return row
        if own is None:
            own = self.reading.params[("pair", use.table)].get("cutoff")
        if other is None:
            other = self.reading.params[("pair", use.charges)].get("cutoff")
        return {**row, "cutoff": own} if own == other or other is None else {**row, "cutoff": own, "cutoff_coul": other}

    def _file_words(self, use: _Use, known: StyleRow) -> tuple[str, ...] | None:
        params = self.reading.params[("pair", use.table)]
        values = gathered(params, known.coefficients.slots)
        each = next((slot.name for slot in known.coefficients.slots if slot.kind == "each"), None)
        if each is not None:
            numbers = self.reading.numbers["atom"]
            elements = {
                numbers[str(row["itom"])]: str(row["element"])
                for row in table_rows(self.reading.tables[("pair", use.table)])
                if "element" in row and str(row["itom"]) in numbers
            }
            if elements and sorted(elements) != sorted(self.names):
                raise UnsupportedError(
                    f"pair.{use.table} has no element for some atom types, and LAMMPS wants one for each"
                )
            values[each] = tuple(elements[number] for number in sorted(elements))
        return known.words(values)

    def _all_pairs(self) -> list[tuple[int, int]]:
        numbers = sorted(self.names)
        return [(a, b) for a in numbers for b in numbers if a <= b]

    def _add_modifiers(self, found: Potential, use: _Use, *, hybrid: bool) -> None:
        """`pair_modify` where the mixing rule or the shift is not what the commands so far make it."""
        params = self.reading.params[("pair", use.table)]
        known = find_style("pair", use.style)
        now = pair_settings(found.pair_modify, use.style, use.index)
        prefix = ("pair", use.style, *((str(use.index),) if use.index else ())) if hybrid else ()
        mixing = params.get("mixing")
        if isinstance(mixing, str) and known is not None and not known.mixing_fixed:
            if (now.mix or known.mixing) != mixing:
                found.pair_modify.append((*prefix, "mix", mixing))
        elif isinstance(mixing, str) and known is not None and mixing != known.mixing:
            raise UnsupportedError(f"pair.{use.table} mixes by the {mixing} rule, and pair_style {use.style} cannot")
        shift = "yes" if params.get("shift") not in (None, 0, 0.0, "no") else "no"
        if (now.shift or "no") != shift and ("shift" in params or use.args is None):
            found.pair_modify.append((*prefix, "shift", shift))

    def _add_constants(self, found: Potential) -> None:
        """The dielectric constant, and the solver of long-range sums."""
        for table in self.tables:
            params = self.reading.params[("pair", table)]
            if params.get("delta", 0) not in (0, 0.0) and table == "coul/cut":
                raise UnsupportedError("pair.coul/cut has a delta, which LAMMPS cannot hold")
            stated = params.get("dielectric")
            if isinstance(stated, (int, float)) and table in _CHARGES:
                now = float(found.dielectric) if found.dielectric and is_number(found.dielectric) else 1.0
                if stated != now:
                    found.dielectric = number_word(stated)
            constant = params.get("coulomb")
            usual = COULOMB.get(found.units or "")
            if isinstance(constant, (int, float)) and usual is not None and not found.dielectric and constant != usual:
                self.reading.report.converted(
                    f"pair.{table} coulomb", f"LAMMPS' constant is {usual!r}, not {constant!r}"
                )
            if table == "coul/long/pme":
                self._add_solver(found, params)

    def _add_solver(self, found: Potential, params: Mapping[str, float | str]) -> None:
        if found.kspace:
            accuracy = params.get("accuracy")
            if isinstance(accuracy, (int, float)) and len(found.kspace) > 1 and float(found.kspace[1]) != accuracy:
                found.kspace = (found.kspace[0], number_word(accuracy), *found.kspace[2:])
            return
        accuracy = params.get("accuracy")
        if not isinstance(accuracy, (int, float)):
            if self.reading.stated:
                return
            accuracy = _ACCURACY
            self.reading.report.derived("kspace_style", f"the record states no accuracy: {_ACCURACY:g} is taken")
        found.kspace = (str(params.get("kspace", "pppm")), number_word(accuracy))
        if isinstance(alpha := params.get("alpha"), (int, float)):
            found.kspace_modify.append(("gewald", number_word(alpha)))
        if isinstance(order := params.get("order"), (int, float)):
            found.kspace_modify.append(("order", str(int(order))))
        grid = [params.get(f"grid_{axis}") for axis in "xyz"]
        if all(isinstance(n, (int, float)) for n in grid):
            found.kspace_modify.append(("mesh", *(str(int(n)) for n in grid if isinstance(n, (int, float)))))
