"""Appending and committing: reopening, crashes between any two steps, a killed process, flush sizes, one writer."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import append_child
import numpy as np
import pytest
import trajectory_stores as ts
from hand_built import edit_json
from trajectory_stores import atoms, frames_of

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    Meta,
    MetaDeclaration,
)
from molrec_convert.stores.zarr.trajectory import arrays as trajectory_arrays
from molrec_convert.stores.zarr.trajectory.arrays import EVERY_BOUNDARY, Pace
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
from molrec_convert.stores.zarr.v3 import shards

F64 = ColumnDeclaration("f64")
DECLARATION = append_child.DECLARATION
FRAMES = [append_child.frame(i) for i in range(420)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run.mrec"


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends loses nothing the kernel has: waiting for the disk only makes these tests slow."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def same(root: Path, frames: list[Frame]) -> None:
    ts.same_frames(ts.opened(root), ts.resolved(frames, DECLARATION))


def append(root: Path, frames: list[Frame], **options: Any) -> None:
    with TrajectoryWriter.open(root, **options) as writer:
        for frame in frames:
            writer.append_frame(frame)


# Reopening.


@pytest.mark.parametrize("cuts", [[1], [119, 120, 121, 181], [199, 200, 201], [299, 300, 301], list(range(0, 420, 60))])
def test_reopened_equals_one_uninterrupted_write(root: Path, cuts: list[int]) -> None:
    ts.write(root, FRAMES[: cuts[0]], DECLARATION)
    for first, last in zip(cuts, [*cuts[1:], len(FRAMES)], strict=True):
        append(root, FRAMES[first:last])
    same(root, FRAMES)
    whole = ts.write(root.with_name("whole"), FRAMES, DECLARATION)
    assert ts.attributes(root) == ts.attributes(whole)
    for name in DECLARATION.blocks:
        assert ts.attributes(root, name) == ts.attributes(whole, name)
    for path in sorted((root / "trajectory").rglob("zarr.json")):
        node = str(path.parent.relative_to(root / "trajectory"))
        assert ts.node(root, node) == ts.node(whole, node)


def test_extents_are_frozen(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}, rows=3)})
    ts.write(root, frames_of({"atoms": atoms(1, 2, 3)}), declaration)
    before = ts.node(root, "atoms/x")["chunk_grid"], ts.node(root, "atoms/x")["codecs"]
    append(root, frames_of({"atoms": Block({"x": np.arange(5000.0)})}))
    assert (ts.node(root, "atoms/x")["chunk_grid"], ts.node(root, "atoms/x")["codecs"]) == before
    assert ts.opened(root).frame(1)["atoms"].count == 5000


def test_where_rows_are_not_known_the_first_updates_tell_the_extents(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}), "late": BlockDeclaration({"q": F64})})
    with TrajectoryWriter.create(root, declaration) as writer:
        writer.append_frame(Frame({"atoms": Block({"x": np.arange(3000.0)})}))
        writer.flush()
        writer.append_frame(Frame({"late": Block({"q": np.zeros(0)})}))
    assert ts.node(root, "atoms/x")["codecs"][0]["configuration"]["chunk_shape"] == [3000]
    assert ts.node(root, "late/q")["codecs"][0]["configuration"]["chunk_shape"] == [2048]


def test_an_identical_presentation_after_reopening_writes_nothing(root: Path) -> None:
    ts.write(root, FRAMES[:10], DECLARATION)
    last = ts.opened(root).frame(9)
    append(root, [Frame(last.blocks, last.meta, last.box, step=10**6, time=5.0)])
    assert ts.node(root, "atoms/x")["shape"] == [400]
    assert ts.node(root, "kinds/type")["shape"] == [40]
    assert ts.attributes(root)["nstep"] == 11


def test_a_mask_that_is_absent_is_completed(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", nullable=True)}, rows=2)})
    ts.write(root, frames_of({"atoms": atoms(1, 2)}), declaration)
    shutil.rmtree(root / "trajectory/atoms/_validity")
    append(root, frames_of({"atoms": atoms(1, 2)}))
    assert ts.node(root, "atoms/x")["shape"] == [2]
    masked = Block({"x": Column(np.array([3.0, 4.0]), np.array([False, True]))})
    append(root, frames_of({"atoms": masked}))
    assert ts.array(root, "atoms/_validity/x").tolist() == [True, True, False, True]


def test_reopening_removes_leftovers_and_consolidated_metadata(root: Path) -> None:
    ts.write(root, FRAMES[:5], DECLARATION)
    leftovers = [root / ".zarr.json.123.tmp", root / "trajectory/atoms/x/.zarr.json.9.tmp"]
    for path in leftovers:
        path.write_text("{}")
    edit_json(root / "trajectory", lambda d: d.update(consolidated_metadata={"kind": "inline", "metadata": {}}))
    (root / "zarr.json").write_text(
        '{"zarr_format": 3, "node_type": "group", "attributes": {"é": 1}, "consolidated_metadata": {"metadata": {}}}',
        encoding="utf-8",
    )
    append(root, FRAMES[5:9])
    assert not any(path.exists() for path in leftovers)
    for path in (root / "zarr.json", root / "trajectory/zarr.json"):
        assert "consolidated" not in path.read_text(encoding="utf-8")
    assert '"é": 1' in (root / "zarr.json").read_text(encoding="utf-8")
    same(root, FRAMES[:9])


def test_a_record_without_a_trajectory_cannot_be_reopened(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="not a Zarr group"):
        TrajectoryWriter.open(tmp_path)
    with pytest.raises((UsageError, FileNotFoundError)):
        TrajectoryWriter.open(tmp_path / "nothing")
    ts.write(tmp_path, [], DECLARATION)  # the lock was let go


def test_a_derived_declaration_is_pinned_on_reopening(root: Path) -> None:
    ts.write(root, frames_of({"atoms": atoms(1, 2)}))
    edit_json(root / "trajectory", lambda d: d["attributes"].pop("sequence_schema"))
    append(root, frames_of({"atoms": atoms(3, 4)}))
    assert list(ts.attributes(root)["sequence_schema"]["blocks"]) == ["atoms"]
    assert ts.opened(root).n_frames == 2


# Flushing.


@pytest.mark.slow
def test_two_flush_sizes_give_equal_content(root: Path) -> None:
    paths = []
    for number, (flush_every, flush_bytes) in enumerate([(0, 2**40), (1, 2**40), (0, 10_000), (13, 4 * 2**20)]):
        path = root.with_name(f"run{number}")
        ts.write(path, FRAMES, DECLARATION, flush_every=flush_every, flush_bytes=flush_bytes, pace=EVERY_BOUNDARY)
        same(path, FRAMES)
        paths.append(path)
    for path in paths[1:]:
        assert ts.attributes(path) == ts.attributes(paths[0])


def test_batches_and_single_frames_give_equal_content(root: Path) -> None:
    memory = ts.memory(FRAMES, DECLARATION)
    (batch,) = memory.batches()
    with TrajectoryWriter.create(root, DECLARATION, flush_bytes=50_000, pace=EVERY_BOUNDARY) as writer:
        writer.append(batch)
    same(root, FRAMES)


def test_frames_are_committed_on_the_way(root: Path) -> None:
    """K frames: the least number that fills `flush_bytes`, whole chunks of the largest block, at most 4096."""
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}, rows=100)})
    with TrajectoryWriter.create(root, declaration, flush_bytes=100_000, pace=EVERY_BOUNDARY) as writer:
        committed = []
        for i in range(300):
            writer.append_frame(Frame({"atoms": Block({"x": np.full(100, i + 1.0)})}))
            committed.append(ts.attributes(root)["nstep"])
        assert sorted(set(committed)) == [0, 126, 252], "125 frames of 800 bytes, rounded up to chunks of 21 frames"
        assert committed[125:127] == [126, 126]
    assert ts.attributes(root)["nstep"] == 300


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (32000, 3, 6),
        (100, 3, 1764),
        (1, 1, 4096),
        (3, 1, 3415),
        (0, 1, 4096),
        (10**7, 1, 1),
        (5, 2, 4096 // 410 * 410),
    ],
)
def test_the_cadence_of_automatic_commits(root: Path, rows: int, columns: int, expected: int) -> None:
    block = BlockDeclaration({f"c{n}": F64 for n in range(columns)}, rows=rows)
    with TrajectoryWriter.create(root, Declaration({"atoms": block})) as writer:
        assert writer._arrays.cadence == expected


def test_a_batch_larger_than_the_cadence_commits_at_its_last_multiple(root: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}, rows=100)})
    frames = [Frame({"atoms": Block({"x": np.full(100, i + 1.0)})}) for i in range(500)]
    (batch,) = ts.memory(frames, declaration).batches()
    with TrajectoryWriter.create(root, declaration, flush_bytes=100_000, pace=EVERY_BOUNDARY) as writer:
        writer.append(batch)
        assert ts.attributes(root)["nstep"] == 378
        assert ts.node(root, "atoms/x")["shape"] == [37800]
        assert (root / "trajectory/atoms/x/c/0").stat().st_size % 16804 == (16 * 4096 + 4) % 16804, "whole chunks only"
    ts.same_frames(ts.opened(root), ts.resolved(frames, declaration))


class Clock:
    """A clock that goes as it is told, by which writers go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(trajectory_arrays.time, "monotonic", lambda: self.now)


