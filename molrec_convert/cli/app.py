"""The group of all commands. Each one's module is imported when it runs, so that `mrec --help` is quick."""

from __future__ import annotations

import difflib
import importlib
from typing import cast

import click

from molrec_convert._version import __version__
from molrec_convert.cli.output import print_lines, print_message

__all__ = ["App"]

#: Name → module and what it does, in the order they are listed.
COMMANDS = {
    "convert": ("convert", "Convert a file, a run directory or a record to another format."),
    "migrate": ("migrate", "Make one collection of many files, runs and databases; resumable."),
    "info": ("records", "Show what a record or a file holds, reading its metadata only."),
    "tree": ("records", "Show the tree of a stored record: groups, arrays, attributes."),
    "validate": ("records", "Check a stored record against every rule of the contract."),
    "pack": ("records", "Pack a record's directory into one file."),
    "unpack": ("records", "Unpack a packed record into a directory."),
    "diff": ("records", "Compare two records by what they hold, not how they are stored."),
    "join": ("convert", "Write runs that follow one another in time as one record."),
    "merge": ("collections", "Write several collections as one, without decoding them."),
    "select": ("collections", "Write the records of a collection that fit a condition."),
    "split": ("collections", "Divide a collection at random: train, valid, test."),
    "stats": ("collections", "Show counts, ranges, elements and histograms of a collection."),
    "verify": ("collections", "Check a collection against its source files."),
    "formats": ("formats", "List the formats, what each reads and writes, and what it loses."),
    "new-plugin": ("new_plugin", "Write a plugin for a new format, with tests that it passes."),
}

_EPILOG = """\b
Examples:
  mrec convert rundir run.mrec          a LAMMPS run becomes a record
  mrec info run.mrec                    what it holds
  mrec validate run.mrec && mrec pack run.mrec

Exit codes: 0 done, 1 faulty input, 2 usage error, 3 refused because something would be lost, 4 some inputs failed.
"""

_VERBOSE = "molrec_convert.verbose"


class App(click.Group):
    """`mrec`: the commands of the package, and those that plugins add."""

    def __init__(self) -> None:
        super().__init__(
            name="mrec",
            help="Convert molecular simulation data to and from MolRec records.",
            epilog=_EPILOG,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            params=[
                click.Option(
                    ["--version"],
                    is_flag=True,
                    expose_value=False,
                    help="Show the version and exit.",
                    callback=_show_version,
                ),
                click.Option(
                    ["-v", "--verbose"],
                    is_flag=True,
                    expose_value=False,
                    is_eager=True,
                    help="With --version: show which code reads rows of text, too.",
                    callback=_note_verbose,
                ),
            ],
            no_args_is_help=False,
        )
        self._extended = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, ours first."""
        self._extend()
        return [*COMMANDS, *sorted(name for name in self.commands if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name."""
        if cmd_name in COMMANDS:
            module = importlib.import_module(f"molrec_convert.cli.{COMMANDS[cmd_name][0]}")
            found = getattr(module, f"{cmd_name.replace('-', '_')}_command")
            # What depends on the formats there are is made when it is asked for.
            return cast(click.Command, found if isinstance(found, click.Command) else found())
        self._extend()
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command `args` begin with; an unknown one is an error that names the nearest."""
        name = args[0]
        if self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise click.UsageError(f"there is no command {name!r}, {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing ours."""
        rows = []
        for name in self.list_commands(ctx):
            command = None if name in COMMANDS else self.commands[name]
            rows.append((name, COMMANDS[name][1] if command is None else command.get_short_help_str()))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _extend(self) -> None:
        """Let plugins add their commands."""
        if self._extended:
            return
        self._extended = True
        from molrec_convert.plugins import plugin_manager

        manager = plugin_manager()
        for name, plugin in manager.list_name_plugin():
            if not hasattr(plugin, "molrec_commands"):
                continue
            others = [p for n, p in manager.list_name_plugin() if n != name and p is not None]
            try:
                manager.subset_hook_caller("molrec_commands", others)(app=self)
            except Exception as error:  # foreign code: whatever it raises, our commands go on
                print_message(f"warning: the plugin {name!r} adds no commands: {sentence_of(error)}")
        show_problems()


def show_problems() -> None:
    """Print a warning for each plugin that was skipped, unless the command is quiet."""
    from molrec_convert.cli.reporting import is_quiet
    from molrec_convert.plugins import problems

    if is_quiet():
        return
    for text in problems():
        print_message(f"warning: {' '.join(text.split())}")


def sentence_of(error: Exception) -> str:
    """Return what a plugin raised, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        lines = [f"molrec-convert {__version__}"]
        if ctx.meta.get(_VERBOSE):
            from molrec_convert._kernel import status

            lines.append(f"rows of text: {status()}")
        print_lines(lines)
        ctx.exit()


def _note_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_VERBOSE] = value
