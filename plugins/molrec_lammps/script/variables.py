"""Variables of an input script, as far as they have a value without running LAMMPS.

Styles index, loop, string, equal (plain arithmetic), getenv and format have one; the others (atom, vector, file,
python, world, ...), and an index or loop variable that `next` advances through several values, do not.
Source: the LAMMPS manual, "variable"; printing and redefinition tried on LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from molrec_lammps.script.formula import NotEvaluable, evaluate
from molrec_lammps.script.lines import substitute

__all__ = ["Variables"]

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
        """What `${name}` stands for; `NotEvaluable` when only a run tells."""
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
        """What `v_name` stands for in a formula."""
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
        """What `$(inner)` stands for: a formula, printed `%.20g` or as the `:%format` at its end says."""
        form = "%.20g"
        formula, colon, last = inner.rpartition(":")
        if colon and last.startswith("%"):
            if not _FORMAT.match(last):
                raise NotEvaluable(f"{last!r} is no format of a floating-point number")
            inner, form = formula, last
        return form % evaluate(inner, self.number, self.keywords)

    def substitute(self, text: str) -> str:
        """`text` with every `$` outside quotes replaced."""
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
