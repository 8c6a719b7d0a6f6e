"""Collections on the command line: made, shown, chosen from, taken apart; what goes wrong is one sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import UNITS, contents, key, molecule, points, put, raw, write

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.model import Block, ForceField, Frame, MemoryTrajectory, Meta, Record
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.report import Fate


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Ten records of one to three atoms, with an energy and a name in the index; one has no energy."""
    records = [
        Record(
            meta={"record_id": f"r{n}"},
            system=molecule("OHH"[: n % 3 + 1], smiles="O" * n),
            trajectory=points(n, 2, atoms=n % 3 + 1).trajectory,
        )
        for n in range(10)
    ]

    def energy(record: Record) -> float | None:
        number = int(record.meta["record_id"][1:])
        return None if number == 4 else 1.0 - number

    return write(
        tmp_path / "many.mrec.lmdb",
        records,
        index_columns={"energy": energy, "smiles": "string"},
        forcefield=ForceField.new("f", {"preset": "real"}),
    )


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """What a command prints: results when it succeeds, its sentence when not."""
    assert run([*map(str, arguments)]) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def one_sentence(capsys: pytest.CaptureFixture[str], *arguments: object, code: int) -> str:
    text = said(capsys, *arguments, code=code)
    assert text.startswith("mrec: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


def ids(path: Path) -> list[str]:
    with molrec_convert.open(path) as collection:
        return [record.meta["record_id"] for record in collection]


# info


def test_info_for_people(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(many, b"later", b"1")
    lines = said(capsys, "info", many).splitlines()
    assert lines[0].startswith("collection   many.mrec.lmdb, MolRec 1, ")
    assert lines[1:] == [
        "units        length: angstrom, energy: eV",
        "records      10, 20 frames, 1 to 3 atoms",
        "frames       atoms: x (f64)",
        "             per step: pe (f64)",
        "index        energy: f64, -8.0 to 1.0, 1 null",
        "             smiles: string, '' (1), O (1), OO (1), OOO (1), OOOO (1), OOOOO (1), …",
        "force field  f, units real",
        "also         later (kept as it is)",
    ]


def test_info_as_json(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said(capsys, "info", many, "--json"))
    assert document["kind"] == "collection"
    assert (document["records"], document["frames"], document["atoms"]) == (10, 20, {"least": 1, "most": 3})
    assert document["index"]["energy"] == {"dtype": "f64", "nulls": 1, "least": -8.0, "most": 1.0}
    assert document["units"] == UNITS
    assert document["bytes"] == many.stat().st_size


def test_info_of_some_and_of_one(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "info", many, "--select", "energy < -2 and n_atoms >= 2 or smiles == ''")
    assert "records      4 of 10, 8 frames, 1 to 3 atoms" in text
    assert "records      2 of 10, 4 frames, 2 to 3 atoms" in said(capsys, "info", many, "--record", "4:6")
    text = said(capsys, "info", many, "--record", "7")
    assert text.startswith("record")
    assert "2 atoms" in text
    assert json.loads(said(capsys, "info", many, "--record", "-1", "--json"))["meta"] == {"record_id": "r9"}


def test_info_of_a_collection_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "empty.mrec.lmdb", [])
    assert "records     0, 0 frames" in said(capsys, "info", tmp_path / "empty.mrec.lmdb")


def test_info_reads_no_frame(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with raw(many, write=True) as transaction:
        for n in range(20):
            transaction.put(key("f", n), b"broken")
    assert "20 frames" in said(capsys, "info", many)


# convert


def test_a_selection_becomes_a_collection(many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "some.mrec.lmdb"
    assert run(["convert", str(many), str(target), "--select", "energy < -2 and n_atoms > 1"]) == 0
    assert re.fullmatch(rf"{target}: 3 records, 6 frames, \d+(\.\d)? kB in .* s\n", capsys.readouterr().err)
    assert ids(target) == ["r5", "r7", "r8"]
    with molrec_convert.open(target) as some:
        assert some.index["energy"].tolist() == [-4.0, -6.0, -7.0]
        assert some.index["n_atoms"].tolist() == [3, 2, 3]
        assert some.forcefield is not None
    assert run(["validate", str(target)]) == 0


def test_a_record_and_back(many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["convert", str(many), str(tmp_path / "one.mrec"), "--record", "7"]) == 0
    assert "index/energy" in capsys.readouterr().err
    assert run(["diff", str(tmp_path / "one.mrec"), str(many), "--record", "7"]) == 0
    assert run(["convert", str(tmp_path / "one.mrec"), str(tmp_path / "one.mrec.zip")]) == 0
    assert run(["convert", str(tmp_path / "one.mrec.zip"), str(tmp_path / "one.mrec.lmdb"), "--index", "smiles"]) == 0
    assert run(["diff", str(tmp_path / "one.mrec.lmdb"), str(tmp_path / "one.mrec")]) == 0
    assert run(["validate", str(tmp_path / "one.mrec.lmdb")]) == 0


def test_several_records_become_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve: by number and not by name, by which 10 comes before 2."""
    for n in range(12):
        record = Record(
            meta={"record_id": f"r{n}"}, system=molecule("OH", units="real"), trajectory=points(n).trajectory
        )
        molrec_convert.write(record, tmp_path / f"{n}.mrec")
    sources = [str(tmp_path / f"{n}.mrec") for n in range(12)]
    assert run(["convert", *sources, str(tmp_path / "all.mrec.lmdb"), "--index", "record_id", "--strict"]) == 0
    assert ids(tmp_path / "all.mrec.lmdb") == [f"r{n}" for n in range(12)]
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"{tmp_path / 'all.mrec.lmdb'}: 12 records, 12 frames")
    assert run(["convert", str(tmp_path / "all.mrec.lmdb"), sources[0], str(tmp_path / "more.mrec.lmdb")]) == 0
    assert ids(tmp_path / "more.mrec.lmdb") == [*(f"r{n}" for n in range(12)), "r0"]


def test_the_key_order_case(tmp_path: Path, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The case by the command line: twelve frames in, twelve records out, in order."""
    lines = (fixtures / "cases" / "81-lmdb-key-order" / "frames.xyz").read_text(encoding="utf-8").splitlines()
    sources = []
    for start in range(0, len(lines), 3):
        element, *xyz = lines[start + 2].split()
        columns: dict[str, Any] = {name: np.array([float(t)]) for name, t in zip("xyz", xyz, strict=True)}
        frame = Frame({"atoms": Block({"element": [element], **columns})}, Meta({"units": {"length": "angstrom"}}))
        sources.append(tmp_path / f"{len(sources)}.mrec")
        molrec_convert.write(Record(frame=frame), sources[-1])
    target = tmp_path / "c.mrec.lmdb"
    assert run(["convert", *map(str, sources), str(target)]) == 0
    capsys.readouterr()
    assert json.loads(said(capsys, "info", target, "--json"))["records"] == 12
    with molrec_convert.open(target) as collection:
        assert [record.trajectory[0]["atoms"]["x"][0] for record in collection] == list(range(12))
    for n in (0, 2, 10, 11):
        assert run(["convert", str(target), str(tmp_path / f"back{n}.mrec"), "--record", str(n)]) == 0
        with molrec_convert.open(tmp_path / f"back{n}.mrec") as back:
            assert back.trajectory[0]["atoms"]["x"].tolist() == [float(n)]
    keys = [name for name in contents(target) if name[:1] == b"f" and len(name) == 9]
    assert keys == [key("f", n) for n in range(12)]


@pytest.mark.parametrize("arrangement", [None, "trajectory"])
def test_the_key_order_case_from_its_file(tmp_path: Path, fixtures: Path, arrangement: str | None) -> None:
    """From the file itself, as twelve records and as one run of twelve frames: entry 10 is the tenth."""
    from molrec_convert.plugins import formats

    if "xyz" not in formats():
        pytest.skip("no plugin reads XYZ")
    target = tmp_path / "c.mrec.lmdb"
    options = [] if arrangement is None else ["--as", arrangement]
    assert run(["convert", str(fixtures / "cases" / "81-lmdb-key-order" / "frames.xyz"), str(target), *options]) == 0
    with molrec_convert.open(target) as collection:
        assert (len(collection), collection.n_frames) == (12 if arrangement is None else 1, 12)
        assert [collection.frame(n)["atoms"]["x"].tolist() for n in range(12)] == [[float(n)] for n in range(12)]
    record = "10" if arrangement is None else "0"
    assert run(["convert", str(target), str(tmp_path / "back.mrec"), "--record", record]) == 0
    with molrec_convert.open(tmp_path / "back.mrec") as back:
        last = back.trajectory[0 if arrangement is None else 10]
        assert last["atoms"]["x"].tolist() == [10.0]


def test_a_map_of_millions_keeps_the_order(tmp_path: Path) -> None:
    """Numbers beyond 16777216 are found by number."""
    write(tmp_path / "c.mrec.lmdb", [points(0)])
    with raw(tmp_path / "c.mrec.lmdb", write=True) as transaction:
        for n in (2**24 + 1, 2**24 - 1, 2**24, 255, 256):
            transaction.put(key("f", n), b"")
    assert [int.from_bytes(k[1:], "big") for k in contents(tmp_path / "c.mrec.lmdb") if k[:1] == b"f"] == [
        0, 255, 256, 2**24 - 1, 2**24, 2**24 + 1,
    ]  # fmt: skip


def test_what_has_no_place_is_told_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = {"kind": "rdf", "description": "d", "time_dependent": False}
    record = Record(
        system=molecule("OH", units="real"),
        trajectory=points(0).trajectory,
        method={"type": "classical", "description": "d", "engine": {"name": "e"}},
        observables=Observables({"rdf": Observable(np.zeros(3), about)}),
        attributes={"later": 1},
    )
    molrec_convert.write(record, tmp_path / "a.mrec")
    (tmp_path / "a.mrec" / "extra").mkdir()
    (tmp_path / "a.mrec" / "extra" / "zarr.json").write_text(
        json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}})
    )
    report = tmp_path / "report.json"
    arguments = ["convert", str(tmp_path / "a.mrec"), str(tmp_path / "a.mrec.lmdb"), "--report", str(report)]
    assert run([*arguments, "--verbose"]) == 0
    err = capsys.readouterr().err
    dropped = [item["name"] for item in json.loads(report.read_text())["dropped"]]
    assert sorted(dropped) == ["attributes of the root", "extra", "method", "observables"]
    assert all(f"dropped: {name}" in err for name in dropped)
    assert run(["convert", str(tmp_path / "a.mrec"), str(tmp_path / "b.mrec.lmdb"), "--strict"]) == 3
    assert not (tmp_path / "b.mrec.lmdb").exists()


