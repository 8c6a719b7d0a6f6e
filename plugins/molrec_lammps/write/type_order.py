"""The order of atom types a user asks for (`--type-order`): numbers of types, and what a data file says of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from molrec_convert.errors import UsageError
from molrec_convert.model import Column
from molrec_convert.quantities.elements import NUMBERS
from molrec_convert.report import Report
from molrec_lammps.write.types import Types, is_label

__all__ = ["order_fault", "ordered"]

#: What a data file says of each atom type in a list of its own, and what by kinds of types.
_LISTS = ("masses", "mass_comments")
_BY_KIND = ("type_labels", "label_comments")


def ordered(
    types: Types,
    elements: Column | None,
    document: Mapping[str, Any],
    asked: Sequence[str],
    report: Report,
    *,
    closed: bool = False,
) -> tuple[Types, dict[str, Any]]:
    """Return the types numbered in the order asked for, and the document (what a data file said) to go with them.

    `asked` has the name of each type, or its element. An element no atom is of becomes a type without atoms, unless
    the types are `closed`: a force field says what they are. Types without atoms that are not named come last.
    UsageError: a name that is none, or a type that is not named.
    """
    used = np.unique(types.numbers).tolist()
    called = _called(types, elements, used, asked)
    unknown = [name for name in asked if name not in called.values() and (closed or name not in NUMBERS)]
    missing = [called[number] for number in used if called[number] not in asked]
    if unknown or missing or len(set(asked)) < len(asked):
        raise order_fault(unknown, missing, list(called.values()))
    order: list[int | None] = [next((n for n, own in called.items() if own == name), None) for name in asked]
    order += [number for number in range(1, types.count + 1) if number not in order]
    new = np.zeros(types.count + 1, dtype=np.int64)
    for number, old in enumerate(order, 1):
        if old is not None:
            new[old] = number
    names = [asked[place] if old is None else types.names[old - 1] for place, old in enumerate(order)]
    shown = [called.get(old or 0, name) for old, name in zip(order, names, strict=True)]
    labels = _taken(types.labels, order, names) if types.labels else []
    told = ", ".join(f"{name} is {number}" for number, name in enumerate(shown, 1))
    report.converted("atoms/type_id", f"numbered as --type-order says: {told}")
    found = dict(document)
    for key in _LISTS:
        if key in document:
            found[key] = _taken(document[key], order, [None] * len(order) if key == "masses" else [""] * len(order))
    for key in _BY_KIND:
        if "atom" in document.get(key, {}):
            blanks = labels if key == "type_labels" else [""] * len(order)
            found[key] = {**document[key], "atom": _taken(document[key]["atom"], order, blanks)}
    if "type_counts" in document:
        found["type_counts"] = {**document["type_counts"], "atom": len(order)}
    return Types(new[types.numbers], len(order), labels if all(map(is_label, labels)) else [], names), found


def order_fault(unknown: Sequence[str], missing: Sequence[str], known: Sequence[str]) -> UsageError:
    """Return the error of a name that is none, of a type that is not named, or of one named twice."""
    there = ", ".join(dict.fromkeys(known))
    if unknown:
        return UsageError(f"--type-order: the record has no type {unknown[0]!r}; it has {there}")
    if missing:
        return UsageError(f"--type-order: the type {missing[0]} is not named; name each of {there}")
    return UsageError("--type-order: a type is named twice")


def _called(types: Types, elements: Column | None, used: Sequence[int], asked: Sequence[str]) -> dict[int, str]:
    """What each type is called: by its element where the names asked for are not those of types and elements tell."""
    names = dict(enumerate(types.names, 1))
    if all(names[number] in asked for number in used) or elements is None or elements.dtype != "string":
        return names
    found: dict[int, str] = {}
    for number in used:
        rows = types.numbers == number
        if elements.validity is not None and not elements.validity[rows].all():
            return names
        symbols = set(elements.values[rows].tolist())
        if len(symbols) != 1 or symbols & set(found.values()):
            return names
        found[number] = symbols.pop()
    return found


def _taken(values: Sequence[Any], order: Sequence[int | None], blanks: Sequence[Any]) -> list[Any]:
    """What stands in a list for each type of an order; a blank for those that are not in it."""
    return [
        values[old - 1] if old is not None and old <= len(values) else blank
        for old, blank in zip(order, blanks, strict=True)
    ]
