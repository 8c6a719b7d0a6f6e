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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from molrec_convert.errors import FormatError
from molrec_lammps.data_header import TYPE_KINDS
from molrec_lammps.potential import CATEGORIES, Coefficient, Potential, PotentialStyle
from molrec_lammps.script import Command
from molrec_lammps.script_cutoffs import FORGETFUL, without_cutoffs
from molrec_lammps.script_read_data import ReadData, parse_read_data
from molrec_lammps.script_rows import Rows
from molrec_lammps.script_styles import HYBRID, PARTS, bare_style, mapped_pairs, split_hybrid
from molrec_lammps.script_types import BadType, is_label, pairs_of, types_of
from molrec_lammps.script_words import check_special_bonds, is_number
from molrec_lammps.units import UNITS

__all__ = ["PotentialReader", "states_potential"]

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
    """Whether the command says something of the force field, or of the types it is for."""
    return command.name in _STATING or (command.name == "fix" and command.args[2:3] == ("cmap",))


class PotentialReader:
    """Takes commands one by one; `potential()` is what they state so far, `doubts` why it may be another one.

    `data` gives what a data file states, None where it is not there. `beside` is what a data file states that the user
    gave although the commands make the box themselves: it counts as read where they do so.
    """

    def __init__(self, data: DataReader, beside: Potential | None = None) -> None:
        self.data, self.beside = data, beside
        self.doubts: list[str] = []
        self.changed_after_run = ""
        self.start()

    def start(self) -> None:
        """A new system."""
        self.found = Potential()
        self.rows = Rows()
        self.box = self.ran = False
        self.names: dict[str, str] = {}
        self.fixes: dict[str, str] = {}
        self.pending: list[Coefficient] = []
        self.hints: dict[str, list[PotentialStyle]] = {}

    def potential(self) -> Potential:
        """What the commands state."""
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
        if command.fault:
            self.doubt(command, command.fault)
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

    # -- styles ---------------------------------------------------------------------------------------------------

    def take_style(self, category: str, command: Command) -> None:
        """`pair_style`, `bond_style` and their kin."""
        typed, *words = self.words(command, 1, "the name of a style")
        kind = bare_style(typed)
        again = self.names.get(category) == typed
        self.names[category] = typed
        if kind == "none":
            self.forget(category)
            self.names.pop(category)
            return
        if kind in HYBRID:
            self.forget(category)
            divided = split_hybrid(category, kind, words, command.where)
            if isinstance(divided, str) or not divided.styles:
                found = f"{divided!r}" if isinstance(divided, str) else "no sub-style"
                raise self.fault(command, found, f"names of {category} styles and their arguments behind {kind}")
            self.found.hybrid[category] = kind
            self.found.styles[category] = divided.styles
            if category == "pair":
                self.found.scales = divided.scales
            self.place_pending(category)
            return
        style = PotentialStyle(kind, tuple(words), 0, command.where)
        if category == "pair" and again and kind not in FORGETFUL:
            self.rows.change("pair", lambda row: replace(row, words=without_cutoffs(kind, row.types, row.words)))
        else:
            self.forget(category)
        self.found.styles[category] = [style]
        self.place_pending(category)

    def forget(self, category: str) -> None:
        """The category starts over."""
        self.rows.drop(category)
        self.found.styles.pop(category, None)
        self.found.hybrid.pop(category, None)
        if category == "pair":
            self.found.pair_modify, self.found.scales = [], []

    # -- coefficients ---------------------------------------------------------------------------------------------

    def take_pair_coeff(self, command: Command) -> None:
        """`pair_coeff I J words`."""
        one, other, *words = self.words(command, 2, "two atom types")
        self.check_ready("pair", command)
        count, labels = self.found.type_counts["atom"], self.found.labels.get("atom", [])
        pairs = pairs_of(one, other, count, labels)
        style, index, rest = self.sub_style("pair", words)
        name = style or self.found.styles["pair"][0].name
        if style != "none" and self.found.hybrid.get("pair"):
            pairs = mapped_pairs(style, rest, pairs, count)
            if not pairs:
                raise self.fault(command, f"{' '.join(words)!r} for no pair of types", f"types that {style} maps")
        self.rows.begin("pair", name, style, index)
        for pair in pairs:
            self.put(Coefficient("pair", pair, rest, style, index, where=command.where))

    def take_coeff(self, category: str, command: Command) -> None:
        """`bond_coeff`, `angle_coeff` and their kin: a type or range, words."""
        word, *words = self.words(command, 1, f"a {category} type")
        self.check_ready(category, command)
        count, labels = self.found.type_counts.get(category, 0), self.found.labels.get(category, [])
        types = types_of(word, count, labels, category)
        style, index, rest = self.sub_style(category, words)
        part, rest = self.part_of(category, style, rest)
        for number in types:
            self.put(Coefficient(category, (number,), rest, style, index, part, command.where))

    def sub_style(self, category: str, words: Sequence[str]) -> tuple[str, int, tuple[str, ...]]:
        """Sub-style and index before the coefficients under a hybrid; "" and 0 else."""
        if category not in self.found.hybrid:
            return "", 0, tuple(words)
        styles = self.found.styles[category]
        name = bare_style(words[0]) if words else ""
        if name in ("none", "skip"):
            return name, 0, ()
        same = [style for style in styles if style.name == name]
        if not same:
            known = ", ".join(dict.fromkeys(style.name for style in styles))
            found = repr(words[0]) if words else "no sub-style"
            raise BadType(found, f"a sub-style of the {category} style: {known}")
        if len(same) == 1:
            return name, 0, tuple(words[1:])
        index = words[1] if len(words) > 1 else ""
        if not index.isdigit() or not 1 <= int(index) <= len(same):
            raise BadType(f"{index!r} after {name}", f"which {name} it is, a number from 1 to {len(same)}")
        return name, int(index), tuple(words[2:])

    def part_of(self, category: str, style: str, words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """The word of a cross term before the coefficients, where the style has cross terms."""
        name = style or self.found.styles[category][0].name
        if words and words[0] in PARTS and name.startswith(("class2", "amoeba")):
            return words[0], words[1:]
        return "", words

    def put(self, row: Coefficient) -> None:
        """A row in force from here on."""
        self.rows.put(row, self.found.hybrid.get(row.category, ""))

    def check_ready(self, category: str, command: Command) -> None:
        """Coefficients need a box, for the number of types, and a style."""
        if not self.box:
            raise self.fault(command, f"{command.name} before the box", "read_data before it")
        if category not in self.found.styles:
            raise self.fault(command, f"{command.name} without a style", f"{category}_style before it")

    # -- other settings -------------------------------------------------------------------------------------------

    def take_units(self, command: Command) -> None:
        """`units`."""
        word = self.words(command, 1, "a units style")[0]
        if word not in UNITS:
            raise self.fault(command, repr(word), f"one of {', '.join(UNITS)}")
        self.found.units = word

    def take_pair_modify(self, command: Command) -> None:
        """`pair_modify`, of all sub-styles or of one."""
        words = self.words(command, 1, "a keyword")
        if "pair" not in self.found.styles:
            raise self.fault(command, "pair_modify without a style", "pair_style before it")
        if words[0] == "pair":
            if "pair" not in self.found.hybrid:
                raise self.fault(command, "'pair' without a hybrid pair style", "a keyword such as mix or shift")
            self.sub_style("pair", words[1:])
        self.found.pair_modify.append(tuple(words))

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
        types = types_of(word, self.found.type_counts["atom"], self.found.labels.get("atom", []), "atom")
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

    def take_clear(self, command: Command) -> None:
        """`clear`."""
        self.start()

    # -- the box --------------------------------------------------------------------------------------------------

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
        self.beside = None
        shifts = words.type_offsets
        self.found.masses.update((n + shifts.get("atom", 0), mass) for n, mass in stated.masses.items())
        if words.nocoeff:
            return
        for row in stated.coefficients:
            offset = shifts.get("atom" if row.category == "pair" else row.category, 0)
            moved = replace(row, types=tuple(number + offset for number in row.types)) if offset else row
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
        self.box = True
        self.found.type_counts = dict(stated.type_counts)
        self.found.labels = {kind: list(labels) for kind, labels in stated.labels.items()}
        self.found.masses.update(stated.masses)
        self.hints = dict(stated.styles)
        self.pending = list(stated.coefficients)
        for category in CATEGORIES:
            if category in self.found.styles:
                self.place_pending(category)

    def place_pending(self, category: str) -> None:
        """Rows that waited for this style, unless the file says they are of another."""
        if not self.pending:
            return
        mine = [row for row in self.pending if row.category == category]
        hinted = [style.name for style in self.hints.get(category, ())]
        now = {style.name for style in self.found.styles[category]}
        if category not in self.found.hybrid and hinted and not now.intersection(hinted):
            return
        self.pending = [row for row in self.pending if row.category != category]
        for row in mine:
            self.put_row(row)

    def put_without_style(self, row: Coefficient) -> None:
        """A row of a data file whose style no command states."""
        if row.category in self.found.styles and self.found.styles[row.category][0].stated:
            return
        self.found.styles.setdefault(row.category, list(self.hints.get(row.category, ())))
        types = row.types * 2 if row.category == "pair" and len(row.types) == 1 else row.types
        self.rows.put(replace(row, types=types), "")

    def put_row(self, row: Coefficient) -> None:
        """A row of a data file: under a hybrid its first words name the sub-style."""
        category = row.category
        types = row.types * 2 if category == "pair" and len(row.types) == 1 else row.types
        words = (*((row.style,) if row.style else ()), *((str(row.index),) if row.index else ()), *row.words)
        try:
            style, index, rest = self.sub_style(category, words)
        except BadType as bad:
            raise FormatError(row.where, found=bad.found, expected=bad.expected) from None
        if style == "skip":
            return
        part = row.part
        if not part:
            part, rest = self.part_of(category, style, rest)
        self.put(replace(row, types=types, style=style, index=index, words=rest, part=part))

    # -- helpers --------------------------------------------------------------------------------------------------

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
