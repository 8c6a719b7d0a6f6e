"""Files that take another's place in one step, and the order in which that reaches the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from molrec_convert.files.disk import remove, replace_file, sync_tree, temporary_path, write_all
from molrec_convert.stores.zarr.v3.commit import ARRAYS, COUNT, GROUPS, Unsynced


def _synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are synced from now on."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    return synced


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_new_or_takes_the_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    synced = _synced(monkeypatch)
    path = tmp_path / "zarr.json"
    for text in (b"one", b"another", b""):
        replace_file(path, text, durable=durable)
        assert path.read_bytes() == text
    assert os.listdir(tmp_path) == ["zarr.json"]
    assert synced == ([temporary_path(path), str(tmp_path)] * 3 if durable else [])


def test_a_commit_brings_files_and_folders_to_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unsynced = Unsynced()
    (tmp_path / "data").write_bytes(b"")
    for text in (b"1", b"2"):
        unsynced.file(str(tmp_path / "data"))
        unsynced.document(str(tmp_path / "a"), text, ARRAYS)
    synced = _synced(monkeypatch)
    unsynced.commit()
    assert sorted(synced[:2]) == sorted([str(tmp_path / "data"), temporary_path(tmp_path / "a")])
    assert synced[2:] == [str(tmp_path)]
    assert (tmp_path / "a").read_bytes() == b"2"
    assert not unsynced
    synced.clear()
    unsynced.commit()
    assert synced == []


@pytest.mark.parametrize("ranks", [True, False])
def test_documents_take_their_places_rank_by_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: bool) -> None:
    unsynced = Unsynced()
    for rank, name in ((COUNT, "count"), (ARRAYS, "array"), (GROUPS, "group")):
        (tmp_path / name).mkdir()
        unsynced.document(str(tmp_path / name / "zarr.json"), b"{}", rank)
    there: list[list[str]] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: there.append(sorted(p.parent.name for p in tmp_path.rglob("zarr.json")))
    )
    unsynced.commit(ranks=ranks)
    between = [["array"]] if ranks else [["array", "group"]]
    assert there == [[], [], [], *between, ["array", "group"], ["array", "count", "group"]]


def test_a_commit_that_fails_leaves_no_temporary_file(tmp_path: Path) -> None:
    unsynced = Unsynced()
    unsynced.document(str(tmp_path / "a"), b"1", ARRAYS)
    unsynced.document(str(tmp_path / "gone" / "b"), b"1", ARRAYS)
    with pytest.raises(FileNotFoundError):
        unsynced.commit()
    assert os.listdir(tmp_path) == []


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
