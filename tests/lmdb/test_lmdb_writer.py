"""Writing a collection safely: nothing half-written under its name, one writer, a growing map, a full disk, a kill."""

from __future__ import annotations

import errno
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
from collection_stores import POINTS, contents, key, points, write

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    BlockUpdates,
    ColumnDeclaration,
    Declaration,
    Frame,
    FrameBatch,
    MemoryTrajectory,
    Record,
)
from molrec_convert.stores.lmdb import writer
from molrec_convert.stores.lmdb.file import store as spool
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.file.store import Spool, StoreFile
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.lmdb.writer import CollectionWriter

WIDE = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64")})})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.mrec.lmdb"


def wide(number: int, rows: int = 1000) -> Record:
    frame = Frame({"atoms": Block({"x": np.full(rows, float(number))})})
    return Record(meta={"n": number}, trajectory=MemoryTrajectory([frame], WIDE))


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_name_appears_when_complete(path: Path) -> None:
    with CollectionWriter.create(path, declaration=POINTS, units={}) as opened:
        opened.append(points(0))
        assert names(path.parent) == [".c.mrec.lmdb.lock", ".c.mrec.lmdb.partial"]
        assert (len(opened), opened.n_frames) == (1, 1)
    assert names(path.parent) == ["c.mrec.lmdb"]
    assert oct(path.stat().st_mode & 0o777) == oct(0o666 & ~_umask())
    opened.close()
    with pytest.raises(UsageError, match="complete"):
        opened.append(points(1))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_error_leaves_nothing_and_the_old_stays(path: Path) -> None:
    write(path, [points(0)])
    before = contents(path)
    with pytest.raises(RuntimeError):
        _append_and_fail(path)
    assert names(path.parent) == ["c.mrec.lmdb"]
    assert contents(path) == before
    with pytest.raises(UsageError, match="exists already"):
        CollectionWriter.create(path, declaration=POINTS, units={})
    with pytest.raises(UsageError, match="no directory"):
        CollectionWriter.create(path.parent / "none" / "c.mrec.lmdb", declaration=POINTS, units={})


def _append_and_fail(path: Path) -> None:
    with CollectionWriter.create(path, declaration=POINTS, units={}, overwrite=True) as opened:
        opened.append(points(1))
        raise RuntimeError


