"""Commands that look at what is stored: info, tree, validate, diff; pack and unpack."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from molrec_convert.cli.app import show_problems
from molrec_convert.cli.options import PATH, directory_size, examples, existing, human_size, record_options, stored
from molrec_convert.cli.output import DONE, FAULT, print_json, print_lines, print_message, shown
from molrec_convert.cli.reporting import show_breaks
from molrec_convert.errors import UsageError

__all__ = ["diff_command", "info_command", "pack_command", "tree_command", "unpack_command", "validate_command"]


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
@click.option("--from", "from_format", metavar="FORMAT", help="Format of PATH, if it is not recognised.")
def info_command(
    path: tuple[Path, ...],
    as_json: bool,
    from_format: str | None,
    record: int | slice | None,
    select: str | None,
) -> None:
    """Show what PATH holds: version, units, system, box, frames, columns, method, size.

    PATH is a record, a collection, or any file that can be read; several that belong together are read as by
    'mrec convert'. Only metadata is read.
    """
    from molrec_convert.conversion.reading import read
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


@record_options
@click.command(
    "tree",
    epilog=examples(
        "mrec tree run.mrec",
        "mrec tree run.mrec system trajectory --no-zarr",
        "mrec tree run.mrec.zip --files",
        "mrec tree all.mrec.lmdb --record 7",
        "mrec tree all.mrec.lmdb index f12",
    ),
)
@click.argument("path", type=PATH)
@click.argument("section", nargs=-1)
@click.option("--no-zarr", is_flag=True, help="Leave out how arrays are chunked and encoded.")
@click.option("--overview", is_flag=True, help="Show each section's kind, attribute keys and children only.")
@click.option("--files", is_flag=True, help="List the stored files instead.")
def tree_command(
    path: Path,
    section: tuple[str, ...],
    no_zarr: bool,
    overview: bool,
    files: bool,
    record: int | slice | None,
    select: str | None,
) -> None:
    """Show the tree of the stored record PATH, or only some SECTIONs of it.

    It lists groups and arrays as they are stored: attributes, dtypes, shapes, first values, chunks and codecs.

    For a collection it lists the keys, each with what its value holds; of numbered keys the first six, with --files
    all. SECTION may then be a key, which is shown byte range by byte range: index, ff, or r, s or f with a number.
    """
    from molrec_convert.inspect.tree import file_lines, is_collection, is_set, overview_lines, tree_lines

    if (files or overview) and (section or no_zarr):
        shown = "--files lists all files" if files else "--overview shows all sections"
        raise click.UsageError(f"{shown}: leave out sections and --no-zarr")
    if files and overview:
        raise click.UsageError("--files and --overview are two answers: ask for one")
    where = stored(path)
    if is_set(where) or is_collection(where):
        _show_collection(where, section, overview, files, record, select)
        return
    if record is not None or select is not None:
        raise UsageError(f"{path} is one record: --record and --select choose records of a collection")
    if overview:
        print_lines(overview_lines(where))
        return
    print_lines(file_lines(where) if files else tree_lines(where, section, zarr=not no_zarr))


def _show_collection(
    path: Path, section: tuple[str, ...], overview: bool, files: bool, record: int | slice | None, select: str | None
) -> None:
    """Print the tree of a collection, in one file or in several, or the values of some of its keys byte by byte."""
    from molrec_convert.inspect import tree

    in_set = tree.is_set(path)
    keys = [key for name in section if (key := tree.key_named(name)) is not None]
    chosen: list[int] | None = None
    if keys:
        if len(keys) < len(section) or record is not None or select is not None:
            raise click.UsageError("keys are shown byte by byte: leave out sections, --record and --select")
        for number, key in enumerate(keys):
            lines = tree.set_key_lines(path, key) if in_set else tree.value_lines(path, key)
            print_lines(["", *lines] if number else lines)
        return
    if record is not None or select is not None:
        if not in_set and (overview or files):
            raise click.UsageError("--overview and --files show all keys: leave out --record and --select")
        from molrec_convert.conversion.shaping import positions
        from molrec_convert.stores.lmdb.sharded import open_collection

        with open_collection(path, verify=True) as collection:
            chosen = positions(collection, record, select)
    if in_set:
        print_lines(tree.set_lines(path, section, records=chosen))
    elif chosen is None and (overview or files):
        print_lines(tree.key_overview(path) if overview else tree.key_lines(path))
    else:
        print_lines(tree.collection_lines(path, section, records=chosen))


@click.command(
    "validate",
    epilog=examples("mrec validate run.mrec", "mrec validate run.mrec.zip --json", "mrec validate all.mrec.lmdb"),
)
@click.argument("path", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def validate_command(path: Path, as_json: bool) -> int:
    """Check the stored record, or the collection, PATH against every rule of the contract, and list all findings.

    Errors are what readers refuse: exit code 1. Warnings are what they can read: exit code 0.
    """
    from molrec_convert.inspect.validation import Severity, validate

    findings = validate(stored(path))
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    if as_json:
        print_json(
            {
                "path": str(path),
                "errors": errors,
                "warnings": warnings,
                "findings": [{"severity": f.severity.value, "node": f.node, "message": f.message} for f in findings],
            }
        )
    else:
        print_lines(map(str, findings))
    verdict = "valid" if not errors else "not valid"
    print_message(f"{path}: {verdict}, {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    return FAULT if errors else DONE


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
@click.option("--quiet", "-q", is_flag=True, help="Print nothing; only set the exit code.")
def diff_command(first: Path, second: Path, quiet: bool, record: int | slice | None, select: str | None) -> int:
    """Compare the records A and B: one difference a line, exit code 1 if there is any.

    Compared are sections, columns (dtype, shape, values bit for bit, masks, precision), typed meta, the declaration,
    every resolved frame, and unknown content; not chunks, codecs, the order of keys, or who wrote the record.

    Two collections are compared record by record, by number. A record is compared with a collection of one, or with the
    record chosen from a collection.
    """
    from molrec_convert.conversion.reading import read
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
    """Return the record as it is once stored, if only its end shows which columns never change."""
    from molrec_convert.conversion.convert import write
    from molrec_convert.conversion.reading import read

    trajectory = record.trajectory
    if trajectory is None or all(block.settles is None for block in trajectory.declaration.blocks.values()):
        return record
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mrec-diff-")))
    write(record, folder / "settled.mrec")
    return stack.enter_context(read(folder / "settled.mrec"))


def _differences(a: Any, b: Any, record: int | slice | None, select: str | None, stack: ExitStack) -> Iterator[str]:
    """Return the differences of two records, two collections, or one of each; `stack` closes what they need open."""
    from molrec_convert.conversion.shaping import as_standalone_record, choose_records
    from molrec_convert.inspect.diff import collection_differences, differences
    from molrec_convert.model.record import Record
    from molrec_convert.report import Report

    if record is not None or select is not None:
        if isinstance(a, Record) and isinstance(b, Record):
            raise UsageError("both are one record: --record and --select choose records of a collection")
        a, b = (c if isinstance(c, Record) else choose_records(c, record, select, Report()) for c in (a, b))
    if not isinstance(a, Record) and not isinstance(b, Record):
        return collection_differences(a, b)
    pair = []
    for source in (a, b):
        if not isinstance(source, Record):
            if len(source) != 1:
                raise UsageError(
                    f"{source.path} is a collection of {len(source):,} records: choose one to compare with --record N"
                )
            source = as_standalone_record(source, 0, Report())
        pair.append(source)
    return differences(*(_settled(source, stack) for source in pair))


_OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace TARGET, once the new one is complete.")


@click.command("pack", epilog=examples("mrec pack run.mrec", "mrec pack run.mrec archive/run.mrec.zip"))
@click.argument("path", type=PATH)
@click.argument("target", type=PATH, required=False)
@_OVERWRITE
def pack_command(path: Path, target: Path | None, overwrite: bool) -> None:
    """Pack the record directory PATH into the file TARGET (by default PATH.zip). The directory stays.

    The packed record is read in place; nothing can be appended to it.
    """
    from molrec_convert.stores.zarr.record_writer import pack

    _refuse_collection(path, "packed: it is one file, or a set of files, already")
    goal = path.parent / f"{path.resolve().name}.zip" if target is None else target
    pack(existing(path), goal, overwrite=overwrite)
    print_message(f"{goal}: {human_size(directory_size(goal))}")


@click.command("unpack", epilog=examples("mrec unpack run.mrec.zip", "mrec unpack run.mrec.zip elsewhere/run.mrec"))
@click.argument("path", type=PATH)
@click.argument("target", type=PATH, required=False)
@_OVERWRITE
def unpack_command(path: Path, target: Path | None, overwrite: bool) -> None:
    """Unpack the packed record PATH into the directory TARGET (by default PATH without .zip). The file stays."""
    from molrec_convert.stores.zarr.record_writer import unpack

    _refuse_collection(path, "unpacked")
    if target is None and path.suffix != ".zip":
        raise click.UsageError(f"{path} does not end with .zip: name the target")
    goal = path.with_suffix("") if target is None else target
    unpack(existing(path), goal, overwrite=overwrite)
    print_message(f"{goal}: {human_size(directory_size(goal))}")


def _refuse_collection(path: Path, what: str) -> None:
    from molrec_convert.inspect.tree import is_collection, is_set

    if is_collection(path) or is_set(path):
        raise UsageError(
            f"{path} is a collection, which cannot be {what}; take a record out of it with "
            f"'mrec convert {path} TARGET.mrec --record N'"
        )
