"""Rows of databases that are not in SQLite: ASE's JSON, and the LMDB of the package `ase-db-backends`.

In LMDB a row is the JSON, compressed, of its id; beside the rows stand `nextid`, `deleted_ids` and `metadata`. Source:
`ase.db.jsondb`, `ase.db.row`, `ase_db_backends.aselmdb`.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from molrec_ase.beside import apart, put_back
from molrec_ase.chunk import Part
from molrec_ase.constraints import modern
from molrec_ase.names import ARRAYS, ATOM_RESULTS, RESULTS
from molrec_ase.parts import make_part
from molrec_ase.plain import from_plain, number_keys, parse_json
from molrec_ase.source import PartSource
from molrec_convert.errors import FormatError
from molrec_convert.files.json_text import read_json
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.file.pages import PageFile

__all__ = ["open_rows"]

_RESULTS = ("forces", *ATOM_RESULTS, *RESULTS)
_ARRAYS = (*ARRAYS, "momenta")
#: A text may be inflated to the first, and to this many times the bytes of the file.
_INFLATED, _GROWTH = 2**26, 64
_ENCODED = 8


def open_rows(path: Path, report: Report) -> PartSource:
    """The rows of a database, in the order of their ids. FormatError where it is none of ASE's."""
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
