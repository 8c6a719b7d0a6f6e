"""Sections of `fix property/atom`: columns of atoms that the comment after the section's name lists.

`write_data` names them (`prop # i_a d_b mol`); array columns lose their number of columns there, and a section that any
other fix reads has no such comment. Such sections stay text. Source: the manual, "fix property/atom", "read_data".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.texts import Texts
from molrec_lammps.common.atom_styles import Column
from molrec_lammps.data.checks import AtomIndex
from molrec_lammps.data.rows import BadRow, read_columns

__all__ = ["PROPERTY_COLUMNS", "property_table"]

#: Words of `fix property/atom` that are no `i_name` or `d_name`: what a column of theirs is called in a record.
PROPERTY_COLUMNS = {
    "mol": "mol_id",
    "q": "charge",
    "rmass": "rmass",
    "temperature": "temperature",
    "heatflow": "heatflow",
}


def property_table(
    text: bytes, hint: str | None, rows: int, index: AtomIndex, taken: Collection[str]
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]] | None:
    """The columns a section's comment names and the rows (in order of ids) of their atoms.

    None where the comment names none, where the rows are otherwise, or where a column would have a name in `taken`.
    """
    words = (hint or "").split()
    columns = [_column(word) for word in words]
    names = [column.name for column in columns if column is not None]
    if not names or len(set(names)) < len(words) or set(names) & set(taken) or b"#" in text:
        return None
    try:
        spans = np.array([[0, len(text), rows]])
        arrays, _ = read_columns(Texts(text), spans, [Column("id", "int"), *(c for c in columns if c is not None)])
    except BadRow:
        return None
    ids = arrays.pop("id")
    places, absent = index.rows(ids)
    if absent is not None or len(np.unique(places)) < len(places):
        return None
    return arrays, places


def _column(word: str) -> Column | None:
    if word.startswith(("i_", "d_")) and len(word) > 2:
        return Column(word, "int" if word[0] == "i" else "float")
    name = PROPERTY_COLUMNS.get(word)
    return None if name is None else Column(name, "int" if word == "mol" else "float")
