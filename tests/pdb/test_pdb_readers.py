"""PDB files we write, opened by the programs people use: right atoms, names, cell, bonds, one frame for one state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pdb_readers import ALL, see

from molrec_convert import convert, read
from molrec_convert import write as write_record
from molrec_convert.model import Block, Box, Frame, MemoryTrajectory, Record
from molrec_convert.report import Fate, Report

pytest.importorskip("gemmi")
pytestmark = pytest.mark.interop
STRING = np.dtypes.StringDType()

WATERS = [[1, 1, 1], [1.96, 1, 1], [0.76, 1.93, 1], [5, 5, 5], [5.96, 5, 5], [4.76, 5.93, 5]]
BONDS = [(0, 1), (0, 2), (3, 4), (3, 5)]


def texts(*values: str) -> np.ndarray[Any, Any]:
    return np.array(values, STRING)


def record(columns: dict[str, Any], xyz: Any, frames: int = 1, **state: Any) -> Record:
    positions = np.array(xyz, float)
    system = Frame({"atoms": Block(columns, count=len(positions))}, {"units": {"length": "angstrom"}})
    states = [
        Frame(
            {"atoms": Block({axis: positions[:, n] + number for n, axis in enumerate("xyz")} | state)},
            box=Box(np.diag([30.0, 31.0, 32.0])), step=number,
        )
        for number in range(frames)
    ]  # fmt: skip
    return Record(system=system, trajectory=MemoryTrajectory(states))


def names_of(path: Path) -> list[str]:
    return [line[12:16].strip() for line in path.read_text().splitlines() if line.startswith(("ATOM", "HETATM"))]


@pytest.fixture
def waters(fixtures: Path, tmp_path: Path) -> Path:
    path = tmp_path / "waters.pdb"
    convert(fixtures / "faults/two-waters.data", path, elements=["O", "H"])
    return path


@pytest.mark.parametrize("program", ALL)
def test_two_molecules_of_a_data_file(program: str, waters: Path) -> None:
    seen = see(program, waters)
    assert np.array(seen.positions).shape == (1, 6, 3)
    assert np.allclose(seen.positions[0], WATERS, atol=1e-4)
    assert seen.elements == ["O", "H", "H"] * 2
    assert seen.names in (None, ["O", "H1", "H2"] * 2)
    assert seen.residues in (None, [1, 1, 1, 2, 2, 2])
    assert seen.cell is None or np.allclose(seen.cell, 12.0)
    assert seen.bonds in (None, BONDS)
    assert seen.occupancy in (None, [1.0] * 6)


def test_what_was_made_is_said_and_not_read_back(fixtures: Path, waters: Path, tmp_path: Path) -> None:
    report = Report()
    convert(fixtures / "faults/two-waters.data", tmp_path / "again.pdb", elements=["O", "H"], report=report)
    assert {"name", "res_name", "res_id", "occupancy", "b_factor"} <= {item.name for item in report.of(Fate.DERIVED)}
    assert "MODEL" not in waters.read_text()
    back = read(waters)
    assert set(back.trajectory.declaration.blocks["atoms"].columns) == {"x", "y", "z"}
    assert not back.system.meta.get("pdb", {}).get("lines")
    # read in one go with others, too
    convert(waters, tmp_path / "again.mrec.lmdb")
    with read(tmp_path / "again.mrec.lmdb") as some:
        assert set(some[0].trajectory.declaration.blocks["atoms"].columns) == {"x", "y", "z"}


def test_placeholders_that_somebody_changed_are_values(waters: Path, tmp_path: Path) -> None:
    text = waters.read_text()
    (tmp_path / "b.pdb").write_text(text.replace("  1.00  0.00", "  1.00  7.50", 1))
    frame = read(tmp_path / "b.pdb").trajectory[0]["atoms"]
    assert "occupancy" not in frame
    assert frame["b_factor"].tolist() == [7.5, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("program", ALL)
def test_a_trajectory_has_its_frames_and_no_more(program: str, tmp_path: Path) -> None:
    path = tmp_path / "run.pdb"
    source = record({"element": texts("O", "H", "H"), "mol_id": np.ones(3, np.uint64)}, WATERS[:3], frames=3)
    write_record(source, path)
    assert path.read_text().count("MODEL ") == 3
    seen = see(program, path)
    frames = 1 if program == "pymatgen" else 3
    assert np.array(seen.positions).shape == (frames, 3, 3)
    assert np.allclose(seen.positions[-1], np.array(WATERS[:3]) + frames - 1, atol=1e-4)
    assert seen.elements == ["O", "H", "H"]


@pytest.mark.parametrize("program", ALL)
def test_more_atoms_than_a_residue_has_names_for(program: str, tmp_path: Path) -> None:
    """A crystal without molecules: its residues end where names of four columns do."""
    count = 250
    xyz = np.stack([np.arange(count) * 0.1, np.zeros(count), np.zeros(count)], axis=1)
    path = tmp_path / "copper.pdb"
    write_record(record({"element": texts(*["Cu"] * count)}, xyz), path)
    names = names_of(path)
    assert names[:2] == ["CU1", "CU2"]
    assert (names[98], names[99]) == ("CU99", "CU1")
    seen = see(program, path)
    assert np.array(seen.positions).shape == (1, count, 3)
    assert set(seen.elements or ()) == {"Cu"}
    assert seen.residues in (None, [n // 99 + 1 for n in range(count)])


@pytest.mark.parametrize("program", ALL)
def test_residue_numbers_that_are_unknown_are_counted_on(program: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pdb"
    row = "HETATM{:5d}  {:3} HOH A{}    {:8.3f}   0.000   0.000  1.00  0.00           {}  \n"
    atoms = [("   7", "O"), ("   7", "H1"), ("****", "O"), ("****", "H1"), ("    ", "O")]
    rows = [row.format(n + 1, name, number, n * 2, name[0]) for n, (number, name) in enumerate(atoms)]
    path.write_text("".join(rows) + "END\n")
    report = Report()
    convert(path, tmp_path / "b.pdb", report=report)
    assert "res_id" in {item.name for item in report.of(Fate.DERIVED)}
    seen = see(program, tmp_path / "b.pdb")
    assert np.array(seen.positions).shape == (1, 5, 3)
    assert seen.residues in (None, [7, 7, 8, 8, 9])


def test_names_that_stand_twice_start_a_residue_only_where_its_number_is_made(tmp_path: Path) -> None:
    columns = {"name": texts("O", "H1", "H2", "O", "H1", "H2"), "element": texts(*["O", "H", "H"] * 2)}
    write_record(record(columns, WATERS), tmp_path / "a.pdb")
    assert read(tmp_path / "a.pdb").system["atoms"]["res_id"].tolist() == [1, 1, 1, 2, 2, 2]
    report = Report()
    columns["res_id"] = np.ones(6, np.uint64)
    write_record(record(columns, WATERS), tmp_path / "b.pdb", report=report)
    assert read(tmp_path / "b.pdb").system["atoms"]["res_id"].tolist() == [1] * 6
    assert names_of(tmp_path / "b.pdb") == columns["name"].tolist()
    assert any("3 atoms have the name of another one of their residue" in text for text in report.warnings)


def test_names_are_different_in_molecules_whose_atoms_are_mixed(tmp_path: Path) -> None:
    columns = {"element": texts("O", "O", "H", "H", "H", "H"), "mol_id": np.array([4, 9, 4, 9, 4, 9], np.uint64)}
    write_record(record(columns, WATERS), tmp_path / "a.pdb")
    assert names_of(tmp_path / "a.pdb") == ["O", "O", "H1", "H1", "H2", "H2"]
    assert read(tmp_path / "a.pdb").system["atoms"]["res_id"].tolist() == [4, 9, 4, 9, 4, 9]


@pytest.mark.parametrize("program", sorted(set(ALL) - {"pymatgen"}))
def test_atoms_that_are_no_elements(program: str, fixtures: Path, tmp_path: Path) -> None:
    """Types say nothing of elements, and no reader is led to guess some of their names."""
    path = tmp_path / "waters.pdb"
    convert(fixtures / "faults/two-waters.data", path)
    assert names_of(path) == ["X1", "X2", "X3"] * 2
    seen = see(program, path) if program != "mdtraj" else None
    assert seen is None or len(seen.positions[0]) == 6
    assert seen is None or not {"H", "C", "N", "O"} & set(seen.elements or ())


def test_a_single_model_of_a_number(tmp_path: Path) -> None:
    row = "ATOM      1  CA  GLY A   1       1.000   2.000   3.000  1.00  0.00           C  \n"
    for number, fate in ((1, Fate.CONVERTED), (7, Fate.DROPPED)):
        (tmp_path / "a.pdb").write_text(f"MODEL     {number:4d}\n{row}ENDMDL\nEND\n")
        report = Report()
        convert(tmp_path / "a.pdb", tmp_path / "b.pdb", report=report, overwrite=True)
        assert "trajectory/meta/model" in {item.name for item in report.of(fate)}
        assert len(see("ase", tmp_path / "b.pdb").positions) == 1


def test_models_of_one_number_are_counted(tmp_path: Path) -> None:
    row = "ATOM      1  CA  GLY A   1       1.000   2.000   3.000  1.00  0.00           C  \n"
    (tmp_path / "a.pdb").write_text(f"MODEL        3\n{row}ENDMDL\n" * 2)
    for suffix in (".pdb", ".cif"):
        report = Report()
        convert(tmp_path / "a.pdb", tmp_path / f"b{suffix}", report=report)
        assert "trajectory/meta/model" in {item.name for item in report.of(Fate.DROPPED)}
        assert len(see("gemmi", tmp_path / f"b{suffix}").positions) == 2


@pytest.mark.parametrize("program", ["ase", "chemfiles", "parmed", "openmm", "mdtraj", "biotite"])
@pytest.mark.parametrize("lengths", ["    1.000" * 3 + "  90.00" * 3, "    0.000" * 3 + "   0.00" * 3])
def test_no_cell_is_no_cell(program: str, lengths: str, tmp_path: Path) -> None:
    row = "ATOM      1  CA  GLY A   1       1.000   2.000   3.000  1.00  0.00           C  \n"
    (tmp_path / "a.pdb").write_text(f"CRYST1{lengths} P 1           1\n{row}END\n")
    convert(tmp_path / "a.pdb", tmp_path / "b.pdb")
    assert see(program, tmp_path / "b.pdb").cell is None


def test_times_are_written_in_picoseconds(tmp_path: Path) -> None:
    source = record({"element": texts("O", "H", "H")}, WATERS[:3], frames=3)
    source.system.meta.put("units", {"length": "angstrom", "time": "fs"}, "json")
    assert source.trajectory is not None
    frames = list(source.trajectory)
    source.trajectory = MemoryTrajectory(
        [Frame(frame.blocks, box=frame.box, step=n, time=n * 500.0) for n, frame in enumerate(frames)]
    )
    write_record(source, tmp_path / "a.pdb")
    assert read(tmp_path / "a.pdb").trajectory.times.tolist() == [0.0, 0.5, 1.0]


def test_documents_of_a_record_are_written_or_named(tmp_path: Path) -> None:
    source = record({"element": texts("O", "H", "H")}, WATERS[:3])
    meta = source.system.meta
    meta.put("units", {"preset": "real"}, "json")
    meta.put("pdb", {"lines": ["TITLE     A TITLE"], "title": "A TITLE", "colour": "red"}, "json")
    meta.put("coordinates", "unwrapped", "string")
    meta.put("method", "DFT", "string")
    report = Report()
    write_record(source, tmp_path / "a.pdb", report=report)
    dropped = {item.name for item in report.of(Fate.DROPPED)}
    assert dropped == {
        "system/meta/units", "system/meta/pdb/colour", "system/meta/coordinates", "system/meta/method",
    }  # fmt: skip
    assert "TITLE     A TITLE" in (tmp_path / "a.pdb").read_text()


#: What a program cannot open, whoever wrote it: hybrid-36 numbers of residues, atoms without an element, bonds of
#: serials that do not ascend.
CANNOT_OPEN = {
    ("gen_hybrid36_resseq_gemmi.pdb.gz", "ase"), ("mda_5digitResid.pdb", "ase"), ("mda_5digitResid.pdb", "parmed"),
    ("mda_RANDOM_WALK_TOPO.pdb", "pymatgen"), ("mda_nucl_res.pdb", "pymatgen"), ("mda_chainIDrepeat.pdb.gz", "biotite"),
}  # fmt: skip
#: Programs that look atoms up by their names, and leave out those whose name stands twice in a residue.
BY_NAME = {"openmm", "parmed"}
#: Programs that keep one of the alternate locations of an atom.
ONE_LOCATION = {"parmed", "openmm", "mdtraj"}


@pytest.mark.slow
@pytest.mark.parametrize("program", ALL)
def test_files_of_others_written_back(program: str, corpus: Path, tmp_path: Path) -> None:
    """What we write of a file that somebody else made opens, with its frames and atoms where they are."""
    opened = 0
    for path in sorted((corpus / "files/pdb").iterdir()):
        source = read(path) if path.name != "own_structure_factors.ent" else None
        if not isinstance(source, Record) or (path.name, program) in CANNOT_OPEN:
            continue
        atoms, frames = source.system["atoms"], [frame["atoms"] for frame in source.trajectory]
        if not atoms.count or atoms.count * len(frames) > 20_000 or (len(frames) > 1 and program == "pymatgen"):
            continue
        report = Report()
        convert(path, tmp_path / "back.pdb", overwrite=True, hybrid_36=True, report=report)
        if program in BY_NAME and any("have the name of another one" in text for text in report.warnings):
            continue
        seen = see(program, tmp_path / "back.pdb").positions
        assert len(seen) == len(frames), path.name
        assert ("altloc" in atoms and program in ONE_LOCATION) or len(seen[0]) == atoms.count, path.name
        if "altloc" not in atoms and program != "gemmi":
            # gemmi brings the atoms of a residue together
            mine = np.stack([frames[-1][axis] for axis in "xyz"], axis=1)
            assert np.allclose(seen[-1], mine, atol=2e-3), path.name
        opened += 1
    assert opened > 10
