"""Elements of the atoms of any record: as the user names them for each atom type, or proposed from masses on request.

`--elements` and `--guess-elements` go through here for every source that does not settle them while it is read. The
element of a type becomes the column `element` beside the types: in `system`, or in the block of the trajectory that has
the types where they change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.formats import Format, option
from molrec_convert.meaning.element_guessing import elements_of_types
from molrec_convert.meaning.mapped import MappedCollection
from molrec_convert.meaning.quantities import atom_blocks, atom_rows, symbols_of_numbers
from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.model.frame import Block, Column, Frame
from molrec_convert.model.record import Record
from molrec_convert.model.trajectory import MappedTrajectory, Trajectory
from molrec_convert.quantities.dimensions import UnitConversion, units_object
from molrec_convert.quantities.elements import ElementMap, parse_elements
from molrec_convert.quantities.standard import OPTIONS, aliases_of
from molrec_convert.report import Report

__all__ = [
    "ElementOptions",
    "element_words",
    "elements_for_target",
    "free_name",
    "propose",
    "with_elements",
]

_ATOMS = "atoms"
#: Columns that tell the types, the first that is there counts.
_TYPES = ("type_id", "type")
#: Columns of atomic numbers, the first that is there counts.
_NUMBERS = ("atomic_number", "Z")


@dataclasses.dataclass(frozen=True)
class ElementOptions:
    """Options every source has that does not settle elements while it is read."""

    elements: tuple[str, ...] = option((), "element of each atom type", metavar="C,H,O")
    guess_elements: bool = option(False, "propose elements from labels and masses")


def element_words(elements: str | Sequence[str]) -> tuple[str, ...]:
    """Return `--elements` as its words: `"C,H"`, `("C", "H")` and `["C,H"]` are the same."""
    texts = [elements] if isinstance(elements, str) else list(elements)
    return tuple(word.strip() for text in texts for word in text.split(",")) if texts else ()


def with_elements(
    source: Record | Collection, elements: str | Sequence[str] = (), *, guess: bool = False, report: Report
) -> Record | Collection:
    """Return the record, or each of a collection, with the elements of its atoms.

    `elements` names the element of each atom type, as `parse_elements` takes it; X stands for a type that is none.
    `guess` proposes one from labels that are symbols and from masses, where the record states no elements.
    Raises UsageError where there are no types, or one of them is not named.
    """
    words = element_words(elements)
    if not words and not guess:
        return source
    given = parse_elements(words)
    if isinstance(source, Record):
        return _Assignment(given, words, guess, report).record(source)
    assignment = _Assignment(given, words, guess, report)
    declaration = assignment.declared(source)
    return MappedCollection(source, assignment.record, declaration)


def elements_for_target(source: Record | Collection, target: Format, report: Report) -> Record | Collection:
    """Return what is to be written, with symbols in place of atomic numbers where the target's atoms have elements.

    Where the record has neither, and what programs make of that is known (`Format.elements`), it is a warning.
    """
    if isinstance(source, Record):
        if target.elements and not _states_elements(source) and _has_atoms(source):
            report.warn(
                f"the record has no elements, and {target.elements}: --elements C,H,O names the element of each type, "
                "--guess-elements proposes them"
            )
        return _of_numbers(source, report)
    declaration = source.declaration
    where = _place_of(declaration, _NUMBERS)
    if where is not None and _place_of(declaration, ("element",)) is None:
        declaration = _with_column(declaration, where[0], instead=where[1])
    return MappedCollection(source, lambda record: _of_numbers(record, report), declaration)


def _of_numbers(record: Record, report: Report) -> Record:
    """Return a record with the column `element` in place of one of atomic numbers, where it has no elements."""
    trajectory = record.trajectory
    if _has_column(record, ("element",)):
        return record
    if trajectory is not None:
        where = _place_of(trajectory.declaration, _NUMBERS)
        if where is not None:
            block, name = where
            report.converted(f"atoms/{name}", "atomic numbers as element, the symbols")
            mapped = MappedTrajectory(
                trajectory,
                lambda batch: _with_symbols(batch, block, name),
                _with_column(trajectory.declaration, block, instead=name),
                whole=True,
            )
            return dataclasses.replace(record, trajectory=mapped)
    for section in ("system", "frame"):
        part: Frame | None = getattr(record, section)
        atoms = None if part is None else part.blocks.get(_ATOMS)
        kind = None if atoms is None else next((name for name in _NUMBERS if name in atoms.columns), None)
        if part is not None and atoms is not None and kind is not None:
            report.converted(f"atoms/{kind}", "atomic numbers as element, the symbols")
            column = atoms.columns[kind]
            columns = {name: own for name, own in atoms.columns.items() if name != kind}
            columns["element"] = Column(*symbols_of_numbers(column.values, column.validity))
            return _in_section(record, section, part, atoms, columns)
    return record


def _with_symbols(batch: FrameBatch, block: str, name: str) -> FrameBatch:
    updates = batch.blocks.get(block)
    if updates is None:
        return batch
    values, mask = symbols_of_numbers(updates.columns[name], updates.validity.get(name))
    columns = {key: own for key, own in updates.columns.items() if key != name} | {"element": values}
    masks = {key: own for key, own in updates.validity.items() if key != name}
    masks |= {} if mask is None else {"element": mask}
    made = BlockUpdates(updates.frames, updates.offset, columns, masks)
    return dataclasses.replace(batch, blocks={**batch.blocks, block: made})


def _has_atoms(record: Record) -> bool:
    trajectory = record.trajectory
    if trajectory is not None and atom_blocks(trajectory.declaration):
        return True
    return any(section is not None and _ATOMS in section.blocks for section in (record.system, record.frame))


@dataclasses.dataclass
class _Assignment:
    """What is asked for, applied to one record after another."""

    given: ElementMap
    words: tuple[str, ...]
    guess: bool
    report: Report

    def declared(self, source: Collection) -> Declaration:
        """Return the declaration of a collection whose records have elements: beside types in the trajectory, if so."""
        where = _place_of(source.declaration)
        if where is None or not (self.given or _place_of(source.declaration, ("element",)) is None):
            return source.declaration
        return _with_column(source.declaration, where[0])

    def record(self, record: Record) -> Record:
        """Return one record with elements."""
        if not self.given and _states_elements(record):
            return record
        trajectory = record.trajectory
        where = None if trajectory is None else _place_of(trajectory.declaration)
        if trajectory is not None and where is not None:
            table = self._table(record, trajectory, *where)
            return record if table is None else self._in_trajectory(record, trajectory, *where, table)
        for name in ("system", "frame"):
            section: Frame | None = getattr(record, name)
            block = None if section is None else section.blocks.get(_ATOMS)
            kind = None if block is None else next((kind for kind in _TYPES if kind in block.columns), None)
            if section is not None and block is not None and kind is not None:
                table = self._of_types(block.columns[kind].values, _labels(block), _masses(record, block), record)
                if table is None:
                    return record
                values, mask = _assigned(block.columns[kind].values, table, block.columns[kind].validity)
                return _in_section(record, name, section, block, {**block.columns, "element": Column(values, mask)})
        if self.given and _states_elements(record):
            self.report.warn("--elements: the atoms have no types, and keep the elements they have")
            return record
        if self.given:
            raise UsageError("--elements: the atoms have no types, so nothing tells which atom is of which element")
        self.report.warn("--guess-elements: the atoms have no types, so no element is proposed")
        return record

    def _table(self, record: Record, trajectory: Trajectory, block: str, kind: str) -> dict[Any, str | None] | None:
        """Return the element of each type of a trajectory: all frames are looked at for their types."""
        names = tuple(n for n in (kind, "type", "mass") if n in trajectory.declaration.blocks[block].columns)
        found: dict[Any, tuple[str, float | None]] = {}
        for rows in atom_rows(trajectory, tuple(dict.fromkeys(names))):
            types, first = np.unique(rows.columns[kind], return_index=True)
            labels = rows.columns["type"][first] if "type" in rows.columns else types
            masses = rows.columns["mass"][first] if "mass" in rows.columns else np.full(len(first), np.nan)
            for value, label, mass in zip(types.tolist(), labels.tolist(), masses.tolist(), strict=True):
                found.setdefault(value, (str(label), None if np.isnan(mass) else mass))
        types = np.array(list(found), np.uint64 if kind == "type_id" else np.dtypes.StringDType())
        named = {value: label for value, (label, _) in found.items()}
        weights = {value: mass for value, (_, mass) in found.items() if mass is not None}
        return self._of_types(types, named, weights, record)

    def _of_types(
        self, types: NDArray[Any], labels: dict[Any, str], masses: dict[Any, float], record: Record
    ) -> dict[Any, str | None] | None:
        """Return type → element, None where nothing tells any."""
        kinds = np.unique(types).tolist()
        if types.dtype.kind == "T":
            if self.given:
                self.report.derived("atoms/element", f"from --elements {','.join(self.words)}")
                return dict(self.given.of_labels(kinds))
            numbered = {label: number for number, label in enumerate(kinds, 1)}
            own = {numbered[label]: mass for label, mass in masses.items()}
            found = elements_of_types(
                len(kinds), self.report, guess=True, labels=kinds, masses=own, mass_factor=_mass_factor(record)
            )
            return None if found is None else dict(zip(kinds, found, strict=True))
        numbers: Sequence[int] = sorted({*kinds, *masses} - {0})
        if self.given:
            numbers = range(1, max([self.given.highest, *kinds], default=0) + 1)
        texts = {number: label for number, label in labels.items() if label}
        found = elements_of_types(
            numbers,
            self.report,
            given=self.words,
            guess=self.guess,
            labels=texts if any(not text.isdecimal() for text in texts.values()) else {},
            masses=masses,
            mass_factor=_mass_factor(record),
        )
        return None if found is None else dict(zip(numbers, found, strict=True))

    def _in_trajectory(
        self, record: Record, trajectory: Trajectory, block: str, kind: str, table: dict[Any, str | None]
    ) -> Record:
        declaration = _with_column(trajectory.declaration, block)

        def change(batch: FrameBatch) -> FrameBatch:
            updates = batch.blocks.get(block)
            if updates is None:
                return batch
            values, mask = _assigned(updates.columns[kind], table, updates.validity.get(kind))
            columns = {**updates.columns, "element": values}
            made = BlockUpdates(updates.frames, updates.offset, columns, {**updates.validity, "element": mask})
            return dataclasses.replace(batch, blocks={**batch.blocks, block: made})

        system = record.system
        if system is not None and "element" in system.blocks.get(_ATOMS, {}):
            system = _without_elements(system)
        mapped = MappedTrajectory(trajectory, change, declaration, whole=True)
        return dataclasses.replace(record, system=system, trajectory=mapped)


def _place_of(declaration: Declaration, names: Sequence[str] = _TYPES) -> tuple[str, str] | None:
    """Return the block of the trajectory's atoms that has one of some columns, and the first it has."""
    for name in names:
        for block in atom_blocks(declaration):
            if name in declaration.blocks[block].columns:
                return block, name
    return None


