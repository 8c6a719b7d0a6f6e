"""Connections to databases of unknown origin: nothing is written, no query or value goes far beyond the file.

A schema may say anything: tables can be views that go on for ever, columns may be computed. ASE's are plain tables.
Source: SQLite, "Defense Against The Dark Arts" (https://sqlite.org/security.html).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from molrec_convert.errors import FormatError
from molrec_convert.files.regular_files import check_regular

__all__ = ["ROWS", "Connection", "connect", "tables_of"]

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
