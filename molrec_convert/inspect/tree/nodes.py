"""The nodes of a store as they lie there: a small walker over `zarr.json` files, tolerant of everything it meets.

It knows no section and refuses nothing: a node whose metadata cannot be read says so in `fault`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from molrec_convert.errors import FormatError, MolrecError
from molrec_convert.stores.zarr.v3.metadata import parse_document
from molrec_convert.stores.zarr.v3.storage import Storage, read_metadata

__all__ = ["Node", "children_of", "ordered", "read_node", "read_root", "shown_name", "walk"]

#: Folders nested deeper than this are not looked into; a record has five levels.
MAX_DEPTH = 32


@dataclass(frozen=True)
class Node:
    """One folder of a store: its key ("" is the root), its `zarr.json`, and what it holds.

    `kind` is `"group"`, `"array"`, or None for a folder without readable metadata (`fault` says why; None when there
    is no `zarr.json` at all). `folders` and `files` are names directly below, of an array none.
    """

    key: str
    kind: str | None
    document: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def depth(self) -> int:
        """Number of parts of the key."""
        return self.key.count("/") + 1 if self.key else 0

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes, without the cache some readers leave behind."""
        attributes = self.document.get("attributes", {})
        return {key: value for key, value in attributes.items() if key != "_zarrs"}

    def child(self, name: str) -> str:
        """Return the key of a child."""
        return f"{self.key}/{name}" if self.key else name


def read_node(storage: Storage, key: str) -> Node:
    """Return the node at `key`, whatever lies there."""
    try:
        raw = read_metadata(storage, key)
    except (MolrecError, OSError, ValueError) as error:
        return Node(key, None, fault=str(error))
    document: dict[str, Any] = {}
    kind = fault = None
    if raw is not None:
        try:
            document = parse_document(raw, key or "the root")
            kind = str(document["node_type"])
        except MolrecError as error:
            fault = str(error)
    folders: list[str] = []
    files: list[str] = []
    if kind != "array":
        try:
            folders, files = storage.children(key)
        except MolrecError as error:
            fault = fault or str(error)
        except OSError as error:
            fault = fault or f"the folder cannot be listed: {error.strerror or error}"
    return Node(key, kind, document, fault, tuple(folders), tuple(name for name in files if name != "zarr.json"))


def read_root(storage: Storage) -> Node:
    """Return the root group; `FormatError` for what is no record."""
    root = read_node(storage, "")
    if root.kind != "group":
        what = root.fault or ("a Zarr array" if root.kind else "no zarr.json")
        raise FormatError(storage.path, found=what, expected="a MolRec record, whose root is a Zarr V3 group")
    return root


def shown_name(path: Path) -> str:
    """Return what a record at a path is called."""
    return path.name if path.name not in ("", "..") else path.resolve().name


def children_of(storage: Storage, node: Node) -> list[Node]:
    """Return the child nodes of a node, in the order of their names. A link that leads back up is a node with a
    fault.
    """
    return [_child(storage, node, name) for name in node.folders]


def walk(storage: Storage, node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, parents first. The folders below an array are its chunks and no nodes."""
    yield node
    for child in children_of(storage, node):
        yield from walk(storage, child)


def _child(storage: Storage, parent: Node, name: str) -> Node:
    key = parent.child(name)
    if parent.depth >= MAX_DEPTH:
        return Node(key, None, fault=f"nested deeper than {MAX_DEPTH} levels, not looked into")
    if _leads_back(storage, key):
        return Node(key, None, fault="a link leads back to a folder above it")
    return read_node(storage, key)


def _leads_back(storage: Storage, key: str) -> bool:
    """True if a folder of a directory is one of the folders above it: only links make that."""
    if not storage.path.is_dir():
        return False
    above = set()
    here = storage.path
    try:
        for part in key.split("/"):
            status = os.stat(here)
            above.add((status.st_dev, status.st_ino))
            here = here / part
        status = os.stat(here)
    except (OSError, ValueError):
        return False
    return (status.st_dev, status.st_ino) in above


ROOT = ("meta", "system", "frame", "trajectory", "forcefield", "observables", "method", "status", "metrics")
BLOCKS = ("atoms", "bonds", "angles", "dihedrals", "impropers")
TRAJECTORY = ("meta", "step", "time")
BOX = ("step_index", "vectors", "origin", "boundary")
COLUMNS = ("step_index", "offset")
TABLE_COLUMNS = ("name", "itom", "jtom", "ktom", "ltom", "mtom")
METRICS = ("series", "steps", "wall_time")


def ordered(node: Node, names: Iterable[str]) -> list[str]:
    """Return the names of a node's children in the order they are shown: some first, the others sorted, some last."""
    first, last = _ends(node)
    rank = {name: position for position, name in enumerate(first)}
    tail = {name: position for position, name in enumerate(last)}

    def key(name: str) -> tuple[int, int, str]:
        if name in tail:
            return 2, tail[name], ""
        return (0, rank[name], "") if name in rank else (1, 0, name)

    return sorted(names, key=key)


def _ends(node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parts = node.key.split("/") if node.key else []
    if not parts:
        return ROOT, ()
    section = parts[0]
    if len(parts) == 1:
        if section in ("frame", "system"):
            return BLOCKS, ("box",)
        if section == "trajectory":
            return (*TRAJECTORY, *_declared(node)), ("box",)
        return {"observables": ("meta",), "metrics": METRICS}.get(section, ()), ()
    if len(parts) == 2 and section in ("frame", "system", "trajectory", "forcefield"):
        if parts[1] == "box":
            return BOX, ()
        return TABLE_COLUMNS if section == "forcefield" else COLUMNS, ("_validity",)
    return (), ()


def _declared(node: Node) -> list[str]:
    schema = node.attributes.get("sequence_schema")
    blocks = schema.get("blocks") if isinstance(schema, dict) else None
    return [name for name in blocks if name not in (*TRAJECTORY, "box")] if isinstance(blocks, dict) else []
