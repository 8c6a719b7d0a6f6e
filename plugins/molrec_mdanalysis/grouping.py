"""Atoms of a record as the residues and segments MDAnalysis wants: worked out from the columns that name them.

A residue begins where one of the columns changes from atom to atom, a segment where one of them changes from residue
to residue; columns `resindex` and `segindex` state it outright. Atoms that only have a molecule number are one residue
a molecule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Column

__all__ = ["Groups", "groups_of"]

_RESIDUE = ("res_id", "res_seq", "icode", "res_name", "segid", "mol_id", "molnum", "moltype")


@dataclass
class Groups:
    """`resindex` int64[atoms], `segindex` int64[residues], `first` int64[residues]: the first atom of each."""

    resindex: NDArray[np.int64]
    segindex: NDArray[np.int64]
    first: NDArray[np.int64]

    @property
    def first_of_segment(self) -> NDArray[np.int64]:
        """The first atom of each segment."""
        return self.first[np.unique(self.segindex, return_index=True)[1]]


def groups_of(columns: Mapping[str, Column], count: int) -> Groups:
    """The residues and segments of `count` atoms."""
    if "resindex" in columns:
        resindex = np.unique(columns["resindex"].values, return_inverse=True)[1].astype(np.int64)
    elif "mol_id" in columns and not {"res_id", "res_seq"} & columns.keys():
        resindex = np.unique(columns["mol_id"].values, return_inverse=True)[1].astype(np.int64)
    else:
        names = [name for name in _RESIDUE if name in columns]
        if "segid" not in columns and "chain" in columns:
            names.append("chain")
        resindex = _runs(columns, names, np.arange(count, dtype=np.int64))
    first = np.unique(resindex, return_index=True)[1].astype(np.int64)
    if "segindex" in columns:
        segindex = np.unique(columns["segindex"].values[first], return_inverse=True)[1].astype(np.int64)
    else:
        name = next((name for name in ("segid", "chain") if name in columns), None)
        segindex = _runs(columns, [] if name is None else [name], first)
    return Groups(resindex, segindex, first)


def _runs(columns: Mapping[str, Column], names: list[str], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the run every row is in: a run ends where a column changes."""
    changed = np.zeros(len(rows), np.bool_)
    for name in names:
        values = columns[name].values[rows]
        changed[1:] |= values[1:] != values[:-1]
    return np.cumsum(changed).astype(np.int64)
