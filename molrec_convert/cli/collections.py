"""Commands on collections: merge, select, split, verify, stats."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import click

from molrec_convert.cli.options import PATH, RECORD_OPTIONS, counts_of, directory_size, examples, human_size
from molrec_convert.cli.output import DONE, FAULT, print_json, print_lines, print_message
from molrec_convert.cli.reporting import check_replaced, report_options, show_closing, show_report, watch, written_at
from molrec_convert.errors import UsageError

__all__ = ["merge_command", "select_command", "split_command", "stats_command", "verify_command"]


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

    Where per-step keys and columns are the same, values are copied as they are stored; nothing is decoded. Otherwise,
    what only some have is missing in the others. Units and force field must be the same; other differences are
    reported. A TARGET that ends in .json becomes a manifest of the files where they are, which is read as one
    collection; their declarations must then be equal.
    """
    from molrec_convert.report import Report
    from molrec_convert.stores.lmdb.sharded import open_collection

    began, report = time.monotonic(), Report()
    if output.name.endswith(".json"):
        from molrec_convert.files.staging import check_apart, check_target
        from molrec_convert.stores.lmdb.sharded import save_set

        check_target(output, overwrite=overwrite)
        check_apart(output, paths)
        save_set(paths, output, overwrite=overwrite)
    elif not output.name.endswith(".mrec.lmdb"):
        raise UsageError(f"{output} must end in .mrec.lmdb, for a collection, or in .json, for a manifest")
    else:
        from molrec_convert.migration.state import State, join_failures
        from molrec_convert.stores.lmdb.merging import merge_collections

        with watch() as watcher:
            merge_collections(paths, output, overwrite=overwrite, report=report, progress=watcher)
        join_failures([State(path).failures for path in paths], State(output).failures)
    show_report(report)
    with open_collection(output) as merged:
        counts = counts_of(merged)
    size = human_size(directory_size(output))
    show_closing(f"{output}: {counts}, {size} in {time.monotonic() - began:.1f} s")


@report_options
@click.command(
    "select",
    epilog=examples(
        "mrec select all.mrec.lmdb 'n_atoms <= 20 and energy < -3' -o small.mrec.lmdb",
        'mrec select all.mrec.lmdb \'formula == "H2 O" or formula == "H2 O2"\' -o water.mrec.lmdb',
        "mrec select all.mrec.lmdb 'n_atoms == 3'           only count them",
    ),
)
@click.argument("path", type=PATH, metavar="COLLECTION")
@click.argument("condition", metavar="CONDITION")
@click.option("-o", "--output", type=PATH, metavar="TARGET", help="The collection to write.")
@click.option("--overwrite", is_flag=True, help="Replace TARGET, once the new one is complete.")
def select_command(path: Path, condition: str, output: Path | None, overwrite: bool) -> None:
    """Write the records of COLLECTION that fit CONDITION as a collection TARGET.

    CONDITION compares index columns: NAME OP VALUE with = != < <= > >=, joined by 'and', 'or' and parentheses, like
    --select of the other commands. Values are copied as they are stored. Without TARGET the records are only counted.
    """
    from molrec_convert.conversion.convert import write_selection
    from molrec_convert.conversion.reading import read
    from molrec_convert.files.staging import check_apart
    from molrec_convert.model.collection.collection import Collection
    from molrec_convert.report import Report

    began, report = time.monotonic(), Report()
    with read(path, select=condition, verify=True) as chosen:
        assert isinstance(chosen, Collection), "records of a collection are one"
        counts = counts_of(chosen)
        if output is None:
            print_lines([counts])
            return
        check_apart(output, [path])
        with watch() as watcher:
            write_selection(chosen, output, overwrite=overwrite, report=report, progress=watcher)
    show_report(report)
    size = human_size(directory_size(output))
    show_closing(f"{output}: {counts}, {size} in {time.monotonic() - began:.1f} s")


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
    "--fractions",
    default="train=0.8,valid=0.1,test=0.1",
    show_default=True,
    metavar="NAME=PART,...",
    help="The sides and their parts of the records.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Another number divides anew.")
