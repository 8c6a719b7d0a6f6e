"""What of a run's other commands goes into a directory that is written, and what changes its energies if left out.

The force field is in `forcefield`; of the rest a record from LAMMPS has what counts in `method.setup`, by the names and
numbers of its groups, types and atoms. Source: the manual, "neigh_modify", "delete_bonds", "fix property/atom",
"fix shake", "fix qeq", "fix drude", "fix_modify"; each tried on LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Record
from molrec_convert.report import Report
from molrec_lammps.potential.potential import CATEGORIES, Coefficient, Potential, PotentialStyle
from molrec_lammps.potential.style_table import bare_style, is_number
from molrec_lammps.script.script import ALTERING
from molrec_lammps.script.syntax import quoted, split_at_variable, split_words
from molrec_lammps.write.units import Conversion, number_text

__all__ = [
    "PARTS",
    "CoefficientSection",
    "SetupLines",
    "coefficient_commands",
    "coefficient_sections",
    "setup_lines",
    "stated_settings",
    "style_commands",
]

#: What a group may be made of, where a record has it: types, ids and molecules of atoms, and other groups.
_GROUPS = frozenset({"type", "id", "molecule", "union", "subtract", "intersect", "empty", "clear", "delete"})
#: Fixes that are written as they stand: what they do at the first step is part of the energy.
_WRITTEN = re.compile(r"(drude|shake|rattle|qeq/|qtpie/|acks2/)")
_EQUILIBRATING = re.compile(r"(qeq/|qtpie/|acks2/)")
#: The dimension of the numbers behind a word of a command; a tuple where several numbers stand there.
_DIMENSIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "comm_modify": {"cutoff": ("L",), "cutoff/multi": ("", "L")},
    "neigh_modify": {"binsize": ("L",)},
}
#: Commands that name atom types by their numbers.
_BY_TYPE = re.compile(
    r"neigh_modify .*\b(exclude type [\d*]|collection/type\b)|group \S+ type [^A-Za-z]|comm_modify .*cutoff/multi"
    r"|delete_bonds \S+ atom\b|fix \S+ \S+ (drude|qeq/|qtpie/|acks2/)|fix \S+ \S+ (shake|rattle).* t "
)
#: Words before names of groups in commands that are written.
_BEFORE_GROUPS = frozenset({"group", "molecule/intra", "molecule/inter", "include"})


@dataclass
class SetupLines:
    """The commands to write: templates of molecules, before `read_data`, before the coefficients (`variables`), behind.

    `properties` are the words of `fix property/atom` commands that say more of a section's columns, `files` the sha256
    of files the commands name, `skin` whether they set one.
    """

    molecules: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    properties: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    skin: bool = False


def stated_settings(record: Record) -> dict[str, Any]:
    """Return what the commands of the record's own script set (`method.settings`), {} where there was none."""
    settings = record.method.get("settings") if isinstance(record.method, dict) else None
    return settings if isinstance(settings, dict) else {}


def setup_lines(
    record: Record,
    sections: Sequence[tuple[str, ...]],
    units: str | None,
    report: Report,
    *,
    style: str = "",
    renumbered: bool = False,
) -> SetupLines:
    """Return the commands of `method.setup` to write; what is not written and counts is reported as dropped.

    `sections` are the words of those sections of the data file that a `fix property/atom` reads, `units` the style that
    numbers are converted to (None: they stay), `style` the atom style, which may name a template of molecules;
    `renumbered` says that atom types get other numbers.
    UnsupportedError: pairs are excluded by groups that are not in the record, types are named by numbers they have no
    more, or a number cannot be converted.
    """
    method = record.method if isinstance(record.method, dict) else {}
    setup = method.get("setup")
    files = method.get("setup_files")
    stated = {"preset": stated_settings(record).get("units")}
    conversion = Conversion.between(stated if stated["preset"] else {}, units)
    writer = _Setup(sections, conversion, report, files if isinstance(files, Mapping) else {})
    for text in setup if isinstance(setup, list) else ():
        if renumbered and _BY_TYPE.search(str(text)):
            raise UnsupportedError(
                f"--type-order: the script says {str(text)!r}, which names atom types by numbers that would be others; "
                "write without it"
            )
        writer.take(str(text))
    for word in style.split():
        writer.use_molecule(word)
    return writer.found


