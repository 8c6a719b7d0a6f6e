"""The columns a record gets from a dump, and how each is made from what the dump has.

Elements are never guessed: they come from `--elements`, a believable `element` column, labels that are symbols, or, on
request, masses. An `element` column of `C` throughout with several types or another mass is LAMMPS' default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.model import Block
from molrec_convert.model.dtypes import DTYPES, dtype_name
from molrec_lammps.common.text import names_column
from molrec_lammps.dump.batch import RowReader
from molrec_lammps.dump.rows import FLAVOURS, Rows, is_scaled

__all__ = ["ById", "ByType", "Cartesian", "Made", "OutColumn", "Plain", "TypeName", "Word"]

#: Types up to this one are looked up without sorting.
_FEW_TYPES = 2**12

#: Values of a column and its mask (None: every row holds one).
Made = tuple[NDArray[Any], NDArray[np.bool_] | None]


@dataclass(frozen=True)
class OutColumn:
    """One column of a record: name, dtype, the columns of the dump it is made from, and how.

    `make` gives values and mask for some rows; a column that is not `nullable` never has one.
    """

    name: str
    dtype: str
    reads: tuple[str, ...]
    make: Callable[[Rows], Made]
    nullable: bool = False


@dataclass(frozen=True)
class Plain:
    """A column of numbers as it is, at the dtype of the record."""

    column: str
    dtype: str

    def __call__(self, rows: Rows) -> Made:
        """See `OutColumn.make`."""
        values = rows.values[self.column]
        wanted = DTYPES[self.dtype].numpy
        if values.dtype != wanted:
            same = values.dtype.itemsize == wanted.itemsize and values.dtype.kind in "iu"
            values = values.view(wanted) if same else values.astype(wanted)
        return values, rows.mask((self.column,))


@dataclass(frozen=True)
class Word:
    """A column of text."""

    column: str
    reader: RowReader

    def __call__(self, rows: Rows) -> Made:
        """See `OutColumn.make`."""
        words = self.reader.vocabularies[self.column].words or [""]
        return names_column(words, rows.values[self.column]), rows.mask((self.column,))


@dataclass(frozen=True)
class TypeName:
    """What types are called: their labels, else their numbers."""

    labels: Mapping[int, str] = field(default_factory=dict)

    def __call__(self, rows: Rows) -> Made:
        """See `OutColumn.make`."""
        types = rows.values["type"]
        if int(types.min(initial=0)) >= 0 and int(types.max(initial=0)) < _FEW_TYPES:
            numbers, places = np.flatnonzero(np.bincount(types)), types
            names = [""] * (int(types.max(initial=0)) + 1)
            for number in numbers.tolist():
                names[number] = self.labels.get(number, str(number))
        else:
            numbers, places = np.unique(types, return_inverse=True)
            names = [self.labels.get(number, str(number)) for number in numbers.tolist()]
        return names_column(names, places), rows.mask(("type",))


@dataclass(frozen=True)
class ByType:
    """A value for each type: `values` and `known` have that of no type first, then those of `types`, in their order.

    Without `types`, int64 in ascending order, they are 1, 2, … FormatError: a type that is none of them, when `strict`.
    """

    values: NDArray[Any]
    known: NDArray[np.bool_]
    reader: RowReader
    strict: str | None = None
    types: NDArray[np.int64] | None = None

    def __call__(self, rows: Rows) -> Made:
        """See `OutColumn.make`."""
        types = rows.values["type"]
        if self.types is None or not len(self.types) or len(self.types) == self.types[-1]:
            places = types
            beyond = (types >= len(self.values)) | (types < 0)
        else:
            places = np.searchsorted(self.types[:-1], types) + 1
            beyond = self.types[places - 1] != types
        if beyond.any():
            wrong = beyond & (types != 0)
            if self.strict is not None and wrong.any():
                self._refuse(rows, wrong)
            places = np.where(beyond, 0, places)
        known = self.known[places]
        mask = rows.mask(("type",))
        known = known if mask is None else known & mask
        return self.values[places], None if known.all() else known

    def _refuse(self, rows: Rows, beyond: NDArray[np.bool_]) -> None:
        row = int(beyond.argmax())
        frame = int(rows.frames[np.searchsorted(rows.offset, row, side="right") - 1])
        table = self.reader.table
        raise FormatError(
            table.sources[table.source[frame]].path,
            table.place(frame),
            found=f"atom type {rows.values['type'][row]} in the frame of step {table.step[frame]}",
            expected=f"{self.strict}",
        )


@dataclass(frozen=True)
class ById:
    """A column of `system`, for the ids a frame has; null for ids that are not there."""

    ids: NDArray[np.uint64]
    values: NDArray[Any]
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, atoms: Block, name: str) -> ById:
        """Return the column `name` of a block with ids."""
        return cls(atoms.stored("id"), atoms.stored(name), atoms.validity(name))

    def __call__(self, rows: Rows) -> Made:
        """See `OutColumn.make`."""
        if not len(self.ids) or rows.ids is None:
            empty = np.zeros(int(rows.offset[-1]), dtype=DTYPES[dtype_name(self.values.dtype)].numpy)
            return empty, np.zeros(len(empty), dtype=np.bool_)
        places = np.minimum(np.searchsorted(self.ids, rows.ids.view(np.uint64)), len(self.ids) - 1)
        known = (self.ids[places] == rows.ids.view(np.uint64)) & self.known[places]
        return self.values[places], known


@dataclass(frozen=True)
class Cartesian:
    """One Cartesian coordinate, from whichever flavour each frame has.

    Scaled ones are H s + origin in LAMMPS' order of operations. Source: `ReadDump::xfield`.
    """

    axis: int
    reader: RowReader
    flavours: Sequence[str | None]
    kinds: NDArray[np.int64]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the dump it is made from."""
        names: list[str] = []
        for flavour in dict.fromkeys(self.flavours):
            if flavour is not None:
                names += FLAVOURS[flavour] if is_scaled(flavour) else (FLAVOURS[flavour][self.axis],)
        return tuple(dict.fromkeys(names))

    def __call__(self, rows: Rows) -> Made:
        """See `OutColumn.make`."""
        kinds = self.kinds[rows.frames]
        alike = len(kinds) > 0 and bool((kinds == kinds[0]).all())
        found = {self.flavours[kind] for kind in (kinds[:1] if alike else np.unique(kinds)).tolist()}
        if len(found) == 1:
            flavour = found.pop()
            if flavour is not None:
                return self._values(rows, flavour, slice(None)), None
        values = np.zeros(int(rows.offset[-1]))
        known = np.zeros(len(values), dtype=np.bool_)
        for flavour in found - {None}:
            these = np.array([self.flavours[kind] == flavour for kind in kinds.tolist()])
            where = np.repeat(these, rows.counts)
            assert flavour is not None
            values[where] = self._values(rows, flavour, where)
            known[where] = True
        return values, None if known.all() else known

    def _values(self, rows: Rows, flavour: str, where: Any) -> NDArray[np.float64]:
        names = FLAVOURS[flavour]
        if not is_scaled(flavour):
            return np.asarray(rows.values[names[self.axis]][where])
        table = self.reader.table
        box = table.box[rows.frames]
        vectors, origin = table.vectors[box, self.axis], table.origin[box, self.axis]
        spread = np.repeat(np.arange(len(box)), rows.counts)[where]
        total = None
        for column, name in enumerate(names):
            if vectors[:, column].any():
                term = vectors[spread, column] * rows.values[name][where]
                total = term if total is None else total + term
        base = origin[spread]
        return base if total is None else np.asarray(total + base)
