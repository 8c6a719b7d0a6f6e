"""The force field of a run: what its commands and data files state together, and what the system takes from it.

Where the commands can be read for certain it is carried; else they stay as text in `method`, and the report says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from molrec_convert.errors import MolrecError
from molrec_convert.model import ForceField
from molrec_convert.report import Report
from molrec_lammps.data.file import DataFile, Table, parse_data
from molrec_lammps.data.potential import potential_of_data
from molrec_lammps.potential.potential import Potential
from molrec_lammps.potential.record import force_field
from molrec_lammps.run.settings import settings_of
from molrec_lammps.script.potential import PotentialReader, ReadData, states_potential
from molrec_lammps.script.script import Command, Script, find_file, plain_name

__all__ = ["DataFiles", "RunPotential", "counting_part", "read_potential", "record_force_field", "with_commands"]


class DataFiles:
    """Finds data files in the `folders` of a run and reads them; `atom_style` is that of the commands.

    Of files of one name those the user `named` count.
    """

    def __init__(
        self, folders: Sequence[Path], atom_style: str | None, stated_by: str, named: Sequence[Path] = ()
    ) -> None:
        self.folders, self.atom_style, self.stated_by = list(folders), atom_style, stated_by
        self.named = {plain_name(path): path for path in reversed(named)}
        self._parsed: dict[Path, DataFile] = {}

    def read(self, words: ReadData) -> DataFile | None:
        """Return the file a command names; None where it is not there."""
        path = self.named.get(plain_name(words.file)) or find_file(words.file, self.folders)
        return None if path is None else self.parse(path, [header for _, header, _ in words.fixes if header])

    def parse(self, path: Path, counts: Sequence[str] = ()) -> DataFile:
        """Return one file; `counts` are the header keywords of fixes."""
        if path not in self._parsed:
            self._parsed[path] = parse_data(
                path, atom_style=self.atom_style, stated_by=self.stated_by, counts=tuple(counts)
            )
        return self._parsed[path]


@dataclass
class RunPotential:
    """What the commands of a run state: `stated` in full where `doubts` is empty, else what of it is known."""

    stated: Potential = field(default_factory=Potential)
    doubts: list[str] = field(default_factory=list)
    changed_after_run: str = ""


def read_potential(
    commands: Sequence[Command],
    files: DataFiles,
    beside: DataFile | None,
    *,
    executed: bool = False,
    script: Script | None = None,
    refuse: bool = False,
) -> RunPotential:
    """Return what the commands state.

    `beside` is the data file that counts although no command reads it. `executed`: these are the commands that ran.
    With `refuse` what LAMMPS refuses is a FormatError, else a doubt.
    """

    def data(command: Command, words: ReadData) -> Potential | None:
        found = files.read(words)
        return None if found is None else potential_of_data(found)

    reader = PotentialReader(data, None if beside is None else potential_of_data(beside))
    if not executed:
        for command in _passed_over(commands):
            reader.doubt(command, "whether it is executed is not known")
        if script is not None and script.missing:
            reader.doubts.append(f"{script.path}: includes files that are not there: {', '.join(script.missing)}")
    found = RunPotential()
    try:
        if executed:
            commands = [replace(command, branches=()) for command in commands]
        found.stated = reader.read(commands)
    except MolrecError as error:
        if refuse:
            raise
        found.stated = reader.potential()
        reader.doubts.append(str(error))
    found.doubts, found.changed_after_run = reader.doubts, reader.changed_after_run
    return found


def counting_part(commands: Sequence[Command]) -> list[Command]:
    """Of the systems that `clear` separates, the commands of the one whose settings count."""
    parts: list[list[Command]] = [[]]
    for command in commands:
        if command.name == "clear":
            parts.append([])
        parts[-1].append(command)
    parts = [part for part in parts if part] or [[]]
    dumped = (part for part in parts if any(dump.readable for dump in settings_of(part).dumps))
    return parts[0] if len(parts) == 1 else next(dumped, parts[0])


def _passed_over(commands: Sequence[Command]) -> list[Command]:
    """Return commands of a force field that a `jump SELF` to a label further on passes over."""
    labels = {command.args[0]: at for at, command in enumerate(commands) if command.name == "label" and command.args}
    found = []
    for at, command in enumerate(commands):
        for jump in (command, *command.branches):
            if jump.name == "jump" and jump.args[:1] == ("SELF",) and len(jump.args) > 1:
                target = labels.get(jump.args[1], 0)
                found += [passed for passed in commands[at + 1 : target] if states_potential(passed)]
    return list(dict.fromkeys(found))


def with_commands(data: DataFile, found: RunPotential, report: Report) -> DataFile:
    """Return the data file with the numbers of types, the labels and the masses that commands add to it."""
    stated = found.stated
    counts = dict(data.header.counts)
    for kind, count in stated.type_counts.items():
        if count > counts.get(f"{kind} types", 0):
            counts[f"{kind} types"] = count
    labels = dict(data.labels)
    for kind, names in stated.labels.items():
        if names and all(names):
            labels[kind] = tuple(names)
        elif any(names):
            report.warn(f"some {kind} types have no label, so all go by their numbers")
            stated.labels[kind] = []
            labels.pop(kind, None)
    return replace(
        data,
        header=replace(data.header, counts=counts),
        labels=labels,
        masses=_masses(data, stated, report),
    )


def _masses(data: DataFile, stated: Potential, report: Report) -> Table | None:
    """Return the masses of types: the data file's, replaced where a `mass` command sets another."""
    if not stated.masses:
        return data.masses
    own: dict[int, float] = {}
    if data.masses is not None:
        own = dict(zip(data.masses["type"].tolist(), data.masses["mass"].tolist(), strict=True))
    changed = {number: float(mass) for number, mass in stated.masses.items() if own.get(number) != float(mass)}
    for number, mass in changed.items():
        if number in own:
            report.warn(
                f"type {number}: the data file says mass {own[number]:g}, a mass command {mass:g}, which counts"
            )
    if not changed:
        return data.masses
    masses = {**own, **changed}
    columns = {"type": np.array(list(masses), dtype=np.int64), "mass": np.array(list(masses.values()))}
    comments = None if data.masses is None else data.masses.comments
    if comments is not None and len(comments) != len(masses):
        comments = np.concatenate([comments, np.full(len(masses) - len(comments), "", dtype=comments.dtype)])
    return Table(columns, 0 if data.masses is None else data.masses.line, len(masses), comments)


def record_force_field(
    found: RunPotential,
    report: Report,
    *,
    units: str | None,
    definitions: int,
    directory: Path,
    name: str,
    refuse: bool = False,
) -> ForceField | None:
    """Return the force field for a record, None where there is none or where it is not known for certain.

    With `refuse` what has no place in a record is an error, else it stays as text and the report says so.
    """
    stated = found.stated
    why = found.doubts[0] if found.doubts else ""
    if not why:
        if not stated:
            return None
        try:
            forcefield = force_field(
                replace(stated, units=units),
                report,
                definitions=definitions,
                directory=directory,
                name=name,
                source={"format": "lammps-run", "uri": name},
            )
        except MolrecError as error:
            if refuse:
                raise
            why = str(error)
        else:
            if found.changed_after_run:
                report.warn(
                    f"{found.changed_after_run}: the force field changes after a run; the record has the last one"
                )
            return forcefield
    more = f" (and {len(found.doubts) - 1} more)" if len(found.doubts) > 1 else ""
    report.converted("force field", f"kept as text in method.commands alone: {why}{more}")
    report.warn(f"the record has no force field but the commands as text: {why}{more}")
    return None
