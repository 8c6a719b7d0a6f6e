"""`mrec migrate`."""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molrec_convert.cli.app import show_problems
from molrec_convert.cli.options import (
    DIMENSION_OPTION,
    ELEMENT_OPTIONS,
    PATH,
    FormatCommand,
    directory_size,
    examples,
    format_flags,
    given,
    human_size,
)
from molrec_convert.cli.output import DONE, FAULT, INTERRUPTED, SOME_FAILED, USAGE, print_error, print_lines, sentence
from molrec_convert.cli.reporting import (
    REPORT_OPTIONS,
    check_report_path,
    is_verbose,
    show_closing,
    show_report,
    watch_migration,
    write_report,
)
from molrec_convert.errors import UsageError
from molrec_convert.formats import NoOptions
from molrec_convert.plugins import formats

if TYPE_CHECKING:
    from molrec_convert.migration.engines.engine import Engine
    from molrec_convert.migration.outputs.outcome import Outcome
    from molrec_convert.migration.settings import Settings

__all__ = ["migrate_command"]

_EXAMPLES = examples(
    "mrec migrate 'old/**/*.extxyz' runs/*/ legacy.db -o train.mrec.lmdb --units metal --dry-run",
    "mrec migrate 'old/**/*.extxyz' -o train.mrec.lmdb --units metal --fill pe=NaN --index config_type",
    "find old -name '*.xyz' | mrec migrate - -o train.mrec.lmdb --units metal --workers 8",
    "mrec migrate runs -o records --as records",
    "mrec migrate old -o train.mrec.lmdb --units metal --engine dask --scheduler tcp://head:8786",
)


