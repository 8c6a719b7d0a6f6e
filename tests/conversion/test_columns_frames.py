"""Columns, blocks and frames: what a frame-shaped group says, what opening one reads, what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import frame_stores as stores
import numpy as np
import pytest
from layout_examples import records as examples

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Box, Column, Frame, Meta
from molrec_convert.stores.zarr.sections.frames import read_frame, write_frame
from molrec_convert.stores.zarr.v3.metadata import ArrayMetadata, parse_array, parse_document
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage


def small() -> Frame:
    atoms = Block({"element": ["O", "H"], "x": [0.0, 1.5], "id": np.array([7, 9], np.uint64)})
    return Frame({"atoms": atoms}, Meta({"title": "small"}), Box(np.eye(3)))


def metadata(path: Path, key: str) -> ArrayMetadata:
    return parse_array(parse_document((path / key / "zarr.json").read_bytes(), key), key)


# The page's example, array by array


def test_water_group_attributes(tmp_path: Path) -> None:
    stores.write(tmp_path, examples.build_water().frame or Frame())
    assert stores.attributes(tmp_path / "frame") == {
        "smiles": "O",
        "total_charge": 0,
        "units": {"length": "angstrom", "mass": "dalton"},
        "_meta_types": {"smiles": "string", "total_charge": "i64", "units": "json"},
    }
    assert list(stores.attributes(tmp_path / "frame"))[-1] == "_meta_types"
    assert stores.attributes(tmp_path / "frame" / "atoms") == {"count": 3}
    assert stores.attributes(tmp_path / "frame" / "bonds") == {"count": 2}
    assert stores.attributes(tmp_path / "frame" / "density") == {"count": 8, "structural_shape": [2, 2, 2]}
    assert stores.attributes(tmp_path / "frame" / "box") == {}
    assert stores.attributes(tmp_path / "frame" / "atoms" / "_validity") == {}


RAW, GRID = "bytes → crc32c", "bytes → shuffle(8) → zstd(3) → crc32c"
PACKED, TEXT = "bytes → gzip(1) → crc32c", "vlen-utf8 → gzip(1) → crc32c"
WATER = {
    "atoms/b_factor": ("f64", (3,), RAW, {}, [11.8, 0.0, 0.0]),
    "atoms/element": ("string", (3,), TEXT, {}, ["O", "H", "H"]),
    "atoms/mass": ("f64", (3,), RAW, {}, [15.999, 1.008, 1.008]),
    "atoms/x": ("f64", (3,), GRID, {"precision": 0.001}, [0.0, 0.0, 0.0]),
    "atoms/y": ("f64", (3,), GRID, {"precision": 0.001}, [0.0, 0.7568359375, -0.7568359375]),
    "atoms/z": ("f64", (3,), GRID, {"precision": 0.001}, [0.1171875, -0.46875, -0.46875]),
    "atoms/_validity/b_factor": ("bool", (3,), PACKED, {}, [True, False, False]),
    "bonds/atomi": ("u64", (2,), PACKED, {}, [0, 0]),
    "bonds/atomj": ("u64", (2,), PACKED, {}, [1, 2]),
    "bonds/bond_type": ("u64", (2,), PACKED, {}, [1, 1]),
    "density/rho": ("f64", (8,), RAW, {}, [0.0313, 0.0449, 0.0388, 0.0113, 0.015, 0.0437, 0.0261, 0.0098]),
    "box/vectors": ("f64", (3, 3), RAW, {}, [[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 10.0]]),
}


@pytest.mark.parametrize("key", sorted(WATER))
def test_water_arrays(tmp_path: Path, key: str) -> None:
    stores.write(tmp_path, examples.build_water().frame or Frame())
    dtype, shape, codecs, attributes, values = WATER[key]
    found = metadata(tmp_path, f"frame/{key}")
    assert (found.dtype, found.shape, str(found.pipeline), found.attributes) == (dtype, shape, codecs, attributes)
    assert found.chunk_shape == shape
    assert not found.sharded
    assert stores.zarr_values(tmp_path / "frame" / key).tolist() == values


def test_water_has_no_other_arrays(tmp_path: Path) -> None:
    stores.write(tmp_path, examples.build_water().frame or Frame())
    folders = {str(f.parent.relative_to(tmp_path / "frame")) for f in tmp_path.rglob("zarr.json")}
    assert folders == {*WATER, ".", "atoms", "bonds", "density", "box", "atoms/_validity"}


# Blocks


def test_a_block_without_columns_keeps_its_count(tmp_path: Path) -> None:
    frame = stores.round_trip(tmp_path, Frame({"sites": Block(count=12), "none": Block()}))
    assert frame["sites"].count == 12
    assert len(frame["sites"]) == 12
    assert list(frame["sites"]) == []
    assert frame["none"].count == 0


def test_structural_shape(tmp_path: Path) -> None:
    block = Block({"rho": np.arange(6.0)}, structural_shape=(1, 2, 3))
    read = stores.round_trip(tmp_path, Frame({"density": block}))["density"]
    assert read.structural_shape == (1, 2, 3)
    assert read["rho"].reshape(read.structural_shape).shape == (1, 2, 3)


def test_structural_shape_may_have_an_empty_axis(tmp_path: Path) -> None:
    block = Block({"rho": np.zeros(0)}, structural_shape=(0, 4))
    assert stores.round_trip(tmp_path, Frame({"density": block}))["density"].structural_shape == (0, 4)


@pytest.mark.parametrize("shape", [(2, 2), (7,), (), (-2, -3), (0,)])
def test_a_structural_shape_of_another_product_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    frame = Frame({"density": Block({"rho": np.arange(6.0)}, structural_shape=shape)})
    with pytest.raises(ContractError, match="frame/density"):
        write_frame(tmp_path, "frame", frame)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [[2, 2], [6.0], "6", [True, 6], [2, -3], {}], ids=str)
def test_a_stored_structural_shape_that_does_not_fit_is_refused(tmp_path: Path, shape: object) -> None:
    folder = stores.write(tmp_path, Frame({"density": Block({"rho": np.arange(6.0)}, structural_shape=(2, 3))}))
    stores.set_attribute(folder / "density", structural_shape=shape)
    with pytest.raises(ContractError, match="frame/density"):
        stores.read(tmp_path)


def test_attributes_of_blocks_and_columns_are_kept(tmp_path: Path) -> None:
    block = Block(
        {"c": Column(np.ones(2), attributes={"unit": "e", "note": None})}, attributes={"origin": [1, 2.5], "späte": {}}
    )
    read = stores.round_trip(tmp_path, Frame({"sites": block}))["sites"]
    assert read.attributes == {"origin": [1, 2.5], "späte": {}}
    assert read.columns["c"].attributes == {"unit": "e", "note": None}


@pytest.mark.parametrize("key", ["count", "structural_shape", "targets"])
def test_attributes_cannot_stand_in_for_what_a_block_says(tmp_path: Path, key: str) -> None:
    with pytest.raises(ContractError, match=key):
        write_frame(tmp_path, "frame", Frame({"sites": Block({"c": [1.0]}, attributes={key: 1})}))


def test_what_the_writer_of_an_array_notes_about_itself_is_dropped(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, small())
    for path in ("atoms/x", "box/vectors"):
        stores.set_attribute(folder / path, _zarrs={"description": "of another library"})
    frame = stores.read(tmp_path)
    assert frame["atoms"].columns["x"].attributes == {}
    assert frame.attributes == {}


@pytest.mark.parametrize(
    "name", ["meta", "values", "step", "time", "observables", "c", "Ångström", "a b", "100%", ".x"]
)
def test_block_and_column_names(tmp_path: Path, name: str) -> None:
    frame = stores.round_trip(tmp_path, Frame({name: Block({name: [1.0, 2.0]})}))
    assert list(frame) == [name]
    assert frame[name][name].tolist() == [1.0, 2.0]


def test_no_attributes_at_all_are_an_empty_document(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, Frame({"atoms": Block({"x": [1.0]})}))
    for path in (folder, folder / "atoms" / "x"):
        stores.edit(path, lambda document: document.pop("attributes"))
    assert stores.read(tmp_path)["atoms"]["x"].tolist() == [1.0]


def test_common_blocks_come_first(tmp_path: Path) -> None:
    blocks = {name: Block(count=1) for name in ("zeta", "angles", "bonds", "alpha", "atoms")}
    assert list(stores.round_trip(tmp_path, Frame(blocks))) == ["atoms", "bonds", "angles", "alpha", "zeta"]


# What is refused


def test_the_block_box_is_refused_at_write(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="frame/box"):
        write_frame(tmp_path, "frame", Frame({"box": Block({"x": [1.0]})}))


def test_the_column_validity_is_refused_at_write(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="frame/atoms/_validity"):
        write_frame(tmp_path, "frame", Frame({"atoms": Block({"_validity": [True]})}))


def test_the_column_validity_is_refused_at_read(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, small())
    stores.zarr_create(folder / "atoms" / "_validity", np.ones(2))
    with pytest.raises(ContractError, match="frame/atoms/_validity"):
        stores.read(tmp_path)


def test_columns_of_different_lengths_are_refused_at_write(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="frame/atoms/y"):
        write_frame(tmp_path, "frame", Frame({"atoms": Block({"x": [1.0, 2.0], "y": [1.0]})}))
    assert not list(tmp_path.iterdir())


def test_a_column_without_a_leading_axis_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="leading axis"):
        Block({"x": 5.0})
    folder = stores.write(tmp_path, small())
    stores.zarr_create(folder / "atoms" / "x", np.array(1.0))
    with pytest.raises(ContractError, match="frame/atoms/x"):
        stores.read(tmp_path)


@pytest.mark.parametrize("count", [1, 3, 0])
def test_a_column_length_other_than_the_count_is_refused(tmp_path: Path, count: int) -> None:
    stores.set_attribute(stores.write(tmp_path, small()) / "atoms", count=count)
    with pytest.raises(ContractError, match="frame/atoms/") as caught:
        stores.read(tmp_path)
    assert caught.value.expected == str(count)


def test_a_missing_count_is_refused(tmp_path: Path) -> None:
    stores.drop_attribute(stores.write(tmp_path, small()) / "atoms", "count")
    with pytest.raises(ContractError, match="frame/atoms: a block has a count"):
        stores.read(tmp_path)


@pytest.mark.parametrize("count", [-1, 2.0, "2", True, None, [2]], ids=str)
def test_a_count_that_is_no_count_is_refused(tmp_path: Path, count: object) -> None:
    stores.set_attribute(stores.write(tmp_path, small()) / "atoms", count=count)
    with pytest.raises(ContractError, match="frame/atoms"):
        stores.read(tmp_path)


@pytest.mark.parametrize("count", [-1, 2.5, "2"])
def test_a_count_that_is_no_count_is_refused_at_write(tmp_path: Path, count: object) -> None:
    with pytest.raises(ContractError):
        write_frame(tmp_path, "frame", Frame({"atoms": Block(count=count)}))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"zarr_format": 2}', '{"zarr_format": 3}', "\udce4", "NaN"])
@pytest.mark.parametrize("node", ["", "atoms", "atoms/x", "box"])
def test_metadata_that_is_none_is_refused(tmp_path: Path, node: str, text: str) -> None:
    folder = stores.write(tmp_path, small())
    (folder / node / "zarr.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ContractError, match="frame"):
        stores.read(tmp_path)


def test_a_section_that_is_an_array_or_is_not_there_is_refused(tmp_path: Path) -> None:
    stores.zarr_create(tmp_path / "frame", np.ones(3))
    for section in ("frame", "system"):
        with pytest.raises(ContractError, match=section):
            read_frame(DirectoryStorage(tmp_path), section)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("x", np.int64),
        ("id", np.int64),
        ("atomi", np.uint32),
        ("ix", np.int64),
        ("element", np.uint64),
        ("free", np.int8),
    ],
)
def test_a_standard_column_at_another_dtype_is_refused(tmp_path: Path, name: str, dtype: type) -> None:
    with pytest.raises(ContractError, match=f"frame/sites/{name}"):
        write_frame(tmp_path, "frame", Frame({"sites": Block({name: np.ones(2, dtype)})}))
    folder = stores.write(tmp_path, Frame({"sites": Block({"other": np.ones(2, dtype)})}))
    (folder / "sites" / "other").rename(folder / "sites" / name)
    with pytest.raises(ContractError, match=f"frame/sites/{name}"):
        stores.read(tmp_path)


def test_a_standard_column_has_one_value_per_row(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="frame/atoms/x"):
        write_frame(tmp_path, "frame", Frame({"atoms": Block({"x": np.ones((2, 3))})}))


# Lazy reading


def test_opening_reads_metadata_only(tmp_path: Path) -> None:
    atoms = Block({"x": Column(np.arange(5.0), np.array([True] * 4 + [False])), "element": ["C"] * 5})
    bonds = Block({"atomi": np.array([0, 1], np.uint64), "atomj": np.array([1, 4], np.uint64)})
    stores.write(tmp_path, Frame({"atoms": atoms, "bonds": bonds}, box=Box(np.eye(3) * 3.0)))
    storage = stores.WatchedStorage(tmp_path)
    frame = read_frame(storage, "frame")
    column = frame.blocks["atoms"].columns["x"]
    assert (column.dtype, column.trailing, len(column), frame.rows) == ("f64", (), 5, {"atoms": 5, "bonds": 2})
    assert "x: f64" in repr(frame.blocks["atoms"])
    assert "atoms: 5 rows" in repr(frame)
    assert storage.chunks == []
    assert column.values.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert column.validity is not None
    assert storage.chunks == ["frame/atoms/x/c/0", "frame/atoms/_validity/x/c/0"]
    assert column.values is column.values
    assert frame["bonds"]["atomj"].tolist() == [1, 4]
    assert frame.box == Box(np.eye(3) * 3.0)
    assert storage.chunks[2:] == ["frame/bonds/atomi/c/0", "frame/bonds/atomj/c/0", "frame/box/vectors/c/0/0"]


def test_a_stored_frame_equals_the_one_in_memory(tmp_path: Path) -> None:
    frame = small()
    read = stores.round_trip(tmp_path, frame)
    assert read == frame
    assert frame == read
    assert read["atoms"] == frame["atoms"]
    assert read["atoms"].columns["x"] == frame["atoms"].columns["x"]
    changed = dataclasses.replace(frame, blocks={"atoms": Block({**frame["atoms"].columns, "x": [0.0, -1.5]})})
    assert read != changed


def test_a_stored_frame_can_be_changed_and_written_again(tmp_path: Path) -> None:
    read = stores.round_trip(tmp_path / "a", small())
    read["atoms"].columns["x"] = dataclasses.replace(read["atoms"].columns["x"], precision=0.5)
    read.blocks["sites"] = Block({"c": [1.0]})
    read.meta["title"] = "changed"
    read.box = None
    again = stores.round_trip(tmp_path / "b", dataclasses.replace(read, step=None))
    assert again["atoms"].columns["x"].precision == 0.5
    assert list(again) == ["atoms", "sites"]
    assert again.meta["title"] == "changed"
    assert again.box is None


def test_a_frame_can_be_written_from_the_store_it_lies_in(tmp_path: Path) -> None:
    first = stores.round_trip(tmp_path / "a", examples.build_water().frame or Frame())
    second = stores.round_trip(tmp_path / "b", first)
    assert second == first
    assert dict(stores.every_file(tmp_path / "a")) == dict(stores.every_file(tmp_path / "b"))


def test_names_no_node_can_have_are_no_blocks_of_a_store(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, small())
    (folder / "atoms").rename(folder / "__atoms")
    assert list(stores.read(tmp_path)) == []


def test_arrays_beside_blocks_and_groups_beside_columns_are_not_misread(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, small())
    stores.zarr_create(folder / "loose", np.ones(4))
    stores.write(folder / "atoms", small(), "inner")
    (folder / "atoms" / "notes").mkdir()
    frame = stores.read(tmp_path)
    assert list(frame) == ["atoms"]
    assert sorted(frame["atoms"]) == ["element", "id", "x"]
