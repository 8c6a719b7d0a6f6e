"""The descriptor of a format, and the contexts its reader and writer are called with.

A descriptor costs nothing to import: readers and writers are named as "package.module:function" and loaded on use.
Detection, the table of formats, command-line options and predicted losses all come from the descriptor.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.report import Report

if typing.TYPE_CHECKING:
    from molrec_convert.model.collection.collection import Collection
    from molrec_convert.model.record import Record

__all__ = [
    "ARRANGEMENTS",
    "Arrangement",
    "Capability",
    "Format",
    "NoOptions",
    "NoProgress",
    "NotBatchable",
    "Option",
    "Progress",
    "ReadContext",
    "WriteContext",
    "missing_library",
    "option",
    "options_of",
]


#: What the configurations in one source become: one trajectory, a collection, or separate records.
Arrangement = Literal["trajectory", "collection", "records"]
ARRANGEMENTS: tuple[Arrangement, ...] = typing.get_args(Arrangement)


class NotBatchable(Exception):
    """Some of the files that were to be read at once have to be read alone, those at `positions`.

    `Format.read_many` raises it if the others can still be read together.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        super().__init__(f"{len(positions)} files are not like the others")
        self.positions = sorted(set(positions))

    def spans(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the files from `start` to `stop` in runs, each file that is named in a run of its own.

        Positions count from `start`. If none is among these files, each file is a run of its own.
        """
        found, at = [], start
        apart = [start + position for position in self.positions if 0 <= position < stop - start]
        for number in apart or range(start, stop):
            found += [(at, number), (number, number + 1)]
            at = number + 1
        return [(one, other) for one, other in [*found, (at, stop)] if one < other]


class Progress(Protocol):
    """What long work reports to whoever watches."""

    def start(self, label: str, total: int | None) -> None:
        """Begin work on `total` frames (None: unknown)."""

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """Report that many more frames, and bytes of the source or target, as done."""


class NoProgress:
    """Progress that nobody watches."""

    def start(self, label: str, total: int | None) -> None:
        """See `Progress.start`."""

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `Progress.advance`."""


@dataclass(frozen=True)
class Capability:
    """How a format carries one section of a record, each way: `"none"`, `"exact"`, or what is lost in words."""

    read: str = "none"
    write: str = "none"


@dataclass(frozen=True)
class NoOptions:
    """The options of a format that has none."""


def option(default: Any, help: str, *, choices: Sequence[str] = (), metavar: str | None = None) -> Any:
    """Return a field of an options dataclass: its default, its line of help, its choices.

    A field `atom_style` is the flag `--atom-style` and the keyword `atom_style`. `bool` fields are switches;
    `tuple[str, ...]` fields take a comma-separated list.
    """
    return field(default=default, metadata={"help": help, "choices": tuple(choices), "metavar": metavar})


@dataclass(frozen=True)
class Option:
    """One option of a format, as the command line and the docs see it."""

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None

    @property
    def flag(self) -> str:
        """Return the command-line flag; a switch that is on by default can only be switched off."""
        word = self.name.replace("_", "-")
        return f"--no-{word}" if self.kind is bool and self.default else f"--{word}"


@functools.cache
def options_of(cls: type) -> tuple[Option, ...]:
    """Return the options of a dataclass in order; their types are str, int, float, bool and `tuple[str, ...]`."""
    hints = typing.get_type_hints(cls)
    return tuple(
        Option(
            entry.name,
            _base_type(hints[entry.name]),
            entry.default,
            entry.metadata.get("help", ""),
            entry.metadata.get("choices", ()),
            entry.metadata.get("metavar"),
        )
        for entry in dataclasses.fields(cls)
    )


def _base_type(hint: Any) -> type:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    origin = typing.get_origin(hint)
    return cast(type, origin or hint)


@dataclass
class ReadContext:
    """What a reader is called with beside its paths.

    `options` is an instance of the format's options dataclass. The reader records in `report` what becomes of each
    item. `hints` are those of the `LayoutChanged` an earlier attempt ended with. `arrangement` is what `--as` asks for,
    one of the format's `arrangements` (None: the reader chooses); `target` is what the conversion writes, one record or
    a collection (None: not known). With `verify`, a reader that maps a file checks all of it first, as damage could
    end the process. `outline` is what `Collection.outline` returned when the same input was open before: a reader that
    has it need not scan the input again.
    """

    options: Any = field(default_factory=NoOptions)
    report: Report = field(default_factory=Report)
    progress: Progress = field(default_factory=NoProgress)
    hints: frozenset[str] = frozenset()
    arrangement: Arrangement | None = None
    target: Literal["record", "collection"] | None = None
    verify: bool = True
    outline: Mapping[str, Any] | None = None


@dataclass
class WriteContext:
    """What a writer is called with beside the record and the path.

    The path is a hidden name beside the target; the caller renames it when the writer returns. `target` is the name it
    will get. With `resume` (only for formats that are `resumable`) the path holds an earlier, interrupted attempt. With
    `creator` the `meta` of the record names this package as its creator, as after a conversion. With `units_kept`
    numbers are written as they are, whatever units the record states (`--target-units none`).
    """

    options: Any = field(default_factory=NoOptions)
    report: Report = field(default_factory=Report)
    progress: Progress = field(default_factory=NoProgress)
    target: Path | None = None
    resume: bool = False
    creator: bool = True
    units_kept: bool = False


Reader = Callable[[Sequence[Path], ReadContext], "Record | Collection"]
Writer = Callable[[Any, Path, WriteContext], None]
Predictor = Callable[[Any, WriteContext], None]
OutputCheck = Callable[[Path], bool]
ManyReader = Callable[[Sequence[Path], ReadContext], "tuple[Collection, list[int]] | None"]


@dataclass(frozen=True)
class Format:
    """One format: how files are recognized, read and written. Functions are named "package.module:function"."""

    #: What `--from` and `--to` take.
    name: str
    title: str
    #: File-name globs ("*.lammpstrj"), case-insensitive; a compression suffix (.gz .bz2 .xz .zst) is left off first.
    patterns: tuple[str, ...] = ()
    #: Takes the first 64 KiB (decompressed; empty for a directory) and the path, returns 0 (not this) to 1 (certainly).
    sniff: Callable[[bytes, Path], float] = lambda head, path: 0.0
    #: `(paths, ReadContext) -> Record`, or a `Collection`.
    reads: str | Reader | None = None
    #: `(record, path, WriteContext) -> None`.
    writes: str | Writer | None = None
    read_options: type = NoOptions
    write_options: type = NoOptions
    #: How each section of a record is carried.
    carries: Mapping[str, Capability] = field(default_factory=dict)
    #: The extra that brings the libraries it needs.
    extra: str | None = None
    reference: str = ""
    #: "collection": the reader returns a `Collection`, the writer takes one, or one `Record`.
    kind: Literal["record", "collection"] = "record"
    #: True if an interrupted write can continue, in the directory the writer is given.
    resumable: bool = False
    #: True if several files of this format form one source.
    many_inputs: bool = False
    #: Formats whose files, given together (a data file and a dump), form one source of this format.
    combines: tuple[str, ...] = ()
    #: The same, if a file of this format is among them (a trajectory it reads and a topology it does not).
    sidecar_of: tuple[str, ...] = ()
    #: What `--as` may ask the reader for; it returns a `Record` for "trajectory", else a `Collection`.
    arrangements: tuple[Arrangement, ...] = ()
    #: True if a writer of kind "record" takes a whole `Collection`, too.
    takes_collections: bool = False
    #: Called as the writer, but writes nothing: reports what the target has no place for beyond what `carries` says.
    predicts: str | Predictor | None = None
    #: True if the writer reports all of that itself; then it is predicted only for dry and strict runs.
    reports_losses_itself: bool = False
    #: The units of such files by convention, to which numbers are converted first; None: those the record states.
    units: Mapping[str, str] | None = None
    #: Presets, one of which such a file's units are; no others can be asked for.
    unit_styles: tuple[str, ...] = ()
    #: Sections whose units the writer takes care of ("forcefield"), and "meta", the keys of frames, if it writes none.
    unconverted: tuple[str, ...] = ()
    #: What readers of the format make of atoms without elements, for a warning ("": no warning). Atomic numbers become
    #: elements before the writer is called. None: atoms are written as the record has them.
    elements: str | None = None
    #: Reads many small files at once, `(paths, ReadContext) -> (Collection, number of records of each)`; returns None
    #: if they are not alike or one is faulty, or raises `NotBatchable` to name those that are not.
    read_many: str | ManyReader | None = None
    #: For a target that is a directory: True if an existing one holds only what this format wrote, and may be replaced.
    is_own_output: str | OutputCheck | None = None
    #: True if a damaged file may end the process that reads it, as compiled code trusts what it holds; where many
    #: files are read, such a file is read in another process.
    crashes: Callable[[Path], bool] = lambda path: False

    def reader(self) -> Reader:
        """Load the reader."""
        if self.reads is None:
            raise UnsupportedError(f"{self.title} ({self.name}) can be written but not read")
        return cast(Reader, self._load(self.reads))

    def writer(self) -> Writer:
        """Load the writer."""
        if self.writes is None:
            raise UnsupportedError(f"{self.title} ({self.name}) can be read but not written")
        return cast(Writer, self._load(self.writes))

    def predictor(self) -> Predictor | None:
        """Load what predicts losses, if there is more to say than `carries`."""
        return cast(Predictor, self._load(self.predicts))

    def many_reader(self) -> ManyReader | None:
        """Load what reads many small files at once, if there is such a function."""
        return cast(ManyReader, self._load(self.read_many))

    def output_check(self) -> OutputCheck | None:
        """Load what recognizes this format's own directories, if its targets are directories."""
        return cast(OutputCheck, self._load(self.is_own_output))

    def _load(self, target: Any) -> Any:
        if not isinstance(target, str):
            return target
        module, _, attribute = target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            missing = missing_library(error, self)
            if missing is None:
                raise
            raise UnsupportedError(missing) from error


def make_options(cls: type, values: Mapping[str, Any], owner: str) -> Any:
    """Make an options object from keywords; raise `UsageError` for an unknown one, naming those there are.

    A list may be given as on the command line, "C,H,O".
    """
    known = {option.name: option.kind for option in options_of(cls)}
    given = dict(values)
    for name, value in values.items():
        if name not in known:
            raise UsageError(f"{owner} has no option {name!r}; it has {', '.join(sorted(known)) or 'none'}")
        if known[name] is tuple and isinstance(value, str):
            given[name] = tuple(word.strip() for word in value.split(","))
    return cls(**given)


def missing_library(error: ModuleNotFoundError, owner: Format) -> str | None:
    """Return a sentence that says what to install for a library a format needs; None if the module is our own."""
    name = error.name or ""
    if not name or name.startswith("molrec_"):
        return None
    needs = f"{owner.title} needs {name}, which is not installed"
    return f"{needs}: pip install 'molrec-convert[{owner.extra}]'" if owner.extra else f"{needs}: install it"
