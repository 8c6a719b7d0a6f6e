"""The leaf pages of a sound LMDB file, many at a time: where their keys and values are, all positions checked.

Source: LMDB 0.9, mdb.c: a page has a header of 16 bytes, then offsets of its nodes; a node has the size of its value
(the lower and the upper half), flags, the size of its key, the key, and the value or the page it begins at.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.stores.lmdb.file.pages import PageFile

__all__ = ["LeafChunk", "LeafFile", "words_at"]

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]
_LEAF, _OVERFLOW, _BIG, _HEADER = 0x02, 0x04, 0x01, 16
_DEEPEST = 32
_HEAD, _NODE = struct.Struct("<QHHHHH"), struct.Struct("<HHHH")


@dataclass
class LeafChunk:
    """Leaf pages, copied, and their nodes in order.

    `page` and `offset` say where each node is, `ksize` the bytes of its key, `size` those of its value. `big` nodes
    have their value in pages of its own, `first` is the number of the first.
    """

    pages: Bytes
    page: Words
    offset: Words
    ksize: Words
    size: Words
    big: NDArray[np.bool_]
    first: Words

    def key(self, node: int) -> bytes:
        """The key of one node."""
        start = int(self.offset[node]) + 8
        return self.pages[self.page[node], start : start + int(self.ksize[node])].tobytes()

    def numbered(self) -> tuple[Bytes, NDArray[np.uint64]]:
        """The letter of every key of nine bytes (else 0), and its number."""
        nine = self.ksize == 9
        places = self.page * self.pages.shape[1] + np.where(nine, self.offset + 8, 0)
        letters = np.where(nine, self.pages.reshape(-1)[places], 0)
        return letters, words_at(self.pages, ">u8")[places + 1].astype(np.uint64)


def words_at(pages: Bytes, dtype: str) -> NDArray[Any]:
    """The words of eight bytes that begin at every byte of some pages, in place."""
    return np.ndarray((pages.size - 7,), dtype, pages.data, strides=(1,))


class LeafFile:
    """An LMDB file, read without LMDB. Raises `FormatError` where a page is not what LMDB writes."""

    def __init__(self, path: str) -> None:
        self.path = path
        with PageFile(path) as pages:
            self.page_size, self._root, self._depth = pages.page_size, pages.root, pages.depth
            self.entries, self.last_page = pages.entries, pages.last_page
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.leaves = self._walk()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def pages(self, numbers: Words) -> Bytes:
        """Pages by their numbers, copied; those that follow each other are read at once."""
        size = self.page_size
        found = np.empty((len(numbers), size), np.uint8)
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        for start, stop in zip([0, *breaks.tolist()], [*breaks.tolist(), len(numbers)], strict=True):
            if start == stop:
                continue
            view = found[start:stop].reshape(-1).data
            if os.preadv(self._file, [view], int(numbers[start]) * size) != len(view):
                raise FormatError(self.path, f"page {numbers[start]}", found="the end of the file")
        return found

    def first_key(self, place: int) -> bytes:
        """The first key of a leaf page, by its place among the leaves."""
        number = int(self.leaves[place])
        page = os.pread(self._file, self.page_size, number * self.page_size)
        if len(page) == self.page_size:
            own, _, flags, lower, upper, offset = _HEAD.unpack_from(page)
            if own == number and flags & 0x7F == _LEAF and _HEADER + 2 <= lower <= upper <= offset:
                size = _NODE.unpack_from(page, offset)[3] if offset + 8 <= len(page) else 0
                if size and offset + 8 + size <= len(page):
                    return page[offset + 8 : offset + 8 + size]
        raise FormatError(self.path, f"page {number}", found="a page that is no leaf page")

    def chunk(self, numbers: Words) -> LeafChunk:
        """Leaf pages and their nodes."""
        pages = self.pages(numbers)
        heads = pages[:, :_HEADER]
        lower = np.ascontiguousarray(heads[:, 12:14]).view("<u2").ravel().astype(np.int64)
        upper = np.ascontiguousarray(heads[:, 14:16]).view("<u2").ravel().astype(np.int64)
        flags = np.ascontiguousarray(heads[:, 10:12]).view("<u2").ravel()
        own = np.ascontiguousarray(heads[:, :8]).view("<u8").ravel()
        wrong = (flags & 0x7F != _LEAF) | (own != numbers.astype(np.uint64))
        wrong |= (lower < _HEADER) | (lower > upper) | (upper > self.page_size) | (lower % 2 != 0)
        self._refuse(wrong, numbers, "is no leaf page")
        counts = (lower - _HEADER) // 2
        page = np.repeat(np.arange(len(numbers)), counts)
        slot = np.arange(len(page)) - np.repeat(np.cumsum(counts) - counts, counts)
        halves = pages.view("<u2")
        offset = halves[page, _HEADER // 2 + slot].astype(np.int64)
        fits = (offset >= upper[page]) & (offset % 2 == 0) & (offset + 8 <= self.page_size)
        self._refuse(~fits, numbers[page], "a node reaches past the page")
        at = offset // 2
        size = halves[page, at].astype(np.int64) | halves[page, at + 1].astype(np.int64) << 16
        kinds, ksize = halves[page, at + 2].astype(np.int64), halves[page, at + 3].astype(np.int64)
        big = kinds == _BIG
        room = np.where(big, 8, size)
        wrong = ((kinds & ~_BIG) != 0) | (ksize == 0) | (offset + 8 + ksize + room > self.page_size)
        self._refuse(wrong, numbers[page], "a node reaches past the page")
        first = np.zeros(len(page), np.int64)
        if big.any():
            place = (offset + 8 + ksize)[big]
            first[big] = words_at(pages, "<i8")[page[big] * self.page_size + place]
            ends = first[big] + self.run_length(size[big])
            wrong = (first[big] < 2) | (ends < first[big]) | (ends > self.last_page + 1)
            self._refuse(wrong, numbers[page[big]], "a value lies past the end of the file")
        return LeafChunk(pages, page, offset, ksize, size, big, first)

    def run_length(self, size: Words) -> Words:
        """Pages a value of so many bytes takes by itself."""
        return np.asarray((_HEADER + size + self.page_size - 1) // self.page_size, np.int64)

    def check_runs(self, heads: Bytes, numbers: Words, lengths: Words) -> None:
        """Refuse pages that are not the first ones of values of so many pages."""
        flags = np.ascontiguousarray(heads[:, 10:12]).view("<u2").ravel()
        own = np.ascontiguousarray(heads[:, :8]).view("<u8").ravel()
        stored = np.ascontiguousarray(heads[:, 12:16]).view("<u4").ravel().astype(np.int64)
        wrong = (flags & 0x7F != _OVERFLOW) | (own != numbers.astype(np.uint64)) | (stored != lengths)
        self._refuse(wrong, numbers, "begins no value of that size")

    def _walk(self) -> Words:
        """The leaf pages in the order of their keys; every page once."""
        if self.entries == 0:
            return np.zeros(0, np.int64)
        level = np.array([self._root], np.int64)
        for _ in range(1, min(self._depth, _DEEPEST)):
            found = [self._children(int(number)) for number in level.tolist()]
            level = np.concatenate(found)
            if len(level) > self.last_page or len(np.unique(level)) != len(level):
                raise FormatError(self.path, found="a page that is in the tree twice")
        return level

    def _children(self, number: int) -> Words:
        page = self.pages(np.array([number]))[0]
        halves = page.view("<u2").astype(np.int64)
        lower = int(halves[6])
        if int(halves[5]) & 0x7F != 0x01 or int(page[:8].view("<u8")[0]) != number or not 18 <= lower < self.page_size:
            raise FormatError(self.path, f"page {number}", found="no branch page")
        offset = halves[_HEADER // 2 : lower // 2]
        if (offset < lower).any() or (offset + 8 > self.page_size).any() or (offset % 2).any():
            raise FormatError(self.path, f"page {number}", found="a node that reaches past the page")
        at = offset // 2
        children = halves[at] | halves[at + 1] << 16 | halves[at + 2] << 32
        if (children < 2).any() or (children > self.last_page).any():
            raise FormatError(self.path, f"page {number}", found="a page past the end of the file")
        return np.asarray(children, np.int64)

    def _refuse(self, wrong: NDArray[np.bool_], numbers: Words, text: str) -> None:
        if wrong.any():
            raise FormatError(self.path, f"page {numbers[int(np.argmax(wrong))]}", found=f"a page where {text}")
