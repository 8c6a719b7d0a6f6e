"""Differences of force fields, observables and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.dtypes import same_bits
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Box, Column, Frame
from molrec_convert.model.names import ENDPOINTS, escape_name
from molrec_convert.model.results.events import LOG, Log, line_object, log_lines
from molrec_convert.model.results.metrics import Metrics, Series
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.model.tags import Meta, canonical_json, same_value

__all__ = [
    "against",
    "block_differences",
    "column_differences",
    "differing_rows",
    "forcefield_differences",
    "frame_differences",
    "json_differences",
    "metrics_differences",
    "observable_differences",
    "presence",
    "value_text",
]

_LONGEST = 60


def against(a: Any, b: Any) -> str:
    """Return both values in words; two that look alike (NaN of other bits) are told apart by their bits."""
    first, second = value_text(a), value_text(b)
    if first == second:
        first, second = f"{first} ({_bits(a)})", f"{second} ({_bits(b)})"
    return f"{first} against {second}"


def value_text(value: Any) -> str:
    """Return a value as a person writes it, shortened."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    try:
        text = repr(value) if isinstance(value, (float, complex)) else canonical_json(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _bits(value: Any) -> str:
    return "0x" + np.ascontiguousarray(value).byteswap().tobytes().hex()[:_LONGEST]


def differing_rows(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Return rows at which two arrays of one dtype and shape differ in any bit."""
    if same_bits(a, b):
        return np.zeros(0, dtype=np.int64)
    if isinstance(a.dtype, np.dtypes.StringDType):
        unequal = a != b
    else:
        raw = [np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8) for values in (a, b)]
        unequal = raw[0] != raw[1]
    return np.flatnonzero(unequal.reshape(len(a), -1).any(axis=1)).astype(np.int64)


def presence(node: str, a: object, b: object) -> Iterator[str]:
    """Yield a line where only one of two is there."""
    if (a is None) != (b is None):
        yield f"{node}: is in the {'second' if a is None else 'first'} only"


def json_differences(node: str, a: dict[str, Any] | None, b: dict[str, Any] | None) -> Iterator[str]:
    """Yield one line for each key whose values differ; the order of keys does not count, 1 differs from 1.0."""
    first, second = a or {}, b or {}
    for key in sorted({*first, *second}):
        if key not in first or key not in second:
            here, value = ("first", first[key]) if key in first else ("second", second[key])
            yield f"{node}: {key!r} is in the {here} only: {value_text(value)}"
        elif canonical_json(first[key]) != canonical_json(second[key]):
            yield f"{node}: {key!r} is {against(first[key], second[key])}"


def frame_differences(node: str, a: Frame | None, b: Frame | None) -> Iterator[str]:
    """Yield what differs between two snapshots, either of which may be missing."""
    if a is None or b is None:
        yield from presence(node, a, b)
        return
    yield from _typed_differences(node, a.meta, b.meta)
    for name in sorted({*a.blocks, *b.blocks}):
        first, second = a.blocks.get(name), b.blocks.get(name)
        if first is None or second is None:
            yield from presence(f"{node}/{name}", first, second)
        else:
            yield from block_differences(f"{node}/{name}", first, second)
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


def block_differences(node: str, a: Block, b: Block) -> Iterator[str]:
    """Yield what differs between two blocks of one name."""
    if a.count != b.count:
        yield f"{node}: {a.count} rows against {b.count}"
    if a.structural_shape != b.structural_shape:
        yield f"{node}: the structural shape is {against(a.structural_shape, b.structural_shape)}"
    yield from json_differences(f"{node}: targets", declared_targets(a.targets), declared_targets(b.targets))
    yield from json_differences(node, a.attributes, b.attributes)
    for name in sorted({*a.columns, *b.columns}):
        here = f"{node}/{name}"
        if name not in a.columns or name not in b.columns:
            yield from presence(here, a.columns.get(name), b.columns.get(name))
        else:
            yield from column_differences(here, a.columns[name], b.columns[name])


def declared_targets(targets: Mapping[str, str]) -> dict[str, str]:
    """Return the targets that are not what a standard endpoint has anyway."""
    return {key: target for key, target in targets.items() if not (key in ENDPOINTS and target == "atoms")}


def column_differences(node: str, a: Column, b: Column) -> Iterator[str]:
    """Yield what differs between two columns of one name."""
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
        yield f"{node}, row {row}: {against(a.values[row], b.values[row])}{_more(len(rows), len(a))}"
    if a.validity is None and b.validity is None:
        return
    masks = [np.ones(len(a), np.bool_) if column.validity is None else column.validity for column in (a, b)]
    rows = differing_rows(*masks)
    if len(rows):
        row = int(rows[0])
        yield f"{node}, row {row}: the mask is {against(masks[0][row], masks[1][row])}{_more(len(rows), len(a))}"


def _box_differences(node: str, a: Box | None, b: Box | None) -> Iterator[str]:
    if a is None or b is None:
        yield from presence(node, a, b)
        return
    if a.defined != b.defined:
        yield f"{node}: the cell is {'defined' if a.defined else 'undefined'} against its opposite"
    for name in ("vectors", "origin", "boundary"):
        first, second = getattr(a, name), getattr(b, name)
        if len(differing_rows(first, second)):
            yield f"{node}/{name}: {against(first, second)}"


_SECTION = "forcefield"
#: What a catalog says of the log and of a series anyway.
_WATERMARK = ("lines", "bytes")
_DERIVED = ("type", "count", "latest_step", "latest_timestamp")


def forcefield_differences(a: ForceField | None, b: ForceField | None) -> Iterator[str]:
    """Return what differs between two force fields, of which either may be missing; their files do not count."""
    if a is None or b is None:
        yield from presence(_SECTION, a, b)
        return
    if a.definitions != b.definitions:
        yield f"{_SECTION}: the definitions are {a.definitions} against {b.definitions}"
    documents = [forcefield.content for forcefield in (a, b)]
    styles = [{f"{e['category']}.{e['style']}": e for e in document.pop("styles", [])} for document in documents]
    yield from json_differences(_SECTION, *documents)
    for name in sorted({*styles[0], *styles[1]}):
        if name in styles[0] and name in styles[1]:
            yield from json_differences(f"{_SECTION}: the style {name}", styles[0][name], styles[1][name])
        else:
            yield from presence(f"{_SECTION}: the style {name}", styles[0].get(name), styles[1].get(name))
    if styles[0].keys() == styles[1].keys() and list(styles[0]) != list(styles[1]):
        yield f"{_SECTION}: the styles are in another order"
    for name in sorted({*a.tables, *b.tables}):
        here = f"{_SECTION}/{name}"
        if name in a.tables and name in b.tables:
            yield from block_differences(here, a.tables[name], b.tables[name])
        else:
            yield from presence(here, a.tables.get(name), b.tables.get(name))
    for path in sorted({*a.attributes, *b.attributes}):
        yield from json_differences(f"{_SECTION}/{path}", a.attributes.get(path), b.attributes.get(path))


def observable_differences(a: Observables | None, b: Observables | None) -> Iterator[str]:
    """Yield what differs between two records' observables, either of which may have none."""
    if a is None or b is None:
        yield from presence("observables", a, b)
        return
    for name in sorted({*a, *b}):
        node = f"observables/{name}"
        if name not in a or name not in b:
            yield from presence(node, a.get(name), b.get(name))
            continue
        first, second = a[name], b[name]
        yield from json_differences(f"observables/meta/{name}", first.metadata, second.metadata)
        yield from json_differences(node, first.attributes, second.attributes)
        yield from _array_differences(node, first, second)
    for path in sorted({*a.attributes, *b.attributes}):
        node = f"observables/{path}".rstrip("/")
        yield from json_differences(node, a.attributes.get(path), b.attributes.get(path))


def _array_differences(node: str, a: Observable, b: Observable) -> Iterator[str]:
    if a.dtype != b.dtype or a.shape != b.shape:
        yield f"{node}: {a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
        return
    first, second = (values.reshape(1) if not values.ndim else values for values in (a.values, b.values))
    rows = differing_rows(first, second)
    if len(rows):
        row = int(rows[0])
        place, more = ("", "") if not a.shape else (f", row {row}", _more(len(rows), len(first)))
        yield f"{node}{place}: {against(first[row], second[row])}{more}"


def metrics_differences(a: Metrics | None, b: Metrics | None) -> Iterator[str]:
    """Yield what differs between two records' curves, either of which may have none: not which form they are stored
    in.
    """
    if a is None or b is None:
        yield from presence("metrics", a, b)
        return
    for key in sorted({*a, *b}):
        node = f"metrics/{escape_name(key)}"
        if key not in a or key not in b:
            yield from presence(node, a.get(key), b.get(key))
        else:
            yield from _series_differences(node, a[key], b[key])
    catalogs = [{key: value for key, value in m.catalog.items() if key not in ("wal", "series")} for m in (a, b)]
    yield from json_differences("metrics", *catalogs)
    yield from json_differences("metrics.wal", *(_others(m.catalog.get("wal"), _WATERMARK) for m in (a, b)))
    entries = [{key: _others(entry, _DERIVED) for key, entry in m.catalog.get("series", {}).items()} for m in (a, b)]
    for key in sorted({*entries[0], *entries[1]}):
        yield from json_differences(f"metrics.series.{key}", entries[0].get(key), entries[1].get(key))
    yield from _log_differences(a.log, b.log)
    for path in sorted({*a.attributes, *b.attributes}):
        yield from json_differences(f"metrics/{path}", a.attributes.get(path), b.attributes.get(path))


def _series_differences(node: str, a: Series, b: Series) -> Iterator[str]:
    if len(a) != len(b):
        yield f"{node}: {len(a)} values against {len(b)}"
        return
    for name in ("values", "steps", "has_step", "wall_time"):
        first, second = getattr(a, name), getattr(b, name)
        if first is None or second is None:
            yield from presence(f"{node}: {name}", first, second)
            continue
        rows = differing_rows(first, second)
        if len(rows):
            row = int(rows[0])
            yield f"{node}, {name} {row}: {against(first[row], second[row])}{_more(len(rows), len(first))}"


def _log_differences(a: Log | None, b: Log | None) -> Iterator[str]:
    if a is None or b is None:
        yield from presence(LOG, a, b)
        return
    differing = 0
    first_words = ""
    for number, (one, other) in enumerate(zip_longest(_objects(a), _objects(b)), 1):
        if one is None or other is None:
            yield f"{LOG}: goes on in the {'first' if other is None else 'second'} only, from line {number} on"
            break
        if canonical_json(one) != canonical_json(other):
            differing += 1
            first_words = first_words or f"{LOG}, line {number}: {value_text(one)} against {value_text(other)}"
    if differing:
        yield first_words + (f" ({differing} lines differ)" if differing > 1 else "")


def _objects(log: Log) -> Iterator[dict[str, Any]]:
    """Yield the objects of a log's lines; blank lines say nothing."""
    for number, line in enumerate(log_lines(log), 1):
        document = line_object(line, number)
        if document is not None:
            yield document


def _others(entry: Any, derived: tuple[str, ...]) -> dict[str, Any]:
    """Return what a part of a catalog says beside what follows from the series and the log."""
    return {key: value for key, value in entry.items() if key not in derived} if isinstance(entry, dict) else {}


def _more(rows: int, total: int) -> str:
    return f" ({rows} of {total} rows differ)" if rows > 1 else ""
