"""What stands for inputs of a migration, and what is said of what stands for none."""

from __future__ import annotations

import glob
import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from migration_inputs import extxyz, make_files
from migration_inputs import run as migration

import molrec_convert
from molrec_convert import MolrecError
from molrec_convert.cli import run
from molrec_convert.errors import UsageError
from molrec_convert.files.locking import TargetLock
from molrec_convert.migration import migrate_records
from molrec_convert.migration.inputs.inputs import content_digest, expand_inputs, matches, tree_facts
from molrec_convert.stores.zarr.record_writer import pack

DATA = "made here\n\n1 atoms\n1 atom types\n\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\nAtoms # atomic\n\n1 1 0 0 0\n"


def given(monkeypatch: pytest.MonkeyPatch, data: bytes | None) -> None:
    """What is on standard input; None where that is closed."""
    monkeypatch.setattr(sys, "stdin", None if data is None else io.TextIOWrapper(io.BytesIO(data)))


def test_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path / "in", 3)
    names = sorted(str(path) for path in (tmp_path / "in").iterdir())
    odd = tmp_path / "in" / "a\udcff\x85b.xyz"
    odd.write_text(extxyz(3))
    for text in ("\n".join(names), "\r\n".join([*names, "  ", ""]), "\n".join([*names, *names])):
        given(monkeypatch, text.encode())
        assert expand_inputs(["-"], tmp_path / "out").paths == names
    # a name may have bytes that are no UTF-8, and characters other than "\\n" that end a line
    (tmp_path / "list").write_bytes(bytes(odd) + b"\n")
    assert expand_inputs([f"@{tmp_path}/list"], tmp_path / "out").paths == [str(odd)]
    given(monkeypatch, bytes(odd) + b"\n")
    assert expand_inputs(["-"], tmp_path / "out").paths == [str(odd)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "standard input, which is closed"),
        (b"", "standard input names no path"),
        (b"\n  \n", "standard input names no path"),
        (b"a\0b\0", "standard input is no list of paths, one a line: it has zero bytes in it"),
        (b"nowhere\n", "there is no file or directory nowhere"),
    ],
)
def test_wrong_lists(
    data: bytes | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given(monkeypatch, data)
    assert run(["migrate", "-", "-o", str(tmp_path / "a.mrec.lmdb")]) in (1, 2)
    captured = capsys.readouterr().err
    assert said in captured
    assert captured.count("\n") == 1
    if data is not None and b"nowhere" not in data:
        (tmp_path / "list").write_bytes(data)
        with pytest.raises(MolrecError):
            expand_inputs([f"@{tmp_path}/list"], tmp_path / "out")


def test_many_data_files_are_no_run(tmp_path: Path) -> None:
    """A directory of data files that do not belong together is searched; one of a run is an input."""
    for name in ("a.data", "b.data", "run/c.data"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(DATA)
    (tmp_path / "in" / "run" / "in.melt").write_text("units metal\natom_style atomic\nread_data c.data\nrun 0\n")
    table = expand_inputs([tmp_path / "in"], tmp_path / "out")
    assert [Path(path).name for path in table.paths] == ["a.data", "b.data", "run"]


def test_wrong_places_for_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_files(tmp_path / "in", 2)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "a.bin").write_bytes(b"\xff")
    (tmp_path / "listed.migration.jsonl").write_text('{"of": "something else"}\n')
    for arguments, said in (
        ([source, "-o", tmp_path / "a.mrec.lmdb"], "is the name of a collection"),
        ([source, "-o", source], "where the results are to go"),
        ([source, "-o", source / "c00000.extxyz"], "is no directory"),
        ([source, "-o", tmp_path / "listed"], "is not the list of a migration"),
        ([tmp_path / "none", "-o", tmp_path / "out"], "the only input gave no record, none is of a known format"),
    ):
        assert run(["migrate", "--as", "records", "--workers", "1", *map(str, arguments)]) in (1, 2), said
        captured = capsys.readouterr().err
        assert said in captured
        assert captured.count("\n") == 1


def migrated(*arguments: object) -> int:
    return run(["migrate", "--units", "metal", "--workers", "1", *map(str, arguments)])


def failures(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    return [Path(line["path"]).name for line in lines if line["level"] == "error"]


def test_globs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of the standard library, each path once and in order."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.x", "b.y", ".h.x", "d/a.x", "d/e/a.x", "d/.f/a.x", "d/e/b.x", "g/[c].x", "g/e/new\nline.x"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    patterns = ["*", "*/", "./*", "**", "**/", "**/*.x", "d/**/*.x", "d/**/**/*.x", "*/e/?.x", "[dg]", "d//e/*", ".*"]
    patterns += ["**/e/**/*.x", "nothing/*", "*.z", "d/.*/*", "**/.*/*", "d/../*", "./d/e/*", f"{tmp_path}/**/*.x"]
    for pattern in patterns:
        wanted = {path.rstrip("/") for path in glob.glob(pattern, recursive=True)} - {""}
        assert matches(pattern) == sorted(wanted), pattern
    assert matches("d/**") == ["d/a.x", "d/e", "d/e/a.x", "d/e/b.x"]


@pytest.mark.parametrize("pattern", ["in", "in/**/*.extxyz", "**/*.extxyz"])
def test_links_that_lead_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    """Files are found once however many ways lead in circles; links to elsewhere are followed."""
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path / "in", 1)
    make_files(tmp_path / "in" / "sub", 1, first=1)
    make_files(tmp_path.with_name(f"{tmp_path.name}-far"), 1, first=2)
    for name, target in (("in/again", "."), ("in/sub/up", ".."), ("in/sub/here", "."), ("in/top", "..")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "in" / "far").symlink_to(tmp_path.with_name(f"{tmp_path.name}-far"))
    table = expand_inputs([pattern], tmp_path / "out")
    assert table.paths == ["in/c00000.extxyz", "in/far/c00002.extxyz", "in/sub/c00001.extxyz"]


def test_inputs_that_cannot_be_looked_at(tmp_path: Path) -> None:
    """Links to nowhere and to themselves are inputs at fault, a pipe is not waited for, and the others are migrated."""
    source = make_files(tmp_path / "in", 3)
    (source / "lost.extxyz").symlink_to("nowhere")
    (source / "round.extxyz").symlink_to("round.extxyz")
    os.mkfifo(source / "pipe.extxyz")
    assert migrated(source, "-o", tmp_path / "a.mrec.lmdb") == 4
    assert failures(tmp_path / "a.failures.jsonl") == ["lost.extxyz", "round.extxyz"]
    assert migrated(source / "*", "-o", tmp_path / "b.mrec.lmdb") == 4
    assert failures(tmp_path / "b.failures.jsonl") == ["lost.extxyz", "pipe.extxyz", "round.extxyz"]
    assert run(["migrate", str(source), "-o", str(tmp_path / "c"), "--as", "records", "--workers", "1"]) == 4
    assert failures(tmp_path / "c.failures.jsonl") == ["lost.extxyz", "round.extxyz"]
    assert migrated(source / "pipe.extxyz", "-o", tmp_path / "d.mrec.lmdb") == 1
    # of a list one path may be gone, named alone it is a slip
    (tmp_path / "list").write_text(f"{source}/c00000.extxyz\n{source}/gone.extxyz\n")
    assert migrated(f"@{tmp_path}/list", "-o", tmp_path / "e.mrec.lmdb") == 4
    assert failures(tmp_path / "e.failures.jsonl") == ["gone.extxyz"]
    assert migrated(source, source / "gone.extxyz", "-o", tmp_path / "f.mrec.lmdb") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_inputs_that_may_not_be_read(tmp_path: Path) -> None:
    source = make_files(tmp_path / "in", 3)
    make_files(source / "sub", 1)
    for name in ("c00001.extxyz", "sub"):
        (source / name).chmod(0)
    try:
        assert migrated(source, "-o", tmp_path / "a.mrec.lmdb") == 4
        assert failures(tmp_path / "a.failures.jsonl") == ["c00001.extxyz", "sub"]
    finally:
        (source / "sub").chmod(0o700)


def test_directories_with_links_to_nowhere(tmp_path: Path) -> None:
    """A run whose restart file was swept away is an input like any other."""
    source = tmp_path / "run"
    source.mkdir()
    (source / "c.data").write_text(DATA)
    (source / "in.melt").write_text("units metal\natom_style atomic\nread_data c.data\nrun 0\n")
    (source / "restart").symlink_to("/nowhere/restart")
    os.mkfifo(source / "pipe")
    assert migrated(source, "-o", tmp_path / "a.mrec.lmdb") == 0
    assert migrated(source, "-o", tmp_path / "a.mrec.lmdb") == 0


def test_begun_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What gave no record yet holds nobody up; of what did, the message says what is another."""
    source = make_files(tmp_path / "in", 3)
    target = tmp_path / "a.mrec.lmdb"
    (tmp_path / "empty.extxyz").touch()
    assert migrated(tmp_path / "empty.extxyz", "-o", target) == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert migrated(tmp_path / "empty.extxyz", source, "-o", target) == 4
    target = tmp_path / "b.mrec.lmdb"
    (source / "c00000.extxyz").write_text("3\nbroken\n")
    (source / "c00002.extxyz").write_text("3\nbroken\n")
    stopping = [source, "-o", target, "--on-error", "stop", "--declaration", tmp_path / "a.mrec.lmdb"]
    assert migrated(*stopping) == 1
    (source / "c00000.extxyz").write_text(extxyz(9))
    assert migrated(*stopping) == 1
    (source / "c00009.extxyz").write_text(extxyz(9))
    capsys.readouterr()
    assert migrated(*stopping) == 2
    assert "other inputs than there are now, 3 and not 4" in capsys.readouterr().err
    (source / "c00009.extxyz").unlink()
    (source / "c00001.extxyz").write_text(extxyz(8))
    assert migrated(*stopping) == 2
    assert "c00001.extxyz was changed after its records came into" in capsys.readouterr().err
    assert migrated(*stopping, "--overwrite") == 1
    (source / "c00002.extxyz").write_text(extxyz(7))
    assert migrated(*stopping) == 0


def test_empty_texts_fill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_files(tmp_path / "in", 1)
    make_files(tmp_path / "in", 1, first=1, tag="some")
    assert migrated(tmp_path / "in", "-o", tmp_path / "a.mrec.lmdb", "--fill", "tag=") == 0
    assert migrated(tmp_path / "in", "-o", tmp_path / "b.mrec.lmdb", "--fill", "=1") == 2
    assert "expected NAME=VALUE" in capsys.readouterr().err


def test_the_output_is_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is added to may be named; where it would be replaced its records would be lost."""
    make_files(tmp_path / "in", 2)
    target = tmp_path / "a.mrec.lmdb"
    assert migrated(tmp_path / "in", "-o", target) == 0
    assert migrated(target, tmp_path / "in", "-o", target) == 0
    assert migrated(tmp_path / "*", "-o", target, "--overwrite") == 4
    capsys.readouterr()
    assert migrated(target, tmp_path / "in", "-o", target, "--overwrite") == 2
    assert "is an input, and --overwrite would replace it" in capsys.readouterr().err


DUMP = (
    "ITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n1\nITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\n"
    "ITEM: ATOMS id type x y z\n1 1 1 1 1\n"
)
SCRIPT = "units metal\natom_style atomic\nread_data c.data\nrun 0\n"


def tree(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("other", ["d.extxyz", "below/d.extxyz", "below/d.data", "below/further/in.melt"])
def test_what_may_be_a_run_is_searched_where_other_sources_are(tmp_path: Path, other: str) -> None:
    """A data file and a dump are a run by themselves; with anything else there they would hide it."""
    texts = {"extxyz": "1\n\nH 0 0 0\n", "data": DATA, "melt": SCRIPT}
    folder = tree(tmp_path / "in", **{"c.data": DATA, "c.dump": DUMP, "notes.md": "notes\n", "other/notes.md": "\n"})
    assert expand_inputs([folder], tmp_path / "out").paths == [str(folder)]
    tree(folder, **{other: texts[other.rpartition(".")[2]]})
    found = expand_inputs([folder], tmp_path / "out").paths
    assert {str(folder / "c.data"), str(folder / "c.dump")} <= set(found)
    assert any(str(folder / other).startswith(path) for path in found)


def test_sources_below_a_run_are_inputs_and_files_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tree(tmp_path / "in", **{"in.melt": SCRIPT, "c.data": DATA, "x.extxyz.gz": "", "dumps/a.dump": DUMP})
    tree(folder, **{"r/1/in.melt": SCRIPT, "r/1/c.data": DATA, "r/1/.y.extxyz": "", "r/1/readme": ""})
    (folder / "r" / "up").symlink_to("..")
    table = expand_inputs([tmp_path], tmp_path / "out")
    assert table.paths == [str(folder), str(folder / "r" / "1")]
    assert table.beside == [str(folder / "dumps" / "a.dump"), str(folder / "x.extxyz.gz")]
    told = "2 files are in the directory of a run and no input"
    for more in (["--dry-run"], [], ["--as", "records", "-o", str(tmp_path / "tree")]):
        assert migrated(folder, "-o", tmp_path / "a.mrec.lmdb", *more) == 0
        captured = capsys.readouterr()
        assert told in captured.out + captured.err


def test_records_that_cannot_be_read_are_inputs_at_fault(tmp_path: Path) -> None:
    """Whether that shows where they are opened or at a frame; the others are migrated."""
    source, text = tmp_path / "in", tmp_path / "a.extxyz"
    source.mkdir()
    good = source / "r0.mrec"
    text.write_text(extxyz(1, frames=2, atoms=3), encoding="utf-8")
    molrec_convert.convert(text, good, as_="trajectory")
    for number in (1, 2, 3):
        shutil.copytree(good, source / f"r{number}.mrec")
    (source / "r1.mrec" / "zarr.json").write_text("{", encoding="utf-8")
    (source / "r2.mrec" / "zarr.json").unlink()
    shards = [path for path in (source / "r3.mrec" / "trajectory").rglob("*") if path.name == "0"]
    shards[0].write_bytes(bytes(30))
    pack(good, source / "r4.mrec.zip")
    os.truncate(source / "r4.mrec.zip", 900)
    migration([text], source / "r5.mrec.lmdb")
    os.truncate(source / "r5.mrec.lmdb", 5000)
    (source / "r6.mrec.lmdb").mkdir()
    (source / "r6.mrec.lmdb" / "mrec-set.json").write_text('{"layout": "mrec-lmdb-set", "parts": [', encoding="utf-8")
    (source / "r5.migration.jsonl").unlink()
    outcome = migration([source], tmp_path / "a.mrec.lmdb")
    assert (outcome.records, outcome.failures) == (1, 6)
    names = ["r1.mrec", "r2.mrec", "r3.mrec", "r4.mrec.zip", "r5.mrec.lmdb", "r6.mrec.lmdb"]
    assert failures(tmp_path / "a.failures.jsonl") == names


def test_what_killed_commands_leave_is_no_input(tmp_path: Path) -> None:
    """Hidden names among inputs and within them are passed over; those of migrations go with the next one."""
    source = make_files(tmp_path / "in", 2)
    molrec_convert.convert(source / "c00000.extxyz", source / "r.mrec", as_="trajectory")
    before = tree_facts(str(source / "r.mrec")), content_digest(str(source / "r.mrec"))
    for name in (".x.mrec.123.tmp", ".x.mrec.partial", "r.mrec/.y.lock"):
        (source / name).write_text("left", encoding="utf-8")
    shutil.copytree(source / "r.mrec", source / ".z.mrec.new")
    assert (tree_facts(str(source / "r.mrec")), content_digest(str(source / "r.mrec"))) == before
    target = tmp_path / "a.mrec.lmdb"
    (tmp_path / ".a.mrec.lmdb.migration.gone" / "parts").mkdir(parents=True)
    (tmp_path / ".a.mrec.lmdb.partial").write_text("left", encoding="utf-8")
    outcome = migration([source], target)
    assert (outcome.records, outcome.failures) == (3, 0)
    assert sorted(os.listdir(tmp_path)) == ["a.migration.jsonl", "a.mrec.lmdb", "in"]


def test_a_target_that_is_written_already(tmp_path: Path) -> None:
    """By whatever holds the right to write it; who that is, is told."""
    source, target = make_files(tmp_path / "in", 2), tmp_path / "a.mrec.lmdb"
    for function in (migration, lambda inputs, where: migrate_records([str(each) for each in inputs], where)):
        where = target if function is migration else tmp_path / "out"
        with TargetLock(where), pytest.raises(UsageError, match=r"is being written by this process"):
            function([source], where)
    assert sorted(os.listdir(tmp_path)) == ["in"]
    assert migration([source], target).records == 2
