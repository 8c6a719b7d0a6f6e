"""The options of all formats as flags of a command. The same option of several formats is one flag."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from click.core import ParameterSource

from molrec_convert.formats import Format, Option, options_of

__all__ = ["FormatCommand", "FormatFlag", "format_flags", "given"]


@dataclass
class FormatFlag:
    """One flag: what the option is, and the names of the formats that have it."""

    option: Option
    formats: list[str] = field(default_factory=list)

    @property
    def parameter(self) -> click.Option:
        """The flag as click knows it; its name in the code is that of the option."""
        option = self.option
        text = f"{option.help} [{', '.join(self.formats)}]"
        if option.kind is bool:
            return click.Option([option.flag, option.name], is_flag=True, flag_value=not option.default, help=text)
        if option.kind is tuple:
            metavar = option.metavar or "A,B,C"
            return click.Option([option.flag, option.name], callback=words, metavar=metavar, help=text)
        kind: Any = click.Choice(option.choices) if option.choices else option.kind
        return click.Option([option.flag, option.name], type=kind, metavar=option.metavar, help=text)


class FormatCommand(click.Command):
    """A command with `parameters` of its own and the options of all formats, which have a section of their own."""

    def __init__(self, parameters: Sequence[click.Parameter], flags: list[FormatFlag], **settings: Any) -> None:
        self.flags = flags
        self._of_formats = [flag.parameter for flag in flags]
        super().__init__(**settings, params=[*parameters, *self._of_formats])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Two sections of options."""
        ours = [p for p in self.get_params(ctx) if p not in self._of_formats and isinstance(p, click.Option)]
        for title, parameters in (("Options", ours), ("Options of formats", self._of_formats)):
            rows = [row for row in (parameter.get_help_record(ctx) for parameter in parameters) if row is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def words(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Return the words of a comma-separated list, blanks left off; none may be missing between two commas."""
    if value is None or not value.strip():
        return None if value is None else ()
    found = tuple(word.strip() for word in value.split(","))
    if not all(found):
        raise click.BadParameter(f"{value!r} has nothing between two commas, or at an end", context, parameter)
    return found


def format_flags(formats: Iterable[Format], taken: Collection[str]) -> list[FormatFlag]:
    """One flag for each option that some format has, ours (`taken`) left out."""
    flags: dict[str, FormatFlag] = {}
    for entry in formats:
        for cls in (entry.read_options, entry.write_options):
            for option in options_of(cls):
                if option.name in taken:
                    continue
                flag = flags.setdefault(option.name, FormatFlag(option))
                if entry.name not in flag.formats:
                    flag.formats.append(entry.name)
                if flag.option.choices and option.choices:
                    merged = tuple(dict.fromkeys((*flag.option.choices, *option.choices)))
                    flag.option = Option(
                        option.name, flag.option.kind, flag.option.default, flag.option.help, merged, option.metavar
                    )
    return list(flags.values())


def given(context: click.Context, names: Iterable[str]) -> dict[str, Any]:
    """The values of those options that stand on the command line."""
    return {
        name: context.params[name]
        for name in names
        if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    }