def test_what_has_a_place_passes_both_ways(tmp_path: Path) -> None:
    """Null keys, unknown keys of meta, block attributes, structural shapes, units: to a collection and back."""
    system = Frame(
        {
            "atoms": Block(
                {"type": ["A", "B"], "later": np.array([1, 2], np.int16)}, attributes={"note": {"a": [1.0, None]}}
            ),
            "grid": Block({"v": np.arange(6.0)}, structural_shape=(2, 3)),
        },
        {"units": "real", "anything": 1.5},
    )
    record = Record(meta={"a": None, "unknown": {"b": [1]}}, system=system, trajectory=points(0, 3).trajectory)
    molrec_convert.write(record, tmp_path / "a.mrec")
    for source, target in (("a.mrec", "a.mrec.lmdb"), ("a.mrec.lmdb", "b.mrec.zip"), ("b.mrec.zip", "b.mrec.lmdb")):
        assert run(["convert", str(tmp_path / source), str(tmp_path / target), "--strict"]) == 0
    assert run(["diff", str(tmp_path / "a.mrec"), str(tmp_path / "b.mrec.lmdb")]) == 0
    first, second = contents(tmp_path / "a.mrec.lmdb"), contents(tmp_path / "b.mrec.lmdb")
    # the record's meta names who converted it on the way
    assert first.pop(key("r", 0)) != second.pop(key("r", 0))
    assert first.pop(b"index.crc32c") != second.pop(b"index.crc32c")
    assert first == second


