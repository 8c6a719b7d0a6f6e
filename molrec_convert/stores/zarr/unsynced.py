"""What a writer has changed since the last durable flush, and bringing it to the disk."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from molrec_convert.stores.zarr.storage import sync_folder

__all__ = ["Unsynced", "make_folder", "start_writeback"]

_AT_ONCE = 8
#: Flag of sync_file_range(2): begin to write, wait for nothing.
_WRITE = 2


class Unsynced:
    """Files and folders that a durable flush has to bring to the disk."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.folders: dict[str, None] = {}

    def file(self, path: str) -> None:
        """A file got other bytes, or was made or replaced: its folder counts as well."""
        self.files[path] = None
        self.folder(os.path.dirname(path))

    def folder(self, path: str) -> None:
        """A folder got, lost or replaced an entry."""
        self.folders[path] = None

    def __bool__(self) -> bool:
        return bool(self.files or self.folders)

    def sync(self) -> None:
        """Have everything reach the disk: files first, then the folders that name them."""
        _at_once(_sync_file, list(self.files))
        _at_once(sync_folder, list(self.folders))
        self.files.clear()
        self.folders.clear()

    def forget(self, prefixes: Iterable[str]) -> None:
        """Drop what lies below folders that were removed."""
        for prefix in prefixes:
            for known in (self.files, self.folders):
                for path in [path for path in known if path == prefix or path.startswith(prefix + os.sep)]:
                    del known[path]


def start_writeback(descriptor: int, offset: int, length: int) -> None:
    """Have the system begin to write a part of a file, so that a later sync finds most of it on the disk.

    A hint: it waits for nothing, promises nothing, and does nothing where the system has no such call.
    """
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, length, _WRITE)


@lru_cache(maxsize=1)
def _sync_file_range() -> Any:
    call = getattr(ctypes.CDLL(None), "sync_file_range", None) if os.name == "posix" else None
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


def make_folder(path: str, unsynced: Unsynced) -> None:
    """Make a folder and those above it that are missing."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent:
        make_folder(parent, unsynced)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    unsynced.folder(parent or ".")


def _at_once(sync: Callable[[str], None], paths: list[str]) -> None:
    """Sync several paths side by side: each waits for the disk, which takes them together."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(sync, paths):
            pass


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
