"""`mrec tree`."""

from __future__ import annotations

from pathlib import Path

import click

from molrec_convert.cli.common import PATH, examples, record_options, stored
from molrec_convert.cli.output import print_lines
from molrec_convert.errors import UsageError

__all__ = ["tree_command"]


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

    Groups and arrays as they lie in the store: attributes, dtypes, shapes, leading values, chunks and codecs.

    Of a collection its keys, each with what its value holds; of those that are numbered the first six, --files lists
    all. SECTION may be a key then, shown byte range by byte range: index, ff, or r, s or f with a number.
    """
    from molrec_convert.inspect.tree import file_lines, is_collection, is_set, overview_lines, tree_lines

    if (files or overview) and (section or no_zarr):
        shown = "--files lists all files" if files else "--overview shows all sections"
        raise click.UsageError(f"{shown}: leave out sections and --no-zarr")
    if files and overview:
        raise click.UsageError("--files and --overview are two answers: ask for one")
    where = stored(path)
    if is_set(where):
        _show_set(where, section, record, select)
        return
    if is_collection(where):
        _show_collection(where, section, overview, files, record, select)
        return
    if record is not None or select is not None:
        raise UsageError(f"{path} is one record: --record and --select choose records of a collection")
    if overview:
        print_lines(overview_lines(where))
        return
    print_lines(file_lines(where) if files else tree_lines(where, section, zarr=not no_zarr))


def _show_set(path: Path, section: tuple[str, ...], record: int | slice | None, select: str | None) -> None:
    from molrec_convert.inspect.tree import key_named, set_key_lines, set_lines

    keys = [key for name in section if (key := key_named(name)) is not None]
    if keys:
        if len(keys) < len(section) or record is not None or select is not None:
            raise click.UsageError("keys are shown byte by byte: leave out sections, --record and --select")
        for number, key in enumerate(keys):
            print_lines(["", *set_key_lines(path, key)] if number else set_key_lines(path, key))
        return
    chosen: list[int] | None = None
    if record is not None or select is not None:
        from molrec_convert.conversion.collecting import positions
        from molrec_convert.stores.lmdb.sharded import open_collection

        with open_collection(path, verify=True) as collection:
            chosen = positions(collection, record, select)
    print_lines(set_lines(path, section, records=chosen))


def _show_collection(
    path: Path, section: tuple[str, ...], overview: bool, files: bool, record: int | slice | None, select: str | None
) -> None:
    from molrec_convert.inspect.tree import collection_lines, key_lines, key_named, key_overview, value_lines

    keys = [key for name in section if (key := key_named(name)) is not None]
    if keys:
        if len(keys) < len(section) or record is not None or select is not None:
            raise click.UsageError("keys are shown byte by byte: leave out sections, --record and --select")
        for number, key in enumerate(keys):
            print_lines(["", *value_lines(path, key)] if number else value_lines(path, key))
        return
    if record is None and select is None:
        lines = key_overview(path) if overview else key_lines(path) if files else collection_lines(path, section)
        print_lines(lines)
        return
    if overview or files:
        raise click.UsageError("--overview and --files show all keys: leave out --record and --select")
    from molrec_convert.conversion.collecting import positions
    from molrec_convert.stores.lmdb.reader import open_collection

    with open_collection(path, verify=True) as collection:
        chosen = positions(collection, record, select)
    print_lines(collection_lines(path, section, records=chosen))
