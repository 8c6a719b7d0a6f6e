"""Units of what is written: which LAMMPS style a record is in, and turning any units into those of a style.

Factors come from pint; a quantity is a product of powers of the base quantities `E` energy, `L` length, `M` mass, `t`
time, `Q` charge, `T` temperature, `F` force, `V` velocity, `D` density and `P` dipole. Source: the manual, "units".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Record
from molrec_convert.quantities.units import unit_of_quantity
from molrec_convert.report import Report
from molrec_lammps.units import UNITS

__all__ = ["DIMENSIONS", "Conversion", "conversion_of", "preset_of", "style_written", "title_with_units", "units_text"]

_TITLE = re.compile(r"\bunits\s*=\s*[a-z]+\b")
_FACTOR = re.compile(r"(?P<sign>[*/]?)(?P<name>deg|rad|[A-Za-z]|1)(?:\^(?P<power>\d+))?")
_BASES = {"E": "energy", "L": "length", "M": "mass", "t": "time", "Q": "charge"}
#: What is no quantity of its own but made of others.
_DERIVED = {"F": "E/L", "V": "L/t"}
#: Units of one style that do not follow from its base units: density, and dipole moment.
_DENSITY = {"real": "g/cm**3", "metal": "g/cm**3"}
_DIPOLE = {"electron": "debye"}
#: Units of one quantity are one when they differ by no more: a dalton is not quite a gram per mole.
_ONE_UNIT = 1e-8
#: Things in a mole, and the Gaussian unit of charge in coulombs, which pint keeps apart.
_AVOGADRO = 6.02214076e23
_STATCOULOMB = "(3.3356409519815204e-10 * coulomb)"

#: The dimension of each column of atoms that a record's units hold for; "1" for a pure number.
DIMENSIONS: dict[str, str] = {
    **dict.fromkeys(("x", "y", "z", "xu", "yu", "zu"), "L"),
    **dict.fromkeys(("vx", "vy", "vz", "ervel"), "V"),
    **dict.fromkeys(("fx", "fy", "fz"), "F"),
    **dict.fromkeys(("mass",), "M"),
    **dict.fromkeys(("charge",), "Q"),
    **dict.fromkeys(("mux", "muy", "muz", "mu"), "P"),
    **dict.fromkeys(("density",), "D"),
    **dict.fromkeys(("omegax", "omegay", "omegaz"), "1/t"),
    **dict.fromkeys(("angmomx", "angmomy", "angmomz"), "M*L*V"),
    **dict.fromkeys(("tqx", "tqy", "tqz"), "F*L"),
    **dict.fromkeys(("diameter", "radius", "eradius", "shapex", "shapey", "shapez"), "L"),
    **dict.fromkeys(("end1x", "end1y", "end2x", "end2y"), "L"),
    **{f"corner{corner}{axis}": "L" for corner in "123" for axis in "xyz"},
    **dict.fromkeys(("theta",), "T"),
    **dict.fromkeys(("xs", "ys", "zs", "xsu", "ysu", "zsu", "spx", "spy", "spz"), "1"),
    **dict.fromkeys(("quatw", "quati", "quatj", "quatk"), "1"),
    **dict.fromkeys(("pe", "ke", "energy"), "E"),
}


@dataclass(frozen=True)
class Conversion:
    """From the units of a record to a LAMMPS units style; `target` None converts nothing.

    `source` is the record's `units` object. Factors are those of dimensions such as `E/L^2`; asking for one the
    record's units do not settle is an UnsupportedError that names what is missing.
    """

    target: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.target is not None

    def factor(self, dimension: str, what: str) -> float:
        """By what a number of that dimension is multiplied. `what` names it in the error."""
        if self.target is None or not dimension:
            return 1.0
        total = 1.0
        end = 0
        for match in _FACTOR.finditer(dimension):
            if match.start() != end:
                break
            end = match.end()
            power = int(match["power"] or 1) * (-1 if match["sign"] == "/" else 1)
            total *= self._base(match["name"], what) ** power
        if end != len(dimension):
            raise UnsupportedError(f"{what}: the dimension {dimension!r} cannot be converted")
        return total

    def column(self, name: str) -> float:
        """The factor of a column of atoms. UnsupportedError: a column whose dimension is not known."""
        if self.target is None:
            return 1.0
        dimension = DIMENSIONS.get(name)
        if dimension is None:
            raise UnsupportedError(
                f"atoms/{name}: its dimension is not known, so it cannot be converted to units {self.target}; write "
                "without --target-units, or leave the column out"
            )
        return self.factor(dimension, f"atoms/{name}")

    def _base(self, name: str, what: str) -> float:
        if name in ("deg", "rad", "1", "T"):
            return 1.0
        if name in _DERIVED:
            return self.factor(_DERIVED[name], what)
        if name in "DP" and len(name) == 1:
            ratio = _ratio(self._unit(name, self.source, what), self._unit(name, {"preset": self.target}, what))
        else:
            quantity = _BASES.get(name)
            if quantity is None:
                raise UnsupportedError(f"{what}: the dimension {name!r} cannot be converted")
            ratio = _ratio(self._quantity(quantity, self.source, what), str(_of_style(str(self.target), quantity)))
        return ratio

    def _quantity(self, quantity: str, units: Mapping[str, Any], what: str) -> str:
        unit = unit_of_quantity(units, quantity)
        if unit is None:
            raise UnsupportedError(
                f"{what}: the record's units do not state the {quantity}, so it cannot be converted to units "
                f"{self.target}"
            )
        return unit

    def _unit(self, name: str, units: Mapping[str, Any], what: str) -> str:
        preset = str(units.get("preset", ""))
        special = (_DENSITY if name == "D" else _DIPOLE).get(preset)
        if special is not None:
            return special
        parts = ("mass", "length") if name == "D" else ("charge", "length")
        first, second = (self._quantity(quantity, units, what) for quantity in parts)
        return f"({first})/({second})**3" if name == "D" else f"({first})*({second})"


def conversion_of(record: Record, target: str | None) -> Conversion:
    """The conversion of what a record holds to the units style asked for. UnsupportedError: what has no way there."""
    if target is None:
        return Conversion()
    units = _units_object(record)
    if units is None:
        raise UnsupportedError(
            f"the record does not state its units, so nothing can be converted to units {target}; --units names those "
            "of a LAMMPS source"
        )
    if units.get("preset") == target:
        return Conversion()
    if "lj" in (target, units.get("preset")):
        raise UnsupportedError(
            f"units {units.get('preset', units)} cannot be converted to units {target}: reduced units need a length, "
            "an energy and a mass that nothing states"
        )
    return Conversion(target, units)


def preset_of(record: Record, conversion: Conversion | None = None) -> str | None:
    """The LAMMPS units style of what is written, None where the record states none or others."""
    if conversion:
        return conversion.target
    units = _units_object(record)
    preset = None if units is None else units.get("preset")
    if preset in UNITS:
        return str(preset)
    return None if units is None else _style_with(units)


def style_written(record: Record, conversion: Conversion, dimensions: Iterable[str], report: Report) -> str | None:
    """Return the units style whose units numbers of these dimensions are in; None where several fit, or nothing tells.

    UnsupportedError: the record's units are those of no style, so that a file would mix them.
    """
    own = preset_of(record, conversion)
    units = _units_object(record)
    if own is not None or units is None:
        return own
    told = {name for name in dict.fromkeys(dimensions) if _bases_of(name) and _stated(units, _bases_of(name))}
    if not told:
        return None
    fitting = [style for style in UNITS if style != "lj" and all(_fits(units, style, name) for name in told)]
    if not fitting:
        raise UnsupportedError(
            f"the record's units ({units_text(units)}) are those of no units style of LAMMPS, and a file would mix "
            "them; --target-units real (or metal, ...) converts everything"
        )
    report.carried("units", f"{units_text(units)}: all that is written is as in units {' and '.join(fitting)}")
    return fitting[0] if len(fitting) == 1 else None


def units_text(units: Mapping[str, Any] | str) -> str:
    """Return the units of a record in words: the style, or each quantity's unit."""
    if isinstance(units, str):
        return units
    return str(units["preset"]) if set(units) == {"preset"} else ", ".join(f"{k} {unit}" for k, unit in units.items())


