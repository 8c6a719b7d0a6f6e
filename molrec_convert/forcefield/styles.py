"""What a force-field style is: its parameters with their dimensions, and its energy, in each of the two definitions.

A plugin returns `StyleDefinition` objects from the hook `molrec_styles`.
Source: Force field, "Registry" and "Version 2 definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["DEFINITIONS", "Parameter", "StyleDefinition"]

#: The definitions there are.
DEFINITIONS = (1, 2)
#: A radian in degrees and the reverse, as far as an expression needs them.
_DEGREE = "0.017453292519943295"
_RADIAN = "57.29577951308232"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a style.

    `name` is that of definitions 1, `later` that of definitions 2 where it is another. `dimension` is made of `E`
    energy, `L` length, `A` angle, `Q` charge, `M` mass and `T` time ("E/L^2"; "1" for a pure number). `halved`: the
    number of definitions 2 is half that of definitions 1. `default` is the value of a row that has none; without a
    default a row must have one, unless the parameter is `optional`. `indexed` names the definitions in which a style
    may have several terms, their parameters numbered from 1 ("phase1", "phase2", …); `bare`: or a single one without a
    number. `fallback` names the parameter whose value stands in for a null of this one. `axes` counts the trailing
    axes of an array. `mixing` says how the value for two unlike types comes from the two own ones: as an `energy`, as a
    `distance`, or not at all.
    """

    name: str
    dimension: str = "1"
    default: float | str | None = None
    halved: bool = False
    later: str | None = None
    indexed: tuple[int, ...] = ()
    bare: bool = True
    axes: int = 0
    mixing: str | None = None
    fallback: str | None = None
    optional: bool = False

    @property
    def is_angle(self) -> bool:
        """Whether the value is an angle."""
        return self.dimension == "A"

    @property
    def per_angle(self) -> int:
        """The power of the angle a force constant is divided by."""
        found = re.search(r"/A(?:\^(\d+))?", self.dimension)
        return 0 if found is None else int(found[1] or 1)

    @property
    def required(self) -> bool:
        """Whether a row without it cannot be priced."""
        return self.default is None and not self.optional

    def named(self, definitions: int) -> str:
        """The name in the definitions."""
        return self.later if definitions == 2 and self.later is not None else self.name


@dataclass(frozen=True)
class StyleDefinition:
    """One style: category, name, parameters of its rows and of the style itself, and its energy.

    `expression` is the energy of one term in the syntax of Lepton, angles in radians, the same in both definitions or
    one for each; None where the energy is no such formula, and `energy` says in words what it is. Its variables are
    `r`, `theta`, `phi`, `chi`, `q1`, `q2`, the points `p1`, `p2`, … and the parameters. Where parameters are numbered
    it is the energy of one of the summed terms, `{m}` stands for the number and `{n}` for one less. `definitions` are
    those in which the name is registered. `special` is the set of 1-2, 1-3, 1-4 weights a pair style takes, `mixing`
    the rule of a pair style that states none. `rows`: whether the style needs rows at all.
    """

    category: str
    style: str
    parameters: tuple[Parameter, ...] = ()
    expression: str | tuple[str, str] | None = None
    energy: str = ""
    style_parameters: tuple[Parameter, ...] = ()
    definitions: tuple[int, ...] = DEFINITIONS
    special: str | None = None
    mixing: str | None = None
    rows: bool = True

    @property
    def name(self) -> str:
        """`bond.harmonic`: category and style, for messages."""
        return f"{self.category}.{self.style}"

    def parameter(self, column: str, definitions: int) -> Parameter | None:
        """The parameter a column holds, None for a column the style does not know."""
        for entry in self.parameters:
            name = entry.named(definitions)
            if column == name and (entry.bare or definitions not in entry.indexed):
                return entry
            if definitions in entry.indexed and _number(column, name):
                return entry
        return None

    def terms(self, columns: Iterable[str], definitions: int) -> list[str]:
        """The numbers of the terms some columns hold, ascending; [""] when the parameters are not numbered."""
        indexed = [entry.named(definitions) for entry in self.parameters if definitions in entry.indexed]
        found = {_number(column, name) for column in columns for name in indexed} - {""}
        return sorted(found, key=int) or [""]

    def formula(self, definitions: int, columns: Iterable[str] = (), angle: str = "radian") -> str | None:
        """The energy as an expression of the parameters as they are stored, None where there is none.

        `columns` are those of the table (they say how many terms there are), `angle` is `units.angle`. The sum of the
        terms is written out, and angles come in radians: a parameter in degrees is converted where it stands.
        """
        if self.expression is None or definitions not in self.definitions:
            return None
        text = self.expression if isinstance(self.expression, str) else self.expression[definitions - 1]
        formula, semicolon, rest = text.partition(";")
        names = self.terms(columns, definitions)
        terms = [formula.replace("{m}", name).replace("{n}", str(int(name or 1) - 1)) for name in names]
        if angle == "degree":
            scales = self._scales(definitions, names)
            terms = [_scaled(term, scales) for term in terms]
            rest = _scaled(rest, scales)
        return "+".join(terms) + semicolon + rest

    def _scales(self, definitions: int, terms: list[str]) -> dict[str, str]:
        """Variable → factor that takes its value from degrees to radians."""
        scales: dict[str, str] = {}
        for entry in self.parameters:
            factors = [_DEGREE] if entry.is_angle else [_RADIAN] * (entry.per_angle if definitions == 1 else 0)
            if factors:
                numbers = terms if definitions in entry.indexed else [""]
                scales |= {entry.named(definitions) + number: "*".join(factors) for number in numbers}
        return scales


def _number(column: str, name: str) -> str:
    """The number behind a name: "2" for `phase2` of `phase`; empty when there is none."""
    tail = column[len(name) :]
    return tail if column.startswith(name) and re.fullmatch(r"[1-9][0-9]{0,3}", tail) else ""


def _scaled(text: str, scales: dict[str, str]) -> str:
    return _NAME.sub(lambda name: f"({name[0]}*{scales[name[0]]})" if name[0] in scales else name[0], text)
