"""Dumps that are written, opened by programs that others made: what they read is what the record holds."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest
from dump_texts import frame, read, write

import molrec_convert
from molrec_convert import Record
from molrec_convert.cli import run
from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Block, Box, Column, Frame, MemoryTrajectory

FAULTS = Path(__file__).parents[2] / "fixtures" / "faults"


def positions_ase(path: Path) -> list[Any]:
    """Positions of each frame, as ASE reads them."""
    return [atoms.positions for atoms in ase.io.read(path, ":", format="lammps-dump-text")]


def positions_mdanalysis(path: Path) -> list[Any]:
    """Positions of each frame, as MDAnalysis reads them (it moves the corner of the cell to the origin)."""
    MDAnalysis = pytest.importorskip("MDAnalysis")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = MDAnalysis.Universe(str(path), format="LAMMPSDUMP", topology_format="LAMMPSDUMP")
        return [frame.positions.copy() for frame in universe.trajectory]


def positions_pymatgen(path: Path) -> list[Any]:
    """Positions of each frame, as pymatgen reads them."""
    outputs = pytest.importorskip("pymatgen.io.lammps.outputs")
    return [dump.data[["x", "y", "z"]].to_numpy() for dump in outputs.parse_lammps_dumps(str(path))]


def positions_mdtraj(path: Path) -> list[Any]:
    """Positions of each frame, as mdtraj reads them."""
    mdtraj = pytest.importorskip("mdtraj")
    with mdtraj.formats.LAMMPSTrajectoryFile(str(path)) as file:
        return list(file.read()[0])


READERS = {
    "ase": positions_ase,
    "mdanalysis": positions_mdanalysis,
    "pymatgen": positions_pymatgen,
    "mdtraj": positions_mdtraj,
}
WATER = np.array([[1, 1, 1], [1.96, 1, 1], [0.76, 1.93, 1], [5, 5, 5], [5.96, 5, 5], [4.76, 5.93, 5]], dtype=np.float64)


class TestUnitsAndTimes:
    """Of a dump that states its units, MDAnalysis, pymatgen and mdtraj read nothing."""

    @pytest.mark.parametrize("reader", READERS)
    def test_left_out_where_nobody_asks(self, tmp_path: Path, reader: str) -> None:
        target = tmp_path / "out.lammpstrj"
        assert run(["convert", str(FAULTS / "units-items.lammpstrj"), str(target)]) == 0
        frames = READERS[reader](target)
        assert len(frames) == 1
        assert np.allclose(frames[0], WATER, rtol=1e-6)

    def test_said(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source, target = str(FAULTS / "units-items.lammpstrj"), tmp_path / "out.lammpstrj"
        assert run(["convert", source, str(target), "--strict"]) == 3
        assert "--dump-units" in capsys.readouterr().err
        assert run(["convert", source, str(target), "--strict", "--dump-units"]) == 0
        assert target.read_text().startswith("ITEM: UNITS\nreal\n")

    def test_there_is_something_to_state(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for option, why in (("--dump-units", "--units names that"), ("--dump-time", "states no times")):
            assert (
                run(["convert", str(FAULTS / "same.dump"), str(tmp_path / "a.dump"), "--steps", "index", option]) == 2
            )
            assert why in capsys.readouterr().err


class TestTexts:
    """Columns of text, empty here and there, broke the rows of a dump."""

    @pytest.fixture
    def dump(self, tmp_path: Path) -> Path:
        target = tmp_path / "out.lammpstrj"
        assert run(["convert", str(FAULTS / "alt.pdb"), str(target), "--box", "atoms,3"]) == 0
        return target

    @pytest.mark.parametrize("reader", ["ase", "mdanalysis"])
    def test_readers(self, dump: Path, reader: str) -> None:
        (found,) = READERS[reader](dump)
        assert np.allclose(found - found[0], [[0, 0, 0], [1, 0, 0], [1.1, 0, 0]], atol=1e-6)

    def test_ours(self, dump: Path) -> None:
        record = molrec_convert.read(dump)
        assert record.system is not None
        assert record.trajectory is not None
        assert record.system["atoms"]["element"].tolist() == ["N", "C", "C"]
        assert record.trajectory[0]["atoms"]["occupancy"].tolist() == [1.0, 0.5, 0.5]

    def test_said(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source, target = str(FAULTS / "alt.pdb"), str(tmp_path / "a.dump")
        assert run(["convert", source, target, "--box", "atoms,3", "--strict"]) == 3
        assert "altloc" in capsys.readouterr().err
        assert run(["convert", source, target, "--box", "atoms,3", "--dump-columns", "id,x,y,z,altloc"]) == 2
        assert "altloc is text" in capsys.readouterr().err


def fractions(cell: Any, vectors: Any) -> Any:
    """Vectors [n, 3] by the vectors of a cell (columns): the same in every orientation."""
    return np.linalg.solve(cell, np.asarray(vectors).T).T


class TestTurning:
    """`--rotate` turns every vector and tensor with the cell, or names what it leaves."""

    def read(self, path: Path) -> tuple[Any, Any]:
        """All columns of the first frame as pymatgen reads them, and the cell (vectors as columns)."""
        outputs = pytest.importorskip("pymatgen.io.lammps.outputs")
        dump = next(iter(outputs.parse_lammps_dumps(str(path))))
        return dump.data, dump.box.to_lattice().matrix.T

    def test_vectors_of_a_dump(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        target = tmp_path / "out.dump"
        assert run(["convert", str(FAULTS / "dv.dump"), str(target), "--rotate"]) == 0
        assert "not turned with the cell: c_s[1] c_s[2] c_s[3]" in capsys.readouterr().err
        table, cell = self.read(target)
        before = np.array([[0.0, 4.0, 0.0], [0.0, 0.0, 5.0], [6.0, 0.5, 0.0]]).T
        vectors = [[0, 1, 0], [0, 0, -2]]
        for names in (["vx", "vy", "vz"], ["mux", "muy", "muz"], ["omegax", "omegay", "omegaz"]):
            assert np.allclose(fractions(cell, table[names].to_numpy()), fractions(before, vectors), atol=1e-12), names
        assert table[["c_s[1]", "c_s[2]", "c_s[3]"]].to_numpy().tolist() == [[1, 2, 3], [1, 2, 3]]

    def test_vectors_and_tensors_of_extended_xyz(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        target = tmp_path / "out.dump"
        assert run(["convert", str(FAULTS / "gv.extxyz"), str(target), "--rotate"]) == 0
        assert "not turned" not in capsys.readouterr().err
        table, cell = self.read(target)
        before = np.array([[0.0, 4.0, 0.0], [0.0, 0.0, 5.0], [6.0, 0.5, 0.0]]).T
        vectors = [[0, 1, 0], [0, 0, -2]]
        for name in ("velo", "momenta", "dip"):
            found = table[[f"{name}[{n}]" for n in (1, 2, 3)]].to_numpy()
            assert np.allclose(fractions(cell, found), fractions(before, vectors), atol=1e-12), name
        tensors = table[[f"virials[{n}]" for n in range(1, 10)]].to_numpy().reshape(2, 3, 3)
        rotation = cell @ np.linalg.inv(before)
        assert np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
        for tensor in tensors:
            assert np.allclose(tensor, rotation @ np.arange(1.0, 10.0).reshape(3, 3) @ rotation.T, atol=1e-12)

    def test_a_vector_with_a_missing_number(self, tmp_path: Path) -> None:
        cell = Box(np.array([[0.0, 5.0, 0.0], [5.0, 0.5, 1.0], [0.0, 0.0, -6.0]]))
        known = np.array([True, False])
        columns = {
            **{axis: np.zeros(2) for axis in "xyz"},
            **{f"v{axis}": Column(np.ones(2), known if axis == "y" else None) for axis in "xyz"},
        }
        record = Record(trajectory=MemoryTrajectory([Frame({"atoms": Block(columns)}, box=cell, step=0)]))
        molrec_convert.write(record, tmp_path / "a.dump", rotate=True)
        assert (tmp_path / "a.dump").read_text().splitlines()[-1].split()[-3:] == ["nan"] * 3


class TestDumpsNamedTogether:
    """Several dumps of one run are joined by step and id, whatever the order they are named in."""

    def test_forces_beside_positions(self, tmp_path: Path) -> None:
        names = [str(FAULTS / "positions.dump"), str(FAULTS / "forces.dump")]
        for number, order in enumerate((names, names[::-1])):
            target = tmp_path / f"{number}.mrec"
            assert run(["convert", *order, str(target), "--units", "real"]) == 0
            record = molrec_convert.read(target)
            assert record.trajectory is not None
            assert record.trajectory.steps is not None
            assert record.trajectory.steps.tolist() == [0, 100]
            assert record.trajectory[0]["atoms"]["x"].tolist() == [1.5, 4.5]
            assert record.trajectory[1]["atoms"]["x"].tolist() == [1.6, 4.6]
            assert record.trajectory[0]["atoms"]["fx"].tolist() == [0.1, 0.4]
            assert not record.trajectory[1]["atoms"].validity("fx").any()
        assert run(["diff", str(tmp_path / "0.mrec"), str(tmp_path / "1.mrec")]) == 0

    def test_beside_a_data_file(self, tmp_path: Path) -> None:
        """The run's reader joins them in the same way."""
        data = tmp_path / "sys.data"
        data.write_text(
            "t\n\n2 atoms\n1 atom types\n0 10 xlo xhi\n0 10 ylo yhi\n0 10 zlo zhi\n\nMasses\n\n1 39.95\n\n"
            "Atoms # atomic\n\n1 1 1 1 1\n2 1 4 4 4\n"
        )
        record = molrec_convert.read(data, FAULTS / "forces.dump", FAULTS / "positions.dump")
        assert record.system is not None
        assert record.trajectory is not None
        assert record.system["atoms"]["mass"].tolist() == [39.95, 39.95]
        assert record.trajectory[1]["atoms"]["x"].tolist() == [1.6, 4.6]
        assert record.trajectory[0]["atoms"]["fx"].tolist() == [0.1, 0.4]

    @pytest.mark.parametrize("first", [0, 1])
    def test_the_one_with_the_most_frames_has_the_steps(self, tmp_path: Path, first: int) -> None:
        paths = [
            write(tmp_path / "x.dump", *(frame(n, [f"1 {n} 0 0", "2 5 5 5"], "id x y z") for n in (0, 20))),
            write(tmp_path / "f.dump", *(frame(n, [f"2 -{n}", f"1 {n}"], "id fx") for n in (0, 10, 20))),
        ]
        record = read([paths[first], paths[1 - first]], named=True)[0]
        assert record.trajectory is not None
        assert record.trajectory.steps is not None
        assert record.trajectory.steps.tolist() == [0, 10, 20]
        assert [state["atoms"]["fx"].tolist() for state in record.trajectory] == [[0, 0], [10, -10], [20, -20]]
        assert [state["atoms"].validity("x").all() for state in record.trajectory] == [True, False, True]
        assert record.trajectory[2]["atoms"]["x"].tolist() == [20, 5]

    @pytest.mark.parametrize(
        ("other", "why"),
        [
            (frame(10, ["1 7"], "id fx"), "1 frames of .*f.dump: .*x.dump has no frame of their steps"),
            (frame(0, ["1 7"], "id x"), "it has no column that .*x.dump lacks"),
            (frame(0, ["1 7", "3 7"], "id fx"), "other atoms than .*x.dump"),
            (frame(0, ["1 7"], "proc fx"), "f.dump has no column id"),
        ],
    )
    def test_what_cannot_be_joined_is_refused(self, tmp_path: Path, other: str, why: str) -> None:
        """And not left out with one line among others."""
        first = write(tmp_path / "x.dump", *(frame(n, ["1 0 0 0", "2 5 5 5"], "id x y z") for n in (0, 20, 30)))
        if "fx" in other and other.startswith("ITEM: TIMESTEP\n10"):
            other = frame(0, ["1 7", "2 8"], "id fx") + frame(10, ["1 7", "2 8"], "id fx")
        paths = [write(tmp_path / "f.dump", other), first]
        with pytest.raises(UnsupportedError, match=f"{why}.*converts it by itself"):
            read(paths, named=True)

    def test_other_columns_at_later_steps_go_on_in_time(self, tmp_path: Path) -> None:
        paths = [
            write(tmp_path / "b.dump", frame(10, ["1 1 0 0 7"], "id x y z vx")),
            write(tmp_path / "a.dump", frame(0, ["1 0 0 0"], "id x y z")),
        ]
        record, _ = read(paths, named=True)
        assert record.trajectory is not None
        assert [state["atoms"]["x"][0] for state in record.trajectory] == [0, 1]


def test_labels_of_types_are_said_to_be_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LAMMPS has the column, ASE does not read it."""
    source, target = str(FAULTS / "outside.data"), tmp_path / "a.dump"
    assert run(["convert", source, str(target)]) == 0
    assert "which ASE does not read" in capsys.readouterr().err
    with pytest.raises(ValueError, match="Ar"):
        ase.io.read(target, format="lammps-dump-text")
    assert run(["convert", source, str(target), "--overwrite", "--dump-columns", "id,type,element,x,y,z"]) == 0
    assert "ASE" not in capsys.readouterr().err
    assert str(ase.io.read(target, format="lammps-dump-text").symbols) == "Ar3"


class TestOptionsWithoutAnEffect:
    def test_a_box_beside_a_cell(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["convert", str(FAULTS / "units-items.lammpstrj"), str(tmp_path / "a.dump"), "--box", "atoms,3"]
        assert run(arguments) == 2
        assert "the record has a cell of its own" in capsys.readouterr().err
