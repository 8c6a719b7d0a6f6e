"""Extended XYZ: what labels, tensors, charges, velocities and units mean, as ASE reads them and programs write them."""

from pathlib import Path

import ase
import ase.io
import ase.units
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator

import molrec_convert
from molrec_convert.errors import FormatError
from molrec_convert.report import Report

FAULTS = Path(__file__).parents[2] / "fixtures/faults"
RUN = Path(__file__).parents[2] / "fixtures/water-run"
HARTREE = 27.211386245981167


def test_chosen_labels_are_the_energy_and_the_forces_both_ways(tmp_path: Path) -> None:
    labels = {"energy_key": "REF_energy", "forces_key": "REF_forces"}
    report = molrec_convert.convert(FAULTS / "energy_swap.extxyz", tmp_path / "a.mrec", units="metal", **labels)
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert record.quantity("energy").tolist() == [-1.0]
        np.testing.assert_array_equal(record.quantity("force")[0], [[0, 0, 5], [0, 0, 6]])
    assert report.losses() == []
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "plain.extxyz")
    read = ase.io.read(tmp_path / "plain.extxyz")
    assert read.get_potential_energy() == -1.0
    np.testing.assert_array_equal(read.get_forces(), [[0, 0, 5], [0, 0, 6]])
    assert read.info["other_energy"] == -100.0
    np.testing.assert_array_equal(read.arrays["other_forces"], [[0, 0, 1], [0, 0, 2]])
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "back.extxyz", **labels)
    again = ase.io.read(tmp_path / "back.extxyz")
    assert (again.info["REF_energy"], again.get_potential_energy()) == (-1.0, -100.0)
    np.testing.assert_array_equal(again.arrays["REF_forces"], [[0, 0, 5], [0, 0, 6]])
    np.testing.assert_array_equal(again.get_forces(), [[0, 0, 1], [0, 0, 2]])


def test_a_collection_is_written_with_the_keys_of_a_trainer(tmp_path: Path) -> None:
    frames = []
    for number in range(3):
        atoms = ase.Atoms("HO", [[0, 0, 0], [0, 0, 1.0 + number]])
        atoms.calc = SinglePointCalculator(atoms, energy=-number, forces=np.full((2, 3), float(number)))
        frames.append(atoms)
    ase.io.write(tmp_path / "train.extxyz", frames)
    molrec_convert.convert(tmp_path / "train.extxyz", tmp_path / "train.mrec.lmdb", units="metal")
    molrec_convert.convert(
        tmp_path / "train.mrec.lmdb", tmp_path / "mace.extxyz", energy_key="REF_energy", forces_key="REF_forces"
    )
    for number, atoms in enumerate(ase.io.iread(tmp_path / "mace.extxyz")):
        assert atoms.calc is None
        assert atoms.info["REF_energy"] == -number
        np.testing.assert_array_equal(atoms.arrays["REF_forces"], np.full((2, 3), float(number)))


def test_labels_that_are_not_there_or_no_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"dft_stress, as --stress-key says"):
        molrec_convert.convert(FAULTS / "energy_swap.extxyz", tmp_path / "a.mrec", stress_key="dft_stress")
    with pytest.raises(FormatError, match="expected dft_forces, as --forces-key says"):
        molrec_convert.convert(FAULTS / "energy_swap.extxyz", tmp_path / "a.mrec", forces_key="dft_forces")
    (tmp_path / "words.xyz").write_text("1\nwater\nH 0 0 0\n")
    with pytest.raises(FormatError, match="found comment 'water', expected a number"):
        molrec_convert.convert(tmp_path / "words.xyz", tmp_path / "a.mrec", energy_key="comment")
    assert not (tmp_path / "a.mrec").exists()


def test_an_energy_that_is_the_whole_comment(tmp_path: Path) -> None:
    (tmp_path / "e.xyz").write_text("1\n -1.5\nH 0 0 0\n1\n-2.25e0\nH 0 0 1\n")
    record = molrec_convert.read(tmp_path / "e.xyz", energy_key="comment")
    assert record.quantity("energy").tolist() == [-1.5, -2.25]


def test_stress_and_virial_are_read_and_written_as_ase_means_them(tmp_path: Path) -> None:
    atoms = ase.io.read(FAULTS / "stress.extxyz")
    voigt = atoms.get_stress()
    record = molrec_convert.read(FAULTS / "stress.extxyz")
    np.testing.assert_array_equal(record.quantity("stress", form="voigt")[0], voigt)
    molrec_convert.write(record, tmp_path / "s.extxyz")
    np.testing.assert_array_equal(ase.io.read(tmp_path / "s.extxyz").get_stress(), voigt)
    ase.io.write(tmp_path / "s.db", atoms)
    molrec_convert.convert(tmp_path / "s.db", tmp_path / "db.extxyz")
    np.testing.assert_array_equal(ase.io.read(tmp_path / "db.extxyz").get_stress(), voigt)
    ase.io.write(tmp_path / "s.traj", atoms)
    molrec_convert.convert(tmp_path / "s.traj", tmp_path / "traj.extxyz")
    np.testing.assert_array_equal(ase.io.read(tmp_path / "traj.extxyz").get_stress(), voigt)
    molrec_convert.write(record, tmp_path / "named.extxyz", stress_key="REF_stress")
    named = ase.io.read(tmp_path / "named.extxyz")
    np.testing.assert_array_equal(named.info["REF_stress"], atoms.get_stress(voigt=False).reshape(9))
    again = molrec_convert.read(tmp_path / "named.extxyz", stress_key="REF_stress")
    np.testing.assert_array_equal(again.quantity("stress"), record.quantity("stress"))


