"""Coefficients as LAMMPS reads them: sections of a data file, and commands of a script, from a `Potential`.

Words are written as they stand in it. A data file has a section only where every type has a row, sets no arguments of
styles and no mixing; a script says everything. Source: the manual, "read_data", "pair_coeff", "special_bonds".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from molrec_convert.errors import UnsupportedError
from molrec_convert.report import Report
from molrec_lammps.potential.potential import CATEGORIES, Coefficient, Potential, PotentialStyle
from molrec_lammps.script.lines import quoted

__all__ = ["PARTS", "CoefficientSection", "coefficient_commands", "coefficient_sections", "style_commands"]

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
    """The sections of a data file, in LAMMPS' order; what a data file cannot say is reported as dropped.

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
    """The commands that set styles and what goes with them, without coefficients."""
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
    """The commands that set coefficients, in the order of their last statements.

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
    """Rows of pairs, those that hold for all pairs as one, at the place of the last of them."""
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
