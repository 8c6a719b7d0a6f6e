"""Databases in JSON, and in LMDB as `ase-db-backends` has it: rows read and written."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import sqlite3
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from molrec_ase.chunk import Part, apart, joined, put_back
from molrec_ase.configuration import Configuration
from molrec_ase.databases.row_maker import RowMaker
from molrec_ase.names import ARRAYS, ATOM_RESULTS, CALCULATOR, CONSTRAINTS, DATA, RESULTS
from molrec_ase.parts import make_part
from molrec_ase.reading.source import PartSource
from molrec_ase.values import free_atoms, from_plain, modern, number_keys, parse_json, to_plain
from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.files.json_text import read_json
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.file.pages import PageFile

__all__ = ["Backend", "JsonBackend", "LmdbBackend", "OtherRowWriter", "kind_of", "open_rows", "telling_the_disk"]

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
    """Return the back end of a name: `db`, `json` or `aselmdb`. `UnsupportedError` where its package is not
    installed.
    """
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
        """True if the next row can have this id."""

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


_RESULTS = ("forces", *ATOM_RESULTS, *RESULTS)
_ARRAYS = (*ARRAYS, "momenta")
#: A text may be inflated to the first, and to this many times the bytes of the file.
_INFLATED, _GROWTH = 2**26, 64
_ENCODED = 8


def open_rows(path: Path, report: Report) -> PartSource:
    """Return the rows of a database, in the order of their ids. FormatError where it is none of ASE's."""
    rows = _LmdbRows(path) if path.name.lower().endswith(".aselmdb") else _JsonRows(path)

    def make(number: int) -> Part:
        index = rows.ids[number]
        try:
            return _part(index, rows.row(index), report)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise FormatError(path, f"row id {index}", found=f"a row that is not ASE's ({error})") from None

    return PartSource(len(rows.ids), make, path=str(path), metadata=rows.metadata, has_rows=True, close=rows.close)


class _JsonRows:
    """The rows of a database in JSON, all in memory."""

    def __init__(self, path: Path) -> None:
        try:
            document = read_json(path.read_bytes())
            ids = from_plain(document.get("ids", [1]))
            self.ids: list[int] = sorted(int(each) for each in ids)
            self._rows = {each: document[str(each)] for each in self.ids}
            self.metadata: dict[str, Any] = dict(number_keys(from_plain(document.get("metadata") or {})))
        except KeyError as error:
            raise FormatError(path, found=f"no row {error}", expected="a database of ASE") from None
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise FormatError(path, found=f"what ASE cannot read ({error})", expected="a database of ASE") from None

    def row(self, index: int) -> dict[str, Any]:
        """Return what the row of an id says."""
        return _row_of(self._rows[index])

    def close(self) -> None:
        """Let go of nothing: the file is closed."""


