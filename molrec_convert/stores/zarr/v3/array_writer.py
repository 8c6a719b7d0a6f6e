"""Arrays of fixed size: everything a record stores outside its trajectory.

Up to four chunks are plain chunk files; more become the inner chunks of one shard that spans the array, its index at
the end. Chunks are full size, the last one padded with the fill value; a chunk of nothing but fill values is not
stored. The array's `zarr.json` comes last: an array that can be seen is whole.
Source: Zarr V3 binding, "Writer's extents" and "Writer's pipelines".
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.dtypes import as_values, empty
from molrec_convert.stores.zarr.v3.codecs import Pipeline, crc32c, is_fill
from molrec_convert.stores.zarr.v3.extents import Extents, fixed_extents
from molrec_convert.stores.zarr.v3.metadata import array_document, chunk_key, with_empty_chunks
from molrec_convert.stores.zarr.v3.storage import write_document

__all__ = ["write_array"]

#: Index entry of an inner chunk that is not stored.
_MISSING = 2**64 - 1


def write_array(
    root: str | os.PathLike[str],
    key: str,
    values: Any,
    *,
    pipeline: Pipeline,
    extents: Extents | None = None,
    attributes: dict[str, Any] | None = None,
) -> None:
    """Write `values` as the array at `key` below `root`; nothing may be there yet.

    `extents` default to those of an array of fixed size and must cover it by one shard where they name one. Raises
    `ContractError` when the values are not of the pipeline's dtype, `OSError` when they cannot be written.
    """
    array = as_values(values, pipeline.dtype, key)
    if extents is None:
        extents = fixed_extents(pipeline.dtype, array.shape)
    if extents.chunks and extents.shard_rows < len(array):
        raise ValueError(f"a shard of {extents.shard_rows} rows cannot hold an array of {len(array)}")
    folder = Path(root, key)
    folder.mkdir(parents=True, exist_ok=True)
    document = array_document(array.shape, pipeline, extents, attributes, index_at="end")
    if extents.chunks:
        _write_shard(folder, array, pipeline, extents)
    else:
        document = with_empty_chunks(document, _write_chunks(folder, array, pipeline, extents))
    write_document(folder, document)


def _chunks(array: NDArray[Any], pipeline: Pipeline, rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Position and values of every full-size chunk that is stored."""
    if not array.size:
        return
    if not array.ndim:
        if not is_fill(array):
            yield 0, array
        return
    for position, start in enumerate(range(0, len(array), rows)):
        chunk = array[start : start + rows]
        if is_fill(chunk):
            continue
        if len(chunk) < rows:
            padded = empty(pipeline.dtype, (rows, *array.shape[1:]))
            padded[: len(chunk)] = chunk
            chunk = padded
        yield position, chunk


def _encode(pipeline: Pipeline, chunk: NDArray[Any]) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else piece.tobytes() for piece in pipeline.encode(chunk))


def _write_chunks(folder: Path, array: NDArray[Any], pipeline: Pipeline, extents: Extents) -> set[int]:
    """Write the chunks, and return the ordinals of those without a file where another one has one."""
    stored = set()
    for position, chunk in _chunks(array, pipeline, extents.rows):
        stored.add(position)
        path = folder / chunk_key((position, *(0 for _ in array.shape[1:])) if array.ndim else ())
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.write(_encode(pipeline, chunk))
    return set(range(-(-len(array) // extents.rows))) - stored if stored and array.ndim else set()


def _write_shard(folder: Path, array: NDArray[Any], pipeline: Pipeline, extents: Extents) -> None:
    index = np.full((extents.chunks, 2), _MISSING, dtype="<u8")
    path = folder / chunk_key((0,) * array.ndim)
    position = 0
    file = None
    try:
        for number, chunk in _chunks(array, pipeline, extents.rows):
            if file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = open(path, "wb")  # noqa: SIM115
            size = file.write(_encode(pipeline, chunk))
            index[number] = position, size
            position += size
        if file is not None:
            raw = index.tobytes()
            file.write(raw + crc32c(raw))
    finally:
        if file is not None:
            file.close()
