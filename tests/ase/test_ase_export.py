"""From any format to a database and back: nothing differs, or exactly what the report says is lost."""

import math
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("ase")

import ase.build
from ase.db import connect

import molrec_convert
from molrec_convert import Block, Box, Frame, MemoryTrajectory, Record, Report
from molrec_convert.errors import UsageError


def mrec(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "molrec_convert.cli", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def there_and_back(source, folder, **options):
    """The losses of a way to a database and back, and what `diff` says."""
    molrec_convert.convert(source, folder / "a.mrec", **options)
    report = molrec_convert.convert(folder / "a.mrec", folder / "b.db")
    molrec_convert.convert(folder / "b.db", folder / "c.mrec", as_="trajectory")
    return report, mrec("diff", folder / "a.mrec", folder / "c.mrec")


def run(count=5, **more):
    frames = []
    for number in range(count):
        atoms = {axis: np.arange(3.0) + number for axis in ("x", "y", "z", "vx", "vy", "vz")}
        frames.append(
            Frame(
                {"atoms": Block(atoms)},
                {"pe": -1.5 * number, "temp": 300.0},
                Box(np.eye(3) * 9),
                10 * number,
                0.1 * number,
            )
        )
    system = Frame({"atoms": Block({"element": ["O", "H", "H"], "mol_id": np.ones(3, "u8"), "charge": np.ones(3)})},
                   {"units": {"preset": "metal"}, "title": "007"})  # fmt: skip
    return Record(system=system, trajectory=MemoryTrajectory(frames), **more)


def test_a_run_comes_back(tmp_path):
    molrec_convert.write(run(), tmp_path / "run.mrec")
    report, (code, output) = there_and_back(tmp_path / "run.mrec", tmp_path)
    assert not report.lossy
    assert (code, output) == (0, "")
    with molrec_convert.open(tmp_path / "a.mrec") as one, molrec_convert.open(tmp_path / "c.mrec") as other:
        for a, b in zip(one.trajectory, other.trajectory, strict=True):
            assert (a.step, a.time, a.box, a.meta["pe"], a.meta["temp"]) == (
                b.step,
                b.time,
                b.box,
                b.meta["pe"],
                b.meta["temp"],
            )
            for name, column in a["atoms"].columns.items():
                assert column == b["atoms"].columns[name]
        assert other.system.meta["title"] == "007"
        there = {**one.system["atoms"].columns}
        found = {**other.system["atoms"].columns, **other.trajectory[0]["atoms"].columns}
        assert all(found[name] == column for name, column in there.items())


@pytest.mark.parametrize("name", ["files/ase-traj/own_MoS2.traj", "files/xyz/ase_opls_structure_ext.xyz"])
def test_corpus_files_come_back(corpus, tmp_path, name):
    report, (code, output) = there_and_back(corpus / name, tmp_path)
    assert not report.lossy
    if "traj" in name:
        assert (code, output) == (0, "")


@pytest.mark.parametrize("way", ["record", "collection"])
def test_what_is_predicted_is_what_is_reported(tmp_path, way):
    columns = {axis: np.arange(3.0) for axis in "xyz"}
    columns["odd"] = molrec_convert.Column(np.arange(3.0), np.array([True, False, True]))
    bonds = Block({"atomi": np.zeros(1, "u8"), "atomj": np.ones(1, "u8")})
    system = Frame({"atoms": Block({"element": ["O", "H", "H"]}), "bonds": bonds}, {"units": {"preset": "real"}})
    record = Record(system=system, trajectory=MemoryTrajectory([Frame({"atoms": Block(columns)})]))
    name = "a.mrec" if way == "record" else "a.mrec.lmdb"
    molrec_convert.write(record, tmp_path / name)
    predicted, made = Report(), Report()
    molrec_convert.convert(tmp_path / name, tmp_path / "b.db", dry_run=True, report=predicted)
    assert not (tmp_path / "b.db").exists()
    molrec_convert.convert(tmp_path / name, tmp_path / "b.db", report=made)
    assert predicted.losses() == made.losses()
    assert any("bonds" in loss for loss in made.losses())
    assert any("atoms/odd" in loss for loss in made.losses())
    with pytest.raises(molrec_convert.LossError):
        molrec_convert.convert(tmp_path / name, tmp_path / "d.db", strict=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["b.db", name])


def test_ase_reads_what_other_units_were(tmp_path):
    record = run()
    record.system.meta["units"] = {"preset": "real"}
    report = molrec_convert.write(record, tmp_path / "a.db")
    assert any(item.name == "units" for item in report.items)
    row = connect(tmp_path / "a.db").get(id=3)
    assert row.energy == -3.0 * (4184 / 6.02214076e23 / 1.602176634e-19)
    assert row.symbols == ["O", "H", "H"]
    assert row.toatoms().get_velocities()[1, 0] == pytest.approx(
        3e5 / math.sqrt(1.602176634e-19 / 1.66053906892e-27), rel=1e-12
    )
    assert row.initial_charges.tolist() == [1, 1, 1]
    assert row.temp == 300.0


def test_elements_are_told_on_the_command_line(tmp_path):
    atoms = {axis: np.zeros(2) for axis in "xyz"}
    record = Record(frame=Frame({"atoms": Block({"type_id": np.array([2, 1], "u8"), **atoms})}))
    molrec_convert.write(record, tmp_path / "a.mrec")
    code, output = mrec("convert", tmp_path / "a.mrec", tmp_path / "a.db")
    assert code == 2
    assert "--elements" in output
    assert not (tmp_path / "a.db").exists()
    assert mrec("convert", tmp_path / "a.mrec", tmp_path / "a.db", "--elements", "O,H")[0] == 0
    assert connect(tmp_path / "a.db").get(id=1).symbols == ["H", "O"]


def test_streams(tmp_path):
    molrec_convert.write(molrec_convert.from_ase([ase.build.molecule("H2O")], "collection"), tmp_path / "a.db")
    done = subprocess.run(
        [sys.executable, "-m", "molrec_convert.cli", "convert", "-", "-", "--to", "ase-db"],
        input=(tmp_path / "a.db").read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (tmp_path / "b.db").write_bytes(done.stdout)
    assert connect(tmp_path / "b.db").get(id=1).formula == "H2O"


def test_a_prediction_refuses_atoms_without_an_element(tmp_path):
    frame = Frame({"atoms": Block({"type": ["1", "2"], **{name: np.zeros(2) for name in "xyz"}})})
    molrec_convert.write(Record(trajectory=MemoryTrajectory([frame])), tmp_path / "a.mrec")
    with pytest.raises(UsageError, match="name the element of each type"):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.db", dry_run=True)
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.db", dry_run=True, elements=("O", "H"))
