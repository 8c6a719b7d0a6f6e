"""Chunk and shard extents: the numbers the seed prints, and the limits they run into."""

from __future__ import annotations

import pytest

from molrec_convert.model import BlockDeclaration, ColumnDeclaration
from molrec_convert.stores.zarr.v3.metadata import (
    DENSE,
    Extents,
    block_rows_per_chunk,
    column_extents,
    fixed_extents,
    row_bytes,
)


def block(*columns: ColumnDeclaration) -> BlockDeclaration:
    return BlockDeclaration({f"c{n}": column for n, column in enumerate(columns)})


F64, BOOL, TEXT, I32 = (ColumnDeclaration(name) for name in ("f64", "bool", "string", "i32"))


@pytest.mark.parametrize(
    ("declared", "frame_rows", "rows"),
    [
        (block(F64, F64), 4, 2048),  # vibration: atoms
        (block(TEXT, F64), 5, 2050),  # reaction: atoms
        (block(ColumnDeclaration("u64")), 3, 2049),  # reaction: bonds
        (block(TEXT), 5, 1025),  # reaction: atom_types
        (block(ColumnDeclaration("u64")), 1, 2048),  # reaction: insertions
        (block(F64, I32), 100, 4100),  # the narrowest column decides
        (block(ColumnDeclaration("f64", nullable=True)), 4, 2048),  # its mask does not
        (block(BOOL), 3, 16386),
        (block(F64), 32000, 32000),
        (block(F64), 0, 2048),
        (block(TEXT), 0, 1024),
        (block(ColumnDeclaration("f64", (3, 1000))), 0, 1),
        (block(ColumnDeclaration("f64", (0,))), 3, 16386),
        (block(), 7, 16387),
    ],
)
def test_rows_of_a_chunk_are_whole_frames(declared: BlockDeclaration, frame_rows: int, rows: int) -> None:
    assert block_rows_per_chunk(declared, frame_rows) == rows


@pytest.mark.parametrize(
    ("rows", "nbytes", "chunks"),
    [(2048, 8, 4096), (2050, 16, 4096), (32000, 8, 1048), (32000, 24, 349), (32000, 1, 4096), (10**8, 8, 1)],
)
def test_chunks_of_a_shard(rows: int, nbytes: int, chunks: int) -> None:
    assert column_extents(rows, nbytes) == Extents(rows, chunks)


def test_dense_arrays() -> None:
    assert (DENSE.rows, DENSE.shard_rows) == (1024, 262144)


@pytest.mark.parametrize(
    ("dtype", "shape", "extents"),
    [
        ("f64", (3,), Extents(3)),
        ("f64", (65536,), Extents(65536)),
        ("f64", (65537,), Extents(65536)),
        ("f64", (4 * 65536,), Extents(65536)),
        ("f64", (4 * 65536 + 1,), Extents(65536, 5)),
        ("f64", (3, 3), Extents(3)),
        ("f64", (100, 10**6), Extents(1, 100)),
        ("f64", (3, 10**6), Extents(1)),
        ("f64", (5, 0), Extents(5)),
        ("bool", (10**6,), Extents(524288)),
        ("string", (10**6,), Extents(10**6)),
        ("f64", (0,), Extents(1)),
        ("f64", (), Extents(1)),
    ],
)
def test_arrays_of_fixed_size(dtype: str, shape: tuple[int, ...], extents: Extents) -> None:
    assert fixed_extents(dtype, shape) == extents


def test_a_text_counts_sixteen_bytes() -> None:
    assert row_bytes(TEXT) == 16
    assert row_bytes(ColumnDeclaration("c128", (3,))) == 48
