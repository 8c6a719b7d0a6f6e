"""Connections to databases of unknown origin, their blobs, and their survey: bounded by the file.

A schema may say anything: tables can be views that go on for ever, columns may be computed. ASE's are plain tables.
Source: SQLite, "Defense Against The Dark Arts" (https://sqlite.org/security.html).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.files.regular_files import check_regular
from molrec_convert.quantities.elements import SYMBOLS

__all__ = [
    "BLOBS",
    "REALS",
    "ROWS",
    "BlobKind",
    "Connection",
    "Table",
    "blob_values",
    "check_numbers",
    "connect",
    "look_at",
    "tables_of",
]

ROWS = "systems"
#: Steps of SQLite's machine between two looks, and what a query may take: so many, and so many for each byte.
_LOOK, _STEPS, _STEPS_PER_BYTE = 2**17, 20_000_000, 50
_SMALLEST_LIMIT = 2**20
_ORDINARY, _HIDDEN = "table", 6


class Connection(sqlite3.Connection):
    """A connection whose queries end: `sqlite3.OperationalError` ("interrupted") for one that takes too many steps."""

    def bound(self, size: int) -> None:
        """Bound what a query may take by the bytes of the database."""
        self._looks, self._most = 0, (_STEPS + _STEPS_PER_BYTE * size) // _LOOK
        self.set_progress_handler(self._look, _LOOK)
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(size, _SMALLEST_LIMIT), 2**31 - 1))

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection.execute`."""
        self._looks = 0
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError:
            # what SQLite says of a fault has the words of the schema
            raise sqlite3.DatabaseError("its schema is damaged, and no UTF-8") from None

    def _look(self) -> int:
        self._looks += 1
        return int(self._looks > self._most)


def connect(path: Path) -> Connection:
    """Return a connection that neither writes nor waits for a lock file; FormatError where there is no database."""
    status = path.stat()
    check_regular(path, status)
    name = quote(str(path.absolute()))
    beside = Path(f"{path}-wal")
    size = status.st_size + (beside.stat().st_size if beside.is_file() else 0)
    connection = _opened(f"file:{name}?mode=ro", size)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        connection = _opened(f"file:{name}?immutable=1", size)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise FormatError(path, found=f"no database ({error})", expected="a database of ASE") from None
    return connection


def _opened(uri: str, size: int) -> Connection:
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, factory=Connection)
    connection.bound(size)
    return connection


def tables_of(connection: sqlite3.Connection, path: Path) -> set[str]:
    """Return the names of the plain tables of a database.

    Raises `FormatError` where the rows are in none, or in columns that are computed.
    """
    # a name that is no UTF-8 is nobody's; a virtual table has no pages of its own
    query = "SELECT CAST(name AS BLOB) FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    names = {bytes(name).decode("utf-8", "replace") for (name,) in connection.execute(query) if name is not None}
    if ROWS not in names:
        raise FormatError(path, found=f"a database without the table {ROWS!r}", expected="a database of ASE")
    for column in connection.execute(f"PRAGMA table_xinfo({ROWS})"):
        if column[_HIDDEN]:
            raise FormatError(path, found=f"the computed column {column[1]!r:.40}", expected="a database of ASE")
    return names


@dataclass(frozen=True)
class BlobKind:
    """A column of blobs: the numbers it may have per atom, or per row; bytes of one; dtype of the usual ones."""

    per_atom: bool
    widths: tuple[int, ...]
    sizes: tuple[int, ...] = (8, 4)
    dtype: str = "<f8"


BLOBS = {
    "positions": BlobKind(True, (3,)),
    "momenta": BlobKind(True, (3,)),
    "forces": BlobKind(True, (3,)),
    "initial_magmoms": BlobKind(True, (1, 3)),
    "initial_charges": BlobKind(True, (1,)),
    "masses": BlobKind(True, (1,)),
    "magmoms": BlobKind(True, (1, 3)),
    "charges": BlobKind(True, (1,)),
    "cell": BlobKind(False, (9,)),
    "stress": BlobKind(False, (6,)),
    "dipole": BlobKind(False, (3,)),
    "tags": BlobKind(True, (1,), (4,), "<i4"),
}


