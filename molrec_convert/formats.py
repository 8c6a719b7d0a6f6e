"""What a format is to the converter: one frozen descriptor, and the contexts its reader and writer are called with.

A descriptor costs nothing to import: readers and writers are named as "package.module:function" and loaded on use.
From the descriptor come detection, the `formats` table, the command-line options and the predicted loss.
"""

from __future__ import annotations

import dataclasses
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
    "Apart",
    "Arrangement",
    "Capability",
    "Format",
    "NoOptions",
    "NoProgress",
    "Option",
    "Progress",
    "ReadContext",
    "WriteContext",
    "missing_library",
    "option",
    "options_of",
]


#: How many configurations in one source become records: one trajectory, a collection, or a record each.
Arrangement = Literal["trajectory", "collection", "records"]
ARRANGEMENTS: tuple[Arrangement, ...] = typing.get_args(Arrangement)


class Apart(Exception):
    """Of files that were to be read in one go those at some positions are to be read by themselves.

    What reads them (`Format.joins`) raises it where the others may well go together.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        super().__init__(f"{len(positions)} files are not like the others")
        self.positions = sorted(set(positions))

    def spans(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The files from `start` to `stop`, which the positions count from, in runs: each that is apart by itself.

        All of them are where no position is one of theirs.
        """
        found, at = [], start
        apart = [start + position for position in self.positions if 0 <= position < stop - start]
        for number in apart or range(start, stop):
            found += [(at, number), (number, number + 1)]
            at = number + 1
        return [(one, other) for one, other in [*found, (at, stop)] if one < other]


class Progress(Protocol):
    """What long work tells whoever watches."""

    def start(self, label: str, total: int | None) -> None:
        """Work on `total` frames (None: unknown) begins."""

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """That many more frames, and bytes of the source or target, are done."""


class NoProgress:
    """Nobody watches."""

    def start(self, label: str, total: int | None) -> None:
        """See `Progress.start`."""

    def advance(self, frames: int, nbytes: int = 0) -> None:
        """See `Progress.advance`."""


@dataclass(frozen=True)
class Capability:
    """How a format carries one section of a record, each way: `"none"`, `"exact"`, or in words what is lost."""

    read: str = "none"
    write: str = "none"


@dataclass(frozen=True)
class NoOptions:
    """The options of a format that has none."""


def option(default: Any, help: str, *, choices: Sequence[str] = (), metavar: str | None = None) -> Any:
    """A field of an options dataclass: its default, its help line, its choices.

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
        """The command-line flag; a switch that is on by default can only be switched off."""
        word = self.name.replace("_", "-")
        return f"--no-{word}" if self.kind is bool and self.default else f"--{word}"


def options_of(cls: type) -> list[Option]:
    """The options an options dataclass declares, in order. Types: str, int, float, bool, and `tuple[str, ...]`."""
    hints = typing.get_type_hints(cls)
    return [
        Option(
            entry.name,
            _base_type(hints[entry.name]),
            entry.default,
            entry.metadata.get("help", ""),
            entry.metadata.get("choices", ()),
            entry.metadata.get("metavar"),
        )
        for entry in dataclasses.fields(cls)
    ]


def _base_type(hint: Any) -> type:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    origin = typing.get_origin(hint)
    return cast(type, origin or hint)


@dataclass
class ReadContext:
    """What a reader is called with beside its paths.

    `options` is an instance of the format's options dataclass. The reader records the fate of what it meets in
    `report`. `hints` are those of the `LayoutChanged` an earlier attempt ended with. `arrangement` is what `--as` asks
    for, one of the format's `arrangements` (None: the reader's own choice), `target` what the conversion writes: one
    record, or a collection (None: nothing is written, or nobody knows). With `verify` a reader that maps a file looks
    at all of it first, as damage could end the process otherwise. `outline` is what `Collection.outline` said when the
    same input was open before: a reader that knows it need not look at all of the input once more (None: look).
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

    The path is a staging path beside the target; the caller renames it when the writer returns. `target` is the name
    it will get. With `resume` (formats that declare `resumable` only) the path holds an earlier, interrupted attempt.
    `creator`: a record's `meta` is to name this package as its creator, as a conversion does. `units_kept`: numbers are
    to be written as they are, whatever units the record states (`--target-units none`).
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
Owner = Callable[[Path], bool]
Joiner = Callable[[Sequence[Path], ReadContext], "tuple[Collection, list[int]] | None"]


