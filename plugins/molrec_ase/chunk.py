"""Consecutive configurations in a record's terms: what every source of ASE's data is turned into.

A `Part` is one configuration, a `Chunk` several with the rows of their atoms joined. Columns and values have the
names they have in a record; `names` says which are whose.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.values import SYMBOL_ARRAY
from molrec_convert.files.json_text import read_json
from molrec_convert.model.dtypes import as_values
from molrec_convert.model.tags import from_typed_json

__all__ = ["BESIDE", "Chunk", "Part", "apart", "has_bits", "join_parts", "joined", "put_back", "split_chunk"]


def has_bits(values: NDArray[np.float64]) -> bool:
    """True if numbers are anything else than positive zeros."""
    return bool(np.ascontiguousarray(values).view(np.uint64).any())


@dataclass
class Part:
    """One configuration: columns of its atoms, values of its own, its cell (vectors as columns), origin, boundary."""

    count: int
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    vectors: NDArray[np.float64] = field(default_factory=lambda: np.zeros((3, 3)))
    origin: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    boundary: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(3, np.bool_))
    meta: dict[str, Any] = field(default_factory=dict)
    step: int | None = None
    time: float | None = None
    #: Keys that are one value per frame, whatever they hold.
    per_step: frozenset[str] = frozenset()


@dataclass
class Chunk:
    """Configurations: `counts` atoms each, `columns[name]` the rows of all, `present[name]` who has the column.

    Rows of a configuration without a column hold nothing of meaning. A column that is not in `present` is everyone's.
    `values[name]` has one entry each, None for none.
    """

    counts: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    present: dict[str, NDArray[np.bool_]]
    values: dict[str, list[Any]]
    vectors: NDArray[np.float64]
    origin: NDArray[np.float64]
    boundary: NDArray[np.bool_]
    metas: list[dict[str, Any]]
    steps: list[int | None]
    times: list[float | None]
    per_step: list[frozenset[str]]
    #: Atomic numbers of all rows where `element` follows from them and is not among the columns.
    numbers: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def with_elements(self) -> Chunk:
        """Return the chunk with `element` among its columns."""
        if self.numbers is not None:
            self.columns = {"element": SYMBOL_ARRAY[self.numbers], **self.columns}
            self.numbers = None
        return self

    @property
    def offset(self) -> NDArray[np.int64]:
        """Where the rows of each configuration begin, and the end."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)


def join_parts(parts: Sequence[Part]) -> Chunk:
    """Return the chunk of some configurations; a column is of the shape and dtype its first owner has."""
    counts = np.array([part.count for part in parts], np.int64)
    columns: dict[str, NDArray[Any]] = {}
    present: dict[str, NDArray[np.bool_]] = {}
    for name in dict.fromkeys(name for part in parts for name in part.columns):
        there = np.array([name in part.columns for part in parts])
        sample = next(part.columns[name] for part in parts if name in part.columns)
        pieces = [
            part.columns[name] if name in part.columns else np.zeros((part.count, *sample.shape[1:]), sample.dtype)
            for part in parts
        ]
        columns[name] = np.concatenate(pieces)
        if not there.all():
            present[name] = there
    return Chunk(
        counts,
        columns,
        present,
        {
            name: [part.values.get(name) for part in parts]
            for name in dict.fromkeys(name for part in parts for name in part.values)
        },
        np.array([part.vectors for part in parts], np.float64).reshape(-1, 3, 3),
        np.array([part.origin for part in parts], np.float64).reshape(-1, 3),
        np.array([part.boundary for part in parts], np.bool_).reshape(-1, 3),
        [part.meta for part in parts],
        [part.step for part in parts],
        [part.time for part in parts],
        [part.per_step for part in parts],
    )


def split_chunk(chunk: Chunk) -> list[Part]:
    """Return the configurations of a chunk one by one; their columns are views."""
    offset = chunk.offset.tolist()
    parts = []
    for number in range(len(chunk)):
        rows = slice(offset[number], offset[number + 1])
        parts.append(
            Part(
                rows.stop - rows.start,
                {
                    name: values[rows]
                    for name, values in chunk.columns.items()
                    if name not in chunk.present or chunk.present[name][number]
                },
                {name: entry[number] for name, entry in chunk.values.items() if entry[number] is not None},
                chunk.vectors[number],
                chunk.origin[number],
                chunk.boundary[number],
                chunk.metas[number],
                chunk.steps[number],
                chunk.times[number],
                chunk.per_step[number],
            )
        )
    return parts


BESIDE = "molrec"
_PARTS = frozenset({"columns", "texts", "named", "rest"})


def joined(data: dict[str, Any], columns: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a row, with what stands beside it where there is anything."""
    plain = {name: values.tolist() if values.dtype.kind == "T" else values for name, values in columns.items()}
    named = [[name, plain.pop(name)] for name in columns if _is_whole(name)]
    texts = {name: values for name, values in plain.items() if isinstance(values, list)}
    found: dict[str, Any] = {"columns": {name: values for name, values in plain.items() if name not in texts}}
    found.update(texts=texts, named=named)
    if rest:
        found["rest"] = json.dumps(rest)
    found = {key: value for key, value in found.items() if value}
    return {**data, BESIDE: found} if found else data


def apart(data: Any) -> tuple[Any, dict[str, Any] | None]:
    """Return the data of a row without what stands beside it, and that. ValueError where it is no JSON."""
    if not isinstance(data, dict) or not isinstance(data.get(BESIDE), dict) or not data[BESIDE].keys() <= _PARTS:
        return data, None
    rest = {key: value for key, value in data.items() if key != BESIDE}
    beside = data[BESIDE]
    columns = {**beside.get("columns", {}), **beside.get("texts", {}), **dict(beside.get("named", ()))}
    for name, values in columns.items():
        if isinstance(values, list):
            columns[name] = np.array(values, np.dtypes.StringDType())
    return rest or None, {**read_json(beside.get("rest", "{}")), "columns": columns}


def put_back(part: Part, beside: dict[str, Any]) -> Part:
    """Return the configuration with what stands beside the row. ValueError where it does not fit."""
    for name in beside.get("without", ()):
        part.columns.pop(name, None)
        part.values.pop(name, None)
    for name, values in beside.get("columns", {}).items():
        column = as_values(np.asarray(values))
        if len(column) != part.count:
            raise ValueError(f"the column {name} has {len(column)} rows for {part.count} atoms")
        part.columns[name] = column
    for name, (tag, document) in beside.get("keys", {}).items():
        part.values[name] = from_typed_json(document, tag, name)
    if "origin" in beside:
        part.origin = np.array(beside["origin"], np.float64).reshape(3)
    part.step, part.time = beside.get("step"), beside.get("time")
    part.meta = dict(beside.get("meta", {}))
    part.per_step = frozenset(beside.get("per_step", ()))
    return part


def _is_whole(name: str) -> bool:
    try:
        int(name)
    except ValueError:
        return False
    return True
