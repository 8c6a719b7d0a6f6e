"""The second line of an extended frame: keys and values by the published grammar, and the forms seen beside it.

A value that does not parse is kept as text where it stands; the rest of the line is read all the same.
Source: github.com/libAtoms/extxyz, README and grammar.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

from molrec_convert.files.json_text import read_json

__all__ = ["FLOAT", "INTEGER", "Document", "Pair", "ValueFault", "number", "parse_line", "typed"]

INTEGER = r"[+-]?(?:0|[1-9][0-9]*)"
FLOAT = r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eEdD]))(?:[eEdD][+-]?[0-9]+)?|[+-]?(?:nan|inf(?:inity)?)"
_INTEGER = re.compile(INTEGER)
_FLOAT = re.compile(FLOAT, re.IGNORECASE)
_TRUE, _FALSE = frozenset({"T", "True", "true", "TRUE"}), frozenset({"F", "False", "false", "FALSE"})
_KEY = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s=]+))\s*')
#: Another key and its sign: what stands behind a sign and a blank is then no value of it.
_NEXT_KEY = re.compile(r'\s+(?:"(?:[^"\\]|\\.)*"|[^\s="]+)\s*=(?!=)')
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"(?=\s|$)')
_SINGLE = re.compile(r"'([^']*)'(?=\s|$)")
_BRACES = re.compile(r"\{([^{}]*)\}(?=\s|$)")
_BARE = re.compile(r"\S+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,\[\]"]+(?:[ \t]+[^\s,\[\]"]+)*))\s*')
_JSON = "_JSON"
#: Lists in lists are read this deep.
_DEEPEST = 100


class ValueFault(ValueError):
    """A value that nothing can hold: its text says in words what it is and what it may be."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}, expected {expected}")
        self.found, self.expected = found, expected


@dataclass(frozen=True)
class Document:
    """A value that is a JSON document of its own (`_JSON ...`)."""

    value: Any


@dataclass(frozen=True)
class Pair:
    """One key of a line: `form` is how its value is written, `raw` the text of it between its marks.

    Forms: `bare`, `double`, `single`, `braces`, `list` (the brackets belong to `raw`), `flag` (no value), `empty`.
    `span` is where `raw` stands in the line.
    """

    key: str
    form: str
    raw: str
    span: tuple[int, int]


def parse_line(line: str) -> list[Pair]:
    """The keys of a line in order; a key that is repeated comes as often."""
    pairs = []
    at, end = 0, len(line.rstrip())
    while at < end:
        match = _KEY.match(line, at)
        if match is None:
            # a sign without a key
            at += 1
            continue
        key = match[2] if match[1] is None else _unescaped(match[1])
        at = match.end()
        if at >= end or line[at] != "=":
            pairs.append(Pair(key, "flag", "", (match.end(), match.end())))
            continue
        at += 1
        if at >= end or _NEXT_KEY.match(line, at):
            pairs.append(Pair(key, "empty", "", (at, at)))
            continue
        while line[at].isspace():
            at += 1
        form, start, stop, at = _value(line, at)
        pairs.append(Pair(key, form, line[start:stop], (start, stop)))
    return pairs


def _value(line: str, at: int) -> tuple[str, int, int, int]:
    """Form, span, and where the line goes on, of the value at `at`."""
    for form, pattern in (("double", _DOUBLE), ("single", _SINGLE), ("braces", _BRACES)):
        match = pattern.match(line, at)
        if match is not None:
            return form, match.start(1), match.end(1), match.end()
    if line[at] == "[":
        stop = _closing(line, at)
        if stop is not None:
            return "list", at, stop, stop
    match = _BARE.match(line, at)
    assert match is not None
    return "bare", match.start(), match.end(), match.end()


def _closing(line: str, at: int) -> int | None:
    """Where the list that begins at `at` ends; None where it does not."""
    depth, quoted, position = 0, False, at
    while position < len(line):
        letter = line[position]
        if quoted:
            if letter == "\\":
                position += 1
            quoted = letter != '"'
        elif letter == '"':
            quoted = True
        elif letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    return None


