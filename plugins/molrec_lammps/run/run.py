"""A LAMMPS run as a record: the reader of the format `lammps-run`.

A directory, or any of its files: input script, data file, dumps, log. The script and the commands a log echoes say
what the run was (what ran according to a whole log counts before what a script says); the data file becomes `system`,
the dump the trajectory, thermo output its per-step values; `method` and `status` say how it was made and how it ended.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from molrec_convert import join_records
from molrec_convert.errors import UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Frame, Metrics, Observables, Record
from molrec_convert.quantities.dimensions import units_object
from molrec_convert.report import Fate, Report
from molrec_lammps.common.units import UNITS, check_units
from molrec_lammps.data.file import DataFile
from molrec_lammps.data.record import data_frame
from molrec_lammps.dump.record import RunFacts, dump_record
from molrec_lammps.dump.sidecar.augmented import SideSource, add_sides, open_sides
from molrec_lammps.dump.sidecar.local import local_attributes, told_columns
from molrec_lammps.log.averages import AveCommand, Averages, ave_commands, averages_of
from molrec_lammps.log.log import Log, echo_everything
from molrec_lammps.log.metrics import Clock, clock_of, metrics_of, report_unstated
from molrec_lammps.log.tables import Thermo, thermo_of
from molrec_lammps.run.discovery import (
    DumpFiles,
    Sources,
    choose_beside,
    choose_dumps,
    find_logs,
    find_script,
    left_out,
    runs_of,
    units_of_dumps,
)
from molrec_lammps.run.documents import keep_state, method_document, normalized, status_document, with_properties
from molrec_lammps.run.settings import Settings, merged_settings, settings_of
from molrec_lammps.run.system import RunSystem
from molrec_lammps.script.script import Command, RunSetup, Script, find_file

__all__ = ["averages_of_run", "commands_of", "read_run", "side_sources"]


def commands_of(script: Script | None, logs: Sequence[Log]) -> list[Command]:
    """Return all commands that are known of a run: the script's, then those its logs echo."""
    typed = [] if script is None else script.commands
    return [*typed, *(command for log in logs for command in log.commands)]


def side_sources(dumps: Sequence[DumpFiles], commands: Sequence[Command], words: Sequence[str]) -> list[SideSource]:
    """Return the local and grid dumps of a run, with what their columns mean; what the user says of them in `words`
    counts.
    """
    told = told_columns(words)
    attributes = {**local_attributes(commands), **told}
    return [
        SideSource(dump.files, attributes=told)
        if dump.command is None
        else SideSource(dump.files, dump.command.id, attributes, "%" in dump.command.file)
        for dump in dumps
    ]


def averages_of_run(sources: Sources, commands: Sequence[Command], report: Report) -> Averages:
    """Return the averages of a run: the files the user names and its commands write, without commands those that are
    there.
    """
    written: dict[Path, AveCommand] = {}
    files = list(sources.named["ave"])
    for command in ave_commands(commands):
        path = next((path for path in files if path.name == Path(command.file).name), None)
        path = path or find_file(command.file, sources.folders)
        if path is None:
            report.warn(f"{command.text!r} names a file that is not there")
            continue
        written[path] = command
    if written or files:
        left_out(report, [path for path in sources.found["ave"] if path not in written], "the run does not write it")
    else:
        files = list(sources.found["ave"])
    files += written
    unique = {path.resolve(): path for path in reversed(files)}
    return averages_of(list(unique.values())[::-1], written, report)


@dataclass
class _Run:
    """The parts of a run that are there."""

    sources: Sources
    script: Script | None = None
    logs: list[Log] = field(default_factory=list)
    settings: Settings | None = None
    dumps: list[DumpFiles] = field(default_factory=list)
    beside: list[DumpFiles] = field(default_factory=list)


