"""Several sources as one collection, and one collection divided into several at random."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.declaration import MIGRATION, collection_document, joined_migrations
from molrec_convert.model.collection.index import IndexBuilder
from molrec_convert.model.collection.member import as_member, collection_units, member_rows, report_losses
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.model.declaration_joining import following, joined_sources
from molrec_convert.model.dtypes import distinct
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.record import Record
from molrec_convert.model.trajectory import Trajectory
from molrec_convert.report import Report

__all__ = ["JoinedCollection", "Source", "parse_fractions", "split_positions"]

#: What a source is called, and what opens it.
Source = tuple[str, Callable[[], Record | Collection]]


class JoinedCollection(Collection):
    """The records of all sources, in their order. Raises `ContractError` where they cannot be of one collection.

    The declaration is that of all of them joined: what some lack is missing there, and a per-step key that cannot be is
    left out; both are reported. A force field is carried when all sources have the same one. Units must agree.
    """

    def __init__(self, sources: Sequence[Source], report: Report | None = None) -> None:
        self._sources = list(sources)
        self._report = Report() if report is None else report
        survey = _Survey(self._report)
        self._counts: list[int] = []
        for name, source in self._opened():
            self._counts.append(survey.add(name, source))
        self.document = survey.document()
        self.declaration = survey.declaration()
        self._forcefield = survey.forcefield()
        self._columns = survey.columns
        #: For each source the numbers of its migrations among those of all; None where there is nothing to tell apart.
        self._ways = survey.ways
        self._index: Block | None = None

    @property
    def index(self) -> Block:
        """See `Collection.index`; made on first use, which reads every source to its end."""
        if self._index is None:
            builder = IndexBuilder(self._columns)
            for record, row in self.members():
                frames, atoms = _counted(record.trajectory)
                builder.add(builder.row(record, row), frames, member_rows(record, atoms), record.trajectory is not None)
            self._index = builder.block()
        return self._index

    @property
    def index_columns(self) -> dict[str, ColumnDeclaration]:
        """See `Collection.index_columns`."""
        return dict(self._columns)

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return int(self.index["n_frames"].sum())

    @property
    def forcefield(self) -> ForceField | None:
        """See `Collection.forcefield`."""
        return self._forcefield

    def __len__(self) -> int:
        return sum(self._counts)

    def record(self, index: int) -> Record:
        """See `Collection.record`. Closing it closes the source it is from."""
        for (_, opened), count in zip(self._sources, self._counts, strict=True):
            if index < count:
                source = opened()
                record = source if isinstance(source, Record) else source[index]
                return dataclasses.replace(self._member(record), _close=source.close)
            index -= count
        raise IndexError(index)

    def __iter__(self) -> Iterator[Record]:
        return (record for record, _ in self.members())

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`. A record is to be used before the next one is asked for."""
        for number, (_, source) in enumerate(self._opened()):
            ways = None if self._ways is None else self._ways[number]
            if isinstance(source, Record):
                yield self._member(source), {} if ways is None else {MIGRATION: ways[0]}
                continue
            for position, (record, row) in enumerate(source.members()):
                for part in source.unknown_parts(position):
                    self._report.dropped(part, "this version has no meaning for it")
                yield self._member(record), row if ways is None else {**row, MIGRATION: ways[row.get(MIGRATION) or 0]}

    def _opened(self) -> Iterator[tuple[str, Record | Collection]]:
        for name, opened in self._sources:
            source = opened()
            try:
                yield name, source
            finally:
                source.close()

    def _member(self, record: Record) -> Record:
        """Return the record without a force field of its own, with the per-step keys of all."""
        member = as_member(record, self._report)
        changes: dict[str, Any] = {"forcefield": None, "_close": None}
        if member.trajectory is not None:
            changes["trajectory"] = following(member.trajectory, self.declaration)
        return dataclasses.replace(member, **changes)


