"""What there is in a database, found without reading the arrays: which rows have which column, and how wide.

A blob says neither dtype nor shape; both follow from its length and the number of atoms.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError

__all__ = ["BLOBS", "REALS", "BlobFacts", "Table", "look_at"]

#: Column → values per atom (0: per configuration), values of it.
BLOBS: dict[str, tuple[tuple[int, ...], int]] = {
    "positions": ((3,), 0),
    "momenta": ((3,), 0),
    "forces": ((3,), 0),
    "initial_magmoms": ((1, 3), 0),
    "initial_charges": ((1,), 0),
    "masses": ((1,), 0),
    "magmoms": ((1, 3), 0),
    "charges": ((1,), 0),
    "cell": ((), 9),
    "stress": ((), 6),
    "dipole": ((), 3),
}
REALS = ("energy", "free_energy", "magmom")


@dataclass
class BlobFacts:
    """A column of blobs: which rows have it, its width, which rows hold numbers of 4 bytes."""

    there: NDArray[np.bool_]
    width: int
    single: NDArray[np.bool_]


@dataclass
class Table:
    """The rows of a database in the order of their ids."""

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    blobs: dict[str, BlobFacts] = field(default_factory=dict)
    tags: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    reals: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


def look_at(connection: sqlite3.Connection, path: Path) -> Table:
    """The table of a database. FormatError names the row whose arrays do not fit its number of atoms."""
    names = [*BLOBS, "tags"]
    lengths = ", ".join(f"coalesce(length({name}), -1)" for name in ("numbers", *names))
    there = ", ".join(f"{name} IS NOT NULL" for name in REALS)
    query = f"SELECT id, {lengths}, {there} FROM systems ORDER BY id"
    width = 2 + len(names) + len(REALS)
    columns = np.array(connection.execute(query).fetchall(), np.int64).reshape(-1, width).T.copy()
    ids, atoms = columns[0], columns[1]
    wrong = np.flatnonzero((atoms < 0) | (atoms % 4 != 0))
    if len(wrong):
        number, size = int(ids[wrong[0]]), int(atoms[wrong[0]])
        found = f"numbers of {size if size >= 0 else None} bytes"
        raise FormatError(path, f"row id {number}", found=found, expected="4 bytes for each atom")
    counts = atoms // 4
    table = Table(ids, counts)
    for name, sizes in zip(names, columns[2:], strict=False):
        if name == "tags":
            _check(path, ids, name, sizes, counts * 4, counts)
            table.tags = sizes >= 0
        else:
            facts = _facts(path, ids, counts, name, sizes)
            if facts.there.any():
                table.blobs[name] = facts
    for name, entry in zip(REALS, columns[2 + len(names) :], strict=True):
        table.reals[name] = entry.astype(np.bool_)
    return table


def _facts(
    path: Path, ids: NDArray[np.int64], counts: NDArray[np.int64], name: str, sizes: NDArray[np.int64]
) -> BlobFacts:
    widths, whole = BLOBS[name]
    there = sizes >= 0
    candidates = [counts * width for width in widths] or [np.full(len(counts), whole)]
    # rows without atoms fit every width
    telling = there & (counts > 0) if widths else there
    for numbers, width in zip(candidates, widths or (whole,), strict=True):
        fits = (sizes == 8 * numbers) | (sizes == 4 * numbers)
        if bool(fits[telling].all()):
            single = telling & (sizes == 4 * numbers) & (numbers > 0)
            _check(path, ids, name, sizes, np.where(single, 4, 8) * numbers, counts)
            return BlobFacts(there, width, single)
    _check(path, ids, name, sizes, 8 * candidates[-1], counts)
    raise FormatError(path, found=f"{name} that fit no number of atoms")


def _check(
    path: Path,
    ids: NDArray[np.int64],
    name: str,
    sizes: NDArray[np.int64],
    expected: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    wrong = np.flatnonzero((sizes >= 0) & (sizes != expected))
    if len(wrong):
        row = int(wrong[0])
        raise FormatError(
            path,
            f"row id {int(ids[row])}",
            found=f"{name} of {int(sizes[row])} bytes",
            expected=f"{int(expected[row])} for {int(counts[row])} atoms",
        )