def title_with_units(title: str, units: str) -> str:
    """The first line of a data file, saying the units."""
    if _TITLE.search(title):
        return _TITLE.sub(f"units = {units}", title, count=1)
    return f"{title}, units = {units}" if title else f"LAMMPS data file, units = {units}"


def _units_object(record: Record) -> dict[str, Any] | None:
    units = record.units
    if isinstance(units, str):
        return {"preset": units}
    return units if isinstance(units, dict) and units else None


def _style_with(units: Mapping[str, Any]) -> str | None:
    """The style whose units are those stated, quantity by quantity; a length and an energy must be among them."""
    stated = {name: units[name] for name in _BASES.values() if isinstance(units.get(name), str)}
    if not {"length", "energy"} <= set(stated):
        return None
    for style in UNITS:
        own = {name: _of_style(style, name) for name in stated}
        if all(unit is not None and _same(stated[name], unit) for name, unit in own.items()):
            return style
    return None


def _bases_of(dimension: str) -> set[str]:
    """The base quantities a dimension is made of, by their letters."""
    names = {match["name"] for match in _FACTOR.finditer(dimension)}
    made = {"F": {"E", "L"}, "V": {"L", "t"}, "D": {"M", "L"}, "P": {"Q", "L"}}
    return set().union(*(made.get(name, {name}) for name in names)) & _BASES.keys()


