"""Frame bytes: blocks, a meta document, step, time and cell as one value that a reader can view in place.

    MRF1 · header length u32le · header, compact UTF-8 JSON · zeros to a multiple of 8 · payload

The payload holds the buffers of the numeric columns, C-ordered little-endian at multiples of 8, each followed by its
mask where it has one; the texts of string columns stand in the header. `decode` reads a value, `values/encode.py`
writes them.
Source: Collection and its LMDB file, "Frame bytes".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.frame import Box
from molrec_convert.model.names import is_unicode
from molrec_convert.model.tags import Meta, from_typed_json, infer_tag
from molrec_convert.stores.lmdb.values.encode import MAGIC, encode_frame, encode_tables
from molrec_convert.stores.lmdb.values.layout import (
    BlockLayout,
    Layout,
    Name,
    from_utf8,
    mapping,
    node_text,
    padding,
    parse_blocks,
)

__all__ = ["MAGIC", "Buffer", "FrameBytes", "decode", "encode_frame", "encode_tables", "prefix_of", "read_meta"]

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]
_START, _SIZE = struct.Struct("<4sI"), struct.Struct("<I")
_SEPARATOR = b'},"meta":{'
_NOTHING = b'{"meta":{}}'


class FrameBytes:
    """A decoded header over its value: arrays are made when they are asked for, and share the value's memory.

    Writable where the value is (a `bytearray`), else read-only. What the header says beside its blocks is parsed when
    it is asked for.
    """

    __slots__ = ("_base", "_name", "_numbers", "_rest", "_value", "layout")

    def __init__(self, value: Buffer, base: int, layout: Layout, rest: bytes | dict[str, Any], name: Name) -> None:
        self._value, self._base, self._rest, self._name = value, base, rest, name
        self._numbers: NDArray[np.float64] | None = None
        self.layout = layout

    @property
    def node(self) -> str:
        """What the value is called in errors."""
        return node_text(self._name)

    @property
    def nbytes(self) -> int:
        """Bytes of the value."""
        return len(self._value)

    @property
    def blocks(self) -> dict[str, BlockLayout]:
        """The blocks, by name, in order."""
        return self.layout.blocks

    def values(self, block: str, column: str) -> NDArray[Any]:
        """Return the array of a column: numbers in place, texts as a new array."""
        entry = self.layout.blocks[block].columns[column]
        if entry.values is not None:
            return np.array(entry.values, dtype=entry.numpy).reshape(entry.shape)
        if not entry.nbytes:
            return np.zeros(entry.shape, entry.numpy)
        assert entry.offset is not None
        if entry.dtype == "bool":
            return self._flags(entry.offset, entry.nbytes, f"{block}/{column}").reshape(entry.shape)
        array = np.frombuffer(self._value, entry.numpy, entry.items, self._base + entry.offset)
        return array if len(entry.shape) == 1 else array.reshape(entry.shape)

    def arrays(self, block: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of a block's columns of plain numbers, all at once: slices of one array over the
        payload.
        """
        found: dict[str, NDArray[Any]] = {}
        plain = self.layout.blocks[block].plain
        if plain:
            if self._numbers is None:
                self._numbers = np.frombuffer(self._value, np.float64, self.layout.extent // 8, self._base)
            numbers = self._numbers
            for name, first, last in plain:
                found[name] = numbers[first:last]
        return found

    def numbers(self, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> NDArray[Any]:
        """Return numbers from a place in the payload that the layout gives, in place."""
        return np.ndarray(shape, dtype, self._value, self._base + offset)

    def mask(self, block: str, column: str) -> NDArray[np.bool_] | None:
        """Return the mask of a column, None when it has none or all its rows hold a value."""
        layout = self.layout.blocks[block]
        entry = layout.columns[column]
        if entry.validity is None or not layout.count:
            return None
        mask = self._flags(entry.validity, layout.count, f"{block}/_validity/{column}")
        return None if mask.all() else mask

    @property
    def is_bare(self) -> bool:
        """True if the header is seen to say nothing beside its blocks."""
        return self._rest == _NOTHING

    @property
    def document(self) -> dict[str, Any]:
        """The meta document as it stands: plain JSON, or typed JSON whose tags stand elsewhere."""
        document: dict[str, Any] = self.others["meta"]
        return document

    def meta(self, tags: Mapping[str, str] | None = None) -> Meta:
        """Return the typed meta document, by `tags` or by the header's own."""
        if tags is None:
            tags = mapping(self.others.get("meta_types", {}), f"{self.node}: meta_types")
        return read_meta(self.document, tags, self.node)

    @property
    def step(self) -> int:
        """The step number."""
        step = self.others.get("step")
        if type(step) is int and -(2**53) <= step <= 2**53:
            return step
        if step is None:
            raise ContractError(self.node, "the update states no step")
        value: int = from_typed_json(step, "i64", f"{self.node}: step")
        return value

    @property
    def time(self) -> float | None:
        """The time, None when the run states none."""
        if "time" not in self.others:
            return None
        value: float = from_typed_json(self.others["time"], "f64", f"{self.node}: time")
        return value

    @property
    def has_box(self) -> bool:
        """True if the header states a cell."""
        return "box" in self.others

    @property
    def box(self) -> Box | None:
        """The cell, None when the header states none."""
        return _read_box(self.others["box"], f"{self.node}/box") if "box" in self.others else None

    @property
    def others(self) -> dict[str, Any]:
        """What the header says beside its blocks, as it stands there."""
        rest = self._rest
        if isinstance(rest, bytes):
            rest = from_utf8(rest, self._name)
            if not isinstance(rest, dict) or "blocks" in rest or type(rest.get("meta")) is not dict:
                raise ContractError(self.node, "the header states its blocks or its meta more than once")
            self._rest = rest
        return rest

    def _flags(self, offset: int, count: int, path: str) -> NDArray[np.bool_]:
        flags = np.frombuffer(self._value, np.uint8, count, self._base + offset)
        if count and flags.max() > 1:
            raise ContractError(f"{self.node}/{path}", "a bool is one byte, 0 or 1", found=str(flags.max()))
        return flags.view(np.bool_)


def decode(value: Buffer, name: Name = "frame bytes") -> FrameBytes:
    """Read a header and hold it against the value; refused with what is wrong and where. No buffer is touched."""
    if type(value) is bytearray and type(name) is tuple:
        recent = _recent.get(name[0])
        if recent is not None and value.startswith(recent[0], 8) and value.startswith(MAGIC):
            # as most often: of the shape of the value before
            prefix, layout = recent
            size = _SIZE.unpack_from(value, 4)[0]
            base = 8 + size + -size % 8
            if len(prefix) < size and base + layout.extent <= len(value):
                return FrameBytes(value, base, layout, b"{" + value[len(prefix) : 8 + size], name)
    total = len(value)
    magic, size = _START.unpack_from(cast(Any, value)) if total >= 8 else (bytes(value[:4]), 0)
    if total < 8 or magic != MAGIC:
        node = node_text(name)
        raise ContractError(node, "the value is no frame bytes", found=repr(magic), expected=repr(MAGIC))
    base = 8 + size + padding(size)
    if base > total:
        found, expected = f"{size} bytes", f"at most {total - 8}"
        raise ContractError(node_text(name), "the header reaches past the value", found=found, expected=expected)
    header = bytes(value[8 : 8 + size])
    cut = header.find(_SEPARATOR)
    known = _LAYOUTS.get(header[: cut + 1]) if cut > 0 else None
    rest: bytes | dict[str, Any]
    if known is None:
        layout, rest = _parse_header(header, cut, name)
    else:
        layout, rest = known, b"{" + header[cut + 2 :]
        if type(name) is tuple:
            _recent[name[0]] = header[: cut + len(_SEPARATOR)], layout
    if layout.extent > total - base:
        found, expected = f"{layout.extent} bytes", f"at most {total - base}"
        raise ContractError(node_text(name), "a buffer reaches past the value", found=found, expected=expected)
    return FrameBytes(value, base, layout, rest, name)


def prefix_of(header: bytes, layout: Layout) -> bytes | None:
    """Return a header's text up to the key `meta`, where that is known to be its blocks and no more; `layout` is
    theirs.
    """
    cut = header.find(_SEPARATOR)
    return header[: cut + 2] if cut > 0 and _LAYOUTS.get(header[: cut + 1]) is layout else None


def read_meta(document: Mapping[str, Any], tags: Mapping[str, Any], node: str) -> Meta:
    """Return a typed meta document; a tag without its key is ignored, a key without a tag has it inferred."""
    values: dict[str, Any] = {}
    found: dict[str, str] = {}
    for key, value in document.items():
        tag = found[key] = tags[key] if key in tags else infer_tag(value)
        if key == "_meta_types" or not (key.isascii() or is_unicode(key)):
            raise ContractError(node, "a key of the meta document cannot be stored", found=ascii(key)[:60])
        if not (type(value) is float and tag == "f64" and value - value == 0.0):
            value = from_typed_json(value, tag, f"{node}.{key}")
        values[key] = value
    return Meta.trusted(values, found)


#: Layouts by the header's text up to the end of its blocks, which values of one shape share to the byte.
_LAYOUTS: dict[bytes, Layout] = {}
_MOST_LAYOUTS, _LONGEST_PREFIX = 1024, 2**14
#: The header's text up to its meta and the layout of the last value of each kind ("f", "s").
_recent: dict[str, tuple[bytes, Layout]] = {}


def _parse_header(header: bytes, cut: int, name: Name) -> tuple[Layout, dict[str, Any]]:
    node = node_text(name)
    document = mapping(from_utf8(header, f"{node}: header"), f"{node}: header")
    for key in ("blocks", "meta"):
        mapping(document.get(key), f"{node}: {key}")
    blocks = document.pop("blocks")
    layout = parse_blocks(blocks, node)
    if not layout.has_strings and 0 < cut < _LONGEST_PREFIX:
        _remember(header[: cut + 1], blocks, layout)
    return layout, document


def _remember(prefix: bytes, blocks: dict[str, Any], layout: Layout) -> None:
    """Keep a layout under `prefix` when that is the whole of the header's blocks.

    `},"meta":{` cannot stand inside a text, whose quotes are escaped, but it may be a block of that name.
    """
    try:
        alone = from_utf8(prefix + b"}", "")
    except ContractError:
        return
    if alone == {"blocks": blocks}:
        if len(_LAYOUTS) >= _MOST_LAYOUTS:
            _LAYOUTS.clear()
        _LAYOUTS[prefix] = layout


def _read_box(document: Any, node: str) -> Box:
    entry = mapping(document, node)
    defined = entry.get("cell_defined", True)
    if not isinstance(defined, bool):
        raise ContractError(node, "cell_defined is true or false", found=repr(defined)[:60])
    vectors: Any = np.eye(3)
    if defined:
        rows = entry.get("vectors")
        if not isinstance(rows, list) or len(rows) != 3:
            raise ContractError(f"{node}/vectors", "a cell has three rows of three numbers", found=repr(rows)[:60])
        vectors = np.array([from_typed_json(row, "f64x3", f"{node}/vectors") for row in rows])
    origin = from_typed_json(entry["origin"], "f64x3", f"{node}/origin") if "origin" in entry else np.zeros(3)
    boundary = np.full(3, defined)
    if "boundary" in entry:
        boundary = from_typed_json(entry["boundary"], "bool3", f"{node}/boundary")
    if not defined and boundary.any():
        raise ContractError(f"{node}/boundary", "an undefined cell is periodic on no axis", found="a true flag")
    return Box(vectors, origin, boundary, defined)
