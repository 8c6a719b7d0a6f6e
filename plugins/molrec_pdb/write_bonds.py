"""Bonds as CONECT records: each at both of its atoms, partners of double and triple bonds repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block
from molrec_convert.report import Report
from molrec_pdb.write_rows import Rows

__all__ = ["conect_records"]

_WIDTH = 81


def conect_records(bonds: Block, rows: Rows, lines: Sequence[str], report: Report) -> bytes:
    """The records of a block of bonds; those SSBOND and LINK lines state by themselves are left to these."""
    first, second = bonds.stored("atomi").astype(np.int64), bonds.stored("atomj").astype(np.int64)
    chosen = _chosen(bonds, lines, report)
    orders = _orders(bonds, chosen, report)
    numbers = rows.serial_numbers
    nameless = ~rows.known
    several = np.unique(numbers[rows.known], return_counts=True)
    nameless |= np.isin(numbers, several[0][several[1] > 1])
    unfit = chosen & (nameless[first] | nameless[second])
    if unfit.any():
        report.dropped("bonds", f"{int(unfit.sum())} bonds of atoms without a serial of their own")
        chosen &= ~unfit
    one = np.concatenate([first[chosen], second[chosen]])
    other = np.concatenate([second[chosen], first[chosen]])
    times = np.concatenate([orders[chosen]] * 2)
    one, other = np.repeat(one, times), np.repeat(other, times)
    order = np.lexsort((other, one))
    one, other = one[order], other[order]
    if not len(one):
        return b""
    begins = np.flatnonzero(np.concatenate([[True], one[1:] != one[:-1]]))
    within = np.arange(len(one)) - np.repeat(begins, np.diff(np.append(begins, len(one))))
    starts = within % 4 == 0
    record = np.cumsum(starts) - 1
    records: NDArray[np.uint8] = np.full((int(record[-1]) + 1, _WIDTH), 32, np.uint8)
    records[:, 80] = 10
    records[:, :6] = np.frombuffer(b"CONECT", np.uint8)
    records[:, 6:11] = rows.serials[one[starts]]
    for place in range(4):
        here = within % 4 == place
        records[record[here], 11 + 5 * place : 16 + 5 * place] = rows.serials[other[here]]
    return records.tobytes()


def _chosen(bonds: Block, lines: Sequence[str], report: Report) -> NDArray[Any]:
    """The bonds that need a record: all, or those of CONECT where lines state the others."""
    if "kind" not in bonds.columns:
        return np.ones(bonds.count, np.bool_)
    kinds: NDArray[Any] = bonds.stored("kind")
    stated: NDArray[np.bool_] = np.strings.find(kinds, "conect") >= 0
    if stated.all():
        return stated
    if any(line.upper().startswith(("SSBOND", "LINK")) for line in lines):
        return stated
    report.converted("bonds/kind", "bonds of other records become CONECT records: no lines state them")
    return np.ones(bonds.count, np.bool_)


def _orders(bonds: Block, chosen: NDArray[np.bool_], report: Report) -> NDArray[np.int64]:
    """How often each partner stands in its record."""
    if "bond_type" not in bonds.columns:
        return np.ones(bonds.count, np.int64)
    orders = bonds.stored("bond_type").astype(np.int64)
    own = orders[chosen]
    if (own > 3).any():
        report.dropped("bonds/bond_type", "aromatic bonds: partners of double and triple bonds only are repeated")
    repeated = bool(((own == 2) | (own == 3)).any())
    if (own == 1).any() and not repeated:
        report.dropped("bonds/bond_type", "single bonds: records of a file without others leave the order open")
    if (own == 0).any() and repeated:
        report.dropped("bonds/bond_type", "unknown orders: beside double bonds they are taken as single")
    return np.where((orders == 2) | (orders == 3), orders, 1)
