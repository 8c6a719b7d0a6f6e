"""Collections in memory and views of them: declarations derived, units demanded, records selected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from collection_stores import F64, POINTS, UNITS, cubic, molecule, point, points

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.model.collection.collection import CollectionView, MemoryCollection
from molrec_convert.model.collection.declaration import derive_declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.report import Report


def collection(**options: Any) -> MemoryCollection:
    records = [replace(points(n, frames=n % 3), system=molecule("OH", smiles="O" * n)) for n in range(6)]
    return MemoryCollection(records, units=UNITS, index_columns=["smiles"], **options)


def test_records_frames_index() -> None:
    c = collection()
    assert (len(c), c.n_frames) == (6, 6)
    assert c.units == UNITS
    assert c.document == {"molrec_version": 1, "units": UNITS}
    assert c.index["n_frames"].tolist() == [0, 1, 2, 0, 1, 2]
    assert c.index["first_frame"].tolist() == [0, 0, 1, 3, 3, 4]
    assert c.index["n_atoms"].tolist() == [2] * 6
    assert c.index["smiles"].tolist() == ["O" * n for n in range(6)]
    assert {name: column.dtype for name, column in c.index.columns.items()} == {
        "first_frame": "u64", "n_frames": "u64", "n_atoms": "u64", "has_trajectory": "bool", "smiles": "string",
    }  # fmt: skip
    assert [c.locate(j) for j in range(6)] == [(1, 0), (2, 0), (2, 1), (4, 0), (5, 0), (5, 1)]
    assert c.frame(-1) == points(5, frames=2).trajectory[1]
    assert [record.meta["record_id"] for record in c] == [f"r{n}" for n in range(6)]
    assert c[-2].meta == {"record_id": "r4"}
    assert bool(MemoryCollection([], units={}))
    for bad in (6, -7):
        with pytest.raises(IndexError):
            _ = c[bad]
        with pytest.raises(IndexError):
            c.frame(bad)
    assert repr(c) == "<MemoryCollection: 6 records, 6 frames; atoms>"


def test_selections() -> None:
    c = collection()

    def ids(selected: Any) -> list[str]:
        return [record.meta["record_id"] for record in selected]

    assert ids(c.select("n_frames == 2 or smiles == O")) == ["r1", "r2", "r5"]
    assert ids(c.select(c.index["n_frames"] > 0)) == ["r1", "r2", "r4", "r5"]
    assert ids(c.select([5, 0, -1, 0])) == ["r5", "r0", "r5", "r0"]
    assert ids(c.select([])) == []
    assert ids(c[1:4]) == ["r1", "r2", "r3"]
    assert ids(c[::-2]) == ["r5", "r3", "r1"]
    assert ids(c.select("n_frames > 0").select([1])) == ["r2"]
    for wrong in ([6], [-7], [True], [[1]], [0.5], np.ones(5, bool)):
        with pytest.raises(UsageError):
            c.select(wrong)


def test_a_view_counts_frames_anew() -> None:
    c = collection()
    view = c.select([5, 2, 0, 1])
    assert isinstance(view, CollectionView)
    assert (len(view), view.n_frames) == (4, 5)
    assert view.index["first_frame"].tolist() == [0, 2, 4, 4]
    assert [view.locate(j) for j in range(5)] == [(0, 0), (0, 1), (1, 0), (1, 1), (3, 0)]
    assert view.frame(2) == points(2, frames=2).trajectory[0]
    assert view.index["smiles"].tolist() == ["OOOOO", "OO", "", "O"]
    assert (view.document, view.declaration) == (c.document, c.declaration)
    assert c.index["first_frame"].tolist() == [0, 0, 1, 3, 3, 4]


def test_a_view_keeps_nulls() -> None:
    records = [Record(system=molecule(gap=1.0)), Record(system=molecule()), Record(system=molecule(gap=2.0))]
    c = MemoryCollection(records, units={}, index_columns=["gap"])
    view = c.select([2, 1])
    assert view.index.validity("gap").tolist() == [True, False]
    assert [len(r.system) for r in view.select("gap > 1")] == [1]
    assert len(view.select("gap <= 1")) == 0


def test_force_field() -> None:
    forcefield = ForceField.new("f", {"preset": "real"})
    assert collection(forcefield=forcefield).select([0]).forcefield is forcefield
    assert collection().forcefield is None


def test_units_are_demanded() -> None:
    for options in ({}, {"document": {}}, {"document": {"units": []}}, {"units": {"length": None}}):
        with pytest.raises(ContractError, match="unit"):
            MemoryCollection([], **options)
    c = MemoryCollection([], document={"units": {"length": "nm"}, "molrec_version": 2, "name": None})
    assert c.document == {"molrec_version": 2, "units": {"length": "nm"}, "name": None}


def test_members() -> None:
    with pytest.raises(ContractError, match="system or a trajectory"):
        MemoryCollection([Record()], units={})
    outside = Declaration({"atoms": BlockDeclaration({"x": F64})}, {"ke": MetaDeclaration("f64")})
    with pytest.raises(ContractError, match="record 0/trajectory/meta"):
        MemoryCollection([points(0)], units={}, declaration=outside)


def test_a_frame_becomes_a_trajectory() -> None:
    frame = Frame(
        {"atoms": Block({"element": np.array(["O"]), "x": np.zeros(1)})}, Meta({"smiles": "O"}), cubic(3.0), step=4
    )
    report = Report()
    c = MemoryCollection([Record(frame=frame)], units={}, report=report)
    record = c[0]
    assert record.frame is None
    assert list(record.system["atoms"]) == ["element"]
    assert record.system.meta == frame.meta
    assert record.trajectory[0] == Frame({"atoms": Block({"x": np.zeros(1)})}, Meta(), cubic(3.0), 4)
    assert list(c.declaration.blocks["atoms"].columns) == ["x"]
    assert [str(item) for item in report.items] == [
        "converted: frame (became a trajectory of one frame; identity columns, relations and meta belong to system)"
    ]


def test_a_frame_of_relations_alone_keeps_its_rows() -> None:
    """What relations refer to stays referable in system, though its columns are state."""
    frame = Frame(
        {
            "atoms": Block({"x": np.zeros(3)}),
            "beads": Block({"q": np.zeros(2)}),
            "members": Block(
                {"ibead": np.array([1], np.uint64), "atom": np.array([2], np.uint64)},
                targets={"ibead": "beads", "atom": "/frame/atoms"},
            ),
        }
    )
    record = MemoryCollection([Record(frame=frame)], units={})[0]
    assert {name: block.count for name, block in record.system.blocks.items()} == {"atoms": 3, "beads": 2, "members": 1}
    assert record.system["members"].targets == {"ibead": "beads", "atom": "atoms"}
    record.system.check("system")
    assert list(record.trajectory[0]) == ["atoms", "beads"]


def test_nothing_is_altered_in_the_source() -> None:
    system = molecule("O", smiles="O")
    frame = Frame({"atoms": Block({"mass": np.ones(1), "x": np.zeros(1)})}, Meta({"spin": 1}))
    record = Record(system=system, frame=frame)
    MemoryCollection([record], units={})
    assert record.frame is frame
    assert (list(system["atoms"]), list(system.meta)) == (["element"], ["smiles"])
    assert list(frame["atoms"]) == ["mass", "x"]


# declarations


def declared(rows: int | None = None, **columns: ColumnDeclaration) -> Declaration:
    return Declaration({"atoms": BlockDeclaration(columns, rows=rows)}, {"pe": MetaDeclaration("f64")})


def test_union_of_blocks_and_shared_keys() -> None:
    one = Declaration(
        {"a": BlockDeclaration({"q": F64}, rows=3)}, {"pe": MetaDeclaration("f64"), "ke": MetaDeclaration("f64")}
    )
    two = Declaration(
        {"b": BlockDeclaration({"q": F64}), "a": BlockDeclaration({"q": F64}, rows=5)}, {"pe": MetaDeclaration("f64")}
    )
    joined = derive_declaration([one, two])
    assert list(joined.blocks) == ["a", "b"]
    assert list(joined.meta) == ["pe"]
    assert joined.blocks["a"].rows == 5
    assert derive_declaration([]) == Declaration()


def test_records_that_disagree() -> None:
    cases: list[tuple[Declaration, Declaration]] = [
        (declared(x=F64), declared(x=F64, y=F64)),
        (declared(q=F64), declared(q=ColumnDeclaration("i64"))),
        (declared(q=F64), declared(q=ColumnDeclaration("f64", (3,)))),
        (declared(q=F64), declared(q=ColumnDeclaration("f64", precision=0.5))),
        (declared(q=F64), Declaration({"atoms": BlockDeclaration({"q": F64}, structural_shape=(1,))})),
        (Declaration({}, {"pe": MetaDeclaration("f64")}), Declaration({}, {"pe": MetaDeclaration("i64")})),
        (Declaration({}, {"pe": MetaDeclaration("f64")}), Declaration({}, {"pe": MetaDeclaration("f64", 0.0)})),
    ]
    for one, two in cases:
        for pair in ((one, two), (two, one)):
            with pytest.raises(ContractError, match="declare"):
                derive_declaration(pair)


def test_nullable_where_any_is() -> None:
    joined = derive_declaration([declared(q=F64), declared(q=replace(F64, nullable=True)), declared(q=F64)])
    assert joined.blocks["atoms"].columns["q"].nullable
    masked = Frame({"atoms": Block({"q": Column(np.ones(2), np.array([True, False]))})})
    plain = Frame({"atoms": Block({"q": np.ones(2)})})
    c = MemoryCollection([Record(trajectory=MemoryTrajectory([f])) for f in (plain, masked)], units={})
    assert c.declaration.blocks["atoms"].columns["q"].nullable
    assert POINTS.meta["pe"] == MetaDeclaration("f64")
    assert len(MemoryCollection([Record(trajectory=MemoryTrajectory([point([1.0])], POINTS))], units={})) == 1
