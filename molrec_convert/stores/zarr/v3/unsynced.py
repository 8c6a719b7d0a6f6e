"""What a writer has changed since its last commit, and the order in which that reaches the disk.

A commit must not be seen before what it counts is on the disk, whatever a failure of the power leaves of writes that
were not synced: any of their pages, of names any that were there at some time. So chunk bytes come first, where they
take nobody's place; then the indexes of shards, in place; then documents, each a temporary file that is synced and
renamed, rank by rank; last of all the one that counts frames. Source: Zarr V3 binding, "Commit protocol".
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any, Protocol

from molrec_convert.files.disk import sync_all, temporary_path

__all__ = ["ARRAYS", "COUNT", "GROUPS", "INDEX_HOLDS", "INDEX_OFFSETS", "LATE_ARRAYS", "Unsynced", "make_folder"]

#: Ranks of documents: those of one rank are on the disk before one of the next is seen. Row offsets, then frames of
#: updates, of an index that takes the place of markers; arrays; the array a reader goes by where others are new with
#: it; groups; the document that counts frames.
INDEX_OFFSETS, INDEX_HOLDS, ARRAYS, LATE_ARRAYS, GROUPS, COUNT = range(6)


class Index(Protocol):
    """The index of a shard, as a commit writes it."""

    path: str

    @property
    def replaces(self) -> bool:
        """Whether it says of a chunk that an earlier commit counts that it lies elsewhere now."""

    def write_index(self) -> None:
        """Write what has changed of it, in place."""


class Unsynced:
    """What was changed below one folder since the last commit; `commit` brings it to the disk."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.folders: dict[str, None] = {}
        self._indexes: dict[str, Index] = {}
        self._documents: dict[int, dict[str, bytes]] = {}

    def file(self, path: str) -> None:
        """A file got other bytes."""
        self.files[path] = None

    def folder(self, path: str) -> None:
        """A folder got, lost or replaced an entry."""
        self.folders[path] = None

    def index(self, index: Index) -> None:
        """The index of a shard is to be written."""
        self._indexes[index.path] = index

    def document(self, path: str, data: bytes, rank: int) -> None:
        """A file is to appear whole, or take an older one's place, in one step; its folder is there."""
        self._documents.setdefault(rank, {})[path] = data

    def __bool__(self) -> bool:
        return bool(self.files or self.folders or self._indexes or self._documents)

    def commit(self, *, ranks: bool = True) -> None:
        """Bring everything to the disk, in order; of what is new as a whole the `ranks` before the last are one."""
        if any(index.replaces for index in self._indexes.values()):
            self._sync()
        for index in self._indexes.values():
            index.write_index()
        self._indexes.clear()
        self.replace_documents(ranks=ranks)
        self._sync()

    def replace_documents(self, *, ranks: bool = True) -> None:
        """Have the documents take their places once everything else, and their bytes, are on the disk.

        The names of one rank are there before those of the next, those of the last not yet.
        """
        ordered = [self._documents[rank] for rank in sorted(self._documents)]
        if not ranks and len(ordered) > 2:
            ordered = [{path: data for documents in ordered[:-1] for path, data in documents.items()}, ordered[-1]]
        waiting = {path: temporary_path(path) for documents in ordered for path in documents}
        try:
            for documents in ordered:
                for path, data in documents.items():
                    with open(waiting[path], "wb") as file:
                        file.write(data)
            self._sync(*waiting.values())
            for number, documents in enumerate(ordered):
                if number:
                    self._sync()
                for path in documents:
                    os.replace(waiting.pop(path), path)
                    self.folder(os.path.dirname(path))
        except BaseException:
            for temporary in waiting.values():
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            raise
        self._documents.clear()

    def _sync(self, *more: str) -> None:
        sync_all([*self.files, *self.folders, *more])
        self.files.clear()
        self.folders.clear()

    def forget(self, prefixes: Iterable[str]) -> None:
        """Drop what lies below folders that were removed."""
        every: list[dict[str, Any]] = [self.files, self.folders, self._indexes, *self._documents.values()]
        for prefix in prefixes:
            for known in every:
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
