"""What a record's columns and keys become in a file, and what has no place there.

The plan is made before anything is written, so that what it reports is what is predicted, too.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.meaning.labels import LabelOptions
from molrec_convert.meaning.quantities import atom_blocks
from molrec_convert.meaning.species import free_name
from molrec_convert.model import (
    ColumnDeclaration,
    Frame,
    FrameBatch,
    MemoryTrajectory,
    MetaDeclaration,
    Record,
    Trajectory,
)
from molrec_convert.model.names import STANDARD_DTYPES
from molrec_convert.model.trajectory import MappedTrajectory
from molrec_convert.quantities.dimensions import unit_of_dimension, units_object
from molrec_convert.quantities.elements import SYMBOLS, UNKNOWN
from molrec_convert.quantities.standard import momenta_of, velocity_factor
from molrec_convert.quantities.units import conversion_factor
from molrec_convert.report import Report
from molrec_convert.text.output import Column, word_column, write_rows
from molrec_xyz.columns import EMPTY, SINGLE, VECTORS, file_name, record_name
from molrec_xyz.headers import ValueFault, typed
from molrec_xyz.per_step import reads_as_real

__all__ = [
    "ATOMS",
    "TENSOR",
    "FilePlan",
    "OutColumn",
    "as_word",
    "counts_frames",
    "key_text",
    "make_plan",
    "real_text",
    "rows_text",
    "value_text",
    "with_momenta",
]

_SYMBOLS = [symbol.encode() for symbol in SYMBOLS]


def rows_text(
    columns: list[tuple[str, str, NDArray[Any]]], rows: int, digits: int | None
) -> tuple[bytes, NDArray[np.int64]]:
    """Return rows of columns (name, letter, values) as one text, and where each begins in it and the last ends."""
    fields: list[Column] = []
    for name, letter, values in columns:
        flat = values.reshape(rows, math.prod(values.shape[1:]))
        fields += [_field_of(name, letter, flat[:, part], digits) for part in range(flat.shape[1])]
    if fields:
        fields[0] = fields[0]._replace(before=b"")
    text, ends = write_rows(fields, rows)
    return text, np.concatenate([[0], ends])


def _field_of(name: str, letter: str, values: NDArray[Any], digits: int | None) -> Column:
    if letter == "R":
        return Column("shortest" if digits is None else "decimals", values, digits=digits or 0, whole_point=False)
    if letter == "I":
        return Column("int", values)
    if letter == "L":
        return Column("bool", values)
    if letter == "Z":
        inside = (values > 0) & (values < len(_SYMBOLS))
        return Column("word", np.where(inside, values, 0).astype(np.int32), words=_SYMBOLS)
    return word_column(values.tolist(), spelled=lambda text: as_word(name, text))


def as_word(name: str, text: str) -> str:
    """Return what stands for a text in the column `name` of a row: one word, of nothing X or a point."""
    return "_".join(text.split()) or (UNKNOWN if name == "species" else EMPTY)


_BARE_KEY = re.compile(r"[^\s=\"',\[\]{}\\]+")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x85\u2028\u2029]")

Real = Callable[[float], str]


def real_text(digits: int | None) -> Real:
    """Return how a real number is written."""
    if digits is None:
        return repr
    return lambda value: f"{value:.{digits}f}" if math.isfinite(value) else repr(value)


def key_text(key: str) -> str:
    """Return a key as it stands before its sign."""
    if _BARE_KEY.fullmatch(key):
        return key
    return '"' + _escaped(key) + '"'


def value_text(value: Any, tag: str, real: Real) -> str:
    """Return a value of a tag as it stands behind its sign."""
    if tag == "f64":
        return real(float(value))
    if tag == "bool":
        return "T" if value else "F"
    if tag in ("i32", "i64", "u32", "u64"):
        return str(int(value))
    if tag == "string":
        return string_text(str(value))
    if tag == "json":
        return json_text(value)
    items = np.asarray(value).tolist()
    if tag == "bool3":
        words = ["T" if item else "F" for item in items]
    elif tag.startswith("f64"):
        words = [real(item) for item in items]
    else:
        words = [str(item) for item in items]
    return '"' + " ".join(words) + '"'


def string_text(text: str) -> str:
    """Return a string in quotes."""
    if _CONTROL.search(text):
        return json_text(text)
    body = _escaped(text)
    if not _reads_as_text(body, text):
        place = 1 if body[:1] == "n" and len(body) > 1 else 0
        body = f"{body[:place]}\\{body[place:]}"
    return f'"{body}"'


def _reads_as_text(body: str, text: str) -> bool:
    """True if what stands between quotes reads back as that text, not as a number or a list."""
    try:
        value = typed("double", body)
    except ValueFault:
        return False
    return isinstance(value, str) and value == text


def json_text(document: Any) -> str:
    """Return a JSON document: as a value of the grammar where it has one that reads back the same, else as `_JSON`."""
    if isinstance(document, bool):
        return "T" if document else "F"
    if isinstance(document, int):
        return str(document)
    if isinstance(document, float):
        return repr(document)
    if isinstance(document, str) and not _CONTROL.search(document):
        return string_text(document)
    if isinstance(document, list) and document and all(type(item) in (int, float) for item in document):
        kinds = {type(item) for item in document}
        if len(kinds) == 1 and len(document) not in (3, 6, 9):
            return "[" + ", ".join(map(repr, document)) + "]"
    text = json.dumps(document, ensure_ascii=True, allow_nan=False)
    return '"' + _escaped(f"_JSON {text}") + '"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_VELOCITIES = ("vx", "vy", "vz")


def with_momenta(record: Record, report: Report) -> Record:
    """Return the record with the column `momenta` beside its velocities, (dalton eV)**0.5, as ASE's files have them.

    Itself where it has none to make: no velocities, momenta already, no masses, or units that are not stated.
    """
    trajectory = record.trajectory
    if trajectory is None:
        return record
    declared = trajectory.declaration.blocks
    block = next((name for name in atom_blocks(trajectory.declaration) if "vx" in declared[name].columns), None)
    if block is None or not all(axis in declared[block].columns for axis in _VELOCITIES):
        return record
    if any("momenta" in declared[name].columns for name in atom_blocks(trajectory.declaration)):
        return record
    units = units_object(record.units)
    per_velocity, mass_unit = velocity_factor(units), unit_of_dimension("mass", units)
    per_mass = None if mass_unit is None else conversion_factor(mass_unit, "dalton")
    if per_velocity is None or per_mass is None:
        return record
    system = None if record.system is None else record.system.blocks.get("atoms")
    fixed = None
    if "mass" not in declared[block].columns:
        if system is None or "mass" not in system.columns or system.columns["mass"].validity is not None:
            report.warn("the velocities are written as velo, which ASE does not read: the record has no masses")
            return record
        fixed = system.columns["mass"].values * per_mass

    def change(batch: FrameBatch) -> FrameBatch:
        updates = batch.blocks.get(block)
        if updates is None:
            return batch
        masses: NDArray[np.float64] = (
            updates.columns["mass"] * per_mass if fixed is None else np.tile(fixed, len(updates.frames))
        )
        velocities = np.stack([updates.columns[axis] for axis in _VELOCITIES], axis=1)
        columns = {**updates.columns, "momenta": momenta_of(velocities, masses, per_velocity)}
        validity = dict(updates.validity)
        if "vx" in validity:
            validity["momenta"] = validity["vx"]
        made = dataclasses.replace(updates, columns=columns, validity=validity)
        return dataclasses.replace(batch, blocks={**batch.blocks, block: made})

    own = declared[block]
    column = ColumnDeclaration("f64", (3,), own.columns["vx"].nullable)
    blocks = {**declared, block: dataclasses.replace(own, columns={**own.columns, "momenta": column})}
    declaration = dataclasses.replace(trajectory.declaration, blocks=blocks)
    report.converted("atoms/vx, vy, vz", "as momenta, with the masses of the atoms: ASE reads these")
    return dataclasses.replace(record, trajectory=MappedTrajectory(trajectory, change, declaration, whole=True))


ATOMS = "atoms"
#: Tags of a stress or virial, and the tag under which a plan has it.
TENSOR_TAGS, TENSOR = ("f64x6", "f64x9"), "tensor"
_LETTERS = {
    "f64": "R",
    "string": "S",
    "bool": "L",
    **dict.fromkeys(("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"), "I"),
}
#: Which of the columns that say what an atom is stands in the column species.
_SPECIES = ("element", "name", "type")
#: Keys that mean something else at the head of a frame.
_TAKEN = re.compile(r"lattice|properties|pbc|origin", re.IGNORECASE)
_STEPS = ("step", "Step", "Timestep", "timestep")
_BLANK = re.compile(r"[\s:=\"',\[\]{}\\]")


@dataclass(frozen=True)
class OutColumn:
    """A column of the file: its name there, type and width, and the block and the columns of the record it is from.

    `block` None is the system. `nullable`: frames in which it is null do not have it.
    """

    name: str
    letter: str
    width: int
    block: str | None
    sources: tuple[str, ...]
    nullable: bool = False

    def __str__(self) -> str:
        return f"{self.name}:{self.letter}:{self.width}"


@dataclass
class FilePlan:
    """How one record is written: the source of frames, columns in the order of the file, and keys of the head.

    `keys` is (name in the record, name in the file, tag, fill) of each value per step, or of the system: no frame has
    one of these, so that it is always its fill. `step_key` names the step numbers where they are not the ordinals.
    """

    trajectory: Trajectory | None
    system: Frame | None
    columns: list[OutColumn]
    keys: list[tuple[str, str, str, Any]]
    step_key: str | None
    time_key: str | None


def counts_frames(record: Record) -> bool:
    """True if the steps of a record are the ordinals of its frames, which need not be written."""
    steps = np.zeros(0, np.int64) if record.trajectory is None else record.trajectory.steps
    return bool((steps == np.arange(len(steps))).all())


def make_plan(
    record: Record, report: Report, labels: LabelOptions, *, plain: bool = False, counted: bool | None = None
) -> FilePlan:
    """Return the plan for a record; what is not in it is reported as dropped, what changes as converted.

    `labels` are the names of the energy, forces, stress and virial in the file.

    `counted`: steps are not written, as they are those of `counts_frames` in all records of a file.
    """
    counted = counts_frames(record) if counted is None else counted
    record = with_momenta(record, report) if not plain else record
    trajectory = record.trajectory
    if record.frame is not None:
        if trajectory is None:
            trajectory = MemoryTrajectory([record.frame])
            report.converted("frame", "as a frame")
        else:
            report.dropped("frame", "a file has the frames of a trajectory, and none beside them")
    constants = _constants(record, report, plain=plain)
    candidates = _candidates(record, trajectory, report)
    columns = _columns(candidates, labels, report)
    columns = _without_partial_nulls(trajectory, columns, report)
    if plain:
        columns = _plain_columns(columns, report)
    _report_texts(record.system, trajectory, columns, report)
    keys, step_key, time_key = _keys(trajectory, constants, labels, report, plain=plain, counted=counted)
    _report_cell(trajectory, report, plain=plain)
    return FilePlan(trajectory, record.system, columns, keys, step_key, time_key)


def _constants(record: Record, report: Report, *, plain: bool) -> dict[str, MetaDeclaration]:
    """Return the keys of the system, each with its value, that a head has a place for; the rest is dropped.

    They stand at the head of every frame. A JSON document is one of them where the grammar has such a value.
    """
    for key in record.meta:
        if key not in ("molrec_version", "creator"):
            report.dropped(f"meta.{key}", "the format has no place for it")
    system = record.system
    found: dict[str, MetaDeclaration] = {}
    if system is None:
        return found
    for key in system.meta:
        if key == "units":  # of which the conversion to the format's own is reported
            continue
        value, tag = system.meta[key], system.meta.tag(key)
        if plain or (tag == "json" and (value is None or "_JSON" in json_text(value))):
            report.dropped(f"system/meta/{key}", "the format has no place for it")
        else:
            found[key] = MetaDeclaration(tag, value)
    for name in system.blocks:
        if name != ATOMS:
            report.dropped(f"system/{name}", "the format has no place for it")
    if system.box is not None and record.trajectory is None and record.frame is None:
        report.dropped("system/box", "there is no frame to state it in")
    return found


Candidate = tuple[str | None, str, ColumnDeclaration]


def _candidates(record: Record, trajectory: Trajectory | None, report: Report) -> dict[str, Candidate]:
    """Return columns of the atoms: those of the system, and of the blocks that have a row for each atom."""
    found: dict[str, Candidate] = {}
    if record.system is not None and ATOMS in record.system.blocks:
        for name, column in record.system[ATOMS].columns.items():
            found[name] = (
                None,
                name,
                ColumnDeclaration(column.dtype, column.trailing, column.validity is not None, column.precision),
            )
    for block, declared in ({} if trajectory is None else trajectory.declaration.blocks).items():
        if block != ATOMS and declared.aligned_with != ATOMS:
            report.dropped(f"trajectory/{block}", "the format has no place for it")
            continue
        for name, entry in declared.columns.items():
            found[name] = (block, name, entry)
    return found


def _columns(candidates: dict[str, Candidate], labels: LabelOptions, report: Report) -> list[OutColumn]:
    columns: list[OutColumn] = []
    left = dict(candidates)
    momenta = "momenta" in left and left["momenta"][2].trailing == (3,)
    species = next((name for name in _SPECIES if name in left and _scalar(left, name)), None)
    if species is not None and "atomic_number" in left and species != "element":
        species = None
    if species is not None:
        block, _, entry = left.pop(species)
        columns.append(OutColumn("species", "S", 1, block, (species,), entry.nullable))
        report.converted(f"atoms/{species}", "as species")
    names = {**VECTORS, ("fx", "fy", "fz"): labels.name_of("forces")}
    for axes, name in names.items():
        if not all(_scalar(left, axis) for axis in axes) or len({left[axis][0] for axis in axes}) != 1:
            continue
        if axes == ("vx", "vy", "vz") and momenta:
            for axis in axes:
                del left[axis]
            report.converted("vx vy vz", "not written, as momenta are")
            continue
        entries = [left.pop(axis) for axis in axes]
        columns.append(OutColumn(name, "R", 3, entries[0][0], axes, entries[0][2].nullable))
        note = "; velo when it is read back, in units the file does not state" if axes[0] == "vx" else ""
        report.converted(" ".join(axes), f"as {columns[-1].name}{note}")
        for axis, (_, _, entry) in zip(axes, entries, strict=True):
            _report_precision(axis, entry, report)
    usual = {target: names[0] for target, (names, _) in SINGLE.items()}
    taken_names = {column.name for column in columns}
    for name, (block, _, entry) in left.items():
        column = _column(name, block, entry, usual, {*taken_names, *map(file_name, left)}, taken_names, report)
        if column is not None:
            columns.append(column)
            taken_names.add(column.name)
            _report_precision(name, entry, report)
    order = {"species": 0, "pos": 1}
    return sorted(columns, key=lambda column: order.get(column.name, 2))


def _scalar(left: dict[str, Candidate], name: str) -> bool:
    return name in left and not left[name][2].trailing


def _column(
    name: str, block: str | None, entry: ColumnDeclaration, usual: dict[str, str], taken: set[str], written: set[str],
    report: Report,
) -> OutColumn | None:  # fmt: skip
    """Return one column of the record as one of the file; None, and a word, where it has no place."""
    letter = _LETTERS.get(entry.dtype)
    width = int(np.prod(entry.trailing)) if entry.trailing else 1
    own = usual.get(name, file_name(name))
    if own != file_name(name) and own in taken:
        own = file_name(name)
    own = free_name(own, written)
    if letter is None or width == 0:
        report.dropped(f"atoms/{name}", f"a file has no columns of {entry.dtype}{list(entry.trailing) or ''}")
        return None
    if _BLANK.search(own) or own in ("species", "pos"):
        report.dropped(f"atoms/{name}", "its name is none a column of a file can have")
        return None
    back = {"R": "f64", "I": "i64", "S": "string", "L": "bool"}[letter]
    standard = STANDARD_DTYPES.get(name)
    if standard != entry.dtype and back != entry.dtype:
        report.converted(f"atoms/{name}", f"{entry.dtype} as integers, which are read back as i64")
    elif len(entry.trailing) > 1:
        report.converted(f"atoms/{name}", f"shape {list(entry.trailing)} as {width} numbers in a row")
    elif (own != name and own != usual.get(name)) or own != name:
        report.converted(f"atoms/{name}", f"as {own}")
    else:
        report.carried(f"atoms/{name}")
    return OutColumn(own, letter, width, block, (name,), entry.nullable)


def _report_precision(name: str, entry: ColumnDeclaration, report: Report) -> None:
    if entry.precision is not None:
        report.dropped(f"precision of {name}", "a file does not state what its numbers are rounded to")


def _without_partial_nulls(trajectory: Trajectory | None, columns: list[OutColumn], report: Report) -> list[OutColumn]:
    """Return the columns without those that are null for some atoms of a frame: a row has a value for each column."""
    wanted = [c for c in columns if c.nullable and c.block is not None]
    dropped = {c for c in columns if c.nullable and c.block is None}
    if wanted and trajectory is not None:
        for batch in trajectory.batches(columns=[f"{c.block}/{name}" for c in wanted for name in c.sources]):
            for column in wanted:
                updates = batch.blocks.get(column.block or "")
                for name in column.sources if updates is not None else ():
                    assert updates is not None
                    mask = updates.validity.get(name)
                    if mask is not None and len(mask) and _is_partial(mask, updates.offset):
                        dropped.add(column)
    for column in dropped:
        report.dropped(" ".join(column.sources), "null for some atoms of a frame, and a row has no place for that")
    return [column for column in columns if column not in dropped]


def _report_texts(
    system: Frame | None, trajectory: Trajectory | None, columns: Sequence[OutColumn], report: Report
) -> None:
    """Report texts that stand as other words: empty ones, and those with blanks, which would part a row."""
    texts = [column for column in columns if column.letter == "S"]
    for column in texts:
        if column.block is None and system is not None:
            _report_words(column, [system[ATOMS].stored(name) for name in column.sources], report)
    moving = [column for column in texts if column.block is not None]
    if not moving or trajectory is None:
        return
    for batch in trajectory.batches(columns=[f"{c.block}/{name}" for c in moving for name in c.sources]):
        for column in moving:
            updates = batch.blocks.get(column.block or "")
            if updates is not None:
                _report_words(column, [updates.columns[name] for name in column.sources], report)


def _report_words(column: OutColumn, parts: list[Any], report: Report) -> None:
    for part in parts:
        different = set(part.reshape(-1).tolist())
        node = f"atoms/{column.sources[0]}"
        if any(not text.strip() for text in different):
            report.converted(node, f"{as_word(column.name, '')} stands for an empty text")
        if any(text.strip() and as_word(column.name, text) != text for text in different):
            report.dropped(node, "blanks in its texts: a field of a row has none, and _ stands for them")


def _is_partial(mask: Any, offset: Any) -> bool:
    counted = np.concatenate([[0], np.cumsum(mask)])
    there = counted[offset[1:]] - counted[offset[:-1]]
    return bool(((there > 0) & (there < np.diff(offset))).any())


def _plain_columns(columns: Sequence[OutColumn], report: Report) -> list[OutColumn]:
    kept = [column for column in columns if column.name in ("species", "pos")]
    numbers = next((column for column in columns if column.name == "Z"), None)
    species = any(column.name == "species" for column in kept)
    for column in columns:
        if column not in kept and (species or column is not numbers):
            report.dropped(" ".join(column.sources), "a plain file has species and positions only")
    if numbers is not None and not species:
        report.converted("atoms/atomic_number", "as the symbols of the elements")
        kept.insert(0, OutColumn("species", "Z", 1, numbers.block, numbers.sources, numbers.nullable))
    return kept


def _keys(
    trajectory: Trajectory | None, constants: dict[str, MetaDeclaration], labels: LabelOptions, report: Report, *,
    plain: bool, counted: bool,
) -> tuple[list[tuple[str, str, str, Any]], str | None, str | None]:  # fmt: skip
    declared = constants | ({} if trajectory is None else trajectory.declaration.meta)
    keys: list[tuple[str, str, str, Any]] = []
    standard = {
        key: labels.name_of(quantity)
        for key, quantity in (("pe", "energy"), ("stress", "stress"), ("virial", "virial"))
        if key in declared and (declared[key].dtype == "f64" or declared[key].dtype in TENSOR_TAGS)
    }
    for key, entry in declared.items():
        node = f"{'system' if declared[key] is constants.get(key) else 'trajectory'}/meta/{key}"
        own = standard[key] if key in standard else free_name(file_name(key), standard.values())
        if plain:
            if key != "comment":
                report.dropped(node, "a plain file has a comment only")
                continue
        elif _TAKEN.fullmatch(own) and not (own == "pbc" and entry.dtype in ("bool3", "json")):
            report.dropped(node, f"{own} means something else at the head of a frame")
            continue
        if entry.dtype in TENSOR_TAGS and key in standard:
            report.converted(node, f"as {own}, nine numbers, which ASE reads")
            keys.append((key, own, TENSOR, entry.fill))
            continue
        _report_key(node, key, own, entry.dtype, report)
        keys.append((key, own, entry.dtype, entry.fill))
    if trajectory is None:
        return keys, None, None
    times = trajectory.times
    names = {own for _, own, _, _ in keys}
    step_key = None if counted else next((name for name in _STEPS if name not in names), None)
    time_key = None if times is None else next((name for name in ("time", "Time") if name not in names), None)
    if plain:
        if step_key is not None:
            report.dropped("trajectory/step", "a plain file has no step numbers: frames are counted")
        if time_key is not None:
            report.dropped("trajectory/time", "a plain file has no times")
        return keys, None, None
    return keys, step_key, time_key


def _report_key(name: str, key: str, own: str, tag: str, report: Report) -> None:
    if tag in ("i32", "u32", "u64", "i32x3", "u32x3", "u64x3"):
        report.converted(name, f"{tag} as integers, which are read back as i64")
    elif tag in ("i64", "i64x3") and reads_as_real(own):
        report.converted(name, "integers, which are read back as real numbers")
    elif (record_name(own) != key and key != "pe") or own != key:
        report.converted(name, f"as {own}")
    else:
        report.carried(name)


def _report_cell(trajectory: Trajectory | None, report: Report, *, plain: bool) -> None:
    if trajectory is None:
        return
    boxed = False
    for batch in trajectory.batches(columns=()):
        boxed |= batch.box is not None
        if batch.box is not None and not trajectory.cell_defined and bool(batch.box.origin.any()):
            report.dropped("trajectory/box", "an origin without a cell has no place in a file")
    if boxed and plain and trajectory.cell_defined:
        report.dropped("trajectory/box", "a plain file has no cell")
