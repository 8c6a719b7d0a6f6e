"""Rows of two unlike types that are the mix of the two own ones, and how to know them again.

The arithmetic is LAMMPS'. Source: the manual, "pair_modify" and "pair_hybrid"; Force field, "Linking".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from molrec_convert.model.forcefield.pairs import mixed_distance, mixed_energy

__all__ = ["is_mixed", "mixed_row", "mixed_values"]

Row = Mapping[str, Any]
#: What mixes like an energy, with the distance that goes with it, and what mixes like a distance.
_ENERGIES = {"epsilon": "sigma", "epsilon14": "sigma14"}
_DISTANCES = ("sigma", "sigma14", "cutoff")
_MARK = "mixed by the {} rule"


def mixed_values(names: Sequence[str], a: Row, b: Row, rule: str, params: Row) -> dict[str, float]:
    """The mix of those of some parameters that are known to mix and that two own rows have.

    Where neither row has a cutoff there is none: the style's is that of the pair as well.
    """
    given = {name: _own_values(name, a, b, params) for name in (*_ENERGIES, *_DISTANCES)}
    return {name: _mixed(name, rule, given) for name in names if given.get(name) is not None}


def mixed_row(a: Row, b: Row, rule: str, params: Row, required: Sequence[str]) -> dict[str, Any] | None:
    """The parameters of a row for two types, marked as mixed; None where one of them does not mix in a known way."""
    names = [name for name in dict.fromkeys((*a, *b)) if isinstance(a.get(name, b.get(name)), float)]
    values = mixed_values(names, a, b, rule, params)
    if not set(names) | set(required) <= set(values) or not all(map(math.isfinite, values.values())):
        return None
    return {**values, "desc": _MARK.format(rule)}


def is_mixed(row: Row, a: Row | None, b: Row | None, params: Row) -> bool:
    """Whether a row is marked as mixed and still is the mix of the two own ones, so that nobody has to state it."""
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
