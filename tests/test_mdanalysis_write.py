"""Records through MDAnalysis' writers, and as universes."""

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
from molrec_convert.errors import LossError, UnsupportedError  # noqa: E402
from molrec_convert.model import Block, Box, Frame, MemoryTrajectory, Meta, Record  # noqa: E402
from molrec_convert.report import Report  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def _path(name: str) -> str:
    return os.fspath(getattr(datafiles, name))


@pytest.fixture(scope="module")
def moving(tmp_path_factory: Any) -> str:
    """A record with velocities, forces and a cell."""
    target = tmp_path_factory.mktemp("moving") / "run.mrec"
    molrec_convert.convert([_path("TPR_xvf"), _path("TRR_xvf")], target)
    return str(target)


@pytest.mark.parametrize(
    ("suffix", "digits", "arrays"),
    [
        ("trr", 4, ("positions", "velocities", "forces")),
        ("ncdf", 4, ("positions", "velocities", "forces")),
        ("xtc", 2, ("positions",)),
        ("dcd", 4, ("positions",)),
        ("trz", 4, ("positions", "velocities")),
    ],
)
def test_trajectories_there_and_back(
    suffix: str, digits: int, arrays: tuple[str, ...], moving: str, tmp_path: Path
) -> None:
    report = Report()
    molrec_convert.convert(moving, tmp_path / f"out.{suffix}", report=report)
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith((".npz", ".lock"))] == [f"out.{suffix}"]
    ours = MDAnalysis.Universe(_path("TPR_xvf"), str(tmp_path / f"out.{suffix}"))
    theirs = MDAnalysis.Universe(_path("TPR_xvf"), _path("TRR_xvf"))
    assert ours.trajectory.n_frames == theirs.trajectory.n_frames == 3
    for a, b in zip(ours.trajectory, theirs.trajectory, strict=True):
        for name in arrays:
            factor = 1000.0 if name == "forces" else 1.0
            assert np.allclose(getattr(a, name), getattr(b, name), rtol=1e-5, atol=factor * 10.0**-digits), name
        assert np.allclose(a.dimensions, b.dimensions, atol=1e-3)
        assert a.time == pytest.approx(b.time, abs=1e-3)
    lost = {item.name for item in report.of(molrec_convert.report.Fate.DROPPED)}
    assert ("trajectory/atoms/vx" in lost) == ("velocities" not in arrays)
    assert ("trajectory/atoms/fx" in lost) == ("forces" not in arrays)
    assert "system/bonds" in lost


def test_a_configuration_as_gro(moving: str, tmp_path: Path) -> None:
    report = Report()
    molrec_convert.convert(moving, tmp_path / "last.gro", report=report)
    assert "all frames but the last" in {item.name for item in report.items}
    ours, theirs = (
        MDAnalysis.Universe(str(tmp_path / "last.gro")),
        MDAnalysis.Universe(_path("TPR_xvf"), _path("TRR_xvf")),
    )
    theirs.trajectory[-1]
    assert np.allclose(ours.atoms.positions, theirs.atoms.positions, atol=0.0051)
    assert ours.atoms.names.tolist() == theirs.atoms.names.tolist()
    assert ours.atoms.resnames.tolist() == theirs.atoms.resnames.tolist()


def test_losses_can_be_refused(moving: str, tmp_path: Path) -> None:
    with pytest.raises(LossError):
        molrec_convert.convert(moving, tmp_path / "out.dcd", strict=True)
    assert not list(tmp_path.iterdir())


def test_formats_without_a_writer_are_named(moving: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no writer of TPR"):
        molrec_convert.convert(moving, tmp_path / "out.tpr")
    molrec_convert.convert(moving, tmp_path / "frames", to_format="mdanalysis", writer_format="dcd")
    read = molrec_convert.read(_path("TPR_xvf"), tmp_path / "frames", format="mdanalysis", trajectory_format="DCD")
    assert len(read.trajectory) == 3


def test_what_a_writer_cannot_do_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    record = molrec_convert.read(_path("GRO"))
    with pytest.raises(UnsupportedError, match="MOL2Writer cannot write"):
        molrec_convert.write(record, tmp_path / "out.mol2")
    assert not list(tmp_path.iterdir())


def test_a_dump_to_xtc(tmp_path: Path) -> None:
    molrec_convert.convert(_path("LAMMPSDUMP_allcoords"), tmp_path / "out.xtc", units="real")
    written = MDAnalysis.Universe(str(tmp_path / "out.xtc"))
    with molrec_convert.read(_path("LAMMPSDUMP_allcoords"), units="real") as record:
        frames = list(record.trajectory)
    assert written.trajectory.n_frames == len(frames)
    for ts, frame in zip(written.trajectory, frames, strict=True):
        assert np.allclose(ts.positions[:, 0], frame["atoms"]["x"], atol=0.0051)


def test_a_rotated_cell_loses_its_orientation(tmp_path: Path) -> None:
    columns = {name: np.arange(3.0) for name in "xyz"}
    box = Box(
        np.array([[0, 10, 0], [10, 0, 0], [0, 0, 10.0]]), origin=np.ones(3), boundary=np.array([True, True, False])
    )
    record = Record(trajectory=MemoryTrajectory([Frame({"atoms": Block(columns)}, box=box)]))
    report = molrec_convert.write(record, tmp_path / "a.xtc")
    assert {"orientation of the cell", "origin of the cell", "boundaries of the cell"} <= {i.name for i in report.items}


def test_a_record_in_memory_is_a_universe() -> None:
    system = Frame({"atoms": Block({"name": ["O", "H", "H"], "res_name": ["HOH"] * 3})}, Meta())
    frames = [Frame({"atoms": Block({n: np.arange(3.0) + k for n in "xyz"})}, step=k, time=k / 2) for k in range(3)]
    record = Record(system=system, trajectory=MemoryTrajectory(frames))
    universe = record.to_universe()
    assert universe.atoms.names.tolist() == ["O", "H", "H"]
    assert universe.atoms.masses.tolist() == pytest.approx([15.999, 1.008, 1.008])
    assert [ts.time for ts in universe.trajectory] == [0, 0.5, 1]
    assert universe.trajectory[2].positions[0].tolist() == [2, 2, 2]
    assert universe.select_atoms("resname HOH and name O").n_atoms == 1


def test_a_topology_alone_is_a_universe() -> None:
    universe = molrec_convert.read(_path("waterPSF")).to_universe()
    assert len(universe.bonds) == 15
    assert len(universe.angles) == 5


def test_without_mdanalysis_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["MDAnalysis"] = None
import molrec_convert
from molrec_convert.model import Record
from molrec_convert.errors import UnsupportedError
try:
    Record().to_universe()
except UnsupportedError as error:
    assert "molrec-convert[mdanalysis]" in str(error), error
else:
    raise SystemExit(1)
try:
    molrec_convert.read(sys.argv[1])
except UnsupportedError as error:
    assert "molrec-convert[mdanalysis]" in str(error), error
else:
    raise SystemExit(1)
"""
    subprocess.run([sys.executable, "-c", code, _path("TPR")], check=True)
