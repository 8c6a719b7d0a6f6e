"""Where the columns of a dump go in a record, and the declaration that says so.

With the same atoms in every frame, `x y z vx vy vz fx fy fz ix iy iz` are in `trajectory/atoms`. Every other column
starts as an aligned block of its own, `atom_<column>` (`type`, `type_id`, `element` together in `atom_types`), which
is presented where it changes and settles in `system/atoms` when it never does; one that changes in at least half of
the first frames is in `trajectory/atoms` as well. A single frame has its identity columns in `system/atoms`. Where
atoms come and go everything is in `trajectory/atoms`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import BlockDeclaration, ColumnDeclaration
from molrec_convert.model.names import IDENTITY_COLUMNS, STATE_COLUMNS
from molrec_lammps.dump.columns import OutColumn
from molrec_lammps.dump.values import Rows

__all__ = ["ATOMS", "Placement", "changed_frames", "place_aligned", "place_ragged", "place_single"]

ATOMS = "atoms"
_TYPES = ("type", "type_id", "element")


@dataclass(frozen=True)
class Placement:
    """Blocks of the trajectory and their columns; `system` are columns that are settled from the start."""

    blocks: dict[str, list[OutColumn]]
    rows: int
    ragged: bool = False
    system: tuple[OutColumn, ...] = ()

    def declarations(self) -> dict[str, BlockDeclaration]:
        """How the blocks are declared: `atoms` first, the others aligned with it."""
        return {
            name: BlockDeclaration(
                {column.name: ColumnDeclaration(column.dtype, nullable=column.nullable) for column in columns},
                aligned_with=None if name == ATOMS else ATOMS,
                rows=self.rows,
                settles=None if name == ATOMS else ATOMS,
            )
            for name, columns in self.blocks.items()
        }


def place_single(columns: Sequence[OutColumn], rows: int) -> Placement:
    """The places of the columns of a single frame."""
    settled = tuple(column for column in columns if column.name in IDENTITY_COLUMNS)
    state = [column for column in columns if column.name not in IDENTITY_COLUMNS]
    return Placement({ATOMS: state} if state else {}, rows, system=settled)


def place_ragged(columns: Sequence[OutColumn], rows: int, *, with_ids: bool) -> Placement:
    """The places of the columns of frames with other atoms each; `rows` is the largest number."""
    identity = [OutColumn("id", "u64", (), _ids)] if with_ids else []
    return Placement({ATOMS: [*identity, *columns]}, rows, ragged=True)


def place_aligned(columns: Sequence[OutColumn], rows: int, first: Rows) -> Placement:
    """The places of the columns of frames with the same atoms; `first` are the first frames."""
    state = [column for column in columns if column.name in STATE_COLUMNS]
    groups: dict[str, list[OutColumn]] = {}
    for column in columns:
        if column.name not in STATE_COLUMNS:
            groups.setdefault(_block_name(column.name, groups), []).append(column)
    blocks: dict[str, list[OutColumn]] = {ATOMS: state}
    comparisons = len(first.frames) - 1
    for name, members in groups.items():
        changes = int(changed_frames(first, _reads(members), None)[1:].sum())
        if comparisons and 2 * changes >= comparisons:
            state += members
        else:
            blocks[name] = members
    return Placement(blocks, rows)


def changed_frames(rows: Rows, names: Collection[str], before: Rows | None) -> NDArray[np.bool_]:
    """Which frames differ, bit for bit, in some of the columns `names` from the frame before them.

    `before` is the frame before the first; without one the first counts as different. All have the same atoms.
    """
    frames = len(rows.frames)
    changed = np.zeros(frames, dtype=np.bool_)
    changed[0] = before is None
    for name in names:
        grid = _bits(rows.values[name]).reshape(frames, -1)
        changed[1:] |= (grid[1:] != grid[:-1]).any(axis=1)
        present = rows.present.get(name)
        if present is not None:
            changed[1:] |= present[1:] != present[:-1]
        if before is not None:
            last = before.present.get(name)
            changed[0] |= bool((grid[0] != _bits(before.values[name])).any())
            changed[0] |= (last is None or bool(last[0])) != (present is None or bool(present[0]))
    return changed


def _reads(columns: Iterable[OutColumn]) -> list[str]:
    return list(dict.fromkeys(name for column in columns for name in column.reads))


def _bits(values: NDArray[np.generic]) -> NDArray[np.generic]:
    return values.view(np.int64) if values.dtype == np.float64 else values


def _block_name(column: str, groups: Collection[str]) -> str:
    if column in _TYPES:
        return "atom_types"
    name = f"atom_{column}"
    return f"atom_%{ord(column[0]):02X}{column[1:]}" if name == "atom_types" else name


def _ids(rows: Rows) -> tuple[NDArray[np.uint64], None]:
    assert rows.ids is not None
    return rows.ids.view(np.uint64), None
