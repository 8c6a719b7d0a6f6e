"""Step numbers, times, per-step values and the cell of a trajectory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trajectory_stores as ts
from hand_built import edit_json

from molrec_convert.errors import ContractError
from molrec_convert.model import TAGS, Box, BoxUpdates, Declaration, Frame, FrameBatch, Meta, MetaDeclaration
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

NONE = Declaration()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run.mrec"


def with_steps(root: Path, *steps: int, **options: Any) -> Any:
    return ts.stored(root, [Frame(step=step) for step in steps], NONE, **options)


def with_times(root: Path, *times: float, **options: Any) -> Any:
    return ts.stored(root, [Frame(time=time) for time in times], NONE, **options)


# Steps.


def test_step_progression(root: Path) -> None:
    trajectory = with_steps(root, 5, 15, 25, 35)
    assert ts.attributes(root)["step_progression"] == {"start": 5, "stride": 10}
    assert not ts.exists(root, "step")
    assert trajectory.steps.tolist() == [5, 15, 25, 35]
    assert [trajectory.frame(i).step for i in range(4)] == [5, 15, 25, 35]


@pytest.mark.parametrize("flush_every", [0, 1, 3])
def test_broken_step(root: Path, flush_every: int) -> None:
    trajectory = with_steps(root, 0, 10, 20, 25, 30, flush_every=flush_every)
    assert "step_progression" not in ts.attributes(root)
    assert ts.array(root, "step").tolist() == trajectory.steps.tolist() == [0, 10, 20, 25, 30]


def test_negative_start(root: Path) -> None:
    trajectory = with_steps(root, -(2**63), -5, -4)
    assert trajectory.steps.tolist() == [-(2**63), -5, -4]
    trajectory = with_steps(root.with_name("other"), -20, -10, 0)
    assert trajectory.steps.tolist() == [-20, -10, 0]


def test_the_widest_stride_there_is(root: Path) -> None:
    trajectory = with_steps(root, -(2**63), 2**63 - 1, flush_every=1)
    assert trajectory.steps.tolist() == [-(2**63), 2**63 - 1]


def test_a_stride_beyond_i64_then_broken(root: Path) -> None:
    trajectory = with_steps(root, -(2**63), 2**62, 2**63 - 1, flush_every=1)
    assert trajectory.steps.tolist() == [-(2**63), 2**62, 2**63 - 1]


@pytest.mark.parametrize("steps", [(1, 1), (5, 4), (0, 10, 10)])
def test_repeated_and_falling_steps_are_refused(root: Path, steps: tuple[int, ...]) -> None:
    with TrajectoryWriter.create(root, NONE) as writer:
        with pytest.raises(ContractError, match="strictly increase"):
            writer.append(FrameBatch(np.array(steps)))
        for step in steps[:-1]:
            writer.append_frame(Frame(step=step))
        with pytest.raises(ContractError, match="strictly increase"):
            writer.append_frame(Frame(step=steps[-1]))
        assert writer.n_frames == len(steps) - 1


@pytest.mark.parametrize(
    "steps", [np.array([0.0, 1.0]), np.array([2**63], np.uint64), np.array([[1]]), np.array(["1"])]
)
def test_steps_that_are_no_i64_are_refused(root: Path, steps: np.ndarray) -> None:
    with TrajectoryWriter.create(root, NONE) as writer:
        with pytest.raises(ContractError, match="i64"):
            writer.append(FrameBatch(steps))
        writer.append(FrameBatch(np.array([3, 7], np.int32)))
        writer.append(FrameBatch(np.array([])))
    assert ts.opened(root).steps.tolist() == [3, 7]


def test_frames_without_a_step_count_on(root: Path) -> None:
    with TrajectoryWriter.create(root, NONE) as writer:
        for step in (None, None, 10, None):
            writer.append_frame(Frame(step=step))
    assert ts.opened(root).steps.tolist() == [0, 1, 10, 11]


# Times.


def test_time_exact_progression(root: Path) -> None:
    times = [0.25 + i * 0.5 for i in range(7)]
    trajectory = with_times(root, *times)
    assert ts.attributes(root)["time_progression"] == {"start": 0.25, "stride": 0.5}
    assert not ts.exists(root, "time")
    assert trajectory.times.tolist() == times
    assert trajectory.frame(3).time == times[3]


def test_accumulated_time_is_an_array(root: Path) -> None:
    times = np.cumsum(np.full(10, 0.1)).tolist()
    trajectory = with_times(root, *times)
    assert "time_progression" not in ts.attributes(root)
    assert trajectory.times.tolist() == ts.array(root, "time").tolist() == times


def test_multiplied_time_is_a_progression(root: Path) -> None:
    times = [0.0 + float(i) * 0.1 for i in range(40)]
    assert with_times(root, *times, flush_every=7).times.tolist() == times
    assert ts.attributes(root)["time_progression"] == {"start": 0.0, "stride": 0.1}


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("position", [0, 1, 3])
def test_non_finite_time_is_an_array(root: Path, special: float, position: int) -> None:
    times = [0.0, 1.0, 2.0, 3.0, 4.0]
    times[position] = special
    trajectory = with_times(root, *times, flush_every=1)
    assert "time_progression" not in ts.attributes(root)
    assert ts.bits(*trajectory.times) == ts.bits(*times)


@pytest.mark.parametrize("times", [(-0.0,), (-0.0, 1.0), (-0.0, -1.0), (0.0, 0.0), (-0.0, -0.0), (5.0, 5.0, 5.0)])
@pytest.mark.parametrize("flush_every", [0, 1])
def test_signed_zeros_in_times_survive(root: Path, times: tuple[float, ...], flush_every: int) -> None:
    assert ts.bits(*with_times(root, *times, flush_every=flush_every).times) == ts.bits(*times)


def test_a_stride_that_overflows_is_an_array(root: Path) -> None:
    times = [-1.7e308, 1.7e308]
    assert with_times(root, *times).times.tolist() == times
    assert "time_progression" not in ts.attributes(root)


def test_time_appearing_or_vanishing_is_refused(root: Path) -> None:
    with TrajectoryWriter.create(root, NONE) as writer:
        writer.append_frame(Frame())
        with pytest.raises(ContractError, match="all frames or for none"):
            writer.append_frame(Frame(time=1.0))
    with TrajectoryWriter.create(root.with_name("timed"), NONE) as writer:
        writer.append_frame(Frame(time=1.0))
        with pytest.raises(ContractError, match="all frames or for none"):
            writer.append_frame(Frame())
    with TrajectoryWriter.open(root) as writer, pytest.raises(ContractError, match="all frames or for none"):
        writer.append_frame(Frame(time=1.0))


# Per-step values.

VALUES: dict[str, list[Any]] = {
    "bool": [True, False],
    "i32": [-(2**31), 2**31 - 1],
    "i64": [-(2**63), 2**53 + 1],
    "u32": [0, 2**32 - 1],
    "u64": [2**64 - 1, 0],
    "f64": [math.nan, -0.0],
    "string": ["a\0é", ""],
    "json": [{"b": [1, 2.5, None], "a": "é"}, None],
    "bool3": [[True, False, True], [False] * 3],
    "i32x3": [[1, -2, 3], [0, 0, 0]],
    "i64x3": [[2**62, -(2**63), 1], [0, 0, 1]],
    "u32x3": [[2**32 - 1, 0, 1], [0, 0, 1]],
    "u64x3": [[2**64 - 1, 0, 1], [0, 0, 1]],
    "f64x3": [[math.inf, math.nan, -0.0], [0.0, 0.0, 0.0]],
    "f64x6": [[1.0, 2, 3, 4, 5, 6], [0.5] * 6],
    "f64x9": [[float(i) for i in range(9)], [0.0] * 9],
}


def test_every_tag_is_tried() -> None:
    assert set(VALUES) == set(TAGS)


@pytest.mark.parametrize("tag", sorted(VALUES))
def test_one_key_of_every_tag(root: Path, tag: str) -> None:
    declaration = Declaration(meta={"key": MetaDeclaration(tag)})
    frames = []
    for value in VALUES[tag]:
        meta = Meta()
        meta.put("key", value, tag)
        frames.append(Frame(meta=meta))
    trajectory = ts.stored(root, frames, declaration)
    for number, frame in enumerate(frames):
        assert trajectory.frame(number).meta == frame.meta
    ts.same_as_zarr(root, trajectory)
    assert ts.attributes(root, "meta/key") == {"meta_dtype": tag}
    (batch,) = trajectory.batches()
    again = ts.memory([batch.frame(i, declaration) for i in range(2)], declaration)
    ts.same_frames(again, trajectory)


def test_a_key_with_a_fill_may_be_omitted(root: Path) -> None:
    declaration = Declaration(
        meta={
            "q": MetaDeclaration("f64", math.nan),
            "n": MetaDeclaration("i64", -1),
            "v": MetaDeclaration("f64x3", np.array([1.0, math.inf, -0.0])),
            "doc": MetaDeclaration("json", None),
        }
    )
    frames = [Frame(), Frame(meta=Meta({"q": 2.0, "n": 5, "doc": {"a": 1}}))]
    trajectory = ts.stored(root, frames, declaration)
    first, second = trajectory.frame(0).meta, trajectory.frame(1).meta
    assert list(first) == ["n", "v"], "what says that there is nothing is not in the meta"
    assert (first["n"], first.get("q"), first.get("doc")) == (-1, None, None)
    assert ts.bits(*first["v"]) == ts.bits(1.0, math.inf, -0.0)
    assert (second["q"], second["n"], second["doc"]) == (2.0, 5, {"a": 1})
    schema = ts.attributes(root)["sequence_schema"]["meta"]
    assert schema["q"] == {"dtype": "f64", "fill": "NaN"}
    assert schema["doc"] == {"dtype": "json", "fill": None}


def test_a_key_without_a_fill_may_not_be_omitted(root: Path) -> None:
    with TrajectoryWriter.create(root, Declaration(meta={"pe": MetaDeclaration("f64")})) as writer:
        with pytest.raises(ContractError, match=r"no declared fill|omits the key"):
            writer.append_frame(Frame())
        with pytest.raises(ContractError, match="no declared fill"):
            writer.append(FrameBatch(np.array([0])))


def test_a_null_fill_is_for_json_only(root: Path) -> None:
    with pytest.raises(ContractError, match="null fill"):
        TrajectoryWriter.create(root, Declaration(meta={"pe": MetaDeclaration("f64", None)}))


def test_values_that_do_not_fit_their_tag_are_refused(root: Path) -> None:
    declaration = Declaration(meta={"n": MetaDeclaration("i32", 0), "doc": MetaDeclaration("json", None)})
    with TrajectoryWriter.create(root, declaration) as writer:
        for meta in (
            {"n": [1.5]},
            {"n": [2**31]},
            {"n": [True]},
            {"n": ["1"]},
            {"doc": [{"x": math.nan}]},
            {"n": [1, 2]},
        ):
            with pytest.raises(ContractError):
                writer.append(FrameBatch(np.array([0]), meta=meta))
        writer.append(FrameBatch(np.array([0]), meta={"n": np.array([7], np.int64)}))
    assert ts.opened(root).frame(0).meta["n"] == 7


def test_meta_array_of_another_tag_or_without_one_is_refused(root: Path) -> None:
    frames = [Frame(meta=Meta({"pe": 1.0}))]
    ts.write(root, frames)
    path = root / "trajectory" / "meta" / "pe"
    edit_json(path, lambda d: d["attributes"].update(meta_dtype="i64"))
    with pytest.raises(ContractError, match="meta_dtype"):
        ts.opened(root)
    edit_json(path, lambda d: d.pop("attributes"))
    with pytest.raises(ContractError, match="meta_dtype"):
        ts.opened(root)


# The cell.


def cells(root: Path, *boxes: Box | None, **options: Any) -> Any:
    return ts.stored(root, [Frame(box=box) for box in boxes], NONE, **options)


def test_fixed_cell_is_attributes(root: Path) -> None:
    trajectory = cells(root, Box(np.eye(3) * 5), Box(np.eye(3) * 5), None)
    assert ts.attributes(root, "box") == {"vectors": (np.eye(3) * 5).tolist()}
    assert [trajectory.frame(i).box for i in range(3)] == [Box(np.eye(3) * 5)] * 3
    tilted = Box(
        np.array([[3.0, 1, -0.0], [0, 0.1 + 0.2, 1], [0, 0, 1e-300]]), np.array([-0.0, 1, 2]), [True, False, True]
    )
    trajectory = cells(root.with_name("tilted"), tilted)
    assert trajectory.frame(0).box == tilted
    assert list(ts.attributes(root.with_name("tilted"), "box")) == ["vectors", "origin", "boundary"]


@pytest.mark.parametrize("flush_every", [0, 1, 2])
def test_changing_cell_is_arrays(root: Path, flush_every: int) -> None:
    edges = [5.0, 5.0, 6.0, 6.0, 5.0]
    trajectory = cells(root, *(Box(np.eye(3) * e) for e in edges), flush_every=flush_every)
    assert ts.attributes(root, "box") == {}
    assert ts.array(root, "box/step_index").tolist() == [0, 2, 4]
    assert not ts.exists(root, "box/origin")
    assert not ts.exists(root, "box/boundary")
    assert [trajectory.frame(i).box.vectors[0, 0] for i in range(5)] == edges
    assert [trajectory.resolve_box(i) for i in range(5)] == [0, 0, 1, 1, 2]
    ts.same_as_zarr(root, trajectory)


def test_cell_appearing_late(root: Path) -> None:
    trajectory = cells(root, None, None, Box(np.eye(3)), None)
    assert [trajectory.frame(i).box is None for i in range(4)] == [True, True, False, False]
    assert ts.array(root, "box/step_index").tolist() == [2]
    ts.same_as_zarr(root, trajectory)


def test_cell_dropped_carries(root: Path) -> None:
    trajectory = cells(root, Box(np.eye(3)), Box(np.eye(3) * 2), None, None)
    assert [trajectory.frame(i).box.vectors[1, 1] for i in range(4)] == [1, 2, 2, 2]


@pytest.mark.parametrize("flush_every", [0, 1])
def test_origin_and_boundary_arrays_come_with_their_history(root: Path, flush_every: int) -> None:
    boxes = [
        Box(np.eye(3)),
        Box(np.eye(3) * 2),
        Box(np.eye(3) * 2, [0, 0, 1.5]),
        Box(np.eye(3) * 2, [0, 0, 1.5], [True, True, False]),
    ]
    trajectory = cells(root, *boxes, flush_every=flush_every)
    assert [trajectory.frame(i).box for i in range(4)] == boxes
    assert ts.array(root, "box/origin").tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1.5], [0, 0, 1.5]]
    assert ts.array(root, "box/boundary")[:, 2].tolist() == [True, True, True, False]
    ts.same_as_zarr(root, trajectory)


def test_a_cell_json_cannot_hold_is_an_array(root: Path) -> None:
    box = Box(np.array([[math.inf, 0, 0], [0, math.nan, 0], [0, 0, 1]]))
    assert cells(root, box, box).frame(1).box == box


def test_undefined_cell(root: Path) -> None:
    box = Box.undefined([1.0, 2.0, 3.0])
    with TrajectoryWriter.create(root, NONE, cell_defined=False) as writer:
        writer.append_frame(Frame(box=box))
        # A batch says nothing of its own on that: vectors and boundary are the writer's.
        writer.append(FrameBatch(np.array([1]), box=BoxUpdates.single(Box(np.eye(3) * 7, [1.0, 2.0, 3.0]))))
    assert ts.attributes(root, "box") == {
        "vectors": np.eye(3).tolist(),
        "origin": [1.0, 2.0, 3.0],
        "boundary": [False] * 3,
        "cell_defined": False,
    }
    trajectory = ts.opened(root)
    assert not trajectory.cell_defined
    assert trajectory.frame(1).box == box
    edit_json(root / "trajectory/box", lambda d: d["attributes"].update(vectors=[[0.0] * 3] * 3))
    assert ts.opened(root).frame(0).box == box, "stored vectors mean nothing"
    edit_json(root / "trajectory/box", lambda d: d["attributes"].pop("boundary"))
    assert ts.opened(root).frame(0).box == box, "an omitted boundary is all-false here"
    edit_json(root / "trajectory/box", lambda d: d["attributes"].update(boundary=[False, True, False]))
    with pytest.raises(ContractError, match="periodic on no axis"):
        ts.opened(root)


def test_undefined_cell_that_moves(root: Path) -> None:
    boxes = [Box.undefined([float(i), 0, 0]) for i in range(3)]
    trajectory = cells(root, *boxes, cell_defined=False, flush_every=1)
    assert [trajectory.frame(i).box for i in range(3)] == boxes
    assert ts.array(root, "box/boundary").tolist() == [[False] * 3] * 3
    with TrajectoryWriter.open(root) as writer:
        writer.append_frame(Frame(box=Box.undefined([9.0, 0, 0])))
    assert ts.opened(root).frame(3).box == Box.undefined([9.0, 0, 0])


def test_a_cell_of_the_other_kind_is_refused(root: Path) -> None:
    with TrajectoryWriter.create(root, NONE) as writer, pytest.raises(ContractError, match="cell_defined"):
        writer.append_frame(Frame(box=Box.undefined()))
    other = root.with_name("undefined")
    with (
        TrajectoryWriter.create(other, NONE, cell_defined=False) as writer,
        pytest.raises(ContractError, match="cell_defined"),
    ):
        writer.append_frame(Frame(box=Box(np.eye(3))))


def test_malformed_cells_are_refused(root: Path) -> None:
    cells(root, Box(np.eye(3)))
    path = root / "trajectory/box"
    for change in (
        {"vectors": [[1.0, 0.0, 0.0]]},
        {"vectors": "x"},
        {"vectors": [[1.0, 0.0, True]] * 3},
        {"vectors": np.eye(3).tolist(), "origin": [0.0, 1.0]},
        {"vectors": np.eye(3).tolist(), "origin": None, "boundary": [1, 0, 1]},
        {"vectors": np.eye(3).tolist(), "cell_defined": "no"},
    ):
        edit_json(path, lambda d, change=change: d.update(attributes=change))
        with pytest.raises(ContractError) as caught:
            ts.opened(root)
        assert caught.value.node == "trajectory/box"


def test_step_index_of_the_cell_may_be_missing_when_it_is_zero(root: Path) -> None:
    import shutil

    cells(root, Box(np.diag([1.0, math.inf, 1.0])))
    shutil.rmtree(root / "trajectory/box/step_index")
    trajectory = ts.opened(root)
    assert trajectory.frame(0).box is not None
    with TrajectoryWriter.open(root) as writer:
        writer.append_frame(Frame(box=Box(np.eye(3))))
    assert ts.array(root, "box/step_index").tolist() == [0, 1]
    assert ts.opened(root).frame(1).box == Box(np.eye(3))


def test_arrays_of_the_cell_win_over_attributes(root: Path) -> None:
    cells(root, Box(np.eye(3)), Box(np.eye(3) * 2))
    edit_json(root / "trajectory/box", lambda d: d["attributes"].update(vectors=(np.eye(3) * 9).tolist()))
    assert [ts.opened(root).frame(i).box.vectors[0, 0] for i in range(2)] == [1.0, 2.0]