class _Survey:
    """What the sources say, source by source, and what a collection of all of them says."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._declarations: list[tuple[str, Declaration]] = []
        self._units: dict[str, tuple[str, str]] = {}
        self._silent: list[str] = []
        self._documents: list[Mapping[str, Any]] = []
        self._forcefields: list[tuple[str, ForceField | None]] = []
        self._version = 1
        self.columns: dict[str, ColumnDeclaration] = {}
        self.ways: list[list[int]] | None = None

    def add(self, name: str, source: Record | Collection) -> int:
        """Take in a source; returns the number of its records."""
        forcefield = source.forcefield
        self._forcefields.append((name, forcefield))
        self._documents.append({} if isinstance(source, Record) else source.document)
        if isinstance(source, Record):
            report_losses(dataclasses.replace(source, forcefield=None, _close=None), self._report)
            member = as_member(source, self._report)
            if member.trajectory is not None:
                self._declarations.append((name, member.trajectory.declaration))
            self._add_units(name, collection_units(source.units), stated=source.units is not None)
            version = source.meta.get("molrec_version", 1)
            if type(version) is int:
                self._version = max(self._version, version)
            count = 1
        else:
            self._declarations.append((name, source.declaration))
            self._add_units(name, source.units, stated=bool(source.units))
            self._version = max(self._version, source.document.get("molrec_version", 1))
            self._add_columns(name, source.index_columns)
            for key in source.extra:
                self._report.dropped(f"key {key} of {name}", "it is said of a whole collection, which is joined here")
            count = len(source)
        if forcefield is not None:
            self._version = max(self._version, forcefield.minimum_version)
        return count

    def declaration(self) -> Declaration:
        """Return what all sources can follow; report what some of them lack and what has to be left out for that."""
        declaration = joined_sources(self._declarations, self._report)
        for name, entry in self._declarations:
            for key in entry.meta.keys() - declaration.meta.keys():
                self._report.dropped(
                    f"trajectory/meta/{key} of {name}", "the records of a collection have the same per-step keys"
                )
        return declaration

    def document(self) -> dict[str, Any]:
        """Return units and version, and what the documents of all collections agree on."""
        if self._silent and self._units:
            listed = ", ".join(self._silent[:3]) + (f" and {len(self._silent) - 3} more" if self._silent[3:] else "")
            self._report.warn(f"no units are stated by {listed}: they are taken for those of the others")
        units = {quantity: unit for quantity, (unit, _) in self._units.items()}
        first = self._documents[0] if self._documents else {}
        common = {key: value for key, value in first.items() if all(d.get(key) == value for d in self._documents)}
        made = joined_migrations(self._documents)
        if made is not None:
            common["migration"], self.ways = made
            self.columns.setdefault(MIGRATION, ColumnDeclaration("u32"))
        for document in self._documents:
            for key in document.keys() - common.keys() - {"units", "molrec_version"}:
                self._report.dropped(f"collection.{key}", "not all sources state the same")
        return collection_document({**common, "molrec_version": self._version, "units": units})

    def forcefield(self) -> ForceField | None:
        """Return the force field all sources have; one that not all have is reported as dropped."""
        found = [(name, entry) for name, entry in self._forcefields if entry is not None]
        if not found:
            return None
        first = found[0][1]
        if len(found) == len(self._forcefields) and all(entry == first for _, entry in found):
            return first
        for name, _ in found:
            self._report.dropped(
                f"forcefield of {name}", "a collection has one force field, and not all sources have the same"
            )
        return None

    def _add_units(self, name: str, units: Mapping[str, str], *, stated: bool) -> None:
        if not stated:
            self._silent.append(name)
        for quantity, unit in units.items():
            known, where = self._units.setdefault(quantity, (unit, name))
            if known != unit:
                raise ContractError(
                    f"units.{quantity}",
                    f"the numbers of a collection are in one unit: {where} and {name} differ",
                    found=unit,
                    expected=known,
                )

    def _add_columns(self, name: str, columns: Mapping[str, ColumnDeclaration]) -> None:
        for key, column in columns.items():
            if column.trailing:
                self._report.dropped(f"index/{key} of {name}", "index columns of several values are only read")
                continue
            known = self.columns.setdefault(key, column)
            if known.dtype != column.dtype:
                raise ContractError(
                    f"index/{key}", f"{name} has it of another dtype", found=column.dtype, expected=known.dtype
                )


def _counted(trajectory: Trajectory | None) -> tuple[int, int | None]:
    """Return the number of frames of a trajectory, and of rows in its first update of `atoms`."""
    if trajectory is None:
        return 0, None
    count, rows = 0, None
    for batch in trajectory.batches():
        count += batch.n_frames
        atoms = batch.blocks.get("atoms")
        if rows is None and atoms is not None and len(atoms.frames):
            rows = int(atoms.offset[1] - atoms.offset[0])
    return count, rows


def parse_fractions(text: str) -> dict[str, float]:
    """Return `train=0.8,valid=0.1,test=0.1` as a mapping; `UsageError` unless all are positive and add up to one."""
    fractions: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = part.partition("=")
        name = name.strip()
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not equals or not name or not 0 < value <= 1:
            raise UsageError(f"fractions are NAME=PART,... like train=0.8,valid=0.1,test=0.1: found {part.strip()!r}")
        if name in fractions:
            raise UsageError(f"the side {name!r} is named twice")
        if "/" in name or name.startswith("."):
            raise UsageError(f"a side becomes part of a file's name, which {name!r} cannot be")
        fractions[name] = value
    total = math.fsum(fractions.values())
    if abs(total - 1) > 1e-9:
        raise UsageError(f"the fractions add up to {total:.12g}, not to 1")
    return fractions


def split_positions(
    collection: Collection, fractions: Mapping[str, float], *, by: str | None = None, seed: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Return the records of each side, in order; with `by`, equal values of that index column stay on one side.

    A record without a value is a group of its own. Raises `UsageError` for an unknown column, or an empty side.
    """
    count = len(collection)
    if by is None:
        groups, labels = np.arange(count), [b"#%d" % n for n in range(count)]
    else:
        columns = collection.index.columns
        if by not in columns:
            raise UsageError(f"the collection has no index column {by!r}; it has {', '.join(columns)}")
        if columns[by].trailing:
            raise UsageError(f"the index column {by!r} has several values per record: records are not divided by it")
        groups, labels = _groups(columns[by])
    sizes = np.bincount(groups, minlength=len(labels)).tolist()
    order = sorted(range(len(labels)), key=lambda group: _hash(labels[group], seed))
    sides = _assign(order, sizes, list(fractions.values()), count)
    side_of = np.asarray(sides, np.int64)[groups] if count else np.zeros(0, np.int64)
    found = {name: np.flatnonzero(side_of == side).astype(np.int64) for side, name in enumerate(fractions)}
    for name, positions in found.items():
        if not len(positions):
            groups_of = f"{len(labels):,} group{'' if len(labels) == 1 else 's'} of equal {by}"
            what = f"{count:,} records" if by is None else groups_of
            raise UsageError(f"of {what} none is left for {name!r}: name fewer sides with --fractions, or other parts")
    return found


