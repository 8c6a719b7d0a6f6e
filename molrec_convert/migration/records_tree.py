"""Inputs that become records of their own, one each, in a tree of directories like the one they lie in; resumable.

Each record appears under its name when it is complete. `OUT.migration.jsonl` beside the tree says what was begun and
what is done: a line each, so that a call that is repeated goes on where the first one stopped.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from molrec_convert.conversion.convert import ManyRecordsError, convert
from molrec_convert.errors import FormatError, MolrecError, UsageError
from molrec_convert.files import disk
from molrec_convert.files.locking import TargetLock
from molrec_convert.files.staging import Staging
from molrec_convert.formats import Format
from molrec_convert.meaning.species import ElementOptions
from molrec_convert.migration.engines.engine import lost_failure
from molrec_convert.migration.inputs.inputs import InputTable, beside_notes, content_digest, expand_inputs
from molrec_convert.migration.inputs.sources import FormatFinder, check_harmless, check_options, is_aside
from molrec_convert.migration.outputs.outcome import (
    MigrationStopped,
    NobodyWatches,
    Outcome,
    Watcher,
    no_record,
    report_of,
)
from molrec_convert.migration.pool import Pool
from molrec_convert.migration.settings import RuleBook, Settings, check_rules, default_workers, idle_rules
from molrec_convert.migration.state import (
    CUT_OFF,
    SUFFIX,
    WARNING,
    Chain,
    Failure,
    Known,
    LineFile,
    error_document,
    failure_entry,
    failure_text,
    is_error,
    read_failures,
    remarks_of,
    standing_lines,
    warning_document,
)
from molrec_convert.report import Fate, Report

__all__ = ["migrate_records", "record_targets"]

_SUFFIX = ".mrec"
_TASK_INPUTS = 16
_TASK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class RecordTask:
    """Inputs, their targets, whether these may be replaced, and whether the inputs were searched for."""

    numbers: list[int]
    paths: list[str]
    targets: list[str]
    replace: list[bool]
    searched: list[bool]


@dataclass
class Written:
    """What became of one input."""

    number: int
    digest: str = ""
    failure: Failure | None = None
    aside: bool = False
    items: list[tuple[str, str, str]] = field(default_factory=list)
    remarks: list[Failure] = field(default_factory=list)


class RecordWorker:
    """Converts inputs one by one; `here` as in `Worker`."""

    def __init__(self, settings: Settings, *, here: bool = False) -> None:
        self._rules, self._finder, self._here = RuleBook(settings), FormatFinder(settings), here

    def __call__(self, task: RecordTask) -> Iterator[Written]:
        """Yield a message for each input."""
        found = [self._format(path) for path in task.paths]
        if self._here:
            check_harmless(task.paths, found)
        for place, chosen in enumerate(found):
            yield self._one(task, place, chosen)

    def _format(self, path: str) -> Format | Exception:
        try:
            return self._finder.find(Path(path))
        except (MolrecError, OSError) as error:
            return error

    def _one(self, task: RecordTask, place: int, chosen: Format | Exception) -> Written:
        number, path, target = task.numbers[place], Path(task.paths[place]), Path(task.targets[place])
        report = Report()
        if isinstance(chosen, Exception):
            aside = task.searched[place] and is_aside(chosen)
            return Written(number, aside=aside, failure=None if aside else error_document(chosen))
        try:
            known = {entry.name for cls in (chosen.read_options, ElementOptions) for entry in dataclasses.fields(cls)}
            own = self._rules.of(path)
            options = {key: value for key, value in own.options.items() if key in known}
            _make_folder(target.parent)
            convert(
                path,
                target,
                from_format=chosen.name,
                to_format="mrec",
                overwrite=task.replace[place],
                report=report,
                **options,
            )
            digest = content_digest(os.fspath(path))
        except Exception as error:  # a reader is foreign code: one input that breaks it leaves the others alone
            if isinstance(error, ManyRecordsError):
                error = UsageError(f"{path} holds no single record: leave off --as records, for one collection of all")
            return Written(number, failure=error_document(error, str(path), chosen))
        items = [(item.fate.value, item.name, item.detail) for item in report.items if item.fate is not Fate.CARRIED]
        remarks = [warning_document(WARNING, text) for text in report.warnings]
        remarks += [warning_document(CUT_OFF, text) for text in report.truncations]
        return Written(number, digest, items=items, remarks=remarks)


def _make_folder(path: Path) -> None:
    """Make a folder and those it lies in, which are there after a failure of the power, too."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        disk.sync(path.parent)


