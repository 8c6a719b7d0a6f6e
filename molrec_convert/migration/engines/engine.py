"""Where the work of a migration is done: here, or on other machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from molrec_convert.errors import MolrecError
from molrec_convert.migration.engines.worker import Worker
from molrec_convert.migration.events import Event
from molrec_convert.migration.inputs.scan import Scan
from molrec_convert.migration.inputs.tasks import TaskList
from molrec_convert.migration.outputs.recovery import TaskRecovery
from molrec_convert.migration.pool import Pool
from molrec_convert.migration.settings import Settings, default_workers

__all__ = ["Engine", "EngineError", "LocalEngine"]


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
        """The first pass: what the inputs hold. `folder` is that of `encode`, None where nothing will be written."""

    @abstractmethod
    def encode(
        self, tasks: TaskList, first: int, skip: int, folder: Path, safe: Callable[[], int]
    ) -> Iterator[list[Event]]:
        """The second pass: the events of all inputs from `first` on, of which `skip` records are done.

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
