"""Frame bytes: every size of the page, round trips of everything a frame can hold, refusals of everything else."""

from __future__ import annotations

import json
import math
import re
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import frame_stores
import numpy as np
import pytest
from collection_stores import frame_value, parts, with_header
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seed_page import page

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Box, Column, Frame, Meta
from molrec_convert.stores.lmdb.values import decode as frame_bytes
from molrec_convert.stores.lmdb.values import encode as frame_writing
from molrec_convert.stores.lmdb.values.decode import FrameBytes, decode, encode_frame, encode_tables
from molrec_convert.stores.lmdb.values.stored_frame import StoredFrame, stored_block

COLUMN = {"dtype": "f64", "shape": [2], "offset": 0}


def block(**columns: Any) -> dict[str, Any]:
    return {"count": 2, "structural_shape": None, "columns": columns}


def header(**columns: Any) -> dict[str, Any]:
    return {"blocks": {"things": block(**columns)}, "meta": {}}


def read_back(value: Any) -> Frame:
    """A snapshot out of a value, as the reader makes it."""
    found = decode(value)
    blocks = {name: stored_block(found, name) for name in found.blocks}
    return StoredFrame.of(found, blocks, FrameBytes.meta, is_step=False, referring=found.layout.referring)


# the page


def test_annotated_value_of_the_page(fixtures: Path) -> None:
    """Byte range by byte range: magic, length, header, padding, and the three buffers."""
    lines = page(fixtures)
    start = next(i for i, line in enumerate(lines) if line.startswith("key f ‖ u64be(1) ="))
    assert lines[start].endswith("value 336 B")
    listing = "\n".join(lines[start : start + 30])
    document = json.loads(listing[listing.index("{") : listing.index("[236, 240)")])
    columns = {
        name: (int(first), int(last), json.loads(values))
        for first, last, name, values in re.findall(r"\[(\d+), (\d+)\)\s+atoms/(\w)\s+f64 = (\[.*\])", listing)
    }
    assert list(columns) == ["x", "y", "z"]
    frame = Frame(
        {"atoms": Block({name: np.array(values) for name, (_, _, values) in columns.items()})}, Meta({"pe": -12.3})
    )
    blocks, buffers = frame_writing._encode_blocks(frame.blocks, frame_writing._shape_of(frame.blocks))
    value = frame_writing.assemble(blocks, '"pe":-12.3', ',"step":1', buffers)
    assert len(value) == 336
    assert value[:4] == b"MRF1"
    assert struct.unpack("<I", value[4:8]) == (228,)
    assert json.loads(value[8:236]) == document
    assert value[8:236].decode() == json.dumps(document, separators=(",", ":"))
    assert value[236:240] == b"\0\0\0\0"
    for first, last, values in columns.values():
        assert value[first:last] == np.array(values).tobytes()


# round trips


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(frame_stores.frames())
def test_any_snapshot_comes_back(frame: Frame) -> None:
    frame_writing._SHAPES.clear()
    value = encode_frame(frame, "frame")
    assert len(value) % 8 == 0
    assert encode_frame(frame, "frame") == value, "the short way for a known shape"
    for buffer in (value, bytearray(value), memoryview(value), np.frombuffer(value, np.uint8)):
        back = read_back(buffer)
        assert frame_stores.frame_bits(back) == frame_stores.frame_bits(frame)
        assert list(back.meta) == list(frame.meta)
        assert {name: list(back[name].columns) for name in back} == {n: list(frame[n].columns) for n in frame}
    assert encode_frame(read_back(value), "frame") == value


@settings(max_examples=60)
@given(st.lists(frame_stores.texts, max_size=6))
def test_texts_are_written_as_an_encoder_writes_them(texts: list[str]) -> None:
    """The short way for texts without anything to escape gives the encoder's own text."""
    array = np.array(texts, dtype="T") if texts else np.zeros(0, dtype="T")
    assert frame_writing.texts_json(array) == json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("text", ['"', "\\", '","', "\n", "\0", "\x7f", "\u2028", "é", "𝔸", "", 'a","b'])
def test_texts_that_need_care(text: str) -> None:
    value = encode_frame(Frame({"things": Block({"t": np.array([text, "x", text], dtype="T")})}))
    assert decode(value).values("things", "t").tolist() == [text, "x", text]


