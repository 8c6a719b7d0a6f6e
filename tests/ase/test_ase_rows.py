"""Rows of a database at fault, and databases that are read by what an earlier look found."""

from __future__ import annotations

import json
import sqlite3

import lmdb
import numpy as np
import pytest
from migration_inputs import run, same_collection

import molrec_convert
from molrec_convert import FormatError
from molrec_convert.formats import ReadContext
from molrec_convert.migration.engines.engine import LocalEngine
from molrec_convert.migration.inputs import tasks
from molrec_convert.migration.verify import verify_collection

ase = pytest.importorskip("ase")

COUNT = 60


def database(path, count: int = COUNT):
    """Rows that differ in what they have: keys, forces, constraints, charges, data."""
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.constraints import FixAtoms
    from ase.db import connect

    draw = np.random.default_rng(5)
    with connect(path) as rows:
        for number in range(count):
            atoms = ase.Atoms("CH4"[: 1 + number % 2], positions=draw.normal(size=(1 + number % 2, 3)))
            results = {"energy": draw.normal()}
            if number % 3:
                results["forces"] = draw.normal(size=(len(atoms), 3))
            if number % 7 == 0:
                atoms.set_initial_charges(draw.normal(size=len(atoms)))
            if number % 11 == 0:
                atoms.set_constraint(FixAtoms([0]))
            atoms.calc = SinglePointCalculator(atoms, **results)
            keys = {"zeta": f"z{number}", "alpha": number, "mean": 0.5 * number}
            rows.write(atoms, **dict(list(keys.items())[:: 1 if number % 2 else -1][number % 3 :]))
    return path


