"""The columns of text of a database's rows: key-value pairs, constraints, calculators, data."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import apart
from molrec_ase.names import CALCULATOR, CONSTRAINTS, DATA, key_name
from molrec_ase.values import as_value, free_atoms, modern, parse_json, plain_dtype, to_plain
from molrec_convert.errors import FormatError
from molrec_convert.files.json_text import read_json

__all__ = [
    "NO_DATA",
    "TABLES",
    "TEXTS",
    "free_of",
    "parsed",
    "read_data",
    "text_columns",
    "text_rows",
    "told_texts",
    "write_data",
]


def read_data(content: bytes | str | None) -> Any:
    """Return the value; None where there is none. ValueError for bytes that are no data."""
    if content is None or content == "":
        return None
    if isinstance(content, str):
        return parse_json(content)
    offset = int(np.frombuffer(content[:8], "<i8")[0])
    if not 8 <= offset <= len(content):
        raise ValueError(f"its text begins at byte {offset} of {len(content)}")
    return _decoded(read_json(content[offset:]), content)


def write_data(value: Any) -> bytes:
    """Return the bytes of a value."""
    parts = [b""]
    text = json.dumps(_encoded(value, parts, [8]), separators=(",", ":")).encode()
    parts[0] = np.array(8 + sum(map(len, parts)), "<i8").tobytes()
    return b"".join([*parts, text])


def _decoded(document: Any, content: bytes) -> Any:
    if isinstance(document, list):
        return [_decoded(item, content) for item in document]
    if not isinstance(document, dict):
        return document
    if "__complex__" in document:
        return complex(*document["__complex__"])
    if "__ndarray__" in document:
        shape, name, offset = document["__ndarray__"]
        dtype = plain_dtype(name)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(content[offset : offset + size], dtype).reshape(shape)
    return {key: _decoded(item, content) for key, item in document.items()}


def _encoded(value: Any, parts: list[bytes], end: list[int]) -> Any:
    if isinstance(value, dict):
        return {key: _encoded(item, parts, end) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encoded(item, parts, end) for item in value]
    if isinstance(value, np.ndarray):
        raw = np.asarray(value, value.dtype.newbyteorder("<")).tobytes()
        parts.append(raw)
        end[0] += len(raw)
        return {"__ndarray__": [list(value.shape), value.dtype.name, end[0] - len(raw)]}
    if isinstance(value, complex):
        return {"__complex__": [value.real, value.imag]}
    return value.item() if isinstance(value, np.generic) else value


#: Columns of text, and what `id` they are of.
TEXTS = ("id", "key_value_pairs", "constraints", "calculator", "calculator_parameters", "data")
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


def told_texts(
    path: Path,
    rows: Sequence[tuple[Any, ...]],
    cache: dict[Any, Any],
    external: Callable[[int], dict[str, Any]] | None = None,
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Yield what `text_rows` gives; of rows at fault, of which whoever reads them is told, nothing."""
    for row, pairs in zip(rows, _parsed_together([row[1] for row in rows]), strict=True):
        try:
            yield _text_values(path, row, cache, None if external is None else external(row[0]), pairs)
        except FormatError:
            yield {}, None


def text_columns(path: Path, columns: Sequence[Sequence[Any]], cache: dict[Any, Any]) -> dict[str, list[Any]] | None:
    """Return what `text_rows` gives of rows that have the same keys, by key, from their `TEXTS` by column; None for
    others.

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
    """Return what the column of constraints says."""
    if text not in cache:
        cache[text] = to_plain(modern(parse_json(text)))
    return cache[text]


def _calculator(named: tuple[Any, Any], cache: dict[Any, Any]) -> Any:
    """Return a calculator by its name and parameters; None where there is none."""
    name, parameters = named
    if name is None:
        return None
    if not isinstance(name, str):
        raise ValueError("the name of a calculator is no text")
    if named not in cache:
        cache[named] = {"name": name, "parameters": to_plain(_parameters(parameters))}
    return cache[named]


def _parsed_together(texts: Sequence[Any]) -> list[Any]:
    """Return the documents of texts, None for those that are to be parsed alone."""
    alone: list[Any] = [None] * len(texts)
    try:
        joined = ",".join(texts)
        found = alone if "__" in joined else read_json(f"[{joined}]")
    except (ValueError, TypeError):
        return alone
    return found if len(found) == len(texts) and {type(entry) for entry in found} <= {dict} else alone


def _text_values(
    path: Path,
    row: tuple[Any, ...],
    cache: dict[Any, Any],
    external: dict[str, Any] | None = None,
    found: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what `text_rows` gives of one row; `found` are the key-value pairs where they were parsed already."""
    number, pairs, constraints, calculator, parameters, data = row
    values: dict[str, Any] = {}
    beside = None
    try:
        if pairs and pairs != "{}":
            if found is None:
                found = parse_json(pairs) if "__" in pairs else read_json(pairs)
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
    """Return which atoms constraints leave free."""
    key = (text, count)
    if key not in cache:
        try:
            cache[key] = free_atoms(modern(parse_json(text)), count)
        except (ValueError, TypeError, IndexError) as error:
            raise FormatError(path, found=f"constraints {text[:60]} ({error})") from None
    found: NDArray[np.bool_] | None = cache[key]
    return found


def _parameters(text: str | None) -> Any:
    """Return the parameters of a calculator; old files have JSON in JSON, several times."""
    value: Any = text or "{}"
    while isinstance(value, str):
        value = parse_json(value)
    return value or {}
