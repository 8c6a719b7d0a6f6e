"""Write beside the target, and rename when complete.

The work happens at `.NAME.partial` in the target's directory; `.NAME.partial.json` beside it keeps what a resumed run
needs to know. Only a complete result has the target's name: an earlier one stays untouched until the new one is on the
disk as a whole and replaces it in one step.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from molrec_convert.errors import UsageError
from molrec_convert.files.disk import hidden, name_in, remove, sync, sync_tree, take_place
from molrec_convert.files.json_text import read_json
from molrec_convert.files.locking import TargetLock

__all__ = [
    "Staging",
    "check_apart",
    "check_is_no_part",
    "check_target",
    "is_started",
    "replacing",
    "workroom",
]

#: The document at the root of a record's directory, and of a collection's in several files.
_ROOTS = ("zarr.json", "mrec-set.json")
_SET = _ROOTS[1]
_PARTIAL, _NOTE = "partial", "partial.json"
#: What may lie beside the partial path while it is written: a folder of the writer, the files of SQLite and LMDB.
_ROOM = ".room"
_SIDES = (_ROOM, "-journal", "-wal", "-shm", "-lock")
#: By how much names beside a target are longer at most, and how long a name may be.
_LONGER, _LONGEST = len("..") + len(_PARTIAL + "-journal"), 255
#: Where a note says which directory it belongs to.
_NUMBER = "number"


class Staging:
    """The place where one target is written, and the lock on it, held until the context is left.

    `path` is where the writer works; `begin` clears it, `commit` gives the result its name, `discard` removes
    everything but the target. Leaving the context releases the lock and removes what was begun without a note and not
    committed.

    With `locked` the caller holds the lock already. Raises as `check_target` and `TargetLock` do.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        is_own_output: Callable[[Path], bool] | None = None,
        locked: bool = False,
    ) -> None:
        self.target = Path(os.path.abspath(target))
        self.path, self.note_path = hidden(self.target, _PARTIAL), hidden(self.target, _NOTE)
        self._fresh = False
        check_target(target, overwrite=overwrite, is_own_output=is_own_output)
        self._lock = None if locked else TargetLock(target)
        try:
            # it may have appeared since
            check_target(target, overwrite=overwrite, is_own_output=is_own_output)
            self._clear_sides()
        except BaseException:
            self.release()
            raise

    @property
    def started(self) -> bool:
        """True if an earlier attempt left something to continue from."""
        return is_started(self.target)

    def read_note(self) -> dict[str, Any]:
        """Return the facts of an earlier attempt; {} if there are none or they cannot be read."""
        return {key: value for key, value in _read_note(self.target).items() if key != _NUMBER}

    def begin(self, note: dict[str, Any] | None = None) -> None:
        """Clear the place; with a `note` make a directory there and keep these facts beside it.

        An attempt with a note is kept if the work is interrupted.
        """
        self.discard()
        self._fresh = True
        if note is not None:
            self.path.mkdir()
            # a note that is cut off does not count
            text = json.dumps({**note, _NUMBER: self.path.stat().st_ino})
            self.note_path.write_text(text, encoding="utf-8")
            self._fresh = False

    def discard(self) -> None:
        """Remove what this or an earlier attempt left beside the target."""
        self._fresh = False
        remove(self.note_path)
        remove(self.path)
        self._clear_sides()

    def commit(self) -> None:
        """Give the complete result its name, in place of what had it before, and release the lock."""
        sync_tree(self.path)
        if os.path.lexists(self.note_path):
            os.unlink(self.note_path)
            sync(self.target.parent)
        take_place(self.path, self.target)
        self._fresh = False
        self._clear_sides()
        self.release()

    def release(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        name_in(error, self.target)
        try:
            if self._fresh:
                self.discard()
        finally:
            self.release()

    def _clear_sides(self) -> None:
        """Remove what this run or a killed one left beside the partial path."""
        for side in _SIDES:
            remove(self.path.with_name(f"{self.path.name}{side}"))


@contextlib.contextmanager
def replacing(
    target: str | os.PathLike[str], *, overwrite: bool = False, is_own_output: Callable[[Path], bool] | None = None
) -> Iterator[Path]:
    """Yield a free path beside a target; what is there when the context is left gets the target's name.

    After an error nothing is left, and the target is unchanged. Raises as `Staging` does.
    """
    with Staging(target, overwrite=overwrite, is_own_output=is_own_output) as staging:
        staging.begin()
        yield staging.path
        staging.commit()


def is_started(target: Path) -> bool:
    """True if an interrupted attempt left something that a resumed one can continue from.

    Its note says which directory it belongs to; one that came there in another way does not count.
    """
    try:
        made, beside = os.lstat(hidden(target, _PARTIAL)), os.lstat(hidden(target, _NOTE))
    except OSError:
        return False
    # inode numbers hold within a file system; numbers of devices may change at a restart
    return made.st_dev == beside.st_dev and _read_note(target).get(_NUMBER) == made.st_ino


def workroom(path: Path) -> Path:
    """Return the folder, not made yet, in which the writer at a staging `path` may keep files of its own."""
    return path.with_name(f"{path.name}{_ROOM}")


def _read_note(target: Path) -> dict[str, Any]:
    try:
        note = read_json(hidden(target, _NOTE).read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def check_target(
    target: str | os.PathLike[str], *, overwrite: bool, is_own_output: Callable[[Path], bool] | None = None
) -> None:
    """Refuse a target that cannot be written, is taken, or is not ours to replace.

    Files are replaced as a copy would replace them. Of directories only records, empty ones, and those that
    `is_own_output` recognizes are replaced: nothing else in a directory is ours to remove.
    """
    where = Path(os.path.abspath(target))
    if not where.name:
        raise UsageError(f"{target} names no file to write")
    if not where.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no directory {where.parent}")
    length = len(os.fsencode(where.name))
    if length > _LONGEST - _LONGER:
        raise UsageError(
            f"cannot write {target}: the name has {length} bytes, and the hidden names beside it leave room for "
            f"{_LONGEST - _LONGER}: choose a shorter one"
        )
    if _is_special(where):
        raise UsageError(f"{target} is a device or a pipe, which is not replaced: name another target")
    if not os.path.lexists(where):
        return
    if not overwrite:
        raise UsageError(f"{target} exists already: name another target, or replace it with --overwrite")
    check_is_no_part(where)
    if not where.is_dir() or where.is_symlink() or not any(where.iterdir()):
        return
    if not any((where / root).is_file() for root in _ROOTS) and not (
        is_own_output is not None and is_own_output(where)
    ):
        what = "holds no record" if is_own_output is None else "holds more than this format writes"
        raise UsageError(f"{target} is a directory that {what}, so it is not replaced: name another target")


def _is_special(where: Path) -> bool:
    """True if a path is not a file, directory or link, or is one of the links that stand for open files."""
    if os.path.realpath(where.parent).split(os.sep)[1:] in (["dev"], ["proc", str(os.getpid()), "fd"]):
        return True
    if not os.path.lexists(where):
        return False
    kind = where.lstat().st_mode
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind))


def check_is_no_part(target: Path) -> None:
    """Refuse, with `UsageError`, to replace a file of the set of collections in whose directory it lies."""
    if not os.path.lexists(target):
        return
    try:
        document = read_json((target.parent / _SET).read_bytes())
        names = [os.path.normpath(part["path"]) for part in document["parts"]]
    except (OSError, ValueError, LookupError, TypeError):
        # there is no set, or one that cannot be read
        return
    if target.name in (*names, _SET):
        raise UsageError(f"{target} is a part of the set {target.parent}, which would be damaged: name another target")


def check_apart(target: Path, sources: Iterable[Path]) -> None:
    """Refuse a target that would replace a source, or the directory a source lies in."""
    named = Path(os.path.abspath(target))
    where = Path(os.path.realpath(named.parent)) / named.name
    for source in sources:
        own = Path(os.path.realpath(source))
        same = own == where or Path(os.path.abspath(source)) == named
        if same or where in own.parents:
            what = "is the source" if same else f"holds the source {source}"
            raise UsageError(f"{target} {what}, which the result would replace: name another target")
