"""Shards that grow: positional writes at the tail, the index rewritten in place, repaired when torn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.errors import ContractError, UnsupportedError
from molrec_convert.model.dtypes import DTYPES, same_bits, stored
from molrec_convert.stores.zarr.v3 import shards
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.array_writer import ShardAppender
from molrec_convert.stores.zarr.v3.codecs import column_pipeline
from molrec_convert.stores.zarr.v3.commit import Unsynced
from molrec_convert.stores.zarr.v3.metadata import Extents
from molrec_convert.stores.zarr.v3.shards import MISSING, index_size, pack_index, unpack_index
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage


def new(
    root: Path, rows: int = 10, chunks: int = 8, dtype: str = "f64", precision: float | None = None
) -> ShardAppender:
    pipeline = column_pipeline(dtype, precision)
    return ShardAppender.create(root, "a", pipeline, Extents(rows, chunks), Unsynced(), precision=precision)


def commit(array: ShardAppender) -> None:
    """Have every row of an array, all there is of a store, in its files."""
    array.flush()
    with mock.patch("os.fsync"):
        array._unsynced.commit()


def reader(root: Path) -> ArrayReader:
    return ArrayReader(DirectoryStorage(root), "a")


def reopened(root: Path, rows: int) -> ShardAppender:
    return ShardAppender.reopen(reader(root), rows, Unsynced())


def entries(path: Path, chunks: int) -> tuple[np.ndarray, bool]:
    return unpack_index(path.read_bytes()[: index_size(chunks)])


@settings(max_examples=40)
@given(
    parts=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["go on", "drain", "flush", "reopen"])), max_size=12),
    rows=st.integers(1, 12),
    chunks=st.integers(1, 5),
    kind=st.sampled_from(["f64", "rounded", "u64", "string", "zeros"]),
)
def test_any_sequence_of_appends_reads_back(
    tmp_path_factory: Any, parts: Any, rows: int, chunks: int, kind: str
) -> None:
    root = tmp_path_factory.mktemp("shards")
    precision = 1e-2 if kind == "rounded" else None
    dtype = "f64" if kind in ("rounded", "zeros") else kind
    array = new(root, rows, chunks, dtype, precision)
    rng = np.random.default_rng(len(parts))
    expected: list[np.ndarray] = []
    for count, then in parts:
        values = rng.integers(-5 if dtype == "f64" else 0, 5, count) * (0 if kind == "zeros" else 1)
        if dtype == "string":
            part = values.astype(str).astype(DTYPES["string"].numpy)
        else:
            part = (values / 7 if kind == "rounded" else values).astype(DTYPES[dtype].numpy)
        array.append(part)
        expected.append(stored(part, precision) if precision else part)
        if then != "go on":
            array.drain()
        if then in ("flush", "reopen"):
            commit(array)
        if then == "reopen":
            array = ShardAppender.reopen(reader(root), array.rows, Unsynced(), precision=precision)
    commit(array)
    whole = np.concatenate([np.zeros(0, DTYPES[dtype].numpy), *expected])
    assert same_bits(reader(root).read(), whole)
    assert same_bits(reader(root).read_with_zarr(), whole)
    for path in (root / "a/c").glob("*"):
        assert entries(path, chunks)[1]


def test_chunks_land_at_the_tail_and_the_index_is_rewritten_in_one_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = new(tmp_path)
    array.append(np.arange(1.0, 31.0))
    commit(array)
    writes: list[tuple[int, int]] = []
    pwritev = os.pwritev
    monkeypatch.setattr(
        shards.os,
        "pwritev",
        lambda fd, parts, at: (writes.append((at, sum(map(len, parts)))), pwritev(fd, parts, at))[1],
    )
    for name in ("pread", "preadv", "read"):
        monkeypatch.setattr(shards.os, name, lambda *_: pytest.fail("an append reads the shard"))
    size = (tmp_path / "a/c/0").stat().st_size
    array.append(np.arange(31.0, 51.0))
    commit(array)
    index = index_size(8)
    assert writes == [(size, 2 * 84), (3 * 16, index - 3 * 16)]


def test_cost_of_an_append_stays_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes written per append do not depend on how full the shard is."""
    written: list[int] = []
    pwritev = os.pwritev
    monkeypatch.setattr(
        shards.os, "pwritev", lambda fd, parts, at: (written.append(sum(map(len, parts))), pwritev(fd, parts, at))[1]
    )
    array = new(tmp_path, 1000, 256)
    costs = []
    for number in range(200):
        written.clear()
        array.append(np.full(1000, number + 1.0))
        commit(array)
        costs.append(sum(written))
    assert max(costs) <= costs[0]
    assert costs[-1] >= 8004


