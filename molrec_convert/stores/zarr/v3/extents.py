"""Chunk and shard extents of the writer. Source: Zarr V3 binding, "Writer's extents"."""

from __future__ import annotations

import math
from dataclasses import dataclass

from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration
from molrec_convert.model.dtypes import DTYPES

__all__ = ["DENSE", "MOST_CHUNKS", "Extents", "block_rows_per_chunk", "column_extents", "fixed_extents"]

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
    """Extents of an array of fixed size: 512 KiB pieces, one shard once there are more than four."""
    if dtype == "string" or not shape or shape[0] == 0:
        return Extents(max(1, shape[0] if shape else 1))
    row_bytes = max(1, DTYPES[dtype].itemsize * math.prod(shape[1:]))
    rows = min(shape[0], max(1, _FIXED_CHUNK // row_bytes))
    chunks = -(-shape[0] // rows)
    return Extents(rows, chunks if chunks > 4 else 0)


def block_rows_per_chunk(block: BlockDeclaration, frame_rows: int) -> int:
    """Rows of an inner chunk of every column of a trajectory block: whole frames of at least 16 KiB.

    `frame_rows` is the row count of the representative frame; masks do not count as the narrowest column.
    """
    narrowest = min((row_bytes(column) for column in block.columns.values()), default=1)
    if frame_rows == 0:
        return max(1, _TRAJECTORY_CHUNK // narrowest)
    least = max(frame_rows, -(-_TRAJECTORY_CHUNK // narrowest))
    return -(-least // frame_rows) * frame_rows


def column_extents(rows_per_chunk: int, bytes_per_row: int) -> Extents:
    """Extents of one column of a trajectory block, or of a mask (one byte a row)."""
    chunk_bytes = rows_per_chunk * bytes_per_row
    return Extents(rows_per_chunk, max(1, min(MOST_CHUNKS, _SHARD // chunk_bytes)))


def row_bytes(column: ColumnDeclaration) -> int:
    """Bytes of one row (a string counts 16)."""
    return max(1, DTYPES[column.dtype].itemsize * math.prod(column.trailing))
