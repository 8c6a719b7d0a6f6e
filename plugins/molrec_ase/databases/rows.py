"""Rows of a database in SQLite, read from its tables: whole batches of blobs at once.

No object is made per row. Source of the layout: `ase.db.sqlite`, schema versions 5 to 9.
"""

from __future__ import annotations

import functools
import itertools
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import Chunk, join_parts, put_back, split_chunk
from molrec_ase.databases.connection import BLOBS, REALS, Table, blob_values, check_numbers, connect, look_at, tables_of
from molrec_ase.databases.texts import NO_DATA, TEXTS, free_of, parsed, text_columns, text_rows, told_texts
from molrec_ase.names import ARRAYS, CONSTRAINTS, RESULTS, VECTORS
from molrec_ase.parts import table_masses, velocities
from molrec_ase.reading.source import Source
from molrec_ase.reading.survey import ColumnFacts, Survey, ValueFacts, add_column, survey_parts
from molrec_ase.values import SYMBOL_ARRAY
from molrec_convert.errors import FormatError
from molrec_convert.formats import NoProgress, Progress
from molrec_convert.model.tags import from_typed_json
from molrec_convert.quantities.elements import SYMBOLS
from molrec_convert.quantities.standard import full_tensor

__all__ = ["SqliteRows", "array_facts", "facts_of", "is_database"]

#: Rows whose texts are looked at together.
_TOGETHER = 2048


def facts_of(rows: SqliteRows) -> Survey:
    """Return the facts of a whole database: blobs by their lengths, texts by reading them. Rows at fault tell nothing.

    Where something stands beside rows all of them are read.
    """
    table = rows.table
    count = len(table.counts)
    survey = Survey(table.counts)
    survey.steps, survey.times = [None] * count, [None] * count
    if count == 0:
        return survey
    if _add_texts(survey, rows):
        return survey_parts(part for chunk in rows.chunks(range(count)) for part in split_chunk(chunk))
    _add_arrays(survey, rows)
    return survey


def array_facts(rows: SqliteRows) -> Survey:
    """Return the facts of a whole database but for its texts: blobs by their lengths, and results.

    Where data stands in rows, in which a row may have columns beside, they are those of `facts_of`.
    """
    table = rows.table
    if table.having_data:
        return rows.survey
    survey = Survey(table.counts)
    survey.steps, survey.times = [None] * len(survey), [None] * len(survey)
    if len(survey):
        _add_arrays(survey, rows)
    return survey


def _add_arrays(survey: Survey, rows: SqliteRows) -> None:
    """The facts of what is numbers."""
    table, count = rows.table, len(survey)
    owners, widths = table.owners, table.widths
    unchanging = [name for name in ("masses", "initial_charges", "tags") if owners[name] == count]
    constant = {"numbers": table.same, **(rows.constant(unchanging) if unchanging else {})}
    first: dict[str, NDArray[Any]] = {}
    with suppress(FormatError):
        first = split_chunk(rows.chunk(np.zeros(1, np.int64)))[0].columns
    for name, width in widths.items():
        if not BLOBS[name].per_atom:
            if name != "cell":
                # a stress of six numbers is nine in a record
                tag = "f64x9" if name == "stress" else f"f64x{width}"
                survey.values[RESULTS[name]] = ValueFacts({tag}, owners[name], constant=False)
            continue
        vectors = () if name == "momenta" else VECTORS.get(name, ())
        dtype = "i64" if name == "tags" else "f64"
        for column in vectors or (ARRAYS.get(name, name),):
            trailing = () if vectors or width == 1 else (width,)
            same = constant.get(name, False)
            survey.columns[column] = ColumnFacts(dtype, trailing, owners[name], same, first.get(column))
        if name == "momenta":
            for column in VECTORS["velocities"]:
                survey.columns[column] = ColumnFacts("f64", (), owners[name], False)
    for name in REALS:
        if owners[name]:
            survey.values[RESULTS[name]] = ValueFacts({"f64"}, owners[name], constant=False)
    survey.has_cell = rows.any_cell()
    for name, having, dtype in (("element", count - table.strange, "string"), ("atomic_number", table.strange, "u64")):
        if having:
            survey.columns[name] = ColumnFacts(dtype, (), having, constant["numbers"], first.get(name))


