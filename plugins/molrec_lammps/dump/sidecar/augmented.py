"""A trajectory with the blocks of local and grid dumps: presented at the frames whose steps these dumps have.

The frames are those of the dump of atoms, or, without one, those of the dumps themselves. A block is carried forward
over frames of which its dump has nothing, as in any trajectory. References to atoms are restated where the atoms
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import (
    BATCH_BYTES,
    BlockUpdates,
    BoxUpdates,
    Declaration,
    Frame,
    FrameBatch,
    Record,
    Trajectory,
)
from molrec_convert.report import Report
from molrec_lammps.common.units import UNITS, check_units
from molrec_lammps.dump.sidecar.dump import GridBlock, SideDump, grid_block, open_side
from molrec_lammps.dump.sidecar.local import LocalBlock, local_block
from molrec_lammps.dump.system import RunFacts

__all__ = [
    "AugmentedTrajectory",
    "BareTrajectory",
    "OpenSide",
    "SideSource",
    "add_sides",
    "bare_record",
    "open_sides",
    "without_restated",
]

_BATCH_BYTES = 2**23
_ATOMS, _ID = "atoms", "id"

Integers = NDArray[np.int64]
Side = LocalBlock | GridBlock


class BareTrajectory(Trajectory):
    """The frames of dumps without atoms: steps, times and cells, no block."""

    def __init__(self, dumps: Sequence[SideDump]) -> None:
        super().__init__()
        by_step = {frame.step: frame for dump in reversed(dumps) for frame in dump.frames}
        self._frames = [by_step[step] for step in sorted(by_step)]
        size = dict.fromkeys(by_step, 0)
        for frame in (frame for dump in dumps for frame in dump.frames):
            size[frame.step] += frame.count * len(frame.columns) * 8
        self._bytes = np.array([size[frame.step] for frame in self._frames], dtype=np.int64)
        self.declaration = Declaration()

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self._frames)

    @property
    def steps(self) -> Integers:
        """Step numbers of all frames."""
        return np.array([frame.step for frame in self._frames], dtype=np.int64)

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None where some frame states none."""
        times = [frame.time for frame in self._frames]
        return None if any(time is None for time in times) else np.array(times, dtype=np.float64)

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        self.declaration.select(columns)
        ordinals = np.arange(self.n_frames, dtype=np.int64)[start:stop:step]
        size = self._bytes[ordinals]
        group = (np.cumsum(size) - size) // max(1, min(batch_bytes, _BATCH_BYTES))
        times = self.times
        before = None
        for own in np.split(ordinals, np.flatnonzero(np.diff(group)) + 1) if len(ordinals) else []:
            boxes = []
            for position, ordinal in enumerate(own.tolist()):
                box = self._frames[ordinal].box
                if before is None or (box is not before and box != before):
                    boxes.append((position, box))
                before = box
            updates = None
            if boxes:
                updates = BoxUpdates(
                    np.array([position for position, _ in boxes], dtype=np.int64),
                    np.stack([box.vectors for _, box in boxes]),
                    np.stack([box.origin for _, box in boxes]),
                    np.stack([box.boundary for _, box in boxes]),
                )
            yield FrameBatch(self.steps[own], None if times is None else times[own], {}, {}, updates)


