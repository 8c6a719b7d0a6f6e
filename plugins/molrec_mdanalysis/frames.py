"""Frames of MDAnalysis: what they hold, told by the first and by hints; gathered, and turned into batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, LayoutChanged
from molrec_convert.model import (
    NO_FILL,
    BlockDeclaration,
    BlockUpdates,
    BoxUpdates,
    ColumnDeclaration,
    Declaration,
    FrameBatch,
    MetaDeclaration,
)
from molrec_convert.model.names import RESERVED_COLUMNS, escape_name, name_fault
from molrec_convert.model.tags import TAGS, infer_tag
from molrec_mdanalysis.names import ATTRIBUTES, STATE, vectors_of

__all__ = [
    "APART",
    "ATOMS",
    "CELLS",
    "SIX",
    "STEPS",
    "Gatherer",
    "Layout",
    "Now",
    "Pass",
    "Portion",
    "Shown",
    "ShownReader",
    "data_of",
    "layout_of",
    "shown_data",
]


class Shown:
    """Some atoms as a time step has them: those in `rows`, None for all."""

    def __init__(self, ts: Any, rows: NDArray[np.int64] | None, data: Mapping[str, Any]) -> None:
        self._ts = ts
        everything = rows is None or np.array_equal(rows, np.arange(ts.n_atoms))
        self._rows: Any = slice(None) if everything else rows
        self.n_atoms = ts.n_atoms if rows is None else len(rows)
        self.data = dict(data) if everything else {key: _taken(value, rows, ts.n_atoms) for key, value in data.items()}
        self.frame = ts.frame
        for name in STATE:
            setattr(self, f"has_{name}", getattr(ts, f"has_{name}"))

    @property
    def dimensions(self) -> NDArray[Any] | None:
        """Lengths and angles of the cell."""
        return self._ts.dimensions  # type: ignore[no-any-return]

    @property
    def time(self) -> float:
        """The time of the frame."""
        return float(self._ts.time)

    @property
    def dt(self) -> float:
        """The time between frames."""
        return float(self._ts.dt)

    @property
    def positions(self) -> NDArray[Any]:
        """[n_atoms, 3], as are velocities and forces."""
        return self._ts.positions[self._rows]  # type: ignore[no-any-return]

    @property
    def velocities(self) -> NDArray[Any]:
        """[n_atoms, 3]."""
        return self._ts.velocities[self._rows]  # type: ignore[no-any-return]

    @property
    def forces(self) -> NDArray[Any]:
        """[n_atoms, 3]."""
        return self._ts.forces[self._rows]  # type: ignore[no-any-return]


class ShownReader:
    """A reader whose frames are `Shown`: `frames` by number (None: all), `rows` of the atoms (None: all).

    `shared`: no copies are made of the reader, and what reads it leaves it at the frame it stood at. That is for
    transformations, which hold on to the atoms of the universe they were made for.
    """

    def __init__(
        self,
        reader: Any,
        frames: Sequence[int] | None = None,
        rows: NDArray[np.int64] | None = None,
        *,
        shared: bool = False,
    ) -> None:
        self.reader = reader
        self._frames = range(reader.n_frames) if frames is None else frames
        self._rows = rows
        self._shared = shared
        self._stood = Now(reader).ts if shared else None
        self.n_frames = len(self._frames)
        self.n_atoms = int(reader.n_atoms) if rows is None else len(rows)

    def copy(self) -> ShownReader:
        """Return the same frames, to be read beside this."""
        if self._shared:
            return ShownReader(self.reader, self._frames, self._rows, shared=True)
        return ShownReader(self.reader.copy(), self._frames, self._rows)

    def __getitem__(self, wanted: int | slice) -> Any:
        if isinstance(wanted, slice):
            return self._each(self._frames[wanted])
        return self._show(self.reader[self._frames[wanted]])

    def __iter__(self) -> Iterator[Shown]:
        return self._each(self._frames)

    def __len__(self) -> int:
        return self.n_frames

    def close(self) -> None:
        """Let go of the files, or go back to the frame the reader stood at."""
        if self._shared:
            self.back()
        else:
            self.reader.close()

    def back(self) -> None:
        """A shared reader goes back to the frame it stood at, with what was changed in it."""
        stood = self._stood
        if stood is None or not 0 <= stood.frame < self.reader.n_frames:
            return
        self.reader[stood.frame]
        ts = self.reader.ts
        for name in STATE:
            if getattr(stood, f"has_{name}"):
                setattr(ts, name, getattr(stood, name))
        ts.dimensions = stood.dimensions
        ts.data.update(stood.data)

    def _each(self, frames: Sequence[int]) -> Iterator[Shown]:
        for number in frames:
            yield self._show(self.reader[number])

    def _show(self, ts: Any) -> Shown:
        return Shown(ts, self._rows, data_of(ts))


class Now:
    """The frame a reader stands at, with all that was changed in it, as the only frame of a reader."""

    n_frames = 1

    def __init__(self, reader: Any) -> None:
        self.ts = reader.ts.copy()
        for name in getattr(reader.ts, "aux", ()):
            self.ts.aux[name] = reader.ts.aux[name]
        self.n_atoms = int(self.ts.n_atoms)

    def copy(self) -> Now:
        """Return itself: nothing moves."""
        return self

    def __getitem__(self, frame: int) -> Any:
        return self.ts

    def close(self) -> None:
        """Nothing is open."""


def data_of(ts: Any) -> dict[str, Any]:
    """Return `ts.data`, and auxiliary data under its name, or `aux.<name>` where that is another's.

    Values of auxiliary data are lists: an array would be one of the atoms.
    """
    data = dict(ts.data)
    for name in ts.aux if hasattr(ts, "aux") else ():
        key = f"aux.{name}" if name in data or name in ("time", "step", "dt", "time_offset") else name
        data[key] = np.asarray(ts.aux[name]).tolist()
    return data


def _taken(value: Any, rows: Any, count: int) -> Any:
    """Return the entries of some atoms in an array with one for each."""
    if isinstance(value, np.ndarray) and value.shape[:1] == (count,) and count > 9:
        return value[rows]
    return value


ATOMS = "atoms"
#: Hints: cells are kept as six numbers, steps are counted.
CELLS, STEPS = "cells as numbers", "frames are counted"
#: Names of the six numbers of a cell in the per-step value `dimensions`; the first three are lengths.
SIX = ("cella", "cellb", "cellc", "cellalpha", "cellbeta", "cellgamma")
#: Before the name of a column of `ts.data` where the name alone would be another column.
APART = "data."
_STANDARD = frozenset((*ATTRIBUTES.values(), *(column for columns in STATE.values() for column in columns)))
#: What of `ts.data` is said elsewhere.
_SAID = {"time", "step", "time_offset"}


@dataclass
class Layout:
    """`arrays`: which of positions, velocities, forces there are, and whether some frames lack them.

    `data`: key of `ts.data` → name of the per-step value and its tag; `rows`: key → column, of one value, or as many as
    `trailing` says, an atom. `known`: all keys there may be. `timed`: frames have times. `cells`: cells are cells, not
    numbers. `stepped`: `ts.data` has step numbers, and they ascend.
    """

    atoms: int
    arrays: dict[str, bool] = field(default_factory=dict)
    data: dict[str, tuple[str, str]] = field(default_factory=dict)
    rows: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    known: set[Any] = field(default_factory=set)
    timed: bool = False
    cells: bool = True
    stepped: bool = False

    def declaration(self) -> Declaration:
        """Return the declaration of the trajectory."""
        columns = {
            column: ColumnDeclaration("f64", (), sparse)
            for name, sparse in self.arrays.items()
            for column in STATE[name]
        }
        columns |= {column: ColumnDeclaration("f64", trailing) for column, trailing in self.rows.values()}
        meta = {name: MetaDeclaration(tag, None if tag == "json" else NO_FILL) for name, tag in self.data.values()}
        if not self.cells:
            meta["dimensions"] = MetaDeclaration("json", None)
        return Declaration({ATOMS: BlockDeclaration(columns, rows=self.atoms)} if columns else {}, meta)


def layout_of(ts: Any, reader: Any, taken: Collection[str], hints: frozenset[str]) -> Layout:
    """Return the layout a first frame and hints tell; `taken`: columns of the atoms the system has."""
    layout = Layout(int(ts.n_atoms))
    for name in STATE:
        there = bool(getattr(ts, f"has_{name}"))
        sparse = f"some frames have no {name}" in hints
        if there or sparse:
            layout.arrays[name] = sparse
    layout.cells = CELLS not in hints
    counted = STEPS in hints or "data:step" in hints
    layout.stepped = "step" in ts.data and not counted
    states_dt = _states_dt(reader.reader if isinstance(reader, ShownReader) else reader)
    layout.timed = "time" in ts.data or "dt" in ts.data or states_dt
    left_out = []
    keys = dict.fromkeys([*ts.data, *sorted(hint[5:] for hint in hints if hint.startswith("data:"))])
    for key in keys:
        if key == "dt" and (reader is None or reader.n_frames > 1):
            continue  # the times say it
        if not isinstance(key, str) or key in _SAID - ({"step"} if counted else set()):
            continue
        name = "source_step" if key == "step" else key
        name = name if name_fault(name) is None else escape_name(name)
        shape = np.shape(ts.data[key]) if key in ts.data else ()
        if f"data:{key}" in hints:
            layout.data[key] = (name, "json")
        elif _is_rows(ts.data[key], layout.atoms):
            apart = name in taken or name in _STANDARD or name in RESERVED_COLUMNS
            layout.rows[key] = (f"{APART}{name}" if apart else name, tuple(shape[1:]))
        else:
            tag = _tag(ts.data[key])
            if tag is None:
                left_out.append(key)
            else:
                layout.data[key] = (name, tag)
    layout.left_out = tuple(left_out)
    layout.known = {*keys, *_SAID - {"step"}, "dt"} | ({"step"} if layout.stepped else set())
    return layout


def _states_dt(reader: Any) -> bool:
    """True if a reader knows the time between its frames; MDAnalysis says 1 ps where one does not."""
    return "_get_dt" in vars(type(reader)) or len(getattr(reader, "readers", ())) > 0


def _is_rows(value: Any, atoms: int) -> bool:
    """True if a value of `ts.data` is an array with numbers for every atom (of more than a vector or a cell has)."""
    return isinstance(value, np.ndarray) and value.shape[:1] == (atoms,) and atoms > 9 and value.dtype.kind in "fiu"


def _tag(value: Any) -> str | None:
    """Return the tag of a value of `ts.data`; None for one that is no value of a record."""
    try:
        shown = shown_data(value)
    except TypeError:
        return None
    tag = infer_tag(np.array(shown)) if isinstance(shown, list) and shown else infer_tag(shown)
    return "f64" if tag == "i64" and not isinstance(shown, int) else tag


def shown_data(value: Any) -> Any:
    """Return a value of `ts.data` as plain Python: numbers, texts, lists of them. TypeError for anything else."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [shown_data(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: shown_data(item) for key, item in value.items()}
    raise TypeError(type(value).__name__)


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
        """Return an empty portion of at most `size` frames, the first of which has this ordinal."""
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
    """Return which arrays have a column that is wanted."""
    columns = declaration.blocks[ATOMS].columns if ATOMS in declaration.blocks else {}
    return [name for name in layout.arrays if any(column in columns for column in STATE[name])]


class Pass:
    """One pass over the frames: turns what was read into batches."""

    def __init__(self, layout: Layout, declaration: Declaration, path: Path) -> None:
        self._layout, self._declaration, self._path = layout, declaration, path
        self._step: int | None = None
        self._celled = False

    def batch(self, read: Portion) -> FrameBatch:
        """Return the batch of a portion."""
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
