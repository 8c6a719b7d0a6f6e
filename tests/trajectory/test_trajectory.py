"""Trajectories: blocks, their three states, elisions, and what breaks them. One test for each line of the checklist."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import trajectory_stores as ts
from trajectory_stores import atoms, frames_of

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    BlockUpdates,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    FrameBatch,
)
from molrec_convert.model.dtypes import DTYPES, same_bits
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

F64 = ColumnDeclaration("f64")
ATOMS = Declaration({"atoms": BlockDeclaration({"x": F64}, rows=2)})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run.mrec"


def check(root: Path, frames: list[Frame], declaration: Declaration) -> None:
    """Both readers, frame by frame and in batches, give the frames that were written."""
    trajectory = ts.opened(root)
    expected = ts.resolved(frames, declaration)
    ts.same_frames((trajectory.frame(i) for i in range(len(trajectory))), expected)
    ts.same_frames(trajectory, expected)
    ts.same_as_zarr(root, trajectory)
    trajectory.check()


def test_zero_frames(root: Path) -> None:
    trajectory = ts.stored(root, [], ATOMS)
    assert trajectory.n_frames == 0
    assert list(trajectory.batches()) == []
    assert len(trajectory.steps) == 0
    assert trajectory.times is None
    assert ts.attributes(root) == {"sequence_schema": ATOMS.to_json(), "nstep": 0}
    with pytest.raises(IndexError):
        trajectory.frame(0)


def test_one_frame(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1.5, -2.5)})
    ts.write(root, frames, ATOMS)
    check(root, frames, ATOMS)
    assert ts.attributes(root)["step_progression"] == {"start": 0}


def test_regular_blocks_have_markers_and_no_index(root: Path) -> None:
    frames = frames_of(*({"atoms": atoms(i, i + 0.5)} for i in range(5)))
    ts.write(root, frames, ATOMS)
    check(root, frames, ATOMS)
    assert ts.attributes(root, "atoms") == {"uniform_rows": 2, "dense_updates": True}
    assert not ts.exists(root, "atoms/step_index")
    assert ts.array(root, "atoms/x").tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5]


def test_ragged_blocks_have_an_index(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1.0)}, {"atoms": atoms(1.0, 2.0)}, {"atoms": atoms(3.0)})
    ts.write(root, frames, ATOMS)
    check(root, frames, ATOMS)
    assert ts.attributes(root, "atoms") == {}
    assert ts.array(root, "atoms/step_index").tolist() == [0, 1, 2]
    assert ts.array(root, "atoms/offset").tolist() == [0, 1, 3, 4]


def test_block_first_appearing_at_3(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}), "late": BlockDeclaration({"x": F64})})
    frames = frames_of(*({"atoms": atoms(i)} for i in range(5)))
    frames[3].blocks["late"] = atoms(7.0, 8.0)
    ts.write(root, frames, declaration)
    check(root, frames, declaration)
    trajectory = ts.opened(root)
    assert [trajectory.resolve("late", i) for i in range(5)] == [None, None, None, (0, 0, 2), (0, 0, 2)]


def test_empty_then_refilled(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1.0, 2.0)}, {"atoms": atoms()}, {}, {"atoms": atoms(3.0)})
    ts.write(root, frames, ATOMS)
    check(root, frames, ATOMS)
    trajectory = ts.opened(root)
    assert "x" in trajectory.frame(1)["atoms"], "an empty block is present, with its columns"
    assert trajectory.frame(2)["atoms"].count == 0
    assert ts.array(root, "atoms/offset").tolist() == [0, 2, 2, 3]


def test_omitted_blocks_carry_forward(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1.0, 2.0)}, {}, {}, {"atoms": atoms(1.0, 3.0)}, {})
    ts.write(root, frames, ATOMS)
    check(root, frames, ATOMS)
    assert ts.array(root, "atoms/step_index").tolist() == [0, 3]


def test_identical_presentations_write_nothing(root: Path) -> None:
    nan = np.array([0x7FF8_0000_0000_BEEF], np.uint64).view(np.float64)[0]
    frames = frames_of(
        {"atoms": atoms(nan, 0.0)},
        {"atoms": atoms(nan, 0.0)},
        {"atoms": atoms(nan, -0.0)},
        {"atoms": atoms(math.nan, -0.0)},
        {"atoms": atoms(math.nan, -0.0)},
    )
    for number, store in enumerate((ts.write, in_one_batch)):
        store(root / str(number), frames, ATOMS)
        check(root / str(number), frames, ATOMS)
        assert ts.array(root / str(number), "atoms/step_index").tolist() == [0, 2, 3]


@pytest.mark.parametrize("row", [0, 1, 7, 24, 48, 49])
def test_one_row_that_differs_is_an_update(row: int, root: Path) -> None:
    """Whichever it is: a look at a few rows decides only that two presentations differ."""
    first = np.arange(50.0)
    second = first.copy()
    second[row] += 0.5
    frames = frames_of(*({"atoms": atoms(*values)} for values in (first, second, second, first)))
    for number, store in enumerate((ts.write, in_one_batch)):
        store(root / str(number), frames, ATOMS)
        check(root / str(number), frames, ATOMS)
        assert ts.array(root / str(number), "atoms/step_index").tolist() == [0, 1, 3]


def in_one_batch(root: Path, frames: list[Frame], declaration: Declaration) -> None:
    (batch,) = ts.memory(frames, declaration).batches()
    with TrajectoryWriter.create(root, declaration) as writer:
        writer.append(batch)


def test_identical_presentations_in_one_batch_and_across_batches(root: Path) -> None:
    values = np.repeat([1.0, 1.0, 2.0, 2.0, 2.0, 1.0], 3)
    with TrajectoryWriter.create(root, Declaration({"atoms": BlockDeclaration({"x": F64})})) as writer:
        for start in (0, 6):
            step = np.arange(start, start + 6)
            writer.append(FrameBatch(step, None, {"atoms": BlockUpdates.uniform(6, 3, {"x": values})}))
    assert ts.array(root, "atoms/step_index").tolist() == [0, 2, 5, 8, 11]


def test_identical_presentations_of_ragged_blocks(root: Path) -> None:
    sizes = [2, 2, 1, 1, 0, 0, 2, 2, 2]
    rows = [[1.0, 2.0], [1.0, 2.0], [1.0], [1.0], [], [], [5.0, 6.0], [5.0, 7.0], [5.0, 7.0]]
    offset = np.concatenate([[0], np.cumsum(sizes)])
    updates = BlockUpdates(np.arange(9), offset, {"x": np.concatenate([np.array(r) for r in rows])})
    with TrajectoryWriter.create(root, ATOMS) as writer:
        writer.append(FrameBatch(np.arange(9), None, {"atoms": updates}))
    assert ts.array(root, "atoms/step_index").tolist() == [0, 2, 4, 6, 7]
    check(root, frames_of(*({"atoms": atoms(*r)} for r in rows)), ATOMS)


def test_strings_masks_and_trailing_axes_count_when_presentations_are_compared(root: Path) -> None:
    first = {
        "atoms": Block(
            {
                "s": np.array(["a", "b"]),
                "m": Column(np.array([1, 2], np.int64), np.array([True, False])),
                "v": np.zeros((2, 3)),
                "c": np.array([1j, 2], np.complex128),
            }
        )
    }
    declaration = Declaration.derive([Frame(first)])

    def changed(key: str) -> dict[str, Block]:
        columns = {k: Column(c.values.copy(), c.validity) for k, c in first["atoms"].columns.items()}
        if key == "s":
            columns["s"] = Column(np.array(["a", "c"]))
        elif key == "m":
            columns["m"] = Column(np.array([1, 2], np.int64), np.array([False, False]))
        elif key == "v":
            columns["v"].values[1, 2] = -0.0
        elif key == "c":
            columns["c"].values[0] = complex(-0.0, 1)
        return {"atoms": Block(columns)}

    frames = frames_of(first, changed("s"), changed("m"), changed("v"), changed("c"), changed("c"), changed(""))
    for number, store in enumerate((ts.write, in_one_batch)):
        store(root / str(number), frames, declaration)
        check(root / str(number), frames, declaration)
        assert ts.array(root / str(number), "atoms/step_index").tolist() == [0, 1, 2, 3, 4, 6]


@pytest.mark.parametrize(
    ("blocks", "index", "offset"),
    [
        ([[1.0, 2.0], [2.0, 3.0], [4.0], [5.0, 6.0]], [0, 1, 2, 3], [0, 2, 4, 5, 7]),
        ([[1.0, 2.0], [2.0, 3.0], None, [5.0, 6.0]], [0, 1, 3], [0, 2, 4, 6]),
        ([[1.0, 2.0], [2.0, 3.0], [], [5.0, 6.0]], [0, 1, 2, 3], [0, 2, 4, 4, 6]),
    ],
    ids=["count", "ordinal", "zero rows"],
)
@pytest.mark.parametrize("flush_every", [0, 1, 2])
def test_elision_broken(
    root: Path, blocks: list[list[float] | None], index: list[int], offset: list[int], flush_every: int
) -> None:
    """By another row count, by a gap, by zero rows: the index has the whole history, the markers are gone for good."""
    frames = frames_of(*({} if rows is None else {"atoms": atoms(*rows)} for rows in blocks))
    ts.write(root, frames, ATOMS, flush_every=flush_every)
    check(root, frames, ATOMS)
    assert ts.attributes(root, "atoms") == {}
    assert ts.array(root, "atoms/step_index").tolist() == index
    assert ts.array(root, "atoms/offset").tolist() == offset


def test_markers_do_not_come_back(root: Path) -> None:
    frames = frames_of(
        {"atoms": atoms(1.0)}, {"atoms": atoms(1.0, 2.0)}, *({"atoms": atoms(float(i))} for i in range(9))
    )
    ts.write(root, frames, ATOMS, flush_every=1)
    check(root, frames, ATOMS)
    assert ts.attributes(root, "atoms") == {}


def test_a_regular_block_that_stops_stays_regular(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1.0, 2.0)}, {"atoms": atoms(3.0, 4.0)}, {}, {"atoms": atoms(3.0, 4.0)}, {})
    ts.write(root, frames, ATOMS)
    check(root, frames, ATOMS)
    assert ts.attributes(root, "atoms") == {"uniform_rows": 2, "dense_updates": True}
    assert ts.node(root, "atoms/x")["shape"] == [4]


def test_block_with_no_columns_keeps_its_index(root: Path) -> None:
    declaration = Declaration({"marks": BlockDeclaration({})})
    frames = frames_of(*({"marks": Block(count=n)} for n in (3, 3, 2, 0, 2)))
    ts.write(root, frames, declaration)
    check(root, frames, declaration)
    assert ts.attributes(root, "marks") == {}
    assert ts.array(root, "marks/step_index").tolist() == [0, 2, 3, 4]
    assert [ts.opened(root).frame(i)["marks"].count for i in range(5)] == [3, 3, 2, 0, 2]


def test_every_dtype_with_and_without_trailing_axes(root: Path) -> None:
    rng = np.random.default_rng(7)
    columns = {}
    for name, dtype in DTYPES.items():
        for trailing in ((), (3,), (2, 2)):
            raw = rng.integers(0, 255, (5, *trailing, dtype.itemsize), dtype=np.uint8)
            if name == "string":
                values = np.array(["", "é", "a\0b", "line\nbreak", "x" * 300])
                values = (
                    values.reshape(5, *(1,) * len(trailing)).repeat(math.prod(trailing), -1) if trailing else values
                )
                values = values.reshape(5, -1)[:, : math.prod(trailing)].reshape(5, *trailing)
            elif name == "bool":
                values = raw[..., 0] > 127
            else:
                values = raw.reshape(-1).view(dtype.numpy).reshape(5, *trailing)
            columns[f"{name}_{len(trailing)}"] = Column(values)
    columns["wide"] = Column(np.array([0, 2**63, 2**64 - 1, 2**53 + 1, 1], np.uint64))
    columns["low"] = Column(np.array([-(2**63), 2**63 - 1, 0, -1, 1], np.int64))
    columns["none"] = Column(np.zeros((5, 0)))
    frames = frames_of(
        {"atoms": Block(columns)}, {"atoms": Block({k: Column(c.values[::-1]) for k, c in columns.items()})}
    )
    declaration = Declaration.derive(frames)
    ts.write(root, frames, declaration)
    trajectory = ts.opened(root)
    expected = ts.resolved(frames, declaration)
    ts.same_frames((trajectory.frame(i) for i in range(2)), expected)
    ts.same_as_zarr(root, trajectory)


def test_nullable_columns_have_full_masks_from_the_first_update_on(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", nullable=True)}, rows=2)})
    masked = Block({"x": Column(np.array([math.pi, 2.0]), np.array([False, True]))})
    frames = frames_of({"atoms": atoms(1.0, 2.0)}, {"atoms": masked}, {"atoms": atoms(math.pi, 2.0)})
    ts.write(root, frames, declaration)
    check(root, frames, declaration)
    assert ts.array(root, "atoms/_validity/x").tolist() == [True, True, False, True, True, True]
    assert ts.opened(root).frame(0)["atoms"].columns["x"].validity is None, "an all-true mask is no mask"
    assert ts.node(root, "atoms/_validity/x")["chunk_grid"]["configuration"]["chunk_shape"] == [2048 * 4096]
    assert ts.attributes(root, "atoms/_validity") == {}


def test_masked_strings_keep_what_stands_under_a_null(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"s": ColumnDeclaration("string", nullable=True)})})
    block = Block({"s": Column(np.array(["kept", "é"]), np.array([False, True]))})
    trajectory = ts.stored(root, [Frame({"atoms": block})], declaration)
    assert trajectory.frame(0)["atoms"] == block


def test_structural_shape_fixes_the_row_count(root: Path) -> None:
    declaration = Declaration({"grid": BlockDeclaration({"rho": F64}, structural_shape=(2, 3))})
    frames = frames_of(*({"grid": Block({"rho": np.arange(6.0) + i}, structural_shape=(2, 3))} for i in range(3)))
    ts.write(root, frames, declaration)
    check(root, frames, declaration)
    assert list(ts.attributes(root, "grid")) == ["structural_shape", "uniform_rows", "dense_updates"]
    with TrajectoryWriter.open(root) as writer:
        for rows in (np.arange(5.0), np.arange(0.0)):
            with pytest.raises(ContractError, match="structural shape"):
                writer.append_frame(Frame({"grid": Block({"rho": rows})}))
            updates = BlockUpdates(np.array([0]), np.array([0, len(rows)]), {"rho": rows})
            with pytest.raises(ContractError, match=r"structural shape \[2, 3\] fixes the row count at frame 3"):
                writer.append(FrameBatch(np.array([9]), None, {"grid": updates}))
        with pytest.raises(ContractError, match="another structural shape"):
            writer.append_frame(Frame({"grid": Block({"rho": np.arange(6.0)}, structural_shape=(3, 2))}))


@pytest.mark.parametrize("name", ["step", "time", "meta", "box"])
def test_reserved_block_names_are_refused(root: Path, name: str) -> None:
    with pytest.raises(ContractError, match="reserved"):
        TrajectoryWriter.create(root, Declaration({name: BlockDeclaration({"x": F64})}))


@pytest.mark.parametrize("name", ["offset", "step_index", "_validity"])
def test_reserved_column_names_are_refused(root: Path, name: str) -> None:
    with pytest.raises(ContractError, match="reserved"):
        TrajectoryWriter.create(root, Declaration({"atoms": BlockDeclaration({name: F64})}))


@pytest.mark.parametrize("name", ["", "a/b", "a\0b", ".", "..", "zarr.json", "__x"])
def test_forbidden_node_names_are_refused(root: Path, name: str) -> None:
    for declaration in (
        Declaration({name: BlockDeclaration({"x": F64})}),
        Declaration({"atoms": BlockDeclaration({name: F64})}),
    ):
        with pytest.raises(ContractError):
            TrajectoryWriter.create(root, declaration)


def test_what_is_outside_the_declaration_is_refused_and_leaves_the_writer_as_it_was(root: Path) -> None:
    good = atoms(1.0, 2.0)
    bad = {
        "not declared": {"bonds": atoms(1.0)},
        "column": {"atoms": Block({"x": np.zeros(2), "y": np.zeros(2)})},
        "missing|without this column": {"atoms": Block({}, count=2)},
        "own dtype|differs": {"atoms": Block({"x": np.zeros(2, np.int64)})},
        "mask": {"atoms": Block({"x": Column(np.zeros(2), np.array([True, False]))})},
    }
    with TrajectoryWriter.create(root, ATOMS) as writer:
        writer.append_frame(Frame({"atoms": good}))
        for reason, blocks in bad.items():
            with pytest.raises(ContractError, match=reason):
                writer.append_frame(Frame(blocks))
        with pytest.raises(ContractError, match="not declared"):
            writer.append_frame(Frame({}, {"pe": 1.0}))
        writer.append_frame(Frame({"atoms": atoms(3.0, 4.0)}))
    check(root, frames_of({"atoms": good}, {"atoms": atoms(3.0, 4.0)}), ATOMS)


def test_batches_that_contradict_themselves_are_refused(root: Path) -> None:
    x = {"x": np.arange(4.0)}
    with TrajectoryWriter.create(root, ATOMS) as writer:
        for updates in (
            BlockUpdates(np.array([0, 1]), np.array([0, 2]), x),
            BlockUpdates(np.array([1, 0]), np.array([0, 2, 4]), x),
            BlockUpdates(np.array([0, 2]), np.array([0, 2, 4]), x),
            BlockUpdates(np.array([0, 1]), np.array([0, 3, 2]), x),
            BlockUpdates(np.array([0, 1]), np.array([0, 2, 5]), x),
            BlockUpdates(np.array([0, 1]), np.array([0, 2, 4]), {"x": np.zeros((4, 1))}),
        ):
            with pytest.raises(ContractError):
                writer.append(FrameBatch(np.arange(2), None, {"atoms": updates}))
        writer.append(FrameBatch(np.arange(2), None, {"atoms": BlockUpdates(np.arange(2), np.array([1, 2, 4]), x)}))
    assert ts.array(root, "atoms/x").tolist() == [1.0, 2.0, 3.0]


def test_a_closed_writer_takes_nothing_more(root: Path) -> None:
    writer = TrajectoryWriter.create(root, ATOMS)
    writer.close()
    writer.close()
    with pytest.raises(UsageError, match="closed"):
        writer.append_frame(Frame({"atoms": atoms(1.0)}))


def test_a_second_trajectory_in_one_record_is_refused(root: Path) -> None:
    ts.write(root, [], ATOMS)
    with pytest.raises(UsageError, match="has a trajectory already"):
        TrajectoryWriter.create(root, ATOMS)


# Precision.


def test_values_are_rounded_before_they_are_stored_and_compared(root: Path) -> None:
    q = 2.0**-10
    declaration = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", precision=1e-3)}, rows=3)})
    frames = frames_of(
        {"atoms": atoms(2.5 * q, 3.5 * q, -0.0)},
        {"atoms": atoms(2.4 * q, 4.3 * q, -0.1 * q)},
        {"atoms": atoms(2.4 * q, 4.6 * q, -0.0)},
        {"atoms": atoms(math.nan, math.inf, 2.0**52 * q + 1)},
    )
    ts.write(root, frames, declaration)
    check(root, frames, declaration)
    assert ts.array(root, "atoms/step_index").tolist() == [0, 2, 3], "a change below the quantum is none"
    in_one_batch(root.with_name("batch"), frames, declaration)
    assert ts.array(root.with_name("batch"), "atoms/step_index").tolist() == [0, 2, 3]
    assert (ts.array(root, "atoms/x")[:3] / q).tolist() == [2.0, 4.0, 0.0]
    assert ts.opened(root).declaration.blocks["atoms"].columns["x"].precision == 1e-3
    assert "precision" not in ts.attributes(root, "atoms/x"), "it stands in the declaration and nowhere else"
    assert [c["name"] for c in ts.node(root, "atoms/x")["codecs"][0]["configuration"]["codecs"]] == [
        "bytes",
        "numcodecs.shuffle",
        "zstd",
        "crc32c",
    ]


def test_rounding_holds_in_batches_of_many_chunks(root: Path) -> None:
    from molrec_convert.model.dtypes import stored

    rng = np.random.default_rng(2)
    values = rng.normal(size=(40, 700)) * 50
    values[3, 5], values[7, 0], values[20, 699] = math.nan, -math.inf, 1e300
    declaration = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", precision=1e-2)}, rows=700)})
    with TrajectoryWriter.create(root, declaration) as writer:
        for part in (slice(0, 1), slice(1, 30), slice(30, 40)):
            block = BlockUpdates.uniform(len(values[part]), 700, {"x": values[part].reshape(-1)})
            writer.append(FrameBatch(np.arange(40)[part], None, {"atoms": block}))
    (batch,) = ts.opened(root).batches()
    assert same_bits(batch.blocks["atoms"].columns["x"], stored(values.reshape(-1), 1e-2))
    assert same_bits(ts.array(root, "atoms/x"), stored(values.reshape(-1), 1e-2))


def test_rows_under_a_null_are_not_rounded(root: Path) -> None:
    declaration = Declaration(
        {"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", nullable=True, precision=1e-3)}, rows=2)}
    )
    block = Block({"x": Column(np.array([math.pi, math.pi]), np.array([False, True]))})
    ts.write(root, [Frame({"atoms": block})], declaration)
    assert ts.array(root, "atoms/x").tolist() == [math.pi, 3.1416015625]


def test_a_frame_with_another_precision_than_declared_is_refused(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", precision=1e-3)})})
    with TrajectoryWriter.create(root, declaration) as writer:
        with pytest.raises(ContractError, match="precision differs"):
            writer.append_frame(Frame({"atoms": Block({"x": Column(np.zeros(1), precision=1e-2)})}))
        writer.append_frame(Frame({"atoms": Block({"x": Column(np.zeros(1), precision=1e-3)})}))
        writer.append_frame(Frame({"atoms": atoms(1.0)}))


@pytest.mark.parametrize(("dtype", "precision"), [("i64", 1e-3), ("f64", 0.0), ("f64", -1.0), ("f64", math.inf)])
def test_precisions_no_column_may_declare(root: Path, dtype: str, precision: float) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x1": ColumnDeclaration(dtype, precision=precision)})})
    with pytest.raises(ContractError):
        TrajectoryWriter.create(root, declaration)
