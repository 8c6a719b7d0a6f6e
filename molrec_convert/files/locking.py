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
from typing import Self

from molrec_convert.errors import UsageError
from molrec_convert.files.disk import hidden, settle_place

__all__ = ["PathLock", "TargetLock"]

#: What the system says of a lock that another one holds; anything else means that there are no locks here.
_HELD = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
#: So much of a command is told.
_LONGEST = 200
_DAY = "%Y-%m-%d"
_OTHERWISE = "wait for it, or name another target"


class _Lock:
    """Open files that are locked, until they are released; a context manager. Those of a child are its parent's."""

    def __init__(self) -> None:
        self._held: list[int] = []
        _locks.add(self)

    def release(self) -> None:
        """Let others write. Safe to call twice."""
        while self._held:
            os.close(self._held.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()

    def _hold(self, path: Path, name: str, how: int, remedy: str, *, make: bool = False) -> None:
        """Lock what is at a path, where there is something that can be locked. `name`: what is told of."""
        while True:
            descriptor = _opened(path, name, make=make)
            if descriptor is None:
                return
            self._held.append(descriptor)
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _HELD:
                    raise UsageError(_refusal(name, descriptor, remedy, told=make)) from None
            if _is_at(descriptor, path):
                return
            os.close(self._held.pop())


class TargetLock(_Lock):
    """The right to write under the name `target`, until it is released: for files and directories of every kind.

    Held from the moment it is made; a context manager. The lock of a process that has ended is none, and a target that
    it left without its name gets that back. On a file system without locks everybody goes on. Raises `UsageError` where
    another one holds it, which says who, `OSError` where no file can be made beside the target.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        super().__init__()
        self.target = Path(os.path.abspath(target))
        #: The file beside the target, there as long as the lock is held.
        self.path = hidden(self.target, "lock")
        self._made = False
        name = os.fspath(target)
        try:
            self._hold(self.path, name, fcntl.LOCK_EX, _OTHERWISE, make=True)
            self._made = True
            _tell(self._held[0])
            settle_place(self.target)
            self._hold(self.target, name, fcntl.LOCK_EX, _OTHERWISE)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others write. Safe to call twice."""
        for descriptor in self._held[1:]:
            os.close(descriptor)
        del self._held[1:]
        if self._held and self._made:
            # as long as it is held nobody else has made one of that name
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        super().release()


class PathLock(_Lock):
    """The right to alter what is at a path, a file or a directory, until it is released; a context manager.

    With `reading` only the right that nobody alters it meanwhile. Raises `UsageError` where another one holds it, which
    says who; `OSError` where nothing is there.
    """

    def __init__(self, path: str | os.PathLike[str], *, reading: bool = False) -> None:
        super().__init__()
        os.stat(path)
        how = fcntl.LOCK_SH if reading else fcntl.LOCK_EX
        try:
            self._hold(Path(os.path.realpath(path)), os.fspath(path), how, "wait for it")
        except BaseException:
            self.release()
            raise


#: All locks of this process. A child that is forked off gets their open files, and would hold them for good.
_locks: weakref.WeakSet[_Lock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_locks):
        _Lock.release(lock)


os.register_at_fork(after_in_child=_forget_all)


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


def _no_room(path: Path, name: str, error: OSError) -> UsageError | OSError:
    """Return that a lock cannot be made, in one sentence."""
    if error.errno == errno.ENAMETOOLONG:
        return UsageError(f"cannot write {name}: its name is too long for the names beside it that a writer needs")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return UsageError(f"cannot write {name}: there is no directory {path.parent}")
    reason = f"the folder takes no new file, and a result is made beside its name ({error.strerror})"
    return OSError(error.errno, reason, os.fspath(path.parent))


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _tell(descriptor: int) -> None:
    """Write who holds a lock into its file."""
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


def _refusal(name: str, descriptor: int, remedy: str, *, told: bool) -> str:
    """Return why nobody else may write: who holds the lock of an open file, as far as that can be told."""
    pid, doing = _locking_process(os.fstat(descriptor))
    if pid == os.getpid():
        return (
            f"{name} is being {doing} by this process already: {remedy.replace('wait for it', 'complete that first')}"
        )
    holder = (_told_by(descriptor, pid) if told else None) or _seen(pid)
    return f"{name} is being {doing} by {holder}: {remedy}"


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
