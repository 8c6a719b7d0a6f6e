"""The index of a migrated collection: formula, counts of elements, energy, where each record is from, keys asked for.

Columns are gathered some records at a time, typed as they come: they take the memory the index takes.
"""

from __future__ import annotations

import functools
import itertools
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.migration.outputs.files import LogRows, RecordLog
from molrec_convert.migration.settings import Settings
from molrec_convert.model import FrameBatch, Record, Trajectory
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.index import INDEX_COLUMNS, IndexBuilder, derived_value, index_rows
from molrec_convert.model.collection.member import member_rows
from molrec_convert.model.declaration import ColumnDeclaration
from molrec_convert.model.dtypes import empty, plain_values
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.trajectory import MappedTrajectory, MemoryTrajectory
from molrec_convert.quantities.elements import SYMBOLS

__all__ = [
    "COUNT_PREFIX",
    "ENERGIES",
    "GROUP",
    "ElementCounts",
    "IndexCheck",
    "Observed",
    "TypedColumn",
    "as_texts",
    "build_index",
    "build_plain_index",
    "count_columns",
    "energy_of",
    "formula",
    "index_value",
    "keys_without_value",
    "observe",
]

#: Columns every migrated collection has.
COLUMNS = ("formula", "energy", "source", "source_record")
#: The column of `--group-by`, and what the number of atoms of an element is called.
GROUP, COUNT_PREFIX = "molecule_id", "n_"
#: Per-step keys that are the energy, the first that there is.
ENERGIES = ("pe", "energy")


class Observed:
    """What is seen of the frames of one record on their way: the first elements, the last per-step values."""

    def __init__(self) -> None:
        self.elements: list[str] | None = None
        self.last: dict[str, Any] = {}

    def see(self, batch: FrameBatch) -> None:
        """Look at a batch."""
        if self.elements is None and "atoms" in batch.blocks and len(batch.blocks["atoms"].frames):
            updates = batch.blocks["atoms"]
            rows = updates.rows_of(0)
            self.elements = _elements({key: values[rows] for key, values in updates.columns.items()})
        if batch.n_frames:
            self.last = {key: values[-1] for key, values in batch.meta.items()}


def observe(trajectory: Trajectory, observed: Observed) -> Trajectory:
    """Return the trajectory, whose batches `observed` sees as they pass. Of one frame it is one in memory
    afterwards.
    """
    if type(trajectory) is not MemoryTrajectory and trajectory.n_frames == 1 and not trajectory.attributes:
        batches = list(trajectory.batches())
        if len(batches) == 1:
            trajectory = MemoryTrajectory.of_batch(
                batches[0], trajectory.declaration, cell_defined=trajectory.cell_defined
            )
    if type(trajectory) is MemoryTrajectory:
        observed.see(trajectory._batch)
        return trajectory

    def watched(batch: FrameBatch) -> FrameBatch:
        observed.see(batch)
        return batch

    return MappedTrajectory(trajectory, watched)


def index_value(
    record: Record, observed: Observed, own: Mapping[str, Any], source: str, number: int, settings: Settings
) -> dict[str, Any]:
    """Return one record's row as a document: `columns` by name, and `elements` with the number of each, None if
    unknown.
    """
    system = record.system
    elements = None
    if system is not None and "atoms" in system.blocks:
        block = system.blocks["atoms"]
        elements = _elements({key: block.stored(key) for key in ("element", "atomic_number") if key in block.columns})
    counts = _counted(observed.elements if elements is None else elements)
    columns: dict[str, Any] = {
        "formula": None if counts is None else _formula(tuple(counts.items())),
        "energy": energy_of(observed.last),
        "source": source,
        "source_record": number,
    }
    for key in settings.index:
        value = _plain(key, _value(key, record, observed, own, columns))
        columns[key] = _count(key, counts) if value is None else value
    if settings.group_by is not None:
        value = _value(settings.group_by, record, observed, own, columns)
        if value is None:
            why = ""
            if settings.group_by in settings.drop:
                why = ", as --drop leaves it out"
            elif settings.group_by == "formula":
                why = ", as its elements are not known (see --elements)"
            rule = "--group-by names a key the record does not have"
            raise ContractError(f"index/{GROUP}", rule, found=f"no {settings.group_by}{why}")
        columns[GROUP] = str(_plain(settings.group_by, value))
    return {"columns": columns, "elements": counts}


