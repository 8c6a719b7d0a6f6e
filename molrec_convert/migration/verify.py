"""A collection held against the sources it was made of: each record is read again and compared, value by value.

Which record is of which source the index says (`source`, `source_record`, as a migration writes them); without these
columns the sources' records are taken in their order. What a migration did on purpose (units, names, fills) is done to
the source's records before they are compared: `collection.migration` says it, or whoever calls. Records of the sources
that are not in the collection, and those that are there twice, are told as well.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from molrec_convert.errors import MolrecError, UsageError
from molrec_convert.formats import NoProgress, Progress
from molrec_convert.inspect.diff import differences
from molrec_convert.meaning.units import Scaling
from molrec_convert.migration.inputs.adapting import Adapter, Naming
from molrec_convert.migration.inputs.inputs import InputTable, expand_inputs, path_text
from molrec_convert.migration.inputs.sources import (
    FormatFinder,
    Sources,
    check_harmless,
    record_count,
    records_of,
    rows_of,
)
from molrec_convert.migration.outputs.index import IndexCheck
from molrec_convert.migration.pool import Pool
from molrec_convert.migration.settings import RuleBook, Settings
from molrec_convert.migration.state import State, is_error, read_failures
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.declaration import MIGRATION
from molrec_convert.model.collection.index import column_values
from molrec_convert.model.collection.member import as_member, collection_units
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.record import Record
from molrec_convert.model.trajectory import TrajectoryView
from molrec_convert.plugins import naming_faults
from molrec_convert.quantities.standard import NamedFactors
from molrec_convert.report import Report

__all__ = ["Verification", "parse_sample", "recorded_migrations", "verify_collection"]

SOURCE, SOURCE_RECORD = "source", "source_record"
#: What may be left out.
_DUPLICATES = "records of the sources are not in the collection, which has no duplicates"
_FAULTY = "records or sources are not in the collection, as they were at fault"
_ELSEWHERE = "records of the sources are not in this part of what was made of them"
_ASIDE = "files that were found in directories cannot be read, and have no record"
_LEFT_OUT = (_DUPLICATES, _FAULTY, _ELSEWHERE, _ASIDE)
#: So many differences are told of one record.
_MOST = 20


@dataclasses.dataclass
class Verification:
    """What came of it: records compared, those that differ, lines that say how; `notes` of what was left out.

    `absent` counts the records of the sources that are not in the collection, `surplus` those it has once more.
    """

    records: int = 0
    compared: int = 0
    different: int = 0
    absent: int = 0
    surplus: int = 0
    sources: int = 0
    lines: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def note(self, text: str) -> None:
        """Something that was left out, told once."""
        if text not in self.notes:
            self.notes.append(text)

    def differ(self, line: str) -> None:
        """A record that differs as a whole."""
        self.compared += 1
        self.different += 1
        self.lines.append(line)

    def take(self, more: Verification) -> None:
        """Add what came of some more."""
        self.compared += more.compared
        self.different += more.different
        self.absent += more.absent
        self.lines += more.lines
        for text in more.notes:
            self.note(text)

    def taken(self) -> Verification:
        """Return what came so far, and begin anew."""
        told = dataclasses.replace(self)
        self.compared = self.different = self.absent = 0
        self.lines, self.notes = [], []
        return told

    @property
    def is_equal(self) -> bool:
        """True if nothing differs, is absent or is there once more."""
        return not (self.different or self.absent or self.surplus)

    def to_json(self) -> dict[str, Any]:
        """As a JSON document."""
        return dataclasses.asdict(self)


def parse_sample(text: str) -> float:
    """Return `1%`, or `all`, as a part of one. Raises `UsageError` for anything else."""
    if text == "all":
        return 1.0
    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = -1.0
    if not text.endswith("%") or not 0 < part <= 1:
        raise UsageError(f"a sample is all, or a part like 1%: found {text!r}")
    return part


def recorded_migrations(collection: Collection) -> list[dict[str, Any]]:
    """Return what the collection says of how it was made, under `migration`: a document for each of its parts."""
    stated = collection.document.get("migration")
    stated = stated if isinstance(stated, dict) else {}
    parts = stated.get("parts")
    if not isinstance(parts, list) or not parts:
        return [stated]
    part = {"part": True} if stated.get("part") is True else {}
    return [{**(way if isinstance(way, dict) else {}), **part} for way in parts]


def verify_collection(
    collection: Collection,
    inputs: Sequence[str | os.PathLike[str]],
    *,
    sample: float = 1.0,
    seed: int = 0,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Read the sources again and compare the records made of them, or a `sample` of these, bit for bit.

    `inputs` are paths, globs and lists as for `migrate`. Raises `UsageError` where the sources cannot be those of the
    collection; a source that cannot be read any more is a difference.
    """
    made = recorded_migrations(collection)
    progress = NoProgress() if progress is None else progress
    table = expand_inputs(inputs, Path(collection.path or "collection"))
    paths = table.paths
    result = Verification(len(collection), sources=len(paths))
    ways = [(Settings.stated(way) if settings is None else settings, bool(way.get("part"))) for way in made]
    here = functools.partial(_Reader, collection, ways, here=True)
    with Pool(_Reader, (collection, ways), 1, _LostReader, here) as pool:
        there = _by_source(collection, paths, result)
        found = there if there is not None else _in_order(collection, paths, pool)
        _compare_sources(collection, table, found, pool, result, progress, (sample, seed, len(ways)))
    return result


