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
@click.option("--files", is_flag=True, help="List the stored files instead.")
def tree_command(path: Path, section: tuple[str, ...], no_zarr: bool, files: bool) -> None:
    """Show the tree of the stored record PATH, or only some SECTIONs of it.

    Groups and arrays as they lie in the store: attributes, dtypes, shapes, leading values, chunks and codecs.
    """
    from molrec_convert.tree import file_lines, tree_lines

    if files and (section or no_zarr):
        raise click.UsageError("--files lists all files: leave out sections and --no-zarr")
    print_lines(file_lines(existing(path)) if files else tree_lines(existing(path), section, zarr=not no_zarr))
