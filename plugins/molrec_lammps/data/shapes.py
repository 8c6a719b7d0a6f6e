"""Atom styles told from rows, and shapes of atoms: Ellipsoids, Lines, Triangles and Bodies.

The first three are rows of numbers, one for each atom whose row in Atoms has the style's flag. A body is a line of its
atom's id and two counts, then so many integers and so many numbers over as many lines as it likes, integers and numbers
on lines of their own. Source: the manual, "read_data", checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UsageError
from molrec_convert.text.texts import Texts
from molrec_lammps.common.atom_styles import (
    ATOM_STYLES,
    IMAGE_COLUMNS,
    PLAIN_STYLES,
    AtomStyle,
    Column,
    Kind,
    style_named,
    style_words,
)
from molrec_lammps.common.text import INTEGER, Buffer, Cursor, brief, decode, lines_of, split_comment
from molrec_lammps.data.header import Header
from molrec_lammps.data.rows import DTYPES, AtomIndex, BadRow, check_types, read_columns, read_words
from molrec_lammps.data.sections import SHAPES, Section

__all__ = [
    "Bodies",
    "StyleChoice",
    "check_flags",
    "check_shape_numbers",
    "check_shapes",
    "choose_layout",
    "read_bodies",
]

#: How far from its atom the centre of a line or triangle may be, in parts of its extent.
_CENTRED = 1e-3


@dataclass
class Bodies:
    """The bodies of a file, in its order: `ids` int64[n] of their atoms; `integers` int64 and `numbers` f64 of all
    bodies end to end, bounded by `integer_offset` and `number_offset` int64[n+1]; `lines` int64[n] where each begins.
    `comments` are those behind their lines.
    """

    ids: NDArray[np.int64]
    integers: NDArray[np.int64]
    integer_offset: NDArray[np.int64]
    numbers: NDArray[np.float64]
    number_offset: NDArray[np.int64]
    lines: NDArray[np.int64]
    comments: list[str] = field(default_factory=list)

    def sorted(self, order: NDArray[np.int64]) -> Bodies:
        """Return the bodies in another order."""
        ints, floats = np.diff(self.integer_offset), np.diff(self.number_offset)
        return Bodies(
            self.ids[order],
            self.integers[_picked(self.integer_offset, order)],
            _offsets(ints[order]),
            self.numbers[_picked(self.number_offset, order)],
            _offsets(floats[order]),
            self.lines[order],
            self.comments,
        )


def read_bodies(path: str, data: Buffer, section: Section, count: int) -> Bodies:
    """Return the bodies of a section of `count`. Refused: lines that are no body, values that do not fill their
    lines.
    """
    parts = [split_comment(line) for line in lines_of(section.text(data))]
    lines = [text.split() for text, _ in parts]
    sizes = np.array([len(words) for words in lines], dtype=np.int64)
    ends = np.cumsum(sizes)
    heads: list[tuple[int, int, int, int]] = []
    integers: list[tuple[int, int]] = []
    numbers: list[tuple[int, int]] = []
    row = 0
    for body in range(count):
        head = lines[row] if row < len(lines) else []
        where = f"line {section.line + row}"
        if len(head) != 3 or not all(INTEGER.fullmatch(word) for word in head) or min(map(int, head[1:])) < 0:
            raise FormatError(
                path,
                where,
                found=brief(b" ".join(head)) if head else "a blank line" if row < len(lines) else "the end of Bodies",
                expected=f"an atom id and how many integers and numbers follow, body {body + 1} of {count}",
            )
        heads.append((int(head[0]), int(head[1]), int(head[2]), section.line + row))
        first, row = row + 1, row + 1
        for wanted, rows in ((int(head[1]), integers), (int(head[2]), numbers)):
            stop = _rows_of(ends, row, wanted)
            if stop is None or bool((sizes[row:stop] == 0).any()):
                raise FormatError(
                    path,
                    f"line {section.line + min(row, len(lines) - 1)}",
                    found="lines that hold more or fewer values",
                    expected=f"{wanted} {'integers' if rows is integers else 'numbers'} on lines of their own for the "
                    f"body that line {section.line + first - 1} begins",
                )
            rows.append((row, stop))
            row = stop
    if row < len(lines) and any(lines[row:]):
        left = next(n for n in range(row, len(lines)) if lines[n])
        raise FormatError(
            path,
            f"line {section.line + left}",
            found=brief(b" ".join(lines[left])),
            expected=f"the name of a section after the {count} bodies",
        )
    table = np.array(heads, dtype=np.int64).reshape(count, 4)
    return Bodies(
        table[:, 0],
        _values(path, section, lines, integers, "int"),
        _offsets(table[:, 1]),
        _values(path, section, lines, numbers, "float"),
        _offsets(table[:, 2]),
        table[:, 3],
        [decode(comment).strip() for _, comment in parts if comment and comment.strip()],
    )


def _rows_of(ends: NDArray[np.int64], row: int, wanted: int) -> int | None:
    """Return the line behind those from `row` on that hold `wanted` words exactly; None when no number of lines
    does.
    """
    if not wanted:
        return row
    target = wanted + (int(ends[row - 1]) if row else 0)
    last = int(np.searchsorted(ends, target))
    return last + 1 if last < len(ends) and int(ends[last]) == target else None


def _values(
    path: str, section: Section, lines: list[list[bytes]], runs: list[tuple[int, int]], kind: Kind
) -> NDArray[Any]:
    words = [word for first, stop in runs for row in range(first, stop) for word in lines[row]]
    if not words:
        return np.empty(0, DTYPES[kind])
    try:
        return read_words(words, kind)
    except BadRow as bad:
        row = [row for first, stop in runs for row in range(first, stop) for _ in lines[row]][bad.row]
        expected = "an integer of 64 bits" if kind == "int" else "a finite number"
        raise FormatError(
            path, f"line {section.line + row}", found=bad.found, expected=f"{expected} of a body"
        ) from None


def _offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _picked(offset: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return positions of the values of bodies in `order`."""
    sizes = np.diff(offset)[order]
    starts = np.repeat(offset[:-1][order] - _offsets(sizes)[:-1], sizes)
    picked: NDArray[np.int64] = starts + np.arange(len(starts))
    return picked


