"""A LAMMPS data file as a record: the reader of the format `lammps-data`.

`system` has what the particles are: `id type type_id element mass charge mol_id`, and the relations with 0-based
endpoints; `frame` has the state: `x y z vx vy vz ix iy iz`, further columns of the atom style, and the box. Rows
ascend by id. Coordinates stay as the file has them (wrapped stays wrapped), a general cell stays as it is stated.
`# comments` of rows are the text column `comment` of their block, those of Velocities `velocity_comment` of `frame`.

| section | place |
|---|---|
| Atoms, Velocities | columns of `system/atoms` and `frame/atoms`, by the names of `atom_styles` |
| Bonds, Angles, Dihedrals, Impropers | blocks `bonds angles dihedrals impropers` of `system` |
| CMAP, BiTorsions, PiTorsions | blocks `cmaps bitorsions pitorsions` of `system`, endpoints `atomi` … `atomn` |
| Ellipsoids | `shapex shapey shapez` (diameters) `quatw quati quatj quatk` of `frame/atoms` |
| Lines | `end1x end1y end2x end2y` of `frame/atoms` |
| Triangles | `corner1x` … `corner3z` of `frame/atoms` |
| Bodies | blocks of `frame`: `bodies` (`atomi`), `body_integers`, `body_numbers` (`body value`) |
| of `fix property/atom` | columns of atoms named by the comment, `prop # i_a d_b mol`: `i_a d_b mol_id` |
| Coeffs of all kinds | the force field |
| all others, PiTorsion Coeffs too | block `lammps_sections` of `system`: `section`, `line`: rows as they stand |

Columns of shapes and properties are null for atoms that have none; the comments of shapes are `shape_comment`. Bodies
ascend by the ids of their atoms.

What else a data file says is kept in `system` under the meta key `lammps` (tag `json`), each part where the file has
it:

| key | holds |
|---|---|
| `title` | the first line |
| `atom_style` | the atom style the rows were read by, with its arguments |
| `type_counts` | number of types by kind (`atom bond angle dihedral improper`, `pitorsion`), used or not |
| `type_labels` | labels by kind, in the order of the types |
| `label_comments` | the comment of each label by kind, `""` for none, for kinds that have some |
| `masses` | mass of each atom type, `null` where the file has none |
| `mass_comments` | the comment of each row of Masses, by type, `""` for none |
| `tilted` | `true` for a box whose tilts are stated and zero |
| `extra_per_atom` | room for later `extra bond per atom` and the like, by kind (`bond … special`) |
| `header` | further counts of the header, of fixes the caller named, by keyword |
| `comments` | comments of the header, between sections, and in Bodies |
| `section_comments` | the comment behind the name of a section, by section, where it is not the style alone |
| `property_sections` | by section of `fix property/atom`: its words and their columns, `[["mol", "mol_id"], …]` |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from molrec_convert.errors import UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.meaning.element_guessing import elements_of_types
from molrec_convert.model import Block, Box, Column, ForceField, Frame, Meta, Record
from molrec_convert.model.names import IDENTITY_COLUMNS
from molrec_convert.report import Report
from molrec_lammps.common.text import names_column
from molrec_lammps.common.triclinic import restricted_cell
from molrec_lammps.common.units import UNITS, UnitsStyle, check_units
from molrec_lammps.data.file import DataFile, Table, parse_data
from molrec_lammps.data.header import COUNTS, TYPE_KINDS
from molrec_lammps.data.potential import check_comments, names_style, potential_of_data
from molrec_lammps.data.sections import RELATIONS, SHAPES
from molrec_lammps.options import CommonOptions, ForceFieldOptions
from molrec_lammps.potential.potential import Potential
from molrec_lammps.potential.record import force_field, relation_styles

__all__ = [
    "data_box",
    "data_force_field",
    "data_frame",
    "data_system",
    "property_columns",
    "put_comments",
    "put_molecules",
    "put_properties",
    "put_shapes",
    "read_data",
    "record_of_data",
    "relation_block",
    "rows_text",
    "text_sections",
    "type_names_of",
]

_STRING = np.dtypes.StringDType()


def relation_block(
    data: DataFile, name: str, table: Table, report: Report, styles: Sequence[str | None] | None = None
) -> Block:
    """Return a section of relations: endpoints as rows of atoms in order of ids, types by name and number, comments.

    `styles` are the styles of types under a hybrid, None for a type whose tables add.
    """
    relation = RELATIONS[name]
    types = table["type"]
    if relation.kind in TYPE_KINDS:
        labels = type_names_of(data, relation.kind)
    else:
        labels = [str(number + 1) for number in range(int(types.max(initial=0)))]
    columns: dict[str, Any] = {
        **data.endpoints[name],
        "type": names_column(["", *labels], types),
        "type_id": types.view(np.uint64),
    }
    if styles is not None:
        named = np.array([False, *(style is not None for style in styles)])[types]
        columns["style"] = Column(names_column(["", *(style or "" for style in styles)], types), named)
    put_comments(columns, "comment", table, None)
    targets: dict[str, str] = {end: "atoms" for end in ("atomm", "atomn") if end in columns}
    report.converted(
        name,
        f"{rows_text(table.rows)} as {relation.block}, atoms by row; row numbers, which mean nothing, are left out",
    )
    return Block(columns, targets=targets)


def put_shapes(data: DataFile, name: str, columns: dict[str, Any], blocks: dict[str, Block], report: Report) -> None:
    """The shapes of atoms, rows of atoms in order of ids: columns of atoms, or blocks for bodies."""
    rows, count = data.shape_rows[name], len(data.index.ids)
    if name == "Bodies":
        if data.bodies is not None:
            order = np.argsort(rows, kind="stable")
            bodies = data.bodies.sorted(order)
            blocks["bodies"] = Block({"atomi": rows[order].astype(np.uint64)})
            for block, values, offset in (
                ("body_integers", bodies.integers, bodies.integer_offset),
                ("body_numbers", bodies.numbers, bodies.number_offset),
            ):
                body = np.repeat(np.arange(len(order), dtype=np.uint64), np.diff(offset))
                blocks[block] = Block({"body": body, "value": values}, targets={"body": "bodies"})
            report.converted(name, f"{len(order)} bodies as the blocks bodies, body_integers and body_numbers of frame")
        return
    table = data.shapes.get(name)
    known = np.zeros(count, dtype=np.bool_)
    known[rows] = True
    for column in SHAPES[name].columns:
        values = np.zeros(count)
        if table is not None:
            values[rows] = table[column]
        columns[column] = Column(values, known)
    if table is not None:
        if table.comments is not None:
            texts = np.full(count, "", dtype=table.comments.dtype)
            texts[rows] = table.comments
            columns["shape_comment"] = Column(texts, texts != "")
        report.converted(name, f"{rows_text(table.rows)} as columns of frame/atoms, null where an atom has none")


def put_properties(data: DataFile, atoms: Block, report: Report) -> None:
    """Report the sections of `fix property/atom`; what of theirs tells what an atom is belongs to `system`."""
    for name, table in data.properties.items():
        for column, values in property_columns(data, name).items():
            if column in ("charge", "mol_id"):
                molecules: dict[str, Any] = {column: values}
                if column == "mol_id":
                    molecules = {}
                    put_molecules(molecules, values.values, report)
                for key, value in molecules.items():
                    atoms.columns[key] = value if isinstance(value, Column) else Column(value, values.validity)
        report.converted(name, f"{rows_text(table.rows)} as columns of atoms: {' '.join(table.columns)}")


def property_columns(data: DataFile, name: str) -> dict[str, Any]:
    """Return the columns of a section of `fix property/atom`, null for atoms it has no row of."""
    rows, count = data.property_rows[name], len(data.index.ids)
    known = np.zeros(count, dtype=np.bool_)
    known[rows] = True
    found = {}
    for column, values in data.properties[name].columns.items():
        spread = np.zeros(count, dtype=values.dtype)
        spread[rows] = values
        found[column] = Column(spread, known)
    return found


def text_sections(data: DataFile, report: Report) -> Block:
    """Return the rows of sections whose meaning is in the input script, as they stand."""
    names: list[str] = []
    lines: list[str] = []
    for section in data.others:
        own = section.lines()
        names += [section.name] * len(own)
        lines += own
        report.carried(
            section.name,
            f"{rows_text(section.rows)} from line {section.line} as text in the block lammps_sections: a section "
            "of a fix, whose meaning is in the input script",
        )
    return Block({"section": np.array(names, dtype=_STRING), "line": np.array(lines, dtype=_STRING)})


def type_names_of(data: DataFile, kind: str) -> Sequence[str]:
    """Return what types are called: their labels, else their numbers."""
    return data.labels.get(kind) or [str(number + 1) for number in range(data.header.count(f"{kind} types"))]


def put_molecules(columns: dict[str, Any], molecules: NDArray[np.int64], report: Report) -> None:
    """Molecule ids as `mol_id`, or as `mol` where one is negative."""
    if not len(molecules) or int(molecules.min()) >= 0:
        columns["mol_id"] = molecules.view(np.uint64)
        return
    columns["mol"] = molecules
    report.converted("mol_id", "some molecule ids are negative, which mol_id cannot hold: kept as the column mol (i64)")


def put_comments(columns: dict[str, Any], name: str, table: Table, order: NDArray[np.int64] | None) -> None:
    """The comments of rows as a column of text, null where a row has none."""
    if table.comments is not None:
        comments = table.comments if order is None else table.comments[order]
        columns[name] = Column(comments, comments != "")


def rows_text(count: int) -> str:
    """So many rows, in words."""
    return f"{count} row{'' if count == 1 else 's'}"


_IDENTITY = frozenset(IDENTITY_COLUMNS)


def read_data(paths: Sequence[Path], context: ReadContext) -> Record:
    """Read one data file into a record with `system` and `frame`."""
    if len(paths) != 1:
        raise UsageError(f"a LAMMPS data file is read alone, not {len(paths)} together")
    return record_of_data(parse_data(paths[0], atom_style=context.options.atom_style), context)


def record_of_data(data: DataFile, context: ReadContext) -> Record:
    """Return the record of a data file that was read."""
    potential = potential_of_data(data)
    system = data_system(data, context.options, context.report, potential)
    version = context.options.molrec_version
    return Record(
        meta={} if version == 1 else {"molrec_version": version},
        system=system,
        frame=data_frame(data, context.report),
        forcefield=data_force_field(data, potential, context.options, context.report),
    )


def data_system(data: DataFile, options: CommonOptions, report: Report, potential: Potential | None = None) -> Frame:
    """Return what the particles of a data file are: atoms in ascending order of ids, relations, units, and the `lammps`
    key.

    With the `potential` that holds for the file, relations say their style where its styles are hybrid.

    The fate of all that is neither state nor force field is reported.
    """
    for remark in data.remarks:
        report.warn(remark)
    units = _units(data, options, report)
    blocks = {"atoms": _atoms(data, options, units, report)}
    put_properties(data, blocks["atoms"], report)
    for name, table in data.relations.items():
        kind = RELATIONS[name].kind
        styles = relation_styles(potential, kind) if potential is not None and kind in TYPE_KINDS else None
        blocks[RELATIONS[name].block] = relation_block(data, name, table, report, styles)
    for line, row in data.beyond:
        report.dropped(f"Atoms, line {line}", f"{row!r} is a row beyond the {data.header.count('atoms')} counted ones")
    if data.others:
        blocks["lammps_sections"] = text_sections(data, report)
    meta = Meta()
    if units is not None:
        meta.put("units", units.record, "json")
    meta.put("lammps", _document(data), "json")
    return Frame(blocks, meta)


def data_frame(data: DataFile, report: Report, *, boundary: ArrayLike | None = None) -> Frame:
    """Return the state a data file holds: positions, velocities, image flags, further columns, and the box; ids ascend.

    `boundary` bool[3] says which axes are periodic, where the caller knows; a data file does not.
    """
    columns: dict[str, Any] = {}
    if data.atoms is not None:
        own = {n: data.index.sorted(v) for n, v in data.atoms.columns.items() if n not in _IDENTITY}
        columns = {name: own.pop(name) for name in ("x", "y", "z")}
        if data.velocities is not None:
            moving = [name for name in data.velocities.columns if name != "id"]
            columns |= {name: data.sorted_velocities(name) for name in moving}
            put_comments(columns, "velocity_comment", data.velocities, data.velocity_order)
            report.carried("Velocities", f"{rows_text(data.velocities.rows)}, joined by id")
        columns |= own
    blocks = {"atoms": Block({})}
    for name in data.shape_rows:
        put_shapes(data, name, columns, blocks, report)
    for name in data.properties:
        columns |= {c: v for c, v in property_columns(data, name).items() if c not in _IDENTITY}
    report.carried("frame/atoms", f"{' '.join(columns)}: {rows_text(len(data.index.ids))}, in order of ids")
    blocks["atoms"] = Block(columns, count=len(data.index.ids))
    return Frame(blocks, box=data_box(data, report, boundary=boundary))


def data_box(data: DataFile, report: Report, *, boundary: ArrayLike | None = None) -> Box:
    """Return the cell, vectors as columns; a general one as it is stated. Periodic on all axes unless `boundary` is
    given.
    """
    header = data.header
    if header.general:
        vectors = np.array([header.box[keyword] for keyword in ("avec", "bvec", "cvec")]).T
        origin = np.array(header.box.get("abc origin", (0.0, 0.0, 0.0)))
    else:
        low, high = header.bounds()
        vectors, origin = restricted_cell(low, high, header.tilt())
    if missing := header.missing_bounds():
        report.derived("box", f"{', '.join(missing)} from -0.5 to 0.5: the file states none and LAMMPS takes these")
    if boundary is None:
        report.derived("box boundary", "periodic on all axes, LAMMPS' default: a data file does not state it")
        boundary = (True, True, True)
    return Box(vectors, origin, np.asarray(boundary, dtype=np.bool_))


def _units(data: DataFile, options: CommonOptions, report: Report) -> UnitsStyle | None:
    if options.units is not None:
        if data.units is not None and data.units != options.units:
            report.warn(f"{data.path}: the first line says units = {data.units}; --units {options.units} is taken")
        return check_units(options.units)
    if data.units in UNITS:
        report.carried("units", f"{data.units}, as the first line states")
        return UNITS[data.units]
    if data.units is not None:
        report.warn(f"{data.path}: the first line says units = {data.units}, which LAMMPS does not have")
    report.warn(f"{data.path}: the file does not state its units, and the record leaves them open; --units names them")
    return None


def _atoms(data: DataFile, options: CommonOptions, units: UnitsStyle | None, report: Report) -> Block:
    table = data.atoms
    if table is None:
        empty = np.empty(0, dtype=np.uint64)
        return Block({"id": empty, "type": names_column([""], empty), "type_id": empty})
    types = data.index.sorted(table["type"])
    columns: dict[str, Any] = {
        "id": data.index.ids.view(np.uint64),
        "type": names_column(["", *type_names_of(data, "atom")], types),
        "type_id": types.view(np.uint64),
    }
    names = _elements(data, options, units, report)
    if names is not None:
        known = np.array([False, *(name is not None for name in names)])[types]
        columns["element"] = Column(names_column(["", *(name or "" for name in names)], types), known)
    if "mass" in table.columns:
        columns["mass"] = data.index.sorted(table["mass"])
    elif data.masses is not None and "density" not in table.columns:
        columns["mass"] = _masses(data, types)
        report.converted(
            "Masses", "the mass of each atom's type is the column mass; all types' are under lammps.masses"
        )
    if "charge" in table.columns:
        columns["charge"] = data.index.sorted(table["charge"])
    if "mol_id" in table.columns:
        put_molecules(columns, data.index.sorted(table["mol_id"]), report)
    put_comments(columns, "comment", table, data.index.order)
    if data.style is not None and not data.style_stated:
        report.derived("atom style", f"{data.style.name}: no other columns of a plain style fit {data.style_source}")
    style = "" if data.style is None else f", atom style {data.style.name} (from {data.style_source})"
    report.carried("Atoms", f"{rows_text(table.rows)} in order of ids{style}")
    return Block(columns)


def _elements(
    data: DataFile, options: CommonOptions, units: UnitsStyle | None, report: Report
) -> list[str | None] | None:
    masses = data.masses
    return elements_of_types(
        data.header.count("atom types"),
        report,
        given=options.elements,
        guess=options.guess_elements,
        labels=data.labels.get("atom", ()),
        comments=_mass_comments(data),
        masses=None if masses is None else dict(zip(masses["type"].tolist(), masses["mass"].tolist(), strict=True)),
        mass_factor=1.0 if units is None else units.mass,
    )


def _mass_comments(data: DataFile) -> list[str]:
    """Return the comment behind the mass of each type, "" for none; empty where no row of Masses has one."""
    if data.masses is None or data.masses.comments is None:
        return []
    comments = dict(zip(data.masses["type"].tolist(), data.masses.comments.tolist(), strict=True))
    return [comments.get(number, "") for number in range(1, data.header.count("atom types") + 1)]


def _masses(data: DataFile, types: NDArray[np.int64]) -> Column:
    assert data.masses is not None
    by_type = np.zeros(data.header.count("atom types") + 1)
    known = np.zeros(len(by_type), dtype=np.bool_)
    by_type[data.masses["type"]] = data.masses["mass"]
    known[data.masses["type"]] = True
    return Column(by_type[types], None if known[1:].all() else known[types])


def data_force_field(
    data: DataFile, potential: Potential, options: ForceFieldOptions, report: Report
) -> ForceField | None:
    """Return the force field of a data file; None where it states none."""
    if not potential:
        return None
    check_comments(data, report)
    potential.units = options.units or (data.units if data.units in UNITS else None)
    path = Path(data.path)
    return force_field(
        potential,
        report,
        definitions=options.molrec_version,
        directory=path.parent,
        name=path.name,
        source={"format": "lammps-data", "uri": path.name},
    )


def _document(data: DataFile) -> dict[str, Any]:
    """Return the value of the meta key `lammps`."""
    header = data.header
    document: dict[str, Any] = {"title": header.title}
    if data.style is not None:
        document["atom_style"] = data.style.name
    document["type_counts"] = {
        kind: header.count(f"{kind} types") for kind in (*TYPE_KINDS, "pitorsion") if f"{kind} types" in header.counts
    }
    if data.labels:
        document["type_labels"] = {kind: list(labels) for kind, labels in data.labels.items()}
    if data.label_comments:
        document["label_comments"] = dict(data.label_comments)
    if data.masses is not None:
        count = header.count("atom types")
        numbers = data.masses["type"].tolist()
        by_type = dict(zip(numbers, data.masses["mass"].tolist(), strict=True))
        document["masses"] = [by_type.get(number) for number in range(1, count + 1)]
        if comments := _mass_comments(data):
            document["mass_comments"] = comments
    tilt = header.tilt()
    if tilt is not None and not tilt.any():
        document["tilted"] = True
    extra = {keyword.split()[1]: count for keyword, count in header.counts.items() if keyword.startswith("extra ")}
    if extra:
        document["extra_per_atom"] = extra
    further = {keyword: count for keyword, count in header.counts.items() if keyword not in COUNTS}
    if further:
        document["header"] = further
    if header.comments:
        document["comments"] = list(header.comments)
    hints = {name: text for name, text in data.hints.items() if not _is_told(data, name, text)}
    if hints:
        document["section_comments"] = hints
    if data.properties:
        document["property_sections"] = {
            name: [list(pair) for pair in zip(data.hints[name].split(), table.columns, strict=True)]
            for name, table in data.properties.items()
        }
    return document


def _is_told(data: DataFile, name: str, comment: str) -> bool:
    """True if a comment behind the name of a section says nothing but the style, which is kept elsewhere."""
    if name == "Atoms":
        return data.style is not None and f"{data.style.name} ".startswith(f"{comment} ")
    return len(comment.split()) == 1 and names_style(name, comment)
