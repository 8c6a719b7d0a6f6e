"""DCD files LAMMPS wrote: their time step is in LAMMPS' own unit, where MDAnalysis takes every DCD file's for AKMA.

Source: dump_dcd.cpp of LAMMPS: START is the first step, SKIP the steps between frames, DELTA the time step as float32,
positions and cell are in the unit of length of the style; the first title is "Written by LAMMPS".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from MDAnalysis.coordinates.chain import ChainReader
from MDAnalysis.coordinates.DCD import DCDReader
from numpy.typing import NDArray

from molrec_convert.model import BATCH_BYTES, FrameBatch, Trajectory

__all__ = ["ClockedTrajectory", "clock_of", "is_of_lammps"]


def is_of_lammps(reader: Any) -> bool:
    """True if all files of a reader are DCD files LAMMPS wrote, and MDAnalysis was not told so."""
    return all(
        type(each) is DCDReader and "Written by LAMMPS" in str(_header(each)["remarks"]) for each in _all(reader)
    )


def clock_of(reader: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the step and the time of every frame, int64[n] and float64[n], times in the unit of time of LAMMPS' style.

    A time step is the number of the fewest digits that is its float32.
    """
    steps, times = [np.zeros(0, np.int64)], [np.zeros(0)]
    for each in _all(reader):
        header = _header(each)
        own = int(header["istart"]) + int(header["nsavc"]) * np.arange(each.n_frames, dtype=np.int64)
        steps.append(own)
        times.append(own * float(str(np.float32(header["delta"]))))
    return np.concatenate(steps), np.concatenate(times)


class ClockedTrajectory(Trajectory):
    """Another trajectory, whose frames have these steps, and these times or none."""

    def __init__(self, source: Trajectory, steps: NDArray[np.int64], times: NDArray[np.float64] | None) -> None:
        super().__init__()
        self._source, self._steps, self._times = source, steps, times
        self.declaration = source.declaration
        self.cell_defined = source.cell_defined

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self._steps)

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        wanted = np.arange(self.n_frames)[start:stop:step]
        done = 0
        for batch in self._source.batches(start, stop, step, columns, batch_bytes):
            rows = wanted[done : done + batch.n_frames]
            done += batch.n_frames
            yield replace(batch, step=self._steps[rows], time=None if self._times is None else self._times[rows])


def _all(reader: Any) -> list[Any]:
    return list(reader.readers) if type(reader) is ChainReader else [reader]


def _header(reader: Any) -> Any:
    return reader._file.header
