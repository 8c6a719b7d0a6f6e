"""A record becomes a collection of one and comes back; one record of many is taken by number."""

import numpy as np
import pytest

import molrec_convert
from molrec_convert.comparison import differences
from molrec_convert.errors import UsageError
from molrec_convert.model import Block, Box, Frame, MemoryTrajectory, Record

pytest.importorskip("lmdb")


def record(shift=0.0, **sections):
    system = Frame({"atoms": Block({"id": np.arange(1, 4, dtype=np.uint64), "type": list("aba")})}, {"units": "real"})
    frames = [
        Frame({"atoms": Block({"x": np.arange(3.0) + i + shift})}, {"pe": -1.0 * i}, Box(np.eye(3) * 9), step=10 * i)
        for i in range(5)
    ]
    return Record(system=system, trajectory=MemoryTrajectory(frames), **sections)


def test_a_record_comes_back_from_a_collection_of_one(tmp_path):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.mrec.lmdb")
    assert report.losses() == []
    molrec_convert.convert(tmp_path / "a.mrec.lmdb", tmp_path / "b.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as a, molrec_convert.open(tmp_path / "b.mrec") as b:
        assert list(differences(a, b)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mrec", "a.mrec.lmdb", "b.mrec"]


def test_what_a_collection_has_no_place_for_is_said_once(tmp_path):
    method = {"type": "classical", "description": "d", "engine": {"name": "e"}}
    molrec_convert.write(record(method=method), tmp_path / "a.mrec")
    dry = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.mrec.lmdb", dry_run=True)
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.mrec.lmdb")
    assert report.losses() == dry.losses() == ["dropped: method (MolRec collection in LMDB has no place for it)"]


def test_one_record_of_many_is_taken_by_number(tmp_path):
    from molrec_convert.stores.lmdb.writer import CollectionWriter

    members = [record(shift) for shift in (0.0, 0.5, 0.25)]
    with CollectionWriter.create(
        tmp_path / "many.mrec.lmdb",
        declaration=members[0].trajectory.declaration,
        units={"length": "angstrom", "energy": "eV"},
    ) as writer:
        for member in members:
            writer.append(member)
    with pytest.raises(UsageError, match=r"is a collection of 3 records: name one of them with --record"):
        molrec_convert.open(tmp_path / "many.mrec.lmdb")
    with pytest.raises(UsageError, match=r"has no record 3: it has 3, counted from 0"):
        molrec_convert.read(tmp_path / "many.mrec.lmdb", record=3)
    with molrec_convert.read(tmp_path / "many.mrec.lmdb", record=1) as one:
        assert one.trajectory[2]["atoms"]["x"].tolist() == [2.5, 3.5, 4.5]
    molrec_convert.convert(tmp_path / "many.mrec.lmdb", tmp_path / "one.mrec", record=2)
    assert molrec_convert.open(tmp_path / "one.mrec").trajectory[0]["atoms"]["x"].tolist() == [0.25, 1.25, 2.25]
