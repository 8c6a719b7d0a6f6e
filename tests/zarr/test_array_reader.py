"""Reading arrays: the direct path and the Zarr library give the same values, and neither trusts what a store claims."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_built import edit_json

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES, same_bits
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader, read_together
from molrec_convert.stores.zarr.v3.array_writer import ShardAppender
from molrec_convert.stores.zarr.v3.codecs import Pipeline, Stage, column_pipeline, dense_pipeline
from molrec_convert.stores.zarr.v3.commit import Unsynced
from molrec_convert.stores.zarr.v3.metadata import Extents, new_array
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage, write_document
from molrec_convert.stores.zarr.v3.zip_storage import ZipStorage

SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (37,), (37, 3), (5, 2, 3), (4, 0)]


def sample(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(sum(shape) + len(dtype))
    if dtype == "string":
        values = rng.integers(0, 3, shape).astype(str).astype(DTYPES["string"].numpy)
    else:
        values = np.asarray(rng.integers(0, 100, shape)).astype(DTYPES[dtype].numpy)
    if shape and shape[0] > 1:
        values[: shape[0] // 2] = "" if dtype == "string" else 0
    return np.asarray(values)


def foreign(root: Path, name: str, values: np.ndarray, **options: Any) -> ArrayReader:
    """An array stored by the Zarr library."""
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = values.dtype.kind == "T"
        array = zarr.create_array(
            zarr.storage.LocalStore(root / name),
            shape=values.shape,
            dtype=str if text else values.dtype,
            fill_value="" if text else None,
            **options,
        )
        array[...] = values
    return ArrayReader(DirectoryStorage(root), name)


def both_ways(reader: ArrayReader, values: np.ndarray) -> None:
    for read in (reader.read, reader.read_with_zarr):
        assert same_bits(read(), values)
        if values.ndim and len(values) > 4:
            for start, stop in ((0, 1), (3, 30), (len(values) - 1, len(values)), (2, 2), (1, len(values) + 9)):
                assert same_bits(read(start, stop), values[start:stop])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "dtype", ["f64", "bool", "string", *(pytest.param(name, marks=pytest.mark.slow) for name in ("i16", "u64", "c64"))]
)
def test_layouts_of_the_zarr_library(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    from zarr.codecs import Crc32cCodec, GzipCodec, ZstdCodec

    values = sample(dtype, shape)
    for number, (rows, per_shard, compressors, separator) in enumerate(
        itertools.product(
            (1, 4, 40), (None, 3), ((), (GzipCodec(level=1), Crc32cCodec()), (ZstdCodec(level=1),)), ("/", ".")
        )
    ):
        chunk = tuple(max(1, min(rows, n)) if axis == 0 else max(1, n) for axis, n in enumerate(shape))
        shards = None if per_shard is None or not shape else (chunk[0] * per_shard, *chunk[1:])
        reader = foreign(
            tmp_path,
            f"a{number}",
            values,
            chunks=chunk,
            shards=shards,
            compressors=compressors,
            chunk_key_encoding={"name": "default", "separator": separator},
        )
        assert reader.direct
        both_ways(reader, values)


def test_layouts_left_to_the_library_give_the_same_values(tmp_path: Path) -> None:
    from zarr.codecs import BytesCodec, ShardingCodec, TransposeCodec

    values = sample("f64", (37, 4, 3))
    readers = [
        foreign(tmp_path, "transposed", values, chunks=(5, 4, 3), filters=[TransposeCodec(order=(2, 0, 1))]),
        foreign(tmp_path, "cut", values, chunks=(5, 2, 3)),
        foreign(tmp_path, "wide", values, chunks=(5, 2, 3), shards=(10, 4, 3)),
        foreign(tmp_path, "nested", values, chunks=(10, 4, 3), serializer=ShardingCodec(chunk_shape=(5, 2, 3))),
    ]
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled = zarr.create_array(
            zarr.storage.LocalStore(tmp_path / "filled"),
            shape=(9,),
            chunks=(2,),
            dtype="f8",
            fill_value=np.nan,
            serializer=BytesCodec(endian="big"),
        )
        filled[3:5] = [1.0, -0.0]
    for reader in readers:
        assert not reader.direct
        both_ways(reader, values)
    reader = ArrayReader(DirectoryStorage(tmp_path), "filled")
    assert not reader.direct
    both_ways(reader, np.array([np.nan] * 3 + [1.0, -0.0] + [np.nan] * 4))


def test_v2_chunk_keys(tmp_path: Path) -> None:
    values = sample("i16", (37, 3))
    for separator in (".", "/"):
        reader = foreign(
            tmp_path,
            f"v{ord(separator)}",
            values,
            chunks=(5, 3),
            chunk_key_encoding={"name": "v2", "separator": separator},
        )
        both_ways(reader, values)
    both_ways(
        foreign(tmp_path, "scalar", np.array(5), chunk_key_encoding={"name": "v2", "separator": "."}), np.array(5)
    )


def test_big_endian_arrays(tmp_path: Path) -> None:
    from zarr.codecs import BytesCodec, GzipCodec

    for dtype in ("f64", "i16", "u64", "c128", "c64"):
        values = sample(dtype, (37, 2))
        for compressors in ((), (GzipCodec(level=1),)):
            reader = foreign(
                tmp_path,
                f"{dtype}{len(compressors)}",
                values,
                chunks=(5, 2),
                compressors=compressors,
                serializer=BytesCodec(endian="big"),
            )
            assert reader.direct
            both_ways(reader, values)


def appended(
    root: Path, values: np.ndarray, rows: int, per_shard: int, pipeline: Pipeline, key: str = "a"
) -> ArrayReader:
    """An array stored by the writer's own appender."""
    array = ShardAppender.create(root, key, pipeline, Extents(rows, per_shard), Unsynced(), trailing=values.shape[1:])
    array.append(values)
    array.flush()
    array._unsynced.commit()
    return ArrayReader(DirectoryStorage(root), key)


