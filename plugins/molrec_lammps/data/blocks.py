"""Blocks and columns of a record from the sections of a data file beside Atoms: relations, shapes, properties, text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block, Column
from molrec_convert.report import Report
from molrec_lammps.common.type_names import names_column
from molrec_lammps.data.file import DataFile, Table
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.data.sections import RELATIONS, SHAPES

__all__ = [
    "property_columns",
    "put_comments",
    "put_molecules",
    "put_properties",
    "put_shapes",
    "relation_block",
    "rows_text",
    "text_sections",
    "type_names_of",
]

_STRING = np.dtypes.StringDType()


def relation_block(
    data: DataFile, name: str, table: Table, report: Report, styles: Sequence[str | None] | None = None
) -> Block:
    """A section of relations: endpoints as rows of atoms in order of ids, types by name and number, comments.

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
    """The columns of a section of `fix property/atom`, null for atoms it has no row of."""
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
    """The rows of sections whose meaning is in the input script, as they stand."""
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
    """What types are called: their labels, else their numbers."""
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
