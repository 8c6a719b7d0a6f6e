"""The mass of each atom type, which LAMMPS has one of, from masses of atoms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_convert.errors import UnsupportedError
from molrec_convert.meaning.element_guessing import mass_of_element
from molrec_convert.model import ForceField
from molrec_convert.report import Report
from molrec_lammps.common.units import UNITS
from molrec_lammps.write.state import State
from molrec_lammps.write.types import Types
from molrec_lammps.write.units import Conversion

__all__ = ["Masses", "brings_masses", "masses_of", "named_masses"]

#: Pair styles whose coefficient files state masses, which LAMMPS sets with them.
_BRING_MASSES = {"eam", "eam/alloy", "eam/cd", "eam/fs", "eam/he", "adp", "eim", "meam"}


@dataclass(frozen=True)
class Masses:
    """The mass and the comment of each type, from type 1 on."""

    values: list[float]
    comments: list[str]


def masses_of(
    state: State,
    types: Types,
    document: Mapping[str, Any],
    units: str | None,
    report: Report,
    *,
    needed: bool = False,
    own: bool = False,
    named: Mapping[str, float] | None = None,
) -> Masses | None:
    """The masses of all types: of their atoms, else those a data file stated, else of their elements (reported).

    `named` are those the force field states, by the names of types. Elements count where there was no data file, or
    where masses are `needed`.

    None where a type has none, which `needed` refuses by an UnsupportedError; so is a type whose atoms have several.
    `own`: the atom style has masses of atoms, and only what a data file stated is written.
    """
    found: list[float | None] = [None] * types.count
    for number, mass in enumerate(document.get("masses", ())[: types.count]):
        found[number] = None if mass is None else float(mass)
    if not own:
        for number, mass in _of_atoms(state, types).items():
            found[number - 1] = mass
        for number, name in enumerate(types.names, 1):
            if found[number - 1] is None and named is not None and name in named:
                found[number - 1] = named[name]
        if None in found and (needed or not document):
            _from_elements(found, state, types, units, report)
    missing = [number for number, mass in enumerate(found, 1) if mass is None]
    if missing:
        text = f"atom type {missing[0]} ({types.names[missing[0] - 1]}) has no mass"
        if needed:
            raise UnsupportedError(
                f"{text}, and LAMMPS runs nothing without one: --elements says what the types are when a LAMMPS source "
                "is read, a data file or a script beside a dump states masses"
            )
        if len(missing) < types.count:
            report.dropped("Masses", f"{text}, and a data file has one of each type or none")
        return None
    if not found:
        return None
    comments = [str(text) for text in document.get("mass_comments", ())[: types.count]]
    comments += [""] * (types.count - len(comments))
    return Masses([mass for mass in found if mass is not None], comments)


def brings_masses(force_field: ForceField | None) -> bool:
    """Whether LAMMPS takes the masses of all types from the files of the pair style, where a data file has none."""
    styles = [] if force_field is None else force_field.document.get("styles", [])
    pairs = {str(style.get("style")) for style in styles if isinstance(style, dict) and style.get("category") == "pair"}
    return bool(pairs) and pairs <= _BRING_MASSES


def named_masses(force_field: ForceField | None, units: str | None) -> dict[str, float]:
    """The mass of each atom type a force field states one for, by its name, in the units style that is written."""
    found: dict[str, float] = {}
    if force_field is None:
        return found
    conversion = Conversion.between(force_field.units, units)
    for name, table in force_field.tables.items():
        if name.startswith("atom.") and "mass" in table.columns and "name" in table.columns:
            known = table.validity("mass")
            masses = table.stored("mass")[known] * conversion.factor("M", "masses of the force field")
            found.update(zip(table.stored("name")[known].tolist(), masses.tolist(), strict=True))
    return found


def _of_atoms(state: State, types: Types) -> dict[int, float]:
    """The mass of each type that has atoms with one."""
    column = state.atoms.get("mass")
    if column is None or column.dtype != "f64" or column.trailing:
        return {}
    known = np.ones(len(column), dtype=np.bool_) if column.validity is None else column.validity
    numbers, masses = types.numbers[known], state.values("mass")[known]
    first = np.full(types.count + 1, -1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    differs = masses != masses[first[numbers]] if len(numbers) else np.zeros(0, dtype=np.bool_)
    if differs.any():
        row = int(differs.argmax())
        own, other = float(masses[first[numbers[row]]]), float(masses[row])
        raise UnsupportedError(
            f"atoms/mass: atoms of type {numbers[row]} ({types.names[numbers[row] - 1]}) have the masses "
            f"{own!r} and {other!r}, and LAMMPS has one of each type; give them types of their own"
        )
    return {number: float(masses[first[number]]) for number in range(1, types.count + 1) if first[number] >= 0}


def _from_elements(found: list[float | None], state: State, types: Types, units: str | None, report: Report) -> None:
    """Fill in the atomic weight of the element all atoms of a type have."""
    column = state.atoms.get("element")
    unit = UNITS[units].mass if units in UNITS else 1.0
    if column is None or column.dtype != "string" or unit is None:
        return
    for number, mass in enumerate(found, 1):
        if mass is not None:
            continue
        rows = np.flatnonzero(types.numbers == number)
        names = set(column.values[rows].tolist()) if len(rows) else {types.names[number - 1]}
        weight = mass_of_element(names.pop()) if len(names) == 1 else None
        if weight is not None:
            found[number - 1] = weight / unit
            report.derived("Masses", f"type {number} ({types.names[number - 1]}): the atomic weight of its element")
