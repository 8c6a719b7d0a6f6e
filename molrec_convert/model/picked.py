"""Frames chosen by numbers and slices, in any combination: which they are, and a trajectory of them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.trajectory import BATCH_BYTES, Trajectory

__all__ = ["Frames", "PickedTrajectory", "frame_count", "ordinals_of"]

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
