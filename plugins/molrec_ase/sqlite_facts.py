"""The facts of a whole database: what its rows have, and what of that never changes."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import split_chunk
from molrec_ase.names import ARRAYS, CONSTRAINTS, RESULTS, VECTORS
from molrec_ase.sqlite_blobs import BLOBS
from molrec_ase.sqlite_survey import REALS
from molrec_ase.sqlite_texts import free_of, text_columns, told_texts
from molrec_ase.survey import ColumnFacts, Survey, ValueFacts, add_column, survey_parts
from molrec_convert.errors import FormatError

if TYPE_CHECKING:
    from molrec_ase.sqlite_rows import SqliteRows

__all__ = ["array_facts", "facts_of"]

#: Rows whose texts are looked at together.
_TOGETHER = 2048


def facts_of(rows: SqliteRows) -> Survey:
    """The facts of a whole database: blobs by their lengths, texts by reading them. Rows at fault tell nothing.

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
