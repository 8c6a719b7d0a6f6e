"""The pages of an LMDB file, read without mapping it: whether it is one, whether it is whole, whether it is sound.

LMDB trusts the pages it maps: a file that is cut short or altered would end the process that reads it. Here every
position is held against the page and the file before it is followed.
Source: LMDB 0.9, mdb.c: pages of a header of 16 bytes, then offsets of the nodes, which fill the page from its end.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from molrec_convert.errors import FormatError
from molrec_convert.files.regular_files import implausible, open_regular, pread_all, stored_bytes
from molrec_convert.stores.lmdb.file.keys import LAYOUT, META

__all__ = ["PageFile", "StoredValue", "is_lmdb", "sniff_collection"]

_HEADER = struct.Struct("<QHHHH")
_META = struct.Struct("<IIQQ")
_TREE = struct.Struct("<IHHQQQQQ")
_LAST = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_BIG = 0x01
_KINDS = 0x7F
_NO_PAGE = 2**64 - 1
#: LMDB walks no deeper.
_DEEPEST = 32


def is_lmdb(head: bytes) -> bool:
    """True if a file that begins with these bytes is an LMDB data file."""
    if len(head) < 24:
        return False
    magic, version = struct.unpack_from("<II", head, 16)
    return bool(magic == _MAGIC and version == _VERSION and _HEADER.unpack_from(head)[2] & _META_PAGE)


class _Marks:
    """Which pages have been reached. Memory follows what is marked, not what a file claims to hold."""

    _CHUNK = 2**16

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}

    def take(self, first: int, pages: int) -> bool:
        """Mark pages; False when one of them is marked already."""
        end = first + pages
        while first < end:
            number, place = divmod(first, self._CHUNK)
            count = min(end - first, self._CHUNK - place)
            chunk = self._chunks.setdefault(number, bytearray(self._CHUNK))
            if chunk.find(1, place, place + count) >= 0:
                return False
            chunk[place : place + count] = b"\1" * count
            first += count
        return True


class StoredValue:
    """Where the value of a key lies."""

    def __init__(self, file: PageFile, page: bytes, position: int, number: int) -> None:
        self._file, self._page, self._position, self._number = file, page, position, number

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._file._extent(self._page, self._position, self._number)[1]

    def read(self, limit: int | None = None) -> bytes:
        """Return the value, or the first `limit` bytes of it."""
        return self._file._value(self._page, self._position, self._number, limit)


class PageFile:
    """An LMDB data file with one unnamed database. Raises `FormatError` where the file is not what LMDB writes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._file = open_regular(self.path)
        try:
            status = os.fstat(self._file)
            self._size, self._stored = status.st_size, stored_bytes(status)
            self._read_meta()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> PageFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def find(self, key: bytes) -> bytes | None:
        """Return the value of `key`, by the same way through the pages that LMDB takes."""
        number, depth = self._root, 0
        while number != _NO_PAGE:
            depth += 1
            page, positions, is_leaf = self._tree_page(number, depth)
            first, last = (0, len(positions)) if is_leaf else (1, len(positions))
            while first < last:
                middle = (first + last) // 2
                name = self._node(page, positions[middle], number)[0]
                if is_leaf and name == key:
                    return self._value(page, positions[middle], number)
                first, last = (middle + 1, last) if name <= key else (first, middle)
            if is_leaf:
                return None
            number = self._node(page, positions[first - 1], number)[1]
        return None

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, StoredValue]]:
        """Yield keys from `start` on, in order, and where their values lie; only for a file that has been checked."""
        if self._root != _NO_PAGE:
            yield from self._items(self._root, 1, start)

    def _items(self, number: int, depth: int, start: bytes) -> Iterator[tuple[bytes, StoredValue]]:
        page, nodes = self._nodes(number, depth)
        if _HEADER.unpack_from(page)[2] & _LEAF:
            for name, position in nodes:
                if name >= start:
                    yield name, StoredValue(self, page, position, number)
            return
        # a branch's first key is not looked at: it leads to all that comes before its second
        first = next((i for i in range(1, len(nodes)) if nodes[i][0] > start), len(nodes)) - 1
        for _, child in nodes[first:]:
            yield from self._items(child, depth + 1, start)

    def check(self) -> int:
        """Walk every page of the tree and return the number of keys; the first fault is a `FormatError`."""
        return self._check(_Marks())

    def check_writable(self) -> None:
        """Check all pages, and that none in use is listed as free: LMDB trusts the list, and writes to these."""
        seen = _Marks()
        self._check(seen)
        free: set[int] = set()
        for _, position, page, number in self._leaves(self._free[7], self._free[2], seen, ordered=False):
            self._check_value(page, position, number, seen)
            value = self._value(page, position, number)
            count, *listed = struct.unpack(f"<{len(value) // 8}Q", value[: len(value) // 8 * 8]) or (0,)
            if len(value) % 8 or count != len(listed):
                raise self._fault(number, "lists free pages otherwise than LMDB does")
            free.update(listed)
        for number in free:
            if not 2 <= number <= self.last_page or not seen.take(number, 1):
                raise self._fault(number, "is listed as free, and is in use or outside the file")

    def _check(self, seen: _Marks) -> int:
        count, before = 0, None
        for name, position, page, number in self._leaves(self._root, self._depth, seen):
            if before is not None and name <= before:
                raise self._fault(number, "keys are not in ascending order")
            self._check_value(page, position, number, seen)
            before, count = name, count + 1
        if count != self.entries:
            raise FormatError(self.path, found=f"{count} keys", expected=f"{self.entries}")
        return count

    def _read_meta(self) -> None:
        first = self._meta_page(0, 4096)
        size = first[0]
        if size & (size - 1) or not 256 <= size <= 65536:
            raise FormatError(self.path, "page 0", found=f"a page size of {size}", expected="a power of two")
        self.page_size = size
        second = self._meta_page(size, size)
        if second[0] != size:
            raise FormatError(self.path, "page 1", found=f"a page size of {second[0]}", expected=str(size))
        current = max(first, second, key=lambda meta: meta[4]) if first[4] != second[4] else first
        _, self._free, tree, self.last_page, _ = current
        _, flags, self._depth, _, _, _, self.entries, self._root = tree
        if flags:
            raise FormatError(self.path, found=f"a database with flags {flags:#x}", expected="a plain one")
        #: The last page that is in the file.
        self._last_there = min(self.last_page, self._size // size - 1)
        # a page that was taken and given back in one transaction was never written
        lacking = self.last_page - self._last_there
        if lacking and lacking != self._free_after(self._last_there):
            expected = f"{(self.last_page + 1) * size} bytes"
            raise FormatError(self.path, found=f"{self._size} bytes", expected=expected, hint="the file is cut short")

    def _free_after(self, last: int) -> int:
        """Return how many pages behind the page `last` the list of free pages has, which is a tree of its own."""
        free: set[int] = set()
        with suppress(FormatError):  # a list that is cut short itself has fewer
            for _, position, page, number in self._leaves(self._free[7], self._free[2], _Marks(), ordered=False):
                value = self._value(page, position, number)
                listed = array("Q", value[: len(value) // 8 * 8])
                free.update(each for each in listed[1:] if last < each <= self.last_page)
        return len(free)

    def _meta_page(self, offset: int, size: int) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int]:
        """Return page size, trees of free pages and of the unnamed database, last page, transaction: what a meta page
        says.
        """
        page = os.pread(self._file, min(size, 256), offset)
        need = _HEADER.size + _META.size + 2 * _TREE.size + _LAST.size
        if len(page) < need or not is_lmdb(page):
            raise FormatError(self.path, f"byte {offset}", found="no meta page of LMDB", expected="one")
        position = _HEADER.size + _META.size
        free, tree = (_TREE.unpack_from(page, position + which * _TREE.size) for which in (0, 1))
        last, transaction = _LAST.unpack_from(page, position + 2 * _TREE.size)
        return free[0], free, tree, last, transaction

    def _leaves(
        self, root: int, tree_depth: int, seen: _Marks, *, ordered: bool = True
    ) -> Iterator[tuple[bytes, int, bytes, int]]:
        """Yield every leaf node of a tree in order: key, position of the node, its page, the page's number."""
        if root == _NO_PAGE:
            return
        stack = [(root, 1)]
        while stack:
            number, depth = stack.pop()
            page, nodes = self._nodes(number, depth, ordered=ordered)
            self._mark(number, 1, seen, number)
            if _HEADER.unpack_from(page)[2] & _LEAF:
                if depth != tree_depth:
                    raise self._fault(number, f"is a leaf at depth {depth} of {tree_depth}")
                for name, position in nodes:
                    yield name, position, page, number
            else:
                stack.extend((child, depth + 1) for _, child in reversed(nodes))

    def _nodes(self, number: int, depth: int, *, ordered: bool = True) -> tuple[bytes, list[tuple[bytes, int]]]:
        """Return a page of the tree and its nodes: key, and child page of a branch or position of a leaf's node."""
        page, positions, is_leaf = self._tree_page(number, depth)
        nodes: list[tuple[bytes, int]] = []
        for index, position in enumerate(positions):
            name, child = self._node(page, position, number)
            if ordered and not is_leaf and index > 1 and name <= nodes[-1][0]:
                raise self._fault(number, "has keys that do not ascend")
            nodes.append((name, position if is_leaf else child))
        return page, nodes

    def _tree_page(self, number: int, depth: int) -> tuple[bytes, tuple[int, ...], bool]:
        """Return a page of the tree, the positions of its nodes within its bounds, and whether it is a leaf."""
        if depth > _DEEPEST:
            raise self._fault(number, "lies deeper than any tree")
        page = self._page(number)
        stored, _, flags, lower, upper = _HEADER.unpack_from(page)
        if stored != number or flags & _KINDS not in (_BRANCH, _LEAF):
            raise self._fault(number, "is no page of the tree")
        if not 16 <= lower <= upper <= self.page_size or lower % 2:
            raise self._fault(number, "has bounds outside itself")
        positions = struct.unpack_from(f"<{(lower - 16) // 2}H", page, 16)
        is_leaf = bool(flags & _LEAF)
        if not positions or (not is_leaf and len(positions) < 2):
            raise self._fault(number, "has too few nodes")
        if min(positions) < upper or max(positions) + 8 > self.page_size:
            raise self._fault(number, "has a node outside itself")
        return page, positions, is_leaf

    def _node(self, page: bytes, position: int, number: int) -> tuple[bytes, int]:
        """Return the key of a node, and the page a branch's leads to."""
        low, high, flags, length = _NODE.unpack_from(page, position)
        if position + 8 + length > self.page_size:
            raise self._fault(number, "has a key that reaches past it")
        return page[position + 8 : position + 8 + length], low | high << 16 | flags << 32

    def _check_value(self, page: bytes, position: int, number: int, seen: _Marks) -> None:
        first, size = self._extent(page, position, number)
        if first is None:
            return
        self._mark(first, self._overflow_pages(first, size, number), seen, number)

    def _value(self, page: bytes, position: int, number: int, limit: int | None = None) -> bytes:
        """Return the value of a leaf node, or its first `limit` bytes."""
        first, size = self._extent(page, position, number)
        wanted = size if limit is None else min(size, limit)
        if first is None:
            length = _NODE.unpack_from(page, position)[3]
            return page[position + 8 + length : position + 8 + length + wanted]
        self._overflow_pages(first, size, number)
        return pread_all(self._file, wanted, first * self.page_size + 16)

    def _extent(self, page: bytes, position: int, number: int) -> tuple[int | None, int]:
        """Return where the value of a leaf node is: its first overflow page, None when it lies in the leaf; and its
        size.
        """
        low, high, flags, length = _NODE.unpack_from(page, position)
        size = low | high << 16
        start = position + 8 + length
        if flags & ~_BIG:
            raise self._fault(number, "has a node of another kind of database")
        if start + (8 if flags & _BIG else size) > self.page_size:
            raise self._fault(number, "has a value that reaches past it")
        return (int.from_bytes(page[start : start + 8], "little") if flags & _BIG else None), size

    def _overflow_pages(self, first: int, size: int, number: int) -> int:
        if not 2 <= first <= self._last_there:
            raise self._fault(number, "has a value outside the file")
        stored, _, flags, low, high = _HEADER.unpack(os.pread(self._file, 16, first * self.page_size))
        pages = int(low | high << 16)
        if stored != first or flags & _KINDS != _OVERFLOW or pages * self.page_size < size + 16:
            raise self._fault(first, "does not hold the value it should")
        if first + pages - 1 > self._last_there:
            raise self._fault(first, "reaches past the file")
        if implausible(size, self._stored):
            raise self._fault(first, f"holds a value of {size} bytes, of which {self._stored} at most are stored")
        return pages

    def _mark(self, first: int, pages: int, seen: _Marks, number: int) -> None:
        if not seen.take(first, pages):
            raise self._fault(number, "is reached twice")

    def _page(self, number: int) -> bytes:
        if not 2 <= number <= self._last_there:
            raise FormatError(self.path, found=f"a way to page {number}", expected=f"2 to {self._last_there}")
        page = os.pread(self._file, self.page_size, number * self.page_size)
        if len(page) != self.page_size:
            raise self._fault(number, "is cut short")
        return page

    def _fault(self, number: int, what: str) -> FormatError:
        return FormatError(self.path, f"page {number}", found=f"a page that {what}", hint="the file is damaged")


def sniff_collection(head: bytes, path: Path) -> float:
    """Return an LMDB file whose key `meta` names the layout; another one only by its name, so that its fault is
    told.
    """
    if not is_lmdb(head):
        return 0.0
    try:
        with PageFile(path) as pages:
            meta = pages.find(META)
    except (OSError, FormatError):
        meta = None
    if meta is not None and LAYOUT.encode() in meta:
        return 1.0
    return 0.9 if path.name.endswith(".mrec.lmdb") else 0.0
