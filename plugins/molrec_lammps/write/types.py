"""Numbers of atoms and types for a LAMMPS file, from a record of any origin.

A record from LAMMPS has them (`id`, `type_id`); of any other atoms are numbered by row, and types by the names in
`type` or `element`, or of a relation by its `type`, in order of first appearance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.meaning.element_guessing import mass_of_element
from molrec_convert.model import Block, Box, Column, ForceField, Frame, Record
from molrec_convert.quantities.elements import NUMBERS
from molrec_convert.report import Report
from molrec_lammps.common.units import UNITS
from molrec_lammps.write.units import Conversion

__all__ = [
    "ATOMS",
    "Masses",
    "State",
    "Types",
    "aligned_blocks",
    "atom_ids",
    "atom_types",
    "brings_masses",
    "is_label",
    "lammps_document",
    "last_frame",
    "masses_of",
    "named_masses",
    "order_fault",
    "ordered",
    "relation_types",
    "report_meta",
    "state_of",
]

#: The largest number LAMMPS has for an atom or a type: in its usual build, and in any.
_USUAL = 2**31 - 1
_LARGEST = 2**63 - 1


@dataclass
class Types:
    """Types of some rows: the number of each row (int64, from 1 on), how many there are, and their labels if any."""

    numbers: NDArray[np.int64]
    count: int
    labels: list[str]
    names: list[str]


def atom_ids(atoms: Mapping[str, Column], count: int, report: Report, node: str = "atoms/id") -> NDArray[np.int64]:
    """Return the id of each row. UnsupportedError: an id that is 0, missing, there twice, or beyond 64 bits."""
    column = atoms.get("id")
    if column is None:
        report.derived(node, "the record has no ids: atoms are numbered by row, from 1 on")
        return np.arange(1, count + 1, dtype=np.int64)
    if column.validity is not None:
        row = int((~column.validity).argmax())
        raise UnsupportedError(f"{node}: row {row} has no id, and LAMMPS has no atom without one")
    values = column.values
    if len(values) and int(values.max()) > _LARGEST:
        raise UnsupportedError(f"{node}: the id {int(values.max())} is beyond what LAMMPS can hold, {_LARGEST}")
    ids = values.astype(np.int64)
    if len(ids) and int(ids.min()) < 1:
        raise UnsupportedError(f"{node}: the id {int(ids.min())} is none of LAMMPS', which count from 1")
    if len(ids) > 1 and not bool((ids[1:] > ids[:-1]).all()):
        ordered = np.sort(ids)
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(twice):
            raise UnsupportedError(f"{node}: the id {int(ordered[twice[0]])} is there twice")
    if len(ids) and int(ids.max()) > _USUAL:
        report.warn(f"{node}: ids up to {int(ids.max())} need a LAMMPS built with -DLAMMPS_BIGBIG")
    return ids


def atom_types(
    atoms: Mapping[str, Column], count: int, document: Mapping[str, Any], report: Report, node: str = "atoms"
) -> Types:
    """Return the types of atoms: `type_id`, else by `type`, else by `element`. `document` is what a data file said."""
    stated = _stated(document, "atom")
    if "type_id" in atoms:
        return _numbered(atoms["type_id"], atoms.get("type"), stated, _labels(document, "atom"), f"{node}/type_id")
    for name in ("type", "element"):
        if name in atoms and atoms[name].dtype == "string":
            types = _named(atoms[name], f"{node}/{name}")
            report.derived(f"{node}/type_id", f"from {name}: {_listing(types.names)}")
            return types
    report.derived(f"{node}/type_id", "the record states neither types nor elements: all atoms are of type 1")
    return Types(np.ones(count, dtype=np.int64), 1, [], ["1"])


def relation_types(block: Block, kind: str, document: Mapping[str, Any], report: Report, node: str) -> Types:
    """Return the types of a relation's rows: `type_id`, else by `type`; all of one type where neither is there."""
    stated = _stated(document, kind)
    if "type_id" in block.columns:
        return _numbered(
            block.columns["type_id"], block.columns.get("type"), stated, _labels(document, kind), f"{node}/type_id"
        )
    if "type" in block.columns and block.columns["type"].dtype == "string":
        types = _named(block.columns["type"], f"{node}/type")
        report.derived(f"{node}/type_id", f"from type: {_listing(types.names)}")
        return types
    report.derived(f"{node}/type_id", "the record states no types: all rows are of type 1")
    return Types(np.ones(block.count, dtype=np.int64), 1, [], ["1"])


