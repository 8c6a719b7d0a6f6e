"""Rows of databases that are not in SQLite, written by ASE's own back ends: JSON, and LMDB of `ase-db-backends`.

Both keep a row as JSON, which ASE reads back with changes: keys that are whole numbers become numbers, constraints are
made anew. What would change is kept in the row's data under the key `molrec` as well, where the reader takes it from.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from molrec_ase.backends import Backend, JsonBackend, LmdbBackend
from molrec_ase.beside import joined
from molrec_ase.configuration import Configuration
from molrec_ase.constraints import free_atoms
from molrec_ase.names import CALCULATOR, CONSTRAINTS, DATA
from molrec_ase.plain import to_plain
from molrec_ase.row_maker import RowMaker
from molrec_convert.report import Report

__all__ = ["OtherRowWriter"]

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
    """Whether ASE's JSON gives a value back as it is."""
    from ase.io.jsonio import decode, encode

    try:
        return bool(to_plain(decode(encode({"value": value}))["value"]) == to_plain(value))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return False


def _made_again(constraints: list[dict[str, Any]]) -> Any:
    """What constraints are after ASE made them of their description, as a document; None where it cannot."""
    from ase.constraints import dict2constraint
    from ase.io.jsonio import decode, encode

    try:
        made = [dict2constraint({"name": c["name"], "kwargs": dict(c["kwargs"])}).todict() for c in constraints]
        return to_plain(decode(encode({"value": made}))["value"])
    except Exception:  # whatever its classes raise at arguments that are not theirs
        return None
