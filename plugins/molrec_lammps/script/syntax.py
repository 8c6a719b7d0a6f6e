"""The language of input scripts: lines, words, quotes, variables, and formulas, evaluated without a run.

The rules, in LAMMPS' order: a line whose last printable character is `&` goes on in the next one, nothing between
them; so does a line inside triple quotes; a `#` outside quotes begins a comment; `$` is substituted outside quotes;
then the line is split into words, the quotes around a word removed. Source: the LAMMPS manual, "Parsing rules for
input scripts"; each rule tried on LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from molrec_convert.errors import UnsupportedError

__all__ = [
    "LogicalLine",
    "NotEvaluable",
    "Variables",
    "decode",
    "evaluate",
    "logical_lines",
    "quoted",
    "split_at_variable",
    "split_words",
    "strip_comment",
    "substitute",
]


class NotEvaluable(Exception):
    """A value only a running LAMMPS can tell (or a formula it would refuse); the text says why."""


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator>\|\||\|\^|&&|==|!=|<=|>=|[-+*/%^<>!(),\[\]]))"
)

_CONSTANTS = {"PI": math.pi, **dict.fromkeys(("yes", "on", "true"), 1.0), **dict.fromkeys(("no", "off", "false"), 0.0)}


def _round(x: float) -> float:
    return float(math.ceil(x) if x - math.floor(x) >= 0.5 else math.floor(x))


#: Function → how many arguments, what it does.
_FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "sqrt": (1, math.sqrt),
    "exp": (1, math.exp),
    "ln": (1, math.log),
    "log": (1, math.log10),
    "abs": (1, abs),
    "sign": (1, lambda x: 1.0 if x >= 0 else -1.0),
    "sin": (1, math.sin),
    "cos": (1, math.cos),
    "tan": (1, math.tan),
    "asin": (1, math.asin),
    "acos": (1, math.acos),
    "atan": (1, math.atan),
    "atan2": (2, math.atan2),
    "ceil": (1, lambda x: float(math.ceil(x))),
    "floor": (1, lambda x: float(math.floor(x))),
    "round": (1, _round),
    "ternary": (3, lambda x, y, z: y if x != 0 else z),
}

#: Binary operator → how tightly it binds, what it does.
_BINARY: dict[str, tuple[int, Callable[[float, float], float]]] = {
    "||": (1, lambda a, b: float(a != 0 or b != 0)),
    "|^": (1, lambda a, b: float((a != 0) != (b != 0))),
    "&&": (2, lambda a, b: float(a != 0 and b != 0)),
    "==": (3, lambda a, b: float(a == b)),
    "!=": (3, lambda a, b: float(a != b)),
    "<": (4, lambda a, b: float(a < b)),
    "<=": (4, lambda a, b: float(a <= b)),
    ">": (4, lambda a, b: float(a > b)),
    ">=": (4, lambda a, b: float(a >= b)),
    "+": (5, lambda a, b: a + b),
    "-": (5, lambda a, b: a - b),
    "*": (6, lambda a, b: a * b),
    "/": (6, lambda a, b: a / b),
    "%": (6, math.fmod),
    "^": (7, math.pow),
}
_TIGHTEST = 8


def evaluate(
    formula: str, variable: Callable[[str], float], keywords: Mapping[str, float] = MappingProxyType({})
) -> float:
    """Return the value of `formula`; `variable(name)` gives that of `v_name`, `keywords` are the thermo keywords known.

    Raises `NotEvaluable` for other thermo keywords, computes, fixes, atom values, functions of the step, of groups or
    of chance, and for what LAMMPS refuses (a division by zero, a wrong number of arguments).
    """
    parser = _Parser(formula, variable, keywords)
    try:
        value = parser.expression(0)
    except (ZeroDivisionError, ValueError, OverflowError) as error:
        raise NotEvaluable(f"{formula!r} has no value: {error}") from error
    except RecursionError as error:
        raise NotEvaluable(f"{formula!r} is nested too deeply") from error
    parser.finish()
    if not math.isfinite(value):
        raise NotEvaluable(f"{formula!r} has no finite value")
    return value + 0.0


class _Parser:
    def __init__(self, formula: str, variable: Callable[[str], float], keywords: Mapping[str, float]) -> None:
        self.formula = formula
        self.variable = variable
        self.keywords = keywords
        self.tokens: list[tuple[str, str]] = []
        end = len(formula.rstrip())
        position = 0
        while position < end:
            match = _TOKEN.match(formula, position)
            if match is None or match.lastgroup is None:
                raise NotEvaluable(f"{formula!r} is no formula")
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self.next = 0

    def expression(self, binding: int) -> float:
        value = self.operand()
        while True:
            kind, text = self.peek()
            if kind != "operator" or text not in _BINARY or _BINARY[text][0] <= binding:
                return value
            self.next += 1
            tightness, operation = _BINARY[text]
            value = operation(value, self.expression(tightness))

    def operand(self) -> float:
        kind, text = self.peek()
        self.next += 1
        if kind == "number":
            return float(text)
        if kind == "name":
            return self.named(text)
        if text == "-":
            return -self.expression(_TIGHTEST)
        if text == "!":
            return float(self.expression(_TIGHTEST) == 0)
        if text == "(":
            value = self.expression(0)
            self.expect(")")
            return value
        raise NotEvaluable(f"{self.formula!r} is no formula")

    def named(self, name: str) -> float:
        if self.peek()[1] in ("(", "["):
            if name not in _FUNCTIONS or self.peek()[1] == "[":
                raise NotEvaluable(f"{name} in {self.formula!r} has no value outside a running LAMMPS")
            return self.call(name)
        if name.startswith("v_"):
            return self.variable(name[2:])
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in self.keywords:
            return self.keywords[name]
        raise NotEvaluable(f"{name} in {self.formula!r} has no value outside a running LAMMPS")

    def call(self, name: str) -> float:
        count, function = _FUNCTIONS[name]
        self.expect("(")
        arguments = [self.expression(0)]
        while self.peek()[1] == ",":
            self.next += 1
            arguments.append(self.expression(0))
        self.expect(")")
        if len(arguments) != count:
            raise NotEvaluable(f"{name} in {self.formula!r} takes {count} arguments")
        return float(function(*arguments))

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.next] if self.next < len(self.tokens) else ("end", "")

    def expect(self, text: str) -> None:
        if self.peek() != ("operator", text):
            raise NotEvaluable(f"{self.formula!r} is no formula")
        self.next += 1

    def finish(self) -> None:
        if self.next != len(self.tokens):
            raise NotEvaluable(f"{self.formula!r} is no formula")


_TRIPLE = '"""'


