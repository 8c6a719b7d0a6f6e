"""`mrec select`: records that fit a condition, copied as they are stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from collection_stores import contents, edit_header, key, molecule, points, put, write

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.model import ForceField, Record


@pytest.fixture
def many(tmp_path: Path) -> Path:
    records = [
        Record(
            meta={"record_id": f"r{n}"},
            system=molecule("OHH"[: n % 3 + 1], smiles="O" * n, energy=-n / 2) if n != 4 else None,
            trajectory=points(n, n % 4, atoms=n % 3 + 1).trajectory,
        )
        for n in range(12)
    ]
    columns = {"smiles": "string", "energy": "f64"}
    return write(
        tmp_path / "many.mrec.lmdb", records, index_columns=columns, forcefield=ForceField.new("f", {"preset": "real"})
    )


def test_as_convert_does(many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    condition = "(energy < -1 and n_atoms >= 2) or smiles == ''"
    assert run(["select", str(many), condition, "-o", str(tmp_path / "a.mrec.lmdb")]) == 0
    assert "6 records, " in capsys.readouterr().err
    assert run(["convert", str(many), str(tmp_path / "b.mrec.lmdb"), "--select", condition]) == 0
    assert contents(tmp_path / "a.mrec.lmdb") == contents(tmp_path / "b.mrec.lmdb")
    assert run(["validate", str(tmp_path / "a.mrec.lmdb")]) == 0
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as some, molrec_convert.open(many) as whole:
        assert [r.meta["record_id"] for r in some] == ["r0", "r5", "r7", "r8", "r10", "r11"]
        assert some.forcefield == whole.forcefield


def test_without_a_target_they_are_counted(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["select", str(many), "energy <= -5"]) == 0
    assert capsys.readouterr().out == "2 records, 5 frames\n"


def test_what_nobody_knows_stays_in_values_and_is_named_elsewhere(
    many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit_header(many, key("f", 0), lambda header: header.update(later={"a": 1}))
    put(many, b"later", b"1")
    assert run(["select", str(many), "smiles == 'O'", "-o", str(tmp_path / "a.mrec.lmdb")]) == 0
    assert "key later" in capsys.readouterr().err
    assert b'"later":{"a":1}' in contents(tmp_path / "a.mrec.lmdb")[key("f", 0)].replace(b" ", b"")


def test_wrong_calls_are_one_sentence(many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(tmp_path / "t.mrec.lmdb")
    molrec_convert.write(points(0), tmp_path / "r.mrec")
    for arguments, text in (
        (["select", many, "nosuch > 1", "-o", target], "has no index column 'nosuch'"),
        (["select", many, "energy >", "-o", target], "found the end, expected a value"),
        (["select", many, "energy < -100", "-o", target], "no record of"),
        (["select", many, "energy < 0", "-o", many], "is the source"),
        (["select", many, "energy < 0", "-o", tmp_path / "x.mrec"], "must end in .mrec.lmdb"),
        (["select", tmp_path / "r.mrec", "energy < 0", "-o", target], "is one record"),
    ):
        assert run([*map(str, arguments)]) == 2, arguments
        error = capsys.readouterr().err
        assert text in error
        assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.mrec.lmdb", "r.mrec"]
    write(Path(target), [points(0)])
    assert run(["select", str(many), "energy < 0", "-o", target]) == 2
    assert run(["select", str(many), "energy < 0", "-o", target, "--overwrite"]) == 0
    assert len(molrec_convert.open(target)) == 10


@pytest.mark.parametrize("target", ["some", "some.lmdb", "some.mrec"])
def test_names_of_no_collection_are_told_in_one_line(many, tmp_path, capsys, target):
    for command in (["select", many, "n_atoms > 0"], ["merge", many], ["split", many]):
        place = str(tmp_path / (f"{{}}-{target}" if command[0] == "split" else target))
        assert run([*map(str, command), "-o", place]) == 2
        told = capsys.readouterr().err
        assert "must end in .mrec.lmdb" in told
        assert len(told) < 150 + len(place)
    assert [path.name for path in tmp_path.iterdir()] == ["many.mrec.lmdb"]
