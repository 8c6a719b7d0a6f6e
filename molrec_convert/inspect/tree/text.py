"""JSON, values and codec lines as `tree` writes them. Source: the tree notation, rules 1 and 4 to 7."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from molrec_convert.errors import MolrecError, UsageError
from molrec_convert.inspect.tree.nodes import Node, children_of, ordered, read_node, read_root, shown_name
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.stores.lmdb.file.keys import key_label, numbered
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.values.decode import MAGIC, decode
from molrec_convert.stores.lmdb.values.layout import from_utf8
from molrec_convert.stores.zarr.v3.storage import Storage
from molrec_convert.stores.zarr.v3.zip_storage import open_storage

__all__ = [
    "SHOWN",
    "WIDTH",
    "dtype_text",
    "file_lines",
    "fitting_values",
    "json_lines",
    "key_named",
    "overview_lines",
    "plain",
    "row_fits",
    "scalar_text",
    "tree_lines",
    "value_lines",
    "zarr_text",
]

WIDTH = 88
#: Values shown along the leading axis.
SHOWN = 6

_CONTRACT_NAMES = {dtype.zarr: dtype.name for dtype in DTYPES.values()}
_PARAMETERS = ("level", "elementsize")


def json_lines(head: str, value: Any, continuation: str) -> Iterator[str]:
    """Yield `head` and a JSON value, broken into lines where it does not fit; each further line starts
    `continuation`.
    """
    yield from _json_lines(head, value, "", continuation, 0)


def _json_lines(head: str, value: Any, tail: str, continuation: str, indent: int) -> Iterator[str]:
    text = _dumps(value)
    if len(head) + len(text) + len(tail) <= WIDTH or not isinstance(value, (dict, list)) or not value:
        yield f"{head}{text}{tail}"
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield head + opening
    inner = continuation + " " * (indent + 2)
    members = [(f"{_dumps(k)}: ", v) for k, v in value.items()] if isinstance(value, dict) else [("", v) for v in value]
    for position, (label, member) in enumerate(members):
        comma = "," if position < len(members) - 1 else ""
        yield from _json_lines(inner + label, member, comma, continuation, indent + 2)
    yield f"{continuation}{' ' * indent}{closing}{tail}"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def plain(name: str) -> str:
    """Return a name as it is, as JSON where it holds characters that would break the line."""
    return name if name.isprintable() and name == name.strip() else _dumps(name)


def dtype_text(data_type: Any) -> str:
    """Return the contract's name of a Zarr `data_type`; another type by its own name."""
    name = data_type.get("name") if isinstance(data_type, dict) else data_type
    return _CONTRACT_NAMES.get(name, name) if isinstance(name, str) else "?"


def fitting_values(values: list[Any], total: int, room: int) -> str:
    """Return a list of leading values, as many of `values` as fit into `room` characters; `total` is the whole
    length.
    """
    for shown in range(min(len(values), SHOWN), -1, -1):
        text = _list([*(_value(item) for item in values[:shown]), *(["…"] if shown < total else [])])
        if len(text) <= room:
            return text
    return "[…]"


def row_fits(trailing: tuple[int, ...], room: int) -> bool:
    """True if a row of this shape could be written in `room` characters at all: a larger one is not worth reading."""
    return math.prod(trailing) * 3 <= room


def _list(parts: list[str]) -> str:
    return f"[{', '.join(parts)}]"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return _list([_value(item) for item in value])
    if isinstance(value, bool):
        return "true" if value else "false"
    return _dumps(value) if isinstance(value, str) else repr(value)


def scalar_text(value: Any) -> str:
    """Return the value of an array without axes."""
    return _value(value)


def zarr_text(document: dict[str, Any]) -> str:
    """Return how an array is stored: `chunk [3] · bytes → crc32c`, `shard [m], chunk [n] · …`."""
    codecs = document.get("codecs")
    outer = _grid_shape(document)
    if isinstance(codecs, list) and len(codecs) == 1 and _codec_name(codecs[0]) == "sharding_indexed":
        inner = _configuration(codecs[0])
        extents = f"shard {_dumps(outer)}, chunk {_dumps(inner.get('chunk_shape'))}"
        codecs = inner.get("codecs")
    else:
        extents = f"chunk {_dumps(outer)}"
    pipeline = " → ".join(_codec_text(codec) for codec in codecs) if isinstance(codecs, list) else "?"
    return f"{extents} · {pipeline}"


def _grid_shape(document: dict[str, Any]) -> Any:
    grid = document.get("chunk_grid")
    return _configuration(grid).get("chunk_shape") if isinstance(grid, dict) else None


