"""The force field that the commands of a script state: a walk over them in order, as LAMMPS itself takes them.

| command | what it does to what stands before |
|---|---|
| `pair_style` of the same name | coefficients and `pair_modify` stay, cutoffs of single pairs are set back |
| `pair_style` of another name, any hybrid | coefficients and `pair_modify` are gone |
| `bond_style` … `improper_style`, whatever name | coefficients are gone |
| `*_coeff` | the types in the range have these words |
| the same under `hybrid` | the last sub-style of a pair or type counts; under `hybrid/overlay` all; `none` ends all |
| `read_data` | its sections of coefficients count as commands in its place |
| `special_bonds` | starts from zero |
| `kspace_style` | `kspace_modify` is gone |
| `clear` | everything is gone |

What cannot be known without running LAMMPS is a doubt; what LAMMPS refuses is a FormatError with file and line.
Source: the manual; each rule tried on LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from molrec_convert.errors import FormatError
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.potential.potential import CATEGORIES, Potential
from molrec_lammps.script.coefficients import CoefficientReader
from molrec_lammps.script.script import Command
from molrec_lammps.script.settings import BadType

__all__ = ["PotentialReader", "ReadData", "parse_read_data", "states_potential"]

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
    """Return the command taken apart; FormatError for words LAMMPS does not take."""
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
        """Return all of it."""
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
        """Return the next word."""
        if self.at >= len(self.words):
            raise self.fault("the end of the command", expected)
        self.at += 1
        return self.words[self.at - 1]

    def whole(self, expected: str, least: int) -> int:
        """Return a whole number."""
        word = self.next(expected)
        if not _WHOLE.fullmatch(word) or int(word) < least:
            raise self.fault(repr(word), expected)
        return int(word)

    def number(self, expected: str) -> float:
        """Return a number."""
        word = self.next(expected)
        try:
            return float(word)
        except ValueError:
            raise self.fault(repr(word), expected) from None

    def fault(self, found: str, expected: str) -> FormatError:
        """Return the error at this command."""
        return FormatError(
            self.command.path, f"line {self.command.line}", found=found, expected=f"{expected} in read_data"
        )


_STATING = frozenset(
    {
        *(f"{category}_{what}" for category in CATEGORIES for what in ("style", "coeff")),
        *("pair_modify", "special_bonds", "kspace_style", "kspace_modify", "dielectric", "mass", "labelmap", "units"),
        *("create_box", "read_data", "read_restart", "clear", "kim", "kim_init", "kim_interactions", "kim_param"),
    }
)
_KIM = frozenset({"kim", "kim_init", "kim_interactions", "kim_param"})
#: What the coefficients of a data file are asked for with: the command and its words.
DataReader = Callable[[Command, ReadData], Potential | None]


def states_potential(command: Command) -> bool:
    """True if the command says something of the force field, or of the types it is for."""
    return command.name in _STATING or (command.name == "fix" and command.args[2:3] == ("cmap",))


class PotentialReader(CoefficientReader):
    """Takes commands one by one; `potential()` is what they state so far, `doubts` why it may be another one.

    `open` are the categories whose style cannot be evaluated.

    `data` gives what a data file states, None where it is not there. `beside` is what a data file states that the user
    gave although the commands make the box themselves: it counts as read where they do so.
    """

    def __init__(self, data: DataReader, beside: Potential | None = None) -> None:
        self.data, self.beside = data, beside
        self.changed_after_run = ""
        super().__init__()

    def start(self) -> None:
        """A new system."""
        super().start()
        self.ran = self.whole = False
        self.open: set[str] = set()

    def potential(self) -> Potential:
        """Return what the commands state."""
        return replace(self.found, coefficients=self.rows.all(), cmap=list(self.fixes.values()))

    def read(self, commands: Iterable[Command]) -> Potential:
        """Take all commands, then what of a data file beside them found no place."""
        for command in commands:
            self.take(command)
        if self.beside is not None and not self.box:
            self.take_beside()
        for row in self.pending:
            self.put_without_style(row)
        return self.potential()

    def take(self, command: Command) -> None:
        """One command."""
        if command.name in ("run", "minimize"):
            self.ran = True
        for branch in command.branches:
            if states_potential(branch) or branch.name == "include":
                self.doubt(command, f"whether {branch.name!r} is executed is not known")
        if not states_potential(command):
            if command.name == "unfix" and command.args:
                self.fixes.pop(command.args[0], None)
            return
        category, _, what = command.name.partition("_")
        if command.fault:
            self.doubt(command, command.fault)
            if what == "style":
                self.open.add(category)
                self.forget(category)
            return
        if what == "style":
            self.open.discard(category)
        elif category in self.open and what in ("coeff", "modify"):
            self.doubt(command, f"the {category} style in front of it is not known")
            return
        if command.name in _KIM:
            self.doubt(command, "the potential is in a KIM model")
            return
        try:
            self.follow(command)
        except BadType as bad:
            raise self.fault(command, bad.found, bad.expected) from None

    def follow(self, command: Command) -> None:
        """What a command that can be evaluated states."""
        name, _, what = command.name.partition("_")
        if what == "coeff":
            self.take_pair_coeff(command) if name == "pair" else self.take_coeff(name, command)
        elif what == "style" and name in CATEGORIES:
            self.take_style(name, command)
        elif (reader := getattr(self, f"take_{command.name}", None)) is not None:
            reader(command)
        if self.ran and (what in ("coeff", "style") or command.name == "special_bonds"):
            self.changed_after_run = self.changed_after_run or command.where

    def take_clear(self, command: Command) -> None:
        """`clear`."""
        self.start()

    def take_create_box(self, command: Command) -> None:
        """`create_box N region bond/types n …`."""
        count, _, *words = self.words(command, 2, "a number of atom types and a region")
        if not count.isdigit():
            raise self.fault(command, repr(count), "a number of atom types")
        counts = {"atom": int(count)}
        for word, value in pairwise(words):
            kind = word.removesuffix("/types")
            if kind in TYPE_KINDS and word != kind and value.isdigit():
                counts[kind] = int(value)
        self.box = True
        self.found.type_counts = counts
        self.take_beside()

    def take_read_restart(self, command: Command) -> None:
        """`read_restart`: what the file holds is not known."""
        self.box = True
        self.take_beside()
        self.doubt(command, "the coefficients in the restart file are not read")

    def take_read_data(self, command: Command) -> None:
        """`read_data`: types, labels, masses and coefficients of a data file, in this place."""
        words = parse_read_data(command)
        if self.box and not words.add:
            raise self.fault(command, "a second read_data", "the option add")
        if words.add and not self.box:
            raise self.fault(command, f"'add {words.add}' for the first file", "a read_data command before it")
        if self.whole:
            return
        if self.beside is not None:
            self.take_beside()
            self.pending = [] if words.nocoeff else self.pending
            return
        stated = self.data(command, words)
        if stated is None:
            self.box = True
            self.doubt(command, "the data file is not there")
            return
        self.take_data(command, words, stated)

    def take_data(self, command: Command, words: ReadData, stated: Potential) -> None:
        """What a data file states."""
        if not words.add:
            kinds = {*stated.type_counts, *words.extra_types}
            counts = {kind: stated.type_counts.get(kind, 0) + words.extra_types.get(kind, 0) for kind in TYPE_KINDS}
            self.found.type_counts = {kind: counts[kind] for kind in TYPE_KINDS if kind in kinds}
            self.found.type_counts.setdefault("atom", 0)
            for kind, labels in stated.labels.items():
                self.found.labels[kind] = [*labels, *[""] * words.extra_types.get(kind, 0)]
        elif stated.labels and any(self.found.labels.get(kind) != list(own) for kind, own in stated.labels.items()):
            self.doubt(command, "type labels of several files are matched by LAMMPS alone")
        self.box = True
        shifts = words.type_offsets
        self.found.masses.update((n + shifts.get("atom", 0), mass) for n, mass in stated.masses.items())
        if words.nocoeff:
            return
        for row in stated.coefficients:
            offset = shifts.get("atom" if row.category == "pair" else row.category, 0)
            moved = replace(row, types=tuple(number + offset for number in row.types)) if offset else row
            if row.category in self.open:
                continue
            if row.category not in self.found.styles:
                raise self.fault(
                    command,
                    f"coefficients of {row.category} types ({row.where}) without a style",
                    f"{row.category}_style before it, or the option nocoeff",
                )
            self.put_row(moved)

    def take_beside(self) -> None:
        """The data file given beside the commands, where they make the box; its rows wait for their styles."""
        if self.beside is None:
            return
        stated, self.beside = self.beside, None
        self.box = self.whole = True
        self.found.type_counts = dict(stated.type_counts)
        self.found.labels = {kind: list(labels) for kind, labels in stated.labels.items()}
        self.found.masses.update(stated.masses)
        self.hints = dict(stated.styles)
        self.pending = list(stated.coefficients)
        for category in CATEGORIES:
            if category in self.found.styles:
                self.place_pending(category)
