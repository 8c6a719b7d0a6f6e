"""What a migration tells: warnings with the file's name, all faults and conflicts, options that differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from migration_inputs import extxyz, make_files

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.migration import Settings, migrate
from molrec_convert.migration.settings import parse_units
from molrec_convert.migration.state import read_lines


def mrec(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run([*map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def noted(path: Path) -> list[dict[str, Any]]:
    return list(read_lines(path, ""))


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Good files, three that there is something to say of, and one at fault."""
    folder = make_files(tmp_path / "in", 3)
    for name in ("w1", "w2", "w3"):
        (folder / f"{name}.extxyz").write_text(extxyz(7) + "\n\n" + extxyz(8))
    (folder / "bad.extxyz").write_text("3\nbroken\n")
    (folder / "notes.txt").write_text("lab book\n")
    return folder


@pytest.mark.parametrize("workers", [1, 2])
def test_warnings_name_the_file_and_are_noted(
    workers: int, mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, report = tmp_path / "a.mrec.lmdb", tmp_path / "report.json"
    arguments = ["migrate", mixed, "-o", target, "--units", "metal", "--workers", workers]
    code, _, err = mrec(capsys, *arguments, "--report", report)
    assert code == 4
    lines = noted(tmp_path / "a.failures.jsonl")
    assert [(Path(line["path"]).name, line["level"]) for line in lines] == [
        ("bad.extxyz", "error"),
        *((f"w{n}.extxyz", "warning") for n in (1, 2, 3)),
    ]
    assert "line 2" in lines[0]["error"]
    assert {line["type"] for line in lines[1:]} == {"Warning"}
    assert all("blank lines" in line["warning"] for line in lines[1:])
    (told,) = (line for line in err.splitlines() if line.startswith("warning: "))
    assert f"{mixed / 'w1.extxyz'}" in told
    assert "(and 2 more like it: see a.failures.jsonl)" in told
    assert "the input" not in told
    # a fault counts as one, a warning does not
    assert "1 input could not be migrated" in err
    document = json.loads(report.read_text())
    assert document["failures"] == lines
    assert [Path(path).name for path in document["left_aside"]] == ["notes.txt"]
    # who reads the file goes on: verify knows what was at fault, what failed is taken when it is mended
    code, _, err = mrec(capsys, "verify", target, "--against", mixed)
    assert code == 0, err
    (mixed / "bad.extxyz").write_text(extxyz(9))
    code, _, err = mrec(capsys, *arguments)
    assert code == 0
    assert [line["level"] for line in noted(tmp_path / "a.failures.jsonl")] == ["warning"] * 3


def test_records_of_their_own_have_the_same_file(mixed: Path, tmp_path: Path) -> None:
    arguments = ["migrate", str(mixed), "-o", str(tmp_path / "out"), "--as", "records", "--units", "metal"]
    assert run([*arguments, "--workers", "1"]) == 4
    lines = noted(tmp_path / "out.failures.jsonl")
    assert sorted((Path(line["path"]).name, line["level"]) for line in lines) == [
        ("bad.extxyz", "error"),
        *((f"w{n}.extxyz", "warning") for n in (1, 2, 3)),
    ]
    # called again what is done stays noted
    (mixed / "bad.extxyz").unlink()
    assert run([*arguments, "--workers", "1"]) == 0
    assert noted(tmp_path / "out.failures.jsonl") == [line for line in lines if line["level"] == "warning"]


def test_what_is_cut_off_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_files(tmp_path / "in", 2)
    text = (folder / "c00001.extxyz").read_text()
    (folder / "c00001.extxyz").write_text(text + text[: len(text) // 2])
    arguments = ["migrate", folder, "-o", tmp_path / "a.mrec.lmdb", "--units", "metal", "--workers", 1]
    assert mrec(capsys, *arguments)[0] == 4
    (line,) = noted(tmp_path / "a.failures.jsonl")
    assert (line["level"], line["type"]) == ("warning", "CutOff")
    assert line["path"].endswith("c00001.extxyz")


def test_a_dry_run_lists_some_and_reports_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_files(tmp_path / "in", 2)
    for number in range(29):
        (folder / f"bad{number:02d}.extxyz").write_text("3\nbroken\n")
    for number in range(7):
        (folder / f"notes{number}.txt").write_text("lab book\n")
    (folder / "other.extxyz").write_text(extxyz(3, **{f"key{n}": n for n in range(40)}))
    (folder / "z.extxyz").write_text(extxyz(3, **{f"key{n}": "text" for n in range(40)}))
    report = tmp_path / "report.json"
    arguments = ["migrate", folder, "-o", tmp_path / "a.mrec.lmdb", "--units", "metal", "--dry-run", "--report", report]
    code, out, _ = mrec(capsys, *arguments)
    assert code == 2
    assert out.count("at fault: ") == 21
    assert "at fault: 9 more; --verbose lists them, --report FILE has all" in out
    # forty keys of one kind are one line
    conflicts = [line for line in out.splitlines() if line.startswith("conflict: ")]
    assert len(conflicts) <= 3
    assert any("40 names (key0, key1, key2, key3, key4, key5, …)" in line for line in conflicts)
    document = json.loads(report.read_text())
    assert len(document["failures"]) == 29
    assert all(failure["level"] == "error" for failure in document["failures"])
    assert len(document["left_aside"]) == 7
    assert {f"key{n}" for n in range(40)} <= {conflict["name"] for conflict in document["conflicts"]}
    code, out, _ = mrec(capsys, *arguments, "--verbose")
    assert out.count("at fault: ") == 29
    assert out.count("conflict: ") >= 40
    # the run itself refuses with the same conflicts, and its report has them
    report.unlink()
    arguments.remove("--dry-run")
    code, _, err = mrec(capsys, *arguments)
    assert code == 2
    assert len(err) < 3000
    assert json.loads(report.read_text())["conflicts"] == document["conflicts"]


def test_other_options_than_a_finished_migration_has_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_files(tmp_path / "in", 3)
    target = tmp_path / "a.mrec.lmdb"
    arguments = ["migrate", folder, "-o", target, "--workers", 1]
    assert mrec(capsys, *arguments, "--units", "metal", "--fill", "pe=NaN")[0] == 0
    for again in ((), ("--units", "metal"), ("--fill", "pe=NaN")):
        code, _, err = mrec(capsys, *arguments, *again)
        assert code == 0
        assert "nothing to do" in err
    for other, named in (
        (("--units", "real"), "--units"),
        (("--fill", "stress=NaN"), "--fill stress"),
        (("--energy-key", "REF_energy"), "--energy-key"),
        (("--drop", "momenta", "--dedupe"), "--drop momenta, --dedupe"),
        (("--rename", "foo=bar"), "--rename foo"),
    ):
        code, _, err = mrec(capsys, *arguments, *other)
        assert code == 2, other
        assert f"all 3 inputs are in {target} already, and {named} asks for something else" in err
        assert "leave that off, or make it anew with --overwrite" in err


def test_merged_collections_know_how_each_part_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metal = parse_units("metal")
    for name, settings in (
        ("a", Settings(units=metal)),
        ("b", Settings(units=metal, rename={"total": "pe"}, options={"energy_key": "total"})),
        ("c", Settings(units=metal, drop=("extra",), split="frames")),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for number in range(3):
            keys = {"b": {"energy": None, "total": -1.5 - number}, "c": {"extra": number}}.get(name, {})
            (folder / f"{number}.extxyz").write_text(extxyz(10 * ord(name) + number, frames=2, **keys))
        migrate([folder], tmp_path / f"{name}.mrec.lmdb", settings, workers=1)
    (tmp_path / "c" / "bad.extxyz").write_text("3\nbroken\n")
    ab, target = tmp_path / "ab.mrec.lmdb", tmp_path / "all.mrec.lmdb"
    code, _, err = mrec(capsys, "merge", tmp_path / "a.mrec.lmdb", tmp_path / "b.mrec.lmdb", "-o", ab)
    assert code == 0
    assert "migration" not in err
    assert mrec(capsys, "merge", tmp_path / "c.mrec.lmdb", ab, "-o", target)[0] == 0
    sources = [tmp_path / name for name in "abc"]
    code, out, err = mrec(capsys, "verify", target, "--against", *sources)
    assert code == 0, out
    assert "18 of 18 records compared, equal to their sources" in err
    # a part of it knows, too
    some = tmp_path / "some.mrec.lmdb"
    assert mrec(capsys, "select", target, "n_atoms > 5", "-o", some)[0] == 0
    code, out, err = mrec(capsys, "verify", some, "--against", *sources)
    assert code == 0, out
    # and a record that is another than its source is found
    (tmp_path / "b" / "1.extxyz").write_text(extxyz(3, frames=2, energy=None, total=-2.5))
    code, out, err = mrec(capsys, "verify", target, "--against", *sources)
    assert code == 1
    assert "2 differ" in err
    with molrec_convert.open(target) as merged:
        assert len(merged.document["migration"]["parts"]) == 3
    assert run(["validate", str(target)]) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_count_of_atoms_that_is_too_small_is_a_fault(workers: int, tmp_path: Path) -> None:
    """Not a record of the first atoms with the energy of all; the lines behind them belong to no frame."""
    folder = make_files(tmp_path / "in", 3)
    lines = extxyz(4, atoms=6).splitlines()
    for name, count in (("small", 2), ("large", 7)):
        (folder / f"{name}.extxyz").write_text("\n".join([str(count), *lines[1:]]) + "\n")
    arguments = ["migrate", str(folder), "-o", str(tmp_path / "a.mrec.lmdb"), "--units", "metal"]
    assert run([*arguments, "--workers", str(workers)]) == 4
    faults = {Path(line["path"]).name: line for line in noted(tmp_path / "a.failures.jsonl")}
    assert faults["small.extxyz"]["level"] == "error"
    assert "line 5" in faults["small.extxyz"]["error"]
    assert "large.extxyz" in faults
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        sources = {str(path) for path in collection.index["source"]}
    assert not any("small" in path for path in sources)
    assert run(["verify", str(tmp_path / "a.mrec.lmdb"), "--against", str(folder)]) == 0
