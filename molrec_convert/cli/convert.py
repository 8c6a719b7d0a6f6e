"""`mrec convert` and `mrec join`; `-` as a source and as a target.

Standard input is spooled to a temporary file, standard output filled from one: a source may be read more than once, and
a target is handed out when it is whole, so neither can be a pipe itself.
"""

from __future__ import annotations

import inspect
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from molrec_convert.cli.app import show_problems
from molrec_convert.cli.options import (
    ELEMENT_OPTIONS,
    PATH,
    RECORD_OPTIONS,
    UNIT_OPTIONS,
    FormatCommand,
    directory_size,
    examples,
    format_flags,
    given,
    human_size,
    parse_slice,
)
from molrec_convert.cli.output import DONE, FAULT, INTERRUPTED, print_error, sentence
from molrec_convert.cli.reporting import (
    REPORT_OPTIONS,
    Counter,
    check_report_path,
    show_closing,
    show_report,
    watch,
    write_report,
)
from molrec_convert.errors import LossError, MolrecError, UsageError
from molrec_convert.formats import ARRANGEMENTS
from molrec_convert.plugins import formats
from molrec_convert.report import Report

if TYPE_CHECKING:
    from click import Context

    from molrec_convert.model.trajectory import Frames

__all__ = ["convert_command", "join_command", "name_streams", "standard_input", "standard_output"]

#: The name that means a stream.
STREAM = "-"
_INPUT, _OUTPUT = "standard input", "standard output"
_Told = TypeVar("_Told", MolrecError, Report)


