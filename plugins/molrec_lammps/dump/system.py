"""What a run knows besides its dump: the atoms and relations of the data file, restricted to the atoms the dump has.

Relations between atoms that come and go are restated, and renumbered, wherever the set of ids changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block, BlockDeclaration, BlockUpdates, Column, ColumnDeclaration, Frame
from molrec_convert.model.dtypes import empty, same_bits
from molrec_convert.model.names import ENDPOINTS
from molrec_convert.report import Report
from molrec_lammps.log.metrics import Clock
from molrec_lammps.log.tables import Thermo

__all__ = ["Relations", "RunFacts", "atoms_of", "relations_of", "report_differences"]


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run; every one is optional.

    `system` is the topology of a data file: `atoms` with ascending `id`, relations with 0-based endpoints into it.
    `clock` turns steps into times where the dump has no TIME items. `masses` are by type, for a dump without a data
    file; `units` is the word of a LAMMPS units style that is known from elsewhere.
    """

    system: Frame | None = None
    thermo: Thermo | None = None
    clock: Clock | None = None
    type_labels: dict[int, str] | None = None
    masses: dict[int, float] | None = None
    units: str | None = None
    types: int | None = None

    @property
    def atoms(self) -> Block | None:
        """The atoms of the data file, None where there is none or it has no ids."""
        atoms = None if self.system is None else self.system.blocks.get("atoms")
        return atoms if atoms is not None and "id" in atoms.columns else None

    def knows(self, column: str) -> bool:
        """True if the data file states a column of the atoms."""
        return self.atoms is not None and column in self.atoms.columns


Rows = NDArray[np.int64]
#: What an atom keeps in most runs: where it differs, a dump may be that of another system.
_LASTING = ("type_id", "mol_id")


def atoms_of(facts: RunFacts, ids: Rows, taken: set[str], report: Report) -> Block:
    """Return the block `atoms` of `system` for ascending `ids`: id, and the data file's columns not in `taken`.

    An atom the data file does not have is null in each of them.
    """
    columns: dict[str, Column] = {"id": Column(ids.view(np.uint64))}
    atoms = facts.atoms
    if atoms is None:
        return Block(columns)
    places = places_of(ids.view(np.uint64), atoms.stored("id"))
    known = places >= 0
    for name, column in atoms.columns.items():
        if name == "id" or name in taken:
            continue
        if known.all():
            values, mask = column.values[places], atoms.validity(name)[places]
        else:
            values, mask = empty(column.dtype, (len(ids), *column.trailing)), known.copy()
            values[known] = column.values[places[known]]
            mask[known] = atoms.validity(name)[places[known]]
        columns[name] = Column(values, mask, column.precision)
    if atoms.count > known.sum():
        report.converted(
            "system/atoms", f"restricted to the {len(ids)} atoms of the dump; the data file has {atoms.count}"
        )
    if not known.all():
        report.warn(
            f"{int((~known).sum())} atoms of the dump are not in the data file: what it states is null for them"
        )
    return Block(columns)


def relations_of(facts: RunFacts) -> tuple[dict[str, Block], dict[str, Block]]:
    """Return the data file's blocks that name rows of `atoms`, and its other blocks."""
    blocks = {} if facts.system is None else {n: b for n, b in facts.system.blocks.items() if n != "atoms"}
    relations = {name: block for name, block in blocks.items() if _endpoints_of(block)}
    return relations, {name: block for name, block in blocks.items() if name not in relations}


def _endpoints_of(block: Block) -> list[str]:
    """Return the columns of a block that name rows of `atoms`."""
    targets = {**{name: "atoms" for name in ENDPOINTS if name in block.columns}, **block.targets}
    return [name for name, target in targets.items() if target == "atoms"]


def _renumbered(block: Block, rows: Rows) -> tuple[Block, int]:
    """Return a relation with `rows[old]` for each endpoint, and how many rows lack an atom (-1) and fell out."""
    keep = np.ones(block.count, dtype=np.bool_)
    moved = {}
    for name in _endpoints_of(block):
        values, valid = block.stored(name).astype(np.int64), block.validity(name)
        new = np.where(valid, rows[np.where(valid, values, 0)] if len(rows) else -1, 0)
        keep &= new >= 0
        moved[name] = new
    columns = {}
    for name, column in block.columns.items():
        values = moved[name].astype(np.uint64) if name in moved else column.values
        mask = None if column.validity is None else column.validity[keep]
        columns[name] = Column(values[keep], mask, column.precision, column.attributes)
    kept = int(keep.sum())
    return Block(columns, count=kept, targets=block.targets, attributes=block.attributes), block.count - kept


