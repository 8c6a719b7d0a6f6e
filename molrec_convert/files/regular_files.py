"""Input files as they are on disk: only regular ones are read, and none for more than is stored.

Opening a pipe waits for whoever writes to it, a device never ends, and a sparse file claims bytes that nobody wrote.
"""

from __future__ import annotations

import os
import stat

from molrec_convert.errors import FormatError

__all__ = ["check_regular", "implausible", "kind_of", "open_regular", "pread_all", "stored_bytes"]

#: A size beyond the first is believed where this many times less is stored: a file system that compresses stores less
#: than a file's size, too.
_SPARSE, _PLAUSIBLE = 2**26, 50
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


def open_regular(path: str | os.PathLike[str]) -> int:
    """Return a descriptor of a regular file, open for reading.

    Raises `FormatError` for anything else, which is not waited for, and `OSError` for what cannot be opened.
    """
    # a socket cannot be opened at all, which the system tells less clearly
    check_regular(path, os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Raise `FormatError` where a path's status is that of a pipe, a socket, a device or a directory."""
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(path, found=kind_of(status), expected="a regular file")


def kind_of(status: os.stat_result) -> str:
    """Return what something that is no regular file is, in words."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "a special file")


def stored_bytes(status: os.stat_result) -> int:
    """Return the bytes of a file that take room on the disk: fewer than its size where it is a sparse one."""
    return status.st_blocks * 512


def implausible(size: int, stored: int) -> bool:
    """True if `size` bytes cannot be the content of a file of which `stored` bytes take room on the disk."""
    return size > _SPARSE and size > stored * _PLAUSIBLE


def pread_all(descriptor: int, length: int, start: int) -> bytes:
    """Return up to `length` bytes from `start` on; fewer where the file ends. One call of the system gives 2 GiB."""
    data = os.pread(descriptor, length, start)
    if len(data) == length or not data:
        return data
    pieces = [data]
    done = len(data)
    while done < length and (data := os.pread(descriptor, length - done, start + done)):
        pieces.append(data)
        done += len(data)
    return b"".join(pieces)
