"""Bonds of CONECT, SSBOND and LINK records.

CONECT states a bond at both of its atoms; a partner that stands twice or three times at one atom has a double or triple
bond, in files that do so at all. Source: Contents Guide 3.3, "CONECT".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block, Column
from molrec_convert.report import Report
from molrec_pdb.header import Link
from molrec_pdb.identity import Identity
from molrec_pdb.lines import integers, padded_rows, word
from molrec_pdb.numbering import decode_hybrid36

__all__ = ["bond_block", "conect_pairs"]

_BLANK = np.uint64(0x2020202020)
Int = NDArray[np.int64]


def conect_pairs(data: Any, starts: Int, ends: Int, identity: Identity, report: Report) -> tuple[Int, Int]:
    """Return bonds as rows [n,2], the smaller first and sorted, and how often each is stated at one atom at most."""
    rows = padded_rows(data, starts, ends)
    serials = np.zeros((len(rows), 5), np.int64)
    there = np.zeros((len(rows), 5), np.bool_)
    for place in range(5):
        column = 6 + 5 * place
        serials[:, place], there[:, place] = integers(rows, column, 5)
        for row in np.flatnonzero(~there[:, place] & (word(rows, column, 5) != _BLANK)).tolist():
            try:
                serials[row, place] = decode_hybrid36(bytes(rows[row, column : column + 5]).decode("latin-1"), 5)
                there[row, place] = True
            except ValueError:
                report.dropped("CONECT", "fields that hold no serial")
    if bool((rows[:, 31:61] != 32).any()):
        report.dropped("CONECT", "columns 32-61, hydrogen bonds and salt bridges of earlier versions")
    stated = there[:, 1:] & there[:, :1]
    one = np.broadcast_to(serials[:, :1], (len(rows), 4))[stated]
    other = serials[:, 1:][stated]
    places = np.stack([_rows_of(one, identity, report), _rows_of(other, identity, report)], axis=1)
    places = places[(places >= 0).all(axis=1)]
    if bool((places[:, 0] == places[:, 1]).any()):
        report.dropped("CONECT", "bonds of an atom with itself")
        places = places[places[:, 0] != places[:, 1]]
    count = np.int64(max(len(identity.serials.raw), 1))
    directed, counts = np.unique(places[:, 0] * count + places[:, 1], return_counts=True)
    first, second = directed // count, directed % count
    keys = np.minimum(first, second) * count + np.maximum(first, second)
    pairs, codes = np.unique(keys, return_inverse=True)
    most = np.zeros(len(pairs), np.int64)
    np.maximum.at(most, codes, counts)
    return np.stack([pairs // count, pairs % count], axis=1), most


def _rows_of(serials: Int, identity: Identity, report: Report) -> Int:
    """Return the row of each serial, -1 where no atom has it or several have."""
    known = np.flatnonzero(identity.serials.known)
    raw = identity.serials.raw[known]
    order = np.argsort(raw, kind="stable")
    ascending = raw[order]
    low, high = np.searchsorted(ascending, serials, "left"), np.searchsorted(ascending, serials, "right")
    found = high - low
    missing, several = int((found == 0).sum()), int((found > 1).sum())
    if missing:
        report.warn("bonds to serials that no atom has stand in CONECT: they are left out")
    if several:
        report.dropped("CONECT", "bonds of serials that several atoms have")
    if not len(known):
        return np.full(len(serials), -1, np.int64)
    return np.where(found == 1, known[order[np.minimum(low, len(order) - 1)]], -1).astype(np.int64)


def _link_pairs(links: Sequence[Link], identity: Identity, report: Report) -> dict[tuple[int, int], Link]:
    """Return the bonds that SSBOND and LINK records and connections state, by their rows."""
    if not links:
        return {}
    numbers = identity.residues.raw
    wanted = {partner[1] for link in links for partner in link.partners}
    rows = np.flatnonzero(np.isin(numbers, list(wanted)) & identity.residues.known)
    columns = identity.columns

    def texts(key: str) -> list[str]:
        return columns[key].values[rows].tolist() if key in columns else [""] * len(rows)

    atoms: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    described = zip(
        rows.tolist(), texts("chain"), numbers[rows].tolist(), texts("icode"), texts("res_name"), texts("name"),
        texts("altloc"), strict=True,
    )  # fmt: skip
    for row, chain, number, icode, residue, name, altloc in described:
        atoms.setdefault((chain, number, icode, residue, name), []).append((row, altloc))
    found: dict[tuple[int, int], Link] = {}
    lost = 0
    for link in links:
        ends = []
        for partner in link.partners:
            candidates = atoms.get(partner[:5], [])
            fitting = [row for row, altloc in candidates if altloc == partner[5]] or [row for row, _ in candidates]
            ends += fitting[:1]
        if len(ends) == 2 and ends[0] != ends[1]:
            found.setdefault((min(ends), max(ends)), link)
        else:
            lost += 1
    if lost:
        report.warn(f"{lost} SSBOND and LINK records name atoms that are not there: kept as text only")
    return found


def bond_block(pairs: Int, counts: Int, links: Sequence[Link], identity: Identity, report: Report) -> Block | None:
    """Return the block `bonds`: what CONECT states joined with SSBOND and LINK; None where nothing states a bond."""
    linked = _link_pairs(links, identity, report)
    if not len(pairs) and not linked:
        return None
    size = np.int64(max(len(identity.serials.raw), 1))
    keys = pairs[:, 0] * size + pairs[:, 1] if len(pairs) else np.zeros(0, np.int64)
    others = np.array(sorted(one * int(size) + other for one, other in linked), np.int64)
    every = np.unique(np.concatenate([keys, others]))
    kinds = np.full(len(every), "conect", np.dtypes.StringDType())
    places = np.searchsorted(every, others)
    of_conect = np.isin(others, keys)
    for place, key, both in zip(places.tolist(), others.tolist(), of_conect.tolist(), strict=True):
        kind = linked[key // int(size), key % int(size)].kind
        kinds[place] = f"conect+{kind}" if both else kind
    columns: dict[str, Column] = {
        "atomi": Column((every // size).astype(np.uint64)),
        "atomj": Column((every % size).astype(np.uint64)),
        "kind": Column(kinds),
    }
    if len(counts) and int(counts.max()) > 1:
        orders = np.zeros(len(every), np.uint64)
        orders[np.searchsorted(every, keys)] = np.where(counts <= 3, counts, 0)
        columns["bond_type"] = Column(orders)
        report.converted("CONECT", "partners that stand several times have double and triple bonds")
        if int(counts.max()) > 3:
            report.dropped("CONECT", "partners that stand more than three times: the order of the bond is unknown")
    ordered = [(row, link.order) for row, link in linked.items() if link.order]
    if ordered:
        orders = columns["bond_type"].values if "bond_type" in columns else np.zeros(len(every), np.uint64)
        found = [one * int(size) + other for (one, other), _ in ordered]
        orders[np.searchsorted(every, found)] = [order for _, order in ordered]
        columns["bond_type"] = Column(orders)
    return Block(columns)
