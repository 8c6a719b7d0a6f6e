"""Quantities of a record by name: units, forms and signs, frames, what is missing, and where each comes from."""

from pathlib import Path

import ase
import ase.build
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator
from hypothesis import given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.meaning.quantities import quantity_batches
from molrec_convert.model import Block, Box, Column, Declaration, Frame, MemoryTrajectory, Meta, Record
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration

RUN = Path(__file__).parents[2] / "fixtures/water-run"
TEXT = np.dtypes.StringDType()


def atoms_of(**columns: object) -> Block:
    return Block(
        {name: value if isinstance(value, Column) else Column(np.array(value)) for name, value in columns.items()}
    )


def test_a_run_frame_by_frame(tmp_path: Path) -> None:
    molrec_convert.convert(RUN, tmp_path / "w.mrec", elements=("O", "H"))
    with molrec_convert.open(tmp_path / "w.mrec") as record:
        positions = record.quantity("position", units="nm")
        assert positions.shape == (len(record.trajectory), 81, 3)
        last = record.trajectory[-1]["atoms"]
        np.testing.assert_array_equal(positions[-1, :, 0], last["x"] * 0.1)
        np.testing.assert_array_equal(record.quantity("position", frames=-1)[:, 2], last["z"])
        np.testing.assert_array_equal(record.quantity("velocity", frames=slice(2, 9, 3)).shape, (3, 81, 3))
        assert record.quantity("element").tolist()[:3] == ["O", "H", "H"]
        assert record.quantity("atomic_number").tolist()[:3] == [8, 1, 1]
        energies = record.quantity("energy", units="eV")
        assert energies.shape == (len(record.trajectory),)
        assert energies[-1] == record.trajectory[-1].meta["pe"] * 0.043364104241800934
        assert record.quantity("mass").shape == (81,)
        assert record.quantity("stress") is None
        assert record.quantity("computed_charge") is None
        batches = list(record.quantity_batches("position"))
        assert sum(len(offset) - 1 for _, offset in batches) == len(record.trajectory)


def test_names_units_and_forms_that_are_none() -> None:
    record = Record(system=Frame({"atoms": atoms_of(x=[1.0], y=[1.0], z=[1.0])}))
    with pytest.raises(UsageError, match="did you mean position"):
        record.quantity("positon")
    with pytest.raises(UnsupportedError, match="states no units"):
        record.quantity("position", units="nm")
    with pytest.raises(UsageError, match="has no form"):
        record.quantity("position", form="voigt")
    record.system.meta.put("units", {"preset": "real"}, "json")
    with pytest.raises(UsageError, match="position is in angstrom, which cannot be converted to eV"):
        record.quantity("position", units="eV")
    with pytest.raises(UsageError, match="'nmm' is no unit, and position is in angstrom; did you mean nm"):
        record.quantity("position", units="nmm")
    np.testing.assert_array_equal(record.quantity("position", units="pm"), [[100.0] * 3])


def test_frames_are_a_number_or_a_slice() -> None:
    record = molrec_convert.from_ase([ase.build.bulk("Cu", cubic=True)] * 2, as_="trajectory")
    for frames in ("last", [0, 1]):
        with pytest.raises(UsageError, match="a number, a slice, or None for all, found"):
            record.quantity("position", frames=frames)


def test_stress_as_ase_has_it_in_every_form() -> None:
    cell = ase.build.bulk("Cu", cubic=True)
    voigt = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    cell.calc = SinglePointCalculator(cell, energy=-1.0, stress=voigt)
    record = molrec_convert.from_ase([cell, cell])
    np.testing.assert_array_equal(record.quantity("stress", form="voigt"), [voigt, voigt])
    np.testing.assert_array_equal(record.quantity("stress", frames=0), cell.get_stress(voigt=False))
    np.testing.assert_array_equal(
        record.quantity("stress", form="lammps", sign="compression", frames=1), -voigt[[0, 1, 2, 5, 4, 3]]
    )
    pascal = record.quantity("stress", units="GPa", frames=0)
    np.testing.assert_allclose(pascal, cell.get_stress(voigt=False) / ase.units.GPa, rtol=1e-7)


