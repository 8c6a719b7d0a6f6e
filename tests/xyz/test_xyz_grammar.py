"""Keys and values of second lines: every form of the grammar, and what is seen beside it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xyz_texts import meta_of, read_text

from molrec_convert import Report
from molrec_convert.errors import FormatError
from molrec_convert.report import Fate
from molrec_xyz.columns import file_name, record_name
from molrec_xyz.headers import Document, parse_line, typed
from molrec_xyz.write import key_text, value_text

HEAD = "Properties=species:S:1:pos:R:3"


def values(line: str) -> dict[str, Any]:
    return {pair.key: typed(pair.form, pair.raw) for pair in parse_line(line)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("+1", 1),
        ("-12345678901", -12345678901),
        ("007", "007"),
        ("1_000", "1_000"),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e5", 1e5),
        ("1d5", 1e5),
        ("1D-3", 1e-3),
        ("T", True),
        ("True", True),
        ("true", True),
        ("TRUE", True),
        ("F", False),
        ("false", False),
        ("t", "t"),
        ("TRue", "TRue"),
        ('"1 2 3"', [1, 2, 3]),
        ("'1 2 3'", [1, 2, 3]),
        ("{1 2 3}", [1, 2, 3]),
        ('"1,2,3"', [1, 2, 3]),
        ('"1 2.5"', [1.0, 2.5]),
        ('"hello world"', "hello world"),
        ("'hello world'", "hello world"),
        ("{a b c}", ["a", "b", "c"]),
        ("[1,2]", [1, 2]),
        ("[1, 2.5]", [1.0, 2.5]),
        ("[T,F]", [True, False]),
        ("[1]", [1]),
        ('[x,"y z"]', ["x", "y z"]),
        ("[[1,2],[3,4]]", [[1, 2], [3, 4]]),
        ("[1 2 3]", [1, 2, 3]),
        ("1,2,3", "1,2,3"),
        ('""', ""),
        ("b=c", "b=c"),
        ('"_JSON {\\"a\\": [1, null]}"', Document({"a": [1, None]})),
        ('"\\5"', "5"),
        ('"a\\nb"', "a\nb"),
        ('"a\\\\b"', "a\\b"),
        ('"a\\"b"', 'a"b'),
        ("{7}", 7),
        ("[]", []),
        ("inf", math.inf),
        ("-INF", -math.inf),
        ("a[1", "a[1"),
        ("[1,2", "[1,2"),
        ("2019-11-02T08:30:00", "2019-11-02T08:30:00"),
    ],
)
def test_forms(text: str, value: Any) -> None:
    assert values(f"before=1 a={text} after=x") == {"before": 1, "a": value, "after": "x"}
    found = values(f"a={text}")["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a = 1 b=2", {"a": 1, "b": 2}),
        ("flag", {"flag": True}),
        ("flag other=1 last", {"flag": True, "other": 1, "last": True}),
        ("a= b=2", {"a": "", "b": 2}),
        ("a=", {"a": ""}),
        (
            '"key with space"=1 2key=2 k-d=3 k.x=4 k/x=5 k:x=6',
            {
                "key with space": 1,
                "2key": 2,
                "k-d": 3,
                "k.x": 4,
                "k/x": 5,
                "k:x": 6,
            },
        ),
        ('a="unclosed b=1', {"a": '"unclosed', "b": 1}),
        ("=1 b=2", {"1": True, "b": 2}),
        ("", {}),
    ],
)
def test_lines(line: str, expected: dict[str, Any]) -> None:
    assert values(line) == expected


def test_nan_is_a_number() -> None:
    assert math.isnan(values("a=nan")["a"])


def frames(*heads: str) -> str:
    return "".join(f"1\n{HEAD} {head}\nH 0 0 0\n" for head in heads)


@pytest.mark.parametrize(
    ("heads", "tag", "expected"),
    [
        (("k=1", "k=2"), "i64", [1, 2]),
        (("k=1", "k=2.5"), "f64", [1.0, 2.5]),
        (("energy=1", "energy=-2"), "f64", [1.0, -2.0]),
        (("k=1", ""), "json", [1, None]),
        (("k=1.5", ""), "f64", [1.5, None]),
        (("k=nan", ""), "f64", [None, None]),
        (("k=1.5", "k=None"), "f64", [1.5, None]),
        (("k=1", "k=None", ""), "json", [1, None, None]),
        (("k=None", "k=T"), "json", [None, True]),
        (('stress="1 2 3 4 5 6 7 8 9"', "stress=None"), "f64x9", [[1.0, 4, 7, 2, 5, 8, 3, 6, 9], None]),
        (("energy=None", "energy=None"), "f64", [None, None]),
        (("k=None", "k=None"), "string", ["None", "None"]),
        (("k=None", "k=a"), "string", ["None", "a"]),
        (("k=None", "k=a", ""), "json", ["None", "a", None]),
        (("k=T", ""), "json", [True, None]),
        (("k=a", ""), "json", ["a", None]),
        (("k=a", "k=b"), "string", ["a", "b"]),
        (("k=a", "k=1"), "json", ["a", 1]),
        (('k="1 2 3"', 'k="4 5 6"'), "i64x3", [[1, 2, 3], [4, 5, 6]]),
        (('k="1 2 3"', 'k="4 5 6.5"'), "f64x3", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]]),
        (('k="1 2 3.5"', ""), "f64x3", [[1.0, 2.0, 3.5], None]),
        (('k="T F T"', "k=[T,T,T]"), "bool3", [[True, False, True], [True, True, True]]),
        (('k="1 2 3 4 5 6"', 'k="1 2 3 4 5 6"'), "f64x6", [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]] * 2),
        (
            ('virial="1 2 3 4 5 6 7 8 9"', "virial=[[1,2,3],[4,5,6],[7,8,9.5]]"),
            "f64x9",
            [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.5]],
        ),
        (('k="1 2"', 'k="1 2 3"'), "json", [[1, 2], [1, 2, 3]]),
        (("k=18446744073709551616", "k=1"), "json", [18446744073709551616, 1]),
        (("temp=300", "temp=301"), "f64", [300.0, 301.0]),
        (('k="_JSON [1, \\"a\\"]"', 'k="_JSON null"'), "json", [[1, "a"], None]),
    ],
)
def test_one_tag_for_all_frames(tmp_path: Path, heads: tuple[str, ...], tag: str, expected: list[Any]) -> None:
    record = read_text(tmp_path, frames(*heads))
    (key,) = record.trajectory.declaration.meta
    entry = record.trajectory.declaration.meta[key]
    assert entry.dtype == tag
    found = [meta_of(record, index).get(key) for index in range(len(heads))]
    np.testing.assert_equal(found, expected)
    assert [type(a) for a in found] == [type(b) for b in expected]


@pytest.mark.parametrize(
    ("heads", "name", "dtype", "expected", "stated"),
    [
        (("energy=-1.5", "energy=nan", "step=2"), "pe", "f64", [-1.5, None, None], 1),
        (("energy=-1.5", "energy=nan"), "pe", "f64", [-1.5, np.nan], 0),
        (("energy=-1.5", ""), "pe", "f64", [-1.5, None], 0),
        (('k="1 2 3"', 'k="nan nan nan"', ""), "k", "f64x3", [[1.0, 2.0, 3.0], None, None], 1),
        (('k="1 2 3.5"', 'k="nan 1 2"', ""), "k", "f64x3", [[1.0, 2.0, 3.5], [np.nan, 1.0, 2.0], None], 0),
    ],
)
def test_nan_beside_frames_that_state_nothing(
    tmp_path: Path, heads: tuple[str, ...], name: str, dtype: str, expected: list[Any], stated: int
) -> None:
    report = Report()
    record = read_text(tmp_path, frames(*heads), report)
    assert record.trajectory.declaration.meta[name].dtype == dtype
    np.testing.assert_equal([meta_of(record, index).get(name) for index in range(len(heads))], expected)
    lost = [item.detail for item in report.items if item.fate is Fate.DROPPED]
    assert lost == [f"which frames state NaN ({stated}) and which nothing: both are NaN"] * (stated > 0)


def test_lines_that_are_written_alike_and_those_that_are_not(tmp_path: Path) -> None:
    heads = ['a=1 b="x y"', 'a=2 b="z"', 'b="w" a=3', "a=4 b=[1,2]", 'a=5 b="q\\"r"', 'a=6 b="s"', 'a=7  b="t"']
    record = read_text(tmp_path, frames(*heads))
    assert [meta_of(record, index)["a"] for index in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    assert [meta_of(record, index)["b"] for index in range(7)] == ["x y", "z", "w", [1, 2], 'q"r', "s", "t"]


def test_a_repeated_key(tmp_path: Path) -> None:
    report = Report()
    assert meta_of(read_text(tmp_path, frames("a=1 a=2"), report)) == {"a": 2}
    assert any("the key a comes more than once" in text for text in report.warnings)


@pytest.mark.parametrize(
    ("head", "vectors", "boundary"),
    [
        ('Lattice="1 0 0 0 2 0 0.5 0 3"', [[1, 0, 0], [0, 2, 0], [0.5, 0, 3]], [True] * 3),
        ("Lattice=[[1,0,0],[0,2,0],[0.5,0,3]]", [[1, 0, 0], [0, 2, 0], [0.5, 0, 3]], [True] * 3),
        ('Lattice="1,0,0,0,2,0,0,0,3" pbc="T F 1"', [[1, 0, 0], [0, 2, 0], [0, 0, 3]], [True, False, True]),
        ("Lattice={1 0 0 0 2 0 0 0 3} pbc=[T,F,T]", [[1, 0, 0], [0, 2, 0], [0, 0, 3]], [True, False, True]),
        ('Lattice="1 0 0 0 2 0 0 0 3" pbc=T', [[1, 0, 0], [0, 2, 0], [0, 0, 3]], [True] * 3),
        ('Lattice="1 0 0 0 2 0 0 0 3" pbc=TTF', [[1, 0, 0], [0, 2, 0], [0, 0, 3]], [True, True, False]),
        ('Lattice="1 0 0 0 2 0 0 0 3" pbc="t f t"', [[1, 0, 0], [0, 2, 0], [0, 0, 3]], [True, False, True]),
        ('Lattice="1D0 0 0 0 2.0 0 0 0 3"', [[1, 0, 0], [0, 2, 0], [0, 0, 3]], [True] * 3),
    ],
)
def test_cells(tmp_path: Path, head: str, vectors: list[list[float]], boundary: list[bool]) -> None:
    box = read_text(tmp_path, frames(head)).trajectory[0].box
    assert box.vectors.T.tolist() == vectors
    assert box.boundary.tolist() == boundary


def test_origin(tmp_path: Path) -> None:
    record = read_text(tmp_path, frames('Lattice="1 0 0 0 2 0 0 0 3" Origin="1 2 3"'))
    assert record.trajectory[0].box.origin.tolist() == [1.0, 2.0, 3.0]
    assert meta_of(read_text(tmp_path, frames('Origin="1 2 3"'))) == {"Origin": [1, 2, 3]}


def test_no_cell_that_is_said_to_be_periodic(tmp_path: Path) -> None:
    record = read_text(tmp_path, frames('pbc="T T F"'))
    assert record.trajectory[0].box is None
    assert meta_of(record) == {"pbc": [True, True, False]}


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ('Lattice="1 2 3"', "line 2: found Lattice='1 2 3', expected 9 numbers"),
        ('Lattice="1 0 0 0 1 0 0 0 x"', "expected 9 numbers"),
        ('Lattice="1 0 0 0 1 0 0 0 1" pbc="T F"', "line 2: found pbc='T F', expected three of T and F"),
        ('Lattice="1 0 0 0 1 0 0 0 1" pbc=xyz', "expected three of T and F"),
    ],
)
def test_cells_that_are_none(tmp_path: Path, head: str, words: str) -> None:
    with pytest.raises(FormatError, match=r"a\.xyz, line 2") as caught:
        read_text(tmp_path, frames(head))
    assert words in str(caught.value)


keys = st.text(min_size=1).filter(lambda text: "\n" not in text and "\r" not in text and not text.isspace())
plain = st.text(st.characters(codec="utf-8"))
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=8,
)


@given(st.text(st.characters(codec="utf-8")))
def test_every_string_reads_back(text: str) -> None:
    (pair,) = parse_line("k=" + value_text(text, "string", repr))
    found = typed(pair.form, pair.raw)
    assert (found.value if isinstance(found, Document) else found) == text


@given(documents)
def test_every_document_reads_back(document: Any) -> None:
    (pair,) = parse_line("k=" + value_text(document, "json", repr))
    found = typed(pair.form, pair.raw)
    found = found.value if isinstance(found, Document) else found
    assert found == document
    assert type(found) is type(document)


@given(st.floats() | st.integers(-(2**63), 2**63 - 1) | st.booleans())
def test_every_scalar_reads_back(value: Any) -> None:
    tag = {float: "f64", int: "i64", bool: "bool"}[type(value)]
    (pair,) = parse_line("k=" + value_text(value, tag, repr))
    found = typed(pair.form, pair.raw)
    assert type(found) is type(value)
    np.testing.assert_equal(found, value)


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1))
def test_every_key_reads_back(key: str) -> None:
    if key.isspace():
        return
    pairs = parse_line(f"before=1 {key_text(key)}=2 after=3")
    assert [pair.key for pair in pairs] == ["before", key, "after"]


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_names_come_back(name: str) -> None:
    assert file_name(record_name(name)) == name
    assert file_name(record_name(name, {name})) == name
    assert record_name(name, {name}) != name
