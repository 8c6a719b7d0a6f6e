"""The atom style of a data file that is written: the one asked for, the record's own, or the least that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from molrec_convert.report import Report
from molrec_lammps.common.atom_styles import ATOM_STYLES, AtomStyle, style_named
from molrec_lammps.write.state import State

__all__ = ["style_of_state"]

_RELATIONS = ("bonds", "angles", "dihedrals", "impropers")
#: Styles by the columns that tell them, the first that fits counts.
_TOLD_BY = (
    ("sphere", ("diameter", "density")),
    ("spin", ("spx", "spy", "spz", "sp")),
    ("dipole", ("mux", "muy", "muz", "charge")),
    ("electron", ("eradius", "spin")),
)


def style_of_state(state: State, document: Mapping[str, Any], asked: str | None, report: Report) -> AtomStyle:
    """The atom style to write. UsageError: `asked` (`--target-atom-style`) names none."""
    if asked is not None:
        return style_named(asked, "--target-atom-style")
    own = document.get("atom_style")
    if isinstance(own, str) and own:
        return style_named(own, "the record's atom style")
    style = _least(state)
    report.derived("atom style", f"{style.name}, the least that holds what the record has")
    return style


def _least(state: State) -> AtomStyle:
    related = [name for name in _RELATIONS if name in state.blocks and state.blocks[name].count]
    molecules = bool(related) or "mol_id" in state.atoms or "mol" in state.atoms
    charged = "charge" in state.atoms
    if not molecules:
        for name, columns in _TOLD_BY:
            if all(column in state.atoms for column in columns):
                return ATOM_STYLES[name]
        return ATOM_STYLES["charge" if charged else "atomic"]
    if charged:
        return ATOM_STYLES["full"]
    if any(name in related for name in ("dihedrals", "impropers")):
        return ATOM_STYLES["molecular"]
    return ATOM_STYLES["angle" if "angles" in related else "bond"]
