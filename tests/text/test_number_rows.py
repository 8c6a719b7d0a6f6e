"""Rows of numbers by compiled code: the bits Python gives, or an answer that leaves the text to others."""

from __future__ import annotations

import struct
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.text import number_rows
from molrec_convert.text.number_rows import read_number_rows
from molrec_lammps.common.atom_styles import Column
from molrec_lammps.data import rows as data_rows
from molrec_lammps.dump import rows as dump_rows
from molrec_xyz import rows as xyz_rows
from molrec_xyz.columns import FileColumn, RowLayout

# once it is imported short texts are read with it, too
pytest.importorskip("wasmtime")

READ = {"R": float, "I": int, "S": lambda word: word.encode()}


def spelled(column: Any) -> Any:
    """A column in a form that compares bit for bit."""
    if column is None:
        return None
    if isinstance(column, tuple):
        codes, words = column
        return [words[code] for code in codes]
    return column.view(np.int64).tolist()


def expected(text: str, kinds: str) -> list[Any]:
    """What Python's own `float` and `int` make of the columns, spelled."""
    table = [line.split() for line in text.removesuffix("\n").split("\n")]
    assert all(len(row) == len(kinds) for row in table)
    columns: list[Any] = []
    for kind, words in zip(kinds, zip(*table, strict=True), strict=True):
        values = None if kind == "-" else [READ[kind](word) for word in words]
        columns.append([struct.unpack("<q", struct.pack("<d", v))[0] for v in values] if kind == "R" else values)
    return columns


def read(text: str, kinds: str, rows: int | None = None) -> list[Any] | None:
    """What the compiled code makes of a text, spelled; held against Python where it makes something of it."""
    rows = len(text.removesuffix("\n").split("\n")) if rows is None else rows
    columns = read_number_rows(text.encode(), rows, kinds)
    if columns is None:
        return None
    found = [spelled(column) for column in columns]
    assert found == expected(text, kinds)
    return found


finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.one_of(
    st.floats(-100, 100).map(lambda value: f"{value:g}"),
    st.floats(1e-300, 1e300).map(lambda value: f"{-value:.17g}"),
    st.floats(1e-300, 1e300).map(repr),
    st.floats(-1e6, 1e6).map(lambda value: f"{value:.16e}"),
    st.floats(-1e6, 1e6).map(lambda value: f"{value:16.8f}"),
    st.integers(-(10**18), 10**18).map(str),
    st.tuples(st.integers(0, 10**18), st.integers(-300, 280)).map(lambda pair: f"{pair[0]}e{pair[1]:+04d}"),
    st.sampled_from(
        ["0", "-0", "-0.0", "0e999", "-0.000e-5", "1.", "007", "9007199254740993", "1E5", "0." + "0" * 40 + "1"]
    ),
).filter(lambda text: float(text) == 0 or 2.3e-308 < abs(float(text)) < 1.7e308)
odd = st.one_of(
    finite.map(repr),
    finite.map(lambda value: f"{value:.25g}"),
    st.integers(-(10**40), 10**40).map(str),
    st.tuples(st.integers(0, 2**64), st.integers(-400, 400)).map(lambda pair: f"{pair[0]}.5e{pair[1]}"),
    st.text("0123456789+-.eE", min_size=1, max_size=8),
    st.sampled_from(
        [
            "nan",
            "-inf",
            "Infinity",
            "+1",
            ".5",
            "-",
            ".",
            "-.",
            "1e",
            "1e+",
            "e5",
            "0x10",
            "1_0",
            "1d5",
            "--1",
            "1-",
            "é",
        ]
    ),
)
blanks = st.sampled_from([" ", " ", " ", "  ", "\t", "         "])
ends = st.sampled_from(["\n", "\n", "\n", " \n", "\r\n", " \t\n"])