def _add_texts(survey: Survey, rows: SqliteRows) -> bool:
    """Return the facts of what is text; true, and no more, where something stands beside a row."""
    counts = survey.counts.tolist()
    path = Path(str(rows.path))
    facts = survey.values
    texts, cache = rows.every_text(), dict[Any, Any]()
    start = 0
    while some := list(itertools.islice(texts, _TOGETHER)):
        columns = None if rows.has_external else text_columns(path, list(zip(*some, strict=True)), cache)
        if columns is None:
            columns = {}
            for values, beside in told_texts(path, some, cache, rows.external if rows.has_external else None):
                if beside is not None:
                    survey.columns, survey.values = {}, {}
                    return True
                for key, value in values.items():
                    columns.setdefault(key, []).append(value)
        if CONSTRAINTS in columns:
            for number, row in enumerate(some, start):
                with suppress(FormatError):
                    free = free_of(path, row[2], counts[number], cache) if row[2] else None
                    if free is not None:
                        add_column(survey, "free", free, number)
        for key, column in columns.items():
            facts.setdefault(key, ValueFacts()).extend([value for value in column if value is not None])
        start += len(some)
    for name, (tag, owners, constant, first) in rows.row_keys().items():
        facts[name] = ValueFacts({tag}, owners, constant=constant, first=first)
    return False


#: A database of no more bytes is read once and held while it is open: less than a batch of frames.
_HELD = 2**25
#: Bytes of a database that may stand in the log beside it.
_WAL = 2**26
#: Rows, and atoms of them, that are read at once.
_ROWS, _ATOMS = 4096, 2**18
#: What is said of each row: column → key.
_ROW_COLUMNS = {"id": "id", "unique_id": "unique_id", "ctime": "ctime", "mtime": "mtime", "username": "user"}
_ROW_TAGS = {"id": "i64", "unique_id": "string", "ctime": "f64", "mtime": "f64", "username": "string"}
_COLUMNS = (*_ROW_COLUMNS, *TEXTS[1:], "pbc", "numbers", *REALS)


