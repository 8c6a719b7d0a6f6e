"""Codec pipelines: exact both ways, equal to the Zarr library's, bounded memory on hostile bytes."""

from __future__ import annotations

import gzip
import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES, same_bits, stored
from molrec_convert.stores.zarr.v3 import zstd
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.codecs import Pipeline, Stage, column_pipeline, crc32c, dense_pipeline, is_fill
from molrec_convert.stores.zarr.v3.metadata import Extents, NumberedDocument, dump_document, new_array
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage, write_document

CRC, GZIP, ZSTD = Stage("crc32c"), Stage("gzip", 1), Stage("zstd", 3)
PIPELINES = [
    (),
    (CRC,),
    (GZIP,),
    (GZIP, CRC),
    (Stage("zstd", 1, True), CRC),
    (Stage("shuffle", 8), ZSTD, CRC),
    (Stage("shuffle", 4), GZIP, CRC),
    (Stage("shuffle", 3), CRC),
    (CRC, ZSTD),
    (GZIP, ZSTD, CRC),
    (Stage("shuffle", 8), Stage("shuffle", 2), GZIP),
]


def joined(pieces: Any) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def arrays(dtype: str) -> st.SearchStrategy[np.ndarray]:
    shape = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=9)
    if dtype == "string":
        text = st.lists(st.text(max_size=5), min_size=1, max_size=20)
        return text.map(lambda items: np.array(items, DTYPES["string"].numpy))
    spec = DTYPES[dtype].numpy
    if dtype == "bool":
        return hnp.arrays(np.bool_, shape)
    raw = shape.flatmap(lambda s: hnp.arrays(np.uint8, (*s, spec.itemsize)))
    return raw.map(lambda a: a.reshape(-1).view(spec).reshape(a.shape[:-1]))


@pytest.mark.parametrize("stages", PIPELINES, ids=str)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@settings(max_examples=12)
@given(data=st.data())
def test_decode_undoes_encode_bit_for_bit(dtype: str, stages: tuple[Stage, ...], data: st.DataObject) -> None:
    values = data.draw(arrays(dtype))
    big = dtype != "string" and data.draw(st.booleans())
    pipeline = Pipeline(dtype, stages, big)
    encoded = joined(pipeline.encode(values))
    assert same_bits(pipeline.decode(encoded, values.shape, "n"), values)
    body = pipeline.unpack(encoded, values.shape, "n")
    start = data.draw(st.integers(0, len(values) - 1))
    stop = data.draw(st.integers(start, len(values)))
    assert same_bits(pipeline.rows(body, values.shape, start, stop), values[start:stop])
    out = np.zeros_like(values[start:stop])
    pipeline.rows(body, values.shape, start, stop, out)
    assert same_bits(out, values[start:stop])


@pytest.mark.parametrize("stages", PIPELINES, ids=str)
@pytest.mark.parametrize("dtype", ["f64", "c128", "i32", "bool", "string"])
def test_runs_of_chunks_are_the_chunks_one_by_one(dtype: str, stages: tuple[Stage, ...]) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(0, 3, (5, 7, 2)).astype(DTYPES[dtype].numpy) if dtype != "string" else None
    if values is None:
        values = np.array([["é" * (i % 3), str(i)] for i in range(35)], DTYPES["string"].numpy).reshape(5, 7, 2)
    values[2] = "" if dtype == "string" else 0
    for big in (False, True) if dtype != "string" else (False,):
        pipeline = Pipeline(dtype, stages, big)
        run = pipeline.encode_run(values.reshape(35, 2), 7)
        assert [pieces is None for pieces in run] == [False, False, True, False, False]
        parts = []
        for chunk, pieces in zip(values, run, strict=True):
            if pieces is not None:
                assert joined(pieces) == joined(pipeline.encode(chunk))
                parts.append(joined(pieces))
        out = np.zeros((28, 2), DTYPES[dtype].numpy)
        starts = np.cumsum([0, *map(len, parts)]).tolist()
        places = [(start, len(part)) for start, part in zip(starts, parts, strict=False)]
        pipeline.decode_run(np.frombuffer(b"".join(parts), np.uint8), places, (7, 2), out, "n")
        assert same_bits(out.reshape(4, 7, 2), values[[0, 1, 3, 4]])


