"""`diff` of collections: with themselves, with others, one record against another store's; packing is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from collection_stores import POINTS, UNITS, edit_json, key, molecule, points, put, raw, write

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.model import ForceField, Frame, MemoryTrajectory, Record


def record(number: int, **meta: object) -> Record:
    return Record(
        meta={"record_id": f"r{number}", **meta},
        system=molecule("OH", smiles="O" * number),
        trajectory=points(number, 2).trajectory,
    )


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return write(tmp_path / "a.mrec.lmdb", [record(n) for n in range(3)], index_columns=["smiles"])


def lines(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 1) -> list[str]:
    assert run(["diff", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    return (err if code == 2 else out).splitlines()


def test_equal_collections(first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, first, first, code=0) == []
    molrec_convert.convert(first, tmp_path / "b.mrec.lmdb")
    assert lines(capsys, first, tmp_path / "b.mrec.lmdb", code=0) == []


def test_every_difference_has_a_line(first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "b.mrec.lmdb"
    records = [record(0), record(1, note=1), record(2)]
    records[2].trajectory = points(7, 2).trajectory
    write(
        other,
        records,
        index_columns={"smiles": lambda r: "x", "gap": lambda r: 0.5},
        units={**UNITS, "energy": "hartree"},
        document={"license": "CC0"},
        forcefield=ForceField.new("f", {"preset": "real"}),
    )
    put(other, b"later", b"1")
    edit_json(other, b"meta", lambda d: d.update(more=True))
    found = lines(capsys, first, other)
    for text in (
        "collection: 'license' is in the second only",
        'collection.units: \'energy\' is "eV" against "hartree"',
        "collection: meta: 'more' is in the second only",
        "forcefield: is in the second only",
        "key later: is in the second only",
        "index/gap: is in the second only",
        'index/smiles, row 0: "" against "x" (3 of 3 rows differ)',
        "record 1: meta: 'note' is in the second only",
        "record 2: trajectory/meta/pe, frame 0: -2.0 against -7.0",
        "record 2: trajectory/atoms/x, frame 0, row 0: 200.0 against 700.0 (2 of 2 rows differ)",
    ):
        assert any(line.startswith(text) for line in found), (text, found)
    assert lines(capsys, first, other, "-q") == []


def test_other_lengths(first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "b.mrec.lmdb", [record(0)], index_columns=["smiles"])
    assert lines(capsys, first, tmp_path / "b.mrec.lmdb") == ["collection: 3 records against 1"]


def test_a_collection_against_a_record(first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system = Frame(molecule("OH").blocks, {"units": {"preset": "real"}})
    molrec_convert.write(Record(system=system, trajectory=points(1, 2).trajectory), tmp_path / "r.mrec")
    molrec_convert.convert(tmp_path / "r.mrec", tmp_path / "r.mrec.lmdb")
    assert lines(capsys, tmp_path / "r.mrec", tmp_path / "r.mrec.lmdb", code=0) == []
    assert "is a collection of 3 records" in lines(capsys, first, tmp_path / "r.mrec", code=2)[0]
    molrec_convert.convert(first, tmp_path / "one.mrec", record=1)
    assert lines(capsys, first, tmp_path / "one.mrec", "--record", "1", code=0) == []
    assert lines(capsys, tmp_path / "one.mrec", first, "--select", "smiles == O", code=0) == []
    assert (
        "both are one record" in lines(capsys, tmp_path / "one.mrec", tmp_path / "one.mrec", "--record", "0", code=2)[0]
    )


def test_nan_and_signs_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name, value in (("a", 0.0), ("b", -0.0)):
        frames = [Frame({"atoms": molrec_convert.Block({"x": np.array([value, np.nan])})}, {"pe": 1.0}, step=0)]
        paths.append(write(tmp_path / f"{name}.mrec.lmdb", [Record(trajectory=MemoryTrajectory(frames, POINTS))]))
    assert lines(capsys, *paths) == ["record 0: trajectory/atoms/x, frame 0, row 0: 0.0 against -0.0"]


def test_a_broken_value_is_a_fault_with_its_place(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with raw(first, write=True) as transaction:
        transaction.delete(key("r", 1))
    assert run(["diff", str(first), str(first)]) == 1
    assert "r[1]" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["pack", "unpack"])
def test_packing_is_refused(first: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, str(first)]) == 2
    assert "is a collection, which cannot be" in capsys.readouterr().err
    assert [path.name for path in first.parent.iterdir()] == [first.name]
