"""Data files as LAMMPS reads them: the same atoms, types, cell and relations in the record."""

import re
from pathlib import Path

import corpus_index
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lammps_data_oracle import INSTALLED, Lammps
from lammps_data_systems import systems, write

from molrec_convert.formats import ReadContext
from molrec_convert.text.contents import Contents
from molrec_lammps.common.atom_styles import ATOM_STYLES
from molrec_lammps.common.triclinic import general_rotation, restricted_cell, restricted_vectors
from molrec_lammps.data.record import read_data
from molrec_lammps.options import DataOptions

pytestmark = [
    pytest.mark.lammps,
    pytest.mark.skipif(not INSTALLED, reason="LAMMPS is not installed"),
]


@pytest.fixture(scope="module")
def ask_lammps(tmp_path_factory):
    with Lammps(tmp_path_factory.mktemp("lammps")) as lammps:
        yield lammps


def read(path, style):
    return read_data([Path(path)], ReadContext(options=DataOptions(atom_style=style)))


def read_bytes(path):
    with Contents(path) as contents:
        return bytes(contents.data)


def assert_agrees(path, style, truth):
    """The record and LAMMPS hold one system; LAMMPS has a general cell rotated, and atoms wrapped into the cell."""
    record = read(path, style)
    atoms, frame, box = record.system["atoms"], record.frame["atoms"], record.frame.box
    general = bool(np.tril(box.vectors, -1).any())
    rotation = general_rotation(box.vectors) if general else np.eye(3)
    vectors = restricted_vectors(box.vectors) if general else box.vectors
    theirs, origin = restricted_cell(truth["box"][:3], truth["box"][3:6], truth["box"][6:])
    near = 1e-6 if general else 1e-12  # LAMMPS turns a cell by an arc cosine, good to 1e-8
    assert np.allclose(theirs, vectors, rtol=0, atol=near * np.abs(vectors).max())
    assert np.array_equal(origin, box.origin)
    assert atoms["id"].tolist() == truth["id"].tolist()
    assert atoms["type_id"].tolist() == truth["type"].tolist()
    for column, name in (("charge", "q"), ("mol_id", "molecule")):
        if column in atoms:
            assert atoms[column].tolist() == truth[name].tolist()
    if "mass" in atoms:
        assert atoms["mass"].tolist() == truth["mass"][truth["type"] - 1].tolist()
    ours = np.stack([frame[name] for name in "xyz"], axis=1)
    if general:
        ours = (ours - box.origin) @ rotation.T + box.origin
    images = np.zeros((len(ours), 3))
    if "ix" in frame:
        images = np.stack([frame[name] for name in ("ix", "iy", "iz")], axis=1)
    if not re.search(rb"xy\s+xz\s+yz|avec", read_bytes(path)):
        # an atom inside the cell is the same bit for bit; in tilted cells LAMMPS goes through fractions
        stayed = ((ours >= truth["box"][:3]) & (ours < truth["box"][3:6])).all(axis=1)
        assert np.array_equal(images[stayed], truth["image"][stayed])
        assert np.array_equal(ours[stayed], truth["x"][stayed])
    scale = near * max(1.0, np.abs(ours).max(), np.abs(truth["image"]).max() * np.abs(vectors).max())
    assert np.allclose(ours + images @ vectors.T, truth["x"] + truth["image"] @ theirs.T, rtol=0, atol=10 * scale)
    if "vx" in frame:
        velocities = np.stack([frame[name] for name in ("vx", "vy", "vz")], axis=1) @ rotation.T
        assert np.allclose(velocities, truth["v"], rtol=0, atol=1e-4 if general else 0)
    for name, width in (("bonds", 2), ("angles", 3), ("dihedrals", 4), ("impropers", 4)):
        assert (name in record.system) == (name in truth)
        if name in truth:
            block = record.system[name]
            ids = atoms["id"].astype(np.int64)
            ends = [ids[block[end]] for end in ("atomi", "atomj", "atomk", "atoml")[:width]]
            rows = np.stack([block["type_id"].astype(np.int64), *ends], axis=1)
            assert sorted(rows.tolist()) == sorted(truth[name].reshape(-1, width + 1).tolist())


def test_files_of_the_reference_set_are_read_as_lammps_reads_them(corpus, ask_lammps):
    styles = set(ATOM_STYLES) - {"template", "wavepacket"}
    compared = 0
    for row in corpus_index.rows("lammps-data"):
        path = corpus / row["path"]
        style = re.search(r"style: (.*)", row["other"])[1]
        fixes = re.search(r"CMAP|marks", row["other"])
        if not set(style.split()) - {"hybrid"} <= styles or fixes or path.suffix == ".bz2":
            continue
        truth = ask_lammps(path, style)
        assert not isinstance(truth, str), (path.name, truth)
        if len(truth["id"]):
            assert_agrees(path, style, truth)
            compared += 1
    assert compared >= 25


@pytest.mark.slow
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(systems(for_lammps=True), st.randoms(use_true_random=False))
def test_random_files_are_read_as_lammps_reads_them(tmp_path, ask_lammps, system, random):
    path = tmp_path / "system.data"
    path.write_bytes(write(system, random, plain=True))
    truth = ask_lammps(path, system.style)
    assert not isinstance(truth, str), truth
    assert_agrees(path, system.style, truth)
