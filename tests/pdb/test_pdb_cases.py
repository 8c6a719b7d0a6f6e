"""Known troubles of converters with PDB files, each with its right value; and the kinds they stand for."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from molrec_convert import convert, read
from molrec_convert.errors import FormatError
from molrec_convert.model.frame import TextColumn
from molrec_convert.report import Fate, Report

pytest.importorskip("gemmi")


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def row(
    serial: str = "1", name: str = " CA ", residue: str = "GLY", chain: str = "A", number: str = "1", *,
    altloc: str = " ", icode: str = " ", x: str = "1.000", y: str = "2.000", z: str = "3.000",
    tail: str = "  1.00  0.00           C  ", record: str = "ATOM",
) -> str:  # fmt: skip
    return (
        f"{record:<6}{serial:>5} {name:<4}{altloc}{residue:>3} {chain}{number:>4}{icode}   {x:>8}{y:>8}{z:>8}{tail}\n"
    )


def atoms(record: Any) -> Any:
    return record.system["atoms"]


def column(record: Any, name: str) -> list[Any]:
    block = atoms(record) if name in atoms(record) else record.trajectory[0]["atoms"]
    mask = block.validity(name).tolist()
    return [value if there else None for value, there in zip(block[name].tolist(), mask, strict=True)]


def test_missing_elements(fixtures: Path) -> None:
    report = Report()
    folder = fixtures / "cases/62-pdb-missing-elements"
    record = read(folder / "noelem.pdb", report=report)
    assert column(record, "element") == ["N", "C", "H", "H", "C", "H", "O", "Ca", "Na", "Hg", "Cl", "Fe", "Br"]
    assert any(item.name == "element" for item in report.of(Fate.DERIVED))
    assert column(read(folder / "left_aligned.pdb"), "element") == ["C", "C", "H"]


@pytest.mark.parametrize(
    ("name", "residue", "element"),
    [
        (" CA ", "LIG", "C"), ("CA  ", "LIG", "Ca"), ("CL  ", "LIG", "Cl"), (" CL ", "CL", "Cl"), ("1HB ", "LIG", "H"),
        ("HO5'", "LIG", None), ("C123", "LIG", "C"), ("CL12", "LIG", None), ("ZN+2", "ZN", "Zn"), (" Q  ", "LIG", None),
        ("SE  ", "MSE", "Se"), (" SD ", "MET", "S"), ("2HG1", "VAL", "H"), ("CD  ", "CD", "Cd"), (" MW ", "SOL", None),
        (" Cl ", "LIG", "Cl"), ("    ", "LIG", None),
    ],
)  # fmt: skip
def test_element_by_columns(tmp_path: Path, name: str, residue: str, element: str | None) -> None:
    record = read(write(tmp_path / "a.pdb", row(name=name, residue=residue, tail="  1.00  0.00") + "END\n"))
    found = column(record, "element") if "element" in atoms(record) else [None]
    assert found == [element]


def test_left_aligned_names_of_ligands_stay_unknown(tmp_path: Path) -> None:
    text = row(name="CA  ", tail="") + row("2", "CA  ", "LIG", number="2", tail="")
    report = Report()
    record = read(write(tmp_path / "a.pdb", text), report=report)
    assert column(record, "element") == ["C", None]
    assert any("1 atoms have no element" in text for text in report.warnings)


def test_no_element_is_inferred_when_not_wanted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pdb", row(tail="  1.00  0.00"))
    assert "element" not in atoms(read(path, infer_elements=False))


@pytest.mark.parametrize("name", ["em.pdb", "zeros.pdb"])
def test_placeholder_cells(fixtures: Path, name: str) -> None:
    report = Report()
    record = read(fixtures / "cases/63-pdb-cryst1-placeholder" / name, report=report)
    assert record.trajectory[0].box is None
    assert [item.name for item in report.of(Fate.CONVERTED)] == ["CRYST1"]


def test_small_cell_is_real(fixtures: Path) -> None:
    box = read(fixtures / "cases/63-pdb-cryst1-placeholder/real_small.pdb").trajectory[0].box
    assert np.allclose(box.vectors, [[2.46, -1.23, 0], [0, 2.130422, 0], [0, 0, 6.7]], atol=1e-6)
    assert box.vectors[1, 0] == box.vectors[2, 0] == box.vectors[2, 1] == box.vectors[0, 2] == 0
    assert box.boundary.all()


def test_insertion_codes(fixtures: Path, tmp_path: Path) -> None:
    record = read(fixtures / "cases/66-pdb-insertion-codes/icode.pdb")
    for found in (record, _again(record, tmp_path)):
        assert column(found, "res_seq") == [51, 52, 52, 52, 53, -1, 0]
        assert column(found, "res_id") == [51, 52, 52, 52, 53, 54, 0]
        assert column(found, "icode") == ["", "", "A", "B", "", "", ""]
        assert column(found, "res_name") == ["SER", "GLY", "ASN", "ASN", "PRO", "GLY", "ALA"]


def _again(record: Any, folder: Path, **options: Any) -> Any:
    from molrec_convert import write as write_record

    write_record(record, folder / "again.pdb", overwrite=True, **options)
    return read(folder / "again.pdb")


def test_touching_columns(fixtures: Path) -> None:
    record = read(fixtures / "cases/67-pdb-touching-columns/touching.pdb")
    frame = record.trajectory[0]["atoms"]
    found = np.stack([frame[axis] for axis in "xyz"], axis=1).tolist()
    assert found == [[2345.678, -456.789, -123.456], [-999.999] * 3, [9999.999] * 3]
    assert frame["b_factor"].tolist() == [100.0, -12.34, 0.0]
    assert frame["occupancy"].tolist() == [1.0, 0.5, 1.0]
    assert column(record, "altloc") == ["", "A", ""]
    assert column(record, "icode") == ["", "B", ""]
    assert column(record, "formal_charge") == [None, 1, None]


def test_wide_coordinates_are_an_error(fixtures: Path) -> None:
    with pytest.raises(
        FormatError, match=r"wide\.pdb, line 1: found '21450\.12' followed by '5', expected x in columns"
    ):
        read(fixtures / "cases/67-pdb-touching-columns/wide.pdb").trajectory[0]


@pytest.mark.parametrize("x", ["-12345.678", "-1234.5678"])
def test_shifted_coordinates_are_an_error(tmp_path: Path, x: str) -> None:
    text = row() + "ATOM      2  CA  MET B   7  " + f"{x:>10}{2.0:8.3f}{3.0:8.3f}  1.00  0.00\n"
    with pytest.raises(FormatError, match="line 2"):
        read(write(tmp_path / "a.pdb", text)).trajectory[0]


def test_formal_charges(fixtures: Path, tmp_path: Path) -> None:
    record = read(fixtures / "cases/70-pdb-formal-charge/charges.pdb")
    expected = [2, -1, 1, -1, 2, None, 0]
    assert column(record, "formal_charge") == expected
    assert column(record, "element") == ["Zn", "Cl", "N", "O", "Mg", "C", "H"]
    assert column(_again(record, tmp_path), "formal_charge") == expected
    written = [line[78:80] for line in (tmp_path / "again.pdb").read_text().splitlines()[:7]]
    assert written == ["2+", "1-", "1+", "1-", "2+", "  ", "0+"]
    assert "charge" not in atoms(record)


def test_wrapped_residue_numbers(fixtures: Path, tmp_path: Path) -> None:
    report = Report()
    record = read(fixtures / "cases/72-pdb-residue-number-wrap/wrap.pdb", report=report)
    assert column(record, "res_seq") == [9999] * 3 + [0] * 6 + [1] * 3
    assert column(record, "res_id") == [9999] * 3 + [10000] * 3 + [10001] * 3 + [10002] * 3
    assert any(item.name == "residue numbers" for item in report.of(Fate.CONVERTED))
    assert column(_again(record, tmp_path), "res_id") == column(record, "res_id")


def test_five_digits_in_the_insertion_code(fixtures: Path) -> None:
    report = Report()
    record = read(fixtures / "cases/72-pdb-residue-number-wrap/spill.pdb", report=report)
    assert column(record, "res_id") == [9999, 10000, 10001]
    assert "icode" not in atoms(record)
    assert any("column 27" in text for text in report.warnings)


def test_hybrid_36_numbers(tmp_path: Path) -> None:
    text = row("99999", number="9999") + row("A0000", number="A000") + row("a000z", number="a000") + "END\n"
    record = read(write(tmp_path / "a.pdb", text))
    assert column(record, "id") == [99999, 100000, 43770051]
    assert column(record, "res_id") == [9999, 10000, 1223056]
    again = _again(record, tmp_path, hybrid_36=True)
    assert column(again, "id") == column(record, "id")
    assert column(again, "res_id") == column(record, "res_id")


def test_hexadecimal_numbers(tmp_path: Path) -> None:
    serials = [99998, 99999, *range(100000, 100020)]
    numbers = [9998, 9999, *range(10000, 10020)]
    text = "".join(
        row(f"{a:x}" if a > 99999 else str(a), number=f"{b:x}" if b > 9999 else str(b))
        for a, b in zip(serials, numbers, strict=True)
    )
    record = read(write(tmp_path / "a.pdb", text))
    assert column(record, "id") == serials
    assert column(record, "res_id") == numbers


def test_doubtful_hexadecimal_residue_is_an_error(tmp_path: Path) -> None:
    text = row(number="12") + row("2", number="3f") + row("3", number="2")
    with pytest.raises(FormatError, match="line 2: found '  3f', expected a residue number"):
        read(write(tmp_path / "a.pdb", text))


@pytest.mark.parametrize("first", [0, 1])
def test_serials_that_begin_anew(tmp_path: Path, first: int) -> None:
    text = row("99998") + row("99999") + row(str(first)) + row(str(first + 1))
    report = Report()
    record = read(write(tmp_path / "a.pdb", text), report=report)
    assert column(record, "id") == [99998, 99999, 100000, 100001]
    assert any(item.name == "serials" for item in report.of(Fate.CONVERTED))


def test_serials_of_six_digits(tmp_path: Path) -> None:
    text = row("99999") + "ATOM  100000 CA  GLY A   1       1.000   2.000   3.000  1.00  0.00           C\n"
    text = text.replace("100000 CA ", "100000 CA ")
    assert column(read(write(tmp_path / "a.pdb", text)), "id") == [99999, 100000]


def test_stars(tmp_path: Path) -> None:
    record = read(write(tmp_path / "a.pdb", row("99999") + row("*****", number="****")))
    assert column(record, "id") == [99999, None]
    assert column(record, "res_id") == [1, None]
    # a residue has a number in any file; a serial where one fits
    again = _again(record, tmp_path)
    assert (column(again, "id"), column(again, "res_id")) == ([99999, None], [1, 2])
    again = _again(record, tmp_path, hybrid_36=True)
    assert (column(again, "id"), column(again, "res_id")) == ([99999, 100000], [1, 2])


def test_interleaved_residues_keep_the_order(tmp_path: Path) -> None:
    text = row("5", " N  ", number="1") + row("3", " N  ", number="2") + row("9", " CA ", number="1")
    record = read(write(tmp_path / "a.pdb", text))
    assert column(record, "id") == [5, 3, 9]
    assert column(record, "res_id") == [1, 2, 1]


def test_models_that_differ_are_records_of_their_own(tmp_path: Path) -> None:
    text = "MODEL        1\n" + row() + "ENDMDL\nMODEL        2\n" + row() + row("2", " CB ") + "ENDMDL\nEND\n"
    path = write(tmp_path / "a.pdb", text)
    assert [len(record.trajectory) for record in read(path)] == [1, 1]
    with pytest.raises(FormatError, match="frame 1 has 2 atoms, the first 1"):
        read(path, as_="trajectory")
    convert(path, tmp_path / "b.mrec", as_="records")
    assert sorted(p.name for p in tmp_path.glob("b*.mrec")) == ["b-0.mrec", "b-1.mrec"]


def test_models_that_agree_are_a_trajectory_or_a_collection(tmp_path: Path) -> None:
    text = "".join(f"MODEL     {n:4d}\n{row(x=f'{n}.000')}ENDMDL\n" for n in (1, 2, 3)) + "END\n"
    path = write(tmp_path / "a.pdb", text)
    record = read(path)
    assert [frame["atoms"]["x"][0] for frame in record.trajectory] == [1.0, 2.0, 3.0]
    assert [frame.meta["model"] for frame in record.trajectory[::2]] == [1, 3]
    assert [one.trajectory[0]["atoms"]["x"][0] for one in read(path, as_="collection")] == [1.0, 2.0, 3.0]


def test_serials_that_go_on_from_model_to_model(tmp_path: Path) -> None:
    text = "".join(f"MODEL     {n + 1:4d}\n{row(str(2 * n + 1))}{row(str(2 * n + 2), ' CB ')}ENDMDL\n" for n in (0, 1))
    record = read(write(tmp_path / "a.pdb", text + "CONECT    1    2\nCONECT    3    4\nEND\n"))
    assert "id" not in atoms(record)
    assert [frame["atoms"]["id"].tolist() for frame in record.trajectory] == [[1, 2], [3, 4]]
    assert record.system["bonds"].count == 1


def test_cells_of_later_frames(tmp_path: Path) -> None:
    cell = "CRYST1{:9.3f}   20.000   20.000  90.00  90.00  90.00 P 1           1\n"
    text = "".join(f"{cell.format(10 + n)}MODEL     {n + 1:4d}\n{row()}ENDMDL\n" for n in range(3))
    record = read(write(tmp_path / "a.pdb", text))
    assert [frame.box.vectors[0, 0] for frame in record.trajectory] == [10.0, 11.0, 12.0]
    assert [frame.box.vectors[0, 0] for frame in record.trajectory[1:]] == [11.0, 12.0]


def test_times_of_gromacs(tmp_path: Path) -> None:
    text = "".join(
        f"TITLE     water t= {n * 0.5:9.5f} step= {n * 250}\nMODEL     {n + 1:4d}\n{row()}ENDMDL\n" for n in range(3)
    )
    record = read(write(tmp_path / "a.pdb", text))
    assert record.trajectory.times.tolist() == [0.0, 0.5, 1.0]
    assert record.trajectory.steps.tolist() == [0, 250, 500]
    again = _again(record, tmp_path)
    assert again.trajectory.steps.tolist() == [0, 250, 500]


def test_bonds_with_orders_and_what_they_are(tmp_path: Path) -> None:
    text = (
        "SSBOND   1 CYS A    1    CYS A    2                          1555   1555  2.03  \n"
        + row("1", " SG ", "CYS", number="1") + row("2", " SG ", "CYS", number="2")
        + row("3", " C1 ", "LIG", number="3") + row("4", " O1 ", "LIG", number="3")
        + "CONECT    1    2\nCONECT    2    1\nCONECT    3    4    4\nCONECT    4    3    3\nCONECT    3    1\nEND\n"
    )  # fmt: skip
    record = read(write(tmp_path / "a.pdb", text))
    for found in (record, _again(record, tmp_path)):
        bonds = found.system["bonds"]
        pairs = list(zip(bonds["atomi"].tolist(), bonds["atomj"].tolist(), strict=True))
        assert pairs == [(0, 1), (0, 2), (2, 3)]
        assert bonds["kind"].tolist() == ["conect+disulfide", "conect", "conect"]
        assert bonds["bond_type"].tolist() == [1, 1, 2]


def test_fields_that_are_blank_are_unknown(tmp_path: Path) -> None:
    record = read(write(tmp_path / "a.pdb", row() + row("2", tail="                      C")))
    assert column(record, "occupancy") == [1.0, None]
    assert column(record, "b_factor") == [0.0, None]
    report = Report()
    assert column(_again(record, tmp_path, report=report), "occupancy") == [1.0, 1.0]
    assert {"occupancy", "b_factor"} <= {item.name for item in report.of(Fate.DERIVED)}


def test_anisotropic_displacements(tmp_path: Path) -> None:
    anisou = "ANISOU    1  CA  GLY A   1     2072   1000   -500     10      0      7       C  \n"
    record = read(write(tmp_path / "a.pdb", row() + anisou + row("2", " CB ")))
    frame = record.trajectory[0]["atoms"]
    assert frame["anisou"][0].tolist() == [0.2072, 0.1, -0.05, 0.001, 0.0, 0.0007]
    assert frame.validity("anisou").tolist() == [True, False]
    _again(record, tmp_path)
    assert anisou in (tmp_path / "again.pdb").read_text()


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lines_of_any_length_and_ending(tmp_path: Path, ending: str) -> None:
    lines = [row().rstrip(), row("2", " CB ").rstrip()[:54], row("3", " CG ").rstrip() + " " * 20, "END"]
    path = tmp_path / "a.pdb"
    path.write_bytes(ending.join(lines).encode())
    record = read(path)
    assert column(record, "name") == ["CA", "CB", "CG"]
    assert column(record, "z") == [3.0, 3.0, 3.0]


def test_lower_case_records(tmp_path: Path) -> None:
    record = read(write(tmp_path / "a.pdb", row().replace("ATOM", "atom") + "end\n"))
    assert column(record, "name") == ["CA"]
    assert column(record, "hetatm") == [False]


def test_serials_that_begin_before_their_columns(fixtures: Path, tmp_path: Path) -> None:
    report = Report()
    record = read(fixtures / "faults/six.pdb", report=report)
    assert column(record, "id") == [99998, 99999, 100000, 100001]
    assert column(record, "name") == ["C", "O", "N", "CA"]
    assert "pdb" not in record.system.meta
    assert any(item.name == "serials" for item in report.of(Fate.CONVERTED))
    again = _again(record, tmp_path, hybrid_36=True)
    assert column(again, "id") == column(record, "id")
    # seven digits, in models that count on, and beside other files
    row = "ATOM{:7d}  CA  GLY A   1       1.000   2.000   3.000  1.00  0.00           C\n"
    models = "".join(f"MODEL     {n:4d}\n{row.format(n * 999_999)}ENDMDL\n" for n in (1, 2))
    record = read(write(tmp_path / "a.pdb", models))
    assert [frame["atoms"]["id"].tolist() for frame in record.trajectory] == [[999_999], [1_999_998]]
    write(tmp_path / "b.pdb", row.format(100_000))
    write(tmp_path / "c.pdb", row.format(1))
    convert([tmp_path / "b.pdb", tmp_path / "c.pdb"], tmp_path / "d.mrec.lmdb")
    with read(tmp_path / "d.mrec.lmdb") as some:
        assert [one.system["atoms"]["id"].tolist() for one in some] == [[100_000], [1]]


def test_texts_are_made_when_they_are_asked_for(fixtures: Path) -> None:
    path = fixtures / "cases/62-pdb-missing-elements/noelem.pdb"
    with read(path) as record:
        assert record.system is not None
        column = record.system.blocks["atoms"].columns["name"]
        assert isinstance(column, TextColumn)
        assert callable(column._values)
        assert (column.dtype, column.trailing, len(column)) == ("string", (), record.system.blocks["atoms"].count)
        assert len(column.values) == len(column)
        assert not callable(column._values)
        assert pickle.loads(pickle.dumps(column)) == column
        assert replace(column, validity=None) == column