def _compare_sources(
    collection: Collection,
    table: InputTable,
    found: Mapping[str, Mapping[int, int]],
    pool: Pool,
    result: Verification,
    progress: Progress,
    asked: tuple[float, int, int],
) -> None:
    """Compare the records of all sources, of which those in the collection are `found`. `asked`: sample, seed, ways."""
    paths, (sample, seed, count) = table.paths, asked
    wanted = {path: {n: at for n, at in records.items() if _taken(at, sample, seed)} for path, records in found.items()}
    progress.start("records", sum(map(len, wanted.values())))

    def sources() -> Iterator[_Source]:
        for position, (path, searched) in enumerate(zip(paths, table.searched, strict=True)):
            if wanted[path] or (not found[path] and _taken(position, sample, seed)):
                ways = _by_migration(collection, wanted[path], found[path], count)
                yield _Source(path, ways, found[path], bool(searched))

    left: list[Counter[str]] = [Counter() for _ in range(count)]
    for told in pool.run(sources()):
        result.take(told.found)
        for way, more in told.left.items():
            left[way] += more
        progress.advance(told.records)
    for counts in left:
        for what in _LEFT_OUT:
            if counts[what]:
                result.note(f"{counts[what]:,} {what}")


def _in_order(collection: Collection, paths: Sequence[str], pool: Pool) -> dict[str, dict[int, int]]:
    """Return the records of all sources, which, one after the other, are those of the collection."""
    found: dict[str, dict[int, int]] = {}
    first = 0
    for path, count in zip(paths, pool.run(_Source(path) for path in paths), strict=True):
        found[path] = {n: first + n for n in range(count)}
        first += count
    if first != len(collection):
        raise UsageError(
            f"the sources have {first:,} records and the collection {len(collection):,}, "
            f"whose index does not say where they are from: name the sources it was made of, in their order"
        )
    return found


def _by_migration(
    collection: Collection, wanted: Mapping[int, int], there: Mapping[int, int], count: int
) -> dict[int, dict[int, int]]:
    """Return the wanted records of a source by the migration they were made in, of which there are `count`."""
    column = collection.index.columns.get(MIGRATION)
    if count == 1 or column is None:
        return {0: dict(wanted)}
    ways: dict[int, dict[int, int]] = {way: {} for way in sorted({int(column.values[at]) for at in there.values()})}
    for ordinal, number in wanted.items():
        ways[int(column.values[number])][ordinal] = number
    return ways or {0: {}}


