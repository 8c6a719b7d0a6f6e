"""Types in commands: numbers, ranges with `*`, and type labels, resolved with the number of types as LAMMPS does.

| written | types, of N |
|---|---|
| `3` | 3 |
| `*` | 1 … N |
| `2*` `*2` `2*3` | 2 … N, 1 … 2, 2 … 3 |
| `HC` (no digit, `*` or `#` in front) | the type of that label |

Source: the manual, "pair_coeff", "Type labels"; each form tried on LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["BadType", "is_label", "pairs_of", "types_of"]

_RANGE = re.compile(r"(\d*)(\*?)(\d*)")


class BadType(Exception):
    """A word that is no type here: what stands there, and what should."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found, self.expected = found, expected


def is_label(word: str) -> bool:
    """Whether the word is a type label rather than a number or a range."""
    return bool(word) and not (word[0].isdigit() or word[0] in "*#+-")


def types_of(word: str, count: int, labels: Sequence[str], kind: str) -> range:
    """The types a word means: `count` types of the `kind` ("atom") there are, `labels` are theirs in order."""
    if is_label(word):
        if word not in labels:
            known = ", ".join(label for label in labels if label)
            raise BadType(
                f"the {kind} type label {word!r}",
                f"one of {known}" if known else f"a type number, as no {kind} type has a label",
            )
        number = list(labels).index(word) + 1
        return range(number, number + 1)
    match = _RANGE.fullmatch(word)
    expected = f"a type from 1 to {count}, a range such as '1*{max(count, 1)}', or a type label"
    if match is None or not word:
        raise BadType(f"{word!r} as {kind} type", expected)
    low, star, high = match.groups()
    first = int(low or 1)
    last = int(high or count) if star else first
    if not 1 <= first <= last <= count:
        there = f"{count} {kind} type{'' if count == 1 else 's'}"
        raise BadType(f"{word!r} with {there}", expected if count else f"a data file with {kind} types")
    return range(first, last + 1)


def pairs_of(one: str, other: str, count: int, labels: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs of atom types two words mean: those with I <= J of both ranges, and two plain types in either order."""
    first, second = types_of(one, count, labels, "atom"), types_of(other, count, labels, "atom")
    if "*" not in _bare(one) + _bare(other) and second[0] < first[0]:
        first, second = second, first
    pairs = [(i, j) for i in first for j in second if i <= j]
    if not pairs:
        raise BadType(f"'{one} {other}', which holds no pair I <= J", f"'{other} {one}'")
    return pairs


def _bare(word: str) -> str:
    return "" if is_label(word) else word
