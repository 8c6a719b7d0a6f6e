"""Consecutive records of a collection that hold the same things, column by column: many records without an object each.

What reads whole batches anyway hands them out like this; whoever stores records makes values of all of them at once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.record import Record

__all__ = ["Coded", "RecordBatch", "RecordColumns", "TextGroups"]


@dataclass(frozen=True)
class Coded:
    """A column of texts: `texts[codes[row]]` in each row."""

    codes: NDArray[Any]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class TextGroups:
    """Lists of texts that several records share: `lists[of[record]]` is that of a record."""

    lists: list[list[str]]
    of: list[int]


@dataclass
class RecordColumns:
    """Records of one frame each: record `i` has frame `i` of `frames`, which presents every block.

    `counts` has the rows of `atoms` in each, of the system's block as of the frame's. `identity` are the columns of
    the system's, with the rows of all records; `said` the keys of its meta: a value of each record and its tag, ""
    for none. `own` are the values the collection's index has for each record. Nothing else is in them.
    """

    declaration: Declaration
    counts: NDArray[np.int64]
    frames: FrameBatch
    identity: dict[str, NDArray[Any] | Coded] = field(default_factory=dict)
    said: dict[str, tuple[list[Any], list[str]]] = field(default_factory=dict)
    own: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.counts)

    @functools.cached_property
    def offset(self) -> NDArray[np.int64]:
        """Where the rows of each record begin, and the end."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @functools.cached_property
    def text_groups(self) -> dict[str, TextGroups]:
        """The columns of texts in `identity`."""
        ends = self.offset.tolist()
        found = {}
        for name, column in self.identity.items():
            if isinstance(column, Coded):
                found[name] = _coded_groups(column, ends)
            elif column.dtype.kind == "T":
                found[name] = _text_groups(column.tolist(), ends)
        return found


@dataclass(frozen=True)
class RecordBatch:
    """`count` records: by themselves with the values of their collection's index, and as columns where they are alike.

    `members` gives them from a position in the batch on.
    """

    count: int
    members: Callable[[int], Iterator[tuple[Record, dict[str, Any]]]]
    columns: RecordColumns | None


def _coded_groups(column: Coded, ends: list[int]) -> TextGroups:
    data = np.ascontiguousarray(column.codes)
    width, whole = data.itemsize, data.tobytes()
    numbers: dict[bytes, int] = {}
    of = [numbers.setdefault(whole[a * width : b * width], len(numbers)) for a, b in itertools.pairwise(ends)]
    texts = column.texts
    return TextGroups([[texts[code] for code in np.frombuffer(key, data.dtype).tolist()] for key in numbers], of)


def _text_groups(texts: list[str], ends: list[int]) -> TextGroups:
    numbers: dict[tuple[str, ...], int] = {}
    of = [numbers.setdefault(tuple(texts[a:b]), len(numbers)) for a, b in itertools.pairwise(ends)]
    return TextGroups([list(key) for key in numbers], of)
