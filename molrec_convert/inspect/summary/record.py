"""What a person wants to see of a record first, as data, text and HTML.

Only what is cheap is looked at: metadata, the first and the last frame's per-step values, the first cell, and the
`element` and `type` columns of a system that is not large, force-field tables and curves. No column of a trajectory
and no observable is read.
"""

from __future__ import annotations

import html
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.inspect.summary.words import summary_rows, text_lines
from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.dtypes import distinct
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Box, Frame
from molrec_convert.model.record import Record
from molrec_convert.model.results.metrics import Metrics
from molrec_convert.model.results.observables import Observables
from molrec_convert.model.tags import to_typed_json
from molrec_convert.model.trajectory import Trajectory

__all__ = ["forcefield_summary", "summarize", "summary_html", "summary_rows", "summary_text", "text_lines"]

#: Columns of text are read up to this many rows, steps and times up to this many frames.
_FEW_ROWS = 100_000
_FEW_FRAMES = 1_000_000


def summarize(record: Record) -> dict[str, Any]:
    """Return the summary as a JSON document; keys of absent sections are None."""
    meta = record.meta
    return {
        "path": record.path,
        "bytes": _size(record.path),
        "molrec_version": meta.get("molrec_version"),
        "creator": meta.get("creator"),
        "meta": {key: value for key, value in meta.items() if key not in ("molrec_version", "creator")},
        "units": record.units,
        "sections": record.sections,
        "system": None if record.system is None else _frame(record.system),
        "frame": None if record.frame is None else _frame(record.frame),
        "trajectory": None if record.trajectory is None else _trajectory(record.trajectory),
        "forcefield": None if record.forcefield is None else forcefield_summary(record.forcefield),
        "observables": None if record.observables is None else _observables(record.observables),
        "method": record.method,
        "status": record.status,
        "metrics": None if record.metrics is None else _metrics(record.metrics),
        "unknown": sorted({key.partition("/")[0] for key in (() if record.unknown is None else record.unknown.keys())}),
    }


def summary_text(record: Record) -> str:
    """Return the summary as plain text."""
    return "\n".join(text_lines(summary_rows(summarize(record))))


def summary_html(record: Record) -> str:
    """Return the summary as an HTML table, for notebooks."""
    cells = []
    for row in summary_rows(summarize(record)):
        text = "<br>".join(html.escape(line) for line in (row.text, *row.more))
        cells.append(f"<tr><th style='text-align:left'>{html.escape(row.label)}</th><td>{text}</td></tr>")
    return f"<table class='molrec'>{''.join(cells)}</table>"


def _size(path: str | None) -> int | None:
    if path is None or not os.path.exists(path):
        return None
    where = Path(path)
    if not where.is_dir():
        return where.stat().st_size
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(where) for name in names)


def _frame(frame: Frame) -> dict[str, Any]:
    atoms = frame.blocks.get("atoms")
    return {
        "blocks": {name: _block(block) for name, block in frame.blocks.items()},
        "elements": None if atoms is None else _tally(atoms, "element"),
        "types": None if atoms is None else _tally(atoms, "type") or _tally(atoms, "type_id"),
        "meta": {key: to_typed_json(value, frame.meta.tag(key)) for key, value in frame.meta.items()},
        "box": None if frame.box is None else _box(frame.box),
    }


def _block(block: Block) -> dict[str, Any]:
    columns = {}
    for name, column in block.columns.items():
        facts: dict[str, Any] = {"dtype": column.dtype, "trailing": list(column.trailing)}
        columns[name] = facts
        if column.precision is not None:
            facts["precision"] = column.precision
    shape = block.structural_shape
    return {"rows": block.count, "columns": columns, **({} if shape is None else {"structural_shape": list(shape)})}


def forcefield_summary(forcefield: ForceField) -> dict[str, Any]:
    """Return the summary of a force field: name, units, styles with their numbers of rows."""
    styles = {style.name: forcefield.tables[style.block].count for style in forcefield.styles}
    others = [name for name in forcefield.tables if name not in {style.block for style in forcefield.styles}]
    return {
        "name": forcefield.name,
        "units": forcefield.units,
        "definitions": forcefield.definitions,
        "styles": styles,
        "other_blocks": others,
    }


def _observables(observables: Observables) -> dict[str, Any]:
    return {
        name: {"dtype": observable.dtype, "shape": list(observable.shape), **observable.metadata}
        for name, observable in observables.items()
    }


def _metrics(metrics: Metrics) -> dict[str, Any]:
    found = {}
    for key, series in metrics.items():
        steps = None if series.steps is None or series.has_step is not None else series.steps
        last = len(series) - 1
        found[key] = {
            "count": len(series),
            "step": None if steps is None or last < 0 else int(steps[last]),
            "value": None if last < 0 else _finite(float(series.values[last])),
            "wall_time": None if last < 0 else str(series.wall_time[last]),
        }
    return found


