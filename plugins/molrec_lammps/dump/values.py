"""Parsed values of a dump: columns of frames, and the words of text columns."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.rows import Words
from molrec_lammps.dump.rows import Columns, RowFault, kind_of

__all__ = ["BOUNDS", "Rows", "Vocabulary", "check_bounds", "new_column", "row_bytes"]

_DTYPES: dict[str, type] = {"integer": np.int64, "real": np.float64, "text": np.int32}
#: What integers can be, where a record cannot hold all of int64. Source: Record, "Standard names".
BOUNDS = {
    "id": (0, 2**63 - 1),
    "type": (0, 2**31 - 1),
    "ix": (-(2**31), 2**31 - 1),
    "iy": (-(2**31), 2**31 - 1),
    "iz": (-(2**31), 2**31 - 1),
}

Integers = NDArray[np.int64]


class Vocabulary:
    """The words of a text column, numbered as they are met. Threads may share it."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._numbers: dict[bytes, int] = {}
        self._lock = threading.Lock()

    def codes(self, column: Words) -> NDArray[np.int32]:
        """The numbers of a column's words."""
        with self._lock:
            for word in column.words:
                if word not in self._numbers:
                    self._numbers[word] = len(self.words)
                    self.words.append(_decoded(word))
            numbers = np.array([self._numbers[word] for word in column.words], dtype=np.int32)
        return numbers[column.codes] if len(numbers) else column.codes


@dataclass
class Rows:
    """Parsed rows of frames of the trajectory, one frame after the other, ids ascending in each.

    `frames` int64[n] are ordinals of the trajectory, `offset` int64[n+1] bounds their rows. `values` holds each column
    of the dump as int64, float64, or int32 codes of its vocabulary; `present` says of a column which frames have it (a
    column that is not in `present` is in all). `ids` are int64, None where the dump has none or all frames the same.
    """

    frames: Integers
    offset: Integers
    values: dict[str, NDArray[Any]]
    present: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    ids: Integers | None = None

    @property
    def counts(self) -> Integers:
        """Rows of each frame."""
        return np.diff(self.offset)

    def take(self, positions: Integers) -> Rows:
        """Some of the frames, by position; all of them have the same number of rows."""
        if len(positions) == len(self.frames):
            return self
        rows = int(self.offset[1]) if len(self.frames) else 0
        grid = {n: v.reshape(len(self.frames), rows)[positions].reshape(-1) for n, v in self.values.items()}
        present = {name: mask[positions] for name, mask in self.present.items()}
        return Rows(self.frames[positions], np.arange(len(positions) + 1, dtype=np.int64) * rows, grid, present)

    def mask(self, names: Iterable[str]) -> NDArray[np.bool_] | None:
        """Which rows have all the columns `names`; None: every one."""
        masks = [self.present[name] for name in names if name in self.present]
        return np.repeat(np.logical_and.reduce(masks), self.counts) if masks else None


def new_column(name: str, rows: int) -> NDArray[Any]:
    """An array for the values of a column; what is in it is not defined."""
    return np.empty(rows, dtype=_DTYPES[kind_of(name)])


def row_bytes(wanted: Collection[str]) -> int:
    """Bytes of one row of columns."""
    return max(8, sum(np.dtype(_DTYPES[kind_of(name)]).itemsize for name in wanted))


def check_bounds(columns: Columns, bounds: Mapping[str, tuple[int, int]]) -> None:
    """Refuse integers that a record cannot hold."""
    for name, (low, high) in bounds.items():
        values = columns.get(name)
        if values is None or not len(values) or (values.min() >= low and values.max() <= high):
            continue
        row = int(np.flatnonzero((values < low) | (values > high))[0])
        raise RowFault(row, f"{values[row]} ({name})", f"an integer from {low} to {high}")


def _decoded(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return word.decode("latin-1")
