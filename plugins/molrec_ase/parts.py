"""One configuration as ASE has it, turned into the columns and values of a record.

Numbers are in ASE's units: angstrom, eV, dalton, elementary charges, eV/angstrom^3 (positive under tension), and
momenta in sqrt(dalton eV). A record of them has the units of the preset `metal`, so
velocities are angstrom/ps.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import Part
from molrec_ase.names import (
    ARRAYS,
    ATOM_RESULTS,
    CALCULATOR,
    CONSTRAINTS,
    DATA,
    DTYPES_KEPT,
    INFO,
    RESULTS,
    VECTORS,
    VIRIAL,
    array_name,
    key_name,
)
from molrec_ase.values import SYMBOL_ARRAY, NotPlain, as_value, free_atoms, to_plain
from molrec_convert.quantities.elements import SYMBOLS
from molrec_convert.quantities.standard import full_tensor, velocity_factor
from molrec_convert.report import Report

__all__ = ["make_part", "result_value", "species", "table_masses", "velocities"]

#: Tensors a record has as nine numbers, whatever ASE has.
_TENSORS = frozenset(("stress", VIRIAL))


def make_part(
    numbers: Any,
    positions: Any,
    cell: Any,
    pbc: Any,
    *,
    report: Report,
    displacement: Any = None,
    arrays: Mapping[str, Any] | None = None,
    results: Mapping[str, Any] | None = None,
    constraints: list[dict[str, Any]] | None = None,
    calculator: tuple[str, Any] | None = None,
    info: Mapping[Any, Any] | None = None,
    data: Any = None,
    row: Mapping[str, Any] | None = None,
) -> Part:
    """Return the configuration in a record's terms; what has no form there goes to the report as dropped.

    ValueError where arrays do not fit the number of atoms.
    """
    kinds = np.asarray(numbers, np.int64).reshape(-1)
    count = len(kinds)
    part = Part(count, species(kinds))
    _put_vector(part, "positions", positions)
    part.vectors = np.array(cell, np.float64).reshape(3, 3).T.copy()
    part.boundary = np.array(pbc, np.bool_).reshape(3)
    if displacement is not None:
        part.origin = np.array(displacement, np.float64).reshape(3)
    arrays = arrays or {}
    for name, values in arrays.items():
        if name == "momenta":
            _put_momenta(part, values, kinds, arrays.get("masses"))
        elif name in ARRAYS:
            dtype = np.int64 if name == "tags" else np.float64
            part.columns[ARRAYS[name]] = _rows(values, count, name, dtype)
        else:
            _put_array(part, str(name), values, report)
    _put_results(part, results or {}, report)
    if constraints:
        part.values[CONSTRAINTS] = to_plain(constraints)
        free = free_atoms(constraints, count)
        if free is not None:
            part.columns["free"] = free
    if calculator is not None:
        part.values[CALCULATOR] = {"name": calculator[0], "parameters": _plain_or_dropped(calculator[1], report)}
    _put_info(part, info or {}, report)
    if data is not None and data != {}:
        part.values[DATA] = to_plain(data)
    part.values.update({key: value for key, value in (row or {}).items() if value is not None})
    return part


def species(numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the column that says what the atoms are: elements, or numbers where one of them is no element's."""
    if len(numbers) and not (int(numbers.min()) >= 1 and int(numbers.max()) < len(SYMBOLS)):
        if int(numbers.min()) < 0:
            raise ValueError(f"an atomic number is {int(numbers.min())}")
        return {"atomic_number": numbers.astype(np.uint64)}
    return {"element": SYMBOL_ARRAY[numbers]}


def velocities(momenta: NDArray[Any], masses: NDArray[Any]) -> NDArray[Any]:
    """Return velocities in angstrom/ps of momenta in ASE's units and masses in dalton, a row for each atom."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found: NDArray[Any] = momenta / masses[:, None] * _per_velocity()
    return found


def result_value(name: str, value: Any) -> Any:
    """Return a result of a configuration as the value of its key: a number, a vector, or a document for other shapes.

    A tensor is nine numbers, 3×3 in rows.
    """
    array = np.asarray(value)
    if name in _TENSORS and array.dtype.kind in "biuf" and array.shape in ((6,), (9,), (3, 3)):
        return np.ascontiguousarray(full_tensor(array)).reshape(9)
    if array.dtype.kind not in "biuf":
        return as_value(value)
    if array.ndim == 0:
        return float(array)
    return as_value(array.astype(np.float64).reshape(-1) if array.shape == (3, 3) else array.astype(np.float64))


def table_masses(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the masses ASE takes for atoms that have none of their own."""
    from ase.data import atomic_masses

    if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(atomic_masses):
        raise ValueError(f"atomic numbers from {int(numbers.min())} to {int(numbers.max())}")
    table: NDArray[Any] = np.asarray(atomic_masses)[numbers]
    return table


