"""The bonds that the CONECT records of many small files state, all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block, Column
from molrec_convert.report import Report
from molrec_pdb.joined_lines import FileLines, set_apart
from molrec_pdb.lines import padded_rows
from molrec_pdb.numbers import integers, word

__all__ = ["FileBonds", "read_bonds"]

_BLANK = np.uint64(0x2020202020)
_TEXT = np.dtypes.StringDType()
Int = NDArray[np.int64]


@dataclass
class FileBonds:
    """Bonds of all files as rows of their file [n,2], how often each is stated at most, and where each file's begin."""

    pairs: Int
    most: Int
    bounds: list[int]
    columns: dict[str, NDArray[Any]]

    def of(self, number: int) -> tuple[Int, Int]:
        """Those of one file, as `conect_pairs` has them."""
        own = slice(self.bounds[number], self.bounds[number + 1])
        return self.pairs[own], self.most[own]

    def block(self, number: int, report: Report) -> Block | None:
        """The block `bonds` of a file whose bonds CONECT states alone, as `bond_block` has it."""
        own = slice(self.bounds[number], self.bounds[number + 1])
        if own.start == own.stop:
            return None
        columns = {name: Column(values[own]) for name, values in self.columns.items() if name != "bond_type"}
        highest = int(self.most[own].max())
        if highest > 1:
            columns["bond_type"] = Column(self.columns["bond_type"][own])
            report.converted("CONECT", "partners that stand several times have double and triple bonds")
            if highest > 3:
                report.dropped("CONECT", "partners that stand more than three times: the order of the bond is unknown")
        return Block(columns)


def read_bonds(data: Any, lines: FileLines, serials: Int) -> FileBonds:
    """The bonds of all files; `Apart` where a record holds anything but serials of two atoms of its file or more.

    `serials` are those of all atoms.
    """
    starts, ends = lines.scan.conect
    rows = padded_rows(data, starts, ends)
    fields = np.zeros((len(rows), 5), np.int64)
    there = np.zeros((len(rows), 5), np.bool_)
    odd = (rows[:, 31:61] != 32).any(axis=1)
    for place in range(5):
        column = 6 + 5 * place
        fields[:, place], there[:, place] = integers(rows, column, 5)
        odd |= ~there[:, place] & (word(rows, column, 5) != _BLANK)
    odd |= (fields < 0).any(axis=1)
    own_files = lines.conect_file
    set_apart(_of_files(own_files[odd], lines))
    # a serial with the number of its file is a key of its own
    files = np.repeat(np.arange(len(lines.first) - 1, dtype=np.int64), np.diff(lines.first))
    keys = files * 10**6 + serials
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]
    stated = there[:, 1:] & there[:, :1]
    file_of = np.broadcast_to(own_files[:, None], stated.shape)[stated]
    shift = file_of * 10**6
    ends_ = []
    for wanted in (np.broadcast_to(fields[:, :1], stated.shape)[stated], fields[:, 1:][stated]):
        low = np.searchsorted(ascending, wanted + shift, "left")
        found = np.searchsorted(ascending, wanted + shift, "right") - low
        set_apart(_of_files(file_of[found != 1], lines))
        ends_.append(order[low])
    one, other = ends_
    set_apart(_of_files(file_of[one == other], lines))
    count = np.int64(max(len(serials), 1))
    directed, counts = np.unique(one * count + other, return_counts=True)
    low, high = np.minimum(directed // count, directed % count), np.maximum(directed // count, directed % count)
    pairs, codes = np.unique(low * count + high, return_inverse=True)
    most = np.zeros(len(pairs), np.int64)
    np.maximum.at(most, codes, counts)
    ends_ = [pairs // count, pairs % count]
    shift = lines.first[files[ends_[0]]] if len(pairs) else np.zeros(0, np.int64)
    bounds = np.searchsorted(ends_[0], lines.first).tolist()
    own = np.stack([ends_[0] - shift, ends_[1] - shift], axis=1)
    columns: dict[str, NDArray[Any]] = {
        "atomi": own[:, 0].astype(np.uint64),
        "atomj": own[:, 1].astype(np.uint64),
        "kind": np.full(len(own), "conect", _TEXT),
        "bond_type": np.where(most <= 3, most, 0).astype(np.uint64),
    }
    return FileBonds(own, most, bounds, columns)


def _of_files(numbers: Int, lines: FileLines) -> NDArray[np.bool_]:
    """Which files are among some numbers."""
    found = np.zeros(len(lines.first) - 1, np.bool_)
    found[numbers] = True
    return found
