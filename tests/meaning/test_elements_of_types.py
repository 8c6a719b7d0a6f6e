"""`--elements` and `--guess-elements` on any conversion, from a record too."""

from pathlib import Path

import ase.io
import numpy as np
import pytest
from click.testing import CliRunner

import molrec_convert
from molrec_convert.cli.app import App
from molrec_convert.errors import UsageError
from molrec_convert.meaning.species import element_words, with_elements
from molrec_convert.model import Block, Column, Frame, MemoryTrajectory, Record
from molrec_convert.report import Report

RUN = Path(__file__).parents[2] / "fixtures/water-run"
NUMBERS = Path(__file__).parents[2] / "fixtures/faults/z.xyz"
TEXT = np.dtypes.StringDType()


def test_a_stored_run_gets_its_elements_on_the_way_out(tmp_path: Path) -> None:
    molrec_convert.convert(RUN, tmp_path / "w.mrec")
    molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "w.extxyz", elements="O,H")
    molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "v.extxyz", guess_elements=True)
    molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "e.mrec", elements=("2=H", "1=O"))
    for path in ("w.extxyz", "v.extxyz"):
        assert ase.io.read(tmp_path / path).get_chemical_formula() == "H54O27"
    with molrec_convert.open(tmp_path / "e.mrec") as record:
        assert record.system["atoms"]["element"].tolist() == ["O", "H", "H"] * 27


@pytest.mark.parametrize(
    ("words", "match"),
    [("O", "1 symbol for 2"), ("O,,H", "is missing between"), ("Qq,H", "no element")],
)  # fmt: skip
def test_what_does_not_name_every_type_is_refused(words: str, match: str, tmp_path: Path) -> None:
    molrec_convert.convert(RUN, tmp_path / "w.mrec")
    with pytest.raises(UsageError, match=match):
        molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "w.extxyz", elements=words)
    assert not (tmp_path / "w.extxyz").exists()


def test_types_that_change_have_their_elements_beside_them() -> None:
    def frame(*types: int) -> Frame:
        columns = {"type_id": np.array(types, np.uint64), "x": np.zeros(len(types))}
        return Frame({"atoms": Block({name: Column(values) for name, values in columns.items()})})

    record = Record(trajectory=MemoryTrajectory([frame(1, 2), frame(2, 2, 3)]))
    made = with_elements(record, ["C", "H", "X"], report=Report())
    assert isinstance(made, Record)
    assert made.trajectory is not None
    assert made.trajectory[0]["atoms"].columns["element"].values.tolist() == ["C", "H"]
    column = made.trajectory[1]["atoms"].columns["element"]
    assert column.values.tolist() == ["H", "H", ""]
    assert column.validity is not None
    assert column.validity.tolist() == [True, True, False]
    with pytest.raises(UsageError, match="no types"):
        with_elements(Record(frame=Frame({"atoms": Block({"x": np.zeros(2)})})), ["C"], report=Report())


def test_labels_name_types_and_masses_propose() -> None:
    atoms = Block(
        {
            "type": Column(np.array(["CT", "HC", "HC"], TEXT)),
            "mass": Column(np.array([12.011, 1.008, 1.008])),
        }
    )
    record = Record(system=Frame({"atoms": atoms}))
    report = Report()
    made = with_elements(record, "HC=H,CT=C", report=report)
    assert made.system["atoms"]["element"].tolist() == ["C", "H", "H"]
    assert [item.name for item in report.items] == ["atoms/element"]
    guessed = with_elements(record, guess=True, report=report)
    assert guessed.system["atoms"]["element"].tolist() == ["C", "H", "H"]
    assert with_elements(guessed, guess=True, report=report) is guessed
    replaced = with_elements(guessed, "CT=Si,HC=F", report=report)
    assert replaced.system["atoms"]["element"].tolist() == ["Si", "F", "F"]


def test_words() -> None:
    assert element_words("C,H") == element_words(["C", "H"]) == element_words(("C,H",)) == ("C", "H")
    assert element_words(()) == ()


def test_on_the_command_line(tmp_path: Path) -> None:
    molrec_convert.convert(RUN, tmp_path / "w.mrec")
    arguments = ["convert", str(tmp_path / "w.mrec"), str(tmp_path / "w.pdb"), "--elements", "1=O,2=H"]
    result = CliRunner().invoke(App(), arguments)
    assert result.exit_code == 0, result.output
    assert {atoms.get_chemical_formula() for atoms in ase.io.read(tmp_path / "w.pdb", ":")} == {"H54O27"}


@pytest.mark.parametrize("name", ["z.data", "z.pdb", "z.cif", "z.gro", "z.extxyz", "z.lammpstrj"])
def test_atomic_numbers_are_elements_in_every_format(name: str, tmp_path: Path) -> None:
    box = {"box": ("atoms", "2")} if name in ("z.data", "z.lammpstrj") else {}
    report = molrec_convert.convert(NUMBERS, tmp_path / name, species="numbers", **box)
    if name == "z.cif":
        import gemmi

        atoms = [
            atom for chain in gemmi.read_structure(str(tmp_path / name))[0] for residue in chain for atom in residue
        ]
        found = [atom.element.name for atom in atoms]
    else:
        kind = {"z.data": "lammps-data", "z.lammpstrj": "lammps-dump-text"}.get(name)
        found = ase.io.read(tmp_path / name, format=kind).get_chemical_symbols()
    assert found == ["O", "H", "H"]
    assert "atoms/atomic_number" not in " ".join(report.losses())


def test_atomic_numbers_of_a_collection(tmp_path: Path) -> None:
    molrec_convert.convert(NUMBERS, tmp_path / "z.mrec.lmdb", species="numbers", as_="collection")
    molrec_convert.convert(tmp_path / "z.mrec.lmdb", tmp_path / "z.extxyz")
    assert ase.io.read(tmp_path / "z.extxyz").get_chemical_symbols() == ["O", "H", "H"]


@pytest.mark.parametrize("name", ["w.extxyz", "w.pdb", "w.cif"])
def test_atoms_without_elements_are_warned_of(name: str, tmp_path: Path) -> None:
    molrec_convert.convert(RUN, tmp_path / "w.mrec")
    report = molrec_convert.convert(tmp_path / "w.mrec", tmp_path / name)
    [told] = [text for text in report.warnings if "no elements" in text]
    assert "--elements" in told
    if name == "w.extxyz":
        assert "ASE" in told
        with pytest.raises(KeyError):
            ase.io.read(tmp_path / name)
    named = molrec_convert.convert(tmp_path / "w.mrec", tmp_path / name, elements="O,H", overwrite=True)
    assert not any("no elements" in text for text in named.warnings)
