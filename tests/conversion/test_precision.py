"""Declared precision: the quantum, what is stored, and how the declaration travels."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import frame_stores as stores
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Column, Frame
from molrec_convert.model.dtypes import off_grid, quantum, stored
from molrec_convert.stores.zarr.sections.frames import write_frame

LEAST, MOST = 2.0**-1000, 2.0**1000


def exactly(x: float, precision: float) -> float:
    """`stored(x)` by exact arithmetic, to hold the fast form against."""
    q = quantum(precision)
    if math.isnan(x) or math.isinf(x) or abs(x) >= Fraction(2) ** 52 * Fraction(q):
        return x
    exact = round(Fraction(x) / Fraction(q)) * Fraction(q)  # Python rounds ties to even
    # The one product that binary64 does not hold is 2^1024.
    return math.copysign(math.inf if abs(exact) == 2**1024 else float(exact), x)


@pytest.mark.parametrize(
    ("precision", "expected"),
    [(1e-3, 2.0**-10), (1e-2, 2.0**-7), (1.0, 1.0), (0.999, 0.5), (2.0, 2.0), (3.0, 2.0), (LEAST, LEAST), (MOST, MOST)],
)
def test_the_quantum_is_the_largest_power_of_two_not_above(precision: float, expected: float) -> None:
    assert quantum(precision) == expected


def test_ties_go_to_even() -> None:
    q = 2.0**-10
    given = np.array([2.5, 3.5, -2.5, -3.5, 0.5, 1.5, 2.4999]) * q
    assert (stored(given, 1e-3) / q).tolist() == [2, 4, -2, -4, 0, 2, 2]


def test_what_is_not_rounded() -> None:
    q = 2.0**-10
    payload = np.array([0x7FF8_0000_0000_BEEF, 0xFFF8_0000_0000_0001], np.uint64).view(np.float64)
    given = np.concatenate([payload, [np.inf, -np.inf, -0.0, 0.0, 2.0**52 * q, -(2.0**52) * q, 2.0**53 * q + q * 2]])
    assert stores.bits(stored(given, 1e-3)) == stores.bits(given)
    below = np.nextafter(2.0**52 * q, 0)
    assert stored(np.array([below]), 1e-3)[0] == 2.0**52 * q


def test_small_negative_values_become_negative_zero() -> None:
    assert math.copysign(1.0, stored(np.array([-1e-5]), 1e-3)[0]) == -1.0


@given(st.floats(), st.floats(LEAST, MOST))
@settings(max_examples=500)
def test_stored_is_exact(x: float, precision: float) -> None:
    found = stored(np.array([x]), precision)
    assert stores.bits(found) == stores.bits(np.array([exactly(x, precision)]))
    assert stores.bits(stored(found, precision)) == stores.bits(found)


@given(st.floats(-1e6, 1e6), st.sampled_from([1e-4, 1e-3, 0.01, 0.3, 5.0]))
def test_the_error_is_at_most_half_a_quantum(x: float, precision: float) -> None:
    found = stored(np.array([x]), precision)[0]
    assert abs(Fraction(found) - Fraction(x)) <= Fraction(quantum(precision)) / 2
    assert Fraction(found) % Fraction(quantum(precision)) == 0


def test_the_given_values_are_not_touched() -> None:
    given = np.array([0.1, 0.2])
    stored(given, 0.5)
    assert given.tolist() == [0.1, 0.2]


def test_values_are_rounded_on_write(tmp_path: Path) -> None:
    values = np.array([0.7572, -0.0, np.nan, np.inf, 2.5 * 2.0**-10])
    read = stores.column_round_trip(tmp_path, Column(values, precision=1e-3))
    assert stores.bits(read.values) == stores.bits(np.array([0.7568359375, -0.0, np.nan, np.inf, 2 * 2.0**-10]))
    assert stores.bits(stores.zarr_values(tmp_path / "frame/things/c")) == stores.bits(read.values)
    assert stores.attributes(tmp_path / "frame/things/c") == {"precision": 0.001}


def test_the_declaration_survives_reading_and_writing(tmp_path: Path) -> None:
    first = stores.round_trip(tmp_path / "a", Frame({"atoms": Block({"x": Column(np.array([0.1]), precision=1e-3)})}))
    second = stores.round_trip(tmp_path / "b", first)
    assert second["atoms"].columns["x"].precision == 1e-3
    assert second == first


def test_no_precision_stores_what_is_given(tmp_path: Path) -> None:
    read = stores.column_round_trip(tmp_path, np.array([0.1, 1 / 3]))
    assert read.precision is None
    assert read.values.tolist() == [0.1, 1 / 3]


@pytest.mark.parametrize("precision", [LEAST, 1e-300, 1e-3, 1, 7.0, 1e300, MOST])
def test_the_whole_range_may_be_declared(tmp_path: Path, precision: float) -> None:
    read = stores.column_round_trip(tmp_path, Column(np.array([1 / 3, 1e300]), precision=precision))
    assert read.precision == precision
    assert read.values.tolist() == [exactly(1 / 3, precision), exactly(1e300, precision)]


@pytest.mark.parametrize(
    "precision", [0, 0.0, -1.0, math.inf, math.nan, math.nextafter(LEAST, 0), MOST * 2, "1e-3", True, 1j], ids=str
)
def test_a_precision_out_of_range_is_refused(precision: object) -> None:
    with pytest.raises(ContractError, match="precision"):
        Column(np.ones(2), precision=precision)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values", [np.ones(2, np.int64), np.ones(2, np.complex128), np.array(["a"]), np.ones(2, np.bool_)]
)
def test_a_precision_on_another_dtype_is_refused(values: np.ndarray) -> None:
    with pytest.raises(ContractError, match="only an f64 column"):
        Column(values, precision=1e-3)


def test_a_value_off_the_grid_is_read_as_it_is(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, Frame({"things": Block({"c": Column(np.array([0.5]), precision=0.5)})}))
    stores.zarr_create(folder / "things/c", np.array([0.3]), attributes={"precision": 0.5})
    column = stores.read(tmp_path)["things"].columns["c"]
    assert column.values.tolist() == [0.3]
    assert column.precision == 0.5
    assert off_grid(column.values, 0.5).tolist() == [True]
    assert off_grid(stored(column.values, 0.5), 0.5).tolist() == [False]


@pytest.mark.parametrize("precision", [0, -1, "fine", True, 1e400, None], ids=str)
def test_a_stored_precision_that_is_none_is_kept_but_not_written_again(tmp_path: Path, precision: object) -> None:
    folder = stores.write(tmp_path / "a", Frame({"things": Block({"c": [0.3]})}))
    (folder / "things/c/zarr.json").write_text(
        (folder / "things/c/zarr.json").read_text().replace('"attributes": {}', '"attributes": {"precision": 1e400}')
    )
    if precision != 1e400:
        stores.set_attribute(folder / "things/c", precision=precision)
    column = stores.read(tmp_path / "a")["things"].columns["c"]
    assert column.precision is None
    assert column.attributes == {"precision": precision}
    assert column.values.tolist() == [0.3]
    with pytest.raises(ContractError, match="precision"):
        write_frame(tmp_path / "b", "frame", stores.read(tmp_path / "a"))


def test_an_integer_precision_reads_as_a_number(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, Frame({"things": Block({"c": Column(np.array([3.0]), precision=2.0)})}))
    stores.set_attribute(folder / "things/c", precision=2)
    assert stores.read(tmp_path)["things"].columns["c"].precision == 2.0
