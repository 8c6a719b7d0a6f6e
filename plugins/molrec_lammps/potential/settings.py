"""What LAMMPS' commands beside the coefficients say: special bonds, `pair_modify`, units, and their way back.

Source: the manual, "special_bonds", "pair_modify", "units"; constants as the 22 Jul 2025 release reports them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from molrec_convert.errors import FormatError
from molrec_convert.quantities.units import PRESETS, same_unit
from molrec_lammps.potential.style_patterns import is_number, number_words

__all__ = ["COULOMB", "PairSettings", "SpecialBonds", "pair_settings", "special_bonds", "special_words", "units_style"]

#: The energy of two unit charges at unit distance (`qqr2e`) by units style.
COULOMB = {
    "lj": 1.0,
    "real": 332.06371,
    "metal": 14.399645,
    "si": 8.9876e9,
    "cgs": 1.0,
    "electron": 1.0,
    "micro": 8987556.0,
    "nano": 230.7078669,
}
_PRESETS = {
    "amber": ((0.0, 0.0, 0.5), (0.0, 0.0, 5.0 / 6.0)),
    "charmm": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    "dreiding": ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
    "fene": ((0.0, 1.0, 1.0), (0.0, 1.0, 1.0)),
}
_SWITCHES = ("angle", "dihedral", "one/five")
#: How many words a `pair_modify` key takes, where it is not one.
_TAKES = {"special": 4, "nofdotr": 0}


@dataclass(frozen=True)
class SpecialBonds:
    """The weights of 1-2, 1-3 and 1-4 neighbours, and the words that are no weights (`angle yes`)."""

    lj: tuple[float, ...] = (0.0, 0.0, 0.0)
    coul: tuple[float, ...] = (0.0, 0.0, 0.0)
    switches: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, list[float]]:
        """The value of the document's key."""
        return {"lj": list(self.lj), "coul": list(self.coul)}


def special_bonds(words: Sequence[str]) -> SpecialBonds:
    """What the words of a `special_bonds` command set; what they leave out is 0. `FormatError` for other words."""
    lj: tuple[float, ...] = (0.0, 0.0, 0.0)
    coul = lj
    switches: list[str] = []
    rest = list(words)
    while rest:
        key = rest.pop(0)
        if key in _PRESETS:
            lj, coul = _PRESETS[key]
        elif key in ("lj", "coul", "lj/coul") and len(rest) >= 3 and all(map(is_number, rest[:3])):
            three = tuple(float(word) for word in rest[:3])
            del rest[:3]
            lj, coul = (lj if key == "coul" else three), (coul if key == "lj" else three)
        elif key in _SWITCHES and rest and rest[0] in ("yes", "no"):
            switches += [key, rest.pop(0)]
        else:
            raise FormatError("special_bonds", found=" ".join(words), expected="a preset, lj, coul and three weights")
    return SpecialBonds(lj, coul, tuple(switches))


def special_words(weights: Mapping[str, Sequence[float]], stated: Sequence[str] | None) -> tuple[str, ...] | None:
    """The words for some weights: those that were `stated` where they mean the same; None where none are needed."""
    wanted = (tuple(map(float, weights["lj"])), tuple(map(float, weights["coul"])))
    switches: tuple[str, ...] = ()
    if stated is not None:
        known = special_bonds(stated)
        if (known.lj, known.coul) == wanted:
            return tuple(stated)
        switches = known.switches
    if not any(wanted[0]) and not any(wanted[1]) and not switches:
        return None
    return ("lj", *number_words(wanted[0]), "coul", *number_words(wanted[1]), *switches)


@dataclass
class PairSettings:
    """What `pair_modify` sets of one pair style: the mixing rule, the shift; None: not stated."""

    mix: str | None = None
    shift: str | None = None
    others: dict[str, str] = field(default_factory=dict)


def pair_settings(commands: Sequence[Sequence[str]], name: str, index: int) -> PairSettings:
    """What the `pair_modify` commands set of the (sub-)style `name`; a later one counts."""
    found = PairSettings()
    for words in commands:
        rest = list(words)
        if rest[:1] == ["pair"] and len(rest) > 1:
            wanted = rest[1]
            numbered = len(rest) > 2 and rest[2].isdigit()
            number = int(rest[2]) if numbered else 0
            rest = rest[3:] if numbered else rest[2:]
            if wanted != name or (numbered and number != (index or 1)):
                continue
        while rest:
            key = rest.pop(0)
            taken = [rest.pop(0) for _ in range(_TAKES.get(key, 1)) if rest]
            if key == "mix":
                found.mix = " ".join(taken)
            elif key == "shift":
                found.shift = " ".join(taken)
            else:
                found.others[key] = " ".join(taken)
    return found


def units_style(units: Mapping[str, Any]) -> str | None:
    """LAMMPS' units style for the units of a force field; None where they are none of LAMMPS'."""
    preset = units.get("preset")
    if isinstance(preset, str):
        return preset if preset in COULOMB else None
    stated = {key: text for key, text in units.items() if key in PRESETS["real"] and key != "angle"}
    for name, texts in PRESETS.items():
        known = name != "lj" and {"length", "energy"} <= stated.keys()
        if known and all(isinstance(text, str) and same_unit(text, texts[key]) for key, text in stated.items()):
            return name
    return None