def check_numbers(path: Path, blobs: Sequence[Any], ids: Sequence[int]) -> NDArray[np.int64]:
    """Return the atoms of rows by their atomic numbers. FormatError names the row where they are none."""
    if not set(map(type, blobs)) <= {bytes} or any(size % 4 for size in set(map(len, blobs))):
        for number, blob in zip(ids, blobs, strict=True):
            if not isinstance(blob, bytes) or len(blob) % 4:
                found = f"numbers of {len(blob)} bytes" if isinstance(blob, (bytes, str)) else "numbers of None bytes"
                raise FormatError(path, f"row id {number}", found=found, expected="4 bytes for each atom")
    return np.array(list(map(len, blobs)), np.int64) // 4


def blob_values(
    path: Path, name: str, width: int, blobs: Sequence[Any], ids: Sequence[int], counts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_] | None] | None:
    """Return the numbers of a column in rows of so many atoms, and who has it (None: everyone); None where no row has
    it.

    One line of `width` numbers for each atom, or row, zeros where there is no blob; without that axis where it is one
    number. FormatError names the row whose blob does not fit.
    """
    kind = BLOBS[name]
    owned = counts if kind.per_atom else np.ones(len(blobs), np.int64)
    there = None
    if None in blobs:
        there = np.array([blob is not None for blob in blobs])
        if not there.any():
            return None
    held = blobs if there is None else [blob for blob in blobs if blob is not None]
    expected = width * (owned if there is None else owned[there])
    try:
        data = b"".join(held)
    except TypeError:
        raise _misfit(path, name, width, blobs, ids, counts) from None
    sizes = np.array(list(map(len, held)), np.int64)
    size, *others = kind.sizes
    fits = sizes == size * expected
    if fits.all():
        values = np.frombuffer(data, kind.dtype)
    elif others and bool((fits | (sizes == 4 * expected)).all()):
        whole = (blob if fit else np.frombuffer(blob, "<f4") for blob, fit in zip(held, fits.tolist(), strict=True))
        values = np.frombuffer(b"".join(_wide(part) for part in whole), kind.dtype)
    else:
        raise _misfit(path, name, width, blobs, ids, counts)
    lines = values.reshape(-1, width) if width > 1 else values
    if there is None:
        return lines, None
    spread = np.zeros((int(owned.sum()), width) if width > 1 else int(owned.sum()), kind.dtype)
    spread[np.repeat(there, owned)] = lines
    return spread, there


def _wide(part: bytes | NDArray[np.float32]) -> bytes:
    return part if isinstance(part, bytes) else part.astype("<f8").tobytes()


def _misfit(
    path: Path, name: str, width: int, blobs: Sequence[Any], ids: Sequence[int], counts: NDArray[np.int64]
) -> FormatError:
    """Return the error of the first blob that does not fit."""
    kind = BLOBS[name]
    for number, blob, count in zip(ids, blobs, counts.tolist(), strict=True):
        lines = count if kind.per_atom else 1
        if blob is None or (isinstance(blob, bytes) and len(blob) in [size * width * lines for size in kind.sizes]):
            continue
        size = f"{len(blob)} bytes" if isinstance(blob, bytes) else f"type {type(blob).__name__}"
        expected = f"{kind.sizes[0] * width * lines} for {count} atoms"
        return FormatError(path, f"row id {number}", found=f"{name} of {size}", expected=expected)
    return FormatError(path, found=f"{name} that fit no number of atoms")


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
    """Return the table of a database, in which `no_data` stands where a row has none.

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
    """Return the atoms of each row, how many rows are of no elements, and whether they have the same atoms."""
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
    """Return the widths of the blobs that are there: of those a column may have the first that fits most rows."""
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