@pytest.mark.parametrize("dtype", ["f64", "u64", "string", "bool"])
def test_arrays_of_the_writer_in_a_directory_and_in_a_zip(tmp_path: Path, dtype: str) -> None:
    import zipfile

    values = sample(dtype, (1000, 2))
    reader = appended(tmp_path / "r", values, 16, 7, column_pipeline(dtype))
    both_ways(reader, values)
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as packed:
        for path in sorted((tmp_path / "r").rglob("*")):
            if path.is_file():
                packed.write(path, str(path.relative_to(tmp_path / "r")))
    both_ways(ArrayReader(ZipStorage(tmp_path / "r.zip"), "a"), values)
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted((tmp_path / "r").rglob("*")):
            if path.is_file():
                packed.write(path, str(path.relative_to(tmp_path / "r")))
    both_ways(ArrayReader(ZipStorage(tmp_path / "c.zip"), "a"), values)


def test_several_arrays_at_once_and_parts_in_any_order(tmp_path: Path) -> None:
    values = [np.random.default_rng(n).random(50_000) for n in range(3)]
    readers = [
        appended(tmp_path, v, 2100, 9, column_pipeline("f64", 1e-300 if n else None), f"a{n}")
        for n, v in enumerate(values)
    ]
    for reader, expected in zip(read_together([(r, 10, 49_000) for r in readers]), values, strict=True):
        assert same_bits(reader, expected[10:49_000])
    rng = np.random.default_rng(1)
    for start, length in zip(rng.integers(0, 49_000, 200).tolist(), rng.integers(0, 900, 200).tolist(), strict=True):
        for reader, expected in zip(readers, values, strict=True):
            part = reader.read(start, start + length)
            assert same_bits(part, expected[start : start + length])
            part[:] = -1.0  # what is handed out is the caller's


