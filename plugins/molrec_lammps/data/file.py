"""A LAMMPS data file in memory: header, sections as arrays in the order of the file, coefficients as text.

`parse_data` reads all that is in the file and refuses what LAMMPS refuses, with the line; what of it goes into a
record, and in which order, is `data_record`'s part. Source: the manual, "read_data", checked against the 22 Jul 2025
release.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.text.contents import forget
from molrec_convert.text.texts import Texts
from molrec_lammps.common.atom_styles import AtomStyle, Column, style_named
from molrec_lammps.common.text import Buffer, Cursor, decode, load
from molrec_lammps.data.header import TYPE_KINDS, Header, check_type_counts, read_header
from molrec_lammps.data.rows import (
    DTYPES,
    AtomIndex,
    BadRow,
    check_each_once,
    check_endpoints,
    check_masses,
    check_positive,
    check_types,
    index_atoms,
    property_table,
    read_columns,
)
from molrec_lammps.data.sections import (
    COEFFICIENTS,
    RELATIONS,
    SHAPES,
    RawSection,
    Section,
    label_comments,
    locate_sections,
    raw_section,
    read_labels,
)
from molrec_lammps.data.shapes import (
    Bodies,
    StyleChoice,
    check_flags,
    check_shape_numbers,
    check_shapes,
    choose_layout,
    read_bodies,
)
from molrec_lammps.detect import refuse_restart

__all__ = ["DataFile", "Outline", "Table", "Tables", "fill_together", "filled", "outline_data", "parse_data"]

_MASSES = (Column("type", "type"), Column("mass", "float"))
_ENDS = ("atomi", "atomj", "atomk", "atoml", "atomm", "atomn")
_STRING = np.dtypes.StringDType()


@dataclass
class Table:
    """The rows of one section in the order of the file, those of Atoms and Velocities in order of ids.

    `columns` are by their names in a record.

    Integers are int64 (image flags int32), other numbers f64, types int64 numbers whether the file writes labels or
    not. `comments` has the text after `#` of each row (StringDType, `""` for none), None where no row has one. `line`
    is the line of the first row.
    """

    columns: dict[str, NDArray[Any]]
    line: int
    rows: int
    comments: NDArray[Any] | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]


@dataclass
class DataFile:
    """One data file.

    `atoms`, `velocities`, `masses` are None where the file has no such section; `relations` are by section name
    ("Bonds"), with endpoints `atomi atomj ...` as ids. `labels` are the type labels by kind ("atom"), in the order of
    types, `label_comments` their comments where there are some. `index` has the ids of Atoms in ascending order, in
    which `endpoints` are 0-based rows u64. `shapes` are the sections of shapes but Bodies, with `shape_rows` (also for
    Bodies) the atoms' rows in that order. `properties` are sections of `fix property/atom` whose comment names their
    columns, with `property_rows`. `masses_text`, `coefficients` and `others` (further sections of fixes) are text.
    `hints` are the comments behind the names of sections, `beyond` lines and texts of wave packets behind the counted
    ones, `remarks` what a reader should tell its user.
    """

    path: str
    header: Header
    style: AtomStyle | None
    style_source: str
    style_stated: bool
    atoms: Table | None
    index: AtomIndex
    velocities: Table | None = None
    velocity_order: NDArray[np.int64] | None = None
    masses: Table | None = None
    relations: dict[str, Table] = field(default_factory=dict)
    endpoints: dict[str, dict[str, NDArray[np.uint64]]] = field(default_factory=dict)
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    label_comments: dict[str, list[str]] = field(default_factory=dict)
    shapes: dict[str, Table] = field(default_factory=dict)
    shape_rows: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    bodies: Bodies | None = None
    properties: dict[str, Table] = field(default_factory=dict)
    property_rows: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    masses_text: RawSection | None = None
    coefficients: list[RawSection] = field(default_factory=list)
    others: list[RawSection] = field(default_factory=list)
    beyond: list[tuple[int, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The first line."""
        return self.header.title

    @property
    def units(self) -> str | None:
        """The word of `units = WORD` in the first line."""
        return self.header.units

    @property
    def counts(self) -> dict[str, int]:
        """Every count the header states, by keyword."""
        return self.header.counts

    def sorted_velocities(self, name: str) -> NDArray[np.float64]:
        """Return a column of Velocities in ascending order of ids."""
        assert self.velocities is not None
        values = self.velocities[name]
        return values if self.velocity_order is None else values[self.velocity_order]