def test_meta_is_written_last(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every transaction before the last has neither meta nor index; the last ends with meta."""
    transactions: list[list[bytes]] = []
    append, put = StoreFile.append, StoreFile.put
    monkeypatch.setattr(
        StoreFile,
        "append",
        lambda self, items: (transactions.append([k for k, _ in items]), append(self, items))[1],
    )
    monkeypatch.setattr(
        StoreFile, "put", lambda self, items: (transactions.append([k for k, _ in items]), put(self, items))[1]
    )
    write(path, [points(n) for n in range(2500)])
    assert transactions[-1] == [b"index", b"index.crc32c", b"meta"]
    assert all(b"meta" not in entry for entry in transactions[:-1])
    frames = [entry for entry in transactions if entry and entry[0][:1] == b"f"]
    assert [len(entry) for entry in frames] == [500] * 5


def test_one_writer(path: Path) -> None:
    with CollectionWriter.create(path, declaration=POINTS, units={}) as opened:
        opened.append(points(0))
        with pytest.raises(UsageError, match="being written"):
            CollectionWriter.create(path, declaration=POINTS, units={})
        asked = "import sys; from collection_stores import *; write(Path(sys.argv[1]), [points(0)])"
        done = subprocess.run(
            [sys.executable, "-c", asked, str(path)],
            cwd=Path(__file__).parents[1] / "support",
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"being written by process {os.getpid()} on " in done.stderr
        opened.append(points(1))
    with open_collection(path, verify=True) as collection:
        assert len(collection) == 2


def test_a_leftover_is_swept(path: Path) -> None:
    leftover = path.parent / ".c.mrec.lmdb.partial"
    leftover.write_bytes(os.urandom(100_000))
    with open_collection(write(path, [points(0)]), verify=True) as collection:
        assert len(collection) == 1
    assert names(path.parent) == ["c.mrec.lmdb"]


def test_the_map_grows_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a map of 64 KiB, through batches that do not fit and have to be put again."""
    sizes = []
    original = StoreFile.__init__

    def small(self: StoreFile, *args: Any, **options: Any) -> None:
        original(self, *args, **options, map_size=2**16)
        sizes.append(self)

    monkeypatch.setattr(StoreFile, "__init__", small)
    write(path, [wide(n) for n in range(2000)], WIDE)
    assert sizes[0]._map_size >= 2**24
    with open_collection(path, verify=True) as collection:
        assert len(collection) == 2000
        for n in (0, 999, 1000, 1999):
            assert (collection.frame(n)["atoms"]["x"] == n).all()


def test_keys_are_packed(path: Path) -> None:
    """Appended in order, values of 2000 bytes fill their pages."""
    write(path, [wide(n, 220) for n in range(3000)], WIDE)
    values = sum(len(k) + len(v) for k, v in contents(path).items())
    assert path.stat().st_size < 1.2 * values


def test_frames_flushed_before_a_record_fails_are_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_BATCH_VALUES", 3)

    class Broken(MemoryTrajectory):
        def batches(self, *args: Any, **options: Any) -> Any:
            for k, batch in enumerate(super().batches()):
                assert k == 0
                for n in range(20):
                    yield type(batch)(batch.step + n, None, batch.blocks, batch.meta, None)
                raise RuntimeError("the source broke off")

    frame = points(5).trajectory[0]
    with CollectionWriter.create(path, declaration=POINTS, units={}) as opened:
        opened.append(points(0))
        with pytest.raises(RuntimeError):
            opened.append(Record(trajectory=Broken([frame], POINTS)))
        opened.append(points(1))
        opened.append(points(2, frames=9))
    with open_collection(path, verify=True) as collection:
        assert [record.meta["record_id"] for record in collection] == ["r0", "r1", "r2"]
        assert collection.n_frames == 11
        assert collection.frame(1) == points(1).trajectory[0]
        assert list(collection[2].trajectory) == list(points(2, frames=9).trajectory)
    assert [n for n in contents(path) if n[:1] == b"f" and len(n) == 9] == [key("f", n) for n in range(11)]


def test_spool_spills_and_gives_back(tmp_path: Path) -> None:
    kept = Spool(tmp_path, in_memory=100)
    values = [(n, os.urandom(n % 37)) for n in range(200)]
    for number, value in values:
        kept.append(number, value)
        kept.spill()
    assert kept._file is not None
    assert names(tmp_path) == []
    assert len(kept) == 200
    assert list(kept) == values
    assert list(kept) == values
    kept.append(7, b"more")
    assert list(kept)[-1] == (7, b"more")
    kept.close()
    assert list(kept) == []


def test_parts_beyond_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_IN_MEMORY", 50)
    records = [points(n) for n in range(50)]
    plain = contents(write(path, records))
    monkeypatch.setattr(writer, "Spool", lambda folder: Spool(folder, 50))
    assert contents(write(path, records, overwrite=True)) == plain


# a full disk


@pytest.mark.parametrize("room", [1, 5000, 100_000, 3_000_000])
def test_a_full_disk_is_one_clean_error(path: Path, room: int) -> None:
    """A file size limit stands in for the disk: the error says so, the old collection stays, nothing else is left."""
    write(path, [wide(0)], WIDE)
    before = contents(path)
    code = _in_child(_write_with_little_room, path, room)
    assert code == 42
    assert names(path.parent) == ["c.mrec.lmdb"]
    assert contents(path) == before


def _write_with_little_room(path: Path, room: int) -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        write(path, (wide(n) for n in range(2000)), WIDE, overwrite=True)
    except OSError as error:
        return 42 if error.errno in (errno.EFBIG, errno.EIO, errno.ENOSPC) and str(path) in str(error.filename) else 3
    return 4


def test_a_disk_that_fills_up_under_the_parts(path: Path) -> None:
    assert _in_child(_spill_with_little_room, path, 100_000) == 42
    assert names(path.parent) == []


def _spill_with_little_room(path: Path, room: int) -> int:
    writer.Spool = lambda folder: Spool(folder, 1000)  # type: ignore[misc,assignment]
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    system = Frame({"atoms": Block({"element": np.array(["X" * 100] * 100)})})
    try:
        write(path, (Record(system=system) for _ in range(1000)))
    except OSError:
        return 42
    return 4


def _in_child(work: Any, *args: Any) -> int:
    """What `work` returns in a forked child."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work(*args)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# a kill


def _append_for_ever(path: str, started: Any) -> None:
    with CollectionWriter.create(path, declaration=WIDE, units={}, overwrite=True) as opened:
        started.set()
        for n in range(10**9):
            opened.append(wide(n, 100))


def test_a_kill_during_appends(path: Path) -> None:
    """However often a writer is killed: the old collection is whole, and the next writer gets through."""
    write(path, [points(0)])
    before = contents(path)
    draw = random.Random(7)
    context = multiprocessing.get_context("fork")
    for _ in range(25):
        started = context.Event()
        child = context.Process(target=_append_for_ever, args=(str(path), started))
        child.start()
        assert started.wait(300)
        time.sleep(draw.random() * 0.1)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with open_collection(path, verify=True) as collection:
            assert collection.frame(0) == points(0).trajectory[0]
        assert contents(path) == before
        assert names(path.parent) in (
            [".c.mrec.lmdb.lock", "c.mrec.lmdb"],
            [".c.mrec.lmdb.lock", ".c.mrec.lmdb.partial", "c.mrec.lmdb"],
        )
    with open_collection(write(path, [wide(1)], WIDE, overwrite=True), verify=True) as collection:
        assert len(collection) == 1
    assert names(path.parent) == ["c.mrec.lmdb"]


@pytest.mark.parametrize("step", [n if n % 2 else pytest.param(n, marks=pytest.mark.slow) for n in range(10)])
def test_a_kill_between_the_steps_of_completing(path: Path, step: int) -> None:
    """Before the name is taken the old collection is there; from then on the new one, whole."""
    write(path, [points(0)])
    script = textwrap.dedent(
        """
        import os, sys, signal
        from collection_stores import *
        from molrec_convert.stores.lmdb.file import store
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
        write(path, [points(n) for n in range(5)], overwrite=True)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(step), str(path)],
        cwd=Path(__file__).parents[1] / "support",
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    with open_collection(path, verify=True) as collection:
        # append f, r, s; put; complete; fsync of the file and its folder; replace; fsync
        assert len(collection) == (1 if step <= 7 else 5)
        for n, record in enumerate(collection):
            assert record.meta == points(n).meta


