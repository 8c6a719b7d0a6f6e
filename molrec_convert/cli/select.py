"""`mrec select`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from molrec_convert.cli.common import PATH, counts_of, directory_size, examples, human_size
from molrec_convert.cli.output import print_lines
from molrec_convert.cli.progress import watch
from molrec_convert.cli.showing import report_options, show_closing, show_report

__all__ = ["select_command"]


@report_options
@click.command(
    "select",
    epilog=examples(
        "mrec select all.mrec.lmdb 'n_atoms <= 20 and energy < -3' -o small.mrec.lmdb",
        'mrec select all.mrec.lmdb \'formula == "H2 O" or formula == "H2 O2"\' -o water.mrec.lmdb',
        "mrec select all.mrec.lmdb 'n_atoms == 3'           only say how many there are",
    ),
)
@click.argument("path", type=PATH, metavar="COLLECTION")
@click.argument("condition", metavar="CONDITION")
@click.option("-o", "--output", type=PATH, metavar="TARGET", help="The collection to write.")
@click.option("--overwrite", is_flag=True, help="Replace TARGET, once the new one is complete.")
def select_command(path: Path, condition: str, output: Path | None, overwrite: bool) -> None:
    """Write the records of COLLECTION that fit CONDITION as a collection TARGET.

    CONDITION compares index columns: NAME OP VALUE with = != < <= > >=, joined by 'and', 'or' and parentheses, as
    --select of the other commands. Values are copied as they are stored. Without TARGET the records are counted.
    """
    from molrec_convert.conversion.convert import read
    from molrec_convert.conversion.write_selection import write_some
    from molrec_convert.files.staging import check_apart
    from molrec_convert.model.collection.collection import Collection
    from molrec_convert.report import Report

    began, report = time.monotonic(), Report()
    with read(path, select=condition, verify=True) as chosen:
        assert isinstance(chosen, Collection), "records of a collection are one"
        counts = counts_of(chosen)
        if output is None:
            print_lines([counts])
            return
        check_apart(output, [path])
        with watch() as watcher:
            write_some(chosen, output, overwrite=overwrite, report=report, progress=watcher)
    show_report(report)
    size = human_size(directory_size(output))
    show_closing(f"{output}: {counts}, {size} in {time.monotonic() - began:.1f} s")
