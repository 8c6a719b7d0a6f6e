"""The particles of records that follow one another in time: whether they are the same, and in which order they stand.

What one record says in `system` and another in its trajectory, as it changes there, is brought to the same place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.chained.trajectory import Part
from molrec_convert.model.collection.member import RELATIONS
from molrec_convert.model.dtypes import same_bits
from molrec_convert.model.frame import Block, Column, Frame, references
from molrec_convert.model.names import ENDPOINTS, IDENTITY_COLUMNS, STATE_COLUMNS
from molrec_convert.model.record import Record
from molrec_convert.model.tags import Meta
from molrec_convert.model.trajectory import Trajectory
from molrec_convert.report import Report

__all__ = ["Source", "joined_system", "parts_of"]

_ATOMS, _ID = "atoms", "id"


@dataclass
class Source:
    """One record, by the name messages call it; what `parts_of` finds out is kept beside it."""

    name: str
    record: Record
    order: NDArray[np.int64] | None = None
    constants: dict[str, Block] = field(default_factory=dict)

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory; `UsageError` where there is none."""
        if self.record.trajectory is None:
            has = "a single frame" if self.record.frame is not None else "no frames"
            raise UsageError(f"{self.name} has no trajectory to join, it has {has}")
        return self.record.trajectory

    @property
    def atoms(self) -> Block | None:
        """The atoms of the system, None where it has none."""
        system = self.record.system
        return system.blocks.get(_ATOMS) if system is not None else None


def parts_of(sources: Sequence[Source], report: Report) -> list[Part]:
    """Return the trajectories to chain. Raises `ContractError` where a source is of other atoms than the first."""
    _find_constants(sources)
    first = sources[0]
    known = _identity(first)
    for source in sources[1:]:
        identity = _identity(source)
        _check_count(first, source)
        source.order = _order(first, known, source, identity, report)
        for key in IDENTITY_COLUMNS:
            if key in known and key in identity and key != _ID:
                _check_column(first, known[key], source, _sorted(identity[key], source.order), key)
    return [Part(source.name, source.trajectory, source.order, source.constants) for source in sources]


def joined_system(sources: Sequence[Source], report: Report) -> Frame | None:
    """Return the system of the first source, with atom columns and blocks others add; what differs is reported.

    Raises `ContractError` where bonds, angles, … of a source are not those of the first.
    """
    first = sources[0].record.system
    system = Frame() if first is None else first
    moved = {(home, key) for source in sources for home, key in _homes(source)}
    blocks = {name: _without(name, block, moved, sources) for name, block in system.blocks.items()}
    # the rows of a block that went to the frames are those it has there
    blocks = {name: b for name, b in blocks.items() if b.columns or name == _ATOMS or not system.blocks[name].columns}
    meta = Meta(system.meta)
    for source in sources[1:]:
        if source.record.system is not None:
            _take(source, blocks, meta, moved, report)
    if first is None and not blocks and not meta:
        return None
    return Frame(blocks, meta, system.box, attributes=system.attributes)


def _find_constants(sources: Sequence[Source]) -> None:
    """Note what the system of a source says and the trajectory of another, under the name it has there."""
    for other in sources:
        for name, declared in other.trajectory.declaration.blocks.items():
            home = declared.settles or declared.aligned_with or name
            for source in sources:
                block = None if source.record.system is None else source.record.system.blocks.get(home)
                if block is None:
                    continue
                there = _declared(source.trajectory, home)
                for key in declared.columns:
                    if key in block.columns and key not in there:
                        known = source.constants.get(name, Block(count=block.count))
                        columns = {**known.columns, key: block.columns[key]}
                        source.constants[name] = Block(columns, count=block.count)


def _declared(trajectory: Trajectory, home: str) -> set[str]:
    """Return the columns a trajectory has of the rows of a block."""
    return {
        key
        for name, block in trajectory.declaration.blocks.items()
        if home in (name, block.aligned_with, block.settles)
        for key in block.columns
    }


def _homes(source: Source) -> list[tuple[str, str]]:
    """Return the columns of the system that are brought to the trajectory, each with its block."""
    system = source.record.system
    assert system is not None or not source.constants
    return [
        (home, key)
        for block in source.constants.values()
        for key, column in block.columns.items()
        for home, known in ({} if system is None else system.blocks).items()
        if known.columns.get(key) is column
    ]


