"""Where the sections of a data file are: found by their headings and the counts of the header, rows unread.

A section is its name on a line, one line that LAMMPS throws away unread, and exactly as many lines as the header
counts. Between sections stand blank and comment lines. Source: the manual, "read_data", checked against the 22 Jul
2025 release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.text.rows import count_lines, line_ends
from molrec_convert.text.texts import Texts
from molrec_lammps.common.text import Buffer, Cursor, brief, decode, lines_of, split_comment
from molrec_lammps.data.header import TYPE_KINDS, Header

__all__ = [
    "COEFFICIENTS",
    "RELATIONS",
    "SHAPES",
    "RawSection",
    "Relation",
    "Section",
    "Shape",
    "label_comments",
    "locate_sections",
    "raw_section",
    "read_labels",
]

#: Bytes of text read at once, and of a line that is not looked behind.
PIECE_BYTES = 1 << 20
_LONG_LINE = 160


@dataclass(frozen=True)
class Relation:
    """A section of relations between atoms: its header count, what numbers its types, how many atoms a row names."""

    block: str
    count: str
    kind: str
    atoms: int


#: Sections whose rows relate atoms, by name. CMAP is the name that every known input gives the section of `fix cmap`.
RELATIONS: dict[str, Relation] = {
    "Bonds": Relation("bonds", "bonds", "bond", 2),
    "Angles": Relation("angles", "angles", "angle", 3),
    "Dihedrals": Relation("dihedrals", "dihedrals", "dihedral", 4),
    "Impropers": Relation("impropers", "impropers", "improper", 4),
    "CMAP": Relation("cmaps", "crossterms", "crossterm", 5),
    "BiTorsions": Relation("bitorsions", "bitorsions", "bitorsion", 5),
    "PiTorsions": Relation("pitorsions", "pitorsions", "pitorsion", 6),
}


@dataclass(frozen=True)
class Shape:
    """A section of shapes of atoms: its header count, the atom style it is of, that style's flag, its columns.

    The columns are named as `compute property/atom` names them; a body's integers and numbers have a length of their
    own, so that `Bodies` has none.
    """

    count: str
    style: str
    flag: str
    columns: tuple[str, ...] = ()


#: Sections of shapes by name.
SHAPES: dict[str, Shape] = {
    "Ellipsoids": Shape(
        "ellipsoids",
        "ellipsoid",
        "ellipsoidflag",
        ("shapex", "shapey", "shapez", "quatw", "quati", "quatj", "quatk"),
    ),
    "Lines": Shape("lines", "line", "lineflag", ("end1x", "end1y", "end2x", "end2y")),
    "Triangles": Shape(
        "triangles", "tri", "triflag", tuple(f"corner{corner}{axis}" for corner in "123" for axis in "xyz")
    ),
    "Bodies": Shape("bodies", "body", "bodyflag"),
}

#: Sections of force-field coefficients and the header count of their rows.
COEFFICIENTS: dict[str, str] = {
    "Pair Coeffs": "atom types",
    "Bond Coeffs": "bond types",
    "Angle Coeffs": "angle types",
    "Dihedral Coeffs": "dihedral types",
    "Improper Coeffs": "improper types",
    **dict.fromkeys(("BondBond Coeffs", "BondAngle Coeffs", "UreyBradley Coeffs"), "angle types"),
    **dict.fromkeys(
        (
            "MiddleBondTorsion Coeffs",
            "EndBondTorsion Coeffs",
            "AngleTorsion Coeffs",
            "AngleAngleTorsion Coeffs",
            "BondBond13 Coeffs",
        ),
        "dihedral types",
    ),
    "AngleAngle Coeffs": "improper types",
}

_COUNTED: dict[str, str] = {
    "Atoms": "atoms",
    "Velocities": "atoms",
    "Masses": "atom types",
    **{f"{kind.capitalize()} Type Labels": f"{kind} types" for kind in TYPE_KINDS},
    **{name: relation.count for name, relation in RELATIONS.items()},
    **{name: shape.count for name, shape in SHAPES.items() if shape.columns},
    **COEFFICIENTS,
    "PiTorsion Coeffs": "pitorsion types",
}
_KNOWN = (*_COUNTED, "Bodies", "PairIJ Coeffs")
_LOWER = {name.casefold(): name for name in _KNOWN}
#: Names fixes give their sections: a capital, letters, digits and blanks.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_/-]*(?: [A-Za-z][A-Za-z0-9_/-]*)*")


@dataclass(frozen=True)
class Section:
    """One section: its name, the comment after it, its first row's line number, and the bytes of its rows.

    `counted` is the header keyword that counts its rows, None for a section whose rows the header does not count.
    `skipped` is the line after the heading, which LAMMPS does not read, where it holds more than a comment. `spans`
    int64[n, 3] are begin, end and number of rows of each part that is read at once, None where rows are not counted.
    """

    name: str
    hint: str | None
    line: int
    start: int
    stop: int
    rows: int
    counted: str | None = None
    skipped: str = ""
    spans: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)

    def text(self, data: Buffer) -> bytes:
        """Return the rows as they stand in the file."""
        return data[self.start : self.stop]


def locate_sections(
    path: str, data: Buffer, header: Header, cursor: Cursor, beyond: list[tuple[int, str]] | None = None
) -> list[Section]:
    """Return the sections from the cursor on, in the order of the file.

    `beyond` takes rows, and their lines, that stand behind those of Atoms; without it they are refused as by LAMMPS.

    Refused: a section twice, rows beyond the count, an end of file before it, lines that are neither, and a section out
    of the order LAMMPS asks for.
    """
    sections: list[Section] = []
    by_name: dict[str, Section] = {}
    while (heading := _next_heading(path, header, cursor, sections, beyond)) is not None:
        name, hint, line = heading
        if name in by_name:
            raise FormatError(
                path,
                f"line {line}",
                found=f"a second section {name}",
                expected=f"one, whose rows begin at line {by_name[name].line}",
            )
        _check_order(path, header, name, line, by_name)
        cursor.advance()
        left, _, comment = cursor.peek().partition(b"#")
        skipped = left.strip()
        if comment.strip():
            header.comments.append(decode(comment).strip())
        cursor.advance()
        section = _extent(path, data, header, cursor, name, hint, decode(skipped))
        if section.counted is None and not section.rows:
            raise FormatError(path, f"line {line}", found=repr(name), expected="the name of a section, and its rows")
        by_name[name] = section
        sections.append(section)
        cursor.position, cursor.line = section.stop, section.line + section.rows
    needed = {n: r.count for n, r in RELATIONS.items()} | {n: s.count for n, s in SHAPES.items()}
    for name, keyword in {"Atoms": "atoms", **needed}.items():
        if header.count(keyword) and name not in by_name:
            raise FormatError(
                path,
                f"line {header.lines[keyword]}",
                found=f"{header.count(keyword)} {keyword}, and no section {name} in the file",
                expected=f"a section {name}",
            )
    return sections


def _check_order(path: str, header: Header, name: str, line: int, before: Mapping[str, Section]) -> None:
    """Refuse a section that LAMMPS wants elsewhere or not at all."""
    kind = name.removesuffix(" Type Labels").lower() if name.endswith(" Type Labels") else ""
    if kind in TYPE_KINDS:
        own = "Atoms" if kind == "atom" else next(n for n, relation in RELATIONS.items() if relation.kind == kind)
        typed = next((n for n in before if n in ("Masses", "PairIJ Coeffs", own) or n in COEFFICIENTS), None)
        if typed is not None:
            raise FormatError(
                path,
                f"line {line}",
                found=f"{name} after {typed}",
                expected="labels before every section that has types",
            )
    if "Atoms" not in before and (name == "Velocities" or name in RELATIONS or name in SHAPES):
        raise FormatError(
            path, f"line {line}", found=f"{name} before Atoms", expected=f"the section Atoms before {name}"
        )
    if name in RELATIONS and header.counts.get(RELATIONS[name].count) == 0:
        raise FormatError(
            path,
            f"line {line}",
            found=f"a section {name}",
            expected=f"none: line {header.lines[RELATIONS[name].count]} counts no {RELATIONS[name].count}",
        )
    if name == "UreyBradley Coeffs" and not before:
        raise FormatError(
            path, f"line {line}", found=f"{name} as the first section", expected="another section before it, for LAMMPS"
        )
    if name not in _KNOWN and (near := get_close_matches(name, _KNOWN, 1, 0.8)):
        raise FormatError(path, f"line {line}", found=f"a section {name!r}", expected=repr(near[0]))


def _next_heading(
    path: str, header: Header, cursor: Cursor, sections: list[Section], beyond: list[tuple[int, str]] | None
) -> tuple[str, str | None, int] | None:
    for raw in cursor.lines():
        text, mark, comment = raw.partition(b"#")
        words = decode(b" ".join(text.split()))
        if not words:
            if comment.strip():
                header.comments.append(decode(comment).strip())
            continue
        expected = "the name of a section"
        if words.casefold() in _LOWER and words != _LOWER[words.casefold()]:
            expected = repr(_LOWER[words.casefold()])
        elif _NAME.fullmatch(words):
            return words, decode(comment).strip() if mark else None, cursor.line
        elif beyond is not None and sections and sections[-1].name == "Atoms":
            beyond.append((cursor.line, words))
            continue
        elif sections:
            last = sections[-1]
            _refuse_blank_row(path, header, cursor.data, last)
            expected = f"{expected} after the {last.rows} rows of {last.name}" + _counted_at(header, last.counted)
        raise FormatError(path, f"line {cursor.line}", found=brief(raw), expected=expected)
    return None


def _refuse_blank_row(path: str, header: Header, data: Buffer, section: Section) -> None:
    """Rows beyond a section may be there because a line within it is none: that is the fault to name."""
    for row, line in enumerate(lines_of(section.text(data))):
        if not line.partition(b"#")[0].strip():
            raise FormatError(
                path,
                f"line {section.line + row}",
                found="a comment line" if line.strip() else "a blank line",
                expected=f"row {row + 1} of the {section.rows} rows of {section.name}"
                f"{_counted_at(header, section.counted)}: LAMMPS counts every line",
            )


def _counted_at(header: Header, keyword: str | None) -> str:
    return f" that line {header.lines[keyword]} counts" if keyword in header.lines else ""


def _extent(
    path: str, data: Buffer, header: Header, cursor: Cursor, name: str, hint: str | None, skipped: str
) -> Section:
    keyword = {"PairIJ Coeffs": "atom types", "Bodies": "bodies"}.get(name) or _COUNTED.get(name)
    if keyword is None:
        return _uncounted(data, cursor, name, hint, skipped)
    if keyword not in header.counts:
        raise FormatError(
            path,
            f"line {cursor.line - 2}",
            found=f"a section {name}",
            expected=f"a header line '... {keyword}' before it",
            hint="line 1 is a title, which is not read",
        )
    if name == "Bodies":
        return _uncounted(data, cursor, name, hint, skipped)
    rows = header.counts[keyword]
    if name == "PairIJ Coeffs":
        rows = rows * (rows + 1) // 2
    spans, complete = _row_spans(data, cursor.position, rows)
    if not complete:
        _refuse_short(path, header, cursor, name, keyword, rows)
    stop = int(spans[-1, 1]) if rows else cursor.position
    return Section(name, hint, cursor.line, cursor.position, stop, rows, keyword, skipped, spans)


def _row_spans(data: Buffer, start: int, rows: int) -> tuple[NDArray[np.int64], bool]:
    """Return the spans int64[n, 3] of `rows` lines from `start` on, and whether there are so many."""
    text, found = Texts(data), []
    while rows and start < text.size:
        stop = data.find(b"\n", min(start + min(PIECE_BYTES, rows * _LONG_LINE), text.size)) + 1 or text.size
        span = count_lines(text, np.array([[start, stop]]))
        if span[0, 2] > rows:
            span[0, 1:] = line_ends(text, start, stop)[rows - 1] + 1, rows
        found.append(span)
        start, rows = int(span[0, 1]), rows - int(span[0, 2])
    return np.concatenate([np.empty((0, 3), np.int64), *found]), not rows


def _refuse_short(path: str, header: Header, cursor: Cursor, name: str, keyword: str, rows: int) -> None:
    """The file ends before the section does: name the first line that cannot be a row, else the end of the file."""
    expected = f"{rows} rows of {name}{_counted_at(header, keyword)}"
    first = cursor.line
    for raw in cursor.lines():
        if not raw.strip():
            found = "a blank line"
        elif decode(b" ".join(raw.partition(b"#")[0].split())) in _COUNTED:
            found = f"the section {brief(raw)}"
        else:
            continue
        raise FormatError(
            path, f"line {cursor.line}", found=f"{found} after {cursor.line - first} rows", expected=expected
        )
    raise FormatError(
        path, f"line {cursor.line}", found=f"the end of the file after {cursor.line - first} rows", expected=expected
    )


def _uncounted(data: Buffer, cursor: Cursor, name: str, hint: str | None, skipped: str) -> Section:
    """Return a section of some fix, or of bodies: its rows reach to the next blank line, heading, or end of the
    file.
    """
    start, first = cursor.position, cursor.line
    for raw in cursor.lines():
        text = raw.partition(b"#")[0].strip()
        if not raw.strip() or (text[:1].isalpha() and _NAME.fullmatch(decode(b" ".join(text.split())))):
            break
    return Section(name, hint, first, start, cursor.position, cursor.line - first, None, skipped)


@dataclass(frozen=True)
class RawSection:
    """A section kept as text: its name, the comment after the name, the line of its first row, its rows."""

    name: str
    hint: str | None
    line: int
    rows: int
    text: str

    def lines(self) -> list[str]:
        """Return the rows, without the ends of their lines."""
        return [line.rstrip("\r") for line in self.text.removesuffix("\n").split("\n")]


def read_labels(path: str, data: Buffer, section: Section | None) -> tuple[bytes, ...]:
    """Return the labels of types 1, 2, … Every type must have one, and no two the same."""
    if section is None:
        return ()
    labels: dict[int, bytes] = {}
    for row, line in enumerate(lines_of(section.text(data))):
        where = f"line {section.line + row}"
        words = split_comment(line)[0].split()
        expected = f"a type from 1 to {section.rows} and its label"
        if len(words) != 2 or not words[0].isdigit() or not 1 <= int(words[0]) <= section.rows:
            raise FormatError(path, where, found=brief(line) if line.strip() else "a blank line", expected=expected)
        if words[1][:1].isdigit() or words[1][:1] in (b"*", b"#"):
            raise FormatError(
                path, where, found=f"the label {brief(words[1])}", expected="one that begins with no digit, * or #"
            )
        if int(words[0]) in labels or words[1] in labels.values():
            raise FormatError(
                path, where, found=brief(line), expected=f"each type and each label once in {section.name}"
            )
        labels[int(words[0])] = words[1]
    return tuple(labels[number] for number in sorted(labels))


def label_comments(data: Buffer, section: Section | None) -> list[str]:
    """Return the comments behind the labels of types 1, 2, …, `""` for none; empty where no label has one."""
    if section is None:
        return []
    rows = [split_comment(line) for line in lines_of(section.text(data))]
    said = {int(text.split()[0]): decode(comment or b"").strip() for text, comment in rows}
    return [said[number] for number in sorted(said)] if any(said.values()) else []


def raw_section(data: Buffer, section: Section) -> RawSection:
    """Return the text of a section."""
    return RawSection(section.name, section.hint, section.line, section.rows, decode(section.text(data)))
