"""A clean store to go on from: what an interrupted writer left behind.

Source: Zarr V3 binding, "Commit protocol", "Reopen".
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

from molrec_convert.files.disk import remove, replace_file, sync
from molrec_convert.stores.zarr.v3.unsynced import Unsynced

__all__ = ["ASIDE", "clean_record", "remove_group", "restore_settled", "set_aside"]

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
