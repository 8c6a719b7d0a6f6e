"""Commands that set something of the force field at once, whatever stands before: the simpler part of the walk."""

from __future__ import annotations

from molrec_convert.errors import FormatError
from molrec_lammps.common.units import UNITS
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.potential.potential import Potential
from molrec_lammps.potential.style_table import bare_style
from molrec_lammps.script.script import Command
from molrec_lammps.script.types import is_label, types_of
from molrec_lammps.script.words import check_special_bonds, is_number

__all__ = ["SettingsReader"]


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
        """The words of a command, `least` of them at least."""
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
        """The error at a command."""
        return FormatError(command.path, f"line {command.line}", found=found, expected=expected)