class _Setup:
    def __init__(
        self, sections: Sequence[tuple[str, ...]], conversion: Conversion, report: Report, files: Mapping[str, Any]
    ) -> None:
        self.sections, self.conversion, self.report, self.files = sections, conversion, report, files
        self.found = SetupLines()
        self.unknown: dict[str, str] = {}
        self.fixes: dict[str, str] = {}
        self.molecules: dict[str, str] = {}

    def take(self, text: str) -> None:
        """One command of the setup."""
        name, *words = split_words(text)
        if split_at_variable(text) is not None:
            self.drop(text, "its variables have no value outside a running LAMMPS")
        elif name in ALTERING - {"delete_bonds"}:
            self.drop(text, "it alters the system behind the state that the record holds")
        elif (writer := getattr(self, f"write_{name}", None)) is not None:
            writer(words, text)
        else:
            self.drop(text, "whether it was executed, and what it did, only a running LAMMPS tells")

    def drop(self, text: str, why: str) -> None:
        """A command that counts and is not written."""
        words = text.split()
        what = f"fix {words[3]}" if words[0] == "fix" and len(words) > 3 else words[0]
        self.report.dropped(what, f"{text!r} is not in the written script: {why}")

    def write_variable(self, words: list[str], text: str) -> None:
        """A variable of the force field, or of a command that is written."""
        formula = "".join(words[2:])
        if self.conversion and re.search(r"[A-Za-z_]{2}", formula):
            raise UnsupportedError(f"{text}: what the variable measures is not known, so it cannot be converted")
        self.found.variables.append(text)

    def write_group(self, words: list[str], text: str) -> None:
        """A group, where it is of what the record holds."""
        name, *style = words
        members = set(style[1:]) if style[:1] and style[0] in ("union", "subtract", "intersect") else set()
        if style[:1] and style[0] in _GROUPS and not members & self.unknown.keys():
            self.unknown.pop(name, None)
            self.found.after.append(text)
        else:
            self.unknown[name] = text

    def write_atom_modify(self, words: list[str], text: str) -> None:
        """The map of atoms, and the group that stands first."""
        if "map" in words:
            self.found.before.append(f"atom_modify map {words[words.index('map') + 1]}")
        if "first" in words:
            group = words[words.index("first") + 1]
            if group in self.unknown:
                self.refuse(text, group)
            self.found.after.append(f"atom_modify first {group}")

    def write_neighbor(self, words: list[str], text: str) -> None:
        """The skin of neighbour lists."""
        self.found.skin = True
        self.found.after.append(self.scaled("neighbor", words, {0: "L"}))

    def write_timestep(self, words: list[str], text: str) -> None:
        """The timestep."""
        self.found.after.append(self.scaled("timestep", words, {0: "t"}))

    def write_comm_modify(self, words: list[str], text: str) -> None:
        """What ghost atoms there are, and what they hold."""
        self.write_words("comm_modify", words, text)

    def write_neigh_modify(self, words: list[str], text: str) -> None:
        """Neighbour lists: pairs that are excluded, room."""
        if self.conversion and any(word.startswith("collection/") for word in words):
            raise UnsupportedError(f"{text}: lengths of collections are not converted to other units")
        self.write_words("neigh_modify", words, text)

    def write_words(self, name: str, words: list[str], text: str) -> None:
        """A command of words and numbers behind them. UnsupportedError: a group is not in the record."""
        groups = set(self.unknown) & set(words) if _BEFORE_GROUPS & set(words) else set()
        if groups:
            self.refuse(text, min(groups))
        places: dict[int, str] = {}
        for place, word in enumerate(words):
            for further, dimension in enumerate(_DIMENSIONS[name].get(word, ()), 1):
                places[place + further] = dimension
        self.found.after.append(self.scaled(name, words, places))

    def refuse(self, text: str, group: str) -> None:
        """The energy would be another without the command."""
        raise UnsupportedError(
            f"the script says {text!r}, which changes the energy, and the record does not hold the group: "
            f"{self.unknown[group]!r} is made of what only a running LAMMPS tells; make it of types, ids or molecules "
            f"('group {group} id …'), and convert the run again"
        )

    def write_delete_bonds(self, words: list[str], text: str) -> None:
        """Bonds that are turned off, or taken out, as the script did."""
        if words[:1] and words[0] in self.unknown:
            self.refuse(text, words[0])
        self.found.after.append(text)

    def write_molecule(self, words: list[str], text: str) -> None:
        """A template of molecules, written where an atom style or a fix that is written names it."""
        self.molecules[words[0]] = text

    def use_molecule(self, name: str) -> None:
        """Write a template. UnsupportedError: its lengths would be in other units."""
        text = self.molecules.pop(name, None)
        if text is None:
            return
        if self.conversion:
            raise UnsupportedError(f"{text}: the file of a template is not converted to other units")
        self.copy(text.split())
        self.found.molecules.append(text)

    def copy(self, words: Sequence[str]) -> None:
        """The files that words of a command name."""
        self.found.files |= {word: str(self.files[word]) for word in words if word in self.files}

    def write_fix(self, words: list[str], text: str) -> None:
        """A fix, where it is part of the energy and all it needs is in the record."""
        if len(words) < 3:
            return
        name, group, style = words[0], words[1], bare_style(words[2])
        self.fixes[name] = ""
        if style == "property/atom":
            self.write_property(words, text)
        elif not _WRITTEN.match(style):
            self.drop(text, "it changes energies or forces of the first step")
        elif group in self.unknown:
            self.drop(text, f"the record does not hold its group ({self.unknown[group]!r})")
        elif self.conversion and (_EQUILIBRATING.match(style) or "kbond" in words):
            self.drop(text, "its numbers are not converted to other units")
        else:
            places: dict[int, str] = {}
            if "m" in words[3:]:
                first = words.index("m", 3) + 1
                rest = range(first, len(words))
                ends = next((place for place in rest if not is_number(words[place])), len(words))
                places = dict.fromkeys(range(first, ends), "M")
            self.fixes[name] = style
            self.copy(words)
            if "mol" in words[3:]:
                self.use_molecule(words[words.index("mol", 3) + 1])
            self.found.after.append(self.scaled("fix", words, places))

    def write_property(self, words: list[str], text: str) -> None:
        """Properties of atoms: what ghosts have of those a section holds; others start at zero, as in the script."""
        rest = words[3:]
        options: list[str] = []
        for key in ("ghost", "writedata"):
            if key in rest:
                place = rest.index(key)
                options += rest[place : place + 2]
                del rest[place : place + 2]
        if tuple(rest) in self.sections:
            self.found.properties[tuple(rest)] = options
        elif words[1] == "all":
            self.found.before.append(text)
        else:
            self.drop(text, "properties of some atoms alone are not written")

    def write_fix_modify(self, words: list[str], text: str) -> None:
        """What a fix that is written adds."""
        if self.fixes.get(words[0]):
            self.found.after.append(text)

    def scaled(self, name: str, words: Sequence[str], places: Mapping[int, str]) -> str:
        """Return the command with the numbers at some places in the units that are written."""
        found = list(words)
        for place, dimension in places.items():
            if self.conversion and dimension and place < len(found) and is_number(found[place]):
                factor = self.conversion.factor(dimension, name)
                found[place] = number_text(float(found[place]) * factor)
        return " ".join([name, *map(quoted, found)])


