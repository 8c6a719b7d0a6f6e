"""Energy expressions: a parser and a numpy evaluator for the syntax of Lepton, the language of OpenMM's custom forces.

`formula; name=formula; …`: `+ - * / ^`, parentheses, functions, and names defined to the right of where they are used.
Parsed by hand, evaluated on arrays; nothing of a file is ever run as code.
Source: Force field, "Registry"; OpenMM's manual, "Writing custom expressions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError

__all__ = ["FUNCTIONS", "Expression"]

Array = NDArray[np.float64]
Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>[-+*/^(),;=]))"
)
_DEEPEST = 100
_LONGEST = 100_000


def _distance(a: Array, b: Array) -> Array:
    return np.asarray(np.linalg.norm(a - b, axis=-1))


def _angle(a: Array, b: Array, c: Array) -> Array:
    first, second = a - b, c - b
    cross = np.linalg.norm(np.cross(first, second), axis=-1)
    return np.asarray(np.arctan2(cross, (first * second).sum(axis=-1)))


def _dihedral(a: Array, b: Array, c: Array, d: Array) -> Array:
    axis = c - b
    first, second = np.cross(b - a, axis), np.cross(axis, d - c)
    sine = (np.cross(first, second) * axis).sum(axis=-1) / np.linalg.norm(axis, axis=-1)
    return np.asarray(np.arctan2(sine, (first * second).sum(axis=-1)))


#: Function → number of arguments, implementation. The last three take points, arrays of shape [..., 3].
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    **{name: (1, getattr(np, name)) for name in ("sqrt", "exp", "log", "sin", "cos", "tan", "abs", "floor", "ceil")},
    **{name: (1, getattr(np, name)) for name in ("sinh", "cosh", "tanh")},
    **{f"a{name}": (1, getattr(np, f"arc{name}")) for name in ("sin", "cos", "tan")},
    "atan2": (2, np.arctan2),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "square": (1, np.square),
    "cube": (1, lambda x: x * x * x),
    "recip": (1, lambda x: 1.0 / x),
    "step": (1, lambda x: np.where(np.asarray(x) >= 0, 1.0, 0.0)),
    "delta": (1, lambda x: np.where(np.asarray(x) == 0, 1.0, 0.0)),
    "select": (3, lambda x, y, z: np.where(np.asarray(x) != 0, y, z)),
    "distance": (2, _distance),
    "angle": (3, _angle),
    "dihedral": (4, _dihedral),
}

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": lambda a, b: np.power(np.asarray(a, dtype=np.float64), b),
}


class Expression:
    """One expression, parsed. `UnsupportedError` for a text that is none, and for functions this version has not.

    >>> Expression("0.5*k*d^2; d=r-r0").evaluate({"k": 600.0, "r": 1.5, "r0": 1.475})
    0.1875...
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = _tokens(text)
        self._position = 0
        self._formula = self._sum(0)
        self._definitions: list[tuple[str, Node]] = []
        while self._take(";"):
            if self._peek() == "end":
                break
            name = self._expect("name")
            self._expect("=")
            self._definitions.append((name, self._sum(0)))
        if self._peek() != "end":
            raise self._fault("the end")
        del self._tokens

    @property
    def variables(self) -> frozenset[str]:
        """Names the expression needs values for."""
        nodes = [self._formula, *(node for _, node in self._definitions)]
        return frozenset({name for node in nodes for name in _names(node)} - {name for name, _ in self._definitions})

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the value for numbers or arrays of one shape; points (`p1`, …) are arrays [..., 3].

        `UnsupportedError` names a variable without a value.
        """
        known = dict(values)
        with np.errstate(all="ignore"):
            for name, node in reversed(self._definitions):
                known[name] = _evaluate(node, known, self.text)
            return _evaluate(self._formula, known, self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def _sum(self, depth: int) -> Node:
        node = self._product(depth)
        while self._peek() in ("+", "-"):
            sign = self._next()
            node = (sign, node, self._product(depth))
        return node

    def _product(self, depth: int) -> Node:
        node = self._factor(depth)
        while self._peek() in ("*", "/"):
            sign = self._next()
            node = (sign, node, self._factor(depth))
        return node

    def _factor(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise UnsupportedError(f"the expression {_brief(self.text)} is nested too deeply")
        if self._take("-"):
            return ("negative", self._factor(depth + 1))
        node = self._primary(depth + 1)
        if self._take("^"):
            return ("^", node, self._factor(depth + 1))
        return node

    def _primary(self, depth: int) -> Node:
        if self._peek() == "number":
            return ("number", float(self._next()))
        if self._take("("):
            node = self._sum(depth + 1)
            self._expect(")")
            return node
        name = self._expect("name")
        if not self._take("("):
            return ("name", name)
        arguments = [self._sum(depth + 1)]
        while self._take(","):
            arguments.append(self._sum(depth + 1))
        self._expect(")")
        if name not in FUNCTIONS:
            raise UnsupportedError(f"the expression {_brief(self.text)} calls the unknown function {name!r}")
        if len(arguments) != FUNCTIONS[name][0]:
            raise UnsupportedError(
                f"the expression {_brief(self.text)} calls {name!r} with {len(arguments)} arguments, "
                f"it takes {FUNCTIONS[name][0]}"
            )
        return ("call", name, *arguments)

    def _peek(self) -> str:
        return self._tokens[self._position][0]

    def _next(self) -> str:
        self._position += 1
        return self._tokens[self._position - 1][1]

    def _take(self, kind: str) -> bool:
        if self._peek() != kind:
            return False
        self._position += 1
        return True

    def _expect(self, kind: str) -> str:
        if self._peek() != kind:
            raise self._fault({"name": "a name"}.get(kind, repr(kind)))
        return self._next()

    def _fault(self, expected: str) -> UnsupportedError:
        found = self._tokens[self._position][1] or "the end"
        return UnsupportedError(
            f"the expression {_brief(self.text)} is malformed: found {found!r}, expected {expected}"
        )


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return kind and text of every token, the end last; the kind of a sign is the sign."""
    if len(text) > _LONGEST:
        raise UnsupportedError(f"the expression {_brief(text)} is longer than {_LONGEST} characters")
    tokens = []
    end = 0
    while end < len(text.rstrip()):
        token = _TOKEN.match(text, end)
        if token is None:
            raise UnsupportedError(f"the expression {_brief(text)} has a character that means nothing: {text[end]!r}")
        kind = token.lastgroup or ""
        tokens.append((token[kind] if kind == "sign" else kind, token[kind]))
        end = token.end()
    return [*tokens, ("end", "")]


def _evaluate(node: Node, known: Mapping[str, Any], text: str) -> Any:
    kind = node[0]
    if kind == "number":
        return node[1]
    if kind == "name":
        if node[1] not in known:
            raise UnsupportedError(f"the expression {_brief(text)} needs {node[1]!r}, which has no value")
        return known[node[1]]
    if kind == "negative":
        return -_evaluate(node[1], known, text)
    if kind == "call":
        return FUNCTIONS[node[1]][1](*(_evaluate(argument, known, text) for argument in node[2:]))
    operands = []
    # Long sums are chains to the left: walked, not recursed into.
    while node[0] in _OPERATORS:
        operands.append((node[0], node[2]))
        node = node[1]
    value = _evaluate(node, known, text)
    for sign, right in reversed(operands):
        value = _OPERATORS[sign](value, _evaluate(right, known, text))
    return value


def _names(node: Node) -> Iterator[str]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node[0] == "name":
            yield node[1]
        waiting.extend(part for part in node[1:] if isinstance(part, tuple))


def _brief(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
