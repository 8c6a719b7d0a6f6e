"""The one table of units: unit texts, their exact sizes, and the factor between two of them.

A unit text is an expression such as `kcal/mol`, `g/cm**3` or `picogram * micrometer**2 / microsecond**2`, as pint reads
it. Sizes are exact fractions, so the factor between two units is the double nearest to the true ratio, on every way the
same. Constants are those of CODATA 2022. An amount counts particles: `kcal/mol` is an energy, `g/mol` is the dalton. A
name that is not in the table is looked up in pint, which is loaded only then.

Sources: the SI brochure (2019); CODATA 2022; Force field, "Document" (presets).
"""

from __future__ import annotations

import decimal
import functools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

__all__ = [
    "PRESETS",
    "QUANTITIES",
    "Size",
    "conversion_factor",
    "dimension_fault",
    "nearest_quantity",
    "nearest_unit",
    "preset_units",
    "same_unit",
    "size_of",
    "unit_of_quantity",
]

#: Quantities a `units` object may state, each with units of the dimensions it may have.
QUANTITIES: dict[str, tuple[str, ...]] = {
    "length": ("angstrom",),
    "energy": ("eV", "kcal/mol"),
    "angle": ("radian",),
    "charge": ("e", "statcoulomb"),
    "mass": ("dalton", "g/mol"),
    "time": ("fs",),
}

#: Preset → quantity → unit in definitions 1. `lj` is reduced: nothing but the angle has a unit.
PRESETS: dict[str, dict[str, str]] = {
    name: dict(zip(QUANTITIES, texts, strict=True)) if len(texts) > 1 else {"angle": texts[0]}
    for name, texts in {
        "real": ("angstrom", "kcal/mol", "radian", "e", "dalton", "fs"),
        "metal": ("angstrom", "eV", "radian", "e", "dalton", "ps"),
        "si": ("m", "J", "radian", "C", "kg", "s"),
        "cgs": ("cm", "erg", "radian", "statcoulomb", "g", "s"),
        "electron": ("bohr", "hartree", "radian", "e", "dalton", "fs"),
        "micro": (
            "micrometer",
            "picogram * micrometer**2 / microsecond**2",
            "radian",
            "picocoulomb",
            "picogram",
            "microsecond",
        ),
        "nano": ("nm", "attogram * nm**2 / ns**2", "radian", "e", "attogram", "ns"),
        "lj": ("radian",),
    }.items()
}

#: Units of derived quantities that do not follow from those of the base quantities. Source: LAMMPS' manual, "units".
_PRESET_DERIVED: dict[str, dict[str, str]] = {
    "real": {"pressure": "atm", "density": "g/cm**3"},
    "metal": {"pressure": "bar", "density": "g/cm**3"},
    "si": {"pressure": "Pa"},
    "cgs": {"pressure": "dyne/cm**2"},
    "electron": {"pressure": "Pa", "dipole": "debye"},
}

_AVOGADRO = Fraction(602214076 * 10**15)
_CHARGE = Fraction(1602176634, 10**28)
_DALTON = Fraction("1.66053906892e-27")
_BOHR = Fraction("5.29177210544e-11")
_HARTREE = Fraction("4.3597447222060e-18")
_ATOMIC_TIME = Fraction("2.4188843265864e-17")
_ELECTRON = Fraction("9.1093837139e-31")
_BOLTZMANN = Fraction("1.380649e-23")
_LIGHT = 299792458
_PI = Fraction("3.14159265358979323846264338327950288419716939937511")

#: Base dimensions: length, mass, time, charge, temperature, amount.
_BASES = "LMTQKN"
_Dimension = tuple[Fraction, ...]


@dataclass(frozen=True)
class Size:
    """How large a unit is in SI units, and the powers of length, mass, time, charge, temperature, amount in it."""

    value: Fraction
    dimension: _Dimension

    def __mul__(self, other: Size) -> Size:
        return Size(
            self.value * other.value, tuple(a + b for a, b in zip(self.dimension, other.dimension, strict=True))
        )

    def __truediv__(self, other: Size) -> Size:
        return self * other.power(Fraction(-1))

    def power(self, exponent: Fraction) -> Size:
        """Return the unit raised to a power; roots to 60 digits."""
        value = self.value**exponent.numerator
        if exponent.denominator != 1:
            value = _root(value, exponent.denominator)
        return Size(value, tuple(entry * exponent for entry in self.dimension))

    def counted(self) -> Size:
        """Return the size with amounts as numbers of particles, and a molar mass as that of a particle."""
        amount = self.dimension[5]
        if not amount:
            return self
        if self.dimension == _dimension("M N^-1"):
            return Size(self.value * 1000 * _DALTON, _dimension("M"))
        per = Size(_AVOGADRO, _dimension("")).power(amount)
        return Size(self.value * per.value, (*self.dimension[:5], Fraction(0)))


