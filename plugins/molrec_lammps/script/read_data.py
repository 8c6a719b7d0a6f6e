"""The words of a `read_data` command. Source: the manual, "read_data"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from molrec_convert.errors import FormatError
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.script.script import Command

__all__ = ["ReadData", "parse_read_data"]

_WHOLE = re.compile(r"[-+]?\d+")
#: Options that give room for later bonds and say nothing of the file.
_ROOM = frozenset({*(f"extra/{kind}/per/atom" for kind in TYPE_KINDS[1:]), "extra/special/per/atom"})


@dataclass(frozen=True)
class ReadData:
    """What a `read_data` command asks for.

    `add` is "" for the first file, else `append`, `merge` or `offset` (by `id_offset` and `molecule_offset`).
    `type_offsets` and `extra_types` are by kind ("atom"), `shift` is added to positions, `nocoeff` leaves out the
    sections of coefficients, `fixes` are the id, header keyword ("" for none) and section of each fix.
    """

    file: str
    add: str = ""
    id_offset: int = 0
    molecule_offset: int = 0
    type_offsets: Mapping[str, int] = field(default_factory=dict)
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)
    extra_types: Mapping[str, int] = field(default_factory=dict)
    nocoeff: bool = False
    fixes: tuple[tuple[str, str, str], ...] = ()
    group: str = ""


def parse_read_data(command: Command) -> ReadData:
    """The command taken apart; FormatError for words LAMMPS does not take."""
    return _Words(command).read()


class _Words:
    def __init__(self, command: Command) -> None:
        self.command = command
        self.words = list(command.args)
        self.at = 0
        self.found: dict[str, object] = {}
        self.extra: dict[str, int] = {}
        self.fixes: list[tuple[str, str, str]] = []

    def read(self) -> ReadData:
        """All of it."""
        file = self.next("the name of a data file")
        while self.at < len(self.words):
            self.option(self.next("an option"))
        added = bool(self.found.get("add"))
        for name, given in (("offset", "type_offsets" in self.found), ("shift", "shift" in self.found)):
            if given and not added:
                raise self.fault(f"{name!r} without 'add'", f"{name!r} for files that are added to others only")
        if added and any(self.extra.values()):
            raise self.fault("'extra/.../types' with 'add'", "further types in the first read_data command")
        return ReadData(file, extra_types=self.extra, fixes=tuple(self.fixes), **self.found)  # type: ignore[arg-type]

    def option(self, word: str) -> None:
        """One option and its values."""
        if word == "add":
            self.add()
        elif word == "offset":
            self.found["type_offsets"] = {kind: self.whole(f"the {kind} type offset", 0) for kind in TYPE_KINDS}
        elif word == "shift":
            self.found["shift"] = tuple(self.number("the shift in three directions") for _ in range(3))
        elif word == "nocoeff":
            self.found["nocoeff"] = True
        elif word == "group":
            self.found["group"] = self.next("the name of a group")
        elif word == "fix":
            name, header, section = (self.next("the id, header keyword and section of a fix") for _ in range(3))
            self.fixes.append((name, "" if header == "NULL" else header, section))
        elif word in _ROOM:
            self.whole("a number per atom", 0)
        elif word in {f"extra/{kind}/types": kind for kind in TYPE_KINDS}:
            self.extra[word.split("/")[1]] = self.whole("a number of further types", 0)
        else:
            raise self.fault(repr(word), "add, offset, shift, extra/atom/types (bond, angle, …), group, nocoeff or fix")

    def add(self) -> None:
        """`add append`, `add merge`, `add IDoff [MOLoff]`."""
        word = self.next("append, merge or an offset of atom ids")
        if word in ("append", "merge"):
            self.found["add"] = word
            return
        self.at -= 1
        self.found.update(add="offset", id_offset=self.whole("append, merge or an offset of atom ids", 0))
        if self.at < len(self.words) and _WHOLE.fullmatch(self.words[self.at]):
            self.found["molecule_offset"] = self.whole("an offset of molecule ids", 0)

    def next(self, expected: str) -> str:
        """The next word."""
        if self.at >= len(self.words):
            raise self.fault("the end of the command", expected)
        self.at += 1
        return self.words[self.at - 1]

    def whole(self, expected: str, least: int) -> int:
        """A whole number."""
        word = self.next(expected)
        if not _WHOLE.fullmatch(word) or int(word) < least:
            raise self.fault(repr(word), expected)
        return int(word)

    def number(self, expected: str) -> float:
        """A number."""
        word = self.next(expected)
        try:
            return float(word)
        except ValueError:
            raise self.fault(repr(word), expected) from None

    def fault(self, found: str, expected: str) -> FormatError:
        """The error at this command."""
        return FormatError(
            self.command.path, f"line {self.command.line}", found=found, expected=f"{expected} in read_data"
        )
