"""The journal of a migration: one JSON line for each input that is finished, and one for each commit.

Only what stands before a commit counts. The line of a commit is on disk before anybody goes on; what a killed process
wrote after the last one is cut off when the migration is resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Commit", "Journal"]


@dataclass(frozen=True)
class Commit:
    """Where a migration stands: inputs that are finished, and of the next one `skip` records.

    `records` and `frames` are in the file, `log` bytes in the log of records, of which the next input's begin at
    `base` (records, frames, log, duplicates that were left out).
    """

    inputs: int = 0
    skip: int = 0
    records: int = 0
    frames: int = 0
    log: int = 0
    base: tuple[int, int, int, int] = (0, 0, 0, 0)
    tallies: Mapping[str, int] = field(default_factory=dict)


class Journal:
    """The file at `path`; `last` is the commit it goes on from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last, size = _last_commit(path)
        self._file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115
        self._file.truncate(size)
        self._file.seek(size)

    @staticmethod
    def committed(path: Path) -> Commit:
        """The last commit of the journal at a path, which is left as it is."""
        return _last_commit(path)[0]

    @staticmethod
    def failed(path: Path) -> set[int]:
        """Inputs nothing came of, as they were at fault, up to the last commit of the journal at a path."""
        _, size = _last_commit(path)
        found = set()
        if size:
            with path.open("rb") as file:
                while file.tell() < size:
                    entry = json.loads(file.readline())
                    if "failure" in entry and "record" not in entry["failure"]:
                        found.add(entry["input"])
        return found

    def note(self, entry: Mapping[str, Any]) -> None:
        """A line that counts when it is committed."""
        self._file.write(json.dumps(entry).encode() + b"\n")

    def commit(self, commit: Commit) -> None:
        """Everything up to here counts from now on."""
        self.note({"commit": asdict(commit)})
        self._file.flush()
        os.fsync(self._file.fileno())
        self.last = commit

    def entries(self) -> Iterator[dict[str, Any]]:
        """The lines that count, commits left out, in order."""
        self._file.flush()
        size = self._file.tell()
        with self.path.open("rb") as file:
            while file.tell() < size:
                entry = json.loads(file.readline())
                if "commit" not in entry:
                    yield entry

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _last_commit(path: Path) -> tuple[Commit, int]:
    """The last commit of a journal and where it ends."""
    found, end = Commit(), 0
    if not path.exists():
        return found, end
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            if line.startswith(b'{"commit"'):
                try:
                    document = json.loads(line)["commit"]
                except ValueError:
                    break
                found = Commit(**{**document, "base": (*document["base"], 0)[:4]})
                end = file.tell()
    return found, end
