"""Reading across processes and threads: pickled, forked, spawned, opened twice, read-only; views in place."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import equal_trajectories, molecule, points, write

import molrec_convert
from molrec_convert.errors import FormatError, UsageError
from molrec_convert.model import Record
from molrec_convert.stores.lmdb.file import environment
from molrec_convert.stores.lmdb.reader import StoredCollection, open_collection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    records = [
        Record(meta=points(n).meta, system=molecule("OH", smiles=f"{n}"), trajectory=points(n, frames=3).trajectory)
        for n in range(20)
    ]
    return write(tmp_path / "c.mrec.lmdb", records, index_columns=["smiles"])


def first_of(path: Path) -> str:
    return repr(open_collection(path)[0])


def use(collection: StoredCollection) -> str:
    return repr(collection[0]) + str(collection.frame(31)["atoms"]["x"]) + str(collection.index["smiles"][3])


@pytest.mark.parametrize(
    "name", ["open", *(pytest.param(name, marks=pytest.mark.slow) for name in ("open_collection", "read"))]
)
def test_fork_and_pickle_case(path: Path, fixtures: Path, tmp_path: Path, name: str) -> None:
    """The case: its script with our reader filled in prints OK."""
    script = (fixtures / "cases" / "83-lmdb-fork-pickle" / "check.py").read_text(encoding="utf-8")
    line = "def open_reader(path): raise SystemExit('give the reader of the converter here')"
    assert line in script
    filled = script.replace(
        line,
        f"import molrec_convert\ndef open_reader(path): return molrec_convert.{name}(path)",
    )
    check = tmp_path / "check.py"
    check.write_text(filled, encoding="utf-8")
    folder = path.parent
    os.chmod(folder, 0o555)
    try:
        done = subprocess.run(
            [sys.executable, str(check), str(path)], capture_output=True, text=True, timeout=300, check=False
        )
    finally:
        os.chmod(folder, 0o755)
    assert done.stdout.strip() == "OK", done.stderr
    assert [p.name for p in folder.iterdir() if "lock" in p.name] == []


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_selections_in_other_processes(path: Path, how: str) -> None:
    """A view goes with what it selects; so does a record taken out."""
    some = open_collection(path).select("n_atoms == 2").select([7, 3])
    want = [repr(record.meta) + str(record.trajectory[2]["atoms"]["x"]) for record in some]
    with multiprocessing.get_context(how).Pool(2) as pool:
        assert pool.map_async(records_of, [some] * 4).get(60) == [want] * 4


def records_of(collection: Any) -> list[str]:
    return [repr(record.meta) + str(record.trajectory[2]["atoms"]["x"]) for record in collection]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_open_reader_in_other_processes(path: Path, how: str) -> None:
    collection = open_collection(path)
    want = use(collection)
    with multiprocessing.get_context(how).Pool(3) as pool:
        assert set(pool.map_async(use, [collection] * 6).get(60)) == {want}
    assert use(collection) == want


def test_fork_under_an_open_reader(path: Path) -> None:
    """A child that inherits the collection itself opens the file anew; the parent's goes on."""
    collection = open_collection(path)
    want = use(collection)
    inherited = collection._file.open()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            answer = use(collection), collection._file.open() is not inherited, open_collection(path)[5].meta
            os.write(writing, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert json.load(pipe) == [want, True, {"record_id": "r5"}]
    assert os.waitpid(child, 0)[1] == 0
    assert use(collection) == want


def test_fork_under_a_view(path: Path) -> None:
    """Arrays that show the file stay good in a child, whatever it opens and closes."""
    collection = open_collection(path)
    with collection.view(2) as record:
        x = record.trajectory[1]["atoms"]["x"]
        child = os.fork()
        if child == 0:
            try:
                assert x.tolist() == [210.0, 211.0]
                other = open_collection(path)
                assert use(other) == use(collection)
                other.close()
                collection.close()
                gc.collect()
                assert x.tolist() == [210.0, 211.0]
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert x.tolist() == [210.0, 211.0]


def test_two_readers_in_one_process(path: Path) -> None:
    one, two = open_collection(path), open_collection(path)
    assert use(one) == use(two)
    assert one._file.open() is two._file.open()
    one.close()
    assert use(two)
    two.close()
    assert open_environments(path) == 0
    with pytest.raises(UsageError, match="closed"):
        one.frame(0)
    assert use(open_collection(path))


def test_another_file_of_the_same_name(path: Path) -> None:
    """A collection that was replaced is read to its end; opening the name again reads the new one."""
    old = open_collection(path)
    assert old[0].meta == {"record_id": "r0"}
    write(path, [points(7)], overwrite=True)
    new = open_collection(path)
    assert (len(old), len(new)) == (20, 1)
    assert old[19].meta == {"record_id": "r19"}
    assert new[0].meta == {"record_id": "r7"}


def test_a_folder_without_write_permission(path: Path) -> None:
    os.chmod(path, 0o444)
    os.chmod(path.parent, 0o555)
    try:
        with open_collection(path) as collection:
            assert collection[3].system.meta["smiles"] == "3"
    finally:
        os.chmod(path.parent, 0o755)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_pickled_parts_have_their_values_with_them(path: Path) -> None:
    """A record, its system, its trajectory, a frame, a block: each is whole without the file."""
    with open_collection(path) as collection:
        record = collection[4]
        parts = (record, record.system, record.trajectory, record.trajectory[2], record.trajectory[2]["atoms"])
        blob = pickle.dumps(parts)
        view = pickle.dumps(collection.select("smiles == 4"))
        expected = (record.meta, record.system, list(record.trajectory))
    again = pickle.loads(view)
    assert [r.meta for r in again] == [{"record_id": "r4"}]
    again.close()
    path.unlink()
    back, system, trajectory, frame, block = pickle.loads(blob)
    assert type(back) is Record
    assert (back.meta, back.system, list(back.trajectory)) == expected
    assert system == expected[1]
    assert list(trajectory) == expected[2]
    assert frame == expected[2][2]
    assert block == expected[2][2]["atoms"]
    assert trajectory[1]["atoms"]["x"].flags.writeable


def test_a_pickled_record_keeps_what_was_set(path: Path) -> None:
    record = open_collection(path)[0]
    record.status, record.meta["later"], record.system = {"state": "done"}, [1], molecule("C")
    back = pickle.loads(pickle.dumps(record))
    assert (back.status, back.meta["later"], back.system) == ({"state": "done"}, [1], molecule("C"))
    changed = replace(record, frame=back.trajectory[0])
    assert changed.frame == record.trajectory[0]
    assert changed.meta == record.meta


def test_records_outlive_the_collection(path: Path) -> None:
    """What was read is copied; it may be altered, and altering it alters nothing else."""
    with open_collection(path) as collection:
        frame, again = collection.frame(6), collection.frame(6)
        x = frame["atoms"]["x"]
    path.unlink()
    x += 1.0
    assert frame["atoms"]["x"].tolist() == [201.0, 202.0]
    assert frame["atoms"].columns["x"].values is x
    assert again["atoms"]["x"].tolist() == [200.0, 201.0]


def test_view_shows_the_file_in_place(path: Path) -> None:
    with open_collection(path) as collection:
        with collection.view(-1) as record:
            x = record.trajectory[2]["atoms"]["x"]
            assert not x.flags.writeable
            assert x.tolist() == [1920.0, 1921.0]
            assert record.system["atoms"]["element"].tolist() == ["O", "H"]
            with collection.view(19) as other:
                assert np.shares_memory(x, other.trajectory[2]["atoms"]["x"])
            assert not np.shares_memory(x, collection[19].trajectory[2]["atoms"]["x"])
        with pytest.raises(IndexError), collection.view(20):
            pass


def test_an_array_kept_beyond_its_view_is_safe(path: Path) -> None:
    """The file stays mapped as long as an array shows it, and is let go of with the last."""
    collection = open_collection(path)
    with collection.view(3) as record:
        x = record.trajectory[0]["atoms"]["x"]
        part = x[1:]
    del record, x
    collection.close()
    assert open_environments(path) == 1
    assert part.tolist() == [301.0]
    with open_collection(path) as again:
        assert again.frame(9)["atoms"]["x"].tolist() == [300.0, 301.0]
    assert part.tolist() == [301.0]
    del part
    environment._close_lingering()
    assert open_environments(path) == 0


def test_threads_share_a_collection(path: Path) -> None:
    collection = open_collection(path)
    failures: list[Any] = []

    def read() -> None:
        try:
            for n in range(20):
                assert collection[n].meta == {"record_id": f"r{n}"}
                assert collection.frame(3 * n)["atoms"]["x"].tolist() == [100.0 * n, 100.0 * n + 1]
                assert equal_trajectories(collection[n].trajectory, points(n, frames=3).trajectory)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_opening_reads_the_meta_alone(path: Path) -> None:
    """No environment, no index; then numbers, without a text; then a text."""
    collection = open_collection(path)
    assert (len(collection), collection.n_frames) == (20, 60)
    assert collection._file._environment is None
    assert collection._index is None
    assert collection.index["n_frames"].sum() == 60
    smiles = collection.index.columns["smiles"]
    assert (smiles.dtype, len(smiles)) == ("string", 20)
    assert "smiles" not in collection.index._arrays
    assert smiles.values[7] == "7"


def test_open_does_not_walk_the_pages(path: Path) -> None:
    """Neither `open` nor detection: damage elsewhere shows when it is reached, or where `verify` asks for it."""
    data = bytearray(path.read_bytes())
    pages = {n: data[n : n + 4096] for n in range(8192, len(data), 4096)}
    place = next(n for n, page in pages.items() if b"MRF1" in page and b"mrec-lmdb" not in page)
    data[place + 10 : place + 16] = b"\xff" * 6
    path.write_bytes(data)
    with molrec_convert.open(path) as collection:
        assert (len(collection), collection.n_frames) == (20, 60)
    with pytest.raises(FormatError, match="the file is damaged"):
        molrec_convert.open(path, verify=True)


def test_nothing_is_left_open(path: Path) -> None:
    """Dropping the last reference lets go of the file, without waiting for a collection of garbage."""
    gc.disable()
    try:
        for _ in range(3):
            collection = open_collection(path)
            read = collection.index["smiles"], collection[0].system, list(collection[1].trajectory)
            assert read[0][1] == "1"
            assert open_environments(path) == 1
            del collection, read
            assert open_environments(path) == 0
    finally:
        gc.enable()


def open_environments(path: Path) -> int:
    key = (path.stat().st_dev, path.stat().st_ino)
    return sum(e.key == key for e in [*environment._open.values(), *environment._lingering])
