"""Rows of text: the kernel gives what its plain twin gives, and both the bits of `float` and `int`."""

from __future__ import annotations

import math
import threading
from decimal import Decimal, getcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molrec_convert._kernel import library, status
from molrec_convert.text import output, rows
from molrec_convert.text.output import Column, WideFault, write_rows
from molrec_convert.text.rows import Field, RowFault, RowTable, Words, line_ends, read_rows
from molrec_convert.text.texts import Texts

getcontext().prec = 1300
has_kernel = pytest.mark.skipif(library() is None, reason=f"rows are read by {status()}")

finite = st.floats(allow_nan=False, allow_infinity=False)
reals = st.one_of(
    finite.map(repr),
    finite.map(lambda value: f"{value:g}"),
    finite.map(lambda value: f"{value:.25e}"),
    st.floats(-1e6, 1e6).map(lambda value: f"{value:16.8f}".strip()),
    st.tuples(st.integers(0, 10**40), st.integers(-400, 300)).map(lambda pair: f"{pair[0]}.5e{pair[1]}"),
    st.tuples(st.integers(2**52, 2**64), st.integers(-330, 300)).map(lambda pair: f"-{pair[0]}E{pair[1]:+04d}"),
    st.sampled_from(
        [
            "nan",
            "-inf",
            "+Infinity",
            "NaN",
            "+1",
            ".5",
            "-.5",
            "1.",
            "007",
            "-0",
            "-0.0",
            "0e999",
            "1e999",
            "-1e-999",
            "9007199254740993",
            "1d-3",
            "1D+03",
            "1*^5",
        ]
    ),
    st.sampled_from(["0." + "0" * 400 + "1e400", "1" + "0" * 900 + "e-900", "9" * 800 + "e-790", "0" * 30 + "1.5D0"]),
)
integers = st.one_of(
    st.integers(-(2**66), 2**66).map(str),
    st.integers(-99, 99).map(str),
    st.sampled_from(["+7", "0000000000000000000000012", "-9223372036854775808", "9223372036854775808", "-0", "+0"]),
)
odd = st.one_of(
    st.text("0123456789+-.eEdDxna_*^", min_size=1, max_size=12),
    st.sampled_from(
        ["T", "F", "True", "TRUE", "false", "Tr", "C", "Cα", "-", ".", "1e", "e5", "0x10", "1_0", "#", "1#"]
    ),
    st.sampled_from(["eight8by", "ninebytes", "a word of many letters".replace(" ", "_"), "H\0", "1\0"]),
)
words = st.one_of(reals, integers, odd)
blanks = st.sampled_from([" ", " ", " ", "  ", "\t", "         ", "\v"])
ends = st.sampled_from(["\n", "\n", "\n", " \n", "\r\n", " \t\n", " # said\n", "#\n", " extra 1\n", "\n\n"])
kinds = st.sampled_from(["real", "fortran", "finite", "int", "word", "bool", "skip"])


@st.composite
def tables(draw: Any) -> tuple[str, list[Field]]:
    fields = [Field(draw(kinds), None, draw(st.booleans())) for _ in range(draw(st.integers(1, 4)))]
    fitting = {"int": integers, "bool": st.sampled_from(["T", "False"]), "word": odd, "skip": odd}
    text = ""
    for _ in range(draw(st.integers(0, 5))):
        parts = [
            draw(words if draw(st.integers(0, 9)) == 0 else fitting.get(field.kind, reals)) + draw(blanks)
            for field in fields
        ]
        text += draw(st.sampled_from(["", "", "  "])) + "".join(parts) + draw(ends)
    return text[: len(text) - draw(st.sampled_from([0, 0, 0, 1]))], fields


def spelled(table: RowTable) -> list[Any]:
    """A table in a form that compares bit for bit."""
    columns = []
    for column in table.columns:
        if isinstance(column, Words):
            columns.append((column.codes.tolist(), column.words))
        else:
            values = column if column is None or column.dtype != np.float64 else column.view(np.int64)
            columns.append(values if values is None else values.tolist())
    flaws = [None if flaw is None else flaw.tolist() for flaw in table.flaws]
    return [columns, table.offsets.tolist(), flaws, None if table.comments is None else table.comments.tolist()]


