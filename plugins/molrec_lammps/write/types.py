"""Numbers of atoms and types for a LAMMPS file, from a record of any origin.

A record from LAMMPS has them (`id`, `type_id`); of any other atoms are numbered by row, and types by the names in
`type` or `element`, or of a relation by its `type`, in order of first appearance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Block, Column
from molrec_convert.report import Report

__all__ = ["Types", "atom_ids", "atom_types", "is_label", "relation_types"]

#: The largest number LAMMPS has for an atom or a type: in its usual build, and in any.
_USUAL = 2**31 - 1
_LARGEST = 2**63 - 1


@dataclass
class Types:
    """Types of some rows: the number of each row (int64, from 1 on), how many there are, and their labels if any."""

    numbers: NDArray[np.int64]
    count: int
    labels: list[str]
    names: list[str]


def atom_ids(atoms: Mapping[str, Column], count: int, report: Report, node: str = "atoms/id") -> NDArray[np.int64]:
    """The id of each row. UnsupportedError: an id that is 0, missing, there twice, or beyond 64 bits."""
    column = atoms.get("id")
    if column is None:
        report.derived(node, "the record has no ids: atoms are numbered by row, from 1 on")
        return np.arange(1, count + 1, dtype=np.int64)
    if column.validity is not None:
        row = int((~column.validity).argmax())
        raise UnsupportedError(f"{node}: row {row} has no id, and LAMMPS has no atom without one")
    values = column.values
    if len(values) and int(values.max()) > _LARGEST:
        raise UnsupportedError(f"{node}: the id {int(values.max())} is beyond what LAMMPS can hold, {_LARGEST}")
    ids = values.astype(np.int64)
    if len(ids) and int(ids.min()) < 1:
        raise UnsupportedError(f"{node}: the id {int(ids.min())} is none of LAMMPS', which count from 1")
    if len(ids) > 1 and not bool((ids[1:] > ids[:-1]).all()):
        ordered = np.sort(ids)
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(twice):
            raise UnsupportedError(f"{node}: the id {int(ordered[twice[0]])} is there twice")
    if len(ids) and int(ids.max()) > _USUAL:
        report.warn(f"{node}: ids up to {int(ids.max())} need a LAMMPS built with -DLAMMPS_BIGBIG")
    return ids


def atom_types(
    atoms: Mapping[str, Column], count: int, document: Mapping[str, Any], report: Report, node: str = "atoms"
) -> Types:
    """The types of atoms: `type_id`, else by `type`, else by `element`. `document` is what a data file said."""
    stated = _stated(document, "atom")
    if "type_id" in atoms:
        return _numbered(atoms["type_id"], atoms.get("type"), stated, _labels(document, "atom"), f"{node}/type_id")
    for name in ("type", "element"):
        if name in atoms and atoms[name].dtype == "string":
            types = _named(atoms[name], f"{node}/{name}")
            report.derived(f"{node}/type_id", f"from {name}: {_listing(types.names)}")
            return types
    report.derived(f"{node}/type_id", "the record states neither types nor elements: all atoms are of type 1")
    return Types(np.ones(count, dtype=np.int64), 1, [], ["1"])


def relation_types(block: Block, kind: str, document: Mapping[str, Any], report: Report, node: str) -> Types:
    """The types of a relation's rows: `type_id`, else by `type`; all of one type where neither is there."""
    stated = _stated(document, kind)
    if "type_id" in block.columns:
        return _numbered(
            block.columns["type_id"], block.columns.get("type"), stated, _labels(document, kind), f"{node}/type_id"
        )
    if "type" in block.columns and block.columns["type"].dtype == "string":
        types = _named(block.columns["type"], f"{node}/type")
        report.derived(f"{node}/type_id", f"from type: {_listing(types.names)}")
        return types
    report.derived(f"{node}/type_id", "the record states no types: all rows are of type 1")
    return Types(np.ones(block.count, dtype=np.int64), 1, [], ["1"])


def is_label(name: str) -> bool:
    """Whether LAMMPS takes a name as a type label: no digit, `*` or `#` first, no blanks."""
    return bool(name) and not name[0].isdigit() and name[0] not in "*#" and not any(c.isspace() for c in name)


def _stated(document: Mapping[str, Any], kind: str) -> int:
    counts = document.get("type_counts")
    value = counts.get(kind, 0) if isinstance(counts, Mapping) else 0
    return value if isinstance(value, int) else 0


def _labels(document: Mapping[str, Any], kind: str) -> list[str]:
    labels = document.get("type_labels")
    found = labels.get(kind) if isinstance(labels, Mapping) else None
    return [str(label) for label in found] if isinstance(found, Sequence) else []


def _numbered(column: Column, names: Column | None, stated: int, labels: list[str], node: str) -> Types:
    if column.validity is not None:
        row = int((~column.validity).argmax())
        raise UnsupportedError(f"{node}: row {row} has no type, and LAMMPS has none without")
    numbers = column.values
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (1, 0)
    if low < 1 or high > _USUAL:
        raise UnsupportedError(f"{node}: the type {low if low < 1 else high} is none of LAMMPS', which count from 1")
    count = max(high, stated, len(labels))
    if count > len(numbers) + stated + len(labels) + 10**6:
        raise UnsupportedError(f"{node}: the type {high} makes LAMMPS set up {high} types")
    own = numbers.astype(np.int64)
    known = _names_of(own, names, count)
    if labels:
        known = [*labels, *known[len(labels) :]]
    elif any(is_label(name) for name in known):
        labels = known if all(map(is_label, known)) and len(set(known)) == len(known) else []
    return Types(own, count, labels, known)


def _names_of(numbers: NDArray[np.int64], names: Column | None, count: int) -> list[str]:
    """What each type is called, from its first row; its number where no row has it."""
    known = [str(number) for number in range(1, count + 1)]
    if names is None or names.dtype != "string" or not len(numbers):
        return known
    first = np.full(count + 1, -1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    for number in np.flatnonzero(first >= 0).tolist():
        row = int(first[number])
        if names.validity is None or names.validity[row]:
            known[number - 1] = str(names.values[row])
    return known


def _named(column: Column, node: str) -> Types:
    if column.validity is not None:
        row = int((~column.validity).argmax())
        raise UnsupportedError(f"{node}: row {row} has no name, and LAMMPS has no atom without a type")
    texts = column.values.tolist()
    numbers: dict[str, int] = {}
    for text in dict.fromkeys(texts):
        numbers[text] = len(numbers) + 1
    values = np.fromiter(map(numbers.__getitem__, texts), dtype=np.int64, count=len(texts))
    names = list(numbers)
    if names and all(name.isdigit() for name in names):
        order = sorted(names, key=int)
        if [int(name) for name in order] == list(range(1, len(order) + 1)):
            rank = {numbers[name]: int(name) for name in names}
            values = np.array([0, *(rank[n] for n in range(1, len(names) + 1))], dtype=np.int64)[values]
            return Types(values, len(names), [], order)
    labels = names if all(map(is_label, names)) else []
    return Types(values, len(names), labels, names)


def _listing(names: list[str]) -> str:
    shown = ", ".join(f"{name} is {number}" for number, name in enumerate(names[:8], 1))
    return shown + (" …" if len(names) > 8 else "")
