"""Numbers of atom types in a dump: by what the record calls them, in order of appearance or in the one asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.model import Column, distinct
from molrec_convert.quantities.elements import NUMBERS
from molrec_convert.report import Report
from molrec_lammps.write.type_order import order_fault

__all__ = ["TYPE_COLUMNS", "TypeNumbers"]

#: The columns that say of which type an atom is.
TYPE_COLUMNS = ("type", "type_id", "element")


class TypeNumbers:
    """The number of each type that frames have. `asked` is `--type-order`, empty for the order of appearance."""

    def __init__(self, asked: Sequence[str], report: Report) -> None:
        self.asked, self.report = tuple(asked), report
        self.known = {name: number for number, name in enumerate(self.asked, 1)}
        if len(self.known) < len(self.asked):
            raise order_fault((), (), self.asked)

    def source(self, columns: Mapping[str, Column]) -> str:
        """Return the column of the record whose values the names asked for are.

        UsageError: a name that is neither a type nor an element, or a type that is not named.
        """
        held = {name: set(map(str, columns[name].values.tolist())) for name in TYPE_COLUMNS if name in columns}
        if not held:
            raise UsageError("--type-order: the record has neither types nor elements")
        fitting = [name for name, names in held.items() if names <= self.known.keys()]
        source = fitting[0] if fitting else next(iter(held))
        unknown = [name for name in self.asked if name not in held[source] and name not in NUMBERS]
        missing = sorted(held[source] - self.known.keys())
        if unknown or missing:
            raise order_fault(unknown, missing, sorted(held[source]))
        told = ", ".join(f"{name} is {number}" for name, number in self.known.items())
        self.report.converted("atoms/type_id", f"numbered as --type-order says: {told}")
        return source

    def of(self, names: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of each atom's type. UsageError: one that `--type-order` does not name."""
        labels, places, _ = distinct(names)
        texts = list(map(str, labels.tolist()))
        first = np.full(len(texts), len(places), dtype=np.int64)
        first[places[::-1]] = np.arange(len(places) - 1, -1, -1)
        for text in (texts[n] for n in np.argsort(first).tolist()):
            if text in self.known:
                continue
            if self.asked:
                raise order_fault((), [text], [*self.known, text])
            self.known[text] = len(self.known) + 1
            self.report.derived("type", f"the record has no type numbers: {text} is {self.known[text]}")
        return np.array([self.known[text] for text in texts] or [0], dtype=np.int64)[places]