def _without(name: str, block: Block, moved: set[tuple[str, str]], sources: Sequence[Source]) -> Block:
    """Return a block of the system without the columns that moved; ids all systems have may stay."""
    stay = all(source.atoms is not None and _ID in source.atoms.columns for source in sources)
    columns = {
        key: column
        for key, column in block.columns.items()
        if (name, key) not in moved or (key == _ID and name == _ATOMS and stay)
    }
    if len(columns) == len(block.columns):
        return block
    targets = {key: target for key, target in block.targets.items() if key in columns}
    return Block(
        columns,
        count=block.count,
        structural_shape=block.structural_shape,
        targets=targets,
        attributes=block.attributes,
    )


def _identity(source: Source) -> dict[str, Column]:
    """Return what a source says of its atoms that holds for all frames, as far as its first frame tells."""
    found = {} if source.atoms is None else {k: c for k, c in source.atoms.columns.items() if k not in STATE_COLUMNS}
    trajectory = source.trajectory
    wanted = [
        f"{name}/{key}"
        for name, block in trajectory.declaration.blocks.items()
        if block.settles == _ATOMS
        for key in block.columns
    ]
    atoms = trajectory.declaration.blocks.get(_ATOMS)
    wanted += [f"{_ATOMS}/{_ID}"] if atoms is not None and _ID in atoms.columns and source.atoms is None else []
    if wanted:
        batch = next(iter(trajectory.batches(0, 1, columns=wanted)), None)
        if batch is not None:
            frame = batch.frame(0, trajectory.declaration.select(wanted))
            for block in frame.blocks.values():
                found.update(block.columns)
    return found


def _counts(source: Source) -> set[int]:
    """Return the number of atoms in the first frame and in the last; none where ids say which atoms come and go."""
    if source.atoms is not None:
        return {source.atoms.count}
    trajectory = source.trajectory
    atoms = trajectory.declaration.blocks.get(_ATOMS)
    if atoms is None or not atoms.columns or _ID in atoms.columns:
        return set()
    column = f"{_ATOMS}/{next(iter(atoms.columns))}"
    found = set()
    for number in {0, len(trajectory.steps) - 1}:
        batch = next(iter(trajectory.batches(max(number, 0), number + 1, columns=[column])), None)
        if batch is not None and _ATOMS in batch.blocks:
            found.add(int(batch.blocks[_ATOMS].offset[1]))
    return found


def _check_count(first: Source, source: Source) -> None:
    """Refuse another number of atoms, unless it changes within a source."""
    one, other = _counts(first), _counts(source)
    if len(one) == 1 == len(other) and one != other:
        raise ContractError(
            "atoms",
            f"{source.name} has not as many as {first.name}, only frames of the same atoms are joined",
            found=str(min(other)),
            expected=str(min(one)),
        )


def _order(
    first: Source, known: Mapping[str, Column], source: Source, identity: Mapping[str, Column], report: Report
) -> NDArray[np.int64] | None:
    """Return where the atoms of the first source stand in another, by their ids; None: at the same rows."""
    atoms = [entry.trajectory.declaration.blocks.get(_ATOMS) for entry in (first, source)]
    if _ID not in known or _ID not in identity or any(a is not None and _ID in a.columns for a in atoms):
        return None
    mine, theirs = known[_ID].values, identity[_ID].values
    if np.array_equal(mine, theirs):
        return None
    places = np.argsort(theirs, kind="stable")
    if len(np.unique(theirs)) < len(theirs) or not np.array_equal(np.sort(mine), theirs[places]):
        strange = np.setdiff1d(theirs, mine)
        found = f"the id {strange[0]}" if len(strange) else "an id more than once"
        raise ContractError("atoms/id", f"the atoms of {source.name} are not those of {first.name}", found=found)
    for name, block in source.trajectory.declaration.blocks.items():
        if references(block.columns, block.targets):
            raise ContractError(
                f"trajectory/{name}",
                f"the atoms of {source.name} stand in another order than those of {first.name}, and this block names "
                "their rows",
            )
    report.converted(f"order of the atoms of {source.name}", f"by their ids, as in {first.name}")
    return places[np.searchsorted(theirs[places], mine)].astype(np.int64)


def _sorted(column: Column, order: NDArray[np.int64] | None) -> Column:
    if order is None:
        return column
    mask = None if column.validity is None else column.validity[order]
    return Column(column.values[order], mask, column.precision, column.attributes)


