"""mmCIF: the same atoms as of the PDB file, every digit and category there and back."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pdb_readers import CIF, see

from molrec_convert import convert, read
from molrec_convert import write as write_record
from molrec_convert.errors import FormatError
from molrec_convert.inspect.diff import differences
from molrec_convert.model import Block, Frame, MemoryTrajectory, Record
from molrec_convert.plugins import detect
from molrec_convert.report import Fate, Report

gemmi = pytest.importorskip("gemmi")

SITE = """data_TEST
_entry.id TEST
_cell.length_a 10.5
_cell.length_b 11.25
_cell.length_c 12
_cell.angle_alpha 90
_cell.angle_beta 95.5
_cell.angle_gamma 90
_struct.title 'two words'
loop_
_atom_site.group_PDB
_atom_site.id
_atom_site.type_symbol
_atom_site.label_atom_id
_atom_site.label_alt_id
_atom_site.label_comp_id
_atom_site.label_asym_id
_atom_site.label_seq_id
_atom_site.pdbx_PDB_ins_code
_atom_site.Cartn_x
_atom_site.Cartn_y
_atom_site.Cartn_z
_atom_site.occupancy
_atom_site.B_iso_or_equiv
_atom_site.pdbx_formal_charge
_atom_site.auth_seq_id
_atom_site.auth_asym_id
_atom_site.pdbx_PDB_model_num
ATOM   1 N  N     . GLY AAA 1 ? 1.23456789012345 -2.5 3(2)   1.0 ?    ? -5 LONG 1
ATOM   2 C  "C1'" A GLY AAA 1 ? 4 5 6.25                     0.5 12.5 1 -5 LONG 1
HETATM 3 ZN ZN    . ABCDE B . X 7 8 9                        ?   1    2 400000 Z 1
ATOM   1 N  N     . GLY AAA 1 ? 2.23456789012345 -2.5 3(2)   1.0 ?    ? -5 LONG 2
ATOM   2 C  "C1'" A GLY AAA 1 ? 4 5 7.25                     0.5 12.5 1 -5 LONG 2
HETATM 3 ZN ZN    . ABCDE B . X 7 8 9                        ?   1    2 400000 Z 2
loop_
_struct_conn.id
_struct_conn.conn_type_id
_struct_conn.ptnr1_auth_asym_id
_struct_conn.ptnr1_auth_comp_id
_struct_conn.ptnr1_auth_seq_id
_struct_conn.ptnr1_label_atom_id
_struct_conn.pdbx_ptnr1_PDB_ins_code
_struct_conn.ptnr2_auth_asym_id
_struct_conn.ptnr2_auth_comp_id
_struct_conn.ptnr2_auth_seq_id
_struct_conn.ptnr2_label_atom_id
_struct_conn.pdbx_ptnr2_PDB_ins_code
metalc1 metalc LONG GLY -5 N ? Z ABCDE 400000 ZN X
covale1 covale LONG GLY -5 N ? LONG GLY -5 "C1'" ?
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "test.cif"
    path.write_text(SITE)
    return path


def column(record: Any, name: str) -> list[Any]:
    block = record.system["atoms"] if name in record.system["atoms"] else record.trajectory[0]["atoms"]
    return [
        value if there else None
        for value, there in zip(block[name].tolist(), block.validity(name).tolist(), strict=True)
    ]


def test_columns(site: Path) -> None:
    record = read(site)
    assert detect([site]).name == "mmcif"
    assert column(record, "id") == [1, 2, 3]
    assert column(record, "name") == ["N", "C1'", "ZN"]
    assert column(record, "element") == ["N", "C", "Zn"]
    assert column(record, "altloc") == ["", "A", ""]
    assert column(record, "icode") == ["", "", "X"]
    assert column(record, "res_name") == ["GLY", "GLY", "ABCDE"]
    assert column(record, "chain") == ["LONG", "LONG", "Z"]
    assert column(record, "label_asym_id") == ["AAA", "AAA", "B"]
    assert column(record, "res_seq") == [-5, -5, 400000]
    assert column(record, "res_id") == [1, 1, 400000]
    assert column(record, "formal_charge") == [None, 1, 2]
    assert column(record, "occupancy") == [1.0, 0.5, None]
    assert column(record, "b_factor") == [None, 12.5, 1.0]
    assert column(record, "x") == [1.23456789012345, 4.0, 7.0]
    assert [frame["atoms"]["x"][0] for frame in record.trajectory] == [1.23456789012345, 2.23456789012345]
    bonds = record.system["bonds"]
    assert list(zip(*(bonds[key].tolist() for key in ("atomi", "atomj", "kind")), strict=True)) == [
        (0, 1, "link"), (0, 2, "metal"),
    ]  # fmt: skip
    assert record.system.meta["mmcif"]["_struct"]["title"] == ["'two words'"]


