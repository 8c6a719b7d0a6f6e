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
from molrec_convert.cli.reporting import Counter  # noqa: E402
from molrec_convert.errors import LossError, UnsupportedError  # noqa: E402
from molrec_convert.model import Block, Box, Column, Frame, MemoryTrajectory, Meta, Record  # noqa: E402
from molrec_convert.model.dtypes import as_values  # noqa: E402
from molrec_convert.report import Fate, Report  # noqa: E402
from molrec_mdanalysis.names import dimensions_of  # noqa: E402

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
    lost = {item.name for item in report.of(Fate.DROPPED)}
    assert ("trajectory/atoms/vx" in lost) == ("velocities" not in arrays)
    assert ("trajectory/atoms/fx" in lost) == ("forces" not in arrays)
    assert "system/bonds" in lost


def test_a_configuration_as_gro(moving: str, tmp_path: Path) -> None:
    report = Report()
    counter = Counter()
    molrec_convert.convert(moving, tmp_path / "last.gro", report=report, progress=counter)
    assert counter.frames == 1
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
    far = Frame({"atoms": Block({name: np.full(47681, 1e6) for name in "xyz"})})
    far = Record(system=record.system, trajectory=MemoryTrajectory([far]))
    with pytest.raises(UnsupportedError, match="GROWriter cannot write"):
        molrec_convert.write(far, tmp_path / "out.gro")
    assert not list(tmp_path.iterdir())


def _rich() -> Any:
    """Three frames of twelve atoms with all that any format has a place for, cells that change among it."""
    rng = np.random.default_rng(3)
    universe = MDAnalysis.Universe.empty(
        12, n_residues=4, n_segments=2, atom_resindex=np.repeat(range(4), 3), residue_segindex=[0, 0, 1, 1]
    )
    values = {
        "names": ["OW", "H1", "H2"] * 4, "types": ["1", "2", "2"] * 4, "elements": ["O", "H", "H"] * 4,
        "masses": [15.999, 1.008, 1.008] * 4, "charges": np.round(rng.uniform(-1, 1, 12), 3),
        "formalcharges": [0, 1, -1] * 4, "ids": np.arange(12) * 3 + 5, "chainIDs": list("AAAAAABBBBBB"),
        "altLocs": ["", "A", "B"] * 4, "occupancies": np.round(rng.uniform(0, 1, 12), 2),
        "tempfactors": np.round(rng.uniform(0, 90, 12), 2), "record_types": ["ATOM", "ATOM", "HETATM"] * 4,
        "radii": np.round(rng.uniform(1, 2, 12), 4), "resids": [3, 7, 8, 12], "resnums": [3, 7, 8, 12],
        "resnames": ["SOL", "ALA", "GLY", "SOL"], "icodes": ["", "A", "", ""], "segids": ["P", "Q"],
    }  # fmt: skip
    for name, listed in values.items():
        universe.add_TopologyAttr(name, listed)
    universe.add_bonds([(0, 1), (0, 2), (3, 4), (3, 5)], types=["1", "2", "1", "1"])
    universe.add_angles([(1, 0, 2)], types=["1"])
    universe.add_dihedrals([(0, 1, 2, 3)], types=["1"])
    universe.add_impropers([(3, 4, 5, 6)], types=["1"])
    positions = rng.uniform(1, 30, (3, 12, 3)).astype(np.float32)
    cells = np.array([[30, 31 + k, 32, 90, 80 + k, 70] for k in range(3)], dtype=np.float32)
    arrays = {"velocities": positions / 7, "forces": positions / 3, "dimensions": cells}
    universe.load_new(positions, order="fac", dt=2.5, **arrays)
    return universe


#: Format → how near the positions are, and what a file of it alone is a topology of.
_WRITTEN = {
    "dcd": 1e-5, "xtc": 0.0051, "trr": 1e-5, "ncdf": 1e-5, "nc": 1e-5, "trz": 1e-5, "h5md": 1e-5, "lammps": 1e-5,
    "gro": 0.0051, "crd": 1e-5, "pqr": 0.00051, "pdbqt": 0.00051, "pdb": 0.00051, "ent": 0.00051, "xyz": 1e-5,
    "data": 1e-6, "coor": 1e-6, "namdbin": 1e-6, "in": 1e-6, "fhiaims": 1e-6,
}  # fmt: skip
_ALONE = {"gro", "crd", "pqr", "pdbqt", "pdb", "ent", "xyz", "data", "in", "fhiaims"}
_LIBRARY = {"h5md": "h5py"}


