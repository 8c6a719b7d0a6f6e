"""`system` beside `trajectory` or `frame`: rows, columns, ids; columns that settle; resuming and appending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest
from layout_examples import records as examples

from molrec_convert.errors import ContractError, UnsupportedError, UsageError
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.diff import differences
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    FrameBatch,
    MemoryTrajectory,
    Meta,
    Record,
    Trajectory,
)
from molrec_convert.model.batch import BlockUpdates
from molrec_convert.model.rules import Alignment
from molrec_convert.model.trajectory import BATCH_BYTES
from molrec_convert.stores.zarr.record import append_record, open_record, write_record
from molrec_convert.stores.zarr.record_writer import RecordWriter
from molrec_convert.stores.zarr.trajectory.arrays import TrajectoryArrays
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

F64, U64, TEXT = ColumnDeclaration("f64"), ColumnDeclaration("u64"), ColumnDeclaration("string")


def ids(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint64)


def run(*blocks: dict[str, Any], **options: Any) -> MemoryTrajectory:
    """One frame for each mapping of columns of the block `atoms`."""
    return MemoryTrajectory([Frame({"atoms": Block(columns)}) for columns in blocks], **options)


def store(path: Path, record: Record, **context: Any) -> Path:
    write_record(record, path, WriteContext(**context))
    return path


def refused(path: Path, record: Record, match: str) -> None:
    """Refused at write with a typed error, and nothing that could be taken for a record is left."""
    with pytest.raises(ContractError, match=match):
        store(path, record)


SYSTEM = Frame({"atoms": Block({"id": ids(3, 5, 9), "element": ["O", "H", "H"]})}, Meta({"units": {"preset": "real"}}))


# The rules, at write


def test_equal_row_counts_pass(tmp_path: Path) -> None:
    trajectory = run({"x": [0.0, 1.0, 2.0]}, {"x": [0.0, 1.5, 2.0]})
    with open_record(store(tmp_path / "a", Record(system=SYSTEM, trajectory=trajectory))) as record:
        assert record.units == {"preset": "real"}
        assert record.trajectory is not None
        assert record.trajectory[1]["atoms"]["x"].tolist() == [0.0, 1.5, 2.0]


@pytest.mark.parametrize("frames", [[[0.0, 1.0]], [[0.0, 1.0, 2.0], [0.0, 1.0]], [[0.0, 1.0, 2.0], []]], ids=str)
def test_other_row_counts_are_refused_at_write(tmp_path: Path, frames: list[list[float]]) -> None:
    trajectory = run(*({"x": np.array(x)} for x in frames))
    refused(tmp_path / "a", Record(system=SYSTEM, trajectory=trajectory), f"trajectory/atoms.*frame {len(frames) - 1}")


def test_a_column_on_both_sides_is_refused_at_write(tmp_path: Path) -> None:
    trajectory = run({"x": [0.0, 1.0, 2.0], "element": ["O", "H", "H"]})
    refused(tmp_path / "a", Record(system=SYSTEM, trajectory=trajectory), "trajectory/atoms/element.*one side only")
    assert not (tmp_path / "a").exists()


def test_equal_ids_on_both_sides_pass(tmp_path: Path) -> None:
    trajectory = run({"id": ids(3, 5, 9), "x": [0.0, 1.0, 2.0]}, {"id": ids(3, 5, 9), "x": [0.0, 1.0, 3.0]})
    with open_record(store(tmp_path / "a", Record(system=SYSTEM, trajectory=trajectory))) as record:
        assert [list(frame["atoms"]["id"]) for frame in record.trajectory or ()] == [[3, 5, 9]] * 2


@pytest.mark.parametrize(("frame", "row"), [(0, 0), (1, 2)])
def test_other_ids_are_refused_at_write(tmp_path: Path, frame: int, row: int) -> None:
    columns = [{"id": ids(3, 5, 9)}, {"id": ids(3, 5, 9)}]
    columns[frame]["id"][row] = 77
    with pytest.raises(ContractError) as caught:
        store(tmp_path / "a", Record(system=SYSTEM, trajectory=run(*columns)))
    assert caught.value.node == "trajectory/atoms/id"
    assert f"row {row} at frame {frame}" in str(caught.value)
    assert (caught.value.found, caught.value.expected) == ("77", str([3, 5, 9][row]))


def test_masked_ids_are_compared_with_their_masks(tmp_path: Path) -> None:
    mask = np.array([True, False, True])
    system = Frame({"atoms": Block({"id": Column(ids(3, 5, 9), mask)})})
    store(tmp_path / "a", Record(system=system, trajectory=run({"id": Column(ids(3, 8, 9), mask)})))
    refused(
        tmp_path / "b", Record(system=system, trajectory=run({"id": ids(3, 5, 9)})), "row 1.*found 5, expected null"
    )


def test_an_aligned_block_named_like_a_system_block_is_refused(tmp_path: Path) -> None:
    declaration = Declaration(
        {"sites": BlockDeclaration({"x": F64}), "atoms": BlockDeclaration({"type": TEXT}, aligned_with="sites")}
    )
    refused(tmp_path / "a", Record(system=SYSTEM, trajectory=MemoryTrajectory([], declaration)), "trajectory/atoms")
    assert not (tmp_path / "a").exists()


def test_blocks_of_other_names_are_free(tmp_path: Path) -> None:
    frames = [Frame({"beads": Block({"x": np.arange(float(n))})}) for n in (1, 2, 0)]
    with open_record(store(tmp_path / "a", Record(system=SYSTEM, trajectory=MemoryTrajectory(frames)))) as record:
        assert [frame["beads"].count for frame in record.trajectory or ()] == [1, 2, 0]


def test_relations_of_the_system_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    system = Frame({**SYSTEM.blocks, "bonds": Block({"atomi": ids(0), "atomj": ids(3)})})
    refused(tmp_path / "a", Record(system=system, trajectory=run({"x": [0.0, 1.0, 2.0]})), "system/bonds/atomj")
    assert not (tmp_path / "a").exists()


def test_references_into_the_system(tmp_path: Path) -> None:
    declaration = Declaration({"marks": BlockDeclaration({"site": U64}, targets={"site": "/system/atoms"})})

    def marked(row: int) -> Record:
        frame = Frame({"marks": Block({"site": ids(row)}, targets={"site": "/system/atoms"})})
        return Record(system=SYSTEM, trajectory=MemoryTrajectory([frame], declaration))

    with open_record(store(tmp_path / "a", marked(2))) as record:
        assert record.trajectory is not None
        assert record.trajectory[0]["marks"]["site"].tolist() == [2]
    refused(tmp_path / "b", marked(3), "trajectory/marks/site")
    stores.set_attribute(tmp_path / "a/system/atoms", count=2)
    for name in ("id", "element"):
        stores.edit(tmp_path / "a/system/atoms" / name, lambda document: document.update(shape=[2]))
    with open_record(tmp_path / "a") as record:
        trajectory = record.trajectory
        assert trajectory is not None
        with pytest.raises(ContractError, match="trajectory/marks/site"):
            _ = trajectory[0]


# The rules, for a snapshot


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"x": [0.0, 1.0]}, "frame/atoms: the block has another row count"),
        ({"x": [0.0, 1.0, 2.0], "element": ["O"] * 3}, "frame/atoms/element.*one side only"),
        ({"id": ids(3, 5, 8)}, "frame/atoms/id.*row 2"),
    ],
)
def test_a_snapshot_that_does_not_fit_the_system_is_refused(tmp_path: Path, columns: Any, match: str) -> None:
    refused(tmp_path / "a", Record(system=SYSTEM, frame=Frame({"atoms": Block(columns)})), match)
    assert not (tmp_path / "a").exists()


def test_a_snapshot_that_fits_the_system(tmp_path: Path) -> None:
    frame = Frame({"atoms": Block({"id": ids(3, 5, 9), "x": [0.0, 1.0, 2.0]})})
    with open_record(store(tmp_path / "a", Record(system=SYSTEM, frame=frame))) as record:
        assert (record.system, record.frame) == (SYSTEM, frame)


# The rules, at read


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    trajectory = run(*({"id": ids(3, 5, 9), "x": [0.0, 1.0, float(n)]} for n in range(3)))
    return store(tmp_path / "stored", Record(system=SYSTEM, trajectory=trajectory))


def reads(path: Path) -> Iterator[Any]:
    """Every way frames are handed out."""
    with open_record(path) as record:
        trajectory = record.trajectory
        assert trajectory is not None
        yield lambda: trajectory[0]
        yield lambda: list(trajectory)
        yield lambda: list(trajectory.batches())
        yield lambda: list(trajectory[1:].batches())
        yield lambda: list(trajectory.batches(0, None, 2))


def test_other_ids_are_refused_at_read(stored: Path) -> None:
    stores.zarr_create(stored / "system/atoms/id", ids(3, 5, 8))
    for read in reads(stored):
        with pytest.raises(ContractError, match=r"trajectory/atoms/id.*row 2"):
            read()


def test_ids_are_not_looked_at_when_they_are_not_read(stored: Path) -> None:
    stores.zarr_create(stored / "system/atoms/id", ids(3, 5, 8))
    with open_record(stored) as record:
        assert record.trajectory is not None
        batch = next(iter(record.trajectory.batches(columns=["x"])))
        assert batch.blocks["atoms"].columns["x"].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 2.0]


def test_another_row_count_is_refused_at_read(stored: Path) -> None:
    stores.set_attribute(stored / "system/atoms", count=2)
    for name in ("id", "element"):
        stores.edit(stored / "system/atoms" / name, lambda document: document.update(shape=[2]))
    for read in reads(stored):
        with pytest.raises(ContractError, match=r"trajectory/atoms.*row count"):
            read()


def test_a_column_on_both_sides_is_refused_at_read(stored: Path) -> None:
    stores.zarr_create(stored / "system/atoms/x", np.zeros(3))
    for read in reads(stored):
        with pytest.raises(ContractError, match=r"trajectory/atoms/x.*one side only"):
            read()


def test_frame_ordinals_are_named_in_strided_batches() -> None:
    alignment = Alignment(SYSTEM)
    updates = BlockUpdates.uniform(2, 3, {"id": ids(3, 5, 9, 3, 5, 7)})
    with pytest.raises(ContractError, match="row 2 at frame 14"):
        alignment.check_batch(FrameBatch(np.arange(2), None, {"atoms": updates}), 10, 4)


# Settling


class Streamed(Trajectory):
    """A trajectory that comes in batches of one frame, as a source does whose length nobody knows."""

    def __init__(self, frames: list[Frame], declaration: Declaration, stop_at: int | None = None) -> None:
        super().__init__()
        self.whole = MemoryTrajectory(frames, declaration)
        self.declaration = declaration
        self.stop_at = stop_at

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
        for index in range(start, len(self.whole)):
            if index == self.stop_at:
                raise KeyboardInterrupt
            yield from self.whole.batches(index, index + 1)


DECLARATION = Declaration(
    {
        "atoms": BlockDeclaration({"x": F64}, rows=3),
        "atom_types": BlockDeclaration({"type": TEXT}, aligned_with="atoms", rows=3, settles="atoms"),
        "atom_mass": BlockDeclaration({"mass": F64}, aligned_with="atoms", rows=3, settles="atoms"),
    }
)


def frames(count: int, *, changing: bool = False) -> list[Frame]:
    """Types that never change, and masses that do if asked for."""
    return [
        Frame(
            {
                "atoms": Block({"x": [0.0, 1.0, float(n)]}),
                "atom_types": Block({"type": ["a", "b", "b"]}),
                "atom_mass": Block({"mass": [1.0, 1.0, 2.0 if changing and n >= 2 else 1.0]}),
            },
            step=10 * n,
        )
        for n in range(count)
    ]


def test_a_column_that_never_changes_moves_into_the_system(tmp_path: Path) -> None:
    source = Record(system=SYSTEM, trajectory=Streamed(frames(5, changing=True), DECLARATION))
    with open_record(store(tmp_path / "a", source)) as record:
        assert record.system is not None
        assert record.trajectory is not None
        assert sorted(record.system["atoms"]) == ["element", "id", "type"]
        assert record.system.meta == SYSTEM.meta
        assert list(record.trajectory.declaration.blocks) == ["atoms", "atom_mass"]
        assert record.trajectory[4]["atom_mass"]["mass"].tolist() == [1.0, 1.0, 2.0]
        assert record.trajectory[1]["atom_mass"]["mass"].tolist() == [1.0, 1.0, 1.0]
        assert list(record.unknown.keys()) == []  # type: ignore[union-attr]
    assert not (tmp_path / "a/trajectory/atom_types").exists()


def test_columns_may_settle_where_there_is_no_system(tmp_path: Path) -> None:
    with open_record(store(tmp_path / "a", Record(trajectory=Streamed(frames(3), DECLARATION)))) as record:
        assert record.system is not None
        assert record.system["atoms"]["type"].tolist() == ["a", "b", "b"]
        assert record.system["atoms"]["mass"].tolist() == [1.0, 1.0, 1.0]
        assert list(record.trajectory.declaration.blocks) == ["atoms"]  # type: ignore[union-attr]


def test_masks_precision_and_targets_settle_with_their_column(tmp_path: Path) -> None:
    columns = {"q": ColumnDeclaration("f64", nullable=True, precision=0.5), "parent": U64}
    declaration = Declaration(
        {
            "atoms": BlockDeclaration({"x": F64}, rows=3),
            "extra": BlockDeclaration(columns, targets={"parent": "atoms"}, rows=3, settles="atoms"),
        }
    )
    q = Column(np.array([0.5, 7.0, 1.5]), np.array([True, False, True]), 0.5)
    extra = Block({"q": q, "parent": ids(0, 0, 1)}, targets={"parent": "atoms"})
    source = [Frame({"atoms": Block({"x": [0.0, 1.0, float(n)]}), "extra": extra}) for n in range(3)]
    trajectory = MemoryTrajectory(source, declaration)
    with open_record(store(tmp_path / "a", Record(system=SYSTEM, trajectory=trajectory))) as record:
        block = record.system["atoms"]  # type: ignore[index]
        assert block.columns["q"] == q
        assert block.targets == {"parent": "atoms"}


def test_a_column_that_settles_onto_another_is_refused(tmp_path: Path) -> None:
    system = Frame({"atoms": Block({"type": ["a", "b", "b"]})})
    refused(tmp_path / "a", Record(system=system, trajectory=Streamed(frames(3), DECLARATION)), "system/atoms/type")


def test_two_columns_of_one_name_cannot_settle_together(tmp_path: Path) -> None:
    block = BlockDeclaration({"type": TEXT}, settles="atoms")
    trajectory = MemoryTrajectory([], Declaration({"a": block, "b": block}))
    refused(tmp_path / "a", Record(trajectory=trajectory), "trajectory/b/type: two columns")


# Going on with an interrupted conversion


def interrupted(path: Path, source: list[Frame], declaration: Declaration, stop_at: int) -> None:
    """A conversion cut short once some frames are committed."""
    record = Record(system=SYSTEM, trajectory=Streamed(source, declaration, stop_at))
    with pytest.raises(KeyboardInterrupt):
        write_record(record, path, WriteContext())
    with TrajectoryWriter.open(path) as writer:
        committed = writer.n_frames
    assert committed <= stop_at


@pytest.mark.parametrize("stop_at", [0, 1, 3, 4])
@pytest.mark.parametrize("changing", [False, True])
def test_resuming_ends_where_an_uninterrupted_run_does(tmp_path: Path, stop_at: int, changing: bool) -> None:
    source = frames(5, changing=changing)
    whole = store(tmp_path / "whole", Record(system=SYSTEM, trajectory=Streamed(source, DECLARATION)))
    interrupted(tmp_path / "part", source, DECLARATION, stop_at)
    record = Record(system=SYSTEM, trajectory=Streamed(source, DECLARATION))
    store(tmp_path / "part", record, resume=True)
    with open_record(whole) as a, open_record(tmp_path / "part") as b:
        assert list(differences(a, b)) == []
        assert b.trajectory is not None
        assert len(b.trajectory) == 5


def test_resuming_goes_on_at_the_committed_frame(tmp_path: Path) -> None:
    source = frames(6)
    writer = TrajectoryWriter.create(tmp_path / "part", DECLARATION)
    for frame in source[:4]:
        writer.append_frame(frame)
    writer.close()
    asked: list[int] = []

    class Watched(Streamed):
        def batches(self, start: int = 0, *args: Any, **options: Any) -> Iterator[FrameBatch]:
            asked.append(start)
            return super().batches(start, *args, **options)

    store(tmp_path / "part", Record(system=SYSTEM, trajectory=Watched(source, DECLARATION)), resume=True)
    assert asked == [4]


def test_resuming_after_columns_have_settled(tmp_path: Path) -> None:
    source = Record(system=SYSTEM, trajectory=Streamed(frames(5), DECLARATION))
    whole = store(tmp_path / "whole", source)
    part = store(tmp_path / "part", source)
    (part / "frame").mkdir()  # left by whatever was still to come
    store(part, source, resume=True)
    with open_record(whole) as a, open_record(part) as b:
        assert list(differences(a, b)) == []
        assert sorted(b.system["atoms"]) == ["element", "id", "mass", "type"]  # type: ignore[index]


@pytest.mark.parametrize("committed", [False, True], ids=["nothing was committed", "columns were committed"])
def test_resuming_after_system_was_written_and_before_columns_left(
    tmp_path: Path, monkeypatch: Any, committed: bool
) -> None:
    """A column that settles is not written before it has to be."""
    source = Record(system=SYSTEM, trajectory=Streamed(frames(5), DECLARATION))
    whole = store(tmp_path / "whole", source)

    def killed(self: Any, names: list[str]) -> None:
        raise KeyboardInterrupt

    original = RecordWriter.append

    def flushing(self: Any, batch: FrameBatch) -> None:
        original(self, batch)
        self.flush()

    with monkeypatch.context() as patched:
        if committed:
            patched.setattr(RecordWriter, "append", flushing)
        patched.setattr(TrajectoryArrays, "remove_blocks", killed)
        with pytest.raises(KeyboardInterrupt):
            store(tmp_path / "part", source)
    assert (tmp_path / "part/system/atoms/type").is_dir()
    assert (tmp_path / "part/trajectory/atom_types").is_dir() is committed
    store(tmp_path / "part", source, resume=True)
    with open_record(whole) as a, open_record(tmp_path / "part") as b:
        assert list(differences(a, b)) == []


def test_another_declaration_is_not_resumed(tmp_path: Path) -> None:
    interrupted(tmp_path / "part", frames(5), DECLARATION, 3)
    blocks = {**DECLARATION.blocks, "atoms": BlockDeclaration({"x": replace(F64, precision=0.5)}, rows=3)}
    record = Record(system=SYSTEM, trajectory=Streamed(frames(5), Declaration(blocks)))
    with pytest.raises(UsageError, match="another declaration"):
        store(tmp_path / "part", record, resume=True)


def test_resuming_where_nothing_was_begun(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    record = Record(system=SYSTEM, trajectory=Streamed(frames(3), DECLARATION))
    with open_record(store(tmp_path / "part", record, resume=True)) as read:
        assert len(read.trajectory or ()) == 3


# Appending


def test_appending_to_a_record(stored: Path) -> None:
    with append_record(stored) as writer:
        writer.append_frame(Frame({"atoms": Block({"id": ids(3, 5, 9), "x": [5.0, 6.0, 7.0]})}))
        assert writer.n_frames == 4
    with open_record(stored) as record:
        assert record.trajectory is not None
        assert record.trajectory[3]["atoms"]["x"].tolist() == [5.0, 6.0, 7.0]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"id": ids(3, 5), "x": [5.0, 6.0]}, "trajectory/atoms.*row count.*frame 3"),
        ({"id": ids(3, 5, 8), "x": [5.0, 6.0, 7.0]}, "trajectory/atoms/id.*row 2 at frame 3"),
    ],
)
def test_appended_frames_are_held_against_the_system(stored: Path, columns: Any, match: str) -> None:
    with append_record(stored) as writer:
        with pytest.raises(ContractError, match=match):
            writer.append_frame(Frame({"atoms": Block(columns)}))
        writer.append_frame(Frame({"atoms": Block({"id": ids(3, 5, 9), "x": [5.0, 6.0, 7.0]})}))
    with open_record(stored) as record:
        assert len(record.trajectory or ()) == 4


def test_what_cannot_be_appended_to(tmp_path: Path, stored: Path) -> None:
    from molrec_convert.stores.zarr.record_writer import pack

    store(tmp_path / "still", Record(frame=Frame({"atoms": Block(count=1)})))
    with pytest.raises(UsageError, match="no trajectory"):
        append_record(tmp_path / "still")
    pack(stored, tmp_path / "a.mrec.zip")
    with pytest.raises(UnsupportedError, match="unpack"):
        append_record(tmp_path / "a.mrec.zip")
    with append_record(stored), pytest.raises(UsageError, match="by this process already"):
        append_record(stored)


def test_a_record_can_be_read_while_it_is_written(stored: Path) -> None:
    with append_record(stored) as writer, open_record(stored) as record:
        writer.append_frame(Frame({"atoms": Block({"id": ids(3, 5, 9), "x": [5.0, 6.0, 7.0]})}))
        writer.flush()
        assert record.trajectory is not None
        assert len(record.trajectory) == 3
        assert record.trajectory[2]["atoms"]["x"].tolist() == [0.0, 1.0, 2.0]


# Consolidated metadata


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_appending_removes_consolidated_metadata_everywhere(stored: Path) -> None:
    import zarr

    zarr.consolidate_metadata(stored)
    zarr.consolidate_metadata(stored, path="system")
    assert b"consolidated_metadata" in (stored / "zarr.json").read_bytes()
    with open_record(stored) as record:
        assert len(record.trajectory or ()) == 3
    with append_record(stored) as writer:
        writer.append_frame(Frame({"atoms": Block({"id": ids(3, 5, 9), "x": [5.0, 6.0, 7.0]})}))
    for path in stored.rglob("zarr.json"):
        assert b"consolidated_metadata" not in path.read_bytes(), path


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_consolidated_metadata_is_not_copied(tmp_path: Path, stored: Path) -> None:
    import zarr

    zarr.consolidate_metadata(stored)
    with open_record(stored) as record:
        store(tmp_path / "copy", record)
    for path in (tmp_path / "copy").rglob("zarr.json"):
        assert b"consolidated_metadata" not in path.read_bytes(), path


def positions(path: Path) -> list[list[list[float]]]:
    """The coordinates of the frames of an extended or plain XYZ file."""
    lines = path.read_text().splitlines()
    found = []
    while lines:
        count = int(lines[0])
        found.append([[float(word) for word in line.split()[1:4]] for line in lines[2 : 2 + count]])
        lines = lines[2 + count :]
    return found


@pytest.mark.parametrize("consolidated", [False, True])
def test_frames_appended_to_a_consolidated_store_are_seen_by_all(
    tmp_path: Path, fixtures: Path, consolidated: bool, recwarn: pytest.WarningsRecorder
) -> None:
    """The case 86: two frames, three more, and no reader that still sees two."""
    import zarr

    case = fixtures / "cases" / "86-zarr-stale-consolidated"

    def frames_of(name: str) -> list[Frame]:
        return [
            Frame({"atoms": Block(dict(zip("xyz", np.array(xyz).T.copy(), strict=True)))})
            for xyz in positions(case / name)
        ]

    first, more = frames_of("first.xyz"), frames_of("more.xyz")
    assert (len(first), len(more)) == (2, 3)
    path = store(tmp_path / "run.mrec", Record(trajectory=MemoryTrajectory(first)))
    if consolidated:
        zarr.consolidate_metadata(path)
    with append_record(path) as writer:
        for frame in more:
            writer.append_frame(frame)
    recwarn.clear()
    rows = first[0]["atoms"].count
    for use in (None, False):
        group = zarr.open_group(path, mode="r", use_consolidated=use)
        assert group["trajectory"].attrs["nstep"] == 5
        for axis in "xyz":
            expected = np.concatenate([frame["atoms"][axis] for frame in (*first, *more)])
            assert group[f"trajectory/atoms/{axis}"].shape == (5 * rows,)
            assert np.array_equal(group[f"trajectory/atoms/{axis}"][:], expected)
    with pytest.raises(ValueError, match=r"[Cc]onsolidated"):
        zarr.open_group(path, mode="r", use_consolidated=True)
    with open_record(path) as record:
        assert len(record.trajectory or ()) == 5
    assert [str(w.message) for w in recwarn.list] == []


def test_the_examples_of_the_page_come_back(tmp_path: Path) -> None:
    for name in ("vibration", "reaction"):
        source = getattr(examples, f"build_{name}")()
        with open_record(store(tmp_path / name, source)) as record:
            assert list(differences(source, record)) == []
            for index, frame in enumerate(source.trajectory):
                assert record.trajectory[index] == frame  # type: ignore[index]