def typed(form: str, raw: str) -> Any:
    """Return the value of a text in a form: a bool, int, float, str, a list of these (of lists), or a `Document`.

    `ValueFault` for a number too long to be one or, among floats, too large, and for lists nested too deep.
    """
    if form == "text":
        return raw
    if form == "flag":
        return True
    if form == "empty":
        return ""
    if form == "bare":
        return _scalar(raw)
    if form == "list":
        found = _list(raw)
        return raw if found is None else found
    if form == "double":
        if raw.startswith(_JSON):
            return _document(raw)
        if "\\" in raw:
            return _unescaped(raw)
    words = raw.replace(",", " ").split()
    values = [_scalar(word) for word in words]
    if not words:
        return "" if form != "braces" else []
    if any(isinstance(value, str) for value in values):
        return raw if form != "braces" else (raw.strip() if len(words) == 1 else words)
    same = _alike(values)
    if same is None:
        return raw
    return same[0] if len(same) == 1 else same


def _document(raw: str) -> Any:
    """What `_JSON ...` holds, with or without a backslash before every quote; a text as itself."""
    for text in (_unescaped(raw), raw):
        try:
            value = read_json(text[len(_JSON) :].lstrip(" :"))
        except ValueError:
            continue
        return value if isinstance(value, str) else Document(value)
    return _unescaped(raw)


def number(raw: str) -> float:
    """A number as text, exponents with a D or a `*^` too. ValueError for anything else."""
    text = raw.strip()
    if not (_INTEGER.fullmatch(text) or _FLOAT.fullmatch(text)):
        text = text.replace("*^", "e")
        if "_" in text:
            raise ValueError(raw)
    return float(text.replace("d", "e").replace("D", "e") if not text.lower().lstrip("+-").startswith("i") else text)


def _scalar(word: str) -> Any:
    if _INTEGER.fullmatch(word):
        try:
            return int(word)
        except ValueError:
            limit = sys.get_int_max_str_digits()
            raise ValueFault(f"an integer of {len(word)} digits", f"at most {limit}") from None
    if _FLOAT.fullmatch(word):
        return number(word)
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    return word


def _alike(values: list[Any]) -> list[Any] | None:
    """Values of one type: integers among floats are floats; None where they have none in common."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        try:
            return [float(value) for value in values]
        except OverflowError:
            digits = max(len(str(abs(value))) for value in values if isinstance(value, int))
            raise ValueFault(f"an integer of {digits} digits among real numbers", "doubles, below 1.8e308") from None
    return values if len(kinds) == 1 else None


def _list(raw: str, depth: int = 1) -> list[Any] | None:
    """The values of `[...]`, of lists of lists too; None where it is no list."""
    if depth > _DEEPEST:
        raise _too_deep()
    items: list[Any] = []
    position, end = 1, len(raw) - 1
    nested = False
    while position < end:
        if raw[position].isspace():
            position += 1
            continue
        if raw[position] == "[":
            stop = _closing(raw, position)
            inner = None if stop is None else _list(raw[position:stop], depth + 1)
            if inner is None or stop is None:
                return None
            items.append(inner)
            nested, position = True, stop
        else:
            match = _ITEM.match(raw, position, end)
            if match is None:
                return None
            items.append(_unescaped(match[1]) if match[1] is not None else match[2])
            if match[1] is None:
                words = match[2].split()
                items[-1:] = [_scalar(word) for word in words]
                if len(words) > 1 and any(isinstance(word, str) for word in items[-len(words) :]):
                    return None
            position = match.end()
        while position < end and raw[position].isspace():
            position += 1
        if position < end and raw[position] == ",":
            position += 1
        elif position < end and not items:
            return None
    if nested:
        return items if all(isinstance(item, list) for item in items) else None
    same = _alike(items)
    if same is None and items:
        return [item if isinstance(item, str) else _word(item) for item in items]
    return same or []


def _too_deep() -> ValueFault:
    return ValueFault("lists in lists without end", f"at most {_DEEPEST} inside one another")


def _word(value: Any) -> str:
    return ("T" if value else "F") if isinstance(value, bool) else repr(value)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)