@settings(max_examples=60)
@given(
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats()),
    st.floats(2.0**-1000, 2.0**1000),
    st.sampled_from([(Stage("shuffle", 8), ZSTD, CRC), (GZIP, CRC), (CRC,)]),
)
def test_runs_are_rounded_as_they_are_encoded(values: np.ndarray, precision: float, stages: tuple[Stage, ...]) -> None:
    given_bits = values.copy()
    pipeline = Pipeline("f64", stages)
    (first, *_) = pipeline.encode_run(values, len(values), precision)
    # Encoding something else must not reach into what was handed out before.
    pipeline.encode_run(values[::-1].copy() + 1, len(values), precision)
    expected = stored(values, precision)
    decoded = np.zeros(len(values)) if first is None else pipeline.decode(joined(first), values.shape, "n")
    assert same_bits(decoded, expected)
    assert same_bits(values, given_bits)


def test_crc32c_is_the_checksum_of_the_standard() -> None:
    assert crc32c(b"123456789") == struct.pack("<I", 0xE3069283)


@pytest.mark.parametrize("array", [np.arange(9.0), np.arange(18, dtype=np.int32).reshape(9, 2)], ids=str)
@pytest.mark.parametrize("stages", [p for p in PIPELINES if Stage("shuffle", 3) not in p], ids=str)
def test_the_zarr_library_reads_what_is_encoded(tmp_path: Path, array: np.ndarray, stages: tuple[Stage, ...]) -> None:
    dtype = "f64" if array.dtype.kind == "f" else "i32"
    for big in (False, True):
        pipeline = Pipeline(dtype, stages, big)
        folder = tmp_path / f"a{big}"
        write_document(folder, new_array(array.shape, pipeline, Extents(4)).document)
        for chunk in range(3):
            padded = np.zeros((4, *array.shape[1:]), array.dtype)
            rows = array[chunk * 4 : chunk * 4 + 4]
            padded[: len(rows)] = rows
            path = folder / "c" / str(chunk) / ("0" if array.ndim == 2 else "")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(joined(pipeline.encode(padded)))
        reader = ArrayReader(DirectoryStorage(tmp_path), f"a{big}")
        assert reader.direct
        assert same_bits(reader.read(), array)
        assert same_bits(reader.read_with_zarr(), array)


@pytest.mark.parametrize(
    ("pipeline", "names"),
    [
        (column_pipeline("f64"), ["bytes", "crc32c"]),
        (column_pipeline("c64"), ["bytes", "crc32c"]),
        (column_pipeline("f64", 1e-3), ["bytes", "numcodecs.shuffle", "zstd", "crc32c"]),
        (column_pipeline("f64", 1e-3, GZIP), ["bytes", "numcodecs.shuffle", "gzip", "crc32c"]),
        (column_pipeline("c128", None, ZSTD), ["bytes", "zstd", "crc32c"]),
        (column_pipeline("i64", None, ZSTD), ["bytes", "gzip", "crc32c"]),
        (column_pipeline("string", None, ZSTD), ["vlen-utf8", "gzip", "crc32c"]),
        (dense_pipeline("f64"), ["bytes", "gzip", "crc32c"]),
    ],
    ids=str,
)
def test_writers_pipelines(pipeline: Pipeline, names: list[str]) -> None:
    documents = pipeline.to_json()
    assert [codec["name"] for codec in documents] == names
    assert Pipeline.from_json(documents, pipeline.dtype) == pipeline


@pytest.mark.parametrize(
    "codecs",
    [
        None,
        [],
        [{"name": "vlen-utf8"}],
        [{"name": "bytes"}, {"name": "blosc"}],
        [{"name": "transpose", "configuration": {"order": [0]}}, {"name": "bytes"}],
        [{"name": "bytes"}, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 0}}],
        [5],
    ],
)
def test_other_pipelines_are_left_to_the_library(codecs: Any) -> None:
    assert Pipeline.from_json(codecs, "f64") is None


def test_single_byte_types_need_no_endian() -> None:
    pipeline = Pipeline.from_json([{"name": "bytes"}, {"name": "crc32c"}], "u8")
    assert pipeline == Pipeline("u8", (CRC,))
    assert Pipeline.from_json(["bytes"], "i8") == Pipeline("i8", ())


