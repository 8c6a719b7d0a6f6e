"""What a migration keeps beside its output until it is complete: plan, journal, log of records; and what it leaves.

For `train.mrec.lmdb` the state is the directory `.train.mrec.lmdb.migration`. Beside the complete collection stay
`train.migration.jsonl`, which says of each input what it was when it was migrated, and, where there are any,
`train.failures.jsonl`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from molrec_convert.files import disk
from molrec_convert.migration.checked_lines import read_document, read_lines, write_lines
from molrec_convert.migration.failures import Failure, failure_entry, read_failures, write_failures

__all__ = ["SUFFIX", "Known", "State"]

SUFFIX = ".mrec.lmdb"
#: What is known of an input that was migrated: size, time of change, hash.
Known = tuple[int, int, str]


#: What to do about a file of the state that is damaged.
_AGAIN = "start over with --overwrite"


class State:
    """The files of the migration to `target`, for whoever has the right to write that.

    The directory is there from the first step to the last: what is to be removed is given another name first, in one
    step, so that it is whole for as long as there is something to go on from.
    """

    def __init__(self, target: Path) -> None:
        self.target = Path(os.path.abspath(target))
        name = self.target.name
        stem = name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else self.target.stem
        self.folder = self.target.parent / f".{name}.migration"
        self.partial = self.target.parent / f".{name}.partial"
        self.failures = self.target.parent / f"{stem}.failures.jsonl"
        self.manifest = self.target.parent / f"{stem}.migration.jsonl"
        self.journal, self.log = self.folder / "journal.jsonl", self.folder / "records.log"
        #: What is to be removed.
        self._gone = self.target.parent / f".{name}.migration.gone"
        self._note, self._plan, self._settled, self._finished, self._kept = (
            self.folder / name for name in ("note.json", "plan.json", "settled.json", "finished", "kept.jsonl")
        )

    def begin(self) -> None:
        """Make the directory, where there is none of an earlier attempt; what that left behind otherwise goes."""
        disk.remove(self._gone)
        if not self.folder.is_dir():
            disk.remove(self.partial)
            self.folder.mkdir()
            disk.sync(self.folder.parent)

    def restart(self) -> None:
        """Forget what an earlier attempt left."""
        self.discard()
        self.begin()

    def discard(self) -> None:
        """Remove the state, and the unfinished collection."""
        with suppress(FileNotFoundError):
            os.rename(self.folder, self._gone)
            # what is in it goes when it has its new name for good
            disk.sync(self._gone.parent)
        disk.remove(self._gone)
        disk.remove(self.partial)

    def note(self) -> dict[str, Any] | None:
        """The facts an earlier attempt was begun with. Raises `FormatError` where they are damaged, as all of these."""
        return read_document(self._note, _AGAIN)

    def write_note(self, note: Mapping[str, Any]) -> None:
        """Keep the facts of this one."""
        write_lines(self._note, [note])

    def plan(self) -> dict[str, Any] | None:
        """The plan of an earlier attempt, when it was complete."""
        return read_document(self._plan, _AGAIN)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan."""
        write_lines(self._plan, [plan])

    def forget_plan(self) -> None:
        """The plan is to be made anew; what was settled stays."""
        disk.remove(self._plan)

    def settled(self) -> dict[str, Any] | None:
        """What the values in the file were made for."""
        return read_document(self._settled, _AGAIN)

    def write_settled(self, settled: Mapping[str, Any]) -> None:
        """Keep that."""
        write_lines(self._settled, [settled])

    def keep_failures(self) -> None:
        """Keep what is noted of the inputs of the complete collection that is added to; what failed is tried again."""
        migrated = self.migrated() if self.failures.is_file() else {}
        noted = ((path, entry) for path, entry in read_failures(self.failures) if os.path.abspath(path) in migrated)
        write_failures(self._kept, noted)

    def kept_failures(self) -> Iterator[tuple[str, Failure]]:
        """Yield what was kept."""
        for entry in read_lines(self._kept, _AGAIN):
            yield entry.pop("path"), entry

    def mark_finished(self, manifest: Iterable[Mapping[str, Any]], failures: Iterable[tuple[str, Failure]]) -> None:
        """Everything is ready but for the names: what is left beside the collection lies in the state."""
        write_lines(self.folder / self.manifest.name, manifest)
        noted = write_lines(self.folder / self.failures.name, (failure_entry(*failure) for failure in failures))
        # the name may be that of an older collection, which a set leaves in its place: the system knows which is which
        write_lines(self._finished, [{"number": self.partial.stat().st_ino, "failures": noted.count}])

    @property
    def is_finished(self) -> bool:
        """Whether the collection has its name already, and only what lies beside it is to be put there."""
        finished = read_document(self._finished, _AGAIN)
        if finished is None or not self.target.exists():
            return False
        return bool(self.target.stat().st_ino == finished["number"])

    def unmark(self) -> None:
        """The collection is not finished after all."""
        disk.remove(self._finished)

    def leave(self) -> None:
        """Put beside the collection what stays there, and remove the state. May be done again after a kill."""
        finished = read_document(self._finished, _AGAIN)
        assert finished is not None
        # before the state goes, so that a set's older files, which are there now, are not taken for an unfinished one
        disk.remove(self.partial)
        for where in (self.manifest, self.failures):
            with suppress(FileNotFoundError):
                # where it is not there an attempt before this one has put it in its place
                os.replace(self.folder / where.name, where)
        if not finished["failures"]:
            disk.remove(self.failures)
        disk.sync(self.target.parent)
        self.discard()

    def migrated(self) -> dict[str, Known]:
        """The inputs the complete collection was made of, by absolute path."""
        return {entry["path"]: (entry["size"], entry["stamp"], entry["hash"]) for entry in self.manifest_entries()}

    def manifest_entries(self) -> Iterator[dict[str, Any]]:
        """The lines of the manifest. Raises `FormatError` where it is damaged."""
        yield from read_lines(self.manifest, _AGAIN)
