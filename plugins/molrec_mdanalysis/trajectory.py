"""The frames MDAnalysis reads as a trajectory: batches, read ahead by a thread while the ones before are worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from molrec_convert.errors import FormatError, MolrecError
from molrec_convert.model import BATCH_BYTES, FrameBatch, Trajectory
from molrec_convert.report import Report
from molrec_mdanalysis.dcd import PlainDcd
from molrec_mdanalysis.layout import STEPS, Layout
from molrec_mdanalysis.names import STATE
from molrec_mdanalysis.portions import Gatherer, Pass, Portion
from molrec_mdanalysis.source import refusing, said_aloud
from molrec_mdanalysis.unlocked import unlock

__all__ = ["MdaTrajectory", "counted"]

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
        """Frames in portions of `size`."""
        with said_aloud(self._report):
            with refusing(self._path, "", "a frame"):
                reader = self._reader.copy()  # which reads a frame
            at = wanted.start
            lock = _nothing
            try:
                for read in self._in_portions(reader, wanted, size, gatherer):
                    at += len(read.steps) * wanted.step
                    yield read
                wanted = range(at, wanted.stop, wanted.step)
                if not len(wanted):
                    return
                lock = unlock(reader)
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
                lock()
                reader.close()
        if at < wanted.stop:
            raise FormatError(
                self._path,
                found=f"{len(range(wanted.start, at, wanted.step))} whole frames",
                expected=f"{len(wanted)}: it breaks off",
            )

    def _in_portions(self, reader: Any, wanted: range, size: int, gatherer: Gatherer) -> Iterator[Portion]:
        """Portions of a file that is read without MDAnalysis, as far as that goes."""
        layout = self._layout
        if layout.data or layout.rows or set(layout.arrays) != {"positions"} or not layout.stepped:
            return
        plain = PlainDcd.of(reader)
        if plain is None:
            return
        try:
            for first in range(0, len(wanted), size):
                frames = wanted[first : first + size]
                read = gatherer.portion(frames.start, len(frames))
                if not plain.fill(read, frames, "positions" in gatherer.names):
                    return
                yield read
        finally:
            plain.close()


def counted(reader: Any, path: Path, report: Report) -> frozenset[str]:
    """The hint that frames are counted, where the steps of the first two do not ascend: nothing is started over."""
    try:
        steps = [reader[frame].data.get("step") for frame in (0, 1)] if reader.n_frames > 1 else []
    except Exception:  # a foreign library: whoever reads the frames says which cannot be read
        return frozenset()
    if len(steps) < 2 or None in steps or steps[0] < steps[1]:
        return frozenset()
    report.warn(f"{path}: the step numbers do not ascend from frame to frame: frames are counted")
    return frozenset((STEPS,))


def _nothing() -> None:
    pass


def _ahead(reads: Iterator[Portion]) -> Iterator[Portion]:
    """The same portions, the next one read by a thread meanwhile; its errors are raised here."""
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
