"""One frame of a record in ASE's terms and units: what becomes a row of a database, or `Atoms`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.constraints import fixing, free_atoms
from molrec_ase.names import ARRAYS, ATOM_RESULTS, CALCULATOR, CONSTRAINTS, DATA, NAN, RESULTS, ROW_KEYS, VECTORS
from molrec_ase.numbering import atomic_numbers
from molrec_ase.parts import species, table_masses, velocities
from molrec_ase.plain import from_plain
from molrec_ase.units import Factors
from molrec_ase.values import is_missing, tag_of
from molrec_convert.errors import UsageError
from molrec_convert.model import Column, Frame
from molrec_convert.model.dtypes import same_bits
from molrec_convert.report import Report

__all__ = ["NULLS", "Configuration", "Maker"]

#: Why a column that has values for some atoms only is left out.
NULLS = "it is null for some of the atoms, which ASE has no place for"
_RESULT_TAGS = {"f64": (), "f64x3": (3,), "f64x6": (6,), "f64x9": (3, 3)}
_WIDTHS: dict[str, list[tuple[int, ...]]] = {
    "energies": [()],
    "charges": [()],
    "magmoms": [(), (3,)],
    "stresses": [(6,)],
    "born_effective_charges": [(3, 3)],
    "initial_magmoms": [(), (3,)],
}


@dataclass
class Configuration:
    """`others` are columns ASE has no meaning for, `keys` values with their tags, both under a record's names.

    `without` are names of what a reader of the row would find and the record did not have.
    """

    numbers: NDArray[np.int64]
    positions: NDArray[np.float64]
    cell: NDArray[np.float64]
    pbc: NDArray[np.bool_]
    origin: NDArray[np.float64]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    others: dict[str, NDArray[Any]] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    constraints: list[dict[str, Any]] = field(default_factory=list)
    calculator: tuple[str, Any] | None = None
    keys: dict[str, tuple[Any, str]] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)
    data: Any = None
    without: list[str] = field(default_factory=list)
    step: int | None = None
    time: float | None = None
    per_step: list[str] = field(default_factory=list)


class Maker:
    """Makes configurations of the frames of one record; what they cannot hold is reported as dropped."""

    def __init__(self, units: Factors, elements: Sequence[str], report: Report) -> None:
        self._units, self._report = units, report
        self._elements = elements if isinstance(elements, str) else tuple(elements)

    def make(
        self, system: Frame | None, frame: Frame | None, *, fills: Mapping[str, Any] | None = None, where: str = ""
    ) -> Configuration:
        """The configuration of a frame and the system of its record; `fills` are those of per-step keys.

        `UsageError` where atoms have no element or no positions.
        """
        columns = self._columns(system, frame)
        count = next((len(column) for column in columns.values()), 0)
        box = next((part.box for part in (frame, system) if part is not None and part.box is not None), None)
        made = Configuration(
            np.zeros(0, np.int64),
            self._vector(columns, "positions", self._units.length, where),
            np.zeros((3, 3)),
            np.zeros(3, np.bool_),
            np.zeros(3),
        )
        if box is not None:
            made.origin = box.origin * self._units.length if self._units.length != 1.0 else box.origin
            if box.defined:
                vectors = np.ascontiguousarray(box.vectors.T)
                made.cell = vectors * self._units.length if self._units.length != 1.0 else vectors
                made.pbc = box.boundary
        self._species(made, columns, where)
        self._atoms(made, columns)
        self._meta(made, system, frame, fills or {})
        self._constraints(made, columns, count)
        made.others.update({name: column.values for name, column in columns.items()})
        if frame is not None:
            made.step, made.time = frame.step, frame.time
        return made

    def _columns(self, system: Frame | None, frame: Frame | None) -> dict[str, Column]:
        """The columns of the atoms; those that are null in every row are not there."""
        found: dict[str, Column] = {}
        for part in (system, frame):
            if part is None or "atoms" not in part.blocks:
                continue
            for name, column in part["atoms"].columns.items():
                if column.validity is None:
                    found[name] = column
                elif column.validity.any():
                    if name in ("element", "atomic_number", "x", "y", "z"):
                        row = int(np.flatnonzero(~column.validity)[0])
                        raise UsageError(f"atom {row} has no {name}, and ASE's atoms all have one")
                    self._report.dropped(f"atoms/{name}", NULLS)
        return found

    def _vector(self, columns: dict[str, Column], name: str, factor: float, where: str = "") -> NDArray[np.float64]:
        """Three columns as one array, in ASE's units."""
        axes = VECTORS[name]
        if not all(axis in columns for axis in axes):
            raise UsageError(f"{where or 'the record'} has no {', '.join(axes)}: ASE's atoms have positions")
        stacked = np.stack([columns.pop(axis).values for axis in axes], axis=1)
        return stacked * factor if factor != 1.0 else stacked

    def _species(self, made: Configuration, columns: dict[str, Column], where: str) -> None:
        made.numbers, used = atomic_numbers(columns, self._elements, where)
        read = species(made.numbers)
        for name in ("element", "atomic_number"):
            column = columns.pop(name, None)
            if column is None and name in read:
                made.without.append(name)
            elif column is not None and (name not in read or not same_bits(column.values, read[name])):
                made.others[name] = column.values
        if used is not None:
            self._report.converted(f"atoms/{used}", "elements as told by --elements")

    def _atoms(self, made: Configuration, columns: dict[str, Column]) -> None:
        units = self._units
        for name, own in ARRAYS.items():
            column = columns.get(own)
            wanted = "i64" if name == "tags" else "f64"
            if column is None or column.dtype != wanted or column.trailing not in _WIDTHS.get(name, [()]):
                continue
            factor = {"masses": units.mass, "initial_charges": units.charge}.get(name, 1.0)
            values = columns.pop(own).values
            made.arrays[name] = values * factor if factor != 1.0 else values
        for name in ATOM_RESULTS:
            column = columns.get(name)
            if column is not None and column.dtype == "f64" and column.trailing in _WIDTHS[name] and units.plain:
                made.results[name] = columns.pop(name).values
        if all(axis in columns for axis in VECTORS["forces"]):
            made.results["forces"] = self._vector(columns, "forces", units.energy / units.length)
        self._momenta(made, columns)

    def _momenta(self, made: Configuration, columns: dict[str, Column]) -> None:
        """Momenta as they were, where the velocities still follow from them, else worked out from the velocities."""
        axes = VECTORS["velocities"]
        known = columns.get("momenta")
        if known is not None and (known.dtype != "f64" or known.trailing != (3,)):
            known = None
        own = made.arrays.get("masses")
        masses = own if own is not None else None
        if not all(axis in columns for axis in axes):
            if known is not None:
                made.arrays["momenta"] = columns.pop("momenta").values
                made.without += axes
            return
        if masses is None:
            masses = table_masses(np.minimum(made.numbers, 118))
        rates = np.stack([columns[axis].values for axis in axes], axis=1)
        if known is not None and same_bits(np.ascontiguousarray(velocities(known.values, masses)), rates):
            made.arrays["momenta"] = columns.pop("momenta").values
            for axis in axes:
                columns.pop(axis)
            return
        if self._units.time is None:
            self._report.converted(
                "atoms/vx, vy, vz", "kept as columns: the record states no unit of time, so momenta do not follow"
            )
            return
        if known is not None:
            self._report.converted("atoms/momenta", "worked out from the velocities, which do not follow from it")
            columns.pop("momenta")
        else:
            made.without.append("momenta")
        momenta = masses[:, None] * (rates * (self._units.length / self._units.time))
        made.arrays["momenta"] = momenta
        self._report.converted("atoms/vx, vy, vz", "momenta, with the masses of the atoms")
        exact = self._units.plain and same_bits(np.ascontiguousarray(velocities(momenta, masses)), rates)
        for axis in axes:
            column = columns.pop(axis)
            if not exact and self._is_picosecond():
                made.others[axis] = column.values

    def _is_picosecond(self) -> bool:
        from ase import units

        return self._units.plain and self._units.time == 1000.0 * units.fs

    def _constraints(self, made: Configuration, columns: dict[str, Column], count: int) -> None:
        column = columns.get("free")
        stated = free_atoms(made.constraints, count)
        if column is None:
            if stated is not None:
                made.without.append("free")
            return
        if stated is not None and same_bits(stated, column.values):
            columns.pop("free")
            return
        if stated is not None:
            self._report.converted("ase.constraints", "its fixed atoms are those that are not free")
        had = bool(made.constraints)
        kept = [c for c in made.constraints if c["name"] != "FixAtoms"]
        made.constraints = [*fixing(column.values), *kept]
        again = free_atoms(made.constraints, count)
        if again is not None and same_bits(again, column.values):
            columns.pop("free")
        if not had:
            made.without.append(CONSTRAINTS)

    def _meta(self, made: Configuration, system: Frame | None, frame: Frame | None, fills: Mapping[str, Any]) -> None:
        values: dict[str, tuple[Any, str]] = {}
        for part in (system, frame):
            for key in () if part is None else part.meta:
                assert part is not None
                if key == "units":
                    continue
                values[key] = (part.meta[key], part.meta.tag(key))
                if part is frame and key in fills and key not in RESULTS.values():
                    made.per_step.append(key)
        there = set(from_plain(values.get(NAN, ([], ""))[0]) or ())
        names = {key: name for name, key in RESULTS.items()}
        for key in (RESULTS[name] for name in there if RESULTS.get(name) in fills):
            # stated as NaN, which a frame of the record does not tell from a missing one
            values.setdefault(key, (fills[key], tag_of(fills[key])))
        for key, (value, tag) in values.items():
            name = names.get(key)
            if is_missing(value, tag) and (tag == "json" or (is_fill(fills.get(key)) and name not in there)):
                continue
            if name is not None and self._is_result(name, tag):
                made.results[name] = self._result(name, value, tag)
            elif key == NAN:
                continue
            elif key == CONSTRAINTS and tag == "json":
                made.constraints = list(from_plain(value))
            elif key == CALCULATOR and tag == "json" and isinstance(value, dict) and "name" in value:
                made.calculator = (str(value["name"]), from_plain(value.get("parameters", {})))
            elif key == DATA and tag == "json":
                made.data = from_plain(value)
            elif key in ROW_KEYS and tag == {"id": "i64", "unique_id": "string", "user": "string"}.get(key, "f64"):
                made.row[key] = value
            else:
                made.keys[key] = (value, tag)

    def _is_result(self, name: str, tag: str) -> bool:
        if name == "energy":
            return tag == "f64"
        return self._units.plain and tag in _RESULT_TAGS

    def _result(self, name: str, value: Any, tag: str) -> Any:
        if name == "energy":
            return value * self._units.energy if self._units.energy != 1.0 else value
        shape = _RESULT_TAGS[tag]
        return np.asarray(value).reshape(shape) if shape else value


def is_fill(fill: Any) -> bool:
    """Whether the fill of a key is one that stands for no value."""
    return isinstance(fill, (float, np.ndarray)) and is_missing(fill, tag_of(fill))
