"""`Atoms` from configurations and configurations from `Atoms`."""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_ase.chunk import Part, has_bits
from molrec_ase.configuration import Configuration
from molrec_ase.names import ATOM_RESULTS, DTYPES_KEPT, INFO, RESULTS, foreign_name
from molrec_ase.parts import make_part
from molrec_ase.values import from_plain, from_value
from molrec_convert.report import Report

__all__ = ["atoms_of", "part_of_atoms"]

_CORE = frozenset({"numbers", "positions"})


def atoms_of(made: Configuration, *, step: int | None = None, time: float | None = None) -> Any:
    """Return an `Atoms` object; its results are those of a calculator, its other keys are in `info`, columns in
    `arrays`.
    """
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.constraints import dict2constraint

    atoms = Atoms(numbers=made.numbers, positions=made.positions, cell=made.cell, pbc=made.pbc)
    if has_bits(made.origin):
        atoms.set_celldisp(made.origin)
    for name, values in made.arrays.items():
        atoms.set_array(name, np.array(values))
    notes = from_plain(made.keys.get(DTYPES_KEPT, ({}, ""))[0])
    for column, values in made.others.items():
        atoms.set_array(foreign_name(column), _array(values, notes.get(column)))
    for key, (value, tag) in made.keys.items():
        if key == INFO:
            atoms.info.update(from_value(value, tag))
        elif key != DTYPES_KEPT:
            atoms.info[foreign_name(key)] = from_value(value, tag)
    atoms.info.update(made.row)
    if made.data is not None:
        atoms.info["data"] = made.data
    if step is not None:
        atoms.info["step"] = step
    if time is not None:
        atoms.info["time"] = time
    atoms.set_constraint([dict2constraint({"name": c["name"], "kwargs": dict(c["kwargs"])}) for c in made.constraints])
    if made.results or made.calculator is not None:
        results = {key: np.array(value) if np.ndim(value) else value for key, value in made.results.items()}
        calculator = SinglePointCalculator(atoms, **results)
        if made.calculator is not None:
            calculator.name = made.calculator[0]
            calculator.parameters.update(made.calculator[1])
        atoms.calc = calculator
    return atoms


def part_of_atoms(atoms: Any, report: Report) -> Part:
    """Return a configuration of an `Atoms` object: arrays, cell, constraints, info, and the results its calculator
    holds.
    """
    constraints = []
    for constraint in atoms.constraints:
        if hasattr(constraint, "todict"):
            constraints.append(constraint.todict())
        else:
            report.dropped(f"constraint {type(constraint).__name__}", "it cannot say what it is")
    calculator, results = _calculator(atoms, report)
    info = dict(atoms.info)
    # an empty mapping is no data of a row, but still an entry of `info`
    data = info.pop("data") if isinstance(info.get("data"), dict) and info["data"] else None
    kinds = {"id": int, "unique_id": str, "ctime": float, "mtime": float, "user": str}
    row = {key: info.pop(key) for key, kind in kinds.items() if type(info.get(key)) is kind}
    displacement = np.asarray(atoms.get_celldisp(), np.float64).reshape(-1)
    return make_part(
        atoms.numbers,
        atoms.positions,
        np.asarray(atoms.cell),
        atoms.pbc,
        report=report,
        displacement=displacement if has_bits(displacement) else None,
        arrays={name: values for name, values in atoms.arrays.items() if name not in _CORE},
        results=results,
        constraints=constraints,
        calculator=calculator,
        info=info,
        data=data,
        row=row,
    )


def _calculator(atoms: Any, report: Report) -> tuple[tuple[str, Any] | None, dict[str, Any]]:
    """Return the calculator's name and parameters, and its results, which belong to the atoms only as they were."""
    calculator = atoms.calc
    if calculator is None:
        return None, {}
    found = dict(getattr(calculator, "results", {}) or {})
    results = {name: value for name, value in found.items() if name in RESULTS or name in ("forces", *ATOM_RESULTS)}
    for name in found.keys() - results.keys():
        report.dropped(f"result {name}", "it is none of ASE's properties")
    if results and _is_stale(calculator, atoms):
        report.dropped("results of the calculator", "the atoms were changed since they were worked out")
        results = {}
    parameters = calculator.todict() if hasattr(calculator, "todict") else {}
    name = getattr(calculator, "name", None) or type(calculator).__name__
    return (str(name).lower(), parameters), results


def _is_stale(calculator: Any, atoms: Any) -> bool:
    """True if the atoms are others than those the results belong to; what is not a number has not changed."""
    if not hasattr(calculator, "check_state") or not calculator.check_state(atoms):
        return False
    before = getattr(calculator, "atoms", None)
    if before is None or len(before) != len(atoms):
        return True
    pairs = [(np.asarray(atoms.cell), np.asarray(before.cell)), (atoms.pbc, before.pbc)]
    names = ("numbers", "positions", "initial_magmoms", "initial_charges")
    pairs += [(atoms.arrays[name], before.arrays[name]) for name in names if atoms.has(name) and before.has(name)]
    gone = any(atoms.has(name) != before.has(name) for name in names)
    return gone or not all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def _array(values: Any, note: str | None) -> Any:
    if values.dtype.kind == "T":
        texts = values.tolist()
        if note == "object":
            return np.array(texts, object).reshape(values.shape)
        return np.array(texts, note or "U").reshape(values.shape)
    return values.astype(note) if note is not None else np.array(values)
