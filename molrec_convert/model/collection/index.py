"""The index of a collection: one row per record, the binding's own columns and those derived from the records.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UnsupportedError, UsageError
from molrec_convert.model.declaration import ColumnDeclaration
from molrec_convert.model.dtypes import DTYPES, as_values, empty, plain_values
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.names import STANDARD_DTYPES, check_name, check_standard_dtype
from molrec_convert.model.record import Record

__all__ = [
    "INDEX_COLUMNS",
    "IndexBuilder",
    "IndexColumns",
    "check_index",
    "column_values",
    "declared_columns",
    "derived_value",
    "first_frames",
    "index_rows",
    "join_columns",
    "joined_declarations",
    "joined_index",
    "single_frame_columns",
]

#: The columns the binding derives itself, and their dtypes.
INDEX_COLUMNS = {"first_frame": "u64", "n_frames": "u64", "n_atoms": "u64", "has_trajectory": "bool"}

#: What fits a column of the dtype whatever its value.
_NATIVE = {"f64": float, "string": str, "bool": bool}
#: What is said of a column: its dtype ("string"), its declaration, a function of the record, or nothing.
IndexColumn = str | ColumnDeclaration | Callable[[Record], Any] | None
#: Names of columns, or name → what is said of it.
IndexColumns = Iterable[str] | Mapping[str, IndexColumn]


class IndexBuilder:
    """Gathers one row per record.

    A column without a function takes the record's value of that name: from the meta of its system, else from its
    own meta. A record without one has a null. Without a dtype a standard column name has its own, and for others the
    values decide: all texts, all bools, all integers (`i64`, or `u64` from 2^63 on), numbers (`f64`).
    """

    def __init__(self, columns: IndexColumns = ()) -> None:
        if isinstance(columns, str):
            raise UsageError(f"index columns are a list of names or a mapping, not the text {columns!r}")
        spec: dict[str, Any] = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
        self._sources: dict[str, Callable[[Record], Any]] = {}
        self._dtypes: dict[str, str | None] = {}
        self._precisions: dict[str, float | None] = {}
        self._values: dict[str, list[Any]] = {}
        #: The type of a column's first value, which those of a column without a dtype have in common.
        self._firsts: dict[str, type] = {}
        for name, entry in spec.items():
            check_index_name(name)
            if isinstance(entry, ColumnDeclaration):
                if entry.trailing:
                    raise UnsupportedError(
                        f"the index column {name!r} has several values per record, which we only read"
                    )
                self._precisions[name] = entry.precision
                entry = entry.dtype
            if isinstance(entry, str) and entry not in DTYPES:
                raise ContractError(f"index/{name}", "unknown dtype", found=repr(entry), expected=", ".join(DTYPES))
            self._sources[name] = entry if callable(entry) else functools.partial(derived_value, name=name)
            self._dtypes[name] = entry if isinstance(entry, str) else STANDARD_DTYPES.get(name)
            self._values[name] = []
            if isinstance(entry, str):
                check_standard_dtype(name, entry, f"index/{name}")
        self._counts: dict[str, array[int]] = {"n_frames": array("Q"), "n_atoms": array("Q")}
        self._has: bytearray = bytearray()

    def __len__(self) -> int:
        return len(self._has)

    def row(self, record: Record, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the derived values of a record; `given` ones win. Refused: a given column that is not one of the
        index.
        """
        if given:
            for name in given:
                if name not in self._sources:
                    check_index_name(name)
                    raise ContractError(f"index/{name}", "the collection was created without this index column")
        if not self._sources:
            return {}
        row = {}
        for name, source in self._sources.items():
            value = given[name] if given and name in given else source(record)
            value = row[name] = _plain(value, f"index/{name}")
            if value is not None:
                self._check_kind(name, value)
        return row

    def _check_kind(self, name: str, value: Any) -> None:
        """Refuse a value the column cannot take now, and not when the collection is completed."""
        dtype, first = self._dtypes[name], self._firsts.get(name)
        if dtype is not None:
            if _NATIVE.get(dtype) is not type(value):
                _as_dtype([value], dtype, f"index/{name}")
        elif first is not None and type(value) is not first and {type(value), first} != {int, float}:
            names = f"{type(value).__name__} after {first.__name__}"
            raise ContractError(f"index/{name}", "an index column holds values of one kind", found=names)

    def add(self, row: Mapping[str, Any], n_frames: int, n_atoms: int, has_trajectory: bool) -> None:
        """Add one record's row."""
        if row:
            for name, values in self._values.items():
                value = row[name]
                values.append(value)
                if value is not None and name not in self._firsts:
                    self._firsts[name] = type(value)
        counts = self._counts
        counts["n_frames"].append(n_frames)
        counts["n_atoms"].append(n_atoms)
        self._has.append(has_trajectory)

    @property
    def n_frames(self) -> int:
        """Frames of all records so far."""
        return sum(self._counts["n_frames"])

    def block(self) -> Block:
        """Return the index: the binding's columns first, the others in the order they were named."""
        return self.block_of(self._values, self._counts["n_frames"], self._counts["n_atoms"], self._has)

    def block_of(
        self,
        columns: Mapping[str, Column | list[Any]],
        n_frames: array[int],
        n_atoms: array[int],
        has_trajectory: bytes | bytearray,
    ) -> Block:
        """Return the index of records whose values are known by column: plain ones with None for a null, or a typed
        column.
        """
        frames = np.array(n_frames, np.uint64)
        made: dict[str, Column] = {
            "first_frame": Column(first_frames(frames)),
            "n_frames": Column(frames),
            "n_atoms": Column(np.array(n_atoms, np.uint64)),
            "has_trajectory": Column(np.frombuffer(bytes(has_trajectory), np.uint8).astype(np.bool_)),
        }
        for name, dtype in self._dtypes.items():
            values = columns[name]
            column = values if isinstance(values, Column) else _column(values, dtype, f"index/{name}")
            column.precision = self._precisions.get(name)
            made[name] = column
        return Block(made, count=len(has_trajectory))

    @classmethod
    def continuing(cls, index: Block, columns: IndexColumns = ()) -> IndexBuilder:
        """Return a builder that has the rows of an index already; `columns` gives functions for columns it has."""
        declared = {
            name: ColumnDeclaration(column.dtype, column.trailing, column.validity is not None, column.precision)
            for name, column in index.columns.items()
            if name not in INDEX_COLUMNS
        }
        builder = cls(declared)
        given = columns if isinstance(columns, Mapping) else dict.fromkeys(columns)
        for name, entry in given.items():
            if name not in declared:
                check_index_name(name)
                raise ContractError(f"index/{name}", "the collection was created without this index column")
            if isinstance(entry, str) and entry != declared[name].dtype:
                raise ContractError(f"index/{name}", "has another dtype", found=declared[name].dtype, expected=entry)
            if callable(entry):
                builder._sources[name] = entry
        for name in declared:
            builder._values[name] = column_values(index.columns[name])
        for name, counts in builder._counts.items():
            counts.frombytes(np.ascontiguousarray(index[name], np.uint64).tobytes())
        builder._has = bytearray(index["has_trajectory"].astype(np.uint8).tobytes())
        return builder


