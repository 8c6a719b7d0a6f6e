"""Local and grid dumps joined to a record: which block each becomes, beside what the record already says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Frame, Record, Trajectory
from molrec_convert.report import Report
from molrec_lammps.common.units import UNITS, check_units
from molrec_lammps.dump.facts import RunFacts
from molrec_lammps.dump.grid import GridBlock, grid_block
from molrec_lammps.dump.local import LocalBlock, local_block
from molrec_lammps.dump.side import SideDump, open_side
from molrec_lammps.dump.sided import BareTrajectory, SidedTrajectory

__all__ = ["OpenSide", "SideSource", "add_sides", "bare_record", "open_sides", "without_restated"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SideSource:
    """The files of one local or grid dump, its ID where a script tells, and what its columns `c_ID[n]` are.

    `pieces`: the files are of single processors, each with a part of every frame.
    """

    files: tuple[Path, ...]
    id: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    pieces: bool = False


@dataclass
class OpenSide:
    """A local or grid dump whose frames are known."""

    source: SideSource
    dump: SideDump

    @property
    def is_grid(self) -> bool:
        """Whether it is a grid dump."""
        return self.dump.first.shape is not None

    def relation(self, report: Report) -> LocalBlock | None:
        """The relation it states when the atoms have ids, None when it states none."""
        if self.is_grid:
            return None
        block = local_block(self.dump, self.source.attributes, True, report)
        return block if block.references else None


def open_sides(sources: Sequence[SideSource], report: Report, steps: str) -> list[OpenSide]:
    """Index local and grid dumps; `steps` is `--steps`."""
    return [OpenSide(source, open_side(source.files, report, steps, pieces=source.pieces)) for source in sources]


def without_restated(facts: RunFacts, sides: Sequence[OpenSide], report: Report) -> RunFacts:
    """The facts without the relations that local dumps state otherwise: these change, and are in the trajectory."""
    if facts.system is None or facts.atoms is None:
        return facts
    gone = []
    for side in sides:
        block = side.relation(Report())
        if block is not None and block.name in facts.system.blocks and not _restates(block, facts):
            gone.append(block.name)
            report.dropped(
                f"{block.name} of the data file", f"{side.dump.name} states others: they are in trajectory/{block.name}"
            )
    if not gone:
        return facts
    system = facts.system
    blocks = {name: block for name, block in system.blocks.items() if name not in gone}
    return replace(facts, system=Frame(blocks, system.meta, system.box, system.step, system.time))


def _restates(block: LocalBlock, facts: RunFacts) -> bool:
    """Whether the first and the last frame of a dump state the very relation of the data file."""
    assert facts.system is not None
    assert facts.atoms is not None
    stated = facts.system.blocks[block.name]
    counts = block.dump.counts
    if (counts != stated.count).any():
        return False
    ids = facts.atoms.stored("id").view(np.int64)
    names = [name for name in ("atomi", "atomj", "atomk", "atoml") if name in stated.columns]
    mine = _sorted(np.stack([stated.stored(name).astype(np.int64) for name in names], axis=1))
    for frame in dict.fromkeys((0, len(counts) - 1)):
        _, columns = block.rows([frame], [ids])
        theirs = np.stack([columns[name].astype(np.int64) for name in names], axis=1)
        if len(theirs) != len(mine) or not np.array_equal(mine, _sorted(theirs)):
            return False
    block.lost = 0
    return True


def _sorted(rows: Integers) -> Integers:
    """Rows of a relation in an order of their own; one read from its end is the same."""
    turn = rows[:, 0] > rows[:, -1]
    rows = np.where(turn[:, None], rows[:, ::-1], rows)
    return rows[np.lexsort(rows.T[::-1])]


def add_sides(record: Record, sides: Sequence[OpenSide], report: Report) -> Record:
    """The record with the blocks of local and grid dumps in its trajectory."""
    if not sides:
        return record
    main: Trajectory = record.trajectory if record.trajectory is not None else BareTrajectory([s.dump for s in sides])
    atoms = None if record.system is None else record.system.blocks.get("atoms")
    declared = main.declaration.blocks.get("atoms")
    fixed = atoms.stored("id").view(np.int64) if atoms is not None and "id" in atoms.columns else None
    changing = fixed is None and declared is not None and "id" in declared.columns
    taken = {*main.declaration.blocks, *(() if record.system is None else record.system.blocks)}
    blocks: list[LocalBlock | GridBlock] = []
    for side in sides:
        shown = _shared_steps(side, main, report)
        if not shown:
            continue
        id = side.source.id if _several(side, sides) else None
        if side.is_grid:
            block: LocalBlock | GridBlock = grid_block(side.dump, report, id=id)
        else:
            known = fixed is not None or changing
            block = local_block(side.dump, side.source.attributes, known, report, id=id)
            if known and block.references and block.name in taken:
                report.converted(side.dump.name, f"named local_{block.name}: {block.name} are stated already")
                block.name = f"local_{block.name}"
        base, number = block.name, 2
        while block.name in taken:
            block.name, number = f"{base}_{number}", number + 1
        taken.add(block.name)
        blocks.append(block)
    if not blocks:
        return record
    stated = _stated_units(sides)
    if stated is not None and record.units is None:
        record.system = record.system if record.system is not None else Frame()
        record.system.meta.put("units", check_units(stated).record, "json")
        report.carried("UNITS", stated)
    trajectory = SidedTrajectory(main, blocks, fixed, report)
    close = record._close
    return replace(record, trajectory=trajectory, _close=lambda: _close_all(close, sides))


def bare_record(sides: Sequence[OpenSide], units: str | None, report: Report) -> Record:
    """The record of local and grid dumps alone."""
    word = units or _stated_units(sides)
    times = [frame.time is not None for side in sides for frame in side.dump.frames]
    if all(times):
        report.carried("TIME")
    elif any(times):
        report.dropped(
            "TIME", f"{sum(times)} of {len(times)} frames state a time; a run has one in every frame or in none"
        )
    system = Frame()
    if word is None:
        report.warn(
            "neither the dump nor an option states the units, and the record leaves them open; --units names them"
        )
    else:
        system.meta.put("units", check_units(word).record, "json")
    return add_sides(Record(system=system if len(system.meta) else None), sides, report)


def _stated_units(sides: Sequence[OpenSide]) -> str | None:
    """The units style dumps state, None where none does."""
    return next((frame.units for side in sides for frame in side.dump.frames if frame.units in UNITS), None)


def _several(side: OpenSide, sides: Sequence[OpenSide]) -> bool:
    return sum(other.is_grid == side.is_grid for other in sides) > 1


def _shared_steps(side: OpenSide, main: Trajectory, report: Report) -> bool:
    """Whether a dump has frames of the trajectory's steps; what does not fit is reported."""
    mine, theirs = main.steps, side.dump.steps
    shared = int(np.isin(theirs, mine).sum())
    how = f"mrec convert {side.dump.paths[0]} {side.dump.paths[0].stem}.mrec converts it by itself"
    if not shared:
        report.dropped(side.dump.name, f"it has none of the trajectory's steps; {how}")
        return False
    if shared < len(theirs):
        report.dropped(f"{len(theirs) - shared} frames of {side.dump.name}", f"the trajectory has no such steps; {how}")
    if shared < len(mine):
        report.warn(
            f"{side.dump.name} has {shared} of the trajectory's {len(mine)} steps: at the others its block is carried "
            "forward from the frame before"
        )
    return True


def _close_all(close: object, sides: Sequence[OpenSide]) -> None:
    if callable(close):
        close()
    for side in sides:
        side.dump.close()
