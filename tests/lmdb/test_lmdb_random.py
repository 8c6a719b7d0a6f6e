"""Random declarations, records and batches: what is appended is what is read, by frame and in batches."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import contents, equal_trajectories, key, write
from frame_stores import boxes, column_names, tagged, texts, values_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trajectory_stores import resolved, same_frames

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
    Record,
    Trajectory,
)
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.trajectory import BATCH_BYTES
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.lmdb.values import decode as frame_bytes
from molrec_convert.stores.lmdb.values.frames import FrameEncoder


class Streamed(Trajectory):
    """The frames of another trajectory, in batches of a given size, as a source that streams gives them."""

    def __init__(self, source: MemoryTrajectory, size: int) -> None:
        super().__init__()
        self.declaration, self.cell_defined = source.declaration, source.cell_defined
        self._source, self._size = source, size

    @property
    def n_frames(self) -> int | None:
        return None

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        presented = self._source._batch
        for first in range(0, presented.n_frames, self._size):
            yield _slice(presented, first, min(first + self._size, presented.n_frames))


def _slice(batch: FrameBatch, first: int, last: int) -> FrameBatch:
    """The frames as they were presented: nothing carried into the slice."""

    def cut(frames: np.ndarray[Any, Any]) -> slice:
        return slice(*np.searchsorted(frames, [first, last]).tolist())

    blocks = {}
    for name, updates in batch.blocks.items():
        part = cut(updates.frames)
        offset = updates.offset[part.start : part.stop + 1]
        rows = slice(int(offset[0]), int(offset[-1]))
        blocks[name] = type(updates)(
            updates.frames[part] - first,
            offset - offset[0],
            {key: values[rows] for key, values in updates.columns.items()},
            {key: mask[rows] for key, mask in updates.validity.items()},
        )
    box = None
    if batch.box is not None:
        part = cut(batch.box.frames)
        b = batch.box
        box = type(b)(b.frames[part] - first, b.vectors[part], b.origin[part], b.boundary[part])
    return FrameBatch(
        batch.step[first:last],
        None if batch.time is None else batch.time[first:last],
        blocks,
        {key: values[first:last] for key, values in batch.meta.items()},
        box,
    )


@st.composite
def declarations(draw: st.DrawFn) -> Declaration:
    free = draw(st.lists(column_names, max_size=2, unique=True))
    columns = {"x": ColumnDeclaration("f64", precision=draw(st.sampled_from([None, 0.25])))}
    for name in free:
        dtype = draw(st.sampled_from(sorted(DTYPES)))
        if name not in ("offset", "step_index", "kind"):
            columns[name] = ColumnDeclaration(dtype, draw(st.sampled_from([(), (2,), (0,)])), draw(st.booleans()))
    u64 = ColumnDeclaration("u64", nullable=draw(st.booleans()))
    blocks = {"atoms": BlockDeclaration(columns)}
    others = {
        "kinds": BlockDeclaration({"kind": ColumnDeclaration("string")}, aligned_with="atoms"),
        "bonds": BlockDeclaration({"atomi": u64}),
        "grid": BlockDeclaration({"rho": ColumnDeclaration("i16")}, structural_shape=(1, 2)),
        "bare": BlockDeclaration({}),
        "sites": BlockDeclaration({"of": ColumnDeclaration("u64")}, targets={"of": "/system/atoms"}),
    }
    for name in draw(st.lists(st.sampled_from(sorted(others)), unique=True)):
        blocks[name] = others[name]
    meta = {}
    for name in draw(
        st.lists(texts.filter(lambda t: bool(t) and "/" not in t and "\0" not in t), max_size=2, unique=True)
    ):
        if name not in (".", "..", "zarr.json") and not name.startswith("__"):
            tag, value = draw(tagged())
            meta[name] = MetaDeclaration(tag, value) if draw(st.booleans()) else MetaDeclaration(tag)
    return Declaration(blocks, meta)


@st.composite
def blocks_of(draw: st.DrawFn, declared: BlockDeclaration, rows: int, limit: int = 0) -> Block:
    columns = {}
    for name, column in declared.columns.items():
        values = draw(values_of(column.dtype, rows, column.trailing))
        if name in ("atomi", "of"):
            values = np.array([v % limit for v in values.tolist()], np.uint64)
        mask = draw(st.lists(st.booleans(), min_size=rows, max_size=rows)) if column.nullable else None
        columns[name] = Column(values, None if mask is None else np.array(mask, np.bool_))
    return Block(columns, count=rows, structural_shape=declared.structural_shape, targets=declared.targets)


@st.composite
def trajectories(draw: st.DrawFn, declaration: Declaration) -> MemoryTrajectory:
    timed, defined = draw(st.booleans()), draw(st.booleans())
    count = draw(st.integers(0, 6))
    frames: list[Frame] = []
    atoms, aligned, before = None, None, {}
    step = draw(st.integers(-(2**60), 2**60))
    for _ in range(count):
        blocks: dict[str, Block] = {}
        for name, declared in declaration.blocks.items():
            shown = draw(st.sampled_from(["no", "new", "same"]))
            if name == "kinds":
                if atoms is None or (shown == "no" and aligned is None) or (shown == "no" and aligned == atoms):
                    continue
                blocks[name] = draw(blocks_of(declared, atoms))
                aligned = atoms
            elif shown == "no" and not (name == "bonds" and name in before and "atoms" in blocks):
                # bonds are not carried forward to other atoms, of which there may be fewer
                continue
            elif shown == "same" and name in before and name != "bonds":
                blocks[name] = before[name]
            else:
                rows = {"grid": 2, "bonds": draw(st.integers(0, 3)) if atoms else 0}.get(name, draw(st.integers(0, 3)))
                blocks[name] = draw(blocks_of(declared, rows, 2 if name == "sites" else atoms or 1))
            before[name] = blocks[name]
            if name == "atoms":
                atoms = blocks[name].count
        meta = Meta()
        for name, entry in declaration.meta.items():
            if "fill" not in entry.to_json() or draw(st.booleans()):
                meta.put(name, draw(tagged().filter(lambda pair, tag=entry.dtype: pair[0] == tag))[1], entry.dtype)
        box = draw(st.none() | boxes().map(lambda b: b if b.defined == defined else _other(b, defined)))
        step += draw(st.integers(1, 2**40))
        frames.append(
            Frame(blocks, meta, box, step, draw(st.floats(allow_nan=False) | st.just(float("nan"))) if timed else None)
        )
    return MemoryTrajectory(frames, declaration, cell_defined=defined)


def _other(box: Box, defined: bool) -> Box:
    return Box(np.eye(3), box.origin) if defined else Box.undefined(box.origin)


@st.composite
def records(draw: st.DrawFn, declaration: Declaration) -> Record:
    system = Frame({"atoms": Block(count=2)}) if "sites" in declaration.blocks else None
    if system is not None:
        # rows of the trajectory's atoms would have to be the system's
        system = Frame({"atoms": Block(count=2)}, Meta({"a": draw(texts)}))
    trajectory = draw(trajectories(declaration))
    meta = draw(st.dictionaries(texts.filter(lambda k: k != "molrec_version"), texts, max_size=2))
    return Record(meta=meta, system=system, trajectory=trajectory)


def _fits(record: Record) -> bool:
    """Rows of a block that `system` has too are the system's in every update."""
    assert record.trajectory is not None
    return record.system is None or all(
        frame["atoms"].count == 2 for frame in record.trajectory if "atoms" in frame.blocks
    )


