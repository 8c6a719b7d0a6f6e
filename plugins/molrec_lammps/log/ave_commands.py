"""The commands of a run that write a file of averages: `fix ave/time`, `ave/chunk`, `ave/histo`, `ave/correlate`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from molrec_lammps.script.script import Command

__all__ = ["AveCommand", "ave_commands"]

#: Styles whose files hold rows, whatever their keywords say.
_OF_ROWS = frozenset({"ave/chunk", "ave/histo", "ave/histo/weight", "ave/correlate", "ave/correlate/long"})
#: Keywords of `fix ave/time` and how many words follow each. Source: LAMMPS manual, "fix ave/time".
_KEYWORDS = {
    "mode": 1,
    "file": 1,
    "append": 1,
    "ave": 1,
    "start": 1,
    "off": 1,
    "overwrite": 0,
    "format": 1,
    "title1": 1,
    "title2": 1,
    "title3": 1,
}


@dataclass(frozen=True)
class AveCommand:
    """One command: the fix, its style, the file as given, the values that are averaged, if they are columns of rows."""

    id: str
    style: str
    file: str
    values: tuple[str, ...]
    vector: bool
    text: str


def ave_commands(commands: Iterable[Command]) -> list[AveCommand]:
    """The commands that write a file, in order; those that cannot be evaluated are left out."""
    found = []
    for command in commands:
        if command.name == "fix" and len(command.args) > 6 and not command.fault:
            style = command.args[2]
            entry = _parsed(command) if style == "ave/time" else _of_rows(command) if style in _OF_ROWS else None
            if entry is not None:
                found.append(entry)
    return found


def _parsed(command: Command) -> AveCommand | None:
    values: list[str] = []
    file: str | None = None
    vector = False
    words = list(command.args[6:])
    while words:
        word = words.pop(0)
        if word not in _KEYWORDS:
            values.append(word)
            continue
        argument = words[: _KEYWORDS[word]]
        del words[: _KEYWORDS[word]]
        if word == "ave" and argument == ["window"]:
            del words[:1]
        elif word in ("file", "append") and argument:
            file = argument[0]
        elif word == "mode":
            vector = argument == ["vector"]
    return None if file is None else AveCommand(command.args[0], "ave/time", file, tuple(values), vector, command.text)


def _of_rows(command: Command) -> AveCommand | None:
    words = command.args[5:]
    files = [after for word, after in pairwise(words) if word in ("file", "append")]
    return AveCommand(command.args[0], command.args[2], files[-1], (), True, command.text) if files else None
