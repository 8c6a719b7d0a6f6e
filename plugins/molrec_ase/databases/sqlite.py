"""Rows of a database in SQLite, written as ASE writes them: schema version 9.

Numbers go in as their bytes; nothing passes through `Atoms`. Source: `ase.db.sqlite`.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import joined
from molrec_ase.configuration import Configuration
from molrec_ase.databases.row_maker import RowMaker
from molrec_ase.databases.texts import write_data
from molrec_ase.names import DATA
from molrec_ase.parts import table_masses
from molrec_ase.values import free_atoms, to_plain
from molrec_convert.report import Report

__all__ = ["RowWriter"]


class RowWriter(RowMaker):
    """Writes rows in one transaction; a context manager. The file is a new one."""

    def __init__(self, path: Path, report: Report, metadata: dict[str, Any] | None) -> None:
        from ase.db.sqlite import index_statements, init_statements

        super().__init__(report)
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


def _blob(values: Any, dtype: str = "<f8") -> bytes | None:
    return None if values is None else np.ascontiguousarray(values, dtype).tobytes()


def _text(value: Any) -> str:
    from ase.io.jsonio import encode

    text: str = encode(value)
    return text


def _helpers(made: Configuration, results: dict[str, Any]) -> tuple[float | None, ...]:
    """Return what queries are quicker with: greatest force and stress, volume, mass, charge."""
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
    """Return the forces that are left under the constraints."""
    if all(entry["name"] == "FixAtoms" for entry in made.constraints):
        free = free_atoms(made.constraints, len(forces))
        return forces if free is None else np.where(free[:, None], forces, 0.0)
    from molrec_ase.atoms import atoms_of

    atoms, left = atoms_of(made), np.array(forces)
    for constraint in atoms.constraints:
        constraint.adjust_forces(atoms, left)
    return left
