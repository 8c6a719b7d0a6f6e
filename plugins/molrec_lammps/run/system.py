"""What the system of a run is: its data files, and the commands that say what its types and its force field are.

A script that is named alone is the source itself: then every command that decides must be known without running it.
In a run that was made, what is not known for certain is left to the text in `method`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.model import ForceField, Frame
from molrec_convert.report import Report
from molrec_lammps.common.atom_styles import ATOM_STYLES
from molrec_lammps.data.file import DataFile
from molrec_lammps.data.potential import potential_of_data
from molrec_lammps.data.record import data_system
from molrec_lammps.log.log import Log, echo_everything
from molrec_lammps.options import RunOptions
from molrec_lammps.run.discovery import Sources, choose_data, left_out
from molrec_lammps.run.files import DataFiles
from molrec_lammps.run.forcefield import (
    RunPotential,
    counting_part,
    read_potential,
    record_force_field,
    with_commands,
)
from molrec_lammps.run.join import joined
from molrec_lammps.run.settings import Settings
from molrec_lammps.script.read_data import ReadData, parse_read_data
from molrec_lammps.script.script import Command, Script, find_file, plain_name
from molrec_lammps.script.setup import RunSetup, alterations, setup_of
from molrec_lammps.script.source import check_source

__all__ = ["RunSystem"]


@dataclass
class RunSystem:
    """The data files and commands of a run. `made`: a run was made, whose dumps are there.

    After `read`, `data` is the data file (several read one after the other as one), None where there is none, and
    `found` what is stated of the force field.
    """

    sources: Sources
    script: Script | None
    logs: Sequence[Log]
    settings: Settings | None
    made: bool
    data: DataFile | None = None
    found: RunPotential = field(default_factory=RunPotential)

    def read(self, atom_style: str | None, report: Report) -> None:
        """Find and read the data files, and walk the commands."""
        paths = self._in_turn()
        if paths:
            left_out(report, [path for path in self.sources.found["data"] if path not in paths], "it is not read")
        else:
            chosen = choose_data(self.sources, self.settings, report)
            paths = [] if chosen is None else [chosen]
        alone = self.by_script and (not paths or not (self._beside(paths) or self.sources.named["data"]))
        if alone and self.script is not None:
            check_source(self.script)
        stated_by = "--atom-style"
        if atom_style is None and self.settings is not None:
            atom_style, stated_by = self.settings.atom_style, "the atom_style command"
        files = DataFiles(self.sources.folders, atom_style, stated_by, self.sources.named["data"])
        if paths:
            self._read_data(paths, files, report)
        self._read_commands(files, beside=self._beside(paths))
        if alone and self.found.doubts:
            raise UnsupportedError(
                f"{self.found.doubts[0]}; a script alone must state its force field in words that are known without "
                "running it"
            )
        if self.data is not None:
            self.data = with_commands(self.data, self.found, report)

    @property
    def by_script(self) -> bool:
        """Whether a script says what the system is: one is named, and nothing of a run that was made."""
        named = self.sources.named
        return bool(named["script"]) and not (self.sources.directories or named["log"] or self.made)

    def frame(self, options: RunOptions, report: Report) -> Frame | None:
        """What the particles are; None without a data file."""
        if self.data is None:
            return None
        return data_system(self.data, options, report, None if self.found.doubts else self.found.stated)

    def force_field(self, options: RunOptions, report: Report) -> ForceField | None:
        """The force field for the record; None where there is none or it is not known for certain."""
        if self.script is not None:
            path = self.script.path
        elif self.data is not None:
            path = Path(self.data.path)
        elif self.logs:
            path = self.logs[0].path
        else:
            return None
        return record_force_field(
            self.found,
            report,
            units=options.units,
            definitions=options.molrec_version,
            directory=path.parent,
            name=path.name,
            refuse=self.by_script,
        )

    def setup(self) -> RunSetup:
        """What the energies or the start of the run need beside the force field."""
        path = None if self.data is None else self.data.path
        executed = bool(self._ran())
        return setup_of(self._commands(), path, self.sources.folders, executed=executed, made=self.made)

    def altering(self) -> list[Command]:
        """The commands that alter the system the data file states."""
        return [] if self.data is None else alterations(self._commands(), self.data.path)

    def _in_turn(self) -> list[Path]:
        """The data files, where the commands read several that are all there and no other one is named."""
        settings = self.settings
        if settings is None or len(settings.data) < 2 or settings.renumbered or settings.restarted or settings.created:
            return []
        found = [find_file(name, self.sources.folders) for name, _ in settings.data]
        paths = [path for path in found if path is not None]
        others = [path for path in self.sources.named["data"] if path not in paths]
        return paths if len(paths) == len(found) and not others else []

    def _beside(self, paths: Sequence[Path]) -> bool:
        """Whether the data file counts although the commands do not read it."""
        if not paths or self.settings is None or not self.settings.data:
            return bool(paths)
        return plain_name(paths[0]) != plain_name(self.settings.data[0][0])

    def _read_data(self, paths: Sequence[Path], files: DataFiles, report: Report) -> None:
        """The data file; none, reported, where there are dumps and the file is of a kind this version does not read."""
        style, stated_by = files.atom_style, files.stated_by
        try:
            if stated_by != "--atom-style" and style is not None and style.split()[0] not in ATOM_STYLES:
                raise UnsupportedError(f"{stated_by}: atom style {style} is not known")
            reading = self._reading()
            if len(paths) > 1:
                parts = [(data, words) for words in reading if (data := files.read(words)) is not None]
                self.data = joined(parts)
            else:
                fixes = reading[0].fixes if reading and not self._beside(paths) else ()
                self.data = files.parse(paths[0], [header for _, header, _ in fixes if header])
        except UnsupportedError as error:
            if not self.made:
                raise
            report.dropped(paths[0].name, str(error))

    def _reading(self) -> list[ReadData]:
        """The words of the `read_data` commands; of a run that was made, as far as they are understood."""
        found = []
        for command in self._commands():
            if command.name == "read_data":
                try:
                    found.append(parse_read_data(command))
                except FormatError:
                    if self.by_script:
                        raise
        return found

    def _read_commands(self, files: DataFiles, *, beside: bool) -> None:
        """What the commands state of the force field; without commands, what the data file does."""
        commands = self._commands()
        if not commands:
            self.found = RunPotential() if self.data is None else RunPotential(potential_of_data(self.data))
            return
        executed = self._ran()
        self.found = read_potential(
            commands,
            files,
            self.data if beside else None,
            executed=bool(executed),
            script=None if executed else self.script,
            refuse=self.by_script,
        )

    def _ran(self) -> list[Command]:
        """The commands that ran, where a log has them all."""
        if not echo_everything(self.logs):
            return []
        return [command for log in self.logs for command in log.commands]

    def _commands(self) -> list[Command]:
        """The commands that say what the system is: those that ran, else those of the script."""
        ran = self._ran()
        if ran or self.script is None:
            return counting_part(ran or [command for log in self.logs for command in log.commands])
        return counting_part(self.script.commands)
