"""Input scripts as ordered commands, read and never run, and those of them that set a run up.

Variables that have a value without running LAMMPS are substituted; `include` and an unconditional `jump` to another
file are followed. A command that cannot be evaluated keeps its words as typed and says why in `fault`: reading a
script refuses nothing. Control flow (`if`, `next`, `label`, `jump SELF`) is recognised and not followed; what an `if`
or a `run ... every` may execute is kept in `branches`.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.text.compression import unreadable
from molrec_lammps.common.commands import COEFFICIENTS, COMMANDS
from molrec_lammps.common.text import Cursor
from molrec_lammps.data.header import read_header
from molrec_lammps.detect import read_head
from molrec_lammps.script.syntax import (
    LogicalLine,
    NotEvaluable,
    Variables,
    decode,
    logical_lines,
    quoted,
    split_words,
    strip_comment,
)

__all__ = [
    "ALTERING",
    "BUILDING",
    "COMPRESSED",
    "Command",
    "RunSetup",
    "Script",
    "alterations",
    "check_source",
    "find_file",
    "parse_line",
    "parse_script",
    "plain_name",
    "read_script",
    "setup_of",
]

#: What compression programs add to a name.
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
#: Commands that say how the box is taken: one that is shrunk to the atoms is not that of the file.
_BOX_SETTINGS = frozenset({"boundary", "dimension"})
#: Commands behind which the box, or the number of atoms, may be another.
_CHANGING_BOX = frozenset(
    {
        *("change_box", "clear", "create_atoms", "create_bonds", "create_box", "delete_atoms", "delete_bonds"),
        *("minimize", "read_dump", "read_restart", "replicate", "rerun", "run", "temper", "neb"),
    }
)
#: LAMMPS itself stops at 16 nested files.
_DEEPEST = 16


@dataclass(frozen=True)
class Command:
    """One command: `name` and `args` substituted, `raw_args` and `text` as typed, where it stands.

    With a `fault` (why it could not be evaluated) `args` are the words as typed.
    """

    name: str
    args: tuple[str, ...]
    text: str
    path: Path
    line: int
    raw_args: tuple[str, ...] = ()
    fault: str = ""
    branches: tuple[Command, ...] = ()

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.path}, line {self.line}"


@dataclass
class Script:
    """The commands of a script in the order they stand, the files they came from, and named files that are missing."""

    path: Path
    commands: list[Command] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def read_script(path: Path, directory: Path | None = None) -> Script:
    """Read a script and the files it includes; `directory` is where LAMMPS ran (default: where the script is)."""
    try:
        text = decode(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error
    return parse_script(text, path, directory)


def parse_script(text: str, path: Path, directory: Path | None = None) -> Script:
    """Parse the text of a script that stands (or might stand) at `path`."""
    reader = _Reader(Script(path), [directory or path.parent, path.parent], Variables(_advancing(text)))
    reader.read(text, path)
    return reader.script


def parse_line(text: str, path: Path, line: int, variables: Variables | None = None) -> Command | None:
    """Return one command from its joined text, None for a blank or comment line; only `variables` make it
    substitute.
    """
    bare = strip_comment(text)
    fault = ""
    substituted = bare
    if variables is not None:
        try:
            substituted = variables.substitute(bare)
        except NotEvaluable as error:
            fault = str(error)
    try:
        words = split_words(substituted)
        raw = words if substituted == bare else split_words(bare)
    except NotEvaluable as error:
        fault = fault or str(error)
        words = raw = bare.split()
    if not words or not words[0]:
        return None
    command = Command(words[0], tuple(words[1:]), text.strip(), path, line, tuple(raw[1:]), fault)
    branches = tuple(_branches(command))
    return replace(command, branches=branches) if branches else command


def plain_name(path: str | Path) -> str:
    """Return a file's name without the suffix of a compression."""
    name = Path(path).name
    return next((name.removesuffix(suffix) for suffix in COMPRESSED if name.endswith(suffix)), name)


def find_file(name: str, directories: Iterable[Path]) -> Path | None:
    """Return the file a script means by `name`: as it stands, else its last part in one of the `directories`.

    A file that was compressed since (`name.gz`) counts where the plain one is not there.
    """
    directories = list(directories)
    places = [*(folder / name for folder in directories), *(folder / Path(name).name for folder in directories)]
    for suffix in ("", *COMPRESSED):
        for place in places:
            candidate = place.with_name(place.name + suffix) if place.name else place
            with contextlib.suppress(OSError):  # a name no file can have
                if candidate.is_file():
                    return candidate
    return None


