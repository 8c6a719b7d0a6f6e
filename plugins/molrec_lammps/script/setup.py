"""The commands of a run that its energies or its start need beside the force field: `method.setup` of a record.

Variables are substituted, of a log with all commands those count that ran (what an `if` executed among them); groups
and variables are there where another of these commands, or the force field, names them. What only moves atoms,
measures or prints is left out. Source: the manual, "General commands", "Fix commands"; LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from molrec_convert.errors import UnsupportedError
from molrec_lammps.common.commands import COEFFICIENTS
from molrec_lammps.script.lines import quoted, strip_comment
from molrec_lammps.script.script import Command, find_file, plain_name

__all__ = ["ALTERING", "RunSetup", "alterations", "setup_of"]

#: Commands that change atoms, bonds or the cell. The file that a later `write_data` makes has what they did.
ALTERING = frozenset(
    {
        *("change_box", "create_atoms", "create_bonds", "delete_atoms", "delete_bonds", "displace_atoms", "replicate"),
        *("read_dump", "reset_atoms", "reset_ids", "reset_atom_ids", "reset_mol_ids", "set"),
    }
)
#: Commands whose effect on the energy, or on whether LAMMPS starts, holds on.
_SETTINGS = frozenset({"atom_modify", "comm_modify", "neighbor", "neigh_modify", "timestep"})
#: Fixes that move atoms, thermostat, measure or print: none is part of the energy. Names as they begin.
_IDLE = re.compile(
    r"(nve|nvt|npt|nph|nvk|langevin|temp/|press/|ave/|print|vector|store|halt|balance|momentum|recenter|dt/reset|"
    r"deform|move|enforce2d|lineforce|planeforce|setforce|freeze|viscous|brownian|gld|gle|rigid|poems|heat|ehex|"
    r"thermal|viscosity|phonon|srd|pimd|ipi|nphug|msst|qbmsst|qtb|bocs|append|deposit|pour|evaporate|gcmc|tfmc|widom|"
    r"atom/swap|bond/(break|create|swap|react)|reaxff/(bonds|species)|cmap$|flow|controller|tune|lb/|ttm|mvv|bd|"
    r"pair$|neb|sgcmc|event|nonaffine|box/relax|cfd|shardlow|ffl|pafi|grem|hyper)"
)
_VARIABLE = re.compile(r"v_(\w+)")


@dataclass
class RunSetup:
    """The commands as text, in their order, and the sha256 of files that they name."""

    commands: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def alterations(commands: Sequence[Command], data: str | Path | None) -> list[Command]:
    """Return the commands that alter the system after the data file has been read, or written by the run itself.

    None where the commands name another file than `data`: a file that was made for the record is what it says.
    """
    place = _place(commands, data)
    return [] if place is None else [command for command in commands[place + 1 :] if command.name in ALTERING]


def _place(commands: Sequence[Command], data: str | Path | None) -> int | None:
    """Where in the commands the state of the data file is."""
    if data is None:
        return None
    name = plain_name(data)
    named = [n for n, c in enumerate(commands) if c.args and plain_name(c.args[0]) == name]
    written = [n for n in named if commands[n].name == "write_data"]
    read = [n for n in named if commands[n].name == "read_data"]
    return written[-1] if written else read[0] if read else None


def setup_of(
    commands: Sequence[Command], data: str | Path | None, folders: Sequence[Path], *, executed: bool, made: bool
) -> RunSetup:
    """Return what of the `commands` counts for the energies of the record.

    `executed`: they are those that ran. `made`: the frames are a dump's, which has what moved atoms and cell.
    """
    altered = {id(command) for command in alterations(commands, data)}
    counted = {command.args[0] for command in commands if _adds_energy(command)}
    found: dict[str, Command] = {}
    fixes: dict[str, list[str]] = {}
    for command in commands:
        if command.name in ("fix", "unfix") and command.args:
            for text in fixes.pop(command.args[0], []):
                found.pop(text, None)
        if _counts(command, altered, counted, made=made):
            text = _text(command)
        elif not executed and any(_counts(branch, altered, counted, made=made) for branch in command.branches):
            text = strip_comment(command.text).strip()
        else:
            continue
        if command.name in ("fix", "fix_modify"):
            fixes.setdefault(command.args[0], []).append(text)
        found.pop(text, None)
        found[text] = command
    kept = _with_names(commands, found)
    return RunSetup(kept, _sums(kept, folders))


def _counts(command: Command, altered: set[int], counted: set[str], *, made: bool) -> bool:
    """True if the energy, or the start, of the record's state needs the command. `counted`: fixes with an energy."""
    name, args = command.name, command.args
    if name in ALTERING:
        return id(command) in altered and (name == "delete_bonds" or not made)
    if name == "fix":
        return len(args) > 2 and args[2] != "cmap" and (args[0] in counted or not _IDLE.match(args[2]))
    return name in _SETTINGS or _adds_energy(command)


def _adds_energy(command: Command) -> bool:
    """True for `fix_modify ID energy yes`: the energy of the fix is part of the potential energy."""
    words = command.args
    return command.name == "fix_modify" and "energy" in words and words[words.index("energy") + 1 :][:1] == ("yes",)


def _with_names(commands: Sequence[Command], found: dict[str, Command]) -> list[str]:
    """The texts, in the order of the commands, with the groups and variables they and the force field name."""
    kept = {id(command): text for text, command in found.items()}
    naming = (*COEFFICIENTS, "atom_style")
    words = [word for command in commands if id(command) in kept or command.name in naming for word in command.args]
    while True:
        names = {match for word in words for match in _VARIABLE.findall(word)}
        more = [
            command
            for command in commands
            if id(command) not in kept and command.args and _defines(command, names, set(words))
        ]
        if not more:
            break
        for command in more:
            kept[id(command)] = _text(command)
            words += command.args[1:]
    texts = [kept[id(command)] for command in commands if id(command) in kept]
    last = {text: place for place, text in enumerate(texts)}
    return [text for place, text in enumerate(texts) if last[text] == place]


def _defines(command: Command, variables: set[str], words: set[str]) -> bool:
    if command.name == "variable":
        return command.args[0] in variables
    return command.name in ("group", "molecule") and command.args[0] in words


def _sums(commands: Sequence[str], folders: Sequence[Path]) -> dict[str, str]:
    """The sha256 of each file that a word of a fix, or of a molecule template, names."""
    found: dict[str, str] = {}
    for text in commands:
        first = {"fix": 4, "molecule": 2}.get(text.partition(" ")[0])
        for word in () if first is None else text.split()[first:]:
            path = find_file(word, folders) if not word.replace(".", "").isdigit() else None
            if path is not None:
                found[word] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _text(command: Command) -> str:
    """The command with its variables substituted; as typed where they have no value."""
    if not command.fault:
        try:
            return " ".join([command.name, *map(quoted, command.args)])
        except UnsupportedError:
            pass
    return strip_comment(command.text).strip()
