"""The thirteen dtypes: extents, chunk files, and every bit back, through our reader and through zarr-python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest
from hypothesis import given, settings

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Column, Frame
from molrec_convert.model.dtypes import DTYPES, as_values, same_bits
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.array_writer import write_array
from molrec_convert.stores.zarr.v3.codecs import Stage, column_pipeline
from molrec_convert.stores.zarr.v3.metadata import Extents
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage

STRING = DTYPES["string"].numpy
CHUNK = 512 * 1024


def sample(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Values that use the whole range of a dtype."""
    generator = np.random.default_rng(7)
    count = int(np.prod(shape))
    if dtype == "string":
        return np.array([f"é{n}\0\n" if n % 3 else "" for n in range(count)], STRING).reshape(shape)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    raw = generator.integers(0, 256, count * DTYPES[dtype].numpy.itemsize, dtype=np.uint8)
    return raw.view(DTYPES[dtype].numpy).reshape(shape)


def check(path: Path, values: np.ndarray[Any, Any], compression: Stage | None = None) -> Path:
    """Store a column, read it back with both readers; returns its folder."""
    frame = Frame({"things": Block({"c": values})})
    folder = stores.write(path, frame, compression=compression) / "things" / "c"
    assert stores.bits(stores.read(path)["things"]["c"]) == stores.bits(values)
    assert stores.bits(stores.zarr_values(folder)) == stores.bits(values)
    return folder


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (5, 3), (4, 2, 2), (3, 0), (0, 3)], ids=str)
def test_every_dtype(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    check(tmp_path, sample(dtype, shape))


@pytest.mark.parametrize("dtype", sorted(set(DTYPES) - {"string"}))
@pytest.mark.parametrize(("chunks", "sharded"), [(2, False), (4, False), (5, True)])
def test_many_chunks_then_one_shard(tmp_path: Path, dtype: str, chunks: int, sharded: bool) -> None:
    rows = CHUNK // DTYPES[dtype].numpy.itemsize
    total = rows * (chunks - 1) + 7
    folder = check(tmp_path, sample(dtype, (total,)))
    document = json.loads((folder / "zarr.json").read_text())
    outer = document["chunk_grid"]["configuration"]["chunk_shape"]
    codec = document["codecs"][0]
    files = sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())
    if sharded:
        assert outer == [rows * chunks]
        assert codec["name"] == "sharding_indexed"
        assert codec["configuration"]["chunk_shape"] == [rows]
        assert codec["configuration"]["index_location"] == "end"
        assert files == ["c/0", "zarr.json"]
    else:
        assert outer == [rows]
        assert codec["name"] == "bytes"
        assert files == [*(f"c/{n}" for n in range(chunks)), "zarr.json"]


