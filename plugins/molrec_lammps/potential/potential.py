"""A force field as LAMMPS' commands and data files state it: styles with their words, coefficients as they are written.

Data files and input scripts fill a `Potential`; `potential_record` gives it a place in a record and takes it out
again. Nothing is converted here: words stay the text a file has, so that every digit survives. Source: the manual,
"pair_style", "pair_coeff" and their kin, "read_data".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

__all__ = ["CATEGORIES", "Coefficient", "Potential", "PotentialStyle"]

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
        """Whether anything of a force field is stated."""
        return bool(self.styles or self.coefficients or self.cmap)

    def final(self) -> Iterator[Coefficient]:
        """The coefficients in force, in the order their last statement stands: a later row replaces an earlier one.

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
        """The style a row belongs to, None when no style of its category is known."""
        styles = self.styles.get(coefficient.category, [])
        if coefficient.style:
            named = [style for style in styles if style.name == coefficient.style and style.index == coefficient.index]
            return named[0] if named else None
        return styles[0] if len(styles) == 1 else None
