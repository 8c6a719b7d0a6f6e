"""Worker processes killed by the system: what they were doing is done again, an input that kills twice is at fault."""

from __future__ import annotations

import json

import pytest
from killing_worker import KillingWorker
from migration_inputs import extxyz, make_files, run, same_collection

import molrec_convert.migration.engine as engine
from molrec_convert.migration import MigrationStopped

pytest.importorskip("pyarrow")


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
