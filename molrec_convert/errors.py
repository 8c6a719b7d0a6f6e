"""Every exception the package raises on purpose.

One small tree under `MolrecError`. Leaves are standard exceptions as well, so that code which catches
`ValueError` goes on working. The text of an error is one sentence: what is wrong, where, and what to do.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

__all__ = [
    "ContractError",
    "FormatError",
    "LayoutChanged",
    "LossError",
    "MissingInputError",
    "MolrecError",
    "PluginError",
    "UnsupportedError",
    "UsageError",
]


class MolrecError(Exception):
    """Root of all errors of this package. They travel between processes with everything they know."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, dict(self.__dict__))


class FormatError(MolrecError, ValueError):
    """A foreign file does not say what its format requires.

    `path` is the file, `where` a line ("line 12") or place in it, `found` what stands there, `expected` what should.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        where: str | None = None,
        *,
        found: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.path = fspath(path)
        self.where = where
        self.found = found
        self.expected = expected
        self.hint = hint
        place = self.path if where is None else f"{self.path}, {where}"
        Exception.__init__(self, _sentence(place, found, expected, hint))


class MissingInputError(FormatError, FileNotFoundError):
    """An input is not there."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = fspath(path)
        self.where = self.found = self.expected = self.hint = None
        Exception.__init__(self, f"there is no file or directory {self.path}")

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return MissingInputError, (self.path,)


class ContractError(MolrecError, ValueError):
    """A record, or what someone asks to write into one, breaks a rule of the MolRec contract.

    `node` is the path of the node inside the record ("trajectory/atoms/x"), `rule` the rule in words.
    """

    def __init__(
        self,
        node: str,
        rule: str,
        *,
        found: str | None = None,
        expected: str | None = None,
    ) -> None:
        self.node = node
        self.rule = rule
        self.found = found
        self.expected = expected
        super().__init__(_sentence(f"{node}: {rule}" if node else rule, found, expected, None))


class UnsupportedError(MolrecError, NotImplementedError):
    """What is asked for is legal, but this version, or an installation without some extra, cannot do it."""


class LossError(MolrecError, ValueError):
    """A conversion would lose something and was told not to (`strict`)."""


class PluginError(MolrecError, RuntimeError):
    """The code of a plugin failed: an error in it, not in the input.

    `plugin` is its name, `doing` what it was at ("reading a.points as points"; empty where that is not known), `reason`
    what it raised, which is the `__cause__`.
    """

    def __init__(self, plugin: str, doing: str, reason: str) -> None:
        self.plugin = plugin
        self.doing = doing
        self.reason = reason
        where = f" while {doing}" if doing else ""
        super().__init__(f"an error in the plugin {plugin!r}{where}, please report it to its authors: {reason}")


class UsageError(MolrecError, ValueError):
    """The call itself is wrong: an unknown option, a missing file, an ambiguous format."""


class LayoutChanged(MolrecError):
    """A source read as a stream turned out to need another layout than its beginning promised.

    A conversion that meets it discards what it wrote and reads the source again with `hint` in the reader's context;
    whoever streams by hand reads again with `hints={hint}`.
    """

    def __init__(self, hint: str, reason: str) -> None:
        self.hint = hint
        self.reason = reason
        super().__init__(f"{reason}; read the source again with the hint {hint!r}")


def _restore(kind: type[MolrecError], args: tuple[Any, ...], known: dict[str, Any]) -> MolrecError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(known)
    return error


def _sentence(start: str, found: str | None, expected: str | None, hint: str | None) -> str:
    parts = [start]
    if found is not None and expected is not None:
        parts.append(f"found {found}, expected {expected}")
    elif found is not None:
        parts.append(f"found {found}")
    elif expected is not None:
        parts.append(f"expected {expected}")
    text = ": ".join(parts[:2]) if len(parts) > 1 else parts[0]
    return " ".join((f"{text}; {hint}" if hint else text).splitlines())
