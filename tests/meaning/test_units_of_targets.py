"""Units of what is written: the format's own, or those asked for; one set in a file, the same double on every way."""

from pathlib import Path

import ase.db
import ase.io
import ase.units
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.meaning.units import in_units
from molrec_convert.model import Block, Box, Column, Frame, MemoryTrajectory, Meta, Record
from molrec_convert.quantities.units import PRESETS, conversion_factor
from molrec_convert.report import Report

RUN = Path(__file__).parents[2] / "fixtures/water-run"
EV = conversion_factor("kcal/mol", "eV")
assert EV is not None


def one_atom(units: object = "real", **columns: float) -> Record:
    """Return a record of one argon atom in two frames."""
    columns = {"x": 1.0, "y": 2.0, "z": 3.0, **columns}
    frames = []
    for step in (0, 10):
        meta = Meta({"pe": -3.0 + step, "press": 2.0, "gap": 1.0, "volume": 8.0})
        block = Block({name: np.array([value + step]) for name, value in columns.items()})
        frames.append(Frame({"atoms": block}, meta, Box(np.eye(3) * 9.0), step=step, time=float(step)))
    atoms = Block({"element": Column(np.array(["Ar"], np.dtypes.StringDType())), "charge": np.array([0.5])})
    system = Frame({"atoms": atoms})
    if units is not None:
        system.meta.put("units", {"preset": units} if isinstance(units, str) else units, "json")
    return Record(system=system, trajectory=MemoryTrajectory(frames))


def test_a_run_in_kilocalories_is_in_electron_volts_for_ase(tmp_path: Path) -> None:
    molrec_convert.convert(RUN, tmp_path / "w.mrec", elements=("O", "H"))
    report = molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "w.extxyz")
    molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "w.db")
    with molrec_convert.open(tmp_path / "w.mrec") as record:
        last = record.trajectory[-1]
        energy, speed = last.meta["pe"], last["atoms"]["vx"]
    read = ase.io.read(tmp_path / "w.extxyz")
    assert read.get_potential_energy() == energy * EV
    row = list(ase.db.connect(tmp_path / "w.db").select())[-1]
    assert row.energy == energy * EV
    np.testing.assert_allclose(row.toatoms().get_velocities()[:, 0] * ase.units.fs, speed, rtol=1e-8)
    assert row.etotal == pytest.approx(row.energy + row.ke, rel=1e-6)
    units = [str(item) for item in report.items if item.name == "units"]
    assert units == ["derived: units (converted from real to metal)"]


def test_a_dimension_of_a_name_that_is_not_there_is_told(tmp_path: Path) -> None:
    report = molrec_convert.write(
        one_atom(strange=1.5), tmp_path / "u.mrec", target_units="metal",
        dimensions={"gap": "energy", "gpa": "energy", "strange": "none"},
    )  # fmt: skip
    assert "--dimension gpa: there are no numbers of that name" in report.warnings


def test_one_factor_on_every_way(tmp_path: Path) -> None:
    record = one_atom(fx=100.0, fy=0.0, fz=0.0)
    molrec_convert.write(record, tmp_path / "u.mrec")
    molrec_convert.convert(tmp_path / "u.mrec", tmp_path / "u.db", dimensions={"gap": "energy"})
    molrec_convert.convert(tmp_path / "u.mrec", tmp_path / "m.mrec", target_units="metal", dimensions={"gap": "energy"})
    molrec_convert.convert(tmp_path / "u.mrec", tmp_path / "u.extxyz")
    molrec_convert.convert(tmp_path / "u.mrec", tmp_path / "u.lammpstrj", target_units="metal")
    with molrec_convert.open(tmp_path / "m.mrec") as metal, molrec_convert.open(tmp_path / "u.lammpstrj") as dump:
        ways = {
            ase.db.connect(tmp_path / "u.db").get(1).forces[0, 0],
            ase.io.read(tmp_path / "u.extxyz", 0).get_forces()[0, 0],
            metal.trajectory[0]["atoms"]["fx"][0],
            dump.trajectory[0]["atoms"]["fx"][0],
        }
        assert metal.trajectory[0].meta["press"] == 2.0 * 1.01325
        assert metal.units == {"preset": "metal"}
    assert ways == {100.0 * EV}


