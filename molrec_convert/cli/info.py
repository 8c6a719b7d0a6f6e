"""`mrec info`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from molrec_convert.cli.app import show_problems
from molrec_convert.cli.common import PATH, examples, record_options
from molrec_convert.cli.output import print_json, print_lines, shown
from molrec_convert.cli.showing import show_breaks

__all__ = ["info_command"]


@record_options
@click.command(
    "info",
    epilog=examples(
        "mrec info run.mrec",
        "mrec info run.mrec --json",
        "mrec info a.lammpstrj",
        "mrec info all.mrec.lmdb --select 'n_atoms > 10'",
        "mrec info all.mrec.lmdb --record 7",
    ),
)
@click.argument("path", type=PATH, nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.option("--from", "from_format", metavar="FORMAT", help="Format of PATH, where it is not recognised.")
def info_command(
    path: tuple[Path, ...],
    as_json: bool,
    from_format: str | None,
    record: int | slice | None,
    select: str | None,
) -> None:
    """Show what PATH holds: version, units, system, box, frames, columns, method, size.

    PATH is a record, a collection, or any file that can be read; several belong together as for `convert`. Only
    metadata is read.
    """
    from molrec_convert.conversion.convert import read
    from molrec_convert.inspect.summary.record import summarize, summary_rows, text_lines
    from molrec_convert.model.record import Record
    from molrec_convert.report import Report

    report = Report()
    with read(*path, format=from_format, record=record, select=select, verify=True, report=report) as source:
        show_problems()
        show_breaks(report)
        if isinstance(source, Record):
            summary, words = summarize(source), summary_rows
            if summary["path"] is None and len(path) == 1 and record is None:
                summary["path"] = str(path[0])
        else:
            from molrec_convert.inspect.summary.collection import collection_rows, summarize_collection

            summary, words = summarize_collection(source), collection_rows
    if as_json:
        print_json(summary)
        return
    rows = words(summary)
    if sys.stdout.isatty():
        _print_table(rows)
        return
    print_lines(text_lines(rows))


def _print_table(rows: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(Text(shown(row.label)), Text(shown(row.text), style="bold"))
        for line in row.more:
            table.add_row("", Text(shown(line)))
    Console().print(table)