def _codec_name(codec: Any) -> str:
    name = codec.get("name") if isinstance(codec, dict) else codec
    return name if isinstance(name, str) else "?"


def _configuration(entry: Any) -> dict[str, Any]:
    configuration = entry.get("configuration") if isinstance(entry, dict) else None
    return configuration if isinstance(configuration, dict) else {}


def _codec_text(codec: Any) -> str:
    name = _codec_name(codec).removeprefix("numcodecs.")
    configuration = _configuration(codec)
    parameter = next((configuration[key] for key in _PARAMETERS if key in configuration), None)
    return name if parameter is None else f"{name}({parameter})"


_BRANCH, _ATTRIBUTE = " \\-- ", " +-- "
_MORE, _LAST = " |   ", "     "
_FILE_WIDTH = 44


def tree_lines(
    path: str | os.PathLike[str], sections: Sequence[str] = (), *, zarr: bool = True, name: str | None = None
) -> Iterator[str]:
    """Yield the tree of a record in a directory or a packed file, line by line.

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
    """Yield the files of a stored record, sorted by name, each with what it is."""
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
        """Yield attributes and children of a group; `only` picks some children."""
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
    """Yield the overview of the record at `path`, a directory or a packed file, line by line.

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
    """Yield the lines of one root group."""
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
    """Yield items behind a label, broken where the line is full; further lines hang under the first item."""
    line = head
    for position, item in enumerate(items):
        text = item if position == len(items) - 1 else f"{item},"
        if len(line) > len(head) and len(line) + 1 + len(text) > WIDTH:
            yield line
            line = head = f"{bar:<{_LIST}}"
        line += text if len(line) == len(head) else f" {text}"
    yield line


_JSON = " " * 16
_NUMBERED = re.compile(r"([rsf])(\d{1,20})")


def key_named(text: str) -> bytes | None:
    """Return the key a person means by `f12`, `r0`, `s3`, `ff` or `index`; None for another text."""
    match = _NUMBERED.fullmatch(text)
    if match is not None and int(match[2]) < 2**64:
        return numbered(match[1].encode(), int(match[2]))
    return text.encode() if text in ("ff", "index") else None


def value_lines(path: str | os.PathLike[str], key: bytes) -> Iterator[str]:
    """Yield the value of a key, line by line. `UsageError` where there is none, `ContractError` where it is broken."""
    with PageFile(path) as pages:
        pages.check()
        value = pages.find(key)
    label = key_label(key)
    if value is None:
        raise UsageError(f"{path} has no key {label}")
    yield f"key {label} = {key.hex(' ')}; value {len(value)} B"
    yield ""
    if value[:4] != MAGIC:
        yield from json_lines("", from_utf8(value, label), "")
        return
    frame = decode(value, label)
    size = int.from_bytes(value[4:8], "little")
    start = 8 + size + -size % 8
    yield _line(0, 4, "magic", repr(MAGIC.decode()))
    yield _line(4, 8, "header_length", f"{size} (u32, little-endian)")
    yield _line(8, 8 + size, "header", "UTF-8 JSON:")
    yield from json_lines(_JSON, from_utf8(value[8 : 8 + size], label), _JSON)
    buffers: list[tuple[int, int, str, str]] = []
    for name, block in frame.blocks.items():
        for column, entry in block.columns.items():
            if entry.offset is not None:
                shown = _shown(frame.values(name, column)[:SHOWN].tolist(), entry.shape[0])
                first = start + entry.offset
                buffers.append((first, first + entry.nbytes, f"{name}/{column}", f"{entry.dtype} = {shown}"))
            if entry.validity is not None:
                mask = value[start + entry.validity :][: min(block.count, SHOWN)]
                shown = _shown([bool(flag) for flag in mask], block.count)
                first = start + entry.validity
                buffers.append((first, first + block.count, f"{name}/{column} mask", f"bool = {shown}"))
    width = max([16, *(len(name) + 2 for _, _, name, _ in buffers)])
    end = 8 + size
    for first, last, name, text in [*sorted(buffers), (len(value), len(value), "", "")]:
        if first > end:
            what = "zero" if not any(value[end:first]) else "unused"
            yield _line(end, first, "padding", f"{first - end} {what} byte{'' if first - end == 1 else 's'}", width)
        if text:
            yield _line(first, last, name, text, width)
        end = max(end, last)


def _shown(values: list[object], total: int) -> str:
    text = ", ".join(json.dumps(value) if isinstance(value, (bool, list)) else repr(value) for value in values)
    return f"[{text}{', …' if total > len(values) else ''}]"


def _line(first: int, last: int, name: str, what: str, width: int = 16) -> str:
    return f"{f'[{first}, {last})':<11} {name:<{width}}{what}"
