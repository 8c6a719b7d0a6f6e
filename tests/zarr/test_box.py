"""The cell of a frame-shaped section: defaults, undefined cells, cells of any shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest
from hypothesis import given, settings

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Box, Frame


def box_round_trip(path: Path, box: Box) -> Box:
    read = stores.round_trip(path, Frame(box=box)).box
    assert read is not None
    return read


def parts(path: Path) -> list[str]:
    return sorted(f.name for f in (path / "frame" / "box").iterdir() if f.is_dir())


def test_no_box(tmp_path: Path) -> None:
    assert stores.round_trip(tmp_path, Frame({"atoms": Block(count=1)})).box is None


def test_defaults_are_not_stored_and_filled_in(tmp_path: Path) -> None:
    box = box_round_trip(tmp_path, Box(np.diag([1.0, 2.0, 3.0])))
    assert parts(tmp_path) == ["vectors"]
    assert stores.attributes(tmp_path / "frame/box") == {}
    assert box.origin.tolist() == [0.0, 0.0, 0.0]
    assert box.boundary.tolist() == [True, True, True]
    assert box.defined


def test_origin_and_boundary_off_their_defaults_are_stored(tmp_path: Path) -> None:
    given = Box(np.eye(3), np.array([-1.5, 0.0, 2.0]), np.array([True, True, False]))
    assert box_round_trip(tmp_path, given) == given
    assert parts(tmp_path) == ["boundary", "origin", "vectors"]
    assert stores.zarr_values(tmp_path / "frame/box/boundary").tolist() == [True, True, False]


def test_an_origin_of_negative_zero_is_off_its_default(tmp_path: Path) -> None:
    given = Box(np.eye(3), np.array([-0.0, 0.0, 0.0]))
    assert box_round_trip(tmp_path, given) == given
    assert parts(tmp_path) == ["origin", "vectors"]


@pytest.mark.parametrize(
    "vectors",
    [
        np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        np.array([[10.0, 3.0, -2.0], [0.0, 9.0, 1.0], [0.0, 0.0, 8.0]]),
        np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]),
        np.zeros((3, 3)),
        np.diag([5.0, 5.0, 0.0]),
        np.full((3, 3), np.nan),
        -np.eye(3) * 0.1,
    ],
    ids=["left-handed", "tilted", "general", "zeros", "flat", "not a number", "negative"],
)
def test_cells_of_any_shape_pass_as_stored(tmp_path: Path, vectors: np.ndarray[Any, Any]) -> None:
    box = box_round_trip(tmp_path, Box(vectors))
    assert stores.bits(box.vectors) == stores.bits(vectors)
    assert stores.bits(stores.zarr_values(tmp_path / "frame/box/vectors")) == stores.bits(vectors)


def test_lattice_vectors_are_columns(tmp_path: Path) -> None:
    vectors = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    box = box_round_trip(tmp_path, Box(vectors))
    assert box.vectors[:, 1].tolist() == [0.5, 2.0, 0.0]


def test_an_undefined_cell_writes_identity_and_no_periodic_axis(tmp_path: Path) -> None:
    given = Box(np.full((3, 3), 7.0), np.array([1.0, 2.0, 3.0]), np.ones(3, np.bool_), defined=False)
    read = box_round_trip(tmp_path, given)
    assert stores.attributes(tmp_path / "frame/box") == {"cell_defined": False}
    assert stores.zarr_values(tmp_path / "frame/box/vectors").tolist() == np.eye(3).tolist()
    assert stores.zarr_values(tmp_path / "frame/box/boundary").tolist() == [False] * 3
    assert parts(tmp_path) == ["boundary", "origin", "vectors"]
    assert read == Box.undefined([1.0, 2.0, 3.0])
    assert not read.defined


@pytest.mark.parametrize(
    "vectors", [np.zeros((3, 3)), np.full((3, 3), np.nan), np.ones((2, 2)), np.ones((3, 3), np.int64)]
)
def test_stored_vectors_of_an_undefined_cell_are_ignored(tmp_path: Path, vectors: np.ndarray[Any, Any]) -> None:
    stores.write(tmp_path, Frame(box=Box.undefined()))
    stores.zarr_create(tmp_path / "frame/box/vectors", vectors)
    box = stores.read(tmp_path).box
    assert box is not None
    assert box.vectors.tolist() == np.eye(3).tolist()


def test_an_undefined_cell_without_a_boundary_is_not_periodic(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, Frame(box=Box.undefined())) / "box"
    for file in sorted((folder / "boundary").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    box = stores.read(tmp_path).box
    assert box is not None
    assert box.boundary.tolist() == [False] * 3


def test_a_periodic_axis_of_an_undefined_cell_is_refused(tmp_path: Path) -> None:
    stores.write(tmp_path, Frame(box=Box.undefined()))
    stores.zarr_create(tmp_path / "frame/box/boundary", np.array([False, True, False]))
    frame = stores.read(tmp_path)
    with pytest.raises(ContractError, match="frame/box/boundary"):
        _ = frame.box
    with pytest.raises(ContractError, match="frame/box/boundary"):
        frame.check()


def test_a_cell_that_says_it_is_defined_is(tmp_path: Path) -> None:
    stores.write(tmp_path, Frame(box=Box(np.eye(3))))
    stores.set_attribute(tmp_path / "frame/box", cell_defined=True)
    assert stores.read(tmp_path).box == Box(np.eye(3))


@pytest.mark.parametrize("value", ["false", 0, None, []], ids=str)
def test_cell_defined_is_true_or_false(tmp_path: Path, value: Any) -> None:
    stores.write(tmp_path, Frame(box=Box(np.eye(3))))
    stores.set_attribute(tmp_path / "frame/box", cell_defined=value)
    with pytest.raises(ContractError, match="frame/box"):
        stores.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("vectors", np.ones(9)),
        ("vectors", np.ones((3, 3), np.int64)),
        ("vectors", np.ones((1, 3, 3))),
        ("origin", np.ones(4)),
        ("origin", np.ones(3, np.int32)),
        ("boundary", np.ones(3)),
        ("boundary", np.ones(2, np.bool_)),
    ],
    ids=str,
)
def test_parts_of_another_shape_or_dtype_are_refused(tmp_path: Path, name: str, values: np.ndarray[Any, Any]) -> None:
    stores.write(tmp_path, Frame(box=Box(np.eye(3))))
    stores.zarr_create(tmp_path / "frame/box" / name, values)
    with pytest.raises(ContractError, match=f"frame/box/{name}"):
        stores.read(tmp_path)


def test_a_defined_cell_without_vectors_is_refused(tmp_path: Path) -> None:
    folder = stores.write(tmp_path, Frame(box=Box(np.eye(3)))) / "box"
    (folder / "vectors").rename(folder / "matrix")
    with pytest.raises(ContractError, match="frame/box/vectors"):
        stores.read(tmp_path)


def test_a_box_that_is_no_group_is_refused(tmp_path: Path) -> None:
    stores.write(tmp_path, Frame())
    stores.zarr_create(tmp_path / "frame/box", np.eye(3))
    with pytest.raises(ContractError, match="frame/box"):
        stores.read(tmp_path)


@pytest.mark.parametrize("shape", [(3,), (2, 2), (3, 3, 1)])
def test_a_box_is_three_by_three(shape: tuple[int, ...]) -> None:
    with pytest.raises(ContractError, match="box"):
        Box(np.ones(shape))


def test_attributes_of_the_cell_are_kept(tmp_path: Path) -> None:
    stores.write(tmp_path / "a", Frame(box=Box(np.eye(3))))
    stores.set_attribute(tmp_path / "a/frame/box", lattice="cubic")
    stores.set_attribute(tmp_path / "a/frame/box/vectors", unit="nm")
    read = stores.round_trip(tmp_path / "b", stores.read(tmp_path / "a"))
    assert read.attributes == {"box": {"lattice": "cubic"}, "box/vectors": {"unit": "nm"}}


@given(stores.boxes())
@settings(max_examples=60)
def test_any_cell(tmp_path_factory: pytest.TempPathFactory, box: Box) -> None:
    assert box_round_trip(tmp_path_factory.mktemp("box"), box) == box
