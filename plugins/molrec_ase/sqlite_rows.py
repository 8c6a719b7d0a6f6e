"""Rows of a database in SQLite, read from its tables: whole batches of blobs at once.

No object is made per row. Source of the layout: `ase.db.sqlite`, schema versions 5 to 9.
"""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from molrec_ase.beside import put_back
from molrec_ase.chunk import Chunk, join_parts, split_chunk
from molrec_ase.elements import SYMBOL_ARRAY, SYMBOLS
from molrec_ase.names import ARRAYS, CONSTRAINTS, RESULTS, VECTORS
from molrec_ase.parts import table_masses, velocities
from molrec_ase.source import Source
from molrec_ase.sqlite_facts import TEXTS, facts_of, free_of, parsed, text_rows
from molrec_ase.sqlite_survey import BLOBS, REALS, Table, look_at
from molrec_convert.errors import FormatError
from molrec_convert.formats import NoProgress, Progress
from molrec_convert.model.tags import from_typed_json

__all__ = ["SqliteRows", "connect", "is_database"]

#: A database of no more bytes is read once and held while it is open: less than a batch of frames.
_HELD = 2**25
#: Rows, and atoms of them, that are read at once.
_ROWS, _ATOMS = 4096, 2**18
#: What is said of each row: column → key.
_ROW_COLUMNS = {"id": "id", "unique_id": "unique_id", "ctime": "ctime", "mtime": "mtime", "username": "user"}
_ROW_TAGS = {"id": "i64", "unique_id": "string", "ctime": "f64", "mtime": "f64", "username": "string"}
_COLUMNS = (*_ROW_COLUMNS, *TEXTS[1:], "pbc", "numbers", "tags", *REALS, *BLOBS)


