"""What a migration keeps beside its output until it is complete: plan, journal, log of records; and what it leaves.

For `train.mrec.lmdb` the state is the directory `.train.mrec.lmdb.migration`. Beside the complete collection stay
`train.migration.jsonl`, which says of each input what it was when it was migrated, and, where there are any,
`train.failures.jsonl`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from molrec_convert.disk import settle_place
from molrec_convert.errors import UsageError
from molrec_convert.migration.failures import Failure, read_failures, write_failures

__all__ = ["SUFFIX", "Known", "State"]

SUFFIX = ".mrec.lmdb"
#: What is known of an input that was migrated: size, time of change, hash.
Known = tuple[int, int, str]


class State:
    """The files of the migration to `target`."""

    def __init__(self, target: Path) -> None:
        self.target = Path(os.path.abspath(target))
        name = self.target.name
        stem = name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else self.target.stem
        self.folder = self.target.parent / f".{name}.migration"
        self.partial = self.target.parent / f".{name}.partial"
        self.failures = self.target.parent / f"{stem}.failures.jsonl"
        self.manifest = self.target.parent / f"{stem}.migration.jsonl"
        self.journal, self.log = self.folder / "journal.jsonl", self.folder / "records.log"
        self._note, self._plan, self._settled, self._finished, self._kept = (
            self.folder / name for name in ("note.json", "plan.json", "settled.json", "finished", "kept.jsonl")
        )
        self._lock: int | None = None

    def begin(self) -> None:
        """Make the directory and lock it. Raises `UsageError` while another process is at it."""
        if not self.target.parent.is_dir():
            raise UsageError(f"cannot write {self.target}: there is no directory {self.target.parent}")
        self.folder.mkdir(exist_ok=True)
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.end()
            raise UsageError(f"{self.target} is being written by another process") from None

    def end(self) -> None:
        """Let go of the lock; what is there stays for the next attempt."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def restart(self) -> None:
        """Forget what an earlier attempt left."""
        for entry in (*self.folder.iterdir(), self.partial):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)

    def note(self) -> dict[str, Any] | None:
        """The facts an earlier attempt was begun with."""
        return _read_json(self._note)

    def write_note(self, note: Mapping[str, Any]) -> None:
        """Keep the facts of this one."""
        _write_json(self._note, note)

    def plan(self) -> dict[str, Any] | None:
        """The plan of an earlier attempt, when it was complete."""
        return _read_json(self._plan)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan."""
        _write_json(self._plan, plan)

    def forget_plan(self) -> None:
        """The plan is to be made anew; what was settled stays."""
        self._plan.unlink(missing_ok=True)

    def settled(self) -> dict[str, Any] | None:
        """What the values in the file were made for."""
        return _read_json(self._settled)

    def write_settled(self, settled: Mapping[str, Any]) -> None:
        """Keep that."""
        _write_json(self._settled, settled)

    def keep_failures(self) -> None:
        """Keep what is noted of the inputs of the complete collection that is added to; what failed is tried again."""
        if not self.failures.is_file():
            return
        migrated = self.migrated()
        noted = ((path, entry) for path, entry in read_failures(self.failures) if os.path.abspath(path) in migrated)
        write_failures(self._kept, noted)

    def kept_failures(self) -> Iterator[tuple[str, Failure]]:
        """Yield what was kept."""
        yield from read_failures(self._kept)

    def mark_finished(self, manifest: Iterable[Mapping[str, Any]], failures: Iterable[tuple[str, Failure]]) -> None:
        """Everything is ready but for the names: what is left beside the collection lies in the state."""
        with (self.folder / "manifest.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in manifest)
        write_failures(self.folder / "failures.jsonl", failures)
        # the name may be that of an older collection, which a set leaves in its place: the system knows which is which
        _write_json(self._finished, {"number": self.partial.stat().st_ino})

    @property
    def is_finished(self) -> bool:
        """Whether the collection has its name already, and only what lies beside it is to be put there."""
        finished = _read_json(self._finished)
        if finished is None or not self.target.exists():
            return False
        return bool(self.target.stat().st_ino == finished.get("number"))

    def unmark(self) -> None:
        """The collection is not finished after all."""
        self._finished.unlink(missing_ok=True)

    def leave(self) -> None:
        """Put beside the collection what stays there, and remove the state. May be done again after a kill."""
        if self.partial.is_dir():
            shutil.rmtree(self.partial)
        settle_place(self.target)
        for name, where in (("manifest.jsonl", self.manifest), ("failures.jsonl", self.failures)):
            if (self.folder / name).exists():
                os.replace(self.folder / name, where)
            elif name == "failures.jsonl":
                where.unlink(missing_ok=True)
        self.discard()

    def discard(self) -> None:
        """Remove the state."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.end()

    def migrated(self) -> dict[str, Known]:
        """The inputs the complete collection was made of, by absolute path."""
        return {entry["path"]: (entry["size"], entry["stamp"], entry["hash"]) for entry in self.manifest_entries()}

    def manifest_entries(self) -> Iterator[dict[str, Any]]:
        """The lines of the manifest."""
        if self.manifest.exists():
            with self.manifest.open(encoding="utf-8") as file:
                yield from (json.loads(line) for line in file)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