class AugmentedTrajectory(Trajectory):
    """The frames of `main` with the blocks `sides`; `ids` are those of its atoms, None where they change."""

    def __init__(self, main: Trajectory, sides: Sequence[Side], ids: Integers | None, report: Report) -> None:
        super().__init__()
        self._main, self._sides, self._ids, self._report = main, list(sides), ids, report
        self.cell_defined = main.cell_defined
        blocks = {**main.declaration.blocks, **{side.name: side.declaration() for side in sides}}
        self.declaration = replace(main.declaration, blocks=blocks)
        self.declaration.check()
        steps = main.steps
        self._resolved = {side.name: _resolved(side.dump.steps, steps) for side in sides}

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self._main)

    @property
    def steps(self) -> Integers:
        """Step numbers of all frames."""
        return self._main.steps

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None when nothing states them."""
        return self._main.times

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        declaration = self.declaration.select(columns)
        sides = [side for side in self._sides if side.name in declaration.blocks]
        wanted = None
        borrowed = False
        if columns is not None:
            blocks = {n: b for n, b in declaration.blocks.items() if n in self._main.declaration.blocks}
            wanted = [f"{name}/{key}" for name, block in blocks.items() for key in block.columns]
            borrowed = self._ids is None and any(side.references for side in sides) and f"{_ATOMS}/{_ID}" not in wanted
            wanted += [f"{_ATOMS}/{_ID}"] * borrowed
        ordinals = np.arange(self.n_frames, dtype=np.int64)[start:stop:step]
        pass_ = _Pass(sides, self._resolved, declaration, self._ids)
        done = 0
        for batch in self._main.batches(start, stop, step, wanted, batch_bytes):
            yield pass_.batch(batch, ordinals[done : done + batch.n_frames], borrowed)
            done += batch.n_frames
        for side in sides:
            side.report(self._report)


class _Pass:
    """One pass over the frames: which state of each side was presented last, and the ids it was stated for."""

    def __init__(
        self, sides: Sequence[Side], resolved: dict[str, Integers], declaration: Declaration, ids: Integers | None
    ) -> None:
        self._sides, self._resolved, self._declaration, self._ids = sides, resolved, declaration, ids
        self._shown = {side.name: -1 for side in sides}
        self._atoms: Integers | None = None
        self._state = 0
        self._own = dict.fromkeys((side.name for side in sides), 0)

    def batch(self, batch: FrameBatch, ordinals: Integers, borrowed: bool) -> FrameBatch:
        """Return the batch with what the sides present in it."""
        ids, state = self._states(batch)
        blocks = dict(batch.blocks)
        for side in self._sides:
            updates = self._updates(side, ordinals, ids, state)
            if updates is not None:
                blocks[side.name] = updates
        if borrowed and _ATOMS in blocks:
            kept = self._declaration.blocks.get(_ATOMS)
            atoms = blocks.pop(_ATOMS)
            if kept is not None:
                blocks[_ATOMS] = replace(atoms, columns={k: v for k, v in atoms.columns.items() if k != _ID})
        return replace(batch, blocks=blocks)

    def _states(self, batch: FrameBatch) -> tuple[list[Integers | None], Integers]:
        """Return the ids of the atoms at each frame, and a number that tells their states apart."""
        if self._ids is not None or not any(side.references for side in self._sides):
            return [self._ids] * batch.n_frames, np.zeros(batch.n_frames, dtype=np.int64)
        updates = batch.blocks.get(_ATOMS)
        found: dict[int, Integers] = {}
        if updates is not None and _ID in updates.columns:
            for number, position in enumerate(updates.frames.tolist()):
                found[position] = updates.columns[_ID][updates.rows_of(number)].view(np.int64)
        states = np.zeros(batch.n_frames, dtype=np.int64)
        ids: list[Integers | None] = []
        for position in range(batch.n_frames):
            own = found.get(position)
            if own is not None and (self._atoms is None or not np.array_equal(own, self._atoms)):
                self._atoms = own.copy()
                self._state += 1
            states[position] = self._state
            ids.append(self._atoms)
        return ids, states

    def _updates(
        self, side: Side, ordinals: Integers, ids: Sequence[Integers | None], states: Integers
    ) -> BlockUpdates | None:
        own = self._resolved[side.name][ordinals]
        shown, state = self._shown[side.name], self._own[side.name]
        before = np.concatenate([[shown], own[:-1]])
        changed = own != before
        if side.references:
            changed |= np.diff(states, prepend=state) != 0
        positions = np.flatnonzero(changed & (own >= 0))
        if len(own):
            self._shown[side.name], self._own[side.name] = int(own[-1]), int(states[-1])
        if not len(positions):
            return None
        counts, columns = side.rows(own[positions].tolist(), [ids[p] for p in positions.tolist()])
        declared = self._declaration.blocks[side.name].columns
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        kept: dict[str, Any] = {name: columns[name] for name in declared}
        return BlockUpdates(positions, offset, kept)


def _resolved(own: Integers, steps: Integers) -> Integers:
    """For every step the frame of a dump at the last of its steps that is among `steps` up to there, -1: none yet."""
    places = np.minimum(np.searchsorted(own, steps), len(own) - 1)
    frames = np.where(own[places] == steps, places, -1)
    return np.maximum.accumulate(frames).astype(np.int64)


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
        """Return the relation it states when the atoms have ids, None when it states none."""
        if self.is_grid:
            return None
        block = local_block(self.dump, self.source.attributes, True, report)
        return block if block.references else None


def open_sides(sources: Sequence[SideSource], report: Report, steps: str) -> list[OpenSide]:
    """Index local and grid dumps; `steps` is `--steps`."""
    return [OpenSide(source, open_side(source.files, report, steps, pieces=source.pieces)) for source in sources]


def without_restated(facts: RunFacts, sides: Sequence[OpenSide], report: Report) -> RunFacts:
    """Return the facts without the relations that local dumps state otherwise: these are in the trajectory."""
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
    """True if the first and the last frame of a dump state the very relation of the data file."""
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
    """Return rows of a relation in an order of their own; one read from its end is the same."""
    turn = rows[:, 0] > rows[:, -1]
    rows = np.where(turn[:, None], rows[:, ::-1], rows)
    return rows[np.lexsort(rows.T[::-1])]


def add_sides(record: Record, sides: Sequence[OpenSide], report: Report) -> Record:
    """Return the record with the blocks of local and grid dumps in its trajectory."""
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
    trajectory = AugmentedTrajectory(main, blocks, fixed, report)
    close = record._close
    return replace(record, trajectory=trajectory, _close=lambda: _close_all(close, sides))


def bare_record(sides: Sequence[OpenSide], units: str | None, report: Report) -> Record:
    """Return the record of local and grid dumps alone."""
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
    """Return the units style dumps state, None where none does."""
    return next((frame.units for side in sides for frame in side.dump.frames if frame.units in UNITS), None)


def _several(side: OpenSide, sides: Sequence[OpenSide]) -> bool:
    return sum(other.is_grid == side.is_grid for other in sides) > 1


def _shared_steps(side: OpenSide, main: Trajectory, report: Report) -> bool:
    """True if a dump has frames of the trajectory's steps; what does not fit is reported."""
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