def parse_data(
    path: str | PathLike[str],
    *,
    atom_style: str | None = None,
    stated_by: str = "--atom-style",
    counts: Collection[str] = (),
) -> DataFile:
    """Read a data file (plain, .gz, .bz2, .xz or .zst).

    `atom_style` is the style the caller knows, `stated_by` from where; without it the comment after `Atoms` tells, or
    the only one of the plain styles that fits the rows. `counts` are keywords of the header that fixes read, as the
    `read_data` command names them. Refused: FormatError for a file that is no data file or breaks
    its rules, UsageError for a style that cannot be told, UnsupportedError for one that is not read.
    """
    return filled(outline_data(path, load(path), atom_style=atom_style, stated_by=stated_by, counts=counts))


#: Rows of sections by name.
Tables = dict[str, Table]


@dataclass
class Outline:
    """A data file whose rows are not read yet: its header, its sections by name, the labels of types, its style."""

    path: str
    data: Buffer
    header: Header
    sections: dict[str, Section]
    labels: dict[str, tuple[bytes, ...]]
    choice: StyleChoice
    beyond: list[tuple[int, str]] | None


def outline_data(
    path: str | PathLike[str],
    data: Buffer,
    *,
    atom_style: str | None = None,
    stated_by: str = "--atom-style",
    counts: Collection[str] = (),
) -> Outline:
    """Return what is to be known of a text before its rows are read. See `parse_data`, which refuses the same."""
    where = fspath(path)
    if atom_style is not None:
        style_named(atom_style, stated_by)
    refuse_restart(bytes(data[:16]), Path(path))
    cursor = Cursor(data)
    header = read_header(where, cursor, counts)
    check_type_counts(where, header, len(data))
    beyond: list[tuple[int, str]] | None = [] if (atom_style or "").startswith("wavepacket") else None
    sections = {section.name: section for section in locate_sections(where, data, header, cursor, beyond)}
    labels = {kind: read_labels(where, data, sections.get(f"{kind.capitalize()} Type Labels")) for kind in TYPE_KINDS}
    choice = choose_layout(
        where,
        data,
        header,
        sections.get("Atoms"),
        atom_style,
        _numbers(labels["atom"]),
        stated_by,
        velocities=sections.get("Velocities"),
    )
    return Outline(where, data, header, sections, labels, choice, beyond)


def _numbers(labels: Sequence[bytes]) -> dict[bytes, int]:
    """Return the number of each type by its label."""
    return {label: number for number, label in enumerate(labels, 1)}


def filled(outline: Outline, tables: Tables | None = None) -> DataFile:
    """Return the file with its rows, which `fill_together` may have read already. Refused: what `parse_data`
    refuses.
    """
    where, data, header, sections = outline.path, outline.data, outline.header, outline.sections
    labels, choice, beyond = outline.labels, outline.choice, outline.beyond
    layouts, read = _layouts(outline), tables or {}
    rest = {name: layout for name, layout in layouts.items() if name not in read}
    found_tables = {**read, **_read_tables(where, data, sections, rest)}
    tables = {name: found_tables[name] for name in layouts}
    found = _checked(where, header, choice, tables)
    _add_shapes(found, data, sections, tables)
    found.labels = {kind: tuple(map(decode, names)) for kind, names in labels.items() if names}
    for kind in found.labels:
        if texts := label_comments(data, sections[f"{kind.capitalize()} Type Labels"]):
            found.label_comments[kind] = texts
    for section in sections.values():
        if section.hint:
            found.hints[section.name] = section.hint
        if section.name in COEFFICIENTS or section.name == "PairIJ Coeffs":
            found.coefficients.append(raw_section(data, section))
        elif section.name == "Masses":
            found.masses_text = raw_section(data, section)
        elif section.name == "PiTorsion Coeffs" or (section.counted is None and section.name not in SHAPES):
            _add_other(found, data, section)
        if section.skipped:
            found.remarks.append(
                f"{where}, line {section.line - 1}: {section.skipped!r} is not read: LAMMPS leaves out the line after "
                f"the name of a section"
            )
    found.remarks.extend(choice.remarks)
    found.beyond = beyond or []
    _ascend(found)
    return found


