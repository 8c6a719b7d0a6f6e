"""The columns of a dump that is written: which of a record's, under which names, and those that are worked out.

The names are those of `dump.rows`, the other way round: `charge` is `q`, `mol_id` is `mol`, `type_id` is `type`, and
unwrapped positions are `xu yu zu`. What is worked out on request: `xs ys zs`, `xsu ysu zsu`, `xu yu zu` from wrapped
positions and images, `x y z` from unwrapped ones. Types are numbered by what the record calls them, in order of
appearance or in the one asked for. Source: the manual, "dump".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.model import Column, distinct
from molrec_convert.model.names import unescape_name
from molrec_convert.quantities.elements import NUMBERS
from molrec_convert.report import Report
from molrec_lammps.dump.rows import FLAVOURS
from molrec_lammps.write.types import order_fault

__all__ = [
    "TYPE_COLUMNS",
    "DumpColumn",
    "SourceColumn",
    "TypeNumbers",
    "choose_columns",
]

_FIRST = ("id", "mol_id", "type_id", "type", "element", "element_text", "charge")
_PLACES = ("x", "y", "z", "ix", "iy", "iz", "image_x", "image_y", "image_z", "vx", "vy", "vz", "fx", "fy", "fz")
_NAMES = {
    "charge": "q",
    "mol_id": "mol",
    "type_id": "type",
    "type": "typelabel",
    "element_text": "element",
    "image_x": "ix",
    "image_y": "iy",
    "image_z": "iz",
}
_BACK = {"q": "charge", "mol": "mol_id", "type": "type_id", "typelabel": "type"}
#: The columns of text that readers of dumps take: all others are numbers.
_TEXTS = ("type", "element", "element_text")


@dataclass(frozen=True)
class SourceColumn:
    """A column of the atoms as a record declares it: dtype, shape of a row, whether rows may be null."""

    dtype: str
    trailing: tuple[int, ...] = ()
    nullable: bool = False


@dataclass(frozen=True)
class DumpColumn:
    """One column of the dump: its name there, the column of the record, and how it is made from it.

    `how` is "" for the column as it is, "number" for ids and "types" for types that the record does not have, else the
    flavour of coordinates that `axis` is of. `part` picks a number of a row that holds several.
    """

    name: str
    source: str
    how: str = ""
    axis: int = 0
    part: int | None = None


def choose_columns(
    there: Mapping[str, SourceColumn], asked: Sequence[str], *, unwrapped: bool, plain_types: bool, report: Report
) -> list[DumpColumn]:
    """Return the columns to write. `asked` (`--dump-columns`) are names of LAMMPS or the record; without it all.

    `plain_types`: the names of types are their numbers, which `type` says already. UsageError: a name that is none.
    """
    if asked:
        return [_asked(name, there, unwrapped) for name in dict.fromkeys(asked)]
    columns: list[DumpColumn] = []
    if "id" not in there and "type_id" not in there:
        report.derived("id", "the record has no ids: atoms are numbered by row, from 1 on")
        columns.append(DumpColumn("id", "", "number"))
    if "type_id" not in there and ("type" in there or ("element" in there and "id" not in there)):
        columns.append(DumpColumn("type", "type" if "type" in there else "element", "types"))
    own = [name for name in _FIRST if name in there] + [name for name in _PLACES if name in there]
    own += [name for name in there if name not in own]
    for name in own:
        if name == "type" and plain_types:
            continue
        if there[name].dtype == "string" and name not in _TEXTS:
            report.dropped(f"atoms/{name}", "columns of a dump are numbers, but for elements and labels of types")
            continue
        if name == "type":
            how = "--dump-columns leaves it out"
            report.warn(f"the names of types are in the column typelabel, a text, which ASE does not read: {how}")
        columns += _columns(name, there[name], unwrapped)
    return _told_apart(columns, report)


def _record_name(name: str, there: Mapping[str, SourceColumn]) -> str | None:
    """Return the column of the record that a name of LAMMPS' or the record's is, None where there is none."""
    for candidate in (_BACK.get(name, name), name):
        if candidate in there:
            return candidate
    if name in ("ix", "iy", "iz") and f"image_{name[1]}" in there:
        return f"image_{name[1]}"
    return next((own for own in there if unescape_name(own) == name), None)


def _columns(name: str, source: SourceColumn, unwrapped: bool) -> list[DumpColumn]:
    own = _name(name, unwrapped)
    if not source.trailing:
        return [DumpColumn(own, name)]
    if len(source.trailing) > 1:
        raise UnsupportedError(
            f"atoms/{name}: {source.dtype}{list(source.trailing)}, and a dump has one number in a place; choose the "
            "others with --dump-columns"
        )
    return [DumpColumn(f"{own}[{part + 1}]", name, part=part) for part in range(source.trailing[0])]


def _name(name: str, unwrapped: bool) -> str:
    if unwrapped and name in ("x", "y", "z"):
        return f"{name}u"
    return _NAMES.get(name) or unescape_name(name)


def _told_apart(columns: Sequence[DumpColumn], report: Report) -> list[DumpColumn]:
    """Return each name once and without blanks; others are dropped."""
    found: dict[str, DumpColumn] = {}
    for column in columns:
        if not column.name or any(c.isspace() for c in column.name):
            report.dropped(f"atoms/{column.source}", f"{column.name!r} cannot name a column of a dump")
        elif column.name in found:
            report.dropped(f"atoms/{column.source}", f"{found[column.name].source} is written as {column.name} already")
        else:
            found[column.name] = column
    return list(found.values())


def _asked(name: str, there: Mapping[str, SourceColumn], unwrapped: bool) -> DumpColumn:
    for flavour, names in FLAVOURS.items():
        if name not in names:
            continue
        axis = names.index(name)
        own = "xu" if unwrapped else "x"
        if flavour not in (own, "x") and name in there:
            break
        if not all(axis_name in there for axis_name in "xyz"):
            break
        return DumpColumn(name, "xyz"[axis], "" if flavour == own else flavour, axis)
    source = _record_name(name, there)
    if source is not None and there[source].dtype == "string" and source not in _TEXTS:
        raise UsageError(
            f"--dump-columns: {name} is text, and columns of a dump are numbers, but for elements and labels of types"
        )
    if source is not None:
        (column, *more) = _columns(source, there[source], unwrapped)
        if more:
            raise UsageError(f"--dump-columns: {name} has {len(more) + 1} numbers a row; leave the option off for all")
        return DumpColumn(_name(source, unwrapped) if name == source else name, source, part=column.part)
    if name == "id":
        return DumpColumn("id", "", "number")
    if name == "type" and ("type" in there or "element" in there):
        return DumpColumn("type", "type" if "type" in there else "element", "types")
    known = ", ".join(dict.fromkeys([_name(own, unwrapped) for own in there]))
    raise UsageError(f"--dump-columns: the record has no column {name!r}; it has {known}, and xs, xu, xsu worked out")


#: The columns that say of which type an atom is.
TYPE_COLUMNS = ("type", "type_id", "element")


class TypeNumbers:
    """The number of each type that frames have. `asked` is `--type-order`, empty for the order of appearance."""

    def __init__(self, asked: Sequence[str], report: Report) -> None:
        self.asked, self.report = tuple(asked), report
        self.known = {name: number for number, name in enumerate(self.asked, 1)}
        if len(self.known) < len(self.asked):
            raise order_fault((), (), self.asked)

    def source(self, columns: Mapping[str, Column]) -> str:
        """Return the column of the record whose values the names asked for are.

        UsageError: a name that is neither a type nor an element, or a type that is not named.
        """
        held = {name: set(map(str, columns[name].values.tolist())) for name in TYPE_COLUMNS if name in columns}
        if not held:
            raise UsageError("--type-order: the record has neither types nor elements")
        fitting = [name for name, names in held.items() if names <= self.known.keys()]
        source = fitting[0] if fitting else next(iter(held))
        unknown = [name for name in self.asked if name not in held[source] and name not in NUMBERS]
        missing = sorted(held[source] - self.known.keys())
        if unknown or missing:
            raise order_fault(unknown, missing, sorted(held[source]))
        told = ", ".join(f"{name} is {number}" for name, number in self.known.items())
        self.report.converted("atoms/type_id", f"numbered as --type-order says: {told}")
        return source

    def of(self, names: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of each atom's type. UsageError: one that `--type-order` does not name."""
        labels, places, _ = distinct(names)
        texts = list(map(str, labels.tolist()))
        first = np.full(len(texts), len(places), dtype=np.int64)
        first[places[::-1]] = np.arange(len(places) - 1, -1, -1)
        for text in (texts[n] for n in np.argsort(first).tolist()):
            if text in self.known:
                continue
            if self.asked:
                raise order_fault((), [text], [*self.known, text])
            self.known[text] = len(self.known) + 1
            self.report.derived("type", f"the record has no type numbers: {text} is {self.known[text]}")
        return np.array([self.known[text] for text in texts] or [0], dtype=np.int64)[places]
