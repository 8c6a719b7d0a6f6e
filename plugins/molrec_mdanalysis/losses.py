"""What a format MDAnalysis writes has no place for, told before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.meaning.quantities import atom_blocks, quantity
from molrec_convert.model import Block, BlockUpdates, Column, Frame, Record
from molrec_convert.report import Report
from molrec_mdanalysis.frames import ATOMS
from molrec_mdanalysis.names import COLUMNS, RELATIONS, STATE, is_oriented

__all__ = [
    "ELSEWHERE",
    "ROOMS",
    "Room",
    "arrays_of",
    "check_frame",
    "check_writable",
    "ids_serve",
    "predict_atoms",
    "predict_frames",
]


@dataclass(frozen=True)
class Room:
    """What a format holds of a record, and how.

    `arrays` of a time step; `attributes` of atoms, of `either` the first that is there; `relations`, with their types
    where `typed`. `cell`: "each" frame's, only the "first", or "" none; `times`: "each" frame's, the "interval" between
    two, or "" none. `widths`: characters a text may have, or the largest number, from which on it is cut; `decimals` of
    an attribute's numbers. `counts`: atoms are numbered from 1 on when they are read, whatever their ids were.
    `sparse`: a frame may lack arrays that others have.
    """

    arrays: tuple[str, ...]
    attributes: frozenset[str] = frozenset()
    relations: tuple[str, ...] = ()
    cell: str = "each"
    times: str = ""
    steps: bool = False
    digits: str = "single precision"
    either: tuple[str, ...] = ()
    typed: bool = False
    widths: Mapping[str, int] = field(default_factory=dict)
    decimals: Mapping[str, int] = field(default_factory=dict)
    counts: bool = False
    data: frozenset[str] = frozenset()
    sparse: bool = False


def _room(arrays: str, attributes: str = "", relations: str = "", **rest: object) -> Room:
    made = Room(tuple(arrays.split()), frozenset(attributes.split()), tuple(relations.split()))
    return Room(**{**vars(made), **rest})


_PDB = _room(
    "positions",
    "names resids resnames icodes segids chainIDs altLocs occupancies tempfactors elements record_types ids "
    "formalcharges",
    "bonds",
    cell="first",
    digits="0.001 Å",
    widths={
        "names": 4, "resnames": 4, "segids": 4, "altLocs": 1, "icodes": 1, "chainIDs": 1, "resids": 9999, "ids": 99999,
    },
    decimals={"occupancies": 2, "tempfactors": 2},
)  # fmt: skip

#: Format, as MDAnalysis calls it → its room.
ROOMS: dict[str, Room] = {
    "DCD": _room("positions", times="interval"),
    "XTC": _room("positions", times="each", steps=True, digits="0.01 Å"),
    "TRR": _room("positions velocities forces", times="each", steps=True, sparse=True),
    "NCDF": _room("positions velocities forces", times="each"),
    "TRZ": _room("positions velocities", times="each"),
    "H5MD": _room("positions velocities forces", times="each", steps=True),
    "GRO": _room(
        "positions velocities", "names resids resnames ids", digits="0.01 Å", counts=True,
        widths={"names": 5, "resnames": 5, "resids": 99999, "ids": 99999},
    ),
    "CRD": _room(
        "positions", "names resids resnames tempfactors", cell="", digits="5 decimals", counts=True,
        either=("chainIDs", "segids"), decimals={"tempfactors": 5},
        widths={"names": 4, "resnames": 4, "chainIDs": 4, "segids": 4, "resids": 9999},
    ),
    "PQR": _room(
        "positions", "names resids resnames segids charges radii", cell="", digits="0.001 Å", counts=True,
        decimals={"charges": 4, "radii": 4}, widths={"names": 4, "resnames": 4, "segids": 1, "resids": 9999},
    ),
    "PDBQT": _room(
        "positions", "names resids resnames icodes segids occupancies tempfactors charges types",
        digits="0.001 Å", counts=True, decimals={"occupancies": 2, "tempfactors": 2, "charges": 3},
        widths={"names": 4, "resnames": 4, "icodes": 1, "segids": 1, "types": 2, "resids": 9999},
    ),
    "PDB": _PDB,
    "DATA": _room(
        "positions velocities", "types masses charges", "bonds angles dihedrals impropers", typed=True, counts=True,
        digits="10 decimals", decimals={"charges": 6},
    ),
    "XYZ": _room("positions", cell="", digits="5 decimals", either=("elements", "names"), counts=True),
    "COOR": _room("positions", cell="", digits="double precision, of numbers of single precision"),
    "IN": _room("positions velocities", "names", digits="8 decimals", counts=True),
    "MOL2": _room(
        "positions", "names types resids resnames charges", "bonds", cell="", digits="4 decimals", counts=True,
        decimals={"charges": 4}, data=frozenset(("molecule", "substructure")),
    ),
}  # fmt: skip
ROOMS |= {"NC": ROOMS["NCDF"], "ENT": ROOMS["PDB"], "NAMDBIN": ROOMS["COOR"], "FHIAIMS": ROOMS["IN"]}
ROOMS["LAMMPS"] = ROOMS["DCD"]

#: Formats MDAnalysis reads and does not write, and who does: the name of a format here.
ELSEWHERE = {
    "LAMMPSDUMP": "lammps-dump", "DUMP": "lammps-dump", "LAMMPSTRJ": "lammps-dump", "CIF": "mmcif", "MMCIF": "mmcif",
    "PDBX": "mmcif", "XPDB": "pdb", "TRAJ": "ase-traj", "EXTXYZ": "extxyz",
}  # fmt: skip


_BLOCKS = {block: name for name, (block, _) in RELATIONS.items()}
_STATE = {column: name for name, columns in STATE.items() for column in columns}
_OF_IDS = ("id", "serial")
#: Columns that are the names of atoms.
_NAMES = {column for column, attribute in COLUMNS.items() if attribute == "names"} | {"names"}


def check_writable(record: Record, frame: Frame | None, wanted: str, *, many: bool) -> None:
    """UnsupportedError where MDAnalysis' writer would refuse, with what to do instead."""
    if frame is None:
        raise UnsupportedError(f"{wanted} holds coordinates, and the record has none")
    _check_counts(record, frame)
    columns = _columns(record, frame)
    if wanted == "MOL2":
        declared = record.trajectory.declaration.meta if record.trajectory is not None else {}
        if "molecule" not in declared or "charge" not in columns:
            raise UnsupportedError(
                "MDAnalysis writes MOL2 only of what was read from MOL2; as a PDB file it has names, residues and bonds"
            )
    if wanted == "DATA":
        name = next((name for name in ("type", "type_id") if name in columns), None)
        texts = [] if name is None else [str(value) for value in set(columns[name].values.tolist())]
        if not texts or not all(text.isdigit() and int(text) > 0 for text in texts):
            raise UnsupportedError(
                "MDAnalysis writes LAMMPS data files only of atoms whose types are numbers from 1 on; the format "
                "lammps-data numbers them (--to lammps-data)"
            )
    _check_numbers(columns, wanted)
    _check_missing(record, wanted, many=many)


