"""The index of a collection from what the log says of its records: which columns, of which dtypes, a row of each."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from molrec_convert.migration.outputs.index_columns import COUNT_DTYPE, ElementCounts, TypedColumn, as_texts
from molrec_convert.migration.outputs.index_values import COLUMNS, COUNT_PREFIX, GROUP
from molrec_convert.migration.outputs.record_log import LogRows, RecordLog
from molrec_convert.migration.settings import Settings
from molrec_convert.model.collection.index import IndexBuilder
from molrec_convert.model.declaration import ColumnDeclaration
from molrec_convert.model.frame import Block, Column

__all__ = ["build_index", "build_plain_index", "count_columns", "keys_without_value"]

#: The columns every migrated collection has, and their dtypes.
COLUMN_DTYPES: dict[str, str] = dict(zip(COLUMNS, ("string", "f64", "string", "u64"), strict=True))


def build_index(
    log: RecordLog, settings: Settings, dtypes: Mapping[str, str], before: Mapping[str, ColumnDeclaration]
) -> Block:
    """The index with a row of each record: a collection's own columns, counts of elements, keys that are asked for.

    `dtypes` are those inputs state, `before` the columns of the collection that is added to; else the values decide. A
    key whose values are of several kinds is a text in all of them. The log is read once.
    """
    counts = count_columns(before, settings)
    fixed = {*COLUMNS, GROUP, *counts, *settings.index}
    keys = [*settings.index, *(name for name in before if name not in fixed)]
    texts = [GROUP] if settings.group_by is not None or GROUP in before else []
    table = _Table(dict.fromkeys(texts, "string"), keys)
    for rows in log.rows():
        table.add(rows)
    columns: dict[str, Column | list[Any]] = dict(table.elements.columns())
    spec: dict[str, Any] = COLUMN_DTYPES | dict.fromkeys(columns, COUNT_DTYPE)
    for key, values in table.keyed.items():
        kinds = table.kinds[key]
        mixed = len(kinds) > 1 and kinds != {int, float}
        spec[key] = "string" if mixed else before[key].dtype if key in before else dtypes.get(key)
        columns[key] = as_texts(values) if spec[key] == "string" else values
    return table.block(spec | dict.fromkeys(texts, "string"), columns)


def build_plain_index(log: RecordLog) -> Block:
    """The index of a partial collection: a collection's own columns alone."""
    table = _Table({}, [])
    for rows in log.rows():
        table.add(rows)
    return table.block(COLUMN_DTYPES, {})


def count_columns(before: Mapping[str, ColumnDeclaration], settings: Settings) -> set[str]:
    """The columns of a collection that are counts of elements, and not keys somebody asked for or asks for now."""
    is_count = (
        name for name, column in before.items() if name.startswith(COUNT_PREFIX) and column.dtype == COUNT_DTYPE
    )
    return {*is_count} - {*settings.index}


def keys_without_value(index: Block, settings: Settings) -> list[str]:
    """The keys that were asked for and are null in every record."""
    masks = {name: index.columns[name].validity for name in settings.index}
    return [name for name, mask in masks.items() if mask is not None and not mask.any()]


class _Table:
    """Columns that are gathered: those of a known dtype, counts of elements, and keys whose values decide."""

    def __init__(self, texts: dict[str, str], keys: Iterable[str]) -> None:
        self.typed = {name: TypedColumn(dtype) for name, dtype in (COLUMN_DTYPES | texts).items()}
        self.elements = ElementCounts()
        self.keyed: dict[str, list[Any]] = {key: [] for key in keys}
        #: Types of the values of each key.
        self.kinds: dict[str, set[type]] = {key: set() for key in self.keyed}
        self._n_frames, self._n_atoms = array("Q"), array("Q")
        self._has_trajectory = bytearray()

    def add(self, rows: LogRows) -> None:
        """Some more records; their texts are parsed together."""
        documents = json.loads(b"[" + b",".join(rows.texts) + b"]")
        columns = [document["columns"] for document in documents]
        for name, column in self.typed.items():
            column.add([values.get(name) for values in columns])
        for key, every in self.keyed.items():
            values = [values.get(key) for values in columns]
            self.kinds[key].update(set(map(type, values)) - {NoneType})
            every += values
        self.elements.add([document["elements"] for document in documents])
        self._n_frames.extend(rows.n_frames)
        self._n_atoms.extend(rows.n_atoms)
        self._has_trajectory.extend(rows.has_trajectory)

    def block(self, spec: Mapping[str, Any], columns: Mapping[str, Column | list[Any]]) -> Block:
        """The index of columns and their dtypes; `columns` are those that are not of a known dtype."""
        known = {name: column.column() for name, column in self.typed.items()}
        return IndexBuilder(spec).block_of({**known, **columns}, self._n_frames, self._n_atoms, self._has_trajectory)
