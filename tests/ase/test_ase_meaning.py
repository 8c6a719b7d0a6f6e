"""ASE: what units, stresses, charges, species, labels and what is missing mean, as ASE itself reads what is written."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ase")

import ase
import ase.io
import ase.units
from ase.calculators.singlepoint import SinglePointCalculator
from ase.db import connect

import molrec_convert
from molrec_convert import Block, Frame, MemoryTrajectory, Record, Report

FAULTS = Path(__file__).parents[2] / "fixtures/faults"
RUN = Path(__file__).parents[2] / "fixtures/water-run"
KCAL = 4184 / 6.02214076e23 / 1.602176634e-19


def only_row(path):
    (row,) = connect(path).select()
    return row


def test_one_set_of_units_stands_in_a_database(tmp_path):
    molrec_convert.convert(RUN, tmp_path / "w.mrec", elements="O,H")
    report = molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "w.db")
    assert any(item.name == "units" for item in report.items)
    rows = list(connect(tmp_path / "w.db").select())
    with molrec_convert.open(tmp_path / "w.mrec") as record:
        energies, totals, kinetic = (
            record.quantity(name, units="eV") for name in ("energy", "total_energy", "kinetic_energy")
        )
    for row, energy, total, moving in zip(rows, energies, totals, kinetic, strict=True):
        assert (row.energy, row.etotal, row.ke) == (energy, total, moving)
        assert row.etotal == pytest.approx(row.energy + row.ke, rel=1e-6)
        assert row.toatoms().get_kinetic_energy() == pytest.approx(row.ke, rel=1e-6)


def test_every_way_to_ase_has_the_same_doubles(tmp_path):
    one = np.ones(1)
    atoms = {"element": ["H"], "mass": 1.008 * one, "x": one, "y": one, "z": one, "fx": 100 * one, "fy": one, "fz": one}
    atoms |= {"vx": 0.1 * one, "vy": 0.3 * one, "vz": 0.7 * one}
    system = Frame(meta={"units": {"preset": "real"}})
    record = Record(system=system, trajectory=MemoryTrajectory([Frame({"atoms": Block(atoms)}, {"pe": 1.0})]))
    molrec_convert.write(record, tmp_path / "u.mrec")
    for name in ("u.db", "u.extxyz", "u.json"):
        to = "ase-db" if name.endswith("json") else None
        molrec_convert.convert(tmp_path / "u.mrec", tmp_path / name, to_format=to)
    molrec_convert.convert(tmp_path / "u.mrec", tmp_path / "metal.mrec", target_units="metal")
    found = [ase.io.read(tmp_path / name) for name in ("u.db", "u.extxyz", "u.json")] + [record.to_ase()]
    found += [ase.io.read(tmp_path / "u.mrec", format="mrec"), ase.io.read(tmp_path / "metal.mrec", format="mrec")]
    for atoms in found:
        assert atoms.get_forces()[0, 0] == 100 * KCAL
        assert atoms.get_potential_energy() == KCAL
        np.testing.assert_array_equal(atoms.get_momenta(), found[0].get_momenta())


@pytest.mark.parametrize("name", ["s_ase.extxyz", "stress.extxyz"])
def test_a_stress_is_six_numbers_in_ase_and_nine_in_a_record(tmp_path, name):
    atoms = ase.io.read(FAULTS / name)
    molrec_convert.convert(FAULTS / name, tmp_path / "o.db", strict=True)
    row = only_row(tmp_path / "o.db")
    np.testing.assert_array_equal(row.stress, atoms.get_stress())
    np.testing.assert_array_equal(row.toatoms().get_stress(), atoms.get_stress())
    made = molrec_convert.read(FAULTS / name).to_ase()
    np.testing.assert_array_equal(made.calc.results["stress"], atoms.get_stress())
    connect(tmp_path / "again.db").write(made)
    ase.io.write(tmp_path / "s.traj", atoms)
    molrec_convert.convert([FAULTS / name, tmp_path / "s.traj"], tmp_path / "both.mrec.lmdb", units="metal", each=True)
    with molrec_convert.open(tmp_path / "both.mrec.lmdb") as both:
        assert both.declaration.meta["stress"].dtype == "f64x9"
        for record in both:
            np.testing.assert_array_equal(record.quantity("stress", form="voigt")[0], atoms.get_stress())


def test_a_stress_that_is_not_symmetric_is_said_and_kept(tmp_path):
    text = 'Lattice="2 0 0 0 2 0 0 0 2" Properties=species:S:1:pos:R:3 stress="1 2 3 4 5 6 7 8 9" pbc="T T T"'
    (tmp_path / "v.extxyz").write_text(f"1\n{text}\nH 0 0 0\n")
    report = molrec_convert.convert(tmp_path / "v.extxyz", tmp_path / "v.db")
    assert any(item.name == "stress" and "not symmetric" in item.detail for item in report.items)
    assert only_row(tmp_path / "v.db").stress.tolist() == [1, 5, 9, 7, 5, 3]
    stress = molrec_convert.read(tmp_path / "v.extxyz").quantity("stress")
    np.testing.assert_array_equal(molrec_convert.read(tmp_path / "v.db")[0].quantity("stress"), stress)


def test_a_virial_is_the_stress_of_a_row(tmp_path):
    text = 'Lattice="2 0 0 0 2 0 0 0 2" Properties=species:S:1:pos:R:3 virial="8 0 0 0 16 0 0 0 24" pbc="T T T"'
    (tmp_path / "v.extxyz").write_text(f"1\n{text}\nH 0 0 0\n")
    molrec_convert.convert(tmp_path / "v.extxyz", tmp_path / "v.db")
    assert only_row(tmp_path / "v.db").stress.tolist() == [-1, -2, -3, 0, 0, 0]
    again = molrec_convert.read(tmp_path / "v.db")[0]
    assert "stress" not in again.trajectory[0].meta
    assert again.quantity("virial")[0].diagonal().tolist() == [8, 16, 24]


def test_charges_and_moments_keep_their_kind(tmp_path):
    molrec_convert.convert(FAULTS / "q_calc_ase.extxyz", tmp_path / "q.db")
    read = only_row(tmp_path / "q.db").toatoms()
    np.testing.assert_array_equal(read.get_charges(), [0.4, -0.4])
    assert not read.has("initial_charges")
    atoms = ase.Atoms("HCl", [[0, 0, 0], [0, 0, 1.3]])
    atoms.set_initial_charges([0.1, -0.1])
    atoms.set_initial_magnetic_moments([1.0, 2.0])
    atoms.calc = SinglePointCalculator(atoms, energy=-1.0, charges=[0.3, -0.3], magmoms=[0.5, 0.25])
    ase.io.write(tmp_path / "i.db", atoms)
    molrec_convert.convert(tmp_path / "i.db", tmp_path / "i.extxyz")
    molrec_convert.convert(tmp_path / "i.extxyz", tmp_path / "back.db", units="metal")
    for name in ("i.extxyz", "back.db"):
        found = ase.io.read(tmp_path / name)
        assert found.get_initial_charges().tolist() == [0.1, -0.1]
        assert found.get_initial_magnetic_moments().tolist() == [1.0, 2.0]
        assert found.get_charges().tolist() == [0.3, -0.3]
        assert found.get_magnetic_moments().tolist() == [0.5, 0.25]


def test_species_and_tags_that_change_from_frame_to_frame(tmp_path):
    molrec_convert.convert(FAULTS / "p2.xyz", tmp_path / "p.db", as_="trajectory")
    assert [row.formula for row in connect(tmp_path / "p.db").select()] == ["C", "C"]
    molrec_convert.convert(FAULTS / "sw.extxyz", tmp_path / "sw.mrec", units="metal")
    read = ase.io.read(tmp_path / "sw.mrec", ":", format="mrec")
    assert [atoms.get_chemical_symbols() for atoms in read] == [["C", "O"], ["O", "C"]]
    with molrec_convert.open(tmp_path / "sw.mrec") as record:
        assert [a.get_chemical_symbols() for a in record.iter_ase()] == [["C", "O"], ["O", "C"]]
        assert record.to_ase(1).get_chemical_symbols() == ["O", "C"]
    head = 'Lattice="5 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3:tags:I:1:initial_charges:R:1 pbc="T T T"'
    rows = [f"C 0 0 0 {number} 0.{number}\n" for number in (1, 2)]
    (tmp_path / "t.extxyz").write_text("".join(f"1\n{head}\n{row}" for row in rows))
    molrec_convert.convert(tmp_path / "t.extxyz", tmp_path / "t.mrec", units="metal")
    molrec_convert.convert(tmp_path / "t.mrec", tmp_path / "t.db")
    found = [row.toatoms() for row in connect(tmp_path / "t.db").select()]
    assert [(a.get_tags()[0], a.get_initial_charges()[0]) for a in found] == [(1, 0.1), (2, 0.2)]


def test_a_dump_with_elements_becomes_rows(tmp_path):
    text = "ITEM: TIMESTEP\n{}\nITEM: NUMBER OF ATOMS\n2\nITEM: BOX BOUNDS pp pp pp\n0 5\n0 5\n0 5\n"
    text += "ITEM: ATOMS id element x y z\n1 O 0 0 0\n2 H 0 0 {}\n"
    (tmp_path / "e.lammpstrj").write_text(text.format(0, 1) + text.format(10, 2))
    molrec_convert.convert(tmp_path / "e.lammpstrj", tmp_path / "e.db", units="metal")
    rows = list(connect(tmp_path / "e.db").select())
    assert [(row.formula, row.positions[1, 2]) for row in rows] == [("HO", 1.0), ("HO", 2.0)]


@pytest.mark.parametrize("name", ["atomic_number", "Z"])
def test_atomic_numbers_say_what_the_atoms_are(tmp_path, name):
    atoms = {name: np.array([8, 1], "u8"), **{axis: np.arange(2.0) for axis in "xyz"}}
    record = Record(system=Frame(meta={"units": {"preset": "metal"}}), frame=Frame({"atoms": Block(atoms)}))
    molrec_convert.write(record, tmp_path / "z.db")
    assert only_row(tmp_path / "z.db").symbols == ["O", "H"]
    assert record.to_ase().get_chemical_symbols() == ["O", "H"]


def test_types_that_are_no_element_are_x(tmp_path):
    atoms = {"type_id": np.array([1, 2], "u8"), **{axis: np.arange(2.0) for axis in "xyz"}}
    record = Record(system=Frame({"atoms": Block(atoms)}, {"units": {"preset": "metal"}}))
    report = Report()
    assert record.to_ase(elements="C,X", report=report).get_chemical_symbols() == ["C", "X"]
    molrec_convert.write(record, tmp_path / "b.mrec")
    molrec_convert.convert(tmp_path / "b.mrec", tmp_path / "b.db", elements="1=C,2=X", report=report)
    assert only_row(tmp_path / "b.db").numbers.tolist() == [6, 0]
    assert any("are X in ASE" in item.detail for item in report.items)


def test_what_is_missing_is_absent(tmp_path):
    molrec_convert.convert(FAULTS / "enone.extxyz", tmp_path / "e.db", as_="trajectory", units="metal")
    first, second = connect(tmp_path / "e.db").select()
    assert first.energy == -1.0
    assert second.get("energy") is None
    assert second.toatoms().calc is None
    columns = {"element": ["H"], **{axis: np.zeros(1) for axis in "xyz"}}
    record = Record(frame=Frame({"atoms": Block(columns)}, {"pe": math.nan, "stress": np.full(9, math.nan)}))
    assert record.to_ase().calc is None
    atoms = ase.Atoms("H")
    atoms.calc = SinglePointCalculator(atoms, energy=math.nan, forces=np.ones((1, 3)))
    assert molrec_convert.from_ase(atoms).to_ase().calc.results.keys() == {"forces"}


@pytest.mark.parametrize("name", ["c.traj", "c.db"])
def test_a_key_that_is_the_same_in_all_frames_is_in_every_line(tmp_path, name):
    atoms = ase.Atoms("H2", [[0, 0, 0], [0, 0, 1]], info={"config_type": "bulk"})
    if name == "c.traj":
        ase.io.write(tmp_path / name, [atoms, atoms])
    else:
        with connect(tmp_path / name) as rows:
            for _ in range(2):
                rows.write(atoms, config_type="bulk", level=3, done=True)
    report = molrec_convert.convert(tmp_path / name, tmp_path / "o.extxyz")
    assert not any("config_type" in loss for loss in report.losses())
    for way in ({}, {"as_": "trajectory"}):
        molrec_convert.convert(tmp_path / name, tmp_path / "o.extxyz", overwrite=True, **way)
        read = ase.io.read(tmp_path / "o.extxyz", ":")
        assert [frame.info["config_type"] for frame in read] == ["bulk", "bulk"]
        assert name == "c.traj" or [(frame.info["level"], frame.info["done"]) for frame in read] == [(3, True)] * 2


def labelled(path):
    """A database whose labels stand in the data of its rows."""
    with connect(path) as rows:
        for number in range(1, 4):
            atoms = ase.Atoms("HO", [[0, 0, 0], [0, 0, float(number)]])
            atoms.calc = SinglePointCalculator(atoms, energy=100.0 * number)
            data = {"energy": np.array([-0.5 * number]), "forces": np.full((2, 3), float(number)), "note": "kept"}
            rows.write(atoms, REF_energy=-2.0 * number, data={**data, "stress": np.arange(9.0).reshape(3, 3)})


def test_labels_in_the_data_of_rows_both_ways(tmp_path):
    labelled(tmp_path / "l.db")
    keys = {"energy_key": "data.energy", "forces_key": "data.forces", "stress_key": "data.stress"}
    report = molrec_convert.convert(tmp_path / "l.db", tmp_path / "l.mrec.lmdb", **keys)
    assert report.losses() == []
    with molrec_convert.open(tmp_path / "l.mrec.lmdb") as collection:
        for number, record in enumerate(collection, 1):
            assert record.quantity("energy").tolist() == [-0.5 * number]
            np.testing.assert_array_equal(record.quantity("force")[0], np.full((2, 3), float(number)))
            np.testing.assert_array_equal(record.quantity("stress")[0], np.arange(9.0).reshape(3, 3))
            assert record.trajectory[0].meta["energy"] == 100.0 * number
            assert record.system.meta["ase.data"] == {"note": "kept"}
    molrec_convert.convert(tmp_path / "l.mrec.lmdb", tmp_path / "plain.db")
    molrec_convert.convert(tmp_path / "l.mrec.lmdb", tmp_path / "back.db", **keys)
    for number, (plain, back) in enumerate(
        zip(connect(tmp_path / "plain.db").select(), connect(tmp_path / "back.db").select(), strict=True), 1
    ):
        assert plain.energy == -0.5 * number
        np.testing.assert_array_equal(plain.toatoms().get_forces(), np.full((2, 3), float(number)))
        assert (back.energy, back.data["energy"], back.data["note"]) == (100.0 * number, -0.5 * number, "kept")
        np.testing.assert_array_equal(back.data["forces"], np.full((2, 3), float(number)))
        np.testing.assert_array_equal(back.data["stress"], np.arange(9.0).reshape(3, 3))
        assert back.get("forces") is None


def test_a_key_value_pair_or_an_entry_of_info_is_the_energy(tmp_path):
    labelled(tmp_path / "l.db")
    molrec_convert.convert(tmp_path / "l.db", tmp_path / "l.mrec.lmdb", energy_key="REF_energy")
    molrec_convert.convert(tmp_path / "l.mrec.lmdb", tmp_path / "l.extxyz")
    assert [a.get_potential_energy() for a in ase.io.read(tmp_path / "l.extxyz", ":")] == [-2.0, -4.0, -6.0]
    atoms = ase.Atoms("H", info={"REF_energy": -1.5, "REF_stress": np.arange(9.0).reshape(3, 3)})
    ase.io.write(tmp_path / "i.traj", [atoms, atoms])
    molrec_convert.convert(
        tmp_path / "i.traj", tmp_path / "i.db", from_format="ase-traj", energy_key="REF_energy", stress_key="REF_stress"
    )
    rows = list(connect(tmp_path / "i.db").select())
    assert [(row.get("energy"), row.get("REF_energy")) for row in rows] == [(None, -1.5)] * 2
    record = molrec_convert.read(tmp_path / "i.traj", energy_key="REF_energy", stress_key="REF_stress")
    assert record.to_ase().get_potential_energy() == -1.5
    np.testing.assert_array_equal(record.quantity("stress", frames=0), np.arange(9.0).reshape(3, 3))
    molrec_convert.write(record, tmp_path / "p.db")
    assert [row.energy for row in connect(tmp_path / "p.db").select()] == [-1.5, -1.5]


def test_labels_that_are_not_there_or_of_another_shape_are_refused(tmp_path):
    labelled(tmp_path / "l.db")
    with pytest.raises(molrec_convert.FormatError, match=r"data\.dft, as --energy-key says"):
        molrec_convert.convert(tmp_path / "l.db", tmp_path / "a.mrec.lmdb", energy_key="data.dft")
    with pytest.raises(molrec_convert.FormatError, match="2 rows of 3 numbers"):
        molrec_convert.convert(tmp_path / "l.db", tmp_path / "a.mrec.lmdb", forces_key="data.energy")


def test_units_that_the_metadata_of_a_database_state(tmp_path):
    hartree, bohr = 27.211386245981167, 0.529177210544
    with connect(tmp_path / "s.db") as rows:
        units = {"energy": "Hartree", "forces": "Hartree/Bohr", "gap": "kcal/mol", "mu": "Debye"}
        rows.metadata = {"_property_unit_dict": units, "_distance_unit": "Bohr"}
        atoms = ase.Atoms("HO", [[0, 0, 0], [0, 0, 2.0]], cell=[10, 10, 10], pbc=True)
        data = {"energy": np.array([-2.0]), "forces": np.ones((2, 3)), "gap": np.array([3.0]), "mu": np.ones((1, 3))}
        rows.write(atoms, data=data)
    report = Report()
    keys = {"energy_key": "data.energy", "forces_key": "data.forces"}
    molrec_convert.convert(tmp_path / "s.db", tmp_path / "s.mrec.lmdb", report=report, **keys)
    assert any("positions from Bohr, energy from Hartree" in item.detail for item in report.items)
    molrec_convert.convert(tmp_path / "s.mrec.lmdb", tmp_path / "o.db")
    row = only_row(tmp_path / "o.db")
    assert (row.positions[1, 2], row.cell[0, 0]) == (2.0 * bohr, 10 * bohr)
    assert row.energy == -2.0 * hartree
    assert row.forces[0, 0] == pytest.approx(hartree / bohr, rel=1e-14)
    assert row.data["gap"].tolist() == [3.0 * KCAL]
    assert row.data["mu"][0, 0] == pytest.approx(0.2081943327, rel=1e-9)
    metadata = connect(tmp_path / "o.db").metadata
    assert metadata["_distance_unit"] == "Ang"
    assert metadata["_property_unit_dict"] == {"energy": "eV", "forces": "eV/Ang", "gap": "eV", "mu": "e*Ang"}
    again = molrec_convert.read(tmp_path / "o.db")[0]
    assert again.to_ase().positions[1, 2] == 2.0 * bohr


def test_labels_that_nobody_chose_are_proposed(tmp_path):
    with connect(tmp_path / "d.db") as rows:
        rows.write(ase.Atoms("H"), data={"dft_energy": -1.5})
    report = Report()
    molrec_convert.read(tmp_path / "d.db", report=report)
    assert any("--energy-key data.dft_energy makes it the energy" in text for text in report.warnings)


def test_labels_in_the_data_of_rows_are_results_in_extended_xyz(tmp_path):
    labelled(tmp_path / "l.db")
    molrec_convert.convert(tmp_path / "l.db", tmp_path / "l.extxyz", energy_key="data.energy", forces_key="data.forces")
    read = ase.io.read(tmp_path / "l.extxyz", ":")
    assert [atoms.get_potential_energy() for atoms in read] == [-0.5, -1.0, -1.5]
    assert [atoms.get_forces()[0, 0] for atoms in read] == [1.0, 2.0, 3.0]
    assert [atoms.info["other_energy"] for atoms in read] == [100.0, 200.0, 300.0]


def test_labels_hold_in_every_process_of_a_migration(tmp_path):
    labelled(tmp_path / "l.db")
    done = subprocess.run(
        [sys.executable, "-m", "molrec_convert.cli", "migrate", "l.db", "-o", "m.mrec.lmdb", "--workers", "2",
         "--energy-key", "data.energy", "--forces-key", "data.forces"],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with molrec_convert.open(tmp_path / "m.mrec.lmdb") as collection:
        assert [record.to_ase().get_potential_energy() for record in collection] == [-0.5, -1.0, -1.5]
        assert collection[2].to_ase().get_forces()[1].tolist() == [3.0, 3.0, 3.0]
