"""The chemical elements, and how a user says which element each atom type is.

`--elements C,H,O` names the element of each type in order, `--elements 1=C,2=H` or `CT=C,HC=H` that of each type by its
number or its label; `X` stands for a type that is no element. Source of the symbols: IUPAC, periodic table of 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from molrec_convert.errors import UsageError

__all__ = ["NUMBERS", "SYMBOLS", "UNKNOWN", "ElementMap", "parse_elements"]

_TEXT = """
    H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo
    Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl
    Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og
"""
#: What stands for something that is no element: a bead, a united atom, a virtual site. Its atomic number is 0.
UNKNOWN = "X"
#: Symbols by atomic number; `UNKNOWN` is at 0.
SYMBOLS: tuple[str, ...] = (UNKNOWN, *_TEXT.split())
#: The atomic number of each symbol, `UNKNOWN` left out.
NUMBERS: dict[str, int] = {symbol: number for number, symbol in enumerate(SYMBOLS) if number}


@dataclass(frozen=True)
class ElementMap:
    """The element of each atom type, as a user gave it: in order of the types, or by their names.

    One of `ordered` and `named` is empty. None stands for a type that is no element.
    """

    ordered: tuple[str | None, ...] = ()
    named: Mapping[str, str | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ordered or self.named)

    def __str__(self) -> str:
        if self.ordered:
            return ",".join(symbol or UNKNOWN for symbol in self.ordered)
        return ",".join(f"{name}={symbol or UNKNOWN}" for name, symbol in self.named.items())

    @property
    def highest(self) -> int:
        """The highest type number that is spoken of; 0 where there are none but labels."""
        return len(self.ordered) or max((int(name) for name in self.named if name.isdecimal()), default=0)

    def of_types(self, count: int, labels: Sequence[str] = ()) -> list[str | None]:
        """Return the element of each type 1 … `count`. `labels` are the labels of the types, "" for none.

        UsageError: a type without an element, or an element for a type there is not.
        """
        if not self.named:
            if len(self.ordered) != count:
                raise UsageError(
                    f"--elements: {_counted(self.ordered)} for {count} atom types; name one for each, X for none"
                )
            return list(self.ordered)
        found: list[str | None] = []
        left = dict(self.named)
        for number in range(1, count + 1):
            label = labels[number - 1] if number <= len(labels) else ""
            names = [name for name in (label, str(number)) if name in self.named]
            if not names:
                raise UsageError(
                    f"--elements: atom type {number}{f' ({label})' if label else ''} is not named; name the element of "
                    "each type, X for none"
                )
            found.append(self.named[names[0]])
            for name in names:
                left.pop(name, None)
        if left:
            raise UsageError(f"--elements: there is no atom type {next(iter(left))!r}, but types 1 to {count}")
        return found

    def of_labels(self, labels: Sequence[str]) -> dict[str, str | None]:
        """Return the element of each label. Symbols in order are those of types 1, 2, … where labels are numbers.

        Of other labels there must be as many as symbols, sorted. UsageError: a label without an element.
        """
        names = sorted(set(labels), key=lambda text: (not text.isdecimal(), len(text) if text.isdecimal() else 0, text))
        if self.named:
            found = {name: self.named[name] for name in names if name in self.named}
        elif all(name.isdecimal() for name in names):
            found = {str(number): symbol for number, symbol in enumerate(self.ordered, 1)}
        else:
            if len(names) != len(self.ordered):
                raise UsageError(
                    f"--elements: {_counted(self.ordered)} for the types {', '.join(names)}; name each: CT=C,HC=H"
                )
            found = dict(zip(names, self.ordered, strict=True))
        missing = [name for name in names if name not in found]
        if missing:
            raise UsageError(
                f"--elements: atom type {missing[0]} is not named; name the element of each type, X for none"
            )
        return found


def _counted(symbols: Sequence[str | None]) -> str:
    return f"{len(symbols)} symbol{'' if len(symbols) == 1 else 's'}"


def parse_elements(words: Sequence[str]) -> ElementMap:
    """Return what `--elements` says: symbols in order of the types (C, H, O), or type=symbol (1=C, HC=H).

    One text is taken apart at its commas.

    UsageError: an empty word, a symbol that is none, a type twice, or the two spellings together.
    """
    words = words.split(",") if isinstance(words, str) else words
    ordered: list[str | None] = []
    named: dict[str, str | None] = {}
    for word in (word.strip() for word in words):
        name, equals, symbol = (part.strip() for part in word.rpartition("="))
        if not word:
            raise UsageError(f"--elements {','.join(words)}: a symbol is missing between two commas; X stands for none")
        if equals and not (name and symbol):
            raise UsageError(f"--elements: {word!r} is no type=symbol, like 1=C or HC=H")
        if symbol != UNKNOWN and symbol not in NUMBERS:
            raise UsageError(f"--elements: {symbol!r} is no element symbol (X stands for a type that is none)")
        if name in named:
            raise UsageError(f"--elements: type {name} is named twice")
        element = None if symbol == UNKNOWN else symbol
        if equals:
            named[name] = element
        else:
            ordered.append(element)
    if ordered and named:
        raise UsageError(
            f"--elements {','.join(words)}: name all types (1=C,2=H), or the symbols of all types in order (C,H)"
        )
    return ElementMap(tuple(ordered), named)
