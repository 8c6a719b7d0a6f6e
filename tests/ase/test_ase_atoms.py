"""`Atoms` to records and back, to the bit: from_ase, to_ase, iter_ase."""

import math

import numpy as np
import pytest

pytest.importorskip("ase")

import ase.build
import ase.db
from ase import Atoms
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase_atoms import assert_same_atoms, random_atoms, same
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert import Block, Box, Frame, MemoryTrajectory, Record, Report, UsageError
from molrec_convert.model.collection.collection import Collection


@settings(max_examples=100)
@given(random_atoms())
def test_atoms_come_back_to_the_bit(atoms):
    report = Report()
    record = molrec_convert.from_ase(atoms, report=report)
    assert not report.lossy, report.losses()
    assert_same_atoms(atoms, record.to_ase())


@settings(max_examples=20)
@given(st.lists(random_atoms(3), min_size=1, max_size=4))
def test_lists_come_back_from_stores(tmp_path_factory, images):
    folder = tmp_path_factory.mktemp("ase")
    try:
        record = molrec_convert.from_ase(images, "trajectory")
    except UsageError as error:
        assume("a column is of one kind" not in str(error))
        raise
    molrec_convert.write(record, folder / "x.mrec")
    with molrec_convert.open(folder / "x.mrec") as stored:
        found = list(stored.iter_ase())
        for atoms, again, third in zip(images, found, stored.trajectory.iter_ase(), strict=True):
            assert_same_atoms(atoms, again)
            assert_same_atoms(atoms, third)


@pytest.mark.parametrize("steps", [[0], [5], [0, 1, 2], [0, 3, 7], [1, 2, 3]])
@pytest.mark.parametrize("as_", ["trajectory", "collection"])
def test_steps_in_info_come_back(steps, as_):
    images = [Atoms("H", info={"step": step, "time": 0.5 * step}) for step in steps]
    found = molrec_convert.from_ase(images, as_)
    again = list(found.iter_ase()) if as_ == "trajectory" else [record.to_ase() for record in found]
    for atoms, other in zip(images, again, strict=True):
        assert_same_atoms(atoms, other)


KINDS = [
    np.zeros(3), np.arange(3), np.eye(3), [0.0, 1.0], np.float64(2), math.nan, math.inf, np.array(["a", "b"]),
    {"a": np.zeros(2)}, np.array([math.nan, 0.0, -0.0]), np.array([True, False]), np.zeros(0), np.zeros(6, "f4"), "x",
    2, 2.5, True, None,
]  # fmt: skip


@pytest.mark.parametrize(
    "first", [n if n % 3 == 0 else pytest.param(n, marks=pytest.mark.slow) for n in range(len(KINDS))]
)
@pytest.mark.parametrize("as_", ["trajectory", "collection"])
def test_a_key_may_hold_anything_in_any_configuration(tmp_path, first, as_):
    images = [Atoms("H2", info={"x": value}) for value in (KINDS[first], *KINDS)]
    for chosen in ([images[0], Atoms("H2"), other] for other in images[1:]):
        stored = molrec_convert.from_ase(chosen, as_)
        molrec_convert.write(stored, tmp_path / ("x.mrec.lmdb" if as_ == "collection" else "x.mrec"), overwrite=True)
        with molrec_convert.open(tmp_path / ("x.mrec.lmdb" if as_ == "collection" else "x.mrec")) as found:
            again = found.iter_ase() if as_ == "trajectory" else (member.to_ase() for member in found)
            for atoms, back in zip(chosen, again, strict=True):
                assert_same_atoms(atoms, back)


@settings(max_examples=20)
@given(st.lists(random_atoms(least=1), min_size=1, max_size=4))
def test_collections_come_back_from_stores(tmp_path_factory, images):
    folder = tmp_path_factory.mktemp("ase")
    try:
        collection = molrec_convert.from_ase(images, "collection")
    except UsageError as error:
        assume("a column is of one kind" not in str(error))
        raise
    assert isinstance(collection, Collection)
    molrec_convert.write(collection, folder / "x.mrec.lmdb")
    with molrec_convert.open(folder / "x.mrec.lmdb") as stored:
        for atoms, member in zip(images, stored, strict=True):
            assert_same_atoms(atoms, member.to_ase())


@pytest.mark.parametrize("name", ["id", "mol_id", "type_id", "atomic_number"])
def test_numbers_below_zero_of_keys_that_are_counts_elsewhere_come_back(tmp_path, name):
    images = [Atoms("H2", info={name: number}) for number in (1, -1)]
    molrec_convert.write(molrec_convert.from_ase(images, "collection"), tmp_path / "x.mrec.lmdb")
    with molrec_convert.open(tmp_path / "x.mrec.lmdb") as stored:
        assert [member.to_ase().info for member in stored] == [{name: 1}, {name: -1}]
        assert name not in stored.index.columns
    if name != "id":
        with ase.db.connect(tmp_path / "x.db") as database:
            for atoms in images:
                database.write(Atoms("H2"), **atoms.info)
        molrec_convert.convert(tmp_path / "x.db", tmp_path / "y.mrec.lmdb")
        molrec_convert.convert(tmp_path / "y.mrec.lmdb", tmp_path / "y.db")
        assert [row.key_value_pairs for row in ase.db.connect(tmp_path / "y.db").select()] == [{name: 1}, {name: -1}]


