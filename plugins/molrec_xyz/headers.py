"""The second lines of all frames of a file: the grammar of keys and values, and their texts by frame.

Lines that are written alike (the same keys in the same order, in the same forms) are taken apart by one expression
made from the first of them, so that a run of many thousand frames costs little more than finding its lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.files.json_text import read_json
from molrec_convert.report import Report
from molrec_convert.text.contents import forget
from molrec_xyz.detect import is_extended
from molrec_xyz.scan import HELD, FrameTable

__all__ = [
    "CELL",
    "COLUMNS",
    "FLOAT",
    "INTEGER",
    "PERIODIC",
    "Document",
    "Headers",
    "Pair",
    "Part",
    "ValueFault",
    "number",
    "parse_line",
    "read_headers",
    "typed",
]

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
    """Return the keys of a line in order; a key that is repeated comes as often."""
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
    """Return where the list that begins at `at` ends; None where it does not."""
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
    """Return what `_JSON ...` holds, with or without a backslash before every quote; a text as itself."""
    for text in (_unescaped(raw), raw):
        try:
            value = read_json(text[len(_JSON) :].lstrip(" :"))
        except ValueError:
            continue
        return value if isinstance(value, str) else Document(value)
    return _unescaped(raw)


def number(raw: str) -> float:
    """Return a number as text, exponents with a D or a `*^` too. ValueError for anything else."""
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
    """Return values of one type: integers among floats are floats; None where they have none in common."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        try:
            return [float(value) for value in values]
        except OverflowError:
            digits = max(len(str(abs(value))) for value in values if isinstance(value, int))
            raise ValueFault(f"an integer of {digits} digits among real numbers", "doubles, below 1.8e308") from None
    return values if len(kinds) == 1 else None


def _list(raw: str, depth: int = 1) -> list[Any] | None:
    """Return the values of `[...]`, of lists of lists too; None where it is no list."""
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


CELL, COLUMNS, PERIODIC = "Lattice", "Properties", "pbc"
_ROLES = {name.lower(): name for name in (CELL, COLUMNS, PERIODIC)}
_PLAIN_BARE = re.compile(r"""[^\s"'\[\]{}=,\\]+""")
_GROUPS = {
    "double": r'([^"\\]*(?:\\.[^"\\]*)*)',
    "single": r"([^']*)",
    "braces": r"([^{}]*)",
    "bare": r"""([^\s"'\[\]{}=,\\]+)""",
    "list": r'(\[[^\[\]"]*\])',
    "nested": r'(\[\s*\[[^"]*?\]\s*\])',
}
#: Expressions tried on a line before it is taken apart by itself.
_RECENT = 4


@dataclass(frozen=True)
class Part:
    """One key in frames that write it alike: their ordinals, the form, and the text in each."""

    frames: NDArray[np.int64]
    form: str
    raws: list[bytes]


@dataclass
class Headers:
    """What the second lines say: `comments` of plain frames by ordinal, `keys` of extended ones with their parts."""

    extended: NDArray[np.bool_]
    comments: dict[int, str] = field(default_factory=dict)
    keys: dict[str, list[Part]] = field(default_factory=dict)


@dataclass
class _Layout:
    """Lines that are written alike: keys and forms, the texts that are the same in all, and what the frames have."""

    expression: re.Pattern[bytes]
    pairs: list[tuple[str, str, bytes | None]]
    frames: list[int] = field(default_factory=list)
    texts: list[tuple[bytes, ...]] = field(default_factory=list)


def read_headers(path: Path, data: Any, table: FrameTable, report: Report) -> Headers:
    """Return the second lines of all frames. Bytes that are no UTF-8 are taken as Latin-1, with a warning."""
    headers = Headers(np.zeros(len(table), np.bool_))
    layouts: dict[bytes, _Layout] = {}
    recent: list[_Layout] = []
    last, known, forgotten = b"", None, 0
    starts, stops = table.header.tolist(), table.rows.tolist()
    for frame, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        line = data[start:stop].rstrip(b"\r\n")
        if stop - forgotten > HELD:
            forget(data, forgotten, start)
            forgotten = start
        if line == last and known is not None:
            known.frames.append(frame)
            known.texts.append(known.texts[-1])
            continue
        known = None
        for layout in recent:
            match = layout.expression.fullmatch(line)
            if match is not None:
                known = layout
                layout.frames.append(frame)
                layout.texts.append(match.groups())
                break
        else:
            if not is_extended(line):
                headers.comments[frame] = _decoded(line, path, int(table.line[frame]) + 1, report)
                continue
            known = _new_layout(line, path, int(table.line[frame]) + 1, layouts, report)
            match = known.expression.fullmatch(line)
            assert match is not None
            known.frames.append(frame)
            known.texts.append(match.groups())
            recent = [known, *(layout for layout in recent if layout is not known)][:_RECENT]
        last = line
    for layout in layouts.values():
        _collect(layout, headers)
    return headers


def _decoded(line: bytes, path: Path, number: int, report: Report) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        report.warn(f"{path}, line {number}: bytes that are no UTF-8 are taken as Latin-1, here and further on")
        return line.decode("latin-1")


def _new_layout(line: bytes, path: Path, number: int, layouts: dict[bytes, _Layout], report: Report) -> _Layout:
    text = _decoded(line, path, number, report)
    encoding = "utf-8" if text.encode() == line else "latin-1"
    pairs = parse_line(text)
    _report_oddities(pairs, path, number, report)
    at, expression = 0, ""
    fixed: list[tuple[str, str, bytes | None]] = []
    for pair in pairs:
        start, stop = pair.span
        group = _group(pair)
        if group is not None:
            expression += re.escape(text[at:start]) + group
            at = stop
        fixed.append((pair.key, pair.form, pair.raw.encode() if group is None else None))
    expression += re.escape(text[at:].rstrip()) + r"\s*"
    pattern = expression.encode(encoding)
    if pattern not in layouts:
        layouts[pattern] = _Layout(re.compile(pattern), fixed)
    return layouts[pattern]


def _group(pair: Pair) -> str | None:
    """Return what matches the text of a value that may be another in the next line; None where the line hangs on it."""
    if pair.form == "bare":
        return _GROUPS["bare"] if _PLAIN_BARE.fullmatch(pair.raw) else None
    if pair.form == "list":
        return next((g for g in (_GROUPS["list"], _GROUPS["nested"]) if re.fullmatch(g, pair.raw)), None)
    return _GROUPS.get(pair.form)


def _report_oddities(pairs: Iterable[Pair], path: Path, number: int, report: Report) -> None:
    there = [pair.key for pair in pairs]
    for key in sorted({key for key in there if there.count(key) > 1}):
        report.warn(f"{path}, line {number}: the key {key} comes more than once, the last one is taken")
    for key in there:
        role = _ROLES.get(key.lower())
        if role is not None and role != key and role not in there:
            report.warn(f"{path}, line {number}: {key} is taken as {role}, as it is spelt in the format")


def _collect(layout: _Layout, headers: Headers) -> None:
    frames = np.array(layout.frames, dtype=np.int64)
    headers.extended[frames] = True
    columns = iter(zip(*layout.texts, strict=True)) if layout.texts and layout.texts[0] else iter(())
    found: dict[str, Part] = {}
    there = {key for key, _, _ in layout.pairs}
    for key, form, fixed in layout.pairs:
        raws = list(next(columns)) if fixed is None else [fixed] * len(frames)
        role = _ROLES.get(key.lower())
        name = role if role is not None and role not in there else key
        found[name] = Part(frames, form, raws)
    for name, part in found.items():
        headers.keys.setdefault(name, []).append(part)