class SqliteRows(Source):
    """The rows of a database, in the order of their ids."""

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self._path, self.path = path, str(path)
        self._progress = NoProgress() if progress is None else progress
        self._connection = connect(path)
        try:
            self.metadata = _check_version(self._connection, path)
            self.table: Table = look_at(self._connection, path)
            self._tables = _external(self._connection, path)
            self._held = self._hold() if path.stat().st_size <= _HELD else None
            self.survey = facts_of(self)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise FormatError(path, found=f"a damaged database ({error})", expected="a database of ASE") from None
        except BaseException:
            self._connection.close()
            raise

    def chunks(self, numbers: Sequence[int], *, numbered: bool = False) -> Iterator[Chunk]:
        """See `Source.chunks`."""
        self._progress.start("rows", len(numbers))
        for group in self._groups(numbers):
            try:
                yield self.chunk(group, numbered=numbered)
            except sqlite3.DatabaseError as error:
                raise FormatError(self._path, found=f"a damaged database ({error})") from None
            self._progress.advance(len(group))

    def every_text(self) -> Iterator[tuple[Any, ...]]:
        """The columns of text of every row, `TEXTS`."""
        if self._held is None:
            return iter(self._connection.execute(f"SELECT {', '.join(TEXTS)} FROM systems ORDER BY id"))
        return map(operator.itemgetter(*(_COLUMNS.index(name) for name in TEXTS)), self._held)

    def row_keys(self) -> dict[str, tuple[str, int, bool, Any]]:
        """What is said of rows: key → tag, in how many, whether the same in all, the first."""
        columns = list(_ROW_COLUMNS)
        asked = ", ".join(f"count({name}), min({name}) IS max({name}), min({name})" for name in columns)
        (found,) = self._connection.execute(f"SELECT {asked} FROM systems")
        return {
            _ROW_COLUMNS[name]: (_ROW_TAGS[name], found[3 * at], bool(found[3 * at + 1]), found[3 * at + 2])
            for at, name in enumerate(columns)
            if found[3 * at]
        }

    def values(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """See `Source.values`."""
        wanted = set(names)
        owners = self._connection.execute(f"SELECT {', '.join(_ROW_COLUMNS)} FROM systems ORDER BY id").fetchall()
        keys = list(_ROW_COLUMNS.values())
        made = text_rows(self._path, list(self.every_text()), {})
        for owner, (values, beside) in zip(owners, made, strict=True):
            values.update((key, value) for key, value in zip(keys, owner, strict=True) if value is not None)
            for name in () if beside is None else beside.get("without", ()):
                values.pop(name, None)
            for name, (tag, document) in ({} if beside is None else beside.get("keys", {})).items():
                values[name] = from_typed_json(document, tag, name)
            yield {key: value for key, value in values.items() if key in wanted}

    def constant(self, names: Sequence[str]) -> dict[str, bool]:
        """Whether columns hold one and the same value in every row."""
        asked = ", ".join(f"min({name}) IS max({name})" for name in names)
        (found,) = self._connection.execute(f"SELECT {asked} FROM systems")
        return {name: bool(flag) for name, flag in zip(names, found, strict=True)}

    def any_cell(self) -> bool:
        """Whether a row has a cell, or is periodic."""
        query = "SELECT EXISTS(SELECT 1 FROM systems WHERE pbc != 0 OR cell != zeroblob(72))"
        return bool(self._connection.execute(query).fetchone()[0])

    def strange_rows(self) -> int:
        """How many rows have an atomic number that is no element's."""
        found, row = 0, 0
        cursor = self._connection.execute("SELECT numbers FROM systems ORDER BY id")
        while blobs := cursor.fetchmany(_ROWS):
            kinds = np.frombuffer(b"".join(blob for (blob,) in blobs), "<i4")
            strange = (kinds < 1) | (kinds >= len(SYMBOLS))
            if strange.any():
                owner = np.repeat(np.arange(len(blobs)), self.table.counts[row : row + len(blobs)])
                found += len(np.unique(owner[strange]))
            row += len(blobs)
        return found

    @property
    def has_external(self) -> bool:
        """Whether other tables say anything of rows."""
        return bool(self._tables)

    def external(self, number: int) -> dict[str, dict[str, Any]]:
        """What other tables say of a row, by its id."""
        return {name: rows[number] for name, rows in self._tables.items() if number in rows}

    def chunk(self, numbers: NDArray[np.int64], *, numbered: bool = False) -> Chunk:
        """Some rows; `numbered` as in `Source.chunks`."""
        rows = self._fetch(numbers)
        entry: dict[str, tuple[Any, ...]] = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
        counts = self.table.counts[numbers]
        k = len(numbers)
        chunk = Chunk(
            counts, {}, {}, {}, np.zeros((k, 3, 3)), np.zeros((k, 3)), np.zeros((k, 3), np.bool_), [{}] * k,
            [None] * k, [None] * k, [frozenset()] * k,
        )  # fmt: skip
        kinds = np.frombuffer(b"".join(entry["numbers"]), "<i4")
        if numbered and _are_elements(kinds):
            chunk.numbers = kinds
        elif "element" not in self.unwanted:
            self._put_species(chunk, kinds)
        for name in self.table.blobs:
            self._put_blob(chunk, name, entry[name], numbers)
        if "momenta" in chunk.columns:
            self._put_velocities(chunk, kinds)
        if self.table.tags[numbers].any():
            there = self.table.tags[numbers]
            chunk.columns["tags"] = _spread(entry["tags"], there, counts, "<i4", 1).astype(np.int64)
            if not there.all():
                chunk.present["tags"] = there
        bits = np.array(self._made("pbc", entry, lambda value: int(value or 0)), np.int64)
        chunk.boundary = (bits[:, None] & np.array([1, 2, 4])) != 0
        for name in REALS:
            if self.table.reals[name][numbers].any():
                chunk.values[RESULTS[name]] = self._made(name, entry, lambda v: None if v is None else float(v))
        return self._with_texts(chunk, entry)

    def _made(self, name: str, entry: dict[str, tuple[Any, ...]], make: Callable[[Any], Any]) -> list[Any]:
        """The values of a column, each made a number; SQLite keeps anything in any."""
        made = []
        try:
            for value in entry[name]:
                made.append(make(value))
        except (ValueError, TypeError, OverflowError):
            row = len(made)
            where = f"row id {entry['id'][row]}"
            raise FormatError(
                self._path, where, found=f"{name} of {entry[name][row]!r}"[:80], expected="a number"
            ) from None
        return made

    def _with_texts(self, chunk: Chunk, entry: dict[str, tuple[Any, ...]]) -> Chunk:
        """The chunk with what stands in the columns of text, and beside."""
        cache: dict[Any, Any] = {}
        besides: list[dict[str, Any] | None] = []
        for column, key in _ROW_COLUMNS.items():
            if any(value is not None for value in entry[column]):
                chunk.values[key] = list(entry[column])
        known, size = chunk.values, len(chunk)
        rows = list(zip(*(entry[name] for name in TEXTS), strict=True))
        made = text_rows(self._path, rows, cache, self.external if self.has_external else None)
        for number, (values, beside) in enumerate(made):
            for key, value in values.items():
                column_values = known.get(key)
                if column_values is None:
                    column_values = known[key] = [None] * size
                column_values[number] = value
            besides.append(beside)
        if CONSTRAINTS in chunk.values:
            self._put_free(chunk, entry["constraints"], cache)
        if not any(besides):
            return chunk
        parts = split_chunk(chunk.with_elements())
        for number, beside in enumerate(besides):
            if beside is not None:
                parts[number] = put_back(parts[number], beside)
        return join_parts(parts)

    def _put_free(self, chunk: Chunk, texts: tuple[Any, ...], cache: dict[Any, Any]) -> None:
        flags = [
            free_of(self._path, text, int(count), cache) if text else None
            for text, count in zip(texts, chunk.counts.tolist(), strict=True)
        ]
        there = np.array([flag is not None for flag in flags])
        if there.any():
            blank = [np.ones(count, np.bool_) for count in chunk.counts.tolist()]
            chunk.columns["free"] = np.concatenate(
                [other if flag is None else flag for flag, other in zip(flags, blank, strict=True)]
            )
            if not there.all():
                chunk.present["free"] = there

    def _fetch(self, numbers: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        ids = self.table.ids[numbers]
        if self._held is not None:
            return [self._held[number] for number in numbers.tolist()]
        query = f"SELECT {', '.join(_COLUMNS)} FROM systems WHERE id BETWEEN ? AND ? ORDER BY id"
        span = int(np.searchsorted(self.table.ids, ids[-1])) - int(np.searchsorted(self.table.ids, ids[0])) + 1
        if span == len(ids):
            rows = self._connection.execute(query, (int(ids[0]), int(ids[-1]))).fetchall()
        else:
            rows = [self._connection.execute(query, (row, row)).fetchone() for row in ids.tolist()]
        if len(rows) != len(ids) or any(row is None for row in rows):
            raise FormatError(self._path, found="other rows than a moment ago", expected="a database nobody writes to")
        return rows

    def _hold(self) -> list[tuple[Any, ...]]:
        rows = self._connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM systems ORDER BY id").fetchall()
        if len(rows) != len(self.table.ids):
            raise FormatError(self._path, found="other rows than a moment ago", expected="a database nobody writes to")
        return rows

    def _groups(self, numbers: Sequence[int]) -> Iterator[NDArray[np.int64]]:
        every = np.asarray(numbers, np.int64)
        start = 0
        ends = np.cumsum(self.table.counts[every]) if len(every) else every
        while start < len(every):
            done = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, done + _ATOMS, side="right")), start + 1)
            stop = min(stop, start + _ROWS)
            yield every[start:stop]
            start = stop

    def _put_species(self, chunk: Chunk, kinds: NDArray[np.int32]) -> None:
        if _are_elements(kinds):
            chunk.columns["element"] = SYMBOL_ARRAY[kinds]
            return
        if int(kinds.min()) < 0:
            raise FormatError(self._path, found=f"the atomic number {int(kinds.min())}", expected="0 or more")
        strange = (kinds < 1) | (kinds >= len(SYMBOLS))
        odd = np.array([bool(part.any()) for part in np.split(strange, np.cumsum(chunk.counts)[:-1])])
        chunk.columns["element"] = SYMBOL_ARRAY[np.where(strange, 0, kinds)]
        chunk.columns["atomic_number"] = kinds.astype(np.uint64)
        chunk.present["element"], chunk.present["atomic_number"] = ~odd, odd
        if odd.all():
            del chunk.columns["element"], chunk.present["element"], chunk.present["atomic_number"]

    def _put_blob(self, chunk: Chunk, name: str, blobs: tuple[Any, ...], numbers: NDArray[np.int64]) -> None:
        facts = self.table.blobs[name]
        there, single = facts.there[numbers], facts.single[numbers]
        if not there.any():
            return
        if single.any():
            blobs = tuple(
                np.frombuffer(blob, "<f4").astype("<f8").tobytes() if one else blob
                for blob, one in zip(blobs, single.tolist(), strict=True)
            )
        per_atom = bool(BLOBS[name][0])
        counts = chunk.counts if per_atom else np.ones(len(chunk), np.int64)
        values = _spread(blobs, there, counts, "<f8", facts.width)
        if name == "cell":
            chunk.vectors = values.reshape(-1, 3, 3).transpose(0, 2, 1).copy()
        elif not per_atom:
            own = list(values)
            chunk.values[RESULTS[name]] = [row if flag else None for row, flag in zip(own, there.tolist(), strict=True)]
        else:
            if name in ("positions", "forces"):
                columns = {column: np.ascontiguousarray(values[:, axis]) for axis, column in enumerate(VECTORS[name])}
            else:
                columns = {ARRAYS.get(name, name): values if facts.width > 1 else values.reshape(-1)}
            chunk.columns.update(columns)
            if not there.all():
                chunk.present.update(dict.fromkeys(columns, there))

    def _put_velocities(self, chunk: Chunk, kinds: NDArray[np.int32]) -> None:
        masses = chunk.columns.get("mass")
        own = chunk.present.get("mass")
        if masses is None:
            masses = table_masses(kinds)
        elif own is not None:
            masses = np.where(np.repeat(own, chunk.counts), masses, table_masses(kinds))
        found = velocities(chunk.columns["momenta"], masses)
        for axis, column in enumerate(VECTORS["velocities"]):
            chunk.columns[column] = np.ascontiguousarray(found[:, axis])
            if "momenta" in chunk.present:
                chunk.present[column] = chunk.present["momenta"]

    def close(self) -> None:
        """See `Source.close`."""
        self._connection.close()


