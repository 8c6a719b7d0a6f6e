"""More records for a collection that is complete: equal to one uninterrupted write, safe from kills and full disks."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import POINTS, contents, edit_header, edit_json, key, molecule, points, put, write
from layout_examples.collection import build_conformers, write_conformers

import molrec_convert
from molrec_convert import CollectionWriter, open_collection
from molrec_convert.errors import ContractError, FormatError, MissingInputError, UnsupportedError, UsageError
from molrec_convert.inspect.validation import validate
from molrec_convert.model import ForceField, Record
from molrec_convert.stores.lmdb.file import store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.mrec.lmdb"


def record(number: int, frames: int = 2) -> Record:
    return Record(
        meta={"record_id": f"r{number}"},
        system=molecule("OH", smiles="O" * number),
        trajectory=points(number, frames).trajectory,
    )


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


OPTIONS: dict[str, Any] = {
    "index_columns": {"smiles": "string", "gap": None, "weight": "f64"},
    "forcefield": ForceField.new("f", {"preset": "real"}),
    "document": {"license": "CC0"},
}


@pytest.mark.parametrize("first", [0, 1, 3, 7])
def test_equal_to_one_uninterrupted_write(path: Path, tmp_path: Path, first: int) -> None:
    """Equal keys and equal values, to the byte."""
    records = [record(n, n % 3) for n in range(7)]
    records[5] = Record(system=molecule("O"))
    rows = [{"weight": None if n % 2 else n / 4, "gap": None} for n in range(7)]
    for target, cuts in ((tmp_path / "whole.mrec.lmdb", [0, 7]), (path, [0, first, 7])):
        for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
            opened = (
                CollectionWriter.open(target)
                if number
                else CollectionWriter.create(target, declaration=POINTS, units={"length": "angstrom"}, **OPTIONS)
            )
            with opened as writer:
                assert len(writer) == start
                for n in range(start, stop):
                    assert writer.append(records[n], rows[n]) == n
    assert contents(path) == contents(tmp_path / "whole.mrec.lmdb")
    assert [finding for finding in validate(path) if "error" in str(finding)] == []


def test_appended_one_by_one(path: Path) -> None:
    write(path, [])
    for n in range(12):
        with molrec_convert.append(path) as writer:
            writer.append(points(n))
    with molrec_convert.open(path) as collection:
        assert [r.trajectory[0]["atoms"]["x"][0] for r in collection] == [100.0 * n for n in range(12)]
    assert names(path.parent) == [path.name]


def test_the_page_in_two_sessions(path: Path, tmp_path: Path) -> None:
    first, second = build_conformers()
    molrec_convert.convert(write_conformers(tmp_path / "whole.mrec.lmdb"), path, record=slice(0, 1))
    with CollectionWriter.open(path) as writer:
        writer.append(second)
    assert contents(path) == contents(tmp_path / "whole.mrec.lmdb")
    assert first.meta != second.meta


def test_unknown_content_stays(path: Path) -> None:
    write(path, [record(0)], index_columns=["smiles"])
    put(path, b"later", b"\0\1")
    put(path, b"zz", b"")
    edit_json(path, b"meta", lambda d: d.update(note={"a": [1, None]}))
    with CollectionWriter.open(path) as writer:
        writer.append(record(1))
    values = contents(path)
    assert (values[b"later"], values[b"zz"]) == (b"\0\1", b"")
    with open_collection(path) as collection:
        assert dict(collection.extra) == {"note": {"a": [1, None]}}
        assert collection.index["smiles"].tolist() == ["", "O"]


def test_precision_of_index_columns_stays(path: Path) -> None:
    write(path, [record(0)], index_columns={"gap": lambda r: 0.5})
    edit_header(path, b"index", lambda h: h["blocks"]["records"]["columns"]["gap"].update(precision=0.25))
    with CollectionWriter.open(path, index_columns={"gap": lambda r: 0.8}) as writer:
        writer.append(record(1))
    with open_collection(path) as collection:
        assert collection.index.columns["gap"].precision == 0.25
        assert collection.index["gap"].tolist() == [0.5, 0.75]


def test_values_nobody_counts_are_left_and_told(path: Path) -> None:
    write(path, [points(0)])
    put(path, key("s", 1), b"old")
    report = molrec_convert.Report()
    with CollectionWriter.open(path, report=report) as writer:
        writer.append(points(1))
    assert report.losses() == ["dropped: key s[1] (the collection does not count it)"]
    with open_collection(path) as collection:
        assert collection[1].system is None


def test_refusals_leave_the_collection(path: Path, tmp_path: Path) -> None:
    write(path, [record(0)], index_columns=["smiles"])
    before = path.read_bytes()
    with pytest.raises(MissingInputError):
        CollectionWriter.open(tmp_path / "none.mrec.lmdb")
    with pytest.raises(ContractError, match="created without this index column"):
        CollectionWriter.open(path, index_columns=["gap"])
    with pytest.raises(ContractError, match="has another dtype"):
        CollectionWriter.open(path, index_columns={"smiles": "f64"})
    with pytest.raises(ContractError, match="no force field of its own"), CollectionWriter.open(path) as writer:
        writer.append(Record(system=molecule("O"), forcefield=ForceField.new("f", {"preset": "real"})))
    with CollectionWriter.open(path) as writer:
        with pytest.raises(UsageError, match="is being written by this process already"):
            CollectionWriter.open(path)
        with pytest.raises(UsageError, match="is being written by this process already"):
            CollectionWriter.create(path, declaration=POINTS, units={}, overwrite=True)
        writer.discard()
    assert names(tmp_path) == [path.name]
    assert path.read_bytes() == before
    path.write_bytes(before[:-4096])
    with pytest.raises(FormatError, match="cut short"):
        CollectionWriter.open(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(FormatError, match="a directory"):
        CollectionWriter.open(tmp_path / "folder")
    assert names(tmp_path) == [path.name, "folder"]


def test_index_columns_of_several_values_cannot_be_extended(path: Path) -> None:
    write(path, [record(0), record(1)], index_columns={"gap": lambda r: 0.5})
    edit_header(path, b"index", lambda h: h["blocks"]["records"]["columns"]["gap"].update(shape=[2, 1]))
    with pytest.raises(UnsupportedError, match="several values per record"):
        CollectionWriter.open(path)
    assert names(path.parent) == [path.name]


def test_a_missing_value_is_refused(path: Path) -> None:
    write(path, [record(0), record(1)])
    put(path, key("f", 1), None)
    with pytest.raises(ContractError, match=r"f\[1\]: the key is not there"):
        CollectionWriter.open(path)
    assert names(path.parent) == [path.name]


def test_readers_are_not_disturbed(path: Path) -> None:
    """They go on with what they opened, and see the rest when they open it again."""
    write(path, [record(n) for n in range(3)])
    with open_collection(path) as old:
        kept = old[1].trajectory[0]["atoms"]["x"]
        with CollectionWriter.open(path) as writer:
            writer.append(record(3))
        assert len(old) == 3
        assert old[2].trajectory[1]["atoms"]["x"].tolist() == [210.0, 211.0]
        with open_collection(path) as new:
            assert len(new) == 4
            assert new[3].trajectory[0]["atoms"]["x"].tolist() == [300.0, 301.0]
        assert kept.tolist() == [100.0, 101.0]


def test_through_a_link(path: Path, tmp_path: Path) -> None:
    write(path, [record(0)])
    (tmp_path / "link.mrec.lmdb").symlink_to(path)
    with CollectionWriter.open(tmp_path / "link.mrec.lmdb") as writer:
        writer.append(record(1))
    assert (tmp_path / "link.mrec.lmdb").is_symlink()
    with open_collection(path) as collection:
        assert len(collection) == 2


def test_the_map_grows_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_FIRST_MAP", 2**15)
    monkeypatch.setattr(
        store.StoreFile.__init__, "__kwdefaults__", {**store.StoreFile.__init__.__kwdefaults__, "map_size": 2**15}
    )
    write(path, [points(n, atoms=900) for n in range(40)])
    with CollectionWriter.open(path) as writer:
        assert writer._file._map_size > 2**15
        writer.extend(points(n, atoms=900) for n in range(40, 200))
    with open_collection(path, verify=True) as collection:
        assert len(collection) == 200
        assert collection[199].trajectory[0]["atoms"]["x"][899] == 199 * 100 + 899


def test_what_went_in_before_an_error_is_gone(path: Path) -> None:
    write(path, [record(0)])
    before = contents(path)
    with pytest.raises(ZeroDivisionError), CollectionWriter.open(path) as writer:
        writer.extend(record(1 // n) for n in (1, 0))
    assert contents(path) == before
    assert names(path.parent) == [path.name]


def test_a_refused_record_leaves_those_before_it(path: Path) -> None:
    write(path, [record(0)])
    with CollectionWriter.open(path) as writer:
        writer.append(record(1))
        with pytest.raises(ContractError):
            writer.append(Record())
        writer.append(record(2))
    with open_collection(path, verify=True) as collection:
        assert [r.meta["record_id"] for r in collection] == ["r0", "r1", "r2"]


@pytest.mark.parametrize("room", [1, 20_000, 200_000, 2_000_000])
def test_a_full_disk_is_one_clean_error(path: Path, room: int) -> None:
    write(path, [points(n, atoms=900) for n in range(20)])
    before = contents(path)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
            with CollectionWriter.open(path) as writer:
                writer.extend(points(n, atoms=900) for n in range(2000))
        except OSError as error:
            code = 42 if error.errno in (errno.EFBIG, errno.EIO, errno.ENOSPC) and "c.mrec.lmdb" in str(error) else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert names(path.parent) == [path.name]
    assert contents(path) == before


def _append_for_ever(path: str, started: Any) -> None:
    with CollectionWriter.open(path) as opened:
        started.set()
        for n in range(10**9):
            opened.append(points(n, 20, 500))


_LEFT = [".c.mrec.lmdb.lock", ".c.mrec.lmdb.partial"]


def test_a_kill_during_appends(path: Path) -> None:
    """However often: the collection is as it was, and the next one gets through."""
    write(path, [points(n, atoms=300) for n in range(300)])
    before = contents(path)
    draw = random.Random(3)
    context = multiprocessing.get_context("fork")
    for turn in range(15):
        started = context.Event()
        child = context.Process(target=_append_for_ever, args=(str(path), started))
        child.start()
        if turn % 3:
            assert started.wait(300)
        time.sleep(draw.random() * 0.1)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert contents(path) == before
        assert names(path.parent) in ([path.name], [".c.mrec.lmdb.lock", path.name], [*_LEFT, path.name])
    with CollectionWriter.open(path) as writer:
        writer.append(points(300, atoms=300))
    with open_collection(path, verify=True) as collection:
        assert len(collection) == 301
        assert np.array_equal(collection[300].trajectory[0]["atoms"]["x"], 30_000.0 + np.arange(300))
    assert names(path.parent) == [path.name]


@pytest.mark.parametrize("step", [n if n % 2 else pytest.param(n, marks=pytest.mark.slow) for n in range(11)])
def test_a_kill_between_the_steps(path: Path, step: int) -> None:
    """Before the name is taken the old collection is there; from then on the new one, whole."""
    write(path, [record(0), record(1)])
    script = textwrap.dedent(
        """
        import os, sys, signal
        from test_collection_append import *
        step, path = int(sys.argv[1]), Path(sys.argv[2])
        seen = 0
        def watch(function):
            def run(*args, **options):
                global seen
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen += 1
                return function(*args, **options)
            return run
        for name in ("append", "put", "complete"):
            setattr(store.StoreFile, name, watch(getattr(store.StoreFile, name)))
        os.replace, os.fsync = watch(os.replace), watch(os.fsync)
        with CollectionWriter.open(path) as writer:
            writer.append(record(2))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(step), str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    with open_collection(path, verify=True) as collection:
        # the old frames; the new ones, r, s; put; complete; fsync of the file and its folder; replace; fsync
        assert len(collection) == (2 if step <= 8 else 3)
        for n, one in enumerate(collection):
            assert one.meta == {"record_id": f"r{n}"}
            assert one.system == molecule("OH", smiles="O" * n)
