"""Real XYZ files: the values independent readers found in them, and the way through a record and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import corpus_index
import numpy as np
import pytest

import molrec_convert
from molrec_convert import Record, Report
from molrec_convert.errors import FormatError
from molrec_convert.inspect.diff.records import differences

ROWS = corpus_index.rows("xyz")
#: Files that say what cannot be: none of their readers agrees with another, or with the format.
FAULTY = {
    "bad_helium.xyz": "found 4 rows before the end of the file, expected 8, as line 1 says",
    "bad_gmso_too_many_atoms.xyz": "found one more row of atoms, 'H   -0.357    0.769    0.653', expected 6 rows",
    "bad_extended-bad-properties.xyz": "line 3: found 'H', expected a number",
}
GOOD = [row for row in ROWS if Path(row["path"]).name not in FAULTY]


def names(row: dict[str, str]) -> str:
    return Path(row["path"]).name


def frames_of(source: Any) -> list[Any]:
    return list(source.trajectory) if isinstance(source, Record) else [record.trajectory[0] for record in source]


@pytest.mark.parametrize("row", GOOD, ids=names)
def test_values(corpus: Path, row: dict[str, str]) -> None:
    frames = frames_of(molrec_convert.read(corpus / row["path"]))
    assert len(frames) == int(row["n_frames"])
    assert frames[0]["atoms"].count == int(row["n_atoms_first"])
    if row["n_atoms_last"]:
        assert frames[-1]["atoms"].count == int(row["n_atoms_last"])
    for column, index, atom in (("first_atom_xyz", 0, 0), ("last_atom_xyz", 0, -1)):
        if row[column]:
            place = [frames[index]["atoms"][axis][atom] for axis in "xyz"]
            np.testing.assert_allclose(place, [float(word) for word in row[column].split()], rtol=1e-6, atol=1e-9)
    vectors = row["cell_vectors"].split()
    if vectors:
        box = frames[0].box
        assert box is not None
        np.testing.assert_allclose(box.vectors.T.reshape(-1), [float(word) for word in vectors], rtol=1e-5, atol=1e-9)
    if not row["cell_lengths_angles"]:
        assert frames[0].box is None


@pytest.mark.parametrize("row", [row for row in ROWS if Path(row["path"]).name in FAULTY], ids=names)
def test_faulty_files_are_refused_in_one_sentence(corpus: Path, tmp_path: Path, row: dict[str, str]) -> None:
    path = corpus / row["path"]
    with pytest.raises(FormatError) as caught:
        molrec_convert.convert(path, tmp_path / "a.mrec")
    assert FAULTY[path.name] in str(caught.value)
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("row", GOOD, ids=names)
def test_through_a_record_and_back(corpus: Path, tmp_path: Path, row: dict[str, str]) -> None:
    first, back, second = tmp_path / "a.mrec", tmp_path / "a.extxyz", tmp_path / "b.mrec"
    molrec_convert.convert(corpus / row["path"], first)
    report = Report()
    molrec_convert.convert(first, back, report=report)
    assert report.losses() == []
    molrec_convert.convert(back, second)
    with molrec_convert.open(first) as one:
        if one.units is not None:  # stated by the program that wrote the file; an extended file has ASE's
            first = tmp_path / "metal.mrec"
            molrec_convert.convert(tmp_path / "a.mrec", first, target_units="metal")
            molrec_convert.convert(back, second, units="metal", overwrite=True)
    with molrec_convert.open(first) as one, molrec_convert.open(second) as other:
        assert list(differences(one, other)) == []


@pytest.mark.parametrize("target", ["extxyz", "xyz"])
@pytest.mark.parametrize("row", GOOD, ids=names)
def test_losses_are_predicted(corpus: Path, tmp_path: Path, row: dict[str, str], target: str) -> None:
    first = tmp_path / "a.mrec"
    molrec_convert.convert(corpus / row["path"], first)
    predicted, found = Report(), Report()
    molrec_convert.convert(first, tmp_path / "a.xyz", to_format=target, dry_run=True, report=predicted)
    assert not (tmp_path / "a.xyz").exists()
    molrec_convert.convert(first, tmp_path / "a.xyz", to_format=target, report=found)
    assert predicted.to_json() == found.to_json()
    if target == "xyz":
        molrec_convert.convert(tmp_path / "a.xyz", tmp_path / "b.mrec")
        with molrec_convert.open(first) as one, molrec_convert.open(tmp_path / "b.mrec") as other:
            for line in differences(one, other):
                node = line.partition(":")[0].partition(",")[0]
                assert node == "trajectory/meta/comment" or any(
                    node.rpartition("/")[2] in item.name for item in found.items if item.fate != "carried"
                ), line
