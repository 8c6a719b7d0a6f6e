"""The rows of Atoms and Velocities: the columns an atom style has, in its order, from those of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Block, Column
from molrec_convert.report import Report
from molrec_lammps.common.atom_styles import IMAGE_COLUMNS, AtomStyle
from molrec_lammps.data.sections import RELATIONS
from molrec_lammps.write.box import Cell, cell_of, held, turn, turned_of
from molrec_lammps.write.types import State, Types, atom_ids, relation_types

__all__ = ["AtomRows", "RelationRows", "atom_rows", "relation_rows", "values_of", "velocity_rows"]

_XYZ = ("x", "y", "z")
_IMAGES = tuple(column.name for column in IMAGE_COLUMNS)
#: What is written for a column a record does not have: LAMMPS' own default.
_DEFAULTS = {"mol_id": 0, "charge": 0.0}
_LONGEST_IMAGE = 511


@dataclass
class AtomRows:
    """Rows of a section: its columns in order, comments, ids, and which columns of the record they hold."""

    count: int
    ids: NDArray[np.int64]
    columns: list[NDArray[Any]]
    comments: NDArray[Any] | None = None
    written: set[str] = field(default_factory=set)


def atom_rows(
    state: State, types: Types, style: AtomStyle, options: Any, report: Report, *, hold: bool = False
) -> tuple[AtomRows, Cell]:
    """Return the rows of Atoms, and the cell they lie in. UnsupportedError names what a row lacks.

    `hold`: the cell is to hold them all where it is not periodic.
    """
    ids = atom_ids(state.atoms, state.count, report)
    missing = [name for name in _XYZ if name not in state.atoms]
    if missing and not state.count:
        return AtomRows(0, ids, []), cell_of(state.box, options.box, np.zeros((0, 3)), options.rotate, report)
    if missing:
        raise UnsupportedError(f"the record has no positions ({' '.join(missing)}), and a LAMMPS file is made of them")
    positions = np.stack([values_of(state, name, report) for name in _XYZ], axis=-1)
    if not np.isfinite(positions).all():
        row = int((~np.isfinite(positions)).any(axis=1).argmax())
        raise UnsupportedError(f"atoms/x y z: atom {ids[row]} is at {positions[row].tolist()}, which is no place")
    cell = cell_of(state.box, options.box, positions, options.rotate, report)
    if cell.rotation is not None:
        positions = (positions - cell.box.origin) @ cell.rotation.T + cell.box.origin
    if hold:
        cell = held(cell, positions, report)
    rows = AtomRows(state.count, ids, [], _comments(state, "comment"), {"comment", *_XYZ})
    for column in style.columns:
        if column.name == "id":
            rows.columns.append(ids)
        elif column.name == "type":
            rows.columns.append(types.numbers)
        elif column.name in _XYZ:
            rows.columns.append(np.ascontiguousarray(positions[:, _XYZ.index(column.name)]))
        else:
            rows.columns.append(_column(state, column.name, column.kind, style, cell, report))
            rows.written.add("mol" if column.name == "mol_id" and "mol_id" not in state.atoms else column.name)
    if all(name in state.atoms for name in _IMAGES):
        images = [values_of(state, name, report) for name in _IMAGES]
        rows.columns += images
        rows.written.update(_IMAGES)
        far = max((int(np.abs(image.astype(np.int64)).max(initial=0)) for image in images), default=0)
        if far > _LONGEST_IMAGE:
            report.warn(f"image flags up to {far} need a LAMMPS built with -DLAMMPS_BIGBIG")
    return rows, cell


def velocity_rows(state: State, style: AtomStyle, atoms: AtomRows, cell: Cell, report: Report) -> AtomRows | None:
    """Return the rows of Velocities; None where the record has none."""
    names = [column.name for column in style.velocities if column.name != "id"]
    if not all(name in state.atoms for name in names[:3]):
        return None
    rows = AtomRows(state.count, atoms.ids, [atoms.ids], _comments(state, "velocity_comment"), {"velocity_comment"})
    for name in names:
        rows.columns.append(_column(state, name, "float", style, cell, report))
        rows.written.add(name)
    return rows


def values_of(state: State, name: str, report: Report) -> NDArray[Any]:
    """Return the values of a column, one number a row. UnsupportedError: a row without a value."""
    column = state.atoms[name]
    if column.trailing:
        shape = f"{column.dtype}{list(column.trailing)}"
        raise UnsupportedError(f"atoms/{name}: {shape}, and LAMMPS takes one number a row")
    if column.validity is not None and not column.validity.all():
        row = int((~column.validity).argmax())
        if name not in _DEFAULTS:
            raise UnsupportedError(f"atoms/{name}: row {row} has no value, and LAMMPS needs one of every atom")
        report.derived(f"atoms/{name}", f"{_DEFAULTS[name]} where the record has no value (row {row} first)")
        return np.where(column.validity, state.values(name), np.array(_DEFAULTS[name], dtype=column.values.dtype))
    return state.values(name)


def _column(state: State, name: str, kind: str, style: AtomStyle, cell: Cell, report: Report) -> NDArray[Any]:
    source = "mol" if name == "mol_id" and "mol_id" not in state.atoms and "mol" in state.atoms else name
    if source not in state.atoms:
        return _missing(state, name, kind, style, report)
    values = values_of(state, source, report)
    group = turned_of(source, {name: column.trailing for name, column in state.atoms.items()})
    if cell.rotation is not None and group is not None and len(group.columns) == 3:
        whole = np.stack([values_of(state, other, report) for other in group.columns], axis=-1)
        rotation = np.broadcast_to(cell.rotation, (len(whole), 3, 3))
        values = np.ascontiguousarray(turn(whole, group.kind, rotation)[:, group.columns.index(source)])
    if kind in ("int", "image") and values.dtype.kind == "f":
        raise UnsupportedError(f"atoms/{name}: {state.atoms[source].dtype}, and LAMMPS takes integers")
    if values.dtype.kind not in "iufb":
        raise UnsupportedError(f"atoms/{name}: {state.atoms[source].dtype}, and LAMMPS takes numbers")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int((~np.isfinite(values)).argmax())
        raise UnsupportedError(f"atoms/{name}: row {row} is {values[row]}, which a data file of LAMMPS cannot hold")
    return values


def _missing(state: State, name: str, kind: str, style: AtomStyle, report: Report) -> NDArray[Any]:
    if name in _DEFAULTS:
        report.derived(f"atoms/{name}", f"{_DEFAULTS[name]}: atom style {style.name} has the column, the record not")
        return np.full(state.count, _DEFAULTS[name])
    velocity = any(column.name == name for column in style.velocities)
    if velocity:
        report.derived(f"atoms/{name}", f"0: atom style {style.name} has the column, the record does not")
        return np.zeros(state.count)
    raise UnsupportedError(
        f"atoms/{name}: atom style {style.name} needs this column, and the record has none; name another style with "
        "--target-atom-style"
    )


def _comments(state: State, name: str) -> NDArray[Any] | None:
    column: Column | None = state.atoms.get(name)
    if column is None or column.dtype != "string" or column.trailing:
        return None
    if column.validity is None:
        return column.values
    return np.where(column.validity, column.values, np.array("", dtype=column.values.dtype))


_ENDS = ("atomi", "atomj", "atomk", "atoml", "atomm", "atomn")
#: Sections an atom style has, or has not; the others are of fixes.
_OF_STYLE = ("Bonds", "Angles", "Dihedrals", "Impropers")
#: Columns that say what a row's type or style already does.
_TOLD = frozenset({"type", "type_id", "style", "comment", *_ENDS})


@dataclass
class RelationRows:
    """Rows of one section: its name, the block they are of, the keyword of their count, their types and columns."""

    name: str
    block: str
    keyword: str
    kind: str
    count: int
    types: Types
    columns: list[NDArray[Any]]
    comments: NDArray[Any] | None


def relation_rows(
    state: State, style: AtomStyle, document: Mapping[str, Any], ids: NDArray[np.int64], report: Report
) -> list[RelationRows]:
    """Return the sections of relations a record has rows for. UnsupportedError: the atom style has no such section."""
    found = []
    for name, relation in RELATIONS.items():
        block = state.blocks.get(relation.block)
        if block is None or not block.count:
            continue
        if name in _OF_STYLE and name not in style.topology:
            raise UnsupportedError(
                f"{relation.block}: atom style {style.name} has none; name another with --target-atom-style"
            )
        ends = [_ends(block, end, ids, relation.block) for end in _ENDS[: relation.atoms]]
        types = relation_types(block, relation.kind, document, report, relation.block)
        numbers = np.arange(1, block.count + 1, dtype=np.int64)
        columns = [numbers, types.numbers, *ends]
        comments = None
        if "comment" in block.columns and block.columns["comment"].dtype == "string":
            comments = np.where(
                block.validity("comment"), block.stored("comment"), np.array("", dtype=block.stored("comment").dtype)
            )
        for other in block.columns:
            if other not in _TOLD:
                report.dropped(f"{relation.block}/{other}", f"rows of {name} have no place for it")
        found.append(
            RelationRows(name, relation.block, relation.count, relation.kind, block.count, types, columns, comments)
        )
    return found


def _ends(block: Block, name: str, ids: NDArray[np.int64], node: str) -> NDArray[np.int64]:
    if name not in block.columns:
        raise UnsupportedError(f"{node}: the rows have no {name}, and LAMMPS needs it")
    valid = block.validity(name)
    if not valid.all():
        raise UnsupportedError(f"{node}/{name}: row {int((~valid).argmax())} names no atom, and LAMMPS needs one")
    rows: NDArray[np.int64] = ids[block.stored(name).astype(np.int64)]
    return rows