def fill_together(outlines: Sequence[Outline]) -> list[Tables]:
    """Read the rows of small files by sections, each kind of section at once; leave out those with faults.

    The arrays of a file are parts of those of all files.
    """
    found: list[Tables] = [{} for _ in outlines]
    kinds: dict[tuple[str, tuple[Column, ...]], list[tuple[int, Section]]] = {}
    for number, outline in enumerate(outlines):
        for name, layout in _layouts(outline).items():
            if not (layout.labels and any(column.kind == "type" for column in layout.columns)):
                kinds.setdefault((name, layout.columns), []).append((number, outline.sections[name]))
    texts = [bytes(outline.data) for outline in outlines]
    text = Texts.join([one if one.endswith(b"\n") else one + b"\n" for one in texts])
    for (name, columns), members in kinds.items():
        spans = np.array([(s.start + text.starts[n], s.stop + text.starts[n], s.rows) for n, s in members])
        try:
            arrays, comments = read_columns(text, spans, columns)
        except BadRow:
            continue
        start = 0
        for number, section in members:
            own = slice(start, start + section.rows)
            said = None if comments is None or not (comments[own] != "").any() else comments[own]
            values = {column: values[own] for column, values in arrays.items()}
            found[number][name] = Table(values, section.line, section.rows, said)
            start = own.stop
    return found


def _ascend(found: DataFile) -> None:
    """Bring the rows of Atoms and Velocities into order of ids, a column at a time: no file is in memory twice."""
    for table, order in ((found.atoms, found.index.order), (found.velocities, found.velocity_order)):
        if table is not None and order is not None:
            for name in table.columns:
                table.columns[name] = table.columns[name][order]
            if table.comments is not None:
                table.comments = table.comments[order]
    found.index = AtomIndex(found.index.ids, None)
    found.velocity_order = None


def _add_shapes(found: DataFile, data: Buffer, sections: Mapping[str, Section], tables: Mapping[str, Table]) -> None:
    """Shapes, checked against the flags of Atoms. Refused: what LAMMPS refuses of them."""
    style, atoms = found.style, found.atoms
    if style is None or atoms is None:
        return
    for name in sorted(style.bonus):
        flags, section = atoms[SHAPES[name].flag], sections.get(name)
        check_flags(found.path, name, flags, atoms.line)
        ids = lines = np.empty(0, dtype=np.int64)
        if name in tables:
            table = found.shapes[name] = tables[name]
            ids, lines = table["id"], table.line + np.arange(table.rows)
        elif section is not None:
            found.bodies = read_bodies(found.path, data, section, found.header.count("bodies"))
            found.header.comments.extend(found.bodies.comments)
            ids, lines = found.bodies.ids, found.bodies.lines
        found.shape_rows[name] = check_shapes(
            found.path, name, ids, lines, found.index.sorted(flags), found.index, atoms.line
        )
        if name in tables:
            check_shape_numbers(found.path, name, table.columns, atoms.columns, ids, lines)


def _add_other(found: DataFile, data: Buffer, section: Section) -> None:
    """A section of a fix: as columns of atoms where its comment names them, else as text."""
    taken = {name for table in (found.atoms, found.velocities) if table is not None for name in table.columns}
    taken |= {name for table in found.properties.values() for name in table.columns}
    columns = property_table(section.text(data), section.hint, section.rows, found.index, taken)
    if columns is None:
        found.others.append(raw_section(data, section))
        return
    found.properties[section.name] = Table(columns[0], section.line, section.rows)
    found.property_rows[section.name] = columns[1]


class _Layout(NamedTuple):
    """The columns of a section, labels of its types, and what an error in a row should remind of."""

    columns: tuple[Column, ...]
    labels: Mapping[bytes, int] | None = None
    hint: str | None = None


