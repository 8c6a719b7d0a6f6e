"""Collections as a format: records and collections written and read, one taken out, key order, what is reported."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import (
    POINTS,
    UNITS,
    contents,
    edit_header,
    edit_json,
    equal_trajectories,
    key,
    molecule,
    points,
    put,
    raw,
    write,
)

import molrec_convert
from molrec_convert.errors import ContractError, UsageError
from molrec_convert.formats import ReadContext, WriteContext, make_options
from molrec_convert.model import Block, Frame, MemoryTrajectory, Meta, Record
from molrec_convert.model.collection.collection import MemoryCollection
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.report import Fate
from molrec_convert.stores.lmdb.file.keys import numbered
from molrec_convert.stores.lmdb.format import (
    CollectionOptions,
    collection_units,
    read_collection,
    record_of,
    write_collection,
)
from molrec_convert.stores.lmdb.reader import open_collection


def context(**options: Any) -> WriteContext:
    return WriteContext(make_options(CollectionOptions, options, "mrec-lmdb"))


def saved(source: Any, path: Path, **options: Any) -> WriteContext:
    writing = context(**options)
    write_collection(source, path, writing)
    return writing


def test_key_order_case(tmp_path: Path, fixtures: Path) -> None:
    """The case: twelve frames come back in the order written."""
    lines = (fixtures / "cases" / "81-lmdb-key-order" / "frames.xyz").read_text(encoding="utf-8").splitlines()
    records = []
    for start in range(0, len(lines), 3):
        element, *xyz = lines[start + 2].split()
        columns = {name: np.array([float(text)]) for name, text in zip("xyz", xyz, strict=True)}
        index = int(lines[start + 1].rpartition("=")[2])
        records.append(
            Record(frame=Frame({"atoms": Block({"element": np.array([element]), **columns})}, Meta({"idx": index})))
        )
    collection = MemoryCollection(records, units={"length": "angstrom"}, index_columns=["idx"])
    saved(collection, tmp_path / "c.mrec.lmdb")
    with open_collection(tmp_path / "c.mrec.lmdb") as back:
        assert len(back) == 12
        assert [record.trajectory[0]["atoms"]["x"][0] for record in back] == list(range(12))
        assert back[10].trajectory[0]["atoms"]["x"].tolist() == [10.0]
        assert back.index["idx"].tolist() == list(range(12))
        assert back[3].system["atoms"]["element"].tolist() == ["He"]


def test_keys_ascend_beyond_every_power(tmp_path: Path) -> None:
    """Numeric order is LMDB's order, past 16777216 and past 2^32 too."""
    numbers = [0, 1, 9, 10, 255, 256, 65_535, 65_536, 2**24 - 1, 2**24, 2**24 + 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    shuffled = random.Random(1).sample(numbers, len(numbers))
    with raw(tmp_path / "k.lmdb", write=True) as transaction:
        for number in shuffled:
            transaction.put(numbered(b"f", number), struct.pack(">Q", number))
    assert [struct.unpack(">Q", value)[0] for value in contents(tmp_path / "k.lmdb").values()] == numbers
    assert numbered(b"f", 1) == b"f" + bytes(7) + b"\1"


def test_a_collection_is_copied_whole(tmp_path: Path) -> None:
    forcefield = ForceField.new("f", {"preset": "real"})
    records = [
        Record(meta={"record_id": f"r{n}"}, system=molecule("OH", smiles="O" * n), trajectory=points(n, 3).trajectory)
        for n in range(5)
    ]
    path = write(
        tmp_path / "a.mrec.lmdb",
        records,
        index_columns={"smiles": None, "gap": lambda record: None if record.meta["record_id"] == "r1" else 0.5},
        forcefield=forcefield,
        document={"license": "CC0"},
    )
    original = contents(path)
    collection = read_collection([path], ReadContext())
    writing = saved(collection, tmp_path / "b.mrec.lmdb")
    assert contents(tmp_path / "b.mrec.lmdb") == original
    assert writing.report.items == []
    saved(collection.select("gap == 0.5").select([2, 0]), tmp_path / "c.mrec.lmdb")
    with open_collection(tmp_path / "c.mrec.lmdb") as some:
        assert [record.meta["record_id"] for record in some] == ["r3", "r0"]
        assert some.index["smiles"].tolist() == ["OOO", ""]
        assert some.forcefield == forcefield
        assert some.document["license"] == "CC0"


def test_more_index_columns(tmp_path: Path) -> None:
    collection = MemoryCollection([Record(system=molecule(smiles="O", spin=1))], units=UNITS, index_columns=["smiles"])
    saved(collection, tmp_path / "c.mrec.lmdb", index=("spin", "smiles"))
    with open_collection(tmp_path / "c.mrec.lmdb") as back:
        assert list(back.index.columns)[4:] == ["smiles", "spin"]
        assert back.index["spin"].tolist() == [1]


def test_one_record(tmp_path: Path) -> None:
    """Its units become the collection's, a preset written out; its version too."""
    system = molecule("OH", units={"preset": "real"})
    record = Record(meta={"molrec_version": 1, "a": None}, system=system, trajectory=points(0, 3).trajectory)
    writing = saved(record, tmp_path / "c.mrec.lmdb")
    assert writing.report.warnings == []
    with open_collection(tmp_path / "c.mrec.lmdb") as collection:
        assert collection.document == {
            "molrec_version": 1,
            "units": {
                "length": "angstrom",
                "energy": "kcal/mol",
                "charge": "e",
                "mass": "dalton",
                "time": "fs",
                "pressure": "atm",
                "density": "g/cm**3",
                "force": "kcal/mol/angstrom",
            },
        }
        back = record_of(collection, 0)
        assert back.meta == record.meta
        assert back.system == system
        assert equal_trajectories(back.trajectory, record.trajectory)


def test_a_records_force_field_becomes_the_collections(tmp_path: Path) -> None:
    forcefield = ForceField.new("f", {"preset": "real"})
    record = Record(system=molecule(units={"preset": "real"}), forcefield=forcefield)
    writing = saved(record, tmp_path / "c.mrec.lmdb")
    assert writing.report.items == []
    with open_collection(tmp_path / "c.mrec.lmdb") as collection:
        assert collection.forcefield == forcefield
        assert collection[0].forcefield is None
        assert record_of(collection, 0).forcefield == forcefield
    assert record.forcefield is forcefield
    later = ForceField.new("f", {"preset": "real"})
    later.molrec_version = 2
    saved(Record(system=molecule(), forcefield=later), tmp_path / "d.mrec.lmdb")
    with open_collection(tmp_path / "d.mrec.lmdb") as collection:
        assert collection.document["molrec_version"] == 2
        assert record_of(collection, 0).meta == {"molrec_version": 2}
        assert record_of(collection, 0).forcefield == later


def test_one_frame(tmp_path: Path) -> None:
    record = Record(frame=Frame({"atoms": Block({"element": np.array(["O"]), "x": np.zeros(1)})}))
    writing = saved(record, tmp_path / "c.mrec.lmdb", collection_units=("length=angstrom", "energy=eV"))
    assert [str(item.fate) for item in writing.report.items] == ["converted"]
    with open_collection(tmp_path / "c.mrec.lmdb") as collection:
        assert collection.units == {"length": "angstrom", "energy": "eV"}
        assert len(collection[0].trajectory) == 1


def test_units_are_never_guessed(tmp_path: Path) -> None:
    writing = saved(points(0), tmp_path / "c.mrec.lmdb")
    assert len(writing.report.warnings) == 1
    with open_collection(tmp_path / "c.mrec.lmdb") as collection:
        assert collection.units == {}
        assert record_of(collection, 0).system is None
    with pytest.raises(UsageError, match="QUANTITY=UNIT"):
        saved(points(0), tmp_path / "d.mrec.lmdb", collection_units=("angstrom",))


def test_units_from_records() -> None:
    assert collection_units(None) == {}
    assert collection_units({"preset": "lj"}) == {}
    assert collection_units("metal")["energy"] == "eV"
    assert collection_units({"preset": "metal", "length": "nm"})["length"] == "nm"
    assert collection_units({"length": "nm", "energy": "eV"}) == {"length": "nm", "energy": "eV"}
    assert "angle" not in collection_units("real")


def test_a_record_taken_out_says_what_the_collection_said(tmp_path: Path) -> None:
    path = write(tmp_path / "c.mrec.lmdb", [points(0), Record(system=molecule())], document={"molrec_version": 2})
    reading = ReadContext()
    collection = read_collection([path], reading)
    record = record_of(collection, 0, reading.report)
    assert record.meta == {"molrec_version": 2, "record_id": "r0"}
    assert record.units == UNITS
    assert record_of(collection, 1).system.meta["units"] == UNITS
    assert [item.name for item in reading.report.items] == ["units"]
    assert collection[0].meta == {"record_id": "r0"}


def test_unknown_keys_go_with_the_whole(tmp_path: Path) -> None:
    """Of the file and of what it says of itself; a copy of some records says by name what it leaves."""
    path = write(tmp_path / "c.mrec.lmdb", [points(0), points(1)])
    for name in (b"", b"later", b"r", b"zz\xff", b"g" + bytes(8)):
        if name:
            put(path, name, b"\0of" + name)
    edit_json(path, b"meta", lambda document: document.update(notes={"a": [1.0, None]}))
    original = contents(path)
    collection = read_collection([path], ReadContext())
    writing = saved(collection, tmp_path / "d.mrec.lmdb")
    copied = contents(tmp_path / "d.mrec.lmdb")
    assert json.loads(copied.pop(b"meta")) == json.loads(original.pop(b"meta"))
    assert copied.pop(b"index.crc32c")
    assert copied == original
    assert writing.report.items == []
    some = saved(collection[1:], tmp_path / "e.mrec.lmdb").report
    assert [item.name for item in some.items] == ["key g" + "\\x00" * 8, "key later", "key r", "key zz\\xff"]
    assert all(item.fate is Fate.DROPPED for item in some.items)


def test_what_headers_say_beside_goes_with_the_records(tmp_path: Path) -> None:
    """Keys of headers, blocks and columns that nobody knows: a copy has the values as they are stored."""
    records = [
        Record(meta={"n": n}, system=molecule("OH", smiles="O" * n), trajectory=points(n, 2).trajectory)
        for n in range(3)
    ]
    path = write(tmp_path / "c.mrec.lmdb", records, index_columns=["smiles"])

    def more(header: Any) -> None:
        header["later"] = [1]
        header["blocks"]["atoms"]["note"] = {"a": None}
        next(iter(header["blocks"]["atoms"]["columns"].values()))["unit"] = "bohr"

    for name in (key("f", 2), key("s", 1)):
        edit_header(path, name, more)
    original = contents(path)
    saved(read_collection([path], ReadContext()), tmp_path / "d.mrec.lmdb")
    copied = contents(tmp_path / "d.mrec.lmdb")
    assert copied.pop(b"index.crc32c")
    assert copied == original
    # where they cannot go they are told by name
    said = ["trajectory.later", "trajectory/atoms.note", "trajectory/atoms/x.unit", "system.later", "system/atoms.note"]
    for target, options in (
        ("one.mrec", {"record": 1}),
        ("sliced.mrec.lmdb", {"frames": slice(0, 1)}),
    ):
        report = molrec_convert.convert(path, tmp_path / target, **options)
        assert [item.name for item in report.of(Fate.DROPPED) if item.name[:6] in ("trajec", "system")] == said
    report = molrec_convert.convert([path, tmp_path / "one.mrec"], tmp_path / "joined.mrec.lmdb")
    assert {*said} <= {item.name for item in report.of(Fate.DROPPED)}
    with molrec_convert.open(tmp_path / "one.mrec") as one:
        assert one.system["atoms"].columns["element"].attributes == {"unit": "bohr"}
    saved(read_collection([path], ReadContext()).select("smiles != ''").select([1, 0]), tmp_path / "e.mrec.lmdb")
    some = contents(tmp_path / "e.mrec.lmdb")
    assert some[key("s", 1)] == original[key("s", 1)]
    assert some[key("f", 2)] == original[key("f", 2)]
    assert some[key("f", 0)] == original[key("f", 4)]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (key("f", 3), lambda h: h.pop("step"), "states no step"),
        (key("f", 3), lambda h: h.update(step=0), "steps ascend"),
        (key("f", 3), lambda h: h.update(time=1.0), "time is stated for all frames or for none"),
        (key("f", 3), lambda h: h["meta"].update(x=1), "the per-step key is not declared"),
        (key("f", 3), lambda h: h["blocks"].update(x={"count": 0, "columns": {}}), "the block is not declared"),
        (key("f", 3), lambda h: h.update(box={"vectors": 1}), "three rows"),
        (key("s", 1), lambda h: h["meta_types"].update(smiles="i32"), "smiles"),
        (key("s", 1), lambda h: h["blocks"]["atoms"].update(count=3), "one row per row of its block"),
        (
            key("s", 1),
            lambda h: (
                h["blocks"]["atoms"].update(count=1),
                h["blocks"]["atoms"]["columns"]["element"].update(shape=[1], values=["O"]),
            ),
            "another row count than in system",
        ),
        (
            key("s", 1),
            lambda h: h["blocks"].update(
                bonds={"count": 1, "columns": {"atomi": {"dtype": "u64", "shape": [1], "offset": 0}}}
            ),
            "a buffer reaches past the value",
        ),
    ],
)
def test_a_copy_refuses_what_breaks_a_rule(tmp_path: Path, name: bytes, change: Any, said: str) -> None:
    records = [Record(system=molecule("OH", smiles="O"), trajectory=points(n, 2).trajectory) for n in range(2)]
    path = write(tmp_path / "c.mrec.lmdb", records)
    edit_header(path, name, change)
    with pytest.raises(ContractError, match=said):
        saved(read_collection([path], ReadContext()), tmp_path / "d.mrec.lmdb")
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.mrec.lmdb"]