class _Reader:
    def __init__(self, script: Script, directories: Sequence[Path], variables: Variables) -> None:
        self.script = script
        self.directories = directories
        self.variables = variables
        self.depth = 0
        self.stopped = False
        self.fixed_box = True

    def read(self, text: str, path: Path) -> None:
        """Take in one file; `stopped` is set where an unconditional `quit` or `jump` ends the script."""
        if path not in self.script.files:
            self.script.files.append(path)
        self.depth += 1
        for line in logical_lines(text):
            self.take(line, path)
            if self.stopped:
                break
        self.depth -= 1

    def take(self, line: LogicalLine, path: Path) -> None:
        command = parse_line(line.text, path, line.first, self.variables)
        if command is None:
            return
        self.script.commands.append(command)
        self.know_box(command)
        if command.name == "variable":
            self.define(command)
        elif command.name in ("include", "jump"):
            self.follow(command, path)
        elif command.name == "quit":
            self.stopped = True
        for branch in command.branches:
            if branch.name == "variable" and branch.args:
                self.variables.forget(branch.args[0], f"is set by the {command.name} command in line {line.first}")

    def know_box(self, command: Command) -> None:
        """What formulas may say of the box: that of a data file, until a command may change it."""
        name, args = command.name, command.args
        if name in _BOX_SETTINGS:
            self.fixed_box = self.fixed_box and bool(args) and args[0] != "2" and set("".join(args)) <= set("pf3")
        elif name in _CHANGING_BOX:
            self.variables.keywords = {}
        elif name == "read_data" and args and not command.fault:
            path = find_file(args[0], self.directories) if self.fixed_box and "add" not in args else None
            self.variables.keywords = {} if path is None else _keywords(path)

    def define(self, command: Command) -> None:
        if command.fault and command.args:
            self.variables.forget(command.args[0], f"has no value outside a running LAMMPS: {command.fault}")
        else:
            self.variables.define(command.args)

    def follow(self, command: Command, path: Path) -> None:
        """Go on in another file: back after an `include`, for good after a `jump`."""
        if not command.args or command.args[0] == "SELF":
            return
        name, *label = command.args
        if command.name == "include" and not command.fault:
            name = self.substituted(command, name)
        target = None if command.fault else find_file(name, self.directories)
        if target is None:
            self.script.missing.append(name)
            return
        if self.depth >= _DEEPEST or (command.name == "jump" and target in self.script.files):
            return
        try:
            text = decode(target.read_bytes())
        except OSError:
            self.script.missing.append(name)
            return
        if command.name == "jump" and label:
            text = _from_label(text, label[0])
        self.read(text, target)
        self.stopped = self.stopped or command.name == "jump"

    def substituted(self, command: Command, name: str) -> str:
        """Return the file an `include` names: it alone takes variables between quotes too."""
        try:
            name = self.variables.substitute(name)
        except NotEvaluable:
            return name
        self.script.commands[-1] = replace(command, args=(name, *command.args[1:]))
        return name


def _keywords(path: Path) -> dict[str, float]:
    """Return the thermo keywords that the header of a data file tells, {} where it is none."""
    try:
        return read_header(str(path), Cursor(read_head(path))).keywords()
    except FormatError:
        return {}


def _advancing(text: str) -> set[str]:
    """Return names a `next` command moves on, in this text or in what an `if` of it executes."""
    names: set[str] = set()
    for line in text.splitlines():
        words = line.replace('"', " ").replace("'", " ").split()
        for position, word in enumerate(words):
            if word == "next" and (position == 0 or words[0] in ("if", "partition", "run")):
                names.update(words[position + 1 :])
    return names


def _from_label(text: str, label: str) -> str:
    """Return the text from `label LABEL` on, earlier lines blanked so that line numbers stay."""
    for line in logical_lines(text):
        if strip_comment(line.text).split() == ["label", label]:
            lines = text.split("\n")
            return "\n" * (line.first - 1) + "\n".join(lines[line.first - 1 :])
    return text


