"""Trajectories: a declaration and frame batches, lazy or in memory, and views that slice, select and round them.

Everything that is read or written as a trajectory answers this one small interface.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UnsupportedError, UsageError
from molrec_convert.model.batch import BlockUpdates, BoxUpdates, FrameBatch, batch_from_frames
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Frame
from molrec_convert.report import Report
from molrec_convert.wiring import resolve

__all__ = [
    "BATCH_BYTES",
    "Frames",
    "MappedTrajectory",
    "MemoryTrajectory",
    "PickedTrajectory",
    "Trajectory",
    "TrajectoryView",
    "frame_count",
    "ordinals_of",
]

#: Default size of a batch: memory follows it, never the file.
BATCH_BYTES = 32 * 2**20


class Trajectory(ABC):
    """Frames over time under one declaration.

    `len(t)`, `t[i]` (a resolved `Frame`), `t[a:b:c]` (a lazy view), iteration, `batches()`. `attributes` holds what a
    store has beside what this version knows: node path below the section ("" is the section, "atoms/x" a column) →
    attributes.
    """

    declaration: Declaration
    #: False: the run has an origin and no cell (holds for every frame).
    cell_defined: bool = True
    #: What the particles are, as the record says that has the trajectory.
    system: Frame | None = None

    def __init__(self) -> None:
        self.attributes: dict[str, dict[str, Any]] = {}

    @property
    @abstractmethod
    def n_frames(self) -> int | None:
        """Number of frames, None where only reading to the end tells."""

    @abstractmethod
    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """Return batches of the frames `start:stop:step`; the first presents the whole state at its first frame.

        `columns` ("x" or "atoms/x") restricts what is read to `declaration.select(columns)`.
        """

    def __len__(self) -> int:
        if self.n_frames is None:
            raise TypeError("the number of frames is not known before the source is read to its end")
        return self.n_frames

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> Trajectory: ...
    def __getitem__(self, index: int | slice) -> Frame | Trajectory:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step < 1:
                raise UnsupportedError("a trajectory is sliced forward only")
            return TrajectoryView(self, start, stop, step)
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"frame {index} of a trajectory of {len(self)}")
        return self.frame(position)

    def frame(self, index: int) -> Frame:
        """Return the resolved frame at a non-negative ordinal."""
        batch = next(iter(self.batches(index, index + 1)))
        return batch.frame(0, self.declaration, defined=self.cell_defined)

    def __iter__(self) -> Iterator[Frame]:
        state = None
        for batch in self.batches():
            joined = batch if state is None else _prepend(state, batch, self.declaration, self.cell_defined)
            skip = joined.n_frames - batch.n_frames
            for index in range(batch.n_frames):
                state = joined.frame(skip + index, self.declaration, defined=self.cell_defined)
                yield state

    def iter_ase(self, *, elements: Sequence[str] = (), report: Report | None = None) -> Iterator[Any]:
        """Yield every frame as `ase.Atoms`, with what the system of its record says; see `Record.to_ase`."""
        frames: Iterator[Any] = resolve("plugin_function")("ase", "iter_ase")(self, elements=elements, report=report)
        return frames

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers of all frames."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(batch.step for batch in self.batches(columns=()))])

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None when the run states none."""
        parts = [batch.time for batch in self.batches(columns=())]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if known else None

    def __repr__(self) -> str:
        frames = "?" if self.n_frames is None else self.n_frames
        return f"<{type(self).__name__}: {frames} frames; {', '.join(self.declaration.blocks) or 'no blocks'}>"


class MemoryTrajectory(Trajectory):
    """Frames held in memory. Each frame presents the blocks it has; the rest carries forward.

    Without a `declaration` it is derived from the frames; `cell_defined` follows from their boxes.
    """

    def __init__(
        self, frames: Sequence[Frame], declaration: Declaration | None = None, *, cell_defined: bool | None = None
    ) -> None:
        super().__init__()
        self.declaration = Declaration.derive(frames) if declaration is None else declaration
        self.declaration.check()
        self.cell_defined = _cell_defined(frames, cell_defined)
        self._batch = batch_from_frames(frames, self.declaration)
        #: Whether the frames have been held against the declaration.
        self.is_checked = True

    @classmethod
    def of_batch(cls, batch: FrameBatch, declaration: Declaration, *, cell_defined: bool = True) -> MemoryTrajectory:
        """Return the frames of one batch, which is to follow the declaration; whoever stores them checks that."""
        made = cls.__new__(cls)
        Trajectory.__init__(made)
        made.declaration, made.cell_defined, made._batch = declaration, cell_defined, batch
        made.is_checked = False
        return made

    @classmethod
    def of_frame(cls, frame: Frame, declaration: Declaration) -> MemoryTrajectory:
        """Return one frame, whose arrays are shared, under a declaration that was checked; refused where it does not
        fit.
        """
        made = cls.of_batch(
            batch_from_frames([frame], declaration, copy=False),
            declaration,
            cell_defined=frame.box is None or frame.box.defined,
        )
        made.is_checked = True
        return made

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return self._batch.n_frames

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        stop = self.n_frames if stop is None else min(stop, self.n_frames)
        batch = self._batch if columns is None else select_columns(self._batch, self.declaration.select(columns))
        ordinals = np.arange(start, max(start, stop), step, dtype=np.int64)
        if len(ordinals):
            yield take_frames(batch, ordinals)