@st.composite
def tables(draw: Any, value: st.SearchStrategy[str]) -> str:
    width, rows = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    text = ""
    for _ in range(rows):
        lead = draw(st.sampled_from(["", "", "  "]))
        text += lead + "".join(draw(value) + draw(blanks) for _ in range(width - 1)) + draw(value) + draw(ends)
    return text


@given(tables(plain))
def test_numbers_as_programs_print_them_have_the_bits_python_reads(text: str) -> None:
    kinds = "R" * len(text.split("\n")[0].split())
    assert read(text, kinds) is not None
    assert read(text.removesuffix("\n"), kinds) is not None


@given(tables(st.one_of(plain, odd)), st.text("RIS-", min_size=1, max_size=4))
def test_any_text_is_read_as_python_reads_it_or_left_to_others(text: str, kinds: str) -> None:
    text = text.replace("é", "x")
    width = len(text.split("\n")[0].split())
    found = read(text, (kinds * 4)[:width])
    if found is None:
        return
    # a row more or less is never taken
    rows = text.count("\n")
    assert read_number_rows(text.encode(), rows + 1, (kinds * 4)[:width]) is None
    assert rows == 1 or read_number_rows(text.encode(), rows - 1, (kinds * 4)[:width]) is None


@given(st.integers(2**52, 2**64 - 1), st.integers(-320, 300), st.booleans())
@settings(max_examples=500)
def test_numbers_that_lie_between_two_doubles_round_as_python_rounds(digits: int, power: int, minus: bool) -> None:
    read(f"{'-' * minus}{digits}e{power}", "R")


@given(st.floats(1e-290, 1e290), st.integers(-1, 1))
def test_the_middle_between_two_doubles_and_its_neighbours(value: float, beside: int) -> None:
    high = float(np.nextafter(value, np.inf))
    middle = (
        f"{(int(value) + int(high)) // 2 + beside}" if 2**53 < value < 2**63 else f"{value + (high - value) / 2:.18e}"
    )
    read(middle, "R")


@pytest.mark.parametrize("power", range(-30, 31))
def test_powers_of_ten_and_what_lies_beside_exact_products(power: int) -> None:
    for digits in (1, 5, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**54 + 2, 2**64 - 1, 9999999999999999999):
        found = read(f"{digits}e{power} -{digits}e{power}", "RR")
        assert (found is None) == (digits > 10**19)


@given(st.lists(st.lists(st.sampled_from(["1", "2.5", "-3"]), min_size=1, max_size=4), min_size=1, max_size=6))
def test_rows_of_another_length_are_not_taken_whatever_their_sum(rows: list[list[str]]) -> None:
    text = "".join(" ".join(row) + "\n" for row in rows)
    for width in (1, 2, 3, 4):
        found = read_number_rows(text.encode(), len(rows), "R" * width)
        assert (found is not None) == all(len(row) == width for row in rows)


@pytest.mark.parametrize(
    "text", ["", "\n", " \n", "1 2\n\n", "1 2\n3\n", "1\n2 3 4\n", "1 2 #3\n", "1,2\n", "1 2\0\n", "1\v2\n"]
)
def test_what_is_not_rows_of_two_numbers_is_left_to_others(text: str) -> None:
    for rows in (0, 1, 2):
        assert read_number_rows(text.encode(), rows, "RR") is None


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("I", "1.0"),
        ("I", "1e2"),
        ("I", "+1"),
        ("I", "1234567890123456789"),
        ("I", "-"),
        ("S", "ninebytes"),
        ("R", "1x"),
        ("R", "x1"),
    ],
)
def test_what_is_not_of_its_kind_is_left_to_others(kind: str, word: str) -> None:
    assert read(f"1 {word} 2\n", f"R{kind}R") is None
    assert read(f"1 {word} 2\n", "R-R") is not None


def test_integers_and_words_are_exact() -> None:
    text = "999999999999999999 C -5 eight8by\n-999999999999999999 Cα 0 x\n 9007199254740993 C 007 -\n"
    assert read(text, "ISIS") is not None
    assert read(text, "I---") is not None
    many = "".join(f"w{n % 97} {n}\n" for n in range(3000))
    assert read(many, "SI") is not None


