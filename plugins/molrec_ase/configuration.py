"""One frame of a record in ASE's terms and units: what becomes a row of a database, or `Atoms`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.names import ARRAYS, ATOM_RESULTS, CALCULATOR, CONSTRAINTS, DATA, RESULTS, ROW_KEYS, VECTORS, VIRIAL
from molrec_ase.parts import species, table_masses, velocities
from molrec_ase.values import fixing, free_atoms, from_plain, is_missing, tag_of
from molrec_convert.errors import UsageError
from molrec_convert.meaning.quantities import cell_volumes, type_elements
from molrec_convert.model import Column, Frame, Record, distinct
from molrec_convert.model.dtypes import same_bits
from molrec_convert.quantities.dimensions import same_units, unit_of_dimension, units_object
from molrec_convert.quantities.elements import NUMBERS, UNKNOWN
from molrec_convert.quantities.standard import full_tensor, is_symmetric, momenta_of, tensor_as, velocity_factor
from molrec_convert.quantities.units import conversion_factor
from molrec_convert.report import Report

__all__ = ["NULLS", "SPECIES", "UNKNOWN_ATOMS", "Configuration", "Maker", "atomic_numbers"]

_KNOWN = {UNKNOWN: 0, **NUMBERS}
_HOW = (
    "name the element of each type: --elements C,H,O, or elements=('C', 'H', 'O'); --guess-elements proposes them from "
    "labels and masses"
)


def atomic_numbers(
    columns: Mapping[str, Column], of_types: Callable[[], Mapping[str, str]], where: str
) -> NDArray[np.int64]:
    """Return the atomic number of each atom; 0, ASE's X, for one whose element is null.

    `of_types` gives the element of each label of types. UsageError: nothing says what the atoms are, or a label is no
    element.
    """
    what = where or "the record"
    numbers = None
    if "element" in columns:
        numbers = _of_labels(columns["element"], _KNOWN, what)
    for name in ("atomic_number", "Z"):
        column = columns.get(name)
        if column is None or column.trailing or column.values.dtype.kind not in "iu":
            continue
        found = np.where(_there(column), column.values.astype(np.int64), 0)
        numbers = found if numbers is None else np.where(numbers == 0, found, numbers)
    if numbers is not None:
        return numbers
    if "type" in columns:
        table = of_types()
        if table:
            return _of_labels(
                columns["type"], {**_KNOWN, **{label: NUMBERS[symbol] for label, symbol in table.items()}}, what
            )
        if all(label in _KNOWN for label in set(columns["type"].values.tolist())):
            raise UsageError(f"{what} has types but no elements; if the types are elements, say so: {_HOW}")
    raise UsageError(f"{what} has atoms without an element, which ASE cannot do without; {_HOW}")


def _there(column: Column) -> NDArray[np.bool_]:
    return np.ones(len(column), np.bool_) if column.validity is None else column.validity


def _of_labels(column: Column, known: Mapping[str, int], what: str) -> NDArray[np.int64]:
    labels, positions, _ = distinct(column.values)
    there = _there(column)
    for number, label in enumerate(labels.tolist()):
        if label in known:
            continue
        rows = np.flatnonzero((positions == number) & there)
        if len(rows):
            raise UsageError(f"{what} has atom {int(rows[0])} with the label {label!r}, which is no element; {_HOW}")
    told = np.array([known.get(label, 0) for label in labels.tolist()] or [0], np.int64)
    found: NDArray[np.int64] = np.where(there, told[positions], 0)
    return found


_ATOMS = "atoms"
_METAL = {"preset": "metal"}
#: Columns that say what an atom is, and what becomes of those that are null.
SPECIES = ("element", "atomic_number")
UNKNOWN_ATOMS = "atoms without one are X in ASE, whose number is 0"
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

    `exact` are values, with tags, that results in the form ASE has them do not say; `without` names of what a reader of
    the row would find and the record did not have.
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
    exact: dict[str, tuple[Any, str]] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)
    data: Any = None
    without: list[str] = field(default_factory=list)
    step: int | None = None
    time: float | None = None
    per_step: list[str] = field(default_factory=list)


class Maker:
    """Makes configurations of the frames of one record; what they cannot hold is reported as dropped.

    `units` are the record's, `blocks` the blocks that have a row for each atom.
    """

    def __init__(self, record: Record, units: Mapping[str, Any], blocks: Sequence[str], report: Report) -> None:
        self._report, self._blocks = report, tuple(blocks)
        self._of_types = functools.cache(functools.partial(type_elements, record))
        # momenta are ASE's, in sqrt(dalton eV), in whatever units the record is
        self._per_velocity, mass = velocity_factor(units), unit_of_dimension("mass", units)
        self._per_mass = 1.0 if mass is None else conversion_factor(mass, "dalton") or 1.0
        self._metal = same_units(units_object(units), _METAL)

    def make(
        self, system: Frame | None, frame: Frame | None, *, fills: Mapping[str, Any] | None = None, where: str = ""
    ) -> Configuration:
        """Return the configuration of a frame and the system of its record; `fills` are those of per-step keys.

        `UsageError` where atoms have no element or no positions.
        """
        columns = self._columns(system, frame)
        count = next((len(column) for column in columns.values()), 0)
        box = next((part.box for part in (frame, system) if part is not None and part.box is not None), None)
        made = Configuration(
            np.zeros(0, np.int64),
            self._vector(columns, "positions", where),
            np.zeros((3, 3)),
            np.zeros(3, np.bool_),
            np.zeros(3),
        )
        if box is not None:
            made.origin = box.origin
            if box.defined:
                made.cell, made.pbc = np.ascontiguousarray(box.vectors.T), box.boundary
        self._species(made, columns, where)
        self._atoms(made, columns)
        self._meta(made, system, frame, fills or {})
        self._tensors(made)
        self._constraints(made, columns, count)
        made.others.update({name: column.values for name, column in columns.items()})
        if frame is not None:
            made.step, made.time = frame.step, frame.time
        return made

    def _columns(self, system: Frame | None, frame: Frame | None) -> dict[str, Column]:
        """Return the columns of the atoms; those that are null in every row are not there."""
        found: dict[str, Column] = {}
        blocks = [] if system is None else [system.blocks.get(_ATOMS)]
        blocks += [] if frame is None else [frame.blocks.get(name) for name in self._blocks]
        for name, column in (entry for block in blocks if block is not None for entry in block.columns.items()):
            if column.validity is None or column.validity.all() or (name in SPECIES and column.validity.any()):
                found[name] = column
            elif column.validity.any():
                if name in VECTORS["positions"]:
                    row = int(np.flatnonzero(~column.validity)[0])
                    raise UsageError(f"atom {row} has no {name}, and ASE's atoms all have one")
                self._report.dropped(f"atoms/{name}", NULLS)
        return found

    def _vector(self, columns: dict[str, Column], name: str, where: str = "") -> NDArray[np.float64]:
        """Three columns as one array."""
        axes = VECTORS[name]
        if not all(axis in columns for axis in axes):
            raise UsageError(f"{where or 'the record'} has no {', '.join(axes)}: ASE's atoms have positions")
        return np.stack([columns.pop(axis).values for axis in axes], axis=1)

    def _species(self, made: Configuration, columns: dict[str, Column], where: str) -> None:
        made.numbers = atomic_numbers(columns, self._of_types, where)
        read = species(made.numbers)
        for name in ("element", "atomic_number"):
            column = columns.pop(name, None)
            if column is not None and column.validity is not None and not column.validity.all():
                self._report.converted(f"atoms/{name}", UNKNOWN_ATOMS)
            elif column is None and name in read:
                made.without.append(name)
            elif column is not None and (name not in read or not same_bits(column.values, read[name])):
                made.others[name] = column.values

    def _atoms(self, made: Configuration, columns: dict[str, Column]) -> None:
        for name, own in ARRAYS.items():
            column = columns.get(own)
            wanted = "i64" if name == "tags" else "f64"
            if column is None or column.dtype != wanted or column.trailing not in _WIDTHS.get(name, [()]):
                continue
            made.arrays[name] = columns.pop(own).values
        for name in ATOM_RESULTS:
            column = columns.get(name)
            if column is not None and column.dtype == "f64" and column.trailing in _WIDTHS[name]:
                made.results[name] = columns.pop(name).values
        if all(axis in columns for axis in VECTORS["forces"]):
            made.results["forces"] = self._vector(columns, "forces")
        self._momenta(made, columns)

    def _momenta(self, made: Configuration, columns: dict[str, Column]) -> None:
        """Momenta as they were, where the velocities still follow from them, else worked out from the velocities."""
        axes = VECTORS["velocities"]
        known = columns.get("momenta")
        if known is not None and (known.dtype != "f64" or known.trailing != (3,)):
            known = None
        masses = made.arrays.get("masses")
        if not all(axis in columns for axis in axes):
            if known is not None:
                made.arrays["momenta"] = columns.pop("momenta").values
                made.without += axes
            return
        masses = table_masses(np.minimum(made.numbers, 118)) if masses is None else masses * self._per_mass
        rates = np.stack([columns[axis].values for axis in axes], axis=1)
        if known is not None and same_bits(np.ascontiguousarray(velocities(known.values, masses)), rates):
            made.arrays["momenta"] = columns.pop("momenta").values
            for axis in axes:
                columns.pop(axis)
            return
        if self._per_velocity is None:
            self._report.converted(
                "atoms/vx, vy, vz", "kept as columns: the record states no unit of time, so momenta do not follow"
            )
            return
        if known is not None:
            self._report.converted("atoms/momenta", "worked out from the velocities, which do not follow from it")
            columns.pop("momenta")
        else:
            made.without.append("momenta")
        momenta = momenta_of(rates, masses, self._per_velocity)
        made.arrays["momenta"] = momenta
        self._report.converted("atoms/vx, vy, vz", "momenta, with the masses of the atoms")
        exact = same_bits(np.ascontiguousarray(velocities(momenta, masses)), rates)
        for axis in axes:
            column = columns.pop(axis)
            if self._metal and not exact:
                made.others[axis] = column.values

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
        names = {key: name for name, key in RESULTS.items()}
        for key, (value, tag) in values.items():
            name = names.get(key)
            if is_missing(value, tag) and (tag == "json" or name is not None or is_fill(fills.get(key))):
                continue
            if name is not None and (tag == "f64" or (name != "energy" and tag in _RESULT_TAGS)):
                made.results[name] = np.asarray(value).reshape(_RESULT_TAGS[tag]) if _RESULT_TAGS[tag] else value
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

    def _tensors(self, made: Configuration) -> None:
        """The stress as the six numbers ASE's rows and calculators have, from the virial where nothing else tells."""
        virial, volume = made.keys.get(VIRIAL), float(cell_volumes(made.cell.T[None])[0])
        if "stress" in made.results:
            if np.ndim(made.results["stress"]) == 0:
                made.keys["stress"] = (made.results.pop("stress"), "f64")
                return
            full = full_tensor(made.results["stress"])
        elif virial is not None and virial[1] in ("f64x6", "f64x9") and volume > 0.0:
            full = -full_tensor(virial[0]) / volume
            made.without.append("stress")
            self._report.derived(
                "stress", "the virial by the volume, with the other sign: rows and calculators of ASE have that"
            )
        else:
            return
        made.results["stress"] = tensor_as(full, "voigt")
        if not is_symmetric(full) and "stress" not in made.without:
            made.exact["stress"] = (full.reshape(9), "f64x9")
            self._report.converted(
                "stress", "not symmetric: ASE has six numbers, the means of both halves; a row's data keeps all nine"
            )


def is_fill(fill: Any) -> bool:
    """True if the fill of a key is one that stands for no value."""
    return isinstance(fill, (float, np.ndarray)) and is_missing(fill, tag_of(fill))
