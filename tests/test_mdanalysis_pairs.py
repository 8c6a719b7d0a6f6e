"""Every pair of files MDAnalysis opens: the record gives MDAnalysis the same as the files do."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
from mdanalysis_pairs import PAIRS

MDAnalysis = pytest.importorskip("MDAnalysis")
datafiles = pytest.importorskip("MDAnalysisTests.datafiles")

import molrec_convert  # noqa: E402
import molrec_mdanalysis  # noqa: E402, F401
from molrec_convert.report import Report  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

#: What a pair is read with beyond MDAnalysis itself.
_LIBRARIES = {"H5MD": "h5py", "GSD": "gsd", "TNG": "pytng"}
#: Some of each kind for every run of the tests.
_QUICK = {
    ("COORDINATES_TOPOLOGY", "COORDINATES_TRR"), ("PSF_TRICLINIC", "DCD_TRICLINIC"), ("LAMMPShyd", "="),
    ("CPPTRAJ_TRAJ_TOP", "CPPTRAJ_TRAJ"), ("mol2_molecules", "="), ("PDB_icodes", "="), ("GRO_velocity", "="),
    ("COORDINATES_TOPOLOGY", "COORDINATES_XTC"), ("TXYZ", "="), ("LAMMPSDUMP_allcoords", "="), ("PRM", "TRJ_bz2"),
    ("PDB_multiframe", "="), ("DLP_CONFIG", "="), ("INPCRD", "="),
}  # fmt: skip
#: Pairs with times in neither file, of which MDAnalysis says something all the same: frame -1 of a TPR.
_INVENTED = {("MMTF", "="), ("TPR", "="), ("TPR2020", "TPR2024_4")}
#: A file of which MDAnalysis reads no positions: it hands out memory nobody wrote to.
_UNWRITTEN = {("TRC_PDB_VAC", "TRC_CLUSTER_VAC")}


def _cases() -> list[Any]:
    return [
        pytest.param(top, trj, keywords, id=f"{top}-{trj}", marks=() if (top, trj) in _QUICK else (pytest.mark.slow,))
        for top, trj, keywords in PAIRS
    ]


@pytest.mark.parametrize(("top", "trj", "keywords"), _cases())
def test_pair(top: str, trj: str, keywords: dict[str, str], tmp_path: Any) -> None:
    for word, library in _LIBRARIES.items():
        if word in f"{top} {trj}".upper():
            pytest.importorskip(library)
    paths = [os.fspath(getattr(datafiles, name)) for name in (top, trj) if name != "="]
    options = {{"format": "trajectory_format"}.get(key, key): value for key, value in keywords.items()}
    target = tmp_path / "run.mrec"
    report = Report()
    molrec_convert.convert(paths, target, from_format="mdanalysis", report=report, **options)
    assert not report.lossy, report.losses()
    packed = tmp_path / "run.mrec.zip"
    molrec_convert.write(molrec_convert.open(target), packed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = MDAnalysis.Universe(*paths, **keywords)
        ours = MDAnalysis.Universe(str(target))
        _same_topology(ours, theirs)
        assert ours.trajectory.n_frames == theirs.trajectory.n_frames
        timed = (top, trj) not in _INVENTED
        arrays = ("velocities", "forces") if (top, trj) in _UNWRITTEN else ("positions", "velocities", "forces")
        for a, b in zip(ours.trajectory, theirs.trajectory, strict=True):
            _same_frame(a, b, arrays, timed=timed)
        if timed and theirs.trajectory.n_frames > 1 and theirs.trajectory.dt not in (0.0, 1.0):
            assert ours.trajectory.dt == pytest.approx(theirs.trajectory.dt, rel=1e-4)
        again = MDAnalysis.Universe(str(packed))
        last = theirs.trajectory.n_frames - 1
        _same_frame(again.trajectory[last], theirs.trajectory[last], arrays, timed=timed)
        _same_topology(again, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("top", "chain", "frames"),
    [
        ("PSF", ["DCD", "CRD", "DCD"], 197),
        ("GRO", ["XTC", "XTC"], 20),
        ("TRC_PDB_VAC", ["TRC_TRAJ1_VAC", "TRC_TRAJ2_VAC"], 6),
    ],
)
def test_chain(top: str, chain: list[str], frames: int, tmp_path: Any) -> None:
    topology, *files = (os.fspath(getattr(datafiles, name)) for name in (top, *chain))
    molrec_convert.convert([topology, *files], tmp_path / "run.mrec", from_format="mdanalysis")
    theirs, ours = MDAnalysis.Universe(topology, files), MDAnalysis.Universe(str(tmp_path / "run.mrec"))
    assert ours.trajectory.n_frames == theirs.trajectory.n_frames == frames
    for a, b in zip(ours.trajectory, theirs.trajectory, strict=True):
        _same_frame(a, b, ("positions", "velocities", "forces"), timed=True)


def _same_frame(a: Any, b: Any, arrays: tuple[str, ...], *, timed: bool) -> None:
    for name in arrays:
        assert getattr(a, f"has_{name}") == getattr(b, f"has_{name}"), name
        if getattr(a, f"has_{name}"):
            assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), name
    assert (a.dimensions is None) == (b.dimensions is None)
    if a.dimensions is not None:
        assert np.array_equal(a.dimensions, b.dimensions), (a.dimensions, b.dimensions)
    if timed:
        assert a.time == b.time


def _same_topology(ours: Any, theirs: Any) -> None:
    assert np.array_equal(ours.atoms.resindices, theirs.atoms.resindices)
    assert np.array_equal(ours.atoms.segindices, theirs.atoms.segindices)
    mine = {attribute.attrname: attribute for attribute in ours._topology.attrs}
    for attribute in theirs._topology.attrs:
        name = attribute.attrname
        if name in ("indices", "resindices", "segindices"):
            continue
        assert name in mine, name
        if hasattr(attribute, "types"):
            _same_connections(mine[name], attribute, name)
            continue
        a, b = mine[name].values, np.asarray(attribute.values)
        if b.dtype == object and not all(isinstance(value, str) for value in b.tolist()):
            a, b = a.astype(str), np.array(["" if value is None else str(value) for value in b.tolist()])
        assert len(a) == len(b), name
        equal_nan = b.dtype.kind == "f"
        assert np.array_equal(a.astype(b.dtype) if b.dtype.kind == "f" else a, b, equal_nan=equal_nan), (name, a, b)


def _same_connections(mine: Any, theirs: Any, name: str) -> None:
    assert [tuple(v) for v in mine.values] == [tuple(v) for v in theirs.values], name
    assert [_word(t) for t in mine.types] == [_word(t) for t in theirs.types], name
    assert [_order(o) for o in mine.order] == [_order(o) for o in theirs.order], name


def _word(kind: Any) -> Any:
    return " ".join(map(str, kind)) if isinstance(kind, tuple) else None if kind is None else str(kind)


def _order(order: Any) -> Any:
    return {"1": 1.0, "2": 2.0, "3": 3.0}.get(order, order)
