"""Known troubles with XYZ files, each with the values a correct reader gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from xyz_texts import arrays, meta_of, through

import molrec_convert
from molrec_convert import Record, Report


def case(fixtures: Path, slug: str, name: str, report: Report | None = None, **options: object) -> Record:
    record = molrec_convert.read(fixtures / "cases" / slug / name, report=report, **options)
    assert isinstance(record, Record)
    return record


def cell(record: Record, index: int = 0) -> list[float]:
    assert record.trajectory is not None
    box = record.trajectory[index].box
    assert box is not None
    return box.vectors.diagonal().tolist()


def test_qm9(fixtures: Path) -> None:
    report = Report()
    record = case(fixtures, "41-xyz-qm9-layout", "mol.xyz", report)
    assert record.trajectory is not None
    assert len(record.trajectory) == 1
    found = arrays(record)
    assert found["element"] == ["O", "H", "H"]
    assert found["x"] == [0.01, 0.0, 0.0]
    assert found["y"] == [0.02, 0.7572, -0.7572]
    assert found["z"] == [0.1173, -0.46920, -0.4692]
    assert found["charges"] == [-0.70, 0.35, 0.35]
    assert report.losses() == [
        "dropped: text after the last frame, from line 6 ('1595.1\\t3657.2\\t3756.0': it is no frame)"
    ]


def test_quoting(fixtures: Path) -> None:
    record = case(fixtures, "42-extxyz-quoting", "quotes.extxyz")
    assert cell(record) == [4.0, 5.0, 6.0]
    assert record.trajectory[0].box.boundary.tolist() == [False, False, True]
    assert meta_of(record) == {
        "name": "two words",
        "esc": 'say "hi" = ok',
        "list": [1, 2, 3],
        "old": [4, 5, 6],
        "mat": [[1.5, 2.0], [3.0, 4.5]],
        "flag": True,
        "done": False,
        "e-id": 7,
        "when": "2019-11-02T08:30:00",
        "path": "a/b=c",
    }
    assert arrays(record) == {"element": ["Ar"], "x": [1.0], "y": [1.0], "z": [1.0]}


def test_periodicity_where_it_is_not_stated(fixtures: Path) -> None:
    collection = molrec_convert.read(fixtures / "cases/44-extxyz-pbc-defaults/defaults.extxyz")
    boxes = [record.trajectory[0].box for record in collection]
    assert [None if box is None else box.boundary.tolist() for box in boxes] == [
        [True, True, True],
        None,
        [True, False, True],
        None,
    ]
    assert [None if box is None else box.vectors.diagonal().tolist() for box in boxes] == [
        [3.0] * 3,
        None,
        [3.0] * 3,
        None,
    ]
    assert [meta_of(record).get("comment") for record in collection] == [None, None, None, "plain comment"]


def test_several_energies(fixtures: Path, tmp_path: Path) -> None:
    report = Report()
    record = case(fixtures, "45-extxyz-several-energies", "keys.extxyz", report)
    keys = {
        "pe": -3.25,
        "free_energy": -3.5,
        "REF_energy": -4.75,
        "dft_energy": -5.0,
        "stress": [1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0],
        "config_type": "007",
    }
    assert meta_of(record) == keys
    found = arrays(record)
    assert (found["fx"], found["fy"], found["fz"]) == ([0.1, -0.1], [0.0, 0.0], [0.0, 0.0])
    assert found["REF_forces"] == [[0.2, 0.0, 0.0], [-0.2, 0.0, 0.0]]
    assert found["energies"] == [-1.5, -1.75]
    listed = {item.name for item in report.items}
    assert {"energy", "free_energy", "REF_energy", "dft_energy", "forces", "REF_forces", "energies", "stress"} <= listed
    again = through(record, tmp_path / "b.xyz")
    assert meta_of(again) == keys
    assert arrays(again) == found
    head = (tmp_path / "b.xyz").read_text().splitlines()[1]
    for key in ("energy", "free_energy", "REF_energy", "dft_energy", "stress", "config_type"):
        assert f" {key}=" in head
    for column in ("forces", "REF_forces", "energies"):
        assert f":{column}:R:" in head


def test_momenta(fixtures: Path) -> None:
    record = case(fixtures, "48-extxyz-momenta-and-velocities", "momenta.extxyz")
    assert arrays(record)["mass"] == [40.0]
    assert arrays(record)["momenta"] == [[2.0, 0.0, -1.0]]
    assert "vx" not in arrays(record)
    for units, scale in (("metal", 1000.0), ("real", 1.0)):
        found = arrays(case(fixtures, "48-extxyz-momenta-and-velocities", "momenta.extxyz", units=units))
        assert found["vx"] == pytest.approx([0.00491135 * scale], rel=1e-5)
        assert found["vy"] == [0.0]
        assert found["vz"] == pytest.approx([-0.00245567 * scale], rel=1e-5)
        assert found["momenta"] == [[2.0, 0.0, -1.0]]


def test_velocities_of_unknown_units(fixtures: Path) -> None:
    found = arrays(case(fixtures, "48-extxyz-momenta-and-velocities", "velo.extxyz", units="metal"))
    assert found["velo"] == [[0.05, 0.0, -0.025]]
    assert "vx" not in found


@pytest.mark.parametrize(
    ("name", "comments"),
    [
        ("blank_between", ["frame a", "frame b"]),
        ("blank_tail", ["frame a", "frame a"]),
        ("bom", ["frame a"]),
        ("crlf", ["frame a", "frame b"]),
        ("empty_comment", [""]),
        ("no_final_newline", ["frame a", "frame a"]),
    ],
)
def test_line_endings_and_blanks(fixtures: Path, name: str, comments: list[str]) -> None:
    record = case(fixtures, "52-xyz-line-endings-and-blanks", f"{name}.xyz")
    assert [meta_of(record, index)["comment"] for index in range(len(record.trajectory))] == comments
    expected = [1.0, 2.0, 3.0] if name == "empty_comment" else [1.0, 0.0, 0.0]
    found = arrays(record, len(comments) - 1)
    assert [found[axis][0] for axis in "xyz"] == expected


def test_latin1(fixtures: Path) -> None:
    report = Report()
    record = case(fixtures, "52-xyz-line-endings-and-blanks", "latin1_comment.xyz", report)
    assert meta_of(record)["comment"] == "fichier créé µ"
    assert arrays(record) == {"element": ["He"], "x": [1.0], "y": [2.0], "z": [3.0]}
    assert any("Latin-1" in text for text in report.warnings)


RAGGED = [["N", "N"], ["O"], ["C", "H", "O", "O"]]


@pytest.mark.parametrize("name", ["a.mrec", "a.mrec.lmdb"])
def test_ragged_frames(fixtures: Path, tmp_path: Path, name: str) -> None:
    source = fixtures / "cases/53-xyz-ragged-frames/ragged.extxyz"
    molrec_convert.convert(source, tmp_path / name)
    molrec_convert.convert(tmp_path / name, tmp_path / "b.extxyz")
    record = molrec_convert.read(tmp_path / "b.extxyz")
    assert [arrays(record, index)["element"] for index in range(3)] == RAGGED
    assert [meta_of(record, index)["pe"] for index in range(3)] == [-1.0, -2.0, -3.0]
    last = arrays(record, 2)
    assert (last["fx"], last["fy"], last["fz"]) == ([1.0, 0.0, 0.0, -1.0], [0.0, 1.0, 0.0, -1.0], [0.0, 0.0, 1.0, -1.0])
    assert (last["x"], last["y"], last["z"]) == ([0.0, 0.0, 1.2, 0.0], [0.0, 0.0, 0.0, 1.3], [0.0, 1.1, 0.0, 0.0])


def test_odd_keys(fixtures: Path) -> None:
    record = case(fixtures, "55-extxyz-odd-keys", "odd.extxyz")
    assert cell(record) == [5.0] * 3
    assert record.trajectory[0].box.boundary.all()
    assert meta_of(record) == {
        "2S-acid": True, "title": True, "with": True, "spaces": "yes", "pe": -2.5, "magmom": 0.0, "energy_eV": 1.0,
        "lone": True,
    }  # fmt: skip


def test_keys_in_another_case(fixtures: Path) -> None:
    report = Report()
    record = case(fixtures, "55-extxyz-odd-keys", "lower.extxyz", report)
    assert cell(record) == [5.0] * 3
    assert record.trajectory[0].box.boundary.tolist() == [True, True, False]
    assert meta_of(record) == {"Energy": -1.0}
    assert arrays(record)["element"] == ["Kr"]
    assert sum("as it is spelt in the format" in text for text in report.warnings) == 3
