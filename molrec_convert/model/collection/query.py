"""Selecting records by their index columns: `NAME OP VALUE`, joined with `and`, `or` and parentheses.

    n_atoms <= 20 and (smiles == "OO" or energy < -12.5)

Operators are `== = != < <= > >=`; a value is a number, `true`, `false`, a quoted text, or a bare word. A null fits no
condition. Integers compare exactly with any number.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.model.frame import Block

__all__ = ["Condition", "Query", "parse_query"]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<operator>==|!=|<=|>=|=|<|>)
    | (?P<bracket>[()])
    | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<word>[^\s()=!<>"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,5})?|[+-]?(?:nan|inf)")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Bounds keep a hostile expression from exhausting the stack.
_LONGEST, _DEEPEST = 2**16, 50


@dataclass(frozen=True)
class Condition:
    """One comparison of an index column with a value."""

    name: str
    operator: str
    value: int | float | bool | str

    def mask(self, index: Block) -> NDArray[np.bool_]:
        """Return which records fit."""
        column = index.columns.get(self.name) if isinstance(index.columns, Mapping) else None
        if column is None:
            raise UsageError(f"the collection has no index column {self.name!r}; it has {', '.join(index.columns)}")
        if column.trailing:
            raise UsageError(f"the index column {self.name!r} has several values per record and cannot be compared")
        found = self._compare(column.values, column.dtype)
        return found if column.validity is None else found & column.validity

    def _compare(self, values: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
        kind = {"string": "a text", "bool": "true or false"}.get(dtype, "a number")
        compare, value = _COMPARE[self.operator], self.value
        if dtype == "string":
            if not isinstance(value, str):
                value = _as_written(value)
            return np.asarray(compare(values, np.array(value, dtype=values.dtype)), np.bool_)
        if isinstance(value, str) or (dtype == "bool") != isinstance(value, bool):
            raise UsageError(f"the index column {self.name!r} holds {kind}, which {value!r} is not")
        if dtype in ("c64", "c128") and self.operator not in ("==", "=", "!="):
            raise UsageError(f"the index column {self.name!r} holds complex numbers, which have no order")
        if values.dtype.kind in "iu":
            return _compare_integers(values, self.operator, value)
        return np.asarray(compare(values, value), np.bool_)


@dataclass(frozen=True)
class Query:
    """Conditions joined by one word, `and` or `or`."""

    word: str
    parts: tuple[Query | Condition, ...]

    def mask(self, index: Block) -> NDArray[np.bool_]:
        """Return which records fit."""
        masks = [part.mask(index) for part in self.parts]
        join = np.logical_and if self.word == "and" else np.logical_or
        return np.asarray(join.reduce(masks), np.bool_)


def parse_query(text: str) -> Query | Condition:
    """Return the conditions an expression states; `and` binds closer than `or`. Raises `UsageError`."""
    if len(text) > _LONGEST:
        raise UsageError("the selection is too long")
    parser = _Parser(text)
    query = parser.alternatives(0)
    if parser.peek() is not None:
        raise parser.error("'and' or 'or'")
    return query


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, position = text, [], 0
        end = len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise UsageError(f"cannot read the selection at {text[position : position + 20].strip()!r}")
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind]))
            position = match.end()
        self._next = 0

    _tokens: list[tuple[str, str]]

    def peek(self) -> tuple[str, str] | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self, kind: str, expected: str) -> str:
        token = self.peek()
        if token is None or token[0] != kind:
            raise self.error(expected)
        self._next += 1
        return token[1]

    def error(self, expected: str) -> UsageError:
        token = self.peek()
        found = "the end" if token is None else repr(token[1])
        return UsageError(f"cannot read the selection {self._text!r}: found {found}, expected {expected}")

    def alternatives(self, depth: int) -> Query | Condition:
        return self._chain("or", lambda: self._chain("and", lambda: self._term(depth)))

    def _chain(self, word: str, part: Callable[[], Query | Condition]) -> Query | Condition:
        parts = [part()]
        while self.peek() is not None and self.peek() == ("word", word):
            self._next += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else Query(word, tuple(parts))

    def _term(self, depth: int) -> Query | Condition:
        if self.peek() == ("bracket", "("):
            if depth >= _DEEPEST:
                raise UsageError("the selection is nested too deep")
            self._next += 1
            inner = self.alternatives(depth + 1)
            if self.peek() != ("bracket", ")"):
                raise self.error("')'")
            self._next += 1
            return inner
        token = self.peek()
        quoted = token is not None and token[0] == "quoted"
        name = _unquote(self.take("quoted", "")) if quoted else self.take("word", "the name of an index column")
        sign = self.take("operator", "one of " + " ".join(_COMPARE))
        token = self.peek()
        if token is not None and token[0] == "quoted":
            self._next += 1
            return Condition(name, sign, _unquote(token[1]))
        return Condition(name, sign, _value(self.take("word", "a value")))


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


class _Written(float):
    """A number that remembers how it was written: a text column is compared with that."""

    text: str


class _WrittenInteger(int):
    text: str


def _value(word: str) -> int | float | bool | str:
    if word in ("true", "false"):
        return word == "true"
    if not _NUMBER.fullmatch(word):
        return word
    number: _Written | _WrittenInteger
    number = _WrittenInteger(word) if re.fullmatch(r"[+-]?\d+", word) else _Written(word)
    number.text = word
    return number


def _as_written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(getattr(value, "text", value))


def _compare_integers(values: NDArray[Any], sign: str, value: float | int) -> NDArray[np.bool_]:
    """Return exact comparison of an integer column with any number: numpy would round both to floats."""
    everywhere = np.ones(len(values), np.bool_)
    if isinstance(value, float) and not value.is_integer():
        if math.isnan(value) or sign in ("==", "=", "!="):
            return everywhere if sign == "!=" else ~everywhere
        if math.isinf(value):
            return everywhere if (value > 0) == (sign in ("<", "<=")) else ~everywhere
        # n < 2.5 is n <= 2, n > 2.5 is n > 2
        sign, value = ("<=" if sign in ("<", "<=") else ">"), math.floor(value)
    bounds = np.iinfo(values.dtype)
    whole = int(value)
    if whole > int(bounds.max):
        return everywhere if sign in ("<", "<=", "!=") else ~everywhere
    if whole < int(bounds.min):
        return everywhere if sign in (">", ">=", "!=") else ~everywhere
    return np.asarray(_COMPARE[sign](values, values.dtype.type(whole)), np.bool_)