def test_there_and_back(site: Path, tmp_path: Path) -> None:
    report = Report()
    convert(site, tmp_path / "a.mrec")
    convert(tmp_path / "a.mrec", tmp_path / "b.cif", report=report)
    with read(tmp_path / "a.mrec") as one, read(tmp_path / "b.cif") as other:
        assert list(differences(one, other)) == []
    assert not report.lossy


def test_what_pdb_has_no_columns_for_is_refused_or_said(site: Path, tmp_path: Path) -> None:
    from molrec_convert.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="atoms/res_name: 'ABCDE' in row 2 does not fit"):
        convert(site, tmp_path / "a.pdb", hybrid_36=True)
    assert not (tmp_path / "a.pdb").exists()


@pytest.mark.parametrize(
    "name",
    ["parmed_4lzt.pdb", "cf_1bcu.pdb", "parmed_2koc.pdb", "mda_1hvr.pdb", "mda_4E43.pdb"],
)
def test_the_atoms_are_those_of_the_pdb_file(corpus: Path, tmp_path: Path, name: str) -> None:
    source = corpus / "files/pdb" / name
    structure = gemmi.read_pdb(str(source))
    structure.setup_entities()
    structure.make_mmcif_document().write_file(str(tmp_path / "a.cif"))
    one, other = read(source), read(tmp_path / "a.cif")
    for key in (
        "name",
        "res_name",
        "res_id",
        "chain",
        "altloc",
        "icode",
        "element",
        "hetatm",
        "x",
        "y",
        "z",
        "b_factor",
    ):
        if key in one.system["atoms"] or key in one.trajectory[0]["atoms"]:
            assert column(one, key) == column(other, key), key
    if "anisou" in one.trajectory[0]["atoms"]:
        pair = [record.trajectory[0]["atoms"]["anisou"] for record in (one, other)]
        # gemmi keeps these as float32
        assert np.allclose(pair[0], pair[1], atol=1e-6)
    convert(tmp_path / "a.cif", tmp_path / "b.cif")
    with read(tmp_path / "a.cif") as first, read(tmp_path / "b.cif") as second:
        assert list(differences(first, second)) == []


def test_pdb_to_mmcif_loses_what_is_said(corpus: Path, tmp_path: Path) -> None:
    source = corpus / "files/pdb/parmed_4lzt.pdb"
    predicted, report = Report(), Report()
    convert(source, tmp_path / "a.cif", report=predicted, dry_run=True)
    convert(source, tmp_path / "a.cif", report=report)
    assert predicted.to_json() == report.to_json()
    assert {item.name for item in report.of(Fate.DROPPED)} == {"system/meta/pdb", "atoms/ter", "bonds/kind"}
    one, other = read(source), read(tmp_path / "a.cif")
    for key in ("id", "name", "res_id", "x", "y", "z", "occupancy", "b_factor", "altloc", "element"):
        assert column(one, key) == column(other, key), key


