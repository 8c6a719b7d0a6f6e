"""A record as a LAMMPS data file: the writer of the format `lammps-data`.

Sections stand in the order LAMMPS itself writes them. What a data file said beyond its columns (meta key `lammps` of
`system`, see `data_record`) is written back. Rows are those of the record, in its order. Source: the manual,
"read_data", checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from molrec_convert import __version__
from molrec_convert.files.target_file import open_target
from molrec_convert.formats import WriteContext
from molrec_convert.model import Column, Record
from molrec_convert.quantities.dimensions import units_object, units_words
from molrec_convert.report import Report
from molrec_lammps.common.atom_styles import AtomStyle
from molrec_lammps.data.sections import SHAPES
from molrec_lammps.write.atoms import AtomRows, RelationRows, atom_rows, relation_rows, velocity_rows
from molrec_lammps.write.box import Cell, header_lines, style_of_state, unturned, warning_of
from molrec_lammps.write.commands import coefficient_sections
from molrec_lammps.write.force_field import potential_of_record
from molrec_lammps.write.preserved import Preserved, preserved_of
from molrec_lammps.write.types import (
    Masses,
    State,
    Types,
    atom_types,
    brings_masses,
    lammps_document,
    masses_of,
    named_masses,
    ordered,
    report_meta,
    state_of,
)
from molrec_lammps.write.units import number_text, preset_of, row_pieces, style_written, title_with_units

__all__ = ["DataPlan", "data_plan", "write_data", "write_plan"]

_KINDS = ("atom", "bond", "angle", "dihedral", "improper")
_FREE_OF_MASSES = ("density", "mass")
#: What LAMMPS reads without a fix, and what the script written beside it has a fix for.
_SHAPE_COUNTS = frozenset(shape.count for shape in SHAPES.values())
_RUN_RELATIONS = ("Bonds", "Angles", "Dihedrals", "Impropers", "CMAP")


@dataclass
class DataPlan:
    """All that is written into one data file, worked out and checked before the first byte."""

    title: str
    comments: list[str]
    style: AtomStyle
    cell: Cell
    tilted: bool
    atoms: AtomRows
    velocities: AtomRows | None
    counts: dict[str, int]
    labels: dict[str, list[str]]
    masses: Masses | None
    relations: list[RelationRows]
    extra: dict[str, int]
    sections: list[tuple[str, str, list[str]]] = field(default_factory=list)
    preserved: Preserved = field(default_factory=Preserved)
    digits: int | None = None
    units: str | None = None
    names: dict[str, list[str]] = field(default_factory=dict)
    label_comments: dict[str, list[str]] = field(default_factory=dict)
    headings: dict[str, str] = field(default_factory=dict)
    renumbered: bool = False


def write_data(record: Record, path: Path, context: WriteContext) -> None:
    """Write one state of a record as a data file, with the coefficients a data file can state.

    UnsupportedError names what LAMMPS cannot hold; what a data file cannot is in the report.
    """
    plan = _whole_plan(record, context)
    name = path.name if context.target is None else context.target.name
    with open_target(path, name) as file:
        write_plan(file, plan)


def predict_data(record: Record, context: WriteContext) -> None:
    """Report what the file will not hold."""
    _whole_plan(record, context)


def _whole_plan(record: Record, context: WriteContext) -> DataPlan:
    report = context.report
    plan = data_plan(record, context)
    potential = potential_of_record(record, plan.names, context, plan.units)
    if plan.units is not None:
        plan.title = title_with_units(plan.title, plan.units)
    if potential is not None:
        found = coefficient_sections(potential, plan.counts, report)
        plan.sections = [(section.name, section.hint, section.rows) for section in found]
    return plan


def data_plan(record: Record, context: WriteContext, *, run: bool = False) -> DataPlan:
    """Return what of a record goes into a data file, without coefficients. `run`: masses must be there."""
    options, report = context.options, context.report
    state = state_of(record, report)
    document = lammps_document(record)
    units = preset_of(record)
    types = atom_types(state.atoms, state.count, document, report)
    before = types.numbers
    if options.type_order:
        closed = record.forcefield is not None
        elements = state.atoms.get("element")
        types, document = ordered(types, elements, document, options.type_order, report, closed=closed)
    style = style_of_state(state, document, options.target_atom_style, report)
    atoms, cell = atom_rows(state, types, style, options, report, hold=run)
    relations = relation_rows(state, style, document, atoms.ids, report)
    counts, labels, names = _kinds(types, relations, document)
    free = any(column.name in _FREE_OF_MASSES for column in style.columns)
    named = named_masses(record.forcefield, None if context.units_kept else units)
    needed = run and not free and not brings_masses(record.forcefield)
    masses = masses_of(state, types, document, units, report, needed=needed, own=free, named=named)
    plan = DataPlan(
        title=str(document.get("title", f"LAMMPS data file, written by molrec-convert {__version__}")),
        comments=[str(text) for text in document.get("comments", ())],
        style=style,
        cell=cell,
        tilted=document.get("tilted") is True,
        atoms=atoms,
        velocities=velocity_rows(state, style, atoms, cell, report),
        counts=counts,
        labels=labels,
        label_comments={kind: [str(text) for text in own] for kind, own in document.get("label_comments", {}).items()},
        masses=masses,
        relations=relations,
        extra={str(kind): int(count) for kind, count in document.get("extra_per_atom", {}).items()},
        digits=options.digits,
        units=units,
        names=names,
        renumbered=not np.array_equal(before, types.numbers),
        headings={str(name): str(text) for name, text in document.get("section_comments", {}).items()},
    )
    plan.units = _units(record, plan, context)
    own_units = units_object(record.units)
    plan.preserved = preserved_of(state, style, document, atoms.ids, cell, options.digits, own_units)
    if run:
        _leave_out(plan, report)
    if plan.cell.rotation is not None:
        _report_unturned(state, plan, report)
    _report_left(state, plan, types, report, run=run)
    report_meta(record, ("units", "coordinates", "lammps"), report, "a data file")
    if plan.units is None and record.units is not None:
        told = units_words(units_object(record.units))
        report.dropped("units", f"{told}: a data file states none but a units style of LAMMPS")
    return plan


def _units(record: Record, plan: DataPlan, context: WriteContext) -> str | None:
    """Return the units style of the numbers that are written, None where nothing tells. UnsupportedError: they are of
    none.
    """
    names = plan.atoms.written | (set() if plan.velocities is None else plan.velocities.written)
    others = ["length"]
    if plan.masses is not None:
        others.append("mass")
    if record.forcefield is not None:
        others += ["energy", "charge"]
    return style_written(record, sorted(names), others, context.report, kept=context.units_kept)


def _report_unturned(state: State, plan: DataPlan, report: Report) -> None:
    """Name what may be vectors or tensors and was not turned with the cell."""
    written = plan.atoms.written | plan.preserved.written
    left = unturned(
        [name for name in state.atoms if name in written], {name: c.trailing for name, c in state.atoms.items()}
    )
    if left:
        report.warn(warning_of(left))


def _leave_out(plan: DataPlan, report: Report) -> None:
    """Take out what LAMMPS reads for a fix only that the written script does not have."""
    why = "is read by a fix whose command the record does not hold; a data file alone (--to lammps-data) keeps it"
    for section in [section for section in plan.preserved.sections if not section.known and not section.words]:
        plan.preserved.sections.remove(section)
        report.dropped(section.name, why)
    plan.preserved.counts = {name: n for name, n in plan.preserved.counts.items() if name in _SHAPE_COUNTS}
    for relation in [relation for relation in plan.relations if relation.name not in _RUN_RELATIONS]:
        plan.relations.remove(relation)
        report.dropped(relation.name, why)


def write_plan(file: BinaryIO, plan: DataPlan) -> None:
    """Write a data file, section by section; a heading has the comment it had, or the name of the style."""
    said = plan.headings
    file.write("\n".join(_header(plan)).encode())
    for kind in _KINDS:
        if plan.labels.get(kind):
            name = f"{kind.capitalize()} Type Labels"
            _section(file, name, said.get(name, ""), _numbered(plan.labels[kind], plan.label_comments.get(kind, ())))
    if plan.masses is not None:
        rows = (
            f"{number} {number_text(mass, plan.digits)}" + (f" # {comment}" if comment else "")
            for number, (mass, comment) in enumerate(zip(plan.masses.values, plan.masses.comments, strict=True), 1)
        )
        _section(file, "Masses", said.get("Masses", ""), rows)
    for name, hint, lines in plan.sections:
        _section(file, name, said.get(name, hint), lines)
    if plan.atoms.count:
        _table(file, "Atoms", said.get("Atoms", plan.style.name), plan.atoms.columns, plan.atoms.comments, plan.digits)
        if plan.velocities is not None:
            _table(
                file,
                "Velocities",
                said.get("Velocities", ""),
                plan.velocities.columns,
                plan.velocities.comments,
                plan.digits,
            )
    for relation in plan.relations:
        _table(file, relation.name, said.get(relation.name, ""), relation.columns, relation.comments, plan.digits)
    for section in plan.preserved.sections:
        _section(file, section.name, section.comment or said.get(section.name, ""), ())
        for piece in section.pieces:
            file.write(piece)


def _header(plan: DataPlan) -> Iterator[str]:
    yield plan.title
    yield ""
    yield from (f"# {text}" for text in plan.comments)
    yield f"{plan.atoms.count} atoms"
    yield from (f"{relation.count} {relation.keyword}" for relation in plan.relations)
    yield from (f"{count} {keyword}" for keyword, count in plan.preserved.counts.items())
    yield from (f"{count} {kind} types" for kind, count in plan.counts.items())
    yield from (f"{count} extra {kind} per atom" for kind, count in plan.extra.items())
    yield ""
    yield from header_lines(plan.cell, plan.digits, tilted=plan.tilted)
    yield ""


def _section(file: BinaryIO, name: str, hint: str, rows: Any) -> None:
    heading = f"{name} # {hint}" if hint else name
    file.write(f"\n{heading}\n\n".encode())
    file.write("".join(f"{row}\n" for row in rows).encode())


def _table(
    file: BinaryIO,
    name: str,
    hint: str,
    columns: list[NDArray[Any]],
    comments: NDArray[Any] | None,
    digits: int | None,
) -> None:
    _section(file, name, hint, ())
    for piece in row_pieces(columns, comments=comments, digits=digits):
        file.write(piece)


def _numbered(names: list[str], comments: Sequence[str]) -> Iterator[str]:
    for number, (name, comment) in enumerate(zip_longest(names, comments[: len(names)], fillvalue=""), 1):
        yield f"{number} {name} # {comment}" if comment else f"{number} {name}"


def _kinds(
    types: Types, relations: list[RelationRows], document: Mapping[str, Any]
) -> tuple[dict[str, int], dict[str, list[str]], dict[str, list[str]]]:
    """Return numbers of types, labels and names, by kind: those that are used, and those a data file stated."""
    stated = document.get("type_counts", {})
    known = document.get("type_labels", {})
    used: dict[str, Types] = {"atom": types} | {r.kind: r.types for r in relations if r.kind in (*_KINDS, *stated)}
    counts: dict[str, int] = {}
    labels: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    for kind in dict.fromkeys((*_KINDS, *stated)):
        if kind in used:
            counts[kind], names[kind] = used[kind].count, used[kind].names
        elif kind in stated:
            counts[kind] = int(stated[kind])
        own = used[kind].labels if kind in used else [str(label) for label in known.get(kind, ())]
        if own and len(own) == counts.get(kind):
            labels[kind] = own
    return counts, labels, names


def _report_left(state: State, plan: DataPlan, types: Types, report: Report, *, run: bool) -> None:
    """What of the state a data file has no place for."""
    written = plan.atoms.written | (plan.velocities.written if plan.velocities is not None else set())
    written |= {"type", "type_id", "id", "mass"} | plan.preserved.written
    for name, column in state.atoms.items():
        if name in written:
            continue
        if name == "element":
            if not _labels_are(state, plan, types):
                report.dropped("atoms/element", "a data file has no place for it; --elements gives it back on reading")
            continue
        report.dropped(f"atoms/{name}", f"atom style {plan.style.name} has no such column ({_shape(column)})")
    there = {relation.block for relation in plan.relations} | plan.preserved.blocks
    for name, block in state.blocks.items():
        if name not in there and block.count:
            report.dropped(name, f"{block.count} rows: a data file has no section for them")
    if not run and not plan.cell.box.boundary.all():
        fixed = " ".join(axis for axis, flag in zip("xyz", plan.cell.box.boundary, strict=True) if not flag)
        report.dropped("box boundary", f"{fixed} not periodic, which a script says and a data file does not")
    if state.unwrapped:
        report.converted("atoms/x y z", "unwrapped as in the record; LAMMPS wraps them and counts the images itself")


def _labels_are(state: State, plan: DataPlan, types: Types) -> bool:
    """True if the labels of the types say each atom's element."""
    labels = plan.labels.get("atom")
    column = state.atoms["element"]
    if not labels:
        return False
    by_type = np.array(["", *labels], dtype=np.dtypes.StringDType())[types.numbers]
    same = by_type == column.values
    return bool((same if column.validity is None else same | ~column.validity).all())


def _shape(column: Column) -> str:
    return column.dtype + "".join(f"[{n}]" for n in column.trailing)
