"""Records that follow one another in time, joined: split anywhere and joined again they are what they were."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_trajectory_random import runs

import molrec_convert
from molrec_convert import Block, Box, ContractError, Frame, MemoryTrajectory, Report, UsageError, convert, join
from molrec_convert.inspect.diff import differences
from molrec_convert.inspect.diff.trajectories import trajectory_differences
from molrec_convert.model import (
    BlockDeclaration,
    ChainedTrajectory,
    ColumnDeclaration,
    Declaration,
    Part,
    Trajectory,
    TrajectoryView,
)

WATER = Path(__file__).parents[2] / "fixtures" / "water-run"
RANDOM = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def chained(*parts: Trajectory, **options: Any) -> ChainedTrajectory:
    return ChainedTrajectory([Part("abcdef"[n], part) for n, part in enumerate(parts)], **options)


def run(steps: range, *, start: float = 0.0, time: bool = True, **columns: Any) -> MemoryTrajectory:
    """Two atoms; x is 100 times the step, time a tenth of it after `start`."""
    frames = []
    for step in steps:
        atoms = Block({"x": [100.0 * step, 100.0 * step + 1], **{k: np.array(v) for k, v in columns.items()}})
        frames.append(Frame({"atoms": atoms}, box=Box(np.eye(3)), step=step, time=start + step / 10 if time else None))
    return MemoryTrajectory(frames)


def xs(trajectory: Trajectory) -> list[float]:
    return [float(frame["atoms"]["x"][0]) for frame in trajectory]


@RANDOM
@given(drawn=runs(), data=st.data())
def test_what_is_split_and_chained_is_what_it_was(drawn: tuple[Declaration, list[Frame]], data: st.DataObject) -> None:
    declaration, frames = drawn
    timed = [dataclasses.replace(f, time=None if f.time is None else 0.5 * n) for n, f in enumerate(frames)]
    whole = MemoryTrajectory(timed, declaration)
    overlap = data.draw(st.sampled_from([0, 0, 1, 1, 2, 3]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(frames)), max_size=3)))
    bounds = list(zip([0, *cuts], [*cuts, len(frames)], strict=True))
    parts = [TrajectoryView(whole, max(0, start - overlap if start else 0), stop) for start, stop in bounds]
    asked = data.draw(st.sampled_from(["first", "last"])) if overlap > 1 else "refuse"
    made = chained(*parts, overlap=asked)
    assert list(trajectory_differences(whole, made)) == []
    assert made.steps.tolist() == whole.steps.tolist()
    start, step = data.draw(st.integers(0, len(frames))), data.draw(st.integers(1, 3))
    columns = None
    if data.draw(st.booleans()):
        named = [f"{name}/{key}" for name, block in declaration.blocks.items() for key in block.columns]
        columns = data.draw(st.lists(st.sampled_from(named), unique=True)) if named else []
    views = [TrajectoryView(t, start, None, step, columns=columns) for t in (whole, made)]
    assert list(trajectory_differences(*views)) == []


def test_a_repeated_frame_is_taken_once() -> None:
    report = Report()
    made = chained(run(range(0, 6, 1)), run(range(5, 9)), report=report)
    assert made.steps.tolist() == list(range(9))
    assert made.ranges == [(0, 6), (1, 4)]
    assert [str(item) for item in report.items] == [
        "converted: trajectory (step 5, the last of a and the first of b, equal bit for bit, is taken once)"
    ]


def test_overlapping_steps_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"the steps 3 to 5 are in a and in b: .*--overlap first or --overlap last"):
        chained(run(range(6)), run(range(3, 9)))
    other = run(range(5, 9), vx=[1.0, 2.0])
    with pytest.raises(UsageError, match=r"step 5 is in a and in b, where atoms/vx differs: .*--overlap"):
        chained(run(range(6), vx=[1.0, 2.5]), other)


def test_overlapping_steps_are_taken_as_asked() -> None:
    early, late = run(range(6), vx=[1.0, 1.0]), run(range(3, 9), vx=[2.0, 2.0])
    for overlap, expected in (("first", [1.0] * 6 + [2.0] * 3), ("last", [1.0] * 3 + [2.0] * 6)):
        report = Report()
        made = chained(early, late, overlap=overlap, report=report)
        assert made.steps.tolist() == list(range(9))
        assert [frame["atoms"]["vx"][0] for frame in made] == expected
        assert "3 frames are left out as asked" in str(report.items[0])
    with pytest.raises(UsageError, match="overlap is first, last or refuse"):
        chained(early, late, overlap="both")


def test_last_goes_back_over_several_parts() -> None:
    made = chained(run(range(4)), run(range(4, 8)), run(range(2, 6), vx=[3.0, 3.0]), overlap="last")
    assert made.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert made.ranges == [(0, 2), (0, 0), (0, 4)]


def test_sources_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(UsageError, match="b ends at step 2, before a begins at step 5: name the sources in the order"):
        chained(run(range(5, 9)), run(range(3)), overlap="first")


def test_a_clock_that_starts_again_is_refused_or_shifted() -> None:
    early, late = run(range(6)), run(range(6, 10), start=-0.6)
    with pytest.raises(UsageError, match=r"the time of b starts again: 0.0 at step 6, after 0.5 at the end of a"):
        chained(early, late)
    report = Report()
    made = chained(early, late, shift_time=True, report=report)
    assert made.times is not None
    np.testing.assert_allclose(made.times, np.arange(10) / 10)
    assert [frame.time for frame in made] == made.times.tolist()
    assert "derived: trajectory/time of b" in str(report.items[0])


def test_steps_and_times_that_start_again_go_on() -> None:
    made = chained(run(range(0, 6, 2)), run(range(0, 6, 2)), run(range(0, 4, 2)), shift_time=True)
    assert made.steps.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert made.times is not None
    np.testing.assert_allclose(made.times, made.steps / 10)
    assert xs(made) == [0, 200, 400, 0, 200, 400, 0, 200]


def test_a_repeated_frame_may_be_at_the_end_of_one_clock_and_the_beginning_of_another() -> None:
    early = run(range(0, 6, 2))
    frames = [dataclasses.replace(f, step=n * 2, time=n * 0.2) for n, f in enumerate([early[2], *run(range(3))])]
    made = chained(early, MemoryTrajectory(frames), shift_time=True)
    assert made.steps.tolist() == [0, 2, 4, 6, 8, 10]
    assert xs(made) == [0, 200, 400, 0, 100, 200]
    assert made.times is not None
    np.testing.assert_allclose(made.times, made.steps / 10)


def test_times_that_some_lack_are_dropped_by_name() -> None:
    report = Report()
    made = chained(run(range(3)), run(range(3, 5), time=False), report=report)
    assert made.times is None
    assert [frame.time for frame in made] == [None] * 5
    assert report.losses() == ["dropped: trajectory/time of a (not all sources state times)"]


def test_what_only_some_have_is_missing_in_the_others() -> None:
    first = MemoryTrajectory(
        [
            Frame(
                {"atoms": Block({"x": [1.0, 2.0], "fx": [3.0, 4.0]}), "rings": Block({"size": np.array([5, 6, 6])})},
                {"pe": -1.0, "note": "a", "count": 3},
                step=0,
            )
        ]
    )
    second = MemoryTrajectory([Frame({"atoms": Block({"x": [1.0, 2.5]})}, {"ke": 2.0}, step=1)])
    made = chained(first, second)
    before, after = made
    assert before["atoms"].validity("fx").tolist() == [True, True]
    assert after["atoms"].validity("fx").tolist() == [False, False]
    assert (before["rings"].count, after["rings"].count) == (3, 0)
    assert made[1]["rings"].count == 0
    assert dict(before.meta) == {"pe": -1.0, "note": "a", "count": 3}
    assert dict(after.meta) == {"ke": 2.0}
    assert np.isnan(after["atoms"]["fx"]).all()


def test_a_key_that_may_be_missing_in_one_part_may_be_so_in_all() -> None:
    def energies(*values: float | None, step: int) -> MemoryTrajectory:
        frames = [Frame({}, {} if v is None else {"pe": v}, step=step + n) for n, v in enumerate(values)]
        return MemoryTrajectory(frames)

    made = chained(energies(-1.0, None, step=0), energies(-3.0, step=2))
    assert [frame.meta.get("pe") for frame in made] == [-1.0, None, -3.0]


def test_rows_that_follow_other_rows_are_null_where_a_part_lacks_them() -> None:
    kinds = BlockDeclaration({"kind": ColumnDeclaration("string")}, aligned_with="atoms")
    atoms = BlockDeclaration({"x": ColumnDeclaration("f64")})
    first = MemoryTrajectory(
        [Frame({"atoms": Block({"x": [1.0, 2.0]}), "kinds": Block({"kind": ["a", "b"]})}, step=0)],
        Declaration({"atoms": atoms, "kinds": kinds}),
    )
    second = MemoryTrajectory([Frame({"atoms": Block({"x": [1.0] * n})}, step=n) for n in (1, 2, 3)])
    made = chained(first, second)
    assert [frame["kinds"].count for frame in made] == [2, 1, 2, 3]
    assert [frame["kinds"].validity("kind").any() for frame in made] == [True, False, False, False]
    assert [frame["kinds"].count for frame in made[2:]] == [2, 3]
    assert [frame["kinds"].count for frame in made[::3]] == [2, 3]
    only = [frame["kinds"].count for frame in TrajectoryView(made, columns=["kind"])]
    assert only == [2, 1, 2, 3]


def test_what_identifies_atoms_holds_on_where_a_part_does_not_say_it() -> None:
    kinds = BlockDeclaration({"element": ColumnDeclaration("string")}, aligned_with="atoms", settles="atoms")
    first = MemoryTrajectory(
        [Frame({"atoms": Block({"x": [1.0, 2.0]}), "kinds": Block({"element": ["O", "H"]})}, step=0)],
        Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64")}), "kinds": kinds}),
    )
    made = chained(first, run(range(1, 4), time=False))
    assert [frame["kinds"]["element"].tolist() for frame in made] == [["O", "H"]] * 4
    assert made[2]["kinds"]["element"].tolist() == ["O", "H"]
    assert [frame["kinds"]["element"].tolist() for frame in made[::2]] == [["O", "H"]] * 2
    assert made.declaration.blocks["kinds"].settles == "atoms"


def test_a_cell_does_not_go_on_into_frames_without_one() -> None:
    bare = MemoryTrajectory([Frame({"atoms": Block({"x": [1.0, 2.0]})}, step=7)])
    with pytest.raises(ContractError, match="trajectory/box: b has no cell"):
        list(chained(run(range(3), time=False), bare))
    assert chained(bare, run(range(8, 10), time=False))[0].box is None


def test_a_run_is_joined_from_any_two_pieces(tmp_path: Path) -> None:
    """With system, force field, per-step values and curves: the record is what it was, and what was written again."""
    whole = tmp_path / "whole.mrec"
    convert(WATER, whole)
    for start, stop in ((10, 10), (9, 10), (1, 1), (20, 21)):
        parts = [tmp_path / f"{name}-{start}-{stop}.mrec" for name in "ab"]
        convert(whole, parts[0], frames=slice(0, stop))
        convert(whole, parts[1], frames=slice(start, None))
        made = tmp_path / f"made-{start}-{stop}.mrec"
        report = join(parts, made)
        with molrec_convert.open(whole) as a, molrec_convert.open(made) as b:
            assert list(differences(a, b)) == []
        assert report.losses() == []


def test_whole_numbers_beside_real_ones_are_real() -> None:
    one, other = MemoryTrajectory([Frame({}, {"gap": 3}, step=0)]), MemoryTrajectory([Frame({}, {"gap": 0.5}, step=1)])
    made = chained(one, other)
    assert made.declaration.meta["gap"].dtype == "f64"
    assert [frame.meta["gap"] for frame in made] == [3.0, 0.5]
    words = MemoryTrajectory([Frame({}, {"gap": "wide"}, step=1)])
    with pytest.raises(ContractError, match=r"trajectory/meta/gap: the tag in b is not that in a: found string"):
        chained(one, words)
