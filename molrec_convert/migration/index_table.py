"""The index of a collection from what the log says of its records: which columns, of which dtypes, a row of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from molrec_convert.migration.index_values import COLUMNS, COUNT_PREFIX, GROUP
from molrec_convert.migration.record_log import LogEntry
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
    for entry in entries:
        values = entry.values()
        elements |= set(values["elements"] or ())
        for key in keys:
            value = values["columns"].get(key)
            if value is not None:
                kinds[key].add(type(value))
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
    for entry in entries:
        values = entry.values()
        columns, counts = values["columns"], values["elements"]
        row = {name: columns.get(name) for name in spec}
        for key in texts:
            if row[key] is not None and not isinstance(row[key], str):
                row[key] = str(row[key])
        for name in counted:
            row[name] = None if counts is None else counts.get(name.removeprefix(COUNT_PREFIX), 0)
        builder.add(row, entry.n_frames, entry.n_atoms, entry.has_trajectory)
    return builder


def _is_fixed(name: str) -> bool:
    return name in COLUMNS or name == GROUP or name.startswith(COUNT_PREFIX)