def water():
    atoms = ase.build.molecule("H2O")
    atoms.calc = SinglePointCalculator(atoms, energy=-1.5, forces=np.arange(9.0).reshape(3, 3))
    return atoms


def test_what_becomes_of_a_list_depends_on_its_atoms():
    same_atoms = molrec_convert.from_ase([water(), water()])
    assert isinstance(same_atoms, Record)
    assert len(same_atoms.trajectory) == 2
    assert same_atoms.system["atoms"]["element"].tolist() == ["O", "H", "H"]
    mixed = molrec_convert.from_ase([water(), ase.build.molecule("CH4")])
    assert isinstance(mixed, Collection)
    assert mixed.index["n_atoms"].tolist() == [3, 5]
    assert "pe" not in mixed[1].trajectory[0].meta
    assert mixed[1].to_ase().calc is None


def test_a_record_has_the_usual_names_and_units():
    atoms = water()
    atoms.set_masses([16.0, 2.0, 2.0])
    atoms.set_momenta([[1.0, 0, 0], [0, 2.0, 0], [0, 0, 0]])
    record = molrec_convert.from_ase(atoms)
    frame = record.trajectory[0]
    assert record.units == {"preset": "metal"}
    assert frame.meta["pe"] == -1.5
    assert frame["atoms"]["fy"].tolist() == [1.0, 4.0, 7.0]
    assert frame["atoms"]["vx"][0] == pytest.approx(1 / 16 / (SPEED / 1000), rel=1e-12)
    assert frame["atoms"]["vy"][1] == pytest.approx(
        1000 / (1e5 / math.sqrt(1.602176634e-19 / 1.66053906892e-27)), rel=1e-12
    )
    assert record.system["atoms"]["mass"].tolist() == [16.0, 2.0, 2.0]


def test_constraints_are_flags_of_what_is_free():
    atoms = water()
    atoms.set_constraint(FixAtoms([0, 2]))
    record = molrec_convert.from_ase(atoms)
    assert record.system["atoms"]["free"].tolist() == [False, True, False]
    record.system["atoms"].columns["free"].values[:] = [True, True, False]
    assert record.to_ase().constraints[0].index.tolist() == [2]


def test_forces_of_fixed_atoms_are_the_raw_ones():
    atoms = water()
    atoms.set_constraint(FixAtoms([1]))
    again = molrec_convert.from_ase(atoms).to_ase()
    assert again.calc.results["forces"][1].tolist() == [3.0, 4.0, 5.0]
    assert again.get_forces()[1].tolist() == [0.0, 0.0, 0.0]


def test_results_of_a_live_calculator_are_taken_as_they_are():
    atoms = ase.build.bulk("Cu", cubic=True)
    atoms.calc = EMT()
    energy = atoms.get_potential_energy()
    record = molrec_convert.from_ase(atoms)
    assert record.trajectory[0].meta["pe"] == energy
    atoms.positions[0] += 0.1
    report = Report()
    stale = molrec_convert.from_ase(atoms, report=report)
    assert "pe" not in stale.trajectory[0].meta
    assert any("changed" in item.detail for item in report.items)


def test_what_has_no_form_is_reported():
    atoms = water()
    atoms.info["thing"] = object()
    atoms.arrays["raw"] = np.array([b"a", b"b", b"c"])
    report = Report()
    molrec_convert.from_ase(atoms, report=report)
    assert {item.name for item in report.items} == {"info thing", "array raw"}
    assert report.lossy


def test_steps_and_times_go_both_ways():
    images = []
    for number in range(3):
        atoms = water()
        atoms.info.update(step=100 * number, time=0.5 * number)
        images.append(atoms)
    record = molrec_convert.from_ase(images)
    assert record.trajectory.steps.tolist() == [0, 100, 200]
    assert record.trajectory.times.tolist() == [0.0, 0.5, 1.0]
    assert [a.info["step"] for a in record.iter_ase()] == [0, 100, 200]
    assert [a.info["time"] for a in record.iter_ase()] == [0.0, 0.5, 1.0]


EV, DALTON, AVOGADRO = 1.602176634e-19, 1.66053906892e-27, 6.02214076e23
#: What a velocity in angstrom/fs is in (eV/dalton)**0.5.
SPEED = 1e5 / math.sqrt(EV / DALTON)