@dataclass(frozen=True)
class LogicalLine:
    """One command as typed, continuations joined: `text`, and the numbers of its first and last line in the file."""

    text: str
    first: int
    last: int


def decode(raw: bytes) -> str:
    """Return the text of a script or log: UTF-8, else Latin-1; a byte-order mark left off."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def logical_lines(text: str) -> Iterator[LogicalLine]:
    """Yield the commands of a text, blank lines and comment lines included; `&` at the end of the text stays a
    character.
    """
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
    """Return `text` without its comment."""
    if "#" in text:
        for position, quote in _quoted(text):
            if not quote and text[position] == "#":
                return text[:position]
    return text


def split_words(text: str) -> list[str]:
    """Return the words of a command, quotes around a word removed; `NotEvaluable` where LAMMPS refuses the quoting."""
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
    """Return `text` with `$x`, `${name}` and `$(formula)` outside quotes replaced by what the two functions return.

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
    """Return what stands before and behind the first variable outside quotes; None when there is none."""
    if "$" in text:
        for position, quote in _quoted(text):
            if not quote and text[position] == "$":
                try:
                    return text[:position], text[_variable_at(text, position)[2] :]
                except NotEvaluable:
                    return None
    return None


def _variable_at(text: str, position: int) -> tuple[str, str, int]:
    """Return the variable whose `$` stands at `position`: `"{"`, `"("` or `""`, its name or formula, where it ends."""
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
    """Yield position of each character outside the quote marks, with the mark it stands in ("" outside)."""
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


_FORMAT = re.compile(r"%[-+ #0]*\d{0,3}(?:\.\d{1,3})?[eEfFgG]$")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?$")
#: A second definition of one of these is ignored.
_KEPT = frozenset({"index", "loop", "world", "universe", "uloop"})


@dataclass(frozen=True)
class _Variable:
    style: str
    text: str | None
    why: str = ""


