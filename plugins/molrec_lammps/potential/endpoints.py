"""Rows of a pair table by the numbers of their two types: wildcards, classes and null cells worked out."""

from __future__ import annotations

from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_lammps.potential.mixing import is_mixed, mixed_values
from molrec_lammps.potential.reading import Reading, table_rows

__all__ = ["pair_rows"]

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
    """Every pair of types with the row that fits it best: the fewest wildcards first."""
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
