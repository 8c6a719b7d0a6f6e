"""MolRec inside ASE: `ase.io`, `ase convert`, `ase gui` know it once the package is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ase")

import ase.build
import ase.io
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.io.formats import ioformats
from ase_atoms import assert_same_atoms

import molrec_convert
from molrec_convert import UsageError


def test_ase_knows_the_format():
    assert "mrec" in ioformats


def images(count=6):
    found = []
    for number in range(count):
        atoms = ase.build.bulk("Cu", cubic=True)
        atoms.positions += 0.01 * number
        atoms.set_constraint(FixAtoms([0]))
        atoms.info["label"] = f"n{number}"
        atoms.calc = SinglePointCalculator(atoms, energy=-1.0 * number, forces=np.full((4, 3), 0.5))
        found.append(atoms)
    return found


def call(*arguments, **options):
    tool = Path(sys.executable).with_name("ase")
    return subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("name", ["run.mrec.zip", "run.mrec", "run.mrec.lmdb"])
def test_files_are_read_and_written(tmp_path, name):
    source = images()
    ase.io.write(tmp_path / name, source, format="mrec")
    for atoms, again in zip(source, ase.io.read(tmp_path / name, ":", format="mrec"), strict=True):
        assert_same_atoms(atoms, again)
    found = ase.io.read(tmp_path / name, "0:10:2", format="mrec")
    assert [atoms.info["label"] for atoms in found] == ["n0", "n2", "n4"]
    assert ase.io.read(tmp_path / name, format="mrec").info["label"] == "n5"
    assert ase.io.read(tmp_path / name, 2, format="mrec").info["label"] == "n2"
    assert ase.io.read(tmp_path / name, -2, format="mrec").info["label"] == "n4"
    backward = ase.io.read(tmp_path / name, "4:1:-2", format="mrec")
    assert [atoms.info["label"] for atoms in backward] == ["n4", "n2"]
    lazily = ase.io.iread(tmp_path / name, "1:3", format="mrec")
    assert [atoms.get_potential_energy() for atoms in lazily] == [-1.0, -2.0]


def test_packed_records_need_no_name_of_the_format(tmp_path):
    ase.io.write(tmp_path / "run.mrec.zip", images())
    assert len(ase.io.read(tmp_path / "run.mrec.zip", "0:10:2")) == 3
    assert len(ase.io.read(f"{tmp_path}/run.mrec.zip@1:3")) == 2


def test_a_name_in_use_is_overwritten_and_added_to(tmp_path):
    target = tmp_path / "x.mrec"
    ase.io.write(target, images(2), format="mrec")
    ase.io.write(target, images(1)[0], format="mrec")
    assert len(ase.io.read(target, ":", format="mrec")) == 1
    ase.io.write(target, images(3)[1:], format="mrec", append=True)
    assert [atoms.info["label"] for atoms in ase.io.read(target, ":", format="mrec")] == ["n0", "n1", "n2"]


def test_atoms_of_other_numbers_are_one_trajectory_or_a_collection(tmp_path):
    mixed = [Atoms("H"), Atoms("H2", positions=[[0, 0, 0], [0, 0, 1]])]
    for name in ("a.mrec", "a.mrec.lmdb"):
        ase.io.write(tmp_path / name, mixed, format="mrec")
        assert [len(atoms) for atoms in ase.io.read(tmp_path / name, ":", format="mrec")] == [1, 2]


def test_an_index_that_is_no_number_is_refused(tmp_path):
    ase.io.write(tmp_path / "x.mrec.zip", images(1))
    with pytest.raises(UsageError, match="a number or a slice"):
        list(ase.io.iread(tmp_path / "x.mrec.zip", "id=3"))


def test_a_record_without_elements_is_told_them(tmp_path):
    block = molrec_convert.Block({"type_id": np.array([1, 2], "u8"), **{axis: np.zeros(2) for axis in "xyz"}})
    record = molrec_convert.Record(frame=molrec_convert.Frame({"atoms": block}))
    molrec_convert.write(record, tmp_path / "x.mrec")
    with pytest.raises(UsageError, match="--elements"):
        ase.io.read(tmp_path / "x.mrec", format="mrec")
    assert str(ase.io.read(tmp_path / "x.mrec", format="mrec", elements=("O", "H")).symbols) == "OH"


@pytest.mark.slow
def test_ase_convert_knows_it(tmp_path):
    ase.io.write(tmp_path / "a.traj", images())
    done = call("convert", "-o", "mrec", tmp_path / "a.traj", tmp_path / "b.mrec")
    assert done.returncode == 0, done.stderr
    done = call("convert", "-i", "mrec", tmp_path / "b.mrec", tmp_path / "c.traj")
    assert done.returncode == 0, done.stderr
    done = call("convert", tmp_path / "a.traj", tmp_path / "d.mrec.zip")
    assert done.returncode == 0, done.stderr
    for atoms, again in zip(images(), ase.io.read(tmp_path / "c.traj", ":"), strict=True):
        assert atoms == again
        assert again.get_potential_energy() == atoms.get_potential_energy()
    assert "mrec" in call("info", "--formats").stdout


def test_ase_gui_reads_it(tmp_path):
    ase.io.write(tmp_path / "a.mrec.zip", images(3))
    done = call("gui", "-t", "-g", "i, e", tmp_path / "a.mrec.zip", env={**os.environ, "MPLBACKEND": "agg"})
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert [float(row[1]) for row in rows] == [0.0, -1.0, -2.0]


def test_nothing_is_left_where_writing_fails(tmp_path):
    bad = images(1)[0]
    bad.arrays["label"] = np.arange(4)
    other = images(1)[0]
    other.arrays["label"] = np.arange(4.0)
    with pytest.raises(UsageError, match="a column is of one kind"):
        ase.io.write(tmp_path / "x.mrec", [bad, other], format="mrec")
    assert list(tmp_path.iterdir()) == []
    shutil.rmtree(tmp_path)