def single_frame_columns(n_atoms: NDArray[Any]) -> dict[str, Column]:
    """Return the binding's columns of an index of records of one frame each, of so many atoms."""
    size = len(n_atoms)
    return {
        "first_frame": Column(np.arange(size, dtype=np.uint64)),
        "n_frames": Column(np.ones(size, np.uint64)),
        "n_atoms": Column(np.asarray(n_atoms).astype(np.uint64)),
        "has_trajectory": Column(np.ones(size, np.bool_)),
    }


def column_values(column: Column, span: slice = slice(None)) -> list[Any]:
    """Return the values of an index column as plain ones, None for a null."""
    values: list[Any] = column.values[span].tolist()
    if column.validity is None:
        return values
    return [value if there else None for value, there in zip(values, column.validity[span].tolist(), strict=True)]


def index_rows(index: Block, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the values of the columns beside a collection's own, a row per record of a span; None for a null."""
    names = [name for name in index.columns if name not in INDEX_COLUMNS]
    span = slice(start, stop)
    if not names:
        yield from ({} for _ in range(*span.indices(index.count)))
        return
    for row in zip(*(column_values(index.columns[name], span) for name in names), strict=True):
        yield dict(zip(names, row, strict=True))


def first_frames(n_frames: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the exclusive prefix sum of `n_frames`."""
    first = np.zeros(len(n_frames), np.uint64)
    np.cumsum(n_frames[:-1], out=first[1:])
    return first


def check_index_name(name: str) -> None:
    """Refuse a name that cannot name an index column."""
    check_name(name, f"index/{name}")
    if name in INDEX_COLUMNS or name == "_validity":
        raise ContractError(f"index/{name}", "the name is one of the index columns a collection has by itself")


def check_index(index: Block, n_records: int, n_frames: int, node: str) -> None:
    """Refuse an index whose own columns are missing, of another dtype, or do not add up to the counts."""
    if index.count != n_records:
        raise ContractError(
            node, "the index has another number of records", found=str(index.count), expected=str(n_records)
        )
    for name, dtype in INDEX_COLUMNS.items():
        column = index.columns.get(name)
        if column is None:
            raise ContractError(f"{node}/{name}", "the index lacks this column")
        if column.dtype != dtype or column.trailing or column.validity is not None:
            found = f"{column.dtype}{list(column.trailing)}" + ("" if column.validity is None else " with nulls")
            raise ContractError(
                f"{node}/{name}", "the index column has a dtype of its own", found=found, expected=dtype
            )
    frames, first = index["n_frames"], index["first_frame"]
    if n_records and int(frames.max()) > n_frames:
        raise ContractError(f"{node}/n_frames", "a record has more frames than the collection", found=str(frames.max()))
    # in halves, which cannot overflow
    total = (int((frames >> np.uint64(32)).sum()) << 32) + int((frames & np.uint64(2**32 - 1)).sum())
    if total != n_frames:
        raise ContractError(f"{node}/n_frames", "the frames do not add up", found=str(total), expected=str(n_frames))
    wrong = np.flatnonzero(first != first_frames(frames))
    if len(wrong):
        at = int(wrong[0])
        raise ContractError(
            f"{node}/first_frame",
            f"is not the exclusive prefix sum of n_frames at record {at}",
            found=str(first[at]),
            expected=str(first_frames(frames)[at]),
        )
    if ((frames > 0) & ~index["has_trajectory"]).any():
        at = int(np.flatnonzero((frames > 0) & ~index["has_trajectory"])[0])
        raise ContractError(f"{node}/has_trajectory", f"record {at} has frames and no trajectory")


def derived_value(record: Record, name: str) -> Any:
    """Return what a record says of itself under a name: in the meta of its system, else in its own; None without."""
    if record.system is not None and name in record.system.meta:
        return record.system.meta[name]
    return record.meta.get(name)


def _plain(value: Any, node: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    raise ContractError(node, "an index column holds one plain value per record", found=type(value).__name__)


def _column(values: list[Any], dtype: str | None, node: str) -> Column:
    """Return the values as a typed column, masked where one is None."""
    known = [value for value in values if value is not None]
    if dtype is None:
        kinds = {type(value) for value in known}
        if len(kinds) > 1 and kinds != {int, float}:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ContractError(node, "an index column holds values of one kind", found=names)
        dtype = "f64" if kinds == {int, float} else None
    if not known:
        name = dtype or "string"
        mask = None if not values else np.zeros(len(values), np.bool_)
        return Column(empty(name, (len(values),)), mask)
    filled = known if len(known) == len(values) else [_filler(known[0]) if v is None else v for v in values]
    data = as_values(filled if dtype is None else _as_dtype(filled, dtype, node), dtype, node)
    return Column(data, None if len(known) == len(values) else np.array([v is not None for v in values]))


def _filler(example: Any) -> Any:
    return type(example)()


def _as_dtype(values: list[Any], dtype: str, node: str) -> NDArray[Any]:
    target = DTYPES[dtype].numpy
    if dtype == "string":
        return as_values(values, dtype, node)
    plain = plain_values(values, dtype)
    if plain is not None:
        return plain
    try:
        exact = np.array(values, dtype=object)
        cast = exact.astype(target)
    except (OverflowError, TypeError, ValueError) as error:
        raise ContractError(node, f"a value does not fit {dtype}: {error}") from None
    same = cast.astype(object) == exact
    if target.kind in "fc":
        same |= np.array([value != value for value in values])
    if not bool(np.all(same)) or (dtype == "bool") != all(isinstance(value, bool) for value in values):
        raise ContractError(node, f"a value does not fit {dtype}")
    return cast


#: Index columns of one collection, as `Collection.index_columns` has them, and what it is called.
Named = tuple[str, Mapping[str, ColumnDeclaration]]


def joined_index(indexes: Sequence[tuple[str, Block]]) -> Block:
    """Return the rows of all indexes, each with the name of its collection; frames are counted through.

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
    """Return the columns all of them have together; a column that is all nulls, known by `extra["void"]`, agrees with
    any.
    """
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
    """Return one column of those of each collection (None: it has none), which have so many rows."""
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
    """Return the columns of an index beside its own, one without any value marked as void."""
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
