"""Snapshots as flat dicts of arrays and plain values: what is handed to a learning program, and nothing else.

`"atoms/x"` is an array as `Block` gives it, NaN or masked where it is null (a list of texts, None where null),
`"atoms/_validity/x"` its mask where it has one, `"pe"` a value of the meta, `"box/vectors"`, `"step"`, `"time"`. A
number that is missing in a frame of a trajectory is NaN, so that all samples have the same keys. JSON documents of the
meta are left out: they have no fixed shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Frame, with_missing
from molrec_convert.model.record import Record
from molrec_convert.model.tags import Meta

__all__ = ["frame_sample", "meta_sample", "record_sample"]


def record_sample(record: Record) -> dict[str, Any]:
    """A record as `{"system": {...}, "frames": [{...}, ...]}`, each as `frame_sample` has it."""
    trajectory = record.trajectory
    frames = [] if trajectory is None else [frame_sample(frame, trajectory.declaration) for frame in trajectory]
    return {"system": {} if record.system is None else frame_sample(record.system), "frames": frames}


def frame_sample(frame: Frame, declaration: Declaration | None = None) -> dict[str, Any]:
    """A snapshot as a flat dict; arrays are copies. `declaration` is that of its trajectory."""
    sample: dict[str, Any] = {}
    for name in frame:
        block = frame[name]
        for key, column in block.columns.items():
            values = with_missing(column.values, column.validity)
            sample[f"{name}/{key}"] = values.tolist() if values.dtype.kind == "T" else values.copy()
            if column.validity is not None:
                sample[f"{name}/_validity/{key}"] = np.array(column.validity)
    sample.update(meta_sample(frame.meta, declaration))
    if frame.box is not None:
        for part in ("vectors", "origin", "boundary"):
            sample[f"box/{part}"] = getattr(frame.box, part)
    for name in ("step", "time"):
        value = getattr(frame, name)
        if value is not None:
            sample[name] = value
    return sample


def meta_sample(meta: Meta, declaration: Declaration | None = None) -> dict[str, Any]:
    """A typed meta document without its JSON documents; with a `declaration` NaN where one of its keys is missing."""
    sample = {key: value for key, value in meta.items() if meta.tag(key) != "json"}
    if declaration is None or len(meta) == len(declaration.meta):
        return sample
    fills = {key: entry.fill for key, entry in declaration.meta.items() if entry.has_missing and entry.dtype != "json"}
    whole = {key: fill if isinstance(fill, float) else np.array(fill) for key, fill in fills.items()} | sample
    return {key: whole[key] for key in declaration.meta if key in whole}