def check_shapes(
    path: str,
    name: str,
    ids: NDArray[np.int64],
    lines: NDArray[np.int64],
    flags: NDArray[np.int64],
    index: AtomIndex,
    first: int,
) -> NDArray[np.int64]:
    """Return rows (in order of ids) of the atoms that shapes are of.

    `lines` are the lines of the shapes, `flags` the flag of each atom in order of ids, `first` the first line of Atoms.
    Refused: an unknown atom, one twice, one without the flag, a flag without a shape.
    """
    rows, absent = index.rows(ids)
    if absent is not None:
        row = int(np.argmax(absent))
        raise FormatError(
            path, f"line {lines[row]}", found=f"the id {ids[row]} in {name}", expected="the id of an atom"
        )
    counted = np.bincount(rows, minlength=len(index.ids))
    if int(counted.max(initial=0)) > 1:
        row = next(row for row in range(len(rows)) if rows[row] in rows[:row])
        raise FormatError(
            path, f"line {lines[row]}", found=f"a second row of {name} for the atom {ids[row]}", expected="one"
        )
    flag = SHAPES[name].flag
    if not bool((flags[rows] == 1).all()):
        row = int(np.argmax(flags[rows] != 1))
        raise FormatError(
            path,
            f"line {lines[row]}",
            found=f"a row of {name} for the atom {ids[row]}",
            expected=f"none: its {flag} in Atoms is {flags[rows[row]]}",
        )
    bare = (flags == 1) & (counted == 0)
    if bare.any():
        row = int(np.argmax(bare))
        place = row if index.order is None else int(index.order[row])
        raise FormatError(
            path,
            f"line {first + place}",
            found=f"the {flag} 1 of the atom {index.ids[row]}",
            expected=f"a row of {name} for it, or the flag 0",
        )
    return rows


