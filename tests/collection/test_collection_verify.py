"""A collection held against its sources: one bit is found, what was asked for is no difference."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from collection_stores import POINTS, UNITS, contents, key, molecule, points, put, write

import molrec_convert
from molrec_convert import UsageError
from molrec_convert.cli import run
from molrec_convert.migration.run import migrate
from molrec_convert.migration.settings import Settings
from molrec_convert.migration.verify import parse_sample, recorded_migrations, verify_collection
from molrec_convert.model import Block, Column, Frame, Record
from molrec_convert.stores.lmdb.values.encode import encode_frame


def record(n: int) -> Record:
    return Record(
        meta={"record_id": f"r{n}"},
        system=molecule("OH", units={"length": "angstrom", "energy": "eV"}),
        trajectory=points(n, 2).trajectory,
    )


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Stored records, and a collection among them."""
    folder = tmp_path / "old"
    folder.mkdir()
    for n in range(5):
        molrec_convert.write(record(n), folder / f"{n}.mrec")
    write(folder / "5.mrec.lmdb", [record(n) for n in range(5, 12)])
    return folder


def inputs(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.iterdir())


def test_sources_in_their_order(sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "all.mrec.lmdb"
    molrec_convert.convert(inputs(sources), target)
    assert run(["verify", str(target), "--against", *inputs(sources)]) == 0
    assert "12 of 12 records compared, equal to their sources" in capsys.readouterr().err
    with pytest.raises(UsageError, match="the sources have 5 records and the collection 12"):
        verify_collection(molrec_convert.open(target), inputs(sources)[:5])
    # one bit of one value of one record
    value = bytearray(contents(target)[key("f", 15)])
    value[-8] ^= 1
    put(target, key("f", 15), bytes(value))
    assert run(["verify", str(target), "--against", *inputs(sources), "--json"]) == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["compared"], document["different"]) == (12, 1)
    assert document["lines"][0].startswith("record 7 (")
    assert "frame 1" in document["lines"][0]
    assert run(["verify", str(target), "--against", *reversed(inputs(sources))]) == 1