def read_run(paths: Sequence[Path], context: ReadContext) -> Record:
    """Read a run directory, or the files of a run in any combination, into one record.

    Names in a script are looked up where the script or the directory is. Several directories of runs are a run and what
    continues it: their frames follow one another in time. UsageError where nothing tells which of several files is
    meant, or where there is neither a dump, nor a data file, nor a log.
    """
    runs = runs_of([Path(path) for path in paths])
    if len(runs) == 1:
        return _read(runs[0], context)[0]
    records: list[tuple[str, Record]] = []
    earlier: _Earlier | None = None
    for sources in runs:
        record, own = _read(sources, context, earlier)
        records.append((sources.where, record))
        earlier = own if earlier is None or own.data is not None else earlier
    options = context.options
    return join_records(records, overlap=options.overlap, shift_time=options.shift_time, report=context.report)


@dataclass(frozen=True)
class _Earlier:
    """What holds on for a run that begins from the restart file of another one: data file, units, and the clock."""

    data: Path | None
    units: str | None
    clock: Clock | None


def _read(sources: Sources, context: ReadContext, earlier: _Earlier | None = None) -> tuple[Record, _Earlier]:
    """Return one run, and what a run that continues it does not state; `earlier` is that of the one it continues."""
    report = context.report
    run = _gather(sources, report)
    settings = run.settings
    continues = earlier is not None and settings is not None and settings.restarted and not settings.data
    if continues and earlier is not None and earlier.data is not None and not sources.all("data"):
        sources.named["data"].append(earlier.data)
        report.derived(f"data file of {sources.where}", f"{earlier.data}, of the run whose restart file it reads")
    options = context.options
    units = options.units
    if settings is not None and settings.units is not None:
        if units is not None and units != settings.units:
            report.warn(f"{run.sources.where}: the commands say units {settings.units}; --units {units} is taken")
        units = units or settings.units
    if units is None and continues and earlier is not None:
        units = earlier.units
    source = RunSystem(run.sources, run.script, run.logs, settings, bool(run.dumps))
    source.read(options.atom_style, report)
    data = source.data
    if units is None:
        units = data.units if data is not None and data.units in UNITS else units_of_dumps([*run.dumps, *run.beside])
    aside = Report() if run.sources.only_logs and not (run.dumps or run.beside) else report
    averages = averages_of_run(run.sources, commands_of(run.script, run.logs), aside)
    if aside is not report and (averages.curves or averages.observables):
        report.extend(aside)
    if not (run.dumps or run.beside or run.logs or averages.curves or averages.observables) and data is None:
        missing = [] if settings is None else [name for name, _ in settings.data]
        why = f" ({missing[0]}, which the script reads, is not there)" if missing else ""
        raise UsageError(
            f"{run.sources.where}: the run has neither a dump nor a data file{why}, so there are no atoms to convert"
        )
    options = replace(options, units=units)
    system = source.frame(options, report)
    clock, no_time = _clock(run, units, earlier.clock if continues and earlier is not None else None, report)
    thermo = thermo_of([entry.table for log in run.logs for entry in log.runs])
    curves = {**metrics_of(run.logs, thermo, report), **averages.curves}
    _compare(data, run, source.altering(), report)
    if run.dumps:
        record = _dumped(run, data, system, thermo, clock, units, context)
        if no_time and not any(item.name == "TIME" for item in report.of(Fate.CARRIED)):
            report.warn(f"no time is worked out from the steps: {no_time}")
    else:
        record = _still(data, system, settings, report)
        told = side_sources(run.beside, commands_of(run.script, run.logs), options.local_columns)
        sides = open_sides(told, report, options.steps)
        if sides:
            record = add_sides(record, sides, report)
        if record.units is None and units is not None:
            record.system = record.system if record.system is not None else Frame()
            record.system.meta.put("units", check_units(units).record, "json")
    record.metrics = Metrics.from_series(curves) if curves else None
    report_unstated(record.metrics, report)
    record.observables = Observables(averages.observables) if averages.observables else None
    record.forcefield = None if continues else source.force_field(options, report)
    if options.molrec_version != 1:
        record.meta["molrec_version"] = options.molrec_version
    _document(record, run, source.setup(), None if clock is None else clock.timestep, report)
    return record, _Earlier(None if data is None else Path(data.path), units, clock)