@pytest.fixture(scope="module")
def rich(tmp_path_factory: Any) -> Path:
    target: Path = tmp_path_factory.mktemp("rich") / "run.mrec"
    molrec_convert.write(molrec_convert.from_universe(_rich()), target)
    return target


@pytest.mark.parametrize("suffix", sorted(_WRITTEN))
def test_what_is_said_to_be_lost_is_lost_and_the_rest_is_there(suffix: str, rich: Path, tmp_path: Path) -> None:
    pytest.importorskip(_LIBRARY.get(suffix, "MDAnalysis"))
    target = tmp_path / f"out.{suffix}"
    predicted, report = Report(), Report()
    molrec_convert.convert(rich, target, to_format="mdanalysis", dry_run=True, report=predicted)
    assert not target.exists()
    molrec_convert.convert(rich, target, to_format="mdanalysis", report=report)
    assert predicted.losses() == report.losses()
    lost = {item.name for item in report.of(Fate.DROPPED)}
    theirs = MDAnalysis.Universe(str(rich), to_guess=())
    words = {"format": suffix, "topology_format": suffix}
    ours = (
        MDAnalysis.Universe(str(target), to_guess=(), **words)
        if suffix in _ALONE
        else MDAnalysis.Universe(theirs._topology.copy(), str(target), format=suffix, to_guess=())
    )
    _frames_as_said(ours, theirs, lost, _WRITTEN[suffix])
    if suffix in _ALONE:
        _atoms_as_said(ours, theirs, lost, suffix)
    else:
        system = molrec_convert.open(rich).system
        assert {f"system/atoms/{column}" for column in system["atoms"].columns} <= lost
        assert {f"system/{block}" for block in system.blocks if block != "atoms"} <= lost


def _frames_as_said(ours: Any, theirs: Any, lost: set[str], near: float) -> None:
    one = "all frames but the last" in lost
    assert ours.trajectory.n_frames == (1 if one else 3)
    kept = {
        "velocities": "trajectory/atoms/vx" not in lost, "forces": "trajectory/atoms/fx" not in lost,
        "cells": "cells" not in lost, "times": "times" not in lost, "steps": "step numbers" not in lost,
    }  # fmt: skip
    for a, b in zip(ours.trajectory, theirs.trajectory[2:] if one else theirs.trajectory, strict=True):
        assert np.allclose(a.positions, b.positions, rtol=1e-7, atol=near)
        for name in ("velocities", "forces"):
            assert getattr(a, f"has_{name}") == kept[name], name
            if kept[name]:
                assert np.allclose(getattr(a, name), getattr(b, name), rtol=1e-6, atol=0.00051), name
        if "cells but the first" not in lost:
            cell = a.dimensions is not None and np.allclose(a.dimensions, b.dimensions, rtol=1e-4, atol=0.01)
            assert cell == kept["cells"]
        if kept["times"]:
            assert a.time == pytest.approx(b.time, rel=1e-5)
        if kept["steps"]:
            assert a.data["step"] == b.data["step"]
    if "cells but the first" in lost:  # it stands before the first model, where MDAnalysis itself does not look
        with molrec_convert.read(ours.filename, format="pdb") as record:
            box = record.trajectory[0].box
        assert box is not None
        assert np.allclose(dimensions_of(box.vectors[None])[0], theirs.trajectory[0].dimensions, atol=0.01)
    if not kept["times"]:
        assert ours.trajectory[-1].time != theirs.trajectory[-1].time


def _atoms_as_said(ours: Any, theirs: Any, lost: set[str], suffix: str) -> None:
    names = {
        "name": "names", "type": "types", "element": "elements", "mass": "masses", "charge": "charges", "id": "ids",
        "formal_charge": "formalcharges", "res_id": "resids", "res_name": "resnames", "icode": "icodes",
        "altloc": "altLocs", "occupancy": "occupancies", "b_factor": "tempfactors", "record_type": "record_types",
        "radius": "radii", "segid": "segids", "chain": "segids" if suffix == "crd" else "chainIDs",
    }  # fmt: skip
    assert {f"system/atoms/{column}" for column in molrec_convert.open(theirs.filename).system["atoms"].columns} == {
        f"system/atoms/{column}" for column in names
    }
    for column, attribute in names.items():
        mine = getattr(ours.atoms, attribute, None)
        other = getattr(theirs.atoms, "chainIDs" if column == "chain" else attribute)
        same = mine is not None and (
            np.allclose(mine, other, atol=1e-6) if other.dtype.kind == "f" else mine.tolist() == other.tolist()
        )
        assert same == (f"system/atoms/{column}" not in lost), (column, mine, other)
    for block in ("bonds", "angles", "dihedrals", "impropers"):
        if f"system/{block}" in lost:
            assert not len(getattr(ours, block, ()))
            continue
        found, expected = getattr(ours._topology, block), getattr(theirs._topology, block)
        assert set(found.values) == set(expected.values)
        if f"system/{block}/type" in lost:
            assert not any(isinstance(kind, str) for kind in found.types)
        else:
            assert dict(zip(found.values, found.types, strict=True)) == dict(
                zip(expected.values, (str(kind) for kind in expected.types), strict=True)
            )


