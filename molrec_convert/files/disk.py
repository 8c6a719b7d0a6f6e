"""Files and folders as they reach the disk: syncing, replacing in one step, swapping names, removing.

A name is only safe when its folder was synced, bytes only when their file was; a rename of bytes that are not on the
disk may leave a name with neither the old nor the new ones after a failure of the power.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

__all__ = [
    "hidden",
    "name_in",
    "remove",
    "replace_file",
    "settle_place",
    "swap",
    "sync",
    "sync_all",
    "sync_tree",
    "take_place",
    "temporary_path",
    "write_all",
]

PathLike = str | os.PathLike[str]

_AT_ONCE = 8
_IOVECS = 1024
_EXCHANGE = 2
_AT_FDCWD = -100


def sync(path: PathLike) -> None:
    """Have the bytes of a file, or the names in a folder, reach the disk."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Sequence[PathLike]) -> None:
    """Sync several paths side by side: each waits for the disk, which takes them together."""
    if len(paths) < 2:
        for path in paths:
            sync(path)
        return
    for _ in _threads().map(sync, paths):
        pass


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE)


# a child process has none of its parent's threads
os.register_at_fork(after_in_child=_threads.cache_clear)


def sync_tree(path: PathLike) -> None:
    """Have everything below a folder, or the bytes of a file, reach the disk, and its own name."""
    files, folders = _below(path)
    sync_all(files)
    sync_all(folders)
    sync(os.path.dirname(os.path.abspath(path)))


def _below(path: PathLike) -> tuple[list[str], list[str]]:
    """Return the files and the folders at and below a path; links and what is neither are left out."""
    if not os.path.isdir(path):
        return [os.fspath(path)], []
    files: list[str] = []
    folders = [os.fspath(path)]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.path)
    return files, folders


def name_in(error: BaseException | None, path: PathLike) -> None:
    """Have an error of the system that names no file, as those of writes and syncs, name this one."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = os.fspath(path)


def write_all(descriptor: int, pieces: Iterable[bytes | memoryview], offset: int) -> None:
    """Write pieces of bytes one behind the other at an offset of a file, however many calls it takes.

    One call takes at most `IOV_MAX` pieces and 2 GiB, and any may take less than it was given. Raises `OSError` where
    the system refuses, or takes nothing at all.
    """
    left = [piece for piece in pieces if len(piece)]
    first = 0
    while first < len(left):
        done = os.pwritev(descriptor, left[first : first + _IOVECS], offset)
        if not done:
            raise OSError(errno.EIO, "the system took none of the bytes it was given to write")
        offset += done
        while first < len(left) and done >= len(left[first]):
            done -= len(left[first])
            first += 1
        if done:
            left[first] = left[first][done:]


def temporary_path(path: PathLike) -> str:
    """Return the name a file has while it is written, before it takes that of `path`: hidden, beside it."""
    folder, name = os.path.split(os.fspath(path))
    return os.path.join(folder, f"{name if name.startswith('.') else f'.{name}'}.{os.getpid()}.tmp")


def replace_file(path: PathLike, data: bytes | memoryview | Iterator[bytes], *, durable: bool = True) -> None:
    """Write a file so that its name holds the old bytes or the new ones, never a part: a temporary file, renamed.

    `data` are the bytes, or pieces that are made as they are written. With `durable` they and the rename have reached
    the disk when this returns; without it a failure of the power may leave neither the old nor the new bytes.
    """
    temporary = temporary_path(path)
    try:
        with open(temporary, "wb") as file:
            if isinstance(data, Iterator):
                file.writelines(data)
            else:
                file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        sync(os.path.dirname(path))


def hidden(target: Path, kind: str) -> Path:
    """Return the name beside a target under which a part of the work on it lies: `.NAME.KIND`."""
    return target.parent / f".{target.name}.{kind}"


def take_place(made: Path, target: Path) -> None:
    """Give what is made beside a target, and has reached the disk, the target's name; what had it is removed.

    The name holds the old or the new at any moment, and is on the disk when this returns. Where a directory takes part
    and the system cannot swap names, the old one has a hidden name for a moment, from which `settle_place` takes it.
    """
    apart = (target.is_dir() and not target.is_symlink()) or (made.is_dir() and os.path.lexists(target))
    if not apart:
        os.replace(made, target)
        sync(target.parent)
        return
    new, old = hidden(target, "new"), hidden(target, "replaced")
    remove(new)
    # what is swapped in has a name that nobody goes on from: the old one has it in a moment
    os.rename(made, new)
    if swap(new, target):
        old = new
    else:
        remove(old)
        os.rename(target, old)
        os.rename(new, target)
    sync(target.parent)
    try:
        remove(old)
    except KeyboardInterrupt:
        remove(old)  # the new one stands: there is nothing to interrupt any more


def settle_place(target: Path) -> None:
    """End what `take_place` was interrupted in: a target without its name gets that back, and no hidden one stays."""
    old = hidden(target, "replaced")
    if not os.path.lexists(target) and os.path.lexists(old):
        os.rename(old, target)
        sync(target.parent)
    for left in (old, hidden(target, "new")):
        remove(left)


def swap(a: PathLike, b: PathLike) -> bool:
    """Swap two names in one step; False where the system cannot. OSError: one of them is not there, for instance."""
    call = _renameat2()
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(code, os.strerror(code), os.fspath(b))
    return False


@functools.cache
def _renameat2() -> Any:
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None


def remove(path: PathLike) -> None:
    """Remove a file, a link, or a folder with all that is in it; nothing where there is none."""
    if os.path.isdir(path) and not os.path.islink(path):
        try:
            shutil.rmtree(path)
        except OSError as error:  # which names a file by its last name only
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