@pytest.mark.parametrize(("units_", "energy", "length", "speed"), [
    ({"preset": "real"}, 4184 / AVOGADRO / EV, 1.0, SPEED),
    ({"preset": "metal"}, 1.0, 1.0, SPEED / 1000),
    ({"preset": "si"}, 1 / EV, 1e10, SPEED * 1e-5),
    ({"preset": "electron"}, 27.211386245981, 0.529177210544, 0.529177210544 * SPEED),
    ({"length": "nanometer", "energy": "kJ/mol", "time": "picosecond", "mass": "dalton", "charge": "e"},
     1000 / AVOGADRO / EV, 10.0, SPEED / 100),
])  # fmt: skip
def test_units_are_converted_by_name(units_, energy, length, speed):
    one = np.ones(1)
    atoms = {"element": ["H"], "mass": 2 * one, "x": one, "y": one, "z": one, "vx": one, "vy": one, "vz": one}
    atoms.update(fx=one, fy=one, fz=one)
    frame = Frame({"atoms": Block(atoms)}, {"pe": 3.0}, Box(np.eye(3)))
    system = Frame(meta={"units": units_})
    record = Record(system=system, trajectory=MemoryTrajectory([frame]))
    found = record.to_ase()
    mass = {"si": 1 / DALTON}.get(units_.get("preset"), 1.0)
    assert found.positions[0, 0] == pytest.approx(length, rel=1e-12)
    assert found.cell[0, 0] == pytest.approx(length, rel=1e-12)
    assert found.calc.results["energy"] == pytest.approx(3 * energy, rel=1e-12)
    assert found.calc.results["forces"][0, 0] == pytest.approx(energy / length, rel=1e-12)
    assert found.get_masses()[0] == pytest.approx(2 * mass, rel=1e-12)
    assert found.get_velocities()[0, 0] == pytest.approx(speed, rel=1e-12)


def lammps_like(**columns):
    atoms = {"x": np.zeros(2), "y": np.zeros(2), "z": np.zeros(2), **columns}
    return Record(system=Frame(meta={"units": "real"}), trajectory=MemoryTrajectory([Frame({"atoms": Block(atoms)})]))


def test_missing_elements_say_how_to_give_one():
    record = lammps_like(type_id=np.array([2, 1], "u8"))
    with pytest.raises(UsageError, match="--elements C,H,O"):
        record.to_ase()
    assert record.to_ase(elements=("O", "H")).get_chemical_symbols() == ["H", "O"]
    assert record.to_ase(elements="O,H").get_chemical_symbols() == ["H", "O"]
    with pytest.raises(UsageError, match="1 symbol for 2 atom types"):
        record.to_ase(elements=("O",))
    with pytest.raises(UsageError, match="'Zz' is no element symbol"):
        record.to_ase(elements=("O", "Zz"))
    labels = lammps_like(type=["CT", "HC"])
    assert labels.to_ase(elements=("CT=C", "HC=H")).get_chemical_symbols() == ["C", "H"]
    with pytest.raises(UsageError, match="without an element"):
        labels.to_ase()
    with pytest.raises(UsageError, match="atom 1 with the label 'Q'"):
        lammps_like(element=["H", "Q"]).to_ase()


def test_reduced_units_are_taken_as_they_are_and_said():
    reduced = lammps_like(element=["H", "H"], vx=np.ones(2), vy=np.ones(2), vz=np.ones(2))
    reduced.system.meta["units"] = {"preset": "lj"}
    report = Report()
    assert not reduced.to_ase(report=report).has("momenta")
    assert any("reduced units" in text for text in report.warnings)


def test_other_calls_that_cannot_be_met():
    blind = Record(system=Frame({"atoms": Block({"element": ["H"]})}))
    with pytest.raises(UsageError, match="have positions"):
        blind.to_ase()
    with pytest.raises(IndexError):
        lammps_like(element=["H", "H"]).to_ase(3)
    with pytest.raises(UsageError, match=r"ase\.Atoms, number 1 is int"):
        molrec_convert.from_ase([water(), 3])
    with pytest.raises(UsageError, match="cannot be taken as 'heap'"):
        molrec_convert.from_ase(water(), "heap")


def test_without_the_plugin_a_call_says_what_to_install(monkeypatch):
    from molrec_convert import api

    monkeypatch.setattr(api.plugin_manager(), "get_plugin", lambda name: None)
    with pytest.raises(molrec_convert.UnsupportedError, match=r"pip install 'molrec-convert\[ase\]'"):
        molrec_convert.from_ase(water())
    with pytest.raises(molrec_convert.UnsupportedError, match=r"molrec-convert\[ase\]"):
        lammps_like(element=["H", "H"]).to_ase()


def test_comparison_sees_a_bit():
    assert not same(np.array([0.0]), np.array([-0.0]))
    assert not same({"a": 1}, {"a": True})
    with pytest.raises(AssertionError):
        assert_same_atoms(Atoms("H"), Atoms("He"))
