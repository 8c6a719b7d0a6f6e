"""The right to write under a name: who has it, who is refused and what is told, and when it ends."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from molrec_convert.errors import UsageError
from molrec_convert.files import locking
from molrec_convert.files.locking import PathLock, TargetLock

_PIPE = subprocess.PIPE
_HOLDING = """
import sys
from molrec_convert.files.locking import PathLock, TargetLock
held = {kind}({path!r})
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def _held_elsewhere(path: Path, kind: str = "TargetLock") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lock until the context is left, or it is killed in it."""
    code = _HOLDING.format(kind=kind, path=os.fspath(path))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
        child.communicate("\n")


def test_a_lock_is_beside_its_target_while_it_is_held(tmp_path: Path) -> None:
    with TargetLock(tmp_path / "a.mrec"):
        assert os.listdir(tmp_path) == [".a.mrec.lock"]
        told = json.loads((tmp_path / ".a.mrec.lock").read_text())
        assert told["pid"] == os.getpid()
        assert set(told) == {"pid", "host", "command", "since"}
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("kind", ["nothing", "file", "directory"])
def test_one_who_writes_under_a_name_is_told_who_does_already(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    if kind == "file":
        target.write_text("old")
    elif kind == "directory":
        target.mkdir()
    with _held_elsewhere(target) as child:
        host = re.escape(os.uname().nodename)
        told = (
            rf"^{re.escape(str(target))} is being written by process {child.pid} on {host} \(-c, since \d\d:\d\d:\d\d\)"
        )
        with pytest.raises(UsageError, match=rf"{told}: wait for it, or name another target$"):
            TargetLock(target)
    TargetLock(target).release()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".lock")]


def test_one_who_alters_what_is_there_and_one_who_replaces_it_keep_each_other_out(tmp_path: Path) -> None:
    target = tmp_path / "out.mrec"
    target.mkdir()
    with _held_elsewhere(target, "PathLock") as child:
        with pytest.raises(UsageError, match=rf"is being written by process {child.pid} on .*PathLock.*: wait for it"):
            TargetLock(target)
        assert os.listdir(tmp_path) == ["out.mrec"]
    with _held_elsewhere(target) as child, pytest.raises(UsageError, match=rf"is being written by process {child.pid}"):
        PathLock(target)
    PathLock(target).release()


def test_a_process_is_told_of_its_own_lock(tmp_path: Path) -> None:
    told = r"a is being written by this process already: complete that first, or name another target$"
    with TargetLock(tmp_path / "a"), pytest.raises(UsageError, match=told):
        TargetLock(tmp_path / "a")
    (tmp_path / "a").write_text("")
    held = PathLock(tmp_path / "a")
    with pytest.raises(UsageError, match=told):
        TargetLock(tmp_path / "a")
    held.release()
    held.release()


def test_who_only_reads_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    descriptor = os.open(tmp_path / "a", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    with pytest.raises(UsageError, match="a is being read by this process"):
        TargetLock(tmp_path / "a")
    os.close(descriptor)


def test_the_lock_of_a_killed_process_is_none(tmp_path: Path) -> None:
    with _held_elsewhere(tmp_path / "a") as child:
        child.kill()
        child.wait()
        left = json.loads((tmp_path / ".a.lock").read_text())
        assert left["pid"] == child.pid
        with TargetLock(tmp_path / "a"):
            assert json.loads((tmp_path / ".a.lock").read_text())["pid"] == os.getpid()
    assert not os.listdir(tmp_path)


def test_a_child_that_is_forked_off_does_not_hold_on(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    lock = TargetLock(tmp_path / "a")
    child = os.fork()
    if not child:
        os.close(theirs)
        lock.release()  # of its parent, whose file stays
        os.read(ours, 1)
        os._exit(0)
    os.close(ours)
    try:
        with pytest.raises(UsageError, match="this process"):
            TargetLock(tmp_path / "a")
        assert os.listdir(tmp_path) == [".a.lock"]
        lock.release()
        TargetLock(tmp_path / "a").release()
    finally:
        os.close(theirs)
        assert os.waitpid(child, 0)[1] == 0


def test_nobody_is_told_of_a_process_that_left_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between having a lock and saying so the file has the words of the one before, or none."""
    path = tmp_path / ".a.lock"
    for text in ("", "{", json.dumps({"pid": 1, "host": "elsewhere", "command": "x", "since": "2020-01-01T00:00:00"})):
        path.write_text(text)
        held = PathLock(path)
        with pytest.raises(UsageError, match="a is being written by this process already"):
            TargetLock(tmp_path / "a")
        held.release()
    monkeypatch.setattr(locking, "_locking_process", lambda status: (None, "written"))
    held = PathLock(path)
    told = r"a is being written by process 1 on elsewhere \(x, since 2020-01-01 00:00:00\): wait"
    with pytest.raises(UsageError, match=told):
        TargetLock(tmp_path / "a")
    path.write_text("")
    with pytest.raises(UsageError, match="a is being written by another process: wait"):
        TargetLock(tmp_path / "a")
    held.release()


def test_a_command_is_told_as_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/mrec", "convert", "a b\x1b[31m", "x" * 300])
    with TargetLock(tmp_path / "a"):
        command = json.loads((tmp_path / ".a.lock").read_text())["command"]
    assert command.startswith("mrec convert 'a b?[31m' xxx")
    assert len(command) == 200


def test_a_file_system_without_locks_lets_everybody_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", flock)
    with TargetLock(tmp_path / "a"), TargetLock(tmp_path / "a"):
        pass
    assert not os.listdir(tmp_path)


def test_a_file_that_was_replaced_while_it_was_locked_is_locked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".a.lock"
    flock, calls = fcntl.flock, []

    def replaced(descriptor: int, how: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            path.unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with TargetLock(tmp_path / "a"):
        assert path.exists()
    assert len(calls) == 2


def test_what_a_link_leads_to_is_not_what_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.mrec").mkdir()
    (tmp_path / "link").symlink_to("a.mrec")
    held = PathLock(tmp_path / "link")
    TargetLock(tmp_path / "link").release()
    with pytest.raises(UsageError, match="is being written"):
        TargetLock(tmp_path / "a.mrec")
    held.release()


def test_a_place_where_nothing_can_be_made_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"^cannot write {tmp_path}/no/a: there is no directory {tmp_path}/no$"):
        TargetLock(tmp_path / "no" / "a")
    with pytest.raises(UsageError, match="its name is too long"):
        TargetLock(tmp_path / ("a" * 254))
    with pytest.raises(FileNotFoundError):
        PathLock(tmp_path / "a")


def test_a_folder_that_takes_no_file_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refused(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied", path)
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refused)
    told = r"the folder takes no new file, and a result is made beside its name \(Permission denied\): '\S+'$"
    with pytest.raises(PermissionError, match=told):
        TargetLock(tmp_path / "a")
