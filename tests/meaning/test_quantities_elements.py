"""The elements of atom types as a user names them: one spelling for all formats."""

from __future__ import annotations

from pathlib import Path

import ase.io
import pytest

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.errors import UsageError
from molrec_convert.quantities.elements import NUMBERS, SYMBOLS, UNKNOWN, parse_elements

DATA = """silica

3 atoms
2 atom types
0 10 xlo xhi
0 10 ylo yhi
0 10 zlo zhi

Masses

1 28.0855 # Si
2 15.9994 # O

Atoms # atomic

1 1 1 1 1
2 2 2 2 2
3 2 3 3 3
"""


def test_symbols_are_those_of_the_periodic_table() -> None:
    periodictable = pytest.importorskip("periodictable")
    assert (UNKNOWN, *(e.symbol for e in periodictable.elements if e.number > 0)) == SYMBOLS
    assert NUMBERS["H"] == 1
    assert NUMBERS["Og"] == 118
    assert UNKNOWN not in NUMBERS


def test_in_order_by_number_and_by_label() -> None:
    assert parse_elements(["C", "X", "H"]).of_types(3) == ["C", None, "H"]
    assert parse_elements(["2=O", " 1 = Si"]).of_types(2) == ["Si", "O"]
    assert parse_elements(["HC=H", "CT=C", "3=X"]).of_types(3, ["CT", "HC", "bead"]) == ["C", "H", None]
    assert parse_elements(["C-H=C"]).of_labels(["C-H"]) == {"C-H": "C"}
    assert parse_elements(["O", "H"]).of_labels(["2", "1"]) == {"1": "O", "2": "H"}
    assert parse_elements(["C", "H"]).of_labels(["HC", "CT"]) == {"CT": "C", "HC": "H"}
    assert not parse_elements([])
    assert str(parse_elements(["1=Si", "2=X"])) == "1=Si,2=X"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["Si", "O", "", "H"], "a symbol is missing between two commas"),
        (["Si", "Q"], "'Q' is no element symbol"),
        (["1=Si", "O"], "name all types"),
        (["1=Si", "1=O"], "type 1 is named twice"),
        (["1="], "is no type=symbol"),
        (["=O"], "is no type=symbol"),
    ],
)
def test_what_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_elements(words)


def test_each_type_has_an_element_and_each_element_a_type() -> None:
    with pytest.raises(UsageError, match="2 symbols for 3 atom types"):
        parse_elements(["C", "H"]).of_types(3)
    with pytest.raises(UsageError, match=r"atom type 2 \(HC\) is not named"):
        parse_elements(["1=C"]).of_types(2, ["CT", "HC"])
    with pytest.raises(UsageError, match="there is no atom type '7', but types 1 to 1"):
        parse_elements(["1=C", "7=H"]).of_types(1)
    with pytest.raises(UsageError, match="2 symbols for the types A, B, C"):
        parse_elements(["C", "H"]).of_labels(["A", "B", "C"])


class TestOnTheCommandLine:
    @pytest.fixture
    def data(self, tmp_path: Path) -> Path:
        path = tmp_path / "silica.data"
        path.write_text(DATA)
        return path

    @pytest.mark.parametrize("words", ["Si,O", "1=Si,2=O", "2=O,1=Si"])
    def test_both_spellings(self, data: Path, words: str) -> None:
        target = data.parent / "a.extxyz"
        assert run(["convert", str(data), str(target), "--elements", words, "--units", "metal"]) == 0
        assert str(ase.io.read(target).symbols) == "SiO2"

    def test_a_word_that_is_missing(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["convert", str(data), str(data.parent / "a.mrec"), "--elements", "Si,O,,H"]) == 2
        assert "missing between two commas" in capsys.readouterr().err
        assert not (data.parent / "a.mrec").exists()

    def test_comments_behind_masses_are_offered(self, data: Path) -> None:
        report = molrec_convert.Report()
        record = molrec_convert.read(data, units="metal", guess_elements=True, report=report)
        assert record.system is not None
        assert record.system["atoms"]["element"].tolist() == ["Si", "O", "O"]
        assert any("from the comments behind masses" in str(item) for item in report.items)
        without = molrec_convert.read(data, units="metal").system
        assert without is not None
        assert "element" not in without["atoms"]

    def test_a_comment_its_mass_contradicts(self, data: Path) -> None:
        data.write_text(DATA.replace("28.0855 # Si", "72.0 # C"))
        record = molrec_convert.read(data, units="metal", guess_elements=True)
        assert record.system is not None
        column = record.system["atoms"].columns["element"]
        assert column.validity is not None
        assert column.validity.tolist() == [False, True, True]
