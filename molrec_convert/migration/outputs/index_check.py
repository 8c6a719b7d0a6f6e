"""The index of a collection held against what a migration would write there for each record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from molrec_convert.migration.outputs.index_values import COLUMNS, COUNT_PREFIX, Observed, index_value, observe
from molrec_convert.migration.settings import Settings
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.index import derived_value, index_rows
from molrec_convert.model.collection.member import member_rows
from molrec_convert.model.record import Record

__all__ = ["IndexCheck"]

_OWN = ("n_frames", "n_atoms", "has_trajectory")


class IndexCheck:
    """Works out the index row of a record again and compares. What it cannot work out is told to `note`, once each."""

    def __init__(self, collection: Collection, settings: Settings, note: Callable[[str], None]) -> None:
        self._collection, self._settings, self._note = collection, settings, note
        self._is_migrated = all(name in collection.index_columns for name in COLUMNS)
        self._dtypes = {name: column.dtype for name, column in collection.index_columns.items() if not column.trailing}

    def differences(
        self, number: int, record: Record, own: Mapping[str, Any], path: str, ordinal: int
    ) -> Iterator[str]:
        """What the index says otherwise of record `number`, which is to be `record`.

        `own` is what the index of its source says of it.
        """
        observed = Observed()
        frames, atoms = self._watch(record, observed)
        index = self._collection.index
        counts = frames, member_rows(record, atoms), record.trajectory is not None
        for name, value in zip(_OWN, counts, strict=True):
            there = index[name][number].item()
            if there != value:
                yield f"index/{name}: {there}, not {value}"
        row = next(index_rows(index, number, number + 1))
        for name, value in self._expected(record, observed, own, path, ordinal).items():
            if name not in row:
                yield f"index/{name}: there is no such column, and the source says {value!r}"
            elif not _same(row[name], value):
                yield f"index/{name}: {row[name]!r}, not {value!r}"

    def _watch(self, record: Record, observed: Observed) -> tuple[int, int | None]:
        """Frames of the record, and the atoms of the first update."""
        if record.trajectory is None:
            return 0, None
        frames, atoms = 0, None
        for batch in observe(record.trajectory, observed).batches():
            frames += batch.n_frames
            updates = batch.blocks.get("atoms")
            if atoms is None and updates is not None and len(updates.frames):
                atoms = int(updates.offset[1])
        return frames, atoms

    def _expected(
        self, record: Record, observed: Observed, own: Mapping[str, Any], path: str, ordinal: int
    ) -> dict[str, Any]:
        """Column → value, of those that can be told."""
        found: dict[str, Any] = {}
        if self._is_migrated:
            made = index_value(record, observed, own, path, ordinal, self._settings)
            found = {name: self._typed(name, value) for name, value in made["columns"].items() if name != "source"}
            elements = made["elements"]
            for name in self._dtypes:
                if name.startswith(COUNT_PREFIX) and name not in own and name not in self._settings.index:
                    symbol = name.removeprefix(COUNT_PREFIX)
                    found[name] = None if elements is None else elements.get(symbol, 0)
            for symbol, count in (elements or {}).items():
                found.setdefault(f"{COUNT_PREFIX}{symbol}", count)
        for name in self._dtypes:
            if name in found or name == "source":
                continue
            value = own[name] if name in own else derived_value(record, name)
            if value is None and name not in own:
                self._note(f"the index column {name} cannot be told from the sources: not compared")
                continue
            found[name] = self._typed(name, value)
        return found

    def _typed(self, name: str, value: Any) -> Any:
        """A value as its column holds it: a column of values of several kinds is one of texts."""
        if self._dtypes.get(name) == "string" and value is not None and not isinstance(value, str):
            return str(value)
        return value


def _same(there: Any, value: Any) -> bool:
    if isinstance(there, float) and isinstance(value, (int, float)):
        return there == value or (there != there and value != value)
    return bool(there == value)
