"""Bad input at the command line: one sentence, the right exit code, and a target that is as it was."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import molrec_convert
from molrec_convert.cli import run

ATOMS = 4


def frame(step: int, *, rows: int = ATOMS, stated: int = ATOMS, **lines: str) -> str:
    """One frame of a text dump; `lines` replaces the line of some atom (`a2="2 1 0 0 0"`)."""
    atoms = [lines.get(f"a{n}", f"{n} 1 {n}.5 0.25 {step}.125") for n in range(1, rows + 1)]
    head = f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{stated}\nITEM: BOX BOUNDS pp pp pp\n"
    return head + "0 10\n0 10\n0 10\n" + "ITEM: ATOMS id type x y z\n" + "\n".join(atoms) + "\n"


GOOD = [frame(step) for step in (0, 10, 20, 30)]


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., Path]:
    def write(*frames: str, name: str = "run.lammpstrj") -> Path:
        path = tmp_path / name
        path.write_text("".join(frames))
        return path

    return write


def check_sentence(text: str) -> str:
    last = text.strip().splitlines()[-1]
    assert last.startswith("mrec: "), text
    assert not last.endswith("."), text
    assert "Traceback" not in text
    assert "please report" not in text
    return last


def left_beside(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


BAD = {
    "short frame in the middle": ([GOOD[0], frame(10, rows=3), GOOD[2]], ("line",)),
    "long frame in the middle": ([GOOD[0], frame(10, rows=5), GOOD[2]], ("line",)),
    "wrong count": ([GOOD[0], frame(10, stated=3), GOOD[2]], ("line",)),
    "count that is no number": ([GOOD[0], frame(10).replace("ATOMS\n4", "ATOMS\nfour", 1)], ("line 17", "four")),
    "NaN text": ([GOOD[0], frame(10, a2="2 1 1.0 zap 0.0"), GOOD[2]], ("line", "zap")),
    "overflowing id": ([GOOD[0], frame(10, a2=f"{2**70} 1 1.0 0.0 0.0"), GOOD[2]], ("line", str(2**70))),
    "fraction of an id": ([GOOD[0], frame(10, a2="2.5 1 1.0 0.0 0.0"), GOOD[2]], ("line", "2.5")),
    "missing column": ([GOOD[0], frame(10, a2="2 1 1.0 0.0"), GOOD[2]], ("line",)),
    "duplicate ids": ([GOOD[0], frame(10, a2="1 1 1.0 0.0 0.0"), GOOD[2]], ("id 1",)),
    "steps that go back": ([GOOD[2], GOOD[0]], ("line", "--steps index")),
    "bounds that are no numbers": ([GOOD[0], frame(10).replace("0 10\n", "0 wide\n", 1), GOOD[2]], ("line", "wide")),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_nothing_is_written(source: Any, tmp_path: Path, capsys: Any, name: str) -> None:
    frames, words = BAD[name]
    dump, target = source(*frames), tmp_path / "run.mrec"
    assert run(["convert", str(dump), str(target)]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    last = check_sentence(err)
    assert str(dump) in last
    for word in words:
        assert word in last
    assert left_beside(tmp_path) == {dump.name}


@pytest.mark.parametrize("name", ["short frame in the middle", "NaN text", "duplicate ids"])
def test_an_earlier_target_is_untouched(source: Any, tmp_path: Path, capsys: Any, name: str) -> None:
    target = tmp_path / "run.mrec"
    assert run(["convert", str(source(*GOOD)), str(target)]) == 0
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert run(["convert", str(source(*BAD[name][0])), str(target), "--overwrite"]) == 1
    check_sentence(capsys.readouterr().err)
    assert {path: path.read_bytes() for path in target.rglob("*") if path.is_file()} == before
    assert left_beside(tmp_path) == {"run.lammpstrj", "run.mrec"}


@pytest.mark.parametrize("kept", [60, 120, 150])
def test_a_cut_last_frame(source: Any, tmp_path: Path, capsys: Any, kept: int) -> None:
    dump, target = source(*GOOD[:3], GOOD[3][:kept]), tmp_path / "run.mrec"
    assert run(["convert", str(dump), str(target)]) == 1
    err = capsys.readouterr().err
    last = check_sentence(err)
    assert "--allow-truncated" in last
    assert any(line.startswith("cut off: ") and "line" in line for line in err.splitlines())
    with molrec_convert.open(target) as record:
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 10, 20]
    assert run(["convert", str(dump), str(target), "--overwrite", "--allow-truncated"]) == 0
    shutil.rmtree(target)
    assert run(["convert", str(dump), str(target), "--strict"]) == 3
    check_sentence(capsys.readouterr().err)
    assert left_beside(tmp_path) == {dump.name}


def test_a_cut_last_frame_is_told_to_whoever_looks(source: Any, capsys: Any) -> None:
    dump = source(*GOOD[:3], GOOD[3][:-10])
    for command in (["info", str(dump)], ["diff", str(dump), str(dump)]):
        assert run(command) == 0
        assert capsys.readouterr().err.startswith(f"cut off: {dump}, line ")


@pytest.mark.parametrize(
    ("content", "name"),
    [(b"hello world\n", "run.txt"), (os.urandom(4096), "run.bin"), (b"", "run.nothing"), (b"x" * 10**6, "run.x")],
)
def test_not_a_simulation_file(tmp_path: Path, capsys: Any, content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert run(["convert", str(path), str(tmp_path / "run.mrec")]) == 1
    last = check_sentence(capsys.readouterr().err)
    assert str(path) in last
    assert "--from" in last
    assert left_beside(tmp_path) == {name}


@pytest.mark.parametrize("content", [b"hello world\n", b"", b"\x00" * 100, b"ITEM: TIMESTEP\n"])
@pytest.mark.parametrize("name", ["lammps-dump", "lammps-data", "mrec", "mrec-zip"])
def test_a_file_of_another_format(tmp_path: Path, capsys: Any, content: bytes, name: str) -> None:
    path = tmp_path / "run.bin"
    path.write_bytes(content)
    assert run(["convert", str(path), str(tmp_path / "run.mrec"), "--from", name]) in (1, 2)
    check_sentence(capsys.readouterr().err)
    assert left_beside(tmp_path) == {"run.bin"}


@pytest.mark.parametrize("target", ["run/run.lammpstrj", "run", ".", "run/../run", "other"])
def test_overwrite_removes_no_source_and_no_folder_of_other_files(
    source: Any, tmp_path: Path, capsys: Any, target: str
) -> None:
    for name in ("run", "other"):
        (tmp_path / name).mkdir()
    dump = source(*GOOD, name="run/run.lammpstrj")
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    assert run(["convert", str(dump), str(tmp_path / target), "--to", "mrec", "--overwrite"]) == 2
    check_sentence(capsys.readouterr().err)
    assert dump.read_text() == "".join(GOOD)
    assert (tmp_path / "other" / "thesis.txt").read_text() == "mine"
    assert left_beside(tmp_path) == {"run", "other"}


def test_an_unwritable_target(source: Any, tmp_path: Path, capsys: Any) -> None:
    if os.geteuid() == 0:
        folder = Path("/sys/kernel")  # where even root may not make a file
    else:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o555)
    assert run(["convert", str(source(*GOOD)), str(folder / "run.mrec")]) == 1
    last = check_sentence(capsys.readouterr().err)
    assert str(folder) in last


def mrec(folder: Path, *arguments: str, prepare: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from molrec_convert.cli import main; main()", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, preexec_fn=prepare, check=False
    )


def test_files_that_may_not_grow(source: Any, tmp_path: Path) -> None:
    """A quota stops the writer in the middle of a file."""
    dump = source(*(frame(step) for step in range(4000)))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    done = mrec(tmp_path, "convert", dump.name, "run.mrec", prepare=limit)
    assert done.returncode == 1
    assert "file too large" in check_sentence(done.stderr)
    assert not (tmp_path / "run.mrec").exists()


def test_a_full_disk(source: Any, tmp_path: Path) -> None:
    """A file system of 1 MiB, mounted in a namespace of our own."""
    dump = source(*(frame(step) for step in range(8000)))
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=1m tmpfs {disk}"
    unshare = ["unshare", "--mount", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a file system in a namespace")
    code = f"'{sys.executable}' -c 'from molrec_convert.cli import main; main()'"
    script = f"{mount} && cd {disk} && {code} convert {dump} run.mrec; code=$?; ls; exit $code"
    done = subprocess.run([*unshare, "sh", "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "no space left on device; free some space, then continue with --resume" in check_sentence(done.stderr)
    assert "run.mrec" not in done.stdout.split()


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_is_no_error(source: Any, tmp_path: Path, closed: str) -> None:
    dump = source(*GOOD)
    done = mrec(tmp_path, "convert", dump.name, "run.mrec", prepare=lambda: os.close(1 if closed == "stdout" else 2))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    done = mrec(tmp_path, "info", "run.mrec", prepare=lambda: os.close(1 if closed == "stdout" else 2))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert ("trajectory" in done.stdout) == (closed == "stderr")


def test_too_few_file_handles(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for number in range(40):
        (folder / f"d.{number}.dump").write_text(frame(number))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))

    done = mrec(tmp_path, "convert", "run", "run.mrec", prepare=limit)
    assert done.returncode == 1
    assert "too many open files; raise the limit with 'ulimit -n'" in check_sentence(done.stderr)
    assert left_beside(tmp_path) == {"run"}


def test_a_name_that_is_no_utf_8(tmp_path: Path, capsys: Any) -> None:
    dump = tmp_path / os.fsdecode(b"bad\xff.dump")
    dump.write_text("".join(GOOD))
    report = tmp_path / "r.json"
    assert run(["convert", str(dump), str(tmp_path / "run.mrec"), "--report", str(report)]) == 0
    assert os.fsencode(json.loads(report.read_text())["sources"][0]) == os.fsencode(dump)
    assert run(["info", str(dump), "--json"]) == 0
    dump.write_text("".join([GOOD[0], frame(10, a2="2 1 x 0 0")]))
    assert run(["convert", str(dump), str(tmp_path / "b.mrec")]) == 1
    check_sentence(capsys.readouterr().err)
