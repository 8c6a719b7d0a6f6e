"""The force field a data file states: its sections of coefficients, masses, types and labels as a `Potential`.

The comment after the name of a section (`Pair Coeffs # lj/cut`) names the style, without its arguments; below `hybrid`
each row begins with its own. Where a file has no such comment the style is open, unless the first word of every row
is a style or a section of cross terms belongs to one style alone. Source: the manual, "read_data", "pair_coeff",
"bond_coeff" and their kin, checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from molrec_convert.errors import FormatError
from molrec_convert.report import Report
from molrec_lammps.data.file import DataFile
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.data.sections import RawSection
from molrec_lammps.potential.potential import CATEGORIES, HYBRID, Coefficient, Potential, PotentialStyle
from molrec_lammps.potential.style_table import bare_style, find_style, is_style

__all__ = ["check_comments", "names_style", "potential_of_data"]


@dataclass(frozen=True)
class _Part:
    """What a section states: the category, the word of a cross term, the one style that has it ("" for several)."""

    category: str
    part: str = ""
    style: str = ""


_SECTIONS: dict[str, _Part] = {
    **{f"{category.capitalize()} Coeffs": _Part(category) for category in CATEGORIES},
    "PairIJ Coeffs": _Part("pair"),
    "BondBond Coeffs": _Part("angle", "bb", "class2"),
    "BondAngle Coeffs": _Part("angle", "ba"),
    "UreyBradley Coeffs": _Part("angle", "ub", "amoeba"),
    "MiddleBondTorsion Coeffs": _Part("dihedral", "mbt", "class2"),
    "EndBondTorsion Coeffs": _Part("dihedral", "ebt", "class2"),
    "AngleTorsion Coeffs": _Part("dihedral", "at", "class2"),
    "AngleAngleTorsion Coeffs": _Part("dihedral", "aat", "class2"),
    "BondBond13 Coeffs": _Part("dihedral", "bb13", "class2"),
    "AngleAngle Coeffs": _Part("improper", "aa", "class2"),
}


def potential_of_data(data: DataFile) -> Potential:
    """Return what the file states of the force field, words as they stand in it.

    Styles named by comments have `stated=False`. Refused with file and line: a row without its types, a type outside
    the counts, a pair with its types in falling order, a row of a hybrid without its style.
    """
    found = Potential(units=data.units)
    counts = data.header.counts
    found.type_counts = {kind: counts[f"{kind} types"] for kind in TYPE_KINDS if f"{kind} types" in counts}
    found.labels = {kind: list(labels) for kind, labels in data.labels.items()}
    found.masses = _masses(data)
    for category in CATEGORIES:
        sections = [section for section in data.coefficients if _SECTIONS[section.name].category == category]
        if sections:
            _add_category(found, data, category, sections)
    return found


def _masses(data: DataFile) -> dict[int, str]:
    if data.masses is None or data.masses_text is None:
        return {}
    words = [line.split()[1] for line in data.masses_text.lines()]
    return dict(zip(data.masses["type"].tolist(), words, strict=True))


def _add_category(found: Potential, data: DataFile, category: str, sections: Sequence[RawSection]) -> None:
    rows = [(section, row) for section in sections for row in _rows(data, section)]
    main = [row for section, row in rows if not _SECTIONS[section.name].part]
    hint = _hint(sections)
    kind = hint if hint in HYBRID else ""
    if not kind and not hint and _all_name_styles(category, main):
        kind = "hybrid"
    if not kind:
        only = {_SECTIONS[section.name].style for section in sections} - {""}
        name = hint or (only.pop() if len(only) == 1 else "")
        if name:
            found.styles[category] = [PotentialStyle(name, where=_where(data, sections[0]), stated=False)]
        found.coefficients.extend(row for _, row in rows)
        return
    found.hybrid[category] = kind
    several = _numbered(main)
    for section, row in rows:
        own = _of_hybrid(data, section, row, several)
        if own is None:
            continue
        found.coefficients.append(own)
        styles = found.styles.setdefault(category, [])
        if own.style != "none" and not any((style.name, style.index) == (own.style, own.index) for style in styles):
            styles.append(PotentialStyle(own.style, index=own.index, where=own.where, stated=False))


def _all_name_styles(category: str, rows: Sequence[Coefficient]) -> bool:
    """True if every row begins with a style, or with `none` beside others."""
    first = {row.words[0] if row.words else "" for row in rows}
    return bool(first - {"none"}) and all(is_style(category, word) for word in first - {"none"})


def _hint(sections: Sequence[RawSection]) -> str:
    """Return the style that the comment after a section's name gives, without a suffix of an accelerator; "" for
    none.
    """
    for section in sections:
        if section.hint and names_style(section.name, section.hint) and not _SECTIONS[section.name].part:
            return bare_style(section.hint.split()[0])
    return ""


def check_comments(data: DataFile, report: Report) -> None:
    """Warn of comments behind sections of coefficients that name no style: LAMMPS warns of them too."""
    for section in data.coefficients:
        part = _SECTIONS[section.name]
        if section.hint and not part.part and not names_style(section.name, section.hint):
            report.warn(
                f"{data.path}, line {section.line - 2}: {section.name} # {section.hint} does not name a "
                f"{part.category} style of LAMMPS"
            )


def names_style(section: str, comment: str) -> bool:
    """True if the comment behind the name of a section begins with a style of its category."""
    part, words = _SECTIONS.get(section), comment.split()
    if part is None or not words:
        return False
    name = bare_style(words[0])
    return name in HYBRID or is_style(part.category, name)


def _where(data: DataFile, section: RawSection) -> str:
    return f"{data.path}, line {section.line}"


def _rows(data: DataFile, section: RawSection) -> Iterator[Coefficient]:
    """Yield the rows of a section, sub-styles of hybrids still among the words; `#` begins a comment wherever it
    stands.
    """
    part = _SECTIONS[section.name]
    two = section.name == "PairIJ Coeffs"
    kind = "atom" if part.category == "pair" else part.category
    count = data.header.count(f"{kind} types")
    for number, line in enumerate(section.lines()):
        where = f"line {section.line + number}"
        text, _, comment = line.partition("#")
        words = text.split()
        types, rest = words[: 1 + two], words[1 + two :]
        if len(types) < 1 + two or not all(_is_integer(word) for word in types):
            wanted = "two type numbers" if two else "a type number"
            raise FormatError(
                data.path,
                where,
                found=repr(" ".join(words)) if words else "a comment line" if line.strip() else "a blank line",
                expected=f"{wanted} and coefficients, row {number + 1} of {section.rows} of {section.name}",
                hint="LAMMPS takes no labels here" if types and types[0] in data.labels.get(kind, ()) else None,
            )
        numbers = tuple(int(word) for word in types)
        if not all(1 <= value <= count for value in numbers) or list(numbers) != sorted(numbers):
            raise FormatError(
                data.path,
                where,
                found=f"{'types' if two else 'type'} {' '.join(types)} in {section.name}",
                expected=f"{'two types, the lower first, ' if two else 'a type '}from 1 to {count}",
            )
        yield Coefficient(
            part.category,
            numbers * 2 if section.name == "Pair Coeffs" else numbers,
            tuple(rest),
            part=part.part,
            where=f"{data.path}, {where}",
            comment=comment.strip(),
        )


def _is_integer(word: str) -> bool:
    return word.lstrip("+-").isdecimal() and len(word) - len(word.lstrip("+-")) < 2


def _numbered(rows: Sequence[Coefficient]) -> frozenset[str]:
    """Return pair styles that the hybrid has more than once, so that a number follows their name.

    A number may be a coefficient too: it is that unless the words fit the style without it only.
    """
    by_style: dict[str, list[Coefficient]] = {}
    for row in rows:
        if row.category == "pair" and row.words:
            by_style.setdefault(row.words[0], []).append(row)
    return frozenset(name for name, own in by_style.items() if _has_numbers(name, own))


def _has_numbers(name: str, rows: Sequence[Coefficient]) -> bool:
    style = find_style("pair", name)
    if style is None or not all(len(row.words) > 1 and row.words[1].isdecimal() for row in rows):
        return False
    return all(style.read(row.words[2:]) is not None for row in rows) and any(
        style.read(row.words[1:]) is None for row in rows
    )


def _of_hybrid(data: DataFile, section: RawSection, row: Coefficient, several: frozenset[str]) -> Coefficient | None:
    """Return a row with its sub-style taken from its words; None for `skip`, which a cross term has for other
    styles.
    """
    name = row.words[0] if row.words else ""
    if row.part and name == "skip":
        return None
    bare = bare_style(name)
    if not is_style(row.category, bare) and bare != "none":
        raise FormatError(
            data.path,
            row.where.rpartition(", ")[2],
            found=repr(" ".join(row.words)),
            expected=f"the {row.category} style before the coefficients, as {section.name} of a hybrid have it",
        )
    indexed = name in several
    return Coefficient(
        row.category,
        row.types,
        row.words[1 + indexed :],
        bare,
        int(row.words[1]) if indexed else 0,
        row.part,
        row.where,
        row.comment,
    )