def test_read_only_the_chunks_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = appended(tmp_path, np.arange(10_000.0), 100, 50, column_pipeline("f64"))
    reader.read(0, 1)
    asked: list[int] = []
    storage = DirectoryStorage
    ranged, into = storage.read_range, storage.read_into

    def spy_range(self: Any, key: str, start: int, length: int) -> bytes:
        asked.append(length)
        return ranged(self, key, start, length)

    def spy_into(self: Any, key: str, start: int, buffers: Any) -> int:
        asked.append(sum(b.nbytes for b in buffers))
        return into(self, key, start, buffers)

    monkeypatch.setattr(storage, "read_range", spy_range)
    monkeypatch.setattr(storage, "read_into", spy_into)
    reader.read(250, 260)
    assert asked == [804]
    asked.clear()
    reader.read(300, 600)
    assert asked == [3 * 804], "chunks that lie together are one read"


def test_chunks_of_zeros_have_no_file(tmp_path: Path) -> None:
    values = np.zeros(1000)
    reader = appended(tmp_path, values, 10, 5, column_pipeline("f64"))
    assert not (tmp_path / "a/c").exists()
    both_ways(reader, values)
    values[505] = -0.0
    reader = appended(tmp_path, values, 10, 5, column_pipeline("f64"), "b")
    assert [p.name for p in (tmp_path / "b/c").iterdir()] == ["10"]
    both_ways(reader, values)


# What a store claims.


def test_a_bad_chunk_checksum_is_refused_both_ways(tmp_path: Path) -> None:
    for name, pipeline in {
        "raw": column_pipeline("f64"),
        "rounded": column_pipeline("f64", 1e-3),
        "dense": dense_pipeline("f64"),
    }.items():
        reader = appended(tmp_path, np.arange(1.0, 101.0), 10, 20, pipeline, name)
        path = tmp_path / name / "c" / "0"
        raw = bytearray(path.read_bytes())
        raw[16 * 20 + 4 + 7] ^= 1
        path.write_bytes(raw)
        for read in (reader.read, reader.read_with_zarr, lambda r=reader: r.read(3, 5)):
            with pytest.raises(ContractError) as caught:
                read()
            assert caught.value.node.startswith(name)
        assert reader.read(50, 60).tolist() == [*range(51, 61)], "other chunks stand"


def test_huge_claims_cost_nothing(tmp_path: Path) -> None:
    for number, (shape, chunk) in enumerate(
        [([2**62], [1]), ([2**40], [1]), ([2**50, 2**10], [2**20, 2**10]), ([2**34], [2**34]), ([3, 2**61], [3, 2**61])]
    ):
        for sharded in (False, True):
            name = f"a{number}{sharded}"
            document = new_array(
                tuple(shape), column_pipeline("f64"), Extents(chunk[0], 2**20 if sharded else 0)
            ).document
            write_document(tmp_path / name, document)
            reader = ArrayReader(DirectoryStorage(tmp_path), name)
            with pytest.raises(ContractError, match="out of all proportion"):
                reader.read_with_zarr()
            if shape[0] > 5 and len(shape) == 1:
                assert reader.read(shape[0] - 3, shape[0]).tolist() == [0.0] * 3, "asked rows that no chunk backs"
            if shape[0] > 2**40:
                with pytest.raises(ContractError, match="out of all proportion"):
                    reader.read()


def test_many_absent_chunks_are_not_looked_for_one_by_one(tmp_path: Path) -> None:
    document = new_array((2**26,), Pipeline("bool", (Stage("crc32c"),)), Extents(1)).document
    write_document(tmp_path / "a", document)
    (tmp_path / "a/c").mkdir()
    encoded = Pipeline("bool", (Stage("crc32c"),)).encode(np.array([True]))
    (tmp_path / "a/c/60000000").write_bytes(b"".join(bytes(piece) for piece in encoded))
    values = ArrayReader(DirectoryStorage(tmp_path), "a").read()
    assert np.flatnonzero(values).tolist() == [60000000]