def _states_elements(record: Record) -> bool:
    return _has_column(record, ("element", *_NUMBERS))


def _has_column(record: Record, names: Sequence[str]) -> bool:
    """True if the atoms have one of some columns, in the trajectory or beside it."""
    trajectory = record.trajectory
    if trajectory is not None and _place_of(trajectory.declaration, names) is not None:
        return True
    blocks = [section.blocks.get(_ATOMS, Block()) for section in (record.system, record.frame) if section is not None]
    return any(not block.columns.keys().isdisjoint(names) for block in blocks)


def _with_column(declaration: Declaration, block: str, *, instead: str | None = None) -> Declaration:
    """Return a declaration whose block has elements, instead of another column if one is named."""
    own = declaration.blocks[block]
    columns = {name: column for name, column in own.columns.items() if name != instead}
    columns["element"] = ColumnDeclaration("string", nullable=True)
    blocks = {**declaration.blocks, block: dataclasses.replace(own, columns=columns)}
    return dataclasses.replace(declaration, blocks=blocks)


def _in_section(record: Record, name: str, section: Frame, block: Block, columns: dict[str, Column]) -> Record:
    """Return the record whose section `name` has other columns of atoms."""
    made = Block(
        columns,
        count=block.count,
        structural_shape=block.structural_shape,
        targets=block.targets,
        attributes=block.attributes,
    )
    changed = dataclasses.replace(section, blocks={**section.blocks, _ATOMS: made})
    changes: dict[str, Any] = {name: changed}
    return dataclasses.replace(record, **changes)


