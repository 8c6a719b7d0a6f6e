"""Dimensions: products of powers of quantities, and the factor of one between the units of two records.

A dimension is written in words, `energy/length**3`, as `--dimension` takes it, or with the letters of LAMMPS' style
table, `E/L^2`. The base quantities are those a record states units of: length, energy, mass, time, charge; temperature
is in kelvin. Derived quantities (force, velocity, pressure, density, dipole) have the unit that is stated for
them, else that of what they are made of. The empty dimension is a pure number, or has one unit everywhere.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from molrec_convert.errors import UsageError
from molrec_convert.quantities.units import (
    PRESETS,
    QUANTITIES,
    conversion_factor,
    dimension_fault,
    nearest_quantity,
    nearest_unit,
    preset_units,
    same_unit,
    size_of,
    unit_of_quantity,
)

__all__ = [
    "BASES",
    "DERIVED",
    "UnitConversion",
    "check_dimension",
    "parse_dimensions",
    "parse_units",
    "same_units",
    "unit_of_dimension",
    "units_object",
    "units_words",
    "written_out",
]

#: Base quantities of dimensions.
BASES = ("length", "energy", "mass", "time", "charge", "angle")
#: Derived quantity → what it is made of where it has no unit of its own.
DERIVED = {
    "force": "energy/length",
    "velocity": "length/time",
    "pressure": "energy/length**3",
    "density": "mass/length**3",
    "dipole": "charge*length",
    "temperature": "",
}
_LETTERS = {"E": "energy", "L": "length", "M": "mass", "t": "time", "Q": "charge", "A": "angle", "F": "force"}
_LETTERS |= {"V": "velocity", "D": "density", "P": "dipole", "T": "temperature", "deg": "", "rad": ""}
_WORD = re.compile(r"[A-Za-z]+")
_POWER = re.compile(r"([A-Za-z]+)((?:(?:\*\*|\^)\d+)?)")
_SHAPE = re.compile(r"\(?(?:[A-Za-z]+|1)(?:(?:\*\*|\^)\d+)?\)?(?:[*/]\(?[A-Za-z]+(?:(?:\*\*|\^)\d+)?\)?)*")


def check_dimension(text: str, source: str = "--dimension") -> str:
    """Return a dimension in words; raise UsageError for a text that is none, naming the nearest quantity."""
    plain = text.strip().replace(" ", "")
    if plain in ("", "1", "none"):
        return ""
    known = (*BASES, *DERIVED, *_LETTERS)
    for word in _WORD.findall(plain):
        if word not in known:
            near = nearest_quantity(word, (*BASES, *DERIVED))
            hint = f"did you mean {near}?" if near else f"there are {', '.join((*BASES, *DERIVED))}"
            raise UsageError(f"{source}: {word!r} is no quantity; {hint}")
    if not _SHAPE.fullmatch(plain):
        raise UsageError(f"{source}: {text!r} is no dimension such as energy, charge*length or energy/length**3")
    return _words(plain)


@functools.lru_cache(maxsize=512)
def _words(dimension: str) -> str:
    """Return a dimension with the letters of style tables written out; angles of these are pure numbers."""

    def word(found: re.Match[str]) -> str:
        name = _LETTERS.get(found[1], found[1])
        return f"{name}{found[2]}" if name else "1"

    return _POWER.sub(word, dimension).replace("^", "**")


def unit_of_dimension(dimension: str, units: Mapping[str, Any]) -> str | None:
    """Return the unit text of a dimension among a record's units; None where they do not say.

    >>> unit_of_dimension("energy/length", {"preset": "metal"})
    '(eV)/(angstrom)'
    """
    missing = False

    def unit(found: re.Match[str]) -> str:
        nonlocal missing
        word = found[0]
        if word == "temperature":
            return "kelvin"
        stated = unit_of_quantity(units, word)
        if stated is None and word in DERIVED:
            stated = unit_of_dimension(DERIVED[word], units)
        if stated is None:
            missing = True
            return "1"
        return f"({stated})"

    text = _WORD.sub(unit, _words(dimension)) if dimension else "1"
    return None if missing else text


class UnitConversion:
    """From the units of one record to other units; `source` and `target` are `units` objects, a preset or quantities.

    Each factor is the double nearest to the exact ratio of the two units of the whole dimension.
    """

    def __init__(self, source: Mapping[str, Any], target: Mapping[str, Any]) -> None:
        self.source, self.target = dict(source), dict(target)
        self._factors: dict[str, float | None] = {}

    def __repr__(self) -> str:
        return f"UnitConversion({units_words(self.source)} -> {units_words(self.target)})"

    @property
    def changes(self) -> bool:
        """True if a unit of the target differs from the source's, or the source does not state it; angles apart."""
        known = {*BASES, *DERIVED} - {"angle"}
        return any(self.factor(quantity) != 1.0 for quantity in written_out(self.target) if quantity in known)

    def factor(self, dimension: str) -> float | None:
        """Return what a number of a dimension is multiplied by; None where one of the units is not stated or known."""
        if not dimension:
            return 1.0
        if dimension not in self._factors:
            ours, theirs = (unit_of_dimension(dimension, units) for units in (self.source, self.target))
            self._factors[dimension] = None if ours is None or theirs is None else conversion_factor(ours, theirs)
        return self._factors[dimension]