@dataclass
class Variables:
    """The variables defined so far. `advancing` are the names that `next` moves on somewhere in the script.

    `keywords` are the thermo keywords (`lx`, `atoms`, …) whose value is known at this place of the script.
    """

    advancing: Container[str] = frozenset()
    keywords: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _known: dict[str, _Variable] = field(default_factory=dict)
    _evaluating: set[str] = field(default_factory=set)

    def define(self, arguments: Sequence[str]) -> None:
        """Apply the arguments of a `variable` command (words, `$` outside quotes already substituted)."""
        if len(arguments) < 2:
            return
        name, style, *rest = arguments
        if style == "delete":
            self._known.pop(name, None)
        elif not (name in self._known and style in _KEPT and self._known[name].style in _KEPT):
            self._known[name] = self._variable(name, style, rest)

    def forget(self, name: str, why: str) -> None:
        """From here on the variable has no value that is known."""
        self._known[name] = _Variable("unknown", None, why)

    def value(self, name: str) -> str:
        """Return what `${name}` stands for; `NotEvaluable` when only a run tells."""
        variable = self._known.get(name)
        if variable is None:
            raise NotEvaluable(f"the variable {name!r} is not defined in the script")
        if variable.text is None:
            raise NotEvaluable(f"the variable {name!r} {variable.why}")
        if variable.style == "equal":
            return format(self.number(name), ".15g")
        if variable.style == "format":
            other, _, form = variable.text.partition(" ")
            return form % self.number(other)
        return variable.text

    def number(self, name: str) -> float:
        """Return what `v_name` stands for in a formula."""
        variable = self._known.get(name)
        if variable is None or variable.style != "equal" or variable.text is None:
            text = self.value(name).strip()
            if not _NUMBER.match(text):
                raise NotEvaluable(f"the variable {name!r} is no number: {text!r}")
            return float(text)
        if name in self._evaluating:
            raise NotEvaluable(f"the variable {name!r} refers to itself")
        self._evaluating.add(name)
        try:
            return evaluate(variable.text, self.number, self.keywords)
        finally:
            self._evaluating.discard(name)

    def immediate(self, inner: str) -> str:
        """Return what `$(inner)` stands for: a formula, printed `%.20g` or as the `:%format` at its end says."""
        form = "%.20g"
        formula, colon, last = inner.rpartition(":")
        if colon and last.startswith("%"):
            if not _FORMAT.match(last):
                raise NotEvaluable(f"{last!r} is no format of a floating-point number")
            inner, form = formula, last
        return form % evaluate(inner, self.number, self.keywords)

    def substitute(self, text: str) -> str:
        """Return `text` with every `$` outside quotes replaced."""
        return substitute(text, self.value, self.immediate)

    def _variable(self, name: str, style: str, rest: list[str]) -> _Variable:
        if style in ("index", "loop"):
            values = rest if style == "index" else _loop(rest)
            if name in self.advancing and len(values) != 1:
                return _Variable(style, None, "takes several values")
            return _Variable(style, values[0]) if values else _Variable(style, None, "has no value")
        if style == "string":
            try:
                return _Variable(style, self.substitute(" ".join(rest)))
            except NotEvaluable as error:
                return _Variable(style, None, f"has no value outside a running LAMMPS: {error}")
        if style == "equal" and len(rest) == 1 and "$" not in rest[0]:
            return _Variable(style, rest[0])
        if style == "getenv" and rest:
            text = self.environment.get(rest[0])
            return _Variable(style, text, f"is the environment variable {rest[0]}, which is not set here")
        if style == "format" and len(rest) == 2 and _FORMAT.match(rest[1]):
            return _Variable(style, " ".join(rest))
        return _Variable(style, None, f"of style {style} has no value outside a running LAMMPS")


def _loop(arguments: list[str]) -> list[str]:
    words = [word for word in arguments if word != "pad"]
    if not words or not all(re.fullmatch(r"-?\d+", word) for word in words[:2]):
        return []
    first, last = (1, int(words[0])) if len(words) == 1 else (int(words[0]), int(words[1]))
    width = len(str(last)) if "pad" in arguments else 0
    # Only whether there is one value or more matters beyond the first.
    return [str(value).zfill(width) for value in range(first, min(last, first + 1) + 1)]
