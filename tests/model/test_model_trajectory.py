"""Frames joined into batches, trajectories in memory, and views of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import trajectory_stores as ts
from hypothesis import given
from hypothesis import strategies as st

from molrec_convert.errors import ContractError, UnsupportedError, UsageError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    FrameBatch,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Trajectory,
    TrajectoryView,
    batch_from_frames,
)
from molrec_convert.model.batch import BlockUpdates

F64 = ColumnDeclaration("f64")
DECLARATION = Declaration(
    {
        "a": BlockDeclaration({"c": ColumnDeclaration("f64", nullable=True), "t": ColumnDeclaration("string")}),
        "b": BlockDeclaration({"v": ColumnDeclaration("i32", (2,))}),
        "none": BlockDeclaration(),
    },
    {
        "pe": MetaDeclaration("f64", math.nan),
        "note": MetaDeclaration("json", None),
        "w": MetaDeclaration("f64x3", [0, 1, 2]),
    },
)


@st.composite
def runs(draw: st.DrawFn) -> list[Frame]:
    """Frames that present any subset of the blocks, with any number of rows, and any subset of the keys."""
    frames = []
    step = draw(st.integers(-5, 5))
    boxed = draw(st.booleans())
    for _ in range(draw(st.integers(1, 8))):
        blocks: dict[str, Block] = {}
        if draw(st.booleans()):
            rows = draw(st.integers(0, 3))
            mask = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)
            values = np.array(draw(st.lists(st.sampled_from([0.0, -0.0, 1.5, math.nan]), min_size=rows, max_size=rows)))
            texts = draw(st.lists(st.sampled_from(["", "a", "Å\0"]), min_size=rows, max_size=rows))
            blocks["a"] = Block({"c": Column(values, mask), "t": np.array(texts, np.dtypes.StringDType())}, count=rows)
        if draw(st.booleans()):
            rows = draw(st.integers(0, 2))
            blocks["b"] = Block({"v": np.full((rows, 2), draw(st.integers(0, 9)), np.int32)})
        if draw(st.booleans()):
            blocks["none"] = Block(count=draw(st.integers(0, 4)))
        meta = Meta({"pe": 1.5} if draw(st.booleans()) else {})
        if draw(st.booleans()):
            meta.put("note", {"n": draw(st.integers(0, 3))}, "json")
        box = Box(np.eye(3) * draw(st.integers(1, 3))) if boxed and draw(st.booleans()) else None
        frames.append(Frame(blocks, meta, box, step, 0.5 * step))
        step += draw(st.integers(1, 3))
    return frames


def resolved(frames: list[Frame]) -> list[Frame]:
    """The same frames with everything carried forward, one after the other: the slow twin of every batch."""
    state: dict[str, Block] = {}
    box = None
    found = []
    for frame in frames:
        state = {**state, **frame.blocks}
        box = box if frame.box is None else frame.box
        meta = Meta()
        for key, entry in DECLARATION.meta.items():
            value = frame.meta.get(key, entry.fill)
            if not ts.stands_for_none(value, entry.fill):
                meta.put(key, value, entry.dtype)
        blocks = {name: state[name] for name in DECLARATION.blocks if name in state}
        found.append(Frame(blocks, meta, box, frame.step, frame.time))
    return found


class Divided(Trajectory):
    """The frames of another trajectory in batches of a given size."""

    def __init__(self, source: Trajectory, size: int) -> None:
        super().__init__()
        self.source, self.size = source, size
        self.declaration = source.declaration
        self.cell_defined = source.cell_defined

    @property
    def n_frames(self) -> int | None:
        return self.source.n_frames

    def batches(
        self, start: int = 0, stop: int | None = None, step: int = 1, columns: Any = None, batch_bytes: int = 0
    ) -> Iterator[FrameBatch]:
        total = len(self) if stop is None else min(stop, len(self))
        ordinals = range(start, total, step)
        for first in range(0, len(ordinals), self.size):
            part = ordinals[first : first + self.size]
            yield from self.source.batches(part.start, part.stop, step, columns)


@given(runs())
def test_every_frame_resolves_to_what_was_presented(frames: list[Frame]) -> None:
    trajectory = MemoryTrajectory(frames, DECLARATION)
    expected = resolved(frames)
    assert len(trajectory) == len(frames)
    assert [trajectory[i] for i in range(len(frames))] == expected
    assert list(trajectory) == expected
    assert [trajectory[i - len(frames)] for i in range(len(frames))] == expected
    assert trajectory.steps.tolist() == [frame.step for frame in frames]
    assert trajectory.times is not None
    assert trajectory.times.tolist() == [frame.time for frame in frames]


@given(runs(), st.integers(1, 4))
def test_batches_of_any_size_give_the_same_frames(frames: list[Frame], size: int) -> None:
    assert list(Divided(MemoryTrajectory(frames, DECLARATION), size)) == resolved(frames)


@given(runs(), st.data())
def test_slices_of_slices(frames: list[Frame], data: st.DataObject) -> None:
    expected = resolved(frames)
    trajectory: Trajectory = MemoryTrajectory(frames, DECLARATION)
    if data.draw(st.booleans()):
        trajectory = Divided(trajectory, 2)
    for _ in range(data.draw(st.integers(1, 3))):
        bounds = st.none() | st.integers(-9, 9)
        chosen = slice(data.draw(bounds), data.draw(bounds), data.draw(st.none() | st.integers(1, 3)))
        expected = expected[chosen]
        trajectory = trajectory[chosen]
        assert len(trajectory) == len(expected)
        assert list(trajectory) == expected
        assert [trajectory[i] for i in range(len(expected))] == expected
        assert trajectory.steps.tolist() == [frame.step for frame in expected]


@given(runs(), st.integers(0, 8), st.integers(1, 3))
def test_any_slice_of_batches_can_stand_alone(frames: list[Frame], start: int, step: int) -> None:
    trajectory = MemoryTrajectory(frames, DECLARATION)
    expected = resolved(frames)[start::step]
    found = [
        batch.frame(index, DECLARATION)
        for batch in trajectory.batches(start, None, step)
        for index in range(batch.n_frames)
    ]
    assert found == expected


def test_columns_are_selected() -> None:
    frames = [Frame({"a": Block({"c": [1.0], "t": ["x"]}), "b": Block({"v": np.ones((2, 2), np.int32)})}, {"pe": 1.0})]  # type: ignore[arg-type]
    view = TrajectoryView(MemoryTrajectory(frames, DECLARATION), columns=["t", "b/v"])
    assert {name: list(block) for name, block in view[0].blocks.items()} == {"a": ["t"], "b": ["v"]}
    assert view[0].meta["pe"] == 1.0
    batch = next(iter(view.batches(columns=["b/v"])))
    assert list(batch.blocks) == ["b"]
    with pytest.raises(UsageError, match="no column 'z'"):
        TrajectoryView(MemoryTrajectory(frames, DECLARATION), columns=["z"])


def test_a_view_declares_a_precision() -> None:
    trajectory = MemoryTrajectory([Frame({"a": Block({"c": [0.3]})})])
    view = TrajectoryView(trajectory, precision={"c": 0.5})
    assert view.declaration.blocks["a"].columns["c"].precision == 0.5
    assert trajectory.declaration.blocks["a"].columns["c"].precision is None


def test_what_a_trajectory_cannot_be_asked() -> None:
    trajectory = MemoryTrajectory([Frame(), Frame()])
    for index in (2, -3):
        with pytest.raises(IndexError):
            _ = trajectory[index]
    with pytest.raises(UnsupportedError, match="forward only"):
        _ = trajectory[::-1]


def test_a_trajectory_of_unknown_length() -> None:
    class Endless(Divided):
        @property
        def n_frames(self) -> int | None:
            return None

    trajectory = Endless(MemoryTrajectory([Frame()]), 1)
    assert bool(trajectory)
    with pytest.raises(TypeError, match="not known"):
        len(trajectory)


def test_no_frames() -> None:
    trajectory = MemoryTrajectory([], DECLARATION)
    assert (len(trajectory), list(trajectory), list(trajectory.batches())) == (0, [], [])
    assert trajectory.steps.tolist() == []
    assert trajectory.times is None


# What a frame may present


def joined(*frames: Frame) -> FrameBatch:
    return batch_from_frames(frames, DECLARATION)


@pytest.mark.parametrize(
    ("frame", "node", "match"),
    [
        (Frame({"d": Block(count=1)}), "trajectory/d", "not declared"),
        (Frame({"a": Block({"c": [1.0]})}), "trajectory/a/t", "without this column"),
        (Frame({"a": Block({"c": [1.0], "t": ["x"], "u": [1.0]})}), "trajectory/a/u", "not declared"),
        (Frame({"a": Block({"c": [1], "t": ["x"]})}), "trajectory/a/c", "differs from its declaration"),
        (Frame({"b": Block({"v": np.ones(2, np.int32)})}), "trajectory/b/v", "differs from its declaration"),
        (
            Frame({"b": Block({"v": Column(np.ones((1, 2), np.int32), np.array([False]))})}),
            "trajectory/b/v",
            "nullable",
        ),
        (Frame({"a": Block({"c": Column(np.ones(1), precision=0.5), "t": ["x"]})}), "trajectory/a/c", "precision"),
        (Frame({"a": Block({"c": [1.0, 2.0], "t": ["x"]})}), "trajectory/a/t", "one row per row"),
        (
            Frame({"b": Block({"v": np.ones((2, 2), np.int32)}, structural_shape=(2,))}),
            "trajectory/b",
            "structural shape",
        ),
        (Frame(meta=Meta({"temp": 1.0})), "trajectory/meta/temp", "not declared"),
        (Frame(meta=Meta({"pe": "low"})), "trajectory/meta/pe", "not f64"),
        (Frame(step=1.5), "trajectory/step", "no i64"),  # type: ignore[arg-type]
        (Frame(step=True), "trajectory/step", "no i64"),
        (Frame(step=2**63), "trajectory/step", "no i64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_outside_the_declaration_is_refused(frame: Frame, node: str, match: str) -> None:
    with pytest.raises(ContractError, match=match) as caught:
        joined(Frame(), frame) if frame.step is None else joined(frame)
    assert caught.value.node == node


def test_a_key_without_a_fill_is_needed_in_every_frame() -> None:
    declaration = Declaration({}, {"pe": MetaDeclaration("f64")})
    with pytest.raises(ContractError, match="trajectory/meta/pe: frame 1 omits"):
        batch_from_frames([Frame(meta=Meta({"pe": 1.0})), Frame()], declaration)


def test_time_is_all_or_nothing() -> None:
    with pytest.raises(ContractError, match="trajectory/time"):
        joined(Frame(time=0.0), Frame())
    assert joined(Frame(), Frame()).time is None


def test_a_structural_shape_fixes_the_rows() -> None:
    declaration = Declaration({"grid": BlockDeclaration({"rho": F64}, (2, 2))})
    batch = batch_from_frames([Frame({"grid": Block({"rho": np.arange(4.0)})})], declaration)
    assert batch.frame(0, declaration)["grid"].structural_shape == (2, 2)
    with pytest.raises(ContractError, match="trajectory/grid"):
        batch_from_frames([Frame({"grid": Block({"rho": np.arange(3.0)})})], declaration)


def test_a_precision_the_frame_does_not_state_is_the_declared_one() -> None:
    declaration = Declaration({"a": BlockDeclaration({"c": ColumnDeclaration("f64", precision=0.5)})})
    batch = batch_from_frames([Frame({"a": Block({"c": [0.3]})})], declaration)
    assert batch.frame(0, declaration)["a"].columns["c"].precision == 0.5


def test_boxes_are_cells_in_all_frames_or_in_none() -> None:
    undefined, cell = Box.undefined([1.0, 2.0, 3.0]), Box(np.eye(3))
    trajectory = MemoryTrajectory([Frame(box=undefined), Frame()])
    assert not trajectory.cell_defined
    assert trajectory[1].box == undefined
    assert MemoryTrajectory([Frame(box=cell)]).cell_defined
    with pytest.raises(ContractError, match="trajectory/box: frame 1"):
        MemoryTrajectory([Frame(box=cell), Frame(box=undefined)])
    with pytest.raises(ContractError, match="trajectory/box: frame 0"):
        MemoryTrajectory([Frame(box=cell)], cell_defined=False)


def test_steps_default_to_ordinals() -> None:
    assert joined(Frame(), Frame(), Frame()).step.tolist() == [0, 1, 2]


def test_uniform_updates() -> None:
    updates = BlockUpdates.uniform(3, 2, {"c": np.arange(6.0)})
    assert (updates.frames.tolist(), updates.offset.tolist()) == ([0, 1, 2], [0, 2, 4, 6])
    assert updates.uniform_rows == 2
    assert updates.rows_of(1) == slice(2, 4)
    assert updates.nbytes == 48
    texts = BlockUpdates.uniform(1, 2, {"t": np.array(["a", "b"], np.dtypes.StringDType())})
    assert texts.nbytes == 32
    ragged = BlockUpdates(np.array([0, 1]), np.array([0, 1, 3]), {"c": np.arange(3.0)})
    assert ragged.uniform_rows is None
    assert BlockUpdates.uniform(0, 2, {}).uniform_rows is None
