"""The first pass: what each input holds and declares, found without reading frames; in a worker process.

Inputs that declare the same share one entry, so that what comes back is small however many there are.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from molrec_convert.errors import MolrecError
from molrec_convert.formats import Format, NotBatchable
from molrec_convert.meaning.mapped import MappedCollection
from molrec_convert.migration.inputs.inputs import content_digest
from molrec_convert.migration.inputs.sources import (
    FormatFinder,
    Sources,
    check_harmless,
    is_aside,
    record_count,
    split_declaration,
)
from molrec_convert.migration.inputs.tasks import Found, Task, is_large
from molrec_convert.migration.settings import RuleBook, Settings
from molrec_convert.migration.state import error_document
from molrec_convert.model import Declaration, Record
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.member import as_member, collection_units
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.report import Report

__all__ = ["Opened", "Scan", "Scanned", "Scanner"]

#: An open input: its path, the name of its format, and itself.
Opened = tuple[str, str, Record | Collection]

#: Inputs up to this size are read together.
SMALL_BYTES = 2**20


@dataclass
class Scanned:
    """What one input holds: its format and kind of content (a number of `Scan.contents`), records, frames, bytes.

    `records` and `frames` are -1 where only reading to the end tells. `error` is that of an input at fault, `aside`
    says that it was searched for and is of no known format, `divisible` that it can be read from any record on; `found`
    is what those who read spans of it need to know.
    """

    format: str | None = None
    content: int = -1
    records: int = 0
    frames: int = 0
    nbytes: int = 0
    error: dict[str, Any] | None = None
    aside: bool = False
    divisible: bool = False
    found: Found | None = None


@dataclass
class Scan:
    """The inputs of one task. `contents`: texts of `{declaration, units, columns, forcefield}` documents."""

    first: int
    inputs: list[Scanned] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)


class Scanner:
    """Looks at the inputs of tasks; `here` as in `Worker`."""

    def __init__(self, settings: Settings, *, here: bool = False) -> None:
        self._settings, self._here = settings, here
        self._rules = RuleBook(settings)
        self._finder = FormatFinder(settings)
        self._report = Report()
        self._sources = Sources(settings, self._report)
        self._kept: Opened | None = None

    def __call__(self, task: Task) -> Iterator[Scan]:
        """Yield one message: what all inputs of the task hold."""
        scan = Scan(task.first)
        known: dict[str, int] = {}
        found: list[Scanned | Format] = [self._format(task, number) for number in range(len(task.paths))]
        if self._here:
            check_harmless(task.paths, found)
        for start, stop, chosen in runs(found, task, self._rules):
            if isinstance(chosen, Scanned):
                scan.inputs.append(chosen)
                continue
            scan.inputs += self._scan(task, start, stop, chosen, scan, known)
        yield scan

    def let_go(self) -> None:
        """Close what is kept open."""
        if self._kept is not None:
            self._kept[2].close()
            self._kept = None

    def pop_open_source(self) -> Opened | None:
        """Return the last input that can be read from any record on, whose opening there was nothing to report of."""
        kept, self._kept = self._kept, None
        return kept

    def _format(self, task: Task, number: int) -> Scanned | Format:
        path = Path(task.paths[number])
        try:
            return self._finder.find(path)
        except (MolrecError, OSError) as error:
            if task.searched[number] and is_aside(error):
                return Scanned(aside=True)
            return Scanned(error=error_document(error))

    def _scan(
        self, task: Task, start: int, stop: int, chosen: Format, scan: Scan, known: dict[str, int]
    ) -> list[Scanned]:
        where = [Path(path) for path in task.paths[start:stop]]
        if len(where) > 1:
            try:
                joined = self._sources.open_together(where, chosen)
            except NotBatchable as apart:
                spans = apart.spans(start, stop)
                return [one for a, b in spans for one in self._scan(task, a, b, chosen, scan, known)]
            except Exception:  # a reader is foreign code: what is wrong is told by reading them one by one
                joined = None
            if joined is not None:
                collection, counts = joined
                with collection:
                    entry = self._content(collection, where[0], chosen, scan, known)
                    atoms = collection.index["n_atoms"]
                    width = _row_bytes(collection.declaration)
                    made, at = [], 0
                    for count in counts:
                        rows = int(atoms[at : at + count].sum())
                        made.append(Scanned(chosen.name, entry, count, count, rows * width + 400 * count))
                        at += count
                return made
            half = (start + stop) // 2
            if len(where) > 3 and self._sources.some_join(where, chosen):
                before = self._scan(task, start, half, chosen, scan, known)
                return [*before, *self._scan(task, half, stop, chosen, scan, known)]
        return [self._one(task, number, chosen, scan, known) for number in range(start, stop)]

    def _one(self, task: Task, number: int, chosen: Format, scan: Scan, known: dict[str, int]) -> Scanned:
        path = Path(task.paths[number])
        large = task.hashing and is_large(task.sizes[number]) and path.is_file()
        digest = _Digest(path) if large else None
        found = None
        try:
            mark = self._report.mark()
            source = self._sources.open(path, chosen)
            with ExitStack() as stack:
                stack.callback(source.close)
                entry = self._content(source, path, chosen, scan, known)
                records = record_count(source, self._settings)
                frames, nbytes = _extent(source)
                divisible = isinstance(source, Collection) and source.random_access
                if divisible and digest is not None:
                    assert isinstance(source, Collection)
                    found = Found(digest.value(), source.outline(index=self._settings.has_keys))
                silent = self._report.mark() == mark and not isinstance(source, MappedCollection)
                if divisible and silent and (found is None or found.outline is None):
                    # whoever encodes it here goes on with it
                    self.let_go()
                    stack.pop_all()
                    self._kept = str(path), chosen.name, source
        except Exception as error:  # a reader is foreign code: one input that breaks it leaves the others alone
            return Scanned(chosen.name, error=error_document(error, str(path), chosen))
        finally:
            if digest is not None:
                digest.stop()
        count = -1 if records is None else records
        return Scanned(chosen.name, entry, count, frames, nbytes, divisible=divisible and count > 0, found=found)

    def _content(
        self, source: Record | Collection, path: Path, chosen: Format, scan: Scan, known: dict[str, int]
    ) -> int:
        content = content_of(source, self._settings, chosen)
        rules = self._rules.matching(path)
        if rules:
            # what they leave out, rename and fill is done to the declaration by the plan
            content["rules"] = rules
            content["units"] = content["units"] or dict(self._rules.by_rules(rules).input_units or {})
        text = json.dumps(content)
        number = known.setdefault(text, len(scan.contents))
        if number == len(scan.contents):
            scan.contents.append(text)
        return number


class _Digest:
    """The hash of a file's content, made beside whatever else is done meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._value: str | Exception = ""
        self._wanted = True
        self._thread = threading.Thread(target=self._make, daemon=True)
        self._thread.start()

    def value(self) -> str:
        """Return the hash. Raises what kept it from being made, `OSError` where the file cannot be read."""
        self._thread.join()
        if isinstance(self._value, Exception):
            raise self._value
        return self._value

    def stop(self) -> None:
        """It is not wanted any more."""
        self._wanted = False
        self._thread.join()

    def _make(self) -> None:
        try:
            self._value = content_digest(self._path, lambda: self._wanted)
        except Exception as error:  # raised where it is asked for
            self._value = error


