"""Rows of a dump as columns, and what is said of a row at fault.

Columns keep their kind whatever the text looks like. Numbers are what the C library prints: decimal, `nan`, `inf`; a
number that is out of the range of binary64 is an error, and so is `nan` or `inf` in a coordinate.
Source: the manual, "dump", attributes of dump custom.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text import rows as text_rows
from molrec_convert.text.rows import Field, Kind, read_rows

__all__ = ["Columns", "RowFault", "kind_of", "parse_rows"]

_INTEGERS = frozenset({"id", "mol", "proc", "procp1", "type", "ix", "iy", "iz"})
_TEXTS = frozenset({"element", "typelabel"})
_SPECIAL = (b"nan", b"inf", b"infinity")

#: int64, float64 or `Words` by the name of the column.
Columns = dict[str, Any]


class RowFault(Exception):
    """A row that is not as it should be: its number among all rows (None: there are too few or too many), and why."""

    def __init__(self, row: int | None, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.row, self.found, self.expected = row, found, expected


def kind_of(name: str) -> str:
    """Return what a column of this name holds: `"integer"`, `"text"` or `"real"`."""
    if name in _INTEGERS or name.startswith(("i_", "i2_")):
        return "integer"
    return "text" if name in _TEXTS else "real"


@lru_cache(maxsize=256)
def _fields(names: tuple[str, ...], wanted: frozenset[str], finite: frozenset[str]) -> tuple[Field, ...]:
    # of columns of one name the first is read
    chosen = {names.index(name) for name in wanted}
    kinds: list[Kind] = []
    for place, name in enumerate(names):
        kind = kind_of(name)
        real: Kind = "finite" if name in finite else "real"
        own: Kind = "int" if kind == "integer" else "word" if kind == "text" else real
        kinds.append(own if place in chosen else "skip")
    return tuple(map(Field, kinds))


def parse_rows(
    text: Any,
    spans: NDArray[np.int64] | None,
    names: Sequence[str],
    wanted: Collection[str],
    finite: Collection[str] = (),
) -> Columns:
    """Return the `wanted` columns of rows with the columns `names`: int64, float64, or `Words`.

    `spans` has begin, end and number of rows of each piece of the text (None: all of it). Columns in `finite` hold
    finite numbers only. `RowFault` names the first row that is not as it should be.
    """
    fields = _fields(tuple(names), frozenset(wanted), frozenset(finite))
    try:
        columns = read_rows(text, spans, fields).columns
    except text_rows.RowFault as fault:
        raise _named(fault, spans, names, finite) from None
    return {name: columns[names.index(name)] for name in wanted}


def _named(
    fault: text_rows.RowFault, spans: NDArray[np.int64] | None, names: Sequence[str], finite: Collection[str]
) -> RowFault:
    found = _shown(fault.found)
    if fault.field is None:
        return RowFault(None, fault.reason, "as many as the header says")
    row = fault.row + (int(spans[: fault.span, 2].sum()) if spans is not None else 0)
    if "fields" in fault.reason:
        return RowFault(row, f"{len(fault.found.split())} in {found}", f"{len(names)} values ({' '.join(names)})")
    name = names[fault.field]
    if kind_of(name) == "integer":
        return RowFault(row, found, f"an integer ({name})" + " of at most 63 bits" * (fault.reason == "range"))
    if name in finite and (fault.reason == "range" or fault.found.lstrip(b"+-").lower() in _SPECIAL):
        return RowFault(row, found, f"a finite number ({name})")
    within = " within the range of binary64" * (fault.reason == "range")
    return RowFault(row, found, f"a number{within} ({name})")


def _shown(token: bytes) -> str:
    text = token.decode("utf-8", "replace").strip()
    return repr(text if len(text) <= 60 else text[:59] + "…") if text else "an empty line"
