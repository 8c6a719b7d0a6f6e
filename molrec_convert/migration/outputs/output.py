"""The collection that is being written: values and entries in the order of the inputs, commits, and its completion."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.files import disk
from molrec_convert.migration.inputs.tasks import (
    Done,
    EncodedBatch,
    Entry,
    Event,
    Failed,
    Frames,
    Items,
    Restart,
    RetryRecord,
    RowFailed,
)
from molrec_convert.migration.outputs.files import RecordLog, files_to_go_on, frames_sum, log_entry, record_digest
from molrec_convert.migration.outputs.index import COUNT_PREFIX, build_index, count_columns, keys_without_value
from molrec_convert.migration.plan import Plan
from molrec_convert.migration.state import (
    CUT_OFF,
    WARNING,
    Commit,
    Failure,
    Journal,
    LineFile,
    State,
    failure_entry,
    warning_document,
)
from molrec_convert.model.collection.index import index_rows
from molrec_convert.model.declaration import ColumnDeclaration
from molrec_convert.stores.lmdb.reader import StoredCollection
from molrec_convert.stores.lmdb.sharded import ShardedCollection, places

__all__ = ["DigestSet", "Output"]

_RECENT = 2**16


class DigestSet:
    """Digests of 16 bytes."""

    def __init__(self) -> None:
        # sorted by their halves, as opaque bytes have no order
        self._old: NDArray[np.uint64] = np.zeros((0, 2), np.uint64)
        self._recent: set[bytes] = set()

    def __contains__(self, digest: bytes) -> bool:
        if digest in self._recent:
            return True
        first, second = np.frombuffer(digest, "<u8")
        start = int(np.searchsorted(self._old[:, 0], first, side="left"))
        stop = int(np.searchsorted(self._old[:, 0], first, side="right"))
        return bool((self._old[start:stop, 1] == second).any())

    def __len__(self) -> int:
        return len(self._old) + len(self._recent)

    def add(self, digest: bytes) -> None:
        """One more; an empty one is none."""
        if not digest:
            return
        self._recent.add(digest)
        if len(self._recent) >= _RECENT:
            recent = np.frombuffer(b"".join(self._recent), "<u8").reshape(-1, 2)
            joined = np.concatenate([self._old, recent])
            self._old = joined[np.argsort(joined[:, 0], kind="stable")]
            self._recent = set()

    def extend(self, lists: Iterable[Iterable[bytes]]) -> None:
        """Those of several lists."""
        for digests in lists:
            for digest in digests:
                self.add(digest)


_FLUSH_BYTES, _FLUSH_VALUES = 8 * 2**20, 4096
#: A commit costs a wait for the disk.
COMMIT_SECONDS = 2.0
#: Different items of the report that are counted apart.
_MOST_ITEMS = 500
DUPLICATES, FAILURES = "duplicates", "failures"
#: Fates of items that are remarks of one input → what they are called in the file of failures.
_REMARKS = {"warning": WARNING, "cut off": CUT_OFF}


class Output:
    """Takes events in; `commit` makes what came so far safe against any kill. Goes on from the last commit there is."""

    def __init__(self, state: State, plan: Plan, *, commit_seconds: float = COMMIT_SECONDS) -> None:
        self._state, self._plan = state, plan
        self._journal, self._log = Journal(state.journal), RecordLog(state.log)
        self._files = files_to_go_on(state, plan.settings.shard_records, self._journal, self._log)
        at = self._journal.last
        self.inputs, self.skip, self.records, self.frames = at.inputs, at.skip, at.records, at.frames
        self._base = at.base
        self.tallies: Counter[str] = Counter(at.tallies)
        self._flushed = at.frames
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._entries: list[bytes] = []
        self._entries_bytes = 0
        self._digests = DigestSet() if plan.settings.dedupe else None
        self._failures: LineFile | None = None
        self._new_failures: list[dict[str, Any]] = []
        self._commit_seconds, self._committed = commit_seconds, time.monotonic()
        #: Frames of the record that is coming in.
        self._partial = 0
        #: Whether the input that is coming in is read in another layout than it was begun with.
        self._restarted = False
        #: Items of that input that are counted.
        self._counted: set[tuple[str, str, str]] = set()

    def begin(self) -> None:
        """Take up what an earlier attempt left; before anything else."""
        # the names of all that is going to be promised
        disk.sync_all([self._state.folder, self._state.folder.parent])
        if self._digests is not None:
            self._digests.extend(self._log.digests())
        self._failures = LineFile(self._state.failures, (failure_entry(*failure) for failure in self.failures()))
        self._counted = set(self._remarked())

    def seed(self, before: StoredCollection | ShardedCollection) -> None:
        """Begin with the records of a collection, as they are stored. Does nothing when anything is there already."""
        if self.records or self.inputs:
            return
        counts = count_columns(before.index_columns, self._plan.settings)
        for number, ((part, position), row) in enumerate(zip(places(before), index_rows(before.index), strict=True)):
            meta, system, values = part.stored_record(position)
            has = bool(before.index["has_trajectory"][number])
            columns, elements = _divided(row, counts)
            text = _row_text({"columns": columns, "elements": elements})
            atoms = int(before.index["n_atoms"][number])
            self._take_frames(values)
            digest = b""
            if self._digests is not None:
                # what is there stays, and what is added is not to be there once more
                digest = record_digest(system, values)
                self._digests.add(digest)
            entry = log_entry(meta, system, text, len(values), atoms, has, digest, frames_sum(values))
            self._take_entry(Entry(-1, len(values), entry, b""))
        self.skip = 0
        self._base = (self.records, self.frames, self._log_size, self.tallies[DUPLICATES])
        self.commit()

    def take(self, event: Event) -> None:
        """One event; they come in the order of the inputs."""
        if type(event) is Frames:
            self._reach(event.input)
            self._take_frames(event.values)
        elif type(event) is Entry:
            self._reach(event.input)
            self._take_entry(event)
        elif type(event) is EncodedBatch:
            self._reach(event.input)
            self._take_many(event)
        elif type(event) is Done:
            self._reach(event.input)
            self._done(event)
        elif type(event) is Failed:
            self._reach(event.input)
            self._fail(event.input, event.failure)
        elif type(event) is RowFailed:
            self._reach(event.input)
            self._fail_row(event)
        elif type(event) is Restart:
            self._reach(event.input)
            self._take_back()
            self._restarted = True
        elif type(event) is RetryRecord:
            self._cut_frames(self.frames)
        elif type(event) is Items:
            self._count(event.items)

    def finish_inputs(self) -> None:
        """No event comes any more: the inputs that are left are those the plan has no use for."""
        self._reach(len(self._plan.table))
        self.commit()

    def commit_when_due(self) -> None:
        """Commit, if the last one is some time ago."""
        if time.monotonic() - self._committed >= self._commit_seconds:
            self.commit()

    def commit(self) -> None:
        """Everything that came so far is safe when this returns; of a record that is coming in nothing is."""
        self._flush()
        self._log.append(self._entries)
        self._entries, self._entries_bytes = [], 0
        self._log.sync()
        since, checksum = self._log.up_to(self._log.size)
        self._journal.commit(dataclasses.replace(self._now(), since=since, sum=checksum))
        self._log.mark()
        assert self._failures is not None
        self._failures.append(self._new_failures)
        self._new_failures = []
        self._committed = time.monotonic()

    @property
    def safe(self) -> int:
        """Inputs that are done whatever happens."""
        return self._journal.last.inputs

    def failures(self) -> Iterator[tuple[str, Failure]]:
        """Yield the inputs at fault and their errors, and those that were migrated and their warnings."""
        yield from self._state.kept_failures()
        for entry in self._journal.entries():
            failure = entry.get("failure", entry.get("remark"))
            if failure is not None:
                yield self._plan.table.paths[entry["input"]], failure

    def remarks(self) -> Iterator[tuple[str, Failure]]:
        """Yield the inputs of this migration that were warned of, and the warnings."""
        for entry in self._journal.entries():
            if "remark" in entry:
                yield self._plan.table.paths[entry["input"]], entry["remark"]

    def left_aside(self) -> list[str]:
        """Return the inputs that were searched for and are of no known format."""
        paths = self._plan.table.paths
        found = [paths[entry["input"]] for entry in self._journal.entries() if "aside" in entry]
        return found + self._plan.aside

    def _remarked(self) -> Iterator[tuple[str, str, str]]:
        """Yield the warnings that are noted of the input that is coming in: a span of it may say the same again."""
        fates = {kind: fate for fate, kind in _REMARKS.items()}
        for entry in self._journal.entries() if self.skip else ():
            if entry["input"] == self.inputs and "remark" in entry:
                yield fates[entry["remark"]["type"]], entry["remark"]["warning"], ""

    def done(self) -> Iterator[dict[str, Any]]:
        """Yield what is remembered of each input that was migrated."""
        table = self._plan.table
        for entry in self._journal.entries():
            if "hash" in entry:
                number = entry["input"]
                yield {
                    "path": _absolute(table.paths[number]),
                    "size": table.sizes[number],
                    "stamp": table.stamps[number],
                    "hash": entry["hash"],
                    "records": entry["records"],
                    "first": entry["first"],
                }

    def complete(self, document: Mapping[str, Any], before: Mapping[str, ColumnDeclaration]) -> list[str]:
        """Put what follows the frames and give the collection its name. Returns keys asked for that no record has."""
        index = build_index(self._log, self._plan.settings, self._plan.index_dtypes(), before)
        self._files.complete(self._plan.declaration, dict(document), index, self._log)
        return keys_without_value(index, self._plan.settings)

    def close(self) -> None:
        """Let go of the files, of all of them on a full disk, too; they stay for an attempt that goes on."""
        with ExitStack() as closing:
            for close in (self._files.suspend, self._journal.close, self._log.close):
                closing.callback(close)

    @property
    def _log_size(self) -> int:
        return self._log.size + self._entries_bytes

    def _now(self) -> Commit:
        if self._restarted:
            # the next attempt does not know of the layout, and is to find out from the beginning of the input
            records, frames, size, duplicates = self._base
            tallies = {**self.tallies, DUPLICATES: duplicates}
            return Commit(self.inputs, 0, records, frames, size, self._base, tallies)
        whole = (self.inputs, self.skip, self.records, self.frames, self._log_size)
        return Commit(*whole, self._base, dict(self.tallies))

    def _reach(self, number: int) -> None:
        """Inputs before `number` that nothing came of: those the plan knows to be at fault, or left aside."""
        while self.inputs < number:
            failure = self._plan.failures.get(self.inputs)
            if failure is not None:
                self._fail(self.inputs, failure)
            else:
                self._next_input()

    def _take_frames(self, values: list[bytes]) -> None:
        self._pending += values
        self._pending_bytes += sum(map(len, values))
        self._partial += len(values)
        if self._pending_bytes >= _FLUSH_BYTES or len(self._pending) >= _FLUSH_VALUES:
            self._flush()

    def _take_entry(self, event: Entry) -> None:
        self.skip += 1
        if self._digests is not None and event.digest:
            if event.digest in self._digests:
                self.tallies[DUPLICATES] += 1
                self._cut_frames(self.frames)
                return
            self._digests.add(event.digest)
        self._entries.append(event.entry)
        self._entries_bytes += len(event.entry)
        self.records += 1
        self.frames += event.n_frames
        self._partial = 0
        if self._files.is_full(self.records):
            self._flush()
            self._files.begin_file(self.frames)
        if self._entries_bytes >= _FLUSH_BYTES:
            self._log.append(self._entries)
            self._entries, self._entries_bytes = [], 0

    def _take_many(self, event: EncodedBatch) -> None:
        if self._digests is not None or self._plan.settings.shard_records is not None:
            for one in event.single():
                self.take(one)
            return
        count = len(event.entries)
        self.skip += count
        self.records += count
        self.frames += count
        self._entries += event.entries
        self._entries_bytes += sum(map(len, event.entries))
        self._take_frames(event.values)
        self._partial = 0
        if self._entries_bytes >= _FLUSH_BYTES:
            self._log.append(self._entries)
            self._entries, self._entries_bytes = [], 0

    def _done(self, event: Done) -> None:
        if event.digest:
            records = self.records - self._base[0]
            facts = {"input": event.input, "hash": event.digest, "records": records, "first": self._base[0]}
            self._journal.note(facts)
        elif event.aside:
            self._journal.note({"input": event.input, "aside": True})
        self._count(event.items)
        self._next_input()

    def _count(self, items: list[tuple[str, str, str]]) -> None:
        """Items of the input that is coming in, each once for it."""
        for item in items:
            if item in self._counted:
                continue
            self._counted.add(item)
            if item[0] in _REMARKS:
                self._remark(*item[:2])
                continue
            key = "\t".join(item)
            if key not in self.tallies and len(self.tallies) >= _MOST_ITEMS:
                key = f"{item[0]}\tother things\tthere are more kinds than are told apart"
            self.tallies[key] += 1

    def _remark(self, fate: str, text: str) -> None:
        """Note a warning of the input that is coming in."""
        remark = warning_document(_REMARKS[fate], text)
        self._journal.note({"input": self.inputs, "remark": remark})
        self._new_failures.append(failure_entry(self._plan.table.paths[self.inputs], remark))

    def _fail(self, number: int, failure: Failure) -> None:
        self._take_back()
        self.tallies[FAILURES] += 1
        self._journal.note({"input": number, "failure": failure})
        self._new_failures.append(failure_entry(self._plan.table.paths[number], failure))
        self._next_input()

    def _fail_row(self, event: RowFailed) -> None:
        self._cut_frames(self.frames)
        self.skip += 1
        self.tallies[FAILURES] += 1
        failure = {"record": event.record, **event.failure}
        self._journal.note({"input": event.input, "failure": failure})
        self._new_failures.append(failure_entry(self._plan.table.paths[event.input], failure))

    def _next_input(self) -> None:
        self.inputs += 1
        self.skip, self._restarted = 0, False
        self._counted.clear()
        self._base = (self.records, self.frames, self._log_size, self.tallies[DUPLICATES])

    def _take_back(self) -> None:
        """Forget what came of the input that is coming in."""
        records, frames, size, self.tallies[DUPLICATES] = self._base
        changed = records != self.records
        self.skip, self.records = 0, records
        if frames < self._journal.last.frames or size < self._journal.last.log:
            # what counts must not be less than what the last commit says is there
            self.frames = frames
            here = Commit(self.inputs, 0, records, frames, size, self._base, dict(self.tallies), *self._log.up_to(size))
            self._journal.commit(here)
        if size < self._log.size:
            self._entries, self._entries_bytes = [], 0
            self._log.cut(size)
        else:
            while self._log.size + self._entries_bytes > size:
                self._entries_bytes -= len(self._entries.pop())
        self._cut_frames(frames, always=changed)
        if changed and self._digests is not None:
            self._digests = DigestSet()
            self._log.append(self._entries)
            self._entries, self._entries_bytes = [], 0
            self._digests.extend(self._log.digests())

    def _cut_frames(self, frames: int, *, always: bool = False) -> None:
        """Forget all frames from a number on; `always` where records were forgotten, too."""
        if frames < self._flushed or always:
            self._flushed = min(frames, self._flushed)
            self._files.cut(self.records, self._flushed)
        del self._pending[frames - self._flushed :]
        self._pending_bytes = sum(map(len, self._pending))
        self.frames, self._partial = frames, 0

    def _flush(self) -> None:
        self._files.append(self._flushed, self._pending)
        self._flushed += len(self._pending)
        self._pending, self._pending_bytes = [], 0


def _divided(row: Mapping[str, Any], counts: Container[str]) -> tuple[dict[str, Any], dict[str, int] | None]:
    """Return a row of an index as a migration keeps it: columns, and the number of each element, from the columns
    `counts`.
    """
    elements = {name.removeprefix(COUNT_PREFIX): value for name, value in row.items() if name in counts}
    columns = {name: value for name, value in row.items() if name not in counts}
    unknown = not elements or any(value is None for value in elements.values())
    return columns, None if unknown else {name: count for name, count in elements.items() if count}


def _row_text(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _absolute(path: str) -> str:
    return os.path.abspath(path)
