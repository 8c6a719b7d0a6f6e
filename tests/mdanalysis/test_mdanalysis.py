"""Topologies and trajectories through MDAnalysis: which files are its own, what a record has of them, what is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MDAnalysis = pytest.importorskip("MDAnalysis")
datafiles = pytest.importorskip("MDAnalysisTests.datafiles")

import molrec_convert  # noqa: E402
from molrec_convert.errors import FormatError, LayoutChanged, UsageError  # noqa: E402
from molrec_convert.model import BlockUpdates  # noqa: E402
from molrec_convert.plugins import detect  # noqa: E402
from molrec_convert.report import Fate, Report  # noqa: E402
from molrec_mdanalysis.names import dimensions_of, vectors_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def _path(name: str) -> Path:
    return Path(os.fspath(getattr(datafiles, name)))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["PSF", "DCD"], "mdanalysis"),
        (["GRO", "XTC"], "mdanalysis"),
        (["PDB_small", "DCD"], "mdanalysis"),
        (["LAMMPSdata2", "LAMMPSdcd2"], "mdanalysis"),
        (["TPR"], "mdanalysis"),
        (["PDB_small"], "pdb"),
        (["COORDINATES_XYZ"], "xyz"),
        (["LAMMPSdata"], "lammps-data"),
        (["LAMMPSDUMP"], "lammps-dump"),
    ],
)
def test_files_other_formats_read_better_are_theirs(names: list[str], expected: str) -> None:
    assert detect([_path(name) for name in names]).name == expected


def test_files_of_other_formats_alone_are_not_taken_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="do not form one source"):
        detect([_path("PDB_small"), _path("COORDINATES_XYZ")])


def test_a_pair_is_one_source_and_guessed_values_are_said_to_be(tmp_path: Path) -> None:
    report = Report()
    molrec_convert.convert([_path("GRO"), _path("XTC")], tmp_path / "a.mrec", report=report)
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert record.system["atoms"].count == 47681
        assert record.units["length"] == "angstrom"
        assert len(record.trajectory) == 10
        mass = record.system["atoms"].columns["mass"]
        assert not mass.validity.all()
        assert (mass.values[mass.validity] > 0).all()
    assert {item.name for item in report.of(Fate.DERIVED)} == {"type", "mass"}


def test_a_narrow_number_is_the_same_number(tmp_path: Path) -> None:
    record = molrec_convert.read(_path("PSF"), _path("DCD"))
    theirs = MDAnalysis.Universe(str(_path("PSF")), str(_path("DCD")))
    for index in (0, 41, 97):
        frame = record.trajectory[index]
        positions = theirs.trajectory[index].positions
        for axis, column in enumerate("xyz"):
            assert np.array_equal(frame["atoms"][column], positions[:, axis].astype(np.float64))


def test_slices_and_passes_beside_each_other() -> None:
    trajectory = molrec_convert.read(_path("PSF"), _path("DCD")).trajectory
    first, second = trajectory.batches(3, 60, 7, batch_bytes=300_000), trajectory.batches()
    ahead = next(first)
    whole = next(second)
    theirs = MDAnalysis.Universe(str(_path("PSF")), str(_path("DCD"))).trajectory
    assert ahead.blocks["atoms"].columns["y"][0] == theirs[3].positions[0, 1]
    assert whole.blocks["atoms"].columns["y"][0] == theirs[0].positions[0, 1]
    assert 1 + sum(batch.n_frames for batch in first) - 1 + ahead.n_frames == len(range(3, 60, 7))
    with pytest.raises(StopIteration):
        next(first)


def test_only_the_columns_asked_for() -> None:
    trajectory = molrec_convert.read(_path("TPR_xvf"), _path("TRR_xvf")).trajectory
    batch = next(trajectory.batches(columns=["vx"]))
    updates: BlockUpdates = batch.blocks["atoms"]
    assert list(updates.columns) == ["vx"]


def test_frames_that_lack_velocities_have_nulls(tmp_path: Path) -> None:
    universe = MDAnalysis.Universe.empty(12, trajectory=True, velocities=True)
    target = tmp_path / "a.trr"
    with MDAnalysis.Writer(str(target), 12) as writer:
        for index in range(4):
            universe.atoms.positions = np.full((12, 3), index + 0.5)
            universe.trajectory.ts.has_velocities = index % 2 == 0
            if index % 2 == 0:
                universe.atoms.velocities = np.full((12, 3), -1.5)
            writer.write(universe)
    with pytest.raises(LayoutChanged):
        list(molrec_convert.read(target).trajectory)
    molrec_convert.convert(target, tmp_path / "a.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        masks = [frame["atoms"].validity("vx").all() for frame in record.trajectory]
    assert masks == [True, False, True, False]


def test_steps_that_do_not_ascend_are_kept_beside_the_count(tmp_path: Path) -> None:
    chained = MDAnalysis.Universe(str(_path("GRO")), [str(_path("XTC"))] * 2)
    assert len(chained.trajectory) == 20
    molrec_convert.convert([_path("GRO"), _path("XTC"), _path("XTC")], tmp_path / "a.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert record.trajectory.steps.tolist() == list(range(20))
        kept = next(record.trajectory.batches(columns=())).meta["source_step"]
        assert [int(step) for step in kept[:10]] == [int(step) for step in kept[10:]]


@pytest.mark.parametrize("six", [[10, 20, 30, 90, 90, 90], [81.1, 82.2, 83.3, 75, 80, 85], [5, 5, 5, 60, 60, 90]])
def test_lengths_and_angles_come_back(six: Any) -> None:
    stated = np.array([six], dtype=np.float32)
    vectors, good = vectors_of(stated)
    assert good.all()
    assert np.array_equal(dimensions_of(vectors), stated)


def test_cells_that_are_none() -> None:
    _, good = vectors_of(np.array([[10, 10, 10, 170, 20, 90], [10, 10, 0, 90, 90, 90], [0] * 6], dtype=np.float32))
    assert not good.any()


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"adk_oplsaa.trr: found 47681 atoms, expected 3341, as the topology adk.psf"):
        molrec_convert.read(_path("PSF"), _path("TRR"))
    with pytest.raises(FormatError, match="topology is named first"):
        molrec_convert.read(_path("DCD"), _path("PSF"))
    broken = tmp_path / "broken.xtc"
    broken.write_bytes(_path("XTC").read_bytes()[:700_000])
    with pytest.raises(FormatError, match=r"broken.xtc: found 4 whole frames, expected 5: it breaks off"):
        molrec_convert.convert([_path("GRO"), broken], tmp_path / "a.mrec")
    assert not (tmp_path / "a.mrec").exists()


@pytest.mark.parametrize(
    ("topology", "name", "bytes_left", "words"),
    [
        ("GRO", "XTC", 0, "found"),
        ("GRO", "TRR", 300_000, "breaks off in its first frame"),
        pytest.param("TPR_xvf", "H5MD_xvf", 100_000, "truncated", marks=pytest.mark.slow),
        pytest.param("TNG_traj_gro", "TNG_traj", 20_000, "found", marks=pytest.mark.slow),
        pytest.param("PRMncdf", "NCDF", 100_000, "found", marks=pytest.mark.slow),
        pytest.param("TRZ_psf", "TRZ", 300_000, "no frames", marks=pytest.mark.slow),
    ],
)
def test_a_trajectory_that_breaks_off_is_one_sentence_on_the_screen(
    topology: str, name: str, bytes_left: int, words: str, tmp_path: Path
) -> None:
    library = {"H5MD_xvf": "h5py", "TNG_traj": "pytng"}.get(name)
    if library is not None:
        pytest.importorskip(library)
    broken = tmp_path / f"broken{_path(name).suffix}"
    broken.write_bytes(_path(name).read_bytes()[:bytes_left])
    command = [sys.executable, "-m", "molrec_convert.cli", "convert", str(_path(topology)), str(broken)]
    run = subprocess.run([*command, str(tmp_path / "a.mrec")], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    own = [line for line in run.stderr.splitlines() if line.startswith("mrec: ")]  # the library of TNG speaks itself
    assert len(own) == 1
    assert own[0].startswith(f"mrec: {broken}: ")
    assert words in own[0]
    assert "Traceback" not in run.stderr
    assert "Exception ignored" not in run.stderr
    assert not (tmp_path / "a.mrec").exists()


def test_a_topology_alone_says_that_it_is(tmp_path: Path) -> None:
    report = molrec_convert.convert(_path("PSF"), tmp_path / "a.mrec")
    assert report.warnings == ["no coordinates: the record has the topology alone"]


def test_a_dcd_that_breaks_off_is_said_to(tmp_path: Path) -> None:
    broken = tmp_path / "broken.dcd"
    broken.write_bytes(_path("DCD").read_bytes()[:200_000])
    report = Report()
    molrec_convert.convert([_path("PSF"), broken], tmp_path / "a.mrec", report=report)
    assert "breaks off behind 4 whole frames" in report.truncations[0]


def test_importing_the_format_loads_nothing() -> None:
    code = "import molrec_mdanalysis_format, sys; assert 'MDAnalysis' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("topology", "trajectory"), [(True, False), (False, True)])
def test_an_empty_file_is_said_to_be_one(topology: bool, trajectory: bool, tmp_path: Path) -> None:
    files = [tmp_path / "a.gro", tmp_path / "b.xtc"]
    for file, source, empty in zip(files, ("GRO", "XTC"), (topology, trajectory), strict=True):
        file.write_bytes(b"" if empty else Path(_path(source)).read_bytes())
    with pytest.raises(FormatError) as caught:
        molrec_convert.read(*files)
    named = files[0] if topology else files[1]
    assert str(caught.value) == f"{named}: found an empty file, expected a {'topology' if topology else 'trajectory'}"
