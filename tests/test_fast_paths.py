"""What is done for many at once is done for many at once: no function is called for each atom, nor for each frame.

Functions are counted (`counting_child.py`), not seconds: a reader or a writer that falls back to a slower way without a
word calls some for each row. Bounds lie a quarter above what was counted; they go down with what is counted, never up
without a reason.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import numpy as np
import pytest
from counting_child import data, dump, extxyz, mrec, plain_xyz

import molrec_convert
from molrec_convert._kernel import library, status
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Record,
)

#: Most calls for each further atom or row: next to none.
ATOM = 0.6
#: What there is one of → most calls for each further one.
READING = {
    "dump frames": 2,
    "dump frames at a precision": 2,
    "dump frames in any order of atoms": 2,
    "dump atoms": ATOM,
    "extended XYZ frames": 26,
    "extended XYZ atoms": ATOM,
    "XYZ frames": 58,
    "XYZ atoms": ATOM,
    "data file atoms": ATOM,
    "log rows": ATOM,
    "PDB atoms": ATOM,
    "PDB models": 26,
    "mmCIF atoms": ATOM,
}
WRITING = {
    "record to record frames": 2,
    "writing dump frames": 2,
    "writing dump atoms": ATOM,
    "writing extended XYZ atoms": ATOM,
    "writing a data file's atoms": ATOM,
    "writing PDB atoms": ATOM,
    "scanning frames at a precision": ATOM,
    "scanning one column": ATOM,
}
COLLECTIONS = {
    "extended XYZ frames of any size": 215,
    "extended XYZ frames to a collection": 215,
    "merging records": 31,
    "selecting records": 135,
    "migration of the frames of an XYZ file": 120,
    "migration of the frames of a dump": 73,
    "migration of rows of a database": 88,
}
MIGRATIONS = {
    "migration of XYZ files": 860,
    "migration of dump files": 9900,
    "migration of PDB files": 1820,
    "migration of data files": 5600,
}


@pytest.mark.parametrize(
    "bounds", [READING, WRITING, COLLECTIONS, MIGRATIONS], ids=["read", "write", "many", "migrate"]
)
def test_nothing_is_called_for_each(bounds: dict[str, float], tmp_path: Path) -> None:
    child = Path(__file__).parent / "support" / "counting_child.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", child, tmp_path, *bounds]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: count for name, count in found.items() if count > bounds[name]} == {}


#: Input → its rows, all of which the kernel has to read. Pieces of a file may be read twice, to find out what it holds.
ROWS: dict[str, tuple[Callable[[Path], Path], int]] = {
    "dump": (lambda folder: dump(folder / "in.lammpstrj", 20, 30), 600),
    "dump, atoms in any order": (lambda folder: dump(folder / "in.lammpstrj", 20, 30, shuffled=True), 600),
    "extended XYZ": (lambda folder: extxyz(folder / "in.extxyz", [30] * 20), 600),
    "XYZ": (lambda folder: plain_xyz(folder / "in.xyz", 20, 30), 600),
    "data file": (lambda folder: data(folder / "in.data", 300), 300 + 300 + 299),
}


@pytest.mark.skipif(library() is None, reason=f"rows are read by {status()}")
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_read_by_the_kernel(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, expected = ROWS[name]
    source, kernel, rows = make(tmp_path), library(), 0
    whole = kernel.molrec_read_rows

    def counted(text: int, size: int, spans: int, count: int, *rest: object) -> int:
        nonlocal rows
        rows += sum((ctypes.c_int64 * (3 * count)).from_address(spans)[2::3])
        return int(whole(text, size, spans, count, *rest))

    monkeypatch.setattr(kernel, "molrec_read_rows", counted)
    mrec("convert", source, tmp_path / "out.mrec")()
    assert expected <= rows <= 2 * expected


@pytest.mark.skipif(library() is None, reason=f"byte planes are split by {status()}")
def test_byte_planes_are_split_and_merged_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: dict[str, int] = {}

    def counting(name: str) -> Callable[..., object]:
        whole = getattr(library(), name)
        return lambda *arguments: (called.update({name: called.get(name, 0) + 1}), whole(*arguments))[1]

    for name in ("molrec_split_planes", "molrec_merge_planes"):
        monkeypatch.setattr(library(), name, counting(name))
    source = dump(tmp_path / "in.lammpstrj", 40, 200)
    mrec("convert", source, tmp_path / "out.mrec", "--precision", "1e-3")()
    assert called.get("molrec_split_planes", 0) >= 3
    with molrec_convert.open(tmp_path / "out.mrec") as record:
        assert isinstance(record, Record)
        assert record.trajectory is not None
        for batch in record.trajectory.batches():
            assert len(batch.blocks["atoms"].columns["x"])
    assert called.get("molrec_merge_planes", 0) >= 3


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count the bytes a process writes")
def test_an_append_writes_its_frames_and_no_others(tmp_path: Path) -> None:
    """However much a shard holds already: it is neither read nor written again."""
    declaration = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64")})})
    values = np.random.default_rng(1).random((50, 300))

    def frames(first: int, count: int) -> list[Frame]:
        steps = range(first, first + count)
        return [Frame({"atoms": Block({"x": values[step % 50]})}, step=step) for step in steps]

    molrec_convert.write(Record(trajectory=MemoryTrajectory(frames(0, 30), declaration)), tmp_path / "grown.mrec")

    def moved() -> int:
        lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(lines["rchar"]) + int(lines["wchar"])

    taken = []
    for turn in range(40):
        before = moved()
        with molrec_convert.append(tmp_path / "grown.mrec") as writer:
            for frame in frames(30 + 5 * turn, 5):
                writer.append_frame(frame)
        taken.append(moved() - before)
    assert max(taken[-10:]) < 1.2 * min(taken[:10])


@pytest.mark.parametrize("way", ["convert", "migrate", "merge", "select"])
def test_a_collection_has_full_pages(way: str, tmp_path: Path) -> None:
    """Keys are put in their order: LMDB halves a page where one comes between others."""
    source = extxyz(tmp_path / "in.extxyz", [2 + k % 3 for k in range(600)])
    target = tmp_path / "out.mrec.lmdb"
    made = tmp_path / "made.mrec.lmdb"
    convert = mrec("convert", source, made, "--as", "collection", "--units", "metal")
    if way == "convert":
        target = made
    convert()
    if way == "migrate":
        mrec("migrate", source, "-o", target, "--workers", 1, "--units", "metal")()
    elif way == "merge":
        mrec("merge", made, made, "-o", target)()
    elif way == "select":
        mrec("select", made, "n_atoms < 4", "-o", target)()
    with lmdb.open(str(target), subdir=False, readonly=True, lock=False) as store, store.begin() as reading:
        taken = sum(len(key) + len(value) + 8 for key, value in reading.cursor() if len(value) < 1500)
        pages = store.stat()["leaf_pages"]
        assert taken / (pages * store.stat()["psize"]) > 0.8
