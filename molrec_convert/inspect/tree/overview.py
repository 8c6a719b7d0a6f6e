"""The overview of a record: each root group with its kind, its attribute keys and its children.

Source: the tree notation, rule 9.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from molrec_convert.inspect.tree.nodes import Node, children_of, read_root, shown_name
from molrec_convert.inspect.tree.order import ordered
from molrec_convert.inspect.tree.text import WIDTH, json_lines, plain
from molrec_convert.stores.zarr.v3.zip_storage import open_storage

__all__ = ["overview_lines"]

KINDS = {
    "meta": "document",
    "system": "frame-shaped",
    "frame": "frame-shaped",
    "trajectory": "sequence",
    "forcefield": "frame-shaped",
    "observables": "array section",
    "method": "document",
    "status": "document",
    "metrics": "catalog + series",
}
#: Columns at which the kind, the label of a list, and the list itself begin.
_KIND, _LABEL, _LIST = 20, 37, 49


def overview_lines(path: str | os.PathLike[str], *, name: str | None = None) -> Iterator[str]:
    """The overview of the record at `path`, a directory or a packed file, line by line.

    `name` is what the first line calls it: the file's own name, if not given. Raises `FormatError` for what is no
    record.
    """
    storage = open_storage(path)
    try:
        root = read_root(storage)
        head = f"{plain(name or shown_name(storage.path))}/"
        yield from json_lines(f"{head:<{_KIND}}the root group; its attributes: ", root.attributes, "     ")
        nodes = {child.name: child for child in children_of(storage, root)}
        names = ordered(root, nodes)
        for position, child in enumerate(names):
            last = position == len(names) - 1 and not root.files
            kinds = {below.name: below.kind for below in children_of(storage, nodes[child])}
            yield from _entry(nodes[child], kinds, "" if last else " |")
        for file in sorted(root.files):
            yield f" \\-- {plain(file)}    (a plain file, not a Zarr node)"
    finally:
        storage.close()


def _entry(node: Node, kinds: dict[str, str | None], bar: str) -> Iterator[str]:
    """The lines of one root group."""
    kind = KINDS.get(node.name, node.kind) if node.kind == "group" else node.kind
    head = f" \\-- {plain(node.name)}{'' if node.kind == 'array' else '/'}"
    head = f"{head:<{_KIND - 1}} {kind or 'plain folder':<{_LABEL - _KIND - 1}} "
    children = [plain(name) if kinds[name] == "array" else f"{plain(name)}/" for name in ordered(node, kinds)]
    lists = [("attributes:", [plain(key) for key in node.attributes]), ("children:", [*children, *sorted(node.files)])]
    shown = [(label, items) for label, items in lists if items]
    if not shown:
        yield head.rstrip()
    for label, items in shown:
        yield from _listing(f"{head}{label:<{_LIST - _LABEL}}", items, bar)
        head = f"{bar:<{_LABEL}}"


def _listing(head: str, items: Sequence[str], bar: str) -> Iterator[str]:
    """Items behind a label, broken where the line is full; further lines hang under the first item."""
    line = head
    for position, item in enumerate(items):
        text = item if position == len(items) - 1 else f"{item},"
        if len(line) > len(head) and len(line) + 1 + len(text) > WIDTH:
            yield line
            line = head = f"{bar:<{_LIST}}"
        line += text if len(line) == len(head) else f" {text}"
    yield line