def _columns(record: Record, frame: Frame | None) -> dict[str, Column]:
    """Return the columns of the atoms, those of the system and of the first frame."""
    blocks = [part[ATOMS] for part in (record.system, frame) if part is not None and ATOMS in part.blocks]
    return {name: column for block in blocks for name, column in block.columns.items()}


def _check_numbers(columns: Mapping[str, Column], wanted: str) -> None:
    """Refuse masses, charges and radii some atoms have none of where the format has a number for each."""
    room = ROOMS.get(wanted)
    for name in ("mass", "charge", "radius"):
        column = columns.get(name)
        if room is None or column is None or COLUMNS[name] not in room.attributes:
            continue
        known = ~np.isnan(column.values) if column.validity is None else column.validity & ~np.isnan(column.values)
        if not known.all():
            raise UnsupportedError(
                f"{wanted} has a {name} of every atom, and {int((~known).sum())} of {len(known)} have none: leave the "
                f"column {name} out, or state it"
            )


def _check_missing(record: Record, wanted: str, *, many: bool) -> None:
    """Refuse positions, velocities, forces that are null in a frame, as far as the format cannot hold that."""
    trajectory = record.trajectory
    declared = {} if trajectory is None else trajectory.declaration.blocks
    if trajectory is None or ATOMS not in declared or (not many and trajectory.n_frames is None):
        return
    names = [name for name in arrays_of(wanted) if any(c in declared[ATOMS].columns for c in STATE[name])]
    nullable = [
        f"{ATOMS}/{column}"
        for name in names
        for column in STATE[name]
        if column in declared[ATOMS].columns and declared[ATOMS].columns[column].nullable
    ]
    if not nullable:
        return
    first = 0 if many else (trajectory.n_frames or 1) - 1
    number, before = first, None
    for batch in trajectory.batches(first, columns=nullable):
        updates = batch.blocks.get(ATOMS)
        for place in range(0 if updates is None else len(updates.frames)):
            assert updates is not None
            rows = updates.rows_of(place)
            there = {name: _presence(updates, rows, STATE[name]) for name in names}
            check_frame(number + int(updates.frames[place]), there, before, wanted)
            before = before or there
        number += batch.n_frames