@functools.cache
def _per_velocity() -> float:
    """Return what momentum/mass in ASE's units is multiplied by to be a velocity in angstrom/ps."""
    factor = velocity_factor({"preset": "metal"})
    assert factor is not None
    return factor


def _put_vector(part: Part, name: str, values: Any) -> None:
    array = _rows(values, part.count, name, np.float64, (3,))
    for axis, column in enumerate(VECTORS[name]):
        part.columns[column] = np.ascontiguousarray(array[:, axis])


def _put_momenta(part: Part, values: Any, numbers: NDArray[Any], masses: Any) -> None:
    momenta = _rows(values, part.count, "momenta", np.float64, (3,))
    own = table_masses(numbers) if masses is None else np.asarray(masses, np.float64)
    for column, entry in zip(VECTORS["velocities"], velocities(momenta, own).T, strict=True):
        part.columns[column] = np.ascontiguousarray(entry)
    part.columns["momenta"] = momenta


def _put_array(part: Part, name: str, values: Any, report: Report) -> None:
    """An array that has no meaning to ASE; one of a dtype a record has none for is kept with a note of it."""
    array = np.asarray(values)
    column = array_name(name)
    kind, size = array.dtype.kind, array.dtype.itemsize
    note = None
    if kind == "f" and size in (2, 4):
        note, array = array.dtype.name, array.astype(np.float64)
    elif kind == "O" and all(isinstance(item, str) for item in array.reshape(-1)):
        note, array = "object", array.astype(np.dtypes.StringDType())
    elif kind == "U":
        note, array = array.dtype.str, array.astype(np.dtypes.StringDType())
    elif kind not in "biufcT" or (kind in "fc" and size > 16) or (kind == "f" and size != 8):
        report.dropped(f"array {name}", f"a record has no column of {array.dtype}")
        return
    if array.ndim == 0 or len(array) != part.count:
        raise ValueError(f"the array {name} has not a row for each of {part.count} atoms")
    part.columns[column] = array
    if note is not None:
        part.values.setdefault(DTYPES_KEPT, {})[column] = note


def _put_results(part: Part, results: Mapping[str, Any], report: Report) -> None:
    for name, value in results.items():
        if value is None or (name in RESULTS and _is_nan(value)):
            continue
        if name == "forces":
            _put_vector(part, name, value)
        elif name in ATOM_RESULTS:
            part.columns[name] = _rows(value, part.count, name, np.float64)
        elif name in RESULTS:
            part.values[RESULTS[name]] = result_value(name, value)
        else:
            report.dropped(f"result {name}", "it is none of ASE's properties")


def _is_nan(value: Any) -> bool:
    """True if a result is not a number all through, which is none."""
    array = np.asarray(value)
    return array.dtype.kind == "f" and array.size > 0 and bool(np.isnan(array).all())


def _put_info(part: Part, info: Mapping[Any, Any], report: Report) -> None:
    others = {}
    for key, value in info.items():
        try:
            if key == VIRIAL and np.shape(value) in ((6,), (9,), (3, 3)):
                part.values[VIRIAL] = result_value(key, value)
            elif isinstance(key, str):
                part.values[key_name(key)] = as_value(value)
            else:
                others[key] = to_plain(value)
        except NotPlain as fault:
            report.dropped(f"info {key}", str(fault))
    if others:
        part.values[INFO] = to_plain(others)


def _plain_or_dropped(parameters: Any, report: Report) -> Any:
    try:
        return to_plain(dict(parameters or {}))
    except (NotPlain, TypeError, ValueError) as fault:
        report.dropped("parameters of the calculator", str(fault))
        return {}


def _rows(values: Any, count: int, name: str, dtype: Any, trailing: tuple[int, ...] | None = None) -> NDArray[Any]:
    array = np.ascontiguousarray(values, dtype)
    if trailing is not None and count == 0 and array.size == 0:
        array = array.reshape(0, *trailing)
    if array.ndim == 0 or len(array) != count or (trailing is not None and array.shape[1:] != trailing):
        expected = f"{count} rows" + (f" of {trailing[0]}" if trailing else "")
        raise ValueError(f"{name} are of shape {list(array.shape)}, expected {expected}")
    return array