@contextmanager
def standard_input(sources: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the sources, with a file that holds all of standard input in place of `-`."""
    streams = [source for source in sources if str(source) == STREAM]
    if not streams:
        yield list(sources)
        return
    if len(streams) > 1:
        raise UsageError("standard input is one source: name '-' once")
    with tempfile.TemporaryDirectory(prefix="mrec-") as folder:
        spooled = Path(folder) / _INPUT
        with spooled.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 2**20)
        yield [spooled if str(source) == STREAM else source for source in sources]


@contextmanager
def standard_output(target: Path, to_format: str | None, *, dry_run: bool) -> Iterator[Path]:
    """Yield the target; for `-` a file that is copied to standard output when it is whole."""
    if str(target) != STREAM:
        yield target
        return
    if to_format is None:
        raise UsageError("the format of standard output is not known: name it with --to")
    with tempfile.TemporaryDirectory(prefix="mrec-") as folder:
        written = Path(folder) / _OUTPUT
        yield written
        if written.is_dir():
            raise UsageError(f"the format {to_format} is a directory and cannot go to standard output: name a target")
        if not dry_run:
            with written.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer, 2**20)
            sys.stdout.buffer.flush()


def name_streams(told: _Told, sources: Sequence[Path], target: Path) -> _Told:
    """Name the streams in an error or a report, instead of the temporary files that stand for them."""
    names = {str(path): path.name for path in [*sources, target] if path.name in (_INPUT, _OUTPUT)}

    def said(text: str) -> str:
        for path, name in names.items():
            text = text.replace(path, name)
        return text

    if not names:
        return told
    if isinstance(told, Report):
        items = [replace(item, name=said(item.name), detail=said(item.detail)) for item in told.items]
        told.items[:] = items
        told.warnings[:] = [said(text) for text in told.warnings]
        told.truncations[:] = [said(text) for text in told.truncations]
    else:
        told.args = tuple(said(part) if isinstance(part, str) else part for part in told.args)
    return told


_EXAMPLES = examples(
    "mrec convert rundir run.mrec                         a LAMMPS run, found in its directory",
    "mrec convert a.data a.lammpstrj run.mrec             several inputs, one source",
    "mrec convert a.lammpstrj run.mrec --precision 1e-3   x y z rounded to a thousandth",
    "mrec convert run.mrec part.mrec --frames 100:200:10 --columns x,y,z",
    "mrec convert a.lammpstrj run.mrec --dry-run --report report.json",
    "mrec convert a.mrec b.mrec c.mrec all.mrec.lmdb      a collection of three records",
    "mrec convert all.mrec.lmdb small.mrec.lmdb --select 'n_atoms <= 20 and energy < -3'",
    "mrec convert all.mrec.lmdb one.mrec --record 7",
    "mrec convert train.extxyz train.mrec.lmdb --as collection",
    "zcat a.xyz.gz | mrec convert - --to extxyz - | less   '-' is standard input, and standard output",
)

_JOIN_EXAMPLES = examples(
    "mrec join run1.mrec run2.mrec -o run.mrec              a run and its continuation",
    "mrec join run1/ run2/ run3/ -o run.mrec                LAMMPS runs, each in its directory",
    "mrec join a.mrec b.mrec -o c.mrec --overlap last       where steps overlap, the later source's frames",
    "mrec join a.xyz b.xyz -o c.mrec --shift-time           b counts its steps from 0 again",
)


def _frames(context: Context, parameter: click.Parameter, value: str | None) -> Frames | None:
    """Return `a:b:c`, or one frame, or several of them with commas between."""
    if value is None:
        return None
    found = [parse_slice(part) for part in value.split(",")]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        raise click.BadParameter(
            f"{value!r} is not a slice of frames like 100:200:10, :50 or -1, nor a list of them like 0,5,10:20",
            context,
            parameter,
        )
    if len(parts) > 1:
        return parts
    only = parts[0]
    return only if isinstance(only, slice) else slice(only, None if only == -1 else only + 1)


def _precision(context: Context, parameter: click.Parameter, values: Sequence[str]) -> float | dict[str, float] | None:
    """Return the precisions: each is `P` (for x, y and z, once at most) or `COLUMN=P`."""
    plain: list[float] = []
    named: dict[str, float] = {}
    for value in values:
        column, equals, number = value.rpartition("=")
        try:
            tolerance = float(number)
        except ValueError:
            tolerance = math.nan
        if not (math.isfinite(tolerance) and tolerance > 0) or (equals and not column.strip()):
            raise click.BadParameter(f"{value!r} is neither a positive number nor COLUMN=NUMBER", context, parameter)
        if equals:
            named[column.strip()] = tolerance
        else:
            plain.append(tolerance)
    if len(plain) > 1:
        raise click.BadParameter("x, y and z take one; name other columns as COLUMN=P", context, parameter)
    if plain and named:
        return {**dict.fromkeys("xyz", plain[0]), **named}
    return plain[0] if plain else named or None


def _columns(context: Context, parameter: click.Parameter, values: Sequence[str]) -> list[str] | None:
    """Return comma-separated lists as one."""
    return [column.strip() for value in values for column in value.split(",") if column.strip()] or None


#: How a target is written: the same flags in every command that writes one.
WRITING_OPTIONS: tuple[click.Parameter, ...] = (
    *UNIT_OPTIONS,
    *ELEMENT_OPTIONS,
    click.Option(
        ["--report", "report_path"],
        type=PATH,
        metavar="FILE",
        help="Write as JSON what became of every item ('-': to standard output).",
    ),
    click.Option(["--strict"], is_flag=True, help="Refuse to lose anything, before anything is written."),
    click.Option(["--dry-run"], is_flag=True, help="Report what would be lost; write nothing."),
    click.Option(["--resume"], is_flag=True, help="Continue where an interrupted conversion to TARGET stopped."),
    click.Option(["--overwrite"], is_flag=True, help="Replace TARGET, once the new one is complete."),
    click.Option(["--allow-truncated"], is_flag=True, help="Exit with 0 even if the last frame is cut off."),
    *REPORT_OPTIONS,
)

_PARAMETERS: list[click.Parameter] = [
    click.Argument(["paths"], nargs=-1, required=True, type=PATH, metavar="SOURCE... TARGET"),
    click.Option(["--from", "from_format"], metavar="FORMAT", help="Format of the source, if it is not recognised."),
    click.Option(["--to", "to_format"], metavar="FORMAT", help="Format of the target, if its name does not say."),
    click.Option(
        ["--frames"],
        callback=_frames,
        metavar="A:B:C,...",
        help="Only these frames: Python slices and numbers, in this order (0,5,10:20). For a file whose configurations "
        "become records, only these configurations; for any other collection, these frames of each record.",
    ),
    click.Option(
        ["--columns"], callback=_columns, multiple=True, metavar="X,Y,Z", help="Only these columns of the frames."
    ),
    click.Option(
        ["--precision"],
        callback=_precision,
        multiple=True,
        metavar="[COLUMN=]P",
        help="Round x, y and z to this tolerance, or one column with COLUMN=P; may be repeated.",
    ),
    *RECORD_OPTIONS,
    click.Option(
        ["--as", "as_"],
        type=click.Choice(ARRANGEMENTS),
        help="What the configurations in a file become: one trajectory, a collection, or separate records.",
    ),
    click.Option(["--each"], is_flag=True, help="Make each SOURCE a record of its own in the collection TARGET."),
    *WRITING_OPTIONS,
]

_JOIN_PARAMETERS: list[click.Parameter] = [
    click.Argument(["paths"], nargs=-1, required=True, type=PATH, metavar="SOURCE..."),
    click.Option(["-o", "--output"], type=PATH, required=True, metavar="TARGET", help="The record to write."),
    click.Option(
        ["--overlap"],
        type=click.Choice(["first", "last", "refuse"]),
        default="refuse",
        show_default=True,
        help="Where steps overlap, take all frames of the earlier source, or all of the later one, or refuse.",
    ),
    click.Option(
        ["--shift-time"],
        is_flag=True,
        help="Let steps and times that start again continue where the source before ended.",
    ),
    click.Option(["--from", "from_format"], metavar="FORMAT", help="Format of all sources, if it is not recognised."),
    click.Option(["--to", "to_format"], metavar="FORMAT", help="Format of TARGET, if its name does not say."),
    *WRITING_OPTIONS,
]


def _convert(paths: Sequence[Path], **arguments: Any) -> int:
    """Convert SOURCE to TARGET.

    SOURCE is a file, a run directory or a record, or several files that belong together (a data file and its dump).
    Its format is recognised by its content, that of TARGET by its name. TARGET appears when it is complete.

    Several sources that do not belong together become the records of one collection (.mrec.lmdb), in their order.

    SOURCE may be '-', standard input; so may TARGET, standard output, whose format is named with --to.
    """
    from molrec_convert.conversion.convert import convert

    if len(paths) < 2:
        raise click.UsageError("name at least one source and the target")
    *sources, target = paths
    if str(target) == STREAM and arguments["as_"] == "records":
        raise UsageError("separate records need names of their own: name a target other than standard output")
    return _carry_out(convert, sources, target, arguments)


def _join(paths: Sequence[Path], output: Path, **arguments: Any) -> int:
    """Write SOURCEs that follow one another in time as one record TARGET.

    A SOURCE is what 'mrec convert' reads as one record with a trajectory: a record, a file, a run directory. Frames
    come in the order of the SOURCEs; a first frame after a restart that repeats the last one bit for bit is taken once.

    The atoms must be the same, and units and force field must agree. What only some sources have is missing in the
    frames of the others. Curves and results over frames are joined; what cannot be is reported.
    """
    from molrec_convert.conversion.convert import join

    if len(paths) < 2:
        raise click.UsageError("name at least two sources")
    return _carry_out(join, paths, output, arguments)


def _carry_out(work: Callable[..., Report], sources: Sequence[Path], target: Path, arguments: dict[str, Any]) -> int:
    """Write one target, report what became of everything, and return the exit code."""
    context = click.get_current_context()
    assert isinstance(context.command, FormatCommand)
    shared = (parameter.name or "" for parameter in (*UNIT_OPTIONS, *ELEMENT_OPTIONS))
    options = given(context, [*shared, *(flag.option.name for flag in context.command.flags)])
    known = inspect.signature(work).parameters
    options = {**{name: value for name, value in arguments.items() if name in known}, **options}
    report, report_path, dry_run = Report(), arguments["report_path"], arguments["dry_run"]
    if report_path is not None:
        check_report_path(report_path, [*sources, target])
        if str(report_path) == STREAM and str(target) == STREAM:
            raise UsageError("standard output is the target: name a file after --report")
    reported = True
    watcher = watch()
    began = time.monotonic()
    show_problems()
    try:
        with (
            watcher,
            standard_input(sources) as spooled,
            standard_output(target, arguments["to_format"], dry_run=dry_run) as written,
        ):
            try:
                work(spooled, written, report=report, progress=watcher, **options)
            except MolrecError as error:
                raise name_streams(error, spooled, written) from None
            finally:
                name_streams(report, spooled, written)
    except KeyboardInterrupt:
        print_error(_interrupted(target))
        return INTERRUPTED
    except OSError as error:
        print_error(sentence(error, str(target), again="continue with --resume"))
        return FAULT
    except LossError:
        show_report(report)
        raise
    finally:
        if report_path is not None:
            facts = {"sources": [*map(str, sources)], "target": str(target), "dry_run": dry_run}
            reported = _write_report(report, report_path, facts)
    show_report(report)
    show_closing(_closing(target, report, watcher, time.monotonic() - began, dry_run=dry_run))
    if report.truncations and not arguments["allow_truncated"]:
        there = "would be" if dry_run else "are"
        print_error(f"the source is cut off, its whole frames {there} in {target}; accept that with --allow-truncated")
        return FAULT
    return DONE if reported else FAULT


def _write_report(report: Report, path: Path, facts: dict[str, Any]) -> bool:
    """Write the report; if that fails, say so: the conversion is done all the same."""
    try:
        write_report(report, path, facts)
    except (OSError, UsageError) as error:
        print_error(sentence(error, str(path)))
        return False
    return True


def _closing(target: Path, report: Report, watcher: Counter, seconds: float, *, dry_run: bool) -> str:
    """Return the last line of a conversion: what is there now, how large it is, how long it took."""
    if dry_run:
        return f"{target}: nothing written (dry run)"
    stream = str(target) == STREAM
    if not stream and not target.exists():
        return f"{target.parent / target.stem}-…: {watcher.frames:,} separate records in {seconds:.1f} s"
    frames = watcher.frames if report.frames is None else report.frames
    counts = [(report.records or 0, "record"), (frames, "frame")]
    counted = "".join(f"{number:,} {noun}{'' if number == 1 else 's'}, " for number, noun in counts if number)
    if stream:
        return f"standard output: {counted}done in {seconds:.1f} s"
    return f"{target}: {counted}{human_size(directory_size(target))} in {seconds:.1f} s"


def _interrupted(target: Path) -> str:
    from molrec_convert.files.staging import is_started

    state = "unchanged" if target.exists() else "not written"
    if is_started(target.absolute()):
        return f"interrupted, {target} is {state}; the same command with --resume continues from here"
    return f"interrupted, {target} is {state}"


def convert_command() -> click.Command:
    """Return the command, with a flag for each option of the formats there are now."""
    return _command("convert", _convert, _PARAMETERS, _EXAMPLES)


def join_command() -> click.Command:
    """Return the command, with a flag for each option of the formats there are now."""
    return _command("join", _join, _JOIN_PARAMETERS, _JOIN_EXAMPLES)


def _command(name: str, callback: Callable[..., int], parameters: list[click.Parameter], epilog: str) -> click.Command:
    flags = format_flags(formats().values(), {parameter.name or "" for parameter in parameters})
    return FormatCommand(parameters, flags, name=name, callback=callback, help=inspect.getdoc(callback), epilog=epilog)
