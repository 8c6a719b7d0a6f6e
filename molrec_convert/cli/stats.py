"""`mrec stats`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from molrec_convert.cli.common import PATH, RECORD_OPTIONS, examples
from molrec_convert.cli.output import print_json, print_lines
from molrec_convert.cli.progress import watch
from molrec_convert.cli.showing import check_replaced, written_at

__all__ = ["stats_command"]


@click.command(
    "stats",
    epilog=examples(
        "mrec stats train.mrec.lmdb",
        "mrec stats train.mrec.lmdb --html train.html --png train.png",
        "mrec stats train.mrec.lmdb --select 'n_atoms > 10' --json",
    ),
)
@click.argument("path", type=PATH, metavar="COLLECTION")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.option("--html", "page", type=PATH, metavar="FILE", help="Write a page with drawings.")
@click.option("--png", "picture", type=PATH, metavar="FILE", help="Draw elements and histograms (needs matplotlib).")
def stats_command(
    path: Path,
    as_json: bool,
    page: Path | None,
    picture: Path | None,
    record: int | slice | None,
    select: str | None,
) -> None:
    """Show what the numbers of COLLECTION are like: counts, elements, ranges and histograms of every column and key.

    All records are read, once. Text goes to standard output; --html and --png write files beside that.
    """
    from molrec_convert.conversion.convert import read
    from molrec_convert.inspect.stats import collect_statistics, save_picture, statistics_lines, statistics_page
    from molrec_convert.model.collection.collection import MemoryCollection
    from molrec_convert.model.collection.record import collection_units
    from molrec_convert.model.record import Record

    for target, flag, beginning in ((page, "--html", b"<!doctype html>"), (picture, "--png", b"\x89PNG")):
        if target is None:
            continue
        if not target.absolute().parent.is_dir():
            raise click.UsageError(f"cannot write {target}: there is no directory {target.parent}")
        check_replaced(target, flag, beginning)
    with read(path, record=record, select=select, verify=True) as source:
        if isinstance(source, Record):
            alone = dataclasses.replace(source, forcefield=None, unknown=None, _close=None)
            source = MemoryCollection([alone], units=collection_units(source.units))
        with watch() as watcher:
            document = collect_statistics(source, watcher)
    if as_json:
        print_json(document)
    else:
        print_lines(statistics_lines(document))
    if page is not None:
        with written_at(page) as made:
            made.write_text(statistics_page(document), encoding="utf-8", errors="backslashreplace")
    if picture is not None:
        with written_at(picture) as made:
            save_picture(document, made)


stats_command.params.extend(RECORD_OPTIONS)
