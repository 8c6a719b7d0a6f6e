"""Lines and words of an input script: continuations, comments, quotes, and where `$` is substituted.

The rules, in LAMMPS' order: a line whose last printable character is `&` goes on in the next one, nothing between
them; so does a line inside triple quotes; a `#` outside quotes begins a comment; `$` is substituted outside quotes;
then the line is split into words, the quotes around a word removed. Source: the LAMMPS manual, "Parsing rules for
input scripts"; each rule tried on LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from molrec_convert.errors import UnsupportedError
from molrec_lammps.script.formula import NotEvaluable

__all__ = [
    "LogicalLine",
    "decode",
    "logical_lines",
    "quoted",
    "split_at_variable",
    "split_words",
    "strip_comment",
    "substitute",
]

_TRIPLE = '"""'


@dataclass(frozen=True)
class LogicalLine:
    """One command as typed, continuations joined: `text`, and the numbers of its first and last line in the file."""

    text: str
    first: int
    last: int


def decode(raw: bytes) -> str:
    """The text of a script or log: UTF-8, else Latin-1; a byte-order mark left off."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def logical_lines(text: str) -> Iterator[LogicalLine]:
    """The commands of a text, blank lines and comment lines included; `&` at the end of the text stays a character."""
    joined: list[str] = []
    first = triples = 0
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        if not joined:
            first, triples = number, 0
        stripped = line.rstrip()
        triples += line.count(_TRIPLE)
        if stripped.endswith("&") and number < len(lines):
            joined.append(stripped[:-1])
        elif triples % 2 and number < len(lines):
            joined.append(line + "\n")
        else:
            joined.append(stripped)
            yield LogicalLine("".join(joined), first, number)
            joined = []


def strip_comment(text: str) -> str:
    """`text` without its comment."""
    if "#" in text:
        for position, quote in _quoted(text):
            if not quote and text[position] == "#":
                return text[:position]
    return text


def split_words(text: str) -> list[str]:
    """The words of a command, quotes around a word removed; `NotEvaluable` where LAMMPS refuses the quoting."""
    if '"' not in text and "'" not in text:
        return text.split()
    words: list[str] = []
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text):
            return words
        quote = _TRIPLE if text.startswith(_TRIPLE, position) else text[position]
        if quote in (_TRIPLE, '"', "'"):
            start = position + len(quote)
            end = text.find(quote, start)
            if end < 0:
                raise NotEvaluable("a quote is not closed")
            position = end + len(quote)
            if position < len(text) and not text[position].isspace():
                raise NotEvaluable("a closing quote is not followed by a blank")
        else:
            start = end = position
            while end < len(text) and not text[end].isspace():
                end += 1
            position = end
        words.append(text[start:end])


def quoted(word: str) -> str:
    """Return a word as it stands in a script: in quotes where it holds blanks or marks of its own.

    UnsupportedError: no quotes of LAMMPS' can be put around it.
    """
    if word and not any(c.isspace() or c in "#&\"'" for c in word):
        return word
    for quote in ('"', "'", _TRIPLE):
        if quote not in word and not (quote == _TRIPLE and word.endswith('"')):
            return f"{quote}{word}{quote}"
    raise UnsupportedError(f"the word {word!r} cannot be quoted in an input script of LAMMPS")


#: Letters that variables may bring into one command.
_LONGEST = 2**20


def substitute(text: str, named: Callable[[str], str], immediate: Callable[[str], str]) -> str:
    """`text` with `$x`, `${name}` and `$(formula)` outside quotes replaced by what the two functions return.

    Raises `NotEvaluable` as they do, for a `$` that begins none of the three, and for a result no script is as long as.
    """
    parts = []
    left = _LONGEST
    quoted = _quoted(text) if "$" in text else iter(())
    done = 0
    for position, quote in quoted:
        if quote or position < done or text[position] != "$":
            continue
        parts.append(text[done:position])
        form, inner, done = _variable_at(text, position)
        parts.append(immediate(inner) if form == "(" else named(inner))
        left -= len(parts[-1])
        if left < 0:
            raise NotEvaluable(f"a text of more than {_LONGEST} letters")
    parts.append(text[done:])
    return "".join(parts)


def split_at_variable(text: str) -> tuple[str, str] | None:
    """What stands before and behind the first variable outside quotes; None when there is none."""
    if "$" in text:
        for position, quote in _quoted(text):
            if not quote and text[position] == "$":
                try:
                    return text[:position], text[_variable_at(text, position)[2] :]
                except NotEvaluable:
                    return None
    return None


def _variable_at(text: str, position: int) -> tuple[str, str, int]:
    """The variable whose `$` stands at `position`: `"{"`, `"("` or `""`, its name or formula, where it ends."""
    following = text[position + 1 : position + 2]
    if following == "{":
        end = text.find("}", position)
        if end < 0:
            raise NotEvaluable("'${' is not closed")
        return following, text[position + 2 : end], end + 1
    if following == "(":
        end = _closing(text, position + 1)
        return following, text[position + 2 : end], end + 1
    if not following or following.isspace():
        raise NotEvaluable("'$' names no variable")
    return "", following, position + 2


def _quoted(text: str) -> Iterator[tuple[int, str]]:
    """Position of each character outside the quote marks, with the mark it stands in ("" outside)."""
    quote = ""
    position = 0
    while position < len(text):
        if quote:
            if text.startswith(quote, position):
                position += len(quote)
                quote = ""
                continue
        elif text[position] in "\"'":
            quote = _TRIPLE if text.startswith(_TRIPLE, position) else text[position]
            position += len(quote)
            continue
        yield position, quote
        position += 1


def _closing(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return position
    raise NotEvaluable("'$(' is not closed")
