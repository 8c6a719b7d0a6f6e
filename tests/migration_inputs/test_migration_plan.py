"""The plan: what the inputs are, what they do not agree on, and the options that settle each."""

import json

import pytest
from migration_inputs import METAL, extxyz, make_files, run

import molrec_convert
from molrec_convert.errors import MissingInputError, UsageError
from molrec_convert.migration.inputs.inputs import expand_inputs
from molrec_convert.migration.settings import parse_units


def names(table, folder):
    return [path.removeprefix(f"{folder}/") for path in table.paths]


def test_inputs_by_glob_directory_and_list(tmp_path):
    for name in ("b/2.xyz", "a/1.xyz", "a/.hidden.xyz", "3.xyz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1\n\nH 0 0 0\n")
    out = tmp_path / "o.mrec.lmdb"
    assert names(expand_inputs([tmp_path], out), tmp_path) == ["3.xyz", "a/1.xyz", "b/2.xyz"]
    assert names(expand_inputs([f"{tmp_path}/**/*.xyz"], out), tmp_path) == ["3.xyz", "a/1.xyz", "b/2.xyz"]
    assert names(expand_inputs([f"{tmp_path}/b/*", f"{tmp_path}/*/"], out), tmp_path) == ["b/2.xyz", "a/1.xyz"]
    (tmp_path / "list").write_text(f"{tmp_path}/3.xyz\n\n{tmp_path}/a/1.xyz\n")
    assert names(expand_inputs([f"@{tmp_path}/list"], out), tmp_path) == ["3.xyz", "a/1.xyz"]
    with pytest.raises(UsageError, match="no file fits"):
        expand_inputs([f"{tmp_path}/*.dump"], out)
    with pytest.raises(MissingInputError):
        expand_inputs([f"{tmp_path}/none.xyz"], out)


def test_the_output_is_no_input(tmp_path):
    make_files(tmp_path, 3)
    run([tmp_path], tmp_path / "a.mrec.lmdb")
    again = run([tmp_path], tmp_path / "a.mrec.lmdb")
    assert again.known == 3


def test_a_dry_run_writes_nothing_and_knows_all(tmp_path):
    make_files(tmp_path / "in", 5)
    (tmp_path / "in" / "notes.txt").write_text("lab book\n")
    (tmp_path / "in" / "bad.extxyz").write_text("3\nProperties=species:S:1:pos:R:3\n")
    outcome = run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", dry_run=True)
    plan = outcome.plan
    assert plan.format_counts()["extxyz"] == (6, 5)
    assert [path.rpartition("/")[2] for path in plan.aside] == ["notes.txt"]
    assert len(plan.failures) == 1
    assert plan.n_records == 5
    assert list(plan.declaration.meta) == ["pe"]
    assert not list(tmp_path.glob("*a.*"))


def test_units_are_asked_for_with_the_files_that_state_none(tmp_path):
    make_files(tmp_path / "in", 3)
    with pytest.raises(UsageError, match=r"units: 3 inputs \(.*c00000\.extxyz, …\) state none; settle it with --units"):
        run([tmp_path / "in"], tmp_path / "a.mrec.lmdb", units=None)
    assert list(tmp_path.iterdir()) == [tmp_path / "in"]


def test_all_conflicts_are_told_at_once(tmp_path):
    (tmp_path / "a.extxyz").write_text(extxyz(1))
    (tmp_path / "b.extxyz").write_text(extxyz(2, energy=None, kind="3"))
    (tmp_path / "c.extxyz").write_text(extxyz(3, kind='"a b"', only="a").replace("forces:R:3", "force2:R:3"))
    with pytest.raises(UsageError) as caught:
        run([tmp_path / n for n in ("a.extxyz", "b.extxyz", "c.extxyz")], tmp_path / "o.mrec.lmdb", units=None)
    text = str(caught.value)
    for part in (
        "--units",
        "kind: i64 in",
        "--drop kind",
        "only: missing in",
        "--fill only=",
    ):
        assert part in text


def test_options_settle_conflicts(tmp_path):
    (tmp_path / "a.extxyz").write_text(extxyz(1))
    (tmp_path / "b.extxyz").write_text(extxyz(2, energy=None, kind="3"))
    (tmp_path / "c.extxyz").write_text(extxyz(3, energy=None, free="-1.5").replace("forces:R:3", "force2:R:3"))
    files = [tmp_path / name for name in ("a.extxyz", "b.extxyz", "c.extxyz")]
    outcome = run(
        files,
        tmp_path / "o.mrec.lmdb",
        fill={"pe": "NaN", "atoms/fx": "0", "fy": "0", "fz": "0"},
        rename={"free": "pe"},
        drop=("kind", "force2"),
    )
    assert outcome.records == 3
    with molrec_convert.open(tmp_path / "o.mrec.lmdb") as collection:
        assert list(collection.declaration.meta) == ["pe"]
        assert list(collection.declaration.blocks["atoms"].columns) == ["x", "y", "z", "fx", "fy", "fz"]
        assert "pe" not in collection[1].trajectory[0].meta
        assert collection[2].trajectory[0].meta["pe"] == -1.5
        assert not collection[2].trajectory[0]["atoms"]["fx"].any()
        assert collection[1].trajectory[0]["atoms"]["fx"].any()