def test_the_short_way_for_a_known_shape_is_the_one_in_use() -> None:
    def snapshot(*elements: str) -> Frame:
        numbers = np.arange(len(elements), dtype=np.int16)
        bonds = Block({"atomi": np.array([0, len(elements) - 1], np.uint64)})
        return Frame({"atoms": Block({"element": np.array(elements), "n": numbers}), "bonds": bonds}, Meta({"a": 1}))

    frame_writing._SHAPES.clear()
    assert frame_writing.encode_known(snapshot("H", "O"), "system") is None
    first = encode_frame(snapshot("H", "O"))
    assert frame_writing.encode_known(snapshot("H", "O"), "system") == first
    assert frame_writing.encode_known(snapshot("Cl", '"'), "system") is not None
    assert len(first) == len(encode_frame(snapshot("F", "K")))
    assert decode(encode_frame(snapshot("Cl", '"'))).values("atoms", "element").tolist() == ["Cl", '"']
    broken = snapshot("Cl", "F")
    broken["bonds"]["atomi"][0] = 2
    with pytest.raises(ContractError, match="out of range"):
        encode_frame(broken)
    uneven = snapshot("Cl", "F")
    uneven["atoms"].columns["n"].values = np.arange(3, dtype=np.int16)
    with pytest.raises(ContractError, match="one row per row"):
        encode_frame(uneven)


def test_the_short_way_leaves_alone_what_it_cannot_say() -> None:
    def snapshot(column: Column) -> Frame:
        return Frame({"atoms": Block({"x": column, "n": np.arange(4, dtype=np.int8)})}, Meta({"a": 1.5}))

    values = np.arange(8.0)[::2]
    whole = encode_frame(snapshot(Column(values.copy())))
    assert frame_writing.encode_known(snapshot(Column(values.copy())), "system") == whole
    # not in one piece, with nulls, with a precision, with attributes
    spread = snapshot(Column(values))
    spread["atoms"].columns["x"].values = values
    assert frame_writing.encode_known(spread, "system") is None
    assert encode_frame(spread) == whole
    for other in (Column(values, np.arange(4) > 0), Column(values, None, 0.5), Column(values, attributes={"a": 1})):
        encode_frame(snapshot(other))
        assert frame_writing.encode_known(snapshot(other), "system") is None
        decoded = decode(encode_frame(snapshot(other)))
        assert decoded.values("atoms", "x").tolist() == values.tolist()
        assert (decoded.mask("atoms", "x") is None) == (other.validity is None)
        assert decoded.layout.blocks["atoms"].columns["x"].precision == other.precision
        with pytest.raises(ContractError, match="native Python"):
            encode_frame(snapshot(Column(values, attributes={"a": np.float64(1)})))


def test_header_is_compact_ordered_and_complete() -> None:
    frame = Frame({"atoms": Block({"q": Column(np.array([1.0, 2.0]), np.array([True, False]), 0.25)})})
    frame.blocks["atoms"].attributes["later"] = {"a": 1.0}
    frame.meta["smiles"] = "O"
    frame.box = Box(np.eye(3) * 2, boundary=np.array([True, False, True]))
    text = encode_frame(frame)[8:].split(b"\0")[0].decode()
    assert text == (
        '{"blocks":{"atoms":{"count":2,"structural_shape":null,"columns":{"q":{"dtype":"f64","shape":[2],'
        '"offset":0,"validity":16,"precision":0.25}},"attributes":{"later":{"a":1.0}}}},"meta":{"smiles":"O"},'
        '"meta_types":{"smiles":"string"},"box":{"vectors":[[2.0,0.0,0.0],[0.0,2.0,0.0],[0.0,0.0,2.0]],'
        '"boundary":[true,false,true]}}'
    )


def test_empty_snapshot_has_blocks_and_meta() -> None:
    assert encode_frame(Frame())[8:].rstrip(b"\0") == b'{"blocks":{},"meta":{}}'


def test_every_mask_and_buffer_is_aligned() -> None:
    columns = {
        f"c{i}": Column(np.arange(3).astype(dtype), np.array([True, False, True]))
        for i, dtype in enumerate(("i1", "<i2", "<u4", "<f8", "?", "<c8", "T"))
    }
    value = encode_frame(Frame({"things": Block(columns)}))
    document, payload = parts(value)
    positions = [
        column[key]
        for column in document["blocks"]["things"]["columns"].values()
        for key in ("offset", "validity")
        if key in column
    ]
    assert all(position % 8 == 0 for position in positions)
    assert positions == sorted(positions)
    assert len(payload) % 8 == 0
    assert frame_stores.frame_bits(read_back(value)) == frame_stores.frame_bits(Frame({"things": Block(columns)}))


