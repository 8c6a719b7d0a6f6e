"""Records inside MDAnalysis: its own tests of readers and writers, and what a user does with a universe."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MDAnalysis = pytest.importorskip("MDAnalysis")
datafiles = pytest.importorskip("MDAnalysisTests.datafiles")

from MDAnalysisTests.coordinates.base import (  # noqa: E402
    BaseReference,
    BaseWriterTest,
    MultiframeReaderTest,
)

import molrec_convert  # noqa: E402
import molrec_mdanalysis  # noqa: E402
from molrec_convert.errors import MolrecError, UnsupportedError, UsageError  # noqa: E402
from molrec_convert.model import Block, Box, Frame, MemoryTrajectory, Meta, Record  # noqa: E402
from molrec_convert.report import Report  # noqa: E402
from molrec_mdanalysis.names import UNITS, vectors_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def _path(name: str) -> str:
    return os.fspath(getattr(datafiles, name))


class _Reference(BaseReference):
    """The reference system as a record, with velocities and forces, in one of both forms."""

    def __init__(self, folder: Path, ext: str) -> None:
        super().__init__()
        name = folder / f"reference.{ext}"
        system = molrec_convert.read(_path("COORDINATES_TOPOLOGY"), format="mdanalysis").system
        frames = [self._frame(number) for number in range(5)]
        molrec_convert.write(Record(system=system, trajectory=MemoryTrajectory(frames)), name)
        self.trajectory = self.topology = str(name)
        self.reader, self.writer, self.ext = molrec_mdanalysis.MrecReader, molrec_mdanalysis.MrecWriter, ext
        self.prec = 6
        self.changing_dimensions = True
        for ts in (self.first_frame, self.second_frame, self.last_frame, self.jump_to_frame):
            ts.velocities, ts.forces = ts.positions / 10, ts.positions / 100
        self.first_frame.dimensions = self.dimensions
        self.second_frame.dimensions = self.dimensions_second_frame

    def _frame(self, number: int) -> Frame:
        positions = np.arange(15, dtype=np.float32).reshape(5, 3) * np.float32(2**number)
        columns = {}
        for names, values in (("xyz", positions), (["vx", "vy", "vz"], positions / 10)):
            columns |= {name: values[:, axis].astype(np.float64) for axis, name in enumerate(names)}
        columns |= {f"f{name}": (positions / 100)[:, axis].astype(np.float64) for axis, name in enumerate("xyz")}
        six = np.array([81.1, 82.2, 83.3, 75, 80, 85]) + np.array([1, 1, 1, 0.1, 0.1, 0.1]) * number
        vectors, _ = vectors_of(six.astype(np.float32)[None])
        return Frame({"atoms": Block(columns)}, box=Box(vectors[0]), step=number, time=float(number))

    def iter_ts(self, i: int) -> Any:
        ts = super().iter_ts(i)
        ts.velocities, ts.forces = ts.positions / 10, ts.positions / 100
        return ts


class TestDirectoryReader(MultiframeReaderTest):
    @staticmethod
    @pytest.fixture(scope="class")
    def ref(tmp_path_factory: Any) -> _Reference:
        return _Reference(tmp_path_factory.mktemp("inside"), "mrec")


class TestPackedReader(MultiframeReaderTest):
    @staticmethod
    @pytest.fixture(scope="class")
    def ref(tmp_path_factory: Any) -> _Reference:
        return _Reference(tmp_path_factory.mktemp("inside"), "mrec.zip")


class TestDirectoryWriter(BaseWriterTest):
    @staticmethod
    @pytest.fixture(scope="class")
    def ref(tmp_path_factory: Any) -> _Reference:
        return _Reference(tmp_path_factory.mktemp("inside"), "mrec")


class TestPackedWriter(BaseWriterTest):
    @staticmethod
    @pytest.fixture(scope="class")
    def ref(tmp_path_factory: Any) -> _Reference:
        return _Reference(tmp_path_factory.mktemp("inside"), "mrec.zip")


@pytest.fixture(scope="module")
def adk(tmp_path_factory: Any) -> str:
    target = tmp_path_factory.mktemp("adk") / "adk.mrec"
    molrec_convert.convert([_path("PSF"), _path("DCD")], target)
    return str(target)


def test_any_order_of_frames(adk: str) -> None:
    ours = MDAnalysis.Universe(adk).trajectory
    theirs = MDAnalysis.Universe(_path("PSF"), _path("DCD")).trajectory
    order = [0, 1, 2, 3, 50, 51, 52, 4, 5, 97, 0, 1, 96, 97, 3]
    for index in order:
        assert np.array_equal(ours[index].positions, theirs[index].positions), index
        assert ours.time == theirs.time
    for a, b in zip(ours[80:3:-7], theirs[80:3:-7], strict=True):
        assert a.frame == b.frame
        assert np.array_equal(a.positions, b.positions)


def test_what_is_changed_in_a_frame_is_not_there_when_it_is_read_again(adk: str) -> None:
    universe = MDAnalysis.Universe(adk)
    before = universe.trajectory[5].positions.copy()
    universe.trajectory.ts.positions += 100
    universe.trajectory[6]
    assert np.array_equal(universe.trajectory[5].positions, before)


def test_a_universe_travels(adk: str) -> None:
    universe = MDAnalysis.Universe(adk)
    universe.trajectory[7]
    there = pickle.loads(pickle.dumps(universe))
    assert there.trajectory.frame == 7
    assert np.array_equal(there.atoms.positions, universe.atoms.positions)
    again = universe.copy()
    assert np.array_equal(again.trajectory[9].positions, universe.trajectory[9].positions)


def _analysed(universe: Any, moving: str, centre: str) -> list[Any]:
    """RMSD, RDF, contacts and fragments of a universe."""
    from MDAnalysis.analysis import contacts, rdf, rms

    group = universe.select_atoms(moving)
    chosen = universe.select_atoms(centre)
    universe.trajectory[0]
    native = contacts.Contacts(universe, select=(moving, centre), refgroup=(group, chosen), radius=8.0)
    return [
        rms.RMSD(universe, select=moving).run(step=2).results.rmsd,
        rdf.InterRDF(chosen, chosen, range=(1.0, 15.0), nbins=20, norm="none").run(step=2).results.count,
        native.run(step=2).results.timeseries,
        np.array([len(group.fragments) if hasattr(universe, "bonds") else 0]),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "moving", "centre"),
    [
        (("PSF", "DCD"), "name CA and resid 60:90", "name CB and resid 1:50"),
        (("GRO", "XTC"), "name CA and resid 60:90", "name CB and resid 1:50"),
        (("TPR_xvf", "TRR_xvf"), "name CA", "name CB"),
        (("PRMncdf", "NCDF"), "resid 1:3", "name O and resid 4:60"),
        (("TNG_traj_gro", "TNG_traj"), "index 0:20", "index 21:90"),
        (("PDB_multiframe",), "name CA", "name CB"),
    ],
)
def test_analysis_says_the_same(files: tuple[str, ...], moving: str, centre: str, tmp_path: Path) -> None:
    if "TNG" in files[0]:
        pytest.importorskip("pytng")
    paths = [_path(name) for name in files]
    molrec_convert.convert(paths, tmp_path / "run.mrec", from_format="mdanalysis")
    ours = _analysed(MDAnalysis.Universe(str(tmp_path / "run.mrec")), moving, centre)
    theirs = _analysed(MDAnalysis.Universe(*paths), moving, centre)
    for one, other in zip(ours, theirs, strict=True):
        assert np.array_equal(one, other)
    assert ours[1].sum() > 0
    assert 0 < ours[2][0, 1] <= 1


@pytest.mark.parametrize("suffix", ["mrec", "mrec.zip"])
def test_a_selection_is_a_record_of_its_own(adk: str, tmp_path: Path, suffix: str) -> None:
    universe = MDAnalysis.Universe(adk)
    chosen = universe.select_atoms("resid 10:20")
    target = tmp_path / f"some.{suffix}"
    chosen.write(str(target), frames=universe.trajectory[::10])
    assert sorted(path.name for path in tmp_path.iterdir()) == [target.name]
    written = MDAnalysis.Universe(str(target))
    assert written.trajectory.n_frames == 10
    assert written.atoms.names.tolist() == chosen.names.tolist()
    assert written.residues.resids.tolist() == list(range(10, 21))
    inside = chosen.bonds.atomgroup_intersection(chosen, strict=True)
    place = {index: position for position, index in enumerate(chosen.ix.tolist())}
    expected = sorted(tuple(sorted(place[i] for i in pair)) for pair in inside.indices.tolist())
    assert sorted(tuple(pair) for pair in written.bonds.indices.tolist()) == expected
    for ts, original in zip(written.trajectory, universe.trajectory[::10], strict=True):
        assert np.array_equal(ts.positions, chosen.positions), original.frame
        assert ts.time == original.time
    with molrec_convert.open(target) as record:
        assert record.units["energy"] == "kJ/mol"


def test_a_writer_takes_the_place_of_what_had_the_name(adk: str, tmp_path: Path) -> None:
    atoms = MDAnalysis.Universe(adk).select_atoms("resid 1")
    target = str(tmp_path / "one.mrec")
    for _ in range(2):
        with MDAnalysis.Writer(target, len(atoms)) as writer:
            writer.write(atoms)
    assert MDAnalysis.Universe(target).trajectory.n_frames == 1
    assert [path.name for path in tmp_path.iterdir()] == ["one.mrec"]


def test_frames_unlike_the_first_are_refused_and_leave_what_was_written(tmp_path: Path) -> None:
    universe = MDAnalysis.Universe.empty(3, trajectory=True, velocities=True)
    with MDAnalysis.Writer(str(tmp_path / "a.mrec"), 3) as writer:
        writer.write(universe)
        universe.trajectory.ts.has_velocities = False
        with pytest.raises(UsageError, match="velocities"):
            writer.write(universe)
    assert MDAnalysis.Universe(str(tmp_path / "a.mrec")).trajectory.n_frames == 1


@pytest.mark.parametrize("name", ["data.mrec", "data.mrec.zip"])
def test_a_directory_that_is_no_record_is_not_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "notes.txt").write_text("years of work")
    universe = MDAnalysis.Universe.empty(3, trajectory=True)
    with pytest.raises(UsageError, match="holds no record"):
        universe.atoms.write(str(tmp_path / name))
    assert (tmp_path / name / "notes.txt").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def _record(units: Any, count: int = 3) -> Record:
    system = Frame({"atoms": Block({"type": ["1"] * count, "mass": np.ones(count)})}, Meta())
    system.meta.put("units", units, "json")
    columns = {name: np.full(count, 2.0) for name in ("x", "y", "z", "vx", "vy", "vz", "fx", "fy", "fz")}
    frames = [Frame({"atoms": Block(columns)}, box=Box(np.eye(3) * 10), step=n, time=n * 5.0) for n in range(2)]
    return Record(system=system, trajectory=MemoryTrajectory(frames))


@pytest.mark.parametrize(
    ("units", "length", "velocity", "force", "time"),
    [
        ({"preset": "real"}, 1.0, 1000.0, 4.184, 0.001),
        ({"preset": "metal"}, 1.0, 1.0, 96.48533212331, 1.0),
        ({"length": "nm", "energy": "kJ/mol", "time": "ps"}, 10.0, 10.0, 0.1, 1.0),
        ({"preset": "lj"}, 1.0, 1.0, 1.0, 1.0),
    ],
)
def test_numbers_come_in_the_units_of_mdanalysis(
    units: Any, length: float, velocity: float, force: float, time: float, tmp_path: Path
) -> None:
    molrec_convert.write(_record(units), tmp_path / "a.mrec")
    ts = MDAnalysis.Universe(str(tmp_path / "a.mrec")).trajectory[1]
    assert np.allclose(ts.positions, 2 * length, rtol=1e-6)
    assert np.allclose(ts.velocities, 2 * velocity, rtol=1e-6)
    assert np.allclose(ts.forces, 2 * force, rtol=1e-6)
    assert np.allclose(ts.dimensions, [10 * length] * 3 + [90] * 3)
    assert ts.time == pytest.approx(5 * time)
    raw = MDAnalysis.Universe(str(tmp_path / "a.mrec"), convert_units=False).trajectory[1]
    assert np.array_equal(raw.velocities, np.full((3, 3), 2, np.float32))


@pytest.mark.parametrize(
    ("units", "stated", "energy"),
    [
        ({"preset": "metal"}, {**UNITS, "pressure": "bar", "density": "g/cm**3"}, 96.48533212331),
        ({"preset": "real"}, {**UNITS, "pressure": "atm", "density": "g/cm**3"}, 4.184),
        ({"length": "nm", "energy": "kJ/mol"}, {"length": "angstrom", "energy": "kJ/mol", "angle": "degree"}, 1.0),
        ({"preset": "lj"}, {"preset": "lj"}, 1.0),
        (None, None, 1.0),
    ],
)
def test_what_is_made_of_a_record_states_the_units_its_numbers_are_in(
    units: Any, stated: Any, energy: float, tmp_path: Path
) -> None:
    record = _record(units)
    if units is None:
        record.system.meta.pop("units")
    frames = list(record.trajectory)
    for frame in frames:
        frame.meta.put("pe", -2.0, "f64")
        frame.meta.put("score", -2.0, "f64")
    molrec_convert.write(Record(system=record.system, trajectory=MemoryTrajectory(frames)), tmp_path / "a.mrec")
    universe = MDAnalysis.Universe(str(tmp_path / "a.mrec"))
    universe.atoms.write(str(tmp_path / "b.mrec"), frames="all")
    molrec_convert.write(molrec_convert.from_universe(universe), tmp_path / "c.mrec")
    molrec_convert.write(molrec_convert.from_universe(universe.atoms[:2], "current"), tmp_path / "d.mrec")
    for name in "bcd":
        with molrec_convert.open(tmp_path / f"{name}.mrec") as made:
            assert made.units == stated, name
            assert made.trajectory[0].meta["pe"] == pytest.approx(-2 * energy)
            assert made.trajectory[0].meta["score"] == -2.0
    raw = MDAnalysis.Universe(str(tmp_path / "a.mrec"), convert_units=False)
    again = molrec_convert.from_universe(raw)
    assert again.units == units
    assert again.trajectory[0].meta["pe"] == -2.0
    if stated and "mass" in stated:
        report = Report()
        metal = molrec_convert.from_universe(universe, target_units="metal", report=report)
        assert metal.units == {"preset": "metal"}
        assert metal.trajectory[1].meta["pe"] == pytest.approx(-2 * energy / 96.48533212331)
        assert any("dimension is not known: score" in warning for warning in report.warnings)
        assert np.allclose(metal.trajectory[1]["atoms"]["x"], 2.0)
    else:
        with pytest.raises(MolrecError, match=r"metal|does not state its units"):
            molrec_convert.from_universe(universe, target_units="metal")


def test_what_does_not_change_is_carried_from_frame_to_frame(tmp_path: Path) -> None:
    fixed = {name: np.arange(4.0) for name in "xyz"}
    moved = {name: np.arange(4.0) + 1 for name in "xyz"}
    contents = [fixed, None, None, moved, None]
    boxes = [None, None, Box(np.eye(3) * 5), None, Box(np.eye(3) * 6)]
    frames = [
        Frame({} if block is None else {"atoms": Block(block)}, box=box, step=n)
        for n, (block, box) in enumerate(zip(contents, boxes, strict=True))
    ]
    molrec_convert.write(Record(trajectory=MemoryTrajectory(frames)), tmp_path / "a.mrec")
    trajectory = MDAnalysis.Universe(str(tmp_path / "a.mrec")).trajectory
    lengths = [None, None, 5, 5, 6]
    for index in [0, 1, 2, 3, 4, 2, 0, 4, 1, *range(5), *range(5)]:
        ts = trajectory[index]
        assert ts.positions[0, 0] == (0 if index < 3 else 1), index
        assert (None if ts.dimensions is None else ts.dimensions[0]) == lengths[index]


def test_a_change_of_the_number_of_atoms_is_told(tmp_path: Path) -> None:
    frames = [Frame({"atoms": Block({name: np.zeros(count) for name in "xyz"})}, step=count) for count in (3, 4)]
    molrec_convert.write(Record(trajectory=MemoryTrajectory(frames)), tmp_path / "a.mrec")
    universe = MDAnalysis.Universe(str(tmp_path / "a.mrec"))
    with pytest.raises(UnsupportedError, match="frame 1 has 4 atoms"):
        universe.trajectory[1]


@pytest.mark.parametrize("name", ["t.mrec", "t.mrec.zip"])
def test_two_writers_of_one_record(name: str, tmp_path: Path) -> None:
    universe = MDAnalysis.Universe.empty(3, trajectory=True)
    target = str(tmp_path / name)
    with MDAnalysis.Writer(target, 3) as writer:
        writer.write(universe)
        for second in (lambda: MDAnalysis.Writer(target, 3), lambda: molrec_convert.write(_record({}), target)):
            with pytest.raises(UsageError, match="is being written by this process already"):
                second()
    assert MDAnalysis.Universe(target).trajectory.n_frames == 1
    with molrec_convert.append(tmp_path / "t.mrec") if name == "t.mrec" else molrec_convert.open(target):
        assert (name != "t.mrec") == _may_write(target)
    assert _may_write(target)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def _may_write(target: str) -> bool:
    try:
        MDAnalysis.Writer(target, 3).close()
    except UsageError:
        return False
    return True
