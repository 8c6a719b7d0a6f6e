"""Columns of a dump: what they hold by their names, what a record calls them, their values and order.

Columns keep their kind whatever the text looks like. Numbers are what the C library prints: decimal, `nan`, `inf`; a
number that is out of the range of binary64 is an error, and so is `nan` or `inf` in a coordinate. LAMMPS writes rows in
another order each frame; they are brought into ascending order of ids, and nothing is sorted where it can be helped:
ids that are nearly all there are their own places.

| dump | record |
|---|---|
| `x y z`, else `xu yu zu`, `xs ys zs`, `xsu ysu zsu` | `x y z`, Cartesian; the other sets under their own names |
| `q` · `mol` · `type` | `charge` · `mol_id` · `type_id`, and `type`: the label, or the number as text |
| `typelabel` · `element` | `type` · `element`, or `element_text` where it is only LAMMPS' default |
| `ix iy iz` | the same; `image_x image_y image_z` where coordinates came unwrapped, so that nobody adds them twice |
| any other | its own name; escaped by the `%XX` rule where that names no node or is a standard name of another dtype |

The first complete set of coordinates in the order above counts: what needs no arithmetic before what does, and wrapped
(as a record has it) before unwrapped. Source: the manual, "dump"; Record, "Names", "Units and coordinates".
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.names import RESERVED_COLUMNS, STANDARD_DTYPES, escape_name, name_fault, unescape_name
from molrec_convert.text import rows as text_rows
from molrec_convert.text.rows import Field, Kind, Words, read_rows

__all__ = [
    "AXES",
    "BOUNDS",
    "COORDINATES",
    "FLAVOURS",
    "Columns",
    "IdSet",
    "RepeatedId",
    "RowFault",
    "Rows",
    "Vocabulary",
    "ascending_order",
    "check_bounds",
    "flavours_of",
    "is_scaled",
    "is_unwrapped",
    "kind_of",
    "new_column",
    "own_names",
    "parse_rows",
    "repeated_row",
    "row_bytes",
]

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


_DTYPES: dict[str, type] = {"integer": np.int64, "real": np.float64, "text": np.int32}
#: What integers can be, where a record cannot hold all of int64. Source: Record, "Standard names".
BOUNDS = {
    "id": (0, 2**63 - 1),
    "type": (0, 2**31 - 1),
    "ix": (-(2**31), 2**31 - 1),
    "iy": (-(2**31), 2**31 - 1),
    "iz": (-(2**31), 2**31 - 1),
}

Integers = NDArray[np.int64]


class Vocabulary:
    """The words of a text column, numbered as they are met. Threads may share it."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._numbers: dict[bytes, int] = {}
        self._lock = threading.Lock()

    def codes(self, column: Words) -> NDArray[np.int32]:
        """Return the numbers of a column's words."""
        with self._lock:
            for word in column.words:
                if word not in self._numbers:
                    self._numbers[word] = len(self.words)
                    self.words.append(_decoded(word))
            numbers = np.array([self._numbers[word] for word in column.words], dtype=np.int32)
        return numbers[column.codes] if len(numbers) else column.codes


@dataclass
class Rows:
    """Parsed rows of frames of the trajectory, one frame after the other, ids ascending in each.

    `frames` int64[n] are ordinals of the trajectory, `offset` int64[n+1] bounds their rows. `values` holds each column
    of the dump as int64, float64, or int32 codes of its vocabulary; `present` says of a column which frames have it (a
    column that is not in `present` is in all). `ids` are int64, None where the dump has none or all frames the same.
    """

    frames: Integers
    offset: Integers
    values: dict[str, NDArray[Any]]
    present: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    ids: Integers | None = None

    @property
    def counts(self) -> Integers:
        """Rows of each frame."""
        return np.diff(self.offset)

    def take(self, positions: Integers) -> Rows:
        """Return some of the frames, by position; all of them have the same number of rows."""
        if len(positions) == len(self.frames):
            return self
        rows = int(self.offset[1]) if len(self.frames) else 0
        grid = {n: v.reshape(len(self.frames), rows)[positions].reshape(-1) for n, v in self.values.items()}
        present = {name: mask[positions] for name, mask in self.present.items()}
        return Rows(self.frames[positions], np.arange(len(positions) + 1, dtype=np.int64) * rows, grid, present)

    def mask(self, names: Iterable[str]) -> NDArray[np.bool_] | None:
        """Return which rows have all the columns `names`; None: every one."""
        masks = [self.present[name] for name in names if name in self.present]
        return np.repeat(np.logical_and.reduce(masks), self.counts) if masks else None


