"""What a run writes beside its dumps of atoms and its log: local and grid dumps, and files of averages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from molrec_convert.report import Report
from molrec_lammps.dump.sidecar.augmented import SideSource
from molrec_lammps.dump.sidecar.local import local_attributes, told_columns
from molrec_lammps.log.averages import AveCommand, Averages, ave_commands, averages_of
from molrec_lammps.log.log import Log
from molrec_lammps.run.discovery import Sources, left_out
from molrec_lammps.run.dumps import DumpFiles
from molrec_lammps.script.script import Command, Script, find_file

__all__ = ["averages_of_run", "commands_of", "side_sources"]


def commands_of(script: Script | None, logs: Sequence[Log]) -> list[Command]:
    """All commands that are known of a run: the script's, then those its logs echo."""
    typed = [] if script is None else script.commands
    return [*typed, *(command for log in logs for command in log.commands)]


def side_sources(dumps: Sequence[DumpFiles], commands: Sequence[Command], words: Sequence[str]) -> list[SideSource]:
    """The local and grid dumps of a run, with what their columns mean; what the user says of them in `words` counts."""
    told = told_columns(words)
    attributes = {**local_attributes(commands), **told}
    return [
        SideSource(dump.files, attributes=told)
        if dump.command is None
        else SideSource(dump.files, dump.command.id, attributes, "%" in dump.command.file)
        for dump in dumps
    ]


def averages_of_run(sources: Sources, commands: Sequence[Command], report: Report) -> Averages:
    """The averages of a run: the files the user names and its commands write, without commands those that are there."""
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
