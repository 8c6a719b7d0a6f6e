"""Killed at any moment and called again, a migration ends as one that was left alone: equal to the byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from migration_inputs import extxyz, make_files, run, same_collection

from molrec_convert.migration.outputs.output import Output

CHILD = Path(__file__).with_name("migration_child.py")


def started(*arguments: object) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, str(CHILD), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begin\n"
    return child


def kill_when(child: subprocess.Popen[str], done: Callable[[], int], least: int) -> None:
    """Kill a process that waits at its end, once `done` is at least so much; its workers go by themselves."""
    while done() < least:
        assert child.poll() is None, "the process ended by itself"
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert child.stdout is not None
    child.stdout.close()


def inputs(folder: Path) -> Path:
    make_files(folder, 260)
    for number in (17, 203):
        (folder / f"c{number:05d}.extxyz").write_text("3\nbroken\n")
    text = extxyz(7, frames=60, atoms=3)
    (folder / "c00100x.extxyz").write_text(text[: text.rindex("\n", 0, -1)] + "\nH 1 2 x 4 5 6\n")
    (folder / "c00150x.extxyz").write_text(extxyz(8, frames=90))
    (folder / "c00160x.extxyz").write_text(extxyz(8, frames=90))
    return folder


def killed_and_resumed(folder: Path, kills: int, workers: int, seed: int) -> None:
    """Kill a migration so many times, each time with more of its inputs done, then let it end."""
    draw = random.Random(seed)
    target = folder / "killed.mrec.lmdb"
    journal = folder / f".{target.name}.migration" / "journal.jsonl"

    def lines() -> int:
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    inputs = len(os.listdir(folder / "in"))
    for least in sorted(draw.sample(range(inputs * 3 // 4), kills)):
        child = started(target, workers, 1, "collection", 1, folder / "in")
        kill_when(child, lines, least)
    child = started(target, workers, 1, "collection", 0, folder / "in")
    out, _ = child.communicate()
    assert out == "done\n"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_random_moments(tmp_path, workers):
    inputs(tmp_path / "in")
    whole = run([tmp_path / "in"], tmp_path / "whole.mrec.lmdb", dedupe=True)
    assert (whole.failures, whole.duplicates) == (3, 91)
    killed_and_resumed(tmp_path, 6, workers, workers)
    assert same_collection(tmp_path / "whole.mrec.lmdb", tmp_path / "killed.mrec.lmdb")
    assert (tmp_path / "whole.failures.jsonl").read_bytes() == (tmp_path / "killed.failures.jsonl").read_bytes()
    assert (tmp_path / "whole.migration.jsonl").read_bytes() == (tmp_path / "killed.migration.jsonl").read_bytes()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "kills"), [(1, 8), (2, 20)])
def test_killed_at_twenty_random_moments(tmp_path, workers, kills):
    inputs(tmp_path / "in")
    run([tmp_path / "in"], tmp_path / "whole.mrec.lmdb", dedupe=True)
    killed_and_resumed(tmp_path, kills, workers, 100 + workers)
    assert same_collection(tmp_path / "whole.mrec.lmdb", tmp_path / "killed.mrec.lmdb")


@pytest.mark.slow
def test_formats_and_rows_killed_at_random_moments(tmp_path):
    """The proof at a small size: four formats and a database, all processes killed at once."""
    pytest.importorskip("ase")
    script = Path(__file__).parents[2] / "benchmarks" / "damage" / "migration_proof.py"
    sizes = ["--files", "400", "--rows", "300", "--kills", "12"]
    done = subprocess.run([sys.executable, script, tmp_path, *sizes], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal, all keys and values" in done.stdout
    assert "NOT EQUAL" not in done.stdout
    peak = float(done.stdout.split("memory at most ")[1].split()[0])
    assert peak < 500


class Stop(BaseException):
    """The process ends here, as far as the files are concerned."""


@pytest.mark.parametrize(("settings", "least"), [({}, 8), ({"rename": {"pe": "free_energy"}}, 20)])
def test_ended_after_any_event(tmp_path, monkeypatch, settings, least):
    """The same within one process, at every event and commit there is; records that are changed come one by one."""
    make_files(tmp_path / "in", 6)
    (tmp_path / "in" / "c00002.extxyz").write_text("3\nbroken\n")
    text = extxyz(7, frames=6, atoms=3)
    (tmp_path / "in" / "c00003.extxyz").write_text(text[: text.rindex("\n", 0, -1)] + "\nH 1 2 x 4 5 6\n")
    (tmp_path / "in" / "c00004.extxyz").write_text(extxyz(4, frames=5))
    run([tmp_path / "in"], tmp_path / "whole.mrec.lmdb", **settings)
    take, commit = Output.take, Output.commit
    left = 0

    def counted(method):
        def replaced(self, *arguments):
            nonlocal left
            left -= 1
            if left == 0:
                raise Stop
            method(self, *arguments)
            self.commit_when_due()

        return replaced

    monkeypatch.setattr(Output, "take", counted(take))
    stops = 0
    for number in range(1, 60):
        left = number
        target = tmp_path / f"t{number}.mrec.lmdb"
        try:
            run([tmp_path / "in"], target, commit_seconds=0.0, **settings)
        except Stop:
            stops += 1
            left = 0
            assert not target.exists()
            run([tmp_path / "in"], target, commit_seconds=0.0, **settings)
        else:
            break
        assert same_collection(tmp_path / "whole.mrec.lmdb", target)
        target.unlink()
    assert commit is Output.commit
    assert stops > least


def test_ended_between_the_names(tmp_path, monkeypatch):
    """The collection has its name, what lies beside it has not."""
    from molrec_convert.migration.state import State

    make_files(tmp_path / "in", 4)
    (tmp_path / "in" / "c00002.extxyz").write_text("3\nbroken\n")
    run([tmp_path / "in"], tmp_path / "whole.mrec.lmdb")

    def stopped(self):
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(State, "leave", stopped)
        with pytest.raises(Stop):
            run([tmp_path / "in"], tmp_path / "a.mrec.lmdb")
    assert (tmp_path / "a.mrec.lmdb").exists()
    again = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb")
    assert again.known == 3
    assert same_collection(tmp_path / "whole.mrec.lmdb", tmp_path / "a.mrec.lmdb")
    assert (tmp_path / "whole.migration.jsonl").read_bytes() == (tmp_path / "a.migration.jsonl").read_bytes()