def _check_column(first: Source, one: Column, source: Source, other: Column, key: str) -> None:
    """Refuse an atom that is something else in another source; where it changes in a trajectory it may be."""
    if any(key in _changing(entry) for entry in (first, source)):
        return
    if (one.dtype, len(one)) != (other.dtype, len(other)):
        return
    if not same_bits(one.values, other.values):
        rows = range(len(one))
        row = next(n for n in rows if not same_bits(one.values[n : n + 1], other.values[n : n + 1]))
        raise ContractError(
            f"atoms/{key}",
            f"row {row} in {source.name} is not what it is in {first.name}, only frames of the same atoms are joined",
            found=repr(other.values[row : row + 1].tolist()[0]),
            expected=repr(one.values[row : row + 1].tolist()[0]),
        )


def _changing(source: Source) -> set[str]:
    """Return columns of atoms that change, as far as is known without reading all frames."""
    blocks = source.trajectory.declaration.blocks
    return {
        key
        for name, block in blocks.items()
        if block.settles is None and _ATOMS in (name, block.aligned_with)
        for key in block.columns
    }


def _take(source: Source, blocks: dict[str, Block], meta: Meta, moved: set[tuple[str, str]], report: Report) -> None:
    """Take what the system of a source says and that of the first does not; report what is said otherwise."""
    system = source.record.system
    assert system is not None
    for name, block in system.blocks.items():
        known = blocks.get(name)
        if known is None:
            if source.order is None or not references(block.columns, block.targets):
                blocks[name] = block
                report.converted(f"system/{name}", f"is that of {source.name}: the first source has none")
            else:
                report.dropped(f"system/{name} of {source.name}", "its rows name atoms that stand in another order")
        elif name in RELATIONS:
            _check_relation(name, known, block, source)
        else:
            blocks[name] = _with_columns(name, known, block, source, moved, report)
    for key in system.meta:
        if key not in meta:
            meta.put(key, system.meta[key], system.meta.tag(key))
        elif key != "units" and Meta({key: meta[key]}) != Meta({key: system.meta[key]}):
            report.dropped(f"system/meta/{key} of {source.name}", "the first source says something else")
    for path in system.attributes:
        report.dropped(f"attributes of system/{path} of {source.name}", "those of the first source are taken")


def _with_columns(
    name: str, known: Block, block: Block, source: Source, moved: set[tuple[str, str]], report: Report
) -> Block:
    order = source.order if name == _ATOMS else None
    columns = dict(known.columns)
    for key, column in block.columns.items():
        if (name, key) in moved:
            continue
        here = f"system/{name}/{key}"
        if known.count != block.count:
            report.dropped(f"{here} of {source.name}", "the block has another number of rows in the first source")
        elif key not in columns and key not in block.targets:
            columns[key] = _sorted(column, order)
            report.converted(here, f"is that of {source.name}: the first source has none")
        elif key in columns and columns[key] != _sorted(column, order):
            report.dropped(f"{here} of {source.name}", "the first source says something else")
    if len(columns) == len(known.columns):
        return known
    return Block(
        columns,
        count=known.count,
        structural_shape=known.structural_shape,
        targets=known.targets,
        attributes=known.attributes,
    )


def _check_relation(name: str, known: Block, block: Block, source: Source) -> None:
    """Refuse bonds, angles, … that do not join the same atoms; the order of rows and of their ends does not count."""
    one, other = _canonical(name, known, None), _canonical(name, block, source.order)
    if one is None or other is None:
        same = known == block
    else:
        same = np.array_equal(one, other)
    if not same:
        raise ContractError(
            f"system/{name}",
            f"those of {source.name} are not those of the first source",
        )


def _canonical(name: str, block: Block, order: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """Return the atoms each row joins, and its type, in an order of their own; None where it has no such columns."""
    ends = [key for key in ENDPOINTS if key in block.columns and block.targets.get(key, _ATOMS) == _ATOMS]
    if not ends:
        return None
    rows = np.stack([block.columns[key].values.astype(np.int64) for key in ends], axis=1)
    if order is not None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        rows = place[rows]
    if name != "impropers":
        turned = rows[:, 0] > rows[:, -1]
        rows[turned] = rows[turned, ::-1]
    if "type_id" in block.columns:
        rows = np.concatenate([rows, block.columns["type_id"].values.astype(np.int64)[:, None]], axis=1)
    return rows[np.lexsort(rows.T[::-1])]
