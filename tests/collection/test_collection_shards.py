"""Collections in several files: written part by part, read as one, in every command; a part at fault is told."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import POINTS, UNITS, contents, equal_trajectories, molecule, points, write

import molrec_convert
from molrec_convert import ContractError, FormatError, ShardedCollectionWriter, UsageError
from molrec_convert.cli import run
from molrec_convert.model import ForceField, Record
from molrec_convert.stores.lmdb import sharded
from molrec_convert.stores.lmdb.manifest import MANIFEST, file_checksum, read_manifest
from molrec_convert.stores.lmdb.sharded import ShardedCollection, open_collection, save_set


def members(count: int) -> list[Record]:
    return [
        Record(
            meta={"record_id": f"r{n}"},
            system=molecule("OHH"[: n % 3 + 1], smiles="O" * (n % 5), energy=n / 4),
            trajectory=points(n, n % 4, atoms=n % 3 + 1).trajectory,
        )
        for n in range(count)
    ]


COLUMNS = {"smiles": "string", "energy": "f64"}


def pair(folder: Path, count: int = 23, each: int = 5) -> tuple[Path, Path]:
    """The same records in one file and in a set."""
    one = write(folder / "one.mrec.lmdb", members(count), index_columns=COLUMNS)
    with ShardedCollectionWriter.create(
        folder / "set.mrec.lmdb", shard_records=each, declaration=POINTS, units=UNITS, index_columns=COLUMNS
    ) as writer:
        for n, record in enumerate(members(count)):
            assert writer.append(record) == n
        assert (len(writer), writer.n_frames) == (count, sum(n % 4 for n in range(count)))
    return one, folder / "set.mrec.lmdb"


def test_a_set_is_read_as_one(tmp_path: Path) -> None:
    one, several = pair(tmp_path)
    assert sorted(p.name for p in several.iterdir()) == [MANIFEST, *(f"part-{n:05d}.mrec.lmdb" for n in range(5))]
    with molrec_convert.open(one) as a, molrec_convert.open(several) as b:
        assert isinstance(b, ShardedCollection)
        assert (len(a), a.n_frames, a.units, a.declaration) == (len(b), b.n_frames, b.units, b.declaration)
        assert a.index == b.index
        assert list(a.index.columns) == list(b.index.columns)
        for n in range(-23, 23):
            assert a[n].meta == b[n].meta
            assert a[n].system == b[n].system
            assert equal_trajectories(a[n].trajectory, b[n].trajectory)
            assert str(a.record_sample(n)) == str(b.record_sample(n))
        for j in range(-a.n_frames, a.n_frames):
            assert a.frame(j) == b.frame(j)
            assert a.locate(j) == b.locate(j)
            assert str(a.sample(j)) == str(b.sample(j))
        for wrong in (23, -24):
            with pytest.raises(IndexError):
                b[wrong]
        with pytest.raises(IndexError):
            b.frame(a.n_frames)
        with b.view(7) as record:
            assert record.meta == {"record_id": "r7"}
        some = b.select("smiles == 'OO' and energy > 2")
        assert [r.meta for r in some] == [r.meta for r in a.select("smiles == 'OO' and energy > 2")]


def test_the_manifest_says_what_is_there(tmp_path: Path) -> None:
    _, several = pair(tmp_path)
    document = json.loads((several / MANIFEST).read_text())
    assert document["layout"] == "mrec-lmdb-set"
    assert (document["n_records"], [p["n_records"] for p in document["parts"]]) == (23, [5, 5, 5, 5, 3])
    for entry in document["parts"]:
        where = several / entry["path"]
        assert entry["bytes"] == where.stat().st_size
        assert entry["crc32c"] == file_checksum(where)
    assert file_checksum(__file__) != document["parts"][0]["crc32c"]
    with open_collection(several / MANIFEST) as by_manifest:
        assert len(by_manifest) == 23


def test_opening_reads_the_manifest_and_one_part(tmp_path: Path) -> None:
    _, several = pair(tmp_path)
    for number in (1, 3, 4):
        (several / f"part-{number:05d}.mrec.lmdb").unlink()
    with open_collection(several) as collection:
        assert len(collection) == 23
        assert collection[12].meta == {"record_id": "r12"}
        assert collection.frame(0)["atoms"]["x"].tolist() == [100.0, 101.0]
        with pytest.raises(FormatError, match="part-00001"):
            collection[5]


def test_few_files_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded, "_MOST_OPEN", 3)
    _, several = pair(tmp_path, 40, 2)
    with open_collection(several) as collection:
        kept = [collection[n] for n in range(40)]
        assert sum(part is not None for part in collection._parts) == 3
        # what was handed out holds its file
        assert [record.meta["record_id"] for record in kept] == [f"r{n}" for n in range(40)]
        order = random.Random(3).choices(range(40), k=200)
        assert [collection[n].meta["record_id"] for n in order] == [f"r{n}" for n in order]


def read_some(collection: ShardedCollection, seed: int) -> list[str]:
    order = random.Random(seed).choices(range(len(collection)), k=100)
    return [collection[n].meta["record_id"] for n in order]


def child(collection: Any, seed: int, queue: Any) -> None:
    queue.put((seed, read_some(collection, seed), float(collection.index["energy"].sum())))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(tmp_path: Path, method: str) -> None:
    """Opened before, used before, handed over: every process opens the files for itself."""
    _, several = pair(tmp_path)
    context: Any = multiprocessing.get_context(method)
    with open_collection(several) as collection:
        expected = {seed: read_some(collection, seed) for seed in range(3)}
        queue = context.Queue()
        workers = [context.Process(target=child, args=(collection, seed, queue)) for seed in range(3)]
        for worker in workers:
            worker.start()
        found = {seed: (names, total) for seed, names, total in (queue.get(timeout=300) for _ in workers)}
        for worker in workers:
            worker.join(60)
            assert worker.exitcode == 0
        assert {seed: names for seed, (names, _) in found.items()} == expected
        assert {total for _, total in found.values()} == {float(collection.index["energy"].sum())}
        assert read_some(pickle.loads(pickle.dumps(collection)), 0) == expected[0]


def test_every_command_takes_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, several = pair(tmp_path)
    assert run(["diff", str(one), str(several)]) == 0
    assert run(["diff", str(several), str(one)]) == 0
    assert run(["validate", str(several)]) == 0
    assert run(["info", str(several)]) == 0
    text = capsys.readouterr().out
    assert "set.mrec.lmdb, MolRec 1" in text
    assert "5 files" in text
    assert "records     23, 33 frames, 1 to 3 atoms" in text
    assert run(["info", str(several), "--record", "7"]) == 0
    assert run(["tree", str(several)]) == 0
    shown = capsys.readouterr().out
    assert "part-00004.mrec.lmdb" in shown
    assert run(["tree", str(several), "--record", "21"]) == 0
    assert "r ‖ u64be(1)" in capsys.readouterr().out
    back, chosen, again = (tmp_path / f"{name}.mrec.lmdb" for name in ("back", "chosen", "again"))
    assert run(["convert", str(several), str(back)]) == 0
    assert contents(back) == contents(one)
    assert run(["convert", str(several), str(chosen), "--select", "n_atoms == 2"]) == 0
    assert run(["select", str(several), "n_atoms == 2", "-o", str(again)]) == 0
    assert contents(chosen) == contents(again)
    assert run(["convert", str(several), str(tmp_path / "one.mrec"), "--record", "20"]) == 0
    assert run(["diff", str(several), str(tmp_path / "one.mrec"), "--record", "20"]) == 0
    assert run(["merge", str(several), str(one), "-o", str(tmp_path / "both.mrec.lmdb")]) == 0
    assert len(molrec_convert.open(tmp_path / "both.mrec.lmdb")) == 46
    assert run(["pack", str(several)]) == 2
    assert "is a collection" in capsys.readouterr().err


def test_converting_to_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, _ = pair(tmp_path)
    target = tmp_path / "new.mrec.lmdb"
    assert run(["convert", str(one), str(target), "--shard-records", "10"]) == 0
    assert "23 records, 33 frames" in capsys.readouterr().err
    assert [part.n_records for part in read_manifest(target).parts] == [10, 10, 3]
    assert run(["diff", str(one), str(target)]) == 0
    # replaced as a whole, by a set or a file
    assert run(["convert", str(one), str(target), "--shard-records", "4", "--overwrite"]) == 0
    assert len(read_manifest(target).parts) == 6
    assert run(["convert", str(one), str(target), "--overwrite"]) == 0
    assert target.is_file()
    assert run(["convert", str(one), str(target), "--shard-records", "0", "--overwrite"]) == 2
    assert not list(tmp_path.glob(".*"))


def again(path: Path) -> ShardedCollectionWriter:
    return ShardedCollectionWriter.create(path, shard_records=2, declaration=POINTS, units=UNITS, overwrite=True)


def test_after_an_error_nothing_is_left(tmp_path: Path) -> None:
    one, several = pair(tmp_path)
    before = {path.name: path.read_bytes() for path in several.iterdir()}
    for _ in range(2):
        with suppress(ZeroDivisionError), again(several) as writer:
            writer.extend(members(7))
            with pytest.raises(UsageError, match="is being written by this process already"):
                again(several)
            raise ZeroDivisionError
        assert sorted(path.name for path in tmp_path.iterdir()) == [one.name, several.name]
        assert {path.name: path.read_bytes() for path in several.iterdir()} == before
    with pytest.raises(UsageError, match="exists already"):
        ShardedCollectionWriter.create(several, shard_records=2, declaration=POINTS, units=UNITS)


def test_a_refused_record_leaves_the_set_as_it_was(tmp_path: Path) -> None:
    with ShardedCollectionWriter.create(
        tmp_path / "s.mrec.lmdb", shard_records=2, declaration=POINTS, units=UNITS
    ) as writer:
        writer.extend(members(4))
        with pytest.raises(ContractError):
            writer.append(Record(meta={}))
        writer.extend(members(3))
    assert [r.meta["record_id"] for r in molrec_convert.open(tmp_path / "s.mrec.lmdb")] == [
        "r0", "r1", "r2", "r3", "r0", "r1", "r2",
    ]  # fmt: skip


def test_no_records_and_a_force_field(tmp_path: Path) -> None:
    forcefield = ForceField.new("f", {"preset": "real"})
    with ShardedCollectionWriter.create(
        tmp_path / "s.mrec.lmdb", shard_records=2, declaration=POINTS, units=UNITS, forcefield=forcefield
    ):
        pass
    with molrec_convert.open(tmp_path / "s.mrec.lmdb") as empty:
        assert (len(empty), empty.n_frames, len(empty.index["n_atoms"])) == (0, 0, 0)
        assert empty.forcefield == forcefield
    assert run(["validate", str(tmp_path / "s.mrec.lmdb")]) == 0


def test_dtypes_of_the_index_are_those_of_all(tmp_path: Path) -> None:
    """What a column of the first part holds decides; a part of nulls decides nothing."""
    values: list[Any] = [None, None, 1, 2, None, None, 3]
    with ShardedCollectionWriter.create(
        tmp_path / "s.mrec.lmdb", shard_records=2, declaration=POINTS, units=UNITS, index_columns=["gap"]
    ) as writer:
        for value in values:
            writer.append(points(0), {"gap": value})
    with molrec_convert.open(tmp_path / "s.mrec.lmdb") as collection:
        assert collection.index.columns["gap"].dtype == "i64"
        assert [
            v if ok else None
            for v, ok in zip(collection.index["gap"].tolist(), collection.index.validity("gap"), strict=True)
        ] == values
    writer = ShardedCollectionWriter.create(
        tmp_path / "t.mrec.lmdb",
        shard_records=1,
        declaration=POINTS,
        units=UNITS,
        index_columns={"gap": lambda record: record.meta["gap"]},
    )
    writer.append(Record(meta={"gap": 1}, system=molecule()))
    writer.append(Record(meta={"gap": "x"}, system=molecule()))
    with pytest.raises(ContractError, match="index/gap"):
        writer.close()
    assert not list(tmp_path.glob("*t.mrec*"))


def test_a_manifest_of_files_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    first = write(tmp_path / "a" / "1.mrec.lmdb", members(3), index_columns=COLUMNS)
    second = write(tmp_path / "2.mrec.lmdb", members(4)[3:], index_columns=COLUMNS)
    assert run(["merge", str(first), str(second), "-o", str(tmp_path / "all.mrec.json")]) == 0
    assert [part.path for part in read_manifest(tmp_path / "all.mrec.json").parts] == ["a/1.mrec.lmdb", "2.mrec.lmdb"]
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("a", "2.mrec.lmdb", "all.mrec.json"):
        os.rename(tmp_path / name, moved / name)
    with molrec_convert.open(moved / "all.mrec.json") as collection:
        assert [r.meta["record_id"] for r in collection] == ["r0", "r1", "r2", "r3"]
    other = write(moved / "3.mrec.lmdb", members(1), index_columns=COLUMNS, units={"length": "nm"})
    with pytest.raises(ContractError, match="declares something else"):
        save_set([moved / "2.mrec.lmdb", other], moved / "wrong.mrec.json")
    assert not (moved / "wrong.mrec.json").exists()


def test_what_is_wrong_with_a_part_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, several = pair(tmp_path)
    part = several / "part-00002.mrec.lmdb"
    whole = part.read_bytes()
    # a bit within a value: sound pages, another checksum
    position = whole.index(np.array([1201.0]).tobytes()) if np.array([1201.0]).tobytes() in whole else len(whole) - 9
    part.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
    assert run(["validate", str(several)]) == 1
    assert "part-00002.mrec.lmdb: the checksum" in capsys.readouterr().out
    part.write_bytes(whole[:-4096])
    with open_collection(several) as collection, pytest.raises(FormatError, match="by the manifest of its set"):
        collection[12]
    assert run(["validate", str(several)]) == 1
    assert run(["info", str(several)]) == 1
    assert "part-00002" in capsys.readouterr().err
    os.unlink(part)
    assert run(["convert", str(several), str(tmp_path / "x.mrec.lmdb")]) == 1
    assert not (tmp_path / "x.mrec.lmdb").exists()
    write(part, members(2), index_columns=COLUMNS)
    assert run(["validate", str(several)]) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"layout": "x"}, "the layout is not a set's"),
        ({"layout_version": 2}, "reads up to 1"),
        ({"layout_version": True}, "has no version"),
        ({"n_records": 5}, "the parts do not add up"),
        ({"parts": {}}, "is not a list"),
        ({"parts": []}, "at least one part"),
        ({"parts": [{"path": ""}]}, "is not a path"),
        ({"parts": [{"path": "a", "crc32c": "x"}]}, "eight hexadecimal digits"),
        ({"parts": [{"path": "a", "crc32c": "00000000", "n_records": -1}]}, "is not a count"),
    ],
)
def test_broken_manifests(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    _, several = pair(tmp_path, 3, 2)
    document = json.loads((several / MANIFEST).read_text())
    (several / MANIFEST).write_text(json.dumps({**document, **change}))
    with pytest.raises(molrec_convert.errors.MolrecError, match=text):
        open_collection(several)
    assert run(["validate", str(several)]) == 1


def test_no_json_at_all(tmp_path: Path) -> None:
    _, several = pair(tmp_path, 3, 2)
    (several / MANIFEST).write_bytes(b"\xff{")
    with pytest.raises(FormatError, match="no JSON"):
        open_collection(several)
