"""Rows of frames: what is read as which kind of field, where the values go, and what is said of a row at fault."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.rows import Field, Kind, RowFault, read_rows
from molrec_convert.text.texts import Texts
from molrec_xyz.columns import RowLayout
from molrec_xyz.scan import shown

__all__ = ["fault_sentence", "read_fields"]

_KINDS: dict[str, Kind] = {"R": "fortran", "I": "int", "S": "word", "L": "bool"}
_EXPECTED = {"R": "a number", "I": "an integer", "L": "T or F"}
_IN_RANGE = {"R": "a number within the range of binary64", "I": "an integer of at most 63 bits"}


@lru_cache(maxsize=256)
def _fields(letters: str, wanted: tuple[bool, ...], surplus: int) -> tuple[Field, ...]:
    own = [Field(_KINDS[letter] if asked else "skip") for letter, asked in zip(letters, wanted, strict=True)]
    return (*own, *[Field("skip")] * surplus)


def read_fields(
    texts: Texts,
    spans: NDArray[np.int64],
    layout: RowLayout,
    out: Sequence[NDArray[Any] | None],
    wanted: Sequence[bool],
) -> list[Any]:
    """Read the fields of rows that are wanted: arrays of float64, int64, bool, or `Words`; None for the others.

    `spans` has begin, end and number of rows of each piece of text, `out` arrays for the values of some fields.
    """
    surplus = 0 if layout.open else layout.surplus
    fields = _fields(layout.letters, tuple(wanted), surplus)
    table = read_rows(texts, spans, fields, extra=layout.open, out=[*out, *[None] * surplus])
    return table.columns[: len(wanted)]


def fault_sentence(fault: RowFault, layout: RowLayout) -> tuple[str, str]:
    """Return what is found in a row at fault, and what is expected there."""
    if fault.field is None or "fields" in fault.reason:
        letters = len(layout.letters)
        columns = " ".join(map(str, layout.columns))
        return f"{len(fault.found.split())} fields in {shown(fault.found)}", f"{letters} ({columns})"
    letter = layout.letters[fault.field]
    owner = [column.name for column in layout.columns for _ in range(column.width)][fault.field]
    return shown(fault.found), f"{(_IN_RANGE if fault.reason == 'range' else _EXPECTED)[letter]} ({owner})"