class RecordRecovery:
    """What is left of a task whose process was lost; see `pool.Recovery`."""

    def __init__(self, task: RecordTask) -> None:
        self._task, self._done = task, 0

    def saw(self, message: Written) -> None:
        """One more input is done."""
        self._done += 1

    def before(self) -> list[Written]:
        """Return a record that was not whole has no name."""
        return []

    def rest(self) -> list[RecordTask]:
        """Return the inputs that are left, each alone."""
        task = self._task
        return [
            RecordTask(
                task.numbers[at : at + 1],
                task.paths[at : at + 1],
                task.targets[at : at + 1],
                task.replace[at : at + 1],
                task.searched[at : at + 1],
            )
            for at in range(self._done, len(task.numbers))
        ]

    def failed(self, reason: str) -> Written:
        """Return the input ends whoever reads it, who leaves something beside the record's name."""
        with suppress(MolrecError, OSError), Staging(self._task.targets[0], overwrite=True) as left:
            left.discard()
        return Written(self._task.numbers[0], failure=lost_failure(self._task.paths[0], reason))


def migrate_records(
    inputs: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    workers: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    watcher: Watcher | None = None,
) -> Outcome:
    """Make a record of each input, in the directory `target`, below which the tree is that of the inputs.

    Inputs that are done already, by path, size and content, are passed over. Raises `UsageError` for a call that is
    wrong, `MigrationStopped` at the first input at fault where the settings ask for that.
    """
    settings = Settings() if settings is None else settings
    watcher = watcher or NobodyWatches()
    check_options(settings.options)
    settings = dataclasses.replace(settings, rules=check_rules(settings.rules, "rules"))
    for rule in settings.rules:
        for name in {"only", "exclude", "drop", "rename", "fill"} & rule.keys():
            raise UsageError(f"rules: {name} is for a collection: leave off --as records")
    root = Path(os.path.abspath(target))
    if root.exists() and not root.is_dir():
        raise UsageError(f"{target} is no directory: records of their own lie in one")
    if root.name.endswith(SUFFIX):
        raise UsageError(f"{target} is the name of a collection, and records of their own lie in a directory")
    table = expand_inputs(inputs, root)
    targets = record_targets(table, root)
    if dry_run:
        return Outcome(root, len(table))
    if not root.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no directory {root.parent}")
    count = default_workers() if workers is None else workers
    here = functools.partial(RecordWorker, settings, here=True)
    with TargetLock(root), Pool(RecordWorker, (settings,), count, RecordRecovery, here) as pool:
        root.mkdir(exist_ok=True)
        ledger = _Ledger(root)
        return _run(table, targets, ledger, settings, pool, watcher, overwrite=overwrite)


def record_targets(table: InputTable, root: Path) -> list[str]:
    """Return the record each input becomes: its place below the directory it was found in, its suffix `.mrec`.

    Where two would have one name all of them keep their own suffix before that. Raises `UsageError` if they still do.
    """
    places = [os.path.relpath(path, below) for path, below in zip(table.paths, table.roots, strict=True)]
    places = [place if not place.startswith(os.pardir) else os.path.basename(place) for place in places]
    short = [_stem(place) for place in places]
    counts = Counter(short)
    names = [whole if counts[stem] > 1 else stem for whole, stem in zip(places, short, strict=True)]
    found: dict[str, str] = {}
    for name, path in zip(names, table.paths, strict=True):
        if name in found:
            raise UsageError(f"{found[name]} and {path} would both become {name}{_SUFFIX}: migrate them apart")
        found[name] = path
    return [os.path.join(root, f"{name}{_SUFFIX}") for name in names]


def _stem(place: str) -> str:
    folder, name = os.path.split(place)
    stem = name
    for suffix in (".gz", ".bz2", ".xz", ".zst", ".zip"):
        stem = stem.removesuffix(suffix)
    stem = os.path.splitext(stem)[0] or name
    return os.path.join(folder, stem)


