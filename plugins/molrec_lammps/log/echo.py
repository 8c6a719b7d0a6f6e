"""The commands a log echoes: what LAMMPS was really given, in the order it ran, variables substituted.

A command with `$` is echoed as typed and once more for each substitution; the last of these lines counts. What a
`print` writes right below its echo is no command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from molrec_lammps.common.commands import COMMANDS
from molrec_lammps.script.lines import split_at_variable, strip_comment
from molrec_lammps.script.script import Command, parse_line

__all__ = ["Echo", "echoed_commands"]

_TRIPLE = '"""'


@dataclass(frozen=True)
class Echo:
    """One echoed command, where in the log (byte) it stands, and its line as last echoed."""

    command: Command
    position: int
    line: str


def echoed_commands(lines: Iterable[tuple[int, int, str]], path: Path) -> list[Echo]:
    """The commands among the `lines` (byte position, line number, text) outside the thermo tables of a log."""
    found: list[Echo] = []
    printed: list[re.Pattern[str]] = []
    for position, number, text in _joined(lines):
        if printed and printed[0].fullmatch(text.strip()):
            printed.pop(0)
            continue
        words = text.split(None, 1)
        command = parse_line(text, path, number) if words and words[0] in COMMANDS else None
        if command is None or command.args[:2] == ("CPU", "="):
            continue
        if found and _substitutes(found[-1].line, text):
            typed = found[-1].command
            command = replace(command, text=typed.text, raw_args=typed.raw_args, line=typed.line)
            found[-1] = Echo(command, found[-1].position, text)
        else:
            found.append(Echo(command, position, text))
        printed = [_output_of(line) for line in command.args[0].split("\n")] if _prints(command) else []
    return [_judged(echo) for echo in found]


def _prints(command: Command) -> bool:
    return command.name == "print" and bool(command.args)


def _output_of(text: str) -> re.Pattern[str]:
    """What a line of a `print` looks like when it is printed: anything where its variables stand."""
    pattern = ""
    rest = text.strip()
    while (parts := split_at_variable(rest)) is not None:
        pattern += re.escape(parts[0]) + ".*"
        rest = parts[1]
    return re.compile(pattern + re.escape(rest))


def _joined(lines: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Echoed commands whole: one with an open triple quote goes on over the lines below."""
    pending: tuple[int, int, str] | None = None
    for position, number, text in lines:
        if pending is not None:
            pending = (pending[0], pending[1], f"{pending[2]}\n{text}")
        elif text.count(_TRIPLE) % 2 and text.split(None, 1)[0] in COMMANDS:
            pending = (position, number, text)
        else:
            yield position, number, text
            continue
        if pending[2].count(_TRIPLE) % 2 == 0:
            yield pending
            pending = None
    if pending is not None:
        yield pending


def _substitutes(typed: str, text: str) -> bool:
    """Whether `text` is the line `typed` with its first `$` outside quotes replaced."""
    parts = split_at_variable(strip_comment(typed).strip())
    below = text.strip()
    return parts is not None and below.startswith(parts[0]) and below.endswith(parts[1])


def _judged(echo: Echo) -> Echo:
    """The echo, with a fault where a `$` is left that LAMMPS would have replaced."""
    if split_at_variable(strip_comment(echo.line)) is None:
        return echo
    return replace(echo, command=replace(echo.command, fault="the log does not show its variables substituted"))
