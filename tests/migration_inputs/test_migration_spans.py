"""A large input is read in spans by several workers: the same keys and values as in one go."""

from __future__ import annotations

import json
import random

import pytest
from migration_inputs import extxyz, make_files, run, same_collection

import molrec_convert
from molrec_convert.migration.inputs import tasks
from molrec_convert.migration.inputs.inputs import expand_inputs
from molrec_convert.migration.inputs.tasks import TaskList


@pytest.fixture
def small_spans(monkeypatch):
    monkeypatch.setattr(tasks, "_SPAN_BYTES", 4000)


def divided(path, records: int, skip: int = 0) -> list[tuple[int, int | None]]:
    table = expand_inputs([path], path.parent / "x.mrec.lmdb")
    return [(task.skip, task.stop) for task in TaskList(table, [None], [True], None, [records]).since(0, skip)]


def test_spans_follow_each_other(tmp_path, small_spans):
    path = tmp_path / "a.xyz"
    path.write_bytes(bytes(20_000))
    assert divided(path, 11) == [(0, 3), (3, 6), (6, 9), (9, None)]
    assert divided(path, 11, 4) == [(4, 6), (6, 9), (9, None)]
    assert divided(path, 11, 11) == [(11, None)]
    assert divided(path, 2) == [(0, 1), (1, None)]
    assert divided(path, 1) == divided(path, 0) == [(0, None)]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_long_file_in_spans(tmp_path, monkeypatch, workers):
    make_files(tmp_path / "in", 3)
    (tmp_path / "in" / "c00001x.extxyz").write_text(extxyz(5, frames=300))
    run([tmp_path / "in"], tmp_path / "whole.mrec.lmdb")
    monkeypatch.setattr(tasks, "_SPAN_BYTES", 4000)
    outcome = run([tmp_path / "in"], tmp_path / "spans.mrec.lmdb", workers=workers, commit_seconds=0.0)
    assert outcome.records == 303
    assert same_collection(tmp_path / "whole.mrec.lmdb", tmp_path / "spans.mrec.lmdb")
    assert (tmp_path / "whole.migration.jsonl").read_bytes() == (tmp_path / "spans.migration.jsonl").read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_database_in_spans(tmp_path, monkeypatch, workers):
    ase = pytest.importorskip("ase")
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.db import connect

    draw = random.Random(1)
    with connect(tmp_path / "a.db") as database:
        for number in range(120):
            atoms = ase.Atoms("CH4"[: 1 + number % 2], positions=[[draw.random()] * 3] * (1 + number % 2))
            atoms.calc = SinglePointCalculator(atoms, energy=draw.random())
            database.write(atoms, kind=f"k{number}", odd=number % 2)
    settings = {"index": ("kind", "odd"), "group_by": "formula"}
    run([tmp_path / "a.db"], tmp_path / "whole.mrec.lmdb", **settings)
    monkeypatch.setattr(tasks, "_SPAN_BYTES", 4000)
    run([tmp_path / "a.db"], tmp_path / "spans.mrec.lmdb", workers=workers, **settings)
    assert same_collection(tmp_path / "whole.mrec.lmdb", tmp_path / "spans.mrec.lmdb")
    with molrec_convert.open(tmp_path / "spans.mrec.lmdb") as collection:
        assert collection.index["kind"].tolist() == [f"k{number}" for number in range(120)]
    # a collection is divided, too
    run([tmp_path / "whole.mrec.lmdb"], tmp_path / "again.mrec.lmdb", workers=workers, units=None)
    with molrec_convert.open(tmp_path / "again.mrec.lmdb") as again, molrec_convert.open(tmp_path / "a.db") as rows:
        assert [record.trajectory[0] for record in again] == [record.trajectory[0] for record in rows]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fault_in_a_span_is_one_of_the_whole_file(tmp_path, small_spans, workers):
    make_files(tmp_path / "in", 3)
    text = extxyz(5, frames=300, atoms=3).splitlines(keepends=True)
    text[5 * 150 + 3] = "H 1 2 x 4 5 6\n"
    (tmp_path / "in" / "c00001x.extxyz").write_text("".join(text))
    outcome = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", workers=workers, commit_seconds=0.0)
    assert (outcome.records, outcome.failures) == (3, 1)
    (failure,) = map(json.loads, (tmp_path / "a.failures.jsonl").read_text().splitlines())
    assert "c00001x.extxyz" in failure["error"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_layout_that_changes_in_a_later_span(tmp_path, monkeypatch, workers):
    """Labels are numbers at first, and names later: the whole file is read again."""
    make_files(tmp_path / "in", 2)
    text = extxyz(5, frames=200, atoms=3).replace("forces:R:3", "forces:R:3:tag:S:1")
    lines = [
        f"{line} {'7' if n < 750 else 'x7'}" if line[:1] in "HCNO" else line for n, line in enumerate(text.splitlines())
    ]
    (tmp_path / "in" / "c00000x.extxyz").write_text("\n".join(lines) + "\n")
    settings = {"fill": {"tag": ""}}
    whole = run([tmp_path / "in"], tmp_path / "whole.mrec.lmdb", **settings)
    assert whole.records == 202
    monkeypatch.setattr(tasks, "_SPAN_BYTES", 4000)
    run([tmp_path / "in"], tmp_path / "spans.mrec.lmdb", workers=workers, commit_seconds=0.0, **settings)
    assert same_collection(tmp_path / "whole.mrec.lmdb", tmp_path / "spans.mrec.lmdb")
