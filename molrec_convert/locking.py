"""The right to write under a name, and to what has it: advisory locks of the system, gone when their process is.

Whoever makes something under a name holds `.NAME.lock` beside it, which says who that is, and what has the name
already; whoever alters what is there (appends to a record's directory, for instance) holds that alone. So each keeps
the other out, and is told who holds it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import stat
import sys
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from molrec_convert.errors import UsageError

__all__ = ["PathLock", "TargetLock"]

#: What the system says of a lock that another one holds; anything else means that there are no locks here.
_HELD = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
#: So much of a command is told.
_LONGEST = 200
_DAY = "%Y-%m-%d"


class TargetLock:
    """The right to write under the name `target`, until it is released: for files and directories of every kind.

    Held from the moment it is made; a context manager. Raises `UsageError` where another one holds it, which says who,
    or where no file can be made beside the target. The lock of a process that has ended is none. On a file system
    without locks everybody goes on.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(os.path.abspath(target))
        #: The file beside the target, there as long as the lock is held.
        self.path = self.target.parent / f".{self.target.name}.lock"
        self._beside = _hold(self.path, os.fspath(target), make=True)
        self._own: int | None = None
        _holders.add(self)
        try:
            _tell(self._beside)
            self._own = _hold(self.target, os.fspath(target))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others write. Safe to call twice."""
        own, beside, self._own, self._beside = self._own, self._beside, None, None
        if own is not None:
            os.close(own)
        if beside is not None:
            # as long as it is held nobody else has made one of that name
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            os.close(beside)

    def __enter__(self) -> TargetLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_beside", None) is not None:
            self.release()

    def _forget(self) -> None:
        """Let go of what a child process got of it: the lock is its parent's."""
        for descriptor in (self._own, self._beside):
            if descriptor is not None:
                os.close(descriptor)
        self._own = self._beside = None


class PathLock:
    """The right to alter what is at a path, a file or a directory, until it is released.

    Raises `UsageError` where another one holds it, which says who; `OSError` where nothing is there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._own = _hold(Path(os.path.realpath(path)), os.fspath(path))
        _holders.add(self)
        if self._own is None and not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))

    def release(self) -> None:
        """Let others write. Safe to call twice."""
        own, self._own = self._own, None
        if own is not None:
            os.close(own)

    _forget = release

    def __del__(self) -> None:
        if getattr(self, "_own", None) is not None:
            self.release()


#: All locks of this process. A child that is forked off gets their open files, and would hold them for good.
_holders: weakref.WeakSet[Any] = weakref.WeakSet()


def _forget_all() -> None:
    for holder in list(_holders):
        holder._forget()


os.register_at_fork(after_in_child=_forget_all)


def _hold(path: Path, name: str, *, make: bool = False) -> int | None:
    """Lock what is at a path, as an open file of it; None where there is nothing to lock. `name`: what is told of."""
    while True:
        descriptor = _opened(path, name, make=make)
        if descriptor is None:
            return None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _HELD:
                    raise UsageError(_refusal(name, descriptor, told=make)) from None
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _opened(path: Path, name: str, *, make: bool) -> int | None:
    """Open a path for its lock: `make` makes a file of that name; None for what is not there, or has no lock."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    if make:
        try:
            return os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError as error:
            if path.is_file():  # of another user's process, which has ended or will be told of
                return os.open(path, flags | os.O_RDONLY)
            raise _no_room(path, name, error) from None
        except OSError as error:
            if error.errno in (errno.EROFS, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR):
                raise _no_room(path, name, error) from None
            raise
    try:
        kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            return None
        try:
            # some file systems lock only what is open for writing
            return os.open(path, flags | (os.O_RDONLY if stat.S_ISDIR(kind) else os.O_RDWR))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY):
                raise
            return os.open(path, flags | os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def _no_room(path: Path, name: str, error: OSError) -> UsageError:
    """Return that a lock cannot be made, in one sentence."""
    if error.errno == errno.ENAMETOOLONG:
        return UsageError(f"cannot write {name}: its name is too long for the names beside it that a writer needs")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return UsageError(f"cannot write {name}: there is no directory {path.parent}")
    return UsageError(
        f"cannot write {name}: a result is made beside its name, and {path.parent} takes no new file "
        f"({error.strerror}): name a target in another directory"
    )


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _tell(descriptor: int | None) -> None:
    """Write who holds a lock into its file."""
    if descriptor is None:
        return
    words = {
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "command": _in_words([_program(), *sys.argv[1:]]),
        "since": time.strftime(f"{_DAY}T%H:%M:%S"),
    }
    with contextlib.suppress(OSError):  # one that may only be read, or a full disk: others are told less
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(words).encode(), 0)


def _program() -> str:
    """Return the name of this program as it was called."""
    called = Path(sys.argv[0] or "python")
    return "mrec" if called.parts[-2:] == ("cli", "__main__.py") else called.name


def _refusal(name: str, descriptor: int, *, told: bool) -> str:
    """Return why nobody else may write: who holds the lock of an open file, as far as that can be told."""
    pid, doing = _locking_process(os.fstat(descriptor))
    if pid == os.getpid():
        return f"{name} is being {doing} by this process already: complete that first, or name another target"
    holder = (_told_by(descriptor, pid) if told else None) or _seen(pid)
    return f"{name} is being {doing} by {holder}: wait for it, or name another target"


def _told_by(descriptor: int, pid: int | None) -> str | None:
    """Return who holds a lock by what its file says; None where that is not of the process that is known to hold it."""
    try:
        words = json.loads(os.pread(descriptor, 2**16, 0))
        told, host, command = int(words["pid"]), str(words["host"]), str(words["command"])
        day, _, clock = str(words["since"]).partition("T")
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if pid is not None and pid != told:
        return None
    since = clock if day == time.strftime(_DAY) else f"{day} {clock}"
    return f"process {told} on {host} ({command}, since {since})"


def _seen(pid: int | None) -> str:
    """Return a process in words, by what the system says of it."""
    if pid is None:
        return "another process"
    command, who = _command_of(pid), f"process {pid} on {os.uname().nodename}"
    return f"{who} ({command})" if command else who


def _locking_process(status: os.stat_result) -> tuple[int | None, str]:
    """Return the process that has locked a file by the system's list, None where that does not tell, and what for."""
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5] == wanted and words[4].isdigit():
                return int(words[4]) or None, "read" if words[3] == "READ" else "written"
    return None, "written"


def _command_of(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0")
    except OSError:
        return ""
    words = [word.decode(errors="replace") for word in raw.split(b"\0")]
    return _in_words([os.path.basename(words[0]), *words[1:]])


def _in_words(command: list[str]) -> str:
    """Return a command as one line of plain text."""
    text = "".join(letter if letter.isprintable() else "?" for letter in shlex.join(command))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
