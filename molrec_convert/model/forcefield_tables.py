"""The rules of one style table: its columns, their dtypes and nulls, and pairs restated.

Source: Force field, "Document", and the refusals of the conformance list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.forcefield.categories import ANNOTATIONS, ENDPOINT_COLUMNS, PAIR_CATEGORIES, category
from molrec_convert.forcefield.styles import StyleDefinition
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.forcefield_document import Style
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.standard import STANDARD_DTYPES

__all__ = ["endpoint_columns", "parameter_columns", "table_faults", "text_codes"]


def endpoint_columns(table: Block) -> tuple[str, ...]:
    """The endpoint columns a table has, in order."""
    return tuple(name for name in ENDPOINT_COLUMNS if name in table.columns)


def parameter_columns(table: Block) -> tuple[str, ...]:
    """The columns of a table that are parameters: neither its name, an endpoint nor an annotation."""
    others = {"name", *ENDPOINT_COLUMNS, *ANNOTATIONS}
    return tuple(name for name in table.columns if name not in others)


def text_codes(*columns: NDArray[Any]) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The texts in some string columns, each once, and for every column the position of each row's text in them."""
    lists = [column.tolist() for column in columns]
    texts = list(dict.fromkeys(text for values in lists for text in values))
    # Looking hashes up beats sorting: a million rows take a quarter of a second.
    position = {text: code for code, text in enumerate(texts)}.__getitem__
    return texts, [np.fromiter(map(position, values), dtype=np.int64, count=len(values)) for values in lists]


def table_faults(table: Block, style: Style, node: str, registered: StyleDefinition | None) -> Iterator[ContractError]:
    """Every rule the table of a style breaks. `registered` is what the registry knows of the style."""
    try:
        table.check(node)
    except ContractError as fault:
        yield fault
        return
    yield from _name_faults(table, node)
    yield from _endpoint_faults(table, style, node)
    for name in ANNOTATIONS:
        if name in table.columns:
            yield from _text_faults(table.columns[name], f"{node}/{name}")
    if style.endpoint_key == "smirks" and table.count:
        if "smirks" not in table.columns:
            yield ContractError(f"{node}/smirks", "rows keyed by patterns have no column of patterns")
        else:
            yield from _null_faults(table, "smirks", node)
    for name in parameter_columns(table):
        yield from _parameter_faults(table.columns[name], name, style, f"{node}/{name}", registered)
    for name, column in table.columns.items():
        if column.precision is not None or "precision" in column.attributes:
            yield ContractError(f"{node}/{name}", "a column of a style table declares no precision")
    if style.category in PAIR_CATEGORIES:
        yield from _restatement_faults(table, node)


def _name_faults(table: Block, node: str) -> Iterator[ContractError]:
    if "name" not in table.columns:
        if table.count:
            yield ContractError(f"{node}/name", "the rows of a style table have no names")
        return
    yield from _null_faults(table, "name", node)
    twice = [name for name, rows in Counter(table.stored("name").tolist()).items() if rows > 1]
    if twice:
        yield ContractError(f"{node}/name", "two rows have one name", found=repr(twice[0]))


def _null_faults(table: Block, name: str, node: str) -> Iterator[ContractError]:
    mask = table.columns[name].validity
    if mask is not None:
        row = int(np.flatnonzero(~mask)[0])
        yield ContractError(f"{node}/{name}", f"the column is never null, and is in row {row}")


def _text_faults(column: Column, node: str) -> Iterator[ContractError]:
    if column.dtype != "string" or column.trailing:
        yield ContractError(node, "the column is one text per row", found=_shape(column), expected="string")


def _endpoint_faults(table: Block, style: Style, node: str) -> Iterator[ContractError]:
    present = endpoint_columns(table)
    arity = category(style.category).arity
    if style.endpoint_key == "smirks":
        expected: tuple[str, ...] = ()
    else:
        expected = ENDPOINT_COLUMNS[: len(present) if arity is None else arity]
    if present != expected and (present or table.count):
        yield ContractError(
            node,
            f"the endpoints are not those of {style.name}",
            found=", ".join(present) or "none",
            expected=", ".join(expected) or "none",
        )
    for name in present:
        faults = list(_text_faults(table.columns[name], f"{node}/{name}"))
        yield from faults or _null_faults(table, name, node)


def _parameter_faults(
    column: Column, name: str, style: Style, node: str, registered: StyleDefinition | None
) -> Iterator[ContractError]:
    if name not in STANDARD_DTYPES and column.dtype not in ("f64", "string"):
        yield ContractError(node, "a parameter is a number or a text", found=column.dtype, expected="f64 or string")
    elif style.category == "cmap" and name == "grid":
        yield from _grid_faults(column, node)
    elif column.trailing and not _takes_array(name, registered, column):
        yield ContractError(
            node, f"the style {style.name} takes one value per row", found=_shape(column), expected=column.dtype
        )


def _takes_array(name: str, registered: StyleDefinition | None, column: Column) -> bool:
    """Whether an array may stand here: where the style is known, it must take one; a map of angles is of a `cmap`."""
    if column.dtype != "f64" or name == "grid":
        return False
    if registered is None:
        return True
    known = next((entry for entry in registered.parameters if entry.name == name), None)
    return known is not None and known.axes == len(column.trailing)


def _grid_faults(column: Column, node: str) -> Iterator[ContractError]:
    shape = column.trailing
    if column.dtype != "f64" or len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
        yield ContractError(
            node, "the map is not square", found=_shape(column), expected="f64[T][N][N] with N of at least 2"
        )
        return
    values = column.values if column.validity is None else column.values[column.validity]
    if not np.isfinite(values).all():
        yield ContractError(node, "the map holds a number that is not finite")


def _shape(column: Column) -> str:
    return column.dtype + "[T]" + "".join(f"[{n}]" for n in column.trailing)


def _restatement_faults(table: Block, node: str) -> Iterator[ContractError]:
    """Rows of one unordered pair have the same parameters."""
    if not all(name in table.columns and table.columns[name].dtype == "string" for name in ENDPOINT_COLUMNS[:2]):
        return
    texts, codes = text_codes(table.stored("itom"), table.stored("jtom"))
    low, high = np.minimum(*codes), np.maximum(*codes)
    key = low * len(texts) + high
    order = np.argsort(key, kind="stable")
    # A row and the one before it of the same pair: equality carries over from neighbour to neighbour.
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    first, second = order[again], order[again + 1]
    differs = np.zeros(len(first), dtype=np.bool_)
    for name in parameter_columns(table):
        differs |= _differ(table.columns[name], first, second)
    if differs.any():
        at = int(np.flatnonzero(differs)[0])
        pair = f"{table.stored('itom')[second[at]]!r} and {table.stored('jtom')[second[at]]!r}"
        yield ContractError(
            node, f"the rows {first[at]} and {second[at]} give different parameters to one pair, {pair}"
        )


def _differ(column: Column, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
    values = column.values
    same = values[first] == values[second]
    if values.dtype != DTYPES["string"].numpy:
        same = same | ((values[first] != values[first]) & (values[second] != values[second]))
    same = same.all(axis=tuple(range(1, same.ndim)))
    if column.validity is None:
        return np.asarray(~same)
    valid = column.validity
    return np.asarray((valid[first] != valid[second]) | (valid[first] & ~same))
