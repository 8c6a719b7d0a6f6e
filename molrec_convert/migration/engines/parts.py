"""Partial collections: what one worker makes of some inputs, and how it goes into the whole.

A partial collection is a collection like any other, of these inputs' records alone. Under a key of its own it says what
became of each input, so that reading it gives the events it was made of: values go over as they are stored.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molrec_convert._version import __version__
from molrec_convert.errors import FormatError
from molrec_convert.files import disk
from molrec_convert.migration.engines.engine import EngineError, Worker
from molrec_convert.migration.inputs.scan import Scan
from molrec_convert.migration.inputs.tasks import (
    Done,
    EncodedBatch,
    Entry,
    Event,
    Failed,
    Frames,
    Goal,
    Items,
    Restart,
    RetryRecord,
    RowFailed,
    Task,
)
from molrec_convert.migration.outputs.files import RecordLog, frames_sum, log_entry
from molrec_convert.migration.outputs.index import build_plain_index
from molrec_convert.migration.settings import Settings
from molrec_convert.model.collection.declaration import collection_document
from molrec_convert.model.declaration import Declaration
from molrec_convert.stores.lmdb.file.keys import FRAME, RECORD, SYSTEM, numbered
from molrec_convert.stores.lmdb.file.store import StoreFile
from molrec_convert.stores.lmdb.manifest import file_checksum
from molrec_convert.stores.lmdb.reader import StoredCollection, open_collection
from molrec_convert.stores.lmdb.writer import CollectionWriter

__all__ = ["Order", "Place", "check_place", "look", "make_part", "part_file", "read_part", "write_part"]

#: The key that says what became of the inputs: a JSON array a line.
_STORY = b"migration"
_FLUSH_BYTES, _FLUSH_VALUES = 8 * 2**20, 4096
#: Values of a record that are handed out together.
_MESSAGE_BYTES = 2**20


def write_part(path: Path, messages: Iterable[Iterable[Event]], goal: Goal) -> None:
    """Write a partial collection of the events of some consecutive inputs, whole ones or of one input a span.

    What lies at the path, or beside it under a hidden name, is replaced. Raises `OSError` where the system refuses.
    """
    part = _Part(path)
    try:
        for message in messages:
            for event in message:
                part.take(event)
        part.complete(goal)
    except BaseException:
        part.discard()
        raise


class _Part:
    """A partial collection that is being written."""

    def __init__(self, path: Path) -> None:
        self._file = StoreFile(path, overwrite=True)
        self._log_path = path.with_name(f"{path.name}.log")
        self._log = RecordLog(self._log_path)
        self._log.cut(0)
        self._story: list[str] = []
        self._pending: list[bytes] = []
        self._pending_bytes = self._flushed = self._frames = 0
        #: The input that is coming in: its number; the story, frames and log there were before it.
        self._input, self._base = -1, (0, 0, 0)

    def take(self, event: Event) -> None:
        """One event; they come in the order of the inputs."""
        if event.input != self._input:
            self._input, self._base = event.input, (len(self._story), self._frames, self._log.size)
        if isinstance(event, Frames):
            self._add(event.values)
        elif isinstance(event, Entry):
            self._frames += event.n_frames
            self._log.append([event.entry])
            self._tell("record", event.n_frames, event.digest.hex())
        elif isinstance(event, EncodedBatch):
            for one in event.single():
                self.take(one)
        elif isinstance(event, Done):
            self._tell("done", event.digest, event.items, event.aside)
        elif isinstance(event, Items):
            self._tell("items", event.items)
        elif isinstance(event, RowFailed):
            self._cut(self._frames)
            self._tell("row", event.record, event.failure)
        elif isinstance(event, RetryRecord):
            self._cut(self._frames)
        elif isinstance(event, Failed):
            self._take_back()
            self._tell("failed", event.failure)
        elif isinstance(event, Restart):
            self._take_back()
            self._tell("restart")

    def complete(self, goal: Goal) -> None:
        """Everything that follows the frames; the file has its name afterwards."""
        self._flush()
        writer = CollectionWriter.finishing(
            self._file,
            declaration=Declaration.from_json(json.loads(goal.declaration)),
            document=collection_document({"units": dict(goal.units)}),
            index=build_plain_index(self._log),
            n_frames=self._frames,
            metas=self._log.metas(),
            systems=self._log.systems(),
        )
        rows = (text.decode() for rows in self._log.rows() for text in rows.texts)
        lines = [f"{line}\n{next(rows)}" if line.startswith('["record"') else line for line in self._story]
        writer.carry(_STORY, "\n".join(lines).encode())
        writer.close()
        self._forget_log()

    def discard(self) -> None:
        """Leave nothing."""
        self._file.discard()
        self._forget_log()

    def _tell(self, what: str, *facts: Any) -> None:
        self._story.append(json.dumps([what, self._input, *facts]))

    def _add(self, values: list[bytes]) -> None:
        self._pending += values
        self._pending_bytes += sum(map(len, values))
        if self._pending_bytes >= _FLUSH_BYTES or len(self._pending) >= _FLUSH_VALUES:
            self._flush()

    def _take_back(self) -> None:
        """Forget what came of the input so far."""
        told, frames, size = self._base
        del self._story[told:]
        self._log.cut(size)
        self._cut(frames)

    def _cut(self, frames: int) -> None:
        if frames < self._flushed:
            self._file.remove_from(numbered(FRAME, frames))
            self._flushed = frames
        del self._pending[frames - self._flushed :]
        self._pending_bytes = sum(map(len, self._pending))
        self._frames = frames

    def _flush(self) -> None:
        self._file.append([(numbered(FRAME, n), value) for n, value in enumerate(self._pending, self._flushed)])
        self._flushed += len(self._pending)
        self._pending, self._pending_bytes = [], 0

    def _forget_log(self) -> None:
        self._log.close()
        self._log_path.unlink(missing_ok=True)


def read_part(path: Path, first: int = 0) -> Iterator[list[Event]]:
    """Yield the events of a partial collection, some at a time, without those of inputs before `first`.

    Raises `MolrecError` where it is no sound one.
    """
    with open_collection(path) as part:
        message: list[Event] = []
        size = 0
        for event, nbytes in _events(part, path, first):
            message.append(event)
            size += nbytes
            if size >= _MESSAGE_BYTES:
                yield message
                message, size = [], 0
        if message:
            yield message


def _events(part: StoredCollection, path: Path, first: int) -> Iterator[tuple[Event, int]]:
    """Yield events and about the bytes they hold."""
    index = part.index
    atoms, has = index["n_atoms"].tolist(), index["has_trajectory"].tolist()
    frames = (value for _, values in part.stored_runs(FRAME) for value in values)
    metas = (value for _, values in part.stored_runs(RECORD) for value in values)
    systems = (item for run in part.stored_runs(SYSTEM) for item in zip(*run, strict=True))
    following = next(systems, None)
    number = 0
    lines = iter(_story(part, path))
    for line in lines:
        what, input_, *facts = json.loads(line)
        known = input_ < first
        if what == "record":
            n_frames, digest = facts
            meta, system, row = next(metas), None, next(lines)
            if following is not None and following[0] == number:
                system, following = following[1], next(systems, None)
            values: list[bytes] = []
            size = checksum = 0
            for _ in range(n_frames):
                values.append(next(frames))
                checksum = frames_sum(values[-1:], checksum)
                size += len(values[-1])
                if size >= _MESSAGE_BYTES:
                    if not known:
                        yield Frames(input_, values), size
                    values, size = [], 0
            if not known:
                if values:
                    yield Frames(input_, values), size
                content = bytes.fromhex(digest)
                counted = n_frames, atoms[number], has[number], content, checksum
                entry = log_entry(meta, system, row.encode(), *counted)
                yield Entry(input_, n_frames, entry, content), len(entry)
            number += 1
        elif not known:
            yield _told(what, input_, facts), 0


def _told(what: str, input_: int, facts: list[Any]) -> Event:
    if what == "done":
        digest, items, aside = facts
        return Done(input_, digest, [(fate, name, detail) for fate, name, detail in items], aside)
    if what == "items":
        return Items(input_, [(fate, name, detail) for fate, name, detail in facts[0]])
    if what == "row":
        return RowFailed(input_, *facts)
    return Failed(input_, *facts) if what == "failed" else Restart(input_)


def _story(part: StoredCollection, path: Path) -> list[str]:
    told = dict(part.unknown_values()).get(_STORY)
    if told is None:
        raise FormatError(path, found="a collection that does not say what it was made of", expected="a partial one")
    return told.decode().split("\n") if told else []


#: Tasks of one process take turns: they share its working directory.
_turn = threading.Lock()
_last: tuple[Settings, Worker] | None = None


@dataclass(frozen=True)
class Place:
    """Where a migration runs: version of the package, working directory, the folder all workers share and its mark.

    Without a folder nothing is written, and none has to be shared.
    """

    version: str
    working: str
    folder: str | None = None
    mark: str = ""


@dataclass(frozen=True)
class Order:
    """Some tasks for one worker, where, and what the name of the part they become begins with (`part_file`)."""

    place: Place
    settings: Settings
    tasks: tuple[Task, ...]
    name: str = ""


def check_place(place: Place) -> None:
    """Refuse a worker that cannot do what is asked of it. Raises `EngineError`."""
    who = f"the worker on {os.uname().nodename} (process {os.getpid()})"
    if place.version != __version__:
        raise EngineError(f"{who} has molrec-convert {__version__} and not {place.version}: install the same there")
    if not os.path.isdir(place.working):
        raise EngineError(f"{who} does not see the directory {place.working}: inputs are named from there")
    if place.folder is None:
        return
    if not os.path.exists(os.path.join(place.folder, place.mark)):
        raise EngineError(f"{who} does not see {place.folder}: the output lies on a path all workers share")
    if not os.access(place.folder, os.W_OK):
        raise EngineError(f"{who} cannot write to {place.folder}: partial collections are put there")


def look(order: Order) -> list[Scan]:
    """Return what the inputs of all tasks hold."""
    with _working(order) as work:
        return [scan for task in order.tasks for scan in work(task)]


def make_part(order: Order) -> str:
    """Make the partial collection of all tasks; returns its name."""
    folder = order.place.folder
    goal = order.tasks[0].goal
    assert folder is not None
    assert goal is not None
    with _working(order) as work, tempfile.TemporaryDirectory(prefix="mrec-", dir=_scratch()) as scratch:
        made = Path(scratch, "part.mrec.lmdb")
        write_part(made, (message for task in order.tasks for message in work(task)), goal)
        name = part_file(order.name, made)
        _publish(made, Path(folder, name))
    return name


def part_file(begins: str, path: Path) -> str:
    """Return the name of a part that lies at a path: it says what it was made of, and the checksum of the file."""
    return f"{begins}.{file_checksum(path)}.mrec.lmdb"


def _publish(made: Path, target: Path) -> None:
    """Copy a file to the shared path, where it has its name when it is whole and on disk."""
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        shutil.copyfile(made, partial)
        disk.sync(partial)
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def _working(order: Order) -> Iterator[Worker]:
    """Yield the worker of this process, in the directory paths are named from."""
    global _last
    check_place(order.place)
    with _turn:
        if _last is None or _last[0] != order.settings:
            _last = order.settings, Worker(order.settings)
        before = os.getcwd()
        os.chdir(order.place.working)
        try:
            yield _last[1]
        finally:
            os.chdir(before)


def _scratch() -> str | None:
    """Return the directory a worker keeps files of its own in; None where it is the system's."""
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:
        return None