def _groups(column: Column) -> tuple[NDArray[np.int64], list[bytes]]:
    """Return the group of each record, and a label of each group that says what its value is."""
    values = column.values
    if values.dtype.kind == "f":
        # equal numbers are one group, whatever their sign or their NaN
        values = np.where(values == 0, 0.0, values)
    elif values.dtype.kind == "c":
        raise UsageError("records are not divided by complex numbers")
    unique, groups, _ = distinct(values)
    labels = [_label(value) for value in unique.tolist()]
    if column.validity is not None:
        missing = np.flatnonzero(~column.validity)
        groups[missing] = len(labels) + np.arange(len(missing))
        labels += [b"#%d" % n for n in missing.tolist()]
        # values that only nulls had are of no group
        used, groups = np.unique(groups, return_inverse=True)
        groups = groups.reshape(-1).astype(np.int64)
        labels = [labels[group] for group in used.tolist()]
    return groups, labels


def _label(value: Any) -> bytes:
    return f"{type(value).__name__}:{value if isinstance(value, str) else repr(value)}".encode("utf-8", "surrogatepass")


def _hash(label: bytes, seed: int) -> bytes:
    return hashlib.blake2b(label, digest_size=16, key=str(seed).encode()[:64]).digest() + label


def _assign(order: Sequence[int], sizes: Sequence[int], fractions: Sequence[float], count: int) -> list[int]:
    """Return the side of each group: each goes, in this order, where most records are lacking."""
    lacking = [fraction * count for fraction in fractions]
    sides = [0] * len(sizes)
    for group in order:
        side = max(range(len(lacking)), key=lacking.__getitem__)
        sides[group] = side
        lacking[side] -= sizes[group]
    return sides