def restricted(relations: Mapping[str, Block], facts: RunFacts, ids: Rows, report: Report) -> dict[str, Block]:
    """Return the relations between the atoms with these ids, by their rows."""
    atoms = facts.atoms
    if atoms is None:
        return {}
    rows = places_of(atoms.stored("id"), ids.view(np.uint64))
    found = {}
    for name, block in relations.items():
        found[name], lost = _renumbered(block, rows)
        if lost:
            report.dropped(f"system/{name}", f"{lost} of {block.count} rows name atoms that are not in the dump")
    return found


def places_of(ids: NDArray[np.uint64], among: NDArray[np.uint64]) -> Rows:
    """Return the row of each of `ids` among ascending ids, -1 where it is not there."""
    if not len(among):
        return np.full(len(ids), -1, dtype=np.int64)
    places = np.minimum(np.searchsorted(among, ids), len(among) - 1)
    return np.where(among[places] == ids, places, -1).astype(np.int64)


def report_differences(facts: RunFacts, ids: Rows, first: Mapping[str, Column], report: Report) -> None:
    """Report where the first frame and the data file say different things of the same atoms; the dump counts."""
    atoms = facts.atoms
    if atoms is None:
        return
    places = places_of(ids.view(np.uint64), atoms.stored("id"))
    known = places >= 0
    for name, column in first.items():
        if name == "id" or name not in atoms.columns:
            continue
        other = atoms.columns[name]
        mine, theirs = column.values[known], other.values[places[known]]
        if other.dtype == column.dtype and same_bits(mine, theirs):
            report.converted(
                f"atoms/{name}", "the data file states it too; the dump's is taken, the first frame agrees"
            )
        else:
            differing = int((mine != theirs).sum()) if other.dtype == column.dtype else int(known.sum())
            report.converted(
                f"atoms/{name}",
                f"the data file says otherwise for {differing} of {int(known.sum())} atoms at the first frame; "
                "the dump's is taken",
            )
            if name in _LASTING:
                report.warn(
                    f"{name}: the data file and the first frame of the dump differ for {differing} of "
                    f"{int(known.sum())} atoms; the dump's is taken: are they of one run?"
                )


Integers = NDArray[np.int64]


class Relations:
    """The relations of a data file, whose atoms have the ascending `ids`, as blocks of a trajectory."""

    def __init__(self, blocks: Mapping[str, Block], ids: NDArray[np.uint64]) -> None:
        self.blocks = dict(blocks)
        self.ids = ids

    def declarations(self) -> dict[str, BlockDeclaration]:
        """Return how the blocks are declared."""
        return {
            name: BlockDeclaration(
                {
                    key: ColumnDeclaration(column.dtype, column.trailing, column.validity is not None, column.precision)
                    for key, column in block.columns.items()
                },
                targets=dict(block.targets),
                rows=block.count,
            )
            for name, block in self.blocks.items()
        }


class RelationUpdates:
    """Restates relations along one pass over the frames, and counts the rows left out."""

    def __init__(self, relations: Relations, names: list[str]) -> None:
        self._relations = relations
        self._names = names
        self._before: Integers | None = None
        self._lost: dict[str, list[int]] = {name: [] for name in names}

    def updates(self, ids: Integers, offset: Integers) -> dict[str, BlockUpdates]:
        """Return the updates of frames whose rows have these ids."""
        places: list[int] = []
        stated: dict[str, list[Block]] = {name: [] for name in self._names}
        for position, (start, stop) in enumerate(zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True)):
            own = ids[start:stop]
            if self._before is not None and np.array_equal(own, self._before):
                continue
            self._before = own.copy()
            places.append(position)
            rows = places_of(self._relations.ids, own.view(np.uint64))
            for name in self._names:
                block, lost = _renumbered(self._relations.blocks[name], rows)
                stated[name].append(block)
                if lost:
                    self._lost[name].append(lost)
        return {name: self._join(name, blocks, places) for name, blocks in stated.items() if blocks}

    def report(self, report: Report) -> None:
        """Say how many rows were left out."""
        for name, lost in self._lost.items():
            if lost:
                report.dropped(
                    f"trajectory/{name}",
                    f"{sum(lost)} rows left out: where the relations are restated, {len(lost)} times some of them name "
                    "atoms that are not there",
                )

    def _join(self, name: str, blocks: list[Block], places: list[int]) -> BlockUpdates:
        columns, validity = {}, {}
        for key, column in self._relations.blocks[name].columns.items():
            columns[key] = np.concatenate(
                [empty(column.dtype, (0, *column.trailing)), *(block.stored(key) for block in blocks)]
            )
            if column.validity is not None:
                validity[key] = np.concatenate([block.validity(key) for block in blocks])
        offset = np.concatenate([[0], np.cumsum([block.count for block in blocks])]).astype(np.int64)
        return BlockUpdates(np.array(places, dtype=np.int64), offset, columns, validity)