def test_trailing_axes_are_never_split(tmp_path: Path) -> None:
    folder = check(tmp_path, sample("f64", (40_000, 3, 3)))
    document = json.loads((folder / "zarr.json").read_text())
    rows = CHUNK // 72
    assert document["codecs"][0]["configuration"]["chunk_shape"] == [rows, 3, 3]
    assert document["chunk_grid"]["configuration"]["chunk_shape"] == [rows * -(-40_000 // rows), 3, 3]


def test_a_row_larger_than_a_chunk_is_a_chunk(tmp_path: Path) -> None:
    folder = check(tmp_path, sample("f64", (6, 70_000)))
    document = json.loads((folder / "zarr.json").read_text())
    assert document["codecs"][0]["configuration"]["chunk_shape"] == [1, 70_000]
    assert document["chunk_grid"]["configuration"]["chunk_shape"] == [6, 70_000]


def test_strings_are_one_chunk(tmp_path: Path) -> None:
    folder = check(tmp_path, np.array([f"residue {n}" for n in range(120_000)], STRING))
    document = json.loads((folder / "zarr.json").read_text())
    assert document["chunk_grid"]["configuration"]["chunk_shape"] == [120_000]


@pytest.mark.parametrize(
    ("dtype", "compression", "codecs"),
    [
        ("f64", None, ["bytes", "crc32c"]),
        ("c64", None, ["bytes", "crc32c"]),
        ("f64", Stage("gzip", 5), ["bytes", "gzip", "crc32c"]),
        ("c128", Stage("zstd", 9), ["bytes", "zstd", "crc32c"]),
        ("i64", Stage("zstd", 9), ["bytes", "gzip", "crc32c"]),
        ("bool", None, ["bytes", "gzip", "crc32c"]),
        ("string", Stage("gzip", 9), ["vlen-utf8", "gzip", "crc32c"]),
    ],
)
def test_pipelines(tmp_path: Path, dtype: str, compression: Stage | None, codecs: list[str]) -> None:
    folder = check(tmp_path, sample(dtype, (9,)), compression)
    document = json.loads((folder / "zarr.json").read_text())
    assert [codec["name"] for codec in document["codecs"]] == codecs
    assert document["fill_value"] == DTYPES[dtype].fill
    if compression is not None and DTYPES[dtype].is_float:
        assert document["codecs"][1]["configuration"]["level"] == compression.level
    elif codecs[1] == "gzip":
        assert document["codecs"][1]["configuration"] == {"level": 1}


@pytest.mark.parametrize("compression", [Stage("gzip", 1), Stage("zstd", 1)])
def test_compressed_shards(tmp_path: Path, compression: Stage) -> None:
    check(tmp_path, np.repeat(sample("f64", (3500,)), 100), compression)


def test_numbers_at_the_ends_of_their_range(tmp_path: Path) -> None:
    payload = np.array([0x7FF8_0000_0000_BEEF, 0xFFF0_0000_0000_0001, 1, 0x8000_0000_0000_0000], np.uint64)
    blocks = {
        "unsigned": Block({"c": np.array([2**63, 2**64 - 1, 2**32 + 1], np.uint64)}),
        "signed": Block({"c": np.array([-(2**63), 2**63 - 1], np.int64)}),
        "payload": Block({"c": payload.view(np.float64)}),
        "infinite": Block({"c": np.array([np.inf, -np.inf, -0.0, 0.0, 5e-324])}),
        "pairs": Block({"c": np.array([complex(np.nan, -0.0), complex(-np.inf, 1e-300)])}),
        "short": Block({"c": np.array([complex(-0.0, np.inf)], np.complex64)}),
    }
    frame = stores.round_trip(tmp_path, Frame(blocks))
    for name, block in blocks.items():
        assert stores.bits(frame[name]["c"]) == stores.bits(block["c"]), name
        assert stores.bits(stores.zarr_values(tmp_path / "frame" / name / "c")) == stores.bits(block["c"]), name


def test_strings_with_anything_in_them(tmp_path: Path) -> None:
    texts = ["", "\0", "a\0", "\0\0b", "line\nbreak", "Å ångström", "水", "🧪", " ", "x" * 10_000]
    assert list(stores.column_round_trip(tmp_path, texts).values) == texts
    assert list(stores.zarr_values(tmp_path / "frame" / "things" / "c")) == texts


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_a_chunk_of_zeros_has_no_file_and_reads_as_zeros(tmp_path: Path, dtype: str) -> None:
    folder = check(tmp_path, np.zeros((4,), DTYPES[dtype].numpy))
    assert [f.name for f in folder.rglob("*") if f.is_file()] == ["zarr.json"]


def test_only_chunks_of_zeros_are_left_out(tmp_path: Path) -> None:
    rows = CHUNK // 8
    values = np.zeros(rows * 3)
    values[rows] = 1.0
    folder = check(tmp_path, values)
    assert sorted(f.name for f in (folder / "c").iterdir()) == ["1"]


def test_a_missing_chunk_of_a_shard_is_an_index_entry(tmp_path: Path) -> None:
    rows = CHUNK // 8
    values = np.zeros(rows * 6)
    values[rows] = 1.0
    folder = check(tmp_path, values)
    raw = (folder / "c" / "0").read_bytes()
    index = np.frombuffer(raw[-(6 * 16 + 4) : -4], "<u8").reshape(6, 2)
    assert (index[[0, 2, 3, 4, 5]] == 2**64 - 1).all()
    assert index[1].tolist() == [0, CHUNK + 4]


def test_a_shard_without_chunks_has_no_file(tmp_path: Path) -> None:
    folder = check(tmp_path, np.zeros(CHUNK // 8 * 6))
    assert not (folder / "c").exists()


def test_negative_zero_is_no_fill(tmp_path: Path) -> None:
    folder = check(tmp_path, np.full(4, -0.0))
    assert (folder / "c" / "0").is_file()


def test_arrays_without_axes(tmp_path: Path) -> None:
    for dtype in DTYPES:
        values = sample(dtype, (1,)).reshape(()) if dtype != "string" else np.array("é\n", STRING)
        write_array(tmp_path, dtype, values, pipeline=column_pipeline(dtype))
        assert stores.bits(ArrayReader(DirectoryStorage(tmp_path), dtype).read()) == stores.bits(values)
        assert stores.bits(stores.zarr_values(tmp_path / dtype)) == stores.bits(values)


def test_chunks_are_full_size(tmp_path: Path) -> None:
    values = np.arange(10, dtype=np.float64) + 1
    write_array(tmp_path, "a", values, pipeline=column_pipeline("f64"), extents=Extents(4))
    assert [(tmp_path / "a" / "c" / str(n)).stat().st_size for n in range(3)] == [4 * 8 + 4] * 3
    assert stores.bits(stores.zarr_values(tmp_path / "a")) == stores.bits(values)


@pytest.mark.parametrize(
    "data_type",
    [
        "float16",
        "float32",
        {"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}},
        "r16",
        "variable_length_bytes",
        {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
        "int4",
        None,
        5,
    ],
    ids=str,
)
def test_other_types_are_refused_by_the_reader(tmp_path: Path, data_type: Any) -> None:
    folder = stores.write(tmp_path, Frame({"things": Block({"c": np.ones(3)})})) / "things" / "c"
    stores.edit(folder, lambda document: document.update(data_type=data_type))
    with pytest.raises(ContractError, match="frame/things/c") as caught:
        stores.read(tmp_path)
    assert caught.value.node == "frame/things/c"


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_floats_of_zarr_python_are_refused(tmp_path: Path, dtype: Any) -> None:
    folder = stores.write(tmp_path, Frame({"things": Block({"c": np.ones(3)})})) / "things" / "c"
    stores.zarr_create(folder, np.ones(3, dtype))
    with pytest.raises(ContractError, match="data type"):
        stores.read(tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        np.ones(3, np.float16),
        np.ones(3, np.float32),
        np.ones(3, np.longdouble),
        np.array([b"ab"]),
        np.array(["2024"], "M8[s]"),
        np.zeros(2, "V4"),
        np.array([None, 1], dtype=object),
        [1, "a"],
        [2**64],
        [2**63, -1],
        [2**53 + 1, 0.5],
        ["\ud800"],
        [[1], [1, 2]],
    ],
    ids=str,
)
def test_other_types_are_refused_by_the_writer(values: Any) -> None:
    with pytest.raises(ContractError):
        Block({"c": values})


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], "i64"),
        ([2**63], "u64"),
        ([1.0], "f64"),
        ([1, 2.5], "f64"),
        ([True], "bool"),
        (["a\0"], "string"),
        ([1j], "c128"),
        (np.array(["a"]), "string"),
        (np.array(["a", "b"], object), "string"),
    ],
    ids=str,
)
def test_python_values_take_a_dtype(values: Any, dtype: str) -> None:
    assert Column(as_values(values)).dtype == dtype
    assert as_values(values).tolist() == list(values)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([300], "i8"),
        ([-1], "u64"),
        ([1.5], "i32"),
        ([2**53 + 1], "f64"),
        ([True], "f64"),
        ([1j], "f64"),
        ([0.1], "c64"),
        ([1], "string"),
        (["1"], "i64"),
        ([np.inf], "i64"),
        (np.ones(2), "i64"),
        (np.ones(2, np.int32), "i64"),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused(values: Any, dtype: str) -> None:
    with pytest.raises(ContractError):
        as_values(values, dtype, "frame/things/c")


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([], "string"), ([], "u8"), ([1], "f64"), ([np.nan], "f64"), ([1, 2], "c128"), ([5], "u8"), ([2**64 - 1], "u64")],
    ids=str,
)
def test_values_that_fit_are_taken(values: Any, dtype: str) -> None:
    assert np.array_equal(as_values(values, dtype).astype(object), np.array(values, object)) or np.isnan(values[0])