def test_what_is_beyond_the_counts_is_left(tmp_path: Path) -> None:
    path = write(tmp_path / "c.mrec.lmdb", [points(0)])
    original = contents(path)
    put(path, key("f", 7), b"1")
    writing = saved(read_collection([path], ReadContext()), tmp_path / "d.mrec.lmdb")
    assert contents(tmp_path / "d.mrec.lmdb") == original
    assert [str(item) for item in writing.report.items] == ["dropped: key f[7] (the collection does not count it)"]


def test_unknown_keys_of_the_document_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "c.mrec.lmdb", [points(0)], document={"later": {"a": [1.0, None]}})
    original = contents(path)
    saved(open_collection(path), tmp_path / "d.mrec.lmdb")
    assert contents(tmp_path / "d.mrec.lmdb") == original


def test_progress(tmp_path: Path) -> None:
    told: list[Any] = []

    class Watch:
        def start(self, label: str, total: int | None) -> None:
            told.append((label, total))

        def advance(self, frames: int, nbytes: int = 0) -> None:
            told.append(frames)

    writing = context()
    writing.progress = Watch()
    write_collection(MemoryCollection([points(n) for n in range(3)], units={}), tmp_path / "c.mrec.lmdb", writing)
    assert told == [("records", 3), 1, 1, 1]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    bad = Record(trajectory=MemoryTrajectory([], POINTS), system=molecule("O"))
    bad.system["atoms"].columns["x"] = bad.system["atoms"].columns.pop("element")
    with pytest.raises(ContractError):
        saved(bad, tmp_path / "c.mrec.lmdb")
    assert list(tmp_path.iterdir()) == []
    assert key("f", 0) == numbered(b"f", 0)
