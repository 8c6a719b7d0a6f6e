"""Many inputs into one collection: plan, encode in worker processes, append in order, complete; resumable anywhere."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from molrec_convert.errors import FormatError, MolrecError, UsageError
from molrec_convert.files.locking import TargetLock
from molrec_convert.files.staging import check_target
from molrec_convert.migration.engines.engine import Engine, LocalEngine
from molrec_convert.migration.inputs.inputs import InputTable, beside_notes, content_digest, expand_inputs
from molrec_convert.migration.inputs.sources import check_options
from molrec_convert.migration.inputs.tasks import Done, EncodedBatch, Entry, Failed, Goal, Restart, RowFailed, TaskList
from molrec_convert.migration.outputs.adding import changed_options, check_rules_added, continued
from molrec_convert.migration.outputs.index import check_index_names
from molrec_convert.migration.outputs.outcome import (
    ConflictsError,
    MigrationStopped,
    NobodyWatches,
    Outcome,
    Watcher,
    no_record,
    report_of,
)
from molrec_convert.migration.outputs.output import COMMIT_SECONDS, DUPLICATES, FAILURES, Output
from molrec_convert.migration.plan import Plan, read_declaration
from molrec_convert.migration.settings import Settings, check_rules, idle_rules
from molrec_convert.migration.state import (
    SUFFIX,
    Journal,
    Known,
    State,
    failure_text,
    is_error,
    remarks_of,
    write_failures,
)
from molrec_convert.model.collection.declaration import collection_document
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.stores.lmdb.manifest import is_set, manifest_path
from molrec_convert.stores.lmdb.reader import StoredCollection
from molrec_convert.stores.lmdb.sharded import ShardedCollection, open_collection

__all__ = ["migrate"]

#: What is said of inputs that were changed while a migration was interrupted.
_CONTENT = "content of the inputs"


def migrate(
    inputs: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    workers: int | None = None,
    engine: Engine | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    watcher: Watcher | None = None,
    commit_seconds: float = COMMIT_SECONDS,
) -> Outcome:
    """Make one collection of the records of all inputs, in their order, whatever the number of `workers`.

    The work is done by the `engine`, without one by `workers` processes on this machine.

    Inputs are paths, globs, `@FILE` (a list of paths) or `-` (a list on standard input). A migration that was killed
    goes on when it is called the same way again; inputs of a collection that is complete are recognised, and only new
    ones are added. With `dry_run` nothing is written and the outcome has the plan.

    Raises `UsageError` for conflicts, all of them at once, and for a call that is wrong; `MigrationStopped` at the
    first input at fault where the settings ask for that.
    """
    settings = Settings() if settings is None else settings
    where = Path(target)
    if not where.name.endswith(SUFFIX):
        raise UsageError(f"{target} is no name of a collection: it ends in {SUFFIX}")
    for name in check_index_names(settings):
        raise UsageError(f"--index {name}: every collection has that column")
    check_options(settings.options)
    settings = dataclasses.replace(settings, rules=check_rules(settings.rules, "rules"))
    table = expand_inputs(inputs, where)
    if overwrite and table.names_output:
        raise UsageError(
            f"{target} is an input, and --overwrite would replace it: name another output, or leave that off"
        )
    with LocalEngine(workers) if engine is None else engine as working:
        working.begin(settings)
        unmatched = idle_rules(settings, table.paths)
        job = _Job(where, settings, working, watcher or NobodyWatches(), commit_seconds, unmatched)
        return job.preview(table, overwrite=overwrite) if dry_run else job.run(table, overwrite=overwrite)


class _Job:
    def __init__(
        self,
        target: Path,
        settings: Settings,
        engine: Engine,
        watcher: Watcher,
        commit_seconds: float,
        unmatched: list[str],
    ) -> None:
        #: Patterns of rules that match no input, in sentences.
        self.unmatched = unmatched
        #: What became of what an earlier attempt left.
        self.notes: list[str] = []
        self.target, self.settings, self.engine, self.watcher = target, settings, engine, watcher
        self.asked = settings
        self.commit_seconds = commit_seconds
        self.declared: Declaration | None = None
        self.units: dict[str, str] | None = None
        if settings.declaration is not None:
            self.declared, self.units = read_declaration(settings.declaration)

    def preview(self, table: InputTable, *, overwrite: bool) -> Outcome:
        """Return the plan alone."""
        known = 0
        state = State(self.target)
        declared, units = self.declared, self.units
        if self.target.exists() and state.manifest.exists() and not overwrite:
            count = len(table)
            table = _unknown(table, state.migrated())
            known = count - len(table)
            with open_collection(self.target) as before:
                self._as_before(before)
                declared, units = before.declaration, dict(before.units)
        plan = self._scanned(table, None)
        plan.settle(declared, units)
        plan.notes += beside_notes(table) + self.unmatched
        return Outcome(
            self.target, len(table), failures=len(plan.failures), known=known, left_aside=plan.aside, plan=plan
        )

    def run(self, table: InputTable, *, overwrite: bool) -> Outcome:
        """Return the whole migration."""
        with TargetLock(self.target):
            state = State(self.target)
            state.begin()
            try:
                if _is_finished(state, overwrite=overwrite):
                    state.leave()
                    state.begin()
                return self._run(state, table, overwrite=overwrite)
            except (MolrecError, OSError):
                self._give_up(state)
                raise

    def _run(self, state: State, table: InputTable, *, overwrite: bool) -> Outcome:
        before: StoredCollection | ShardedCollection | None = None
        known = 0
        if overwrite and self.target.is_dir():
            check_target(self.target, overwrite=True)
            if not is_set(self.target):
                raise UsageError(f"{self.target} is a directory and no set of files: remove it, or name another target")
            if self.settings.shard_records is None:
                raise UsageError(f"{self.target} is a set of files: say --shard-records, or remove it before")
        if os.path.lexists(self.target) and not overwrite:
            if not state.manifest.exists() or not (self.target.is_file() or is_set(self.target)):
                raise UsageError(f"{self.target} exists already: name another target, or replace it with --overwrite")
            count = len(table)
            table = _unknown(table, state.migrated())
            known = count - len(table)
            before = open_collection(self.target)
        try:
            if before is not None:
                self._as_before(before)
            if before is not None and not table:
                self._give_up(state)
                self._check_nothing_asked(before, known)
                return Outcome(self.target, records=len(before), frames=before.n_frames, known=known)
            outcome = self._go_on(state, table, before, overwrite=overwrite)
        finally:
            if before is not None:
                before.close()
        outcome.known = known
        return outcome

    def _go_on(
        self, state: State, table: InputTable, before: StoredCollection | ShardedCollection | None, *, overwrite: bool
    ) -> Outcome:
        facts = {**self.settings.facts(), **_facts(table), "collection before": _stamp(before)}
        resumed = self._resumes(state, facts, table, overwrite=overwrite)
        if not resumed:
            state.restart()
            state.write_note(facts)
            if before is not None:
                state.keep_failures()
        state.unmark()
        plan = self._plan(state, table, before)
        if before is not None and not resumed and not any(self._eligible(plan)):
            # nothing to add: the collection stays as it is
            failures = [(table.paths[number], failure) for number, failure in plan.failures.items()]
            noted = write_failures(state.failures, [*state.kept_failures(), *failures])
            state.discard()
            return Outcome(
                self.target,
                len(table),
                len(before),
                before.n_frames,
                len(failures),
                left_aside=plan.aside,
                failures_path=state.failures if noted else None,
                plan=plan,
            )
        output = Output(state, plan, commit_seconds=self.commit_seconds)
        try:
            output.begin()
            if before is not None:
                output.seed(before)
            self._fill(state, output, plan)
            if not output.records:
                failures = [entry for entry in output.failures() if is_error(entry[1])]
                first = f"; the first: {failure_text(*failures[0])}" if failures else ""
                # there is nothing to go on from, and what was at fault may be mended when it is called again
                state.discard()
                raise MigrationStopped(no_record(len(table)) + first)
            earlier = [] if before is None else list(state.manifest_entries())
            state.mark_finished([*earlier, *output.done()], output.failures())
            columns: dict[str, ColumnDeclaration] = {} if before is None else before.index_columns
            said = {"units": plan.units, "migration": self.settings.document()}
            if before is not None:
                said = {**before.document, "migration": self.settings.document()}
            missing = output.complete(collection_document(said), columns)
            warnings, cuts = remarks_of(output.remarks(), state.failures.name)
            left_aside = output.left_aside()
        finally:
            output.close()
        state.leave()
        report = report_of(output.tallies)
        report.warnings += warnings
        report.truncations += cuts
        for name in missing:
            left_out = ", as --drop leaves it out" if name in self.settings.drop else ""
            report.warn(f"--index {name}: no record has that key{left_out}")
        idle = plan.idle if before is None else ()
        for text in (*self.notes, *plan.missing, *idle, *beside_notes(table), *self.unmatched):
            report.warn(text)
        return Outcome(
            self.target,
            len(table),
            output.records,
            output.frames,
            output.tallies[FAILURES],
            output.tallies[DUPLICATES],
            left_aside=left_aside,
            resumed=resumed,
            failures_path=state.failures if state.failures.exists() else None,
            plan=plan,
            report=report,
        )

    def _check_nothing_asked(self, before: StoredCollection | ShardedCollection, known: int) -> None:
        """Raise `UsageError` where all inputs are there, and other options ask for what is not going to happen."""
        stated = before.document.get("migration")
        changed = [] if stated is None else changed_options(self.asked, Settings.stated(stated), before.units)
        if self.declared is not None and self.declared != before.declaration:
            changed.append("--declaration")
        if changed:
            raise UsageError(
                f"all {known:,} inputs are in {self.target} already, and {', '.join(changed)} asks for something else "
                f"than it was made with: leave that off, or make it anew with --overwrite"
            )

    def _as_before(self, before: StoredCollection | ShardedCollection) -> None:
        """What is added is made as what is there. Raises `UsageError` where something else is asked for."""
        stated = before.document.get("migration")
        asked = self.settings
        if stated is not None:
            made = Settings.stated(stated)
            check_rules_added(asked, made, State(self.target).migrated(), str(self.target))
            self.settings = continued(asked, made, before.declaration, str(self.target))
        most = self.settings.shard_records
        if isinstance(before, ShardedCollection):
            if most is None:
                largest = max(part.n_records for part in before.manifest.parts)
                self.settings = dataclasses.replace(self.settings, shard_records=largest)
        elif most is not None:
            raise UsageError(f"{self.target} is one file: leave off --shard-records, or start over with --overwrite")
        if self.settings is not asked:
            self.engine.begin(self.settings)

    def _resumes(self, state: State, facts: dict[str, Any], table: InputTable, *, overwrite: bool) -> bool:
        """True if there is an attempt to go on from. Raises `UsageError` where it was begun otherwise."""
        try:
            note, settled = state.note(), state.settled()
            for _ in state.kept_failures():
                pass
        except FormatError as error:
            self.notes.append(f"{error}: begun anew")
            return False
        try:
            kept = state.plan()
        except FormatError:
            kept = None
            state.forget_plan()
        if note is None or (kept is None and settled is None):
            return False
        changed = sorted(key for key in {*note, *facts} if note.get(key) != facts.get(key))
        if not changed:
            # without a plan, which was to be made anew or is damaged, what was settled still holds
            return True
        if kept is None:
            return False
        if overwrite or not Journal.committed(state.journal).records:
            # nothing is lost by another beginning
            return False
        if changed == [_CONTENT]:
            other = _changed_since(table, kept, state.journal)
            if other is not None:
                raise UsageError(
                    f"{other} was changed after its records came into {self.target}, which is not complete: "
                    f"start over with --overwrite"
                )
            # an input that is still to come may be mended in between; what it declares is looked at again
            state.write_note(facts)
            state.forget_plan()
            return True
        if "inputs" in changed:
            raise UsageError(
                f"a migration to {self.target} was begun with other inputs than there are now, "
                f"{_number(note)} and not {_number(facts)}: name those it was begun with, add the rest when it is "
                f"complete, or start over with --overwrite"
            )
        raise UsageError(
            f"a migration to {self.target} was begun with other {', '.join(changed)} than now: "
            f"go on with the same command, or start over with --overwrite"
        )

    def _plan(self, state: State, table: InputTable, before: StoredCollection | ShardedCollection | None) -> Plan:
        """Return the plan of an earlier attempt, else a new one, kept for the next. Raises `UsageError` for
        conflicts.
        """
        kept = state.plan()
        if kept is not None:
            return Plan.restored(table, self.settings, kept)
        declared, units = self.declared, self.units
        if before is not None:
            declared, units = before.declaration, dict(before.units)
        plan = Plan.unscanned(table, self.settings) if self.declared is not None else self._scanned(table, state.folder)
        plan.settle(declared, units)
        if before is not None and plan.units != units:
            raise UsageError(f"{self.target} is in other units than those of --units: leave that off")
        if plan.conflicts:
            raise ConflictsError(plan)
        earlier = state.settled()
        if earlier is not None and earlier != plan.settled():
            raise UsageError(
                f"the inputs of {self.target} declare something else than when it was begun: "
                f"start over with --overwrite"
            )
        state.write_settled(plan.settled())
        state.write_plan(plan.kept())
        return plan

    def _scanned(self, table: InputTable, folder: Path | None) -> Plan:
        """Return the first pass."""
        plan = Plan(table, self.settings)
        self.watcher.stage("looking at inputs", len(table), table.nbytes)
        count = len(table)
        records = 0
        tasks = TaskList(table, [None] * count, [True] * count, hashing=folder is not None)
        for scan in self.engine.scan(tasks, folder):
            plan.take(scan)
            if plan.failures and self.settings.on_error == "stop":
                number, failure = next(iter(plan.failures.items()))
                raise MigrationStopped(failure_text(table.paths[number], failure))
            last = scan.first + len(scan.inputs)
            records += sum(max(count, 0) for count in plan.records[scan.first : last])
            nbytes = sum(table.sizes[scan.first : last])
            self.watcher.advance(len(scan.inputs), nbytes, records, len(plan.failures))
        return plan

    def _eligible(self, plan: Plan) -> list[bool]:
        """Return which inputs there is something to do for."""
        return [number not in plan.failures and not plan.is_aside(number) for number in range(len(plan.table))]

    def _fill(self, state: State, output: Output, plan: Plan) -> None:
        """The second pass."""
        table = plan.table
        eligible = self._eligible(plan)
        goal = Goal(json.dumps(plan.declaration.to_json()), plan.units)
        tasks = TaskList(table, plan.formats, eligible, goal, plan.divisible, plan.found)
        self.watcher.stage("migrating", len(table), table.nbytes)
        at = 0

        def advance() -> None:
            nonlocal at
            done = output.inputs
            if done > at:
                nbytes = sum(table.sizes[at:done])
                self.watcher.advance(done - at, nbytes, output.records, output.tallies[FAILURES])
                at = done

        advance()
        for message in self.engine.encode(tasks, output.inputs, output.skip, state.folder, lambda: output.safe):
            for event in message:
                if event.input < output.inputs:
                    # of an input that turned out to be at fault before
                    continue
                if isinstance(event, (Failed, RowFailed)) and self.settings.on_error == "stop":
                    # it is not done, so that it may be mended
                    output.take(Restart(event.input))
                    output.commit()
                    raise MigrationStopped(failure_text(table.paths[event.input], event.failure))
                output.take(event)
            if any(isinstance(event, (Entry, EncodedBatch, Done)) for event in message):
                output.commit_when_due()
                advance()
        output.finish_inputs()
        advance()

    def _give_up(self, state: State) -> None:
        """Leave nothing behind, unless there is something to go on from."""
        if state.note() is None or not state.journal.exists():
            state.discard()


def _is_finished(state: State, *, overwrite: bool) -> bool:
    """True if only what lies beside the collection is to be put there. Raises `FormatError` where that is not told."""
    try:
        return state.is_finished
    except FormatError:
        if not overwrite:
            raise
        # it is made anew, whatever that said
        state.restart()
        return False


def _unknown(table: InputTable, migrated: dict[str, Known]) -> InputTable:
    """Return the inputs that were not migrated yet. Raises `UsageError` for one that was, and is another now."""
    left = InputTable()
    left.beside = table.beside
    for number, path in enumerate(table.paths):
        known = migrated.get(os.path.abspath(path))
        if known is None:
            left.paths.append(path)
            left.roots.append(table.roots[number])
            left.searched.append(table.searched[number])
            left.sizes.append(table.sizes[number])
            left.stamps.append(table.stamps[number])
            continue
        size, stamp, digest = known
        same = table.sizes[number] == size and (table.stamps[number] == stamp or content_digest(path) == digest)
        if not same:
            raise UsageError(f"{path} is another than when it was migrated: start over with --overwrite")
    return left


def _facts(table: InputTable) -> dict[str, Any]:
    """Return the inputs, in short."""
    names, content = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for path in table.paths:
        names.update(os.path.abspath(path).encode("utf-8", "surrogateescape") + b"\0")
    for numbers in (table.sizes, table.stamps):
        content.update(array("q", numbers).tobytes())
    return {"inputs": f"{len(table)}, {names.hexdigest()}", _CONTENT: content.hexdigest()}


def _number(facts: dict[str, Any]) -> str:
    return str(facts["inputs"]).partition(",")[0]


def _changed_since(table: InputTable, kept: dict[str, Any], journal: Path) -> str | None:
    """Return the first input an earlier attempt has records of, or is in the middle of, that is another one now."""
    commit = Journal.committed(journal)
    failed = Journal.failed(journal)
    for number in range(commit.inputs + (1 if commit.skip else 0)):
        same = kept["sizes"][number] == table.sizes[number] and kept["stamps"][number] == table.stamps[number]
        if not same and number not in failed:
            return table.paths[number]
    return None


def _stamp(before: StoredCollection | ShardedCollection | None) -> Any:
    if before is None or before.path is None:
        return None
    facts = os.stat(manifest_path(before.path) if isinstance(before, ShardedCollection) else before.path)
    return [facts.st_size, facts.st_mtime_ns]
