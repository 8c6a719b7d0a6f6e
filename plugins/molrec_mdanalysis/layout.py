"""What the frames of a trajectory in MDAnalysis hold: told by the first, and by the hints of those that differ.

A frame that has what the first had not, or lacks what it had, is a `LayoutChanged`: the source is read again with a
layout that has room for both.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_convert.model import NO_FILL, BlockDeclaration, ColumnDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.names import RESERVED_COLUMNS, escape_name, name_fault
from molrec_convert.model.tags import infer_tag
from molrec_mdanalysis.names import ATTRIBUTES, STATE
from molrec_mdanalysis.shown import ShownReader

__all__ = ["APART", "ATOMS", "CELLS", "SIX", "STEPS", "Layout", "layout_of", "shown_data"]

ATOMS = "atoms"
#: Hints: cells are kept as six numbers, steps are counted.
CELLS, STEPS = "cells as numbers", "frames are counted"
#: Names of the six numbers of a cell in the per-step value `dimensions`; the first three are lengths.
SIX = ("cella", "cellb", "cellc", "cellalpha", "cellbeta", "cellgamma")
#: Before the name of a column of `ts.data` where the name alone would be another column.
APART = "data."
_STANDARD = frozenset((*ATTRIBUTES.values(), *(column for columns in STATE.values() for column in columns)))
#: What of `ts.data` is said elsewhere.
_SAID = {"time", "step", "time_offset"}


@dataclass
class Layout:
    """`arrays`: which of positions, velocities, forces there are, and whether some frames lack them.

    `data`: key of `ts.data` → name of the per-step value and its tag; `rows`: key → column, of one value, or as many as
    `trailing` says, an atom. `known`: all keys there may be. `timed`: frames have times. `cells`: cells are cells, not
    numbers. `stepped`: `ts.data` has step numbers, and they ascend.
    """

    atoms: int
    arrays: dict[str, bool] = field(default_factory=dict)
    data: dict[str, tuple[str, str]] = field(default_factory=dict)
    rows: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    known: set[Any] = field(default_factory=set)
    timed: bool = False
    cells: bool = True
    stepped: bool = False

    def declaration(self) -> Declaration:
        """The declaration of the trajectory."""
        columns = {
            column: ColumnDeclaration("f64", (), sparse)
            for name, sparse in self.arrays.items()
            for column in STATE[name]
        }
        columns |= {column: ColumnDeclaration("f64", trailing) for column, trailing in self.rows.values()}
        meta = {name: MetaDeclaration(tag, None if tag == "json" else NO_FILL) for name, tag in self.data.values()}
        if not self.cells:
            meta["dimensions"] = MetaDeclaration("json", None)
        return Declaration({ATOMS: BlockDeclaration(columns, rows=self.atoms)} if columns else {}, meta)


def layout_of(ts: Any, reader: Any, taken: Collection[str], hints: frozenset[str]) -> Layout:
    """The layout a first frame and hints tell; `taken`: columns of the atoms the system has."""
    layout = Layout(int(ts.n_atoms))
    for name in STATE:
        there = bool(getattr(ts, f"has_{name}"))
        sparse = f"some frames have no {name}" in hints
        if there or sparse:
            layout.arrays[name] = sparse
    layout.cells = CELLS not in hints
    counted = STEPS in hints or "data:step" in hints
    layout.stepped = "step" in ts.data and not counted
    states_dt = _states_dt(reader.reader if isinstance(reader, ShownReader) else reader)
    layout.timed = "time" in ts.data or "dt" in ts.data or states_dt
    left_out = []
    keys = dict.fromkeys([*ts.data, *sorted(hint[5:] for hint in hints if hint.startswith("data:"))])
    for key in keys:
        if key == "dt" and (reader is None or reader.n_frames > 1):
            continue  # the times say it
        if not isinstance(key, str) or key in _SAID - ({"step"} if counted else set()):
            continue
        name = "source_step" if key == "step" else key
        name = name if name_fault(name) is None else escape_name(name)
        shape = np.shape(ts.data[key]) if key in ts.data else ()
        if f"data:{key}" in hints:
            layout.data[key] = (name, "json")
        elif _is_rows(ts.data[key], layout.atoms):
            apart = name in taken or name in _STANDARD or name in RESERVED_COLUMNS
            layout.rows[key] = (f"{APART}{name}" if apart else name, tuple(shape[1:]))
        else:
            tag = _tag(ts.data[key])
            if tag is None:
                left_out.append(key)
            else:
                layout.data[key] = (name, tag)
    layout.left_out = tuple(left_out)
    layout.known = {*keys, *_SAID - {"step"}, "dt"} | ({"step"} if layout.stepped else set())
    return layout


def _states_dt(reader: Any) -> bool:
    """Whether a reader knows the time between its frames; MDAnalysis says 1 ps where one does not."""
    return "_get_dt" in vars(type(reader)) or len(getattr(reader, "readers", ())) > 0


def _is_rows(value: Any, atoms: int) -> bool:
    """Whether a value of `ts.data` is an array with numbers for every atom (of more than a vector or a cell has)."""
    return isinstance(value, np.ndarray) and value.shape[:1] == (atoms,) and atoms > 9 and value.dtype.kind in "fiu"


def _tag(value: Any) -> str | None:
    """The tag of a value of `ts.data`; None for one that is no value of a record."""
    try:
        shown = shown_data(value)
    except TypeError:
        return None
    tag = infer_tag(np.array(shown)) if isinstance(shown, list) and shown else infer_tag(shown)
    return "f64" if tag == "i64" and not isinstance(shown, int) else tag


def shown_data(value: Any) -> Any:
    """A value of `ts.data` as plain Python: numbers, texts, lists of them. TypeError for anything else."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [shown_data(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: shown_data(item) for key, item in value.items()}
    raise TypeError(type(value).__name__)