def test_what_a_migration_did(sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sources are found by the index; units, names and fills are those asked for."""
    settings = Settings(units={"length": "nm", "energy": "eV"}, rename={"pe": "energy"}, index=("record_id",))
    target = tmp_path / "new.mrec.lmdb"
    migrate([str(sources)], target, settings, workers=1)
    collection = molrec_convert.open(target)
    assert "energy" in collection.declaration.meta
    result = verify_collection(collection, [str(sources)], settings=settings)
    assert (result.compared, result.different, result.lines) == (12, 0, [])
    result = verify_collection(collection, inputs(sources)[:2], settings=settings)
    assert result.compared == 2
    assert result.notes == ["10 records are of sources that are not named"]
    plain = verify_collection(collection, [str(sources)], settings=Settings())
    assert plain.different == 12
    # the collection says what was done
    made = [Settings.stated(way) for way in recorded_migrations(collection)]
    assert made == [Settings(rename={"pe": "energy"}, index=("record_id",))]
    collection.close()
    assert run(["verify", str(target), "--against", str(sources)]) == 0
    molrec_convert.write(dataclasses.replace(record(3), meta={"record_id": "r33"}), sources / "3.mrec", overwrite=True)
    assert run(["verify", str(target), "--against", str(sources)]) == 1
    assert "record 3 (" in capsys.readouterr().out


def test_a_source_that_is_not_what_it_was(sources: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.mrec.lmdb"
    migrate([str(sources)], target, Settings(units=UNITS), workers=1)
    (sources / "2.mrec" / "trajectory" / "zarr.json").write_text("{}")
    write(sources / "5.mrec.lmdb", [record(n) for n in range(5, 9)], overwrite=True)
    result = verify_collection(molrec_convert.open(target), [str(sources)])
    assert (result.compared, result.different) == (12, 4)
    assert "its source cannot be read" in result.lines[0]
    assert sum("has no record" in line for line in result.lines) == 3


def test_samples(tmp_path: Path) -> None:
    source = write(tmp_path / "a.mrec.lmdb", [points(n) for n in range(400)])
    write(tmp_path / "b.mrec.lmdb", [points(n) for n in range(400)])
    collection = molrec_convert.open(tmp_path / "b.mrec.lmdb")
    first = verify_collection(collection, [source], sample=parse_sample("10%"))
    assert 15 < first.compared < 80
    assert first.compared == verify_collection(collection, [source], sample=0.1).compared
    assert not first.different
    assert parse_sample("all") == 1.0
    for wrong in ("1", "0%", "101%", "x%", ""):
        with pytest.raises(UsageError, match="a sample is all, or a part"):
            parse_sample(wrong)


def test_wrong_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = write(tmp_path / "c.mrec.lmdb", [points(0)], POINTS)
    molrec_convert.write(points(0), tmp_path / "r.mrec")
    assert run(["verify", str(target)]) == 2
    assert run(["verify", str(target), "--against", str(tmp_path / "none")]) == 1
    assert run(["verify", str(tmp_path / "r.mrec"), "--against", str(target)]) == 2
    assert "'mrec diff' compares it" in capsys.readouterr().err


def damaged(path: Path, name: str, row: int, value: Any) -> None:
    """Another value in one row of the index, all else as it was."""
    with molrec_convert.open(path) as collection:
        columns = {n: Column(c.values.copy(), c.validity) for n, c in collection.index.columns.items()}
    columns[name].values[row] = value
    put(path, key("index"), encode_frame(Frame({"records": Block(columns)}), "index"))


@pytest.fixture
def migrated(sources: Path, tmp_path: Path) -> Path:
    target = tmp_path / "new.mrec.lmdb"
    migrate([str(sources)], target, Settings(units=UNITS, index=("record_id",), group_by="directory"), workers=1)
    return target


def test_index_columns(sources: Path, migrated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any value of any column that is altered is found."""
    whole = migrated.read_bytes()
    assert run(["verify", str(migrated), "--against", str(sources)]) == 0
    assert "not compared" not in capsys.readouterr().err
    for name, value, told in (
        ("n_atoms", 3, "3, not 2"),
        ("formula", "H2O", "'H2O', not 'HO'"),
        ("energy", 1.5, "1.5, not -"),
        ("record_id", "r1", "'r1', not 'r8'"),
        ("molecule_id", "x", "'x', not "),
        ("n_O", 2, "2, not 1"),
        ("source_record", 99, "has no record 99 any more"),
        ("source_record", 2, "as record 7 is"),
    ):
        migrated.write_bytes(whole)
        damaged(migrated, name, 8, value)
        assert run(["verify", str(migrated), "--against", str(sources)]) == 1, name
        assert told in capsys.readouterr().out, name


def test_absent_and_surplus(sources: Path, migrated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = tmp_path / "some.mrec.lmdb"
    molrec_convert.convert([migrated], some, select="source_record != 3 and record_id != 'r2'")
    # what says of itself that it is a part may lack the others
    meta = json.loads(contents(some)[b"meta"])
    del meta["collection"]["migration"]["part"]
    put(some, b"meta", json.dumps(meta).encode())
    with molrec_convert.open(some) as collection:
        result = verify_collection(collection, [str(sources)])
    assert (result.compared, result.different, result.absent, result.surplus) == (10, 0, 2, 0)
    assert [line for line in result.lines if "record 0 of " in line and "2.mrec is not in the collection" in line]
    assert [line for line in result.lines if "record 3 of " in line and "5.mrec.lmdb is not in" in line]
    assert run(["verify", str(some), "--against", str(sources)]) == 1
    assert "2 are absent" in capsys.readouterr().err
    twice = tmp_path / "twice.mrec.lmdb"
    run(["merge", str(migrated), str(some), "-o", str(twice)])
    with molrec_convert.open(twice) as collection:
        result = verify_collection(collection, [str(sources)])
    assert (result.different, result.absent, result.surplus) == (0, 0, 10)
    assert not result.is_equal


def test_what_is_absent_on_purpose(sources: Path, tmp_path: Path) -> None:
    """Inputs at fault and duplicates were left out, and verify says so without calling it a difference."""
    (sources / "9.mrec").mkdir()
    (sources / "9.mrec" / "zarr.json").write_text("{")
    molrec_convert.write(record(3), sources / "33.mrec")
    target = tmp_path / "new.mrec.lmdb"
    outcome = migrate([*inputs(sources)], target, Settings(units=UNITS, dedupe=True), workers=1)
    assert (outcome.failures, outcome.duplicates) == (1, 1)
    with molrec_convert.open(target) as collection:
        result = verify_collection(collection, inputs(sources))
    assert result.is_equal
    assert any("has no duplicates" in note for note in result.notes)
    assert any("cannot be read and has no record" in note for note in result.notes)


def test_a_part_lacks_the_others_on_purpose(
    sources: Path, migrated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["select", str(migrated), "source_record < 3", "-o", str(tmp_path / "some.mrec.lmdb")]) == 0
    with molrec_convert.open(tmp_path / "some.mrec.lmdb") as some, molrec_convert.open(migrated) as whole:
        assert some.document["migration"] == {**whole.document["migration"], "part": True}
        assert whole[:].document == whole.document
        found = verify_collection(some, [sources])
        assert found.is_equal
        assert found.compared == len(some) < len(whole)
        assert found.notes == [
            f"{len(whole) - len(some)} records of the sources are not in this part of what was made of them"
        ]
    assert run(["verify", str(tmp_path / "some.mrec.lmdb"), "--against", str(sources)]) == 0
    assert "not in this part" in capsys.readouterr().err
