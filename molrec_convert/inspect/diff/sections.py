"""Differences of force fields, observables and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from molrec_convert.inspect.diff.frames import block_differences
from molrec_convert.inspect.diff.values import against, differing_rows, json_differences, presence, value_text
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.names import escape_name
from molrec_convert.model.results.events import LOG, Log, line_object, log_lines
from molrec_convert.model.results.metrics import Metrics, Series
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.model.tags import canonical_json

__all__ = ["forcefield_differences", "metrics_differences", "observable_differences"]

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
    """What differs between two records' observables, either of which may have none."""
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
    """What differs between two records' curves, either of which may have none: not which form they are stored in."""
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
    """The objects of a log's lines; blank lines say nothing."""
    for number, line in enumerate(log_lines(log), 1):
        document = line_object(line, number)
        if document is not None:
            yield document


def _others(entry: Any, derived: tuple[str, ...]) -> dict[str, Any]:
    """What a part of a catalog says beside what follows from the series and the log."""
    return {key: value for key, value in entry.items() if key not in derived} if isinstance(entry, dict) else {}


def _more(rows: int, total: int) -> str:
    return f" ({rows} of {total} rows differ)" if rows > 1 else ""
