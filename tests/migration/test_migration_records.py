"""Inputs that become records of their own, in a tree like theirs."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from migration_inputs import extxyz, make_files
from test_migration_kills import kill_when, started

import molrec_convert
from molrec_convert.errors import UsageError
from molrec_convert.migration import MigrationStopped, Settings, migrate_records


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_tree_is_that_of_the_inputs(tmp_path):
    make_files(tmp_path / "in" / "a", 3)
    make_files(tmp_path / "in" / "b" / "c", 2)
    (tmp_path / "in" / "notes.txt").write_text("lab book\n")
    outcome = migrate_records([tmp_path / "in"], tmp_path / "out", workers=1)
    assert (outcome.records, outcome.aside, outcome.failures) == (5, 1, 0)
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.mrec"))
    assert found == [*(f"a/c0000{n}.mrec" for n in range(3)), *(f"b/c/c0000{n}.mrec" for n in range(2))]
    source = molrec_convert.read(tmp_path / "in" / "a" / "c00001.extxyz")
    with molrec_convert.open(tmp_path / "out" / "a" / "c00001.mrec") as record:
        assert record.trajectory[0] == source.trajectory[0]


def test_names_that_would_be_one_keep_their_suffix(tmp_path):
    make_files(tmp_path / "in", 2)
    (tmp_path / "in" / "c00001.xyz").write_text("1\n\nH 0 0 0\n")
    migrate_records([tmp_path / "in"], tmp_path / "out", workers=1)
    assert sorted(os.listdir(tmp_path / "out")) == ["c00000.mrec", "c00001.extxyz.mrec", "c00001.xyz.mrec"]


def test_directories_that_are_runs_are_one_input(tmp_path):
    dump = (
        "ITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n1\nITEM: BOX BOUNDS pp pp pp\n0 5\n0 5\n0 5\n"
        "ITEM: ATOMS id type x y z\n1 1 0.5 1 2\n"
    )
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "in.lammps").write_text(
            "units metal\natom_style atomic\nread_data a.data\ndump 1 all atom 10 a.dump\nrun 0\n"
        )
        (tmp_path / "runs" / name / "a.dump").write_text(dump)
        (tmp_path / "runs" / name / "a.data").write_text(
            "data\n\n1 atoms\n1 atom types\n\n0 5 xlo xhi\n0 5 ylo yhi\n0 5 zlo zhi\n\n"
            "Masses\n\n1 1.0\n\nAtoms # atomic\n\n1 1 0.5 1 2\n"
        )
    outcome = migrate_records([f"{tmp_path}/runs/*/"], tmp_path / "out", workers=1)
    assert (outcome.inputs, outcome.records, outcome.failures) == (2, 2, 0)
    assert sorted(os.listdir(tmp_path / "out")) == ["one.mrec", "two.mrec"]


def test_what_is_done_is_passed_over(tmp_path):
    make_files(tmp_path / "in", 4)
    (tmp_path / "in" / "bad.extxyz").write_text("3\nbroken\n")
    first = migrate_records([tmp_path / "in"], tmp_path / "out", workers=1)
    assert (first.records, first.failures) == (4, 1)
    lines = [json.loads(line) for line in (tmp_path / "out.failures.jsonl").read_text().splitlines()]
    (failure,) = (line for line in lines if line["level"] == "error")
    assert sorted({line["level"] for line in lines}) == ["error", "warning"]
    assert failure["path"].endswith("bad.extxyz")
    (tmp_path / "in" / "bad.extxyz").write_text(extxyz(9))
    (tmp_path / "in" / "c00002.extxyz").write_text(extxyz(8))
    second = migrate_records([tmp_path / "in"], tmp_path / "out", workers=2)
    assert (second.known, second.records, second.failures) == (3, 2, 0)
    assert '"error"' not in (tmp_path / "out.failures.jsonl").read_text()


def test_what_others_put_there_stays(tmp_path):
    make_files(tmp_path / "in", 2)
    (tmp_path / "out" / "c00001.mrec").mkdir(parents=True)
    (tmp_path / "out" / "c00001.mrec" / "mine").write_text("mine")
    outcome = migrate_records([tmp_path / "in"], tmp_path / "out", workers=1)
    assert (outcome.records, outcome.failures) == (1, 1)
    assert (tmp_path / "out" / "c00001.mrec" / "mine").read_text() == "mine"
    with pytest.raises(MigrationStopped, match="exists already"):
        migrate_records([tmp_path / "in"], tmp_path / "out", Settings(on_error="stop"), workers=1)
    with pytest.raises(UsageError, match="is no directory"):
        migrate_records([tmp_path / "in"], tmp_path / "in" / "c00000.extxyz")


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    for name in "abc":
        make_files(tmp_path / "in" / name, 30)
    migrate_records([tmp_path / "in"], tmp_path / "whole", workers=1)
    draw = random.Random(3)
    for least in sorted(draw.sample(range(60), 4)):
        child = started(tmp_path / "killed", 2, 0, "records", 1, tmp_path / "in")
        kill_when(child, lambda: len(list((tmp_path / "killed").glob("[abc]/c*.mrec"))), least)
    last = started(tmp_path / "killed", 2, 0, "records", 0, tmp_path / "in")
    assert last.communicate()[0] == "done\n"
    whole, killed = tree(tmp_path / "whole"), tree(tmp_path / "killed")
    assert whole.keys() == killed.keys()
    differing = [name for name in whole if whole[name] != killed[name] and not name.endswith("zarr.json")]
    assert differing == []
    records = sorted((tmp_path / "whole").rglob("*.mrec"))
    assert len(records) == 90
    for path in records[::15]:
        other = tmp_path / "killed" / path.relative_to(tmp_path / "whole")
        with molrec_convert.open(path) as a, molrec_convert.open(other) as b:
            assert a.trajectory[0] == b.trajectory[0]


def test_other_options_than_those_of_what_is_done_are_told(tmp_path):
    frame = "1\nProperties=species:S:1:pos:R:3 energy=-1.0 dft=-2.0\nH 0 0 0\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.extxyz").write_text(frame)

    def energy(**asked):
        options = {key: asked.pop(key) for key in ("overwrite",) if key in asked}
        migrate_records([tmp_path / "in"], tmp_path / "out", Settings(options=asked), workers=1, **options)
        with molrec_convert.open(tmp_path / "out" / "a.mrec") as record:
            return record.frame.meta["pe"] if record.frame is not None else record.trajectory[0].meta["pe"]

    assert energy() == -1.0
    with pytest.raises(UsageError, match=r"made with other --energy-key: .*, or .*--overwrite"):
        energy(energy_key="dft")
    assert energy(energy_key="dft", overwrite=True) == -2.0
    assert energy(energy_key="dft") == -2.0


def test_inputs_of_many_records_are_told_to_become_a_collection(tmp_path):
    ase, ase_db = pytest.importorskip("ase"), pytest.importorskip("ase.db")
    with ase_db.connect(str(tmp_path / "a.db")) as rows:
        for _ in range(2):
            rows.write(ase.Atoms("H"))
    told = r"the only input gave no record.*a\.db holds no single record: leave off --as records"
    with pytest.raises(MigrationStopped, match=told):
        migrate_records([tmp_path / "a.db"], tmp_path / "out", workers=1)
