"""The record as a value: its sections, units, closing, and the rules checked before it is written."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import molrec_convert
from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Declaration, Frame, MemoryTrajectory, Meta, Record
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration
from molrec_convert.model.record import absolute_rows, check_record

ATOMS = Frame({"atoms": Block({"x": [0.0, 1.0]})})


def link(target: str, row: int = 0) -> Frame:
    return Frame({"links": Block({"site": np.array([row], np.uint64)}, targets={"site": target})})


def test_sections_in_order() -> None:
    record = Record(frame=ATOMS, status={"state": "running"}, trajectory=MemoryTrajectory([]))
    assert record.sections == ["meta", "frame", "trajectory", "status"]
    assert Record().sections == ["meta"]


@pytest.mark.parametrize(
    ("system", "frame", "units"),
    [
        (Frame(meta=Meta({"units": {"preset": "real"}})), Frame(meta=Meta({"units": "lj"})), {"preset": "real"}),
        (Frame(), Frame(meta=Meta({"units": "lj"})), None),
        (None, Frame(meta=Meta({"units": "lj"})), "lj"),
        (None, None, None),
    ],
)
def test_units_are_those_of_the_system_or_without_one_of_the_frame(system: Any, frame: Any, units: Any) -> None:
    assert Record(system=system, frame=frame).units == units


def test_closing_twice_is_safe() -> None:
    closed: list[int] = []
    record = Record(_close=lambda: closed.append(1))
    with record:
        pass
    record.close()
    assert closed == [1]


@pytest.mark.parametrize("section", ["frame", "system", "status"])
def test_one_section_is_enough(section: str) -> None:
    check_record(Record(**{section: {"state": "failed"} if section == "status" else ATOMS}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "record", [Record(), Record(method={"type": "ml", "description": "", "engine": {"name": "x"}})]
)
def test_no_section_of_state_is_not(record: Record) -> None:
    with pytest.raises(ContractError, match="at least one of forcefield, frame, status, system, trajectory"):
        check_record(record)


def test_absolute_references_are_held_against_the_other_sections() -> None:
    assert absolute_rows(ATOMS, None) == {"/system": 0, "/system/atoms": 2}
    check_record(Record(system=ATOMS, frame=link("/system/atoms", 1)))
    check_record(Record(frame=link("/system/atoms", 99)))
    with pytest.raises(ContractError, match=r"frame/links/site.*out of range"):
        check_record(Record(system=ATOMS, frame=link("/system/atoms", 2)))
    with pytest.raises(ContractError, match="'/system/sites', which is not there"):
        check_record(Record(system=ATOMS, frame=link("/system/sites")))
    with pytest.raises(ContractError, match="system/links/site"):
        check_record(Record(system=link("/frame/atoms", 2), frame=ATOMS))


def test_the_declaration_is_checked_with_the_record() -> None:
    trajectory = MemoryTrajectory([], Declaration())
    trajectory.declaration = Declaration({"box": BlockDeclaration({"c": ColumnDeclaration("f64")})})
    with pytest.raises(ContractError, match="trajectory/box"):
        check_record(Record(trajectory=trajectory))


@pytest.mark.parametrize("section", ["meta", "method", "status"])
@pytest.mark.parametrize("document", [[], "text", {"a": float("nan")}, {"a": {1}}], ids=str)
def test_documents_are_plain_json_objects(section: str, document: Any) -> None:
    with pytest.raises(ContractError, match=section):
        check_record(Record(frame=ATOMS, **{section: document}))


def test_attributes_of_the_root_are_plain_json() -> None:
    with pytest.raises(ContractError, match="finite"):
        check_record(Record(frame=ATOMS, attributes={"a": float("nan")}))


def test_attributes_no_frame_can_have() -> None:
    frame = Frame({"atoms": Block({"x": [0.0]}, attributes={"a": float("nan")})})
    with pytest.raises(ContractError, match="frame/atoms"):
        check_record(Record(frame=frame))
    frame = Frame({"atoms": Block({"x": [0.0]})}, attributes={"box": {"cell_defined": True}})
    with pytest.raises(ContractError, match="frame/box"):
        check_record(Record(frame=frame))


def test_a_record_is_shown_in_a_line(tmp_path: Path) -> None:
    atoms = Block({"x": np.zeros(3)})
    frames = MemoryTrajectory([Frame({"atoms": atoms}), Frame({"atoms": atoms})])
    system = Frame({"atoms": Block(count=3), "bonds": Block(count=2)})
    made = Record(meta={"long": "x" * 1000}, system=system, trajectory=frames, status={"state": "done"})
    assert repr(made) == "<Record: system (3 atoms, 2 bonds), trajectory (2 frames), status>"
    molrec_convert.write(made, tmp_path / "r.mrec")
    with molrec_convert.open(tmp_path / "r.mrec") as read:
        assert repr(read) == f"<Record {read.path}: system (3 atoms, 2 bonds), trajectory (2 frames), status>"
    assert repr(Record()) == "<Record: empty>"


def test_the_package_shows_its_own_names_only() -> None:
    assert dir(molrec_convert) == sorted(molrec_convert.__all__)
    assert all(getattr(molrec_convert, name) is not None for name in dir(molrec_convert))


def test_what_is_opened_has_a_type() -> None:
    """A record where one is asked for by number, else a record or a collection; no `Any`."""
    record_alone, either = typing.get_overloads(molrec_convert.open)
    assert typing.get_type_hints(record_alone)["return"] is Record
    assert set(typing.get_args(typing.get_type_hints(either)["return"])) == {Record, molrec_convert.Collection}
