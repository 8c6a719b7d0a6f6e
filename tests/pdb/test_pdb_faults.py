"""Bad input: one sentence with file, line, found and expected, and nothing half-written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from molrec_convert import convert, read
from molrec_convert.errors import FormatError, MolrecError, UsageError
from molrec_convert.plugins import detect
from molrec_convert.report import Fate, Report

pytest.importorskip("gemmi")

ROW = "ATOM      1  CA  GLY A   1       1.000   2.000   3.000  1.00  0.00           C  \n"


def changed(start: int, text: str) -> str:
    """The row with other characters from a column (from 1) on."""
    return ROW[: start - 1] + text + ROW[start - 1 + len(text) :]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (changed(31, " " * 8), "line 2: found blanks in columns 31-38, expected x in columns 31-38"),
        (changed(39, "  abcdef"), "line 2: found '  abcdef' in columns 39-46, expected a number, y"),
        (ROW[:40] + "\n", "line 2: found blanks in columns 39-46"),
        (ROW[:30] + "\n", "line 2: found blanks in columns 31-38"),
        (changed(55, "1..0  "), "line 2: found '1..0  ' in columns 55-60, expected a number, occupancy"),
        (changed(61, "1234.56"), "line 2: found '1234.5' followed by '6', expected B factor in columns 61-66"),
        (changed(23, "1 2 "), "line 2: found '1 2 ', expected a residue number"),
        (changed(23, "-+12"), "line 2: found '-+12', expected a residue number"),
        (changed(47, "3\t000   "), "line 2: found '3"),
    ],
)
def test_rows(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "bad.pdb"
    path.write_text(ROW + row)
    with pytest.raises(FormatError) as caught:
        convert(path, tmp_path / "out.mrec")
    text = str(caught.value)
    assert text.startswith(f"{path}, {message}") or message in text
    assert "\n" not in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.pdb"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("CRYST1   10.000   10.000\n", "expected three lengths and three angles in columns 7-54 of CRYST1"),
        ("CRYST1   10.000   10.000   10.000  90.00  90.00 190.00\n", "expected a cell"),
        ("CRYST1   10.000  -10.000   10.000  90.00  90.00  90.00\n", "expected a cell: lengths and angles are greater"),
    ],
)
def test_cells(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.pdb"
    path.write_text(line + ROW)
    with pytest.raises(FormatError, match=r"bad\.pdb, line 1: found .*") as caught:
        read(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "no record at all\n", "1 2 3\n4 5 6\n"])
def test_what_is_no_pdb_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.pdb"
    path.write_text(text)
    with pytest.raises(MolrecError):
        read(path, format="pdb")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data_a\n_cell.length_a 1\n", "found no category _atom_site with atoms"),
        ("data_a\nloop_\n_atom_site.id\n_atom_site.Cartn_x\n1 2 3\n", "expected the syntax of CIF"),
        ("data_a\nloop_\n_atom_site.id\n_atom_site.Cartn_x\n_atom_site.label_atom_id\n1 abc C\n", "found 'abc'"),
        ("data_a\nloop_\n_atom_site.id\n_atom_site.label_atom_id\n1 C\n", "atoms without Cartn_x"),
    ],
)
def test_mmcif(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.cif"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read(path, format="mmcif")
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_compressed_file_that_is_cut_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "cut.pdb.gz"
    whole = gzip.compress((ROW * 20000).encode())
    path.write_bytes(whole[: len(whole) // 2])
    report = Report()
    record = read(path, report=report)
    assert len(report.truncations) == 1
    assert set(record.trajectory[0]["atoms"]["z"].tolist()) == {3.0}


def test_a_last_line_that_breaks_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "torn.pdb"
    path.write_text(ROW * 3 + ROW[:44])
    report = Report()
    assert read(path, report=report).trajectory[0]["atoms"].count == 3
    assert len(report.truncations) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ROW * 2 + ROW[:60], True),
        (ROW * 2 + ROW.rstrip()[:77], True),
        (ROW * 2 + ROW.rstrip(), False),
        (ROW.rstrip("\n").ljust(78) + "1-\n" + ROW.rstrip(), False),
        (ROW * 2 + ROW[:60] + "\n", False),
    ],
)
def test_a_last_row_that_may_be_cut_is_kept_and_said(text: str, said: bool, tmp_path: Path) -> None:
    path = tmp_path / "torn.pdb"
    path.write_text(text)
    report = Report()
    assert read(path, report=report).trajectory[0]["atoms"].count == text.count("ATOM")
    assert [warning.split(": ", 1)[1] for warning in report.warnings] == [
        "the last line has no end and is shorter than the one before: what it lacks may be cut off"
    ] * said


@pytest.mark.parametrize("cut", [7, 30, 49])
def test_a_cell_that_breaks_off_at_the_end_leaves_the_models_before_it(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "torn.pdb"
    cell = "CRYST1   10.000   10.000   10.000  90.00  90.00  90.00 P 1           1\n"
    path.write_text("".join(f"{cell}MODEL     {n:4d}\n{ROW}ENDMDL\n" for n in (1, 2)) + cell[:cut])
    report = Report()
    assert len(read(path, report=report).trajectory) == 2
    assert report.truncations == [f"{path}: the last line breaks off and is left out: {cell[:cut].strip()}"]


def test_a_file_without_atoms_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "none.pdb"
    path.write_text("HEADER    NOTHING\nEND\n")
    report = Report()
    read(path, report=report)
    assert report.warnings == [f"{path}: it has no atoms"]


def test_a_last_model_that_breaks_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "torn.pdb"
    path.write_text("".join(f"MODEL     {n:4d}\n{ROW * 3}ENDMDL\n" for n in (1, 2)) + "MODEL        3\n" + ROW)
    report = Report()
    assert len(read(path, report=report).trajectory) == 2
    assert report.truncations == [f"{path}: the last model breaks off after 1 of 3 atoms and is left out"]


@pytest.mark.parametrize(
    ("name", "text", "format"),
    [
        ("a", "HEADER    HYDROLASE                               16-OCT-18   6MSM\n" + ROW, "pdb"),
        ("a.txt", "REMARK made by hand\n" * 30 + ROW, "pdb"),
        ("a", "CRYST1   10.000   10.000   10.000  90.00  90.00  90.00 P 1           1\n" + ROW, "pdb"),
        ("a", "MODEL        1\n" + ROW, "pdb"),
        ("a", "data_1ABC\n#\nloop_\n_atom_site.group_PDB\n_atom_site.id\nATOM 1\n", "mmcif"),
    ],
)
def test_detection(tmp_path: Path, name: str, text: str, format: str) -> None:
    (tmp_path / name).write_text(text)
    assert detect([tmp_path / name]).name == format


@pytest.mark.parametrize(
    "title", [b"TITLE     r\xe9sum\xe9\n", "HEADER    Ä" + "ö" * 60 + "\n", "TITLE     " + "é" * 40 + "\n"]
)
def test_lines_of_other_characters_are_kept(tmp_path: Path, title: str | bytes) -> None:
    path = tmp_path / "a.pdb"
    raw = title if isinstance(title, bytes) else title.encode()
    path.write_bytes(raw + ROW.encode())
    text = raw.decode("latin-1" if isinstance(title, bytes) else "utf-8").rstrip()
    assert read(path).system.meta["pdb"]["lines"] == [text]
    convert(path, tmp_path / "b.pdb")
    assert [line.rstrip() for line in read(tmp_path / "b.pdb").system.meta["pdb"]["lines"]] == [text]


def test_zero_bytes_are_blanks(tmp_path: Path) -> None:
    path = tmp_path / "a.pdb"
    path.write_text(changed(73, "A\0\0\0") + changed(18, "AB\0"))
    atoms = read(path).system["atoms"]
    assert (atoms["segid"].tolist(), atoms["res_name"].tolist()) == (["A", ""], ["GLY", "AB"])


def test_what_the_format_has_nothing_for_is_said(tmp_path: Path) -> None:
    report = Report()
    path = tmp_path / "a.pdb"
    path.write_text(
        changed(67, "JUNK") + "SIGATM    1  CA  GLY A   1       0.010   0.010   0.010  0.00  0.00           C\n"
        "CONECT    1    1    2\nCONECT    1   xx\n"
    )
    read(path, report=report)
    said = [str(item) for item in report.items] + report.warnings
    for text in (
        "columns 67-72",
        "SIGATM",
        "fields that hold no serial",
        "an atom with itself",
        "serials that no atom has",
    ):
        assert any(text in line for line in said), text


def test_models_that_differ_say_what_they_could_become(tmp_path: Path) -> None:
    path = tmp_path / "two.pdb"
    path.write_text("".join(f"MODEL     {n:4d}\n{ROW * n}ENDMDL\n" for n in (1, 2)))
    with pytest.raises(UsageError, match=r"\(--record N\); one run of all: --as trajectory; a file of each: --as rec"):
        convert(path, tmp_path / "two.mrec")
    assert [file.name for file in tmp_path.iterdir()] == ["two.pdb"]


def test_carriage_returns_alone_are_no_ends_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "old.pdb"
    path.write_bytes((ROW * 2).replace("\n", "\r").encode())
    with pytest.raises(FormatError, match="line 1: found carriage returns alone"):
        read(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text_behind_the_last_column_is_reported(end: str, tmp_path: Path) -> None:
    path = tmp_path / "wide.pdb"
    row = ROW.rstrip("\n").ljust(80)
    path.write_bytes(end.join([row, row + " " * 300, row + "   see below", row, row + "!", ""]).encode())
    report = Report()
    assert read(path, report=report).trajectory[0]["atoms"].count == 5
    assert [item.detail for item in report.items if item.fate is Fate.DROPPED] == [
        "text in 2 rows of atoms, the first in line 3"
    ]


def test_an_anisou_of_another_atom_leaves_nothing_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.pdb"
    own = "ANISOU" + ROW[6:27] + " " + "".join(f"{n:7d}" for n in (1000, 2000, 3000, 1, 2, 3)) + "       C\n"
    other = own[:6] + "   77" + own[11:]
    for text in (ROW + other, (ROW + own) * 2 + ROW + other):
        path.write_text(text)
        column = read(path).trajectory[0]["atoms"].columns["anisou"]
        assert column.validity is not None
        assert column.validity.tolist() == [True] * text.count(own) + [False]
        convert(path, tmp_path / "b.pdb", overwrite=True)
        assert (tmp_path / "b.pdb").read_text().count("ANISOU") == text.count(own)


@pytest.mark.parametrize("line", [" " + ROW, ROW.replace("ATOM      1", "ATOM\t1"), "HETATM\n", "ATOM12\n"])
def test_a_line_of_an_atom_is_never_text_beside_the_atoms(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pdb"
    path.write_text(ROW + line + ROW)
    with pytest.raises(FormatError, match=r"line 2: found .*, expected"):
        read(path)
