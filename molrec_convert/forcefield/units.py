"""The units of a force field: presets, quantities, whether both agree, and which definitions the numbers follow.

Unit texts are compared by pint, which is loaded only when two of them are not the same text.
Source: Force field, "Document" and "Version 2 definitions".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from molrec_convert.errors import ContractError

__all__ = [
    "PRESETS",
    "QUANTITIES",
    "angle_unit",
    "check_units",
    "conversion_factor",
    "definitions_of",
    "is_marked",
    "same_unit",
    "unit_faults",
    "unit_of",
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

#: Spellings known without pint.
_ANGLES = {"radian": "radian", "radians": "radian", "rad": "radian"}
_ANGLES |= dict.fromkeys(("degree", "degrees", "deg", "°"), "degree")
#: Two units are one when they differ by no more than the rounding of their definitions.
_TOLERANCE = 1e-9
#: The tokens of a unit text. Only plain numbers may be powers, and few: pint works out any power it is asked for.
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


def check_units(units: Any, node: str, molrec_version: int | None = None) -> None:
    """Refuse units without preset and quantities, unknown presets, and quantities that disagree with the preset."""
    for fault in unit_faults(units, node, molrec_version):
        raise fault


def unit_faults(units: Any, node: str, molrec_version: int | None = None) -> Iterator[ContractError]:
    """Every rule `check_units` refuses, one by one."""
    if not isinstance(units, Mapping):
        yield ContractError(node, "units is not a JSON object", found=type(units).__name__)
        return
    stated = {name: units[name] for name in QUANTITIES if name in units}
    if not stated and "preset" not in units:
        yield ContractError(node, "units states neither a preset nor a quantity", expected=", ".join(QUANTITIES))
        return
    wrong = {name: text for name, text in stated.items() if not isinstance(text, str) or not text.strip()}
    for name, text in wrong.items():
        yield ContractError(f"{node}.{name}", "a unit is a text", found=repr(text)[:60])
    if "preset" not in units:
        return
    preset = units["preset"]
    if not isinstance(preset, str) or preset not in PRESETS:
        yield ContractError(f"{node}.preset", "unknown preset", found=repr(preset)[:60], expected=", ".join(PRESETS))
        return
    definitions = definitions_of(units, molrec_version)
    for name, text in stated.items():
        if name not in wrong:
            expected = unit_of_quantity({"preset": preset}, name, definitions)
            if expected is None:
                yield ContractError(f"{node}.{name}", f"the preset {preset!r} has no unit of {name}", found=repr(text))
            elif not same_unit(text, expected):
                yield ContractError(
                    f"{node}.{name}", f"the unit disagrees with the preset {preset!r}", found=text, expected=expected
                )


def definitions_of(units: Any, molrec_version: int | None = None) -> int:
    """The definitions a force field's numbers follow: 2 in a record of version 2, or marked so by its units, else 1."""
    return 2 if molrec_version == 2 or is_marked(units) else 1


def is_marked(units: Any) -> bool:
    """Whether units mark the definitions 2: a preset beside `"angle": "degree"`."""
    if not isinstance(units, Mapping) or not isinstance(units.get("preset"), str):
        return False
    angle = units.get("angle")
    return isinstance(angle, str) and _angle(angle) == "degree"


def unit_of_quantity(units: Mapping[str, Any], quantity: str, definitions: int = 1) -> str | None:
    """The unit a quantity has, stated or by the preset; None when nothing says. Angles are degrees in definitions 2."""
    stated = units.get(quantity)
    if isinstance(stated, str):
        return stated
    if quantity == "angle" and definitions == 2:
        return "degree"
    preset = units.get("preset")
    return PRESETS.get(preset, {}).get(quantity) if isinstance(preset, str) else None


def angle_unit(units: Mapping[str, Any], definitions: int) -> str | None:
    """`"radian"`, `"degree"`, another unit as it is stated, or None when nothing says."""
    text = unit_of_quantity(units, "angle", definitions)
    return None if text is None else _angle(text) or text