def test_a_fill_stands_for_every_element_of_a_vector_and_for_a_text(tmp_path):
    heads = ('stress="1 2 3 4 5 6 7 8 9.5" dipole="1 2 3.5" tag="a"', "")
    for name, head in zip(("a", "b"), heads, strict=True):
        (tmp_path / f"{name}.xyz").write_text(f"1\nProperties=species:S:1:pos:R:3 {head}\nH 0 0 0\n")
    with pytest.raises(UsageError, match="tag: missing in"):
        run([tmp_path / "a.xyz", tmp_path / "b.xyz"], tmp_path / "o.mrec.lmdb")
    fill = {"stress": "NaN", "dipole": "[0, 0.5, 1]", "tag": "7"}
    assert run([tmp_path / "a.xyz", tmp_path / "b.xyz"], tmp_path / "o.mrec.lmdb", fill=fill).records == 2
    with molrec_convert.open(tmp_path / "o.mrec.lmdb") as collection:
        first, second = (record.trajectory[0].meta for record in collection)
        assert first["stress"][8] == 9.5
        assert "stress" not in second
        assert list(second["dipole"]) == [0.0, 0.5, 1.0]
        assert (first["tag"], second["tag"]) == ("a", "7")


def data_file(units: str, x: float) -> str:
    return (
        f"LAMMPS data file via write_data, version 2 Aug 2023, timestep = 0, units = {units}\n\n"
        "1 atoms\n1 atom types\n\n0 10 xlo xhi\n0 10 ylo yhi\n0 10 zlo zhi\n\n"
        f"Masses\n\n1 1.008\n\nAtoms # atomic\n\n1 1 {x} 2.0 3.0\n\nVelocities\n\n1 1.0 0.0 0.5\n"
    )


def test_numbers_are_converted_by_name(tmp_path):
    (tmp_path / "a.data").write_text(data_file("metal", 1.0))
    (tmp_path / "b.data").write_text(data_file("nano", 0.25))
    files = [tmp_path / "a.data", tmp_path / "b.data"]
    with pytest.raises(UsageError, match=r"units: .*a\.data in .*angstrom.*b\.data in .*nm.*--units"):
        run(files, tmp_path / "o.mrec.lmdb", units=None)
    outcome = run(files, tmp_path / "o.mrec.lmdb")
    assert any("state other units: converted" in note for note in outcome.plan.notes)
    with molrec_convert.open(tmp_path / "o.mrec.lmdb") as collection:
        assert collection.units["length"] == "angstrom"
        first, second = (record.trajectory[0] for record in collection)
        assert (first["atoms"]["x"][0], second["atoms"]["x"][0]) == (1.0, 2.5)
        assert (first["atoms"]["vx"][0], second["atoms"]["vx"][0]) == (1.0, pytest.approx(0.01))
        assert second.box.vectors[0, 0] == 100.0 if second.box is not None else True
        masses = [record.system["atoms"]["mass"][0] for record in collection]
        assert masses[1] == pytest.approx(1.008 / 1.66053906660e-6)


def test_units_by_name():
    assert parse_units("metal") == METAL
    assert parse_units("metal,energy=kcal/mol")["energy"] == "kcal/mol"
    assert parse_units("length=nm, energy=kJ/mol") == {"length": "nm", "energy": "kJ/mol"}
    for text in ("metals", "length=parsecks", ""):
        with pytest.raises(UsageError, match="--units"):
            parse_units(text)


def test_a_declaration_from_a_file_casts_what_is_exact(tmp_path):
    (tmp_path / "a.extxyz").write_text(extxyz(1, level="3"))
    (tmp_path / "b.extxyz").write_text(extxyz(2, level="2.5"))
    files = [tmp_path / "a.extxyz", tmp_path / "b.extxyz"]
    with pytest.raises(UsageError, match=r"level: i64 in .*a\.extxyz, f64 in .*b\.extxyz.*--declaration"):
        run(files, tmp_path / "o.mrec.lmdb")
    plan = run([files[1]], tmp_path / "o.mrec.lmdb", dry_run=True).plan
    (tmp_path / "d.json").write_text(json.dumps(plan.declaration.to_json()))
    assert run(files, tmp_path / "o.mrec.lmdb", declaration=str(tmp_path / "d.json")).records == 2
    with molrec_convert.open(tmp_path / "o.mrec.lmdb") as collection:
        assert [record.trajectory[0].meta["level"] for record in collection] == [3.0, 2.5]
