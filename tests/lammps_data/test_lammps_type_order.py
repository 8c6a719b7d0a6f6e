"""The order of atom types that is asked for: the same atoms, masses and energies, in every file LAMMPS reads."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest
from lammps_runs import needs_lammps
from test_lammps_write_run import TERMS, energies, sources

import molrec_convert
from molrec_convert import Record
from molrec_convert.cli import run
from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.model import Block, Box, Frame, MemoryTrajectory

DATA = """silica, units = metal

3 atoms
3 atom types
0 10 xlo xhi
0 10 ylo yhi
0 10 zlo zhi

Masses

1 28.0855 # Si
2 15.9994 # O
3 1.008 # H, of which there is none

Atoms # charge

1 2 -0.5 1 1 1
2 1 1.0 2 2 2
3 2 -0.5 3 3 3
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "a.data"
    path.write_text(DATA)
    return path


def molecule(*elements: str) -> Record:
    """Atoms of some elements, three frames, from nowhere near LAMMPS."""
    symbols = np.array(elements, np.dtypes.StringDType())
    frames = [
        Frame(
            {"atoms": Block({axis: np.arange(len(elements)) + float(n) for axis in "xyz"})},
            box=Box(np.eye(3) * 9),
            step=n,
        )
        for n in range(3)
    ]
    return Record(system=Frame({"atoms": Block({"element": symbols})}), trajectory=MemoryTrajectory(frames))


class TestData:
    def test_numbers_masses_and_comments_go_along(self, data: Path, tmp_path: Path) -> None:
        target = tmp_path / "b.data"
        assert run(["convert", str(data), str(target), "--type-order", "2,1"]) == 0
        text = target.read_text()
        assert "1 15.9994 # O\n2 28.0855 # Si\n3 1.008 # H, of which there is none\n" in text
        assert "1 1 -0.5 1 1 1\n2 2 1 2 2 2\n3 1 -0.5 3 3 3\n" in text
        atoms = ase.io.read(target, format="lammps-data")
        assert str(atoms.symbols) == "OSiO"
        assert atoms.get_positions()[1].tolist() == [2, 2, 2]

    def test_by_element(self, data: Path, tmp_path: Path) -> None:
        target = tmp_path / "b.data"
        arguments = ["convert", str(data), str(target), "--guess-elements", "--type-order", "O,Si"]
        assert run(arguments) == 0
        assert "1 15.9994 # O\n2 28.0855 # Si\n" in target.read_text()

    def test_by_label_with_an_element_that_is_absent(self, tmp_path: Path) -> None:
        """Files of a set have one numbering, whatever elements each has."""
        target = tmp_path / "a.data"
        molrec_convert.write(molecule("H", "O", "H"), target, type_order=("C", "H", "O"))
        text = target.read_text()
        assert "3 atom types\n" in text
        assert "Atom Type Labels\n\n1 C\n2 H\n3 O\n" in text
        masses = text[text.index("Masses\n\n") :].split("\n")[2:5]
        assert [line.split()[0] for line in masses] == ["1", "2", "3"]
        assert np.allclose([float(line.split()[1]) for line in masses], [12.011, 1.008, 15.999], atol=1e-3)
        assert str(ase.io.read(target, format="lammps-data").symbols) == "HOH"

    @pytest.mark.parametrize(
        ("order", "why"),
        [
            ("C,O", "type H is not named; name each of H, O"),
            ("H,O,Q", "the record has no type 'Q'; it has H, O"),
            ("H,O,H", "a type is named twice"),
        ],
    )
    def test_refused(self, tmp_path: Path, order: str, why: str) -> None:
        for name in ("a.data", "a.dump"):
            with pytest.raises(UsageError, match=why):
                molrec_convert.write(molecule("H", "O", "H"), tmp_path / name, type_order=tuple(order.split(",")))


class TestDump:
    def test_the_column_type(self, tmp_path: Path) -> None:
        target = tmp_path / "a.dump"
        molrec_convert.write(molecule("H", "O", "H"), target, type_order=("O", "C", "H"))
        frames = ase.io.read(target, ":", format="lammps-dump-text")
        assert [atoms.arrays["type"].tolist() for atoms in frames] == [[3, 1, 3]] * 3
        assert [str(atoms.symbols) for atoms in frames] == ["HOH"] * 3

    def test_types_of_a_data_file(self, data: Path, tmp_path: Path) -> None:
        for order, wanted in (("2,1", [1, 2, 1]), ("1,2", [2, 1, 2])):
            target = tmp_path / f"{order}.dump"
            assert run(["convert", str(data), str(target), "--type-order", order]) == 0
            assert ase.io.read(target, format="lammps-dump-text").arrays["type"].tolist() == wanted

    def test_without_the_column(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="the dump has no column type"):
            molrec_convert.write(
                molecule("H"), tmp_path / "a.dump", type_order=("H",), dump_columns=("id", "x", "y", "z")
            )


@needs_lammps
class TestRun:
    @pytest.mark.parametrize(
        "name", ["water-tilted-pppm", "class2-hybrid", "pair-hybrid-overlay", "dreiding", "nb3b-morse"]
    )
    def test_energies_are_the_same(self, name: str, fixtures: Path, tmp_path: Path) -> None:
        folder = tmp_path / "source"
        shutil.copytree(fixtures / "corpus/energies" / name, folder)
        with molrec_convert.read(*sources(folder)) as record:
            assert record.system is not None
            document: dict[str, Any] = record.system.meta["lammps"]
            count = document["type_counts"]["atom"]
            labels = document.get("type_labels", {}).get("atom") or [str(n + 1) for n in range(count)]
            turned = tuple(labels[::-1])
            options: dict[str, Any] = {"type_order": turned, "potential_files": str(folder)}
            molrec_convert.write(record, tmp_path / "run", format="lammps-run", **options)
        first, second = energies(folder), energies(tmp_path / "run")
        for term in TERMS:
            assert math.isclose(first[term], second[term], rel_tol=1e-9, abs_tol=1e-300), term

    def test_commands_that_name_types_by_number(self, fixtures: Path, tmp_path: Path) -> None:
        folder = tmp_path / "source"
        shutil.copytree(fixtures / "corpus/energies/pair-lj_cut", folder)
        script = folder / "in.lmp"
        text = script.read_text()
        start = text.index("thermo_style")
        script.write_text(f"{text[:start]}neigh_modify exclude type 1 1\n{text[start:]}")
        with molrec_convert.read(script) as record:
            with pytest.raises(
                UnsupportedError, match="'neigh_modify exclude type 1 1', which names atom types by numbers"
            ):
                molrec_convert.write(
                    record, tmp_path / "run", format="lammps-run", type_order=("5", "4", "3", "2", "1")
                )
            molrec_convert.write(record, tmp_path / "same", format="lammps-run", type_order=("1", "2", "3", "4", "5"))
