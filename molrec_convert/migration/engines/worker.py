"""What a worker process does with a task: look at its inputs, or encode them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from molrec_convert.migration.encoding.encode import Encoder
from molrec_convert.migration.inputs.scan import Scanner
from molrec_convert.migration.inputs.tasks import Goal, Task
from molrec_convert.migration.settings import Settings
from molrec_convert.model import Declaration

__all__ = ["Worker"]


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
        """The messages of one task: a `Scan`, or lists of events."""
        if task.goal is None:
            yield from self._scanner(task)
            return
        if self._encoder is None or self._encoder[0] != task.goal:
            declaration = Declaration.from_json(json.loads(task.goal.declaration))
            kept = self._scanner.take_kept()
            encoder = Encoder(self._settings, declaration, task.goal.units, kept, here=self._here)
            self._encoder = task.goal, encoder
        yield from self._encoder[1](task)
