"""Damaged and hostile files: refused by a walk over the pages before anything maps them; never a crash."""

from __future__ import annotations

import os
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from collection_stores import contents, key, molecule, points, put, raw, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molrec_convert.errors import ContractError, FormatError, MolrecError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Record,
)
from molrec_convert.stores.lmdb.file.environment import acquire, release
from molrec_convert.stores.lmdb.file.pages import PageFile, _Marks, is_lmdb, sniff_collection
from molrec_convert.stores.lmdb.reader import open_collection

WIDE = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64")})})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with branch pages, values in leaves and values on pages of their own."""
    records = []
    for n in range(150):
        frames = [Frame({"atoms": Block({"x": np.full(5 if n % 3 else 900, float(n))})})]
        records.append(
            Record(
                meta={"n": n}, system=Frame(meta=molecule(smiles="C").meta), trajectory=MemoryTrajectory(frames, WIDE)
            )
        )
    path = write(tmp_path_factory.mktemp("whole") / "c.mrec.lmdb", records, WIDE, index_columns=["smiles"])
    return path.read_bytes()


def use(path: Path) -> int:
    """Everything a collection can be asked for."""
    with open_collection(path, verify=True) as collection:
        _ = collection.forcefield, collection.unknown_keys()
        for column in collection.index.columns.values():
            _ = column.values, column.validity
        seen = 0
        for record in collection:
            _ = record.meta
            if record.system is not None:
                record.system.check("system")
                _ = record.system.meta
            if record.trajectory is not None:
                for batch in record.trajectory.batches():
                    seen += sum(block.nbytes for block in batch.blocks.values())
        return seen


