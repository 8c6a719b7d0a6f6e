"""Which columns the Atoms rows of a file have: what the caller says, what the file says, or what alone fits.

A file that names no style is read only when one layout of the plain styles fits all of its rows, its Velocities too,
and they could not as well be rows of a style whose columns LAMMPS wants above zero (`sphere`). `bond`, `angle` and
`molecular` have the same columns, so they count as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from molrec_convert.errors import FormatError, UsageError
from molrec_convert.text.texts import Texts
from molrec_lammps.common.atom_styles import (
    ATOM_STYLES,
    IMAGE_COLUMNS,
    PLAIN_STYLES,
    AtomStyle,
    Column,
    style_named,
    style_words,
)
from molrec_lammps.common.text import Buffer, Cursor, split_comment
from molrec_lammps.data.checks import check_types
from molrec_lammps.data.header import Header
from molrec_lammps.data.rows import BadRow, read_columns
from molrec_lammps.data.sections import SHAPES, Section

__all__ = ["StyleChoice", "choose_layout"]

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
    """The style of the file and the columns of its rows; no style and no columns for a file without atoms."""
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
    """Number of columns of the first row, which decides for all."""
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
    """The plain style whose columns alone fit all rows; of those with equal columns the least that has the topology."""
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
    """What a user does, where these styles may be meant."""
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
    """Whether all rows can have these columns, types included, those in `positive` above zero."""
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
