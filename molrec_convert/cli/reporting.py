"""The fidelity report on stderr, grouped by kind, and as a file; and how much a command tells at all."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from molrec_convert.cli.output import print_json_text, print_message
from molrec_convert.errors import UsageError
from molrec_convert.report import Fate, Item, Report, shape_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = [
    "REPORT_OPTIONS",
    "Counter",
    "MigrationBar",
    "Quiet",
    "TerminalProgress",
    "check_replaced",
    "check_report_path",
    "is_quiet",
    "is_verbose",
    "report_lines",
    "report_options",
    "show_breaks",
    "show_closing",
    "show_report",
    "watch",
    "watch_migration",
    "write_report",
    "written_at",
]

_COLOURS = {"carried": None, "converted": "cyan", "derived": "cyan", "dropped": "yellow", "warning": "yellow"}
#: Where the context of a running command keeps how much it is to tell.
_TELLS = f"{__name__}.tells"
#: So many names of a group are shown.
_MOST_NAMES = 6

_T = TypeVar("_T")


def _tells(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Keep "verbose" or "quiet" in the context."""
    if value:
        if _TELLS in context.meta:
            raise click.UsageError("--verbose and --quiet exclude each other: leave one off", context)
        context.meta[_TELLS] = parameter.name


#: How much of its report a command shows; the same flags in every command that has one.
REPORT_OPTIONS = (
    click.Option(
        ["-v", "--verbose"],
        is_flag=True,
        expose_value=False,
        callback=_tells,
        help="Show every item of the report, carried ones too, a line each.",
    ),
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_tells,
        help="Show errors only: no report, no counts, no progress.",
    ),
)


def report_options(command: click.Command) -> click.Command:
    """Return the command with the flags that say how much of its report is shown."""
    command.params.extend(REPORT_OPTIONS)
    return command


def is_quiet() -> bool:
    """True if the running command is to show errors only."""
    return _asked() == "quiet"


def is_verbose() -> bool:
    """True if the running command is to show everything there is."""
    return _asked() == "verbose"


def show_report(report: Report) -> None:
    """Print what is derived and lost, warnings, and where the source broke off: a line a kind.

    With --verbose every item has a line, those that are carried or converted too; with --quiet nothing is printed.
    """
    if is_quiet():
        return
    for label, text in report_lines(report, grouped=not is_verbose()):
        _line(label, text)


def show_closing(text: str) -> None:
    """Print the last line of a command, what is there now, unless it is quiet."""
    if not is_quiet():
        print_message(text)


def report_lines(report: Report, *, grouped: bool = True) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line of a report; without `grouped` one for every item."""
    if not grouped:
        yield from ((item.fate.value, _item_text([item])) for fate in Fate for item in report.of(fate))
        yield from (("warning", text) for text in report.warnings)
    else:
        for fate in (Fate.DERIVED, Fate.DROPPED):
            yield from ((fate.value, _item_text(group)) for group in _groups(report.of(fate), _item_kind))
        for texts in _groups(report.warnings, shape_of):
            more = f" (and {len(texts) - 1:,} more like it)" if len(texts) > 1 else ""
            yield "warning", texts[0] + more
    yield from (("cut off", text) for text in report.truncations)


def _asked() -> str:
    context = click.get_current_context(silent=True)
    return "" if context is None else str(context.meta.get(_TELLS, ""))


def _groups(things: Iterable[_T], kind: Callable[[_T], Hashable]) -> list[list[_T]]:
    """Return the things in groups of one kind, in the order of the first of each."""
    found: dict[Hashable, list[_T]] = {}
    for thing in things:
        found.setdefault(kind(thing), []).append(thing)
    return list(found.values())


def _item_kind(item: Item) -> tuple[str, str]:
    """Return what items of one line have in common: the group they are in, and the reason but for its particulars."""
    return item.name.rpartition("/")[0], shape_of(item.detail)


def _item_text(items: Sequence[Item]) -> str:
    """Return one line for items of one kind: `3 of system/meta: a, b, c (the format has no place for it)`."""
    names = list(dict.fromkeys(item.name for item in items))
    details = list(dict.fromkeys(item.detail for item in items))
    group = names[0].rpartition("/")[0]
    if len(names) == 1:
        text = names[0]
    else:
        shown = ", ".join(name.rpartition("/")[2] for name in names[:_MOST_NAMES])
        more = ", …" if len(names) > _MOST_NAMES else ""
        text = f"{len(names):,} of {group}: {shown}{more}" if group else f"{shown}{more}"
        text = f"{len(names):,}: {text}" if more and not group else text
    if len(details) == 1:
        return f"{text} ({details[0]})" if details[0] else text
    more = f"and {len(details) - 1:,} more like it" if len(names) == 1 else "…"
    return f"{text} ({details[0]}, {more})"


def show_breaks(report: Report) -> None:
    """Print where a source broke off, one line each."""
    for text in report.truncations:
        _line("cut off", text)


def check_report_path(path: Path, others: Iterable[Path]) -> None:
    """Refuse, before anything is converted, a report that cannot be written, or that would replace a source."""
    if str(path) == "-":
        return
    named = os.path.realpath(path)
    for other in others:
        if os.path.realpath(other) == named:
            raise UsageError(f"the report would replace {other}: name another file behind --report")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write the report {path}: there is no directory {path.parent}")
    if path.is_dir():
        raise UsageError(f"cannot write the report {path}: it is a directory")
    check_replaced(path, "--report", b'{\n  "')
    special = path.is_symlink() or (path.exists() and not path.is_file())
    if not os.access(path if special else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def check_replaced(path: Path, flag: str, beginning: bytes) -> None:
    """Refuse to write over a file that is there and does not begin as what an option writes does."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(len(beginning))
    if head and head.lower() != beginning.lower():
        raise UsageError(f"{path} is there and nothing {flag} has written: name another file, or remove it")


@contextmanager
def written_at(path: Path) -> Iterator[Path]:
    """Yield where to write a file beside the results; links, devices and pipes are written to as they are."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    from molrec_convert.files.staging import replacing

    with replacing(path, overwrite=True) as made:
        yield made


def write_report(report: Report, path: Path, facts: dict[str, Any]) -> None:
    """Every item as JSON, with the facts of the conversion in front; `-` is stdout."""
    text = json.dumps({**facts, **report.to_json()}, ensure_ascii=False, indent=2)
    if str(path) == "-":
        print_json_text(text)
    else:
        with written_at(path) as made:
            # a name that is no UTF-8 becomes an escape JSON knows
            made.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def _line(label: str, text: str) -> None:
    print_message(" ".join(text.split()), label, _COLOURS.get(label, "red"))


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
