"""A process that is killed at any file operation while something takes the place of something else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from collection_stores import points

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.files import disk
from molrec_convert.files.staging import Staging, is_started, replacing

#: Operations that change what is there.
_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do some work in a child process that is killed before its change number `step`; False where it had fewer."""
    child = os.fork()
    if not child:
        changes = 0

        def change(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal changes
            if event in _CHANGES or (event == "open" and arguments[2] & _WRITING):
                if changes == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                changes += 1

        swap = disk.swap
        disk.swap = lambda a, b: (change("os.rename", (a, b)), swap(a, b))[1]
        sys.addaudithook(change)
        code = 1
        try:
            code = int(bool(work()))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


def kills(work: Callable[[], object], every: int = 1) -> Iterator[int]:
    """Yield the number of each change at which the work was killed; the caller brings about what it begins from."""
    step = 0
    while killed_at(step, work):
        yield step
        step += every


def make(path: Path, kind: str, text: str) -> None:
    if kind == "file":
        path.write_text(text)
    elif kind == "directory":
        path.mkdir()
        for name in ("zarr.json", "content"):
            (path / name).write_text(text)


def held(path: Path) -> str | None:
    """Return the text of what `make` made, all of it; None where there is nothing."""
    if path.is_file():
        return path.read_text()
    if not path.exists():
        return None
    texts = {(path / name).read_text() for name in ("zarr.json", "content")}
    assert len(texts) == 1
    return texts.pop()


@pytest.mark.parametrize("in_one_step", [True, False])
@pytest.mark.parametrize("new", ["file", "directory"])
@pytest.mark.parametrize("old", ["nothing", "file", "directory"])
def test_the_old_one_stands_until_the_new_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, in_one_step: bool
) -> None:
    if not in_one_step:
        monkeypatch.setattr(disk, "_renameat2", lambda: None)
    target = tmp_path / "t"

    def replace() -> None:
        with replacing(target, overwrite=True) as made:
            make(made, new, "new")

    before = None if old == "nothing" else "old"
    seen = []
    make(target, old, "old")
    for _ in kills(replace):
        # whoever comes next under the name finds the old or the new one
        Staging(target, overwrite=True).release()
        seen.append(held(target))
        assert seen[-1] in (before, "new")
        replace()
        assert held(target) == "new"
        assert os.listdir(tmp_path) == ["t"]
        disk.remove(target)
        make(target, old, "old")
    assert held(target) == "new"
    assert before in seen
    assert ("new" in seen) == (len(seen) > seen.index(before) + seen.count(before))
    assert len(seen) > 5


def test_the_name_is_there_at_any_moment(tmp_path: Path) -> None:
    """Where the system swaps names, for those as well who only read."""
    target = tmp_path / "t"

    def replace() -> None:
        with replacing(target, overwrite=True) as made:
            make(made, "directory", "new")

    make(target, "directory", "old")
    for _ in kills(replace):
        assert held(target) in ("old", "new")
        disk.remove(target)
        make(target, "directory", "old")
    assert held(target) == "new"


def test_what_is_gone_on_from_is_never_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "t"

    def replace() -> None:
        with Staging(target, overwrite=True) as staging:
            staging.begin({"a": 1})
            for name in ("zarr.json", "content"):
                (staging.path / name).write_text("new")
            staging.commit()

    goes_on = []
    make(target, "directory", "old")
    for _ in kills(replace):
        goes_on.append(is_started(target))
        if goes_on[-1]:
            left = tmp_path / ".t.partial"
            assert "old" not in [path.read_text() for path in left.iterdir()]
            assert held(target) == "old"
        disk.remove(target)
        make(target, "directory", "old")
    assert True in goes_on
    assert goes_on[-1] is False


_COMMANDS = {
    "convert": "convert b.mrec t.mrec --overwrite",
    "shorter": "convert c.mrec t.mrec --overwrite",
    "unpack": "unpack b.mrec.zip t.mrec --overwrite",
    "pack": "pack b.mrec t.mrec --overwrite",
    "zip": "convert b.mrec t.mrec --to mrec-zip --overwrite",
}


@pytest.mark.parametrize("every", [23, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", _COMMANDS)
def test_a_command_that_was_killed_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, every: int
) -> None:
    """With --resume and without: the result is that of one that nobody killed, and nothing else is there."""
    monkeypatch.chdir(tmp_path)
    for number, source in enumerate(("a", "b", "c")):
        molrec_convert.write(points(number, (6, 9, 3)[number]), f"{source}.mrec")
    molrec_convert.write(points(1, 9), "b.mrec.zip")
    command = _COMMANDS[name].split()
    wanted = "c.mrec" if name == "shorter" else "b.mrec"
    before = sorted([*os.listdir(), "t.mrec"])

    def begin() -> None:
        disk.remove("t.mrec")
        assert run(["convert", "a.mrec", "t.mrec"]) == 0

    begin()
    for number in kills(lambda: run(command), every):
        assert run(["diff", "t.mrec", "a.mrec"]) == 0 or run(["diff", "t.mrec", wanted]) == 0
        resumed = ["--resume"] if command[0] == "convert" and name != "zip" and number % 2 else []
        assert run([*command, *resumed]) == 0
        assert run(["diff", "t.mrec", wanted]) == 0
        assert sorted(os.listdir()) == before
        begin()
    assert run(["diff", "t.mrec", wanted]) == 0
