"""What a writer has changed since the last durable flush, and bringing it to the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable

from molrec_convert.stores.zarr.storage import sync_folder

__all__ = ["Unsynced", "make_folder"]


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
        for path in self.files:
            _sync_file(path)
        for path in self.folders:
            _sync_folder(path)
        self.files.clear()
        self.folders.clear()

    def forget(self, prefixes: Iterable[str]) -> None:
        """Drop what lies below folders that were removed."""
        for prefix in prefixes:
            for known in (self.files, self.folders):
                for path in [path for path in known if path == prefix or path.startswith(prefix + os.sep)]:
                    del known[path]


def make_folder(path: str, unsynced: Unsynced) -> None:
    """Make a folder and those above it that are missing."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent:
        make_folder(parent, unsynced)
    os.mkdir(path)
    unsynced.folder(parent or ".")


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: str) -> None:
    sync_folder(path)