def _cell_defined(frames: Sequence[Frame], stated: bool | None) -> bool:
    """True if the boxes are cells: all of them or none, as a trajectory says it once for every frame."""
    for index, frame in enumerate(frames):
        if frame.box is not None:
            if stated is not None and frame.box.defined != stated:
                raise ContractError(
                    "trajectory/box",
                    f"frame {index} differs from the run: cell_defined holds for every frame",
                    found=str(frame.box.defined).lower(),
                    expected=str(stated).lower(),
                )
            stated = frame.box.defined
    return True if stated is None else stated


class MappedTrajectory(Trajectory):
    """Another trajectory whose batches a function goes over as they are read.

    What the batches become is declared in `declaration` (None: as before). Where the function takes columns into
    account that are not asked for, `whole` has all of them read.
    """

    def __init__(
        self,
        source: Trajectory,
        change: Callable[[FrameBatch], FrameBatch],
        declaration: Declaration | None = None,
        *,
        whole: bool = False,
    ) -> None:
        super().__init__()
        self._source, self._change, self._whole = source, change, whole
        self.declaration = source.declaration if declaration is None else declaration
        self.cell_defined = source.cell_defined
        self.attributes = dict(source.attributes)

    @property
    def n_frames(self) -> int | None:
        """Number of frames."""
        return self._source.n_frames

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        wanted = None if self._whole else columns
        return map(self._change, self._source.batches(start, stop, step, wanted, batch_bytes))


