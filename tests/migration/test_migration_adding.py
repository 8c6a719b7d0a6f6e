"""What is added to a collection that is complete: made as what is there, or refused; verify agrees with all of it."""

from __future__ import annotations

import pytest
from migration_inputs import extxyz, make_files, run, same_collection

import molrec_convert
from molrec_convert.cli import run as mrec
from molrec_convert.errors import UsageError
from molrec_convert.migration.verify import verify_collection


@pytest.fixture
def begun(tmp_path):
    """A collection with keys in its index, to which files of a directory may be added."""
    make_files(tmp_path / "in", 3, config="bulk")
    run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", index=("config",), group_by="formula")
    make_files(tmp_path / "in", 3, first=3, config="surface")
    return tmp_path


def is_verified(folder):
    with molrec_convert.open(folder / "a.mrec.lmdb") as collection:
        return verify_collection(collection, [str(folder / "in")]).is_equal


def test_what_is_not_asked_for_again_is_as_it_was(begun):
    more = run([begun / "in"], begun / "a.mrec.lmdb")
    assert (more.known, more.records) == (3, 6)
    with molrec_convert.open(begun / "a.mrec.lmdb") as collection:
        assert collection.index["config"].tolist() == ["bulk"] * 3 + ["surface"] * 3
        assert all(collection.index["molecule_id"] == collection.index["formula"])
    assert is_verified(begun)


def test_fills_and_names_may_come_with_what_is_new(begun):
    (begun / "in" / "d.extxyz").write_text(extxyz(9, energy=None, config="x", note=1.5))
    fills = {"pe": "-1.5"}
    run([begun / "in"], begun / "a.mrec.lmdb", fill=fills, drop=("note",))
    assert is_verified(begun)
    (begun / "in" / "e.extxyz").write_text(extxyz(10, energy=None, conf="y"))
    run([begun / "in"], begun / "a.mrec.lmdb", rename={"conf": "config"})
    assert is_verified(begun)
    with molrec_convert.open(begun / "a.mrec.lmdb") as collection:
        said = collection.document["migration"]
        assert (said["fill"], said["rename"], said["drop"]) == (fills, {"conf": "config"}, ["note"])
    run(
        [begun / "in"],
        begun / "b.mrec.lmdb",
        index=("config",),
        group_by="formula",
        fill=fills,
        drop=("note",),
        rename={"conf": "config"},
    )
    assert same_collection(begun / "a.mrec.lmdb", begun / "b.mrec.lmdb")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"index": ("other",)}, "--index: .* made with 'config', not with 'other': leave that off, or .* --overwrite"),
        ({"group_by": "config"}, "--group-by: .* made with 'formula', not with 'config'"),
        ({"split": "frames"}, "--split: .* made without, not with 'frames'"),
        ({"drop": ("fx",)}, "--drop fx: the records of .* have that, leave off --drop fx"),
        ({"drop": ("atoms/fx",)}, "--drop atoms/fx: the records of .* have that"),
        ({"rename": {"pe": "energy"}}, "--rename pe: the records of .* have that"),
    ],
)
def test_what_would_change_the_records_there_are_is_refused(begun, asked, told):
    before = (begun / "a.mrec.lmdb").read_bytes()
    with pytest.raises(UsageError, match=told):
        run([begun / "in"], begun / "a.mrec.lmdb", **asked)
    with pytest.raises(UsageError, match=told):
        run([begun / "in"], begun / "a.mrec.lmdb", dry_run=True, **asked)
    assert (begun / "a.mrec.lmdb").read_bytes() == before
    assert sorted(path.name for path in begun.iterdir()) == ["a.migration.jsonl", "a.mrec.lmdb", "in"]


def test_a_fill_stays_what_it_was(tmp_path):
    make_files(tmp_path / "in", 2)
    make_files(tmp_path / "in", 2, first=2, energy=None)
    run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", fill={"pe": "NaN"})
    with pytest.raises(UsageError, match=r"--fill pe: .* made with 'NaN', not with '0'"):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", fill={"pe": "0"})