def test_an_unfinished_file_is_no_collection(path: Path) -> None:
    """What lies under the hidden name during writing is refused by the reader."""
    with CollectionWriter.create(path, declaration=POINTS, units={}) as opened:
        for n in range(2000):
            opened.append(points(n))
        partial = path.parent / ".c.mrec.lmdb.partial"
        copy = path.parent / "copy.mrec.lmdb"
        copy.write_bytes(partial.read_bytes())
        with PageFile(copy) as pages:
            assert pages.check() == 2000
        with pytest.raises(ContractError, match="never completed"):
            open_collection(copy)


def test_writing_in_place(path: Path) -> None:
    """For a caller that stages by itself: the file has its name at once, and is gone after an error."""
    with CollectionWriter.create(path, declaration=POINTS, units={}, in_place=True) as opened:
        opened.append(points(0))
        assert names(path.parent) == ["c.mrec.lmdb"]
    assert len(open_collection(path)) == 1
    other = path.parent / "d.mrec.lmdb"
    with (
        pytest.raises(RuntimeError),
        CollectionWriter.create(other, declaration=POINTS, units={}, in_place=True),
    ):
        raise RuntimeError
    assert not other.exists()


def test_a_given_batch_is_held_against_its_declaration(path: Path) -> None:
    """Nobody has looked at a batch that became a trajectory as it was."""
    values = {"x": np.zeros(2, np.int64)}
    batch = FrameBatch(np.array([0]), blocks={"atoms": BlockUpdates.uniform(1, 2, values)}, meta={"pe": np.zeros(1)})
    with CollectionWriter.create(path, declaration=POINTS, units={}) as opened:
        opened.append(points(2))
        with pytest.raises(ContractError, match="differs from its declaration"):
            opened.append(Record(trajectory=MemoryTrajectory.of_batch(batch, POINTS)))
        opened.append(points(3))
    with open_collection(path) as collection:
        assert len(collection) == 2


@pytest.mark.parametrize(
    "wrong", [{"mass": np.ones(3)}, {"x": np.ones(2)}, {"element": np.array(["H"], np.dtypes.StringDType())}]
)
def test_a_system_that_does_not_fit_is_refused_every_time(path: Path, wrong: dict[str, Any]) -> None:
    """What is known of the shapes of a system and a frame includes that they do not go together."""

    def record(columns: dict[str, Any]) -> Record:
        return Record(system=Frame({"atoms": Block(columns)}), trajectory=points(2).trajectory)

    with CollectionWriter.create(path, declaration=POINTS, units={}) as opened:
        for _ in range(3):
            opened.append(record({"mass": np.ones(2)}))
            with pytest.raises(ContractError):
                opened.append(record(wrong))
    assert len(contents(path)) == 3 * 3 + 3


def test_many_small_values_are_kept_without_being_counted_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, in_memory=5)
    for number in range(5):
        spool.append(number, bytes(number))
        spool.spill()
    assert len(spool) == 5
    assert list(spool) == [(n, bytes(n)) for n in range(5)]
    assert spool._spilled == 4
    spool.close()
