"""What rows are put in by ASE: its JSON, and the LMDB of the package `ase-db-backends`."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from molrec_convert.errors import UnsupportedError

__all__ = ["Backend", "JsonBackend", "LmdbBackend", "kind_of", "telling_the_disk"]

#: Ids that may be left out at most between two rows in LMDB, where each takes a moment and a number in a list.
_GAP = 1000
#: What the system refused, by SQLite's primary code.
_SQLITE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
}


def kind_of(target: Path) -> str:
    """The back end of a name: `db`, `json` or `aselmdb`. `UnsupportedError` where its package is not installed."""
    suffix = target.suffix.lower()
    if suffix == ".aselmdb" and importlib.util.find_spec("ase_db_backends") is None:
        raise UnsupportedError(
            f"{target} needs the package ase-db-backends, which is not installed: pip install ase-db-backends"
        )
    return {".json": "json", ".aselmdb": "aselmdb"}.get(suffix, "db")


@contextlib.contextmanager
def telling_the_disk(target: Path) -> Iterator[None]:
    """Raise what a database says of a system that refuses it as `OSError` of its file."""
    lmdb = sys.modules.get("lmdb")
    refusals = () if lmdb is None else (lmdb.Error,)
    try:
        yield
    except sqlite3.OperationalError as error:
        code = _SQLITE.get(error.sqlite_errorcode & 0xFF)
        if code is None:
            raise
        raise OSError(code, f"the database cannot be written ({error})", os.fspath(target)) from error
    except refusals as error:
        text = str(error)
        codes = (code for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) if os.strerror(code) in text)
        raise OSError(next(codes, errno.EIO), f"the database cannot be written ({text})", os.fspath(target)) from error


class Backend(ABC):
    """A new database."""

    #: Whether rows keep the time they were changed.
    keeps_times = False

    @abstractmethod
    def keeps_id(self, number: int) -> bool:
        """Whether the next row can have this id."""

    @abstractmethod
    def put(self, row: Any, number: int, pairs: dict[str, Any], data: dict[str, Any], mtime: float) -> None:
        """Write a row of ASE's."""

    @abstractmethod
    def describe(self, metadata: dict[str, Any]) -> None:
        """Write what the database says of itself."""

    @abstractmethod
    def close(self, *, complete: bool) -> None:
        """Close the file; it is `complete`, or to be thrown away."""


class JsonBackend(Backend):
    """A JSON text."""

    keeps_times = True

    def __init__(self, path: Path) -> None:
        from ase.db import connect

        path.touch()
        self._database = connect(str(path), type="json", use_lock_file=False)
        self._rows: dict[int, dict[str, Any]] = {}
        self._ids: list[int] = []
        # ASE reads and writes the whole file for every row; the rows are in memory until the end instead
        self._to_file = self._database._write_json
        self._database._read_json = self._state
        self._database._write_json = lambda rows, ids, following: None

    def keeps_id(self, number: int) -> bool:
        """See `Backend`."""
        return True

    def put(self, row: Any, number: int, pairs: dict[str, Any], data: dict[str, Any], mtime: float) -> None:
        """See `Backend`."""
        self._rows[number] = {}
        self._ids.append(number)
        self._database.write(row, pairs, data, id=number)
        self._rows[number]["mtime"] = mtime

    def describe(self, metadata: dict[str, Any]) -> None:
        """See `Backend`."""
        self._database.metadata = metadata

    def close(self, *, complete: bool) -> None:
        """See `Backend`."""
        if complete:
            self._to_file(*self._state())

    def _state(self) -> tuple[dict[int, dict[str, Any]], list[int], int]:
        return self._rows, self._ids, max(self._ids, default=0) + 1


class LmdbBackend(Backend):
    """A file of LMDB, whose rows are numbered from 1 on; numbers between are those of rows that were deleted."""

    def __init__(self, path: Path) -> None:
        from ase.db import connect

        self._path = path
        self._database = connect(str(path), type="aselmdb", use_lock_file=False)
        self._database.__enter__()
        self._next = 1
        self._gaps: list[int] = []

    def keeps_id(self, number: int) -> bool:
        """See `Backend`."""
        return 0 <= number - self._next <= _GAP

    def put(self, row: Any, number: int, pairs: dict[str, Any], data: dict[str, Any], mtime: float) -> None:
        """See `Backend`."""
        if self.keeps_id(number):
            for gap in range(self._next, number):
                self._database.write(None)
                self._gaps.append(gap)
            self._next = number
        self._database.write(row, pairs, data)
        self._next += 1

    def describe(self, metadata: dict[str, Any]) -> None:
        """See `Backend`."""
        self._database.metadata = metadata

    def close(self, *, complete: bool) -> None:
        """See `Backend`."""
        try:
            if complete and self._gaps:
                self._database.delete(self._gaps)
        finally:
            self._database.__exit__(None, None, None)
            Path(f"{self._path}-lock").unlink(missing_ok=True)
