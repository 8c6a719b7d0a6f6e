"""`--elements` and `--guess-elements` of a migration, for inputs of every format; its index and `verify` follow."""

from __future__ import annotations

from pathlib import Path

import ase.db
import pytest
from migration_inputs import extxyz, run

import molrec_convert
from molrec_convert.cli import run as mrec
from molrec_convert.errors import UsageError
from molrec_convert.migration import Settings, migrate_records
from molrec_convert.migration.verify import verify_collection

RUN = Path(__file__).parents[2] / "fixtures/water-run"
PSF = """PSF

       1 !NTITLE
 REMARKS two

       3 !NATOM
       1 A    1    HOH  O1   OT    -0.800000       15.9994           0
       2 A    1    HOH  H1   HT     0.400000        1.0080           0
       3 A    1    HOH  H2   HT     0.400000        1.0080           0
"""


@pytest.fixture
def stored(tmp_path):
    """A stored run and a collection of it, which know types and no elements."""
    molrec_convert.convert(RUN, tmp_path / "w.mrec")
    molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "w.mrec.lmdb")
    return [tmp_path / "w.mrec", tmp_path / "w.mrec.lmdb"]


def index_of(path):
    with molrec_convert.open(path) as collection:
        columns = collection.index.columns
        return [columns[name].values.tolist() for name in ("formula", "n_O", "n_H")]


@pytest.mark.parametrize("options", [{"elements": ("O", "H")}, {"guess_elements": True}])
@pytest.mark.parametrize("split", [None, "frames"])
def test_records_and_collections_get_their_elements(stored, tmp_path, options, split):
    target = tmp_path / "a.mrec.lmdb"
    outcome = run(stored, target, workers=2, units=None, options=options, split=split, index=("n_O", "n_H"))
    assert not outcome.failures
    frames = outcome.records
    assert frames > 2 or split is None
    assert index_of(target) == [["H54O27"] * frames, [27] * frames, [54] * frames]
    with molrec_convert.open(target) as collection:
        assert collection.document["migration"]["options"] == {k: list(v) if v is not True else v
                                                               for k, v in options.items()}  # fmt: skip
        assert verify_collection(collection, [str(path) for path in stored]).is_equal
        molrec_convert.convert(target, tmp_path / "a.db")
    assert {row.formula for row in ase.db.connect(tmp_path / "a.db").select()} == {"H54O27"}


def test_what_is_not_asked_for_is_not_there_and_verify_sees_the_difference(stored, tmp_path):
    run(stored[:1], tmp_path / "a.mrec.lmdb", units=None)
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        asked = Settings(options={"elements": ("O", "H")})
        assert collection.index.columns["formula"].values.tolist() == [""]
        assert verify_collection(collection, [str(stored[0])]).is_equal
        assert not verify_collection(collection, [str(stored[0])], settings=asked).is_equal


def test_rules_name_the_elements_of_some_inputs(stored, tmp_path):
    molrec_convert.convert(RUN, tmp_path / "v.mrec")
    rules = tmp_path / "rules.toml"
    rules.write_text('[[input]]\nmatch = "w.mrec"\nelements = ["O", "H"]\n[[input]]\nmatch = "v.mrec"\n'
                     'elements = ["S", "F"]\n')  # fmt: skip
    target = tmp_path / "a.mrec.lmdb"
    inputs = [str(tmp_path / "w.mrec"), str(tmp_path / "v.mrec")]
    assert mrec(["migrate", *inputs, "-o", str(target), "--rules", str(rules), "--workers", "1"]) == 0
    with molrec_convert.open(target) as collection:
        assert collection.index.columns["formula"].values.tolist() == ["H54O27", "F54S27"]
        assert verify_collection(collection, inputs).is_equal
    rules.write_text('[[input]]\nmatch = "w.mrec"\nelements = 3\n')
    assert mrec(["migrate", *inputs, "-o", str(tmp_path / "b.mrec.lmdb"), "--rules", str(rules)]) == 2


def test_what_is_added_has_the_elements_of_what_is_there(stored, tmp_path):
    target = tmp_path / "a.mrec.lmdb"
    first = {"units": None, "index": ("n_O", "n_H"), "options": {"elements": ("O", "H")}}
    run(stored[:1], target, **first)
    with pytest.raises(UsageError, match=r"--elements: .* made with 'O,H', not with 'S,F'"):
        run(stored, target, units=None, options={"elements": ("S", "F")})
    with pytest.raises(UsageError, match="--guess-elements"):
        run(stored, target, units=None, options={"guess_elements": True})
    run(stored, target, units=None)
    assert index_of(target) == [["H54O27"] * 2, [27] * 2, [54] * 2]
    with molrec_convert.open(target) as collection:
        assert verify_collection(collection, [str(path) for path in stored]).is_equal


def test_records_of_their_own_get_their_elements(stored, tmp_path):
    outcome = migrate_records([str(stored[0])], tmp_path / "out", Settings(options={"elements": ("O", "H")}))
    assert not outcome.failures
    with molrec_convert.open(tmp_path / "out/w.mrec") as record:
        assert record.system["atoms"]["element"].tolist() == ["O", "H", "H"] * 27


def test_inputs_without_types_keep_the_elements_they_state(stored, tmp_path, capsys):
    for number in range(3):
        (tmp_path / f"x{number}.extxyz").write_text(extxyz(number, energy=None))
    files = [str(tmp_path / f"x{number}.extxyz") for number in range(3)]
    target = tmp_path / "a.mrec.lmdb"
    command = ["migrate", *files, "-o", str(target), "--workers", "1", "--units", "metal", "--elements", "C,H"]
    assert mrec(command) == 0
    assert "keep the elements they have" in capsys.readouterr().err
    run(files, tmp_path / "b.mrec.lmdb")
    with molrec_convert.open(target) as ours, molrec_convert.open(tmp_path / "b.mrec.lmdb") as theirs:
        assert ours.index.columns["formula"].values.tolist() == theirs.index.columns["formula"].values.tolist()
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.system["atoms"]["element"].tolist() == other.system["atoms"]["element"].tolist()


def test_files_of_other_programs_get_their_elements(tmp_path):
    pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed: pip install molrec-convert[mdanalysis]")
    (tmp_path / "a.psf").write_text(PSF)
    target = tmp_path / "a.mrec.lmdb"
    options = {"elements": ("OT=O", "HT=H")}
    outcome = run([tmp_path / "a.psf"], target, units=None, options=options, index=("n_O", "n_H"))
    assert not outcome.failures
    assert index_of(target) == [["H2O"], [1], [2]]