#: Word of a cross term in commands → its section in a data file, in the order LAMMPS writes them.
PARTS = {
    "bb": "BondBond Coeffs",
    "ba": "BondAngle Coeffs",
    "ub": "UreyBradley Coeffs",
    "aat": "AngleAngleTorsion Coeffs",
    "ebt": "EndBondTorsion Coeffs",
    "mbt": "MiddleBondTorsion Coeffs",
    "bb13": "BondBond13 Coeffs",
    "at": "AngleTorsion Coeffs",
    "aa": "AngleAngle Coeffs",
}


@dataclass(frozen=True)
class CoefficientSection:
    """One section of coefficients: its name, the style a comment behind it names (or ""), its rows."""

    name: str
    hint: str
    rows: list[str]


def coefficient_sections(potential: Potential, counts: dict[str, int], report: Report) -> Iterator[CoefficientSection]:
    """Yield the sections of a data file, in LAMMPS' order; what a data file cannot say is reported as dropped.

    `counts` are the numbers of types by kind.
    """
    final = list(potential.final())
    for category in CATEGORIES:
        rows = [row for row in final if row.category == category]
        if not rows:
            continue
        if category == "pair":
            yield from _pair_sections(potential, rows, counts.get("atom", 0), report)
            continue
        count = counts.get(category, 0)
        for part in ("", *PARTS):
            own = [row for row in rows if row.part == part]
            if own:
                name = PARTS[part] if part else f"{category.capitalize()} Coeffs"
                section = _section(potential, name, category, own, count, report, part)
                if section is not None:
                    yield section
    _report_unsaid(potential, report)


