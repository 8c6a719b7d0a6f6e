"""Collections merged without decoding: keys counted anew, values to the byte; what does not go together is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from collection_stores import F64, POINTS, contents, edit_json, key, molecule, points, put, write

import molrec_convert
from molrec_convert import ContractError, UsageError, merge_collections
from molrec_convert.cli import run
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    ForceField,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.report import Report
from molrec_convert.validation import validate


def some(path: Path, numbers: range, **options: object) -> Path:
    """Records with and without a system, of one to three frames."""
    records = [
        Record(
            meta={"record_id": f"r{n}"},
            system=molecule("OH", smiles="O" * (n % 4), energy=n / 2) if n % 3 else None,
            trajectory=points(n, n % 3 + 1).trajectory,
        )
        for n in numbers
    ]
    options.setdefault("index_columns", {"smiles": "string", "energy": "f64"})
    return write(path, records, **options)


def test_merged_is_as_written_at_once(tmp_path: Path) -> None:
    whole = some(tmp_path / "whole.mrec.lmdb", range(25))
    parts = [some(tmp_path / f"{a}-{b}.mrec.lmdb", range(a, b)) for a, b in ((0, 7), (7, 7), (7, 8), (8, 25))]
    merge_collections(parts, tmp_path / "m.mrec.lmdb")
    assert contents(tmp_path / "m.mrec.lmdb") == contents(whole)
    assert not [f for f in validate(tmp_path / "m.mrec.lmdb") if f.severity.value == "error"]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_many_values_of_all_sizes(tmp_path: Path) -> None:
    """More than a batch, values within a page and over many."""
    sizes = [1, 300, 5, 2000] * 400 + [200_000] * 3
    half = len(sizes) // 2
    whole = write(tmp_path / "w.mrec.lmdb", [points(n, atoms=size) for n, size in enumerate(sizes)])
    parts = [
        write(tmp_path / "a.mrec.lmdb", [points(n, atoms=size) for n, size in enumerate(sizes[:half])]),
        write(tmp_path / "b.mrec.lmdb", [points(n, atoms=size) for n, size in enumerate(sizes) if n >= half]),
    ]
    merge_collections(parts, tmp_path / "m.mrec.lmdb", verify=False)
    assert contents(tmp_path / "m.mrec.lmdb") == contents(whole)
    assert molrec_convert.read(tmp_path / "m.mrec.lmdb", verify=True).n_frames == len(sizes)


def test_index_columns_are_joined(tmp_path: Path) -> None:
    """A column that is all nulls in one takes the dtype of the other; one that is missing gives nulls."""
    a = write(tmp_path / "a.mrec.lmdb", [points(0), points(1)], index_columns={"gap": lambda r: None, "one": "f64"})
    b = write(tmp_path / "b.mrec.lmdb", [points(2)], index_columns={"gap": lambda r: 3, "two": lambda r: "x"})
    merge_collections([a, b], tmp_path / "m.mrec.lmdb")
    index = molrec_convert.open(tmp_path / "m.mrec.lmdb").index
    assert index.columns["gap"].dtype == "i64"
    assert index.validity("gap").tolist() == [False, False, True]
    assert index["gap"][2] == 3
    assert index["two"].tolist() == [None, None, "x"]
    assert index.validity("two").tolist() == [False, False, True]
    assert index["first_frame"].tolist() == [0, 1, 2]
    c = write(tmp_path / "c.mrec.lmdb", [points(3)], index_columns={"gap": lambda r: 3.5})
    with pytest.raises(ContractError, match=r"b\.mrec\.lmdb and .*c\.mrec\.lmdb have the index column of two kinds"):
        merge_collections([a, b, c], tmp_path / "n.mrec.lmdb")
    assert not (tmp_path / "n.mrec.lmdb").exists()


def test_blocks_may_differ_from_source_to_source(tmp_path: Path) -> None:
    """The union of the blocks; a column may be null in one."""
    bonds = BlockDeclaration({"order": F64})
    nullable = BlockDeclaration({"x": ColumnDeclaration("f64", nullable=True)})
    a = write(tmp_path / "a.mrec.lmdb", [points(0)])
    other = Declaration({"atoms": nullable, "bonds": bonds}, POINTS.meta)
    b = write(tmp_path / "b.mrec.lmdb", [points(1)], other)
    merge_collections([a, b], tmp_path / "m.mrec.lmdb")
    with molrec_convert.open(tmp_path / "m.mrec.lmdb") as merged:
        assert list(merged.declaration.blocks) == ["atoms", "bonds"]
        assert merged.declaration.blocks["atoms"].columns["x"].nullable
        assert [record.meta["record_id"] for record in merged] == ["r0", "r1"]


def test_what_does_not_go_together_is_named(tmp_path: Path) -> None:
    a = write(tmp_path / "a.mrec.lmdb", [points(0)])
    other_dtype = Declaration({"atoms": BlockDeclaration({"x": F64, "q": F64})}, POINTS.meta)
    other_key = Declaration(POINTS.blocks, {**POINTS.meta, "ke": MetaDeclaration("f64")})
    cases = [
        (write(tmp_path / "units.mrec.lmdb", [points(0)], units={"length": "nm", "energy": "eV"}), "units.length"),
        (write(tmp_path / "dtype.mrec.lmdb", [], other_dtype), "declare the block differently"),
        (write(tmp_path / "key.mrec.lmdb", [], other_key), "trajectory/meta/ke"),
        (write(tmp_path / "ff.mrec.lmdb", [points(0)], forcefield=forcefield()), "forcefield"),
    ]
    for b, text in cases:
        with pytest.raises(ContractError, match=text) as caught:
            merge_collections([a, b], tmp_path / "m.mrec.lmdb")
        assert b.name in str(caught.value)
    assert not (tmp_path / "m.mrec.lmdb").exists()
    assert not list(tmp_path.glob(".*"))


def forcefield() -> ForceField:
    return ForceField.new("f", {"preset": "real"})


def test_force_field_and_document(tmp_path: Path) -> None:
    document = {"units": {"length": "nm"}, "title": "t"}
    a = write(
        tmp_path / "a.mrec.lmdb", [points(0)], forcefield=forcefield(), document={**document, "by": "a"}, units=None
    )
    b = write(
        tmp_path / "b.mrec.lmdb", [points(1)], forcefield=forcefield(), document={**document, "by": "b"}, units=None
    )
    for path, value in ((a, 1), (b, 2)):
        edit_json(path, b"meta", lambda m, value=value: m.update(later="same", other=value))
        put(path, b"zzz", b"alike")
        put(path, b"zz", b"%d" % value)
    report = merge_collections([a, b], tmp_path / "m.mrec.lmdb", report=Report())
    with molrec_convert.open(tmp_path / "m.mrec.lmdb") as merged:
        assert merged.forcefield == forcefield()
        assert merged.document == {"molrec_version": 1, **document}
        assert merged.extra == {"later": "same"}
        assert list(merged.unknown_values()) == [(b"zzz", b"alike")]
    assert [item.name for item in report.items] == ["collection.by", "key other of meta", "key zz"]
    merge_collections([a, b], tmp_path / "n.mrec.lmdb", document={**document, "by": "me"})
    assert molrec_convert.open(tmp_path / "n.mrec.lmdb").document["by"] == "me"


def test_a_key_that_is_missing(tmp_path: Path) -> None:
    a = write(tmp_path / "a.mrec.lmdb", [points(n) for n in range(5)])
    put(a, key("f", 3), None)
    with pytest.raises(ContractError, match=r"f\[3\]: the key is not there"):
        merge_collections([a, a], tmp_path / "m.mrec.lmdb")
    assert [path.name for path in tmp_path.iterdir()] == ["a.mrec.lmdb"]


def test_keys_nobody_counts_stay_behind(tmp_path: Path) -> None:
    a = write(tmp_path / "a.mrec.lmdb", [points(n) for n in range(3)])
    for left in (key("f", 3), key("r", 7), key("s", 9), b"f\0", b"r" + bytes(9)):
        put(a, left, b"left")
    report = merge_collections([a], tmp_path / "m.mrec.lmdb")
    assert {i.name for i in report.items} == {"key f[3]", "key r[7]", "key s[9]"}
    assert len(molrec_convert.read(tmp_path / "m.mrec.lmdb", verify=True)) == 3


def test_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write(tmp_path / "a.mrec.lmdb", [points(0)])
    b = write(tmp_path / "b.mrec.lmdb", [points(1)])
    with pytest.raises(UsageError, match="is the source"):
        merge_collections([a, b], a, overwrite=True)
    with pytest.raises(UsageError, match="exists already"):
        merge_collections([a], b)
    with pytest.raises(UsageError, match="nothing to merge"):
        merge_collections([], tmp_path / "m.mrec.lmdb")
    assert run(["merge", str(a), str(b), "-o", str(tmp_path / "m.mrec.lmdb")]) == 0
    assert "2 records, 2 frames" in capsys.readouterr().err
    assert run(["merge", str(a), str(tmp_path / "none.mrec.lmdb"), "-o", str(tmp_path / "n.mrec.lmdb")]) == 1
    assert "there is no file" in capsys.readouterr().err
    cut = tmp_path / "cut.mrec.lmdb"
    cut.write_bytes(a.read_bytes()[:-4096])
    assert run(["merge", str(a), str(cut), "-o", str(tmp_path / "n.mrec.lmdb")]) == 1
    assert "cut" in capsys.readouterr().err


def test_no_part_of_a_set_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by what is made of the set nor by anything else; nor a set by a file, nor what a manifest names."""
    a = some(tmp_path / "a.mrec.lmdb", range(7))
    parts = tmp_path / "set.mrec.lmdb"
    assert run(["convert", str(a), str(parts), "--shard-records", "3"]) == 0
    manifest = tmp_path / "named.json"
    assert run(["merge", str(a), "-o", str(manifest)]) == 0
    before = {path: path.read_bytes() for path in [a, *parts.iterdir()]}
    part = parts / "part-00001.mrec.lmdb"
    capsys.readouterr()
    for arguments, said in (
        (["merge", parts, "-o", part], "is the source, which the result would replace"),
        (["merge", a, "-o", part], "is a part of the set"),
        (["convert", parts, part], "is a part of the set"),
        (["select", parts, "n_frames > 1", "-o", part], "is a part of the set"),
        (["convert", a, parts / "mrec-set.json", "--to", "mrec-lmdb"], "is a part of the set"),
        (["merge", manifest, "-o", a], "is the source, which the result would replace"),
        (["merge", a, a, "-o", parts], "is a directory, and no file takes its place"),
    ):
        assert run([*map(str, arguments), "--overwrite"]) == 2
        assert said in capsys.readouterr().err
    assert {path: path.read_bytes() for path in [a, *parts.iterdir()]} == before


