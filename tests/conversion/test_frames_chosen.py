"""`--frames`: slices, numbers and lists of them, of records, of files of configurations and of collections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_trajectory_random import runs

import molrec_convert
from molrec_convert import Block, Frame, MemoryTrajectory, Observable, Observables, Record, UsageError, convert, write
from molrec_convert.cli import run as mrec
from molrec_convert.inspect.diff.trajectories import trajectory_differences
from molrec_convert.model import Declaration
from molrec_convert.model.trajectory import PickedTrajectory, ordinals_of


def record(frames: int = 12) -> Record:
    made = [Frame({"atoms": Block({"x": [float(n), n + 0.5]})}, step=10 * n) for n in range(frames)]
    return Record(trajectory=MemoryTrajectory(made), system=Frame({"atoms": Block(count=2)}, {"units": "metal"}))


def steps(path: Path) -> list[int]:
    with molrec_convert.open(path) as opened:
        return [int(step) for step in opened.trajectory.steps]


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """Five configurations of two atoms, of the energies 0 to -4."""
    path = tmp_path / "five.extxyz"
    comment = 'Properties=species:S:1:pos:R:3 energy={} pbc="F F F"'
    path.write_text("".join(f"2\n{comment.format(-n)}\nH 0 0 0\nH 0 0 0.{n + 1}\n" for n in range(5)))
    return path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(drawn=runs(), data=st.data())
def test_picked_frames_are_those_frames(drawn: tuple[Declaration, list[Frame]], data: st.DataObject) -> None:
    declaration, frames = drawn
    whole = MemoryTrajectory(frames, declaration)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(frames) - 1)))) if frames else []
    made = PickedTrajectory(whole, np.array(chosen, dtype=np.int64))
    start, step = data.draw(st.integers(0, len(frames))), data.draw(st.integers(1, 3))
    for part, numbers in ((made, chosen), (made[start::step], chosen[start::step])):
        resolved = [whole[n] for n in numbers]
        assert list(part) == resolved
        assert [part[n] for n in range(len(part))] == resolved
        assert list(trajectory_differences(part, MemoryTrajectory(resolved, declaration), declared=False)) == []


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("0,5,10:12", [0, 5, 10, 11]),
        ("3", [3]),
        ("-1", [11]),
        ("0:4:2,-2:", [0, 2, 10, 11]),
        ("0, 2 ,4", [0, 2, 4]),
        (":2,7", [0, 1, 7]),
    ],
)
def test_lists_of_numbers_and_slices(tmp_path: Path, asked: str, expected: list[int]) -> None:
    write(record(), tmp_path / "a.mrec")
    assert mrec(["convert", str(tmp_path / "a.mrec"), str(tmp_path / "b.mrec"), "--frames", asked]) == 0
    assert steps(tmp_path / "b.mrec") == [10 * n for n in expected]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("5,0", "frames are taken in their order, each once: frame 0 is named after frame 5"),
        ("0,0", "frames are taken in their order, each once: frame 0 is named after frame 0"),
        ("0:4,3", "frame 3 is named after frame 3"),
        ("0,12", "the source has the frames 0 to 11, there is no frame 12"),
        ("0,4:1:-1", "frames are taken forward only"),
        ("0,x", "'0,x' is not a slice of frames"),
        ("0,,4", "is not a slice of frames"),
    ],
)
def test_lists_that_are_wrong(tmp_path: Path, asked: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(record(), tmp_path / "a.mrec")
    assert mrec(["convert", str(tmp_path / "a.mrec"), str(tmp_path / "b.mrec"), "--frames", asked]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["a.mrec"]


@pytest.mark.parametrize("frames", [[1, 4], (slice(1, 2), 4), np.array([1, 4]), [1, slice(4, 5)]])
def test_python_takes_numbers_and_slices(tmp_path: Path, frames: Any) -> None:
    made = record()
    made.observables = Observables({"q": Observable.of(np.arange(12.0), "scalar", "a curve", time_dependent=True)})
    write(made, tmp_path / "a.mrec")
    convert(tmp_path / "a.mrec", tmp_path / "b.mrec", frames=frames)
    assert steps(tmp_path / "b.mrec") == [10, 40]
    with molrec_convert.open(tmp_path / "b.mrec") as opened:
        assert opened.observables["q"].values.tolist() == [1.0, 4.0]


def test_frames_of_a_file_are_its_configurations(five: Path, tmp_path: Path) -> None:
    """Whatever they become: a trajectory, records of a collection, records of their own."""
    for more in ([], ["--as", "collection"]):
        target = tmp_path / f"{len(more)}.mrec.lmdb"
        assert mrec(["convert", str(five), str(target), "--frames", "0:2", *more]) == 0
        with molrec_convert.open(target) as collection:
            assert [float(r.trajectory[0]["atoms"]["z"][1]) for r in collection] == [0.1, 0.2]
    assert mrec(["convert", str(five), str(tmp_path / "r.mrec"), "--as", "records", "--frames", "1,3"]) == 0
    assert sorted(path.name for path in tmp_path.glob("r-*")) == ["r-0.mrec", "r-1.mrec"]
    with molrec_convert.open(tmp_path / "r-1.mrec") as opened:
        assert opened.trajectory[0].meta["pe"] == -3.0
    assert mrec(["convert", str(five), str(tmp_path / "t.mrec"), "--frames", "0:2"]) == 0
    assert steps(tmp_path / "t.mrec") == [0, 1]
    with pytest.raises(UsageError, match="the source has the configurations 0 to 4, there is no configuration 7"):
        convert(five, tmp_path / "no.mrec.lmdb", frames=[0, 7])
    with pytest.raises(UsageError, match="the source has 5 configurations, none of them is asked for"):
        convert(five, tmp_path / "no.mrec.lmdb", frames=slice(7, 9))
    assert not (tmp_path / "no.mrec.lmdb").exists()


def test_frames_of_a_collection_are_those_of_each_record(tmp_path: Path) -> None:
    for name, frames in (("a", 4), ("b", 8)):
        write(record(frames), tmp_path / f"{name}.mrec")
    many = tmp_path / "many.mrec.lmdb"
    convert([tmp_path / "a.mrec", tmp_path / "b.mrec"], many)
    convert(many, tmp_path / "some.mrec.lmdb", frames=[0, slice(2, 4), 6])
    with molrec_convert.open(tmp_path / "some.mrec.lmdb") as some:
        assert [r.trajectory.steps.tolist() for r in some] == [[0, 20, 30], [0, 20, 30, 60]]
        assert some.index["n_frames"].tolist() == [3, 4]
    with pytest.raises(UsageError, match="the records have 8 frames at most, none has those asked for"):
        convert(many, tmp_path / "no.mrec.lmdb", frames=[8, 9])
    with pytest.raises(UsageError, match="frame 1 is named after frame 3"):
        convert(many, tmp_path / "no.mrec.lmdb", frames=[3, 1])


def test_frames_of_several_sources_are_those_of_each(five: Path, tmp_path: Path) -> None:
    write(record(), tmp_path / "a.mrec")
    convert([tmp_path / "a.mrec", tmp_path / "a.mrec"], tmp_path / "two.mrec.lmdb", frames=slice(1, 3))
    with molrec_convert.open(tmp_path / "two.mrec.lmdb") as two:
        assert [r.trajectory.steps.tolist() for r in two] == [[10, 20], [10, 20]]
    convert([five, five], tmp_path / "four.mrec.lmdb", frames=[1, 3], each=True)
    with molrec_convert.open(tmp_path / "four.mrec.lmdb") as four:
        assert [float(r.trajectory[0]["atoms"]["z"][1]) for r in four] == [0.2, 0.4, 0.2, 0.4]


def test_which_frames_they_are() -> None:
    assert ordinals_of(slice(-3, None), 10).tolist() == [7, 8, 9]
    assert ordinals_of([0, -1], 10).tolist() == [0, 9]
    assert ordinals_of([0, 5, slice(7, 99, 2)], 10, lenient=True).tolist() == [0, 5, 7, 9]
    assert ordinals_of([0, 50], 10, lenient=True).tolist() == [0]
    assert ordinals_of([], 10).tolist() == []
