"""A worker process that is ended by SIGKILL when it comes to certain inputs: always, or the first time only."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

from molrec_convert.migration.engines.engine import Worker
from molrec_convert.migration.inputs.tasks import Entry
from molrec_convert.migration.pool import NotHere


class KillingWorker(Worker):
    """Of a task with an input `poison*`: killed. With `once*`: killed if there is no file `*.met` beside it yet.

    With `later*` it is killed like that, but after it has sent half of the records.
    """

    def __call__(self, task):
        names = [Path(path).name for path in task.paths]
        if any(name.startswith("poison") for name in names):
            if self._here:
                raise NotHere
            os.kill(os.getpid(), signal.SIGKILL)
        marks = [Path(f"{path}.met") for path in task.paths if Path(path).name.startswith(("once", "later"))]
        left = [mark for mark in marks if not mark.exists() and (task.goal is not None or mark.name[:4] == "once")]
        for mark in left:
            mark.touch()
        if left and left[0].name.startswith("once"):
            os.kill(os.getpid(), signal.SIGKILL)
        sent = 0
        for message in super().__call__(task):
            if left:
                # so many that one record is sent with some of its frames only
                entries = [number for number, event in enumerate(message) if isinstance(event, Entry)]
                sent += len(entries)
                if entries and sent > 5:
                    last = message[entries[-1] - 1]
                    yield [*message[: entries[-1] - 1], dataclasses.replace(last, values=last.values[:1])]
                    os.kill(os.getpid(), signal.SIGKILL)
            yield message
