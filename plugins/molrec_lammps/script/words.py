"""Checks of the words of single commands."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["check_special_bonds", "is_number"]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_PRESETS = frozenset({"amber", "charmm", "dreiding", "fene"})
_FLAGS = frozenset({"angle", "dihedral", "one/five"})


def is_number(word: str) -> bool:
    """Whether LAMMPS takes the word for a number."""
    return _NUMBER.fullmatch(word) is not None


def check_special_bonds(words: Sequence[str]) -> str:
    """What is wrong with the words of `special_bonds`, "" for nothing."""
    at = 0
    if not words:
        return "'special_bonds' alone"
    while at < len(words):
        word = words[at]
        if word in _PRESETS:
            at += 1
        elif word in ("lj", "coul", "lj/coul"):
            weights = words[at + 1 : at + 4]
            if len(weights) < 3 or not all(is_number(weight) and 0 <= float(weight) <= 1 for weight in weights):
                return repr(" ".join(words[at : at + 4]))
            at += 4
        elif word in _FLAGS:
            if words[at + 1 : at + 2] not in (["yes"], ["no"], ("yes",), ("no",)):
                return repr(" ".join(words[at : at + 2]))
            at += 2
        else:
            return repr(word)
    return ""
