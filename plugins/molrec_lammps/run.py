"""A LAMMPS run as a record: the reader of the format `lammps-run`.

A directory, or any of its files: input script, data file, dumps, log. The script and the commands a log echoes say
what the run was (what ran according to a whole log counts before what a script says); the data file becomes `system`,
the dump the trajectory, thermo output its per-step values; `method` and `status` say how it was made and how it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Column, Frame, Record
from molrec_convert.report import Fate, Report
from molrec_lammps.atom_styles import ATOM_STYLES
from molrec_lammps.data_file import DataFile, parse_data
from molrec_lammps.data_record import data_frame, data_system
from molrec_lammps.dump_record import RunFacts, dump_record
from molrec_lammps.log import Log
from molrec_lammps.log_thermo import thermo_of
from molrec_lammps.run_commands import settings_of
from molrec_lammps.run_discovery import Sources, choose_data, classify, find_logs, find_script
from molrec_lammps.run_documents import method_document, normalized, status_document
from molrec_lammps.run_dumps import DumpFiles, choose_dumps
from molrec_lammps.run_merge import merged_settings
from molrec_lammps.run_settings import Settings
from molrec_lammps.script import Command, Script
from molrec_lammps.thermo import Thermo

__all__ = ["read_run"]


@dataclass
class _Run:
    """The parts of a run that are there."""

    sources: Sources
    script: Script | None = None
    logs: list[Log] = field(default_factory=list)
    settings: Settings | None = None
    data: Path | None = None
    dumps: list[DumpFiles] = field(default_factory=list)


def read_run(paths: Sequence[Path], context: ReadContext) -> Record:
    """Read a run directory, or the files of a run in any combination, into one record.

    Names in a script are looked up where the script or the directory is. UsageError where nothing tells which of
    several files is meant, or where there is neither a dump nor a data file.
    """
    report = context.report
    run = _gather(classify([Path(path) for path in paths]), report)
    settings = run.settings
    options = context.options
    units = options.units
    if settings is not None and settings.units is not None:
        if units is not None and units != settings.units:
            report.warn(f"{run.sources.where}: the commands say units {settings.units}; --units {units} is taken")
        units = units or settings.units
    data = None if run.data is None else _parse(run, options.atom_style, report)
    if not run.dumps and data is None:
        raise UsageError(
            f"{run.sources.where}: the run has neither a dump nor a data file, so there are no atoms to convert"
        )
    options = replace(options, units=units)
    system = None if data is None else _system(data, options, settings, report)
    timestep, no_time = _timestep(settings, run.dumps, units, report)
    thermo = thermo_of([entry.table for log in run.logs for entry in log.runs])
    _compare(data, run, report)
    if run.dumps:
        record = _dumped(run, data, system, thermo, timestep, units, context)
        if no_time and not any(item.name == "TIME" for item in report.of(Fate.CARRIED)):
            report.warn(f"no time is worked out from the steps: {no_time}")
    else:
        record = _still(data, system, thermo, settings, report)
    _document(record, run, timestep, report)
    return record


def _gather(sources: Sources, report: Report) -> _Run:
    """Script, logs, settings, data file and dumps, each where there is one."""
    run = _Run(sources)
    several = len(sources.all("script")) > 1
    run.script = find_script(sources, find_logs(sources, Report()) if several else [], report)
    names = [] if run.script is None else settings_of(run.script.commands).logs
    run.logs = find_logs(sources, report, names)
    run.settings = merged_settings(run.script, run.logs, report)
    run.data = choose_data(sources, run.settings, report)
    run.dumps = choose_dumps(sources, run.settings, report)
    return run


def _parse(run: _Run, atom_style: str | None, report: Report) -> DataFile | None:
    """The data file; None, reported, where there are dumps and the file is of a kind this version does not read."""
    assert run.data is not None
    stated_by = "--atom-style"
    if atom_style is None and run.settings is not None:
        atom_style, stated_by = run.settings.atom_style, "the atom_style command"
    try:
        if stated_by != "--atom-style" and atom_style is not None and atom_style.split()[0] not in ATOM_STYLES:
            raise UnsupportedError(f"{stated_by}: atom style {atom_style} is not known")
        return parse_data(run.data, atom_style=atom_style, stated_by=stated_by)
    except UnsupportedError as error:
        if not run.dumps:
            raise
        report.dropped(run.data.name, str(error))
        return None


def _system(data: DataFile, options: object, settings: Settings | None, report: Report) -> Frame:
    """What the particles are: the data file, with the masses that `mass` commands set afterwards."""
    system = data_system(data, options, report)  # type: ignore[arg-type]
    masses = {} if settings is None else settings.mass_of_types(data.header.count("atom types"))
    atoms = system.blocks.get("atoms")
    if not masses or atoms is None or not atoms.count or "type_id" not in atoms.columns:
        return system
    top = int(max(atoms["type_id"].max(), max(masses)))
    by_type = np.zeros(top + 1)
    known = np.zeros(top + 1, dtype=np.bool_)
    types = atoms["type_id"].astype(np.int64)
    if "mass" in atoms.columns:
        by_type[types] = atoms["mass"]
        known[types] = atoms.validity("mass")
    for number, mass in masses.items():
        if known[number] and by_type[number] != mass:
            report.warn(
                f"type {number}: the data file says mass {by_type[number]:g}, a mass command {mass:g}, which counts"
            )
        by_type[number], known[number] = mass, True
    columns = dict(atoms.columns)
    columns["mass"] = Column(by_type[types], known[types])
    atoms.columns.clear()
    order = [name for name in columns if name != "mass"]
    place = order.index("element") + 1 if "element" in order else order.index("type_id") + 1
    for name in [*order[:place], "mass", *order[place:]]:
        atoms.columns[name] = columns[name]
    return system


def _timestep(
    settings: Settings | None, dumps: Sequence[DumpFiles], units: str | None, report: Report
) -> tuple[float | None, str]:
    """The one timestep that makes steps of the trajectory times, or None and why there is none."""
    if settings is None or not dumps:
        return None, ""
    timestep, why = settings.timestep_of(dumps[0].command, units)
    if timestep is not None and timestep not in settings.timesteps:
        report.derived("timestep", f"{timestep:g}, LAMMPS' default in units {units}")
    return timestep, why


def _compare(data: DataFile | None, run: _Run, report: Report) -> None:
    """Report where the data file and the rest of the run contradict each other."""
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
    if settings is not None and settings.changed:
        report.warn(
            f"{data.path}: atoms and bonds are as the data file states them; {', '.join(settings.changed)} may have "
            "changed them during the run"
        )


def _dumped(
    run: _Run,
    data: DataFile | None,
    system: Frame | None,
    thermo: Thermo | None,
    timestep: float | None,
    units: str | None,
    context: ReadContext,
) -> Record:
    """The record of a run with dumps: the first is the trajectory, those of its group are joined to it."""
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
    facts = RunFacts(
        system=system, thermo=thermo, timestep=timestep, type_labels=labels or None, masses=masses or None, units=units
    )
    if data is not None:
        context.report.dropped(
            f"state in {Path(data.path).name}", "the trajectory states it; the data file's own positions are left out"
        )
    record = dump_record(list(first.files), context, facts, joined=[list(dump.files) for dump in joined])
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
    files = " ".join(str(path) for path in dump.files[:3]) + (" …" if len(dump.files) > 3 else "")
    return f"mrec convert {files} {dump.files[0].stem.rstrip('0123456789._-') or 'other'}.mrec"


def _still(
    data: DataFile | None, system: Frame | None, thermo: Thermo | None, settings: Settings | None, report: Report
) -> Record:
    """The record of a run without a dump: what the data file holds."""
    assert data is not None
    boundary = None
    words = [] if settings is None else settings.kept.get("boundary", "").split()
    if len(words) == 3:
        boundary = [word in ("p", "pp") for word in words]
    if thermo is not None:
        report.dropped("thermo output", f"{len(thermo.steps)} rows: the run has no dump whose frames they belong to")
    return Record(system=system, frame=data_frame(data, report, boundary=boundary))


def _document(record: Record, run: _Run, timestep: float | None, report: Report) -> None:
    """Add `method` and `status`, and report what became of the commands and the log."""
    settings = run.settings
    if settings is not None:
        commands = _commands(run)
        record.method = method_document(settings, commands, run.logs, timestep)
        where = run.script.path.name if run.script is not None else run.logs[0].path.name
        report.carried("commands", f"{len(commands)} of {where}, as text in method.commands")
        if settings.skipped:
            report.carried("commands not read", f"{', '.join(settings.skipped)}: kept as text")
        if settings.coefficients:
            report.dropped(
                "force field", f"{', '.join(settings.coefficients)}: not carried yet but as text in method.commands"
            )
        if run.script is not None and run.script.missing:
            report.warn(f"{run.script.path}: includes files that are not there: {', '.join(run.script.missing)}")
        if run.logs and normalized(settings):
            report.carried("thermo output", "extensive values are per atom (thermo_modify norm yes, the default in lj)")
    elif run.logs:
        record.method = method_document(Settings(), [], run.logs, timestep)
    record.status = status_document(run.logs)


def _commands(run: _Run) -> list[Command]:
    """The commands as typed: the script's, else those the log echoes."""
    if run.script is not None:
        return run.script.commands
    return [command for log in run.logs for command in log.commands]