@pytest.mark.slow
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_is_appended_is_read(data: st.DataObject) -> None:
    declaration = data.draw(declarations())
    given_records = [r for r in data.draw(st.lists(records(declaration), max_size=3)) if _fits(r)]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "c.mrec.lmdb"), given_records, declaration)
        expected = [_resolved(record) for record in given_records]
        with open_collection(path, verify=True) as collection:
            assert [len(r.trajectory) for r in collection] == [len(frames) for frames in expected]
            for number, (record, frames) in enumerate(zip(collection, expected, strict=True)):
                assert record.meta == given_records[number].meta
                assert record.system == given_records[number].system
                _check(record.trajectory, frames)
                with collection.view(number) as shown:
                    same_frames([shown.trajectory[k] for k in range(len(frames))], frames)
                del shown
                copied = pickle.loads(pickle.dumps(record))
                _check(copied.trajectory, frames)
            ordinals = [(number, k) for number, frames in enumerate(expected) for k in range(len(frames))]
            for ordinal, (number, k) in enumerate(ordinals):
                assert collection.locate(ordinal) == (number, k)
                same_frames([collection.frame(ordinal)], [expected[number][k]])
        first = contents(path)
        size = data.draw(st.integers(1, 4))
        streamed = [
            Record(meta=r.meta, system=r.system, trajectory=Streamed(r.trajectory, size)) for r in given_records
        ]
        assert contents(write(path, streamed, declaration, overwrite=True)) == first
        with open_collection(path) as collection:
            again = Path(folder, "again.mrec.lmdb")
            write(again, collection, declaration)
        assert contents(again) == first


def _resolved(record: Record) -> list[Frame]:
    assert record.trajectory is not None
    trajectory: Any = record.trajectory
    batch, declaration = trajectory._batch, trajectory.declaration
    frames = []
    for k in range(batch.n_frames):
        alone = _slice(batch, k, k + 1)
        frames.append(alone.frame(0, declaration, defined=trajectory.cell_defined))
    return resolved(frames, declaration)


