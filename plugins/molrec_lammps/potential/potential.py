"""A force field as LAMMPS' commands and data files state it: styles, also hybrid ones, and coefficients.

Data files and input scripts fill a `Potential`; `potential_record` gives it a place in a record and takes it out
again. Nothing is converted here: words stay the text a file has, so that every digit survives. Source: the manual,
"pair_style", "pair_coeff" and their kin, "read_data".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from molrec_convert.model.forcefield.pairs import mixed_distance, mixed_energy
from molrec_lammps.potential.style_maps import style_map
from molrec_lammps.potential.style_table import bare_style, find_style, is_style

__all__ = [
    "CATEGORIES",
    "HYBRID",
    "PARTS",
    "Coefficient",
    "HybridWords",
    "Potential",
    "PotentialStyle",
    "is_mixed",
    "mapped_pairs",
    "mixed_row",
    "mixed_values",
    "relation_styles",
    "split_hybrid",
    "sub_style_among",
    "type_count",
    "type_names",
]

#: What coefficients are of, in the order LAMMPS writes them.
CATEGORIES = ("pair", "bond", "angle", "dihedral", "improper")


@dataclass(frozen=True)
class PotentialStyle:
    """One style in use, or one sub-style of a hybrid.

    `index` counts from 1 the sub-styles of one name where a hybrid lists it more than once, else 0. `args` are the
    words behind the name on the style line. `where` is file and line, for messages. `stated` is False where only the
    hint of a section (`Pair Coeffs # lj/cut`) names the style, which says nothing of its arguments.
    """

    name: str
    args: tuple[str, ...] = ()
    index: int = 0
    where: str = ""
    stated: bool = True


@dataclass(frozen=True)
class Coefficient:
    """One row of coefficients, types as numbers (a range or label of a command is resolved, one row each).

    `types` is one number, two for a pair. `words` are the coefficients as written, without the types, the sub-style and
    its index. `style` is the sub-style of a hybrid (with `index` where it is there more than once), else "". `part` is
    the word of a cross term (`bb ba mbt ebt at aat bb13 aa ub`), whether a command or a section of its own states it.
    A later row for the same category, types, style, index and part replaces an earlier one, as in LAMMPS.
    """

    category: str
    types: tuple[int, ...]
    words: tuple[str, ...]
    style: str = ""
    index: int = 0
    part: str = ""
    where: str = ""
    comment: str = ""


@dataclass
class Potential:
    """All that data files and commands say of the force field.

    `units` is LAMMPS' unit style, None when unknown. `styles` are by category, in order; `hybrid` names the kind
    (`hybrid`, `hybrid/overlay`, `hybrid/scaled` …) of each category that combines several. `type_counts` and `labels`
    are by kind (`atom bond angle dihedral improper`), labels in the order of the types. `masses` are by atom type.
    `pair_modify` has the words of each such command, `special_bonds` those of the last (every one starts over),
    `kspace` and `dielectric` those of their commands, `cmap` the files of `fix cmap`. `scales` are the words before
    each sub-style of `hybrid/scaled`, in order.
    """

    units: str | None = None
    styles: dict[str, list[PotentialStyle]] = field(default_factory=dict)
    hybrid: dict[str, str] = field(default_factory=dict)
    scales: list[str] = field(default_factory=list)
    coefficients: list[Coefficient] = field(default_factory=list)
    type_counts: dict[str, int] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)
    masses: dict[int, str] = field(default_factory=dict)
    pair_modify: list[tuple[str, ...]] = field(default_factory=list)
    special_bonds: tuple[str, ...] | None = None
    kspace: tuple[str, ...] | None = None
    kspace_modify: list[tuple[str, ...]] = field(default_factory=list)
    dielectric: str | None = None
    cmap: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        """True if anything of a force field is stated."""
        return bool(self.styles or self.coefficients or self.cmap)

    def final(self) -> Iterator[Coefficient]:
        """Yield the coefficients in force, in the order their last statement stands: a later row replaces an earlier
        one.

        The types of a pair come in ascending order, however they were stated.
        """
        rows = [
            replace(c, types=c.types[::-1]) if c.category == "pair" and c.types[0] > c.types[-1] else c
            for c in self.coefficients
        ]
        last = {(c.category, c.types, c.style, c.index, c.part): n for n, c in enumerate(rows)}
        for number in sorted(last.values()):
            yield rows[number]

    def style_of(self, coefficient: Coefficient) -> PotentialStyle | None:
        """Return the style a row belongs to, None when no style of its category is known."""
        styles = self.styles.get(coefficient.category, [])
        if coefficient.style:
            named = [style for style in styles if style.name == coefficient.style and style.index == coefficient.index]
            return named[0] if named else None
        return styles[0] if len(styles) == 1 else None


Row = Mapping[str, Any]
#: What mixes like an energy, with the distance that goes with it, and what mixes like a distance.
_ENERGIES = {"epsilon": "sigma", "epsilon14": "sigma14"}
_DISTANCES = ("sigma", "sigma14", "cutoff")
_MARK = "mixed by the {} rule"


def mixed_values(names: Sequence[str], a: Row, b: Row, rule: str, params: Row) -> dict[str, float]:
    """Return the mix of those of some parameters that are known to mix and that two own rows have.

    Where neither row has a cutoff there is none: the style's is that of the pair as well.
    """
    given = {name: _own_values(name, a, b, params) for name in (*_ENERGIES, *_DISTANCES)}
    return {name: _mixed(name, rule, given) for name in names if given.get(name) is not None}


def mixed_row(a: Row, b: Row, rule: str, params: Row, required: Sequence[str]) -> dict[str, Any] | None:
    """Return the parameters of a row for two types, marked as mixed; None where one of them does not mix in a known
    way.
    """
    names = [name for name in dict.fromkeys((*a, *b)) if isinstance(a.get(name, b.get(name)), float)]
    values = mixed_values(names, a, b, rule, params)
    if not set(names) | set(required) <= set(values) or not all(map(math.isfinite, values.values())):
        return None
    return {**values, "desc": _MARK.format(rule)}


def is_mixed(row: Row, a: Row | None, b: Row | None, params: Row) -> bool:
    """True if a row is marked as mixed and still is the mix of the two own ones, so that nobody has to state it."""
    rule = next((r for r in ("geometric", "arithmetic", "sixthpower") if row.get("desc") == _MARK.format(r)), None)
    if rule is None or a is None or b is None:
        return False
    values = {name: value for name, value in row.items() if isinstance(value, float)}
    return mixed_values(list(values), a, b, rule, params) == values


def _own_values(name: str, a: Row, b: Row, params: Row) -> tuple[float, float] | None:
    if name == "cutoff" and name not in a and name not in b:
        return None
    fallback = name.removesuffix("14")
    one, other = (row.get(name, row.get(fallback, params.get(name))) for row in (a, b))
    return None if one is None or other is None else (float(one), float(other))


def _mixed(name: str, rule: str, given: Mapping[str, tuple[float, float] | None]) -> float:
    a, b = (np.array([value]) for value in given[name] or (0.0, 0.0))
    with np.errstate(all="ignore"):
        if name in _DISTANCES:
            return float(mixed_distance(rule, a, b)[0])
        size_a, size_b = (np.array([value]) for value in given.get(_ENERGIES[name]) or (0.0, 0.0))
        return float(mixed_energy(rule, a, b, size_a, size_b)[0])


def type_count(potential: Potential, kind: str) -> int:
    """Return how many types of a kind (`atom bond angle dihedral improper`) there are: as stated, and no fewer than
    named.
    """
    category = "pair" if kind == "atom" else kind
    used = [max(row.types, default=0) for row in potential.coefficients if row.category == category]
    masses = list(potential.masses) if kind == "atom" else []
    return max(potential.type_counts.get(kind, 0), len(potential.labels.get(kind, [])), *used, *masses, 0)


def type_names(potential: Potential, kind: str) -> list[str]:
    """Return the names of all types of a kind in the order of their numbers: labels, else the decimal numbers."""
    count = type_count(potential, kind)
    labels = potential.labels.get(kind, [])
    return [labels[n] if n < len(labels) and labels[n] else str(n + 1) for n in range(count)]


def relation_styles(potential: Potential, category: str) -> list[str | None] | None:
    """For every type of bonds (angles …) the value of a row's `style` column; None where no hybrid needs the column.

    A type whose terms stand in several tables (class2 with its cross terms) has None: its tables add.
    """
    if category not in potential.hybrid:
        return None
    found: list[str | None] = [None] * type_count(potential, category)
    crossed: set[int] = set()
    for row in potential.final():
        if row.category != category or row.style == "skip" or row.words == ("skip",):
            continue
        for number in row.types:
            if row.part:
                crossed.add(number)
            else:
                found[number - 1] = style_map(category, row.style, "", 1).table if row.style else None
    return [None if number + 1 in crossed else style for number, style in enumerate(found)]


#: The hybrid styles, without suffix.
HYBRID = frozenset({"hybrid", "hybrid/overlay", "hybrid/scaled", "hybrid/molecular"})
#: First words of a row that states a cross term.
PARTS = frozenset({"bb", "ba", "mbt", "ebt", "at", "aat", "bb13", "aa", "ub"})


@dataclass(frozen=True)
class HybridWords:
    """The words behind `hybrid`: the sub-styles, and the factor before each in `hybrid/scaled`."""

    styles: list[PotentialStyle]
    scales: list[str]


def split_hybrid(category: str, kind: str, words: Sequence[str], where: str) -> HybridWords | str:
    """Divide the words among the sub-styles; a text says at which word that fails.

    The first word is a sub-style even where nothing is known of it; a later one of those stays among the arguments
    before it until coefficients name it (`sub_style_among`).
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    scales: list[str] = []
    starts: Callable[[str], bool] = lambda word: is_style(category, word) or word in ("hybrid", "none")  # noqa: E731
    at = 0
    while at < len(words):
        if kind == "hybrid/scaled":
            scales.append(words[at])
            at += 1
        if at == len(words) or not (is_style(category, words[at]) or (not found and "/" in words[at])):
            return words[min(at, len(words) - 1)]
        end = at + 1
        while end < len(words) and not starts(words[end]):
            end += 1
        if kind == "hybrid/scaled" and end < len(words):
            end -= 1
        found.append((bare_style(words[at]), tuple(words[at + 1 : end])))
        at = end
    names = [name for name, _ in found]
    styles = []
    for number, (name, args) in enumerate(found):
        index = names[: number + 1].count(name) if names.count(name) > 1 else 0
        styles.append(PotentialStyle(name, args, index, where))
    return HybridWords(styles, scales)


