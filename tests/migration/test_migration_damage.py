"""State of a migration with damage in it, and ends between any two steps: it goes on to the same end, or says why."""

from __future__ import annotations

import gc
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from migration_inputs import extxyz, make_files, run, same_collection

from molrec_convert.errors import FormatError, UsageError
from molrec_convert.migration.outputs.output import Output
from molrec_convert.migration.state import State, read_lines, write_lines


class Stop(BaseException):
    """The process ends here, as far as the files are concerned."""


# ---- every prefix of the last steps


#: What is told of each change of a directory, before it is made.
_STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir")
_left: list[float] = [float("inf")]


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _STEPS or _left[0] == float("inf"):
        return
    path = os.fspath(arguments[0])
    # a tree is removed by names relative to its folders; a lock is gone with its process
    if (not os.path.isabs(path) or f"{os.sep}out{os.sep}" in path) and not path.endswith(".lock"):
        _left[0] -= 1
        if _left[0] < 0:
            _left[0] = float("inf")
            raise Stop


sys.addaudithook(_watch)


@contextmanager
def ended_at(step: int) -> Iterator[None]:
    """End what is done within before so many changes of directories were made."""
    _left[0] = step
    try:
        yield
    finally:
        _left[0] = float("inf")


@pytest.mark.parametrize(
    ("shards", "adding"),
    [(None, False), *(pytest.param(*how, marks=pytest.mark.slow) for how in ((None, True), (2, False), (2, True)))],
)
def test_ended_before_any_change_of_names(tmp_path: Path, shards: int | None, adding: bool) -> None:
    """From the first directory to the last file that is removed; run again all is there, and nothing hidden."""
    source, target = tmp_path / "in", tmp_path / "out" / "a.mrec.lmdb"
    make_files(source, 3)
    broken = source / "g.extxyz"
    broken.write_text("3\nbroken\n")
    (tmp_path / "out").mkdir()
    if adding:
        run([source], target, shard_records=shards)
        make_files(source, 4)
    shutil.copytree(tmp_path / "out", tmp_path / "before")
    make_files(source, 5)
    run([source], tmp_path / "whole.mrec.lmdb", shard_records=shards)
    ended = 0
    for step in range(200):
        shutil.rmtree(tmp_path / "out")
        shutil.copytree(tmp_path / "before", tmp_path / "out")
        with suppress(Stop), ended_at(step):
            run([source], target, shard_records=shards)
            break
        # outside of all that: what a process had open is closed when it ends
        gc.collect()
        ended += 1
        outcome = run([source], target, shard_records=shards)
        assert (outcome.records, outcome.failures) == (5, 1), step
        names = ["a.failures.jsonl", "a.migration.jsonl", "a.mrec.lmdb"]
        assert sorted(os.listdir(tmp_path / "out")) == names, step
        assert shards or same_collection(tmp_path / "whole.mrec.lmdb", target), step
        assert len(State(target).migrated()) == 5
        assert [entry["path"] for entry in read_lines(State(target).failures, "")] == [str(broken)]
    assert ended > 12


# ---- damage


