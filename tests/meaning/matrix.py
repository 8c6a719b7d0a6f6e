"""Quantities in every format: small records written by every writer, seen by other programs' own readers.

`cells()` makes the matrix: for each quantity of each sample and each format what becomes of it, as the programs that
read the format find it. What is compared is the physical value with its unit: equal to the last bit, equal in other
units, with fewer digits, or not there, in which case the report of the conversion has said so.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matrix_readers import UNITS, Seen, readers_of, see
from numpy.typing import NDArray

import molrec_convert
from molrec_convert.errors import MolrecError
from molrec_convert.model import Block, Box, Column, Frame, MemoryTrajectory, Meta, Record
from molrec_convert.quantities.standard import QUANTITIES
from molrec_convert.report import Fate, Report

__all__ = ["FORMATS", "KNOWN", "SAMPLES", "Cell", "Sample", "cells", "cells_of", "known", "samples"]

TEXT = np.dtypes.StringDType()
#: Format → name of the file it is written to, options of its writer.
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "mrec": ("r.mrec", {}),
    "mrec-zip": ("r.mrec.zip", {}),
    "mrec-lmdb": ("r.mrec.lmdb", {}),
    "extxyz": ("r.extxyz", {}),
    "xyz": ("r.xyz", {"format": "xyz"}),
    "ase-db": ("r.db", {}),
    "pdb": ("r.pdb", {}),
    "mmcif": ("r.cif", {}),
    "lammps-data": ("r.data", {}),
    "lammps-dump": ("r.lammpstrj", {}),
    "lammps-run": ("run", {"format": "lammps-run"}),
    **{name: (f"r.{name}", {"format": "mdanalysis"}) for name in ("dcd", "xtc", "trr", "gro", "ncdf")},
}


@dataclass
class Sample:
    """A record, what it is about, and the rows of the matrix it gives: quantities, `key NAME`, `column NAME`."""

    title: str
    record: Record
    rows: list[str]
    style: str = "metal"


@dataclass
class Cell:
    """What became of one row in one format: a word, and what is wrong if anything is."""

    word: str
    programs: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    detail: str = ""


# Records -------------------------------------------------------------------------------------------------------------


def _some(seed: int, *shape: int) -> Callable[[int], NDArray[np.float64]]:
    """Return what gives numbers of many digits between −2 and 2 for each frame."""
    return lambda frame: np.random.default_rng(100 * seed + frame).uniform(-2.0, 2.0, shape)


def _vector(seed: int, *names: str) -> dict[str, Callable[[int], Any]]:
    return {name: _some(seed + place, 3) for place, name in enumerate(names)}


def _scaled(factor: float, shift: float, columns: dict[str, Callable[[int], Any]]) -> dict[str, Callable[[int], Any]]:
    return {
        name: functools.partial(lambda make, frame: make(frame) * factor + shift, make)
        for name, make in columns.items()
    }


#: Inside the cell.
_PLACES = _scaled(1.0, 5.0, _vector(1, "x", "y", "z"))


def _texts(*words: str) -> NDArray[Any]:
    return np.array(words, TEXT)


def _number(seed: int, missing: tuple[int, ...] = ()) -> Callable[[int], Any]:
    return lambda frame: None if frame in missing else float(_some(seed, 1)(frame)[0])


def _record(
    columns: dict[str, Callable[[int], Any]] | None = None,
    keys: dict[str, Callable[[int], Any]] | None = None,
    static: dict[str, Any] | None = None,
    units: str = "metal",
    times: tuple[float, ...] = (0.0, 0.5, 1.0),
) -> Record:
    """Return a record of O, H and Cl in three frames of a cell; columns and keys are functions of the frame."""
    frames = []
    for number, time in enumerate(times):
        made = {name: make(number) for name, make in {**_PLACES, **(columns or {})}.items()}
        meta = {name: make(number) for name, make in (keys or {}).items()}
        frames.append(
            Frame(
                {"atoms": Block({n: v if isinstance(v, Column) else Column(v) for n, v in made.items()})},
                Meta({name: value for name, value in meta.items() if value is not None}),
                Box(np.diag([10.0, 11.0, 12.0])) if number == 0 else None,
                step=round(time * 20),
                time=time,
            )
        )
    atoms = {"element": _texts("O", "H", "Cl"), **(static or {})}
    system = Frame({"atoms": Block({name: Column(value) for name, value in atoms.items() if value is not None})})
    system.meta.put("units", {"preset": units}, "json")
    return Record(system=system, trajectory=MemoryTrajectory(frames))


def _masked(values: Callable[[int], Any], missing: tuple[int, ...]) -> Callable[[int], Any]:
    return lambda frame: Column(values(frame), np.full(3, frame not in missing))


_MASS = np.array([15.999, 1.008, 35.45])
_MOTION = {**_scaled(0.01, 0.0, _vector(5, "vx", "vy", "vz")), **_vector(8, "fx", "fy", "fz")}
_THERMO = {"pe": _number(11), "ke": _number(12), "etotal": _number(13)}


@functools.cache
def samples() -> dict[str, Sample]:
    """Return the samples by name."""
    charge = {"charge": np.array([-0.83, 0.415, 0.41502]), "mass": _MASS}
    motion = [
        "position",
        "cell",
        "element",
        "velocity",
        "force",
        "charge",
        "mass",
        "energy",
        "kinetic_energy",
        "total_energy",
    ]
    state = {"temp": _number(14), "press": _number(15), "volume": lambda frame: 1320.0}
    return {
        "run": Sample("a run, metal", _record(_MOTION, {**_THERMO, **state}, charge), [
            *motion, "temperature", "pressure", "volume", "time", "step",
        ]),
        "real": Sample("a run, real", _record(_MOTION, _THERMO, charge, "real"), motion, "real"),
        "lj": Sample("a run, lj", _record(_MOTION, _THERMO, charge, "lj"), [*motion[:2], *motion[3:]], "lj"),
        "uneven": Sample("uneven steps", _record(times=(0.0, 0.5, 3.0)), ["position", "time", "step"]),
        "labels": Sample("results of a model", _record(
            {
                "charges": _some(20, 3), "initial_magmoms": _some(21, 3), "magmoms": _some(22, 3),
                "energies": _some(23, 3), "stresses": _some(24, 3, 6), "momenta": _some(26, 3, 3),
            },
            {
                "pe": _number(30), "free_energy": _number(31), "magmom": _number(32), "stress": _symmetric(33),
                "dipole": _some(34, 3), "polarization": _some(35, 3), "dielectric_tensor": _some(36, 9),
            },
        ), [
            "computed_charge", "initial_magnetic_moment", "magnetic_moment", "atomic_energy", "atomic_stress",
            "momentum", "energy", "free_energy", "total_magnetic_moment", "stress", "total_dipole", "polarization",
            "dielectric_tensor",
        ]),
        "voigt": Sample("stress as six numbers", _record(
            {}, {"stress": _some(40, 6), "pressure_tensor": _some(41, 6)}
        ), ["stress", "pressure_tensor"]),
        "virial": Sample("a virial", _record({}, {"virial": _some(42, 9)}), ["virial"]),
        "bodies": Sample("particles of a size", _record({
            **_vector(50, "mux", "muy", "muz"), **_vector(53, "omegax", "omegay", "omegaz"),
            **_vector(56, "angmomx", "angmomy", "angmomz"), **_vector(59, "tqx", "tqy", "tqz"),
            **_vector(62, "quatw", "quati", "quatj", "quatk"), **_vector(66, "spx", "spy", "spz"),
        }), ["dipole", "angular_velocity", "angular_momentum", "torque", "orientation", "spin"]),
        "molecule": Sample("atoms of a structure", _record(static={
            "name": _texts("OA1", "HB2", "CL"), "res_name": _texts("ALA", "ALA", "GLY"),
            "res_id": np.array([7, 7, 8], np.uint64),
            "chain": _texts("A", "A", "B"), "icode": _texts("", "", "A"), "altloc": _texts("A", "B", ""),
            "occupancy": np.array([0.25, 0.75, 1.0]), "b_factor": np.array([12.25, 0.5, 99.75]),
        }), [
            "column name", "column res_name", "column res_id", "column chain", "column icode", "column altloc",
            "occupancy", "b_factor",
        ]),
        "empty": Sample("texts that are all empty", _record(static={"icode": _texts("", "", "")}), ["column icode"]),
        "species": Sample("species that change", _record(
            {"element": lambda frame: np.roll(_texts("O", "H", "Cl"), frame)},
            static={"element": None, "id": np.arange(1, 4, dtype=np.uint64)},
        ), ["element", "position"]),
        "numbers": Sample("atomic numbers alone", _record(
            static={"element": None, "atomic_number": np.array([8, 1, 17], np.uint64)}
        ), ["element"]),
        "keys": Sample("keys of one's own", _record({}, {
            "config_type": lambda frame: "bulk", "gap": _number(70), "note": lambda frame: f"frame {frame}",
        }), ["key config_type", "key gap", "key note"]),
        "missing": Sample("missing in some frames", _record(
            {name: _masked(make, (0, 2)) for name, make in _vector(8, "fx", "fy", "fz").items()},
            {"pe": _number(71, (1,)), "stress": lambda frame: None if frame == 0 else _symmetric(72)(frame)},
        ), ["force", "energy", "stress"]),
    }  # fmt: skip


def _symmetric(seed: int) -> Callable[[int], NDArray[np.float64]]:
    def tensor(frame: int) -> NDArray[np.float64]:
        half = _some(seed, 3, 3)(frame)
        return np.asarray(half + half.T).reshape(9)

    return tensor


SAMPLES = tuple(samples())
_OTHER_ATOMS = "models of other atoms, which ParmEd (PDB), OpenMM, mdtraj and ParmEd (mmCIF) refuse"
#: (sample, row or "*", format) → what a program makes of it that is not as the record has it, and is not in our hands
#: or not mended yet.
KNOWN: dict[tuple[str, str, str], str] = {
    ("uneven", "time", "dcd"): "DCD has one time between frames: the report says that it is that of the first two",
    ("molecule", "*", "mmcif"): "biotite shows the first alternate location alone, chemfiles numbers residues itself",
    ("species", "*", "pdb"): _OTHER_ATOMS,
    ("species", "*", "mmcif"): _OTHER_ATOMS,
    ("species", "*", "lammps-dump"): "mdtraj reads dumps with numbers of types alone",
    ("missing", "force", "lammps-dump"): "MDAnalysis keeps the forces of the frame before where one has none",
}


def known(sample: str, row: str, format: str) -> str | None:
    """Return why a cell is not as it should be, None where it should be."""
    return KNOWN.get((sample, row, format), KNOWN.get((sample, "*", format)))


# Comparing -----------------------------------------------------------------------------------------------------------


def _stated(record: Record, row: str, unit: str | None) -> Any:
    """Return what a record says of a row in a unit, [frames, …]; None where it says nothing."""
    trajectory = record.trajectory
    frames = list(trajectory) if trajectory is not None else [record.frame or record.system]
    if row.startswith("key "):
        found = [frame.meta.get(row[4:]) for frame in frames]
        return None if all(value is None for value in found) else found
    if row.startswith("column "):
        for sections in (frames, [record.frame], [record.system]):
            found = [_column_of(section, row[7:]) for section in sections]
            if all(values is not None for values in found):
                return found * (len(frames) // len(found))
        return None
    if row in ("time", "step"):
        if trajectory is None:
            return None
        values = [getattr(frame, row) for frame in trajectory]
        return None if values[0] is None else np.array(values, np.float64)
    if row == "cell":
        boxes = [record.system.box if record.system is not None else None, *(frame.box for frame in frames)]
        boxes = [box for box in boxes if box is not None and box.defined]
        return None if not boxes else np.array([boxes[-1].vectors] * len(frames)) * _length(record, unit)
    if record.quantity(row) is None:
        return None
    values = record.quantity(row, units=unit)
    entry = QUANTITIES[row]
    per_frame = (1 if entry.key is not None else 2) + (2 if entry.turning == "tensor" else 0)
    per_frame += 1 if entry.turning in ("point", "vector", "quaternion") else 0
    if row == "element":
        values = np.ma.getdata(values).tolist()
        return values if isinstance(values[0], list) else [values] * len(frames)
    return values if np.ndim(values) == per_frame else np.array([values] * len(frames))


def _column_of(section: Frame | None, name: str) -> Any:
    """Return a column of the atoms, or of a block aligned with them, as a list."""
    blocks = () if section is None else section.blocks.values()
    return next((block[name].tolist() for block in blocks if name in block.columns), None)


def _length(record: Record, unit: str | None) -> float:
    from molrec_convert.quantities.dimensions import unit_of_dimension, units_object
    from molrec_convert.quantities.units import conversion_factor

    own = unit_of_dimension("length", units_object(record.units))
    return 1.0 if unit is None or own is None else conversion_factor(own, unit) or 1.0


def _compared(expected: Any, seen: Any) -> str:
    """Return how what is seen compares: exact, nearly, single, N decimals, or other."""
    if not isinstance(expected, np.ndarray) or expected.dtype.kind not in "fiu":
        same = [list(one) if isinstance(one, (list, np.ndarray)) else one for one in expected]
        other = [list(one) if isinstance(one, (list, np.ndarray)) else one for one in seen]
        if all(isinstance(one, float) or one is None for one in [*same, *other]):
            expected, seen = np.array(same, np.float64), np.array(other, np.float64)
        else:
            return "exact" if other in (same, same[-1:], same[:1]) else "other"
    seen, expected = np.asarray(seen), np.asarray(expected, np.float64)
    if len(seen) == 1 and len(expected) > 1:  # a format of one frame has the last, a program may read the first only
        return min((_compared(expected[place], seen) for place in (np.s_[:1], np.s_[-1:])), key=_GRADES.index)
    if expected.shape != seen.shape:
        return "other"
    missing = np.isnan(expected)
    if (np.isnan(seen) != missing).any():
        return "other"
    expected, seen = expected[~missing], seen[~missing]
    wide = seen.astype(np.float64)
    if (wide == expected).all():
        return "exact"
    error = np.abs(wide - expected)
    scale = max(float(np.abs(expected).max()), 1e-30)
    if (error <= 4e-15 * np.abs(expected) + 1e-16 * scale).all():
        return "nearly"
    if (error <= 2.5e-7 * np.maximum(np.abs(expected), 0.05 * scale)).all():
        return "single"
    for decimals in range(8, 0, -1):
        if error.max() <= 0.5001 * 10.0**-decimals + 3e-7 * scale:
            return f"{decimals} decimals"
    return "other"


_GRADES = ["exact", "nearly", "single", *(f"{n} decimals" for n in range(8, 0, -1)), "placeholder", "other"]


def _names(row: str) -> set[str]:
    """Return what a report may call a row."""
    if row == "cell":
        return {"box", "cell", "cells", "Lattice", "CRYST1"}
    if row in ("time", "step"):
        return {row, f"{row}s", "step numbers", f"trajectory/{row}"}
    entry = QUANTITIES.get(row)
    if entry is None:
        return {row.split()[1]}
    return {row, *entry.columns, *(() if entry.key is None else (entry.key,))}


#: Formats whose numbers are in other units than LAMMPS' real ones by convention.
_METAL = tuple(name for name in FORMATS if not name.startswith(("mrec", "lammps")))


def _is_other(row: str) -> bool:
    """True if a row has another unit in LAMMPS' real units than in its metal ones."""
    return row in QUANTITIES and QUANTITIES[row].dimension not in ("", "length", "mass", "charge")


