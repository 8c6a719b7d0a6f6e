"""The styles of LAMMPS: their coefficients and arguments with names, kinds and units. Read from `styles.tsv` on use.

Energies of angles, dihedrals and impropers are per radian to some power though angles are given in degrees. Source: the
manual's page of each style, checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from molrec_lammps.potential.style_patterns import UNKNOWN_UNIT, Pattern, Slot, Value, is_number

__all__ = ["ANGSTROM_UNITS", "PARTS", "StyleRow", "bare_style", "find_style", "is_style", "style_rows"]

#: Styles of units whose lengths are of the size of an angstrom.
ANGSTROM_UNITS = ("real", "metal", "electron")
#: The words of cross terms by category, in the order LAMMPS writes them.
PARTS: dict[str, tuple[str, ...]] = {
    "angle": ("bb", "ba", "ub"),
    "dihedral": ("aat", "ebt", "mbt", "bb13", "at"),
    "improper": ("aa",),
}
#: What a style's name may end in without being another potential.
_SUFFIX = re.compile(r"(?<=.)/(?:omp|opt|gpu|intel|kk(?:/host|/device)?)$")
#: What a flag of a style says of its numbers in other units.
_UNCONVERTIBLE = {
    "file": "its numbers are in a file",
    "formula": "its energy is a formula, whose numbers have the units of the script",
    "constants": "LAMMPS holds constants of it that are the same numbers in all units",
    "untried": "its energies in two units styles were not compared",
}


@dataclass(frozen=True)
class StyleRow:
    """One style, or one cross term of a style (`part` is its word).

    `coefficients` is the pattern behind the types, `arguments` the one behind the name on the style line. `sections`
    are those of a data file that hold such rows. `mixing` is the rule of a pair style that mixes, None where LAMMPS
    wants every pair; `mixing_fixed`: `pair_modify mix` does not change it. `expression` is the energy of one term, its
    angles in radians and its parameters as LAMMPS has them. `flags`:

    - `coul`: the style is of charges alone
    - `file`: its numbers are in files it names; `nested`: these name files beside them; `with:FILE`: one LAMMPS reads
      without being told
    - `formula`: its numbers are in a text; `constants`: LAMMPS has some that are the same in all units; `angstroms`:
      these matter where lengths are not of the size of an angstrom; `untried`: nobody compared its energies
    - `every`: its row must be for `* *`, unless the argument behind `pairwise:` is given
    - `triples`: a row is for three types
    - `removed`: LAMMPS knows the name alone
    - `name=1`: what a slot is where a row leaves it out
    """

    category: str
    style: str
    part: str
    coefficients: Pattern
    arguments: Pattern
    sections: tuple[str, ...]
    mixing: str | None
    mixing_fixed: bool
    expression: str | None
    flags: frozenset[str]

    @property
    def defaults(self) -> dict[str, float]:
        """What LAMMPS takes for slots a row leaves out, where the energy needs them stated."""
        pairs = (flag.split("=") for flag in self.flags if "=" in flag)
        return {name: float(value) for name, value in pairs}

    @property
    def every(self) -> bool:
        """Whether the one row of the style is written for `* *`, an element word for each atom type."""
        return "every" in self.flags

    def takes_all(self, arguments: Sequence[str]) -> bool:
        """Whether the style takes one command for all types, behind which nothing of an earlier one is left."""
        return self.every and not any(f"pairwise:{word}" in self.flags for word in arguments)

    def unconvertible(self, target: str | None = None) -> str:
        """Why its numbers cannot be converted to other units (the style `target`, or any); "" where they can."""
        if "angstroms" in self.flags and target is not None and target not in ANGSTROM_UNITS:
            return f"LAMMPS holds lengths of it that are only right in units {', '.join(ANGSTROM_UNITS)}"
        for flag, reason in _UNCONVERTIBLE.items():
            if flag in self.flags:
                return reason
        patterns = (self.coefficients, self.arguments)
        slots = [slot for pattern in patterns for slot in pattern.slots]
        if all(pattern.alternatives for pattern in patterns) and all(slot.unit != UNKNOWN_UNIT for slot in slots):
            return ""
        return "the units of its numbers are not known"

    def read(self, words: Sequence[str], types: int | None = None) -> dict[str, Value] | None:
        """Name → value of the words of a coefficient row; None when they do not fit. `types`: how many atom types."""
        return self.coefficients.read(words, types)

    def words(self, values: Mapping[str, Value]) -> tuple[str, ...] | None:
        """The words of a row; None when a value is missing."""
        return self.coefficients.words(values)

    def read_arguments(self, words: Sequence[str]) -> dict[str, Value] | None:
        """Name → value of the words behind the style's name; None when they do not fit."""
        return self.arguments.read(words)

    def argument_words(self, values: Mapping[str, Value]) -> tuple[str, ...] | None:
        """The words behind the style's name; None when a value is missing."""
        return self.arguments.words(values)

    def units(self, words: Sequence[str]) -> tuple[str, ...] | None:
        """The unit of every word of a coefficient row ("" for what is no quantity); None when they do not fit."""
        return _units(self.coefficients, words)

    def argument_units(self, words: Sequence[str]) -> tuple[str, ...] | None:
        """The unit of every word behind the style's name."""
        return _units(self.arguments, words)


def bare_style(name: str) -> str:
    """A style's name without the suffix of an accelerated variant, which is the same potential."""
    return _SUFFIX.sub("", name)


def find_style(category: str, style: str, part: str = "") -> StyleRow | None:
    """The row of a style (suffixes left off) or of one of its cross terms; None for an unknown one."""
    return style_rows().get((category, bare_style(style), part))


def is_style(category: str, word: str) -> bool:
    """Whether there is a style of that name, suffix or not; hybrids and `none` are no styles of their own."""
    bare = bare_style(word)
    return bare != "none" and (category, bare, "") in style_rows()


@functools.cache
def style_rows() -> Mapping[tuple[str, str, str], StyleRow]:
    """Category, style and part → row; of all styles there are, in the order of the table."""
    text = resources.files("molrec_lammps").joinpath("styles.tsv").read_text(encoding="utf-8")
    rows = (_row(line.split("\t")) for line in text.splitlines()[1:])
    return {(row.category, row.style, row.part): row for row in rows}


def _row(cells: Sequence[str]) -> StyleRow:
    category, name, coefficients, arguments, sections, mixing, expression, flags = cells
    style, _, part = name.partition(":")
    rule = mixing.rstrip("!")
    return StyleRow(
        category,
        style,
        part,
        Pattern.parse(coefficients),
        Pattern.parse(arguments),
        () if sections == "-" else tuple(sections.split("; ")),
        rule if rule in ("geometric", "arithmetic", "sixthpower") else None,
        mixing.endswith("!"),
        None if expression == "-" else expression,
        frozenset() if flags == "-" else frozenset(flags.split()),
    )


def _units(pattern: Pattern, words: Sequence[str]) -> tuple[str, ...] | None:
    slots = pattern.slots_of(words)
    return None if slots is None else tuple(map(_unit, slots, words))


def _unit(slot: Slot, word: str) -> str:
    """The unit of a word; not known for a number among words of any kind."""
    return UNKNOWN_UNIT if slot.kind == "some" and is_number(word) else slot.unit
