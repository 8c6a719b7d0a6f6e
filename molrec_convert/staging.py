"""Write beside the target, rename when complete.

The work happens at `.NAME.partial` in the target's directory; what a resumed run needs to know lies in
`.NAME.partial.json` beside it. The target's name only ever belongs to a complete result: an earlier one stays
untouched until the new one takes its place in one step.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from molrec_convert.disk import remove, swap, sync
from molrec_convert.errors import UsageError
from molrec_convert.json_text import read_json

__all__ = ["Staging", "check_apart", "check_is_no_part", "check_target"]

#: The document at the root of a record's directory, and of a collection's in several files.
_ROOTS = ("zarr.json", "mrec-set.json")
_SET = _ROOTS[1]


class Staging:
    """The place where one target is written.

    `path` is where the writer works, `note` the facts kept beside it. `commit` gives the result its name,
    `discard` removes everything but the target.
    """

    def __init__(self, target: Path, *, overwrite: bool = False, owns: Callable[[Path], bool] | None = None) -> None:
        self.target = Path(os.path.abspath(target))
        parent = self.target.parent
        check_target(target, overwrite=overwrite, owns=owns)
        self.path = parent / f".{self.target.name}.partial"
        self.note_path = parent / f".{self.target.name}.partial.json"

    @property
    def started(self) -> bool:
        """Whether an earlier attempt left something to go on from."""
        return self.path.exists() and self.note_path.exists()

    def check_free(self) -> None:
        """Refuse while another process writes to the same target: whoever writes a directory holds a lock on it."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another conversion is writing {self.target}: wait for it, or name another target"
            ) from None
        finally:
            os.close(descriptor)

    def read_note(self) -> dict[str, Any]:
        """The facts of an earlier attempt, {} when there are none or they cannot be read."""
        try:
            note = json.loads(self.note_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}

    def write_note(self, note: dict[str, Any]) -> None:
        """Keep the facts of this attempt."""
        temporary = self.note_path.with_suffix(".tmp")
        temporary.write_text(json.dumps(note), encoding="utf-8")
        os.replace(temporary, self.note_path)

    def discard(self) -> None:
        """Remove what this or an earlier attempt left beside the target."""
        remove(self.path)
        self.note_path.unlink(missing_ok=True)

    def commit(self) -> None:
        """Give the complete result its name; what had it before is gone afterwards."""
        if not os.path.lexists(self.target):
            os.rename(self.path, self.target)
        elif self.path.is_file() and not self.target.is_dir():
            os.replace(self.path, self.target)
        else:
            exchange(self.path, self.target)
            remove(self.path)
        sync(self.target.parent)
        self.note_path.unlink(missing_ok=True)


def check_target(target: Path, *, overwrite: bool, owns: Callable[[Path], bool] | None = None) -> None:
    """Refuse a target that cannot be written, is taken, or is not ours to replace.

    Files are replaced as a copy would replace them, of directories only records, empty ones, and those that `owns`
    says the target's format made: what else lies in a directory is nobody's to remove.
    """
    where = Path(os.path.abspath(target))
    if not where.name:
        raise UsageError(f"{target} names no file to write")
    if not where.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no directory {where.parent}")
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


def exchange(a: Path, b: Path) -> None:
    """Swap two names in one step where the system can, else by way of a third name."""
    if swap(a, b):
        return
    third = b.parent / f".{b.name}.replaced"
    remove(third)
    os.rename(b, third)
    os.rename(a, b)
    os.rename(third, a)