def style_commands(potential: Potential) -> Iterator[str]:
    """Yield the commands that set styles and what goes with them, without coefficients."""
    for category in CATEGORIES:
        styles = potential.styles.get(category, [])
        if styles:
            yield _command(f"{category}_style", *_style_words(potential, category, styles))
    if potential.kspace is not None:
        yield _command("kspace_style", *potential.kspace)
    for words in potential.kspace_modify:
        yield _command("kspace_modify", *words)
    if potential.dielectric is not None:
        yield _command("dielectric", potential.dielectric)
    if potential.special_bonds is not None:
        yield _command("special_bonds", *potential.special_bonds)
    for words in potential.pair_modify:
        yield _command("pair_modify", *words)


def coefficient_commands(potential: Potential, counts: dict[str, int]) -> Iterator[str]:
    """Yield the commands that set coefficients, in the order of their last statements.

    Rows of one style that say the same for every pair of types are one command for all of them, which is also the only
    way a style whose coefficients lie in a file takes them.
    """
    final = list(potential.final())
    for category in CATEGORIES:
        rows = [row for row in final if row.category == category]
        for row, types in _merged(rows, counts.get("atom", 0)) if category == "pair" else ((r, None) for r in rows):
            words = [*(types or map(str, row.types)), *_substyle(potential, row)]
            if row.part:
                words.append(row.part)
            text = _command(f"{category}_coeff", *words, *row.words)
            yield f"{text} # {row.comment}" if row.comment else text


def _merged(rows: list[Coefficient], count: int) -> Iterator[tuple[Coefficient, tuple[str, str] | None]]:
    """Yield rows of pairs, those that hold for all pairs as one, at the place of the last of them."""
    groups: dict[tuple[object, ...], int] = {}
    for row in rows:
        key = (row.style, row.index, row.part, row.words, row.comment)
        groups[key] = groups.get(key, 0) + 1
    left = dict(groups)
    for row in rows:
        key = (row.style, row.index, row.part, row.words, row.comment)
        if count and groups[key] == count * (count + 1) // 2:
            left[key] -= 1
            if not left[key]:
                yield row, ("*", "*")
        else:
            yield row, None


def _pair_sections(
    potential: Potential, rows: list[Coefficient], count: int, report: Report
) -> Iterator[CoefficientSection]:
    own = [row for row in rows if len(set(row.types)) == 1]
    cross = [row for row in rows if row not in own]
    pairs = {tuple(sorted(row.types)) for row in rows}
    if cross and len(pairs) == count * (count + 1) // 2 == len(rows):
        section = _section(potential, "PairIJ Coeffs", "pair", rows, len(rows), report)
    else:
        if cross:
            report.dropped(
                "pair coefficients",
                f"{len(cross)} rows of unlike types: a data file states them for all pairs or for none; "
                "--to lammps-settings or lammps-run writes them",
            )
        section = _section(potential, "Pair Coeffs", "pair", own, count, report) if own else None
    if section is not None:
        yield section


