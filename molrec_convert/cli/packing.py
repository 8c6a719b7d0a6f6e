"""`mrec pack` and `mrec unpack`."""

from __future__ import annotations

from pathlib import Path

import click

from molrec_convert.cli.common import PATH, directory_size, examples, existing, human_size
from molrec_convert.cli.output import tell
from molrec_convert.errors import UsageError

__all__ = ["pack_command", "unpack_command"]

_OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace TARGET, once the new one is complete.")


@click.command("pack", epilog=examples("mrec pack run.mrec", "mrec pack run.mrec archive/run.mrec.zip"))
@click.argument("path", type=PATH)
@click.argument("target", type=PATH, required=False)
@_OVERWRITE
def pack_command(path: Path, target: Path | None, overwrite: bool) -> None:
    """Pack the record directory PATH into the file TARGET (by default PATH.zip). The directory stays.

    The packed record is read in place; it is closed, nothing can be appended to it.
    """
    from molrec_convert.stores.zarr.packing import pack

    _refuse_collection(path, "packed: it is a file, or a set of files, as it is")
    goal = path.parent / f"{path.resolve().name}.zip" if target is None else target
    pack(existing(path), goal, overwrite=overwrite)
    tell(f"{goal}: {human_size(directory_size(goal))}")


@click.command("unpack", epilog=examples("mrec unpack run.mrec.zip", "mrec unpack run.mrec.zip elsewhere/run.mrec"))
@click.argument("path", type=PATH)
@click.argument("target", type=PATH, required=False)
@_OVERWRITE
def unpack_command(path: Path, target: Path | None, overwrite: bool) -> None:
    """Unpack the packed record PATH into the directory TARGET (by default PATH without .zip). The file stays."""
    from molrec_convert.stores.zarr.packing import unpack

    _refuse_collection(path, "unpacked")
    if target is None and path.suffix != ".zip":
        raise click.UsageError(f"{path} does not end with .zip: name the target")
    goal = path.with_suffix("") if target is None else target
    unpack(existing(path), goal, overwrite=overwrite)
    tell(f"{goal}: {human_size(directory_size(goal))}")


def _refuse_collection(path: Path, what: str) -> None:
    from molrec_convert.inspect.tree import is_collection, is_set

    if is_collection(path) or is_set(path):
        raise UsageError(
            f"{path} is a collection, which cannot be {what}; a record is taken out of it with "
            f"'mrec convert {path} TARGET.mrec --record N'"
        )
