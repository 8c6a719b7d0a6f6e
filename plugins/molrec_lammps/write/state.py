"""The state of a record that a single file holds: atoms with all that is known of them, relations, the cell.

What a particle is stands in `system`, where it is in `frame` or in the trajectory; a file of LAMMPS has both in one
table. Source: Record, "Sections".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Block, Box, Column, Frame, Record
from molrec_convert.report import Report

__all__ = [
    "ATOMS",
    "State",
    "aligned_blocks",
    "lammps_document",
    "last_frame",
    "report_meta",
    "state_of",
]

ATOMS = "atoms"


@dataclass
class State:
    """One state: columns of the atoms by name, the other blocks, the cell, and the step it is of (None: unknown)."""

    count: int
    atoms: dict[str, Column]
    blocks: dict[str, Block] = field(default_factory=dict)
    box: Box | None = None
    step: int | None = None
    unwrapped: bool = False

    def values(self, name: str) -> NDArray[Any]:
        """The values of a column."""
        return self.atoms[name].values


def lammps_document(record: Record) -> dict[str, Any]:
    """What a data file said beyond its columns (meta key `lammps` of `system`), {} for a record from elsewhere."""
    found = None if record.system is None else record.system.meta.get("lammps")
    return found if isinstance(found, dict) else {}


def state_of(record: Record, report: Report) -> State:
    """The state in `frame`, without one the last frame of the trajectory; `system` alone where there is neither.

    UnsupportedError: there are no atoms.
    """
    frame = record.frame
    if record.trajectory is not None and (frame is None or "x" not in frame.blocks.get(ATOMS, {})):
        frame = last_frame(record, report)
    elif record.trajectory is not None:
        report.dropped(
            "trajectory", "one state is written, that of the section frame; a dump (--to lammps-dump) holds all"
        )
    system = Frame() if record.system is None else record.system
    layers = [system] if frame is None else [system, frame]
    tables = [layer.blocks[ATOMS] for layer in layers if ATOMS in layer.blocks]
    if not tables:
        raise UnsupportedError("the record holds no atoms, and a LAMMPS file is made of them")
    count = tables[-1].count
    if tables[0].count != count:
        report.dropped("system/atoms", f"has {tables[0].count} rows, the state {count}: they cannot be told apart")
        tables = tables[1:]
    columns = {name: column for table in tables for name, column in table.columns.items()}
    blocks = {name: block for layer in layers for name, block in layer.blocks.items() if name != ATOMS}
    if frame is not None and record.trajectory is not None and frame is not record.frame:
        for name in aligned_blocks(record):
            block = blocks.pop(name, None)
            if block is not None and block.count == count:
                columns.update(block.columns)
    boxes = [layer.box for layer in layers if layer.box is not None and layer.box.defined]
    unwrapped = any(layer.meta.get("coordinates") == "unwrapped" for layer in layers)
    step = None if frame is None else frame.step
    return State(count, columns, blocks, boxes[-1] if boxes else None, step, unwrapped)


def aligned_blocks(record: Record) -> list[str]:
    """The blocks of the trajectory whose rows are those of the atoms."""
    if record.trajectory is None:
        return []
    blocks = record.trajectory.declaration.blocks
    return [name for name, block in blocks.items() if block.aligned_with in (ATOMS, f"/system/{ATOMS}")]


def report_meta(record: Record, kept: Collection[str], report: Report, what: str) -> None:
    """Report what a record says beside columns and cells: keys of `system`, of `frame`, of every frame.

    `kept` are the keys of `system` that are written; `what` is what has no place for the others.
    """
    found = [] if record.system is None else [f"system/meta/{key}" for key in record.system.meta if key not in kept]
    found += [] if record.frame is None else [f"frame/meta/{key}" for key in record.frame.meta]
    if record.trajectory is not None:
        found += [f"trajectory/meta/{key}" for key in record.trajectory.declaration.meta]
    for node in found:
        report.dropped(node, f"{what} has no place for it")


def last_frame(record: Record, report: Report) -> Frame | None:
    """The last frame of the trajectory, the others reported; None when it has none."""
    trajectory = record.trajectory
    assert trajectory is not None
    count = trajectory.n_frames
    if count is None:
        last, count = None, 0
        for frame in trajectory:
            last, count = frame, count + 1
    else:
        last = trajectory[count - 1] if count else None
    if count > 1 and last is not None:
        report.dropped(
            "trajectory",
            f"one state is written, the last of {count} frames (step {last.step}); --frames picks another, a dump "
            "(--to lammps-dump) holds all",
        )
    return last
