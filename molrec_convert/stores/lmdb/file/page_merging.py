"""The numbered keys of several files in one, page by page: keys are counted anew in place, values are never looked at.

Pages of one letter go over whole, of a page with keys of several what is wanted is kept. All positions within pages are
checked on the way, so files are as safe to merge as those whose pages were walked before.
Source: Collection and its LMDB file; LMDB 0.9, mdb.c.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.formats import Progress
from molrec_convert.stores.lmdb.file.keys import FRAME, RECORD, SYSTEM, key_text, numbered
from molrec_convert.stores.lmdb.file.leaf_pages import LeafChunk, LeafFile, Words, words_at
from molrec_convert.stores.lmdb.file.page_tree import KEY_BYTES, PageTree

__all__ = ["check_margins", "merge_pages"]

#: Leaf pages, and pages of values, that are in memory at once.
_LEAVES, _VALUES = 512, 512
_HEADER = struct.Struct("<QHHHH")


def merge_pages(
    files: Sequence[LeafFile], counts: Sequence[tuple[int, int]], tree: PageTree, progress: Progress
) -> None:
    """Put all frames, then all records and systems; `counts` are each file's records and frames.

    Raises `ContractError` where a key that is counted is missing.
    """
    for letter in (FRAME, RECORD, SYSTEM):
        first = 0
        for file, (records, frames) in zip(files, counts, strict=True):
            count = frames if letter == FRAME else records
            _Copy(file, letter, first, count, tree).run()
            first += count
            if letter == FRAME:
                progress.advance(records)


def check_margins(file: LeafFile, records: int, frames: int) -> None:
    """Look at the pages LMDB reads: where the keys of a letter begin and end, and those between."""
    if not len(file.leaves):
        return
    ends = [b"", numbered(FRAME, frames), numbered(RECORD, 0), numbered(RECORD, records), numbered(SYSTEM, 0)]
    places = [leaf_before(file, key) for key in [*ends, numbered(SYSTEM, records)]] + [len(file.leaves) - 1]
    for first, last in ((0, 0), (1, 2), (3, 4), (5, 6)):
        for at in range(places[first], places[last] + 1, _LEAVES):
            chunk = file.chunk(file.leaves[at : min(at + _LEAVES, places[last] + 1)])
            heads = chunk.first[chunk.big]
            if len(heads):
                file.check_runs(file.pages(heads), heads, file.run_length(chunk.size[chunk.big]))


def leaf_before(file: LeafFile, key: bytes) -> int:
    """The last leaf page that begins at or before a key."""
    low, high = 0, len(file.leaves)
    while high - low > 1:
        middle = (low + high) // 2
        if file.first_key(middle) <= key:
            low = middle
        else:
            high = middle
    return low


class _Copy:
    """The keys of one letter of one file, whose numbers begin at `first`."""

    def __init__(self, file: LeafFile, letter: bytes, first: int, count: int, tree: PageTree) -> None:
        self._file, self._letter, self._first, self._count, self._tree = file, letter, first, count, tree
        self._seen = 0

    def run(self) -> None:
        """Copy them all."""
        for chunk in self._chunks():
            self._take(chunk)
        if self._letter != SYSTEM and self._seen != self._count:
            raise ContractError(key_text(numbered(self._letter, self._seen)), "the key is not there")

    def _chunks(self) -> Iterator[LeafChunk]:
        """The leaf pages the letter's keys are in."""
        leaves = self._file.leaves
        if not len(leaves):
            return
        start = leaf_before(self._file, numbered(self._letter, 0))
        stop = leaf_before(self._file, numbered(self._letter, self._count)) + 1
        for at in range(start, stop, _LEAVES):
            yield self._file.chunk(leaves[at : min(at + _LEAVES, stop)])

    def _take(self, chunk: LeafChunk) -> None:
        letters, numbers = chunk.numbered()
        wanted = (letters == self._letter[0]) & (numbers < np.uint64(self._count))
        if not wanted.any():
            return
        found = numbers[wanted]
        if self._letter != SYSTEM:
            expected = np.arange(self._seen, self._seen + len(found), dtype=np.uint64)
            if (found != expected).any():
                missing = self._seen + int(np.argmax(found != expected))
                raise ContractError(key_text(numbered(self._letter, missing)), "the key is not there")
        elif (found[1:] <= found[:-1]).any():
            raise ContractError(self._letter.decode(), "keys are not in ascending order")
        self._seen += len(found)
        self._renumber(chunk, wanted, found + np.uint64(self._first))
        self._put(chunk, wanted)

    def _renumber(self, chunk: LeafChunk, wanted: NDArray[np.bool_], numbers: NDArray[np.uint64]) -> None:
        places = chunk.page[wanted] * chunk.pages.shape[1] + chunk.offset[wanted] + 9
        words_at(chunk.pages, ">u8")[places] = numbers

    def _put(self, chunk: LeafChunk, wanted: NDArray[np.bool_]) -> None:
        """The pages with nodes that are wanted, and the values these have elsewhere."""
        used = np.zeros(len(chunk.pages), np.bool_)
        used[chunk.page[wanted]] = True
        pages = np.flatnonzero(used)
        kept = chunk.big & wanted
        lengths = self._file.run_length(chunk.size[kept])
        base = self._tree.next + len(pages)
        if len(lengths):
            begins = base + np.cumsum(lengths) - lengths
            places = chunk.page[kept] * chunk.pages.shape[1] + chunk.offset[kept] + 8 + chunk.ksize[kept]
            words_at(chunk.pages, "<i8")[places] = begins
        for page in [] if wanted.all() else np.unique(chunk.page[~wanted & used[chunk.page]]).tolist():
            _repack(chunk, page, np.flatnonzero((chunk.page == page) & wanted))
        nodes = np.flatnonzero(wanted)
        firsts = nodes[np.flatnonzero(np.diff(chunk.page[nodes], prepend=-1))]
        keys = chunk.pages[pages[:, None], chunk.offset[firsts][:, None] + 8 + np.arange(KEY_BYTES)]
        whole = len(pages) == len(chunk.pages)
        self._tree.add_leaves(chunk.pages if whole else chunk.pages[pages], keys, len(nodes))
        self._put_values(chunk.first[kept], lengths)

    def _put_values(self, firsts: Words, lengths: Words) -> None:
        total = int(lengths.sum())
        if not total:
            return
        ends = np.cumsum(lengths)
        starts = ends - lengths
        for at in range(0, total, _VALUES):
            places = np.arange(at, min(at + _VALUES, total))
            run = np.searchsorted(ends, places, side="right")
            numbers = firsts[run] + places - starts[run]
            heads = places == starts[run]
            pages = self._file.pages(numbers)
            self._file.check_runs(pages[heads], numbers[heads], lengths[run[heads]])
            self._tree.add_values(pages, heads)


def _repack(chunk: LeafChunk, page: int, nodes: Words) -> None:
    """Keep some nodes of a page, one behind the other from its end."""
    old = chunk.pages[page].copy()
    size = len(old)
    new = np.zeros(size, np.uint8)
    upper = size
    offsets = []
    for node in nodes.tolist():
        length = 8 + int(chunk.ksize[node]) + (8 if chunk.big[node] else int(chunk.size[node]))
        upper -= length + length % 2
        start = int(chunk.offset[node])
        new[upper : upper + length] = old[start : start + length]
        offsets.append(upper)
        chunk.offset[node] = upper
    head = _HEADER.pack(0, 0, 0x02, _HEADER.size + 2 * len(offsets), upper)
    new[: _HEADER.size] = np.frombuffer(head, np.uint8)
    new[_HEADER.size : _HEADER.size + 2 * len(offsets)] = np.asarray(offsets, "<u2").view(np.uint8)
    chunk.pages[page] = new
