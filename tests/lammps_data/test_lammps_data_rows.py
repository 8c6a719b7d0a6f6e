"""Rows of data files to arrays: the numbers Python reads, bit for bit, comments, and the first row that is none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_convert.model.dtypes import same_bits
from molrec_convert.text import rows
from molrec_convert.text.texts import Texts
from molrec_lammps.common.atom_styles import Column
from molrec_lammps.data.rows import BadRow, read_columns

COLUMNS = (Column("id", "int"), Column("type", "type"), Column("x", "float"), Column("ix", "image"))
LABELS = {b"C": 1, b"C#x": 2, "Cα".encode(): 3, b"c'": 4, b"hx-*": 5}


def parse(text, columns, rows, labels=None):
    return read_columns(Texts(text), np.array([[0, len(text), rows]]), columns, labels)


def both(text, columns, count, labels=None):
    """The result of the kernel and of its twin, required to be the same."""
    results = []
    for kernel in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not kernel:
                patch.setattr(rows, "library", lambda: None)
            try:
                results.append(parse(text, columns, count, labels))
            except BadRow as fault:
                results.append(fault)
    ours, twin = results
    assert type(ours) is type(twin), results
    if isinstance(ours, BadRow):
        assert str(ours) == str(twin)
        return ours
    assert list(ours[0]) == list(twin[0])
    for name, values in ours[0].items():
        assert same_bits(values, twin[0][name]), name
    assert (ours[1] is None) == (twin[1] is None)
    if ours[1] is not None:
        assert ours[1].tolist() == twin[1].tolist()
    return ours


integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.integers(0, 10**6).map(lambda n: f"+{n}"),
    st.integers(0, 10**6).map(lambda n: f"{n:09d}"),
)
images = st.integers(-(2**31), 2**31 - 1).map(str)
finite = st.floats(allow_nan=False, allow_infinity=False)
floats = st.one_of(
    finite.map(repr),
    finite.map(lambda x: f"{x:.17e}"),
    finite.map(lambda x: f"{x:.20E}"),
    finite.map(lambda x: f"{x:+.6g}"),
    st.integers(-(10**40), 10**40).map(lambda n: f"{n}."),
    st.integers(0, 10**30).map(lambda n: f".{n}"),
    st.integers(-400, 300).map(lambda n: f"1.{'3' * 25}e{n:+d}"),
    st.sampled_from(["-0", "-0.0", "+0.", "2.2250738585072011e-308", "4.9e-324", "1e-400", "9007199254740993"]),
)
types = st.one_of(st.integers(1, 9).map(str), st.sampled_from([label.decode() for label in LABELS]))
blanks = st.sampled_from([" ", "  ", "\t", " \t ", "      "])
tails = st.sampled_from(["", "", " ", "\t", " # note", "  #  C CYT", " # 1 2 3", "\t#x", " # héllo #2", " #"])
leads = st.sampled_from(["", "", " ", "\t", "    "])


@st.composite
def row_texts(draw):
    """Rows of `COLUMNS` in a file's many styles: words, comments, and the text."""
    words, comments, lines = [], [], []
    for _ in range(draw(st.integers(1, 6))):
        row = [draw(kind) for kind in (integers, types, floats, images)]
        tail = draw(tails)
        lines.append(draw(leads) + "".join(word + draw(blanks) for word in row[:-1]) + row[-1] + tail)
        words.append(row)
        comments.append(tail.partition("#")[2].strip())
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join(lines) + draw(st.sampled_from([end, ""]))
    return words, comments, text.encode()


@given(row_texts())
def test_rows_in_any_style_give_the_numbers_python_reads(case):
    words, comments, text = case
    arrays, found = both(text, COLUMNS, len(words), LABELS)
    assert arrays["id"].tolist() == [int(row[0]) for row in words]
    assert arrays["type"].tolist() == [LABELS.get(row[1].encode()) or int(row[1]) for row in words]
    assert same_bits(arrays["x"], np.array([float(row[2]) for row in words]))
    assert same_bits(arrays["ix"], np.array([int(row[3]) for row in words], dtype=np.int32))
    assert (found is None and not any(comments)) or found.tolist() == comments


@pytest.mark.parametrize(
    "word", ["nan", "inf", "-Infinity", "1e999", "5.0d0", "1D5", "0x10", "1_0", "1e", ".", "+", "1,5"]
)
def test_what_is_no_number_for_lammps_is_refused_by_both(word):
    fault = both(f"1 1 0.5 0\n2 1 {word} 0\n".encode(), COLUMNS, 2)
    assert (fault.row, fault.found, fault.expected) == (1, repr(word), "a finite number as 'x'")


