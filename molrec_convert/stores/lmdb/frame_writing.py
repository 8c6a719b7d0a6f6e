"""Frame bytes, the writing side: texts of headers, buffers of payloads, and the values they make.

What stands in a value is told in `frame_bytes`. Source: Collection and its LMDB file, "Frame bytes".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.frame import Block, Box, Column, Frame
from molrec_convert.model.precision import stored
from molrec_convert.model.tags import Meta, check_json, to_typed_json
from molrec_convert.stores.lmdb.frame_layout import padding
from molrec_convert.stores.lmdb.header_json import to_json

__all__ = [
    "MAGIC",
    "ColumnShape",
    "assemble",
    "block_text",
    "box_text",
    "column_buffers",
    "encode_frame",
    "encode_tables",
    "grid_values",
    "typed_meta",
    "weave",
]

MAGIC = b"MRF1"
#: The zeros that follow a buffer, by their number.
ZEROS = [bytes(n) for n in range(8)]


class ColumnShape(NamedTuple):
    """What the header says of a column, its position and texts aside."""

    name: str
    dtype: str
    trailing: tuple[int, ...] = ()
    masked: bool = False
    precision: float | None = None


@functools.lru_cache(4096)
def block_text(
    name: str,
    count: int,
    columns: tuple[ColumnShape, ...],
    structural_shape: tuple[int, ...] | None = None,
    targets: tuple[tuple[str, str], ...] = (),
    attributes: str = "",
    base: int = 0,
) -> tuple[tuple[str, ...], int]:
    """The header entry of a block whose buffers begin at `base`, and where they end.

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
        text += f',"attributes":{attributes}'
    pieces.append(text + "}")
    return tuple(pieces), base


def assemble(blocks: str, meta: str, tail: str, buffers: Iterable[Any]) -> bytes:
    """One value from the texts of its header and the buffers of its payload, padded already.

    `blocks` and `meta` are what stands between the braces, `tail` the further keys, each after a comma.
    """
    header = f'{{"blocks":{{{blocks}}},"meta":{{{meta}}}{tail}}}'.encode()
    size = len(header)
    return b"".join((MAGIC, size.to_bytes(4, "little"), header, ZEROS[-size % 8], *buffers))


def grid_values(column: Column) -> NDArray[Any]:
    """The values a writer stores: on the grid of the declared precision; those under null rows as they are."""
    if column.precision is None:
        return column.values
    values = stored(column.values, column.precision)
    if column.validity is not None:
        values[~column.validity] = column.values[~column.validity]
    return values


def column_buffers(values: NDArray[Any], mask: NDArray[np.bool_] | None) -> list[Any]:
    """The buffers of a numeric column and its mask, each with the zeros that follow it."""
    buffers: list[Any] = []
    for array in (values, mask):
        if array is not None and array.dtype.kind != "T" and array.nbytes:
            buffers.append(np.ascontiguousarray(array).data)
            if array.nbytes % 8:
                buffers.append(ZEROS[-array.nbytes % 8])
    return buffers


def encode_blocks(blocks: Mapping[str, Block]) -> tuple[str, list[Any]]:
    """Header text and payload buffers of blocks, their precisions, targets and attributes included."""
    texts: list[str] = []
    buffers: list[Any] = []
    base = 0
    for name, block in blocks.items():
        columns = tuple(
            ColumnShape(key, c.dtype, c.trailing, c.validity is not None, c.precision)
            for key, c in block.columns.items()
        )
        attributes = to_json(block.attributes) if block.attributes else ""
        pieces, base = block_text(
            name, block.count, columns, block.structural_shape, tuple(block.targets.items()), attributes, base
        )
        strings = []
        for column in block.columns.values():
            values = grid_values(column)
            if values.dtype.kind == "T":
                strings.append(to_json(values.reshape(-1).tolist()))
            buffers += column_buffers(values, column.validity)
        texts.append(weave(pieces, strings))
    return ",".join(texts), buffers


def weave(pieces: Sequence[str], strings: Sequence[str]) -> str:
    """The entry of a block with the lists of its texts in place."""
    if not strings:
        return pieces[0]
    woven = [text for pair in zip(pieces, strings, strict=False) for text in pair]
    return "".join((*woven, pieces[-1]))


def typed_meta(meta: Meta, node: str) -> str:
    """A typed meta document as it stands between the braces of `meta`."""
    document = {key: to_typed_json(value, meta.tag(key), f"{node}.{key}") for key, value in meta.items()}
    return to_json(document)[1:-1]


def encode_frame(frame: Frame, node: str = "system") -> bytes:
    """A snapshot with the tags of its meta, its cell, and the precisions of its columns. It must have been checked."""
    blocks, buffers = encode_blocks(frame.blocks)
    tail = f',"meta_types":{to_json(frame.meta.tags)}' if len(frame.meta) else ""
    if frame.box is not None:
        tail += f',"box":{box_text(frame.box)}'
    return assemble(blocks, typed_meta(frame.meta, node), tail, buffers)


def encode_tables(document: Mapping[str, Any], tables: Mapping[str, Block], node: str) -> bytes:
    """Blocks beside a plain JSON document."""
    check_json(document, node)
    blocks, buffers = encode_blocks(tables)
    return assemble(blocks, to_json(document)[1:-1], "", buffers)


def box_text(box: Box) -> str:
    """A cell as JSON: the vectors, and what is off its default."""
    document: dict[str, Any] = {"vectors": _typed_numbers(box.vectors)}
    if box.origin.any() or np.signbit(box.origin).any():
        document["origin"] = _typed_numbers(box.origin)
    if not box.boundary.all():
        document["boundary"] = box.boundary.tolist()
    if not box.defined:
        document["cell_defined"] = False
    return to_json(document)


def _typed_numbers(values: NDArray[np.float64]) -> Any:
    if values.ndim > 1:
        return [_typed_numbers(row) for row in values]
    return [to_typed_json(value, "f64") for value in values.tolist()]
