"""The registry: which styles are known, in which definitions.

`STANDARD` holds the styles of the contract; `extended` adds those of plugins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from molrec_convert.errors import UsageError
from molrec_convert.model.forcefield.expression import Expression
from molrec_convert.model.forcefield.styles import DEFINITIONS, STANDARD_STYLES, StyleDefinition

__all__ = ["STANDARD", "Registry"]

_DIMENSION = re.compile(r"(?:1|[ELAQMT])(?:\^\d)?(?:[*/][ELAQMT](?:\^\d)?)*")


class Registry:
    """Styles by category and name. Two styles of one name in one set of definitions are an error."""

    def __init__(self, styles: Iterable[StyleDefinition] = ()) -> None:
        self._styles: dict[tuple[int, str, str], StyleDefinition] = {}
        for style in styles:
            self._add(style)

    def find(self, category: str, style: str, definitions: int) -> StyleDefinition | None:
        """Return the style of that name in the definitions, None when it is not registered there."""
        return self._styles.get((definitions, category, style))

    def extended(self, styles: Iterable[StyleDefinition]) -> Registry:
        """Return a registry with more styles; `UsageError` for one that is taken or cannot be used."""
        return Registry([*self, *styles])

    def __iter__(self) -> Iterator[StyleDefinition]:
        """Return the styles, each once."""
        return iter(dict.fromkeys(self._styles.values()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _add(self, style: StyleDefinition) -> None:
        _check(style)
        for definitions in style.definitions:
            key = (definitions, style.category, style.style)
            if self._styles.setdefault(key, style) != style:
                raise UsageError(f"the style {style.name} is registered twice with different meanings")


def _check(style: StyleDefinition) -> None:
    """Refuse a style whose data make no sense."""
    if not set(style.definitions) <= set(DEFINITIONS) or not style.definitions:
        raise UsageError(f"the style {style.name} names definitions there are not: {style.definitions}")
    for entry in (*style.parameters, *style.style_parameters):
        if not _DIMENSION.fullmatch(entry.dimension):
            raise UsageError(f"the parameter {entry.name!r} of {style.name} has no dimension: {entry.dimension!r}")
        if entry.mixing not in (None, "energy", "distance"):
            raise UsageError(f"the parameter {entry.name!r} of {style.name} mixes in no known way: {entry.mixing!r}")
    for definitions in style.definitions:
        formula = style.formula(definitions)
        if formula is not None:
            Expression(formula)


#: The styles of the contract.
STANDARD = Registry(STANDARD_STYLES)
