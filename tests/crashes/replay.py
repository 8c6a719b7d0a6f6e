"""The states a disk may be in when the power went while a process wrote.

A model, made of the log that `shim.c` writes. What a sync was asked for is there. Names change in the order of the
journal, which may end anywhere behind what was synced: the sync of a file reaches as far as the last change of its own
name or length, that of a folder as far as the last change in it, and where renaming guards (`guard`), any sync reaches
as far as the process was. Of bytes that were not synced any pages are there, each as it was at some time. With `guard`
a file that takes another's name has the bytes it had then, as ext4 sees to it; without it may have none, as on XFS.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_ENTRY = struct.Struct("<IIqqqII")
_MAGIC = 0x4D524543
_PAGE = 4096

#: What is logged.
WRITE, WRITE_DURABLE, TRUNCATE, CREATE, RENAME, SWAP, UNLINK, MKDIR, RMDIR, SYNC, LINK, MARK = range(1, 13)
_NAMES = (CREATE, RENAME, SWAP, UNLINK, MKDIR, RMDIR, LINK)

#: A state: path → bytes of a file, None for a folder.
State = dict[str, bytes | None]


@dataclass(frozen=True)
class Operation:
    """One line of the log; paths are relative to the folder that was watched."""

    op: int
    inode: int
    offset: int
    path: str
    other: str
    data: bytes


def read_log(path: Path, folder: Path) -> list[Operation]:
    """Read a log of what was done below `folder`."""
    raw, at, found = path.read_bytes(), 0, []

    def relative(name: bytes) -> str:
        return os.path.relpath(name.decode(), folder)

    while at < len(raw):
        magic, op, inode, offset, length, first, second = _ENTRY.unpack_from(raw, at)
        assert magic == _MAGIC, "the log is damaged"
        at += _ENTRY.size
        names = raw[at : at + first], raw[at + first : at + first + second]
        at += first + second
        data = raw[at : at + length]
        at += length
        path_, other = (names[0].decode(), "") if op == MARK else (relative(names[0]), relative(names[1] or names[0]))
        found.append(Operation(op, inode, offset, path_, other, data))
    return found


@dataclass
class _File:
    """A file: what the disk has of it at first, then the numbers of operations on it; up to `sure` all are done."""

    content: bytes = b""
    changes: list[int] = field(default_factory=list)
    sure: int = -1


_Folder = dict[str, "_File | _Folder"]


class Disk:
    """A folder as it was, with its inodes, and what was done to it."""

    def __init__(self, before: State, inodes: dict[str, int], operations: list[Operation]) -> None:
        self.before, self.inodes, self.operations = before, inodes, operations

    def state(self, end: int, draw: random.Random, *, guard: bool) -> State:
        """Draw a state after the first `end` operations."""
        files, journal, guards, forced = self._run(end, guard)
        reached = draw.choice([forced, end, draw.randint(forced, end)])
        guarded: dict[int, int] = {}
        if guard:
            guarded = {id(file): at for at, file in guards if at < reached}
        how = draw.choice(["none", "all", "mixed", "mixed"])
        contents: dict[int, bytes] = {}
        for file in files:
            each = draw.choice(["none", "all", "pages", "until"]) if how == "mixed" else how
            sure = max(file.sure, guarded.get(id(file), -1))
            contents[id(file)] = self._content(file, sure, reached, each, draw)
        return _listed(self._tree(files, [at for at in journal if at < reached]), contents)

    def whole(self) -> State:
        """The state with everything done."""
        end = len(self.operations)
        files, journal, _, _ = self._run(end, True)
        contents = {id(file): self._content(file, -1, end, "all", random.Random(0)) for file in files}
        return _listed(self._tree(files, journal), contents)

    def _run(self, end: int, guard: bool) -> tuple[list[_File], list[int], list[tuple[int, _File]], int]:
        """All files there are, the operations on names, renames that took a name, and how far the journal is sure."""
        files: list[_File] = []
        tree = self._start(files)
        by_inode = {inode: _at(tree, path) for path, inode in self.inodes.items()}
        journal: list[int] = []
        guards: list[tuple[int, _File]] = []
        touched: dict[int, int] = {}  # a file or folder → how far the journal has to reach for its sync
        alive: list[object] = []  # so that no number of an object is given twice
        forced = 0
        for at, operation in enumerate(self.operations[:end]):
            op, file = operation.op, by_inode.get(operation.inode)
            if op in (WRITE, WRITE_DURABLE, TRUNCATE):
                if isinstance(file, _File):
                    file.changes.append(at)
                    if op == TRUNCATE:
                        touched[id(file)] = at + 1
            elif op == SYNC:
                node = file if isinstance(file, _File) else _at(tree, operation.path)
                if isinstance(file, _File):
                    file.sure = at
                forced = at if guard else max(forced, touched.get(id(node), 0))
            elif op in _NAMES:
                journal.append(at)
                moved = _moved(tree, operation)
                taken = isinstance(_at(tree, operation.other), _File)
                if op == CREATE:
                    moved = by_inode[operation.inode] = _File()
                    files.append(moved)
                if op == RENAME and taken and isinstance(moved, _File):
                    guards.append((at, moved))
                _apply(tree, operation, moved)
                for node in (moved, _parent(tree, operation.path), _parent(tree, operation.other)):
                    touched[id(node)] = at + 1
                    alive.append(node)
        return files, journal, guards, forced

    def _start(self, files: list[_File]) -> _Folder:
        tree: _Folder = {}
        for path, content in self.before.items():
            folder = _at(tree, os.path.dirname(path))
            assert isinstance(folder, dict)
            if content is None:
                folder[os.path.basename(path)] = {}
            else:
                file = _File(content)
                files.append(file)
                folder[os.path.basename(path)] = file
        return tree

    def _tree(self, files: list[_File], journal: list[int]) -> _Folder:
        """The names after some operations of the journal; the files are those of an earlier run."""
        made = iter(files)
        tree: _Folder = {}
        for path, content in self.before.items():
            folder = _at(tree, os.path.dirname(path))
            assert isinstance(folder, dict)
            folder[os.path.basename(path)] = {} if content is None else next(made)
        for at in journal:
            operation = self.operations[at]
            moved = next(made) if operation.op == CREATE else _moved(tree, operation)
            _apply(tree, operation, moved)
        return tree

    def _content(self, file: _File, sure: int, reached: int, how: str, draw: random.Random) -> bytes:
        """The bytes of a file: what was done up to `sure`, and of the rest what `how` says."""
        buffer = bytearray(file.content)
        rest = []
        for at in file.changes:
            if at <= sure:
                self._change(buffer, at)
            elif self.operations[at].op != TRUNCATE or at < reached:
                rest.append(at)
        pages: dict[int, int] = {}
        least: dict[int, int] = {}
        for at in rest:
            for page, _, _ in self._pieces(at):
                pages[page] = pages.get(page, 0) + 1
                if self.operations[at].op == WRITE_DURABLE:
                    least[page] = pages[page]
        until = draw.randint(0, len(rest))
        upto = {page: _upto(how, least.get(page, 0), n, draw) for page, n in pages.items()}
        seen: dict[int, int] = {}
        for number, at in enumerate(rest):
            if self.operations[at].op == TRUNCATE:
                self._change(buffer, at)
            for page, offset, data in self._pieces(at):
                seen[page] = seen.get(page, 0) + 1
                if seen[page] <= upto[page] or (how == "until" and number < until):
                    _put(buffer, offset, data)
        return bytes(buffer)

    def _pieces(self, at: int) -> Iterator[tuple[int, int, bytes]]:
        """The pages a write falls on: page, offset in the file, bytes."""
        operation = self.operations[at]
        if operation.op == TRUNCATE:
            return
        begin, stop = operation.offset, operation.offset + len(operation.data)
        while begin < stop:
            end = min(stop, (begin // _PAGE + 1) * _PAGE)
            yield begin // _PAGE, begin, operation.data[begin - operation.offset : end - operation.offset]
            begin = end

    def _change(self, buffer: bytearray, at: int) -> None:
        operation = self.operations[at]
        if operation.op == TRUNCATE:
            del buffer[operation.offset :]
            buffer.extend(bytes(operation.offset - len(buffer)))
        else:
            _put(buffer, operation.offset, operation.data)


def _upto(how: str, least: int, most: int, draw: random.Random) -> int:
    """How many of the writes that fall on a page are on the disk."""
    if how == "pages":
        return draw.choice([least, most, draw.randint(least, most)])
    return most if how == "all" else least


def _put(buffer: bytearray, offset: int, data: bytes) -> None:
    buffer.extend(bytes(max(0, offset - len(buffer))))
    buffer[offset : offset + len(data)] = data


def _at(tree: _Folder, path: str) -> _File | _Folder | None:
    """What is at a path, None for nothing."""
    here: _File | _Folder | None = tree
    for name in path.split("/") if path not in ("", ".") else ():
        if not isinstance(here, dict):
            return None
        here = here.get(name)
    return here


def _parent(tree: _Folder, path: str) -> _Folder:
    folder = _at(tree, os.path.dirname(path))
    assert isinstance(folder, dict), path
    return folder


def _moved(tree: _Folder, operation: Operation) -> _File | _Folder:
    """What an operation on names is about."""
    if operation.op == MKDIR:
        return {}
    found = _at(tree, operation.path)
    return {} if found is None else found


def _apply(tree: _Folder, operation: Operation, moved: _File | _Folder) -> None:
    """Do one operation on names."""
    op, name, other = operation.op, os.path.basename(operation.path), os.path.basename(operation.other)
    folder = _parent(tree, operation.path)
    if op in (CREATE, MKDIR):
        folder[name] = moved
    elif op in (UNLINK, RMDIR):
        folder.pop(name, None)
    else:
        target = _parent(tree, operation.other)
        if op == RENAME:
            folder.pop(name, None)
        elif op == SWAP:
            folder[name] = target[other]
        target[other] = moved


def _listed(tree: _Folder, contents: dict[int, bytes], base: str = "") -> State:
    found: State = {}
    for name, node in tree.items():
        path = f"{base}{name}"
        if isinstance(node, dict):
            found[path] = None
            found.update(_listed(node, contents, f"{path}/"))
        else:
            found[path] = contents[id(node)]
    return found


def stored(folder: Path) -> State:
    """Read a folder as a state; folders come before what is in them."""
    found: State = {}
    for base, folders, names in os.walk(folder):
        relative = os.path.relpath(base, folder)
        prefix = "" if relative == "." else f"{relative}/"
        found.update((f"{prefix}{name}", None) for name in folders)
        found.update((f"{prefix}{name}", (Path(base) / name).read_bytes()) for name in names)
    return found


def inodes(folder: Path) -> dict[str, int]:
    """Return the inodes of the files of a folder, by path."""
    return {path: (folder / path).stat().st_ino for path, content in stored(folder).items() if content is not None}


def make(state: State, folder: Path, before: Path | None = None) -> None:
    """Make a folder hold a state, and nothing else; files as they were `before` have the times they had."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path, content in state.items():
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
            if before is not None and (before / path).is_file() and (before / path).read_bytes() == content:
                shutil.copystat(before / path, folder / path)


def digest(state: State) -> bytes:
    """Return a number of a state: equal states have the same."""
    hashed = hashlib.blake2b(digest_size=16)
    for path in sorted(state):
        content = state[path]
        hashed.update(f"{path}\0{-1 if content is None else len(content)}\0".encode())
        hashed.update(content or b"")
    return hashed.digest()