def _presence(updates: BlockUpdates, rows: slice, columns: tuple[str, ...]) -> bool | None:
    """True if all numbers are there, False if none is, None for some of them."""
    masks = [updates.validity[column][rows] for column in columns if column in updates.validity]
    if all(bool(mask.all()) for mask in masks):
        return True
    return None if any(bool(mask.any()) for mask in masks) else False


def arrays_of(wanted: str) -> tuple[str, ...]:
    """Return which of positions, velocities and forces a format holds."""
    return ROOMS[wanted].arrays if wanted in ROOMS else tuple(STATE)


def check_frame(
    number: int, there: Mapping[str, bool | None], first: Mapping[str, bool | None] | None, wanted: str
) -> None:
    """Refuse a frame the format cannot hold: numbers of some atoms missing, or an array the first frame has.

    `there`: whether the frame has an array, None where some of its numbers are missing; `first`: the same of the first
    frame, None where this is it.
    """
    sparse = wanted in ROOMS and ROOMS[wanted].sparse
    for name, has in there.items():
        if has is None:
            raise UnsupportedError(
                f"frame {number} lacks {name} of some atoms, and {wanted} holds them of all: choose other frames "
                "(--frames) or columns (--columns)"
            )
        if sparse:
            continue
        if name == "positions" and not has:
            raise UnsupportedError(
                f"frame {number} has no positions, and {wanted} holds them in every frame (--frames)"
            )
        if first is not None and has != first[name]:
            lacking, other = f"frame {number}", "the first one"
            lacking, other = (other, lacking) if has else (lacking, other)
            raise UnsupportedError(
                f"{lacking} has no {name}, {other} has: {wanted} holds them in all frames or in none; TRR takes such "
                "frames, --columns leaves columns out, --frames frames"
            )


def _check_counts(record: Record, frame: Frame) -> None:
    """Refuse numbers of atoms that change, as far as the declaration and the last frame tell without reading all."""
    trajectory = record.trajectory
    if trajectory is None or ATOMS not in frame.blocks or ATOMS not in trajectory.declaration.blocks:
        return
    first = frame[ATOMS].count
    others = [trajectory.declaration.blocks[ATOMS].rows]
    if trajectory.n_frames:
        last = trajectory.frame(trajectory.n_frames - 1)
        others.append(last[ATOMS].count if ATOMS in last.blocks else None)
    other = next((count for count in others if count is not None and count != first), None)
    if other is not None:
        raise UnsupportedError(
            f"the first frame has {first} atoms, another {other}; MDAnalysis' trajectories have the same atoms in "
            "every frame"
        )


