"""The index of several collections one after the other, column by column, without a row in between.

A column that holds nothing in one of them takes the dtype it has in the others; where one lacks it, its records have
nulls. Source: Collection and its LMDB file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.model.collection.index import INDEX_COLUMNS, first_frames
from molrec_convert.model.declaration import ColumnDeclaration
from molrec_convert.model.dtypes import DTYPES, empty
from molrec_convert.model.frame import Block, Column

__all__ = ["declared_columns", "join_columns", "joined_declarations", "joined_index"]

#: Index columns of one collection, as `Collection.index_columns` has them, and what it is called.
Named = tuple[str, Mapping[str, ColumnDeclaration]]


def joined_index(indexes: Sequence[tuple[str, Block]]) -> Block:
    """The rows of all indexes, each with the name of its collection; frames are counted through.

    Raises `ContractError` where a column has values of two dtypes.
    """
    count = sum(index.count for _, index in indexes)
    columns = {
        name: Column(np.concatenate([index[name] for _, index in indexes] or [np.zeros(0, DTYPES[dtype].numpy)]))
        for name, dtype in INDEX_COLUMNS.items()
    }
    columns["first_frame"] = Column(first_frames(columns["n_frames"].values))
    declared = joined_declarations([(where, declared_columns(index)) for where, index in indexes])
    for name, column in declared.items():
        parts = [(index.columns.get(name), index.count) for _, index in indexes]
        columns[name] = join_columns(parts, column)
    return Block(columns, count=count)


def joined_declarations(named: Sequence[Named]) -> dict[str, ColumnDeclaration]:
    """The columns all of them have together; a column that is all nulls, known by `extra["void"]`, agrees with any."""
    found: dict[str, tuple[str, ColumnDeclaration]] = {}
    for where, columns in named:
        for name, column in columns.items():
            known = found.get(name)
            if known is None or (known[1].extra.get("void") and not column.extra.get("void")):
                found[name] = where, column
                continue
            first = known[1]
            alike = (first.dtype, first.trailing, first.precision) == (column.dtype, column.trailing, column.precision)
            if not alike and not column.extra.get("void"):
                raise ContractError(
                    f"index/{name}",
                    f"{known[0]} and {where} have the index column of two kinds",
                    found=_kind(column),
                    expected=_kind(first),
                )
    return {name: column for name, (_, column) in found.items()}


def join_columns(parts: Sequence[tuple[Column | None, int]], declared: ColumnDeclaration) -> Column:
    """One column of those of each collection (None: it has none), which have so many rows."""
    values, masks, masked = [], [], False
    for column, rows in parts:
        mask = np.zeros(rows, np.bool_) if column is None else column.validity
        if column is not None and (column.dtype, column.trailing) == (declared.dtype, declared.trailing):
            values.append(column.values)
        else:
            values.append(empty(declared.dtype, (rows, *declared.trailing)))
        masked = masked or mask is not None
        masks.append(np.ones(rows, np.bool_) if mask is None else mask)
    if not values:
        return Column(empty(declared.dtype, (0, *declared.trailing)), precision=declared.precision)
    return Column(np.concatenate(values), np.concatenate(masks) if masked else None, declared.precision)


def declared_columns(index: Block) -> dict[str, ColumnDeclaration]:
    """The columns of an index beside its own, one without any value marked as void."""
    return {
        name: ColumnDeclaration(
            column.dtype,
            column.trailing,
            column.validity is not None,
            column.precision,
            {"void": True} if _is_void(column) else {},
        )
        for name, column in index.columns.items()
        if name not in INDEX_COLUMNS
    }


def _is_void(column: Column) -> bool:
    return not len(column) or (column.validity is not None and not column.validity.any())


def _kind(column: ColumnDeclaration) -> str:
    precision = "" if column.precision is None else f", precision {column.precision}"
    return f"{column.dtype}{list(column.trailing) or ''}{precision}"
