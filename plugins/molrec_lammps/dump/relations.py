"""Relations between atoms that come and go: restated, and renumbered, wherever the set of ids changes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block, BlockDeclaration, BlockUpdates, ColumnDeclaration
from molrec_convert.model.dtypes import empty
from molrec_convert.report import Report
from molrec_lammps.dump.system import places_of, renumbered

__all__ = ["Relations"]

Integers = NDArray[np.int64]


class Relations:
    """The relations of a data file, whose atoms have the ascending `ids`, as blocks of a trajectory."""

    def __init__(self, blocks: Mapping[str, Block], ids: NDArray[np.uint64]) -> None:
        self.blocks = dict(blocks)
        self.ids = ids

    def declarations(self) -> dict[str, BlockDeclaration]:
        """How the blocks are declared."""
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
        """The updates of frames whose rows have these ids."""
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
                block, lost = renumbered(self._relations.blocks[name], rows)
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