def test_an_automatic_commit_waits_for_bytes_or_seconds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}, rows=100)})
    pace = Pace(nbytes=250_000, seconds=1.0, times=40.0)
    with TrajectoryWriter.create(root, declaration, flush_bytes=100_000, pace=pace) as writer:

        def committed_after(frames: int) -> int:
            for _ in range(frames):
                writer.append_frame(Frame({"atoms": Block({"x": np.full(100, writer.n_frames + 1.0)})}))
            count = ts.attributes(root)["nstep"]
            assert isinstance(count, int)
            return count

        assert committed_after(2 * 126) == 0, "201600 bytes at the boundary of 252 frames"
        assert committed_after(126) == 378, "302400 bytes"
        clock.now += 1.0
        assert committed_after(125) == 378, "no boundary"
        assert committed_after(1) == 504, "a second"


def test_an_automatic_commit_that_took_long_is_followed_by_none_for_long(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda descriptor: setattr(clock, "now", clock.now + 0.1))
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64}, rows=10**4)})
    pace = Pace(nbytes=1, seconds=1.0, times=40.0)
    with TrajectoryWriter.create(root, declaration, flush_bytes=1, pace=pace) as writer:
        began = clock.now
        writer.append_frame(Frame({"atoms": Block({"x": np.ones(10**4)})}))
        took = clock.now - began
        assert took > 0.3
        assert ts.attributes(root)["nstep"] == 1
        clock.now += 39 * took
        writer.append_frame(Frame({"atoms": Block({"x": np.ones(10**4) * 2})}))
        assert ts.attributes(root)["nstep"] == 1
        clock.now += 1.5 * took
        writer.append_frame(Frame({"atoms": Block({"x": np.ones(10**4) * 3})}))
        assert ts.attributes(root)["nstep"] == 3