def _without_elements(system: Frame) -> Frame:
    block = system.blocks[_ATOMS]
    columns = {name: column for name, column in block.columns.items() if name != "element"}
    made = Block(columns, count=block.count, targets=block.targets, attributes=block.attributes)
    return dataclasses.replace(system, blocks={**system.blocks, _ATOMS: made})


def _assigned(
    types: NDArray[Any], table: dict[Any, str | None], validity: NDArray[np.bool_] | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the element of each atom, and which have one."""
    kinds, codes = np.unique(types, return_inverse=True)
    symbols = [table.get(kind) for kind in kinds.tolist()]
    values = np.array([symbol or "" for symbol in symbols], np.dtypes.StringDType())[codes.reshape(-1)]
    known = np.array([symbol is not None for symbol in symbols], np.bool_)[codes.reshape(-1)]
    return values, known if validity is None else known & validity


def _labels(block: Block) -> dict[Any, str]:
    """Return the label of each type number."""
    if not {"type", "type_id"} <= block.columns.keys():
        return {}
    numbers, first = np.unique(block.columns["type_id"].values, return_index=True)
    return dict(zip(numbers.tolist(), block.columns["type"].values[first].tolist(), strict=True))


def _masses(record: Record, block: Block) -> dict[Any, float]:
    """Return the mass of each type, of the first atom of it."""
    kind = next(kind for kind in _TYPES if kind in block.columns)
    kinds, first = np.unique(block.columns[kind].values, return_index=True)
    for section in _sections_with_masses(record, block):
        column = section.columns["mass"]
        if len(column) == block.count:
            there = np.ones(block.count, np.bool_) if column.validity is None else column.validity
            pairs = zip(kinds.tolist(), column.values[first].tolist(), there[first].tolist(), strict=True)
            return {kind: mass for kind, mass, known in pairs if known}
    return {}


def _sections_with_masses(record: Record, block: Block) -> Iterator[Block]:
    sections = (s.blocks.get(_ATOMS) for s in (record.system, record.frame) if s is not None)
    return (entry for entry in (block, *sections) if entry is not None and "mass" in entry.columns)


def _mass_factor(record: Record) -> float | None:
    """Return what turns masses into amu; 1 where the record does not say, None in reduced units."""
    units = units_object(record.units)
    if units.get("preset") == "lj":
        return None
    return (UnitConversion(units, {"mass": "dalton"}).factor("mass") if units else None) or 1.0


def free_name(name: str, taken: Container[str]) -> str:
    """Return a name for what is in the way of a chosen one: `other_<name>`, once more in front where that is taken."""
    free = name
    while free in taken:
        free = f"other_{free}"
    return free


def propose(quantity: str, names: Iterable[str], report: Report) -> None:
    """Warn that a quantity has no name of its own, and which of some names look like it."""
    found = aliases_of(quantity, names)
    if found:
        verb = "looks" if len(found) == 1 else "look"
        kind = "an energy" if quantity == "energy" else "forces" if quantity == "forces" else f"a {quantity}"
        kept = "is kept under its own name" if len(found) == 1 else "are kept under their own names"
        report.warn(
            f"no {quantity}: {', '.join(found)} {verb} like {kind} and {kept}; "
            f"{OPTIONS[quantity]} {found[0]} makes it the {quantity}"
        )