def test_a_tensor_that_is_not_symmetric_keeps_its_rows(tmp_path: Path) -> None:
    lattice = 'Lattice="2 0 0 0 2 0 0 0 2" Properties=species:S:1:pos:R:3'
    (tmp_path / "v.extxyz").write_text(f'1\n{lattice} virial="1 2 3 4 5 6 7 8 9" pbc="T T T"\nH 0 0 0\n')
    virial = ase.io.read(tmp_path / "v.extxyz").info["virial"]
    record = molrec_convert.read(tmp_path / "v.extxyz")
    np.testing.assert_array_equal(record.quantity("virial")[0], virial)
    np.testing.assert_allclose(record.quantity("stress")[0], -virial / 8.0)
    molrec_convert.write(record, tmp_path / "w.extxyz")
    np.testing.assert_array_equal(ase.io.read(tmp_path / "w.extxyz").info["virial"], virial)


def test_charges_keep_their_kind(tmp_path: Path) -> None:
    record = molrec_convert.read(FAULTS / "q_calc_ase.extxyz")
    assert record.quantity("computed_charge", frames=0).tolist() == [0.4, -0.4]
    assert record.quantity("charge") is None
    molrec_convert.write(record, tmp_path / "q.extxyz")
    read = ase.io.read(tmp_path / "q.extxyz")
    np.testing.assert_array_equal(read.get_charges(), [0.4, -0.4])
    assert not read.has("initial_charges")
    atoms = ase.Atoms("HCl", [[0, 0, 0], [0, 0, 1.3]])
    atoms.set_initial_charges([0.1, -0.1])
    ase.io.write(tmp_path / "i.extxyz", atoms)
    initial = molrec_convert.read(tmp_path / "i.extxyz")
    assert initial.quantity("charge").reshape(-1).tolist() == [0.1, -0.1]
    assert initial.quantity("computed_charge") is None
    molrec_convert.write(initial, tmp_path / "j.extxyz")
    np.testing.assert_array_equal(ase.io.read(tmp_path / "j.extxyz").get_initial_charges(), [0.1, -0.1])


def test_velocities_are_momenta_for_ase(tmp_path: Path) -> None:
    molrec_convert.convert(RUN, tmp_path / "w.mrec", elements="O,H")
    molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "w.extxyz")
    read = ase.io.read(tmp_path / "w.extxyz")
    with molrec_convert.open(tmp_path / "w.mrec") as record:
        kinetic = record.quantity("kinetic_energy", units="eV")[-1]
        speeds = record.quantity("velocity", units="angstrom/fs", frames=-1)
    assert read.get_kinetic_energy() == pytest.approx(kinetic, rel=1e-6)
    np.testing.assert_allclose(read.get_velocities() * ase.units.fs, speeds, rtol=1e-8)
    back = molrec_convert.read(tmp_path / "w.extxyz", units="real")
    np.testing.assert_allclose(back.quantity("velocity", frames=-1), speeds, rtol=1e-13)


def test_units_that_programs_state_themselves(tmp_path: Path) -> None:
    cp2k = molrec_convert.read(FAULTS / "cp2k-pos-1.xyz", units="metal")
    assert cp2k.trajectory.times.tolist() == [0.0, 0.0005]
    assert cp2k.quantity("energy").tolist() == [-17.1 * HARTREE, -17.2 * HARTREE]
    assert cp2k.units == {"preset": "metal"}
    own = molrec_convert.read(FAULTS / "cp2k-pos-1.xyz")
    assert own.units["time"] == "fs"
    assert own.trajectory.times.tolist() == [0.0, 0.5]
    ipi = molrec_convert.read(FAULTS / "ipi.xyz")
    assert ipi.units == {"length": "bohr"}
    frame = ipi.trajectory[0]
    np.testing.assert_array_equal(frame.box.vectors, np.eye(3) * 10.0)
    report = Report()
    molrec_convert.convert(FAULTS / "ipi.xyz", tmp_path / "i.extxyz", report=report)
    read = ase.io.read(tmp_path / "i.extxyz")
    assert read.positions[0, 0] == 0.529177210544
    np.testing.assert_allclose(read.cell.lengths(), [5.29177210544] * 3, rtol=1e-15)


def test_steps_and_times_of_lammps(tmp_path: Path) -> None:
    record = molrec_convert.read(FAULTS / "lammps-time.xyz")
    assert record.trajectory.steps.tolist() == [2500, 5000]
    assert record.trajectory[1].meta["time"] == 2.5
    assert "time" not in record.trajectory[0].meta


def test_what_looks_like_a_label_is_proposed(tmp_path: Path) -> None:
    text = "1\nProperties=species:S:1:pos:R:3:dft_forces:R:3 REF_energy=-1.0\nH 0 0 0 1 2 3\n"
    (tmp_path / "a.extxyz").write_text(text)
    report = Report()
    molrec_convert.read(tmp_path / "a.extxyz", report=report)
    assert any("--energy-key REF_energy makes it the energy" in text for text in report.warnings)
    assert any("--forces-key dft_forces makes it the forces" in text for text in report.warnings)


def test_a_number_beyond_the_range_of_doubles_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.extxyz").write_text("1\nProperties=species:S:1:pos:R:3 energy=1e400\nH 0 0 0\n")
    report = Report()
    molrec_convert.read(tmp_path / "a.extxyz", report=report)
    assert any("beyond the range of doubles" in line for line in report.losses())
