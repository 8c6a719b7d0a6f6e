"""Styles and coefficients, one command at a time: what each leaves of what stands before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from molrec_convert.errors import FormatError
from molrec_lammps.potential.potential import (
    HYBRID,
    PARTS,
    Coefficient,
    HybridWords,
    PotentialStyle,
    mapped_pairs,
    split_hybrid,
    sub_style_among,
)
from molrec_lammps.potential.style_table import bare_style, find_style, is_number
from molrec_lammps.script.script import Command
from molrec_lammps.script.settings import BadType, SettingsReader, pairs_of, types_of

__all__ = ["FORGETFUL", "CoefficientReader", "Rows", "without_cutoffs"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Styles that start over when stated again, although the name is the same.
FORGETFUL = frozenset({"table", "table/rx", "list"})
#: Styles whose optional coefficients stay: no cutoffs, or cutoffs that are not set back.
_KEEPING = _names("""
    coul/diel hbond/dreiding/lj hbond/dreiding/lj/angleoffset hbond/dreiding/morse hbond/dreiding/morse/angleoffset
    buck/long/coul/long lepton lepton/coul lj/charmm/coul/charmm lj/charmm/coul/charmm/implicit lj/charmm/coul/long
    lj/charmm/coul/long/soft lj/charmm/coul/msm lj/charmmfsw/coul/charmmfsh lj/charmmfsw/coul/long lj/long/coul/long
    lj/long/dipole/long lj/long/tip4p/long srp
    """)
#: Styles that set back the cutoffs of unlike types alone.
_UNLIKE = frozenset(
    {"buck6d/coul/gauss/dsf", "buck6d/coul/gauss/long", "cosine/squared", "lj/cut/coul/debye", "ufm", "zero"}
)


def without_cutoffs(style: str, types: tuple[int, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the coefficients of a pair after its style was stated again."""
    if style in _KEEPING or (style in _UNLIKE and types[0] == types[1]):
        return words
    known = find_style("pair", style)
    if known is None or known.every:
        return words
    for length in range(len(words)):
        if known.read(words[:length]) is not None:
            return (*words[:length], *(word for word in words[length:] if word == "wca"))
    return words


_Place = tuple[str, tuple[int, ...]]
_Key = tuple[str, int, str]


class Rows:
    """Rows by what they are of, each with the number of its statement."""

    def __init__(self) -> None:
        self._rows: dict[_Place, dict[_Key, tuple[int, Coefficient]]] = {}
        self._number = 0

    def all(self) -> list[Coefficient]:
        """Return the rows in force, in the order of their statements."""
        return [row for _, row in sorted((entry for own in self._rows.values() for entry in own.values()), key=_first)]

    def put(self, row: Coefficient, hybrid: str) -> None:
        """One row; `hybrid` is the kind of hybrid its category is, "" for none.

        Under a plain hybrid a pair or type has one sub-style, the last; under an overlay `none` takes off all.
        """
        own = self._rows.setdefault((row.category, row.types), {})
        if hybrid:
            overlay = row.category == "pair" and hybrid != "hybrid" and row.style != "none"
            gone = [key for key in own if (key[0] == "none" if overlay else key[:2] != (row.style, row.index))]
            for key in gone:
                del own[key]
        self._number += 1
        own[(row.style, row.index, row.part)] = (self._number, row)

    def undo(self, category: str, style: str, index: int) -> None:
        """No row of a sub-style (of the only style: "" and 0) is in force any more."""
        for place, own in self._rows.items():
            if place[0] == category:
                own.pop((style, index, ""), None)

    def drop(self, category: str) -> None:
        """No row of the category is in force any more."""
        for place in [place for place in self._rows if place[0] == category]:
            del self._rows[place]

    def change(self, category: str, how: Callable[[Coefficient], Coefficient]) -> None:
        """Every row of the category becomes what `how` makes of it."""
        for place, own in self._rows.items():
            if place[0] == category:
                self._rows[place] = {key: (number, how(row)) for key, (number, row) in own.items()}


def _first(entry: tuple[int, Coefficient]) -> int:
    return entry[0]


class CoefficientReader(SettingsReader):
    """The rows in force, and rows of a data file that wait for their style (`pending`, with the styles `hints` names).

    `names` are the styles as typed by category, by which LAMMPS tells whether one is stated again.
    """

    def start(self) -> None:
        """A new system."""
        super().start()
        self.rows = Rows()
        self.names: dict[str, str] = {}
        self.pending: list[Coefficient] = []
        self.hints: dict[str, list[PotentialStyle]] = {}

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

    def take_pair_coeff(self, command: Command) -> None:
        """`pair_coeff I J words`."""
        one, other, *words = self.words(command, 2, "two atom types")
        self.check_ready("pair", command)
        count, labels = self.found.type_counts.get("atom", 0), self.found.labels.get("atom", [])
        pairs = pairs_of(one, other, count, labels)
        style, index, rest = self.sub_style("pair", words)
        stated = next((s for s in self.found.styles["pair"] if not style or (s.name, s.index) == (style, index)), None)
        if stated is not None:
            pairs = mapped_pairs(stated.name, rest, pairs, count)
            if not pairs:
                raise self.fault(command, f"{' '.join(words)!r} for no pair of types", f"types that {stated.name} maps")
            known = find_style("pair", stated.name)
            if known is not None and known.takes_all(stated.args):
                self.rows.undo("pair", style, index)
            if known is not None and "triples" in known.flags and rest[:1] != ("*",):
                self.doubt(command, "these coefficients are of three types, and a record has those of two")
        for pair in pairs:
            self.put(Coefficient("pair", pair, rest, style, index, where=command.where))

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
        """Return sub-style and index before the coefficients under a hybrid; "" and 0 else."""
        if category not in self.found.hybrid:
            return "", 0, tuple(words)
        styles = self.found.styles[category]
        name = bare_style(words[0]) if words else ""
        if name in ("none", "skip"):
            return name, 0, ()
        same = [style for style in styles if style.name == name]
        if not same and name and not is_number(name):
            scaled = self.found.hybrid[category] == "hybrid/scaled"
            if sub_style_among(HybridWords(styles, self.found.scales), name, scaled):
                return self.sub_style(category, words)
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
        """Return the word of a cross term before the coefficients, where the style has cross terms."""
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
        if not self.found.styles.get(category):
            raise self.fault(command, f"{command.name} without a style", f"{category}_style before it")

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
        styles = self.found.styles.get(row.category)
        if styles and styles[0].stated:
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