def _check(trajectory: Any, frames: list[Frame]) -> None:
    """By frame, by iteration, and in slices and batches of any size."""
    same_frames([trajectory[k] for k in range(len(frames))], frames)
    same_frames(trajectory, frames)
    for start, step in ((1, 1), (0, 2), (1, 2)):
        view = trajectory[start::step]
        same_frames(view, frames[start::step])
    small = []
    for batch in trajectory.batches(batch_bytes=1):
        small.append(batch)
        assert batch.n_frames >= 1
    assert sum(batch.n_frames for batch in small) == len(frames)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_short_way_for_one_frame_writes_the_same_bytes(data: st.DataObject) -> None:
    """Records of one frame are encoded without the general machinery; both give one value."""
    declaration = data.draw(declarations())
    record = data.draw(records(declaration).filter(lambda r: len(r.trajectory) == 1 and _fits(r)))
    trajectory: Any = record.trajectory
    encoder = FrameEncoder(declaration)
    short = encoder.single(trajectory, record.system, "here")
    absolute = {} if record.system is None else {"/system": 0, "/system/atoms": 2}
    frames = encoder.record(absolute, "here", cell_defined=trajectory.cell_defined)
    value = frames.encode(trajectory._batch)[0]
    assert short in (None, value)
    # a trajectory under a declaration of its own is held against the collection's
    trajectory.declaration = replace(trajectory.declaration)
    assert encoder.single(trajectory, record.system, "here") == short


def test_the_short_way_is_the_one_in_use(tmp_path: Path, monkeypatch: Any) -> None:
    taken = []
    original = FrameEncoder.single

    def watched(self: FrameEncoder, *args: Any, **options: Any) -> bytes | None:
        taken.append(original(self, *args, **options))
        return taken[-1]

    monkeypatch.setattr(FrameEncoder, "single", watched)
    declared = Declaration(
        {
            "atoms": BlockDeclaration(
                {"x": ColumnDeclaration("f64", precision=0.25), "n": ColumnDeclaration("i16", (3,))}
            )
        },
        {"pe": MetaDeclaration("f64")},
    )
    frames = [
        Frame(
            {"atoms": Block({"x": np.arange(n) + 0.1, "n": np.ones((n, 3), np.int16)})},
            Meta({"pe": float(n)}),
            Box(np.eye(3) * n),
            step=n,
            time=n / 2,
        )
        for n in range(1, 4)
    ]
    system = [Frame({"atoms": Block({"mass": np.ones(n)})}) for n in range(1, 4)]
    given_records = [
        Record(system=s, trajectory=MemoryTrajectory([f], declared)) for s, f in zip(system, frames, strict=True)
    ]
    path = write(tmp_path / "c.mrec.lmdb", given_records, declared)
    assert len(taken) == 3
    assert None not in taken
    assert [contents(path)[key("f", n)] for n in range(3)] == taken
    with open_collection(path) as collection:
        for record, given_record in zip(collection, given_records, strict=True):
            same_frames(record.trajectory, _resolved(given_record))
            assert record.system == given_record.system


def test_the_short_way_over_a_known_header_is_the_one_in_use(tmp_path: Path) -> None:
    declared = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64")})})
    frames = [Frame({"atoms": Block({"x": np.array([float(n)])})}) for n in range(5)]
    path = write(
        tmp_path / "c.mrec.lmdb", [Record(trajectory=MemoryTrajectory([f], declared)) for f in frames], declared
    )
    frame_bytes._LAYOUTS.clear()
    with open_collection(path) as collection:
        layouts = {id(collection.frame(n)._source.layout) for n in range(5)}
        assert len(layouts) == 1
        assert len(frame_bytes._LAYOUTS) == 1


def test_equal_to_what_the_zarr_store_reads(tmp_path: Path) -> None:
    """A trajectory with every irregularity, through both stores."""
    from layout_examples.records import build_reaction

    from molrec_convert.stores.zarr.trajectory.reader import StoredTrajectory
    from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
    from molrec_convert.stores.zarr.v3.storage import DirectoryStorage

    given_trajectory = build_reaction().trajectory
    assert given_trajectory is not None
    with TrajectoryWriter.create(tmp_path / "r.mrec", given_trajectory.declaration) as writer:
        for frame in given_trajectory:
            writer.append_frame(frame)
    through_zarr = StoredTrajectory(DirectoryStorage(tmp_path / "r.mrec"))
    record = Record(trajectory=through_zarr)
    path = write(tmp_path / "c.mrec.lmdb", [record], given_trajectory.declaration)
    with open_collection(path) as collection:
        assert equal_trajectories(collection[0].trajectory, through_zarr)
        assert equal_trajectories(collection[0].trajectory, given_trajectory)
