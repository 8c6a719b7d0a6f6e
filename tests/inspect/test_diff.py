"""`diff`: the logical comparison of two records."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_examples.records import build_reaction, build_vibration, build_water, reaction_declaration

from molrec_convert.inspect.diff import differences
from molrec_convert.model import (
    BATCH_BYTES,
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
    Record,
    Trajectory,
)
from molrec_convert.model.trajectory import take_frames


class Chopped(Trajectory):
    """The frames of another trajectory in batches of given sizes; only the first batch presents the whole state."""

    def __init__(self, source: MemoryTrajectory, sizes: Iterable[int]) -> None:
        super().__init__()
        self.source, self.sizes = source, list(sizes)
        self.declaration, self.cell_defined = source.declaration, source.cell_defined

    @property
    def n_frames(self) -> int:
        return self.source.n_frames

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        assert (start, stop, step, columns) == (0, None, 1, None)
        (whole,) = self.source.batches()
        position = 0
        for size in [*self.sizes, whole.n_frames]:
            end = min(position + size, whole.n_frames)
            if end > position:
                piece = take_frames(whole, np.arange(position, end))
                for name, updates in whole.blocks.items():
                    mine = piece.blocks.get(name)
                    if position and mine is not None and mine.frames[0] == 0 and position not in updates.frames:
                        piece.blocks[name] = without_first(mine)
                if position and piece.box is not None and whole.box is not None and position not in whole.box.frames:
                    box = piece.box
                    piece.box = type(box)(box.frames[1:], box.vectors[1:], box.origin[1:], box.boundary[1:])
                yield piece
            position = end


def without_first(updates: Any) -> Any:
    rows = int(updates.offset[1])
    return replace(
        updates,
        frames=updates.frames[1:],
        offset=updates.offset[1:] - rows,
        columns={key: values[rows:] for key, values in updates.columns.items()},
        validity={key: mask[rows:] for key, mask in updates.validity.items()},
    )


def lines(a: Record, b: Record) -> list[str]:
    return list(differences(a, b))


@pytest.mark.parametrize("build", [build_water, build_vibration, build_reaction])
def test_equal_records(build: Any) -> None:
    assert lines(build(), build()) == []


def test_meta_ignores_who_wrote_it_and_takes_no_version_for_one() -> None:
    a = Record(
        meta={"molrec_version": 1, "creator": {"name": "x"}, "created_at": "2026-01-01T00:00:00Z", "source": "s"}
    )
    b = Record(meta={"source": "s"})
    assert lines(a, b) == []
    b.meta.update(source="t", extra=None)
    assert lines(a, b) == ["meta: 'extra' is in the second only: null", 'meta: \'source\' is "s" against "t"']


def test_meta_tells_an_integer_from_a_real() -> None:
    assert lines(Record(meta={"n": 1}), Record(meta={"n": 1.0})) == ["meta: 'n' is 1 against 1.0"]


def test_sections() -> None:
    a, b = build_water(), build_vibration()
    a.method = {"type": "md", "description": "", "engine": {"name": "LAMMPS"}}
    assert lines(a, b) == [
        "system: is in the second only",
        "frame: is in the first only",
        "trajectory: is in the second only",
        "method: is in the first only",
    ]


def change_water(**changes: Any) -> tuple[Record, Record]:
    a, b = build_water(), build_water()
    assert b.frame is not None
    b.frame["atoms"].columns.update({name: Column(**value) for name, value in changes.items()})
    return a, b


def test_columns() -> None:
    mass = np.array([15.999, 1.008, 1.009])
    assert lines(*change_water(mass={"values": mass})) == ["frame/atoms/mass, row 2: 1.008 against 1.009"]
    assert lines(*change_water(mass={"values": mass * 2})) == [
        "frame/atoms/mass, row 0: 15.999 against 31.998 (3 of 3 rows differ)"
    ]
    assert lines(*change_water(mass={"values": np.array([15, 1, 1])})) == ["frame/atoms/mass: f64[] against i64[]"]
    assert lines(*change_water(extra={"values": mass})) == ["frame/atoms/extra: is in the second only"]
    masked = {"values": np.array([15.999, 1.008, 1.008]), "validity": np.array([True, False, True])}
    assert lines(*change_water(mass=masked)) == ["frame/atoms/mass, row 1: the mask is true against false"]
    precise = {"values": np.array([15.999, 1.008, 1.008]), "precision": 0.5}
    assert lines(*change_water(mass=precise)) == ["frame/atoms/mass: the precision is null against 0.5"]


def test_values_are_told_apart_by_their_bits() -> None:
    a, b = change_water(x={"values": np.array([0.0, -0.0, 0.0]), "precision": 1e-3})
    assert lines(a, b) == ["frame/atoms/x, row 1: 0.0 against -0.0"]
    nan = np.array([np.nan, np.nan])
    other = nan.copy()
    other.view(np.uint64)[1] ^= 1
    a, b = (Record(frame=Frame({"g": Block({"v": values})})) for values in (nan, other))
    assert lines(a, a) == []
    assert lines(a, b) == ["frame/g/v, row 1: nan (0x7ff8000000000000) against nan (0x7ff8000000000001)"]


def test_attributes_of_groups_this_version_does_not_know() -> None:
    a, b = Record(frame=Frame()), Record(frame=Frame(attributes={"box": {"note": 1}}), attributes={"root": True})
    assert lines(a, b) == [
        "the root group: 'root' is in the second only: true",
        "frame/box: 'note' is in the second only: 1",
    ]


def test_blocks() -> None:
    def frame(**options: Any) -> Record:
        return Record(frame=Frame({"g": Block({"v": np.arange(4, dtype=np.uint64)}, **options)}))

    assert lines(frame(), frame(structural_shape=(2, 2))) == ["frame/g: the structural shape is null against [2, 2]"]
    assert lines(frame(), frame(targets={"v": "g"})) == ["frame/g: targets: 'v' is in the second only: \"g\""]
    assert lines(frame(), frame(attributes={"k": 1})) == ["frame/g: 'k' is in the second only: 1"]
    more = Record(frame=Frame({"g": Block({"v": np.arange(5, dtype=np.uint64)})}))
    assert lines(frame(), more) == ["frame/g: 4 rows against 5"]


def test_stating_a_standard_target_is_no_difference() -> None:
    a, b = build_water(), build_water()
    assert b.frame is not None
    b.frame["bonds"].targets["atomi"] = "atoms"
    assert lines(a, b) == []


def test_typed_meta() -> None:
    a, b = Record(frame=Frame(meta=Meta({"q": 1}))), Record(frame=Frame(meta=Meta({"q": 1}, {"q": "f64"})))
    assert lines(a, b) == ["frame: the key 'q' is i64 against f64"]
    b.frame = Frame(meta=Meta({"q": 2, "r": "x"}))
    assert lines(a, b) == ["frame: the key 'q' is 1 against 2", "frame: the key 'r' is in the second only: \"x\""]


def test_box() -> None:
    a, b = build_water(), build_water()
    assert b.frame is not None
    b.frame.box = Box(np.eye(3) * 10, origin=np.array([0, 0, 1.0]), boundary=np.array([True, True, False]))
    assert lines(a, b) == [
        "frame/box/origin: [0.0,0.0,0.0] against [0.0,0.0,1.0]".replace(",", ", "),
        "frame/box/boundary: [true, true, true] against [true, true, false]",
    ]
    b.frame.box = None
    assert lines(a, b) == ["frame/box: is in the first only"]


def edited(record: Record, change: Any) -> Record:
    """The record with `change(frames)` applied to the list of its frames as they were presented."""
    trajectory = record.trajectory
    assert isinstance(trajectory, MemoryTrajectory)
    frames = [copy.deepcopy(frame) for frame in trajectory]
    change(frames)
    return replace(record, trajectory=MemoryTrajectory(frames, trajectory.declaration))


def test_resolved_frames_not_updates_are_compared() -> None:
    """Restating what is carried forward anyway is no difference."""
    assert lines(build_reaction(), edited(build_reaction(), lambda frames: None)) == []


def test_regular_trajectory_names_frame_row_and_values() -> None:
    def change(frames: list[Frame]) -> None:
        frames[2]["atoms"].columns["x"].values[1] = 7.0
        frames[3]["atoms"].columns["x"].values[:2] = 8.0
        frames[1].step = 101
        frames[1].meta["pe"] = -1.0

    found = lines(build_vibration(), edited(build_vibration(), change))
    assert found == [
        "trajectory/step, frame 1: 100 against 101",
        "trajectory/meta/pe, frame 1: -12.1476 against -1.0",
        "trajectory/atoms/x, frame 2, row 1: 0.0 against 7.0",
        "trajectory/atoms/x, frame 3, row 0: 0.8407 against 8.0 (2 of 4 rows differ)",
    ]


def test_ragged_trajectory() -> None:
    def change(frames: list[Frame]) -> None:
        del frames[3].blocks["insertions"]
        frames[2].blocks["bonds"] = frames[1]["bonds"]
        frames[4].box = None

    a = build_reaction()
    found = lines(a, edited(build_reaction(), change))
    assert found == [
        "trajectory/bonds, frame 2: 3 rows against 2",
        "trajectory/insertions, frame 3: is in the first only",
        "trajectory/box/vectors, frame 4, row 0: [[12.25, 0.0, 0.0], [0.0, 12.25, 0.0], [0.0, 0.0, 12.25]] against "
        "[[12.0, 0.0, 0.0], [0.0, 12.0, 0.0], [0.0, 0.0, 12.0]]",
    ]


def test_lengths() -> None:
    def change(frames: list[Frame]) -> None:
        del frames[-2:]

    assert lines(build_reaction(), edited(build_reaction(), change)) == ["trajectory: 5 frames against 3"]


def test_time_and_cell_flag() -> None:
    a = build_vibration()
    b = edited(build_vibration(), lambda frames: [setattr(frame, "time", None) for frame in frames])
    assert lines(a, b) == ["trajectory/time: is in the first only"]
    assert b.trajectory is not None
    b.trajectory.cell_defined = False
    assert "trajectory/box: cell_defined is true against false" in lines(a, b)


def test_declarations() -> None:
    f64 = ColumnDeclaration("f64")

    def declared(**options: Any) -> Record:
        block = BlockDeclaration({"x": replace(f64, **options.pop("column", {}))}, **options)
        return Record(trajectory=MemoryTrajectory([], Declaration({"atoms": block}, {"pe": MetaDeclaration("f64")})))

    plain = declared()
    assert lines(plain, declared(rows=7)) == []
    assert lines(plain, declared(column={"precision": 1e-3})) == [
        "trajectory/atoms/x: declaration: 'precision' is in the second only: 0.001"
    ]
    assert lines(plain, declared(column={"nullable": True})) == [
        "trajectory/atoms/x: declaration: 'nullable' is in the second only: true"
    ]
    assert lines(plain, declared(structural_shape=(2,))) == [
        "trajectory/atoms: declaration: 'structural_shape' is in the second only: [2]"
    ]
    other = Record(trajectory=MemoryTrajectory([], Declaration({"b": BlockDeclaration()}, {})))
    assert lines(plain, other) == [
        "trajectory/atoms: is declared in the first only",
        "trajectory/b: is declared in the second only",
        "trajectory/meta/pe: is declared in the first only",
    ]


def test_attributes_this_version_does_not_know() -> None:
    a, b = build_vibration(), build_vibration()
    assert b.trajectory is not None
    b.trajectory.attributes["atoms/x"] = {"long_name": "position"}
    assert lines(a, b) == ["trajectory/atoms/x: 'long_name' is in the second only: \"position\""]


class Files(dict[str, bytes]):
    def read(self, key: str) -> bytes:
        return self[key]


def test_unknown_content() -> None:
    a = Record(unknown=Files({"p/zarr.json": b'{"a": 1, "attributes": {}}', "p/c/0": b"x", "q": b"1"}))
    b = Record(unknown=Files({"p/zarr.json": b'{"attributes": {"_zarrs": 1}, "a": 1}', "p/c/0": b"y", "r": b"1"}))
    assert lines(a, b) == ["p/c/0: the files differ", "q: is in the first only", "r: is in the second only"]
    assert lines(a, Record()) == [f"{key}: is in the first only" for key in sorted(a.unknown or ())]


@given(st.lists(st.integers(1, 4), max_size=5), st.lists(st.integers(1, 4), max_size=5))
def test_how_frames_are_batched_does_not_matter(first: list[int], second: list[int]) -> None:
    for build in (build_vibration, build_reaction):
        whole = build()
        assert isinstance(whole.trajectory, MemoryTrajectory)
        a = replace(whole, trajectory=Chopped(whole.trajectory, first))
        b = replace(whole, trajectory=Chopped(whole.trajectory, second))
        assert lines(a, b) == []


@given(st.lists(st.integers(1, 4), max_size=5), st.lists(st.integers(1, 4), max_size=5), st.integers(0, 4))
def test_one_changed_value_is_found_once_however_frames_are_batched(
    first: list[int], second: list[int], frame: int
) -> None:
    def change(frames: list[Frame]) -> None:
        frames[frame]["atoms"].columns["y"].values[3] = 99.0

    whole, other = build_reaction(), edited(build_reaction(), change)
    assert isinstance(whole.trajectory, MemoryTrajectory)
    assert isinstance(other.trajectory, MemoryTrajectory)
    found = lines(
        replace(whole, trajectory=Chopped(whole.trajectory, first)),
        replace(other, trajectory=Chopped(other.trajectory, second)),
    )
    assert len(found) == 1
    assert found[0].startswith(f"trajectory/atoms/y, frame {frame}, row 3: ")
    assert found[0].endswith(" against 99.0")


def test_masks_of_frames() -> None:
    declaration = Declaration({"b": BlockDeclaration({"v": ColumnDeclaration("f64", nullable=True)})})

    def run(mask: list[bool] | None) -> Record:
        column = Column(np.ones(2), None if mask is None else np.array(mask))
        frames = [Frame({"b": Block({"v": Column(np.ones(2))})}), Frame({"b": Block({"v": column})})]
        return Record(trajectory=MemoryTrajectory(frames, declaration))

    assert lines(run(None), run([True, True])) == []
    assert lines(run(None), run([True, False])) == ["trajectory/b/v, frame 1, row 1: the mask is true against false"]


def test_reaction_declaration_is_the_one_declared() -> None:
    trajectory = build_reaction().trajectory
    assert trajectory is not None
    assert trajectory.declaration == reaction_declaration()