def _gather(sources: Sources, report: Report) -> _Run:
    """Return script, logs, settings, data file and dumps, each where there is one."""
    run = _Run(sources)
    several = len(sources.all("script")) > 1
    run.script = find_script(sources, find_logs(sources, Report()) if several else [], report)
    names = [] if run.script is None else settings_of(run.script.commands).logs
    run.logs = find_logs(sources, report, names)
    run.settings = merged_settings(run.script, run.logs, report)
    aside = Report() if sources.only_logs else report
    run.beside = choose_beside(sources, run.settings, aside)
    run.dumps = choose_dumps(sources, run.settings, aside, run.beside)
    if aside is not report and (run.dumps or run.beside):
        report.extend(aside)
    return run


def _clock(run: _Run, units: str | None, before: Clock | None, report: Report) -> tuple[Clock | None, str]:
    """Return the clock of the trajectory's steps, or None and why there is none."""
    settings = run.settings
    if settings is None or not run.dumps:
        return None, ""
    command = run.dumps[0].command
    if echo_everything(run.logs) and not settings.time_fault:
        default = UNITS[units].timestep if units in UNITS else None
        clock = clock_of(run.logs, None if command is None else command.id, default, before)
        if clock is not None:
            _report_default(clock.timestep, settings, units, report)
            return clock, ""
    timestep, why = settings.timestep_of(command, units)
    _report_default(timestep, settings, units, report)
    return None if timestep is None else Clock.even(timestep), why


def _report_default(timestep: float | None, settings: Settings, units: str | None, report: Report) -> None:
    if timestep is not None and timestep not in settings.timesteps:
        report.derived("timestep", f"{timestep:g}, LAMMPS' default in units {units}")


def _compare(data: DataFile | None, run: _Run, altering: Sequence[Command], report: Report) -> None:
    """Report where the data file and the rest of the run contradict each other.

    `altering` are the commands that alter the system behind the data file: without a dump nothing has what they did.
    """
    settings = run.settings
    if data is None:
        return
    if settings is not None and settings.units is not None and data.units not in (None, settings.units):
        report.warn(f"{data.path}: the first line says units = {data.units}, the commands units {settings.units}")
    counts = [entry.table.n_atoms for log in run.logs for entry in log.runs if entry.table.n_atoms is not None]
    atoms = data.header.count("atoms")
    if counts and counts[0] != atoms:
        report.warn(
            f"{data.path}: the data file has {atoms} atoms, at the end of the log's first run there are {counts[0]}"
        )
    lost = [] if run.dumps else [command for command in altering if command.name != "delete_bonds"]
    if lost:
        report.dropped(
            ", ".join(dict.fromkeys(command.name for command in lost)),
            f"{lost[0].text!r} alters the system behind {Path(data.path).name}, and no dump has it: the record is the "
            "data file's, the energies of the log are of another; let LAMMPS write the system behind it (write_data) "
            "and name that file instead",
        )
    changing = [command.name for command in altering if command not in lost]
    changing += [] if settings is None else settings.changed
    if changing:
        report.warn(
            f"{data.path}: atoms and bonds are as the data file states them; {', '.join(dict.fromkeys(changing))} may "
            "have changed them during the run"
        )


def _dumped(
    run: _Run,
    data: DataFile | None,
    system: Frame | None,
    thermo: Thermo | None,
    clock: Clock | None,
    units: str | None,
    context: ReadContext,
) -> Record:
    """Return the record of a run with dumps: the first is the trajectory, those of its group are joined to it."""
    first, *others = run.dumps
    joined = [dump for dump in others if _one_group(first, dump)]
    for dump in others:
        if dump not in joined:
            context.report.dropped(dump.name, f"{_another(first, dump)}; {_how(dump)} converts it")
    settings = run.settings
    labels = None if settings is None else settings.labels
    if data is not None and not labels and "atom" in data.labels:
        labels = dict(enumerate(data.labels["atom"], 1))
    types = data.header.count("atom types") if data is not None else None if settings is None else settings.types
    masses = None if settings is None else settings.mass_of_types(types)
    state = None
    if data is not None and system is not None:
        system, state = with_properties(system, data, _boundary(settings), context.report)
    facts = RunFacts(
        system=system,
        thermo=thermo,
        clock=clock,
        type_labels=labels or None,
        masses=masses or None,
        units=units,
        types=types,
    )
    sides = side_sources(run.beside, commands_of(run.script, run.logs), context.options.local_columns)
    record = dump_record(
        list(first.files),
        context,
        facts,
        joined=[list(dump.files) for dump in joined],
        sides=sides,
        named=first.command is None,
    )
    if data is not None and state is not None:
        keep_state(state, data, record, context.report)
    if system is not None and record.system is not None:
        for key, value in system.meta.items():
            if key not in record.system.meta:
                record.system.meta.put(key, value, system.meta.tag(key))
    return record


