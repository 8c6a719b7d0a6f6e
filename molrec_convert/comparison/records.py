"""Logical differences of two records, one line each.

Compared are sections, columns (dtype, shape, values, masks, precision), typed meta, the declaration, every resolved
frame, and content this version does not know; not how things are stored. Source: Record, "What a conversion stamps".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from molrec_convert.comparison.trajectories import trajectory_differences
from molrec_convert.comparison.values import against, differing_rows, json_differences, value_text
from molrec_convert.model.frame import Block, Box, Column, Frame
from molrec_convert.model.record import Record, UnknownContent
from molrec_convert.model.standard import ENDPOINTS
from molrec_convert.model.tags import Meta, same_value

__all__ = ["differences"]

#: Keys of `meta` that say how a record came about, not what it holds.
_PROVENANCE = ("creator", "created_at")


def differences(a: Record, b: Record) -> Iterator[str]:
    """What differs, line by line, found as it is asked for; nothing when the records are equal."""
    yield from json_differences("the root group", a.attributes, b.attributes)
    yield from json_differences("meta", _meta(a), _meta(b))
    yield from _frame_differences("system", a.system, b.system)
    yield from _frame_differences("frame", a.frame, b.frame)
    if a.trajectory is None or b.trajectory is None:
        yield from _presence("trajectory", a.trajectory, b.trajectory)
    else:
        yield from trajectory_differences(a.trajectory, b.trajectory)
    for name in ("method", "status"):
        first, second = getattr(a, name), getattr(b, name)
        if first is None or second is None:
            yield from _presence(name, first, second)
        else:
            yield from json_differences(name, first, second)
    yield from _unknown_differences(a.unknown, b.unknown)


def _meta(record: Record) -> dict[str, Any]:
    document = {key: value for key, value in record.meta.items() if key not in _PROVENANCE}
    return {"molrec_version": 1, **document}


def _presence(node: str, a: object, b: object) -> Iterator[str]:
    """A line where only one of two is there."""
    if (a is None) != (b is None):
        yield f"{node}: is in the {'second' if a is None else 'first'} only"


def _frame_differences(node: str, a: Frame | None, b: Frame | None) -> Iterator[str]:
    if a is None or b is None:
        yield from _presence(node, a, b)
        return
    yield from _typed_differences(node, a.meta, b.meta)
    for name in sorted({*a.blocks, *b.blocks}):
        first, second = a.blocks.get(name), b.blocks.get(name)
        if first is None or second is None:
            yield from _presence(f"{node}/{name}", first, second)
        else:
            yield from _block_differences(f"{node}/{name}", first, second)
    yield from _box_differences(f"{node}/box", a.box, b.box)
    for path in sorted({*a.attributes, *b.attributes}):
        yield from json_differences(f"{node}/{path}", a.attributes.get(path), b.attributes.get(path))


def _typed_differences(node: str, a: Meta, b: Meta) -> Iterator[str]:
    for key in sorted({*a, *b}):
        if key not in a or key not in b:
            here, value = ("first", a[key]) if key in a else ("second", b[key])
            yield f"{node}: the key {key!r} is in the {here} only: {value_text(value)}"
        elif a.tag(key) != b.tag(key):
            yield f"{node}: the key {key!r} is {a.tag(key)} against {b.tag(key)}"
        elif not same_value(a[key], b[key], a.tag(key)):
            yield f"{node}: the key {key!r} is {against(a[key], b[key])}"


def _block_differences(node: str, a: Block, b: Block) -> Iterator[str]:
    if a.count != b.count:
        yield f"{node}: {a.count} rows against {b.count}"
    if a.structural_shape != b.structural_shape:
        yield f"{node}: the structural shape is {against(a.structural_shape, b.structural_shape)}"
    yield from json_differences(f"{node}: targets", declared_targets(a.targets), declared_targets(b.targets))
    yield from json_differences(node, a.attributes, b.attributes)
    for name in sorted({*a.columns, *b.columns}):
        here = f"{node}/{name}"
        if name not in a.columns or name not in b.columns:
            yield from _presence(here, a.columns.get(name), b.columns.get(name))
        else:
            yield from _column_differences(here, a.columns[name], b.columns[name])


def declared_targets(targets: Mapping[str, str]) -> dict[str, str]:
    """The targets that are not what a standard endpoint has anyway."""
    return {key: target for key, target in targets.items() if not (key in ENDPOINTS and target == "atoms")}


def _column_differences(node: str, a: Column, b: Column) -> Iterator[str]:
    yield from json_differences(node, a.attributes, b.attributes)
    if a.precision != b.precision:
        yield f"{node}: the precision is {against(a.precision, b.precision)}"
    if a.dtype != b.dtype or a.trailing != b.trailing:
        yield f"{node}: {a.dtype}{list(a.trailing)} against {b.dtype}{list(b.trailing)}"
        return
    if len(a) != len(b):
        return
    rows = differing_rows(a.values, b.values)
    if len(rows):
        row = int(rows[0])
        yield f"{node}, row {row}: {against(a.values[row], b.values[row])}{_more(rows, len(a))}"
    if a.validity is None and b.validity is None:
        return
    masks = [np.ones(len(a), np.bool_) if column.validity is None else column.validity for column in (a, b)]
    rows = differing_rows(*masks)
    if len(rows):
        row = int(rows[0])
        yield f"{node}, row {row}: the mask is {against(masks[0][row], masks[1][row])}{_more(rows, len(a))}"


def _more(rows: Any, total: int) -> str:
    return f" ({len(rows)} of {total} rows differ)" if len(rows) > 1 else ""


def _box_differences(node: str, a: Box | None, b: Box | None) -> Iterator[str]:
    if a is None or b is None:
        yield from _presence(node, a, b)
        return
    if a.defined != b.defined:
        yield f"{node}: the cell is {'defined' if a.defined else 'undefined'} against its opposite"
    for name in ("vectors", "origin", "boundary"):
        first, second = getattr(a, name), getattr(b, name)
        if len(differing_rows(first, second)):
            yield f"{node}/{name}: {against(first, second)}"


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
        documents = [json.loads(raw) for raw in (a, b)]
    except ValueError:
        return False
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("attributes"), dict):
            document["attributes"].pop("_zarrs", None)
    return bool(json.dumps(documents[0], sort_keys=True) == json.dumps(documents[1], sort_keys=True))
