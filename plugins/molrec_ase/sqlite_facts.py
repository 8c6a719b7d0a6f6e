"""The columns of text of a database's rows, and the facts of a whole database."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.beside import apart
from molrec_ase.chunk import split_chunk
from molrec_ase.constraints import free_atoms, modern
from molrec_ase.data_blob import read_data, write_data
from molrec_ase.names import ARRAYS, CALCULATOR, CONSTRAINTS, DATA, RESULTS, VECTORS, key_name
from molrec_ase.plain import parse_json, to_plain
from molrec_ase.sqlite_blobs import BLOBS
from molrec_ase.sqlite_survey import REALS
from molrec_ase.survey import ColumnFacts, Survey, ValueFacts, add_column, survey_parts
from molrec_ase.values import as_value
from molrec_convert.errors import FormatError

if TYPE_CHECKING:
    from molrec_ase.sqlite_rows import SqliteRows

__all__ = ["NO_DATA", "TABLES", "TEXTS", "array_facts", "facts_of", "free_of", "parsed", "text_columns", "text_rows"]

#: Columns of text, and what `id` they are of.
TEXTS = ("id", "key_value_pairs", "constraints", "calculator", "calculator_parameters", "data")
#: Rows whose texts are looked at together.
_TOGETHER = 2048
_PLAIN_TYPES = frozenset((str, int, float, bool))
#: What `data` is in a row that has none.
NO_DATA = frozenset((write_data({}), write_data(None), "{}", "null", "", b"", None))
_key_name = functools.lru_cache(maxsize=4096)(key_name)
#: Key of what other tables of the database say of a row.
TABLES = "ase.tables"


def parsed(path: Path, what: str, text: str) -> Any:
    """JSON of a database; FormatError where it is none."""
    try:
        return parse_json(text)
    except (ValueError, TypeError) as error:
        raise FormatError(path, found=f"{what} that are no JSON ({error})", expected="JSON as ASE writes it") from None


def text_rows(
    path: Path,
    rows: Sequence[tuple[Any, ...]],
    cache: dict[Any, Any],
    external: Callable[[int], dict[str, Any]] | None = None,
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Of each row (its `TEXTS`) the values that are not numbers of its atoms, and what stands beside it.

    `cache` holds texts seen before; key-value pairs are parsed together.
    """
    for row, pairs in zip(rows, _parsed_together([row[1] for row in rows]), strict=True):
        yield _text_values(path, row, cache, None if external is None else external(row[0]), pairs)


def text_columns(path: Path, columns: Sequence[Sequence[Any]], cache: dict[Any, Any]) -> dict[str, list[Any]] | None:
    """What `text_rows` gives of rows that have the same keys, by key, from their `TEXTS` by column; None for others.

    None, too, where something stands beside a row, or a row is at fault.
    """
    _, pairs, constraints, calculators, parameters, data = columns
    try:
        if not set(data) <= NO_DATA:
            return None
        documents = _parsed_together(pairs)
        if None in documents or len(set(map(tuple, documents))) > 1:
            return None
        made: dict[str, list[Any]] = {}
        for key in documents[0]:
            column = [document[key] for document in documents]
            if not set(map(type, column)) <= _PLAIN_TYPES:
                column = [value if type(value) in _PLAIN_TYPES else as_value(value) for value in column]
            made[_key_name(key)] = column
        rules = {text: _constraints(text, cache) for text in set(constraints) if text}
        if any(rules.values()):
            made[CONSTRAINTS] = [rules.get(text) or None for text in constraints]
        named = list(zip(calculators, parameters, strict=True))
        known = {one: _calculator(one, cache) for one in set(named)}
        if any(value is not None for value in known.values()):
            made[CALCULATOR] = [known[one] for one in named]
    except (ValueError, TypeError, AttributeError, KeyError, IndexError):
        # which row it is, and what is wrong with it, is told by looking at one after another
        return None
    return made


def _constraints(text: str, cache: dict[Any, Any]) -> Any:
    """What the column of constraints says."""
    if text not in cache:
        cache[text] = to_plain(modern(parse_json(text)))
    return cache[text]


