"""What a writer has changed since its last commit, and the order in which that reaches the disk."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from molrec_convert.files.disk import remove, replace_file, sync, sync_all, temporary_path

__all__ = [
    "ARRAYS",
    "ASIDE",
    "COUNT",
    "GROUPS",
    "INDEX_HOLDS",
    "INDEX_OFFSETS",
    "LATE_ARRAYS",
    "Unsynced",
    "clean_record",
    "make_folder",
    "remove_group",
    "restore_settled",
    "set_aside",
]

#: Ranks of documents: those of one rank are on the disk before one of the next is seen. Row offsets, then frames of
#: updates, of an index that takes the place of markers; arrays; the array a reader goes by where others are new with
#: it; groups; the document that counts frames.
INDEX_OFFSETS, INDEX_HOLDS, ARRAYS, LATE_ARRAYS, GROUPS, COUNT = range(6)


class Index(Protocol):
    """The index of a shard, as a commit writes it."""

    path: str

    @property
    def replaces(self) -> bool:
        """True if it says of a chunk that an earlier commit counts that it lies elsewhere now."""

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


_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")
#: Where the groups of blocks that settle wait until the declaration no longer names them: no node may have the name.
ASIDE = "__settled"


def clean_record(root: Path, unsynced: Unsynced) -> None:
    """Remove temporary files and folders, and consolidated metadata, which would go stale with the next append."""
    for folder, folders, files in os.walk(root):
        # a folder that is a node is no temporary one, whatever its name
        nodes = {name for name in folders if os.path.isfile(os.path.join(folder, name, "zarr.json"))}
        for name in filter(_TEMPORARY.fullmatch, [*files, *folders]):
            if name not in nodes:
                remove(os.path.join(folder, name))
                unsynced.folder(folder)
        folders[:] = [name for name in folders if name in nodes or not _TEMPORARY.fullmatch(name)]
        if "zarr.json" in files:
            _drop_consolidated(os.path.join(folder, "zarr.json"))


def _drop_consolidated(path: str) -> None:
    with open(path, "rb") as file:
        raw = file.read()
    if b"consolidated_metadata" not in raw:
        return
    with contextlib.suppress(ValueError):
        document: Any = json.loads(raw)
        if isinstance(document, dict) and "consolidated_metadata" in document:
            del document["consolidated_metadata"]
            replace_file(path, json.dumps(document, ensure_ascii=False, indent=2).encode())


def remove_group(path: Path, unsynced: Unsynced) -> None:
    """Remove a folder with all that is in it."""
    if path.is_dir():
        remove(path)
        unsynced.forget([os.fspath(path)])
        unsynced.folder(os.fspath(path.parent))


def set_aside(section: Path, name: str, unsynced: Unsynced) -> Path:
    """Move a block's group to where no reader sees it, from which it can still be brought back."""
    aside = section / ASIDE
    aside.mkdir(exist_ok=True)
    target = aside / name
    remove_group(target, unsynced)
    os.rename(section / name, target)
    unsynced.forget([os.fspath(section / name)])
    unsynced.folder(os.fspath(section))
    unsynced.folder(os.fspath(aside))
    return aside


def restore_settled(section: Path, declared: set[str], unsynced: Unsynced) -> None:
    """After an interruption: bring back the groups of blocks that are still declared, remove the others."""
    aside = section / ASIDE
    if not aside.is_dir():
        return
    for entry in list(aside.iterdir()):
        if entry.name in declared and not (section / entry.name).exists():
            os.rename(entry, section / entry.name)
    sync(section)
    remove_group(aside, unsynced)
