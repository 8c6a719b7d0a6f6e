"""Two commands with one target: the second is told who writes it, the first is whole; for every kind of target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from collection_stores import contents, points
from collection_stores import write as write_collection
from two_writers import about_to_commit, second_is_refused

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.errors import UsageError
from molrec_convert.stores.lmdb.manifest import MANIFEST

Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with sources of every kind: a record, another one, both packed, and a collection."""
    monkeypatch.chdir(tmp_path)
    molrec_convert.write(points(1, 5), "a.mrec")
    molrec_convert.write(points(2, 3), "b.mrec")
    molrec_convert.write(points(1, 5), "a.mrec.zip")
    molrec_convert.write(points(2, 3), "b.mrec.zip")
    write_collection(tmp_path / "c.mrec.lmdb", map(points, range(6)))
    write_collection(tmp_path / "d.mrec.lmdb", map(points, range(3, 9)))
    yield tmp_path
    assert not [name for name in os.listdir() if name.startswith(".")]


def content(*names: str) -> Files:
    """All files at and below some names; of collections their keys and values, whose pages may have other bytes."""
    found: Files = {}
    for name in names:
        path = Path(name)
        for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
            if file.name.endswith(".lmdb"):
                found.update((f"{file} {key!r}", value) for key, value in contents(file).items())
            elif file.name != MANIFEST:
                found[str(file)] = file.read_bytes()
    return found


