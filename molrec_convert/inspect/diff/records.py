"""Logical differences of two records, one line each.

Compared are sections, columns (dtype, shape, values, masks, precision), typed meta, the declaration, every resolved
frame, force field, observables, curves, and content this version does not know; not how things are stored.
Source: Record, "What a conversion stamps".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from molrec_convert.files.json_text import read_json
from molrec_convert.inspect.diff.sections import (
    against,
    column_differences,
    forcefield_differences,
    frame_differences,
    json_differences,
    metrics_differences,
    observable_differences,
    presence,
)
from molrec_convert.inspect.diff.trajectories import declaration_differences, trajectory_differences
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.record import Record, UnknownContent

__all__ = ["collection_differences", "differences"]

#: Keys of `meta` that say how a record came about, not what it holds.
_PROVENANCE = ("creator", "created_at")


def differences(a: Record, b: Record, *, declared: bool = True) -> Iterator[str]:
    """Yield what differs, line by line, found as it is asked for; nothing when the records are equal.

    Not `declared`: what their trajectories declare is compared elsewhere.
    """
    yield from json_differences("the root group", a.attributes, b.attributes)
    yield from json_differences("meta", _meta(a), _meta(b))
    yield from frame_differences("system", a.system, b.system)
    yield from frame_differences("frame", a.frame, b.frame)
    if a.trajectory is None or b.trajectory is None:
        yield from presence("trajectory", a.trajectory, b.trajectory)
    else:
        yield from trajectory_differences(a.trajectory, b.trajectory, declared=declared)
    yield from forcefield_differences(a.forcefield, b.forcefield)
    yield from observable_differences(a.observables, b.observables)
    for name in ("method", "status"):
        first, second = getattr(a, name), getattr(b, name)
        if first is None or second is None:
            yield from presence(name, first, second)
        else:
            yield from json_differences(name, first, second)
    yield from metrics_differences(a.metrics, b.metrics)
    yield from _unknown_differences(a.unknown, b.unknown)


def _meta(record: Record) -> dict[str, Any]:
    document = {key: value for key, value in record.meta.items() if key not in _PROVENANCE}
    return {"molrec_version": 1, **document}


def _unknown_differences(a: UnknownContent | None, b: UnknownContent | None) -> Iterator[str]:
    first = set() if a is None else set(a.keys())
    second = set() if b is None else set(b.keys())
    for key in sorted(first | second):
        if a is None or b is None or key not in first or key not in second:
            yield f"{key}: is in the {'first' if key in first else 'second'} only"
        elif not _same_file(key, a.read(key), b.read(key)):
            yield f"{key}: the files differ"


def _same_file(key: str, a: bytes, b: bytes) -> bool:
    if a == b:
        return True
    if not key.endswith("zarr.json"):
        return False
    try:
        documents = [read_json(raw) for raw in (a, b)]
    except ValueError:
        return False
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("attributes"), dict):
            document["attributes"].pop("_zarrs", None)
    return bool(json.dumps(documents[0], sort_keys=True) == json.dumps(documents[1], sort_keys=True))


def collection_differences(a: Collection, b: Collection) -> Iterator[str]:
    """Yield what differs, line by line, found as it is asked for; nothing when the collections are equal."""
    documents = [{key: value for key, value in c.document.items() if key not in _PROVENANCE} for c in (a, b)]
    units = [document.pop("units", {}) for document in documents]
    yield from json_differences("collection", *documents)
    yield from json_differences("collection.units", *units)
    yield from json_differences("collection: meta", dict(a.extra), dict(b.extra))
    yield from declaration_differences(a.declaration, b.declaration)
    yield from forcefield_differences(a.forcefield, b.forcefield)
    yield from _unknown_key_differences(a, b)
    if len(a) != len(b):
        yield f"collection: {len(a)} records against {len(b)}"
    yield from _index_differences(a, b)
    for number in range(min(len(a), len(b))):
        if not a.same_values(number, b, number):
            yield from (f"record {number}: {line}" for line in differences(a[number], b[number], declared=False))


def _index_differences(a: Collection, b: Collection) -> Iterator[str]:
    """Yield differences of the columns beside those every collection has; those follow from the records."""
    first, second = a.index_columns, b.index_columns
    for name in sorted({*first, *second}):
        node = f"index/{name}"
        if name not in first or name not in second:
            yield from presence(node, first.get(name), second.get(name))
        elif len(a) == len(b):
            yield from column_differences(node, a.index.columns[name], b.index.columns[name])
        elif first[name].dtype != second[name].dtype:
            yield f"{node}: the dtype is {against(first[name].dtype, second[name].dtype)}"


def _unknown_key_differences(a: Collection, b: Collection) -> Iterator[str]:
    first, second = dict(a.unknown_values()), dict(b.unknown_values())
    for key in sorted({*first, *second}):
        node = f"key {key.decode('utf-8', 'backslashreplace')}"
        if key not in first or key not in second:
            yield from presence(node, first.get(key), second.get(key))
        elif first[key] != second[key]:
            yield f"{node}: the values differ"
