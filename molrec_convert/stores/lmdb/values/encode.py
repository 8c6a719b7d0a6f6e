"""Frame bytes, the writing side: texts of headers, buffers of payloads, and the values they make.

What stands in a value is told in `values/decode.py`. A header's blocks are the same text for all values of one shape,
up to the texts of their string columns: it is made once and kept, with the knowledge that such a shape breaks no rule.
Source: Collection and its LMDB file, "Frame bytes".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES, stored
from molrec_convert.model.frame import Block, Box, Column, Frame, check_references, references
from molrec_convert.model.tags import Meta, check_json, to_typed_json
from molrec_convert.stores.lmdb.values.layout import padding, to_json

__all__ = [
    "MAGIC",
    "ColumnShape",
    "SnapshotShape",
    "assemble",
    "block_text",
    "box_text",
    "column_buffers",
    "encode_frame",
    "encode_known",
    "encode_shaped",
    "encode_tables",
    "grid_values",
    "interleave_strings",
    "number_text",
    "tags_text",
    "texts_json",
]

MAGIC = b"MRF1"
#: The zeros that follow a buffer, by their number.
ZEROS = [bytes(n) for n in range(8)]
_EXACT = 2**53


class ColumnShape(NamedTuple):
    """What the header says of a column, its position and texts aside."""

    name: str
    dtype: str
    trailing: tuple[int, ...] = ()
    masked: bool = False
    precision: float | None = None


def block_text(
    name: str,
    count: int,
    columns: Iterable[ColumnShape],
    structural_shape: tuple[int, ...] | None = None,
    targets: Mapping[str, str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    base: int = 0,
) -> tuple[tuple[str, ...], int]:
    """Return the header entry of a block whose buffers begin at `base`, and where they end.

    The entry comes in pieces: the lists of the texts of its string columns go between them.
    """
    pieces: list[str] = []
    shape = None if structural_shape is None else list(structural_shape)
    text = f'{to_json(name)}:{{"count":{count},"structural_shape":{to_json(shape)},"columns":{{'
    for position, column in enumerate(columns):
        rows = to_json([count, *column.trailing])
        text += f'{"," if position else ""}{to_json(column.name)}:{{"dtype":"{column.dtype}","shape":{rows}'
        if column.dtype == "string":
            pieces.append(text + ',"values":')
            text = ""
        else:
            text += f',"offset":{base}'
            nbytes = count * math.prod(column.trailing) * DTYPES[column.dtype].itemsize
            base += nbytes + padding(nbytes)
        if column.masked:
            text += f',"validity":{base}'
            base += count + padding(count)
        if column.precision is not None:
            text += f',"precision":{to_json(float(column.precision))}'
        text += "}"
    text += "}"
    if targets:
        text += f',"targets":{to_json(dict(targets))}'
    if attributes:
        text += f',"attributes":{to_json(dict(attributes))}'
    pieces.append(text + "}")
    return tuple(pieces), base


def assemble(blocks: str, meta: str, tail: str, buffers: Iterable[Any]) -> bytes:
    """Return one value from the texts of its header and the buffers of its payload, padded already.

    `blocks` and `meta` are what stands between the braces, `tail` the further keys, each after a comma.
    """
    header = f'{{"blocks":{{{blocks}}},"meta":{{{meta}}}{tail}}}'.encode()
    size = len(header)
    return b"".join((MAGIC, size.to_bytes(4, "little"), header, ZEROS[-size % 8], *buffers))


def interleave_strings(pieces: Sequence[str], strings: Sequence[str]) -> str:
    """Return the entry of a block with the lists of its texts in place."""
    if not strings:
        return pieces[0]
    woven = [text for pair in zip(pieces, strings, strict=False) for text in pair]
    return "".join((*woven, pieces[-1]))


def column_buffers(values: NDArray[Any], mask: NDArray[np.bool_] | None) -> list[Any]:
    """Return the buffers of a numeric column and its mask, each with the zeros that follow it."""
    buffers: list[Any] = []
    for array in (values, mask):
        if array is not None and array.dtype.kind != "T" and array.size:
            buffers.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
            if array.nbytes % 8:
                buffers.append(ZEROS[-array.nbytes % 8])
    return buffers


def grid_values(column: Column) -> NDArray[Any]:
    """Return the values a writer stores: on the grid of the declared precision; those under null rows as they are."""
    if column.precision is None:
        return column.values
    values = stored(column.values, column.precision)
    if column.validity is not None:
        values[~column.validity] = column.values[~column.validity]
    return values


def texts_json(values: NDArray[Any] | list[str]) -> str:
    """Return the list of the texts of a string column as JSON."""
    texts: list[str] = values if isinstance(values, list) else values.reshape(-1).tolist()
    if texts:
        joined = '","'.join(texts)
        # texts without anything to escape need no encoder
        if joined.isprintable() and "\\" not in joined and joined.count('"') == 2 * len(texts) - 2:
            return f'["{joined}"]'
    return to_json(texts)


def encode_frame(frame: Frame, node: str = "system") -> bytes:
    """Return a snapshot with the tags of its meta, its cell, and the precisions of its columns; refused where it is
    broken.

    Absolute references into its own section are held against its own rows.
    """
    known = encode_known(frame, node)
    if known is not None:
        return known
    blocks, buffers = _encode_blocks(frame.blocks, _check(frame, node))
    return assemble(blocks, *_besides(frame, node), buffers)


def encode_tables(document: Mapping[str, Any], tables: Mapping[str, Block], node: str) -> bytes:
    """Return blocks beside a plain JSON document; the blocks must have been checked."""
    check_json(document, node)
    blocks, buffers = _encode_blocks(tables, _shape_of(tables))
    return assemble(blocks, to_json(dict(document))[1:-1], "", buffers)


def box_text(box: Box) -> str:
    """Return a cell as JSON: the vectors, and what is off its default."""
    document: dict[str, Any] = {"vectors": _typed_numbers(box.vectors)}
    if box.origin.any() or np.signbit(box.origin).any():
        document["origin"] = _typed_numbers(box.origin)
    if not box.boundary.all():
        document["boundary"] = box.boundary.tolist()
    if not box.defined:
        document["cell_defined"] = False
    return to_json(document)


def number_text(value: float) -> str:
    """Return a number as typed JSON writes it."""
    return float.__repr__(value) if math.isfinite(value) else to_json(to_typed_json(value, "f64"))


def _typed_numbers(values: NDArray[np.float64]) -> Any:
    if np.isfinite(values).all():
        return values.tolist()
    if values.ndim > 1:
        return [_typed_numbers(row) for row in values]
    return [to_typed_json(value, "f64") for value in values.tolist()]


# Shapes of snapshots: texts that are made once


@dataclass(slots=True, eq=False)
class SnapshotShape:
    """The header entries of a snapshot's blocks, one text of those without strings, the blocks that reference rows.

    `padded` tells whether a buffer is followed by zeros; `bare` is all that stands before the buffers where there is
    nothing beside the blocks; `tables` has the rows and the column names of each block, `atoms` those rows of `atoms`.
    Equal is the same one only.
    """

    texts: tuple[tuple[str, ...], ...]
    text: str
    referring: tuple[str, ...]
    padded: bool
    bare: bytes
    tables: dict[str, tuple[int, frozenset[str]]]
    atoms: int | None


_SHAPES: dict[Any, SnapshotShape] = {}
_MOST_SHAPES = 4096


def encode_known(frame: Frame, node: str) -> bytes | None:
    """Return what `encode_frame` gives, in one pass over a snapshot of a shape that was met before.

    None for any other, and where masks, precisions or attributes are to be looked at.
    """
    shaped = encode_shaped(frame, node)
    return None if shaped is None else shaped[0]


def encode_shaped(frame: Frame, node: str) -> tuple[bytes, SnapshotShape] | None:
    """Return what `encode_known` gives, and the shape."""
    if frame.attributes:
        return None
    signature: list[Any] = [node]
    buffers: list[NDArray[Any]] = []
    strings: list[str] = []
    for name, block in frame.blocks.items():
        columns = block.columns
        if block.attributes:
            return None
        targets = tuple(block.targets.items()) if block.targets else None
        signature += (name, block._count, block.structural_shape, targets, len(columns))
        for key, column in columns.items():
            if column.validity is not None or column.precision is not None or column.attributes:
                return None
            values = column.values
            dtype = values.dtype
            signature += (key, dtype, values.shape)
            if dtype.kind == "T":
                strings.append(texts_json(values))
            else:
                buffers.append(values)
    shape = _SHAPES.get(tuple(signature))
    if shape is None:
        return None
    if shape.referring:
        _check_referring(shape, frame, node)
    parts: list[Any] = buffers
    if shape.padded:
        parts = [part for array in buffers for part in (array, ZEROS[-array.nbytes % 8]) if array.size]
    try:
        if not strings and frame.box is None and not frame.meta:
            return b"".join((shape.bare, *parts)), shape
        text = shape.text
        if strings:
            lists = iter(strings)
            text = ",".join([interleave_strings(p, [next(lists) for _ in range(len(p) - 1)]) for p in shape.texts])
        return assemble(text, *_besides(frame, node), parts), shape
    except TypeError:
        # an array that does not lie in one piece is not bytes-like
        return None


def _besides(frame: Frame, node: str) -> tuple[str, str]:
    """Return the meta of a snapshot, and what follows it in the header."""
    tags = frame.meta.tags
    tail = f',"meta_types":{tags_text(tuple(tags.items()))}' if tags else ""
    if frame.box is not None:
        tail += f',"box":{box_text(frame.box)}'
    return _meta_text(frame.meta, tags, node) if tags else "", tail


def _check(frame: Frame, node: str) -> SnapshotShape:
    """Hold a snapshot against the rules; what depends on its shape alone is done once for each shape."""
    signature: list[Any] = [node]
    for name, block in frame.blocks.items():
        if block.attributes or frame.attributes:
            frame.check(node, _absolute(frame, node))
            return _shape_of(frame.blocks)
        targets = tuple(block.targets.items()) if block.targets else None
        signature += (name, block._count, block.structural_shape, targets, len(block.columns))
        for key, column in block.columns.items():
            signature += (key, (values := column.values).dtype, values.shape)
            if column.validity is not None or column.precision is not None:
                signature.append((column.validity is None, column.precision))
    known = tuple(signature)
    shape = _SHAPES.get(known)
    if (
        shape is None
        or frame.attributes
        or any(c.attributes for b in frame.blocks.values() for c in b.columns.values())
    ):
        frame.check(node, _absolute(frame, node))
        shape = _shape_of(frame.blocks)
        if len(_SHAPES) >= _MOST_SHAPES:
            _SHAPES.clear()
        _SHAPES[known] = shape
    elif shape.referring:
        _check_referring(shape, frame, node)
    return shape


def _check_referring(shape: SnapshotShape, frame: Frame, node: str) -> None:
    blocks = {name: frame.blocks[name] for name in shape.referring}
    check_references(node, blocks, frame.rows, _absolute(frame, node))


def _absolute(frame: Frame, node: str) -> dict[str, int]:
    """Return what absolute references into the snapshot's own section are held against."""
    return {f"/{node}": 0, **{f"/{node}/{name}": rows for name, rows in frame.rows.items()}}