def _root(value: Fraction, degree: int) -> Fraction:
    with decimal.localcontext(prec=60):
        number = decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)
        root = number.sqrt() if degree == 2 else (number.ln() / degree).exp()
        return Fraction(root)


def _dimension(text: str) -> _Dimension:
    powers = dict.fromkeys(_BASES, Fraction(0))
    for word in text.split():
        base, _, power = word.partition("^")
        powers[base] += Fraction(power or 1)
    return tuple(powers.values())


def _table() -> dict[str, Size]:
    """Return every unit by its names."""
    found: dict[str, Size] = {}

    def put(names: str, value: Fraction | int | str, dimension: str) -> None:
        size = Size(Fraction(value), _dimension(dimension))
        for name in names.split():
            found[name] = size

    put("m meter metre", 1, "L")
    put("angstrom angstroms ang Å Å", "1e-10", "L")
    put("bohr bohr_radius a0 a_0 a.u._length", _BOHR, "L")
    put("micron", "1e-6", "L")
    put("g gram grams", "1e-3", "M")
    put("dalton daltons Da u amu unified_atomic_mass_unit", _DALTON, "M")
    put("electron_mass m_e", _ELECTRON, "M")
    put("s second seconds sec", 1, "T")
    put("minute", 60, "T")
    put("hour", 3600, "T")
    put("atomic_time aut atomic_unit_of_time", _ATOMIC_TIME, "T")
    put("C coulomb", 1, "Q")
    put("e elementary_charge", _CHARGE, "Q")
    put("statcoulomb statC esu franklin Fr", Fraction(1, 10 * _LIGHT), "Q")
    put("A ampere", 1, "Q T^-1")
    put("K kelvin", 1, "K")
    put("mol mole", 1, "N")
    put("J joule joules", 1, "M L^2 T^-2")
    put("eV electron_volt electronvolt", _CHARGE, "M L^2 T^-2")
    put("cal calorie thermochemical_calorie cal_th", "4.184", "M L^2 T^-2")
    put("hartree hartrees Ha Eh E_h hartree_energy", _HARTREE, "M L^2 T^-2")
    put("rydberg Ry", _HARTREE / 2, "M L^2 T^-2")
    put("erg", "1e-7", "M L^2 T^-2")
    put("W watt", 1, "M L^2 T^-3")
    put("N newton", 1, "M L T^-2")
    put("dyne dyn", "1e-5", "M L T^-2")
    put("Pa pascal", 1, "M L^-1 T^-2")
    put("bar", 10**5, "M L^-1 T^-2")
    put("atm atmosphere standard_atmosphere", 101325, "M L^-1 T^-2")
    put("torr", Fraction(101325, 760), "M L^-1 T^-2")
    put("poise P", "0.1", "M L^-1 T^-1")
    put("V volt", 1, "M L^2 T^-2 Q^-1")
    put("statvolt statV", Fraction(_LIGHT, 10**6), "M L^2 T^-2 Q^-1")
    put("debye D", Fraction(1, 10**21 * _LIGHT), "Q L")
    put("l liter litre", "1e-3", "L^3")
    put("Hz hertz", 1, "T^-1")
    put("k_B boltzmann_constant", _BOLTZMANN, "M L^2 T^-2 K^-1")
    put("avogadro_number", _AVOGADRO, "")
    put("avogadro_constant N_A", _AVOGADRO, "N^-1")
    put("radian radians rad dimensionless", 1, "")
    put("degree degrees deg °", _PI / 180, "")
    put("percent %", Fraction(1, 100), "")
    return found