def test_a_manifest_of_sets_and_files(tmp_path: Path) -> None:
    a, b = some(tmp_path / "a.mrec.lmdb", range(7)), some(tmp_path / "b.mrec.lmdb", range(7, 9))
    parts = tmp_path / "set.mrec.lmdb"
    assert run(["convert", str(a), str(parts), "--shard-records", "3"]) == 0
    assert run(["merge", str(parts), str(b), "-o", str(tmp_path / "all.json")]) == 0
    assert run(["merge", str(tmp_path / "all.json"), str(a), "-o", str(tmp_path / "more.json")]) == 0
    merge_collections([tmp_path / "more.json"], tmp_path / "m.mrec.lmdb")
    merge_collections([a, b, a], tmp_path / "n.mrec.lmdb")
    assert contents(tmp_path / "m.mrec.lmdb") == contents(tmp_path / "n.mrec.lmdb")


def test_what_is_no_collection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()
    for path, found in ((tmp_path / "folder", "a directory without mrec-set.json"), ("/dev/null", "no regular file")):
        assert run(["merge", str(path), "-o", str(tmp_path / "m.mrec.lmdb")]) == 1
        assert f"{path}: found {found}, expected a collection" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_merged_values_are_bit_for_bit(tmp_path: Path) -> None:
    odd = np.array([-0.0, np.nan, np.inf, 5e-324, 1 / 3])
    record = points(0, atoms=5)
    frame = Frame({"atoms": Block({"x": odd})}, Meta({"pe": -0.0}), step=3)
    odd_record = Record(meta={}, trajectory=MemoryTrajectory([frame], POINTS))
    a = write(tmp_path / "a.mrec.lmdb", [record])
    b = write(tmp_path / "b.mrec.lmdb", [odd_record])
    merge_collections([a, b, b], tmp_path / "m.mrec.lmdb")
    with molrec_convert.open(tmp_path / "m.mrec.lmdb") as merged:
        for n in (1, 2):
            found = merged.frame(n)
            assert found["atoms"]["x"].tobytes() == odd.tobytes()
            assert str(found.meta["pe"]) == "-0.0"
