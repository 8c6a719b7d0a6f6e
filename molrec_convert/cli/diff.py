"""`mrec diff`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from molrec_convert.cli.app import show_problems
from molrec_convert.cli.common import PATH, examples, record_options
from molrec_convert.cli.outcome import DONE, FAULT
from molrec_convert.cli.output import print_lines
from molrec_convert.cli.showing import show_breaks
from molrec_convert.errors import UsageError

__all__ = ["diff_command"]


@record_options
@click.command(
    "diff",
    epilog=examples(
        "mrec diff run.mrec run.mrec.zip",
        "mrec diff a.mrec b.mrec | head",
        "mrec diff all.mrec.lmdb run.mrec --record 7",
    ),
)
@click.argument("first", type=PATH, metavar="A")
@click.argument("second", type=PATH, metavar="B")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing, only set the exit code.")
def diff_command(first: Path, second: Path, quiet: bool, record: int | slice | None, select: str | None) -> int:
    """Compare the records A and B: one difference a line, exit code 1 when there is any.

    Compared are sections, columns (dtype, shape, values bit for bit, masks, precision), typed meta, the declaration,
    every resolved frame, and unknown content; not chunks, codecs, the order of keys, or who wrote the record.

    Two collections are compared record by record, by their numbers; a collection of one, or the record that is chosen
    of a collection, with a record.
    """
    from molrec_convert.conversion.convert import read
    from molrec_convert.report import Report

    found = False
    report = Report()
    with read(first, verify=True, report=report) as a, read(second, verify=True, report=report) as b:
        show_problems()
        show_breaks(report)
        with ExitStack() as stack:
            for line in _differences(a, b, record, select, stack):
                found = True
                if quiet:
                    break
                print_lines([line])
    return FAULT if found else DONE


def _settled(record: Any, stack: ExitStack) -> Any:
    """The record as a store has it, where that turns out only at the end which columns never change."""
    from molrec_convert.conversion.convert import read, write

    trajectory = record.trajectory
    if trajectory is None or all(block.settles is None for block in trajectory.declaration.blocks.values()):
        return record
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mrec-diff-")))
    write(record, folder / "settled.mrec")
    return stack.enter_context(read(folder / "settled.mrec"))


def _differences(a: Any, b: Any, record: int | slice | None, select: str | None, stack: ExitStack) -> Iterator[str]:
    """The lines for two records, two collections, or one of each; `stack` closes what is opened for that."""
    from molrec_convert.conversion.collecting import chosen, standing_alone
    from molrec_convert.inspect.diff import collection_differences, differences
    from molrec_convert.model.record import Record
    from molrec_convert.report import Report

    if record is not None or select is not None:
        if isinstance(a, Record) and isinstance(b, Record):
            raise UsageError("both are one record: --record and --select choose records of a collection")
        a, b = (c if isinstance(c, Record) else chosen(c, record, select, Report()) for c in (a, b))
    if not isinstance(a, Record) and not isinstance(b, Record):
        return collection_differences(a, b)
    pair = []
    for source in (a, b):
        if not isinstance(source, Record):
            if len(source) != 1:
                raise UsageError(
                    f"{source.path} is a collection of {len(source):,} records: choose one to compare with --record N"
                )
            source = standing_alone(source, 0, Report())
        pair.append(source)
    return differences(*(_settled(source, stack) for source in pair))
