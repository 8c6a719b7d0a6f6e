"""The units of a force field: whether preset and quantities agree, and which definitions the numbers follow.

Source: Force field, "Document" and "Version 2 definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.quantities.units import PRESETS, QUANTITIES, same_unit, unit_of_quantity

__all__ = [
    "angle_unit",
    "check_units",
    "definitions_of",
    "is_marked",
    "unit_faults",
    "unit_of",
]

#: Spellings of the two units of angles.
_ANGLES = {"radian": "radian", "radians": "radian", "rad": "radian"}
_ANGLES |= dict.fromkeys(("degree", "degrees", "deg", "°"), "degree")


def check_units(units: Any, node: str, molrec_version: int | None = None) -> None:
    """Refuse units without preset and quantities, unknown presets, and quantities that disagree with the preset."""
    for fault in unit_faults(units, node, molrec_version):
        raise fault


def unit_faults(units: Any, node: str, molrec_version: int | None = None) -> Iterator[ContractError]:
    """Yield every rule `check_units` refuses, one by one."""
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
    """Return the definitions a force field's numbers follow: 2 in a record of version 2, or marked so by its units,
    else 1.
    """
    return 2 if molrec_version == 2 or is_marked(units) else 1


def is_marked(units: Any) -> bool:
    """True if units mark the definitions 2: a preset beside `"angle": "degree"`."""
    if not isinstance(units, Mapping) or not isinstance(units.get("preset"), str):
        return False
    angle = units.get("angle")
    return isinstance(angle, str) and _angle(angle) == "degree"


def angle_unit(units: Mapping[str, Any], definitions: int) -> str | None:
    """Return `"radian"`, `"degree"`, another unit as it is stated, or None when nothing says."""
    text = unit_of_quantity(units, "angle", definitions)
    return None if text is None else _angle(text) or text


def unit_of(dimension: str, units: Mapping[str, Any], definitions: int = 1) -> str | None:
    """Return the unit of a parameter of that dimension ("E/L^2"), as pint reads it; None where a quantity has none.

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


def _angle(text: str) -> str | None:
    """Return `"radian"` or `"degree"` for a text that means one of them."""
    known = _ANGLES.get(text.strip())
    if known is None:
        known = next((unit for unit in ("degree", "radian") if same_unit(text, unit)), None)
    return known
