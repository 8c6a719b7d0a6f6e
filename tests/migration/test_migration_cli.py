"""`mrec migrate`: what it prints, its exit codes, memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from migration_inputs import extxyz, make_files

import molrec_convert
from molrec_convert.cli import run


def mrec(capsys, *arguments: object) -> tuple[int, str, str]:
    code = run(["migrate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_done_is_0_and_says_what_is_there(tmp_path, capsys):
    make_files(tmp_path / "in", 6)
    target = tmp_path / "a.mrec.lmdb"
    code, out, err = mrec(capsys, tmp_path / "in", "-o", target, "--units", "metal", "--workers", 1)
    assert (code, out) == (0, "")
    assert f"{target}: 6 records, 6 frames, " in err
    code, out, err = mrec(capsys, tmp_path / "in", "-o", target, "--units", "metal", "--workers", 1)
    assert code == 0
    assert "all 6 inputs are migrated already, nothing to do" in err
    assert run(["validate", str(target)]) == 0


def test_a_dry_run_prints_the_plan(tmp_path, capsys):
    make_files(tmp_path / "in", 6)
    (tmp_path / "in" / "notes.txt").write_text("lab book\n")
    code, out, _ = mrec(capsys, tmp_path / "in", "-o", tmp_path / "a.mrec.lmdb", "--units", "metal", "--dry-run")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("inputs: 7, ")
    assert lines[1] == "  extxyz: 6 inputs, 6 records"
    assert "left aside: 1" in lines[2]
    assert "records: 6, 6 frames" in lines
    assert "block atoms: x f64, y f64, z f64, fx f64, fy f64, fz f64" in lines
    assert "per step: pe f64" in lines
    assert any(line.startswith("size: about ") for line in lines)
    assert "note: 6 of the inputs state no units: taken as those of --units" in lines
    assert os.listdir(tmp_path) == ["in"]


def test_conflicts_are_2_in_both(tmp_path, capsys):
    (tmp_path / "a.extxyz").write_text(extxyz(1, config="bulk"))
    (tmp_path / "b.extxyz").write_text(extxyz(2, energy=None))
    inputs = (tmp_path / "a.extxyz", tmp_path / "b.extxyz", "-o", tmp_path / "o.mrec.lmdb", "--units", "metal")
    code, out, _ = mrec(capsys, *inputs, "--dry-run")
    assert code == 2
    assert "conflict: config: missing in" in out
    assert "conflict: pe" not in out
    code, _, err = mrec(capsys, *inputs)
    assert code == 2
    assert "--fill config=" in err
    code, _, err = mrec(capsys, *inputs, "--fill", "config=", "--workers", 1)
    assert code == 0
    assert "pe is missing in 1 of 2 inputs" in err


def test_failures_are_4_and_stopping_is_1(tmp_path, capsys):
    make_files(tmp_path / "in", 3)
    (tmp_path / "in" / "bad.extxyz").write_text("3\nbroken\n")
    inputs = (tmp_path / "in", "-o", tmp_path / "a.mrec.lmdb", "--units", "metal", "--workers", 1)
    code, _, err = mrec(capsys, *inputs, "--on-error", "stop")
    assert code == 1
    assert "bad.extxyz, line 2" in err
    code, _, err = mrec(capsys, *inputs)
    assert code == 4
    assert f"1 input could not be migrated: see {tmp_path}/a.failures.jsonl" in err
    assert mrec(capsys, *inputs, "--dry-run")[0] == 4


def test_what_is_cut_off_is_told(tmp_path, capsys):
    (tmp_path / "a.extxyz").write_text(extxyz(1, frames=3, atoms=4).rsplit("\n", 3)[0] + "\n")
    inputs = (tmp_path / "a.extxyz", "-o", tmp_path / "a.mrec.lmdb", "--units", "metal", "--workers", 1)
    code, _, err = mrec(capsys, *inputs)
    assert code == 4
    assert "cut off" in err
    assert mrec(capsys, *inputs, "--overwrite", "--allow-truncated")[0] == 0


def test_usage_is_2(tmp_path, capsys):
    make_files(tmp_path / "in", 2)
    for arguments, part in (
        (["-o", tmp_path / "a.lmdb"], "ends in .mrec.lmdb"),
        (["-o", tmp_path / "a.mrec.lmdb", "--fill", "pe"], "--fill pe: expected NAME=VALUE"),
        (["-o", tmp_path / "a.mrec.lmdb", "--index", "energy"], "every collection has that column"),
        (["-o", tmp_path / "out", "--as", "records", "--dedupe"], "--dedupe is for a collection"),
        (["-o", tmp_path / "a.mrec.lmdb", "--units", "metals"], "--units metals"),
    ):
        code, _, err = mrec(capsys, tmp_path / "in", *arguments)
        assert code == 2
        assert part in err
    assert os.listdir(tmp_path) == ["in"]


def test_records_of_their_own(tmp_path, capsys):
    make_files(tmp_path / "in", 3)
    code, _, err = mrec(
        capsys, tmp_path / "in", "-o", tmp_path / "out", "--as", "records", "--units", "metal", "--workers", 1
    )
    assert code == 0
    assert "3 records" in err
    with molrec_convert.open(tmp_path / "out" / "c00001.mrec") as record:
        assert record.units == {"preset": "metal"}


def test_a_list_on_standard_input_and_a_report(tmp_path):
    files = make_files(tmp_path / "in", 5)
    listed = "".join(f"{path}\n" for path in sorted(files.iterdir())[1:4])
    command = [sys.executable, "-m", "molrec_convert.cli", "migrate", "-", "-o", str(tmp_path / "a.mrec.lmdb")]
    command += ["--units", "metal", "--report", str(tmp_path / "report.json"), "--workers", "2"]
    done = subprocess.run(command, input=listed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["converted"][0]["name"] == "species"
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        assert collection.index["source"].tolist() == listed.split()


CHILD = """
import resource, sys
from molrec_convert.cli import run
if __name__ == "__main__":
    code = run(sys.argv[1:])
    try:
        # what getrusage says counts the process this one was forked from
        own = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    except OSError:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(code, own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_follow_the_inputs(tmp_path):
    """The peaks of the writer and of the largest worker with 12 times the bytes."""
    (tmp_path / "child.py").write_text(CHILD)
    peaks = []
    for number, frames in enumerate((2_000, 24_000)):
        text = extxyz(1, frames=500, atoms=100)
        with (tmp_path / f"{number}.extxyz").open("w") as file:
            for _ in range(frames // 500):
                file.write(text)
        command = [sys.executable, str(tmp_path / "child.py"), "migrate", str(tmp_path / f"{number}.extxyz")]
        command += ["-o", str(tmp_path / f"{number}.mrec.lmdb"), "--units", "metal", "--workers", "2"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        code, *sizes = map(int, done.stdout.split())
        assert code == 0
        peaks.append(max(sizes) / 1024)
    assert peaks[1] < 500
    assert peaks[1] - peaks[0] < 150


@pytest.mark.parametrize("flag", ["--report", "--html", "--png"])
def test_what_others_have_written_is_not_written_over(tmp_path, capsys, flag):
    make_files(tmp_path / "in", 2)
    target, other = tmp_path / "a.mrec.lmdb", tmp_path / "in" / "c00000.extxyz"
    migrate = ["migrate", str(tmp_path / "in"), "-o", str(target), "--units", "metal", "--workers", "1"]
    assert run(migrate) == 0
    command = migrate if flag == "--report" else ["stats", str(target)]
    for kept in (other, target):
        before = kept.read_bytes()
        assert run([*command, flag, str(kept)]) == 2
        assert kept.read_bytes() == before
        assert "name another file" in capsys.readouterr().err
    if flag != "--png":
        for _ in range(2):
            assert run([*command, flag, str(tmp_path / "own")]) == 0


def test_names_that_fit_nothing_are_told(tmp_path, capsys):
    make_files(tmp_path / "in", 2)
    options = ["--drop", "tpyo", "--rename", "nrg=energy", "--fill", "ep=NaN", "--fill", "energy=0", "--drop", "fx"]
    code, _, err = mrec(capsys, tmp_path / "in", "-o", tmp_path / "a.mrec.lmdb", "--units", "metal", *options)
    assert code == 0
    told = [line for line in err.splitlines() if "fits no key, column or block of the frames" in line]
    assert [line.split(" fits")[0].split(": ")[-1] for line in told] == ["--rename nrg", "--drop tpyo", "--fill ep"]


def test_a_declaration_that_is_none_is_told(tmp_path, capsys):
    make_files(tmp_path / "in", 2)
    (tmp_path / "d.json").write_text('{"units": {"length": "angstrom"}}')
    code, _, err = mrec(capsys, tmp_path / "in", "-o", tmp_path / "a.mrec.lmdb", "--declaration", tmp_path / "d.json")
    assert (code, err) == (2, f"mrec: {tmp_path}/d.json holds no declaration: it names no blocks and no meta\n")
