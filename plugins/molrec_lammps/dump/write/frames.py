"""Frames of a trajectory as rows of atoms: resolved, with their cells, and with coordinates that are worked out.

What a frame does not present is that of the frame before. A dump has the bounds of the box around a tilted cell; of the
numbers near them those are written from which a reader gets the cell back bit for bit.
Source: the manual, "dump", "Howto triclinic".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.model import BlockUpdates, Box, FrameBatch, Trajectory
from molrec_convert.report import Report
from molrec_lammps.common.triclinic import general_rotation, overhang
from molrec_lammps.dump.write.columns import DumpColumn, SourceColumn
from molrec_lammps.write.box import asked_box, turn
from molrec_lammps.write.types import ATOMS
from molrec_lammps.write.units import number_text

__all__ = ["AtomFrames", "DumpBoxes", "atom_columns", "bounds_around", "frames_of", "places"]

#: Numbers of one batch; their text is two to three times as long.
_BATCH_BYTES = 2**23


@dataclass
class AtomFrames:
    """Some frames: rows of all of them end to end, `counts` int64[n] how many each has.

    `columns` and `masks` (True where a row holds a value) are those that may change; `box` has a cell for each frame,
    `vectors` f64[n,3,3], `origin` f64[n,3], `boundary` bool[n,3], None where there is none.
    """

    step: NDArray[np.int64]
    time: NDArray[np.float64] | None
    counts: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    masks: dict[str, NDArray[np.bool_]]
    vectors: NDArray[np.float64] | None
    origin: NDArray[np.float64] | None
    boundary: NDArray[np.bool_] | None

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self.step)

    def take(self, start: int, stop: int) -> AtomFrames:
        """Return the frames from `start` to `stop`."""
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        rows = slice(int(ends[start]), int(ends[stop]))
        frames = slice(start, stop)
        return AtomFrames(
            self.step[frames],
            None if self.time is None else self.time[frames],
            self.counts[frames],
            {name: values[rows] for name, values in self.columns.items()},
            {name: mask[rows] for name, mask in self.masks.items()},
            None if self.vectors is None else self.vectors[frames],
            None if self.origin is None else self.origin[frames],
            None if self.boundary is None else self.boundary[frames],
        )


def atom_columns(trajectory: Trajectory) -> dict[str, tuple[str, SourceColumn]]:
    """Return the columns of atoms that the frames hold: name → block, and what the column is."""
    found: dict[str, tuple[str, SourceColumn]] = {}
    for name, block in trajectory.declaration.blocks.items():
        if name == ATOMS or block.aligned_with in (ATOMS, f"/system/{ATOMS}"):
            for key, column in block.columns.items():
                found.setdefault(key, (name, SourceColumn(column.dtype, column.trailing, column.nullable)))
    return found


def frames_of(
    trajectory: Trajectory, wanted: Mapping[str, str], rows: int | None, box: Box | None
) -> Iterator[AtomFrames]:
    """Yield the frames, in batches. `wanted` is column → block; `rows` is how many atoms `system` has (None: unknown).

    `box` is the cell of frames before the first that has one.
    """
    resolver = _Resolver(trajectory, wanted, rows, box)
    names = list(dict.fromkeys(f"{block}/{column}" for column, block in wanted.items()))
    counted = any(block == ATOMS for block in wanted.values()) or ATOMS not in trajectory.declaration.blocks
    columns = names if counted and names else None
    for batch in trajectory.batches(columns=columns, batch_bytes=_BATCH_BYTES):
        yield resolver.resolve(batch)


class _Resolver:
    """What the frame before was, block by block."""

    def __init__(self, trajectory: Trajectory, wanted: Mapping[str, str], rows: int | None, box: Box | None) -> None:
        self.rows = rows
        self.box = box if trajectory.cell_defined else None
        self.defined = trajectory.cell_defined
        self.columns: dict[str, list[str]] = {}
        if ATOMS in trajectory.declaration.blocks:
            self.columns[ATOMS] = []
        for column, block in wanted.items():
            self.columns.setdefault(block, []).append(column)
        self.before: dict[str, BlockUpdates] = {}

    def resolve(self, batch: FrameBatch) -> AtomFrames:
        """Return the frames of a batch."""
        columns: dict[str, NDArray[Any]] = {}
        masks: dict[str, NDArray[np.bool_]] = {}
        counts: NDArray[np.int64] | None = None
        for block, names in self.columns.items():
            updates = self._joined(block, batch.blocks.get(block))
            if updates is None:
                if self.rows is None:
                    raise UnsupportedError(f"trajectory/{block}: the frames do not say how many atoms they have")
                continue
            picked = np.searchsorted(updates.frames, np.arange(batch.n_frames), side="right") - 1
            if picked.min(initial=0) < 0:
                raise UnsupportedError(f"trajectory/{block}: the first frame does not present it")
            rows, own = _rows(updates, picked)
            if block == ATOMS or counts is None:
                counts = own
            for name in names:
                columns[name] = updates.columns[name][rows]
                if name in updates.validity:
                    masks[name] = updates.validity[name][rows]
        if counts is None:
            if self.rows is None:
                raise UnsupportedError("the trajectory has no atoms, and a dump is made of them")
            counts = np.full(batch.n_frames, self.rows, dtype=np.int64)
        vectors, origin, boundary = self._cells(batch)
        return AtomFrames(batch.step, batch.time, counts, columns, masks, vectors, origin, boundary)

    def _joined(self, block: str, updates: BlockUpdates | None) -> BlockUpdates | None:
        """Return the updates of a batch with the one before it in front, at position -1 where the first is later."""
        before = self.before.get(block)
        if updates is None or not len(updates.frames):
            return before
        if before is not None and updates.frames[0] != 0:
            columns = {name: np.concatenate([before.columns[name], updates.columns[name]]) for name in before.columns}
            validity = {
                name: np.concatenate([before.validity[name], updates.validity[name]])
                for name in before.validity
                if name in updates.validity
            }
            offset = np.concatenate([[0], updates.offset + before.offset[-1]])
            updates = BlockUpdates(np.concatenate([[-1], updates.frames]), offset, columns, validity)
        last = updates.rows_of(len(updates.frames) - 1)
        kept = {name: updates.columns[name][last].copy() for name in self.columns[block]}
        masks = {name: updates.validity[name][last].copy() for name in kept if name in updates.validity}
        self.before[block] = BlockUpdates(np.array([-1]), np.array([0, last.stop - last.start]), kept, masks)
        return updates

    def _cells(self, batch: FrameBatch) -> tuple[Any, Any, Any]:
        if not self.defined:
            return None, None, None
        updates = batch.box
        parts = [] if self.box is None else [self.box]
        if updates is None or not len(updates.frames):
            if self.box is None:
                return None, None, None
            whole = (batch.n_frames, 1, 1)
            return (
                np.tile(self.box.vectors, whole),
                np.tile(self.box.origin, whole[:2]),
                np.tile(self.box.boundary, whole[:2]),
            )
        if not parts and updates.frames[0] != 0:
            raise UnsupportedError("trajectory/box: the first frame has no cell")
        picked = np.searchsorted(updates.frames, np.arange(batch.n_frames), side="right") - 1
        cells = []
        for name in ("vectors", "origin", "boundary"):
            values = getattr(updates, name)
            if self.box is not None:
                values = np.concatenate([values, getattr(self.box, name)[None]])
            cells.append(values[picked])
        self.box = updates.box(len(updates.frames) - 1)
        return cells[0], cells[1], cells[2]


def _rows(updates: BlockUpdates, picked: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
    """Return the rows of the updates that frames resolve to, and how many each frame has."""
    sizes = np.diff(updates.offset)[picked]
    start = updates.offset[picked]
    if len(picked) and bool((start[1:] == start[:-1] + sizes[:-1]).all()):
        return slice(int(start[0]), int(start[-1] + sizes[-1])), sizes
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return np.repeat(start - ends[:-1], sizes) + np.arange(ends[-1]), sizes


Floats = NDArray[np.float64]


@dataclass
class _Boxes:
    """The item of each frame, and the rotation f64[n,3,3] its atoms are turned by (None: none is turned)."""

    lines: list[str]
    rotation: Floats | None = None


class DumpBoxes:
    """The cells of all frames of one dump. `asked` is `--box`, for frames that have none."""

    def __init__(self, asked: Sequence[str], rotate: bool, report: Report) -> None:
        self.asked, self.rotate, self.report = asked, rotate, report

    def of(self, frames: AtomFrames, positions: Callable[[], Floats]) -> _Boxes:
        """Return the items of some frames. UnsupportedError: no cell, or one LAMMPS cannot hold."""
        vectors, origin, boundary = frames.vectors, frames.origin, frames.boundary
        if self.asked and vectors is not None:
            raise UsageError(f"--box {','.join(self.asked)}: the record has a cell of its own")
        if vectors is None or origin is None or boundary is None:
            vectors, origin, boundary = self._asked(frames, positions)
        if frames.n_frames > 1 and not (np.ptp(vectors, axis=0).any() or np.ptp(origin, axis=0).any()):
            one = AtomFrames(frames.step[:1], None, frames.counts[:1], {}, {}, vectors[:1], origin[:1], boundary[:1])
            if (boundary == boundary[0]).all() and frames.vectors is not None:
                found = self.of(one, positions)
                rotation = None if found.rotation is None else np.repeat(found.rotation, frames.n_frames, axis=0)
                return _Boxes(found.lines * frames.n_frames, rotation)
        self._check(frames, vectors, origin)
        plain: NDArray[np.bool_] = np.asarray(~np.tril(vectors, -1).any(axis=(1, 2)))
        plain &= (np.diagonal(vectors, axis1=1, axis2=2) > 0).all(axis=1)
        rotation = None
        if not plain.all() and self.rotate:
            self.report.converted("box", "turned into LAMMPS' orientation, atoms with it")
            rotation = np.array(
                [np.eye(3) if own else general_rotation(v) for own, v in zip(plain, vectors, strict=True)]
            )
            turned = np.triu(rotation @ vectors)
            vectors = np.where(plain[:, None, None], vectors, turned)
            plain = np.ones(len(plain), dtype=np.bool_)
        elif not plain.all():
            self.report.carried("box", "of another orientation than LAMMPS' own: written as general triclinic cells")
        return _Boxes(_lines(vectors, origin, boundary, plain), rotation)

    def _asked(self, frames: AtomFrames, positions: Callable[[], Floats]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        if not self.asked:
            raise UnsupportedError(
                "the record has no cell, and a LAMMPS dump has one in every frame: give it with "
                "--box xlo,xhi,ylo,yhi,zlo,zhi or --box atoms,DISTANCE"
            )
        self.report.derived("box", f"from --box {','.join(self.asked)}, periodic on no axis")
        around = self.asked[0] == "atoms"
        where = positions() if around else np.zeros((int(frames.counts.sum()), 3))
        ends = np.concatenate([[0], np.cumsum(frames.counts)])
        boxes = [asked_box(self.asked, where[a:b]) for a, b in pairwise(ends.tolist())]
        return (
            np.array([box.vectors for box in boxes]),
            np.array([box.origin for box in boxes]),
            np.array([box.boundary for box in boxes]),
        )

    def _check(self, frames: AtomFrames, vectors: Floats, origin: Floats) -> None:
        bad = ~(np.isfinite(vectors).all(axis=(1, 2)) & np.isfinite(origin).all(axis=1))
        if not bad.any():
            bad = np.linalg.det(vectors) <= 0
        if bad.any():
            frame = int(bad.argmax())
            raise UnsupportedError(
                f"the cell at step {frames.step[frame]} has no volume or left-handed vectors, and LAMMPS holds "
                "right-handed cells only"
            )


def _lines(vectors: Floats, origin: Floats, boundary: NDArray[np.bool_], plain: NDArray[np.bool_]) -> list[str]:
    tilts = np.stack([vectors[:, 0, 1], vectors[:, 0, 2], vectors[:, 1, 2]], axis=-1)
    low, high = bounds_around(vectors, origin)
    letters = [" ".join("pp" if flag else "ff" for flag in row) for row in boundary.tolist()]
    found = []
    for frame, flags in enumerate(letters):
        if not plain[frame]:
            rows = np.concatenate([vectors[frame].T, origin[frame][:, None]], axis=1).tolist()
            head = f"ITEM: BOX BOUNDS abc origin {flags}\n"
        elif tilts[frame].any():
            rows = np.stack([low[frame], high[frame], tilts[frame]], axis=-1).tolist()
            head = f"ITEM: BOX BOUNDS xy xz yz {flags}\n"
        else:
            rows = np.stack([low[frame], high[frame]], axis=-1).tolist()
            head = f"ITEM: BOX BOUNDS {flags}\n"
        found.append(head + "".join(" ".join(map(number_text, row)) + "\n" for row in rows))
    return found


def bounds_around(vectors: Floats, origin: Floats) -> tuple[Floats, Floats]:
    """Return bounds of the boxes around cells, [n, 3], such that undoing them gives origin and lengths bit for bit."""
    tilts = np.stack([vectors[:, 0, 1], vectors[:, 0, 2], vectors[:, 1, 2]], axis=-1)
    lengths = np.diagonal(vectors, axis1=1, axis2=2)
    below, above = np.zeros_like(origin), np.zeros_like(origin)
    below[:, :2], above[:, :2] = overhang(tilts)
    low = _searched(origin + below, lambda value: value - below == origin)
    high = _searched(origin + lengths + above, lambda value: (value - above) - origin == lengths)
    return low, high


def _searched(start: Floats, fits: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
    """Return the numbers nearest `start`, a few steps away at most, that fit; `start` where none does."""
    found, done = start.copy(), fits(start)
    up, down = start.copy(), start.copy()
    for _ in range(6):
        if done.all():
            break
        up, down = np.nextafter(up, np.inf), np.nextafter(down, -np.inf)
        for near in (up, down):
            good = fits(near) & ~done
            found[good] = near[good]
            done |= good
    return found


_AXES = ("x", "y", "z")


def places(
    column: DumpColumn,
    values: Callable[[str], NDArray[Any]],
    frames: AtomFrames,
    rotation: Floats | None,
    there: Mapping[str, SourceColumn],
    unwrapped: bool,
) -> Floats:
    """Return one column, f64[rows]. `values` gives the rows of a column of the record.

    UnsupportedError: the record lacks what it is made of.
    """
    if frames.vectors is None or frames.origin is None:
        raise UnsupportedError(f"{column.name}: the record has no cell to work it out from")
    spread = np.repeat(np.arange(frames.n_frames), frames.counts)
    points = np.stack([values(axis) for axis in _AXES], axis=-1)
    if not unwrapped and column.how in ("xu", "xsu"):
        images = ("ix", "iy", "iz")
        if not all(name in there for name in images):
            raise UnsupportedError(f"{column.name}: the record has wrapped positions and no images to unwrap them by")
        shift = np.stack([values(name) for name in images], axis=-1).astype(np.float64)
        points = points + np.einsum("nij,nj->ni", frames.vectors[spread], shift)
    if column.how == "xu":
        made = points
    else:
        inverse = np.linalg.inv(frames.vectors)
        fractions = np.einsum("nij,nj->ni", inverse[spread], points - frames.origin[spread])
        if column.how in ("x", "xs") and unwrapped:
            periodic = np.ones((frames.n_frames, 3), dtype=np.bool_) if frames.boundary is None else frames.boundary
            fractions = np.where(periodic[spread], fractions - np.floor(fractions), fractions)
        if column.how in ("xs", "xsu"):
            return np.ascontiguousarray(fractions[:, column.axis])
        made = np.einsum("nij,nj->ni", frames.vectors[spread], fractions) + frames.origin[spread]
    if rotation is not None:
        made = turn(made, "point", rotation[spread], frames.origin[spread])
    return np.ascontiguousarray(made[:, column.axis])
