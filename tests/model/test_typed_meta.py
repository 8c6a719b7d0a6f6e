"""The sixteen meta tags: typed JSON, tags of frame-shaped groups, and what fits none."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest
from hypothesis import given, settings

from molrec_convert.errors import ContractError
from molrec_convert.model import TAGS, Frame, Meta
from molrec_convert.model.tags import check_json, coerce, from_typed_json, infer_tag, same_value, to_typed_json

VALUES: dict[str, Any] = {
    "bool": True,
    "i32": -(2**31),
    "i64": -(2**63),
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "f64": 1.0,
    "string": "Å\0\n",
    "json": {"a": [1, 2.5, None, True, "x", {}], "b": 2**53 + 1},
    "bool3": np.array([True, False, True]),
    "i32x3": np.array([-1, 0, 2**31 - 1], np.int32),
    "i64x3": np.array([-(2**63), 2**53 + 1, 2**63 - 1]),
    "u32x3": np.array([0, 1, 2**32 - 1], np.uint32),
    "u64x3": np.array([0, 2**53, 2**64 - 1], np.uint64),
    "f64x3": np.array([math.nan, math.inf, -math.inf]),
    "f64x6": np.array([1.0, -0.0, 5e-324, 1e308, 0.1, 2.0]),
    "f64x9": np.arange(9.0),
}


def meta_round_trip(path: Path, meta: Meta) -> Meta:
    return stores.round_trip(path, Frame(meta=meta)).meta


def test_there_are_sixteen_tags() -> None:
    assert set(TAGS) == set(VALUES)
    assert len(TAGS) == 16


@pytest.mark.parametrize("tag", sorted(VALUES))
def test_every_tag_keeps_tag_and_value(tmp_path: Path, tag: str) -> None:
    meta = Meta()
    meta.put("key", VALUES[tag], tag)
    read = meta_round_trip(tmp_path, meta)
    assert read.tag("key") == tag
    assert same_value(read["key"], VALUES[tag], tag)
    assert type(read["key"]) is type(VALUES[tag])
    assert stores.attributes(tmp_path / "frame")["_meta_types"] == {"key": tag}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 0.1, 5e-324])
def test_any_f64(tmp_path: Path, value: float) -> None:
    read = meta_round_trip(tmp_path, Meta({"key": value}))
    assert read.tag("key") == "f64"
    assert same_value(read["key"], value, "f64")


@pytest.mark.parametrize(
    ("tag", "value", "form"),
    [
        ("f64", math.nan, "NaN"),
        ("f64", math.inf, "Infinity"),
        ("f64", -math.inf, "-Infinity"),
        ("f64", 1.0, 1.0),
        ("f64x3", [1.0, math.nan, -math.inf], [1.0, "NaN", "-Infinity"]),
        ("u64", 2**53, 2**53),
        ("u64", 2**53 + 1, "9007199254740993"),
        ("u64", 2**64 - 1, "18446744073709551615"),
        ("i64", -(2**53), -(2**53)),
        ("i64", -(2**63), "-9223372036854775808"),
        ("i64x3", [0, -(2**53) - 1, 1], [0, "-9007199254740993", 1]),
        ("bool3", [True, False, True], [True, False, True]),
        ("json", {"n": 2**60}, {"n": 2**60}),
    ],
    ids=str,
)
def test_typed_json_form(tmp_path: Path, tag: str, value: Any, form: Any) -> None:
    found = to_typed_json(value, tag)
    assert found == form
    assert json.dumps(found, allow_nan=False) == json.dumps(form)
    meta = Meta()
    meta.put("key", value, tag)
    stores.write(tmp_path, Frame(meta=meta))
    assert stores.attributes(tmp_path / "frame")["key"] == form


def test_one_stays_a_real_number(tmp_path: Path) -> None:
    meta = Meta()
    meta.put("real", 1, "f64")
    meta.put("whole", 1, "i64")
    read = meta_round_trip(tmp_path, meta)
    assert (read["real"], type(read["real"])) == (1.0, float)
    assert (read["whole"], type(read["whole"])) == (1, int)


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        (True, "bool"),
        (0, "i64"),
        (-(2**63), "i64"),
        (2**63 - 1, "i64"),
        (2**63, "u64"),
        (2**64 - 1, "u64"),
        (2**64, "f64"),
        (0.5, "f64"),
        ("text", "string"),
        (None, "json"),
        ([1.0, 2.0, 3.0], "json"),
        ({"a": 1}, "json"),
    ],
    ids=str,
)
def test_a_key_without_a_tag_is_inferred(tmp_path: Path, value: Any, tag: str) -> None:
    folder = stores.write(tmp_path, Frame())
    stores.set_attribute(folder, key=value)
    meta = stores.read(tmp_path).meta
    assert meta.tag("key") == tag
    assert meta["key"] == value
    assert infer_tag(value) == tag


def test_a_number_no_tag_holds_exactly_stays_a_document(tmp_path: Path) -> None:
    stores.set_attribute(stores.write(tmp_path, Frame()), key=2**64 + 1)
    meta = stores.read(tmp_path).meta
    assert (meta.tag("key"), meta["key"]) == ("json", 2**64 + 1)


def test_a_tag_without_its_key_is_ignored(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, Frame(meta=Meta({"key": 1})))
    stores.edit(folder, lambda document: document["attributes"]["_meta_types"].update(gone="f64", strange="c128"))
    meta = stores.read(tmp_path).meta
    assert dict(meta) == {"key": 1}
    assert meta.tags == {"key": "i64"}


def test_keys_beside_the_tagged_ones_are_inferred(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, Frame(meta=Meta({"key": 1})))
    stores.set_attribute(folder, other="text")
    assert stores.read(tmp_path).meta.tags == {"key": "i64", "other": "string"}


def test_an_empty_document_has_no_tags(tmp_path: Path) -> None:
    assert stores.attributes(stores.write(tmp_path, Frame())) == {}


@pytest.mark.parametrize("key", ["", "a/b", "\0", "__x", "box", "zarr.json", "meta", "Å", "count"])
def test_keys_are_free(tmp_path: Path, key: str) -> None:
    assert dict(meta_round_trip(tmp_path, Meta({key: "value"}))) == {key: "value"}


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("i32", 1.5),
        ("i32", 2**31),
        ("i32", -(2**31) - 1),
        ("u32", -1),
        ("u64", -1),
        ("i64", 2**63),
        ("u64", 2**64),
        ("i64", 1.0),
        ("i64", True),
        ("f64", True),
        ("f64", 2**53 + 1),
        ("f64", "1.0"),
        ("bool", 1),
        ("string", 1),
        ("string", None),
        ("f64x3", [1.0, 2.0]),
        ("f64x3", [1.0, 2.0, 3.0, 4.0]),
        ("f64x3", [1.0, 2.0, "a"]),
        ("f64x3", 1.0),
        ("bool3", [1, 0, 1]),
        ("i32x3", [1, 2, 3.5]),
        ("f64x9", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ("c128", 1j),
        ("f32", 1.0),
        ("json", 1j),
        ("json", {1: 2}),
        ("json", {"a": math.nan}),
        ("json", [math.inf]),
        ("json", np.float64(1.0)),
        ("json", {"a": np.int64(1)}),
        ("json", np.zeros(3)),
        ("json", "\ud800"),
        ("string", "\ud800"),
        (5, 1),
    ],
    ids=str,
)
def test_what_does_not_fit_its_tag_is_refused_at_write(tag: Any, value: Any) -> None:
    with pytest.raises(ContractError):
        Meta().put("key", value, tag)


@pytest.mark.parametrize(
    ("tag", "form"),
    [
        ("i32", 1.5),
        ("i32", 2**31),
        ("i64", 1.0),
        ("i64", "1"),
        ("i64", "9007199254740992"),
        ("i64", "9223372036854775808"),
        ("u64", "-9007199254740993"),
        ("u64", "+9007199254740993"),
        ("u64", "09007199254740993"),
        ("u64", "9007199254740993.0"),
        ("u64", "９００７１９９２５４７４０９９３"),
        ("u64", "9" * 5000),
        ("u64", 2**64),
        ("f64", "nan"),
        ("f64", "inf"),
        ("f64", "1.0"),
        ("f64", True),
        ("f64", None),
        ("f64", 2**2000),
        ("bool", 1),
        ("bool", "true"),
        ("string", 1),
        ("f64x3", [1.0, 2.0]),
        ("f64x3", "NaN"),
        ("bool3", [True, False, 1]),
        ("c64", [1.0, 2.0]),
        ("c128x3", 1),
        (None, 1),
        ({}, 1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_does_not_fit_its_tag_is_refused_at_read(tmp_path: Path, tag: Any, form: Any) -> None:
    folder = stores.write(tmp_path, Frame())
    stores.set_attribute(folder, key=form, _meta_types={"key": tag})
    with pytest.raises(ContractError, match=r"frame\.key"):
        stores.read(tmp_path)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("tag", ["f64", "json", None])
def test_numbers_json_does_not_have_are_refused_at_read(tmp_path: Path, tag: str | None, literal: str) -> None:
    folder = stores.write(tmp_path, Frame(meta=Meta({"key": "PLACE"})))
    stores.set_attribute(folder, _meta_types={} if tag is None else {"key": tag})
    path = folder / "zarr.json"
    path.write_text(path.read_text().replace('"PLACE"', literal))
    with pytest.raises(ContractError, match="frame"):
        stores.read(tmp_path)


@pytest.mark.parametrize("tags", [[], "f64", 5, None], ids=str)
def test_tags_that_are_no_object_are_refused(tmp_path: Path, tags: Any) -> None:
    stores.set_attribute(stores.write(tmp_path, Frame()), key=1, _meta_types=tags)
    with pytest.raises(ContractError, match="_meta_types"):
        stores.read(tmp_path)


def test_the_key_meta_types_is_refused_at_write() -> None:
    with pytest.raises(ContractError, match="_meta_types"):
        Meta({"_meta_types": {}})
    with pytest.raises(ContractError, match="_meta_types"):
        Meta()["_meta_types"] = {}


def test_exact_integers_beyond_2_to_the_53_are_read_as_numbers(tmp_path: Path) -> None:
    assert from_typed_json(2**53 + 1, "u64", "n") == 2**53 + 1
    assert from_typed_json([0, 2**64 - 1, 1], "u64x3", "n").tolist() == [0, 2**64 - 1, 1]
    assert from_typed_json(3, "f64", "n") == 3.0


def test_numpy_scalars_become_native(tmp_path: Path) -> None:
    assert type(coerce(np.float64(1.5), "f64", "n")) is float
    assert type(coerce(np.int32(5), "i64", "n")) is int
    assert type(coerce(np.str_("a"), "string", "n")) is str
    assert type(coerce(np.bool_(True), "bool", "n")) is bool


def test_a_document_nested_without_end_is_refused() -> None:
    document: list[Any] = []
    document.append(document)
    with pytest.raises(ContractError, match="nested deeper than"):
        check_json(document, "meta")


def test_equality_is_bit_for_bit_and_by_tag() -> None:
    assert Meta({"a": 1, "b": 2.0}) == Meta({"b": 2.0, "a": 1})
    assert Meta({"a": 1}) != Meta({"a": 1.0})
    assert Meta({"a": 0.0}) != Meta({"a": -0.0})
    assert Meta({"a": math.nan}) == Meta({"a": math.nan})
    assert Meta({"a": {"x": 1, "y": 2}}) == Meta({"a": {"y": 2, "x": 1}})
    assert Meta({"a": {"x": 1}}) != Meta({"a": {"x": 1.0}})
    assert Meta({"a": 1}) != Meta({"a": 1, "b": 2})


@given(stores.metas())
@settings(max_examples=100)
def test_any_document_comes_back(tmp_path_factory: pytest.TempPathFactory, meta: Meta) -> None:
    read = meta_round_trip(tmp_path_factory.mktemp("meta"), meta)
    assert read == meta
    assert list(read) == list(meta)
