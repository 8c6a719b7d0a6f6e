"""Frames appended one by one: gathered where that is sure to be right, refused at once where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trajectory_stores as ts
from append_child import DECLARATION
from append_child import frame as appended

from molrec_convert.errors import ContractError
from molrec_convert.formats import WriteContext
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.stores.zarr.record import append_record, write_record
from molrec_convert.stores.zarr.trajectory import batch as trajectory_buffer
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

LIKE = Declaration(
    {
        "atoms": BlockDeclaration(
            {
                "x": ColumnDeclaration("f64", precision=1e-3),
                "s": ColumnDeclaration("string", nullable=True),
                "v": ColumnDeclaration("i32", (2,)),
            },
            rows=4,
        ),
        "kinds": BlockDeclaration({"q": ColumnDeclaration("bool")}, aligned_with="atoms"),
    },
    {"pe": MetaDeclaration("f64"), "doc": MetaDeclaration("json"), "w": MetaDeclaration("u64x3")},
)


def like(i: int, **changes: Any) -> Frame:
    """Frames that differ in values alone."""
    block = Block(
        {
            "x": Column(np.arange(4) / 7 + i),
            "s": Column(np.array([f"é{i % 3}", "", "b", "c"]), np.array([True, i % 2 == 0, True, False])),
            "v": Column(np.full((4, 2), i % 5, np.int32)),
        }
    )
    meta = Meta({"pe": i / 3})
    meta.put("doc", {"i": i}, "json")
    meta.put("w", np.array([i, 2**64 - 1, 0], np.uint64), "u64x3")
    parts: dict[str, Any] = {
        "blocks": {"atoms": block, "kinds": Block({"q": np.array([i % 4 == 0] * 4)})},
        "meta": meta,
    }
    parts |= {"box": Box(np.eye(3) * (1 + i // 8)), "step": i * 3, "time": i * 0.25} | changes
    return Frame(**parts)


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames each batch had that was gathered."""
    sizes: list[int] = []
    take = trajectory_buffer.FrameBuffer.take

    def spy(self: Any) -> Any:
        sizes.append(self.count)
        return take(self)

    monkeypatch.setattr(trajectory_buffer.FrameBuffer, "take", spy)
    return sizes


def test_gathered_frames_are_those_appended(tmp_path: Path, gathered: list[int]) -> None:
    frames = [like(i) for i in range(50)]
    ts.same_frames(ts.stored(tmp_path, frames, LIKE), ts.resolved(frames, LIKE))
    ts.same_as_zarr(tmp_path, ts.opened(tmp_path))
    assert gathered == [49]


def test_the_plain_path_stores_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gathered: list[int]) -> None:
    frames = [like(i) for i in range(30)]
    ts.write(tmp_path / "gathered", frames, LIKE)
    assert gathered == [29]
    monkeypatch.setattr(TrajectoryWriter, "looks_alike", lambda self, frame: False)
    ts.write(tmp_path / "plain", frames, LIKE)
    assert gathered == [29]
    files = {p.relative_to(tmp_path / "plain"): p for p in (tmp_path / "plain").rglob("*") if p.is_file()}
    assert files
    for name, path in files.items():
        assert (tmp_path / "gathered" / name).read_bytes() == path.read_bytes(), name


