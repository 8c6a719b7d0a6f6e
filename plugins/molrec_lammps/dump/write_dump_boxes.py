"""The BOX BOUNDS items of frames, many at once.

A dump has the bounds of the box around a tilted cell; of the numbers near them those are written from which a reader
gets the cell back bit for bit. Source: the manual, "dump", "Howto triclinic".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.report import Report
from molrec_lammps.common.triclinic import general_rotation, overhang
from molrec_lammps.dump.write_dump_frames import AtomFrames
from molrec_lammps.write.box import asked_box
from molrec_lammps.write.text import number_text

__all__ = ["Boxes", "DumpBoxes", "bounds_around"]

Floats = NDArray[np.float64]


@dataclass
class Boxes:
    """The item of each frame, and the rotation f64[n,3,3] its atoms are turned by (None: none is turned)."""

    lines: list[str]
    rotation: Floats | None = None


class DumpBoxes:
    """The cells of all frames of one dump. `asked` is `--box`, for frames that have none."""

    def __init__(self, asked: Sequence[str], rotate: bool, report: Report) -> None:
        self.asked, self.rotate, self.report = asked, rotate, report

    def of(self, frames: AtomFrames, positions: Callable[[], Floats]) -> Boxes:
        """The items of some frames. UnsupportedError: no cell, or one LAMMPS cannot hold."""
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
                return Boxes(found.lines * frames.n_frames, rotation)
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
        return Boxes(_lines(vectors, origin, boundary, plain), rotation)

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
    """Bounds of the boxes around cells, [n, 3], such that undoing them gives origin and lengths bit for bit."""
    tilts = np.stack([vectors[:, 0, 1], vectors[:, 0, 2], vectors[:, 1, 2]], axis=-1)
    lengths = np.diagonal(vectors, axis1=1, axis2=2)
    below, above = np.zeros_like(origin), np.zeros_like(origin)
    below[:, :2], above[:, :2] = overhang(tilts)
    low = _searched(origin + below, lambda value: value - below == origin)
    high = _searched(origin + lengths + above, lambda value: (value - above) - origin == lengths)
    return low, high


def _searched(start: Floats, fits: Callable[[Floats], NDArray[np.bool_]]) -> Floats:
    """The numbers nearest `start`, a few steps away at most, that fit; `start` where none does."""
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
