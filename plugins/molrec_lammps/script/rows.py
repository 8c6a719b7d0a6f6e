"""The rows of coefficients in force while commands are taken one by one."""

from __future__ import annotations

from collections.abc import Callable

from molrec_lammps.potential.potential import Coefficient

__all__ = ["Rows"]

_Place = tuple[str, tuple[int, ...]]
_Key = tuple[str, int, str]


class Rows:
    """Rows by what they are of, each with the number of its statement."""

    def __init__(self) -> None:
        self._rows: dict[_Place, dict[_Key, tuple[int, Coefficient]]] = {}
        self._number = 0

    def all(self) -> list[Coefficient]:
        """The rows in force, in the order of their statements."""
        return [row for _, row in sorted((entry for own in self._rows.values() for entry in own.values()), key=_first)]

    def put(self, row: Coefficient, hybrid: str) -> None:
        """One row; `hybrid` is the kind of hybrid its category is, "" for none.

        Under a plain hybrid a pair or type has one sub-style, the last; under an overlay `none` takes off all.
        """
        own = self._rows.setdefault((row.category, row.types), {})
        if hybrid:
            overlay = row.category == "pair" and hybrid != "hybrid" and row.style != "none"
            gone = [key for key in own if (key[0] == "none" if overlay else key[:2] != (row.style, row.index))]
            for key in gone:
                del own[key]
        self._number += 1
        own[(row.style, row.index, row.part)] = (self._number, row)

    def undo(self, category: str, style: str, index: int) -> None:
        """No row of a sub-style (of the only style: "" and 0) is in force any more."""
        for place, own in self._rows.items():
            if place[0] == category:
                own.pop((style, index, ""), None)

    def drop(self, category: str) -> None:
        """No row of the category is in force any more."""
        for place in [place for place in self._rows if place[0] == category]:
            del self._rows[place]

    def change(self, category: str, how: Callable[[Coefficient], Coefficient]) -> None:
        """Every row of the category becomes what `how` makes of it."""
        for place, own in self._rows.items():
            if place[0] == category:
                self._rows[place] = {key: (number, how(row)) for key, (number, row) in own.items()}


def _first(entry: tuple[int, Coefficient]) -> int:
    return entry[0]