# wrong input


def test_wrong_calls_are_one_sentence(many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "t.mrec.lmdb"
    record = tmp_path / "r.mrec"
    molrec_convert.write(points(0), record)
    for arguments, text in (
        (
            ["convert", many, tmp_path / "x.mrec"],
            "is a collection of 10 records: choose one by its number (--record N)",
        ),
        (["convert", many, target, "--select", "nosuch > 1"], "has no index column 'nosuch'"),
        (["convert", many, target, "--select", "energy >"], "found the end, expected a value"),
        (["convert", many, target, "--select", "smiles > 3 and"], "found the end"),
        (["convert", many, target, "--select", "energy == water"], "holds a number, which 'water' is not"),
        (["convert", many, target, "--select", "energy < -100"], "no record of"),
        (["convert", many, target, "--record", "10"], "has no record 10: it has 10, counted from 0"),
        (["convert", many, target, "--record", "x"], "'x' is neither a number nor a slice"),
        (["convert", many, target, "--record", "1", "--select", "energy < 0"], "not by both"),
        (["convert", record, target, "--record", "0"], "is one record: there is nothing to choose from"),
        (["convert", many, many], "exists already"),
        (["convert", record, tmp_path / "y.mrec", "--each"], "is one record: several become a collection"),
        (["convert", record, tmp_path / "z.mrec.lmdb", "--collection-units", "length"], "QUANTITY=UNIT"),
        (["info", record, "--select", "a == 1"], "is one record"),
        (["diff", many, record], "choose one to compare with --record N"),
        (["tree", record, "--record", "1"], "is one record"),
    ):
        assert text in one_sentence(capsys, *arguments, code=2), arguments
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.mrec.lmdb", "r.mrec"]


def test_broken_files_are_one_sentence(many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = many.read_bytes()
    (tmp_path / "no.mrec.lmdb").write_bytes(b"")
    (tmp_path / "text.mrec.lmdb").write_text("hello\n" * 100)
    (tmp_path / "cut.mrec.lmdb").write_bytes(whole[: len(whole) // 2])
    damaged = bytearray(whole)
    damaged[8192:12288] = bytes(4096)
    (tmp_path / "damaged.mrec.lmdb").write_bytes(damaged)
    for name in ("no", "text", "cut", "damaged"):
        path = tmp_path / f"{name}.mrec.lmdb"
        for command in ("info", "tree"):
            assert path.name in one_sentence(capsys, command, path, code=1)
        assert path.name in one_sentence(capsys, "convert", path, tmp_path / "t.mrec.lmdb", code=1)
        assert run(["validate", str(path)]) == 1
        assert capsys.readouterr().out.startswith("error: the file: ")
    assert "there is no file" in one_sentence(capsys, "info", tmp_path / "none.mrec.lmdb", code=1)
    assert not (tmp_path / "t.mrec.lmdb").exists()


def test_an_old_target_stays_when_something_breaks(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = write(tmp_path / "t.mrec.lmdb", [points(0)])
    before = target.read_bytes()
    put(many, key("f", 12), b"broken")
    assert "f[12]" in one_sentence(capsys, "convert", many, target, "--overwrite", code=1)
    assert target.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.mrec.lmdb", "t.mrec.lmdb"]


def test_a_collection_in_its_own_place(many: Path) -> None:
    assert run(["convert", str(many), str(many), "--overwrite", "--select", "n_atoms == 3"]) == 0
    assert ids(many) == ["r2", "r5", "r8"]


def test_formats_say_what_is_a_collection(capsys: pytest.CaptureFixture[str]) -> None:
    documents = {entry["name"]: entry for entry in json.loads(said(capsys, "formats", "--json"))}
    assert documents["mrec-lmdb"]["kind"] == "collection"
    assert documents["mrec"]["kind"] == "record"
    assert "mrec-lmdb" in said(capsys, "formats", "mrec-lmdb")


def test_without_the_library(many: Path, tmp_path: Path) -> None:
    """What is needed, and how to get it; looking at the pages needs nothing."""
    code = "import sys; sys.modules['lmdb'] = None\nfrom molrec_convert.cli import run\nsys.exit(run(sys.argv[1:]))"

    def without(*arguments: object) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr or done.stdout

    assert without("tree", many)[0] == 0
    hint = "collections need the library lmdb, which is not installed: pip install 'molrec-convert[lmdb]'\n"
    assert without("info", many) == (1, f"mrec: {many}: {hint}")
    record = tmp_path / "r.mrec"
    molrec_convert.write(Record(system=molecule("OH", units="real"), trajectory=points(0).trajectory), record)
    status, text = without("convert", record, tmp_path / "t.mrec.lmdb")
    assert (status, text) == (1, f"mrec: {record}: {hint}")
    assert not (tmp_path / "t.mrec.lmdb").exists()
    assert without("info", record)[0] == 0


def test_strangers_are_no_collections(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An LMDB file of something else is said to be that."""
    with raw(tmp_path / "other.lmdb", write=True) as transaction:
        transaction.put(b"a", b"b")
    assert "an LMDB file of no known format" in one_sentence(capsys, "info", tmp_path / "other.lmdb", code=1)
    (tmp_path / "other.lmdb").rename(tmp_path / "other.mrec.lmdb")
    assert "has no key 'meta'" in one_sentence(capsys, "info", tmp_path / "other.mrec.lmdb", code=1)
    assert run(["validate", str(tmp_path / "other.mrec.lmdb")]) == 1
    assert "a " in said(capsys, "tree", tmp_path / "other.mrec.lmdb")


def test_trajectories_of_one_frame_each(tmp_path: Path) -> None:
    """Snapshots go in, come out as trajectories of one frame, and say so."""
    for n in range(2):
        frame = Frame({"atoms": Block({"element": ["O"], "x": np.array([float(n)])})}, {"units": "real", "spin": n})
        molrec_convert.write(Record(frame=frame), tmp_path / f"{n}.mrec")
    report = molrec_convert.convert(
        [tmp_path / "0.mrec", tmp_path / "1.mrec"], tmp_path / "c.mrec.lmdb", index=("spin",)
    )
    assert [item.name for item in report.of(Fate.CONVERTED)] == ["frame"]
    with molrec_convert.open(tmp_path / "c.mrec.lmdb") as collection:
        assert collection.index["spin"].tolist() == [0, 1]
        assert MemoryTrajectory(list(collection[1].trajectory))[0]["atoms"]["x"].tolist() == [1.0]


@pytest.mark.parametrize("command", ["convert", "info", "tree", "diff"])
def test_help_says_what_is_chosen(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, command, "--help")
    assert "--record N" in text
    assert "--select CONDITION" in text
    # the description stands before the options
    assert text.index("collection") < text.index("Options:") or command == "info"