def check_flags(path: str, name: str, flags: NDArray[np.int64], line: int) -> None:
    """Refuse flags in Atoms, in the order of the file, that are neither 0 nor 1."""
    wrong = (flags != 0) & (flags != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FormatError(path, f"line {line + row}", found=f"the {SHAPES[name].flag} {flags[row]}", expected="0 or 1")


def check_shape_numbers(
    path: str,
    name: str,
    columns: Mapping[str, NDArray[Any]],
    atoms: Mapping[str, NDArray[Any]],
    ids: NDArray[np.int64],
    lines: NDArray[np.int64],
) -> None:
    """Refuse ellipsoids without extent, and lines and triangles that have their atom elsewhere than in their centre.

    `atoms` are the columns of Atoms, `ids` int64[n] the atoms that the n shapes are of.
    """
    values = np.stack([columns[column] for column in SHAPES[name].columns], axis=1)
    if name == "Ellipsoids":
        wrong = ~(values[:, :3] > 0).all(axis=1)
        found, expected = "an ellipsoid of {}, {} and {}", "diameters above zero"
    else:
        axes = 2 if name == "Lines" else 3
        corners = values.reshape(len(values), -1, axes)
        order = np.argsort(atoms["id"], kind="stable")
        rows = order[np.searchsorted(atoms["id"], ids, sorter=order)]
        places = np.stack([atoms[axis][rows] for axis in "xyz"[:axes]], axis=1)
        sizes = np.linalg.norm(corners[:, 1:] - corners[:, :1], axis=2).max(axis=1)
        wrong = ~(np.linalg.norm(corners.mean(axis=1) - places, axis=1) <= _CENTRED * sizes)
        found = f"{'a line' if axes == 2 else 'a triangle'} from {{}}, {{}}{'' if axes == 2 else ', {}'}"
        expected = "one whose centre is its atom, and of some extent"
    if wrong.any():
        row = int(np.argmax(wrong))
        numbers = [f"{number:g}" for number in values[row, : found.count("{}")]]
        raise FormatError(path, f"line {lines[row]}", found=found.format(*numbers), expected=expected)


#: Styles that are not looked for but may be meant, where their columns fit.
_RIVALS = tuple(style for style in ATOM_STYLES.values() if style.positive() and not style.bonus)
_TOPOLOGY = {"bonds": "Bonds", "angles": "Angles", "dihedrals": "Dihedrals", "impropers": "Impropers"}


@dataclass(frozen=True)
class StyleChoice:
    """The style of a file, the columns of its Atoms rows, where the style comes from, and what the user should know.

    `stated` is false where the style is the only one that fits.
    """

    style: AtomStyle | None
    columns: tuple[Column, ...]
    source: str
    stated: bool = True
    remarks: list[str] = field(default_factory=list)

    @property
    def doubt(self) -> str | None:
        """What an error in a row should remind of."""
        if self.stated or self.style is None:
            return None
        return (
            f"the file does not name its atom style, {self.style.name} is found by {self.source}; --atom-style names it"
        )


def choose_layout(
    path: str,
    data: Buffer,
    header: Header,
    section: Section | None,
    atom_style: str | None,
    labels: Mapping[bytes, int],
    stated_by: str = "--atom-style",
    *,
    velocities: Section | None = None,
) -> StyleChoice:
    """Return the style of the file and the columns of its rows; no style and no columns for a file without atoms."""
    remarks: list[str] = []
    stated = True
    hint = style_words(section.hint if section else None)
    if atom_style is not None:
        style, source = style_named(atom_style, stated_by), stated_by
        if hint is not None and hint.split()[0] != style.name.split()[0]:
            remarks.append(f"{path}: the file says 'Atoms # {hint}'; its rows are read as atom style {style.name}")
    elif section is None:
        return StyleChoice(None, (), "")
    elif hint is not None:
        style = style_named(hint, f"{path}, line {section.line - 2}")
        source = f"the comment after Atoms, line {section.line - 2}"
    elif not section.rows:
        return StyleChoice(None, (), "")
    elif shape := next((name for name, of in SHAPES.items() if header.count(of.count)), None):
        style = ATOM_STYLES[SHAPES[shape].style]
        source, stated = f"line {header.lines[SHAPES[shape].count]}, which counts {shape}", False
    else:
        style = _only_fit(path, data, header, section, labels, velocities)
        source, stated = f"the {_width(data, section)} columns of Atoms", False
    _check_shapes(path, header, style)
    if style.note:
        remarks.append(f"{path}: atom style {style.name}: {style.note}")
    if section is None or not section.rows:
        return StyleChoice(style, style.columns, source, stated, remarks)
    return StyleChoice(style, _columns(path, style, _width(data, section), section), source, stated, remarks)


def _check_shapes(path: str, header: Header, style: AtomStyle) -> None:
    """Refuse a count of shapes that the style does not have."""
    for name, shape in SHAPES.items():
        if header.count(shape.count) and name not in style.bonus:
            raise FormatError(
                path,
                f"line {header.lines[shape.count]}",
                found=f"{header.count(shape.count)} {shape.count}",
                expected=f"none: atoms of style {style.name} have no section {name}",
                hint="--atom-style names another style",
            )


def _width(data: Buffer, section: Section) -> int:
    """Return number of columns of the first row, which decides for all."""
    return len(split_comment(Cursor(data, section.start).peek())[0].split())


def _columns(path: str, style: AtomStyle, width: int, section: Section) -> tuple[Column, ...]:
    plain, with_images = style.widths()
    if width not in (plain, with_images):
        names = " ".join(column.name for column in style.columns)
        raise FormatError(
            path,
            f"line {section.line}",
            found=f"{width} columns" if width else "a line without a row",
            expected=f"{plain} ({names}) or {with_images} (with image flags), as atom style {style.name} has",
            hint="--atom-style names another style",
        )
    return style.columns + (IMAGE_COLUMNS if width == with_images else ())


def _only_fit(
    path: str,
    data: Buffer,
    header: Header,
    section: Section,
    labels: Mapping[bytes, int],
    velocities: Section | None,
) -> AtomStyle:
    """Return the plain style whose columns alone fit all rows; of those with equal columns the least that has the
    topology.
    """
    width = _width(data, section)
    needed = {name for keyword, name in _TOPOLOGY.items() if header.count(keyword)}
    moving = _width(data, velocities) if velocities is not None and velocities.rows else None
    where = f"{path}, line {section.line}: the file does not name its atom style, and"

    def candidates(styles: Iterable[AtomStyle]) -> dict[Sequence[Column], list[AtomStyle]]:
        layouts: dict[Sequence[Column], list[AtomStyle]] = {}
        for style in styles:
            if width in style.widths() and needed <= style.topology and moving in (None, len(style.velocities)):
                layouts.setdefault(_columns(path, style, width, section), []).append(style)
        return layouts

    layouts = candidates(PLAIN_STYLES)
    if not layouts:
        allowed = f" and {', '.join(sorted(needed))}" if needed else ""
        allowed += "" if moving is None else f" and {moving} columns of Velocities"
        others = [style.name for styles in candidates(ATOM_STYLES.values()).values() for style in styles]
        raise UsageError(
            f"{where} none of {', '.join(style.name for style in PLAIN_STYLES)} has {width} columns{allowed}; "
            f"{_how(others)}"
        )
    fitting = [
        styles
        for columns, styles in layouts.items()
        if len(layouts) == 1 or _fits(path, data, header, section, columns, labels)
    ]
    names = [style.name for styles in layouts.values() for style in styles]
    if len(fitting) == 1:
        rivals = candidates(_RIVALS)
        rivals = {c: s for c, s in rivals.items() if _fits(path, data, header, section, c, labels, s[0].positive())}
        if not rivals:
            return fitting[0][0]
        others = [style.name for styles in rivals.values() for style in styles]
        names = [fitting[0][0].name, *others]
        raise UsageError(f"{where} each of {', '.join(names)} fits its rows of {width} columns; {_how(names)}")
    raise UsageError(
        f"{where} {'each' if fitting else 'none'} of {', '.join(names)} fits its rows of {width} columns; "
        "--atom-style names it"
    )


def _how(names: Sequence[str]) -> str:
    """Return what a user does, where these styles may be meant."""
    return (
        f"{' or '.join(f'--atom-style {name}' for name in names)} says which it is"
        if names
        else "--atom-style names it"
    )


def _fits(
    path: str,
    data: Buffer,
    header: Header,
    section: Section,
    columns: Sequence[Column],
    labels: Mapping[bytes, int],
    positive: Sequence[str] = (),
) -> bool:
    """True if all rows can have these columns, types included, those in `positive` above zero."""
    assert section.spans is not None
    for span in section.spans:
        try:
            arrays, _ = read_columns(Texts(data), span[None], columns, labels)
            check_types(path, "Atoms", arrays["type"], section.line, "atom", header.count("atom types"), None)
            if any((arrays[name] <= 0).any() for name in positive):
                return False
        except (BadRow, FormatError):
            return False
    return True