def outcome(*arguments: Any, **more: Any) -> Any:
    try:
        return spelled(read_rows(*arguments, **more))
    except RowFault as fault:
        return fault.span, fault.row, fault.field, fault.reason, fault.start, fault.stop, fault.found


def both(monkeypatch: pytest.MonkeyPatch, call: Any) -> tuple[Any, Any]:
    """What a call gives with the kernel, and by plain Python."""
    first = call()
    with monkeypatch.context() as patch:
        patch.setattr(rows, "library", lambda: None)
        patch.setattr(output, "library", lambda: None)
        return first, call()


@has_kernel
@given(tables(), st.sampled_from([b"", b"#"]), st.booleans(), st.integers(0, 3))
@example(("1 2#\n3 4\n", [Field("int"), Field("word")]), b"#", True, 0)
def test_the_kernel_reads_what_its_twin_reads(table: Any, comment: bytes, extra: bool, cuts: int) -> None:
    text, fields = table[0].encode(), table[1]
    places = sorted({0, len(text), *[len(text) * part // 4 for part in range(1, cuts + 1)]})
    spans = np.array(list(pairwise(places)) or [(0, 0)], np.int64)
    counted = rows.count_lines(text, spans)
    counted[-1, 2] += cuts == 2
    for given_spans in (None, spans, counted):
        with pytest.MonkeyPatch.context() as patch:
            found, plain = both(patch, lambda: outcome(text, given_spans, fields, comment=comment, extra=extra))  # noqa: B023
        assert found == plain


@has_kernel
@given(
    st.lists(st.text(" 0123456789.-+eTF\0#A", min_size=0, max_size=30), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), kinds, st.booleans()), min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n"]),
)
def test_the_kernel_reads_fixed_columns_as_its_twin_does(lines: Any, places: Any, end: str) -> None:
    fields = [Field(kind, (start, start + width), lenient) for start, width, kind, lenient in places]
    text = end.join(lines).encode()
    with pytest.MonkeyPatch.context() as patch:
        found, plain = both(patch, lambda: outcome(text, None, fields))
    assert found == plain


def middles(value: float) -> list[str]:
    """The middle between a double and the next, and its neighbours near and far."""
    high = math.nextafter(value, math.inf)
    middle = (Decimal(value) + Decimal(high)) / 2
    return [
        format(middle * (1 + sign * Decimal(10) ** -places), form)
        for sign, places in ((0, 0), (1, 20), (-1, 20), (1, 1100), (-1, 1100))
        for form in ("e", "f")
    ]


@given(st.lists(reals, min_size=1, max_size=30), finite.filter(lambda value: abs(value) < 1e308))
@example([], 0.0)
@example([], 2.2250738585072009e-308)
@example([], 9007199254740992.0)
@example(["2.4703282292062327e-324", "2.47032822920623272e-324", "1.7976931348623158e308"], 5e-324)
def test_reals_have_the_bits_of_float(texts: list[str], value: float) -> None:
    texts = [*texts, *middles(value)]
    column = read_rows("\n".join(texts).encode(), None, [Field("fortran", None, True)]).columns[0]
    wanted = [float(text.lower().replace("d", "e").replace("*^", "e")) for text in texts]
    assert column.view(np.int64).tolist() == np.array(wanted).view(np.int64).tolist()


@given(st.lists(integers, min_size=1, max_size=30))
def test_integers_are_those_of_int_or_out_of_range(texts: list[str]) -> None:
    table = read_rows("\n".join(texts).encode(), None, [Field("int", None, True)])
    inside = [-(2**63) <= int(text) < 2**63 for text in texts]
    assert table.columns[0].tolist() == [int(text) if good else 0 for text, good in zip(texts, inside, strict=True)]
    flaws = table.flaws[0]
    assert (flaws is None) == all(inside)
    assert flaws is None or (flaws == np.where(inside, 0, 3)).all()


PLACES = [
    ("1 2\n3\n", 1, 1, "few fields", b"3"),
    ("1 2\n3 4 5\n", 1, 2, "many fields", b"3 4 5"),
    ("1 2\n3 x\n", 1, 1, "value", b"x"),
    ("1 2\n3 1e999\n", 1, 1, "range", b"1e999"),
    ("1 2\n\n3 4\n", 1, 0, "few fields", b""),
    ("1 2\n9223372036854775808 4", 1, 0, "range", b"9223372036854775808"),
]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("text", "row", "field", "reason", "found"), PLACES)
def test_faults_say_where(
    monkeypatch: pytest.MonkeyPatch, plain: bool, text: str, row: int, field: int, reason: str, found: bytes
) -> None:
    if plain:
        monkeypatch.setattr(rows, "library", lambda: None)
    data = ("0 0\n" + text).encode()
    fields = [Field("int"), Field("real")]
    with pytest.raises(RowFault) as caught:
        read_rows(data, np.array([[0, 4], [4, len(data)]]), fields)
    fault = caught.value
    assert (fault.span, fault.row, fault.field, fault.reason, fault.found) == (1, row, field, reason, found)
    assert Texts(data).line(fault.start) == row + 2
    for more, expected in ((1, "few rows"), (-1, "many rows")):
        with pytest.raises(RowFault, match=expected):
            read_rows(b"1 2\n3 4\n", np.array([[0, 8, 2 + more]]), fields)


@pytest.mark.parametrize("plain", [False, True])
def test_values_go_where_they_are_told_to(monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    if plain:
        monkeypatch.setattr(rows, "library", lambda: None)
    positions = np.zeros((3, 3))
    text = b"".join(b"C %d %d %d # row %d\n" % (n, n + 10, n + 20, n) for n in range(3))
    fields = [Field("word"), *[Field("real")] * 3]
    table = read_rows(text, None, fields, comment=b"#", out=[None, *positions.T])
    assert positions.tolist() == [[n, n + 10, n + 20] for n in range(3)]
    assert table.columns[0].words == [b"C"]
    assert table.comments is not None
    assert [text[start:stop] for start, stop in table.comments.tolist()] == [b" row %d" % n for n in range(3)]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("span", [[-1, 4, 1], [0, 5, 1], [3, 2, 0], [0, 4, -1]])
def test_spans_lie_in_the_text(monkeypatch: pytest.MonkeyPatch, span: list[int], plain: bool) -> None:
    if plain:
        monkeypatch.setattr(rows, "library", lambda: None)
    with pytest.raises(ValueError, match="spans of rows"):
        read_rows(b"1 2\n", np.array([[0, 4, 1], span]), [Field("int"), Field("int")])


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros(1, np.float32), np.zeros((1, 1))])
def test_arrays_for_values_are_of_their_kind(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="cannot take"):
        read_rows(b"1 2\n", None, [Field("real"), Field("int")], out=[wrong, None])
    with pytest.raises(ValueError, match="cannot take"):
        read_rows(b"C 2\n", None, [Field("word"), Field("int")], out=[np.zeros(1, np.int32), None])


