"""Logical differences of two collections, one line each: what they say of themselves, the index, record by record.

Records are compared by their numbers, as their keys are: a record that moved is another one. Not compared are pages,
the order of keys in headers, and what the index repeats of the records.
Source: Collection and its LMDB file; Record, "What a conversion stamps".
"""

from __future__ import annotations

from collections.abc import Iterator

from molrec_convert.inspect.diff.frames import column_differences
from molrec_convert.inspect.diff.records import differences
from molrec_convert.inspect.diff.sections import forcefield_differences
from molrec_convert.inspect.diff.trajectories import declaration_differences
from molrec_convert.inspect.diff.values import against, json_differences, presence
from molrec_convert.model.collection.collection import Collection

__all__ = ["collection_differences"]

#: Keys of the document that say how a collection came about.
_PROVENANCE = ("creator", "created_at")


def collection_differences(a: Collection, b: Collection) -> Iterator[str]:
    """What differs, line by line, found as it is asked for; nothing when the collections are equal."""
    documents = [{key: value for key, value in c.document.items() if key not in _PROVENANCE} for c in (a, b)]
    units = [document.pop("units", {}) for document in documents]
    yield from json_differences("collection", *documents)
    yield from json_differences("collection.units", *units)
    yield from json_differences("collection: meta", dict(a.extra), dict(b.extra))
    yield from declaration_differences(a.declaration, b.declaration)
    yield from forcefield_differences(a.forcefield, b.forcefield)
    yield from _unknown_differences(a, b)
    if len(a) != len(b):
        yield f"collection: {len(a)} records against {len(b)}"
    yield from _index_differences(a, b)
    for number in range(min(len(a), len(b))):
        if not a.same_values(number, b, number):
            yield from (f"record {number}: {line}" for line in differences(a[number], b[number], declared=False))


def _index_differences(a: Collection, b: Collection) -> Iterator[str]:
    """Differences of the columns beside those every collection has; those follow from the records."""
    first, second = a.index_columns, b.index_columns
    for name in sorted({*first, *second}):
        node = f"index/{name}"
        if name not in first or name not in second:
            yield from presence(node, first.get(name), second.get(name))
        elif len(a) == len(b):
            yield from column_differences(node, a.index.columns[name], b.index.columns[name])
        elif first[name].dtype != second[name].dtype:
            yield f"{node}: the dtype is {against(first[name].dtype, second[name].dtype)}"


def _unknown_differences(a: Collection, b: Collection) -> Iterator[str]:
    first, second = dict(a.unknown_values()), dict(b.unknown_values())
    for key in sorted({*first, *second}):
        node = f"key {key.decode('utf-8', 'backslashreplace')}"
        if key not in first or key not in second:
            yield from presence(node, first.get(key), second.get(key))
        elif first[key] != second[key]:
            yield f"{node}: the values differ"