def test_threads_read_at_the_same_time() -> None:
    rng = np.random.default_rng(5)
    texts = ["".join(f"{a:.17g} {b:g}\n" for a, b in rng.normal(size=(4000, 2))) for _ in range(4)]
    wanted = [expected(text, "RR") for text in texts]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            columns = read_number_rows(texts[number].encode(), 4000, "RR")
            if columns is None or [spelled(column) for column in columns] != wanted[number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_wasmtime_every_text_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("1 2\n", "RR") is not None
    monkeypatch.setattr(number_rows, "_idle", [])
    monkeypatch.setattr(number_rows, "_loaded", [None])
    assert read_number_rows(b"1 2\n", 1, "RR") is None


@given(tables(st.one_of(plain, odd)))
def test_the_readers_of_three_formats_give_the_same_with_and_without_it(text: str) -> None:
    data, rows = text.encode(), text.count("\n")
    width = len(text.split("\n")[0].split())
    names = [f"v_{number}" for number in range(width)]
    columns = [Column(name, "float") for name in names]
    layout = RowLayout(tuple(FileColumn(name, "R", 1) for name in names))
    found = []
    for loaded in (number_rows._loaded, [None]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(number_rows, "_loaded", loaded)
            patch.setattr(number_rows, "_idle", [])
            found.append(
                [
                    outcome(lambda: dump_rows.parse_rows(data, rows, names, names)),
                    outcome(lambda: data_rows.parse_rows(data, columns, rows)[0]),
                    outcome(lambda: dict(enumerate(extended(data, rows, layout)))),
                ]
            )
    assert found[0] == found[1]


def extended(data: bytes, rows: int, layout: RowLayout) -> list[Any]:
    """The fields of rows as the reader of extended XYZ comes by them."""
    wanted = [True] * len(layout.letters)
    fields = xyz_rows.native_rows(data, rows, layout, wanted)
    return xyz_rows.parse_rows(data, rows, layout, wanted) if fields is None else fields


def outcome(call: Any) -> Any:
    """The columns a reader gives, spelled, or what it says is wrong."""
    try:
        return {name: spelled(values) for name, values in call().items()}
    except (dump_rows.RowFault, data_rows.RowFault, xyz_rows.RowFault) as fault:
        return fault.row, fault.found, fault.expected


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.binary(max_size=20)), min_size=1, max_size=5),
    st.booleans(),
    st.integers(-2, 2),
    st.integers(-1, 1),
)
def test_pieces_of_a_text(frames, ended, moved, more):
    """Rows between other bytes; a piece that ends elsewhere, or has another number of rows, is left to others."""
    text, pieces, lines = b"", [], []
    for count, between in frames:
        text += between
        own = b"".join(b"%d %d.5\n" % (len(lines) + n, n) for n in range(count))
        lines += own.splitlines()
        pieces.append([len(lines), len(text), len(text) + len(own)])
        text += own
    if not ended:
        text = text[:-1]
        pieces[-1][2] -= 1
    table = np.array(pieces)
    table[len(pieces) // 2, 2] += moved
    table[0, 0] += more

    def fill(memory):
        memory[:] = np.frombuffer(text, np.uint8)
        return True

    if table[-1, 2] > len(text) or (np.diff(table[:, 0], prepend=0) < 1).any():
        return
    with number_rows.number_rows(fill, len(text), table, "IR") as columns:
        if moved == 0 and (more == 0 or (len(pieces) == 1 and more == 0)):
            assert [column.tolist() for column in columns] == [
                [int(line.split()[0]) for line in lines], [float(line.split()[1]) for line in lines],
            ]  # fmt: skip
        else:
            assert columns is None
    with number_rows.number_rows(lambda memory: False, len(text), table, "IR") as columns:
        assert columns is None
