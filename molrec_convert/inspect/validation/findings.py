"""Findings, and how what goes wrong while looking becomes one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from molrec_convert.errors import ContractError, MolrecError
from molrec_convert.model.tags import check_json

__all__ = ["Finding", "Findings", "Severity"]


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One fault of a store: the node it is at ("" is the root), and what is wrong there."""

    severity: Severity
    node: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.node or 'the record'}: {self.message}"


@dataclass
class Findings:
    """All findings so far, each once."""

    items: list[Finding] = field(default_factory=list)
    #: Whether another program wrote the record, which does not say which chunk files are missing by right.
    foreign: bool = False
    _seen: set[Finding] = field(default_factory=set, repr=False)

    def error(self, node: str, message: str) -> None:
        """A rule is broken."""
        self._add(Finding(Severity.ERROR, node, _one_line(message)))

    def warning(self, node: str, message: str) -> None:
        """Readers cope, but it should not be."""
        self._add(Finding(Severity.WARNING, node, _one_line(message)))

    def has_error(self, section: str, start: int = 0) -> bool:
        """Whether there is an error in a section among the findings from the one at `start` on."""
        return any(
            item.severity is Severity.ERROR and re.split(r"[/.,]", item.node, maxsplit=1)[0] == section
            for item in self.items[start:]
        )

    @contextmanager
    def guard(self, node: str) -> Iterator[None]:
        """What is raised inside becomes an error at `node`, or at the node it names itself."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except Exception as error:
            self.raised(node, error)

    def raised(self, node: str, error: Exception) -> None:
        """Take what was raised at `node` as a finding."""
        place, text = node, str(error)
        if isinstance(error, ContractError) and error.node:
            place = error.node
            text = text.removeprefix(f"{error.node}: ")
        elif isinstance(error, OSError) and error.strerror:
            text = f"cannot be read: {error.strerror.lower()}"
        elif isinstance(error, MemoryError):
            text = "needs more memory than there is"
        elif isinstance(error, RecursionError):
            text = "is nested too deeply"
        elif not isinstance(error, (MolrecError, OSError)):
            text = f"cannot be read: {type(error).__name__}: {error}"
        self.error(place, text)

    def check_finite(self, document: Mapping[str, Any], node: str) -> None:
        """Attributes are plain finite JSON."""
        with self.guard(node):
            for key, value in document.items():
                check_json({key: None}, node)
                check_json(value, f"{node}.{key}" if node else key)

    def _add(self, finding: Finding) -> None:
        if finding not in self._seen:
            self._seen.add(finding)
            self.items.append(finding)


def _one_line(text: str) -> str:
    return " ".join(text.split())
