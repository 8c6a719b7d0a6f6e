"""From commands to settings: a walk over the commands of a script, or over those a log echoes, in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from molrec_lammps.common.commands import COEFFICIENTS, UNDERSTOOD
from molrec_lammps.common.units import UNITS
from molrec_lammps.run.settings import DumpCommand, Settings
from molrec_lammps.script.script import Command
from molrec_lammps.script.setup import ALTERING

__all__ = ["settings_of"]

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
        """The settings, each dump with the timesteps it saw."""
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