@click.option("-o", "--output", metavar="NAME", help="Name of each target; {} in it stands for the name of the side.")
@click.option("--overwrite", is_flag=True, help="Replace existing targets, each once the new one is complete.")
def split_command(path: Path, by: str | None, fractions: str, seed: int, output: str | None, overwrite: bool) -> None:
    """Divide COLLECTION at random into collections beside it: train, valid and test, or what --fractions names.

    With --by, records with the same value of that index column are on the same side; a record without a value is
    divided by itself. The same records, fractions and seed give the same division anywhere.
    """
    from molrec_convert.conversion.collections import parse_fractions, split_positions
    from molrec_convert.conversion.convert import write_selection
    from molrec_convert.conversion.reading import read
    from molrec_convert.files.locking import TargetLock
    from molrec_convert.files.staging import check_apart, check_target
    from molrec_convert.model.record import Record
    from molrec_convert.report import Report

    sides = parse_fractions(fractions)
    targets = {name: _target(path, output, name) for name in sides}
    report = Report()
    # the sides belong together: two divisions at once must not mix under their names
    with TargetLock(_target(path, output, "")), read(path, verify=True) as collection:
        if isinstance(collection, Record):
            raise click.UsageError(f"{path} is one record, and only a collection can be divided")
        positions = split_positions(collection, sides, by=by, seed=seed)
        for target in targets.values():
            check_target(target, overwrite=overwrite)
            check_apart(target, [path])
        for name, target in targets.items():
            began = time.monotonic()
            chosen = collection.select(positions[name])
            with watch() as watcher:
                write_selection(chosen, target, overwrite=overwrite, report=report, progress=watcher)
            counts = counts_of(chosen)
            size = human_size(directory_size(target))
            show_closing(f"{target}: {counts}, {size} in {time.monotonic() - began:.1f} s")
    show_report(report)


def _target(path: Path, output: str | None, side: str) -> Path:
    """Return where a side goes."""
    if output is not None:
        if "{}" not in output:
            raise click.UsageError(f"-o {output}: the name has no {{}}, which stands for the side")
        return Path(output.replace("{}", side))
    name = Path(path.absolute()).name
    stem = name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else name.partition(".")[0]
    return path.parent / f"{stem}-{side}{_SUFFIX}"


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
@click.option("--sample", default="all", show_default=True, metavar="N%|all", help="How many records to compare.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Another number samples anew.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def verify_command(
    path: Path, against: tuple[str, ...], more: tuple[str, ...], sample: str, seed: int, as_json: bool
) -> int:
    """Check COLLECTION against its source files: read them again and compare records and index, bit for bit.

    The exit code is 1 if any record differs, is not in the collection, or is there twice.

    The index of a collection made by 'mrec migrate' says which record came from which source; otherwise name the
    sources in the order they had. The options of the migration (units, names, fills) are taken into account.
    """
    from molrec_convert.conversion.reading import read
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
        print_message(f"note: {text}")
    counts = ((result.different, "differ"), (result.absent, "are absent"), (result.surplus, "are there twice"))
    verdict = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "equal to their sources"
    print_message(f"{path}: {result.compared:,} of {result.records:,} records compared, {verdict}")
    return DONE if result.is_equal else FAULT


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
@click.option("--html", "page", type=PATH, metavar="FILE", help="Write a page with charts.")
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

    All records are read once. Text goes to standard output; --html and --png write files as well.
    """
    from molrec_convert.conversion.reading import read
    from molrec_convert.inspect.stats import collect_statistics, save_picture, statistics_lines, statistics_page
    from molrec_convert.model.collection.collection import MemoryCollection
    from molrec_convert.model.collection.member import collection_units
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
