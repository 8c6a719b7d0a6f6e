"""Frames of MDAnalysis as they are asked for: some of them, some of the atoms, with auxiliary data.

What reads frames finds the same here as in a reader of MDAnalysis and its time steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_mdanalysis.names import STATE

__all__ = ["Now", "Shown", "ShownReader", "data_of"]


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
        """The same frames, to be read beside this."""
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
        """Itself: nothing moves."""
        return self

    def __getitem__(self, frame: int) -> Any:
        return self.ts

    def close(self) -> None:
        """Nothing is open."""


def data_of(ts: Any) -> dict[str, Any]:
    """`ts.data`, and auxiliary data under its name, or `aux.<name>` where that is another's.

    Values of auxiliary data are lists: an array would be one of the atoms.
    """
    data = dict(ts.data)
    for name in ts.aux if hasattr(ts, "aux") else ():
        key = f"aux.{name}" if name in data or name in ("time", "step", "dt", "time_offset") else name
        data[key] = np.asarray(ts.aux[name]).tolist()
    return data


def _taken(value: Any, rows: Any, count: int) -> Any:
    """The entries of some atoms in an array with one for each."""
    if isinstance(value, np.ndarray) and value.shape[:1] == (count,) and count > 9:
        return value[rows]
    return value