@dataclass(frozen=True)
class Format:
    """One format.

    `name` is what `--from` and `--to` take; `patterns` are file-name globs ("*.lammpstrj"), matched case-insensitively
    and with a compression suffix (.gz .bz2 .xz .zst) left off; `sniff(head, path)` looks at the first 64 KiB
    (decompressed; empty for a directory) and returns 0 (not this format) to 1 (certainly). `reads` and `writes` are
    "package.module:function" or callables `(paths, ReadContext) -> Record` and `(record, path, WriteContext) -> None`.
    Of `kind` "collection" are formats of many records: the reader returns a `Collection`, the writer takes one, or one
    `Record`. `carries` says how each section of a record fares, `extra` which extra brings the libraries it needs.
    `many_inputs`: several files of this format form one source; `combines`: names of other formats whose files, given
    together (a data file and a dump), form one source of this format; `beside`: those whose files do so only with one
    of this format among them (a trajectory it reads and a topology it does not). `resumable`: an interrupted write can
    go on, in the directory the writer is given.
    `takes_collections`: a writer of kind "record" that takes a `Collection` as well, all of it. `predicts`, called as
    the writer is but with nothing written, reports what the target has no place for beyond what `carries` says;
    where it `rehearses`, the writer reports all of that itself, and it is asked before a dry run and a strict one only.
    `arrangements`: what `--as` may ask this reader for; it returns a `Record` for "trajectory", else a `Collection`.
    `joins`: reads many small files in one go, `(paths, ReadContext) -> (Collection, number of records of each)`, or
    None where they would not all be read as each is alone, or one of them is at fault; `Apart` names those that would
    not.
    `units`: the units numbers have in such a file by convention, to which a record's are converted before the writer is
    called (None: those the record states). `unit_styles`: presets such a file's units are one of, no others can be
    asked for. `unconverted`: sections whose units the writer sees to itself (`forcefield`, which states its own), and
    `meta`, the keys of frames, where it writes none.
    `elements`, of a format whose atoms have elements: what its readers make of atoms that have none, which a record
    without elements is warned of ("": nothing); atomic numbers become elements before the writer is called. None: as
    the record has it.
    `owns`, of a format whose target is a directory: whether one that is there is this format's and holds nothing else,
    so that it may be replaced.
    `crashes`: whether a damaged file of this format may end the process that reads it, as compiled code trusts what it
    holds. Where many files are read, such a one is read in another process.
    """

    name: str
    title: str
    patterns: tuple[str, ...] = ()
    sniff: Callable[[bytes, Path], float] = lambda head, path: 0.0
    reads: str | Reader | None = None
    writes: str | Writer | None = None
    read_options: type = NoOptions
    write_options: type = NoOptions
    carries: Mapping[str, Capability] = field(default_factory=dict)
    extra: str | None = None
    reference: str = ""
    kind: Literal["record", "collection"] = "record"
    resumable: bool = False
    many_inputs: bool = False
    combines: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    arrangements: tuple[Arrangement, ...] = ()
    takes_collections: bool = False
    predicts: str | Predictor | None = None
    rehearses: bool = False
    units: Mapping[str, str] | None = None
    unit_styles: tuple[str, ...] = ()
    unconverted: tuple[str, ...] = ()
    elements: str | None = None
    joins: str | Joiner | None = None
    owns: str | Owner | None = None
    crashes: Callable[[Path], bool] = lambda path: False

    def reader(self) -> Reader:
        """The reader, loaded now."""
        if self.reads is None:
            raise UnsupportedError(f"{self.title} ({self.name}) can be written but not read")
        return cast(Reader, _load(self.reads, self))

    def writer(self) -> Writer:
        """The writer, loaded now."""
        if self.writes is None:
            raise UnsupportedError(f"{self.title} ({self.name}) can be read but not written")
        return cast(Writer, _load(self.writes, self))

    def predictor(self) -> Predictor | None:
        """What predicts losses, loaded now; None where there is nothing more to say than `carries`."""
        return None if self.predicts is None else cast(Predictor, _load(self.predicts, self))

    def joiner(self) -> Joiner | None:
        """What reads many small files in one go, loaded now; None where there is no such thing."""
        return None if self.joins is None else cast(Joiner, _load(self.joins, self))

    def owner(self) -> Owner | None:
        """What tells this format's own directories, loaded now; None where its targets are none."""
        return None if self.owns is None else cast(Owner, _load(self.owns, self))


def make_options(cls: type, values: Mapping[str, Any], owner: str) -> Any:
    """An options object from keywords; one the dataclass does not have is an error that names those it has.

    A list may be given as the command line takes it, "C,H,O".
    """
    known = {option.name: option.kind for option in options_of(cls)}
    given = dict(values)
    for name, value in values.items():
        if name not in known:
            raise UsageError(f"{owner} has no option {name!r}; it has {', '.join(sorted(known)) or 'none'}")
        if known[name] is tuple and isinstance(value, str):
            given[name] = tuple(word.strip() for word in value.split(","))
    return cls(**given)


def _load(target: Any, owner: Format) -> Any:
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        missing = missing_library(error, owner)
        if missing is None:
            raise
        raise UnsupportedError(missing) from error


def missing_library(error: ModuleNotFoundError, owner: Format) -> str | None:
    """Return what to install, in a sentence, for a library a format needs; None where a module of ours is not there."""
    name = error.name or ""
    if not name or name.startswith("molrec_"):
        return None
    needs = f"{owner.title} needs {name}, which is not installed"
    return f"{needs}: pip install 'molrec-convert[{owner.extra}]'" if owner.extra else f"{needs}: install it"