def test_many_words_of_any_length() -> None:
    names = [f"{'w' * (n % 23)}{n * 7919 % 3001}" for n in range(20000)]
    column = read_rows("\n".join(names).encode(), None, [Field("word")]).columns[0]
    assert [column.words[code].decode() for code in column.codes] == names
    assert len(column.words) == len(set(names))


def test_threads_read_at_the_same_time() -> None:
    rng = np.random.default_rng(5)
    values = [rng.normal(size=(4000, 2)) for _ in range(4)]
    texts = ["".join(f"{a!r} {b!r}\n" for a, b in part.tolist()).encode() for part in values]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            columns = read_rows(texts[number], None, [Field("real"), Field("real")]).columns
            if (np.stack(columns, axis=1) != values[number]).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_texts_know_their_lines() -> None:
    texts = Texts.join([b"a\nb\n", b"c\nd\n", b"e"])
    assert [texts.which(place) for place in (0, 3, 4, 8)] == [0, 0, 1, 2]
    assert [texts.line(place) for place in (0, 2, 4, 6, 8)] == [1, 2, 1, 2, 1]
    assert line_ends(texts).tolist() == [1, 3, 5, 7]
    assert line_ends(texts, 2, 6).tolist() == [3, 5]


# --- writing ----------------------------------------------------------------------------------------------------------