def runs(found: Sequence[Scanned | Format], task: Task, rules: RuleBook) -> Iterator[tuple[int, int, Scanned | Format]]:
    """Yield consecutive inputs that may be read together: from, to, and their format; those without one alone."""
    start = 0
    while start < len(found):
        stop, chosen = start + 1, found[start]
        if isinstance(chosen, Format) and task.sizes[start] <= SMALL_BYTES:
            own = rules.of(task.paths[start])
            while (
                stop < len(found)
                and found[stop] is chosen
                and task.sizes[stop] <= SMALL_BYTES
                and rules.of(task.paths[stop]) is own
            ):
                stop += 1
        yield start, stop, chosen
        start = stop


def content_of(source: Record | Collection, settings: Settings, chosen: Format) -> dict[str, Any]:
    """Return what an input declares, as a document: declaration, units, those of its index columns that are asked for,
    a force field it has.
    """
    stated: Mapping[str, str]
    if isinstance(source, Collection):
        declaration, stated = source.declaration, source.units
        # to tell them may mean to read all of it
        own = source.index_columns if settings.index else {}
        columns = {name: c.dtype for name, c in own.items() if name in settings.index and not c.trailing}
    else:
        member = as_member(source)
        declaration = Declaration() if member.trajectory is None else member.trajectory.declaration
        if settings.split == "frames" and member.trajectory is not None and member.trajectory.n_frames != 1:
            declaration = split_declaration(declaration)
        stated, columns = collection_units(source.units), {}
    return {
        "format": chosen.name,
        "declaration": declaration.to_json(),
        "units": dict(stated),
        "columns": columns,
        "forcefield": source.forcefield is not None,
    }


def _extent(source: Record | Collection) -> tuple[int, int]:
    """Return frames, and the bytes they will take about; -1 frames where only reading to the end tells."""
    if isinstance(source, Collection):
        frames = source.n_frames
        return frames, source.atom_rows * _row_bytes(source.declaration) + 400 * frames
    if source.trajectory is None:
        return int(source.frame is not None), 0
    count = source.trajectory.n_frames
    declaration = source.trajectory.declaration
    frame = sum((block.rows or 0) * _block_bytes(name, declaration) for name, block in declaration.blocks.items())
    return (-1, 0) if count is None else (count, count * (frame + 400))


def _block_bytes(name: str, declaration: Declaration) -> int:
    block = declaration.blocks[name]
    if block.settles is not None:
        return 0
    total = 0
    for column in block.columns.values():
        width = 1
        for axis in column.trailing:
            width *= axis
        total += width * (8 if column.dtype == "string" else DTYPES[column.dtype].itemsize)
    return total


def _row_bytes(declaration: Declaration) -> int:
    return _block_bytes("atoms", declaration) if "atoms" in declaration.blocks else 0
