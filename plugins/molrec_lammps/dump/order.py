"""Bringing the rows of frames into ascending order of ids: LAMMPS writes them in another order each frame.

Nothing is sorted where it can be helped: ids that are nearly all there are their own places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["IdSet", "RepeatedId", "ascending_order", "repeated_row"]

Integers = NDArray[np.int64]

#: A table of places is used where it has at most this many entries an id (and always up to a megabyte).
_SPARSE = 8
_SMALL = 2**17


class RepeatedId(Exception):
    """Some frame has an id twice."""


class IdSet:
    """The ids every frame has: `ids` int64[n], ascending. It tells the place of each id."""

    def __init__(self, ids: Integers) -> None:
        self.ids = ids
        self._low = int(ids[0]) if len(ids) else 0
        span = int(ids[-1]) - self._low + 1 if len(ids) else 0
        self._dense = span == len(ids)
        self._table: Integers | None = None
        if not self._dense and span <= max(_SPARSE * len(ids), _SMALL):
            self._table = np.full(span, -1, dtype=np.int64)
            self._table[ids - self._low] = np.arange(len(ids))

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, ids: Integers) -> Integers | None:
        """The place of each of `ids`, None when one is not in the set."""
        if not len(ids):
            return ids
        low, high = int(ids.min()), int(ids.max())
        if not len(self.ids) or low < self._low or high > self.ids[-1]:
            return None
        if self._dense:
            return ids - self._low
        if self._table is not None:
            places = self._table[ids - self._low]
            return None if bool((places < 0).any()) else places
        places = np.searchsorted(self.ids, ids)
        return places if bool((self.ids[places] == ids).all()) else None

    def order(self, ids: Integers) -> Integers | None:
        """For ids of whole frames, one after the other: `ids[order]` is the set, frame after frame.

        None when some frame has other ids, or one twice.
        """
        places = self.places(ids)
        if places is None:
            return None
        frames = len(ids) // max(1, len(self.ids))
        places = (places.reshape(frames, -1) + (np.arange(frames, dtype=np.int64) * len(self.ids))[:, None]).reshape(-1)
        order = np.full(len(ids), -1, dtype=np.int64)
        order[places] = np.arange(len(ids))
        return None if len(order) and order.min() < 0 else order

    def in_order(self, ids: Integers) -> bool:
        """Whether ids of whole frames are the set, frame after frame, already."""
        rows = ids.reshape(-1, len(self.ids)) if len(self.ids) else ids.reshape(0, 0)
        return bool(len(rows) and (rows[0] == self.ids).all() and (rows == self.ids).all())


def ascending_order(ids: Integers, counts: Integers) -> Integers | None:
    """For ids of whole frames with `counts` rows: the order that lets them ascend in each. None: they do already.

    RepeatedId: some frame has an id twice.
    """
    if len(ids) < 2:
        return None
    rising = ids[1:] > ids[:-1]
    seams = np.cumsum(counts)[:-1]
    rising[seams[(seams > 0) & (seams < len(ids))] - 1] = True
    if rising.all():
        return None
    low = int(ids.min())
    span = int(ids.max()) - low + 1
    frame = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    if span * len(counts) <= _SPARSE * len(ids) + _SMALL:
        table = np.full(span * len(counts), -1, dtype=np.int64)
        table[ids - low + frame * span] = np.arange(len(ids))
        order = table[table >= 0]
        if len(order) != len(ids):
            raise RepeatedId
        return order
    order = np.lexsort((ids, frame)) if len(counts) > 1 else np.argsort(ids, kind="stable")
    same = (ids[order][1:] == ids[order][:-1]) & (frame[order][1:] == frame[order][:-1])
    if same.any():
        raise RepeatedId
    return order


def repeated_row(ids: Integers) -> int | None:
    """The first row of one frame whose id stands in an earlier row, None when there is none."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order][1:] == ids[order][:-1]]
    return int(again.min()) if len(again) else None


def take_rows(values: NDArray[Any], order: Integers | None, out: NDArray[Any]) -> None:
    """`out = values[order]`."""
    if order is None:
        out[...] = values
    else:
        np.take(values, order, out=out, mode="clip")
