"""Rows of text as numbers, exact in every way there is."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_xyz import rows as rows_module
from molrec_xyz.columns import FileColumn, RowLayout
from molrec_xyz.fixed import PAD, find_layout, read_fixed
from molrec_xyz.rows import RowFault, parse_rows, plain_rows


def bits(values: Iterable[Any]) -> list[bytes]:
    """The bits of doubles; text has one NaN only."""
    return [b"nan" if math.isnan(float(value)) else struct.pack("<d", float(value)) for value in values]


def fixed(text: bytes, letters: str, rows: int) -> list[object] | None:
    """The fields of a text of fixed width; None where it is none."""
    padded = b"\n" * PAD + text
    layout = find_layout(np.frombuffer(text, np.uint8), rows, letters)
    if layout is None:
        return None
    out = [np.empty(rows, np.float64 if letter == "R" else np.int64) if letter in "RI" else None for letter in letters]
    words = read_fixed(padded, rows, layout, out)
    if words is None:
        return None
    return [
        [found[1][code].decode() for code in found[0]] if found is not None else values
        for found, values in zip(words, out, strict=True)
    ]


def layout_of(letters: str) -> RowLayout:
    return RowLayout(tuple(FileColumn(f"c{number}", letter, 1) for number, letter in enumerate(letters)))


@st.composite
def tables(draw: st.DrawFn) -> tuple[bytes, str, list[list[str]]]:
    """A table as programs print it: a word, then right-aligned numbers of one number of digits a column."""
    digits = draw(st.lists(st.integers(1, 15), min_size=1, max_size=4))
    widths = [draw(st.integers(digit + 3, digit + 12)) for digit in digits]
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        fields = [draw(st.sampled_from(["H", "C", "Cl", "Xe"]))]
        for digit, width in zip(digits, widths, strict=True):
            limit = 10 ** min(width - digit - 3, 7)
            value = draw(st.floats(-limit, limit) | st.sampled_from([0.0, -0.0, 0.5, -0.5]))
            fields.append(f"{value:.{digit}f}")
        rows.append(fields)
    texts = [f"{row[0]:<2s}" + "".join(f" {w:>{n}s}" for w, n in zip(row[1:], widths, strict=True)) for row in rows]
    end = draw(st.sampled_from(["\n", "\r\n", " \n"]))
    return "".join(text + end for text in texts).encode(), "S" + "R" * len(digits), rows


@settings(max_examples=300)
@given(tables())
def test_fixed_width_is_exact(table: tuple[bytes, str, list[list[str]]]) -> None:
    text, letters, rows = table
    found = fixed(text, letters, len(rows))
    if found is None:
        # more digits than a double holds exactly: left to the parser that rounds
        mantissas = [abs(int(word.replace(".", ""))) for row in rows for word in row[1:]]
        wide = any(len(row[0]) == 2 for row in rows)
        assert max(mantissas) > 2**53 / 10 or wide
        return
    assert found[0] == [row[0] for row in rows]
    for column in range(1, len(letters)):
        assert bits(found[column]) == bits(row[column] for row in rows)


def test_fixed_width_of_a_usual_file() -> None:
    draw = np.random.default_rng(3)
    values = draw.normal(size=(5000, 6)) * 10.0 ** draw.integers(-6, 5, (5000, 6))
    values[0], values[1] = 0.0, -0.0
    lines = [f"{'Cl' if n % 3 else 'H':<2s}" + "".join(f" {v:16.8f}" for v in row) for n, row in enumerate(values)]
    found = fixed(("\n".join(lines) + "\n").encode(), "SRRRRRR", len(lines))
    assert found is not None
    for column in range(6):
        assert bits(found[column + 1]) == bits(line.split()[column + 1] for line in lines)


ROW = b"H      1.50000000     -2.25000000\n"


@pytest.mark.parametrize(
    "row",
    [
        b"H      1.50000000     -2.2500000x\n",
        b"H      1.5000 000     -2.25000000\n",
        b"H     +1.50000000     -2.25000000\n",
        b"H     1 .50000000     -2.25000000\n",
        b"H     --.50000000     -2.25000000\n",
        b"H      1.50000000    --2.25000000\n",
        b"H      1.50000000    - 2.25000000\n",
        b"H      1.50000000     -2,25000000\n",
        b"H      1.50000000\t    -2.25000000\n",
        b"H      1.500000001234567.25000000\n",
        b"       1.50000000     -2.25000000\n",
        b"H      1.50000000 1   -2.25000000\n",
        b"H      1.50000000     -2.25\n00000\n",
        b"H            nan              inf\n",
        b"H      1.5000e+00     -2.25000000\n",
    ],
)
def test_rows_of_another_form_are_left_alone(row: bytes) -> None:
    assert len(row) == len(ROW)
    assert fixed(ROW * 100 + row + ROW * 20, "SRR", 121) is None


@given(st.lists(st.tuples(st.sampled_from(["C", "O2-"]), st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans())))
@settings(max_examples=200)
def test_both_parsers_agree(table: list[tuple[str, int, float, bool]]) -> None:
    text = "".join(f"  {s}\t{i}  {r!r} {'T' if b else 'F'} \r\n" for s, i, r, b in table).encode()
    layout = layout_of("SIRL")
    for parse in (parse_rows, plain_rows):
        words, integers, reals, logicals = parse(text, len(table), layout, [True] * 4)
        assert [words[1][code].decode() for code in words[0]] == [row[0] for row in table]
        assert list(integers) == [row[1] for row in table]
        assert bits(reals) == bits(row[2] for row in table)
        assert list(logicals) == [row[3] for row in table]


def test_numbers_only_the_plain_way_knows() -> None:
    text = b"1.0D-03 1.2*^-6\n-1d5 .5\n"
    one, other = parse_rows(text, 2, layout_of("RR"), [True, True])
    assert one.tolist() == [1e-3, -1e5]
    assert other.tolist() == [1.2e-6, 0.5]


@pytest.mark.parametrize(
    ("text", "letters", "row", "found", "expected"),
    [
        (b"1 2\n3\n", "RR", 1, "1 fields in '3'", "2 (c0:R:1 c1:R:1)"),
        (b"1 2\n3 4 5\n", "RR", 1, "3 fields in '3 4 5'", "2 (c0:R:1 c1:R:1)"),
        (b"1 2\n3 x\n", "RR", 1, "'x'", "a number (c1)"),
        (b"1 2\n3 0x10\n", "RR", 1, "'0x10'", "a number (c1)"),
        (b"1 2\n3 1_0\n", "RR", 1, "'1_0'", "a number (c1)"),
        (b"1 2\n3 4.0\n", "RI", 1, "'4.0'", "an integer (c1)"),
        (b"1 2\n3 99999999999999999999\n", "RI", 1, "'99999999999999999999'", "an integer of at most 63 bits (c1)"),
        (b"1 T\n3 1\n", "RL", 1, "'1'", "T or F (c1)"),
        (b"1 T\n3 t\n", "RL", 1, "'t'", "T or F (c1)"),
    ],
)
@pytest.mark.parametrize("with_arrow", [True, False])
def test_faults(
    text: bytes, letters: str, row: int, found: str, expected: str, with_arrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_arrow:
        monkeypatch.setattr(rows_module, "_quick_rows", lambda *arguments: None)
    with pytest.raises(RowFault) as caught:
        parse_rows(text, text.count(b"\n"), layout_of(letters), [True] * len(letters))
    assert (caught.value.row, caught.value.found, caught.value.expected) == (row, found, expected)
