"""What there is in a database, found without reading the arrays: how many rows have which column, and how wide it is.

A blob says neither dtype nor shape; both follow from its length and the number of atoms.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_ase.sqlite_blobs import BLOBS
from molrec_convert.quantities.elements import SYMBOLS

__all__ = ["REALS", "Table", "look_at"]

REALS = ("energy", "free_energy", "magmom")
#: Rows whose atomic numbers are looked at together.
_ROWS = 4096


@dataclass
class Table:
    """The rows of a database in the order of their ids.

    `counts` has the atoms of each, `owners` how many rows have a column, `widths` the values of a blob per atom, or
    per row where it is one of the configuration. `strange` rows have an atomic number that is no element's; `same`
    says whether the atomic numbers are the same in all; `having_data` rows hold more data than that.
    """

    counts: NDArray[np.int64]
    owners: dict[str, int]
    widths: dict[str, int]
    strange: int
    same: bool
    having_data: int


def look_at(connection: sqlite3.Connection, no_data: Collection[str | bytes | None]) -> Table:
    """The table of a database, in which `no_data` stands where a row has none.

    A row whose arrays do not fit its number of atoms is at fault when it is read.
    """
    counts, strange, same = _numbers(connection)
    nothing = [value for value in no_data if value is not None]
    having = f"coalesce(sum(data NOT IN ({', '.join('?' * len(nothing))})), 0)"
    names = (*REALS, *BLOBS)
    query = f"SELECT {', '.join(f'count({name})' for name in names)}, {having} FROM systems"
    (found,) = connection.execute(query, nothing)
    owners = dict(zip(names, found, strict=False))
    return Table(counts, owners, _widths(connection, owners), strange, same, found[-1])


def _numbers(connection: sqlite3.Connection) -> tuple[NDArray[np.int64], int, bool]:
    """The atoms of each row, how many rows are of no elements, and whether they have the same atoms."""
    every: list[NDArray[np.int64]] = []
    strange, same, first = 0, True, None
    cursor = connection.execute("SELECT numbers FROM systems ORDER BY id")
    while rows := cursor.fetchmany(_ROWS):
        blobs = [blob if type(blob) is bytes and not len(blob) % 4 else b"" for (blob,) in rows]
        counts = np.array(list(map(len, blobs)), np.int64) // 4
        every.append(counts)
        first = blobs[0] if first is None else first
        same = same and blobs.count(first) == len(blobs)
        kinds = np.frombuffer(b"".join(blobs), "<i4")
        odd = (kinds < 1) | (kinds >= len(SYMBOLS))
        if odd.any():
            strange += len(np.unique(np.repeat(np.arange(len(blobs)), counts)[odd]))
    return np.concatenate(every) if every else np.zeros(0, np.int64), strange, same


def _widths(connection: sqlite3.Connection, owners: Mapping[str, int]) -> dict[str, int]:
    """The widths of the blobs that are there: of those a column may have the first that fits most rows."""
    tried = [(name, width) for name, kind in BLOBS.items() if owners[name] for width in kind.widths]
    if not tried:
        return {}
    # sums over lengths: no row leaves the database; the atomic numbers take 4 bytes each
    asked = []
    for name, width in tried:
        kind = BLOBS[name]
        sizes = [
            f"{size * width // 4} * length(numbers)" if kind.per_atom else f"{size * width}" for size in kind.sizes
        ]
        asked.append(f"sum(length({name}) NOT IN ({', '.join(sizes)}))")
    (found,) = connection.execute(f"SELECT {', '.join(asked)} FROM systems")
    fewest: dict[str, tuple[int, int]] = {}
    for (name, width), misfits in zip(tried, found, strict=True):
        if name not in fewest or (misfits or 0) < fewest[name][0]:
            fewest[name] = misfits or 0, width
    return {name: width for name, (_, width) in fewest.items()}
