"""`mrec diff`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from molrec_convert.cli.app import show_problems
from molrec_convert.cli.common import PATH, examples
from molrec_convert.cli.outcome import DONE, FAULT
from molrec_convert.cli.showing import show_breaks

__all__ = ["diff_command"]


@click.command("diff", epilog=examples("mrec diff run.mrec run.mrec.zip", "mrec diff a.mrec b.mrec | head"))
@click.argument("first", type=PATH, metavar="A")
@click.argument("second", type=PATH, metavar="B")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing, only set the exit code.")
def diff_command(first: Path, second: Path, quiet: bool) -> int:
    """Compare the records A and B: one difference a line, exit code 1 when there is any.

    Compared are sections, columns (dtype, shape, values bit for bit, masks, precision), typed meta, the declaration,
    every resolved frame, and unknown content; not chunks, codecs, the order of keys, or who wrote the record.
    """
    from molrec_convert.comparison import differences
    from molrec_convert.conversion import read
    from molrec_convert.report import Report

    found = False
    report = Report()
    with read(first, report=report) as a, read(second, report=report) as b:
        show_problems()
        show_breaks(report)
        for line in differences(a, b):
            found = True
            if quiet:
                break
            sys.stdout.write(f"{line}\n")
    return FAULT if found else DONE