def test_texts_that_are_cut_are_said_to_be(rich: Path, tmp_path: Path) -> None:
    with molrec_convert.open(rich) as record:
        columns = dict(record.system["atoms"].columns)
        columns["res_name"] = Column(as_values(["METHANOL"] * 3 + ["SOL"] * 9, "string"))
        columns["id"] = Column(np.array([7] * 2 + list(range(1, 11)), dtype=np.uint64))
        system = Frame({**record.system.blocks, "atoms": Block(columns)}, record.system.meta)
        long = Record(system=system, trajectory=record.trajectory)
        report = molrec_convert.write(long, tmp_path / "a.gro")
        details = {item.name: item.detail for item in report.of(Fate.DROPPED)}
        assert details["system/atoms/res_name"] == "3 of 12 are cut: GRO has room for 5 characters"
        report = molrec_convert.write(long, tmp_path / "a.ent", format="mdanalysis")
        assert "system/atoms/id" in {item.name for item in report.of(Fate.DROPPED)}
    assert MDAnalysis.Universe(str(tmp_path / "a.gro")).atoms.resnames.tolist()[:4] == ["METHA"] * 3 + ["SOL"]
    written = MDAnalysis.Universe(str(tmp_path / "a.ent"))
    assert [tuple(pair) for pair in written.bonds.indices.tolist()] == [(0, 1), (0, 2), (3, 4), (3, 5)]


def test_what_came_from_mol2_goes_back(tmp_path: Path) -> None:
    molrec_convert.convert(_path("mol2_molecules"), tmp_path / "a.mrec")
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "out.mol2")
    ours, theirs = MDAnalysis.Universe(str(tmp_path / "out.mol2")), MDAnalysis.Universe(_path("mol2_molecules"))
    assert ours.trajectory.n_frames == theirs.trajectory.n_frames == 200
    for name in ("names", "types", "resids", "resnames", "charges"):
        assert getattr(ours.atoms, name).tolist() == getattr(theirs.atoms, name).tolist(), name
        assert not any(item.name.endswith(name.rstrip("s")) for item in report.of(Fate.DROPPED))
    assert ours._topology.bonds.order == theirs._topology.bonds.order
    for a, b in zip(ours.trajectory[::20], theirs.trajectory[::20], strict=True):
        assert np.allclose(a.positions, b.positions, atol=0.00006)
        assert [line.split() for line in a.data["molecule"]] == [line.split() for line in b.data["molecule"]]


@pytest.mark.parametrize(
    ("source", "format_name", "words"),
    [
        ("GRO", "mol2", "only of what was read from MOL2"),
        ("GRO", "data", "numbers from 1 on; the format lammps-data numbers them"),
        ("GRO", "lammpsdump", "the format lammps-dump has one"),
        ("GRO", "mmcif", "the format mmcif has one"),
        ("GRO", "inpcrd", "MDAnalysis has no writer of INPCRD; it writes COOR, CRD"),
        ("waterPSF", "dcd", "the record has none"),
    ],
)
def test_what_is_not_offered_is_refused_before_anything_is_written(
    source: str, format_name: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=words):
        molrec_convert.convert(_path(source), tmp_path / "out", to_format="mdanalysis", writer_format=format_name)
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


@pytest.mark.parametrize("counts", [(3, 5), (5, 3)])
def test_numbers_of_atoms_that_change_are_refused_before_anything_is_written(
    counts: tuple[int, ...], tmp_path: Path
) -> None:
    frames = [Frame({"atoms": Block({n: np.zeros(count) for n in "xyz"})}, step=k) for k, count in enumerate(counts)]
    molrec_convert.write(Record(trajectory=MemoryTrajectory(frames)), tmp_path / "a.mrec")
    for dry in (True, False):
        with pytest.raises(UnsupportedError, match=f"the first frame has {counts[0]} atoms, another {counts[1]}"):
            molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.dcd", dry_run=dry)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mrec"]
