"""Many inputs into one collection: order, keys, values, failures, duplicates, inputs that are known already."""

import json
import os

import numpy as np
import pytest
from collection_stores import key, put
from migration_inputs import extxyz, make_files, run, same_collection

import molrec_convert
from molrec_convert.errors import UsageError
from molrec_convert.migration import MigrationStopped
from molrec_convert.migration.engines.engine import LocalEngine


def test_values_are_those_of_the_files(tmp_path):
    files = make_files(tmp_path / "in", 12)
    outcome = run([files], tmp_path / "a.mrec.lmdb")
    assert (outcome.records, outcome.frames, outcome.failures) == (12, 12, 0)
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        assert collection.units["energy"] == "eV"
        for number, path in enumerate(sorted(files.iterdir())):
            alone = molrec_convert.read(path, as_="collection")[0]
            stored = collection[number]
            assert stored.trajectory[0] == alone.trajectory[0]
            assert stored.system["atoms"] == alone.system["atoms"]
            assert collection.index["source"][number] == str(path)
            assert collection.index["energy"][number] == alone.trajectory[0].meta["pe"]
    assert sorted(os.listdir(tmp_path)) == ["a.migration.jsonl", "a.mrec.lmdb", "in"]


def test_index_has_formula_and_counts(tmp_path):
    (tmp_path / "w.extxyz").write_text(
        "3\nProperties=species:S:1:pos:R:3 energy=-1.5 kind=water\nH 0 0 0\nO 0 0 1\nH 0 0 2\n"
    )
    (tmp_path / "m.extxyz").write_text(
        "5\nProperties=species:S:1:pos:R:3 energy=-2 kind=gas\nH 0 0 0\nC 0 0 1\nH 0 0 2\nH 1 0 0\nH 0 0 3\n"
    )
    run([tmp_path / "w.extxyz", tmp_path / "m.extxyz"], tmp_path / "a.mrec.lmdb", index=("kind",), group_by="formula")
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        index = collection.index
        assert index["formula"].tolist() == ["H2O", "CH4"]
        assert [index[f"n_{e}"].tolist() for e in "CHO"] == [[0, 1], [2, 4], [1, 0]]
        assert index["kind"].tolist() == ["water", "gas"]
        assert index["molecule_id"].tolist() == ["H2O", "CH4"]
        assert index["n_atoms"].tolist() == [3, 5]
        assert len(collection.select("n_C > 0 and energy < -1.9")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("dedupe", [False, True])
def test_any_number_of_workers_gives_the_same_file(tmp_path, dedupe):
    make_files(tmp_path / "in", 40)
    (tmp_path / "in" / "c00007.extxyz").write_text("3\nbroken\n")
    (tmp_path / "in" / "c00021.extxyz").write_text(extxyz(20))
    (tmp_path / "in" / "many.extxyz").write_text(extxyz(99, frames=30))
    one = run([tmp_path / "in"], tmp_path / "one.mrec.lmdb", dedupe=dedupe)
    three = run([tmp_path / "in"], tmp_path / "three.mrec.lmdb", workers=3, dedupe=dedupe)
    assert (one.records, one.failures, one.duplicates) == (three.records, three.failures, three.duplicates)
    assert one.records == 69 - dedupe
    assert one.duplicates == dedupe
    assert same_collection(tmp_path / "one.mrec.lmdb", tmp_path / "three.mrec.lmdb")


def test_inputs_read_together_are_as_read_alone(tmp_path, monkeypatch):
    import molrec_convert.migration.inputs.sources as sources

    make_files(tmp_path / "in", 25, config_type="bulk", virial='"1 2 3 4 5 6 7 8 9"')
    run([tmp_path / "in"], tmp_path / "together.mrec.lmdb")
    monkeypatch.setattr(sources.Sources, "open_together", lambda self, paths, chosen: None)
    run([tmp_path / "in"], tmp_path / "alone.mrec.lmdb")
    assert same_collection(tmp_path / "together.mrec.lmdb", tmp_path / "alone.mrec.lmdb")


def test_a_file_at_fault_is_noted_and_the_rest_goes_on(tmp_path):
    make_files(tmp_path / "in", 9)
    bad = tmp_path / "in" / "c00004.extxyz"
    bad.write_text(bad.read_text().replace("\n", "\n1.5 x\n", 3))
    outcome = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb")
    assert (outcome.records, outcome.failures) == (8, 1)
    (failure,) = map(json.loads, (tmp_path / "a.failures.jsonl").read_text().splitlines())
    assert failure["path"] == str(bad)
    assert failure["type"] == "FormatError"
    assert str(bad) in failure["error"]
    clean = make_files(tmp_path / "clean", 9)
    (clean / "c00004.extxyz").unlink()
    run([clean], tmp_path / "b.mrec.lmdb")
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as a, molrec_convert.open(tmp_path / "b.mrec.lmdb") as b:
        assert [record.trajectory[0] for record in a] == [record.trajectory[0] for record in b]


def test_a_row_at_fault_takes_back_what_came_of_its_file(tmp_path):
    make_files(tmp_path / "in", 3)
    bad = tmp_path / "in" / "c00001.extxyz"
    text = extxyz(5, frames=40, atoms=4)
    bad.write_text(text[: text.rindex("\n", 0, -1)] + "\nH 1 2 x 4 5 6\n")
    outcome = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", commit_seconds=0.0)
    assert (outcome.records, outcome.frames, outcome.failures) == (2, 2, 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_row_of_a_database_at_fault_is_passed_over(tmp_path, workers):
    make_files(tmp_path / "in", 9)
    run([tmp_path / "in"], tmp_path / "source.mrec.lmdb")
    for number in (0, 5):
        put(tmp_path / "source.mrec.lmdb", key("f", number), b"MRF1....")
    outcome = run([tmp_path / "source.mrec.lmdb"], tmp_path / "a.mrec.lmdb", workers=workers, commit_seconds=0.0)
    assert (outcome.records, outcome.frames, outcome.failures) == (7, 7, 2)
    failures = [json.loads(line) for line in (tmp_path / "a.failures.jsonl").read_text().splitlines()]
    assert [failure["record"] for failure in failures] == [0, 5]
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        assert collection.index["source_record"].tolist() == [1, 2, 3, 4, 6, 7, 8]
    with pytest.raises(MigrationStopped, match=r"source\.mrec\.lmdb"):
        run([tmp_path / "source.mrec.lmdb"], tmp_path / "b.mrec.lmdb", on_error="stop")


def test_stop_stops_and_goes_on(tmp_path):
    make_files(tmp_path / "in", 6)
    bad = tmp_path / "in" / "c00003.extxyz"
    good = bad.read_text()
    bad.write_text("3\nbroken\n")
    with pytest.raises(MigrationStopped, match="c00003"):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", on_error="stop")
    assert not (tmp_path / "a.mrec.lmdb").exists()
    bad.write_text(good)
    assert run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", on_error="stop").records == 6


def test_a_mended_input_is_taken_when_it_goes_on(tmp_path):
    make_files(tmp_path / "in", 6)
    bad = tmp_path / "in" / "c00003.extxyz"
    good = bad.read_text()
    bad.write_text(good[: good.rindex("\n", 0, -1)] + "\nH 1 2 x 4 5 6\n")
    with pytest.raises(MigrationStopped, match="c00003"):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", on_error="stop")
    bad.write_text(good)
    done = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", on_error="stop")
    assert (done.records, done.resumed) == (6, True)
    run([tmp_path / "in"], tmp_path / "b.mrec.lmdb")
    assert same_collection(tmp_path / "a.mrec.lmdb", tmp_path / "b.mrec.lmdb")


def test_nothing_to_keep_is_an_error(tmp_path):
    (tmp_path / "a.extxyz").write_text("3\nbroken\n")
    with pytest.raises(MigrationStopped, match=r"the only input gave no record; the first: .*a\.extxyz"):
        run([tmp_path / "a.extxyz"], tmp_path / "a.mrec.lmdb")
    assert not (tmp_path / "a.mrec.lmdb").exists()


def test_known_inputs_are_passed_over_and_new_ones_added(tmp_path):
    make_files(tmp_path / "in", 5)
    run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", index=("kind",))
    again = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", index=("kind",))
    assert (again.known, again.inputs, again.records) == (5, 0, 5)
    make_files(tmp_path / "in", 4, first=5)
    os.utime(tmp_path / "in" / "c00000.extxyz", (1, 1))
    more = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", index=("kind",))
    assert (more.known, more.inputs, more.records) == (5, 4, 9)
    run([tmp_path / "in"], tmp_path / "b.mrec.lmdb", index=("kind",))
    assert same_collection(tmp_path / "a.mrec.lmdb", tmp_path / "b.mrec.lmdb")
    (tmp_path / "in" / "c00002.extxyz").write_text(extxyz(77))
    with pytest.raises(UsageError, match=r"c00002\.extxyz is another than when it was migrated"):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", index=("kind",))


def test_another_command_does_not_go_on_with_what_was_begun(tmp_path):
    make_files(tmp_path / "in", 4)
    (tmp_path / "in" / "d.extxyz").write_text("3\nbroken\n")
    with pytest.raises(MigrationStopped):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", on_error="stop", declaration=str(_declaration(tmp_path)))
    with pytest.raises(UsageError, match=r"begun with other dedupe than now.*--overwrite"):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", dedupe=True, declaration=str(_declaration(tmp_path)))
    done = run(
        [tmp_path / "in"],
        tmp_path / "a.mrec.lmdb",
        dedupe=True,
        declaration=str(_declaration(tmp_path)),
        overwrite=True,
    )
    assert (done.records, done.failures) == (4, 1)


def _declaration(folder):
    columns = {key: {"dtype": "f64", "trailing": []} for key in ("x", "y", "z", "fx", "fy", "fz")}
    schema = {"blocks": {"atoms": {"columns": columns}}, "meta": {"pe": {"dtype": "f64"}}}
    path = folder / "declaration.json"
    path.write_text(json.dumps({"sequence_schema": schema, "units": {"length": "angstrom", "energy": "eV"}}))
    return path


def test_a_foreign_file_is_not_replaced(tmp_path):
    make_files(tmp_path / "in", 2)
    (tmp_path / "a.mrec.lmdb").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb")
    assert (tmp_path / "a.mrec.lmdb").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["a.mrec.lmdb", "in"]


def test_splits(tmp_path):
    (tmp_path / "a.extxyz").write_text(extxyz(1, frames=4, atoms=3))
    frames = run([tmp_path / "a.extxyz"], tmp_path / "frames.mrec.lmdb", split="frames")
    files = run([tmp_path / "a.extxyz"], tmp_path / "files.mrec.lmdb", split="files")
    assert (frames.records, frames.frames) == (4, 4)
    assert (files.records, files.frames) == (1, 4)
    rows = run([tmp_path / "frames.mrec.lmdb"], tmp_path / "rows.mrec.lmdb", split="rows")
    assert rows.records == 4
    with molrec_convert.open(tmp_path / "files.mrec.lmdb") as a, molrec_convert.open(tmp_path / "rows.mrec.lmdb") as b:
        for number in range(4):
            np.testing.assert_array_equal(a[0].trajectory[number]["atoms"]["x"], b[number].trajectory[0]["atoms"]["x"])


def test_formats_beside_each_other(tmp_path):
    dump = "".join(
        f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n2\nITEM: BOX BOUNDS pp pp pp\n0 5\n0 5\n0 5\n"
        f"ITEM: ATOMS id type x y z\n1 1 0.5 1 {step}\n2 2 1.5 2 3\n"
        for step in (0, 10)
    )
    (tmp_path / "a.lammpstrj").write_text(dump)
    (tmp_path / "b.xyz").write_text("1\nProperties=species:S:1:pos:R:3\nH 1.0 2.0 3.0\n")
    outcome = run([tmp_path / "a.lammpstrj", tmp_path / "b.xyz"], tmp_path / "c.mrec.lmdb", split="frames")
    assert (outcome.records, outcome.frames, outcome.failures) == (3, 3, 0)
    with molrec_convert.open(tmp_path / "c.mrec.lmdb") as collection:
        assert collection[1].trajectory[0]["atoms"]["z"].tolist() == [10.0, 3.0]
        assert collection.index["source_record"].tolist() == [0, 1, 0]


def test_names_that_are_no_utf8(tmp_path):
    folder = make_files(tmp_path / "in", 2)
    os.rename(os.fsencode(folder / "c00001.extxyz"), os.fsencode(folder) + b"/c\xff.extxyz")
    outcome = run([folder], tmp_path / "a.mrec.lmdb")
    assert (outcome.records, outcome.failures, outcome.report.warnings) == (2, 0, [])
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        assert collection.index["source"][1] == f"{folder}/c\\xff.extxyz"
    assert run([folder], tmp_path / "a.mrec.lmdb").known == 2


@pytest.mark.parametrize("large", [False, True])
def test_an_input_that_changes_meanwhile_is_at_fault(tmp_path, large):
    """What is written while it is read belongs to no one moment; the same command takes it up again."""
    make_files(tmp_path / "in", 5)
    growing = tmp_path / "in" / "c00002.extxyz"
    if large:
        growing.write_text(extxyz(2, frames=40) + " " * 2**21)

    class Writing(LocalEngine):
        def encode(self, *arguments):
            with growing.open("a") as file:
                file.write(extxyz(9))
            return super().encode(*arguments)

    outcome = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", engine=Writing(1))
    assert (outcome.records, outcome.failures) == (4, 1)
    (failure,) = map(json.loads, (tmp_path / "a.failures.jsonl").read_text().splitlines())
    assert "c00002.extxyz: found a file that was changed while it was migrated" in failure["error"]
    again = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb")
    assert (again.records, again.failures) == (4 + (41 if large else 2), 0)
