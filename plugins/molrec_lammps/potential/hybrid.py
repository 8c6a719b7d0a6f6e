"""Names of styles, and how the words behind a style or `*_coeff` command divide among the sub-styles of a hybrid.

The words between two names of styles are the arguments of the first; so it takes the names of all styles there are to
divide them. Source: the manual, "pair_style hybrid".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from molrec_lammps.potential.potential import PotentialStyle
from molrec_lammps.potential.style_table import bare_style, find_style, is_style

__all__ = ["HYBRID", "PARTS", "HybridWords", "mapped_pairs", "split_hybrid", "sub_style_among"]


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
    """Those of the pairs that coefficients of a style count for: not types mapped to NULL, of `eam` those of I,I."""
    if style == "eam":
        return [(i, j) for i, j in pairs if i == j]
    known = find_style("pair", style)
    values = known.read(words, types) if known is not None and known.every else None
    each = next((slot.name for slot in known.coefficients.slots if slot.kind == "each"), "") if known else ""
    elements = values.get(each) if values is not None else None
    if not isinstance(elements, tuple):
        return list(pairs)
    return [(i, j) for i, j in pairs if "NULL" not in (elements[i - 1], elements[j - 1])]
