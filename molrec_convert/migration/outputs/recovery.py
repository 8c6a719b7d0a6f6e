"""How a migration goes on when the process that did a task is lost: what is left of the task, an input at a time.

An input that was being read is read once more, alone, in a process of its own; one that ends that too is at fault.
"""

from __future__ import annotations

from typing import Any

from molrec_convert.migration.events import Again, Done, Entry, Event, Failed, Items, Many, Restart, RowFailed
from molrec_convert.migration.failures import Failure
from molrec_convert.migration.inputs.scan import Scan, Scanned
from molrec_convert.migration.inputs.tasks import Task, singles

__all__ = ["TaskRecovery", "lost_failure"]


def lost_failure(path: str, reason: str) -> Failure:
    """What is noted of an input that ends the processes that read it."""
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
        """What is to be handed out before the rest."""
        return [[Again(self._input)]] if self._open else []

    def rest(self) -> list[Task]:
        """What is left to do, an input each."""
        return [] if self._scanned else singles(self._task, self._input, self._records)

    def failed(self, reason: str) -> Any:
        """The message that stands for what is left of a task of one input that cannot be done."""
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
        elif isinstance(event, Many):
            self._records += len(event.entries)
        elif isinstance(event, Restart):
            self._records = 0
        elif isinstance(event, (Done, Failed)):
            self._input, self._records = event.input + 1, 0
        elif not isinstance(event, (Items, Again)):
            self._open = True