def test_an_unfinished_chunk_is_written_anew_and_leaves_bounded_dead_bytes(tmp_path: Path) -> None:
    array = new(tmp_path)
    for number in range(1, 26):
        array.append(np.array([float(number)]))
        commit(array)
    assert same_bits(reader(tmp_path).read(), np.arange(1.0, 26.0))
    size = (tmp_path / "a/c/0").stat().st_size
    assert size == index_size(8) + 25 * 84, "one version of the chunk for each flush, none is taken back"
    commit(array)
    assert (tmp_path / "a/c/0").stat().st_size == size, "a flush without new rows writes nothing"


def test_shards_roll_over(tmp_path: Path) -> None:
    array = new(tmp_path, 10, 2)
    array.append(np.arange(1.0, 56.0))
    commit(array)
    assert sorted(p.name for p in (tmp_path / "a/c").iterdir()) == ["0", "1", "2"]
    assert same_bits(reader(tmp_path).read(), np.arange(1.0, 56.0))


def test_values_may_change_after_a_drain(tmp_path: Path) -> None:
    for precision in (None, 1e-3):
        array = new(tmp_path / str(precision), precision=precision)
        values = np.arange(1.0, 36.0)
        array.append(values)
        array.drain()
        values[:] = -1
        commit(array)
        assert same_bits(reader(tmp_path / str(precision)).read(), np.arange(1.0, 36.0))


def test_a_zero_tail_axis(tmp_path: Path) -> None:
    array = ShardAppender.create(tmp_path, "a", column_pipeline("f64"), Extents(10, 2), Unsynced(), trailing=(0,))
    array.append(np.zeros((25, 0)))
    commit(array)
    assert reader(tmp_path).read().shape == (25, 0)
    assert reader(tmp_path).read_with_zarr().shape == (25, 0)


# Reopening.


