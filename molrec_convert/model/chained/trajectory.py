"""Trajectories that follow one another in time as one, such as a run and those that were continued from it.

Nothing but steps and times is read before frames are asked for. See `ChainedTrajectory`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.chained.places import Clock, Overlap, chained_declaration, places
from molrec_convert.model.declaration import NO_FILL, BlockDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.dtypes import empty
from molrec_convert.model.frame import Block, Frame
from molrec_convert.model.tags import coerce, same_value
from molrec_convert.model.trajectory import BATCH_BYTES, Trajectory, select_columns
from molrec_convert.report import Report

__all__ = ["ChainedTrajectory", "Overlap", "Part"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One trajectory of a chain.

    `name` is what messages call it. `order` int64[n] says where the particles of the first part stand in this one
    (None: at the same rows); it holds for the block `atoms` and those aligned with it. `constants` are blocks, or
    columns of them, that hold in every frame of this part and that its trajectory does not present, but `system` does.
    """

    name: str
    trajectory: Trajectory
    order: Integers | None = None
    constants: Mapping[str, Block] = field(default_factory=dict)


class ChainedTrajectory(Trajectory):
    """The frames of several trajectories, one after another, in the order of the parts.

    The first frame of a part that is the last of the one before it, at the same step and equal bit for bit, is taken
    once. Where steps overlap otherwise, `overlap` says what is taken: "first", the frames of the earlier part as far as
    they go; "last", those of the later part from where it begins; "refuse" raises `UsageError` that names the steps and
    both parts. With `shift_time` the clock of a part that starts again (times, and steps that go back to the beginning)
    goes on where the part before it ended; without it that is refused. Where not all parts state times, there are none.

    Blocks and keys are those of all parts (see `chained_declaration`). In the frames of a part that does not have them
    a column is null and a per-step key missing; a block has null rows where its row count follows from another block or
    from its shape, and no rows elsewhere; one that settles into `system` holds on. Cells must be defined in all parts
    or in none, and a part without cells cannot follow one that has them.

    `ranges` are the frames [start, stop) taken of each part, `step_shifts` what was added to the steps of each. What
    became of the parts is told to `report`. Memory: steps and times of all frames, else one batch.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        overlap: Overlap = "refuse",
        shift_time: bool = False,
        report: Report | None = None,
    ) -> None:
        super().__init__()
        self._parts = list(parts)
        if not self._parts:
            raise UsageError("no trajectory is named to join")
        report = Report() if report is None else report
        self.declaration = chained_declaration(
            [(part.name, part.trajectory.declaration) for part in self._parts],
            report,
            [part.constants for part in self._parts],
        )
        self.cell_defined = _cell_defined(self._parts)
        clocks = [Clock(part.name, part.trajectory.steps, part.trajectory.times) for part in self._parts]
        self._states = any(clock.times is not None for clock in clocks if len(clock.steps)) and not any(
            clock.times is None for clock in clocks if len(clock.steps)
        )
        if not self._states:
            for clock in clocks:
                if clock.times is not None and len(clock.steps):
                    report.dropped(f"trajectory/time of {clock.name}", "not all sources state times")
                clock.times = None
        self._places = places(clocks, self._difference, overlap=overlap, shift=shift_time, report=report)
        self._clocks = clocks
        self._known: dict[int, _State] = {}
        self._starts = np.concatenate([[0], np.cumsum([place.count for place in self._places])]).astype(np.int64)

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return int(self._starts[-1])

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The frames [start, stop) that are taken of each part."""
        return [(place.start, place.stop) for place in self._places]

    @property
    def step_shifts(self) -> list[int]:
        """What was added to the steps of each part."""
        return [place.step_shift for place in self._places]

    @property
    def steps(self) -> Integers:
        """Step numbers of all frames."""
        return np.concatenate(
            [c.steps[p.start : p.stop] + p.step_shift for c, p in zip(self._clocks, self._places, strict=True)]
        )

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None where not all parts state them."""
        found = [
            p.shifted(c.times[p.start : p.stop])
            for c, p in zip(self._clocks, self._places, strict=True)
            if c.times is not None
        ]
        return np.concatenate(found) if self._states else None

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
        stop = self.n_frames if stop is None else min(stop, self.n_frames)
        for number, part in enumerate(self._parts):
            place, base = self._places[number], int(self._starts[number])
            first = base + (start - base) % step if start < base else start
            last = min(stop, base + place.count)
            if first >= last:
                continue
            own = _PartPass(part, self.declaration, declaration, functools.partial(self._before, number))
            wanted = None if columns is None else own.wanted()
            taken = (place.start + first - base, place.start + last - base, step, wanted, batch_bytes)
            for index, batch in enumerate(part.trajectory.batches(*taken)):
                time = None if batch.time is None or not self._states else place.shifted(batch.time)
                made = own.batch(batch, first=index == 0)
                yield replace(made, step=batch.step + place.step_shift, time=time)

    def _before(self, number: int) -> _State:
        """Return the state at the last frame before a part."""
        for earlier in range(number):
            if earlier + 1 in self._known:
                continue
            known = self._known.get(earlier, _State({}, False))
            place, part = self._places[earlier], self._parts[earlier]
            if place.count:
                batch = next(iter(part.trajectory.batches(place.stop - 1, place.stop)))
                own = _PartPass(
                    part, self.declaration, self.declaration, functools.partial(_State, known.blocks, known.has_cell)
                )
                made = own.batch(batch, first=True)
                blocks = {
                    name: None if self.declaration.blocks[name].settles is None else updates
                    for name, updates in made.blocks.items()
                }
                known = _State({**known.blocks, **blocks}, known.has_cell or made.box is not None)
            self._known[earlier + 1] = known
        return self._known.get(number, _State({}, False))

    def _difference(self, earlier: int, frame: int, later: int) -> str:
        """Return what the first frame of the part `later` says that a frame of `earlier` does not; "" for nothing."""
        one, other = self._parts[earlier], self._parts[later]
        a, b = _only_frame(one, frame, self.declaration), _only_frame(other, 0, self.declaration)
        declared = other.trajectory.declaration
        for name, block in b.blocks.items():
            if name in declared.blocks and (name not in a.blocks or a[name].count != block.count):
                return name
            for key in declared.blocks[name].columns if name in declared.blocks else ():
                if a[name].columns[key] != block.columns[key]:
                    return f"{name}/{key}"
        for key in b.meta:
            if key in declared.meta and not (key in a.meta and same_value(a.meta[key], b.meta[key], b.meta.tag(key))):
                return key
        return "" if b.box is None or a.box == b.box else "the cell"


@dataclass(frozen=True)
class _State:
    """The blocks presented up to a frame, those that settle as they are there, and whether there was a cell."""

    blocks: dict[str, BlockUpdates | None]
    has_cell: bool


class _PartPass:
    """One pass over the frames of a part, made into frames of the chain. `before` tells the state before the part."""

    def __init__(self, part: Part, whole: Declaration, declaration: Declaration, before: Callable[[], _State]) -> None:
        self._part, self._whole, self._declaration, self._before = part, whole, declaration, before
        self._own = part.trajectory.declaration
        self._absent: list[str] = []
        # null rows are as many as those of another block, which may not be asked for
        self._needs_all = any(
            whole.blocks[name].aligned_with is not None and name not in self._own.blocks for name in declaration.blocks
        )
        self._target = whole if self._needs_all else declaration

    def wanted(self) -> list[str] | None:
        """Return the columns to read, None for all."""
        if self._needs_all:
            return None
        there = self._own.blocks
        return [
            f"{name}/{key}"
            for name, block in self._declaration.blocks.items()
            for key in block.columns
            if name in there and key in there[name].columns
        ]

    def batch(self, batch: FrameBatch, *, first: bool) -> FrameBatch:
        """Return the batch in the columns, keys and rows of the chain."""
        blocks: dict[str, BlockUpdates] = {}
        target = self._target.blocks
        for name, updates in batch.blocks.items():
            if name in target and len(updates.frames):
                blocks[name] = self._completed(name, updates)
        if first:
            for name, block in self._part.constants.items():
                if name not in self._own.blocks and name in target:
                    blocks[name] = self._completed(name, BlockUpdates.uniform(1, block.count, {}))
            self._take_state(batch, blocks)
        for name in list(self._absent):
            self._fill_absent(name, blocks, first=first)
        meta = {
            key: _key_values(key, batch, self._own.meta.get(key), entry, self._part.name)
            for key, entry in self._whole.meta.items()
        }
        made = replace(batch, blocks=blocks, meta=meta)
        return made if self._declaration is self._whole else select_columns(made, self._declaration)

    def _take_state(self, batch: FrameBatch, blocks: dict[str, BlockUpdates]) -> None:
        """At the first frame of the part: what it does not present ends there, what identifies atoms holds on."""
        missing = [n for n in self._target.blocks if n not in blocks or blocks[n].frames[0] != 0]
        if not missing and batch.box is not None:
            return
        before = self._before()
        if batch.box is None and before.has_cell:
            raise ContractError(
                "trajectory/box", f"{self._part.name} has no cell, and the frames before it have one, which would go on"
            )
        for name in sorted(missing, key=lambda name: self._whole.blocks[name].aligned_with is not None):
            if name in before.blocks:
                held = before.blocks[name]
                if held is not None and name not in self._own.blocks:
                    blocks[name] = held
                else:
                    self._absent.append(name)

    def _completed(self, name: str, updates: BlockUpdates) -> BlockUpdates:
        """Return updates with every column asked for, null where this part has none, rows in the order of the chain."""
        constant = self._part.constants.get(name)
        related = name == "atoms" or self._whole.blocks[name].aligned_with == "atoms"
        order = self._part.order if related else None
        rows, sizes = int(updates.offset[-1]), np.diff(updates.offset)
        counts = [] if constant is None else [constant.count]
        for count in counts if order is None else [*counts, len(order)]:
            if not (sizes == count).all():
                raise ContractError(
                    f"trajectory/{name}",
                    f"the rows in {self._part.name} are not those of the atoms in system",
                    found=str(int(sizes[sizes != count][0])),
                    expected=str(count),
                )
        picked = None if order is None else (updates.offset[:-1, None] + order).reshape(-1)
        columns, validity = {}, {}
        for key, column in self._target.blocks[name].columns.items():
            mask = None
            if key in updates.columns:
                values, mask = updates.columns[key], updates.validity.get(key)
            elif constant is not None and key in constant.columns:
                values = np.concatenate([constant.columns[key].values] * len(sizes))
                mask = np.tile(constant.validity(key), len(sizes))
            else:
                values, mask = empty(column.dtype, (rows, *column.trailing)), np.zeros(rows, dtype=np.bool_)
            if column.nullable and mask is None:
                mask = np.ones(rows, dtype=np.bool_)
            columns[key] = values if picked is None else values[picked]
            if column.nullable and mask is not None:
                validity[key] = mask if picked is None else mask[picked]
        return BlockUpdates(updates.frames, updates.offset, columns, validity)

    def _fill_absent(self, name: str, blocks: dict[str, BlockUpdates], *, first: bool) -> None:
        """Present a block that this part has not presented yet, so that the state before it does not go on."""
        declared = self._whole.blocks[name]
        own = blocks.get(name)
        if own is not None:
            self._absent.remove(name)
            if own.frames[0] == 0:
                return
        leader = blocks.get(declared.aligned_with or "")
        end = None if own is None else int(own.frames[0])
        if leader is not None:
            count = len(leader.frames) if end is None else int(np.searchsorted(leader.frames, end))
            frames, offset = leader.frames[:count], leader.offset[: count + 1]
        elif first:
            shape = declared.structural_shape
            frames = np.zeros(1, dtype=np.int64)
            offset = np.array([0, 0 if shape is None else int(np.prod(shape))], dtype=np.int64)
        else:
            return
        rows = int(offset[-1])
        if rows and not all(column.nullable for column in declared.columns.values()):
            raise ContractError(f"trajectory/{name}", f"{self._part.name} has no rows of the block at its first frame")
        nothing = _nulls(declared, frames, offset)
        blocks[name] = nothing if own is None else _joined(nothing, own, declared)


def _nulls(declared: BlockDeclaration, frames: Integers, offset: Integers) -> BlockUpdates:
    rows = int(offset[-1])
    return BlockUpdates(
        frames,
        offset,
        {key: empty(column.dtype, (rows, *column.trailing)) for key, column in declared.columns.items()},
        {key: np.zeros(rows, dtype=np.bool_) for key, column in declared.columns.items() if column.nullable},
    )


def _joined(one: BlockUpdates, other: BlockUpdates, declared: BlockDeclaration) -> BlockUpdates:
    """Return the updates of both, the first's frames before the other's."""
    return BlockUpdates(
        np.concatenate([one.frames, other.frames]),
        np.concatenate([one.offset, other.offset[1:] + one.offset[-1]]),
        {key: np.concatenate([one.columns[key], other.columns[key]]) for key in declared.columns},
        {
            key: np.concatenate([one.validity[key], other.validity[key]])
            for key, column in declared.columns.items()
            if column.nullable
        },
    )


def _key_values(key: str, batch: FrameBatch, own: MetaDeclaration | None, entry: MetaDeclaration, part: str) -> Any:
    """Return the values of a per-step key in a batch, as the chain declares it."""
    here = f"trajectory/meta/{key}"
    if own is None:
        return entry.repeated(batch.n_frames)
    if key not in batch.meta and own.fill is NO_FILL:
        raise ContractError(here, f"the frames of {part} have no value, and the key has no fill")
    values = batch.meta[key] if key in batch.meta else own.repeated(batch.n_frames)
    if own.dtype == entry.dtype:
        return values
    if entry.dtype == "json":
        return [value.tolist() if isinstance(value, np.generic | np.ndarray) else value for value in values]
    return np.array([coerce(int(value), entry.dtype, f"{here} of {part}") for value in values], dtype=np.float64)


def _cell_defined(parts: Sequence[Part]) -> bool:
    first = parts[0]
    for part in parts[1:]:
        if part.trajectory.cell_defined != first.trajectory.cell_defined:
            raise ContractError(
                "trajectory/box",
                f"cell_defined holds for every frame: {first.name} and {part.name} differ",
                found=str(part.trajectory.cell_defined).lower(),
                expected=str(first.trajectory.cell_defined).lower(),
            )
    return first.trajectory.cell_defined


def _only_frame(part: Part, number: int, whole: Declaration) -> Frame:
    """Return a frame of a part, in the rows and columns of the chain."""
    batch = next(iter(part.trajectory.batches(number, number + 1)))
    made = _PartPass(part, whole, whole, functools.partial(_State, {}, False)).batch(batch, first=True)
    return made.frame(0, whole, defined=part.trajectory.cell_defined)
