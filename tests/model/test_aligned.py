"""Aligned blocks, row references and blocks of `system`: what holds between the blocks of a frame, resolved."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import trajectory_stores as ts
from hand_built import edit_json
from trajectory_stores import atoms, frames_of

from molrec_convert.errors import ContractError
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
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

F64, U64, TEXT = ColumnDeclaration("f64"), ColumnDeclaration("u64"), ColumnDeclaration("string")
ALIGNED = Declaration(
    {"atoms": BlockDeclaration({"x": F64}), "kinds": BlockDeclaration({"type": TEXT}, aligned_with="atoms")}
)
BONDED = Declaration({"atoms": BlockDeclaration({"x": F64}), "bonds": BlockDeclaration({"atomi": U64, "atomj": U64})})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run.mrec"


def kinds(*types: str) -> Block:
    return Block({"type": Column(np.array(types, dtype=np.dtypes.StringDType()))})


def bonds(*pairs: tuple[int, int]) -> Block:
    rows = np.array(pairs, np.uint64).reshape(-1, 2)
    return Block({"atomi": rows[:, 0].copy(), "atomj": rows[:, 1].copy()})


def written(root: Path, frames: list[Frame], declaration: Declaration) -> None:
    """The frames come back, written one by one, in one batch, and over a reopening."""
    expected = ts.resolved(frames, declaration)
    ts.same_frames(ts.stored(root / "frames", frames, declaration), expected)
    ts.same_as_zarr(root / "frames", ts.opened(root / "frames"))
    with TrajectoryWriter.create(root / "batch", declaration) as writer:
        for batch in ts.memory(frames, declaration).batches():
            writer.append(batch)
    ts.same_frames(ts.opened(root / "batch"), expected)
    TrajectoryWriter.create(root / "reopened", declaration).close()
    for number, frame in enumerate(frames):
        with TrajectoryWriter.open(root / "reopened") as writer:
            writer.append_frame(Frame(frame.blocks, step=number))
    ts.same_frames(ts.opened(root / "reopened"), expected)
    ts.opened(root / "reopened").check()


def refused(root: Path, frames: list[Frame], declaration: Declaration, node: str, match: str) -> None:
    """The last frame is refused: after the others, in one batch with them, and after a reopening."""
    *good, bad = frames
    with TrajectoryWriter.create(root / "frames", declaration) as writer:
        for frame in good:
            writer.append_frame(frame)
        with pytest.raises(ContractError, match=match) as caught:
            writer.append_frame(bad)
        assert caught.value.node == node
        assert writer.n_frames == len(good)
    ts.same_frames(ts.opened(root / "frames"), ts.resolved(good, declaration))
    with TrajectoryWriter.open(root / "frames") as writer, pytest.raises(ContractError, match=match):
        writer.append_frame(bad)
    with TrajectoryWriter.create(root / "batch", declaration) as writer:
        (batch,) = ts.memory(frames, declaration).batches()
        with pytest.raises(ContractError, match=match):
            writer.append(batch)
        assert writer.n_frames == 0


# Aligned.


def test_aligned_block_carries_forward(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1, 2), "kinds": kinds("a", "b")}, {"atoms": atoms(3, 4)}, {"atoms": atoms(5, 6)})
    written(root, frames, ALIGNED)
    trajectory = ts.opened(root / "frames")
    assert trajectory.resolve("kinds", 2) == (0, 0, 2)
    assert trajectory.declaration.blocks["kinds"].aligned_with == "atoms"


def test_aligned_block_restated_on_growth(root: Path) -> None:
    frames = frames_of(
        {"atoms": atoms(1, 2), "kinds": kinds("a", "b")},
        {"atoms": atoms(1, 2, 3), "kinds": kinds("a", "b", "c")},
        {"atoms": atoms(4, 5, 6)},
        {"atoms": atoms(4), "kinds": kinds("z")},
    )
    written(root, frames, ALIGNED)


def test_aligned_block_absent_then_present(root: Path) -> None:
    written(root, frames_of({"atoms": atoms(1, 2)}, {"atoms": atoms(3)}, {"kinds": kinds("a")}, {}), ALIGNED)


def test_empty_target(root: Path) -> None:
    frames = frames_of(
        {"atoms": atoms(1, 2), "kinds": kinds("a", "b")},
        {"atoms": atoms(), "kinds": kinds()},
        {},
        {"atoms": atoms(5), "kinds": kinds("c")},
    )
    written(root, frames, ALIGNED)


def test_not_restated_is_refused(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1, 2), "kinds": kinds("a", "b")}, {}, {"atoms": atoms(1, 2, 3)})
    refused(root, frames, ALIGNED, "trajectory/kinds", "another row count")


def test_another_count_is_refused(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1, 2)}, {"kinds": kinds("a", "b", "c")})
    refused(root, frames, ALIGNED, "trajectory/kinds", "found 3, expected 2")
    emptied = frames_of({"atoms": atoms(1, 2), "kinds": kinds("a", "b")}, {"atoms": atoms()})
    refused(root / "emptied", emptied, ALIGNED, "trajectory/kinds", "found 2, expected 0")


def test_absent_target_is_refused(root: Path) -> None:
    refused(root, frames_of({}, {"kinds": kinds("a")}), ALIGNED, "trajectory/kinds", "not 'atoms'")


def test_disagreement_in_the_middle_of_a_batch_is_found(root: Path) -> None:
    """Both blocks change at every frame; at one of a thousand they differ."""
    x = np.arange(3001.0)
    offset = np.arange(1001) * 3
    late = np.where(np.arange(1001) > 500, offset + 1, offset)
    with TrajectoryWriter.create(root, ALIGNED) as writer:
        frame = np.arange(1000)
        updates = {
            "atoms": BlockUpdates(frame, offset, {"x": x[:3000]}),
            "kinds": BlockUpdates(frame, late, {"type": x.astype(str)}),
        }
        with pytest.raises(ContractError, match=r"frame 500 .* found 4, expected 3"):
            writer.append(FrameBatch(frame, None, updates))


@pytest.mark.parametrize(
    ("blocks", "match"),
    [
        ({"kinds": BlockDeclaration({"type": TEXT}, aligned_with="atoms")}, "no other declared block"),
        ({"kinds": BlockDeclaration({"type": TEXT}, aligned_with="kinds")}, "no other declared block"),
        (
            {
                "atoms": BlockDeclaration({"x": F64}),
                "kinds": BlockDeclaration({"type": TEXT}, aligned_with="atoms"),
                "more": BlockDeclaration({"q": F64}, aligned_with="kinds"),
            },
            "aligned itself",
        ),
        (
            {"atoms": BlockDeclaration({"x": F64}), "kinds": BlockDeclaration({"x": F64}, aligned_with="atoms")},
            "shares the column",
        ),
        (
            {
                "atoms": BlockDeclaration({"x": F64}),
                "kinds": BlockDeclaration({"type": TEXT}, aligned_with="atoms", structural_shape=(2,)),
            },
            "structural shape",
        ),
    ],
    ids=["target undeclared", "itself", "chain", "shared column", "structural shape"],
)
def test_declarations_that_are_refused(root: Path, blocks: dict[str, BlockDeclaration], match: str) -> None:
    with pytest.raises(ContractError, match=match):
        TrajectoryWriter.create(root, Declaration(blocks))
    assert not (root / "trajectory").exists()


def test_the_name_of_a_system_block_is_refused(root: Path) -> None:
    with pytest.raises(ContractError, match="name of a block of system") as caught:
        TrajectoryWriter.create(root, ALIGNED, system={"kinds": 2})
    assert caught.value.node == "trajectory/kinds"


def test_a_store_whose_counts_differ_is_refused(root: Path) -> None:
    ts.write(root, frames_of({"atoms": atoms(1, 2), "kinds": kinds("a", "b")}, {"atoms": atoms(3, 4)}), ALIGNED)
    edit_json(root / "trajectory/atoms", lambda d: d["attributes"].update(uniform_rows=1))
    for read in (lambda t: t.frame(0), lambda t: list(t.batches()), lambda t: t.check()):
        with pytest.raises(ContractError, match="another row count") as caught:
            read(ts.opened(root))
        assert caught.value.node == "trajectory/kinds"
    shutil.rmtree(root / "trajectory/atoms")
    with pytest.raises(ContractError, match="not 'atoms'"):
        ts.opened(root).frame(0)


# References.


def test_standard_relations_in_range(root: Path) -> None:
    frames = frames_of(
        {"atoms": atoms(1, 2, 3), "bonds": bonds((0, 1), (1, 2))},
        {"atoms": atoms(1, 2)} | {"bonds": bonds((0, 1))},
        {"atoms": atoms(5, 6)},
        {"atoms": atoms(), "bonds": bonds()},
        {"atoms": atoms(7)},
    )
    written(root, frames, BONDED)


def test_a_reference_out_of_range_is_refused(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1, 2)}, {"bonds": bonds((0, 2))})
    refused(root, frames, BONDED, "trajectory/bonds/atomj", "found 2, expected less than 2")
    largest = frames_of({"atoms": atoms(1, 2)}, {"bonds": bonds((2**64 - 1, 0))})
    refused(root / "largest", largest, BONDED, "trajectory/bonds/atomi", f"found {2**64 - 1}")


def test_a_target_that_shrinks_under_its_references_is_refused(root: Path) -> None:
    frames = frames_of({"atoms": atoms(1, 2, 3), "bonds": bonds((0, 2))}, {}, {"atoms": atoms(1, 2)})
    refused(root, frames, BONDED, "trajectory/bonds/atomj", "out of range at frame 2")


def test_a_missing_target_block_is_refused(root: Path) -> None:
    refused(root, frames_of({}, {"bonds": bonds((0, 1))}), BONDED, "trajectory/bonds/atomi", "is not there at frame")
    undeclared = Declaration({"bonds": BONDED.blocks["bonds"]})
    refused(
        root / "two", frames_of({"bonds": bonds((0, 1))}), undeclared, "trajectory/bonds/atomi", "is not there at frame"
    )


def test_an_empty_relation_needs_no_target(root: Path) -> None:
    written(root, frames_of({"bonds": bonds()}, {}), BONDED)


def test_null_references_are_allowed(root: Path) -> None:
    nullable = ColumnDeclaration("u64", nullable=True)
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}), "sites": BlockDeclaration({"atomi": nullable})})
    masked = Block({"atomi": Column(np.array([1, 99], np.uint64), np.array([True, False]))})
    nothing = Block({"atomi": Column(np.array([99, 99], np.uint64), np.array([False, False]))})
    frames = frames_of({"atoms": atoms(1, 2), "sites": masked}, {"sites": nothing}, {"atoms": atoms()})
    written(root, frames, declaration)
    bad = Block({"atomi": Column(np.array([2, 99], np.uint64), np.array([True, False]))})
    refused(
        root / "bad", frames_of({"atoms": atoms(1, 2)}, {"sites": bad}), declaration, "trajectory/sites/atomi", "range"
    )


def test_declared_targets_are_kept_and_checked(root: Path) -> None:
    members = BlockDeclaration({"ibead": U64, "atom": U64}, targets={"ibead": "beads", "atom": "/system/atoms"})
    declaration = Declaration({"beads": BlockDeclaration({"m": F64}), "members": members})

    def member(bead: int, atom: int) -> Block:
        columns = {"ibead": np.array([bead], np.uint64), "atom": np.array([atom], np.uint64)}
        return Block(columns, targets={"ibead": "beads", "atom": "/system/atoms"})

    frames = frames_of({"beads": Block({"m": np.ones(2)}), "members": member(1, 10)})
    with TrajectoryWriter.create(root, declaration, system={"atoms": 11}) as writer:
        writer.append_frame(frames[0])
        with pytest.raises(ContractError, match="out of range") as caught:
            writer.append_frame(Frame({"members": member(2, 0)}))
        assert caught.value.node == "trajectory/members/ibead"
        with pytest.raises(ContractError, match="out of range") as caught:
            writer.append_frame(Frame({"members": member(0, 11)}))
        assert caught.value.node == "trajectory/members/atom"
        with pytest.raises(ContractError, match="other targets"):
            writer.append_frame(Frame({"members": Block(member(0, 0).columns, targets={"ibead": "atoms"})}))
    assert ts.opened(root).declaration.blocks["members"].targets == members.targets
    with TrajectoryWriter.open(root, system={}) as writer, pytest.raises(ContractError, match="is not there at frame"):
        writer.append_frame(Frame({"members": member(1, 1)}))
    with TrajectoryWriter.open(root) as writer:
        writer.append_frame(Frame({"members": member(1, 10**6)}))


@pytest.mark.parametrize(
    ("block", "match"),
    [
        (BlockDeclaration({"site": U64}, targets={"site": "/trajectory/atoms"}), "target"),
        (BlockDeclaration({"site": U64}, targets={"site": "a/b"}), "target"),
        (BlockDeclaration({"site": U64}, targets={"other": "atoms"}), "does not exist"),
        (BlockDeclaration({"site": ColumnDeclaration("u32")}, targets={"site": "atoms"}), "u64"),
        (BlockDeclaration({"atomi": ColumnDeclaration("u32")}), "own dtype"),
        (BlockDeclaration({"id": ColumnDeclaration("i64")}), "own dtype"),
    ],
)
def test_targets_that_are_refused(root: Path, block: BlockDeclaration, match: str) -> None:
    with pytest.raises(ContractError, match=match):
        TrajectoryWriter.create(root, Declaration({"sites": block}))


# System and trajectory.


def test_row_counts_equal_those_of_system(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64})})
    with TrajectoryWriter.create(root, declaration, system={"atoms": 2}) as writer:
        writer.append_frame(Frame({"atoms": atoms(1, 2)}))
        for rows in ((1.0,), (), (1.0, 2.0, 3.0)):
            with pytest.raises(ContractError, match="than in system at frame 1") as caught:
                writer.append_frame(Frame({"atoms": atoms(*rows)}))
            assert caught.value.node == "trajectory/atoms"