def test_models_that_differ(site: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.cif"
    lines = SITE.splitlines()
    row = next(n for n, line in enumerate(lines) if line.startswith("HETATM") and line.endswith(" 2"))
    path.write_text("\n".join(lines[:row] + lines[row + 1 :]) + "\n")
    assert [record.trajectory[0]["atoms"].count for record in read(path)] == [3, 2]


@pytest.mark.parametrize("tag", ["_itom_site.other", "_atom_sit_atom_site.Cartn_y"])
def test_a_loop_of_two_categories(site: Path, tmp_path: Path, tag: str) -> None:
    path = tmp_path / "b.cif"
    names = [line for line in SITE.splitlines() if line.startswith("_atom_site.")]
    path.write_text(SITE.replace(names[1], tag, 1))
    with pytest.raises(FormatError, match=rf"b\.cif.*{re.escape(tag)}.*expected items of one category"):
        read(path)


def test_data_blocks_are_records_and_come_back(site: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.cif"
    path.write_text(
        SITE
        + "\n"
        + SITE.replace("data_", "data_OTHER", 1).replace("1.23456789012345", "-9.5", 1)
        + "\ndata_E\n_a.b c\n"
    )
    report = Report()
    convert(path, tmp_path / "a.mrec.lmdb", report=report)
    assert [item.name for item in report.of(Fate.DROPPED)] == ["data blocks"]
    report = Report()
    convert(tmp_path / "a.mrec.lmdb", tmp_path / "b.cif", report=report)
    assert not report.lossy
    assert [block.name for block in gemmi.cif.read(str(tmp_path / "b.cif"))] == [
        block.name for block in gemmi.cif.read(str(path))
    ][:2]
    with read(tmp_path / "a.mrec.lmdb") as one, read(tmp_path / "b.cif") as other:
        assert [len(record.trajectory) for record in other] == [2, 2]
        assert other[1].trajectory[0]["atoms"]["x"][0] == -9.5
        for first, second in zip(one, other, strict=True):
            assert list(differences(first, second)) == []
    with pytest.raises(FormatError, match="2 data blocks with atoms"):
        read(path, as_="trajectory")


def test_models_as_a_collection_are_blocks_with_names_of_their_own(site: Path, tmp_path: Path) -> None:
    report = Report()
    write_record(read(site, as_="collection"), tmp_path / "b.cif", report=report)
    assert [item.name for item in report.of(Fate.CONVERTED)] == ["data"]
    names = [block.name for block in gemmi.cif.read(str(tmp_path / "b.cif"))]
    assert len(names) == 2
    assert names[1] == f"{names[0]}-2"
    assert [record.trajectory[0]["atoms"]["x"][0] for record in read(tmp_path / "b.cif")] == [
        1.23456789012345, 2.23456789012345,
    ]  # fmt: skip


def test_orders_of_connections(tmp_path: Path) -> None:
    orders = iter(("doub", "quad"))
    lines = [
        f"{line} {next(orders)}" if line.startswith(("metalc1", "covale1")) else line for line in SITE.splitlines()
    ]
    place = lines.index("_struct_conn.pdbx_ptnr2_PDB_ins_code")
    lines.insert(place + 1, "_struct_conn.pdbx_value_order")
    (tmp_path / "a.cif").write_text("\n".join(lines) + "\n")
    report = Report()
    record = read(tmp_path / "a.cif", report=report)
    bonds = record.system["bonds"]
    assert list(zip(bonds["kind"].tolist(), bonds["bond_type"].tolist(), strict=True)) == [("link", 0), ("metal", 2)]
    assert any(item.name == "_struct_conn.pdbx_value_order" for item in report.of(Fate.DROPPED))
    del record.system.meta["mmcif"]
    report = Report()
    write_record(record, tmp_path / "b.cif", report=report)
    assert read(tmp_path / "b.cif").system["bonds"]["bond_type"].tolist() == [0, 2]


def test_files_of_small_molecules_are_left_to_others(tmp_path: Path) -> None:
    from molrec_pdb.plugin import cif_score

    assert cif_score(b"data_x\nloop_\n_atom_site_label\n_atom_site_fract_x\nC1 0.5\n", tmp_path) == 0.0


def test_a_record_without_names(tmp_path: Path) -> None:
    from molrec_convert.model import Block, Frame, MemoryTrajectory, Record

    state = Frame({"atoms": Block({axis: np.array([0.1, 0.2]) for axis in "xyz"})}, step=0)
    write_record(Record(trajectory=MemoryTrajectory([state])), tmp_path / "a.cif")
    assert read(tmp_path / "a.cif").trajectory[0]["atoms"]["z"].tolist() == [0.1, 0.2]


def test_what_names_do_not_tell_apart_is_no_connection(tmp_path: Path) -> None:
    source = tmp_path / "a.pdb"
    row = "HETATM{:>5}  {:3} HOH A{:>4}    {:8.3f}   0.000   0.000  1.00  0.00           {}  \n"
    atoms = [(1, "O", 9998), (2, "H", 9998), (3, "H", 9998), (4, "O", 9999), (5, "H1", 9999), (6, "O", 0)]
    source.write_text(
        "".join(row.format(n, name, number, n, name[0]) for n, name, number in atoms)
        + "CONECT    1    2    3\nCONECT    4    5\n"
    )
    report = Report()
    convert(source, tmp_path / "a.cif", report=report)
    told = {item.name: item.detail for item in report.items if item.fate is Fate.DROPPED}
    assert told["bonds"] == "2 of atoms that have their names in common with others"
    assert told["atoms/res_id"] == "where res_seq, which is written, is another number"
    back = read(tmp_path / "a.cif").system["bonds"]
    assert list(zip(back["atomi"].tolist(), back["atomj"].tolist(), strict=True)) == [(3, 4)]


def test_a_symbol_that_is_no_element_comes_back_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "a.pdb"
    row = "ATOM      1  Q   UNK A   1       1.000   2.000   3.000  1.00  0.00          {}  \n"
    source.write_text(row.format("Zz") + row.format("ZN"))
    convert(source, tmp_path / "a.cif")
    atoms = read(tmp_path / "a.cif").system["atoms"]
    assert atoms["element_text"].tolist() == ["Zz", ""]
    assert atoms["element"].tolist()[1] == "Zn"


@pytest.mark.interop
@pytest.mark.parametrize("program", CIF)
def test_molecules_of_a_data_file_as_others_read_them(program: str, fixtures: Path, tmp_path: Path) -> None:
    path = tmp_path / "waters.cif"
    convert(fixtures / "faults/two-waters.data", path, elements=["O", "H"])
    seen = see(program, path)
    assert np.array(seen.positions).shape == (1, 6, 3)
    assert np.allclose(seen.positions[0][1], [1.96, 1, 1], atol=1e-5)
    assert seen.elements == ["O", "H", "H"] * 2
    assert seen.names in (None, ["O", "H1", "H2"] * 2)
    assert seen.residues in (None, [1, 1, 1, 2, 2, 2])
    assert seen.cell is None or np.allclose(seen.cell, 12.0)
    # chemfiles and MDAnalysis leave connections out
    bonds = [] if program in ("chemfiles", "mdanalysis") else [(0, 1), (0, 2), (3, 4), (3, 5)]
    assert seen.bonds in (None, bonds)
    assert seen.occupancy in (None, [1.0] * 6)


@pytest.mark.interop
@pytest.mark.parametrize("program", ["parmed", "openmm", "biotite", "gemmi", "chemfiles", "mdtraj"])
def test_models_as_others_read_them(program: str, fixtures: Path, tmp_path: Path) -> None:
    convert(fixtures / "faults/two-waters.data", tmp_path / "waters.pdb", elements=["O", "H"])
    first = read(tmp_path / "waters.pdb")
    frames = [
        Frame({"atoms": Block({axis: first.trajectory[0]["atoms"][axis] + n for axis in "xyz"})}, step=n)
        for n in range(3)
    ]
    record = Record(system=first.system, trajectory=MemoryTrajectory(frames))
    write_record(record, tmp_path / "waters.cif")
    seen = see(program, tmp_path / "waters.cif")
    assert np.array(seen.positions).shape == (3, 6, 3)
    assert np.allclose(seen.positions[2][0], [3, 3, 3], atol=1e-5)
    back = read(tmp_path / "waters.cif")
    assert set(back.trajectory.declaration.blocks["atoms"].columns) == {"x", "y", "z"}
    assert not {"chain", "label_asym_id", "label_seq_id", "label_entity_id"} & set(back.system["atoms"].columns)
    assert back.system["bonds"].count == 4


def test_values_that_are_unknown_in_some_rows(site: Path, tmp_path: Path) -> None:
    """Readers of other programs find numbers; ours that there are none."""
    convert(site, tmp_path / "b.cif")
    assert see("biotite", tmp_path / "b.cif").occupancy == [1.0, 0.5, 1.0]
    back = read(tmp_path / "b.cif")
    assert column(back, "occupancy") == [1.0, 0.5, None]
    assert column(back, "b_factor") == [None, 12.5, 1.0]


def _large(path: Path, atoms: int, models: int, ending: str = "\n") -> None:
    """Water molecules, some in rows over two lines."""
    tags = "group_PDB id type_symbol label_atom_id label_comp_id label_asym_id Cartn_x Cartn_y Cartn_z auth_seq_id"
    rows = [
        f"HETATM {n + 1} {'OHH'[n % 3]} {('O', 'H1', 'H2')[n % 3]}{ending if n % 5 == 0 else ' '}HOH W "
        f"{n * 0.25} {n % 7}.5 -1e-3 {n // 3 + 1} "
        for n in range(atoms)
    ]
    with path.open("w") as file:
        file.write("data_big\n_struct.title\n;a text\nloop_\n_atom_site.id\n1\n;\nloop_\n")
        file.writelines(f"_atom_site.{tag}\n" for tag in [*tags.split(), "pdbx_PDB_model_num"])
        for model in range(1, models + 1):
            file.writelines(f"{row}{model}\n" for row in rows)
        file.write("# the end\n_cell.length_a 10\n_cell.length_b 11\n_cell.length_c 12\n")
        file.writelines(f"_cell.angle_{name} 90\n" for name in ("alpha", "beta", "gamma"))


@pytest.mark.parametrize("models", [1, 3])
def test_rows_are_read_in_parts(models: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.cif"
    _large(path, 600, models)
    whole = read(path)
    for size in (100, 1111, 5000):
        monkeypatch.setattr("molrec_pdb.mmcif.text._PART", size)
        assert list(differences(read(path), whole)) == []
    monkeypatch.setattr("molrec_pdb.mmcif.text._PART", 1111)
    _large(tmp_path / "lines.cif", 600, models, ending="\n")
    assert len(whole.trajectory) == models
    assert whole.system["atoms"].count == 600
    assert whole.trajectory[0]["atoms"]["x"].tolist() == [n * 0.25 for n in range(600)]
    assert whole.trajectory[0].box.vectors.diagonal().tolist() == [10, 11, 12]
    assert "loop_" in whole.system.meta["mmcif"]["_struct"]["title"][0]


def test_lines_of_what_is_wrong_in_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("molrec_pdb.mmcif.text._PART", 1000)
    path = tmp_path / "big.cif"
    _large(path, 300, 1)
    lines = path.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("HETATM 202 "))
    quoted = lines[place].replace("HOH", "'HOH")
    wrong = {
        "line": [*lines[:place], quoted, *lines[place + 1 :]],
        "row 202": [*lines[:place], lines[place].replace("W ", "W no "), *lines[place + 1 :]],
        "behind": [*lines[:-1], "_cell.angle_gamma", "loop_"],
    }
    for name, text in wrong.items():
        path.write_text("\n".join(text) + "\n")
        with pytest.raises(FormatError) as caught:
            read(path)
        if name == "row 202":
            assert "of _atom_site" in str(caught.value) or "line" in str(caught.value)
            continue
        with pytest.raises(ValueError, match=":") as own:
            gemmi.cif.read_string(path.read_text())
        line = str(own.value).removeprefix("string:").split(":")[0]
        assert f"big.cif, line {line}: " in str(caught.value)


@pytest.mark.slow
def test_memory_of_a_long_file_is_a_few_times_its_length(tmp_path: Path) -> None:
    """gemmi's document takes thirty times the file, in Python's texts more."""
    path = tmp_path / "big.cif"
    _large(path, 200_000, 2, ending=" ")
    code = (
        "import resource, sys, molrec_convert\n"
        "import gemmi, numpy, molrec_pdb.mmcif.record, molrec_pdb.mmcif.write\n"
        "unit = 1 if sys.platform == 'darwin' else 1024\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit\n"
        "before = peak()\n"
        "record = molrec_convert.read(sys.argv[1])\n"
        "record.trajectory[1]['atoms']['x'].sum()\n"
        "read = peak() - before\n"
        "molrec_convert.write(record, sys.argv[2])\n"
        "print(read, peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(tmp_path / "back.cif")], check=True, capture_output=True, text=True
    )
    size = path.stat().st_size
    assert size > 15e6
    read_peak, peak = map(int, done.stdout.split())
    assert read_peak < 6 * size
    assert peak < 9 * size
