"""Data files read one after the other (`read_data … add`) as one system.

Ids, molecule ids and types of a later file are shifted as the command says, positions too; the box grows to hold all
boxes, the tilt stays. Source: the manual, "read_data", tried on LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_lammps.data.checks import AtomIndex, check_each_once, check_endpoints, index_atoms
from molrec_lammps.data.file import DataFile, Table
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.data.sections import RELATIONS
from molrec_lammps.script.read_data import ReadData

__all__ = ["joined"]

_STRING = np.dtypes.StringDType()
_AXES = ("xlo xhi", "ylo yhi", "zlo zhi")
#: Columns that a file may leave out, and LAMMPS sets to zero.
_ZERO = frozenset({"ix", "iy", "iz", "vx", "vy", "vz"})


def joined(parts: Sequence[tuple[DataFile, ReadData]]) -> DataFile:
    """The system that LAMMPS has after reading these files in this order."""
    first = parts[0][0]
    if len(parts) == 1:
        return first
    for data, _ in parts:
        _check_plain(data, first)
    shifts = _shifts(parts)
    system = replace(first, header=replace(first.header, counts=dict(first.header.counts), box=dict(first.header.box)))
    _check_room(system, parts)
    system.atoms = _stacked([_atoms(data, words, shift) for (data, words), shift in zip(parts, shifts, strict=True)])
    if system.atoms is not None:
        system.index = _index(system, parts)
        system.header.counts["atoms"] = system.atoms.rows
    _join_velocities(system, parts, shifts)
    _join_relations(system, parts, shifts)
    _join_boxes(system, parts)
    system.remarks = [remark for data, _ in parts for remark in data.remarks]
    return system


def _index(system: DataFile, parts: Sequence[tuple[DataFile, ReadData]]) -> AtomIndex:
    """The rows of all atoms by id; each id once."""
    assert system.atoms is not None
    try:
        return index_atoms(system.path, system.atoms["id"], system.atoms.line)
    except FormatError:
        raise FormatError(
            parts[-1][0].path,
            found="atom ids that another file has too",
            expected="ids of their own, or 'add append' or an offset in read_data",
        ) from None


def _check_room(system: DataFile, parts: Sequence[tuple[DataFile, ReadData]]) -> None:
    """The first file, and the options of its command, say how many types there are."""
    extra = parts[0][1].extra_types
    for kind in TYPE_KINDS:
        room = system.header.count(f"{kind} types") + extra.get(kind, 0)
        for data, words in parts[1:]:
            names = ["Atoms"] if kind == "atom" else [name for name, rel in RELATIONS.items() if rel.kind == kind]
            tables = [data.atoms if name == "Atoms" else data.relations.get(name) for name in names]
            used = max((int(table["type"].max(initial=0)) for table in tables if table is not None), default=0)
            highest = used + words.type_offsets.get(kind, 0) if used else 0
            if highest > room:
                raise FormatError(
                    data.path,
                    found=f"{kind} type {highest} after the offset of read_data",
                    expected=f"no more than the {room} {kind} types of {system.path}",
                    hint=f"extra/{kind}/types of the first read_data makes room for more",
                )


def _check_plain(data: DataFile, first: DataFile) -> None:
    """Refuse what is not joined: other styles, labels that differ, sections of one file alone, general cells."""
    own, known = data.style, first.style
    if own is not None and known is not None and own.name != known.name:
        raise UnsupportedError(f"{data.path}: atom style {own.name}, and {first.path} has {known.name}")
    if data.labels and data.labels != first.labels:
        raise UnsupportedError(f"{data.path}: its type labels are not those of {first.path}, and are not matched")
    if data.header.general or first.header.general:
        raise UnsupportedError(f"{data.path}: files with a general cell are not joined")
    rest = [*data.shapes, *(["Bodies"] if data.bodies is not None else []), *data.properties]
    rest += [section.name for section in data.others]
    if rest:
        raise UnsupportedError(f"{data.path}: files with the section {rest[0]} are not joined")


def _shifts(parts: Sequence[tuple[DataFile, ReadData]]) -> list[tuple[int, int]]:
    """What is added to the atom and molecule ids of each file."""
    found: list[tuple[int, int]] = []
    highest = molecule = 0
    for data, words in parts:
        shift = (0, 0)
        if words.add == "append":
            shift = (highest, molecule)
        elif words.add == "offset":
            shift = (words.id_offset, words.molecule_offset)
        found.append(shift)
        if data.atoms is not None and data.atoms.rows:
            highest = max(highest, int(data.atoms["id"].max()) + shift[0])
            if "mol_id" in data.atoms.columns:
                molecule = max(molecule, int(data.atoms["mol_id"].max()) + shift[1])
    return found


def _atoms(data: DataFile, words: ReadData, shift: tuple[int, int]) -> Table | None:
    if data.atoms is None:
        return None
    columns = dict(data.atoms.columns)
    columns["id"] = columns["id"] + shift[0]
    columns["type"] = columns["type"] + words.type_offsets.get("atom", 0)
    if "mol_id" in columns:
        columns["mol_id"] = columns["mol_id"] + shift[1]
    for axis, distance in zip("xyz", words.shift, strict=True):
        if distance:
            columns[axis] = columns[axis] + distance
    return replace(data.atoms, columns=columns)


def _stacked(tables: Sequence[Table | None]) -> Table | None:
    """The rows of all tables, one after the other; columns some may leave out are zero there."""
    there = [table for table in tables if table is not None]
    if not there:
        return None
    names = list(dict.fromkeys(name for table in there for name in table.columns))
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        dtype = next(table[name].dtype for table in there if name in table.columns)
        columns[name] = np.concatenate(
            [table[name] if name in table.columns else np.zeros(table.rows, dtype=dtype) for table in there]
        )
    comments = None
    if any(table.comments is not None for table in there):
        comments = np.concatenate(
            [np.full(table.rows, "", dtype=_STRING) if table.comments is None else table.comments for table in there]
        )
    return Table(columns, there[0].line, sum(table.rows for table in there), comments)


def _join_velocities(
    system: DataFile, parts: Sequence[tuple[DataFile, ReadData]], shifts: Sequence[tuple[int, int]]
) -> None:
    if all(data.velocities is None for data, _ in parts) or system.atoms is None:
        return
    tables = []
    for (data, _), shift in zip(parts, shifts, strict=True):
        own = data.velocities
        if own is None and data.atoms is not None:
            own = Table({"id": data.atoms["id"]}, data.atoms.line, data.atoms.rows)
        if own is not None:
            tables.append(replace(own, columns={**own.columns, "id": own["id"] + shift[0]}))
    system.velocities = _stacked(tables)
    assert system.velocities is not None
    system.velocity_order = check_each_once(
        system.path, "Velocities", system.velocities["id"], system.velocities.line, system.index
    )


def _join_relations(
    system: DataFile, parts: Sequence[tuple[DataFile, ReadData]], shifts: Sequence[tuple[int, int]]
) -> None:
    system.relations, system.endpoints = {}, {}
    for name, relation in RELATIONS.items():
        tables = []
        for (data, words), shift in zip(parts, shifts, strict=True):
            if name in data.relations:
                table = data.relations[name]
                columns = {key: values + shift[0] for key, values in table.columns.items() if key != "type"}
                columns["type"] = table["type"] + words.type_offsets.get(relation.kind, 0)
                tables.append(replace(table, columns=columns))
        table_of_all = _stacked(tables)
        if table_of_all is None:
            continue
        ends = [key for key in table_of_all.columns if key != "type"]
        system.relations[name] = table_of_all
        system.endpoints[name] = check_endpoints(
            system.path, name, ends, table_of_all.columns, table_of_all.line, system.index
        )
        system.header.counts[relation.count] = table_of_all.rows


def _join_boxes(system: DataFile, parts: Sequence[tuple[DataFile, ReadData]]) -> None:
    """The box that holds all; the tilts must be the same."""
    low, high = system.header.bounds()
    for data, words in parts[1:]:
        mine, theirs = system.header.tilt(), data.header.tilt()
        if _listed(mine) != _listed(theirs):
            raise FormatError(
                data.path,
                f"line {data.header.lines.get('xy xz yz', 2)}",
                found=f"the tilts {_shown(theirs)}",
                expected=f"those of {system.path}, {_shown(mine)}",
            )
        own_low, own_high = data.header.bounds()
        low, high = np.minimum(low, own_low + words.shift), np.maximum(high, own_high + words.shift)
    for axis, pair in zip(_AXES, zip(low.tolist(), high.tolist(), strict=True), strict=True):
        system.header.box[axis] = pair


def _listed(tilt: NDArray[np.float64] | None) -> list[float] | None:
    return None if tilt is None else tilt.tolist()


def _shown(tilt: NDArray[np.float64] | None) -> str:
    return "none" if tilt is None else " ".join(f"{value:g}" for value in tilt)
