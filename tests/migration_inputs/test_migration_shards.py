"""Migrations to sets of files: equal to one file record by record, on every engine, through kills and additions."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from collection_stores import contents
from migration_inputs import METAL, extxyz, make_files, run, same_collection

import molrec_convert
from molrec_convert.cli import run as mrec
from molrec_convert.errors import FormatError, UsageError
from molrec_convert.migration import MigrationStopped, Settings
from molrec_convert.migration.outputs.files import SeveralFiles
from molrec_convert.migration.outputs.output import Output
from molrec_convert.stores.lmdb.merging import merge_collections, places
from molrec_convert.stores.lmdb.sharded import ShardedCollection, open_collection


def make_inputs(folder: Path) -> Path:
    """Faults in the middle of files, duplicates, keys of several kinds, elements that are in few files."""
    make_files(folder, 24)
    (folder / "c00007.extxyz").write_text("3\nbroken\n")
    (folder / "c00011.extxyz").write_text(extxyz(10))
    text = extxyz(7, frames=30, atoms=3)
    (folder / "c00012x.extxyz").write_text(text[: text.rindex("\n", 0, -1)] + "\nH 1 2 x 4 5 6\n")
    (folder / "c00015x.extxyz").write_text(extxyz(99, frames=17))
    (folder / "zz.extxyz").write_text(extxyz(98).replace("\nO ", "\nAr ").replace("\nC ", "\nXe "))
    return folder


def same_records(one: Path, several: Path, most: int) -> None:
    """The set equals the file: every stored value, the index, what is declared; parts are full but for the last."""
    with open_collection(one) as ours, open_collection(several) as theirs:
        assert isinstance(theirs, ShardedCollection)
        counts = [part.n_records for part in theirs.manifest.parts]
        assert counts == [min(most, len(ours) - first) for first in range(0, len(ours), most)]
        assert (ours.declaration, ours.document) == (theirs.declaration, theirs.document)
        assert ours.index_columns.keys() == theirs.index_columns.keys()
        for name, column in ours.index.columns.items():
            other = theirs.index.columns[name]
            assert other.dtype == column.dtype
            assert other.values.tolist() == column.values.tolist()
            masks = [np.ones(len(ours), bool) if c.validity is None else c.validity for c in (column, other)]
            assert (masks[0] == masks[1]).all()
        for number, (part, position) in enumerate(places(theirs)):
            assert part.stored_record(position) == ours.stored_record(number)
    merged = several.with_name("merged.mrec.lmdb")
    merge_collections([several], merged)
    assert contents(merged) == contents(one)
    merged.unlink()
    assert not [name for name in os.listdir(several.parent) if name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "most"), [(1, 1), (1, 7), (2, 10), (1, 40), (1, 10000)])
def test_a_set_equals_one_file(tmp_path, workers, most):
    make_inputs(tmp_path / "in")
    settings = {"dedupe": True, "group_by": "formula"}
    one = run([tmp_path / "in"], tmp_path / "one.mrec.lmdb", **settings)
    several = run([tmp_path / "in"], tmp_path / "set.mrec.lmdb", workers=workers, shard_records=most, **settings)
    assert (one.records, one.frames, one.failures, one.duplicates) == (40, 40, 2, 1)
    assert (several.records, several.frames, several.failures, several.duplicates) == (40, 40, 2, 1)
    same_records(tmp_path / "one.mrec.lmdb", tmp_path / "set.mrec.lmdb", most)
    for kind in ("failures", "migration"):
        assert (tmp_path / f"one.{kind}.jsonl").read_bytes() == (tmp_path / f"set.{kind}.jsonl").read_bytes()
    again = run([tmp_path / "in"], tmp_path / "set.mrec.lmdb", shard_records=most, **settings)
    assert (again.known, again.records) == (25, 40)


class Stop(BaseException):
    """The process ends here, as far as the files are concerned."""


def test_ended_after_any_event(tmp_path, monkeypatch):
    make_files(tmp_path / "in", 5)
    text = extxyz(7, frames=6, atoms=3)
    (tmp_path / "in" / "c00002x.extxyz").write_text(text[: text.rindex("\n", 0, -1)] + "\nH 1 2 x 4 5 6\n")
    (tmp_path / "in" / "c00003.extxyz").write_text(extxyz(4, frames=5))
    run([tmp_path / "in"], tmp_path / "whole.mrec.lmdb")
    left = 0

    def counted(method):
        def replaced(self, *arguments):
            nonlocal left
            left -= 1
            if left == 0:
                raise Stop
            result = method(self, *arguments)
            if isinstance(self, Output):
                self.commit_when_due()
            return result

        return replaced

    monkeypatch.setattr(Output, "take", counted(Output.take))
    for name in ("append", "cut", "begin_file", "_complete_part"):
        monkeypatch.setattr(SeveralFiles, name, counted(getattr(SeveralFiles, name)))
    stops = 0
    for number in range(1, 200, 4):
        left = number
        target = tmp_path / f"t{number}.mrec.lmdb"
        try:
            run([tmp_path / "in"], target, commit_seconds=0.0, shard_records=2)
        except Stop:
            stops += 1
            left = 0
            assert not target.exists()
            run([tmp_path / "in"], target, commit_seconds=0.0, shard_records=2)
        else:
            break
        if number % 20 == 1:
            same_records(tmp_path / "whole.mrec.lmdb", target, 2)
    assert 8 < stops < 50


@pytest.mark.parametrize("place", ["before", "after"])
def test_ended_at_the_name_of_a_set_that_replaces_another(tmp_path, monkeypatch, place):
    """The new set has the name and the old one is still there, or nothing has happened yet."""
    from molrec_convert.files import disk
    from molrec_convert.files.disk import hidden, swap

    make_files(tmp_path / "old", 4)
    make_files(tmp_path / "new", 7, first=100)
    run([tmp_path / "new"], tmp_path / "whole.mrec.lmdb")
    target = tmp_path / "a.mrec.lmdb"
    run([tmp_path / "old"], target, shard_records=3)

    def dying(made, goal) -> None:
        if place == "after":
            os.rename(made, hidden(goal, "new"))
            swap(hidden(goal, "new"), goal)
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(disk, "take_place", dying)
        with pytest.raises(Stop):
            run([tmp_path / "new"], target, shard_records=3, overwrite=True)
    outcome = run([tmp_path / "new"], target, shard_records=3, overwrite=place == "before")
    assert outcome.records == 7
    same_records(tmp_path / "whole.mrec.lmdb", target, 3)


def test_what_is_new_is_added_to_a_set(tmp_path):
    inputs = sorted(make_inputs(tmp_path / "in").iterdir())
    for name, shards in (("one", {}), ("set", {"shard_records": 6})):
        run(inputs[:9], tmp_path / f"{name}.mrec.lmdb", **shards)
        outcome = run(inputs, tmp_path / f"{name}.mrec.lmdb")
        assert outcome.known == 8
    same_records(tmp_path / "one.mrec.lmdb", tmp_path / "set.mrec.lmdb", 6)
    run(inputs, tmp_path / "set.mrec.lmdb")
    same_records(tmp_path / "one.mrec.lmdb", tmp_path / "set.mrec.lmdb", 6)


def test_a_file_is_not_made_a_set_in_silence(tmp_path):
    inputs = sorted(make_files(tmp_path / "in", 6).iterdir())
    run(inputs[:3], tmp_path / "a.mrec.lmdb")
    with pytest.raises(UsageError, match="is one file: leave off --shard-records"):
        run(inputs, tmp_path / "a.mrec.lmdb", shard_records=2)
    run(inputs, tmp_path / "b.mrec.lmdb", shard_records=2)
    with pytest.raises(UsageError, match="is a set of files: say --shard-records"):
        run(inputs, tmp_path / "b.mrec.lmdb", overwrite=True)
    run(inputs, tmp_path / "a.mrec.lmdb", shard_records=2, overwrite=True)
    run(inputs, tmp_path / "whole.mrec.lmdb")
    same_records(tmp_path / "whole.mrec.lmdb", tmp_path / "a.mrec.lmdb", 2)
    (tmp_path / "c.mrec.lmdb").mkdir()
    (tmp_path / "c.mrec.lmdb" / "diary").write_text("mine\n")
    with pytest.raises(UsageError, match="is not replaced"):
        run(inputs, tmp_path / "c.mrec.lmdb", shard_records=2, overwrite=True)
    assert (tmp_path / "c.mrec.lmdb" / "diary").exists()


def test_what_cannot_be_begun_leaves_nothing(tmp_path):
    """A set that is damaged is not added to; an input at fault in the first pass stops it, where that is asked for."""
    make_files(tmp_path / "in", 6)
    target = tmp_path / "a.mrec.lmdb"
    run([tmp_path / "in"], target, shard_records=3)
    (target / "part-00000.mrec.lmdb").write_bytes(b"")
    make_files(tmp_path / "in", 2, first=6)
    with pytest.raises(FormatError, match="by the manifest of its set"):
        run([tmp_path / "in"], target)
    (tmp_path / "in" / "bad.extxyz").write_text("3\nbroken\n")
    with pytest.raises(MigrationStopped):
        run([tmp_path / "in"], tmp_path / "b.mrec.lmdb", on_error="stop")
    assert sorted(os.listdir(tmp_path)) == ["a.migration.jsonl", "a.mrec.lmdb", "in"]


def test_commands_take_a_set(tmp_path, capsys):
    make_files(tmp_path / "in", 12)
    target = tmp_path / "set.mrec.lmdb"
    arguments = ["migrate", tmp_path / "in", "-o", target, "--units", "metal", "--shard-records", 5, "--workers", 1]
    assert mrec(list(map(str, arguments))) == 0
    assert f"{target}: 12 records" in capsys.readouterr().err
    run([tmp_path / "in"], tmp_path / "one.mrec.lmdb")
    for command in (
        ["info", target],
        ["validate", target],
        ["stats", target],
        ["verify", target, "--against", tmp_path / "in", "--sample", "all"],
        ["select", target, "n_atoms < 6", "-o", tmp_path / "few.mrec.lmdb"],
        ["split", target, "--fractions", "train=0.5,test=0.5"],
        ["merge", target, "-o", tmp_path / "merged.mrec.lmdb"],
        ["tree", target],
    ):
        assert mrec(list(map(str, command))) == 0, (command, capsys.readouterr().err)
    assert same_collection(tmp_path / "one.mrec.lmdb", tmp_path / "merged.mrec.lmdb")
    with molrec_convert.open(target) as collection:
        few = int((collection.index["n_atoms"] < 6).sum())
    with molrec_convert.open(tmp_path / "few.mrec.lmdb") as chosen:
        assert len(chosen) == few > 0


def test_dask_makes_the_same_set(tmp_path):
    pytest.importorskip("distributed")
    from dask_cluster import Cluster

    from molrec_convert.migration import migrate
    from molrec_convert.migration.engines.dask import DaskEngine

    make_inputs(tmp_path / "in")
    run([tmp_path / "in"], tmp_path / "one.mrec.lmdb")
    with Cluster(tmp_path / "cluster", 1) as cluster:
        settings = Settings(units=METAL, shard_records=10)
        migrate([str(tmp_path / "in")], tmp_path / "set.mrec.lmdb", settings, engine=DaskEngine(cluster.address))
    same_records(tmp_path / "one.mrec.lmdb", tmp_path / "set.mrec.lmdb", 10)
