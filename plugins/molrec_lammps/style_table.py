"""The styles of LAMMPS: their coefficients and arguments with names, kinds and units. Read from `styles.tsv` on use.

Energies of angles, dihedrals and impropers are per radian to some power though angles are given in degrees. Source: the
manual's page of each style, checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from molrec_lammps.style_patterns import Pattern, Slot, Value

__all__ = ["PARTS", "StyleRow", "bare_style", "find_style", "style_rows"]

#: The words of cross terms by category, in the order LAMMPS writes them.
PARTS: dict[str, tuple[str, ...]] = {
    "angle": ("bb", "ba", "ub"),
    "dihedral": ("aat", "ebt", "mbt", "bb13", "at"),
    "improper": ("aa",),
}
#: What a style's name may end in without being another potential.
_SUFFIXES = ("/omp", "/opt", "/kk", "/gpu", "/intel")


@dataclass(frozen=True)
class StyleRow:
    """One style, or one cross term of a style (`part` is its word).

    `coefficients` is the pattern behind the types, `arguments` the one behind the name on the style line. `sections`
    are those of a data file that hold such rows. `mixing` is the rule of a pair style that mixes, None where LAMMPS
    wants every pair; `mixing_fixed`: `pair_modify mix` does not change it. `expression` is the energy of one term, its
    angles in radians and its parameters as LAMMPS has them. `flags`: `coul` the style is of charges alone, `file`
    numbers are in files it names, `every` its row must be for `* *`, `name=1` what a slot
    is where a row leaves it out.
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
        return _units(self.coefficients.slots_of(words))

    def argument_units(self, words: Sequence[str]) -> tuple[str, ...] | None:
        """The unit of every word behind the style's name."""
        return _units(self.arguments.slots_of(words))


def bare_style(name: str) -> str:
    """A style's name without the suffix of an accelerated variant, which is the same potential."""
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


def find_style(category: str, style: str, part: str = "") -> StyleRow | None:
    """The row of a style (suffixes left off) or of one of its cross terms; None for an unknown one."""
    return style_rows().get((category, bare_style(style), part))


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


def _units(slots: Sequence[Slot] | None) -> tuple[str, ...] | None:
    return None if slots is None else tuple(slot.unit for slot in slots)
