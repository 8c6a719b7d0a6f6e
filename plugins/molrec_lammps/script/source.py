"""What keeps a script from being the source of a system, and the way out.

Read without LAMMPS a script says what a system is only through `read_data` and through commands whose words are known.
"""

from __future__ import annotations

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_lammps.script.script import Command, Script, find_file
from molrec_lammps.script.setup import ALTERING

__all__ = ["BUILDING", "check_source"]

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
    """Whether a `jump` goes to another file, which was followed."""
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
