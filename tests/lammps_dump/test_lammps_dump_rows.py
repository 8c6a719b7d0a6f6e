"""Rows of a dump: exact, and refused where they are not as they should be."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.text.rows import Words
from molrec_lammps.dump.rows import RowFault, kind_of, parse_rows

NAMES = ("id", "element", "x", "type", "v_a", "i_n")


def spelled(column: Any) -> list[Any]:
    """A column in a form that compares bit for bit."""
    if isinstance(column, Words):
        return [column.words[code] for code in column.codes]
    if column.dtype == np.float64:
        return column.view(np.int64).tolist()
    return column.tolist()


def parse(text: bytes, rows: int, finite: tuple[str, ...] = ()) -> dict[str, Any]:
    return parse_rows(text, np.array([[0, len(text), rows]]), NAMES, NAMES, finite)


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-100, 100).map(lambda value: f"{value:g}"),
    st.floats(-1e3, 1e3).map(lambda value: f"{value:.17g}"),
    st.floats(-1e-3, 1e3).map(lambda value: f"{value:-1.16e}"),
    st.integers(-(10**25), 10**25).map(str),
    st.tuples(st.integers(0, 2**53), st.integers(-30, 30)).map(lambda pair: f"{pair[0]}.5e{pair[1]}"),
    st.sampled_from(
        ["-0", "0", "-0.0", "5e-324", "2.2250738585072011e-308", "1.7976931348623157e308", "+1", "1.", ".5"]
    ),
)
integers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(2**32 - 2, 2**32 + 2), st.integers(1, 100)).map(str)
words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=6)
rows_of_text = st.lists(st.tuples(integers, words, numbers, integers, numbers, integers), min_size=1, max_size=20)


class TestValues:
    @given(rows_of_text, st.sampled_from([" ", " ", "  ", "\t", " \t"]), st.sampled_from(["", "", " ", "\r", "\t "]))
    @settings(max_examples=300)
    def test_equal_bit_for_bit(self, rows: list[tuple[str, ...]], blank: str, end: str) -> None:
        text = "".join(blank.join(row) + end + "\n" for row in rows).encode()
        columns = parse(text, len(rows))
        assert spelled(columns["x"]) == [struct.unpack("q", struct.pack("d", float(row[2])))[0] for row in rows]
        assert spelled(columns["id"]) == [int(row[0]) for row in rows]
        assert spelled(columns["element"]) == [row[1].encode() for row in rows]

    def test_blanks_and_ends_of_lines_of_any_kind(self) -> None:
        text = b"1 C 1.5 1 2 3\n" * 5 + b" 1  C\t1.5 1 2 3 \n" * 5 + b"1 C 1.5 1 2 3\r\n" * 5
        assert spelled(parse(text, 15)["type"]) == [1] * 15

    def test_quotes_and_commas_are_text_like_any_other(self) -> None:
        assert spelled(parse(b'1 "C 1.5 1 2 3\n2 a,b" 1 1 2 3\n', 2)["element"]) == [b'"C', b'a,b"']

    def test_of_columns_of_one_name_the_first_is_read(self) -> None:
        assert parse_rows(b"1 2 3\n", None, ("x", "y", "x"), ("x",))["x"].tolist() == [1.0]


class TestKinds:
    @pytest.mark.parametrize("name", ["id", "mol", "proc", "procp1", "type", "ix", "iy", "iz", "i_flag", "i2_w[3]"])
    def test_integers(self, name: str) -> None:
        assert kind_of(name) == "integer"

    @pytest.mark.parametrize("name", ["x", "q", "c_1[2]", "d_a", "d2_a[1]", "f_i", "v_type", "idx", "vx", "mass", "i"])
    def test_reals(self, name: str) -> None:
        assert kind_of(name) == "real"

    def test_texts(self) -> None:
        assert (kind_of("element"), kind_of("typelabel")) == ("text", "text")

    def test_whatever_the_text_looks_like(self) -> None:
        columns = parse(b"1 5 1 1 1 1\n", 1)
        assert columns["x"].dtype == np.float64
        assert columns["v_a"].dtype == np.float64
        assert columns["i_n"].dtype == np.int64
        assert columns["element"].words == [b"5"]

    def test_ids_beyond_two_to_the_53rd_are_exact(self) -> None:
        ids = [2**32 + 1, 2**53 + 1, 2**63 - 1]
        text = "".join(f"{i} C 0 1 0 0\n" for i in ids).encode()
        assert parse(text, 3)["id"].tolist() == ids


class TestFaults:
    @pytest.mark.parametrize(
        ("row", "found", "expected"),
        [
            ("2 C 1.5 1 2", "5 in '2 C 1.5 1 2'", "6 values (id element x type v_a i_n)"),
            ("2 C 1.5 1 2 3 4", "7 in '2 C 1.5 1 2 3 4'", "6 values (id element x type v_a i_n)"),
            ("", "0 in an empty line", "6 values (id element x type v_a i_n)"),
            ("2.0 C 1.5 1 2 3", "'2.0'", "an integer (id)"),
            ("0x2 C 1.5 1 2 3", "'0x2'", "an integer (id)"),
            ("2 C 1.5 1_0 2 3", "'1_0'", "an integer (type)"),
            ("2 C 1.5 9223372036854775808 2 3", "'9223372036854775808'", "an integer (type) of at most 63 bits"),
            ("2 C 1,5 1 2 3", "'1,5'", "a number (x)"),
            ("2 C 1_5 1 2 3", "'1_5'", "a number (x)"),
            ("2 C 1 1 1e999 3", "'1e999'", "a number within the range of binary64 (v_a)"),
            ("2 C 1 1 -1e309 3", "'-1e309'", "a number within the range of binary64 (v_a)"),
            ("2 C nan 1 1 3", "'nan'", "a finite number (x)"),
            ("2 C -inf 1 1 3", "'-inf'", "a finite number (x)"),
            ("2 C 1e400 1 1 3", "'1e400'", "a finite number (x)"),
        ],
    )
    def test_named_with_their_row(self, row: str, found: str, expected: str) -> None:
        text = f"1 C 0 1 0 0\n{row}\n3 C 0 1 0 0\n".encode()
        first = text.index(b"\n") + 1
        for spans in ([[0, len(text), 3]], [[0, first, 1], [first, len(text), 2]]):
            with pytest.raises(RowFault) as caught:
                parse_rows(text, np.array(spans), NAMES, NAMES, ("x",))
            assert (caught.value.row, caught.value.found, caught.value.expected) == (1, found, expected)

    def test_another_number_of_rows_is_no_row_of_its_own(self) -> None:
        for rows in (1, 3):
            with pytest.raises(RowFault) as caught:
                parse(b"1 C 0 1 0 0\n2 C 0 1 0 0\n", rows)
            assert caught.value.row is None

    def test_a_value_too_many_here_and_too_few_there_is_no_balance(self) -> None:
        with pytest.raises(RowFault) as caught:
            parse(b"1 C 0 1 0 0 7\n2 C 0 1 0\n", 2)
        assert caught.value.row == 0


class TestNotANumber:
    def test_outside_coordinates_it_is_a_value(self) -> None:
        text = b"1 C 0 1 nan 0\n2 C 0 1 -nan 0\n3 C 0 1 inf 0\n4 C 0 1 -inf 0\n"
        values = parse(text, 4, ("x",))["v_a"]
        assert np.isnan(values[:2]).all()
        assert math.copysign(1, values[1]) == -1
        assert values[2:].tolist() == [math.inf, -math.inf]
