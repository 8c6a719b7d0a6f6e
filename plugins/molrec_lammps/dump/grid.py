"""Grid dumps as blocks of a fixed shape: cell (ix, iy, iz) of a column is `values.reshape(nx, ny, nz)[ix, iy, iz]`.

A dump writes x fastest; a block has its last axis fastest, so rows are put into that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import BlockDeclaration, ColumnDeclaration
from molrec_convert.report import Report
from molrec_lammps.dump.names import own_names
from molrec_lammps.dump.side import SideDump

__all__ = ["GridBlock", "grid_block"]

Integers = NDArray[np.int64]


@dataclass
class GridBlock:
    """A grid dump as a block of a trajectory."""

    dump: SideDump
    name: str
    others: dict[str, str]

    #: No row refers to an atom.
    references = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along x, y and z."""
        assert self.dump.first.shape is not None
        return self.dump.first.shape

    def declaration(self) -> BlockDeclaration:
        """How the block is declared."""
        return BlockDeclaration(
            {own: ColumnDeclaration("f64") for own in self.others.values()},
            structural_shape=self.shape,
            rows=self.dump.first.count,
        )

    def rows(self, frames: Sequence[int], ids: Sequence[Integers | None]) -> tuple[Integers, dict[str, NDArray[Any]]]:
        """Row counts and columns of some frames."""
        parts: dict[str, list[NDArray[np.float64]]] = {own: [] for own in self.others.values()}
        for batch, columns, _ in self.dump.read(frames):
            for name, own in self.others.items():
                grid = columns[name].reshape(len(batch), *self.shape[::-1])
                parts[own].append(np.ascontiguousarray(grid.transpose(0, 3, 2, 1)).reshape(-1))
        counts = np.full(len(frames), self.dump.first.count, dtype=np.int64)
        return counts, {own: np.concatenate(values) for own, values in parts.items()}

    def report(self, report: Report) -> None:
        """Nothing is left out."""


def grid_block(dump: SideDump, report: Report, *, id: str | None = None) -> GridBlock:
    """The block of a grid dump."""
    wanted = "grid" if id is None else f"grid_{id}"
    name = own_names([wanted], ())[wanted]
    size = " x ".join(map(str, dump.first.shape or ()))
    report.converted(
        dump.name, f"{len(dump.frames)} frames of a grid {size} in trajectory/{name}, its rows with z fastest"
    )
    return GridBlock(dump, name, own_names(dump.first.columns, ()))
