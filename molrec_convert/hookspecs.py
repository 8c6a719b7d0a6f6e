"""What a plugin may implement.

A plugin is a module (entry-point group `molrec_convert`) with some of these functions, each marked
`@molrec_convert.hookimpl`. All of them are optional.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from molrec_convert.formats import Format, ReadContext
    from molrec_convert.model.forcefield.styles import StyleDefinition
    from molrec_convert.model.record import Record
    from molrec_convert.quantities.dimensions import UnitConversion
    from molrec_convert.report import Report

hookspec = pluggy.HookspecMarker("molrec_convert")
hookimpl = pluggy.HookimplMarker("molrec_convert")


@hookspec
def molrec_formats() -> Iterable[Format]:  # type: ignore[empty-body]
    """Return the formats this plugin reads or writes."""


@hookspec
def molrec_record_read(record: Record, context: ReadContext) -> None:
    """Amend a record a reader has returned, or one taken out of a collection: guess elements, attach units, …

    Collections as a whole pass by.
    """


@hookspec
def molrec_record_written(record: Record, target: Path, report: Report) -> None:
    """Do something once a record (not a collection) is written under its final name."""


@hookspec
def molrec_units_converted(record: Record, source: Record, conversion: UnitConversion, report: Report) -> None:
    """Amend a record that has been made of `source` by a conversion of units: `record` has documents of both.

    Numbers in documents of the plugin (in `system.meta`, `method`, the document of a force field) are converted, or the
    document states their units; what can be neither is taken out and reported. `source` stays as it is. Where the
    units of the two force fields are the same, it has not been converted.
    """


@hookspec(firstresult=True)
def molrec_style_dimension(category: str, style: str, name: str, definitions: int) -> str | None:
    """Return the dimension of a parameter of a force-field style that is not in the registry, `energy/length**2`.

    `name` is a column of its table or a parameter of the style itself; "" is a pure number, None: not known.
    """


@hookspec
def molrec_commands(app: Any) -> None:
    """Add commands to the command line; `app` is its `click.Group`."""


@hookspec
def molrec_styles() -> Iterable[StyleDefinition]:  # type: ignore[empty-body]
    """Return force-field styles this plugin adds to the registry."""
