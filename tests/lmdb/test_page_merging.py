"""Files put together of whole pages: LMDB reads them and goes on with them, damage is refused and never followed."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from collection_stores import contents, key, molecule, points, raw, write

import molrec_convert
from molrec_convert import merge_collections
from molrec_convert.errors import FormatError, MolrecError
from molrec_convert.model import Record
from molrec_convert.stores.lmdb import merging
from molrec_convert.stores.lmdb.file.leaf_pages import LeafFile
from molrec_convert.stores.lmdb.file.page_tree import PageTree
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.file.store import StoreFile


def leaf(number: int, size: int) -> np.ndarray[Any, Any]:
    """A page with one key and a value of four bytes."""
    node = struct.pack("<HHHH", 4, 0, 0, 9) + key("f", number) + struct.pack("<I", number % 2**32)
    upper = size - len(node) - len(node) % 2
    page = struct.pack("<QHHHHH", 0, 0, 2, 18, upper, upper)
    return np.frombuffer(page + bytes(upper - len(page)) + node + bytes(len(node) % 2), np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 203, 204, 205, 206, 407, 408, 41_209, 41_210, 41_617])
def test_trees_of_any_number_of_pages(tmp_path: Path, count: int) -> None:
    """Also where a branch would be left with one child, at which LMDB stops the process."""
    file = StoreFile(tmp_path / "t.lmdb", map_size=2**28)
    size = file.page_size

    def build(out: Any) -> None:
        with PageTree(out, size) as tree:
            for first in range(0, count, 1000):
                numbers = range(first, min(first + 1000, count))
                keys = np.array([list(key("f", n)) for n in numbers], np.uint8)
                tree.add_leaves(np.stack([leaf(n, size) for n in numbers]), keys, len(numbers))
            tree.finish()

    file.fill(build)
    file.put([(b"meta", b"last"), (b"f" + bytes(7), b"first")])
    file.complete()
    with PageFile(tmp_path / "t.lmdb") as pages:
        assert pages.check() == count + 2
    with raw(tmp_path / "t.lmdb", write=True) as transaction:
        order = random.Random(count).sample(range(count), min(count, 300))
        assert all(transaction.get(key("f", n)) == struct.pack("<I", n) for n in (*order, 0, count - 1))
        assert [k for k, _ in transaction.cursor()] == [b"f" + bytes(7), *(key("f", n) for n in range(count)), b"meta"]
        for n in order:
            assert transaction.delete(key("f", n))
        transaction.put(key("f", count), b"x" * 5000)
    assert len(contents(tmp_path / "t.lmdb")) == count + 3 - len(order)


def some(path: Path, numbers: range) -> Path:
    """Values within pages and over several, records with and without a system."""
    records = [
        Record(
            meta={"record_id": f"r{n}", "note": "n" * (n * 37 % 1500)},
            system=molecule("OHCNO"[n % 5] * (1 + n * 17 % 900)) if n % 3 else None,
            trajectory=points(n, n % 3, atoms=1 + n * 17 % 900).trajectory,
        )
        for n in numbers
    ]
    return write(path, records)


def test_as_value_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and values give the same keys and values, and both what is written at once."""
    whole = some(tmp_path / "w.mrec.lmdb", range(400))
    cuts = [0, 1, 1, 150, 163, 400]
    parts = [some(tmp_path / f"{n}.mrec.lmdb", range(*pair)) for n, pair in enumerate(itertools.pairwise(cuts))]
    merge_collections(parts, tmp_path / "a.mrec.lmdb")
    with monkeypatch.context() as patch:
        patch.setattr(merging, "sys", type("Sys", (), {"byteorder": "big"}))
        merge_collections(parts, tmp_path / "b.mrec.lmdb")
    assert contents(tmp_path / "a.mrec.lmdb") == contents(tmp_path / "b.mrec.lmdb") == contents(whole)
    merge_collections([tmp_path / "a.mrec.lmdb"] * 2, tmp_path / "c.mrec.lmdb")
    for path in (tmp_path / "a.mrec.lmdb", tmp_path / "c.mrec.lmdb"):
        with PageFile(path) as pages:
            pages.check()
    # little is lost to pages that are not full
    assert (tmp_path / "a.mrec.lmdb").stat().st_size < 1.1 * whole.stat().st_size


def test_a_merged_collection_is_appended_to(tmp_path: Path) -> None:
    parts = [some(tmp_path / f"{n}.mrec.lmdb", range(n * 30, n * 30 + 30)) for n in range(3)]
    merge_collections(parts, tmp_path / "m.mrec.lmdb")
    with molrec_convert.append(tmp_path / "m.mrec.lmdb") as writer:
        writer.append(points(90))
    assert [r.meta["record_id"] for r in molrec_convert.open(tmp_path / "m.mrec.lmdb")] == [f"r{n}" for n in range(91)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_damage_is_refused_or_harmless(tmp_path: Path, seed: int) -> None:
    """Bytes changed anywhere: an error of ours, or a file whose pages are sound; never the end of the process."""
    source = some(tmp_path / "s.mrec.lmdb", range(60))
    whole, draw = source.read_bytes(), random.Random(seed)
    target = tmp_path / "m.mrec.lmdb"
    refused = 0
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 1, 3, 20])):
            page = draw.randrange(len(whole) // 4096) * 4096
            damaged[page + draw.choice([draw.randrange(4096), draw.randrange(40)])] = draw.randrange(256)
        source.write_bytes(damaged)
        try:
            merge_collections([source, source], target, overwrite=True)
        except MolrecError:
            refused += 1
            continue
        with PageFile(target) as pages:
            pages.check()
    assert refused
    assert not list(tmp_path.glob(".*"))


def test_pages_that_lead_nowhere(tmp_path: Path) -> None:
    source = some(tmp_path / "s.mrec.lmdb", range(60))
    whole = source.read_bytes()
    with PageFile(source) as pages:
        root = pages.root
    for change, text in (
        (struct.pack("<H", 2), "no branch page"),
        (struct.pack("<H", 4), "no branch page"),
    ):
        source.write_bytes(whole[: root * 4096 + 10] + change + whole[root * 4096 + 12 :])
        with pytest.raises(FormatError, match=text):
            LeafFile(str(source))
    source.write_bytes(whole[:-4096])
    with pytest.raises(FormatError, match="cut short"):
        LeafFile(str(source))
    assert lmdb.version()
