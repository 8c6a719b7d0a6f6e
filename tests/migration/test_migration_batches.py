"""Records that are encoded many at a time become the same keys and values as those encoded one by one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from collection_stores import contents
from migration_inputs import extxyz, make_files, run, same_collection

from molrec_convert.migration.encode import Encoder
from molrec_convert.migration.inputs.tasks import EncodedBatch
from molrec_convert.model import Coded, RecordBatch, RecordColumns

SETTINGS = [{}, {"dedupe": True}, {"shard_records": 7}, {"index": ("kind",)}, {"fill": {"extra": "NaN"}}]


def database(path: Path, kind: str) -> Path:
    """Rows alike, or with everything a row can have, each with something else."""
    ase = pytest.importorskip("ase")
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.constraints import FixAtoms
    from ase.db import connect

    draw = random.Random(3)
    with connect(path) as rows:
        for number in range(30):
            count = 3 if kind == "alike" else 1 + number % 4
            atoms = ase.Atoms("CHOH"[:count], positions=[[draw.random()] * 3 for _ in range(count)])
            pairs = {"kind": f"k{number % 5}\u00e9", "n": number, "x": draw.random()}
            if kind == "alike":
                atoms.set_cell([5.0 + number % 2, 6, 7])
                atoms.pbc = True
            else:
                atoms.set_tags(range(count))
                if number % 3 == 0:
                    atoms.set_constraint(FixAtoms([0]))
                    pairs["note"] = 'a "quoted" \\ text\n'
                if number % 5 == 0:
                    atoms.set_cell([5.0, 6, 7 + draw.random()])
                if number % 7 == 0:
                    atoms.numbers[0] = 0
            if kind == "alike" or number % 2:
                forces = [[draw.random()] * 3 for _ in range(count)]
                energy = float("nan") if number == 9 else draw.random()
                atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=forces, stress=[draw.random()] * 6)
            data = {} if kind == "alike" or number % 4 else {"a": [1, number]}
            rows.write(atoms, data=data, **pairs)
    return path


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Encoder, "_encoded", lambda *_: None)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", ["alike", "each another"])
def test_rows_of_a_database(tmp_path, monkeypatch, kind, settings):
    path = database(tmp_path / "a.db", kind)
    run([path], tmp_path / "many.mrec.lmdb", **settings)
    one_by_one(monkeypatch)
    run([path], tmp_path / "single.mrec.lmdb", **settings)
    assert same(tmp_path / "many.mrec.lmdb", tmp_path / "single.mrec.lmdb")


@pytest.mark.parametrize("settings", SETTINGS[:3])
def test_small_files(tmp_path, monkeypatch, settings):
    make_files(tmp_path / "in", 20)
    make_files(tmp_path / "in", 5, first=5)
    (tmp_path / "in" / "c00099.extxyz").write_text(extxyz(7, frames=4))
    (tmp_path / "in" / "c00098.extxyz").write_text(extxyz(3))
    run([tmp_path / "in"], tmp_path / "many.mrec.lmdb", **settings)
    one_by_one(monkeypatch)
    run([tmp_path / "in"], tmp_path / "single.mrec.lmdb", **settings)
    assert same(tmp_path / "many.mrec.lmdb", tmp_path / "single.mrec.lmdb")


@pytest.mark.parametrize("count", [None, 4])
def test_frames_of_a_long_file(tmp_path, monkeypatch, count):
    path = tmp_path / "a.extxyz"
    path.write_text(extxyz(2, atoms=count, frames=60) + extxyz(4, atoms=count, frames=3, config='"a \u00e9 b"'))
    run([path], tmp_path / "many.mrec.lmdb", split="frames")
    one_by_one(monkeypatch)
    run([path], tmp_path / "single.mrec.lmdb", split="frames")
    assert same_collection(tmp_path / "many.mrec.lmdb", tmp_path / "single.mrec.lmdb")


def test_rows_alike_take_the_short_way(tmp_path, monkeypatch):
    """Or the tests above would compare single records with single records."""
    seen = []
    single = EncodedBatch.single
    monkeypatch.setattr(EncodedBatch, "single", lambda event: seen.append(len(event.entries)) or single(event))
    run([database(tmp_path / "a.db", "alike")], tmp_path / "a.mrec.lmdb", dedupe=True)
    make_files(tmp_path / "in", 8)
    run([tmp_path / "in"], tmp_path / "b.mrec.lmdb", dedupe=True)
    assert seen == [30, *[1] * 8]


def test_groups_of_texts():
    import numpy as np

    from molrec_convert.model import Declaration, FrameBatch

    counts = np.array([2, 0, 2, 1])
    texts = np.array(["C", "H", "C", "H", "C"], np.dtypes.StringDType())
    coded = Coded(np.array([5, 7, 5, 7, 5]), ("", "", "", "", "", "C", "", "H"))
    columns = RecordColumns(Declaration(), counts, FrameBatch(np.zeros(4, np.int64)), {"a": texts, "b": coded})
    assert isinstance(RecordBatch(4, lambda start: iter(()), columns), RecordBatch)
    for name in "ab":
        groups = columns.text_groups[name]
        assert [groups.lists[number] for number in groups.of] == [["C", "H"], [], ["C", "H"], ["C"]]
        assert len(groups.lists) == 3


def same(a: Path, b: Path) -> bool:
    if a.is_dir():
        parts = sorted(path.name for path in a.glob("part-*"))
        return bool(parts) and all(contents(a / name) == contents(b / name) for name in parts)
    return same_collection(a, b)