@pytest.mark.parametrize("dtype", sorted(set(DTYPES) - {"string", "bool"}))
@pytest.mark.parametrize("sharded", [False, True])
def test_big_endian_is_read(tmp_path: Path, dtype: str, sharded: bool) -> None:
    from zarr.codecs import BytesCodec

    folder = stores.write(tmp_path, Frame({"things": Block({"c": np.ones(50)})})) / "things" / "c"
    values = sample(dtype, (50,))
    shards = {"shards": (20,)} if sharded else {}
    stores.zarr_create(folder, values, chunks=(10,), serializer=BytesCodec(endian="big"), compressors=None, **shards)
    assert stores.bits(stores.read(tmp_path)["things"]["c"]) == stores.bits(values)


@pytest.mark.parametrize("dtype", ["i8", "u8", "bool"])
def test_one_byte_types_without_an_endianness_are_read(tmp_path: Path, dtype: str) -> None:
    values = sample(dtype, (9,))
    folder = stores.write(tmp_path, Frame({"things": Block({"c": values})})) / "things" / "c"
    stores.edit(folder, lambda document: document["codecs"][0].pop("configuration"))
    assert stores.bits(stores.read(tmp_path)["things"]["c"]) == stores.bits(values)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (7, 2)},
        {"chunks": (7, 3), "compressors": None},
        {"chunks": (5, 3), "shards": (10, 3)},
        {"chunks": (30, 3), "chunk_key_encoding": {"name": "v2", "separator": "."}},
    ],
    ids=["split", "rows", "shards", "flat keys"],
)
def test_any_layout_of_zarr_python_is_read(tmp_path: Path, dtype: str, options: dict[str, Any]) -> None:
    values = sample(dtype, (30, 3))
    folder = stores.write(tmp_path, Frame({"things": Block({"c": values})})) / "things" / "c"
    stores.zarr_create(folder, values, **options)
    assert stores.bits(stores.read(tmp_path)["things"]["c"]) == stores.bits(values)


