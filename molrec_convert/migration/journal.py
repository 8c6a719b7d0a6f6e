"""The journal of a migration: one line for each input that is finished, and one for each commit.

Only what stands before a commit counts. The line of a commit is on disk before anybody goes on; what a killed process
wrote after the last one is cut off when the migration is resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from molrec_convert.migration.checked_lines import Chain, standing_lines

__all__ = ["Commit", "Journal", "Point"]

_COMMIT = b'{"commit"'


@dataclass(frozen=True)
class Commit:
    """Where a migration stands: inputs that are finished, and of the next one `skip` records.

    `records` and `frames` are in the file, `log` bytes in the log of records, of which the next input's begin at
    `base` (records, frames, log, duplicates that were left out). `since` and `sum`: the checksum of the log from there.
    """

    inputs: int = 0
    skip: int = 0
    records: int = 0
    frames: int = 0
    log: int = 0
    base: tuple[int, int, int, int] = (0, 0, 0, 0)
    tallies: Mapping[str, int] = field(default_factory=dict)
    since: int = 0
    sum: int = 0


class Point(NamedTuple):
    """A commit in short: where its line is in the journal, and the checksum of that up to its end."""

    start: int
    end: int
    chain: int
    records: int
    log: int
    since: int
    sum: int


_BEGINNING = Point(0, 0, 0, 0, 0, 0, 0)


class Journal:
    """The file at `path`; `last` is the commit it goes on from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: All commits there are, as long as none is made.
        self.points = list(_points(path))
        self._file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115
        self.go_back(self.points[-1] if self.points else None)

    def go_back(self, point: Point | None) -> None:
        """Forget what follows a commit; without one everything."""
        point = _BEGINNING if point is None else point
        self.last = _commit_at(self.path, point)
        self._chain = Chain(point.chain)
        self._file.truncate(point.end)
        self._file.seek(point.end)

    @staticmethod
    def committed(path: Path) -> Commit:
        """The last commit of the journal at a path, which is left as it is."""
        points = list(_points(path))
        return _commit_at(path, points[-1]) if points else Commit()

    @staticmethod
    def failed(path: Path) -> set[int]:
        """Inputs nothing came of, as they were at fault, up to the last commit of the journal at a path."""
        entries = _entries(path, max((point.end for point in _points(path)), default=0))
        failures = (entry for entry in entries if "failure" in entry)
        return {entry["input"] for entry in failures if "record" not in entry["failure"]}

    def note(self, entry: Mapping[str, Any]) -> None:
        """A line that counts when it is committed."""
        self._file.write(self._chain.line(entry))

    def commit(self, commit: Commit) -> None:
        """Everything up to here counts from now on."""
        self.note({"commit": asdict(commit)})
        self._file.flush()
        os.fsync(self._file.fileno())
        self.last = commit
        self.points = []

    def entries(self) -> Iterator[dict[str, Any]]:
        """The lines that count, commits left out, in order."""
        self._file.flush()
        yield from _entries(self.path, self._file.tell())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _points(path: Path) -> Iterator[Point]:
    """The commits of a journal, as far as its lines stand."""
    if not path.exists():
        return
    start = 0
    with path.open("rb") as file:
        for line in standing_lines(file):
            if line.text.startswith(_COMMIT):
                facts = line.document()["commit"]
                yield Point(start, line.end, line.sum, *(facts[name] for name in Point._fields[3:]))
            start = line.end


def _commit_at(path: Path, point: Point) -> Commit:
    if not point.end:
        return Commit()
    with path.open("rb") as file:
        file.seek(point.start)
        line = file.read(point.end - point.start)
    # it stands, as all before it does
    document = json.loads(line)["commit"]
    return Commit(**{**document, "base": tuple(document["base"])})


def _entries(path: Path, end: int) -> Iterator[dict[str, Any]]:
    """The lines of a journal up to a byte, commits left out."""
    if not end:
        return
    with path.open("rb") as file:
        for line in standing_lines(file):
            if not line.text.startswith(_COMMIT):
                yield line.document()
            if line.end >= end:
                return
