"""One pass over all frames before any number is read: whether their atoms agree, and which fields are blank where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_pdb.atoms import Source, all_have_anisou, read_rows
from molrec_pdb.numbers import word
from molrec_pdb.trajectory import Layout

__all__ = ["Survey", "survey"]

_ROWS = 2**16
_BLANK = np.uint64(0x202020202020)
#: Placeholders as they stand in the columns from 55 and from 61 on.
_PLACEHOLDERS = {55: np.uint64(int.from_bytes(b"  1.00", "little")), 61: np.uint64(int.from_bytes(b"  0.00", "little"))}


@dataclass
class Survey:
    """`difference` says how a frame differs from the first, None where all have the same atoms."""

    layout: Layout
    difference: str | None


def survey(source: Source) -> Survey:
    """Look at all frames: counts, the columns that say what the atoms are, blanks in those that say how they are."""
    scan = source.scan
    counts = np.array([frame.stop - frame.start for frame in scan.frames])
    count, frames = int(counts[0]), len(counts)
    difference = None
    if (counts != count).any():
        other = int(np.argmax(counts != count))
        difference = f"frame {other} has {counts[other]} atoms, the first {count}"
    first = read_rows(source, 0, count).rows if frames > 1 and difference is None else None
    blanks = {55: [0, 0], 61: [0, 0]}
    placeholders = {55: "occupancy" in scan.placeholders, 61: "b_factor" in scan.placeholders}
    serials = False
    per = max(1, _ROWS // max(count, 1)) * count if first is not None and count else _ROWS
    total = len(scan.starts)
    for at in range(0, total, per):
        rows = read_rows(source, at, min(at + per, total))
        for column, tally in blanks.items():
            words = word(rows.rows, column - 1, 6)
            empty = int((words == _BLANK).sum())
            placeholders[column] &= bool((words == _PLACEHOLDERS[column]).all())
            tally[0] += empty
            tally[1] += len(rows.rows) - empty
        if first is None or difference is not None:
            continue
        shaped = rows.rows.reshape(-1, count, rows.rows.shape[1])
        differ = _differs(shaped, first)
        if differ.any():
            frame, row = (int(place) for place in np.argwhere(differ)[0])
            here = rows.text(frame * count + row, 1, 27)
            there = bytes(first[row, :27]).decode("latin-1")
            difference = f"frame {at // count + frame} has {here!r} where the first has {there!r}"
        serials |= bool((shaped[:, :, 4:12] != first[None, :, 4:12]).any())
    owned = len(np.unique(scan.anisou_row))
    layout = Layout(
        occupancy=blanks[55][1] > 0 and not placeholders[55], occupancy_nullable=blanks[55][0] > 0,
        b_factor=blanks[61][1] > 0 and not placeholders[61], b_factor_nullable=blanks[61][0] > 0,
        anisou=owned > 0, anisou_nullable=not all_have_anisou(source),
        serials=serials and difference is None,
        serials_nullable=serials and _starred(source, total),
    )  # fmt: skip
    return Survey(layout, difference)


def _differs(rows: NDArray[np.uint8], first: NDArray[np.uint8]) -> NDArray[np.bool_]:
    differ = np.zeros(rows.shape[:2], np.bool_)
    for start, stop in ((0, 4), (12, 27), (66, 80)):
        differ |= (rows[:, :, start:stop] != first[None, :, start:stop]).any(axis=2)
    return differ


def _starred(source: Source, total: int) -> bool:
    """Whether a serial may be unknown: whether one is anything but digits and blanks."""
    for at in range(0, total, _ROWS):
        field = read_rows(source, at, min(at + _ROWS, total)).rows[:, 6:11]
        if bool(((field != 32) & ((field < 48) | (field > 57))).any()):
            return True
    return False