def _stated(units: Mapping[str, Any], bases: Iterable[str]) -> bool:
    return all(unit_of_quantity(units, _BASES[base]) is not None for base in bases)


def _fits(units: Mapping[str, Any], style: str, dimension: str) -> bool:
    """Whether numbers of a dimension are the same in the record's units and in those of a style."""
    try:
        return abs(Conversion(style, units).factor(dimension, "") - 1.0) < _ONE_UNIT
    except UnsupportedError:
        return False


def _of_style(style: str, quantity: str) -> str | None:
    return unit_of_quantity({"preset": style}, quantity)


def _same(a: str, b: str) -> bool:
    try:
        return abs(_ratio(a, b) - 1.0) < _ONE_UNIT
    except UnsupportedError:
        return False


@functools.lru_cache(maxsize=256)
def _ratio(a: str, b: str) -> float:
    """How many of unit `b` one of unit `a` is; a mole of things counts as that many."""
    if a.split() == b.split():
        return 1.0
    try:
        first, second = (_registry().parse_expression(text.replace("statcoulomb", _STATCOULOMB)) for text in (a, b))
        ratio = (first / second).to_base_units()
        moles = ratio.dimensionality.get("[substance]", 0)
        ratio = (ratio / _registry().Quantity(1.0, "mol") ** moles).to_base_units()
        if not ratio.dimensionless:
            raise ValueError(f"one has dimensions {first.dimensionality}, the other {second.dimensionality}")
        return _neat(float(ratio.magnitude * _AVOGADRO**moles))
    except Exception as error:  # pint raises whatever it likes for a text that is no unit
        raise UnsupportedError(f"the unit {a!r} cannot be converted to {b!r}: {error}") from error


def _neat(factor: float) -> float:
    """A factor without the rounding of its working out: 1000 for 999.9999999999999."""
    short = float(f"{factor:.13g}")
    return short if abs(short - factor) <= 1e-15 * abs(factor) else factor


@functools.cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)
