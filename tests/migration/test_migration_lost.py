"""Worker processes killed by the system: what they were doing is done again, an input that kills twice is at fault."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from killing_worker import KillingWorker
from migration_inputs import extxyz, make_files, run, same_collection

import molrec_convert.migration.engines.engine as engine
from molrec_convert.migration import MigrationStopped, Settings, migrate, migrate_records
from molrec_convert.migration.state import read_lines
from molrec_convert.migration.verify import verify_collection
from molrec_convert.stores.lmdb.sharded import open_collection


def run_killing(inputs, target, **settings):
    """With worker processes that are killed; never in this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "Worker", KillingWorker)
        return run(inputs, target, workers=2, **settings)


def test_an_input_that_kills_once_is_read_again(tmp_path):
    make_files(tmp_path / "in", 30)
    (tmp_path / "in" / "once.extxyz").write_text(extxyz(99, frames=4))
    inputs = sorted((tmp_path / "in").iterdir())
    run(inputs, tmp_path / "whole.mrec.lmdb")
    outcome = run_killing(inputs, tmp_path / "killed.mrec.lmdb")
    assert (tmp_path / "in" / "once.extxyz.met").exists()
    assert (outcome.records, outcome.failures) == (34, 0)
    assert same_collection(tmp_path / "whole.mrec.lmdb", tmp_path / "killed.mrec.lmdb")


def test_what_was_sent_before_the_kill_counts(tmp_path):
    """In the middle of an input, and of a record."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"later{number}.extxyz").write_text(extxyz(number, frames=2000, atoms=3))
    inputs = sorted((tmp_path / "in").iterdir())
    outcome = run_killing(inputs, tmp_path / "killed.mrec.lmdb")
    assert len(list((tmp_path / "in").glob("*.met"))) == 3
    assert (outcome.records, outcome.failures) == (6000, 0)
    run(inputs, tmp_path / "whole.mrec.lmdb")
    assert same_collection(tmp_path / "whole.mrec.lmdb", tmp_path / "killed.mrec.lmdb")


@pytest.mark.slow
def test_an_input_that_kills_again_is_at_fault(tmp_path):
    make_files(tmp_path / "in", 20)
    poison = tmp_path / "in" / "poison.extxyz"
    poison.write_text(extxyz(99))
    outcome = run_killing([tmp_path / "in"], tmp_path / "a.mrec.lmdb")
    assert (outcome.records, outcome.failures) == (20, 1)
    (failure,) = map(json.loads, (tmp_path / "a.failures.jsonl").read_text().splitlines())
    assert failure["path"] == str(poison)
    assert failure["type"] == "WorkerLost"
    assert failure["error"] == f"{poison}: the process that read it was ended by SIGKILL, and so was another one"
    with pytest.raises(MigrationStopped, match=r"poison\.extxyz: the process that read it was ended by SIGKILL"):
        run_killing([tmp_path / "in"], tmp_path / "b.mrec.lmdb", on_error="stop")


def trajectories(folder: Path) -> tuple[Path, Path]:
    """An XTC file of MDAnalysis, and one that ends whoever reads it: a size its coordinates are divided by is zero."""
    mda = pytest.importorskip("MDAnalysis")
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = mda.Universe.empty(30, trajectory=True)
        universe.dimensions = [50, 50, 50, 90, 90, 90]
        draw = np.random.default_rng(1)
        good, bad = folder / "good.xtc", folder / "bad.xtc"
        with mda.Writer(str(good), 30) as writer:
            for _ in range(4):
                universe.atoms.positions = draw.random((30, 3)) * 20
                writer.write(universe.atoms)
    data = bytearray(good.read_bytes())
    data[84:88] = bytes(4)
    bad.write_bytes(data)
    return good, bad


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_trajectory_that_ends_its_reader_is_at_fault(tmp_path: Path, workers: int) -> None:
    """Looked at by a library that trusts what it reads; the process that writes lives on."""
    good, bad = trajectories(tmp_path / "in")
    target = tmp_path / "a.mrec.lmdb"
    outcome = migrate([str(bad), str(good)], target, Settings(), workers=workers)
    assert (outcome.records, outcome.frames, outcome.failures) == (1, 4, 1)
    (failure,) = (line for line in read_lines(tmp_path / "a.failures.jsonl", "") if line["level"] == "error")
    # where a look at the file before does not tell, the process that reads it ends
    assert failure["path"] == str(bad)
    assert failure["type"] in ("FormatError", "WorkerLost")


def test_with_one_worker_what_may_end_the_process_is_read_in_another(tmp_path: Path) -> None:
    make_files(tmp_path / "in", 3)
    poison = tmp_path / "in" / "poison.extxyz"
    poison.write_text(extxyz(99))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "Worker", KillingWorker)
        outcome = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", workers=1)
    assert (outcome.records, outcome.failures) == (3, 1)
    (failure,) = read_lines(tmp_path / "a.failures.jsonl", "")
    assert (failure["path"], failure["type"]) == (str(poison), "WorkerLost")


@pytest.mark.slow
def test_such_a_trajectory_among_records_of_their_own(tmp_path: Path) -> None:
    trajectories(tmp_path / "in")
    outcome = migrate_records([str(tmp_path / "in")], tmp_path / "out", Settings(), workers=1)
    assert (outcome.records, outcome.failures) == (1, 1)
    assert os.listdir(tmp_path / "out") == ["good.mrec"]


@pytest.mark.slow
def test_such_a_trajectory_is_no_end_of_verifying(tmp_path: Path) -> None:
    good, bad = trajectories(tmp_path / "in")
    migrate([str(good)], tmp_path / "a.mrec.lmdb", Settings(), workers=1)
    with open_collection(tmp_path / "a.mrec.lmdb") as collection:
        told = verify_collection(collection, [str(bad), str(good)])
        assert (told.compared, told.different) == (1, 0)
        assert any(f"{bad} cannot be read" in note for note in told.notes)
        bad.replace(good)
        told = verify_collection(collection, [str(good)])
    assert (told.compared, told.different) == (1, 1)
    assert "its source cannot be read" in told.lines[0]


def test_a_database_that_is_cut_short_is_at_fault(tmp_path: Path) -> None:
    """One of ASE's that is mapped: a page that is not there would end the process."""
    pytest.importorskip("ase_db_backends")
    import ase
    import ase.db

    whole, cut = tmp_path / "b.aselmdb", tmp_path / "a.aselmdb"
    with ase.db.connect(str(whole)) as database:
        for number in range(200):
            database.write(ase.Atoms("H8", positions=np.full((8, 3), number * 0.1)))
    cut.write_bytes(whole.read_bytes()[: 3 * 4096 + 100])
    outcome = migrate([str(cut), str(whole)], tmp_path / "a.mrec.lmdb", Settings(), workers=1)
    assert (outcome.records, outcome.failures) == (200, 1)