def connect(path: Path) -> sqlite3.Connection:
    """A connection that neither writes nor waits for a lock file; FormatError where there is no database."""
    name = quote(str(path.absolute()))
    try:
        connection = sqlite3.connect(f"file:{name}?mode=ro", uri=True, check_same_thread=False)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection = sqlite3.connect(f"file:{name}?immutable=1", uri=True, check_same_thread=False)
    except sqlite3.DatabaseError as error:
        raise FormatError(path, found=f"no database ({error})", expected="a database of ASE") from None
    return connection


def is_database(path: Path) -> bool:
    """Whether a file is a database that has ASE's tables."""
    try:
        connection = connect(path)
    except (FormatError, sqlite3.Error):
        return False
    try:
        query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'systems'"
        return bool(connection.execute(query).fetchone()[0])
    except sqlite3.Error:
        return False
    finally:
        connection.close()


def _check_version(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """The metadata of a database of a version that is read."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "systems" not in tables:
        raise FormatError(path, found="a database without the table 'systems'", expected="a database of ASE")
    known = {} if "information" not in tables else dict(connection.execute("SELECT name, value FROM information"))
    try:
        version = int(known.get("version", 2))
    except ValueError:
        version = 0
    if not 5 <= version <= 9:
        hint = "ASE converts older ones: python -m ase.db.convert" if version < 5 else None
        raise FormatError(path, found=f"version {known.get('version', 2)}", expected="version 5 to 9", hint=hint)
    text = known.get("metadata")
    metadata = parsed(path, "metadata", text) if text else {}
    return metadata if isinstance(metadata, dict) else {}


def _external(connection: sqlite3.Connection, path: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """Other tables of a database: name → row id → key → value."""
    known = connection.execute("SELECT name, value FROM information WHERE name = 'external_table_name'").fetchall()
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for _, name in known:
        quoted = '"' + str(name).replace('"', '""') + '"'
        rows = found.setdefault(str(name), {})
        for key, value, number in connection.execute(f"SELECT key, value, id FROM {quoted}"):
            rows.setdefault(number, {})[key] = value
    return found


def _are_elements(kinds: NDArray[np.int32]) -> bool:
    return len(kinds) == 0 or (int(kinds.min()) >= 1 and int(kinds.max()) < len(SYMBOLS))


def _spread(
    blobs: tuple[Any, ...], there: NDArray[np.bool_], counts: NDArray[np.int64], dtype: str, width: int
) -> NDArray[Any]:
    """The numbers of all blobs, one row of `width` for each atom; zeros where there is no blob."""
    if there.all():
        return (
            np.frombuffer(b"".join(blobs), dtype).reshape(-1, width)
            if width > 1
            else np.frombuffer(b"".join(blobs), dtype)
        )
    values = np.zeros((int(counts.sum()), width) if width > 1 else int(counts.sum()), dtype)
    held = np.frombuffer(b"".join(blob for blob in blobs if blob is not None), dtype)
    values[np.repeat(there, counts)] = held.reshape(-1, width) if width > 1 else held
    return values