def _branches(command: Command) -> Iterable[Command]:
    """Yield what an `if`, `run ... every` or `partition` may execute."""
    args = command.args
    if command.name == "if":
        words = [word for word in args[1:] if word not in ("then", "elif", "else")]
    elif command.name == "run" and "every" in args:
        words = list(args[args.index("every") + 2 :])
    elif command.name == "partition" and len(args) > 2:
        words = [" ".join(args[2:])]
    else:
        return
    for word in words:
        inner = parse_line(word, command.path, command.line)
        if inner is not None and inner.name in COMMANDS:
            yield inner


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
    """Return where in the commands the state of the data file is."""
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
    """Return true for `fix_modify ID energy yes`: the energy of the fix is part of the potential energy."""
    words = command.args
    return command.name == "fix_modify" and "energy" in words and words[words.index("energy") + 1 :][:1] == ("yes",)


def _with_names(commands: Sequence[Command], found: dict[str, Command]) -> list[str]:
    """Return the texts, in the order of the commands, with the groups and variables they and the force field name."""
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
    """Return the sha256 of each file that a word of a fix, or of a molecule template, names."""
    found: dict[str, str] = {}
    for text in commands:
        first = {"fix": 4, "molecule": 2}.get(text.partition(" ")[0])
        for word in () if first is None else text.split()[first:]:
            path = find_file(word, folders) if not word.replace(".", "").isdigit() else None
            if path is not None:
                found[word] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _text(command: Command) -> str:
    """Return the command with its variables substituted; as typed where they have no value."""
    if not command.fault:
        try:
            return " ".join([command.name, *map(quoted, command.args)])
        except UnsupportedError:
            pass
    return strip_comment(command.text).strip()


#: Commands that build atoms, change what a data file says of them, or bring them from elsewhere. What `delete_bonds`
#: takes out is in the setup of the run.
BUILDING = (ALTERING - {"delete_bonds"}) | {"create_box", "read_restart"}
_FLOW = {
    "if": "which commands an 'if' executes is known only to a running LAMMPS",
    "next": "loops are not followed",
    "jump": "loops are not followed",
    "partition": "what each partition executes is known only to a running LAMMPS",
    "python": "what Python code does is known only to a running LAMMPS",
}
#: What `shell` does itself without touching a file that a script may read.
_HARMLESS = frozenset({"mkdir", "rm", "rmdir", "putenv", "echo"})


def check_source(script: Script) -> None:
    """Refuse, with the line, a script that cannot be the source of a system on its own."""
    files = {path.name for path in script.files}
    box = False
    for command in script.commands:
        name, args = command.name, command.args
        if name in BUILDING:
            raise _refusal(script, command, "commands that build or change atoms are not carried out")
        if name in _FLOW and not (name == "jump" and not command.fault and args and _leads_on(args[0], files)):
            raise _refusal(script, command, _FLOW[name])
        if name == "include" and args and not _found(args[0], script):
            raise _missing(command, args[0])
        if name == "read_data" and args and not command.fault and not _found(args[0], script):
            raise _missing(command, args[0])
        if name == "shell" and args[:1] and args[0] not in _HARMLESS:
            raise _refusal(script, command, "other programs are not run")
        if name == "clear" and box:
            raise _refusal(script, command, "another system begins here, and a record holds one")
        box = box or name == "read_data"
    if not box:
        raise FormatError(
            script.path,
            "line 1",
            found="no read_data command in the script",
            expected="one, which says what the atoms are",
            hint=_way_out(script),
        )


def _leads_on(name: str, files: set[str]) -> bool:
    """True if a `jump` goes to another file, which was followed."""
    from pathlib import Path

    return name != "SELF" and Path(name).name in files


def _found(name: str, script: Script) -> bool:
    return find_file(name, [script.path.parent, *(path.parent for path in script.files)]) is not None


def _missing(command: Command, name: str) -> FormatError:
    return FormatError(
        command.path, f"line {command.line}", found=f"{command.name} {name}, which is not there", expected="the file"
    )


def _refusal(script: Script, command: Command, why: str) -> UnsupportedError:
    return UnsupportedError(f"{command.where}: {command.text!r}: {why}; {_way_out(script)}")


def _way_out(script: Script) -> str:
    return (
        "let LAMMPS write the system behind it ('write_data system.data' as the last line), and give the data file "
        f"beside the script: mrec convert {script.path.name} system.data out.mrec"
    )
