"""The tree of a stored record, and the list of its files, as text.

It shows what lies in the store (attributes, dtypes, shapes, leading values, chunks, codecs), knows no section by its
meaning, and shows content it does not know like any other. Source: the tree notation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from molrec_convert.errors import MolrecError, UsageError
from molrec_convert.inspect.tree.nodes import Node, children_of, read_node, read_root, shown_name
from molrec_convert.inspect.tree.order import ordered
from molrec_convert.inspect.tree.text import (
    SHOWN,
    WIDTH,
    dtype_text,
    fitting_values,
    json_lines,
    plain,
    row_fits,
    scalar_text,
    zarr_text,
)
from molrec_convert.stores.zarr.v3.storage import Storage
from molrec_convert.stores.zarr.v3.zip_storage import open_storage

__all__ = ["file_lines", "tree_lines"]

_BRANCH, _ATTRIBUTE = " \\-- ", " +-- "
_MORE, _LAST = " |   ", "     "
_FILE_WIDTH = 44


def tree_lines(
    path: str | os.PathLike[str], sections: Sequence[str] = (), *, zarr: bool = True, name: str | None = None
) -> Iterator[str]:
    """The tree of a record in a directory or a packed file, line by line.

    `sections` restricts it to some children of the root, `zarr=False` leaves out how arrays are stored. The first
    line bears `name`, by default the last part of the path.
    """
    storage = open_storage(path)
    try:
        root = read_root(storage)
        missing = [section for section in sections if section not in root.folders]
        if missing:
            known = ", ".join(ordered(root, root.folders)) or "none"
            raise UsageError(f"{storage.path} has no section {missing[0]!r}; it has {known}")
        yield f"{plain(name or shown_name(storage.path))}/"
        yield from _Printer(storage, zarr).body(root, "", tuple(sections))
    finally:
        storage.close()


def file_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """The files of a stored record, sorted by name, each with what it is."""
    storage = open_storage(path)
    try:
        read_root(storage)
        kinds: dict[str, str | None] = {}
        for key in storage.keys(""):
            yield f"  {plain(key).ljust(_FILE_WIDTH - 2)}  {_file_kind(storage, key, kinds)}"
    finally:
        storage.close()


def _file_kind(storage: Storage, key: str, kinds: dict[str, str | None]) -> str:
    folder, _, name = key.rpartition("/")
    if name == "zarr.json":
        kind = _kind(storage, folder, kinds)
        return f"{kind} metadata" if kind else "unreadable metadata"
    parts = key.split("/")
    for depth in range(len(parts) - 1, 0, -1):
        if _kind(storage, "/".join(parts[:depth]), kinds) == "array":
            below = parts[depth:]
            return "chunk " + "/".join(below[1:] if below[0] == "c" and len(below) > 1 else below)
    return "plain file"


def _kind(storage: Storage, folder: str, kinds: dict[str, str | None]) -> str | None:
    if folder not in kinds:
        kinds[folder] = read_node(storage, folder).kind
    return kinds[folder]


class _Printer:
    """Writes nodes, and reads the values it shows."""

    def __init__(self, storage: Storage, zarr: bool) -> None:
        self.storage = storage
        self.zarr = zarr

    def body(self, node: Node, prefix: str, only: Sequence[str] = ()) -> Iterator[str]:
        """Attributes and children of a group; `only` picks some children."""
        children = {child.name: child for child in children_of(self.storage, node) if not only or child.name in only}
        names = ordered(node, children)
        files = [] if only else sorted(node.files)
        if not only:
            yield from self._attributes(node, prefix, followed=bool(names or files))
        for position, name in enumerate(names):
            below = prefix + (_MORE if position < len(names) - 1 or files else _LAST)
            yield from self._child(children[name], prefix + _BRANCH + plain(name), below)
        for name in files:
            yield f"{prefix}{_BRANCH}{plain(name)}    (a plain file, not a Zarr node)"

    def _attributes(self, node: Node, prefix: str, *, followed: bool) -> Iterator[str]:
        remaining = len(node.attributes)
        for key, value in node.attributes.items():
            remaining -= 1
            continuation = f"{prefix} |    " if remaining or followed else f"{prefix}      "
            yield from json_lines(f"{prefix}{_ATTRIBUTE}{plain(key)}: ", value, continuation)

    def _child(self, node: Node, head: str, below: str) -> Iterator[str]:
        if node.kind == "array":
            yield from self._array(node, head, below)
            return
        note = f"    ({node.fault})" if node.fault else "" if node.kind else "    (a plain folder, not a Zarr node)"
        yield f"{head}/{note}"
        yield from self.body(node, below)

    def _array(self, node: Node, head: str, below: str) -> Iterator[str]:
        shape = node.document.get("shape")
        axes = shape if isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape) else None
        brackets = "".join(f"[{n}]" for n in axes) if axes else "[]" if axes is not None else "[?]"
        head = f"{head}: {dtype_text(node.document.get('data_type'))}{brackets} ="
        inner = f"{below} "
        if axes is not None and len(axes) > 1:
            yield head
            yield inner + self._values(node, tuple(axes), WIDTH - len(inner))
        else:
            yield f"{head} {self._values(node, tuple(axes or ()), WIDTH - len(head) - 1) if axes is not None else '?'}"
        if self.zarr:
            yield f"{inner}zarr: {zarr_text(node.document)}"
        yield from self._attributes(node, below, followed=False)

    def _values(self, node: Node, shape: tuple[int, ...], room: int) -> str:
        if shape and not row_fits(shape[1:], room):
            return "[…]"
        try:
            if not shape:
                return scalar_text(self._read(node.key, None))
            return fitting_values(self._read(node.key, min(SHOWN, shape[0])), shape[0], room)
        except (MolrecError, OSError, ValueError, MemoryError, OverflowError) as error:
            return f"? ({str(error) or 'too large to read'})"

    def _read(self, key: str, rows: int | None) -> Any:
        from molrec_convert.stores.zarr.v3.array_reader import ArrayReader

        reader = ArrayReader(self.storage, key)
        return reader.read(0, 1).tolist() if rows is None else reader.read(0, rows).tolist()