#: Commands that write `NAME`, each with the names it makes of that: one, and another for the same names.
COMMANDS: dict[str, tuple[str, str, list[str]]] = {
    "record": ("convert a.mrec t.mrec", "convert b.mrec t.mrec", ["t.mrec"]),
    "zip": ("convert a.mrec t.mrec.zip", "convert b.mrec t.mrec.zip", ["t.mrec.zip"]),
    "pack": ("pack a.mrec t.mrec.zip", "pack b.mrec t.mrec.zip", ["t.mrec.zip"]),
    "unpack": ("unpack a.mrec.zip t.mrec", "unpack b.mrec.zip t.mrec", ["t.mrec"]),
    "pack and convert": ("pack a.mrec t.mrec.zip", "convert b.mrec t.mrec.zip", ["t.mrec.zip"]),
    "unpack and convert": ("unpack a.mrec.zip t.mrec", "convert b.mrec t.mrec", ["t.mrec"]),
    "collection": ("convert c.mrec.lmdb t.mrec.lmdb", "convert d.mrec.lmdb t.mrec.lmdb", ["t.mrec.lmdb"]),
    "set": (
        "convert c.mrec.lmdb t.mrec.lmdb --shard-records 2",
        "convert d.mrec.lmdb t.mrec.lmdb --shard-records 3",
        ["t.mrec.lmdb"],
    ),
    "merge": ("merge c.mrec.lmdb d.mrec.lmdb -o t.mrec.lmdb", "convert d.mrec.lmdb t.mrec.lmdb", ["t.mrec.lmdb"]),
    "manifest": ("merge c.mrec.lmdb -o t.mrec.json", "merge d.mrec.lmdb -o t.mrec.json", ["t.mrec.json"]),
    "select": ("select c.mrec.lmdb n_atoms>0 -o t.mrec.lmdb", "merge d.mrec.lmdb -o t.mrec.lmdb", ["t.mrec.lmdb"]),
    "split": (
        "split c.mrec.lmdb --fractions a=0.5,b=0.5 -o t{}.mrec.lmdb",
        "split d.mrec.lmdb --fractions a=0.5,b=0.5 -o t{}.mrec.lmdb",
        ["ta.mrec.lmdb", "tb.mrec.lmdb"],
    ),
    "page": ("stats c.mrec.lmdb --html t.html", "stats d.mrec.lmdb --html t.html", ["t.html"]),
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_the_second_is_refused_and_the_first_is_whole(kind: str, capfd: Any) -> None:
    first, second, names = COMMANDS[kind]
    assert run(first.split()) == 0
    alone = content(*names)
    assert alone
    for name in names:
        os.rename(name, f"old {name}")
    second_is_refused(first.split(), second.split(), capfd)
    assert content(*names) == alone


@pytest.mark.parametrize("kind", ["record", "unpack", "zip", "collection", "set", "split"])
def test_with_overwrite_the_old_one_stands_until_the_first_is_done(kind: str, capfd: Any) -> None:
    first, second, names = COMMANDS[kind]
    assert run(second.split()) == 0
    old = content(*names)
    with about_to_commit(*first.split(), "--overwrite"):
        assert content(*names) == old
        assert run([*second.split(), "--overwrite"]) == 2
        assert "is being written by process" in capfd.readouterr().err
        assert content(*names) == old
    new = content(*names)
    for name in names:
        os.rename(name, f"old {name}")
    assert run(first.split()) == 0
    assert content(*names) == new


def lengthen(path: str) -> Any:
    """Open a record, or a collection, to append to it."""
    return molrec_convert.append(path)


def log_metrics(path: str) -> Any:
    return molrec_convert.MetricsLog.open(path)


@pytest.mark.parametrize(("path", "opens"), [("a.mrec", lengthen), ("a.mrec", log_metrics), ("c.mrec.lmdb", lengthen)])
def test_what_a_writer_has_open_is_not_overwritten(path: str, opens: Callable[[str], Any], capfd: Any) -> None:
    other = f"{chr(ord(path[0]) + 1)}{path[1:]}"

    def stored() -> Files:
        return {path: Path(path).read_bytes()} if Path(path).is_file() else content(path)

    with opens(path):
        before = stored()
        assert run(["convert", other, path, "--overwrite"]) == 2
        told = "is being written by this process already: complete that first, or name another target"
        assert told in capfd.readouterr().err
        assert stored() == before
    assert run(["convert", other, path, "--overwrite"]) == 0


@pytest.mark.parametrize(("path", "opens"), [("a.mrec", lengthen), ("a.mrec", log_metrics), ("c.mrec.lmdb", lengthen)])
def test_nobody_appends_to_what_is_being_overwritten(path: str, opens: Callable[[str], Any]) -> None:
    other = f"{chr(ord(path[0]) + 1)}{path[1:]}"
    told = f"{path} is being written by process .*: wait for it"
    with about_to_commit("convert", other, path, "--overwrite"), pytest.raises(UsageError, match=told):
        opens(path)
    with molrec_convert.open(path) as new, molrec_convert.open(other) as wanted:
        assert len(getattr(new, "trajectory", new)) == len(getattr(wanted, "trajectory", wanted))
    with opens(path):
        pass


def test_a_record_that_is_packed_is_not_overwritten_meanwhile(capfd: Any) -> None:
    with about_to_commit("pack", "a.mrec", "t.mrec.zip") as child:
        capfd.readouterr()
        assert run(["convert", "b.mrec", "a.mrec", "--overwrite"]) == 2
        assert f"a.mrec is being read by process {child} on" in capfd.readouterr().err
    assert run(["validate", "t.mrec.zip"]) == 0


def test_a_report_goes_to_where_a_link_leads(capfd: Any) -> None:
    os.symlink("real.json", "r.json")
    Path("real.json").touch()
    number = Path("real.json").stat().st_ino
    assert run(["convert", "a.mrec", "t.mrec", "--report", "r.json"]) == 0
    assert Path("r.json").is_symlink()
    assert Path("real.json").stat().st_ino == number
    assert Path("real.json").read_text().startswith('{\n  "')


def test_the_report_of_one_is_not_mixed_with_that_of_another(capfd: Any) -> None:
    with about_to_commit("stats", "c.mrec.lmdb", "--html", "r.json"):
        capfd.readouterr()
        assert run(["convert", "a.mrec", "t.mrec", "--report", "r.json"]) == 1
        said = capfd.readouterr().err
        assert "r.json is being written by process" in said
    assert Path("t.mrec").is_dir(), "the conversion is done, and says so"
    assert Path("r.json").read_text().startswith("<!doctype html>")
