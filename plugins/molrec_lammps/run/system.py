"""What the system of a run is: its data files, and the commands that say what its types and its force field are.

A script that is named alone is the source itself: then every command that decides must be known without running it.
In a run that was made, what is not known for certain is left to the text in `method`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.model import ForceField, Frame
from molrec_convert.report import Report
from molrec_lammps.common.atom_styles import ATOM_STYLES
from molrec_lammps.data.file import DataFile, Table
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.data.potential import potential_of_data
from molrec_lammps.data.record import data_system
from molrec_lammps.data.rows import AtomIndex, check_each_once, check_endpoints, index_atoms
from molrec_lammps.data.sections import RELATIONS
from molrec_lammps.log.log import Log, echo_everything
from molrec_lammps.options import RunOptions
from molrec_lammps.run.discovery import Sources, choose_data, left_out
from molrec_lammps.run.forcefield import (
    DataFiles,
    RunPotential,
    counting_part,
    read_potential,
    record_force_field,
    with_commands,
)
from molrec_lammps.run.settings import Settings
from molrec_lammps.script.potential import ReadData, parse_read_data
from molrec_lammps.script.script import (
    Command,
    RunSetup,
    Script,
    alterations,
    check_source,
    find_file,
    plain_name,
    setup_of,
)

__all__ = ["RunSystem", "joined"]

_STRING = np.dtypes.StringDType()
_AXES = ("xlo xhi", "ylo yhi", "zlo zhi")
#: Columns that a file may leave out, and LAMMPS sets to zero.
_ZERO = frozenset({"ix", "iy", "iz", "vx", "vy", "vz"})


def joined(parts: Sequence[tuple[DataFile, ReadData]]) -> DataFile:
    """Return the system that LAMMPS has after reading these files in this order."""
    first = parts[0][0]
    if len(parts) == 1:
        return first
    for data, _ in parts:
        _check_plain(data, first)
    shifts = _shifts(parts)
    system = replace(first, header=replace(first.header, counts=dict(first.header.counts), box=dict(first.header.box)))
    _check_room(system, parts)
    system.atoms = _stacked([_atoms(data, words, shift) for (data, words), shift in zip(parts, shifts, strict=True)])
    if system.atoms is not None:
        system.index = _index(system, parts)
        system.header.counts["atoms"] = system.atoms.rows
    _join_velocities(system, parts, shifts)
    _join_relations(system, parts, shifts)
    _join_boxes(system, parts)
    system.remarks = [remark for data, _ in parts for remark in data.remarks]
    return system


def _index(system: DataFile, parts: Sequence[tuple[DataFile, ReadData]]) -> AtomIndex:
    """Return the rows of all atoms by id; each id once."""
    assert system.atoms is not None
    try:
        return index_atoms(system.path, system.atoms["id"], system.atoms.line)
    except FormatError:
        raise FormatError(
            parts[-1][0].path,
            found="atom ids that another file has too",
            expected="ids of their own, or 'add append' or an offset in read_data",
        ) from None


def _check_room(system: DataFile, parts: Sequence[tuple[DataFile, ReadData]]) -> None:
    """The first file, and the options of its command, say how many types there are."""
    extra = parts[0][1].extra_types
    for kind in TYPE_KINDS:
        room = system.header.count(f"{kind} types") + extra.get(kind, 0)
        for data, words in parts[1:]:
            names = ["Atoms"] if kind == "atom" else [name for name, rel in RELATIONS.items() if rel.kind == kind]
            tables = [data.atoms if name == "Atoms" else data.relations.get(name) for name in names]
            used = max((int(table["type"].max(initial=0)) for table in tables if table is not None), default=0)
            highest = used + words.type_offsets.get(kind, 0) if used else 0
            if highest > room:
                raise FormatError(
                    data.path,
                    found=f"{kind} type {highest} after the offset of read_data",
                    expected=f"no more than the {room} {kind} types of {system.path}",
                    hint=f"extra/{kind}/types of the first read_data makes room for more",
                )


def _check_plain(data: DataFile, first: DataFile) -> None:
    """Refuse what is not joined: other styles, labels that differ, sections of one file alone, general cells."""
    own, known = data.style, first.style
    if own is not None and known is not None and own.name != known.name:
        raise UnsupportedError(f"{data.path}: atom style {own.name}, and {first.path} has {known.name}")
    if data.labels and data.labels != first.labels:
        raise UnsupportedError(f"{data.path}: its type labels are not those of {first.path}, and are not matched")
    if data.header.general or first.header.general:
        raise UnsupportedError(f"{data.path}: files with a general cell are not joined")
    rest = [*data.shapes, *(["Bodies"] if data.bodies is not None else []), *data.properties]
    rest += [section.name for section in data.others]
    if rest:
        raise UnsupportedError(f"{data.path}: files with the section {rest[0]} are not joined")


def _shifts(parts: Sequence[tuple[DataFile, ReadData]]) -> list[tuple[int, int]]:
    """Return what is added to the atom and molecule ids of each file."""
    found: list[tuple[int, int]] = []
    highest = molecule = 0
    for data, words in parts:
        shift = (0, 0)
        if words.add == "append":
            shift = (highest, molecule)
        elif words.add == "offset":
            shift = (words.id_offset, words.molecule_offset)
        found.append(shift)
        if data.atoms is not None and data.atoms.rows:
            highest = max(highest, int(data.atoms["id"].max()) + shift[0])
            if "mol_id" in data.atoms.columns:
                molecule = max(molecule, int(data.atoms["mol_id"].max()) + shift[1])
    return found


def _atoms(data: DataFile, words: ReadData, shift: tuple[int, int]) -> Table | None:
    if data.atoms is None:
        return None
    columns = dict(data.atoms.columns)
    columns["id"] = columns["id"] + shift[0]
    columns["type"] = columns["type"] + words.type_offsets.get("atom", 0)
    if "mol_id" in columns:
        columns["mol_id"] = columns["mol_id"] + shift[1]
    for axis, distance in zip("xyz", words.shift, strict=True):
        if distance:
            columns[axis] = columns[axis] + distance
    return replace(data.atoms, columns=columns)


def _stacked(tables: Sequence[Table | None]) -> Table | None:
    """Return the rows of all tables, one after the other; columns some may leave out are zero there."""
    there = [table for table in tables if table is not None]
    if not there:
        return None
    names = list(dict.fromkeys(name for table in there for name in table.columns))
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        dtype = next(table[name].dtype for table in there if name in table.columns)
        columns[name] = np.concatenate(
            [table[name] if name in table.columns else np.zeros(table.rows, dtype=dtype) for table in there]
        )
    comments = None
    if any(table.comments is not None for table in there):
        comments = np.concatenate(
            [np.full(table.rows, "", dtype=_STRING) if table.comments is None else table.comments for table in there]
        )
    return Table(columns, there[0].line, sum(table.rows for table in there), comments)


def _join_velocities(
    system: DataFile, parts: Sequence[tuple[DataFile, ReadData]], shifts: Sequence[tuple[int, int]]
) -> None:
    if all(data.velocities is None for data, _ in parts) or system.atoms is None:
        return
    tables = []
    for (data, _), shift in zip(parts, shifts, strict=True):
        own = data.velocities
        if own is None and data.atoms is not None:
            own = Table({"id": data.atoms["id"]}, data.atoms.line, data.atoms.rows)
        if own is not None:
            tables.append(replace(own, columns={**own.columns, "id": own["id"] + shift[0]}))
    system.velocities = _stacked(tables)
    assert system.velocities is not None
    system.velocity_order = check_each_once(
        system.path, "Velocities", system.velocities["id"], system.velocities.line, system.index
    )


def _join_relations(
    system: DataFile, parts: Sequence[tuple[DataFile, ReadData]], shifts: Sequence[tuple[int, int]]
) -> None:
    system.relations, system.endpoints = {}, {}
    for name, relation in RELATIONS.items():
        tables = []
        for (data, words), shift in zip(parts, shifts, strict=True):
            if name in data.relations:
                table = data.relations[name]
                columns = {key: values + shift[0] for key, values in table.columns.items() if key != "type"}
                columns["type"] = table["type"] + words.type_offsets.get(relation.kind, 0)
                tables.append(replace(table, columns=columns))
        table_of_all = _stacked(tables)
        if table_of_all is None:
            continue
        ends = [key for key in table_of_all.columns if key != "type"]
        system.relations[name] = table_of_all
        system.endpoints[name] = check_endpoints(
            system.path, name, ends, table_of_all.columns, table_of_all.line, system.index
        )
        system.header.counts[relation.count] = table_of_all.rows


def _join_boxes(system: DataFile, parts: Sequence[tuple[DataFile, ReadData]]) -> None:
    """The box that holds all; the tilts must be the same."""
    low, high = system.header.bounds()
    for data, words in parts[1:]:
        mine, theirs = system.header.tilt(), data.header.tilt()
        if _listed(mine) != _listed(theirs):
            raise FormatError(
                data.path,
                f"line {data.header.lines.get('xy xz yz', 2)}",
                found=f"the tilts {_shown(theirs)}",
                expected=f"those of {system.path}, {_shown(mine)}",
            )
        own_low, own_high = data.header.bounds()
        low, high = np.minimum(low, own_low + words.shift), np.maximum(high, own_high + words.shift)
    for axis, pair in zip(_AXES, zip(low.tolist(), high.tolist(), strict=True), strict=True):
        system.header.box[axis] = pair


def _listed(tilt: NDArray[np.float64] | None) -> list[float] | None:
    return None if tilt is None else tilt.tolist()


def _shown(tilt: NDArray[np.float64] | None) -> str:
    return "none" if tilt is None else " ".join(f"{value:g}" for value in tilt)


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
        """Return what the particles are; None without a data file."""
        if self.data is None:
            return None
        return data_system(self.data, options, report, None if self.found.doubts else self.found.stated)

    def force_field(self, options: RunOptions, report: Report) -> ForceField | None:
        """Return the force field for the record; None where there is none or it is not known for certain."""
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
        """Return what the energies or the start of the run need beside the force field."""
        path = None if self.data is None else self.data.path
        executed = bool(self._ran())
        return setup_of(self._commands(), path, self.sources.folders, executed=executed, made=self.made)

    def altering(self) -> list[Command]:
        """Return the commands that alter the system the data file states."""
        return [] if self.data is None else alterations(self._commands(), self.data.path)

    def _in_turn(self) -> list[Path]:
        """Return the data files, where the commands read several that are all there and no other one is named."""
        settings = self.settings
        if settings is None or len(settings.data) < 2 or settings.renumbered or settings.restarted or settings.created:
            return []
        found = [find_file(name, self.sources.folders) for name, _ in settings.data]
        paths = [path for path in found if path is not None]
        others = [path for path in self.sources.named["data"] if path not in paths]
        return paths if len(paths) == len(found) and not others else []

    def _beside(self, paths: Sequence[Path]) -> bool:
        """True if the data file counts although the commands do not read it."""
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
                if parts:
                    self.data = joined(parts)
            else:
                fixes = reading[0].fixes if reading and not self._beside(paths) else ()
                self.data = files.parse(paths[0], [header for _, header, _ in fixes if header])
        except UnsupportedError as error:
            if not self.made:
                raise
            report.dropped(paths[0].name, str(error))

    def _reading(self) -> list[ReadData]:
        """Return the words of the `read_data` commands; of a run that was made, as far as they are understood."""
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
        """Return the commands that ran, where a log has them all."""
        if not echo_everything(self.logs):
            return []
        return [command for log in self.logs for command in log.commands]

    def _commands(self) -> list[Command]:
        """Return the commands that say what the system is: those that ran, else those of the script."""
        ran = self._ran()
        if ran or self.script is None:
            return counting_part(ran or [command for log in self.logs for command in log.commands])
        return counting_part(self.script.commands)
