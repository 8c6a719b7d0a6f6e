"""Nullable columns: masks of `_validity`, both ways."""

from __future__ import annotations

from pathlib import Path

import frame_stores as stores
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Column, Frame
from molrec_convert.model.dtypes import DTYPES


def masked(values: object, mask: list[bool]) -> Frame:
    return Frame({"sites": Block({"c": Column(np.asarray(values), np.array(mask, np.bool_))})})


def test_a_mask_round_trips(tmp_path: Path) -> None:
    read = stores.round_trip(tmp_path, masked([1.5, 0.0, 2.5], [True, False, True]))["sites"]
    assert read.validity("c").tolist() == [True, False, True]
    assert stores.zarr_values(tmp_path / "frame/sites/_validity/c").tolist() == [True, False, True]


def test_an_all_true_mask_is_no_mask(tmp_path: Path) -> None:
    frame = masked([1.0, 2.0], [True, True])
    assert frame["sites"].columns["c"].validity is None
    folder = stores.write(tmp_path, frame)
    assert not (folder / "sites" / "_validity").exists()
    assert frame == Frame({"sites": Block({"c": [1.0, 2.0]})})


def test_a_stored_all_true_mask_is_no_mask(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, masked([1.0, 2.0], [True, False]))
    stores.zarr_create(folder / "sites/_validity/c", np.array([True, True]))
    read = stores.read(tmp_path)["sites"]
    assert read.columns["c"].validity is None
    assert read.validity("c").tolist() == [True, True]
    assert read == Block({"c": [1.0, 2.0]})


def test_an_all_false_mask_is_a_mask(tmp_path: Path) -> None:
    read = stores.round_trip(tmp_path, masked([1.0, 2.0], [False, False]))["sites"]
    assert read.columns["c"].validity is not None
    assert not read.validity("c").any()
    assert not (tmp_path / "frame/sites/_validity/c/c").exists()  # nothing but fill values


def test_a_mask_of_no_rows_is_none(tmp_path: Path) -> None:
    read = stores.round_trip(tmp_path, masked(np.zeros(0), []))["sites"]
    assert read.columns["c"].validity is None


def test_a_masked_string_column(tmp_path: Path) -> None:
    read = stores.round_trip(tmp_path, masked(["A", "?", ""], [True, False, True]))["sites"]
    assert list(read.stored("c")) == ["A", "?", ""]
    assert read["c"].tolist() == ["A", None, ""]
    assert read.validity("c").tolist() == [True, False, True]


def test_a_mask_marks_rows_whatever_their_shape(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(2, 3, 2)
    read = stores.round_trip(tmp_path, masked(values, [False, True]))["sites"]
    assert read.validity("c").shape == (2,)
    assert read.stored("c").tolist() == values.tolist()
    assert np.isnan(read["c"][0]).all()
    assert read["c"][1].tolist() == values[1].tolist()


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_values_under_nulls_are_kept_as_written(tmp_path: Path, dtype: str) -> None:
    values = np.array([1, 0, 1], DTYPES[dtype].numpy)
    read = stores.round_trip(tmp_path, masked(values, [False, True, False]))["sites"]
    assert stores.bits(read.stored("c")) == stores.bits(values)


def test_values_under_nulls_are_not_rounded(tmp_path: Path) -> None:
    column = Column(np.array([0.3, 0.3]), np.array([True, False]), 0.5)
    assert stores.column_round_trip(tmp_path, column).values.tolist() == [0.5, 0.3]


def test_the_group_has_a_mask_for_masked_columns_only(tmp_path: Path) -> None:
    block = Block({"a": [1.0, 2.0], "b": Column(np.ones(2), np.array([True, False])), "c": [1, 2]})
    folder = stores.write(tmp_path, Frame({"sites": block, "plain": Block({"a": [1.0]})}))
    assert [f.name for f in (folder / "sites/_validity").iterdir() if f.is_dir()] == ["b"]
    assert not (folder / "plain/_validity").exists()


def test_a_large_mask_is_a_shard(tmp_path: Path) -> None:
    mask = np.zeros(5 * 2**19, np.bool_)
    mask[::3] = True
    column = Column(np.zeros(len(mask), np.int8), mask)
    assert np.array_equal(stores.column_round_trip(tmp_path, column).validity, mask)
    assert np.array_equal(stores.zarr_values(tmp_path / "frame/things/_validity/c"), mask)


@pytest.mark.parametrize("mask", [np.array([1, 0], np.uint8), np.array([1.0, 0.0]), np.array(["a", ""])], ids=str)
def test_a_mask_that_is_not_bool_is_refused(tmp_path: Path, mask: np.ndarray) -> None:
    folder = stores.write(tmp_path, masked([1.0, 2.0], [True, False]))
    stores.zarr_create(
        folder / "sites/_validity/c", mask.astype(DTYPES["string"].numpy) if mask.dtype.kind == "U" else mask
    )
    with pytest.raises(ContractError, match="frame/sites/_validity/c"):
        stores.read(tmp_path)


@pytest.mark.parametrize("shape", [(1,), (3,), (0,), (2, 1), ()], ids=str)
def test_a_mask_of_the_wrong_length_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    folder = stores.write(tmp_path, masked([1.0, 2.0], [True, False]))
    stores.zarr_create(folder / "sites/_validity/c", np.ones(shape, np.bool_))
    with pytest.raises(ContractError, match="frame/sites/_validity/c") as caught:
        stores.read(tmp_path)
    assert caught.value.expected == "bool[2]"


def test_a_mask_without_its_column_is_refused(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, masked([1.0, 2.0], [True, False]))
    stores.zarr_create(folder / "sites/_validity/d", np.ones(2, np.bool_))
    with pytest.raises(ContractError, match="frame/sites/_validity/d: the mask names no column"):
        stores.read(tmp_path)


@pytest.mark.parametrize("mask", [[1, 0], [True], [[True], [False]], [True, False, True]], ids=str)
def test_a_mask_that_does_not_fit_is_refused_at_write(mask: object) -> None:
    with pytest.raises(ContractError, match="one bool per row"):
        Column(np.ones(2), np.array(mask))


def test_the_masks_have_no_part_in_the_columns(tmp_path: Path) -> None:
    read = stores.round_trip(tmp_path, masked([1.0, 2.0], [True, False]))["sites"]
    assert list(read) == ["c"]


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 2**32))
@settings(max_examples=40)
def test_any_mask(tmp_path_factory: pytest.TempPathFactory, mask: list[bool], seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 9, len(mask))
    column = Column(values, np.array(mask, np.bool_))
    read = stores.column_round_trip(tmp_path_factory.mktemp("mask"), column)
    assert read == column
    assert stores.bits(read.values) == stores.bits(values)
