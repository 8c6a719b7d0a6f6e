"""Input scripts as ordered commands: read, never run.

Variables that have a value without running LAMMPS are substituted; `include` and an unconditional `jump` to another
file are followed. A command that cannot be evaluated keeps its words as typed and says why in `fault`: reading a
script refuses nothing. Control flow (`if`, `next`, `label`, `jump SELF`) is recognised and not followed; what an `if`
or a `run ... every` may execute is kept in `branches`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from molrec_convert.errors import FormatError
from molrec_convert.text.compression import unreadable
from molrec_lammps.common.commands import COMMANDS
from molrec_lammps.common.text import Cursor
from molrec_lammps.data.header import read_header
from molrec_lammps.detect import read_head
from molrec_lammps.script.formula import NotEvaluable
from molrec_lammps.script.lines import LogicalLine, decode, logical_lines, split_words, strip_comment
from molrec_lammps.script.variables import Variables

__all__ = ["COMPRESSED", "Command", "Script", "find_file", "parse_line", "parse_script", "plain_name", "read_script"]

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
    """One command from its joined text, None for a blank or comment line; only `variables` make it substitute."""
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
    """A file's name without the suffix of a compression."""
    name = Path(path).name
    return next((name.removesuffix(suffix) for suffix in COMPRESSED if name.endswith(suffix)), name)


def find_file(name: str, directories: Iterable[Path]) -> Path | None:
    """The file a script means by `name`: as it stands, else its last part in one of the `directories`.

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
        """The file an `include` names: it alone takes variables between quotes too."""
        try:
            name = self.variables.substitute(name)
        except NotEvaluable:
            return name
        self.script.commands[-1] = replace(command, args=(name, *command.args[1:]))
        return name


def _keywords(path: Path) -> dict[str, float]:
    """The thermo keywords that the header of a data file tells, {} where it is none."""
    try:
        return read_header(str(path), Cursor(read_head(path))).keywords()
    except FormatError:
        return {}


def _advancing(text: str) -> set[str]:
    """Names a `next` command moves on, in this text or in what an `if` of it executes."""
    names: set[str] = set()
    for line in text.splitlines():
        words = line.replace('"', " ").replace("'", " ").split()
        for position, word in enumerate(words):
            if word == "next" and (position == 0 or words[0] in ("if", "partition", "run")):
                names.update(words[position + 1 :])
    return names


def _from_label(text: str, label: str) -> str:
    """The text from `label LABEL` on, earlier lines blanked so that line numbers stay."""
    for line in logical_lines(text):
        if strip_comment(line.text).split() == ["label", label]:
            lines = text.split("\n")
            return "\n" * (line.first - 1) + "\n".join(lines[line.first - 1 :])
    return text


def _branches(command: Command) -> Iterable[Command]:
    """What an `if`, `run ... every` or `partition` may execute."""
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
