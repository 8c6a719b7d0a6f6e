"""What a store holds that this version has no model for: whole files, told apart by the nodes it does know.

Known are the metadata and chunk files of the groups and arrays that a record's sections consist of. Everything else
is carried: sections of later versions, groups and arrays nobody declared, plain files.
Source: Record, "Root and sections".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.model.record import UnknownContent
from molrec_convert.report import Report
from molrec_convert.stores.zarr.v3.metadata import other_keys
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage, Storage, read_document, write_document

__all__ = ["KnownNodes", "StoredUnknown", "write_said", "write_unknown"]

#: Files of an array: its metadata, and chunks under either key encoding.
_ARRAY_FILE = re.compile(r"zarr\.json|c(?:[./]\d+)*|\d+(?:[./]\d+)*")
#: A chunk of an array in the default key encoding: the array's key.
_CHUNK = re.compile(r"(.+?)/c/\d+(?:/\d+)*")
_NODE_OF_SECTION = re.compile(r"(system|frame|forcefield|trajectory)/(?:[^/]+/)+zarr\.json")


@dataclass
class KnownNodes:
    """Keys of the nodes, and of the plain files, that the sections of a record consist of ("" is the root)."""

    groups: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)

    def add(self, other: KnownNodes) -> None:
        """Take the nodes of another section."""
        self.groups |= other.groups
        self.arrays |= other.arrays
        self.files |= other.files

    def __contains__(self, key: str) -> bool:
        """True if a file belongs to one of the nodes."""
        if key in self.files:
            return True
        parts = key.split("/")
        if parts[-1] == "zarr.json" and "/".join(parts[:-1]) in self.groups:
            return True
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) in self.arrays:
                return _ARRAY_FILE.fullmatch("/".join(parts[depth:])) is not None
        return False


class StoredUnknown:
    """The unknown content of a store. Known nodes are worked out, and files listed, when first asked for."""

    def __init__(self, storage: Storage, known: Callable[[], KnownNodes]) -> None:
        self._storage, self._known = storage, known
        self._keys: list[str] | None = None

    def keys(self) -> Iterator[str]:
        """See `UnknownContent.keys`."""
        if self._keys is None:
            known, keys = self._known(), list(self._storage.keys())
            unknown = [key for key in keys if key not in known]
            _check_nodes(unknown, {key.removesuffix("/zarr.json") for key in keys if key.endswith("/zarr.json")})
            self._keys = unknown
        return iter(self._keys)

    def said(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield known nodes whose `zarr.json` says more than attributes and what a writer sets, and what that is."""
        known = self._known()
        for node in sorted(known.groups | known.arrays):
            document = read_document(self._storage, node)
            others = {} if document is None else other_keys(document)
            if others:
                yield node, others

    def read(self, key: str) -> bytes:
        """See `UnknownContent.read`."""
        data = self._storage.read(key)
        if data is None:
            raise KeyError(key)
        return data


def _check_nodes(keys: Iterable[str], nodes: set[str]) -> None:
    """Raise ContractError where files belong to a node whose `zarr.json` is gone: they would be carried unread."""
    for key in keys:
        chunk = _CHUNK.fullmatch(key)
        section = _NODE_OF_SECTION.match(key)
        parts = chunk[1].split("/") if chunk else [section[1]] if section else []
        for depth in range(1, len(parts) + 1):
            node = "/".join(parts[:depth])
            if node not in nodes and parts[0] != "metrics":
                raise ContractError(node, "its zarr.json is gone: what lies in the folder is read by nobody")


def write_unknown(content: UnknownContent, root: Path, report: Report, *, replace: bool = False) -> None:
    """Write the files of `content` below `root`, as they are, and what known nodes say in keys of later versions.

    A file that is there already belongs to the record's sections: `ContractError`. With `replace` it is taken for what
    an earlier, interrupted attempt left. Reported as dropped: what is said of nodes that are not there any more, and
    names of dimensions of an array that has others now.
    """
    for key in content.keys():  # noqa: SIM118
        parts = key.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise ContractError(key, "the name of the unknown content is no plain path below the root")
        path = root.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path) and not replace:
            raise ContractError(key, "the record has something of its own where unknown content lies")
        path.write_bytes(content.read(key))
    if isinstance(content, StoredUnknown):
        write_said(content.said(), root, report)


def write_said(said: Iterable[tuple[str, dict[str, Any]]], root: Path, report: Report) -> None:
    """Let nodes below `root` say what `StoredUnknown.said` found; reported as `write_unknown` has it."""
    storage = DirectoryStorage(root)
    for node, others in said:
        document = read_document(storage, node)
        if document is None:
            report.dropped(f"zarr.json of {node}", "the node is not in the target")
            continue
        names = others.get("dimension_names")
        if isinstance(names, list) and len(names) != len(document.get("shape", ())):
            report.dropped(f"dimension_names of {node}", "the array has other dimensions")
            others = {key: value for key, value in others.items() if key != "dimension_names"}
        if others:
            write_document(root / node, {**document, **others}, durable=True)