class TrajectoryView(Trajectory):
    """Some frames and columns of another trajectory, with precisions declared on the way; nothing is read early."""

    def __init__(
        self,
        source: Trajectory,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        *,
        columns: Iterable[str] | None = None,
        precision: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.source, self.start, self.stop, self.step = source, start, stop, step
        self.columns = None if columns is None else tuple(columns)
        declaration = source.declaration.select(self.columns)
        self.declaration = declaration.with_precision(precision) if precision else declaration
        self.cell_defined = source.cell_defined
        self.system = source.system
        self.attributes = dict(source.attributes)

    @property
    def n_frames(self) -> int | None:
        """Number of frames."""
        total = self.source.n_frames
        if total is None:
            return None
        return len(range(self.start, total if self.stop is None else min(self.stop, total), self.step))

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        end = self.stop
        if stop is not None:
            limit = self.start + stop * self.step
            end = limit if end is None else min(end, limit)
        wanted = self.columns if columns is None else tuple(columns)
        return self.source.batches(self.start + start * self.step, end, self.step * step, wanted, batch_bytes)


def select_columns(batch: FrameBatch, declaration: Declaration) -> FrameBatch:
    """Return the batch with only the blocks and columns of `declaration`."""
    blocks = {
        name: replace(
            batch.blocks[name],
            columns={key: batch.blocks[name].columns[key] for key in declared.columns},
            validity={key: mask for key, mask in batch.blocks[name].validity.items() if key in declared.columns},
        )
        for name, declared in declaration.blocks.items()
        if name in batch.blocks
    }
    return replace(batch, blocks=blocks)


def take_frames(batch: FrameBatch, ordinals: NDArray[np.int64]) -> FrameBatch:
    """Return the batch of the frames at ascending `ordinals`, updates between two of them falling to the later one."""
    blocks = {}
    for name, updates in batch.blocks.items():
        picked, frames = _last_updates(updates.frames, ordinals)
        if len(picked):
            blocks[name] = _take_updates(updates, picked, frames)
    box = None
    if batch.box is not None:
        picked, frames = _last_updates(batch.box.frames, ordinals)
        if len(picked):
            box = BoxUpdates(frames, batch.box.vectors[picked], batch.box.origin[picked], batch.box.boundary[picked])
    meta = {
        key: [values[i] for i in ordinals] if isinstance(values, list) else values[ordinals]
        for key, values in batch.meta.items()
    }
    time = None if batch.time is None else batch.time[ordinals]
    return FrameBatch(batch.step[ordinals], time, blocks, meta, box)


def _last_updates(
    frames: NDArray[np.int64], ordinals: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For ascending ordinals: the updates they resolve to that are new there, and the positions they fall on."""
    resolved = np.searchsorted(frames, ordinals, side="right") - 1
    new = resolved >= 0
    new[1:] &= resolved[1:] != resolved[:-1]
    return resolved[new], np.flatnonzero(new).astype(np.int64)


def _take_updates(updates: BlockUpdates, picked: NDArray[np.int64], frames: NDArray[np.int64]) -> BlockUpdates:
    sizes = np.diff(updates.offset)[picked]
    offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if len(picked) == len(updates.frames) and np.array_equal(picked, np.arange(len(picked))):
        return BlockUpdates(frames, offset, updates.columns, updates.validity)
    if len(picked) and picked[-1] - picked[0] == len(picked) - 1:
        rows: Any = slice(int(updates.offset[picked[0]]), int(updates.offset[picked[-1] + 1]))
    else:
        rows = np.repeat(updates.offset[picked] - offset[:-1], sizes) + np.arange(offset[-1])
    return BlockUpdates(
        frames,
        offset,
        {key: values[rows] for key, values in updates.columns.items()},
        {key: mask[rows] for key, mask in updates.validity.items()},
    )


def _prepend(state: Frame, batch: FrameBatch, declaration: Declaration, defined: bool) -> FrameBatch:
    """Return `batch` with the state before it as one more frame in front, so that frames resolve across the seam."""
    before = batch_from_frames([state], declaration)
    blocks = {}
    for name in declaration.blocks:
        parts = [(b.blocks[name], shift) for b, shift in ((before, 0), (batch, 1)) if name in b.blocks]
        if not parts:
            continue
        sizes = np.concatenate([np.diff(updates.offset) for updates, _ in parts])
        blocks[name] = BlockUpdates(
            np.concatenate([updates.frames + shift for updates, shift in parts]),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            {key: np.concatenate([u.columns[key] for u, _ in parts]) for key in declaration.blocks[name].columns},
            {
                key: np.concatenate([u.validity.get(key, np.ones(int(u.offset[-1]), np.bool_)) for u, _ in parts])
                for key, column in declaration.blocks[name].columns.items()
                if column.nullable
            },
        )
    cells = [(b.box, shift) for b, shift in ((before, 0), (batch, 1)) if b.box is not None]
    box = None
    if cells:
        box = BoxUpdates(
            np.concatenate([c.frames + shift for c, shift in cells]),
            np.concatenate([c.vectors for c, _ in cells]),
            np.concatenate([c.origin for c, _ in cells]),
            np.concatenate([c.boundary for c, _ in cells]),
        )
    meta = {
        key: [before.meta[key][0], *values] if isinstance(values, list) else np.concatenate([before.meta[key], values])
        for key, values in batch.meta.items()
    }
    time = None if batch.time is None else np.concatenate([[state.time or 0.0], batch.time])
    return FrameBatch(np.concatenate([before.step, batch.step]), time, blocks, meta, box)


#: A slice of frames, or numbers and slices one after another.
Frames = slice | Sequence[int | slice]


def ordinals_of(frames: Frames, count: int, what: str = "frame", *, lenient: bool = False) -> NDArray[np.int64]:
    """Return the frames of `count` that are chosen, as ascending ordinals; negative numbers count from the end.

    Raises `UsageError` for a step that is not positive, frames that are not in their order, and a number that is not
    there, unless `lenient`, when it is left out.
    """
    found: list[NDArray[np.int64]] = []
    for part in [frames] if isinstance(frames, slice) else frames:
        if isinstance(part, slice):
            if part.step is not None and part.step < 1:
                raise UsageError(f"{what}s are taken forward only, not with a step of {part.step}")
            found.append(np.arange(*part.indices(count), dtype=np.int64))
            continue
        number = operator.index(part)
        if -count <= number < count:
            found.append(np.array([number % count], dtype=np.int64))
        elif not lenient:
            there = f"the {what}s 0 to {count - 1}" if count > 1 else f"the {what} 0 only" if count else f"no {what}s"
            raise UsageError(f"the source has {there}, there is no {what} {number}")
    ordinals = np.concatenate([np.zeros(0, dtype=np.int64), *found])
    back = np.flatnonzero(np.diff(ordinals) <= 0)
    if len(back):
        one, other = ordinals[back[0]], ordinals[back[0] + 1]
        raise UsageError(f"{what}s are taken in their order, each once: {what} {other} is named after {what} {one}")
    return ordinals


def frame_count(trajectory: Trajectory) -> int:
    """Return the number of frames, reading to the end where only that tells."""
    return len(trajectory.steps) if trajectory.n_frames is None else trajectory.n_frames


class PickedTrajectory(Trajectory):
    """The frames of another trajectory at ascending `ordinals`, read in pieces of even spacing."""

    def __init__(self, source: Trajectory, ordinals: NDArray[np.int64]) -> None:
        super().__init__()
        self.source, self.ordinals = source, ordinals
        self.declaration, self.cell_defined = source.declaration, source.cell_defined
        self.system = source.system
        self.attributes = dict(source.attributes)

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self.ordinals)

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`. Each piece presents the whole state at its first frame."""
        wanted = None if columns is None else tuple(columns)
        for piece in _pieces(self.ordinals[start:stop:step]):
            yield from self.source.batches(piece.start, piece.stop, piece.step, wanted, batch_bytes)


def _pieces(ordinals: NDArray[np.int64]) -> Iterator[range]:
    """Return ascending numbers as ranges, each as long as the spacing stays the same."""
    gaps = np.diff(ordinals).tolist()
    at = 0
    while at < len(ordinals):
        first, end = int(ordinals[at]), at + 1
        gap = gaps[at] if at < len(gaps) else 1
        while end < len(ordinals) and gaps[end - 1] == gap:
            end += 1
        yield range(first, int(ordinals[end - 1]) + 1, gap)
        at = end
