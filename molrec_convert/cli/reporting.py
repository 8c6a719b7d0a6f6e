"""What commands report: the fidelity report, grouped by kind or as a file, and the progress of long work."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from molrec_convert.cli.output import print_json_text, print_message
from molrec_convert.errors import UsageError
from molrec_convert.report import Fate, Item, Report, shape_of

if TYPE_CHECKING:
    from rich.progress import TaskID

__all__ = [
    "REPORT_OPTIONS",
    "Counter",
    "MigrationCounter",
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

#: Label of a line → its colour; None is plain, all others are red.
_COLOURS = {"carried": None, "converted": "cyan", "derived": "cyan", "dropped": "yellow", "warning": "yellow"}
#: Where the context of a running command keeps whether it is verbose or quiet.
_VERBOSITY = f"{__name__}.verbosity"
#: How many names of a group are shown.
_MOST_NAMES = 6

_T = TypeVar("_T")


def _set_verbosity(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Keep "verbose" or "quiet" in the context."""
    if value:
        if _VERBOSITY in context.meta:
            raise click.UsageError("--verbose and --quiet exclude each other: leave out one", context)
        context.meta[_VERBOSITY] = parameter.name


#: How much of its report a command shows; the same flags in every command that has one.
REPORT_OPTIONS = (
    click.Option(
        ["-v", "--verbose"],
        is_flag=True,
        expose_value=False,
        callback=_set_verbosity,
        help="Show every item of the report, carried ones too, a line each.",
    ),
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_set_verbosity,
        help="Show errors only: no report, no counts, no progress.",
    ),
)


def report_options(command: click.Command) -> click.Command:
    """Return the command with the flags that say how much of its report is shown."""
    command.params.extend(REPORT_OPTIONS)
    return command


def is_quiet() -> bool:
    """True if the running command is to show errors only."""
    return _verbosity() == "quiet"


def is_verbose() -> bool:
    """True if the running command is to show everything there is."""
    return _verbosity() == "verbose"


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


def _verbosity() -> str:
    """Return "verbose", "quiet", or nothing."""
    context = click.get_current_context(silent=True)
    return "" if context is None else str(context.meta.get(_VERBOSITY, ""))


def _groups(things: Iterable[_T], kind: Callable[[_T], Hashable]) -> list[list[_T]]:
    """Return the things in groups of one kind, in the order of the first of each."""
    found: dict[Hashable, list[_T]] = {}
    for thing in things:
        found.setdefault(kind(thing), []).append(thing)
    return list(found.values())


