"""Stored trajectories: refusals of broken stores, what is derived and preserved, slices and batches."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trajectory_stores as ts
from hand_built import edit_json
from trajectory_stores import atoms, frames_of

import molrec_convert
from molrec_convert.errors import ContractError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    Meta,
    MetaDeclaration,
)
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.array_writer import ShardAppender
from molrec_convert.stores.zarr.v3.codecs import dense_pipeline
from molrec_convert.stores.zarr.v3.commit import Unsynced
from molrec_convert.stores.zarr.v3.metadata import DENSE

F64 = ColumnDeclaration("f64")
MIXED = Declaration(
    {
        "atoms": BlockDeclaration({"x": F64, "y": ColumnDeclaration("f64", precision=1e-3)}, rows=3),
        "kinds": BlockDeclaration({"type": ColumnDeclaration("string", nullable=True)}, aligned_with="atoms", rows=3),
        "bonds": BlockDeclaration({"atomi": ColumnDeclaration("u64"), "atomj": ColumnDeclaration("u64")}, rows=2),
    },
    {"pe": MetaDeclaration("f64"), "doc": MetaDeclaration("json", None)},
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run.mrec"


def mixed_frames(count: int = 12) -> list[Frame]:
    """Moving atoms whose number changes twice, types that follow, bonds now and then, a cell that changes."""
    frames = []
    for i in range(count):
        n = 3 if i < 5 else 4 if i < 9 else 3
        blocks = {"atoms": Block({"x": np.arange(n) + i * 1.5, "y": np.arange(n) / 7 + i})}
        if i in (0, 2, 5, 9):
            types = np.array([f"t{i}", "", "é", "z"][:n])
            blocks["kinds"] = Block({"type": Column(types, np.arange(n) != 1)})
        if i in (1, 6):
            blocks["bonds"] = Block({"atomi": np.array([0, 1], np.uint64), "atomj": np.array([1, 2], np.uint64)})
        if i == 7:
            blocks["bonds"] = Block({"atomi": np.zeros(0, np.uint64), "atomj": np.zeros(0, np.uint64)})
        meta = Meta({"pe": -float(i)})
        meta.put("doc", {"i": i} if i % 3 else None, "json")
        box = Box(np.eye(3) * (10 + i // 4)) if i % 2 == 0 else None
        frames.append(Frame(blocks, meta, box, step=i * i, time=i * 0.1))
    return frames


@pytest.fixture
def mixed(root: Path) -> Path:
    return ts.write(root, mixed_frames(), MIXED, flush_every=5)


def rewrite(root: Path, path: str, values: Any) -> None:
    """Replace a dense array below the section."""
    folder = root / "trajectory" / path
    old = ts.node(root, path)
    shutil.rmtree(folder)
    values = np.asarray(values)
    dtype = {"u": "u64", "i": "i64", "f": "f64"}[values.dtype.kind]
    array = ShardAppender.create(
        root, f"trajectory/{path}", dense_pipeline(dtype), DENSE, Unsynced(), attributes=old.get("attributes")
    )
    array.append(values)
    array.flush()
    array._unsynced.commit()


def refused(root: Path, node: str, match: str) -> None:
    """Opening the store, or reading its frames, fails at the node."""
    with pytest.raises(ContractError, match=match) as caught:
        list(ts.opened(root))
    assert caught.value.node == node
    with pytest.raises(ContractError, match=match):
        one_by_one(root)


def one_by_one(root: Path) -> list[Frame]:
    trajectory = ts.opened(root)
    return [trajectory.frame(i) for i in range(trajectory.n_frames)]


def test_the_mixed_store_is_read_by_both_readers(mixed: Path) -> None:
    trajectory = ts.opened(mixed)
    expected = ts.resolved(mixed_frames(), MIXED)
    ts.same_frames(trajectory, expected)
    ts.same_frames((trajectory.frame(i) for i in range(12)), expected)
    ts.same_as_zarr(mixed, trajectory)
    trajectory.check()


# Lengths and the commit marker.


def test_tail_beyond_nstep_is_ignored(mixed: Path) -> None:
    expected = ts.resolved(mixed_frames(), MIXED)
    for count in (11, 6, 1):
        edit_json(mixed / "trajectory", lambda d, count=count: d["attributes"].update(nstep=count))
        trajectory = ts.opened(mixed)
        assert trajectory.n_frames == count
        ts.same_frames(trajectory, expected[:count])
        ts.same_as_zarr(mixed, trajectory)
    edit_json(mixed / "trajectory", lambda d: d["attributes"].update(nstep=0))
    assert list(ts.opened(mixed)) == []


@pytest.mark.parametrize("name", ["step", "time", "meta/pe"])
def test_series_shorter_than_nstep_are_refused(root: Path, name: str) -> None:
    frames = [Frame(meta=Meta({"pe": 1.0}), step=i * i, time=np.sqrt(i)) for i in range(4)]
    ts.write(root, frames)
    edit_json(root / "trajectory" / name, lambda d: d.update(shape=[3]))
    with pytest.raises(ContractError, match="shorter than the committed frames") as caught:
        ts.opened(root)
    assert caught.value.node == f"trajectory/{name}"
    shutil.rmtree(root / "trajectory" / name)
    if name != "time":
        with pytest.raises(ContractError, match="shorter than the committed frames"):
            ts.opened(root)


def test_without_nstep_the_frames_are_those_of_step(root: Path) -> None:
    frames = [Frame({"atoms": atoms(i)}, step=i * i) for i in range(4)]
    ts.write(root, frames)
    edit_json(root / "trajectory", lambda d: d["attributes"].pop("nstep"))
    ts.same_frames(ts.opened(root), frames)
    shutil.rmtree(root / "trajectory/step")
    assert ts.opened(root).n_frames == 0


def test_progression_without_nstep_is_refused(root: Path) -> None:
    ts.write(root, [Frame(step=i, time=float(i)) for i in range(3)])
    edit_json(root / "trajectory", lambda d: d["attributes"].pop("nstep"))
    refused(root, "trajectory", "no nstep")
    edit_json(root / "trajectory", lambda d: d["attributes"].pop("step_progression"))
    refused(root, "trajectory", "no nstep")


@pytest.mark.parametrize(
    "change",
    [
        {"nstep": -1},
        {"nstep": True},
        {"nstep": 2.0},
        {"nstep": "3"},
        {"step_progression": 5},
        {"step_progression": {}},
        {"step_progression": {"start": 0}},
        {"step_progression": {"start": 0, "stride": 0}},
        {"step_progression": {"start": 0, "stride": -1}},
        {"step_progression": {"start": 0.5, "stride": 1}},
        {"step_progression": {"start": 2**63 - 2, "stride": 1}},
        {"step_progression": {"start": -(2**63) - 1, "stride": 1}},
        {"time_progression": {"start": "0", "stride": 1}},
        {"time_progression": {"start": 0.0}},
        {"time_progression": {"stride": 1.0}},
        {"time_progression": {"start": 0.0, "stride": True}},
        {"sequence_schema": []},
        {"sequence_schema": {"blocks": {"step": {"columns": {}}}}},
        {"sequence_schema": {"blocks": {"a": {"columns": {"x": {"dtype": "f32", "trailing": []}}}}}},
    ],
)
def test_malformed_section_attributes_are_refused(root: Path, change: dict[str, Any]) -> None:
    ts.write(root, [Frame(step=i, time=float(i)) for i in range(3)])
    edit_json(root / "trajectory", lambda d: d["attributes"].update(change))
    with pytest.raises(ContractError) as caught:
        ts.opened(root)
    assert caught.value.node.startswith("trajectory")


def test_a_progression_wins_over_an_array(root: Path) -> None:
    ts.write(root, [Frame(step=i, time=float(i)) for i in (0, 1, 4)])
    edit_json(root / "trajectory", lambda d: d["attributes"].update(step_progression={"start": 7, "stride": 2}))
    trajectory = ts.opened(root)
    assert trajectory.steps.tolist() == [7, 9, 11]


# Blocks.


def test_regular_block_with_fewer_updates_carries_forward(root: Path) -> None:
    ts.write(root, frames_of(*({"atoms": atoms(i, i)} for i in range(4))))
    edit_json(root / "trajectory/atoms/x", lambda d: d.update(shape=[5]))
    trajectory = ts.opened(root)
    assert [trajectory.frame(i)["atoms"]["x"].tolist() for i in range(4)] == [[0, 0], [1, 1], [1, 1], [1, 1]]
    assert trajectory.resolve("atoms", 3) == (1, 2, 4)


@pytest.mark.parametrize(
    "markers",
    [
        {"uniform_rows": 2},
        {"dense_updates": True},
        {"uniform_rows": 2, "dense_updates": False},
        {"uniform_rows": 0, "dense_updates": True},
        {"uniform_rows": -2, "dense_updates": True},
        {"uniform_rows": 2.0, "dense_updates": True},
        {"uniform_rows": True, "dense_updates": True},
    ],
)
def test_one_marker_alone_or_no_row_count_is_refused(root: Path, markers: dict[str, Any]) -> None:
    ts.write(root, frames_of(*({"atoms": atoms(i, i)} for i in range(4))))
    edit_json(root / "trajectory/atoms", lambda d: d.update(attributes=markers))
    refused(root, "trajectory/atoms", "uniform_rows")


def test_markers_on_a_block_without_columns_are_refused(root: Path) -> None:
    ts.write(root, [Frame({"marks": Block(count=2)})])
    for half in ("step_index", "offset"):
        shutil.rmtree(root / "trajectory/marks" / half)
    edit_json(root / "trajectory/marks", lambda d: d.update(attributes={"uniform_rows": 2, "dense_updates": True}))
    refused(root, "trajectory/marks", "without columns")


def test_markers_beside_an_index_the_index_wins(mixed: Path) -> None:
    edit_json(mixed / "trajectory/atoms", lambda d: d.update(attributes={"uniform_rows": 3, "dense_updates": True}))
    ts.same_frames(ts.opened(mixed), ts.resolved(mixed_frames(), MIXED))


def test_a_group_with_neither_markers_nor_index_has_no_updates(root: Path) -> None:
    ts.write(root, frames_of(*({"atoms": atoms(i, i)} for i in range(4))))
    edit_json(root / "trajectory/atoms", lambda d: d.update(attributes={}))
    trajectory = ts.opened(root)
    assert trajectory.frame(3).blocks == {}
    assert trajectory.declaration.blocks.keys() == {"atoms"}


def test_declared_block_without_group_is_absent(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}), "ghost": BlockDeclaration({"q": F64})})
    ts.write(root, frames_of({"atoms": atoms(1.0)}), declaration)
    assert not (root / "trajectory/ghost").exists()
    trajectory = ts.opened(root)
    assert list(trajectory.frame(0).blocks) == ["atoms"]
    assert list(trajectory.declaration.blocks) == ["atoms", "ghost"]
    assert trajectory.resolve("ghost", 0) is None


@pytest.mark.parametrize("offset", [[0, 3, 1], [1, 2, 3], [0, 2]])
def test_offset_not_monotone_or_too_short_is_refused(root: Path, offset: list[int]) -> None:
    ts.write(root, frames_of({"atoms": atoms(1.0, 2.0)}, {"atoms": atoms(3.0)}))
    rewrite(root, "atoms/offset", np.array(offset, np.uint64))
    refused(root, "trajectory/atoms/offset", "offsets")


@pytest.mark.parametrize("index", [[1, 0], [0, 0]])
def test_step_index_not_ascending_is_refused(root: Path, index: list[int]) -> None:
    ts.write(root, frames_of({"atoms": atoms(1.0, 2.0)}, {"atoms": atoms(3.0)}))
    rewrite(root, "atoms/step_index", np.array(index, np.uint64))
    refused(root, "trajectory/atoms/step_index", "ascending")


def test_index_without_offset_is_refused(root: Path) -> None:
    ts.write(root, frames_of({"atoms": atoms(1.0, 2.0)}, {"atoms": atoms(3.0)}))
    shutil.rmtree(root / "trajectory/atoms/offset")
    refused(root, "trajectory/atoms/offset", "fewer")


@pytest.mark.parametrize("name", ["x", "_validity/x"])
def test_column_or_mask_shorter_than_its_updates_is_refused(root: Path, name: str) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", nullable=True)})})
    ts.write(root, frames_of({"atoms": atoms(1.0, 2.0)}, {"atoms": atoms(3.0)}), declaration)
    edit_json(root / "trajectory/atoms" / name, lambda d: d.update(shape=[2]))
    refused(root, f"trajectory/atoms/{name}", "shorter")


def test_missing_column_of_a_block_with_updates_is_refused(mixed: Path) -> None:
    shutil.rmtree(mixed / "trajectory/atoms/y")
    refused(mixed, "trajectory/atoms/y", "missing")


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("atoms/x", {"data_type": "int64", "fill_value": 0}),
        ("atoms/x", {"data_type": "float32"}),
        ("atoms/x", {"data_type": "float16"}),
        ("atoms/x", {"shape": [3, 3]}),
        ("kinds/type", {"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}}),
        ("atoms/step_index", {"data_type": "int64"}),
        ("meta/pe", {"data_type": "int64", "fill_value": 0}),
        ("step", {"data_type": "uint64", "fill_value": 0}),
        ("box/vectors", {"shape": [3, 9]}),
        ("kinds/_validity/type", {"data_type": "uint8", "fill_value": 0}),
    ],
)
def test_arrays_of_another_dtype_or_shape_are_refused(mixed: Path, path: str, change: dict[str, Any]) -> None:
    edit_json(mixed / "trajectory" / path, lambda d: d.update(change))
    with pytest.raises(ContractError) as caught:
        ts.opened(mixed)
    assert caught.value.node == f"trajectory/{path}"


def test_a_mask_of_no_column_or_of_one_that_is_not_nullable_is_refused(mixed: Path) -> None:
    masks = mixed / "trajectory/kinds/_validity"
    shutil.copytree(masks / "type", masks / "other")
    refused(mixed, "trajectory/kinds/_validity/other", "names no column")
    shutil.rmtree(masks / "other")
    edit_json(
        mixed / "trajectory",
        lambda d: d["attributes"]["sequence_schema"]["blocks"]["kinds"]["columns"]["type"].pop("nullable"),
    )
    refused(mixed, "trajectory/kinds/_validity/type", "not declared nullable")


def test_an_absent_mask_means_that_every_row_is_valid(mixed: Path) -> None:
    shutil.rmtree(mixed / "trajectory/kinds/_validity")
    trajectory = ts.opened(mixed)
    assert trajectory.frame(0)["kinds"].columns["type"].validity is None
    (batch,) = trajectory.batches()
    assert batch.blocks["kinds"].validity["type"].all()


def test_group_shape_that_contradicts_the_rows_is_refused(root: Path) -> None:
    ts.write(root, frames_of({"atoms": atoms(1.0, 2.0)}))
    edit_json(root / "trajectory/atoms", lambda d: d["attributes"].update(structural_shape=[3]))
    refused(root, "trajectory/atoms", "structural shape")
    edit_json(root / "trajectory/atoms", lambda d: d["attributes"].update(structural_shape=[1, 2]))
    trajectory = ts.opened(root)
    assert trajectory.frame(0)["atoms"].structural_shape == (1, 2)


def test_section_or_block_that_is_an_array_is_refused(mixed: Path) -> None:
    shutil.copy(mixed / "trajectory/step/zarr.json", mixed / "trajectory/kinds/zarr.json")
    with pytest.raises(ContractError, match="not a Zarr group"):
        ts.opened(mixed)
    shutil.copy(mixed / "trajectory/step/zarr.json", mixed / "trajectory/zarr.json")
    with pytest.raises(ContractError, match="not a Zarr group"):
        ts.opened(mixed)


# Checksums.


@pytest.mark.parametrize("name", ["a.mrec", "a.mrec.zip"])
def test_a_column_is_decoded_when_it_is_asked_for_or_the_record_closed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [Frame({"atoms": Block({key: np.arange(30.0) + i for key in "xyz"})}) for i in range(3)]
    molrec_convert.write(molrec_convert.Record(trajectory=molrec_convert.MemoryTrajectory(frames)), tmp_path / name)
    read: list[str] = []
    original = ArrayReader.read
    monkeypatch.setattr(ArrayReader, "read", lambda self, *rows: read.append(self.key) or original(self, *rows))
    with molrec_convert.open(tmp_path / name) as record:
        frame = record.trajectory[1]
        assert frame["atoms"]["y"][0] == 1.0
        assert read == ["trajectory/atoms/y"]
        assert len(record.trajectory[2]["atoms"]) == 30
        assert len(read) == 1
    assert sorted(read) == [f"trajectory/atoms/{key}" for key in "xyz"]
    assert frame["atoms"] == frames[1]["atoms"]


def test_a_bad_chunk_checksum_is_refused_where_it_is_read(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}, rows=3000)})
    ts.write(root, frames_of(*({"atoms": Block({"x": np.arange(3000.0) + i})} for i in range(4))), declaration)
    path = root / "trajectory/atoms/x/c/0"
    raw = bytearray(path.read_bytes())
    raw[-5000] ^= 1
    path.write_bytes(raw)
    trajectory = ts.opened(root)
    assert trajectory.frame(2)["atoms"]["x"][0] == 2.0
    for read in (
        lambda: trajectory.frame(3)["atoms"]["x"],
        lambda: list(trajectory.batches()),
        lambda: ts.through_zarr(root),
    ):
        with pytest.raises((ContractError, ValueError), match="checksum"):
            read()
    with pytest.raises(ContractError) as caught:
        _ = trajectory.frame(3)["atoms"]["x"]
    assert caught.value.node == "trajectory/atoms/x/c/0"


def test_a_torn_index_is_reported_and_the_frames_are_read(root: Path) -> None:
    frames = frames_of(*({"atoms": Block({"x": np.arange(3000.0) + i})} for i in range(4)))
    ts.write(root, frames)
    path = root / "trajectory/atoms/x/c/0"
    raw = bytearray(path.read_bytes())
    raw[16 * 4096] ^= 1
    path.write_bytes(raw)
    trajectory = ts.opened(root)
    ts.same_frames(trajectory, ts.resolved(frames, trajectory.declaration))
    assert len(trajectory.warnings) == 1
    assert trajectory.warnings[0].startswith("trajectory/atoms/x/c/0: ")
    TrajectoryWriter.open(root).close()
    repaired = ts.opened(root)
    ts.same_frames(repaired, ts.resolved(frames, repaired.declaration))
    assert repaired.warnings == []
    ts.same_as_zarr(root, repaired)


# References.


def test_references_out_of_range_or_into_nothing_are_refused(root: Path) -> None:
    u64 = ColumnDeclaration("u64")
    declaration = Declaration({"bonds": BlockDeclaration({"atomi": u64}), "atoms": BlockDeclaration({"x": F64})})
    frames = frames_of({"atoms": atoms(1.0, 2.0), "bonds": Block({"atomi": np.array([1], np.uint64)})})
    ts.write(root, frames, declaration)
    rewrite_rows(root, "bonds/atomi", np.array([2], np.uint64))
    refused(root, "trajectory/bonds/atomi", "out of range")
    with pytest.raises(ContractError, match="out of range"):
        ts.opened(root).check()
    rewrite_rows(root, "bonds/atomi", np.array([1], np.uint64))
    list(ts.opened(root))
    shutil.rmtree(root / "trajectory/atoms")
    refused(root, "trajectory/bonds/atomi", "is not there at frame")


def test_absolute_targets_are_checked_against_the_sections_that_are_there(root: Path) -> None:
    from molrec_convert.stores.zarr.trajectory.reader import StoredTrajectory
    from molrec_convert.stores.zarr.v3.storage import DirectoryStorage

    block = BlockDeclaration({"site": ColumnDeclaration("u64")}, targets={"site": "/system/atoms"})
    frames = frames_of({"sites": Block({"site": np.array([0, 5], np.uint64)})})
    ts.write(root, frames, Declaration({"sites": block}))
    storage = DirectoryStorage(root)
    for sections, reason in (({"system": {"atoms": 5}}, "out of range"), ({"system": {}}, "is not there at frame")):
        trajectory = StoredTrajectory(storage, sections=sections)
        for read in (lambda t=trajectory: t.frame(0), lambda t=trajectory: list(t.batches()), trajectory.check):
            with pytest.raises(ContractError, match=reason):
                read()
    for sections in ({"system": {"atoms": 6}}, {}):
        trajectory = StoredTrajectory(storage, sections=sections)
        trajectory.check()
        assert trajectory.frame(0)["sites"].targets == {"site": "/system/atoms"}


def rewrite_rows(root: Path, path: str, values: Any) -> None:
    """Write other values over the only chunk of a column."""
    from molrec_convert.stores.zarr.v3.metadata import parse_array

    document = ts.node(root, path)
    metadata = parse_array(document, path)
    folder = root / "trajectory" / path
    shutil.rmtree(folder / "c", ignore_errors=True)
    array = ShardAppender(root, f"trajectory/{path}", metadata, Unsynced())
    array.append(np.asarray(values))
    array.flush()
    array._unsynced.commit()


# What is not known, and what is derived.


def test_undeclared_content_is_preserved_and_not_resolved(mixed: Path) -> None:
    section = mixed / "trajectory"
    shutil.copytree(section / "bonds", section / "extra")
    shutil.copytree(section / "atoms/x", section / "atoms/later")
    (section / "note.txt").write_text("kept")
    edit_json(section, lambda d: d["attributes"].update(producer={"a": [1, None]}))
    edit_json(section / "atoms", lambda d: d["attributes"].update(colour="red"))
    edit_json(section / "atoms/x", lambda d: d["attributes"].update(unit="nm", precision=0.5))
    edit_json(section / "meta/pe", lambda d: d["attributes"].update(unit="eV"))
    edit_json(section / "box", lambda d: d["attributes"].update(source="barostat"))
    trajectory = ts.opened(mixed)
    assert set(trajectory.frame(11).blocks) == {"atoms", "kinds", "bonds"}
    assert trajectory.attributes == {
        "": {"producer": {"a": [1, None]}},
        "atoms": {"colour": "red"},
        "atoms/x": {"unit": "nm"},
        "meta/pe": {"unit": "eV"},
        "box": {"source": "barostat"},
    }
    assert "extra" not in trajectory.groups
    assert "atoms/later" not in trajectory.arrays
    assert {"atoms", "kinds/_validity"} <= trajectory.groups
    assert {"atoms/x", "kinds/_validity/type", "step", "meta/pe", "box/vectors"} <= trajectory.arrays
    ts.same_frames(trajectory, ts.resolved(mixed_frames(), MIXED))
    with TrajectoryWriter.open(mixed) as writer:
        writer.append_frame(mixed_frames(13)[12])
    assert (section / "note.txt").read_text() == "kept"
    assert (section / "extra/atomi/c/0").exists()
    assert ts.opened(mixed).attributes == trajectory.attributes


def test_unknown_attributes_are_written_where_they_are_given(root: Path) -> None:
    given = {
        "": {"a": 1},
        "atoms": {"b": 2},
        "atoms/x": {"c": 3},
        "meta": {"d": 4},
        "meta/pe": {"e": 5},
        "step": {"f": 6},
    }
    frames = [Frame({"atoms": atoms(float(i))}, Meta({"pe": 1.0}), step=i * i) for i in range(3)]
    assert ts.stored(root, frames, attributes=given).attributes == given


def test_attributes_of_the_layout_itself_are_not_taken_from_outside(root: Path) -> None:
    given = {
        "": {"nstep": 99, "a": 1},
        "atoms": {"uniform_rows": 7, "b": 2},
        "atoms/x": {"precision": 0.5},
        "box": {"vectors": 0, "c": 3},
        "meta/pe": {"meta_dtype": "i64", "_zarrs": {}},
    }
    frames = [Frame({"atoms": atoms(float(i))}, Meta({"pe": 1.0}), Box(np.eye(3))) for i in range(3)]
    trajectory = ts.stored(root, frames, attributes=given)
    assert trajectory.attributes == {"": {"a": 1}, "atoms": {"b": 2}, "box": {"c": 3}}
    assert given["atoms"] == {"uniform_rows": 7, "b": 2}
    assert trajectory.n_frames == 3
    assert trajectory.frame(2)["atoms"]["x"].tolist() == [2.0]


def test_precision_attribute_of_a_column_is_ignored(root: Path) -> None:
    ts.write(root, frames_of({"atoms": atoms(0.1)}))
    edit_json(root / "trajectory/atoms/x", lambda d: d["attributes"].update(precision=0.5))
    trajectory = ts.opened(root)
    assert trajectory.declaration.blocks["atoms"].columns["x"].precision is None
    assert trajectory.frame(0)["atoms"].columns["x"].precision is None
    assert trajectory.attributes == {}


def test_without_sequence_schema_the_declaration_is_derived(mixed: Path) -> None:
    edit_json(mixed / "trajectory", lambda d: d["attributes"].pop("sequence_schema"))
    trajectory = ts.opened(mixed)
    derived = trajectory.declaration
    assert set(derived.blocks) == {"atoms", "kinds", "bonds"}
    assert derived.blocks["kinds"].columns == {"type": ColumnDeclaration("string", nullable=True)}
    assert derived.blocks["atoms"].columns == {"x": F64, "y": F64}
    assert {key: entry.dtype for key, entry in derived.meta.items()} == {"pe": "f64", "doc": "json"}
    for ours, wrote in zip(trajectory, ts.resolved(mixed_frames(), MIXED), strict=True):
        assert ours["atoms"]["y"].tolist() == wrote["atoms"]["y"].tolist()
        assert dict(ours.meta) == {"doc": None, **wrote.meta}, "a null is one that was written, without a fill"
        assert ours["kinds"] == wrote["kinds"]


# Access.


def test_indices_slices_and_iteration(mixed: Path) -> None:
    trajectory = ts.opened(mixed)
    expected = ts.resolved(mixed_frames(), MIXED)
    assert len(trajectory) == 12
    ts.same_frames([trajectory[-1], trajectory[0]], [expected[-1], expected[0]])
    ts.same_frames(trajectory[3:10:3], expected[3:10:3])
    with pytest.raises(IndexError):
        trajectory[12]
    with pytest.raises(IndexError):
        trajectory.frame(12)


@pytest.mark.parametrize("batch_bytes", [1, 600, 10**9])
@pytest.mark.parametrize("frames", [range(12), range(1, 9), range(6, 12, 2), range(0, 12, 5)])
def test_batches_of_any_size_and_stride_give_the_frames(mixed: Path, batch_bytes: int, frames: range) -> None:
    trajectory = ts.opened(mixed)
    expected = ts.resolved(mixed_frames(), MIXED)
    stop = None if frames.stop == 12 else frames.stop
    batches = list(trajectory.batches(frames.start, stop, frames.step, batch_bytes=batch_bytes))
    assert sum(batch.n_frames for batch in batches) == len(frames)
    assert batch_bytes > 1 or all(batch.n_frames == 1 for batch in batches)
    assert batch_bytes < 10**9 or len(batches) == 1
    ts.same_frames([batches[0].frame(0, MIXED)], [expected[frames.start]])
    copy = mixed.with_name("copy")
    with TrajectoryWriter.create(copy, MIXED) as writer:
        for batch in batches:
            writer.append(batch)
    ts.same_frames(ts.opened(copy), [expected[i] for i in frames])


def test_later_batches_present_only_what_changes(mixed: Path) -> None:
    batches = list(ts.opened(mixed).batches(batch_bytes=1))
    presented = [list(batch.blocks) for batch in batches]
    assert presented[0] == ["atoms", "kinds"]
    assert presented[3] == ["atoms"]
    assert [batch.box is not None for batch in batches] == [i in (0, 4, 8) for i in range(12)]


def test_columns_are_selected_before_they_are_read(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trajectory = ts.opened(mixed)
    read: set[str] = set()
    from molrec_convert.stores.zarr.v3 import array_reader

    plan = array_reader.ArrayReader._plan
    monkeypatch.setattr(array_reader.ArrayReader, "_plan", lambda self, *a: (read.add(self.key), plan(self, *a))[1])
    (batch,) = trajectory.batches(columns=["atoms/x", "atomi"])
    assert {name: list(block.columns) for name, block in batch.blocks.items()} == {"atoms": ["x"], "bonds": ["atomi"]}
    assert not any(key.endswith(("/y", "/type", "/atomj")) for key in read)


def test_steps_and_times_of_all_frames(mixed: Path) -> None:
    trajectory = ts.opened(mixed)
    assert trajectory.steps.tolist() == [i * i for i in range(12)]
    assert trajectory.times.tolist() == [i * 0.1 for i in range(12)]


def test_frames_are_the_readers_own_to_change(mixed: Path) -> None:
    trajectory = ts.opened(mixed)
    frame = trajectory.frame(3)
    frame["atoms"]["x"][:] = 99.0
    frame.box.vectors[:] = 5.0
    assert trajectory.frame(3)["atoms"]["x"][0] == 4.5
    assert trajectory.frame(3).box.vectors[0, 0] == 10.0
    other = ts.stored(mixed.with_name("fixed"), [Frame(box=Box(np.eye(3)))])
    other.frame(0).box.vectors[:] = 5.0
    next(other.batches()).box.vectors[:] = 5.0
    assert other.frame(0).box == Box(np.eye(3))


def test_opening_reads_metadata_only(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from molrec_convert.stores.zarr.v3.storage import DirectoryStorage

    def forbidden(*_: Any) -> Any:
        raise AssertionError("values are read")

    monkeypatch.setattr(DirectoryStorage, "read_range", forbidden)
    monkeypatch.setattr(DirectoryStorage, "read_into", forbidden)
    trajectory = ts.opened(mixed)
    assert trajectory.n_frames == 12


def test_neither_reader_nor_writer_imports_the_zarr_library(root: Path) -> None:
    import subprocess

    code = (
        "import sys, numpy as np\n"
        "from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter\n"
        "from molrec_convert.stores.zarr.trajectory.reader import StoredTrajectory\n"
        "from molrec_convert.stores.zarr.v3.storage import DirectoryStorage\n"
        "from molrec_convert.model import *\n"
        "d = Declaration({'a': BlockDeclaration({'x': ColumnDeclaration('f64'), 's': ColumnDeclaration('string')})})\n"
        "with TrajectoryWriter.create(sys.argv[1], d) as w:\n"
        "    w.append_frame(Frame({'a': Block({'x': np.ones(3), 's': np.array(['a', 'b', 'c'])})}))\n"
        "t = StoredTrajectory(DirectoryStorage(sys.argv[1]))\n"
        "assert t.frame(0)['a']['x'].tolist() == [1, 1, 1] and len(list(t)) == 1\n"
        "assert 'zarr' not in sys.modules, 'zarr is imported'\n"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)


def test_any_layout_is_read(mixed: Path) -> None:
    """Every array stored anew by the Zarr library: other chunks, no shards, other codecs."""
    import warnings

    import zarr

    expected = ts.resolved(mixed_frames(), MIXED)
    section = mixed / "trajectory"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in sorted(section.rglob("zarr.json")):
            name = str(path.parent.relative_to(section))
            if name == "." or ts.node(mixed, name)["node_type"] != "array":
                continue
            values, document = ts.array(mixed, name), ts.node(mixed, name)
            shutil.rmtree(path.parent)
            new = zarr.create_array(
                zarr.storage.LocalStore(path.parent),
                shape=values.shape,
                dtype=values.dtype if values.dtype.kind != "T" else str,
                chunks=(2, *values.shape[1:]),
                compressors=[zarr.codecs.ZstdCodec(level=1)],
                filters=[zarr.codecs.TransposeCodec(order=(2, 1, 0))] if values.ndim == 3 else (),
                fill_value="" if values.dtype.kind == "T" else None,
                attributes=document["attributes"],
                config={"write_empty_chunks": True},
            )
            new[...] = values
    ts.same_frames(ts.opened(mixed), expected)
    with pytest.raises(Exception, match="cannot be appended to"):
        TrajectoryWriter.open(mixed)