def energy_of(values: Mapping[str, Any]) -> float | None:
    """Return the energy among per-step values."""
    energy = next((values[key] for key in ENERGIES if key in values), None)
    return None if energy is None or not np.isreal(energy) else float(energy)


def formula(counts: Mapping[str, int]) -> str:
    """Return the formula in Hill's order: carbon, hydrogen, the others by name; all by name without carbon."""
    first = [name for name in ("C", "H") if name in counts] if "C" in counts else []
    names = [*first, *sorted(name for name in counts if name not in first)]
    return "".join(f"{name}{counts[name] if counts[name] > 1 else ''}" for name in names)


@functools.lru_cache(4096)
def _formula(counts: tuple[tuple[str, int], ...]) -> str:
    return formula(dict(counts))


def check_index_names(settings: Settings) -> Iterator[str]:
    """Return names of index columns that are asked for and there anyway."""
    taken = {*INDEX_COLUMNS, *COLUMNS, GROUP}
    return (name for name in settings.index if name in taken)


def _value(key: str, record: Record, observed: Observed, own: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
    """Return what a record says under a key: in its source's index, per step (the last frame), in the meta of its
    system.
    """
    if key in own:
        return own[key]
    if key in observed.last:
        return observed.last[key]
    found = derived_value(record, key)
    if found is None and key == "directory":
        return str(columns["source"]).rpartition("/")[0] or "."
    return columns.get(key) if found is None else found


def _count(key: str, counts: Mapping[str, int] | None) -> int | None:
    """Return what a column of that name is where the record says nothing of its own under it: the number of an
    element.
    """
    symbol = key.removeprefix(COUNT_PREFIX)
    if counts is None or symbol == key:
        return None
    return counts.get(symbol, 0 if symbol in SYMBOLS else None)


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ContractError(f"index/{key}", "an index column holds one plain value per record", found=type(value).__name__)


def _elements(columns: Mapping[str, Any]) -> list[str] | None:
    if "element" in columns:
        names: list[str] = columns["element"].tolist()
        return names
    if "atomic_number" in columns:
        numbers = columns["atomic_number"].tolist()
        if all(0 <= number < len(SYMBOLS) for number in numbers):
            return [SYMBOLS[number] for number in numbers]
    return None


def _counted(elements: list[str] | None) -> dict[str, int] | None:
    if elements is None:
        return None
    counts = dict(Counter(elements))
    return counts if all(map(str.isalpha, counts)) else None


#: The dtype of the number of atoms of an element.
COUNT_DTYPE = "u32"


def as_texts(values: list[Any]) -> list[str | None]:
    """Return values as a column of texts has them."""
    if set(map(type, values)) <= {str, NoneType}:
        return values
    return [None if value is None else str(value) for value in values]


class TypedColumn:
    """Values of one column whose dtype is known."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        #: Values of some records: typed, with a mask where there are nulls; as they came where they are not plain.
        self._pieces: list[tuple[NDArray[Any], NDArray[np.bool_] | None] | list[Any]] = []

    def add(self, values: list[Any]) -> None:
        """Values of some more records, None for a null."""
        if not values:
            return
        if self._dtype == "string":
            values = as_texts(values)
        typed = plain_values(values, self._dtype)
        mask = None
        if typed is None and None in values:
            mask = np.array([value is not None for value in values])
            known = [value for value in values if value is not None]
            found = plain_values(known, self._dtype)
            if found is not None or not known:
                typed = empty(self._dtype, (len(values),))
                typed[mask] = found if known else []
        self._pieces.append(values if typed is None else (typed, mask))

    def column(self) -> Column | list[Any]:
        """Return the column; its values where some of them are not plain, and are to be looked at together."""
        typed = [piece for piece in self._pieces if isinstance(piece, tuple)]
        if len(typed) < len(self._pieces):
            return list(itertools.chain.from_iterable(map(_values, self._pieces)))
        if not typed:
            return Column(empty(self._dtype, (0,)))
        return Column(np.concatenate([values for values, _ in typed]), _joined_masks(typed))


class ElementCounts:
    """The number of atoms of each element, of records which mostly have one of few tables of them."""

    def __init__(self) -> None:
        #: Elements in the order they turn up, and their places in the tables.
        self._places: dict[str, int] = {}
        #: Of some records: the tables (a row each, a column per element so far), which of them each has, and a mask
        #: where elements are not known.
        self._pieces: list[tuple[NDArray[Any], NDArray[np.uint32], NDArray[np.bool_] | None]] = []

    def add(self, tables: list[dict[str, Any] | None]) -> None:
        """Tables of some more records, None where elements are not known."""
        keys = [None if table is None else tuple(table.items()) for table in tables]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        of = np.fromiter(map(numbers.__getitem__, keys), np.uint32, len(keys))
        sizes = [0 if key is None else len(key) for key in numbers]
        names = [name for key in numbers if key is not None for name, _ in key]
        values = [value for key in numbers if key is not None for _, value in key]
        for name in dict.fromkeys(names):
            self._places.setdefault(name, len(self._places))
        places = np.fromiter(map(self._places.__getitem__, names), np.intp, len(names))
        counts = plain_values(values, COUNT_DTYPE)
        rows = np.zeros((len(numbers), len(self._places)), np.uint32 if counts is not None or not values else object)
        rows[np.repeat(np.arange(len(numbers)), sizes), places] = values if counts is None else counts
        self._pieces.append((rows, of, of != numbers[None] if None in numbers else None))

    def columns(self) -> Iterator[tuple[str, Column | list[Any]]]:
        """Yield names of columns, by element, and the columns; values where some of them are not plain."""
        for name in sorted(self._places):
            pieces = [(_counts_of(rows, self._places[name])[of], mask) for rows, of, mask in self._pieces]
            if any(values.dtype == np.object_ for values, _ in pieces):
                yield COUNT_PREFIX + name, list(itertools.chain.from_iterable(map(_values, pieces)))
            else:
                yield (
                    COUNT_PREFIX + name,
                    Column(np.concatenate([values for values, _ in pieces]), _joined_masks(pieces)),
                )


def _counts_of(rows: NDArray[Any], place: int) -> NDArray[Any]:
    """Return the counts of one element in the tables; none of those that turned up later."""
    return rows[:, place] if place < rows.shape[1] else np.zeros(len(rows), np.uint32)


def _values(piece: tuple[NDArray[Any], NDArray[np.bool_] | None] | list[Any]) -> list[Any]:
    if isinstance(piece, list):
        return piece
    values, mask = piece
    plain: list[Any] = values.tolist()
    return plain if mask is None else [v if there else None for v, there in zip(plain, mask.tolist(), strict=True)]


def _joined_masks(pieces: list[tuple[NDArray[Any], NDArray[np.bool_] | None]]) -> NDArray[np.bool_] | None:
    if all(mask is None for _, mask in pieces):
        return None
    return np.concatenate([np.ones(len(values), np.bool_) if mask is None else mask for values, mask in pieces])


#: The columns every migrated collection has, and their dtypes.
COLUMN_DTYPES: dict[str, str] = dict(zip(COLUMNS, ("string", "f64", "string", "u64"), strict=True))


def build_index(
    log: RecordLog, settings: Settings, dtypes: Mapping[str, str], before: Mapping[str, ColumnDeclaration]
) -> Block:
    """Return the index with a row of each record: a collection's own columns, counts of elements, keys that are asked
    for.

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
    """Return the index of a partial collection: a collection's own columns alone."""
    table = _Table({}, [])
    for rows in log.rows():
        table.add(rows)
    return table.block(COLUMN_DTYPES, {})


def count_columns(before: Mapping[str, ColumnDeclaration], settings: Settings) -> set[str]:
    """Return the columns of a collection that are counts of elements, and not keys somebody asked for or asks for
    now.
    """
    is_count = (
        name for name, column in before.items() if name.startswith(COUNT_PREFIX) and column.dtype == COUNT_DTYPE
    )
    return {*is_count} - {*settings.index}


def keys_without_value(index: Block, settings: Settings) -> list[str]:
    """Return the keys that were asked for and are null in every record."""
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
        """Return the index of columns and their dtypes; `columns` are those that are not of a known dtype."""
        known = {name: column.column() for name, column in self.typed.items()}
        return IndexBuilder(spec).block_of({**known, **columns}, self._n_frames, self._n_atoms, self._has_trajectory)


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
        """Yield what the index says otherwise of record `number`, which is to be `record`.

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
        """Return frames of the record, and the atoms of the first update."""
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
        """Return column → value, of those that can be told."""
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
        """Return a value as its column holds it: a column of values of several kinds is one of texts."""
        if self._dtypes.get(name) == "string" and value is not None and not isinstance(value, str):
            return str(value)
        return value


def _same(there: Any, value: Any) -> bool:
    if isinstance(there, float) and isinstance(value, (int, float)):
        return there == value or (there != there and value != value)
    return bool(there == value)