# Fill.


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_fill_is_compared_bit_for_bit(dtype: str) -> None:
    values = np.zeros(1000, DTYPES[dtype].numpy)
    assert is_fill(values)
    assert is_fill(values[:0])
    values[-1] = "a" if dtype == "string" else 1
    assert not is_fill(values)


def test_negative_zero_is_no_fill() -> None:
    assert not is_fill(np.array([0.0] * 500 + [-0.0]))
    assert not is_fill(np.array([complex(0.0, -0.0)]))


# Bad bytes.


@pytest.mark.parametrize("stages", [(CRC,), (GZIP, CRC), (Stage("shuffle", 8), ZSTD, CRC)], ids=str)
def test_any_changed_byte_is_refused(stages: tuple[Stage, ...]) -> None:
    values = np.arange(50.0)
    pipeline = Pipeline("f64", stages)
    encoded = joined(pipeline.encode(values))
    for position in range(0, len(encoded), 7):
        broken = bytearray(encoded)
        broken[position] ^= 0x10
        with pytest.raises(ContractError, match="checksum") as caught:
            pipeline.decode(bytes(broken), values.shape, "trajectory/atoms/x")
        assert caught.value.node == "trajectory/atoms/x"
    for length in (0, 3, len(encoded) - 1):
        with pytest.raises(ContractError):
            pipeline.decode(encoded[:length], values.shape, "n")


@pytest.mark.parametrize("stages", [(), (GZIP,), (ZSTD,), (Stage("shuffle", 8), ZSTD)], ids=str)
def test_cut_or_garbled_bytes_are_refused_without_a_checksum(stages: tuple[Stage, ...]) -> None:
    values = np.random.default_rng(0).random(500)
    pipeline = Pipeline("f64", stages)
    encoded = joined(pipeline.encode(values))
    for broken in (encoded[:-1], encoded[: len(encoded) // 2], b"", b"\0" * 40, encoded + encoded):
        with pytest.raises(ContractError):
            pipeline.decode(broken, values.shape, "n")


@pytest.mark.parametrize("size", [1, 10_000, 10_001, 2**33])
def test_content_of_another_size_is_refused(size: int) -> None:
    for encode in (lambda raw: gzip.compress(raw, 1), lambda raw: zstd.zstd_compress(raw, 1)):
        stage = GZIP if encode(b"x")[:2] == b"\x1f\x8b" else ZSTD
        encoded = encode(b"\0" * 9_999)
        with pytest.raises(ContractError):
            Pipeline("u8", (stage,)).decode(encoded, (size,), "n")


def test_a_bomb_is_not_inflated() -> None:
    import tracemalloc

    bombs = {GZIP: gzip.compress(b"\0" * 2**26, 9), ZSTD: zstd.zstd_compress(b"\0" * 2**26, 3)}
    tracemalloc.start()
    for stage, bomb in bombs.items():
        with pytest.raises(ContractError):
            Pipeline("u8", (stage,)).decode(bomb, (1000,), "n")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x02\0\0\0",
        struct.pack("<I", 2**31) + b"\0" * 8,
        struct.pack("<II", 1, 9) + b"short",
        struct.pack("<II", 1, 2) + b"\xff\xfe",
        struct.pack("<I", 2) + struct.pack("<I", 1) + b"a",
    ],
)
def test_malformed_texts_are_refused(raw: bytes) -> None:
    with pytest.raises(ContractError):
        Pipeline("string", ()).decode(raw, (1,), "n")


# Zstandard, with and without calls for runs of chunks.