def _flip(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _cut(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def _zero(data: bytearray, draw: random.Random) -> None:
    size = draw.choice((16, 512, 4096))
    start = draw.randrange(len(data)) // size * size
    data[start : start + size] = bytes(len(data[start : start + size]))


def _lines(change: Callable[[list[bytes], random.Random], None]) -> Callable[[bytearray, random.Random], None]:
    def changed(data: bytearray, draw: random.Random) -> None:
        lines = bytes(data).splitlines(keepends=True)
        change(lines, draw)
        data[:] = b"".join(lines)

    return changed


def _swap(lines: list[bytes], draw: random.Random) -> None:
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


_DAMAGE: dict[str, Callable[[bytearray, random.Random], None]] = {
    "flip": _flip,
    "cut": _cut,
    "zero": _zero,
    "swap": _lines(_swap),
    "double": _lines(lambda lines, draw: lines.insert(draw.randrange(len(lines)), draw.choice(lines))),
    "drop": _lines(lambda lines, draw: lines.remove(draw.choice(lines))),
}


def _damaged(path: Path, draw: random.Random) -> str:
    """Damage a file in some way, and say how."""
    before = bytearray(path.read_bytes())
    ways = list(_DAMAGE) if path.name.endswith(("json", "jsonl", "finished")) else ["flip", "cut", "zero"]
    while True:
        data, way = bytearray(before), draw.choice(ways)
        _DAMAGE[way](data, draw)
        if data != before:
            path.write_bytes(data)
            return f"{path.name}: {way}"


def _interrupted(folder: Path, *, adding: bool, shards: int | None, at: str) -> tuple[Path, Path]:
    """A migration that ended in its midst, or where everything but the names is ready; its inputs and its target."""
    source, target = folder / "in", folder / "out" / "a.mrec.lmdb"
    target.parent.mkdir(parents=True)
    make_files(source, 4)
    (source / "c00001x.extxyz").write_text(extxyz(11, frames=3, atoms=3))
    if adding:
        (source / "a.extxyz").write_text("2\nbroken\n")
        run([source], target, shard_records=shards)
    make_files(source, 9)
    (source / "c00006x.extxyz").write_text("3\nbroken\n")
    count = 0

    def stop(self: Output, *arguments: Any) -> None:
        nonlocal count
        count += 1
        if count > 9:
            raise Stop
        take(self, *arguments)

    def leave(self: State) -> None:
        raise Stop

    take = Output.take
    with pytest.MonkeyPatch.context() as patched:
        if at == "midst":
            patched.setattr(Output, "take", stop)
            # so that records come one by one, and are committed so
            patched.setattr("molrec_convert.migration.encode._MESSAGE_BYTES", 1)
        else:
            patched.setattr(State, "leave", leave)
        with pytest.raises(Stop):
            run([source], target, shard_records=shards, commit_seconds=0.0)
    return source, target


def _tried(folder: Path, tries: int, seed: int, *, adding: bool, shards: int | None, at: str) -> int:
    """Damage a file of an interrupted migration, and go on, so many times; returns how often that was refused."""
    draw = random.Random(seed)
    source, target = _interrupted(folder, adding=adding, shards=shards, at=at)
    whole = folder / "whole.mrec.lmdb"
    run([source], whole)
    shutil.copytree(target.parent, folder / "before", symlinks=True)
    # files of the state have the same number as in the copy: only then it is the one that has its name already
    files = sorted(path for path in target.parent.rglob("*") if path.is_file() and path != target)
    files = [path for path in files if path.parent != target]
    refused = 0
    for nth in range(tries):
        for path in files:
            if path.exists():
                path.unlink()
        shutil.copytree(folder / "before", target.parent, dirs_exist_ok=True)
        _same_number(target)
        what = _damaged(files[nth % len(files)], draw)
        said = ""
        try:
            outcome = run([source], target, shard_records=shards)
        except (FormatError, UsageError) as error:
            said = str(error)
        if said:
            refused += 1
            assert "--overwrite" in said or "remove it" in said, (what, said)
            outcome = run([source], target, shard_records=shards, overwrite=True)
        assert outcome.failures in (1, 2), (what, said)
        _check_same(whole, target, shards)
    return refused


def _same_number(target: Path) -> None:
    """The mark of a finished collection names the file by its number."""
    state = State(target)
    mark = state.folder / "finished"
    if mark.exists():
        (entry,) = read_lines(mark, "")
        write_lines(mark, [{**entry, "number": target.stat().st_ino}])


def _check_same(whole: Path, target: Path, shards: int | None) -> None:
    from molrec_convert.inspect.diff import differences
    from molrec_convert.stores.lmdb.sharded import open_collection

    with open_collection(whole) as expected, open_collection(target) as found:
        assert len(expected) == len(found)
        by_source = {_key(found, number): number for number in range(len(found))}
        for number in range(len(expected)):
            there = found[by_source[_key(expected, number)]]
            assert not list(differences(expected[number], there, declared=False))


def _key(collection: Any, number: int) -> tuple[Any, ...]:
    index = collection.index
    return index["source"][number], int(index["source_record"][number])


def test_a_changed_byte_of_the_state_is_found(tmp_path: Path) -> None:
    _tried(tmp_path / "one", 14, 1, adding=True, shards=None, at="midst")
    _tried(tmp_path / "two", 8, 2, adding=False, shards=None, at="names")


@pytest.mark.slow
@pytest.mark.parametrize("adding", [False, True])
@pytest.mark.parametrize("shards", [None, 3])
@pytest.mark.parametrize("at", ["midst", "names"])
def test_changed_bytes_anywhere_are_found(tmp_path: Path, adding: bool, shards: int | None, at: str) -> None:
    _tried(tmp_path / "x", 60, 5, adding=adding, shards=shards, at=at)