_PREFIXES: dict[str, Fraction] = {
    name: Fraction(10) ** power
    for power, names in {
        -18: "atto a", -15: "femto f", -12: "pico p", -9: "nano n", -6: "micro u µ μ", -3: "milli m", -2: "centi c",
        -1: "deci d", 3: "kilo k", 6: "mega M", 9: "giga G", 12: "tera T",
    }.items()
    for name in names.split()
}  # fmt: skip
#: Units that take prefixes, long names with long ones and symbols with short ones.
_LONG = "meter metre gram second coulomb joule pascal bar hertz liter litre mole ampere kelvin volt watt newton calorie"
_SHORT = "m g s C J eV cal Pa bar Hz l mol K V W N Ha A"
#: Names in another spelling, as programs and their files have it.
_OTHER_CASE = {"angstrom", "angstroms", "ang", "bohr", "hartree", "hartrees", "rydberg", "debye", "dalton", "daltons"}
#: The tokens of a unit text. Only plain numbers may be powers, and few.
_TOKEN = re.compile(
    r"(?P<power>(?:\*\*|\^)\s*(?:[+-]?\d{1,2}(?:\.\d{1,4})?|\([+-]?\d{1,2}(?:/\d{1,2})?\))(?![\w.(])"
    r"|[⁺⁻]?[⁰¹²³⁴-⁹]{1,2})"
    r"|(?P<name>[^\W\d]\w*|[%°])"
    r"|(?P<number>(?:\d{1,17}(?:\.\d{0,17})?|\.\d{1,17})(?:[eE][+-]?\d{1,2})?)"
    r"|(?P<sign>[/()·⋅×]|\*(?!\*))"
    r"|(?P<blank>\s+)"
)
_MOST_POWERS = 16
_LONGEST = 120
_SUPERSCRIPTS = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
#: Two units are one when they differ by no more than the rounding of their definitions.
_TOLERANCE = 1e-9


def unit_of_quantity(units: Mapping[str, Any], quantity: str, definitions: int = 1) -> str | None:
    """Return the unit a quantity has, stated or by the preset; None when nothing says.

    Angles are degrees in definitions 2 of force fields. Derived quantities (`pressure`, `density`, `dipole`, `force`)
    have a unit here only where it is stated, or where a preset has one that does not follow from the others.
    """
    stated = units.get(quantity)
    if isinstance(stated, str):
        return stated
    if quantity == "angle" and definitions == 2:
        return "degree"
    preset = units.get("preset")
    if not isinstance(preset, str):
        return None
    return PRESETS.get(preset, {}).get(quantity) or _PRESET_DERIVED.get(preset, {}).get(quantity)


def preset_units(preset: str) -> dict[str, str]:
    """Return every unit a preset states, written out: base quantities, and derived ones with a unit of their own."""
    return {**PRESETS[preset], **_PRESET_DERIVED.get(preset, {})}


@functools.lru_cache(maxsize=1024)
def conversion_factor(a: str, b: str) -> float | None:
    """Return what a number in `a` is multiplied by to be one in `b`; None where that is no conversion.

    None where one text is no unit, or they differ in dimension. The factor is the double nearest to the exact ratio.
    """
    if a.split() == b.split():
        return 1.0
    first, second = size_of(a), size_of(b)
    if first is None or second is None or first.dimension != second.dimension:
        return None
    ratio = first.value / second.value
    try:
        factor = float(ratio)
    except OverflowError:
        return None
    # units that differ by the rounding of their definitions are one
    return 1.0 if abs(factor - 1.0) < _TOLERANCE else factor if factor else None


def same_unit(a: str, b: str) -> bool:
    """True if two texts name one unit; False where one is none."""
    return conversion_factor(a, b) == 1.0


def dimension_fault(quantity: str, text: str) -> str | None:
    """Return why a text is no unit of a quantity, or None when it is one."""
    found = size_of(text)
    if found is None:
        return "is no unit"
    examples = (size_of(example) for example in QUANTITIES[quantity])
    if any(example is not None and found.dimension == example.dimension for example in examples):
        if quantity == "energy" and found.value > 1:
            return "is an energy of moles, not of particles"
        return None
    return f"is no unit of {quantity}"


