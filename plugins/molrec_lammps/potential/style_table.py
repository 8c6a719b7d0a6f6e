"""The styles of LAMMPS: their coefficients and arguments with names, kinds and units. Read from `styles.tsv` on use.

Energies of angles, dihedrals and impropers are per radian to some power though angles are given in degrees. Source: the
manual's page of each style, checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

__all__ = [
    "ANGSTROM_UNITS",
    "PARTS",
    "UNKNOWN_UNIT",
    "Pattern",
    "Slot",
    "StyleRow",
    "Value",
    "bare_style",
    "find_style",
    "gathered",
    "is_integer",
    "is_number",
    "is_style",
    "number_word",
    "number_words",
    "style_rows",
]

#: What a word means: a number, a text, or several words.
Value = float | int | str | tuple[str, ...]

#: The unit of a number nothing says the unit of.
UNKNOWN_UNIT = "?"

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?\d+")
_TOKEN = re.compile(r"\s*(\)\*\w+|[\[\](]|\w+[:=][^\s\[\]()]+)")


@dataclass(frozen=True)
class Slot:
    """One word: its name, its kind (`float int text file some each`), the unit of a number, the word it has to be.

    Units are made of `E` energy, `L` length, `F` force, `V` velocity, `T` temperature, `deg`, `rad`; `?` for an unknown
    one, "" for what is no number.
    """

    name: str
    kind: str = "float"
    unit: str = ""
    literal: str | None = None

    def value(self, word: str) -> Value | None:
        """Return what a word means here, None when it cannot stand here."""
        if self.literal is not None:
            return word if word == self.literal else None
        if self.kind == "float":
            return float(word) if is_number(word) else None
        if self.kind == "int":
            return int(word) if is_integer(word) else None
        return word


@dataclass(frozen=True)
class _Optional:
    items: tuple[_Item, ...]


@dataclass(frozen=True)
class _Repeat:
    items: tuple[_Item, ...]
    count: str


_Item = Slot | _Optional | _Repeat


@dataclass(frozen=True)
class Pattern:
    """A pattern, parsed. `text` is what it was made of."""

    text: str
    alternatives: tuple[tuple[_Item, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Return the pattern a text states; `-` is the empty one, `?` one that nothing fits."""
        if text == UNKNOWN_UNIT:
            return cls(text, ())
        parts = [""] if text == "-" else text.split("|")
        return cls(text, tuple(_parsed(part) for part in parts))

    def read(self, words: Sequence[str], types: int | None = None) -> dict[str, Value] | None:
        """Name → value of the words, in order; slots of `(...)*n` are numbered from 1. None when they do not fit.

        `types` is the number of atom types, for patterns with a word for each.
        """
        found = self._match(words, types)
        return None if found is None else found[0]

    def slots_of(self, words: Sequence[str], types: int | None = None) -> tuple[Slot, ...] | None:
        """Return the slot of every word; None when they do not fit."""
        found = self._match(words, types)
        return None if found is None else found[1]

    def _match(self, words: Sequence[str], types: int | None) -> _Found | None:
        for items in self.alternatives:
            for found in _Matching(types).ways(items, tuple(words), "", {}, ()):
                return found
        return None

    def words(self, values: Mapping[str, Value]) -> tuple[str, ...] | None:
        """Return the words some values come from; None when a value that must be there is missing or is of another
        kind.
        """
        best: tuple[str, ...] | None = None
        for items in self.alternatives:
            found = _written(items, values, "")
            if found is not None and (best is None or len(found) > len(best)):
                best = found
        return best

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot there is, in order, those of alternatives too."""
        return tuple(dict.fromkeys(slot for items in self.alternatives for slot in _flat(items)))

    @property
    def required(self) -> int:
        """How few words fit; 0 where that is not known."""
        counts = (sum(isinstance(item, Slot) and item.kind != "some" for item in items) for items in self.alternatives)
        return min(counts, default=0)

    @property
    def ragged(self) -> bool:
        """Whether some slots are numbered."""
        return any(isinstance(item, _Repeat) for items in self.alternatives for item in items)

    def slot(self, name: str) -> Slot | None:
        """Return the slot of that name, numbered or not."""
        for items in self.alternatives:
            for item in items:
                if isinstance(item, _Repeat):
                    bare = re.sub(r"[1-9]\d*$", "", name)
                    found = next((slot for slot in _flat(item.items) if slot.name == bare and bare != name), None)
                else:
                    found = next((slot for slot in _flat((item,)) if slot.name == name), None)
                if found is not None:
                    return found
        return None


def gathered(values: Mapping[str, float | str], slots: Sequence[Slot]) -> dict[str, Value]:
    """Return values with those of a slot of many words, which are numbered from 1, put together under its name."""
    found: dict[str, Value] = dict(values)
    for slot in slots:
        if slot.kind in ("some", "each"):
            numbered = [values.get(f"{slot.name}{n}") for n in range(1, len(values) + 1)]
            found[slot.name] = tuple(
                word if isinstance(word, str) else number_word(word) for word in numbered if word is not None
            )
    return found


def is_number(word: str) -> bool:
    """True if LAMMPS reads a word as a number."""
    return _NUMBER.fullmatch(word) is not None


def is_integer(word: str) -> bool:
    """True if LAMMPS reads a word as an integer."""
    return _INTEGER.fullmatch(word) is not None


def number_word(value: float | int) -> str:
    """Return the shortest decimal that is the number; of a whole one without a point, so that it fits an integer as
    well.
    """
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text


def number_words(values: Sequence[float | int]) -> tuple[str, ...]:
    """Return `number_word` of each."""
    return tuple(number_word(value) for value in values)


def _parsed(text: str) -> tuple[_Item, ...]:
    stack: list[list[_Item]] = [[]]
    end = 0
    while end < len(text.rstrip()):
        token = _TOKEN.match(text, end)
        if token is None or (token[1][0] in "])" and len(stack) == 1):
            raise ValueError(f"malformed pattern {text!r} at {text[end:]!r}")
        end, word = token.end(), token[1]
        if word in "[(":
            stack.append([])
        elif word == "]":
            group = _Optional(tuple(stack.pop()))
            stack[-1].append(group)
        elif word.startswith(")*"):
            repeat = _Repeat(tuple(stack.pop()), word[2:])
            stack[-1].append(repeat)
        else:
            stack[-1].append(_slot(word))
    (items,) = stack
    return tuple(items)


def _slot(word: str) -> Slot:
    name, sign, what = re.split(r"([:=])", word, maxsplit=1)
    if sign == "=":
        return Slot(name, "text", literal=what)
    if what in ("int", "intdeg"):
        return Slot(name, "int", "deg" if what == "intdeg" else "")
    if what in ("text", "file", "some", "each"):
        return Slot(name, what)
    return Slot(name, "float", what)


def _flat(items: Sequence[_Item]) -> Iterator[Slot]:
    for item in items:
        if isinstance(item, Slot):
            yield item
        else:
            yield from _flat(item.items)


_Slots = tuple[Slot, ...]
_Found = tuple[dict[str, Value], _Slots]


@dataclass(frozen=True)
class _Matching:
    """The ways words fit items, optional ones rather there than not. `types` is the number of words of `each`."""

    types: int | None

    def ways(
        self, items: tuple[_Item, ...], words: tuple[str, ...], number: str, values: dict[str, Value], slots: _Slots
    ) -> Iterator[_Found]:
        """Yield every way; `number` is that of the repetition."""
        if not items:
            if not words:
                yield values, slots
            return
        first, rest = items[0], items[1:]
        if isinstance(first, _Optional):
            yield from self.ways((*first.items, *rest), words, number, values, slots)
            yield from self.ways(rest, words, number, values, slots)
        elif isinstance(first, _Repeat):
            yield from self._repeated(first, rest, words, values, slots)
        elif first.kind in ("some", "each"):
            fixed = first.kind == "each" and self.types is not None
            for n in (self.types or 0,) if fixed else range(len(words), -1, -1):
                if n <= len(words):
                    taken = {**values, first.name: words[:n]}
                    yield from self.ways(rest, words[n:], number, taken, slots + (first,) * n)
        elif words:
            value = first.value(words[0])
            if value is not None:
                yield from self.ways(rest, words[1:], number, {**values, first.name + number: value}, (*slots, first))

    def _repeated(
        self, item: _Repeat, rest: tuple[_Item, ...], words: tuple[str, ...], values: dict[str, Value], slots: _Slots
    ) -> Iterator[_Found]:
        count, each = values.get(item.count), len(item.items)
        if not isinstance(count, int) or not 0 <= count * each <= len(words):
            return
        for n in range(count):
            block = next(self.ways(item.items, words[n * each : (n + 1) * each], str(n + 1), {}, ()), None)
            if block is None:
                return
            values, slots = {**values, **block[0]}, slots + block[1]
        yield from self.ways(rest, words[count * each :], "", values, slots)


def _written(items: Sequence[_Item], values: Mapping[str, Value], number: str) -> tuple[str, ...] | None:
    words: tuple[str, ...] = ()
    for item in items:
        found = _item_words(item, values, number)
        if found is None:
            return None
        words += found
    return words


def _item_words(item: _Item, values: Mapping[str, Value], number: str) -> tuple[str, ...] | None:
    if isinstance(item, _Optional):
        return _written(item.items, values, number) or ()
    if isinstance(item, _Repeat):
        count = values.get(item.count)
        words: tuple[str, ...] = ()
        for n in range(int(count) if isinstance(count, (int, float)) else 0):
            block = _written(item.items, values, str(n + 1))
            if block is None:
                return None
            words += block
        return words
    value = values.get(item.name + number)
    if item.kind in ("some", "each"):
        return value if isinstance(value, tuple) else () if value is None else (str(value),)
    return _word(item, value)


def _word(slot: Slot, value: Value | None) -> tuple[str, ...] | None:
    if value is None or isinstance(value, tuple):
        return None
    if slot.literal is not None:
        return (slot.literal,) if value == slot.literal else None
    if slot.kind == "float":
        return None if isinstance(value, str) else (number_word(value),)
    if slot.kind == "int":
        return None if isinstance(value, str) or value != int(value) else (str(int(value)),)
    return (value if isinstance(value, str) else number_word(value),)


#: Styles of units whose lengths are of the size of an angstrom.
ANGSTROM_UNITS = ("real", "metal", "electron")
#: The words of cross terms by category, in the order LAMMPS writes them.
PARTS: dict[str, tuple[str, ...]] = {
    "angle": ("bb", "ba", "ub"),
    "dihedral": ("aat", "ebt", "mbt", "bb13", "at"),
    "improper": ("aa",),
}
#: What a style's name may end in without being another potential.
_SUFFIX = re.compile(r"(?<=.)/(?:omp|opt|gpu|intel|kk(?:/host|/device)?)$")
#: What a flag of a style says of its numbers in other units.
_UNCONVERTIBLE = {
    "file": "its numbers are in a file",
    "formula": "its energy is a formula, whose numbers have the units of the script",
    "constants": "LAMMPS holds constants of it that are the same numbers in all units",
    "untried": "its energies in two units styles were not compared",
}


@dataclass(frozen=True)
class StyleRow:
    """One style, or one cross term of a style (`part` is its word).

    `coefficients` is the pattern behind the types, `arguments` the one behind the name on the style line. `sections`
    are those of a data file that hold such rows. `mixing` is the rule of a pair style that mixes, None where LAMMPS
    wants every pair; `mixing_fixed`: `pair_modify mix` does not change it. `expression` is the energy of one term, its
    angles in radians and its parameters as LAMMPS has them. `flags`:

    - `coul`: the style is of charges alone
    - `file`: its numbers are in files it names; `nested`: these name files beside them; `with:FILE`: one LAMMPS reads
      without being told
    - `formula`: its numbers are in a text; `constants`: LAMMPS has some that are the same in all units; `angstroms`:
      these matter where lengths are not of the size of an angstrom; `untried`: nobody compared its energies
    - `every`: its row must be for `* *`, unless the argument behind `pairwise:` is given
    - `triples`: a row is for three types
    - `removed`: LAMMPS knows the name alone
    - `name=1`: what a slot is where a row leaves it out
    """

    category: str
    style: str
    part: str
    coefficients: Pattern
    arguments: Pattern
    sections: tuple[str, ...]
    mixing: str | None
    mixing_fixed: bool
    expression: str | None
    flags: frozenset[str]

    @property
    def defaults(self) -> dict[str, float]:
        """What LAMMPS takes for slots a row leaves out, where the energy needs them stated."""
        pairs = (flag.split("=") for flag in self.flags if "=" in flag)
        return {name: float(value) for name, value in pairs}

    @property
    def every(self) -> bool:
        """Whether the one row of the style is written for `* *`, an element word for each atom type."""
        return "every" in self.flags

    def takes_all(self, arguments: Sequence[str]) -> bool:
        """True if the style takes one command for all types, behind which nothing of an earlier one is left."""
        return self.every and not any(f"pairwise:{word}" in self.flags for word in arguments)

    def unconvertible(self, target: str | None = None) -> str:
        """Return why its numbers cannot be converted to other units (the style `target`, or any); "" where they can."""
        if "angstroms" in self.flags and target is not None and target not in ANGSTROM_UNITS:
            return f"LAMMPS holds lengths of it that are only right in units {', '.join(ANGSTROM_UNITS)}"
        for flag, reason in _UNCONVERTIBLE.items():
            if flag in self.flags:
                return reason
        patterns = (self.coefficients, self.arguments)
        slots = [slot for pattern in patterns for slot in pattern.slots]
        if all(pattern.alternatives for pattern in patterns) and all(slot.unit != UNKNOWN_UNIT for slot in slots):
            return ""
        return "the units of its numbers are not known"

    def read(self, words: Sequence[str], types: int | None = None) -> dict[str, Value] | None:
        """Name → value of the words of a coefficient row; None when they do not fit. `types`: how many atom types."""
        return self.coefficients.read(words, types)

    def words(self, values: Mapping[str, Value]) -> tuple[str, ...] | None:
        """Return the words of a row; None when a value is missing."""
        return self.coefficients.words(values)

    def read_arguments(self, words: Sequence[str]) -> dict[str, Value] | None:
        """Name → value of the words behind the style's name; None when they do not fit."""
        return self.arguments.read(words)

    def argument_words(self, values: Mapping[str, Value]) -> tuple[str, ...] | None:
        """Return the words behind the style's name; None when a value is missing."""
        return self.arguments.words(values)

    def units(self, words: Sequence[str]) -> tuple[str, ...] | None:
        """Return the unit of every word of a coefficient row ("" for what is no quantity); None when they do not
        fit.
        """
        return _units(self.coefficients, words)

    def argument_units(self, words: Sequence[str]) -> tuple[str, ...] | None:
        """Return the unit of every word behind the style's name."""
        return _units(self.arguments, words)