class _Ledger:
    """What was begun and what is done, one line each, beside the tree."""

    def __init__(self, root: Path) -> None:
        self.path = root.parent / f"{root.name}.migration.jsonl"
        self.failures = root.parent / f"{root.name}.failures.jsonl"
        self.done: dict[str, Known] = {}
        self.begun: set[str] = set()
        self.asked: dict[str, Any] | None = None
        #: What is asked for, if that is not in the list yet.
        self._asked: list[dict[str, Any]] = []
        self._file: BinaryIO = open(self.path, "r+b" if self.path.exists() else "w+b")  # noqa: SIM115
        self._chain, self._end = Chain(), 0
        for line in standing_lines(self._file):
            self._take(line.document())
            self._chain, self._end = Chain(line.sum, self._chain.count + 1), line.end
        #: Whether lines follow that are not as they were written: the last ones, after a kill, or it is damaged.
        self.breaks_off = self._end < self.path.stat().st_size
        self._file.seek(0)
        if not self._end and b"\n" in self._file.readline():
            self._file.close()
            raise UsageError(f"{self.path} is not the list of a migration to {root}: move it out of the way")

    def begin(self, targets: Iterable[tuple[str, str]]) -> None:
        """Take up the list where it breaks off. `targets`: the inputs and records that are to be made.

        Raises `FormatError` where records are there that it should tell of.
        """
        if self.breaks_off:
            for path, target in targets:
                if os.path.lexists(target) and not self.is_ours(path, target):
                    line, hint = f"line {self._chain.count + 1}", "start over with --overwrite"
                    raise FormatError(self.path, line, found="a line that is not as it was written", hint=hint)
        self._file.truncate(self._end)
        self._file.seek(self._end)
        for entry in self._asked:
            self.write(entry)
        disk.sync(self.path.parent)

    def is_ours(self, path: str, target: str) -> bool:
        """True if a record that is there was made, or begun, by a migration from an input."""
        return target in self.begun or os.path.abspath(path) in self.done

    def _take(self, entry: dict[str, Any]) -> None:
        if "begun" in entry:
            self.begun.add(entry["begun"])
        elif "asked" in entry:
            if self.asked is not None:
                # started over: what was done before is not what is asked for now
                self.done.clear()
            self.asked = entry["asked"]
        else:
            self.done[entry["path"]] = (entry["size"], entry["stamp"], entry["hash"])

    def ask(self, settings: Settings, *, overwrite: bool) -> None:
        """Records that are done are what is asked for now. Raises `UsageError` where they were made otherwise."""
        facts = settings.facts()
        asked = {name: facts[name] for name in ("from", "options", "rules")}
        if asked == self.asked:
            return
        if self.done and self.asked is not None and not overwrite:
            theirs = self.asked.get("options") or {}
            names = sorted({*facts["options"], *theirs})
            changed = [f"--{name}" for name in names if facts["options"].get(name) != theirs.get(name)]
            changed += [f"--{name}" for name in ("from", "rules") if asked[name] != self.asked.get(name)]
            self.close()
            raise UsageError(
                f"the records listed in {self.path} were made with other {', '.join(changed).replace('_', '-')}: "
                f"go on with the same command, or make them anew with --overwrite"
            )
        self._take({"asked": asked})
        self._asked = [{"asked": asked}]

    def write(self, entry: dict[str, Any]) -> None:
        """A line, which survives a kill when this returns."""
        self._file.write(self._chain.line(entry))
        self._file.flush()

    def sync(self) -> None:
        """All lines survive a failure of the power when this returns."""
        os.fsync(self._file.fileno())

    def keep_warnings(self, paths: Set[str]) -> None:
        """Begin the file of failures anew, with the warnings of inputs that are done."""
        noted = list(read_failures(self.failures))
        kept = (n for n in noted if not is_error(n[1]) and os.path.abspath(n[0]) in paths)
        self._noted = LineFile(self.failures, (failure_entry(*failure) for failure in kept))

    def note(self, failures: list[tuple[str, Failure]]) -> None:
        """Add to the file of failures."""
        self._noted.append([failure_entry(*failure) for failure in failures])

    def close(self) -> None:
        """Make sure the lines are on disk."""
        self.sync()
        self._file.close()
        if self.failures.exists():
            disk.sync_all([self.failures, self.failures.parent])


