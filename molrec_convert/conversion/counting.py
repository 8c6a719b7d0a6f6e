"""Progress of a conversion, in which readers and writers both count: what is written counts, once, and its total."""

from __future__ import annotations

from molrec_convert.formats import Progress
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.record import Record

__all__ = ["ReadingProgress", "WritingProgress"]


class ReadingProgress:
    """Passes on what readers count, until something is written: from then on they count what is counted anyway."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.writing = False

    def start(self, label: str, total: int | None) -> None:
        """See `Progress.start`."""
        if not self.writing:
            self._progress.start(label, total)

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `Progress.advance`."""
        if not self.writing:
            self._progress.advance(frames, nbytes)


class WritingProgress:
    """Passes on what a writer counts of `source`, whose number of frames is the total where the writer names none."""

    def __init__(self, progress: Progress, source: Record | Collection, reading: ReadingProgress | None) -> None:
        self._progress, self._source, self._reading = progress, source, reading

    def start(self, label: str, total: int | None) -> None:
        """See `Progress.start`."""
        if self._reading is not None:
            self._reading.writing = True
        self._progress.start(label, _frames(self._source) if total is None else total)

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `Progress.advance`."""
        self._progress.advance(frames, nbytes)


def _frames(source: Record | Collection) -> int | None:
    """Return how many frames there are; None where only reading to the end tells."""
    if isinstance(source, Collection):
        return source.n_frames
    if source.trajectory is not None:
        return source.trajectory.n_frames
    return 1