def _by_source(collection: Collection, paths: Sequence[str], result: Verification) -> dict[str, dict[int, int]] | None:
    """Return source → its records and their numbers in the collection, by the index; None where that does not tell."""
    columns = collection.index.columns
    if SOURCE not in columns or SOURCE_RECORD not in columns:
        return None
    named = {os.path.abspath(path_text(path)): path for path in paths}
    found: dict[str, dict[int, int]] = {path: {} for path in paths}
    others = 0
    rows = zip(column_values(columns[SOURCE]), column_values(columns[SOURCE_RECORD]), strict=True)
    for number, (source, ordinal) in enumerate(rows):
        path = None if source is None else named.get(os.path.abspath(source))
        if path is None or ordinal is None:
            others += 1
        elif ordinal in found[path]:
            result.surplus += 1
            first = found[path][ordinal]
            result.lines.append(f"record {number} is of {path}, {ordinal}, as record {first} is")
        else:
            found[path][ordinal] = number
    if others == len(collection) and others:
        raise UsageError(f"no record of {collection.path} is of one of the sources named")
    if others:
        result.note(f"{others:,} records are of sources that are not named")
    return found


def _taken(number: int, sample: float, seed: int) -> bool:
    """True if a record is of the sample, which depends on its number and the seed alone."""
    if sample >= 1:
        return True
    digest = hashlib.blake2b(number.to_bytes(8, "little"), digest_size=8, key=str(seed).encode()[:64]).digest()
    return int.from_bytes(digest, "little") < sample * 2**64


@dataclasses.dataclass(frozen=True)
class _Source:
    """A source to compare: by way it was migrated the wanted records, those that are there; or, without, to count."""

    path: str
    ways: Mapping[int, Mapping[int, int]] | None = None
    there: Mapping[int, int] = dataclasses.field(default_factory=dict)
    searched: bool = False


@dataclasses.dataclass
class _Told:
    """What came of one source: how many records were wanted, what was found, and of each way what was left out."""

    records: int
    found: Verification
    left: dict[int, Counter[str]] = dataclasses.field(default_factory=dict)


class _Reader:
    """Reads and compares sources one by one.

    `here`: in the process that was called, which no source may end. Raises `NotHere` of one that might.
    """

    def __init__(self, collection: Collection, ways: Sequence[tuple[Settings, bool]], *, here: bool = False) -> None:
        self._result, self._here = Verification(), here
        self._readings = [_Reading(collection, own, self._result, is_part=is_part) for own, is_part in ways]

    def __call__(self, source: _Source) -> Iterator[_Told | int]:
        """Yield one message: what came of a source, or how many records it has."""
        if self._here:
            self._readings[0].check_harmless(source.path)
        if source.ways is None:
            yield self._readings[0].count_of(source.path)
            return
        told = _Told(sum(map(len, source.ways.values())), self._result)
        for nth, (way, numbers) in enumerate(source.ways.items()):
            reading = self._readings[way]
            reading.compare(source.path, numbers, source.there, searched=source.searched, whole=not nth)
            told.left[way], reading.left = reading.left, Counter()
        told.found = self._result.taken()
        yield told


class _LostReader:
    """What is told of a source that ends the process that reads it; see `pool.Recovery`."""

    def __init__(self, source: _Source) -> None:
        self._source, self._done = source, False

    def saw(self, message: _Told | int) -> None:
        """The source is done."""
        self._done = True

    def before(self) -> list[_Told]:
        """Return nothing was told before the end."""
        return []

    def rest(self) -> list[_Source]:
        """Return the source, once more."""
        return [] if self._done else [self._source]

    def failed(self, reason: str) -> _Told:
        """Return it cannot be read."""
        path, ways = self._source.path, self._source.ways
        error = f"the process that read {path} {reason}"
        if ways is None:
            raise UsageError(f"{path} cannot be read: {error}, and so was another one")
        found = Verification()
        for number in (number for numbers in ways.values() for number in numbers.values()):
            found.differ(f"record {number}: its source cannot be read: {error}")
        if not self._source.there:
            found.note(f"{path} cannot be read and has no record in the collection: {error}")
        return _Told(found.compared, found)