def lines_of(column: Column) -> list[str]:
    text, ends_of_rows = write_rows([column], len(column.values))
    lines = text.decode().split("\n")[:-1]
    assert ends_of_rows.tolist() == np.cumsum([len(line) + 1 for line in lines]).tolist()
    return lines


EDGES = [
    *(
        0.0,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        5e-324,
        1.7976931348623157e308,
        1e15,
        1e16,
        1e17,
        1e22,
        1e23,
        1e-4,
        1e-5,
    ),
    *(9007199254740993.0, 123456789012345680.0, 0.5, 1.5, 2.5, 0.125, 0.0005, 0.0015, 9.9999999, 999999.5, 99999.95),
]


@given(st.lists(st.one_of(finite, st.sampled_from(EDGES)), min_size=1, max_size=40), st.integers(1, 20))
@example(EDGES, 3)
@example(EDGES, 17)
@example([2.0**power for power in range(-1074, 1024, 7)] + [10.0**power for power in range(-323, 309)], 6)
def test_reals_are_written_as_python_writes_them(values: list[float], digits: int) -> None:
    column = np.array(values)
    assert lines_of(Column("shortest", column, b"")) == [repr(value) for value in values]
    trimmed = lines_of(Column("shortest", column, b"", whole_point=False))
    assert trimmed == [output.real_text(value) for value in values]
    assert lines_of(Column("general", column, b"", digits)) == [f"%.{digits}g" % value for value in values]
    assert lines_of(Column("decimals", column, b"", digits)) == [f"%.{digits}f" % value for value in values]


@pytest.mark.parametrize("plain", [False, True])
def test_rows_of_all_kinds_are_written(monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    if plain:
        monkeypatch.setattr(output, "library", lambda: None)
    columns = [
        Column("int", np.array([1, -22, -(2**63)]), b""),
        Column("word", np.array([0, 1, 0]), b" <", words=[b"C", b"long word"], width=-10),
        Column("bool", np.array([True, False, True]), b">"),
        Column("decimals", np.arange(6.0).reshape(3, 2)[:, 1], b"|", 3, 8),
        output.word_column(["", " # said", ""], b""),
    ]
    text, ends_of_rows = write_rows(columns, 3, b"\r\n")
    assert text.decode().split("\r\n") == [
        "1 <C         >T|   1.000",
        "-22 <long word >F|   3.000 # said",
        "-9223372036854775808 <C         >T|   5.000",
        "",
    ]
    assert ends_of_rows[-1] == len(text)
    columns[3] = columns[3]._replace(values=np.array([1.0, 2.0, 12345.0]))
    with pytest.raises(WideFault) as caught:
        write_rows(columns, 3)
    assert (caught.value.row, caught.value.field) == (2, 3)


def test_more_rows_than_a_piece_has_and_texts_longer_than_thought() -> None:
    values = np.where(np.arange(100000) % 1000 == 0, 1e300, np.arange(100000) * 0.5)
    text, ends_of_rows = write_rows([Column("decimals", values, b"", 1), Column("int", np.arange(100000))], 100000)
    lines = text.decode().splitlines()
    assert lines == [f"{value:.1f} {number}" for number, value in enumerate(values.tolist())]
    assert ends_of_rows.tolist() == np.cumsum([len(line) + 1 for line in lines]).tolist()