def test_a_stress_follows_from_virial_and_pressure() -> None:
    virial = np.arange(9.0)
    frame = Frame({}, Meta({"virial": virial}), Box(np.eye(3) * 2.0))
    record = Record(trajectory=MemoryTrajectory([frame, Frame({}, Meta({"virial": virial * 2}))]))
    stress = record.quantity("stress")
    np.testing.assert_array_equal(stress[0], -virial.reshape(3, 3) / 8.0)
    np.testing.assert_array_equal(stress[1], -2 * virial.reshape(3, 3) / 8.0)
    pressed = Record(
        system=Frame(meta=Meta({"units": {"preset": "metal"}})),
        frame=Frame(meta=Meta({"pressure_tensor": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])})),
    )
    np.testing.assert_allclose(
        pressed.quantity("stress", units="bar", form="voigt"), [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0], rtol=1e-14
    )


def test_elements_come_from_aligned_blocks_numbers_and_types() -> None:
    aligned = Declaration(
        {
            "atoms": BlockDeclaration({"x": ColumnDeclaration("f64")}),
            "atom_element": BlockDeclaration({"element": ColumnDeclaration("string")}, aligned_with="atoms"),
        }
    )
    frames = [
        Frame({"atoms": atoms_of(x=[1.0, 2.0]), "atom_element": atoms_of(element=np.array(["C", "H"], TEXT))}),
        Frame({"atoms": atoms_of(x=[3.0, 4.0])}),
        Frame({"atom_element": atoms_of(element=np.array(["O", "H"], TEXT))}),
    ]
    record = Record(trajectory=MemoryTrajectory(frames, aligned))
    assert record.quantity("element").tolist() == [["C", "H"], ["C", "H"], ["O", "H"]]
    numbers = Record(frame=Frame({"atoms": atoms_of(atomic_number=np.array([8, 0, 1], np.uint64))}))
    found = numbers.quantity("element")
    assert found.tolist() == ["O", None, "H"]
    labels = Record(frame=Frame({"atoms": atoms_of(type=np.array(["1", "2"], TEXT), mass=[12.011, 1.008])}))
    assert labels.quantity("element") is None


def test_what_is_missing_is_missing() -> None:
    mask = np.array([True, False])
    block = atoms_of(
        fx=Column(np.array([1.0, 9.0]), mask),
        fy=[1.0, 1.0],
        fz=[1.0, 1.0],
        mol_id=Column(np.array([4, 0], np.uint64), mask),
    )
    record = Record(frame=Frame({"atoms": block}))
    np.testing.assert_array_equal(record.quantity("force"), [[1.0, 1.0, 1.0], [np.nan, 1.0, 1.0]])
    assert np.isnan(record.quantity("force")).sum() == 1


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=8),
    st.integers(0, 7),
    st.integers(1, 3),
)
def test_rows_are_those_of_the_frames_one_by_one(counts: list[tuple[int, bool]], start: int, step: int) -> None:
    declaration = Declaration(
        {"atoms": BlockDeclaration({"x": ColumnDeclaration("f64"), "type_id": ColumnDeclaration("u64")})}
    )
    frames, number = [], 0
    for position, (count, presents) in enumerate(counts):
        blocks = {}
        if presents or position == 0:
            blocks["atoms"] = atoms_of(
                x=np.arange(number, number + count, dtype=np.float64),
                type_id=np.arange(number, number + count, dtype=np.uint64),
            )
            number += count
        frames.append(Frame(blocks, step=position))
    record = Record(trajectory=MemoryTrajectory(frames, declaration))
    start = min(start, len(frames) - 1)
    found = [
        values[offset[i] : offset[i + 1]].tolist()
        for values, offset in quantity_batches(record, "type_id", frames=slice(start, None, step))
        for i in range(len(offset) - 1)
    ]
    assert found == [record.trajectory[i]["atoms"]["type_id"].tolist() for i in range(start, len(frames), step)]
