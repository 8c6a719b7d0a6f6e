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
from molrec_ase.sqlite_survey import BLOBS, REALS
from molrec_ase.survey import ColumnFacts, Survey, ValueFacts, add_column, survey_parts
from molrec_ase.values import as_value
from molrec_convert.errors import FormatError

if TYPE_CHECKING:
    from molrec_ase.sqlite_rows import SqliteRows

__all__ = ["TABLES", "TEXTS", "facts_of", "free_of", "parsed", "text_rows"]

#: Columns of text, and what `id` they are of.
TEXTS = ("id", "key_value_pairs", "constraints", "calculator", "calculator_parameters", "data")
#: Rows whose texts are looked at together.
_TOGETHER = 2048
_PLAIN = (str, int, float, bool)
_NO_DATA = (write_data({}), write_data(None), "{}", "null", "", b"")
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


def _parsed_together(texts: list[Any]) -> list[Any]:
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
                values[_key_name(key)] = value if type(value) in _PLAIN else as_value(value)
        if constraints:
            if constraints not in cache:
                cache[constraints] = to_plain(modern(parse_json(constraints)))
            if cache[constraints]:
                values[CONSTRAINTS] = cache[constraints]
        if calculator is not None:
            known = (calculator, parameters)
            if known not in cache:
                cache[known] = {"name": calculator, "parameters": to_plain(_parameters(parameters))}
            values[CALCULATOR] = cache[known]
        if data is not None and data not in _NO_DATA:
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
    count = len(table.ids)
    survey = Survey(table.counts)
    survey.steps, survey.times = [None] * count, [None] * count
    if count == 0:
        return survey
    if _add_texts(survey, rows):
        return survey_parts(part for chunk in rows.chunks(range(count)) for part in split_chunk(chunk))
    blobs = {name: int(facts.there.sum()) for name, facts in table.blobs.items()}
    constant = rows.constant([*(name for name in ("masses", "initial_charges") if name in blobs), "tags", "numbers"])
    first = split_chunk(rows.chunk(np.zeros(1, np.int64)))[0].columns
    for name, owners in blobs.items():
        width = table.blobs[name].width
        if not BLOBS[name][0]:
            if name != "cell":
                survey.values[RESULTS[name]] = ValueFacts({f"f64x{width}"}, owners, constant=False)
            continue
        vectors = () if name == "momenta" else VECTORS.get(name, ())
        for column in vectors or (ARRAYS.get(name, name),):
            trailing = () if vectors or width == 1 else (width,)
            same = constant.get(name, False) and owners == count
            survey.columns[column] = ColumnFacts("f64", trailing, owners, same, first.get(column))
        if name == "momenta":
            for column in VECTORS["velocities"]:
                survey.columns[column] = ColumnFacts("f64", (), owners, False)
    if table.tags.any():
        survey.columns["tags"] = ColumnFacts("i64", (), int(table.tags.sum()), constant["tags"], first.get("tags"))
    for name in REALS:
        if table.reals[name].any():
            survey.values[RESULTS[name]] = ValueFacts({"f64"}, int(table.reals[name].sum()), constant=False)
    survey.has_cell = rows.any_cell()
    strange = rows.strange_rows()
    for name, owners, dtype in (("element", count - strange, "string"), ("atomic_number", strange, "u64")):
        if owners:
            survey.columns[name] = ColumnFacts(dtype, (), owners, constant["numbers"], first.get(name))
    return survey


def _add_texts(survey: Survey, rows: SqliteRows) -> bool:
    """The facts of what is text; true, and no more, where something stands beside a row."""
    counts = survey.counts.tolist()
    path = Path(str(rows.path))
    facts = survey.values
    texts, cache = rows.every_text(), dict[Any, Any]()
    first = 0
    while some := list(itertools.islice(texts, _TOGETHER)):
        columns: dict[str, list[Any]] = {}
        for number, (row, (values, beside)) in enumerate(
            zip(some, text_rows(path, some, cache, rows.external if rows.has_external else None), strict=True), first
        ):
            if beside is not None:
                survey.columns, survey.values = {}, {}
                return True
            if CONSTRAINTS in values:
                free = free_of(path, row[2], counts[number], cache)
                if free is not None:
                    add_column(survey, "free", free, number)
            for key, value in values.items():
                column = columns.get(key)
                if column is None:
                    column = columns[key] = []
                column.append(value)
        for key, column in columns.items():
            facts.setdefault(key, ValueFacts()).extend(column)
        first += len(some)
    for name, (tag, owners, constant, first) in rows.row_keys().items():
        facts[name] = ValueFacts({tag}, owners, constant=constant, first=first)
    return False


def _parameters(text: str | None) -> Any:
    """The parameters of a calculator; old files have JSON in JSON, several times."""
    value: Any = text or "{}"
    while isinstance(value, str):
        value = parse_json(value)
    return value or {}
