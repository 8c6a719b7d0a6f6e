"""Files that take another's place in one step: with the guard against failures of the power, and without it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from molrec_convert import disk
from molrec_convert.disk import remove, replace_file, sync_tree, write_all
from molrec_convert.model import BlockDeclaration, BlockUpdates, ColumnDeclaration, Declaration, FrameBatch
from molrec_convert.stores.zarr.trajectory_writer import TrajectoryWriter
from molrec_convert.stores.zarr.unsynced import Unsynced

_DECLARATION = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64")}, rows=4096)})


def _batch(first: int) -> FrameBatch:
    values = np.arange(4096.0) + first
    return FrameBatch(np.array([first]), blocks={"atoms": BlockUpdates.uniform(1, 4096, {"x": values})})


@pytest.mark.parametrize("promised", [True, False])
def test_a_file_is_new_or_takes_the_place_of_another(tmp_path: Path, promised: bool) -> None:
    path = tmp_path / "zarr.json"
    for text in (b"one", b"another", b""):
        replace_file(path, text, durable=False, promised=promised)
        assert path.read_bytes() == text
    assert os.listdir(tmp_path) == ["zarr.json"]


def _no(a: str, b: str) -> bool:
    return False


def _refused(a: str, b: str) -> bool:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM), b)


@pytest.mark.parametrize("swap", [_no, _refused])
def test_where_names_cannot_be_swapped_they_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: Callable[[str, str], bool]
) -> None:
    monkeypatch.setattr(disk, "swap", swap)
    path = tmp_path / "zarr.json"
    for text in (b"one", b"another"):
        replace_file(path, text, durable=False, promised=False)
        assert path.read_bytes() == text
    assert os.listdir(tmp_path) == ["zarr.json"]


def test_a_writer_that_is_killed_between_the_swap_and_the_end_leaves_what_a_reopening_one_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TrajectoryWriter.create(tmp_path / "a.mrec", _DECLARATION, flush_bytes=1) as writer:
        writer.append(_batch(0))
        monkeypatch.setattr(disk.os, "unlink", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            writer.append(_batch(1))
        monkeypatch.undo()
        writer.abandon()
    left = list(tmp_path.rglob("*.tmp"))
    assert left
    with TrajectoryWriter.open(tmp_path / "a.mrec") as writer:
        assert writer.n_frames >= 1
    assert not list(tmp_path.rglob("*.tmp"))


def test_what_a_durable_flush_promised_is_never_swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped: list[str] = []

    def swap(a: str, b: str) -> bool:
        swapped.append(b)
        return False

    monkeypatch.setattr(disk, "swap", swap)
    with TrajectoryWriter.create(tmp_path / "a.mrec", _DECLARATION, flush_bytes=1) as writer:
        writer.append(_batch(0))
        writer.append(_batch(1))
        assert swapped
        writer.flush()
        swapped.clear()
        writer.append(_batch(2))
    with TrajectoryWriter.open(tmp_path / "a.mrec", flush_bytes=1) as writer:
        writer.append(_batch(3))
        writer.append(_batch(4))
    assert not swapped


def test_a_sync_brings_files_and_folders_to_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced = Unsynced(promised=False)
    unsynced.replace(str(tmp_path / "a"), b"1")
    unsynced.replace(str(tmp_path / "a"), b"2")
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))[1])
    unsynced.sync()
    assert sorted(synced) == sorted([str(tmp_path), str(tmp_path / "a")])
    assert unsynced.promised
    assert not unsynced


def test_a_write_that_is_cut_short_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwritev = os.pwritev

    def short(descriptor: int, pieces: list[bytes], offset: int) -> int:
        return pwritev(descriptor, [b"".join(pieces)[:3]], offset)

    monkeypatch.setattr(os, "pwritev", short)
    with open(tmp_path / "a", "wb") as file:
        write_all(file.fileno(), [b"", b"one", b"", memoryview(b"twelve"), b"x", b""], 2)
    assert (tmp_path / "a").read_bytes() == b"\0\0onetwelvex"


def test_a_write_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwritev", lambda *arguments: 0)
    with open(tmp_path / "a", "wb") as file:
        write_all(file.fileno(), [], 0)
        with pytest.raises(OSError, match="took none of the bytes"):
            write_all(file.fileno(), [b"one"], 0)


def test_a_tree_reaches_the_disk_with_every_name_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (top / "a").write_text("1")
    (top / "sub" / "b").write_text("2")
    os.mkfifo(top / "pipe")
    (top / "link").symlink_to(tmp_path)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    sync_tree(top)
    assert sorted(synced) == sorted(map(str, [tmp_path, top, top / "a", top / "sub", top / "sub" / "b"]))
    synced.clear()
    sync_tree(top / "a")
    assert synced == [str(top / "a"), str(top)]
    for path in (top / "a", top / "link", top / "pipe", top, top):
        remove(path)
    assert not os.listdir(tmp_path)