def _said(report: Report, row: str, *, digits: bool = False) -> bool:
    """True if the report says that something of a row is not in the target as it was (`digits`: not to the last)."""
    names = _names(row)
    if digits and row in ("position", "velocity", "force"):
        names.add("numbers of the frames")
    if row in ("time", "step"):
        names.add("trajectory")
    items = [item for item in report.items if item.fate in (Fate.DROPPED, Fate.CONVERTED)]
    return any(names & set(item.name.replace("/", " ").split()) or item.name in names for item in items)


def cells() -> dict[tuple[str, str, str], Cell]:
    """Return the matrix: (sample, row, format) → cell."""
    return {(name, *place): cell for name in SAMPLES for place, cell in cells_of(name).items()}


@functools.cache
def cells_of(name: str) -> dict[tuple[str, str], Cell]:
    """Return the cells of one sample: (row, format) → cell."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for format in FORMATS:
            place = Path(directory) / format
            place.mkdir()
            found |= {(row, format): cell for row, cell in _column(samples()[name], format, place).items()}
    return found


def _column(sample: Sample, format: str, place: Path) -> dict[str, Cell]:
    """Return what becomes of all rows of one sample in one format."""
    file, options = FORMATS[format]
    path, report, predicted = place / file, Report(), Report()
    try:
        molrec_convert.write(sample.record, path, report=report, **options)
    except MolrecError as error:
        return {row: Cell("refused", detail=str(error)) for row in sample.rows}
    except Exception as error:
        return {row: Cell("fails", faults=[f"{type(error).__name__}: {error}"]) for row in sample.rows}
    to = {"to_format": options["format"]} if "format" in options else {}
    molrec_convert.convert(
        place.parent / "mrec" / "r.mrec", place / f"dry-{file}", dry_run=True, report=predicted, **to
    )
    seen: dict[str, Seen] = {"": _own(path, format, sample)}
    broken = {}
    for program, read in readers_of(format, sample.style).items():
        try:
            seen[program] = see(read, path, sample.style)
        except Exception as error:
            broken[program] = f"{program.strip()} cannot read it: {type(error).__name__}: {error}"
    text = path.read_text() if format == "lammps-dump" else ""
    found = {row: _cell(sample, row, format, seen, report, predicted, text) for row in sample.rows}
    for cell in found.values():
        cell.faults += broken.values()
    return found


def _own(path: Path, format: str, sample: Sample) -> Seen:
    """Return what is read back."""
    options = {"units": sample.style} if format in ("lammps-data", "lammps-dump") else {}
    if format in ("dcd", "xtc", "trr", "ncdf", "gro", "lammps-run"):
        return {}
    if format in ("extxyz", "xyz"):
        options = {"units": "lj" if sample.style == "lj" else "metal"}
    read = molrec_convert.read(
        path, **options, **({"as_": "trajectory"} if format in ("extxyz", "xyz", "ase-db") else {})
    )
    record = read if isinstance(read, Record) else read[0]
    seen: Seen = {}
    for row in sample.rows:
        entry = QUANTITIES.get(row)
        unit = (
            None
            if sample.style == "lj"
            else UNITS.get("length" if row == "cell" else "" if entry is None else entry.dimension)
        )
        values = _stated(record, row, unit)
        if values is not None:
            seen[row] = (values, unit)
    read.close()
    return seen


def _cell(
    sample: Sample, row: str, format: str, seen: dict[str, Seen], report: Report, predicted: Report, text: str
) -> Cell:
    grades: dict[str, str] = {}
    columns_in_dump = any(f" {name}[1] " in text or f" {name} " in text for name in _names(row))
    for program, views in seen.items():
        if row in views:
            values, unit = views[row]
            if sample.style == "lj":
                values = np.multiply(values, 10.0) if unit is not None and unit.startswith("nm") else values
                unit = None
            grades[program] = _compared(_stated(sample.record, row, unit), values)
    if grades.get("") == "other" and _said(report, row):
        del grades[""]
    if not grades and format == "lammps-dump" and columns_in_dump:
        return Cell("as columns")
    if not grades:
        faults = [] if _said(report, row) else [f"{row} is gone and the report does not say so"]
        if _said(report, row) and not _said(predicted, row):
            faults.append("a dry run does not say so")
        return Cell("–", faults=faults)
    if row.startswith("column ") and grades.get("") == "exact" and _said(report, row):
        grades = {program: "placeholder" if grade == "other" else grade for program, grade in grades.items()}
    faults = [
        f"{program.strip() or 'read back'}: another value" for program, grade in grades.items() if grade == "other"
    ]
    grade = "placeholder" if "placeholder" in grades.values() else min(grades.values(), key=_GRADES.index)
    word = grade
    if grade in ("exact", "nearly"):
        word = "converted" if sample.style == "real" and format in _METAL and _is_other(row) else "exact"
    elif grade != "other" and not _said(report, row, digits=True):
        faults.append(f"{grade}, and the report does not say so")
    return Cell(word, [program.strip() for program in grades if program], faults)