def _tally(block: Block, name: str) -> dict[str, int] | None:
    """Return how many rows have each value of a column, None when there is none, or too many rows to look."""
    column = block.columns.get(name)
    if column is None or not 0 < block.count <= _FEW_ROWS or column.trailing:
        return None
    values = column.values if column.validity is None else column.values[column.validity]
    found, _, counts = distinct(values)
    return {str(value): int(count) for value, count in zip(found.tolist(), counts.tolist(), strict=True)}


def _box(box: Box) -> dict[str, Any]:
    document: dict[str, Any] = {
        "defined": box.defined,
        "origin": box.origin.tolist(),
        "boundary": box.boundary.tolist(),
        "vectors": box.vectors.tolist(),
    }
    if box.defined:
        with np.errstate(over="ignore"):
            lengths = np.hypot(np.hypot(box.vectors[0], box.vectors[1]), box.vectors[2])
        document["lengths"] = lengths.tolist()
        with np.errstate(invalid="ignore"):
            document["angles"] = [_angle(box.vectors, lengths, *pair) for pair in ((1, 2), (0, 2), (0, 1))]
    return {key: _finite(value) for key, value in document.items()}


def _angle(vectors: NDArray[np.float64], lengths: NDArray[np.float64], i: int, j: int) -> float:
    if not (lengths[i] > 0 and lengths[j] > 0):
        return math.nan
    cosine = float(vectors[:, i] / lengths[i] @ (vectors[:, j] / lengths[j]))
    return 90.0 if cosine == 0 else math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def _trajectory(trajectory: Trajectory) -> dict[str, Any]:
    n = trajectory.n_frames
    first, last = _ends(trajectory, n)
    declaration = trajectory.declaration
    box = None
    if first is not None and first.box is not None and len(first.box.frames):
        box = _box(first.box.box(0, defined=trajectory.cell_defined))
    return {
        "frames": n,
        "blocks": {
            name: {**block.to_json(), **_rows_of(trajectory, name, block.rows, n)}
            for name, block in declaration.blocks.items()
        },
        "step": _range(trajectory, first, last, "step"),
        "time": _range(trajectory, first, last, "time"),
        "values": {
            key: {
                "dtype": entry.dtype,
                "first": _value(first, key, declaration),
                "last": _value(last, key, declaration),
            }
            for key, entry in declaration.meta.items()
        },
        "box": box,
    }


def _rows_of(trajectory: Trajectory, name: str, declared: int | None, n: int | None) -> dict[str, int | None]:
    """Return rows of a block in the last frame, and `first_rows` where the first has another number of them."""
    last = declared or _rows(trajectory, name, None if n is None else n - 1)
    first = declared or _rows(trajectory, name, 0 if n else None)
    return {"rows": last} if first in (None, last) else {"rows": last, "first_rows": first}


def _rows(trajectory: Trajectory, name: str, frame: int | None) -> int | None:
    """Return rows of a block in a frame, where a store tells it from its index."""
    resolve = getattr(trajectory, "resolve", None)
    if resolve is None or frame is None or frame < 0:
        return None
    found = resolve(name, frame)
    return None if found is None else int(found[2] - found[1])


def _ends(trajectory: Trajectory, n: int | None) -> tuple[FrameBatch | None, FrameBatch | None]:
    """Return the first and the last frame without their blocks; the last only where its place is known."""
    if n == 0:
        return None, None
    first = next(trajectory.batches(0, 1, columns=()), None)
    last = first if n is None or n == 1 else next(trajectory.batches(n - 1, n, columns=()), None)
    return first, None if n is None else last


def _range(
    trajectory: Trajectory, first: FrameBatch | None, last: FrameBatch | None, name: str
) -> dict[str, Any] | None:
    """Return first, last and stride (None: not even, or too long to tell) of steps or times."""
    start = None if first is None else getattr(first, name)
    if start is None or not len(start):
        return None
    stop = None if last is None else getattr(last, name)
    document = {"first": start[0].item(), "last": None if stop is None else stop[-1].item(), "stride": None}
    n = trajectory.n_frames
    if n is not None and 1 < n <= _FEW_FRAMES:
        document["stride"] = _stride(trajectory.steps if name == "step" else trajectory.times)
    return {key: _finite(value) for key, value in document.items()}


def _stride(values: NDArray[Any] | None) -> Any:
    if values is None or len(values) < 2:
        return None
    if values.dtype.kind == "i":
        return int(values[1] - values[0]) if len(np.unique(np.diff(values))) == 1 else None
    with np.errstate(invalid="ignore", over="ignore"):
        stride = float(values[1] - values[0])
        even = np.abs(values - (values[0] + np.arange(len(values)) * stride)) <= 1e-9 * np.abs(values).max()
    return stride if bool(even.all()) else None


def _value(batch: FrameBatch | None, key: str, declaration: Declaration) -> Any:
    if batch is None or key not in batch.meta:
        return None
    return to_typed_json(batch.meta[key][0], declaration.meta[key].dtype)


def _finite(document: Any) -> Any:
    """NaN and infinities as JSON has them: in words."""
    if isinstance(document, dict):
        return {key: _finite(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_finite(value) for value in document]
    if isinstance(document, float) and not math.isfinite(document):
        return to_typed_json(document, "f64")
    return document
