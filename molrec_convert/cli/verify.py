"""`mrec verify`."""

from __future__ import annotations

from pathlib import Path

import click

from molrec_convert.cli.common import PATH, examples
from molrec_convert.cli.outcome import DONE, FAULT
from molrec_convert.cli.output import print_json, print_lines, tell
from molrec_convert.cli.progress import watch

__all__ = ["verify_command"]


@click.command(
    "verify",
    epilog=examples(
        "mrec verify train.mrec.lmdb --against 'old/**/*.extxyz' runs/     every record",
        "mrec verify train.mrec.lmdb --against legacy.db --sample 1%       a hundredth of them",
    ),
)
@click.argument("path", type=PATH, metavar="COLLECTION")
@click.option("--against", multiple=True, required=True, metavar="INPUT", help="A source, a glob, a directory, @LIST.")
@click.argument("more", nargs=-1, metavar="[INPUT]...")
@click.option("--sample", default="all", show_default=True, metavar="N%|all", help="How many records are compared.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Another number, another sample.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def verify_command(
    path: Path, against: tuple[str, ...], more: tuple[str, ...], sample: str, seed: int, as_json: bool
) -> int:
    """Read the sources of COLLECTION again and compare its records and its index with them, bit for bit.

    The exit code is 1 if any differs, is not in the collection, or is there twice.

    Which record is of which source its index says, where 'mrec migrate' made it; else the sources are to be named in
    the order they were. What a migration was asked to do (units, names, fills) is taken into account.
    """
    from molrec_convert.conversion.convert import read
    from molrec_convert.migration.verify import parse_sample, verify_collection
    from molrec_convert.model.record import Record

    part = parse_sample(sample)
    with read(path, verify=True) as collection:
        if isinstance(collection, Record):
            raise click.UsageError(f"{path} is one record: 'mrec diff' compares it")
        with watch() as watcher:
            result = verify_collection(collection, [*against, *more], sample=part, seed=seed, progress=watcher)
    if as_json:
        print_json(result.to_json())
    else:
        print_lines(result.lines)
    for text in result.notes:
        tell(f"note: {text}")
    counts = ((result.different, "differ"), (result.absent, "are absent"), (result.surplus, "are there once more"))
    verdict = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "equal to their sources"
    tell(f"{path}: {result.compared:,} of {result.records:,} records compared, {verdict}")
    return DONE if result.is_equal else FAULT
