"""Options that several commands share, those of all formats among them, and helpers for paths and sizes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from molrec_convert.errors import FormatError, MissingInputError, MolrecError
from molrec_convert.formats import Format, Option, options_of

if TYPE_CHECKING:
    from molrec_convert.model.collection.collection import Collection

__all__ = [
    "DIMENSION_OPTION",
    "ELEMENT_OPTIONS",
    "PATH",
    "RECORD_OPTIONS",
    "UNIT_OPTIONS",
    "FormatCommand",
    "FormatFlag",
    "counts_of",
    "directory_size",
    "examples",
    "existing",
    "format_flags",
    "given",
    "human_size",
    "parse_slice",
    "record_options",
    "stored",
]


@dataclass
class FormatFlag:
    """One flag: what the option is, and the names of the formats that have it."""

    option: Option
    formats: list[str] = field(default_factory=list)

    @property
    def parameter(self) -> click.Option:
        """Return the flag as click takes it; in the code it has the name of the option."""
        option = self.option
        text = f"{option.help} [{', '.join(self.formats)}]"
        if option.kind is bool:
            return click.Option([option.flag, option.name], is_flag=True, flag_value=not option.default, help=text)
        if option.kind is tuple:
            metavar = option.metavar or "A,B,C"
            return click.Option([option.flag, option.name], callback=words, metavar=metavar, help=text)
        kind: Any = click.Choice(option.choices) if option.choices else option.kind
        return click.Option([option.flag, option.name], type=kind, metavar=option.metavar, help=text)


class FormatCommand(click.Command):
    """A command with `parameters` of its own and the options of all formats, in a section of their own."""

    def __init__(self, parameters: Sequence[click.Parameter], flags: list[FormatFlag], **settings: Any) -> None:
        self.flags = flags
        self._of_formats = [flag.parameter for flag in flags]
        super().__init__(**settings, params=[*parameters, *self._of_formats])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the two sections of options."""
        ours = [p for p in self.get_params(ctx) if p not in self._of_formats and isinstance(p, click.Option)]
        for title, parameters in (("Options", ours), ("Options of formats", self._of_formats)):
            rows = [row for row in (parameter.get_help_record(ctx) for parameter in parameters) if row is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def words(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Return the words of a comma-separated list, blanks left off; none may be missing between two commas."""
    if value is None or not value.strip():
        return None if value is None else ()
    found = tuple(word.strip() for word in value.split(","))
    if not all(found):
        raise click.BadParameter(f"{value!r} has nothing between two commas, or at an end", context, parameter)
    return found


def format_flags(formats: Iterable[Format], taken: Container[str]) -> list[FormatFlag]:
    """Return one flag for each option that some format has, but for those that are `taken`.

    An option that several formats have is one flag.
    """
    flags: dict[str, FormatFlag] = {}
    for entry in formats:
        for cls in (entry.read_options, entry.write_options):
            for option in options_of(cls):
                if option.name in taken:
                    continue
                flag = flags.setdefault(option.name, FormatFlag(option))
                if entry.name not in flag.formats:
                    flag.formats.append(entry.name)
                if flag.option.choices and option.choices:
                    merged = tuple(dict.fromkeys((*flag.option.choices, *option.choices)))
                    flag.option = Option(
                        option.name, flag.option.kind, flag.option.default, flag.option.help, merged, option.metavar
                    )
    return list(flags.values())


def given(context: click.Context, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of those options that are given on the command line."""
    return {
        name: context.params[name]
        for name in names
        if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    }


#: A path argument; `existing` checks that it exists.
PATH = click.Path(path_type=Path)


def parse_slice(text: str) -> slice | int | None:
    """Return `a:b:c` as a slice, one number as itself; None for anything else."""
    try:
        numbers = [int(part) if part.strip() else None for part in text.split(":")]
    except ValueError:
        return None
    if not 1 <= len(numbers) <= 3 or numbers == [None]:
        return None
    return slice(*numbers) if len(numbers) > 1 else numbers[0]


def _record(context: click.Context, parameter: click.Parameter, value: str | None) -> int | slice | None:
    """Return one record of a collection by its number, or a slice of them."""
    if value is None:
        return None
    found = parse_slice(value)
    if found is None or (isinstance(found, slice) and found.step == 0):
        raise click.BadParameter(f"{value!r} is neither a number nor a slice like 10:20", context, parameter)
    return found


#: Which records of a collection: the same flags in every command.
RECORD_OPTIONS = (
    click.Option(
        ["--record"],
        callback=_record,
        metavar="N",
        help="Only record N of a collection, counted from 0; A:B:C takes several, like a Python slice.",
    ),
    click.Option(
        ["--select"],
        metavar="CONDITION",
        help="Only the records of a collection that fit: NAME OP VALUE over its index columns, with 'and', 'or', (…).",
    ),
)


def _dimensions(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    """Return NAME=DIMENSION pairs, which commas separate."""
    from molrec_convert.quantities.dimensions import parse_dimensions

    pairs: dict[str, str] = {}
    for word in (word.strip() for value in values for word in value.split(",")):
        name, equals, dimension = word.partition("=")
        if not (equals and name.strip()):
            raise click.BadParameter(f"{word!r} is not NAME=DIMENSION, like gap=energy", context, parameter)
        pairs[name.strip()] = dimension
    return parse_dimensions(pairs) or None


#: The dimensions of names that are not known: the same flag in every command.
DIMENSION_OPTION = click.Option(
    ["--dimension", "dimensions"],
    callback=_dimensions,
    multiple=True,
    metavar="NAME=DIMENSION,...",
    help="The dimensions of columns and keys that are not known: gap=energy,dip=charge*length; none for a pure number.",
)
#: Units of what is written: the same flags in every command.
UNIT_OPTIONS = (
    click.Option(
        ["--target-units"],
        metavar="UNITS",
        help="Units to write, in place of those of the format: a style such as metal, QUANTITY=UNIT,..., or none for "
        "the numbers as they are.",
    ),
    DIMENSION_OPTION,
)


def _elements(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Return the words of `--elements`, checked."""
    if value is None:
        return None
    from molrec_convert.meaning.species import element_words
    from molrec_convert.quantities.elements import parse_elements

    words = element_words(value)
    parse_elements(words)
    return words


#: Elements of atom types: the same flags in every command.
ELEMENT_OPTIONS = (
    click.Option(
        ["--elements"],
        callback=_elements,
        metavar="SYMBOLS",
        help="The element of each atom type, where atoms have none: C,H,O from type 1 on, 1=C,2=H, or by label "
        "CT=C,HC=H; X for a type that is no element.",
    ),
    click.Option(
        ["--guess-elements"], is_flag=True, help="Propose elements, from labels that are symbols and from masses."
    ),
)


def record_options(command: click.Command) -> click.Command:
    """Return the command with the flags that choose records of a collection."""
    command.params.extend(RECORD_OPTIONS)
    return command


def existing(path: Path) -> Path:
    """Return the path, which must exist."""
    if not path.exists():
        raise MissingInputError(path)
    return path


def stored(path: Path) -> Path:
    """Return the path, which must exist; raise FormatError for a file of another format, which `convert` reads."""
    existing(path)
    if ".mrec" in path.name or path.suffix in (".zip", ".lmdb") or (path / "zarr.json").is_file():
        return path
    from molrec_convert.plugins import detect

    try:
        found = detect([path])
    except MolrecError:
        return path
    if found.name.startswith("mrec"):
        return path
    raise FormatError(
        path,
        found=f"the format {found.name}",
        expected="a MolRec record",
        hint=f"mrec convert {shlex.quote(str(path))} {shlex.quote(f'{path.stem}.mrec')} makes one",
    )


def examples(*lines: str) -> str:
    """Return the end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def counts_of(collection: Collection) -> str:
    """Return how many records and frames a collection has: `1 record, 20 frames`."""
    counts = ((len(collection), "record"), (collection.n_frames, "frame"))
    return ", ".join(f"{number:,} {noun}{'' if number == 1 else 's'}" for number, noun in counts)


def human_size(nbytes: float) -> str:
    """Return a number of bytes as a person reads it: `1.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 999.5:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 99.95 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def directory_size(path: Path) -> int:
    """Return the bytes of a file, or of all files of a directory."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
