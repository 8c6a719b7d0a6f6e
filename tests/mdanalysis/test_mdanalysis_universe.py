"""Records of universes and groups of atoms: what is in memory, frames and atoms asked for, units, auxiliary data."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MDAnalysis = pytest.importorskip("MDAnalysis")
datafiles = pytest.importorskip("MDAnalysisTests.datafiles")

from MDAnalysis import transformations  # noqa: E402

import molrec_convert  # noqa: E402
from molrec_convert.errors import FormatError, LayoutChanged, MissingInputError, UnsupportedError, UsageError  # noqa: E402
from molrec_convert.model import Record  # noqa: E402
from molrec_convert.report import Fate, Report  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def _path(name: str) -> str:
    return os.fspath(getattr(datafiles, name))


def _universe(*names: str, **keywords: Any) -> Any:
    return MDAnalysis.Universe(*(_path(name) for name in names), **keywords)


def _positions(record: Record) -> np.ndarray[Any, Any]:
    """[frames, atoms, 3]."""
    return np.array([np.stack([frame["atoms"][name] for name in "xyz"], axis=1) for frame in record.trajectory])


def test_a_universe_there_and_back(tmp_path: Path) -> None:
    universe = _universe("PSF", "DCD")
    universe.trajectory[7]
    report = Report()
    record = molrec_convert.from_universe(universe, report=report)
    molrec_convert.write(record, tmp_path / "a.mrec")
    assert universe.trajectory.frame == 7
    again = molrec_convert.open(tmp_path / "a.mrec").to_universe()
    assert again.trajectory.n_frames == 98
    assert len(again.bonds) == len(universe.bonds)
    for a, b in zip(again.trajectory, universe.trajectory, strict=True):
        assert np.array_equal(a.positions, b.positions)
    assert not report.lossy


def test_atoms_and_frames_that_are_asked_for() -> None:
    universe = _universe("PSF", "DCD")
    chosen = universe.select_atoms("resname ALA and name CA CB")[::-1]
    flags = np.zeros(98, np.bool_)
    flags[[5, 90]] = True
    for frames, numbers in (
        (slice(90, None, 4), [90, 94]),
        ([3, -1, 0], [3, 97, 0]),
        (flags, [5, 90]),
        (universe.trajectory[10:30:10], [10, 20]),
        (universe.trajectory[[8, 2]], [8, 2]),
    ):
        record = molrec_convert.from_universe(chosen, frames)
        found = _positions(record)
        expected = [chosen.positions.astype(np.float64) for _ in universe.trajectory[numbers]]
        assert np.array_equal(found, expected)
        assert record.system["atoms"]["name"].tolist() == chosen.names.tolist()
    inside = chosen.bonds.atomgroup_intersection(chosen, strict=True)
    assert record.system["bonds"].count == len(inside) > 0


def test_the_frame_as_it_stands_and_attributes_made_in_memory() -> None:
    universe = _universe("PSF", "DCD")
    universe.trajectory[3]
    universe.atoms.positions += 100
    universe.add_TopologyAttr("tempfactors", np.arange(3341) / 4)
    universe.atoms.residues[0].resname = "XYZ"
    record = molrec_convert.from_universe(universe, "current")
    assert np.array_equal(_positions(record)[0], universe.atoms.positions.astype(np.float64))
    assert record.system["atoms"]["b_factor"][-1] == 835.0
    assert record.system["atoms"]["res_name"][0] == "XYZ"
    changed = universe.atoms.positions.copy()
    molrec_convert.from_universe(universe)
    assert np.array_equal(universe.atoms.positions, changed)


def test_changes_of_a_trajectory_in_memory() -> None:
    universe = _universe("PSF_TRICLINIC", "DCD_TRICLINIC", in_memory=True)
    for ts in universe.trajectory:
        ts.positions += ts.frame
    record = molrec_convert.from_universe(universe)
    expected = [ts.positions.astype(np.float64) for ts in universe.trajectory]
    assert np.array_equal(_positions(record), expected)
    empty = MDAnalysis.Universe.empty(4, trajectory=True)
    empty.atoms.positions = np.arange(12).reshape(4, 3)
    assert _positions(molrec_convert.from_universe(empty))[0, 3].tolist() == [9, 10, 11]


def test_transformations_take_part_and_the_universe_stays_where_it_is() -> None:
    universe = _universe("PSF_TRICLINIC", "DCD_TRICLINIC")
    group = universe.select_atoms("resid 1:20")
    universe.trajectory.add_transformations(
        transformations.center_in_box(group), transformations.wrap(universe.atoms, compound="residues")
    )
    universe.trajectory[4]
    universe.atoms.positions += 1
    changed = universe.atoms.positions.copy()
    record = molrec_convert.from_universe(universe)
    found = _positions(record)
    assert universe.trajectory.frame == 4
    assert np.array_equal(universe.atoms.positions, changed)
    for number, ts in enumerate(universe.trajectory):
        assert np.array_equal(found[number], ts.positions.astype(np.float64)), number


def test_auxiliary_data_is_there_frame_by_frame(tmp_path: Path) -> None:
    universe = _universe("COORDINATES_TOPOLOGY", "COORDINATES_XTC")
    universe.trajectory.add_auxiliary("pull", _path("AUX_XVG"))
    expected = [np.array(ts.aux.pull) for ts in universe.trajectory]
    report = Report()
    molrec_convert.write(molrec_convert.from_universe(universe, report=report), tmp_path / "a.mrec")
    files = [_path("COORDINATES_TOPOLOGY"), _path("COORDINATES_XTC")]
    molrec_convert.convert(files, tmp_path / "b.mrec", from_format="mdanalysis", aux=(f"pull={_path('AUX_XVG')}",))
    universe.atoms.write(str(tmp_path / "c.mrec"), frames="all")
    for name in "abc":
        ours = MDAnalysis.Universe(str(tmp_path / f"{name}.mrec"))
        assert np.array_equal([ts.data["pull"] for ts in ours.trajectory], expected), name
    assert "data['pull']" in {item.name for item in report.of(Fate.CARRIED)}


def test_energies_of_gromacs_are_auxiliary_data(tmp_path: Path) -> None:
    pytest.importorskip("pyedr")
    files = [_path("AUX_EDR_TPR"), _path("AUX_EDR_XTC")]
    molrec_convert.convert(files, tmp_path / "a.mrec", aux=(_path("AUX_EDR"),), no_guess=True)
    universe = _universe("AUX_EDR_TPR", "AUX_EDR_XTC")
    universe.trajectory.add_auxiliary(auxdata=_path("AUX_EDR"))
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        meta = next(record.trajectory.batches(columns=())).meta
    for name in ("Potential", "Total Energy", "Pres-XX"):
        assert list(meta[name]) == [float(ts.aux[name]) for ts in universe.trajectory]


def test_auxiliary_files_that_are_none(tmp_path: Path) -> None:
    files = [_path("COORDINATES_TOPOLOGY"), _path("COORDINATES_XTC")]
    with pytest.raises(MissingInputError):
        molrec_convert.convert(files, tmp_path / "a.mrec", aux=("pull=nowhere.xvg",))
    with pytest.raises(FormatError, match="XVG, or EDR"):
        molrec_convert.convert(files, tmp_path / "a.mrec", aux=(f"pull={_path('PSF')}",))


@pytest.mark.parametrize(
    ("preset", "length", "velocity", "force", "time"),
    [
        ("real", 1.0, 1e-3, 1 / 4.184, 1e3),
        ("metal", 1.0, 1.0, 1 / 96.48533212331, 1.0),
        ("nano", 0.1, 100.0, None, 1e-3),
    ],
)
def test_units_converted_to_a_preset(
    preset: str, length: float, velocity: float, force: float | None, time: float, tmp_path: Path
) -> None:
    report = Report()
    files = [_path("TPR_xvf"), _path("TRR_xvf")]
    record = molrec_convert.from_universe(_universe("TPR_xvf", "TRR_xvf"), target_units=preset, report=report)
    assert record.units == {"preset": preset}
    assert "units" in {item.name for item in report.of(Fate.DERIVED)}
    plain = molrec_convert.read(*files)
    for a, b in zip(record.trajectory, plain.trajectory, strict=True):
        assert np.allclose(a["atoms"]["y"], b["atoms"]["y"] * length, rtol=1e-15)
        assert np.allclose(a["atoms"]["vz"], b["atoms"]["vz"] * velocity, rtol=1e-14)
        if force is not None:
            assert np.allclose(a["atoms"]["fx"], b["atoms"]["fx"] * force, rtol=1e-9)
        assert np.allclose(a.box.vectors, b.box.vectors * length, rtol=1e-12)
        assert a.time == pytest.approx(b.time * time, rel=1e-14)
    # and back: MDAnalysis' own numbers
    theirs, ours = _universe("TPR_xvf", "TRR_xvf"), record.to_universe()
    assert np.allclose(ours.atoms.masses, theirs.atoms.masses, rtol=1e-6)
    for a, b in zip(ours.trajectory, theirs.trajectory, strict=True):
        assert np.allclose(a.velocities, b.velocities, rtol=1e-5)
        assert np.allclose(a.forces, b.forces, rtol=1e-5, atol=1e-4)


@pytest.mark.slow
def test_units_that_are_stated_for_numbers_nobody_knows(tmp_path: Path) -> None:
    words = {"format": "mdanalysis", "topology_format": "LAMMPSDUMP", "trajectory_format": "LAMMPSDUMP"}
    dump = _path("LAMMPSDUMP_allcoords")
    assert molrec_convert.read(dump, **words).units is None
    assert molrec_convert.read(dump, units="real", **words).units == {"preset": "real"}
    converted = {**words, "from_format": words["format"], "target_units": "metal"}
    del converted["format"]
    with pytest.raises(UnsupportedError, match="does not state its units"):
        molrec_convert.convert(dump, tmp_path / "a.mrec", **converted)
    report = molrec_convert.convert(dump, tmp_path / "a.mrec", units="real", **converted)
    assert any(item.name == "units" for item in report.of(Fate.DERIVED))
    with molrec_convert.open(tmp_path / "a.mrec") as metal:
        assert metal.trajectory[1].time == pytest.approx(molrec_convert.read(dump, **words).trajectory[1].time / 1000)
    with pytest.raises(UsageError, match="--target-units converts"):
        molrec_convert.read(_path("PSF"), _path("DCD"), units="real")


def test_frames_that_differ_ask_for_a_hint() -> None:
    universe = _universe("PSF", "DCD")

    def some(ts: Any) -> Any:
        if ts.frame == 2:
            ts.data["extra"] = 1.5
        elif "extra" in ts.data:
            del ts.data["extra"]
        return ts

    universe.trajectory.add_transformations(some)
    universe.trajectory[0]
    record = molrec_convert.from_universe(universe, [2, 3])
    with pytest.raises(LayoutChanged) as caught:
        list(record.trajectory)
    record = molrec_convert.from_universe(universe, [2, 3], hints={caught.value.hint})
    assert [frame.meta.get("extra") for frame in record.trajectory] == [1.5, None]


@pytest.mark.parametrize(
    ("thing", "frames", "words"),
    [
        ("atoms", "every", "'all' or 'current'"),
        ("atoms", [98], "no frame 98"),
        ("atoms", slice(5, 5), "no frames among those"),
        ("twice", None, "more than once"),
        ("none", None, "without atoms"),
        ("text", None, "not str"),
    ],
)
def test_what_makes_no_record(thing: str, frames: Any, words: str) -> None:
    universe = _universe("PSF", "DCD")
    things = {
        "atoms": universe.atoms, "twice": universe.atoms[[0, 0]], "none": universe.atoms[[]], "text": "run.psf",
    }  # fmt: skip
    with pytest.raises(UsageError, match=words):
        molrec_convert.from_universe(things[thing], frames)


def test_a_topology_alone_is_a_record_without_frames(tmp_path: Path) -> None:
    for name in ("a.mrec", "a.mrec.zip"):
        molrec_convert.write(molrec_convert.from_universe(_universe("PSF")), tmp_path / name)
        again = MDAnalysis.Universe(str(tmp_path / name))
        assert len(again.bonds) == len(_universe("PSF").bonds)
        assert again._trajectory is None
        moving = MDAnalysis.Universe(str(tmp_path / name), _path("DCD"))
        assert moving.trajectory.n_frames == 98


def test_without_mdanalysis_the_extra_is_named(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "MDAnalysis", None)
    with pytest.raises(molrec_convert.errors.UnsupportedError, match=r"molrec-convert\[mdanalysis\]"):
        molrec_convert.from_universe(object())