def units_object(units: Any) -> dict[str, Any]:
    """Return a record's units as a mapping: a text is a preset, anything else that is no mapping states none."""
    if isinstance(units, str):
        return {"preset": units}
    return dict(units) if isinstance(units, Mapping) else {}


def written_out(units: Mapping[str, Any]) -> dict[str, str]:
    """Return the units quantity by quantity, a preset written out; those stated come first."""
    preset = units.get("preset")
    found = preset_units(preset) if isinstance(preset, str) and preset in PRESETS else {}
    found.update({key: text for key, text in units.items() if key != "preset" and isinstance(text, str)})
    return found


def units_words(units: Mapping[str, Any]) -> str:
    """Return units as a sentence has them: the preset, or `angstrom, eV, ps`."""
    if "preset" in units:
        return str(units["preset"])
    return ", ".join(str(units[key]) for key in (*BASES, *DERIVED) if key in units and key not in ("angle", "force"))


def parse_units(text: str, source: str = "--units") -> dict[str, Any]:
    """Return the `units` object of a text: a preset (`metal`), or quantities (`length=nm,energy=kJ/mol`), or both.

    Each unit is checked against its quantity; raises UsageError with the nearest right word.
    """
    stated: dict[str, Any] = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        quantity, equals, unit = (word.strip() for word in part.partition("="))
        if not equals:
            if part not in PRESETS:
                near = nearest_quantity(part, list(PRESETS))
                hint = f"did you mean {near}? " if near else ""
                raise UsageError(f"{source} {part}: {hint}name one of {', '.join(PRESETS)}, or QUANTITY=UNIT")
            if stated:
                raise UsageError(f"{source} {text}: a preset comes first, what differs from it after")
            stated["preset"] = part
            continue
        check_unit(quantity, unit, f"{source} {part}")
        stated[quantity] = unit
    if not stated:
        raise UsageError(f"{source} names no unit: name one of {', '.join(PRESETS)}, or QUANTITY=UNIT")
    if len(stated) > 1 and "preset" in stated:
        if stated["preset"] == "lj":
            raise UsageError(f"{source} {text}: reduced units (lj) have no unit of another quantity")
        return {**written_out({"preset": stated["preset"]}), **{k: v for k, v in stated.items() if k != "preset"}}
    return stated


def check_unit(quantity: str, unit: str, source: str) -> None:
    """Raise UsageError for a quantity there is not, or a text that is no unit of it."""
    known = (*QUANTITIES, *(name for name in DERIVED if name != "temperature"))
    if quantity not in known:
        near = nearest_quantity(quantity, known)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
        raise UsageError(f"{source}: {quantity!r} is no quantity; {hint}")
    if quantity in QUANTITIES:
        fault = dimension_fault(quantity, unit)
    else:
        example = unit_of_dimension(DERIVED[quantity], {"preset": "metal"})
        found, right = size_of(unit), None if example is None else size_of(example)
        fault = None if found and right and found.dimension == right.dimension else f"is no unit of {quantity}"
    if fault is not None:
        near = nearest_unit(quantity, unit)
        hint = f"did you mean {near}?" if fault == "is no unit" else f"name one such as {near}"
        raise UsageError(f"{source}: {unit!r} {fault}; {hint}")


def parse_dimensions(words: Mapping[str, str]) -> dict[str, str]:
    """Return the dimension of each name, checked; raises UsageError as `check_dimension` does."""
    return {name: check_dimension(text, f"--dimension {name}={text}") for name, text in words.items()}


def same_units(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """True if two `units` objects state the same units of the same quantities."""
    first, second = written_out(a), written_out(b)
    return first.keys() == second.keys() and all(same_unit(first[key], second[key]) for key in first)
