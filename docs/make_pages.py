"""Write the pages that come from the program itself: `python docs/make_pages.py`.

`command-line.md` from the help of every command, `formats.md` from the format descriptors, the blocks of `layout.md`
from stores (`make_layout.py`), `meaning.md` from the matrix of the tests (`make_meaning.py`). A test fails when a page
and the program differ.
"""

from __future__ import annotations

from pathlib import Path

import click
from make_layout import layout_page
from make_meaning import meaning_page

from molrec_convert.cli.app import COMMANDS, App
from molrec_convert.formats import Format, options_of
from molrec_convert.plugins import formats

HERE = Path(__file__).parent
#: The formats the distribution itself brings; plugins of others document themselves.
OURS = (
    *("mrec", "mrec-zip", "mrec-lmdb"),
    *("lammps-data", "lammps-dump", "lammps-run", "lammps-settings", "lammps-ave-time"),
    *("extxyz", "xyz", "ase-db", "ase-traj", "pdb", "mmcif", "mdanalysis"),
)

_COMMAND_LINE = """# Command line

`mrec` and `molrec-convert` are one program. Reports, warnings and progress go to standard error, results to standard
output; progress is shown on a terminal only. A report is a line for each kind of thing: `--verbose` lists every item,
carried ones too, `--quiet` shows errors only, and `--report FILE` has all of it in any case.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the input or a record is at fault |
| 2 | the call is wrong |
| 3 | refused: the conversion would lose something (`--strict`) |
| 4 | part of a batch failed |
| 130 | interrupted; the message says whether it can continue |
| 141 | whoever reads the output has gone |

A target has one writer at a time: a second command with the same target ends with exit code 2 and says which process is
at it, since when. TARGET has its name only when all of it is on the disk; what --overwrite replaces stands until then.
"""


def command_line() -> str:
    """Every command's help."""
    app = App()
    parts = [_COMMAND_LINE]
    with click.Context(app, info_name="mrec", **app.context_settings) as context:
        for name in COMMANDS:
            command = app.get_command(context, name)
            assert command is not None
            with click.Context(command, info_name=name, parent=context, terminal_width=100) as inner:
                parts.append(f"## mrec {name}\n\n```text\n{command.get_help(inner).rstrip()}\n```\n")
    return "\n".join(parts)


def formats_page() -> str:
    """Every format's descriptor."""
    parts = ["# Formats\n\nWhat is read and written, and how each section of a record fares.\n"]
    for name in OURS:
        if name in formats():
            parts.append(_format(formats()[name]))
    return "\n".join(parts)


def _format(entry: Format) -> str:
    ways = [way for way, there in (("read", entry.reads), ("written", entry.writes)) if there is not None]
    lines = [f"## {entry.title}: `{entry.name}`\n"]
    names = f" Names: {' '.join(f'`{p}`' for p in entry.patterns)}." if entry.patterns else ""
    extra = f" Install `molrec-convert[{entry.extra}]`." if entry.extra else ""
    lines.append(f"Is {' and '.join(ways)}.{names}{extra}\n")
    lines += ["| section | read | written |", "|---|---|---|"]
    for section, capability in entry.carries.items():
        lines.append(
            f"| `{section}` | {_word(entry.reads, capability.read)} | {_word(entry.writes, capability.write)} |"
        )
    options = {o.flag: o for cls in (entry.read_options, entry.write_options) for o in options_of(cls)}
    if options:
        lines += ["", "| option | |", "|---|---|", *(f"| `{flag}` | {o.help} |" for flag, o in options.items())]
    return "\n".join(lines) + "\n"


def _word(way: object, capability: str) -> str:
    if way is None or capability == "none":
        return "–"
    return capability


PAGES = {
    "command-line.md": command_line,
    "formats.md": formats_page,
    "layout.md": layout_page,
    "meaning.md": meaning_page,
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).write_text(make(), encoding="utf-8")