def test_values_on_the_grid_but_not_under_nulls() -> None:
    column = Column(np.array([0.3, 0.3]), np.array([True, False]), 0.25)
    back = read_back(encode_frame(Frame({"things": Block({"q": column})})))["things"].columns["q"]
    assert back.values.tolist() == [0.25, 0.3]
    assert back.precision == 0.25


def test_an_all_true_mask_is_no_mask() -> None:
    with_mask = Column(np.array([1.0]), np.array([True]))
    value = encode_frame(Frame({"things": Block({"q": with_mask})}))
    assert value == encode_frame(Frame({"things": Block({"q": np.array([1.0])})}))
    by_hand = frame_value(header(q={**COLUMN, "validity": 16}), bytes(16) + b"\1\1" + bytes(6))
    assert decode(by_hand).mask("things", "q") is None


def test_structural_shape_and_targets() -> None:
    cube = Block({"rho": np.arange(8.0)}, structural_shape=(2, 2, 2))
    pairs = Block({"site": np.array([1], np.uint64)}, targets={"site": "grid"})
    frame = Frame({"grid": cube, "pairs": pairs})
    back = read_back(encode_frame(frame))
    assert back["grid"].structural_shape == (2, 2, 2)
    assert back["pairs"].targets == {"site": "grid"}


def test_tables_have_a_plain_document() -> None:
    value = encode_tables({"name": "ff", "k": [1.0, None]}, {"bond.harmonic": Block({"k": np.array([1.5])})}, "ff")
    found = decode(value)
    assert found.document == {"name": "ff", "k": [1.0, None]}
    assert found.values("bond.harmonic", "k").tolist() == [1.5]
    assert "meta_types" not in parts(value)[0]


def test_undefined_cell() -> None:
    frame = Frame(box=Box.undefined((1.0, -0.0, float("inf"))))
    document, _ = parts(encode_frame(frame))
    assert document["box"]["boundary"] == [False, False, False]
    assert document["box"]["cell_defined"] is False
    assert document["box"]["origin"] == [1.0, -0.0, "Infinity"]
    assert read_back(encode_frame(frame)).box == frame.box


def test_step_and_time_beyond_exact_json() -> None:
    value = frame_value({"blocks": {}, "meta": {}, "step": str(2**60), "time": "NaN"})
    found = decode(value)
    assert found.step == 2**60
    assert math.isnan(found.time or 0.0)
    for step in (None, 1.5, True, "12", str(2**64)):
        with pytest.raises(ContractError, match=r"step|integer|i64"):
            _ = decode(frame_value({"blocks": {}, "meta": {}, "step": step})).step


# reading in place


def test_arrays_share_the_value() -> None:
    value = bytearray(encode_frame(Frame({"things": Block({"q": np.array([1.0, 2.0])})})))
    array = decode(value).values("things", "q")
    array[0] = 5.0
    assert decode(value).values("things", "q")[0] == 5.0
    frozen = decode(bytes(value)).values("things", "q")
    assert not frozen.flags.writeable


def test_header_alone_is_read_before_a_column_is_asked_for() -> None:
    """A value whose buffers are wrong decodes; the fault shows when the column is looked at."""
    value = frame_value(header(flag={"dtype": "bool", "shape": [2], "offset": 0}), b"\1\7" + bytes(6))
    found = decode(value)
    with pytest.raises(ContractError, match=r"things/flag.*0 or 1"):
        found.values("things", "flag")


def test_layouts_are_shared_and_right_for_each_value() -> None:
    """The short way over a known header gives what the long way gives."""
    frame_bytes._LAYOUTS.clear()
    values = [
        frame_value({"blocks": {"things": block(q=COLUMN)}, "meta": {"pe": pe}, "step": pe}, struct.pack("<2d", pe, 1))
        for pe in range(5)
    ]
    long_way = decode(values[0])
    assert len(frame_bytes._LAYOUTS) == 1
    for pe, value in enumerate(values):
        found = decode(value)
        assert found.layout is long_way.layout
        assert (found.document, found.step, found.values("things", "q").tolist()) == ({"pe": pe}, pe, [pe, 1])