def _calculator(named: tuple[Any, Any], cache: dict[Any, Any]) -> Any:
    """A calculator by its name and parameters; None where there is none."""
    name, parameters = named
    if name is None:
        return None
    if named not in cache:
        cache[named] = {"name": name, "parameters": to_plain(_parameters(parameters))}
    return cache[named]


def _parsed_together(texts: Sequence[Any]) -> list[Any]:
    """The documents of texts, None for those that are to be parsed alone."""
    alone: list[Any] = [None] * len(texts)
    try:
        joined = ",".join(texts)
        found = alone if "__" in joined else json.loads(f"[{joined}]")
    except (ValueError, TypeError, RecursionError):
        return alone
    return found if len(found) == len(texts) and {type(entry) for entry in found} <= {dict} else alone


def _text_values(
    path: Path,
    row: tuple[Any, ...],
    cache: dict[Any, Any],
    external: dict[str, Any] | None = None,
    found: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What `text_rows` gives of one row; `found` are the key-value pairs where they were parsed already."""
    number, pairs, constraints, calculator, parameters, data = row
    values: dict[str, Any] = {}
    beside = None
    try:
        if pairs and pairs != "{}":
            if found is None:
                found = parse_json(pairs) if "__" in pairs else json.loads(pairs)
            for key, value in found.items():
                values[_key_name(key)] = value if type(value) in _PLAIN_TYPES else as_value(value)
        if constraints and (rules := _constraints(constraints, cache)):
            values[CONSTRAINTS] = rules
        named = _calculator((calculator, parameters), cache)
        if named is not None:
            values[CALCULATOR] = named
        if data not in NO_DATA:
            content, beside = apart(read_data(data))
            if content is not None and content != {}:
                values[DATA] = to_plain(content)
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise FormatError(
            path, f"row id {number}", found=f"text that is not ASE's ({error})", expected="JSON as ASE writes it"
        ) from None
    if external:
        values[TABLES] = to_plain(external)
    return values, beside


def free_of(path: Path, text: str, count: int, cache: dict[Any, Any]) -> NDArray[np.bool_] | None:
    """Which atoms constraints leave free."""
    key = (text, count)
    if key not in cache:
        try:
            cache[key] = free_atoms(modern(parse_json(text)), count)
        except (ValueError, TypeError, IndexError) as error:
            raise FormatError(path, found=f"constraints {text[:60]} ({error})") from None
    found: NDArray[np.bool_] | None = cache[key]
    return found


def facts_of(rows: SqliteRows) -> Survey:
    """The facts of a whole database: blobs by their lengths, texts by reading them.

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
    """The facts of a whole database but for its texts: blobs by their lengths, and results.

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
    first = split_chunk(rows.chunk(np.zeros(1, np.int64)))[0].columns
    for name, width in widths.items():
        if not BLOBS[name].per_atom:
            if name != "cell":
                survey.values[RESULTS[name]] = ValueFacts({f"f64x{width}"}, owners[name], constant=False)
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
    """The facts of what is text; true, and no more, where something stands beside a row."""
    counts = survey.counts.tolist()
    path = Path(str(rows.path))
    facts = survey.values
    texts, cache = rows.every_text(), dict[Any, Any]()
    start = 0
    while some := list(itertools.islice(texts, _TOGETHER)):
        columns = None if rows.has_external else text_columns(path, list(zip(*some, strict=True)), cache)
        if columns is None:
            columns = {}
            for values, beside in text_rows(path, some, cache, rows.external if rows.has_external else None):
                if beside is not None:
                    survey.columns, survey.values = {}, {}
                    return True
                for key, value in values.items():
                    columns.setdefault(key, []).append(value)
        if CONSTRAINTS in columns:
            for number, row in enumerate(some, start):
                free = free_of(path, row[2], counts[number], cache) if row[2] else None
                if free is not None:
                    add_column(survey, "free", free, number)
        for key, column in columns.items():
            facts.setdefault(key, ValueFacts()).extend([value for value in column if value is not None])
        start += len(some)
    for name, (tag, owners, constant, first) in rows.row_keys().items():
        facts[name] = ValueFacts({tag}, owners, constant=constant, first=first)
    return False


def _parameters(text: str | None) -> Any:
    """The parameters of a calculator; old files have JSON in JSON, several times."""
    value: Any = text or "{}"
    while isinstance(value, str):
        value = parse_json(value)
    return value or {}