def _run(
    table: InputTable,
    targets: list[str],
    ledger: _Ledger,
    settings: Settings,
    pool: Pool,
    watcher: Watcher,
    *,
    overwrite: bool,
) -> Outcome:
    outcome = Outcome(ledger.path, len(table))
    ledger.ask(settings, overwrite=overwrite)
    left = [number for number in range(len(table)) if not _is_done(table, number, targets[number], ledger)]
    outcome.known = len(table) - len(left)
    watcher.stage("converting", len(left), sum(table.sizes[number] for number in left))
    failures: list[tuple[str, Failure]] = []
    remarks: list[tuple[str, Failure]] = []
    ledger.begin((table.paths[number], targets[number]) for number in left if not overwrite)
    ledger.keep_warnings(
        {os.path.abspath(path) for path in table.paths} - {os.path.abspath(table.paths[n]) for n in left}
    )
    tallies: Counter[str] = Counter()
    try:
        for written in pool.run(_tasks(table, targets, left, ledger, overwrite=overwrite)):
            path = table.paths[written.number]
            if written.failure is not None:
                failures.append((path, written.failure))
                ledger.note([failures[-1]])
                if settings.on_error == "stop":
                    raise MigrationStopped(failure_text(path, written.failure))
            elif written.aside:
                outcome.left_aside.append(path)
            else:
                outcome.records += 1
                tallies.update("\t".join(item).replace(path, "the input") for item in written.items)
                remarks += [(path, remark) for remark in written.remarks]
                ledger.note([(path, remark) for remark in written.remarks])
                ledger.write(_done_line(table, written, targets[written.number]))
            watcher.advance(1, table.sizes[written.number], outcome.records, len(failures))
    finally:
        ledger.close()
    if not outcome.records and not outcome.known:
        first = f"; the first: {failure_text(*failures[0])}" if failures else ", none is of a known format"
        raise MigrationStopped(no_record(len(table)) + first)
    outcome.failures, outcome.report = len(failures), report_of(tallies)
    warnings, cuts = remarks_of(remarks, ledger.failures.name)
    outcome.report.warnings += [*warnings, *beside_notes(table), *idle_rules(settings, table.paths)]
    outcome.report.truncations += cuts
    outcome.failures_path = ledger.failures if ledger.failures.exists() else None
    return outcome


def _done_line(table: InputTable, written: Written, target: str) -> dict[str, Any]:
    number = written.number
    return {
        "path": os.path.abspath(table.paths[number]),
        "size": table.sizes[number],
        "stamp": table.stamps[number],
        "hash": written.digest,
        "target": target,
    }


def _is_done(table: InputTable, number: int, target: str, ledger: _Ledger) -> bool:
    path = table.paths[number]
    known = ledger.done.get(os.path.abspath(path))
    if known is None or not os.path.exists(target):
        return False
    size, stamp, digest = known
    return table.sizes[number] == size and (table.stamps[number] == stamp or content_digest(path) == digest)


def _tasks(
    table: InputTable, targets: list[str], left: Iterable[int], ledger: _Ledger, *, overwrite: bool
) -> Iterator[RecordTask]:
    """Yield some inputs at a time. What is begun is written down first: a target that is there afterwards is ours."""
    group: list[int] = []
    size = 0

    def task() -> RecordTask:
        replace = []
        for number in group:
            replace.append(overwrite or ledger.is_ours(table.paths[number], targets[number]))
            if not os.path.lexists(targets[number]):
                ledger.write({"begun": targets[number]})
        ledger.sync()
        return RecordTask(
            list(group),
            [table.paths[number] for number in group],
            [targets[number] for number in group],
            replace,
            [bool(table.searched[number]) for number in group],
        )

    for number in left:
        group.append(number)
        size += table.sizes[number]
        if len(group) >= _TASK_INPUTS or size >= _TASK_BYTES:
            yield task()
            group, size = [], 0
    if group:
        yield task()
