"""`mrec formats`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from molrec_convert.cli.app import show_problems
from molrec_convert.cli.options import examples
from molrec_convert.cli.output import print_json, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from molrec_convert.formats import Format

__all__ = ["formats_command"]

_HEADS = ("name", "title", "reads", "writes", "files")


@click.command("formats", epilog=examples("mrec formats", "mrec formats lammps-dump", "mrec formats --json"))
@click.argument("name", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def formats_command(name: tuple[str, ...], as_json: bool) -> None:
    """List the formats: what each reads and writes, its file names, what it loses.

    With NAMEs, only those formats, with their options.
    """
    from molrec_convert.plugins import format_named, formats

    chosen = [format_named(one) for one in name] if name else list(formats().values())
    show_problems()
    if as_json:
        print_json([_document(entry) for entry in chosen])
    elif sys.stdout.isatty():
        _print_table(chosen, details=bool(name))
    else:
        print_lines(_plain_lines(chosen, details=bool(name)))


def _row(entry: Format) -> tuple[str, ...]:
    reads = "yes" if entry.reads is not None else "no"
    writes = "yes" if entry.writes is not None else "no"
    return entry.name, entry.title, reads, writes, " ".join(entry.patterns)


def _fates(entry: Format) -> Iterator[str]:
    """Yield what becomes of each section of a record, each way."""
    for section, capability in entry.carries.items():
        words = []
        if entry.reads is not None and capability.read != "none":
            words.append(f"read: {capability.read}")
        if entry.writes is not None:
            words.append(f"written: {'not carried' if capability.write == 'none' else capability.write}")
        if words:
            yield f"{section}: {'; '.join(words)}"


def _loses(entry: Format) -> Iterator[str]:
    return (line for line in _fates(entry) if not set(line.partition(": ")[2].split("; ")) <= _EXACT)


_EXACT = {"read: exact", "written: exact"}


def _plain_lines(chosen: list[Format], *, details: bool) -> Iterator[str]:
    rows = [_HEADS, *(_row(entry) for entry in chosen)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS) - 1)]
    for row, entry in zip(rows, [None, *chosen], strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True))
        yield "  ".join(cells).rstrip()
        if entry is not None:
            yield from (f"    {line}" for line in (_fates(entry) if details else _loses(entry)))
            yield from (f"    {line}" for line in _option_lines(entry) if details)


def _option_lines(entry: Format) -> Iterator[str]:
    for label, options in (("reading", entry.read_options), ("writing", entry.write_options)):
        for flag, text in _options(options):
            yield f"{label}: {flag}  {text}"


def _options(cls: type) -> list[tuple[str, str]]:
    from molrec_convert.formats import options_of

    return [(option.flag, option.help) for option in options_of(cls)]


def _print_table(chosen: list[Format], *, details: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in _HEADS:
        table.add_column(head, overflow="fold", style="bold cyan" if head == "name" else "")
    for entry in chosen:
        table.add_row(*_row(entry))
        for line in [*(_fates(entry) if details else _loses(entry)), *(_option_lines(entry) if details else ())]:
            table.add_row("", f"[dim]{line}[/dim]")
    Console().print(table)


def _document(entry: Format) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "reads": entry.reads is not None,
        "writes": entry.writes is not None,
        "kind": entry.kind,
        "patterns": list(entry.patterns),
        "carries": {
            section: {"read": capability.read, "write": capability.write}
            for section, capability in entry.carries.items()
        },
        "read_options": dict(_options(entry.read_options)),
        "write_options": dict(_options(entry.write_options)),
        "many_inputs": entry.many_inputs,
        "combines": list(entry.combines),
        "resumable": entry.resumable,
        "extra": entry.extra,
        "reference": entry.reference,
    }