def _one_group(first: DumpFiles, dump: DumpFiles) -> bool:
    return first.command is not None and dump.command is not None and first.command.group == dump.command.group


def _another(first: DumpFiles, dump: DumpFiles) -> str:
    mine = "" if first.command is None else f" of group {first.command.group}"
    theirs = "" if dump.command is None else f" of group {dump.command.group}"
    return f"the trajectory is {first.name}{mine}, this one is{theirs or ' another dump'}"


def _how(dump: DumpFiles) -> str:
    """Return the command that converts a dump; many files as the pattern they were written by, for a shell."""
    first = dump.files[0]
    files = " ".join(shlex.quote(str(path)) for path in dump.files[:3])
    if len(dump.files) > 3:
        pattern = "" if dump.command is None else Path(dump.command.file.replace("%", "*")).name
        alike = "*" in pattern and all(path.parent == first.parent and path.match(pattern) for path in dump.files)
        files = f"{shlex.quote(str(first.parent))}/{pattern}" if alike else f"{files} …"
    return f"mrec convert {files} {dump.files[0].name.split('.')[0] or 'other'}.mrec"


def _still(data: DataFile | None, system: Frame | None, settings: Settings | None, report: Report) -> Record:
    """Return the record of a run without a dump: what the data file holds, nothing where there is only a log."""
    if data is None:
        report.warn("neither a dump nor a data file: the record has no atoms, only what the log says")
        return Record()
    return Record(system=system, frame=data_frame(data, report, boundary=_boundary(settings)))


def _boundary(settings: Settings | None) -> list[bool] | None:
    """Return which axes the boundary command makes periodic, None without one."""
    words = [] if settings is None else settings.kept.get("boundary", "").split()
    return [word in ("p", "pp") for word in words] if len(words) == 3 else None


def _document(record: Record, run: _Run, setup: RunSetup, timestep: float | None, report: Report) -> None:
    """Add `method` and `status`, and report what became of the commands and the log."""
    settings = run.settings
    if settings is not None:
        commands = _commands(run)
        record.method = method_document(settings, commands, setup, run.logs, timestep)
        taken = units_object(record.units).get("preset")
        if settings.units is not None and taken is not None:
            record.method["settings"]["units"] = taken  # that of --units, which the numbers of the commands have then
        where = run.script.path.name if run.script is not None else run.logs[0].path.name
        report.carried("commands", f"{len(commands)} of {where}, as text in method.commands")
        if settings.skipped:
            report.carried("commands not read", f"{', '.join(settings.skipped)}: kept as text")
        if settings.fixes:
            report.carried("fixes", f"{', '.join(settings.fixes)}: kept as text in method.commands")
        if run.script is not None and run.script.missing:
            report.warn(f"{run.script.path}: includes files that are not there: {', '.join(run.script.missing)}")
        if run.logs and normalized(settings):
            report.carried("thermo output", "extensive values are per atom (thermo_modify norm yes, the default in lj)")
    elif run.logs:
        record.method = method_document(Settings(), [], setup, run.logs, timestep)
    record.status = status_document(run.logs)
    if record.status is None and not {"system", "frame", "trajectory"} & set(record.sections):
        record.status = {"state": "unknown", "message": "no log says how the run ended"}


def _commands(run: _Run) -> list[Command]:
    """Return the commands as typed: the script's, else those the log echoes."""
    if run.script is not None:
        return run.script.commands
    return [command for log in run.logs for command in log.commands]