@pytest.fixture(params=["runs", "singly"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "singly":
        monkeypatch.setattr(zstd, "_RUNS", False)
    elif not zstd._RUNS:
        pytest.skip("this interpreter has no calls for runs")
    return str(request.param)


@pytest.mark.parametrize("size", [1, 255, 256, 300, 70_000, 300_000])
def test_one_zstd_frame(size: int) -> None:
    raw = np.random.default_rng(size).integers(0, 4, size, dtype=np.uint8)
    for checksum in (False, True):
        data = zstd.zstd_compress(raw, 3, checksum)
        assert zstd.content_size(data) == size
        assert bytes(zstd.zstd_decompress(data, size)) == raw.tobytes()
        assert bytes(zstd.zstd_decompress(data, None)) == raw.tobytes()
        out = np.empty(size, np.uint8)
        assert zstd.zstd_decompress(np.frombuffer(data, np.uint8), size, out) is out
        assert out.tobytes() == raw.tobytes()
        for wrong in (size + 1, size - 1):
            if wrong >= 0:
                with pytest.raises(ValueError, match=r".+"):
                    zstd.zstd_decompress(data, wrong)
        for broken in (data[:-1], data[:3], b"\0" + data, data + b"trailing"):
            with pytest.raises(ValueError, match=r".+"):
                zstd.zstd_decompress(broken, size)


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_a_run_of_zstd_frames_is_each_of_them(calls: str, count: int) -> None:
    parts = np.random.default_rng(count).integers(0, 4, (count, 700), dtype=np.uint8)
    frames = [bytes(frame) for frame in zstd.zstd_compress_run(parts, 3)]
    assert frames == [zstd.zstd_compress(part, 3) for part in parts]
    data = np.frombuffer(b"".join(frame + b"gap" for frame in frames) or b"\0", np.uint8)
    starts = np.cumsum([0, *(len(frame) + 3 for frame in frames)]).tolist()
    places = [(start, len(frame)) for start, frame in zip(starts, frames, strict=False)]
    found = zstd.zstd_decompress_run(data, places, 700)
    if found is not None:
        assert (np.concatenate(found) == parts).all()
    else:
        assert calls == "singly" or count < 2


@pytest.mark.parametrize("size", [99, 101, 2**40])
def test_a_run_of_zstd_frames_of_another_size_is_not_taken(calls: str, size: int) -> None:
    frames = [zstd.zstd_compress(bytes(100), 3)] * 2
    data = np.frombuffer(b"".join(frames), np.uint8)
    where = len(frames[0])
    if size == 2**40:
        # A frame whose header promises a terabyte.
        data = np.frombuffer(b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x01\0\0" + frames[0], np.uint8)
        where = 16
    assert zstd.zstd_decompress_run(data, [(0, where), (where, len(data) - where)], min(size, 101)) is None


def test_zstd_frames_that_state_no_size_and_several_frames() -> None:
    import zstandard

    raw = b"abc" * 1000
    unstated = zstandard.ZstdCompressor(level=3, write_content_size=False).compress(raw)
    assert zstd.content_size(unstated) is None
    two = zstd.zstd_compress(raw[:1500], 3) + zstd.zstd_compress(raw[1500:], 3)
    for data in (unstated, two):
        assert bytes(zstd.zstd_decompress(data, len(raw))) == raw
        out = np.empty(len(raw), np.uint8)
        zstd.zstd_decompress(data, len(raw), out)
        assert out.tobytes() == raw
        with pytest.raises(ValueError, match="2999 bytes"):
            zstd.zstd_decompress(data, 2999)


@pytest.mark.parametrize("odd", ["plain", "unstated size", "two frames", "broken", "bad checksum"])
def test_runs_of_rounded_chunks(calls: str, odd: str) -> None:
    """One chunk of a run that is stored in another way reads alike, or is refused with the node's path."""
    import zstandard

    rng = np.random.default_rng(3)
    values = rng.normal(size=(12, 50)).round(2)
    values[4] = 0.0
    values[7] = -0.0
    pipeline = column_pipeline("f64", 1e-3)
    encoded = pipeline.encode_run(values.reshape(-1), 50, 1e-3)
    assert encoded[4] is None
    assert encoded[7] is not None
    kept = [joined(pieces) for pieces in encoded if pieces is not None]
    plane = zstd.zstd_decompress(kept[5][:-4], 400)
    if odd in ("unstated size", "two frames"):
        if odd == "unstated size":
            body = zstandard.ZstdCompressor(level=3, write_content_size=False).compress(bytes(plane))
        else:
            body = zstd.zstd_compress(bytes(plane)[:100], 3) + zstd.zstd_compress(bytes(plane)[100:], 3)
        kept[5] = body + crc32c(body)
    elif odd == "broken":
        body = kept[5][:-9]
        kept[5] = body + crc32c(body)
    elif odd == "bad checksum":
        kept[5] = kept[5][:-1] + bytes([kept[5][-1] ^ 1])
    data = np.frombuffer(b"".join(kept), np.uint8)
    starts = np.cumsum([0, *map(len, kept)]).tolist()
    places = [(start, len(chunk)) for start, chunk in zip(starts, kept, strict=False)]
    out = np.zeros((11, 50))
    if odd in ("broken", "bad checksum"):
        with pytest.raises(ContractError, match=r"^n/c/0"):
            pipeline.decode_run(data, places, (50,), out.reshape(-1), "n/c/0")
        return
    pipeline.decode_run(data, places, (50,), out.reshape(-1), "n/c/0")
    assert same_bits(out, np.delete(stored(values, 1e-3), 4, axis=0))


def test_shuffle_equals_that_of_numcodecs() -> None:
    from numcodecs import Shuffle

    rng = np.random.default_rng(5)
    for size in (1, 2, 4, 7, 8, 16):
        raw = rng.integers(0, 256, 16 * 37 + 5, dtype=np.uint8)
        encoded = joined(Pipeline("u8", (Stage("shuffle", size),)).encode(raw))
        whole = raw.size - raw.size % size
        assert encoded[:whole] == bytes(Shuffle(size).encode(raw[:whole]))
        assert encoded[whole:] == raw[whole:].tobytes()


def test_a_document_with_a_changing_number_is_the_document() -> None:
    text = NumberedDocument()
    document = new_array((3, 2), column_pipeline("f64"), Extents(3), {"é": [1.5, None]}).document
    for rows in (0, 7, 2**63, 7):
        expected = {**document, "shape": [rows, 2]}
        assert text.dump(document, ("shape", 0), rows) == dump_document(expected)
    assert document["shape"] == [3, 2]
    document["attributes"] = {"odd": -915_273_648_015_273}
    assert json.loads(text.dump(document, ("shape", 0), 5)) == {**document, "shape": [5, 2]}


def test_numbers_survive_json_metadata() -> None:
    document = new_array((3,), column_pipeline("f64"), Extents(3)).document
    assert math.copysign(1.0, document["fill_value"]) == 1.0


@pytest.mark.parametrize("big_endian", [False, True])
def test_runs_of_shuffled_values_of_which_any_bytes_are_zero(big_endian: bool) -> None:
    rng = np.random.default_rng(5)
    pipeline = Pipeline("f64", (Stage("shuffle", 8), Stage("zstd", 3), Stage("crc32c")), big_endian)
    for used in range(256):
        mask = np.array([0xFF if used >> byte & 1 else 0 for byte in range(8)], np.uint8)
        raw = rng.integers(0, 256, (3, 50, 8), np.uint8) & mask
        values = np.ascontiguousarray(raw).view("<f8").reshape(3, 50)
        chunks = [b"".join(bytes(piece) for piece in pipeline.encode(chunk)) for chunk in values]
        ends = np.cumsum([len(chunk) for chunk in chunks]).tolist()
        places = [(end - len(chunk), len(chunk)) for chunk, end in zip(chunks, ends, strict=True)]
        out = np.zeros(150)
        pipeline.decode_run(np.frombuffer(b"".join(chunks), np.uint8), places, (50,), out, "node")
        assert out.tobytes() == values.tobytes()


@pytest.mark.parametrize("place", [0, 40, -1])
def test_a_run_with_a_chunk_that_fails_its_checksum_is_refused(place: int) -> None:
    pipeline = column_pipeline("f64", 1e-3)
    chunks = [b"".join(bytes(p) for p in pipeline.encode(np.arange(64.0) + n)) for n in range(3)]
    broken = bytearray(chunks[1])
    broken[place] ^= 1
    data = np.frombuffer(chunks[0] + bytes(broken) + chunks[2], np.uint8)
    starts = [0, len(chunks[0]), len(chunks[0]) + len(broken)]
    places = [(start, len(chunk)) for start, chunk in zip(starts, chunks, strict=True)]
    with pytest.raises(ContractError, match="checksum"):
        pipeline.decode_run(data, places, (64,), np.zeros(192), "node")
    with pytest.raises(ContractError, match="checksum"):
        pipeline.decode_run(data, [places[0], (starts[1], 3)], (64,), np.zeros(128), "node")
