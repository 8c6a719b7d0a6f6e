"""Patterns of words: what stands behind the type of a coefficient row, or behind the name on a style line.

A pattern is text such as `epsilon:E sigma:L [cutoff:L]`. `name:what` is one word; `what` is `int`, `intdeg`, `text`,
`file`, or the unit of a number (`1` for a pure one). `[...]` may be absent as a whole, `(...)*n` stands as often as the
slot `n` says, `name=word` is that very word, `name:some` any number of words, `name:each` one for every atom type. `|`
separates alternatives. A unit `?` is one that is not known; the pattern `?` fits no words at all, which then keep their
places instead of names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "UNKNOWN_UNIT",
    "Pattern",
    "Slot",
    "Value",
    "gathered",
    "is_integer",
    "is_number",
    "number_word",
    "number_words",
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
        """What a word means here, None when it cannot stand here."""
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
        """The pattern a text states; `-` is the empty one, `?` one that nothing fits."""
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
        """The slot of every word; None when they do not fit."""
        found = self._match(words, types)
        return None if found is None else found[1]

    def _match(self, words: Sequence[str], types: int | None) -> _Found | None:
        for items in self.alternatives:
            for found in _Matching(types).ways(items, tuple(words), "", {}, ()):
                return found
        return None

    def words(self, values: Mapping[str, Value]) -> tuple[str, ...] | None:
        """The words some values come from; None when a value that must be there is missing or is of another kind."""
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
        """The slot of that name, numbered or not."""
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
    """Values with those of a slot of many words, which are numbered from 1, put together under its name."""
    found: dict[str, Value] = dict(values)
    for slot in slots:
        if slot.kind in ("some", "each"):
            numbered = [values.get(f"{slot.name}{n}") for n in range(1, len(values) + 1)]
            found[slot.name] = tuple(
                word if isinstance(word, str) else number_word(word) for word in numbered if word is not None
            )
    return found


def is_number(word: str) -> bool:
    """Whether LAMMPS reads a word as a number."""
    return _NUMBER.fullmatch(word) is not None


def is_integer(word: str) -> bool:
    """Whether LAMMPS reads a word as an integer."""
    return _INTEGER.fullmatch(word) is not None


def number_word(value: float | int) -> str:
    """The shortest decimal that is the number; of a whole one without a point, so that it fits an integer as well."""
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text


def number_words(values: Sequence[float | int]) -> tuple[str, ...]:
    """`number_word` of each."""
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
        """Every way; `number` is that of the repetition."""
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