class SqliteRows(Source):
    """The rows of a database, in the order of their ids.

    `widths` are those of an earlier look at the same rows (see `outline`); without them the database is looked at.
    """

    has_rows = True

    def __init__(self, path: Path, progress: Progress | None = None, widths: Mapping[str, int] | None = None) -> None:
        self._path, self.path = path, str(path)
        self._progress = NoProgress() if progress is None else progress
        self._widths = None if widths is None else {name: widths[name] for name in BLOBS if name in widths}
        #: Rows that are read at once: few until it is known how large they are.
        self._together = 16
        self._connection = connect(path)
        try:
            self.metadata = _check_version(self._connection, path)
            self.ids = self._every_id()
            self._tables = _external(self._connection, path)
            self._holds = path.stat().st_size <= _HELD
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise self._damaged(error) from None
        except BaseException:
            self._connection.close()
            raise

    def __len__(self) -> int:
        return len(self.ids)

    @functools.cached_property
    def table(self) -> Table:
        """What the rows have, by the lengths of their arrays."""
        table = look_at(self._connection, NO_DATA)
        if len(table.counts) != len(self.ids):
            raise self._changed()
        if 4 * int(table.counts.sum()) > self._path.stat().st_size + _WAL:
            raise FormatError(self._path, found="more atoms than its bytes can hold", expected="a database of ASE")
        return table

    @property
    def widths(self) -> dict[str, int]:
        """The columns of blobs that rows have, and how many numbers per atom, or per row, are in them."""
        if self._widths is None:
            self._widths = self.table.widths
        return self._widths

    def outline(self) -> dict[str, Any]:
        """See `Source.outline`."""
        return {"widths": self.widths}

    def _look(self) -> Survey:
        return self._surveyed(facts_of)

    @functools.cached_property
    def array_survey(self) -> Survey:
        """See `Source.array_survey`."""
        return self._surveyed(array_facts)

    def _surveyed(self, facts: Callable[[SqliteRows], Survey]) -> Survey:
        try:
            return facts(self)
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def chunks(self, numbers: Sequence[int], *, numbered: bool = False) -> Iterator[Chunk]:
        """See `Source.chunks`."""
        self._progress.start("rows", len(numbers))
        for group in self._groups(numbers):
            try:
                yield self.chunk(group, numbered=numbered)
            except sqlite3.DatabaseError as error:
                raise self._damaged(error) from None
            self._progress.advance(len(group))

    def every_text(self) -> Iterator[tuple[Any, ...]]:
        """Return the columns of text of every row, `TEXTS`."""
        return iter(self._connection.execute(f"SELECT {', '.join(TEXTS)} FROM systems ORDER BY id"))

    def row_keys(self) -> dict[str, tuple[str, int, bool, Any]]:
        """Return what is said of rows: key → tag, in how many, whether the same in all, the first."""
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
        made = told_texts(self._path, list(self.every_text()), {})
        for owner, (values, beside) in zip(owners, made, strict=True):
            values.update((key, value) for key, value in zip(keys, owner, strict=True) if value is not None)
            for name in () if beside is None else beside.get("without", ()):
                values.pop(name, None)
            for name, (tag, document) in ({} if beside is None else beside.get("keys", {})).items():
                values[name] = from_typed_json(document, tag, name)
            yield {key: value for key, value in values.items() if key in wanted}

    def constant(self, names: Sequence[str]) -> dict[str, bool]:
        """Return whether columns hold one and the same value in every row."""
        asked = ", ".join(f"min({name}) IS max({name})" for name in names)
        (found,) = self._connection.execute(f"SELECT {asked} FROM systems")
        return {name: bool(flag) for name, flag in zip(names, found, strict=True)}

    def any_cell(self) -> bool:
        """True if a row has a cell, or is periodic."""
        query = "SELECT EXISTS(SELECT 1 FROM systems WHERE pbc != 0 OR cell != zeroblob(72))"
        return bool(self._connection.execute(query).fetchone()[0])

    @property
    def has_external(self) -> bool:
        """Whether other tables say anything of rows."""
        return bool(self._tables)

    def external(self, number: int) -> dict[str, dict[str, Any]]:
        """Return what other tables say of a row, by its id."""
        return {name: rows[number] for name, rows in self._tables.items() if number in rows}

    def chunk(self, numbers: NDArray[np.int64], *, numbered: bool = False) -> Chunk:
        """Return some rows; `numbered` as in `Source.chunks`."""
        rows = self._fetch(numbers)
        entry: dict[str, tuple[Any, ...]] = dict(zip(self._columns, zip(*rows, strict=True), strict=True))
        counts = check_numbers(self._path, entry["numbers"], entry["id"])
        k = len(numbers)
        self._together = max(1, min(_ROWS, _ATOMS * k // max(int(counts.sum()), 1)))
        chunk = Chunk(
            counts, {}, {}, {}, np.zeros((k, 3, 3)), np.zeros((k, 3)), np.zeros((k, 3), np.bool_), [{}] * k,
            [None] * k, [None] * k, [frozenset()] * k,
        )  # fmt: skip
        kinds = np.frombuffer(b"".join(entry["numbers"]), "<i4")
        if numbered and _are_elements(kinds):
            chunk.numbers = kinds
        elif "element" not in self.unwanted:
            self._put_species(chunk, kinds)
        for name in self.widths:
            self._put_blob(chunk, name, entry)
        if "momenta" in chunk.columns:
            self._put_velocities(chunk, kinds)
        bits = np.array(self._made("pbc", entry, lambda value: int(value or 0), int), np.int64)
        chunk.boundary = (bits[:, None] & np.array([1, 2, 4])) != 0
        for name in REALS:
            if entry[name].count(None) < k:
                chunk.values[RESULTS[name]] = self._made(name, entry, lambda v: None if v is None else float(v), float)
        return self._with_texts(chunk, entry)

    def _made(self, name: str, entry: dict[str, tuple[Any, ...]], make: Callable[[Any], Any], kind: type) -> list[Any]:
        """Return the values of a column, each made a number where they are not of that kind; SQLite keeps anything in
        any.
        """
        if set(map(type, entry[name])) == {kind}:
            return list(entry[name])
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
        """Return the chunk with what stands in the columns of text, and beside."""
        cache: dict[Any, Any] = {}
        besides: list[dict[str, Any] | None] = []
        for column, key in _ROW_COLUMNS.items():
            if any(value is not None for value in entry[column]):
                chunk.values[key] = list(entry[column])
        known, size = chunk.values, len(chunk)
        texts = [entry[name] for name in TEXTS]
        columns = None if self.has_external else text_columns(self._path, texts, cache)
        if columns is not None:
            known.update(columns)
            if CONSTRAINTS in columns:
                self._put_free(chunk, entry["constraints"], cache)
            return chunk
        rows = list(zip(*texts, strict=True))
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

    def _every_id(self) -> NDArray[np.int64]:
        # any index of the table has the ids: in its order they are found without touching the rows
        found = [number for (number,) in self._connection.execute("SELECT id FROM systems")]
        return np.sort(np.array(found, np.int64))

    def _fetch(self, numbers: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        ids = self.ids[numbers]
        if self._holds:
            return [self._held[number] for number in numbers.tolist()]
        query = f"SELECT {', '.join(self._columns)} FROM systems WHERE id BETWEEN ? AND ? ORDER BY id"
        rows: list[Any]
        if int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers):
            rows = self._connection.execute(query, (int(ids[0]), int(ids[-1]))).fetchall()
        else:
            rows = [self._connection.execute(query, (row, row)).fetchone() for row in ids.tolist()]
        if [None if row is None else row[0] for row in rows] != ids.tolist():
            raise self._changed()
        return rows

    @functools.cached_property
    def _columns(self) -> tuple[str, ...]:
        """What is asked of rows: columns no row has are left out."""
        return (*_COLUMNS, *(name for name in BLOBS if name in self.widths))

    @functools.cached_property
    def _held(self) -> list[tuple[Any, ...]]:
        rows = self._connection.execute(f"SELECT {', '.join(self._columns)} FROM systems ORDER BY id").fetchall()
        if len(rows) != len(self.ids):
            raise self._changed()
        return rows

    def _changed(self) -> FormatError:
        return FormatError(self._path, found="other rows than a moment ago", expected="a database nobody writes to")

    def _damaged(self, error: sqlite3.DatabaseError) -> FormatError:
        if str(error) == "interrupted":
            found = "rows that take far more steps to read than the file has bytes"
            return FormatError(self._path, found=found, expected="a database of ASE")
        return FormatError(self._path, found=f"a damaged database ({error})", expected="a database of ASE")

    def _groups(self, numbers: Sequence[int]) -> Iterator[NDArray[np.int64]]:
        every = np.asarray(numbers, np.int64)
        start = 0
        while start < len(every):
            group = every[start : start + self._together]
            start += len(group)
            yield group

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

    def _put_blob(self, chunk: Chunk, name: str, entry: dict[str, tuple[Any, ...]]) -> None:
        width = self.widths[name]
        found = blob_values(self._path, name, width, entry[name], entry["id"], chunk.counts)
        if found is None:
            return
        values, there = found
        if name == "cell":
            chunk.vectors = values.reshape(-1, 3, 3).transpose(0, 2, 1).copy()
            return
        if not BLOBS[name].per_atom:
            own = list(full_tensor(values).reshape(-1, 9) if name == "stress" else values)
            flags = [True] * len(own) if there is None else there.tolist()
            chunk.values[RESULTS[name]] = [row if flag else None for row, flag in zip(own, flags, strict=True)]
            return
        if name in ("positions", "forces"):
            columns = {column: np.ascontiguousarray(values[:, axis]) for axis, column in enumerate(VECTORS[name])}
        elif name == "tags":
            columns = {name: values.astype(np.int64)}
        else:
            columns = {ARRAYS.get(name, name): values}
        chunk.columns.update(columns)
        if there is not None:
            chunk.present.update(dict.fromkeys(columns, there))

    def _put_velocities(self, chunk: Chunk, kinds: NDArray[np.int32]) -> None:
        try:
            self._add_velocities(chunk, kinds)
        except ValueError as error:
            raise FormatError(
                self._path, "numbers", found=str(error), expected="elements, whose masses are known"
            ) from None

    def _add_velocities(self, chunk: Chunk, kinds: NDArray[np.int32]) -> None:
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


def is_database(path: Path) -> bool:
    """True if a file is a database that has ASE's tables."""
    try:
        connection = connect(path)
    except (FormatError, sqlite3.Error):
        return False
    try:
        return bool(tables_of(connection, path))
    except FormatError as error:
        # what is ASE's by its tables, but not sound, is told when it is read
        return "computed" in str(error)
    except sqlite3.Error:
        return False
    finally:
        connection.close()


def _check_version(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return the metadata of a database of a version that is read."""
    tables = tables_of(connection, path)
    known = {} if "information" not in tables else dict(connection.execute("SELECT name, value FROM information"))
    try:
        version = int(known.get("version", 2))
    except (ValueError, TypeError):
        version = 0
    if not 5 <= version <= 9:
        hint = "ASE converts older ones: python -m ase.db.convert" if version < 5 else None
        raise FormatError(path, found=f"version {known.get('version', 2)}", expected="version 5 to 9", hint=hint)
    text = known.get("metadata")
    metadata = parsed(path, "metadata", text) if text else {}
    return metadata if isinstance(metadata, dict) else {}


def _external(connection: sqlite3.Connection, path: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """Return other tables of a database: name → row id → key → value."""
    tables = tables_of(connection, path)
    if "information" not in tables:
        return {}
    known = connection.execute("SELECT name, value FROM information WHERE name = 'external_table_name'").fetchall()
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for _, name in known:
        if name not in tables:
            raise FormatError(path, found=f"no table {name!r:.60}", expected="one: the database names it as its own")
        quoted = '"' + str(name).replace('"', '""') + '"'
        rows = found.setdefault(str(name), {})
        for key, value, number in connection.execute(f"SELECT key, value, id FROM {quoted}"):
            rows.setdefault(number, {})[key] = value
    return found


def _are_elements(kinds: NDArray[np.int32]) -> bool:
    return len(kinds) == 0 or (int(kinds.min()) >= 1 and int(kinds.max()) < len(SYMBOLS))