def is_label(name: str) -> bool:
    """True if LAMMPS takes a name as a type label: no digit, `*` or `#` first, no blanks."""
    return bool(name) and not name[0].isdigit() and name[0] not in "*#" and not any(c.isspace() for c in name)


def _stated(document: Mapping[str, Any], kind: str) -> int:
    counts = document.get("type_counts")
    value = counts.get(kind, 0) if isinstance(counts, Mapping) else 0
    return value if isinstance(value, int) else 0


def _labels(document: Mapping[str, Any], kind: str) -> list[str]:
    labels = document.get("type_labels")
    found = labels.get(kind) if isinstance(labels, Mapping) else None
    return [str(label) for label in found] if isinstance(found, Sequence) else []


def _numbered(column: Column, names: Column | None, stated: int, labels: list[str], node: str) -> Types:
    if column.validity is not None:
        row = int((~column.validity).argmax())
        raise UnsupportedError(f"{node}: row {row} has no type, and LAMMPS has none without")
    numbers = column.values
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (1, 0)
    if low < 1 or high > _USUAL:
        raise UnsupportedError(f"{node}: the type {low if low < 1 else high} is none of LAMMPS', which count from 1")
    count = max(high, stated, len(labels))
    if count > len(numbers) + stated + len(labels) + 10**6:
        raise UnsupportedError(f"{node}: the type {high} makes LAMMPS set up {high} types")
    own = numbers.astype(np.int64)
    known = _names_of(own, names, count)
    if labels:
        known = [*labels, *known[len(labels) :]]
    elif any(is_label(name) for name in known):
        labels = known if all(map(is_label, known)) and len(set(known)) == len(known) else []
    return Types(own, count, labels, known)