@pytest.mark.parametrize("word", ["1.0", "1e3", "0x10", "1_0", "nan", "--1", "1-", "1#c", "", "9223372036854775808"])
def test_what_is_no_integer_for_lammps_is_refused_by_both(word):
    fault = both(f"1 1 0.5 0\n{word} 1 0.5 0\n".encode(), COLUMNS, 2)
    assert fault.row == 1
    expected = "4 columns" if not word else "an integer of 64 bits" if len(word) > 9 else "an integer"
    assert fault.expected.startswith(expected)


@pytest.mark.parametrize(
    ("text", "row", "found"),
    [
        ("1 1 1 0\n\n3 1 1 0\n", 1, "a blank line"),
        ("1 1 1 0\n  \t\n3 1 1 0\n", 1, "a blank line"),
        ("1 1 1 0\n# 2 1 1 0\n3 1 1 0\n", 1, "a comment line"),
        ("1 1 1 0\n2 1 1\n3 1 1 0\n", 1, "3 columns: '2 1 1'"),
        ("1 1 1 0\n2 1 1 0 0\n3 1 1 0\n", 1, "5 columns: '2 1 1 0 0'"),
        ("1 1 1\n2 1 1 0 0\n3 1 1 0\n", 0, "3 columns: '1 1 1'"),
        ("1 1 1 0\n2 1 1 0\n", 2, "the end of the file"),
        ("1 1 1 0\n2 1 1 0\rx 3 1 1 0\n3 1 1 0\n", 1, "9 columns: '2 1 1 0 x 3 1 1 0'"),
        ("1 1 1 0\n2 1 1 0\r3 1 1 0\n4 1 1 0\n", 1, "8 columns: '2 1 1 0 3 1 1 0'"),
        ("1 1 1 0\n2 C 1 0\n3 1 1 0\n", 1, "'C'"),
        ("1 1 1 0\n2 1 1 2147483648\n3 1 1 0\n", 1, "'2147483648'"),
        ("\ufeff1 1 1 0\n2 1 1 0\n3 1 1 0\n", 0, repr("\ufeff1")),
    ],
)
def test_the_first_row_that_does_not_fit_is_named_by_both(text, row, found):
    fault = both(text.encode(), COLUMNS, 3)
    assert (fault.row, fault.found) == (row, found)


def test_control_characters_do_not_pass_for_blanks_or_vanish():
    fault = both(b"1 1 1 0\n2 1 1 0\0\n", COLUMNS, 2)
    assert (fault.row, fault.found, fault.expected) == (1, repr("0\0"), "an integer as 'ix'")


def test_labels_the_file_does_not_define_are_refused():
    fault = both(b"1 C 1 0\n2 N 1 0\n", COLUMNS, 2, LABELS)
    assert (fault.row, fault.found) == (1, "'N'")
    assert fault.expected == "an integer or one of the file's type labels as 'type'"


def test_a_skipped_column_may_hold_anything():
    columns = (Column("index", "skip"), Column("type", "type"), Column("atomi", "int"))
    arrays, _ = both(b"x 1 5\n-7.5 2 6\n", columns, 2)
    assert list(arrays) == ["type", "atomi"]
    assert arrays["atomi"].tolist() == [5, 6]


def test_a_blank_before_a_row_is_no_column():
    columns = (Column("index", "skip"), Column("type", "type"), Column("atomi", "int"))
    for text in (b" 1 2\n1 1 2\n", b"1 1 2\n 1 2\n", b"1 1 2\n\t1 2\n"):
        fault = both(text, columns, 2)
        assert fault.found.startswith("2 columns")
    arrays, _ = both(b" 9 1 2\n  x 3 4\n", columns, 2)
    assert arrays["atomi"].tolist() == [2, 4]


def test_a_fault_of_labels_or_images_is_named_before_a_later_one_of_numbers():
    fault = both(b"1 C 1 0\n2 N 1 0\n3 C y 0\n", COLUMNS, 3, LABELS)
    assert (fault.row, fault.found) == (1, "'N'")
    fault = both(b"1 1 1 0\n2 1 1 2147483648\n3 1 y 0\n", COLUMNS, 3)
    assert (fault.row, fault.found) == (1, "'2147483648'")


def test_comments_of_a_piece_that_is_not_utf8_are_kept():
    _, comments = both(b"1 1 1 0 # \xe5\n2 1 1 0\n", COLUMNS, 2)
    assert comments.tolist() == ["å", ""]