def new_column(name: str, rows: int) -> NDArray[Any]:
    """Return an array for the values of a column; what is in it is not defined."""
    return np.empty(rows, dtype=_DTYPES[kind_of(name)])


def row_bytes(wanted: Collection[str]) -> int:
    """Return bytes of one row of columns."""
    return max(8, sum(np.dtype(_DTYPES[kind_of(name)]).itemsize for name in wanted))


def check_bounds(columns: Columns, bounds: Mapping[str, tuple[int, int]]) -> None:
    """Refuse integers that a record cannot hold."""
    for name, (low, high) in bounds.items():
        values = columns.get(name)
        if values is None or not len(values) or (values.min() >= low and values.max() <= high):
            continue
        row = int(np.flatnonzero((values < low) | (values > high))[0])
        raise RowFault(row, f"{values[row]} ({name})", f"an integer from {low} to {high}")


def _decoded(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return word.decode("latin-1")


AXES = ("x", "y", "z")
#: Sets of coordinates, the first complete one counts.
FLAVOURS: dict[str, tuple[str, str, str]] = {
    "x": ("x", "y", "z"),
    "xu": ("xu", "yu", "zu"),
    "xs": ("xs", "ys", "zs"),
    "xsu": ("xsu", "ysu", "zsu"),
}
#: Every column that is a coordinate.
COORDINATES = frozenset(name for names in FLAVOURS.values() for name in names)

_DTYPES_OF_NAMES = {"integer": "i64", "text": "string", "real": "f64"}


def flavours_of(combinations: Sequence[Iterable[str]]) -> list[str | None]:
    """Return the flavour that counts for each set of columns of a dump whose frames do not all have the same.

    One that all frames have is preferred, then one kind, wrapped or unwrapped; else each frame's own counts.
    """
    sets = [set(columns) for columns in combinations]
    complete = [[flavour for flavour, names in FLAVOURS.items() if there.issuperset(names)] for there in sets]
    for allowed in (("x",), ("xu",), ("x", "xs"), ("xu", "xsu"), tuple(FLAVOURS)):
        chosen = [next((flavour for flavour in own if flavour in allowed), None) for own in complete]
        if all(flavour is not None or not own for flavour, own in zip(chosen, complete, strict=True)):
            return chosen
    raise AssertionError("every flavour is allowed in the end")


def is_unwrapped(flavour: str | None) -> bool:
    """True if coordinates of a flavour are unwrapped."""
    return flavour in ("xu", "xsu")


def is_scaled(flavour: str | None) -> bool:
    """True if coordinates of a flavour are fractions of the cell."""
    return flavour in ("xs", "xsu")


def own_names(columns: Sequence[str], taken: Iterable[str]) -> dict[str, str]:
    """Return names in the record of columns that keep their own; names in `taken` are others' already."""
    used = set(taken)
    names = {}
    for column in columns:
        name = column
        standard = STANDARD_DTYPES.get(column, _DTYPES_OF_NAMES[kind_of(column)])
        if (
            name_fault(column) is not None
            or column in RESERVED_COLUMNS
            or column in used
            or standard != _DTYPES_OF_NAMES[kind_of(column)]
            or _unescaped(column) != column
        ):
            name = escape_name(column)
            if name == column:
                first = column[0].encode()
                name = "".join(f"%{byte:02X}" for byte in first) + column[1:]
        names[column] = name
        used.add(name)
    return names


def _unescaped(name: str) -> str | None:
    try:
        return unescape_name(name)
    except UnicodeDecodeError:
        return None


#: A table of places is used where it has at most this many entries an id (and always up to a megabyte).
_SPARSE = 8
_SMALL = 2**17


class RepeatedId(Exception):
    """Some frame has an id twice."""


class IdSet:
    """The ids every frame has: `ids` int64[n], ascending. It tells the place of each id."""

    def __init__(self, ids: Integers) -> None:
        self.ids = ids
        self._low = int(ids[0]) if len(ids) else 0
        span = int(ids[-1]) - self._low + 1 if len(ids) else 0
        self._dense = span == len(ids)
        self._table: Integers | None = None
        if not self._dense and span <= max(_SPARSE * len(ids), _SMALL):
            self._table = np.full(span, -1, dtype=np.int64)
            self._table[ids - self._low] = np.arange(len(ids))

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, ids: Integers) -> Integers | None:
        """Return the place of each of `ids`, None when one is not in the set."""
        if not len(ids):
            return ids
        low, high = int(ids.min()), int(ids.max())
        if not len(self.ids) or low < self._low or high > self.ids[-1]:
            return None
        if self._dense:
            return ids - self._low
        if self._table is not None:
            places = self._table[ids - self._low]
            return None if bool((places < 0).any()) else places
        places = np.searchsorted(self.ids, ids)
        return places if bool((self.ids[places] == ids).all()) else None

    def order(self, ids: Integers) -> Integers | None:
        """For ids of whole frames, one after the other: `ids[order]` is the set, frame after frame.

        None when some frame has other ids, or one twice.
        """
        places = self.places(ids)
        if places is None:
            return None
        frames = len(ids) // max(1, len(self.ids))
        places = (places.reshape(frames, -1) + (np.arange(frames, dtype=np.int64) * len(self.ids))[:, None]).reshape(-1)
        order = np.full(len(ids), -1, dtype=np.int64)
        order[places] = np.arange(len(ids))
        return None if len(order) and order.min() < 0 else order

    def in_order(self, ids: Integers) -> bool:
        """True if ids of whole frames are the set, frame after frame, already."""
        rows = ids.reshape(-1, len(self.ids)) if len(self.ids) else ids.reshape(0, 0)
        return bool(len(rows) and (rows[0] == self.ids).all() and (rows == self.ids).all())


