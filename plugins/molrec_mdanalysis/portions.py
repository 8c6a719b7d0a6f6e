"""Frames of MDAnalysis gathered in portions, and portions turned into batches: for reading and for writing records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, LayoutChanged
from molrec_convert.model import BlockUpdates, BoxUpdates, Declaration, FrameBatch
from molrec_convert.model.tags import TAGS
from molrec_mdanalysis.cells import vectors_of
from molrec_mdanalysis.layout import ATOMS, CELLS, SIX, STEPS, Layout, shown_data
from molrec_mdanalysis.names import STATE

__all__ = ["Gatherer", "Pass", "Portion"]


@dataclass
class Portion:
    """Frames as MDAnalysis gave them: arrays [3, frames, atoms], who has them, cells, times, `ts.data`."""

    first: int
    frames: int = 0
    arrays: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    present: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    rows: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    dimensions: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 6)))
    celled: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    steps: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    data: dict[str, list[Any]] = field(default_factory=dict)


class Gatherer:
    """Copies time steps into portions; `path` is what errors name, `names` the arrays that are wanted."""

    def __init__(self, layout: Layout, declaration: Declaration, path: Path) -> None:
        self._layout, self._path = layout, path
        self.names = _arrays_of(layout, declaration)

    def portion(self, first: int, size: int) -> Portion:
        """An empty portion of at most `size` frames, the first of which has this ordinal."""
        atoms = self._layout.atoms
        return Portion(
            first,
            arrays={name: np.empty((3, size, atoms)) for name in self.names},
            present={name: np.ones(size, np.bool_) for name in self.names},
            rows={key: np.empty((size, atoms, *trailing)) for key, (_, trailing) in self._layout.rows.items()},
            dimensions=np.zeros((size, 6)),
            celled=np.zeros(size, np.bool_),
            data={key: [] for key in self._layout.data},
        )

    def take(self, read: Portion, ts: Any) -> None:
        """One frame into the arrays of its portion. LayoutChanged: it is unlike the first."""
        layout, at = self._layout, read.frames
        number = read.first + at
        if ts.n_atoms != layout.atoms:
            raise FormatError(
                self._path, f"frame {ts.frame}", found=f"{ts.n_atoms} atoms", expected=f"{layout.atoms}, as before"
            )
        for name in STATE:
            there = bool(getattr(ts, f"has_{name}"))
            if there != (name in layout.arrays) and not layout.arrays.get(name, False):
                raise LayoutChanged(
                    f"some frames have no {name}",
                    f"{self._path}, frame {ts.frame}: it has {'' if there else 'no '}{name}, unlike the first",
                )
            if name in self.names:
                if there:
                    read.arrays[name][:, at] = getattr(ts, name).T
                else:
                    read.arrays[name][:, at] = 0.0
                    read.present[name][at] = False
        dimensions = ts.dimensions
        if dimensions is not None:
            read.dimensions[at] = dimensions
            read.celled[at] = True
        data = ts.data
        if not data.keys() <= layout.known:
            key = next(iter(data.keys() - layout.known))
            raise LayoutChanged(f"data:{key}", f"{self._path}, frame {ts.frame}: it has {key}, unlike the first")
        read.steps.append(int(data["step"]) if layout.stepped and "step" in data else number)
        if layout.stepped and "step" not in data:
            raise LayoutChanged(STEPS, f"{self._path}, frame {ts.frame}: it has no step number, unlike the first")
        for key, (_, tag) in layout.data.items():
            if tag != "json" and key not in data:
                raise LayoutChanged(f"data:{key}", f"{self._path}, frame {ts.frame}: it has no {key}, unlike the first")
            read.data[key].append(shown_data(data.get(key)))
        for key in layout.rows:
            read.rows[key][at] = data[key]
        if layout.timed:
            read.times.append(float(ts.time))
        read.frames += 1


def _arrays_of(layout: Layout, declaration: Declaration) -> list[str]:
    """Which arrays have a column that is wanted."""
    columns = declaration.blocks[ATOMS].columns if ATOMS in declaration.blocks else {}
    return [name for name in layout.arrays if any(column in columns for column in STATE[name])]


class Pass:
    """One pass over the frames: turns what was read into batches."""

    def __init__(self, layout: Layout, declaration: Declaration, path: Path) -> None:
        self._layout, self._declaration, self._path = layout, declaration, path
        self._step: int | None = None
        self._celled = False

    def batch(self, read: Portion) -> FrameBatch:
        """The batch of a portion."""
        layout, frames = self._layout, read.frames
        steps = np.array(read.steps, dtype=np.int64)
        before = steps[:1] - 1 if self._step is None else np.array([self._step])
        if layout.stepped and bool((np.diff(np.concatenate([before, steps])) <= 0).any()):
            raise LayoutChanged(STEPS, f"{self._path}: the step numbers do not ascend from frame to frame")
        self._step = int(steps[-1])
        meta = {name: _per_step(read.data[key], tag) for key, (name, tag) in layout.data.items()}
        box = None
        if layout.cells:
            box = self._cells(read.dimensions[:frames], read.celled[:frames])
        else:
            cells = zip(read.dimensions[:frames].tolist(), read.celled[:frames].tolist(), strict=True)
            meta["dimensions"] = [dict(zip(SIX, six, strict=True)) if there else None for six, there in cells]
        return FrameBatch(
            steps,
            np.array(read.times, dtype=np.float64) if layout.timed else None,
            self._blocks(read),
            {key: values for key, values in meta.items() if key in self._declaration.meta},
            box,
        )

    def _blocks(self, read: Portion) -> dict[str, BlockUpdates]:
        if ATOMS not in self._declaration.blocks:
            return {}
        layout, frames = self._layout, read.frames
        wanted = self._declaration.blocks[ATOMS].columns
        columns: dict[str, NDArray[Any]] = {}
        validity: dict[str, NDArray[np.bool_]] = {}
        for name, values in read.arrays.items():
            for axis, column in enumerate(STATE[name]):
                if column not in wanted:
                    continue
                columns[column] = values[axis, :frames].reshape(-1)
                if layout.arrays[name]:
                    validity[column] = np.repeat(read.present[name][:frames], layout.atoms)
        for key, (column, trailing) in layout.rows.items():
            if column in wanted:
                columns[column] = np.ascontiguousarray(read.rows[key][:frames]).reshape(-1, *trailing)
        return {ATOMS: BlockUpdates.uniform(frames, layout.atoms, columns, validity)}

    def _cells(self, dimensions: NDArray[np.float64], celled: NDArray[np.bool_]) -> BoxUpdates | None:
        vectors, good = vectors_of(dimensions)
        if bool((celled & ~good).any()):
            raise LayoutChanged(CELLS, f"{self._path}: lengths and angles that are those of no cell")
        if (self._celled and not celled.all()) or bool((celled[:-1] & ~celled[1:]).any()):
            raise LayoutChanged(CELLS, f"{self._path}: a frame without a cell after frames with one")
        if not celled.any():
            return None
        changed = celled.copy()
        changed[1:] &= ~celled[:-1] | (dimensions[1:] != dimensions[:-1]).any(axis=1)
        self._celled = True
        at = np.flatnonzero(changed).astype(np.int64)
        count = len(at)
        return BoxUpdates(at, vectors[at], np.zeros((count, 3)), np.ones((count, 3), np.bool_))


def _per_step(values: list[Any], tag: str) -> Any:
    if tag in ("json", "string"):
        return values if tag == "json" else np.array(values, dtype=np.dtypes.StringDType())
    spec = TAGS[tag]
    dtype = np.dtype({"i64": np.int64, "u64": np.uint64, "bool": np.bool_}.get(spec.dtype or "", np.float64))
    return np.array(values, dtype=dtype)