class _Reading:
    """Sources read again, their records made into what the collection should have."""

    def __init__(self, collection: Collection, settings: Settings, result: Verification, *, is_part: bool) -> None:
        self._collection, self._settings, self._result = collection, settings, result
        self._sources, self._finder = Sources(settings, Report()), FormatFinder(settings)
        self._rules = RuleBook(settings)
        self._index = IndexCheck(collection, settings, result.note)
        self._failures = _failures(collection)
        #: How many were left out, by what is said of them.
        self.left: Counter[str] = Counter()
        #: Whether the collection has only some records of the one that was made.
        self.is_part = is_part
        self._adapters: dict[int, tuple[Declaration, Mapping[str, str], Settings, Adapter]] = {}
        self._precisions = {
            f"{name}/{key}": column.precision
            for name, block in collection.declaration.blocks.items()
            for key, column in block.columns.items()
            if column.precision is not None
        }

    def check_harmless(self, path: str) -> None:
        """Refuse a source whose damage may end the process that reads it. Raises `NotHere`."""
        with suppress(MolrecError, OSError):
            check_harmless([path], [self._finder.find(Path(path))])

    def count_of(self, path: str) -> int:
        """Return how many records a source has."""
        with self._open(path) as source:
            return self._count(source)

    def compare(
        self, path: str, wanted: Mapping[int, int], there: Mapping[int, int], *, searched: bool, whole: bool
    ) -> None:
        """Compare some records of one source, and if `whole` look for those of its records that are not `there`."""
        left = dict(wanted)
        try:
            chosen = self._finder.find(Path(path))
            with naming_faults((chosen, f"reading {path}", [path])), self._sources.open(Path(path), chosen) as source:
                stated = source.units if isinstance(source, Collection) else collection_units(source.units)
                units = stated or self._rules.of(path).input_units or {}
                for ordinal, found in self._some(source, left):
                    number = left.pop(ordinal)
                    if isinstance(found, Exception):
                        self._result.differ(f"record {number}: its source cannot be read: {found}")
                    else:
                        self._compare(path, ordinal, number, *found, units)
                count = self._count(source)
        except (MolrecError, OSError) as error:
            for number in left.values():
                self._result.differ(f"record {number}: its source cannot be read: {error}")
            if not there and not searched:
                self._result.note(f"{path} cannot be read and has no record in the collection: {error}")
            self.left[_ASIDE] += not there and searched
            return
        for ordinal, number in left.items():
            self._result.differ(f"record {number}: {path} has no record {ordinal} any more")
        if not whole:
            return
        if len(there) < count or any(ordinal >= count for ordinal in there):
            self._absent(path, [ordinal for ordinal in range(count) if ordinal not in there])

    def _absent(self, path: str, ordinals: Sequence[int]) -> None:
        """Records of a source that the collection does not have: by intent, or not."""
        faults = self._failures.get(os.path.abspath(path), frozenset())
        known = len(ordinals) if None in faults else sum(ordinal in faults for ordinal in ordinals)
        self.left[_FAULTY] += known
        missing = [] if None in faults else [ordinal for ordinal in ordinals if ordinal not in faults]
        if self.is_part:
            self.left[_ELSEWHERE] += len(missing)
            return
        if self._settings.dedupe:
            self.left[_DUPLICATES] += len(missing)
            return
        self._result.absent += len(missing)
        self._result.lines += [f"record {ordinal} of {path} is not in the collection" for ordinal in missing[:_MOST]]
        if len(missing) > _MOST:
            more = len(missing) - _MOST
            self._result.lines.append(f"{more:,} more records of {path} are not in the collection")

    def _count(self, source: Record | Collection) -> int:
        count = record_count(source, self._settings)
        return sum(1 for _ in records_of(source, self._settings)) if count is None else count

    def _open(self, path: str) -> Record | Collection:
        return self._sources.open(Path(path), self._finder.find(Path(path)))

    def _some(
        self, source: Record | Collection, wanted: Mapping[int, int]
    ) -> Iterator[tuple[int, tuple[Record, Mapping[str, Any]] | Exception]]:
        """Yield the wanted records of a source, with what its own index says of each; of a row at fault its error."""
        ordinals = sorted(wanted)
        if not ordinals:
            return
        if isinstance(source, Collection) and source.has_rows and self._settings.split != "files":
            yield from rows_of(source, [ordinal for ordinal in ordinals if ordinal < len(source)])
            return
        if isinstance(source, Collection) and source.path is not None and len(ordinals) * 4 < len(source):
            for ordinal in ordinals:
                if ordinal < len(source):
                    yield ordinal, next(source.span(ordinal, ordinal + 1))
            return
        last = ordinals[-1]
        for ordinal, member in enumerate(records_of(source, self._settings)):
            if ordinal in wanted:
                yield ordinal, member
            if ordinal >= last:
                return

    def _compare(
        self, path: str, ordinal: int, number: int, record: Record, own: Mapping[str, Any], units: Mapping[str, str]
    ) -> None:
        self._result.compared += 1
        try:
            expected, own = self._expected(record, own, units, path)
            lines = list(self._index.differences(number, expected, own, path, ordinal))
            for line in differences(expected, _plain(self._collection[number]), declared=False):
                lines.append(line)
                if len(lines) >= _MOST:
                    break
        except MolrecError as error:
            lines = [str(error)]
        if lines:
            self._result.different += 1
            where = f"record {number} ({path}, {ordinal})"
            self._result.lines += [f"{where}: {line}" for line in lines]

    def _expected(
        self, record: Record, own: Mapping[str, Any], units: Mapping[str, str], path: str
    ) -> tuple[Record, Mapping[str, Any]]:
        """Return the record as the collection should have it, and what the index of its source says of it."""
        member = as_member(dataclasses.replace(record, forcefield=None, _close=None), Report())
        declared = Declaration() if member.trajectory is None else member.trajectory.declaration
        adapter = self._adapter(declared, units, path)
        member = adapter.member(member)
        if self._precisions and member.trajectory is not None:
            there = {f"{b}/{c}" for b, e in member.trajectory.declaration.blocks.items() for c in e.columns}
            precision = {name: value for name, value in self._precisions.items() if name in there}
            if precision:
                member = dataclasses.replace(member, trajectory=TrajectoryView(member.trajectory, precision=precision))
        return _plain(member), adapter.row(own)

    def _adapter(self, declared: Declaration, units: Mapping[str, str], path: str) -> Adapter:
        known = self._adapters.get(id(declared))
        settings = self._rules.of(path)
        if known is not None and known[0] is declared and known[1] == units and known[2] is settings:
            return known[3]
        target = self._collection.declaration
        trimmed = target if settings.trim else None
        named = Naming.of(settings, trimmed).declaration(declared)
        extra = sorted(named.meta.keys() - target.meta.keys())
        for key in extra:
            self._result.note(f"the per-step key {key} of {path} is not in the collection")
        conversion = None
        if units and dict(units) != self._collection.units:
            factors = NamedFactors(units, self._collection.units, settings.dimensions)
            conversion = Scaling(factors, self._collection.units)
            conversion = conversion if conversion.changes else None
        names = Naming.of(dataclasses.replace(settings, drop=(*settings.drop, *extra)), trimmed)
        adapter = Adapter(declared, target, names, conversion, self._collection.units)
        if len(self._adapters) > 64:
            self._adapters.clear()
        self._adapters[id(declared)] = declared, dict(units), settings, adapter
        return adapter


def _failures(collection: Collection) -> dict[str, frozenset[int | None]]:
    """Return sources that were at fault when the collection was made, with the records of them that were (None:
    all).
    """
    found: dict[str, set[int | None]] = {}
    path = None if collection.path is None else State(Path(collection.path)).failures
    for where, entry in () if path is None else read_failures(path):
        if is_error(entry):
            found.setdefault(os.path.abspath(where), set()).add(entry.get("record"))
    return {name: frozenset(records) for name, records in found.items()}


def _plain(record: Record) -> Record:
    """Return what a collection has a place for."""
    return Record(meta=dict(record.meta), system=record.system, trajectory=record.trajectory)
