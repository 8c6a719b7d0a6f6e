"""MDAnalysis' own guesses, each made once for all atoms of one name or type.

It guesses atom by atom from the name or the type alone; in a system of thousands of atoms there are a few of either.
"""

from __future__ import annotations

from typing import Any

from MDAnalysis.guesser.default_guesser import DefaultGuesser

__all__ = ["guesser_for"]


class _Remembering(DefaultGuesser):  # type: ignore[misc]
    """The default guesser, which remembers what it said of a name or a type."""

    context = "default, remembered"

    def __init__(self, universe: Any, **kwargs: Any) -> None:
        super().__init__(universe, **kwargs)
        self._elements: dict[Any, Any] = {}
        self._masses: dict[Any, Any] = {}

    def guess_atom_element(self, atomname: Any) -> Any:
        """See `DefaultGuesser.guess_atom_element`."""
        if atomname not in self._elements:
            self._elements[atomname] = super().guess_atom_element(atomname)
        return self._elements[atomname]

    def get_atom_mass(self, element: Any) -> Any:
        """See `DefaultGuesser.get_atom_mass`."""
        if element not in self._masses:
            self._masses[element] = super().get_atom_mass(element)
        return self._masses[element]


def guesser_for(universe: Any) -> Any:
    """The guesser of a universe; one that remembers in place of MDAnalysis' default."""
    own = universe._context
    default = type(own) is DefaultGuesser or (isinstance(own, str) and own.lower() == "default")
    return _Remembering(universe) if default else own
