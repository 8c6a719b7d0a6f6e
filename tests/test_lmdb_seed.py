"""The collection of "Layout by example", key by key and byte by byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
from collection_stores import contents, key, parts
from seed_collection import build_forcefield, build_records, listing, page_listing, write_conformers
from seed_examples import page

from molrec_convert.stores.lmdb.reader import open_collection


def test_listing_is_the_page(tmp_path: Path, shared: Path) -> None:
    """Keys, header, padding and payload sizes, steps, meta, every block with its buffers, in the file's order."""
    written = listing(write_conformers(tmp_path / "conformers.mrec.lmdb"))
    expected = page_listing(shared)
    assert len(expected) > 40
    assert written == expected


def test_header_sizes_named_by_the_contract(tmp_path: Path) -> None:
    values = contents(write_conformers(tmp_path / "c.mrec.lmdb"))
    sizes = {name: int.from_bytes(value[4:8], "little") for name, value in values.items() if value[:4] == b"MRF1"}
    assert [sizes[key("f", n)] for n in range(5)] == [228, 228, 42, 228, 228]
    assert [sizes[key("s", n)] for n in range(2)] == [523, 523]
    assert (sizes[b"index"], sizes[b"ff"]) == (353, 2495)


def test_annotated_value_byte_by_byte(tmp_path: Path, shared: Path) -> None:
    """`f‖u64be(1)` is the page's byte map."""
    lines = page(shared)
    start = next(i for i, line in enumerate(lines) if line.startswith("key f ‖ u64be(1) ="))
    text = "\n".join(lines[start : start + 30])
    header = text[text.index("{") : text.index("[236, 240)")]
    expected = b"MRF1" + (228).to_bytes(4, "little")
    expected += json.dumps(json.loads(header), separators=(",", ":")).encode() + bytes(4)
    for values in re.findall(r"atoms/\w\s+f64 = (\[.*\])", text):
        expected += np.array(json.loads(values)).tobytes()
    value = contents(write_conformers(tmp_path / "c.mrec.lmdb"))[key("f", 1)]
    assert len(value) == 336
    assert value == expected


def test_the_collection_reads_back(tmp_path: Path) -> None:
    records, forcefield = build_records(), build_forcefield()
    with open_collection(write_conformers(tmp_path / "c.mrec.lmdb"), verify=True) as collection:
        assert (len(collection), collection.n_frames) == (2, 5)
        assert collection.units == {"length": "angstrom", "energy": "kcal/mol"}
        assert collection.document["molrec_version"] == 1
        assert collection.index["smiles"].tolist() == ["OO", "OO"]
        assert collection.index["first_frame"].tolist() == [0, 3]
        for record, given in zip(collection, records, strict=True):
            assert record.meta == given.meta
            assert record.system == given.system
            assert record.trajectory is not None
            energies = [frame.meta["pe"] for frame in record.trajectory]
            assert energies == [-12.4, -12.3, -12.2][: len(energies)]
        third = collection[0].trajectory[2]
        assert third["atoms"]["x"].tolist() == collection[0].trajectory[1]["atoms"]["x"].tolist()
        assert third["atoms"].columns["x"].precision == 1e-3
        read = collection.forcefield
        assert read is not None
        assert read.document == forcefield.document
        assert read.tables == forcefield.tables
        assert list(read.tables) == list(forcefield.tables)


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    first = contents(write_conformers(tmp_path / "a.mrec.lmdb"))
    assert first == contents(write_conformers(tmp_path / "b.mrec.lmdb"))
    assert parts(first[b"index"])[0]["meta"] == {}