def _section(
    potential: Potential,
    name: str,
    category: str,
    rows: list[Coefficient],
    count: int,
    report: Report,
    part: str = "",
) -> CoefficientSection | None:
    hybrid = category in potential.hybrid
    by_types = {row.types: row for row in rows}
    if len(by_types) != len(rows):
        report.dropped(name, f"a type has coefficients of several styles of {potential.hybrid.get(category, category)}")
        return None
    lines = []
    if category != "pair" and part and hybrid:
        skipped = (Coefficient(category, (number,), ("skip",)) for number in range(1, count + 1))
        rows = [by_types.get(row.types, row) for row in skipped]
    elif len(rows) != count:
        missing = count - len(rows)
        report.dropped(
            name,
            f"{missing} of {count} types have no coefficients, and a data file has a row for each; --to "
            "lammps-settings or lammps-run writes them",
        )
        return None
    for row in sorted(rows, key=lambda row: tuple(sorted(row.types))):
        types = sorted(row.types) if name == "PairIJ Coeffs" else row.types[:1]
        words = [*map(str, types), *_substyle(potential, row), *row.words]
        if any("#" in word or not word or any(c.isspace() for c in word) for word in words):
            report.dropped(name, f"{' '.join(words)}: a data file cannot state such a word")
            return None
        text = " ".join(words)
        lines.append(f"{text} # {row.comment}" if row.comment else text)
    return CoefficientSection(name, _hint(potential, category) if not part else "", lines)


def _hint(potential: Potential, category: str) -> str:
    if category in potential.hybrid:
        return potential.hybrid[category]
    styles = potential.styles.get(category, [])
    return styles[0].name if len(styles) == 1 else ""


def _substyle(potential: Potential, row: Coefficient) -> list[str]:
    if not row.style:
        return []
    if row.category not in potential.hybrid:
        return []
    return [row.style, str(row.index)] if row.index else [row.style]


def _style_words(potential: Potential, category: str, styles: Sequence[PotentialStyle]) -> Iterator[str]:
    hybrid = potential.hybrid.get(category)
    if hybrid is None:
        if len(styles) > 1:
            raise UnsupportedError(
                f"{category} styles {', '.join(style.name for style in styles)}: LAMMPS combines several in a hybrid "
                "only, and the force field names none"
            )
        yield from (styles[0].name, *styles[0].args)
        return
    yield hybrid
    scales = potential.scales if category == "pair" and hybrid.startswith("hybrid/scaled") else []
    for number, style in enumerate(styles):
        if number < len(scales):
            yield scales[number]
        yield from (style.name, *style.args)


def _command(name: str, *words: str) -> str:
    return " ".join([name, *map(_quoted, words)])


def _quoted(word: str) -> str:
    if "$" in word or "\n" in word:
        raise UnsupportedError(f"the word {word!r} cannot stand in an input script of LAMMPS: it would be replaced")
    return quoted(word)


def _report_unsaid(potential: Potential, report: Report) -> None:
    """What a data file has no place for."""
    way = "a data file has no place for it; --to lammps-settings or lammps-run writes it"
    for category in CATEGORIES:
        arguments = [style for style in potential.styles.get(category, []) if style.args]
        if arguments:
            words = "; ".join(" ".join((style.name, *style.args)) for style in arguments)
            report.dropped(f"{category}_style arguments", f"{words}: {way}")
        styles = potential.styles.get(category, [])
        if any(style.stated for style in styles) and not any(c.category == category for c in potential.coefficients):
            report.dropped(f"{category}_style {styles[0].name}", f"has no coefficients, and {way}")
    if potential.pair_modify:
        report.dropped("pair_modify", f"{'; '.join(map(' '.join, potential.pair_modify))}: {way}")
    for name, said in (("special_bonds", potential.special_bonds), ("kspace_style", potential.kspace)):
        if said is not None:
            report.dropped(name, f"{' '.join(said)}: {way}")
    if potential.kspace_modify:
        report.dropped("kspace_modify", f"{'; '.join(map(' '.join, potential.kspace_modify))}: {way}")
    if potential.dielectric is not None:
        report.dropped("dielectric", f"{potential.dielectric}: {way}")
    if potential.cmap:
        report.dropped("fix cmap", f"{', '.join(potential.cmap)}: {way}")
