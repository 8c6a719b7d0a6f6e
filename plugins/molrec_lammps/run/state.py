"""What a data file states of its atoms beside a dump: properties join the system, a state of its own cannot.

A density or a shape is what a particle is, and belongs to every frame. Velocities, image flags or a direction are those
of one moment: where the dump does not state them, a record whose frames are the dump's has no place for them. A dump
without positions (of forces alone) leaves the state to the data file: it is the section `frame`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block, Column, Frame, Record
from molrec_convert.report import Report
from molrec_lammps.data.file import DataFile
from molrec_lammps.data.record import data_frame

__all__ = ["keep_state", "with_properties"]

_IMAGES = ("ix", "iy", "iz")
#: Columns that change while a run goes on. All others of a data file are what an atom is.
_MOMENTARY = frozenset(f"corner{corner}{axis}" for corner in "123" for axis in "xyz") | {
    *("x", "y", "z", "ix", "iy", "iz", "vx", "vy", "vz", "ervel", "velocity_comment"),
    *("omegax", "omegay", "omegaz", "angmomx", "angmomy", "angmomz", "quatw", "quati", "quatj", "quatk"),
    *("end1x", "end1y", "end2x", "end2y", "mux", "muy", "muz", "spx", "spy", "spz"),
    *("theta", "edpd_temp", "rho", "esph", "status", "eradius", "cs_re", "cs_im", "curvature"),
}
#: Columns that LAMMPS takes as zero where a data file does not state them: zeros say nothing.
_ZERO = {name for name in _MOMENTARY if name in _IMAGES or name.startswith(("v", "omega", "angmom", "ervel"))}
#: What the dump calls a column of a data file, where it has another name.
_ELSEWHERE = {"ix": "image_x", "iy": "image_y", "iz": "image_z"}
_BODIES = ("bodies", "body_integers", "body_numbers")


def with_properties(
    system: Frame, data: DataFile, boundary: Sequence[bool] | None, report: Report
) -> tuple[Frame, Frame]:
    """The system with the columns of the data file that say what an atom is; and the rest, which is of one moment.

    `boundary` says which axes are periodic, where the commands do.
    """
    state = data_frame(data, Report(), boundary=boundary)
    atoms = state.blocks["atoms"]
    lasting = {name: column for name, column in atoms.columns.items() if not _momentary(name)}
    own = system.blocks["atoms"]
    added = {name: column for name, column in lasting.items() if name not in own.columns}
    if added:
        report.carried(
            f"{' '.join(added)} of {Path(data.path).name}", "columns of the system, where the dump does not state them"
        )
        block = Block({**own.columns, **added}, count=own.count, targets=own.targets, attributes=own.attributes)
        system = replace(system, blocks={**system.blocks, "atoms": block})
    rest = {name: column for name, column in atoms.columns.items() if _momentary(name)}
    return system, Frame({**state.blocks, "atoms": Block(rest, count=atoms.count)}, box=state.box)


def keep_state(state: Frame, data: DataFile, record: Record, report: Report) -> None:
    """Make the data file's state the section `frame`, where the dump states no positions of the atoms.

    Where it does, report which of that state the trajectory states, and which is nowhere.
    """
    assert record.trajectory is not None
    blocks = record.trajectory.declaration.blocks.values()
    stated = {name for block in blocks for name in block.columns}
    atoms = None if record.system is None else record.system.blocks.get("atoms")
    settled = set() if atoms is None else set(atoms.columns)
    if not {"x", "y", "z"} <= stated | settled and "id" in settled and atoms is not None:
        rows = np.flatnonzero(np.isin(data.index.ids, atoms.stored("id")))
        if len(rows) == atoms.count:
            record.frame = _of_rows(state, rows, data, report)
            return
    _report_state(stated, state, data, record, report)


def _of_rows(state: Frame, rows: NDArray[np.int64], data: DataFile, report: Report) -> Frame:
    """The state of some atoms of the data file, in order of ids."""
    block = state.blocks["atoms"]
    columns = {
        name: Column(column.values[rows], None if column.validity is None else column.validity[rows])
        for name, column in block.columns.items()
    }
    blocks = {"atoms": Block(columns, count=len(rows))}
    others = [name for name in _BODIES if name in state.blocks]
    if len(rows) == block.count:
        blocks |= {name: state.blocks[name] for name in others}
    elif others:
        report.dropped(f"{' '.join(others)} of {Path(data.path).name}", "the dump holds a part of the atoms")
    report.carried(
        f"{' '.join(columns)} of {Path(data.path).name}", "in the section frame: the dump states no positions"
    )
    return Frame(blocks, box=state.box)


def _report_state(stated: Set[str], state: Frame, data: DataFile, record: Record, report: Report) -> None:
    unwrapped = record.system is not None and record.system.meta.get("coordinates") == "unwrapped"
    columns = state.blocks["atoms"].columns
    file = Path(data.path).name
    lost: list[str] = []
    still: list[str] = []
    for name, column in columns.items():
        if name in stated or _ELSEWHERE.get(name) in stated or (name in _IMAGES and unwrapped):
            continue
        (still if name in _ZERO and _is_zero(column) else lost).append(name)
    taken = [name for name in columns if name not in (*lost, *still)]
    if taken:
        report.converted(f"{' '.join(taken)} of {file}", "the trajectory has its own, which are taken")
    if still:
        report.converted(f"{' '.join(still)} of {file}", "zero for all atoms, as LAMMPS takes what is not stated")
    lost += [name for name in _BODIES if name in state.blocks]
    if lost:
        report.dropped(
            f"{' '.join(lost)} of {file}",
            "the state of one moment, which the dump does not state: the frames are the dump's; "
            f"mrec convert {shlex.quote(str(data.path))} {Path(data.path).stem}.mrec keeps it",
        )


def _momentary(name: str) -> bool:
    return name in _MOMENTARY or (name.startswith("cc") and name[2:].isdigit())


def _is_zero(column: Column) -> bool:
    """Whether a column of numbers is zero in every row."""
    return column.values.dtype.kind in "if" and not np.any(column.values)
