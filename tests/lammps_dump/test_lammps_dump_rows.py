"""Rows of a dump: the quick parser and the plain one give the same bits, and refuse the same texts."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_lammps.dump import rows as dump_rows
from molrec_lammps.dump.rows import RowFault, Texts, kind_of, parse_rows, plain_rows

pytest.importorskip("pyarrow")

NAMES = ("id", "element", "x", "type", "v_a", "i_n")


def spelled(column: Any) -> list[Any]:
    """A column in a form that compares bit for bit."""
    if isinstance(column, Texts):
        return [column.words[code] for code in column.codes]
    if column.dtype == np.float64:
        return column.view(np.int64).tolist()
    return column.tolist()


def both(text: bytes, rows: int, names: tuple[str, ...] = NAMES, finite: tuple[str, ...] = ()) -> Any:
    """What the two parsers make of a text; they must agree."""
    results = []
    for parser in (parse_rows, plain_rows):
        try:
            columns = parser(text, rows, names, names, finite)
            results.append({name: spelled(values) for name, values in columns.items()})
        except RowFault as fault:
            results.append((fault.row, fault.expected if fault.row is not None else None))
    assert results[0] == results[1]
    return results[0]


def is_quick(text: bytes, rows: int, names: tuple[str, ...] = NAMES) -> bool:
    return dump_rows._quick_rows(text, rows, names, names) is not None


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


class TestBothParsers:
    @pytest.mark.slow
    @given(rows_of_text, st.sampled_from([" ", " ", "  ", "\t", " \t"]), st.sampled_from(["", "", " ", "\r", "\t "]))
    @settings(max_examples=300)
    def test_equal_bit_for_bit(self, rows: list[tuple[str, ...]], blank: str, end: str) -> None:
        text = "".join(blank.join(row) + end + "\n" for row in rows).encode()
        columns = both(text, len(rows))
        assert isinstance(columns, dict)
        assert columns["x"] == [struct.unpack("q", struct.pack("d", float(row[2])))[0] for row in rows]
        assert columns["id"] == [int(row[0]) for row in rows]
        assert columns["element"] == [row[1].encode() for row in rows]

    @given(st.integers(0, 5), st.text(st.sampled_from('0123456789.eE+-_xXnaifNI()dD" \t\n'), max_size=8))
    @settings(max_examples=500)
    def test_agree_on_damage(self, place: int, token: str) -> None:
        row = ["1", "C", "1.5", "2", "-3e-2", "7"]
        row[place] = token
        both(("9 O 1 1 1 1\n" + " ".join(row) + "\n").encode(), 2)

    @pytest.mark.parametrize("blank_end", ["", " "])
    def test_what_lammps_writes_takes_the_quick_way(self, blank_end: str) -> None:
        row = f"12 O -0.839798 1 1.6e-05 -4{blank_end}\n".encode()
        assert is_quick(row * 1000, 1000)

    def test_wide_fields_take_the_quick_way_too(self) -> None:
        text = b"  1 C   1.500000   1  -0.250000  0 \n" * 100
        assert is_quick(text, 100)
        assert both(text, 100)["i_n"] == [0] * 100

    def test_half_of_a_text_may_have_other_blanks(self) -> None:
        text = b"1 C 1.5 1 2 3\n" * 5 + b" 1  C\t1.5 1 2 3 \n" * 5
        assert both(text, 10)["type"] == [1] * 10

    def test_lines_may_end_as_on_windows(self) -> None:
        text = b"1 C 1.5 1 2 3\r\n" * 5
        assert both(text, 5)["i_n"] == [3] * 5
        assert is_quick(text, 5)

    def test_quotes_and_commas_are_text_like_any_other(self) -> None:
        assert both(b'1 "C 1.5 1 2 3\n2 a,b" 1 1 2 3\n', 2)["element"] == [b'"C', b'a,b"']

    def test_without_pyarrow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
        text = b"1 C 1.5 1 2 3\n"
        assert not is_quick(text, 1)
        assert spelled(parse_rows(text, 1, NAMES, NAMES)["x"]) == spelled(np.array([1.5]))


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
        columns = parse_rows(b"1 5 1 1 1 1\n", 1, NAMES, NAMES)
        assert columns["x"].dtype == np.float64
        assert columns["v_a"].dtype == np.float64
        assert columns["i_n"].dtype == np.int64
        assert columns["element"].words == [b"5"]

    def test_ids_beyond_two_to_the_53rd_are_exact(self) -> None:
        ids = [2**32 + 1, 2**53 + 1, 2**63 - 1]
        text = "".join(f"{i} C 0 1 0 0\n" for i in ids).encode()
        assert both(text, 3)["id"] == ids


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
        for parser in (parse_rows, plain_rows):
            with pytest.raises(RowFault) as caught:
                parser(text, 3, NAMES, NAMES, ("x",))
            assert (caught.value.row, caught.value.found, caught.value.expected) == (1, found, expected)

    def test_another_number_of_rows_is_no_row_of_its_own(self) -> None:
        for rows in (1, 3):
            with pytest.raises(RowFault) as caught:
                parse_rows(b"1 C 0 1 0 0\n2 C 0 1 0 0\n", rows, NAMES, NAMES)
            assert caught.value.row is None

    def test_a_value_too_many_here_and_too_few_there_is_no_balance(self) -> None:
        assert both(b"1 C 0 1 0 0 7\n2 C 0 1 0\n", 2)[0] == 0


class TestNotANumber:
    def test_outside_coordinates_it_is_a_value(self) -> None:
        text = b"1 C 0 1 nan 0\n2 C 0 1 -nan 0\n3 C 0 1 inf 0\n4 C 0 1 -inf 0\n"
        values = parse_rows(text, 4, NAMES, NAMES, ("x",))["v_a"]
        assert np.isnan(values[:2]).all()
        assert math.copysign(1, values[1]) == -1
        assert values[2:].tolist() == [math.inf, -math.inf]
        both(text, 4)