def test_a_whole_file(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "c.mrec.lmdb"
    path.write_bytes(whole)
    with PageFile(path) as pages:
        assert pages.check() == 150 * 3 + 3
        assert pages._depth > 1
        for name, value in contents(path).items():
            assert pages.find(name) == value
        for name in (b"", b"a", b"fe", b"zzz", key("f", 10**6), b"met", b"metaa"):
            assert pages.find(name) is None
    assert use(path) == 8 * (50 * 900 + 100 * 5)


def test_a_file_of_lmdb_itself(tmp_path: Path) -> None:
    """Overwritten, deleted and emptied: freed pages, two generations, an empty tree."""
    path = tmp_path / "a.lmdb"
    draw = random.Random(3)
    with raw(path, write=True):
        pass
    with PageFile(path) as pages:
        assert (pages.check(), pages.find(b"a")) == (0, None)
    expected: dict[bytes, bytes] = {}
    for _ in range(30):
        with raw(path, write=True) as transaction:
            for _ in range(40):
                name = struct.pack(">H", draw.randrange(400))
                if draw.random() < 0.4:
                    transaction.delete(name)
                    expected.pop(name, None)
                else:
                    expected[name] = os.urandom(draw.choice([0, 3, 100, 2000, 5000, 40_000]))
                    transaction.put(name, expected[name])
        with PageFile(path) as pages:
            assert pages.check() == len(expected)
            for name in expected:
                assert pages.find(name) == expected[name]


def _alter(env: Any, transaction: Any, draw: random.Random, expected: dict[bytes, bytes]) -> None:
    """Some puts and deletes, some of them of the same key, in a transaction and in one within it."""
    sizes = draw.choice([(0, 3, 100), (2000, 2030, 2040, 4060, 4080), (5000, 40_000, 300_000)])
    for _ in range(draw.choice([1, 10, 60])):
        name = b"%d" % draw.randrange(draw.choice([5, 200]))
        if draw.random() < 0.45:
            transaction.delete(name)
            expected.pop(name, None)
        else:
            expected[name] = draw.randbytes(4) * (draw.choice(sizes) // 4)
            transaction.put(name, expected[name])
    if draw.random() < 0.3:
        inner = dict(expected)
        with env.begin(parent=transaction, write=True) as child:
            child.put(b"inner", draw.randbytes(20_000))
            child.delete(b"0")
            if draw.random() < 0.5:
                child.abort()
            else:
                inner[b"inner"] = child.get(b"inner")
                inner.pop(b"0", None)
                expected.clear()
                expected.update(inner)
    for _ in range(draw.randrange(3)):
        transaction.put(b"gone", draw.randbytes(draw.choice([10, 5000, 200_000])))
        transaction.delete(b"gone")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_every_file_lmdb_leaves_is_read_and_every_cut_one_refused(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What was put and deleted in one transaction may leave pages that were never written behind the file's end."""
    draw = random.Random(seed)
    path = tmp_path_factory.mktemp("valid") / "a.lmdb"
    expected: dict[bytes, bytes] = {}
    env = lmdb.open(os.fspath(path), subdir=False, lock=False, map_size=2**28, sync=False)
    for _ in range(draw.randrange(1, 7)):
        with env.begin(write=True) as transaction:
            _alter(env, transaction, draw, expected)
    env.sync(True)
    compact = path.with_suffix(".compact")
    with compact.open("wb") as file:
        env.copyfd(file.fileno(), compact=True)
    env.close()
    for where in (path, compact):
        with PageFile(where) as pages:
            assert pages.check() == len(expected)
            assert {name: value.read() for name, value in pages.items()} == expected
            used = _pages_in_use(pages)
        environment = acquire(where)
        assert {name: bytes(value) for name, value in environment.views()} == expected
        release(environment)
        content = where.read_bytes()
        last = (max(used, default=1) + 1) * 4096
        for size in {draw.randrange(len(content)), last - 1, last - 4096, min(last, len(content))}:
            where.write_bytes(content[:size])
            if size < last:
                with pytest.raises(FormatError):
                    acquire(where)
            elif _opens(where):
                with PageFile(where) as pages:
                    assert pages.check() == len(expected)


def _pages_in_use(file: PageFile) -> set[int]:
    """The pages of keys and values."""
    every: set[int] = set()
    for _, position, page, number in file._leaves(file._root, file._depth, every_page := _Marks()):
        file._check_value(page, position, number, every_page)
    for chunk, marks in every_page._chunks.items():
        every.update(chunk * every_page._CHUNK + place for place, mark in enumerate(marks) if mark)
    return every


def _opens(path: Path) -> bool:
    try:
        PageFile(path).__exit__(None, None, None)
    except FormatError:
        return False
    return True


def test_a_value_put_and_deleted_at_once_leaves_a_file_that_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.lmdb"
    env = lmdb.open(os.fspath(path), subdir=False, lock=False)
    for name, size, gone in ((b"a", 4, False), (b"c", 20_000, False), (b"c", 0, True), (b"b", 100_000, True)):
        with env.begin(write=True) as transaction:
            if size:
                transaction.put(name, bytes(size))
            if gone:
                transaction.delete(name)
    env.close()
    with PageFile(path) as pages:
        assert path.stat().st_size < (pages.last_page + 1) * pages.page_size, "pages that were never written"
        assert pages.check() == 1
        assert pages.find(b"a") == bytes(4)


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_altered_bytes(data: st.DataObject, whole: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any bytes altered anywhere, headers of pages above all: a refusal, or a collection."""
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 6))):
        page = data.draw(st.integers(0, len(whole) // 4096 - 1))
        where = page * 4096 + data.draw(st.integers(0, 4095) | st.integers(0, 64) | st.integers(4000, 4095))
        damaged[where] = data.draw(st.integers(0, 255) | st.sampled_from([0, 255, 1, 128]))
    _read_or_refuse(bytes(damaged), tmp_path_factory)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_pages_moved_and_cut(data: st.DataObject, whole: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    pages = [whole[i : i + 4096] for i in range(0, len(whole), 4096)]
    for _ in range(data.draw(st.integers(0, 3))):
        a, b = (data.draw(st.integers(0, len(pages) - 1)) for _ in range(2))
        pages[a] = pages[b] if data.draw(st.booleans()) else os.urandom(4096)
    damaged = b"".join(pages)
    if data.draw(st.booleans()):
        damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    _read_or_refuse(damaged, tmp_path_factory)


def _read_or_refuse(damaged: bytes, factory: pytest.TempPathFactory) -> None:
    path = factory.mktemp("damaged") / "c.mrec.lmdb"
    path.write_bytes(damaged)
    try:
        use(path)
    except MolrecError:
        pass
    finally:
        path.unlink()
        path.parent.rmdir()


def test_a_cut_file_is_refused_at_once(tmp_path: Path, whole: bytes) -> None:
    """Without the walk too: a page that is not there would end the process."""
    path = tmp_path / "c.mrec.lmdb"
    for size in (0, 10, 4096, 8192, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            open_collection(path)


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"PK\3\4" + bytes(9000), os.urandom(20_000)])
def test_other_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "c.mrec.lmdb"
    path.write_bytes(data)
    assert not is_lmdb(data)
    assert sniff_collection(data, path) == 0.0
    with pytest.raises(FormatError, match="meta page"):
        open_collection(path)


def test_other_lmdb_files(tmp_path: Path) -> None:
    """Somebody else's database: refused with the reason, and not taken for a collection by its content."""
    path = tmp_path / "data.lmdb"
    with raw(path, write=True) as transaction:
        transaction.put(b"0", b"{}")
    head = path.read_bytes()[:65536]
    assert is_lmdb(head)
    assert sniff_collection(head, path) == 0.0
    assert sniff_collection(head, path.rename(tmp_path / "d.mrec.lmdb")) == 0.9
    with pytest.raises(ContractError, match="no key 'meta'"):
        open_collection(tmp_path / "d.mrec.lmdb")
    sorted_by_number = tmp_path / "n.lmdb"
    env = lmdb.open(os.fspath(sorted_by_number), subdir=False, lock=False, max_dbs=1)
    env.open_db(b"named", dupsort=True)
    env.close()
    with PageFile(sorted_by_number) as pages, pytest.raises(FormatError, match="another kind"):
        pages.check()
    collection = write(tmp_path / "c.mrec.lmdb", [points(0)])
    assert sniff_collection(collection.read_bytes()[:65536], collection) == 1.0


def test_loops_and_shared_pages(tmp_path: Path, whole: bytes) -> None:
    """A branch that leads to itself, and two that lead to one page."""
    path = tmp_path / "c.mrec.lmdb"
    path.write_bytes(whole)
    with PageFile(path) as pages:
        root = pages._root
        _, nodes = pages._nodes(root, 1)
        page = whole[root * 4096 : (root + 1) * 4096]
    positions = struct.unpack_from("<2H", page, 16)
    for target in (root, nodes[0][1]):
        damaged = bytearray(whole)
        struct.pack_into("<I", damaged, root * 4096 + positions[1], target)
        path.write_bytes(bytes(damaged))
        with pytest.raises(FormatError, match=r"reached twice|deeper|depth|ascending"):
            open_collection(path, verify=True)


def test_memory_follows_the_file(tmp_path: Path, whole: bytes) -> None:
    """Counts that promise more than the file has take no memory: last page, value sizes, numbers of records."""
    path = tmp_path / "c.mrec.lmdb"
    damaged = bytearray(whole)
    for page in (0, 1):
        struct.pack_into("<Q", damaged, page * 4096 + 16 + 24 + 96, 2**50)
    path.write_bytes(bytes(damaged))
    tracemalloc.start()
    with pytest.raises(FormatError, match="cut short"):
        open_collection(path, verify=True)
    path.write_bytes(whole)
    meta = contents(path)[b"meta"]
    put(path, b"meta", meta.replace(b'"n_records":150', b'"n_records":1000000000000'))
    with open_collection(path, verify=True) as collection:
        assert len(collection) == 10**12
        with pytest.raises(ContractError, match="more than the file"):
            _ = collection[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(whole) + 2**21


def test_unknown_keys_are_found_and_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "c.mrec.lmdb", [points(n) for n in range(3)])
    extra: dict[bytes, Any] = {b"a": b"", b"fgh": b"1", b"later": b"2", b"r": b"3", b"zz\xff": b"4"}
    for name, value in extra.items():
        put(path, name, value)
    with open_collection(path, verify=True) as collection:
        assert collection.unknown_keys() == ["a", "fgh", "later", "r", "zz\\xff"]
        assert [record.meta["record_id"] for record in collection] == ["r0", "r1", "r2"]