def test_a_block_named_meta_is_no_end_of_the_blocks() -> None:
    frame_bytes._LAYOUTS.clear()
    blocks = {"a": block(q=COLUMN), "meta": block(q={**COLUMN, "offset": 16})}
    for pe in (1, 2, 3):
        found = decode(frame_value({"blocks": blocks, "meta": {"pe": pe}}, struct.pack("<4d", 1, 2, 3, 4)))
        assert found.document == {"pe": pe}
        assert found.values("meta", "q").tolist() == [3, 4]
    text = b'{"blocks":{"a":' + json.dumps(block(q=COLUMN)).encode() + b'},"meta":{},"blocks":{}}'
    frame_bytes._LAYOUTS.clear()
    assert decode(frame_value(text, bytes(16))).blocks == {}


# refusals


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "no frame bytes"),
        (b"MRF2" + bytes(8), "no frame bytes"),
        (b"MRF1\1\0\0", "no frame bytes"),
        (b"MRF1" + struct.pack("<I", 100) + b"{}", "reaches past"),
        (b"MRF1" + struct.pack("<I", 2**32 - 1), "reaches past"),
        (frame_value(b"\xff\xfe"), "UTF-8"),
        (frame_value(b'{"blocks":{}'), "JSON"),
        (frame_value(b""), "JSON"),
        (frame_value(b'{"blocks":{},"meta":{"a":NaN}}'), "JSON"),
        (frame_value(b'{"blocks":{},"meta":{}} x'), "JSON"),
        (frame_value(b"[" * 100_000), "nested deeper"),
        (frame_value(b"[]"), "JSON object"),
        (frame_value({"meta": {}}), "blocks"),
        (frame_value({"blocks": {}}), "meta"),
        (frame_value({"blocks": [], "meta": {}}), "JSON object"),
        (frame_value({"blocks": {"a": 1}, "meta": {}}), "JSON object"),
        (frame_value({"blocks": {"a": {"columns": {}}}, "meta": {}}), "count"),
        (frame_value({"blocks": {"a": {"count": -1, "columns": {}}}, "meta": {}}), "count"),
        (frame_value({"blocks": {"a": {"count": True, "columns": {}}}, "meta": {}}), "count"),
        (frame_value({"blocks": {"a": {"count": 1}}, "meta": {}}), "JSON object"),
        (frame_value({"blocks": {"box": block()}, "meta": {}}), "reserved"),
        (frame_value({"blocks": {"a/b": block()}, "meta": {}}), "'/'"),
        (frame_value({"blocks": {"a": {**block(), "structural_shape": [3]}}, "meta": {}}), "structural shape"),
        (frame_value({"blocks": {"a": {**block(), "targets": {"n": "b"}}}, "meta": {}}), "does not exist"),
    ],
)
def test_refused_headers(value: bytes, said: str) -> None:
    with pytest.raises(ContractError, match=re.escape(said)):
        decode(value, "here").meta()  # which is parsed when it is asked for, where the blocks are known


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({**COLUMN, "dtype": "f32"}, "unknown dtype"),
        ({**COLUMN, "dtype": "f16"}, "unknown dtype"),
        ({**COLUMN, "dtype": 5}, "unknown dtype"),
        ({**COLUMN, "offset": 4}, "multiple of 8"),
        ({**COLUMN, "offset": -8}, "position"),
        ({**COLUMN, "offset": 1.0}, "position"),
        ({"dtype": "f64", "shape": [2]}, "position"),
        ({**COLUMN, "offset": 8}, "reaches past"),
        ({**COLUMN, "offset": 2**70}, "reaches past"),
        ({**COLUMN, "shape": [3]}, "one row per row"),
        ({**COLUMN, "shape": []}, "one row per row"),
        ({**COLUMN, "shape": [2, -1]}, "one row per row"),
        ({**COLUMN, "shape": [2, 2**60]}, "larger than any array"),
        ({**COLUMN, "shape": [2, 0, 2**62]}, "larger than any array"),
        ({**COLUMN, "validity": 3}, "multiple of 8"),
        ({**COLUMN, "validity": 16}, "reaches past"),
        ({**COLUMN, "precision": -1}, "precision"),
        ({"dtype": "i64", "shape": [2], "offset": 0, "precision": 0.5}, "precision"),
        ({"dtype": "string", "shape": [2]}, "lists its values"),
        ({"dtype": "string", "shape": [2], "values": ["a"]}, "lists its values"),
        ({"dtype": "string", "shape": [2], "values": ["a", 1]}, "no text"),
        ({"dtype": "string", "shape": [2], "values": ["a", "\ud800"]}, "valid text"),
        ([], "JSON object"),
    ],
)
def test_refused_columns(column: Any, said: str) -> None:
    text = json.dumps({"blocks": {"things": block(q=column)}, "meta": {}}).encode()
    with pytest.raises(ContractError, match=said):
        decode(frame_value(text, bytes(16)), "here")


