"""The rows of many thermo tables by step: which of a step's rows counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from molrec_lammps.log.tables import Table
from molrec_lammps.log.thermo import Thermo, header_names

__all__ = ["replaced_rows", "thermo_of"]


def thermo_of(tables: Sequence[Table]) -> Thermo | None:
    """The rows of all tables by step. Of a step that comes again the later row counts.

    Rows of earlier tables that lie within the steps of a later one give way to it too: a run that went back (a
    restart, `reset_timestep`) replaces what it repeats, also where it printed at other steps. Where one run goes on
    from the last step of the one before, what only the one before printed of that step is kept.
    """
    tables = [table for table in tables if len(table.steps)]
    if not tables:
        return None
    names = header_names(word for table in tables for i, word in enumerate(table.header) if i != table.step_column)
    kept = _kept_rows(tables)
    total = sum(int(rows.size) for rows in kept)
    steps = np.zeros(total, dtype=np.int64)
    columns = {name: np.full(total, np.nan) for name in names.values()}
    printed = {name: np.zeros(total, dtype=np.bool_) for name in names.values()}
    start = 0
    before: Table | None = None
    for table, rows in zip(tables, kept, strict=True):
        stop = start + rows.size
        steps[start:stop] = table.steps[rows]
        for index, word in enumerate(table.header):
            if index != table.step_column:
                columns[names[word]][start:stop] = table.values[rows, index]
                printed[names[word]][start:stop] = True
        if before is not None and rows.size and rows[0] == 0 and before.steps[-1] == table.steps[0]:
            for index, word in enumerate(before.header):
                if word not in table.header:
                    columns[names[word]][start] = before.values[-1, index]
                    printed[names[word]][start] = True
        start, before = stop, table
    order = np.argsort(steps, kind="stable")
    return Thermo(
        steps[order],
        {name: values[order] for name, values in columns.items()},
        {name: known[order] for name, known in printed.items() if not known.all()},
    )


def replaced_rows(tables: Sequence[Table]) -> tuple[int, int]:
    """How many rows give way to later ones: because steps went back, and where a run goes on from the one before.

    A run that goes on repeats the last step of the one before, so that its first row is that row again.
    """
    tables = [table for table in tables if len(table.steps)]
    lost = sum(len(table.steps) - int(rows.size) for table, rows in zip(tables, _kept_rows(tables), strict=True))
    seams = sum(before.steps[-1] == table.steps[0] for before, table in pairwise(tables))
    return max(0, lost - int(seams)), min(lost, int(seams))


def _kept_rows(tables: Sequence[Table]) -> list[NDArray[np.int64]]:
    """Rows of each table that no later row replaces, the last of equal steps within a table."""
    covered: list[tuple[int, int]] = []
    kept = []
    for table in reversed(tables):
        steps = table.steps
        if bool((np.diff(steps) > 0).all()):
            rows = np.arange(len(steps), dtype=np.int64)
        else:
            _, last = np.unique(steps[::-1], return_index=True)
            rows = np.sort(len(steps) - 1 - last).astype(np.int64)
        low, high = int(steps.min()), int(steps.max())
        merged = [(low, high)]
        for first, final in covered:
            if final < low or first > high:
                merged.append((first, final))
                continue
            rows = rows[(steps[rows] < first) | (steps[rows] > final)]
            merged[0] = (min(merged[0][0], first), max(merged[0][1], final))
        covered = merged
        kept.append(rows)
    return kept[::-1]
