"""`zarr.json`: group and array metadata, built and parsed.

Source: Zarr V3 binding, "dtypes" and "Writer's extents"; the Zarr V3 core specification.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from molrec_convert.errors import ContractError
from molrec_convert.files.json_text import read_json
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.stores.zarr.v3.codecs import Pipeline

__all__ = [
    "DENSE",
    "MOST_CHUNKS",
    "ArrayMetadata",
    "Extents",
    "NumberedDocument",
    "block_rows_per_chunk",
    "chunk_key",
    "column_extents",
    "document_path",
    "dump_document",
    "fixed_extents",
    "group_document",
    "new_array",
    "other_keys",
    "parse_array",
    "parse_document",
    "says",
    "shown",
    "stated_group",
]

_FIXED_CHUNK = 512 * 2**10
_TRAJECTORY_CHUNK = 16 * 2**10
_SHARD = 256 * 2**20
MOST_CHUNKS = 4096


@dataclass(frozen=True)
class Extents:
    """Rows of an inner chunk, and inner chunks of a shard (0: plain chunks without shards)."""

    rows: int
    chunks: int = 0

    @property
    def shard_rows(self) -> int:
        """Rows of a shard."""
        return self.rows * self.chunks


#: Per-step and index arrays of a trajectory: `step time meta/* offset step_index box/*`.
DENSE = Extents(1024, 256)


def fixed_extents(dtype: str, shape: tuple[int, ...]) -> Extents:
    """Return extents of an array of fixed size: 512 KiB pieces, one shard once there are more than four."""
    if dtype == "string" or not shape or shape[0] == 0:
        return Extents(max(1, shape[0] if shape else 1))
    row_bytes = max(1, DTYPES[dtype].itemsize * math.prod(shape[1:]))
    rows = min(shape[0], max(1, _FIXED_CHUNK // row_bytes))
    chunks = -(-shape[0] // rows)
    return Extents(rows, chunks if chunks > 4 else 0)


def block_rows_per_chunk(block: BlockDeclaration, frame_rows: int) -> int:
    """Return rows of an inner chunk of every column of a trajectory block: whole frames of at least 16 KiB.

    `frame_rows` is the row count of the representative frame; masks do not count as the narrowest column.
    """
    narrowest = min((row_bytes(column) for column in block.columns.values()), default=1)
    if frame_rows == 0:
        return max(1, _TRAJECTORY_CHUNK // narrowest)
    least = max(frame_rows, -(-_TRAJECTORY_CHUNK // narrowest))
    return -(-least // frame_rows) * frame_rows


def column_extents(rows_per_chunk: int, bytes_per_row: int) -> Extents:
    """Return extents of one column of a trajectory block, or of a mask (one byte a row)."""
    chunk_bytes = rows_per_chunk * bytes_per_row
    return Extents(rows_per_chunk, max(1, min(MOST_CHUNKS, _SHARD // chunk_bytes)))


def row_bytes(column: ColumnDeclaration) -> int:
    """Return bytes of one row (a string counts 16)."""
    return max(1, DTYPES[column.dtype].itemsize * math.prod(column.trailing))


_BY_ZARR = {dtype.zarr: dtype.name for dtype in DTYPES.values()}
_INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


#: Every codec that an array of a record may have.
CODECS = frozenset(
    ("bytes", "gzip", "zstd", "numcodecs.shuffle", "crc32c", "vlen-utf8", "sharding_indexed", "transpose")
)
#: The attribute of an array some of whose chunk files are missing by right.
_EMPTY = "empty_chunks"


@dataclass(frozen=True)
class ArrayMetadata:
    """One array: shape, dtype, attributes, and how it is stored.

    `chunk_shape` is the extent of a stored chunk file: a plain chunk, or a shard of inner chunks of `inner_shape`.
    `pipeline` is None when only the Zarr library can decode the array; `index_at` tells a sharded array's index.
    """

    shape: tuple[int, ...]
    dtype: str
    chunk_shape: tuple[int, ...]
    pipeline: Pipeline | None
    inner_shape: tuple[int, ...] | None = None
    index_at: Literal["start", "end"] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    separator: str = "/"
    prefixed: bool = True
    fill: Any = None
    document: dict[str, Any] = field(default_factory=dict, repr=False)
    #: Leading ordinals of chunk files that were never written, as all of their values are the fill value.
    empty_chunks: frozenset[int] = frozenset()

    @property
    def sharded(self) -> bool:
        """True if a stored chunk is a shard of inner chunks."""
        return self.inner_shape is not None

    @property
    def direct(self) -> bool:
        """True if our own reader decodes it: known pipeline, fill of zeros, trailing axes whole."""
        inner = self.inner_shape or self.chunk_shape
        return (
            self.pipeline is not None
            and _is_default_fill(self.fill, self.dtype)
            and len(self.chunk_shape) == len(self.shape)
            and len(inner) == len(self.shape)
            and all(c == max(1, n) for c, n in zip(inner[1:], self.shape[1:], strict=True))
            and (not self.sharded or self._one_row_of_chunks)
        )

    @property
    def _one_row_of_chunks(self) -> bool:
        """True if the inner chunks of a shard follow each other on the leading axis alone."""
        inner = self.inner_shape or ()
        return bool(inner) and self.chunk_shape[1:] == inner[1:] and self.chunk_shape[0] % inner[0] == 0

    def check_codecs(self, node: str) -> None:
        """Raise ContractError for a codec that no record may have, or numbers whose byte order is not stated."""
        codecs = list(_codecs_of(self.document.get("codecs")))
        for name, _ in codecs:
            if name not in CODECS:
                raise ContractError(node, f"the codec {name!r} is none of {', '.join(sorted(CODECS))}")
        for name, configuration in codecs:
            if name == "bytes" and configuration.get("endian") is None and DTYPES[self.dtype].itemsize > 1:
                raise ContractError(
                    node,
                    "its codec 'bytes' does not say in which order the bytes of a number are",
                    expected='"configuration": {"endian": "little"}, or "big", in its zarr.json',
                )

    def key(self, *coordinates: int) -> str:
        """Return the key of a stored chunk below the array."""
        return chunk_key(coordinates, self.separator, self.prefixed)


def _codecs_of(codecs: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and configurations of all codecs, those of the chunks in a shard too."""
    for codec in codecs if isinstance(codecs, list) else ():
        name = codec.get("name") if isinstance(codec, dict) else codec
        stated = codec.get("configuration") if isinstance(codec, dict) else None
        configuration = stated if isinstance(stated, dict) else {}
        yield name if isinstance(name, str) else repr(codec)[:40], configuration
        if name == "sharding_indexed":
            yield from _codecs_of(configuration.get("codecs"))
            yield from _codecs_of(configuration.get("index_codecs"))


