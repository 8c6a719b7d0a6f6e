"""An LMDB file put together of whole pages: leaf pages and values as they come, the branch pages above them, the root.

The file is LMDB's own form, so that LMDB goes on with it. Source: LMDB 0.9, mdb.c.
"""

from __future__ import annotations

import struct
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from io import RawIOBase
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from molrec_convert.files.disk import write_all
from molrec_convert.files.target_file import start_writeback

__all__ = ["PageTree"]

_HEADER = struct.Struct("<QHHHH")
_NODE = 8
_TREE = struct.Struct("<IHHQQQQQ")
_LAST = struct.Struct("<QQ")
#: Where in a meta page the tree of the unnamed database stands: behind the header, the meta's start, the free list's.
_MAIN = _HEADER.size + 24 + _TREE.size
_BRANCH = 0x01
#: All keys are a letter and a number; a node takes an even number of bytes.
KEY_BYTES = 9
_PADDED_KEY = KEY_BYTES + KEY_BYTES % 2
#: So many writes wait for the one before, and so many new bytes are on their way to the disk early.
_WAITING, _AHEAD = 4, 8 * 2**20
Keys = NDArray[np.uint8]
Numbers = NDArray[np.int64]


class PageTree:
    """Writes pages to an empty LMDB file, whose two meta pages are there; `finish` makes them its content.

    Pages given are its own from then on: they are written while the next ones are made. A context manager, after which
    nothing is written any more.
    """

    def __init__(self, file: RawIOBase, page_size: int) -> None:
        self._file, self.page_size = file, page_size
        self.next = 2
        self._keys: list[Keys] = []
        self._leaves: list[Numbers] = []
        self._overflow = self._entries = 0
        self._written = self._started = 2 * page_size
        self._writer = ThreadPoolExecutor(1, "pages")
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> PageTree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.shutdown(wait=True, cancel_futures=True)

    def add_leaves(self, pages: NDArray[np.uint8], keys: Keys, entries: int) -> None:
        """Leaf pages in order, the first key of each, and how many nodes they have; their numbers are put in here."""
        numbers = np.arange(self.next, self.next + len(pages))
        self._number(pages, numbers)
        self._keys.append(keys)
        self._leaves.append(numbers)
        self._entries += entries
        self._write(pages)

    def add_values(self, pages: NDArray[np.uint8], heads: NDArray[np.bool_]) -> None:
        """Pages of values; `heads` are those with a header, whose numbers are put in here."""
        places = np.flatnonzero(heads)
        numbered = pages[places]
        self._number(numbered, self.next + places)
        pages[places, :8] = numbered[:, :8]
        self._overflow += len(pages)
        self._write(pages)

    def finish(self) -> None:
        """Write the branch pages and the meta page that counts."""
        keys, level = np.concatenate(self._keys), np.concatenate(self._leaves)
        depth, branches, leaves = 1, 0, len(level)
        while len(level) > 1:
            keys, level = self._branches(keys, level)
            depth, branches = depth + 1, branches + len(level)
        self._wait(0)
        tree = _TREE.pack(0, 0, depth, branches, leaves, self._overflow, self._entries, int(level[0]))
        write_all(self._file.fileno(), [tree + _LAST.pack(self.next - 1, 1)], self.page_size + _MAIN)

    def _branches(self, keys: Keys, children: Numbers) -> tuple[Keys, Numbers]:
        """Branch pages over pages with their first keys, two at least on each; their own keys and numbers."""
        # the first of a page has no key, as LMDB looks at none there
        most = 1 + (self.page_size - _HEADER.size - 2 - _NODE) // (2 + _NODE + _PADDED_KEY)
        starts = np.arange(0, len(children), most)
        if len(starts) > 1 and len(children) - starts[-1] == 1:
            starts[-1] -= 1
        stops = np.append(starts[1:], len(children))
        first = self.next
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            self._write(self._branch(keys[start:stop], children[start:stop])[None])
        return keys[starts], np.arange(first, self.next)

    def _branch(self, keys: Keys, children: Numbers) -> NDArray[np.uint8]:
        """One branch page."""
        page = np.zeros(self.page_size, np.uint8)
        count = len(children)
        nodes = np.zeros((count, _NODE + _PADDED_KEY), np.uint8)
        halves = nodes.view("<u2")
        for place in range(3):
            halves[:, place] = children >> (16 * place) & 0xFFFF
        halves[1:, 3] = KEY_BYTES
        nodes[1:, _NODE : _NODE + KEY_BYTES] = keys[1:]
        size = _NODE + _PADDED_KEY
        upper = self.page_size - _NODE - size * (count - 1)
        lower = _HEADER.size + 2 * count
        page[: _HEADER.size] = np.frombuffer(_HEADER.pack(self.next, 0, _BRANCH, lower, upper), np.uint8)
        # the first stands at the end of the page, the others before it, one before the other
        offsets = self.page_size - _NODE - size * np.arange(count)
        page[_HEADER.size : lower] = offsets.astype("<u2").view(np.uint8)
        page[self.page_size - _NODE :] = nodes[0, :_NODE]
        page[upper : self.page_size - _NODE] = nodes[:0:-1].reshape(-1)
        return page

    def _number(self, pages: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        pages[:, :8] = np.asarray(numbers, "<u8").view(np.uint8).reshape(-1, 8)

    def _write(self, pages: NDArray[np.uint8]) -> None:
        self._wait(_WAITING)
        self._waiting.append(self._writer.submit(self._put, np.ascontiguousarray(pages).reshape(-1).data))
        self.next += len(pages)

    def _wait(self, most: int) -> None:
        """Wait until no more than so many writes are under way; an error of one is raised here."""
        while len(self._waiting) > most:
            self._waiting.popleft().result()

    def _put(self, left: memoryview) -> None:
        """Write some bytes, and have the system begin to bring them to the disk."""
        write_all(self._file.fileno(), [left], self._written)
        self._written += len(left)
        if self._written - self._started >= _AHEAD:
            start_writeback(self._file.fileno(), self._started, self._written - self._started)
            self._started = self._written
