"""Write beside the target, rename when complete.

The work happens at `.NAME.partial` in the target's directory; what a resumed run needs to know lies in
`.NAME.partial.json` beside it. The target's name only ever belongs to a complete result: an earlier one stays
untouched until the new one, all of it on the disk, takes its place in one step.
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
#: What those who write at the partial path may have beside it: a folder of their own, the files of SQLite and LMDB.
_ROOM = ".room"
_SIDES = (_ROOM, "-journal", "-wal", "-shm", "-lock")
#: What names beside a target are longer by, at most, and how long a name may be.
_LONGER, _LONGEST = len("..") + len(_PARTIAL + "-journal"), 255
#: Where a note says which directory it belongs to.
_NUMBER = "number"


class Staging:
    """The place where one target is written, and the right to write there, from when it is made until it is left.

    `path` is where the writer works; `begin` clears it, `commit` gives the result its name, `discard` removes
    everything but the target. A context manager, which lets go of the right, and of what was begun without a note and
    not committed.

    With `locked` the caller holds the right already. Raises as `check_target` and `TargetLock` do.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        owns: Callable[[Path], bool] | None = None,
        locked: bool = False,
    ) -> None:
        self.target = Path(os.path.abspath(target))
        self.path, self.note_path = hidden(self.target, _PARTIAL), hidden(self.target, _NOTE)
        self._fresh = False
        check_target(target, overwrite=overwrite, owns=owns)
        self._lock = None if locked else TargetLock(target)
        try:
            # what has come, or come back, since
            check_target(target, overwrite=overwrite, owns=owns)
            self._clear_sides()
        except BaseException:
            self.release()
            raise

    @property
    def started(self) -> bool:
        """Whether an earlier attempt left something to go on from, which is its own."""
        return is_started(self.target)

    def read_note(self) -> dict[str, Any]:
        """The facts of an earlier attempt, {} when there are none or they cannot be read."""
        return {key: value for key, value in _read_note(self.target).items() if key != _NUMBER}

    def begin(self, note: dict[str, Any] | None = None) -> None:
        """Clear the place; with a `note` make it a directory, and keep these facts of the attempt beside it.

        What has a note stays when the work is interrupted.
        """
        self.discard()
        self._fresh = True
        if note is not None:
            self.path.mkdir()
            # one that is cut off is none
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
        """Give the complete result its name; what had it before is gone afterwards, and so is the right to write."""
        sync_tree(self.path)
        if os.path.lexists(self.note_path):
            os.unlink(self.note_path)
            sync(self.target.parent)
        take_place(self.path, self.target)
        self._fresh = False
        self._clear_sides()
        self.release()

    def release(self) -> None:
        """Let others write. Safe to call twice."""
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
        """Remove what lies beside the partial path, of this run or of a killed one."""
        for side in _SIDES:
            remove(self.path.with_name(f"{self.path.name}{side}"))


@contextlib.contextmanager
def replacing(
    target: str | os.PathLike[str], *, overwrite: bool = False, owns: Callable[[Path], bool] | None = None
) -> Iterator[Path]:
    """Yield a free path beside a target; what is there when the context is left takes the target's name.

    After an error nothing is left, and the target is as it was. Raises as `Staging` does.
    """
    with Staging(target, overwrite=overwrite, owns=owns) as staging:
        staging.begin()
        yield staging.path
        staging.commit()


def is_started(target: Path) -> bool:
    """True if an interrupted attempt left something that a resumed one goes on from.

    Its note says which directory it belongs to: one that came there in another way is not gone on with.
    """
    try:
        made, beside = os.lstat(hidden(target, _PARTIAL)), os.lstat(hidden(target, _NOTE))
    except OSError:
        return False
    # a number is one of its file system; those of devices may be others after a restart
    return made.st_dev == beside.st_dev and _read_note(target).get(_NUMBER) == made.st_ino


def workroom(path: Path) -> Path:
    """Return the folder in which what is written at a staging `path` may have files of its own; not there yet."""
    return path.with_name(f"{path.name}{_ROOM}")


def _read_note(target: Path) -> dict[str, Any]:
    try:
        note = read_json(hidden(target, _NOTE).read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def check_target(
    target: str | os.PathLike[str], *, overwrite: bool, owns: Callable[[Path], bool] | None = None
) -> None:
    """Refuse a target that cannot be written, is taken, or is not ours to replace.

    Files are replaced as a copy would replace them, of directories only records, empty ones, and those that `owns`
    says the target's format made: what else lies in a directory is nobody's to remove.
    """
    where = Path(os.path.abspath(target))
    if not where.name:
        raise UsageError(f"{target} names no file to write")
    if not where.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no directory {where.parent}")
    length = len(os.fsencode(where.name))
    if length > _LONGEST - _LONGER:
        raise UsageError(
            f"cannot write {target}: the name has {length} bytes, and with those it is made under no more than "
            f"{_LONGEST - _LONGER} are possible: choose a shorter one"
        )
    if _is_special(where):
        raise UsageError(f"{target} is a device or a pipe, and is not replaced: name another target")
    if not os.path.lexists(where):
        return
    if not overwrite:
        raise UsageError(f"{target} exists already: name another target, or replace it with --overwrite")
    check_is_no_part(where)
    if not where.is_dir() or where.is_symlink() or not any(where.iterdir()):
        return
    if not any((where / root).is_file() for root in _ROOTS) and not (owns is not None and owns(where)):
        what = "holds no record" if owns is None else "holds more than this format writes"
        raise UsageError(f"{target} is a directory that {what}, and is not replaced: name another target")


def _is_special(where: Path) -> bool:
    """True if a path is no file, directory or link, or one of the links that stand for open files."""
    if os.path.realpath(where.parent).split(os.sep)[1:] in (["dev"], ["proc", str(os.getpid()), "fd"]):
        return True
    if not os.path.lexists(where):
        return False
    kind = where.lstat().st_mode
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind))


def check_is_no_part(target: Path) -> None:
    """Refuse to replace a file of the set of collections in whose directory it lies. Raises `UsageError`."""
    if not os.path.lexists(target):
        return
    try:
        document = read_json((target.parent / _SET).read_bytes())
        names = [os.path.normpath(part["path"]) for part in document["parts"]]
    except (OSError, ValueError, LookupError, TypeError):
        # there is no set, or one nobody can read
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
