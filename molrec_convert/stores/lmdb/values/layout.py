"""Headers of frame bytes: compact UTF-8 JSON out, strictly JSON in, and what one says of its blocks.

Where each column lies is held against every rule that needs no values. Layouts are plain facts and know no buffer, so
that values of one shape share one. Source: Collection and its LMDB file, "Frame bytes".
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.files.json_text import MOST_NESTED, check_nesting
from molrec_convert.model.dtypes import DTYPES, check_precision
from molrec_convert.model.frame import check_target, references
from molrec_convert.model.names import STANDARD_DTYPES, check_name, check_standard_dtype, is_unicode

__all__ = [
    "ALIGNMENT",
    "BlockLayout",
    "ColumnLayout",
    "Layout",
    "Name",
    "from_utf8",
    "mapping",
    "node_text",
    "padding",
    "parse_blocks",
    "parse_column",
    "to_json",
]

#: What a value is called in errors: a text, or the letter and number of its key, put together when it is needed.
Name = str | tuple[str, int]


def _refuse_constant(token: str) -> Any:
    raise ValueError(f"{token} is no JSON value")


#: The decoder's own scanner: no copies, no search for blanks around the document.
_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder(parse_constant=_refuse_constant))["scan_once"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def _make_to_json() -> Callable[[Any], str]:
    """Return the encoder's own C half, kept: `JSONEncoder.encode` makes a new one for every document."""
    parts = vars(json.encoder)
    make, quote = parts.get("c_make_encoder"), parts.get("c_encode_basestring")
    if make is None or quote is None:
        return _ENCODER.encode
    pieces = make(None, _ENCODER.default, quote, None, ":", ",", False, False, False)

    def encode(document: Any) -> str:
        return "".join(pieces(document, 0))

    return encode


#: A plain document as compact text. The caller has held it against `check_json`.
to_json = _make_to_json()


def node_text(name: Name) -> str:
    """Return a name of a value as text: `("f", 3)` is `f[3]`."""
    return name if isinstance(name, str) else f"{name[0]}[{name[1]}]"


def from_utf8(data: bytes, name: Name) -> Any:
    """Return the document in UTF-8 bytes; refused unless it is one JSON value and nothing more."""
    try:
        text = data.decode()
        document, end = _scan(text, 0)
        check_nesting(document, text)
    except UnicodeDecodeError as error:
        raise ContractError(node_text(name), f"is not valid UTF-8: {error.reason} at byte {error.start}") from None
    except StopIteration:
        raise ContractError(node_text(name), "is not valid JSON: no value where one should begin") from None
    except RecursionError:
        raise ContractError(node_text(name), f"is nested deeper than {MOST_NESTED} levels") from None
    except ValueError as error:
        raise ContractError(node_text(name), f"is not valid JSON: {error}") from None
    if end != len(text) and text[end:].strip():
        raise ContractError(node_text(name), "is not valid JSON: something follows the document")
    return document


def mapping(document: Any, node: str) -> dict[str, Any]:
    """Return `document`, refused unless it is a JSON object."""
    if not isinstance(document, dict):
        raise ContractError(node, "is not a JSON object", found=type(document).__name__)
    return document


#: Buffers and the payload start at multiples of this many bytes.
ALIGNMENT = 8
#: More bytes than any array can have: shapes beyond that cannot be formed, even with a zero among the axes.
_LARGEST = 2**62
_COLUMN_KEYS = frozenset({"dtype", "shape", "offset", "values", "validity", "precision"})


class ColumnLayout(NamedTuple):
    """One column: `offset` and `validity` are byte positions in the payload; a string column has `values` instead."""

    dtype: str
    shape: tuple[int, ...]
    offset: int | None = None
    nbytes: int = 0
    validity: int | None = None
    precision: float | None = None
    values: list[str] | None = None
    extra: dict[str, Any] | None = None
    #: Number of values, and their numpy dtype.
    items: int = 0
    numpy: np.dtype[Any] = DTYPES["string"].numpy


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """One block: row count, structural shape, columns in order, targets, other attributes.

    `references` maps referencing columns to their targets: declared ones and standard endpoints. `plain` has the
    columns of one f64 per row with their first and last place in the payload, counted in f64.
    """

    count: int
    columns: dict[str, ColumnLayout]
    structural_shape: tuple[int, ...] | None = None
    targets: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    plain: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The blocks of one header, the payload bytes they need, whether any column is of strings, which blocks refer."""

    blocks: dict[str, BlockLayout]
    extent: int
    has_strings: bool
    referring: tuple[str, ...] = ()


def padding(size: int) -> int:
    """Return zero bytes that follow `size` bytes up to the next aligned position."""
    return -size % ALIGNMENT


def parse_blocks(document: Any, node: str) -> Layout:
    """Return the layout a header's `blocks` describe, refused where it breaks a rule."""
    blocks: dict[str, BlockLayout] = {}
    extent, has_strings = 0, False
    for name, entry in mapping(document, f"{node}: blocks").items():
        here = f"{node}/{name}"
        check_name(name, here)
        if name == "box":
            raise ContractError(here, "the name is reserved for the cell, which is no block")
        block = _parse_block(mapping(entry, here), here)
        blocks[name] = block
        for column in block.columns.values():
            extent = max(extent, _end(column, block.count))
            has_strings |= column.values is not None
    return Layout(blocks, extent, has_strings, tuple(name for name, block in blocks.items() if block.references))


