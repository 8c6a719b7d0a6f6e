"""The frames MDAnalysis reads as a trajectory: batches, read ahead by a thread while the ones before are worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from MDAnalysis.coordinates.chain import ChainReader
from MDAnalysis.coordinates.DCD import DCDReader
from MDAnalysis.lib.formats.libdcd import DCDFrame
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, MolrecError
from molrec_convert.model import BATCH_BYTES, FrameBatch, Trajectory
from molrec_convert.report import Report
from molrec_mdanalysis.frames import STEPS, Gatherer, Layout, Pass, Portion
from molrec_mdanalysis.names import STATE
from molrec_mdanalysis.source import refusing, said_aloud

__all__ = ["ClockedTrajectory", "MdaTrajectory", "clock_of", "counted", "is_of_lammps"]

_MOST_FRAMES = 4096
#: So much is read at once, while what was read before is stored.
_PORTION = 8 * 2**20


class MdaTrajectory(Trajectory):
    """The frames of a reader of MDAnalysis. Every pass reads with a copy of it, so passes may run beside each other."""

    def __init__(self, reader: Any, layout: Layout, path: Path, report: Report) -> None:
        super().__init__()
        self._reader, self._layout, self._path, self._report = reader, layout, path, report
        self.declaration = layout.declaration()

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return int(self._reader.n_frames)

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`. FormatError: MDAnalysis fails to read a frame. LayoutChanged: a frame differs."""
        declaration = self.declaration.select(columns)
        wanted = range(*slice(start, stop, step).indices(self.n_frames))
        if not len(wanted):
            return
        frame_bytes = max(1, self._layout.atoms * 8 * sum(len(STATE[name]) for name in self._layout.arrays))
        size = int(min(max(1, min(batch_bytes, _PORTION) // frame_bytes), _MOST_FRAMES, len(wanted)))
        state = Pass(self._layout, declaration, self._path)
        for read in _ahead(self._read(wanted, size, Gatherer(self._layout, declaration, self._path))):
            yield state.batch(read)

    def _read(self, wanted: range, size: int, gatherer: Gatherer) -> Iterator[Portion]:
        """Yield frames in portions of `size`."""
        with said_aloud(self._report):
            with refusing(self._path, "", "a frame"):
                reader = self._reader.copy()  # which reads a frame
            at = wanted.start
            try:
                for read in self._read_dcd(reader, wanted, size, gatherer):
                    at += len(read.steps) * wanted.step
                    yield read
                wanted = range(at, wanted.stop, wanted.step)
                if not len(wanted):
                    return
                read = gatherer.portion(wanted.start, size)
                whole = wanted.start == 0 and wanted.step == 1 and wanted.stop == self.n_frames
                for ts in reader if whole else reader[wanted.start : wanted.stop : wanted.step]:
                    gatherer.take(read, ts)
                    at += wanted.step
                    if read.frames == size:
                        yield read
                        read = gatherer.portion(at, size)
                if read.frames:
                    yield read
            except (MolrecError, GeneratorExit):
                raise
            except Exception as error:  # a foreign library: any of its errors says it cannot read the frame
                text = " ".join(str(error).split())
                raise FormatError(
                    self._path, f"frame {at}", found=f"{type(error).__name__}: {text}", expected="a frame"
                ) from error
            finally:
                reader.close()
        if at < wanted.stop:
            raise FormatError(
                self._path,
                found=f"{len(range(wanted.start, at, wanted.step))} whole frames",
                expected=f"{len(wanted)}: it breaks off",
            )

    def _read_dcd(self, reader: Any, wanted: range, size: int, gatherer: Gatherer) -> Iterator[Portion]:
        """Yield portions of a DCD file, the frames of each read by one call; none from where that fails."""
        layout = self._layout
        if layout.data or layout.rows or set(layout.arrays) != {"positions"} or not layout.stepped:
            return
        if type(reader) is not DCDReader or reader.transformations or getattr(reader, "aux_list", None):
            return
        for first in range(0, len(wanted), size):
            frames = wanted[first : first + size]
            try:
                found = reader._file.readframes(frames.start, frames[-1] + 1, frames.step, order="cfa")
            except (OSError, ValueError):  # raised again, with its frame, by reading one after the other
                return
            read = gatherer.portion(frames.start, len(frames))
            if "positions" in gatherer.names:
                read.arrays["positions"][...] = found.xyz
            header, dt = reader._file.header, reader.ts.dt
            if header["is_periodic"]:  # else what is returned as cells is memory nobody has written to
                _fill_cells(reader, read, found.unitcell)
            read.steps.extend(frame + 1 for frame in frames)
            # One by one, in numbers of the width MDAnalysis works with.
            read.times.extend(float((frame + header["istart"] / header["nsavc"]) * dt) for frame in frames)
            read.frames = len(frames)
            yield read


def _fill_cells(reader: Any, read: Portion, cells: NDArray[np.float64]) -> None:
    """Put the cells of frames, float64[n, 6] as a DCD file has them, into a portion, as MDAnalysis reads them."""
    new = np.ones(len(cells), np.bool_)
    new[1:] = (cells[1:].view(np.uint64) != cells[:-1].view(np.uint64)).any(axis=1)
    places = np.flatnonzero(new).tolist()
    for place, after in zip(places, [*places[1:], len(cells)], strict=True):
        ts = reader._Timestep(1, dt=1.0)
        reader._frame_to_ts(DCDFrame(np.zeros((1, 3), np.float32), cells[place].copy()), ts)
        if ts.dimensions is not None:
            read.dimensions[place:after] = ts.dimensions
            read.celled[place:after] = True


def counted(reader: Any, path: Path, report: Report) -> frozenset[str]:
    """Return the hint that frames are counted, where the steps of the first two do not ascend: nothing is started
    over.
    """
    try:
        steps = [reader[frame].data.get("step") for frame in (0, 1)] if reader.n_frames > 1 else []
    except Exception:  # a foreign library: whoever reads the frames says which cannot be read
        return frozenset()
    if len(steps) < 2 or None in steps or steps[0] < steps[1]:
        return frozenset()
    report.warn(f"{path}: the step numbers do not ascend from frame to frame: frames are counted")
    return frozenset((STEPS,))


def _ahead(reads: Iterator[Portion]) -> Iterator[Portion]:
    """Yield the same portions, the next one read by a thread meanwhile; its errors are raised here."""
    filled: queue.Queue[Any] = queue.Queue(maxsize=1)
    stopped = threading.Event()

    def put(item: Any) -> bool:
        while not stopped.is_set():
            try:
                filled.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for read in reads:
                if not put(read):
                    return
            put(None)
        except BaseException as error:  # handed over to whoever waits for it
            put(error)
        finally:
            reads.close()  # type: ignore[attr-defined]

    thread = threading.Thread(target=work, name="molrec-mdanalysis", daemon=True)
    thread.start()
    try:
        while (item := filled.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()


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
