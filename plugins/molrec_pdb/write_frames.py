"""Frames as their writer takes them: every column of the atoms, whichever section and block it is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Block, Box, Column, Frame, Record, Trajectory
from molrec_convert.quantities.units import unit_of_quantity
from molrec_convert.report import Report

__all__ = ["ATOMS", "OutFrame", "check_lengths", "frames_of", "mask_of", "report_left"]

ATOMS = "atoms"
#: Quantities whose units are those of the format, or of its titles.
_UNITS = frozenset({"length", "time"})


@dataclass
class OutFrame:
    """One frame: all columns of its atoms, those of them that are its own, its cell."""

    columns: dict[str, Column]
    own: frozenset[str]
    count: int
    frame: Frame
    box: Box | None


def _atom_blocks(trajectory: Trajectory) -> list[str]:
    """The blocks whose rows are atoms."""
    blocks = trajectory.declaration.blocks
    return [
        name for name, block in blocks.items() if name == ATOMS or block.aligned_with == ATOMS or block.settles == ATOMS
    ]


def frames_of(record: Record) -> Iterator[OutFrame]:
    """The frames of a record: of its trajectory, else the section `frame`, else what `system` has."""
    system = record.system or Frame()
    fixed = dict(system.blocks[ATOMS].columns) if ATOMS in system.blocks else {}
    count = system.blocks[ATOMS].count if ATOMS in system.blocks else None
    if record.trajectory is None:
        frame = record.frame or Frame()
        block = frame.blocks.get(ATOMS, Block({}, count=count or 0))
        rows = block.count if count is None else count
        yield OutFrame(fixed | block.columns, frozenset(block.columns), rows, frame, frame.box or system.box)
        return
    names = _atom_blocks(record.trajectory)
    for frame in record.trajectory:
        own: dict[str, Column] = {}
        rows = count or 0
        for name in names:
            if name in frame.blocks:
                own |= frame.blocks[name].columns
                rows = frame.blocks[name].count
        yield OutFrame(fixed | own, frozenset(own), rows, frame, frame.box or system.box)


def report_left(record: Record, report: Report, written: frozenset[str], keys: frozenset[str]) -> None:
    """Report columns, blocks and values per step that the file has no place for; `written` are columns of atoms."""
    system = record.system or Frame()
    snapshots = [("system", system), *([("frame", record.frame)] if record.frame is not None else [])]
    names: dict[str, list[str]] = {}
    for section, snapshot in snapshots:
        for block, entry in snapshot.blocks.items():
            names.setdefault(block, []).extend(entry.columns)
        for key in snapshot.meta:
            if key not in keys:
                report.dropped(f"{section}/meta/{key}", "the format has no place for it")
    atom_blocks = {ATOMS}
    if record.trajectory is not None:
        atom_blocks |= set(_atom_blocks(record.trajectory))
        for block, declared in record.trajectory.declaration.blocks.items():
            names.setdefault(block, []).extend(declared.columns)
        for key in record.trajectory.declaration.meta:
            if key != "model":
                report.dropped(f"trajectory/meta/{key}", "the format has no place for it")
    for block, columns in names.items():
        if block in atom_blocks:
            for column in dict.fromkeys(columns):
                if column not in written:
                    report.dropped(f"atoms/{column}", "the format has no column for it")
        elif block == "bonds" and "bonds" in system.blocks:
            for column in dict.fromkeys(columns):
                if column not in ("atomi", "atomj", "kind", "bond_type"):
                    report.dropped(f"bonds/{column}", "the format has no place for it")
        else:
            report.dropped(block, "the format has no place for it")


def check_lengths(units: Any, report: Report) -> None:
    """Raise UnsupportedError for lengths in anything but angstroms; report units that the file does not state."""
    stated = {"preset": units} if isinstance(units, str) else units if isinstance(units, dict) else {}
    length = unit_of_quantity(stated, "length")
    if length not in (None, "angstrom"):
        raise UnsupportedError(
            f"the record's lengths are in {length}, and the format's in angstroms: no file is written of them"
        )
    others = sorted(stated.keys() - _UNITS)
    if others:
        report.dropped("system/meta/units", f"{', '.join(others)}: the file has angstroms and picoseconds alone")


def mask_of(column: Column) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Where a column holds a value."""
    return np.ones(len(column), np.bool_) if column.validity is None else column.validity
