"""The rules of one style table: its columns, their dtypes and nulls, and pairs restated.

Source: Force field, "Document", and the refusals of the conformance list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.forcefield.categories import (
    ANNOTATIONS,
    ENDPOINT_COLUMNS,
    ENDPOINT_KEYS,
    PAIR_CATEGORIES,
    block_name,
    category,
    is_category,
)
from molrec_convert.model.forcefield.styles import StyleDefinition
from molrec_convert.model.forcefield.units import unit_faults
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.names import STANDARD_DTYPES, is_unicode
from molrec_convert.model.tags import check_json

__all__ = [
    "Style",
    "document_faults",
    "endpoint_columns",
    "entry_faults",
    "json_faults",
    "parameter_columns",
    "style_of",
    "table_faults",
    "text_codes",
    "whole_styles",
]

_MIXING = ("arithmetic", "geometric", "sixthpower")
_SPECIAL = ("lj", "coul")


@dataclass(frozen=True)
class Style:
    """One entry of a force field's `styles`.

    `params` are the parameters of the style itself (a pair style's `cutoff` and `mixing`), `expression` its energy,
    `endpoint_key` what the endpoints of its rows name: `type`, `class`, or nothing (`smirks`).
    """

    category: str
    style: str
    params: Mapping[str, float | str] = field(default_factory=dict)
    expression: str | None = None
    endpoint_key: str = "type"

    @property
    def name(self) -> str:
        """`pair.lj/cut`: category and style, for messages."""
        return f"{self.category}.{self.style}"

    @property
    def block(self) -> str:
        """The block that is its table: `pair.lj%2Fcut`."""
        return block_name(self.category, self.style)


def style_of(entry: Mapping[str, Any]) -> Style:
    """Return the style an entry of the document states."""
    return Style(
        entry["category"],
        entry["style"],
        entry.get("params", {}),
        entry.get("expression"),
        entry.get("endpoint_key", "type"),
    )


def whole_styles(document: Any) -> Iterator[Style]:
    """Yield the entries that name a style whose table can be looked for."""
    entries = document.get("styles") if isinstance(document, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if not any(True for _ in _style_faults(entry, "")):
            yield style_of(entry)


def document_faults(document: Any, node: str, molrec_version: int | None) -> Iterator[ContractError]:
    """Yield every rule a document breaks, one by one."""
    if not isinstance(document, dict):
        yield ContractError(node, "the document is not a JSON object", found=type(document).__name__)
        return
    yield from json_faults(document, node)
    if not isinstance(document.get("name"), str):
        yield _missing(document, "name", node, "a text")
    if "units" in document:
        yield from unit_faults(document["units"], f"{node}.units", molrec_version)
    else:
        yield _missing(document, "units", node, "a JSON object")
    yield from _source_faults(document.get("source"), f"{node}.source")
    yield from _special_bonds_faults(document, f"{node}.special_bonds")
    yield from entry_faults(document, node)


def _missing(document: Mapping[str, Any], key: str, node: str, expected: str) -> ContractError:
    found = repr(document[key])[:60] if key in document else "none"
    return ContractError(node, f"the document has no {key!r}", found=found, expected=expected)


def json_faults(document: Any, node: str) -> Iterator[ContractError]:
    """Yield the fault of a document that is not plain finite JSON."""
    try:
        check_json(document, node)
    except ContractError as fault:
        yield fault


def _source_faults(source: Any, node: str) -> Iterator[ContractError]:
    if source is None:
        return
    if not isinstance(source, dict) or not isinstance(source.get("format"), str):
        yield ContractError(node, "the source does not say its format", found=repr(source)[:60])
        return
    for key in ("uri", "sha256"):
        if key in source and not isinstance(source[key], str):
            yield ContractError(f"{node}.{key}", "not a text", found=repr(source[key])[:60])


def _special_bonds_faults(document: Mapping[str, Any], node: str) -> Iterator[ContractError]:
    if "special_bonds" not in document:
        return
    weights = document["special_bonds"]
    if not isinstance(weights, dict):
        yield ContractError(node, "special_bonds is not a JSON object", found=repr(weights)[:60])
        return
    for key in _SPECIAL:
        triple = weights.get(key)
        if (
            not isinstance(triple, (list, tuple))
            or len(triple) != 3
            or not all(_is_number(weight) for weight in triple)
        ):
            yield ContractError(
                f"{node}.{key}",
                "the weights are no three numbers",
                found=repr(triple)[:60] if key in weights else "none",
                expected="[w12, w13, w14]",
            )


def entry_faults(document: Mapping[str, Any], node: str) -> Iterator[ContractError]:
    """Yield every rule the entries of `styles` break."""
    entries = document.get("styles")
    if not isinstance(entries, list):
        yield _missing(document, "styles", node, "a list")
        return
    seen = set()
    for index, entry in enumerate(entries):
        here = f"{node}.styles[{index}]"
        faults = list(_style_faults(entry, here))
        yield from faults
        if not faults:
            name = (entry["category"], entry["style"])
            if name in seen:
                yield ContractError(here, "the style appears twice", found=".".join(name))
            seen.add(name)


def _style_faults(entry: Any, node: str) -> Iterator[ContractError]:
    if not isinstance(entry, dict):
        yield ContractError(node, "a style is a JSON object", found=repr(entry)[:60])
        return
    if not is_category(entry.get("category")):
        yield ContractError(
            node,
            "the category is no lower-case name",
            found=repr(entry.get("category"))[:60],
            expected="a letter, then letters, digits and '_'",
        )
    style = entry.get("style")
    if not isinstance(style, str) or not style or not is_unicode(style):
        yield ContractError(node, "the style has no name", found=ascii(style)[:60])
    expression = entry.get("expression")
    if expression is not None and not isinstance(expression, str):
        yield ContractError(f"{node}.expression", "an expression is a text", found=repr(expression)[:60])
    key = entry.get("endpoint_key", "type")
    if key not in ENDPOINT_KEYS:
        yield ContractError(
            f"{node}.endpoint_key", "unknown kind of endpoint", found=repr(key)[:60], expected=", ".join(ENDPOINT_KEYS)
        )
    yield from _param_faults(entry.get("params", {}), entry.get("category") == "pair", f"{node}.params")


def _param_faults(params: Any, pair: bool, node: str) -> Iterator[ContractError]:
    if not isinstance(params, dict):
        yield ContractError(node, "the parameters are not a JSON object", found=repr(params)[:60])
        return
    for key, value in params.items():
        if not isinstance(value, str) and not _is_number(value):
            yield ContractError(f"{node}.{key}", "a parameter is a finite number or a text", found=repr(value)[:60])
        elif pair and key == "cutoff" and isinstance(value, str):
            yield ContractError(f"{node}.{key}", "a cutoff is a number", found=repr(value)[:60])
        elif pair and key in ("special", "mixing"):
            allowed = _SPECIAL if key == "special" else _MIXING
            if value not in allowed:
                yield ContractError(
                    f"{node}.{key}", "the value is reserved", found=repr(value)[:60], expected=", ".join(allowed)
                )


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023


def endpoint_columns(table: Block) -> tuple[str, ...]:
    """Return the endpoint columns a table has, in order."""
    return tuple(name for name in ENDPOINT_COLUMNS if name in table.columns)


def parameter_columns(table: Block) -> tuple[str, ...]:
    """Return the columns of a table that are parameters: neither its name, an endpoint nor an annotation."""
    others = {"name", *ENDPOINT_COLUMNS, *ANNOTATIONS}
    return tuple(name for name in table.columns if name not in others)


def text_codes(*columns: NDArray[Any]) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Return the texts in some string columns, each once, and for every column the position of each row's text in
    them.
    """
    lists = [column.tolist() for column in columns]
    texts = list(dict.fromkeys(text for values in lists for text in values))
    # Looking hashes up beats sorting: a million rows take a quarter of a second.
    position = {text: code for code, text in enumerate(texts)}.__getitem__
    return texts, [np.fromiter(map(position, values), dtype=np.int64, count=len(values)) for values in lists]


def table_faults(table: Block, style: Style, node: str, registered: StyleDefinition | None) -> Iterator[ContractError]:
    """Yield every rule the table of a style breaks. `registered` is what the registry knows of the style."""
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
    """True if an array may stand here: where the style is known, it must take one; a map of angles is of a `cmap`."""
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
    """Yield rows of one unordered pair have the same parameters."""
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