def nearest_quantity(word: str, known: Iterator[str] | list[str] | tuple[str, ...]) -> str | None:
    """Return the known word most like a misspelled one, None where none is like it."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def nearest_unit(quantity: str, text: str) -> str:
    """Return a unit of a quantity that looks most like a wrong text ("kcal/mol" for "kcal")."""
    import difflib

    usual = {
        "length": ("angstrom", "nm", "bohr", "pm", "m", "cm", "micrometer"),
        "energy": ("eV", "kcal/mol", "kJ/mol", "hartree", "rydberg", "J", "erg", "meV"),
        "mass": ("dalton", "g/mol", "kg", "g"),
        "time": ("fs", "ps", "ns", "s"),
        "charge": ("e", "C"),
        "angle": ("degree", "radian"),
        "pressure": ("bar", "atm", "GPa", "Pa"),
    }.get(quantity, QUANTITIES.get(quantity, ()))
    found = difflib.get_close_matches(text, usual, n=1, cutoff=0.3)
    return found[0] if found else usual[0] if usual else quantity


@functools.lru_cache(maxsize=1024)
def size_of(text: str) -> Size | None:
    """Return the size of a unit, amounts counted as particles; None for a text that is no unit."""
    tokens = _tokens(text)
    if tokens is None:
        return None
    try:
        found, rest = _product(tokens, 0)
    except (ArithmeticError, ValueError, IndexError):
        return None
    if rest != len(tokens) or found.value <= 0 or not math.isfinite(_magnitude(found.value)):
        return None
    counted = found.counted()
    return counted if counted.dimension[5] == 0 else None


def _magnitude(value: Fraction) -> float:
    try:
        return float(value) or math.inf
    except OverflowError:
        return math.inf


def _tokens(text: str) -> list[tuple[str, str]] | None:
    """Return the tokens of a text; None where it is not made of unit tokens, or has a power of a power."""
    end, before, powers = 0, "", 0
    found: list[tuple[str, str]] = []
    if not 0 < len(text) <= _LONGEST:
        return None
    while end < len(text):
        token = _TOKEN.match(text, end)
        if token is None:
            return None
        kind = token.lastgroup or ""
        if kind == "power" and (before not in ("name", ")") or powers == _MOST_POWERS):
            return None
        if kind != "blank":
            before = token[0] if token[0] == ")" else kind
            powers += kind == "power"
            found.append((kind, token[0]))
        end = token.end()
    return found


def _product(tokens: list[tuple[str, str]], at: int) -> tuple[Size, int]:
    """Return a product of factors; a blank multiplies as `*` does, `/` holds for the next factor only."""
    total, at = _factor(tokens, at)
    while at < len(tokens):
        kind, text = tokens[at]
        if text == ")":
            break
        divides = kind == "sign" and text == "/"
        if kind == "sign" and text != "(":
            at += 1
        entry, at = _factor(tokens, at)
        total = total / entry if divides else total * entry
    return total, at


def _factor(tokens: list[tuple[str, str]], at: int) -> tuple[Size, int]:
    kind, text = tokens[at]
    at += 1
    if kind == "number":
        found = Size(Fraction(text), _dimension(""))
    elif kind == "name":
        named = _named(text)
        if named is None:
            raise ValueError(text)
        found = named
    elif text == "(":
        found, at = _product(tokens, at)
        if tokens[at][1] != ")":
            raise ValueError(text)
        at += 1
    else:
        raise ValueError(text)
    if at < len(tokens) and tokens[at][0] == "power":
        found = found.power(_exponent(tokens[at][1]))
        at += 1
    return found, at


def _exponent(text: str) -> Fraction:
    plain = text.translate(_SUPERSCRIPTS).replace("**", "").replace("^", "").strip().strip("()")
    return Fraction(plain)


@functools.cache
def _named(name: str) -> Size | None:
    """Return the unit of a name, with its prefix."""
    table = _units()
    if name in table:
        return table[name]
    if name.lower() in _OTHER_CASE:
        return table[name.lower()]
    return _from_pint(name)


@functools.cache
def _units() -> dict[str, Size]:
    """Return every unit, the ones with prefixes among them."""
    table = _table()
    found = dict(table)
    for prefix, factor in _PREFIXES.items():
        for name in (_LONG if len(prefix) > 2 else _SHORT).split():
            if name in table:
                found.setdefault(prefix + name, Size(table[name].value * factor, table[name].dimension))
    for name in _LONG.split():
        for prefix in ("", *(p for p in _PREFIXES if len(p) > 2)):
            found.setdefault(f"{prefix}{name}s", found[prefix + name])
    return found


def _from_pint(name: str) -> Size | None:
    """Return a unit that only pint knows, None where it does not either."""
    try:
        base = _registry().Quantity(1, name).to_base_units()
        bases = {"meter": "L", "kilogram": "M", "second": "T", "ampere": "Q T^-1", "kelvin": "K", "mole": "N"}
        value = Size(Fraction(repr(float(base.magnitude))), _dimension(""))
        for unit, power in dict(base.unit_items()).items():
            if unit != "radian":
                value *= Size(Fraction(1), _dimension(bases[unit])).power(Fraction(power))
        return value
    except Exception:  # a text from a file: whatever pint makes of it, it is no unit
        return None


@functools.cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)
