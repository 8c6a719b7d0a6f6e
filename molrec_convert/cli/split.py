"""`mrec split`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from molrec_convert.cli.common import PATH, counts_of, directory_size, examples, human_size
from molrec_convert.cli.progress import watch
from molrec_convert.cli.showing import report_options, show_closing, show_report
from molrec_convert.conversion.splitting import DEFAULT_FRACTIONS

__all__ = ["split_command"]

_SUFFIX = ".mrec.lmdb"


@report_options
@click.command(
    "split",
    epilog=examples(
        "mrec split all.mrec.lmdb --by molecule_id            all-train, all-valid and all-test.mrec.lmdb",
        "mrec split all.mrec.lmdb --by formula --fractions train=0.9,test=0.1 --seed 7",
        "mrec split all.mrec.lmdb --by molecule_id -o sets/{}.mrec.lmdb",
    ),
)
@click.argument("path", type=PATH, metavar="COLLECTION")
@click.option("--by", metavar="COLUMN", help="Records with equal values of this index column stay together.")
@click.option(
    "--fractions", default=DEFAULT_FRACTIONS, show_default=True, metavar="NAME=PART,...", help="Sides and their parts."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Another number, another division.")
@click.option("-o", "--output", metavar="NAME", help="Name of each side, {} in it stands for the side's own.")
@click.option("--overwrite", is_flag=True, help="Replace what has the names, once the new one is complete.")
def split_command(path: Path, by: str | None, fractions: str, seed: int, output: str | None, overwrite: bool) -> None:
    """Divide COLLECTION at random into collections beside it: train, valid and test, or what --fractions names.

    With --by no value of that index column is on two sides; records without a value stand for themselves. The same
    records, fractions and seed give the same division anywhere.
    """
    from molrec_convert.conversion.convert import read
    from molrec_convert.conversion.splitting import parse_fractions, split_positions
    from molrec_convert.conversion.write_selection import write_some
    from molrec_convert.files.locking import TargetLock
    from molrec_convert.files.staging import check_apart, check_target
    from molrec_convert.model.record import Record
    from molrec_convert.report import Report

    sides = parse_fractions(fractions)
    targets = {name: _target(path, output, name) for name in sides}
    report = Report()
    # the sides belong together: no two divisions are mixed under their names
    with TargetLock(_target(path, output, "")), read(path, verify=True) as collection:
        if isinstance(collection, Record):
            raise click.UsageError(f"{path} is one record: a collection is divided")
        positions = split_positions(collection, sides, by=by, seed=seed)
        for target in targets.values():
            check_target(target, overwrite=overwrite)
            check_apart(target, [path])
        for name, target in targets.items():
            began = time.monotonic()
            chosen = collection.select(positions[name])
            with watch() as watcher:
                write_some(chosen, target, overwrite=overwrite, report=report, progress=watcher)
            counts = counts_of(chosen)
            size = human_size(directory_size(target))
            show_closing(f"{target}: {counts}, {size} in {time.monotonic() - began:.1f} s")
    show_report(report)


def _target(path: Path, output: str | None, side: str) -> Path:
    """Where a side goes."""
    if output is not None:
        if "{}" not in output:
            raise click.UsageError(f"-o {output}: the name has no {{}}, which stands for the side")
        return Path(output.replace("{}", side))
    name = Path(path.absolute()).name
    stem = name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else name.partition(".")[0]
    return path.parent / f"{stem}-{side}{_SUFFIX}"
