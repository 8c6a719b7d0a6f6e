"""Where the work of a migration is done: here, or on other machines."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from molrec_convert.errors import MolrecError
from molrec_convert.migration.encode import Encoder
from molrec_convert.migration.inputs.scan import Scan, Scanned, Scanner
from molrec_convert.migration.inputs.tasks import (
    Done,
    EncodedBatch,
    Entry,
    Event,
    Failed,
    Goal,
    Items,
    Restart,
    RetryRecord,
    RowFailed,
    Task,
    TaskList,
    singles,
)
from molrec_convert.migration.pool import Pool
from molrec_convert.migration.settings import Settings, default_workers
from molrec_convert.migration.state import Failure
from molrec_convert.model import Declaration

__all__ = ["Engine", "EngineError", "LocalEngine", "TaskRecovery", "Worker", "lost_failure"]


class Worker:
    """Does tasks of both passes, one after another.

    `here`: in the process that writes, which no input may end. Raises `NotHere` of tasks with one that might.
    """

    def __init__(self, settings: Settings, *, here: bool = False) -> None:
        self._settings = settings
        self._here = here
        self._scanner = Scanner(settings, here=here)
        self._encoder: tuple[Goal, Encoder] | None = None

    def __call__(self, task: Task) -> Iterator[Any]:
        """Yield the messages of one task: a `Scan`, or lists of events."""
        if task.goal is None:
            yield from self._scanner(task)
            return
        if self._encoder is None or self._encoder[0] != task.goal:
            declaration = Declaration.from_json(json.loads(task.goal.declaration))
            kept = self._scanner.pop_open_source()
            encoder = Encoder(self._settings, declaration, task.goal.units, kept, here=self._here)
            self._encoder = task.goal, encoder
        yield from self._encoder[1](task)


def lost_failure(path: str, reason: str) -> Failure:
    """Return what is noted of an input that ends the processes that read it."""
    return {"type": "WorkerLost", "error": f"{path}: the process that read it {reason}, and so was another one"}


class TaskRecovery:
    """Follows the messages of one task; see `pool.Recovery`."""

    def __init__(self, task: Task) -> None:
        self._task = task
        #: The input whose records come, how many came, and whether frames of another one did.
        self._input, self._records, self._open = task.first, task.skip, False
        self._scanned = False

    def saw(self, message: Any) -> None:
        """One message that was handed out."""
        if isinstance(message, Scan):
            self._scanned = True
            return
        for event in message:
            self._see(event)

    def before(self) -> list[Any]:
        """Return what is to be handed out before the rest."""
        return [[RetryRecord(self._input)]] if self._open else []

    def rest(self) -> list[Task]:
        """Return what is left to do, an input each."""
        return [] if self._scanned else singles(self._task, self._input, self._records)

    def failed(self, reason: str) -> Any:
        """Return the message that stands for what is left of a task of one input that cannot be done."""
        failure = lost_failure(self._task.paths[0], reason)
        if self._task.goal is None:
            return Scan(self._task.first, [Scanned(self._task.formats[0], error=failure)])
        return [Failed(self._task.first, failure)]

    def _see(self, event: Event) -> None:
        if event.input != self._input:
            self._input, self._records = event.input, 0
        self._open = False
        if isinstance(event, (Entry, RowFailed)):
            self._records += 1
        elif isinstance(event, EncodedBatch):
            self._records += len(event.entries)
        elif isinstance(event, Restart):
            self._records = 0
        elif isinstance(event, (Done, Failed)):
            self._input, self._records = event.input + 1, 0
        elif not isinstance(event, (Items, RetryRecord)):
            self._open = True


#: Inputs of so many bytes keep all workers busy: they load what they need while the first ones are looked at.
_MUCH_BYTES = 32 * 2**20


class EngineError(MolrecError):
    """The machinery that does the work is at fault, and no input. What was done before is kept."""


class Engine(ABC):
    """Does the tasks of both passes; what comes of them is handed out in the order of the inputs.

    Whatever the engine, the same events come of the same tasks. A context manager, which ends what was started.
    """

    @abstractmethod
    def begin(self, settings: Settings) -> None:
        """What is asked for; before anything else, and again where it turns out to be something else."""

    @abstractmethod
    def scan(self, tasks: TaskList, folder: Path | None) -> Iterator[Scan]:
        """Return the first pass: what the inputs hold. `folder` is that of `encode`, None where nothing will be
        written.
        """

    @abstractmethod
    def encode(
        self, tasks: TaskList, first: int, skip: int, folder: Path, safe: Callable[[], int]
    ) -> Iterator[list[Event]]:
        """Return the second pass: the events of all inputs from `first` on, of which `skip` records are done.

        `folder` lies beside the output: what an engine keeps there is found again by the next attempt. `safe` tells
        how many inputs are in the output whatever happens.
        """

    @abstractmethod
    def close(self) -> None:
        """End what was started."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LocalEngine(Engine):
    """Processes on this machine, one for each processor unless `workers` says how many.

    A process that the system ends is replaced: the input it was reading is read once more, alone, and is at fault if
    that ends a process again. With one worker everything is done in this process, but from the first input on whose
    damage might end it.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = default_workers() if workers is None else workers
        self._pool: Pool | None = None

    def begin(self, settings: Settings) -> None:
        """See `Engine.begin`."""
        self.close()
        self._pool = Pool(Worker, (settings,), self._workers, TaskRecovery, lambda: Worker(settings, here=True))

    def scan(self, tasks: TaskList, folder: Path | None) -> Iterator[Scan]:
        """See `Engine.scan`."""
        assert self._pool is not None
        if folder is not None and tasks.table.nbytes >= _MUCH_BYTES:
            self._pool.prepare()
        return self._pool.run(tasks.since())

    def encode(
        self, tasks: TaskList, first: int, skip: int, folder: Path, safe: Callable[[], int]
    ) -> Iterator[list[Event]]:
        """See `Engine.encode`."""
        assert self._pool is not None
        return self._pool.run(tasks.since(first, skip))

    def close(self) -> None:
        """See `Engine.close`."""
        if self._pool is not None:
            self._pool.close()
