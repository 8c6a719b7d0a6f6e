"""Fields of rows as the letters of their columns say, and what is said of a row at fault."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert.text.rows import RowFault
from molrec_convert.text.texts import Texts
from molrec_xyz.columns import FileColumn, RowLayout
from molrec_xyz.scan import fault_sentence, read_fields


def bits(values: Iterable[Any]) -> list[bytes]:
    """The bits of doubles; text has one NaN only."""
    return [b"nan" if math.isnan(float(value)) else struct.pack("<d", float(value)) for value in values]


def layout_of(letters: str, surplus: int = 0, *, more: bool = False) -> RowLayout:
    columns = tuple(FileColumn(f"c{number}", letter, 1) for number, letter in enumerate(letters))
    return RowLayout(columns, surplus, open=more)


def read(text: bytes, layout: RowLayout) -> list[Any]:
    count = len(layout.letters)
    spans = np.array([[0, len(text), text.count(b"\n")]])
    return read_fields(Texts(text), spans, layout, [None] * count, [True] * count)


@given(st.lists(st.tuples(st.sampled_from(["C", "O2-"]), st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans())))
@settings(max_examples=200)
def test_fields_of_all_letters(table: list[tuple[str, int, float, bool]]) -> None:
    text = "".join(f"  {s}\t{i}  {r!r} {'T' if b else 'F'} \r\n" for s, i, r, b in table).encode()
    words, integers, reals, logicals = read(text, layout_of("SIRL"))
    assert [words.words[code].decode() for code in words.codes] == [row[0] for row in table]
    assert list(integers) == [row[1] for row in table]
    assert bits(reals) == bits(row[2] for row in table)
    assert list(logicals) == [row[3] for row in table]


def test_exponents_of_fortran_and_mathematica() -> None:
    one, other = read(b"1.0D-03 1.2*^-6\n-1d5 .5\n", layout_of("RR"))
    assert one.tolist() == [1e-3, -1e5]
    assert other.tolist() == [1.2e-6, 0.5]


def test_fields_beyond_the_columns() -> None:
    assert read(b"1 x 2\n3 y 4\n", layout_of("R", 2))[0].tolist() == [1.0, 3.0]
    assert read(b"1\n3 y 4\n", layout_of("R", 2, more=True))[0].tolist() == [1.0, 3.0]
    with pytest.raises(RowFault):
        read(b"1 x\n", layout_of("R", 2))


@pytest.mark.parametrize(
    ("text", "letters", "row", "found", "expected"),
    [
        (b"1 2\n3\n", "RR", 1, "1 fields in '3'", "2 (c0:R:1 c1:R:1)"),
        (b"1 2\n3 4 5\n", "RR", 1, "3 fields in '3 4 5'", "2 (c0:R:1 c1:R:1)"),
        (b"1 2\n3 x\n", "RR", 1, "'x'", "a number (c1)"),
        (b"1 2\n3 0x10\n", "RR", 1, "'0x10'", "a number (c1)"),
        (b"1 2\n3 1_0\n", "RR", 1, "'1_0'", "a number (c1)"),
        (b"1 2\n3 1e999\n", "RR", 1, "'1e999'", "a number within the range of binary64 (c1)"),
        (b"1 2\n3 4.0\n", "RI", 1, "'4.0'", "an integer (c1)"),
        (b"1 2\n3 99999999999999999999\n", "RI", 1, "'99999999999999999999'", "an integer of at most 63 bits (c1)"),
        (b"1 T\n3 1\n", "RL", 1, "'1'", "T or F (c1)"),
        (b"1 T\n3 t\n", "RL", 1, "'t'", "T or F (c1)"),
    ],
)
def test_faults(text: bytes, letters: str, row: int, found: str, expected: str) -> None:
    with pytest.raises(RowFault) as caught:
        read(text, layout_of(letters))
    assert caught.value.row == row
    assert fault_sentence(caught.value, layout_of(letters)) == (found, expected)


def test_arrays_of_a_single_frame_are_its_record_s_own(tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_text("2\n\nH 0.0 0.0 0.0\nO 1.0 0.0 0.0\n")
    with molrec_convert.read(path, as_="collection") as collection:
        collection[0].trajectory[0]["atoms"]["x"][:] = 7.0
        assert collection[0].trajectory[0]["atoms"]["x"].tolist() == [0.0, 1.0]
