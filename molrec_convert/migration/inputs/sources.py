"""One input, opened, and the records it becomes."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert.errors import MissingInputError, MolrecError, UsageError
from molrec_convert.formats import Arrangement, Format, NotBatchable, ReadContext, make_options
from molrec_convert.meaning.species import ElementOptions, with_elements
from molrec_convert.meaning.targets import settles_elements
from molrec_convert.migration.pool import NotHere
from molrec_convert.migration.settings import RuleBook, Settings
from molrec_convert.model import Block, BoxUpdates, Declaration, Frame, FrameBatch, MemoryTrajectory, Record, Trajectory
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.trajectory import TrajectoryView, take_frames
from molrec_convert.plugins import HEAD, detect, format_named, formats, plugin_manager
from molrec_convert.report import Report
from molrec_convert.text.compression import compression_of

__all__ = [
    "FormatFinder",
    "FrameRun",
    "Sources",
    "check_harmless",
    "frame_runs",
    "frames_of",
    "is_aside",
    "is_split",
    "record_count",
    "records_of",
    "rows_of",
    "split_declaration",
]


@dataclass(frozen=True)
class FrameRun:
    """Consecutive frames that stand alone: each presents all blocks there are, and its cell where it has one.

    `base` is what the records of all of them say beside their frame.
    """

    base: Record
    batch: FrameBatch
    declaration: Declaration
    cell_defined: bool

    def __len__(self) -> int:
        return self.batch.n_frames

    def record(self, index: int) -> Record:
        """Return the record of one of them."""
        one = take_frames(self.batch, np.array([index]))
        made = MemoryTrajectory.of_batch(one, self.declaration, cell_defined=self.cell_defined)
        return dataclasses.replace(self.base, trajectory=made, _close=None)


def frame_runs(record: Record, start: int = 0) -> Iterator[FrameRun | Record]:
    """Yield a record for each frame of a run from one on; runs of them where frames stand alone.

    A block that settles goes to the system, as its only update is that frame's.
    """
    trajectory = record.trajectory
    assert trajectory is not None
    settling = {n: b.settles for n, b in trajectory.declaration.blocks.items() if b.settles is not None}
    declaration = split_declaration(trajectory.declaration)
    system, position = record.system, start
    box: BoxUpdates | None = None
    seen: set[str] = set()
    for batch in trajectory.batches(start):
        presented = {name for name, updates in batch.blocks.items() if len(updates.frames)}
        if not _stands_alone(batch, seen | presented, settling):
            yield from _one_by_one(record, position)
            return
        settled = [name for name in settling if name in presented]
        if settled:
            first = batch.frame(0, trajectory.declaration, defined=trajectory.cell_defined)
            for name in settled:
                system = _settled(system, settling[name] or name, first.blocks[name])
        seen |= presented - settling.keys()
        cells = _every_box(batch, box)
        if cells is not None and len(cells.frames):
            # the batch's memory goes back to whoever made it
            box = BoxUpdates(
                cells.frames[-1:], cells.vectors[-1:].copy(), cells.origin[-1:].copy(), cells.boundary[-1:].copy()
            )
        blocks = {name: updates for name, updates in batch.blocks.items() if name in seen}
        base = dataclasses.replace(record, system=system, frame=None, trajectory=None, _close=None)
        alone = dataclasses.replace(batch, blocks=blocks, box=cells)
        yield FrameRun(base, alone, declaration, trajectory.cell_defined)
        position += batch.n_frames


def frames_of(record: Record, start: int = 0) -> Iterator[Record]:
    """Yield a record for each frame of a run from one on."""
    for found in frame_runs(record, start):
        if isinstance(found, Record):
            yield found
        else:
            yield from map(found.record, range(len(found)))


def split_declaration(declaration: Declaration) -> Declaration:
    """Return what single frames of a trajectory declare."""
    blocks = {name: block for name, block in declaration.blocks.items() if block.settles is None}
    blocks = {
        name: block if block.aligned_with in (None, *blocks) else dataclasses.replace(block, aligned_with=None)
        for name, block in blocks.items()
    }
    return dataclasses.replace(declaration, blocks=blocks)


def _stands_alone(batch: FrameBatch, names: set[str], settling: Mapping[str, str | None]) -> bool:
    """True if every frame presents all blocks of these names; those that settle at the first frame only, or not."""
    for name in names:
        updates = batch.blocks.get(name)
        frames = [] if updates is None else updates.frames.tolist()
        if name in settling:
            if frames not in ([], [0]):
                return False
        elif len(frames) != batch.n_frames:
            return False
    return True


def _every_box(batch: FrameBatch, before: BoxUpdates | None) -> BoxUpdates | None:
    """Return the cell of each frame, carried forward, from the one `before` the batch on."""
    given = batch.box
    if given is None or not len(given.frames):
        last = before
    elif before is None:
        last = given
    else:
        last = BoxUpdates(
            np.concatenate([[-1], given.frames]),
            np.concatenate([before.vectors, given.vectors]),
            np.concatenate([before.origin, given.origin]),
            np.concatenate([before.boundary, given.boundary]),
        )
    if last is None:
        return None
    if last is before:
        which = np.zeros(batch.n_frames, np.int64)
    else:
        which = np.searchsorted(last.frames, np.arange(batch.n_frames), side="right") - 1
    there = np.flatnonzero(which >= 0)
    which = which[there]
    return BoxUpdates(there, last.vectors[which], last.origin[which], last.boundary[which])


def _one_by_one(record: Record, start: int) -> Iterator[Record]:
    """Yield the records of frames of which some are only told by those before."""
    whole = record.trajectory
    assert whole is not None
    settling = {n: b.settles for n, b in whole.declaration.blocks.items() if b.settles is not None}
    declaration = split_declaration(whole.declaration)
    rest: Trajectory = TrajectoryView(whole, start) if start else whole
    for frame in rest:
        system = record.system
        for name, target in settling.items():
            if name in frame.blocks:
                system = _settled(system, target or name, frame.blocks[name])
        blocks = {name: block for name, block in frame.blocks.items() if name not in settling}
        alone = dataclasses.replace(frame, blocks=blocks)
        one = MemoryTrajectory([alone], declaration, cell_defined=whole.cell_defined)
        yield dataclasses.replace(record, system=system, frame=None, trajectory=one, _close=None)


def _settled(system: Frame | None, name: str, block: Block) -> Frame:
    system = Frame() if system is None else system
    known = system.blocks.get(name)
    columns = {**({} if known is None else known.columns), **block.columns}
    targets = {**({} if known is None else known.targets), **block.targets}
    joined = Block(columns, count=block.count, targets=targets)
    return dataclasses.replace(system, blocks={**system.blocks, name: joined})


Member = tuple[Record, dict[str, Any]]


class FormatFinder:
    """The format of each input; of many alike the first is looked at by all formats, the others by that one."""

    def __init__(self, settings: Settings) -> None:
        self._rules = RuleBook(settings)
        self._last: dict[str, Format] = {}

    def find(self, path: Path) -> Format:
        """Return raises `FormatError` or `UsageError` where it is not told, `MissingInputError` and other `OSError`."""
        _check_kind(path)
        asked = self._rules.of(path).format
        if asked is not None:
            return format_named(asked)
        suffix = path.suffix.lower()
        known = self._last.get(suffix)
        if known is not None and known.sniff(_plain_head(path), path) == 1.0:
            return known
        found = detect([path])
        named = any(fnmatch.fnmatch(path.name.lower(), pattern.lower()) for pattern in found.patterns)
        if named and path.is_file():
            self._last[suffix] = found
        return found


def check_harmless(paths: Sequence[str], found: Sequence[object]) -> None:
    """Refuse inputs whose damage may end the process that reads them. `found`: their formats, as far as they have one.

    Raises `NotHere`.
    """
    if any(
        isinstance(chosen, Format) and chosen.crashes(Path(path)) for path, chosen in zip(paths, found, strict=True)
    ):
        raise NotHere


class Sources:
    """Opens inputs as the settings ask for. What becomes of their items goes to `report`."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._settings, self._report = settings, report
        self._rules = RuleBook(settings)
        self._options: dict[tuple[str, tuple[int, ...]], Any] = {}

    def open(
        self,
        path: Path,
        chosen: Format,
        hints: frozenset[str] = frozenset(),
        outline: Mapping[str, Any] | None = None,
    ) -> Record | Collection:
        """Return the record or collection in one input; `outline` is what was found out when it was open before."""
        context = self._context(path, chosen, hints)
        source = chosen.reader()([path], dataclasses.replace(context, outline=outline))
        if isinstance(source, Record):
            plugin_manager().hook.molrec_record_read(record=source, context=context)
        return self._with_elements(source, path, chosen)

    def open_together(self, paths: Sequence[Path], chosen: Format) -> tuple[Collection, list[int]] | None:
        """Return the records of several inputs in one go and how many are of each; None where that is not to be had.

        The same rules match all of them.
        """
        joiner = chosen.many_reader()
        if joiner is None or len(paths) < 2 or self._settings.split == "files":
            return None
        joined = joiner(paths, self._context(paths[0], chosen, frozenset()))
        if joined is None:
            return None
        collection = self._with_elements(joined[0], paths[0], chosen)
        assert isinstance(collection, Collection)
        return collection, joined[1]

    def some_join(self, paths: Sequence[Path], chosen: Format) -> bool:
        """True if there is hope that parts of inputs that cannot be read in one go can be: two at either end can."""
        for pair in (paths[:2], paths[-2:]):
            mark = self._report.mark()
            try:
                joined = self.open_together(pair, chosen)
            except NotBatchable:
                continue
            except Exception:  # a reader is foreign code
                return True
            finally:
                self._report.rewind(mark)
            if joined is not None:
                joined[0].close()
                return True
        return False

    def _with_elements(self, source: Record | Collection, path: Path, chosen: Format) -> Record | Collection:
        """Return the elements asked for, where the reader does not settle them."""
        options = self._rules.of(path).options
        if not options.get("elements") and not options.get("guess_elements"):
            return source
        if settles_elements(chosen.read_options):
            return source
        guess = bool(options.get("guess_elements"))
        return with_elements(source, options.get("elements", ()), guess=guess, report=self._report)

    def _context(self, path: Path, chosen: Format, hints: frozenset[str]) -> ReadContext:
        key = (chosen.name, self._rules.matching(path))
        if key not in self._options:
            known = {entry.name for entry in dataclasses.fields(chosen.read_options)}
            given = {name: v for name, v in self._rules.by_rules(key[1]).options.items() if name in known}
            self._options[key] = make_options(chosen.read_options, given, f"the format {chosen.name}")
        return ReadContext(
            self._options[key],
            self._report,
            hints=hints,
            arrangement=_arrangement(chosen, self._settings),
            target="collection",
        )


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse an option no format has."""
    known = {entry.name for chosen in formats().values() for entry in dataclasses.fields(chosen.read_options)}
    known |= {entry.name for entry in dataclasses.fields(ElementOptions)}
    for name in options:
        if name not in known:
            raise UsageError(f"no format that is read has an option {name!r}")


def records_of(
    source: Record | Collection, settings: Settings, start: int = 0, stop: int | None = None
) -> Iterator[Member]:
    """Yield the records of an input from one on, with the values the input's own index has for each.

    Before `stop` ends what is not to be read to the end; only collections do.
    """
    if isinstance(source, Collection):
        if settings.split == "files" and len(source) != 1:
            where = source.path or "the input"
            raise UsageError(f"{where} holds {len(source):,} records and no single one: leave off --split files")
        yield from source.members() if start == 0 and stop is None else source.span(start, stop)
    elif is_split(source, settings):
        yield from ((record, {}) for record in frames_of(source, start))
    elif start == 0:
        yield dataclasses.replace(source, _close=None), {}


def rows_of(source: Collection, ordinals: Sequence[int]) -> Iterator[tuple[int, Member | Exception]]:
    """Yield some records of a database, in their order, each by itself where they cannot be read together; or its
    error.
    """
    position, end, alone = 0, len(ordinals), False
    while position < end:
        first = ordinals[position]
        stop = position + 1
        while not alone and stop < end and ordinals[stop] == ordinals[stop - 1] + 1:
            stop += 1
        try:
            for member in source.span(first, first + stop - position):
                yield ordinals[position], member
                position += 1
        except Exception as error:  # a reader is foreign code
            if alone:
                yield ordinals[position], error
                position += 1
            alone = not alone


def is_split(source: Record, settings: Settings) -> bool:
    """True if each frame of a record becomes a record of its own."""
    return settings.split == "frames" and source.trajectory is not None and source.trajectory.n_frames != 1


def record_count(source: Record | Collection, settings: Settings) -> int | None:
    """Return how many records `records_of` gives; None where only reading to the end tells."""
    if isinstance(source, Collection):
        return len(source)
    if settings.split == "frames" and source.trajectory is not None:
        return source.trajectory.n_frames
    return 1


def _check_kind(path: Path) -> None:
    """Refuse what is neither a file nor a directory: to open a pipe may wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise MissingInputError(path) from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UsageError(f"{path} is neither a file nor a directory")


def is_aside(error: Exception) -> bool:
    """True if it says of a file that was searched for that it is of no known format, and not that it cannot be read."""
    return isinstance(error, MolrecError) and not isinstance(error, OSError)


def _plain_head(path: Path) -> bytes:
    """Return the beginning of a file that is not compressed; nothing of anything else."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(HEAD)
    except OSError:
        return b""
    return head if compression_of(head) is None else b""


def _arrangement(chosen: Format, settings: Settings) -> Arrangement | None:
    if not chosen.arrangements:
        return None
    wanted: Arrangement = "trajectory" if settings.split == "files" else "collection"
    return wanted if wanted in chosen.arrangements else None
