"""Frame bytes: blocks, a meta document, step, time and cell as one value that a reader can view in place.

    MRF1 · header length u32le · header, compact UTF-8 JSON · zeros to a multiple of 8 · payload

The payload holds the buffers of the numeric columns, C-ordered little-endian at multiples of 8, each followed by its
mask where it has one; the texts of string columns stand in the header. `encode_frame` and `encode_tables` write
values, `decode` reads one.
Source: Collection and its LMDB file, "Frame bytes".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.frame import Box
from molrec_convert.model.tags import Meta, from_typed_json, infer_tag
from molrec_convert.stores.lmdb.frame_layout import BlockLayout, Layout, padding, parse_blocks
from molrec_convert.stores.lmdb.frame_writing import MAGIC, encode_frame, encode_tables
from molrec_convert.stores.lmdb.header_json import from_json, mapping

__all__ = ["MAGIC", "Buffer", "FrameBytes", "decode", "encode_frame", "encode_tables", "read_meta"]

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]
_SEPARATOR = b'},"meta":{'


class FrameBytes:
    """A decoded header over its value: arrays are made when they are asked for, and share the value's memory.

    Writable where the value is (a `bytearray`), else read-only.
    """

    __slots__ = ("_base", "_rest", "_value", "layout", "node")

    def __init__(self, value: Buffer, base: int, layout: Layout, rest: dict[str, Any], node: str) -> None:
        self._value, self._base, self._rest = value, base, rest
        self.layout, self.node = layout, node

    @property
    def nbytes(self) -> int:
        """Bytes of the value."""
        return len(self._value)

    @property
    def blocks(self) -> dict[str, BlockLayout]:
        """The blocks, by name, in order."""
        return self.layout.blocks

    def values(self, block: str, column: str) -> NDArray[Any]:
        """The array of a column: numbers in place, texts as a new array."""
        entry = self.layout.blocks[block].columns[column]
        if entry.values is not None:
            return np.array(entry.values, dtype=DTYPES["string"].numpy).reshape(entry.shape)
        dtype = DTYPES[entry.dtype].numpy
        if not entry.nbytes:
            return np.zeros(entry.shape, dtype)
        assert entry.offset is not None
        if entry.dtype == "bool":
            return self._flags(entry.offset, entry.nbytes, f"{block}/{column}").reshape(entry.shape)
        array = np.frombuffer(self._value, dtype, entry.nbytes // dtype.itemsize, self._base + entry.offset)
        return array if len(entry.shape) == 1 else array.reshape(entry.shape)

    def mask(self, block: str, column: str) -> NDArray[np.bool_] | None:
        """The mask of a column, None when it has none or all its rows hold a value."""
        layout = self.layout.blocks[block]
        entry = layout.columns[column]
        if entry.validity is None or not layout.count:
            return None
        mask = self._flags(entry.validity, layout.count, f"{block}/_validity/{column}")
        return None if mask.all() else mask

    @property
    def document(self) -> dict[str, Any]:
        """The meta document as it stands: plain JSON, or typed JSON whose tags stand elsewhere."""
        document = self._rest["meta"]
        assert isinstance(document, dict)
        return document

    def meta(self, tags: Mapping[str, str] | None = None) -> Meta:
        """The typed meta document, by `tags` or by the header's own."""
        if tags is None:
            tags = mapping(self._rest.get("meta_types", {}), f"{self.node}: meta_types")
        return read_meta(self.document, tags, self.node)

    @property
    def step(self) -> int:
        """The step number."""
        step = self._rest.get("step")
        if type(step) is int and -(2**53) <= step <= 2**53:
            return step
        if step is None:
            raise ContractError(self.node, "the update states no step")
        value: int = from_typed_json(step, "i64", f"{self.node}: step")
        return value

    @property
    def time(self) -> float | None:
        """The time, None when the run states none."""
        if "time" not in self._rest:
            return None
        value: float = from_typed_json(self._rest["time"], "f64", f"{self.node}: time")
        return value

    @property
    def has_box(self) -> bool:
        """Whether the header states a cell."""
        return "box" in self._rest

    @property
    def box(self) -> Box | None:
        """The cell, None when the header states none."""
        return _read_box(self._rest["box"], f"{self.node}/box") if "box" in self._rest else None

    def _flags(self, offset: int, count: int, path: str) -> NDArray[np.bool_]:
        flags = np.frombuffer(self._value, np.uint8, count, self._base + offset)
        if count and flags.max() > 1:
            raise ContractError(f"{self.node}/{path}", "a bool is one byte, 0 or 1", found=str(flags.max()))
        return flags.view(np.bool_)


def decode(value: Buffer, node: str = "frame bytes") -> FrameBytes:
    """Read a header and hold it against the value; refused with what is wrong and where. No buffer is touched."""
    total = len(value)
    magic = bytes(value[:4])
    if total < 8 or magic != MAGIC:
        raise ContractError(node, "the value is no frame bytes", found=repr(magic), expected=repr(MAGIC))
    size = int.from_bytes(bytes(value[4:8]), "little")
    base = 8 + size + padding(size)
    if base > total:
        raise ContractError(node, "the header reaches past the value", found=f"{size} bytes", expected=f"{total - 8}")
    layout, rest = _parse_header(bytes(value[8 : 8 + size]), node)
    if layout.extent > total - base:
        raise ContractError(
            node, "a buffer reaches past the value", found=f"{layout.extent} bytes", expected=f"{total - base}"
        )
    return FrameBytes(value, base, layout, rest, node)


def read_meta(document: Mapping[str, Any], tags: Mapping[str, Any], node: str) -> Meta:
    """A typed meta document; a tag without its key is ignored, a key without a tag has it inferred."""
    meta = Meta()
    for key, value in document.items():
        tag = tags[key] if key in tags else infer_tag(value)
        meta.put(key, from_typed_json(value, tag, f"{node}.{key}"), tag)
    return meta


#: Layouts by the header's text up to the end of its blocks, which values of one shape share to the byte.
_LAYOUTS: dict[bytes, Layout] = {}
_MOST_LAYOUTS, _LONGEST_PREFIX = 1024, 2**14


def _parse_header(header: bytes, node: str) -> tuple[Layout, dict[str, Any]]:
    cut = header.find(_SEPARATOR)
    if cut > 0:
        layout = _LAYOUTS.get(header[: cut + 1])
        if layout is not None:
            rest = from_json(_text(b"{" + header[cut + 2 :], node), node)
            if "blocks" in rest or not isinstance(rest["meta"], dict):
                raise ContractError(node, "the header states its blocks or its meta more than once")
            return layout, rest
    document = mapping(from_json(_text(header, node), node), f"{node}: header")
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
        alone = from_json(_text(prefix + b"}", ""), "")
    except ContractError:
        return
    if alone == {"blocks": blocks}:
        if len(_LAYOUTS) >= _MOST_LAYOUTS:
            _LAYOUTS.clear()
        _LAYOUTS[prefix] = layout


def _text(header: bytes, node: str) -> str:
    try:
        return header.decode()
    except UnicodeDecodeError as error:
        raise ContractError(node, f"the header is not valid UTF-8: {error.reason}") from None


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