def _names(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    """Return comma-separated lists as one."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


#: Names of the `ELEMENT_OPTIONS`, which go to the readers like options of formats.
_ELEMENTS = ("elements", "guess_elements")
_PARAMETERS: list[click.Parameter] = [
    click.Argument(["inputs"], nargs=-1, required=True, metavar="INPUT..."),
    click.Option(["-o", "--output", "target"], required=True, type=PATH, metavar="OUT", help="What to write."),
    click.Option(
        ["--as", "as_"],
        type=click.Choice(["collection", "records"]),
        default="collection",
        help="One collection (OUT ends in .mrec.lmdb), or a record of each input in the directory OUT.",
    ),
    click.Option(
        ["--split"],
        type=click.Choice(["frames", "files", "rows"]),
        help="What becomes a record: each frame, each file, or each row of a database. "
        "Default: rows, configurations of a file, or the file, depending on the format.",
    ),
    click.Option(["--dry-run"], is_flag=True, help="Look at all inputs and show the plan; write nothing."),
    click.Option(
        ["--units"],
        metavar="UNITS",
        help="Units of the collection, a preset (metal) or QUANTITY=UNIT,...: inputs that state other units are "
        "converted, those that state none are taken to be in these.",
    ),
    DIMENSION_OPTION,
    *ELEMENT_OPTIONS,
    click.Option(
        ["--fill"], multiple=True, metavar="NAME=VALUE", help="The value to use where a key or column is missing."
    ),
    click.Option(["--rename"], multiple=True, metavar="OLD=NEW", help="Another name for a key or column."),
    click.Option(["--drop"], multiple=True, metavar="NAME", help="Leave out a key, column (atoms/x) or block."),
    click.Option(
        ["--exclude"],
        callback=_names,
        multiple=True,
        metavar="NAME,...",
        help="Leave out all keys, columns (atoms/x) and blocks whose names match, with * and ? as wildcards.",
    ),
    click.Option(
        ["--only"],
        callback=_names,
        multiple=True,
        metavar="NAME,...",
        help="Take only the per-step keys and columns of atoms whose names match; identities and positions of atoms "
        "are kept.",
    ),
    click.Option(
        ["--rules"],
        type=PATH,
        metavar="FILE",
        help="Options for some inputs: TOML, [[input]] with match = 'runs/*.xyz', units, energy_key and so on.",
    ),
    click.Option(["--index"], multiple=True, metavar="KEY", help="Add an index column: a key of the records."),
    click.Option(["--group-by"], metavar="KEY", help="The key whose values become the index column molecule_id."),
    click.Option(
        ["--declaration"],
        type=PATH,
        metavar="FILE",
        help="Take declaration and units from JSON or from another collection, without a first pass over the inputs. "
        "Keys and columns it does not have are left out and reported.",
    ),
    click.Option(
        ["--shard-records"],
        type=click.IntRange(1),
        metavar="N",
        help="Write a set of files of N records each to the directory OUT; it is read as one collection.",
    ),
    click.Option(["--dedupe"], is_flag=True, help="Leave out records whose content is there already."),
    click.Option(
        ["--on-error"],
        type=click.Choice(["skip", "stop"]),
        default="skip",
        help="Note a faulty input in OUT's .failures.jsonl and go on with the rest, or stop at once.",
    ),
    click.Option(
        ["--workers"], type=click.IntRange(1), metavar="N", help="Number of processes; default: one for each processor."
    ),
    click.Option(
        ["--engine"],
        type=click.Choice(["local", "dask"]),
        default="local",
        help="Processes on this machine, or Dask workers: those of --scheduler, or --workers started here.",
    ),
    click.Option(["--scheduler"], metavar="ADDRESS", help="The Dask scheduler, tcp://HOST:PORT; with --engine dask."),
    click.Option(["--from", "from_format"], metavar="FORMAT", help="Format of all inputs, if it is not recognised."),
    click.Option(
        ["--report", "report_path"], type=PATH, metavar="FILE", help="Write as JSON what became of every item."
    ),
    click.Option(["--overwrite"], is_flag=True, help="Replace OUT, or start over what was begun with other options."),
    *REPORT_OPTIONS,
]


def _migrate(inputs: Sequence[str], **arguments: Any) -> int:
    """Make one collection of many files, runs, and rows of databases.

    INPUT is a path, a glob (quoted), a directory to search, '@FILE', a list of paths, or '-', a list on standard input.
    Records have the order of the inputs. If it is killed, run the same command again and it continues. Run it again
    after it is complete, and only inputs that are new are added.
    """
    context = click.get_current_context()
    assert isinstance(context.command, FormatCommand)
    target, report_path = arguments["target"], arguments["report_path"]
    _check_engine(arguments)
    if report_path is not None:
        check_report_path(report_path, [target])
    settings = _settings(arguments, given(context, [*(flag.option.name for flag in context.command.flags), *_ELEMENTS]))
    show_problems()
    began = time.monotonic()
    watcher = watch_migration()
    try:
        with watcher:
            outcome = _run(inputs, target, settings, arguments, watcher)
    except KeyboardInterrupt:
        print_error(f"interrupted, {target} is not complete; the same command continues from here")
        return INTERRUPTED
    except OSError as error:
        print_error(sentence(error, str(target), again="run the same command again, it continues from here"))
        return FAULT
    except UsageError as error:
        from molrec_convert.migration.outputs.outcome import ConflictsError, Outcome

        if report_path is not None and isinstance(error, ConflictsError):
            table = error.plan.table
            plan = error.plan
            told = Outcome(target, len(table), failures=len(plan.failures), left_aside=plan.aside, plan=plan)
            write_report(told.report, report_path, _facts(inputs, target, told, arguments))
        raise
    if report_path is not None:
        write_report(outcome.report, report_path, _facts(inputs, target, outcome, arguments))
    if arguments["dry_run"]:
        print_lines(_plan_lines(outcome))
        conflicts = outcome.plan is not None and outcome.plan.conflicts
        return USAGE if conflicts else SOME_FAILED if outcome.failures else DONE
    show_report(outcome.report)
    show_closing(_closing(target, outcome, time.monotonic() - began))
    if outcome.failures:
        count = "1 input" if outcome.failures == 1 else f"{outcome.failures:,} inputs or rows"
        print_error(f"{count} could not be migrated: see {outcome.failures_path}")
        return SOME_FAILED
    if outcome.report.truncations and not arguments.get("allow_truncated"):
        print_error(f"some inputs are cut off, their whole frames are in {target}; accept that with --allow-truncated")
        return SOME_FAILED
    return DONE


def _facts(inputs: Sequence[str], target: Path, outcome: Outcome, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what a report says beside the items: faulty inputs, conflicts, files left aside."""
    from molrec_convert.migration.state import read_failures

    plan, noted = outcome.plan, []
    if outcome.failures_path is not None:
        noted = [{"path": path, **entry} for path, entry in read_failures(outcome.failures_path)]
    elif plan is not None:
        paths = plan.table.paths
        noted = [{"path": paths[number], "level": "error", **entry} for number, entry in plan.failures.items()]
    return {
        "inputs": list(inputs),
        "target": str(target),
        "dry_run": arguments["dry_run"],
        "failures": noted,
        "conflicts": [] if plan is None else [dataclasses.asdict(conflict) for conflict in plan.conflicts],
        "left_aside": outcome.left_aside,
        "notes": [] if plan is None else plan.notes,
    }


def _check_engine(arguments: dict[str, Any]) -> None:
    """Refuse options of engines that contradict each other."""
    scheduler = arguments["scheduler"]
    if arguments["engine"] == "local":
        if scheduler is not None:
            raise UsageError("--scheduler needs --engine dask: add that, or leave it out")
    elif arguments["as_"] == "records":
        raise UsageError("--engine dask makes a collection: leave out --as records, or the engine")
    elif scheduler is not None and arguments["workers"] is not None:
        raise UsageError("--workers are started here, and a --scheduler has workers of its own: leave out one of them")


def _engine(arguments: dict[str, Any]) -> Engine:
    from molrec_convert.migration.engines.engine import LocalEngine

    if arguments["engine"] == "local":
        return LocalEngine(arguments["workers"])
    from molrec_convert.migration.engines.dask import DaskEngine

    return DaskEngine(arguments["scheduler"], arguments["workers"])


def _settings(arguments: dict[str, Any], options: dict[str, Any]) -> Settings:
    from molrec_convert.migration.settings import Settings, parse_pairs, parse_units, read_rules

    units = arguments["units"]
    if arguments["as_"] == "records":
        collecting = (
            *("split", "fill", "rename", "drop", "exclude", "only", "index"),
            *("group_by", "declaration", "dedupe", "shard_records"),
        )
        for name in collecting:
            if arguments[name]:
                raise UsageError(f"--{name.replace('_', '-')} is for a collection: leave out --as records")
        if units is not None:
            options = {**options, "units": units}
    declaration = arguments["declaration"]
    return Settings(
        split=arguments["split"],
        units=None if units is None else parse_units(units),
        dimensions=arguments["dimensions"] or {},
        fill=parse_pairs(arguments["fill"], "--fill", empty=True),
        rename=parse_pairs(arguments["rename"], "--rename"),
        drop=(*arguments["drop"], *arguments["exclude"]),
        only=arguments["only"],
        trim=declaration is not None,
        rules=() if arguments["rules"] is None else read_rules(arguments["rules"]),
        index=tuple(dict.fromkeys(arguments["index"])),
        group_by=arguments["group_by"],
        on_error=arguments["on_error"],
        dedupe=arguments["dedupe"],
        format=arguments["from_format"],
        options=options,
        declaration=None if declaration is None else str(declaration),
        shard_records=arguments["shard_records"],
    )


def _run(inputs: Sequence[str], target: Path, settings: Settings, arguments: dict[str, Any], watcher: Any) -> Outcome:
    from molrec_convert.migration import migrate, migrate_records

    common: dict[str, Any] = {"overwrite": arguments["overwrite"], "dry_run": arguments["dry_run"], "watcher": watcher}
    if arguments["as_"] == "records":
        return migrate_records(inputs, target, settings, workers=arguments["workers"], **common)
    return migrate(inputs, target, settings, engine=_engine(arguments), **common)


def _plan_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the plan line by line."""
    from molrec_convert.migration.plan import conflict_texts
    from molrec_convert.migration.state import failure_text

    plan = outcome.plan
    known = f", {outcome.known:,} more are migrated already" if outcome.known else ""
    if plan is None:
        yield f"inputs: {outcome.inputs:,}, a record of each"
        return
    yield f"inputs: {outcome.inputs:,}, {human_size(plan.table.nbytes)}{known}"
    for name, (inputs, records) in sorted(plan.format_counts().items()):
        yield f"  {name}: {_count(inputs, 'input')}, {_count(records, 'record')}"
    if plan.aside:
        shown = len(plan.aside) if is_verbose() else 3
        more = ", …" if len(plan.aside) > shown else ""
        yield f"  of no known format, left aside: {len(plan.aside):,} ({', '.join(plan.aside[:shown])}{more})"
    count = plan.n_records
    yield f"records: {'known when they are read' if count is None else f'{count:,}'}, {_count(plan.frames, 'frame')}"
    yield f"units: {', '.join(f'{quantity} {unit}' for quantity, unit in plan.units.items()) or 'not known'}"
    for name, block in plan.declaration.blocks.items():
        columns = ", ".join(f"{key} {c.dtype}{'?' if c.nullable else ''}" for key, c in block.columns.items())
        yield f"block {name}: {columns or 'no column'}"
    if plan.declaration.meta:
        yield f"per step: {', '.join(f'{key} {entry.dtype}' for key, entry in plan.declaration.meta.items())}"
    yield f"size: about {human_size(plan.nbytes)}"
    yield from (f"note: {text}" for text in plan.notes)
    shown = len(plan.failures) if is_verbose() else 20
    for number, failure in list(plan.failures.items())[:shown]:
        yield f"at fault: {failure_text(plan.table.paths[number], failure)}"
    if len(plan.failures) > shown:
        yield f"at fault: {len(plan.failures) - shown:,} more; --verbose lists them, --report FILE has all"
    conflicts = map(str, plan.conflicts) if is_verbose() else conflict_texts(plan.conflicts)
    yield from (f"conflict: {text}" for text in conflicts)


def _closing(target: Path, outcome: Outcome, seconds: float) -> str:
    if outcome.known and not outcome.inputs:
        return f"{target}: all {outcome.known:,} inputs are migrated already, nothing to do"
    counted = [_count(outcome.records, "record")]
    for count, noun, what in (
        (outcome.frames, "frame", ""),
        (outcome.known, "input", " migrated already"),
        (outcome.duplicates, "duplicate", " left out"),
        (outcome.aside, "file", " of no known format left aside"),
    ):
        if count:
            counted.append(_count(count, noun) + what)
    return f"{target}: {', '.join(counted)}, {human_size(directory_size(target))} in {seconds:.1f} s"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def migrate_command() -> click.Command:
    """Return the command, with a flag for each option of the formats that are read."""
    taken = {parameter.name or "" for parameter in _PARAMETERS} | {"units"}
    readable = [
        dataclasses.replace(entry, write_options=NoOptions) for entry in formats().values() if entry.reads is not None
    ]
    return FormatCommand(
        _PARAMETERS,
        format_flags(readable, taken),
        name="migrate",
        callback=_migrate,
        help=inspect.getdoc(_migrate),
        epilog=_EXAMPLES,
    )
