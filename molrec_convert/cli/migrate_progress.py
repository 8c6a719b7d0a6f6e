"""Progress of a migration on a terminal: records and bytes a second, time left, failures; silent elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from molrec_convert.cli.showing import is_quiet

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["MigrationBar", "Quiet", "watch_migration"]


class Quiet:
    """Remembers, shows nothing."""

    def __init__(self) -> None:
        self.records = self.failures = 0

    def stage(self, label: str, inputs: int, nbytes: int) -> None:
        """See `molrec_convert.migration.outputs.outcome.Watcher`."""

    def advance(self, inputs: int, nbytes: int, records: int, failures: int) -> None:
        """See `molrec_convert.migration.outputs.outcome.Watcher`."""
        self.records, self.failures = records, failures

    def __enter__(self) -> Quiet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class MigrationBar(Quiet):
    """A bar over the inputs' bytes, gone when the work is done."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        self._bar: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None
        self._inputs = self._done = self._bytes = self._first = 0
        self._began = 0.0

    def stage(self, label: str, inputs: int, nbytes: int) -> None:
        """A new bar."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._inputs, self._done, self._bytes, self._first = inputs, 0, 0, -1
        self._began = time.monotonic()
        self._task = self._bar.add_task(label, total=max(nbytes, 1), state="")

    def advance(self, inputs: int, nbytes: int, records: int, failures: int) -> None:
        """That much further."""
        super().advance(inputs, nbytes, records, failures)
        if self._task is None:
            return
        if self._first < 0:
            # what an earlier attempt did is no speed of this one
            self._first, self._began = records, time.monotonic()
        else:
            self._bytes += nbytes
        self._done += inputs
        seconds = max(time.monotonic() - self._began, 1e-3)
        rate = f"{(records - self._first) / seconds:,.0f} records/s, {self._bytes / seconds / 1e6:,.1f} MB/s"
        failed = f", {failures:,} failed" if failures else ""
        self._bar.update(self._task, advance=nbytes, state=f"{self._done:,}/{self._inputs:,} inputs, {rate}{failed}")

    def __enter__(self) -> MigrationBar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def watch_migration() -> Quiet:
    """Return a bar where standard error is a terminal and the command not quiet."""
    return MigrationBar() if sys.stderr.isatty() and not is_quiet() else Quiet()
