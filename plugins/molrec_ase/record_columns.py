"""A chunk of configurations as the columns of their records: what `collection` makes of it one by one, all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import Chunk
from molrec_ase.names import IDENTITY
from molrec_ase.trajectory import batch_of
from molrec_ase.values import tag_of
from molrec_convert.model import BoxUpdates, Coded, Declaration, RecordColumns
from molrec_convert.quantities.elements import SYMBOLS

__all__ = ["record_columns"]

#: Types of values whose tag is that of all values of the type.
_TAGS = {str: "string", float: "f64", bool: "bool", dict: "json", list: "json"}


def record_columns(chunk: Chunk, declaration: Declaration, kinds: Mapping[str, str]) -> RecordColumns | None:
    """The records of a chunk; None where they are not alike. `kinds`: the dtypes of the columns of the index."""
    size = len(chunk)
    if not size or any(chunk.metas):
        return None
    if any(time is None for time in chunk.times) != (chunk.times[0] is None):
        return None
    names = [name for name in IDENTITY if name in chunk.columns]
    if any(name in chunk.present for name in names):
        return None
    times = None if chunk.times[0] is None else np.array(chunk.times, np.float64)
    steps = np.array([0 if step is None else step for step in chunk.steps], np.int64)
    frames = batch_of(chunk, declaration, steps, times, np.arange(size))
    cells = chunk.boundary.any(1) | chunk.vectors.view(np.uint64).any((1, 2)) | chunk.origin.any(1)
    if cells.any():
        where = np.flatnonzero(cells)
        frames.box = BoxUpdates(where, chunk.vectors[where], chunk.origin[where], chunk.boundary[where])
    identity: dict[str, NDArray[Any] | Coded] = {}
    if chunk.numbers is not None:
        identity["element"] = Coded(chunk.numbers, SYMBOLS)
    identity |= {name: chunk.columns[name] for name in names}
    said = {
        key: (chunk.values[key], _tags(chunk.values[key]))
        for key in sorted(chunk.values.keys() - declaration.meta.keys())
    }
    own = {name: _own(said.get(name), dtype, size) for name, dtype in kinds.items()}
    return RecordColumns(declaration, chunk.counts, frames, identity, said, own)


def _tags(values: list[Any]) -> list[str]:
    types = set(map(type, values))
    if len(types) == 1:
        (kind,) = types
        if kind is int:
            tag = "i64" if min(values) >= -(2**63) and max(values) < 2**63 else None
        else:
            tag = _TAGS.get(kind)
        if tag is not None:
            return [tag] * len(values)
    return ["" if value is None else tag_of(value) for value in values]


def _own(said: tuple[list[Any], list[str]] | None, dtype: str, size: int) -> list[Any]:
    """The values of an index column."""
    if said is None:
        return [None] * size
    return [float(value) if dtype == "f64" and type(value) is int else value for value in said[0]]