def bare_style(name: str) -> str:
    """Return a style's name without the suffix of an accelerated variant, which is the same potential."""
    return _SUFFIX.sub("", name)


def find_style(category: str, style: str, part: str = "") -> StyleRow | None:
    """Return the row of a style (suffixes left off) or of one of its cross terms; None for an unknown one."""
    return style_rows().get((category, bare_style(style), part))


def is_style(category: str, word: str) -> bool:
    """True if there is a style of that name, suffix or not; hybrids and `none` are no styles of their own."""
    bare = bare_style(word)
    return bare != "none" and (category, bare, "") in style_rows()


@functools.cache
def style_rows() -> Mapping[tuple[str, str, str], StyleRow]:
    """Return category, style and part → row; of all styles there are, in the order of the table."""
    text = resources.files("molrec_lammps").joinpath("styles.tsv").read_text(encoding="utf-8")
    rows = (_row(line.split("\t")) for line in text.splitlines()[1:])
    return {(row.category, row.style, row.part): row for row in rows}


def _row(cells: Sequence[str]) -> StyleRow:
    category, name, coefficients, arguments, sections, mixing, expression, flags = cells
    style, _, part = name.partition(":")
    rule = mixing.rstrip("!")
    return StyleRow(
        category,
        style,
        part,
        Pattern.parse(coefficients),
        Pattern.parse(arguments),
        () if sections == "-" else tuple(sections.split("; ")),
        rule if rule in ("geometric", "arithmetic", "sixthpower") else None,
        mixing.endswith("!"),
        None if expression == "-" else expression,
        frozenset() if flags == "-" else frozenset(flags.split()),
    )


def _units(pattern: Pattern, words: Sequence[str]) -> tuple[str, ...] | None:
    slots = pattern.slots_of(words)
    return None if slots is None else tuple(map(_unit, slots, words))


def _unit(slot: Slot, word: str) -> str:
    """Return the unit of a word; not known for a number among words of any kind."""
    return UNKNOWN_UNIT if slot.kind == "some" and is_number(word) else slot.unit
