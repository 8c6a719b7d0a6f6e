"""Snapshots as flat dicts of arrays and plain values: what is handed to a learning program, and nothing else.

`"atoms/x"` is an array (a list of texts), `"atoms/_validity/x"` its mask where it has one, `"pe"` a value of the meta,
`"box/vectors"`, `"step"`, `"time"`. JSON documents of the meta are left out: they have no fixed shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_convert.model.frame import Frame
from molrec_convert.model.record import Record
from molrec_convert.model.tags import Meta

__all__ = ["frame_sample", "meta_sample", "record_sample"]


def record_sample(record: Record) -> dict[str, Any]:
    """A record as `{"system": {...}, "frames": [{...}, ...]}`, each as `frame_sample` has it."""
    frames = [] if record.trajectory is None else [frame_sample(frame) for frame in record.trajectory]
    return {"system": {} if record.system is None else frame_sample(record.system), "frames": frames}


def frame_sample(frame: Frame) -> dict[str, Any]:
    """A snapshot as a flat dict; arrays are copies."""
    sample: dict[str, Any] = {}
    for name in frame:
        block = frame[name]
        for key, column in block.columns.items():
            values = column.values
            sample[f"{name}/{key}"] = values.tolist() if values.dtype.kind == "T" else np.array(values)
            if column.validity is not None:
                sample[f"{name}/_validity/{key}"] = np.array(column.validity)
    sample.update(meta_sample(frame.meta))
    if frame.box is not None:
        for part in ("vectors", "origin", "boundary"):
            sample[f"box/{part}"] = getattr(frame.box, part)
    for name in ("step", "time"):
        value = getattr(frame, name)
        if value is not None:
            sample[name] = value
    return sample


def meta_sample(meta: Meta) -> dict[str, Any]:
    """A typed meta document without its JSON documents."""
    return {key: value for key, value in meta.items() if meta.tag(key) != "json"}
