"""The index of a collection from what the log says of its records: which columns, of which dtypes, a row of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from molrec_convert.migration.index_values import COLUMNS, COUNT_PREFIX, GROUP
from molrec_convert.migration.record_log import LogEntry, parsed_rows
from molrec_convert.migration.settings import Settings
from molrec_convert.model.collection_index import IndexBuilder
from molrec_convert.model.declaration import ColumnDeclaration

__all__ = ["COLUMN_DTYPES", "build_index", "index_spec"]

#: The columns every migrated collection has, and their dtypes.
COLUMN_DTYPES: dict[str, Any] = dict(zip(COLUMNS, ("string", "f64", "string", "u64"), strict=True))


def index_spec(
    entries: Iterable[LogEntry],
    settings: Settings,
    dtypes: Mapping[str, str],
    before: Mapping[str, ColumnDeclaration],
) -> dict[str, Any]:
    """The columns beside a collection's own and their dtypes; None where the values decide.

    `dtypes` are those inputs state, `before` the columns of the collection that is added to. A key whose values are of
    several kinds is a text in all of them.
    """
    keys = [*settings.index, *(name for name in before if not _is_fixed(name) and name not in settings.index)]
    elements: set[str] = set()
    kinds: dict[str, set[type]] = {key: set() for key in keys}
    for _, rows in parsed_rows(entries):
        elements.update(*{tuple(row["elements"]) for row in rows if row["elements"]})
        for key in keys:
            kinds[key].update({type(row["columns"].get(key)) for row in rows} - {NoneType})
    spec = COLUMN_DTYPES | {f"{COUNT_PREFIX}{name}": "u32" for name in sorted(elements)}
    for key in keys:
        mixed = len(kinds[key]) > 1 and kinds[key] != {int, float}
        spec[key] = "string" if mixed else before[key].dtype if key in before else dtypes.get(key)
    if settings.group_by is not None or GROUP in before:
        spec[GROUP] = "string"
    return spec


def build_index(entries: Iterable[LogEntry], spec: Mapping[str, Any]) -> IndexBuilder:
    """A row of each record."""
    builder = IndexBuilder(spec)
    counted = [name for name in spec if name.startswith(COUNT_PREFIX)]
    texts = [name for name, dtype in spec.items() if dtype == "string"]
    for some, rows in parsed_rows(entries):
        columns = {name: [row["columns"].get(name) for row in rows] for name in spec}
        for key in texts:
            columns[key] = [None if value is None else str(value) for value in columns[key]]
        for name in counted:
            symbol = name.removeprefix(COUNT_PREFIX)
            counts = [row["elements"] for row in rows]
            columns[name] = [None if own is None else own.get(symbol, 0) for own in counts]
        builder.extend(
            columns,
            [entry.n_frames for entry in some],
            [entry.n_atoms for entry in some],
            [entry.has_trajectory for entry in some],
        )
    return builder


def _is_fixed(name: str) -> bool:
    return name in COLUMNS or name == GROUP or name.startswith(COUNT_PREFIX)
