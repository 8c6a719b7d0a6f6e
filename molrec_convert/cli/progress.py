"""Progress of a conversion: counted always, shown on a terminal's stderr only."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from molrec_convert.cli.showing import is_quiet

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Counter", "TerminalProgress", "watch"]


class Counter:
    """Counts frames; shows nothing. What was counted under the last label stays in `frames` and `nbytes`."""

    def __init__(self) -> None:
        self.label = ""
        self.frames = 0
        self.nbytes = 0

    def start(self, label: str, total: int | None) -> None:
        """See `molrec_convert.formats.Progress`."""
        self.label, self.frames, self.nbytes = label, 0, 0

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `molrec_convert.formats.Progress`."""
        self.frames += frames
        self.nbytes += nbytes

    def __enter__(self) -> Counter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class TerminalProgress(Counter):
    """A bar with frames, rate and time left, gone when the work is done."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None

    def start(self, label: str, total: int | None) -> None:
        """See `molrec_convert.formats.Progress`."""
        super().start(label, total)
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(label, total=total, rate="")

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `molrec_convert.formats.Progress`."""
        super().advance(frames, nbytes)
        if self._task is None:
            self.start("frames", None)
        assert self._task is not None
        self._bar.update(self._task, advance=frames, rate=self._rate())

    def _rate(self) -> str:
        elapsed = next((task.elapsed for task in self._bar.tasks if task.id == self._task), None)
        if not elapsed:
            return ""
        text = f"{self.frames / elapsed:,.0f} frames/s"
        return f"{text}, {self.nbytes / elapsed / 1e6:,.0f} MB/s" if self.nbytes else text

    def __enter__(self) -> TerminalProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def watch() -> Counter:
    """Return who watches: a bar where stderr is a terminal and the command not quiet, else nobody but the counter."""
    return TerminalProgress() if sys.stderr.isatty() and not is_quiet() else Counter()
