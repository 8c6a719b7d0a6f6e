"""Rows of a database in SQLite, written as ASE writes them: schema version 9.

Numbers go in as their bytes; nothing passes through `Atoms`. Source: `ase.db.sqlite`.
"""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from molrec_ase.beside import joined
from molrec_ase.chunk import has_bits
from molrec_ase.configuration import Configuration
from molrec_ase.constraints import free_atoms
from molrec_ase.data_blob import write_data
from molrec_ase.names import DATA, foreign_name, key_name
from molrec_ase.parts import table_masses
from molrec_ase.plain import to_plain
from molrec_convert.model.tags import to_typed_json
from molrec_convert.report import Report

__all__ = ["RowWriter"]

_WORD = re.compile(r"[_a-zA-Z][_0-9a-zA-Z]*$")
_NATIVE = ("bool", "i64", "f64", "string")


class RowWriter:
    """Writes rows in one transaction; a context manager. The file is a new one."""

    def __init__(self, path: Path, report: Report, metadata: dict[str, Any] | None) -> None:
        from ase.db.sqlite import index_statements, init_statements

        self._report = report
        self._ids: set[int] = set()
        self._last = 0
        self._uniques: set[str] = set()
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._index = index_statements
        run = self._connection.execute
        run("PRAGMA synchronous = OFF")
        run("BEGIN")
        for statement in init_statements:
            run(statement)
        if metadata is not None:
            run("INSERT INTO information VALUES ('metadata', ?)", (json.dumps(metadata),))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for statement in self._index:
                    self._connection.execute(statement)
                self._connection.execute("COMMIT")
        finally:
            self._connection.close()

    def write(self, made: Configuration, meta: dict[str, Any], step: int) -> None:
        """One row. `meta` is what the record's meta says, `step` the number a reader would give the frame."""
        pairs, keys = self._pairs(made)
        without = list(made.without)
        number, unique = self._identity(made, without)
        tags = made.arrays.get("tags")
        if tags is not None and tags.size and (int(tags.max()) > 2**31 - 1 or int(tags.min()) < -(2**31)):
            made.others["tags"] = made.arrays.pop("tags")
            self._report.converted("atoms/tags", "beside the rows: they do not fit the 32 bits ASE has for them")
        results = self._results(made)
        columns, beside = self._beside(made, meta, step, keys, without, results)
        data = made.data if made.data is not None else {}
        if not isinstance(data, dict):
            beside["keys"] = {**beside.get("keys", {}), DATA: ["json", to_plain(data)]}
            data = {}
        data = joined(data, columns, beside)
        calculator = made.calculator
        with np.errstate(all="ignore"):
            helpers = _helpers(made, results)
        row = (
            number, unique, made.row["ctime"], made.row["mtime"], made.row.get("user"),
            _blob(made.numbers, "<i4"), _blob(made.positions), _blob(made.cell),
            int(np.dot(made.pbc, [1, 2, 4])), _blob(made.arrays.get("initial_magmoms")),
            _blob(made.arrays.get("initial_charges")), _blob(made.arrays.get("masses")),
            _blob(made.arrays.get("tags"), "<i4"), _blob(made.arrays.get("momenta")),
            _text(made.constraints) if made.constraints else None,
            None if calculator is None else calculator[0], None if calculator is None else _text(calculator[1]),
            results.get("energy"), results.get("free_energy"), _blob(made.results.get("forces")),
            _blob(results.get("stress")), _blob(results.get("dipole")), _blob(results.get("magmoms")),
            results.get("magmom"), _blob(results.get("charges")),
            _text(pairs), write_data(data), len(made.numbers), *helpers,
        )  # fmt: skip
        run = self._connection.execute
        run(f"INSERT INTO systems VALUES ({', '.join('?' * len(row))})", row)
        many = self._connection.executemany
        kinds, counts = np.unique(made.numbers, return_counts=True)
        many(
            "INSERT INTO species VALUES (?, ?, ?)",
            [(kind, count, number) for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)],
        )
        texts = [(key, value, number) for key, value in pairs.items() if isinstance(value, str)]
        numbers = [(key, float(value), number) for key, value in pairs.items() if not isinstance(value, str)]
        many("INSERT INTO text_key_values VALUES (?, ?, ?)", texts)
        many("INSERT INTO number_key_values VALUES (?, ?, ?)", numbers)
        many("INSERT INTO keys VALUES (?, ?)", [(key, number) for key in pairs])

    def _identity(self, made: Configuration, without: list[str]) -> tuple[int, str]:
        """The id and the unique id of a row: its own where they are free, else new ones."""
        number, unique = made.row.get("id"), made.row.get("unique_id")
        if number is not None and (number in self._ids or number < 1):
            self._report.converted("id", "rows whose id is taken, or not above 0, have a new one")
            number = None
        elif number is None:
            without.append("id")
        if unique is not None and unique in self._uniques:
            self._report.converted("unique_id", "rows whose unique id is taken have a new one")
            unique = None
        elif unique is None:
            without.append("unique_id")
        if number is None:
            number = self._last + 1
        self._last = max(number, self._last)
        unique = uuid.uuid4().hex if unique is None else unique
        self._ids.add(number)
        self._uniques.add(unique)
        without += [name for name in ("ctime", "mtime") if name not in made.row]
        from ase.db.core import now

        for name in ("ctime", "mtime"):
            made.row.setdefault(name, now())
        return number, unique

    def _pairs(self, made: Configuration) -> tuple[dict[str, Any], dict[str, Any]]:
        """What can be key-value pairs, under their names in ASE, and the other keys in typed JSON."""
        pairs: dict[str, Any] = {}
        keys: dict[str, Any] = {}
        for name, (value, tag) in made.keys.items():
            own = foreign_name(name)
            same = key_name(own) == name or (name in made.per_step and own == name)
            if tag in _NATIVE and same and own not in pairs and _is_pair(own, value):
                pairs[own] = value
                if key_name(own) != name:
                    made.without.append(key_name(own))
                    keys[name] = [tag, to_typed_json(value, tag, name)]
            else:
                keys[name] = [tag, to_typed_json(value, tag, name)]
        return pairs, keys

    def _results(self, made: Configuration) -> dict[str, Any]:
        """The results a row has columns for, in the shapes it has them in."""
        shapes: dict[str, tuple[int, ...]] = {
            "energy": (),
            "free_energy": (),
            "magmom": (),
            "stress": (6,),
            "dipole": (3,),
        }
        kept = {}
        for name, shape in shapes.items():
            value = made.results.get(name)
            if value is None or np.shape(value) != shape or (shape == () and np.isnan(value)):
                continue
            kept[name] = value if shape else float(value)
        for name in ("magmoms", "charges"):
            if name in made.results:
                kept[name] = made.results[name]
        return kept

    def _beside(
        self, made: Configuration, meta: dict[str, Any], step: int, keys: dict[str, Any], without: list[str],
        results: dict[str, Any],
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:  # fmt: skip
        """Columns and other things that those of a row cannot hold."""
        from molrec_ase.names import NAN, RESULTS

        columns = dict(made.others)
        missing = []
        for name, value in made.results.items():
            # SQLite drops the sign of a negative zero
            signed = name in RESULTS and np.ndim(value) == 0 and value == 0 and bool(np.signbit(value))
            if (name in results and not signed) or name == "forces":
                continue
            if name in RESULTS:
                flat = np.asarray(value, np.float64).reshape(-1)
                tag = "f64" if np.ndim(value) == 0 else f"f64x{flat.size}"
                keys[RESULTS[name]] = [tag, to_typed_json(float(value) if tag == "f64" else flat, tag, name)]
                if bool(np.isnan(flat).all()):
                    missing.append(name)
            else:
                columns[name] = value
        if missing:
            keys[NAN] = ["json", missing]
        found: dict[str, Any] = {
            "keys": keys,
            "per_step": list(made.per_step),
            "step": made.step if made.step is not None and made.step != step else None,
            "time": made.time,
            "meta": meta,
            "origin": made.origin.tolist() if has_bits(made.origin) else None,
        }
        found = {key: value for key, value in found.items() if value is not None and value not in ({}, [])}
        if without:
            found["without"] = without
        return columns, found


def _is_pair(name: str, value: Any) -> bool:
    """Whether ASE takes a key and its value as a key-value pair."""
    from ase.db.core import reserved_keys, str_represents

    if not _WORD.match(name) or name in reserved_keys or name == "external_tables":
        return False
    return not (isinstance(value, str) and any(str_represents(value, kind) for kind in (bool, int, float)))


def _blob(values: Any, dtype: str = "<f8") -> bytes | None:
    return None if values is None else np.ascontiguousarray(values, dtype).tobytes()


def _text(value: Any) -> str:
    from ase.io.jsonio import encode

    text: str = encode(value)
    return text


def _helpers(made: Configuration, results: dict[str, Any]) -> tuple[float | None, ...]:
    """What queries are quicker with: greatest force and stress, volume, mass, charge."""
    forces = made.results.get("forces")
    greatest = None
    if forces is not None and len(forces):
        greatest = float((_unconstrained(made, forces) ** 2).sum(1).max() ** 0.5)
    stress = results.get("stress")
    volume = float(abs(np.linalg.det(made.cell))) if np.isfinite(made.cell).all() else 0.0
    masses = made.arrays.get("masses")
    mass = float((table_masses(np.minimum(made.numbers, 118)) if masses is None else masses).sum())
    charges = made.arrays.get("initial_charges")
    return (
        greatest,
        None if stress is None else float((np.asarray(stress) ** 2).max() ** 0.5),
        volume or None,
        mass,
        0.0 if charges is None else float(charges.sum()),
    )


def _unconstrained(made: Configuration, forces: NDArray[Any]) -> NDArray[Any]:
    """The forces that are left under the constraints."""
    if all(entry["name"] == "FixAtoms" for entry in made.constraints):
        free = free_atoms(made.constraints, len(forces))
        return forces if free is None else np.where(free[:, None], forces, 0.0)
    from molrec_ase.atoms import atoms_of

    atoms, left = atoms_of(made), np.array(forces)
    for constraint in atoms.constraints:
        constraint.adjust_forces(atoms, left)
    return left
