"""Factors of columns and keys by their names, between the units of a source and those of a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from molrec_convert.quantities.dimensions import UnitConversion
from molrec_convert.quantities.standard import dimension_of

__all__ = ["NamedFactors"]


class NamedFactors(UnitConversion):
    """A conversion of units that knows what columns and keys are quantities of.

    `dimensions` gives those of names that have none by themselves: "gap" or "atoms/gap" → "energy".
    """

    def __init__(
        self, source: Mapping[str, Any], target: Mapping[str, Any], dimensions: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(source, target)
        self.dimensions = dict(dimensions or {})
        #: Names given in `dimensions` that nothing has had so far.
        self.idle = set(self.dimensions)

    def dimension(self, name: str, *, block: str | None = None) -> str | None:
        """Return the dimension of a column of a block, or of a per-step key (no block); None where nobody knows."""
        whole = name if block is None else f"{block}/{name}"
        given = whole if whole in self.dimensions else name
        if given not in self.dimensions:
            return dimension_of(name, key=block is None)
        self.idle.discard(given)
        return self.dimensions[given]

    def of_name(self, name: str, *, block: str | None = None) -> float | None:
        """Return what the values of a name are multiplied by, None where nobody can tell."""
        dimension = self.dimension(name, block=block)
        return None if dimension is None else self.factor(dimension)