def _names_of(numbers: NDArray[np.int64], names: Column | None, count: int) -> list[str]:
    """Return what each type is called, from its first row; its number where no row has it."""
    known = [str(number) for number in range(1, count + 1)]
    if names is None or names.dtype != "string" or not len(numbers):
        return known
    first = np.full(count + 1, -1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    for number in np.flatnonzero(first >= 0).tolist():
        row = int(first[number])
        if names.validity is None or names.validity[row]:
            known[number - 1] = str(names.values[row])
    return known


def _named(column: Column, node: str) -> Types:
    if column.validity is not None:
        row = int((~column.validity).argmax())
        raise UnsupportedError(f"{node}: row {row} has no name, and LAMMPS has no atom without a type")
    texts = column.values.tolist()
    numbers: dict[str, int] = {}
    for text in dict.fromkeys(texts):
        numbers[text] = len(numbers) + 1
    values = np.fromiter(map(numbers.__getitem__, texts), dtype=np.int64, count=len(texts))
    names = list(numbers)
    if names and all(name.isdigit() for name in names):
        order = sorted(names, key=int)
        if [int(name) for name in order] == list(range(1, len(order) + 1)):
            rank = {numbers[name]: int(name) for name in names}
            values = np.array([0, *(rank[n] for n in range(1, len(names) + 1))], dtype=np.int64)[values]
            return Types(values, len(names), [], order)
    labels = names if all(map(is_label, names)) else []
    return Types(values, len(names), labels, names)


def _listing(names: list[str]) -> str:
    shown = ", ".join(f"{name} is {number}" for number, name in enumerate(names[:8], 1))
    return shown + (" …" if len(names) > 8 else "")


#: What a data file says of each atom type in a list of its own, and what by kinds of types.
_LISTS = ("masses", "mass_comments")
_BY_KIND = ("type_labels", "label_comments")


def ordered(
    types: Types,
    elements: Column | None,
    document: Mapping[str, Any],
    asked: Sequence[str],
    report: Report,
    *,
    closed: bool = False,
) -> tuple[Types, dict[str, Any]]:
    """Return the types numbered in the order asked for, and the document (what a data file said) to go with them.

    `asked` has the name of each type, or its element. An element no atom is of becomes a type without atoms, unless
    the types are `closed`: a force field says what they are. Types without atoms that are not named come last.
    UsageError: a name that is none, or a type that is not named.
    """
    used = np.unique(types.numbers).tolist()
    called = _called(types, elements, used, asked)
    unknown = [name for name in asked if name not in called.values() and (closed or name not in NUMBERS)]
    missing = [called[number] for number in used if called[number] not in asked]
    if unknown or missing or len(set(asked)) < len(asked):
        raise order_fault(unknown, missing, list(called.values()))
    order: list[int | None] = [next((n for n, own in called.items() if own == name), None) for name in asked]
    order += [number for number in range(1, types.count + 1) if number not in order]
    new = np.zeros(types.count + 1, dtype=np.int64)
    for number, old in enumerate(order, 1):
        if old is not None:
            new[old] = number
    names = [asked[place] if old is None else types.names[old - 1] for place, old in enumerate(order)]
    shown = [called.get(old or 0, name) for old, name in zip(order, names, strict=True)]
    labels = _taken(types.labels, order, names) if types.labels else []
    told = ", ".join(f"{name} is {number}" for number, name in enumerate(shown, 1))
    report.converted("atoms/type_id", f"numbered as --type-order says: {told}")
    found = dict(document)
    for key in _LISTS:
        if key in document:
            found[key] = _taken(document[key], order, [None] * len(order) if key == "masses" else [""] * len(order))
    for key in _BY_KIND:
        if "atom" in document.get(key, {}):
            blanks = labels if key == "type_labels" else [""] * len(order)
            found[key] = {**document[key], "atom": _taken(document[key]["atom"], order, blanks)}
    if "type_counts" in document:
        found["type_counts"] = {**document["type_counts"], "atom": len(order)}
    return Types(new[types.numbers], len(order), labels if all(map(is_label, labels)) else [], names), found


def order_fault(unknown: Sequence[str], missing: Sequence[str], known: Sequence[str]) -> UsageError:
    """Return the error of a name that is none, of a type that is not named, or of one named twice."""
    there = ", ".join(dict.fromkeys(known))
    if unknown:
        return UsageError(f"--type-order: the record has no type {unknown[0]!r}; it has {there}")
    if missing:
        return UsageError(f"--type-order: the type {missing[0]} is not named; name each of {there}")
    return UsageError("--type-order: a type is named twice")


def _called(types: Types, elements: Column | None, used: Sequence[int], asked: Sequence[str]) -> dict[int, str]:
    """Return what each type is called: by its element where the names asked for are not those of types and elements
    tell.
    """
    names = dict(enumerate(types.names, 1))
    if all(names[number] in asked for number in used) or elements is None or elements.dtype != "string":
        return names
    found: dict[int, str] = {}
    for number in used:
        rows = types.numbers == number
        if elements.validity is not None and not elements.validity[rows].all():
            return names
        symbols = set(elements.values[rows].tolist())
        if len(symbols) != 1 or symbols & set(found.values()):
            return names
        found[number] = symbols.pop()
    return found


def _taken(values: Sequence[Any], order: Sequence[int | None], blanks: Sequence[Any]) -> list[Any]:
    """Return what stands in a list for each type of an order; a blank for those that are not in it."""
    return [
        values[old - 1] if old is not None and old <= len(values) else blank
        for old, blank in zip(order, blanks, strict=True)
    ]


ATOMS = "atoms"


@dataclass
class State:
    """One state: columns of the atoms by name, the other blocks, the cell, and the step it is of (None: unknown)."""

    count: int
    atoms: dict[str, Column]
    blocks: dict[str, Block] = field(default_factory=dict)
    box: Box | None = None
    step: int | None = None
    unwrapped: bool = False

    def values(self, name: str) -> NDArray[Any]:
        """Return the values of a column."""
        return self.atoms[name].values


def lammps_document(record: Record) -> dict[str, Any]:
    """Return what a data file said beyond its columns (meta key `lammps` of `system`), {} for a record from
    elsewhere.
    """
    found = None if record.system is None else record.system.meta.get("lammps")
    return found if isinstance(found, dict) else {}


def state_of(record: Record, report: Report) -> State:
    """Return the state in `frame`, without one the last frame of the trajectory; `system` alone where there is neither.

    UnsupportedError: there are no atoms.
    """
    frame = record.frame
    if record.trajectory is not None and (frame is None or "x" not in frame.blocks.get(ATOMS, {})):
        frame = last_frame(record, report)
    elif record.trajectory is not None:
        report.dropped(
            "trajectory", "one state is written, that of the section frame; a dump (--to lammps-dump) holds all"
        )
    system = Frame() if record.system is None else record.system
    layers = [system] if frame is None else [system, frame]
    tables = [layer.blocks[ATOMS] for layer in layers if ATOMS in layer.blocks]
    if not tables:
        raise UnsupportedError("the record holds no atoms, and a LAMMPS file is made of them")
    count = tables[-1].count
    if tables[0].count != count:
        report.dropped("system/atoms", f"has {tables[0].count} rows, the state {count}: they cannot be told apart")
        tables = tables[1:]
    columns = {name: column for table in tables for name, column in table.columns.items()}
    blocks = {name: block for layer in layers for name, block in layer.blocks.items() if name != ATOMS}
    if frame is not None and record.trajectory is not None and frame is not record.frame:
        for name in aligned_blocks(record):
            block = blocks.pop(name, None)
            if block is not None and block.count == count:
                columns.update(block.columns)
    boxes = [layer.box for layer in layers if layer.box is not None and layer.box.defined]
    unwrapped = any(layer.meta.get("coordinates") == "unwrapped" for layer in layers)
    step = None if frame is None else frame.step
    return State(count, columns, blocks, boxes[-1] if boxes else None, step, unwrapped)


def aligned_blocks(record: Record) -> list[str]:
    """Return the blocks of the trajectory whose rows are those of the atoms."""
    if record.trajectory is None:
        return []
    blocks = record.trajectory.declaration.blocks
    return [name for name, block in blocks.items() if block.aligned_with in (ATOMS, f"/system/{ATOMS}")]


def report_meta(record: Record, kept: Collection[str], report: Report, what: str) -> None:
    """Report what a record says beside columns and cells: keys of `system`, of `frame`, of every frame.

    `kept` are the keys of `system` that are written; `what` is what has no place for the others.
    """
    found = [] if record.system is None else [f"system/meta/{key}" for key in record.system.meta if key not in kept]
    found += [] if record.frame is None else [f"frame/meta/{key}" for key in record.frame.meta]
    if record.trajectory is not None:
        found += [f"trajectory/meta/{key}" for key in record.trajectory.declaration.meta]
    for node in found:
        report.dropped(node, f"{what} has no place for it")


def last_frame(record: Record, report: Report) -> Frame | None:
    """Return the last frame of the trajectory, the others reported; None when it has none."""
    trajectory = record.trajectory
    assert trajectory is not None
    count = trajectory.n_frames
    if count is None:
        last, count = None, 0
        for frame in trajectory:
            last, count = frame, count + 1
    else:
        last = trajectory[count - 1] if count else None
    if count > 1 and last is not None:
        report.dropped(
            "trajectory",
            f"one state is written, the last of {count} frames (step {last.step}); --frames picks another, a dump "
            "(--to lammps-dump) holds all",
        )
    return last


#: Pair styles whose coefficient files state masses, which LAMMPS sets with them.
_BRING_MASSES = {"eam", "eam/alloy", "eam/cd", "eam/fs", "eam/he", "adp", "eim", "meam"}


@dataclass(frozen=True)
class Masses:
    """The mass and the comment of each type, from type 1 on."""

    values: list[float]
    comments: list[str]


def masses_of(
    state: State,
    types: Types,
    document: Mapping[str, Any],
    units: str | None,
    report: Report,
    *,
    needed: bool = False,
    own: bool = False,
    named: Mapping[str, float] | None = None,
) -> Masses | None:
    """Return the masses of all types: of their atoms, else those a data file stated, else of their elements (reported).

    `named` are those the force field states, by the names of types. Elements count where there was no data file, or
    where masses are `needed`.

    None where a type has none, which `needed` refuses by an UnsupportedError; so is a type whose atoms have several.
    `own`: the atom style has masses of atoms, and only what a data file stated is written.
    """
    found: list[float | None] = [None] * types.count
    for number, mass in enumerate(document.get("masses", ())[: types.count]):
        found[number] = None if mass is None else float(mass)
    if not own:
        for number, mass in _of_atoms(state, types).items():
            found[number - 1] = mass
        for number, name in enumerate(types.names, 1):
            if found[number - 1] is None and named is not None and name in named:
                found[number - 1] = named[name]
        if None in found and (needed or not document):
            _from_elements(found, state, types, units, report)
    missing = [number for number, mass in enumerate(found, 1) if mass is None]
    if missing:
        text = f"atom type {missing[0]} ({types.names[missing[0] - 1]}) has no mass"
        if needed:
            raise UnsupportedError(
                f"{text}, and LAMMPS runs nothing without one: --elements says what the types are when a LAMMPS source "
                "is read, a data file or a script beside a dump states masses"
            )
        if len(missing) < types.count:
            report.dropped("Masses", f"{text}, and a data file has one of each type or none")
        return None
    if not found:
        return None
    comments = [str(text) for text in document.get("mass_comments", ())[: types.count]]
    comments += [""] * (types.count - len(comments))
    return Masses([mass for mass in found if mass is not None], comments)


def brings_masses(force_field: ForceField | None) -> bool:
    """True if LAMMPS takes the masses of all types from the files of the pair style, where a data file has none."""
    styles = [] if force_field is None else force_field.document.get("styles", [])
    pairs = {str(style.get("style")) for style in styles if isinstance(style, dict) and style.get("category") == "pair"}
    return bool(pairs) and pairs <= _BRING_MASSES


def named_masses(force_field: ForceField | None, units: str | None) -> dict[str, float]:
    """Return the mass of each atom type a force field states one for, by its name, in the units style that is
    written.
    """
    found: dict[str, float] = {}
    if force_field is None:
        return found
    conversion = Conversion.between(force_field.units, units)
    for name, table in force_field.tables.items():
        if name.startswith("atom.") and "mass" in table.columns and "name" in table.columns:
            known = table.validity("mass")
            masses = table.stored("mass")[known] * conversion.factor("M", "masses of the force field")
            found.update(zip(table.stored("name")[known].tolist(), masses.tolist(), strict=True))
    return found


def _of_atoms(state: State, types: Types) -> dict[int, float]:
    """Return the mass of each type that has atoms with one."""
    column = state.atoms.get("mass")
    if column is None or column.dtype != "f64" or column.trailing:
        return {}
    known = np.ones(len(column), dtype=np.bool_) if column.validity is None else column.validity
    numbers, masses = types.numbers[known], state.values("mass")[known]
    first = np.full(types.count + 1, -1, dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    differs = masses != masses[first[numbers]] if len(numbers) else np.zeros(0, dtype=np.bool_)
    if differs.any():
        row = int(differs.argmax())
        own, other = float(masses[first[numbers[row]]]), float(masses[row])
        raise UnsupportedError(
            f"atoms/mass: atoms of type {numbers[row]} ({types.names[numbers[row] - 1]}) have the masses "
            f"{own!r} and {other!r}, and LAMMPS has one of each type; give them types of their own"
        )
    return {number: float(masses[first[number]]) for number in range(1, types.count + 1) if first[number] >= 0}


def _from_elements(found: list[float | None], state: State, types: Types, units: str | None, report: Report) -> None:
    """Fill in the atomic weight of the element all atoms of a type have."""
    column = state.atoms.get("element")
    unit = UNITS[units].mass if units in UNITS else 1.0
    if column is None or column.dtype != "string" or unit is None:
        return
    for number, mass in enumerate(found, 1):
        if mass is not None:
            continue
        rows = np.flatnonzero(types.numbers == number)
        names = set(column.values[rows].tolist()) if len(rows) else {types.names[number - 1]}
        weight = mass_of_element(names.pop()) if len(names) == 1 else None
        if weight is not None:
            found[number - 1] = weight / unit
            report.derived("Masses", f"type {number} ({types.names[number - 1]}): the atomic weight of its element")
