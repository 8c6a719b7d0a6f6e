"""The index of a stored collection: walked column by column, in our writer's form and in any other."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import POINTS, contents, frame_value, parts, points, put, write
from frame_stores import column_names, texts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Column, Record
from molrec_convert.model.collection.index import INDEX_COLUMNS
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.lmdb.values.decode import encode_tables
from molrec_convert.stores.lmdb.values.index import IndexBytes, read_index
from molrec_convert.stores.lmdb.writer import CollectionWriter


def index_block(count: int, **columns: Any) -> Block:
    ones = np.ones(count, np.uint64)
    own = {
        "first_frame": np.arange(count, dtype=np.uint64),
        "n_frames": ones,
        "n_atoms": ones * 5,
        "has_trajectory": np.ones(count, np.bool_),
    }
    return Block({**own, **columns}, count=count)


def read(value: bytes, count: int) -> Block:
    return read_index(lambda: np.frombuffer(value, np.uint8), count, count)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_columns(data: st.DataObject) -> None:
    """Names, texts and masks of any kind; the walk finds what parsing the whole header finds."""
    count = data.draw(st.integers(0, 5))
    columns: dict[str, Any] = {}
    for name in data.draw(st.lists(column_names.filter(lambda n: n not in INDEX_COLUMNS), max_size=4, unique=True)):
        mask = data.draw(st.none() | st.lists(st.booleans(), min_size=count, max_size=count))
        flags = None if mask is None else np.array(mask, np.bool_)
        if data.draw(st.booleans()):
            values: Any = np.array(data.draw(st.lists(texts, min_size=count, max_size=count)), dtype="T")
        else:
            values = np.array(data.draw(st.lists(st.floats(), min_size=count, max_size=count)), np.float64)
        columns[name] = Column(values, flags)
    block = index_block(count, **columns)
    value = encode_tables({}, {"records": block}, "index")
    source = IndexBytes(lambda: np.frombuffer(value, np.uint8))
    strings = {name for name, column in block.columns.items() if column.dtype == "string"}
    assert set(source._texts) == strings, "the walk is the way that was taken"
    assert read(value, count) == block
    document, payload = parts(value)
    by_hand = frame_value(json.dumps(document, indent=1).encode(), payload)
    assert IndexBytes(lambda: np.frombuffer(by_hand, np.uint8))._texts == {}
    assert read(by_hand, count) == block


@pytest.mark.parametrize("text", ['"]', '\\"]', '\\\\"]', '"],"validity":8}', "]", "\\", '"]}', 'a"],["b'])
def test_texts_that_look_like_the_end_of_a_list(text: str) -> None:
    block = index_block(3, a=np.array([text, "", text], dtype="T"), b=np.array(["x", text, "y"], dtype="T"))
    value = encode_tables({}, {"records": block}, "index")
    assert len(IndexBytes(lambda: np.frombuffer(value, np.uint8))._texts) == 2
    assert read(value, 3) == block


def test_a_text_is_parsed_when_it_is_asked_for(tmp_path: Path) -> None:
    """A broken list of texts hides behind sound numbers until its column is looked at."""
    path = write(
        tmp_path / "c.mrec.lmdb", [points(n) for n in range(3)], index_columns={"t": lambda r: r.meta["record_id"]}
    )
    value = contents(path)[b"index"]
    put(path, b"index", value.replace(b'"r1"', b'"\\q"'))
    with open_collection(path) as collection:
        assert collection.index["n_frames"].tolist() == [1, 1, 1]
        assert collection[2].meta == {"record_id": "r2"}
        with pytest.raises(ContractError, match="index/t"):
            _ = collection.index["t"]
    put(path, b"index", value.replace(b'["r0","r1"', b'["r0",   1'))
    with open_collection(path) as collection, pytest.raises(ContractError, match="no text"):
        _ = collection.index["t"]
    put(path, b"index", value.replace(b'"r2"]', b'"r2" '))
    with open_collection(path) as collection, pytest.raises(ContractError, match="JSON"):
        _ = collection.index


def test_numbers_are_read_without_the_texts(tmp_path: Path) -> None:
    """The memory the first use takes follows the numbers, not the texts."""
    count, length = 3000, 2000
    with CollectionWriter.create(tmp_path / "c.mrec.lmdb", declaration=POINTS, units={}, index_columns=["t"]) as writer:
        for n in range(count):
            writer.append(Record(trajectory=points(0).trajectory), {"t": f"{n:{length}d}"})
    with open_collection(tmp_path / "c.mrec.lmdb") as collection:
        tracemalloc.start()
        assert collection.index["n_frames"].sum() == count
        _ = collection[7]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < count * length / 4
        assert collection.index["t"][2999].strip() == "2999"


def test_columns_of_other_dtypes(tmp_path: Path) -> None:
    block = index_block(2, c=np.array([1j, 2]), v=np.arange(6.0).reshape(2, 3), s=np.array([["a", "b"], ["c", "d"]]))
    value = encode_tables({}, {"records": block}, "index")
    assert read(value, 2) == block


def test_values_are_copies(tmp_path: Path) -> None:
    path = write(tmp_path / "c.mrec.lmdb", [points(n) for n in range(3)])
    collection = open_collection(path)
    frames = collection.index["n_frames"]
    collection.close()
    path.unlink()
    frames[0] = 9
    assert collection.index["n_frames"].tolist() == [9, 1, 1]


def test_binding_columns_in_any_order() -> None:
    block = index_block(2, t=np.array(["a", "b"]))
    shuffled = Block({name: block.columns[name] for name in reversed(list(block.columns))}, count=2)
    value = encode_tables({}, {"records": shuffled}, "index")
    index = read(value, 2)
    assert list(index.columns)[:4] == ["has_trajectory", "n_atoms", "n_frames", "first_frame"]
    assert index == block


def test_binding_columns_have_no_nulls() -> None:
    block = index_block(2)
    block.columns["n_atoms"].validity = np.array([True, False])
    value = encode_tables({}, {"records": block}, "index")
    with pytest.raises(ContractError, match="nulls"):
        read(value, 2)
    struct.unpack_from("<I", value, 4)
