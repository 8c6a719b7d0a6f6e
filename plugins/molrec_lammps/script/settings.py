"""Commands that set something of the force field at once, whatever stands before: the simpler part of the walk."""

from __future__ import annotations

import re
from collections.abc import Sequence

from molrec_convert.errors import FormatError
from molrec_lammps.common.units import UNITS
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.potential.potential import Potential
from molrec_lammps.potential.style_table import bare_style
from molrec_lammps.script.script import Command

__all__ = ["BadType", "SettingsReader", "check_special_bonds", "is_label", "is_number", "pairs_of", "types_of"]

_RANGE = re.compile(r"(\d*)(\*?)(\d*)")


class BadType(Exception):
    """A word that is no type here: what stands there, and what should."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found, self.expected = found, expected


def is_label(word: str) -> bool:
    """True if the word is a type label rather than a number or a range."""
    return bool(word) and not (word[0].isdigit() or word[0] in "*#+-")


def types_of(word: str, count: int, labels: Sequence[str], kind: str) -> range:
    """Return the types a word means: `count` types of the `kind` ("atom") there are, `labels` are theirs in order."""
    if is_label(word):
        if word not in labels:
            known = ", ".join(label for label in labels if label)
            raise BadType(
                f"the {kind} type label {word!r}",
                f"one of {known}" if known else f"a type number, as no {kind} type has a label",
            )
        number = list(labels).index(word) + 1
        return range(number, number + 1)
    match = _RANGE.fullmatch(word)
    expected = f"a type from 1 to {count}, a range such as '1*{max(count, 1)}', or a type label"
    if match is None or not word:
        raise BadType(f"{word!r} as {kind} type", expected)
    low, star, high = match.groups()
    first = int(low or 1)
    last = int(high or count) if star else first
    if not 1 <= first <= last <= count:
        there = f"{count} {kind} type{'' if count == 1 else 's'}"
        raise BadType(f"{word!r} with {there}", expected if count else f"a data file with {kind} types")
    return range(first, last + 1)


def pairs_of(one: str, other: str, count: int, labels: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of atom types two words mean: those with I <= J of both ranges, and two plain types in either
    order.
    """
    first, second = types_of(one, count, labels, "atom"), types_of(other, count, labels, "atom")
    if "*" not in _bare(one) + _bare(other) and second[0] < first[0]:
        first, second = second, first
    pairs = [(i, j) for i in first for j in second if i <= j]
    if not pairs:
        raise BadType(f"'{one} {other}', which holds no pair I <= J", f"'{other} {one}'")
    return pairs


def _bare(word: str) -> str:
    return "" if is_label(word) else word


_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_PRESETS = frozenset({"amber", "charmm", "dreiding", "fene"})
_FLAGS = frozenset({"angle", "dihedral", "one/five"})


def is_number(word: str) -> bool:
    """True if LAMMPS takes the word for a number."""
    return _NUMBER.fullmatch(word) is not None


def check_special_bonds(words: Sequence[str]) -> str:
    """Return what is wrong with the words of `special_bonds`, "" for nothing."""
    at = 0
    if not words:
        return "'special_bonds' alone"
    while at < len(words):
        word = words[at]
        if word in _PRESETS:
            at += 1
        elif word in ("lj", "coul", "lj/coul"):
            weights = words[at + 1 : at + 4]
            if len(weights) < 3 or not all(is_number(weight) and 0 <= float(weight) <= 1 for weight in weights):
                return repr(" ".join(words[at : at + 4]))
            at += 4
        elif word in _FLAGS:
            if words[at + 1 : at + 2] not in (["yes"], ["no"], ("yes",), ("no",)):
                return repr(" ".join(words[at : at + 2]))
            at += 2
        else:
            return repr(word)
    return ""