def ascending_order(ids: Integers, counts: Integers) -> Integers | None:
    """For ids of whole frames with `counts` rows: the order that lets them ascend in each. None: they do already.

    RepeatedId: some frame has an id twice.
    """
    if len(ids) < 2:
        return None
    rising = ids[1:] > ids[:-1]
    seams = np.cumsum(counts)[:-1]
    rising[seams[(seams > 0) & (seams < len(ids))] - 1] = True
    if rising.all():
        return None
    low = int(ids.min())
    span = int(ids.max()) - low + 1
    frame = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    if span * len(counts) <= _SPARSE * len(ids) + _SMALL:
        table = np.full(span * len(counts), -1, dtype=np.int64)
        table[ids - low + frame * span] = np.arange(len(ids))
        order = table[table >= 0]
        if len(order) != len(ids):
            raise RepeatedId
        return order
    order = np.lexsort((ids, frame)) if len(counts) > 1 else np.argsort(ids, kind="stable")
    same = (ids[order][1:] == ids[order][:-1]) & (frame[order][1:] == frame[order][:-1])
    if same.any():
        raise RepeatedId
    return order


def repeated_row(ids: Integers) -> int | None:
    """Return the first row of one frame whose id stands in an earlier row, None when there is none."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order][1:] == ids[order][:-1]]
    return int(again.min()) if len(again) else None


def take_rows(values: NDArray[Any], order: Integers | None, out: NDArray[Any]) -> None:
    """`out = values[order]`."""
    if order is None:
        out[...] = values
    else:
        np.take(values, order, out=out, mode="clip")
