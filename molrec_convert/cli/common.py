"""What several commands share: existing paths, printing, sizes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from molrec_convert.errors import FormatError, MissingInputError, MolrecError

if TYPE_CHECKING:
    from molrec_convert.model.collection.collection import Collection

__all__ = [
    "DIMENSION_OPTION",
    "ELEMENT_OPTIONS",
    "PATH",
    "RECORD_OPTIONS",
    "UNIT_OPTIONS",
    "counts_of",
    "directory_size",
    "examples",
    "existing",
    "human_size",
    "parse_slice",
    "record_options",
    "stored",
]

#: A path argument; whether it exists is checked by `existing`, in our words.
PATH = click.Path(path_type=Path)


def parse_slice(text: str) -> slice | int | None:
    """`a:b:c` as a slice, one number as itself; None for anything else."""
    try:
        numbers = [int(part) if part.strip() else None for part in text.split(":")]
    except ValueError:
        return None
    if not 1 <= len(numbers) <= 3 or numbers == [None]:
        return None
    return slice(*numbers) if len(numbers) > 1 else numbers[0]


def _record(context: click.Context, parameter: click.Parameter, value: str | None) -> int | slice | None:
    """One record of a collection by its number, or a slice of them."""
    if value is None:
        return None
    found = parse_slice(value)
    if found is None or (isinstance(found, slice) and found.step == 0):
        raise click.BadParameter(f"{value!r} is neither a number nor a slice like 10:20", context, parameter)
    return found


#: Which records of a collection, the same flags in every command.
RECORD_OPTIONS = (
    click.Option(
        ["--record"],
        callback=_record,
        metavar="N",
        help="Of a collection only record N, counted from 0; A:B:C are several, as a Python slice.",
    ),
    click.Option(
        ["--select"],
        metavar="CONDITION",
        help="Of a collection only the records that fit: NAME OP VALUE over its index columns, with 'and', 'or', (…).",
    ),
)


def _dimensions(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    """Return NAME=DIMENSION pairs, separated by commas."""
    from molrec_convert.quantities.dimensions import parse_dimensions

    pairs: dict[str, str] = {}
    for word in (word.strip() for value in values for word in value.split(",")):
        name, equals, dimension = word.partition("=")
        if not (equals and name.strip()):
            raise click.BadParameter(f"{word!r} is not NAME=DIMENSION, like gap=energy", context, parameter)
        pairs[name.strip()] = dimension
    return parse_dimensions(pairs) or None


#: What names are that have no known dimension, the same flag in every command.
DIMENSION_OPTION = click.Option(
    ["--dimension", "dimensions"],
    callback=_dimensions,
    multiple=True,
    metavar="NAME=DIMENSION,...",
    help="What columns and keys are that have no known dimension: gap=energy,dip=charge*length, none for a number.",
)
#: Units of what is written, the same flags in every command.
UNIT_OPTIONS = (
    click.Option(
        ["--target-units"],
        metavar="UNITS",
        help="Units of what is written, in place of its format's own: a style such as metal, QUANTITY=UNIT,..., or "
        "none for the numbers as they are.",
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


#: Elements of atom types, the same flags in every command.
ELEMENT_OPTIONS = (
    click.Option(
        ["--elements"],
        callback=_elements,
        metavar="SYMBOLS",
        help="Element of each atom type, for atoms that have none: C,H,O from type 1 on, 1=C,2=H, or by label "
        "CT=C,HC=H; X for a type that is none.",
    ),
    click.Option(
        ["--guess-elements"], is_flag=True, help="Propose elements from labels that are symbols, and from masses."
    ),
)


def record_options(command: click.Command) -> click.Command:
    """The command with the flags that choose records of a collection."""
    command.params.extend(RECORD_OPTIONS)
    return command


def existing(path: Path) -> Path:
    """The path, which must be there."""
    if not path.exists():
        raise MissingInputError(path)
    return path


def stored(path: Path) -> Path:
    """The path, which must be there; FormatError where it is a file of another format, which `convert` reads."""
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
    """The end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def counts_of(collection: Collection) -> str:
    """How many records and frames a collection has: `1 record, 20 frames`."""
    counts = ((len(collection), "record"), (collection.n_frames, "frame"))
    return ", ".join(f"{number:,} {noun}{'' if number == 1 else 's'}" for number, noun in counts)


def human_size(nbytes: float) -> str:
    """Bytes as a person reads them: `1.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 999.5:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 99.95 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def directory_size(path: Path) -> int:
    """Bytes of a file, or of all files of a directory."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
