"""A disk that is full, in truth and by a limit: one sentence, the old target intact, a later run succeeds."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import molrec_convert
from crashes import inputs
from molrec_convert import Frame, MemoryTrajectory
from molrec_convert.files.disk import write_all

_MREC = [sys.executable, "-m", "molrec_convert.cli"]

#: Targets of every kind, with what the command needs beside them.
TARGETS = {
    "out.mrec": ["--units", "metal"],
    "out.mrec.lmdb": ["--units", "metal"],
    "out.db": ["--elements", "C,H"],
    "out.lammpstrj": [],
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if mount is None or os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only the system's administrator can make a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def convert(source: Path, target: Path, *options: str, most: int | None = None) -> subprocess.CompletedProcess[str]:
    """Convert in a process of its own, whose files may have so many bytes at most."""

    def limit() -> None:
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    command = [*_MREC, "convert", str(source), str(target), *options]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)


def check_refused(ran: subprocess.CompletedProcess[str], target: Path, words: str = "free some space") -> None:
    assert ran.returncode == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    assert "please report it" not in ran.stderr
    sentence = ran.stderr.strip().splitlines()[-1].lower()
    assert sentence.startswith("mrec: ")
    assert target.name in sentence
    assert words in sentence


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_disk_without_room(small_disk, tmp_path, name):
    source, target, options = tmp_path / "a.lammpstrj", small_disk / name, TARGETS[name]
    source.write_text(inputs.dump(400, 250))
    check_refused(convert(source, target, *options), target)
    assert not target.exists()
    # what there was before stays
    source.write_text(inputs.dump(1, 2))
    assert convert(source, target, *options, "--overwrite").returncode == 0
    before = {path: path.read_bytes() for path in [target, *target.rglob("*")] if path.is_file()}
    source.write_text(inputs.dump(400, 250))
    check_refused(convert(source, target, *options, "--overwrite"), target)
    assert {path: path.read_bytes() for path in before} == before
    # and with room it succeeds
    source.write_text(inputs.dump(2, 2))
    assert convert(source, target, *options, "--overwrite").returncode == 0
    assert os.listdir(small_disk) == [name]


@pytest.mark.parametrize("name", ["out.mrec", "out.db"])
def test_files_that_may_not_grow(tmp_path, name):
    source, target = tmp_path / "a.lammpstrj", tmp_path / name
    source.write_text(inputs.dump(40, 60))
    ran = convert(source, target, *TARGETS[name], most=16_000)
    check_refused(ran, target, "ulimit -f" if name == "out.mrec" else "cannot be written")
    assert not target.exists()
    assert convert(source, target, *TARGETS[name]).returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["a.lammpstrj", name]


def test_writes_that_are_short_are_gone_on_with(tmp_path, monkeypatch):
    whole = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda file, parts, offset: whole(file, [bytes(parts[0][:3])], offset))
    frames = [Frame({"atoms": inputs.frame(i)["atoms"]}, step=i) for i in range(3)]
    molrec_convert.write(molrec_convert.Record(trajectory=MemoryTrajectory(frames)), tmp_path / "a.mrec")
    monkeypatch.undo()
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert record.trajectory is not None
        assert record.trajectory[2]["atoms"]["x"].tolist() == frames[2]["atoms"]["x"].tolist()


def test_a_write_that_does_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwritev", lambda file, parts, offset: 0)
    with open(tmp_path / "a", "wb") as file, pytest.raises(OSError, match="took none"):
        write_all(file.fileno(), [b"abc"], 0)


def test_a_writer_that_fails_names_its_record(tmp_path, monkeypatch):
    inputs.record(tmp_path / "a.mrec", 3)
    writer = molrec_convert.append(tmp_path / "a.mrec")
    writer.append_frame(inputs.frame(3))

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"a\.mrec"):
        writer.flush()
    monkeypatch.undo()
    writer.abandon()
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert len(record.trajectory or ()) == 3