def test_refused_standard_columns_and_references() -> None:
    for name, column in (
        ("id", {"dtype": "i64", "shape": [2], "offset": 0}),
        ("atomi", {"dtype": "u32", "shape": [2], "offset": 0}),
        ("x", {"dtype": "i64", "shape": [2], "offset": 0}),
        ("_validity", COLUMN),
    ):
        with pytest.raises(ContractError):
            decode(frame_value(header(**{name: column}), bytes(16)))
    atoms = {"count": 1, "structural_shape": None, "columns": {}}
    bonds = block(atomi={"dtype": "u64", "shape": [2], "offset": 0})
    value = frame_value({"blocks": {"atoms": atoms, "bonds": bonds}, "meta": {}}, struct.pack("<2Q", 0, 1))
    found = decode(value)
    assert found.layout.referring == ("bonds",)
    frame = read_back(value)
    with pytest.raises(ContractError, match=r"bonds/atomi.*out of range"):
        _ = frame["bonds"]


@pytest.mark.parametrize(
    "box",
    [
        {},
        {"vectors": [[1.0, 0.0, 0.0]]},
        {"vectors": [[1.0, 0.0, 0.0], [0.0, 1.0], [0.0, 0.0, 1.0]]},
        {"vectors": np.eye(3).tolist(), "origin": [0.0]},
        {"vectors": np.eye(3).tolist(), "boundary": [1, 1, 1]},
        {"vectors": np.eye(3).tolist(), "cell_defined": 0},
        {"vectors": np.eye(3).tolist(), "cell_defined": False, "boundary": [True, False, False]},
        [],
    ],
)
def test_refused_cells(box: Any) -> None:
    with pytest.raises(ContractError, match="box"):
        _ = decode(frame_value({"blocks": {}, "meta": {}, "box": box})).box


def test_refused_meta_values() -> None:
    for meta, types in (({"n": 1.5}, {"n": "i32"}), ({"n": 2**40}, {"n": "i32"}), ({"n": 1}, {"n": "later"})):
        with pytest.raises(ContractError):
            decode(frame_value({"blocks": {}, "meta": meta, "meta_types": types})).meta()
    found = decode(frame_value({"blocks": {}, "meta": {"n": 1}, "meta_types": {"other": "i32"}}))
    assert found.meta().tags == {"n": "i64"}


def test_a_huge_declared_shape_takes_no_memory() -> None:
    values = [
        frame_value({"blocks": {"a": {"count": 2**50, "columns": {"q": {**COLUMN, "shape": [2**50]}}}}, "meta": {}}),
        frame_value({"blocks": {"a": {"count": 2**50, "columns": {"q": {**COLUMN, "shape": [2**50, 0]}}}}, "meta": {}}),
    ]
    tracemalloc.start()
    with pytest.raises(ContractError):
        decode(values[0])
    empty = decode(values[1]).values("a", "q")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert empty.size == 0
    assert peak < 200_000


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(frame_stores.frames(), st.data())
def test_damaged_values_are_refused_or_read(frame: Frame, data: st.DataObject) -> None:
    """Whatever bytes are altered, cut or added: a refusal, or arrays of the value; nothing else."""
    value = bytearray(encode_frame(frame, "frame"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(value) - 1))
        value[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(value)))
    for damaged in (bytes(value), bytes(value[:cut])):
        try:
            back = read_back(damaged)
            _ = back.meta, back.box
            for name in back:
                for column in back[name].columns.values():
                    assert len(column.values) == back[name].count
                    _ = column.validity
        except ContractError:
            pass


def test_headers_in_any_form_are_read() -> None:
    """Blanks, other orders of keys and escapes are JSON too."""
    document = {"step": 3, "meta": {"n\u00e9": 1}, "blocks": {"things": block(q=COLUMN)}, "later": [1]}
    value = frame_value(json.dumps(document, indent=2).encode(), struct.pack("<2d", 1, 2))
    found = decode(value)
    assert (found.step, found.document) == (3, {"né": 1})
    assert found.values("things", "q").tolist() == [1, 2]


def test_with_header_helper_keeps_the_payload() -> None:
    value = encode_frame(Frame({"things": Block({"q": np.array([1.0, 2.0])})}))
    again = with_header(value, lambda document: document["meta"].update(a=1))
    assert decode(again).values("things", "q").tolist() == [1.0, 2.0]