def test_arrays_may_change_once_a_frame_is_appended(tmp_path: Path) -> None:
    x = np.zeros(3)
    with TrajectoryWriter.create(
        tmp_path, Declaration({"a": BlockDeclaration({"q": ColumnDeclaration("f64")})})
    ) as writer:
        for i in range(40):
            x[:] = i
            writer.append_frame(Frame({"a": Block({"q": x})}))
        assert writer.n_frames == 40
    assert ts.opened(tmp_path).frame(7)["a"]["q"].tolist() == [7.0] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"step": 29 * 3},
        {"step": 2**63},
        {"time": None},
        {"box": Box.undefined()},
        {"meta": Meta({"pe": 1.0})},
        {"meta": Meta({"pe": 1, "doc": "x", "w": 3})},
        {"blocks": {"other": Block({"x": np.zeros(4)})}},
        {"blocks": {"atoms": Block({"x": np.zeros(4)})}},
        {"blocks": {"kinds": Block({"q": np.array([True] * 3)})}},
        {"blocks": {"kinds": Block({"q": np.zeros(4)})}},
        {"blocks": {"atoms": Block({**like(1)["atoms"].columns, "x": Column(np.zeros(4), precision=0.5)})}},
        {"blocks": {"atoms": Block({**like(1)["atoms"].columns, "v": Column(np.zeros((4, 3), np.int32))})}},
    ],
    ids=range(12),
)
def test_what_is_not_alike_is_refused_at_once(tmp_path: Path, change: dict[str, Any]) -> None:
    frames = [like(i) for i in range(30)]
    with TrajectoryWriter.create(tmp_path, LIKE) as writer:
        for frame in frames:
            writer.append_frame(frame)
        with pytest.raises(ContractError):
            writer.append_frame(like(30, **change))
        assert writer.n_frames == 30
        writer.append_frame(like(30))
    ts.same_frames(ts.opened(tmp_path), ts.resolved([*frames, like(30)], LIKE))


def test_frames_of_changing_shape_are_not_mixed_up(tmp_path: Path, gathered: list[int]) -> None:
    frames = [appended(i) for i in range(310)]
    ts.same_frames(ts.stored(tmp_path, frames, DECLARATION), ts.resolved(frames, DECLARATION))
    assert max(gathered) >= 9


def test_frames_that_refer_to_rows_are_looked_at_one_by_one(tmp_path: Path, gathered: list[int]) -> None:
    u64 = ColumnDeclaration("u64")
    declaration = Declaration(
        {"atoms": BlockDeclaration({"x": ColumnDeclaration("f64")}), "b": BlockDeclaration({"atomi": u64})}
    )

    def linked(i: int, row: int) -> Frame:
        return Frame({"atoms": ts.atoms(i, i), "b": Block({"atomi": np.array([row], np.uint64)})})

    with TrajectoryWriter.create(tmp_path, declaration) as writer:
        for i in range(5):
            writer.append_frame(linked(i, i % 2))
        with pytest.raises(ContractError, match="out of range"):
            writer.append_frame(linked(9, 2))
    assert gathered == []


def test_ids_are_held_against_those_of_the_system(tmp_path: Path, gathered: list[int]) -> None:
    def frame(i: int, *ids: int) -> Frame:
        return Frame({"atoms": Block({"id": np.array(ids, np.uint64), "x": np.full(2, float(i))})})

    system = Frame({"atoms": Block({"id": np.array([3, 5], np.uint64), "mass": np.ones(2)})})
    record = Record(system=system, trajectory=MemoryTrajectory([frame(0, 3, 5)]))
    write_record(record, tmp_path / "run", WriteContext())
    with append_record(tmp_path / "run") as writer:
        for i in range(1, 9):
            writer.append_frame(frame(i, 3, 5))
        with pytest.raises(ContractError, match="id"):
            writer.append_frame(frame(9, 5, 3))
        assert writer.n_frames == 9
    assert gathered == []


def test_large_frames_go_straight_through(tmp_path: Path, gathered: list[int]) -> None:
    declaration = Declaration({"a": BlockDeclaration({"q": ColumnDeclaration("f64")}, rows=20_000)})
    with TrajectoryWriter.create(tmp_path, declaration) as writer:
        for i in range(4):
            writer.append_frame(Frame({"a": Block({"q": np.full(20_000, float(i))})}))
    assert gathered == []


def test_frames_and_batches_may_be_mixed(tmp_path: Path) -> None:
    frames = [like(i) for i in range(24)]
    with TrajectoryWriter.create(tmp_path, LIKE) as writer:
        for frame in frames[:10]:
            writer.append_frame(frame)
        (batch,) = ts.memory(frames[10:15], LIKE).batches()
        writer.append(batch)
        for frame in frames[15:]:
            writer.append_frame(frame)
        writer.flush()
        assert ts.attributes(tmp_path)["nstep"] == 24
    ts.same_frames(ts.opened(tmp_path), ts.resolved(frames, LIKE))
