"""`mrec join`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from molrec_convert.cli.common import PATH, examples
from molrec_convert.cli.convert import WRITING_OPTIONS, carry_out
from molrec_convert.cli.options import FormatCommand, format_flags
from molrec_convert.cli.progress import Counter
from molrec_convert.plugins import formats
from molrec_convert.report import Report

__all__ = ["join_command"]

_EXAMPLES = examples(
    "mrec join run1.mrec run2.mrec -o run.mrec              a run and its continuation",
    "mrec join run1/ run2/ run3/ -o run.mrec                LAMMPS runs, each in its directory",
    "mrec join a.mrec b.mrec -o c.mrec --overlap last       where steps overlap, the later source's frames",
    "mrec join a.xyz b.xyz -o c.mrec --shift-time           b counts its steps from 0 again",
)

_PARAMETERS: list[click.Parameter] = [
    click.Argument(["paths"], nargs=-1, required=True, type=PATH, metavar="SOURCE..."),
    click.Option(["-o", "--output"], type=PATH, required=True, metavar="TARGET", help="The record to write."),
    click.Option(
        ["--overlap"],
        type=click.Choice(["first", "last", "refuse"]),
        default="refuse",
        show_default=True,
        help="Where steps overlap: the earlier source's frames as far as they go, the later one's from where it "
        "begins, or neither.",
    ),
    click.Option(
        ["--shift-time"],
        is_flag=True,
        help="Let steps and times of a source that start again go on where the one before it ended.",
    ),
    click.Option(["--from", "from_format"], metavar="FORMAT", help="Format of all sources, where not recognised."),
    click.Option(["--to", "to_format"], metavar="FORMAT", help="Format of TARGET, where its name does not tell."),
    *WRITING_OPTIONS,
]


def _join(paths: Sequence[Path], output: Path, **arguments: Any) -> int:
    """Write SOURCEs that follow one another in time as one record TARGET.

    A SOURCE is what 'mrec convert' reads as one record with a trajectory: a record, a file, a run directory. Frames
    come in the order of the SOURCEs; a restart's first frame that repeats the last one bit for bit is taken once.

    The atoms must be the same, and units and force field agree. What only some have is missing in the frames of the
    others. Curves and results over frames are joined; what cannot be is reported.
    """
    if len(paths) < 2:
        raise click.UsageError("name at least two sources")
    return carry_out(paths, output, arguments, _run)


def _run(
    sources: list[Path],
    target: Path,
    report: Report,
    watcher: Counter,
    arguments: dict[str, Any],
    options: dict[str, Any],
) -> None:
    from molrec_convert.conversion.convert import join

    join(
        sources,
        target,
        overlap=arguments["overlap"],
        shift_time=arguments["shift_time"],
        from_format=arguments["from_format"],
        to_format=arguments["to_format"],
        overwrite=arguments["overwrite"],
        resume=arguments["resume"],
        strict=arguments["strict"],
        dry_run=arguments["dry_run"],
        report=report,
        progress=watcher,
        **options,
    )


def join_command() -> click.Command:
    """Return the command, with a flag for each option of the formats there are now."""
    taken = {parameter.name or "" for parameter in _PARAMETERS}
    return FormatCommand(
        _PARAMETERS,
        format_flags(formats().values(), taken),
        name="join",
        callback=_join,
        help=inspect.getdoc(_join),
        epilog=_EXAMPLES,
    )
