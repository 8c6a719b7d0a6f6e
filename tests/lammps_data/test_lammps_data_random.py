"""Random systems, written as data files in any style, are read back exactly."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lammps_data_systems import COLUMNS, RELATIONS, systems, write

from molrec_convert.formats import ReadContext
from molrec_convert.model.dtypes import same_bits
from molrec_convert.text import rows
from molrec_lammps.data import sections as data_sections
from molrec_lammps.data.record import read_data
from molrec_lammps.options import DataOptions

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def read(tmp_path, text, suffix="", **options):
    path = tmp_path / f"system.data{suffix}"
    path.write_bytes(COMPRESS[suffix](text))
    context = ReadContext(options=DataOptions(**options))
    record = read_data([path], context)
    record.system.check("system")
    record.frame.check("frame")
    return record, context.report


def assert_holds(record, system):
    """The record has the system's values, bit for bit."""
    atoms, frame = record.system["atoms"], record.frame["atoms"]
    assert atoms["id"].tolist() == system.ids
    assert atoms["id"].dtype == np.uint64
    assert atoms["type_id"].tolist() == system.types
    labels = system.labels.get("atom") or [str(n + 1) for n in range(system.counts["atom"])]
    assert atoms["type"].tolist() == [labels[number - 1] for number in system.types]
    if system.ids:
        assert ("charge" in atoms) == ("q" in COLUMNS[system.style])
        assert ("mol_id" in atoms) == ("mol" in COLUMNS[system.style])
        assert ("mass" in atoms) == (system.masses is not None)
    if "charge" in atoms:
        assert same_bits(atoms["charge"], np.array(system.charges))
    if "mol_id" in atoms:
        assert atoms["mol_id"].tolist() == system.mols
    if "mass" in atoms:
        assert same_bits(atoms["mass"], np.array([system.masses[number - 1] for number in system.types]))
    if "comment" in atoms:
        assert atoms["comment"].tolist() == [system.comments.get(id_) for id_ in system.ids]
        assert atoms.validity("comment").tolist() == [id_ in system.comments for id_ in system.ids]
    else:
        assert not system.comments
    assert_state(frame, system)
    for name, (_, width, kind) in RELATIONS.items():
        rows = system.relations.get(name, [])
        block = record.system.blocks.get(name.lower())
        assert (block is None) == (not rows)
        if rows:
            ends = [block[end].tolist() for end in ("atomi", "atomj", "atomk", "atoml")[:width]]
            assert [[system.ids[row] for row in row_] for row_ in zip(*ends, strict=True)] == [e for _, e in rows]
            assert block["type_id"].tolist() == [number for number, _ in rows]
            names = system.labels.get(kind) or [str(n + 1) for n in range(system.counts[kind])]
            assert block["type"].tolist() == [names[number - 1] for number, _ in rows]


def assert_state(frame, system):
    if system.ids:
        for axis, name in enumerate("xyz"):
            assert same_bits(frame[name], np.array([position[axis] for position in system.positions]))
    for values, names in ((system.velocities, ("vx", "vy", "vz")), (system.images, ("ix", "iy", "iz"))):
        assert (names[0] in frame) == (values is not None and bool(system.ids))
        if names[0] in frame:
            for axis, name in enumerate(names):
                expected = np.array([value[axis] for value in values], dtype=frame[name].dtype)
                assert same_bits(frame[name], expected)


def assert_box(box, lines):
    if "avec" in lines:
        assert same_bits(box.vectors, np.array([lines["avec"], lines["bvec"], lines["cvec"]]).T)
        assert same_bits(box.origin, np.array(lines.get("abc origin", (0.0, 0.0, 0.0))))
        return
    bounds = [lines.get(f"{axis}lo {axis}hi", (-0.5, 0.5)) for axis in "xyz"]
    assert same_bits(box.origin, np.array([low for low, _ in bounds]))
    xy, xz, yz = lines.get("xy xz yz", (0.0, 0.0, 0.0))
    lx, ly, lz = (high - low for low, high in bounds)
    assert same_bits(box.vectors, np.array([[lx, xy, xz], [0, ly, yz], [0, 0, lz]]))


@pytest.mark.slow
@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(systems(), st.randoms(use_true_random=False), st.booleans(), st.sampled_from([*COMPRESS]), st.booleans())
def test_a_random_system_is_read_back_exactly(tmp_path, system, random, hint, suffix, fast):
    text = write(system, random, hint=hint)
    options = {} if hint else {"atom_style": system.style}
    with pytest.MonkeyPatch.context() as patch:
        if not fast:
            patch.setattr(rows, "library", lambda: None)
        patch.setattr(data_sections, "PIECE_BYTES", random.choice([32, 200, 1 << 20]))
        patch.setattr(data_sections, "_LONG_LINE", random.choice([1, 160]))
        record, report = read(tmp_path, text, suffix, **options)
    assert_holds(record, system)
    assert_box(record.frame.box, system.box)
    assert record.units == (None if system.units is None else {"preset": system.units})
    assert any("units" in warning for warning in report.warnings) == (system.units is None)
    document = record.system.meta["lammps"]
    assert document["type_counts"] == system.counts
    assert document.get("type_labels", {}) == system.labels
    assert document.get("masses") == system.masses
    assert document["title"].startswith("title 99 atoms xlo xhi")
    assert not report.lossy
