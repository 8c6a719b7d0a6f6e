"""Tables of any origin as LAMMPS' styles: which style a table is, its rows with the contract's defaults filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.model.forcefield.registry import STANDARD
from molrec_convert.model.forcefield.styles import StyleDefinition
from molrec_lammps.potential.style_maps import RETURNED
from molrec_lammps.potential.style_table import find_style

__all__ = ["foreign_style", "with_defaults"]

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
    """Rows with what the contract says a missing parameter is; the terms of a sum numbered from 1 without a gap."""
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
    """Terms as `k1`, `periodicity1`, `phase1`, … in the order of their numbers; a single one may come without any."""
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
    """`rb` is in powers of cos(phi-180 degrees): every odd one changes its sign in those of cos(phi)."""
    found = []
    for row in rows:
        others = {name: value for name, value in row.items() if not re.fullmatch("c[0-5]", name)}
        powers = [row.get(f"c{n}", 0.0) * (-1.0) ** n for n in range(6)]
        found.append({**others, **{f"a{n + 1}": value for n, value in enumerate(powers)}})
    return "nharmonic", found


def _improper_cosine(rows: Sequence[Row], definitions: int) -> tuple[str, list[Row]]:
    """A single cosine with a phase of 0 or 180 degrees is `cvff`."""
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