def _layouts(outline: Outline) -> dict[str, _Layout]:
    """Return the layout of each section that is read as columns."""
    labels = {kind: _numbers(names) for kind, names in outline.labels.items()}
    choice = outline.choice
    layouts = {}
    for name in outline.sections:
        if name == "Masses":
            layouts[name] = _Layout(_MASSES, labels["atom"])
        elif name == "Atoms" and choice.style is not None:
            layouts[name] = _Layout(choice.columns, labels["atom"], choice.doubt)
        elif name == "Velocities" and choice.style is not None:
            layouts[name] = _Layout(choice.style.velocities)
        elif name in RELATIONS:
            relation = RELATIONS[name]
            ends = tuple(Column(end, "int") for end in _ENDS[: relation.atoms])
            columns = (Column("index", "skip"), Column("type", "type"), *ends)
            layouts[name] = _Layout(columns, labels.get(relation.kind))
        elif name in SHAPES and SHAPES[name].columns:
            shape = tuple(Column(column, "float") for column in SHAPES[name].columns)
            layouts[name] = _Layout((Column("id", "int"), *shape))
    return layouts


def _read_tables(path: str, data: Buffer, sections: Mapping[str, Section], layouts: Mapping[str, _Layout]) -> Tables:
    """Read the rows of all sections, on two threads where there is much: rows are read outside Python's lock."""
    text, tables, jobs = Texts(data), {}, []
    texts: list[tuple[Table, slice, NDArray[Any]]] = []
    for name, layout in layouts.items():
        section = sections[name]
        assert section.spans is not None
        wanted = [column for column in layout.columns if column.kind != "skip"]
        arrays = {column.name: np.empty(section.rows, dtype=DTYPES[column.kind]) for column in wanted}
        tables[name] = Table(arrays, section.line, section.rows)
        first = 0
        for span in section.spans:
            jobs.append((section, layout, tables[name], span, first))
            first += int(span[2])

    def work(job: tuple[Section, _Layout, Table, NDArray[np.int64], int]) -> None:
        section, layout, table, span, first = job
        try:
            arrays, comments = read_columns(text, span[None], layout.columns, layout.labels)
        except BadRow as bad:
            raise FormatError(
                path,
                f"line {section.line + first + bad.row}",
                found=bad.found,
                expected=f"{bad.expected}, row {first + bad.row + 1} of {section.rows} of {section.name}",
                hint=layout.hint,
            ) from None
        own = slice(first, first + int(span[2]))
        for name, values in arrays.items():
            table.columns[name][own] = values
        if comments is not None:
            texts.append((table, own, comments))
        forget(data, int(span[0]), int(span[1]))

    if len(jobs) < 2 * len(layouts) or (os.cpu_count() or 1) < 2:
        for job in jobs:
            work(job)
    else:
        with ThreadPoolExecutor(2) as pool:
            for _ in pool.map(work, jobs):
                pass
    for table, own, comments in texts:
        if table.comments is None:
            table.comments = np.full(table.rows, "", dtype=_STRING)
        table.comments[own] = comments
    return tables


def _checked(path: str, header: Header, choice: StyleChoice, tables: dict[str, Table]) -> DataFile:
    """Return the file with its ids, types and relations checked."""
    atoms, masses = tables.get("Atoms"), tables.get("Masses")
    for name, table in tables.items():
        kind = "atom" if name in ("Atoms", "Masses") else RELATIONS[name].kind if name in RELATIONS else ""
        if kind in TYPE_KINDS:
            keyword = f"{kind} types"
            check_types(path, name, table["type"], table.line, kind, header.count(keyword), header.lines.get(keyword))
        elif kind:
            known = header.counts.get(f"{kind} types", 2**62)
            check_types(path, name, table["type"], table.line, kind, known, header.lines.get(f"{kind} types"))
    if atoms is not None and choice.style is not None:
        for name in choice.style.positive():
            check_positive(path, name, atoms[name], atoms.line)
    if masses is not None:
        check_masses(path, masses["type"], masses["mass"], masses.line)
    index = (
        AtomIndex(np.empty(0, dtype=np.int64), None) if atoms is None else index_atoms(path, atoms["id"], atoms.line)
    )
    found = DataFile(path, header, choice.style, choice.source, choice.stated, atoms, index)
    found.velocities, found.masses = tables.get("Velocities"), masses
    if found.velocities is not None and atoms is not None:
        ids = found.velocities["id"]
        if np.array_equal(ids, atoms["id"]):
            found.velocity_order = index.order
        else:
            found.velocity_order = check_each_once(path, "Velocities", ids, found.velocities.line, index)
    for name, relation in RELATIONS.items():
        if name in tables:
            table = found.relations[name] = tables[name]
            ends = list(_ENDS[: relation.atoms])
            found.endpoints[name] = check_endpoints(path, name, ends, table.columns, table.line, index)
    return found