def test_index_entries_outside_the_shard_are_refused(tmp_path: Path) -> None:
    from molrec_convert.stores.zarr.v3.shards import pack_index, unpack_index

    reader = appended(tmp_path, np.arange(1.0, 101.0), 10, 20, column_pipeline("f64"))
    path = tmp_path / "a/c/0"
    raw = path.read_bytes()
    entries, sound = unpack_index(raw[: 16 * 20 + 4])
    assert sound
    for bad in ((10**9, 84), (324, 10**12), (2**64 - 2, 1), (2**64 - 1, 2**64 - 2)):
        changed = entries.copy()
        changed[2] = bad
        path.write_bytes(pack_index(changed) + raw[16 * 20 + 4 :])
        for start, stop in ((20, 25), (0, 100)):
            reader = ArrayReader(DirectoryStorage(tmp_path), "a")
            with pytest.raises(ContractError, match="outside the shard"):
                reader.read(start, stop)


def test_a_chunk_of_the_wrong_length_is_refused(tmp_path: Path) -> None:
    reader = foreign(tmp_path, "a", np.arange(1.0, 11.0), chunks=(5,), compressors=())
    path = tmp_path / "a/c/1"
    for raw in (path.read_bytes()[:-8], path.read_bytes() + b"12345678", b""):
        path.write_bytes(raw)
        for read in (lambda: reader.read(), lambda: reader.read(6, 8)):
            with pytest.raises(ContractError, match="wrong size"):
                read()


def test_a_shard_shorter_than_its_index_is_refused(tmp_path: Path) -> None:
    reader = appended(tmp_path, np.arange(1.0, 101.0), 10, 20, column_pipeline("f64"))
    (tmp_path / "a/c/0").write_bytes(b"\0" * 50)
    with pytest.raises(ContractError, match="shorter than its index"):
        reader.read()


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [-1]},
        {"shape": "3"},
        {"shape": [1.5]},
        {"shape": None},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0]}}},
        {"chunk_key_encoding": {"name": "other"}},
        {"chunk_key_encoding": None},
        {"data_type": "float32"},
        {"data_type": {"name": "fixed_length_utf32"}},
        {"data_type": "r64"},
        {"zarr_format": 2},
        {"node_type": "group"},
        {"node_type": None},
        {"attributes": []},
    ],
    ids=str,
)
def test_malformed_metadata_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    appended(tmp_path, np.arange(3.0), 10, 20, column_pipeline("f64"))
    edit_json(tmp_path / "a", lambda d: d.update(change))
    with pytest.raises(ContractError) as caught:
        ArrayReader(DirectoryStorage(tmp_path), "a")
    assert caught.value.node == "a"


def test_metadata_that_is_no_json_and_arrays_that_are_not_there(tmp_path: Path) -> None:
    appended(tmp_path, np.arange(3.0), 10, 20, column_pipeline("f64"))
    with pytest.raises(ContractError, match="no such array"):
        ArrayReader(DirectoryStorage(tmp_path), "b")
    (tmp_path / "a/zarr.json").write_text("{")
    with pytest.raises(ContractError, match="not valid JSON"):
        ArrayReader(DirectoryStorage(tmp_path), "a")


def test_attributes_may_be_missing_and_zarrs_is_no_attribute(tmp_path: Path) -> None:
    appended(tmp_path, np.arange(3.0), 10, 20, column_pipeline("f64"))
    document = json.loads((tmp_path / "a/zarr.json").read_text())
    del document["attributes"]
    (tmp_path / "a/zarr.json").write_text(json.dumps(document))
    reader = ArrayReader(DirectoryStorage(tmp_path), "a")
    assert reader.metadata.attributes == {}
    assert reader.read().tolist() == [0.0, 1.0, 2.0]
