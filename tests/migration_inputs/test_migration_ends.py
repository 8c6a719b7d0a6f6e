"""What ends a migration other than a kill: a full disk, an interrupt from the keyboard, errors of whoever calls."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from migration_inputs import make_files, run, same_collection

from molrec_convert import cli
from molrec_convert.stores.lmdb.file import store
from molrec_convert.stores.lmdb.file.store import StoreFile


class Failing:
    """`StoreFile.complete` that fails with an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, file: StoreFile) -> None:
        raise self.error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()], ids=["full", "interrupt"])
@pytest.mark.parametrize("shards", [None, 3])
def test_failed_in_the_last_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, shards: int | None
) -> None:
    """What is there stays, to go on from; nothing is taken for complete, least of all what it was added to."""
    source, target = make_files(tmp_path / "in", 5), tmp_path / "a.mrec.lmdb"
    failing = Failing(error)
    for count in (5, 8):
        make_files(source, count)
        with monkeypatch.context() as patched:
            patched.setattr(StoreFile, "complete", lambda file: failing(file))
            with pytest.raises(type(error)):
                run([source], target, shard_records=shards)
        assert (tmp_path / ".a.mrec.lmdb.partial").exists()
        assert run([source], target, shard_records=shards).records == count
        again = run([source], target, shard_records=shards)
        assert (again.known, again.records) == (count, count)
    run([source], tmp_path / "b.mrec.lmdb")
    assert shards or same_collection(target, tmp_path / "b.mrec.lmdb")
    assert cli.run(["verify", str(target), "--against", str(source)]) == 0
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_full_disks_have_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB says of a write that was cut short that there was an error of input or output."""
    file = StoreFile(tmp_path / "a.mrec.lmdb")
    error = RuntimeError("mdb_txn_commit: Input/output error")
    assert file._system_error(error).errno == errno.EIO
    monkeypatch.setattr(store, "_free_bytes", lambda folder: 100)
    assert file._system_error(error).errno == errno.ENOSPC
    file.discard()


WAITING = """
import os, signal, time
from molrec_convert.migration.pool import ignore_sigint
# a command started in the background may be one that ignores it
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with ignore_sigint():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        print("reached")
    time.sleep(10)
except KeyboardInterrupt:
    print("raised")
"""


def test_interrupts_wait() -> None:
    """One that comes meanwhile is raised afterwards."""
    # in a process of its own: of the threads of this one any might take the signal, and late
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["reached", "raised"]), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.2, 0.6])
def test_interrupted_from_the_keyboard(tmp_path: Path, seconds: float) -> None:
    """Every process gets it, as in a terminal: one line is said, and the same command goes on."""
    source, target = make_files(tmp_path / "in", 400), tmp_path / "a.mrec.lmdb"
    command = [sys.executable, "-m", "molrec_convert.cli", "migrate", source, "-o", target, "--units", "metal"]
    child = subprocess.Popen(
        [*command, "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    end = time.monotonic() + 300
    while not (tmp_path / ".a.mrec.lmdb.migration").exists() and child.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(seconds)
    ended = child.poll() is not None
    if not ended:
        os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=300)
    if not ended and child.returncode != 0:
        assert said == f"mrec: interrupted, {target} is not complete; the same command continues from here\n"
        assert child.returncode == 130
    run([source], target)
    run([source], tmp_path / "b.mrec.lmdb")
    assert same_collection(target, tmp_path / "b.mrec.lmdb")
