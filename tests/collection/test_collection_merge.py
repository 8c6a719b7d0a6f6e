"""Collections merged without decoding: keys counted anew, values to the byte; what does not go together is named."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import ase.io
import numpy as np
import pytest
from collection_stores import F64, POINTS, contents, edit_json, key, molecule, points, put, write

import molrec_convert
from molrec_convert import ContractError, UsageError, merge_collections
from molrec_convert.cli import run
from molrec_convert.errors import MolrecError
from molrec_convert.inspect.validation import validate
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Column,
    ColumnDeclaration,
    Declaration,
    ForceField,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.report import Fate, Report
from molrec_convert.stores.lmdb.file.pages import PageFile


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
    rounded = ColumnDeclaration("f64", precision=0.5)
    other_grid = Declaration({"atoms": BlockDeclaration({"x": rounded})}, POINTS.meta)
    other_key = Declaration(POINTS.blocks, {**POINTS.meta, "n": MetaDeclaration("i64")})
    other_kind = Declaration(POINTS.blocks, {"pe": MetaDeclaration("json")})
    cases = [
        (write(tmp_path / "units.mrec.lmdb", [points(0)], units={"length": "nm", "energy": "eV"}), "units.length"),
        (write(tmp_path / "grid.mrec.lmdb", [], other_grid), "declare the block differently"),
        (write(tmp_path / "key.mrec.lmdb", [], other_key), "trajectory/meta/n: .* --fill n=VALUE or --drop n"),
        (write(tmp_path / "kind.mrec.lmdb", [], other_kind), "trajectory/meta/pe: .* declare the key differently"),
        (write(tmp_path / "ff.mrec.lmdb", [points(0)], forcefield=forcefield()), "forcefield"),
    ]
    for b, text in cases:
        with pytest.raises(ContractError, match=text) as caught:
            merge_collections([a, b], tmp_path / "m.mrec.lmdb")
        assert b.name in str(caught.value)
    assert not (tmp_path / "m.mrec.lmdb").exists()
    assert not list(tmp_path.glob(".*"))


def beside(number: int, key: bool = True, column: bool = True, **options: object) -> Record:
    """A record whose frames have a key `gap` and a column `q`, or not."""
    columns = {"x": Column(np.arange(2.0) + number), **({"q": Column(np.ones(2) * number)} if column else {})}
    declared = {"x": F64, **({"q": F64} if column else {})}
    meta = {"pe": MetaDeclaration("f64"), **({"gap": MetaDeclaration("f64", **options)} if key else {})}
    frames = [
        Frame({"atoms": Block(columns)}, Meta({"pe": float(n), **({"gap": n / 2} if key else {})})) for n in (1, 2)
    ]
    declaration = Declaration({"atoms": BlockDeclaration(declared)}, meta)
    return Record(trajectory=MemoryTrajectory(frames, declaration), system=molecule("OH", smiles=f"O{number}"))


def made_of(path: Path, *records: Record, **options: object) -> Path:
    assert records[0].trajectory is not None
    return write(path, list(records), records[0].trajectory.declaration, index_columns={"smiles": "string"}, **options)


def test_what_only_some_have_is_missing_in_the_others(tmp_path: Path) -> None:
    a = made_of(tmp_path / "a.mrec.lmdb", beside(0), beside(1))
    b = made_of(tmp_path / "b.mrec.lmdb", beside(2, key=False, column=False))
    report = merge_collections([a, b], tmp_path / "m.mrec.lmdb", report=Report())
    assert {(item.name, item.detail) for item in report.of(Fate.CONVERTED)} == {
        ("trajectory/gap", "missing in 1 of 2 sources"), ("trajectory/atoms/q", "missing in 1 of 2 sources"),
    }  # fmt: skip
    with molrec_convert.open(tmp_path / "m.mrec.lmdb") as merged:
        assert merged.index["smiles"].tolist() == ["O0", "O1", "O2"]
        assert [frame.meta["gap"] for record in list(merged)[:2] for frame in record.trajectory] == [0.5, 1.0] * 2
        assert all("gap" not in frame.meta for frame in merged[2].trajectory)
        assert [frame.meta["pe"] for frame in merged[2].trajectory] == [1.0, 2.0]
        assert merged[1].trajectory[0]["atoms"].columns["q"].values.tolist() == [1.0, 1.0]
        missing = merged[2].trajectory[0]["atoms"].columns["q"].validity
        assert missing is not None
        assert not missing.any()
        molrec_convert.convert(tmp_path / "m.mrec.lmdb", tmp_path / "m.extxyz", target_units="none")
    assert not [f for f in validate(tmp_path / "m.mrec.lmdb") if f.severity.value == "error"]
    images = ase.io.read(tmp_path / "m.extxyz", ":")
    assert [("gap" in atoms.info, "q" in atoms.arrays) for atoms in images] == [(True, True)] * 4 + [(False, False)] * 2


def test_a_fill_that_only_one_has_becomes_its_value(tmp_path: Path) -> None:
    frames = [Frame({"atoms": Block({"x": Column(np.arange(2.0))})}, Meta({"pe": 1.0}))] * 2
    declared = Declaration({"atoms": BlockDeclaration({"x": F64})},
                           {"pe": MetaDeclaration("f64"), "gap": MetaDeclaration("f64", 7.0)})  # fmt: skip
    filled = Record(trajectory=MemoryTrajectory(frames, declared), system=molecule("OH", smiles="f"))
    a = made_of(tmp_path / "a.mrec.lmdb", beside(0, column=False))
    b = made_of(tmp_path / "b.mrec.lmdb", filled)
    merge_collections([a, b], tmp_path / "m.mrec.lmdb")
    with molrec_convert.open(tmp_path / "m.mrec.lmdb") as merged:
        gaps = [frame.meta["gap"] for record in merged for frame in record.trajectory]
        assert gaps == [0.5, 1.0, 7.0, 7.0]


def test_units_are_stated_by_all_or_by_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write(tmp_path / "a.mrec.lmdb", [points(0)])
    b, c = (write(tmp_path / f"{name}.mrec.lmdb", [points(1)], units={}) for name in "bc")
    assert run(["merge", str(b), str(c), "-o", str(tmp_path / "m.mrec.lmdb")]) == 0
    assert "no collection states its units: the numbers are merged as they are" in capsys.readouterr().err
    for parts in ([a, b], [b, a]):
        assert run(["merge", *map(str, parts), "-o", str(tmp_path / "n.mrec.lmdb")]) == 1
        told = capsys.readouterr().err
        assert "b.mrec.lmdb states no units" in told
        assert "--units" in told
    with molrec_convert.open(a) as collection:
        units = ",".join(f"{quantity}={unit}" for quantity, unit in collection.units.items())
    joined = tmp_path / "n.mrec.lmdb"
    assert run(["migrate", str(a), str(b), "-o", str(joined), "--units", units, "--workers", "1"]) == 0
    assert len(molrec_convert.open(joined)) == 2


def test_a_conversion_of_migrated_collections_keeps_how_they_were_made(tmp_path: Path) -> None:
    ways = ({"split": "rows"}, {"drop": ["x"]}, None)
    units = {"length": "angstrom", "energy": "eV"}
    parts = [
        write(tmp_path / f"{n}.mrec.lmdb", [points(n)], units=None,
              document={"units": units, **({} if way is None else {"migration": way})})
        for n, way in enumerate(ways)
    ]  # fmt: skip
    report = molrec_convert.convert(parts, tmp_path / "c.mrec.lmdb")
    merge_collections(parts, tmp_path / "m.mrec.lmdb")
    assert not report.losses()
    assert contents(tmp_path / "c.mrec.lmdb") == contents(tmp_path / "m.mrec.lmdb")
    molrec_convert.convert([tmp_path / "c.mrec.lmdb", parts[1]], tmp_path / "d.mrec.lmdb")
    with molrec_convert.open(tmp_path / "d.mrec.lmdb") as joined:
        assert joined.document["migration"] == {"parts": [{"split": "rows"}, {"drop": ["x"]}, {}]}
        assert joined.index["migration"].tolist() == [0, 1, 2, 1]


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


def mixed(path: Path, numbers: range) -> Path:
    """Values within pages and over several, records with and without a system."""
    records = [
        Record(
            meta={"record_id": f"r{n}", "note": "n" * (n * 37 % 1500)},
            system=molecule("OHCNO"[n % 5] * (1 + n * 17 % 900)) if n % 3 else None,
            trajectory=points(n, n % 3, atoms=1 + n * 17 % 900).trajectory,
        )
        for n in numbers
    ]
    return write(path, records)


def test_values_within_pages_and_over_several(tmp_path: Path) -> None:
    whole = mixed(tmp_path / "w.mrec.lmdb", range(400))
    cuts = [0, 1, 1, 150, 163, 400]
    parts = [mixed(tmp_path / f"{n}.mrec.lmdb", range(*pair)) for n, pair in enumerate(itertools.pairwise(cuts))]
    merge_collections(parts, tmp_path / "a.mrec.lmdb")
    assert contents(tmp_path / "a.mrec.lmdb") == contents(whole)
    merge_collections([tmp_path / "a.mrec.lmdb"] * 2, tmp_path / "c.mrec.lmdb")
    for path in (tmp_path / "a.mrec.lmdb", tmp_path / "c.mrec.lmdb"):
        with PageFile(path) as pages:
            pages.check()
    # little is lost to pages that are not full
    assert (tmp_path / "a.mrec.lmdb").stat().st_size < 1.1 * whole.stat().st_size


def test_a_merged_collection_is_appended_to(tmp_path: Path) -> None:
    parts = [mixed(tmp_path / f"{n}.mrec.lmdb", range(n * 30, n * 30 + 30)) for n in range(3)]
    merge_collections(parts, tmp_path / "m.mrec.lmdb")
    with molrec_convert.append(tmp_path / "m.mrec.lmdb") as writer:
        writer.append(points(90))
    assert [r.meta["record_id"] for r in molrec_convert.open(tmp_path / "m.mrec.lmdb")] == [f"r{n}" for n in range(91)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_damage_is_refused_or_harmless(tmp_path: Path, seed: int) -> None:
    """Bytes changed anywhere: an error of ours, or a file whose pages are sound; never the end of the process."""
    source = mixed(tmp_path / "s.mrec.lmdb", range(60))
    whole, draw = source.read_bytes(), random.Random(seed)
    target = tmp_path / "m.mrec.lmdb"
    refused = 0
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 1, 3, 20])):
            page = draw.randrange(len(whole) // 4096) * 4096
            damaged[page + draw.choice([draw.randrange(4096), draw.randrange(40)])] = draw.randrange(256)
        source.write_bytes(damaged)
        try:
            merge_collections([source, source], target, overwrite=True)
        except MolrecError:
            refused += 1
            continue
        with PageFile(target) as pages:
            pages.check()
    assert refused
    assert not list(tmp_path.glob(".*"))
