"""What a worker is given to do, and what it reports of it, in the order of the inputs.

A task is some consecutive inputs to look at, or to encode for a collection. Of the latter come `Frames` and `Entry` of
records, then `Done` or `Failed` of their input; `Restart` takes back what was sent of an input so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from molrec_convert.migration.inputs.inputs import InputTable
from molrec_convert.migration.state import Failure

__all__ = [
    "Done",
    "EncodedBatch",
    "Entry",
    "Event",
    "Failed",
    "Found",
    "Frames",
    "Goal",
    "Items",
    "Restart",
    "RetryRecord",
    "RowFailed",
    "Task",
    "TaskList",
    "is_large",
    "singles",
]

#: A task is so many inputs, or so many bytes.
_TASK_INPUTS, _TASK_BYTES = 250, 4 * 2**20
#: An input that can be read from any record on is divided in spans of so many bytes.
_SPAN_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Found:
    """What the first pass found out of a large input: the hash of its content, and its outline.

    See `Collection.outline`; whoever reads a span of the input needs neither to look at all of it again.
    """

    digest: str
    outline: Mapping[str, Any] | None


@dataclass(frozen=True)
class Goal:
    """What records are encoded for: the declaration of the collection as JSON, and its units."""

    declaration: str
    units: Mapping[str, str]


@dataclass(frozen=True)
class Task:
    """Consecutive inputs for one worker: the number of the first, paths, sizes, stamps, which were searched for.

    `formats`: the name of each where it is known. `skip`: records of the first that are done already. `goal`: what
    to encode them for; without one they are only looked at. `stop`: of one input only the records before that one, of
    which others do the rest. `found`: what is known of one input. `hashing`: whether large ones are hashed as they are
    looked at.
    """

    first: int
    paths: list[str]
    sizes: list[int]
    stamps: list[int]
    searched: list[bool]
    formats: list[str | None]
    skip: int = 0
    goal: Goal | None = None
    stop: int | None = None
    found: Found | None = None
    hashing: bool = False


@dataclass(frozen=True)
class TaskList:
    """The tasks of one pass over the inputs of a table: those that are `eligible`, each of a format or of none yet.

    `divisible`: the records of each input that can be read from any of them on, 0 for others. `found`: what is known
    of large inputs, by their numbers. `hashing` as in `Task`.
    """

    table: InputTable
    formats: Sequence[str | None]
    eligible: Sequence[bool]
    goal: Goal | None = None
    divisible: Sequence[int] | None = None
    found: Mapping[int, Found] = field(default_factory=dict)
    hashing: bool = False

    def since(self, first: int = 0, skip: int = 0) -> Iterator[Task]:
        """Yield the tasks from an input on; of that the first `skip` records are done."""
        table, eligible = self.table, self.eligible
        number, count = first, len(table)
        while number < count:
            if not eligible[number]:
                number += 1
                continue
            if self._spans(number) > 1:
                yield from self._divided(number, skip)
                number, skip = number + 1, 0
                continue
            stop, nbytes = number + 1, table.sizes[number]
            while (
                stop < count
                and not skip
                and eligible[stop]
                and stop - number < _TASK_INPUTS
                and nbytes + table.sizes[stop] <= _TASK_BYTES
            ):
                nbytes += table.sizes[stop]
                stop += 1
            yield self._task(number, stop, skip)
            number, skip = stop, 0

    def _spans(self, number: int) -> int:
        """In how many spans an input is read."""
        records = 0 if self.divisible is None else self.divisible[number]
        return min(records, self.table.sizes[number] // _SPAN_BYTES)

    def _divided(self, number: int, skip: int) -> Iterator[Task]:
        """Yield an input in spans of its records; the last one has no end, and says that the input is done."""
        assert self.divisible is not None
        most = -(-self.divisible[number] // self._spans(number))
        start = skip
        while (stop := start - start % most + most) < self.divisible[number]:
            yield replace(self._task(number, number + 1, start), stop=stop)
            start = stop
        yield self._task(number, number + 1, start)

    def _task(self, first: int, stop: int, skip: int) -> Task:
        table = self.table
        return Task(
            first,
            table.paths[first:stop],
            list(table.sizes[first:stop]),
            list(table.stamps[first:stop]),
            [bool(flag) for flag in table.searched[first:stop]],
            list(self.formats[first:stop]),
            skip,
            self.goal,
            found=self.found.get(first) if stop == first + 1 else None,
            hashing=self.hashing,
        )


def is_large(nbytes: int) -> bool:
    """True if an input of so many bytes has several spans, where it can be divided."""
    return nbytes >= 2 * _SPAN_BYTES


def singles(task: Task, input_: int, skip: int) -> list[Task]:
    """Return what is left of a task, an input each: from an input on, of which the first `skip` records are done."""
    left = []
    for number in range(input_ - task.first, len(task.paths)):
        own = slice(number, number + 1)
        alone = replace(
            task,
            first=task.first + number,
            paths=task.paths[own],
            sizes=task.sizes[own],
            stamps=task.stamps[own],
            searched=task.searched[own],
            formats=task.formats[own],
            skip=skip if task.first + number == input_ else 0,
        )
        left.append(alone)
    return left


@dataclass(slots=True)
class Frames:
    """Values of frames of the record that is being read."""

    input: int
    values: list[bytes]


@dataclass(slots=True)
class Entry:
    """A record whose frames have all been sent: its number of frames, its entry in the log, a digest of its content."""

    input: int
    n_frames: int
    entry: bytes
    digest: bytes


@dataclass(slots=True)
class EncodedBatch:
    """Records of one frame each that follow each other in an input.

    Of each the value of its frame, its entry in the log, and a digest where they are asked for.
    """

    input: int
    values: list[bytes]
    entries: list[bytes]
    digests: list[bytes]

    def part(self, start: int, stop: int) -> EncodedBatch:
        """Return some of the records."""
        return EncodedBatch(self.input, self.values[start:stop], self.entries[start:stop], self.digests[start:stop])

    def single(self) -> Iterator[Frames | Entry]:
        """Yield the same record by record."""
        digests = self.digests or [b""] * len(self.entries)
        for value, entry, digest in zip(self.values, self.entries, digests, strict=True):
            yield Frames(self.input, [value])
            yield Entry(self.input, 1, entry, digest)


@dataclass(slots=True)
class Restart:
    """What was sent of an input is to be forgotten: it is read again in another layout."""

    input: int


@dataclass(slots=True)
class RetryRecord:
    """Frames of a record that was not sent whole are to be forgotten: the record is read again."""

    input: int


@dataclass(slots=True)
class Items:
    """What became of items of an input of which a span is whole, and others follow."""

    input: int
    items: list[tuple[str, str, str]]


@dataclass(slots=True)
class Done:
    """An input is whole: the hash of its content, and what became of its items (fate, name, detail)."""

    input: int
    digest: str
    items: list[tuple[str, str, str]]
    aside: bool = False


@dataclass(slots=True)
class Failed:
    """An input is at fault; what was sent of it is to be forgotten."""

    input: int
    failure: Failure


@dataclass(slots=True)
class RowFailed:
    """One record of a database is at fault; what was sent of its frames is to be forgotten."""

    input: int
    record: int
    failure: Failure


Event = Frames | Entry | EncodedBatch | Restart | RetryRecord | Items | Done | Failed | RowFailed
