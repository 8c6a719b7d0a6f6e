"""The tables of the page: which rows a frame and a type take, what dtypes and a precision are on disk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from molrec_convert.model.dtypes import DTYPES, quantum, stored
from molrec_convert.model.forcefield.links import Term
from molrec_convert.stores.zarr.record import open_record
from molrec_convert.stores.zarr.trajectory.reader import StoredTrajectory
from molrec_convert.stores.zarr.v3.codecs import column_pipeline
from molrec_convert.stores.zarr.v3.zip_storage import open_storage

__all__ = ["dtypes", "frames", "parameters", "precision", "table"]


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table in Markdown."""
    heads = list(heads)
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def dtypes() -> Iterator[str]:
    """The dtypes of columns, and how a column of each is stored."""
    rows = (
        [
            f"`{name}`",
            f"`{dtype.zarr}`",
            "–" if name == "string" else str(dtype.itemsize),
            str(column_pipeline(name)),
        ]
        for name, dtype in DTYPES.items()
    )
    return table(["dtype", "`data_type`", "bytes", "codecs of a column"], rows)


def precision(tolerance: float) -> Iterator[str]:
    """What is stored for some values under a precision."""
    q = quantum(tolerance)
    given = [0.7572, -0.469, 1.008, 2.5 * q, 3.5 * q, -0.4 * q, 2.0**52 * q + 1.0, math.inf, math.nan]
    rows = (
        [repr(x), repr(x / q) if math.isfinite(x) else "–", repr(kept)]
        for x, kept in zip(given, stored(np.array(given), tolerance).tolist(), strict=True)
    )
    return table(["value *x*", "*x* / *q*", "stored"], rows)


def frames(path: Path) -> Iterator[str]:
    """Every frame of a record's trajectory: its step, the update and rows of each block, the update of the cell."""
    storage = open_storage(path)
    try:
        trajectory = StoredTrajectory(storage)
        blocks = list(trajectory.declaration.blocks)
        heads = ["frame `i`", "`step[i]`", *(f"`{name}`" for name in blocks), "`box`"]
        yield from table(heads, (_frame(trajectory, blocks, i) for i in range(len(trajectory))))
    finally:
        storage.close()


def _frame(trajectory: StoredTrajectory, blocks: list[str], index: int) -> list[str]:
    frame, update = trajectory.frame(index), trajectory.resolve_box(index)
    edge = "absent" if frame.box is None or update is None else f"j={update} (edge {frame.box.vectors[0, 0]})"
    return [str(index), str(frame.step), *(_rows(trajectory.resolve(name, index)) for name in blocks), edge]


def _rows(found: tuple[int, int, int] | None) -> str:
    if found is None:
        return "absent"
    update, first, last = found
    count = last - first
    told = "empty" if not count else f"{count} row" + ("s" if count > 1 else "")
    return f"j={update} → `{first}:{last}` ({told})"


def parameters(path: Path, pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """What the first row of every type of a record's system takes, and what pairs of types take."""
    with open_record(path) as record:
        resolution, system = record.resolve(), record.system
        assert system is not None
        rows = []
        for block in resolution:
            names = system[block]["type"].tolist()
            for row in sorted({names.index(name) for name in names}):
                for term in resolution[block].terms(row):
                    where = f"`{term.table}` row {term.row}"
                    rows.append([f"`{block}[{row}]`", f"`{names[row]}`", where, _numbers(term)])
        mixed = []
        for a, b in pairs:
            for term in resolution.pair(a, b):
                where = f"mixed: {', '.join(term.mixed)}" if term.row is None else f"row {term.row}"
                mixed.append([f"`{a}`", f"`{b}`", f"`{term.table}` {where}", _numbers(term)])
    return (
        list(table(["system row", "`type`", "table → row", "parameters"], rows)),
        list(table(["atom type", "atom type", "table → row", "parameters"], mixed)),
    )


def _numbers(term: Term) -> str:
    """Parameters that are numbers, sorted by name."""
    return ", ".join(f"{name} {value}" for name, value in sorted(term.parameters.items()) if isinstance(value, float))