def predict_atoms(record: Record, frame: Frame | None, room: Room, wanted: str, report: Report) -> None:
    """Columns and relations."""
    aligned = [ATOMS, *(() if record.trajectory is None else atom_blocks(record.trajectory.declaration))]
    columns = {name for part in (record.system, frame) if part is not None for block in aligned if block in part.blocks
               for name in part[block].columns}  # fmt: skip
    chosen = next((name for name in room.either if any(COLUMNS.get(c, c) == name for c in columns)), None)
    attributes = room.attributes | ({chosen} if chosen is not None else set())
    for section, part in (("system", record.system), ("frame", frame)):
        if part is None:
            continue
        where = "trajectory" if section == "frame" and record.trajectory is not None else section
        for block_name, block in part.blocks.items():
            if block_name not in aligned:
                _predict_relation(f"{where}/{block_name}", block, _BLOCKS.get(block_name), room, wanted, report)
                continue
            for name in block.columns:
                if block_name != ATOMS and name in _STATE:
                    report.dropped(f"{where}/{block_name}/{name}", f"MDAnalysis has it of the block {ATOMS}")
                    continue
                if name == "element" and "names" in attributes and not _NAMES & columns:
                    report.converted(f"{where}/{block_name}/{name}", "as the names of the atoms")
                    continue
                _predict_column(f"{where}/{block_name}/{name}", name, block, attributes, room, wanted, report)
    _predict_names(record, columns, room, wanted, report)
    _predict_changes(record, attributes, wanted, report)
    report.converted("numbers of the frames", f"as {wanted} holds them: {room.digits}")


def _predict_changes(record: Record, attributes: frozenset[str] | set[str], wanted: str, report: Report) -> None:
    """Name columns that change from frame to frame: MDAnalysis has those of the first frame in all."""
    trajectory = record.trajectory
    if trajectory is None or trajectory.n_frames == 1:
        return
    declared = trajectory.declaration.blocks
    changing = [
        f"{block}/{name}"
        for block in atom_blocks(trajectory.declaration)
        for name in declared[block].columns
        if name not in _STATE and _attribute(name) in attributes
    ]
    if not changing:
        return
    first: dict[str, NDArray[Any]] = {}
    for batch in trajectory.batches(columns=changing):
        for item in list(changing):
            block, _, name = item.partition("/")
            if block not in batch.blocks or name not in batch.blocks[block].columns:
                continue
            updates = batch.blocks[block]
            values = updates.columns[name]
            own = first.setdefault(item, values[updates.rows_of(0)])
            if len(own) and len(values) % len(own) == 0 and bool((values.reshape(-1, len(own)) != own).any()):
                report.dropped(f"trajectory/{item} of later frames", f"{wanted} has those of the first frame in all")
                changing.remove(item)


def _predict_names(record: Record, columns: set[str], room: Room, wanted: str, report: Report) -> None:
    """Say what stands for the names of atoms where there are none: elements, else what MDAnalysis writes, X."""
    if "name" in columns or "names" not in {*room.attributes, *room.either}:
        return
    if quantity(record, "element", frames=0) is not None:
        if "elements" not in room.either and "element" not in columns:
            report.derived("names", "the elements, as the record has no names of atoms")
        return
    known = quantity(record, "type", frames=0)
    labels = [] if known is None else [str(label) for label in np.unique(np.ma.getdata(known)).tolist()]
    said = f" (types {', '.join(labels[:4])}{', ...' if len(labels) > 4 else ''})" if labels else ""
    report.warn(
        f"{wanted} holds names of atoms, and the record has neither names nor elements{said}: every atom comes out as "
        f"X; --elements names the element of each type, as in --elements {','.join('CHON'[: max(1, len(labels))])}"
    )


def _attribute(name: str) -> str:
    """Return the attribute of MDAnalysis a column is."""
    return "ids" if name in _OF_IDS else "resids" if name == "res_seq" else COLUMNS.get(name, name)


