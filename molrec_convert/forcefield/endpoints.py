"""Rows found by the types of atoms: endpoints, wildcards, classes.

A row matches a tuple of types when its endpoints equal it in order or reversed (where the category has no direction: in
order only where it has one); `""` matches any. Of several rows the one with the fewest wildcards is taken, of those the
first. Source: Force field, "Document" and "Linking".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from molrec_convert.forcefield.categories import category
from molrec_convert.model.forcefield import ForceField
from molrec_convert.model.forcefield_document import Style
from molrec_convert.model.forcefield_tables import endpoint_columns, text_codes
from molrec_convert.model.frame import Block

__all__ = ["Labels", "endpoint_rows", "unordered_rows"]


class Labels:
    """What the endpoints of a style may name, for each of some atom types: the type itself, or its class."""

    def __init__(self, forcefield: ForceField, types: Sequence[str]) -> None:
        self.types = list(types)
        self._classes: list[str | None] | None = None
        self._forcefield = forcefield

    def of(self, style: Style) -> list[str | None]:
        """One label per type; None for a type without a class."""
        if style.endpoint_key != "class":
            return list(self.types)
        if self._classes is None:
            known: dict[str, str] = {}
            for atom in self._forcefield.of_category("atom"):
                table = self._forcefield.tables[atom.block]
                if "class" in table.columns and "name" in table.columns:
                    valid = table.validity("class").tolist()
                    for name, label, there in zip(
                        table.stored("name").tolist(), table.stored("class").tolist(), valid, strict=True
                    ):
                        if there:
                            known.setdefault(name, label)
            self._classes = [known.get(name) for name in self.types]
        return self._classes


def endpoint_rows(table: Block, style: Style, labels: Labels, types: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of a table for every tuple of atom types, -1 for none.

    `types` int64[n, arity] are positions in `labels.types`, negative for an atom without a type.
    """
    columns = endpoint_columns(table)
    found = np.full(len(types), -1, dtype=np.int64)
    if style.endpoint_key == "smirks" or not table.count or len(columns) != types.shape[1] or not len(columns):
        return found
    ends, given = _codes(table, columns, labels.of(style))
    tuples, where = np.unique(np.where(types < 0, -1, given[types]), axis=0, return_inverse=True)
    search = _Search(ends.tolist(), directed=category(style.category).directed)
    rows = np.array([search.row(tuple(ends)) for ends in tuples.tolist()], dtype=np.int64)
    return rows[where.reshape(-1)]


class _Search:
    """Endpoints of rows, to be found by the labels of atoms. Every set of places that are wild is looked up at once."""

    def __init__(self, ends: list[list[int]], *, directed: bool) -> None:
        self._rows: dict[tuple[int, ...], int] = {}
        for row, codes in enumerate(ends):
            self._rows.setdefault(tuple(codes), row)
        patterns = {tuple(code == 0 for code in codes) for codes in self._rows}
        self._patterns: dict[int, list[tuple[bool, ...]]] = {}
        for pattern in sorted(patterns, key=sum):
            self._patterns.setdefault(sum(pattern), []).append(pattern)
        self._directed = directed

    def row(self, labels: tuple[int, ...]) -> int:
        """The first of the fitting rows with the fewest wildcards; -1 for none."""
        orders = (labels,) if self._directed else (labels, labels[::-1])
        for patterns in self._patterns.values():
            found = [
                self._rows.get(tuple(0 if wild else label for label, wild in zip(order, pattern, strict=True)))
                for pattern in patterns
                for order in orders
            ]
            rows = [row for row in found if row is not None]
            if rows:
                return min(rows)
        return -1


def unordered_rows(
    table: Block, style: Style, labels: Labels, a: NDArray[np.int64], b: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The row of a pair table for the types `a` and `b` (positions in `labels.types`), in either order; -1 for none."""
    columns = endpoint_columns(table)
    if style.endpoint_key == "smirks" or not table.count or len(columns) != 2:
        return np.full(len(a), -1, dtype=np.int64)
    ends, given = _codes(table, columns, labels.of(style))
    unknown = int(ends.max()) + 1
    given = np.where(given < 0, unknown, given)

    def key(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(x, y) * (unknown + 1) + np.maximum(x, y)

    known, first = np.unique(key(ends[:, 0], ends[:, 1]), return_index=True)

    def row(keys: NDArray[np.int64]) -> NDArray[np.int64]:
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[at] == keys, first[at], -1)

    x, y, wild = given[a], given[b], np.zeros(len(a), dtype=np.int64)
    one, other = row(key(wild, x)), row(key(wild, y))
    half = np.where(one < 0, other, np.where(other < 0, one, np.minimum(one, other)))
    found = row(key(x, y))
    for next_best in (half, row(key(wild, wild))):
        found = np.where(found < 0, next_best, found)
    return found


def _codes(
    table: Block, columns: Sequence[str], labels: Sequence[str | None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Endpoints of the rows and labels of the types as numbers: 0 is the wildcard, -1 a label no row has."""
    texts, codes = text_codes(*(table.stored(name) for name in columns))
    position = {text: code + 1 for code, text in enumerate(texts)}
    position[""] = 0
    to_code = np.array([position[text] for text in texts], dtype=np.int64)
    ends = np.stack([to_code[code] for code in codes], axis=1)
    # A type called "" is a type like any other, not a wildcard.
    given = [-1 if label is None or label == "" else position.get(label, -1) for label in labels]
    return ends, np.array(given, dtype=np.int64)