def _parse_block(entry: dict[str, Any], node: str) -> BlockLayout:
    count = entry.get("count")
    if type(count) is not int or not 0 <= count < _LARGEST:
        raise ContractError(node, "a block has a count of rows", found=repr(count)[:60])
    shape = entry.get("structural_shape")
    if shape is not None:
        if not _is_shape(shape) or math.prod(shape) != count:
            raise ContractError(
                node, "the structural shape does not multiply to the count", found=repr(shape)[:60], expected=str(count)
            )
        shape = tuple(shape)
    columns = {
        name: parse_column(value, name, count, f"{node}/{name}")
        for name, value in mapping(entry.get("columns"), f"{node}: columns").items()
    }
    targets = mapping(entry.get("targets", {}), f"{node}: targets")
    for name, target in targets.items():
        check_target(target, f"{node}/{name}")
        if name not in columns:
            raise ContractError(node, f"targets names a column that does not exist: {name!r}")
    found = references(columns, targets)
    for name in found:
        if columns[name].dtype != "u64":
            raise ContractError(f"{node}/{name}", "a row reference is u64", found=columns[name].dtype, expected="u64")
    attributes = mapping(entry.get("attributes", {}), f"{node}: attributes")
    plain = tuple(
        (name, (column.offset or 0) // 8, (column.offset or 0) // 8 + count)
        for name, column in columns.items()
        if column.dtype == "f64" and len(column.shape) == 1 and count
    )
    return BlockLayout(count, columns, shape, dict(targets), attributes, found, plain)


def parse_column(entry: Any, name: str, count: int, node: str) -> ColumnLayout:
    """Return one column of a block of `count` rows."""
    entry = mapping(entry, node)
    _check_column_name(name, node)
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ContractError(node, "unknown dtype", found=repr(dtype)[:60], expected=", ".join(DTYPES))
    if not _is_shape(shape) or not shape or shape[0] != count:
        raise ContractError(
            node, "a column has one row per row of its block", found=repr(shape)[:60], expected=f"[{count}, …]"
        )
    if name in STANDARD_DTYPES:
        check_standard_dtype(name, dtype, node, tuple(shape[1:]))
    itemsize, items = DTYPES[dtype].itemsize, math.prod(shape)
    if len(shape) > 1 and math.prod(n for n in shape if n) * itemsize >= _LARGEST:
        raise ContractError(node, "the shape is larger than any array", found=repr(shape)[:60])
    validity = None if "validity" not in entry else _position(entry["validity"], f"{node}: validity")
    precision = entry.get("precision")
    if precision is not None:
        precision = check_precision(precision, dtype, node)
    extra = {key: value for key, value in entry.items() if key not in _COLUMN_KEYS} or None
    if dtype == "string":
        texts = _texts(entry.get("values"), items, node)
        return ColumnLayout(dtype, tuple(shape), None, 0, validity, None, texts, extra, items)
    offset = _position(entry.get("offset"), f"{node}: offset")
    nbytes = items * itemsize
    numpy = DTYPES[dtype].numpy
    return ColumnLayout(dtype, tuple(shape), offset, nbytes, validity, precision, None, extra, items, numpy)


@functools.lru_cache(1024)
def _check_column_name(name: str, node: str) -> None:
    check_name(name, node)
    if name == "_validity":
        raise ContractError(node, "the name is reserved for the masks of a block")


def _texts(values: Any, items: int, node: str) -> list[str]:
    if not isinstance(values, list) or len(values) != items:
        found = f"{len(values)} values" if isinstance(values, list) else type(values).__name__
        raise ContractError(node, "a string column lists its values", found=found, expected=f"{items} values")
    try:
        joined = "".join(values)
    except TypeError as error:
        raise ContractError(node, f"a value of a string column is no text: {error}") from None
    if not joined.isascii() and not is_unicode(joined):
        raise ContractError(node, "a value of a string column is no valid text", found=ascii(joined)[:60])
    return values


def _position(value: Any, node: str) -> int:
    if type(value) is not int or value < 0:
        raise ContractError(node, "is not a position in the payload", found=repr(value)[:60])
    if value % ALIGNMENT:
        raise ContractError(node, f"is not a multiple of {ALIGNMENT}", found=str(value))
    return value


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)


def _end(column: ColumnLayout, count: int) -> int:
    """Return the payload bytes a column and its mask need."""
    end = 0 if column.offset is None or not column.nbytes else column.offset + column.nbytes
    return end if column.validity is None else max(end, column.validity + count)
