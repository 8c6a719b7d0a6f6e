"""The model of a disk whose power goes: what a state may hold, and what it must."""

from __future__ import annotations

import random

from crashes import replay
from crashes.replay import CREATE, MKDIR, RENAME, SWAP, SYNC, TRUNCATE, UNLINK, WRITE, WRITE_DURABLE, Disk, Operation

OLD = b"old"


def op(kind: int, path: str, other: str = "", *, inode: int = 0, offset: int = 0, data: bytes = b"") -> Operation:
    return Operation(kind, inode, offset, path, other or path, data)


def states(disk: Disk, *, guard: bool, end: int | None = None) -> set[tuple[tuple[str, bytes | None], ...]]:
    draw = random.Random(3)
    stop = len(disk.operations) if end is None else end
    return {tuple(sorted(disk.state(stop, draw, guard=guard).items())) for _ in range(300)}


def contents(disk: Disk, name: str, *, guard: bool) -> set[bytes | None]:
    return {dict(state).get(name, b"absent") for state in states(disk, guard=guard)}


def replaced(*, synced: bool, folder: bool) -> Disk:
    """`f` replaced by a temporary file that is renamed, with or without its bytes and the folder synced."""
    steps = [op(CREATE, "t", inode=2), op(WRITE, "t", inode=2, data=b"new")]
    steps += [op(SYNC, "t", inode=2)] if synced else []
    steps += [op(RENAME, "t", "f")]
    steps += [op(SYNC, ".")] if folder else []
    return Disk({"f": OLD}, {"f": 1}, steps)


def test_bytes_that_were_not_synced_may_be_missing_without_the_guard():
    assert contents(replaced(synced=False, folder=False), "f", guard=False) == {OLD, b"new", b""}


def test_the_guard_brings_the_bytes_of_a_file_that_takes_a_name():
    assert contents(replaced(synced=False, folder=False), "f", guard=True) == {OLD, b"new"}


def test_synced_bytes_are_there_and_a_synced_folder_has_its_names():
    assert contents(replaced(synced=True, folder=False), "f", guard=False) == {OLD, b"new"}
    for guard in (True, False):
        assert contents(replaced(synced=True, folder=True), "f", guard=guard) == {b"new"}


def test_the_sync_of_another_file_brings_no_names_without_the_guard():
    steps = [op(CREATE, "a", inode=2), op(CREATE, "b", inode=3), op(SYNC, "a", inode=2)]
    disk = Disk({}, {}, steps)
    assert {tuple(dict(state)) for state in states(disk, guard=False)} == {("a",), ("a", "b")}
    assert {tuple(dict(state)) for state in states(disk, guard=True)} == {("a", "b")}


def test_names_change_in_their_order():
    steps = [op(MKDIR, "d"), op(CREATE, "d/x", inode=2), op(RENAME, "d", "e"), op(UNLINK, "e/x")]
    found = {tuple(dict(state)) for state in states(Disk({}, {}, steps), guard=False)}
    assert found == {(), ("d",), ("d", "d/x"), ("e", "e/x"), ("e",)}


def test_a_folder_that_was_renamed_is_synced_under_its_new_name():
    steps = [op(MKDIR, "d"), op(CREATE, "d/x", inode=2), op(RENAME, "d", "e"), op(SYNC, "e")]
    assert {tuple(dict(state)) for state in states(Disk({}, {}, steps), guard=False)} == {("e", "e/x")}


def test_swapped_names_hold_one_or_the_other():
    disk = Disk({"a": b"1", "b": b"2"}, {"a": 1, "b": 2}, [op(SWAP, "a", "b")])
    assert states(disk, guard=True) == {(("a", b"1"), ("b", b"2")), (("a", b"2"), ("b", b"1"))}


def test_pages_are_there_in_any_choice_each_as_it_was_at_some_time():
    page = replay._PAGE
    steps = [
        op(WRITE, "f", inode=1, data=b"a" * page + b"b" * page),
        op(WRITE, "f", inode=1, offset=page, data=b"c" * page),
    ]
    found = contents(Disk({"f": b""}, {"f": 1}, steps), "f", guard=True)
    zeros, a, b, c = (letter * page for letter in (b"\0", b"a", b"b", b"c"))
    assert found == {b"", a, a + b, a + c, zeros + b, zeros + c}


def test_a_write_that_waits_for_the_disk_is_there():
    steps = [op(WRITE, "f", inode=1, data=b"one"), op(WRITE_DURABLE, "f", inode=1, data=b"two")]
    assert contents(Disk({"f": OLD}, {"f": 1}, steps), "f", guard=False) == {b"two"}


def test_a_length_is_a_name_of_the_journal():
    steps = [op(TRUNCATE, "f", inode=1, offset=1), op(WRITE, "f", inode=1, offset=1, data=b"NEW")]
    found = contents(Disk({"f": OLD}, {"f": 1}, steps), "f", guard=False)
    assert found == {OLD, b"o", b"oNEW"}


def test_all_of_it_is_what_was_written():
    assert replaced(synced=False, folder=False).whole() == {"f": b"new"}


def test_a_state_is_made_and_read_again(tmp_path):
    state = {"d": None, "d/f": b"1", "e": None}
    replay.make(state, tmp_path / "s")
    assert replay.stored(tmp_path / "s") == state
    assert replay.digest(state) != replay.digest(state | {"e": b""})
    assert set(replay.inodes(tmp_path / "s")) == {"d/f"}