def test_a_commit_syncs_data_then_metadata_then_folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    section = str(root / "trajectory")
    _watched(monkeypatch, done)
    writer = TrajectoryWriter.create(root, DECLARATION, flush_bytes=10**9)
    for frame in FRAMES[:30]:
        writer.append_frame(frame)
    writer.flush()
    names = [step.replace(section, "") for step in done]
    for path in (root / "trajectory").rglob("*"):
        name = str(path).removeprefix(section)
        if path.name == "zarr.json":
            temporary = f"{name.removesuffix('zarr.json')}.zarr.json.{os.getpid()}.tmp"
            steps = [f"sync {temporary}", f"rename {name}", f"sync {name.removesuffix('/zarr.json')}"]
        elif path.is_file():
            steps = [f"write {name}", f"sync {name}", f"rename {name.split('/c/')[0]}/zarr.json"]
        else:
            steps = [f"sync {name}"]
        # the last of each: a folder that is new is synced before as well
        places = [len(names) - 1 - names[::-1].index(step) for step in steps]
        assert places == sorted(places), f"{name}: {[names[place] for place in places]}"
    assert f"sync {root}" in done, "the folder that names the section"
    assert names[-2:] == ["rename /zarr.json", "sync "], "the commit itself comes last"
    done.clear()
    writer.flush()
    assert done == [], "nothing is new"
    writer.append_frame(FRAMES[30])
    writer.close()
    assert f"sync {section}/atoms/x/c/0" in done