def changed(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()
    return path


def stored(path) -> dict[bytes, bytes]:
    with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as environment, environment.begin() as values:
        return {key: value for key, value in values.cursor() if key != b"meta"}


FAULTS = {
    "forces": ("UPDATE systems SET forces = ? WHERE id = 21", b"1234567"),
    "numbers": ("UPDATE systems SET numbers = ? WHERE id = 21", b"123"),
    "no numbers": ("UPDATE systems SET numbers = NULL WHERE id = 21",),
    "text for positions": ("UPDATE systems SET positions = 'abc' WHERE id = 21",),
    "keys": ("UPDATE systems SET key_value_pairs = '{' WHERE id = 21",),
    "data": ("UPDATE systems SET data = ? WHERE id = 21", b"12345678{}"),
    "constraints": ("UPDATE systems SET constraints = '[{}]' WHERE id = 21",),
    "energy": ("UPDATE systems SET energy = 'abc' WHERE id = 21",),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_row_at_fault_is_passed_over(tmp_path, monkeypatch, fault):
    whole = database(tmp_path / "a.db")
    run([whole], tmp_path / "whole.mrec.lmdb")
    monkeypatch.setattr(tasks, "_SPAN_BYTES", 8000)
    for keys in ({}, {"index": ("alpha",)}):
        target = tmp_path / f"out{len(keys)}.mrec.lmdb"
        (tmp_path / "b.db").write_bytes(whole.read_bytes())
        outcome = run([changed(tmp_path / "b.db", *FAULTS[fault])], target, **keys)
        assert (outcome.records, outcome.failures) == (COUNT - 1, 1)
        (failure,) = map(json.loads, (tmp_path / f"out{len(keys)}.failures.jsonl").read_text().splitlines())
        assert failure["record"] == 20
        assert "row id 21" in failure["error"]
        with molrec_convert.open(target) as collection, molrec_convert.open(tmp_path / "whole.mrec.lmdb") as every:
            assert collection.index["source_record"].tolist() == [n for n in range(COUNT) if n != 20]
            for position in (0, 19, 20, COUNT - 2):
                other = every[position if position < 20 else position + 1]
                assert collection[position].trajectory[0] == other.trajectory[0]
            for sample in (1.0, 0.1):
                found = verify_collection(collection, [tmp_path / "b.db"], sample=sample)
                assert found.is_equal, found.lines


def test_a_row_that_is_at_fault_since_is_a_difference(tmp_path):
    path = database(tmp_path / "a.db")
    run([path], tmp_path / "a.mrec.lmdb")
    changed(path, *FAULTS["keys"])
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        found = verify_collection(collection, [path])
    assert (found.compared, found.different) == (COUNT, 1)
    assert "record 20: its source cannot be read" in found.lines[0]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_row_at_fault_is_named(tmp_path, fault):
    path = changed(database(tmp_path / "a.db"), *FAULTS[fault])
    for as_ in ("collection", "trajectory"):
        with pytest.raises(FormatError, match="row id 21"):
            molrec_convert.convert(path, tmp_path / ("a.mrec.lmdb" if as_ == "collection" else "a.mrec"), as_=as_)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.db"]


def test_values_hang_on_no_other_row(tmp_path, monkeypatch):
    """What is read with a row changes neither its bytes nor their order."""
    path = database(tmp_path / "a.db")
    run([path], tmp_path / "whole.mrec.lmdb")
    expected = stored(tmp_path / "whole.mrec.lmdb")
    for size in (3000, 9000):
        monkeypatch.setattr(tasks, "_SPAN_BYTES", size)
        run([path], tmp_path / f"{size}.mrec.lmdb")
        assert stored(tmp_path / f"{size}.mrec.lmdb") == expected
    with molrec_convert.read(path) as rows:
        for start in (0, 1, 7):
            ours = [(record.system, own) for record, own in rows.span(start, start + 9)]
            alone = [next(rows.span(number, number + 1)) for number in range(start, start + 9)]
            assert [list(system.meta.tags.items()) for system, _ in ours] == [
                list(record.system.meta.tags.items()) for record, _ in alone
            ]
            assert [own for _, own in ours] == [own for _, own in alone]


def test_what_was_found_out_spares_a_look(tmp_path, monkeypatch):
    from molrec_ase.databases import rows as sqlite_rows
    from molrec_ase.reader import read_database

    path = database(tmp_path / "a.db")
    with molrec_convert.read(path) as rows:
        outline, bare = rows.outline(), rows.outline(index=False)
        expected = [(record.system, record.trajectory[0], own) for record, own in rows.members()]
    assert outline == json.loads(json.dumps(outline))
    assert outline["index"].keys() - {"user"} == {"zeta", "alpha", "mean", "id", "unique_id", "ctime", "mtime"}
    assert bare["index"] == {}

    def look(*arguments):
        raise AssertionError("the database is looked at once more")

    monkeypatch.setattr(sqlite_rows, "look_at", look)
    with read_database([path], ReadContext(outline=outline)) as again:
        assert [(record.system, record.trajectory[0], own) for record, own in again.members()] == expected
    with read_database([path], ReadContext(outline=bare)) as again:
        assert [record.system for record in again] == [system for system, _, _ in expected]
    database(path, 1)
    with pytest.raises(FormatError, match="61 configurations, 60 a moment ago"):
        read_database([path], ReadContext(outline=outline))


class Meddling(LocalEngine):
    """Changes a database between the two passes."""

    def __init__(self, path, *change) -> None:
        super().__init__(1)
        self._path, self._change = path, change

    def encode(self, *arguments):
        changed(self._path, *self._change)
        return super().encode(*arguments)


def test_a_database_that_changes_meanwhile_is_at_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "_SPAN_BYTES", 8000)
    good, bad = database(tmp_path / "a.db"), database(tmp_path / "b.db")
    engine = Meddling(bad, "DELETE FROM systems WHERE id = 5")
    outcome = run([good, bad], tmp_path / "x.mrec.lmdb", engine=engine)
    assert (outcome.records, outcome.failures) == (COUNT, 1)
    run([good], tmp_path / "y.mrec.lmdb")
    assert same_collection(tmp_path / "x.mrec.lmdb", tmp_path / "y.mrec.lmdb")
    (failure,) = map(json.loads, (tmp_path / "x.failures.jsonl").read_text().splitlines())
    assert "b.db" in failure["error"]