class _LmdbRows:
    """The rows of a database in LMDB, read one by one without mapping the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = PageFile(path)
        try:
            # a row takes no more memory than it could have been packed from
            self._most = _INFLATED + _GROWTH * path.stat().st_size
            following = self._read(b"nextid", 1)
            deleted = set(from_plain(self._read(b"deleted_ids", [])))
            if type(following) is not int or following - len(deleted) > self._file.entries + 1:
                found = f"rows up to {following} among {self._file.entries} keys"
                raise FormatError(path, found=found, expected="a database of ASE")
            self.ids = [each for each in range(1, following) if each not in deleted]
            self.metadata: dict[str, Any] = dict(number_keys(from_plain(self._read(b"metadata", {}))))
        except (ValueError, TypeError) as error:
            self._file.close()
            if isinstance(error, FormatError):
                raise
            raise FormatError(path, found=f"what ASE cannot read ({error})", expected="a database of ASE") from None
        except BaseException:
            self._file.close()
            raise

    def _read(self, key: bytes, default: Any = None) -> Any:
        """Return the document of a key."""
        packed = self._file.find(key)
        if packed is None:
            return default
        machine = zlib.decompressobj()
        try:
            text = machine.decompress(packed, self._most)
        except zlib.error as error:
            raise ValueError(f"damaged compressed text: {error}") from None
        if not machine.eof:
            raise ValueError("a compressed text that ends early, or is beyond all proportion to the file")
        return read_json(text.decode())

    def row(self, index: int) -> dict[str, Any]:
        """Return what the row of an id says."""
        return _row_of(self._read(str(index).encode()))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _row_of(document: Any) -> dict[str, Any]:
    """Return the values of a row, arrays made."""
    row = number_keys(from_plain(document))
    if not isinstance(row, dict) or "numbers" not in row:
        raise ValueError("it has no numbers")
    parameters = row.get("calculator_parameters")
    for _ in range(_ENCODED):
        # earlier versions of ASE encoded them again and again
        if not isinstance(parameters, str):
            break
        parameters = number_keys(parse_json(parameters))
    if parameters is not None:
        row["calculator_parameters"] = parameters
    return row


def _part(number: int, row: dict[str, Any], report: Report) -> Part:
    pairs = dict(row.pop("key_value_pairs", None) or {})
    data, beside = apart(dict(row.pop("data", None) or {}))
    constraints = row.pop("constraints", None)
    if isinstance(constraints, str):
        constraints = parse_json(constraints)
    every = {**pairs, **row}
    keys = {"id": number, "unique_id": every.get("unique_id"), "user": every.get("user")}
    keys.update({name: float(every[name]) for name in ("ctime", "mtime") if every.get(name) is not None})
    cell = row.get("cell", np.zeros((3, 3)))
    calculator = every.get("calculator")
    part = make_part(
        row["numbers"],
        row["positions"],
        cell["array"] if isinstance(cell, dict) else cell,
        row.get("pbc", np.zeros(3, np.bool_)),
        report=report,
        arrays=_there(row, pairs, _ARRAYS),
        results=_there(row, pairs, _RESULTS),
        constraints=modern(constraints or []),
        calculator=None if calculator is None else (str(calculator), every.get("calculator_parameters", {})),
        info={name: every[name] for name in pairs},
        data=data,
        row=keys,
    )
    return part if beside is None else put_back(part, beside)


def _there(row: dict[str, Any], pairs: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names if row.get(name) is not None and name not in pairs}


#: Names ASE's rows have a meaning for beside those it reserves.
_OWN = frozenset({"masses", "tags", "_keys", "_data", "_constraints", "_constrained_forces"})


class OtherRowWriter(RowMaker):
    """Writes rows through ASE; a context manager. The file is a new one; `kind` is `json` or `aselmdb`."""

    def __init__(self, path: Path, kind: str, report: Report, metadata: dict[str, Any] | None) -> None:
        super().__init__(report)
        self._backend: Backend = JsonBackend(path) if kind == "json" else LmdbBackend(path)
        if metadata is not None:
            if not _survives(metadata):
                report.converted("ase.metadata", "keys that are whole numbers: ASE reads them as numbers")
            self._backend.describe(metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend.close(complete=kind is None)

    def write(self, made: Configuration, meta: dict[str, Any], step: int) -> None:
        """One row. `meta` is what the record's meta says, `step` the number a reader would give the frame."""
        from ase.db.row import AtomsRow

        pairs, keys = self._pairs(made)
        without = list(made.without)
        number, unique = self._identity(made, without)
        self._stamps(made, number, without, keys)
        results = self._results(made)
        if "forces" in made.results:
            results["forces"] = made.results["forces"]
        row: dict[str, Any] = {
            "numbers": made.numbers,
            "positions": made.positions,
            "cell": made.cell,
            "pbc": made.pbc,
            "unique_id": unique,
            "ctime": made.row["ctime"],
            **made.arrays,
            **results,
        }
        if made.row.get("user") is not None:
            row["user"] = made.row["user"]
        self._calculator(made, row, keys)
        self._constraints(made, row, keys, without)
        data = made.data if made.data is not None else {}
        if not isinstance(data, dict) or not _survives(data):
            keys[DATA] = ["json", to_plain(data)]
            data = {}
        columns, beside = self._beside(made, meta, step, keys, without, results)
        data = joined(data, columns, beside)
        self._backend.put(AtomsRow(row), number, pairs, data, made.row["mtime"])

    def _is_pair(self, name: str, value: Any) -> bool:
        """See `RowMaker`; names that are those of a row's own things would hide them from ASE."""
        from ase.db.row import AtomsRow

        if not super()._is_pair(name, value):
            return False
        if name in _OWN or hasattr(AtomsRow, name):
            self._report.converted(f"key {name}", "no key-value pair, as ASE's rows have that name for something else")
            return False
        return True

    def _stamps(self, made: Configuration, number: int, without: list[str], keys: dict[str, Any]) -> None:
        """What the back end decides by itself is kept beside the row."""
        if not self._backend.keeps_times and "mtime" not in without:
            keys["mtime"] = ["f64", _typed(made.row["mtime"])]
            self._report.converted("mtime", "ASE states the time of writing; the own one is beside the row")
        if not self._backend.keeps_id(number) and "id" not in without:
            keys["id"] = ["i64", number]
            self._report.converted("id", "LMDB of ASE counts its rows; the own number is beside the row")

    def _calculator(self, made: Configuration, row: dict[str, Any], keys: dict[str, Any]) -> None:
        if made.calculator is None:
            return
        name, parameters = made.calculator
        row["calculator"] = name
        row["calculator_parameters"] = parameters
        if isinstance(parameters, str) or not _survives(parameters):
            row["calculator_parameters"] = {}
            keys[CALCULATOR] = ["json", {"name": name, "parameters": to_plain(parameters)}]

    def _constraints(self, made: Configuration, row: dict[str, Any], keys: dict[str, Any], without: list[str]) -> None:
        if not made.constraints:
            return
        again = _made_again(made.constraints)
        if again is not None:
            row["constraints"] = made.constraints
            if again == to_plain(made.constraints):
                return
        else:
            self._report.converted("ase.constraints", "beside the rows: ASE cannot make all of them")
            free = free_atoms(made.constraints, len(made.numbers))
            if free is not None and "free" not in without:
                made.others.setdefault("free", free)
        if CONSTRAINTS not in without:
            keys[CONSTRAINTS] = ["json", to_plain(made.constraints)]


def _typed(value: float) -> Any:
    from molrec_convert.model.tags import to_typed_json

    return to_typed_json(value, "f64", "mtime")


def _survives(value: Any) -> bool:
    """True if ASE's JSON gives a value back as it is."""
    from ase.io.jsonio import decode, encode

    try:
        return bool(to_plain(decode(encode({"value": value}))["value"]) == to_plain(value))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return False


def _made_again(constraints: list[dict[str, Any]]) -> Any:
    """Return what constraints are after ASE made them of their description, as a document; None where it cannot."""
    from ase.constraints import dict2constraint
    from ase.io.jsonio import decode, encode

    try:
        made = [dict2constraint({"name": c["name"], "kwargs": dict(c["kwargs"])}).todict() for c in constraints]
        return to_plain(decode(encode({"value": made}))["value"])
    except Exception:  # whatever its classes raise at arguments that are not theirs
        return None