def test_units_asked_for(tmp_path: Path) -> None:
    record = one_atom(vx=1.0, vy=0.0, vz=0.0)
    known = {"gap": "none"}
    molrec_convert.write(record, tmp_path / "n.mrec", target_units="length=nm,energy=kJ/mol", dimensions=known)
    with molrec_convert.open(tmp_path / "n.mrec") as stored:
        frame = stored.trajectory[0]
        assert frame["atoms"]["x"][0] == 0.1
        assert frame.box.vectors[0, 0] == 9.0 * 0.1
        assert frame.meta["pe"] == -3.0 * 4.184
        assert frame.meta["gap"] == 1.0
        assert frame.meta["volume"] == 8.0 * 0.001
        assert stored.units["length"] == "nm"
        assert stored.units["pressure"] == "atm"
        assert frame["atoms"]["vx"][0] == 0.1
    report = molrec_convert.write(record, tmp_path / "none.extxyz", target_units="none")
    assert "energy=-3" in (tmp_path / "none.extxyz").read_text()
    assert any("as they are, in real" in item.detail for item in report.items if item.name == "units")
    molrec_convert.write(record, tmp_path / "c.mrec.lmdb", target_units="metal", dimensions=known)
    with molrec_convert.open(tmp_path / "c.mrec.lmdb") as collection:
        assert collection.units["energy"] == "eV"
        assert collection.frame(0).meta["pe"] == -3.0 * EV
        molrec_convert.write(
            collection, tmp_path / "d.mrec.lmdb", target_units={"energy": "kcal/mol"}, dimensions=known
        )
    with molrec_convert.open(tmp_path / "d.mrec.lmdb") as back:
        assert back.units["energy"] == "kcal/mol"
        assert back.frame(0).meta["pe"] == pytest.approx(-3.0, rel=1e-15)
        assert back.units.get("force") in (None, "kcal/mol/angstrom")


def test_numbers_of_unknown_dimension_are_named(tmp_path: Path) -> None:
    record = one_atom(strange=1.5)
    with pytest.raises(UnsupportedError, match=r"dimension of .*gap.* is not known.*--dimension"):
        molrec_convert.write(record, tmp_path / "a.mrec", target_units="metal")
    assert not (tmp_path / "a.mrec").exists()
    report = molrec_convert.write(record, tmp_path / "a.extxyz")
    assert any("atoms/strange, gap" in text and "--dimension" in text for text in report.warnings)


def test_units_nobody_states_and_reduced_ones(tmp_path: Path) -> None:
    report = molrec_convert.write(one_atom(None), tmp_path / "a.extxyz")
    assert any("does not state its units" in text for text in report.warnings)
    assert ase.io.read(tmp_path / "a.extxyz", 0).get_potential_energy() == -3.0
    report = molrec_convert.write(one_atom("lj"), tmp_path / "b.extxyz")
    assert any("reduced units" in text for text in report.warnings)
    for units in (None, "lj"):
        with pytest.raises(UnsupportedError, match=r"does not state its units|reduced units"):
            molrec_convert.write(one_atom(units), tmp_path / "c.mrec", target_units="metal")


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ("metall", "did you mean metal"), ("energy=angstrom", "is no unit of energy"), ("lenght=nm", "mean length"),
        ("energy=kcal", "such as kcal/mol"), ("", "names no unit"),
    ],
)  # fmt: skip
def test_wrong_units_are_refused(asked: str, match: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=match):
        molrec_convert.write(one_atom(), tmp_path / "a.mrec", target_units=asked)
    assert not (tmp_path / "a.mrec").exists()


def test_only_what_the_source_states_is_stated_afterwards() -> None:
    made = in_units(one_atom({"length": "nm", "energy": "kJ/mol"}), {"preset": "metal"}, report=Report(), strict=False)
    assert isinstance(made, Record)
    assert made.trajectory is not None
    assert made.trajectory[1].time == 10.0
    assert made.trajectory[0]["atoms"]["x"][0] == 10.0
    assert "time" not in made.units
    assert made.units["length"] == "angstrom"


NAMES = [name for name in PRESETS if name != "lj"]


@settings(max_examples=40)
@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(-1e3, 1e3, allow_subnormal=False))
def test_there_and_back(source: str, target: str, value: float) -> None:
    record = one_atom(source, vx=value, vy=0.0, vz=0.0, fx=value, fy=0.0, fz=0.0)
    known = {"gap": "none"}
    there = in_units(record, {"preset": target}, dimensions=known)
    back = in_units(there, {"preset": source}, dimensions=known)
    assert isinstance(back, Record)
    assert back.trajectory is not None
    assert record.trajectory is not None
    for own, frame in zip(record.trajectory, back.trajectory, strict=True):
        for name in ("x", "vx", "fx"):
            np.testing.assert_allclose(frame["atoms"][name], own["atoms"][name], rtol=1e-15 * 4)
        assert frame.meta["pe"] == pytest.approx(own.meta["pe"], rel=1e-14)
        assert frame.time == pytest.approx(own.time, rel=1e-14)
