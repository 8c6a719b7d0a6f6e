"""The collection of the layout page: what its bytes are, and that it reads back."""

from __future__ import annotations

from pathlib import Path

from collection_stores import contents, key, parts
from layout_examples.collection import build_conformers, write_conformers
from layout_examples.peroxide import peroxide

from molrec_convert.stores.lmdb.reader import open_collection


def test_header_sizes_named_by_the_contract(tmp_path: Path) -> None:
    values = contents(write_conformers(tmp_path / "c.mrec.lmdb"))
    sizes = {name: int.from_bytes(value[4:8], "little") for name, value in values.items() if value[:4] == b"MRF1"}
    assert [sizes[key("f", n)] for n in range(5)] == [228, 228, 42, 228, 228]
    assert [sizes[key("s", n)] for n in range(2)] == [523, 523]
    assert (sizes[b"index"], sizes[b"ff"]) == (353, 2495)


def test_the_collection_reads_back(tmp_path: Path) -> None:
    records, forcefield = build_conformers(), peroxide()
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
