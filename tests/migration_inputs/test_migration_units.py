"""Migrations into other units than the inputs state: every number of known dimension goes along, and verify agrees."""

from __future__ import annotations

import ase.db
import ase.units
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator
from migration_inputs import extxyz, run

import molrec_convert
from molrec_convert.errors import UnsupportedError
from molrec_convert.migration.settings import parse_units
from molrec_convert.migration.verify import verify_collection
from molrec_convert.model import Block, Column, Frame, MemoryTrajectory, Meta, Record


@pytest.fixture
def mixed(tmp_path):
    """A record in real units with pressures, and a database with key-value pairs and documents."""
    draw = np.random.default_rng(1)

    def frame(number: int) -> Frame:
        columns = {name: Column(draw.normal(size=2)) for name in ("x", "y", "z", "vx", "vy", "vz", "fx", "fy", "fz")}
        meta = Meta({"pe": draw.normal(), "press": 1000 + number / 3, "temp": 300.0})
        return Frame({"atoms": Block(columns)}, meta)

    system = Frame({"atoms": Block({"element": Column(np.array(["O", "H"], np.dtypes.StringDType()))})})
    system.meta.put("units", {"preset": "real"}, "json")
    record = Record(system=system, trajectory=MemoryTrajectory([frame(number) for number in range(3)]))
    molrec_convert.write(record, tmp_path / "r.mrec")
    with ase.db.connect(tmp_path / "a.db") as database:
        for number in range(3):
            atoms = ase.Atoms("OH", draw.normal(size=(2, 3)), cell=[9, 9, 9], pbc=True)
            results = {"energy": draw.normal(), "forces": draw.normal(size=(2, 3)), "stress": draw.normal(size=6)}
            atoms.calc = SinglePointCalculator(atoms, **results)
            data = {"energy": 1.5 + number, "steps": {"length": [0.5, number / 7]}, "label": "x"}
            database.write(atoms, gap=1 + number / 3, name=f"n{number}", data=data)
    return tmp_path


def is_verified_in(target, inputs):
    with molrec_convert.open(target) as collection:
        return verify_collection(collection, [str(path) for path in inputs]).is_equal


def test_records_in_other_units_verify_equal(mixed):
    inputs = [mixed / "r.mrec"]
    for split in (None, "frames"):
        target = mixed / f"{split}.mrec.lmdb"
        assert not run(inputs, target, split=split).failures
        assert is_verified_in(target, inputs)
        with molrec_convert.open(target) as collection, molrec_convert.open(inputs[0]) as record:
            ours, theirs = collection[0].trajectory[0], record.trajectory[0]
            assert ours.meta["press"] == theirs.meta["press"] * 1.01325
            assert ours.meta["pe"] == pytest.approx(theirs.meta["pe"] * ase.units.kcal / ase.units.mol, rel=1e-6)
            assert ours.meta["temp"] == theirs.meta["temp"]
            speed = ours["atoms"]["vx"] / theirs["atoms"]["vx"]
            assert speed == pytest.approx([1000, 1000])


def test_pairs_and_documents_of_rows_in_other_units_verify_equal(mixed):
    target = mixed / "a.mrec.lmdb"
    real = parse_units("real")
    outcome = run([mixed / "a.db"], target, units=real, dimensions={"gap": "energy"}, index=("gap",))
    assert not outcome.failures
    assert not outcome.report.warnings
    assert is_verified_in(target, [mixed / "a.db"])
    factor = ase.units.mol / ase.units.kcal
    with molrec_convert.open(target) as collection:
        for number, record in enumerate(collection):
            assert record.system.meta["gap"] == pytest.approx((1 + number / 3) * factor, rel=1e-6)
            assert collection.index["gap"][number] == record.system.meta["gap"]
            assert record.system.meta["ase.data"]["energy"] == pytest.approx((1.5 + number) * factor, rel=1e-6)
    # and back: what ASE reads is what it wrote
    molrec_convert.convert(target, mixed / "b.db", dimensions={"gap": "energy"})
    for ours, theirs in zip(
        ase.db.connect(mixed / "b.db").select(), ase.db.connect(mixed / "a.db").select(), strict=True
    ):
        assert ours.gap == pytest.approx(theirs.gap, rel=1e-12)
        assert ours.energy == pytest.approx(theirs.energy, rel=1e-12)
        assert ours.stress == pytest.approx(theirs.stress, rel=1e-12)
        assert ours.data["energy"] == pytest.approx(theirs.data["energy"], rel=1e-12)
        assert ours.data["steps"]["length"] == pytest.approx(theirs.data["steps"]["length"], rel=1e-12)


def test_pairs_of_no_known_dimension_are_named(mixed):
    target = mixed / "a.mrec.lmdb"
    outcome = run([mixed / "a.db"], target, units=parse_units("real"))
    (told,) = outcome.report.warnings
    assert "a.db: left as they are, as their dimension is not known: gap; --dimension gap=energy names it" in told
    with molrec_convert.open(target) as collection:
        assert [record.system.meta["gap"] for record in collection] == [1 + number / 3 for number in range(3)]
    assert not run([mixed / "a.db"], mixed / "b.mrec.lmdb").report.warnings
    run([mixed / "a.db"], mixed / "c.mrec.lmdb", units=parse_units("real"), dimensions={"gap": "none"})


def test_the_index_of_a_converted_collection_is_in_its_units(mixed):
    for source in (mixed / "a.db", mixed / "e.mrec.lmdb"):
        target = mixed / f"{source.stem}-real.mrec.lmdb"
        molrec_convert.convert(mixed / "a.db", mixed / "e.mrec.lmdb", overwrite=True)
        molrec_convert.convert(source, target, target_units="real", dimensions={"gap": "energy"})
        with molrec_convert.open(target) as collection:
            gaps = [record.system.meta["gap"] for record in collection]
            assert gaps[0] == pytest.approx(ase.units.mol / ase.units.kcal, rel=1e-6)
            assert collection.index["gap"].tolist() == gaps
        with pytest.raises(UnsupportedError, match="dimension of gap is not known"):
            molrec_convert.convert(source, mixed / "f.mrec.lmdb", target_units="real")


def test_units_of_rules_verify_equal(mixed):
    for number in range(2):
        (mixed / f"x{number}.extxyz").write_text(extxyz(number, atoms=2))
    inputs = [mixed / "x0.extxyz", mixed / "x1.extxyz"]
    rule = {"match": ["x1.extxyz"], "units": "real"}
    target = mixed / "x.mrec.lmdb"
    assert not run(inputs, target, rules=(rule,)).failures
    assert is_verified_in(target, inputs)
