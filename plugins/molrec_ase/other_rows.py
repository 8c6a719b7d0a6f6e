"""Rows of databases that are not in SQLite, read by ASE: JSON, LMDB, and what else a package of ASE's brings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molrec_ase.beside import apart, put_back
from molrec_ase.chunk import Part
from molrec_ase.constraints import modern
from molrec_ase.names import ARRAYS, ATOM_RESULTS, RESULTS
from molrec_ase.parts import make_part
from molrec_ase.plain import parse_json
from molrec_ase.source import PartSource
from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.report import Report

__all__ = ["open_rows"]

_RESULTS = ("forces", *ATOM_RESULTS, *RESULTS)
_ARRAYS = (*ARRAYS, "momenta")


def open_rows(path: Path, report: Report) -> PartSource:
    """The rows of a database, in the order of their ids. FormatError where ASE cannot read it."""
    metadata, rows = _rows(path)

    def make(number: int) -> Part:
        row = rows[number]
        try:
            return _part(row, report)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError(path, f"row id {row.get('id')}", found=f"a row that is not ASE's ({error})") from None

    return PartSource(len(rows), make, path=str(path), metadata=metadata, has_rows=True)


def _rows(path: Path) -> tuple[dict[str, Any], list[Any]]:
    from ase.db import connect

    kind = "aselmdb" if path.name.lower().endswith(".aselmdb") else "json"
    options = {"readonly": True} if kind == "aselmdb" else {}
    try:
        database = connect(str(path), type=kind, use_lock_file=False, **options)
    except (ImportError, AssertionError, KeyError) as error:
        raise UnsupportedError(
            f"{path} needs the package ase-db-backends, which is not installed: pip install ase-db-backends"
        ) from error
    try:
        with database:
            # ASE looks at damaged rows only when they are taken
            rows = sorted(database.select(include_data=True), key=lambda row: int(row.id))
            metadata = dict(database.metadata or {})
    except Exception as error:  # whatever ASE and its packages raise at what is not theirs
        raise FormatError(path, found=f"what ASE cannot read ({error})", expected="a database of ASE") from None
    return metadata, rows


def _part(row: Any, report: Report) -> Part:
    data, beside = apart(dict(_data(row)))
    constraints = row._constraints
    if isinstance(constraints, str):
        constraints = parse_json(constraints)
    keys = {"id": int(row.id), "unique_id": row.get("unique_id"), "user": row.get("user")}
    keys.update({name: float(row.get(name)) for name in ("ctime", "mtime") if row.get(name) is not None})
    part = make_part(
        row.numbers,
        row.positions,
        row.cell,
        row.pbc,
        report=report,
        arrays=_there(row, _ARRAYS),
        results=_there(row, _RESULTS),
        constraints=modern(constraints or []),
        calculator=_calculator(row),
        info=row.key_value_pairs,
        data=data,
        row=keys,
    )
    return part if beside is None else put_back(part, beside)


def _data(row: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = row.data
    return found


def _there(row: Any, names: tuple[str, ...]) -> dict[str, Any]:
    own = row.key_value_pairs
    return {name: row.get(name) for name in names if name in row and name not in own and row.get(name) is not None}


def _calculator(row: Any) -> tuple[str, Any] | None:
    name = row.get("calculator")
    return None if name is None else (str(name), row.get("calculator_parameters", {}))
