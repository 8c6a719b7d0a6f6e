"""ASE's `.traj` files: every field as ASE reads it."""

import json

import pytest

pytest.importorskip("ase")

import ase_atoms
import corpus_index
import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.io import Trajectory
from ase.io.ulm import Writer

import molrec_convert
from molrec_convert import FormatError, Record, Report


def frames(count=4):
    found = []
    for number in range(count):
        atoms = Atoms("CO", positions=[[0, 0, 0], [0, 0, 1 + number]], cell=[5, 6, 7], pbc=[1, 0, 1])
        atoms.set_momenta(np.full((2, 3), 0.1 * number))
        atoms.set_tags([number, 1])
        atoms.set_constraint(FixAtoms([1]))
        atoms.info["n"] = number
        atoms.calc = SinglePointCalculator(
            atoms, energy=float(number), forces=np.ones((2, 3)), stress=np.arange(6.0), dipole=np.arange(3.0)
        )
        found.append(atoms)
    return found


def write(path, images):
    with Trajectory(path, "w") as target:
        for image in images:
            target.write(image)
    return path


def test_corpus_files_give_their_index_values(corpus):
    rows = corpus_index.rows("ase-traj")
    assert rows
    for row in rows:
        path = corpus / row["path"]
        other = json.loads(row["other"])["calc"]
        with molrec_convert.open(path) as record:
            assert record.trajectory.n_frames == int(row["n_frames"])
            first = record.trajectory[0]
            for number, words in ((0, row["first_atom_xyz"]), (-1, row["last_atom_xyz"])):
                found = [float(first["atoms"][axis][number]) for axis in "xyz"]
                assert found == pytest.approx([float(word) for word in words.split()], abs=1e-7)
            assert first.box.vectors.T.reshape(-1) == pytest.approx(
                [float(word) for word in row["cell_vectors"].split()], abs=1e-4
            )
            assert (first.meta["pe"], first.meta["free_energy"]) == (other["energy"], other["free_energy"])
            for theirs, ours in zip(Trajectory(path), record.iter_ase(), strict=True):
                ase_atoms.assert_same_atoms(theirs, ours)


@pytest.mark.parametrize("change", ["nothing", "numbers", "pbc", "count"])
def test_frames_with_headers_of_their_own(tmp_path, change):
    images = frames()
    if change == "numbers":
        images[2].numbers[:] = [7, 7]
    if change == "pbc":
        images[1].pbc = False
    if change == "count":
        images[3] = Atoms("H3", positions=np.eye(3))
    for image in images:
        if image.calc is not None:
            image.calc.atoms = image.copy()
    path = write(tmp_path / "a.traj", images)
    with molrec_convert.open(path) as record:
        assert isinstance(record, Record)
        for theirs, ours in zip(Trajectory(path), record.iter_ase(), strict=True):
            ase_atoms.assert_same_atoms(theirs, ours)
        molrec_convert.write(record, tmp_path / "a.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        for theirs, ours in zip(Trajectory(path), record.iter_ase(), strict=True):
            ase_atoms.assert_same_atoms(theirs, ours)
    with molrec_convert.read(path, as_="collection") as collection:
        assert len(collection) == 4
        ase_atoms.assert_same_atoms(Trajectory(path)[3], collection[3].to_ase())


def test_what_is_the_same_in_every_frame_is_of_the_system(tmp_path):
    with molrec_convert.open(write(tmp_path / "a.traj", frames())) as record:
        assert record.system["atoms"]["element"].tolist() == ["C", "O"]
        assert record.system["atoms"]["free"].tolist() == [True, False]
        assert record.trajectory[2]["atoms"]["tags"].tolist() == [2, 1]
        assert [frame.meta["n"] for frame in record.trajectory] == [0, 1, 2, 3]
        assert record.trajectory[1:4:2][1].meta["pe"] == 3.0


def test_a_file_that_breaks_off_gives_its_whole_frames(tmp_path):
    path = write(tmp_path / "a.traj", frames(3))
    whole = path.read_bytes()
    path.write_bytes(whole[:-300])
    report = Report()
    with molrec_convert.read(path, report=report) as record:
        assert 0 < record.trajectory.n_frames < 3
    assert len(report.truncations) == 1
    assert "whole" in report.truncations[0]
    path.write_bytes(whole[:300])
    with pytest.raises(FormatError, match=r"a\.traj"):
        molrec_convert.read(path)


def test_what_is_no_trajectory_is_one_sentence(tmp_path):
    empty = tmp_path / "e.traj"
    empty.write_bytes(b"")
    other = tmp_path / "o.traj"
    with Writer(other, tag="other") as target:
        target.write(x=1)
    text = tmp_path / "t.traj"
    text.write_text("hello")
    for path in (empty, other, text):
        with pytest.raises(FormatError) as caught:
            molrec_convert.read(path, format="ase-traj")
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)
