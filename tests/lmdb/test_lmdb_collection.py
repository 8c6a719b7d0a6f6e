"""Collections in LMDB: the lines of the conformance list."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import (
    F64,
    POINTS,
    contents,
    cubic,
    edit_header,
    edit_json,
    equal_trajectories,
    key,
    molecule,
    parts,
    point,
    points,
    put,
    write,
)

from molrec_convert.errors import ContractError, FormatError, MissingInputError, UnsupportedError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.lmdb.writer import CollectionWriter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.mrec.lmdb"


# what a collection holds


def test_several_records(path: Path) -> None:
    records = [points(n, frames=n + 1, atoms=n + 1) for n in range(4)]
    with open_collection(write(path, records)) as collection:
        assert len(collection) == 4
        assert collection.n_frames == 10
        for record, given in zip(collection, records, strict=True):
            assert record.meta == given.meta
            assert record.system is None
            assert equal_trajectories(record.trajectory, given.trajectory)
        assert [collection.locate(j) for j in range(10)] == [
            (0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2), (3, 3),
        ]  # fmt: skip
        assert collection.frame(5) == records[2].trajectory[2]
        assert collection[-1].meta == {"record_id": "r3"}
        with pytest.raises(IndexError):
            _ = collection[4]
        with pytest.raises(IndexError):
            collection.frame(10)
        for wrong in (2, -1):
            with pytest.raises(IndexError):
                collection[1].trajectory.frame(wrong)


def test_no_system_no_trajectory_zero_frame_trajectory(path: Path) -> None:
    records = [
        Record(system=molecule()),
        points(1),
        Record(system=molecule("C"), trajectory=MemoryTrajectory([], POINTS)),
        Record(system=molecule("CCC"), trajectory=points(3, atoms=3).trajectory),
    ]
    with open_collection(write(path, records)) as collection:
        assert collection.index["has_trajectory"].tolist() == [False, True, True, True]
        assert collection.index["n_frames"].tolist() == [0, 1, 0, 1]
        assert collection.index["first_frame"].tolist() == [0, 0, 1, 1]
        assert collection.index["n_atoms"].tolist() == [2, 2, 1, 3]
        assert collection[0].trajectory is None
        assert collection[1].system is None
        assert len(collection[2].trajectory) == 0
        assert list(collection[2].trajectory) == []
        assert list(collection[2].trajectory.batches()) == []
        assert collection[3].system == molecule("CCC")
        assert [collection.locate(j) for j in (0, 1)] == [(1, 0), (3, 0)]
    assert key("s", 1) not in contents(path)


def test_neither_system_nor_trajectory_is_refused(path: Path) -> None:
    with pytest.raises(ContractError, match="system or a trajectory"):
        write(path, [Record(meta={"a": 1})])
    assert not path.exists()


def test_an_empty_collection(path: Path) -> None:
    with open_collection(write(path, [], index_columns=["smiles"])) as collection:
        assert (len(collection), collection.n_frames) == (0, 0)
        assert list(collection) == []
        assert collection.index["smiles"].tolist() == []
    assert list(contents(path)) == [b"index", b"index.crc32c", b"meta"]


def test_differing_subsets_of_the_blocks(path: Path) -> None:
    declared = Declaration(
        {"atoms": BlockDeclaration({"x": F64}), "grid": BlockDeclaration({"rho": F64}, structural_shape=(2, 1, 1))}
    )
    both = Frame(
        {"atoms": Block({"x": np.zeros(1)}), "grid": Block({"rho": np.array([1.0, 2.0])}, structural_shape=(2, 1, 1))}
    )
    one = Frame({"atoms": Block({"x": np.ones(1)})})
    own = MemoryTrajectory([one])
    assert list(own.declaration.blocks) == ["atoms"]
    records = [Record(trajectory=MemoryTrajectory([both], declared)), Record(trajectory=own)]
    with open_collection(write(path, records, declared)) as collection:
        first, second = (record.trajectory[0] for record in collection)
        assert first["grid"].structural_shape == (2, 1, 1)
        assert first["grid"]["rho"].tolist() == [1.0, 2.0]
        assert list(second) == ["atoms"]


def test_mid_record_topology_change(path: Path) -> None:
    declared = Declaration(
        {
            "atoms": BlockDeclaration({"x": F64}),
            "bonds": BlockDeclaration({"atomi": ColumnDeclaration("u64"), "atomj": ColumnDeclaration("u64")}),
            "kinds": BlockDeclaration({"type": ColumnDeclaration("string")}, aligned_with="atoms"),
        }
    )

    def bonds(*pairs: tuple[int, int]) -> Block:
        ends = np.array(pairs, np.uint64).reshape(-1, 2)
        return Block({"atomi": ends[:, 0], "atomj": ends[:, 1]})

    frames = [
        Frame({"atoms": Block({"x": np.arange(2.0)}), "kinds": Block({"type": np.array(["A", "B"])})}, step=0),
        Frame({"atoms": Block({"x": np.arange(2.0) + 1}), "bonds": bonds((0, 1))}, step=10),
        Frame({"atoms": Block({"x": np.arange(3.0)}), "kinds": Block({"type": np.array(["A", "B", "C"])})}, step=20),
        Frame({"bonds": bonds((0, 1), (1, 2))}, step=30),
        Frame({"bonds": bonds()}, step=40),
    ]
    given = MemoryTrajectory(frames, declared)
    with open_collection(write(path, [Record(trajectory=given)], declared)) as collection:
        trajectory = collection[0].trajectory
        assert equal_trajectories(trajectory, given)
        assert "bonds" not in trajectory[0]
        assert trajectory[3]["kinds"]["type"].tolist() == ["A", "B", "C"]
        assert trajectory[4]["bonds"].count == 0
        for start in range(5):
            view = trajectory[start:]
            assert [view[k] for k in range(len(view))] == [given[k] for k in range(start, 5)]
        assert [trajectory[::2][k] for k in range(3)] == [given[k] for k in (0, 2, 4)]
    stored = [list(parts(contents(path)[key("f", j)])[0]["blocks"]) for j in range(5)]
    assert stored == [["atoms", "kinds"], ["atoms", "bonds"], ["atoms", "kinds"], ["bonds"], ["bonds"]]


def test_references_carried_forward_stay_in_range(path: Path) -> None:
    """What a reader refuses at a frame the writer refuses: also rows that went while references to them stayed."""
    declared = Declaration(
        {
            "atoms": BlockDeclaration({"x": F64}),
            "bonds": BlockDeclaration({"atomi": ColumnDeclaration("u64", nullable=True)}),
        }
    )

    def atoms(count: int) -> Block:
        return Block({"x": np.zeros(count)})

    def bonds(*ends: int, there: list[bool] | None = None) -> Block:
        return Block({"atomi": Column(np.array(ends, np.uint64), None if there is None else np.array(there))})

    whole = Frame({"atoms": atoms(2), "bonds": bonds(0, 1)}, step=0)
    null = Frame({"atoms": atoms(2), "bonds": bonds(0, 7, there=[True, False])}, step=0)
    for frames, said in (
        ([whole, Frame({"atoms": atoms(1)}, step=1)], "out of range at frame 1: found 1, expected less than 1"),
        ([whole, Frame(step=1), Frame({"atoms": atoms(0)}, step=2)], "out of range at frame 2: found 1"),
        ([whole, Frame({"bonds": bonds(0, 2)}, step=1)], "out of range at frame 1: found 2, expected less than 2"),
        ([Frame({"bonds": bonds(0)}, step=0)], "references rows of the block 'atoms', which is not there"),
        ([Frame({"bonds": bonds(2**64 - 1), "atoms": atoms(1)}, step=0)], "out of range at frame 0"),
        ([whole, Frame({"atoms": atoms(1), "bonds": bonds(0)}, step=1), Frame({"atoms": atoms(3)}, step=2)], None),
        ([whole, Frame({"atoms": atoms(0), "bonds": bonds()}, step=1)], None),
        ([null, Frame({"atoms": atoms(1)}, step=1)], None),
    ):
        record = Record(trajectory=MemoryTrajectory(frames, declared))
        if said is not None:
            with pytest.raises(ContractError, match=said):
                write(path, [record], declared)
            continue
        with open_collection(write(path, [record], declared, overwrite=True)) as collection:
            for start in range(len(frames)):
                view = collection[0].trajectory[start:]
                assert [frame["bonds"].count for frame in view] == [
                    frame["bonds"].count for frame in record.trajectory[start:]
                ]
                assert sum(batch.n_frames for batch in view.batches()) == len(frames) - start


def test_carry_forward_stops_at_the_record(path: Path) -> None:
    same = [point([1.0], step=k) for k in range(3)]
    records = [Record(trajectory=MemoryTrajectory(same, POINTS)) for _ in range(2)]
    with open_collection(write(path, records)) as collection:
        assert collection.frame(5)["atoms"]["x"].tolist() == [1.0]
    stored = [list(parts(contents(path)[key("f", j)])[0]["blocks"]) for j in range(6)]
    assert stored == [["atoms"], [], [], ["atoms"], [], []]
    put(path, key("f", 3), contents(path)[key("f", 4)])
    with open_collection(path) as collection:
        assert list(collection.frame(5)) == []
        assert list(collection[1].trajectory[0]) == []


def test_index_columns_typed(path: Path) -> None:
    records = [
        Record(system=molecule(smiles="O", q=-1, charge=1, polar=True, gap=0.5)),
        Record(system=molecule(smiles="C\u00e9", q=2, charge=2, polar=False, gap=2)),
        Record(system=molecule(), meta={"smiles": "N", "q": 0, "charge": 0.5}),
    ]
    columns = {
        "smiles": None,
        "q": "i32",
        "charge": None,
        "polar": None,
        "gap": None,
        "size": lambda record: len(record.system),
    }
    with open_collection(write(path, records, index_columns=columns)) as collection:
        index = collection.index
        assert {name: column.dtype for name, column in index.columns.items()} == {
            "first_frame": "u64", "n_frames": "u64", "n_atoms": "u64", "has_trajectory": "bool",
            "smiles": "string", "q": "i32", "charge": "f64", "polar": "bool", "gap": "f64", "size": "i64",
        }  # fmt: skip
        assert index["smiles"].tolist() == ["O", "Cé", "N"]
        assert index["q"].tolist() == [-1, 2, 0]
        assert index["charge"].tolist() == [1.0, 2.0, 0.5]
        assert index.validity("polar").tolist() == [True, True, False]
        assert index.validity("gap").tolist() == [True, True, False]
        assert index["gap"][:2].tolist() == [0.5, 2.0]
        assert index["size"].tolist() == [1, 1, 1]


def test_index_values_given_with_the_record(path: Path) -> None:
    with CollectionWriter.create(path, declaration=POINTS, units={}, index_columns=["split"]) as writer:
        writer.append(points(0), {"split": "train"})
        writer.append(points(1))
        with pytest.raises(ContractError, match="without this index column"):
            writer.append(points(2), {"fold": 1})
        with pytest.raises(ContractError, match="one plain value"):
            writer.append(points(2), {"split": [1, 2]})
        writer.append(points(2), {"split": "test"})
    with open_collection(path) as collection:
        assert len(collection) == 3
        assert collection.index["split"].tolist() == ["train", None, "test"]
        assert collection.index.stored("split").tolist() == ["train", "", "test"]
        assert collection.index.validity("split").tolist() == [True, False, True]


def test_force_field_shared(path: Path) -> None:
    forcefield = ForceField.new("f", {"preset": "real"}, note=[1, None])
    table = {"name": np.array(["b"]), "itom": np.array(["A"]), "jtom": np.array([""]), "k": np.ones(1)}
    forcefield.add("bond", "harmonic", Block(table))
    with open_collection(write(path, [points(0), points(1)], forcefield=forcefield)) as collection:
        read = collection.forcefield
        assert read is not None
        assert (read.document, read.tables) == (forcefield.document, forcefield.tables)
    with open_collection(write(path, [points(0)], overwrite=True)) as collection:
        assert collection.forcefield is None


def test_force_field_refused(path: Path) -> None:
    """At write and at read; one that a collection of this version would have misread too."""
    for wrong in (ForceField({"name": "f", "styles": []}), ForceField.new("f", {"preset": "later"})):
        with pytest.raises(ContractError, match="forcefield"):
            write(path, [points(0)], forcefield=wrong)
    second = ForceField.new("f", {"preset": "real"})
    second.molrec_version = 2
    with pytest.raises(ContractError, match="definitions"):
        write(path, [points(0)], forcefield=second)
    assert list(path.parent.iterdir()) == []
    write(path, [points(0)], forcefield=second, document={"molrec_version": 2})
    with open_collection(path) as collection:
        assert collection.forcefield == second
    edit_header(path, b"ff", lambda document: document["meta"].pop("units"))
    with open_collection(path) as collection, pytest.raises(ContractError, match="units"):
        _ = collection.forcefield


def test_attributes_of_a_force_field_are_reported(path: Path) -> None:
    forcefield = ForceField.new("f", {"preset": "real"})
    forcefield.attributes["later"] = {"a": 1}
    report = Report()
    write(path, [points(0)], forcefield=forcefield, report=report)
    assert [item.name for item in report.items] == ["attributes of forcefield/later"]


def test_meta_document_of_the_page(path: Path) -> None:
    write(path, [points(0)], units={"length": "nm"}, document={"license": "CC0"})
    document = json.loads(contents(path)[b"meta"])
    assert list(document) == ["layout", "layout_version", "collection", "sequence_schema", "n_records", "n_frames"]
    assert document["collection"] == {"molrec_version": 1, "license": "CC0", "units": {"length": "nm"}}
    assert (document["n_records"], document["n_frames"]) == (1, 1)
    with open_collection(path) as collection:
        assert collection.document["license"] == "CC0"


def test_precision_is_the_collections(path: Path) -> None:
    """Values lie on the declared grid; a change below it writes no update; the value states no precision."""
    declared = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", precision=0.5)})})
    frames = [
        Frame({"atoms": Block({"x": np.array([x, -0.1])})}, step=k) for k, x in enumerate((1.1, 1.2, 1.3, np.nan))
    ]
    records = [Record(trajectory=MemoryTrajectory(part, declared)) for part in (frames, frames[:1])]
    with open_collection(write(path, records, declared)) as collection:
        values = [frame["atoms"]["x"].tolist() for frame in collection[0].trajectory]
        assert values[:3] == [[1.0, -0.0], [1.0, -0.0], [1.5, -0.0]]
        assert str(values[0][1]) == "-0.0"
        assert collection[0].trajectory[0]["atoms"].columns["x"].precision == 0.5
        assert collection[1].trajectory[0]["atoms"]["x"].tolist() == [1.0, -0.0]
    headers = [parts(contents(path)[key("f", j)])[0] for j in range(5)]
    assert [list(header["blocks"]) for header in headers] == [["atoms"], [], ["atoms"], ["atoms"], ["atoms"]]
    assert "precision" not in headers[0]["blocks"]["atoms"]["columns"]["x"]


def test_identical_presentation_writes_nothing(path: Path) -> None:
    """NaN equals the same NaN; -0.0 differs from 0.0; another NaN differs."""
    odd = np.frombuffer(struct.pack("<Q", 0x7FF8000000000001)).copy()
    values = [np.array([np.nan]), np.array([np.nan]), odd, np.array([0.0]), np.array([-0.0]), np.array([-0.0])]
    declared = Declaration({"atoms": BlockDeclaration({"x": F64})})
    frames = [Frame({"atoms": Block({"x": x})}, step=k) for k, x in enumerate(values)]
    given = MemoryTrajectory(frames, declared)
    with open_collection(write(path, [Record(trajectory=given)], declared)) as collection:
        assert equal_trajectories(collection[0].trajectory, given)
    stored = [bool(parts(contents(path)[key("f", j)])[0]["blocks"]) for j in range(6)]
    assert stored == [True, False, True, True, True, False]


def test_cells_are_written_where_they_change(path: Path) -> None:
    plain = Declaration({"atoms": BlockDeclaration({"x": F64})})
    boxes = [
        None,
        cubic(5.0),
        cubic(5.0),
        None,
        cubic(6.0),
        Box(np.eye(3) * 6.0, boundary=np.array([True, True, False])),
    ]
    frames = [Frame({"atoms": Block({"x": np.zeros(1) + k})}, box=box, step=k) for k, box in enumerate(boxes)]
    given = MemoryTrajectory(frames, plain)
    with open_collection(write(path, [Record(trajectory=given)], plain)) as collection:
        trajectory = collection[0].trajectory
        assert equal_trajectories(trajectory, given)
        assert trajectory[0].box is None
        assert trajectory[3].box == cubic(5.0)
        assert trajectory[2:].frame(0).box == cubic(5.0)
    assert [k for k in range(6) if "box" in parts(contents(path)[key("f", k)])[0]] == [1, 4, 5]
    undefined = [Frame({"atoms": Block({"x": np.zeros(1)})}, box=Box.undefined((1.0, 0.0, 0.0)))]
    given = MemoryTrajectory(undefined, plain, cell_defined=False)
    with open_collection(write(path, [Record(trajectory=given)], plain, overwrite=True)) as collection:
        assert collection[0].trajectory.cell_defined is False
        assert collection[0].trajectory[0].box == undefined[0].box


def test_step_time_and_per_step_values(path: Path) -> None:
    declared = Declaration(
        {"atoms": BlockDeclaration({"x": F64})},
        {
            "pe": MetaDeclaration("f64"),
            "n": MetaDeclaration("i64", 7),
            "name": MetaDeclaration("string"),
            "stress": MetaDeclaration("f64x6"),
            "any": MetaDeclaration("json", None),
            "flags": MetaDeclaration("bool3"),
            "big": MetaDeclaration("u64"),
        },
    )
    frames = []
    for k in range(3):
        meta = Meta({"pe": [1.5, float("nan"), float("-inf")][k], "name": 'a"\n\u00e9', "big": 2**64 - 1 - k})
        meta.put("stress", np.arange(6.0) * k, "f64x6")
        meta.put("flags", np.array([True, False, k > 1]), "bool3")
        if k:
            meta.put("n", 2**60, "i64")
            meta.put("any", {"a": [1.0, None]}, "json")
        frames.append(Frame({"atoms": Block({"x": np.zeros(1)})}, meta, step=2**55 + k, time=0.1 * k))
    given = MemoryTrajectory(frames, declared)
    with open_collection(write(path, [Record(trajectory=given)], declared)) as collection:
        trajectory = collection[0].trajectory
        assert equal_trajectories(trajectory, given)
        assert trajectory[1].meta.tags == {name: entry.dtype for name, entry in declared.meta.items()}
        assert trajectory[0].meta.get("any") is None
        assert trajectory[0].meta["n"] == 7
        assert trajectory.steps.tolist() == [2**55, 2**55 + 1, 2**55 + 2]
        assert trajectory.times.tolist() == [0.0, 0.1, 0.2]
        assert collection.frame(2).meta["big"] == 2**64 - 3
    header, _ = parts(contents(path)[key("f", 1)])
    assert list(header) == ["blocks", "meta", "step", "time"]
    assert header["meta"]["pe"] == "NaN"
    assert header["step"] == str(2**55 + 1)


def test_a_frame_becomes_a_trajectory(path: Path) -> None:
    """Identity columns, relations and meta to the system; the rest in one frame; reported as converted."""
    frame = Frame(
        {
            "atoms": Block({"id": np.array([3, 9], np.uint64), "element": np.array(["O", "H"]), "x": np.zeros(2)}),
            "bonds": Block({"atomi": np.array([0], np.uint64), "atomj": np.array([1], np.uint64)}),
            "grid": Block({"rho": np.zeros(4)}, structural_shape=(2, 2, 1)),
        },
        Meta({"smiles": "O", "units": {"preset": "real"}}),
        cubic(4.0),
    )
    declared = Declaration(
        {
            "atoms": BlockDeclaration({"x": F64}),
            "grid": BlockDeclaration({"rho": F64}, structural_shape=(2, 2, 1)),
        }
    )
    report = Report()
    record = Record(meta={"record_id": "w"}, frame=frame)
    with open_collection(write(path, [record], declared, report=report)) as collection:
        back = collection[0]
        assert back.frame is None
        assert list(back.system["atoms"]) == ["id", "element"]
        assert back.system["bonds"]["atomj"].tolist() == [1]
        assert back.system.meta == frame.meta
        assert len(back.trajectory) == 1
        state = back.trajectory[0]
        assert list(state["atoms"]) == ["x"]
        assert state["grid"].structural_shape == (2, 2, 1)
        assert state.box == cubic(4.0)
        assert (state.step, dict(state.meta)) == (0, {})
        assert collection.index["n_atoms"].tolist() == [2]
    assert [item.name for item in report.items if item.fate == "converted"] == ["frame"]


def test_a_frame_beside_a_system(path: Path) -> None:
    """Its identity columns join those of the system; its state stands beside them."""
    system = Frame(
        {"atoms": Block({"id": np.array([3, 9], np.uint64), "mass": np.array([16.0, 1.0])})}, Meta({"smiles": "O"})
    )
    frame = Frame(
        {
            "atoms": Block({"id": np.array([3, 9], np.uint64), "charge": np.array([-1.0, 1.0]), "x": np.ones(2)}),
            "virtual_sites": Block({"atomi": np.array([1], np.uint64)}),
        },
        Meta({"smiles": "OX", "spin": 1}),
        step=5,
        time=0.5,
    )
    declared = Declaration({"atoms": BlockDeclaration({"x": F64})})
    report = Report()
    with open_collection(write(path, [Record(system=system, frame=frame)], declared, report=report)) as collection:
        back = collection[0]
        assert list(back.system["atoms"]) == ["id", "mass", "charge"]
        assert list(back.system) == ["atoms", "virtual_sites"]
        assert dict(back.system.meta) == {"smiles": "O", "spin": 1}
        assert (back.trajectory[0].step, back.trajectory[0].time) == (5, 0.5)
    assert [item.name for item in report.items if item.fate == "dropped"] == ["frame.smiles"]


def test_what_has_no_place_is_reported(path: Path) -> None:
    class Extra:
        def keys(self) -> Any:
            return iter(["plots/zarr.json", "plots/a/c/0", "plots/a/zarr.json"])

        def read(self, key: str) -> bytes:
            return b""

    system = molecule()
    system["atoms"].columns["element"].attributes["later"] = 1
    system["atoms"].attributes["known"] = [1]
    system.attributes["atoms/_validity"] = {"a": 1}
    trajectory = points(0).trajectory
    assert trajectory is not None
    trajectory.attributes["atoms"] = {"note": "x"}
    record = Record(
        system=system,
        trajectory=trajectory,
        frame=point([1.0, 2.0]),
        method={"type": "md", "description": "d", "engine": {"name": "e"}},
        status={"state": "done"},
        attributes={"later": 1},
        unknown=Extra(),
    )
    report = Report()
    with open_collection(write(path, [record], report=report)) as collection:
        assert collection[0].system["atoms"].attributes == {"known": [1]}
        assert collection[0].method is None
    assert sorted(item.name for item in report.items if item.fate == "dropped") == [
        "attributes of system/atoms/_validity",
        "attributes of system/atoms/element",
        "attributes of the root",
        "attributes of trajectory/atoms",
        "frame",
        "method",
        "plots",
        "plots/a",
        "status",
    ]


# refused at write


def test_w_no_units(path: Path) -> None:
    for document in ({}, {"units": None}, {"units": "real"}, {"units": {"length": 1}}, {"units": {"length": " "}}):
        with pytest.raises(ContractError, match="unit"):
            CollectionWriter.create(path, declaration=POINTS, document=document)
    assert list(path.parent.iterdir()) == []


def test_w_bad_document(path: Path) -> None:
    for version in (0, None, "1", 1.5, True, 99):
        with pytest.raises(ContractError, match="molrec_version"):
            CollectionWriter.create(path, declaration=POINTS, document={"units": {}, "molrec_version": version})
    with pytest.raises(ContractError, match="finite"):
        CollectionWriter.create(path, declaration=POINTS, document={"units": {}, "a": float("nan")})
    assert list(path.parent.iterdir()) == []


OUTSIDE = {
    "an undeclared block": ({"atoms": BlockDeclaration({"x": F64}), "b": BlockDeclaration({"q": F64})}, POINTS.meta),
    "an undeclared column": ({"atoms": BlockDeclaration({"x": F64, "y": F64})}, POINTS.meta),
    "a missing column": ({"atoms": BlockDeclaration({})}, POINTS.meta),
    "another shape": ({"atoms": BlockDeclaration({"x": F64}, structural_shape=(2,))}, POINTS.meta),
    "a mask": ({"atoms": BlockDeclaration({"x": replace(F64, nullable=True)})}, POINTS.meta),
    "a precision": ({"atoms": BlockDeclaration({"x": replace(F64, precision=0.5)})}, POINTS.meta),
    "no per-step key": ({"atoms": BlockDeclaration({"x": F64})}, {}),
    "one more per-step key": (POINTS.blocks, {**POINTS.meta, "ke": MetaDeclaration("f64")}),
    "another tag": (POINTS.blocks, {"pe": MetaDeclaration("i64")}),
    "a fill": (POINTS.blocks, {"pe": MetaDeclaration("f64", 0.0)}),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_w_record_outside_the_declaration(path: Path, name: str) -> None:
    """Refused, and the collection goes on without it."""
    blocks, meta = OUTSIDE[name]
    outside = Record(trajectory=MemoryTrajectory([], Declaration(blocks, meta)))
    with CollectionWriter.create(path, declaration=POINTS, units={}) as writer:
        writer.append(points(0))
        with pytest.raises(ContractError, match="record 1/trajectory"):
            writer.append(outside)
        assert len(writer) == 1
        writer.append(points(1))
    with open_collection(path) as collection:
        assert [record.meta["record_id"] for record in collection] == ["r0", "r1"]
        assert collection.frame(1) == points(1).trajectory[0]


def test_w_own_force_field(path: Path) -> None:
    class Extra:
        def keys(self) -> Any:
            return iter(["forcefield/zarr.json"])

        def read(self, key: str) -> bytes:
            return b""

    with pytest.raises(ContractError, match="force field of its own"):
        write(path, [replace(points(0), unknown=Extra())])
    own = replace(points(0), forcefield=ForceField.new("f", {"preset": "real"}))
    with pytest.raises(ContractError, match="force field of its own"):
        write(path, [own])


@pytest.mark.parametrize(
    "name", ["first_frame", "n_frames", "n_atoms", "has_trajectory", "_validity", "", "a/b", "__x"]
)
def test_w_reserved_index_name(path: Path, name: str) -> None:
    with pytest.raises(ContractError):
        CollectionWriter.create(path, declaration=POINTS, units={}, index_columns=[name])
    assert list(path.parent.iterdir()) == []


def test_w_index_columns_of_several_kinds(path: Path) -> None:
    for column, values in (
        ({"a": None}, ("x", 1)),
        ({"a": None}, (1, True)),
        ({"a": None}, (True, 1.0)),
        ({"a": "i32"}, (7, 2**40)),
        ({"a": "bool"}, (False, 1)),
        ({"a": "i64"}, (7, 1.5)),
        ({"a": "f64"}, (7, 2**53 + 1)),
        ({"a": "f64"}, (None, "x")),
        ({"a": "string"}, ("", 3)),
    ):
        # at once, and the collection goes on without the record
        with CollectionWriter.create(path, declaration=POINTS, units={}, index_columns=column) as writer:
            writer.append(points(0), {"a": values[0]})
            with pytest.raises(ContractError, match="index/a"):
                writer.append(points(1), {"a": values[1]})
            writer.append(points(2), {"a": values[0]})
        with open_collection(path) as collection:
            assert len(collection) == 2
            if values[0] is not None:
                assert collection.index["a"].tolist() == [values[0]] * 2
        path.unlink()
    with pytest.raises(ContractError, match="unknown dtype"):
        CollectionWriter.create(path, declaration=POINTS, units={}, index_columns={"a": "f32"})
    assert list(path.parent.iterdir()) == []


def test_w_frames_that_break_a_rule(path: Path) -> None:
    """The frames of a record before the fault go too; those of other records stay."""
    aligned = Declaration(
        {"atoms": BlockDeclaration({"x": F64}), "kinds": BlockDeclaration({"k": F64}, aligned_with="atoms")}
    )
    referring = Declaration(
        {"atoms": BlockDeclaration({"x": F64}), "bonds": BlockDeclaration({"atomi": ColumnDeclaration("u64")})}
    )

    def atoms(n: int) -> Block:
        return Block({"x": np.arange(float(n))})

    def kinds(n: int) -> Block:
        return Block({"k": np.arange(float(n))})

    bond = Block({"atomi": np.array([2], np.uint64)})
    cases: list[tuple[Declaration, list[dict[str, Block]], str]] = [
        (aligned, [{"atoms": atoms(2), "kinds": kinds(2)}, {"atoms": atoms(3)}], "another row count"),
        (aligned, [{"kinds": kinds(2)}], "has the aligned block but not .atoms."),
        (aligned, [{"atoms": atoms(2), "kinds": kinds(2)}, {"atoms": atoms(2)}, {"kinds": kinds(1)}], "row count"),
        (referring, [{"atoms": atoms(2), "bonds": bond}], "out of range"),
        (referring, [{"bonds": bond}], "not there"),
    ]
    for declaration, blocks, said in cases:
        frames = [Frame(entry, step=k) for k, entry in enumerate(blocks)]
        good = Record(trajectory=MemoryTrajectory([Frame({"atoms": atoms(1)})], declaration))
        with CollectionWriter.create(path, declaration=declaration, units={}, overwrite=True) as writer:
            writer.append(good)
            with pytest.raises(ContractError, match=said):
                writer.append(Record(trajectory=MemoryTrajectory(frames, declaration)))
            writer.append(good)
        with open_collection(path, verify=True) as collection:
            assert collection.n_frames == 2
            assert collection.frame(1)["atoms"]["x"].tolist() == [0.0]


def test_w_system_and_trajectory(path: Path) -> None:
    def system(**columns: Any) -> Frame:
        return Frame({"atoms": Block(columns)})

    with_id = Declaration({"atoms": BlockDeclaration({"id": ColumnDeclaration("u64"), "x": F64})})
    state = Frame({"atoms": Block({"id": np.array([1, 2], np.uint64), "x": np.zeros(2)})})
    for given, said in (
        (system(mass=np.ones(3)), "row count"),
        (system(x=np.ones(2)), "one side only"),
        (system(id=np.array([2, 1], np.uint64)), "id differs"),
    ):
        with pytest.raises(ContractError, match=said):
            write(path, [Record(system=given, trajectory=MemoryTrajectory([state], with_id))], with_id)
    good = Record(
        system=system(id=np.array([1, 2], np.uint64), mass=np.ones(2)), trajectory=MemoryTrajectory([state], with_id)
    )
    with open_collection(write(path, [good], with_id)) as collection:
        assert collection[0].trajectory[0]["atoms"]["id"].tolist() == [1, 2]


def test_w_broken_system(path: Path) -> None:
    """Also after a good one of the same shape: references are held against the rows of each."""

    def bonded(end: int) -> Frame:
        return Frame({"atoms": Block({"mass": np.ones(2)}), "bonds": Block({"atomi": np.array([end], np.uint64)})})

    with CollectionWriter.create(path, declaration=POINTS, units={}) as writer:
        writer.append(Record(system=bonded(0)))
        writer.append(Record(system=bonded(1)))
        with pytest.raises(ContractError, match=r"bonds/atomi.*out of range"):
            writer.append(Record(system=bonded(2)))
        ragged = Frame({"atoms": Block({"mass": np.ones(2), "charge": np.ones(3)})})
        with pytest.raises(ContractError, match="one row per row"):
            writer.append(Record(system=ragged))
        with pytest.raises(ContractError, match="finite"):
            writer.append(Record(meta={"a": float("inf")}, system=bonded(0)))
    with open_collection(path) as collection:
        assert len(collection) == 2


# refused at read


@pytest.fixture
def good(path: Path) -> Path:
    return write(
        path, [points(n, frames=2) for n in range(3)], index_columns={"tag": lambda record: record.meta["record_id"]}
    )


def test_r_no_meta(good: Path) -> None:
    put(good, b"meta", None)
    with pytest.raises(ContractError, match="no key 'meta'"):
        open_collection(good)


@pytest.mark.parametrize("layout", ["mrec", None, 1])
def test_r_layout(good: Path, layout: Any) -> None:
    edit_json(good, b"meta", lambda document: document.update(layout=layout))
    with pytest.raises(ContractError, match="layout"):
        open_collection(good)


def test_r_newer_layout_version(good: Path) -> None:
    edit_json(good, b"meta", lambda document: document.update(layout_version=2))
    with pytest.raises(UnsupportedError, match="layout version 2"):
        open_collection(good)
    for version in (None, 0, "1", 1.0, True):
        edit_json(good, b"meta", lambda document, version=version: document.update(layout_version=version))
        with pytest.raises(ContractError, match="version"):
            open_collection(good)


def test_r_meta_document(good: Path) -> None:
    original = contents(good)[b"meta"]
    for change, said in (
        (lambda d: d.pop("collection"), "collection"),
        (lambda d: d["collection"].pop("units"), "units"),
        (lambda d: d["collection"].update(molrec_version=99), "molrec_version"),
        (lambda d: d.pop("sequence_schema"), "sequence_schema"),
        (lambda d: d["sequence_schema"]["blocks"]["atoms"]["columns"]["x"].update(dtype="f32"), "dtype"),
        (lambda d: d.update(n_records=-1), "n_records"),
        (lambda d: d.pop("n_frames"), "n_frames"),
    ):
        put(good, b"meta", original)
        edit_json(good, b"meta", change)
        with pytest.raises(ContractError, match=said):
            open_collection(good)
    for value in (b"[]", b"{", b"\xff", b'{"layout":NaN}'):
        put(good, b"meta", value)
        with pytest.raises(ContractError):
            open_collection(good)


def payload_of(columns: dict[str, list[int]], flags: list[int]) -> bytes:
    return b"".join(struct.pack(f"<{len(v)}Q", *v) for v in columns.values()) + bytes(flags) + bytes(-len(flags) % 8)


@pytest.mark.parametrize(
    ("first", "frames", "flags", "said"),
    [
        ([0, 2, 5], [2, 2, 2], [1, 1, 1], "prefix sum"),
        ([1, 3, 5], [2, 2, 2], [1, 1, 1], "prefix sum"),
        ([0, 2, 4], [2, 2, 3], [1, 1, 1], "add up"),
        ([0, 2, 4], [2, 2, 2**63], [1, 1, 1], "more frames"),
        ([0, 2, 4], [2, 2, 2], [1, 0, 1], "has frames and no trajectory"),
        ([0, 2, 4], [2, 2, 2], [1, 2, 1], "0 or 1"),
    ],
)
def test_r_broken_prefix_sum(good: Path, first: list[int], frames: list[int], flags: list[int], said: str) -> None:
    value = contents(good)[b"index"]
    size = len(value) - len(parts(value)[1])
    put(good, b"index", value[:size] + payload_of({"f": first, "n": frames, "a": [2, 2, 2]}, flags))
    with open_collection(good) as collection:
        with pytest.raises(ContractError, match=said):
            _ = collection.index
        with pytest.raises(ContractError, match=said):
            _ = collection[0]


def test_r_index_header(good: Path) -> None:
    original = contents(good)[b"index"]

    def records(document: Any) -> Any:
        return document["blocks"]["records"]

    for change, said in (
        (lambda d: records(d)["columns"].pop("n_atoms"), "lacks this column"),
        (lambda d: records(d)["columns"]["n_frames"].update(dtype="i64"), "dtype of its own"),
        (lambda d: records(d)["columns"]["n_frames"].update(offset=4), "multiple of 8"),
        (lambda d: records(d)["columns"]["n_frames"].update(offset=800), "reaches past"),
        (lambda d: records(d)["columns"]["n_frames"].update(dtype="f32"), "unknown dtype"),
        (lambda d: records(d)["columns"]["tag"].update(shape=[2]), "one row per record"),
        (lambda d: d["blocks"].update(other=d["blocks"].pop("records")), "one block"),
        (lambda d: d["blocks"]["records"].update(count=2), "one row per row"),
    ):
        put(good, b"index", original)
        edit_header(good, b"index", change)
        with open_collection(good) as collection, pytest.raises(ContractError, match=said):
            _ = collection.index
    for value in (b"", b"MRF1", b"MRF2" + original[4:], original[:60]):
        put(good, b"index", value)
        with open_collection(good) as collection, pytest.raises(ContractError, match="index"):
            _ = collection.index
    put(good, b"index", None)
    with open_collection(good) as collection, pytest.raises(ContractError, match="index"):
        _ = collection[0]


def test_r_counts_beyond_the_file(good: Path) -> None:
    """A count that the file cannot hold is refused before anything is made for it."""
    edit_json(good, b"meta", lambda document: document.update(n_frames=2**50))
    with open_collection(good) as collection, pytest.raises(ContractError, match="more than the file has keys"):
        _ = collection.index
    edit_json(good, b"meta", lambda document: document.update(n_frames=7))
    with open_collection(good) as collection, pytest.raises(ContractError, match="add up"):
        _ = collection.index


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["blocks"]["atoms"]["columns"]["x"].update(offset=4), "multiple of 8"),
        (lambda d: d["blocks"]["atoms"]["columns"]["x"].update(offset=8), "reaches past"),
        (lambda d: d["blocks"]["atoms"]["columns"]["x"].update(dtype="f32"), "unknown dtype"),
        (lambda d: d["blocks"]["atoms"]["columns"]["x"].update(dtype="f16"), "unknown dtype"),
        (lambda d: d["blocks"]["atoms"]["columns"]["x"].update(validity=0), "nullable"),
        (lambda d: d["blocks"]["atoms"]["columns"].update(q=d["blocks"]["atoms"]["columns"].pop("x")), "declared"),
        (lambda d: d["blocks"].update(other=d["blocks"].pop("atoms")), "not declared"),
        (lambda d: d["blocks"]["atoms"].update(targets={"x": "atoms"}), "u64"),
        (lambda d: d["meta"].pop("pe"), "without a fill"),
        (lambda d: d["meta"].update(ke=1.0), "not declared"),
        (lambda d: d.pop("step"), "step"),
        (lambda d: d.update(step=1.5), "step"),
    ],
)
def test_r_frame_values(good: Path, change: Any, said: str) -> None:
    edit_header(good, key("f", 2), change)
    with open_collection(good) as collection:
        with pytest.raises(ContractError, match=rf"f\[2\].*{said}"):
            collection.frame(2).check()
        with pytest.raises(ContractError):
            list(collection[1].trajectory.batches())
        assert collection.frame(0) == points(0, frames=2).trajectory[0]


def test_r_meta_value_of_another_tag(good: Path) -> None:
    edit_header(good, key("f", 2), lambda document: document["meta"].update(pe="x"))
    with open_collection(good) as collection, pytest.raises(ContractError, match="pe"):
        _ = collection.frame(2).meta


def test_r_magic_and_overrun(good: Path) -> None:
    value = contents(good)[key("f", 2)]
    for bad in (b"MRF2" + value[4:], value[:-8], value[:10], b""):
        put(good, key("f", 2), bad)
        with open_collection(good) as collection, pytest.raises(ContractError, match=r"f\[2\]"):
            collection.frame(2)
    put(good, key("f", 2), None)
    with open_collection(good) as collection, pytest.raises(ContractError, match="not there"):
        collection.frame(2)
    put(good, key("r", 1), None)
    with open_collection(good) as collection, pytest.raises(ContractError, match=r"r\[1\]"):
        _ = collection[1].meta


def test_r_frames_that_go_together_badly(good: Path) -> None:
    """Steps that do not ascend, and time for some frames, are refused by whoever reads all frames."""
    original = contents(good)[key("f", 1)]
    edit_header(good, key("f", 1), lambda document: document.update(step=0))
    with open_collection(good) as collection, pytest.raises(ContractError, match="steps strictly increase"):
        list(collection[0].trajectory.batches())
    put(good, key("f", 1), original)
    edit_header(good, key("f", 1), lambda document: document.update(time=1.0))
    with open_collection(good) as collection, pytest.raises(ContractError, match="time"):
        list(collection[0].trajectory.batches())


def test_r_system_against_trajectory(path: Path) -> None:
    record = Record(system=molecule("OH"), trajectory=points(0).trajectory)
    write(path, [record])
    three = write(path.parent / "three.mrec.lmdb", [Record(system=molecule("OHH"))])
    put(path, key("s", 0), contents(three)[key("s", 0)])
    with open_collection(path) as collection, pytest.raises(ContractError, match="row count"):
        list(collection[0].trajectory.batches())


def test_r_no_file(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no file"):
        open_collection(tmp_path / "none.mrec.lmdb")
    with pytest.raises(FormatError, match="directory"):
        open_collection(tmp_path)


# order


@pytest.mark.slow
def test_keys_sort_numerically_past_255_and_65535_records(path: Path) -> None:
    count = 66_000
    one = Declaration({"atoms": BlockDeclaration({"x": F64})})
    with CollectionWriter.create(path, declaration=one, units={}) as writer:
        for number in range(count):
            frame = Frame({"atoms": Block({"x": np.array([float(number)])})})
            writer.append(Record(meta={"n": number}, trajectory=MemoryTrajectory([frame], one)))
    names = list(contents(path))
    assert names == sorted(names)
    with open_collection(path) as collection:
        assert len(collection) == count
        for number in (0, 1, 9, 10, 99, 255, 256, 257, 65_535, 65_536, 65_537, count - 1):
            assert collection[number].meta == {"n": number}
            assert collection.frame(number)["atoms"]["x"].tolist() == [float(number)]
        assert [r.meta["n"] for r in collection[250:260]] == list(range(250, 260))


def test_nullable_columns_and_masks(path: Path) -> None:
    declared = Declaration(
        {"atoms": BlockDeclaration({"q": replace(F64, nullable=True), "t": ColumnDeclaration("string", nullable=True)})}
    )
    masks = [[True, True], [True, False], [True, False], [False, False]]
    frames = [
        Frame(
            {
                "atoms": Block(
                    {"q": Column(np.array([1.0, 2.0]), np.array(m)), "t": Column(np.array(["a", ""]), np.array(m))}
                )
            },
            step=k,
        )
        for k, m in enumerate(masks)
    ]
    given = MemoryTrajectory(frames, declared)
    with open_collection(write(path, [Record(trajectory=given)], declared)) as collection:
        assert equal_trajectories(collection[0].trajectory, given)
    headers = [parts(contents(path)[key("f", j)])[0]["blocks"] for j in range(4)]
    assert [bool(header) for header in headers] == [True, True, False, True]
    assert "validity" not in headers[0]["atoms"]["columns"]["q"]
    assert headers[1]["atoms"]["columns"]["t"]["validity"] % 8 == 0