def _predict_column(
    item: str, name: str, block: Block, attributes: frozenset[str] | set[str], room: Room, wanted: str, report: Report
) -> None:
    attribute = _attribute(name)
    values = block.columns[name].values
    if _STATE.get(name) in room.arrays:
        return
    if attribute not in attributes:
        counted = attribute == "ids" and room.counts and bool((values == np.arange(1, len(values) + 1)).all())
        if not counted:
            report.dropped(item, f"{wanted} has no place for it")
        return
    if attribute == "ids" and "bonds" in room.relations and not ids_serve(values, room):
        report.dropped(item, f"{wanted} has numbers up to {room.widths['ids']}, each once: atoms are counted from 1")
        return
    width = room.widths.get(attribute)
    if width is not None:
        wide = _too_wide(values, width)
        if wide:
            report.dropped(item, f"{wide} of {len(values)} are cut: {wanted} has room for {_what(values, width)}")
    decimals = room.decimals.get(attribute)
    if decimals is not None and values.dtype.kind == "f" and not np.array_equal(values, np.round(values, decimals)):
        report.converted(item, f"rounded to {decimals} decimals")


def ids_serve(ids: NDArray[Any], room: Room) -> bool:
    """True if ids can stand for the atoms in a file that says by them which are bonded."""
    return bool(ids.min() >= 0 and ids.max() <= room.widths["ids"] and len(np.unique(ids)) == len(ids))


def _too_wide(values: NDArray[Any], width: int) -> int:
    if values.dtype.kind in "iu":
        return int((values > width).sum())
    return int((np.strings.str_len(values) > width).sum()) if values.dtype.kind == "T" else 0


def _what(values: NDArray[Any], width: int) -> str:
    return f"{width} characters" if values.dtype.kind == "T" else f"numbers up to {width}"


def _predict_relation(item: str, block: Block, relation: str | None, room: Room, wanted: str, report: Report) -> None:
    if relation not in room.relations:
        report.dropped(item, f"{wanted} has no place for it")
    elif not room.typed and "type" in block.columns:
        report.dropped(f"{item}/type", f"{wanted} has no place for it")
    if relation in room.relations and wanted != "MOL2":
        for name in ("bond_type", "order"):
            if name in block.columns:
                report.dropped(f"{item}/{name}", f"{wanted} has no place for it")


def predict_frames(record: Record, frame: Frame | None, room: Room, wanted: str, report: Report) -> None:
    """Cells, times, steps, values per step."""
    if frame is not None and frame.box is not None and frame.box.defined:
        _predict_cell(record, frame, room, wanted, report)
    trajectory = record.trajectory
    if trajectory is None:
        return
    for key in trajectory.declaration.meta:
        if key not in ("dt", "dimensions") and key not in room.data and not (key == "source_step" and room.steps):
            report.dropped(f"trajectory/meta/{key}", f"{wanted} has no place for it")
    if frame is not None and frame.time is not None and room.times != "each":
        if room.times:
            report.converted("times", "as the time between the first two frames")
        else:
            report.dropped("times", f"{wanted} has no place for them")
    if not room.steps and trajectory.n_frames != 1:
        report.dropped("step numbers", f"{wanted} has no place for them")


def _predict_cell(record: Record, frame: Frame, room: Room, wanted: str, report: Report) -> None:
    assert frame.box is not None
    if not room.cell:
        report.dropped("cells", f"{wanted} has no place for them")
        return
    if room.cell == "first" and _cells_change(record):
        report.dropped("cells but the first", f"{wanted} holds one for all frames")
    if not is_oriented(frame.box.vectors):
        report.dropped("orientation of the cell", "MDAnalysis holds lengths and angles; atoms are not rotated")
    if frame.box.origin.any():
        report.dropped("origin of the cell", "MDAnalysis' cells have none")
    if not frame.box.boundary.all():
        report.dropped("boundaries of the cell", "MDAnalysis' cells are periodic")


def _cells_change(record: Record) -> bool:
    """True if any frame has another cell than the first."""
    first = None
    for batch in record.trajectory.batches(columns=()) if record.trajectory is not None else ():
        if batch.box is None or not len(batch.box.frames):
            continue
        first = batch.box.vectors[0] if first is None else first
        if bool((batch.box.vectors != first).any()):
            return True
    return False
