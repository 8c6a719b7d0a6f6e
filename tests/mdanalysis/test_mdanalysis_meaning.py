"""What numbers mean on their way through MDAnalysis: units of LAMMPS' DCD files, elements, charges, what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MDAnalysis = pytest.importorskip("MDAnalysis")

import molrec_convert  # noqa: E402
from molrec_convert.errors import MolrecError, UnsupportedError  # noqa: E402
from molrec_convert.meaning.units import in_units  # noqa: E402
from molrec_convert.model import (  # noqa: E402
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    Record,
)
from molrec_convert.report import Fate, Report  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

DCD = Path(__file__).parents[2] / "fixtures" / "faults" / "dcd-by-lammps"
OWN = {"length": "angstrom", "energy": "kJ/mol", "time": "ps", "mass": "dalton", "charge": "e", "angle": "degree"}


def _names(report: Report, fate: Fate) -> set[str]:
    return {item.name for item in report.of(fate)}


@pytest.fixture
def lammps(tmp_path: Path) -> Path:
    """The data file and the DCD file, in a folder of their own."""
    return Path(shutil.copytree(DCD, tmp_path / "lammps"))


def test_a_dcd_file_by_lammps_beside_its_data_file(lammps: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.mrec"
    molrec_convert.convert([lammps / "full.data", lammps / "f.dcd"], target, units="real")
    with molrec_convert.open(target) as record, molrec_convert.read(lammps / "full.data", units="real") as data:
        assert record.units == {"preset": "real"}
        assert [(frame.step, frame.time) for frame in record.trajectory] == [(0, 0.0), (5, 2.5), (10, 5.0)]
        assert record.frame["atoms"].stored("ix").tolist() == [0, 0, 0]
        assert (
            record.forcefield.tables["bond.harmonic"]["k"].tolist()
            == data.forcefield.tables["bond.harmonic"]["k"].tolist()
        )
        assert record.system["atoms"].columns.keys() == data.system["atoms"].columns.keys()
    ts = MDAnalysis.Universe(str(target)).trajectory[1]
    assert ts.time == 0.0025  # ps
    theirs = MDAnalysis.Universe(
        str(lammps / "full.data"), str(lammps / "f.dcd"), format="LAMMPS", topology_format="DATA"
    )
    assert theirs.trajectory[1].time == pytest.approx(0.0025, rel=1e-12)
    assert np.array_equal(ts.positions, theirs.trajectory[1].positions)


def test_the_title_of_the_data_file_says_the_units(lammps: Path) -> None:
    file = lammps / "full.data"
    file.write_text(file.read_text().replace("full with images", "LAMMPS data file, units = metal"))
    with molrec_convert.read(file, lammps / "f.dcd") as record:
        assert record.units == {"preset": "metal"}
        assert [frame.time for frame in record.trajectory] == [0.0, 2.5, 5.0]


def test_without_units_a_dcd_file_by_lammps_has_no_times(lammps: Path, tmp_path: Path) -> None:
    report = Report()
    with molrec_convert.read(lammps / "full.data", lammps / "f.dcd", report=report) as record:
        assert record.units is None
        assert [(frame.step, frame.time) for frame in record.trajectory] == [(0, None), (5, None), (10, None)]
    assert [item.detail for item in report.of(Fate.DROPPED) if item.name == "time" and "--units" in item.detail]


def test_a_dcd_file_by_lammps_beside_another_topology(lammps: Path, tmp_path: Path) -> None:
    xyz = tmp_path / "top.xyz"
    xyz.write_text("3\n\nO 1 1 1\nH 1.96 1 1\nH 0.76 1.93 1\n")
    report = Report()
    with molrec_convert.read(xyz, lammps / "f.dcd", format="mdanalysis", report=report) as record:
        assert record.units == OWN
        assert record.trajectory[1].time is None
    assert "time" in _names(report, Fate.DROPPED)
    assert "lengths" in _names(report, Fate.DERIVED)
    with molrec_convert.read(xyz, lammps / "f.dcd", format="mdanalysis", units="real") as record:
        assert [frame.time for frame in record.trajectory] == [0.0, 0.0025, 0.005]
    with molrec_convert.read(xyz, lammps / "f.dcd", format="mdanalysis", units="electron") as record:
        bohr = float(np.float32(1.96)) * 0.529177210544
        assert record.trajectory[0]["atoms"]["x"][1] == pytest.approx(bohr, rel=1e-12)


def test_another_trajectory_beside_a_data_file_comes_in_the_units_of_the_data_file(
    lammps: Path, tmp_path: Path
) -> None:
    universe = MDAnalysis.Universe.empty(3, trajectory=True)
    with MDAnalysis.Writer(str(tmp_path / "a.xtc"), 3) as writer:
        for number in range(2):
            universe.atoms.positions = np.full((3, 3), number + 1.0)
            universe.trajectory.ts.time = number * 2.0
            universe.trajectory.ts.dimensions = [10, 10, 10, 90, 90, 90]
            writer.write(universe.atoms)
    with molrec_convert.read(lammps / "full.data", tmp_path / "a.xtc", units="real") as record:
        assert record.units == {"preset": "real"}
        assert [frame.time for frame in record.trajectory] == [0.0, 2000.0]
        assert "bond.harmonic" in record.forcefield.tables
        assert record.trajectory[1]["atoms"]["x"].tolist() == [2.0] * 3
    report = Report()
    with molrec_convert.read(lammps / "full.data", tmp_path / "a.xtc", report=report) as record:
        assert record.units is None
    assert any("nothing says what the data file is in" in warning for warning in report.warnings)


def _moving(units: Any = None, *, lacking: str = "", frames: int = 3) -> Record:
    """Two waters, whose frames lack all or (`some_…`) one of their forces or velocities or positions in frame 1."""
    names = {"positions": "x y z", "velocities": "vx vy vz", "forces": "fx fy fz"}
    count = 6
    system = Frame({"atoms": Block({"element": ["O", "H", "H"] * 2, "mass": np.array([15.9994, 1.008, 1.008] * 2)})})
    system.meta.put("units", dict(OWN) if units is None else units, "json")
    made = []
    random = np.random.default_rng(3)
    for number in range(frames):
        columns: dict[str, Column] = {}
        for name, words in names.items():
            for column in words.split():
                mask = None
                if lacking.endswith(name) and number == 1:
                    mask = np.zeros(count, np.bool_)
                    mask[1:] = lacking.startswith("some_")
                columns[column] = Column(random.normal(size=count) * (1e-3 if name == "velocities" else 1.0), mask)
        made.append(Frame({"atoms": Block(columns)}, box=Box(np.eye(3) * 20.0), step=number, time=number * 0.5))
    declared = {
        column: ColumnDeclaration("f64", (), lacking.endswith(name))
        for name, words in names.items()
        for column in words.split()
    }
    declaration = Declaration({"atoms": BlockDeclaration(declared, rows=count)}, {})
    return Record(system=system, trajectory=MemoryTrajectory(made, declaration))


WRITERS = {
    "dcd": "positions", "xtc": "positions", "trr": "positions velocities forces", "ncdf": "positions velocities forces",
    "trz": "positions velocities", "h5md": "positions velocities forces",
}  # fmt: skip


@pytest.mark.parametrize(
    "lacking", ["forces", "velocities", "positions", "some_forces", "some_velocities", "some_positions"]
)
@pytest.mark.parametrize("suffix", WRITERS)
def test_what_some_frames_lack_is_written_as_missing_or_refused_by_name(
    suffix: str, lacking: str, tmp_path: Path
) -> None:
    if suffix == "h5md":
        pytest.importorskip("h5py")
    name = lacking.removeprefix("some_")
    target = tmp_path / f"a.{suffix}"
    record = _moving(lacking=lacking)
    if name in WRITERS[suffix].split() and (suffix != "trr" or lacking.startswith("some_")):
        with pytest.raises(UnsupportedError, match=name):
            molrec_convert.write(record, target)
        assert not target.exists()
        return
    molrec_convert.write(record, target)
    universe = MDAnalysis.Universe.empty(6)
    universe.load_new(str(target))
    assert universe.trajectory.n_frames == 3
    for ts, frame in zip(universe.trajectory, record.trajectory, strict=True):
        there = suffix == "trr" and name == "forces" and ts.frame == 1
        assert getattr(ts, "has_forces", False) == (suffix in ("trr", "ncdf", "h5md") and not there)
        if ts.has_positions:
            assert np.allclose(ts.positions[:, 0], frame["atoms"]["x"], atol=0.0051)


@pytest.mark.parametrize("suffix", ["gro", "crd", "dcd", "xtc"])
def test_numbers_that_are_none_are_never_written(suffix: str, tmp_path: Path) -> None:
    record = _moving(frames=1)
    frame = record.trajectory[0]
    columns = {name: column.values.copy() for name, column in frame["atoms"].columns.items()}
    columns["y"][2] = np.nan
    made = Record(
        system=record.system,
        trajectory=MemoryTrajectory([Frame({"atoms": Block(columns)}, box=frame.box, step=0, time=0.0)]),
    )
    ts = made.to_universe().trajectory.ts
    assert np.isnan(ts.positions[2, 1])
    with pytest.raises(UnsupportedError, match="lacks positions of some atoms"):
        molrec_convert.write(made, tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("suffix", ["gro", "pdbqt", "crd"])
def test_elements_are_the_names_where_there_are_none(suffix: str, tmp_path: Path) -> None:
    numbered = _moving()
    atoms = Block({"atomic_number": np.array([8, 1, 1] * 2, np.uint64)})
    record = Record(system=Frame({"atoms": atoms}, numbered.system.meta), trajectory=numbered.trajectory)
    assert record.to_universe().atoms.elements.tolist() == ["O", "H", "H"] * 2
    molrec_convert.write(record, tmp_path / f"a.{suffix}")
    assert MDAnalysis.Universe(str(tmp_path / f"a.{suffix}")).atoms.names.tolist() == ["O", "H", "H"] * 2


def test_elements_and_charges_in_an_aligned_block_count(tmp_path: Path) -> None:
    moving = _moving(frames=2)
    declaration = moving.trajectory.declaration
    blocks = {
        **declaration.blocks,
        "atom_element": BlockDeclaration(
            {"element": ColumnDeclaration("string"), "charge": ColumnDeclaration("f64")}, rows=6, aligned_with="atoms"
        ),
    }
    words = Block({"element": ["O", "H", "H"] * 2, "charge": np.array([-0.8, 0.4, 0.4] * 2)})
    frames = [
        Frame({**frame.blocks, "atom_element": words}, box=frame.box, step=frame.step, time=frame.time)
        for frame in moving.trajectory
    ]
    meta = Meta()
    meta.put("units", dict(OWN), "json")
    record = Record(system=Frame({}, meta), trajectory=MemoryTrajectory(frames, Declaration(blocks, {})))
    universe = record.to_universe()
    assert universe.atoms.elements.tolist() == ["O", "H", "H"] * 2
    assert universe.atoms.charges.tolist() == [-0.8, 0.4, 0.4] * 2
    molrec_convert.write(record, tmp_path / "a.gro")
    assert MDAnalysis.Universe(str(tmp_path / "a.gro")).atoms.names.tolist() == ["O", "H", "H"] * 2


def test_type_labels_are_no_names_and_elements_can_be_named(lammps: Path, tmp_path: Path) -> None:
    report = molrec_convert.convert(lammps / "full.data", tmp_path / "a.gro", units="real")
    assert any("--elements" in warning and "types 1, 2" in warning for warning in report.warnings)
    assert MDAnalysis.Universe(str(tmp_path / "a.gro")).atoms.names.tolist() == ["X"] * 3
    report = molrec_convert.convert(lammps / "full.data", tmp_path / "b.gro", units="real", elements="O,H")
    assert not any("--elements" in warning for warning in report.warnings)
    assert MDAnalysis.Universe(str(tmp_path / "b.gro")).atoms.names.tolist() == ["O", "H", "H"]


def test_charges_of_a_topology_are_initial_ones_both_ways(tmp_path: Path) -> None:
    universe = MDAnalysis.Universe.empty(2, trajectory=True)
    universe.add_TopologyAttr("charges", [0.5, -0.5])
    record = molrec_convert.from_universe(universe)
    assert record.quantity("charge").tolist() == [0.5, -0.5]
    assert record.quantity("computed_charge") is None
    assert record.to_universe().atoms.charges.tolist() == [0.5, -0.5]
    columns = {**{axis: np.zeros(2) for axis in "xyz"}, "charges": np.array([0.1, -0.1])}
    computed = Record(trajectory=MemoryTrajectory([Frame({"atoms": Block(columns)}, step=0)]))
    made = computed.to_universe()
    assert not hasattr(made.atoms, "charges")
    assert made.trajectory.ts.data["charges"].tolist() == [0.1, -0.1]


def test_masses_nobody_states_are_no_zeros(tmp_path: Path) -> None:
    moving = _moving(frames=1)
    masses = Column(np.array([15.9994, 1.0, 1.0, 15.9994, 1.0, 1.0]), np.array([True, False, True] * 2))
    types = ["1", "2", "2"] * 2
    record = Record(
        system=Frame({"atoms": Block({"type": types, "mass": masses, "charge": np.zeros(6)})}, moving.system.meta),
        trajectory=moving.trajectory,
    )
    molrec_convert.write(record, tmp_path / "a.mrec")
    universe = MDAnalysis.Universe(str(tmp_path / "a.mrec"), to_guess=())
    assert np.isnan(universe.atoms.masses).tolist() == [False, True, False] * 2
    with pytest.raises(UnsupportedError, match="mass of every atom, and 2 of 6 have none"):
        molrec_convert.write(record, tmp_path / "a.data", format="mdanalysis", writer_format="DATA")


@pytest.mark.parametrize("preset", ["real", "metal", "electron", "nano"])
def test_units_by_one_factor_on_every_way(preset: str, tmp_path: Path) -> None:
    record = _moving({"preset": preset})
    ours = in_units(record, OWN, strict=False)
    universe = record.to_universe()
    molrec_convert.write(record, tmp_path / "a.trr")
    written = MDAnalysis.Universe.empty(6)
    written.load_new(str(tmp_path / "a.trr"))
    assert universe.atoms.masses.tolist() == ours.system["atoms"]["mass"].tolist()
    for frame, ts, other in zip(ours.trajectory, universe.trajectory, written.trajectory, strict=True):
        assert ts.time == frame.time
        for axis, (x, v, f) in enumerate(zip(("x", "y", "z"), ("vx", "vy", "vz"), ("fx", "fy", "fz"), strict=True)):
            assert np.array_equal(ts.positions[:, axis], frame["atoms"][x].astype(np.float32))
            assert np.array_equal(ts.velocities[:, axis], frame["atoms"][v].astype(np.float32))
            assert np.array_equal(ts.forces[:, axis], frame["atoms"][f].astype(np.float32))
            assert np.allclose(other.forces[:, axis], ts.forces[:, axis], rtol=1e-6)
    back = molrec_convert.from_universe(universe, target_units=preset)
    again = in_units(molrec_convert.from_universe(universe), {"preset": preset}, strict=False)
    assert back.units == {"preset": preset}
    for one, two in zip(back.trajectory, again.trajectory, strict=True):
        assert one["atoms"]["fx"].tolist() == two["atoms"]["fx"].tolist()
        assert one.time == two.time


def test_others_read_the_same_numbers(tmp_path: Path) -> None:
    chemfiles, mdtraj = pytest.importorskip("chemfiles"), pytest.importorskip("mdtraj")
    record = _moving({"preset": "real"})
    for suffix in ("xtc", "trr", "dcd", "gro", "ncdf"):
        molrec_convert.write(record, tmp_path / f"a.{suffix}")
    wanted = np.stack([record.trajectory[2]["atoms"][axis] for axis in "xyz"], axis=1)
    for suffix in ("xtc", "trr", "dcd", "gro"):
        with chemfiles.Trajectory(str(tmp_path / f"a.{suffix}")) as opened:
            frame = opened.read_step(opened.nsteps - 1)
            assert np.allclose(frame.positions, wanted, atol=0.0051), suffix
            assert np.allclose(frame.cell.lengths, 20.0), suffix
    trr = mdtraj.formats.TRRTrajectoryFile(str(tmp_path / "a.trr")).read()
    xtc = mdtraj.formats.XTCTrajectoryFile(str(tmp_path / "a.xtc")).read()
    assert np.allclose(xtc[0][2] * 10, wanted, atol=0.0051)
    assert np.allclose(xtc[1], [0.0, 0.0005, 0.001])  # ps, of 0.5 fs a frame
    assert np.allclose(trr[0][2] * 10, wanted, atol=1e-5)
    assert np.allclose(trr[1], [0.0, 0.0005, 0.001])
    with mdtraj.formats.NetCDFTrajectoryFile(str(tmp_path / "a.ncdf")) as opened:
        assert np.allclose(opened.read()[1], [0.0, 0.0005, 0.001])


def test_elements_of_later_frames_are_named_as_lost(tmp_path: Path) -> None:
    moving = _moving(frames=2)
    declared = {
        **moving.trajectory.declaration.blocks["atoms"].columns,
        "element": ColumnDeclaration("string"),
    }
    frames = []
    for frame, element in zip(moving.trajectory, ("O", "S"), strict=True):
        columns = {**frame["atoms"].columns, "element": [element, "H", "H"] * 2}
        frames.append(Frame({"atoms": Block(columns)}, box=frame.box, step=frame.step, time=frame.time))
    declaration = Declaration({"atoms": BlockDeclaration(declared, rows=6)}, {})
    meta = Meta()
    meta.put("units", dict(OWN), "json")
    record = Record(system=Frame({}, meta), trajectory=MemoryTrajectory(frames, declaration))
    report = Report()
    molrec_convert.write(record, tmp_path / "a.xyz", format="mdanalysis", report=report)
    assert "trajectory/atoms/element of later frames" in _names(report, Fate.DROPPED)
    assert MDAnalysis.Universe(str(tmp_path / "a.xyz")).atoms.elements.tolist() == ["O", "H", "H"] * 2


def test_bonds_of_atoms_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mol2"
    path.write_text(
        "@<TRIPOS>MOLECULE\na\n2 1 0 0 0\nSMALL\nNO_CHARGES\n\n@<TRIPOS>ATOM\n"
        "1 C1 0.0 0.0 0.0 C.3\n2 C2 1.5 0.0 0.0 C.3\n@<TRIPOS>BOND\n1 1 2 1\n"
    )
    with molrec_convert.read(path, format="mdanalysis") as record:
        assert record.system["bonds"].count == 1
    path.write_text(path.read_text().replace("\n1 1 2 1\n", "\n1 1 3 1\n"))
    with pytest.raises(MolrecError, match="bonds"):
        molrec_convert.read(path, format="mdanalysis")