@pytest.mark.parametrize("committed", [0, 1, 9, 10, 11, 35, 79, 80, 81, 95, 160])
def test_tails_are_cut_off(tmp_path: Path, committed: int) -> None:
    array = new(tmp_path)
    array.append(np.arange(1.0, 171.0))
    commit(array)
    again = reopened(tmp_path, committed)
    assert reader(tmp_path).shape == (committed,)
    assert len(list((tmp_path / "a/c").glob("*"))) == -(-committed // 80)
    again.append(-np.arange(1.0, 41.0))
    commit(again)
    expected = np.concatenate([np.arange(1.0, committed + 1.0), -np.arange(1.0, 41.0)])
    assert same_bits(reader(tmp_path).read(), expected)
    assert same_bits(reader(tmp_path).read_with_zarr(), expected)


def test_what_was_cut_off_does_not_come_back_as_zeros_are_appended(tmp_path: Path) -> None:
    array = new(tmp_path)
    array.append(np.arange(1.0, 171.0))
    commit(array)
    again = reopened(tmp_path, 0)
    again.append(np.zeros(200))
    commit(again)
    assert not reader(tmp_path).read().any()
    assert not reader(tmp_path).read_with_zarr().any()


def test_stale_shards_beyond_a_gap_are_removed(tmp_path: Path) -> None:
    array = new(tmp_path)
    array.append(np.concatenate([np.arange(1.0, 81.0), np.zeros(80), np.ones(40)]))
    commit(array)
    assert sorted(p.name for p in (tmp_path / "a/c").iterdir()) == ["0", "2"]
    again = reopened(tmp_path, 30)
    again.append(np.zeros(170))
    commit(again)
    assert reader(tmp_path).read().tolist() == [*range(1, 31)] + [0] * 170


@pytest.mark.parametrize("cut", range(0, index_size(1024), 4096))
@pytest.mark.parametrize("old", ["earlier index", "zeros"])
def test_an_index_torn_at_a_page_limit_loses_no_committed_chunk(tmp_path: Path, cut: int, old: str) -> None:
    """The write of an index stops at any page: entries before it are new, those behind it old."""
    array = new(tmp_path, 4, 1024)
    committed = np.arange(1.0, 2001.0) if old == "earlier index" else np.zeros(0)
    array.append(committed)
    commit(array)
    path = tmp_path / "a/c/0"
    before = path.read_bytes()[: index_size(1024)] if path.exists() else b"\0" * index_size(1024)
    array.append(np.arange(2001.0, 4001.0))
    commit(array)
    whole = path.read_bytes()
    torn = whole[:cut] + before[cut:] + whole[index_size(1024) :]
    path.write_bytes(torn)
    if not len(committed):
        again = reopened(tmp_path, 0)
        again.append(np.arange(5.0))
        commit(again)
        assert reader(tmp_path).read().tolist() == [0, 1, 2, 3, 4]
        return
    is_torn = not unpack_index(torn[: index_size(1024)])[1]
    array = reader(tmp_path)
    assert same_bits(array.read(0, 2000), committed)
    assert bool(array.warnings) == is_torn
    reopened(tmp_path, 2000)
    assert entries(path, 1024)[1], "a writer repairs it"
    repaired = reader(tmp_path)
    assert same_bits(repaired.read(), committed)
    assert same_bits(repaired.read_with_zarr(), committed)
    assert repaired.warnings == []
    assert path.stat().st_size == index_size(1024) + 500 * 36


def test_a_torn_tail_chunk_entry_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    array = new(tmp_path, 10, 600)
    array.append(np.arange(1.0, 5006.0))
    commit(array)
    path = tmp_path / "a/c/0"
    before = path.read_bytes()
    array.append(np.arange(5006.0, 5031.0))
    commit(array)
    after = path.read_bytes()
    for cut in (0, 4096, 8192, 16 * 500, 16 * 500 + 16, 16 * 502):
        path.write_bytes(after[:cut] + before[cut : index_size(600)] + after[index_size(600) :])
        assert same_bits(reader(tmp_path).read(0, 5005), np.arange(1.0, 5006.0))


def test_a_damaged_committed_chunk_is_not_repaired_away(tmp_path: Path) -> None:
    array = new(tmp_path)
    array.append(np.arange(1.0, 51.0))
    commit(array)
    path = tmp_path / "a/c/0"
    raw = bytearray(path.read_bytes())
    raw[index_size(8) + 3] ^= 1  # chunk 0
    raw[index_size(8) - 1] ^= 1  # the index' checksum
    path.write_bytes(raw)
    with pytest.raises(ContractError, match="committed chunk 0 does not stand"):
        reopened(tmp_path, 50)
    with pytest.raises(ContractError, match="checksum of a chunk"):
        reader(tmp_path).read()
    assert reader(tmp_path).read(10, 50).tolist() == [*range(11, 51)]
    assert path.read_bytes() == raw


def test_a_shard_cut_within_committed_chunks_is_refused(tmp_path: Path) -> None:
    array = new(tmp_path)
    array.append(np.arange(1.0, 51.0))
    commit(array)
    os.truncate(tmp_path / "a/c/0", index_size(8) + 200)
    with pytest.raises(ContractError, match="ends before a committed chunk"):
        reopened(tmp_path, 50)
    reopened(tmp_path, 20)
    assert reader(tmp_path).read().tolist() == [*range(1, 21)]


def test_a_wrong_index_is_read_again_before_it_is_distrusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = new(tmp_path)
    array.append(np.arange(1.0, 51.0))
    commit(array)
    path = tmp_path / "a/c/0"
    good = path.read_bytes()
    path.write_bytes(b"\xff" * 16 + good[16:])
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            path.write_bytes(good)

    monkeypatch.setattr("molrec_convert.stores.zarr.v3.shards.time.sleep", sleep)
    one = reader(tmp_path)
    assert one.read().tolist() == [*range(1, 51)]
    assert pauses == [0.002] * 3
    assert one.warnings == []
    path.write_bytes(good[: index_size(8) - 1] + b"\x00" + good[index_size(8) :])
    pauses[:] = [0.0] * 10
    other = reader(tmp_path)
    assert other.read().tolist() == [*range(1, 51)]
    assert len(pauses) == 15
    assert len(other.warnings) == 1
    assert other.warnings[0].startswith("a/c/0: ")


def test_index_arithmetic() -> None:
    table = np.full((5, 2), MISSING, np.uint64)
    table[2] = (100, 7)
    raw = pack_index(table)
    assert len(raw) == index_size(5) == 84
    assert raw[:16] == b"\xff" * 16
    back, sound = unpack_index(raw)
    assert sound
    assert np.array_equal(back, table)
    assert not unpack_index(raw[:-1] + b"x")[1]


def test_layouts_that_cannot_be_appended_to(tmp_path: Path) -> None:
    from hand_built import edit_json

    array = new(tmp_path)
    array.append(np.arange(5.0))
    commit(array)

    def at_end(document: Any) -> None:
        document["codecs"][0]["configuration"]["index_location"] = "end"

    edit_json(tmp_path / "a", at_end)
    with pytest.raises(UnsupportedError, match=r"a: .* cannot be appended to"):
        reopened(tmp_path, 5)


def test_full_disk_leaves_the_committed_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = new(tmp_path)
    array.append(np.arange(1.0, 41.0))
    commit(array)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shards.os, "pwritev", full)
        array.append(np.arange(41.0, 81.0))
        with pytest.raises(OSError, match="No space"):
            commit(array)
    assert reader(tmp_path).read().tolist() == [*range(1, 41)]