def _item_kind(item: Item) -> tuple[str, str]:
    """Return what the items of one line have in common: their group, and the shape of the reason."""
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
            raise UsageError(f"the report would replace {other}: name another file after --report")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write the report {path}: there is no directory {path.parent}")
    if path.is_dir():
        raise UsageError(f"cannot write the report {path}: it is a directory")
    check_replaced(path, "--report", b'{\n  "')
    special = path.is_symlink() or (path.exists() and not path.is_file())
    if not os.access(path if special else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def check_replaced(path: Path, flag: str, beginning: bytes) -> None:
    """Refuse to replace a file that does not begin like those an option writes."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(len(beginning))
    if head and head.lower() != beginning.lower():
        raise UsageError(f"{path} exists and was not written by {flag}: name another file, or remove it")


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
    """Write every item as JSON, after the facts of the conversion; `-` is standard output."""
    text = json.dumps({**facts, **report.to_json()}, ensure_ascii=False, indent=2)
    if str(path) == "-":
        print_json_text(text)
    else:
        with written_at(path) as made:
            # a name that is no UTF-8 becomes an escape JSON knows
            made.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def _line(label: str, text: str) -> None:
    print_message(" ".join(text.split()), label, _COLOURS.get(label, "red"))


class _Watcher:
    """A context manager around long work, of which nothing is shown."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        return None


class Counter(_Watcher):
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


class MigrationCounter(_Watcher):
    """Counts records and failures of a migration; shows nothing."""

    def __init__(self) -> None:
        self.records = self.failures = 0

    def stage(self, label: str, inputs: int, nbytes: int) -> None:
        """See `molrec_convert.migration.outputs.outcome.Watcher`."""

    def advance(self, inputs: int, nbytes: int, records: int, failures: int) -> None:
        """See `molrec_convert.migration.outputs.outcome.Watcher`."""
        self.records, self.failures = records, failures


class _Bar:
    """A bar on standard error, gone when the work is done; `counts`: how much of how many, in numbers."""

    def __init__(self, *, counts: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self.progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            *([MofNCompleteColumn()] if counts else []),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None

    def begin(self, label: str, total: int | None) -> None:
        """Show a new bar in the place of the one before."""
        if self._task is not None:
            self.progress.remove_task(self._task)
        self._task = self.progress.add_task(label, total=total, state="")

    def update(self, advance: int, state: str) -> None:
        """Show that so much more is done, and a text behind the bar."""
        if self._task is not None:
            self.progress.update(self._task, advance=advance, state=state)


class _TerminalCounter(Counter):
    """A bar with frames, rate and time left."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = _Bar(counts=True)
        self._began: float | None = None

    def start(self, label: str, total: int | None) -> None:
        """See `molrec_convert.formats.Progress`."""
        super().start(label, total)
        self._bar.begin(label, total)
        self._began = time.monotonic()

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `molrec_convert.formats.Progress`."""
        if self._began is None:
            self.start("frames", None)
        super().advance(frames, nbytes)
        elapsed = max(time.monotonic() - (self._began or 0.0), 1e-3)
        rate = f", {self.nbytes / elapsed / 1e6:,.0f} MB/s" if self.nbytes else ""
        self._bar.update(frames, f"{self.frames / elapsed:,.0f} frames/s{rate}")

    def __enter__(self) -> Self:
        self._bar.progress.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._bar.progress.stop()


class _MigrationBar(MigrationCounter):
    """A bar over the inputs' bytes, with rates, time left and failures."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = _Bar(counts=False)
        self._inputs = self._done = self._bytes = 0
        self._first = -1
        self._began = 0.0

    def stage(self, label: str, inputs: int, nbytes: int) -> None:
        """See `molrec_convert.migration.outputs.outcome.Watcher`."""
        self._inputs, self._done, self._bytes, self._first = inputs, 0, 0, -1
        self._began = time.monotonic()
        self._bar.begin(label, max(nbytes, 1))

    def advance(self, inputs: int, nbytes: int, records: int, failures: int) -> None:
        """See `molrec_convert.migration.outputs.outcome.Watcher`."""
        super().advance(inputs, nbytes, records, failures)
        if self._first < 0:
            # what an earlier attempt did does not count for the rate of this one
            self._first, self._began = records, time.monotonic()
        else:
            self._bytes += nbytes
        self._done += inputs
        seconds = max(time.monotonic() - self._began, 1e-3)
        rate = f"{(records - self._first) / seconds:,.0f} records/s, {self._bytes / seconds / 1e6:,.1f} MB/s"
        failed = f", {failures:,} failed" if failures else ""
        self._bar.update(nbytes, f"{self._done:,}/{self._inputs:,} inputs, {rate}{failed}")

    def __enter__(self) -> Self:
        self._bar.progress.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._bar.progress.stop()


def _has_bar() -> bool:
    """True if progress is shown: standard error is a terminal, and the command not quiet."""
    return sys.stderr.isatty() and not is_quiet()


def watch() -> Counter:
    """Return what counts the frames of a conversion, and shows a bar where there is someone to see it."""
    return _TerminalCounter() if _has_bar() else Counter()


def watch_migration() -> MigrationCounter:
    """Return what counts the records of a migration, and shows a bar where there is someone to see it."""
    return _MigrationBar() if _has_bar() else MigrationCounter()