class SettingsReader:
    """Units, special bonds, long-range electrostatics, masses, labels, correction maps.

    `found` is what the commands stated so far, `fixes` the file of each `fix cmap` by its id, `box` whether the number
    of types is known, `doubts` why something may be otherwise.
    """

    def __init__(self) -> None:
        self.doubts: list[str] = []
        self.start()

    def start(self) -> None:
        """A new system."""
        self.found = Potential()
        self.fixes: dict[str, str] = {}
        self.box = False

    def take_units(self, command: Command) -> None:
        """`units`."""
        word = self.words(command, 1, "a units style")[0]
        if word not in UNITS:
            raise self.fault(command, repr(word), f"one of {', '.join(UNITS)}")
        self.found.units = word

    def take_special_bonds(self, command: Command) -> None:
        """`special_bonds`."""
        bad = check_special_bonds(command.args)
        if bad:
            raise self.fault(command, bad, "amber, charmm, dreiding, fene, or lj, coul, lj/coul and three weights")
        self.found.special_bonds = command.args

    def take_kspace_style(self, command: Command) -> None:
        """`kspace_style`."""
        words = self.words(command, 1, "the name of a style")
        name = bare_style(words[0])
        self.found.kspace = None if name == "none" else (name, *words[1:])
        self.found.kspace_modify = []

    def take_kspace_modify(self, command: Command) -> None:
        """`kspace_modify`."""
        words = self.words(command, 1, "a keyword")
        if self.found.kspace is None:
            raise self.fault(command, "kspace_modify without a style", "kspace_style before it")
        self.found.kspace_modify.append(tuple(words))

    def take_dielectric(self, command: Command) -> None:
        """`dielectric`."""
        word = self.words(command, 1, "a number")[0]
        if not is_number(word):
            raise self.fault(command, repr(word), "a number")
        self.found.dielectric = word

    def take_mass(self, command: Command) -> None:
        """`mass`."""
        word, mass = self.words(command, 2, "an atom type and its mass")[:2]
        if not self.box:
            raise self.fault(command, "mass before the box", "read_data before it")
        if not is_number(mass) or not float(mass) > 0:
            raise self.fault(command, f"the mass {mass!r}", "a positive number")
        types = types_of(word, self.found.type_counts.get("atom", 0), self.found.labels.get("atom", []), "atom")
        self.found.masses.update((number, mass) for number in types)

    def take_labelmap(self, command: Command) -> None:
        """`labelmap`."""
        kind, *words = self.words(command, 1, "atom, bond, angle, dihedral, improper, clear or write")
        if kind == "clear":
            self.found.labels.clear()
        if kind in ("clear", "write"):
            return
        if kind not in TYPE_KINDS or len(words) % 2:
            raise self.fault(command, repr(" ".join(command.args)), "a kind of type, and a label after each number")
        count = self.found.type_counts.get(kind, 0)
        labels = self.found.labels.setdefault(kind, [""] * count)
        for number, label in zip(words[::2], words[1::2], strict=True):
            if not number.isdigit() or not 1 <= int(number) <= count:
                raise self.fault(command, f"the {kind} type {number!r}", f"one from 1 to {count}")
            if not is_label(label):
                raise self.fault(command, f"the label {label!r}", "one that begins with no digit, * or #")
            if label in labels and labels.index(label) != int(number) - 1:
                raise self.fault(command, f"the label {label!r} again", "each label once")
            labels[int(number) - 1] = label

    def take_fix(self, command: Command) -> None:
        """`fix ID group cmap file`."""
        name, _, _, file = self.words(command, 4, "a file of correction maps")[:4]
        self.fixes[name] = file

    def words(self, command: Command, least: int, expected: str) -> list[str]:
        """Return the words of a command, `least` of them at least."""
        if len(command.args) < least:
            raise self.fault(command, repr(command.text), f"{expected} after {command.name}")
        return list(command.args)

    def doubt(self, command: Command, why: str) -> None:
        """What the command does is not known."""
        text = f"{command.where}: {command.text!r}: {why}"
        if text not in self.doubts:
            self.doubts.append(text)

    @staticmethod
    def fault(command: Command, found: str, expected: str) -> FormatError:
        """Return the error at a command."""
        return FormatError(command.path, f"line {command.line}", found=found, expected=expected)
