"""`mrec tree`."""

from __future__ import annotations

from pathlib import Path

import click

from molrec_convert.cli.common import PATH, examples, existing, print_lines

__all__ = ["tree_command"]


@click.command(
    "tree",
    epilog=examples(
        "mrec tree run.mrec", "mrec tree run.mrec system trajectory --no-zarr", "mrec tree run.mrec.zip --files"
    ),
)
@click.argument("path", type=PATH)
@click.argument("section", nargs=-1)
@click.option("--no-zarr", is_flag=True, help="Leave out how arrays are chunked and encoded.")
@click.option("--overview", is_flag=True, help="Show each section's kind, attribute keys and children only.")
@click.option("--files", is_flag=True, help="List the stored files instead.")
def tree_command(path: Path, section: tuple[str, ...], no_zarr: bool, overview: bool, files: bool) -> None:
    """Show the tree of the stored record PATH, or only some SECTIONs of it.

    Groups and arrays as they lie in the store: attributes, dtypes, shapes, leading values, chunks and codecs.
    """
    from molrec_convert.tree import file_lines, overview_lines, tree_lines

    if (files or overview) and (section or no_zarr):
        shown = "--files lists all files" if files else "--overview shows all sections"
        raise click.UsageError(f"{shown}: leave out sections and --no-zarr")
    if files and overview:
        raise click.UsageError("--files and --overview are two answers: ask for one")
    where = existing(path)
    if overview:
        print_lines(overview_lines(where))
        return
    print_lines(file_lines(where) if files else tree_lines(where, section, zarr=not no_zarr))
