"""The second pass, in a worker process: inputs become encoded records, sent in pieces to the one who writes.

What is sent is a list of events (`events.py`), in the order of the inputs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from molrec_convert.errors import FormatError, LayoutChanged, MolrecError
from molrec_convert.formats import Format, NotBatchable
from molrec_convert.meaning.units import Scaling
from molrec_convert.migration.batches import BatchEncoder, encode_run
from molrec_convert.migration.inputs.adapting import Adapter, Naming
from molrec_convert.migration.inputs.inputs import content_digest, path_text
from molrec_convert.migration.inputs.scan import Opened, Scanned, runs
from molrec_convert.migration.inputs.sources import (
    FormatFinder,
    FrameRun,
    Sources,
    check_harmless,
    frame_runs,
    is_aside,
    is_split,
    records_of,
)
from molrec_convert.migration.inputs.tasks import (
    Done,
    EncodedBatch,
    Entry,
    Event,
    Failed,
    Frames,
    Items,
    Restart,
    RowFailed,
    Task,
)
from molrec_convert.migration.outputs.files import frames_sum, log_entry, record_digest, record_hash
from molrec_convert.migration.outputs.index import Observed, index_value, observe
from molrec_convert.migration.settings import RuleBook, Settings
from molrec_convert.migration.state import error_document
from molrec_convert.model import Declaration, Record, RecordBatch
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.member import as_member, collection_units
from molrec_convert.plugins import formats
from molrec_convert.quantities.standard import NamedFactors
from molrec_convert.report import Fate, Report
from molrec_convert.stores.lmdb.values.records import RecordEncoder

__all__ = ["Encoder"]

#: A message is sent when it holds so many bytes.
_MESSAGE_BYTES = 2**20
#: Records that are sent together at most.
_MANY = 128
#: So many names of what is left out are told.
_MOST_NAMES = 12


class Encoder:
    """Encodes the inputs of tasks under one declaration, in the units of the collection; `here` as in `Worker`."""

    def __init__(
        self,
        settings: Settings,
        declaration: Declaration,
        units: Mapping[str, str],
        kept: Opened | None = None,
        *,
        here: bool = False,
    ) -> None:
        self._settings, self._units, self._here = settings, dict(units), here
        self._report = Report()
        self._sources, self._finder = Sources(settings, self._report), FormatFinder(settings)
        self._declaration = declaration
        self._encoder = RecordEncoder(declaration, self._report)
        self._batches = BatchEncoder(declaration, settings)
        self._rules = RuleBook(settings)
        self._adapter: tuple[Declaration, dict[str, str], Settings, Adapter] | None = None
        #: The settings of the input that is read: those of all, and of the rules that match it.
        self._own = settings
        #: The last conversion of units, and names of the input that is read that conversions left as they are.
        self._conversion: Scaling | None = None
        self._left: dict[str, None] = {}
        #: An input that stays open: one that is read in spans, or that was just looked at.
        self._kept = kept
        self._json = json.JSONEncoder().encode

    def __call__(self, task: Task) -> Iterator[list[Event]]:
        """Yield the events of one task, some at a time."""
        message: list[Event] = []
        size = 0
        for event in self._events(task):
            message.append(event)
            if type(event) is Frames:
                size += sum(map(len, event.values))
            elif type(event) is Entry:
                size += len(event.entry)
            elif type(event) is EncodedBatch:
                size += sum(map(len, event.values)) + sum(map(len, event.entries))
            if size >= _MESSAGE_BYTES:
                yield message
                message, size = [], 0
        if message:
            yield message

    def _events(self, task: Task) -> Iterator[Event]:
        found: list[Scanned | Format] = []
        for number, path in enumerate(task.paths):
            name = task.formats[number]
            try:
                found.append(formats()[name] if name in formats() else self._finder.find(Path(path)))
            except (MolrecError, OSError) as error:
                aside = task.searched[number] and is_aside(error)
                found.append(Scanned(aside=True) if aside else Scanned(error=error_document(error)))
        if self._here:
            check_harmless(task.paths, found)
        for start, stop, chosen in runs(found, task, self._rules):
            self._own = self._rules.of(task.paths[start])
            if isinstance(chosen, Scanned):
                number = task.first + start
                yield Done(number, "", [], True) if chosen.error is None else Failed(number, chosen.error)
            else:
                yield from self._run(task, start, stop, chosen)

    def _run(self, task: Task, start: int, stop: int, chosen: Format) -> Iterator[Event]:
        """Yield inputs of one format, together where that can be, else each by itself."""
        if stop - start > 1 and not task.skip:
            try:
                events = self._together(task, start, stop, chosen)
            except NotBatchable as apart:
                for first, end in apart.spans(start, stop):
                    yield from self._run(task, first, end, chosen)
                return
            if events is not None:
                yield from events
                return
            where = [Path(path) for path in task.paths[start:stop]]
            if stop - start > 2 and self._sources.some_join(where, chosen):
                half = (start + stop) // 2
                yield from self._run(task, start, half, chosen)
                yield from self._run(task, half, stop, chosen)
                return
        for number in range(start, stop):
            yield from self._alone(task, number, chosen)

    def _together(self, task: Task, start: int, stop: int, chosen: Format) -> list[Event] | None:
        """Return the events of small inputs read in one go; None where one of them is not as the others, or
        `NotBatchable`.
        """
        mark = self._report.mark()
        try:
            joined = self._sources.open_together([Path(path) for path in task.paths[start:stop]], chosen)
            if joined is None:
                self._report.rewind(mark)
                return None
            collection, counts = joined
            with collection:
                events = self._joined(task, start, collection, counts)
            if collection.reports is None:
                self._add_items(events, mark)
            return events
        except NotBatchable:
            self._report.rewind(mark)
            raise
        except Exception:  # a reader is foreign code
            # which of them is at fault, and why, is told by reading them one by one
            self._report.rewind(mark)
            return None

    def _joined(self, task: Task, start: int, collection: Collection, counts: list[int]) -> list[Event]:
        """Return the events of inputs read in one go: all inputs from `start` on, of which each has so many records."""
        sources = [
            (path, ordinal)
            for path, count in zip(task.paths[start : start + len(counts)], counts, strict=True)
            for ordinal in range(count)
        ]
        done, mark, told = 0, self._report.mark(), collection.reports
        units = collection.units or self._own.input_units or {}
        made = self._all_encoded(collection, units, sources)
        events: list[Event] = []
        members = None if made is not None else records_of(collection, self._settings)
        for number, count in enumerate(counts, start):
            input_, path = task.first + number, task.paths[number]
            if made is not None:
                some = made.part(done, done + count)
                events.append(dataclasses.replace(some, input=input_))
                done += count
            elif members is not None:
                for ordinal in range(count):
                    record, own = next(members)
                    events += self._record(record, own, units, input_, path, ordinal)
            digest = content_digest(path)
            _check_unchanged(task, number)
            events.append(Done(input_, digest, []))
            self._tell_left(path)
            if told is not None:
                self._report.extend(told[number - start])
                self._add_items(events, mark, path)
        return events

    def _all_encoded(
        self, collection: Collection, units: Mapping[str, str], sources: list[tuple[str, int]]
    ) -> EncodedBatch | None:
        """Return all records of a collection that is small, encoded in batches; None where that does not go."""
        batches = collection.record_batches()
        if batches is None:
            return None
        texts = {path: path_text(path) for path, _ in sources}
        told = [(texts[path], ordinal) for path, ordinal in sources]
        whole = EncodedBatch(0, [], [], [])
        for batch in batches:
            at = len(whole.values)
            encoded = self._encoded(batch, units, told[at : at + batch.count])
            if encoded is None:
                return None
            whole.values += encoded.values
            whole.entries += encoded.entries
            whole.digests += encoded.digests
        return whole

    def _alone(self, task: Task, number: int, chosen: Format) -> Iterator[Event]:
        """Yield the events of one input, read again for as long as its layout turns out to be another."""
        path, input_ = task.paths[number], task.first + number
        skip, stop = (task.skip, task.stop) if number == 0 else (0, None)
        hints: frozenset[str] = frozenset()
        mark = self._report.mark()
        found = task.found
        while True:
            try:
                outline = None if found is None or hints else found.outline
                yield from self._read(path, input_, chosen, hints, skip, stop, outline)
                if stop is None:
                    done: Done | Items = Done(input_, content_digest(path) if found is None else found.digest, [])
                    _check_unchanged(task, number)
                else:
                    done = Items(input_, [])
                self._tell_left(path)
                self._add_items([done], mark, path)
                yield done
                return
            except LayoutChanged as changed:
                self._report.rewind(mark)
                if changed.hint in hints:
                    yield Failed(input_, error_document(changed))
                    return
                hints |= {changed.hint}
                # the whole of it, whoever has the rest
                skip, stop = 0, None
                yield Restart(input_)
            except GeneratorExit:
                raise
            except Exception as error:  # a reader is foreign code: one input that breaks it leaves the others alone
                self._report.rewind(mark)
                yield Failed(input_, error_document(error, path, chosen))
                return

    def _read(
        self,
        path: str,
        input_: int,
        chosen: Format,
        hints: frozenset[str],
        skip: int,
        stop: int | None,
        outline: Mapping[str, Any] | None,
    ) -> Iterator[Event]:
        mark = self._report.mark()
        with self._opened(path, chosen, hints, outline, keep=stop is not None) as source:
            if skip:
                # whoever reads the first records tells what opening it says
                self._report.rewind(mark)
            if isinstance(source, Collection) and source.has_rows:
                yield from self._rows(source, chosen, input_, path, skip, stop)
                return
            for events, _ in self._pieces(source, input_, path, skip, stop):
                yield from events

    @contextmanager
    def _opened(
        self, path: str, chosen: Format, hints: frozenset[str], outline: Mapping[str, Any] | None, *, keep: bool
    ) -> Iterator[Record | Collection]:
        """Yield an input; one of which a span is read stays open for the next one."""
        kept, self._kept = self._kept, None
        if kept is not None and not hints and kept[:2] == (path, chosen.name):
            source = kept[2]
        else:
            if kept is not None:
                kept[2].close()
            source = self._sources.open(Path(path), chosen, hints, outline)
        try:
            yield source
        except BaseException:
            source.close()
            raise
        if keep and not hints:
            self._kept = path, chosen.name, source
        else:
            source.close()

    def _rows(
        self, source: Collection, chosen: Format, input_: int, path: str, skip: int, stop: int | None
    ) -> Iterator[Event]:
        """Yield the rows of a database: one at fault is passed over."""
        position = skip
        count = len(source) if stop is None else min(stop, len(source))
        alone = False
        while position < count:
            try:
                # of rows that are read together none is told from the others
                for events, records in self._pieces(source, input_, path, position, position + 1 if alone else stop):
                    yield from events
                    position += records
            except (GeneratorExit, LayoutChanged):
                raise
            except Exception as error:  # a reader is foreign code, as above
                if alone:
                    yield RowFailed(input_, position, error_document(error, path, chosen))
                    position += 1
                alone = not alone

    def _pieces(
        self, source: Record | Collection, input_: int, path: str, start: int, stop: int | None
    ) -> Iterator[tuple[Iterable[Event], int]]:
        """Yield the events of records from `start` to `stop`, and of how many records they are."""
        stated = source.units if isinstance(source, Collection) else collection_units(source.units)
        units = stated or self._own.input_units or {}
        if isinstance(source, Record) and is_split(source, self._settings):
            yield from self._frame_pieces(source, units, input_, path, start)
            return
        batches = None
        if isinstance(source, Collection) and self._settings.split != "files":
            batches = source.record_batches(start, stop)
        if batches is None:
            for position, (record, own) in enumerate(records_of(source, self._settings, start, stop), start):
                yield self._record(record, own, units, input_, path, position), 1
            return
        position = start
        for batch in batches:
            source_text = path_text(path)
            sources = [(source_text, position + number) for number in range(batch.count)]
            encoded = self._encoded(batch, units, sources)
            if encoded is None:
                for record, own in batch.members(0):
                    yield self._record(record, own, units, input_, path, position), 1
                    position += 1
                continue
            for first in range(0, batch.count, _MANY):
                some = encoded.part(first, first + _MANY)
                yield [dataclasses.replace(some, input=input_)], len(some.entries)
            position += batch.count

    def _frame_pieces(
        self, source: Record, units: Mapping[str, str], input_: int, path: str, start: int
    ) -> Iterator[tuple[Iterable[Event], int]]:
        """Yield what `_pieces` gives of the frames of a run from one on, a record each."""
        position, text = start, path_text(path)
        for found in frame_runs(source, start):
            if isinstance(found, Record):
                yield self._record(found, {}, units, input_, path, position), 1
                position += 1
                continue
            encoded = self._run_encoded(found, units, text, position)
            for first in range(0, len(found), _MANY if encoded is not None else 1):
                if encoded is None:
                    yield self._record(found.record(first), {}, units, input_, path, position + first), 1
                else:
                    some = encoded.part(first, first + _MANY)
                    yield [dataclasses.replace(some, input=input_)], len(some.entries)
            position += len(found)

    def _run_encoded(self, run: FrameRun, units: Mapping[str, str], source: str, ordinal: int) -> EncodedBatch | None:
        """Return the values of the frames of a run; None where they are to be encoded one by one."""
        mark = self._report.mark()
        try:
            record, adapter = self._prepared(run.record(0), units)
            batch = run.batch if adapter.same else adapter.batch(run.batch, defined=run.cell_defined)
            encoded = encode_run(self._encoder, record, batch, source, ordinal, self._settings)
        except MolrecError:
            # which of them is at fault is told by encoding them one by one
            encoded = None
        if encoded is None:
            self._report.rewind(mark)
        return encoded

    def _encoded(
        self, batch: RecordBatch, units: Mapping[str, str], sources: list[tuple[str, int]]
    ) -> EncodedBatch | None:
        """Return the values of a batch, made all at once; None where its records are to be encoded one by one."""
        columns = batch.columns
        if columns is None or not self._adapt(columns.declaration, units).same:
            return None
        try:
            return self._batches.encode(columns, sources)
        except MolrecError:
            # which of them is at fault is told by encoding them one by one
            return None

    def _record(
        self,
        record: Record,
        own: Mapping[str, Any],
        units: Mapping[str, str],
        input_: int,
        path: str,
        ordinal: int,
    ) -> Iterator[Event]:
        """Yield the events of one record."""
        node = f"record {ordinal} of {path}"
        record, adapter = self._prepared(record, units)
        own = adapter.row(own)
        observed = Observed()
        if record.trajectory is not None:
            watched = observe(record.trajectory, observed)
            if watched is not record.trajectory:
                record = dataclasses.replace(record, trajectory=watched, _close=None)
        has = record.trajectory is not None
        content, dedupe = b"", self._settings.dedupe
        plain = self._encoder.plain(record, node)
        if plain is not None:
            meta, system, value, atoms = plain
            frames, checksum = 1, frames_sum((value,))
            content = record_digest(system, (value,)) if dedupe else b""
            yield Frames(input_, [value])
        else:
            member = self._encoder.begin(record, node)
            meta, system = member.meta, member.system
            digest = record_hash(system) if dedupe else None
            frames, atoms, checksum = yield from self._frames(record, node, input_, digest)
            content = b"" if digest is None else digest.digest()
        row = index_value(record, observed, own, path_text(path), ordinal, self._settings)
        entry = log_entry(meta, system, self._json(row).encode(), frames, atoms, has, content, checksum)
        yield Entry(input_, frames, entry, content)

    def _prepared(self, record: Record, units: Mapping[str, str]) -> tuple[Record, Adapter]:
        """Return a record as one of the collection, and what made it so."""
        if record.forcefield is not None:
            self._report.dropped("forcefield", "a collection has one force field for all its records")
            record = dataclasses.replace(record, forcefield=None, _close=None)
        record = as_member(record, self._report)
        declared = record.trajectory
        adapter = self._adapt(Declaration() if declared is None else declared.declaration, units)
        return adapter.member(record), adapter

    def _frames(
        self, record: Record, node: str, input_: int, digest: Any
    ) -> Generator[Event, None, tuple[int, int, int]]:
        """Yield the frames of a record in pieces. Returns how many, the atoms, and the checksum of all."""
        pieces = self._encoder.pieces(record, node)
        checksum = 0
        while True:
            try:
                values = next(pieces)
            except StopIteration as done:
                result: tuple[int, int] = done.value
                return *result, checksum
            checksum = frames_sum(values, checksum)
            if digest is not None:
                for value in values:
                    digest.update(value)
            yield Frames(input_, values)

    def _adapt(self, declaration: Declaration, units: Mapping[str, str]) -> Adapter:
        stated = dict(units)
        known = self._adapter
        if known is not None and known[0] is declaration and known[1] == stated and known[2] is self._own:
            return known[3]
        conversion = None
        if units and dict(units) != self._units:
            conversion = Scaling(NamedFactors(units, self._units, self._own.dimensions), self._units, self._report)
            conversion = conversion if conversion.changes else None
        naming = Naming.of(self._own, self._declaration if self._own.trim else None)
        left_out = naming.left_out(declaration)
        if left_out:
            names = ", ".join(left_out[:_MOST_NAMES]) + (", …" if len(left_out) > _MOST_NAMES else "")
            self._report.dropped(names, f"{len(left_out):,} left out by --drop, --exclude, --only or --declaration")
        adapter = Adapter(declaration, self._declaration, naming, conversion, self._units)
        self._note_left()
        self._conversion = conversion
        self._adapter = (declaration, stated, self._own, adapter)
        return adapter

    def _tell_left(self, path: str) -> None:
        """Warn of numbers of the input that are in its units still, as nobody knows of what dimension they are."""
        self._note_left()
        if self._left:
            self._report.warn(
                f"{path}: left as they are, as their dimension is not known: {', '.join(self._left)}; "
                f"--dimension {next(iter(self._left))}=energy names it (none for a pure number)"
            )
        self._left.clear()

    def _note_left(self) -> None:
        if self._conversion is not None:
            self._left |= dict.fromkeys(self._conversion.take_unknown())

    def _add_items(self, events: list[Event], mark: tuple[int, int, int], path: str = "") -> None:
        """What the report says since `mark`, with the last input it is of; it is forgotten here.

        Inputs say the same of themselves with their names in it: without them it is one item, counted. Warnings keep
        them.
        """
        items = [(item.fate.value, item.name, item.detail) for item in self._report.items[mark[0] :]]
        items = [item for item in items if item[0] != Fate.CARRIED.value]
        # that a file states no units is settled when --units is given
        settled = "--units" if self._settings.units is not None else None
        warnings = self._report.warnings[mark[1] :]
        items += [("warning", text, "") for text in warnings if settled is None or settled not in text]
        items += [("cut off", text, "") for text in self._report.truncations[mark[2] :]]
        last = events[-1]
        if isinstance(last, (Done, Items)):
            last.items = [_hiding(path, item) for item in items] if path else items
        self._report.rewind(mark)


def _hiding(path: str, item: tuple[str, str, str]) -> tuple[str, str, str]:
    """Return an item without the name of the input, unless it is a warning."""
    fate, name, detail = item
    if fate in ("warning", "cut off"):
        return item
    return fate, name.replace(path, "the input"), detail.replace(path, "the input")


def _check_unchanged(task: Task, number: int) -> None:
    """Refuse an input that is another than when it was found: what it holds now belongs to no one moment."""
    facts = os.stat(task.paths[number])
    if stat.S_ISREG(facts.st_mode) and (facts.st_size, facts.st_mtime_ns) != (task.sizes[number], task.stamps[number]):
        raise FormatError(
            task.paths[number],
            found="a file that was changed while it was migrated",
            expected="one nobody writes to",
            hint="the same command takes it up again",
        )