def with_empty_chunks(document: dict[str, Any], ordinals: Collection[int]) -> dict[str, Any]:
    """Return the `zarr.json` of an array that says which of its chunk files are missing by right."""
    attributes = {key: value for key, value in document["attributes"].items() if key != _EMPTY}
    return {**document, "attributes": {**attributes, _EMPTY: sorted(ordinals)} if ordinals else attributes}


def chunk_key(coordinates: tuple[int, ...], separator: str = "/", prefixed: bool = True) -> str:
    """Return `c/0/1` of the default key encoding, `0.1` of the `v2` one."""
    parts = [str(n) for n in coordinates]
    if prefixed:
        return separator.join(["c", *parts])
    return separator.join(parts) or "0"


def dump_document(document: dict[str, Any]) -> bytes:
    """Return the bytes of a `zarr.json`: finite JSON, UTF-8."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2).encode()


class NumberedDocument:
    """The bytes of a `zarr.json` that is written again and again with another number in one place.

    Rendering JSON takes as long as writing it; so it is done once.
    """

    def __init__(self) -> None:
        self._template: tuple[Any, bytes] | None = None

    def dump(self, document: dict[str, Any], place: tuple[str | int, ...], number: int) -> bytes:
        """Return the bytes of `document` with `number` at `place`; what else it says is compared with the last time."""
        general = _with_number(document, place, _STAND_IN)
        if self._template is None or self._template[0] != general:
            self._template = general, dump_document(general)
        text, mark = self._template[1], str(_STAND_IN).encode()
        if text.count(mark) != 1:
            return dump_document(_with_number(document, place, number))
        return text.replace(mark, str(number).encode())


#: A number no document is likely to have.
_STAND_IN = -915_273_648_015_273


def _with_number(node: Any, place: tuple[str | int, ...], number: int) -> Any:
    """Return a copy of a document down to `place`, the rest shared."""
    if not place:
        return number
    copy: Any = list(node) if isinstance(node, list) else dict(node)
    copy[place[0]] = _with_number(copy[place[0]], place[1:], number)
    return copy


def group_document(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the `zarr.json` of a group."""
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def new_array(
    shape: tuple[int, ...],
    pipeline: Pipeline,
    extents: Extents,
    attributes: dict[str, Any] | None = None,
    *,
    index_at: Literal["start", "end"] = "start",
) -> ArrayMetadata:
    """Return the metadata of a new array of `shape`, cut on its leading axis by `extents`; trailing axes are whole."""
    dtype = DTYPES[pipeline.dtype]
    # A zero trailing axis has no legal chunk extent; 1 covers it.
    trailing = [max(1, n) for n in shape[1:]]
    inner = [extents.rows, *trailing] if shape else []
    codecs: list[dict[str, Any]] = pipeline.to_json()
    outer = inner
    if extents.chunks:
        outer = [extents.shard_rows, *trailing]
        codecs = [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": inner,
                    "codecs": codecs,
                    "index_codecs": _INDEX_CODECS,
                    "index_location": index_at,
                },
            }
        ]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype.zarr,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": outer}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": dtype.fill,
        "codecs": codecs,
        "attributes": attributes or {},
    }
    inner_shape = tuple(inner) if extents.chunks else None
    return ArrayMetadata(
        shape,
        pipeline.dtype,
        tuple(outer),
        pipeline,
        inner_shape,
        index_at if extents.chunks else None,
        attributes or {},
        fill=dtype.fill,
        document=document,
    )


