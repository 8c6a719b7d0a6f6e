"""What a writer has changed since the last durable flush, and bringing it to the disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from molrec_convert.disk import replace_file, sync_all

__all__ = ["Unsynced", "make_folder"]


class Unsynced:
    """Files and folders that a durable flush has to bring to the disk.

    `promised`: whether there has been one, so that what it brought there has to survive whatever is written later.
    """

    def __init__(self, *, promised: bool = True) -> None:
        self.files: dict[str, None] = {}
        self.folders: dict[str, None] = {}
        self.promised = promised

    def replace(self, path: str, data: bytes) -> None:
        """Write a file that appears whole, or takes an older one's place, in one step."""
        replace_file(path, data, durable=False, promised=self.promised)
        self.file(path)

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
        """Have everything reach the disk: files, and the folders that name them."""
        self.promised = True
        sync_all([*self.files, *self.folders])
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
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    unsynced.folder(parent or ".")
