"""`mrec merge`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from molrec_convert.cli.common import PATH, counts_of, directory_size, examples, human_size
from molrec_convert.cli.progress import watch
from molrec_convert.cli.showing import report_options, show_closing, show_report
from molrec_convert.errors import UsageError

__all__ = ["merge_command"]


@report_options
@click.command(
    "merge",
    epilog=examples(
        "mrec merge a.mrec.lmdb b.mrec.lmdb -o all.mrec.lmdb",
        "mrec merge parts.mrec.lmdb -o one.mrec.lmdb        a directory of collections becomes one file",
        "mrec merge part-*.mrec.lmdb -o all.mrec.json       only a manifest: the files stay, and are read as one",
    ),
)
@click.argument("paths", type=PATH, nargs=-1, required=True, metavar="COLLECTION...")
@click.option("-o", "--output", type=PATH, required=True, metavar="TARGET", help="The collection to write.")
@click.option("--overwrite", is_flag=True, help="Replace TARGET, once the new one is complete.")
def merge_command(paths: tuple[Path, ...], output: Path, overwrite: bool) -> None:
    """Write the records of all COLLECTIONs, in their order, as one collection TARGET.

    Values are copied as they are stored, nothing is decoded, where per-step keys and columns are the same; else what
    only some have is missing in the others. Units and force field must be the same; what else differs is said. A TARGET
    that ends in .json becomes a manifest of the files where they lie, which is read as one collection: their
    declarations must be equal then.
    """
    from molrec_convert.report import Report
    from molrec_convert.stores.lmdb.sharded import open_collection

    began, report = time.monotonic(), Report()
    if output.name.endswith(".json"):
        from molrec_convert.files.staging import check_apart, check_target
        from molrec_convert.stores.lmdb.sharded_writer import save_set

        check_target(output, overwrite=overwrite)
        check_apart(output, paths)
        save_set(paths, output, overwrite=overwrite)
    elif not output.name.endswith(".mrec.lmdb"):
        raise UsageError(f"{output} is to be a collection, whose name ends in .mrec.lmdb, or a manifest, in .json")
    else:
        from molrec_convert.migration.failures import join_failures
        from molrec_convert.migration.state import State
        from molrec_convert.stores.lmdb.merging import merge_collections

        with watch() as watcher:
            merge_collections(paths, output, overwrite=overwrite, report=report, progress=watcher)
        join_failures([State(path).failures for path in paths], State(output).failures)
    show_report(report)
    with open_collection(output) as merged:
        counts = counts_of(merged)
    size = human_size(directory_size(output))
    show_closing(f"{output}: {counts}, {size} in {time.monotonic() - began:.1f} s")