def _shape_of(blocks: Mapping[str, Block]) -> SnapshotShape:
    texts = []
    base = 0
    padded = False
    for name, block in blocks.items():
        columns = [
            ColumnShape(key, c.dtype, c.trailing, c.validity is not None, c.precision)
            for key, c in block.columns.items()
        ]
        text, base = block_text(
            name, block.count, columns, block.structural_shape, block.targets, block.attributes, base
        )
        texts.append(text)
        padded |= any(
            c.dtype != "string" and (c.values.nbytes % 8 or not c.values.size) for c in block.columns.values()
        )
    referring = tuple(name for name, block in blocks.items() if references(block.columns, block.targets))
    whole = ",".join(pieces[0] for pieces in texts)
    tables = {name: (block.count, frozenset(block.columns)) for name, block in blocks.items()}
    atoms = blocks["atoms"].count if "atoms" in blocks else None
    return SnapshotShape(tuple(texts), whole, referring, padded, assemble(whole, "", "", ()), tables, atoms)


def _encode_blocks(blocks: Mapping[str, Block], shape: SnapshotShape) -> tuple[str, list[Any]]:
    """Return header text and payload buffers of blocks."""
    texts: list[str] = []
    buffers: list[Any] = []
    for block, pieces in zip(blocks.values(), shape.texts, strict=True):
        strings = []
        for column in block.columns.values():
            values = column.values if column.precision is None else grid_values(column)
            if values.dtype.kind == "T":
                strings.append(texts_json(values))
                if column.validity is None:
                    continue
            buffers += column_buffers(values, column.validity)
        texts.append(interleave_strings(pieces, strings))
    return ",".join(texts), buffers


@functools.lru_cache(1024)
def tags_text(tags: tuple[tuple[str, str], ...]) -> str:
    """Return the tags of a meta document, key and tag each, as JSON."""
    return to_json(dict(tags))


def _meta_text(meta: Meta, tags: Mapping[str, str], node: str) -> str:
    """Return a typed meta document as it stands between the braces of `meta`."""
    document = {}
    for key, tag in tags.items():
        value = meta[key]
        kind = type(value)
        if kind is float and tag == "f64" and value - value == 0.0:
            document[key] = value
            continue
        if kind is not str and kind is not bool and not (kind is int and -_EXACT <= value <= _EXACT):
            value = to_typed_json(value, tag, f"{node}.{key}")
        document[key] = value
    try:
        return to_json(document)[1:-1]
    except ValueError as error:
        raise ContractError(node, f"the meta document is no JSON: {error}") from None
