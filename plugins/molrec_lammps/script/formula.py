"""Formulas of equal-style variables, as far as they are plain arithmetic.

Operators, from loosest to tightest, each from left to right: `||` and `|^`; `&&`; `== !=`; `< <= > >=`; `+ -`;
`* / %`; `^`; unary `-` and `!` bind tightest (`-2^2` is 4). `%` keeps the dividend's sign, `round` goes up at one
half. Source: the LAMMPS manual, "variable"; every function compared with LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

__all__ = ["NotEvaluable", "evaluate"]


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
    """The value of `formula`; `variable(name)` gives that of `v_name`, `keywords` are the thermo keywords known.

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