#: Keys of a `zarr.json` that a writer sets itself. Consolidated metadata, which tells what others say, is not kept.
_OWN_KEYS = frozenset(
    {
        *("zarr_format", "node_type", "attributes", "consolidated_metadata"),
        *("shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "storage_transformers"),
    }
)


def other_keys(document: dict[str, Any]) -> dict[str, Any]:
    """Return what a `zarr.json` says beside its attributes and what a writer sets: names of dimensions, later keys."""
    return {key: value for key, value in document.items() if key not in _OWN_KEYS}


def shown(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a node without those a library leaves there for itself."""
    return {key: value for key, value in attributes.items() if key != "_zarrs"}


def document_path(path: str) -> str:
    """Return the path of a node's `zarr.json`: under it stand its other keys, where attributes stand under the node's
    own.
    """
    return f"{path}/zarr.json" if path else "zarr.json"


def says(unknown: Mapping[str, Any], *paths: str) -> bool:
    """True if anything unknown is said at one of these nodes, which a writer then makes where it could leave it out."""
    return any(path in unknown or document_path(path) in unknown for path in paths)


def stated_group(attributes: dict[str, Any], path: str, unknown: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the `zarr.json` of the group at `path`, with the attributes and other keys of it that are `unknown`."""
    return {**group_document({**attributes, **unknown.get(path, {})}), **unknown.get(document_path(path), {})}


def parse_document(raw: bytes, node: str) -> dict[str, Any]:
    """Return a `zarr.json` as a dictionary with `node_type` and `attributes`; refused when it is none of Zarr V3."""
    try:
        document = read_json(raw)
    except ValueError as error:
        raise ContractError(node, f"zarr.json is not valid JSON: {error}") from None
    if not isinstance(document, dict) or document.get("zarr_format") != 3:
        raise ContractError(node, "zarr.json is not Zarr V3 metadata")
    if document.get("node_type") not in ("group", "array"):
        raise ContractError(node, "zarr.json has no node type", found=repr(document.get("node_type")))
    attributes = document.setdefault("attributes", {})
    if not isinstance(attributes, dict):
        raise ContractError(node, "the attributes are not a JSON object", found=type(attributes).__name__)
    return document


def parse_array(document: dict[str, Any], node: str) -> ArrayMetadata:
    """Return the metadata of an array from its `zarr.json`; a dtype outside the contract's set is refused."""
    shape = _extent(document.get("shape"), node, "shape")
    dtype = _dtype(document.get("data_type"), node)
    grid = document.get("chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    chunks = configuration.get("chunk_shape") if isinstance(configuration, dict) else None
    chunk_shape = _extent(chunks, node, "chunk shape") if chunks is not None else ()
    separator, prefixed = _key_encoding(document.get("chunk_key_encoding"), node)
    codecs = document.get("codecs")
    pipeline = Pipeline.from_json(codecs, dtype)
    inner: tuple[int, ...] | None = None
    index_at: Literal["start", "end"] | None = None
    if pipeline is None and isinstance(codecs, list) and len(codecs) == 1 and isinstance(codecs[0], dict):
        configuration = codecs[0].get("configuration")
        if codecs[0].get("name") == "sharding_indexed" and isinstance(configuration, dict):
            inner = _extent(configuration.get("chunk_shape"), node, "inner chunk shape")
            index_at = "start" if configuration.get("index_location") == "start" else "end"
            if _plain_index(configuration.get("index_codecs")):
                pipeline = Pipeline.from_json(configuration.get("codecs"), dtype)
    if (
        len(chunk_shape) != len(shape)
        or not isinstance(grid, dict)
        or grid.get("name") != "regular"
        or document.get("storage_transformers")
    ):
        pipeline = None
    if any(n < 1 for n in (*chunk_shape, *(inner or ()))):
        raise ContractError(node, "a chunk extent is below 1", found=str(list(chunk_shape)))
    attributes = dict(document["attributes"])
    empty = attributes.pop(_EMPTY, ())
    return ArrayMetadata(
        shape,
        dtype,
        chunk_shape,
        pipeline,
        inner,
        index_at,
        attributes,
        separator,
        prefixed,
        document.get("fill_value"),
        document,
        frozenset(each for each in empty if type(each) is int) if isinstance(empty, (list, tuple)) else frozenset(),
    )


def _extent(value: Any, node: str, what: str) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(n) is not int or not 0 <= n < 2**63 for n in value):
        raise ContractError(node, f"the {what} is not a list of non-negative integers", found=repr(value)[:60])
    return tuple(value)


def _dtype(value: Any, node: str) -> str:
    name = value.get("name") if isinstance(value, dict) else value
    dtype = _BY_ZARR.get(name) if isinstance(name, str) and not isinstance(value, dict) else None
    if dtype is None and name == "string":
        dtype = "string"
    if dtype is None:
        raise ContractError(
            node, "the array's data type is not one of the contract's", found=str(name), expected=", ".join(_BY_ZARR)
        )
    return dtype


def _key_encoding(value: Any, node: str) -> tuple[str, bool]:
    if not isinstance(value, dict) or value.get("name") not in ("default", "v2"):
        raise ContractError(node, "unknown chunk key encoding", found=repr(value)[:60])
    prefixed = value["name"] == "default"
    configuration = value.get("configuration")
    separator = configuration.get("separator") if isinstance(configuration, dict) else None
    separator = separator if separator is not None else ("/" if prefixed else ".")
    if separator not in ("/", "."):
        raise ContractError(node, "unknown chunk key separator", found=repr(separator))
    return separator, prefixed


def _plain_index(codecs: Any) -> bool:
    pipeline = Pipeline.from_json(codecs, "u64")
    return pipeline is not None and not pipeline.big_endian and [s.name for s in pipeline.stages] == ["crc32c"]


def _is_default_fill(fill: Any, dtype: str) -> bool:
    if dtype in ("c64", "c128"):
        return isinstance(fill, list) and len(fill) == 2 and all(_is_zero(part) for part in fill)
    if dtype == "string":
        return bool(fill == "")
    return fill is False if dtype == "bool" else _is_zero(fill)


def _is_zero(value: Any) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0 and math.copysign(1.0, value) > 0
    )