def test_a_committed_entry_of_an_index_is_replaced_by_bytes_on_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk that a commit counts, unfinished, is written anew: its old place stands until the new one is synced."""
    done: list[str] = []
    with TrajectoryWriter.create(root, DECLARATION) as writer:
        for number, frame in enumerate(FRAMES[:3]):
            writer.append_frame(frame)
            done.clear()
            with pytest.MonkeyPatch.context() as patched:
                _watched(patched, done)
                writer.flush()
            own = [step.split()[0] for step in done if step.endswith("trajectory/atoms/x/c/0")]
            expected = ["write", "sync", "write", "sync"] if number else ["rename", "write", "write", "sync"]
            assert own == expected


def _watched(monkeypatch: pytest.MonkeyPatch, done: list[str]) -> None:
    """Note every write, rename and sync."""
    pwritev, replace = os.pwritev, os.replace
    lock = threading.Lock()

    def name(descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}")

    def note(step: str) -> None:
        with lock:
            done.append(step)

    monkeypatch.setattr(os, "fsync", lambda fd: note(f"sync {name(fd)}"))
    monkeypatch.setattr(os, "pwritev", lambda fd, *rest: (note(f"write {name(fd)}"), pwritev(fd, *rest))[1])
    monkeypatch.setattr(os, "replace", lambda old, new: (note(f"rename {new}"), replace(old, new))[1])


# One writer.


def test_a_second_writer_is_refused_while_one_is_open(root: Path) -> None:
    with TrajectoryWriter.create(root, DECLARATION) as writer:
        writer.append_frame(FRAMES[0])
        with pytest.raises(UsageError, match="being written by this process already"):
            TrajectoryWriter.open(root)
        code = (
            "import sys\n"
            "from molrec_convert.errors import UsageError\n"
            "from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter\n"
            "try: TrajectoryWriter.open(sys.argv[1])\n"
            "except UsageError: sys.exit(7)\n"
        )
        assert subprocess.run([sys.executable, "-c", code, str(root)]).returncode == 7
    append(root, FRAMES[1:3])
    same(root, FRAMES[:3])
    assert [p.name for p in root.iterdir()] == ["trajectory"], "no lock file is left"


def test_a_writer_that_is_dropped_lets_go(root: Path) -> None:
    import gc

    writer = TrajectoryWriter.create(root, DECLARATION)
    del writer
    gc.collect()
    append(root, FRAMES[:2])


def test_an_exception_commits_nothing_further(root: Path) -> None:
    def fails() -> None:
        with TrajectoryWriter.open(root) as writer:
            writer.append_frame(FRAMES[2])
            writer.flush()
            writer.append_frame(FRAMES[3])
            raise RuntimeError("the source breaks off")

    ts.write(root, FRAMES[:2], DECLARATION)
    with pytest.raises(RuntimeError, match="breaks off"):
        fails()
    same(root, FRAMES[:3])
    append(root, FRAMES[3:20])
    same(root, FRAMES[:20])


# Crashes.


class Crash(BaseException):
    """The process ends here."""


def _steps(monkeypatch: pytest.MonkeyPatch, stop_at: int) -> list[str]:
    """Let every step that changes a file count, and end the process before step number `stop_at`."""
    done: list[str] = []

    def wrap(module: Any, name: str, describe: Callable[..., str]) -> None:
        original = getattr(module, name)

        def step(*args: Any, **keywords: Any) -> Any:
            if len(done) >= stop_at:
                raise Crash
            done.append(describe(*args))
            return original(*args, **keywords)

        monkeypatch.setattr(module, name, step)

    wrap(os, "pwritev", lambda fd, *_: f"write {os.readlink(f'/proc/self/fd/{fd}')}")
    wrap(os, "replace", lambda _, target: f"replace {target}")
    wrap(os, "mkdir", lambda path, *_: f"mkdir {path}")
    wrap(os, "rename", lambda _, target: f"rename {target}")
    wrap(os, "unlink", lambda path, *_: f"unlink {path}")
    return done


def crash_everywhere(
    base: Path,
    before: int,
    frames: list[Frame],
    act: Callable[[Path], None],
) -> Iterator[list[str]]:
    """Run `act` on a store of `before` frames, once for each step it takes, ended before that step."""
    pristine = ts.write(base / "pristine", frames[:before], DECLARATION)
    stop = 0
    while True:
        root = base / f"crash{stop}"
        shutil.copytree(pristine, root)
        with pytest.MonkeyPatch.context() as monkeypatch:
            done = _steps(monkeypatch, stop)
            try:
                act(root)
                finished = True
            except Crash:
                finished = False
        if finished and len(done) <= stop:
            yield done
            return
        count = ts.opened(root).n_frames
        assert before <= count <= len(frames)
        expected = ts.resolved(frames, DECLARATION)
        near = range(max(0, before - 4), len(frames))
        for present in (count, len(frames)):
            trajectory = ts.opened(root)
            assert trajectory.n_frames == present
            some = sorted({*near, *range(0, present, 50)} & set(range(present)))
            ts.same_frames([trajectory.frame(i) for i in some], [expected[i] for i in some])
            trajectory.check()
            append(root, frames[present:])
        shutil.rmtree(root)
        stop += 1


@pytest.mark.parametrize(
    ("before", "last"),
    [
        pytest.param(0, 3, id="first frames"),
        pytest.param(3, 6, id="more of the same"),
        pytest.param(118, 123, id="a block stops", marks=pytest.mark.slow),
        pytest.param(178, 183, id="it goes on", marks=pytest.mark.slow),
        pytest.param(198, 202, id="steps break"),
        pytest.param(298, 302, id="rows grow", marks=pytest.mark.slow),
        pytest.param(100, 130, id="many", marks=pytest.mark.slow),
    ],
)
def test_crash_between_every_pair_of_steps_of_a_commit(tmp_path: Path, before: int, last: int) -> None:
    def act(root: Path) -> None:
        writer = TrajectoryWriter.open(root)
        for frame in FRAMES[before:last]:
            writer.append_frame(frame)
        writer.flush()
        writer.abandon()

    (steps,) = crash_everywhere(tmp_path, before, FRAMES[:last], act)
    assert steps[-1].endswith("trajectory/zarr.json"), "the commit is the last step"
    assert sum(step.endswith("trajectory/zarr.json") for step in steps) == 1
    names = [step.split("trajectory/")[-1] for step in steps]
    for step in names:
        if step.endswith("/zarr.json") and "/" in step:
            array = step.removesuffix("/zarr.json")
            chunks = [i for i, other in enumerate(names) if other.startswith(f"{array}/c/")]
            assert not chunks or max(chunks) < names.index(step), "chunk bytes before the shape"


def test_the_order_of_an_elision_break_is_safe_for_a_block_that_had_stopped(tmp_path: Path) -> None:
    """While its markers hold, more rows would be more updates: the index has to be there before them."""
    frames = frames_of({"grown": Block({"q": np.zeros(5)})}, {}, {}, {"grown": Block({"q": np.ones(5)})})
    frames = [Frame(f.blocks, Meta({"pe": 0.0}), step=i) for i, f in enumerate(frames)]

    def act(root: Path) -> None:
        writer = TrajectoryWriter.open(root)
        writer.append_frame(frames[3])
        writer.flush()
        writer.abandon()

    list(crash_everywhere(tmp_path, 3, frames, act))


_replace = os.replace


def _but_the_commit(old: str, new: str) -> None:
    if str(new).endswith("trajectory/zarr.json"):
        raise Crash
    _replace(old, new)


@pytest.mark.slow
def test_crash_while_an_interrupted_store_is_reopened(tmp_path: Path) -> None:
    """Reopening shrinks and repairs; it may be interrupted too."""

    def leave_tails(root: Path) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            writer = TrajectoryWriter.open(root)
            for frame in FRAMES[110:305]:
                writer.append_frame(frame)
            monkeypatch.setattr(os, "replace", _but_the_commit)
            with pytest.raises(Crash):
                writer.flush()
            writer.abandon()

    pristine = ts.write(tmp_path / "pristine", FRAMES[:110], DECLARATION)
    leave_tails(pristine)
    same(pristine, FRAMES[:110])
    stop = 0
    while True:
        root = tmp_path / f"crash{stop}"
        shutil.copytree(pristine, root)
        with pytest.MonkeyPatch.context() as monkeypatch:
            done = _steps(monkeypatch, stop)
            with contextlib.suppress(Crash):
                TrajectoryWriter.open(root).abandon()
        same(root, FRAMES[:110])
        append(root, FRAMES[110:130])
        same(root, FRAMES[:130])
        if len(done) < stop:
            break
        stop += 1
    assert stop > 10


def test_a_write_error_leaves_the_last_commit_and_a_writer_that_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ts.write(root, FRAMES[:50], DECLARATION)
    writer = TrajectoryWriter.open(root)
    for frame in FRAMES[50:130]:
        writer.append_frame(frame)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shards.os, "pwritev", full)
        with pytest.raises(OSError, match="No space"):
            writer.flush()
    with pytest.raises(UsageError, match="earlier write failed"):
        writer.append_frame(FRAMES[130])
    writer.close()
    same(root, FRAMES[:50])
    append(root, FRAMES[50:])
    same(root, FRAMES)


@pytest.mark.slow
def test_a_process_killed_while_it_appends(root: Path) -> None:
    """After any number of commits, at least fifty times: a committed frame is there, and the run completes."""
    chance = random.Random(20)
    total = 40_000
    kills = torn = 0
    ts.write(root, [], DECLARATION)
    committed = 0
    command = [sys.executable, str(Path(__file__).with_name("append_child.py")), str(root), str(total)]
    while kills < 55:
        child = subprocess.Popen([*command, str(kills)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline().split() == ["open", str(committed)]
        told = [int(child.stdout.readline()) for _ in range(chance.randrange(8))]
        time.sleep(chance.uniform(0.0, 0.02))  # not only right after a commit
        child.send_signal(signal.SIGKILL)
        told += [int(line) for line in child.stdout.read().split() if line.isdigit()]
        child.wait()
        kills += 1
        trajectory = ts.opened(root)
        count = trajectory.n_frames
        assert count >= max([committed, *told]), "a durable commit is there"
        assert count < total, "the child was killed on the way"
        for i in {0, committed, count // 2, count - 1} & set(range(count)):
            ts.same_frames([trajectory.frame(i)], [carried(i)])
        torn += len(trajectory.warnings)
        committed = count
    assert committed > 10 * kills, "the children came to append between the kills"
    append(root, [append_child.frame(i) for i in range(committed, committed + 40)])
    trajectory = ts.opened(root)
    for i in sorted({*chance.sample(range(committed), min(committed, 150)), *range(committed, committed + 40)}):
        ts.same_frames([trajectory.frame(i)], [carried(i)])
    trajectory.check()
    assert trajectory.steps.tolist() == [append_child.frame(i).step for i in range(committed + 40)]


def carried(i: int) -> Frame:
    """What frame `i` resolves to, from the frames before it that its blocks were last presented in."""
    blocks: dict[str, Block] = {}
    box = None
    for j in range(i, -1, -1):
        if {"atoms", "kinds", "bonds", "grown"} <= set(blocks) and box is not None:
            break
        if j < i and not (j in (0, 300) or j % 97 == 0 or j % 50 == 7 or j % 30 == 0 or j < 120):
            continue
        frame = append_child.frame(j)
        for name, block in frame.blocks.items():
            blocks.setdefault(name, block)
        box = box if box is not None else frame.box
    here = append_child.frame(i)
    (frame,) = ts.resolved([Frame(blocks, here.meta, box, here.step, here.time)], DECLARATION)
    return frame


# Settling.

SETTLING = Declaration(
    {
        "atoms": BlockDeclaration({"x": F64}, rows=3),
        "kinds": BlockDeclaration({"type": ColumnDeclaration("string")}, aligned_with="atoms", rows=3, settles="atoms"),
        "loads": BlockDeclaration(
            {"charge": ColumnDeclaration("f64", nullable=True, precision=1e-3)}, aligned_with="atoms", settles="atoms"
        ),
        "moved": BlockDeclaration({"q": F64}, aligned_with="atoms", settles="atoms"),
        "late": BlockDeclaration({"m": F64}, settles="atoms"),
    },
    {"pe": MetaDeclaration("f64", 0.0)},
)


def settling_frames() -> list[Frame]:
    kinds = Block({"type": np.array(["A", "B", "C"])})
    loads = Block({"charge": Column(np.array([0.1, 0.2, 0.3]), np.array([True, False, True]))})
    frames = []
    for i in range(6):
        blocks = {
            "atoms": atoms(i, i, i),
            "kinds": kinds,
            "loads": loads,
            "moved": Block({"q": np.full(3, float(i // 3))}),
        }
        if i == 2:
            blocks["late"] = Block({"m": np.ones(3)})
        frames.append(Frame(blocks, Meta({"pe": 0.5}), Box(np.eye(3))))
    return frames


def settled_frames() -> list[Frame]:
    return [
        Frame({k: b for k, b in f.blocks.items() if k not in ("kinds", "loads")}, f.meta, f.box)
        for f in settling_frames()
    ]


def check_settled(root: Path) -> None:
    trajectory = ts.opened(root)
    assert list(trajectory.declaration.blocks) == ["atoms", "moved", "late"]
    ts.same_frames(trajectory, ts.resolved(settled_frames(), trajectory.declaration))
    assert sorted(p.name for p in (root / "trajectory").iterdir()) == [
        "atoms",
        "box",
        "late",
        "meta",
        "moved",
        "zarr.json",
    ]


def test_blocks_whose_only_update_is_frame_0_settle(root: Path) -> None:
    with TrajectoryWriter.create(root, SETTLING) as writer:
        for frame in settling_frames():
            writer.append_frame(frame)
        found = writer.settle()
        assert list(found) == ["atoms"]
        assert found["atoms"]["type"] == Column(np.array(["A", "B", "C"]))
        charge = found["atoms"]["charge"]
        assert charge.precision == 1e-3
        assert charge.validity is not None
        assert charge.validity.tolist() == [True, False, True]
        assert charge.values.tolist() == [0.099609375, 0.2, 0.2998046875]
        assert list(writer.declaration.blocks) == ["atoms", "moved", "late"]
        assert writer.settle() == {}
    check_settled(root)
    append(root, [Frame({"atoms": atoms(9, 9, 9)}, step=99)])
    assert ts.opened(root).n_frames == 7


def test_what_is_not_the_system_blocks_rows_does_not_settle(root: Path) -> None:
    with TrajectoryWriter.create(root, SETTLING, system={"atoms": 3}) as writer:
        for frame in settling_frames():
            writer.append_frame(frame)
        assert list(writer.settle()["atoms"]) == ["type", "charge"]
    free = Declaration({"extra": BlockDeclaration({"m": F64}, settles="atoms")})
    with TrajectoryWriter.create(root.with_name("other"), free, system={"atoms": 3}) as writer:
        writer.append_frame(Frame({"extra": Block({"m": np.ones(2)})}))
        assert writer.settle() == {}
        assert list(writer.declaration.blocks) == ["extra"]


def test_what_others_need_does_not_settle(root: Path) -> None:
    declaration = Declaration(
        {
            "atoms": BlockDeclaration({"id": ColumnDeclaration("u64")}, settles="atoms"),
            "kinds": BlockDeclaration({"q": F64}, aligned_with="atoms"),
            "sites": BlockDeclaration({"m": F64}, settles="sites"),
            "members": BlockDeclaration({"ibead": ColumnDeclaration("u64")}, targets={"ibead": "sites"}),
        }
    )
    with TrajectoryWriter.create(root, declaration) as writer:
        writer.append_frame(
            Frame({"atoms": Block({"id": np.arange(3, dtype=np.uint64)}), "sites": Block({"m": np.ones(1)})})
        )
        assert writer.settle() == {}


def test_settling_may_be_interrupted_at_any_step(tmp_path: Path) -> None:
    """The columns are in the system, or the blocks are in the trajectory; settling again completes it."""
    pristine = tmp_path / "pristine"
    ts.write(pristine, settling_frames(), SETTLING)
    stop = 0
    while True:
        root = tmp_path / f"crash{stop}"
        shutil.copytree(pristine, root)
        system: dict[str, Any] = {}
        with pytest.MonkeyPatch.context() as monkeypatch:
            writer = settling_writer(root)
            _steps(monkeypatch, stop)
            try:
                writer.settle(system.update)
                finished = True
            except Crash:
                finished = False
            writer.abandon()
        left = ts.opened(root)
        assert system or {"kinds", "loads"} <= set(left.declaration.blocks)
        ts.same_frames(without_settled(left), ts.resolved(settled_frames(), rest(left.declaration)))
        with settling_writer(root) as writer:
            again = writer.settle()
        assert {*again.get("atoms", {}), *system.get("atoms", {})} == {"type", "charge"}
        check_settled(root)
        if finished:
            break
        stop += 1
    assert stop > 3


def settling_writer(root: Path) -> TrajectoryWriter:
    """A reopened writer that knows again what settles, as a resumed conversion does."""
    settling = {name: block.settles for name, block in SETTLING.blocks.items() if block.settles}
    return TrajectoryWriter.open(root, settling=settling)


def rest(declaration: Declaration) -> Declaration:
    from dataclasses import replace

    blocks = {k: b for k, b in declaration.blocks.items() if k not in ("kinds", "loads")}
    return replace(declaration, blocks=blocks)


def without_settled(frames: Any) -> list[Frame]:
    return [
        Frame({k: b for k, b in f.blocks.items() if k not in ("kinds", "loads")}, f.meta, f.box, f.step, f.time)
        for f in frames
    ]