def unit_of(dimension: str, units: Mapping[str, Any], definitions: int = 1) -> str | None:
    """The unit of a parameter of that dimension ("E/L^2"), as pint reads it; None where a quantity has none.

    `E` energy, `L` length, `A` angle, `Q` charge, `M` mass, `T` time. The angle part of a force constant is in
    `units.angle` in definitions 1 and in radians in definitions 2.
    """
    names = {"E": "energy", "L": "length", "A": "angle", "Q": "charge", "M": "mass", "T": "time"}
    parts = []
    for letter in dimension:
        if letter not in names:
            parts.append({"^": "**"}.get(letter, letter))
            continue
        per_angle = letter == "A" and definitions == 2 and "/" in dimension
        unit = "radian" if per_angle else unit_of_quantity(units, names[letter], definitions)
        if unit is None:
            return None
        parts.append(f"({unit})" if re.search(r"\W", unit) and dimension != letter else unit)
    return "".join(parts)


def same_unit(a: str, b: str) -> bool:
    """Whether two texts name one unit, as pint understands them; False where it does not."""
    if a.split() == b.split():
        return True
    if a in _ANGLES and b in _ANGLES:
        return _ANGLES[a] == _ANGLES[b]
    first, second = _quantity(a), _quantity(b)
    if first is None or second is None:
        return False
    try:
        ratio = (first / second).to_base_units()
        return bool(ratio.dimensionless and abs(ratio.magnitude - 1.0) < _TOLERANCE)
    except Exception:  # pint raises whatever it likes for units that have a zero of their own
        return False


def conversion_factor(a: str, b: str) -> float | None:
    """What a number in `a` is multiplied by to be one in `b`; None where one is no unit, or they differ in dimension.

    An amount is a number of particles: `kcal/mol` becomes `eV`, `g/mol` becomes `dalton`.
    """
    if a.split() == b.split():
        return 1.0
    first, second = _quantity(a), _quantity(b)
    if first is None or second is None:
        return None
    try:
        ratio = first / second
        amounts = dict(ratio.dimensionality).pop("[substance]", 0)
        ratio = (ratio * _registry().Quantity(1.0, "avogadro_constant") ** amounts).to_base_units()
        if not ratio.dimensionless:
            return None
        factor = float(ratio.magnitude)
    except Exception:  # pint raises whatever it likes for units that have a zero of their own
        return None
    # a tenth is a tenth, by whatever way it was worked out
    return 1.0 if abs(factor - 1.0) < _TOLERANCE else float(f"{factor:.15g}")


def dimension_fault(quantity: str, text: str) -> str | None:
    """Why a text is no unit of a quantity, or None when it is one."""
    if text in QUANTITIES[quantity] or (quantity == "angle" and text in _ANGLES):
        return None
    found = _quantity(text)
    if found is None:
        return "is no unit"
    if any(found.is_compatible_with(_quantity(example)) for example in QUANTITIES[quantity]):
        return None
    return f"is no unit of {quantity}"


def _angle(text: str) -> str | None:
    """`"radian"` or `"degree"` for a text that means one of them."""
    known = _ANGLES.get(text.strip())
    if known is None:
        known = next((unit for unit in ("degree", "radian") if same_unit(text, unit)), None)
    return known


@functools.lru_cache(maxsize=256)
def _quantity(text: str) -> Any:
    """What pint makes of a text, None when that is no unit."""
    if not _is_harmless(text):
        return None
    try:
        found = _registry().Quantity(1.0, "") * _registry().parse_expression(text)
        return found if found.magnitude > 0 else None
    except Exception:  # a text from a file: whatever pint makes of it, it is no unit
        return None


def _is_harmless(text: str) -> bool:
    """Whether a text is made of unit tokens, without a power of a power."""
    end, before, powers = 0, "", 0
    while end < len(text) <= _LONGEST:
        token = _TOKEN.match(text, end)
        if token is None:
            return False
        if token.lastgroup == "power" and (before != "name" or powers == _MOST_POWERS):
            return False
        if token.lastgroup != "blank":
            before = token.lastgroup or ""
            powers += before == "power"
        end = token.end()
    return 0 < len(text) <= _LONGEST


@functools.cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)
