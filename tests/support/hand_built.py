"""Stores written by hand, file by file: what no writer of this package would produce, or does not produce yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert.model.dtypes import as_values, dtype_name
from molrec_convert.stores.zarr.v3.codecs import column_pipeline, is_fill
from molrec_convert.stores.zarr.v3.metadata import Extents, fixed_extents, new_array


def write_json(path: Path, document: Any) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "zarr.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def edit_json(path: Path, change: Any) -> None:
    """Load the `zarr.json` of a node, let `change` alter it, store it again."""
    document = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
    change(document)
    write_json(path, document)


def group(path: Path, **attributes: Any) -> Path:
    """A group with attributes; returns its folder."""
    write_json(path, {"zarr_format": 3, "node_type": "group", "attributes": attributes})
    return path


def array(path: Path, values: Any, **attributes: Any) -> Path:
    """An array in one plain chunk, by the writer's pipeline for its dtype."""
    data = as_values(values)
    pipeline = column_pipeline(dtype_name(data.dtype), attributes.get("precision"))
    extents = Extents(max(1, len(data))) if data.ndim else fixed_extents(pipeline.dtype, data.shape)
    write_json(path, new_array(data.shape, pipeline, extents, attributes).document)
    if data.size and not is_fill(data):
        chunk = path.joinpath("c", *["0"] * data.ndim)
        chunk.parent.mkdir(parents=True, exist_ok=True)
        chunk.write_bytes(
            b"".join(bytes(np.asarray(part)) if not isinstance(part, bytes) else part for part in pipeline.encode(data))
        )
    return path


def block(path: Path, columns: dict[str, Any], count: int | None = None, **attributes: Any) -> Path:
    """A block of a frame-shaped group."""
    rows = count if count is not None else len(next(iter(columns.values())))
    group(path, count=rows, **attributes)
    for name, values in columns.items():
        array(path / name, values)
    return path


def record(path: Path, **meta: Any) -> Path:
    """The root of a record and its `meta`."""
    group(path)
    group(path / "meta", **{"molrec_version": 1, **meta})
    return path
