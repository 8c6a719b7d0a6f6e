"""Some of the atoms of a system, with the relations among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block, Column, Frame
from molrec_convert.model.frame import references

__all__ = ["selected"]


def selected(system: Frame, rows: NDArray[np.int64]) -> Frame:
    """The system of the atoms in these rows, in their order; relations that reach beyond them are left out."""
    count = system["atoms"].count
    if np.array_equal(rows, np.arange(count)):
        return system
    place = np.full(count, -1, np.int64)
    place[rows[::-1]] = np.arange(len(rows))[::-1]
    blocks = {"atoms": _taken(system["atoms"], rows)}
    for name, block in system.blocks.items():
        if name == "atoms":
            continue
        ends = [column for column in references(block.columns, block.targets) if column in block.columns]
        inside = np.ones(block.count, np.bool_)
        for end in ends:
            inside &= place[block.stored(end).astype(np.int64)] >= 0
        kept = _taken(block, np.flatnonzero(inside))
        for end in ends:
            values = place[kept.stored(end).astype(np.int64)].astype(np.uint64)
            kept.columns[end] = Column(values, kept.columns[end].validity)
        if kept.count:
            blocks[name] = kept
    return Frame(blocks, system.meta)


def _taken(block: Block, rows: NDArray[np.int64]) -> Block:
    columns = {
        name: Column(column.values[rows], None if column.validity is None else column.validity[rows], column.precision)
        for name, column in block.columns.items()
    }
    return Block(columns, count=len(rows), targets=block.targets)