@pytest.mark.parametrize("first", [True, False])
def test_duplicates_of_records_there_are_stay_out(tmp_path, first):
    make_files(tmp_path / "in", 3)
    run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", dedupe=first)
    (tmp_path / "in" / "d.extxyz").write_text((tmp_path / "in" / "c00001.extxyz").read_text())
    (tmp_path / "in" / "e.extxyz").write_text(extxyz(9))
    more = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", dedupe=True)
    assert (more.duplicates, more.records) == (1, 4)
    assert is_verified(tmp_path)


def test_options_of_formats_are_known_to_verify(tmp_path):
    frame = "2\nProperties=species:S:1:pos:R:3 energy=-1.0 dft=-2.0 config=b\nH 0 0 0\nH 0 0 1\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.extxyz").write_text(frame)
    run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", options={"energy_key": "dft"})
    assert is_verified(tmp_path)
    (tmp_path / "in" / "b.extxyz").write_text(frame.replace("-2.0", "-3.0"))
    with pytest.raises(UsageError, match=r"the option energy_key: .* made with 'dft', not with 'energy'"):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", options={"energy_key": "energy"})
    run([tmp_path / "in"], tmp_path / "a.mrec.lmdb")
    assert is_verified(tmp_path)
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        assert collection.index["energy"].tolist() == [-2.0, -3.0]


def test_options_with_several_values_are_known_to_verify(tmp_path):
    data = "t\n\n1 atoms\n2 atom types\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\nAtoms # atomic\n\n1 2 1 1 1\n"
    (tmp_path / "in").mkdir()
    for name in "ab":
        (tmp_path / "in" / f"{name}.data").write_text(data)
    run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", options={"elements": ("C", "H")}, group_by="formula")
    assert is_verified(tmp_path)


def test_a_dry_run_holds_what_is_new_against_the_collection(begun):
    (begun / "in" / "d.extxyz").write_text(extxyz(9, energy=None, config="x"))
    outcome = run([begun / "in"], begun / "a.mrec.lmdb", dry_run=True)
    assert (outcome.known, outcome.inputs) == (3, 4)
    (told,) = [note for note in outcome.plan.notes if "d.extxyz" in note]
    assert "trajectory/meta/pe: the per-step key of the collection is missing here" in told
    again = run([begun / "in"], begun / "a.mrec.lmdb", dry_run=True, overwrite=True)
    assert (again.known, again.inputs) == (0, 7)
    assert "pe is missing in 1 of 7 inputs" in again.plan.notes


def test_no_value_is_no_fill_of_what_has_one_in_every_record(begun):
    (begun / "in" / "d.extxyz").write_text(extxyz(9, energy=None, config="x"))
    outcome = run([begun / "in"], begun / "a.mrec.lmdb", fill={"pe": "NaN"})
    assert (outcome.records, outcome.failures) == (6, 1)
    told = (begun / "a.failures.jsonl").read_text()
    assert "--fill pe=NaN is no value" in told
    assert "--overwrite" in told
    run([begun / "in"], begun / "a.mrec.lmdb", fill={"pe": "NaN"}, overwrite=True)
    with molrec_convert.open(begun / "a.mrec.lmdb") as collection:
        assert len(collection) == 7
        assert collection.declaration.meta["pe"].has_missing
        assert ["pe" in record.trajectory[0].meta for record in collection] == [True] * 6 + [False]


def test_keys_no_record_has_are_told(tmp_path, capsys):
    make_files(tmp_path / "in", 2, config="bulk")
    target = tmp_path / "a.mrec.lmdb"
    command = ["migrate", str(tmp_path / "in"), "-o", str(target), "--units", "metal", "--workers", "1"]
    assert mrec([*command, "--index", "confg", "--index", "config", "--drop", "config"]) == 0
    told = capsys.readouterr().err
    assert "--index confg: no record has that key" in told
    assert "--index config: no record has that key, as --drop leaves it out" in told