@pytest.mark.parametrize("position", [0, 17, -1])
@pytest.mark.parametrize("dtype", ["f64", "u64", "string"])
def test_a_flipped_bit_is_refused_through_both_paths(tmp_path: Path, dtype: str, position: int) -> None:
    stores.write(tmp_path, Frame({"things": Block({"c": sample(dtype, (9,))})}))
    chunk = tmp_path / "frame" / "things" / "c" / "c" / "0"
    raw = bytearray(chunk.read_bytes())
    raw[position] ^= 4
    chunk.write_bytes(raw)
    with pytest.raises(ContractError, match="frame/things/c"):
        _ = stores.read(tmp_path)["things"]["c"]
    with pytest.raises(ContractError, match="frame/things/c"):
        ArrayReader(DirectoryStorage(tmp_path), "frame/things/c").read_with_zarr()


@given(stores.frames())
@settings(max_examples=60)
def test_frames_come_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, frame: Frame) -> None:
    path = tmp_path_factory.mktemp("frame")
    read = stores.round_trip(path, frame)
    assert stores.frame_bits(read) == stores.frame_bits(frame)
    read.check()
    for name, block in frame.blocks.items():
        for key, column in block.columns.items():
            values = stores.zarr_values(path / "frame" / name / key)
            assert stores.bits(values) == stores.bits(column.values)
            if column.validity is not None:
                mask = stores.zarr_values(path / "frame" / name / "_validity" / key)
                assert same_bits(mask, column.validity)