def sub_style_among(found: HybridWords, name: str, scaled: bool) -> bool:
    """Take a sub-style nothing is known of out of the arguments of another; False where it is not among them."""
    for number, style in enumerate(found.styles):
        if name in style.args[scaled:]:
            at = style.args.index(name)
            other = PotentialStyle(name, style.args[at + 1 :], 0, style.where)
            found.styles[number : number + 1] = [replace(style, args=style.args[: at - scaled]), other]
            found.scales[number + 1 : number + 1] = style.args[at - 1 : at] if scaled else ()
            return True
    return False


def mapped_pairs(
    style: str, words: Sequence[str], pairs: Sequence[tuple[int, int]], types: int
) -> list[tuple[int, int]]:
    """Return those of the pairs that coefficients of a style count for: not types mapped to NULL, of `eam` those of
    I,I.
    """
    if style == "eam":
        return [(i, j) for i, j in pairs if i == j]
    known = find_style("pair", style)
    values = known.read(words, types) if known is not None and known.every else None
    each = next((slot.name for slot in known.coefficients.slots if slot.kind == "each"), "") if known else ""
    elements = values.get(each) if values is not None else None
    if not isinstance(elements, tuple):
        return list(pairs)
    return [(i, j) for i, j in pairs if "NULL" not in (elements[i - 1], elements[j - 1])]
