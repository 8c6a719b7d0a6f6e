"""What a run's commands say that its record needs: units, timestep, files, thermo output, settings.

What LAMMPS takes as the value where the commands state none is filled in only when they are known to be complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from molrec_convert.report import Report
from molrec_lammps.common.commands import COEFFICIENTS, UNDERSTOOD
from molrec_lammps.common.units import UNITS
from molrec_lammps.log.log import Log, echo_everything
from molrec_lammps.script.script import ALTERING, Command, Script

__all__ = ["DumpCommand", "Settings", "merged_settings", "settings_of"]

_READABLE = re.compile(r"(atom|custom|yaml)(/gz|/zstd|/mpiio)?$")
_BESIDE = re.compile(r"(local|grid)(/gz|/zstd)?$")


@dataclass(frozen=True)
class DumpCommand:
    """One `dump` command: its style, file name as given, attributes, the timesteps in effect while it was written.

    A timestep of None is LAMMPS' default. `append`: frames are added to a file that is there (`dump_modify append`);
    `modified` are the words of all its `dump_modify` commands, `shifted` says why times are not steps times timestep.
    """

    id: str
    group: str
    style: str
    every: str
    file: str
    attributes: tuple[str, ...]
    text: str
    timesteps: frozenset[float | None] = frozenset()
    append: bool = False
    modified: tuple[str, ...] = ()
    shifted: str = ""

    @property
    def readable(self) -> bool:
        """Whether the dump is text, or YAML, with atoms."""
        return _READABLE.match(self.style) is not None and not self.unreadable

    @property
    def beside(self) -> bool:
        """Whether the dump is one of rows beside the atoms: `dump local` or `dump grid`."""
        return _BESIDE.match(self.style) is not None and not self.unreadable

    @property
    def unreadable(self) -> str:
        """Why a dump of a style that is read is not, "" where it is."""
        if self.file.endswith(".bin"):
            return "a binary dump is not read; LAMMPS' tool binary2txt makes a text dump of it"
        if self._says("header", "no"):
            return "rows alone (dump_modify header no) tell neither steps nor columns nor the cell"
        if self.style == "yaml" and self._says("triclinic/general", "yes"):
            return (
                "with dump_modify triclinic/general a YAML dump has rotated coordinates in a cell that is not rotated; "
                "dump custom writes both"
            )
        return ""

    def _says(self, word: str, value: str) -> bool:
        """True if the last `dump_modify` of a keyword gives it this value."""
        found = [after for before, after in pairwise(self.modified) if before == word]
        return found[-1:] == [value]


@dataclass
class Settings:
    """What commands state. None and empty: not stated. `complete`: nothing of the script stayed unread.

    `data` are the names behind `read_data` (with the words after it), `written` those behind `write_data`; `renumbered`
    names the command after which the data file describes the atoms no more, `changed` are the fixes that alter
    some of it, `altered` the last command that does and whose effect a `write_data` behind it (`written`) states.
    `time_fault` says why `timesteps` (all in effect during runs; None is the default) are not to be used.
    """

    units: str | None = None
    atom_style: str | None = None
    complete: bool = True
    timesteps: set[float | None] = field(default_factory=set)
    time_fault: str = ""
    data: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    restarted: bool = False
    created: bool = False
    renumbered: str = ""
    altered: str = ""
    changed: list[str] = field(default_factory=list)
    dumps: list[DumpCommand] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    masses: list[tuple[str, float]] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    types: int | None = None
    normalized: set[bool | None] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    fixes: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    coefficients: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    faults: list[Command] = field(default_factory=list)

    def timestep_of(self, dump: DumpCommand | None, units: str | None) -> tuple[float | None, str]:
        """Return the one timestep a dump was written at (None: any dump), or None and why there is none."""
        if self.time_fault:
            return None, self.time_fault
        if dump is not None and dump.shifted:
            return None, dump.shifted
        used = self.timesteps if dump is None else dump.timesteps
        default = UNITS[units].timestep if units in UNITS and self.complete else None
        values = {default if value is None else value for value in used}
        if None in values or not values:
            return None, "no timestep command was found"
        if len(values) > 1:
            words = ", ".join(f"{value:g}" for value in sorted(value for value in values if value is not None))
            return None, f"the runs up to the last frame used several timesteps ({words})"
        return values.pop(), ""

    def mass_of_types(self, types: int | None) -> dict[int, float]:
        """Return mass by atom type from the `mass` commands, `*` and ranges resolved with the number of types."""
        found: dict[int, float] = {}
        labels = {label: number for number, label in self.labels.items()}
        for word, mass in self.masses:
            low, star, high = word.partition("*")
            if word in labels:
                found[labels[word]] = mass
            elif not star and low.isdigit():
                found[int(low)] = mass
            elif star and (high.isdigit() or types is not None) and (low.isdigit() or not low):
                found.update((n, mass) for n in range(int(low or 1), int(high or types or 0) + 1))
        return found

    def supplemented(self, other: Settings) -> Settings:
        """Return these settings, and where they state nothing what `other` states; dumps of both, by file name."""
        known = {dump.file for dump in self.dumps}
        found = replace(self)
        for name in ("units", "atom_style", "types"):
            if getattr(found, name) is None:
                setattr(found, name, getattr(other, name))
        for name in ("data", "written", "masses", "labels", "coefficients", "timesteps"):
            if not getattr(found, name):
                setattr(found, name, getattr(other, name))
        found.kept = {**other.kept, **found.kept}
        found.logs = list(dict.fromkeys([*found.logs, *other.logs]))
        found.dumps = [*found.dumps, *(dump for dump in other.dumps if dump.file not in known)]
        return found


#: Settings kept by name, as the words behind the command.
_KEPT = (
    "dimension",
    "boundary",
    "newton",
    "run_style",
    "min_style",
    "dielectric",
    "special_bonds",
    *(f"{kind}_style" for kind in ("pair", "bond", "angle", "dihedral", "improper", "kspace")),
)
_RUNNING = frozenset({"run", "minimize", "rerun", "temper", "temper/grem", "temper/npt", "neb", "prd", "tad", "hyper"})
#: Commands without which LAMMPS takes a default: one that cannot be evaluated leaves what it sets open.
_DEFAULTED = frozenset({"units", "atom_style"})
_SUFFIX = re.compile(r"/(omp|opt|kk|gpu|intel)$")
#: Commands after `read_data` that renumber or multiply the atoms, so that the file describes the system no more.
_RENUMBERING = frozenset({"replicate", "reset_ids", "reset_atom_ids", "reset_atoms"})
#: Fixes that change what the data file says of atoms and bonds.
_CHANGING_FIXES = re.compile(r"bond/(create|break|react|swap)|atom/swap|qeq|adapt")


def settings_of(commands: Sequence[Command], *, complete: bool = True, executed: bool = False) -> Settings:
    """Walk `commands`. After a `clear` another system begins: the first part that writes a readable dump counts.

    `complete` says that no command is missing (no include that was not found, no log that begins in the middle),
    `executed` that these are the commands that ran, what an `if` chose among them.
    """
    parts: list[list[Command]] = [[]]
    for command in commands:
        if command.name == "clear":
            parts.append([])
        parts[-1].append(command)
    walked = [_walk(part, complete, executed) for part in parts if part]
    first = walked[0] if walked else Settings(complete=False)
    return next((part for part in walked if any(dump.readable for dump in part.dumps)), first)


def _walk(commands: Iterable[Command], complete: bool, executed: bool) -> Settings:
    walker = _Walker(Settings(complete=complete), executed)
    for command in commands:
        walker.take(command)
    return walker.finish()


@dataclass
class _OpenDump:
    dump: DumpCommand
    used: set[float | None]
    append: bool = False
    modified: tuple[str, ...] = ()
    shifted: str = ""


class _Walker:
    def __init__(self, settings: Settings, executed: bool) -> None:
        self.found = settings
        self.executed = executed
        self.timestep: float | None = None
        self.normalize: bool | None = None
        self.since_reset: set[float | None] = set()
        self.minimized = False
        self.shifted = ""
        self.open: dict[str, _OpenDump] = {}
        self.dumps: list[_OpenDump] = []

    def take(self, command: Command) -> None:
        """One command."""
        found = self.found
        if command.fault:
            self.take_unknown(command)
        elif (reader := getattr(self, f"take_{command.name}", None)) is not None:
            try:
                reader(command)
            except (IndexError, ValueError):
                found.faults.append(command)
        if command.name in _KEPT and not command.fault:
            found.kept[command.name] = " ".join(command.args)
        if command.name in _RUNNING:
            self.ran(command)
        if command.name in _RENUMBERING and found.data:
            found.renumbered = command.name
        lasting = command.name != "delete_bonds" or "remove" in command.args
        if command.name in ALTERING and found.data and lasting:
            found.altered, found.written = command.name, []
        if command.name in COEFFICIENTS:
            found.coefficients.append(command.name)
        elif command.name not in UNDERSTOOD and command.name not in _KEPT:
            found.skipped.append(command.name)
        for branch in () if self.executed else command.branches:
            if branch.name in ("timestep", "units", "read_data", "dump", "clear"):
                self.uncertain(branch.name, command)

    def take_unknown(self, command: Command) -> None:
        """A command whose variables have no value here."""
        self.found.faults.append(command)
        if command.name in _DEFAULTED or "$" in command.name:
            self.found.complete = False
        if command.name == "timestep":
            self.found.time_fault = f"the timestep command is not evaluable: {command.fault}"

    def uncertain(self, name: str, command: Command) -> None:
        """A setting that an `if` or `run every` may change on the way."""
        if name == "timestep":
            self.found.time_fault = f"a {command.name} command changes the timestep on the way"
        else:
            self.found.complete = False

    def ran(self, command: Command) -> None:
        """Steps are taken at the timestep in effect (`run 0` and `rerun` take none)."""
        self.found.runs.append(" ".join((command.name, *command.args)))
        self.found.normalized.add(self.normalize)
        if command.name == "minimize":
            self.minimized = True
        elif self.minimized:
            self.minimized = False
            self.shift("steps of a minimization take no time, and only the log says how many there were")
        if command.name == "rerun" or (command.name == "run" and command.args[:1] == ("0",)):
            return
        self.since_reset.add(self.timestep)
        self.found.timesteps.add(self.timestep)
        for entry in self.open.values():
            entry.used.add(self.timestep)

    def shift(self, why: str) -> None:
        """From here on the time is not the step times the timestep."""
        self.shifted = why
        for entry in self.open.values():
            entry.shifted = why

    def take_units(self, command: Command) -> None:
        if command.args[0] not in UNITS:
            self.found.complete = False
            raise ValueError
        self.found.units = command.args[0]

    def take_atom_style(self, command: Command) -> None:
        words = [_SUFFIX.sub("", command.args[0]), *command.args[1:]]
        self.found.atom_style = " ".join(words)

    def take_timestep(self, command: Command) -> None:
        self.timestep = float(command.args[0])

    def take_reset_timestep(self, command: Command) -> None:
        self.since_reset = set()
        self.minimized, self.shifted = False, ""
        if "time" in command.args:
            self.shift("reset_timestep sets a time of its own")

    def take_read_data(self, command: Command) -> None:
        self.found.data.append((command.args[0], command.args[1:]))

    def take_read_restart(self, command: Command) -> None:
        self.found.restarted = True

    def take_write_data(self, command: Command) -> None:
        self.found.written.append(command.args[0])

    def take_create_box(self, command: Command) -> None:
        self.found.created = True
        self.found.types = int(command.args[0])

    def take_create_atoms(self, command: Command) -> None:
        self.found.created = True

    def take_log(self, command: Command) -> None:
        if command.args[0] != "none" and command.args[0] not in self.found.logs:
            self.found.logs.append(command.args[0])

    def take_mass(self, command: Command) -> None:
        self.found.masses.append((command.args[0], float(command.args[1])))

    def take_labelmap(self, command: Command) -> None:
        if command.args[0] == "atom":
            pairs = command.args[1:]
            self.found.labels.update((int(n), label) for n, label in zip(pairs[::2], pairs[1::2], strict=True))
        elif command.args[0] == "clear":
            self.found.labels.clear()

    def take_thermo_style(self, command: Command) -> None:
        self.normalize = None
        self.found.kept["thermo_style"] = " ".join(command.args)

    def take_thermo_modify(self, command: Command) -> None:
        if "norm" in command.args:
            self.normalize = command.args[command.args.index("norm") + 1] == "yes"

    def take_fix(self, command: Command) -> None:
        style = command.args[2]
        self.found.fixes.append(style)
        if style == "dt/reset":
            self.found.time_fault = "fix dt/reset changes the timestep on the way"
        if _CHANGING_FIXES.match(style):
            self.found.changed.append(f"fix {style}")

    def take_dump(self, command: Command) -> None:
        name, group, style, every, file, *attributes = command.args
        dump = DumpCommand(name, group, style, every, file, tuple(attributes), command.text)
        entry = _OpenDump(dump, set(self.since_reset), shifted=self.shifted)
        self.open[name] = entry
        self.dumps.append(entry)

    def take_dump_modify(self, command: Command) -> None:
        name, *words = command.args
        if name in self.open:
            self.open[name].modified += tuple(words)
        if name in self.open and "append" in words:
            self.open[name].append = words[words.index("append") + 1] == "yes"

    def take_undump(self, command: Command) -> None:
        self.open.pop(command.args[0], None)

    def take_echo(self, command: Command) -> None:
        if self.executed and command.args[0] in ("none", "screen"):
            self.found.complete = False

    def finish(self) -> Settings:
        """Return the settings, each dump with the timesteps it saw."""
        self.found.dumps = [
            replace(
                entry.dump,
                timesteps=frozenset(entry.used),
                append=entry.append,
                modified=entry.modified,
                shifted=entry.shifted,
            )
            for entry in self.dumps
        ]
        for name in ("fixes", "coefficients", "skipped", "changed"):
            setattr(self.found, name, list(dict.fromkeys(getattr(self.found, name))))
        return self.found


def merged_settings(script: Script | None, logs: Sequence[Log], report: Report) -> Settings | None:
    """Return what the commands say: those a whole log echoes, else the script's; the other fills in what these leave
    open.
    """
    typed = None if script is None else settings_of(script.commands, complete=not script.missing)
    executed = [command for log in logs for command in log.commands]
    ran = settings_of(executed, complete=echo_everything(logs), executed=True) if executed else None
    if typed is None or ran is None:
        settings = typed or ran
    else:
        base, other = (ran, typed) if ran.complete else (typed, ran)
        _disagreements(typed, ran, base is ran, report)
        settings = base.supplemented(other)
    if settings is not None and settings.complete and (settings.data or settings.created):
        if settings.units is None:
            settings.units = "lj"
            report.derived("units", "lj: the commands state none, and LAMMPS takes these")
        settings.atom_style = settings.atom_style or "atomic"
    for command in settings.faults if settings is not None else ():
        if command.name in ("units", "atom_style", "timestep", "dump", "read_data", "mass"):
            report.warn(
                f"{command.where}: {command.text!r} is not taken into account: {command.fault or 'not understood'}"
            )
    return settings


def _disagreements(typed: Settings, ran: Settings, log_counts: bool, report: Report) -> None:
    taken = "the log counts" if log_counts else "the script counts"
    for what, mine, theirs in (
        ("units", typed.units, ran.units),
        ("atom_style", typed.atom_style, ran.atom_style),
        ("read_data", typed.data[0][0] if typed.data else None, ran.data[0][0] if ran.data else None),
    ):
        if mine is not None and theirs is not None and mine != theirs:
            report.warn(f"the script says {what} {mine}, the log {what} {theirs}; {taken}")
    mine_steps, their_steps = typed.timesteps - {None}, ran.timesteps - {None}
    if mine_steps and their_steps and not typed.time_fault and not their_steps <= mine_steps:
        report.warn(f"the script says timestep {_listed(mine_steps)}, the log timestep {_listed(their_steps)}; {taken}")


def _listed(values: set[float | None]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(value for value in values if value is not None))
